"""Pictures as fields draw them, from models that know their data."""

import pickle
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("matplotlib")

import matplotlib.pyplot as plt

from sltr import SLTRClassifier, SLTRRegressor, TensorRidge
from sltr.datasets import label, load_nifti
from sltr.plotting import (
    animate_film,
    plot_brain,
    plot_coef,
    plot_factors,
    plot_film,
    plot_model,
    plot_overlay,
    plot_topographies,
)
from sltr.plotting.style import new_figure
from sltr.samples.labelled import LabelledArray, Labels


def texts(fig):
    return [text.get_text() for text in fig.findobj(plt.Text)]


@pytest.fixture
def brain(rng):
    nibabel = pytest.importorskip("nibabel")
    pytest.importorskip("nilearn")
    affine = np.diag([8.0, 8.0, 8.0, 1.0])
    affine[:3, 3] = [-40, -60, -30]
    scans = nibabel.Nifti1Image(rng.normal(size=(10, 12, 9, 40)), affine)
    data = load_nifti(scans)
    return data.X, np.asarray(data.X)[:, 2, 3, 4]


@pytest.mark.parametrize("kind", ["glass", "slices"])
def test_brains_are_drawn_by_nilearn(brain, kind):
    model = SLTRRegressor(lambda_sparse=0.9).fit(*brain)
    fig = plot_brain(model, kind=kind)
    assert {"L", "R", "coefficient"} <= set(texts(fig))
    empty = SLTRRegressor(1.0, 1.0, 1.0).fit(*brain)
    assert not empty.coef_.any()
    plot_brain(empty, kind=kind)  # warnings are errors here
    with pytest.raises(ValueError, match="expected 'glass' or 'slices'"):
        plot_brain(model, kind="sphere")


def test_a_brain_of_several_classes_shows_the_one_that_is_named(brain):
    X, y = brain
    labels = np.array(["a", "b", "c"])[np.digitize(y, [-0.5, 0.5])]
    model = SLTRClassifier().fit(X, labels)
    assert "class b" in texts(plot_model(model, target="b"))
    assert "class a" in texts(plot_model(model))


def test_a_brain_of_several_responses_shows_the_one_that_is_named(brain):
    X, y = brain
    model = TensorRidge().fit(X, np.stack([y, -y], axis=1))
    assert "response 1" in texts(plot_brain(model, target=1))


def test_space_points_up_and_is_measured_in_millimetres(brain):
    model = SLTRRegressor(lambda_sparse=0.9).fit(*brain)
    fig = plot_coef(model)
    assert {"x (mm)", "y (mm)"} <= set(texts(fig))
    ax = fig.axes[0]
    low, high = ax.get_ylim()
    assert low < high  # posterior below, anterior above
    assert ax.images[0].get_array().shape == (12, 10)


@pytest.fixture
def heads(rng):
    names = np.array(["Fz", "Cz", "Pz", "C3", "C4"])
    places = [[0, 0.06, 0.07], [0, 0, 0.1], [0, -0.06, 0.07]]
    places += [[-0.06, 0, 0.07], [0.06, 0, 0.07]]
    space = {"kind": "sensors", "positions": np.array(places), "types": ["eeg"] * 5}
    coords = (names, np.arange(20) / 100)
    labels = Labels(("channel", "time"), ("", "s"), coords, space=space)
    X = LabelledArray(rng.normal(size=(60, 5, 20)), labels)
    return SLTRRegressor().fit(X, np.asarray(X)[:, 3, 12])


def test_topographies_are_drawn_by_mne(heads):
    pytest.importorskip("mne")
    fig = plot_model(heads)
    assert "120 ms" in texts(fig)  # the strongest is among those shown
    chosen = plot_topographies(heads, times=[0.05, 0.12])
    assert [ax.get_title() for ax in chosen.axes[:2]] == ["50 ms", "120 ms"]
    with pytest.raises(ValueError, match=r"expected numbers from 0 to 0\.19"):
        plot_topographies(heads, times=[3.0])
    with pytest.raises(ValueError, match="expected one of eeg"):
        plot_topographies(heads, channel_type="mag")
    heads.space_["positions"] = np.full((5, 3), np.nan)
    with pytest.raises(ValueError, match=r"epochs\.set_montage"):
        plot_topographies(heads)


