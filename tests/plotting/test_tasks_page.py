"""The guide's code runs: from files to figures, models and reports."""

import re
import shlex
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import sltr

pytest.importorskip("matplotlib")

import matplotlib.pyplot as plt

PAGES = Path(__file__).parents[2] / "docs"


def _code(page, language="python"):
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)[0]


@pytest.fixture
def samples():
    X = np.random.default_rng(0).standard_normal((40, 6, 5))
    return X, np.tile([0, 1], 20)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    pytest.importorskip("jinja2")
    monkeypatch.chdir(tmp_path)
    return tmp_path


SHAPE = (6, 7, 5)
AFFINE = np.array([[20.0, 0, 0, -50], [0, 20, 0, -70], [0, 0, 20, -40], [0, 0, 0, 1]])


@pytest.fixture
def images(folder, rng):
    """Return a folder with a study, a series of images and their mask and tables."""
    nibabel = pytest.importorskip("nibabel")
    pytest.importorskip("nilearn")
    X = rng.normal(size=(30, *SHAPE)).astype(np.float32)
    signal = X[:, 2:4, 2:4, 2].sum(axis=(1, 2))
    inside = np.zeros(SHAPE, np.uint8)
    inside[1:5, 1:6, 1:4] = 1
    nibabel.save(nibabel.Nifti1Image(inside, AFFINE), folder / "mask.nii.gz")
    rows = []
    for k, image in enumerate(X):
        file = folder / "study" / f"sub-{k:02d}" / f"sub-{k:02d}_T1w.nii.gz"
        file.parent.mkdir(parents=True)
        nibabel.save(nibabel.Nifti1Image(image, AFFINE), file)
        rows.append(f"sub-{k:02d}\t{50 + 9 * signal[k] + rng.normal()}")
    (folder / "new").mkdir()
    for k in range(3):
        file = folder / "new" / f"sub-{k:02d}_T1w.nii.gz"
        nibabel.save(nibabel.Nifti1Image(X[k], AFFINE), file)
    lines = ["participant_id\tage", *rng.permutation(rows)]
    (folder / "study" / "participants.tsv").write_text("\n".join(lines) + "\n")
    series = nibabel.Nifti1Image(np.moveaxis(X, 0, 3), AFFINE)
    for name in ("bold.nii.gz", "new.nii.gz"):
        nibabel.save(series, folder / name)
    words = np.where(signal > 0, "face", "house")
    lines = [f"{word},{k // 5}" for k, word in enumerate(words)]
    (folder / "runs.csv").write_text("\n".join(["condition,run", *lines]) + "\n")
    return folder


def test_four_commands_lead_from_a_folder_of_images_to_everything(images, capsys):
    pytest.importorskip("typer")
    nibabel = pytest.importorskip("nibabel")
    from sltr.cli import main

    commands = _code("howto_fmri", "bash").strip().splitlines()
    assert len(commands) == 5  # the last one predicts
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0, capsys.readouterr().err
    assert "by its column 'participant_id', in another order" in capsys.readouterr().err
    model = sltr.load("age.sltr")
    assert model.best_score_ > 0.3
    assert (images / "brain.png").read_bytes()[:4] == b"\x89PNG"
    assert "cross-validated" in (images / "report.html").read_text(encoding="utf-8")
    values = nibabel.load(images / "coef.nii.gz").get_fdata()
    strongest = np.unravel_index(np.argmax(np.abs(values)), values.shape)
    assert strongest[0] in (2, 3)
    assert strongest[1:] in ((2, 2), (3, 2))


def test_images_in_python(images):
    names = {}
    exec(_code("howto_fmri"), names)
    assert names["new"].X.shape == names["data"].X.shape
    assert (images / "slices.png").exists()


def test_a_folder_of_films(folder):
    av = pytest.importorskip("av")
    for name, down in (("fall", True), ("walk", False)):
        for k in range(8):
            file = folder / "clips" / name / f"v_{name}_g{k // 2:02d}_c{k % 2:02d}.avi"
            file.parent.mkdir(parents=True, exist_ok=True)
            with av.open(str(file), "w") as container:
                stream = container.add_stream("mpeg4", rate=30)
                stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
                for step in range(15):
                    picture = np.full((48, 64, 3), 5 * k, np.uint8)
                    at = 2 * step + k
                    top, left = (at, 24) if down else (16, at)
                    picture[top : top + 10, left : left + 10] = 255
                    frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
                    frame.pts, frame.time_base = step, Fraction(1, 30)
                    container.mux(stream.encode(frame))
                container.mux(stream.encode())
    # Fewer and smaller frames, to be fast.
    code = _code("howto_film").replace(
        "n_frames=15, size=(32, 24)", "n_frames=5, size=(12, 9)"
    )
    exec(code, {})
    model = sltr.load("film.sltr")
    assert model.names_ == ("frame", "width", "height")
    for name in ("film.png", "film.gif"):
        assert (folder / name).stat().st_size > 0


def test_epochs_of_mne(folder, rng):
    mne = pytest.importorskip("mne")
    pytest.importorskip("xarray")
    names = ["Fz", "Cz", "Pz", "C3", "C4", "Oz"]
    places = np.array([[0, 6, 8], [0, 0, 10], [0, -6, 8], [-6, 0, 8], [6, 0, 8]]) / 100
    places = np.vstack([places, [0, -0.09, 0.01]])
    X = rng.normal(size=(40, 6, 20))
    X[::2, 3, 8:14] += 1.0
    events = np.column_stack([np.arange(40) * 50, np.zeros(40, int), np.arange(40) % 2])
    kinds = {"face": 0, "house": 1}
    info = mne.create_info(names, 100.0, "eeg")
    epochs = mne.EpochsArray(X, info, events, event_id=kinds, verbose=False)
    positions = dict(zip(names, places, strict=True))
    montage = mne.channels.make_dig_montage(positions, coord_frame="head")
    epochs.set_montage(montage).save(folder / "faces-epo.fif", verbose=False)
    found = {}
    exec(_code("howto_eeg"), found)
    assert found["model"].coords_[0].tolist() == names
    for name in ("heads.png", "factors.png", "report.html", "coef.nc"):
        assert (folder / name).stat().st_size > 0


def test_arrays_of_ones_own_are_named(samples):
    X, times = samples[0][:, :3, :], 2.0 * np.arange(5)
    found = {"sltr": sltr, "X": X, "times": times}
    exec(_code("howto"), found)
    model = sltr.SLTRClassifierCV(refine=None).fit(found["X"], samples[1])
    sltr.plotting.plot_coef(model)
    ticks = plt.figure(1).axes[0].get_yticklabels()
    assert [t.get_text() for t in ticks] == ["Fz", "Cz", "Pz"]


def test_spectra_are_drawn_over_wavelengths(samples):
    found = {"landscapes": samples[0], "concentration": samples[0][:, 0, 0]}
    found |= {"emission_nm": 300 + np.arange(6), "excitation_nm": 200 + np.arange(5)}
    exec(_code("howto_spectra"), found)
    assert found["model"].coords_[0].tolist() == list(range(300, 306))
    labels = [
        axes.get_ylabel() for n in plt.get_fignums() for axes in plt.figure(n).axes
    ]
    assert "singular value / largest" in labels
