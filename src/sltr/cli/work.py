"""Commands about the package itself: published results, speed, what is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from sltr.cli.options import Config, Jobs, Json, choose, parse_names
from sltr.cli.output import print_facts, print_json, say
from sltr.cli.progress import progress_bar

__all__ = ["bench", "info", "reproduce"]


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(help="A table or figure of the paper; none: list them."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Minutes, with fewer repetitions.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder of results.")] = Path(
        "reproduction"
    ),
    data: Annotated[
        Path | None, typer.Option(help="Folder of data that cannot be shipped.")
    ] = None,
    pair: Annotated[
        list[str] | None,
        typer.Option(help="Two classes of video, as A,B; may be repeated."),
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Only this method; may be repeated.")
    ] = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="Run again what failed before.")
    ] = False,
    jobs: Jobs = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Run an experiment of the paper again; a run that was stopped continues.

    Examples
    --------
        sltr reproduce
        sltr reproduce mse_by_size --quick
        sltr reproduce ucf101 --data UCF-101 --pair Archery,Bowling --out results
    """
    from sltr.experiments import EXPERIMENTS
    from sltr.experiments import reproduce as run

    if name is None:
        (print_json if json else print_facts)(EXPERIMENTS)
        return
    with progress_bar(f"Running {name}", quiet=json) as move:
        found = run(
            name,
            quick=quick,
            out=out,
            data=data,
            classes=[parse_names(names) for names in pair] if pair else None,
            methods=method or None,
            n_jobs=jobs,
            retry=retry,
            progress=move,
        )
    if json:
        print_json(
            {kind: getattr(found, kind) for kind in ("rows", "tables", "figures")}
        )
        return
    for table in found.tables:
        sys.stdout.write(table.read_text(encoding="utf-8"))
    say(f"Results, tables and figures are in {out}.")
    if found.n_failed:
        say(f"{found.n_failed} results failed; --retry runs them again.")


def bench(
    name: Annotated[
        str | None, typer.Argument(help="A script of benchmarks/; none: list them.")
    ] = None,
    json: Json = False,
    config: Config = None,
) -> None:
    """Run a benchmark of the source tree, or list them.

    Examples
    --------
        sltr bench
        sltr bench fit
    """
    folder = Path(__file__).parents[3] / "benchmarks"
    scripts = {path.stem: path for path in sorted(folder.glob("*.py"))}
    if not scripts:
        msg = (
            "Benchmarks are not part of the installed package; expected a source tree. "
            "Clone the repository, install it with pip install -e . and run again."
        )
        raise ValueError(msg)
    if name is None:
        lines = {stem: _first_line(path) for stem, path in scripts.items()}
        (print_json if json else print_facts)(lines)
        return
    script = scripts[choose(name, scripts, "benchmark")]
    say(f"Running {script.name}.")
    raise typer.Exit(subprocess.run([sys.executable, script]).returncode)


def info(json: Json = False, config: Config = None) -> None:
    """Say which versions, devices and optional packages there are.

    Examples
    --------
        sltr info
        sltr info --json
    """
    from sltr.cli.environment import environment

    found = environment()
    if json:
        print_json(found)
        return
    for title, facts in found.items():
        sys.stdout.write(f"{title}\n")
        print_facts({f"  {name}": value for name, value in facts.items()})


def _first_line(script: Path) -> str:
    return script.read_text(encoding="utf-8").lstrip('"').partition("\n")[0]
