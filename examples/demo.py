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
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import mean_squared_error, r2_score
from threadpoolctl import threadpool_limits

import sltr
from sltr import plotting
from sltr.comparison import tuned_model
from sltr.peers.registry import METHODS

SHAPE, N_TRAIN, N_TEST, SEED = (16, 16, 6), 300, 1000, 0
MODES = ("row", "column", "time")
# hrTRR is CP from a single start.
NAMES = [name for name in METHODS if name != "hrtrr"]
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
    console.print("Open the report in a browser.")


if __name__ == "__main__":
    main()
