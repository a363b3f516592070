"""Files that lie, are damaged, or would flood the memory: one error, a limit."""

import gzip
import io
import json
import os
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from sltr.datasets import load_csv, load_data, load_nifti, load_npy, load_npz
from sltr.datasets.reading import expansion_limit
from sltr.datasets.samples import load_samples
from sltr.estimators.sltr import SLTRRegressor

X = np.arange(24.0).reshape(4, 3, 2)
Y = np.array([1.0, 2.0, 3.0, 5.0])


def npy_bytes(values):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, values)
    return stream.getvalue()


def lying(shape, dtype="<f8"):
    """Return a .npy file that says another shape or dtype than it has."""
    stream = io.BytesIO()
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue() + X.tobytes()


LIES = {
    "too many": lying((9, 3, 2)),
    "too few": lying((2, 3, 2)),
    "huge": lying((10**6, 10**6)),
    "overflow": lying((2**40, 2**40)),
    "negative": lying((-4, -3, 2)),
    "wide": lying((4, 3, 2), "<f4"),
    "no bytes": lying((10**12, 1), "<U0")[: -X.nbytes],
    "nested": lying((4, 3, 2)).replace(b"(4, 3, 2)", b"((((((((("),
    "trailing": npy_bytes(X) + npy_bytes(Y),
    "cut": npy_bytes(X)[:-8],
}


@pytest.mark.parametrize("content", LIES.values(), ids=LIES)
def test_arrays_that_are_not_what_their_header_says_are_named(tmp_path, content):
    (tmp_path / "d.npy").write_bytes(content)
    with zipfile.ZipFile(tmp_path / "d.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("y.npy", npy_bytes(Y))
        archive.writestr("X.npy", content)
    for largest in (None, 10):
        with pytest.raises(ValueError, match=r"d\.npy cannot be read: "):
            load_npy(tmp_path / "d.npy", largest=largest)
    with pytest.raises(ValueError, match=r"d\.npz cannot be read: the array 'X': "):
        load_npz(tmp_path / "d.npz")


def test_a_header_longer_than_its_file_takes_no_memory(tmp_path):
    content = b"\x93NUMPY\x02\x00" + struct.pack("<I", 10**9) + npy_bytes(X)[10:]
    (tmp_path / "d.npy").write_bytes(content)
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"d\.npy cannot be read: "):
        load_npy(tmp_path / "d.npy")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000


def test_fields_with_names_in_any_script_are_read(tmp_path):
    """NumPy stores them in the third version of its format, others in the first."""
    table = np.array([(1.0, 2), (3.0, 4)], [("größe", "f8"), ("名", "i4")])
    with pytest.warns(UserWarning, match="format 3.0"):
        np.savez(tmp_path / "d.npz", X=X, table=table)
    np.testing.assert_array_equal(
        load_npz(tmp_path / "d.npz", target=None).table, table
    )


def test_a_damaged_member_is_named(tmp_path):
    np.savez(tmp_path / "d.npz", X=X, y=Y)
    content = bytearray((tmp_path / "d.npz").read_bytes())
    content[content.index(Y.tobytes()) + 6] ^= 1
    (tmp_path / "d.npz").write_bytes(content)
    with pytest.raises(
        ValueError, match=r"d\.npz cannot be read: the array 'y': .*CRC"
    ):
        load_data(tmp_path / "d.npz")


