"""
Masks and rare labels
=====================

No gland ever reaches the corners of its box. A mask says so: what is outside is exactly
zero, costs nothing, and is grey in every picture. And since few glands have a mass,
``class_weight="balanced"`` lets both kinds weigh the same.
"""

# %%
# The mask: places that belong to a gland in at least one sample of fifty.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

import sltr
from sltr import plotting

glands = sltr.datasets.load_adrenal()
X, y = glands.X, glands.y
train = np.flatnonzero(glands.split == "train")[:500]
test = glands.split == "test"
mask = (np.asarray(X[train]) > 0).mean(axis=0) > 0.02
print(f"{mask.sum()} of {mask.size} entries are inside")

# %%
# Scores on the official test set. The area under the ROC curve asks how well glands
# are ordered, balanced accuracy what share of each kind is named right.

models = {
    "ridge": sltr.TensorRidge(),
    "SLTR": sltr.SLTRClassifierCV(),
    "SLTR, masked": sltr.SLTRClassifierCV(mask=mask),
    "SLTR, masked and balanced": sltr.SLTRClassifierCV(
        mask=mask, class_weight="balanced"
    ),
}
rows = {}
for name, model in models.items():
    model.fit(X[train], y[train])
    known = hasattr(model, "decision_function")
    score = model.decision_function(X[test]) if known else model.predict(X[test])
    labels = model.predict(X[test]) if known else score > 0.5
    rows[name] = (
        roc_auc_score(y[test], score),
        balanced_accuracy_score(y[test], labels),
    )
    print(f"{name:26} ROC area {rows[name][0]:.3f}, balanced {rows[name][1]:.3f}")

figure, ax = plt.subplots(figsize=(6, 2.4), layout="constrained")
bars = ax.barh(list(rows), [row[1] for row in rows.values()], color="lightsteelblue")
ax.bar_label(bars, fmt="%.2f", padding=3)
ax.invert_yaxis()
ax.set(xlabel="balanced accuracy on held-out glands", xlim=(0.5, 1))

# %%
# The masked coefficient. Grey is outside.

plotting.plot_coef(models["SLTR, masked"], max_slices=6)
