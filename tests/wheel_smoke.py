"""Use an installed sltr with one extra; run by `wheel.py` in an empty environment.

What the extra brings has to work. What is not installed has to be missed by an error
that names the extra.
"""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import sltr

DATA = sltr.datasets.make_tensor_regression((5, 4, 3), 40, snr=5, random_state=0)
MODEL = sltr.SLTRRegressor().fit(DATA.X, DATA.y)


def cli():
    """Ask the program for help."""
    program = Path(sys.executable).with_name("sltr")
    done = subprocess.run([program, "--help"], capture_output=True, text=True)
    if done.returncode:
        raise ImportError(done.stderr)
    assert "tune" in done.stdout


def report():
    """Draw a figure and write a report."""
    sltr.plotting.plot_coef(MODEL).savefig("coef.png")
    page = sltr.report(MODEL, DATA.X, DATA.y, "report.html")
    assert page.stat().st_size > 10_000


def models():
    """Save a model and load it."""
    again = sltr.load(sltr.save(MODEL, "model.sltr"))
    assert np.array_equal(again.coef_, MODEL.coef_)


def neuro():
    """Read images."""
    if find_spec("nibabel"):
        import nibabel

        images = np.random.default_rng(0).normal(size=(4, 4, 4, 6)).astype("f4")
        nibabel.save(nibabel.Nifti1Image(images, np.eye(4)), "images.nii.gz")
    else:
        Path("images.nii.gz").touch()
    assert sltr.datasets.load_nifti("images.nii.gz").X.shape == (6, 4, 4, 4)


def video():
    """Read a film."""
    if find_spec("av"):
        import av

        with av.open("film.mp4", "w") as film:
            stream = film.add_stream("mpeg4", rate=10)
            stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
            for k in range(8):
                grey = np.full((32, 32, 3), 30 * k, dtype="u1")
                film.mux(stream.encode(av.VideoFrame.from_ndarray(grey)))
            film.mux(stream.encode())
    else:
        Path("film.mp4").touch()
    film = sltr.datasets.load_video("film.mp4", n_frames=4, size=(8, 8))
    assert film.shape[0] == 4


def eeg():
    """Read epochs."""
    if find_spec("mne"):
        import mne

        info = mne.create_info(["Fz", "Cz"], 100.0, "eeg")
        waves = np.random.default_rng(0).normal(size=(6, 2, 50)) * 1e-6
        epochs = mne.EpochsArray(waves, info, verbose="error")
        epochs.save("some-epo.fif", verbose="error")
    else:
        Path("some-epo.fif").touch()
    assert sltr.datasets.load_epochs("some-epo.fif").X.shape == (6, 2, 50)


def dask():
    """Read a Zarr store, and fit what is in Dask's chunks."""
    if find_spec("zarr"):
        import dask.array
        import zarr

        group = zarr.open_group("data.zarr", mode="w")
        for name in ("X", "y"):
            group.create_array(name, data=DATA[name])
        chunks = dask.array.from_array(DATA.X, chunks=(10, 5, 4, 3))
        again = sltr.SLTRRegressor().fit(chunks, DATA.y)
        assert np.allclose(again.coef_, MODEL.coef_)
    else:
        Path("data.zarr").mkdir()
    assert sltr.datasets.load_zarr("data.zarr").X.shape == DATA.X.shape


def gpu():
    """Fit tensors of PyTorch."""
    if not find_spec("torch"):
        msg = "sltr[gpu]"  # no public function needs it
        raise ImportError(msg)
    import torch

    again = sltr.SLTRRegressor().fit(torch.asarray(DATA.X), torch.asarray(DATA.y))
    assert np.allclose(np.asarray(again.coef_), MODEL.coef_)


# What each extra brings, to tell what is not installed from what does not work.
NEEDS = {
    cli: ("typer", "rich"),
    report: ("matplotlib", "jinja2"),
    models: ("safetensors",),
    neuro: ("nibabel",),
    video: ("av",),
    eeg: ("mne",),
    dask: ("dask", "zarr"),
    gpu: ("torch",),
}


def main(extra):
    """Use everything once."""
    assert MODEL.score(DATA.X, DATA.y) > 0
    for load in (
        sltr.datasets.load_sugar,
        sltr.datasets.load_battery,
        sltr.datasets.load_adrenal,
    ):
        assert len(load().y) > 100
    for use, packages in NEEDS.items():
        if use.__name__ == extra or all(map(find_spec, packages)):
            use()
            continue
        words = said_without(use)
        assert f"sltr[{use.__name__}]" in words, (use, packages, words)


def said_without(use):
    """Return the message of what is not installed."""
    try:
        use()
    except ImportError as error:
        return str(error)
    return "no error"


if __name__ == "__main__":
    main(sys.argv[1])
