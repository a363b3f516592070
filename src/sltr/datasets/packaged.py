"""Real data that ship inside Python packages: nothing to download."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.utils import Bunch

from sltr.datasets.tasks import as_task, choose_classes

__all__ = ["load_packaged"]


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


def _digits(classes: Sequence[str] | None) -> Bunch:
    from sklearn.datasets import load_digits

    digits = load_digits()
    chosen = ("3", "8") if classes is None else tuple(classes)
    rows, y = choose_classes(digits.target.astype(str), chosen)
    return as_task(
        digits.images[rows],
        y,
        task="classification",
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
        task="classification",
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
        task="classification",
        cv=StratifiedKFold(5, shuffle=True, random_state=0),
        target_names=chosen,
        description=(
            "COVID-19 serology (Zohar et al., Cell 2020) from TensorLy. Some patients "
            "gave several samples and the set does not say which: scores are "
            "optimistic for new patients."
        ),
    )


def _tensorly() -> Any:
    try:
        import tensorly.datasets
    except ImportError as error:
        msg = "This set ships with TensorLy. Install it with: pip install tensorly"
        raise ImportError(msg) from error
    return tensorly.datasets


_PACKAGED: dict[str, Callable[[Sequence[str] | None], Bunch]] = {
    "digits": _digits,
    "indian_pines": _indian_pines,
    "serology": _serology,
}
