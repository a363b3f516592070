"""Figures: what is drawn equals what was given, for every order and input."""

import base64
import pickle
import re
import struct
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV

from sltr import plotting
from sltr.models.selection import cv_table
from sltr.plotting.candidates import chosen_candidate, cv_surface
from sltr.plotting.modes import Modes
from sltr.plotting.structure import mode_weights
from sltr.thumbnail import coef_array, projection

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def _images(fig):
    return [ax.images[0] for ax in fig.axes if ax.images and ax.get_visible()]


def _text(fig):
    fig.draw_without_rendering()
    parts = [t.get_text() for ax in fig.axes for t in (ax.title, ax.xaxis.label)]
    parts += [ax.get_ylabel() for ax in fig.axes]
    return " ".join([*parts, fig.get_supxlabel(), fig.get_supylabel()])


@pytest.mark.parametrize(
    ("shape", "n_images"), [((6, 9), 1), ((6, 9, 4), 4), ((6, 9, 3, 2), 6)]
)
def test_montage_shows_every_slice_on_one_scale(rng, shape, n_images):
    coef = rng.standard_normal(shape)
    pictures = _images(plotting.plot_coef(coef))
    drawn = np.stack([p.get_array() for p in pictures], axis=-1)
    assert len(pictures) == n_images
    assert np.array_equal(drawn, coef.reshape(6, 9, -1))
    limit = np.abs(coef).max()
    assert all(p.get_clim() == (-limit, limit) for p in pictures)


def test_order_five_fixes_the_rest_at_the_strongest_slice(rng):
    coef = rng.standard_normal((5, 6, 2, 2, 4))
    coef[..., 3] *= 10
    fig = plotting.plot_coef(coef)
    assert np.array_equal(_images(fig)[1].get_array(), coef[:, :, 0, 1, 3])
    assert fig.get_suptitle() == "at mode 4: 3"


@pytest.mark.parametrize("size", [5, 100])
def test_order_one_is_a_line(rng, size):
    coef = rng.standard_normal(size)
    ax = plotting.plot_coef(coef).axes[0]
    assert any(np.array_equal(line.get_ydata(), coef) for line in ax.lines)


def test_slices_rows_and_names_are_the_users(rng):
    coef = rng.standard_normal((4, 7, 9))
    names, units = ("channel", "time", "trial"), (None, "ms", None)
    fig = plotting.plot_coef(
        coef,
        show=("time", "channel"),
        slices={"trial": [2, -1]},
        mode_names=names,
        units=units,
        label="weight (µV⁻¹)",
    )
    drawn = [p.get_array() for p in _images(fig)]
    assert np.array_equal(drawn[0], coef[:, :, 2].T)
    assert np.array_equal(drawn[1], coef[:, :, 8].T)
    for word in ("time (ms)", "channel", "trial 2", "trial 8", "weight (µV⁻¹)"):
        assert word in _text(fig)


def test_montage_without_choice_contains_the_strongest_slice():
    coef = np.zeros((30, 30, 25))
    coef[3, 3, 7] = 1.0
    assert max(p.get_array().max() for p in _images(plotting.plot_coef(coef))) == 1.0


def test_a_zero_coefficient_can_be_drawn():
    for shape in [(3,), (3, 4), (3, 4, 2)]:
        plotting.plot_coef(np.zeros(shape)).draw_without_rendering()
    plotting.plot_spectrum(np.zeros((3, 4))).figure.draw_without_rendering()
    plotting.plot_factors(np.zeros((3, 4))).draw_without_rendering()
    plotting.plot_mode_importance(np.zeros((3, 4))).draw_without_rendering()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode_names": ("a",)}, "expected one for each of 3"),
        ({"units": "mm"}, "expected one for each of 3"),
        ({"show": (0, 0)}, "expected two different modes"),
        ({"show": 1}, "expected two different modes"),
        ({"show": (0,)}, r"show=\(0,\) was given; expected two different modes"),
        ({"show": (0, 1, 2)}, "expected two different modes"),
        ({"max_slices": 0}, "max_slices=0 was given; expected a whole number above 0"),
        ({"show": ("x", 1)}, "mode 'x' was given"),
        ({"slices": {2: [9]}}, "expected whole numbers below 4"),
        ({"slices": {2: [0.5]}}, "expected whole numbers below 4"),
        ({"slices": {5: [0]}}, "mode 5 was given"),
    ],
)
def test_bad_options_are_explained(options, message):
    with pytest.raises(ValueError, match=message):
        plotting.plot_coef(np.ones((2, 3, 4)), **options)