def test_named_channels_are_points_and_times_a_line(heads):
    channels, times = plot_factors(heads).axes
    assert {line.get_linestyle() for line in channels.lines[1:]} == {"None"}
    assert "None" not in {line.get_linestyle() for line in times.lines[1:]}
    assert [t.get_text() for t in channels.get_xticklabels()] == [
        *("Fz", "Cz", "Pz", "C3", "C4")
    ]


@pytest.fixture
def film():
    """Return a model whose coefficient is one pixel, right and above, at frame 2."""
    coef = np.zeros((4, 8, 6))
    coef[2, 6, 1] = 1.0
    return SimpleNamespace(
        coef_=coef,
        shape_in_=coef.shape,
        names_=("frame", "width", "height"),
        units_=("", "", ""),
        coords_=(None, None, None),
        space_={"kind": "film"},
    )


def test_films_are_upright_in_every_picture(film):
    sample = np.random.default_rng(0).random((4, 8, 6))
    pictures = [
        plot_film(film, frames=[2]).axes[0].images[0],
        plot_film(film, sample, frames=[2]).axes[0].images[1],
        plot_model(film).axes[2].images[0],
        plot_coef(film, slices={"frame": 2}).axes[0].images[0],
        plot_overlay(film, sample).axes[0].images[1],
    ]
    for picture in pictures:
        shown = np.asarray(picture.get_array())
        assert shown.shape == (6, 8)
        assert np.unravel_index(np.argmax(shown), shown.shape) == (1, 6)
        assert picture.origin == "upper"


@pytest.mark.parametrize("names", [("row", "column"), ("height", "width"), ("y", "x")])
def test_films_with_rows_first_are_upright_too(film, names):
    turned = SimpleNamespace(**vars(film) | {"names_": ("time", *names)})
    turned.coef_ = np.swapaxes(film.coef_, 1, 2)
    turned.shape_in_ = turned.coef_.shape
    for model in (turned, film):
        shown = np.asarray(plot_film(model, frames=[2]).axes[0].images[0].get_array())
        assert shown.shape == (6, 8)
        assert np.unravel_index(np.argmax(shown), shown.shape) == (1, 6)


def test_films_move(film, tmp_path):
    pytest.importorskip("PIL")
    animate_film(film, np.zeros((4, 8, 6))).save(tmp_path / "f.gif", "pillow", dpi=40)
    from PIL import Image

    with Image.open(tmp_path / "f.gif") as moving:
        assert moving.n_frames == 4


def test_bad_films_say_what_is_expected(film):
    with pytest.raises(ValueError, match="expected numbers from 0 to 3"):
        plot_film(film, frames=[9])
    with pytest.raises(ValueError, match=r"expected \(4, 8, 6\)"):
        plot_film(film, np.zeros((4, 6, 8)))
    with pytest.raises(ValueError, match="expected frames × width"):
        plot_film(np.zeros((4, 6)))


def test_what_knows_no_field_is_drawn_slice_by_slice(rng):
    X = label(rng.normal(size=(30, 4, 3)), ("row", "column"))
    fig = plot_model(SLTRRegressor().fit(X, np.asarray(X)[:, 0, 0]))
    assert {"row", "column"} <= set(texts(fig))
    with pytest.raises(ValueError, match="does not know where its channels are"):
        plot_topographies(SLTRRegressor().fit(X, np.asarray(X)[:, 0, 0]))


def test_jupyter_shows_a_figure_once(monkeypatch):
    shown = []
    for name in ("IPython", "IPython.core"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    tools, screen = ModuleType("tools"), ModuleType("screen")
    tools.print_figure = lambda fig, kind: b"PNG"
    screen.Image = lambda data, format: data
    screen.display = shown.append
    monkeypatch.setitem(sys.modules, "IPython.core.pylabtools", tools)
    monkeypatch.setitem(sys.modules, "IPython.display", screen)
    fig = new_figure(2, 2)
    assert plt.fignum_exists(fig.number)
    fig._ipython_display_()
    assert shown == [b"PNG"]
    assert not plt.fignum_exists(fig.number)  # the end of the cell has none to show
    assert pickle.loads(pickle.dumps(new_figure(2, 2))) is not None


def test_matplotlib_is_asked_for_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'sltr\[report\]'"):
        plot_coef(np.eye(3))
