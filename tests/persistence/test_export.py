"""Coefficients as other programs read them."""

import csv

import numpy as np
import pytest

from sltr import SLTRClassifier, SLTRRegressor, export
from sltr.datasets import label, load_nifti

SHAPE = (3, 4)
NAMES = ("channel", "time")
COORDS = {"channel": ["Fz", "Cz", "µ"], "time": [0.0, 0.5, 1.0, 1.5]}


@pytest.fixture
def X(rng):
    values = rng.normal(size=(60, *SHAPE))
    return label(values, NAMES, coords=COORDS, units={"time": "s"})


@pytest.fixture
def model(X):
    return SLTRRegressor().fit(X, np.asarray(X)[:, 1, 2])


def test_a_table_has_a_row_for_each_entry(model, tmp_path):
    file = export(model, tmp_path / "c.csv")
    rows = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
    found = np.array([float(row["coefficient"]) for row in rows]).reshape(SHAPE)
    np.testing.assert_array_equal(found, model.coef_)
    assert [row["channel"] for row in rows[::4]] == COORDS["channel"]
    assert [float(row["time"]) for row in rows[:4]] == COORDS["time"]


def test_a_table_leaves_out_what_is_outside_the_mask(X, tmp_path):
    mask = np.zeros(SHAPE, bool)
    mask[0, 1] = mask[2, 3] = True
    known = label(X, NAMES, mask=mask)
    model = SLTRRegressor().fit(known, np.asarray(X)[:, 0, 1])
    lines = export(model, tmp_path / "c.csv").read_text().splitlines()
    assert [line[:4] for line in lines[1:]] == ["0,1,", "2,3,"]


def test_a_mask_that_only_the_model_knows_counts_too(X, tmp_path):
    mask = np.zeros(SHAPE, bool)
    mask[0, 1] = mask[2, 3] = True
    plain = np.asarray(X)
    model = SLTRRegressor(mask=mask).fit(plain, plain[:, 0, 1])
    lines = export(model, tmp_path / "c.csv").read_text().splitlines()
    assert [line[:4] for line in lines[1:]] == ["0,1,", "2,3,"]
    xarray = pytest.importorskip("xarray")
    with xarray.open_dataset(export(model, tmp_path / "c.nc")) as found:
        np.testing.assert_array_equal(found.mask.values.astype(bool), mask)
        assert not found.coef.values[~mask].any()


def test_words_are_no_formulas_for_spreadsheets(rng, tmp_path):
    coords = {"=mode": ["=1+1", "@x", "-1.5"]}
    X = label(rng.normal(size=(20, 3, 2)), ("=mode", "b"), coords=coords)
    model = SLTRRegressor().fit(X, np.asarray(X)[:, 0, 0])
    lines = export(model, tmp_path / "c.csv").read_text().splitlines()
    found = [line.split(",")[0] for line in lines]
    assert found == ["'=mode", "'=1+1", "'=1+1", "'@x", "'@x", "-1.5", "-1.5"]


def test_xarray_opens_the_netcdf(model, X, tmp_path):
    xarray = pytest.importorskip("xarray")
    with xarray.open_dataset(export(model, tmp_path / "c.nc")) as found:
        assert found.coef.dims == NAMES
        np.testing.assert_array_equal(found.coef.values, model.coef_)
        assert found.channel.values.astype(str).tolist() == COORDS["channel"]
        np.testing.assert_array_equal(found.time.values, COORDS["time"])
        assert found.time.attrs["units"] == "s"
        assert float(found.intercept) == pytest.approx(model.intercept_)
    classes = np.arange(60) % 3
    several = SLTRClassifier().fit(X, np.array(["a", "b", "c"])[classes])
    with xarray.open_dataset(export(several, tmp_path / "c.nc")) as found:
        assert found.coef.dims == ("class", *NAMES)
        np.testing.assert_array_equal(found.coef.sel({"class": "b"}), several.coef_[1])


