"""Which candidates come close to the best, and their shares in a mean of several."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["close_to", "shares_by_kind", "votes"]

# Lesser ones would cost a refit and change little.
SMALLEST_VOTE = 0.1


def close_to(
    best: int, losses: np.ndarray, weight: np.ndarray, *, errors: float = 1.0
) -> np.ndarray:
    """Say which candidates held-out losses cannot tell from the best, shape (G,).

    Those whose losses exceed its own, sample by sample, by no more in the mean than
    one standard error of that mean, or `errors` of them.

    Parameters
    ----------
    best : int
    losses : array of shape (n, G)
    weight : array of shape (n,)
        A whole number counts as that many equal samples.

    Examples
    --------
    >>> import numpy as np
    >>> losses = np.array([[1.0, 3.0, 0.0], [1.0, 3.1, 2.1], [1.0, 3.2, 1.0]])
    >>> close_to(0, losses, np.ones(3)).tolist()
    [True, False, True]
    """
    mean, error = _excess(best, losses, weight)
    return mean <= errors * error


def votes(
    best: int, losses: np.ndarray, weight: np.ndarray, overlap: float
) -> np.ndarray:
    """Return how well held-out losses agree with being as good as the best, (G,).

    exp(−z²/2), z the mean excess over the best one's losses in standard errors, less
    `SMALLEST_VOTE`, and in units of what that leaves of one; at least zero.

    Parameters
    ----------
    best, losses, weight
        As for `close_to`.
    overlap : float
        The sum over folds of held-out samples per training sample. Folds that train
        on the same samples err alike: their mean's variance is 1 + overlap times that
        of as many independent errors (Nadeau & Bengio 2003).

    Examples
    --------
    >>> import numpy as np
    >>> losses = np.array([[1.0, 2.0, 0.0], [1.0, 1.8, 2.1], [1.0, 0.7, 1.0]])
    >>> votes(0, losses, np.ones(3), overlap=1.25).round(2).tolist()
    [1.0, 0.56, 1.0]
    """
    mean, error = _excess(best, losses, weight)
    error = error * np.sqrt(1.0 + overlap)
    steps = np.divide(mean, error, out=np.full_like(mean, np.inf), where=error > 0)
    found = np.where(mean <= 0, 1.0, np.exp(-0.5 * steps**2))
    # Continuous, so that rounding decides nothing; what is not finite has none.
    left = (found - SMALLEST_VOTE) / (1.0 - SMALLEST_VOTE)
    return np.where(left > 0, left, 0.0)


def _excess(
    best: int, losses: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean excess of losses over the best one's, and its standard error."""
    share = weight / weight.sum()
    excess = losses - losses[:, [best]]
    mean = share @ excess
    count = np.maximum(weight, 1.0).sum()
    return mean, np.sqrt(share @ (excess - mean) ** 2 / count)


def shares_by_kind(kinds: Sequence, votes: np.ndarray) -> np.ndarray:
    """Return shares that sum to one: kinds by their best vote, within a kind by votes.

    Examples
    --------
    >>> import numpy as np
    >>> shares_by_kind(["a", "a", "b", "b"], np.array([True, True, True, False]))
    array([0.25, 0.25, 0.5 , 0.  ])
    >>> shares_by_kind(["a", "a", "b", "b"], np.array([1.0, 0.5, 0.0, 0.5]))
    array([0.44444444, 0.22222222, 0.        , 0.33333333])
    """
    votes = np.asarray(votes, dtype=float)
    shares = np.zeros(len(kinds))
    for kind in dict.fromkeys(kinds):
        own = np.array([other == kind for other in kinds])
        if votes[own].any():
            shares[own] = votes[own].max() * votes[own] / votes[own].sum()
    return shares / shares.sum()
