"""Samples from any kind of file."""

import numpy as np
import pytest

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


def test_bad_input_says_what_to_do(tmp_path, X, table):
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "short.npy", X[:2])
    file = [tmp_path / "X.npy"]
    with pytest.raises(ValueError, match=r"has no \['sex'\]"):
        load_samples(file, y=table, target="label", covariates=["sex"])
    with pytest.raises(ValueError, match="not all numbers"):
        load_samples(file, y=table, target="label", covariates=["site"])
    with pytest.raises(ValueError, match="2 files were given"):
        load_samples(file * 2, y=table, target="label")
    with pytest.raises(ValueError, match="holds samples alone"):
        load_samples(file)
    with pytest.raises(ValueError, match="X has 2 samples"):
        load_samples([tmp_path / "short.npy"], y=table, target="label")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load_samples([tmp_path / "none.npy"])
