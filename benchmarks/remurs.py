"""Time a Remurs path of 49 candidates against a textbook ADMM.

The textbook: step size 1, LAPACK's SVD, every candidate from zero. It shares one
Cholesky factor, and an oracle stops it (unclocked) as soon as its objective is
within 1e-4 of ours, or when its budget of iterations is spent.

    python benchmarks/remurs.py
    python benchmarks/remurs.py --shape 30 30 5 --samples 360
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from sltr.peers.penalised import mode_norms, penalised_path, rotate, zeroing_weight

LOOK_EVERY = 10
CLOSE = 1e-4


def simulate(shape, n_samples, rng):
    """Return centred data whose coefficient has sparse factors and rank 2."""
    W = np.zeros(shape)
    for _ in range(2):
        term = np.ones(())
        for size in shape:
            factor = rng.normal(size=size) * (rng.random(size) < 0.5)
            term = term[..., None] * factor
        W += term
    A = rng.normal(size=(n_samples, W.size))
    signal = A @ W.ravel()
    y = signal + 0.3 * signal.std() * rng.normal(size=n_samples)
    return A - A.mean(axis=0), y - y.mean()


def objective(A, y, W, low, sparse):
    """Return Remurs' objective, singular values by LAPACK."""
    nuclear = np.mean([np.linalg.norm(_unfold(W, m), "nuc") for m in range(W.ndim)])
    error = y - A @ W.ravel()
    return 0.5 * error @ error + low * nuclear + sparse * np.abs(W).sum()


def _unfold(W, mode):
    return np.moveaxis(W, mode, 0).reshape(W.shape[mode], -1)


def _threshold(V, mode, t):
    U, s, Vt = np.linalg.svd(_unfold(V, mode), full_matrices=False)
    moved = np.moveaxis(V, mode, 0).shape
    return np.moveaxis(((U * np.maximum(s - t, 0.0)) @ Vt).reshape(moved), 0, mode)


def textbook(A, y, shape, low, sparse, goal, factor, budget):
    """Return the coefficient and the seconds it took to come close to `goal`."""
    order = len(shape)
    W, D = np.zeros(shape), np.zeros(shape)
    B = [np.zeros(shape) for _ in shape]
    pull, seconds = (A.T @ y).reshape(shape), 0.0
    for n_iter in range(1, budget + 1):
        start = time.perf_counter()
        q = pull + W - D
        U = q - (A.T @ cho_solve(factor, A @ q.ravel())).reshape(shape)
        V = [_threshold(W - B[m], m, low / order) for m in range(order)]
        mean = (U + sum(V) + D + sum(B)) / (order + 1)
        W = np.sign(mean) * np.maximum(np.abs(mean) - sparse / (order + 1), 0.0)
        D = D + U - W
        B = [B[m] + V[m] - W for m in range(order)]
        seconds += time.perf_counter() - start
        if n_iter % LOOK_EVERY == 0 and (
            objective(A, y, W, low, sparse) <= (1.0 + CLOSE) * goal
        ):
            break
    return W, seconds


def main():
    """Print both times, their ratio and how far the objectives are apart."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", type=int, nargs="+", default=[16, 16, 8])
    parser.add_argument("--samples", type=int, default=164)
    parser.add_argument("--budget", type=int, default=1000)
    parser.add_argument("--tol", type=float, default=1e-6)
    args = parser.parse_args()
    shape = tuple(args.shape)
    A, y = simulate(shape, args.samples, np.random.default_rng(0))
    norms, pull = mode_norms(len(shape)), A.T @ y
    fractions = np.geomspace(0.5, 1e-3, 7)
    lows = fractions * zeroing_weight(norms, pull.reshape(1, *shape))[0]
    sparses = fractions * np.abs(pull).max()

    start = time.perf_counter()
    path = penalised_path(rotate(A, y), norms, shape, lows, sparses, tol=args.tol)
    ours = time.perf_counter() - start

    start = time.perf_counter()
    factor = cho_factor(np.eye(args.samples) + A @ A.T)
    theirs = time.perf_counter() - start
    differences, certified = [], 0.0
    for i, low in enumerate(lows):
        for j, sparse in enumerate(sparses):
            goal = objective(A, y, path.x[i, j, 0], low, sparse)
            W, seconds = textbook(A, y, shape, low, sparse, goal, factor, args.budget)
            theirs += seconds
            gap = path.residual[i, j, 0] * 0.5 * (y @ y) / goal
            certified = max(certified, gap)
            differences.append(objective(A, y, W, low, sparse) / goal - 1.0)
    size = "x".join(map(str, shape))
    close = np.array(differences) <= CLOSE
    print(f"Remurs, {size}, n={args.samples}, {close.size} candidates")
    print(f"  sltr      {ours:8.2f} s, {int(path.n_iter.sum())} iterations;")
    print(
        f"            every objective certified within {certified:.1e} of its minimum"
    )
    print(
        f"  textbook  {theirs:8.2f} s; {int((~close).sum())} candidates out of budget"
    )
    print(f"            ({args.budget} iterations) before they came within {CLOSE:.0e}")
    print(f"  ratio     {theirs / ours:8.1f}")
    print("  largest relative difference of the objectives")
    for name, part in (("where both finished", close), ("overall", close | True)):
        largest = np.abs(np.array(differences)[part]).max(initial=0.0)
        print(f"            {largest:.1e} {name}")


if __name__ == "__main__":
    main()
