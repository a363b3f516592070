from dataclasses import replace
from importlib import import_module
from itertools import pairwise

import numpy as np
import pytest
from problems import block, draw
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.metrics import accuracy_score, make_scorer, mean_absolute_error, r2_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.utils.validation import check_is_fitted

from sltr.estimators.sltr import SLTRClassifier, SLTRRegressor
from sltr.estimators.sltr_cv import SLTRClassifierCV, SLTRRegressorCV
from sltr.samples.check import check_samples
from sltr.tuning.candidates import DEFAULT_REFINEMENTS, REFINEMENTS, make_grid
from sltr.tuning.folds import Folds
from sltr.tuning.policy import DEFAULT
from sltr.tuning.search import search

# The package's `estimate` is the function; this is its module.
engine = import_module("sltr.core.estimate")

SHAPES = [(9,), (6, 5), (5, 4, 3), (3, 2, 4, 2)]
FRACTIONS = (0.0, 0.3, 0.7, 1.0)
SMALL = {"lambdas_sparse": (0.0, 0.5), "lambdas_low": (0.0, 0.5), "cv": 3}
# Answers compared are solved to this gap, and agree to ATOL × the spread of y. A fit
# on a fold would learn units of its own, which tuning learns once.
TIGHT = {"tol": 1e-5, "max_iter": 50_000, "standardize": None}
ATOL = 2e-3


FEW_RANKS = replace(DEFAULT, largest_tucker_rank=2, largest_cp_rank=2)
# Compare in double precision, by steps that end where those of one fit do.
EXACT = replace(FEW_RANKS, precision="float64", loose_gap=1.0, reweight_tol=1e-10)


class FewRanksCV(SLTRRegressorCV):
    _policy = FEW_RANKS


class ExactCV(SLTRRegressorCV):
    _policy = EXACT


class Exact(SLTRRegressor):
    _policy = EXACT


def planted(rng, shape=(5, 4, 3), n=40, noise=0.5):
    return draw(rng, block(shape), n, noise=noise, mean=1.0, offset=3.0)


def labelled(rng, n=60, n_classes=2):
    X = rng.normal(size=(n, 5, 4))
    score = X[:, :2, :2].sum(axis=(1, 2)) + 0.3 * rng.normal(size=n)
    cuts = np.quantile(score, np.arange(1, n_classes) / n_classes)
    return X, np.array(["low", "middle", "top"])[np.searchsorted(cuts, score)]


def held_out(model, X, y, weight, pairs_of_rows, epsilons, pairs, refinements):
    """Return the machinery's predictions, by candidate, then by fold."""
    samples = check_samples(model, X, y, weight)
    task = model._task(samples, samples.y[:, None])
    folds = Folds.of(task, pairs_of_rows)
    grid = make_grid(epsilons, pairs, refinements, task.radius, task.policy)
    held = search(task, folds, grid)
    return {
        candidate: [
            part[:, 0] + mean[:, 0]
            for part, mean in zip(parts, folds.baseline, strict=True)
        ]
        for candidate, parts in held.predictions.items()
    }


def assert_same_as_alone(table, X, y, weight, folds, settings, atol):
    """Compare every candidate and fold with a fit of its own."""
    for candidate, values in table.items():
        refine = candidate.refine and (candidate.refine, *candidate.settings)
        model = Exact(
            candidate.epsilon,
            candidate.lambda_sparse,
            candidate.lambda_low,
            refine=refine,
            **settings,
        )
        for (train, test), value in zip(folds, values, strict=True):
            own = None if weight is None else weight[train]
            alone = model.fit(X[train], y[train], own).predict(X[test])
            np.testing.assert_allclose(value, alone, atol=atol, err_msg=str(candidate))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("weighted", "fit_intercept"), [(False, True), (True, False), (True, True)]
)
def test_every_candidate_and_fold_equals_a_fit_alone(
    rng, shape, weighted, fit_intercept
):
    X, y = planted(rng, shape, 24)
    weight = rng.uniform(0.5, 2.0, size=24) if weighted else None
    folds = list(KFold(2).split(X))
    pairs = [(a, b) for a in FRACTIONS for b in FRACTIONS]
    settings = {"fit_intercept": fit_intercept, **TIGHT}
    model = SLTRRegressorCV(**settings)
    table = held_out(model, X, y, weight, folds, [0.5, 20.0], pairs, [None])
    assert len(table) == 2 * len(pairs)
    assert_same_as_alone(table, X, y, weight, folds, settings, ATOL * y.std())


@pytest.mark.parametrize(
    "settings",
    [
        {"radius": "absolute"},
        {"coupling": "joint"},
        {"weights": "radius"},
        {"weights": (1.0, 2.0)},
        {"solver": "ppxa"},
    ],
    ids=str,
)
def test_every_setting_reaches_the_folds(rng, settings):
    X, y = planted(rng, (4, 3, 3), 24)
    folds = list(KFold(2).split(X))
    settings = {**settings, **TIGHT}
    pairs = [(0.1, 0.2), (0.3, 0.6)]
    model = SLTRRegressorCV(**settings)
    table = held_out(model, X, y, None, folds, [3.0], pairs, [None])
    assert_same_as_alone(table, X, y, None, folds, settings, ATOL * y.std())


