"""
Process data: how long will a battery live?
===========================================

123 lithium cells were charged and discharged until they were worn out, after 148 to
2237 cycles. Can their life be predicted from the first hundred cycles, when hardly any
cell has lost capacity? Severson et al. (2019) asked this and published the data.
"""

# %%
# Each sample is a table: the capacity at 100 voltages in each of 99 cycles. Here is one
# long-lived and one short-lived cell. The curves of the short-lived cell move.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cross_decomposition import PLSRegression
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV

import sltr
from sltr import plotting

cells = sltr.datasets.load_battery()
voltage, cycle = cells.X.labels.coords
train = cells.split == "train"
order = np.argsort(cells.y)
figure, axes = plt.subplots(1, 2, figsize=(8, 3), sharey=True, layout="constrained")
for ax, k in zip(axes, (order[-1], order[3]), strict=True):
    for c in range(0, 99, 14):
        ax.plot(voltage, cells.X[k, :, c], color=plt.cm.viridis(c / 99))
    ax.set(xlabel="voltage (V)", title=f"lived {cells.y[k]:.0f} cycles")
axes[0].set_ylabel("discharge capacity (Ah)")
bar = plt.cm.ScalarMappable(plt.Normalize(2, 100), "viridis")
figure.colorbar(bar, ax=axes, label="cycle")

# %%
# The best feature by hand
# ------------------------
#
# The authors found what tells most: how the curve changes between cycle 10 and cycle
# 100. One number of it, the logarithm of its variance, makes a good model; partial
# least squares (PLS) on the whole curve of change makes a better one. It took insight
# to find this. Errors are in cycles, on the authors' two test sets. The second one is a
# later batch, and harder.

X, log_life = cells.X, np.log(cells.y)
change = np.asarray(X[:, :, 98] - X[:, :, 8])
feature = np.log(change.var(axis=1))[:, None]
by_hand = LinearRegression().fit(feature[train], log_life[train])
curve = GridSearchCV(PLSRegression(), {"n_components": range(1, 7)})
curve.fit(change[train], log_life[train])


def cycles_off(predicted):
    """Return the root mean squared error in cycles, on both test sets."""
    squares = (np.exp(predicted) - cells.y) ** 2
    return [squares[cells.split == name].mean() ** 0.5 for name in ("test1", "test2")]


errors = {
    "by hand: one number": cycles_off(by_hand.predict(feature)),
    "by hand: curve of change, PLS": cycles_off(curve.predict(change)),
}

# %%
# The whole tensor
# ----------------
#
# Nobody tells these models where to look. All get the 9900 numbers of each of 41 cells.

ridge = sltr.TensorRidge().fit(X[train], log_life[train])
errors["ridge, whole tensor"] = cycles_off(ridge.predict(X))
model = sltr.SLTRRegressorCV().fit(X[train], log_life[train])
errors["SLTR, whole tensor"] = cycles_off(model.predict(X))

# %%
# With a little of the insight: what changed since cycle 10. It helps on the later
# batch, and costs on the first.

since = sltr.datasets.label(
    np.asarray(X) - np.asarray(X)[:, :, [8]],
    ("voltage", "cycle"),
    coords=(voltage, cycle),
    units=("V", None),
)
changed = sltr.SLTRRegressorCV().fit(since[train], log_life[train])
errors["SLTR, change since cycle 10"] = cycles_off(changed.predict(since))
null = np.full(len(cells.y), log_life[train].mean())
errors["null model"] = cycles_off(null)

print(f"{'error in cycles':32} test 1  test 2")
for name, (first, second) in errors.items():
    print(f"{name:32} {first:6.0f}  {second:6.0f}")

# %%
# Attia, Severson and Witmer (2021) report for comparison: ridge on the whole tensor
# 11,697 and 357 cycles, PLS on the whole tensor 236 and 275. Their best models of the
# curve by hand have 97 to 100 and 176 to 193 cycles.
#
# So the whole tensor is no longer hopeless: on cells of the same kind it does better
# than one number by hand, and nobody had to find that number. On the later batch
# the expert's features stay ahead. There were only 41 cells to learn from, and none of
# that batch.

figure, ax = plt.subplots(figsize=(5, 4.2), layout="constrained")
for name, mark in (("train", "."), ("test1", "o"), ("test2", "^")):
    rows = cells.split == name
    life = np.exp(changed.predict(since[rows]))
    ax.loglog(cells.y[rows], life, mark, label=name, alpha=0.7)
ends = [140, 2400]
ax.plot(ends, ends, "k", lw=0.5)
ax.set(xlabel="life in cycles", ylabel="predicted life", xlim=ends, ylim=ends)
ticks = [200, 500, 1000, 2000]
ax.set_xticks(ticks, ticks)
ax.set_yticks(ticks, ticks)
ax.minorticks_off()
ax.legend()

# %%
# Where does the model look? The coefficient over voltages and cycles.

plotting.plot_coef(changed)
