import pickle

import numpy as np
import pytest

from sltr.datasets import load_csv, load_data, load_npy, load_npz, load_zarr

X = np.arange(24.0).reshape(4, 3, 2)
Y = np.array([1.0, 2.0, 3.0, 5.0])


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(
        "id, age,score,label\na,61,1.5,patient\nb,48,,control\n\n"
        "c,50,2e1,control\nd,70,-3,patient\n"
    )
    return path


def test_npz_gives_every_array(tmp_path):
    np.savez(tmp_path / "d.npz", X=X, strength=Y, run=np.arange(4))
    for data in (
        load_npz(tmp_path / "d.npz", target="strength"),
        load_data(tmp_path / "d.npz", target="strength"),
    ):
        np.testing.assert_array_equal(data.X, X)
        np.testing.assert_array_equal(data.y, Y)
        assert data.run.tolist() == [0, 1, 2, 3]
    assert load_npz(tmp_path / "d.npz", target=None).y is None


def test_npy_pair(tmp_path):
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", Y)
    for data in (
        load_npy(tmp_path / "X.npy", tmp_path / "y.npy"),
        load_data(tmp_path / "X.npy", tmp_path / "y.npy"),
        load_data(str(tmp_path / "X.npy"), str(tmp_path / "y.npy")),
        load_data(tmp_path / "X.npy", Y.tolist()),
    ):
        np.testing.assert_array_equal(data.X, X)
        np.testing.assert_array_equal(data.y, Y)
    assert load_data(tmp_path / "X.npy").y is None


def test_large_samples_stay_in_their_file(tmp_path):
    zarr = pytest.importorskip("zarr")
    np.save(tmp_path / "X.npy", X)
    mapped = load_data(tmp_path / "X.npy", largest=100).X
    assert isinstance(mapped, np.memmap)
    np.testing.assert_array_equal(mapped, X)
    assert type(load_data(tmp_path / "X.npy", largest=10**6).X) is np.ndarray
    group = zarr.open_group(str(tmp_path / "d.zarr"), mode="w")
    group["X"], group["y"] = X, Y
    data = load_data(tmp_path / "d.zarr", largest=100)
    assert isinstance(data.X, zarr.Array)
    assert type(data.y) is np.ndarray
    assert type(load_data(tmp_path / "d.zarr", largest=10**6).X) is np.ndarray


def test_zarr_group_and_array(tmp_path):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(str(tmp_path / "g.zarr"), mode="w")
    for name, values in (("X", X), ("y", Y)):
        array = group.create_array(name, shape=values.shape, dtype=values.dtype)
        array[:] = values
    alone = zarr.open(str(tmp_path / "a.zarr"), mode="w", shape=X.shape, dtype=X.dtype)
    alone[:] = X
    for data in (load_zarr(tmp_path / "g.zarr"), load_data(tmp_path / "g.zarr")):
        np.testing.assert_array_equal(data.X, X)
        np.testing.assert_array_equal(data.y, Y)
    data = load_data(tmp_path / "a.zarr", Y)
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, Y)
    with pytest.raises(ValueError, match=r"has no \['z'\]"):
        load_zarr(tmp_path / "g.zarr", target="z")


def test_nifti_with_a_table_of_responses(tmp_path, table):
    nibabel = pytest.importorskip("nibabel")
    series = np.moveaxis(X[:, None], 0, 3).astype(np.float32)
    nibabel.save(nibabel.Nifti1Image(series, np.eye(4)), tmp_path / "run.nii.gz")
    data = load_data(tmp_path / "run.nii.gz", table, target="label")
    np.testing.assert_array_equal(data.X[:, 0], X)
    assert data.y.tolist() == ["patient", "control", "control", "patient"]


def test_table_gives_responses_and_covariates(table):
    data = load_csv(table, target="label")
    assert data.covariate_names == ["age", "score"]
    expected = [[61, 1.5], [48, np.nan], [50, 20], [70, -3]]
    np.testing.assert_array_equal(data.covariates, expected)
    assert data.columns["id"].tolist() == ["a", "b", "c", "d"]
    chosen = load_csv(table, target="age", covariates=["score"])
    assert chosen.y.tolist() == [61, 48, 50, 70]
    assert chosen.covariates.shape == (4, 1)
    alone = load_csv(table, target=None, covariates=[])
    assert alone.y is None
    assert alone.covariates.shape == (4, 0)


def test_absent_names_are_answered_with_those_there(tmp_path, table):
    np.savez(tmp_path / "d.npz", X=X, strength=Y)
    np.savez(tmp_path / "e.npz", x=X, y=Y)
    with pytest.raises(ValueError, match=r"has no \['y'\]; it holds .*'strength'"):
        load_data(tmp_path / "d.npz")
    with pytest.raises(ValueError, match=r"has no \['X'\]; it holds"):
        load_data(tmp_path / "e.npz")
    with pytest.raises(ValueError, match=r"has no \['y'\]; it holds \['age', 'id'"):
        load_csv(table)
    with pytest.raises(ValueError, match=r"\['id'\] .* are not numbers"):
        load_csv(table, target="label", covariates=["id"])


def test_pickles_are_refused(tmp_path):
    objects = np.array([{"a": 1}, None], dtype=object)
    np.savez(tmp_path / "d.npz", X=objects)
    np.save(tmp_path / "d.npy", objects)
    (tmp_path / "p.npy").write_bytes(pickle.dumps([1, 2]))
    (tmp_path / "p.npz").write_bytes(pickle.dumps([1, 2]))
    for name in ("d.npz", "d.npy", "p.npy", "p.npz"):
        with pytest.raises(ValueError, match="cannot be read"):
            load_data(tmp_path / name, Y)


def test_damaged_and_misnamed_files_are_named(tmp_path):
    np.savez(tmp_path / "cut.npz", X=X, y=Y)
    whole = (tmp_path / "cut.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[:200])
    (tmp_path / "empty.npz").write_bytes(b"")
    np.save(tmp_path / "one.npy", X)
    (tmp_path / "one.npy").rename(tmp_path / "one.npz")
    np.save(tmp_path / "short.npy", X)
    (tmp_path / "short.npy").write_bytes((tmp_path / "short.npy").read_bytes()[:150])
    for name in ("cut.npz", "empty.npz", "one.npz", "short.npy"):
        with pytest.raises(ValueError, match=f"{name} cannot be read"):
            load_data(tmp_path / name)


def test_other_files_and_lengths_are_refused(tmp_path):
    np.save(tmp_path / "X.npy", X)
    (tmp_path / "X.mat").write_text("")
    with pytest.raises(ValueError, match="expected a file that ends in"):
        load_data(tmp_path / "X.mat")
    with pytest.raises(ValueError, match=r"y='.*X\.mat' was given"):
        load_data(tmp_path / "X.npy", tmp_path / "X.mat")
    with pytest.raises(FileNotFoundError, match=r"absent\.npz does not exist"):
        load_data(tmp_path / "absent.npz")
    with pytest.raises(ValueError, match=r"4 samples and y shape \(3,\)"):
        load_data(tmp_path / "X.npy", Y[:3])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "0 lines"),
        (b"a,b\n", "1 lines"),
        (b"a,b\n1,2\n3\n", "Row 2 of .* has 1 cells"),
        (b"a,a\n1,2\n", "expected each name once"),
        (b"a,b\n\xff\xfe,2\n", "cannot be read as a table"),
    ],
)
def test_broken_tables_are_named(tmp_path, text, words):
    (tmp_path / "t.csv").write_bytes(text)
    with pytest.raises(ValueError, match=words):
        load_csv(tmp_path / "t.csv", target="a")
