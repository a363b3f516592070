"""Sweep over the noise in y, as the released code makes it."""

from sltr.experiments.spec import Condition
from sltr.experiments.studies.simulated import columns, protocols
from sltr.experiments.study import Study

__all__ = ["NOISE"]

NOISE = Study(
    name="noise",
    title="Error by noise, 20×20×5",
    description="error by standard deviation of the noise, 20×20×5, n = 160",
    parts=protocols(
        "noise",
        tuple(
            Condition(
                f"noise {level:g}",
                "simulated",
                {"shape": (20, 20, 5), "n": 160, "noise": level},
                quick=level in (0.03, 3.0, 30.0),
            )
            for level in (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
        ),
    ),
    columns=columns("noise"),
    condition="noise",
    x="noise",
)
