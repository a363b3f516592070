"""One self-contained HTML page about a fitted model.

The page holds its data, style and script; it loads nothing. Text given by the
user is escaped.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from sltr.arrays import to_numpy
from sltr.coefficients import coef_array, coef_thumbnail, shown_entries, target_labels
from sltr.parameters import import_optional, warn_caller
from sltr.persistence.files import check_destination, write_atomically
from sltr.plotting.field import plot_model
from sltr.plotting.modes import Coords, Modes
from sltr.plotting.style import close_figure
from sltr.reporting.facts import kinds_text, model_facts, versions
from sltr.reporting.payload import (
    Map,
    candidates_payload,
    coefficient_payload,
    convergence_payload,
    outcome_payload,
    path_payload,
)
from sltr.reporting.scores import check_lengths, evaluate
from sltr.reporting.text import bibtex, method_name, method_text
from sltr.samples.check import responses_in_order
from sltr.samples.labelled import unlabelled
from sltr.tuning.scores import metric_name

__all__ = ["report"]


def report(
    model: Any,
    X: Any,
    y: Any,
    path: str | os.PathLike,
    *,
    X_test: Any = None,
    y_test: Any = None,
    covariates: Any = None,
    covariates_test: Any = None,
    title: str = "Tensor regression report",
    description: str = "",
    response: str = "response",
    mode_names: Sequence[str] | None = None,
    units: Sequence[str | None] | None = None,
    coef_path: tuple[Any, Any] | None = None,
    path_name: str = "lambda_sparse",
    seed: int | None = None,
    n_bootstrap: int = 1000,
    coords: Coords | None = None,
    test: Any = None,
    patterns: Any = None,
    stability: Any = None,
    intervals: Any = None,
) -> Path:
    """Write one self-contained HTML page about a fitted model.

    The page says what was fitted on what; shows scores with their uncertainty
    beside the null model; lets the reader browse the coefficient slice by slice,
    the cross-validation and the regularisation path; states the convergence
    certificate; and holds a methods paragraph, references, versions and seed.

    Parameters
    ----------
    model : fitted estimator
        With `coef_`; also a pipeline or a search that ends in one.
    X, y : arrays of shapes (n, p1, …, pM) and (n,), or (n, q1, …)
        What the model was fitted on.
    path : path-like
        The file to write; an existing one is replaced.
    X_test, y_test : arrays, optional
        Samples the model has not seen. Without them the headline is the
        cross-validated score, if there is one, and the other scores are of the
        training samples, as the page says.
    covariates, covariates_test : arrays or tables, optional
        Beside `X` and `X_test`, for a model that was fitted with some.
    title, description : str
        Shown at the top.
    response : str
        The response's name, with its unit.
    mode_names, units : sequences of str, optional
        One for each mode.
    coef_path : pair (values, coefficients), optional
        A regularisation path: arrays of shapes (G,) and (G, p1, …, pM).
    path_name : str
        The hyper-parameter along the path.
    seed : int, optional
        The seed of the analysis, to be stated; the model's `random_state` if not
        given.
    n_bootstrap : int
        Samples drawn for the scores' uncertainty.
    coords : arrays, one for each mode, or mapping from mode to array, optional
        Where the slices of a mode lie, as times or names of channels: shown instead
        of indices.
    test, patterns, stability, intervals : optional
        Results of the functions of `sltr.inference` that are called like that, or
        `permutation_test`. The p-value has a card, maps are shown beside the
        coefficient, and predictions of held-out samples have their 90 % intervals.

    Returns
    -------
    pathlib.Path
        Where the page is.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.linear_model import Ridge
    >>> X, y = np.arange(8.0).reshape(4, 2), np.arange(4.0)
    >>> folder = tempfile.TemporaryDirectory()
    >>> page = report(Ridge().fit(X, y), X, y, f"{folder.name}/report.html")
    >>> page.read_text(encoding="utf-8").startswith("<!doctype html>")
    True
    >>> folder.cleanup()
    """
    check_destination(Path(path))
    final, held_out = _final(model), X_test is not None
    beside_used = covariates_test if held_out else covariates
    _check_given(final, held_out, y_test, beside_used, intervals)
    y, y_test = responses_in_order(final, y), responses_in_order(final, y_test)
    check_lengths(X, y)
    _warn_of_names(final, X, X_test)
    outcome = evaluate(
        model,
        X_test if held_out else X,
        y_test if held_out else y,
        y,
        covariates=beside_used,
        n_bootstrap=n_bootstrap,
    )
    if intervals is not None and outcome.each:
        msg = "intervals was given for several responses; expected one. Leave it out."
        raise ValueError(msg)
    coefs, targets = _coefficients(final)
    beside = _maps_beside(final, targets, coefs.shape[1:], patterns, stability)
    bounds = None
    if intervals is not None and outcome.classes is None:
        bounds = intervals.predict(X_test, level=0.9)
    modes = Modes.of(coefs.shape[1:], mode_names, units, coords, final)
    searched = model if hasattr(model, "cv_results_") else final
    candidates = candidates_payload(searched, metric_name(searched))
    convergence = convergence_payload(final)
    chosen_value = getattr(final, f"{path_name}_", getattr(final, path_name, None))
    data = {
        "coef": coefficient_payload(
            shown_entries(coefs, final),
            targets,
            _mean_sample(X, coefs.shape[1:]),
            modes,
            beside,
            "Class" if outcome.classes is not None else "Response",
        ),
        "candidates": candidates,
        "path": path_payload(coef_path, chosen_value, path_name),
        "convergence": convergence,
        "outcome": outcome_payload(
            outcome, f"{response}, standardised" if outcome.each else response, bounds
        ),
    }
    facts = model_facts(
        final,
        X,
        outcome,
        coefs,
        targets,
        candidates,
        convergence,
        held_out,
        search=searched,
    )
    class_name, answer = type(final).__name__, facts["answer"]
    page = _render(
        title=title,
        description=description,
        response=response,
        date=datetime.now().astimezone().strftime("%d %B %Y, %H:%M %Z"),
        facts=facts,
        method_name=method_name(class_name),
        method=method_text(facts),
        references=bibtex(class_name),
        averaged=kinds_text(answer) if answer and answer.n_used > 1 else "",
        params=final.get_params(deep=False),
        scores=outcome.scores,
        each=outcome.each,
        held_out=held_out,
        n_bootstrap=n_bootstrap,
        convergence=convergence,
        versions=versions(),
        seed=getattr(final, "random_state", None) if seed is None else seed,
        icon=coef_thumbnail(coefs[0], size=32),
        picture=_field_picture(final),
        data=data,
        test=test,
        maps=_maps_text(patterns, stability),
        covered=bounds and np.mean((bounds[0] <= outcome.y) & (outcome.y <= bounds[1])),
    )
    return write_atomically(Path(path), page.encode())


def _check_given(
    model: Any, held_out: bool, y_test: Any, covariates: Any, intervals: Any
) -> None:
    """Refuse what cannot be scored, or goes with held-out samples that are not there.

    `covariates` are those of the samples that are scored.
    """
    if held_out != (y_test is not None):
        msg = "Only one of X_test and y_test was given; expected both or neither."
        raise ValueError(msg)
    if intervals is not None and not held_out:
        msg = (
            "intervals was given without X_test; expected both, since the intervals "
            "are those of new samples. Pass held-out samples."
        )
        raise ValueError(msg)
    if getattr(model, "n_covariates_in_", 0) and covariates is None:
        name = "covariates_test" if held_out else "covariates"
        msg = (
            f"The model was fitted with covariates, and {name} was not given; expected "
            "those of the samples that are scored."
        )
        raise ValueError(msg)


def _maps_beside(
    model: Any,
    targets: list[str],
    shape: tuple[int, ...],
    patterns: Any,
    stability: Any,
) -> list[Map]:
    """Return the maps of `sltr.inference` that stand beside the coefficient."""
    maps = []
    if patterns is not None:
        entries = to_numpy(patterns.pattern).reshape(-1, *shape)
        spread = np.ravel(to_numpy(patterns.score_std)).reshape(-1, *[1] * len(shape))
        maps = [
            Map("pattern", target, entry)
            for target, entry in zip(targets, entries * spread, strict=True)
        ]
    if stability is not None:
        frequency = np.asarray(stability.frequency, float).reshape(shape)
        maps.append(Map("selection frequency", "", frequency))
    return [replace(one, entries=shown_entries(one.entries, model)) for one in maps]


def _maps_text(patterns: Any, stability: Any) -> str:
    """Return what the maps beside the coefficient say."""
    parts = []
    if patterns is not None:
        parts.append(
            "The pattern is the change of each entry that goes with one standard "
            "deviation of the model's score: it says where the signal is."
        )
    if stability is not None:
        parts.append(
            f"Selection frequencies are those of {stability.n_halves} halves of the "
            f"samples. {np.count_nonzero(stability.selected):,} entries reach "
            f"{stability.threshold:g}; at most {stability.max_false:.3g} of those "
            "are expected there by chance."
        )
    return " ".join(parts)


def _warn_of_names(model: Any, X: Any, X_test: Any) -> None:
    """Warn if samples are called as if they were not what they are given as."""
    fitted = set(np.ravel(getattr(model, "ids_", ())).tolist())
    given, held_out = _names(X), _names(X_test)
    if fitted and given and not fitted & given:
        warn_caller(
            f"None of the samples has the name of one that the model was fitted on: X "
            f"has {min(given)}, the model {min(fitted)}. The report takes them for the "
            "training samples. Give new samples as X_test and y_test (--test).",
            UserWarning,
        )
    seen = fitted & held_out
    if seen:
        warn_caller(
            f"{len(seen)} held-out samples have the names of samples that the model "
            f"was fitted on, as {min(seen)}. If they are the same, their score "
            "flatters: leave them out.",
            UserWarning,
        )


def _names(X: Any) -> set[Any]:
    known = unlabelled(X)[1]
    return set() if known is None or known.ids is None else set(known.ids.tolist())


def _field_picture(model: Any) -> str:
    """Return the picture of the model's field as a data URI; empty if it has none."""
    if not hasattr(model, "space_"):
        return ""
    content = BytesIO()
    try:
        fig = plot_model(model)
    except (ImportError, ValueError):  # its library is not there, or has no positions
        return ""
    fig.savefig(content, format="png", dpi=110)
    close_figure(fig)
    return "data:image/png;base64," + b64encode(content.getvalue()).decode()


