"""
Which method suits your data?
=============================

No method is best everywhere. ``compare`` tunes several of them inside the same folds
and scores each on samples that had no part in any choice. The null model (the mean of
the training responses) and ridge are always in the table. A method that does not beat
both has found nothing.
"""

# %%
# Three methods for tensors, on the spectra of sugar. The names are those of
# :doc:`the table of methods </methods>`.

import matplotlib.pyplot as plt

import sltr
from sltr.comparison import compare, summary

sugar = sltr.datasets.load_sugar()
rows = compare(sugar.X, sugar.y, ("sltr", "cp", "elem_ridge"), folds=4)
table = summary(rows)
print(table)

# %%
# The same as a picture: each point is a fold, each bar the mean.

titles = [line["title"] for line in table]
figure, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
ax.barh(titles, [line["r2"] for line in table], color="lightsteelblue")
ax.plot(
    [row["metrics"]["r2"] for row in rows], [row["title"] for row in rows], "k.", ms=5
)
ax.invert_yaxis()
ax.set(xlabel="R² on held-out samples", xlim=(-0.1, 1))
