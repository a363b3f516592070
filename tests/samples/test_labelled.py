"""Samples that know themselves, and models that remember it."""

import pickle

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score, train_test_split

from sltr import CPRegressor, SLTRClassifierCV, SLTRRegressor, load, save
from sltr.datasets import label
from sltr.samples.labelled import LabelledArray, labels_of

CHANNELS = ["Fz", "Cz", "Pz", "Oz"]
TIMES = np.arange(6) / 100


@pytest.fixture
def X():
    values = np.random.default_rng(0).normal(size=(40, 4, 6))
    coords = {"channel": CHANNELS, "time": TIMES}
    names = ("channel", "time")
    ids = [f"s{k}" for k in range(40)]
    return label(values, names, coords=coords, units={"time": "s"}, ids=ids)


@pytest.fixture
def y(X):
    return np.asarray(X)[:, 1, 2] - np.asarray(X)[:, 0, 3]


def test_choosing_samples_and_slices_chooses_labels(X):
    some = X[[3, 1], 1:, ::2]
    assert some.labels.ids.tolist() == ["s3", "s1"]
    assert some.labels.coords[0].tolist() == CHANNELS[1:]
    np.testing.assert_array_equal(some.labels.coords[1], TIMES[::2])
    one_time = X[:, :, 2]
    assert one_time.labels.names == ("channel",)
    assert X[np.arange(40) < 5].labels.ids.size == 5
    assert X[..., [0]].labels.names == ("channel", "time")


def test_what_is_no_longer_these_samples_has_no_labels(X):
    for other in (X[0], X.reshape(40, -1), X.T, X.mean(axis=0), np.concatenate([X, X])):
        assert getattr(other, "labels", None) is None
    assert type(X[0]) is np.ndarray
    assert getattr(X[np.arange(4), np.arange(4)], "labels", None) is None


def test_arithmetic_and_copies_keep_labels_and_values(X):
    plain = np.asarray(X)
    for found, expected in (
        (X - X.mean(axis=0), plain - plain.mean(axis=0)),
        (X.astype(np.float32), plain.astype(np.float32)),
        (X.copy(), plain),
        (pickle.loads(pickle.dumps(X)), plain),
    ):
        assert isinstance(found, LabelledArray)
        assert found.labels.names == ("channel", "time")
        np.testing.assert_array_equal(np.asarray(found), expected)
    changed = X.copy()
    changed *= 2
    np.testing.assert_array_equal(np.asarray(changed), 2 * plain)


def test_tools_of_scikit_learn_split_labelled_samples(X, y):
    train, test, *_ = train_test_split(X, y, random_state=0)
    assert not set(train.labels.ids) & set(test.labels.ids)
    plain = cross_val_score(SLTRRegressor(), np.asarray(X), y, cv=3)
    np.testing.assert_array_equal(cross_val_score(SLTRRegressor(), X, y, cv=3), plain)


@pytest.mark.parametrize("model", [SLTRRegressor(), CPRegressor(rank=1)])
def test_models_and_their_files_remember_labels(X, y, model, tmp_path):
    save(model.fit(X, y), tmp_path / "m.sltr")
    for known in (model, load(tmp_path / "m.sltr")):
        assert known.names_ == ("channel", "time")
        assert known.units_ == ("", "s")
        assert known.coords_[0].tolist() == CHANNELS
        np.testing.assert_array_equal(known.coords_[1], TIMES)
        assert known.ids_.tolist() == X.labels.ids.tolist()
    plain = model.fit(np.asarray(X), y)
    assert labels_of(plain) is None
    np.testing.assert_array_equal(plain.predict(X), plain.predict(np.asarray(X)))


def test_labels_change_nothing_in_a_fit(X, y):
    classes = np.where(y > 0, "up", "down")
    settings = {"refine": (None, "scale"), "cv": 3}
    known = SLTRClassifierCV(**settings).fit(X, classes)
    plain = SLTRClassifierCV(**settings).fit(np.asarray(X), classes)
    np.testing.assert_array_equal(known.coef_, plain.coef_)


def test_channels_in_another_order_are_put_in_order_and_it_is_said(X, y):
    model = SLTRRegressor().fit(X, y)
    expected = model.predict(X)
    text = "channel Pz, Fz, Oz, Cz; .* fitted on Fz, Cz.* in the order of the model[.]$"
    with pytest.warns(UserWarning, match=text):
        np.testing.assert_allclose(model.predict(X[:, [2, 0, 3, 1]]), expected)
    more = label(
        np.concatenate([X, X[:, :1]], axis=1),
        ("channel", "time"),
        coords={"channel": [*CHANNELS, "EOG"], "time": TIMES},
    )
    with pytest.warns(UserWarning, match="others left out"):
        np.testing.assert_allclose(model.predict(more), expected)


def test_channels_that_are_missing_are_named(X, y):
    model = SLTRRegressor().fit(X, y)
    with pytest.raises(ValueError, match=r"no channel Cz, Oz; .* fitted with 4"):
        model.predict(X[:, [0, 2]])


def test_other_times_are_refused(X, y):
    model = SLTRRegressor().fit(X, y)
    later = label(X, ("channel", "time"), coords={"time": TIMES + 0.5})
    with pytest.raises(ValueError, match=r"time of X is 0.5 to 0.55 .* on 0 to 0.05"):
        model.predict(later)
    with pytest.raises(ValueError, match="in 3 steps"):
        model.predict(X[:, :, ::2])


