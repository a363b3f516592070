"""Record what the public API answers, and compare the records of two checkouts.

    PYTHONPATH=old/src python benchmarks/golden.py record old_record
    PYTHONPATH=new/src python benchmarks/golden.py record new_record
    python benchmarks/golden.py compare old_record new_record --tol 1e-8

`record` runs small fits of every public estimator on one thread and writes their
coefficients, predictions and scores (numbers.npz), with warnings, errors, signatures,
tags and the command line's help (texts.json). `models` saves one fitted model of every
class; `load` reads them with another checkout and compares attributes and predictions.
Only public names are used, so that the script runs on any version.
"""

import argparse
import difflib
import inspect
import io
import json
import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.datasets import make_blobs
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut
from sklearn.utils import get_tags
from threadpoolctl import threadpool_limits

import sltr

FITS: dict[str, Callable[[], dict]] = {}
# Durations differ from run to run.
TIMES = re.compile(r"time|seconds")
# Where an object or a temporary file lies.
ADDRESS = re.compile(rf" at 0x[0-9a-f]+|{re.escape(tempfile.gettempdir())}/[\w./-]+")
COMMANDS = ("simulate", "fit", "tune", "predict", "compare", "report", "reproduce")
# Help as wide everywhere, and one thread in processes that joblib starts.
ENVIRONMENT = {
    "COLUMNS": "90",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}


# --- Problems -----------------------------------------------------------------------


