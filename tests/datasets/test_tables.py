"""Rows of a table belong to the samples they name, in whatever order."""

import numpy as np
import pytest

from sltr.datasets import load_csv, load_data, load_samples
from sltr.datasets.tables import match_rows, read_table

nibabel = pytest.importorskip("nibabel")


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def save_image(path, value, shape=(3, 3, 2)):
    path.parent.mkdir(parents=True, exist_ok=True)
    image = nibabel.Nifti1Image(np.full(shape, value, np.float32), np.eye(4))
    nibabel.save(image, path)
    return path


@pytest.fixture
def images(tmp_path):
    """Return five images; every voxel of the k-th is k."""
    return [save_image(tmp_path / "imgs" / f"scan{k}.nii.gz", k) for k in range(5)]


ORDER = [3, 0, 4, 1, 2]


@pytest.mark.parametrize("cell", ["scan{}.nii.gz", "imgs/scan{}.nii.gz", "scan{}"])
def test_a_shuffled_table_is_matched_by_the_names_of_files(tmp_path, images, cell):
    rows = [f"{10 * k},{cell.format(k)},g{k}" for k in ORDER]
    table = write(tmp_path / "t.csv", ["age,image,site", *rows])
    data = load_samples(
        images, y=table, target="age", groups="site", covariates=["age"]
    )
    np.testing.assert_array_equal(data.y, 10 * data.X[:, 0, 0, 0])
    np.testing.assert_array_equal(data.covariates[:, 0], data.y)
    assert data.groups.tolist() == ["g0", "g1", "g2", "g3", "g4"]
    assert "by its column 'image', in another order" in data.note


def test_cells_may_hold_the_whole_path_where_less_was_given(tmp_path):
    table = write(tmp_path / "t.csv", ["file,y", "/x/a/2.nii,2", "/x/a/1.nii,1"])
    match = match_rows(read_table(table), ["a/1.nii", "a/2.nii"], 2)
    assert match.rows.tolist() == [1, 0]
    # Files of the same name in other folders are other files.
    assert match_rows(read_table(table), ["b/1.nii", "b/2.nii"], 2).column is None


def test_images_without_a_row_are_named(tmp_path, images):
    rows = [f"scan{k}.nii.gz,{k}" for k in (0, 2, 4)]
    table = write(tmp_path / "t.csv", ["file,age", *rows])
    with pytest.raises(ValueError, match=r"2 of 5 samples .* 'file' .*scan1.*scan3"):
        load_samples(images, y=table, target="age")


def test_a_sample_with_two_rows_is_named(tmp_path, images):
    rows = [f"scan{k}.nii.gz,{k}" for k in (0, 1, 2, 2, 3, 4)]
    table = write(tmp_path / "t.csv", ["file,age", *rows])
    with pytest.raises(ValueError, match=r"scan2\.nii\.gz has 2 rows, \['3', '4'\]"):
        load_samples(images, y=table, target="age")


def test_rows_without_a_sample_are_left_out_and_counted(tmp_path, images):
    rows = [f"scan{k}.nii.gz,{k}" for k in range(8)]
    table = write(tmp_path / "t.csv", ["file,age", *rows])
    data = load_samples(images, y=table, target="age")
    assert data.y.tolist() == [0, 1, 2, 3, 4]
    assert "; 3 rows without a sample are left out." in data.note


def test_position_is_used_where_nothing_names_samples_and_it_is_said(tmp_path, images):
    table = write(tmp_path / "t.csv", ["age,sex", "5,f", "6,m", "7,f", "8,m", "9,f"])
    data = load_samples(images, y=table, target="age")
    assert data.y.tolist() == [5, 6, 7, 8, 9]
    assert "by position: no column of" in data.note
    short = write(tmp_path / "s.csv", ["age,sex", "5,f", "6,m"])
    with pytest.raises(ValueError, match=r"5 samples and .*s\.csv 2 rows"):
        load_samples(images, y=short, target="age")


def test_numbers_that_are_equal_by_accident_name_nothing(tmp_path):
    files = [save_image(tmp_path / f"{k}.nii.gz", k) for k in range(4)]
    table = write(tmp_path / "t.csv", ["age,dose", "3,9", "2,8", "7,5", "9,1"])
    assert load_samples(files, y=table, target="dose").y.tolist() == [9, 8, 5, 1]
    # Under a name that says what it is, they do.
    table = write(tmp_path / "t.csv", ["id,dose", "3,9", "2,8", "0,5", "1,1"])
    assert load_samples(files, y=table, target="dose").y.tolist() == [5, 1, 8, 9]


def test_names_with_leading_zeros_stay_apart(tmp_path):
    files = [save_image(tmp_path / f"{name}.nii.gz", 1) for name in ("1", "01", "001")]
    table = write(tmp_path / "t.csv", ["id,dose", "001,7", "1,8", "01,9"])
    assert load_samples(files, y=table, target="dose").y.tolist() == [8, 9, 7]


