"""Check on a GPU that every SLTR estimator agrees with itself on the CPU.

    python benchmarks/gpu_check.py

Torch and CuPy arrays on the device, in double and single precision; what
`predict` returns must be of the same kind, and a device that is too small must
say what to change.
"""

from __future__ import annotations

import numpy as np

from sltr.datasets import make_tensor_regression
from sltr.estimators.sltr import SLTRClassifier, SLTRRegressor
from sltr.estimators.sltr_cv import SLTRClassifierCV, SLTRRegressorCV


def main() -> None:
    """Print one line for each estimator and array library."""
    import cupy
    import torch

    data = make_tensor_regression((12, 10, 8), 120, truth="cp", snr=10, random_state=0)
    labels = (data.y > 0).astype(int)
    models = {
        "SLTRRegressor": (SLTRRegressor(), data.y),
        "SLTRRegressor, joint": (SLTRRegressor(coupling="joint"), data.y),
        "SLTRRegressor, tucker": (SLTRRegressor(refine="tucker"), data.y),
        "SLTRRegressorCV": (SLTRRegressorCV(), data.y),
        "SLTRClassifier": (SLTRClassifier(), labels),
        "SLTRClassifierCV": (SLTRClassifierCV(), labels),
    }
    kinds = {
        "torch": lambda x: torch.as_tensor(x).cuda(),
        "cupy": lambda x: cupy.asarray(x),
    }
    for dtype in ("float64", "float32"):
        X = data.X.astype(dtype)
        for name, (model, y) in models.items():
            host = np.asarray(model.fit(X, y).coef_)
            for kind, put in kinds.items():
                there = model.fit(put(X), y if y is labels else put(y.astype(dtype)))
                coef = there.coef_
                coef = coef.cpu().numpy() if kind == "torch" else coef.get()
                apart = np.abs(coef - host).max() / np.abs(host).max()
                same = isinstance(there.coef_, type(put(X)))
                print(f"{dtype} {name} {kind}: apart {apart:.1e}, stays there: {same}")
    X = torch.zeros(200, 60, 60, 60, device="cuda")
    torch.cuda.set_per_process_memory_fraction(0.002)
    try:
        SLTRRegressorCV().fit(X, np.ones(200))
    except (MemoryError, RuntimeError) as error:
        print(type(error).__name__, str(error)[:200])


if __name__ == "__main__":
    main()
