"""
How exact is the answer?
========================

Every estimate carries a duality gap: a bound on its distance from the optimum
that does not rely on the solver. A pilot tensor of your own can be used as well.
"""

# %%

import matplotlib.pyplot as plt
import numpy as np

import sltr

rng = np.random.default_rng(0)
pilot = np.zeros((15, 12, 5))
pilot[3:8, 2:7, 1:3] = 1.0
pilot += 0.3 * rng.normal(size=pilot.shape)

# %%
# Radii are absolute here. Arrays of radii give all answers at once.

radii = np.linspace(0.1, 1.2, 12)
answers = sltr.estimate(pilot, radii, 3 * radii)
print("largest relative gap:", float(np.max(answers.gap)))

# %%
# Sparsity grows with the radii.

share = (answers.coef != 0).mean(axis=(1, 2, 3))
figure, ax = plt.subplots()
ax.plot(radii, 100 * share, "o-")
ax.set(xlabel="λ_sparse", ylabel="entries that are not zero (%)")
