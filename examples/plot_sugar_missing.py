"""
Missing entries
===============

Detectors fail and visits are missed. Here, a part of each sugar sample's spectrum is
lost on purpose, so that we can see what each way of filling it costs.
"""

# %%
# Of half of the samples we lose a block of neighbouring emission wavelengths.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

import sltr

sugar = sltr.datasets.load_sugar()
y = sugar.y
holes = sugar.X.copy()
rng = np.random.default_rng(0)
for sample in rng.choice(len(y), len(y) // 2, replace=False):
    start = rng.integers(0, 40)
    holes[sample, start : start + 13] = np.nan

figure, ax = plt.subplots(figsize=(5, 3), layout="constrained")
emission = sugar.X.labels.coords[0]
ax.plot(emission, np.asarray(holes[:12, :, 3]).T)
ax.set(xlabel="emission (nm)", ylabel="intensity at 290 nm", title="Twelve samples")

# %%
# ``missing="mean"`` puts in the mean of the other samples. ``missing="low_rank"``
# expects the lost entries from those that are left. Both work for new samples too.

rows, held_out = train_test_split(np.arange(len(y)), random_state=0)
scores = {}
whole = sltr.SLTRRegressorCV().fit(sugar.X[rows], y[rows])
scores["nothing is lost"] = whole.score(sugar.X[held_out], y[held_out])
for missing in ("low_rank", "mean"):
    model = sltr.SLTRRegressorCV(missing=missing).fit(holes[rows], y[rows])
    scores[f'missing="{missing}"'] = model.score(holes[held_out], y[held_out])

figure, ax = plt.subplots(figsize=(6, 2), layout="constrained")
bars = ax.barh(list(scores), list(scores.values()), color="lightsteelblue")
ax.bar_label(bars, fmt="%.2f", padding=3)
ax.invert_yaxis()
ax.set(xlabel="R² on held-out samples", xlim=(0, 1))
