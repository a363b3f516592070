"""Saved models: exact round trips, and refusal of everything else."""

import hashlib
import json
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from sklearn.base import BaseEstimator, RegressorMixin, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sltr import persistence
from sltr.estimators.base import predict_linear
from sltr.peers.elementary import TensorRidge
from sltr.persistence import estimator_classes, load, save
from sltr.persistence.files import write_atomically
from sltr.persistence.values import decode, encode
from sltr.samples.check import check_samples
from sltr.tuning.choose import cv_table


class StandIn(RegressorMixin, BaseEstimator):
    """A regressor with every kind of state a fitted model of the package has."""

    def __init__(self, epsilon="loo", lambdas=(0.1, 0.5), cv=5, feature_shape=None):
        self.epsilon = epsilon
        self.lambdas = lambdas
        self.cv = cv
        self.feature_shape = feature_shape

    def fit(self, X, y):
        samples = check_samples(self, X, y)
        rng = np.random.default_rng(0)
        self.coef_ = rng.standard_normal(samples.shape).astype(samples.X.dtype)
        self.intercept_ = float("nan") if self.epsilon == "nan" else 0.1
        self.dual_gap_ = np.float32(1e-5)
        self.ranks_ = (1, 2)
        self.refine_ = None
        self.classes_ = np.array(["no", "yes"])
        self.cv_results_ = cv_table(
            {"lambda_low": [0.1, 0.2], "refine": [None, "scale"]},
            np.array([[0.5, 0.6], [0.7, np.nan]]),
        )
        return self

    def predict(self, X):
        return predict_linear(self, X)


@pytest.fixture
def stand_in(monkeypatch):
    known = {**estimator_classes(), "StandIn": StandIn}
    monkeypatch.setattr(persistence, "estimator_classes", lambda: known)
    return StandIn


@pytest.fixture
def data():
    rng = np.random.default_rng(1)
    return rng.standard_normal((12, 3, 4)), rng.standard_normal(12)


