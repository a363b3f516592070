"""
Ten labels at once
==================

Handwritten digits, 8 × 8 pixels, come with scikit-learn. With 150 training images, how
sure may the model be of each digit?
"""

# %%

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import ConfusionMatrixDisplay, log_loss
from sklearn.model_selection import train_test_split

import sltr

digits = load_digits()
X, X_test, y, y_test = train_test_split(
    digits.images, digits.target, train_size=150, stratify=digits.target, random_state=0
)
model = sltr.SLTRClassifierCV().fit(X, y)
print(f"{model.score(X_test, y_test):.1%} of {len(y_test)} new digits are right")
print(f"log-loss {log_loss(y_test, model.predict_proba(X_test)):.2f}")

# %%
# One coefficient for each digit: ink on red pixels speaks for it, ink on blue pixels
# against it.

figure, axes = plt.subplots(2, 5, figsize=(8, 3.6), layout="constrained")
limit = np.abs(model.coef_).max()
for digit, ax in enumerate(axes.flat):
    coef = model.coef_[digit]
    ax.imshow(coef, cmap="RdBu_r", vmin=-limit, vmax=limit)
    ax.set(title=str(digit), xticks=[], yticks=[])

# %%
# Which digits are taken for which others?

ConfusionMatrixDisplay.from_predictions(y_test, model.predict(X_test), cmap="Blues")

# %%
# Are the probabilities honest? Among predictions made with a confidence of 80 %, about
# 80 % should be right.

chance = model.predict_proba(X_test)
sure, right = chance.max(axis=1), model.predict(X_test) == y_test
edges = np.quantile(sure, np.linspace(0, 1, 9))
place = np.clip(np.searchsorted(edges, sure, side="right") - 1, 0, 7)
figure, ax = plt.subplots(figsize=(4, 3.6), layout="constrained")
ax.plot([0, 1], [0, 1], "k", lw=0.5)
ax.plot(
    [sure[place == k].mean() for k in range(8)],
    [right[place == k].mean() for k in range(8)],
    "o-",
)
ax.set(xlabel="confidence", ylabel="share that is right", xlim=(0.2, 1), ylim=(0.2, 1))
