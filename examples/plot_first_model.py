"""
A first model
=============

Fit, tune and look at a coefficient. The data are simulated, so the truth is known: two
blocks in a tensor of 12 × 12 × 4. Every other entry has no influence.
"""

# %%
# There are 576 entries and 200 samples. We keep 500 samples to test with.

import sltr
from sltr import plotting

data = sltr.datasets.make_tensor_regression(
    (12, 12, 4), 700, truth="block", rank=2, snr=5, random_state=1
)
X, y, X_test, y_test = data.X[:200], data.y[:200], data.X[200:], data.y[200:]

# %%
# ``SLTRRegressorCV`` chooses all its settings by cross-validation.

model = sltr.SLTRRegressorCV().fit(X, y)
ridge = sltr.TensorRidge().fit(X, y)
print(f"R² on new samples: ridge {ridge.score(X_test, y_test):.2f}")
print(f"                   SLTR  {model.score(X_test, y_test):.2f}")

# %%
# This is the true coefficient.

modes = ("row", "column", "time")
plotting.plot_coef(data.coef, mode_names=modes, label="true coefficient")

# %%
# This is the one that the model found. Red entries raise the prediction, blue ones
# lower it.

plotting.plot_coef(model, mode_names=modes)

# %%
# The summary says what was chosen and how well it did on held-out samples.

print(model.summary())