@pytest.mark.parametrize("bad", [np.float64(3.0), np.zeros((0, 2)), np.array([np.nan])])
def test_bad_coefficients_are_explained(bad):
    with pytest.raises(ValueError, match="expected"):
        plotting.plot_coef(bad)


@pytest.mark.parametrize(
    "draw",
    [
        plotting.plot_coef,
        plotting.plot_spectrum,
        plotting.plot_factors,
        plotting.plot_mode_importance,
        lambda model: plotting.plot_overlay(model, np.ones((2, 3))),
    ],
)
def test_unfitted_models_are_told_to_be_fitted(draw):
    with pytest.raises(ValueError, match=r"Ridge has no coef_; .* Call fit first"):
        draw(Ridge())


def test_models_and_torch_arrays_are_read():
    torch = pytest.importorskip("torch")
    coef = np.arange(6.0).reshape(2, 3)
    model = SimpleNamespace(coef_=torch.asarray(coef), shape_in_=(2, 3))
    assert np.array_equal(coef_array(model), coef)
    many = SimpleNamespace(coef_=np.stack([coef, -coef]), shape_in_=(2, 3))
    assert np.array_equal(coef_array(many, target=1), -coef)


def test_overlay_hides_small_coefficients(rng):
    coef, sample = np.zeros((5, 6, 3)), rng.standard_normal((5, 6, 3))
    coef[1, 2, 1], coef[0, 0, 1] = 2.0, 0.1
    ax = plotting.plot_overlay(coef, sample, threshold=0.2).axes[0]
    under, over = ax.images
    assert np.array_equal(under.get_array(), sample[:, :, 1])
    assert np.flatnonzero(over.get_alpha()).tolist() == [1 * 6 + 2]
    with pytest.raises(ValueError, match="expected the same shape"):
        plotting.plot_overlay(coef, sample[0])


def test_spectrum_and_factors_agree_with_the_planted_ones(rng):
    u, v = np.linalg.qr(rng.standard_normal((6, 2)))[0], np.eye(5)[:, :2]
    coef = u @ np.diag([4.0, -1.0]) @ v.T
    lines = plotting.plot_spectrum(coef).lines
    assert np.allclose(lines[0].get_ydata()[:2], [1.0, 0.25])
    fig = plotting.plot_factors(coef, mode_names=("row", "column"))
    first = fig.axes[0].lines[1].get_ydata()
    assert np.isclose(abs(first @ u[:, 0]), 1.0)
    assert first[np.argmax(np.abs(first))] > 0


def test_mode_importance_sums_to_one(rng):
    coef = rng.standard_normal((3, 4, 2))
    for mode, share in enumerate(mode_weights(coef)):
        slices = np.moveaxis(coef, mode, 0)
        assert np.isclose(share.sum(), 1.0)
        assert np.isclose(share[1], np.sum(slices[1] ** 2) / np.sum(coef**2))
    axes = plotting.plot_mode_importance(coef).axes
    assert [len(ax.patches) for ax in axes] == [3, 4, 2]


def _tuned(chosen):
    grid = [
        (e, a, b, r)
        for e in (0.1, 1.0)
        for a in (0.0, 0.5, 0.1)
        for b in (0.2, 0.7)
        for r in (None, "scale")
    ]
    names = ("epsilon", "lambda_sparse", "lambda_low", "refine")
    columns = dict(zip(names, map(list, zip(*grid, strict=True)), strict=True))
    scores = np.random.default_rng(0).standard_normal((3, len(grid)))
    best = dict(zip((f"{n}_" for n in names), grid[chosen], strict=True))
    model = SimpleNamespace(cv_results_=cv_table(columns, scores), **best)
    return model, grid, scores


