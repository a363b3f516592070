"""A user's program, checked by mypy --strict from outside the package; never run."""

from typing import assert_type

import numpy as np

import sltr
from sltr import SLTRClassifierCV, SLTRRegressorCV
from sltr.inference import PermutationTest, permutation_test


def program() -> None:
    X = np.zeros((30, 4, 3))
    y = np.zeros(30)

    model = SLTRRegressorCV(cv=5, rule="best").fit(X, y)
    assert_type(model, SLTRRegressorCV)
    labels = SLTRClassifierCV().fit(X, y > 0)
    assert_type(labels, SLTRClassifierCV)
    score: float = model.score(X, y)
    test = permutation_test(model, X, y)
    assert_type(test, PermutationTest)
    p: float = test.p_value
    path = sltr.save(model, "model.sltr")
    print(path.name, score, p)
