"""Sources of data: from a condition and a repetition to training and test data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.utils import Bunch

from sltr.datasets.real import load_packaged, load_real
from sltr.datasets.simulated import make_tensor_regression
from sltr.datasets.video import load_video_folder

Options = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Trial:
    """Data for one repetition: the same for all methods."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    coef: np.ndarray | None = None
    groups: np.ndarray | None = None


def draw_trial(source: str, options: Options, repetition: int, seed: int) -> Trial:
    """Return the data of a repetition; the same arguments give the same data."""
    if source not in SOURCES:
        msg = f"source={source!r} was given; expected one of {sorted(SOURCES)}."
        raise ValueError(msg)
    return SOURCES[source](options, repetition, seed)


def _simulated(options: Options, repetition: int, seed: int) -> Trial:
    """Draw `n` training and `n_test` (1000) test samples from one coefficient.

    With `fault`, only as many training samples as the tensor has modes keep their
    entries and the rest become zero, as in the code released with the paper.
    """
    given = dict(options)
    n, n_test = given.pop("n"), given.pop("n_test", 1000)
    fault = given.pop("fault", False)
    rng = np.random.default_rng([seed, repetition])
    shape = tuple(given.pop("shape"))
    data = make_tensor_regression(shape, n + n_test, random_state=rng, **given)
    X = data.X[:n].copy()
    if fault:
        X[len(shape) :] = 0.0
    return Trial(X, data.y[:n], data.X[n:], data.y[n:], coef=data.coef)


def _real(options: Options, repetition: int, seed: int) -> Trial:
    """Take the fold `repetition` of a set of `load_real`."""
    given = {name: options.get(name) for name in ("classes", "target", "folder")}
    return _fold(load_real(options["name"], **given), repetition)


def _packaged(options: Options, repetition: int, seed: int) -> Trial:
    """Take the fold `repetition` of a set of `load_packaged`."""
    data = load_packaged(options["name"], classes=options.get("classes"))
    return _fold(data, repetition)


def _fold(data: Bunch, repetition: int) -> Trial:
    if repetition >= len(data.cv):
        msg = (
            f"Repetition {repetition} was asked for; the set has {len(data.cv)} folds, "
            "counted from 0. Ask for fewer repetitions."
        )
        raise ValueError(msg)
    return _split(data.X, data.y, data.groups, *data.cv[repetition])


def _video(options: Options, repetition: int, seed: int) -> Trial:
    """Hold out a fifth of the clips, at random; classes keep their shares.

    `by_film` (default) keeps clips of one film on one side; without it clips are
    drawn as in the paper, and parts of a film are in both.
    """
    given = dict(options)
    by_film = given.pop("by_film", True)
    data = _films(*((name, _hashable(value)) for name, value in given.items()))
    state = int(np.random.default_rng([seed, repetition]).integers(2**31))
    kind = StratifiedGroupKFold if by_film else StratifiedKFold
    splitter = kind(n_splits=5, shuffle=True, random_state=state)
    films = data.groups if by_film else None
    train, test = next(splitter.split(data.X, data.target, films))
    return _split(data.X, data.target, data.groups, train, test)


@lru_cache(maxsize=1)
def _films(*options: tuple[str, Any]) -> Bunch:
    """Read the clips of one pair of classes once for all methods and repetitions."""
    given = dict(options)
    # Rows of earlier versions name a folder of cached clips, too.
    given.pop("cache", None)
    return load_video_folder(given.pop("folder"), **given)


def _hashable(value: Any) -> Any:
    """Return lists, as JSON has them, as tuples."""
    return tuple(value) if isinstance(value, list) else value


def _split(
    X: np.ndarray,
    y: np.ndarray,
    groups: np.ndarray | None,
    train: np.ndarray,
    test: np.ndarray,
) -> Trial:
    kept = None if groups is None else groups[train]
    return Trial(X[train], y[train], X[test], y[test], groups=kept)


SOURCES: dict[str, Callable[[Options, int, int], Trial]] = {
    "simulated": _simulated,
    "real": _real,
    "packaged": _packaged,
    "video": _video,
}
