"""
Coefficient or pattern?
=======================

A coefficient says how entries are *combined*. It does not say where the signal *is*: an
entry may get a large coefficient only because it cancels the noise of another one. The
forward pattern (Haufe et al. 2014) answers the second question: how does a sample
change when the model's score rises?
"""

# %%

import numpy as np

import sltr
from sltr import inference, plotting

glands = sltr.datasets.load_adrenal()
train = np.flatnonzero(glands.split == "train")[:400]
X, y = glands.X[train], glands.y[train]
model = sltr.SLTRClassifierCV().fit(X, y)

# %%
# The coefficient: useful to predict, hard to read.

plotting.plot_coef(model, slices={"z": range(2, 14, 2)})

# %%
# The pattern: where a gland grows when the model says "mass".

plotting.plot_pattern(inference.patterns(model, X), mode_names=("x", "y", "z"))
