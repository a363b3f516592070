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


def test_zarr_group_with_a_single_number(tmp_path):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(str(tmp_path / "g.zarr"), mode="w")
    group["X"], group["y"] = X, Y
    group.create_array("noise", shape=(), dtype="f8")[...] = 0.5
    assert load_zarr(tmp_path / "g.zarr").noise == 0.5


def test_folders_that_are_no_zarr_and_damaged_ones_are_named(tmp_path):
    zarr = pytest.importorskip("zarr")
    (tmp_path / "empty.zarr").mkdir()
    (tmp_path / "foreign.zarr").mkdir()
    (tmp_path / "foreign.zarr" / "zarr.json").write_text("[]")
    group = zarr.open_group(str(tmp_path / "hurt.zarr"), mode="w")
    group["X"], group["y"] = X, Y
    for chunk in (tmp_path / "hurt.zarr" / "X" / "c").rglob("*"):
        if chunk.is_file():
            chunk.write_bytes(b"no chunk")
    for name in ("empty.zarr", "foreign.zarr", "hurt.zarr"):
        with pytest.raises(ValueError, match=f"{name} cannot be read"):
            load_data(tmp_path / name)


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


@pytest.mark.parametrize(
    "cells",
    [
        ["1_1", "11"],
        ["9007199254740993", "9007199254740992"],
        ["-9007199254740993", "1"],
        ["9" * 400, "1"],
    ],
)
def test_identifiers_that_floats_would_merge_stay_text(tmp_path, cells):
    (tmp_path / "t.csv").write_text("\n".join(["id", *cells]) + "\n")
    assert load_csv(tmp_path / "t.csv", target="id").y.tolist() == cells


def test_numbers_that_floats_keep_are_numbers(tmp_path):
    cells = ["+7", "-0012", "9007199254740992", "1e3", "0.1", "nan", ""]
    rows = [f"a,{cell}" for cell in cells]
    (tmp_path / "t.csv").write_text("\n".join(["id,x", *rows]) + "\n")
    found = load_csv(tmp_path / "t.csv", target="x").y
    expected = [7, -12, 2.0**53, 1000, 0.1, np.nan, np.nan]
    np.testing.assert_array_equal(found, expected)


def test_empty_labels_are_no_class(tmp_path):
    (tmp_path / "t.csv").write_text("label,age\na,1\n,2\nb,\n")
    with pytest.raises(ValueError, match=r"'label' .* empty in 1 rows, first in row 2"):
        load_csv(tmp_path / "t.csv", target="label")
    assert load_csv(tmp_path / "t.csv", target="age").columns["label"][1] == ""


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
    np.savez(tmp_path / "several.npz", X=X, y=Y)
    (tmp_path / "several.npz").rename(tmp_path / "several.npy")
    header = (tmp_path / "short.npy").read_bytes().replace(b"}", b"(")
    (tmp_path / "header.npy").write_bytes(header)
    (tmp_path / "folder.npy").mkdir()
    (tmp_path / "folder.npz").mkdir()
    arrays = ("short.npy", "several.npy", "header.npy", "folder.npy")
    for name in ("cut.npz", "empty.npz", "one.npz", "folder.npz", *arrays):
        for largest in (None, 10):
            with pytest.raises(ValueError, match=f"{name} cannot be read"):
                load_data(tmp_path / name, largest=largest)


def test_encrypted_archives_are_named(tmp_path):
    np.savez(tmp_path / "d.npz", X=X)
    content = bytearray((tmp_path / "d.npz").read_bytes())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + flags] |= 1
    (tmp_path / "d.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"d\.npz cannot be read: .*encrypted"):
        load_data(tmp_path / "d.npz")


@pytest.mark.parametrize("scalar", [np.array(3.0), np.arange(4.0)])
def test_samples_need_two_axes(tmp_path, scalar):
    np.savez(tmp_path / "d.npz", X=scalar, y=Y)
    np.save(tmp_path / "d.npy", scalar)
    for name in ("d.npz", "d.npy"):
        with pytest.raises(ValueError, match=rf"X of .*{name} has shape \("):
            load_data(tmp_path / name)


def test_other_files_and_lengths_are_refused(tmp_path):
    np.save(tmp_path / "X.npy", X)
    (tmp_path / "X.xls").write_text("")
    with pytest.raises(ValueError, match="expected a file that ends in"):
        load_data(tmp_path / "X.xls")
    with pytest.raises(ValueError, match=r"y='.*X\.xls' was given"):
        load_data(tmp_path / "X.npy", tmp_path / "X.xls")
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


def test_tables_that_are_folders_and_long_delimiters_are_named(tmp_path, table):
    with pytest.raises(ValueError, match="cannot be read as a table"):
        load_csv(tmp_path)
    with pytest.raises(ValueError, match=r"delimiter=';;' was given"):
        load_csv(table, delimiter=";;")
