"""Real data: the sets inside Python packages, and those of SLTR_DATA."""

from sltr.experiments.spec import Condition, Experiment
from sltr.experiments.studies.simulated import FAIR_METHODS
from sltr.experiments.study import Column, Part, Study

__all__ = ["REAL"]

_QUICK = ("null", "ridge", "lasso", "sltr_paper", "sltr")


def _part(source: str, name: str, label: str, folds: int, quick: bool) -> Part:
    regression = name == "sugar"
    return Part(
        Experiment(
            f"real_{name}",
            (Condition(label, source, {"name": name}, quick),),
            FAIR_METHODS,
            ("r2",) if regression else ("auroc", "accuracy"),
            repetitions=folds,
        ),
        "regressors" if regression else "classifiers",
        _QUICK,
    )


_PARTS = (
    _part("packaged", "digits", "digits, 3 or 8", 5, True),
    _part("packaged", "serology", "serology, severe or deceased", 5, True),
    _part("packaged", "indian_pines", "Indian Pines, corn or soybean", 5, False),
    _part("real", "sugar", "sugar, colour", 5, True),
    _part("real", "eeg", "EEG, alcoholic or control", 20, False),
    _part("real", "haxby_slice", "fMRI slices, face or house", 4, False),
    _part("real", "haxby_blocks", "fMRI blocks, face or house", 4, False),
    _part("real", "adrenal", "adrenal glands, mass or normal", 1, False),
)
_NAMES = tuple(part.experiment.name for part in _PARTS)

REAL = Study(
    name="real",
    title="Real data",
    description="held-out AUROC and R² on real sets, nested tuning, the same folds",
    parts=_PARTS,
    columns=(
        Column("AUROC", "auroc", _NAMES, panel=True),
        Column("accuracy", "accuracy", _NAMES),
        Column("R²", "r2", _NAMES, panel=True),
        Column("seconds", "fit_seconds", _NAMES, digits=1),
    ),
    condition="set",
    kind="real",
)
