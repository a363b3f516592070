"""Figures of inference: what is drawn is what was found."""

import numpy as np
import pytest

from sltr import SLTRClassifierCV, SLTRRegressorCV, TensorRidge, plotting, sltr_path
from sltr.datasets import label
from sltr.inference import (
    Patterns,
    PermutationTest,
    Significant,
    Stability,
    intervals,
    patterns,
    significant,
    stability,
)

pytest.importorskip("matplotlib.pyplot")


def test_permutations_are_counted_and_the_score_is_marked(rng):
    null = rng.normal(size=200)
    null[3] = np.nan
    test = PermutationTest(0.04, 1.8, null, "procedure", "R²", "whole groups")
    ax = plotting.plot_permutation_test(test)
    assert sum(bar.get_height() for bar in ax.patches) == 199
    assert ax.lines[0].get_xdata()[0] == 1.8
    assert ax.get_title() == "p = 0.04, 200 permutations of whole groups"
    assert ax.get_xlabel() == "R²"


def test_pattern_is_drawn_in_units_of_the_samples(rng):
    pattern = rng.normal(size=(2, 5, 4))
    several = Patterns(pattern, np.array([2.0, 3.0]))
    for target, std in enumerate((2.0, 3.0)):
        fig = plotting.plot_pattern(several, target=target)
        drawn = np.asarray(fig.axes[0].images[0].get_array())
        assert np.allclose(drawn, std * pattern[target])
    alone = plotting.plot_pattern(Patterns(pattern[0], 0.5), mode_names=("a", "b"))
    assert np.allclose(alone.axes[0].images[0].get_array(), 0.5 * pattern[0])
    assert alone.axes[0].get_xlabel() == "b"


def test_pattern_of_each_response_is_drawn(rng):
    X = rng.normal(size=(40, 5, 4))
    Y = np.stack([X[:, 0, 0], X[:, 1, 2], X[:, 3, 3]], axis=1)
    found = patterns(TensorRidge(epsilon=1.0).fit(X, Y), X)
    drawn = plotting.plot_pattern(found, target=1).axes[0].images[0].get_array()
    assert np.allclose(drawn, found.pattern[..., 1] * found.score_std[1])


def test_maps_and_paths_know_the_modes_of_the_samples(rng):
    inside = np.ones((4, 3), bool)
    inside[1, 2] = False
    raw = rng.normal(size=(40, 4, 3)) * inside
    coords = {"channel": list("abcd"), "time": [0.0, 2.0, 4.0]}
    X = label(raw, ("channel", "time"), coords=coords, mask=inside)
    y = raw[:, 0, 0] + 0.1 * rng.normal(size=40)
    model = SLTRRegressorCV(refine=None).fit(X, y)
    figures = [
        plotting.plot_pattern(patterns(model, X)),
        plotting.plot_stability(stability(model, X, y, n_pairs=3, random_state=0)),
        plotting.plot_significant(significant(model, X, y, n=19, random_state=0)),
    ]
    for fig in figures:
        ax = fig.axes[0]
        assert (ax.get_ylabel(), ax.get_xlabel()) == ("channel", "time")
        assert [t.get_text() for t in ax.get_yticklabels()] == list("abcd")
        drawn = np.ma.filled(ax.images[0].get_array(), np.nan)
        assert np.argwhere(np.isnan(drawn)).tolist() == [[1, 2]]
    ranks = plotting.plot_path(sltr_path(X, y, epsilons=[1.0])).axes[2]
    legend = [text.get_text() for text in ranks.get_legend().get_texts()]
    assert legend == ["channel", "time"]


@pytest.mark.parametrize("shape", [(7,), (5, 4), (5, 4, 3)])
def test_frequencies_are_drawn_from_zero_to_one(rng, shape):
    often = rng.random(shape)
    found = Stability(often, often > 0.75, 0.75, 4, 4.0, 1.0, 2.0, 100)
    fig = plotting.plot_stability(found)
    pictures = [image for ax in fig.axes for image in ax.images]
    if len(shape) == 1:
        assert fig.axes[0].get_ylim() == (0.0, 1.05)
        return
    drawn = np.stack([image.get_array() for image in pictures], axis=-1)
    assert np.array_equal(drawn.reshape(shape), often)
    assert {image.get_clim() for image in pictures} == {(0.0, 1.0)}


