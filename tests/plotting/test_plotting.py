"""Figures: what is drawn equals what was given, for every order and input."""

import base64
import pickle
import re
import struct
import zlib
from itertools import pairwise, product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV

from sltr import SLTRClassifier, SLTRRegressor, SLTRRegressorCV, plotting, sltr_path
from sltr.coefficients import coef_array, coef_thumbnail, projection
from sltr.datasets import label
from sltr.plotting.modes import Modes
from sltr.plotting.structure import mode_weights
from sltr.plotting.tuning import chosen_candidate, cv_surface
from sltr.tuning.choose import cv_table

plt = pytest.importorskip("matplotlib.pyplot")


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
    for word in ("time", "channel", "trial 2", "trial 8", "weight (µV⁻¹)"):
        assert word in _text(fig)
    assert "(ms)" not in _text(fig)  # these are indices


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
        ({"coords": {"time": [1, 2]}}, "mode 'time' was given"),
        ({"coords": {1: [1, 2]}}, r"mode 1 of shape \(2,\) .* each of its 3 slices"),
        ({"coords": {1: np.ones((3, 1))}}, "each of its 3 slices"),
        ({"coords": [[1, 2], [1, 2, 3]]}, "an array or None for each of 3 modes"),
        ({"coords": 5.0}, "an array or None for each of 3 modes"),
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
        coef_thumbnail,
    ],
)
def test_unfitted_models_are_told_to_be_fitted(draw):
    with pytest.raises(NotFittedError, match=r"Ridge has no coef_; .* Call fit first"):
        draw(Ridge())


def test_models_and_torch_arrays_are_read():
    torch = pytest.importorskip("torch")
    coef = np.arange(6.0).reshape(2, 3)
    model = SimpleNamespace(coef_=torch.asarray(coef), shape_in_=(2, 3))
    assert np.array_equal(coef_array(model), coef)
    many = SimpleNamespace(coef_=np.stack([coef, -coef]), shape_in_=(2, 3))
    assert np.array_equal(coef_array(many, target=1), -coef)


def _three_classes():
    coefs = np.stack([np.full((2, 3), k + 1.0) for k in range(3)])
    classes = np.array(["cat", "dog", "owl"])
    return SimpleNamespace(coef_=coefs, shape_in_=(2, 3), classes_=classes)


@pytest.mark.parametrize(
    ("target", "name", "value"),
    [(None, "cat", 1.0), ("owl", "owl", 3.0), (1, "dog", 2.0), (-1, "owl", 3.0)],
)
def test_the_class_drawn_is_found_and_named(target, name, value):
    model = _three_classes()
    fig = plotting.plot_coef(model, target=target)
    assert np.all(_images(fig)[0].get_array() == value)
    assert fig.get_suptitle() == f"class {name}"
    for draw in (plotting.plot_factors, plotting.plot_mode_importance):
        assert draw(model, target=target).get_suptitle() == f"class {name}"
    overlay = plotting.plot_overlay(model, np.ones((2, 3)), target=target)
    spectrum = plotting.plot_spectrum(model, target=target)
    for ax in (overlay.axes[0], spectrum):
        assert ax.get_title() == f"class {name}"


def test_labels_go_before_places():
    model = _three_classes()
    model.classes_ = np.array([1, 2, 8])
    assert coef_array(model, 1).max() == 1.0
    assert coef_array(model, 0).max() == 1.0
    assert coef_array(model, 8).max() == 3.0


@pytest.mark.parametrize("target", ["cow", 5, 1.5, True])
def test_unknown_classes_are_explained(target):
    with pytest.raises(ValueError, match="expected one of cat, dog, owl, or a place"):
        plotting.plot_coef(_three_classes(), target=target)


def test_a_single_coefficient_takes_no_target():
    two = SimpleNamespace(coef_=np.ones((2, 3)), shape_in_=(2, 3), classes_=[0, 1])
    for given in (two, two.coef_):
        with pytest.raises(ValueError, match="target=7 was given; expected none"):
            plotting.plot_coef(given, target=7)
        assert plotting.plot_coef(given).get_suptitle() == ""


def _labels(axis):
    axis.figure.draw_without_rendering()
    places = axis.get_ticklocs()
    return dict(zip([t.get_text() for t in axis.get_ticklabels()], places, strict=True))


NAMES, UNITS = ("channel", "time", "trial"), (None, "ms", None)


