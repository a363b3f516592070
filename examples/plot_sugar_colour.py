"""
Spectra: which light tells the colour of sugar?
===============================================

A sugar plant took a sample every eight hours. Each was dissolved, and its fluorescence
was measured: light of 7 wavelengths goes in (excitation), light of 53 wavelengths comes
out (emission). Can this landscape replace the laboratory's measurement of the colour?
"""

# %%
# Here is the landscape of one sample. White cells were not measured: there, the light
# that comes out cannot be told from the light that goes in.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cross_decomposition import PLSRegression
from sklearn.model_selection import GridSearchCV, train_test_split

import sltr
from sltr import plotting

sugar = sltr.datasets.load_sugar()
X, y = sugar.X, sugar.y
emission, excitation = X.labels.coords

figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
landscape = np.where(X.labels.mask, np.asarray(X[0]), np.nan)
for k, wavelength in enumerate(excitation):
    ax.plot(emission, landscape[:, k], label=f"{wavelength:.0f} nm", color=f"C{k}")
ax.set(xlabel="emission (nm)", ylabel="intensity", title="One sample of sugar")
ax.legend(title="excitation")

# %%
# We hold out a quarter of the samples. Ridge regression and partial least squares (PLS)
# are what a chemist would try first.

rows, held_out = train_test_split(np.arange(len(y)), random_state=0)
model = sltr.SLTRRegressorCV().fit(X[rows], y[rows])
ridge = sltr.TensorRidge().fit(X[rows], y[rows])

flat = np.asarray(X).reshape(len(X), -1)
pls = GridSearchCV(PLSRegression(), {"n_components": range(1, 13)})
pls.fit(flat[rows], y[rows])
print("R² on held-out samples")
print(f"  ridge {ridge.score(X[held_out], y[held_out]):.3f}")
print(f"  PLS   {pls.score(flat[held_out], y[held_out]):.3f}")
print(f"  SLTR  {model.score(X[held_out], y[held_out]):.3f}")

# %%
# All three predict the colour about equally well here: the spectra hold a clear signal,
# and a linear model finds it. What the tensor model adds is a coefficient that has the
# shape of the landscape.

plotting.plot_predictions(y[held_out], model.predict(X[held_out]), label="colour")

# %%
# Where light raises the predicted colour (red) and where it lowers it (blue).

plotting.plot_coef(model)

# %%
# The share of the coefficient that each wavelength holds.

plotting.plot_mode_importance(model)
