"""Options, configuration files, wrong usage and output of the command line."""

import csv
import json
import os
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer")

from sklearn.model_selection import LeaveOneOut, cross_val_predict

import sltr
from sltr import TensorRidge, load
from sltr.cli import data as environment
from sltr.cli.entry import app, main
from sltr.cli.output import print_json, print_scores
from sltr.comparison import fit_tuned
from sltr.peers.elementary import loo_score
from sltr.reproduction.reproduce import Reproduced

COMMANDS = [command.callback.__name__ for command in app.registered_commands]
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def here(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4, 3))
    y = X[:, 0, 0] + X[:, 1, 1] + 0.1 * rng.normal(size=40)
    np.savez(tmp_path / "data.npz", X=X, y=y, run=np.arange(40) // 4)
    np.save(tmp_path / "X.npy", X)
    names = np.where(y > 0, "up", "down")
    lines = [
        f"{n},{v:.3f},{k % 7}" for k, (n, v) in enumerate(zip(names, y, strict=True))
    ]
    (tmp_path / "t.csv").write_text("label,value,age\n" + "\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments):
    return main([str(argument) for argument in arguments])


def test_help_starts_with_commands_to_type(capsys):
    assert run("--help") == 0
    assert "sltr simulate data.npz" in capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples_and_is_in_the_docs(name, capsys):
    assert run(name, "--help") == 0
    text = capsys.readouterr().out
    assert f"sltr {name}" in text
    assert "Examples" in text
    assert f"sltr {name}" in (DOCS / "cli.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["fti"], 2, "No such command 'fti'"),
        (["fit"], 2, "Missing argument"),
        (["fit", "data.npz", "--lambda-spars", "1"], 2, "--lambda-sparse"),
        (["fit", "data.npz", "--lambda-sparse", "much"], 2, "'--lambda-sparse'"),
        (["fit", "data.npz", "--epsilon", "much"], 2, "expected a number, or loo"),
        (["fit", "data.npz", "--refine", "tukker"], 2, "did you mean 'tucker'"),
        (["fit", "data.npz", "--task", "regresion"], 2, "did you mean 'regression'"),
        (["fit", "data.npz", "--lambda-sparse", "3"], 2, "--lambda-sparse=3 was given"),
        (["fit", "data.npz", "--lambda-low", "-1"], 2, "--absolute takes radii"),
        (["fit", "none.npz"], 1, "none.npz does not exist"),
        (["fit", "data.npz", "--target", "z"], 1, "has no ['z']; it holds"),
        (["fit", "X.npy"], 1, "holds samples alone"),
        (["fit", "X.npy", "--y", "t.csv", "--target", "sex"], 1, "has no ['sex']"),
        (["fit", "none.npz", "--out", "no/m.sltr"], 1, "no/m.sltr was given; expected"),
        (["tune", "none.npz", "--out", "no/m.sltr"], 1, "Make the folder"),
        (["report", "m.sltr", "data.npz", "--out", "no/r.html"], 1, "no/r.html was"),
        (["predict", "m.sltr", "data.npz", "--out", "no/p.csv"], 1, "no/p.csv was"),
        (
            ["predict", "m.sltr", "data.npz", "--out", "p.txt"],
            2,
            "ends in .csv or .npy",
        ),
        (["report", "m.sltr", "data.npz", "--test-y", "y.npy"], 2, "expected --test"),
        (["fit", "data.npz", "--device", "cuda:99"], 1, "device='cuda:99' was given"),
        (["tune", "data.npz", "--device", "gpu"], 1, "one PyTorch can use here: cpu"),
        (["tune", "data.npz", "--method", "remus"], 1, "did you mean 'remurs'"),
        (
            ["tune", "data.npz", "--method", "cp", "--memory-limit", "1GB"],
            2,
            "--memory-limit=1GB was given; CP",
        ),
        (
            ["tune", "data.npz", "--method", "surf", "--epsilons", "1"],
            2,
            "--epsilons=1 was given; SURF",
        ),
        (["tune", "data.npz", "--epsilons", "1,a"], 2, "expected numbers as 1,10"),
        (["tune", "none.npz", "--method", "null"], 2, "--method=null was given"),
        (["tune", "data.npz", "--folds", "1"], 1, "folds=1 was given; expected 2 to"),
        (
            ["tune", "data.npz", "--folds", "11", "--groups", "run"],
            1,
            "expected 2 to 10, the number of groups",
        ),
        (["tune", "none.npz", "--jobs", "0"], 2, "expected 1 or more, or -1"),
        (["compare", "none.npz", "-j", "0"], 2, "expected 1 or more, or -1"),
        (["reproduce", "noise", "--jobs", "0"], 2, "expected 1 or more, or -1"),
        (["fit", "data.npz", "--mask", "m.nii"], 2, "expected NIfTI images"),
        (["compare", "data.npz", "--seed", "-1"], 2, "'--seed'"),
        (["reproduce", "ucf101"], 1, "(--data)"),
        (["compare", "data.npz", "--methods", "lassso"], 1, "did you mean 'lasso'"),
        (["compare", "data.npz", "--folds", "1"], 1, "folds=1 was given"),
        (["compare", "data.npz", "--family", "poison"], 2, "did you mean 'poisson'"),
        (["predict", "none.sltr", "data.npz"], 1, "none.sltr"),
        (["predict", "data.npz", "data.npz"], 1, "data.npz"),
        (["report", "t.csv", "data.npz"], 1, "t.csv"),
        (["simulate", "d.npz", "--shape", "a,b"], 2, "such as 16,16,8"),
        (["simulate", "d.npz", "--truth", "cpp"], 1, "cpp"),
        (
            ["simulate", "d.npz", "--test-samples", "-5"],
            2,
            "--test-samples=-5 was given",
        ),
        (["simulate", "d.npz", "--samples", "0"], 2, "--samples=0 was given"),
        (["simulate", "d"], 2, "d was given; expected a name that ends in .npz"),
        (["simulate", "no/d.npz"], 1, "no/d.npz was given; expected"),
        (["info", "--config", "none.toml"], 2, "none.toml"),
    ],
)
def test_wrong_usage_is_one_line_and_a_status(here, capsys, arguments, status, message):
    assert run(*arguments) == status
    out, err = capsys.readouterr()
    *notes, last = err.splitlines()
    assert last.startswith("Error: ")
    assert message in last
    assert all(note.startswith("Responses are") for note in notes)
    assert out == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("fit", "none.npz", "--out", "pipe"),
        ("tune", "none.npz", "--out", "pipe"),
        ("predict", "none.sltr", "none.npz", "--out", "pipe.csv"),
        ("report", "none.sltr", "none.npz", "--out", "pipe"),
        ("test", "none.npz", "--plot", "pipe.png"),
        ("stability", "none.npz", "--out", "pipe.npz"),
        ("stability", "none.npz", "--plot", "pipe.png"),
        ("export", "none.sltr", "pipe.csv"),
        ("plot", "none.sltr", "pipe.png"),
        ("simulate", "pipe.npz"),
        ("simulate", "new.npz", "--test-samples", "2"),
    ],
)
def test_what_is_no_file_is_refused_before_any_work(here, capsys, arguments):
    names = ("pipe", "pipe.csv", "pipe.npz", "pipe.png", "new-test.npz")
    pipes = [here / name for name in names]
    for pipe in pipes:
        os.mkfifo(pipe)
    assert run(*arguments) == 1
    assert re.search("pipe|new-test", capsys.readouterr().err)
    assert all(pipe.is_fifo() for pipe in pipes)
    assert not (here / "new.npz").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("fit", "data.npz", "--out", "data.npz"),
        ("fit", "data.npz", "--out", "link"),
        ("tune", "X.npy", "--y", "t.csv", "--out", "t.csv"),
        ("predict", "m.sltr", "X.npy", "--out", "X.npy"),
        ("report", "m.sltr", "data.npz", "--out", "m.sltr"),
        ("report", "m.sltr", "data.npz", "--test", "X.npy", "--out", "./X.npy"),
        ("stability", "data.npz", "--out", "data.npz"),
        ("export", "m.csv", "m.csv"),
        ("plot", "m.png", "m.png"),
        ("fit", "data.npz", "--config", "c.toml", "--out", "c.toml"),
        ("test", "data.npz", "--config", "c.png", "--plot", "c.png"),
        ("fit", "scans", "--y", "t.csv", "--out", "scans/sub/a.nii.gz"),
        ("tune", "films", "--out", "films/../films/jumping/b.MP4"),
        ("fit", "store.zarr", "--out", "store.zarr/X/c/0"),
    ],
)
def test_what_is_read_is_not_replaced(here, capsys, arguments):
    Path("link").symlink_to("data.npz")
    for name in ("c.toml", "c.png"):
        Path(name).write_text("seed = 1\n")
    for name in ("scans/sub/a.nii.gz", "films/jumping/b.MP4", "store.zarr/X/c/0"):
        Path(name).parent.mkdir(parents=True)
        Path(name).touch()
    for name in ("m.sltr", "m.csv", "m.png"):
        sltr.save(sltr.SLTRRegressor(), name)
    files = [path for path in here.rglob("*") if path.is_file()]
    before = {path: path.read_bytes() for path in files}
    assert run(*arguments) == 1
    said = capsys.readouterr().err
    assert re.search("expected another file than (those|the samples).* read", said)
    assert {path: path.read_bytes() for path in files} == before


