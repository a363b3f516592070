import functools
import json
import pickle
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.utils import Bunch

from sltr.datasets import load_packaged
from sltr.reproduction.data import draw_trial
from sltr.reproduction.run import (
    Condition,
    Experiment,
    _do,
    append_row,
    markdown_table,
    read_rows,
    run,
)

sys.path.insert(0, str(Path(__file__).parent))
from cheap_methods import LoggedRidge

SIMULATED = {"shape": [4, 3], "n": 12, "n_test": 20, "truth": "cp", "rank": 1}
SPEC = Experiment(
    "cheap",
    conditions=(
        Condition("small", "simulated", SIMULATED),
        Condition("faulty", "simulated", SIMULATED | {"fault": True}, quick=False),
    ),
    methods=("ridge", "null"),
    metrics=("mse", "relative_mse", "released_mse", "r2", "estimation_error"),
    repetitions=3,
    candidates={"ridge": {"penalty": 0.5}},
)
STABLE = ("key", "condition", "method", "repetition", "metrics", "error")


def cheap(log, **options):
    return {
        "ridge": functools.partial(LoggedRidge, log=str(log), **options),
        "null": DummyRegressor,
    }


def stable(rows):
    return [{name: row[name] for name in STABLE} for row in rows]


def fits(log):
    return Path(log).read_text().splitlines()


@pytest.fixture
def log(tmp_path):
    return tmp_path / "fits.log"


def test_each_result_is_one_row_with_seed_versions_and_timing(tmp_path, log):
    seen = []
    rows = run(
        SPEC, cheap(log), tmp_path / "out", progress=lambda *step: seen.append(step)
    )
    assert len(rows) == 2 * 3 * 2
    assert seen == [(k, 12) for k in range(13)]
    lines = (tmp_path / "out" / "cheap.jsonl").read_text().splitlines()
    assert len(lines) == 12
    first = json.loads(lines[0])
    assert first["seed"] == 0
    assert first["versions"]["numpy"] == np.__version__
    assert first["fit_seconds"] > 0
    assert first["candidates"] == {"penalty": 0.5}
    assert first["options"] == SIMULATED


def test_metrics_are_those_of_the_data(tmp_path, log):
    rows = run(SPEC, cheap(log), tmp_path / "out")
    for row in rows:
        trial = draw_trial("simulated", row["options"], row["repetition"], 0)
        if row["method"] == "null":
            expected = np.full(len(trial.y_test), trial.y.mean())
            assert row["metrics"]["relative_mse"] == pytest.approx(1.0)
            assert row["metrics"]["estimation_error"] is None
        else:
            model = LoggedRidge(log, penalty=0.5).fit(trial.X, trial.y)
            expected = model.predict(trial.X_test)
            error = np.sum((model.coef_ - trial.coef) ** 2) / np.sum(trial.coef**2)
            assert row["metrics"]["estimation_error"] ** 2 == pytest.approx(error)
        mse = np.mean((expected - trial.y_test) ** 2)
        assert row["metrics"]["mse"] == pytest.approx(mse)
        assert row["metrics"]["released_mse"] == pytest.approx((mse / 20) ** 0.5)


def test_trials_repeat_by_seed_and_the_fault_empties_samples():
    one, two = (draw_trial("simulated", SIMULATED, 1, 7) for _ in "ab")
    np.testing.assert_array_equal(one.X, two.X)
    other = draw_trial("simulated", SIMULATED, 2, 7)
    assert not np.array_equal(one.coef, other.coef)
    faulty = draw_trial("simulated", SIMULATED | {"fault": True}, 1, 7)
    np.testing.assert_array_equal(faulty.X[:2], one.X[:2])
    assert np.all(faulty.X[2:] == 0)
    np.testing.assert_array_equal(faulty.y, one.y)
    np.testing.assert_array_equal(faulty.X_test, one.X_test)


def test_finished_experiment_is_not_run_again(tmp_path, log):
    first = run(SPEC, cheap(log), tmp_path / "out")
    n_fits = len(fits(log))
    again = run(SPEC, cheap(log), tmp_path / "out")
    assert again == first
    assert len(fits(log)) == n_fits


def test_quick_version_is_part_of_the_full_one(tmp_path, log):
    quick = run(SPEC.quick(), cheap(log), tmp_path / "out")
    assert len(quick) == 1 * 2 * 2
    full = run(SPEC, cheap(log), tmp_path / "out")
    assert len(full) == 12
    assert len(fits(log)) == 6
    alone = run(SPEC, cheap(log), tmp_path / "other")
    assert stable(full) == stable(alone)


def test_other_candidates_are_other_work(tmp_path, log):
    run(SPEC.quick(1), cheap(log), tmp_path / "out")
    other = replace(SPEC, candidates={"ridge": {"penalty": 9.0}}).quick(1)
    run(other, cheap(log), tmp_path / "out")
    assert len(fits(log)) == 2


