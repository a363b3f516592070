"""Bad input meets a clear error, odd input the right answer, in every model."""

from datetime import date
from decimal import Decimal

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

import sltr
from sltr.datasets import label
from sltr.estimators.sltr import SLTRClassifier, SLTRRegressor
from sltr.estimators.sltr_cv import SLTRRegressorCV
from sltr.peers.elementary import ElemRidge, TensorRidge

MODELS = [SLTRRegressor(), SLTRClassifier(), ElemRidge(), TensorRidge()]
REGRESSORS = [SLTRRegressor(), ElemRidge(), TensorRidge()]
every_model = pytest.mark.parametrize(
    "model", MODELS, ids=lambda model: type(model).__name__
)
every_regressor = pytest.mark.parametrize(
    "model", REGRESSORS, ids=lambda model: type(model).__name__
)


@pytest.fixture
def data(rng):
    """Whole numbers, so that every dtype can hold them."""
    X = rng.integers(-3, 4, size=(30, 4, 3, 2)).astype(float)
    y = (X[:, 0, 0, 0] + X[:, 1, 0, 0] > 0).astype(float)
    return X, y


def with_value(X, value):
    X = X.copy()
    X[2, 1, 0, 1] = value
    return X


def with_last(y, value):
    y = y.copy()
    y[-1] = value
    return y


BAD = {
    "one axis": (lambda X, y: (X[:, 0, 0, 0], y), "2D array|first axis"),
    "unequal lengths": (lambda X, y: (X[:-1], y), "inconsistent|equal numbers"),
    "NaN": (lambda X, y: (with_value(X, np.nan), y), "NaN"),
    "infinity": (lambda X, y: (with_value(X, np.inf), y), "infinity"),
    "NaN in y": (lambda X, y: (X, with_last(y, np.nan)), "NaN|finite"),
    "infinite y": (lambda X, y: (X, with_last(y, np.inf)), "infinity|finite"),
    "no samples": (lambda X, y: (X[:0], y[:0]), "0 sample|at least one"),
    "no features": (lambda X, y: (X[:, :0], y), "0 feature|at least one"),
    "one sample": (lambda X, y: (X[:1], y[:1]), "at least 2|minimum of 2"),
    "complex": (lambda X, y: (X + 1j, y), "[Cc]omplex"),
}


@every_model
@pytest.mark.parametrize("kind", BAD)
def test_bad_data_is_refused(data, model, kind):
    spoil, message = BAD[kind]
    with pytest.raises(ValueError, match=message):
        clone(model).fit(*spoil(*data))


@every_model
@pytest.mark.parametrize("kind", BAD)
def test_bad_foreign_data_is_refused(foreign, data, model, kind):
    X, y = BAD[kind][0](*data)
    with pytest.raises(ValueError):  # noqa: PT011 the words differ by library
        clone(model).fit(foreign.array(X), foreign.array(y))


@every_model
def test_data_that_is_no_number_is_refused(data, model):
    X, y = data
    words = X.astype(object)
    words[0, 0, 0, 0] = "word"
    with pytest.raises(ValueError, match="convert"):
        clone(model).fit(words, y)
    with pytest.raises(ValueError, match="requires y"):
        clone(model).fit(X, None)


@every_model
@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": -1.0},
        {"epsilon": float("nan")},
        {"epsilon": float("inf")},
        {"epsilon": "gcv"},
        {"lambda_sparse": -0.1},
        {"lambda_sparse": float("nan")},
        {"lambda_low": float("inf")},
        {"lambda_low": -1.0},
        {"lambda_low": None},
        {"radius": "diameter"},
        {"feature_shape": (5, 5)},
        {"feature_shape": (-4, -6)},
        {"feature_shape": 24.5},
        {"coupling": "sum"},
        {"weights": "none"},
        {"solver": "sgd"},
        {"tol": -1.0},
        {"max_iter": 0},
    ],
    ids=str,
)
def test_bad_parameters_are_refused_by_name(data, model, change):
    [name] = change
    if name not in model.get_params():
        pytest.skip(f"{type(model).__name__} has no {name}")
    with pytest.raises(ValueError, match=name):
        clone(model).set_params(**change).fit(*data)