def test_ticks_are_coordinates(rng):
    coef = rng.standard_normal((4, 51))
    times = np.linspace(-100, 400, 51)  # steps of 10
    coords = {"channel": ["Fz", "Cz", "Pz", "Oz"], 1: times}
    common = {"mode_names": NAMES[:2], "units": UNITS[:2], "coords": coords}
    image = plotting.plot_coef(coef, **common).axes[0]
    lines = plotting.plot_factors(coef, **common).axes
    bars = plotting.plot_mode_importance(coef, **common).axes
    overlay = plotting.plot_overlay(coef, coef, **common).axes[0]
    for axis in (image.yaxis, lines[0].xaxis, bars[0].xaxis, overlay.yaxis):
        assert _labels(axis) == {"Fz": 0, "Cz": 1, "Pz": 2, "Oz": 3}
    for axis in (image.xaxis, lines[1].xaxis, bars[1].xaxis, overlay.xaxis):
        found = _labels(axis)
        assert {"−100", "0", "100", "200"} <= set(found)
        assert np.isclose(found["200"], 30)
    line = plotting.plot_coef(coef[0], coords=[times]).axes[0]
    assert np.isclose(_labels(line.xaxis)["0"], 10)


def test_falling_uneven_and_few_coordinates_are_those_of_slices():
    falling = plotting.plot_coef(np.ones(41), coords=[np.linspace(40, 0, 41)]).axes[0]
    assert np.isclose(_labels(falling.xaxis)["10"], 30)
    uneven = np.cumsum(np.arange(41))
    found = _labels(plotting.plot_coef(np.ones(41), coords=[uneven]).axes[0].xaxis)
    assert all(uneven[int(place)] == int(text) for text, place in found.items())
    few = plotting.plot_coef(np.ones((4, 3)), coords=(None, [230, 240, 290])).axes[0]
    assert _labels(few.xaxis) == {"230": 0, "240": 1, "290": 2}


def test_slices_are_titled_by_coordinates(rng):
    coef = rng.standard_normal((6, 7, 3))
    fig = plotting.plot_coef(
        coef,
        mode_names=("x", "y", "time"),
        units=("mm", "mm", "s"),
        coords={"time": [0.0, 2.5, 5.0], "y": np.arange(7) * 3},
    )
    assert [ax.get_title() for ax in fig.axes[:3]] == [
        "time 0 s",
        "time 2.5 s",
        "time 5 s",
    ]
    assert set(_labels(fig.axes[0].yaxis)) == {"0", "10"}  # y is up
    plain = plotting.plot_coef(coef, coords=[None, None, ["a", "b", "c"]])
    assert plain.axes[1].get_title() == "mode 2: b"


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


def test_modes_of_equal_spectra_share_a_line(rng):
    ax = plotting.plot_spectrum(rng.standard_normal((6, 5)), mode_names=("a", "b"))
    assert [line.get_label() for line in ax.lines] == ["a, b: rank 5 of 5"]
    assert len(plotting.plot_spectrum(rng.standard_normal((6, 5, 4))).lines) == 3


def test_spectrum_reaches_no_further_down_than_its_values():
    for values, low in (([1.0, 0.2, 0.01, 0.0], 0.005), ([1.0, 0.9, 0.8], 0.4)):
        ax = plotting.plot_spectrum(np.diag(values))
        assert np.allclose(ax.lines[0].get_ydata(), [v for v in values if v])
        assert low < ax.get_ylim()[0] < min(v for v in values if v)


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


@pytest.mark.parametrize("width", [3.0, 5.0])
def test_titles_of_surfaces_stay_on_the_figure(width):
    names = ("first_radius", "second_radius", "epsilon", "refinement", "rank", "ridge")
    levels = ([1, 2], [1, 2], [0.123, 1.0], ["cp", "tucker"], [(1, 1, 1), 2], [0.03, 1])
    params = [dict(zip(names, row, strict=True)) for row in product(*levels)]
    results = {"params": params, "mean_test_score": -np.arange(64.0)}
    shown = {"x": "first_radius", "y": "second_radius"}
    for options in (shown, {"x": "ridge", "fixed": {"second_radius": 1}}):
        fig = plt.figure(figsize=(width, 3), layout="constrained")
        ax = plotting.plot_cv_surface(results, **options, ax=fig.add_subplot())
        fig.draw_without_rendering()
        box = ax.title.get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= fig.bbox.width


