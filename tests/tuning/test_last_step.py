"""The last step: the sparse problem about the refined pilot."""

from dataclasses import replace
from math import prod

import cvxpy as cp
import numpy as np
import pytest
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold

from sltr import SLTRClassifierCV, SLTRRegressor, SLTRRegressorCV, load, save
from sltr.core.estimate import adaptive_estimate, lowest_ranks
from sltr.datasets import make_tensor_regression
from sltr.metrics import support_f1


def radii_of(pilot, fraction):
    """Return the radius of each entry, as the docstring states it."""
    a, size = fraction * np.abs(pilot).max(), np.abs(pilot)
    return np.where(size > a, a**2 / np.maximum(size, 1e-300), size)


@pytest.mark.parametrize("fraction", [0.1, 0.4])
def test_the_closed_form_solves_the_problem_with_a_radius_for_each_entry(rng, fraction):
    Z = rng.normal(size=(5, 4))
    found = adaptive_estimate(Z[None], np.array([fraction]))[0, 0]
    radius = radii_of(Z, fraction)
    ball = 1.001 * np.linalg.norm(found - Z, 2)
    W = cp.Variable(Z.shape)
    objective = cp.sum(cp.abs(W)) + cp.normNuc(W)
    inside = [cp.abs(W - Z) <= radius, cp.sigma_max(W - Z) <= ball]
    problem = cp.Problem(cp.Minimize(objective), inside)
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9)
    value = np.abs(found).sum() + np.linalg.norm(found, "nuc")
    assert value == pytest.approx(problem.value, rel=1e-6)
    assert (np.abs(found - Z) <= radius + 1e-12).all()


def test_tiny_entries_become_zero_without_overflow():
    pilot = np.array([[1.0, 1e-30, 0.0]], dtype=np.float32)
    found = adaptive_estimate(pilot, np.array([0.0, 0.1], dtype=np.float32))
    np.testing.assert_allclose(found[0], [pilot[0], [0.99, 0.0, 0.0]], rtol=1e-6)


def test_radius_zero_keeps_the_pilot_and_one_keeps_nothing(rng):
    Z = rng.normal(size=(3, 4, 3, 2))
    both = adaptive_estimate(Z, np.array([0.0, 1.0]))
    np.testing.assert_array_equal(both[:, 0], Z)
    assert not both[:, 1].any()


@pytest.fixture(scope="module")
def blocks():
    data = make_tensor_regression(
        (12, 12, 5), 300, truth="block", rank=2, snr=10, random_state=0
    )
    return data, SLTRRegressorCV().fit(data.X, data.y)


def test_the_answer_has_zeros_where_the_truth_has(blocks):
    data, model = blocks
    assert 0 < model.sparse_radius_ < 1
    assert support_f1(model.coef_, data.coef) > 0.85
    assert support_f1(model.refined_, data.coef) < support_f1(model.coef_, data.coef)
    assert model.dual_gap_ == 0.0
    assert "closed form" in str(model.summary())


def test_zeros_have_to_pay_by_more_than_their_own_noise(rng):
    radii = []
    dense = rng.normal(size=(8, 6))  # no entry is zero, so that no zero can pay
    for _ in range(8):
        X = rng.normal(size=(90, 8, 6))
        y = np.einsum("nij,ij->n", X, dense) + 3.0 * rng.normal(size=90)
        radii.append(SLTRRegressorCV().fit(X, y).sparse_radius_)
    assert np.mean(np.array(radii) == 0.0) > 0.6


def test_the_answer_is_the_problem_about_the_refined_pilot(blocks):
    _, model = blocks
    scale = model.entry_scale_
    expected = adaptive_estimate(
        (model.refined_ * scale)[None], np.array([model.sparse_radius_])
    )[0, 0]
    np.testing.assert_allclose(model.coef_ * scale, expected, atol=1e-12)


def singular_values(tensor):
    """Return those of all unfoldings, largest first."""
    unfoldings = (np.moveaxis(tensor, m, 0) for m in range(tensor.ndim))
    return [
        np.linalg.svd(each.reshape(len(each), -1), compute_uv=False)
        for each in unfoldings
    ]


@pytest.mark.parametrize("shape", [(5, 4), (4, 4), (4, 3, 5), (2, 9, 3), (7,)])
def test_no_tensor_in_the_spectral_balls_has_lower_ranks(rng, shape):
    Z, fraction = rng.normal(size=(2, *shape)), 0.6
    found = lowest_ranks(Z, np.array([0.0, fraction]))
    np.testing.assert_array_equal(found[:, 0], Z)
    for before, after in zip(Z, found[:, 1], strict=True):
        ranks = []
        for s, t in zip(singular_values(before), singular_values(after), strict=True):
            # By Weyl's inequality what is above the radius stays above zero.
            kept = np.count_nonzero(s > fraction * s[0])
            ranks.append((np.count_nonzero(t > 1e-12 * s[0]), kept))
        for mode, (rank, kept) in enumerate(ranks):
            others = prod(r for m, (r, _) in enumerate(ranks) if m != mode)
            is_long = shape[mode] ** 2 > prod(shape)
            assert rank <= (others if is_long else kept)


