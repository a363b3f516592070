"""Radii of the two balls, relative to the pilots or absolute."""

from __future__ import annotations

from sltr._array import Array, array_namespace, spectral_norm
from sltr.estimate.checks import check_choice
from sltr.tensor import unfold

__all__ = ["absolute_radii"]


def absolute_radii(
    pilots: Array, lambda_sparse: Array, lambda_low: Array, radius: str
) -> tuple[Array, Array]:
    """Return radii of shape (Q, G) and (Q, G, M) for a grid given to all pilots.

    Parameters
    ----------
    pilots : array of shape (Q, p1, …, pM)
    lambda_sparse, lambda_low : arrays of shape (G,)
    radius : {"relative", "absolute"}
        "relative": fractions of each pilot's largest entry and of each of its
        unfoldings' largest singular value.
    """
    xp = array_namespace(pilots)
    check_choice("radius", radius, ("relative", "absolute"))
    n_modes = pilots.ndim - 1
    sparse = (
        lambda_sparse[None, :] + 0.0 * pilots[(slice(None), *([0] * n_modes))][:, None]
    )
    low = xp.stack([sparse - lambda_sparse + lambda_low] * n_modes, axis=2)
    if radius == "absolute":
        return sparse, low
    largest = xp.max(xp.abs(pilots), axis=tuple(range(1, pilots.ndim)))
    norms = [spectral_norm(unfold(pilots, mode)) for mode in range(n_modes)]
    # A whisker more, so that the fraction 1 really reaches the zero tensor.
    slack = 1.0 + 8.0 * float(xp.finfo(pilots.dtype).eps)
    largest = largest * slack
    return sparse * largest[:, None], low * (slack * xp.stack(norms, axis=1))[
        :, None, :
    ]
