import functools
import json
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from sltr.reproduction.data import draw_trial
from sltr.reproduction.methods import FACTORIES, TITLES
from sltr.reproduction.published import MSE_BY_N, MSE_BY_SIZE
from sltr.reproduction.released import ReleasedNull, ReleasedSLTR
from sltr.reproduction.reproduce import EXPERIMENTS, reproduce
from sltr.reproduction.run import METRICS, Condition, read_rows
from sltr.reproduction.studies import STUDIES, under_all_protocols

sys.path.insert(0, str(Path(__file__).parent))
from cheap_methods import LoggedRidge

_TINY = under_all_protocols(
    "tiny",
    "Tiny",
    "a table small enough for a test",
    (
        Condition("4×3×2", "simulated", {"shape": (4, 3, 2), "n": 20}),
        Condition("big", "simulated", {"shape": (9, 9, 2), "n": 99}, False),
    ),
    published={"4×3×2": {"sltr_paper": 1.25, "null": 1.5}},
    source="Table 0",
    condition="size",
)
TINY = replace(
    _TINY,
    parts=tuple(
        replace(
            part,
            experiment=replace(part.experiment, repetitions=3),
            quick_methods=("null", "ridge"),
        )
        if "linear" not in part.experiment.name
        else replace(part, quick_repetitions=1)
        for part in _TINY.parts
    ),
)


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setitem(STUDIES, "tiny", TINY)


def without_time(page):
    return [line for line in page.splitlines() if "last result" not in line]


def test_every_table_and_figure_has_a_name_and_a_line():
    wanted = {"mse_by_size", "mse_by_n", "tuning_time", "video_auroc", "video_time"}
    wanted |= {"heat_maps", "ucf101", "sparsity", "noise", "error_bound", "real"}
    assert set(EXPERIMENTS) == wanted
    assert all(text and "\n" not in text for text in EXPERIMENTS.values())


@pytest.mark.parametrize("name", STUDIES)
def test_studies_name_what_exists(name):
    study = STUDIES[name]
    names = [part.experiment.name for part in study.parts]
    for column in study.columns:
        assert set(column.experiments) <= set(names)
        used = [
            p.experiment for p in study.parts if p.experiment.name in column.experiments
        ]
        known = {"fit_seconds", "n_candidates"}.union(*(e.metrics for e in used))
        assert column.metric in known
    for part in study.parts:
        assert set(part.experiment.metrics) <= set(METRICS)
        for methods in (part.experiment.methods, part.quick_methods or ()):
            assert set(methods) <= set(FACTORIES[part.factories])
            assert set(methods) <= set(TITLES)
    assert {"null", "ridge"} <= set(study.methods())
    assert {"null", "ridge"} <= set(study.version(True, None).methods())
    if study.kind == "simulated":
        assert set(study.published) <= set(study.conditions())


def test_quick_run_writes_rows_a_table_and_a_figure(tiny, tmp_path):
    steps = []
    done = reproduce(
        "tiny", quick=True, out=tmp_path, progress=lambda *step: steps.append(step)
    )
    assert [path.name for path in done.tables] == ["tiny_quick.md"]
    assert [path.name for path in done.figures] == ["tiny_quick.png"]
    assert done.figures[0].read_bytes().startswith(b"\x89PNG")
    rows = [row for path in done.rows for row in read_rows(path)]
    assert not [row["error"] for row in rows if row["error"]]
    assert steps[0] == (0, len(rows))
    assert steps[-1] == (len(rows), len(rows))
    page = done.tables[0].read_text()
    assert "a quick run" in page
    assert "| size | method | published | released, with its fault" in page
    assert "| 4×3×2 | Null model | 1.5 | " in page
    assert "| 4×3×2 | Null model, last 20 % | – | " in page
    nulls = [
        row["metrics"]["released_mse"]
        for row in rows
        if (row["experiment"], row["condition"], row["method"])
        == ("tiny_released_fault", "4×3×2", "null")
    ]
    assert f"| {np.mean(nulls):.3f} ± " in page


