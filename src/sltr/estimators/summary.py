"""What a fitted SLTR model found, in a few lines: `model.summary()`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from sltr.arrays import to_numpy
from sltr.parameters import printable
from sltr.tuning.candidates import SETTINGS, own_settings
from sltr.tuning.scores import metric_name

# What scores of the answer are called.
NAMES = {"r2": "R²", "roc_auc": "ROC AUC", "neg_mean_squared_error": "minus MSE"}
NOTHING = "nothing that predicts clearly better than the null model; coef_ is zero"


@dataclass(frozen=True)
class Summary:
    """What a fitted model found; prints as text, and as a table in Jupyter.

    Attributes
    ----------
    estimator : str
    shape : tuple of int
        Of a sample.
    score, score_error : float or None
        Mean held-out score of the answer, and its standard error over folds; with
        `scoring` that of the best candidate. None for a model that was not tuned.
    null_score : float or None
        The null model's score on the same folds.
    scored_by : str
    p_value, n_permutations : float and int, or None
        Of a permutation test, if `summary` was given one.
    n_nonzero, n_entries : int
    ranks : tuple of int, or list of tuples
        Numerical rank of each unfolding of the coefficient.
    chosen : dict
        The settings of the (best) estimate.
    n_averaged : int
        How many candidates `coef_` is the mean of.
    dual_gap, tol : float
        The relative duality gap reached, and the one asked for.
    sparse_radius : float or None
        Of the last step; None for a model without one.
    family : str or None
        Of a likelihood; None for least squares.
    pilot_residual : float or None
        The gradient of the penalised likelihood at its pilot, relative to that of the
        null model.
    n_iter : int
    n_passes : float
        How often samples in a file or on a cluster were read; 0 in memory.
    """

    estimator: str
    shape: tuple[int, ...]
    score: float | None
    score_error: float | None
    null_score: float | None
    scored_by: str
    p_value: float | None
    n_permutations: int | None
    n_nonzero: int
    n_entries: int
    ranks: Any
    chosen: Mapping[str, Any]
    n_averaged: int
    dual_gap: float
    tol: float
    n_iter: int
    sparse_radius: float | None = None
    n_passes: float = 0.0
    family: str | None = None
    pilot_residual: float | None = None

    def lines(self) -> list[tuple[str, str]]:
        """Return names and texts, one pair for each line."""
        zeros = self.n_entries - self.n_nonzero
        share = 100.0 * zeros / self.n_entries
        mean = f"; the mean of {self.n_averaged} candidates, this one is the best"
        found = [("found", NOTHING)] if self.sparse_radius == 1.0 else []
        chosen = ", ".join(f"{k} = {_text(v)}" for k, v in self.chosen.items())
        return [
            ("samples of shape", _text(self.shape)),
            ("held-out score", self._score_text()),
            *([("p-value", self._p_text())] if self.p_value is not None else []),
            *found,
            ("zeros", f"{zeros:,} of {self.n_entries:,} entries ({share:.1f} %)"),
            ("ranks of unfoldings", _text(self.ranks)),
            ("chosen", chosen + (mean if self.n_averaged > 1 else "")),
            ("duality gap", self._gap_text()),
            *([("passes over X", f"{self.n_passes:g}")] if self.n_passes else []),
            *([("likelihood", self._likelihood_text())] if self.family else []),
        ]

    def _likelihood_text(self) -> str:
        return (
            f"{self.family}; relative gradient of its pilot {self.pilot_residual:.1e}"
        )

    def _score_text(self) -> str:
        if self.score is None:
            return "unknown: settings were given, not tuned on held-out samples"
        error = "" if self.score_error is None else f" ± {self.score_error:.3f}"
        null = "" if self.null_score is None else f"; null model {self.null_score:.3f}"
        return f"{self.scored_by} {self.score:.3f}{error}{null}"

    def _gap_text(self) -> str:
        if self.sparse_radius is not None:
            return f"{self.dual_gap:.1e}: the last step has a closed form"
        if self.chosen["refine"] not in (None, "scale"):
            return f"{self.dual_gap:.1e}: radii of zero leave the refit as it is"
        steps = f"{self.n_iter} iteration{'s' if self.n_iter > 1 else ''}"
        return f"{self.dual_gap:.1e} (asked for {self.tol:.1e}) after {steps}"

    def _p_text(self) -> str:
        return f"{self.p_value:.2g} ({self.n_permutations} permutations)"

    def __str__(self) -> str:
        lines = self.lines()
        width = max(len(name) for name, _ in lines)
        body = "\n".join(f"  {name:<{width}}  {text}" for name, text in lines)
        # Names of modes and scores may come from a file of somebody else.
        return printable(f"{self.estimator}\n{body}", keep="\n")

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th style="text-align:left">{escape(name)}</th>'
            f'<td style="text-align:left">{escape(text)}</td></tr>'
            for name, text in self.lines()
        )
        caption = f'<caption style="text-align:left">{escape(self.estimator)}</caption>'
        return f"<table>{caption}<tbody>{rows}</tbody></table>"

    __repr__ = __str__


def summarise(model: Any, test: Any = None) -> Summary:
    """Return the summary of a fitted model, with the p-value of a test if given."""
    tuned = hasattr(model, "cv_results_")
    name, scores, null = held_out_score(model) if tuned else ("", np.array([]), None)
    several = len(scores) > 1
    coef = to_numpy(model.coef_)
    return Summary(
        estimator=type(model).__name__,
        shape=tuple(model.shape_in_),
        score=float(scores.mean()) if tuned else None,
        score_error=float(scores.std(ddof=1) / len(scores) ** 0.5) if several else None,
        null_score=null,
        scored_by=name,
        p_value=None if test is None else float(test.p_value),
        n_permutations=None if test is None else len(test.null),
        n_nonzero=int(np.count_nonzero(coef)),
        n_entries=entries_looked_at(model, coef),
        ranks=model.ranks_,
        chosen=_chosen(model) | map_in_front(model),
        n_averaged=int(np.count_nonzero(model.weights_)) if tuned else 1,
        dual_gap=model.dual_gap_,
        tol=model.tol,
        n_iter=model.n_iter_,
        # Nor this one.
        sparse_radius=getattr(model, "sparse_radius_", None),
        n_passes=getattr(model, "n_passes_", 0.0),
        family=getattr(model, "family", None),
        pilot_residual=getattr(model, "pilot_residual_", None),
    )


def held_out_score(model: Any) -> tuple[str, np.ndarray, float | None]:
    """Return what a tuned model is scored by, its scores (F,), and the null model's.

    The scores are those of the answer on each fold; of the best candidate if it was
    chosen by a `scoring` of its own.
    """
    known = getattr(model, "held_out_scores_", None)
    # Models saved by earlier versions have neither.
    null = getattr(model, "null_score_", None)
    if known and model.scoring is None:
        name, folds = next(iter(known.items()))
        folds = np.asarray(folds, float)
        if np.isfinite(folds).any():
            chance = 0.5 if name == "roc_auc" else null
            return NAMES.get(name, name), folds[np.isfinite(folds)], chance
    table = model.cv_results_
    columns = [table[key] for key in table if key.startswith("split")]
    folds = np.array([scores[model.best_index_] for scores in columns])
    return metric_name(model), folds, null


def entries_looked_at(model: Any, coefs: np.ndarray) -> int:
    """Return how many entries coefficients have, those outside a mask left out."""
    mask = getattr(model, "mask_", None)
    if mask is None:
        return int(coefs.size)
    return int(np.count_nonzero(mask)) * (coefs.size // mask.size)


def map_in_front(model: Any) -> dict[str, Any]:
    """Return the units and strengths that a fit was made with, if there were any."""
    found: dict[str, Any] = {}
    if getattr(model, "standardize_", None) is not None:
        found["standardize"] = model.standardize_
    names = getattr(model, "names_", None)
    for mode, strength in getattr(model, "smooth_", {}).items():
        found[f"smooth[{mode if names is None else names[mode]}]"] = strength
    return found


def _chosen(model: Any) -> dict[str, Any]:
    """Return the settings of a fit, as far as they apply to it."""
    if hasattr(model, "cv_results_"):
        chosen = own_settings(model.cv_results_["params"][model.best_index_])
        return {"refine": chosen.pop("refine"), **chosen}
    asked = model.refine
    kind = asked[0] if isinstance(asked, tuple | list) else asked
    settings = zip(SETTINGS[kind], model.refine_settings_, strict=True)
    return {
        "refine": kind,
        **own_settings(
            {
                "epsilon": model.epsilon_,
                "lambda_sparse": model.lambda_sparse,
                "lambda_low": model.lambda_low,
                **dict(settings),
            }
        ),
    }


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, tuple):
        return " × ".join(map(_text, value))
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return "none" if value is None else str(value)