@pytest.mark.filterwarnings("ignore:The Lasso of refine")
@pytest.mark.parametrize("kind", ["reweight", "tucker", "cp", "sparse"])
@pytest.mark.parametrize("shape", SHAPES[:3])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_every_refit_and_fold_equals_a_fit_alone(rng, kind, shape, fit_intercept):
    X, y = planted(rng, shape, 24)
    weight = rng.uniform(0.5, 2.0, size=24)
    folds = list(KFold(2).split(X))
    settings = {"fit_intercept": fit_intercept, **TIGHT}
    model = ExactCV(**settings)
    epsilons = [0.5, 5.0, 50.0]
    if len(shape) == 1 and kind == "reweight":
        with pytest.raises(ValueError, match="two modes"):
            held_out(model, X, y, weight, folds, epsilons, [(0.1, 0.1)], [kind])
        return
    table = held_out(model, X, y, weight, folds, epsilons, [(0.1, 0.1)], [kind])
    if kind == "sparse":
        tried = sorted({c.lambda_sparse for c in table}, reverse=True)
        batches = EXACT.thresholds
        assert tuple(tried) in [sum(batches[:k], ()) for k in (1, 2, 3)]
        # Refits on supports that are too large are the Lasso again, and left out.
        assert sum(c.ridge is None for c in table) == len(tried)
        assert len(tried) <= len(table) < len(tried) * len(EXACT.support_ridges)
        assert {c.epsilon for c in table} == {5.0}
    else:
        if kind == "reweight":
            assert len(table) == len(EXACT.steps)
        else:
            ranks = {c.rank for c in table}
            for rank in ranks:  # lower ridges only where the first is worth it
                ridges = tuple(c.ridge for c in table if c.rank == rank)
                assert ridges in (EXACT.ridges, EXACT.ridges[:1])
            if kind == "cp":
                assert ranks <= set(range(1, EXACT.largest_rank(kind, shape) + 1))
        start = {(c.epsilon, c.lambda_sparse, c.lambda_low) for c in table}
        assert start == {(5.0, *EXACT.start_radii)}
        table = {c: v for c, v in table.items() if c.ridge in (None, EXACT.ridges[1])}
    assert_same_as_alone(table, X, y, weight, folds, settings, ATOL * y.std())


@pytest.mark.parametrize("shape", SHAPES[:3])
def test_the_winner_is_that_of_a_grid_search(rng, shape):
    X, y = planted(rng, shape, 30)
    folds = list(KFold(3, shuffle=True, random_state=0).split(X))
    epsilons, fractions = (1.0, 10.0), (0.1, 0.3, 0.6)
    model = SLTRRegressorCV(
        epsilons, fractions, fractions, refine=(None,), cv=folds, rule="best", **TIGHT
    ).fit(X, y)
    grid = {
        "epsilon": epsilons,
        "lambda_sparse": fractions,
        "lambda_low": fractions,
    }
    search = GridSearchCV(SLTRRegressor(**TIGHT), grid, cv=folds).fit(X, y)
    theirs = {frozenset(params.items()): score for params, score in zip_rows(search)}
    ours = {}
    for params, score in zip_rows(model):
        ours[frozenset({**params, "refine": None}.items() - {("refine", None)})] = score
    assert ours.keys() == theirs.keys()
    for key, score in ours.items():
        assert score == pytest.approx(theirs[key], abs=1e-3)
    best = {name: getattr(model, f"{name}_") for name in grid}
    # Answers do not depend on a radius that does not bind: equal scores are one.
    assert theirs[frozenset(best.items())] == pytest.approx(
        search.best_score_, abs=1e-6
    )
    np.testing.assert_allclose(model.predict(X), search.predict(X), atol=ATOL * y.std())


def zip_rows(search):
    results = search.cv_results_
    return zip(results["params"], results["mean_test_score"], strict=True)


@pytest.mark.parametrize(("n_jobs", "chunk"), [(1, 1), (1, 200), (2, 10**6)])
def test_jobs_and_chunks_change_nothing(rng, monkeypatch, n_jobs, chunk):
    X, y = planted(rng, n=30)
    settings = {**SMALL, "epsilons": (1.0, 10.0)}
    expected = SLTRRegressorCV(**settings).fit(X, y)
    monkeypatch.setattr(engine, "CHUNK_ENTRIES", chunk)
    model = SLTRRegressorCV(**settings, n_jobs=n_jobs).fit(X, y)
    ours, theirs = model.cv_results_, expected.cv_results_
    assert str(ours["params"]) == str(theirs["params"])
    for name in ("split0_test_score", "split1_test_score", "split2_test_score"):
        np.testing.assert_allclose(ours[name], theirs[name], atol=1e-12)
    assert model.best_index_ == expected.best_index_
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-12)


def test_both_drivers_agree(rng, monkeypatch):
    X, y = planted(rng, n=30)
    settings = {
        "epsilons": (1.0, 10.0),
        "lambdas_sparse": (0.2, 0.5),
        "lambdas_low": (0.2, 0.5, 1.0),
        "refine": (None,),
        **TIGHT,
        "cv": 3,
    }
    scores = []
    for entries in (0, 10**9):
        monkeypatch.setattr(engine, "SMALL_ENTRIES", entries)
        model = SLTRRegressorCV(**settings).fit(X, y)
        scores.append(model.cv_results_["mean_test_score"])
    np.testing.assert_allclose(*scores, atol=1e-3)


