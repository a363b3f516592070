"""
EEG: when and where do responses differ?
========================================

No recording comes with the package, so the epochs are simulated: noise that neighbours
share, and in one condition a weak wave over the back of the head, 170 ms after the
picture. They are written and read as MNE's own files.
"""

# %%

import tempfile
from pathlib import Path

import mne
import numpy as np

import sltr
from sltr import plotting

mne.set_log_level("error")
montage = mne.channels.make_standard_montage("biosemi32")
info = mne.create_info(montage.ch_names, 100.0, "eeg").set_montage(montage)
positions = np.array([info["chs"][k]["loc"][:3] for k in range(32)])
times = np.arange(-0.1, 0.5, 0.01)

rng = np.random.default_rng(0)
spread = np.exp(-(np.linalg.norm(positions[:, None] - positions, axis=2) ** 2) / 0.004)
place = np.exp(-(np.linalg.norm(positions - positions[15], axis=1) ** 2) / 0.005)
wave = -np.exp(-(((times - 0.17) / 0.03) ** 2))
faces = np.arange(160) % 2
noise = np.einsum("cd,ndt->nct", spread, rng.normal(size=(160, 32, len(times))))
noise += rng.normal(size=noise.shape)
waves = 4e-6 * (noise + 1.2 * faces[:, None, None] * np.outer(place, wave))
events = np.column_stack([np.arange(160), np.zeros(160, int), 1 + faces])
epochs = mne.EpochsArray(
    waves, info, events, tmin=times[0], event_id={"car": 1, "face": 2}
)
file = Path(tempfile.mkdtemp(), "pictures-epo.fif")
epochs.save(file)

# %%
# Read the file: channels and times keep their names. Neighbouring times get similar
# coefficients (``smooth``) if held-out errors agree.

data = sltr.datasets.load_epochs(file)
train, test = np.arange(160) < 110, np.arange(160) >= 110
model = sltr.SLTRClassifierCV(smooth={"time": "auto"})
model.fit(data.X[train], data.y[train])
print(f"accuracy on new epochs: {model.score(data.X[test], data.y[test]):.2f}")

# %%
# The coefficient on the head, over time. Red: more voltage speaks for "face". The wave
# of faces is negative, so its place is blue.

plotting.plot_topographies(model, times=(0.05, 0.11, 0.17, 0.23, 0.35))

# %%
# The same by channel and time: the leading factors of the coefficient.

plotting.plot_factors(model)
