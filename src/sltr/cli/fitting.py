"""The command that fits a model with settings given, and writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sltr.cli.options import (
    Config,
    Data,
    Device,
    Json,
    Labels,
    Mask,
    Memory,
    Out,
    Target,
    Task,
    choose,
)
from sltr.cli.progress import progress_bar
from sltr.cli.reading import placed, read_samples, reading_options
from sltr.cli.responses import kind_of
from sltr.cli.saving import write_model

__all__ = ["fit"]

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
    from sltr.design import memory_bytes
    from sltr.persistence.files import check_destination

    check_destination(out)
    choose(refine, REFINEMENTS, "--refine")
    if not absolute:
        _check_fraction(lambda_sparse, "--lambda-sparse", "entry")
        _check_fraction(lambda_low, "--lambda-low", "singular value")
    # On a device samples are in memory by definition.
    largest = memory_bytes(memory_limit) if device == "cpu" else None
    loaded = read_samples(data, y=y, target=target, mask=mask, largest=largest)
    labels = kind_of(loaded.y, task) != "regression"
    model = (SLTRClassifier if labels else SLTRRegressor)(
        epsilon=epsilon if epsilon == "loo" else _number(epsilon, "--epsilon"),
        lambda_sparse=lambda_sparse,
        lambda_low=lambda_low,
        radius="absolute" if absolute else "relative",
        refine=None if refine == "none" else refine,
        memory_limit=memory_limit,
    )
    X, responses = placed(loaded, device, labels=labels)
    with progress_bar("Fitting", quiet=json) as move:
        model.set_params(progress=move).fit(X, responses)
    given = data, reading_options(y, target, mask)
    write_model(model.set_params(progress=None), loaded, out, given, json)


def _check_fraction(value: float, option: str, what: str) -> None:
    if not 0 <= value <= 1:
        msg = (
            f"{option}={value:g} was given; expected 0 to 1, a fraction of the pilot's "
            f"largest {what}. --absolute takes radii in units of the coefficient"
        )
        raise typer.BadParameter(msg)


def _number(text: str, option: str) -> float:
    try:
        return float(text)
    except ValueError:
        msg = f"{option}={text!r} was given; expected a number, or loo"
        raise typer.BadParameter(msg) from None