@every_model
def test_other_shapes_are_refused_at_prediction(data, model):
    X, y = data
    fitted = clone(model).fit(X, y)
    for other in (X[:, :, :2], X.reshape(30, 4, 6), X.reshape(30, -1), X[:, :3]):
        with pytest.raises(ValueError, match=r"fitted on|features"):
            fitted.predict(other)
    with pytest.raises(ValueError, match="NaN"):
        fitted.predict(with_value(X, np.nan))


@every_model
def test_bad_weights_are_refused(data, model):
    X, y = data
    for weight, message in (
        (-np.ones(30), "[Nn]egative"),
        (np.full(30, np.nan), "NaN"),
        (np.ones(29), "shape"),
        (np.zeros(30), "positive weight|weight"),
    ):
        with pytest.raises(ValueError, match=message):
            clone(model).fit(X, y, sample_weight=weight)


@every_model
def test_bad_foreign_weights_are_refused(foreign, data, model):
    X, y = (foreign.array(v) for v in data)
    for weight in (-np.ones(30), np.full(30, np.nan), np.ones(29), np.zeros(30)):
        with pytest.raises(ValueError, match="weight"):
            clone(model).fit(X, y, sample_weight=foreign.array(weight))


def test_labels_of_one_class_are_refused(data):
    X, y = data
    for labels in (np.zeros(30), np.array(["same"] * 30)):
        with pytest.raises(ValueError, match="one class"):
            SLTRClassifier().fit(X, labels)
    with pytest.raises(ValueError, match="one class"):
        SLTRClassifier().fit(X, y, sample_weight=y)


@pytest.mark.parametrize("kind", [list, np.asarray])
def test_plain_labels_go_with_foreign_samples(foreign, data, kind):
    X, y = data
    labels = np.where(y > 0, "yes", "no")
    weight = np.where(np.arange(30) < 5, 0.0, 1.0)
    expected = SLTRClassifier().fit(X[5:], labels[5:])
    given = foreign.array(X)
    found = SLTRClassifier().fit(given, kind(labels), sample_weight=weight)
    assert found.classes_.tolist() == ["no", "yes"]
    assert np.mean(found.predict(given) == expected.predict(X)) > 0.9


def test_continuous_labels_are_refused(data, rng):
    with pytest.raises(ValueError, match="label type"):
        SLTRClassifier().fit(data[0], rng.normal(size=30))


@every_regressor
def test_a_constant_response_is_predicted(data, model):
    X, _ = data
    fitted = clone(model).fit(X, np.full(30, 4.5))
    assert np.abs(fitted.coef_).max() < 1e-10
    np.testing.assert_allclose(fitted.predict(X), 4.5)


@every_model
def test_samples_of_zeros_say_nothing(data, model):
    X, y = data
    fitted = clone(model).fit(0.0 * X, y)
    assert not fitted.coef_.any()
    if isinstance(model, SLTRClassifier):
        share = fitted.predict_proba(X)[:, 1]
        assert np.ptp(share) == 0.0
        assert share[0] == pytest.approx(y.mean(), abs=0.05)
    else:
        np.testing.assert_allclose(fitted.predict(X), y.mean())


@every_model
@pytest.mark.parametrize("epsilon", [0.0, "loo"])
def test_equal_samples_and_no_penalty_still_fit(data, model, epsilon):
    X, y = data
    same = np.broadcast_to(X[:1], X.shape)
    fitted = clone(model).set_params(epsilon=epsilon).fit(same, y)
    assert np.isfinite(fitted.coef_).all()
    assert np.abs(fitted.coef_).max() < 1e-6


@every_model
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "float16", "object"])
def test_other_dtypes_are_taken_as_real_numbers(data, model, dtype):
    X, y = data
    X = np.abs(X)
    expected = clone(model).fit(X, y)
    found = clone(model).fit(X.astype(dtype), y)
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-3)
    np.testing.assert_allclose(
        found.predict(X.astype(dtype)), expected.predict(X), atol=1e-2
    )


@every_model
def test_truth_values_are_zeros_and_ones(data, model):
    X, y = data
    expected = clone(model).fit((X > 0).astype(float), y)
    found = clone(model).fit(X > 0, y)
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-12)