def test_two_arrays_of_one_name_and_foreign_compression_are_named(tmp_path):
    with zipfile.ZipFile(tmp_path / "twice.npz", "w") as archive:
        archive.writestr("X.npy", npy_bytes(X))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("X.npy", npy_bytes(X))
    with zipfile.ZipFile(tmp_path / "bz.npz", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("X.npy", npy_bytes(X))
    with pytest.raises(ValueError, match=r"'X': there are two"):
        load_npz(tmp_path / "twice.npz")
    with pytest.raises(ValueError, match=r"'X': its compression"):
        load_npz(tmp_path / "bz.npz")


def test_expansion_is_bounded_by_a_limit_that_can_be_raised(tmp_path, monkeypatch):
    big = np.zeros((1000, 500))  # 4 MB, 5 kB in the file
    np.savez_compressed(tmp_path / "d.npz", X=big, y=np.zeros(1000))
    monkeypatch.setenv("SLTR_READ_LIMIT", "1MB")
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"d\.npz has .* SLTR_READ_LIMIT to more"):
        load_data(tmp_path / "d.npz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000
    monkeypatch.setenv("SLTR_READ_LIMIT", "5 MB")
    assert load_data(tmp_path / "d.npz").X.shape == big.shape
    monkeypatch.setenv("SLTR_READ_LIMIT", "much")
    with pytest.raises(ValueError, match="SLTR_READ_LIMIT='much' was given"):
        load_data(tmp_path / "d.npz")


def test_what_is_not_compressed_has_no_limit(tmp_path, monkeypatch):
    monkeypatch.setenv("SLTR_READ_LIMIT", "1MB")
    big = np.zeros((1000, 500))
    np.savez(tmp_path / "d.npz", X=big)
    np.save(tmp_path / "d.npy", big)
    for name in ("d.npz", "d.npy"):
        assert load_data(tmp_path / name, target=None).X.shape == big.shape


def test_small_files_may_grow_to_some_hundred_megabytes(tmp_path):
    (tmp_path / "small").write_bytes(b"0" * 1000)
    assert 10**6 < expansion_limit(tmp_path / "small") <= 256_000_000
    assert expansion_limit(tmp_path) == expansion_limit(tmp_path / "small")


COMPRESSORS = ["zstd", "gzip", "blosc", "lz4", "zlib"]


@pytest.mark.parametrize("name", COMPRESSORS)
def test_chunks_that_would_flood_the_memory_are_not_decompressed(
    tmp_path, monkeypatch, name
):
    zarr, numcodecs = pytest.importorskip("zarr"), pytest.importorskip("numcodecs")
    codec = numcodecs.get_codec({"id": name})
    path = tmp_path / "d.zarr"
    array = zarr.create_array(
        str(path), shape=X.shape, dtype="f8", compressors=codec, zarr_format=2
    )
    array[...] = X
    [chunk] = [part for part in path.iterdir() if not part.name.startswith(".z")]
    monkeypatch.setenv("SLTR_READ_LIMIT", "1MB")
    np.testing.assert_array_equal(load_data(path).X, X)
    # A second frame may hide behind the first one.
    bombs = [codec.encode(bytes(30_000_000))]
    if name == "gzip":
        bombs.append(gzip.compress(b"0") + bombs[0])
    for bomb in bombs:
        chunk.write_bytes(bomb)
        tracemalloc.start()
        with pytest.raises(ValueError, match=r"d\.zarr has .* SLTR_READ_LIMIT to more"):
            load_data(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 10_000_000
    chunk.write_bytes(bombs[0][:20])
    with pytest.raises(ValueError, match=r"d\.zarr (has|cannot be read)"):
        load_data(path)


def test_chunks_larger_than_their_array_count_as_a_whole(tmp_path, monkeypatch):
    zarr, h5py = pytest.importorskip("zarr"), pytest.importorskip("h5py")
    wide, most = (*X.shape[:-1], 100_000), (*X.shape[:-1], None)
    zarr.create_array(str(tmp_path / "d.zarr"), shape=X.shape, chunks=wide, dtype="f8")[
        ...
    ] = X
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file.create_dataset("X", data=X, chunks=wide, maxshape=most, compression=9)
    for name in ("d.zarr", "d.h5"):
        monkeypatch.delenv("SLTR_READ_LIMIT", raising=False)
        assert load_data(tmp_path / name, target=None).X.shape == X.shape
        monkeypatch.setenv("SLTR_READ_LIMIT", "1MB")
        with pytest.raises(ValueError, match=r"would take .* in memory"):
            load_data(tmp_path / name, target=None)


@pytest.fixture
def image(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    nibabel.save(nibabel.Nifti1Image(np.ones((4, 3, 2)), np.eye(4)), tmp_path / "i.nii")
    return bytearray((tmp_path / "i.nii").read_bytes())


@pytest.mark.parametrize("suffix", [".nii", ".nii.gz"])
def test_images_that_would_flood_the_memory_are_named(tmp_path, image, suffix):
    struct.pack_into("<3h", image, 42, 3000, 3000, 3000)
    pack = gzip.compress if suffix == ".nii.gz" else bytes
    (tmp_path / f"big{suffix}").write_bytes(pack(bytes(image)))
    with pytest.raises(ValueError, match=r"big.* would take 216,000,000,352 in mem"):
        load_nifti(tmp_path / f"big{suffix}")
    whole = np.ones((4, 3, 2), bool)
    with pytest.raises(ValueError, match=r"big.* would take"):
        load_nifti(tmp_path / "i.nii", mask=tmp_path / f"big{suffix}")
    assert load_nifti(tmp_path / "i.nii", mask=whole).X.shape == (1, 4, 3, 2)


def test_headers_of_images_that_would_flood_the_memory_are_named(
    tmp_path, image, monkeypatch
):
    monkeypatch.setenv("SLTR_READ_LIMIT", "1MB")
    length = 5_000_000
    struct.pack_into("<f", image, 108, 352.0 + length)
    extension = struct.pack("<4B2i", 1, 0, 0, 0, length, 0).ljust(length + 4, b"\0")
    content = bytes(image[:348]) + extension + bytes(image[352:])
    (tmp_path / "flood.nii.gz").write_bytes(gzip.compress(content))
    with pytest.raises(ValueError, match=r"flood.*its header asks for 4999992 bytes"):
        load_nifti(tmp_path / "flood.nii.gz")
    monkeypatch.setenv("SLTR_READ_LIMIT", "9MB")
    assert load_nifti(tmp_path / "flood.nii.gz").X.shape == (1, 4, 3, 2)


@pytest.fixture
def group(tmp_path):
    zarr = pytest.importorskip("zarr")
    found = zarr.open_group(str(tmp_path / "d.zarr"), mode="w")
    for name, values, chunks in (("X", X, (2, 3, 1)), ("y", Y, (4,))):
        array = found.create_array(name, shape=values.shape, chunks=chunks, dtype="f8")
        array[...] = values
    return tmp_path / "d.zarr"


def test_a_missing_chunk_is_named_unless_fill_values_are_meant(group, monkeypatch):
    (group / "X" / "c" / "1" / "0" / "1").unlink()
    for largest in (None, 10):
        with pytest.raises(
            ValueError, match=r"d\.zarr cannot be read: the array 'X': .*'c/1/0/1'"
        ):
            load_data(group, largest=largest)
    monkeypatch.setenv("SLTR_MISSING_CHUNKS", "fill")
    filled = load_data(group)
    assert (filled.X[2:, :, 1] == 0).all()
    np.testing.assert_array_equal(filled.X[:2], X[:2])


def test_arrays_of_older_zarr_formats_and_shards_are_whole(tmp_path):
    zarr = pytest.importorskip("zarr")
    old, shards = str(tmp_path / "old.zarr"), str(tmp_path / "shards.zarr")
    zarr.create_array(old, shape=X.shape, chunks=(2, 3, 1), dtype="f8", zarr_format=2)
    zarr.create_array(
        shards, shape=X.shape, chunks=(1, 3, 1), shards=(2, 3, 2), dtype="f8"
    )
    for path, chunk in ((old, "1.0.1"), (shards, "c/1/0/0")):
        zarr.open_array(path)[...] = X
        np.testing.assert_array_equal(load_data(path).X, X)
        (tmp_path / path / chunk).unlink()
        with pytest.raises(ValueError, match=f"chunk '{chunk}'"):
            load_data(path)


@pytest.mark.parametrize("location", ["start", "end"])
def test_a_chunk_that_a_shard_lacks_is_named(tmp_path, location, monkeypatch):
    """The last shard has chunks beyond the array, which nobody misses."""
    codecs = pytest.importorskip("zarr.codecs")
    zarr = pytest.importorskip("zarr")
    for order in ("little", "big"):
        path = str(tmp_path / f"{order}.zarr")
        index = [codecs.BytesCodec(endian=order), codecs.Crc32cCodec()]
        sharding = codecs.ShardingCodec(
            chunk_shape=(1, 2, 2), index_codecs=index, index_location=location
        )
        array = zarr.create_array(
            path, shape=(7, 3, 2), chunks=(4, 4, 2), dtype="f8", serializer=sharding,
            compressors=None,
        )  # fmt: skip
        array[:6] = 1.0 + np.arange(36.0).reshape(6, 3, 2)
        words = r"A chunk of the shard 'c/1/0/0', which begins at \[6, 0, 0\]"
        with pytest.raises(ValueError, match=words):
            load_data(path)
        with monkeypatch.context() as patch:
            patch.setenv("SLTR_MISSING_CHUNKS", "fill")
            assert (load_data(path).X[6] == 0).all()
        array[6] = 1.0
        np.testing.assert_array_equal(load_data(path).X[6], np.ones((3, 2)))


def test_a_chunk_that_an_hdf5_file_lacks_is_named(tmp_path, monkeypatch):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "d.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("X", (4, 3, 2), chunks=(2, 3, 1), dtype="f8")[:2] = X[:2]
        file["y"] = Y
    for largest in (None, 10):
        with pytest.raises(ValueError, match=r"d\.h5 .*'X': .*begins at \[2, 0, 0\]"):
            load_data(path, largest=largest)
    with h5py.File(path) as file, pytest.raises(OSError, match="is missing in /X"):
        SLTRRegressor().fit(file["X"], Y)
    monkeypatch.setenv("SLTR_MISSING_CHUNKS", "fill")
    assert (load_data(path).X[2:] == 0).all()


def _virtual(h5py, folder, mapped, name="source.h5"):
    with h5py.File(folder / "source.h5", "w") as file:
        file["X"] = X[:mapped]
    layout = h5py.VirtualLayout((4, 3, 2), "f8")
    layout[:mapped] = h5py.VirtualSource(name, "X", (mapped, 3, 2))
    with h5py.File(folder / "d.h5", "w") as file:
        file.create_virtual_dataset("X", layout)
        file["y"] = Y


def _outside(h5py, folder, there):
    (folder / "raw").write_bytes(X.tobytes()[:there])
    place = [(str(folder / "raw"), 0, X.nbytes)]
    with h5py.File(folder / "d.h5", "w") as file:
        file.create_dataset("X", X.shape, "f8", external=place)
        file["y"] = Y
    os.truncate(folder / "raw", 0)  # HDF5 has written zeros
    (folder / "raw").write_bytes(X.tobytes()[:there])


def _never_written(h5py, folder):
    with h5py.File(folder / "d.h5", "w") as file:
        file.create_dataset("X", X.shape, "f8")
        file["y"] = Y


IN_PARTS = {
    "no source": (lambda *at: _virtual(*at, 4, "none.h5"), "'X' of 'none.h5', which"),
    "a part": (lambda *at: _virtual(*at, 2), "which has no source"),
    "cut short": (lambda *at: _outside(*at, 100), "raw'.* which holds values"),
    "never written": (_never_written, "which nothing was written to"),
}


@pytest.mark.parametrize("kind", IN_PARTS)
def test_parts_that_hdf5_would_fill_with_zeros_are_named(tmp_path, monkeypatch, kind):
    h5py = pytest.importorskip("h5py")
    write, words = IN_PARTS[kind]
    write(h5py, tmp_path)
    with pytest.raises(ValueError, match=rf"d\.h5 .*'X': .*{words}.* is missing"):
        load_data(tmp_path / "d.h5")
    with (
        h5py.File(tmp_path / "d.h5") as file,
        pytest.raises(OSError, match="is missing in /X"),
    ):
        SLTRRegressor().fit(file["X"], Y)
    monkeypatch.setenv("SLTR_MISSING_CHUNKS", "fill")
    assert (load_data(tmp_path / "d.h5").X[2:] == 0).any()


@pytest.mark.parametrize("write", [_virtual, _outside])
def test_arrays_in_several_files_are_read(tmp_path, write):
    h5py = pytest.importorskip("h5py")
    write(h5py, tmp_path, 4 if write is _virtual else X.nbytes)
    np.testing.assert_array_equal(load_data(tmp_path / "d.h5").X, X)


def test_a_text_that_many_rows_share_does_not_flood_the_memory(tmp_path, monkeypatch):
    h5py = pytest.importorskip("h5py")
    path, n = tmp_path / "d.h5", 1000
    with h5py.File(path, "w") as file:
        file["X"], file["y"] = X, Y
        file.create_dataset("names", (n,), h5py.string_dtype())[0] = "x" * 100_000
        place = file["names"].id.get_offset()
    content = bytearray(path.read_bytes())
    content[place : place + 16 * n] = content[place : place + 16] * n
    path.write_bytes(content)
    monkeypatch.setenv("SLTR_READ_LIMIT", "1MB")
    with pytest.raises(ValueError, match=r"'names': .* would take 1,\d{3},\d{3} in"):
        load_data(path)
    path.rename(tmp_path / "d.mat")
    with pytest.raises(ValueError, match="texts that are not MATLAB's"):
        load_data(tmp_path / "d.mat")


def test_a_chunk_that_dask_would_fill_is_named(group):
    dask = pytest.importorskip("dask.array")
    array = 2.0 * dask.from_zarr(str(group / "X"))[::2]
    SLTRRegressor().fit(array, Y[::2])
    (group / "X" / "c" / "1" / "0" / "1").unlink()
    with pytest.raises(OSError, match="The chunk 'c/1/0/1'"):
        SLTRRegressor().fit(array, Y[::2])


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("shape", [10**6, 10**6, 2], "would take 16,000,000,000,032 in memory"),
        ("shape", [6, 3, 2], r"the array 'X': .*'c/2/0/0'"),
        ("shape", "many", "cannot be read"),
        ("data_type", "no type", "cannot be read"),
        ("codecs", [], "cannot be read"),
    ],
)
def test_zarr_arrays_that_are_not_what_they_say_are_named(group, key, value, words):
    file = group / "X" / "zarr.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {key: value}))
    with pytest.raises(ValueError, match=rf"d\.zarr .*{words}"):
        load_data(group)


def test_pickled_chunks_are_refused_before_they_are_read(tmp_path):
    zarr = pytest.importorskip("zarr")
    path = tmp_path / "d.zarr"
    zarr.create_array(str(path), shape=(4, 3), dtype="f8", zarr_format=2)[...] = 1.0
    codecs = [{"id": "vlen-utf8"}, {"id": "pickle", "protocol": 5}]
    changed = {"dtype": "|O", "fill_value": "", "filters": codecs, "compressor": None}
    content = json.loads((path / ".zarray").read_text()) | changed
    (path / ".zarray").write_text(json.dumps(content))
    with pytest.raises(
        ValueError, match=r"d\.zarr cannot be read: .*chunks are pickled"
    ):
        load_data(path)


def test_dates_and_masked_values_are_no_numbers(tmp_path):
    days = np.array(["2020-01-01"] * 4, "M8[D]")
    np.savez(tmp_path / "X.npz", X=np.stack([days, days], 1), y=Y)
    np.savez(tmp_path / "y.npz", X=X, y=days, age=Y)
    with pytest.raises(ValueError, match=r"X with .*X\.npz holds dates"):
        load_data(tmp_path / "X.npz")
    with pytest.raises(ValueError, match=r"y with .*y\.npz holds dates"):
        load_data(tmp_path / "y.npz")
    with pytest.raises(ValueError, match="1 entries of y are masked"):
        load_data(tmp_path / "y.npz", np.ma.masked_equal(Y, 2.0))
    np.savez(tmp_path / "c.npz", X=X, y=Y, day=days)
    with pytest.raises(ValueError, match="day holds dates"):
        load_samples([tmp_path / "c.npz"], covariates=["day"])


class Name(str):
    """A name that counts how often names are compared."""

    compared = 0

    def __eq__(self, other):
        Name.compared += 1
        assert Name.compared < 200_000, "names are compared pair by pair"
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_work_is_linear_in_the_columns_of_a_table(tmp_path):
    names = [f"c{k}" for k in range(20_000)]
    rows = [",".join(names), ",".join(["1"] * 20_000), ",".join(["2"] * 20_000)]
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    wanted = [Name(name) for name in names[1:]]
    table = load_csv(tmp_path / "t.csv", target="c0", covariates=wanted)
    assert table.covariates.shape == (2, 19_999)
    with pytest.raises(ValueError, match=r"has no \['y'\]; .* and 19980 more") as error:
        load_csv(tmp_path / "t.csv")
    assert len(str(error.value)) < 1000


def test_thousands_of_zeros_are_a_number(tmp_path):
    (tmp_path / "t.csv").write_text(f"y\n{'0' * 5000}7\n-{'0' * 5000}\n")
    assert load_csv(tmp_path / "t.csv").y.tolist() == [7.0, 0.0]


SUFFIXES = (".csv", ".npy", ".npz", ".nii", ".nii.gz", ".mat", ".h5", ".nc", ".zarr")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_pipes_and_devices_are_not_waited_for(tmp_path, suffix):
    pipe, device = tmp_path / f"pipe{suffix}", tmp_path / f"device{suffix}"
    os.mkfifo(pipe)
    device.symlink_to("/dev/null")
    # The device first: a pipe that is not refused would be waited for.
    for path in (device, pipe):
        with pytest.raises(ValueError, match=f"{path.name} .*a pipe"):
            load_data(path)


def test_pipes_behind_links_and_headers_are_not_waited_for(tmp_path, group):
    h5py = pytest.importorskip("h5py")
    os.mkfifo(tmp_path / "pipe")
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["X"], file["y"] = h5py.ExternalLink("pipe", "/X"), Y
    header = group / "X" / "zarr.json"
    header.unlink()
    os.mkfifo(header)
    for path in (tmp_path / "d.h5", group):
        with pytest.raises(ValueError, match="it is a pipe"):
            load_data(path)


def test_a_long_text_does_not_make_all_the_others_as_long(tmp_path, monkeypatch):
    rows = "\n".join(["1,a"] * 200)
    (tmp_path / "t.csv").write_text(f"y,name\n{rows}\n2,{'x' * 10_000}\n")
    assert load_csv(tmp_path / "t.csv").columns["name"].shape == (201,)
    monkeypatch.setenv("SLTR_READ_LIMIT", "8MB")
    with pytest.raises(ValueError, match="would take 8,040,000 in memory"):
        load_csv(tmp_path / "t.csv")
    (tmp_path / "u.csv").write_text(f"y,{rows[:1]}\n2,{'x' * 10_000}\n")
    assert load_csv(tmp_path / "u.csv").y.tolist() == [2.0]


@pytest.mark.parametrize("packed", [False, True])
def test_scales_in_groups_count_and_are_whole(tmp_path, packed, monkeypatch):
    h5py = pytest.importorskip("h5py")
    how = {"compression": "gzip"} if packed else {}
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["X"], file["y"] = X, Y
        scale = file.create_dataset("g/s", 300_000, "f8", chunks=(100_000,), **how)
        if packed:
            scale[...] = 1.0
        scale.make_scale("time")
        file["X"].dims[1].attach_scale(scale)
    if not packed:
        with pytest.raises(ValueError, match=r"'s'.* is missing"):
            load_data(tmp_path / "d.h5")
    monkeypatch.setenv("SLTR_READ_LIMIT", "1MB")
    with pytest.raises(ValueError, match=r"would take 2,400,\d+ in memory"):
        load_data(tmp_path / "d.h5")


def test_texts_of_other_programs_count_as_the_longest(tmp_path, monkeypatch):
    h5py = pytest.importorskip("h5py")
    from scipy.io import savemat

    texts = ["x" * 10_000, *["a"] * 200]
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["X"], file["y"] = X, Y
        file["names"] = np.array(texts, h5py.string_dtype())
    cells = np.array(texts, object)
    savemat(tmp_path / "d.mat", {"X": X, "y": Y, "names": cells}, do_compression=True)
    for name in ("d.h5", "d.mat"):
        assert load_data(tmp_path / name).y.tolist() == Y.tolist()
    monkeypatch.setenv("SLTR_READ_LIMIT", "8MB")
    for name in ("d.h5", "d.mat"):
        with pytest.raises(ValueError, match=r"would take 8,04\d,\d+ in memory"):
            load_data(tmp_path / name)


def test_an_array_of_nothing_in_hdf5_is_left_out(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["X"], file["y"], file["none"] = X, Y, h5py.Empty("f8")
    assert "none" not in load_data(tmp_path / "d.h5")


def packed_cell(content):
    cell = np.empty((1, 1), object)
    cell[0, 0] = content
    return cell


def test_cells_of_matlab_hold_no_flood(tmp_path, monkeypatch):
    from scipy.io import savemat

    zeros = np.zeros(3_000_000)
    arrays = {"X": X, "y": Y, "more": {"unused": zeros}}
    savemat(tmp_path / "good.mat", arrays, do_compression=True)
    arrays["c"] = packed_cell(zeros)
    savemat(tmp_path / "bad.mat", arrays, do_compression=True)
    monkeypatch.setenv("SLTR_READ_LIMIT", "8MB")
    # Structures are not read.
    assert set(load_data(tmp_path / "good.mat")) == {"X", "y"}
    with pytest.raises(ValueError, match="in memory"):
        load_data(tmp_path / "bad.mat")


@pytest.mark.parametrize("depth", [2, 300])
def test_cells_within_cells_are_refused(tmp_path, depth):
    """SciPy would follow some ten thousand of them until the process dies."""
    from scipy.io import savemat

    cell = 1.0
    for _ in range(depth):
        cell = packed_cell(cell)
    for packed in (False, True):
        savemat(tmp_path / "d.mat", {"X": X, "y": Y, "c": cell}, do_compression=packed)
        with pytest.raises(ValueError, match="cells hold other things"):
            load_data(tmp_path / "d.mat")
    savemat(tmp_path / "d.mat", {"X": X, "y": Y, "c": packed_cell("a text")})
    assert load_data(tmp_path / "d.mat")["c"].tolist() == ["a text"]


def test_cells_of_newer_matlab_hold_no_flood(tmp_path, monkeypatch):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "d.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        file["X"], file["y"] = X.T, Y
        codes = np.zeros(2_000_000, "u2")
        long = file.create_dataset("#refs#/a", data=codes, compression="gzip")
        file.create_dataset("c", data=[[long.ref] * 3], dtype=h5py.ref_dtype)
        file["c"].attrs["MATLAB_class"] = np.bytes_("cell")
    with path.open("r+b") as stream:
        stream.write(b"MATLAB 7.3 MAT-file")
    monkeypatch.setenv("SLTR_READ_LIMIT", "8MB")
    with pytest.raises(ValueError, match="would take 12,000,000 in memory"):
        load_data(path)
