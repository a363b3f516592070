"""How far long work is: a bar on a terminal, else a few plain lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from time import monotonic

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from sltr.cli.output import say

__all__ = ["Lines", "progress_bar"]

PARTS = 10  # of the work: at least one of them between two lines
SECONDS = 10.0  # at least, between two lines
BEAT = 1.0  # seconds


@contextmanager
def progress_bar(text: str, *, quiet: bool) -> Iterator[Callable[..., None]]:
    """Give a function (done, total, what) that shows how far the work is.

    On a terminal it moves a bar with the time left; elsewhere it writes lines.
    Everything goes to standard error.
    """
    console = Console(stderr=True)
    if quiet:
        yield _nothing
    elif console.is_terminal:
        with _bar(console) as bar:
            task = bar.add_task(text, total=None)

            def move(done: int, total: int, what: str = "") -> None:
                shown = f"{text}: {what}" if what else text
                bar.update(task, completed=done, total=total, description=shown)

            yield move
    else:
        with _beating(Lines(text)) as lines:
            # A function, since estimators copy their parameters and locks have none.
            def tell(done: int, total: int, what: str = "") -> None:
                lines.move(done, total, what)

            yield tell


def _nothing(done: int, total: int, what: str = "") -> None:
    pass


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )


class Lines:
    """Progress as lines: of what has a name, after a tenth of the work, or of time.

    Two lines without a name are `SECONDS` apart or more. `beat` writes one where
    nothing was heard of the work for as long as it had taken until the last line:
    some methods do not say how far they are.
    """

    def __init__(self, text: str, clock: Callable[[], float] = monotonic):
        self.text, self.clock = text, clock
        self.start = self.told = clock()
        self.done, self.total, self.shown = 0, 0, 0
        self.lock = Lock()

    def move(self, done: int, total: int, what: str = "") -> None:
        """Hear that so much is done, and write a line if it is time for one."""
        with self.lock:
            self.done, self.total = done, total
            if what:
                self._tell(f"{what} ({done + 1} of {total})")
            elif (
                total
                and PARTS * (done - self.shown) >= total
                and self.clock() - self.told >= SECONDS
            ):
                self._tell(self._so_far())

    def beat(self) -> None:
        """Write a line if there was none for long."""
        with self.lock:
            if self.clock() - self.told >= max(SECONDS, self.told - self.start):
                self._tell(self._so_far())

    def _so_far(self) -> str:
        seconds = f"{self.clock() - self.start:.0f} s"
        return f"{self.done} of {self.total}, {seconds}" if self.total else seconds

    def _tell(self, message: str) -> None:
        self.told, self.shown = self.clock(), self.done
        say(f"{self.text}: {message}")


@contextmanager
def _beating(lines: Lines) -> Iterator[Lines]:
    """Let lines beat while the work goes on."""
    over = Event()

    def beat() -> None:
        while not over.wait(BEAT):
            lines.beat()

    thread = Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield lines
    finally:
        over.set()
        thread.join()
