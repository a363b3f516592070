"""What the answer of a tuned SLTR is made of: one candidate, or a mean of several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sltr.models.candidates import own_settings
from sltr.reporting.settings import folds_text

__all__ = ["Answer", "answer_of", "answer_text", "kinds_text", "refinement_text"]

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
    "average": "the mean of the {n} candidates whose held-out squared errors are "
    "within one standard error of the best one's, with one vote for each kind of "
    "refinement",
    "vote": "the mean of {n} candidates, weighted by votes that fall as exp(−z²/2), z "
    "the excess of held-out squared errors over the best one's in standard errors "
    "corrected for overlapping training sets \\cite{{nadeau2003inference}}; small "
    "votes are dropped, and a kind of refinement has the vote of its best candidate",
}
_SINGLE = {
    "1se": "that of the candidate of fewest free parameters within one standard error "
    "of the best score",
}


@dataclass(frozen=True)
class Answer:
    """Who takes part in a coefficient, and who is the best of them.

    Attributes
    ----------
    rule : str
    n_candidates : int
    folds : str
        The cross-validation that compared them.
    kinds : mapping from refinement to int
        How many candidates of each kind have a share.
    best : str or None
        The best candidate's refinement.
    settings : mapping
        Its other settings, as far as they apply to it.
    """

    rule: str
    n_candidates: int
    folds: str
    kinds: Mapping[str | None, int]
    best: str | None
    settings: Mapping[str, Any]

    @property
    def n_used(self) -> int:
        """How many candidates have a share."""
        return sum(self.kinds.values())

    @property
    def best_name(self) -> str:
        """What the best candidate is."""
        return _NAMES[self.best]

    @property
    def references(self) -> tuple[str, ...]:
        """Keys of what the rule goes back to."""
        voted = self.rule == "vote" and self.n_used > 1
        return ("nadeau2003inference",) if voted else ()


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
    )


def answer_text(answer: Answer, settings: Mapping[str, str]) -> str:
    """Return how the coefficient came about, with the best candidate's settings."""
    best = f"the {answer.best_name} with " + ", ".join(
        f"{name} = {value}" for name, value in settings.items()
    )
    compared = (
        f"{answer.folds} compared {answer.n_candidates} candidates. The coefficient is "
    )
    if answer.n_used == 1:
        single = _SINGLE.get(answer.rule, "that of the best candidate")
        return f"{compared}{single}, {best}."
    several = _SEVERAL[answer.rule].format(n=answer.n_used)
    return f"{compared}{several} ({kinds_text(answer)}). The best one is {best}."


def kinds_text(answer: Answer) -> str:
    """Return how many candidates of each kind have a share.

    Examples
    --------
    >>> kinds_text(Answer("average", 9, "", {"cp": 1, "tucker": 2}, "cp", {}))
    '1 CP refit, 2 Tucker refits'
    """
    return ", ".join(
        f"{n} {_NAMES[kind]}{'s' if n > 1 else ''}" for kind, n in answer.kinds.items()
    )


def refinement_text(kinds: Collection[str | None]) -> str:
    """Return what was done to the estimate, for all kinds that have a share.

    Examples
    --------
    >>> refinement_text(["cp", None])
    'Refits (CP) were fitted to the samples, starting from the SLTR estimate.'
    """
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
