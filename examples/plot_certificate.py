"""
How exact is the answer?
========================

Many solvers stop when their numbers stop moving. That is no proof. Each estimate of
``sltr`` carries a duality gap: a bound on how far it can be from the optimum, whatever
the solver did.
"""

# %%
# ``estimate`` solves the paper's problem about a tensor of your own, the pilot. Here it
# is a block with noise.

import matplotlib.pyplot as plt
import numpy as np

import sltr

rng = np.random.default_rng(0)
pilot = np.zeros((15, 12, 5))
pilot[3:8, 2:7, 1:3] = 1.0
pilot += 0.3 * rng.normal(size=pilot.shape)

# %%
# Arrays of radii give all answers at once.

radii = np.linspace(0.1, 1.2, 12)
answers = sltr.estimate(pilot, radii, 3 * radii)
print(f"largest relative gap of the twelve answers: {np.max(answers.gap):.1e}")

# %%
# The larger the radii, the more entries are exactly zero.

share = (answers.coef != 0).mean(axis=(1, 2, 3))
figure, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.plot(radii, 100 * share, "o-")
ax.set(xlabel="radius of the sparse ball", ylabel="entries that are not zero (%)")

# %%
# One slice of the pilot, and of three answers.

figure, axes = plt.subplots(1, 4, figsize=(8, 2.2), layout="constrained")
shown = {"pilot": pilot} | {
    f"radius {radii[k]:.1f}": answers.coef[k] for k in (2, 5, 8)
}
for ax, (title, tensor) in zip(axes, shown.items(), strict=True):
    ax.imshow(tensor[:, :, 1], cmap="RdBu_r", vmin=-1.5, vmax=1.5)
    ax.set(title=title, xticks=[], yticks=[])
