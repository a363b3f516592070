"""Table "MSE on simulated datasets of different variable sizes", 3-D and 4-D."""

from sltr.experiments import published
from sltr.experiments.spec import Condition
from sltr.experiments.studies.simulated import columns, protocols
from sltr.experiments.study import Study

__all__ = ["MSE_BY_SIZE"]

MSE_BY_SIZE = Study(
    name="mse_by_size",
    title="MSE by size of the tensor",
    description="error on simulated tensors of 3 and 4 modes, n = 8 % of their entries",
    parts=protocols(
        "mse_by_size",
        (
            Condition("30×30×5", "simulated", {"shape": (30, 30, 5), "n": 360}),
            Condition("35×35×5", "simulated", {"shape": (35, 35, 5), "n": 490}, False),
            Condition("40×40×5", "simulated", {"shape": (40, 40, 5), "n": 640}, False),
            Condition(
                "20×20×10×5",
                "simulated",
                {"shape": (20, 20, 10, 5), "n": 1600},
                False,
            ),
            Condition(
                "25×25×10×5",
                "simulated",
                {"shape": (25, 25, 10, 5), "n": 2500},
                False,
            ),
            Condition(
                "30×30×10×5",
                "simulated",
                {"shape": (30, 30, 10, 5), "n": 3600},
                False,
            ),
        ),
        (
            Condition(
                "20×20×5, W of CP rank 2",
                "simulated",
                {"shape": (20, 20, 5), "n": 160, "truth": "cp", "rank": 2, "snr": 10.0},
            ),
            Condition(
                "30×30×5, W of CP rank 2",
                "simulated",
                {"shape": (30, 30, 5), "n": 360, "truth": "cp", "rank": 2, "snr": 10.0},
                False,
            ),
            Condition(
                "30×30×5, W of two blocks",
                "simulated",
                {"shape": (30, 30, 5), "n": 360, "truth": "block", "snr": 10.0},
                False,
            ),
        ),
    ),
    columns=columns("mse_by_size"),
    published=published.MSE_BY_SIZE,
    source="Table “MSE on simulated datasets of different variable sizes”",
    condition="size",
)
