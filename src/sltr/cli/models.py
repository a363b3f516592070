"""Commands that fit, use, compare and show models."""

from __future__ import annotations

import csv
import sys
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
    Seed,
    Target,
    Task,
    choose,
    parse_names,
)
from sltr.cli.output import print_facts, print_json, print_scores, progress_bar, say

__all__ = ["compare", "fit", "predict", "report", "tune"]

Saved = Annotated[Path, typer.Argument(help="A model written by fit or tune.")]
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

    choose(refine, REFINEMENTS, "--refine")
    # On a device samples are in memory by definition.
    largest = memory_bytes(memory_limit) if device == "cpu" else None
    loaded = load_samples(data, y=y, target=target, mask=mask, largest=largest)
    labels = _kind(loaded.y, task) != "regression"
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
    _write_model(model.set_params(progress=None), loaded, out, data, json)


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
        sltr tune data.npz --method remurs --jobs -1
        sltr tune data.npz --device cuda
    """
    from sltr.datasets import load_samples
    from sltr.design import memory_bytes
    from sltr.experiments.comparison import tuned_model
    from sltr.models.registry import method as registered

    entry = registered(method)
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
    kind = _kind(loaded.y, task)
    if kind != "regression" and entry.make_classifier is None:
        _refuse_words(loaded.y, entry.title)
    model = tuned_model(entry, kind=kind, groups=loaded.groups, n_jobs=jobs)
    if "memory_limit" in model.get_params(deep=False):
        model.set_params(memory_limit=memory_limit)
    if device != "cpu" and type(model).__module__.startswith("sklearn."):
        msg = f"{entry.title} is tuned by scikit-learn, on the CPU; leave --device out."
        raise ValueError(msg)
    X, responses = _placed(loaded, device, labels=kind != "regression")
    given = {"groups": loaded.groups, "covariates": loaded.covariates}
    with progress_bar(f"Tuning {entry.title}", quiet=json) as move:
        if "progress" in model.get_params(deep=False):
            model.set_params(progress=move)
        _fit_with(model, X, responses, given)
    model = getattr(model, "best_estimator_", model)
    if "progress" in model.get_params(deep=False):
        model.set_params(progress=None)
    _write_model(model, loaded, out, data, json)


def predict(
    model: Saved,
    data: Data,
    out: Annotated[
        Path | None,
        typer.Option(help="A .csv or .npy file; standard output if not given."),
    ] = None,
    y: Annotated[
        Path | None, typer.Option("--y", help="A .csv table with the covariates.")
    ] = None,
    covariates: Covariates = None,
    mask: Mask = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Predict responses, or labels with their probabilities, for new samples.

    Examples
    --------
        sltr predict model.sltr new.npz > predictions.csv
        sltr predict model.sltr new.npy --out predictions.npy
        sltr predict model.sltr scan*.nii.gz --mask mask.nii.gz --json
    """
    from sltr import load
    from sltr.datasets import load_samples
    from sltr.design import memory_bytes

    fitted = load(model)
    lazy = hasattr(fitted, "memory_limit")
    loaded = load_samples(
        data,
        y=y,
        target=None,
        covariates=parse_names(covariates),
        mask=mask,
        largest=memory_bytes(fitted.memory_limit) if lazy else None,
    )
    columns = _predictions(fitted, loaded.X, loaded.covariates)
    if json:
        print_json(columns)
    elif out is None:
        _write_csv(sys.stdout, columns)
    else:
        _write_predictions(out, columns)
        say(f"Wrote {out}.")