def test_rerun_repeats_nothing_and_the_full_run_uses_it(tiny, tmp_path):
    first = reproduce("tiny", quick=True, out=tmp_path)
    before = [path.read_bytes() for path in first.rows]
    page = first.tables[0].read_text()
    again = reproduce("tiny", quick=True, out=tmp_path)
    assert [path.read_bytes() for path in again.rows] == before
    assert again.tables[0].read_text() == page
    full = reproduce("tiny", out=tmp_path, methods=["null"])
    assert [path.name for path in full.tables] == ["tiny.md"]
    assert "the full run" in full.tables[0].read_text()
    for path, old in zip(first.rows, before, strict=True):
        assert path.read_bytes().startswith(old)


def test_killed_run_resumes_to_the_same_table(tiny, tmp_path, monkeypatch):
    log, out = tmp_path / "log", tmp_path / "out"
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import test_reproduce as t\n"
        "t.STUDIES['tiny'] = t.TINY\n"
        "t.log_ridge(sys.argv[2], kill_at=5)\n"
        "t.reproduce('tiny', quick=True, out=sys.argv[3])\n"
    )
    here = str(Path(__file__).parent)
    killed = subprocess.run(
        [sys.executable, "-c", code, here, str(log), str(out)], check=False
    )
    assert killed.returncode == -9
    assert len(log.read_text().splitlines()) == 5
    for name in ("released", "regressors"):
        monkeypatch.setitem(FACTORIES[name], "ridge", None)
    log_ridge(log)
    resumed = reproduce("tiny", quick=True, out=out)
    rows = [row for path in resumed.rows for row in read_rows(path)]
    n_ridge = sum(row["method"] == "ridge" for row in rows)
    # The fit that was killed is the only one made twice.
    assert len(log.read_text().splitlines()) == n_ridge + 1
    whole = reproduce("tiny", quick=True, out=tmp_path / "whole")
    assert without_time(resumed.tables[0].read_text()) == without_time(
        whole.tables[0].read_text()
    )


def log_ridge(log, **options):
    for name in ("released", "regressors"):
        FACTORIES[name]["ridge"] = functools.partial(
            LoggedRidge, log=str(log), **options
        )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"name": "mse_by_nn"}, "did you mean 'mse_by_n'"),
        ({"name": "xyz"}, "expected one of"),
        ({"name": "tiny", "methods": ["riddge"]}, "did you mean 'ridge'"),
        ({"name": "tiny", "methods": []}, "expected some of"),
        ({"name": "tiny", "data": "clips"}, "simulates. Omit it"),
        ({"name": "tiny", "classes": [("a", "b")]}, "no choice"),
        ({"name": "ucf101"}, "needs a folder of clips"),
        ({"name": "ucf101", "data": "not there"}, "needs a folder of clips"),
    ],
)
def test_bad_input_is_refused(tiny, tmp_path, given, words):
    with pytest.raises(ValueError, match=words):
        reproduce(**{"out": tmp_path / "out", "quick": True} | given)
    assert not list(tmp_path.rglob("*.jsonl"))


def test_output_that_cannot_be_written_is_named_before_work_starts(tiny, tmp_path):
    (tmp_path / "file").write_text("")
    asked = []
    with pytest.raises(ValueError, match="cannot take results"):
        reproduce("tiny", out=tmp_path / "file", progress=lambda *s: asked.append(s))
    assert not asked


def test_failures_are_listed_below_the_table(tiny, tmp_path, monkeypatch):
    def broken():
        raise RuntimeError("no luck today")

    monkeypatch.setitem(FACTORIES["regressors"], "ridge", broken)
    found = reproduce("tiny", quick=True, out=tmp_path)
    page = found.tables[0].read_text()
    assert found.n_failed == 2
    assert "2 of " in page
    assert "tiny_fair, 4×3×2, ridge, repetition 1: RuntimeError: no luck today" in page


def test_the_page_names_all_versions_that_made_its_rows(tiny, tmp_path):
    found = reproduce("tiny", quick=True, out=tmp_path)
    lines = found.rows[-1].read_text(encoding="utf-8").splitlines()
    old = json.loads(lines[0])
    old["versions"]["sltr"] = "0.0.0"
    lines[0] = json.dumps(old)
    found.rows[-1].write_text("\n".join(lines) + "\n", encoding="utf-8")
    page = reproduce("tiny", quick=True, out=tmp_path).tables[0].read_text()
    now = json.loads(lines[1])["versions"]["sltr"]
    assert f"sltr {now} and 0.0.0, numpy" in page


