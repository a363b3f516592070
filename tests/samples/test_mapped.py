"""Maps in front of samples that stay in a file or on a cluster: as in memory."""

import numpy as np
import pytest

from sltr import SLTRClassifierCV, SLTRRegressor, SLTRRegressorCV
from sltr.datasets import label
from sltr.samples.front import Front, front_plan
from sltr.samples.mapped import MappedFile, lazy_samples
from sltr.samples.samples import Samples
from sltr.samples.stored import Budget

SHAPE = (6, 5, 4)
N = 40
PLAIN = {"lambdas_sparse": (0.0, 0.3), "lambdas_low": (0.0, 0.5), "refine": None}


@pytest.fixture
def inside():
    """Return a mask that leaves out two slices of a mode, one of another, and more."""
    inside = np.ones(SHAPE, bool)
    inside[[0, 3]] = inside[:, 4] = False
    inside[1, :2, 3] = inside[5, 1] = False
    return inside


@pytest.fixture
def X(rng):
    return 2.0 + rng.normal(size=(N, *SHAPE)).cumsum(axis=2)


def stores(X, flat=False):
    """Yield samples in a file, in chunks and not, and as a Dask array."""
    dask_array = pytest.importorskip("dask.array")
    zarr = pytest.importorskip("zarr")
    X = X.reshape(len(X), -1) if flat else X
    chunks = (7, 33) if flat else (7, 4, 2, 3)
    stored = zarr.create_array(
        zarr.storage.MemoryStore(), shape=X.shape, dtype=X.dtype, chunks=chunks
    )
    stored[...] = X
    yield stored
    yield dask_array.from_array(X, chunks=(16, 100) if flat else (16, 3, 5, 2))


def fronts(inside, rng):
    """Return maps of all kinds, alone and together."""
    root = rng.normal(size=(5, 5))
    root, other = root + root.T, np.diag(np.arange(1.0, 5.0))
    scale = 1.0 + rng.random(SHAPE)
    return [
        Front(SHAPE, inside, cuts=False),
        Front(SHAPE, inside, scale, cuts=False),
        Front(SHAPE, modes=(1, 2), roots={1: root, 2: other}, cuts=False),
        Front(SHAPE, inside, scale, modes=(1,), roots={1: root}, cuts=False),
    ]


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("limit", [200_000, 10**7])
def test_products_are_those_of_mapped_samples(rng, X, inside, limit, flat):
    rows = np.flatnonzero(rng.random(N) < 0.6)
    for front in fronts(inside, rng):
        given = Samples(X, np.zeros(N), np.ones(N))
        expected = front.samples(given).X.reshape(N, -1)
        coef = rng.normal(size=(2, expected.shape[1]))
        for source in list(stores(X, flat))[: 1 + (limit > 10**6)]:
            design = lazy_samples(source, SHAPE, Budget(limit, product_rows=4))
            mapped = front.samples(Samples(design, np.zeros(N), np.ones(N))).X
            for part, whole in (
                (mapped, expected),
                (mapped.take(rows), expected[rows]),
            ):
                np.testing.assert_allclose(part.gram(), whole @ whole.T)
                np.testing.assert_allclose(part.inner(coef), whole @ coef.T)
                left = rng.normal(size=(3, len(whole)))
                np.testing.assert_allclose(part.combine(left), left @ whole)
                blocks = list(part.map_rows(np.array, ()))
                np.testing.assert_allclose(np.concatenate(blocks), whole)


def test_a_pass_over_mapped_samples_reads_each_entry_once(rng, X):
    zarr = pytest.importorskip("zarr")
    stored = zarr.create_array(
        zarr.storage.MemoryStore(), shape=X.shape, dtype=X.dtype, chunks=(7, 4, 2, 3)
    )
    stored[...] = X
    front = Front(SHAPE, modes=(1,), roots={1: np.eye(5)}, cuts=False)
    design = lazy_samples(stored, SHAPE, Budget(10**5))
    mapped = front.samples(Samples(design, np.zeros(N), np.ones(N))).X
    assert isinstance(mapped.source, MappedFile)
    mapped.inner(rng.normal(size=(1, 120)))
    assert mapped.budget.read[0] == pytest.approx(1.0)
    assert mapped.source.raw.budget.read[0] == pytest.approx(1.0)


