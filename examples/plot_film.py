"""
Film: what moves, and when?
===========================

Short clips of two kinds of motion. No film comes with the package, so the clips are
drawn here: a disc that falls, or one that crosses, hardly brighter than the noise of
the camera. Clips from files are read by ``sltr.datasets.load_video_folder``.
"""

# %%
# Eighty clips of 10 frames of 18 × 24 pixels. Four clips come from the same film, and
# share their noise: they must not be split between training and test (``groups``).

import numpy as np

import sltr
from sltr import plotting

rng = np.random.default_rng(0)
rows, columns = np.mgrid[:18, :24]
falls = np.arange(80) % 2
films = np.arange(80) // 4
clips = (
    rng.normal(size=(80, 10, 18, 24)) + 0.5 * rng.normal(size=(20, 1, 18, 24))[films]
)
for clip, fall in zip(clips, falls, strict=True):
    off = rng.normal(0, 2)
    for t, frame in enumerate(clip):
        y, x = (1 + 1.7 * t, 12 + off) if fall else (9 + off, 1 + 2.4 * t)
        frame[(rows - y) ** 2 + (columns - x) ** 2 < 9] += 0.9

X = sltr.datasets.label(clips, ("time", "row", "column"))
labels = np.where(falls, "falls", "crosses")

# %%
# Whole films are held out, in the tuning too.

train, test = films < 14, films >= 14
model = sltr.SLTRClassifierCV().fit(X[train], labels[train], groups=films[train])
print(f"accuracy on new films: {model.score(X[test], labels[test]):.2f}")

# %%
# Frames of the coefficient. Light at red places speaks for "falls", at blue places for
# "crosses": both paths can be followed.

plotting.plot_film(model, n_frames=5)
