"""The map in front of a fit: masks, missing entries, units, smooth modes."""

import numpy as np
import pytest
import sklearn
from problems import draw
from scipy.interpolate import make_smoothing_spline
from sklearn.base import clone
from sklearn.model_selection import cross_validate

from sltr import SLTRClassifierCV, SLTRRegressor, SLTRRegressorCV, load, save
from sltr.samples.check import check_samples
from sltr.samples.covariates import with_covariates
from sltr.tuning.task import ridge_pilots

SHAPE = (6, 5)


@pytest.fixture
def data(rng):
    coef = np.zeros(SHAPE)
    coef[:3, :2] = 1.0
    return draw(rng, coef, 50)


def plain(**more):
    return SLTRRegressor(1.0, 0.0, 0.0, **more)


def penalised(X, y, penalty, weight=None):
    """Solve the normal equations with a dense penalty, with an intercept."""
    weight = np.ones(len(y)) if weight is None else weight
    A = X.reshape(len(X), -1)
    A, target = (v - np.average(v, axis=0, weights=weight) for v in (A, y))
    normal = A.T @ (weight[:, None] * A) + penalty
    return np.linalg.solve(normal, A.T @ (weight * target)).reshape(X.shape[1:])


def test_smooth_ridge_has_a_kronecker_penalty(data, xp):
    X, y = data
    D = np.diff(np.eye(5), 2, axis=0)
    D1 = np.diff(np.eye(6), axis=0)
    penalty = np.kron(np.eye(6) + 2.0 * D1.T @ D1, np.eye(5) + 7.0 * D.T @ D)
    model = plain(smooth={0: 2.0, 1: {"strength": 7.0, "order": 2}})
    model.fit(xp.array(X), xp.array(y))
    np.testing.assert_allclose(
        xp.numpy(model.coef_), penalised(X, y, penalty), atol=1e-7
    )
    assert model.smooth_ == {0: 2.0, 1: 7.0}
    expected = X.reshape(50, -1) @ xp.numpy(model.coef_).ravel() + model.intercept_
    np.testing.assert_allclose(xp.numpy(model.predict(xp.array(X))), expected)
    assert np.mean(expected) == pytest.approx(y.mean())


def test_a_smooth_masked_fit_is_free_outside_the_mask(data, rng):
    X, y = data
    mask = rng.random(SHAPE) < 0.6
    D = np.diff(np.eye(6), axis=0)
    penalty = np.kron(np.eye(6) + 2.0 * D.T @ D, np.eye(5))
    dense = penalised(np.where(mask, X, 0.0), y, penalty)
    model = plain(smooth={0: 2.0}, mask=mask).fit(X, y)
    np.testing.assert_allclose(model.coef_, np.where(mask, dense, 0.0), atol=1e-7)


def test_one_convex_program_holds_mask_units_smooth_modes_and_covariates(data, rng):
    cvxpy = pytest.importorskip("cvxpy")
    X, y = data
    X = X * rng.uniform(0.5, 2.0, size=SHAPE)
    Z, weight = rng.normal(size=(50, 2)), rng.uniform(0.5, 2.0, size=50)
    y, mask = y + 3.0 * Z[:, 0], rng.random(SHAPE) < 0.7
    model = plain(smooth={1: 5.0}, mask=mask, standardize="entries")
    model.fit(X, y, weight, covariates=Z)
    centred = X - np.average(X, axis=0, weights=weight)
    scale = np.sqrt(np.average(centred**2, axis=0, weights=weight))
    A = np.where(mask, X / scale, 0.0).reshape(50, -1)
    D = np.diff(np.eye(5), axis=0)
    coef, beside, first = cvxpy.Variable(30), cvxpy.Variable(2), cvxpy.Variable()
    rest = y - A @ coef - Z @ beside - first
    penalty = np.kron(np.eye(6), np.eye(5) + 5.0 * D.T @ D)
    loss = cvxpy.sum(cvxpy.multiply(weight, cvxpy.square(rest)))
    problem = cvxpy.Minimize(loss + cvxpy.quad_form(coef, penalty))
    cvxpy.Problem(problem).solve(solver="CLARABEL")
    expected = np.where(mask, coef.value.reshape(SHAPE) / scale, 0.0)
    np.testing.assert_allclose(model.coef_, expected, atol=1e-6)
    np.testing.assert_allclose(model.covariate_coef_, beside.value, atol=1e-6)
    np.testing.assert_allclose(model.intercept_, first.value, atol=1e-6)