@pytest.mark.parametrize(
    "scoring",
    [
        "r2",
        "neg_mean_squared_error",
        "neg_mean_absolute_error",
        "neg_median_absolute_error",
        "explained_variance",
        make_scorer(mean_absolute_error, greater_is_better=False),
        lambda model, X, y: -float(np.abs(model.predict(X) - y).max()),
    ],
)
def test_scores_are_scikit_learns(rng, scoring):
    X, y = planted(rng, n=30)
    folds = list(KFold(3).split(X))
    model = SLTRRegressorCV(
        (1.0,), (0.4,), (0.4,), refine=None, cv=folds, scoring=scoring, **TIGHT
    ).fit(X, y)
    alone = SLTRRegressor(1.0, 0.4, 0.4, **TIGHT)
    expected = cross_val_score(alone, X, y, cv=folds, scoring=scoring)
    found = [model.cv_results_[f"split{f}_test_score"][0] for f in range(3)]
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


def test_scores_take_the_sample_weights(rng):
    X, y = planted(rng, n=30)
    weight = rng.uniform(0.1, 3.0, size=30)
    train, test = np.arange(20), np.arange(20, 30)
    settings = {"cv": [(train, test)], "refine": None, **TIGHT}
    for scoring in (None, make_scorer(lambda y, p, sample_weight: p @ sample_weight)):
        model = SLTRRegressorCV((1.0,), (0.4,), (0.4,), scoring=scoring, **settings)
        model.fit(X, y, sample_weight=weight)
        alone = SLTRRegressor(1.0, 0.4, 0.4, **TIGHT)
        alone.fit(X[train], y[train], weight[train])
        expected = (
            alone.score(X[test], y[test], weight[test])
            if scoring is None
            else alone.predict(X[test]) @ weight[test]
        )
        assert model.best_score_ == pytest.approx(expected, rel=1e-3)


def test_groups_reach_the_splitter(rng):
    X, y = planted(rng, n=30)
    groups = rng.integers(0, 5, size=30)
    folds = list(GroupKFold(3).split(X, y, groups))
    grouped = SLTRRegressorCV(**{**SMALL, "cv": GroupKFold(3)})
    grouped.fit(X, y, groups=groups)
    explicit = SLTRRegressorCV(**{**SMALL, "cv": folds}).fit(X, y)
    for name in ("split0_test_score", "split2_test_score"):
        np.testing.assert_array_equal(
            grouped.cv_results_[name], explicit.cv_results_[name]
        )
    with pytest.raises(ValueError, match="groups"):
        grouped.fit(X, y)


def test_one_standard_error_prefers_the_simpler_model(rng):
    X, y = planted(rng, n=60, noise=2.0)
    settings = {
        "epsilons": (5.0,),
        "lambdas_sparse": (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7),
        "lambdas_low": (1.0,),
        "refine": None,
        "tol": 1e-5,
    }
    best = SLTRRegressorCV(**settings, rule="best").fit(X, y)
    simple = SLTRRegressorCV(**settings, rule="1se").fit(X, y)
    scores = np.stack([best.cv_results_[f"split{f}_test_score"] for f in range(5)])
    mean = scores.mean(axis=0)
    error = scores[:, best.best_index_].std(ddof=1) / np.sqrt(5)
    close = np.flatnonzero(mean >= mean.max() - error)
    # Entries kept fall with the radius, so the simplest has the largest one.
    largest = max(best.cv_results_["params"][g]["lambda_sparse"] for g in close)
    assert simple.lambda_sparse_ == largest
    assert largest > best.lambda_sparse_
    assert np.count_nonzero(simple.coef_) < np.count_nonzero(best.coef_)
    assert simple.best_score_ < best.best_score_


def test_the_papers_grid_by_name(rng):
    X, y = planted(rng, (4, 3), 30)
    model = SLTRRegressorCV(
        "paper", "paper", "paper", radius="absolute", refine=None, cv=2, rule="best"
    ).fit(X, y)
    table = model.cv_results_
    assert len(table["params"]) == 147
    lambdas = [0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0]
    assert sorted(set(table["param_epsilon"].tolist())) == [0.1, 0.2, 0.3]
    assert sorted(set(table["param_lambda_sparse"].tolist())) == lambdas
    assert sorted(set(table["param_lambda_low"].tolist())) == lambdas
    alone = SLTRRegressor(
        model.epsilon_, model.lambda_sparse_, model.lambda_low_, radius="absolute"
    ).fit(X, y)
    np.testing.assert_allclose(model.coef_, alone.coef_, atol=5e-3)


def test_absolute_radii_work_with_refits(rng):
    X, y = planted(rng, n=30)
    model = SLTRRegressorCV(
        (1.0,), (0.1, 0.5), (0.1, 0.5), radius="absolute", cv=3
    ).fit(X, y)
    tried = set(model.cv_results_["param_refine"].tolist())
    assert tried == set(DEFAULT_REFINEMENTS) == set(REFINEMENTS) - {"scale"}
    assert model.score(X, y) > 0.5


@pytest.mark.filterwarnings("ignore:The Lasso of refine")
@pytest.mark.parametrize(
    "refine",
    [None, "tucker", ("scale",), (None, "sparse"), ("cp", None), REFINEMENTS],
    ids=str,
)
def test_only_refinements_asked_for_are_tried(rng, refine):
    X, y = planted(rng, n=30)
    model = SLTRRegressorCV(**SMALL, refine=refine).fit(X, y)
    asked = {refine} if refine is None or isinstance(refine, str) else set(refine)
    assert set(model.cv_results_["param_refine"].tolist()) == asked
    assert model.refine_ in asked


