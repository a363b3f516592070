"""What a report states of a model: its settings, its answer, its scores, versions."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from numbers import Real
from typing import Any

import numpy as np

from sltr.arrays import to_numpy
from sltr.core.tensor import numerical_ranks
from sltr.estimators.summary import entries_looked_at, map_in_front
from sltr.persistence import installed_version, package_version
from sltr.reporting.scores import Outcome
from sltr.tuning.candidates import SETTINGS, own_settings

# Parameters that say how to compute, how to choose or how samples are stored.
_NO_SETTINGS = {
    *("tol", "max_iter", "max_steps", "n_alphas", "n_jobs", "random_state", "cv"),
    *("scoring", "verbose", "progress", "memory_limit", "feature_shape", "refine"),
}


def given_settings(model: Any, tuned: Collection[str] = ()) -> dict[str, str]:
    """Return the settings a user gave: numbers, and what differs from the default.

    Those named in `tuned` were not given, but chosen by a search.
    """
    params, kind = model.get_params(deep=False), refinement(model)
    # The Lasso has a threshold, and needs no estimate to start from.
    idle = {"epsilon", "lambda_low"} if kind == "sparse" else set()
    settings = {
        name: params[name]
        for name, parameter in signature(type(model)).parameters.items()
        if name not in {*_NO_SETTINGS, *idle, *tuned}
        and _is_told(params[name], parameter.default)
    }
    if kind and not isinstance(model.refine, str) and "refine" not in tuned:
        settings |= _refit_settings(model, model.refine[1:])
    return {name: short(value) for name, value in settings.items()}


def chosen_by_loo(model: Any) -> dict[str, str]:
    """Return what a model chose by leave-one-out error: its penalty, if anything."""
    asked = getattr(model, "epsilon", None)
    if not isinstance(asked, str) or not hasattr(model, "epsilon_"):
        return {}
    return {} if refinement(model) == "sparse" else {"epsilon": short(model.epsilon_)}


def chosen_by_folds(model: Any) -> dict[str, str]:
    """Return the settings of a refit of which only the kind was given."""
    if not isinstance(getattr(model, "refine", None), str):
        return {}
    settings = _refit_settings(model, getattr(model, "refine_settings_", ()))
    return {name: short(value) for name, value in settings.items()}


def refinement(model: Any) -> str | None:
    """Return the kind of a single model's refinement."""
    asked = getattr(model, "refine", None)
    return asked[0] if isinstance(asked, tuple | list) else asked


def folds_text(cv: Any, n_folds: int) -> str:
    """Return a cross-validation in words; a splitter is named."""
    plain = f"{n_folds}-fold cross-validation"
    if isinstance(cv, str) or not hasattr(cv, "split"):
        return plain
    name = type(cv).__name__
    how = ": whole groups were left out" if "Group" in name else ""
    return f"{plain} ({name}{how})"


def short(value: Any) -> str:
    """Return a setting as a reader wants it."""
    if value is None:
        return "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _is_told(value: Any, default: Any) -> bool:
    if isinstance(value, Real) and not isinstance(value, bool):
        return True
    return isinstance(value, str | bool | tuple) and value != default


def _refit_settings(model: Any, values: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(SETTINGS.get(refinement(model), ()), values, strict=False))


# What a candidate of each kind is called, with an s for more of them.
_NAMES = {
    None: "unrefined estimate",
    "scale": "scaled estimate",
    "reweight": "reweighted refit",
    "tucker": "Tucker refit",
    "cp": "CP refit",
    "sparse": "sparse refit",
}
_SEVERAL = {
    rule: "the mean of {n} candidates, weighted by exp(−z²/2), z the excess of "
    "held-out squared errors over the best one's in standard errors: within each kind "
    "of candidate, then between kinds, of which simple ones count more where samples "
    "are few; small weights are dropped"
    for rule in ("average", "vote")
}
_SINGLE = {
    "1se": "that of the candidate of fewest free parameters within one standard error "
    "of the best score",
}