def test_partial_fit_keeps_labels_and_aligns_chunks(X, y):
    model = SLTRRegressor(epsilon=1.0)
    model.partial_fit(X[:20], y[:20], solve=False)
    with pytest.warns(UserWarning, match="put in the order"):
        model.partial_fit(X[20:, [3, 2, 1, 0]], y[20:])
    assert model.names_ == ("channel", "time")
    whole = SLTRRegressor(epsilon=1.0).partial_fit(X, y)
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=1e-10)


def test_xarray_says_the_same(X, y):
    xarray = pytest.importorskip("xarray")
    array = xarray.DataArray(
        np.asarray(X),
        dims=("trial", "channel", "time"),
        coords={"channel": CHANNELS, "time": ("time", TIMES, {"units": "s"})},
    )
    model = SLTRRegressor().fit(array, y)
    assert (model.names_, model.units_) == (("channel", "time"), ("", "s"))
    expected = model.predict(np.asarray(X))
    with pytest.warns(UserWarning, match="modes time, channel"):
        found = model.predict(array.transpose("trial", "time", "channel"))
    np.testing.assert_allclose(found, expected)
    with pytest.raises(TypeError, match="expected a DataArray"):
        model.predict(array.to_dataset(name="X"))


def test_bad_labels_say_what_to_do():
    values = np.zeros((3, 2, 2))
    with pytest.raises(ValueError, match="one for each of 2 modes"):
        label(values, ("a",))
    with pytest.raises(ValueError, match="3 identifiers, 2 of them different"):
        label(values, ids=["a", "a", "b"])
    with pytest.raises(ValueError, match=r"mask of shape \(3,\)"):
        label(values, mask=[True, False, True])
    with pytest.raises(ValueError, match=r"units of \['c'\]"):
        label(values, ("a", "b"), units={"c": "s"})


def _in_file(kind, values, folder):
    """Store samples with named modes, and coordinates where the format has them."""
    if kind == "zarr":
        zarr = pytest.importorskip("zarr")
        names = ("sample", "channel", "time")
        stored = zarr.create_array(
            folder / "X.zarr",
            shape=values.shape,
            chunks=(8, 4, 6),
            dtype="f8",
            dimension_names=names,
        )
        stored[...] = values
        return stored, (None, None)
    if kind == "hdf5":
        h5py = pytest.importorskip("h5py")
        file = h5py.File(folder / "X.h5", "w")
        stored = file.create_dataset("X", data=values, chunks=(8, 4, 6))
        scales = {"channel": np.array(CHANNELS, dtype="S"), "time": TIMES}
        stored.dims[0].label = "sample"
        for mode, (name, scale) in enumerate(scales.items(), start=1):
            stored.dims[mode].label = name
            file.create_dataset(name, data=scale).make_scale(name)
            stored.dims[mode].attach_scale(file[name])
        return stored, (CHANNELS, TIMES)
    xarray = pytest.importorskip("xarray")
    coords = {"channel": CHANNELS, "time": TIMES}
    array = xarray.DataArray(values, coords, dims=("sample", "channel", "time"))
    return array.chunk({"sample": 8}), (CHANNELS, TIMES)


@pytest.mark.parametrize("kind", ["zarr", "hdf5", "xarray on dask"])
def test_labels_of_stored_samples_stay_with_the_model(
    X, y, kind, tmp_path, samples_stay
):
    stored, coords = _in_file(kind, np.asarray(X), tmp_path)
    model = SLTRRegressor().fit(stored, y)
    assert model.names_ == ("channel", "time")
    for found, expected in zip(model.coords_, coords, strict=True):
        assert (found is None) == (expected is None)
        assert found is None or found.tolist() == list(expected)
    expected = SLTRRegressor().fit(np.asarray(X), y)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-10)


def test_label_leaves_stored_samples_where_they_are(X, y, tmp_path, samples_stay):
    stored, _ = _in_file("zarr", np.asarray(X), tmp_path)
    labelled = label(stored, ("sensor", "moment"), coords={"sensor": CHANNELS})
    model = SLTRRegressor().fit(labelled, y)
    assert model.names_ == ("sensor", "moment")
    assert model.coords_[0].tolist() == CHANNELS
    assert labelled[:5].labels.names == ("sensor", "moment")
    np.testing.assert_allclose(model.predict(labelled), model.predict(np.asarray(X)))


def test_what_xarray_has_not_read_is_read_by_slices(X, y, samples_stay):
    xarray = pytest.importorskip("xarray")
    from xarray.backends import BackendArray
    from xarray.core import indexing

    largest = []

    class Backend(BackendArray):
        shape, dtype = X.shape, X.dtype

        def __getitem__(self, key):
            return indexing.explicit_indexing_adapter(
                key, self.shape, indexing.IndexingSupport.BASIC, self._part
            )

        def _part(self, key):
            largest.append(np.asarray(X)[key].size)
            return np.asarray(X)[key]

    dims = ("sample", "channel", "time")
    variable = xarray.Variable(dims, indexing.LazilyIndexedArray(Backend()))
    array = xarray.DataArray(variable, {"channel": CHANNELS, "time": TIMES})
    model = SLTRRegressor(memory_limit=1_000_000).fit(array, y)
    assert model.coords_[0].tolist() == CHANNELS
    assert largest
    assert not array.variable._in_memory
