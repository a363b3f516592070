"""Samples from any kind of file."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.utils import Bunch

from sltr.datasets import load_samples


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(6, 4, 3))


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "people.csv"
    lines = ["label,site,age", "a,s1,20", "b,s1,30", "a,s2,40", "b,s2,50"]
    path.write_text("\n".join([*lines, "a,s3,60", "b,s3,70"]) + "\n")
    return path


def test_arrays_with_responses_groups_and_covariates_from_a_table(tmp_path, X, table):
    np.save(tmp_path / "X.npy", X)
    data = load_samples(
        [tmp_path / "X.npy"], y=table, target="label", groups="site", covariates=["age"]
    )
    assert data.X.shape == (6, 4, 3)
    assert data.y.tolist() == list("ababab")
    assert data.groups.tolist() == ["s1", "s1", "s2", "s2", "s3", "s3"]
    assert data.covariates.tolist() == [[20.0], [30.0], [40.0], [50.0], [60.0], [70.0]]


def test_groups_from_the_file_itself(tmp_path, X):
    np.savez(tmp_path / "d.npz", X=X, y=np.arange(6.0), run=np.arange(6) // 2)
    data = load_samples([tmp_path / "d.npz"], groups="run")
    assert data.groups.tolist() == [0, 0, 1, 1, 2, 2]
    assert data.covariates is None


def test_responses_may_be_absent_when_not_asked_for(tmp_path, X):
    np.savez(tmp_path / "d.npz", X=X)
    assert load_samples([tmp_path / "d.npz"], target=None).y is None
    with pytest.raises(ValueError, match=r"has no \['y'\]"):
        load_samples([tmp_path / "d.npz"])


def test_list_of_nifti_images(tmp_path, table):
    nibabel = pytest.importorskip("nibabel")
    files = []
    for k in range(6):
        files.append(tmp_path / f"{k}.nii.gz")
        values = np.full((3, 3, 2), k, np.float32)
        nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), files[-1])
    data = load_samples(files, y=table, target="age")
    assert data.X[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert data.y.tolist() == [20, 30, 40, 50, 60, 70]
    with pytest.raises(ValueError, match="holds samples alone"):
        load_samples(files)


@pytest.fixture
def films(tmp_path, monkeypatch):
    """Return a folder of six films, without PyAV to read them."""
    found = Bunch(
        X=np.zeros((6, 2, 3, 3)),
        target=np.repeat([0, 1], 3),
        target_names=np.array(["run", "walk"]),
        groups=np.arange(6),
    )
    monkeypatch.setattr("sltr.datasets.samples.load_video_folder", lambda _: found)
    (tmp_path / "films").mkdir()
    return tmp_path / "films"


def test_films_are_labelled_by_their_folders_unless_responses_are_given(films, table):
    assert load_samples([films]).y.tolist() == ["run"] * 3 + ["walk"] * 3
    assert load_samples([films], target=None).y[0] == "run"
    data = load_samples([films], y=table, target="age", covariates=["age"])
    assert data.y.tolist() == [20, 30, 40, 50, 60, 70]
    assert data.groups.tolist() == [0, 1, 2, 3, 4, 5]
    other = load_samples([films], y=table, target=None, groups="site")
    assert other.y[0] == "run"
    assert other.groups[0] == "s1"


def test_films_with_other_responses_are_refused(films, tmp_path):
    np.save(tmp_path / "y.npy", np.arange(5.0))
    with pytest.raises(ValueError, match=r"6 samples, and 'y' .* shape \(5,\)"):
        load_samples([films], y=tmp_path / "y.npy")
    with pytest.raises(ValueError, match=r"target='age' .* expected a table as y"):
        load_samples([films], target="age")
    with pytest.raises(FileNotFoundError, match=r"none\.csv does not exist"):
        load_samples([films], y=tmp_path / "none.csv", target=None)


def test_masks_are_for_images_alone(films, tmp_path, X):
    np.savez(tmp_path / "d.npz", X=X, y=np.arange(6.0))
    for path in (films, tmp_path / "d.npz"):
        with pytest.raises(ValueError, match=r"mask='m\.nii' .* Leave the mask out"):
            load_samples([path], mask="m.nii")


def test_another_target_is_no_covariate_called_y(tmp_path, X, table):
    np.savez(tmp_path / "d.npz", X=X, y=np.zeros(6), strength=np.arange(6.0))
    with pytest.raises(ValueError, match=r"has no \['y'\]"):
        load_samples([tmp_path / "d.npz"], target="strength", covariates=["y"])
    with pytest.raises(ValueError, match=r"people\.csv has no \['y'\]"):
        load_samples([tmp_path / "d.npz"], y=table, target="label", groups="y")


@pytest.mark.parametrize("rows", [np.array(3), np.arange(5)])
def test_groups_and_covariates_of_other_lengths_are_named(tmp_path, X, rows):
    file = [tmp_path / "d.npz"]
    np.savez(file[0], X=X, y=np.arange(6.0), groups=rows, age=np.arange(6.0), sex=rows)
    with pytest.raises(ValueError, match=r"6 samples, and 'groups' .* has shape \("):
        load_samples(file)
    with pytest.raises(ValueError, match=r"6 samples, and 'sex' .* has shape \("):
        load_samples(file, groups="age", covariates=["age", "sex"])


@pytest.mark.parametrize("paths", ["d.npz", Path("d.npz"), []])
def test_paths_are_a_list(paths):
    with pytest.raises(ValueError, match="expected a list of one path or more"):
        load_samples(paths)


def test_bad_input_says_what_to_do(tmp_path, X, table):
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "short.npy", X[:2])
    file = [tmp_path / "X.npy"]
    with pytest.raises(ValueError, match=r"has no \['sex'\]"):
        load_samples(file, y=table, target="label", covariates=["sex"])
    words = load_samples(file, y=table, target="label", covariates=["site", "age"])
    assert words.covariates.dtype == object
    with pytest.raises(ValueError, match="2 files were given"):
        load_samples(file * 2, y=table, target="label")
    with pytest.raises(ValueError, match="holds samples alone"):
        load_samples(file)
    with pytest.raises(ValueError, match="X has 2 samples"):
        load_samples([tmp_path / "short.npy"], y=table, target="label")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load_samples([tmp_path / "none.npy"])
