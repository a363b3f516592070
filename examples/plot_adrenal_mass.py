"""
Images: which glands have a mass?
=================================

Adrenal glands were outlined in CT images. Each sample is the shape of one gland, 16 ×
16 × 16. About a fifth of them have a mass, which is often a tumour. Can the shape alone
tell?
"""

# %%
# Mean shapes, seen from three sides. Glands with a mass are thicker.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

import sltr
from sltr import plotting

glands = sltr.datasets.load_adrenal()
X, y = glands.X, glands.y
figure, axes = plt.subplots(2, 3, figsize=(6.5, 4.4), layout="constrained")
for row, name in enumerate(glands.target_names):
    mean = np.asarray(X[y == row]).mean(axis=0)
    for mode, ax in enumerate(axes[row]):
        ax.imshow(mean.sum(axis=mode), cmap="magma")
        ax.set(xticks=[], yticks=[], title=f"{name}, along {'xyz'[mode]}")

# %%
# We train on 500 glands, so that the page is built quickly, and score on all 298
# glands of the official test set.

train = np.flatnonzero(glands.split == "train")[:500]
test = glands.split == "test"
model = sltr.SLTRClassifierCV().fit(X[train], y[train])
ridge = sltr.TensorRidge().fit(X[train], y[train])
for name, score in (
    ("ridge", ridge.predict(X[test])),
    ("SLTR", model.decision_function(X[test])),
):
    print(f"{name:5}: area under the ROC curve {roc_auc_score(y[test], score):.3f}")

# %%
# Ridge orders these glands a little better. With all training glands the two are level
# (:doc:`benchmarks </benchmarks>`).
#
# The trade between glands found and false alarms.

plotting.plot_roc(y[test], model.decision_function(X[test]))

# %%
# The coefficient over the mean shape. Gland tissue at red places speaks for a mass, at
# blue places against it.

plotting.plot_overlay(model, np.asarray(X[train]).mean(axis=0))