def test_the_papers_problem_is_solved_for_the_roots_of_smooth_coefficients(data):
    cvxpy = pytest.importorskip("cvxpy")
    X, y = data
    D = np.diff(np.eye(5), axis=0)
    values, vectors = np.linalg.eigh(np.eye(5) + 3.0 * D.T @ D)
    root = (vectors / np.sqrt(values)) @ vectors.T
    pilot = penalised(X @ root, y, np.eye(30))
    W = cvxpy.Variable(SHAPE)
    value = cvxpy.sum(cvxpy.abs(W)) + cvxpy.normNuc(W)
    inside = [cvxpy.abs(W - pilot) <= 0.2, cvxpy.sigma_max(W - pilot) <= 0.5]
    cvxpy.Problem(cvxpy.Minimize(value), inside).solve(solver="CLARABEL")
    options = {"radius": "absolute", "tol": 1e-8, "smooth": {1: 3.0}}
    model = SLTRRegressor(1.0, 0.2, 0.5, **options).fit(X, y)
    np.testing.assert_allclose(model.coef_, W.value @ root, atol=1e-4)


def test_a_smooth_series_is_a_hodrick_prescott_filter(rng):
    filters = pytest.importorskip("statsmodels.tsa.filters.hp_filter")
    series = np.cumsum(rng.normal(size=40))
    _, trend = filters.hpfilter(series, lamb=30.0)
    # Each sample is one entry; the penalty of sizes vanishes beside that of bends.
    smooth = {0: {"strength": 30.0 / 1e-7, "order": 2}}
    model = SLTRRegressor(1e-7, 0.0, 0.0, fit_intercept=False, smooth=smooth)
    np.testing.assert_allclose(model.fit(np.eye(40), series).coef_, trend, atol=1e-5)


def test_unequal_steps_give_nearly_a_smoothing_spline(rng):
    times = np.sort(rng.uniform(size=60))
    y = np.sin(6.0 * times) + 0.3 * rng.normal(size=60)
    spline = make_smoothing_spline(times, y, lam=1e-3)(times)
    step = (times[-1] - times[0]) / 59
    strength = 1e-3 / step**3 / 1e-7  # steps count in units of their mean
    smooth = {0: {"strength": strength, "order": 2, "coords": times}}
    model = SLTRRegressor(1e-7, 0.0, 0.0, fit_intercept=False, smooth=smooth)
    found = model.fit(np.eye(60), y).coef_
    assert np.abs(found - spline).max() < 0.02 * np.ptp(spline)


def test_standardised_ridge_penalises_by_variance(data, rng):
    X, y = data
    X = X * rng.uniform(0.2, 2.0, size=SHAPE)
    weight = rng.uniform(0.5, 2.0, size=50)
    mean = np.average(X, axis=0, weights=weight)
    variance = np.average((X - mean) ** 2, axis=0, weights=weight)
    model = plain(standardize="entries").fit(X, y, weight)
    expected = penalised(X, y, np.diag(variance.ravel()), weight)
    np.testing.assert_allclose(model.coef_, expected, atol=1e-7)


def test_units_of_slices_do_not_matter_once_standardised(data, rng):
    X, y = data
    units = 10.0 ** rng.integers(-2, 3, size=(6, 1))
    options = {"standardize": "entries", "refine": (None, "tucker"), "rule": "best"}
    one, other = (
        SLTRRegressorCV(**options).fit(x, y).predict(x) for x in (X, X * units)
    )
    # Candidates are compared in single precision.
    np.testing.assert_allclose(one, other, atol=1e-2)