def test_settings_without_end_are_not_read(here, capsys):
    Path("c.toml").symlink_to("/dev/zero")
    assert run("fit", "data.npz", "--config", "c.toml", "--out", "m.sltr") == 2
    assert "cannot be read as TOML" in capsys.readouterr().err


def test_a_figure_that_cannot_be_drawn_leaves_what_was_there(here, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    def half(figure, file, **options):
        Path(file).write_bytes(b"half")
        raise OSError("No space left on device")

    X = np.random.default_rng(0).normal(size=(12, 3, 2))
    sltr.save(sltr.SLTRRegressor().fit(X, X[:, 0, 0]), "m.sltr")
    (here / "a.png").write_bytes(b"before")
    with monkeypatch.context() as patch:
        patch.setattr(Figure, "savefig", half)
        assert run("plot", "m.sltr", "a.png") == 1
    assert (here / "a.png").read_bytes() == b"before"
    assert run("plot", "m.sltr", "a.png", "--dpi", "30") == 0
    assert (here / "a.png").read_bytes()[:4] == b"\x89PNG"
    assert run("plot", "m.sltr", "a.txt") == 2
    assert "expected one of .png" in capsys.readouterr().err


def test_simulate_says_what_it_replaces_and_leaves_no_stale_test_file(here, capsys):
    small = ("--shape", "3,2", "--samples", "5")
    assert run("simulate", "d.npz", *small, "--test-samples", "4") == 0
    assert "Wrote d.npz.\nWrote d-test.npz.\n" in capsys.readouterr().err
    before = (here / "d.npz").read_bytes(), (here / "d-test.npz").read_bytes()
    assert run("simulate", "d.npz", *small, "--seed", "1") == 2
    assert "d-test.npz is there; expected none" in capsys.readouterr().err
    assert before == ((here / "d.npz").read_bytes(), (here / "d-test.npz").read_bytes())
    again = ("--seed", "1", "--test-samples", "4")
    assert run("simulate", "d.npz", *small, *again) == 0
    assert "Replaced d.npz.\nReplaced d-test.npz.\n" in capsys.readouterr().err


LABELS = ["=1+1", "@x", "-1.5", "a\x1b[2J\x9bb"]
CELLS = ["'=1+1", "'@x", "-1.5", "a\x1b[2J\x9bb"]


@pytest.fixture
def odd_labels(here):
    X = np.repeat(np.eye(4), 6, axis=0).reshape(24, 2, 2) + 0.01
    model = sltr.SLTRClassifier().fit(X, np.repeat(LABELS, 6))
    sltr.save(model, "odd.sltr")
    np.save("odd.npy", X[::6])
    return here


def test_labels_are_no_formulas_for_spreadsheets(odd_labels, capsys):
    assert run("predict", "odd.sltr", "odd.npy", "--out", "p.csv") == 0
    with Path("p.csv").open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert [row[1] for row in rows] == CELLS
    assert head[2:] == [f"probability of {label}" for label in sorted(LABELS)]
    assert all(0 <= float(cell) <= 1 for row in rows for cell in row[2:])
    capsys.readouterr()
    assert run("predict", "odd.sltr", "odd.npy") == 0
    assert capsys.readouterr().out == Path("p.csv").read_text(encoding="utf-8")


def test_no_control_character_reaches_a_terminal(odd_labels, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    name = "a\x1b[2J\x9b\u202e.npz"
    for arguments in (
        ("predict", "odd.sltr", "odd.npy"),
        ("predict", "odd.sltr", "odd.npy", "--json"),
        ("predict", "odd.sltr", name),
        ("simulate", name, "--shape", "3,2", "--samples", "5"),
        ("simulate", name, "--shape", "3,2", "--samples", "5", "--json"),
        ("fit", name, "--out", f"{name}.sltr"),
        ("fit", name, "--epsilon", "\x1b[2J"),
        ("fit", name, "--\x1b[2J"),
        ("reproduce", "\x1b[2J"),
    ):
        run(*arguments)
        out, err = capsys.readouterr()
        assert out + err
        assert (out + err).replace("\n", "").isprintable(), arguments


def test_json_with_control_characters_is_exact(capsys):
    value = ["é", "\x7f\x9b\u202e\U0001f600", "\n"]
    print_json(value)
    assert json.loads(capsys.readouterr().out) == value


def test_a_config_file_fills_only_what_is_not_given(here, capsys):
    text = 'lambda-sparse = 0.7\n[fit]\nlambda_low = 0.6\nrefine = "scale"\n'
    (here / "c.toml").write_text(text + "[tune]\nmethod = 'x'\n")
    command = ("fit", "data.npz", "--config", "c.toml")
    assert run(*command, "--lambda-low", "0.2") == 0
    model = load("model.sltr")
    assert (model.lambda_sparse, model.lambda_low, model.refine) == (0.7, 0.2, "scale")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[fit]\nlambda_lo = 1\n", "did you mean 'lambda_low'"),
        ("not toml", "cannot be read as TOML"),
        ("[fit]\nlambda_low = 'x'\n", "'--lambda-low'"),
        (
            "lambda_lo = 1\n",
            "'lambda_lo', which no command has; did you mean 'lambda_low'",
        ),
        ("[fitt]\nlambda_low = 1\n", "[fitt], which is no command; did you mean 'fit'"),
        ("fit = 1\n", "'fit', which no command has"),
    ],
)
def test_a_bad_config_file_is_refused(here, capsys, text, message):
    (here / "c.toml").write_text(text)
    assert run("fit", "data.npz", "--config", "c.toml") == 2
    assert message in capsys.readouterr().err


