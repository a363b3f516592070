import numpy as np
import pytest

from sltr import SLTRRegressor, load, save
from sltr.datasets import coef_img, load_nifti

nibabel = pytest.importorskip("nibabel")

SHAPE = (7, 6, 5)
AFFINE = np.array(
    [[-3.0, 0, 0, 90], [0, 3.1, 0.2, -126], [0, -0.2, 3.3, -72], [0, 0, 0, 1]]
)


def write(path, values, affine=AFFINE):
    nibabel.save(nibabel.Nifti1Image(values.astype(np.float32), affine), path)
    return path


@pytest.fixture
def mask():
    inside = np.zeros(SHAPE, bool)
    inside[1:4, 2:6, 3] = True
    inside[5, 3, 2] = True
    return inside


@pytest.fixture
def brains(tmp_path, rng):
    values = rng.standard_normal((4, *SHAPE)).astype(np.float32)
    paths = [write(tmp_path / f"s{k}.nii.gz", v) for k, v in enumerate(values)]
    return paths, values


def test_samples_are_the_masked_box(brains, mask, tmp_path):
    paths, values = brains
    stored = write(tmp_path / "mask.nii", mask)
    for given in (mask, stored, str(stored), nibabel.load(stored)):
        data = load_nifti(paths, mask=given)
        assert data.X.shape == (4, 5, 4, 2)
        assert data.X.dtype == np.float32
        assert data.box == (slice(1, 6), slice(2, 6), slice(2, 4))
        expected = np.where(mask, values, 0)[:, 1:6, 2:6, 2:4]
        np.testing.assert_array_equal(data.X, expected)
        np.testing.assert_array_equal(data.mask, mask[1:6, 2:6, 2:4])
        np.testing.assert_allclose(data.affine, AFFINE, atol=1e-5)
        assert data.filenames.tolist() == [str(path) for path in paths]


def test_nan_in_a_mask_is_outside(brains, mask, tmp_path):
    paths, _ = brains
    gaps = np.where(mask, 1.0, np.nan)
    for given in (gaps, write(tmp_path / "gaps.nii", gaps)):
        data = load_nifti(paths, mask=given)
        np.testing.assert_array_equal(data.mask, mask[1:6, 2:6, 2:4])
    with pytest.raises(ValueError, match="holds no voxel"):
        load_nifti(paths, mask=np.full(SHAPE, np.nan))


def test_without_mask_or_crop_the_whole_image_stays(brains, mask):
    paths, values = brains
    np.testing.assert_array_equal(load_nifti(paths).X, values)
    whole = load_nifti(paths, mask=mask, crop=False, dtype=np.float64)
    np.testing.assert_array_equal(whole.X, np.where(mask, values, 0))
    assert whole.X.dtype == np.float64


def test_last_axis_of_a_series_counts_samples(brains, mask, tmp_path):
    paths, values = brains
    series = write(tmp_path / "run.nii.gz", np.moveaxis(values, 0, 3))
    one, several = load_nifti(series, mask=mask), load_nifti(paths, mask=mask)
    np.testing.assert_array_equal(one.X, several.X)
    both = load_nifti([series, *paths], mask=mask)
    assert both.X.shape[0] == 8
    assert both.filenames[:4].tolist() == [str(series)] * 4


def test_scaled_integers_are_read_in_their_units(tmp_path):
    image = nibabel.Nifti1Image(np.full(SHAPE, 7, np.int16), AFFINE)
    image.header.set_slope_inter(0.5, 1.0)
    nibabel.save(image, tmp_path / "i.nii")
    expected = nibabel.load(tmp_path / "i.nii").get_fdata()
    np.testing.assert_allclose(load_nifti(tmp_path / "i.nii").X[0], expected)


def test_coefficient_returns_to_its_place(brains, mask, rng, tmp_path):
    data = load_nifti(brains[0], mask=mask)
    coef = rng.standard_normal(data.mask.shape)
    nibabel.save(coef_img(coef, data), tmp_path / "coef.nii.gz")
    image = nibabel.load(tmp_path / "coef.nii.gz")
    np.testing.assert_allclose(image.affine, AFFINE, atol=1e-5)
    values = image.get_fdata()
    assert values.shape == SHAPE
    np.testing.assert_allclose(values[mask], coef[data.mask], rtol=1e-6)
    assert np.all(values[~mask] == 0)


