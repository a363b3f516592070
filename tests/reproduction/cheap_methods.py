"""Estimators that cost nothing; each fit leaves a line in a log."""

import os
import signal
import time
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin


class LoggedRidge(RegressorMixin, BaseEstimator):
    def __init__(self, log, penalty=1.0, kill_at=None, seconds=0.0):
        self.log = log
        self.penalty = penalty
        self.kill_at = kill_at
        self.seconds = seconds

    def fit(self, X, y):
        with Path(self.log).open("a") as log:
            log.write(f"{self.penalty} {X.shape} {y.sum()!r} {os.getpid()}\n")
        time.sleep(self.seconds)
        if self.kill_at == len(Path(self.log).read_text().splitlines()):
            os.kill(os.getpid(), signal.SIGKILL)
        A = X.reshape(len(X), -1)
        gram = A @ A.T + self.penalty * np.eye(len(A))
        self.coef_ = (A.T @ np.linalg.solve(gram, y)).reshape(X.shape[1:])
        return self

    def predict(self, X):
        return X.reshape(len(X), -1) @ self.coef_.ravel()