def test_a_config_file_may_list_methods(here, capsys):
    (here / "c.toml").write_text('[compare]\nmethods = ["elem_ridge"]\nfolds = 2\n')
    assert run("compare", "data.npz", "--config", "c.toml", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [line["n_folds"] for line in found["summary"]] == [2, 2, 2]


def test_a_config_file_may_give_one_file_for_an_option_that_repeats(here):
    assert run("fit", "data.npz") == 0
    (here / "c.toml").write_text('[report]\ntest = "data.npz"\n')
    assert run("report", "model.sltr", "data.npz", "--config", "c.toml") == 0
    assert "On 40 held-out" in (here / "report.html").read_text(encoding="utf-8")


def test_a_report_takes_held_out_responses_from_another_file(here, capsys):
    source = ("X.npy", "--y", "t.csv", "--target", "value")
    assert run("fit", *source) == 0
    test = ("--test", "X.npy")
    assert run("report", "model.sltr", *source, *test) == 1
    assert "holds samples alone" in capsys.readouterr().err
    assert run("report", "model.sltr", *source, *test, "--test-y", "t.csv") == 0
    page = (here / "report.html").read_text(encoding="utf-8")
    assert "On 40 held-out samples" in page


def test_a_report_masks_held_out_images(here):
    nibabel = pytest.importorskip("nibabel")
    rng = np.random.default_rng(0)
    for name, n in (("train", 20), ("new1", 6), ("new2", 4)):
        image = nibabel.Nifti1Image(rng.normal(size=(5, 4, 3, n)), np.eye(4))
        nibabel.save(image, f"{name}.nii.gz")
    inside = np.zeros((5, 4, 3))
    inside[1:4, 1:3, :2] = 1
    nibabel.save(nibabel.Nifti1Image(inside, np.eye(4)), "mask.nii.gz")
    np.save("y.npy", rng.normal(size=20))
    np.save("new-y.npy", rng.normal(size=10))
    source = ("train.nii.gz", "--y", "y.npy", "--mask", "mask.nii.gz")
    assert run("fit", *source) == 0
    test = ("--test", "new1.nii.gz", "--test", "new2.nii.gz", "--test-y", "new-y.npy")
    assert run("report", "model.sltr", *source, *test) == 0
    page = (here / "report.html").read_text(encoding="utf-8")
    assert "On 10 held-out samples" in page


def test_settings_of_a_refit_are_told_by_name(here, capsys):
    assert run("tune", "data.npz", "--json") == 0
    found, model = json.loads(capsys.readouterr().out), load("model.sltr")
    assert "refine settings" not in found
    assert found["candidates averaged"] == np.count_nonzero(model.weights_)
    names = {
        "cp": ["rank", "ridge"],
        "tucker": ["rank", "ridge"],
        "reweight": ["steps"],
    }
    told = [found[name] for name in names[model.refine_]]
    assert told == json.loads(json.dumps(model.refine_settings_))


def test_a_comparison_tells_each_fit_where_there_is_no_terminal(here, capsys):
    options = ("--methods", "elem_ridge", "--folds", "2")
    assert run("compare", "data.npz", *options) == 0
    lines = capsys.readouterr().err.splitlines()
    fits = [line for line in lines if line.startswith("Comparing: ")]
    assert len(fits) == 6
    assert fits[1] == "Comparing: Ridge, fold 1 (2 of 6)"
    assert run("compare", "data.npz", *options, "--json") == 0
    assert "Comparing" not in capsys.readouterr().err


def test_failed_results_are_told_and_run_again_on_request(here, capsys, monkeypatch):
    asked = []

    def stand_in(name, **options):
        asked.append((options["retry"], options["classes"]))
        return Reproduced(name, (), (), (), n_failed=2)

    monkeypatch.setattr(sltr.reproduction, "reproduce", stand_in)
    assert run("reproduce", "ucf101", "--pair", "A, B") == 0
    assert "2 results failed; --retry runs them again" in capsys.readouterr().err
    assert run("reproduce", "ucf101", "--retry") == 0
    assert asked == [(False, [("A", "B")]), (True, None)]


def test_the_version_is_told(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out == f"sltr {sltr.__version__}\n"


def test_absolute_radii_may_be_large(here):
    assert run("fit", "data.npz", "--lambda-sparse", "3", "--absolute") == 0
    assert load("model.sltr").lambda_sparse == 3


@pytest.mark.parametrize(
    ("given", "expected"), [("1,10", (1.0, 10.0)), ("paper", "paper"), ("loo", "loo")]
)
def test_penalties_of_the_pilot_are_those_asked_for(here, given, expected):
    assert run("tune", "data.npz", "--epsilons", given) == 0
    assert load("model.sltr").epsilons == expected


@pytest.mark.parametrize("command", ["fit", "tune"])
def test_the_next_command_reads_the_same_data(here, capsys, command):
    source = ("X.npy", "--y", "t.csv", "--target", "value")
    assert run(command, *source, "--out", "my model.sltr") == 0
    hint = capsys.readouterr().err.splitlines()[-1].partition("Next: ")[2]
    assert shlex.split(hint) == ["sltr", "report", "my model.sltr", *source]


@pytest.mark.parametrize(
    ("method", "target", "metric"),
    [
        ("sltr", "value", "R²"),
        ("sltr", "label", "R² of the classes' indicators"),
        ("remurs", "label", "accuracy"),
        ("lasso", "value", "minus MSE"),
    ],
)
def test_the_best_score_says_what_it_is(here, capsys, method, target, metric):
    source = ("X.npy", "--y", "t.csv", "--target", target, "--method", method)
    assert run("tune", *source, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["scored by"] == metric
    assert found["best score"] <= 1


def test_labels_become_labels_with_probabilities(here, capsys):
    assert run("fit", "X.npy", "--y", "t.csv", "--target", "label") == 0
    assert "labels: binary" in capsys.readouterr().err
    assert run("predict", "model.sltr", "X.npy", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["prediction"]) == {"up", "down"}
    sums = np.add(found["probability of up"], found["probability of down"])
    np.testing.assert_allclose(sums, 1)


def test_groups_and_covariates_reach_the_method(here, capsys):
    options = ("--y", "t.csv", "--target", "value", "--covariates", "age")
    assert run("tune", "X.npy", *options, "--method", "cp") == 0
    assert load("model.sltr").covariate_coef_.shape == (1,)
    given = ("--y", "t.csv", "--covariates", "age", "--out", "p.npy")
    assert run("predict", "model.sltr", "X.npy", *given) == 0
    assert np.load("p.npy").shape == (40,)
    capsys.readouterr()
    assert run("tune", "X.npy", *options, "--method", "ridge") == 1
    assert "takes no covariates" in capsys.readouterr().err
    words = (*options[:-1], "age,label")
    for command in ("fit", "tune"):
        assert run(command, "X.npy", *words) == 0
        assert load("model.sltr").covariate_names_[0] == "0"
        assert run("predict", "model.sltr", "X.npy", *given[:3], "age,label") == 0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--target", "label"), "the labels are words"),
        (("--target", "age", "--task", "classification"), "more than two classes"),
    ],
)
def test_a_method_without_classifier_refuses_labels(here, capsys, options, reason):
    source = ("X.npy", "--y", "t.csv", "--method", "lasso")
    assert run("tune", *source, *options) == 1
    error = capsys.readouterr().err
    assert f"{reason}; expected labels 0 and 1, or one of the methods sltr" in error


def test_covariates_are_asked_for_where_they_belong(here, capsys):
    options = ("--y", "t.csv", "--target", "value", "--method", "cp")
    source = ("X.npy", "--y", "t.csv", "--covariates", "age")
    assert run("tune", "X.npy", *options, "--out", "plain.sltr") == 0
    assert run("predict", "plain.sltr", *source) == 1
    assert "Leave --covariates out" in capsys.readouterr().err
    assert run("tune", "X.npy", *options, "--covariates", "age") == 0
    assert capsys.readouterr().err.endswith(" --target value --covariates age\n")
    assert run("predict", "model.sltr", "X.npy") == 1
    assert "was fitted with 1. Name them by --covariates" in capsys.readouterr().err
    assert run("report", "model.sltr", "X.npy", *options[:4]) == 1
    assert "was fitted with 1. Name them by --covariates" in capsys.readouterr().err
    named = ("X.npy", *options[:4], "--covariates", "age")
    assert run("report", "model.sltr", *named, "--out", "age.html") == 0
    assert "Covariates</h2>" in Path("age.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("method", ["ridge", "lasso", "sltr"])
def test_a_single_group_is_refused(here, capsys, method):
    data = dict(np.load("data.npz"), site=np.zeros(40))
    np.savez("data.npz", **data)
    assert run("tune", "data.npz", "--method", method, "--groups", "site") == 1
    assert "All samples are of one group" in capsys.readouterr().err


@pytest.mark.parametrize("method", ["ridge", "elem_ridge"])
def test_ridge_is_tuned_on_folds_of_groups_or_as_many_as_asked_for(
    here, capsys, method
):
    found = []
    for options in ((), ("--groups", "run"), ("--folds", "3")):
        assert run("tune", "data.npz", "--method", method, *options, "--json") == 0
        found.append(json.loads(capsys.readouterr().out))
    alone, groups, _ = found
    assert alone["scored by"].startswith("R²")
    assert len({facts["best score"] for facts in found}) == 3
    X, y, run_of = (np.load("data.npz")[name] for name in ("X", "y", "run"))
    expected = fit_tuned(TensorRidge(), X, y, groups=run_of).epsilon_
    assert groups["epsilon"] == expected
    table = load("model.sltr").cv_results_
    assert "split2_test_score" in table
    assert "split3_test_score" not in table


@pytest.mark.parametrize(
    ("method", "target", "setting"),
    [
        ("ridge", "value", "epsilon"),
        ("elem_ridge", "value", "lambda sparse"),
        ("ortrr", "value", "beta"),
        ("cp", "label", "alpha ridge"),
    ],
)
def test_what_a_search_chose_is_told_and_kept(here, capsys, method, target, setting):
    source = ("X.npy", "--y", "t.csv", "--target", target)
    assert run("tune", *source, "--method", method, "--json") == 0
    found, model = json.loads(capsys.readouterr().out), load("model.sltr")
    assert isinstance(found[setting], float | int)
    assert found["best score"] == pytest.approx(model.best_score_)
    if method == "ridge":
        assert found["scored by"] == "R², leave-one-out"
        return
    best = max(model.cv_results_["mean_test_score"])
    assert found["best score"] == pytest.approx(best)
    assert run("report", "model.sltr", *source) == 0


def test_leave_one_out_scores_are_those_of_a_loop(here):
    X, y = (np.load("data.npz")[name] for name in ("X", "y"))
    model = TensorRidge().fit(X, y)
    alone = cross_val_predict(TensorRidge(model.epsilon_), X, y, cv=LeaveOneOut())
    expected = 1 - np.mean((alone - y) ** 2) / np.var(y)
    assert loo_score(model, X, y) == pytest.approx(expected)


def test_a_report_names_target_if_the_responses_are_others(here, capsys):
    source = ("X.npy", "--y", "t.csv", "--target")
    assert run("fit", *source, "label") == 0
    assert run("report", "model.sltr", *source, "age") == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert "'age' are 0.0, 1.0, 2.0, 3.0, …; the model predicts" in error
    assert "some of 'down', 'up'" in error
    assert "--target" in error
    assert run("fit", *source, "value") == 0
    assert run("report", "model.sltr", *source, "label") == 1
    assert "the model predicts numbers" in capsys.readouterr().err


def test_images_of_another_shape_ask_for_the_mask(here, capsys):
    """Models of earlier versions, and of arrays, do not know their voxels."""
    nibabel = pytest.importorskip("nibabel")
    rng = np.random.default_rng(0)
    values = rng.normal(size=(5, 4, 3, 20))
    nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), "images.nii.gz")
    inside = np.zeros((5, 4, 3))
    inside[1:4, 1:3, :2] = 1
    nibabel.save(nibabel.Nifti1Image(inside, np.eye(4)), "mask.nii.gz")
    np.save("y.npy", rng.normal(size=20))
    np.save("box.npy", np.moveaxis(values[1:4, 1:3, :2], 3, 0))
    assert run("fit", "box.npy", "--y", "y.npy") == 0
    for command in (("predict",), ("report", "--y", "y.npy")):
        name, *options = command
        assert run(name, "model.sltr", "images.nii.gz", *options) == 1
        error = capsys.readouterr().err.splitlines()[-1]
        assert "fitted on (3, 2, 2). Give --mask" in error
    assert run("predict", "model.sltr", "images.nii.gz", "--mask", "mask.nii.gz") == 0


