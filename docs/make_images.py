"""Draw the pictures of the README and of the concepts page: docs/images/*.png."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import RepeatedKFold, cross_val_score
from threadpoolctl import threadpool_limits

import sltr
from sltr import plotting

PAPER = {"refine": (None,), "rule": "best", "standardize": None}
SQUARED = "neg_mean_squared_error"
FOLDER = Path(__file__).parent / "images"


def simulated(n_samples, shape=(16, 16, 6), truth="block"):
    return sltr.datasets.make_tensor_regression(
        shape, n_samples + 1000, truth=truth, rank=2, snr=5, random_state=0
    )


def show(ax, matrix, title, limit=None):
    limit = np.abs(matrix).max() if limit is None else limit
    ax.imshow(matrix, cmap="RdBu_r", vmin=-limit, vmax=limit)
    ax.set_title(title, fontsize=10)
    ax.set(xticks=[], yticks=[])


def save(figure, name):
    figure.savefig(FOLDER / name, dpi=110, bbox_inches="tight")
    plt.close(figure)


def coefficients(n=300):
    """One slice of the truth and of four fits, with their held-out R²."""
    data = simulated(n)
    X, y, X_test, y_test = data.X[:n], data.y[:n], data.X[n:], data.y[n:]
    models = {
        "ridge": sltr.TensorRidge(),
        "Lasso": sltr.TensorLassoCV(),
        "SLTR of the paper": sltr.SLTRRegressorCV(**PAPER),
        "SLTR, refined": sltr.SLTRRegressorCV(),
    }
    slice_ = np.abs(data.coef).sum(axis=(0, 1)).argmax()
    limit = np.abs(data.coef).max()
    figure, axes = plt.subplots(1, 5, figsize=(10.5, 2.6))
    show(axes[0], data.coef[..., slice_], "truth", limit)
    for ax, (name, model) in zip(axes[1:], models.items(), strict=True):
        score = model.fit(X, y).score(X_test, y_test)
        show(ax, model.coef_[..., slice_], f"{name}\nheld-out R² {score:.2f}", limit)
    save(figure, "coefficients.png")


def model(n=900):
    """Pilot and answer for growing radii."""
    data = simulated(n)
    slice_ = np.abs(data.coef).sum(axis=(0, 1)).argmax()
    figure, axes = plt.subplots(1, 5, figsize=(10.5, 2.6))
    show(axes[0], data.coef[..., slice_], "truth")
    for ax, radius in zip(axes[1:], (0.0, 0.2, 0.4, 0.6), strict=True):
        fitted = sltr.SLTRRegressor(lambda_sparse=radius, lambda_low=radius)
        coef = fitted.fit(data.X[:n], data.y[:n]).coef_
        title = "ridge pilot (radii 0)" if radius == 0 else f"radii {radius}"
        show(ax, coef[..., slice_], f"{title}\n{np.mean(coef != 0):.0%} not zero")
    save(figure, "model.png")


def certificate(n=300):
    """The duality gap against the budget of iterations."""
    data = simulated(n)
    pilot = sltr.TensorRidge().fit(data.X[:n], data.y[:n]).coef_
    a, b = 0.3 * np.abs(pilot).max(), 0.3 * np.linalg.norm(pilot.reshape(16, -1), 2)
    budgets = np.unique(np.geomspace(5, 300, 25).astype(int))
    figure, ax = plt.subplots(figsize=(5.2, 3.2))
    for solver, style in (("admm", "o-"), ("ppxa", "s--")):
        gaps = [
            float(
                sltr.estimate(pilot, a, b, solver=solver, tol=1e-9, max_iter=int(k)).gap
            )
            for k in budgets
        ]
        ax.loglog(budgets, gaps, style, ms=3, label=solver.upper())
    ax.axhline(1e-4, color="grey", lw=1)
    ax.text(70, 4e-5, "default tolerance", fontsize=8, color="grey")
    ax.set(xlabel="iterations allowed", ylabel="relative duality gap")
    ax.legend(frameon=False)
    save(figure, "certificate.png")


def modes():
    """Ridge's coefficient of battery life, without and with smooth cycles.

    Needs SLTR_DATA, a folder with the discharge curves; else the picture stays.
    """
    if "SLTR_DATA" not in os.environ:
        return
    data = np.load(Path(os.environ["SLTR_DATA"]) / "battery_100x99.npz")
    kept = np.arange(len(data["X"])) != 62  # as the authors leave it out
    X, y = data["X"][kept].astype(float), np.log(data["cycle_life"][kept])
    folds = RepeatedKFold(n_splits=5, n_repeats=2, random_state=1)
    figure, axes = plt.subplots(1, 2, figsize=(7.5, 3.4))
    for ax, smooth in zip(axes, (None, {1: "auto"}), strict=True):
        model = sltr.SLTRRegressor(lambda_sparse=0, lambda_low=0, smooth=smooth)
        errors = -cross_val_score(model, X, y, cv=folds, scoring=SQUARED).mean()
        model.fit(X, y)
        name = f"smooth cycles, s = {model.smooth_[1]:g}" if smooth else "plain"
        title = f"{name}\nheld-out relative MSE {errors / y.var():.3f}"
        show(ax, model.coef_, title)
        ax.set(xlabel="cycle", ylabel="voltage", aspect="auto")
    save(figure, "modes.png")


def refinement():
    """Held-out R² of the paper's answer and of the refined one, by sample size."""
    sizes = (100, 200, 400, 800)
    scores = {"ridge": [], "SLTR of the paper": [], "SLTR, refined": []}
    for n in sizes:
        data = simulated(n, shape=(12, 12, 5), truth="cp")
        X, y = data.X, data.y
        for name, fitted in zip(
            scores,
            (
                sltr.TensorRidge(),
                sltr.SLTRRegressorCV(**PAPER),
                sltr.SLTRRegressorCV(),
            ),
            strict=True,
        ):
            scores[name].append(fitted.fit(X[:n], y[:n]).score(X[n:], y[n:]))
    figure, ax = plt.subplots(figsize=(5.2, 3.2))
    for (name, values), style in zip(scores.items(), ("^:", "s--", "o-"), strict=True):
        ax.semilogx(sizes, values, style, label=name)
    ax.axhline(5 / 6, color="grey", lw=1)
    ax.text(100, 5 / 6 + 0.012, "limit set by the noise", fontsize=8, color="grey")
    ax.set_ylim(0, 0.92)
    ax.set(xlabel="samples (the tensor has 720 entries)", ylabel="held-out R²")
    ax.set_xticks(sizes, list(map(str, sizes)))
    ax.minorticks_off()
    ax.legend(frameon=False, loc="lower right")
    save(figure, "refinement.png")


