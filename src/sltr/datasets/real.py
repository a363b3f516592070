"""Real data as tasks: samples, responses, and the folds to judge a method by."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import (
    GroupKFold,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
)
from sklearn.utils import Bunch

from sltr.datasets.files import load_npz
from sltr.parameters import import_optional


def load_packaged(name: str, *, classes: Sequence[str] | None = None) -> Bunch:
    """Load a real data set from an installed package.

    Parameters
    ----------
    name : {"digits", "indian_pines", "serology"}
        "digits": 8×8 images of handwritten digits (scikit-learn);
        "indian_pines": 5×5 pixels × 200 bands of an aerial hyperspectral image, one
        sample for each tile of the image, by the crop at its centre (TensorLy);
        "serology": 6 antigens × 11 receptors in sera of COVID-19 patients, by the
        course of their illness (TensorLy).
    classes : sequence of str, optional
        Two or more of the set's classes, in the order of their labels 0, 1, ….
        Default: 3 and 8; corn-notill and soybean-mintill; Severe and Deceased.

    Returns
    -------
    Bunch
        `X` (n, p1, …, pM), `y` (n,), `groups` ((n,) or None), `cv` (pairs of train
        and test rows), `task`, `target_names`, `description`.

    Examples
    --------
    >>> digits = load_packaged("digits")
    >>> digits.X.shape, digits.target_names, len(digits.cv)
    ((357, 8, 8), ['3', '8'], 5)
    """
    if name not in _PACKAGED:
        msg = f"name={name!r} was given; expected one of {sorted(_PACKAGED)}."
        raise ValueError(msg)
    return _PACKAGED[name](classes)


def load_real(
    name: str,
    *,
    classes: Sequence[str] | None = None,
    target: str | None = None,
    folder: str | PathLike[str] | None = None,
) -> Bunch:
    """Load one of the real data sets the methods are measured on.

    Parameters
    ----------
    name : str
        "sugar": fluorescence of sugar solutions, 53×7, regression of the colour;
        "eeg": 64 channels × 64 times, alcoholic or control;
        "haxby_slice": fMRI slices, 40×20, by what was seen;
        "haxby_blocks": the same as blocks of 9 times × 40×20;
        "adrenal": 16×16×16 shapes of adrenal glands, normal or with a mass;
        "battery": discharge capacity of 123 lithium cells, 100 voltages × 99 cycles,
        regression of the logarithm of their life in cycles;
        "ifnb": expression of 76 genes at 7 times, good or poor responders to
        interferon;
        "dryer": 11 sensors × 325 times of batches in a dryer, one of 8 qualities;
        "antibodies": 22 detections × 41 antigens, of which 43 % were never measured;
        HIV controllers, viremic patients, or one of 6 functions of cells;
        "gases": colours of 36 dyes × 3 × 2 doses, 21 gases;
        "dorrit": 27 fluorescence landscapes, 55×24, one of 4 concentrations;
        "pines_2_3", "pines_10_11": hyperspectral patches, 7×7×40, of two crops;
        "covid": 6 antigens × 11 receptors, by the course of the illness;
        "emotion": EEG curves of 384 times, regression of the EMG curve, y (n, 384).
    classes : sequence of str, optional
        For the Haxby sets, two or more of what was seen (default face and house); for
        "covid" of the courses (default Severe and Deceased).
    target : str, optional
        Which response, for sets that have several: "dryer" "0" to "7", "dorrit" "0" to
        "3", "antibodies" "controller" (default), "viremic" or a function such as
        "ADCC"; "all" for all of them, y (n, q), where NaN was not measured.
    folder : path, optional
        Where the sets are; default: the environment variable SLTR_DATA.

    Returns
    -------
    Bunch
        `X` (n, p1, …, pM), `y` (n,) or (n, q), `groups` ((n,) or None), `cv` (pairs of
        train and test rows: whole runs are held out for Haxby, blocks of the image for
        "pines", the official test set for adrenal), `task`, `target_names`,
        `description`.

    Examples
    --------
    >>> load_real("salt")
    Traceback (most recent call last):
        ...
    ValueError: name='salt' was given; expected one of ['adrenal', 'antibodies', ...
    """
    if name not in _REAL:
        msg = f"name={name!r} was given; expected one of {sorted(_REAL)}."
        raise ValueError(msg)
    file, load = _REAL[name]
    place = os.environ.get("SLTR_DATA") if folder is None else folder
    if place is None:
        msg = (
            f"The set {name!r} is not part of the package. Set the environment "
            "variable SLTR_DATA to the folder of real data sets, or pass `folder`."
        )
        raise FileNotFoundError(msg)
    path = Path(place) / file
    if not path.exists():
        msg = f"{path} does not exist; expected the set {name!r} there. Check `folder`."
        raise FileNotFoundError(msg)
    for what, given, known in (
        ("classes", classes, HAS_CLASSES),
        ("target", target, HAS_TARGETS),
    ):
        if given is not None and load not in known:
            msg = (
                f"{what}={given!r} was given; the set {name!r} has no choice. Omit it."
            )
            raise ValueError(msg)
    choice = target if load in HAS_TARGETS else classes
    return load(load_npz(path, target=None), choice)


def _digits(classes: Sequence[str] | None) -> Bunch:
    from sklearn.datasets import load_digits

    digits = load_digits()
    chosen = ("3", "8") if classes is None else tuple(classes)
    rows, y = choose_classes(digits.target.astype(str), chosen)
    return as_task(
        digits.images[rows],
        y,
        cv=StratifiedKFold(5, shuffle=True, random_state=0),
        target_names=chosen,
        description="Handwritten digits, 8×8 pixels, from scikit-learn.",
    )


_CROPS = (
    *("unlabelled", "alfalfa", "corn-notill", "corn-mintill", "corn"),
    *("grass-pasture", "grass-trees", "grass-pasture-mowed", "hay-windrowed"),
    *("oats", "soybean-notill", "soybean-mintill", "soybean-clean", "wheat"),
    *("woods", "buildings-grass-trees-drives", "stone-steel-towers"),
)
_TILE = 5
_REGION = 29  # 5 × 5 regions of the image: neighbouring tiles are alike


def _indian_pines(classes: Sequence[str] | None) -> Bunch:
    bunch = _tensorly().load_indian_pines()
    image, labels = np.asarray(bunch.tensor), np.asarray(bunch.ticks[0])
    starts = np.arange(0, image.shape[0] - _TILE + 1, _TILE)
    corners = [(i, j) for i in starts for j in starts]
    middle = _TILE // 2
    crops = np.array([_CROPS[labels[i + middle, j + middle]] for i, j in corners])
    chosen = ("corn-notill", "soybean-mintill") if classes is None else tuple(classes)
    rows, y = choose_classes(crops, chosen)
    tiles = [image[i : i + _TILE, j : j + _TILE] for i, j in corners]
    region = np.array([i // _REGION * 100 + j // _REGION for i, j in corners])
    return as_task(
        np.stack([tiles[row] for row in rows]),
        y,
        cv=StratifiedGroupKFold(5),
        groups=region[rows],
        target_names=chosen,
        description=(
            "Indian Pines (AVIRIS, 1992; CC BY 3.0) from TensorLy: tiles of 5×5 "
            "pixels × 200 bands that do not overlap, labelled by the centre pixel. "
            "Whole regions of 29×29 pixels are held out."
        ),
    )


def _serology(classes: Sequence[str] | None) -> Bunch:
    bunch = _tensorly().load_covid19_serology()
    chosen = ("Severe", "Deceased") if classes is None else tuple(classes)
    rows, y = choose_classes(np.asarray(bunch.ticks[0]), chosen)
    return as_task(
        np.asarray(bunch.tensor)[rows],
        y,
        cv=StratifiedKFold(5, shuffle=True, random_state=0),
        target_names=chosen,
        description=(
            "COVID-19 serology (Zohar et al., Cell 2020) from TensorLy. Some patients "
            "gave several samples and the set does not say which: scores are "
            "optimistic for new patients."
        ),
    )


def _tensorly() -> Any:
    return import_optional(
        "tensorly.datasets", "This set ships with TensorLy", "tensorly"
    )


_PACKAGED: dict[str, Callable[[Sequence[str] | None], Bunch]] = {
    "digits": _digits,
    "indian_pines": _indian_pines,
    "serology": _serology,
}


def _repeated(labels: bool = False) -> Any:
    """Return 5 folds, repeated twice."""
    folds = RepeatedStratifiedKFold if labels else RepeatedKFold
    return folds(n_splits=5, n_repeats=2, random_state=0)


def _sugar(arrays: Bunch, _choice: Any) -> Bunch:
    return as_task(
        arrays.X,
        arrays.y_color,
        task="regression",
        cv=_repeated(),
        description="Sugar fluorescence, emission × excitation; colour of the sugar.",
    )


def _eeg(arrays: Bunch, _choice: Any) -> Bunch:
    return as_task(
        arrays.X,
        arrays.y,
        cv=RepeatedStratifiedKFold(n_splits=5, n_repeats=4, random_state=0),
        target_names=("control", "alcoholic"),
        description="EEG, channel × time, of 61 people (UCI, by way of TRES).",
    )


def _haxby(arrays: Bunch, classes: Sequence[str] | None) -> Bunch:
    chosen = ("face", "house") if classes is None else tuple(classes)
    rows, y = choose_classes(arrays.label_names[arrays.label], chosen)
    return as_task(
        arrays.X[rows],
        y,
        # Three runs of twelve at a time: a single one holds too few blocks to score.
        cv=GroupKFold(4),
        groups=arrays.run[rows],
        target_names=chosen,
        description="Haxby 2001, subject 1, by what was seen; runs are held out.",
    )


def _adrenal(arrays: Bunch, _choice: Any) -> Bunch:
    test = arrays.split == "test"
    return as_task(
        arrays.X.astype(np.float32),
        arrays.y.astype(np.int64),
        cv=[(np.flatnonzero(~test), np.flatnonzero(test))],
        target_names=("normal", "mass"),
        description="AdrenalMNIST3D (MedMNIST v2, CC BY 4.0); official test set.",
    )


# The authors leave this cell of their first test set out.
_BAD_CELL = 62


def _battery(arrays: Bunch, _choice: Any) -> Bunch:
    rows = _without_cell(arrays.split)
    return as_task(
        arrays.X[rows],
        np.log(arrays.cycle_life[rows]),
        task="regression",
        cv=_repeated(),
        description=(
            "Discharge capacity of lithium cells, voltage × cycle (Severson et al. "
            "2019); the logarithm of their life in cycles, all batches pooled."
        ),
    )


def _ifnb(arrays: Bunch, _choice: Any) -> Bunch:
    return as_task(
        arrays.X,
        arrays.y,
        cv=_repeated(labels=True),
        target_names=("poor", "good"),
        description="Gene expression, time × gene, in multiple sclerosis (2005).",
    )


def _dryer(arrays: Bunch, target: str | None) -> Bunch:
    y, known = _column(arrays.Y, target, [str(k) for k in range(arrays.Y.shape[1])])
    return as_task(
        _carried_on(arrays.X[known]),
        y,
        task="regression",
        cv=_repeated(),
        description=(
            "Batches in a dryer, sensor × time (FMC, by way of K. Dunn); one of eight "
            "qualities. Times that were not recorded are interpolated in each batch."
        ),
    )


def _antibodies(arrays: Bunch, target: str | None) -> Bunch:
    never = np.isnan(arrays.X).all(axis=0)
    X = np.where(never, 0.0, arrays.X)
    if target is None or target in ("controller", "viremic"):
        return as_task(
            X,
            arrays[target or "controller"],
            cv=_repeated(labels=True),
            target_names=("no", "yes"),
            description=f"Antibodies in HIV (Alter et al. 2018); {target}.",
        )
    y, known = _column(arrays.Y, target, arrays.functions.tolist())
    return as_task(
        X[known],
        y,
        task="regression",
        cv=_repeated(),
        description=f"Antibodies in HIV (Alter et al. 2018); function {target}.",
    )


def _gases(arrays: Bunch, _choice: Any) -> Bunch:
    return as_task(
        arrays.X,
        arrays.y - 1,
        cv=_repeated(labels=True),
        target_names=[str(gas) for gas in np.unique(arrays.y)],
        description="A colour sensor array, dye × colour × dose; 21 gases.",
    )


def _dorrit(arrays: Bunch, target: str | None) -> Bunch:
    y, known = _column(arrays.Y, target, [str(k) for k in range(arrays.Y.shape[1])])
    return as_task(
        arrays.X[known],
        y,
        task="regression",
        cv=_repeated(),
        description="Fluorescence of 27 mixtures, emission × excitation.",
    )


def _pines(arrays: Bunch, _choice: Any) -> Bunch:
    folds = [
        split
        for seed in (0, 1)
        for split in StratifiedGroupKFold(5, shuffle=True, random_state=seed).split(
            arrays.X, arrays.y, arrays.block
        )
    ]
    return as_task(
        arrays.X,
        arrays.y,
        cv=folds,
        groups=arrays.block,
        target_names=("first crop", "second crop"),
        description="Indian Pines (AVIRIS), row × column × band; blocks are held out.",
    )


def _covid(arrays: Bunch, classes: Sequence[str] | None) -> Bunch:
    chosen = ("Severe", "Deceased") if classes is None else tuple(classes)
    rows, y = choose_classes(arrays.label, chosen)
    return as_task(
        arrays.X[rows],
        y,
        cv=_repeated(labels=True),
        target_names=chosen,
        description="COVID-19 serology (Zohar et al. 2020), antigen × receptor.",
    )


def _without_cell(split: np.ndarray) -> np.ndarray:
    return np.delete(np.arange(len(split)), _BAD_CELL)


def _column(
    Y: np.ndarray, target: str | None, names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return one response where it is known, and the rows where it is; or all."""
    chosen = names[0] if target is None else str(target)
    if chosen == "all":
        return Y, np.arange(len(Y))
    if chosen not in names:
        msg = f"target={target!r} was given; expected 'all' or one of {list(names)}."
        raise ValueError(msg)
    y = Y[:, list(names).index(chosen)]
    known = np.flatnonzero(~np.isnan(y))
    return y[known], known


def _carried_on(curves: np.ndarray) -> np.ndarray:
    """Interpolate missing times in each curve of each sample, (n, curves, times)."""
    times, filled = np.arange(curves.shape[2]), curves.copy()
    for curve in filled.reshape(-1, curves.shape[2]):
        gap = np.isnan(curve)
        curve[gap] = np.interp(times[gap], times[~gap], curve[~gap])
    return filled


def _emotion(arrays: Bunch, _choice: Any) -> Bunch:
    return as_task(
        arrays.X,
        arrays.Y,
        task="regression",
        cv=GroupKFold(5),
        groups=arrays.subject,
        description=(
            "Brain waves (EEG) and muscle activity (EMG), a curve on a curve, of 23 "
            "people (FDboost); people are held out."
        ),
    )


_Loader = Callable[[Bunch, Any], Bunch]

_REAL: dict[str, tuple[str, _Loader]] = {
    "sugar": ("sugar_nway_53x7.npz", _sugar),
    "eeg": ("eeg_alcoholism_tres.npz", _eeg),
    "haxby_slice": ("haxby_sub001_1slice.npz", _haxby),
    "haxby_blocks": ("haxby_sub001_blocks_9x40x20.npz", _haxby),
    "adrenal": ("adrenalmnist3d_16.npz", _adrenal),
    "battery": ("battery_100x99.npz", _battery),
    "ifnb": ("ifnb_7x76.npz", _ifnb),
    "dryer": ("fmc_11x325.npz", _dryer),
    "antibodies": ("alter_serology.npz", _antibodies),
    "gases": ("csa_36x3x2.npz", _gases),
    "dorrit": ("dorrit_eem_55x24.npz", _dorrit),
    "pines_2_3": ("pines_2_3_7x7x40.npz", _pines),
    "pines_10_11": ("pines_10_11_7x7x40.npz", _pines),
    "covid": ("covid_serology_6x11.npz", _covid),
    "emotion": ("emotion_eeg_emg.npz", _emotion),
}
HAS_CLASSES = (_haxby, _covid)
HAS_TARGETS = (_dryer, _antibodies, _dorrit)


def as_task(
    X: np.ndarray,
    y: np.ndarray,
    *,
    cv: Any,
    description: str,
    task: str = "classification",
    groups: np.ndarray | None = None,
    target_names: Sequence[str] | None = None,
) -> Bunch:
    """Return data with its outer folds.

    `cv` is a splitter, or pairs (train rows, test rows); samples of one group must not
    be split. The result has `cv` as pairs, so that all methods have the same folds.
    """
    try:
        folds = list(cv.split(X, y, groups)) if hasattr(cv, "split") else cv
    except ValueError as error:
        msg = (
            f"The {len(y)} samples of {target_names} are too few for the folds of "
            f"{cv}: {error} Choose classes with more samples."
        )
        raise ValueError(msg) from error
    return Bunch(
        X=X,
        y=y,
        groups=groups,
        cv=folds,
        task=task,
        target_names=None if target_names is None else list(target_names),
        description=description,
    )


def choose_classes(
    labels: np.ndarray, classes: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows with one of the classes, and their labels 0, 1, …."""
    there = sorted(set(labels.tolist()))
    absent = [name for name in classes if name not in there]
    if absent or len(set(classes)) < 2 or len(set(classes)) < len(classes):
        msg = f"classes={list(classes)} was given; expected two or more of {there}."
        raise ValueError(msg)
    rows = np.flatnonzero(np.isin(labels, list(classes)))
    number = {name: k for k, name in enumerate(classes)}
    return rows, np.array([number[name] for name in labels[rows].tolist()])
