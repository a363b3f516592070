"""
A fair test: will the model hold next month?
============================================

The samples of the sugar plant are in the order of time, and neighbours resemble each
other. If samples are shuffled before they are split, each test sample has neighbours
among the training samples. That test is too easy for a model that will be used on
*future* sugar. Here both tests are made.
"""

# %%
# First: the colour over the season. It drifts.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import KFold

import sltr

sugar = sltr.datasets.load_sugar()
X, y = sugar.X, sugar.y
day = np.arange(len(y)) / 3  # a sample every eight hours

figure, ax = plt.subplots(figsize=(7, 2.8), layout="constrained")
ax.plot(day, y, ".-", lw=0.5)
ax.set(xlabel="day of the season", ylabel="colour")

# %%
# Four shuffled parts, and four parts that follow each other in time. Each part is
# predicted by a model that was tuned and fitted on the three others.

tests = {
    "shuffled parts": KFold(4, shuffle=True, random_state=0),
    "stretches of time": KFold(4),
}
models = {"ridge": sltr.TensorRidge, "SLTR": sltr.SLTRRegressorCV}
errors = {}
for test, folds in tests.items():
    for name, Model in models.items():
        predicted = np.empty(len(y))
        for train, held_out in folds.split(y):
            model = Model().fit(X[train], y[train])
            predicted[held_out] = model.predict(X[held_out])
        errors[test, name] = np.abs(predicted - y)
        score = 1 - ((predicted - y) ** 2).sum() / ((y - y.mean()) ** 2).sum()
        print(f"{test:18} {name:6} R² {score:.3f}")

# %%
# The mean error of SLTR along the season, under both tests. Use ``cv`` or ``groups`` to
# make the tuning itself respect time, subjects or batches.

figure, ax = plt.subplots(figsize=(7, 2.8), layout="constrained")
for test in tests:
    smooth = np.convolve(errors[test, "SLTR"], np.ones(30) / 30, mode="valid")
    ax.plot(day[15 : 15 + len(smooth)], smooth, label=test)
ax.set(xlabel="day of the season", ylabel="mean error of the colour")
ax.legend(title="tested on")
