"""
Hyperspectral images: which crop grows here?
============================================

An aeroplane took a picture of farmland in 200 colours (Indian Pines, AVIRIS, 1992). It
comes with TensorLy. Each sample is a tile of 5 × 5 pixels × 200 bands, and the question
is which of two crops grows in its middle.
"""

# %%
# Neighbouring tiles are alike, so whole regions of the image are held out
# (``groups``).

import numpy as np
from sklearn.metrics import roc_auc_score

import sltr
from sltr import plotting

tiles = sltr.datasets.load_packaged("indian_pines")
X = sltr.datasets.label(tiles.X[..., ::4], ("row", "column", "band"))
y, groups = tiles.y, tiles.groups
print(f"{len(y)} tiles of {X.shape[1:]}:", " or ".join(tiles.target_names))

scores = {"ridge": np.empty(len(y)), "SLTR": np.empty(len(y))}
for train, test in tiles.cv[:3]:
    ridge = sltr.TensorRidge().fit(X[train], y[train])
    scores["ridge"][test] = ridge.predict(X[test])
    model = sltr.SLTRClassifierCV().fit(X[train], y[train], groups=groups[train])
    scores["SLTR"][test] = model.decision_function(X[test])
held_out = np.concatenate([test for _, test in tiles.cv[:3]])
for name, score in scores.items():
    area = roc_auc_score(y[held_out], score[held_out])
    print(f"{name:5}: area under the ROC curve {area:.3f}")

# %%
# Ridge is ahead on these few tiles. On 600 larger ones SLTR is, see the
# :doc:`benchmarks </benchmarks>`: so compare.
#
# The bands that tell the crops apart.

plotting.plot_mode_importance(model)