def same(a, b):
    """Whether two values are equal in type, dtype, shape and every bit."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ma.MaskedArray):
        return (
            same(a.data, b.data)
            and same(np.ma.getmaskarray(a), np.ma.getmaskarray(b))
            and repr(a.fill_value) == repr(b.fill_value)
        )
    if isinstance(a, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        if a.dtype.kind in ("O", "T"):
            return all(same(x, y) for x, y in zip(a.flat, b.flat, strict=True))
        return a.tobytes() == b.tobytes()
    if isinstance(a, np.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b or (a != a and b != b)


VALUES = {
    "None": None,
    "nan": float("nan"),
    "-inf": -float("inf"),
    "float": 0.1 + 0.2,
    "big int": 10**30,
    "text": 'a "quoted" <b>\u2028 é\0',
    "nested": {"a": [1, (2.0, {"b": None})], 3: {4, 5}, ("t", 1): frozenset({6})},
    "tagged": {"$": "tuple", "items": []},
    "range": range(1, 9, 2),
    "scalars": [np.float64(0.1), np.float32(0.1), np.int16(-3), np.bool_(True)],
    "text scalar": [np.str_("x"), np.str_("")],
    "masked": np.ma.array([1.0, 2.0], mask=[True, False], fill_value=7.0),
    "masked text": np.ma.array(["a", "bc"], mask=[False, True]),
    "masked objects": np.ma.array([None, "scale", 1], mask=[0, 1, 0], dtype=object),
    "objects": np.array([None, "a", (1, 2)], dtype=object),
    "labels": np.array(["no", "yes", "née"]),
    "empty labels": np.array(["", ""]),
    "bytes": np.array([b"a", b"bcd"]),
    "dates": np.array(["2020-01-01", "NaT"], dtype="M8[D]"),
    "0-d": np.array(3.5),
    "empty": np.zeros((0, 3), np.float32),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "big-endian": np.arange(3, dtype=">i4"),
    "complex": np.array([1 + 2j, np.nan]),
    "long": np.array([1.1, 2.2], dtype=np.longdouble),
} | {
    f"array {dtype}": np.arange(4).astype(dtype).reshape(2, 2)
    for dtype in ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]
}

if hasattr(np.dtypes, "StringDType"):  # since NumPy 2
    VALUES["texts"] = np.array(["a", "long text"], dtype=np.dtypes.StringDType())


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_values_survive_exactly(value):
    tensors = {}
    text = json.dumps(encode(value, tensors, "x"), allow_nan=False)
    stored = safetensors.numpy.load(safetensors.numpy.save(tensors))
    assert same(decode(json.loads(text), stored), value)


@pytest.mark.parametrize(
    "splitter",
    [
        KFold(3, shuffle=True, random_state=4),
        RepeatedKFold(n_splits=2, n_repeats=3, random_state=1),
        ShuffleSplit(2, test_size=0.3, random_state=0),
        TimeSeriesSplit(3, gap=1),
        GroupKFold(2),
        PredefinedSplit([0, 1, 0, 1, 2, 2, 0, 1, 1, 1]),
    ],
    ids=lambda s: type(s).__name__,
)
def test_splitters_split_the_same_way(splitter):
    tensors = {}
    again = decode(json.loads(json.dumps(encode(splitter, tensors, "cv"))), tensors)
    X, grouped = np.zeros((10, 1)), isinstance(splitter, GroupKFold)
    groups = np.arange(10) % 3 if grouped else None
    for ours, theirs in zip(
        splitter.split(X, groups=groups), again.split(X, groups=groups), strict=True
    ):
        assert all(map(np.array_equal, ours, theirs))


REFUSED = {
    "RandomState": np.random.RandomState(0),
    "Generator": np.random.default_rng(0),
    "slice": slice(None, 3),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_saved_is_named(kind):
    with pytest.raises(TypeError, match=rf"^fitted\.a is [\s\S]* of type {kind}; exp"):
        encode({"a": REFUSED[kind]}, {}, "fitted")


def test_a_slice_that_an_earlier_version_wrote_is_read():
    assert decode({"$": "slice", "items": [None, 3, None]}, {}) == slice(None, 3)


@pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng])
def test_random_generators_of_earlier_versions_continue_their_stream(make):
    rng, tensors = make(3), {}
    rng.standard_normal(5)
    old = isinstance(rng, np.random.RandomState)
    state = rng.get_state(legacy=False) if old else rng.bit_generator.state
    code = {"$": type(rng).__name__, "state": encode(state, tensors, "rng.state")}
    again = decode(json.loads(json.dumps(code)), tensors)
    assert np.array_equal(again.standard_normal(4), rng.standard_normal(4))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_model_round_trip_is_exact(stand_in, data, tmp_path, dtype):
    X, y = data[0].astype(dtype).reshape(len(data[0]), -1), data[1]
    model = stand_in("nan", cv=KFold(3), feature_shape=(2, 6)).fit(X, y)
    again = load(save(model, tmp_path / "model.sltr"))
    splitters = vars(model).pop("cv"), vars(again).pop("cv")
    assert repr(splitters[0]) == repr(splitters[1])
    assert same(vars(model), vars(again))
    model.intercept_ = again.intercept_ = 0.5
    assert np.array_equal(model.predict(X), again.predict(X))


def test_unfitted_model_loads_unfitted(stand_in, data, tmp_path):
    again = load(save(stand_in(epsilon=2), tmp_path / "m"))
    assert again.get_params() == stand_in(epsilon=2).get_params()
    with pytest.raises(NotFittedError):
        again.predict(data[0])


def test_torch_coefficients_are_stored_as_numpy(stand_in, data, tmp_path):
    torch = pytest.importorskip("torch")
    model = stand_in().fit(*data)
    expected = model.coef_
    model.coef_ = torch.asarray(expected)
    assert same(load(save(model, tmp_path / "m")).coef_, expected)


def _fitted(cls):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((24, 3, 4))
    signal = X[:, 0, 0] + X[:, 1, 0] + 0.1 * rng.standard_normal(24)
    y = np.where(signal > 0, "yes", "no") if is_classifier(cls()) else signal
    return cls().fit(X, y), X


@pytest.mark.parametrize("cls", estimator_classes().values(), ids=lambda c: c.__name__)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_estimator_of_the_package_round_trips(cls, tmp_path):
    model, X = _fitted(cls)
    again = load(save(model, tmp_path / "model.sltr"))
    assert same(vars(model), vars(again))
    assert np.array_equal(model.predict(X), again.predict(X))


@pytest.mark.parametrize("cls", estimator_classes().values(), ids=lambda c: c.__name__)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_pickle_and_skops_keep_every_estimator_too(cls):
    skops = pytest.importorskip("skops.io")
    model, X = _fitted(cls)
    expected = model.predict(X)
    stored = skops.dumps(model)
    trusted = skops.get_untrusted_types(data=stored)
    for again in (pickle.loads(pickle.dumps(model)), skops.loads(stored, trusted)):
        assert np.array_equal(again.predict(X), expected)


def test_only_what_is_used_is_imported():
    code = (
        "import sys, sltr.persistence, sltr.plotting, sltr.reporting;"
        "print({'matplotlib', 'jinja2', 'safetensors'} & set(sys.modules))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "set()"


def test_foreign_estimators_are_not_saved(tmp_path):
    with pytest.raises(TypeError, match="Ridge was given; expected an estimator of"):
        save(Ridge(), tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_what_to_do_with_a_pipeline_or_a_search_is_told(data, tmp_path):
    X, y = data[0].reshape(len(data[0]), -1), data[1]
    pipeline = make_pipeline(StandardScaler(), TensorRidge(feature_shape=(3, 4)))
    with pytest.raises(TypeError, match=r"whole pipeline by skops\.io\.dump .* steps"):
        save(pipeline.fit(X, y), tmp_path / "m")
    search = GridSearchCV(TensorRidge(), {"epsilon": [1.0, 2.0]}, cv=2).fit(X, y)
    with pytest.raises(TypeError, match="Save its best_estimator_"):
        save(search, tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_scores_of_a_search_are_kept_with_its_best_model(data, tmp_path):
    grid = {"epsilon": [1.0, 2.0], "feature_shape": [(3, 4), None]}
    search = GridSearchCV(TensorRidge(), grid, cv=2)
    model = search.fit(data[0].reshape(len(data[0]), -1), data[1]).best_estimator_
    model.cv_results_, model.best_params_ = search.cv_results_, search.best_params_
    again = load(save(model, tmp_path / "m"))
    assert same(vars(model), vars(again))


def test_unsaveable_parameter_is_named(stand_in, tmp_path):
    with pytest.raises(TypeError, match=r"params\.epsilon is .*function"):
        save(stand_in(epsilon=lambda: 0), tmp_path / "m")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["SLTRRegressor", "SLTRClassifierCV"])
def test_a_callback_that_watches_a_fit_is_not_saved(name, tmp_path):
    model = estimator_classes()[name](progress=lambda *_: None, max_iter=7)
    again = load(save(model, tmp_path / "m"))
    assert again.get_params() == {**model.get_params(), "progress": None}


def test_failed_write_keeps_the_old_file(stand_in, data, tmp_path, monkeypatch):
    path = save(stand_in(epsilon=1.0), tmp_path / "m")

    def disk_full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", disk_full)
    with pytest.raises(OSError, match="No space left"):
        save(stand_in(epsilon=2.0).fit(*data), path)
    assert load(path).epsilon == 1.0
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_a_file_that_cannot_be_written_is_called_by_its_name(
    stand_in, tmp_path, monkeypatch
):
    path = tmp_path / "none" / "m.sltr"
    with pytest.raises(FileNotFoundError, match="Make the folder") as caught:
        save(stand_in(), path)
    assert str(caught.value).startswith(
        f"{path} was given; expected a file in a folder"
    )
    with pytest.raises(IsADirectoryError, match="it is a folder"):
        save(stand_in(), tmp_path)

    with monkeypatch.context() as patch:
        patch.setattr("os.access", lambda *_: False)
        with pytest.raises(PermissionError, match="that you may write to"):
            save(stand_in(), tmp_path / "m.sltr")

    def refuse(*_):
        raise PermissionError(13, "Permission denied", ".m.sltr.part")

    monkeypatch.setattr("os.fsync", refuse)
    with pytest.raises(PermissionError, match="choose another place") as caught:
        save(stand_in(), tmp_path / "m.sltr")
    assert caught.value.filename == str(tmp_path / "m.sltr")
    assert ".part" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_missing_file_is_called_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none")


def _zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", "b")


FOREIGN = {
    "empty": lambda p: p.write_bytes(b""),
    "text": lambda p: p.write_text("hello, this is not a model " * 9),
    "pickle": lambda p: p.write_bytes(pickle.dumps(Ridge())),
    "numpy": lambda p: p.write_bytes(b"\x93NUMPY" + bytes(200)),
    "zip": _zip,
    "other safetensors": lambda p: safetensors.numpy.save_file(
        {"w": np.ones(3)}, p, metadata={"format": "pt"}
    ),
}


@pytest.mark.parametrize("write", FOREIGN.values(), ids=FOREIGN.keys())
def test_foreign_files_are_refused(tmp_path, write):
    path = tmp_path / "m"
    write(path)
    with pytest.raises(ValueError, match="is not a model of sltr, or damaged"):
        load(path)


def test_truncated_files_are_refused_at_every_length(stand_in, data, tmp_path):
    path = save(stand_in().fit(*data), tmp_path / "m")
    content = path.read_bytes()
    for length in range(0, len(content), 97):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match="is not a model of sltr, or damaged"):
            load(path)


def test_changed_bytes_are_refused_wherever_they_are(stand_in, data, tmp_path):
    path = save(stand_in().fit(*data), tmp_path / "m")
    content = path.read_bytes()
    for place in [*range(8, len(content), 61), len(content) - 1]:
        path.write_bytes(
            content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        )
        with pytest.raises(ValueError, match="is not a model of sltr, or damaged"):
            load(path)


def _write(path: Path, **header):
    header = {
        "schema": 1,
        "version": "0.0.9",
        "class": "StandIn",
        "params": {"epsilon": 3},
        "fitted": {"intercept_": 2.5},
    } | header
    text = json.dumps(header)
    tensors = {"a": np.arange(3.0)}
    digest = hashlib.sha256(text.encode() + b"a" + tensors["a"].tobytes()).hexdigest()
    safetensors.numpy.save_file(tensors, path, {"sltr": text, "sha256": digest})
    return path


def test_a_file_of_an_earlier_version_loads(stand_in, tmp_path):
    model = load(_write(tmp_path / "m"))
    assert (model.epsilon, model.cv, model.intercept_) == (3, 5, 2.5)


def test_a_parameter_that_is_gone_is_dropped_with_a_warning(stand_in, tmp_path):
    path = _write(tmp_path / "m", params={"epsilon": 3, "old": 1})
    with pytest.warns(UserWarning, match="StandIn has no parameter old"):
        assert load(path).epsilon == 3


BAD_HEADERS = {
    "newer schema": ({"schema": 99}, r"schema 99, .* Update sltr"),
    "no schema": ({"schema": None}, "schema None"),
    "class of another package": ({"class": "Ridge"}, "holds a 'Ridge'"),
    "dotted class": ({"class": "os.system"}, "holds a 'os.system'"),
    "hidden method": ({"fitted": {"predict": 1}}, r"it sets StandIn\.predict"),
    "dunder": ({"fitted": {"__class__": 1}}, r"it sets StandIn\.__class__"),
    "unknown kind": ({"fitted": {"a": {"$": "code"}}}, "unknown kind 'code'"),
    "no params": ({"params": 3}, "damaged"),
    "missing tensor": (
        {"fitted": {"a": {"$": "array", "dtype": "<f8", "shape": [1], "tensor": "b"}}},
        "damaged",
    ),
    "wrong shape": (
        {"fitted": {"a": {"$": "array", "dtype": "<f8", "shape": [4], "tensor": "a"}}},
        "does not have shape",
    ),
    "object dtype": (
        {"fitted": {"a": {"$": "array", "dtype": "|O", "shape": [3], "tensor": "a"}}},
        "damaged",
    ),
    "splitter that is none": (
        {"params": {"cv": {"$": "splitter", "name": "GridSearchCV", "settings": {}}}},
        "a splitter 'GridSearchCV' was found",
    ),
}


@pytest.mark.parametrize(("header", "message"), BAD_HEADERS.values(), ids=BAD_HEADERS)
def test_bad_headers_are_refused(stand_in, tmp_path, header, message):
    with pytest.raises(ValueError, match=message):
        load(_write(tmp_path / "m", **header))


def test_classes_come_from_the_models_package_only():
    for name, cls in estimator_classes().items():
        assert cls.__module__.startswith(("sltr.estimators.", "sltr.peers."))
        assert name == cls.__name__
    assert "BaseEstimator" not in estimator_classes()


def test_a_file_keeps_its_mode_and_a_link_its_target(tmp_path):
    file, link = tmp_path / "a", tmp_path / "b"
    write_atomically(file, b"one")
    file.chmod(0o600)
    link.symlink_to(file)
    assert write_atomically(link, b"two") == link
    assert link.is_symlink()
    assert file.read_bytes() == b"two"
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_folder_is_no_model(tmp_path):
    with pytest.raises(IsADirectoryError, match="it is a folder"):
        load(tmp_path)
