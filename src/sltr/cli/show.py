"""Commands that compare methods and show a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sltr.cli.options import (
    Config,
    Data,
    Groups,
    Jobs,
    Json,
    Labels,
    Mask,
    Saved,
    Seed,
    Target,
    Task,
    parse_names,
)
from sltr.cli.output import print_json, print_scores, progress_bar, say
from sltr.cli.reading import (
    kind_of,
    match_images,
    match_responses,
    read_samples,
    refuse_covariates,
)


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
    from sltr.comparison import compare as compare_methods
    from sltr.comparison import summary
    from sltr.peers.registry import METHODS

    chosen = tuple(METHODS) if methods == "all" else parse_names(methods)
    loaded = read_samples(data, y=y, target=target, groups=groups, mask=mask)
    labels = kind_of(loaded.y, task) != "regression"
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
        list[Path] | None,
        typer.Option(
            help="Samples the model has not seen, as DATA; may be repeated.",
            metavar="FILE",
        ),
    ] = None,
    test_y: Annotated[
        Path | None,
        typer.Option(help="Their responses, as --y has those of DATA.", metavar="FILE"),
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
    the training samples, and the page says so. `--target` and `--mask` hold for both.

    Examples
    --------
        sltr report model.sltr data.npz --test data-test.npz
        sltr report m.sltr X.npy --y y.npy --test new.npy --test-y new-y.npy
        sltr report model.sltr bold.npz --modes x,y,time --title "Faces, houses"
    """
    from sltr import report as write_report
    from sltr.persistence import load
    from sltr.persistence.files import check_destination

    check_destination(out)
    if test_y is not None and not test:
        msg = f"--test-y={test_y} was given without samples; expected --test as well"
        raise typer.BadParameter(msg)
    fitted = load(model)
    refuse_covariates(fitted)
    options = {"target": target, "mask": mask, "model": fitted}
    loaded = read_samples(data, y=y, **options)
    unseen = read_samples(test, y=test_y, **options) if test else None
    for files, given in ((data, loaded), (test, unseen)):
        if files and given is not None:
            match_images(fitted, files, given.X, mask)
            match_responses(fitted, given.y, target)
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