def released_errors(shape, n, fault, method, n_seeds):
    values = []
    for seed in range(n_seeds):
        options = {"shape": shape, "n": n, "n_test": 1, "truth": "paper_code"}
        trial = draw_trial("simulated", options | {"fault": fault}, 0, seed)
        model = method.fit(trial.X, trial.y)
        values.append(METRICS["released_mse"](model, trial.X, trial.y, trial))
    return np.array(values)


@pytest.mark.parametrize(
    ("shape", "n", "published"),
    [
        ((20, 20, 5), 400, MSE_BY_N["n = 400"]),
        ((30, 30, 5), 360, MSE_BY_SIZE["30×30×5"]),
    ],
)
def test_released_protocol_and_fault_land_on_the_published_numbers(shape, n, published):
    null = released_errors(shape, n, True, ReleasedNull(), 10)
    noise = np.std(null, ddof=1) / 10**0.5
    # The published number is a mean of ten trials as well.
    assert abs(null.mean() - published["sltr_paper"]) < 3 * 2**0.5 * noise
    some = ReleasedSLTR(lambdas=(0.005, 0.5), n_folds=2)
    literal = released_errors(shape, n, True, some, 4)
    np.testing.assert_allclose(literal, null[:4], rtol=0.02)
    if n == 360:
        without = released_errors(shape, n, False, some, 1)
        assert without[0] < 0.5 * null[0]


def encode(path, frames):
    av = pytest.importorskip("av")
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=25)
        stream.width, stream.height = frames.shape[2], frames.shape[1]
        stream.pix_fmt, stream.bit_rate = "yuv420p", 2_000_000
        for k, image in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts, frame.time_base = k, Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def moving_square(rng, *, down):
    frames = rng.integers(0, 60, (10, 48, 64, 3), dtype=np.uint8)
    off = rng.integers(0, 12)
    for k in range(10):
        top, left = (3 * k, 20 + off) if down else (14 + off, 5 * k)
        frames[k, top : top + 14, left : left + 14] = 220
    return frames


@pytest.fixture
def clips(tmp_path):
    rng = np.random.default_rng(0)
    for k in range(20):
        for name in ("Down", "Across"):
            file = f"v_{name}_g{k // 2:02d}_c{k % 2 + 1:02d}.avi"
            frames = moving_square(rng, down=name == "Down")
            encode(tmp_path / "clips" / name / file, frames)
    return tmp_path / "clips"


def test_videos_from_encoded_clips_to_heat_maps(clips, tmp_path):
    given = {"quick": True, "data": clips, "out": tmp_path / "out"}
    with pytest.raises(ValueError, match=r"\['Across', 'Down'\]"):
        reproduce("ucf101", **given)
    done = reproduce(
        "ucf101",
        classes=[("Across", "Down")],
        methods=["null", "ridge", "lasso"],
        **given,
    )
    rows = [row for path in done.rows for row in read_rows(path)]
    assert not [row["error"] for row in rows if row["error"]]
    fair = {r["method"]: r["metrics"] for r in rows if r["experiment"] == "video_fair"}
    assert fair["null"]["auroc"] == 0.5
    assert fair["ridge"]["auroc"] > 0.9
    assert [path.name for path in done.figures] == [
        "ucf101_quick.png",
        "ucf101_quick_Across_Down.png",
    ]
    before = done.rows[0].read_bytes()
    more = ["ridge", "sltr_paper"]
    part = reproduce("heat_maps", classes=[("Across", "Down")], methods=more, **given)
    assert "SLTR, paper's form" in part.tables[0].read_text()
    assert part.figures[-1].name == "heat_maps_quick_Across_Down.png"
    assert done.rows[0].read_bytes() == before
    json.loads(before.splitlines()[0])


def test_real_sets_need_their_folder_only_where_they_are_not_packaged(
    tmp_path, monkeypatch
):
    monkeypatch.delenv("SLTR_DATA", raising=False)
    done = reproduce("real", quick=True, out=tmp_path, methods=["null"])
    page = done.tables[0].read_text()
    assert "| digits, 3 or 8 | Null model | 0.500 ± 0.000 |" in page
    assert "sugar" not in page


def test_a_folder_of_real_sets_that_is_not_there_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("SLTR_DATA", "no/such/folder")
    with pytest.raises(ValueError, match="expected the folder of real sets"):
        reproduce("real", quick=True, out=tmp_path)
