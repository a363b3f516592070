"""Forward patterns: which entries of the samples vary with what a model predicts."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from sklearn.utils.validation import check_is_fitted

from sltr.arrays import Array, array_namespace
from sltr.core.tensor import flatten
from sltr.samples.check import check_new_samples
from sltr.samples.labelled import Labels, labels_of
from sltr.samples.samples import as_design


@dataclass(frozen=True, eq=False)
class Patterns:
    """Forward patterns of a linear model.

    Attributes
    ----------
    pattern : array of the shape of `coef_`
        Change of each entry with one unit of the model's score.
    score_std : float, or array of shape (n_classes,) or (q1, …, qQ)
        Standard deviation of the score; `pattern` times this is the change that goes
        with a usual change of the score, in the units of the samples.
    labels : Labels or None
        What the samples know of their modes, for pictures.
    shape_out : tuple of int
        The shape of a response, whose modes are the last of `pattern`.
    """

    pattern: Array
    score_std: Any
    labels: Labels | None = None
    shape_out: tuple[int, ...] = ()


def patterns(model: Any, X: Any) -> Patterns:
    r"""Return Haufe's forward patterns, in the samples' shape.

    A coefficient says how entries are combined to predict; it may be large where
    there is no signal, to cancel noise, and small where there is. The pattern says
    where the signal is: with s = ⟨W, x⟩ the score of a sample x,

    .. math:: A = \mathrm{Cov}(x, s) / \mathrm{Var}(s),

    the least-squares coefficient of each entry on the score. With several classes,
    each class's score has its own pattern, and so has each response of a tensor. A
    coefficient of zeros has a pattern of zeros.

    Parameters
    ----------
    model : fitted linear model
        SLTR or a peer.
    X : array of shape (n, p1, …, pM)
        The training samples, or others like them; a file or a device may hold them.

    Returns
    -------
    Patterns

    References
    ----------
    Haufe et al. (2014). On the interpretation of weight vectors of linear models in
    multivariate neuroimaging. NeuroImage 87, equation 6.

    Examples
    --------
    >>> import numpy as np
    >>> from sltr import SLTRRegressor
    >>> rng = np.random.default_rng(0)
    >>> signal, noise = rng.normal(size=(2, 5000))
    >>> X = np.stack([signal + noise, noise], axis=1)  # the second has no signal
    >>> model = SLTRRegressor(lambda_sparse=0, lambda_low=0).fit(X, signal)
    >>> model.coef_.round(1).tolist()
    [1.0, -1.0]
    >>> patterns(model, X).pattern.round(1).tolist()
    [1.0, 0.0]
    """
    check_is_fitted(model, "coef_")
    design = as_design(check_new_samples(model, X))
    coef, shape_out = model.coef_, getattr(model, "shape_out_", ())
    single = coef.ndim == len(model.shape_in_)
    if shape_out:  # responses come last, classes first
        columns = array_namespace(coef).reshape(coef, (-1, prod(shape_out)))
        rows = array_namespace(coef).matrix_transpose(columns)
    else:
        rows = flatten(coef[None, ...] if single else coef)
    scores = design.inner(rows)  # (n, K)
    xp = array_namespace(scores)
    centred = scores - xp.mean(scores, axis=0)
    n_samples = centred.shape[0]
    # Twice centred: what rounding leaves of the mean would meet the samples' own.
    centred = centred - xp.mean(centred, axis=0)
    variance = xp.mean(centred**2, axis=0)
    some = variance > 0
    slopes = centred / xp.where(some, n_samples * variance, 1.0)
    products = design.combine(xp.matrix_transpose(slopes))  # (K, P)
    pattern = xp.reshape(products, (-1, *model.shape_in_))
    std, labels = xp.sqrt(variance), labels_of(model)
    if shape_out:
        pattern = xp.reshape(xp.moveaxis(pattern, 0, -1), coef.shape)
        return Patterns(pattern, xp.reshape(std, shape_out), labels, shape_out)
    if single:
        return Patterns(pattern[0, ...], float(std[0]), labels)
    return Patterns(pattern, std, labels)