def test_boxes_outside_the_mask_are_not_read(X, samples_stay):
    inside = np.zeros(SHAPE, bool)
    inside[:4] = True
    far = np.where(inside, X, np.nan)

    class Watched(Broken):
        def __getitem__(self, key):
            assert key[1].start < 4
            return self.X[key]

    y = X[:, 0, 0, 0]
    how = {"epsilon": 1.0, "mask": inside, "memory_limit": "1MB", "tol": 1e-8}
    found = SLTRRegressor(**how).fit(Watched(far), y).coef_
    expected = SLTRRegressor(**how).fit(far, y).coef_
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("standardize", ["slices", "entries"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_deviations_are_those_found_in_memory(
    rng, X, inside, fit_intercept, standardize
):
    X[:, 2, 2, 2] = 5.0  # never varies
    weight = 0.5 + rng.random(N)
    options = {"fit_intercept": fit_intercept, "standardize": standardize}
    known = front_plan(Samples(X, np.zeros(N), weight, kept=inside), **options)
    for source in stores(X):
        design = lazy_samples(source, SHAPE, Budget(3_000))
        samples = Samples(design, np.zeros(N), weight, kept=inside)
        found = front_plan(samples, **options).scales[standardize]
        assert found.shape == SHAPE
        expected = known.scales[standardize]
        np.testing.assert_allclose(known.plain.in_front(found), expected)


@pytest.mark.parametrize(
    "model",
    [
        SLTRRegressor(epsilon=1.0),
        SLTRRegressor(),
        SLTRRegressorCV(refine=(None,), cv=3),
    ],
)
def test_sizes_without_squares_are_named(X, samples_stay, model):
    model.set_params(memory_limit="1MB")
    stored = next(stores(1e200 * X))
    with pytest.raises(ValueError, match=r"Samples of about \de\+\d+.* were given"):
        model.fit(stored, X[:, 0, 0, 0])


SETTINGS = [
    {"mask": True},
    {"smooth": {1: 3.0, 2: 1.0}, "mask": True},
    {"smooth": {0: "auto"}},
    {"standardize": "entries", "mask": True},
    {"standardize": "slices", "mask": True},
    {"smooth": {1: [0.0, 10.0]}, "standardize": "auto"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: "-".join(s))
def test_a_model_is_the_one_found_in_memory(rng, X, inside, settings, samples_stay):
    if "mask" in settings:
        settings = settings | {"mask": inside}
        X = np.where(inside, X, np.nan)  # nobody measured there
    y = np.nan_to_num(X)[:, 1:3, :3, 0].sum(axis=(1, 2)) + rng.normal(size=N)
    beside = {"covariates": rng.normal(size=(N, 2))}
    how = {"tol": 1e-8, "memory_limit": "1MB"} | settings
    known = SLTRRegressor(epsilon=1.0, **how).fit(X, y, **beside)
    expected = known.predict(X, **beside)
    for source in stores(X):
        model = SLTRRegressor(epsilon=1.0, **how).fit(source, y, **beside)
        assert model.n_passes_ > 0
        np.testing.assert_allclose(model.coef_, known.coef_, atol=1e-6)
        assert model.intercept_ == pytest.approx(known.intercept_, abs=1e-5)
        assert model.smooth_ == known.smooth_
        if "mask" in settings:
            assert np.array_equal(model.mask_, inside)
            assert not model.coef_[~inside].any()
        found = model.predict(source, **beside)
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_tuning_is_the_one_in_memory(rng, X, inside, samples_stay):
    y = X[:, 1:3, :3, 0].sum(axis=(1, 2)) + rng.normal(size=N)
    groups, known = np.arange(N) // 4, label(X, ("a", "b", "c"), mask=inside)
    how = {"tol": 1e-8, "memory_limit": "1MB", "smooth": {"b": "auto"}}
    model = SLTRRegressorCV(**PLAIN, **how)
    expected = model.fit(known, y, groups=groups).coef_
    strengths, score = model.smooth_, model.best_score_
    stored = label(next(stores(X)), ("a", "b", "c"), mask=inside)
    model.fit(stored, y, groups=groups)
    assert model.n_passes_ > 0
    assert model.smooth_ == strengths
    assert model.best_score_ == pytest.approx(score, abs=1e-4)
    np.testing.assert_allclose(model.coef_, expected, atol=1e-5)
    assert np.array_equal(model.mask_, inside)


def test_refits_of_masked_samples_predict_as_in_memory(rng, inside, samples_stay):
    X = np.where(inside, rng.normal(size=(120, *SHAPE)), np.nan)
    y = X[:, 1, :3, 0] @ [1.0, -1.0, 1.0] + 0.3 * rng.normal(size=120)
    labels = np.where(y > 0, "up", "down")
    for Model, response in ((SLTRRegressorCV, y), (SLTRClassifierCV, labels)):
        model = Model(mask=inside, memory_limit="100MB").fit(X[:80], response[:80])
        expected = model.score(X[80:], response[80:])
        model.fit(next(stores(X[:80])), response[:80])
        assert model.refine_ is not None
        assert not model.coef_[~inside].any()
        assert model.score(X[80:], response[80:]) == pytest.approx(expected, abs=0.03)


def test_what_is_not_finite_inside_the_mask_is_named(rng, X, inside, samples_stay):
    X[11, 2, 1, 1] = np.nan
    for source in stores(X):
        for settings in ({"mask": inside}, {"mask": inside, "smooth": {1: 1.0}}):
            model = SLTRRegressor(epsilon=1.0, memory_limit="1MB", **settings)
            with pytest.raises(ValueError, match=r"NaN or infinity .* sample 11"):
                model.fit(source, np.arange(float(N)))


class Broken:
    """Samples in chunks of two, one of which cannot be read."""

    def __init__(self, X):
        self.X, self.shape, self.dtype = X, X.shape, X.dtype
        self.chunks = (2,) * X.ndim

    def __getitem__(self, key):
        if key[0].start <= 12 < key[0].stop and key[2].start <= 3 < key[2].stop:
            msg = "disk error"
            raise RuntimeError(msg)
        return self.X[key]


def test_a_broken_chunk_is_named_by_its_place_in_the_file(X, inside, samples_stay):
    how = {"epsilon": 1.0, "memory_limit": "1MB", "mask": inside, "smooth": {0: 1.0}}
    named = r"samples 12:14 and entries \[0:2, 2:4, 0:2\]: RuntimeError: disk error"
    with pytest.raises(OSError, match=named):
        SLTRRegressor(**how).fit(Broken(X), np.arange(float(N)))


def test_fills_of_samples_in_a_file_are_refused(X, samples_stay):
    model = SLTRRegressor(missing="mean", memory_limit="1MB")
    with pytest.raises(ValueError, match="missing='mean' was given for samples"):
        model.fit(next(stores(X)), np.arange(float(N)))
