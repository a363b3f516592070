"""
Which wavelengths are found again?
==================================

A coefficient is never zero by itself: some entries are there by chance. ``stability``
asks which are not. It fits the model to many halves of the samples and counts how often
each entry is among the most important ones.
"""

# %%

import sltr
from sltr import inference, plotting

sugar = sltr.datasets.load_sugar()
X, y = sugar.X, sugar.y
found = inference.stability(sltr.SLTRRegressorCV(), X, y, n_pairs=25, random_state=0)

# %%
# An entry is selected if three quarters of the halves choose it. The number of entries
# that a half may choose is set so that one false entry is expected at most.

print(f"a half chooses {found.n_largest} of {found.selected.size} entries")
print(f"{found.selected.sum()} entries are selected")

# %%
# Yellow wavelengths are found again and again. Neighbouring wavelengths carry nearly
# the same signal, so halves may choose one neighbour or the other: a dark entry beside
# a bright one is not without signal.

labels = X.labels
plotting.plot_stability(
    found, mode_names=labels.names, units=labels.units, coords=labels.coords
)