@pytest.mark.parametrize("refine", ["reweight", "tucker", "cp", "sparse", None])
@pytest.mark.parametrize("standardize", ["slices", "entries", None])
def test_the_winner_is_the_plain_estimator_with_its_settings(rng, refine, standardize):
    X, y = planted(rng, n=40)
    settings = {**TIGHT, "standardize": standardize}
    model = SLTRRegressorCV(**SMALL, refine=refine, rule="best", **settings).fit(X, y)
    asked = refine and (refine, *model.refine_settings_)
    alone = SLTRRegressor(
        model.epsilon_,
        model.lambda_sparse_,
        model.lambda_low_,
        refine=asked,
        **settings,
    ).fit(X, y)
    np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-9)
    assert model.intercept_ == pytest.approx(alone.intercept_)
    assert model.ranks_ == alone.ranks_


@pytest.mark.parametrize("rule", ["average", "best"])
def test_whole_weights_are_repetitions_for_every_rule(rng, rule):
    X, y = planted(rng, (5, 4), 40, noise=2.0)
    times = np.where(np.arange(40) < 8, rng.integers(1, 9, size=40), 1)
    copies = np.repeat(np.arange(40), times)
    folds = list(KFold(5).split(X))
    repeated = [
        tuple(np.flatnonzero(np.isin(copies, rows)) for rows in pair) for pair in folds
    ]
    settings = {**SMALL, "refine": (None, "sparse"), "rule": rule}
    weighted = SLTRRegressorCV(**settings | {"cv": folds})
    weighted.fit(X, y, sample_weight=times)
    again = SLTRRegressorCV(**settings | {"cv": repeated}).fit(X[copies], y[copies])
    # Refits are compared in single precision.
    np.testing.assert_allclose(weighted.weights_, again.weights_, atol=1e-6)
    np.testing.assert_allclose(weighted.coef_, again.coef_, atol=1e-6)


def agreement(errors, best):
    """Return exp(−z²/2) of the excess over the best one, less what is small."""
    excess = errors - errors[best]
    mean, error = excess.mean(axis=1), excess.std(axis=1) / np.sqrt(errors.shape[1])
    error = np.hypot(error, 0.02 * errors[best].mean())
    z = np.clip(mean / error, 0.0, None)
    return np.clip((np.exp(-0.5 * z**2) - 0.1) / 0.9, 0.0, None)


@pytest.mark.filterwarnings("ignore:The Lasso of refine")
@pytest.mark.parametrize("refine", [None, (None, "reweight", "cp", "sparse")])
def test_the_refined_pilot_is_a_mean_of_candidates(rng, refine):
    X, y = planted(rng, (5, 4, 3), 30, noise=2.0)
    folds = list(KFold(3).split(X))
    grid = {
        "epsilons": (1.0, 10.0),
        "lambdas_sparse": (0.0, 0.6),
        "lambdas_low": (0.0, 0.3),
        "scoring": "neg_mean_squared_error",
    }
    settings = {**grid, "refine": refine, "cv": folds, **TIGHT}
    model = FewRanksCV(**settings).fit(X, y)
    best = FewRanksCV(**settings, rule="best").fit(X, y)
    assert model.weights_.sum() == pytest.approx(1.0)
    assert model.weights_[model.best_index_] > 0
    assert np.flatnonzero(best.weights_).tolist() == [best.best_index_]
    assert np.count_nonzero(model.weights_) > 1
    # Held-out predictions and coefficients again, by fits of each candidate alone.
    held, coefs, kinds = [], [], []
    for params in model.cv_results_["params"]:
        kind = params["refine"]
        ridge = params.get("ridge", np.nan)
        own = {
            None: None,
            "reweight": ("reweight", params.get("steps")),
            "cp": ("cp", params.get("rank"), ridge),
            "sparse": ("sparse", None if np.isnan(ridge) else ridge),
        }[kind]
        radii = (params["epsilon"], params["lambda_sparse"], params["lambda_low"])
        alone = SLTRRegressor(*radii, refine=own, **TIGHT)
        held.append(np.empty(len(y)))
        for train, test in folds:
            held[-1][test] = clone(alone).fit(X[train], y[train]).predict(X[test])
        coefs.append(alone.fit(X, y).coef_)
        kinds.append("pilot" if kind is None and radii[1:] == (0.0, 0.0) else kind)
    # The candidates of a kind, then the kinds.
    held, means = np.array(held), []
    weights = np.zeros(len(kinds))
    names = list(dict.fromkeys(kinds))
    for name in names:
        same = np.flatnonzero([kind == name for kind in kinds])
        errors = (held[same] - y) ** 2
        own = agreement(errors, errors.mean(axis=1).argmin())
        weights[same] = own / own.sum()
        means.append(weights[same] @ held[same])
    errors = (np.array(means) - y) ** 2
    shares = agreement(errors, names.index(kinds[model.best_index_]))
    few = 1.0 + 40.0 / 30.0
    shares *= [
        {"pilot": few, None: 1.0, "reweight": 1.0}.get(k, 1 / few) for k in names
    ]
    for name, share in zip(names, shares / shares.sum(), strict=True):
        weights[[kind == name for kind in kinds]] *= share
    # Reweighting ends at a residual of some per cent, in either precision.
    np.testing.assert_allclose(model.weights_, weights, atol=0.02)
    expected = np.tensordot(model.weights_, np.array(coefs), axes=1)
    np.testing.assert_allclose(
        model.refined_, expected, atol=1e-3 * np.abs(expected).max()
    )


