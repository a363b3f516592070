"""
Which lamp can be spared? Weights of entries
============================================

An instrument with fewer lamps is cheaper. ``entry_weights`` says which entries of a
sample are dear: those of weight 4 have to be four times as large as others to stay in
the coefficient. Here every lamp of a fluorimeter is dear in turn.
"""

# %%
# Sugar, dissolved: 53 wavelengths of emission by 7 of excitation, one lamp for each.
# The radius is fixed at a tenth of the pilot's largest entry, and scores are means over
# five random quarters held out. No lamp is left out of the table.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import ShuffleSplit

import sltr
from sltr import plotting

sugar = sltr.datasets.load_sugar()
X, y = sugar.X, sugar.y
lamps = X.labels.coords[1]
splits = list(ShuffleSplit(5, test_size=0.25, random_state=0).split(y))


def held_out(make):
    """Return the models of all splits, and the mean of their scores."""
    models = [make().fit(X[train], y[train]) for train, _ in splits]
    pairs = zip(models, splits, strict=True)
    return models, np.mean([m.score(X[test], y[test]) for m, (_, test) in pairs])


def model(lamp=None):
    """Return the paper's estimate in which one lamp is dear."""
    weights = np.ones(X.shape[1:])
    weights[:, lamp if lamp is not None else []] = 4.0
    how = {"lambda_sparse": 0.1, "lambda_low": 1.0, "refine": "scale"}
    return sltr.SLTRRegressor(entry_weights=weights, **how)


_, ridge = held_out(sltr.TensorRidge)
_, alike = held_out(model)
print(f"null model: R² 0, ridge: {ridge:.3f}, all lamps alike: {alike:.3f}")
found = {}
for k, lamp in enumerate(lamps):
    models, score = held_out(lambda k=k: model(k))
    used = np.mean([np.count_nonzero(m.coef_[:, k]) for m in models])
    found[lamp] = models[0], score, used
    print(f"{lamp:.0f} nm dear: R² {score:.3f}, {used:.1f} of its 53 entries in use")

# %%
# Where the lamp of 240 or 340 nm is dear, hardly anything can be predicted. That of
# 325 nm is not missed. All of these predict worse than ridge, which uses every entry.

figure, ax = plt.subplots(figsize=(5.6, 3.2), layout="constrained")
ax.bar([f"{lamp:.0f}" for lamp in lamps], [row[1] for row in found.values()])
ax.axhline(alike, color="C1", linestyle="--", label="all lamps alike")
ax.axhline(ridge, color="0.4", linestyle=":", label="ridge")
ax.axhline(0.0, color="0.2", linewidth=0.8)
ax.set(xlabel="the lamp that is dear (nm)", ylabel="R² on held-out samples")
ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)

# %%
# The coefficient in which the lamp of 325 nm is dear: its column is empty.

plotting.plot_coef(found[325.0][0])