def slice_scale(X, weight, fit_intercept):
    """Return what "slices" divides entries by, slice by slice and entry by entry."""
    about = np.average(X, axis=0, weights=weight) if fit_intercept else 0.0
    variance = np.average((X - about) ** 2, axis=0, weights=weight)
    varies = np.ptp(X, axis=0) > 0 if fit_intercept else np.ones(X.shape[1:], bool)
    scale = np.ones(X.shape[1:])
    for mode, size in enumerate(scale.shape):
        spreads = []
        for k in range(size):
            inside = np.take(varies, k, axis=mode)
            values = np.take(variance, k, axis=mode)[inside]
            spreads.append(np.sqrt(values.mean()) if values.size else np.nan)
        for index in np.ndindex(*scale.shape):
            if varies[index]:
                spread = spreads[index[mode]] / np.nanmax(spreads)
                scale[index] *= np.cbrt(max(spread, 0.01))
    return scale, varies


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("shape", [(7,), SHAPE, (4, 3, 5)])
def test_slices_are_divided_by_the_cube_root_of_their_spread(
    rng, xp, shape, fit_intercept
):
    X = 3.0 + rng.normal(size=(40, *shape))
    for mode, size in enumerate(shape):
        factors = 10.0 ** rng.uniform(-3, 3, size)
        X *= factors.reshape(-1, *([1] * (len(shape) - 1 - mode)))
    X[:, 1] = 2.0  # a slice that never varies
    X[(slice(None), *([0] * len(shape)))] = 5.0  # an entry that never varies
    y, weight = rng.normal(size=40), rng.uniform(0.5, 2.0, size=40)
    X, weight = (xp.numpy(xp.array(a)).astype(float) for a in (X, weight))
    model = plain(standardize="slices", fit_intercept=fit_intercept)
    given = xp.array(X), xp.array(y), xp.array(weight)
    found = model.fit(*given).entry_scale_
    expected, varies = slice_scale(X, weight, fit_intercept)
    np.testing.assert_allclose(found[varies], expected[varies], rtol=1e-4)
    # The fit is the one to samples that were divided by hand.
    by_hand = plain(fit_intercept=fit_intercept)
    by_hand.fit(xp.array(X / expected), *given[1:])
    coef = xp.numpy(by_hand.coef_) / expected
    largest = np.abs(coef * expected).max()
    np.testing.assert_allclose(
        xp.numpy(model.coef_) * expected, coef * expected, atol=1e-3 * largest
    )


def test_slices_have_the_units_of_their_modes(rng):
    """Order, names, units of all X and constants added change nothing."""
    X = rng.normal(size=(30, 4, 3, 5)) * 10.0 ** rng.uniform(-2, 2, size=(4, 1, 1))
    y = rng.normal(size=30)
    scale = plain(standardize="slices").fit(X, y).entry_scale_
    order = rng.permutation(4)
    for other, expected in (
        (1e9 * X, scale),
        (X + 100.0 * np.abs(X).max(), scale),
        (X.swapaxes(1, 3), scale.swapaxes(0, 2)),
        (X[:, order], scale[order]),
    ):
        found = plain(standardize="slices").fit(other, y).entry_scale_
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, float])
def test_slices_as_small_as_rounding_keep_finite_units(rng, dtype):
    X = rng.normal(size=(30, 4, 3)).astype(dtype)
    X[:, 0] *= 1e-30
    X[:, :, 1] = 0.0
    y = rng.normal(size=30)
    model = SLTRRegressorCV(refine=(None, "tucker"), cv=3).fit(X, y)
    assert model.standardize_ == "slices"
    assert np.isfinite(model.coef_).all()
    # A hundredth of the loudest is the least spread: its cube root the least unit.
    assert model.entry_scale_.min() > 0.2
    np.testing.assert_array_equal(model.entry_scale_[:, 1], 1.0)
    again = SLTRRegressorCV(refine=(None, "tucker"), cv=3).fit(0.0 * X, y)
    np.testing.assert_allclose(again.predict(X), y.mean(), rtol=1e-6)


