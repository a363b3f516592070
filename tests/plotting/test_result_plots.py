import numpy as np
import pytest

from sltr.plotting import Panel, plot_heat_maps, plot_results


def test_numbers_make_lines_with_errors():
    series = {"a": [(1.0, 0.1), (2.0, 0.2)], "b": [None, (3.0, 0.0)]}
    fig = plot_results([Panel("t", "mse", series)], [10, 20], place_label="n")
    (ax,) = fig.axes
    lines = [container.lines[0].get_xydata().tolist() for container in ax.containers]
    assert lines == [[[10.0, 1.0], [20.0, 2.0]], [[20.0, 3.0]]]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("n", "mse")


def test_names_make_rows_from_the_top_that_do_not_overlap():
    series = {"a": [(1.0, 0.0), (2.0, 0.0)], "b": [(1.0, 0.0), None]}
    fig = plot_results([Panel("t", "mse", series)], ["first", "second"])
    (ax,) = fig.axes
    bottom, top = ax.get_ylim()
    assert bottom > top
    heights = [c.lines[0].get_ydata() for c in ax.containers]
    assert heights[0][0] < heights[1][0] < 0.5 < heights[0][1]


def test_names_keep_their_colour_and_equal_quantities_their_limits():
    left = Panel("l", "mse", {"a": [(1.0, 0.0)], "b": [(9.0, 0.0)]})
    right = Panel("r", "mse", {"b": [(2.0, 0.0)]})
    other = Panel("o", "r2", {"b": [(0.5, 0.0)]})
    fig = plot_results([left, right, other], ["x"], styles=["z", "a", "b"])
    axes = fig.axes
    colours = [ax.containers[-1].lines[0].get_color() for ax in axes]
    assert len(set(colours)) == 1
    assert axes[0].get_xlim() == axes[1].get_xlim() != axes[2].get_xlim()
    labels = [text.get_text() for text in fig.legends[0].get_texts()]
    assert labels == ["a", "b"]


def test_many_names_have_different_looks():
    names = [f"m{k}" for k in range(14)]
    fig = plot_results([Panel("t", "v", {n: [(1.0, 0.0)] for n in names})], ["x"])
    looks = {
        (line.get_color(), line.get_marker(), line.get_markerfacecolor())
        for line in (c.lines[0] for c in fig.axes[0].containers)
    }
    assert len(looks) == 14


def test_heat_maps_stand_upright_below_their_clips():
    coef = np.zeros((4, 6, 3))
    coef[1, 5, 0] = -2.0  # right end of the top row, in the second frame
    fig = plot_heat_maps(
        {"a": coef, "b": 10 * coef}, samples={"clip": np.ones((4, 6, 3))}, frames=[1, 2]
    )
    pictures = [ax.images[0] for ax in fig.axes if ax.images]
    assert len(pictures) == 6
    drawn = pictures[2].get_array()
    assert drawn.shape == (3, 6)
    assert drawn[0, 5] == -2.0
    assert pictures[2].get_clim() == (-2.0, 2.0)
    assert pictures[4].get_clim() == (-20.0, 20.0)


def test_ends_of_colour_bars_are_told():
    fig = plot_heat_maps({"a": np.full((2, 3, 3), 1.45)})
    assert [t.get_text() for t in fig.axes[-1].get_yticklabels()] == [
        "−1.45",
        "0",
        "1.45",
    ]


def test_colours_are_summed():
    fig = plot_heat_maps({"a": np.ones((2, 4, 3, 3))}, n_frames=1)
    assert fig.axes[0].images[0].get_array().max() == 3.0


def test_no_coefficient_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        plot_heat_maps({})