def test_a_model_without_labels_is_counted(X, tmp_path):
    model = SLTRRegressor().fit(np.asarray(X), np.asarray(X)[:, 1, 2])
    lines = export(model, tmp_path / "c.csv").read_text().splitlines()
    assert lines[0] == "mode 0,mode 1,coefficient"
    assert lines[6].startswith("1,1,")
    assert export(model, tmp_path / "c.nc").stat().st_size > 0


def test_an_image_overlays_the_images_it_came_from(tmp_path, rng):
    nibabel = pytest.importorskip("nibabel")
    affine = np.array([[-2.0, 0, 0.1, 8], [0, 2, 0, -9], [0.1, 0, 3, 1], [0, 0, 0, 1]])
    truth = (4, 2, 1)
    X = rng.normal(size=(6, 5, 4, 80))
    inside = np.zeros((6, 5, 4), bool)
    inside[2:, 1:4, :2] = True
    data = load_nifti(nibabel.Nifti1Image(X, affine), mask=inside)
    model = SLTRRegressor().fit(data.X, X[truth])
    for name in ("c.nii.gz", "c.nii"):
        image = nibabel.load(export(model, tmp_path / name))
        values = image.get_fdata()
        assert values.shape == (6, 5, 4)
        np.testing.assert_allclose(image.affine, affine, rtol=1e-6)
        assert np.unravel_index(np.argmax(values), values.shape) == truth
        assert not values[~inside].any()
    labels = np.array(["a", "b", "c"])[np.arange(80) % 3]
    several = SLTRClassifier().fit(data.X, labels)
    assert nibabel.load(export(several, tmp_path / "k.nii")).shape == (6, 5, 4, 3)


def test_what_cannot_be_exported_is_said(model, tmp_path):
    with pytest.raises(ValueError, match=r"expected a name that ends in"):
        export(model, tmp_path / "c.txt")
    with pytest.raises(ValueError, match="not fitted to images"):
        export(model, tmp_path / "c.nii.gz")


def test_responses_that_are_tensors_are_exported(X, rng, tmp_path):
    xarray = pytest.importorskip("xarray")
    Y = rng.normal(size=(60, 2, 2)) + np.asarray(X)[:, 1, 2, None, None]
    model = SLTRRegressor().fit(X, Y)
    with xarray.open_dataset(export(model, tmp_path / "c.nc")) as found:
        assert found.coef.dims == ("response", *NAMES)
        flat = np.moveaxis(model.coef_.reshape(*SHAPE, 4), -1, 0)
        np.testing.assert_array_equal(found.coef.values, flat)
        np.testing.assert_allclose(found.intercept, model.intercept_.reshape(-1))
    lines = export(model, tmp_path / "c.csv").read_text().splitlines()
    rows = list(csv.DictReader(lines))
    found = [float(row["coefficient of (1, 0)"]) for row in rows]
    np.testing.assert_array_equal(found, model.coef_[..., 1, 0].reshape(-1))


def test_an_image_has_a_volume_for_each_response(rng, tmp_path):
    nibabel = pytest.importorskip("nibabel")
    # As many responses as voxels along an axis: shapes alone do not tell them apart.
    X = rng.normal(size=(3, 3, 3, 20))
    data = load_nifti(nibabel.Nifti1Image(X, np.eye(4)), mask=np.ones((3, 3, 3), bool))
    model = SLTRRegressor().fit(data.X, rng.normal(size=(20, 3)))
    image = nibabel.load(export(model, tmp_path / "c.nii"))
    np.testing.assert_allclose(image.get_fdata(), model.coef_, rtol=1e-5)


@pytest.mark.parametrize("names", [("coef", "mask"), ("a b", "a_b"), ("=", "")])
def test_names_that_netcdf_lacks_are_changed(rng, tmp_path, names):
    xarray = pytest.importorskip("xarray")
    X = rng.normal(size=(20, 3, 2))
    known = label(X, names, coords=[["u", "v", "w"], [1.0, 2.0]])
    model = SLTRRegressor().fit(known, X[:, 0, 0])
    with xarray.open_dataset(export(model, tmp_path / "c.nc")) as found:
        np.testing.assert_array_equal(found.coef.values, model.coef_)
