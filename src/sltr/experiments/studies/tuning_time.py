"""Table "Time costs (in seconds) of hyper-parameter tuning", simulated data."""

from sltr.experiments import published
from sltr.experiments.spec import Condition, Experiment
from sltr.experiments.study import Column, Part, Study

__all__ = ["TUNING_TIME"]

_CONDITIONS = tuple(
    Condition(
        "×".join(map(str, shape)),
        "simulated",
        {"shape": shape, "n": n, "n_test": 100, "truth": "paper"},
        quick=shape == (30, 30, 5),
    )
    for shape, n in (
        ((30, 30, 5), 360),
        ((35, 35, 5), 490),
        ((40, 40, 5), 640),
        ((20, 20, 10, 5), 1600),
        ((25, 25, 10, 5), 2500),
        ((30, 30, 10, 5), 3600),
    )
)

TUNING_TIME = Study(
    name="tuning_time",
    title="Time to fit all candidates: 147 of SLTR, 49 of Remurs",
    description="seconds to tune SLTR (147 candidates) and Remurs (49)",
    parts=(
        Part(
            Experiment(
                "tuning_time_released", _CONDITIONS, ("sltr_paper",), ("relative_mse",)
            ),
            "all_candidates_released",
            quick_repetitions=1,
        ),
        Part(
            Experiment(
                "tuning_time_ours",
                _CONDITIONS,
                ("null", "ridge", "sltr_paper", "remurs"),
                ("relative_mse",),
            ),
            "all_candidates",
            quick_repetitions=1,
        ),
    ),
    columns=(
        Column(
            "literal algorithm: s",
            "fit_seconds",
            ("tuning_time_released",),
            digits=2,
            panel=True,
        ),
        Column("this package: s", "fit_seconds", ("tuning_time_ours",), 2, panel=True),
        Column("candidates", "n_candidates", ("tuning_time_ours",), digits=0),
        Column("held-out relative MSE", "relative_mse", ("tuning_time_ours",)),
    ),
    published=published.TUNING_TIME,
    source="Table “Time costs (in seconds) of hyper-parameter tuning”",
    condition="size",
    log=True,
    ratio=("remurs", "sltr_paper"),
)