def test_surface_shows_candidates_of_one_refinement():
    radii = [("scale", a, b) for a in (0.0, 0.3, 1.0) for b in (0.0, 1.0)]
    rows = [*radii, *(("sparse", a, 0.0) for a in np.linspace(0.05, 0.9, 9))]
    names = ("refine", "lambda_sparse", "lambda_low")
    params = [dict(zip(names, row, strict=True)) for row in rows]
    results = {"params": params, "mean_test_score": -np.arange(15.0)}
    surface = cv_surface(results)
    assert (surface.x_name, surface.y_name) == ("lambda_sparse", "lambda_low")
    assert surface.x == [0.0, 0.3, 1.0]


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
    with pytest.raises(ValueError, match="Several coefficients for the value 1 were"):
        plotting.plot_path([1.0, 2.0, 1.0], coefs)
    with pytest.raises(ValueError, match="expected values and coefs, or a path"):
        plotting.plot_path([1.0, 2.0])


@pytest.fixture(scope="module")
def grid_path():
    X = np.random.default_rng(0).standard_normal((50, 5, 4))
    grid = {"epsilons": [0.5, 2.0], "lambdas_sparse": [0.0, 0.4, 0.9]}
    return sltr_path(X, X[:, 0, 0] - X[:, 1, 1], lambdas_low=[0.1, 0.3, 1.0], **grid)


@pytest.mark.parametrize(
    ("along", "fixed", "values", "at"),
    [
        (None, None, [0.0, 0.4, 0.9], {"lambda_low": 0.3, "epsilon": 0.5}),
        ("lambda_low", {"epsilon": 2.0}, [0.1, 0.3, 1], {"lambda_sparse": 0.4}),
        (None, {"lambda_sparse": 0.9}, [0.1, 0.3, 1], {"epsilon": 0.5}),
        ("epsilon", {"lambda_low": 1.0}, [0.5, 2.0], {"lambda_sparse": 0.4}),
    ],
)
def test_path_of_a_grid_goes_along_one_hyper_parameter(
    grid_path, along, fixed, values, at
):
    at = {**(fixed or {}), **at}
    keep = np.all([getattr(grid_path, n) == v for n, v in at.items()], axis=0)
    axes = plotting.plot_path(grid_path, along=along, fixed=fixed).axes
    assert axes[1].lines[0].get_xdata().tolist() == values
    counts = np.count_nonzero(grid_path.coef[keep], axis=(1, 2))
    assert axes[1].lines[0].get_ydata().tolist() == counts.tolist()
    assert all(f"{n} = {v:.3g}" in axes[0].get_title() for n, v in at.items())
    assert axes[2].get_xlabel() not in at


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"along": "alpha"}, "expected one of lambda_sparse, lambda_low, epsilon"),
        ({"along": "epsilon", "fixed": {"epsilon": 1.0}}, "values of others"),
        ({"fixed": {"lambda_low": 0.2}}, "expected one of 0.1, 0.3, 1"),
    ],
)
def test_bad_paths_are_explained(grid_path, options, message):
    with pytest.raises(ValueError, match=message):
        plotting.plot_path(grid_path, **options)


def test_convergence_reads_histories():
    model = SimpleNamespace(objective_path_=[5.0, 3.0, 2.0], tol=1e-3, n_iter_=3)
    ax = plotting.plot_convergence(model)
    assert ax.lines[0].get_ydata().tolist() == [3.0, 1.0]
    assert len(ax.lines) == 1, "the tolerance bounds no objective"
    ax = plotting.plot_convergence([1.0, 0.1, 0.0], tol=1e-3)
    assert ax.lines[1].get_ydata()[0] == 1e-3
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
    with pytest.raises(ValueError, match="positive='yes' was given; expected 0 or 1"):
        plotting.plot_roc([0, 1, 1], [0.0, 0.1, 0.9], positive="yes")


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
    modes = Modes.of((3, 4), ("a", "b"))
    assert [modes.index(m) for m in ("a", "b", 0, -1)] == [0, 1, 0, 1]


def test_a_single_gap_is_no_line(rng):
    last = SimpleNamespace(dual_gap_=np.float32(0.25), n_iter_=np.array([4, 9]))
    with pytest.raises(ValueError, match=r"gap of 0\.25 after 9 iterations"):
        plotting.plot_convergence(last)
    X = rng.standard_normal((60, 5, 4))
    for model in (SLTRRegressorCV(), SLTRRegressor(refine=("cp", 1, 0.1))):
        with pytest.raises(ValueError, match="gap of 0 after"):
            plotting.plot_convergence(model.fit(X, X[:, 0, 0]))


