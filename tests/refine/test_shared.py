"""Low-rank refits of one tensor for all responses."""

import numpy as np
import pytest

from sltr.refine.factors import Unfoldings, unfoldings
from sltr.refine.low_rank import CPStep, Sweeps, TuckerStep
from sltr.refine.shared import SharedSweeps
from sltr.refine.subsets import Subsets


def centred(values, weight):
    return values - np.average(values, axis=0, weights=weight)


def problems(rng, shape, shape_out, weights):
    """Return the shared problem, and one item after another as plain samples.

    A sample with K responses is K samples, each zero but for its response's place.
    """
    n, k = weights.shape[1], int(np.prod(shape_out))
    X = rng.normal(size=(n, *shape)) + 1.0
    Y = rng.normal(size=(n, k)) + 2.0
    variance = rng.uniform(0.5, 1.0, len(weights))
    how = ((0.3, 0.1), 3, 1)
    subsets = Subsets(
        np.concatenate([Y.T] * len(weights)), np.repeat(weights, k, axis=0), True
    )
    args = (Unfoldings.of(X, np.ones(len(X))), subsets, variance, *how)
    shared = SharedSweeps(*args, shape_out=shape_out)
    plain = []
    for weight, scale in zip(weights, variance, strict=True):
        wide = np.einsum("n...,kj->nk...j", centred(X, weight), np.eye(k))
        wide = wide.reshape(n * k, *shape, *shape_out)
        y = centred(Y, weight).reshape(1, -1)
        items = Subsets(y, np.repeat(weight, k)[None], False)
        # The penalty is relative to the total weight, which is K times as large.
        args = (
            Unfoldings(unfoldings(wide), shared.visits(wide.ndim - 1)),
            items,
            np.array([scale / k]),
            *how,
        )
        plain.append(Sweeps(*args))
    return shared, plain


@pytest.mark.parametrize("kind", [CPStep, TuckerStep])
@pytest.mark.parametrize(
    ("shape", "shape_out"),
    [((4, 3), (5,)), ((4, 3, 2), (3,)), ((4, 3), (3, 2)), ((6,), (4,)), ((3,), (2, 3))],
)
def test_a_tensor_of_all_responses_is_that_of_samples_with_one_response_each(
    rng, kind, shape, shape_out
):
    weights = np.stack([np.ones(20), rng.uniform(0.0, 2.0, 20) * (np.arange(20) < 15)])
    shared, plain = problems(rng, shape, shape_out, weights)
    full = (*shape, *shape_out)
    seeds = [rng.normal(size=(2, *full)) for _ in range(2)]
    found = kind.first(shared, seeds, 2)
    expected = [
        kind.first(one, [seed[[b]] for seed in seeds], 2) for b, one in enumerate(plain)
    ]
    for _ in range(2):
        found = found.with_lower_ridges()
        expected = [step.with_lower_ridges() for step in expected]
        for r, swept in enumerate(found.swept):
            coef, fitted = swept.coef(), swept.fitted.reshape(2, -1, 20)
            for b, step in enumerate(expected):
                one = step.swept[r]
                np.testing.assert_allclose(coef[b], one.coef()[0], atol=1e-8)
                np.testing.assert_allclose(
                    fitted[b].T.ravel(), one.fitted[0], atol=1e-8
                )
        found = found.next_rank()
        if found is None or any(step.next_rank() is None for step in expected):
            break
        if kind is TuckerStep:  # a batch raises the rank that is best for all
            expected = [
                TuckerStep.of_rank(one, [s[[b]] for s in seeds], 2, found.rank)
                for b, one in enumerate(plain)
            ]
        else:
            expected = [step.next_rank() for step in expected]