def test_a_channel_that_hardly_moved_may_move_in_a_new_sample(rng):
    """Its coefficient is noise: units may not make it many times larger."""
    X, y = rng.normal(size=(40, 6)), rng.normal(size=40)
    X[:, 0], X[:, 1:] = 0.01 * X[:, 0], 1e3 * X[:, 1:]
    moved, scaled = np.array([[1e4, 0, 0, 0, 0, 0]]), []
    for units in ("slices", None):
        model = plain(standardize=units).fit(X, y)
        scaled.append(abs(model.predict(moved) - model.intercept_)[0])
    assert scaled[0] < 0.01 ** (-2 / 3) * 1.1 * scaled[1]


def test_samples_of_many_blocks_have_the_deviations_of_all(rng, monkeypatch):
    X, y = 1e3 + rng.normal(size=(50, *SHAPE)), rng.normal(size=50)
    mask = rng.random(SHAPE) < 0.8
    options = {"standardize": "slices", "mask": mask}
    known = plain(**options).fit(X, y)
    monkeypatch.setattr("sltr.samples.front.BLOCK_ENTRIES", 7 * X[0].size)
    found = plain(**options).fit(X, y)
    np.testing.assert_allclose(found.entry_scale_, known.entry_scale_, rtol=1e-10)
    np.testing.assert_allclose(found.coef_, known.coef_, atol=1e-10)


def test_loud_slices_hide_less_of_the_signal_in_quiet_ones(rng):
    """With fewer samples than loud entries these explain all of y in units of X."""
    assert SLTRRegressorCV().standardize == "slices"
    gained = []
    for _ in range(3):
        X = rng.normal(size=(400, 8, 20))
        y = X[:, :2, :3].sum(axis=(1, 2)) + 0.5 * rng.normal(size=400)
        X[:, 4:] *= 3.0
        kept, divided = (
            SLTRRegressorCV(standardize=how, refine=(None,), rule="best")
            .fit(X[:100], y[:100])
            .score(X[100:], y[100:])
            for how in (None, "slices")
        )
        gained.append(divided - kept)
    assert np.mean(gained) > 0.1


def test_a_sensor_that_is_off_does_not_count_its_noise(data, rng):
    X, y = data
    X[:, 3, 4] = 1e-6 * rng.normal(size=50)  # off at this time, on at all others
    model = plain(standardize="entries").fit(X, y)
    new = X[:1].copy()
    new[0, 3, 4] = 1.0  # and now on
    moved = model.predict(new) - model.predict(X[:1])
    # A hundredth of its slice is the least deviation: no more than some hundred.
    assert abs(moved[0]) < 0.1 * y.std()


@pytest.mark.parametrize("refine", [None, "reweight", "tucker", "cp", "sparse"])
def test_nothing_is_outside_the_mask(data, rng, xp, refine):
    X, y = data
    mask = rng.random(SHAPE) < 0.5
    mask[2] = False
    X[:, ~mask] = np.nan
    model = SLTRRegressorCV(refine=(refine,), mask=mask)
    model.fit(xp.array(X), xp.array(y))
    assert not xp.numpy(model.coef_)[~mask].any()
    assert not xp.numpy(model.pilot_)[~mask].any()
    np.testing.assert_array_equal(model.mask_, mask)
    X[:, ~mask] = np.inf
    assert np.isfinite(xp.numpy(model.predict(xp.array(X)))).all()


def test_a_mask_is_the_fit_to_what_it_keeps(data, rng):
    X, y = data
    box = np.zeros(SHAPE, bool)
    box[1:4, [0, 2, 3]] = True
    cut = X[:, 1:4][:, :, [0, 2, 3]]
    options = {"refine": (None, "cp"), "lambdas_sparse": (0.0, 0.3)}
    masked = SLTRRegressorCV(mask=box, **options).fit(X, y)
    small = SLTRRegressorCV(**options).fit(cut, y)
    np.testing.assert_array_equal(masked.coef_[box], small.coef_.ravel())
    np.testing.assert_allclose(masked.predict(X), small.predict(cut))
    assert masked.best_score_ == small.best_score_


