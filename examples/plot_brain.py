"""
Brain images: from NIfTI files to a glass brain
===============================================

No brain images come with the package, so these are simulated: smooth noise in the
outline of the MNI brain and, while the left hand taps, a weak signal in the right motor
area. Files,
mask, model and picture are used as for real ones.
"""

# %%
# Sixty images of each class, in one NIfTI file, and a mask.

import tempfile
from pathlib import Path

import nibabel
import numpy as np
from nilearn.datasets import load_mni152_brain_mask
from scipy.ndimage import gaussian_filter

import sltr
from sltr import plotting

folder = Path(tempfile.mkdtemp())
mask = load_mni152_brain_mask(resolution=8)
inside = mask.get_fdata() > 0
places = nibabel.affines.apply_affine(mask.affine, np.indices(inside.shape).T).T
distance = np.linalg.norm(places - np.array([38, -22, 56])[:, None, None, None], axis=0)
signal = np.exp(-((distance / 16) ** 2)) * inside

rng = np.random.default_rng(0)
moved = np.arange(120) % 2
noise = gaussian_filter(rng.normal(size=(*inside.shape, 120)), (1, 1, 1, 0)) * 6
images = (noise + 1.2 * signal[..., None] * moved).astype(np.float32)
nibabel.save(nibabel.Nifti1Image(images, mask.affine), folder / "scans.nii.gz")
nibabel.save(mask, folder / "mask.nii.gz")

# %%
# Read them. Samples are cut to the box of the mask and know where they are in space.

data = sltr.datasets.load_nifti(folder / "scans.nii.gz", mask=folder / "mask.nii.gz")
labels = np.where(moved, "tapping", "rest")
train, test = np.arange(120) < 80, np.arange(120) >= 80
print("samples of shape", data.X.shape[1:])

model = sltr.SLTRClassifierCV().fit(data.X[train], labels[train])
print(f"accuracy on new images: {model.score(data.X[test], labels[test]):.2f}")

# %%
# The coefficient in a glass brain. The model knows the affine of its images. Red: more
# signal speaks for "tapping".

plotting.plot_brain(model)

# %%
# ``sltr.export`` writes it as an image for any viewer.

print(sltr.export(model, folder / "coef.nii.gz").name)
