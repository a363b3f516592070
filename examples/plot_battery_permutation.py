"""
Is there anything to find at all?
=================================

With 41 cells and 9900 entries, a model fits its own samples perfectly, even if there is
nothing to learn. A permutation test tells: shuffle the responses many times, and see
how often chance does as well as the truth.
"""

# %%

import matplotlib.pyplot as plt
import numpy as np

import sltr
from sltr import inference, plotting

cells = sltr.datasets.load_battery()
train = cells.split == "train"
X, log_life = cells.X[train], np.log(cells.y[train])

# %%
# The life of the cells, and then numbers that have nothing to do with the cells.

rng = np.random.default_rng(0)
responses = {"life of the cells": log_life, "random numbers": rng.normal(size=41)}
figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
for ax, (name, y) in zip(axes, responses.items(), strict=True):
    test = inference.permutation_test(
        sltr.SLTRRegressorCV(), X, y, statistic="pilot", n=500, random_state=0
    )
    plotting.plot_permutation_test(test, ax=ax)
    ax.set_title(f"{name}: p = {test.p_value:.3f}")