def test_only_selected_entries_are_drawn(rng):
    statistic = rng.normal(size=(5, 4))
    selected = statistic > 1.0
    found = Significant(
        selected, selected * 0.1, statistic, 0.1, "fwer", (0, 0), np.zeros((0, 2))
    )
    drawn = plotting.plot_significant(found).axes[0].images[0].get_array()
    assert np.array_equal(drawn, np.where(selected, statistic, 0.0))


def test_intervals_are_bars_and_misses_are_told(rng):
    X = rng.normal(size=(80, 4, 3))
    y = X[:, 0, 0] + 0.5 * rng.normal(size=80)
    found = intervals(TensorRidge(epsilon=1.0), X[:40], y[:40])
    lower, upper = found.predict(X[40:], 0.8)
    ax = plotting.plot_intervals(found, X[40:], y[40:], level=0.8, label="age")
    ends = np.concatenate([np.array(c.get_segments()) for c in ax.collections[:2]])
    assert np.allclose(np.sort(ends[:, 0, 1]), np.sort(lower))
    assert np.allclose(np.sort(ends[:, 1, 1]), np.sort(upper))
    share = np.mean((lower <= y[40:]) & (y[40:] <= upper))
    assert ax.get_title() == f"80 % intervals hold {100 * share:.0f} % of 40 responses"
    labels = {text.get_text() for text in ax.get_legend().get_texts()}
    assert {"interval", "missed"} <= labels
    assert ax.get_xlabel() == "true age"


def test_intervals_of_several_responses_are_drawn_one_at_a_time(rng):
    X = rng.normal(size=(60, 4, 3))
    Y = X[:, :2, :2] + 0.5 * rng.normal(size=(60, 2, 2))
    found = intervals(TensorRidge(epsilon=1.0), X[:40], Y[:40])
    lower, _ = found.predict(X[40:])
    for target, place in ((None, (0, 0)), ((1, 0), (1, 0))):
        ax = plotting.plot_intervals(found, X[40:], Y[40:], target=target)
        bars = [c for c in ax.collections if hasattr(c, "get_segments")]
        ends = np.concatenate([np.array(c.get_segments()) for c in bars])
        assert np.allclose(np.sort(ends[:, 0, 1]), np.sort(lower[:, *place]))
        assert ax.get_title().startswith(f"response {place}: 90 % intervals hold")
    for target in (0, (0, 2), (0, 0, 0)):
        with pytest.raises(ValueError, match="a place among responses"):
            plotting.plot_intervals(found, X[40:], Y[40:], target=target)
    with pytest.raises(ValueError, match="all responses"):
        plotting.plot_intervals(found, X[40:], Y[40:, 0])
    single = intervals(TensorRidge(epsilon=1.0), X[:40], Y[:40, 0, :1])
    ax = plotting.plot_intervals(single, X[40:], Y[40:, 0, :1])
    assert ax.get_title().endswith("of 20 responses")


def test_intervals_without_ends_are_drawn_to_the_frame(rng):
    X = rng.normal(size=(20, 4, 3))
    found = intervals(TensorRidge(epsilon=1.0), X[:10], X[:10, 0, 0])
    ax = plotting.plot_intervals(found, X[10:], X[10:, 0, 0], level=0.99)
    ax.figure.draw_without_rendering()
    assert "100 % of 10" in ax.get_title()


def test_label_sets_are_a_table(rng):
    X = rng.normal(size=(90, 4, 3))
    labels = np.array(["a", "b", "c"])[np.arange(90) % 3]
    found = intervals(SLTRClassifierCV(refine=None), X[:60], labels[:60])
    ax = plotting.plot_intervals(found, X[60:], labels[60:])
    inside = found.predict(X[60:])
    share = inside[labels[60:] == "b"].mean(axis=0)
    assert np.allclose(np.asarray(ax.images[0].get_array())[1], share)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b", "c"]


def test_ends_of_another_size_are_refused():
    with pytest.raises(ValueError, match="interval has ends"):
        plotting.plot_predictions([1.0, 2.0], [1.0, 2.0], interval=([0.0], [1.0]))