def test_folds_of_single_samples_choose_by_squared_error(rng):
    X, y = planted(rng, (4, 3), 20, noise=0.5)
    grid = {"lambdas_sparse": (1.0, 0.0), "lambdas_low": (1.0,), "refine": None}
    model = SLTRRegressorCV((1.0,), **grid, cv=20, rule="best").fit(X, y)
    asked = SLTRRegressorCV(
        (1.0,), **grid, cv=20, rule="best", scoring="neg_mean_squared_error"
    ).fit(X, y)
    assert model.lambda_sparse_ == asked.lambda_sparse_ == 0.0
    assert model.best_score_ == pytest.approx(asked.best_score_)


def test_scale_multiplies_the_plain_coefficient(rng):
    X, y = planted(rng, n=25)
    settings = {"epsilons": (100.0,), "lambdas_sparse": (0.3,), "lambdas_low": (0.3,)}
    settings |= {"tol": 1e-5, "standardize": None}
    folds = list(KFold(3).split(X))
    plain = SLTRRegressorCV(**settings, refine=None, cv=folds).fit(X, y)
    scaled = SLTRRegressorCV(**settings, refine="scale", cv=folds).fit(X, y)
    np.testing.assert_allclose(scaled.coef_, scaled.scale_ * plain.coef_)
    # The factor is the least-squares one of all held-out predictions.
    alone = SLTRRegressor(100.0, 0.3, 0.3, tol=1e-3)
    predictions, targets = [], []
    for train, test in folds:
        model = clone(alone).fit(X[train], y[train])
        predictions.append(model.predict(X[test]) - y[train].mean())
        targets.append(y[test] - y[train].mean())
    p, t = np.concatenate(predictions), np.concatenate(targets)
    assert scaled.scale_ == pytest.approx(p @ t / (p @ p), rel=1e-3)
    assert scaled.scale_ > 1.0
    assert scaled.best_score_ > plain.best_score_


def test_a_scaled_score_is_what_the_estimator_gets_on_that_fold(rng):
    X, y = planted(rng, n=30)
    folds = list(KFold(3).split(X))
    settings = {"epsilons": (50.0,), "lambdas_sparse": (0.3,), "lambdas_low": (0.3,)}
    model = SLTRRegressorCV(**settings, refine="scale", cv=folds, **TIGHT).fit(X, y)
    for f, (train, test) in enumerate(folds):
        alone = SLTRRegressor(50.0, 0.3, 0.3, refine="scale", **TIGHT)
        expected = alone.fit(X[train], y[train]).score(X[test], y[test])
        found = model.cv_results_[f"split{f}_test_score"][0]
        assert found == pytest.approx(expected, abs=1e-3)


def fitted_alone(params, X, y):
    """Return a single fit, to some rows, of a candidate that was compared."""
    own = {
        None: None,
        "reweight": ("reweight", params.get("steps")),
        "cp": ("cp", params.get("rank"), params.get("ridge")),
    }[params["refine"]]
    radii = (params["epsilon"], params["lambda_sparse"], params["lambda_low"])
    return Exact(*radii, refine=own, **TIGHT).fit(X, y)


@pytest.mark.parametrize("noise", [0.5, 5.0])
def test_a_reweighted_score_is_what_the_estimator_gets_on_that_fold(rng, noise):
    X, y = planted(rng, n=30, noise=noise)
    folds = list(KFold(3).split(X))
    settings = {"epsilons": (1.0, 50.0), "lambdas_sparse": (0.3,)}
    settings |= {"lambdas_low": (0.3,), "cv": folds, **TIGHT}
    model = ExactCV(**settings, refine=(None, "reweight")).fit(X, y)
    table = model.cv_results_
    some = [g for g, p in enumerate(table["params"]) if p["refine"] == "reweight"]
    assert some
    for f, (train, test) in enumerate(folds):
        for g in some:
            alone = fitted_alone(table["params"][g], X[train], y[train])
            expected = alone.score(X[test], y[test])
            found = table[f"split{f}_test_score"][g]
            assert found == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("noise", [1.5, 3.0])
def test_the_score_of_an_average_is_what_its_members_get_on_that_fold(noise):
    X, y = planted(np.random.default_rng(0), n=80, noise=noise)
    folds = list(KFold(3).split(X))
    kinds = (None, "reweight", "cp")
    model = ExactCV(**SMALL | {"cv": folds}, refine=kinds, **TIGHT).fit(X, y)
    members = np.flatnonzero(model.weights_)
    params = [model.cv_results_["params"][g] for g in members]
    assert len({p["refine"] for p in params}) > 1
    assert 0.0 < max(model.low_radius_, model.sparse_radius_) < 1.0
    for f, (train, test) in enumerate(folds):
        coefs = [fitted_alone(p, X[train], y[train]).coef_ for p in params]
        mean = np.tensordot(model.weights_[members], np.array(coefs), axes=1)
        low, radius = np.array([model.low_radius_]), np.array([model.sparse_radius_])
        pilot = engine.lowest_ranks(mean[None], low)[0]
        coef = engine.adaptive_estimate(pilot, radius)[0, 0]
        offset = y[train].mean() - np.sum(X[train].mean(axis=0) * coef)
        predicted = np.sum(X[test] * coef, axis=(1, 2, 3)) + offset
        expected = r2_score(y[test], predicted)
        found = model.held_out_scores_["r2"][f]
        assert found == pytest.approx(expected, abs=2e-3)


