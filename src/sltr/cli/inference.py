"""Commands that say how far a result may be believed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sltr.cli.options import (
    Config,
    Data,
    Device,
    Groups,
    Jobs,
    Json,
    Labels,
    Mask,
    Seed,
    Target,
    Task,
    choose,
)
from sltr.cli.output import print_found, progress_bar, say
from sltr.cli.reading import check_output, kind_of, placed, read_samples
from sltr.persistence.files import write_through

Plot = Annotated[
    Path | None,
    typer.Option(help="A figure to draw, .png, .pdf or .svg.", metavar="FILE"),
]


def test(
    data: Data,
    y: Labels = None,
    target: Target = "y",
    groups: Groups = None,
    mask: Mask = None,
    task: Task = "auto",
    statistic: Annotated[
        str,
        typer.Option(
            help="procedure: the whole tuning under each permutation; pilot: ridge and "
            "its estimates, in seconds."
        ),
    ] = "pilot",
    permutations: Annotated[
        int, typer.Option(help="How many; the least p-value is 1 in one more.", min=1)
    ] = 1000,
    plot: Plot = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    device: Device = "cpu",
    json: Json = False,
    config: Config = None,
) -> None:
    """Test whether the samples predict the responses at all, by permutations.

    With `--groups` responses change places within groups, or with whole groups where
    all samples of a group have the same response.

    Examples
    --------
        sltr test data.npz
        sltr test data.npz --statistic procedure --permutations 200 --jobs -1
        sltr test X.npy --y people.csv --target age --groups site --plot test.png
    """
    from sltr.inference import permutation_test

    _check_plot(plot, *data, y, mask, config)
    choose(statistic, ("pilot", "procedure"), "--statistic")
    loaded = read_samples(data, y=y, target=target, groups=groups, mask=mask)
    labels = kind_of(loaded.y, task) != "regression"
    X, responses = placed(loaded, device, labels=labels)
    with progress_bar("Permuting", quiet=json) as move:
        found = permutation_test(
            _model(labels),
            X,
            responses,
            groups=loaded.groups,
            n=permutations,
            statistic=statistic,
            random_state=seed,
            n_jobs=jobs,
            progress=move,
        )
    facts = {
        "p-value": found.p_value,
        "score": found.score,
        "scored by": found.scored_by,
        "permuted score": float(found.null.mean()),
        "permutations": len(found.null),
        "permuted": found.permuted,
        "statistic": found.statistic,
    }
    print_found(facts, json)
    if plot is not None:
        from sltr.plotting import plot_permutation_test

        _save(plot_permutation_test(found).figure, plot)


def stability(
    data: Data,
    out: Annotated[
        Path,
        typer.Option(
            help="The .npz file to write: frequency, selected.", metavar="FILE"
        ),
    ] = Path("stability.npz"),
    y: Labels = None,
    target: Target = "y",
    mask: Mask = None,
    task: Task = "auto",
    threshold: Annotated[
        float, typer.Option(help="Share of the halves that select an entry.")
    ] = 0.75,
    max_false: Annotated[
        float, typer.Option(help="Bound on the expected number of false entries.")
    ] = 1.0,
    pairs: Annotated[int, typer.Option(help="Pairs of halves.", min=1)] = 50,
    plot: Plot = None,
    seed: Seed = 0,
    device: Device = "cpu",
    json: Json = False,
    config: Config = None,
) -> None:
    """Say which entries are found again in halves of the samples.

    Examples
    --------
        sltr stability data.npz --plot stability.png
        sltr stability scan*.nii.gz --y people.csv --target age --max-false 5
    """
    import numpy as np

    from sltr.inference import stability as find_stable

    check_output(out, *data, y, mask, config)
    _check_plot(plot, *data, y, mask, config)
    loaded = read_samples(data, y=y, target=target, mask=mask)
    labels = kind_of(loaded.y, task) != "regression"
    X, responses = placed(loaded, device, labels=labels)
    with progress_bar("Fitting halves", quiet=json) as move:
        found = find_stable(
            _model(labels),
            X,
            responses,
            threshold=threshold,
            max_false=max_false,
            n_pairs=pairs,
            random_state=seed,
            progress=move,
        )
    facts = {
        "selected entries": int(np.count_nonzero(found.selected)),
        "entries": int(found.selected.size),
        "bound on false ones": found.max_false,
        "bound in the worst case": found.max_false_worst,
        "threshold": found.threshold,
        "halves": found.n_halves,
        "largest entries of a half": found.n_largest,
        "file": str(out),
    }
    arrays: dict[str, Any] = {"frequency": found.frequency, "selected": found.selected}
    write_through(out, lambda file: np.savez_compressed(file, **arrays))
    print_found(facts, json)
    if plot is not None:
        from sltr.plotting import plot_stability

        _save(plot_stability(found), plot)
    say(f"Wrote {out}.")


def _model(labels: bool) -> Any:
    from sltr.estimators.sltr_cv import SLTRClassifierCV, SLTRRegressorCV

    return SLTRClassifierCV() if labels else SLTRRegressorCV()


def _check_plot(plot: Path | None, *read: Path | None) -> None:
    """Refuse a figure that could not be drawn, before anything is computed."""
    if plot is not None:
        check_output(plot, *read)
        choose(plot.suffix, (".png", ".pdf", ".svg"), "--plot")


def _save(figure: Any, path: Path) -> None:
    """Write a figure, all or nothing."""
    kind = path.suffix[1:]
    write_through(path, lambda file: figure.savefig(file, format=kind, dpi=150))
    say(f"Wrote {path}.")
