"""User input to clean tensors, once, at the edge."""

from sltr.validation.inputs import check_covariates, check_new_samples, check_samples
from sltr.validation.parameters import (
    check_count,
    check_nonnegative,
    check_sequence,
    check_shape,
)
from sltr.validation.samples import Centred, Samples, centre

__all__ = [
    "Centred",
    "Samples",
    "centre",
    "check_count",
    "check_covariates",
    "check_new_samples",
    "check_nonnegative",
    "check_samples",
    "check_sequence",
    "check_shape",
]
