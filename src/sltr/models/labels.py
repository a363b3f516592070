"""Class labels to 0/1 responses and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from sltr._array import Array, as_array, to_numpy

__all__ = ["encode_labels", "pick_labels"]


def encode_labels(y: Any, like: Array) -> tuple[np.ndarray, np.ndarray, Array]:
    """Return the classes, the class number of each sample, and 0/1 responses.

    Parameters
    ----------
    y : array of shape (n,)
    like : array
        Whose library, device and dtype the responses take.

    Returns
    -------
    classes : array of shape (K,)
    numbers : array of int of shape (n,)
    targets : array of shape (1, n) for two classes, (K, n) for more

    Examples
    --------
    >>> import numpy as np
    >>> encode_labels(np.array(["b", "a", "b"]), np.zeros(1))[2]
    array([[1., 0., 1.]])
    """
    labels = to_numpy(y)
    check_classification_targets(labels)
    classes, numbers = np.unique(labels, return_inverse=True)
    numbers = numbers.reshape(-1)
    if len(classes) < 2:
        msg = (
            f"y holds {len(classes)} class, {classes.tolist()}, among samples of "
            "positive weight; expected at least 2 classes. Add samples of another."
        )
        raise ValueError(msg)
    wanted = np.arange(len(classes)) if len(classes) > 2 else np.array([1])
    return classes, numbers, as_array(wanted[:, None] == numbers[None, :], like)


def pick_labels(classes: np.ndarray, scores: Array) -> np.ndarray:
    """Return the label of each sample: the class of the largest decision score.

    Examples
    --------
    >>> import numpy as np
    >>> pick_labels(np.array(["a", "b"]), np.array([-0.2, 0.4]))
    array(['a', 'b'], dtype='<U1')
    """
    scores = to_numpy(scores)
    return classes[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(1)]
