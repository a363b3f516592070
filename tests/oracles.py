"""Slow, obvious versions: loops, full SVDs, normal equations, CVXPY."""

import itertools

import numpy as np
import pytest

# Comparisons between two ways of computing the same numbers.
TOLERANCES = {
    "float64": {"rtol": 1e-8, "atol": 1e-9},
    "float32": {"rtol": 1e-3, "atol": 1e-4},
}


def assert_close(actual, expected, dtype="float64", scale=1.0):
    """Compare at the dtype's tolerance, absolute errors relative to `scale`."""
    limits = TOLERANCES[np.dtype(dtype).name]
    np.testing.assert_allclose(
        actual, expected, rtol=limits["rtol"], atol=limits["atol"] * scale
    )


def unfold_by_loop(tensor, mode):
    """Return the mode unfolding of one tensor, columns in C order of the rest."""
    rest = [size for k, size in enumerate(tensor.shape) if k != mode]
    out = np.empty((tensor.shape[mode], int(np.prod(rest))))
    for i in range(tensor.shape[mode]):
        for column, place in enumerate(itertools.product(*map(range, rest))):
            index = (*place[:mode], i, *place[mode:])
            out[i, column] = tensor[index]
    return out


def fold_by_loop(matrix, mode, shape):
    rest = [size for k, size in enumerate(shape) if k != mode]
    out = np.empty(shape)
    for i in range(shape[mode]):
        for column, place in enumerate(itertools.product(*map(range, rest))):
            out[(*place[:mode], i, *place[mode:])] = matrix[i, column]
    return out


def map_singular_values(matrix, change):
    """Return the matrix with `change` applied to its singular values, full SVD."""
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    return (left * change(values)) @ right


def soft(x, threshold):
    return np.sign(x) * np.maximum(np.abs(x) - threshold, 0.0)


def groups_of(shape, slices=None, weights=None):
    """Return [(places in a flat tensor, ω_g)]; single entries without slices."""
    places = np.arange(int(np.prod(shape))).reshape(shape)
    weights = np.ones(shape) if weights is None else weights
    modes = range(len(shape)) if slices is None else slices
    found = []
    for index in itertools.product(*(range(shape[m]) for m in modes)):
        at = [slice(None)] * len(shape)
        for mode, place in zip(modes, index, strict=True):
            at[mode] = place
        members = np.ravel(places[tuple(at)])
        weight = float(np.ravel(weights[tuple(at)])[0])
        found.append((members, weight * np.sqrt(len(members))))
    return found


def objective(W, alpha, betas, modes, groups=None):
    """Return α·R(W) + Σβ_k‖W_(k)‖_*, by full SVDs."""
    flat = W.reshape(-1)
    groups = groups_of(W.shape) if groups is None else groups
    value = alpha * sum(weight * np.linalg.norm(flat[g]) for g, weight in groups)
    for beta, mode in zip(betas, modes, strict=True):
        value += beta * np.linalg.norm(unfold_by_loop(W, mode), "nuc")
    return value


def feasible(W, Z, a, bs, modes, groups=None):
    """Return the point of the segment from Z to W that is inside all balls."""
    flat = (W - Z).reshape(-1)
    groups = groups_of(W.shape) if groups is None else groups
    ratio = 1.0
    for g, weight in groups:
        if a * weight > 0:
            ratio = max(ratio, np.linalg.norm(flat[g]) / (a * weight))
    for b, mode in zip(bs, modes, strict=True):
        if b > 0:
            ratio = max(ratio, np.linalg.norm(unfold_by_loop(W - Z, mode), 2) / b)
    return Z + (W - Z) / ratio


def cvx_solution(Z, a, bs, alpha, betas, modes, groups=None, positive=False, tol=1e-8):
    """Solve one sparse and low-rank problem by an interior point method.

    Returns the optimal value and the solution, shaped like Z. The gap between primal
    and dual value and the residuals are below `tol`, else it is no solution.
    """
    places = np.arange(Z.size).reshape(Z.shape)
    cp = pytest.importorskip("cvxpy")
    w = cp.Variable(Z.size)
    flat = Z.reshape(-1)
    if groups is None:
        cost = alpha * cp.norm1(w)
        constraints = [cp.abs(w - flat) <= a]
    else:
        cost = alpha * sum(weight * cp.norm(w[g]) for g, weight in groups)
        constraints = [
            cp.norm(w[g] - flat[g]) <= a * weight if weight > 0 else w[g] == flat[g]
            for g, weight in groups
        ]
    constraints += [w >= 0] if positive else []
    for b, beta, mode in zip(bs, betas, modes, strict=True):
        order = unfold_by_loop(places, mode).astype(int)
        matrix = cp.reshape(w[order.reshape(-1)], order.shape, order="C")
        cost = cost + beta * cp.normNuc(matrix)
        constraints.append(cp.sigma_max(matrix - Z.reshape(-1)[order]) <= b)
    problem = cp.Problem(cp.Minimize(cost), constraints)
    within = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), tol)
    problem.solve(solver=cp.CLARABEL, **within)
    assert problem.status == cp.OPTIMAL
    return float(problem.value), np.asarray(w.value).reshape(Z.shape)


def ridge_by_normal_equations(X, y, epsilon, weight=None, fit_intercept=True):
    """Return (AᵀA + εI)⁻¹Aᵀy, least norm for ε = 0; y of shape (n,)."""
    X, y = np.asarray(X, float), np.asarray(y, float)
    weight = np.ones(len(y)) if weight is None else np.asarray(weight, float)
    if fit_intercept:
        X = X - np.average(X, axis=0, weights=weight)
        y = y - np.average(y, weights=weight)
    A, r = np.sqrt(weight)[:, None] * X, np.sqrt(weight) * y
    normal = A.T @ A + epsilon * np.eye(A.shape[1])
    if epsilon == 0:
        return np.linalg.lstsq(A, r, rcond=1e-10)[0]
    return np.linalg.solve(normal, A.T @ r)


def leave_one_out_by_loop(X, y, epsilon, fit_intercept=True):
    """Return the mean squared error of n fits, each without one sample."""
    errors = []
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        coef = ridge_by_normal_equations(
            X[rest], y[rest], epsilon, fit_intercept=fit_intercept
        )
        offset = (y[rest] - X[rest] @ coef).mean() if fit_intercept else 0.0
        errors.append((y[i] - X[i] @ coef - offset) ** 2)
    return np.mean(errors)