def test_lower_ranks_keep_zeros_units_and_the_order_of_modes(rng):
    Z, fraction = rng.normal(size=(6, 5, 4)), np.array([0.4])
    Z[2], Z[:, 3], Z[0, 0, 0] = 0.0, 0.0, 0.0
    found = lowest_ranks(Z[None], fraction)[0, 0]
    np.testing.assert_array_equal(found == 0, Z == 0)
    turned = lowest_ranks(Z.transpose(2, 0, 1)[None], fraction)[0, 0]
    np.testing.assert_allclose(turned, found.transpose(2, 0, 1), atol=1e-12)
    for unit in (1e-160, 1e160):
        scaled = lowest_ranks(unit * Z[None], fraction)[0, 0]
        np.testing.assert_allclose(scaled / unit, found, atol=1e-12)


def test_ranks_are_lowered_where_that_costs_nothing():
    lowered, dense = 0, 0
    for seed in range(6):
        data = make_tensor_regression(
            (10, 10, 4), 120, truth="cp", rank=1, snr=1, random_state=seed
        )
        model = SLTRRegressorCV().fit(data.X, data.y)
        values = singular_values(model.refined_ * model.entry_scale_)
        for each in values if model.low_radius_ else []:
            lowered += np.count_nonzero(each < 1e-9 * each[0])
            dense += len(each)
    assert dense > 0
    assert lowered > 0.3 * dense


def local_signal(rng, shape):
    truth = np.zeros(shape)
    truth[:2, :2] = 1.0
    X = rng.normal(size=(80, *shape))
    return X, X.reshape(80, -1) @ truth.ravel() + rng.normal(size=80)


def least(Z, radius, low_radius=None):
    """Return the least ‖W‖₁ + Σ‖W_(m)‖_*/M in the balls, and this objective."""
    shape, W = Z.shape, cp.Variable(Z.size)
    objective, inside = cp.norm1(W), [cp.abs(W - Z.ravel()) <= np.ravel(radius)]
    numbers = np.arange(Z.size).reshape(shape)
    for mode in range(len(shape)):
        order = np.moveaxis(numbers, mode, 0).reshape(shape[mode], -1)
        matrix = cp.reshape(W[order.ravel()], order.shape, order="C")
        objective += cp.normNuc(matrix) / len(shape)
        if low_radius is not None:
            centre = Z.ravel()[order]
            inside.append(cp.sigma_max(matrix - centre) <= low_radius)
    problem = cp.Problem(cp.Minimize(objective), inside)
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-8, tol_gap_rel=1e-8)

    def value(coef):
        unfolded = (np.moveaxis(coef, m, 0).reshape(s, -1) for m, s in enumerate(shape))
        norms = [np.linalg.norm(matrix, "nuc") for matrix in unfolded]
        return np.abs(coef).sum() + np.mean(norms)

    return problem.value, value


@pytest.mark.parametrize("shape", [(6, 5), (4, 4, 3)])
@pytest.mark.parametrize("rule", ["average", "best"])
def test_the_gap_is_that_of_coef(rng, shape, rule):
    model = SLTRRegressorCV(rule=rule).fit(*local_signal(rng, shape))
    assert model.refine_ not in (None, "scale")
    assert (0 < model.sparse_radius_ < 1) if rule == "average" else True
    refined = model.refined_ * model.entry_scale_
    radius = radii_of(refined, model.sparse_radius_ or 0.0)
    lowest, value = least(refined, np.where(radius > 1e-12, radius, 0.0))
    excess = value(model.coef_ * model.entry_scale_) / lowest - 1.0
    assert abs(excess) <= model.dual_gap_ + 1e-6
    text = str(model.summary())
    assert ("closed form" if rule == "average" else "radii of zero") in text


@pytest.mark.parametrize("settings", [None, "scale", ("cp", 1, 0.1), "sparse"])
def test_the_gap_of_a_single_fit_is_that_of_coef(rng, settings):
    model = SLTRRegressor(
        lambda_sparse=0.3, lambda_low=0.3, refine=settings, tol=1e-2
    ).fit(*local_signal(rng, (6, 5)))
    refitted = settings not in (None, "scale")
    Z = model.coef_ if refitted else model.pilot_ * model.scale_
    share = 0.0 if refitted else 0.3
    # Both unfoldings of a matrix are one problem, so that the mean solves it as well.
    radius = np.full(Z.shape, share * np.abs(Z).max())
    lowest, value = least(Z, radius, share * np.linalg.norm(Z, 2) + 1e-9)
    excess = value(model.coef_) / lowest - 1.0
    assert abs(excess) <= model.dual_gap_ + 1e-6
    assert (model.dual_gap_ == 0.0) == refitted
    assert ("radii of zero" in str(model.summary())) == refitted