def _final(model: Any) -> Any:
    """Return the estimator that holds the coefficient."""
    model = getattr(model, "best_estimator_", model)
    final = model[-1] if hasattr(model, "steps") else model
    if not hasattr(final, "coef_"):
        msg = (
            f"{type(final).__name__} has no coef_; expected a fitted linear model. "
            "Call fit first."
        )
        raise ValueError(msg)
    return final


def _coefficients(model: Any) -> tuple[np.ndarray, list[str]]:
    """Return coefficients (K, p1, …, pM) and the names of the K targets."""
    labels = target_labels(model)
    coefs = [coef_array(model, label) for label in labels or [None]]
    return np.stack(coefs), list(map(str, labels)) or [""]


def _mean_sample(X: Any, shape: tuple[int, ...]) -> np.ndarray | None:
    X = X if hasattr(X, "mean") and hasattr(X, "shape") else np.asarray(X)
    mean = np.asarray(to_numpy(X.mean(axis=0)), float)
    return mean.reshape(shape) if mean.size == np.prod(shape) else None


def _number(value: Any) -> str:
    """Return a number with three digits, a typographic minus and no noise."""
    if value is None or not np.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e6:
        text = f"{value:.2e}"
    elif size >= 1000:
        text = f"{value:,.0f}"
    else:
        text = f"{value:.3f}" if 1e-3 <= size < 1 else f"{value:#.3g}".rstrip(".")
    return text.replace("-", "−")


def _render(**context: Any) -> str:
    jinja2 = import_optional("jinja2", "The report needs jinja2", "'sltr[report]'")
    folder = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = _number
    return environment.get_template("template.html").render(
        style=(folder / "style.css").read_text(encoding="utf-8"),
        scripts=[
            (folder / name).read_text(encoding="utf-8")
            for name in ("charts.js", "browser.js", "explorers.js")
        ],
        **context,
    )
