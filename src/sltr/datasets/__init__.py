"""Data in: simulated, packaged, and from files, videos and images."""

from sltr.datasets.synthetic import (
    make_tensor_classification,
    make_tensor_regression,
)
from sltr.datasets.video import load_video
from sltr.datasets.video_folder import load_video_folder

__all__ = [
    "load_video",
    "load_video_folder",
    "make_tensor_classification",
    "make_tensor_regression",
]