@every_model
@pytest.mark.parametrize("dtype", ["int64", "bool"])
def test_foreign_whole_numbers_are_taken_as_real(foreign, data, model, dtype):
    X, y = data
    X = X.astype(dtype)
    expected = clone(model).fit(X.astype(float), y)
    found = clone(model).fit(foreign.array(X), foreign.array(y))
    np.testing.assert_allclose(foreign.numpy(found.coef_), expected.coef_, atol=5e-3)


def strided(X):
    wide = np.zeros((60, 4, 6, 2))
    wide[::2, :, ::2] = X
    return wide[::2, :, ::2]


def backwards(X):
    return np.ascontiguousarray(X[::-1, :, ::-1])[::-1, :, ::-1]


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


@every_model
@pytest.mark.parametrize(
    "layout", [np.asfortranarray, strided, backwards, read_only, np.ndarray.tolist]
)
def test_the_layout_in_memory_does_not_matter(data, model, layout):
    X, y = data
    expected = clone(model).fit(X, y)
    laid = layout(X)
    found = clone(model).fit(laid, y)
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-10)
    np.testing.assert_allclose(found.predict(laid), expected.predict(X), atol=1e-9)


@every_model
def test_foreign_views_are_read_as_they_are(foreign, data, model):
    X, y = data
    expected = clone(model).fit(X, y)
    turned = foreign.array(np.ascontiguousarray(np.moveaxis(X, 0, -1)))
    view = foreign.namespace.moveaxis(turned, -1, 0)
    found = clone(model).fit(view, foreign.array(y))
    np.testing.assert_allclose(foreign.numpy(found.coef_), expected.coef_, atol=5e-3)


@every_model
def test_fit_leaves_its_input_alone(data, model):
    X, y = data
    weight = np.linspace(0.5, 1.5, 30)
    kept = [v.copy() for v in (X, y, weight)]
    clone(model).fit(X, y, sample_weight=weight)
    for now, before in zip((X, y, weight), kept, strict=True):
        assert np.array_equal(now, before)


def test_tensors_of_another_shape_are_named_in_full(data):
    X, y = data
    model = SLTRRegressor().fit(X, y)
    expected = (
        r"X has shape \(4, 2, 3\) per sample; the model was fitted on \(4, 3, 2\)"
    )
    with pytest.raises(ValueError, match=expected):
        model.predict(np.swapaxes(X, 2, 3))
    with pytest.raises(ValueError, match=r"X has shape \(5, 3, 2\)"):
        model.predict(np.concatenate([X, X[:, :1]], axis=1))
    model.partial_fit(X, y)
    with pytest.raises(ValueError, match=r"X has shape \(3, 3, 2\)"):
        model.partial_fit(X[:, :3], y)


@every_regressor
def test_words_are_no_responses(data, model):
    X, y = data
    words = np.where(y > 0, "up", "down")
    for given in (words, words.tolist(), words.astype(object)):
        with pytest.raises(ValueError, match=r"y holds words.*SLTRClassifierCV"):
            clone(model).fit(X, given)
    numbers = y.astype(object)
    np.testing.assert_allclose(
        clone(model).fit(X, numbers).coef_, clone(model).fit(X, y).coef_
    )


@pytest.mark.parametrize(
    "change",
    [
        {"tol": "small"},
        {"n_jobs": "all"},
        {"n_jobs": (1, 2)},
        {"feature_shape": "ab"},
    ],
)
def test_words_and_wrong_lengths_are_no_parameters(data, change):
    X, y = data
    [name] = change
    with pytest.raises(ValueError, match=f"{name}=.* was given"):
        SLTRRegressor(**change).fit(X.reshape(len(X), -1), y)


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("unit", [1e20, 1e-20])
def test_samples_out_of_range_are_refused(data, unit):
    X, y = data
    with pytest.raises(ValueError, match="float32 does not have"):
        SLTRRegressor().fit((unit * X).astype(np.float32), y.astype(np.float32))
    SLTRRegressor().fit(unit * X, y)


