"""Three small real data sets that come with the package.

Each is one `.npz` file in the folder `packaged`, with a text beside it: what it is, how
it was changed, whom to cite, and its licence.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from sltr.datasets.files import load_npz
from sltr.samples.labelled import label

_FOLDER = Path(__file__).with_name("packaged")


def load_sugar() -> Bunch:
    """Load fluorescence spectra of sugar, and the sugar's colour.

    268 samples of one season in a sugar plant, in the order of time: 53 emission × 7
    excitation wavelengths. Few compounds make most of the light, so this is a classic
    of multiway calibration. Neighbours in time resemble each other: hold out a stretch
    of time to learn how well next month is predicted.

    Returns
    -------
    Bunch
        `X` (268, 53, 7), with names, wavelengths and a mask of what was measured; `y`
        (268,), the colour; `task`, "regression"; `description`, with licence and
        citation.

    References
    ----------
    R. Bro, *Exploratory study of sugar production using fluorescence spectroscopy and
    multi-way analysis*, Chemometrics and Intelligent Laboratory Systems 46 (1999).

    Examples
    --------
    >>> sugar = load_sugar()
    >>> sugar.X.shape, sugar.X.labels.names
    ((268, 53, 7), ('emission', 'excitation'))
    """
    data = load_npz(_FOLDER / "sugar.npz")
    X = label(
        data.X,
        ("emission", "excitation"),
        coords=(data.emission, data.excitation),
        units=("nm", "nm"),
        # Cells that were not measured hold a constant.
        mask=np.ptp(data.X, axis=0) > 0,
    )
    return Bunch(X=X, y=data.y, task="regression", description=_text("sugar"))


def load_battery() -> Bunch:
    """Load the first hundred cycles of lithium cells, and how long each cell lived.

    123 cells; each sample is the discharge capacity at 100 voltages in cycles 2 to 100.
    Cells lived 148 to 2237 cycles, and hardly any shows it by then: predict the
    logarithm of the life. The split is the authors': 41 cells to train on, "test1" of
    the same kind, "test2" of a later batch.

    Returns
    -------
    Bunch
        `X` (123, 100, 99) in ampere hours, with names, voltages and cycles; `y` (123,),
        the life in cycles; `split` (123,), "train", "test1" or "test2"; `task`,
        "regression"; `description`, with licence and citation.

    References
    ----------
    K. A. Severson et al., *Data-driven prediction of battery cycle life before capacity
    degradation*, Nature Energy 4 (2019). P. M. Attia, K. A. Severson, J. D. Witmer,
    *Statistical learning for accurate and interpretable battery lifetime prediction*,
    Journal of The Electrochemical Society 168 (2021).

    Examples
    --------
    >>> cells = load_battery()
    >>> cells.X.shape, int((cells.split == "train").sum())
    ((123, 100, 99), 41)
    """
    data = load_npz(_FOLDER / "battery.npz")
    X = label(
        # The file counts in units of 1e-5 Ah.
        data.X.astype(np.float32) * np.float32(1e-5),
        ("voltage", "cycle"),
        coords=(data.voltage, data.cycle),
        units=("V", None),
    )
    return Bunch(
        X=X,
        y=data.y,
        split=data.split,
        task="regression",
        description=_text("battery"),
    )


def load_adrenal() -> Bunch:
    """Load shapes of adrenal glands, and whether a gland has a mass.

    1584 glands of 792 patients, 16 × 16 × 16: of each cube the share that belongs to
    the gland. 350 have a mass. The split is the official one.

    Returns
    -------
    Bunch
        `X` (1584, 16, 16, 16); `y` (1584,), 0 or 1; `split` (1584,), "train", "val" or
        "test"; `target_names`, "normal" and "mass"; `task`, "classification";
        `description`, with licence and citation.

    References
    ----------
    J. Yang et al., *MedMNIST v2: a large-scale lightweight benchmark for 2D and 3D
    biomedical image classification*, Scientific Data 10 (2023).

    Examples
    --------
    >>> glands = load_adrenal()
    >>> glands.X.shape, int(glands.y.sum())
    ((1584, 16, 16, 16), 350)
    """
    data = load_npz(_FOLDER / "adrenal.npz")
    return Bunch(
        X=label(data.X.astype(np.float32) / np.float32(64), ("x", "y", "z")),
        y=data.y,
        split=data.split,
        target_names=["normal", "mass"],
        task="classification",
        description=_text("adrenal"),
    )


def _text(name: str) -> str:
    return (_FOLDER / f"{name}.txt").read_text(encoding="utf-8")
