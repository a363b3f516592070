"""
Labels and probabilities
========================

Classify tensors, and see how well the classes separate.
"""

# %%

import sltr
from sltr import plotting

data = sltr.datasets.make_tensor_classification(
    (10, 10, 3), 600, truth="blob", random_state=0
)
X, y, X_test, y_test = data.X[:200], data.y[:200], data.X[200:], data.y[200:]
model = sltr.SLTRClassifierCV().fit(X, y)
print(f"accuracy on new samples: {model.score(X_test, y_test):.2f}")
print(model.predict_proba(X_test[:3]).round(2))

# %%

plotting.plot_roc(y_test, model.decision_function(X_test))

# %%
# The coefficient over the mean sample.

plotting.plot_overlay(model, X.mean(axis=0))
