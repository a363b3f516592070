"""How far a model may be believed: tests, patterns, intervals, stable and safe maps.

Every function takes an estimator and data, changes neither, and returns a small
frozen result that `sltr.plotting` draws.
"""

from sltr.inference.intervals import Intervals, LabelSets, intervals
from sltr.inference.patterns import Patterns, patterns
from sltr.inference.permutation import PermutationTest, permutation_test

__all__ = [
    "Intervals",
    "LabelSets",
    "Patterns",
    "PermutationTest",
    "intervals",
    "patterns",
    "permutation_test",
]
