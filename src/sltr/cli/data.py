"""Commands that make data."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import typer

from sltr.cli.options import Config, Json, Seed, parse_shape
from sltr.cli.output import print_facts, print_json, say

__all__ = ["simulate"]


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

    Examples
    --------
        sltr simulate data.npz
        sltr simulate blocks.npz --truth block --shape 30,30,5 --samples 360
        sltr simulate data.npz --test-samples 500
    """
    from sltr.datasets import make_tensor_regression
    from sltr.persistence.files import check_destination

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
    check_destination(out)
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
        parts[out.with_name(f"{out.stem}-test.npz")] = slice(samples, None)
    for path, rows in parts.items():
        _write_npz(path, X=drawn.X[rows], y=drawn.y[rows], coef=drawn.coef)
        say(f"Wrote {path}.")
    facts = {
        "files": [str(path) for path in parts],
        "samples": samples,
        "shape": drawn.coef.shape,
        "entries that are not zero": int((drawn.coef != 0).sum()),
        "noise": float(drawn.noise),
    }
    (print_json if json else print_facts)(facts)


def _write_npz(path: Path, **arrays: Any) -> None:
    import numpy as np

    from sltr.persistence.files import write_atomically

    content = BytesIO()
    np.savez_compressed(content, **arrays)
    write_atomically(path, content.getvalue())
