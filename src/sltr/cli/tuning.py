"""The command that chooses every setting of a method, and writes the model."""

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
    Out,
    Target,
    Task,
    parse_names,
)
from sltr.cli.progress import progress_bar
from sltr.cli.reading import placed, read_samples, reading_options
from sltr.cli.responses import kind_of, refuse_labels
from sltr.cli.saving import write_model

__all__ = ["tune"]


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
        sltr tune data.npz --method remurs --folds 10 --jobs -1
        sltr tune data.npz --device cuda
    """
    from sltr.design import memory_bytes
    from sltr.experiments.tuned import check_folds, fit_tuned, tuned_model
    from sltr.models.registry import method as registered
    from sltr.persistence.files import check_destination

    check_destination(out)
    entry = registered(method)
    _refuse_null(method)
    own = {"--epsilons": epsilons, "--memory-limit": memory_limit}
    if method != "sltr":
        _refuse_given(own, entry.title)
    penalties = None if epsilons is None else _penalties(epsilons)
    stays = method == "sltr" and device == "cpu"
    loaded = read_samples(
        data,
        y=y,
        target=target,
        groups=groups,
        covariates=parse_names(covariates),
        mask=mask,
        # The other methods, and devices, have all samples in memory.
        largest=memory_bytes(memory_limit) if stays else None,
    )
    if folds is not None:
        check_folds(folds, loaded.X.shape[0], loaded.groups)
    kind = kind_of(loaded.y, task)
    if kind != "regression" and entry.make_classifier is None:
        refuse_labels(loaded.y, kind, entry.title)
    model = tuned_model(
        entry, kind=kind, groups=loaded.groups, folds=folds, n_jobs=jobs
    )
    if method == "sltr":
        model.set_params(memory_limit=memory_limit)
    if penalties is not None:
        model.set_params(epsilons=penalties)
    if device != "cpu" and type(model).__module__.startswith("sklearn."):
        msg = f"{entry.title} is tuned by scikit-learn, on the CPU; leave --device out."
        raise ValueError(msg)
    X, responses = placed(loaded, device, labels=kind != "regression")
    with progress_bar(f"Tuning {entry.title}", quiet=json) as move:
        if "progress" in model.get_params(deep=False):
            model.set_params(progress=move)
        fit_tuned(
            model,
            X,
            responses,
            groups=loaded.groups,
            folds=folds,
            covariates=loaded.covariates,
        )
        model = _chosen(model, X, responses)
    if "progress" in model.get_params(deep=False):
        model.set_params(progress=None)
    write_model(model, loaded, out, (data, reading_options(y, target, mask)), json)


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


def _chosen(model: Any, X: Any, y: Any) -> Any:
    """Return the estimator to save, with the scores that it was chosen by."""
    from sltr.experiments.penalties import loo_score
    from sltr.models.elementary import TensorRidge

    best = getattr(model, "best_estimator_", model)
    if best is not model:
        for name in ("best_params_", "best_score_", "best_index_", "cv_results_"):
            setattr(best, name, getattr(model, name))
    elif isinstance(model, TensorRidge) and not hasattr(model, "best_score_"):
        model.best_score_ = loo_score(model, X, y)
    return best
