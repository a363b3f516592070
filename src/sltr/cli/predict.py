"""The command that predicts."""

from __future__ import annotations

import csv
import sys
from io import StringIO
from pathlib import Path
from typing import Annotated, Any

import typer

from sltr.cli.options import Config, Covariates, Data, Json, Mask, Saved, parse_names
from sltr.cli.output import print_json, say
from sltr.cli.reading import check_output, match_covariates, match_images, read_samples
from sltr.parameters import printable
from sltr.persistence import load
from sltr.persistence.files import write_atomically, write_through
from sltr.persistence.values import harmless


def predict(
    model: Saved,
    data: Data,
    out: Annotated[
        Path | None,
        typer.Option(help="A .csv or .npy file; standard output if not given."),
    ] = None,
    y: Annotated[
        Path | None, typer.Option("--y", help="A .csv or .tsv table with covariates.")
    ] = None,
    covariates: Covariates = None,
    mask: Mask = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Predict responses, or labels with their probabilities, for new samples.

    In .csv, words that a spreadsheet would take for a formula (they begin with `=`,
    `+`, `-` or `@`) have an apostrophe in front.

    Examples
    --------
        sltr predict model.sltr new.npz > predictions.csv
        sltr predict model.sltr new.npy --out predictions.npy
        sltr predict model.sltr scan*.nii.gz --mask mask.nii.gz --json
    """
    from sltr.arrays.resources import memory_bytes

    if out is not None:
        if out.suffix not in (".csv", ".npy"):
            msg = f"--out={out} was given; expected a name that ends in .csv or .npy"
            raise typer.BadParameter(msg)
        check_output(out, model, *data, y, mask, config)
    fitted = load(model)
    lazy = hasattr(fitted, "memory_limit")
    loaded = read_samples(
        data,
        y=y,
        target=None,
        covariates=parse_names(covariates),
        mask=mask,
        model=fitted,
        largest=memory_bytes(fitted.memory_limit) if lazy else None,
    )
    match_images(fitted, data, loaded.X, mask)
    match_covariates(fitted, loaded.covariates)
    columns = _predictions(fitted, loaded)
    if json:
        print_json(columns)
    elif out is None:
        text = _csv(columns)
        # A pipe gets the labels as they are.
        sys.stdout.write(printable(text, "\n") if sys.stdout.isatty() else text)
    else:
        _write_predictions(out, columns)
        say(f"Wrote {out}.")


def _predictions(model: Any, loaded: Any) -> dict[str, Any]:
    """Return what each sample is called and its predictions, by column."""
    import numpy as np

    from sltr.arrays import to_numpy
    from sltr.coefficients import target_labels

    X, covariates = loaded.X, loaded.covariates
    given = {} if covariates is None else {"covariates": covariates}
    names = np.arange(X.shape[0]) if loaded.ids is None else loaded.ids
    found = to_numpy(model.predict(X, **given))
    columns = {"sample": names, "prediction": found}
    if found.ndim > 1:
        responses = [str(label) for label in target_labels(model)]
        each = found.reshape(len(found), -1).T
        pairs = zip(responses, each, strict=True)
        columns = {"sample": names, **{f"prediction of {k}": v for k, v in pairs}}
    if hasattr(model, "predict_proba"):
        shares = model.predict_proba(X, **given)
        for k, label in enumerate(model.classes_):
            columns[f"probability of {label}"] = shares[:, k]
    return columns


def _csv(columns: dict[str, Any]) -> str:
    text = StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(map(harmless, columns))
    lists = [map(harmless, values.tolist()) for values in columns.values()]
    table.writerows(zip(*lists, strict=True))
    return text.getvalue()


def _write_predictions(out: Path, columns: dict[str, Any]) -> None:
    import numpy as np

    if out.suffix == ".npy":
        parts = [v for name, v in columns.items() if name.startswith("prediction")]
        values = parts[0] if len(parts) == 1 else np.stack(parts, axis=1)
        write_through(out, lambda file: np.save(file, values, allow_pickle=False))
    else:
        write_atomically(out, _csv(columns).encode())
