"""Commands that compare methods, and show a model or hand it on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from sltr.cli.options import (
    Config,
    Covariates,
    Data,
    FamilyName,
    Groups,
    Jobs,
    Json,
    Labels,
    Mask,
    Saved,
    Seed,
    Target,
    Task,
    check_family,
    choose,
    parse_names,
)
from sltr.cli.output import print_json, print_scores, progress_bar, say
from sltr.cli.reading import (
    check_output,
    kind_of,
    match_covariates,
    match_images,
    match_responses,
    read_samples,
)
from sltr.persistence import load
from sltr.persistence.export import export as write
from sltr.persistence.files import write_atomically


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
    folds: Annotated[
        int | None,
        typer.Option(help="Outer folds; 5, or the number of groups if that is less."),
    ] = None,
    family: FamilyName = None,
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
        sltr compare spikes.npz --target counts --family poisson
    """
    from sltr.comparison import compare as compare_methods
    from sltr.comparison import summary
    from sltr.peers.registry import METHODS

    check_family(family)
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
            family=family,
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
    covariates: Covariates = None,
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
    response: Annotated[
        str | None, typer.Option(help="Name of the response; default: --target.")
    ] = None,
    config: Config = None,
) -> None:
    """Write one HTML page about a model: scores, coefficient, tuning, method text.

    DATA is what the model was fitted on. Without `--test` the scores are those of
    the training samples, and the page says so. `--target`, `--covariates` and `--mask`
    hold for both.

    Examples
    --------
        sltr report model.sltr data.npz --test data-test.npz
        sltr report m.sltr X.npy --y y.npy --test new.npy --test-y new-y.npy
        sltr report model.sltr bold.npz --modes x,y,time --title "Faces, houses"
    """
    from sltr import report as write_report

    check_output(out, model, *data, y, mask, *(test or ()), test_y, config)
    if test_y is not None and not test:
        msg = f"--test-y={test_y} was given without samples; expected --test as well"
        raise typer.BadParameter(msg)
    fitted = load(model)
    options = {"target": target, "mask": mask, "model": fitted}
    options["covariates"] = parse_names(covariates)
    loaded = read_samples(data, y=y, **options)
    unseen = read_samples(test, y=test_y, **options) if test else None
    for files, given in ((data, loaded), (test, unseen)):
        if files and given is not None:
            match_images(fitted, files, given.X, mask)
            match_responses(fitted, given.y, target)
            match_covariates(fitted, given.covariates)
    page = write_report(
        fitted,
        loaded.X,
        loaded.y,
        out,
        X_test=None if unseen is None else unseen.X,
        y_test=None if unseen is None else unseen.y,
        covariates=loaded.covariates,
        covariates_test=None if unseen is None else unseen.covariates,
        title=title,
        response=response or target or "response",
        mode_names=parse_names(modes) or None,
    )
    say(f"Wrote {page}; open it in a browser.")


def export(
    model: Saved,
    out: Annotated[
        Path, typer.Argument(help="A file that ends in .nii, .nii.gz, .nc or .csv.")
    ],
    config: Config = None,
) -> None:
    """Write the coefficient of a model for other programs.

    As an image in the space of the samples, as netCDF with names, coordinates and
    units, or as a table.

    Examples
    --------
        sltr export model.sltr coef.nii.gz
        sltr export model.sltr coef.nc
        sltr export model.sltr coef.csv
    """
    check_output(out, model, config)
    say(f"Wrote {write(load(model), out)}.")


def plot(
    model: Saved,
    out: Annotated[
        Path, typer.Argument(help="As .png, .pdf or .svg; .gif: a film that moves.")
    ],
    kind: Annotated[
        str, typer.Option(help="auto, coef, factors, glass or slices (of a brain).")
    ] = "auto",
    target: Annotated[
        str | None, typer.Option(help="The class, of a model with several.")
    ] = None,
    background: Annotated[
        Path | None,
        typer.Option(help="Image under --kind slices, not a template.", metavar="FILE"),
    ] = None,
    dpi: Annotated[int, typer.Option(help="Dots per inch.", min=10)] = 200,
    config: Config = None,
) -> None:
    """Draw the coefficient of a model as its field does.

    `auto`: images become a glass brain, sensors topographies, films frames.

    Examples
    --------
        sltr plot model.sltr brain.png
        sltr plot model.sltr slices.pdf --kind slices
        sltr plot film.sltr film.gif
    """
    from sltr import plotting

    check_output(out, model, background, config)
    choose(out.suffix, (".png", ".pdf", ".svg", ".gif"), "OUT")
    choose(kind, ("auto", "coef", "factors", "glass", "slices"), "--kind")
    if background is not None and kind != "slices":
        msg = f"--background={background} was given; expected --kind slices as well"
        raise typer.BadParameter(msg)
    fitted = load(model)
    chosen = _class_of(fitted, target)
    if out.suffix == ".gif":
        film = plotting.animate_film(fitted, target=chosen)
        _write_drawn(out, lambda part: film.save(part, "pillow", dpi=dpi // 2))
        return
    if kind in ("glass", "slices"):
        fig = plotting.plot_brain(
            fitted, kind=kind, background=background, target=chosen
        )
    else:
        draw: dict[str, Any] = {
            "coef": plotting.plot_coef,
            "factors": plotting.plot_factors,
        }
        fig = draw.get(kind, plotting.plot_model)(fitted, target=chosen)
    _write_drawn(out, lambda part: fig.savefig(part, dpi=dpi))


def _write_drawn(out: Path, draw: Callable[[Path], Any]) -> None:
    """Write what a function draws into a file, all or nothing."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        part = Path(folder) / f"figure{out.suffix}"
        draw(part)
        write_atomically(out, part.read_bytes())
    say(f"Wrote {out}.")


def _class_of(model: Any, text: str | None) -> Any:
    """Return the class that is written like this."""
    labels = list(getattr(model, "classes_", ()))
    return next((one for one in labels if str(one) == text), text)
