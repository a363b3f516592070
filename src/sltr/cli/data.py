"""Commands around a model: simulated data, the paper's experiments, the machine."""

from __future__ import annotations

import os
import platform
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from sltr.cli.options import Config, Jobs, Json, Seed, parse_names, parse_shape
from sltr.cli.output import print_facts, print_found, print_json, progress_bar, say
from sltr.parameters import printable
from sltr.persistence import installed_version, package_version
from sltr.persistence.files import check_destination, write_through


def simulate(
    out: Annotated[Path, typer.Argument(help="The .npz file to write.")],
    shape: Annotated[str, typer.Option(help="Shape of a sample.")] = "16,16,8",
    samples: Annotated[int, typer.Option(help="Samples to draw.")] = 400,
    test_samples: Annotated[
        int, typer.Option(help="Further samples, for OUT-test.npz; 0 for none.")
    ] = 0,
    truth: Annotated[
        str,
        typer.Option(help="cp, tucker, block, blob, sparse, paper or paper_code."),
    ] = "cp",
    rank: Annotated[int, typer.Option(help="Rank of the coefficient.")] = 2,
    sparsity: Annotated[
        float | None, typer.Option(help="Fraction of zeros, 0 to 1.")
    ] = None,
    snr: Annotated[
        float, typer.Option(help="Variance of the signal over that of the noise.")
    ] = 10.0,
    correlation: Annotated[
        float, typer.Option(help="Of neighbouring entries of a sample, 0 to 1.")
    ] = 0.0,
    seed: Seed = 0,
    json: Json = False,
    config: Config = None,
) -> None:
    """Draw samples, responses and their true coefficient.

    Files of these names are replaced. Without `--test-samples`, an OUT-test.npz of
    another draw is an error.

    Examples
    --------
        sltr simulate data.npz
        sltr simulate blocks.npz --truth block --shape 30,30,5 --samples 360
        sltr simulate data.npz --test-samples 500
    """
    from sltr.datasets.simulated import make_tensor_regression

    if out.suffix != ".npz":
        msg = f"{out} was given; expected a name that ends in .npz, to be read again"
        raise typer.BadParameter(msg)
    for option, value, least in (
        ("--samples", samples, 1),
        ("--test-samples", test_samples, 0),
    ):
        if value < least:
            msg = f"{option}={value} was given; expected {least} or more"
            raise typer.BadParameter(msg)
    test = out.with_name(f"{out.stem}-test.npz")
    check_destination(out)
    check_destination(test)
    if not test_samples and test.exists():
        msg = (
            f"{test} is there; expected none, since it would not belong to the new "
            f"{out.name}. Remove it, draw new ones by --test-samples, or choose "
            "another name"
        )
        raise typer.BadParameter(msg)
    drawn = make_tensor_regression(
        parse_shape(shape),
        samples + test_samples,
        truth=truth,
        rank=rank,
        sparsity=sparsity,
        snr=snr,
        correlation=correlation,
        random_state=seed,
    )
    parts = {out: slice(0, samples)}
    if test_samples:
        parts[test] = slice(samples, None)
    for path, rows in parts.items():
        done = "Replaced" if path.exists() else "Wrote"
        _write_npz(path, X=drawn.X[rows], y=drawn.y[rows], coef=drawn.coef)
        say(f"{done} {path}.")
    facts = {
        "files": [str(path) for path in parts],
        "samples": samples,
        "shape": drawn.coef.shape,
        "entries that are not zero": int((drawn.coef != 0).sum()),
        "noise": float(drawn.noise),
    }
    print_found(facts, json)


def _write_npz(path: Path, **arrays: Any) -> None:
    import numpy as np

    write_through(path, lambda file: np.savez_compressed(file, **arrays))


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

    Several commands on one folder share the work.

    Examples
    --------
        sltr reproduce
        sltr reproduce mse_by_size --quick
        sltr reproduce ucf101 --data UCF-101 --pair Archery,Bowling --out results
    """
    from sltr.reproduction import EXPERIMENTS
    from sltr.reproduction import reproduce as run

    if name is None:
        print_found(EXPERIMENTS, json)
        return
    with progress_bar(f"Running {name}", quiet=json) as move:
        done = run(
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
            {kind: getattr(done, kind) for kind in ("rows", "tables", "figures")}
        )
        return
    for table in done.tables:
        sys.stdout.write(printable(table.read_text(encoding="utf-8"), keep="\n"))
    say(f"Results, tables and figures are in {out}.")
    if done.n_failed:
        say(f"{done.n_failed} results failed; --retry runs them again.")


def info(json: Json = False, config: Config = None) -> None:
    """Say which versions, devices and optional packages there are.

    Examples
    --------
        sltr info
        sltr info --json
    """
    topics = environment()
    if json:
        print_json(topics)
        return
    for title, facts in topics.items():
        sys.stdout.write(f"{title}\n")
        print_facts({f"  {name}": value for name, value in facts.items()})


_REQUIRED = ("numpy", "scipy", "scikit-learn", "joblib", "array-api-compat")
_EXTRAS = {
    "gpu": ("torch",),
    "dask": ("dask", "distributed", "zarr"),
    "video": ("av",),
    "neuro": ("nibabel", "nilearn"),
    "eeg": ("mne",),
    "models": ("safetensors",),
    "report": ("matplotlib", "jinja2"),
    "cli": ("typer", "rich"),
}


def environment() -> dict[str, dict[str, Any]]:
    """Return versions, devices and optional packages, by topic."""
    return {
        "versions": {
            "sltr": package_version(),
            "Python": platform.python_version(),
            **{name: installed_version(name) for name in _REQUIRED},
        },
        "devices": {
            "machine": f"{platform.system()} {platform.machine()}",
            "cores": os.cpu_count(),
            **_accelerators(),
        },
        "optional packages": {
            name: installed_version(name) or f"not there: pip install 'sltr[{extra}]'"
            for extra, names in _EXTRAS.items()
            for name in names
        }
        | {"cupy": _cupy_version() or "not there: pip install cupy-cuda12x"},
    }


def _cupy_version() -> str | None:
    """Return the version of CuPy, which is distributed by version of CUDA."""
    wheels = ("cupy", *(f"cupy-cuda{number}x" for number in (11, 12, 13)))
    return next(filter(None, map(installed_version, wheels)), None)


def _accelerators() -> dict[str, Any]:
    if find_spec("torch") is None:
        return {"GPU": "not looked for: PyTorch is not installed"}
    import torch

    count = torch.cuda.device_count()
    names = [torch.cuda.get_device_name(k) for k in range(count)]
    return {"GPU": ", ".join(names) or "none that PyTorch can use"}
