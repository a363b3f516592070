"""
Which wavelengths can be relied on?
===================================

A coefficient is never zero by itself: some entries are there by chance. Two tools ask
which are not. ``stability`` fits the model to many halves of the samples and counts how
often an entry is chosen. ``significant`` tests the samples and bounds the chance of one
false entry.
"""

# %%

import sltr
from sltr import inference, plotting

sugar = sltr.datasets.load_sugar()
X, y = sugar.X, sugar.y

# %%
# How often is each wavelength pair among the most important ones? By default, one false
# entry is expected at most.

found = inference.stability(sltr.SLTRRegressorCV(), X, y, n_pairs=25, random_state=0)
print(f"{found.selected.sum()} of {found.selected.size} entries are selected")
plotting.plot_stability(found)

# %%
# The same question as a test: entries near which there is signal, given the other
# regions. The chance that a single one is false is at most 10 %.

safe = inference.significant(sltr.SLTRRegressorCV(), X, y, n=300, random_state=0)
print(f"{safe.selected.sum()} entries, in {len(safe.regions)} regions")
plotting.plot_significant(safe)