def test_sparse_masks_leave_the_gram_matrix_as_it_is(data, rng):
    X, y = data
    mask = np.eye(6, 5, dtype=bool)
    flat = SLTRRegressor(1.0, 0.0, 0.0).fit(X[:, mask], y)
    np.testing.assert_allclose(plain(mask=mask).fit(X, y).coef_[mask], flat.coef_)


def test_constant_entries_are_a_mask_by_themselves(data):
    X, y = data
    X[:, 4], X[:, 1, 1] = 0.1, -3.7
    model = SLTRRegressorCV(refine=("cp",), rule="best").fit(X, y)
    assert not model.coef_[4].any()
    assert model.coef_[1, 1] == 0.0
    assert model.mask_.sum() == 24
    X[:, 4] = 5.0
    assert np.isfinite(model.predict(X)).all()
    # Without an intercept a constant is worth something.
    assert SLTRRegressor(fit_intercept=False).fit(X, y).mask_ is None


def test_samples_that_are_all_equal_still_fit():
    model = SLTRRegressorCV().fit(np.ones((10, 3, 2)), np.arange(10.0))
    assert not model.coef_.any()


@pytest.mark.parametrize(
    ("mask", "match"),
    [
        (np.ones((5, 6)), r"\(6, 5\), that of a sample"),
        (np.zeros(SHAPE), "keeps no entry"),
        (np.full(SHAPE, 2), "other values than 0 and 1"),
        (np.full(SHAPE, "yes"), "other values than 0 and 1"),
    ],
)
def test_bad_masks_are_refused(data, mask, match):
    with pytest.raises(ValueError, match=match):
        SLTRRegressor(mask=mask).fit(*data)


def test_nan_is_refused_with_the_choices_named(data, xp):
    X, y = data
    X[3, 1, 1] = np.nan
    for fit in (SLTRRegressor().fit, SLTRRegressorCV().fit):
        with pytest.raises(ValueError, match=r"1 of 1500.*'mean'.*'low_rank'.*mask"):
            fit(xp.array(X), xp.array(y))
    model = SLTRRegressor().fit(xp.array(data[0][:3]), xp.array(y[:3]))
    with pytest.raises(ValueError, match="'mean'"):
        model.predict(xp.array(X))
    X[3, 1, 2] = np.inf
    with pytest.raises(ValueError, match="contains infinity"):
        SLTRRegressor(missing="mean").fit(xp.array(X), xp.array(y))


@pytest.mark.parametrize("missing", ["mean", "low_rank"])
def test_missing_entries_are_filled_in_fit_and_predict(data, rng, xp, missing):
    X, y = data
    X[rng.random(X.shape) < 0.05] = np.nan
    X[7, 2], X[:, 5, 4] = np.nan, np.nan  # a missed visit, an entry nobody has
    model = SLTRRegressorCV(missing=missing, refine=(None,))
    model.fit(xp.array(X), xp.array(y))
    assert model.mask_ is not None
    assert not model.mask_[5, 4]
    assert xp.numpy(model.coef_)[5, 4] == 0.0
    predictions = xp.numpy(model.predict(xp.array(X)))
    assert np.corrcoef(predictions, y)[0, 1] > 0.8
    # What was learnt fills a sample by itself as it does among others.
    alone = xp.numpy(model.predict(xp.array(X[7:8])))
    np.testing.assert_allclose(alone, predictions[7:8])


def test_missing_means_equal_filling_by_hand(data, rng):
    X, y = data
    X[rng.random(X.shape) < 0.05] = np.nan
    filled = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    model, by_hand = SLTRRegressor(missing="mean").fit(X, y), SLTRRegressor()
    np.testing.assert_allclose(model.coef_, by_hand.fit(filled, y).coef_, atol=1e-9)
    np.testing.assert_allclose(model.predict(X), by_hand.predict(filled), atol=1e-9)