def test_the_plain_answer_can_win_on_noise():
    winners = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(40, 4, 3, 3)), rng.normal(size=40)
        model = SLTRRegressorCV(**SMALL).fit(X, y)
        assert None in model.cv_results_["param_refine"].tolist()
        winners.append(model.refine_)
    assert winners.count(None) >= 1


def test_refinement_wins_where_it_should(rng):
    coef = np.zeros((8, 7, 5))
    coef[:3, :3, :2] = 1.0
    X = rng.normal(size=(70, 8, 7, 5))
    y = X.reshape(70, -1) @ coef.ravel() + 0.3 * rng.normal(size=70)
    plain = SLTRRegressorCV(**SMALL, refine=None).fit(X, y)
    model = SLTRRegressorCV(**SMALL).fit(X, y)
    assert model.refine_ in ("tucker", "cp")
    error, before = (np.linalg.norm(m.coef_ - coef) for m in (model, plain))
    assert error < 0.3 * before


def test_results_have_scikit_learns_keys(rng):
    X, y = planted(rng, n=30)
    model = SLTRRegressorCV(**SMALL).fit(X, y)
    table = model.cv_results_
    names = ["epsilon", "lambda_sparse", "lambda_low", "refine"]
    names += ["rank", "ridge", "steps"]
    expected = {f"param_{name}" for name in names} | {
        "params",
        "mean_test_score",
        "std_test_score",
        "rank_test_score",
        *(f"split{f}_test_score" for f in range(3)),
    }
    assert set(table) == expected
    assert len({len(column) for column in table.values()}) == 1
    best = table["params"][model.best_index_]
    assert best["refine"] == model.refine_
    assert best["epsilon"] == model.epsilon_
    assert table["rank_test_score"][model.best_index_] == 1
    assert model.best_score_ == table["mean_test_score"].max()


def test_progress_counts_the_stages(rng):
    X, y = planted(rng, n=30)
    calls = []
    model = SLTRRegressorCV(**SMALL, progress=lambda *call: calls.append(call))
    model.fit(X, y)
    # Plain fits, two kinds of sweeps and three lots of sparse ones, if all are tried.
    done, totals = zip(*calls, strict=True)
    assert set(totals) == {6}
    assert done[:4] == (1, 2, 3, 4)
    assert done[-1] == 6
    assert all(before < after for before, after in pairwise(done))


def interrupt(done, total):
    raise KeyboardInterrupt


def test_an_interrupt_leaves_the_estimator_as_it_was(rng):
    X, y = planted(rng, n=30)
    model = SLTRRegressorCV(**SMALL, progress=interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    with pytest.raises(NotFittedError):
        model.predict(X)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_an_interrupted_refit_keeps_the_former_fit(rng):
    X, y = planted(rng, n=30)
    model = SLTRRegressorCV(**SMALL, refine=None).fit(X, y)
    before = model.predict(X)
    model.set_params(progress=interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :, :, :2], y)
    np.testing.assert_array_equal(model.predict(X), before)


def test_an_interrupted_classifier_is_not_fitted(rng):
    X, y = labelled(rng)
    model = SLTRClassifierCV(**SMALL, progress=interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("refine", [None, REFINEMENTS], ids=str)
def test_classes_are_learnt_with_one_grid(rng, n_classes, refine):
    X, y = labelled(rng, 90, n_classes)
    model = SLTRClassifierCV(**SMALL, refine=refine).fit(X, y)
    n_tensors = 1 if n_classes == 2 else n_classes
    assert model.coef_.shape == ((5, 4) if n_classes == 2 else (3, 5, 4))
    assert isinstance(model.epsilon_, float)
    assert isinstance(model.lambda_sparse_, float)
    assert np.shape(model.scale_) == (n_tensors,)
    assert model.predict_proba(X).shape == (90, n_classes)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert model.score(X, y) > (0.85 if n_classes == 2 else 0.6)


def test_a_classifiers_default_score_is_the_indicators_r2(rng):
    X, y = labelled(rng, 60, 3)
    folds = list(StratifiedKFold(3).split(X, y))
    model = SLTRClassifierCV((5.0,), (0.4,), (0.3,), refine=None, cv=folds, **TIGHT)
    model.fit(X, y)
    for f, (train, test) in enumerate(folds):
        each = []
        for label in model.classes_:
            alone = SLTRRegressor(5.0, 0.4, 0.3, **TIGHT)
            alone.fit(X[train], (y[train] == label).astype(float))
            each.append(alone.score(X[test], (y[test] == label).astype(float)))
        found = model.cv_results_[f"split{f}_test_score"][0]
        assert found == pytest.approx(np.mean(each), abs=1e-3)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "scoring", ["accuracy", "roc_auc_ovr", "neg_log_loss", "f1_macro"]
)
def test_classifiers_take_scoring(rng, n_classes, scoring):
    X, y = labelled(rng, 60, n_classes)
    folds = list(StratifiedKFold(3).split(X, y))
    model = SLTRClassifierCV(
        (5.0,), (0.4,), (0.3,), refine=None, cv=folds, scoring=scoring, **TIGHT
    ).fit(X, y)
    found = [model.cv_results_[f"split{f}_test_score"][0] for f in range(3)]
    assert np.all(np.isfinite(found))
    if scoring == "accuracy":
        for (train, test), score in zip(folds, found, strict=True):
            columns = []
            for label in model.classes_:
                alone = SLTRRegressor(5.0, 0.4, 0.3, **TIGHT)
                alone.fit(X[train], (y[train] == label).astype(float))
                columns.append(alone.predict(X[test]))
            labels = model.classes_[np.argmax(columns, axis=0)]
            assert score == pytest.approx(accuracy_score(y[test], labels))


