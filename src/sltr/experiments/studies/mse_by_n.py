"""Table "MSE on simulated datasets of different numbers of samples", 20×20×5."""

from sltr.experiments import published
from sltr.experiments.spec import Condition
from sltr.experiments.studies.simulated import columns, protocols
from sltr.experiments.study import Study

__all__ = ["MSE_BY_N"]

MSE_BY_N = Study(
    name="mse_by_n",
    title="MSE by number of samples, 20×20×5",
    description="error on simulated 20×20×5 tensors, n from 50 to 400",
    parts=protocols(
        "mse_by_n",
        tuple(
            Condition(
                f"n = {n}",
                "simulated",
                {"shape": (20, 20, 5), "n": n},
                quick=n in (50, 200, 400),
            )
            for n in range(50, 401, 50)
        ),
    ),
    columns=columns("mse_by_n"),
    published=published.MSE_BY_N,
    source="Table “MSE on simulated datasets of different numbers of samples”",
    condition="samples",
    x="n",
)
