"""Progress where there is no terminal: few lines, on standard error alone."""

import copy
from threading import Event, active_count

import pytest

pytest.importorskip("typer")

from sltr.cli import output as progress
from sltr.cli.output import Lines, progress_bar


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_a_line_needs_a_tenth_of_the_work_and_ten_seconds(clock, capsys):
    lines = Lines("Running x", clock)
    for done in range(101):
        clock.now += 0.5
        lines.move(done, 100)
    slow = capsys.readouterr().err.splitlines()
    assert slow[0] == "Running x: 19 of 100, 10 s"
    assert len(slow) == 5
    lines = Lines("Running x", clock)
    for done in range(101):
        clock.now += 60
        lines.move(done, 100)
    fast = capsys.readouterr().err.splitlines()
    assert [line.split()[2] for line in fast] == [f"{k}0" for k in range(1, 11)]


def test_quick_work_is_silent(clock, capsys):
    lines = Lines("Fitting", clock)
    for done in range(11):
        clock.now += 0.1
        lines.move(done, 10)
        lines.beat()
    assert capsys.readouterr() == ("", "")


def test_work_that_says_nothing_is_heard_of_less_and_less(clock, capsys):
    lines = Lines("Tuning Tucker", clock)
    for _ in range(200):
        clock.now += 1
        lines.beat()
    told = capsys.readouterr().err.splitlines()
    assert told == [f"Tuning Tucker: {k} s" for k in (10, 20, 40, 80, 160)]


def test_what_has_a_name_is_told_at_once(clock, capsys):
    Lines("Comparing", clock).move(1, 6, "Ridge, fold 1")
    assert capsys.readouterr().err == "Comparing: Ridge, fold 1 (2 of 6)\n"


def test_the_bar_beats_while_the_work_goes_on_and_not_after(monkeypatch, capsys):
    beaten, n_threads = Event(), active_count()
    monkeypatch.setattr(progress.Lines, "beat", lambda _: beaten.set())
    monkeypatch.setattr(progress, "BEAT", 0.01)
    with progress_bar("Tuning", quiet=False) as move:
        assert beaten.wait(10)
        assert copy.deepcopy(move) is move  # estimators copy their parameters
    assert active_count() == n_threads
    assert capsys.readouterr().out == ""


def test_nothing_is_told_when_quiet(capsys):
    with progress_bar("Tuning", quiet=True) as move:
        move(1, 2, "a thing")
    assert capsys.readouterr() == ("", "")
