"""
How many samples are enough?
============================

Before more data are collected it is good to know whether they would help. A learning
curve shows the score on the same test samples for growing training sets.
"""

# %%
# Shapes of adrenal glands, averaged to 8 × 8 × 8 so that this runs in seconds. The
# official test set has 298 glands.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

import sltr

glands = sltr.datasets.load_adrenal()
cubes = np.asarray(glands.X).reshape(-1, 8, 2, 8, 2, 8, 2).mean(axis=(2, 4, 6))
y = glands.y
train = np.flatnonzero(glands.split != "test")
test = glands.split == "test"
rng = np.random.default_rng(0)
order = rng.permutation(train)

sizes = (50, 100, 200, 400, 800)
curves = {"ridge": [], "SLTR": []}
for n in sizes:
    rows = order[:n]
    ridge = sltr.TensorRidge().fit(cubes[rows], y[rows])
    curves["ridge"].append(roc_auc_score(y[test], ridge.predict(cubes[test])))
    model = sltr.SLTRClassifierCV().fit(cubes[rows], y[rows])
    curves["SLTR"].append(roc_auc_score(y[test], model.decision_function(cubes[test])))

# %%
# A curve that still rises at its end asks for more samples. A flat one asks for other
# features, or a model that is not linear.

figure, ax = plt.subplots(figsize=(5, 3.4), layout="constrained")
for name, scores in curves.items():
    ax.semilogx(sizes, scores, "o-", label=name)
ax.set(xlabel="training samples", ylabel="area under the ROC curve")
ax.set_xticks(sizes, sizes)
ax.minorticks_off()
ax.legend()
