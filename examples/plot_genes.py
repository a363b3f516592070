"""
Gene courses: who will respond to a treatment?
==============================================

The activity of genes is measured before a treatment and several times after. No such
study comes with the package, so this one is simulated with the size of a real one: 60
patients, 7 visits, 70 genes, and a third of the patients respond. Visits are ordered,
and a few were missed.
"""

# %%
# In responders, six genes rise slowly after the treatment. All other differences are
# noise that is shared between genes.

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

import sltr
from sltr import plotting

rng = np.random.default_rng(0)
months = np.array([0, 3, 6, 9, 12, 18, 24])
genes = [f"gene {k}" for k in range(70)]
responds = (np.arange(60) % 3 == 0).astype(int)
shared = rng.normal(size=(60, 7, 4)) @ rng.normal(size=(4, 70))
course = 0.5 * shared + rng.normal(size=(60, 7, 70))
course[:, :, :6] += 0.8 * (responds[:, None] * (months / 24) ** 0.7)[:, :, None]
missed = rng.random((60, 7)) < 0.06
missed[:, 0] = False
course[missed] = np.nan

X = sltr.datasets.label(
    course,
    ("month", "gene"),
    coords={"month": months, "gene": genes},
    units={"month": "months"},
)

# %%
# Missed visits are filled from the other visits and genes (``missing="low_rank"``).
# Neighbouring visits get similar coefficients (``smooth``), if held-out errors agree.

model = sltr.SLTRClassifierCV(missing="low_rank", smooth={"month": "auto"})
score = np.empty(60)
for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, responds):
    score[test] = model.fit(X[train], responds[train]).decision_function(X[test])
print(f"area under the ROC curve, five folds: {roc_auc_score(responds, score):.2f}")

# %%
# With 60 patients, ask first whether there is anything: the p-value of the whole
# summary. Then look at the coefficient: time down, genes across.

model.fit(X, responds)
print(model.summary())
plotting.plot_coef(model)

# %%
# The genes and the months that matter most.

plotting.plot_mode_importance(model)
