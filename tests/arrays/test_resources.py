import os
import subprocess
import sys

import pytest

# In a process of its own: one that has forked is not like the others any more.
FORKED = """
import os, signal
import numpy as np
from sltr import RemursRegressorCV

X = np.random.default_rng(0).normal(size=(20, 3, 2))
model = RemursRegressorCV(n_alphas=2, cv=2, n_jobs=2)
coef = model.fit(X, X[:, 0, 0]).coef_
child = os.fork()
if child == 0:
    signal.alarm(60)
    same = np.array_equal(model.fit(X, X[:, 0, 0]).coef_, coef)
    os._exit(0 if same else 1)
assert os.waitpid(child, 0)[1] == 0
assert np.array_equal(model.fit(X, X[:, 0, 0]).coef_, coef)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_process_forked_after_parallel_fits_fits_in_parallel():
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=120)
