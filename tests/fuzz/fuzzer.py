"""Odd but small inputs, each made from one seed, and what has to hold for them.

There are three kinds of cases: fits, model files and data files. `run(seed)` makes
the case of a seed and returns what it violates; `python -m tests.fuzz` runs many.
An oracle is a change of the input after which the answer is known from the one
before: it needs no second implementation, and no tolerance but that of rounding.
"""

from __future__ import annotations

import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from io import StringIO
from math import prod
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np
from joblib import parallel_config
from scipy.sparse import csr_array
from scipy.special import softmax
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut

import sltr
from sltr.datasets import label

# What a user's mistake, or a damaged file, may raise, given a message that says so.
CLEAR = (ValueError, TypeError, NotFittedError)
# Parameters that have the shape of a sample.
OF_ENTRIES = ("mask", "entry_weights")


# Peers that ran out of steps: they say so, and promise no answer.
RAN_OUT: WeakSet = WeakSet()


@dataclass(frozen=True)
class Violation:
    """What did not hold for a case: `label` is its class, `size` how large it is."""

    seed: int
    label: str
    detail: str
    case: str
    size: int

    def __str__(self) -> str:
        return (
            f"{self.label}: {self.detail}\n"
            f"    # {self.case}\n"
            f"    import sys; sys.path.insert(0, 'tests/fuzz')\n"
            f"    from cases import case_of\n"
            f"    print(*case_of({self.seed}).violations())"
        )


@dataclass(frozen=True, eq=False)
class Fit:
    """An estimator with its settings, samples to fit and others to predict."""

    name: str
    params: dict[str, Any]
    X: Any
    y: Any
    X_new: np.ndarray
    weight: Any = None
    groups: np.ndarray | None = None
    # A number and a category for each sample, those to fit and those to predict.
    covariates: Any = None
    covariates_new: Any = None
    oracle: str = "repeated"
    # What the oracle draws, such as a permutation, has a generator of its own.
    seed: int = 0

    def __str__(self) -> str:
        settings = ", ".join(f"{k}={_short(v)}" for k, v in self.params.items())
        weight = "none" if self.weight is None else _short(self.weight)
        beside = "" if self.groups is None else ", groups"
        beside += "" if self.covariates is None else ", covariates"
        return (
            f"{self.name}({settings}), X {self.X.shape} {self.X.dtype}, y "
            f"{np.shape(self.y)}, weights {weight}{beside}, {self.oracle}"
        )

    @property
    def size(self) -> int:
        return prod(self.X.shape)

    @property
    def shape_out(self) -> tuple[int, ...]:
        return self.y.shape[1:]

    @property
    def measured(self) -> bool:
        """Whether responses have a unit and a zero that anybody may choose."""
        return "Regressor" in self.name and self.params.get("family") is None

    def fitted(self) -> Any:
        """Return the fitted model; what is not about numbers may warn or print."""
        with warnings.catch_warnings(record=True) as said, redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)
            if not self.name.startswith("SLTR"):
                warnings.simplefilter("always", ConvergenceWarning)
            # BLAS libraries sometimes read, and discard, what is in memory beside an
            # array. What a product of finite arrays lacks, `_check_finite` would see.
            warnings.filterwarnings("ignore", "invalid value encountered in matmul")
            model = getattr(sltr, self.name)(**self.params)
            beside = {
                "sample_weight": self.weight,
                "groups": self.groups,
                "covariates": self.covariates,
            }
            given = {name: v for name, v in beside.items() if v is not None}
            model = model.fit(self.X, self.y, **given)
        if said:
            RAN_OUT.add(model)
        return model

    def predicted(self, model: Any) -> np.ndarray:
        """Return a model's predictions for the new samples."""
        if self.covariates_new is None:
            return np.asarray(model.predict(self.X_new))
        return np.asarray(model.predict(self.X_new, covariates=self.covariates_new))

    def products(self, coef: Any, shape_out: tuple[int, ...]) -> np.ndarray:
        """Return ⟨coef, x⟩ of the new samples in float64, (n, K), by definition."""
        rows = np.asarray(self.X_new, float).reshape(len(self.X_new), -1)
        coef, size = np.asarray(coef, float), rows.shape[1]
        # Responses come last, classes first.
        return rows @ (
            coef.reshape(size, -1) if shape_out else coef.reshape(-1, size).T
        )

    def scores(self, model: Any) -> np.ndarray:
        """Return ⟨coef, x⟩ + ⟨γ, z⟩ + intercept of the new samples, by definition.

        Of a family, what these stand for: labels that can be separated have no largest.
        """
        found = self.products(model.coef_, getattr(model, "shape_out_", ()))
        found = found + np.asarray(model.intercept_, float).reshape(1, -1)
        if self.covariates_new is not None:
            number, word = self.covariates_new.T
            Z = np.column_stack([number.astype(float), word == "v"]).astype(float)
            found = found + Z @ np.asarray(model.covariate_coef_).reshape(-1, 2).T
        family = self.params.get("family")
        if family == "poisson":
            return np.exp(found)
        if isinstance(family, str):
            found = np.hstack([-found, found]) / 2.0 if found.shape[1] == 1 else found
            return softmax(found, axis=1)
        return found

    def before_last(self, model: Any) -> np.ndarray:
        """Return what the last step starts from says of the new samples, less the mean.

        A likelihood refits about its answer, so that only its pilot is known before.
        """
        start = model.pilot_ if self.params.get("family") else model.refined_
        found = self.products(start, getattr(model, "shape_out_", ()))
        return found - found.mean(axis=0)

    def violations(self) -> Iterator[tuple[str, str]]:
        """Yield what the fit, or its comparison with the changed one, violates."""
        try:
            model = _once_more(self.fitted)
        except Exception as error:
            yield from unclear("fit", error)
            return
        yield from _check_finite(self, model)
        try:
            different = _once_more(ORACLES[self.oracle], self, model)
        except CLEAR as error:
            different = f"only the changed input is refused: {error}"
        except Exception as error:
            yield from unclear(self.oracle, error)
            return
        if different:
            yield self.oracle, different


