"""Exponential families with their canonical links, as functions of η.

Arrays hold one response in each entry; those of the multinomial family hold the
classes of a sample along their last axis, and the mean is the softmax over them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sltr.arrays import Array, array_namespace

# Beyond this the mean is 0, 1 or astronomical; the cut keeps float32 finite.
LARGEST_ETA = 60.0


@dataclass(frozen=True)
class Family:
    """A family: mean, variance and deviance at η, entry by entry."""

    name: str
    mean: Callable[[Array], Array]
    variance: Callable[[Array], Array]
    deviance: Callable[[Array, Array], Array]  # of y and η


def _cut(eta: Array) -> Array:
    return array_namespace(eta).clip(eta, -LARGEST_ETA, LARGEST_ETA)


def _logistic(eta: Array) -> Array:
    return 1.0 / (1.0 + array_namespace(eta).exp(-_cut(eta)))


def _logistic_deviance(y: Array, eta: Array) -> Array:
    xp = array_namespace(eta)
    return 2.0 * (xp.logaddexp(eta, xp.zeros_like(eta)) - y * eta)


def _exp(eta: Array) -> Array:
    return array_namespace(eta).exp(_cut(eta))


def _poisson_deviance(y: Array, eta: Array) -> Array:
    xp = array_namespace(eta)
    saturated = y * xp.log(xp.where(y > 0.0, y, xp.ones_like(y))) - y
    return 2.0 * (saturated - y * eta + _exp(eta))


def _log_softmax(eta: Array) -> Array:
    xp = array_namespace(eta)
    rest = eta - xp.max(eta, axis=-1, keepdims=True)
    return rest - xp.log(xp.sum(xp.exp(rest), axis=-1, keepdims=True))


def _softmax(eta: Array) -> Array:
    return array_namespace(eta).exp(_log_softmax(eta))


def _of_share(mean: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return the variance of 0/1 responses with this mean."""

    def variance(eta: Array) -> Array:
        share = mean(eta)
        return share * (1.0 - share)

    return variance


FAMILIES = {
    "normal": Family(
        "normal",
        lambda eta: eta,
        lambda eta: array_namespace(eta).ones_like(eta),
        lambda y, eta: (y - eta) ** 2,
    ),
    "binomial": Family("binomial", _logistic, _of_share(_logistic), _logistic_deviance),
    "poisson": Family("poisson", _exp, _exp, _poisson_deviance),
    "multinomial": Family(
        "multinomial",
        _softmax,
        _of_share(_softmax),
        lambda y, eta: -2.0 * y * _log_softmax(eta),
    ),
}
