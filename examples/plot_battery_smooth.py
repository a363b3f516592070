"""
Neighbours belong together: smooth modes
========================================

Cycle 51 of a battery is much like cycle 52. A model that knows this needs fewer
samples, and its coefficient is easier to read. ``smooth`` says which modes are ordered.
"""

# %%
# Without and with smoothness along the cycles. With ``"auto"`` the strength is chosen
# by leave-one-out errors, and 0 is among the choices.

import matplotlib.pyplot as plt
import numpy as np

import sltr

cells = sltr.datasets.load_battery()
X, log_life = cells.X, np.log(cells.y)
train = cells.split == "train"

models = {
    "plain": sltr.SLTRRegressorCV(),
    "smooth cycles": sltr.SLTRRegressorCV(smooth={"cycle": "auto"}),
}
for name, model in models.items():
    model.fit(X[train], log_life[train])
    squares = (np.exp(model.predict(X)) - cells.y) ** 2
    first, second = (
        squares[cells.split == part].mean() ** 0.5 for part in ("test1", "test2")
    )
    print(f"{name:14} error {first:.0f} cycles on test 1, {second:.0f} on test 2")
print("strength of the smoothness:", models["smooth cycles"].smooth_)

# %%
# Both coefficients.

voltage, cycle = X.labels.coords
figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    limit = np.abs(model.coef_).max()
    picture = ax.pcolormesh(
        cycle, voltage, model.coef_, cmap="RdBu_r", vmin=-limit, vmax=limit
    )
    figure.colorbar(picture, ax=ax)
    ax.set(title=name, xlabel="cycle")
axes[0].set_ylabel("voltage (V)")
