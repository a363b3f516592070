"""From coefficients to refitted coefficients.

Where n < P the ridge pilot shrinks the coefficient by about n/P, and so does
everything made from it. A refit undoes this on the structure that was found:

- `reweight`: the pilot again, in the metric of the coefficient's own modes.
- `low_rank`: refits of rising rank, "tucker" and "cp", by the alternating ridge
  `sweeps` over the modes; `ranks`: which Tucker ranks to try.
- `sparse`: the Lasso by a bounded number of steps, for truths that are sparse only, and
  `support`: a ridge estimate on what it found.

Nothing of size P × P is ever made.
"""

from sltr.refine.low_rank import (
    Refit,
    always,
    cp_refits,
    tucker_refits,
    tucker_refits_of_rank,
)
from sltr.refine.reweight import STEPS, reweighted
from sltr.refine.sparse import lasso
from sltr.refine.subset import Subsets, feature_variance
from sltr.refine.support import refit_on_support
from sltr.refine.sweeps import RIDGES, Sweeps, unfoldings

__all__ = [
    "RIDGES",
    "STEPS",
    "Refit",
    "Subsets",
    "Sweeps",
    "always",
    "cp_refits",
    "feature_variance",
    "lasso",
    "refit_on_support",
    "reweighted",
    "tucker_refits",
    "tucker_refits_of_rank",
    "unfoldings",
]
