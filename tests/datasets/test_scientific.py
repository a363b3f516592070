"""Files of other programs, and what they say of their arrays."""

import numpy as np
import pytest

from sltr import SLTRRegressor
from sltr.datasets import load_data, load_epochs, load_samples

X = np.arange(48.0).reshape(4, 3, 4)
Y = np.array([1.0, 2.0, 3.0, 5.0])
TIMES = np.array([0.0, 0.1, 0.2, 0.3])


def check(data, *, units="s"):
    np.testing.assert_array_equal(np.asarray(data.X), X)
    np.testing.assert_array_equal(data.y, Y)
    labels = data.X.labels
    assert labels.names == ("channel", "time")
    assert labels.units == ("", units)
    assert labels.coords[0].tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(labels.coords[1], TIMES)


def test_hdf5_with_scales(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["X"], file["y"], file["time"] = X, Y, TIMES
        file["channel"] = ["a", "b", "c"]
        file["time"].attrs["units"] = "s"
        for axis, name in ((1, "channel"), (2, "time")):
            file[name].make_scale(name)
            file["X"].dims[axis].attach_scale(file[name])
    check(load_data(tmp_path / "d.h5"))
    stays = load_data(tmp_path / "d.h5", largest=100).X
    assert isinstance(stays, h5py.Dataset)
    np.testing.assert_array_equal(stays[:], X)
    with pytest.raises(ValueError, match=r"d\.h5 has no \['z'\]; it holds"):
        load_data(tmp_path / "d.h5", target="z")


def test_matlab_of_both_versions(tmp_path):
    from scipy.io import savemat

    names = np.array(["channel", "time"], dtype=object)
    channels = np.array(["a", "b", "c"], dtype=object)
    arrays = {"X": X, "y": Y, "names": names, "channel": channels, "time": TIMES}
    savemat(tmp_path / "old.mat", arrays)
    check(load_data(tmp_path / "old.mat"), units="")
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "new.mat", "w", userblock_size=512) as file:
        # MATLAB writes the axes in reverse.
        for name, values in (("X", X), ("y", Y[:, None]), ("time", TIMES[:, None])):
            file[name] = values.T
        for name, texts in (("names", names), ("channel", channels)):
            cells = []
            for k, text in enumerate(texts):
                cell = file.create_dataset(
                    f"#refs#/{name}{k}", data=np.array([[ord(c)] for c in text], "u2")
                )
                cells.append(cell.ref)
            file.create_dataset(name, data=[cells], dtype=h5py.ref_dtype)
            file[name].attrs["MATLAB_class"] = np.bytes_("cell")
    with (tmp_path / "new.mat").open("r+b") as stream:
        stream.write(b"MATLAB 7.3 MAT-file")
    check(load_data(tmp_path / "new.mat"), units="")


def test_a_damaged_matlab_file_is_named(tmp_path):
    (tmp_path / "d.mat").write_bytes(b"MATLAB 5.0 MAT-file" + bytes(200))
    with pytest.raises(ValueError, match=r"d\.mat"):
        load_data(tmp_path / "d.mat")


def test_netcdf_and_zarr_of_xarray(tmp_path):
    xarray = pytest.importorskip("xarray")
    dataset = xarray.Dataset(
        {"X": (("sample", "channel", "time"), X), "y": (("sample",), Y)},
        coords={"channel": ["a", "b", "c"], "time": ("time", TIMES, {"units": "s"})},
    )
    dataset.to_netcdf(tmp_path / "d.nc", engine="scipy")
    check(load_data(tmp_path / "d.nc"))
    pytest.importorskip("zarr")
    dataset.drop_vars("channel").to_zarr(tmp_path / "d.zarr", zarr_format=2)
    labels = load_data(tmp_path / "d.zarr").X.labels
    assert (labels.names, labels.units) == (("channel", "time"), ("", "s"))
    np.testing.assert_array_equal(labels.coords[1], TIMES)


def test_arrays_beside_x_label_it(tmp_path):
    beside = {"names": ["channel", "time"], "channel": ["a", "b", "c"], "time": TIMES}
    np.savez(tmp_path / "d.npz", X=X, y=Y, ids=["p", "q", "r", "s"], **beside)
    data = load_data(tmp_path / "d.npz")
    check(data, units="")
    assert data.X.labels.ids.tolist() == ["p", "q", "r", "s"]
    np.savez(tmp_path / "e.npz", X=X, y=Y, names=["one", "two", "three"])
    assert type(load_data(tmp_path / "e.npz").X) is np.ndarray


def test_a_table_of_samples(tmp_path):
    lines = ["id,400,410,420,site,y,age"]
    lines += [f"s{k},{k},{2 * k},{k * k},x,{3 * k},{50 + k}" for k in range(5)]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    data = load_samples([tmp_path / "t.csv"], covariates=["age"], groups="site")
    assert data.X.labels.coords[0].tolist() == ["400", "410", "420"]
    assert (
        data.X.labels.ids.tolist() == data.ids.tolist() == [f"s{k}" for k in range(5)]
    )
    assert data.y.tolist() == [0, 3, 6, 9, 12]
    assert data.covariates[:, 0].tolist() == [50, 51, 52, 53, 54]
    model = SLTRRegressor(epsilon=1.0).fit(data.X, data.y)
    assert model.coords_[0][0] == "400"


@pytest.fixture
def epochs():
    mne = pytest.importorskip("mne")
    names = ["Fz", "Cz", "Pz", "Oz"]
    places = [[0, 0.06, 0.07], [0, 0, 0.1], [0, -0.06, 0.08], [0, -0.1, 0.02]]
    montage = mne.channels.make_dig_montage(
        dict(zip(names, np.array(places), strict=True)), coord_frame="head"
    )
    info = mne.create_info([*names, "stim"], 100.0, ["eeg"] * 4 + ["stim"])
    values = np.random.default_rng(0).normal(size=(8, 5, 20))
    events = np.column_stack(
        [np.arange(8) * 50, np.zeros(8, int), np.arange(8) % 2 + 1]
    )
    made = mne.EpochsArray(
        values,
        info,
        events,
        tmin=-0.05,
        event_id={"left": 1, "right": 2},
        verbose=False,
    )
    return made.set_montage(montage)


def test_epochs_bring_channels_times_and_positions(epochs, tmp_path):
    data = load_epochs(epochs, decim=2)
    assert data.X.shape == (8, 4, 10)
    labels = data.X.labels
    assert labels.coords[0].tolist() == ["Fz", "Cz", "Pz", "Oz"]
    np.testing.assert_allclose(labels.coords[1], np.arange(-0.05, 0.14, 0.02))
    assert labels.units == ("", "s")
    expected = [epochs.info["chs"][k]["loc"][:3] for k in range(4)]
    np.testing.assert_array_equal(labels.space["positions"], expected)
    assert data.y.tolist() == ["left", "right"] * 4
    # Channels that are chosen keep their own positions.
    some = data.X[:, [3, 0]].labels.space
    np.testing.assert_array_equal(some["positions"], np.array(expected)[[3, 0]])
    epochs.save(tmp_path / "d-epo.fif", verbose=False)
    again = load_data(tmp_path / "d-epo.fif")
    np.testing.assert_allclose(again.X[:, :, ::2], data.X, rtol=1e-6)
    bad = epochs.copy()
    bad.info["bads"] = ["Cz"]
    assert load_epochs(bad).X.shape == (8, 3, 20)