@pytest.mark.parametrize("refine", [("sparse", None), ("sparse", 0.03)])
def test_a_given_sparse_refit_needs_no_low_radius(data, refine):
    X, y = data
    found = SLTRRegressor(lambda_low=0.1, refine=refine).fit(X, y).coef_
    assert found.any()
    expected = SLTRRegressor(lambda_low=0.0, refine=refine).fit(X, y).coef_
    np.testing.assert_array_equal(found, expected)


def test_ranks_may_be_numpys(data):
    X, y = data
    ranks = (np.int64(2), np.int64(2), np.int64(1))
    found = SLTRRegressor(refine=("tucker", ranks, 0.3)).fit(X, y).coef_
    expected = SLTRRegressor(refine=("tucker", (2, 2, 1), 0.3)).fit(X, y).coef_
    np.testing.assert_array_equal(found, expected)


def test_refits_of_sorted_labels_see_every_class(rng):
    y = np.repeat(np.arange(5), 30)
    X = rng.normal(size=(150, 6, 5))
    X[np.arange(150), y, 0] += 2.0
    mixed = rng.permutation(150)
    scales = [
        np.linalg.norm(SLTRClassifier(refine="scale").fit(X[rows], y[rows]).coef_)
        for rows in (np.arange(150), mixed)
    ]
    assert 0.8 < scales[0] / scales[1] < 1.25


@pytest.mark.parametrize("kind", ["dask", "torch"])
def test_words_as_responses_are_told_for_samples_of_any_kind(kind):
    X = np.zeros((6, 3, 2))
    library = pytest.importorskip("dask.array" if kind == "dask" else "torch")
    for words in (list("aabbcc"), np.array(list("aabbcc"))):
        with pytest.raises(ValueError, match="y holds words, such as 'a'"):
            SLTRRegressor().fit(library.asarray(X), words)


def test_names_of_columns_are_not_those_of_an_earlier_fit(rng):
    torch = pytest.importorskip("torch")
    pandas = pytest.importorskip("pandas")
    X, y = rng.normal(size=(20, 4)), rng.normal(size=20)
    model = SLTRRegressor().fit(pandas.DataFrame(X, columns=list("abcd")), y)
    assert model.feature_names_in_.tolist() == list("abcd")
    model.fit(torch.asarray(X), torch.asarray(y))
    assert not hasattr(model, "feature_names_in_")


def test_a_fold_that_repeats_samples_is_refused(rng):
    X, y = rng.normal(size=(20, 3, 2)), rng.normal(size=20)
    rows = np.arange(20)
    folds = [(np.r_[rows[5:], rows[5:8]], rows[:5])]
    with pytest.raises(ValueError, match="18 samples, of which 15"):
        SLTRRegressorCV(cv=folds).fit(X, y)


@pytest.mark.parametrize(
    "fold", [3, "x", ("a", "b"), (np.arange(12),), (1, [2]), [np.arange(4)] * 3]
)
def test_what_is_no_fold_is_named(rng, fold):
    X, y = rng.normal(size=(12, 3, 2)), rng.normal(size=12)
    with pytest.raises(ValueError, match="in place of a fold; expected two lists"):
        SLTRRegressorCV(cv=[fold]).fit(X, y)


def test_masked_rows_of_folds_are_refused(rng):
    X, y = rng.normal(size=(12, 3, 2)), rng.normal(size=12)
    fold = (np.ma.masked_less(np.arange(8), 3), np.arange(8, 12))
    with pytest.raises(ValueError, match="3 entries of cv are masked"):
        SLTRRegressorCV(cv=[fold]).fit(X, y)


TUNED = sorted(name for name in sltr.__all__ if name.endswith("CV"))


@pytest.mark.parametrize("rows", [[0, 1, 12], [-1, 0, 1]], ids=["beyond", "negative"])
@pytest.mark.parametrize("name", TUNED)
def test_splits_with_rows_that_do_not_exist_are_refused(rng, name, rows):
    X, y = rng.normal(size=(12, 3, 2, 2)), np.tile([0.0, 1.0], 6)
    # One of weight zero too, since rows are then numbered anew.
    for part in (0, 1):
        fold = [np.arange(6), np.arange(6, 12)]
        fold[part] = np.array(rows)
        for weight in (None, np.r_[0.0, np.ones(11)]):
            model = getattr(sltr, name)(cv=[tuple(fold)])
            given = {} if weight is None else {"sample_weight": weight}
            if given and not has_fit_parameter(model, "sample_weight"):
                continue
            with pytest.raises(ValueError, match="whole numbers from 0 to 11"):
                model.fit(X, y, **given)