@pytest.mark.parametrize("chosen", [0, 9, 23])
def test_surface_holds_the_scores_at_the_chosen_epsilon_and_refinement(chosen):
    model, grid, scores = _tuned(chosen)
    surface = cv_surface(model)
    assert chosen_candidate(model) == chosen
    assert (surface.x, surface.y) == ([0.0, 0.1, 0.5], [0.2, 0.7])
    for g, (epsilon, sparse, low, refine) in enumerate(grid):
        if (epsilon, refine) == (grid[chosen][0], grid[chosen][3]):
            place = surface.y.index(low), surface.x.index(sparse)
            assert surface.score[place] == scores[:, g].mean()
            assert np.isclose(
                surface.error[place], scores[:, g].std(ddof=1) / np.sqrt(3)
            )
    row, column = surface.chosen
    assert (surface.x[column], surface.y[row]) == grid[chosen][1:3]
    assert set(surface.fixed) == {"epsilon", "refine"}
    star = plotting.plot_cv_surface(model).lines[-1]
    assert (star.get_xdata()[0], star.get_ydata()[0]) == (column, row)


def test_surface_of_other_searches(rng):
    X, y = rng.standard_normal((20, 3)), rng.standard_normal(20)
    search = GridSearchCV(Ridge(), {"alpha": [0.1, 1.0, 10.0]}, cv=3).fit(X, y)
    surface = cv_surface(search)
    assert surface.x_name == "alpha"
    assert not surface.y_name
    assert surface.chosen == (0, search.best_index_)
    assert len(plotting.plot_cv_surface(search, label="R²").containers) == 1
    two = cv_table({"rank": [1, 2], "kind": ["a", "b"]}, np.array([[0.1, 0.2]]))
    assert np.isnan(cv_surface(two).score).sum() == 2
    plotting.plot_cv_surface(two).figure.draw_without_rendering()


def test_surface_needs_results():
    with pytest.raises(ValueError, match="expected a fitted model with cv_results_"):
        plotting.plot_cv_surface(Ridge())
    with pytest.raises(ValueError, match="'beta' was given; expected one of"):
        plotting.plot_cv_surface(_tuned(0)[0], x="beta")


def test_equal_nans_are_one_level_after_a_round_trip():
    columns = {
        "refine": [None, None, "cp", "cp"],
        "lambda_sparse": [0.1, 0.2, 0.1, 0.1],
        "ridge": [float("nan"), float("nan"), 0.1, 0.3],
    }
    results = cv_table(columns, np.array([[0.1, 0.9, 0.2, 0.3]]))
    # Reading a file makes a NaN of its own in every place.
    again = {**results, "params": [dict(row) for row in results["params"]]}
    for row in again["params"]:
        row["ridge"] = float(str(row["ridge"]))
    for stored in (results, pickle.loads(pickle.dumps(results)), again):
        surface = cv_surface(SimpleNamespace(cv_results_=stored))
        assert (surface.x_name, surface.x) == ("lambda_sparse", [0.1, 0.2])
        assert surface.score.tolist() == [[0.1, 0.9]]
        assert "ridge" not in surface.fixed


def test_fixed_values_choose_what_is_drawn():
    model, grid, scores = _tuned(0)
    surface = cv_surface(model, fixed={"refine": "scale", "epsilon": 1.0})
    assert surface.fixed == {"epsilon": 1.0, "refine": "scale"}
    assert surface.chosen is None
    place = surface.y.index(0.7), surface.x.index(0.5)
    assert (
        surface.score[place] == scores[:, grid.index((1.0, 0.5, 0.7, "scale"))].mean()
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"fixed": {"refine": "nope"}},
            r"fixed\['refine'\]='nope' was given; expected",
        ),
        ({"fixed": {"alpha": 1}}, "expected a name that candidates have"),
        ({"x": "epsilon", "fixed": {"epsilon": 1.0}}, "expected no values of the axes"),
    ],
)
def test_bad_fixed_values_are_explained(options, message):
    with pytest.raises(ValueError, match=message):
        plotting.plot_cv_surface(_tuned(0)[0], **options)


def test_path_draws_counts_and_ranks_in_ascending_order():
    coefs = np.stack([np.zeros((3, 3)), np.eye(3), np.diag([1.0, 0, 0])])
    axes = plotting.plot_path([3.0, 1.0, 2.0], coefs, chosen=2.0).axes
    assert axes[1].lines[0].get_xdata().tolist() == [1.0, 2.0, 3.0]
    assert axes[1].lines[0].get_ydata().tolist() == [3, 1, 0]
    assert axes[2].lines[1].get_ydata().tolist() == [3, 1, 0]
    with pytest.raises(ValueError, match=r"expected \(G,\) and"):
        plotting.plot_path([1.0], coefs)