def inference(n=200):
    """What may be believed of one model: four figures of `sltr.plotting`."""
    data = sltr.datasets.make_tensor_regression(
        (16, 16, 6), n + 60, truth="blob", snr=5, random_state=0
    )
    X, y = data.X[:n], data.y[:n]
    fitted = sltr.SLTRRegressorCV().fit(X, y)
    test = sltr.inference.permutation_test(
        fitted, X, y, statistic="pilot", random_state=0
    )
    bounds = sltr.inference.intervals(fitted, X, y)
    stable = sltr.inference.stability(fitted, X, y, n_pairs=20, random_state=0)
    pattern = sltr.inference.patterns(fitted, X)
    figure = plt.figure(figsize=(11, 8), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(1.1, 1))
    left, right = above.subplots(1, 2)
    plotting.plot_permutation_test(test, ax=left)
    plotting.plot_intervals(bounds, data.X[n:], data.y[n:], ax=right)
    maps = below.subfigures(1, 2)
    plotting.plot_stability(stable, fig=maps[0])
    plotting.plot_pattern(pattern, fig=maps[1])
    save(figure, "inference.png")


# Pictures that are those of an example: its file, and the number of the figure.
EXAMPLES = {
    "spectra.png": ("plot_sugar_colour.py", 3),
    "process.png": ("plot_battery_life.py", 2),
    "brain.png": ("plot_brain.py", 1),
    "heads.png": ("plot_heads.py", 1),
    "film.png": ("plot_film.py", 1),
    "genes.png": ("plot_genes.py", 1),
}


def examples():
    """Run examples of the gallery, and keep one figure of each."""
    for name, (file, number) in EXAMPLES.items():
        plt.close("all")
        runpy.run_path(str(FOLDER.parents[1] / "examples" / file))
        save(plt.figure(number), name)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    with threadpool_limits(1):
        paper = (coefficients, model, certificate, refinement)
        for draw in (*paper, modes, inference, examples):
            draw()