def test_a_sample_of_nothing_is_refused(data):
    X, y = data
    X[4] = np.nan
    with pytest.raises(ValueError, match=r"Sample 4 .* no measured entry"):
        SLTRRegressor(missing="mean").fit(X, y)
    with pytest.raises(ValueError, match="missing='median'"):
        SLTRRegressor(missing="median").fit(X[5:], y[5:])


def test_what_is_learnt_from_samples_never_looks_at_responses(data, rng):
    X, y = data
    X[rng.random(X.shape) < 0.05] = np.nan
    options = {"missing": "low_rank", "standardize": "entries"}
    one, other = (plain(**options).fit(X, r) for r in (y, rng.permutation(y)))
    for name in ("mean", "scale", "loadings"):
        np.testing.assert_array_equal(one.fill_[name], other.fill_[name])


def smooth_problem(rng, n, smooth):
    """Courses over 30 times of 4 sites, with a smooth coefficient or a rough one."""
    bump = np.exp(-0.5 * ((np.arange(30) - 12) / 4.0) ** 2)
    rough = rng.permutation(bump) * rng.choice([-1.0, 1.0], 30)
    coef = np.outer([1.0, -0.5, 0.0, 0.0], bump if smooth else rough)
    return draw(rng, coef, n, noise=2.0)


def test_smooth_modes_are_found_where_they_are_and_only_there(rng):
    kinds = {}
    for smooth in (True, False):
        X, y = smooth_problem(rng, 60, smooth)
        model = SLTRRegressor(smooth={1: "auto", 0: [1.0]})
        kinds[smooth] = model.fit(X, y).smooth_[1]
    assert kinds[True] >= 4.0
    assert kinds[False] <= 0.25


def test_units_are_found_where_they_hide_the_signal(rng):
    X, y = smooth_problem(rng, 60, True)
    X[:, 1:] *= 100.0
    X[:, 0] /= 100.0
    y = 100.0 * X[:, 0].mean(axis=1) + 0.01 * rng.normal(size=60)
    assert SLTRRegressorCV(standardize="auto").fit(X, y).standardize_ == "entries"


@pytest.mark.parametrize("standardize", ["slices", "auto"])
def test_rounding_does_not_choose_a_map(rng, standardize):
    # Intercept and covariates explain all but one sample: its error is the same in
    # every map, but for rounding, which is large in single precision.
    for _ in range(10):
        X, y = rng.normal(size=(4, 3, 4)).astype("float32"), rng.normal(size=4)
        settings = {"standardize": standardize, "smooth": {0: "auto", 1: "auto"}}
        model = SLTRRegressor(1.0, 0.1, 0.1, **settings)
        model.fit(X, y, covariates=rng.normal(size=(4, 2)))
        assert model.standardize_ == "slices"
        assert set(model.smooth_.values()) <= {0.0}


def test_groups_choose_the_map_too(rng):
    X, y = smooth_problem(rng, 60, True)
    groups = np.repeat(np.arange(12), 5)
    model = SLTRRegressorCV(smooth={1: [64.0]}, refine=(None,))
    model.fit(X, y, groups=groups)
    assert model.smooth_ == {1: 64.0}


def test_smooth_labels_are_saved_with_their_map(rng, tmp_path):
    X, y = smooth_problem(rng, 60, True)
    X[0, 0, 0] = np.nan
    mask = np.ones((4, 30), bool)
    mask[:, -1] = False
    model = SLTRClassifierCV(
        smooth={1: {"strength": 4.0, "coords": np.arange(30.0) ** 1.5}},
        missing="mean",
        mask=mask,
        refine=(None,),
    )
    model = clone(model).fit(X, y > 0)
    again = load(save(model, tmp_path / "model.sltr"))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.smooth_ == {1: 4.0}
    np.testing.assert_array_equal(again.mask_, mask)


def test_names_of_modes_come_from_the_samples(data):
    xarray = pytest.importorskip("xarray")
    X, y = data
    named = xarray.DataArray(X, dims=("sample", "site", "time"))
    model = plain(smooth={"time": 3.0}).fit(named, y)
    np.testing.assert_array_equal(model.coef_, plain(smooth={1: 3.0}).fit(X, y).coef_)


