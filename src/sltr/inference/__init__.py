"""How far a model may be believed: tests, patterns, intervals, stable and safe maps.

Every function takes an estimator and data, changes neither, and returns a small
frozen result that `sltr.plotting` draws.
"""

from sltr.inference.patterns import Patterns, patterns
from sltr.inference.permutation import PermutationTest, permutation_test

__all__ = [
    "Patterns",
    "PermutationTest",
    "patterns",
    "permutation_test",
]