def test_other_spaces_are_refused_by_name(brains, mask, tmp_path):
    paths, values = brains
    moved = AFFINE.copy()
    moved[0, 3] += 1.5
    other = write(tmp_path / "moved.nii", values[0], moved)
    with pytest.raises(ValueError, match=r"moved\.nii has the affine"):
        load_nifti([*paths, other])
    with pytest.raises(ValueError, match=r"mask .*moved\.nii has the affine"):
        load_nifti(paths, mask=other)
    small = write(tmp_path / "small.nii", values[0, :-1])
    with pytest.raises(ValueError, match=r"small\.nii has shape \(6, 6, 5\)"):
        load_nifti([*paths, small])
    with pytest.raises(ValueError, match=r"the mask has shape \(6, 6, 5\)"):
        load_nifti(paths, mask=mask[:-1])


def test_bad_images_are_named(brains, tmp_path):
    paths, values = brains
    with pytest.raises(ValueError, match="at least one path"):
        load_nifti([])
    with pytest.raises(ValueError, match=r"absent\.nii cannot be read"):
        load_nifti(tmp_path / "absent.nii")
    (tmp_path / "text.nii").write_text("no image")
    with pytest.raises(ValueError, match=r"text\.nii cannot be read"):
        load_nifti(tmp_path / "text.nii")
    with pytest.raises(TypeError, match=r"ndarray was given; expected a path"):
        load_nifti([values[0]])
    flat = write(tmp_path / "flat.nii", values[0, :, :, 0])
    with pytest.raises(ValueError, match=r"flat\.nii has shape \(7, 6\)"):
        load_nifti(flat)
    with pytest.raises(ValueError, match="holds no voxel"):
        load_nifti(paths, mask=np.zeros(SHAPE))
    with pytest.raises(ValueError, match=r"coef has shape \(2, 2, 2\)"):
        coef_img(np.zeros((2, 2, 2)), load_nifti(paths))


