"""Better pilots from the samples, given a first estimate of the coefficient.

Where n < P the ridge pilot shrinks the coefficient by about n/P, and so does
everything made from it. A refit undoes this on the structure of the estimate:

- `reweight`: the pilot again, in the metric of the coefficient's own modes.
- `low_rank`: refits of rising rank, "cp" and "tucker". `factors` holds these two
  structures and the sweep over their blocks.
- `lasso`: the Lasso by a bounded number of steps, for truths that are sparse only, and
  a ridge estimate on its support.
- `subsets`: the weighted ridge problems of all of them, a batch of subsets.
- `glm`: generalised linear models with a coefficient of low rank, for the CP and
  Tucker models.

Nothing of size P × P is ever made.
"""
