"""How far a model may be believed: tests, patterns, intervals, stable and safe maps.

Every function takes an estimator and data, changes neither, and returns a small
frozen result that `sltr.plotting` draws.
"""

from sltr.inference.conformal import Intervals, LabelSets, intervals
from sltr.inference.error_control import Significant, significant
from sltr.inference.haufe import Patterns, patterns
from sltr.inference.permutation import PermutationTest, permutation_test
from sltr.inference.subsampling import Stability, stability

__all__ = [
    "Intervals",
    "LabelSets",
    "Patterns",
    "PermutationTest",
    "Significant",
    "Stability",
    "intervals",
    "patterns",
    "permutation_test",
    "significant",
    "stability",
]