def test_binary_roc_auc_is_computed_at_once_as_scikit_learn_does(rng):
    X, y = labelled(rng)
    settings = {**SMALL, "refine": None, "epsilons": (5.0,)}
    known = SLTRClassifierCV(**settings, scoring="roc_auc").fit(X, y)
    slow = SLTRClassifierCV(**settings, scoring="roc_auc_ovr").fit(X, y)
    np.testing.assert_allclose(
        known.cv_results_["mean_test_score"], slow.cv_results_["mean_test_score"]
    )


def test_a_tuned_classifier_predicts_like_the_plain_one(rng):
    X, y = labelled(rng)
    model = SLTRClassifierCV(**SMALL, refine=None, rule="best").fit(X, y)
    settings = (model.epsilon_, model.lambda_sparse_, model.lambda_low_)
    alone = SLTRClassifier(*settings, tol=1e-3, standardize="slices").fit(X, y)
    np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-9)
    assert np.mean(model.predict(X) == alone.predict(X)) > 0.9


def test_float32_stays(rng):
    X, y = planted(rng, n=30)
    model = SLTRRegressorCV(**SMALL).fit(X.astype(np.float32), y.astype(np.float32))
    assert model.coef_.dtype == np.float32
    assert model.predict(X.astype(np.float32)).dtype == np.float32


@pytest.mark.filterwarnings("ignore:The Lasso of refine")
@pytest.mark.parametrize("refine", ["scale", "cp", "sparse"])
def test_torch_gives_the_same_answer(rng, refine):
    torch = pytest.importorskip("torch")
    X, y = planted(rng, n=30)
    settings = {**SMALL, "epsilons": (5.0,), "refine": refine, **TIGHT}
    ours = FewRanksCV(**settings).fit(X, y)
    theirs = FewRanksCV(**settings).fit(torch.asarray(X), torch.asarray(y))
    assert isinstance(theirs.coef_, torch.Tensor)
    np.testing.assert_allclose(theirs.coef_.numpy(), ours.coef_, atol=1e-3)
    assert theirs.best_score_ == pytest.approx(ours.best_score_, abs=1e-3)


def test_flat_rows_are_folded(rng):
    X, y = planted(rng, n=30)
    folded = SLTRRegressorCV(**SMALL).fit(X, y)
    flat = SLTRRegressorCV(**SMALL, feature_shape=(5, 4, 3)).fit(X.reshape(30, -1), y)
    np.testing.assert_array_equal(flat.coef_, folded.coef_)


def test_radius_zero_is_ridge(rng):
    X, y = planted(rng, n=30)
    model = SLTRRegressorCV((2.0,), (0.0,), (0.0,), refine=None, standardize=None)
    model.fit(X, y)
    ridge = Ridge(2.0).fit(X.reshape(30, -1), y)
    np.testing.assert_allclose(model.coef_.ravel(), ridge.coef_, atol=1e-9)
    assert model.intercept_ == pytest.approx(ridge.intercept_)


def never(done, total):
    msg = "a fold was fitted before the settings were checked"
    raise AssertionError(msg)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lambdas_sparse": ()}, "lambdas_sparse=.*at least one"),
        ({"lambdas_low": ()}, "lambdas_low=.*at least one"),
        ({"epsilons": ()}, "epsilons=.*at least one"),
        ({"lambdas_sparse": (-0.1,)}, "lambdas_sparse=-0.1"),
        ({"lambdas_low": (float("nan"),)}, "lambdas_low=nan"),
        ({"epsilons": (-1.0,)}, "epsilons=-1.0"),
        ({"epsilons": "best"}, "epsilons='best'"),
        ({"lambdas_low": "loo"}, "lambdas_low='loo'"),
        ({"refine": ("tucker", "magic")}, "refine='magic'"),
        ({"refine": "magic"}, "refine='magic'"),
        ({"refine": ()}, "refine=.*at least one"),
        ({"refine": 3}, "refine=3"),
        ({"rule": "2se"}, "rule='2se'"),
        ({"scoring": "nonsense"}, "nonsense"),
        ({"scoring": 3}, "scoring=3"),
        ({"radius": "relativ"}, "radius='relativ'"),
        ({"coupling": "sum"}, "coupling='sum'"),
        ({"weights": (-1.0, 1.0)}, "weights="),
        ({"solver": "sgd"}, "solver='sgd'"),
        ({"tol": 0.0}, "tol=0.0"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"cv": 1}, "at least one"),
        ({"cv": [(np.arange(1), np.arange(2, 4))]}, "1 training"),
        ({"feature_shape": (7, 7)}, "feature_shape="),
    ],
    ids=str,
)
def test_bad_settings_are_refused_before_fitting(rng, settings, message):
    X, y = planted(rng, n=20)
    model = SLTRRegressorCV(**{**SMALL, "progress": never, **settings})
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not hasattr(model, "n_features_in_")


