import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import roc_auc_score

from sltr.datasets import load_packaged, load_real

needs_folder = pytest.mark.skipif(
    "SLTR_DATA" not in os.environ, reason="SLTR_DATA is not set: no real data sets"
)


def check_task(data):
    n = len(data.X)
    assert len(data.y) == n
    assert np.isfinite(data.X).all()
    assert data.description
    for train, test in data.cv:
        assert not set(train) & set(test)
        assert len(train) > 0
        assert len(test) > 0
        if data.groups is not None:
            assert not set(data.groups[train]) & set(data.groups[test])
        if data.task == "classification":
            expected = set(range(len(data.target_names)))
            assert set(data.y[train]) == set(data.y[test]) == expected


def ridge_auc(data):
    """Area under the curve of plain ridge, mean over the folds."""
    flat = data.X.reshape(len(data.X), -1)
    flat = (flat - flat.mean(axis=0)) / (flat.std(axis=0) + 1e-9)
    scores = []
    for train, test in data.cv:
        model = RidgeClassifier(alpha=100.0).fit(flat[train], data.y[train])
        scores.append(roc_auc_score(data.y[test], model.decision_function(flat[test])))
    return np.mean(scores)


@pytest.mark.parametrize(
    ("name", "shape", "auc"),
    [
        ("digits", (357, 8, 8), 0.97),
        ("indian_pines", (143, 5, 5, 200), 0.7),
        ("serology", (270, 6, 11), 0.6),
    ],
)
def test_packaged_sets_can_be_learnt(name, shape, auc):
    if name != "digits":
        pytest.importorskip("tensorly")
    data = load_packaged(name)
    assert data.X.shape == shape
    check_task(data)
    assert ridge_auc(data) > auc


def test_classes_of_a_packaged_set_can_be_chosen():
    data = load_packaged("digits", classes=("9", "0", "4"))
    check_task(data)
    assert data.target_names == ["9", "0", "4"]
    assert data.X[data.y == 1][:, 3:5, 3:5].mean() < 3  # a zero has a hole
    with pytest.raises(ValueError, match=r"classes=\['3'\] was given"):
        load_packaged("digits", classes=("3",))
    with pytest.raises(ValueError, match=r"\['3', 'x'\] was given; expected"):
        load_packaged("digits", classes=("3", "x"))


def test_classes_with_too_few_samples_for_the_folds_are_named():
    pytest.importorskip("tensorly")
    with pytest.raises(ValueError, match=r"4 samples of \('oats', 'alfalfa'\)"):
        load_packaged("indian_pines", classes=("oats", "alfalfa"))


def test_unknown_set_and_absent_package_are_named(monkeypatch):
    with pytest.raises(ValueError, match="name='iris' was given; expected one of"):
        load_packaged("iris")
    monkeypatch.setitem(sys.modules, "tensorly.datasets", None)
    with pytest.raises(ImportError, match="pip install tensorly"):
        load_packaged("serology")


@needs_folder
@pytest.mark.parametrize(
    ("name", "shape", "n_folds"),
    [
        ("sugar", (268, 53, 7), 10),
        ("battery", (123, 100, 99), 10),
        ("ifnb", (53, 7, 76), 10),
        ("dryer", (59, 11, 325), 10),
        ("antibodies", (181, 22, 41), 10),
        ("gases", (147, 36, 3, 2), 10),
        ("dorrit", (27, 55, 24), 10),
        ("pines_2_3", (600, 7, 7, 40), 10),
        ("covid", (270, 6, 11), 10),
        ("emotion", (184, 384), 5),
        ("eeg", (61, 64, 64), 20),
        ("haxby_slice", (216, 40, 20), 4),
        ("haxby_blocks", (24, 9, 40, 20), 4),
        ("adrenal", (1584, 16, 16, 16), 1),
    ],
)
def test_real_sets_have_their_shape_and_folds(name, shape, n_folds):
    data = load_real(name)
    assert data.X.shape == shape
    assert len(data.cv) == n_folds
    check_task(data)


@needs_folder
@pytest.mark.parametrize(
    ("name", "shape", "n_gaps"),
    [("dryer", (59, 8), 21), ("antibodies", (181, 6), 14), ("dorrit", (27, 4), 0)],
)
def test_all_responses_of_a_set_are_its_single_ones(name, shape, n_gaps):
    data = load_real(name, target="all")
    assert data.y.shape == shape
    assert np.isnan(data.y).sum() == n_gaps
    one = load_real(name, target="ADCD" if name == "antibodies" else "0")
    first = data.y[:, 0]
    np.testing.assert_array_equal(first[~np.isnan(first)], one.y)


@needs_folder
def test_real_labels_are_the_right_way_round(tmp_path):
    eeg, adrenal = load_real("eeg"), load_real("adrenal")
    assert np.bincount(eeg.y).tolist() == [22, 39]
    assert np.bincount(adrenal.y).tolist() == [1234, 350]
    assert len(adrenal.cv[0][1]) == 298
    slices = load_real("haxby_slice")
    assert ridge_auc(slices) > 0.9
    pair = load_real("haxby_slice", classes=("cat", "shoe"))
    assert pair.target_names == ["cat", "shoe"]
    assert not np.array_equal(pair.X, slices.X)
    (tmp_path / "sets").mkdir()
    file = Path(os.environ["SLTR_DATA"]) / "sugar_nway_53x7.npz"
    shutil.copy(file, tmp_path / "sets")
    assert load_real("sugar", folder=tmp_path / "sets").X.shape == (268, 53, 7)
    with pytest.raises(ValueError, match="has no choice"):
        load_real("eeg", classes=("a", "b"))


def test_absent_folder_is_named(monkeypatch, tmp_path):
    monkeypatch.delenv("SLTR_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="Set the environment variable"):
        load_real("eeg")
    with pytest.raises(FileNotFoundError, match=r"eeg_.*\.npz does not exist"):
        load_real("eeg", folder=tmp_path)
