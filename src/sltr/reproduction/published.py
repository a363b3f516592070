"""Numbers as printed in the paper, for the column "published".

All from Zhang, Cai, Wang, Wang, "Sparse and Low-Rank High-Order Tensor Regression
via Parallel Proximal Method", section "Experiment". Keys are condition, method.
"""

from __future__ import annotations

Published = dict[str, dict[str, float]]

_METHODS = ("sltr_paper", "remurs", "surf", "lasso", "elastic_net")
_TENSOR_4D = ("sltr_paper", "remurs", "lasso", "elastic_net")


def _row(methods: tuple[str, ...], *values: float) -> dict[str, float]:
    return dict(zip(methods, values, strict=True))


# Table "MSE on simulated datasets of different variable sizes".
MSE_BY_SIZE: Published = {
    "30×30×5": _row(_METHODS, 0.9186, 0.9190, 0.9289, 1.9381, 1.9377),
    "35×35×5": _row(_METHODS, 0.9336, 0.9370, 0.9527, 2.0147, 2.0147),
    "40×40×5": _row(_METHODS, 0.9073, 0.9072, 1.0006, 2.1059, 2.1065),
    "20×20×10×5": _row(_TENSOR_4D, 0.9150, 0.9177, 2.1388, 2.1373),
    "25×25×10×5": _row(_TENSOR_4D, 0.9071, 0.9101, 1.9696, 1.9696),
    "30×30×10×5": _row(_TENSOR_4D, 0.9110, 0.9123, 1.9754, 1.9745),
}

# Table "MSE on simulated datasets of different numbers of samples", 20×20×5.
MSE_BY_N: Published = {
    "n = 50": _row(_METHODS, 1.6123, 1.6198, 1.6439, 4.5083, 4.5759),
    "n = 100": _row(_METHODS, 1.0798, 1.0946, 1.7101, 1.6433, 1.6433),
    "n = 150": _row(_METHODS, 0.9295, 0.9190, 0.9953, 1.6777, 1.6502),
    "n = 200": _row(_METHODS, 0.8351, 0.8469, 0.8376, 1.9072, 0.8376),
    "n = 250": _row(_METHODS, 0.7130, 0.7267, 0.7199, 1.3757, 1.3708),
    "n = 300": _row(_METHODS, 0.7282, 0.7325, 0.7524, 1.7316, 1.6938),
    "n = 350": _row(_METHODS, 0.6275, 0.6275, 0.6379, 1.3207, 1.2804),
    "n = 400": _row(_METHODS, 0.5954, 0.5969, 0.5975, 1.1487, 1.1450),
}

# Table "Time costs (in seconds) of hyper-parameter tuning": 147 candidates of SLTR,
# 49 of Remurs. Its second and third rows print 30×30×5 again; the sizes here are
# those of the table of errors, whose order it follows.
TUNING_TIME: Published = {
    "30×30×5": _row(("sltr_paper", "remurs"), 16.793568, 510.050226),
    "35×35×5": _row(("sltr_paper", "remurs"), 20.212862, 602.292492),
    "40×40×5": _row(("sltr_paper", "remurs"), 6.509343, 684.737448),
    "20×20×10×5": _row(("sltr_paper", "remurs"), 10.975796, 1474.090235),
    "25×25×10×5": _row(("sltr_paper", "remurs"), 16.936689, 3060.085998),
    "30×30×10×5": _row(("sltr_paper", "remurs"), 23.276677, 3394.478247),
}

VIDEO_PAIRS = (
    ("ApplyEyeMakeup", "ApplyLipstick"),
    ("BaseballPitch", "Basketball"),
    ("BodyWeightSquats", "Bowling"),
)
_FIRST, _SECOND, _THIRD = (" & ".join(pair) for pair in VIDEO_PAIRS)

# Table "AUROC values on the UCF101 dataset".
VIDEO_AUROC: Published = {
    _FIRST: _row(_METHODS, 0.931953, 0.945266, 0.64053, 0.88006, 0.887556),
    _SECOND: _row(_METHODS, 0.995074, 0.995074, 0.78695, 0.964194, 0.965473),
    _THIRD: _row(_METHODS, 0.97756, 0.946704, 0.32258, 0.919753, 0.930556),
}

# Table "Hyper-parameter tuning time cost (in seconds) on the UCF101 dataset": 80
# candidates of SLTR, 49 of Remurs.
VIDEO_TIME: Published = {
    _FIRST: _row(("sltr_paper", "remurs"), 6.889112525, 692.231181),
    _SECOND: _row(("sltr_paper", "remurs"), 6.865089138, 678.267903),
    _THIRD: _row(("sltr_paper", "remurs"), 6.638173225, 701.628673),
}