def test_held_out_scores_are_those_of_the_answer_on_each_fold(rng):
    X = rng.normal(size=(90, 6, 5))
    y = X[:, :2, :2].sum(axis=(1, 2)) + rng.normal(size=90)
    folds = list(KFold(3).split(X))
    model = SLTRRegressorCV(refine=("cp",), cv=folds).fit(X, y)
    members = np.flatnonzero(model.weights_)
    for f, (train, test) in enumerate(folds):
        mean = 0.0
        for g in members:
            given = model.cv_results_["params"][g]
            refit = SLTRRegressor(
                given["epsilon"],
                given["lambda_sparse"],
                given["lambda_low"],
                refine=("cp", given["rank"], given["ridge"]),
            ).fit(X[train], y[train])
            mean = mean + model.weights_[g] * refit.coef_
        low, radius = np.array([model.low_radius_]), np.array([model.sparse_radius_])
        coef = adaptive_estimate(lowest_ranks(mean[None], low)[0], radius)[0, 0]
        inner = np.einsum("nij,ij->n", X - X[train].mean(axis=0), coef)
        expected = r2_score(y[test], y[train].mean() + inner[test])
        assert model.held_out_scores_["r2"][f] == pytest.approx(expected, abs=0.01)


def test_noise_gives_an_empty_answer_that_says_so(rng, tmp_path):
    empty = 0
    for _ in range(10):
        X, y = rng.normal(size=(50, 6, 5, 2)), rng.normal(size=50)
        model = SLTRRegressorCV().fit(X, y)
        if model.sparse_radius_ == 1.0:
            empty += 1
            assert not model.coef_.any()
            assert model.intercept_ == pytest.approx(y.mean())
            assert "nothing" in str(model.summary())
            again = load(save(model, tmp_path / "m.sltr"))
            np.testing.assert_allclose(again.predict(X), y.mean())
    assert empty >= 7


def test_many_responses_that_choose_for_themselves_are_no_evidence(rng):
    # Neighbours resemble each other, as in a curve. Each weighs what was tried by its
    # own held-out errors: with a hundred of them these agreed with what they had chosen
    # by 4 standard errors, and no answer to noise was empty.
    found = {0.0: 0, 1.0: 0}
    along = np.eye(100) + 0.5 * np.eye(100, k=1) + 0.5 * np.eye(100, k=-1)
    for strength in found:
        for _ in range(6):
            X, Y = rng.normal(size=(30, 6)), rng.normal(size=(30, 100)) @ along
            Y[:, :20] += strength * X[:, :1]
            model = SLTRRegressorCV(responses="shared", refine=(None, "reweight"))
            found[strength] += bool(model.fit(X, Y).coef_.any())
    assert found[0.0] <= 1
    assert found[1.0] >= 5


def test_labels_without_a_signal_get_the_share_of_each_class(rng):
    X, y = rng.normal(size=(60, 5, 4)), np.tile([0, 1, 1], 20)
    model = SLTRClassifierCV().fit(X, y)
    assert model.sparse_radius_ == 1.0
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 2 / 3, atol=0.05)


def test_zeros_are_exact_along_smooth_modes(rng):
    coef = np.zeros((12, 4))
    coef[3:7, 1] = 1.0
    X = rng.normal(size=(150, 12, 4))
    y = np.einsum("nij,ij->n", X, coef) + 0.3 * rng.normal(size=150)
    model = SLTRRegressorCV(smooth={0: 1.0}).fit(X, y)
    assert 0 < model.sparse_radius_ < 1
    assert (model.coef_ == 0).mean() > 0.3
    assert model.score(X, y) > 0.9


def test_other_rules_and_the_papers_grid_have_no_last_step(rng):
    X = rng.normal(size=(40, 4, 3))
    y = X[:, 0, 0] + 0.1 * rng.normal(size=40)
    for settings in ({"rule": "best"}, {"refine": (None,)}):
        assert SLTRRegressorCV(**settings).fit(X, y).sparse_radius_ is None


def test_few_large_responses_that_are_predicted_well_are_no_noise(rng):
    X = rng.normal(size=(30, 6, 5))
    X[:2] *= 8.0  # nearly all of the null model's error is that of two samples
    y = X[:, :3, :2].sum(axis=(1, 2)) + 0.3 * rng.normal(size=30)
    model = SLTRRegressorCV().fit(X, y)
    assert model.sparse_radius_ < 1
    assert model.held_out_scores_["r2"].mean() > 0.5


def test_coefficients_that_the_search_kept_are_those_fitted_again(rng):
    X = rng.normal(size=(80, 7, 6, 3))
    y = X[:, :3, :2, 1].sum(axis=(1, 2)) + rng.normal(size=80)
    Y = np.stack([y, X[:, 2, 3, 0] + y], axis=1)
    for given in (y, Y):
        kept, again = SLTRRegressorCV(), SLTRRegressorCV()
        again._policy = replace(again._policy, kept_entries=0)
        np.testing.assert_array_equal(
            kept.fit(X, given).coef_, again.fit(X, given).coef_
        )
