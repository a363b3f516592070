"""The three real data sets that come with the package."""

import os
from pathlib import Path

import numpy as np
import pytest

import sltr.datasets
from sltr.datasets import load_adrenal, load_battery, load_real, load_sugar

FOLDER = Path(sltr.datasets.__file__).with_name("packaged")
SETS = {"sugar": load_sugar, "battery": load_battery, "adrenal": load_adrenal}


@pytest.mark.parametrize("name", SETS)
def test_samples_are_finite_labelled_and_described(name):
    data = SETS[name]()
    assert len(data.X) == len(data.y)
    assert np.isfinite(data.X).all()
    assert np.isfinite(data.y).all()
    assert data.X.dtype == np.float32
    assert len(data.X.labels.names) == data.X.ndim - 1
    for word in ("Licence" if name != "adrenal" else "CC BY 4.0", "Please cite"):
        assert word in data.description


def test_they_are_small_and_need_no_pickles():
    files = sorted(FOLDER.glob("*.npz"))
    assert [file.stem for file in files] == sorted(SETS)
    assert sum(file.stat().st_size for file in files) < 3_000_000
    for file in files:
        with np.load(file, allow_pickle=False) as arrays:
            assert all(arrays[name].dtype != object for name in arrays.files)


def test_sugar_knows_what_was_not_measured():
    X = load_sugar().X
    never = ~X.labels.mask
    assert 0 < never.sum() < 20
    assert (np.ptp(np.asarray(X), axis=0)[never] == 0).all()
    emission, excitation = X.labels.coords
    rows, columns = np.nonzero(never)
    # There is no fluorescence below the light that excites it, or close above.
    assert (emission[rows] - excitation[columns] < 25).all()


def test_battery_has_the_authors_split():
    data = load_battery()
    names, counts = np.unique(data.split, return_counts=True)
    assert dict(zip(names.tolist(), counts.tolist(), strict=True)) == {
        "train": 41,
        "test1": 42,
        "test2": 40,
    }
    # The authors' best feature, the variance of a difference of two cycles, tells the
    # life: a wrong order of rows or cycles would not.
    difference = np.asarray(data.X[:, :, 98] - data.X[:, :, 8])
    feature = np.log10(difference.var(axis=1))
    assert np.corrcoef(feature, np.log10(data.y))[0, 1] < -0.8


def test_adrenal_has_shares_of_cubes():
    X = load_adrenal().X
    assert X.min() == 0
    assert X.max() == 1
    assert set(np.unique(load_adrenal().split)) == {"train", "val", "test"}


@pytest.mark.skipif("SLTR_DATA" not in os.environ, reason="SLTR_DATA is not set")
@pytest.mark.parametrize("name", SETS)
def test_they_are_what_they_were_made_from(name):
    data, whole = SETS[name](), load_real(name)
    y = np.log(data.y) if name == "battery" else data.y
    scale = 64 if name == "adrenal" else 1
    assert np.array_equal(y, whole.y)
    X = np.asarray(data.X) * scale
    if name == "sugar":
        X = X[:, :, ::-1]  # the source begins with the longest excitation
    # Capacities are rounded to 1e-5 Ah.
    assert np.allclose(X, whole.X, rtol=1e-6, atol=1.1e-5)
