"""
Neighbours belong together: smooth modes
========================================

Cycle 51 of a battery is much like cycle 52. A model that knows this needs fewer
samples, and its coefficient is easier to read. ``smooth`` says which modes are ordered.
"""

# %%
# The stronger the smoothness, the more alike are the coefficients of neighbouring
# cycles. Held-out scores of the training cells say which strength to take; the test
# cells only show whether that was right.

import matplotlib.pyplot as plt
import numpy as np

import sltr

cells = sltr.datasets.load_battery()
X, log_life = cells.X, np.log(cells.y)
train = cells.split == "train"
models = {}
for strength in (0.0, 10.0, 100.0, 1000.0, "auto"):
    model = sltr.SLTRRegressorCV(smooth={"cycle": strength})
    models[strength] = model.fit(X[train], log_life[train])
    squares = (np.exp(model.predict(X)) - cells.y) ** 2
    first, second = (
        squares[cells.split == part].mean() ** 0.5 for part in ("test1", "test2")
    )
    held_out = model.held_out_scores_["r2"].mean()
    print(
        f"strength {strength:6}: held-out R² {held_out:.2f}; error {first:.0f} cycles "
        f"on test 1, {second:.0f} on test 2"
    )

ridge = sltr.TensorRidge().fit(X[train], log_life[train])
null = np.exp(log_life[train].mean())
for name, life in (("ridge", np.exp(ridge.predict(X))), ("null model", null)):
    squares = (life - cells.y) ** 2
    first, second = (
        squares[cells.split == part].mean() ** 0.5 for part in ("test1", "test2")
    )
    print(f"{name}: error {first:.0f} cycles on test 1, {second:.0f} on test 2")
print("strength that 'auto' takes:", models["auto"].smooth_[1])

# %%
# With ``"auto"`` leave-one-out errors of the ridge pilot choose, and the strength stays
# 0 unless another one is clearly better. That is safe, and quick; but 41 cells seldom
# say anything clearly. Here it pays to try some strengths oneself.
#
# The coefficients without smoothness, and with much of it.

voltage, cycle = X.labels.coords
figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), sharey=True, layout="constrained")
for ax, strength in zip(axes, (0.0, 1000.0), strict=True):
    coef = models[strength].coef_
    limit = np.abs(coef).max()
    picture = ax.pcolormesh(
        cycle, voltage, coef, cmap="RdBu_r", vmin=-limit, vmax=limit
    )
    figure.colorbar(picture, ax=ax)
    ax.set(title=f"strength {strength:g}", xlabel="cycle")
axes[0].set_ylabel("voltage (V)")