def test_cupy_is_found_by_the_name_of_its_wheel(monkeypatch):
    there = environment.environment()["optional packages"]
    assert "cupy" in there
    monkeypatch.setattr(environment, "installed_version", {"cupy-cuda12x": "14.0"}.get)
    assert environment.environment()["optional packages"]["cupy"] == "14.0"
    monkeypatch.setattr(environment, "installed_version", lambda _: None)
    told = environment.environment()["optional packages"]["cupy"]
    assert told == "not there: pip install cupy-cuda12x"


@pytest.mark.parametrize(
    "device",
    ["cpu:0", pytest.param("cuda", marks=pytest.mark.gpu)],
)
@pytest.mark.parametrize("command", ["fit", "tune"])
@pytest.mark.parametrize("target", ["value", "label"])
def test_a_model_fitted_on_a_device_is_saved_for_the_host(
    here, capsys, command, target, device
):
    torch = pytest.importorskip("torch")
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    asked = (command, "X.npy", "--y", "t.csv", "--target", target, "--out")
    assert run(*asked, "host.sltr") == 0
    assert run(*asked, "device.sltr", "--device", device) == 0
    expected, found = load("host.sltr"), load("device.sltr")
    assert type(found.coef_) is np.ndarray
    # Tuning stops at gaps of 1e-3, by which a member of the average can be lost.
    atol = 1e-3 if command == "fit" else 1e-2
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=atol)
    capsys.readouterr()
    assert run("predict", "device.sltr", "X.npy", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["prediction"]) == 40