def planted(n=60, shape=(6, 5, 4), *, seed=0, noise=0.3, mean=0.0):
    """Return X, y and new samples of a block of ones with a few single entries."""
    rng = np.random.default_rng(seed)
    coef = np.zeros(shape)
    coef[tuple(slice(0, (size + 1) // 2) for size in shape)] = 1.0
    coef.reshape(-1)[-2:] = (-1.5, 0.5)
    X = rng.normal(size=(n + 20, *shape)) + mean
    signal = (X - mean).reshape(len(X), -1) @ coef.reshape(-1)
    y = signal + noise * signal.std() * rng.normal(size=len(X)) + 2.0
    return X[:n], y[:n], X[n:]


def labelled(n=60, shape=(6, 5, 4), *, n_classes=2, seed=0, **options):
    """Return X, labels and new samples; classes are ranges of a planted response."""
    X, y, X_new = planted(n, shape, seed=seed, **options)
    cuts = np.quantile(y, np.arange(1, n_classes) / n_classes)
    return X, np.array(["a", "b", "c", "d"])[np.digitize(y, cuts)], X_new


def weights_of(n):
    """Return sample weights, some of them zero."""
    weight = np.random.default_rng(5).uniform(0.5, 2.0, size=n)
    weight[[0, n // 2]] = 0.0
    return weight


def mean_absolute(model, X, y):
    """Score a model; a callable as scikit-learn's `scoring` takes it."""
    return -float(np.abs(np.asarray(model.predict(X)) - y).mean())


# --- What a fit is recorded as ------------------------------------------------------


def fit_record(model: Any, X: Any, y: Any, X_new: Any, new=None, **options) -> dict:
    """Fit a model and return its attributes and predictions by name."""
    model.fit(X, y, **options)
    return state(model) | predictions(model, X_new, **(new or {}))


def state(model: Any) -> dict:
    """Return the fitted attributes of a model, `cv_results_` column by column."""
    names = [name for name in vars(model) if name.endswith("_") and name[0] != "_"]
    values = {name: getattr(model, name) for name in names if name != "cv_results_"}
    for name in [name for name, value in values.items() if _holds_arrays(value)]:
        parts = values.pop(name)
        values |= {f"{name}.{k}": part for k, part in enumerate(parts)}
    table = getattr(model, "cv_results_", {})
    columns = {
        f"cv.{name}": column
        for name, column in table.items()
        if name != "params" and not TIMES.search(name)
    }
    return values | columns


def _holds_arrays(value: Any) -> bool:
    return isinstance(value, list | tuple) and any(hasattr(v, "shape") for v in value)


def predictions(model: Any, X_new: Any, **options) -> dict:
    """Return what a fitted model says on new samples, by the method's name."""
    methods = ("predict", "decision_function", "predict_proba")
    return {
        name: getattr(model, name)(X_new, **options)
        for name in methods
        if hasattr(model, name)
    }


def as_numbers(value: Any) -> np.ndarray | None:
    """Return a value as an array of floats, or None where it is not made of numbers."""
    if isinstance(value, str | BaseEstimator) or value is None:
        return None
    if type(value).__module__.startswith("torch"):
        value = value.detach().cpu().numpy()
    try:
        found = np.asarray(value)
        if found.dtype.kind == "O":
            flat = [np.nan if entry is None else entry for entry in found.flat]
            if any(isinstance(entry, str) for entry in flat):
                return None
            return np.array(flat, dtype=float).reshape(found.shape)
        return found.astype(float) if found.dtype.kind in "biuf" else None
    except (TypeError, ValueError):
        return None


def as_text(value: Any) -> str:
    """Return a value that is not made of numbers as text, its floats to ten digits."""
    if isinstance(value, float | np.floating):
        return f"{float(value):.10g}"
    if isinstance(value, int | np.integer | str | None):
        return ADDRESS.sub("", str(value))
    if isinstance(value, dict):
        inside = (f"{key}: {as_text(entry)}" for key, entry in value.items())
        return "{" + ", ".join(inside) + "}"
    if isinstance(value, np.ma.MaskedArray | np.ndarray | list | tuple):
        return "(" + ", ".join(map(as_text, list(value))) + ")"
    return ADDRESS.sub("", " ".join(repr(value).split()))


# --- The fits -----------------------------------------------------------------------


def named(name: str, *arguments, **options):
    """Register a function as one or several fits, the function's arguments given."""

    def register(function):
        FITS[name] = lambda: function(*arguments, **options)
        return function

    return register


def fit(name: str, model: Any, problem: Any = planted, **options) -> None:
    """Register the fit of one model to one problem."""

    def run():
        X, y, X_new = problem()
        return fit_record(clone(model), X, y, X_new, **options)

    FITS[name] = run


def wide():
    """Return fewer samples than entries."""
    return planted(40, (6, 6, 4), seed=1)


def tall():
    """Return more samples than entries."""
    return planted(150, (5, 4, 3), seed=2)


def many():
    """Return labels of three classes."""
    return labelled(75, n_classes=3, seed=3)


def matrices():
    """Return samples of order two."""
    return planted(50, (8, 7), seed=4)


def single_precision():
    """Return float32 samples."""
    return tuple(np.asarray(part, np.float32) for part in planted(seed=6))


SMALL = {"lambdas_sparse": (0.0, 0.4), "lambdas_low": (0.0, 0.4)}
PLAIN = {"refine": (None,), **SMALL}


def sltr_fits() -> None:
    """Register the fits of SLTR's own classes in memory."""
    One, Tuned = sltr.SLTRRegressor, sltr.SLTRRegressorCV
    Label, TunedLabel = sltr.SLTRClassifier, sltr.SLTRClassifierCV
    for kind in (None, "scale", "reweight", "tucker", "cp", "sparse"):
        fit(f"one refine={kind}", One(1.0, 0.2, 0.2, refine=kind))
        fit(f"label refine={kind}", Label(1.0, 0.2, 0.2, refine=kind), labelled)
        if kind not in (None, "scale"):
            fit(
                f"cv only {kind}",
                Tuned(refine=(kind,), rule="best", cv=3, **SMALL),
                wide,
            )
    for given in (
        ("reweight", 3),
        ("tucker", (2, 1, 2), 0.1),
        ("cp", 2, 0.03),
        ("sparse", 0.03),
        ("sparse", None),
    ):
        fit(f"one refine={given}", One(1.0, 0.2, 0.2, refine=given), wide)
    fit("label three refine=cp given", Label(refine=("cp", 1, 0.1)), many)
    for coupling in ("average", "joint"):
        for solver in ("admm", "ppxa"):
            fit(
                f"one {coupling} {solver}",
                One(1.0, 0.3, 0.3, coupling=coupling, solver=solver, tol=1e-3),
                matrices,
            )
    for weights in ("unit", "radius", (0.3, 1.0)):
        fit(f"one weights={weights}", One(1.0, 0.4, 0.3, weights=weights))
    fit("one absolute", One(0.1, 0.05, 0.1, radius="absolute"))
    fit("one no intercept", One(fit_intercept=False), tall)
    fit("one tall", One("loo", 0.3, 0.1), tall)
    fit("one wide", One("loo", 0.1, 0.3), wide)
    fit("one cut short", One(1.0, 0.3, 0.3, tol=1e-12, max_iter=3))
    fit("one n_jobs", One(1.0, 0.3, 0.3, n_jobs=2))
    fit(
        "one weighted",
        One("loo", 0.2, 0.2, refine="scale"),
        sample_weight=weights_of(60),
    )
    fit(
        "label three weighted",
        Label("loo", 0.2, 0.2),
        many,
        sample_weight=weights_of(75),
    )
    fit("label few", Label(1.0), lambda: labelled(9, seed=7))
    for order, shape in enumerate(((12,), (6, 5), (4, 4, 3), (3, 3, 3, 2)), start=1):
        fit(f"cv order {order}", Tuned(**SMALL), lambda s=shape: planted(45, s))
    fit("cv default tall", Tuned(), tall)
    fit("cv default wide", Tuned(), wide)
    for rule in ("average", "vote", "best", "1se"):
        fit(f"cv rule={rule}", Tuned(rule=rule, **SMALL))
        fit(
            f"label cv rule={rule}",
            TunedLabel(rule=rule, refine=(None, "tucker", "sparse")),
            labelled,
        )
    fit("label cv default two", TunedLabel(), labelled)
    fit("label cv default three", TunedLabel(cv=3), many)
    fit("label cv few", TunedLabel(cv=3, **PLAIN), lambda: labelled(12))
    fit("label cv single-class folds", TunedLabel(cv=KFold(5), **PLAIN), sorted_labels)
    paper = {"radius": "absolute", "lambdas_sparse": "paper", "lambdas_low": "paper"}
    fit(
        "cv paper", Tuned("paper", refine=(None,), rule="best", cv=3, **paper), matrices
    )
    fit("cv joint", Tuned(coupling="joint", rule="best", cv=3, **PLAIN))
    fit("cv ppxa", Tuned([1.0], solver="ppxa", cv=3, **PLAIN), matrices)
    fit("cv radius weights", Tuned(weights="radius", **PLAIN))
    fit("cv no intercept", Tuned(fit_intercept=False, cv=3))
    fit("cv scoring by name", Tuned(scoring="neg_median_absolute_error"))
    fit("cv scoring callable", Tuned(scoring=mean_absolute, cv=3, **SMALL))
    fit(
        "label cv scoring auc",
        TunedLabel(scoring="roc_auc", cv=3, refine=(None, "scale")),
        labelled,
    )
    fit("cv n_jobs", Tuned(n_jobs=2, cv=3, **PLAIN))
    fit("cv leave one out", Tuned(cv=LeaveOneOut(), **PLAIN), lambda: wide())
    fit("cv weighted", Tuned(cv=3), sample_weight=weights_of(60))
    groups = np.repeat(np.arange(12), 5)
    fit("cv groups", Tuned(cv=GroupKFold(4)), groups=groups)
    fit(
        "label cv groups weighted",
        TunedLabel(cv=GroupKFold(4), refine=(None, "reweight", "cp")),
        labelled,
        groups=groups,
        sample_weight=weights_of(60),
    )
    fit("cv float32", Tuned(), single_precision)
    fit("one float32", One(1.0, 0.2, 0.2), single_precision)
    fit("cv flat rows", Tuned(feature_shape=(6, 5, 4), cv=3), flat_rows)


def sorted_labels():
    """Return labels in order, so that folds without shuffling hold a single class."""
    X, y, X_new = labelled(50, seed=8)
    order = np.argsort(y, kind="stable")
    return X[order], y[order], X_new


def flat_rows():
    """Return samples as rows of 120 numbers."""
    X, y, X_new = planted()
    return X.reshape(len(X), -1), y, X_new.reshape(len(X_new), -1)


def equal_rows():
    """Return samples each of which occurs three times."""
    X, y, X_new = planted(20)
    return np.repeat(X, 3, axis=0), np.repeat(y, 3), X_new


def in_units(exponent, response=0):
    """Return a problem whose numbers are multiplied by powers of two."""
    X, y, X_new = planted()
    return X * 2.0**exponent, y * 2.0**response, X_new * 2.0**exponent


def odd_samples() -> None:
    """Register fits to samples with large means, equal rows and unusual units."""
    models = {
        "one": sltr.SLTRRegressor("loo", 0.2, 0.2),
        "cv": sltr.SLTRRegressorCV(cv=3, **SMALL),
        "ridge": sltr.TensorRidge(),
        "cp": sltr.CPRegressor(2),
        "remurs": sltr.RemursRegressor(0.5, 0.5),
    }
    problems = {
        "means of 1e6": lambda: planted(mean=1e6),
        "equal rows": equal_rows,
        "units 2^40": lambda: in_units(40),
        "units 2^-40": lambda: in_units(-40, 40),
    }
    for about, problem in problems.items():
        for name, model in models.items():
            fit(f"{name} {about}", model, problem)
    fit("label means of 1e6", sltr.SLTRClassifier(), lambda: labelled(mean=1e6))
    fit("one constant response", sltr.SLTRRegressor(), constant_response)
    fit("cv constant response", sltr.SLTRRegressorCV(cv=3), constant_response)


def constant_response():
    """Return equal responses."""
    X, y, X_new = planted()
    return X, np.full_like(y, 3.0), X_new


def several(n=50, shape_out=(3, 2), seed=21):
    """Return samples with tensors of responses, which share a pattern."""
    X, y, X_new = planted(n, (5, 4, 3), seed=seed)
    rng = np.random.default_rng(seed)
    Y = np.multiply.outer(y, 1.0 + np.arange(6.0).reshape(3, 2)[: shape_out[0]])
    Y = Y.reshape(n, *shape_out)
    return X, Y + rng.normal(size=Y.shape), X_new


def unmeasured():
    """Return tensors of responses of which some were not measured."""
    X, Y, X_new = several()
    Y[:7, 0, 0], Y[3, ...] = np.nan, np.nan
    return X, Y, X_new


def numbers_of_events():
    """Return counts as responses."""
    X, y, X_new = planted(70, (5, 4, 3), seed=22)
    rate = np.exp((y - y.mean()) / y.std() / 2.0)
    return X, np.random.default_rng(22).poisson(rate).astype(float), X_new


def responses_and_likelihoods() -> None:
    """Register fits of several responses, and by the likelihood of labels or counts."""
    One, Tuned = sltr.SLTRRegressor, sltr.SLTRRegressorCV
    Label, TunedLabel = sltr.SLTRClassifier, sltr.SLTRClassifierCV
    for kind in (None, "scale", "reweight", "tucker", "cp", "sparse"):
        given = {"refine": kind}
        fit(f"responses {kind}", One(1.0, 0.2, 0.2, **given), several)
        counts = {**given, "refine": None} if kind == "scale" else given
        fit(
            f"counts {kind}",
            One("loo", 0.2, 0.2, family="poisson", **counts),
            numbers_of_events,
        )
    fit("responses apart", One(responses="separate", refine="cp"), several)
    fit("responses given", One(refine=("cp", 2, 0.1)), several)
    fit("responses slices", One(1.0, slices=0, positive=True), several)
    fit("responses lost", One(missing_y="ridge"), unmeasured)
    few = {"cv": 3, **SMALL}
    fit("cv responses", Tuned(**few), several)
    fit("cv responses shared", Tuned(responses="shared", **few), several)
    fit("cv responses best", Tuned(rule="best", **few), several)
    fit("cv responses 1se", Tuned(rule="1se", **few), several)
    fit("cv responses lost", Tuned(missing_y="ridge", **few), unmeasured)
    fit("cv counts", Tuned(family="poisson", **few), numbers_of_events)
    fit(
        "cv counts best", Tuned(family="poisson", rule="best", **few), numbers_of_events
    )
    for family, problem in {"binomial": labelled, "multinomial": many}.items():
        fit(f"label {family}", Label(family=family), problem)
        fit(f"label {family} cp", Label(family=family, refine="cp"), problem)
        fit(f"label cv {family}", TunedLabel(family=family, **few), problem)
    fit("label three shared", Label(responses="shared", refine="tucker"), many)
    fit("label balanced", Label(class_weight="balanced"), labelled)


def maps_in_front() -> None:
    """Register fits with masks, units, smooth modes, gaps, covariates and structure."""
    One, Tuned = sltr.SLTRRegressor, sltr.SLTRRegressorCV
    few, age = {"cv": 3, **SMALL}, np.arange(60.0) % 7
    mask = np.ones((6, 5, 4), bool)
    mask[4:], mask[0, 0] = False, False
    table = np.array([[a, "fmt"[int(a) % 3]] for a in age], dtype=object)
    weight = 1.0 + np.arange(120.0).reshape(6, 5, 4) % 3
    options: dict[str, dict] = {
        "mask": {"mask": mask},
        "units auto": {"standardize": "auto"},
        "entries": {"standardize": "entries"},
        "smooth": {"smooth": {0: "auto", 2: 1.0}, "mask": mask},
        "slices": {"slices": (0,), "standardize": "slices", "mask": mask},
        "entry weights": {"entry_weights": weight, "positive": True},
    }
    for name, given in options.items():
        fit(f"one {name}", One(1.0, 0.2, 0.2, **given))
        fit(f"cv {name}", Tuned(**given, **few))
    for missing in ("mean", "low_rank"):
        fit(f"cv {missing}", Tuned(missing=missing, **few), with_gaps)
    new = {"covariates": table[:20]}
    fit("one covariates", One(refine="tucker"), covariates=table, new=new)
    fit("cv covariates", Tuned(**few), covariates=table, new=new)
    groups = np.repeat(np.arange(12), 5)
    fit("cv units groups", Tuned(standardize="auto", **few), groups=groups)
    fit("cv default groups", Tuned(), groups=groups)
    fit("cv noise", Tuned(cv=3), only_noise)
    FITS["cv zarr mask"] = _stored(
        Tuned(mask=mask, memory_limit="1MB", **few), as_zarr, 300, (6, 5, 4)
    )
    for kind in ("reweight", "cp", "tucker", "sparse"):
        given = {"refine": kind, "memory_limit": "2MB"}
        FITS[f"one zarr {kind}"] = _stored(One(**given), as_zarr, 90, (12, 11, 10))


def with_gaps():
    """Return samples with missing entries."""
    X, y, X_new = planted()
    X[np.random.default_rng(23).random(X.shape) < 0.1] = np.nan
    return X, y, X_new


def only_noise():
    """Return responses that have nothing to do with the samples."""
    X, y, X_new = planted()
    return X, np.random.default_rng(24).permutation(y), X_new


@named("test regression", sltr.SLTRRegressorCV)
@named("test labels", sltr.SLTRClassifierCV)
def permutation(make):
    """Return a permutation test of a tuned model."""
    X, y, _ = labelled() if "Class" in make.__name__ else planted()
    model = make(cv=3, refine=(None, "cp"), **SMALL).fit(X, y)
    found = sltr.inference.permutation_test(model, X, y, n=9, random_state=0)
    return dict(vars(found))


def peer_fits() -> None:
    """Register the fits of all peers, tuned and not."""
    weight, groups = weights_of(60), np.repeat(np.arange(12), 5)
    grouped = {"cv": GroupKFold(3)}
    fit("ridge", sltr.TensorRidge())
    fit("ridge weighted", sltr.TensorRidge(2.0), sample_weight=weight)
    fit("elementary", sltr.ElemRidge(1.0, 0.2))
    fit("elementary absolute", sltr.ElemRidge("loo", 0.1, radius="absolute"))
    fit("lasso", sltr.TensorLasso(0.1))
    fit("lasso cv", sltr.TensorLassoCV(n_alphas=20))
    fit(
        "lasso cv groups",
        sltr.TensorLassoCV(n_alphas=10, **grouped),
        groups=groups,
        sample_weight=weight,
    )
    fit("elastic net", sltr.TensorElasticNet(0.1), sample_weight=weight)
    fit("elastic net cv", sltr.TensorElasticNetCV([0.05, 0.2, 0.5]))
    fit("remurs", sltr.RemursRegressor(0.5, 1.0, 0.1))
    fit("remurs tall", sltr.RemursRegressor(2.0, 2.0), tall)
    fit("remurs cv", sltr.RemursRegressorCV(n_alphas=2, cv=3))
    fit(
        "remurs cv groups",
        sltr.RemursRegressorCV([0.5, 2.0], [1.0], **grouped),
        groups=groups,
        sample_weight=weight,
    )
    fit("remurs label", sltr.RemursClassifier(0.2, 0.2), labelled)
    fit("remurs label three", sltr.RemursClassifier(0.2, 0.2), many)
    fit("remurs label cv", sltr.RemursClassifierCV(n_alphas=2, cv=3), labelled)
    fit(
        "remurs label cv three",
        sltr.RemursClassifierCV([0.2], [0.1, 0.5], cv=3, scoring="accuracy"),
        many,
    )
    fit("sturm", sltr.SturmRegressor(0.5, 1.0))
    fit("sturm mode 0", sltr.SturmRegressor(0.5, 1.0, 0.1, tube_mode=0))
    fit("sturm cv", sltr.SturmRegressorCV(n_alphas=2, cv=3), matrices)
    fit("surf", sltr.SURFRegressor(2))
    fit("surf weighted", sltr.SURFRegressor(1, alpha=1.0), sample_weight=weight)
    fit("surf cv", sltr.SURFRegressorCV(2, epsilons=(0.1,), cv=3))
    fit("surf cv 1se", sltr.SURFRegressorCV(2, epsilons=(0.1,), rule="1se"))
    fit("tpgd", sltr.TPGDRegressor(2, sparsity=0.5))
    fit("tpgd tuples", sltr.TPGDRegressor((2, 1, 2), sparsity=(0.5, 1.0, 0.7)))
    fit("tpgd cv", sltr.TPGDRegressorCV((1, 2), sparsities=(0.5, 1.0), cv=2, tol=1e-3))
    fit(
        "tpgd cv 1se groups",
        sltr.TPGDRegressorCV((1,), sparsities=(0.3, 1.0), rule="1se", **grouped),
        groups=groups,
    )
    fit("hrtrr", sltr.HRTRRRegressor(2))
    fit("ortrr", sltr.ORTRRRegressor(4))
    fit("ortrr weighted", sltr.ORTRRRegressor(3), sample_weight=weight)
    factor_fits(weight, groups)


def factor_fits(weight: np.ndarray, groups: np.ndarray) -> None:
    """Register CP and Tucker regression with their families and covariates."""
    aside = np.random.default_rng(9).normal(size=(80, 2))
    beside = {"covariates": aside[:60], "new": {"covariates": aside[60:]}}
    fit("cp", sltr.CPRegressor(2))
    fit("cp bic", sltr.CPRegressor("bic"))
    fit("cp l1", sltr.CPRegressor(2, alpha_l1=0.02), sample_weight=weight)
    fit("cp covariates", sltr.CPRegressor(1, alpha_ridge=0.1), **beside)
    fit("cp order 4", sltr.CPRegressor(2), lambda: planted(80, (4, 3, 3, 2)))
    fit("tucker", sltr.TuckerRegressor(2))
    fit("tucker tuple", sltr.TuckerRegressor((2, 1, 2)), sample_weight=weight)
    fit("tucker bic", sltr.TuckerRegressor("bic", candidates=(1, (2, 2, 1))))
    fit("tucker covariates", sltr.TuckerRegressor(1), **beside)
    for family, problem in (("poisson", counts), ("binomial", zeros_and_ones)):
        fit(f"cp {family}", sltr.CPRegressor(1, family=family), problem)
        fit(
            f"cp {family} l1 covariates",
            sltr.CPRegressor(
                2,
                family=family,
                alpha_l1=0.01,
                alpha_ridge=0.1,
                n_restarts=1,
                max_iter=30,
            ),
            problem,
            **beside,
        )
        fit(
            f"tucker {family} covariates",
            sltr.TuckerRegressor(1, family=family),
            problem,
            **beside,
        )
    fit("cp label", sltr.CPClassifier(1, alpha_ridge=0.1), labelled)
    fit("cp label bic", sltr.CPClassifier(ranks=(1, 2)), labelled, **beside)
    few = {"n_restarts": 2, "cv": 3}
    fit("cp cv", sltr.CPRegressorCV((1, 2), **few))
    fit(
        "cp cv 1se groups",
        sltr.CPRegressorCV(
            (1, 2), alphas_ridge=(0.01,), rule="1se", n_restarts=2, cv=GroupKFold(3)
        ),
        groups=groups,
        **beside,
    )
    fit("cp cv poisson", sltr.CPRegressorCV((1,), family="poisson", **few), counts)
    fit("tucker cv", sltr.TuckerRegressorCV((1, 2), **few))
    fit(
        "tucker cv weighted scoring",
        sltr.TuckerRegressorCV(
            (1, (2, 1, 1)), scoring="neg_mean_absolute_error", **few
        ),
        sample_weight=weight,
    )


def counts():
    """Return counts with a log-linear mean."""
    X, y, X_new = planted(noise=0.0)
    return X, np.random.default_rng(10).poisson(np.exp(0.4 * (y - 2) / y.std())), X_new


def zeros_and_ones():
    """Return responses of 0 and 1."""
    X, y, X_new = planted(noise=1.0)
    return X, (y > np.median(y)).astype(float), X_new


def elsewhere() -> None:
    """Register fits to samples in files, on a cluster and in other array libraries."""
    limit = {"memory_limit": "1MB"}
    problems = {
        "wide": ("loo", 60, (13, 12, 14)),
        "tall": ("loo", 2500, (5, 4, 3)),
        "by conjugate gradients": (1000.0, 500, (8, 7, 5)),
    }
    places = {"memmap": as_memmap, "zarr": as_zarr, "h5py": as_h5py, "dask": as_dask}
    for where, held in places.items():
        for size, (epsilon, n, shape) in problems.items():
            if "gradients" in size and where in ("zarr", "h5py"):
                continue  # they read chunk by chunk, very often
            one = sltr.SLTRRegressor(epsilon, 0.2, 0.2, refine="scale", **limit)
            FITS[f"one {where} {size}"] = _stored(one, held, n, shape)
            if where == "h5py":
                continue
            grid = epsilon if epsilon == "loo" else [300.0, epsilon]
            tuned = sltr.SLTRRegressorCV(grid, cv=3, **SMALL, **limit)
            FITS[f"cv {where} {size}"] = _stored(tuned, held, n, shape)
    FITS["label cv zarr"] = _stored(
        sltr.SLTRClassifierCV(cv=3, **SMALL, **limit),
        as_zarr,
        80,
        (6, 5, 4),
        labels=True,
    )
    FITS["label zarr"] = _stored(
        sltr.SLTRClassifier("loo", 0.2, 0.2, **limit),
        as_zarr,
        90,
        (4, 3, 2),
        labels=True,
    )
    for name, model in {
        "one": sltr.SLTRRegressor("loo", 0.3, 0.2, refine="tucker"),
        "cv": sltr.SLTRRegressorCV(cv=3),
        "label cv": sltr.SLTRClassifierCV(cv=3, **SMALL),
        "ridge": sltr.TensorRidge(),
        "cp": sltr.CPRegressor(2),
        "remurs": sltr.RemursRegressor(0.5, 0.5),
    }.items():
        FITS[f"{name} torch"] = _with_torch(model, labels=name.startswith("label"))


def _stored(model, held, n, shape, labels=False):
    def run():
        X, y, X_new = (labelled if labels else planted)(n, shape, seed=11, mean=0.5)
        with tempfile.TemporaryDirectory() as folder:
            return fit_record(clone(model), held(X, folder), y, X_new)

    return run


def _with_torch(model, labels):
    def run():
        import torch

        torch.set_num_threads(1)
        X, y, X_new = labelled() if labels else planted()
        y = y if labels else torch.asarray(y)
        return fit_record(clone(model), torch.asarray(X), y, torch.asarray(X_new))

    return run


def as_memmap(X, folder):
    """Return samples as a memory map of a .npy file."""
    path = Path(folder) / "X.npy"
    np.save(path, X)
    return np.load(path, mmap_mode="r")


def as_zarr(X, folder):
    """Return samples as a Zarr array in a folder."""
    import zarr

    chunks = (len(X) // 5, *(-(-size // 2) for size in X.shape[1:]))
    path = Path(folder) / "X.zarr"
    held = zarr.create_array(path, shape=X.shape, chunks=chunks, dtype=X.dtype)
    held[...] = X
    return held


def as_h5py(X, folder):
    """Return samples as a data set of an HDF5 file."""
    import h5py

    return h5py.File(Path(folder) / "X.h5", "w").create_dataset("X", data=X)


def as_dask(X, folder):
    """Return samples as a Dask array that is computed on one thread."""
    import dask
    import dask.array as da

    dask.config.set(scheduler="synchronous")
    return da.from_array(X, chunks=(len(X) // 4, *X.shape[1:]))


@named("estimate average", {})
@named("estimate joint", {"coupling": "joint"})
@named("estimate ppxa", {"solver": "ppxa", "tol": 1e-3})
@named("estimate weights", {"weights": (0.5, 2.0)})
def estimate(options):
    """Estimate a small grid about a random tensor."""
    pilot = np.random.default_rng(12).normal(size=(5, 4, 3))
    sparse, low = np.array([0.0, 0.2, 0.8]), np.array([1.0, 0.5, 1.5])
    grid = asdict(sltr.estimate(pilot, sparse, low, **options))
    single = asdict(sltr.estimate(pilot, 0.3, 1.0, **options))
    return grid | {f"single.{name}": value for name, value in single.items()}


@named("path relative", {})
@named("path absolute", {"radius": "absolute", "epsilons": [0.5, 2.0]})
@named("path joint weighted", {"coupling": "joint", "sample_weight": weights_of(60)})
def path(options):
    """Fit a whole grid without folds."""
    X, y, _ = planted()
    found = sltr.sltr_path(X, y, **options)
    return {name: getattr(found, name) for name in vars(found)}


@named("partial fit", 30, "loo")
@named("partial fit given penalty", 30, 1.0)
@named("partial fit in many chunks", 7, "loo")
def partial_fit(size, epsilon):
    """Learn from chunks that go by."""
    X, y, X_new = tall()
    model, weight = sltr.SLTRRegressor(epsilon, 0.2, 0.2), weights_of(len(y))
    for k in range(0, len(y), size):
        rows = slice(k, k + size)
        model.partial_fit(X[rows], y[rows], weight[rows], solve=k + size >= len(y))
    return state(model) | predictions(model, X_new)


@named("partial fit labels", 2)
@named("partial fit three labels", 3)
def partial_fit_labels(n_classes):
    """Learn labels from chunks that go by."""
    X, y, X_new = labelled(120, (4, 3, 2), n_classes=n_classes)
    model = sltr.SLTRClassifier("loo", 0.2, 0.2)
    for k in range(0, len(y), 40):
        model.partial_fit(X[k : k + 40], y[k : k + 40], classes=np.unique(y))
    return state(model) | predictions(model, X_new)


@named("data regression", "make_tensor_regression")
@named("data classification", "make_tensor_classification")
def simulated(name):
    """Draw simulated data of every kind of truth."""
    kinds = ("cp", "tucker", "block", "blob", "sparse", "paper", "paper_code")
    values = {}
    for kind in kinds:
        data = getattr(sltr.datasets, name)(
            (6, 5, 4), 8, truth=kind, correlation=0.3, random_state=0
        )
        values |= {f"{kind}.{key}": data[key] for key in ("X", "y", "coef")}
    return values


@named("metrics")
def metrics():
    """Compare two tensors by every public metric."""
    rng = np.random.default_rng(13)
    coef, truth = rng.normal(size=(2, 5, 4, 3)) * (rng.random((2, 5, 4, 3)) < 0.5)
    values = {
        name: getattr(sltr.metrics, name)(coef, truth)
        for name in ("estimation_error", "rank_error", "support_f1")
    }
    return values | {"bound": sltr.error_bound((5, 4, 3), 0.1, 0.2, (2, 2, 1))}


@named("cli compare regression", "regression", "sltr,lasso,elem_ridge")
@named("cli compare labels", "labels", "sltr")
@named("cli compare zeros and ones", "binary", "sltr,lasso")
def command_compare(kind, methods):
    """Compare methods on a file by nested cross-validation."""
    with tempfile.TemporaryDirectory() as folder:
        data = _data_file(folder, kind)
        options = ("--methods", methods, "--folds", "3", "--json")
        return flat(json.loads(command("compare", data, *options)))


@named("cli tune regression", "regression", ())
@named("cli tune labels", "labels", ("--epsilons", "1,10", "--folds", "3"))
@named("cli tune ridge folds", "regression", ("--method", "ridge", "--folds", "4"))
@named("cli tune ridge groups", "regression", ("--method", "ridge", "--groups", "g"))
@named("cli tune elementary", "regression", ("--method", "elem_ridge", "--folds", "3"))
@named("cli tune lasso labels", "binary", ("--method", "lasso", "--folds", "3"))
@named("cli tune cp labels", "few", ("--method", "cp", "--folds", "2"))
@named("cli tune ortrr", "few numbers", ("--method", "ortrr", "--folds", "2"))
def command_tune(kind, options):
    """Tune a method on a file, and predict with the model that was saved."""
    with tempfile.TemporaryDirectory() as folder:
        data, model = _data_file(folder, kind), f"{folder}/m.sltr"
        said = command("tune", data, "--out", model, *options, "--json")
        predicted = command("predict", model, data, "--json")
        return (
            flat(json.loads(said), "tune.")
            | flat(json.loads(predicted), "predict.")
            | state(sltr.load(model))
        )


@named("cli fit", "regression", ("--refine", "scale"))
@named("cli fit labels", "labels", ("--lambda-sparse", "0.3"))
def command_fit(kind, options):
    """Fit SLTR to a file."""
    with tempfile.TemporaryDirectory() as folder:
        data = _data_file(folder, kind)
        said = command("fit", data, "--out", f"{folder}/m.sltr", *options, "--json")
        return flat(json.loads(said)) | state(sltr.load(f"{folder}/m.sltr"))


def _data_file(folder, kind):
    n, shape = (24, (3, 3)) if kind.startswith("few") else (48, (5, 4, 3))
    numbers = kind in ("regression", "few numbers")
    X, y, _ = (planted if numbers else labelled)(n, shape)
    y = (y == "b").astype(int) if kind == "binary" else y
    np.savez(f"{folder}/data.npz", X=X, y=y, g=np.arange(n) // 4)
    return f"{folder}/data.npz"


def command(*arguments: str) -> str:
    """Run a command of the command line and return what it printed."""
    from sltr.cli import main

    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(arguments)
    if status:
        raise RuntimeError(err.getvalue())
    return out.getvalue()


def flat(value: Any, name: str = "") -> dict:
    """Return the leaves of a JSON value by their path, without durations."""
    if isinstance(value, dict):
        inside = [(f"{name}.{key}", entry) for key, entry in value.items()]
    elif isinstance(value, list):
        inside = [(f"{name}.{k}", entry) for k, entry in enumerate(value)]
    else:
        return {name: value}
    return {
        key: leaf
        for path, entry in inside
        for key, leaf in flat(entry, path).items()
        if not TIMES.search(key)
    }


# --- Errors and surfaces ------------------------------------------------------------


def bad_inputs() -> dict[str, Callable[[], Any]]:
    """Return calls that have to fail with a helpful text."""
    X, y, _ = planted(20, (4, 3))
    One, Tuned = sltr.SLTRRegressor, sltr.SLTRRegressorCV
    holes = np.where(X > 2, np.nan, X)
    blobs, labels = make_blobs(20, random_state=0)
    fitted = One(1.0).fit(X, y)
    return {
        "NaN in X": lambda: One().fit(holes, y),
        "NaN in y": lambda: Tuned().fit(X, np.where(y > 2, np.nan, y)),
        "lengths differ": lambda: One().fit(X, y[:-1]),
        "no modes": lambda: One().fit(y, y),
        "one sample": lambda: One().fit(X[:1], y[:1]),
        "complex": lambda: One().fit(X + 1j, y),
        "another shape": lambda: fitted.predict(X[:, :2]),
        "not fitted": lambda: One().predict(X),
        "feature_shape": lambda: One(feature_shape=(5, 5)).fit(X.reshape(20, -1), y),
        "epsilon negative": lambda: One(-1.0).fit(X, y),
        "epsilon text": lambda: One("best").fit(X, y),
        "radius": lambda: One(radius="huge").fit(X, y),
        "radius negative": lambda: One(1.0, -0.1).fit(X, y),
        "coupling": lambda: One(coupling="loose").fit(X, y),
        "weights": lambda: One(weights="heavy").fit(X, y),
        "solver": lambda: One(solver="fista").fit(X, y),
        "refine": lambda: One(refine="polish").fit(X, y),
        "refine tuple": lambda: One(refine=("cp", 0, 0.1)).fit(X, y),
        "rule": lambda: Tuned(rule="worst").fit(X, y),
        "refine of cv": lambda: Tuned(refine=("polish",)).fit(X, y),
        "epsilons": lambda: Tuned("some").fit(X, y),
        "lambdas": lambda: Tuned(lambdas_low=()).fit(X, y),
        "scoring": lambda: Tuned(scoring=3).fit(X, y),
        "scoring name": lambda: Tuned(scoring="nice").fit(X, y),
        "too many folds": lambda: Tuned(cv=50).fit(X, y),
        "groups missing": lambda: Tuned(cv=GroupKFold(3)).fit(X, y),
        "weights negative": lambda: One().fit(X, y, -np.ones(20)),
        "weights zero": lambda: One().fit(X, y, np.zeros(20)),
        "memory limit": lambda: One(memory_limit="little").fit(X, y),
        "one class": lambda: sltr.SLTRClassifier().fit(X, np.zeros(20)),
        "continuous labels": lambda: sltr.SLTRClassifier().fit(X, y),
        "classes of chunks": lambda: sltr.SLTRClassifier().partial_fit(X, y > 2),
        "remurs alpha": lambda: sltr.RemursRegressor(-1.0).fit(X, y),
        "sturm alphas": lambda: sltr.SturmRegressorCV([-1.0]).fit(X, y),
        "cp rank": lambda: sltr.CPRegressor(0).fit(X, y),
        "cp family": lambda: sltr.CPRegressor(1, family="gamma").fit(X, y),
        "cp counts": lambda: sltr.CPRegressor(1, family="poisson").fit(X, y - 9),
        "cp covariates": lambda: sltr.CPRegressor(1).fit(X, y, covariates=y[:3]),
        "tucker ranks": lambda: sltr.TuckerRegressor((1, 1, 1)).fit(X, y),
        "surf components": lambda: sltr.SURFRegressor(0).fit(X, y),
        "tpgd sparsity": lambda: sltr.TPGDRegressor(sparsity=2.0).fit(X, y),
        "lasso alpha": lambda: sltr.TensorLasso(-1.0).fit(X, y),
        "lasso two dimensions": lambda: sltr.TensorLasso(0.1).fit(blobs, labels[:3]),
        "estimate radii": lambda: sltr.estimate(X[0], -1.0, 1.0),
        "estimate vector": lambda: sltr.estimate(3.0, 1.0, 1.0),
        "load nothing": lambda: sltr.load("nowhere.sltr"),
        "save unfitted": lambda: sltr.save(One(), "nowhere/model.sltr"),
        "data truth": lambda: sltr.datasets.make_tensor_regression(
            (3, 3), 5, truth="x"
        ),
    }


def error_of(call: Callable[[], Any]) -> str:
    """Return the text of the error a call ends with."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except Exception as error:
        text = ADDRESS.sub("", " ".join(str(error).split()))
        return f"{type(error).__name__}: {text}"
    return "no error"


def signatures() -> dict[str, str]:
    """Return the signatures of all public classes, methods and functions."""
    from sltr import plotting

    found = {"__all__": " ".join(sorted(sltr.__all__))}
    for module in (sltr, sltr.datasets, sltr.metrics, plotting):
        for name in public_names(module):
            thing, where = getattr(module, name), f"{module.__name__}.{name}"
            if inspect.ismodule(thing):
                continue
            found[where] = _signature(thing)
            estimates = inspect.isclass(thing) and issubclass(thing, BaseEstimator)
            if estimates or (inspect.isclass(thing) and not is_dataclass(thing)):
                named = [n for n in dir(thing) if n[0] != "_"]
                methods = [n for n in named if callable(getattr(thing, n))]
                found |= {
                    f"{where}.{method}": _signature(getattr(thing, method))
                    for method in methods
                    if not method.startswith("set_") and "metadata" not in method
                }
    found["sltr.report"] = _signature(sltr.report)
    return found


def public_names(module: Any) -> list[str]:
    """Return a module's `__all__`, or the functions it defines."""
    functions = inspect.getmembers(module, inspect.isfunction)
    made_here = [n for n, f in functions if f.__module__ == module.__name__]
    return getattr(module, "__all__", [n for n in made_here if n[0] != "_"])


def _signature(thing: Any) -> str:
    """Return the parameters; what comes back, the fits show."""
    try:
        parameters = inspect.signature(thing).replace(
            return_annotation=inspect.Signature.empty
        )
        return ADDRESS.sub("", str(parameters))
    except (TypeError, ValueError):
        return type(thing).__name__


def public_classes() -> list[type]:
    """Return the public estimator classes."""
    things = [getattr(sltr, name) for name in sltr.__all__]
    return [
        thing
        for thing in things
        if inspect.isclass(thing) and issubclass(thing, BaseEstimator)
    ]


def helps() -> dict[str, str]:
    """Return the help of the command line and of each of its commands."""
    found = {"sltr": command("--help")}
    return found | {name: command(name, "--help") for name in COMMANDS}


# --- Record, compare, save and load -------------------------------------------------


def record(folder: Path, only: str) -> None:
    """Run the fits and write numbers.npz and texts.json into a folder."""
    numbers, texts = {}, {"fits": {}, "warnings": {}, "seconds": {}}
    chosen = [name for name in FITS if re.search(only, name)]
    for name in chosen:
        start = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                values = FITS[name]()
            except Exception as error:
                values = {"error": f"{type(error).__name__}: {error}"}
                print(f"{name}: {values['error']}")
        for key, value in values.items():
            array = as_numbers(value)
            if array is not None:
                numbers[f"{name}/{key}"] = array
            elif not isinstance(value, BaseEstimator):
                texts["fits"][f"{name}/{key}"] = as_text(value)
        said = {ADDRESS.sub("", " ".join(str(w.message).split())) for w in caught}
        texts["warnings"][name] = sorted(said)
        texts["seconds"][name] = round(time.perf_counter() - start, 2)
    if not only:
        texts["errors"] = {name: error_of(bad) for name, bad in bad_inputs().items()}
        texts["signatures"] = signatures()
        texts["tags"] = {c.__name__: as_text(get_tags(c())) for c in public_classes()}
        texts["help"] = helps()
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / "numbers.npz", **numbers)
    (folder / "texts.json").write_text(json.dumps(texts, indent=1, ensure_ascii=False))
    spent = sum(texts["seconds"].values())
    print(f"{len(chosen)} fits, {len(numbers)} arrays, {spent:.0f} s in {folder}")


def difference(old: np.ndarray, new: np.ndarray) -> float:
    """Return the largest difference relative to the largest entry of the old array."""
    if old.shape != new.shape:
        return np.inf
    if old.size == 0 or np.array_equal(old, new, equal_nan=True):
        return 0.0
    if not np.array_equal(np.isnan(old), np.isnan(new)):
        return np.inf
    size = np.nanmax(np.abs(old))
    return float(np.nanmax(np.abs(new - old)) / (size if size > 0 else 1.0))


def is_ranking(ranks: np.ndarray, scores: np.ndarray, tol: float) -> bool:
    """Say whether ranks order scores, whatever the order of those that tie to `tol`."""
    if ranks.shape != scores.shape:
        return False
    steps = np.diff(scores[np.argsort(ranks, kind="stable")])
    return bool((steps <= tol * abs(scores).max()).all())


def compare(old: Path, new: Path, tol: float, only: str) -> int:
    """Print how two records differ; return 1 if a difference is above `tol`."""
    first, second = (dict(np.load(f / "numbers.npz")) for f in (old, new))
    said, says = (json.loads((f / "texts.json").read_text()) for f in (old, new))
    names = [n for n in said["seconds"] if re.search(only, n) and n in says["seconds"]]
    differing = 0
    for name in names:
        at = f"{name}/"
        keys = sorted(k for k in first.keys() | second.keys() if k.startswith(at))
        gaps = {
            key.removeprefix(at): difference(first[key], second[key])
            if key in first and key in second
            else np.inf
            for key in keys
        }
        if gaps.get("cv.rank_test_score", 0.0) > tol:
            scores = first[at + "cv.mean_test_score"]
            if is_ranking(second[at + "cv.rank_test_score"], scores, tol):
                gaps["cv.rank_test_score"] = 0.0
        above = {key: gap for key, gap in gaps.items() if gap > tol}
        texts = [
            sorted(
                f"{k.removeprefix(at)}: {v}"
                for k, v in part.items()
                if k.startswith(at)
            )
            + [f"warning: {text}" for text in source["warnings"][name]]
            for part, source in ((said["fits"], said), (says["fits"], says))
        ]
        worst = max(gaps.values(), default=0.0)
        told = ", ".join(f"{key} {gap:.1e}" for key, gap in above.items())
        mark = "DIFFERS" if above or texts[0] != texts[1] else "equal"
        print(f"{mark:8}{name:36}{worst:9.1e}  {told}")
        differing += mark == "DIFFERS"
        show_texts(*texts)
    print(f"{differing} of {len(names)} fits differ by more than {tol:g}")
    kinds = ("errors", "signatures", "tags", "help")
    changed = 0
    for kind in kinds:
        if kind not in said or kind not in says or only:
            continue
        for key in sorted(said[kind].keys() | says[kind].keys()):
            a, b = said[kind].get(key, "(absent)"), says[kind].get(key, "(absent)")
            if a != b:
                changed += 1
                print(f"{kind}: {key}")
                show_texts(a.splitlines(), b.splitlines())
    print(f"{changed} of the other texts differ")
    return int(differing + changed > 0)


def show_texts(old: list[str], new: list[str]) -> None:
    """Print the lines that differ."""
    for line in difflib.unified_diff(old, new, "old", "new", n=0, lineterm=""):
        if not line.startswith(("---", "+++", "@@")):
            print(f"    {line[:300]}")


def small_models() -> dict[str, tuple[Any, np.ndarray]]:
    """Return an unfitted cheap model of every public class, with its kind of response.

    The settings are those that keep a fit of a class short.
    """
    cheap = {
        "CPRegressorCV": {"ranks": (1,), "cv": 3},
        "RemursClassifierCV": {"n_alphas": 2, "cv": 3},
        "RemursRegressorCV": {"n_alphas": 2, "cv": 3},
        "SLTRClassifierCV": {"cv": 3},
        "SLTRRegressorCV": {"cv": GroupKFold(3)},
        "SURFRegressorCV": {"n_components": 1, "cv": KFold(3)},
        "SturmRegressorCV": {"n_alphas": 2, "cv": 3},
        "TPGDRegressorCV": {"ranks": (1,), "cv": 3},
        "TensorElasticNetCV": {"n_alphas": 5},
        "TensorLassoCV": {"n_alphas": 5},
        "TuckerRegressorCV": {"candidates": (1,), "cv": 3},
    }
    return {c.__name__: c(**cheap.get(c.__name__, {})) for c in public_classes()}


def models(folder: Path, only: str) -> None:
    """Save a fitted model of every class, and what each predicts."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = {}
    groups = np.repeat(np.arange(8), 5)
    for name, model in small_models().items():
        if not re.search(only, name):
            continue
        problem = labelled if is_classifier(model) else planted
        X, y, X_new = problem(40, (5, 4, 3), seed=14)
        grouped = {"groups": groups} if name == "SLTRRegressorCV" else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y, **grouped)
        sltr.save(model, folder / f"{name}.sltr")
        for key, value in (state(model) | predictions(model, X_new)).items():
            array = as_numbers(value)
            if array is not None:
                numbers[f"{name}/{key}"] = array
    np.savez_compressed(folder / "numbers.npz", **numbers)
    print(f"{len(small_models())} models in {folder}")


def load(folder: Path, tol: float, only: str) -> int:
    """Load saved models and compare their attributes and predictions."""
    numbers, failed = dict(np.load(folder / "numbers.npz")), 0
    _, _, X_new = planted(40, (5, 4, 3), seed=14)
    for path in sorted(folder.glob("*.sltr")):
        if not re.search(only, path.stem):
            continue
        try:
            model = sltr.load(path)
            values = state(model) | predictions(model, X_new)
        except Exception as error:
            failed += 1
            print(f"FAILS   {path.stem}: {type(error).__name__}: {error}")
            continue
        at = f"{path.stem}/"
        expected = [key.removeprefix(at) for key in numbers if key.startswith(at)]
        gaps = {
            key: difference(numbers[at + key], as_numbers(values[key]))
            if key in values
            else np.inf
            for key in expected
        }
        above = {key: gap for key, gap in gaps.items() if gap > tol}
        failed += bool(above)
        print(f"{'DIFFERS' if above else 'equal':8}{path.stem:24}{above or ''}")
    return int(failed > 0)


def main() -> int:
    """Read the command line and run what it asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("record", "compare", "models", "load"))
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--tol", type=float, default=1e-8)
    parser.add_argument("--only", default="", help="a regular expression")
    given = parser.parse_args()
    os.environ |= ENVIRONMENT
    if given.action == "compare":
        return compare(*given.folders, given.tol, given.only)
    with threadpool_limits(1):
        if given.action == "load":
            return load(*given.folders, given.tol, given.only)
        (record if given.action == "record" else models)(*given.folders, given.only)
    return 0


sltr_fits()
odd_samples()
responses_and_likelihoods()
maps_in_front()
peer_fits()
elsewhere()

if __name__ == "__main__":
    sys.exit(main())
