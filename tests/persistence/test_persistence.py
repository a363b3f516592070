"""Saved models: exact round trips, and refusal of everything else."""

import hashlib
import json
import os
import pickle
import socket
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

import sltr
from sltr import persistence
from sltr.estimators.fitted import linear_scores
from sltr.peers.elementary import TensorRidge
from sltr.persistence import estimator_classes, load, save
from sltr.persistence.files import check_destination, write_atomically
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
        self.intercept_ = 0.1
        self.best_score_ = float("nan") if self.epsilon == "nan" else 0.5
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
        return linear_scores(self, X)


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


def forge(path, text, tensors=None, data=b""):
    """Write a file with the right checksum: tensors as safetensors describes them."""
    digest = hashlib.sha256(text.encode())
    for name, entry in sorted((tensors or {}).items()):
        digest.update(name.encode() + data[slice(*entry["data_offsets"])])
    metadata = {"sltr": text, "sha256": digest.hexdigest()}
    header = json.dumps({"__metadata__": metadata, **(tensors or {})}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)
    return path


def _write(path: Path, **header):
    header = {
        "schema": 1,
        "version": "0.0.9",
        "class": "StandIn",
        "params": {"epsilon": 3},
        "fitted": {"dual_gap_": 2.5},
    } | header
    entry = {"dtype": "F64", "shape": [3], "data_offsets": [0, 24]}
    return forge(path, json.dumps(header), {"a": entry}, np.arange(3.0).tobytes())


def test_a_file_of_an_earlier_version_loads(stand_in, tmp_path):
    model = load(_write(tmp_path / "m"))
    assert (model.epsilon, model.cv, model.dual_gap_) == (3, 5, 2.5)


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


def tag(kind, **content):
    return {"fitted": {"a_": {"$": kind} | content}}


def array(dtype, shape, tensor="a"):
    return {"$": "array", "dtype": dtype, "shape": shape, "tensor": tensor}


RANGE = {"$": "range", "items": [0, 6 * 10**8, 1]}
SHORT = {"$": "range", "items": [0, 10**6, 1]}
NUMBERS = array("<f8", [3])
FORGED = {
    "range": ({"params": {"cv": RANGE}}, "at most 1000000 numbers"),
    **{
        f"range in {kind}": (tag(kind, items=SHORT, shape=[10**6]), "place of a list")
        for kind in ("tuple", "set", "frozenset", "dict", "objects", "texts", "range")
    },
    "range as data": (
        tag("masked", data=SHORT, mask=SHORT, fill=None),
        "range was found in place of a ndarray",
    ),
    "range as fill": (
        tag("masked", data=NUMBERS, mask=NUMBERS | {"tensor": "b"}, fill=SHORT),
        "damaged",
    ),
    "range in a splitter": (
        tag(
            "splitter",
            name="PredefinedSplit",
            settings={"$": "dict", "items": [["test_fold", SHORT]]},
        ),
        "range was found in place of a number or a text",
    ),
    "range in a state": (
        tag("RandomState", state={"$": "dict", "items": [["key", SHORT]]}),
        "range was found in place of a number or a text",
    ),
    "tensor used twice": (
        {"fitted": {"a_": NUMBERS, "b_": NUMBERS}},
        "'a' is missing",
    ),
    "mask of another shape": (
        tag("masked", data=NUMBERS, mask=tag("tuple", items=[])["fitted"]["a_"]),
        "damaged",
    ),
    "float of an int": (tag("float", value=10**400), "place of a str"),
    "text of a list": (tag("str_", value=[1]), "place of a str"),
    "texts of numbers": (tag("texts", items=[1], shape=[1]), "place of a str"),
    "scalar of no bytes": (tag("scalar", dtype="<f8", hex=""), "damaged"),
    "dtype in Python": ({"fitted": {"a_": array("f8,{", [3])}}, "of dtype 'f8,{'"),
    "shape below zero": ({"fitted": {"a_": array("<f8", [-1, -3])}}, "of shape"),
    "shape of words": ({"fitted": {"a_": array("<f8", ["3"])}}, "of shape"),
    "shape above memory": ({"fitted": {"a_": array("<U0", [10**30])}}, "of shape"),
    "texts of nothing": ({"fitted": {"a_": array("<U0", [2**40])}}, "empty texts"),
    "sixty levels": ({"params": {"cv": json.loads("[" * 60 + "]" * 60)}}, "too deeply"),
    "no fitted": ({"fitted": None}, "damaged"),
    "control characters": ({"class": "a\x1b[2J"}, r"holds a 'a\\x1b\[2J'"),
}