def test_one_name_in_several_folders_needs_the_folder(tmp_path):
    files = [save_image(tmp_path / f"p{k}" / "T1.nii.gz", k) for k in range(3)]
    rows = [f"p{k}/T1.nii.gz,{k}" for k in (2, 0, 1)]
    table = write(tmp_path / "t.csv", ["file,age", *rows])
    assert load_samples(files, y=table, target="age").y.tolist() == [0, 1, 2]
    bare = write(tmp_path / "b.csv", ["file,age", *["T1.nii.gz,1"] * 3])
    assert "by position" in load_samples(files, y=bare, target="age").note


@pytest.fixture
def bids(tmp_path):
    """Return a BIDS folder of four participants, with a mask and a derivative."""
    root = tmp_path / "study"
    for k, name in enumerate(("01", "02", "03", "04")):
        save_image(root / f"sub-{name}" / "anat" / f"sub-{name}_T1w.nii.gz", k)
    save_image(root / "sub-01" / "anat" / "sub-01_desc-brain_mask.nii.gz", 1)
    save_image(root / "derivatives" / "sub-01" / "sub-01_T1w.nii.gz", 9)
    lines = ["participant_id\tage\tsex", "sub-03\t33\tf", "sub-01\t31\tm"]
    write(root / "participants.tsv", [*lines, "sub-04\t34\tn/a", "sub-02\t32\tf"])
    return root


def test_a_bids_folder_and_its_participants(bids):
    data = load_samples([bids], target="age")
    np.testing.assert_array_equal(data.y, 31 + data.X[:, 0, 0, 0])
    assert data.ids[0] == "sub-01_T1w.nii.gz"
    assert data.groups is None
    assert "participant_id" in data.note
    named = load_samples([bids], y=bids / "participants.tsv", target="age")
    np.testing.assert_array_equal(named.y, data.y)


def test_participants_may_be_written_without_their_prefix(bids, tmp_path):
    rows = ["04,4", "02,2", "01,1", "03,3"]
    table = write(tmp_path / "t.csv", ["participant_id,score", *rows])
    assert load_samples([bids], y=table, target="score").y.tolist() == [1, 2, 3, 4]


def test_responses_that_are_not_known_are_named(bids, tmp_path):
    with pytest.raises(ValueError, match=r"'sex' .* is empty in 1 rows"):
        load_samples([bids], target="sex")
    lines = ["participant_id\tage", "sub-03\tn/a", "sub-01\t31"]
    table = write(tmp_path / "p.tsv", [*lines, "sub-04\t34", "sub-02\t32"])
    with pytest.raises(ValueError, match=r"'age' .* 1 samples: .*sub-03_T1w"):
        load_samples([bids], y=table, target="age")
    with pytest.raises(ValueError, match=r"participants\.tsv has no \['y'\]; it holds"):
        load_samples([bids])


def test_images_of_one_participant_share_a_row_and_a_group(bids):
    save_image(bids / "sub-02" / "anat" / "sub-02_ses-2_T1w.nii.gz", 1)
    data = load_samples([bids], target="age")
    assert data.y.tolist() == [31, 32, 32, 33, 34]
    assert data.groups.tolist() == ["sub-01", "sub-02", "sub-02", "sub-03", "sub-04"]
    assert "stay together in folds" in data.note


def test_arrays_with_identifiers_are_matched(tmp_path):
    X = np.arange(24.0).reshape(4, 3, 2)
    np.savez(tmp_path / "d.npz", X=X, ids=["a", "b", "c", "d"])
    table = write(tmp_path / "t.csv", ["id,y", "d,4", "b,2", "a,1", "c,3"])
    data = load_data(tmp_path / "d.npz", table)
    assert data.y.tolist() == [1, 2, 3, 4]
    assert "in another order" in data.note
    np.save(tmp_path / "X.npy", X)
    plain = load_data(tmp_path / "X.npy", table)
    assert plain.y.tolist() == [4, 2, 1, 3]
    assert "by position: the samples have no names of their own" in plain.note


def test_errors_list_the_columns_of_the_table_they_speak_of(tmp_path, images):
    table = write(tmp_path / "t.csv", ["file,age", *[f"scan{k},1" for k in range(5)]])
    with pytest.raises(
        ValueError, match=r"t\.csv has no \['site'\].*\['age', 'file'\]"
    ):
        load_samples(images, y=table, target="age", groups="site")


def test_tsv_has_tabs_and_its_own_word_for_nothing(tmp_path):
    table = write(tmp_path / "t.tsv", ["age\tsite", "3\tn/a", "n/a\tb"])
    found = load_csv(table, target="age")
    np.testing.assert_array_equal(found.y, [3.0, np.nan])
    assert found.columns["site"].tolist() == ["", "b"]