@pytest.mark.parametrize("coupling", ["average", "joint"])
@pytest.mark.parametrize("masked", [False, True])
def test_the_gap_of_a_model_falls_to_its_own(rng, coupling, masked):
    X = rng.standard_normal((40, 6, 5, 4))
    settings = {"lambda_sparse": 0.3, "lambda_low": 0.2, "coupling": coupling}
    if masked:
        settings["mask"] = np.ones((6, 5, 4), bool)
        settings["mask"][4:, :2] = settings["mask"][:, :, 3] = False
    model = SLTRRegressor(**settings, tol=1e-6).fit(X, X[:, 0, 0, 0])
    assert model.n_iter_ > 10
    line = plotting.plot_convergence(model).lines[0]
    iterations, gaps = line.get_xdata(), line.get_ydata()
    assert len(iterations) >= 5
    assert iterations[-1] == model.n_iter_
    assert gaps[-1] == pytest.approx(model.dual_gap_, rel=1e-3)
    assert gaps[0] > 10 * gaps[-1]


def test_a_path_has_enough_points_for_a_line(rng):
    X = rng.standard_normal((40, 5, 4))
    fig = plotting.plot_path(sltr_path(X, X[:, 0, 0], epsilons=[1.0]))
    assert fig.axes[0].lines[0].get_xdata().size >= 10


@pytest.mark.parametrize("shape", [(40,), (6, 5), (6, 5, 4), (3, 4, 3, 2)])
def test_nothing_is_drawn_outside_a_mask(rng, shape):
    X, mask = rng.normal(size=(30, *shape)), rng.random(shape) < 0.6
    model = SLTRRegressor(mask=mask).fit(X, X[:, mask].sum(axis=1))
    fig = plotting.plot_coef(model, max_slices=24)
    if len(shape) == 1:
        drawn = np.isfinite(fig.axes[0].lines[-1].get_ydata())
        np.testing.assert_array_equal(drawn, mask)
        return
    drawn = [np.ma.getmaskarray(image.get_array()) for image in _images(fig)]
    assert sum(picture.sum() for picture in drawn) == (~mask).sum()
    outside = _images(fig)[0].cmap(np.ma.masked_all(1))[0]
    zero = _images(fig)[0].cmap(0.5)
    assert np.abs(np.subtract(outside, zero)).max() > 0.1
    for weights, axis in zip(mode_weights(model.coef_), range(len(shape)), strict=True):
        empty = ~np.moveaxis(mask, axis, 0).reshape(shape[axis], -1).any(axis=1)
        assert not np.asarray(weights)[empty].any()


def test_slices_that_lie_outside_a_mask_are_not_chosen(rng):
    X, mask = rng.normal(size=(30, 6, 5, 4)), np.zeros((6, 5, 4), bool)
    mask[:, :, 1:3] = True
    model = SLTRRegressor(mask=mask).fit(X, X[:, 0, 0, 1])
    fig = plotting.plot_coef(model)
    assert [ax.get_title() for ax in fig.axes[:2]] == ["mode 2: 1", "mode 2: 2"]
    assert len(_images(fig)) == 2


@pytest.mark.parametrize("shape", [(20, 50), (30, 60, 2)])
def test_names_of_rows_do_not_lie_on_each_other(rng, shape):
    names = [f"Ch{k}" for k in range(shape[0])]
    fig = plotting.plot_coef(rng.normal(size=shape), coords={0: names})
    fig.draw_without_rendering()
    boxes = [t.get_window_extent() for t in fig.axes[0].get_yticklabels()]
    assert len(boxes) == shape[0]
    heights = sorted((box.y0, box.y1) for box in boxes)
    assert all(a[1] <= b[0] + 2 for a, b in pairwise(heights))


@pytest.mark.parametrize("name", ["$\\frac{$", "$x", "US$ and CA$", "a\x1b[2J"])
def test_names_are_no_formulas(rng, name):
    X = rng.normal(size=(30, 3, 4))
    coords = {0: [f"{name}{k}" for k in range(3)]}
    X = label(X, (name, "$time$"), coords=coords, units=("", "$"))
    classes = np.array([name, "b", "c"])[np.arange(30) % 3]
    model = SLTRClassifier(1.0).fit(X, classes)
    shown = name.replace("\x1b", "\\x1b").replace("$", r"\$")
    for draw in (plotting.plot_coef, plotting.plot_mode_importance):
        drawn = draw(model, target=name)
        fig = getattr(drawn, "figure", drawn)
        fig.canvas.draw()
        assert any(text.startswith(shown) for text in texts_of(fig))
        assert any(f"class {shown}" in text for text in texts_of(fig))
        plt.close(fig)
    plotting.plot_spectrum(model, target=name).figure.canvas.draw()


def texts_of(fig):
    return [text.get_text() for text in fig.findobj(plt.Text)]
