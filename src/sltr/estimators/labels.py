"""Class labels as least-squares responses, and scores as probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from sys import float_info
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, softmax
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

from sltr.arrays import Array, array_namespace, as_array, is_array_api, to_numpy
from sltr.parameters import refuse
from sltr.samples.samples import Samples
from sltr.tuning.folds import Split
from sltr.tuning.scores import class_numbers

# Of log-odds per standard deviation of the scores: none may speak against its class.
SMALLEST_SLOPE = 1e-3
# What is known before scores are seen. This many samples, in all, may have any label;
# else scores that separate the classes would have no finite slope.
UNKNOWN_SAMPLES = 0.5
# Offsets, and what weights on standardised scores differ from a common slope by, are
# of about these sizes, in log-odds.
OFFSET_SIZE, MIXING_SIZE = 2 / 3, 1 / 6


def label_indicators(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes and 0/1 responses: (n, 1) for two classes, else (n, K).

    Examples
    --------
    >>> classes, indicators = label_indicators(["b", "a", "b"])
    >>> classes.tolist(), indicators[:, 0].tolist()
    (['a', 'b'], [1.0, 0.0, 1.0])
    """
    labels = to_numpy(y)
    check_classification_targets(labels)
    classes = np.unique(labels)
    if len(classes) < 2:
        msg = (
            f"y holds labels of one class only, {classes.tolist()}, among samples of "
            "positive weight; expected at least two. Add samples of another class."
        )
        raise ValueError(msg)
    return classes, indicators_among(classes, labels)


def class_weighted(class_weight: Any, y: Any, sample_weight: Any) -> Any:
    """Return weights of the samples, times those of their classes.

    Examples
    --------
    >>> class_weighted("balanced", ["a", "b", "b", "b"], [1, 1, 1, 1]).tolist()
    [2.0, 0.6666666666666666, 0.6666666666666666, 0.6666666666666666]
    """
    if class_weight is None:
        return sample_weight
    labels = np.ravel(to_numpy(y) if is_array_api(y) else np.asarray(y))
    if isinstance(class_weight, dict):
        unknown = [label for label in class_weight if label not in labels]
        wrong = [w for w in class_weight.values() if not _is_weight(w)]
        if unknown or wrong:
            refuse(
                "class_weight", class_weight, "labels of y, and weights of at least 0"
            )
    elif class_weight != "balanced":
        refuse("class_weight", class_weight, "None, 'balanced' or a dictionary")
    weight = compute_sample_weight(class_weight, labels)
    if sample_weight is None:
        return weight
    given = to_numpy(sample_weight) if is_array_api(sample_weight) else sample_weight
    given = np.asarray(given, float)
    return given * weight if given.shape in ((), weight.shape) else given


def _is_weight(value: Any) -> bool:
    # A whole number may be larger than any float.
    number: Any = value
    return isinstance(value, Real) and bool(0 <= number <= float_info.max)