def _once_more(function: Callable, *given: Any) -> Any:
    """Call again after a warning about numbers: only one that comes again is ours.

    BLAS libraries sometimes read, and discard, numbers beside an array: products of
    finite arrays then warn of invalid values, by what was in memory before.
    """
    try:
        return function(*given)
    except RuntimeWarning:
        return function(*given)


def _check_finite(case: Fit, model: Any) -> Iterator[tuple[str, str]]:
    coef = np.asarray(model.coef_)
    if not (np.isfinite(coef).all() and np.isfinite(model.intercept_).all()):
        yield "finite", "a coefficient is not finite"
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            predicted = case.predicted(model)
    except Exception as error:
        yield from unclear("predict", error, ())
        return
    if is_classifier(model):
        if not np.isin(predicted, case.y).all():
            yield "finite", "a label is none of those given"
        return
    expected = case.scores(model)
    if not np.isfinite(predicted).all():
        yield "finite", "a prediction is not finite"
    elif worst := _difference(predicted, expected, case, 1e-4):
        yield "predict", f"predictions are not those of the coefficient: {worst}"


def unclear(
    where: str, error: Exception, allowed: tuple[type, ...] = CLEAR
) -> Iterator[tuple[str, str]]:
    """Yield an error of an unexpected type, or whose message says too little."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    at = f"{Path(place.filename).name}:{place.lineno}"
    # Others' errors are of arrays that we made, and speak of these; but scikit-learn
    # checks what is given, and Python says itself what a function does not take.
    raised = (place.line or "").startswith(("raise ", "msg"))
    ours = raised and "/sltr/" in place.filename
    meant = ours or "/sklearn/" in place.filename or "unexpected keyword" in str(error)
    if not isinstance(error, allowed) or not meant:
        yield f"{where}, {type(error).__name__}", f"{error} ({at})"
    elif len(str(error).split()) < 4:
        yield f"{where}, message", f"{type(error).__name__}: {error} ({at})"


def _difference(one: Any, other: Any, case: Fit, tol: float) -> str:
    """Say how far apart scores are, relative to the spread of the responses."""
    one, other = (
        np.asarray(a, float).reshape(len(case.X_new), -1) for a in (one, other)
    )
    numbers = case.y.dtype.kind in "fi"
    # Where responses do not vary, what is left is the rounding of their size.
    y = case.y[np.isfinite(case.y)] if numbers else np.zeros(1)
    spread = float(np.ptp(y) or np.abs(y).max()) if numbers else 1.0
    size = max(spread, 1e-3 * float(np.abs(one).max()), 1e-300)
    worst = float(np.abs(one - other).max()) / size
    return "" if worst <= tol else f"scores differ by {worst:.1e} of the spread"


def _short(value: Any) -> str:
    text = repr(value.tolist() if isinstance(value, np.ndarray) else value)
    return text if len(text) < 60 else f"{text[:57]}..."


# Oracles: each returns what differs, or an empty text.

Oracle = Callable[[Fit, Any], str]
ORACLES: dict[str, Oracle] = {}


def oracle(function: Oracle) -> Oracle:
    """Enter an oracle in the table."""
    ORACLES[function.__name__] = function
    return function


def _tolerance(case: Fit) -> float:
    """Return the rounding that a fit may amplify: solvers stop at a residual."""
    spec = SPECS[case.name]
    if np.dtype(case.X.dtype).itemsize < 8:
        return 0.05 if spec.tuned else 0.01
    return max(1e-5, 10 * spec.amplifies)


def _agree(case: Fit, model: Any, changed: Fit, factor: float = 1.0) -> str:
    """Compare the fit of the changed case, at its new samples, with the first one.

    Responses in other units have `factor` times the scores.
    """
    other = changed.fitted()
    if case.oracle == "whole_weights" and _radius(model) != _radius(other):
        # Whether anything was found is asked by a test that counts samples, so what
        # the last step starts from is compared, given the same shares.
        if not _same_shares(model, other):
            return ""
        one, two = (c.before_last(m) for c, m in ((case, model), (changed, other)))
        return _difference(two, one, case, _tolerance(case))
    found = changed.scores(other) / factor
    return _compare(case, model, other, found, _tolerance(case))


def _compare(case: Fit, model: Any, other: Any, found: Any, tol: float) -> str:
    """Say how scores `found` by another fit differ from those of the first one.

    Two candidates of nearly one held-out score may change places by rounding: the
    score must be the same, and what was chosen is only compared if it is, too.
    """
    if model in RAN_OUT or other in RAN_OUT:
        return ""
    if hasattr(model, "cv_results_"):
        one, two = (
            np.asarray(m.cv_results_["mean_test_score"]) for m in (model, other)
        )
        best, chosen = _chosen(model), _chosen(other)
        if not np.array_equal(best, chosen):
            # Where responses do not vary, R² is 0 or 1 by the rounding of one error.
            constant = case.y.dtype.kind == "f" and np.any(np.ptp(case.y, axis=0) == 0)
            tied = (
                constant
                or len(one) != len(two)
                or np.isclose(one[best], one[chosen], 0.02, 0.02)
            )
            return "" if np.all(tied) else "another candidate is chosen"
        if not _same_shares(model, other):
            return ""
        if _radius(model) != _radius(other):
            alike = np.isclose(_held_out(model), _held_out(other), 0.02, 0.02)
            return "" if alike else "another radius is chosen"
    return _difference(found, case.scores(model), case, tol)


def _same_shares(model: Any, other: Any) -> bool:
    """Say whether both average the candidates alike."""
    one, two = getattr(model, "weights_", None), getattr(other, "weights_", None)
    if one is None:
        return True
    return one.shape == two.shape and np.allclose(one, two, atol=1e-3)


def _radius(model: Any) -> float | None:
    return getattr(model, "sparse_radius_", None)


def _held_out(model: Any) -> float:
    """Return the mean score of the answer itself."""
    return float(np.nanmean(next(iter(model.held_out_scores_.values()))))


def _chosen(model: Any) -> int:
    """Return the place of the chosen candidate among those tried."""
    if hasattr(model, "best_index_"):
        return model.best_index_
    return int(np.argmax(model.cv_results_["mean_test_score"]))


@oracle
def repeated(case: Fit, model: Any) -> str:
    """The same fit again gives the same bits."""
    again = case.fitted()
    same = np.array_equal(model.coef_, again.coef_)
    return "" if same else "a second fit differs"


@oracle
def saved(case: Fit, model: Any) -> str:
    """A model that was written and read predicts the same bits."""
    with tempfile.TemporaryDirectory() as folder:
        other = sltr.load(sltr.save(model, Path(folder) / "model"))
    same = np.array_equal(case.predicted(model), case.predicted(other))
    return "" if same else "the loaded model predicts something else"


@oracle
def permuted_samples(case: Fit, model: Any) -> str:
    """The order of the samples does not matter; given folds follow it."""
    order = np.random.default_rng(case.seed).permutation(len(case.y))
    return _agree(case, model, _take(case, order))


@oracle
def permuted_entries(case: Fit, model: Any) -> str:
    """The order of entries along a mode does not matter."""
    rng = np.random.default_rng(case.seed)
    # The order along a smooth mode says which entries are neighbours.
    axes = set(range(1, case.X.ndim)) - {m + 1 for m in case.params.get("smooth") or ()}
    axis = int(rng.choice(sorted(axes))) if axes else 1
    order = rng.permutation(case.X.shape[axis]) if axes else np.arange(case.X.shape[1])
    params = case.params | {
        name: case.params[name].take(order, axis - 1)
        for name in OF_ENTRIES
        if case.params.get(name) is not None
    }
    changed = replace(
        case,
        params=params,
        X=case.X.take(order, axis),
        X_new=case.X_new.take(order, axis),
    )
    return _agree(case, model, changed)


@oracle
def transposed_modes(case: Fit, model: Any) -> str:
    """The order of the modes does not matter."""
    modes = np.random.default_rng(case.seed).permutation(case.X.ndim - 1)
    axes, params = modes + 1, dict(case.params)
    place = {int(mode): new for new, mode in enumerate(modes)}
    for name in OF_ENTRIES:
        if params.get(name) is not None:
            params[name] = params[name].transpose(modes)
    if params.get("smooth"):
        params["smooth"] = {place[m]: s for m, s in params["smooth"].items()}
    if params.get("slices") is not None:
        params["slices"] = tuple(place[m] for m in params["slices"])
    changed = replace(
        case,
        params=params,
        X=case.X.transpose(0, *axes),
        X_new=case.X_new.transpose(0, *axes),
    )
    return _agree(case, model, changed)


@oracle
def other_units(case: Fit, model: Any) -> str:
    """Powers of two as units of X and y change the coefficient by their ratio."""
    rng = np.random.default_rng(case.seed)
    largest = 8 if np.dtype(case.X.dtype).itemsize < 8 else 30
    s, c = (2.0 ** int(k) for k in rng.integers(-largest, largest + 1, 2))
    c = c if case.measured else 1.0
    changed = replace(
        case,
        params=case.params | SPECS[case.name].in_units(case.params, s, c),
        X=case.X * np.asarray(s, case.X.dtype),
        X_new=case.X_new * np.asarray(s, case.X.dtype),
        y=case.y * c if case.measured else case.y,
    )
    return _agree(case, model, changed, c)


@oracle
def added_constants(case: Fit, model: Any) -> str:
    """With an intercept, constants added to entries and responses do not matter."""
    rng = np.random.default_rng(case.seed)
    shift = rng.normal(size=case.X.shape[1:]).astype(case.X.dtype)
    changed = replace(case, X=case.X + shift, X_new=case.X_new + shift)
    if not case.measured:
        return _agree(case, model, changed)
    changed = replace(changed, y=case.y + 3.0)
    other = changed.fitted()
    moved = changed.scores(other) - 3.0
    return _compare(case, model, other, moved, _tolerance(case))


@oracle
def whole_weights(case: Fit, model: Any) -> str:
    """Whole weights are repetitions; a weight of zero leaves the sample out."""
    assert case.weight is not None
    order = np.repeat(np.arange(len(case.y)), case.weight.astype(int))
    return _agree(case, model, replace(_take(case, order), weight=None))


@oracle
def parallel(case: Fit, model: Any) -> str:
    """`n_jobs` changes how long a fit takes and nothing else."""
    # Threads: a process for each of thousands of small fits would take long to start.
    with parallel_config(backend="threading"):
        return _agree(case, model, replace(case, params=case.params | {"n_jobs": 2}))


@oracle
def precision(case: Fit, model: Any) -> str:
    """Single precision finds about the same."""
    single = replace(case, X=case.X.astype("float32"))
    other = single.fitted()
    # Alternating sweeps amplify what single precision rounds.
    tol = max(0.02, 500 * SPECS[case.name].amplifies)
    return _compare(case, model, other, case.scores(other), tol)


@oracle
def torch_tensors(case: Fit, model: Any) -> str:
    """PyTorch's tensors give what NumPy's arrays give."""
    import torch

    other = replace(case, X=torch.asarray(case.X)).fitted()
    return _compare(case, model, other, case.scores(other), _tolerance(case))


@oracle
def labelled(case: Fit, model: Any) -> str:
    """What samples know of themselves does not change the answer."""
    smooth = case.params.get("smooth") or ()
    coords = [
        # Along a smooth mode, coordinates say how far its entries are apart.
        None if mode in smooth else [f"\x1b{k}" for k in range(size)]
        for mode, size in enumerate(case.X.shape[1:])
    ]
    names = [f"=mode {mode}" for mode in range(len(coords))]
    X = label(case.X, names, coords=coords, ids=map(str, range(len(case.X))))
    other = replace(case, X=X).fitted()
    same = np.array_equal(model.coef_, other.coef_)
    return "" if same else "labels change the coefficient"


@oracle
def outside_mask(case: Fit, model: Any) -> str:
    """What samples hold outside the mask does not matter."""
    outside = ~case.params["mask"]
    X, X_new = case.X.copy(), case.X_new.copy()
    X[:, outside] = np.random.default_rng(case.seed).choice([np.nan, 1e6, np.inf])
    X_new[:, outside] = 7.0
    other = replace(case, X=X).fitted()
    coef = np.asarray(other.coef_)
    at = (outside, ...) if case.shape_out else (..., outside)
    if coef[at].any():
        return "a coefficient outside the mask is not zero"
    return _compare(case, model, other, case.scores(other), _tolerance(case))


@oracle
def each_response(case: Fit, model: Any) -> str:
    """Separate responses are fitted as if each were alone."""
    y = case.y.reshape(len(case.y), -1)
    alone = [replace(case, y=y[:, k]) for k in range(y.shape[1])]
    found = np.column_stack([one.scores(one.fitted()) for one in alone])
    return _difference(found, case.scores(model), case, _tolerance(case))


@oracle
def permuted_responses(case: Fit, model: Any) -> str:
    """The order of responses along a mode of theirs does not matter."""
    rng = np.random.default_rng(case.seed)
    axis = int(rng.integers(1, case.y.ndim))
    order = rng.permutation(case.y.shape[axis])
    other = replace(case, y=case.y.take(order, axis)).fitted()
    scores = case.scores(other).reshape(-1, *case.shape_out)
    found = scores.take(np.argsort(order), axis).reshape(len(case.X_new), -1)
    return _compare(case, model, other, found, _tolerance(case))


def _take(case: Fit, order: np.ndarray) -> Fit:
    """Return the case with some samples, in an order; given folds point at the same."""
    params = dict(case.params)
    if isinstance(params.get("cv"), list):
        params["cv"] = [
            tuple(np.flatnonzero(np.isin(order, part)) for part in fold)
            for fold in params["cv"]
        ]
    return replace(
        case,
        params=params,
        X=case.X[order],
        y=case.y[order],
        weight=None if case.weight is None else case.weight[order],
        groups=None if case.groups is None else case.groups[order],
        covariates=None if case.covariates is None else case.covariates[order],
    )


# Estimators: settings to draw from, and which oracles hold for them.

ALWAYS = ("repeated", "saved", "permuted_samples", "precision")
SHAPED = ("permuted_entries", "transposed_modes")
MAPPED = ("labelled", "outside_mask")
RESPONSES = ("each_response", "permuted_responses")


def _no_change(params: dict, s: float, c: float) -> dict:
    return {}


def _penalised(params: dict, s: float, c: float) -> dict:
    """Return absolute penalties where X is s times, y c times as large."""
    scales = {"alpha": s * c, "alpha_sparse": s * c, "alpha_low": s * c}
    scales |= {"alpha_ridge": s * s}
    return {name: params[name] * scales[name] for name in scales if name in params}


def _ridge_penalty(params: dict, s: float, c: float) -> dict:
    epsilon = params.get("epsilon", "loo")
    in_own_units = params.get("standardize") == "entries"
    return {} if epsilon == "loo" or in_own_units else {"epsilon": epsilon * s * s}


@dataclass(frozen=True)
class Spec:
    """Settings to draw from, and the oracles that hold."""

    settings: dict[str, tuple]
    oracles: tuple[str, ...]
    in_units: Callable[[dict, float, float], dict] = _no_change
    # How far rounding may grow, as a part of the responses' spread.
    amplifies: float = 0.0
    least_order: int = 1
    tuned: bool = False
    weighted: bool = True  # samples may have weights
    tensors: bool = False  # responses may be tensors


# Refits are compared in single precision, whose rounding reaches the shares of the
# average: these agree to about 1e-5, and so do its scores.
_SHARES = 1e-5
_RADII = (0.0, 0.1, 0.5, 1.0)
_SLTR = {
    "epsilon": ("loo", 0.3, 3.0),
    "lambda_sparse": _RADII,
    "lambda_low": _RADII,
    "coupling": ("average", "average", "joint"),
    "weights": ("unit", "radius", (1.0, 0.5)),
    "solver": ("admm", "admm", "ppxa"),
    "tol": (1e-6,),
    "max_iter": (100,),
}
_REFITS = ("scale", "reweight", "tucker", "cp", "sparse")
_SLTR_CV = {
    "lambdas_sparse": ((0.0, 0.5), (0.3,)),
    "lambdas_low": ((0.0, 0.5), (0.3,)),
    "refine": ((None,), (None, "scale"), (None, "reweight"), ("sparse",), ("cp",)),
    "rule": ("average", "vote", "best", "1se"),
    # At the default, which iteration is the last may hang on rounding.
    "tol": (1e-6,),
}
# A number of sweeps: where few samples leave much open, a tolerance would end them
# at one or another by rounding.
_STARTS = {"n_restarts": (1,), "max_iter": (30,), "tol": (0.0,)}
_FACTORS = {"alpha_ridge": (1e-2, 1.0), **_STARTS}
_CONVEX = {
    "alpha_sparse": (0.0, 0.1, 1.0),
    "alpha_low": (0.0, 0.1, 1.0),
    "alpha_ridge": (0.0, 0.1),
    "tol": (1e-6,),
    "max_iter": (300,),
}
_ARRAYS = (*ALWAYS, "added_constants", "other_units", "whole_weights")
SCORINGS = (None, None, "r2", "neg_mean_absolute_error", "max_error")

# Methods for responses of any shape, which are chosen for together.
_JOINTLY: dict[str, Any] = {
    "oracles": (
        *(*ALWAYS, "permuted_entries", "permuted_responses"),
        *("other_units", "added_constants", "parallel"),
    ),
    "tuned": True,
    "weighted": False,
    "tensors": True,
}

SPECS = {
    "SLTRRegressor": Spec(
        {**_SLTR, "refine": (None, *_REFITS)},
        (*_ARRAYS, *SHAPED, *MAPPED, *RESPONSES, "torch_tensors", "parallel"),
        _ridge_penalty,
    ),
    "SLTRClassifier": Spec(
        {**_SLTR, "refine": (None, *_REFITS)},
        (*_ARRAYS, *SHAPED, *MAPPED, "torch_tensors"),
        _ridge_penalty,
    ),
    "SLTRRegressorCV": Spec(
        _SLTR_CV,
        (*_ARRAYS, *MAPPED, "permuted_entries", "permuted_responses", "parallel"),
        amplifies=_SHARES,
        tuned=True,
    ),
    "SLTRClassifierCV": Spec(
        _SLTR_CV,
        (*_ARRAYS, *MAPPED, "permuted_entries", "parallel"),
        amplifies=_SHARES,
        tuned=True,
    ),
    "TensorRidge": Spec(
        {"epsilon": ("loo", 0.3, 3.0)},
        (*_ARRAYS, *SHAPED, *RESPONSES, "torch_tensors"),
        _ridge_penalty,
        tensors=True,
    ),
    "ElemRidge": Spec(
        {"epsilon": ("loo", 0.3), "lambda_sparse": _RADII},
        (*_ARRAYS, *SHAPED),
        _ridge_penalty,
    ),
    "TensorLasso": Spec(
        {"alpha": (0.01, 0.1, 1.0), "tol": (1e-8,)}, (*_ARRAYS, *SHAPED), _penalised
    ),
    "TensorElasticNet": Spec(
        {"alpha": (0.01, 0.1, 1.0), "tol": (1e-8,)},
        (*ALWAYS, *SHAPED, "whole_weights", "added_constants"),
    ),
    "TensorLassoCV": Spec(
        {"n_alphas": (5,), "tol": (1e-9,), "max_iter": (20_000,)},
        (*_ARRAYS, *SHAPED),
        tuned=True,
    ),
    "TensorElasticNetCV": Spec(
        {"n_alphas": (5,), "tol": (1e-9,), "max_iter": (20_000,)},
        (*ALWAYS, *SHAPED, "whole_weights", "added_constants", "parallel"),
        tuned=True,
    ),
    "RemursRegressor": Spec(_CONVEX, (*_ARRAYS, *SHAPED), _penalised),
    "RemursClassifier": Spec(_CONVEX, (*ALWAYS, *SHAPED), _penalised),
    "RemursRegressorCV": Spec(
        {"n_alphas": (2, 3), "max_iter": (300,)},
        (*_ARRAYS, *SHAPED, "parallel"),
        tuned=True,
    ),
    "RemursClassifierCV": Spec(
        {"n_alphas": (2, 3), "max_iter": (300,)},
        (*ALWAYS, *SHAPED, "parallel"),
        tuned=True,
    ),
    "SturmRegressor": Spec(_CONVEX, _ARRAYS, _penalised, least_order=3),
    "SturmRegressorCV": Spec(
        {"n_alphas": (2, 3), "max_iter": (300,)},
        (*_ARRAYS, "parallel"),
        least_order=3,
        tuned=True,
    ),
    "SURFRegressor": Spec(
        {"n_components": (1, 2), "max_steps": (200,)}, ALWAYS, least_order=2
    ),
    "SURFRegressorCV": Spec(
        {"n_components": (1, 2), "epsilons": ((0.1,),), "max_steps": (200,)},
        (*ALWAYS, "parallel"),
        least_order=2,
        tuned=True,
    ),
    "CPRegressor": Spec({"rank": (1, 2), **_FACTORS}, ALWAYS, amplifies=1e-4),
    "CPClassifier": Spec({"rank": (1, 2), **_FACTORS}, ALWAYS, amplifies=1e-4),
    "TuckerRegressor": Spec({"ranks": (1, 2), **_FACTORS}, ALWAYS, amplifies=1e-4),
    "HRTRRRegressor": Spec(
        {"rank": (1, 2), "alpha_ridge": (0.1,), "max_iter": (30,)},
        ALWAYS,
        amplifies=1e-4,
    ),
    "ORTRRRegressor": Spec(
        {"max_rank": (2,), "beta": (1.0,), "max_iter": (30,)}, ALWAYS, amplifies=1e-4
    ),
    "TPGDRegressor": Spec(
        {"ranks": (1, 2), "sparsity": (0.5, 1.0), "max_iter": (50,)},
        (*ALWAYS, "added_constants"),
        least_order=2,
    ),
    "TPGDRegressorCV": Spec(
        {"ranks": ((1,), (1, 2)), "sparsities": ((0.5, 1.0),), "max_iter": (50,)},
        (*ALWAYS, "added_constants", "parallel"),
        least_order=2,
        tuned=True,
    ),
    "CPRegressorCV": Spec(
        {"ranks": ((1,), (1, 2)), "alphas_ridge": ((0.1,),), **_STARTS},
        ALWAYS,
        amplifies=1e-4,
        tuned=True,
    ),
    "TuckerRegressorCV": Spec(
        {"candidates": ((1,), (1, 2)), "alphas_ridge": ((0.1,),), **_STARTS},
        ALWAYS,
        amplifies=1e-4,
        tuned=True,
    ),
    "ReducedRankRegressorCV": Spec(
        {"ranks": (None, (1, 2)), "epsilons": ((1.0,), (0.1, 10.0))}, **_JOINTLY
    ),
    "TensorMultiTaskLassoCV": Spec(
        {"n_alphas": (5,), "tol": (1e-9,), "max_iter": (20_000,)}, **_JOINTLY
    ),
    "TensorOnTensorRegressorCV": Spec(
        {"ranks": ((1,), (1, 2)), "alphas": ((0.1, 1.0),), "max_iter": (30,)}
        | {"tol": (0.0,)},
        **_JOINTLY | {"amplifies": 1e-4},
    ),
}


def draw_fit(rng: np.random.Generator) -> Fit:
    """Draw an estimator, settings and samples."""
    names = list(SPECS)
    share = np.array([4.0 if name.startswith("SLTR") else 1.0 for name in names])
    name = str(rng.choice(names, p=share / share.sum()))
    spec = SPECS[name]
    shape = _draw_shape(rng, spec.least_order)
    n = int(rng.integers(8, 17) if spec.tuned else rng.integers(4, 15))
    labels = "Classifier" in name
    X, y, X_new = _draw_samples(rng, n, shape, labels)
    params = {key: _pick(rng, values) for key, values in spec.settings.items()}
    params["fit_intercept"] = bool(rng.random() < 0.8)
    chosen = str(rng.choice(spec.oracles))
    weight = _draw_weight(rng, n, chosen == "whole_weights") if spec.weighted else None
    groups = None
    if spec.tuned:
        given = chosen in ("permuted_samples", "whole_weights")
        params["cv"], groups = _draw_folds(rng, y, labels, given)
        if "scoring" in getattr(sltr, name)().get_params():
            params["scoring"] = None if labels else _pick(rng, SCORINGS)
    seed = int(rng.integers(2**31))
    case = Fit(name, params, X, y, X_new, weight, groups, oracle=chosen, seed=seed)
    if name.startswith("SLTR"):
        case = _with_more(rng, case)
    elif spec.tensors and (chosen in RESPONSES or rng.random() < 0.7):
        case = replace(case, y=_draw_responses(rng, y))
    return _admissible(case) if rng.random() < 0.8 else _odd(rng, case)


def _with_more(rng: np.random.Generator, case: Fit) -> Fit:
    """Return a case of SLTR with what only SLTR has: maps, structure, responses."""
    params, n, shape = dict(case.params), len(case.y), case.X.shape[1:]
    if case.oracle == "outside_mask" or rng.random() < 0.15:
        mask = rng.random(shape) < 0.7
        mask.reshape(-1)[rng.integers(mask.size, size=2)] = True
        params["mask"] = mask
    if rng.random() < 0.15:
        params["missing"] = _pick(rng, ("mean", "low_rank"))
        X = case.X.copy()
        X[rng.random(X.shape) < 0.1] = np.nan
        case = replace(case, X=X)
    if rng.random() < 0.3:
        params["standardize"] = _pick(rng, (None, "slices", "entries", "auto"))
    kind = rng.random()
    modes = [m for m, size in enumerate(shape) if size > 1]
    if kind < 0.15:
        asked = rng.choice(modes, int(rng.integers(1, len(modes) + 1)), replace=False)
        params["smooth"] = {int(m): _pick(rng, (0.3, 2.0, "auto")) for m in asked}
    elif kind < 0.4:
        # Refits do not obey these.
        params["refine"] = (None,) if "cv" in params else _pick(rng, (None, "scale"))
        if rng.random() < 0.5:
            asked = rng.choice(len(shape), int(rng.integers(1, len(shape) + 1)), False)
            params["slices"] = tuple(map(int, asked))
        else:
            params["entry_weights"] = np.round(3.0 * rng.random(shape), 1)
        params["positive"] = bool(rng.random() < 0.4)
    if rng.random() < 0.2:
        Z, Z_new = (_draw_covariates(rng, k) for k in (n, len(case.X_new)))
        case = replace(case, covariates=Z, covariates_new=Z_new)
    if "Regressor" in case.name and (case.oracle in RESPONSES or rng.random() < 0.2):
        case, params = _with_responses(rng, case, params)
    elif rng.random() < 0.15:
        case, params = _with_family(rng, case, params)
    return replace(case, params=params)


def _with_family(rng: np.random.Generator, case: Fit, params: dict) -> tuple:
    """Return the case with labels or counts that are fitted by likelihood."""
    if "scale" in (params["refine"] or ()):  # it is of least squares
        params["refine"] = (None,) if "cv" in params else None
    if "Classifier" in case.name:
        two = len(np.unique(case.y)) == 2
        params["family"] = _pick(
            rng, ("binomial", "multinomial") if two else ("multinomial",)
        )
        return case, params
    params["family"] = "poisson"
    if "scoring" in params:
        params["scoring"] = None
    rate = np.exp(case.y / max(1.0, float(np.abs(case.y).max())))
    counts = rng.poisson(_pick(rng, (0.5, 5.0)) * rate).astype(float)
    counts[rng.integers(len(counts))] += 1.0  # some count is not zero
    return replace(case, y=counts), params


def _draw_covariates(rng: np.random.Generator, n: int) -> np.ndarray:
    Z = np.empty((n, 2), object)
    Z[:, 0], Z[:, 1] = rng.normal(size=n), rng.choice(["u", "v"], n)
    Z[: n // 2, 1][:2], Z[n // 2 :, 1][:2] = "u", "v"  # a fit sees both words
    return Z


def _with_responses(rng: np.random.Generator, case: Fit, params: dict) -> tuple:
    """Return the case with responses of some shape, and how they are fitted."""
    y = _draw_responses(rng, case.y)
    params["responses"] = _pick(rng, ("separate", "shared"))
    if rng.random() < 0.2:
        params["missing_y"] = "ridge"
        y[rng.random(y.shape) < 0.1] = np.nan
    if case.oracle == "each_response":
        params |= {"responses": "separate", "missing_y": "error"}
        y = np.nan_to_num(y)
    return replace(case, y=y), params


def _draw_responses(rng: np.random.Generator, y: np.ndarray) -> np.ndarray:
    """Return responses of some shape that vary with those given."""
    shape = _pick(rng, ((1,), (2,), (3,), (2, 2), (1, 3), (2, 1, 2)))
    noise = _pick(rng, (0.1, 1.0)) * rng.normal(size=(len(y), *shape))
    return y.reshape(-1, *[1] * len(shape)) * rng.normal(size=shape) + noise


# Values of parameters that nobody should give. Budgets do not get large ones.
ODD = (None, True, -1, 0, 0.5, float("nan"), float("inf"), "x", (), [1, "a"], 1e308, {})
LARGE = (10**400, 2**63)
BUDGETS = ("max_iter", "max_steps", "n_restarts", "n_alphas")


def _odd(rng: np.random.Generator, case: Fit) -> Fit:
    """Return the case with something in it that is likely to be refused."""
    n, kind = len(case.y), int(rng.integers(9))
    case = replace(case, oracle="repeated")
    if kind < 3:
        params = getattr(sltr, case.name)().get_params()
        key = str(rng.choice(sorted(set(params) - {"progress", "n_jobs"})))
        odd = _pick(rng, ODD if key in BUDGETS else ODD + LARGE)
        return replace(case, params=case.params | {key: odd})
    if kind == 3:
        X = case.X.copy()
        X.reshape(-1)[rng.integers(X.size)] = _pick(
            rng, (np.nan, np.inf, np.finfo(X.dtype).max, -1e6, 1e30, 1e-300)
        )
        if rng.random() < 0.3:
            # A whole slice of what is tiny or huge, as of a sensor in other units.
            size = np.asarray(_pick(rng, (1e-200, 1e-30, 1e15, 1e200)))
            with np.errstate(over="ignore"):
                X = np.concatenate([case.X[:, :1] * size, case.X[:, 1:]], axis=1)
                X = X.astype(case.X.dtype)
        return replace(case, X=X)
    if kind == 4:
        if rng.random() < 0.2:
            return replace(case, X=case.X[: _pick(rng, (0, 1))])
        odd = (
            lambda X: X[:, :0],
            lambda X: X[:, 0],
            lambda X: X.astype(complex),
            lambda X: X.astype(object),
            lambda X: X.astype(str),
            lambda X: X.reshape(len(X), -1),
            lambda X: X.reshape(-1),
            lambda X: X > 0,
            lambda X: X.astype("M8[s]"),
            lambda X: np.ma.masked_greater(X, 1.0),
            lambda X: csr_array(X.reshape(len(X), -1)),
            lambda X: np.nan_to_num(100.0 * X).astype("i2"),
        )
        change = _pick(rng, odd)
        return replace(case, X=change(case.X), X_new=change(case.X_new))
    if kind == 5:
        y = case.y
        odd = (
            y[:-1],
            y[:, None],
            y[None],
            np.full(n, np.nan),
            np.full(n, 1e18),
            np.full(n, None),
            np.arange(n),
            y.astype(str),
            np.zeros(n),
            1j * np.ones(n),
            np.arange(n).astype("M8[s]"),
            np.where(np.arange(n) == 0, np.inf, 1.0),
            np.arange(n) == 0,  # a class of one sample
            np.ma.masked_less(np.arange(n), 2),
        )
        return replace(case, y=_pick(rng, odd))
    if kind == 6:
        odd = (
            np.zeros(n),
            -np.ones(n),
            np.ones(n - 1),
            np.full(n, np.nan),
            np.ones((n, 1)),
            np.eye(n)[0],
            np.full(n, 1e308),
            np.full(n, 1e-308),
            ["a"] * n,
            2.0,
        )
        return replace(case, weight=_pick(rng, odd))
    if kind == 7 and "cv" in case.params:
        return replace(case, params=case.params | {"cv": _odd_folds(rng, n)})
    # None of these can be covariates; some can be groups.
    odd = (
        np.arange(n - 1),
        np.full(n, np.nan),
        np.full(n, None),
        1j * np.ones((n, 2)),
        np.arange(n).astype("M8[s]"),
        "words",
        3.0,
    )
    if rng.random() < 0.5:
        return replace(case, covariates=_pick(rng, odd))
    odd += (np.zeros(n), np.arange(n), np.full(n, "u"), np.full((n, 1), 1e300))
    return replace(case, groups=_pick(rng, odd))


def _odd_folds(rng: np.random.Generator, n: int) -> Any:
    rows = np.arange(n)
    odd = (
        [(rows, rows + 1)],
        [(rows[:0], rows)],
        [(rows, rows[:0])],
        [],
        [(rows,)],
        1,
        n + 1,
        [(rows, -rows - 5)],
        "x",
        iter([]),
        [(rows[1:], rows[:1])],
        [(rows > 2, rows < 3)],
        [(rows, rows)],
        [(rows[:-2], rows[2:]), (rows[2:], rows[:4])],
        [(rows.astype(float), rows)],
        KFold,
        LeaveOneOut(),
        GroupKFold(2),
    )
    return _pick(rng, odd)


# The order and the number of the samples stay as they are.
_SAME_FOLDS = ("repeated", "saved", "other_units", "parallel", "labelled")


def _admissible(case: Fit) -> Fit:
    """Return the case with settings for which its oracle is meant to hold."""
    params = dict(case.params)
    if case.oracle == "added_constants":
        params["fit_intercept"] = True
    if case.oracle == "each_response" and params["epsilon"] == "loo":
        params["epsilon"] = 3.0  # all responses have one penalty
    if (
        "refine" in params
        and not isinstance(params["refine"], tuple)
        and (case.oracle not in _SAME_FOLDS)
    ):
        # Folds of its own, by the order of the samples, choose a refit's settings.
        params["refine"] = None
    if case.oracle in ("whole_weights", "permuted_samples") and params.get(
        "refine"
    ) == (None, "scale"):
        # Its factors are found on folds of the rows that are trained on.
        params["refine"] = (None,)
    moved = case.oracle in ("whole_weights", "permuted_samples")
    if moved and params.get("family") and params.get("epsilon") == "loo":
        # Folds, by the order of the samples, choose the penalty of a likelihood.
        params["epsilon"] = 3.0
    if moved and params.get("missing") == "low_rank":
        # Its rank restores entries that are hidden by the places of the samples.
        params["missing"] = "mean"
    if case.oracle == "whole_weights" and case.covariates is not None:
        # A word that only samples of weight zero have is known to one of the fits.
        weight = case.weight.copy()
        for word in "uv":
            rows = case.covariates[:, 1] == word
            weight[np.flatnonzero(rows)[0]] += not weight[rows].any()
        case = replace(case, weight=weight)
    if case.oracle == "whole_weights" and "scoring" in params:
        # A fold that holds one sample is scored by another measure than R².
        labels = "Classifier" in case.name
        params["scoring"] = "accuracy" if labels else "neg_mean_squared_error"
    if case.oracle in ("whole_weights", "precision", "torch_tensors"):
        # Leaving a sample out is not lowering its weight by one, and the penalty of
        # least error may be any where the error is flat.
        if params.get("epsilon") == "loo":
            params["epsilon"] = 3.0
        if params.get("standardize") in ("entries", "auto"):
            params.pop("standardize")
        if params.get("smooth"):
            params["smooth"] = {m: 2.0 for m in params["smooth"]}
        if "epsilons" in getattr(sltr, case.name)().get_params():
            params["epsilons"] = (3.0,)
    if case.oracle == "other_units" and params.get("standardize") == "auto":
        # A given penalty has units of its own in each of the maps that are compared.
        params["standardize"] = "entries"
    if case.oracle == "added_constants" and params.get("standardize") != "slices":
        # What entries are divided by is at least a per cent of their size.
        params.pop("standardize", None)
    if case.oracle == "each_response":
        # All responses together choose how smooth modes are, and the units.
        if params.get("smooth"):
            params["smooth"] = {m: 2.0 for m in params["smooth"]}
        if params.get("standardize") == "auto":
            params["standardize"] = "entries"
    if "Lasso" in case.name and case.oracle not in _SAME_FOLDS:
        # Of entries that are copies of each other the minimum may use any.
        noise = 0.1 * np.random.default_rng(case.seed).normal(size=case.X.shape)
        case = replace(case, X=(case.X + noise).astype(case.X.dtype))
    if case.oracle in ("precision", "torch_tensors"):
        case = replace(case, X=case.X.astype(float), X_new=case.X_new.astype(float))
    return replace(case, params=params)


def _pick(rng: np.random.Generator, values: tuple) -> Any:
    return values[rng.integers(len(values))]


def _draw_shape(rng: np.random.Generator, least_order: int) -> tuple[int, ...]:
    order = int(rng.integers(least_order, 5))
    shape = [1] * order
    while prod(shape) < 4 or rng.random() < 0.7:
        shape[rng.integers(order)] += 1
        if prod(shape) > 36:
            break
    return tuple(shape)


def _draw_samples(
    rng: np.random.Generator, n: int, shape: tuple[int, ...], labels: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    coef = rng.normal(size=shape) * (rng.random(shape) < 0.4)
    X = rng.normal(size=(n + 5, *shape)) + _pick(rng, (0.0, 1.0))
    odd = rng.random()
    if odd < 0.1:
        X[:, ..., 0] = _pick(rng, (0.0, 5.0))
    elif odd < 0.2:
        X[1] = X[0]
    elif odd < 0.3:
        X = np.round(X)
    elif odd < 0.4:
        X[:, ..., 0] *= _pick(rng, (1e-3, 0.1, 10.0))
    response = X.reshape(n + 5, -1) @ coef.reshape(-1)
    response += rng.normal(size=n + 5) * _pick(rng, (0.01, 0.3, 3.0))
    y = response[:n]
    if labels:
        # Every class has three samples at least, for folds to have all of them.
        n_classes = 3 if n > 10 and rng.random() < 0.3 else 2
        y = np.argsort(np.argsort(y)) * n_classes // n
        y = np.array(["c", "a", "b"])[y] if rng.random() < 0.5 else y
    elif rng.random() < 0.05:
        y = np.full(n, 2.0)
    dtype = _pick(rng, (float, float, "float32"))
    return X[:n].astype(dtype), y, X[n:].astype(dtype)


def _draw_weight(rng: np.random.Generator, n: int, whole: bool) -> np.ndarray | None:
    if whole:
        return rng.integers(0, 4, n).astype(float)
    if rng.random() < 0.6:
        return None
    weight = rng.random(n) + 0.1
    weight[rng.random(n) < 0.2] = 0.0
    return weight


def _draw_folds(
    rng: np.random.Generator, y: np.ndarray, labels: bool, given: bool
) -> tuple[Any, np.ndarray | None]:
    """Draw a number of folds, perhaps with groups, or a list of them."""
    n_folds, rows = int(rng.integers(2, 4)), np.arange(len(y))
    if not given:
        groups = rng.integers(0, 4, len(y)) if rng.random() < 0.2 else None
        return n_folds, groups
    # In the order of y, so that each fold has all classes.
    part = np.argsort(np.argsort(y, kind="stable")) % n_folds
    return [(rows[part != k], rows[part == k]) for k in range(n_folds)], None