def test_folds_without_a_class_are_refused_where_no_score_exists(rng):
    X, y = labelled(rng)
    order = np.argsort(y)
    folds = [(order[:50], order[50:]), (order[10:], order[:10])]
    model = SLTRClassifierCV(**{**SMALL, "cv": folds}, scoring="roc_auc")
    with pytest.raises(ValueError, match="finite score"):
        model.fit(X, y)


def test_one_class_is_refused(rng):
    X, _ = labelled(rng)
    with pytest.raises(ValueError, match="one class"):
        SLTRClassifierCV(**SMALL).fit(X, ["a"] * len(X))


@pytest.mark.parametrize(
    "refine", [3, ("tucker", 1), ("magic", 1, 0.1), ("cp", 99, 0.1)]
)
def test_a_refit_that_cannot_be_is_refused(rng, refine):
    X, y = planted(rng, n=20)
    with pytest.raises(ValueError, match="refine="):
        SLTRRegressor(refine=refine).fit(X, y)


def test_penalties_are_about_the_best_for_the_groups_left_out(rng):
    """Copies of a sample are told by their kin, whatever the penalty."""
    groups = np.repeat(np.arange(30), 4)
    each, noise = rng.normal(size=(30, 5, 4)), rng.normal(size=30)
    coef = rng.normal(size=(5, 4))
    X = each[groups] + 0.05 * rng.normal(size=(120, 5, 4))
    y = (np.einsum("nij,ij->n", each, coef) + 6.0 * noise)[groups]
    folds = list(GroupKFold(5).split(X, y, groups))
    model = SLTRRegressorCV(cv=folds, refine=(None,)).fit(X, y, groups=groups)
    ignorant = SLTRRegressorCV(cv=folds, refine=(None,)).fit(X, y)
    mine, theirs = (
        sorted(set(m.cv_results_["param_epsilon"])) for m in (model, ignorant)
    )
    assert mine[1] in np.array(theirs[1]) * 10.0 ** np.arange(1, 5)

    def error(epsilon):
        found = [
            Ridge(epsilon)
            .fit(X[a].reshape(len(a), -1), y[a])
            .predict(X[b].reshape(len(b), -1))
            - y[b]
            for a, b in folds
        ]
        return np.sum(np.concatenate(found) ** 2)

    tried = theirs[1] * 10.0 ** np.arange(5)
    assert mine[1] == pytest.approx(min(tried, key=error))


def test_folds_of_one_sample_are_scored_by_squared_errors(rng):
    X, y = planted(rng, (4, 3), 12)
    for cv, name in ((4, "r2"), (12, "neg_mean_squared_error")):
        model = SLTRRegressorCV(cv=cv, refine=(None,), rule="best").fit(X, y)
        asked = SLTRRegressorCV(cv=cv, refine=(None,), rule="best", scoring=name)
        assert model.scored_by_ == name
        assert model.best_score_ == asked.fit(X, y).best_score_


def test_there_are_no_more_folds_than_samples_of_a_class(rng):
    X = rng.normal(size=(9, 4, 3))
    y = np.repeat(["a", "b", "c"], 3)
    with pytest.warns(UserWarning, match="there are 3 folds") as found:
        model = SLTRClassifierCV(refine=(None,)).fit(X, y)
    assert found[0].filename == __file__
    assert "split2_test_score" in model.cv_results_
    assert "split3_test_score" not in model.cv_results_


def test_groups_that_folds_part_leave_the_penalties_alone(rng):
    X, y = planted(rng, (4, 3), 24)
    groups = np.arange(24) % 4  # on both sides of every fold
    folds = list(KFold(3).split(X))
    model = SLTRRegressorCV(cv=folds, refine=(None,))
    expected = model.fit(X, y).cv_results_["param_epsilon"]
    found = model.fit(X, y, groups=groups).cv_results_["param_epsilon"]
    assert list(found) == list(expected)


def test_groups_are_not_split_by_default(rng):
    """A repeat of the same subject gives its response away."""
    subjects, repeats = 25, 8
    groups = np.repeat(np.arange(subjects), repeats)
    X = rng.normal(size=(subjects, 6, 5))[groups] + 0.01 * rng.normal(size=(200, 6, 5))
    y = rng.normal(size=subjects)[groups] + 0.01 * rng.normal(size=200)
    order = rng.permutation(200)
    settings = {"refine": (None, "cp")}
    split = SLTRRegressorCV(**settings).fit(X[order], y[order])
    whole = SLTRRegressorCV(**settings).fit(X[order], y[order], groups=groups[order])
    assert split.best_score_ > 0.8
    assert whole.best_score_ < 0.3


def test_refits_take_the_penalty_of_least_leave_one_out_error(rng):
    X, y = rng.normal(size=(40, 4, 3)), rng.normal(size=40)
    tried = [
        sorted(
            set(
                SLTRRegressorCV(refine=kinds, cv=3)
                .fit(X, y)
                .cv_results_["param_epsilon"]
            )
        )
        for kinds in ((None, "cp"), (None, "scale"))
    ]
    assert tried[0] == tried[1][1:2]
    np.testing.assert_allclose(tried[1], tried[0][0] * np.array([0.1, 1.0, 10.0]))
