"""UCF101: AUROC, tuning time and heat maps of the coefficients.

The conditions are made from the folder of clips, one for each pair of classes.
"""

from sltr.experiments import published
from sltr.experiments.spec import Condition, Experiment
from sltr.experiments.study import Column, Part, Study

__all__ = ["HEAT_MAPS", "UCF101", "VIDEO_AUROC", "VIDEO_TIME"]

_PAPER_SPLIT = (Condition("", "video", {"by_film": False}),)
_NEW_FILMS = (Condition("", "video", {"by_film": True}),)
_METRICS = ("auroc", "accuracy")
_SOURCE = "Table “AUROC values on the UCF101 dataset”"

_RELEASED = Part(
    Experiment(
        "video_released",
        _PAPER_SPLIT,
        ("null", "ridge", "sltr_paper", "remurs", "surf", "lasso", "elastic_net"),
        ("auroc",),
    ),
    "released",
    ("null", "ridge", "sltr_paper", "lasso"),
    quick_repetitions=1,
)
_FAIR_METHODS = (
    *("null", "ridge", "lasso", "elastic_net", "sltr_paper", "sltr"),
    *("remurs", "surf", "cp", "tucker"),
)
_MIXED = Part(
    Experiment("video_mixed", _PAPER_SPLIT, _FAIR_METHODS, _METRICS),
    "classifiers",
    ("null", "ridge", "lasso", "sltr_paper", "sltr"),
    quick_repetitions=1,
)
_FAIR = Part(
    Experiment("video_fair", _NEW_FILMS, _FAIR_METHODS, _METRICS, keep_coef=True),
    "classifiers",
    ("null", "ridge", "lasso", "sltr_paper", "sltr"),
    quick_repetitions=1,
)
_TIME_RELEASED = Part(
    Experiment(
        "video_time_released",
        _PAPER_SPLIT,
        ("sltr_paper",),
        ("auroc",),
        candidates={
            "sltr_paper": {
                "epsilons": (0.1, 0.2, 0.3, 0.4, 0.5),
                "lambdas": (0.005, 0.01, 0.05, 0.1),
            }
        },
    ),
    "all_candidates_released",
    quick_repetitions=1,
)
_TIME = Part(
    Experiment(
        "video_time",
        _PAPER_SPLIT,
        ("null", "ridge", "sltr_paper", "remurs"),
        ("auroc",),
        # The paper has 80 candidates of SLTR and does not say which.
        candidates={
            "sltr_paper": {
                "epsilons": (0.1, 0.2, 0.3, 0.4, 0.5),
                "lambdas_sparse": (0.001, 0.005, 0.01, 0.05),
                "lambdas_low": (0.01, 0.05, 0.1, 0.5),
            }
        },
    ),
    "all_candidates",
    quick_repetitions=1,
)

_AUROC_COLUMNS = (
    Column("released protocol: AUROC", "auroc", ("video_released",), panel=True),
    Column("paper's split, nested tuning: AUROC", "auroc", ("video_mixed",)),
    Column("new films, nested tuning: AUROC", "auroc", ("video_fair",), panel=True),
    Column("new films: accuracy", "accuracy", ("video_fair",)),
)
_TIME_COLUMNS = (
    Column("literal algorithm: s", "fit_seconds", ("video_time_released",), 2, True),
    Column("this package: s", "fit_seconds", ("video_time",), 2, True),
    Column("candidates", "n_candidates", ("video_time",), digits=0),
)

VIDEO_AUROC = Study(
    name="video_auroc",
    title="AUROC on pairs of actions",
    description="AUROC on pairs of UCF101 actions (needs a folder of clips)",
    parts=(_RELEASED, _MIXED, _FAIR),
    columns=_AUROC_COLUMNS,
    published=published.VIDEO_AUROC,
    source=_SOURCE,
    condition="pair",
    kind="video",
)

VIDEO_TIME = Study(
    name="video_time",
    title="Time to fit all candidates on video: 80 of SLTR, 49 of Remurs",
    description="seconds to tune SLTR (80) and Remurs (49) on clips (needs a folder)",
    parts=(_TIME_RELEASED, _TIME),
    columns=_TIME_COLUMNS,
    published=published.VIDEO_TIME,
    source="Table “Hyper-parameter tuning time cost (in seconds) on the UCF101 …”",
    condition="pair",
    log=True,
    ratio=("remurs", "sltr_paper"),
    kind="video",
)

HEAT_MAPS = Study(
    name="heat_maps",
    title="Coefficients over frames",
    description="heat maps of the coefficients over frames (needs a folder of clips)",
    parts=(_FAIR,),
    columns=_AUROC_COLUMNS[2:],
    condition="pair",
    heat_maps="video_fair",
    kind="video",
)

UCF101 = Study(
    name="ucf101",
    title="UCF101: pairs of actions, end to end",
    description="all of the video tables and the heat maps (needs a folder of clips)",
    parts=(_RELEASED, _MIXED, _FAIR, _TIME_RELEASED, _TIME),
    columns=(*_AUROC_COLUMNS, *_TIME_COLUMNS),
    published=published.VIDEO_AUROC,
    source=_SOURCE,
    condition="pair",
    heat_maps="video_fair",
    kind="video",
)