@dataclass(frozen=True)
class Answer:
    """Which candidates take part in a coefficient, and which is the best of them."""

    rule: str
    n_candidates: int
    folds: str  # the cross-validation that compared them
    kinds: Mapping[str | None, int]  # how many of each kind of refinement have a share
    best: str | None  # the best candidate's refinement
    settings: dict[str, Any]  # its other settings, as far as they apply to it
    radius: float | None  # of the last step, if there was one
    low_radius: float | None = None  # by which it lowered ranks

    @property
    def n_used(self) -> int:
        """How many candidates have a share."""
        return sum(self.kinds.values())

    @property
    def best_name(self) -> str:
        """What the best candidate is."""
        return _NAMES[self.best]


def answer_of(model: Any) -> Answer | None:
    """Return what a model's coefficient is made of; None if it is one fit alone."""
    if not all(hasattr(model, n) for n in ("weights_", "best_index_", "cv_results_")):
        return None
    table = model.cv_results_
    rows = table["params"]
    settings = own_settings(rows[model.best_index_])
    return Answer(
        rule=model.rule,
        n_candidates=len(rows),
        folds=folds_text(model.cv, sum(key.startswith("split") for key in table)),
        kinds=Counter(rows[g]["refine"] for g in np.flatnonzero(model.weights_)),
        best=settings.pop("refine"),
        settings=settings,
        radius=getattr(model, "sparse_radius_", None),
        low_radius=getattr(model, "low_radius_", None),
    )


def answer_text(answer: Answer, settings: Mapping[str, str]) -> str:
    """Return how the coefficient came about, with the best candidate's settings."""
    best = f"the {answer.best_name} with " + ", ".join(
        f"{name} = {value}" for name, value in settings.items()
    )
    made = "coefficient" if answer.radius is None else "refined pilot"
    compared = (
        f"{answer.folds} compared {answer.n_candidates} candidates. The {made} is "
    )
    if answer.n_used == 1:
        single = _SINGLE.get(answer.rule, "that of the best candidate")
        return f"{compared}{single}, {best}."
    several = _SEVERAL[answer.rule].format(n=answer.n_used)
    return f"{compared}{several} ({kinds_text(answer)}). The best one is {best}."


def last_step_text(answer: Answer | None) -> str:
    """Return what the last step made of the refined pilot, if there was one."""
    radius = None if answer is None else answer.radius
    if answer is None or radius is None:
        return ""
    if radius == 1.0:
        return (
            "Held-out predictions could not be told from those of the null model, so "
            "that the coefficient is zero."
        )
    lowered = ""
    if answer.low_radius:
        lowered = (
            "Its ranks were lowered as far as the held-out error allows: singular "
            f"values below {answer.low_radius:.3g} of an unfolding's largest are left "
            "out. "
        )
    if radius == 0.0:
        return (
            f"{lowered}Zeros would not clearly lower the held-out error: it is the "
            "coefficient."
        )
    return (
        f"{lowered}The coefficient is the sparsest tensor in a box about it, narrow "
        f"where it is large; the box has a radius of {radius:.3g} of the largest "
        "entry, which has the least held-out error."
    )


def kinds_text(answer: Answer) -> str:
    """Return how many candidates of each kind have a share."""
    return ", ".join(
        f"{n} {_NAMES[kind]}{'s' if n > 1 else ''}" for kind, n in answer.kinds.items()
    )


def refinement_text(kinds: Collection[str | None]) -> str:
    """Return what was done to the estimate, for all kinds that have a share."""
    parts = []
    if "scale" in kinds:
        parts.append(
            "Scaled estimates were multiplied by a factor fitted to out-of-fold "
            "predictions."
        )
    started = [k for k in ("reweight", "tucker", "cp") if k in kinds]
    if started:
        names = ", ".join(_NAMES[kind].removesuffix(" refit") for kind in started)
        parts.append(
            f"Refits ({names}) were fitted to the samples, starting from the SLTR "
            "estimate."
        )
    if "sparse" in kinds:
        parts.append(
            "Sparse refits are Lasso fits to the samples, or ridge fits on the support "
            "that the Lasso finds."
        )
    return " ".join(parts)


