"""Jobs of a tuning: in lots, one after another, with progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from joblib import Parallel, delayed

from sltr.models.plain import Row

__all__ = ["Stages"]


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

    def run(self, jobs: Sequence[Callable[[], list[Row]]]) -> list[Row]:
        """Return the rows of all jobs."""
        rows: list[Row] = []
        parallel = Parallel(n_jobs=self.n_jobs, return_as="generator")
        for part in parallel(delayed(job)() for job in jobs):
            rows += part
            self.done += 1
            self.report(self.done, self.total)
        return rows

    def finish(self) -> None:
        """Report those that were not needed."""
        if self.done < self.total:
            self.report(self.total, self.total)
