"""Theorem 1 and its corollary against measured errors."""

from sltr.experiments.spec import Condition, Experiment
from sltr.experiments.study import Column, Part, Study

__all__ = ["ERROR_BOUND"]

_NAME = "error_bound"

ERROR_BOUND = Study(
    name=_NAME,
    title="Error bound of Theorem 1, 10×10×5, W of CP rank 2",
    description="the bound of Theorem 1 beside the error it bounds, by n",
    parts=(
        Part(
            Experiment(
                _NAME,
                tuple(
                    Condition(
                        f"n = {n}",
                        "simulated",
                        {
                            "shape": (10, 10, 5),
                            "n": n,
                            "n_test": 100,
                            "truth": "cp",
                            "rank": 2,
                            "snr": 10.0,
                        },
                    )
                    for n in (100, 200, 400, 800, 1600, 3200)
                ),
                ("null", "ridge"),
                ("estimation_error", "theorem_error", "theorem_bound"),
            ),
            "pilots",
            quick_repetitions=3,
        ),
    ),
    columns=(
        Column("‖Ŵ−W‖ / ‖W‖", "estimation_error", (_NAME,), panel=True),
        Column("SLTR at the theorem's radii", "theorem_error", (_NAME,), panel=True),
        Column("bound of the corollary", "theorem_bound", (_NAME,), panel=True),
    ),
    together=True,
    condition="samples",
    x="n",
    log=True,
)