def model_facts(
    model: Any,
    X: Any,
    outcome: Outcome,
    coefs: np.ndarray,
    targets: Sequence[str],
    candidates: Mapping[str, Any] | None,
    convergence: Mapping[str, Any] | None,
    held_out: bool,
    *,
    search: Any,
) -> dict[str, Any]:
    """Return what the page and the methods paragraph state about a fitted model.

    `search` is what the candidates are those of: the model, or a search around it.
    """
    answer, chosen = answer_of(model), {}
    if candidates and (search is not model or answer is None):
        row = candidates["rows"][candidates["chosen"]]
        chosen = dict(zip(candidates["names"], map(short, row), strict=True))
    tuned = {name.rpartition("__")[2] for name in chosen}
    kinds = [refinement(model)] if answer is None else list(answer.kinds)
    ranks = [numerical_ranks(coef) for coef in coefs]
    return {
        "class_name": type(model).__name__,
        "n_samples": X.shape[0] if hasattr(X, "shape") else len(X),
        "shape": coefs.shape[1:],
        "targets": targets,
        "target_kind": "class" if outcome.classes is not None else "response",
        "covariates": slopes_of(model, targets),
        "chosen": chosen,
        "answer": answer,
        "best": {
            k: short(v) for k, v in (answer.settings | map_in_front(model)).items()
        }
        if answer
        else {},
        "refinements": kinds,
        "settings": {} if answer else given_settings(model, tuned),
        "by_loo": {} if answer else chosen_by_loo(model),
        "by_folds": {} if answer else chosen_by_folds(model),
        **_search_facts(search, candidates),
        "n_nonzero": int(np.count_nonzero(coefs)),
        "n_entries": entries_looked_at(model, coefs),
        "ranks": ranks,
        "rank_ranges": [_range(mode) for mode in zip(*ranks, strict=True)],
        "radius": None if answer is None else answer.radius,
        "last_step": last_step_text(answer),
        "closed_form": _closed(kinds, answer),
        "certificate": _certificate(convergence, kinds, answer),
        "n_passes": getattr(model, "n_passes_", 0.0),
        "n_test": outcome.n_samples if held_out else 0,
        "headline": headline(model, outcome, candidates, held_out),
        "version": package_version(),
    }


