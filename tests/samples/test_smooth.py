"""Laplacians of modes, against penalties written out."""

import numpy as np
import pytest

from sltr.samples.labelled import label
from sltr.samples.smooth import difference_penalty, smooth_modes


def test_first_differences_are_divided_by_their_distances(rng):
    coords = np.cumsum(rng.uniform(0.5, 2.0, size=6))
    w, gaps = rng.normal(size=6), np.diff(coords)
    expected = np.sum(np.diff(w) ** 2 / (gaps / gaps.mean()))
    assert w @ difference_penalty(coords) @ w == pytest.approx(expected)


@pytest.mark.parametrize("order", [1, 2])
def test_lines_have_no_second_differences(rng, order):
    coords = np.cumsum(rng.uniform(0.5, 2.0, size=7))
    penalty = difference_penalty(coords, order)
    np.testing.assert_allclose(penalty @ np.ones(7), 0.0, atol=1e-12)
    bent = coords @ penalty @ coords
    assert (bent < 1e-10) == (order == 2)


@pytest.mark.parametrize("order", [1, 2])
def test_a_circle_has_no_first_entry(rng, order):
    penalty = difference_penalty(np.arange(6.0), order, last_gap=1.0)
    np.testing.assert_allclose(penalty, np.roll(penalty, 1, axis=(0, 1)), atol=1e-12)


def test_root_inverts_the_penalty(rng):
    [mode] = smooth_modes({0: {"strength": 3.0, "order": 2}}, (5,))
    root, L = mode.root(3.0), difference_penalty(np.arange(5.0), 2)
    np.testing.assert_allclose(
        root @ (np.eye(5) + 3.0 * L) @ root, np.eye(5), atol=1e-9
    )


def test_coordinates_may_fall_as_well_as_rise():
    volts = [3.6, 3.2, 2.5, 2.4]
    [falling], [rising] = (
        smooth_modes({0: {"strength": 2.0, "coords": c, "periodic": 4.0}}, (4, 3))
        for c in (volts, [-v for v in volts])
    )
    np.testing.assert_allclose(falling.root(2.0), rising.root(2.0))


def test_sites_on_a_line_are_neighbours_of_the_nearest():
    sites = np.arange(5.0)[:, None] * [3.0, 4.0]
    [mode] = smooth_modes({0: {"positions": sites}}, (5,))
    found = (mode.vectors * mode.values) @ mode.vectors.T
    assert found[0, 1] == pytest.approx(-1.0)
    assert abs(found[0, 4]) < 1e-12
    np.testing.assert_allclose(found.sum(axis=0), 0.0, atol=1e-9)


def test_a_given_laplacian_is_used_as_it_is(rng):
    factor = rng.normal(size=(3, 4))
    [mode] = smooth_modes({1: {"laplacian": factor.T @ factor}}, (2, 4))
    found = (mode.vectors * mode.values) @ mode.vectors.T
    np.testing.assert_allclose(found, factor.T @ factor, atol=1e-9)


def test_zero_is_always_among_several_strengths():
    assert smooth_modes({0: [2.0, 1.0]}, (3,))[0].strengths == (0.0, 1.0, 2.0)
    strengths = smooth_modes([1], (3, 30))[0].strengths
    assert strengths[:3] == (0.0, 0.25, 1.0)
    assert 100 < strengths[-1] < 10_000


def test_names_and_coordinates_come_from_the_samples():
    times = np.array([0.0, 1.0, 2.0, 4.0])
    X = label(np.zeros((5, 3, 4)), ("gene", "time"), coords=[["a", "b", "c"], times])
    [mode] = smooth_modes("time", (3, 4), X.labels)
    expected = np.linalg.eigvalsh(difference_penalty(times))
    assert mode.mode == 1
    np.testing.assert_allclose(mode.values, expected, atol=1e-9)
    with pytest.raises(ValueError, match="without an order"):
        smooth_modes(["gene"], (3, 4), X.labels)


@pytest.mark.parametrize(
    ("smooth", "match"),
    [
        ({2: 1.0}, "expected one of 0 to 1"),
        ({"time": 1.0}, "names the mode 'time'"),
        ({True: 1.0}, "names the mode True"),
        ({0: 1.0, -2: 1.0}, "mode 0 once"),
        ({0: -1.0}, "at least 0"),
        ({0: "much"}, "'auto'"),
        ({0: {"power": 1.0}}, "options among strength"),
        ({0: {"order": 3}}, "1 or 2"),
        ({0: {"coords": [0, 1]}}, "4 finite numbers that only rise"),
        ({0: {"coords": [0, 2, 1, 3]}}, "Sort the mode"),
        ({0: {"coords": ["a", "b", "c", "d"]}}, "without an order"),
        ({0: {"periodic": 2.0}}, "a period above 3"),
        ({0: {"positions": np.zeros((3, 2))}}, "each of 4 sites"),
        ({0: {"laplacian": np.ones((3, 3))}}, "symmetric 4 × 4"),
        ({0: {"laplacian": -np.eye(4)}}, "without negative"),
        ({0: {"laplacian": np.eye(4), "order": 2}}, "or positions, or laplacian"),
        (3.5, "a dictionary"),
    ],
)
def test_bad_smooth_is_refused(smooth, match):
    with pytest.raises(ValueError, match=match):
        smooth_modes(smooth, (4, 1) if smooth != {2: 1.0} else (4, 3))


def test_a_mode_of_one_entry_is_refused():
    with pytest.raises(ValueError, match="has one entry"):
        smooth_modes({1: 1.0}, (4, 1))