@pytest.mark.parametrize(
    "options",
    [
        {"mask": np.ones(SHAPE)},
        {"missing": "mean"},
        {"smooth": [0]},
        {"standardize": "auto"},
    ],
)
def test_streams_have_no_map(data, options):
    X, y = data
    name = next(iter(options))
    with pytest.raises(ValueError, match=f"{name} was given; expected"):
        SLTRRegressor(**options).partial_fit(X, y)


MAPS = {
    "mask": {"mask": np.eye(*SHAPE, dtype=bool) | (np.arange(5) < 2)},
    "mean": {"missing": "mean"},
    "low rank": {"missing": "low_rank"},
    "units": {"missing": "mean", "standardize": "entries"},
    "units, auto": {"missing": "mean", "standardize": "auto"},
    "smooth": {"missing": "mean", "smooth": {0: 2.0}},
    "smooth, auto": {"missing": "mean", "smooth": {0: "auto", 1: "auto"}},
}


@pytest.mark.parametrize("options", MAPS.values(), ids=MAPS)
def test_samples_held_out_change_nothing_that_is_learnt(data, rng, options):
    X, y = data
    if "missing" in options:
        X[rng.random(X.shape) < 0.05] = np.nan
    Z = np.column_stack([rng.normal(size=50), rng.choice(["a", "b"], 50)]).astype("O")
    rows = np.arange(50)
    train, test = rows[rows % 5 > 0], rows[rows % 5 == 0]
    others = X.copy(), y.copy(), Z.copy()
    others[0][test] = 100.0 + rng.normal(size=(10, *SHAPE))
    others[1][test], others[2][test, 0] = -1e3, 77.0

    def learnt(X, y, Z):
        model = SLTRRegressorCV(refine=(None, "reweight"), **options)
        with sklearn.config_context(enable_metadata_routing=True):
            model.set_fit_request(covariates=True).set_score_request(covariates=True)
            given = {"cv": [(train, test)], "params": {"covariates": Z}}
            return cross_validate(model, X, y, return_estimator=True, **given)

    one, other = (learnt(*given)["estimator"][0] for given in ((X, y, Z), others))
    for name in ("coef_", "intercept_", "covariate_coef_", "best_score_", "mask_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert (one.smooth_, one.standardize_) == (other.smooth_, other.standardize_)
    if one.fill_ is not None:
        np.testing.assert_array_equal(one.fill_["mean"], other.fill_["mean"])


@pytest.mark.parametrize("options", [{}, MAPS["mask"], {"smooth": {0: 2.0}}])
def test_folds_inside_a_fit_know_nothing_of_their_rows(data, rng, options):
    X, y = data
    Z = rng.normal(size=(50, 2))
    held = np.arange(50) < 10
    others = X.copy(), y.copy(), Z.copy()
    for values in others:
        values[held] = rng.normal(size=values[held].shape)

    def pilot(X, y, Z):
        model = SLTRRegressorCV(**options, standardize=None)  # units are of all samples
        samples = check_samples(model, X, y)
        samples = with_covariates(samples, Z, None, fit_intercept=True)
        task = model._task(samples, samples.y[:, None])
        pilots = ridge_pilots(task, ~held[None, :], [1.0])
        return np.asarray(pilots.coef)[0, 0, 0] * task.y_unit

    np.testing.assert_allclose(pilot(X, y, Z), pilot(*others), atol=1e-9)


@pytest.mark.parametrize("missing", ["mean", "low_rank"])
def test_scores_of_noise_are_not_flattered_by_fills(rng, missing):
    found = []
    for _ in range(8):
        X = rng.normal(size=(40, 5, 4))
        X[rng.random(X.shape) < 0.3] = np.nan
        model = SLTRRegressorCV(
            missing=missing, standardize="auto", refine=(None,), rule="best"
        )
        found.append(model.fit(X, rng.normal(size=40)).cv_results_["mean_test_score"])
    # The first penalties and no radii: nothing was chosen by these scores.
    assert np.mean([scores[0] for scores in found]) < 0.05