def test_convergence_reads_histories_and_last_values():
    model = SimpleNamespace(objective_path_=[5.0, 3.0, 2.0], tol=1e-3, n_iter_=3)
    ax = plotting.plot_convergence(model)
    assert ax.lines[0].get_ydata().tolist() == [3.0, 1.0]
    assert len(ax.lines) == 1, "the tolerance bounds no objective"
    gaps = plotting.plot_convergence(SimpleNamespace(dual_gap_=0.1, tol=1e-3))
    assert gaps.lines[1].get_ydata()[0] == 1e-3
    last = SimpleNamespace(dual_gap_=np.float32(0.25), n_iter_=np.array([4, 9]))
    line = plotting.plot_convergence(last).lines[0]
    assert (line.get_xdata()[0], line.get_ydata()[0]) == (9, 0.25)
    plotting.plot_convergence([0.0]).figure.draw_without_rendering()
    with pytest.raises(ValueError, match="expected a history"):
        plotting.plot_convergence(Ridge())


def test_predictions_and_roc_refuse_unequal_lengths():
    with pytest.raises(ValueError, match="3 responses and 2 predictions"):
        plotting.plot_predictions([1, 2, 3], [1, 2])
    with pytest.raises(ValueError, match="expected two classes"):
        plotting.plot_roc([0, 1, 2], [1.0, 2.0, 3.0])


def test_roc_of_a_perfect_and_a_reversed_score():
    for positive, area in ((None, "1.000"), ("a", "0.000")):
        ax = plotting.plot_roc(["a", "a", "b"], [0.0, 0.1, 0.9], positive=positive)
        assert area in ax.get_legend().get_texts()[0].get_text()


def test_given_axes_are_used(rng):
    fig, axes = plt.subplots(1, 4)
    y = rng.standard_normal(9)
    assert plotting.plot_predictions(y, y, null=0.0, ax=axes[0]) is axes[0]
    assert plotting.plot_roc(y > 0, y, ax=axes[1]) is axes[1]
    assert plotting.plot_spectrum(np.eye(3), ax=axes[2]) is axes[2]
    assert plotting.plot_convergence([1.0, 0.1], ax=axes[3]) is axes[3]
    assert plt.get_fignums() == [fig.number]


def _pixels(uri):
    png = base64.b64decode(uri.split(",", 1)[1])
    width, height = struct.unpack(">II", png[16:24])
    length = struct.unpack(">I", png[33:37])[0]
    rows = np.frombuffer(zlib.decompress(png[41 : 41 + length]), np.uint8)
    return rows.reshape(height, 1 + 3 * width)[:, 1:].reshape(height, width, 3)


def test_thumbnail_is_red_above_and_blue_below_zero():
    pixels = _pixels(plotting.coef_thumbnail(np.diag([2.0, -2.0]), size=20)).astype(int)
    assert pixels.shape == (20, 20, 3)
    assert pixels[0, 0, 0] > pixels[0, 0, 2]
    assert pixels[-1, -1, 0] < pixels[-1, -1, 2]
    assert np.ptp(pixels[0, -1]) == 0


@pytest.mark.parametrize("shape", [(7,), (1, 300), (4, 5, 6, 2)])
def test_thumbnail_of_any_order_can_be_read_by_matplotlib(rng, tmp_path, shape):
    uri = plotting.coef_thumbnail(rng.standard_normal(shape))
    path = tmp_path / "thumbnail.png"
    path.write_bytes(base64.b64decode(uri.split(",", 1)[1]))
    assert np.array_equal(
        np.round(plt.imread(path) * 255).astype(np.uint8), _pixels(uri)
    )


def test_projection_keeps_the_largest_magnitude(rng):
    coef = rng.standard_normal((2, 5, 6, 3))
    flat = projection(coef)
    assert np.array_equal(np.abs(flat), np.abs(coef).max(axis=(0, 3)))
    assert np.isin(flat, coef).all()


def test_every_plot_is_in_the_reference():
    page = Path(__file__).parents[2] / "docs" / "api.md"
    names = set(re.findall(r"\w+", page.read_text(encoding="utf-8")))
    assert set(plotting.__all__) - names == set()


def test_modes_are_found_by_name_and_number():
    modes = Modes.of(2, ("a", "b"))
    assert [modes.index(m) for m in ("a", "b", 0, -1)] == [0, 1, 0, 1]
