"""
A first model
=============

Fit, tune and look at a coefficient: two blocks in a tensor of 12 × 12 × 4.
"""

# %%
# Simulate more entries than samples, and keep some samples to judge by.

import sltr
from sltr import plotting

data = sltr.datasets.make_tensor_regression(
    (12, 12, 4), 700, truth="block", rank=2, snr=5, random_state=1
)
X, y, X_test, y_test = data.X[:200], data.y[:200], data.X[200:], data.y[200:]

# %%
# All settings come from five-fold cross-validation, refinements among them.

model = sltr.SLTRRegressorCV().fit(X, y)
ridge = sltr.TensorRidge().fit(X, y)
print(f"held-out R²: ridge {ridge.score(X_test, y_test):.2f}, ", end="")
print(f"SLTR {model.score(X_test, y_test):.2f}, chosen refinement: {model.refine_}")

# %%
# The true coefficient, and the one found.

modes = ("row", "column", "time")
plotting.plot_coef(data.coef, mode_names=modes, label="true coefficient")
plotting.plot_coef(model, mode_names=modes)

# %%
# What was tried, and what was chosen.

plotting.plot_cv_surface(model)
