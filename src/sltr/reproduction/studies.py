"""The paper's tables and figures: experiments, columns and published numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sltr.reproduction import published
from sltr.reproduction.run import Condition, Experiment

# No table without what any method has to beat.
ALWAYS = ("null", "null_last_fifth", "ridge")


@dataclass(frozen=True)
class Part:
    """An experiment under one protocol."""

    experiment: Experiment
    factories: str  # key of `methods.FACTORIES`: what the names of methods mean
    quick_methods: tuple[str, ...] | None = None  # None: all
    quick_repetitions: int = 2

    def version(self, quick: bool, methods: Sequence[str] | None) -> Part:
        """Return the part as asked for: quick or full, with all or some methods."""
        chosen = self.experiment
        if quick:
            names = self.quick_methods or chosen.methods
            chosen = replace(chosen.quick(self.quick_repetitions), methods=names)
        if methods is not None:
            # What was asked for by name is run, be it cheap or not.
            wanted = {*methods, *ALWAYS}
            there = [name for name in self.experiment.methods if name in wanted]
            chosen = replace(chosen, methods=tuple(there))
        kept = {
            name: options
            for name, options in chosen.candidates.items()
            if name in chosen.methods
        }
        return replace(self, experiment=replace(chosen, candidates=kept))


@dataclass(frozen=True)
class Column:
    """A column of the table: one metric of the experiments that share it."""

    title: str
    metric: str  # or `fit_seconds` or `n_candidates` of the rows
    experiments: tuple[str, ...]
    digits: int = 3
    panel: bool = False  # whether the figure has it


@dataclass(frozen=True)
class Study:
    """A table and its figure, under all protocols side by side."""

    name: str
    title: str
    description: str  # one line
    parts: tuple[Part, ...]
    columns: tuple[Column, ...]
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    source: str = ""  # where the published numbers, by condition and method, are
    condition: str = "condition"  # what the rows of the table differ by
    x: str | None = None  # option on the figure's axis; None: conditions have names
    log: bool = False  # whether values are on a log scale
    together: bool = False  # whether the columns share a panel, the first by method
    ratio: tuple[str, str] | None = None  # methods to be divided, in a row of its own
    heat_maps: str | None = None  # experiment whose coefficients are drawn over frames
    kind: str = "simulated"  # or "video", which needs a folder, or "real"

    def version(self, quick: bool, methods: Sequence[str] | None) -> Study:
        """Return the study as asked for; parts without methods left are gone."""
        parts = (part.version(quick, methods) for part in self.parts)
        return replace(self, parts=tuple(p for p in parts if p.experiment.methods))

    def methods(self) -> list[str]:
        """Return the names of all methods, in order of appearance."""
        names = (name for part in self.parts for name in part.experiment.methods)
        return list(dict.fromkeys(names))

    def lines(self) -> list[str]:
        """Return the methods of the table: those run, and those published."""
        printed = (
            name for c in self.conditions() for name in self.published.get(c, ())
        )
        return list(dict.fromkeys([*self.methods(), *printed]))

    def conditions(self) -> list[str]:
        """Return the labels of all conditions, in order of appearance."""
        labels = (c.label for part in self.parts for c in part.experiment.conditions)
        return list(dict.fromkeys(labels))


FAIR_METHODS = (
    *("null", "ridge", "lasso", "elastic_net", "elem_ridge", "sltr_paper", "sltr"),
    *("remurs", "sturm", "surf", "cp", "tucker", "ortrr", "tpgd"),
)
_FAIR = ("relative_mse", "r2", "estimation_error", "support_f1", "rank_error")
_QUICK = ("null", "ridge", "lasso", "sltr_paper", "sltr")
_TENSOR = ("null", "ridge", "sltr_paper", "remurs", "surf")
_LINEAR = ("null_last_fifth", "lasso", "elastic_net")
_QUICK_TENSOR = ("null", "ridge", "sltr_paper")


def under_all_protocols(
    name: str,
    title: str,
    description: str,
    conditions: tuple[Condition, ...],
    fair: tuple[Condition, ...] = (),
    **fields: Any,
) -> Study:
    """Return a study of the released protocol, its fault mended, and the fair one.

    The released protocol draws W as the released code does, the fair one as the paper's
    text; `fair` are more conditions of the latter.
    """
    released = tuple(_with(c, truth="paper_code", n_test=1) for c in conditions)
    # Cheap for three modes: the quick version has all of them.
    linear = tuple(replace(c, quick=len(c.options["shape"]) == 3) for c in released)
    faulty = tuple(_with(c, fault=True) for c in linear)
    text = tuple(_with(c, truth="paper") for c in conditions)

    def part(suffix: str, conditions: tuple[Condition, ...], **of_part: Any) -> Part:
        names = _LINEAR if suffix == "linear" else _TENSOR
        title = f"{name}_released{suffix and '_'}{suffix}"
        metrics = ("released_mse",)
        experiment = Experiment(title, conditions, names, metrics, scored_on="train")
        return Part(experiment, "released", **of_part)

    parts = (
        part("fault", faulty, quick_methods=_QUICK_TENSOR, quick_repetitions=10),
        part("", released, quick_methods=_QUICK_TENSOR),
        part("linear", linear, quick_repetitions=10),
        Part(
            Experiment(f"{name}_fair", (*text, *fair), FAIR_METHODS, _FAIR),
            "regressors",
            _QUICK,
        ),
    )
    return Study(name, title, description, parts, _columns(name), **fields)


def _columns(name: str) -> tuple[Column, ...]:
    """Return the columns of a table under all protocols."""
    fault, released, linear, fair = (
        f"{name}_{suffix}"
        for suffix in ("released_fault", "released", "released_linear", "fair")
    )
    metric = "released_mse"
    with_fault, without = "with its fault: ‖ŷ−y‖₂/n", "without the fault: ‖ŷ−y‖₂/n"
    return (
        Column(f"released, {with_fault}", metric, (fault, linear), panel=True),
        Column(f"released, {without}", metric, (released, linear), panel=True),
        Column("fair: relative MSE", "relative_mse", (fair,), panel=True),
        Column("fair: R²", "r2", (fair,)),
        Column("fair: estimation error", "estimation_error", (fair,)),
        Column("fair: support F1", "support_f1", (fair,)),
        Column("fair: rank error", "rank_error", (fair,), digits=1),
    )


def _simulated(
    label: str, shape: tuple[int, ...], n: int, quick: bool = True, **options: Any
) -> Condition:
    """Return a condition of simulated data."""
    return Condition(label, "simulated", {"shape": shape, "n": n, **options}, quick)


def _with(condition: Condition, **options: Any) -> Condition:
    return replace(condition, options={**condition.options, **options})


# Sizes of the paper's tables, and 8 % of their entries.
_SIZES = {
    (30, 30, 5): 360,
    (35, 35, 5): 490,
    (40, 40, 5): 640,
    (20, 20, 10, 5): 1600,
    (25, 25, 10, 5): 2500,
    (30, 30, 10, 5): 3600,
}


def _over_sizes(**options: Any) -> tuple[Condition, ...]:
    """Return a condition for each size; the quick version has the smallest."""
    return tuple(
        _simulated("×".join(map(str, shape)), shape, n, n == 360, **options)
        for shape, n in _SIZES.items()
    )


_NAME = "error_bound"
_CP: dict[str, Any] = {"truth": "cp", "rank": 2, "snr": 10.0}
_BLOCKS: dict[str, Any] = {"truth": "block", "snr": 10.0}

ERROR_BOUND = Study(
    name=_NAME,
    title="Error bound of Theorem 1, 10×10×5, W of CP rank 2",
    description="the bound of Theorem 1 beside the error it bounds, by n",
    parts=(
        Part(
            Experiment(
                _NAME,
                tuple(
                    _simulated(f"n = {n}", (10, 10, 5), n, n_test=100, **_CP)
                    for n in (100, 200, 400, 800, 1600, 3200)
                ),
                ("null", "ridge"),
                ("estimation_error", "theorem_error", "theorem_bound"),
            ),
            "pilots",
            quick_repetitions=3,
        ),
    ),
    columns=(
        Column("‖Ŵ−W‖ / ‖W‖", "estimation_error", (_NAME,), panel=True),
        Column("SLTR at the theorem's radii", "theorem_error", (_NAME,), panel=True),
        Column("bound of the corollary", "theorem_bound", (_NAME,), panel=True),
    ),
    together=True,
    condition="samples",
    x="n",
    log=True,
)


MSE_BY_N = under_all_protocols(
    "mse_by_n",
    "MSE by number of samples, 20×20×5",
    "error on simulated 20×20×5 tensors, n from 50 to 400",
    tuple(
        _simulated(f"n = {n}", (20, 20, 5), n, n in (50, 200, 400))
        for n in range(50, 401, 50)
    ),
    published=published.MSE_BY_N,
    source="Table “MSE on simulated datasets of different numbers of samples”",
    condition="samples",
    x="n",
)

MSE_BY_SIZE = under_all_protocols(
    "mse_by_size",
    "MSE by size of the tensor",
    "error on simulated tensors of 3 and 4 modes, n = 8 % of their entries",
    _over_sizes(),
    (
        _simulated("20×20×5, W of CP rank 2", (20, 20, 5), 160, **_CP),
        _simulated("30×30×5, W of CP rank 2", (30, 30, 5), 360, False, **_CP),
        _simulated("30×30×5, W of two blocks", (30, 30, 5), 360, False, **_BLOCKS),
    ),
    published=published.MSE_BY_SIZE,
    source="Table “MSE on simulated datasets of different variable sizes”",
    condition="size",
)

NOISE = under_all_protocols(
    "noise",
    "Error by noise, 20×20×5",
    "error by standard deviation of the noise, 20×20×5, n = 160",
    tuple(
        _simulated(f"noise {s:g}", (20, 20, 5), 160, s in (0.03, 3.0, 30.0), noise=s)
        for s in (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
    ),
    condition="noise",
    x="noise",
)

SPARSITY = under_all_protocols(
    "sparsity",
    "Error by sparsity of W, 20×20×5",
    "error by share of zeros in the coefficient, 20×20×5, n = 160",
    tuple(
        _simulated(
            f"{s:.0%} zeros", (20, 20, 5), 160, s in (0.5, 0.9, 0.99), sparsity=s
        )
        for s in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
    ),
    condition="sparsity",
    x="sparsity",
)


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


_ONLY_SLTR = ("sltr_paper",)
_TIMED = ("null", "ridge", "sltr_paper", "remurs")


def _timed(
    name: str,
    conditions: tuple[Condition, ...],
    methods: tuple[str, ...],
    metric: str,
    **candidates: Any,
) -> Part:
    """Return a part that fits each candidate once, by the literal algorithm or ours."""
    given = {"sltr_paper": candidates} if candidates else {}
    experiment = Experiment(name, conditions, methods, (metric,), candidates=given)
    literal = methods == _ONLY_SLTR
    kind = "all_candidates_released" if literal else "all_candidates"
    return Part(experiment, kind, quick_repetitions=1)


def _seconds(released: str, ours: str) -> tuple[Column, ...]:
    return (
        Column("literal algorithm: s", "fit_seconds", (released,), 2, panel=True),
        Column("this package: s", "fit_seconds", (ours,), 2, panel=True),
        Column("candidates", "n_candidates", (ours,), digits=0),
    )


_CONDITIONS = _over_sizes(n_test=100, truth="paper")

TUNING_TIME = Study(
    name="tuning_time",
    title="Time to fit all candidates: 147 of SLTR, 49 of Remurs",
    description="seconds to tune SLTR (147 candidates) and Remurs (49)",
    parts=(
        _timed("tuning_time_released", _CONDITIONS, _ONLY_SLTR, "relative_mse"),
        _timed("tuning_time_ours", _CONDITIONS, _TIMED, "relative_mse"),
    ),
    columns=(
        *_seconds("tuning_time_released", "tuning_time_ours"),
        Column("held-out relative MSE", "relative_mse", ("tuning_time_ours",)),
    ),
    published=published.TUNING_TIME,
    source="Table “Time costs (in seconds) of hyper-parameter tuning”",
    condition="size",
    log=True,
    ratio=("remurs", "sltr_paper"),
)


_PAPER_SPLIT = (Condition("", "video", {"by_film": False}),)
_NEW_FILMS = (Condition("", "video", {"by_film": True}),)
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
_MIXED, _FAIR_VIDEO = (
    Part(
        Experiment(name, split, _FAIR_METHODS, ("auroc", "accuracy"), keep_coef=keep),
        "classifiers",
        _QUICK,
        quick_repetitions=1,
    )
    for name, split, keep in (
        ("video_mixed", _PAPER_SPLIT, False),
        ("video_fair", _NEW_FILMS, True),
    )
)
_EPSILONS = (0.1, 0.2, 0.3, 0.4, 0.5)
_TIME_RELEASED = _timed(
    "video_time_released",
    _PAPER_SPLIT,
    _ONLY_SLTR,
    "auroc",
    epsilons=_EPSILONS,
    lambdas=(0.005, 0.01, 0.05, 0.1),
)
# The paper has 80 candidates of SLTR and does not say which.
_TIME = _timed(
    "video_time",
    _PAPER_SPLIT,
    _TIMED,
    "auroc",
    epsilons=_EPSILONS,
    lambdas_sparse=(0.001, 0.005, 0.01, 0.05),
    lambdas_low=(0.01, 0.05, 0.1, 0.5),
)

_AUROC_COLUMNS = (
    Column("released protocol: AUROC", "auroc", ("video_released",), panel=True),
    Column("paper's split, nested tuning: AUROC", "auroc", ("video_mixed",)),
    Column("new films, nested tuning: AUROC", "auroc", ("video_fair",), panel=True),
    Column("new films: accuracy", "accuracy", ("video_fair",)),
)
_TIME_COLUMNS = _seconds("video_time_released", "video_time")

VIDEO_AUROC = Study(
    name="video_auroc",
    title="AUROC on pairs of actions",
    description="AUROC on pairs of UCF101 actions (needs a folder of clips)",
    parts=(_RELEASED, _MIXED, _FAIR_VIDEO),
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
    parts=(_FAIR_VIDEO,),
    columns=_AUROC_COLUMNS[2:],
    condition="pair",
    heat_maps="video_fair",
    kind="video",
)

UCF101 = Study(
    name="ucf101",
    title="UCF101: pairs of actions, end to end",
    description="all of the video tables and the heat maps (needs a folder of clips)",
    parts=(_RELEASED, _MIXED, _FAIR_VIDEO, _TIME_RELEASED, _TIME),
    columns=(*_AUROC_COLUMNS, *_TIME_COLUMNS),
    published=published.VIDEO_AUROC,
    source=_SOURCE,
    condition="pair",
    heat_maps="video_fair",
    kind="video",
)


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
