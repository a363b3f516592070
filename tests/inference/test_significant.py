"""Maps with error control: errors are rare, signal is found, neighbours are shared."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from sltr import SLTRClassifierCV, SLTRRegressorCV
from sltr.inference import significant
from sltr.inference.error_control import (
    _adjusted,
    correlation_reach,
    local_means,
)

MODEL = SLTRRegressorCV()


def smooth(rng, n, shape):
    return np.stack([gaussian_filter(x, 1.0) for x in rng.normal(size=(n, *shape))])


def test_corners_are_found_and_nothing_far_from_them(rng):
    power, strays = [], 0
    for seed in range(3):
        X = smooth(rng, 100, (24, 24))
        truth = np.zeros((24, 24))
        truth[:4, :4] = truth[-4:, -4:] = 1.0
        signal = np.einsum("nij,ij->n", X, truth)
        y = signal + 0.3 * signal.std() * rng.normal(size=100)
        found = significant(MODEL, X, y, n=199, random_state=seed)
        power.append(found.selected[truth > 0].mean())
        far = np.ones((24, 24), bool)
        far[:10, :10] = far[-10:, -10:] = False
        strays += (found.selected & far).sum()
        assert (found.statistic[found.selected & (truth > 0)] > 0).all()
    assert np.mean(power) > 0.85
    assert strays <= 3


@pytest.mark.parametrize("control", ["fwer", "fdr"])
def test_noise_is_seldom_taken_for_signal(rng, control):
    wrong = 0
    for seed in range(20):
        X, y = smooth(rng, 40, (8, 7)), rng.normal(size=40)
        found = significant(MODEL, X, y, **{control: 0.1}, n=99, random_state=seed)
        wrong += found.selected.any()
    assert wrong <= 6  # at most 2 are expected; 7 or more come once in 400


def test_a_region_does_not_hide_another(rng):
    X = rng.normal(size=(80, 10, 4))
    y = 3.0 * X[:, 0, 0] + X[:, 9, 3] + 0.3 * rng.normal(size=80)
    # The weak one is found because the strong one is taken away.
    assert abs(np.corrcoef(X[:, 9, 3], y)[0, 1]) < 0.5
    found = significant(MODEL, X, y, n=199, random_state=0)
    assert found.selected[0, 0]
    assert found.selected[9, 3]
    assert {tuple(region) for region in found.regions} >= {(0, 0), (9, 3)}
    assert found.tolerance == (0, 0)


def test_statistic_is_students_t_given_the_other_regions(rng):
    statsmodels = pytest.importorskip("statsmodels.api")
    X = rng.normal(size=(60, 3, 2))
    y = 2.0 * X[:, 0, 0] + X[:, 2, 1] + 0.5 * rng.normal(size=60)
    found = significant(MODEL, X, y, n=99, random_state=0)
    regions = [tuple(region) for region in found.regions]
    for at in np.ndindex(3, 2):
        others = [X[(slice(None), *r)] for r in regions if r != at]
        columns = np.column_stack([X[(slice(None), *at)], *others])
        fit = statsmodels.OLS(y, statsmodels.add_constant(columns)).fit()
        assert found.statistic[at] == pytest.approx(fit.tvalues[1])


def test_neighbours_are_averaged_only_where_they_correlate(rng):
    X = np.repeat(rng.normal(size=(300, 6, 5)), 2, axis=1)
    X = X + 0.5 * rng.normal(size=X.shape)
    (close, alone), _ = correlation_reach(smooth(rng, 300, (20, 20)))
    assert close == alone == 1
    assert correlation_reach(rng.normal(size=(300, 6, 5))) == ((0, 0), (0, 0))
    means = local_means(X, (1, 0)).reshape(300, 12, 5)
    expected = X[:, 3:6, 2].mean(axis=1)
    assert abs(np.corrcoef(means[:, 4, 2], expected)[0, 1]) == pytest.approx(1)


def test_order_of_nominal_modes_does_not_matter(rng):
    X = rng.normal(size=(60, 6, 5))
    y = X[:, 0, 0] - X[:, 3, 2] + 0.5 * rng.normal(size=60)
    order = rng.permutation(6)
    found = significant(MODEL, X, y, n=99, random_state=0)
    moved = significant(MODEL, X[:, order], y, n=99, random_state=0)
    np.testing.assert_array_equal(found.selected[order], moved.selected)
    np.testing.assert_allclose(found.statistic[order], moved.statistic, atol=1e-8)


def test_labels_and_libraries(xp, rng):
    X = rng.normal(size=(80, 6, 5))
    labels = np.where(X[:, 1, 1] + 0.3 * rng.normal(size=80) > 0, "yes", "no")
    model = SLTRClassifierCV()
    expected = significant(model, X, labels, n=99, random_state=0)
    found = significant(model, xp.array(X), labels, n=99, random_state=0)
    assert expected.selected[1, 1]
    np.testing.assert_array_equal(found.selected, expected.selected)


def test_false_discovery_rate_selects_no_less(rng):
    X = rng.normal(size=(60, 6, 5))
    y = X[:, 0].sum(axis=1) + rng.normal(size=60)
    family = significant(MODEL, X, y, fwer=0.1, n=99, random_state=0)
    rate = significant(MODEL, X, y, fdr=0.1, n=99, random_state=0)
    assert rate.selected.sum() >= family.selected.sum() > 0
    assert "false-discovery rate of 0.1" in str(rate)


def test_adjusted_p_values_are_scipys(rng):
    from scipy.stats import false_discovery_control

    p_values = rng.random(50) ** 3
    np.testing.assert_allclose(_adjusted(p_values), false_discovery_control(p_values))


def test_constant_entries_and_responses_have_nothing(rng):
    X = rng.normal(size=(30, 4, 3))
    X[:, 0, 0] = 5.0
    found = significant(MODEL, X, np.ones(30), n=19, random_state=0)
    assert not found.selected.any()
    found = significant(MODEL, X, X[:, 1, 1], n=19, random_state=0)
    assert not found.selected[0, 0]
    assert np.isfinite(found.statistic).all()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"fwer": 0.1, "fdr": 0.1}, "expected one of them"),
        ({"fwer": 2.0}, "fwer=2.0"),
        ({"n": 0}, "n=0"),
        ({"groups": np.repeat(np.arange(10), 2)}, "Average the samples"),
    ],
)
def test_what_cannot_be_is_refused(rng, options, said):
    X, y = rng.normal(size=(20, 3, 2)), np.repeat(np.arange(10.0), 2)
    with pytest.raises(ValueError, match=said):
        significant(MODEL, X, y, **options)


def test_more_than_two_classes_are_refused(rng):
    X = rng.normal(size=(30, 3, 2))
    with pytest.raises(ValueError, match="3 classes"):
        significant(SLTRClassifierCV(), X, np.arange(30) % 3)