def compare(
    data: Data,
    methods: Annotated[
        str, typer.Option(help="Methods, with commas; or all.")
    ] = "sltr,remurs,cp",
    y: Labels = None,
    target: Target = "y",
    groups: Groups = None,
    mask: Mask = None,
    task: Task = "auto",
    folds: Annotated[int, typer.Option(help="Outer folds.")] = 5,
    seed: Seed = 0,
    jobs: Jobs = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Compare methods on your data: one table, the same folds for all.

    Every method is tuned inside each outer fold and scored on the samples that
    the fold holds out (nested cross-validation). The null model and ridge are
    always in the table; what does not beat both has found nothing.

    Examples
    --------
        sltr compare data.npz
        sltr compare data.npz --methods sltr,remurs,sturm,lasso --folds 10
        sltr compare X.npy --y people.csv --target group --groups site --json
    """
    from sltr.datasets import load_samples
    from sltr.experiments import compare as compare_methods
    from sltr.experiments import summary
    from sltr.models.registry import METHODS

    chosen = tuple(METHODS) if methods == "all" else parse_names(methods)
    loaded = load_samples(data, y=y, target=target, groups=groups, mask=mask)
    labels = _kind(loaded.y, task) != "regression"
    with progress_bar("Comparing", quiet=json) as move:
        rows = compare_methods(
            loaded.X,
            loaded.y,
            chosen,
            folds=folds,
            groups=loaded.groups,
            classification=labels,
            random_state=seed,
            n_jobs=jobs,
            progress=move,
        )
    if json:
        print_json({"summary": summary(rows), "folds": rows})
    else:
        print_scores(summary(rows))


def report(
    model: Saved,
    data: Data,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    y: Labels = None,
    target: Target = "y",
    mask: Mask = None,
    test: Annotated[
        Path | None,
        typer.Option(help="Samples the model has not seen, with responses."),
    ] = None,
    title: Annotated[str, typer.Option(help="Of the page.")] = "Tensor regression",
    modes: Annotated[
        str | None, typer.Option(help="Names of the modes, with commas.")
    ] = None,
    response: Annotated[str, typer.Option(help="Name of the response.")] = "response",
    config: Config = None,
) -> None:
    """Write one HTML page about a model: scores, coefficient, tuning, method text.

    DATA is what the model was fitted on. Without `--test` the scores are those of
    the training samples, and the page says so.

    Examples
    --------
        sltr report model.sltr data.npz --test data-test.npz
        sltr report model.sltr bold.npz --modes x,y,time --title "Faces, houses"
    """
    from sltr import load
    from sltr import report as write_report
    from sltr.datasets import load_samples

    fitted = load(model)
    loaded = load_samples(data, y=y, target=target, mask=mask)
    unseen = None if test is None else load_samples([test], target=target)
    page = write_report(
        fitted,
        loaded.X,
        loaded.y,
        out,
        X_test=None if unseen is None else unseen.X,
        y_test=None if unseen is None else unseen.y,
        title=title,
        response=response,
        mode_names=parse_names(modes) or None,
    )
    say(f"Wrote {page}; open it in a browser.")


def _kind(y: Any, task: str) -> str:
    """Return "regression", "binary" or "multi-class"."""
    from sltr.experiments.comparison import response_kind

    choose(task, ("auto", "regression", "classification"), "--task")
    kind = response_kind(y, None if task == "auto" else task == "classification")
    if task == "auto":
        what = "numbers: regression" if kind == "regression" else "labels: " + kind
        say(f"Responses are {what} (--task changes it).")
    return kind


def _placed(loaded: Any, device: str, *, labels: bool) -> tuple[Any, Any]:
    """Return samples and responses where they are to be computed with."""
    from sltr._array import on_device

    if device == "cpu":
        return loaded.X, loaded.y
    X = on_device(loaded.X, device)
    return X, loaded.y if labels else on_device(loaded.y, device)


def _number(text: str, option: str) -> float:
    try:
        return float(text)
    except ValueError:
        msg = f"{option}={text!r} was given; expected a number, or loo"
        raise typer.BadParameter(msg) from None


def _refuse_words(y: Any, title: str) -> None:
    from sltr.models.registry import METHODS

    if y.dtype.kind not in "biuf":
        able = [name for name, entry in METHODS.items() if entry.make_classifier]
        msg = (
            f"{title} has no classifier and the labels are words; expected labels 0 "
            f"and 1, or one of the methods {', '.join(able)}."
        )
        raise ValueError(msg)


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


def _write_model(
    model: Any, loaded: Any, out: Path, data: list[Path], json: bool
) -> None:
    from sltr import save

    save(model, out)
    facts: dict[str, Any] = {"model": type(model).__name__, "file": str(out)}
    facts |= {"samples": loaded.X.shape[0], "shape": loaded.X.shape[1:]}
    facts |= _fitted_values(model)
    facts["entries that are not zero"] = int((model.coef_ != 0).sum())
    (print_json if json else print_facts)(facts)
    files = " ".join(map(str, data[:1])) + (" …" if len(data) > 1 else "")
    say(f"Wrote {out}. Next: sltr report {out} {files}")


def _fitted_values(model: Any) -> dict[str, Any]:
    """Return what fitting found or chose, as far as it is a number, word or shape."""
    told = ("shape_in_", "n_features_in_", "best_index_", "n_covariates_in_")
    return {
        name.rstrip("_").replace("_", " "): value
        for name, value in vars(model).items()
        if name.endswith("_")
        and name not in told
        and isinstance(value, int | float | str | tuple)
        and len(str(value)) < 40
    }


def _predictions(model: Any, X: Any, covariates: Any) -> dict[str, Any]:
    given = {} if covariates is None else {"covariates": covariates}
    columns = {"prediction": model.predict(X, **given)}
    if hasattr(model, "predict_proba"):
        shares = model.predict_proba(X, **given)
        for k, label in enumerate(model.classes_):
            columns[f"probability of {label}"] = shares[:, k]
    return columns


def _write_csv(file: Any, columns: dict[str, Any]) -> None:
    table = csv.writer(file, lineterminator="\n")
    table.writerow(["sample", *columns])
    lists = [values.tolist() for values in columns.values()]
    table.writerows([k, *row] for k, row in enumerate(zip(*lists, strict=True)))


def _write_predictions(out: Path, columns: dict[str, Any]) -> None:
    from io import BytesIO, StringIO

    import numpy as np

    from sltr.persistence.files import write_atomically

    if out.suffix == ".npy":
        content = BytesIO()
        np.save(content, columns["prediction"], allow_pickle=False)
        write_atomically(out, content.getvalue())
    elif out.suffix == ".csv":
        text = StringIO()
        _write_csv(text, columns)
        write_atomically(out, text.getvalue().encode())
    else:
        msg = f"--out={out} was given; expected a name that ends in .csv or .npy."
        raise ValueError(msg)
