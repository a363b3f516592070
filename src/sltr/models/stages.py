"""Jobs of a tuning: in lots, one after another, with progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from joblib import Parallel, delayed

__all__ = ["Stages"]

Result = TypeVar("Result")


class Stages:
    """Jobs that run one lot after another, those of a lot side by side."""

    def __init__(
        self,
        n_jobs: int | None,
        total: int,
        progress: Callable[[int, int], None] | None,
    ):
        self.n_jobs, self.total, self.done = n_jobs, total, 0
        self.report = progress or (lambda done, total: None)

    def run(self, jobs: Sequence[Callable[[], Result]]) -> list[Result]:
        """Return what each job returns."""
        results: list[Result] = []
        parallel = Parallel(n_jobs=self.n_jobs, return_as="generator")
        for result in parallel(delayed(job)() for job in jobs):
            results.append(result)
            self.done += 1
            self.report(self.done, self.total)
        return results

    def finish(self) -> None:
        """Report those that were not needed."""
        if self.done < self.total:
            self.report(self.total, self.total)