@pytest.mark.parametrize(("dtype", "size"), [("float32", 1e19), ("float64", 1e160)])
@pytest.mark.parametrize("model", [SLTRRegressor(), SLTRRegressorCV(), TensorRidge()])
def test_responses_whose_squares_overflow_are_refused(rng, model, dtype, size):
    X = rng.normal(size=(20, 3, 2)).astype(dtype)
    y = rng.normal(size=20).astype(dtype)
    for unit in (size, 0.01 / size):
        with pytest.raises(ValueError, match="Divide y by its largest entry"):
            clone(model).fit(X, y * np.array(unit, dtype))


@pytest.mark.parametrize(
    "model",
    [
        SLTRRegressor(1.0),
        SLTRRegressor(1.0, refine="reweight"),
        SLTRRegressorCV(refine=(None, "scale", "cp", "sparse"), cv=3),
        ElemRidge(1.0),
        TensorRidge(1.0),
        sltr.CPRegressor(1, random_state=0),
        sltr.TuckerRegressor((1, 1, 1), random_state=0),
        sltr.TensorLasso(0.01),
        sltr.RemursRegressor(0.1, 0.1),
        sltr.SURFRegressor(),
        sltr.TPGDRegressor((1, 1, 1)),
    ],
    ids=str,
)
def test_responses_keep_their_precision_beside_single_samples(rng, model):
    X = rng.normal(size=(40, 4, 3, 2)).astype(np.float32)
    y = X[:, 0, 0, 0] - X[:, 1, 1, 0] + 0.1 * rng.normal(size=40)
    near, far = clone(model).fit(X, y), clone(model).fit(X, y + 1e6)
    assert far.coef_.dtype == near.coef_.dtype == np.float32
    np.testing.assert_allclose(far.coef_, near.coef_, atol=1e-3)
    assert far.intercept_ - 1e6 == pytest.approx(near.intercept_, abs=0.1)


@every_regressor
def test_responses_that_single_precision_lacks_are_refused(rng, model):
    X = rng.normal(size=(20, 3, 2)).astype(np.float32)
    with pytest.raises(ValueError, match="Divide y by its largest entry"):
        clone(model).fit(X, 1e-60 * X[:, 0, 0].astype(float))


HUGE = 10**400
BUDGETS = [
    (SLTRRegressor(epsilon=HUGE), "epsilon"),
    (SLTRRegressor(weights=(HUGE, 1)), "weights"),
    (SLTRRegressor(max_iter=2**70), "max_iter"),
    (SLTRRegressorCV((HUGE,)), "epsilons"),
    (sltr.CPRegressor(n_restarts=2**63), "n_restarts"),
    (sltr.CPRegressor(max_iter=2**70), "max_iter"),
    (sltr.HRTRRRegressor(n_restarts=2**63), "n_restarts"),
    (sltr.RemursRegressorCV(n_alphas=2**63), "n_alphas"),
    (sltr.TensorLasso(0.1, max_iter=2**63), "max_iter"),
    (sltr.TensorElasticNet(0.1, l1_ratio=HUGE), "l1_ratio"),
    (sltr.TensorLassoCV(tol=HUGE), "tol"),
    (sltr.TensorLassoCV(n_alphas=2**63), "n_alphas"),
]


@pytest.mark.parametrize(
    ("model", "name"), BUDGETS, ids=lambda v: v if type(v) is str else type(v).__name__
)
def test_numbers_that_no_computer_has_are_refused(model, name, data):
    with pytest.raises(ValueError, match=rf"{name}.*given; expected"):
        clone(model).fit(*data)


@every_regressor
def test_entries_near_the_largest_float_are_refused(model, data):
    X, y = data
    with pytest.raises(ValueError, match=r"were given.*Divide X"):
        clone(model).fit(X / np.abs(X).max() * np.finfo(float).max, y)


