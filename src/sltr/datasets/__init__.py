"""Data in: simulated, packaged, and from files, videos and images."""

from sltr.datasets.synthetic import (
    make_tensor_classification,
    make_tensor_regression,
)

__all__ = ["make_tensor_classification", "make_tensor_regression"]
