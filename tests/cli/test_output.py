"""Progress where there is no terminal: few lines, on standard error alone."""

import copy

import pytest

pytest.importorskip("typer")

from sltr.cli.output import progress_bar, progress_lines


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_a_line_needs_a_tenth_of_the_work_and_ten_seconds(clock, capsys):
    move = progress_lines("Running x", clock)
    for done in range(101):
        clock.now += 0.5
        move(done, 100)
    slow = capsys.readouterr().err.splitlines()
    assert slow[0] == "Running x: 19 of 100, 10 s"
    assert len(slow) == 5
    move = progress_lines("Running x", clock)
    for done in range(101):
        clock.now += 60
        move(done, 100)
    fast = capsys.readouterr().err.splitlines()
    assert [line.split()[2] for line in fast] == [f"{k}0" for k in range(1, 11)]


def test_quick_work_is_silent(clock, capsys):
    move = progress_lines("Fitting", clock)
    for done in range(11):
        clock.now += 0.1
        move(done, 10)
    assert capsys.readouterr() == ("", "")


def test_what_has_a_name_is_told_at_once(clock, capsys):
    progress_lines("Comparing", clock)(1, 6, "Ridge, fold 1")
    assert capsys.readouterr().err == "Comparing: Ridge, fold 1 (2 of 6)\n"


def test_the_function_can_be_copied_as_estimators_copy_their_parameters(capsys):
    with progress_bar("Tuning", quiet=False) as move:
        assert copy.deepcopy(move) is move
    assert capsys.readouterr().out == ""


def test_nothing_is_told_when_quiet(capsys):
    with progress_bar("Tuning", quiet=True) as move:
        move(1, 2, "a thing")
    assert capsys.readouterr() == ("", "")
