"""
Which voltages are needed? Slices
=================================

A tester that measures a battery at few voltages is cheaper. ``slices`` switches whole
voltages off, over all cycles at once, as a part of the paper's problem.
"""

# %%
# Cycles are ordered, so their coefficients are smooth, see
# :ref:`sphx_glr_gallery_plot_battery_smooth.py`. A larger radius switches off
# more voltages; the duality gap says how exactly each problem was solved.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

import sltr
from sltr import plotting

cells = sltr.datasets.load_battery()
X, log_life = cells.X, np.log(cells.y)
rows, test = train_test_split(np.arange(len(log_life)), random_state=0)
ridge = sltr.TensorRidge().fit(X[rows], log_life[rows])
print(f"ridge, all voltages: R² {ridge.score(X[test], log_life[test]):.3f}")

kinds = {"single entries": {}, "whole voltages": {"slices": "voltage"}}
found = {}
for name, wish in kinds.items():
    for radius in (0.0, 0.1, 0.3, 0.5, 0.6):
        model = sltr.SLTRRegressor(
            lambda_sparse=radius, lambda_low=1.0, smooth={"cycle": 4096.0}, **wish
        ).fit(X[rows], log_life[rows])
        used = int(np.asarray(model.coef_).any(axis=1).sum())
        score = model.score(X[test], log_life[test])
        found[name, radius] = model, used, score
        print(
            f"{name}, radius {radius}: {used} voltages, R² {score:.3f}, "
            f"gap {model.dual_gap_:.0e}"
        )

# %%
# Accuracy by the number of voltages that have to be measured. Single entries, switched
# off one by one, predict worse with as many.

figure, ax = plt.subplots(figsize=(4.8, 3.2), layout="constrained")
for name, style in zip(kinds, ("s--", "o-"), strict=True):
    some = [row for (kind, _), row in found.items() if kind == name]
    ax.plot([row[1] for row in some], [row[2] for row in some], style, label=name)
ax.set(xlabel="voltages in use", ylabel="R² on held-out cells")
ax.legend(title="switched off")

# %%
# The coefficient that is left at a radius of 0.5.

plotting.plot_coef(found["whole voltages", 0.5][0])