def _search_facts(search: Any, candidates: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what is stated about the candidates of a search; None where is none."""
    names = ("n_folds", "folds", "n_candidates", "cv_score", "cv_error", "scoring")
    if not candidates:
        return dict.fromkeys(names)
    n_folds, chosen = candidates["nFolds"], candidates["chosen"]
    known = (
        n_folds,
        folds_text(getattr(search, "cv", None), n_folds),
        len(candidates["rows"]),
        candidates["mean"][chosen],
        candidates["error"][chosen],
        candidates["scoring"],
    )
    return dict(zip(names, known, strict=True))


def slopes_of(model: Any, targets: Sequence[str]) -> dict[str, list[float]]:
    """Return the slopes of covariates by name, one for each target."""
    names = list(getattr(model, "covariate_names_", ()))
    if not names:
        return {}
    slopes = np.asarray(to_numpy(model.covariate_coef_), float).reshape(-1, len(names))
    return {name: slopes[:, k].tolist() for k, name in enumerate(names)}


@dataclass(frozen=True)
class Headline:
    """The score on samples that a model has not seen, as far as one is known."""

    label: str
    value: float | None  # None: nobody has measured it
    spread: str
    null: float | None
    sentence: str  # for the methods paragraph


def headline(
    model: Any, outcome: Outcome, candidates: Mapping[str, Any] | None, held_out: bool
) -> Headline:
    """Return the held-out score of a model, else its cross-validated one.

    The score of the training samples flatters, and is never among them.
    """
    score = outcome.scores[0]
    if held_out:
        interval = f"95 % interval {_three(score.low)} to {_three(score.high)}"
        return Headline(
            f"{score.name}, {outcome.n_samples} held-out samples",
            score.value,
            interval,
            score.null,
            f"On {outcome.n_samples} held-out samples the model reached {score.name} = "
            f"{score.value:.3g} (95 % bootstrap interval {score.low:.3g} to "
            f"{score.high:.3g}; null model {score.null:.3g}).",
        )
    name, values, null = _cross_validated(model, candidates)
    if values is None:
        return Headline(
            "Score on new samples",
            None,
            "not measured: give held-out samples, or tune the model",
            None,
            "The score on new samples was not measured.",
        )
    mean, error = values
    spread = "" if error is None else f"± {_three(error)} (standard error over folds)"
    in_words = "" if error is None else f" ± {error:.3g} over folds"
    in_words += "" if null is None else f" (null model {null:.3g})"
    return Headline(
        f"{name}, cross-validated",
        mean,
        spread,
        null,
        f"In cross-validation the model reached {name} = {mean:.3g}{in_words}, a "
        "little optimistic, since the same folds chose its settings.",
    )


def _cross_validated(
    model: Any, candidates: Mapping[str, Any] | None
) -> tuple[str, tuple[float, float | None] | None, float | None]:
    """Return name, mean with standard error over folds, and the null model's score."""
    scores = getattr(model, "held_out_scores_", None)
    if scores:
        name, folds = next(iter(scores.items()))
        folds = np.asarray(folds, float)[np.isfinite(folds)]
        if len(folds):
            several = len(folds) > 1
            error = float(folds.std(ddof=1) / np.sqrt(len(folds))) if several else None
            names = {
                "r2": "R²",
                "roc_auc": "ROC AUC",
                "d2": "D²",
                "neg_mean_deviance": "minus deviance",
            }
            plain = names.get(name, "minus MSE")
            chosen = getattr(model, "scoring", None)
            own = getattr(model, "null_score_", None) if chosen is None else None
            null = 0.5 if name == "roc_auc" else own
            return plain, (float(folds.mean()), error), null
    facts = _search_facts(model, candidates)
    if facts["cv_score"] is None:
        return "", None, None
    return facts["scoring"], (facts["cv_score"], facts["cv_error"]), None


def _three(value: float) -> str:
    return f"{value:.3f}".replace("-", "−") if abs(value) < 10 else f"{value:.3g}"


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low}–{high}"


def _closed(kinds: list[str | None], answer: Answer | None) -> bool:
    """Say whether the coefficient is a closed form about a refined pilot."""
    if answer is not None and answer.radius is not None:
        return True
    return not set(kinds) <= {None, "scale"}


def _certificate(
    convergence: Mapping[str, Any] | None,
    kinds: list[str | None],
    answer: Answer | None,
) -> str:
    if convergence is None:
        return ""
    if answer is not None and answer.radius is not None:
        return (
            "The problem about the refined pilot has a closed form: the duality gap of "
            "the coefficient is zero."
        )
    if _closed(kinds, answer):
        return (
            "The refit is its own pilot, and radii of zero leave it as it is: the "
            "duality gap of the coefficient is zero."
        )
    text = f"The solver stopped after {convergence['nIter']} iterations"
    if convergence["value"] is None:
        return f"{text}; the method has no certificate of optimality."
    tol = convergence["tol"]
    bound = "" if tol is None else f" (tolerance {tol:.0e})"
    value = f"{convergence['name']} of {convergence['value']:.1e}{bound}"
    return f"{text} at a {value}."


def versions() -> dict[str, str]:
    """Return the versions a reader needs to repeat the analysis."""
    names = ("numpy", "scipy", "scikit-learn", "torch")
    installed = {name: installed_version(name) for name in names}
    return {
        "sltr": package_version(),
        "Python": platform.python_version(),
        **{name: version for name, version in installed.items() if version},
        "system": f"{platform.system()} {platform.machine()}",
    }