def test_result_does_not_depend_on_workers(tmp_path, log):
    one = run(SPEC, cheap(log), tmp_path / "one")
    with parallel_config("threading"):
        two = run(SPEC, cheap(log), tmp_path / "two", n_jobs=2)
    assert stable(one) == stable(two)


def test_specs_travel_to_other_processes():
    assert pickle.loads(pickle.dumps(SPEC)) == SPEC
    assert [job.key() for job in pickle.loads(pickle.dumps(SPEC)).jobs()] == [
        job.key() for job in SPEC.jobs()
    ]


def test_killed_run_resumes_and_repeats_nothing(tmp_path, log):
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import test_run as t\n"
        "t.run(t.SPEC, t.cheap(sys.argv[2], kill_at=4), sys.argv[3])\n"
    )
    here, out = str(Path(__file__).parent), tmp_path / "out"
    killed = subprocess.run(
        [sys.executable, "-c", code, here, str(log), str(out)], check=False
    )
    assert killed.returncode == -9
    done = read_rows(out / "cheap.jsonl")
    assert 0 < len(done) < 12
    assert len(fits(log)) == 4
    # Killed once more, while it wrote a line:
    with (out / "cheap.jsonl").open("a") as file:
        file.write('{"key": "half a li')
    resumed = run(SPEC, cheap(log), out)
    # Six fits of ridge in all; the one that was killed is the only one made twice.
    assert len(fits(log)) == 7
    assert all(row in resumed for row in done)
    assert stable(resumed) == stable(run(SPEC, cheap(log), tmp_path / "whole"))
    assert [path.name for path in out.iterdir()] == ["cheap.jsonl"]


