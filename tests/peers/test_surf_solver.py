import numpy as np
import pytest
from problems import corner, draw

from sltr.peers.surf import cumulative_tensors, surf

SHAPES = [(7,), (6, 5), (5, 4, 3), (3, 4, 2, 3)]


def planted(rng, shape, n=60, noise=0.3):
    coef = corner(shape, [2] * len(shape))
    return *draw(rng, coef, n, noise=noise), coef


def outer(factors):
    result = np.ones(())
    for factor in factors:
        result = np.multiply.outer(result, factor)
    return result


def loss(X, y, scale, factors, alpha, n_total):
    """J, from the samples and nothing else."""
    coef = scale * outer(factors)
    residual = y - np.tensordot(X, coef, axes=coef.ndim)
    return residual @ residual / n_total + alpha * np.sum(coef**2)


def walk(X, y, **options):
    steps = []
    shape = X.shape[1:]
    terms = surf(
        X.reshape(len(y), -1),
        y,
        shape,
        callback=lambda n_iter, step: steps.append((n_iter, step)),
        **options,
    )
    return terms, steps


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("alpha", [0.0, 0.7])
@pytest.mark.parametrize("n_total", [None, 83.0])
def test_every_step_changes_the_loss_by_what_it_predicts(rng, shape, alpha, n_total):
    X, y, _ = planted(rng, shape)
    options = {"epsilon": 0.05, "xi": 1e-4, "alpha": alpha, "n_total": n_total}
    _, steps = walk(X, y, **options)
    n = n_total or len(y)
    before = y @ y / n
    assert len(steps) > 20
    for _, step in steps:
        after = loss(X, y, step.scale, step.factors, alpha, n)
        assert after - before == pytest.approx(step.change, abs=1e-10)
        before = after


def test_forward_steps_lower_the_loss_and_backward_steps_the_penalised_loss(rng):
    X, y, _ = planted(rng, (6, 5, 4), noise=2.0)
    xi = 1e-5
    _, steps = walk(X, y, epsilon=0.1, xi=xi, alpha=0.2)
    scale = 0.0
    for _, step in steps:
        if step.backward:
            assert step.change + step.penalty * (step.scale - scale) < -xi + 1e-12
            assert step.scale < scale
        else:
            assert step.change <= -xi
        scale = step.scale
    assert {step.backward for _, step in steps} == {True, False}


def test_penalty_never_rises_and_factors_stay_normalised(rng):
    X, y, _ = planted(rng, (6, 5, 4))
    _, steps = walk(X, y, epsilon=0.1, alpha=0.2)
    penalties = [step.penalty for _, step in steps]
    assert penalties == sorted(penalties, reverse=True)
    for _, step in steps:
        sums = [np.abs(factor).sum() for factor in step.factors]
        np.testing.assert_allclose(sums, 1.0, rtol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_planted_unit_rank_coefficient_is_found(rng, shape):
    X, y, coef = planted(rng, shape, n=200, noise=0.05)
    terms = surf(X.reshape(200, -1), y, shape, epsilon=0.01, xi=1e-6, alpha=0.0)
    found = cumulative_tensors(terms, shape)[-1]
    assert np.linalg.norm(found - coef) < 0.05 * np.linalg.norm(coef)


def test_later_terms_are_fitted_to_the_residual(rng):
    X, y, _ = planted(rng, (5, 4))
    y = y + 2.0 * X[:, 4, 3]
    A = X.reshape(len(y), -1)
    first, second = surf(A, y, (5, 4), n_components=2, alpha=0.1)
    rest = y - A @ cumulative_tensors([first], (5, 4))[-1].ravel()
    [alone] = surf(A, rest, (5, 4), n_components=1, alpha=0.1)
    np.testing.assert_allclose(
        cumulative_tensors([second], (5, 4)), cumulative_tensors([alone], (5, 4))
    )


def test_order_one_path_end_solves_the_lasso(rng):
    from sklearn.linear_model import Lasso

    X, y, _ = planted(rng, (7,), noise=1.0)
    # A small step and a smaller gain: the path is then the lasso's.
    [term] = surf(X, y, (7,), epsilon=2e-3, xi=1e-9, alpha=0.0, stop=0.1)
    lasso = Lasso(alpha=term.penalty / 2, fit_intercept=False, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(term.scale * term.factors[0], lasso.coef_, atol=2e-2)


def test_path_ends_where_asked(rng):
    X, y, _ = planted(rng, (6, 5))
    A = X.reshape(len(y), -1)
    [short] = surf(A, y, (6, 5), alpha=0.0, stop=0.5)
    [full] = surf(A, y, (6, 5), alpha=0.0)
    assert short.converged
    assert short.n_iter < full.n_iter
    assert short.penalty >= 0.5 * short.penalty_max > full.penalty
    [cut] = surf(A, y, (6, 5), alpha=0.0, max_iter=3)
    assert (cut.n_iter, cut.converged) == (3, False)


def test_nothing_to_gain_gives_no_term(rng):
    X = rng.standard_normal((20, 6))
    assert surf(X, np.zeros(20), (3, 2)) == []
    assert surf(X, rng.standard_normal(20), (3, 2), xi=1e3) == []
    assert not cumulative_tensors([], (3, 2)).any()


def test_inputs_are_left_as_they_were(rng):
    X, y, _ = planted(rng, (5, 4))
    A = X.reshape(len(y), -1).copy()
    copies = A.copy(), y.copy()
    surf(A, y, (5, 4), n_components=2)
    np.testing.assert_array_equal(A, copies[0])
    np.testing.assert_array_equal(y, copies[1])
