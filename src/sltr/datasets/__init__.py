"""Data in: simulated, packaged, and from files, videos and images."""

from sltr.datasets.files import load_data, load_npy, load_npz, load_zarr
from sltr.datasets.nifti import coef_img, load_nifti
from sltr.datasets.real import load_packaged, load_real
from sltr.datasets.samples import load_samples
from sltr.datasets.scientific import load_epochs
from sltr.datasets.shipped import load_adrenal, load_battery, load_sugar
from sltr.datasets.simulated import make_tensor_classification, make_tensor_regression
from sltr.datasets.tables import load_csv
from sltr.datasets.video import load_video, load_video_folder
from sltr.samples.labelled import label

__all__ = [
    "coef_img",
    "label",
    "load_adrenal",
    "load_battery",
    "load_csv",
    "load_data",
    "load_epochs",
    "load_nifti",
    "load_npy",
    "load_npz",
    "load_packaged",
    "load_real",
    "load_samples",
    "load_sugar",
    "load_video",
    "load_video_folder",
    "load_zarr",
    "make_tensor_classification",
    "make_tensor_regression",
]
