"""Commands that fit a model with settings given or chosen, and write it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sltr.cli.options import (
    Config,
    Covariates,
    Data,
    Device,
    FamilyName,
    Groups,
    Jobs,
    Json,
    Labels,
    Mask,
    Memory,
    Out,
    Target,
    Task,
    check_family,
    choose,
    parse_names,
)
from sltr.cli.output import progress_bar, write_model
from sltr.cli.reading import (
    check_output,
    kind_of,
    placed,
    read_samples,
    reading_options,
    refuse_labels,
)

REFINEMENTS = ("none", "scale", "reweight", "tucker", "cp", "sparse")


def fit(
    data: Data,
    out: Out = Path("model.sltr"),
    y: Labels = None,
    target: Target = "y",
    covariates: Covariates = None,
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
    family: FamilyName = None,
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
        sltr fit X.npy --y people.csv --target score --covariates age,sex,site
        sltr fit spectra.npz --target water,fat,protein
        sltr fit scan*.nii.gz --y labels.csv --target condition --mask mask.nii.gz
        sltr fit data.npz --device cuda
    """
    from sltr.arrays.resources import memory_bytes
    from sltr.estimators.sltr import SLTRClassifier, SLTRRegressor

    check_output(out, *data, y, mask, config)
    choose(refine, REFINEMENTS, "--refine")
    check_family(family)
    if not absolute:
        _check_fraction(lambda_sparse, "--lambda-sparse", "entry")
        _check_fraction(lambda_low, "--lambda-low", "singular value")
    # On a device samples are in memory by definition.
    largest = memory_bytes(memory_limit) if device == "cpu" else None
    loaded = read_samples(
        data,
        y=y,
        target=target,
        covariates=parse_names(covariates),
        mask=mask,
        largest=largest,
    )
    labels = kind_of(loaded.y, task) != "regression"
    model = (SLTRClassifier if labels else SLTRRegressor)(
        epsilon=epsilon if epsilon == "loo" else _number(epsilon, "--epsilon"),
        lambda_sparse=lambda_sparse,
        lambda_low=lambda_low,
        radius="absolute" if absolute else "relative",
        refine=None if refine == "none" else refine,
        family=family,
        memory_limit=memory_limit,
    )
    X, responses = placed(loaded, device, labels=labels)
    with progress_bar("Fitting", quiet=json) as move:
        model.set_params(progress=move)
        model.fit(X, responses, covariates=loaded.covariates)
    given = data, reading_options(y, target, mask, covariates)
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
    folds: Annotated[
        int | None,
        typer.Option(
            help="Folds of the cross-validation; 5 if not given, for ridge without "
            "groups leave-one-out.",
            metavar="N",
        ),
    ] = None,
    family: FamilyName = None,
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
        sltr tune spectra.npz --target water,fat,protein
        sltr tune data.npz --epsilons 1,10,100
        sltr tune spikes.npz --target counts --family poisson
        sltr tune data.npz --method remurs --folds 10 --jobs -1
        sltr tune data.npz --device cuda
    """
    from sklearn.model_selection import GridSearchCV

    from sltr.arrays.resources import memory_bytes
    from sltr.comparison import tune as tune_method
    from sltr.comparison import tuned_model
    from sltr.peers.registry import method as registered
    from sltr.tuning.folds import check_folds

    check_output(out, *data, y, mask, config)
    entry = registered(method)
    _refuse_null(method)
    of_sltr = {
        "--epsilons": epsilons,
        "--family": family,
        "--memory-limit": memory_limit,
    }
    check_family(family)
    if method != "sltr":
        _refuse_given(of_sltr, entry.title)
    penalties = None if epsilons is None else _penalties(epsilons)
    may_stay = method == "sltr" and device == "cpu"
    loaded = read_samples(
        data,
        y=y,
        target=target,
        groups=groups,
        covariates=parse_names(covariates),
        mask=mask,
        # The other methods, and devices, have all samples in memory.
        largest=memory_bytes(memory_limit) if may_stay else None,
    )
    if folds is not None:
        check_folds(folds, loaded.X.shape[0], loaded.groups)
    kind = kind_of(loaded.y, task)
    if kind != "regression" and entry.make_classifier is None:
        refuse_labels(loaded.y, kind, entry.title)
    if device != "cpu" and isinstance(tuned_model(entry, kind=kind), GridSearchCV):
        msg = f"{entry.title} is tuned by scikit-learn, on the CPU; leave --device out."
        raise ValueError(msg)
    X, responses = placed(loaded, device, labels=kind != "regression")
    settings: dict[str, Any] = {"memory_limit": memory_limit}
    if penalties is not None:
        settings["epsilons"] = penalties
    if family is not None:
        settings["family"] = family
    with progress_bar(f"Tuning {entry.title}", quiet=json) as move:
        model = tune_method(
            entry,
            X,
            responses,
            kind=kind,
            groups=loaded.groups,
            folds=folds,
            covariates=loaded.covariates,
            n_jobs=jobs,
            settings=settings,
            progress=move,
        )
    given = data, reading_options(y, target, mask, covariates)
    write_model(model, loaded, out, given, json)


def _refuse_null(method: str) -> None:
    if method == "null":
        msg = (
            "--method=null was given; expected a method with settings to choose, and "
            "the null model has none. sltr compare has its scores in every table"
        )
        raise typer.BadParameter(msg)


def _refuse_given(options: dict[str, Any], title: str) -> None:
    for option, value in options.items():
        if value is not None:
            msg = (
                f"{option}={value} was given; {title} does not take it, SLTR alone "
                "does. Leave it out, or use --method sltr"
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
