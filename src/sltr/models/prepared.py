"""Samples, covariates and responses of a low-rank GLM, in units of one.

The penalties are relative: they act on samples (centred, covariates projected out)
with unit mean square and, for the normal family, on a response with unit mean
square; so a fit does not change with the units of X and y.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sltr._array import Array, array_namespace, clip
from sltr.solvers.glm import FAMILIES, Problem
from sltr.solvers.units import in_original_units, of_unit_size
from sltr.validation import Samples, check_covariates, check_samples

__all__ = [
    "Prepared",
    "check_family",
    "check_response",
    "prepare",
    "prepare_samples",
]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A GLM in units of one, and the way back: X' = (X − Z·C)/s, y' = (y − Z·c)/d.

    Attributes
    ----------
    problem : Problem
    total : float
        How many samples there are; a whole weight counts as equal samples.
    weight_unit : float
        What the weights were divided by, for `total` to be their sum.
    n_covariates : int
        Columns of Z, that of ones included.
    X_size, y_size : float
        What X and y were divided by before anything was squared.
    X_shift, y_shift : arrays of shape (q, P) and (q,)
        C and c, of X and y so divided.
    X_unit, y_unit : float
        s and d, of X and y so divided.
    fit_intercept : bool
    """

    problem: Problem
    total: float
    weight_unit: float
    n_covariates: int
    X_size: float
    y_size: float
    X_shift: Array
    y_shift: Array
    X_unit: float
    y_unit: float
    fit_intercept: bool

    @property
    def coef_unit(self) -> float:
        """What one entry of a coefficient stands for in the units of X and y."""
        return (self.y_unit / self.X_unit) * (self.y_size / self.X_size)

    @property
    def response_unit(self) -> float:
        """What one stands for in the units of y."""
        return self.y_unit * self.y_size

    def original(self, coef: Array, gamma: Array) -> tuple[Array, float, Array]:
        """Return coefficient, intercept and covariates' coefficients, user's units."""
        xp = array_namespace(coef)
        coef = coef * (self.y_unit / self.X_unit)
        shift = self.y_shift - self.X_shift @ xp.reshape(coef, (-1,))
        gamma = (shift + gamma if gamma.shape[0] else shift) * self.y_size
        coef = in_original_units(coef, self.y_size / self.X_size)
        if self.fit_intercept:
            return coef, float(gamma[0]), gamma[1:]
        return coef, 0.0, gamma


def prepare_samples(
    model: Any, X: Any, y: Any, sample_weight: Any, covariates: Any, family: str
) -> Prepared:
    """Check the user's data and bring it to units of one."""
    samples = check_samples(model, X, y, sample_weight)
    check_response(samples.y, check_family(family))
    n_kept = samples.X.shape[0]
    Z = check_covariates(covariates, n_kept, samples.X, sample_weight=sample_weight)
    model.n_covariates_in_ = Z.shape[1]
    return prepare(samples, Z, family, model.fit_intercept)


def check_family(family: Any) -> str:
    """Return the name of a family we know."""
    if not isinstance(family, str) or family not in FAMILIES:
        msg = f"family={family!r} was given; expected one of {sorted(FAMILIES)}."
        raise ValueError(msg)
    return family


def check_response(y: Array, family: str) -> None:
    """Refuse responses that the family cannot have."""
    xp = array_namespace(y)
    if family == "binomial" and not bool(xp.all((y == 0.0) | (y == 1.0))):
        msg = (
            "family='binomial' was given a response with values other than 0 and 1. "
            "Code the labels as 0 and 1, or use CPClassifier."
        )
        raise ValueError(msg)
    if family == "poisson" and not bool(xp.all(y >= 0.0)):
        msg = (
            f"family='poisson' was given a response of {float(xp.min(y))}; expected "
            "counts of at least 0. Use family='normal' for other responses."
        )
        raise ValueError(msg)


def prepare(
    samples: Samples, covariates: Array, family: str, fit_intercept: bool
) -> Prepared:
    """Project the covariates out of X (and of a normal y) and scale to units of one.

    A normal response needs no covariates afterwards, and its weights go into the rows.
    """
    xp = array_namespace(samples.X)
    y, total = samples.y, float(xp.sum(clip(samples.weight, 1.0, None)))
    weight_unit = float(xp.sum(samples.weight)) / total
    weight = samples.weight / weight_unit
    root = xp.sqrt(weight)
    ones = xp.ones_like(y)[:, None]
    Z = xp.concat([ones, covariates], axis=1) if fit_intercept else covariates
    weighted = root[:, None] * Z
    X, X_size = of_unit_size(root[:, None] * samples.flat)
    project = xp.linalg.pinv(weighted) if Z.shape[1] else xp.matrix_transpose(weighted)
    X_shift = project @ X
    residue = X - weighted @ X_shift
    X_unit = _unit(residue, X, total * X.shape[1])
    if family == "normal":
        y, y_size = of_unit_size(root * y)
        y_shift = project @ y
        y_residue = y - weighted @ y_shift
        y_unit = _unit(y_residue, y, total)
        y, Z, scale = y_residue / y_unit, Z[:, :0], 1.0 / X_unit
        weight = xp.ones_like(weight)
    else:
        y_shift, y_size, y_unit = xp.zeros_like(Z[0, :]), 1.0, 1.0
        scale = (1.0 / (root * X_unit))[:, None]
    X = xp.reshape(residue * scale, samples.X.shape)
    return Prepared(
        Problem(X, y, weight, Z, FAMILIES[family]),
        total,
        weight_unit,
        weighted.shape[1],
        X_size,
        y_size,
        X_shift,
        y_shift,
        X_unit,
        y_unit,
        fit_intercept,
    )


def _unit(residue: Array, before: Array, count: float) -> float:
    """Return the root mean square; the rounding a constant leaves counts as none."""
    xp = array_namespace(residue)
    square, whole = float(xp.sum(residue * residue)), float(xp.sum(before * before))
    rounding = (10.0 * float(xp.finfo(residue.dtype).eps)) ** 2 * whole
    return (square / count) ** 0.5 if square > rounding else 1.0
