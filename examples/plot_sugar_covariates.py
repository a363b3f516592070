"""
Beside the tensor: covariates
=============================

Much is known besides the spectrum of a sugar sample: what the laboratory found eight
hours before, and in which shift it was taken. Such numbers and words are covariates.
They are fitted beside the tensor, without a penalty, and the coefficient shows what the
spectrum adds to them.
"""

# %%
# Colours follow each other in time, so the last one says much by itself.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

import sltr
from sltr import plotting

sugar = sltr.datasets.load_sugar()
X, y = sugar.X[1:], sugar.y[1:]
before = sugar.y[:-1]
shift = np.array(["first", "second", "third"])[np.arange(len(y)) % 3]
table = np.column_stack([before.astype(object), shift.astype(object)])
figure, ax = plt.subplots(figsize=(3.6, 3.2), layout="constrained")
ax.plot(before, y, ".")
ax.set(xlabel="colour eight hours before", ylabel="colour")

# %%
# Held-out R² of either, and of both. Words are categories, with a coefficient for each
# level but the first. A pandas table would give its columns' names.

rows, test = train_test_split(np.arange(len(y)), random_state=0)
known, new = table[rows], table[test]
nothing = np.zeros((len(y), 2, 2))  # samples that say nothing
alone = sltr.SLTRRegressor().fit(nothing[rows], y[rows], covariates=known)
spectra = sltr.SLTRRegressorCV().fit(X[rows], y[rows])
both = sltr.SLTRRegressorCV().fit(X[rows], y[rows], covariates=known)
ridge = sltr.TensorRidge().fit(X[rows], y[rows])
scores = {
    "covariates alone": alone.score(nothing[test], y[test], covariates=new),
    "ridge, spectra alone": ridge.score(X[test], y[test]),
    "SLTR, spectra alone": spectra.score(X[test], y[test]),
    "SLTR, both": both.score(X[test], y[test], covariates=new),
}
for name, score in scores.items():
    print(f"{name:20} R² {score:.3f}")
for name, value in zip(both.covariate_names_, both.covariate_coef_, strict=True):
    print(f"{name}: {value:+.3f}")

# %%
# The coefficient without and with the covariates. The second one is what the spectra
# say of samples whose predecessors had the same colour.

figure = plt.figure(figsize=(8, 4.4), layout="constrained")
parts = figure.subfigures(1, 2)
titles = ("spectra alone", "beside the covariates")
for part, title, model in zip(parts, titles, (spectra, both), strict=True):
    plotting.plot_coef(model, fig=part)
    part.suptitle(title)
