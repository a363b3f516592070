"""One call for a table or figure: run what is not done, write rows and pages."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import find_spec
from os import PathLike
from pathlib import Path

from sltr.experiments.figures import draw_figures
from sltr.experiments.methods import FACTORIES
from sltr.experiments.rows import Row
from sltr.experiments.run import make_folder, run
from sltr.experiments.studies import STUDIES
from sltr.experiments.study import Study
from sltr.experiments.study_data import with_data
from sltr.experiments.tables import page

__all__ = ["EXPERIMENTS", "Reproduced", "reproduce"]

EXPERIMENTS: dict[str, str] = {name: s.description for name, s in STUDIES.items()}


@dataclass(frozen=True)
class Reproduced:
    """What `reproduce` wrote.

    Attributes
    ----------
    name : str
    rows : tuple of Path
        JSON lines, one for each result.
    tables : tuple of Path
        Markdown.
    figures : tuple of Path
        PNG.
    n_failed : int
        Results that are an error; the table lists them.
    """

    name: str
    rows: tuple[Path, ...]
    tables: tuple[Path, ...]
    figures: tuple[Path, ...]
    n_failed: int = 0


def reproduce(
    name: str,
    *,
    quick: bool = False,
    out: str | PathLike[str] = "reproduction",
    data: str | PathLike[str] | None = None,
    classes: Sequence[Sequence[str]] | None = None,
    methods: Sequence[str] | None = None,
    n_jobs: int | None = None,
    retry: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> Reproduced:
    """Run a table or figure of the paper under all protocols, side by side.

    Results are appended to files in `out` as they come: a run that was killed
    continues where it stopped, and a quick run is part of the full one.

    Parameters
    ----------
    name : str
        A key of `EXPERIMENTS`.
    quick : bool
        Minutes on two cores: fewer repetitions and conditions, cheap methods, for
        video smaller frames. Otherwise as in the paper: ten trials, all shapes.
    out : path
        Folder for the results; made if it is not there.
    data : path, optional
        For video the folder of clips, one sub-folder for each class; for "real"
        the folder of real sets (default: the environment variable SLTR_DATA).
    classes : sequence of pairs of str, optional
        For video, the pairs of classes; default: the paper's three.
    methods : sequence of str, optional
        Only these, the null model and ridge, be they in the quick version or not.
    n_jobs : int, optional
        Results computed at the same time. More than one makes timings less sure.
    retry : bool
        Run again what failed before.
    progress : callable, optional
        Called as ``progress(done, total)``.

    Returns
    -------
    Reproduced

    Examples
    --------
    >>> reproduce("mse_by_sizes")
    Traceback (most recent call last):
        ...
    ValueError: name='mse_by_sizes' was given; did you mean 'mse_by_size' ...
    """
    study = _known(name)
    methods = [methods] if isinstance(methods, str) else methods
    _check_methods(study, methods)
    target = make_folder(out)
    study = with_data(study.version(quick, methods), data, classes, target, quick)
    rows = _run_parts(study, target, n_jobs, retry, progress)
    stem = f"{name}_quick" if quick else name
    if find_spec("matplotlib") is None:
        msg = "Figures are left out: install matplotlib with pip install 'sltr[report]'"
        warnings.warn(msg, stacklevel=2)
        figures = []
    else:
        figures = draw_figures(study, rows, target, stem)
    table = target / f"{stem}.md"
    table.write_text(page(study, rows, quick=quick, figures=figures), encoding="utf-8")
    files = tuple(target / f"{part.experiment.name}.jsonl" for part in study.parts)
    n_failed = sum(bool(row["error"]) for row in rows)
    return Reproduced(name, files, (table,), tuple(figures), n_failed)


def _known(name: str) -> Study:
    if name in STUDIES:
        return STUDIES[name]
    msg = f"name={name!r} was given; {_expected(name, STUDIES)} one of {list(STUDIES)}."
    raise ValueError(msg)


def _expected(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(str(name), known, n=3)
    return (
        f"did you mean {' or '.join(map(repr, near))}? Expected" if near else "expected"
    )


def _check_methods(study: Study, methods: Sequence[str] | None) -> None:
    there = study.methods()
    if methods is None:
        return
    for name in methods:
        if name not in there:
            hint = _expected(name, there)
            msg = f"methods={methods!r} was given; {hint} some of {there}."
            raise ValueError(msg)
    if not methods:
        msg = f"methods={methods!r} was given; expected some of {there}."
        raise ValueError(msg)


def _run_parts(
    study: Study,
    target: Path,
    n_jobs: int | None,
    retry: bool,
    progress: Callable[[int, int], object] | None,
) -> list[Row]:
    sizes = [len(part.experiment.jobs()) for part in study.parts]
    rows: list[Row] = []
    for k, part in enumerate(study.parts):
        before = sum(sizes[:k])

        def report(done: int, total: int, before: int = before) -> None:
            if progress is not None:
                progress(before + done, sum(sizes))

        rows += run(
            part.experiment,
            FACTORIES[part.factories],
            target,
            n_jobs=n_jobs,
            retry=retry,
            progress=report,
        )
    return rows