def start(log, out, **options):
    """Start a run in a process of its own, which waits for a line before it begins."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import test_run as t\n"
        "print('ready', flush=True); input()\n"
        f"t.run(t.SPEC, t.cheap(sys.argv[2], **{options}), sys.argv[3])\n"
    )
    command = [sys.executable, "-c", code, str(Path(__file__).parent), log, out]
    process = subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    return process


def test_two_runs_on_one_folder_share_the_work(tmp_path, log):
    out = tmp_path / "out"
    runs = [start(log, out, seconds=0.3) for _ in range(2)]
    for process in runs:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in runs:
        process.communicate()
        assert process.returncode == 0
    # Six fits of ridge in all, by both.
    workers = [line.rpartition(" ")[2] for line in fits(log)]
    assert len(workers) == 6
    assert len(set(workers)) == 2
    assert len((out / "cheap.jsonl").read_text().splitlines()) == 12
    assert [path.name for path in out.iterdir()] == ["cheap.jsonl"]


def test_a_run_does_not_wait_for_one_that_was_killed(tmp_path, log):
    other = start(log, tmp_path / "out", seconds=60.0)
    other.stdin.write("\n")
    other.stdin.flush()
    while not log.exists():
        time.sleep(0.05)
    killer = threading.Timer(0.5, other.kill)
    killer.start()
    rows = run(SPEC, cheap(log), tmp_path / "out")
    other.communicate()
    assert stable(rows) == stable(run(SPEC, cheap(log), tmp_path / "alone"))
    assert len(fits(log)) == 7 + 6


def test_what_another_run_tried_again_is_not_tried_twice(tmp_path, log):
    broken = cheap(log) | {"ridge": functools.partial(LoggedRidge, log=None)}
    first = run(SPEC, broken, tmp_path / "out")
    failed = next(row for row in first if row["error"])
    job = next(job for job in SPEC.jobs() if job.key() == failed["key"])
    for _ in range(2):
        key = _do(job, cheap(log)["ridge"], tmp_path / "out" / "cheap.jsonl", failed)
        assert key == failed["key"]
    assert len(fits(log)) == 1


def test_failing_method_leaves_a_row_and_the_rest_goes_on(tmp_path, log):
    broken = cheap(log) | {"ridge": functools.partial(LoggedRidge, log=None)}
    rows = run(SPEC, broken, tmp_path / "out")
    failed = [row for row in rows if row["method"] == "ridge"]
    assert all("TypeError" in row["error"] and not row["metrics"] for row in failed)
    assert all(row["error"] is None for row in rows if row["method"] == "null")
    assert "– (3 failed)" in markdown_table(rows, "mse")
    run(SPEC, cheap(log), tmp_path / "out")
    assert not log.exists()
    mended = run(SPEC, cheap(log), tmp_path / "out", retry=True)
    assert len(fits(log)) == 6
    assert all(row["error"] is None for row in mended)


def test_training_scores_and_coefficients_on_request(tmp_path, log):
    spec = replace(SPEC.quick(1), scored_on="train", keep_coef=True)
    rows = run(spec, cheap(log), tmp_path / "out")
    trial = draw_trial("simulated", SIMULATED, 0, 0)
    model = LoggedRidge(log, penalty=0.5).fit(trial.X, trial.y)
    mse = np.mean((model.predict(trial.X) - trial.y) ** 2)
    assert rows[0]["metrics"]["mse"] == pytest.approx(mse)
    stored = list((tmp_path / "out" / "coef").iterdir())
    assert [path.stem for path in stored] == [rows[0]["key"]]
    np.testing.assert_array_equal(np.load(stored[0]), model.coef_)


def test_a_coefficient_that_cannot_be_stored_leaves_no_part(tmp_path, log, monkeypatch):
    def fail(file, *_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numpy.save", fail)
    rows = run(replace(SPEC.quick(1), keep_coef=True), cheap(log), tmp_path / "out")
    assert "No space left" in rows[0]["error"]
    assert list((tmp_path / "out" / "coef").iterdir()) == []


def test_real_data_are_taken_fold_by_fold(tmp_path):
    spec = Experiment(
        "digits",
        conditions=(Condition("3 vs 8", "packaged", {"name": "digits"}),),
        methods=("null",),
        metrics=("auroc", "accuracy"),
        repetitions=6,
    )
    rows = run(spec, {"null": DummyClassifier}, tmp_path)
    data = load_packaged("digits")
    for row, (_, test) in zip(rows, data.cv, strict=False):
        assert row["metrics"]["auroc"] == 0.5
        share = np.mean(data.y[test] == 0)
        assert row["metrics"]["accuracy"] in (
            pytest.approx(share),
            pytest.approx(1 - share),
        )
    assert "the set has 5 folds" in rows[5]["error"]


def test_clips_are_split_by_film_unless_told_otherwise(monkeypatch):
    films = np.repeat([f"f{k}" for k in range(20)], 4)
    clips = Bunch(X=np.arange(80.0)[:, None], target=np.arange(80) // 40, groups=films)
    asked = []
    monkeypatch.setattr(
        "sltr.reproduction.data.load_video_folder",
        lambda folder, **options: asked.append((folder, options)) or clips,
    )
    options = {"folder": "ucf", "classes": ("a", "b")}
    trial = draw_trial("video", options, 0, 0)
    assert asked == [("ucf", {"classes": ("a", "b")})]
    assert len(trial.y_test) == 16
    assert np.bincount(trial.y_test).tolist() == [8, 8]
    test_films = set(films[trial.X_test[:, 0].astype(int)])
    assert not test_films & set(trial.groups)
    again, other = (draw_trial("video", options, r, 0) for r in (0, 1))
    np.testing.assert_array_equal(again.X, trial.X)
    assert not np.array_equal(other.X, trial.X)
    mixed = draw_trial("video", options | {"by_film": False}, 0, 0)
    assert set(films[mixed.X_test[:, 0].astype(int)]) & set(mixed.groups)


def test_table_has_means_and_standard_errors(tmp_path, log):
    rows = run(SPEC, cheap(log), tmp_path / "out")
    table = markdown_table(rows, "mse", digits=4).splitlines()
    assert table[0] == "| mse | ridge | null |"
    assert table[2].startswith("| small |")
    values = [
        row["metrics"]["mse"]
        for row in rows
        if (row["condition"], row["method"]) == ("small", "ridge")
    ]
    spread = np.std(values, ddof=1) / 3**0.5
    assert f"| {np.mean(values):.4f} ± {spread:.4f} |" in table[2]


def test_rows_survive_numbers_json_does_not_know(tmp_path):
    row = {"key": "a", "x": np.float32(1.5), "y": [np.nan, np.int64(3)], "z": (1, None)}
    append_row(tmp_path / "r.jsonl", row)
    expected = {"key": "a", "x": 1.5, "y": [None, 3], "z": [1, None]}
    assert read_rows(tmp_path / "r.jsonl") == [expected]
    assert read_rows(tmp_path / "absent.jsonl") == []


def test_rows_survive_texts_with_other_line_separators(tmp_path):
    row = {"key": "a", "error": "one\u2028two\x85three\x0c\n"}
    append_row(tmp_path / "r.jsonl", row)
    assert read_rows(tmp_path / "r.jsonl") == [row]


@pytest.mark.parametrize("line", ["[]", '{"key": []}', '{"key": KEY}', "null", "\0"])
def test_lines_that_are_no_result_are_run_again(tmp_path, log, line):
    expected = run(SPEC.quick(), cheap(log), tmp_path / "whole")
    broken = tmp_path / "out" / "cheap.jsonl"
    broken.parent.mkdir()
    broken.write_text(line.replace("KEY", json.dumps(expected[0]["key"])) + "\n")
    assert stable(run(SPEC.quick(), cheap(log), tmp_path / "out")) == stable(expected)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"methods": ("magic",)}, r"methods \['magic'\]; expected some of"),
        ({"metrics": ("luck",)}, r"metrics \['luck'\]"),
        ({"candidates": {"magic": {}}}, r"candidates \['magic'\]"),
        ({"conditions": (Condition("a", "dreams"),)}, r"sources \['dreams'\]"),
    ],
)
def test_unknown_names_are_refused_before_work_begins(tmp_path, log, change, words):
    with pytest.raises(ValueError, match=words):
        run(replace(SPEC, **change), cheap(log), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_folder_that_cannot_take_results_is_named(tmp_path, log):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot take results"):
        run(SPEC, cheap(log), tmp_path / "file")