@pytest.mark.parametrize("model", [SLTRRegressor(), SLTRClassifier()])
def test_score_takes_arrays_on_a_device(data, model):
    strict = pytest.importorskip("array_api_strict")
    device = strict.Device("device1")  # no way to NumPy but by an explicit copy
    X, y = data
    there, labels = (strict.asarray(values, device=device) for values in (X, y))
    weight = np.arange(1.0, len(y) + 1)
    fitted, expected = clone(model).fit(there, labels), clone(model).fit(X, y)
    found = fitted.score(
        there, labels, sample_weight=strict.asarray(weight, device=device)
    )
    # Solvers of different array libraries agree up to the duality gap.
    close = expected.score(X, y, sample_weight=weight)
    assert found == pytest.approx(close, abs=1e-4)
    assert fitted.score(there, labels) == pytest.approx(expected.score(X, y), abs=1e-4)


def test_scorers_and_cross_validation_take_arrays_on_a_device(data):
    strict = pytest.importorskip("array_api_strict")
    import sklearn
    from sklearn.metrics import get_scorer
    from sklearn.model_selection import cross_val_score

    X, y = data
    device = strict.Device("device1")
    there, response = (strict.asarray(values, device=device) for values in (X, y))
    model = SLTRRegressor().fit(there, response)
    try:
        sklearn.set_config(array_api_dispatch=True)
    except (ImportError, RuntimeError) as error:  # SciPy must be told before it is read
        pytest.skip(str(error))
    try:
        scored = get_scorer("r2")(model, there, response)
        found = cross_val_score(SLTRRegressor(), there, response, scoring="r2", cv=3)
    finally:
        sklearn.set_config(array_api_dispatch=False)
    assert scored == pytest.approx(model.score(X, y), abs=1e-4)
    expected = cross_val_score(SLTRRegressor(), X, y, scoring="r2", cv=3)
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_radii_that_single_precision_does_not_have_leave_nothing():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(8, 3, 2)).astype(np.float32), rng.normal(size=8)
    for radius in ("relative", "absolute"):
        model = sltr.SLTRRegressor(
            epsilon=1.0, lambda_sparse=1e308, lambda_low=1e308, radius=radius
        )
        assert not model.fit(X, y).coef_.any()


MATRIX = np.ones((4, 3, 2))
SPOILT = {
    "smooth: no hash": ({"smooth": [[0]]}, "smooth"),
    "smooth: an array": ({"smooth": np.eye(2)}, "smooth"),
    "smooth: overflow": ({"smooth": {0: 1e308}}, "smooth"),
    "smooth: some overflow": ({"smooth": {0: [1.0, 1e300]}}, "smooth"),
    "entries: large": ({"entry_weights": 1e308 * MATRIX}, "entry_weights"),
    "entries: small": ({"entry_weights": 1e-308 * MATRIX}, "entry_weights"),
    "entries: complex": ({"entry_weights": 1j * MATRIX}, "entry_weights"),
    "entries: dates": ({"entry_weights": MATRIX.astype("M8[s]")}, "entry_weights"),
    "no jobs": ({"n_jobs": 0}, "n_jobs"),
    "half a job": ({"n_jobs": 0.5}, "n_jobs"),
    "jobs of nobody": ({"n_jobs": HUGE}, "n_jobs"),
    "progress": ({"progress": "x"}, "progress"),
    "a word for no": ({"fit_intercept": "False"}, "fit_intercept"),
    "several answers": ({"fit_intercept": [1, 0]}, "fit_intercept"),
    "several signs": ({"positive": np.ones(2, bool)}, "positive"),
    "several fills": ({"missing": np.array(["mean", "error"])}, "missing"),
    "several solvers": ({"solver": np.array(["admm", "ppxa"])}, "solver"),
}


@pytest.mark.parametrize("kind", SPOILT)
def test_what_no_fit_can_use_is_named(data, kind):
    change, name = SPOILT[kind]
    for model in (SLTRRegressor(**change), sltr.SLTRClassifierCV(cv=2, **change)):
        with pytest.raises(ValueError, match=rf"(?s){name}.*given; expected"):
            model.fit(*data)


HOLES = np.ma.masked_array(MATRIX, np.arange(24) % 8 == 0)  # three of them
PLACES = np.ma.masked_array(np.arange(4.0), [0, 1, 0, 0])


