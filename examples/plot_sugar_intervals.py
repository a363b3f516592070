"""
How far may a prediction be off?
================================

A prediction without an error bar is half an answer. ``sltr.inference.intervals`` makes
intervals that should cover the true value in 90 % of new samples. Here they are checked
on sugar that the model has not seen.
"""

# %%

import numpy as np
from sklearn.model_selection import train_test_split

import sltr
from sltr import plotting

sugar = sltr.datasets.load_sugar()
rows, held_out = train_test_split(
    np.arange(len(sugar.y)), test_size=0.4, random_state=0
)
X, y = sugar.X[rows], sugar.y[rows]
X_new, y_new = sugar.X[held_out], sugar.y[held_out]

# %%
# Each training sample is predicted by a model that did not see it. The errors of these
# predictions make the intervals of new samples.

found = sltr.inference.intervals(sltr.SLTRRegressorCV(), X, y)
for level in (0.5, 0.8, 0.9):
    lower, upper = found.predict(X_new, level=level)
    inside = np.mean((lower <= y_new) & (y_new <= upper))
    width = np.mean(upper - lower)
    print(f"asked {level:.0%}: covered {inside:.0%}, mean width {width:.1f}")

# %%
# The intervals of the held-out samples. A bar that crosses the line covers the truth.

plotting.plot_intervals(found, X_new, y_new, label="colour")
