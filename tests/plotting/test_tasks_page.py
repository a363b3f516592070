"""The guide's code that splits by groups and draws with coordinates runs."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.model_selection import StratifiedGroupKFold

import sltr

plt = pytest.importorskip("matplotlib.pyplot")
PAGE = Path(__file__).parents[2] / "docs" / "tasks.md"


def _code(title):
    section = PAGE.read_text(encoding="utf-8").split(f"## {title}\n")[1]
    return re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)[0]


@pytest.fixture
def samples():
    X = np.random.default_rng(0).standard_normal((40, 6, 5))
    return X, np.tile([0, 1], 20)


def test_films_are_left_out_whole(samples, monkeypatch):
    films = SimpleNamespace(X=samples[0], target=samples[1], groups=np.arange(40) // 4)
    monkeypatch.setattr(sltr.datasets, "load_video_folder", lambda *_, **__: films)
    names = {"sltr": sltr}
    exec(_code("Video"), names)
    assert isinstance(names["model"].cv, StratifiedGroupKFold)


def test_eeg_is_drawn_over_channels_and_times(samples, monkeypatch, tmp_path):
    pytest.importorskip("jinja2")
    monkeypatch.chdir(tmp_path)
    names = {"sltr": sltr, "X": samples[0], "y": samples[1], "channels": list("abcdef")}
    exec(_code("EEG"), {**names, "times": 2.0 * np.arange(5)})
    ticks = plt.figure(1).axes[0].get_yticklabels()
    assert [t.get_text() for t in ticks] == list("abcdef")
    assert (tmp_path / "report.html").exists()


def test_spectra_are_drawn_over_wavelengths(samples):
    names = {"sltr": sltr, "X": samples[0], "concentration": samples[0][:, 0, 0]}
    names |= {"emission_nm": 300 + np.arange(6), "excitation_nm": 200 + np.arange(5)}
    exec(_code("Spectra"), names)
    first, second = plt.figure(1), plt.figure(2)
    assert first.axes[0].get_ylabel() == "singular value / largest"
    assert second.axes[1].get_xticklabels()[0].get_text() == "200"