def _fits_with(**params):
    return lambda X, y: SLTRRegressor(**params).fit(X, y)


DOORS = {
    "mask": _fits_with(mask=HOLES),
    "entry_weights": _fits_with(entry_weights=HOLES),
    "coords": _fits_with(smooth={0: {"coords": PLACES}}),
    "positions": _fits_with(smooth={0: {"positions": PLACES[:, None]}}),
    "laplacian": _fits_with(smooth={0: {"laplacian": np.eye(4) * PLACES}}),
    "X": lambda X, y: label(np.ma.masked_greater(X, 2.0)),
    "mask of labels": lambda X, y: label(X, mask=HOLES),
    "coords of labels": lambda X, y: label(X, coords={0: PLACES}),
    "groups": lambda X, y: sltr.SLTRRegressorCV().fit(
        X, y, groups=np.ma.masked_less(np.arange(len(y)), 3)
    ),
    "groups of permutations": lambda X, y: sltr.inference.permutation_test(
        SLTRRegressor(), X, y, groups=np.ma.masked_less(np.arange(len(y)), 3)
    ),
    "groups of a comparison": lambda X, y: sltr.compare(
        X, y, methods=(), groups=np.ma.masked_less(np.arange(len(y)), 3)
    ),
    "covariates of a comparison": lambda X, y: sltr.compare(
        X, y, methods=(), covariates=np.ma.masked_less(np.arange(len(y)), 3)
    ),
    "y of intervals": lambda X, y: sltr.inference.intervals(
        SLTRRegressor(), X, np.ma.masked_greater(y, 0.5)
    ),
    "X of intervals, sample by sample": lambda X, y: sltr.inference.intervals(
        SLTRRegressor(), list(np.ma.masked_greater(X, 2.0)), y
    ),
    "classes of a stream": lambda X, y: SLTRClassifier().partial_fit(
        X, y, classes=np.ma.masked_less(np.arange(2.0), 1)
    ),
    "ids of labels": lambda X, y: label(X, ids=np.ma.masked_less(range(len(y)), 3)),
    "groups, as objects": lambda X, y: sltr.SLTRRegressorCV().fit(
        X, y, groups=[np.ma.masked, *range(1, len(y))]
    ),
    "y, as objects": lambda X, y: SLTRRegressor().fit(
        X, with_last(y.astype(object), np.ma.masked)
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_masked_entries_are_refused_wherever_they_are_given(data, door):
    what = door.split()[0].rstrip(",")
    with pytest.raises(ValueError, match=rf"\d+ entries of {what} are masked"):
        DOORS[door](*data)


SCORED = {
    "SLTRRegressor": {},
    "SLTRClassifier": {},
    "TensorRidge": {},
    "ElemRidge": {},
    "TensorLasso": {},
    "RemursRegressor": {"max_iter": 5},
    "RemursClassifier": {"max_iter": 5},
    "CPRegressor": {"max_iter": 5},
    "CPClassifier": {"max_iter": 5},
    "TPGDRegressor": {"max_iter": 5},
    "SURFRegressor": {"max_steps": 5},
    "HRTRRRegressor": {"max_iter": 5},
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", SCORED)
def test_scores_refuse_masks_and_dates(data, name):
    X, y = data
    model = getattr(sltr, name)(**SCORED[name]).fit(X, y)
    assert model.score(X, y) == model.score(X, np.ma.array(y), np.ma.ones(len(y)))
    with pytest.raises(ValueError, match="entries of y are masked"):
        model.score(X, np.ma.masked_greater(y, 0.5))
    with pytest.raises(ValueError, match="1 entries of sample_weight are masked"):
        model.score(X, y, np.ma.masked_equal(np.arange(len(y)), 3))
    with pytest.raises(ValueError, match="y holds dates"):
        model.score(X, y.astype("M8[s]"))


def _pandas():
    return pytest.importorskip("pandas")


DATES = {
    "an array": lambda y: y.astype("M8[D]"),
    "one among objects": lambda y: with_last(y.astype(object), np.datetime64("2020")),
    "one in a list": lambda y: [*y[:-1].tolist(), date(2020, 1, 1)],
    "lists": lambda y: [[np.timedelta64(int(one), "D")] for one in y],
    "a table": lambda y: _pandas().DataFrame({"a": y, "b": y.astype("M8[s]")}),
    "a column": lambda y: _pandas().Series(y.astype("M8[s]")),
    "categories": lambda y: _pandas().Series(y.astype("M8[s]")).astype("category"),
}


@pytest.mark.parametrize("kind", DATES)
def test_dates_are_refused_however_they_are_given(data, kind):
    X, y = data
    given = DATES[kind](y)
    for fit in (
        lambda: SLTRRegressor().fit(X, given),
        lambda: SLTRRegressor().fit(X, y, covariates=given),
        lambda: sltr.CPClassifier().fit(given, y),
    ):
        with pytest.raises(ValueError, match="holds dates"):
            fit()


def test_responses_that_pytorch_can_differentiate_are_taken(data):
    torch = pytest.importorskip("torch")
    X, y = data
    known = torch.asarray(y).requires_grad_()
    weight = torch.ones(len(y), requires_grad=True)
    model = SLTRRegressor().fit(X, known, sample_weight=weight)
    np.testing.assert_array_equal(model.coef_, SLTRRegressor().fit(X, y).coef_)
    assert label(torch.asarray(X).requires_grad_()).shape == X.shape


def test_intervals_name_the_numbers_of_samples(data):
    X, y = data
    for shorter in (X[:1], X[:0], X[0, 0, 0, 0]):
        with pytest.raises(ValueError, match=r"X has \d samples and y 30; expected"):
            sltr.inference.intervals(SLTRRegressor(), shorter, y)


@pytest.mark.parametrize("refine", [("cp", 1, HUGE), ("sparse", HUGE)])
def test_ridges_that_no_computer_has_are_refused(data, refine):
    with pytest.raises(ValueError, match=r"refine=.*Ridges are positive"):
        SLTRRegressor(refine=refine).fit(*data)


def test_weights_of_classes_that_no_computer_has_are_refused(data):
    with pytest.raises(ValueError, match=r"class_weight.*given; expected"):
        SLTRClassifier(class_weight={0.0: HUGE, 1.0: 1}).fit(*data)


def test_whole_numbers_beyond_floats_are_refused(data):
    X, y = data
    huge = np.array([HUGE] * len(y), dtype=object)
    model = SLTRRegressor().fit(X, y)
    calls = (
        lambda: SLTRRegressor().fit(X, huge),
        lambda: SLTRRegressor().fit(huge[:, None], y),
        lambda: model.predict(with_value(X.astype(object), HUGE)),
        lambda: model.score(X, huge),
    )
    for call in calls:
        with pytest.raises(ValueError, match="beyond all floats"):
            call()


@pytest.mark.parametrize("y", [None, 0.0, "x"])
def test_score_says_that_responses_are_missing(data, y):
    model = SLTRRegressor().fit(*data)
    with pytest.raises(ValueError, match="expected responses of the fitted"):
        model.score(data[0], y)


@pytest.mark.parametrize(
    "name",
    ["refine", "responses", "slices", "smooth", "cv", "epsilons", "lambdas_sparse"],
)
@pytest.mark.parametrize("value", [np.array("word"), np.array(0.5), range(10**12)])
def test_scalar_arrays_and_endless_lists_are_named(data, name, value):
    X, y = data
    with pytest.raises(ValueError, match=name):
        SLTRRegressorCV(**{name: value}).fit(X, y)


def test_a_scalar_array_is_the_value_it_holds(data):
    X, y = data
    asked = {"cv": 3, "refine": "scale", "slices": 1}
    plain, arrays = (
        SLTRRegressorCV(**{name: kind(value) for name, value in asked.items()})
        for kind in (lambda value: value, np.array)
    )
    np.testing.assert_array_equal(arrays.fit(X, y).coef_, plain.fit(X, y).coef_)


def test_groups_without_an_order_are_refused(data):
    X, y = data
    for odd in (Decimal("sNaN"), 1 + 2j, {}):
        groups = np.array([1, odd] * 15, dtype=object)
        with pytest.raises(ValueError, match="groups"):
            SLTRRegressorCV(cv=3).fit(X, y, groups=groups)