@pytest.mark.parametrize(("header", "message"), FORGED.values(), ids=FORGED)
def test_forged_values_are_refused(stand_in, tmp_path, header, message):
    path = _write(tmp_path / "m", **header)
    with pytest.raises(ValueError, match=message):
        load(path)


def test_deep_nesting_is_refused(tmp_path):
    text = "[" * 10**5 + "]" * 10**5
    with pytest.raises(ValueError, match="recursion"):
        load(forge(tmp_path / "m", text))


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="no regular file"):
        load(tmp_path / "pipe")


ATTRIBUTES = {
    "TensorRidge": ("shape_in_", "intercept_"),
    "SLTRClassifier": ("shape_in_", "intercept_", "classes_", "sigmoids_"),
    "CPRegressor": ("shape_in_", "intercept_", "n_covariates_in_"),
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_a_file_without_an_attribute_that_predicting_needs_is_refused(name, tmp_path):
    model, _ = _fitted(estimator_classes()[name])
    for absent in ATTRIBUTES[name]:
        kept = vars(model).pop(absent)
        path = save(model, tmp_path / "m")
        with pytest.raises(ValueError, match=f"damaged .*{absent}"):
            load(path)
        setattr(model, absent, kept)
    load(save(model, tmp_path / "m"))


CHANGED = {
    "shape_in_": (10**6, 10**6),
    "coef_": np.zeros((3, 4), dtype=object),
    "intercept_": np.zeros(5),
    "classes_": np.array(["one"]),
    "sigmoids_": "words",
    "feature_shape": range(10**6),
    "n_covariates_in_": 10**9,
    "entry_scale_": np.ones((4, 3)),
    "entry_scale_ of zeros": np.zeros((3, 4)),
    "entry_scale_ below zero": -np.ones((3, 4)),
    "entry_scale_ of NaN": np.full((3, 4), np.nan),
    "entry_scale_ of whole numbers": np.ones((3, 4), dtype=int),
    "coef_ of NaN": np.full((3, 4), np.nan),
    "intercept_ that is infinite": np.float64(np.inf),
    "sigmoids_ of NaN": np.full((1, 2), np.nan),
    "mask_": np.ones((3, 4)),
    "names_": (None, 3),
    "units_": (np.ones(2), "s"),
}


@pytest.mark.parametrize("name", CHANGED)
def test_attributes_that_do_not_belong_together_are_refused(name, tmp_path):
    model, _ = _fitted(estimator_classes()["SLTRClassifier"])
    setattr(model, name.split()[0], CHANGED[name])
    path = save(model, tmp_path / "m")
    with pytest.raises(ValueError, match="is not a model of sltr, or damaged"):
        load(path)


@pytest.mark.parametrize("rows", [False, True])
def test_models_of_folded_rows_and_of_more_classes_load(rows, tmp_path, rng):
    X, y = rng.standard_normal((30, 3, 4)), np.arange(30) % 3
    X = X.reshape(30, -1) if rows else X
    model = estimator_classes()["SLTRClassifier"](feature_shape=(3, 4)).fit(X, y)
    again = load(save(model, tmp_path / "m"))
    assert np.array_equal(again.predict(X), model.predict(X))


def test_models_saved_with_a_sigmoid_for_each_class_predict_as_before(tmp_path, rng):
    X, y = rng.standard_normal((30, 3, 4)), np.arange(30) % 3
    model = estimator_classes()["SLTRClassifier"]().fit(X, y)
    model.sigmoids_ = np.array([[2.0, 0.1], [3.0, -0.2], [1.0, 0.3]])
    again = load(save(model, tmp_path / "m"))
    scores = np.tensordot(X, model.coef_, ([1, 2], [1, 2])) + model.intercept_
    each = 1.0 / (1.0 + np.exp(-(scores * [2.0, 3.0, 1.0] + [0.1, -0.2, 0.3])))
    expected = each / each.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(again.predict_proba(X), expected)
    assert np.array_equal(again.predict(X), expected.argmax(axis=1))


def test_keys_that_look_alike_keep_their_arrays():
    tensors = {}
    value = {1: np.zeros(2), "1": np.ones(2)}
    assert same(decode(encode(value, tensors, "x"), tensors), value)


MEMORY = """
import resource, sys
from sltr import load

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

good, *forged = sys.argv[1:]
load(good)
for path in forged:
    before = peak()
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
    try:
        load(path)
    except ValueError:
        pass
    print(peak() - before)
"""


def _of_units(unit, number=3 * 10**6):
    return "[" + ",".join([unit] * (number // len(unit))) + "]"


def _tensor(name):
    return f'{{"$":"array","dtype":"<f8","shape":[100000],"tensor":"{name}"}}'


def test_memory_is_bounded_by_the_size_of_the_file(tmp_path):
    names = ("tuple", "set", "objects", "texts")
    bomb = json.dumps(RANGE)
    values = [f'{{"$":"{kind}","shape":[3],"items":{bomb}}}' for kind in names]
    units = ("[]", "[]     ", '{"a":0}', '"ab"', '"\U0001f600a"', "1e9", "[[[[]]]]")
    values += map(_of_units, units)
    files = [save(_fitted(TensorRidge)[0], tmp_path / "good")]
    for k, value in enumerate(values):
        text = json.dumps({"schema": 1, "version": "1", "class": "TensorRidge"})
        text = f'{text[:-1]}, "params": {{}}, "fitted": {{"a_": {value}}}}}'
        files.append(forge(tmp_path / str(k), text))
    # One tensor for many arrays, and a tensor that is not there.
    many = ",".join(f'"a{k}_":{_tensor("t")}' for k in range(2000))
    text = '{"schema":1,"version":"1","class":"TensorRidge","params":{},"fitted":{'
    entry = {"dtype": "F64", "shape": [10**5], "data_offsets": [0, 8 * 10**5]}
    data = bytes(8 * 10**5)
    files.append(forge(tmp_path / "many", text + many + "}}", {"t": entry}, data))
    shared = {f"t{k}": entry for k in range(2000)}
    files.append(forge(tmp_path / "shared", text + "}}", shared, data))
    files.append(forge(tmp_path / "lie", text + "}}", {"t": entry}))
    command = [sys.executable, "-c", MEMORY, *map(str, files)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for path, grown in zip(files[1:], map(int, told.split()), strict=True):
        assert grown < 20 * path.stat().st_size + 2**24, path.name


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


def _pipe(path):
    os.mkfifo(path)


def _socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def _link_to_a_pipe(path):
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to(path.with_name("pipe"))


def _circle(path):
    path.symlink_to(path)


@pytest.mark.parametrize("make", [_pipe, _socket, _link_to_a_pipe, _circle])
def test_what_is_no_regular_file_is_left_alone(make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # paths of sockets are short
    path = Path("m")
    make(path)
    before = sorted((p.name, p.lstat().st_mode) for p in Path().iterdir())
    with pytest.raises(FileExistsError, match="m was given; expected a file, and it"):
        write_atomically(path, b"new")
    assert sorted((p.name, p.lstat().st_mode) for p in Path().iterdir()) == before


def test_a_pipe_without_a_name_is_refused_before_any_work():
    read, write = os.pipe()
    try:
        with pytest.raises(FileExistsError, match="and it is something else"):
            check_destination(Path(f"/dev/fd/{write}"))
    finally:
        os.close(read)
        os.close(write)


def test_a_file_that_is_open_elsewhere_is_not_replaced(tmp_path):
    log = tmp_path / "log"
    log.write_text("what was there")
    (tmp_path / "link").symlink_to("/dev/fd")
    with log.open("a") as file:
        for folder in ("/dev/fd", tmp_path / "link", "/proc/self/fd"):
            with pytest.raises(FileExistsError, match="and it is something else"):
                write_atomically(Path(f"{folder}/{file.fileno()}"), b"model")
    assert log.read_text() == "what was there"


@pytest.mark.parametrize("letter", ["m", "é", "𝒲"])
def test_a_name_may_be_as_long_as_the_system_lets_it(letter, tmp_path):
    path = tmp_path / (letter * (255 // len(letter.encode())))
    assert write_atomically(path, b"one").read_bytes() == b"one"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_to_a_file_that_is_not_there_yet_makes_it(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "none" / "file")
    with pytest.raises(FileNotFoundError, match="none does not"):
        write_atomically(link, b"one")
    (tmp_path / "none").mkdir()
    write_atomically(link, b"one")
    assert (tmp_path / "none" / "file").read_bytes() == b"one"


WRITER = """
import os, sys, time
from pathlib import Path
from sltr.persistence.files import write_atomically

def wait(_):
    print("writing", flush=True)
    time.sleep(60)

os.fsync = wait
write_atomically(Path(sys.argv[1]), b"theirs")
"""


def test_parts_of_killed_writers_are_removed_and_of_living_ones_kept(tmp_path):
    path = tmp_path / "m"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, tmp_path / name],
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("m", "m", "m.x")
    ]
    for writer in writers:
        assert writer.stdout.readline() == "writing\n"
    parts = {part.name for part in tmp_path.glob(".m*.part")}
    assert len(parts) == 3
    write_atomically(path, b"ours")
    assert {part.name for part in tmp_path.glob(".m*.part")} == parts
    for writer in (writers[0], writers[2]):
        writer.kill()
        writer.communicate()
    write_atomically(path, b"ours")
    left = {part.name for part in tmp_path.glob(".m*.part")}
    assert len(left) == 2
    assert sum(name.startswith(".m.x.") for name in left) == 1  # another file's
    writers[1].kill()
    writers[1].communicate()
    assert path.read_bytes() == b"ours"


def test_a_folder_is_no_model(tmp_path):
    with pytest.raises(IsADirectoryError, match="it is a folder"):
        load(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"dual_gap_": None},
        {"n_iter_": [3]},
        {"ranks_": None, "smooth_": None},
        {"refine_settings_": [1]},
        {"cv_results_": {"$": "dict", "items": []}},
        {"best_index_": 10**6},
        {"weights_": "x"},
        {"sparse_radius_": "x"},
        {"low_radius_": 2.0},
        {"refined_": 1.0},
    ],
    ids=str,
)
def test_a_model_that_cannot_say_what_it_is_is_refused(tmp_path, rng, change):
    X, y = rng.normal(size=(12, 3, 2)), rng.normal(size=12)
    [name] = list(change)[:1]
    tuned = name in ("cv_results_", "best_index_", "weights_", "sparse_radius_")
    tuned = tuned or name in ("low_radius_", "refined_")
    model = sltr.SLTRRegressorCV(cv=2) if tuned else sltr.SLTRRegressor()
    path = save(model.fit(X, y), tmp_path / "m")
    head, tensors, data = _parts(path)
    inner = json.loads(head["sltr"])
    inner["fitted"] |= change
    forge(path, json.dumps(inner), tensors, data)
    with pytest.raises(ValueError, match="not a model of sltr, or damaged"):
        load(path)


def test_a_model_of_the_first_version_still_says_what_it_is(tmp_path, rng):
    X, y = rng.normal(size=(12, 3, 2)), rng.normal(size=12)
    path = save(sltr.SLTRRegressorCV(cv=2).fit(X, y), tmp_path / "m")
    head, tensors, data = _parts(path)
    inner = json.loads(head["sltr"])
    newer = ("shape_out_", "responses_", "sparse_radius_", "null_score_", "mask_")
    newer += ("held_out_scores_", "standardize_", "smooth_", "fill_", "scored_by_")
    newer += ("low_radius_",)
    for name in newer:
        inner["fitted"].pop(name)
    forge(path, json.dumps(inner), tensors, data)
    assert "chosen" in str(load(path).summary())


def _parts(path):
    """Return the metadata, the descriptions of the tensors and their bytes."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    head = json.loads(content[8 : 8 + length])
    metadata = head.pop("__metadata__")
    return metadata, head, content[8 + length :]