@pytest.mark.parametrize("suffix", [".nii", ".nii.gz"])
def test_images_cut_short_or_damaged_are_named(brains, tmp_path, suffix):
    paths, values = brains
    content = write(tmp_path / f"whole{suffix}", values[0]).read_bytes()
    cut, hurt = tmp_path / f"cut{suffix}", tmp_path / f"hurt{suffix}"
    cut.write_bytes(content[: len(content) * 3 // 4])
    # An unknown kind of values in the header, or rubbish in the compressed stream.
    hurt.write_bytes(content[:70] + b"\xff\x7f\xff\x7f" + content[74:])
    for bad in (cut, hurt):
        with pytest.raises(ValueError, match=rf"{bad.name} cannot be read as an"):
            load_nifti([*paths, bad])
        with pytest.raises(ValueError, match=rf"mask .*{bad.name} cannot be read"):
            load_nifti(paths, mask=bad)


def test_a_flipped_bit_in_a_compressed_image_is_found(brains, tmp_path):
    """It decompresses to other numbers; the checksum is at the end of the file."""
    paths, _ = brains
    content = paths[0].read_bytes()
    for place in range(len(content) // 2, len(content), 20):
        changed = bytearray(content)
        changed[place] ^= 1
        (tmp_path / "bad.nii.gz").write_bytes(changed)
        with pytest.raises(
            ValueError, match=r"bad\.nii\.gz cannot be read as an image"
        ):
            load_nifti([*paths, tmp_path / "bad.nii.gz"])


def test_images_without_voxels_or_numbers_are_named(tmp_path):
    colours = np.zeros((3, 3, 3), [("R", "u1"), ("G", "u1"), ("B", "u1")])
    with pytest.raises(ValueError, match="image 0 cannot be read as an image"):
        load_nifti(nibabel.Nifti1Image(colours, AFFINE))
    with pytest.raises(ValueError, match="image 0 is a Nifti1Image without an affine"):
        load_nifti(nibabel.Nifti1Image(np.ones(SHAPE), None))
    cifti = nibabel.cifti2
    model = cifti.BrainModelAxis.from_mask(np.ones((3, 3, 3), bool), affine=AFFINE)
    surface = cifti.Cifti2Image(
        np.zeros((2, 27), np.float32), (cifti.ScalarAxis(["a", "b"]), model)
    )
    nibabel.save(surface, tmp_path / "s.dscalar.nii")
    with pytest.raises(ValueError, match=r"s\.dscalar\.nii is a Cifti2Image without"):
        load_nifti(tmp_path / "s.dscalar.nii")


def test_impossible_sizes_in_a_header_are_named(brains, tmp_path):
    content = bytearray(write(tmp_path / "n.nii", brains[1][0]).read_bytes())
    content[42:44] = (-7).to_bytes(2, "little", signed=True)  # dim[1]
    (tmp_path / "n.nii").write_bytes(content)
    with pytest.raises(ValueError, match=r"n\.nii has shape \(-7, 6, 5\)"):
        load_nifti(tmp_path / "n.nii")


def test_a_model_remembers_the_space_of_its_images(tmp_path, rng):
    affine = np.diag([-2.0, 2.0, 3.0, 1.0])
    affine[:3, 3] = [10, -20, 5]
    scans = nibabel.Nifti1Image(rng.normal(size=(6, 5, 4, 20)), affine)
    inside = np.zeros((6, 5, 4), bool)
    inside[1:5, 2:5, 1:3] = True
    inside[1, 2, 1] = False
    data = load_nifti(scans, mask=inside)
    labels = data.X.labels
    assert (labels.names, labels.units) == (("x", "y", "z"), ("mm", "mm", "mm"))
    np.testing.assert_array_equal(labels.coords[0], [8, 6, 4, 2])
    np.testing.assert_array_equal(labels.mask, inside[1:5, 2:5, 1:3])
    y = np.asarray(data.X)[:, 1, 1, 0]
    model = SLTRRegressor().fit(data.X, y)
    save(model, tmp_path / "m.sltr")
    again = load(tmp_path / "m.sltr")
    new = load_nifti(scans, mask=again)
    np.testing.assert_array_equal(np.asarray(new.X), np.asarray(data.X))
    np.testing.assert_array_equal(again.predict(new.X), model.predict(data.X))
    image = coef_img(again)
    assert image.shape == (6, 5, 4)
    np.testing.assert_array_equal(image.affine, affine)
    expected = coef_img(model.coef_, data).get_fdata()
    np.testing.assert_array_equal(image.get_fdata(), expected)
    moved = nibabel.Nifti1Image(scans.get_fdata(), np.eye(4))
    with pytest.raises(ValueError, match=r"the model has the affine"):
        load_nifti(moved, mask=again)
    with pytest.raises(ValueError, match=r"images have the affine"):
        again.predict(load_nifti(moved, mask=inside).X)
    less = inside.copy()
    less[2, 3, 1] = False
    with pytest.raises(ValueError, match="leaves out 1 voxels that the model uses"):
        again.predict(load_nifti(scans, mask=less).X)


def test_new_images_have_the_box_of_the_model_where_voxels_never_vary(rng):
    values = rng.normal(size=(6, 5, 4, 30))
    values[0] = 7.0
    scans = nibabel.Nifti1Image(values, np.eye(4))
    data = load_nifti(scans)
    model = SLTRRegressor().fit(data.X, values[2, 3, 1])
    new = load_nifti(scans, mask=model)
    assert new.X.shape == data.X.shape
    np.testing.assert_allclose(model.predict(new.X), model.predict(data.X))


def test_a_masker_of_nilearn_is_a_mask(rng):
    maskers = pytest.importorskip("nilearn.maskers")
    inside = np.zeros((6, 5, 4), np.uint8)
    inside[1:5, 2:5, 1:3] = 1
    scans = nibabel.Nifti1Image(rng.normal(size=(6, 5, 4, 3)), np.eye(4))
    masker = maskers.NiftiMasker(nibabel.Nifti1Image(inside, np.eye(4))).fit()
    assert load_nifti(scans, mask=masker).X.shape == (3, 4, 3, 2)


def test_oblique_images_have_no_coordinates_in_millimetres():
    affine = np.eye(4)
    affine[:2, :2] = [[0.8, -0.6], [0.6, 0.8]]
    data = load_nifti(nibabel.Nifti1Image(np.zeros((3, 3, 3, 2)), affine))
    assert data.X.labels.coords == (None, None, None)
    assert data.X.labels.units == ("", "", "")
