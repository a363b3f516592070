"""Cases of all kinds by their seeds, and the command that runs many of them."""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from damaged import draw_data_file, draw_model_file
from fuzzer import Violation, draw_fit
from threadpoolctl import threadpool_limits


def case_of(seed: int) -> Any:
    """Return the case of a seed: four of six are fits, the others files."""
    rng = np.random.default_rng((18, seed))
    draw = {4: draw_model_file, 5: draw_data_file}.get(seed % 6, draw_fit)
    return draw(rng)


def run(seed: int) -> list[Violation]:
    """Return what the case of a seed violates."""
    case = case_of(seed)
    return [
        Violation(seed, f"{case.name}, {label}", detail, str(case), case.size)
        for label, detail in case.violations()
    ]


def main(arguments: list[str] | None = None) -> int:
    """Run N cases from a seed on; print the smallest violation of each class."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("n_cases", type=int, nargs="?", default=1000)
    parser.add_argument("--seed", type=int, default=0, help="which cases (default: 0)")
    options = parser.parse_args(arguments)
    # Runs of different seeds share no case.
    first = options.seed * 10_000_000
    smallest: dict[str, Violation] = {}
    counts: dict[str, int] = {}
    start = time.perf_counter()
    for k in range(options.n_cases):
        with threadpool_limits(1):
            violations = run(first + k)
        for found in violations:
            counts[found.label] = counts.get(found.label, 0) + 1
            known = smallest.get(found.label)
            if known is None or found.size < known.size:
                smallest[found.label] = found
        if (k + 1) % 500 == 0 or k + 1 == options.n_cases:
            seconds = time.perf_counter() - start
            print(
                f"{k + 1} of {options.n_cases} cases, {seconds:.0f} s, "
                f"{sum(counts.values())} violations",
                flush=True,
            )
    for label, found in sorted(smallest.items()):
        print(f"\n{counts[label]} × {found}")
    return 1 if smallest else 0
