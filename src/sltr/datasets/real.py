"""Real data sets kept in a folder of their own, named by SLTR_DATA."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path

import numpy as np
from sklearn.model_selection import GroupKFold, KFold, RepeatedStratifiedKFold
from sklearn.utils import Bunch

from sltr.datasets.files import load_npz
from sltr.datasets.tasks import as_task, choose_classes

__all__ = ["load_real"]


def load_real(
    name: str,
    *,
    classes: Sequence[str] | None = None,
    folder: str | PathLike[str] | None = None,
) -> Bunch:
    """Load one of the real data sets the methods are measured on.

    Parameters
    ----------
    name : {"sugar", "eeg", "haxby_slice", "haxby_blocks", "adrenal"}
        "sugar": fluorescence of sugar solutions, 53×7, regression of the colour;
        "eeg": 64 channels × 64 times, alcoholic or control;
        "haxby_slice": fMRI slices, 40×20, by what was seen;
        "haxby_blocks": the same as blocks of 9 times × 40×20;
        "adrenal": 16×16×16 shapes of adrenal glands, normal or with a mass.
    classes : sequence of str, optional
        For the Haxby sets, two or more of what was seen; default face and house.
    folder : path, optional
        Where the sets are; default: the environment variable SLTR_DATA.

    Returns
    -------
    Bunch
        `X` (n, p1, …, pM), `y` (n,), `groups` ((n,) or None), `cv` (pairs of train
        and test rows: whole runs are held out for Haxby, the official test set for
        adrenal), `task`, `target_names`, `description`.

    Examples
    --------
    >>> load_real("salt")
    Traceback (most recent call last):
        ...
    ValueError: name='salt' was given; expected one of ['adrenal', 'eeg', ...
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
    return load(load_npz(path, target=None), classes)


def _sugar(arrays: Bunch, classes: Sequence[str] | None) -> Bunch:
    _no_choice("sugar", classes)
    return as_task(
        arrays.X,
        arrays.y_color,
        task="regression",
        cv=KFold(5, shuffle=True, random_state=0),
        description="Sugar fluorescence, emission × excitation; colour of the sugar.",
    )


def _eeg(arrays: Bunch, classes: Sequence[str] | None) -> Bunch:
    _no_choice("eeg", classes)
    return as_task(
        arrays.X,
        arrays.y,
        task="classification",
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
        task="classification",
        # Three runs of twelve at a time: a single one holds too few blocks to score.
        cv=GroupKFold(4),
        groups=arrays.run[rows],
        target_names=chosen,
        description="Haxby 2001, subject 1, by what was seen; runs are held out.",
    )


def _adrenal(arrays: Bunch, classes: Sequence[str] | None) -> Bunch:
    _no_choice("adrenal", classes)
    test = arrays.split == "test"
    return as_task(
        arrays.X.astype(np.float32),
        arrays.y.astype(np.int64),
        task="classification",
        cv=[(np.flatnonzero(~test), np.flatnonzero(test))],
        target_names=("normal", "mass"),
        description="AdrenalMNIST3D (MedMNIST v2, CC BY 4.0); official test set.",
    )


def _no_choice(name: str, classes: Sequence[str] | None) -> None:
    if classes is not None:
        msg = f"classes={classes!r} was given; the set {name!r} has no choice. Omit it."
        raise ValueError(msg)


_Loader = Callable[[Bunch, Sequence[str] | None], Bunch]

_REAL: dict[str, tuple[str, _Loader]] = {
    "sugar": ("sugar_nway_53x7.npz", _sugar),
    "eeg": ("eeg_alcoholism_tres.npz", _eeg),
    "haxby_slice": ("haxby_sub001_1slice.npz", _haxby),
    "haxby_blocks": ("haxby_sub001_blocks_9x40x20.npz", _haxby),
    "adrenal": ("adrenalmnist3d_16.npz", _adrenal),
}
