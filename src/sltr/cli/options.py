"""Options that several commands share, and the file that fills them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from sltr.parameters import nearest

LONGEST_CONFIG = 1_000_000  # characters


def _configure(context: typer.Context, path: Path | None) -> Path | None:
    """Fill options that are not on the command line from a TOML file."""
    if path is None or context.resilient_parsing:
        return path
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(LONGEST_CONFIG)  # it may be a pipe, or have no end
        settings = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        msg = f"{path} cannot be read as TOML: {error}"
        raise typer.BadParameter(msg) from error
    _check_top(context, path, settings)
    of_command = settings.get(str(context.info_name), {})
    shared = {k: v for k, v in settings.items() if not isinstance(v, dict)}
    known = {str(option.name): option for option in context.command.params}
    values: dict[str, Any] = {}
    for name, value in ({**shared, **of_command}).items():
        key = name.replace("-", "_")
        if key in known:
            several = known[key].nargs == -1 or getattr(known[key], "multiple", False)
            listed = value if isinstance(value, list) else [value]
            values[key] = listed if several else _as_text(value)
        elif name in of_command:
            what = f"{path} sets {name!r}, which {context.info_name} does not have"
            raise typer.BadParameter(f"{what}; {_one_of(key, known)}")
    context.default_map = {**(context.default_map or {}), **values}
    return path


def _check_top(context: typer.Context, path: Path, settings: dict[str, Any]) -> None:
    """Refuse keys that no command has, and tables that are no command."""
    group: Any = context.parent.command if context.parent else None
    commands = {} if group is None else group.commands
    options = {str(p.name) for command in commands.values() for p in command.params}
    for name, value in settings.items():
        if isinstance(value, dict):
            known, what = sorted(commands), f"has a table [{name}], which is no command"
        else:
            known, what = sorted(options), f"sets {name!r}, which no command has"
        if name.replace("-", "_") not in known:
            hint = _one_of(name.replace("-", "_"), known)
            raise typer.BadParameter(f"{path} {what}; {hint}")


def _as_text(value: Any) -> Any:
    """Return a list as the command line would have it: with commas."""
    return ",".join(map(str, value)) if isinstance(value, list) else value


def _check_jobs(jobs: int | None) -> int | None:
    """Refuse no processes at all; joblib would say so late, and in its own words."""
    if jobs == 0:
        msg = "0 was given; expected 1 or more, or -1 for all cores"
        raise typer.BadParameter(msg)
    return jobs


Data = Annotated[
    list[Path],
    typer.Argument(
        help="One .npz, .npy, .zarr or NIfTI file; NIfTI images, or a folder of them "
        "(BIDS too); or a folder with a sub-folder of films for each class.",
        show_default=False,
    ),
]
Saved = Annotated[Path, typer.Argument(help="A model written by fit or tune.")]
Labels = Annotated[
    Path | None,
    typer.Option(
        "--y",
        help="Responses: a .npy file, or a .csv or .tsv table, whose rows are matched "
        "by the column that names the samples.",
        metavar="FILE",
    ),
]
Target = Annotated[
    str,
    typer.Option(help="Name of the responses in the file or table; several: a,b,c."),
]
Groups = Annotated[
    str | None,
    typer.Option(
        help="Column or array of groups (subject, run, film) that folds never split.",
        metavar="NAME",
    ),
]
Covariates = Annotated[
    str | None,
    typer.Option(
        help="Columns of numbers or categories, with commas, not penalised; for "
        "methods that take them (sltr, cp, tucker).",
        metavar="NAMES",
    ),
]
Mask = Annotated[
    Path | None, typer.Option(help="NIfTI mask of voxels to keep.", metavar="FILE")
]
Task = Annotated[
    str,
    typer.Option(
        help="auto, regression or classification. auto: words, or two values, are "
        "labels."
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory-limit",
        help="As 1GB: larger .npy and .zarr samples stay in their file. By default a "
        "quarter of the free memory.",
        metavar="SIZE",
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of all that is random.", min=0)]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs", "-j", help="Processes; -1 for all cores.", callback=_check_jobs
    ),
]
Device = Annotated[
    str,
    typer.Option(help="Where to compute: cpu, or with PyTorch cuda, cuda:1, …"),
]
Out = Annotated[Path, typer.Option(help="The model to write.", metavar="FILE")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="TOML file; it fills the options that are not given here.",
        metavar="FILE",
        callback=_configure,
        is_eager=True,
    ),
]


FamilyName = Annotated[
    str | None,
    typer.Option(
        help="Likelihood instead of least squares: binomial or multinomial for labels, "
        "poisson for counts.",
        metavar="NAME",
    ),
]


def check_family(family: str | None) -> None:
    """Refuse a likelihood that there is none of."""
    if family is not None:
        choose(family, ("binomial", "multinomial", "poisson"), "--family")


def choose(value: str, allowed: Iterable[str], option: str) -> str:
    """Return the value, or say which ones there are and which is nearest."""
    if value in allowed:
        return value
    msg = f"{option}={value!r} was given; {_one_of(value, allowed)}"
    raise typer.BadParameter(msg)


def _one_of(value: str, allowed: Iterable[str]) -> str:
    """Return what was expected, the nearest first."""
    names = list(allowed)
    return f"{nearest(value, names)} one of {', '.join(names)}"


def parse_names(text: str | None) -> tuple[str, ...]:
    """Return names separated by commas."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def parse_shape(text: str) -> tuple[int, ...]:
    """Return a shape written as 16,16,8 or 16x16x8."""
    try:
        return tuple(int(part) for part in text.replace("x", ",").split(","))
    except ValueError:
        msg = f"--shape={text!r} was given; expected numbers such as 16,16,8"
        raise typer.BadParameter(msg) from None
