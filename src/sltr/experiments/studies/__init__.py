"""Tables and figures of the paper, and what belongs beside them, as data."""

from sltr.experiments.studies.error_bound import ERROR_BOUND
from sltr.experiments.studies.mse_by_n import MSE_BY_N
from sltr.experiments.studies.mse_by_size import MSE_BY_SIZE
from sltr.experiments.studies.noise import NOISE
from sltr.experiments.studies.real import REAL
from sltr.experiments.studies.sparsity import SPARSITY
from sltr.experiments.studies.tuning_time import TUNING_TIME
from sltr.experiments.studies.video import HEAT_MAPS, UCF101, VIDEO_AUROC, VIDEO_TIME

__all__ = ["STUDIES"]

STUDIES = {
    study.name: study
    for study in (
        MSE_BY_SIZE,
        MSE_BY_N,
        TUNING_TIME,
        VIDEO_AUROC,
        VIDEO_TIME,
        HEAT_MAPS,
        UCF101,
        SPARSITY,
        NOISE,
        ERROR_BOUND,
        REAL,
    )
}