def indicators_among(classes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return 0/1 responses (n, 1) or (n, K) of labels that are among the classes."""
    one_hot = (labels[:, None] == classes).astype(float)
    return one_hot[:, 1:] if len(classes) == 2 else one_hot


def label_shift(n_responses: int, fit_intercept: bool) -> float:
    """Return what to subtract from the classes' indicators before a regression.

    Without an intercept, 0 and 1 would treat two classes differently; ±½ do not.
    """
    return 0.0 if fit_intercept or n_responses > 1 else 0.5


@dataclass(frozen=True, eq=False)
class Targets:
    """Responses as regressions see them."""

    Y: Array  # (n, K); of labels, indicators
    classes: np.ndarray | None = None  # of labels
    shift: float = 0.0  # what regressions of labels subtract from them

    @classmethod
    def of(cls, samples: Samples, labels: bool, fit_intercept: bool) -> Targets:
        """Return the responses of samples, or indicators of their labels."""
        if not labels:
            return cls(samples.Y)
        classes, indicators = label_indicators(samples.y)
        shift = label_shift(indicators.shape[1], fit_intercept)
        return cls(as_array(indicators, samples.weight), classes, shift)


def winning_labels(classes: np.ndarray, decision: Array) -> np.ndarray:
    """Return labels from decision values: (n,) about zero, or (n, K).

    Examples
    --------
    >>> import numpy as np
    >>> winning_labels(np.array(["a", "b"]), np.array([-0.2, 0.4])).tolist()
    ['a', 'b']
    """
    decision = to_numpy(decision)
    codes = decision > 0 if decision.ndim == 1 else decision.argmax(axis=1)
    return classes[codes.astype(int)]


def calibration_folds(indicators: np.ndarray, n_splits: int = 5) -> list[Split]:
    """Return stratified folds; none if a class is too small."""
    codes = class_numbers(indicators)
    smallest = int(np.unique(codes, return_counts=True)[1].min())
    n_splits = min(n_splits, smallest)
    if n_splits < 2:
        return []
    return list(StratifiedKFold(n_splits).split(codes, codes))


def calibrated_scores(scores: Array, sigmoids: np.ndarray) -> Array:
    """Return log-odds (n,) of scores (n,), or logits (n, K) of scores (n, K)."""
    lines = as_array(sigmoids, scores)
    if scores.ndim == 1:
        return scores * lines[0, 0] + lines[0, 1]
    if has_own_sigmoids(sigmoids):
        return scores * lines[:, 0] + lines[:, 1]
    xp = array_namespace(scores)
    return scores @ xp.matrix_transpose(lines[:, :-1]) + lines[:, -1]


def own_logits(n_responses: int) -> np.ndarray:
    """Return the sigmoids of scores that are log-odds or logits by themselves."""
    if n_responses == 1:
        return np.array([[1.0, 0.0]])
    return np.column_stack([np.eye(n_responses), np.zeros(n_responses)])


def has_own_sigmoids(sigmoids: np.ndarray) -> bool:
    """Say whether each score has a slope and an offset, and no other score counts.

    So it is for two classes, and was for more in the first models that were saved:
    their probabilities are K sigmoids, normalised, instead of one softmax.
    """
    return sigmoids.shape[1] == 2


def fit_sigmoids(
    scores: np.ndarray, indicators: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Fit probabilities to out-of-fold scores; weights, then the offset, in each row.

    For K > 2 classes, with z the scores about the mean of the classes' means, in units
    of their common standard deviation, and π the shares of the classes, probabilities
    are the softmax of

        (T·I + E)z + b + log π

    that minimise the negative log-likelihood + T/T₀ − log T + ½‖E‖²/m² + ½‖b‖²/s²,
    with m and s the constants above. All classes share the slope T, so that few samples
    of each are enough. Two classes have ±½ times their single score, and E = 0.

    T = T₀, E = 0 and b = 0 would be right for normal scores of equal variances (linear
    discriminant analysis). Where scores separate the classes, or nearly, the likelihood
    hardly knows the slope; how far apart the classes are, in units of their spread,
    does. The result is (K, K + 1), or of two classes (1, 2), slope and offset of the
    log-odds.
    """
    if indicators.shape[1] == 1:
        columns, targets = scores * [-0.5, 0.5], [1.0, 0.0] + indicators * [-1.0, 1.0]
    else:
        columns, targets = scores, indicators
    total, n_classes = weight.sum(), targets.shape[1]
    mean = weight @ columns / total
    spread = float(np.mean(weight @ (columns - mean) ** 2 / total)) ** 0.5
    spread = spread if spread > 1e-10 * np.abs(mean).max() else 1.0
    middle, flatness = _normal_scores(columns - mean, targets, weight, spread)
    middle = middle + mean
    share = UNKNOWN_SAMPLES / (total + 2.0 * UNKNOWN_SAMPLES)
    targets = (1.0 - share) * targets + share / n_classes
    z = (columns - middle) / spread
    lines, offset = _most_likely(z, targets, weight, flatness)
    lines = lines / spread
    offset = offset - lines @ middle
    if n_classes == 2:
        return np.array([[lines[1, 1], offset[1] - offset[0]]])
    return np.column_stack([lines, offset])


def _normal_scores(
    columns: np.ndarray, targets: np.ndarray, weight: np.ndarray, spread: float
) -> tuple[np.ndarray, float]:
    """Return the mean of the classes' mean scores (K,), and 1/T₀ of `fit_sigmoids`.

    With δ by how much a class's own score is larger in it than in the others, and v the
    variance about the means of the classes, T₀ is δ/v, times (K − 1)/K since the scores
    of all classes add up to a constant.
    """
    members = weight[:, None] * targets
    counts, n_classes = members.sum(axis=0), targets.shape[1]
    some = counts > 0  # a class may be in no fold
    means = members.T @ columns / np.where(some, counts, 1.0)[:, None]
    middle = means[some].mean(axis=0)
    apart = np.diag(means - middle)[some].mean() * n_classes / (n_classes - 1)
    within = float(np.mean(weight @ (columns - targets @ means) ** 2)) / weight.sum()
    within = within * n_classes / (n_classes - 1)
    steepest = apart * spread
    least = SMALLEST_SLOPE * within
    return middle, within / steepest if steepest > least else 1.0 / SMALLEST_SLOPE


def _most_likely(
    z: np.ndarray, targets: np.ndarray, weight: np.ndarray, flatness: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return T·I + E (K, K) and b + log π (K,) of `fit_sigmoids`."""
    n_classes = z.shape[1]
    prior = np.log(weight @ targets / weight.sum())

    def parts(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lines = x[0] * np.eye(n_classes)
        if n_classes > 2:
            lines = lines + MIXING_SIZE * x[n_classes + 1 :].reshape(lines.shape)
        return lines, OFFSET_SIZE * x[1 : n_classes + 1] + prior

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the penalised loss and its gradient."""
        lines, offset = parts(x)
        logits = z @ lines.T + offset
        value = -weight @ (targets * log_softmax(logits, axis=1)).sum(axis=1)
        value += flatness * x[0] - np.log(x[0])
        excess = weight[:, None] * (softmax(logits, axis=1) - targets)
        along = excess.T @ z
        slope = np.trace(along) + flatness - 1.0 / x[0]
        gradient = [[slope], OFFSET_SIZE * excess.sum(axis=0)]
        if n_classes > 2:
            gradient.append(MIXING_SIZE * along.ravel())
        small = np.r_[0.0, x[1:]]  # E and b in units of their sizes
        return value + 0.5 * small @ small, np.concatenate(gradient) + small

    start = np.zeros(1 + n_classes + (n_classes**2 if n_classes > 2 else 0))
    start[0] = 1.0 / max(flatness, 1.0)
    bounds = [(SMALLEST_SLOPE, None), *[(None, None)] * (len(start) - 1)]
    options = {"maxiter": 10_000, "maxfun": 20_000, "ftol": 1e-15, "gtol": 1e-9}
    found = minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    return parts(found.x)


def probabilities(logits: np.ndarray, *, own_sigmoids: bool = False) -> np.ndarray:
    """Return class probabilities, shape (n, K), from log-odds (n,) or logits (n, K).

    With `own_sigmoids` the logits are log-odds of each class against all others.

    Examples
    --------
    >>> import numpy as np
    >>> probabilities(np.array([0.0, 800.0]))
    array([[0.5, 0.5],
           [0. , 1. ]])
    """
    if logits.ndim == 1:
        share = expit(logits)
        return np.column_stack([1.0 - share, share])
    if not own_sigmoids:
        return softmax(logits, axis=1)
    each = expit(logits)
    total = each.sum(axis=1, keepdims=True)
    return np.where(
        total > 0, each / np.where(total > 0, total, 1.0), 1 / each.shape[1]
    )
