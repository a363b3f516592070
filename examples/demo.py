"""From nothing to a report: simulate, tune SLTR and its peers, draw, explain.

Run by ``make demo``. Everything it writes is in ``demo_output/``.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from time import perf_counter

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from sklearn.dummy import DummyRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import mean_squared_error, r2_score
from threadpoolctl import threadpool_limits

import sltr
from sltr import plotting
from sltr.comparison import tuned_model
from sltr.peers.registry import METHODS

SHAPE, N_TRAIN, N_TEST, SEED = (16, 16, 6), 300, 1000, 0
MODES = ("row", "column", "time")
# hrTRR is CP from a single start; the last three are for several responses.
LEFT_OUT = ("hrtrr", "reduced_rank", "multitask_lasso", "tensor_on_tensor")
NAMES = [name for name in METHODS if name not in LEFT_OUT]
OUT = Path(__file__).parents[1] / "demo_output"


def tune_all(data, console):
    """Tune every method on the training samples; return models and seconds."""
    columns = (
        TextColumn("{task.description:<12}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    found = {}
    with Progress(*columns, console=console, transient=True) as bar:
        overall = bar.add_task("all methods", total=len(NAMES))
        for name in NAMES:
            task = bar.add_task(METHODS[name].title, total=None)
            model = tuned_model(METHODS[name], kind="regression")
            if "progress" in model.get_params(deep=False):
                model.set_params(
                    progress=lambda done, total, task=task: bar.update(
                        task, completed=done, total=total
                    )
                )
            start = perf_counter()
            model.fit(data.X[:N_TRAIN], data.y[:N_TRAIN])
            found[name] = model, perf_counter() - start
            bar.remove_task(task)
            bar.advance(overall)
            if not console.is_terminal:
                console.print(f"  {METHODS[name].title}: {found[name][1]:.1f} s")
    return found


def score_table(found, data):
    """Return the table of held-out scores and tuning times."""
    X, y = data.X[N_TRAIN:], data.y[N_TRAIN:]
    table = Table(title=f"Scores on {N_TEST} new samples", title_style="bold")
    table.add_column("method")
    for head in ("R²", "MSE", "tuning, s"):
        table.add_column(head, justify="right")
    for name, (model, seconds) in found.items():
        predicted = model.predict(X)
        r2, mse = r2_score(y, predicted), mean_squared_error(y, predicted)
        style = "bold" if name == "sltr" else None
        cells = (f"{r2:.3f}", f"{mse:.2f}", f"{seconds:.2f}")
        table.add_row(METHODS[name].title, *cells, style=style)
    best = 1 - data.noise**2 / y.var()
    table.caption = f"The noise lets nobody beat R² = {best:.3f}."
    return table


def draw(found, data):
    """Write the pictures; return their paths."""
    model = found["sltr"][0]
    X_test, y_test = data.X[N_TRAIN:], data.y[N_TRAIN:]
    figures = {
        "coefficients.png": coefficients(found, data),
        "sltr_coefficient.png": plotting.plot_coef(model, mode_names=MODES),
        "sltr_predictions.png": plotting.plot_predictions(
            y_test, model.predict(X_test)
        ),
        "sltr_tuning.png": plotting.plot_cv_surface(model),
        "sltr_importance.png": plotting.plot_mode_importance(model, mode_names=MODES),
    }
    for name, drawn in figures.items():
        figure = drawn if hasattr(drawn, "savefig") else drawn.figure
        figure.savefig(OUT / name, dpi=110, bbox_inches="tight")
        plt.close(figure)
    return [OUT / name for name in figures]


def coefficients(found, data):
    """Draw one slice of the true coefficient and of what each method found."""
    shown = ("ridge", "lasso", "remurs", "cp", "sltr")
    coefs = {"truth": data.coef}
    for name in shown:
        model = found[name][0]
        coefs[METHODS[name].title] = getattr(model, "best_estimator_", model).coef_
    slice_ = abs(data.coef).sum(axis=(0, 1)).argmax()
    limit = abs(data.coef).max()
    figure, axes = plt.subplots(1, len(coefs), figsize=(2.1 * len(coefs), 2.6))
    for ax, (title, coef) in zip(axes, coefs.items(), strict=True):
        ax.imshow(coef[:, :, slice_], cmap="RdBu_r", vmin=-limit, vmax=limit)
        ax.set(title=title, xticks=[], yticks=[])
    return figure


def batteries(console):
    """Predict the life of real lithium cells; return the picture of it."""
    cells = sltr.datasets.load_battery()
    train = cells.split == "train"
    table = Table(title="Life of lithium cells: error in cycles", title_style="bold")
    table.add_column("method")
    for head in ("test cells", "a later batch"):
        table.add_column(head, justify="right")
    models = {
        "null": DummyRegressor(),
        "ridge": sltr.TensorRidge(),
        "SLTR": sltr.SLTRRegressorCV(smooth={"cycle": "auto"}),
    }
    log_life, life = np.log(cells.y), {}
    for name, model in models.items():
        life[name] = np.exp(model.fit(cells.X[train], log_life[train]).predict(cells.X))
        off = [
            mean_squared_error(cells.y[rows], life[name][rows]) ** 0.5
            for rows in (cells.split == "test1", cells.split == "test2")
        ]
        table.add_row(name, *(f"{error:.0f}" for error in off))
    console.print(table)
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    for part, mark in (("test1", "o"), ("test2", "^")):
        rows = cells.split == part
        axes[0].loglog(cells.y[rows], life["SLTR"][rows], mark, label=part, alpha=0.7)
    ends, ticks = [140, 2400], [200, 500, 1000, 2000]
    axes[0].plot(ends, ends, "k", lw=0.5)
    axes[0].set(xlabel="life in cycles", ylabel="predicted from 100 cycles")
    axes[0].set_xticks(ticks, ticks)
    axes[0].set_yticks(ticks, ticks)
    axes[0].minorticks_off()
    axes[0].legend()
    voltage, cycle = cells.X.labels.coords
    coef = models["SLTR"].coef_
    limit = abs(coef).max()
    map_ = axes[1].pcolormesh(
        cycle, voltage, coef, cmap="RdBu_r", vmin=-limit, vmax=limit
    )
    axes[1].set(xlabel="cycle", ylabel="voltage (V)")
    figure.colorbar(map_, ax=axes[1], label="coefficient")
    path = OUT / "battery_life.png"
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def main():
    """Run the demonstration."""
    console = Console()
    warnings.simplefilter("ignore", ConvergenceWarning)  # of candidates, while tuning
    OUT.mkdir(exist_ok=True)
    shape = " × ".join(map(str, SHAPE))
    console.print(
        f"Simulating {N_TRAIN} samples of {shape}: the coefficient is zero but for "
        "two blocks, and the signal has five times the variance of the noise."
    )
    data = sltr.datasets.make_tensor_regression(
        SHAPE, N_TRAIN + N_TEST, truth="block", rank=2, snr=5, random_state=SEED
    )
    console.print(f"Tuning {len(NAMES)} methods by cross-validation.")
    # Matrices this small are done before a second BLAS thread has started.
    with threadpool_limits(1):
        found = tune_all(data, console)
    console.print(score_table(found, data))
    pictures = draw(found, data)
    model = found["sltr"][0].set_params(progress=None)
    saved = sltr.save(model, OUT / "model.sltr")
    page = sltr.report(
        model,
        data.X[:N_TRAIN],
        data.y[:N_TRAIN],
        OUT / "report.html",
        X_test=data.X[N_TRAIN:],
        y_test=data.y[N_TRAIN:],
        title="SLTR on simulated blocks",
        description="Made by make demo.",
        mode_names=MODES,
        seed=SEED,
    )
    for what, path in (("report", page), ("model", saved), ("pictures", pictures[0])):
        console.print(f"{what:<9} {os.path.relpath(path)}", highlight=False)
    console.print(
        "Now real data: how long will a battery live? 41 cells to learn from, the "
        "first 100 cycles of each."
    )
    with threadpool_limits(1):
        picture = batteries(console)
    console.print(f"battery   {os.path.relpath(picture)}", highlight=False)
    console.print("Open the report in a browser, and look at the picture.")


if __name__ == "__main__":
    main()