def test_a_device_needs_pytorch_and_a_method_of_ours(here, capsys, monkeypatch):
    options = ("--method", "elem_ridge", "--device", "cpu:0")
    assert run("tune", "data.npz", *options) == 1
    assert "leave --device out" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "torch", None)
    assert run("fit", "data.npz", "--device", "cuda") == 1
    assert "needs PyTorch, which is not installed" in capsys.readouterr().err


def test_an_interrupted_command_says_so(here, monkeypatch, capsys):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("sltr.datasets.samples.load_samples", stop)
    assert run("fit", "data.npz") == 130
    assert capsys.readouterr().err.startswith("Interrupted")
    assert not (here / "model.sltr").exists()


def test_a_full_disk_leaves_the_old_model(here, monkeypatch, capsys):
    (here / "model.sltr").write_text("old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert run("fit", "data.npz") == 1
    assert "No space left on device" in capsys.readouterr().err
    assert (here / "model.sltr").read_text() == "old"
    assert not list(here.glob(".*.part"))


@pytest.mark.filterwarnings("default")
def test_warnings_are_one_line(here, capsys, monkeypatch):
    def warn(*_, **__):
        warnings.warn("first\nsecond", UserWarning, stacklevel=1)

    monkeypatch.setattr("sltr.cli.fit.write_model", warn)
    shown = warnings.showwarning
    assert run("fit", "data.npz") == 0
    assert "Warning: first second\n" in capsys.readouterr().err
    assert warnings.showwarning is shown


def test_score_table_marks_failures(capsys):
    lines = [
        {"title": "Null model", "r2": 0.0, "r2_se": 0.1, "fit_seconds": 0.5},
        {"title": "Broken", "fit_seconds": None, "error": "ValueError: no"},
    ]
    print_scores([{"error": None, **line} for line in lines])
    out, err = capsys.readouterr()
    assert re.search(r"Null model +0\.000 ± 0\.100 +0\.50", out)
    assert err == "Broken: ValueError: no\n"


def test_json_holds_no_nan(capsys):
    print_json({"a": float("nan"), "b": np.arange(2), "c": (None, "x")})
    assert json.loads(capsys.readouterr().out) == {
        "a": None,
        "b": [0, 1],
        "c": [None, "x"],
    }


def test_an_array_of_covariates_counts_its_columns(here, rng):
    Z = rng.normal(size=(40, 2))
    np.savez("wide.npz", X=rng.normal(size=(40, 4, 3)), y=Z[:, 0], Z=Z)
    options = ("--covariates", "Z")
    assert run("tune", "wide.npz", "--method", "cp", "--out", "cp.sltr", *options) == 0
    assert run("predict", "cp.sltr", "wide.npz", "--out", "p.npy", *options) == 0


def test_a_column_of_labels_is_reported(here, rng):
    X = rng.normal(size=(40, 4, 3))
    np.savez("column.npz", X=X, y=(X[:, :1, 0] > 0).astype(int))
    assert run("fit", "column.npz", "--out", "m.sltr") == 0
    assert run("report", "m.sltr", "column.npz", "--out", "r.html") == 0


def test_covariates_that_a_search_could_not_score_are_refused(here, rng, capsys):
    X, Z = rng.normal(size=(40, 4, 3)), rng.normal(size=40)
    np.savez("labels.npz", X=X, y=np.where(X[:, 0, 0] + Z > 0, "up", "down"), Z=Z)
    for method in ("cp", "remurs"):
        assert run("tune", "labels.npz", "--covariates", "Z", "--method", method) == 1
        assert "takes no covariates here" in capsys.readouterr().err


@pytest.mark.parametrize("method", ["sltr", "remurs", "cp"])
def test_tuning_of_labels_prints_area_and_accuracy(here, capsys, method):
    options = ("--y", "t.csv", "--target", "label", "--folds", 3, "--json")
    assert run("tune", "X.npy", *options, "--method", method) == 0
    found = json.loads(capsys.readouterr().out)
    model = load("model.sltr")
    for title, name in (("AUROC", "roc_auc"), ("accuracy", "accuracy")):
        mean = model.held_out_scores_[name].mean()
        assert found[f"held-out {title}"] == pytest.approx(mean)
        assert 0 < found[f"held-out {title}, standard error"] < 1
    if method != "sltr":  # accuracy chose it, on the same folds
        assert found["held-out accuracy"] == pytest.approx(found["best score"])


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_its_extra_the_program_says_what_to_install(missing):
    code = (
        f"import sys; sys.modules[{missing!r}] = None; import sltr.cli; "
        "sys.exit(sltr.cli.main(['--help']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "pip install 'sltr[cli]'" in done.stderr


@pytest.mark.parametrize("words", [("--verbose", "fit"), ("fit", "-v")])
def test_verbose_says_what_was_read_and_where_it_failed(here, capsys, words):
    assert run(*words, "data.npz", "--epsilon", 1) == 0
    assert "Read X of shape (40, 4, 3), float64." in capsys.readouterr().err
    assert run(*words, "t.csv", "--target", "none") == 1
    error = capsys.readouterr().err
    assert "Traceback" in error
    assert error.rstrip().splitlines()[-1].startswith("Error: ")
    assert run("fit", "data.npz", "--epsilon", 1) == 0
    assert "Read X" not in capsys.readouterr().err
