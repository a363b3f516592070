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
