"""Sweep over the share of zeros in W, as the released code makes it."""

from sltr.experiments.spec import Condition
from sltr.experiments.studies.simulated import columns, protocols
from sltr.experiments.study import Study

__all__ = ["SPARSITY"]

SPARSITY = Study(
    name="sparsity",
    title="Error by sparsity of W, 20×20×5",
    description="error by share of zeros in the coefficient, 20×20×5, n = 160",
    parts=protocols(
        "sparsity",
        tuple(
            Condition(
                f"{share:.0%} zeros",
                "simulated",
                {"shape": (20, 20, 5), "n": 160, "sparsity": share},
                quick=share in (0.5, 0.9, 0.99),
            )
            for share in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
        ),
    ),
    columns=columns("sparsity"),
    condition="sparsity",
    x="sparsity",
)
