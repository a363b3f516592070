"""Commands that fit a model and write it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sltr.cli.options import (
    Config,
    Covariates,
    Data,
    Device,
    Groups,
    Jobs,
    Json,
    Labels,
    Mask,
    Memory,
    Target,
    Task,
    choose,
    parse_names,
)
from sltr.cli.output import progress_bar
from sltr.cli.responses import kind_of, refuse_words
from sltr.cli.saving import write_model

__all__ = ["fit", "tune"]

Out = Annotated[Path, typer.Option(help="The model to write.", metavar="FILE")]
REFINEMENTS = ("none", "scale", "reweight", "tucker", "cp", "sparse")


def fit(
    data: Data,
    out: Out = Path("model.sltr"),
    y: Labels = None,
    target: Target = "y",
    mask: Mask = None,
    task: Task = "auto",
    epsilon: Annotated[
        str, typer.Option(help="Penalty of the ridge pilot: a number, or loo.")
    ] = "loo",
    lambda_sparse: Annotated[
        float, typer.Option(help="Radius of the entrywise ball, 0 to 1.")
    ] = 0.1,
    lambda_low: Annotated[
        float, typer.Option(help="Radius of the spectral ball, 0 to 1.")
    ] = 0.1,
    absolute: Annotated[
        bool,
        typer.Option("--absolute", help="Radii in units of the coefficient."),
    ] = False,
    refine: Annotated[
        str, typer.Option(help=f"{', '.join(REFINEMENTS)}: undo the shrinkage.")
    ] = "none",
    memory_limit: Memory = None,
    device: Device = "cpu",
    json: Json = False,
    config: Config = None,
) -> None:
    """Fit SLTR with radii that you choose; `tune` chooses them for you.

    Examples
    --------
        sltr fit data.npz --lambda-sparse 0.3 --lambda-low 0.3 --refine scale
        sltr fit X.npy --y people.csv --target age --out age.sltr
        sltr fit scan*.nii.gz --y labels.csv --target condition --mask mask.nii.gz
        sltr fit data.npz --device cuda
    """
    from sltr import SLTRClassifier, SLTRRegressor
    from sltr.datasets import load_samples
    from sltr.design import memory_bytes
    from sltr.persistence.files import check_destination

    check_destination(out)
    choose(refine, REFINEMENTS, "--refine")
    if not absolute:
        _check_fraction(lambda_sparse, "--lambda-sparse", "entry")
        _check_fraction(lambda_low, "--lambda-low", "singular value")
    # On a device samples are in memory by definition.
    largest = memory_bytes(memory_limit) if device == "cpu" else None
    loaded = load_samples(data, y=y, target=target, mask=mask, largest=largest)
    labels = kind_of(loaded.y, task) != "regression"
    model = (SLTRClassifier if labels else SLTRRegressor)(
        epsilon=epsilon if epsilon == "loo" else _number(epsilon, "--epsilon"),
        lambda_sparse=lambda_sparse,
        lambda_low=lambda_low,
        radius="absolute" if absolute else "relative",
        refine=None if refine == "none" else refine,
        memory_limit=memory_limit,
    )
    X, responses = _placed(loaded, device, labels=labels)
    with progress_bar("Fitting", quiet=json) as move:
        model.set_params(progress=move).fit(X, responses)
    given = data, _reading(y, target, mask)
    write_model(model.set_params(progress=None), loaded, out, given, json)


def tune(
    data: Data,
    out: Out = Path("model.sltr"),
    y: Labels = None,
    target: Target = "y",
    groups: Groups = None,
    covariates: Covariates = None,
    mask: Mask = None,
    task: Task = "auto",
    method: Annotated[
        str, typer.Option(help="sltr, or a peer: remurs, cp, tucker, lasso, …")
    ] = "sltr",
    epsilons: Annotated[
        str | None,
        typer.Option(
            help="Penalties of SLTR's pilot to try, with commas; or loo, or paper.",
            metavar="NUMBERS",
        ),
    ] = None,
    memory_limit: Memory = None,
    jobs: Jobs = None,
    device: Device = "cpu",
    json: Json = False,
    config: Config = None,
) -> None:
    """Choose every setting of a method by cross-validation, and fit it.

    Examples
    --------
        sltr tune data.npz --out model.sltr
        sltr tune films/ --out film.sltr
        sltr tune bold.nii.gz --y runs.csv --target face --groups run
        sltr tune data.npz --epsilons 1,10,100
        sltr tune data.npz --method remurs --jobs -1
        sltr tune data.npz --device cuda
    """
    from sltr.datasets import load_samples
    from sltr.design import memory_bytes
    from sltr.experiments.tuned import tuned_model
    from sltr.models.registry import method as registered
    from sltr.persistence.files import check_destination

    check_destination(out)
    entry = registered(method)
    own = {"--epsilons": epsilons, "--memory-limit": memory_limit}
    if method != "sltr":
        _refuse_given(own, entry.title)
    penalties = None if epsilons is None else _penalties(epsilons)
    stays = method == "sltr" and device == "cpu"
    loaded = load_samples(
        data,
        y=y,
        target=target,
        groups=groups,
        covariates=parse_names(covariates),
        mask=mask,
        # The other methods, and devices, have all samples in memory.
        largest=memory_bytes(memory_limit) if stays else None,
    )
    kind = kind_of(loaded.y, task)
    if kind != "regression" and entry.make_classifier is None:
        refuse_words(loaded.y, entry.title)
    model = tuned_model(entry, kind=kind, groups=loaded.groups, n_jobs=jobs)
    if method == "sltr":
        model.set_params(memory_limit=memory_limit)
    if penalties is not None:
        model.set_params(epsilons=penalties)
    if device != "cpu" and type(model).__module__.startswith("sklearn."):
        msg = f"{entry.title} is tuned by scikit-learn, on the CPU; leave --device out."
        raise ValueError(msg)
    X, responses = _placed(loaded, device, labels=kind != "regression")
    beside = {"groups": loaded.groups, "covariates": loaded.covariates}
    with progress_bar(f"Tuning {entry.title}", quiet=json) as move:
        if "progress" in model.get_params(deep=False):
            model.set_params(progress=move)
        _fit_with(model, X, responses, beside)
    model = getattr(model, "best_estimator_", model)
    if "progress" in model.get_params(deep=False):
        model.set_params(progress=None)
    write_model(model, loaded, out, (data, _reading(y, target, mask)), json)


def _placed(loaded: Any, device: str, *, labels: bool) -> tuple[Any, Any]:
    """Return samples and responses where they are to be computed with."""
    from sltr._array import on_device

    if device == "cpu":
        return loaded.X, loaded.y
    X = on_device(loaded.X, device)
    return X, loaded.y if labels else on_device(loaded.y, device)


def _reading(y: Path | None, target: str, mask: Path | None) -> dict[str, Any]:
    """Return the options that samples were read with, as far as they were given."""
    return {"--y": y, "--target": None if target == "y" else target, "--mask": mask}


def _refuse_given(options: dict[str, Any], title: str) -> None:
    for option, value in options.items():
        if value is not None:
            msg = (
                f"{option}={value} was given; {title} does not take it, SLTR alone "
                "does. Leave it out, or use --method sltr"
            )
            raise typer.BadParameter(msg)


def _check_fraction(value: float, option: str, what: str) -> None:
    if not 0 <= value <= 1:
        msg = (
            f"{option}={value:g} was given; expected 0 to 1, a fraction of the pilot's "
            f"largest {what}. --absolute takes radii in units of the coefficient"
        )
        raise typer.BadParameter(msg)


def _penalties(text: str) -> str | tuple[float, ...]:
    if text in ("loo", "paper"):
        return text
    try:
        return tuple(float(part) for part in parse_names(text))
    except ValueError:
        msg = f"--epsilons={text!r} was given; expected numbers as 1,10, loo or paper"
        raise typer.BadParameter(msg) from None


def _number(text: str, option: str) -> float:
    try:
        return float(text)
    except ValueError:
        msg = f"{option}={text!r} was given; expected a number, or loo"
        raise typer.BadParameter(msg) from None


def _fit_with(model: Any, X: Any, y: Any, given: dict[str, Any]) -> None:
    """Fit with groups and covariates; refuse covariates that would be ignored."""
    from sklearn.model_selection import GridSearchCV
    from sklearn.utils.validation import has_fit_parameter

    extra = {}
    for name, value in given.items():
        if value is None:
            continue
        if has_fit_parameter(model, name) or isinstance(model, GridSearchCV):
            extra[name] = value
        elif name == "covariates":
            msg = (
                f"{type(model).__name__} takes no covariates; expected a method that "
                "does: cp or tucker. Leave --covariates out or change --method."
            )
            raise ValueError(msg)
    model.fit(X, y, **extra)
