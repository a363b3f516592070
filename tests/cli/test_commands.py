"""Every command as a user runs it, on tiny data; some in a process of their own."""

import csv
import io
import json
import re
import subprocess
import sys
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from types import SimpleNamespace

import numpy as np
import pytest

from sltr import load

pytest.importorskip("typer")

from sltr.cli import main


def sltr(*arguments, folder):
    """Run a command in this process: to load everything takes most of the time."""
    out, err = io.StringIO(), io.StringIO()
    with (
        chdir(folder),
        redirect_stdout(out),
        redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")
        status = main(list(map(str, arguments)))
    found = {"stdout": out.getvalue(), "stderr": err.getvalue()}
    return SimpleNamespace(returncode=status, **found)


def process(*arguments, folder):
    """Run a command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "sltr", *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with data and a model, made by the commands themselves."""
    path = tmp_path_factory.mktemp("cli")
    options = ("--shape", "5,4,3", "--samples", 40, "--test-samples", 20)
    made = process("simulate", "data.npz", *options, folder=path)
    assert (made.returncode, made.stdout.splitlines()[0]) == (
        0,
        "files                      data.npz, data-test.npz",
    )
    fitted = process("fit", "data.npz", "--refine", "scale", "--json", folder=path)
    assert fitted.returncode == 0, fitted.stderr
    assert json.loads(fitted.stdout)["model"] == "SLTRRegressor"
    return path


def test_simulate_draws_one_coefficient_for_both_files(folder):
    train, test = np.load(folder / "data.npz"), np.load(folder / "data-test.npz")
    assert train["X"].shape == (40, 5, 4, 3)
    assert test["X"].shape == (20, 5, 4, 3)
    np.testing.assert_array_equal(train["coef"], test["coef"])
    fitted = np.einsum("nijk,ijk->n", test["X"], test["coef"])
    assert np.corrcoef(fitted, test["y"])[0, 1] > 0.9


def test_samples_beyond_the_memory_limit_stay_in_their_file(folder):
    drawn = np.random.default_rng(0).normal(size=(100, 20, 10, 8))
    np.save(folder / "X.npy", drawn)
    np.save(folder / "y.npy", drawn[:, :3].sum(axis=(1, 2, 3)))
    common = ("fit", "X.npy", "--y", "y.npy", "--epsilon", "10", "--json")
    found = []
    for name, limit in (("here", "1GB"), ("there", "1MB")):
        options = ("--memory-limit", limit, "--out", f"{name}.sltr")
        done = sltr(*common, *options, folder=folder)
        assert done.returncode == 0, done.stderr
        found.append(load(folder / f"{name}.sltr"))
    np.testing.assert_allclose(found[0].coef_, found[1].coef_, atol=1e-10)
    assert found[1].memory_limit == "1MB"
    done = sltr(*common, "--refine", "cp", "--memory-limit", "1MB", folder=folder)
    assert done.returncode != 0
    assert "memory_limit leaves no room for refits" in done.stderr


def test_a_zarr_file_beyond_the_limit_is_fitted_and_predicted(folder):
    zarr = pytest.importorskip("zarr")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 50, 60))
    group = zarr.open_group(str(folder / "large.zarr"), mode="w")
    group.create_array("X", data=X)
    group.create_array("y", data=X[:, 0, 0])
    limit = ("--memory-limit", "1MB")
    sltr("fit", "large.zarr", *limit, "--out", "large.sltr", folder=folder)
    sltr("predict", "large.sltr", "large.zarr", "--out", "large.npy", folder=folder)
    predicted = np.load(folder / "large.npy")
    np.testing.assert_allclose(predicted, load(folder / "large.sltr").predict(X))


def test_fit_writes_a_model_that_loads(folder):
    model = load(folder / "model.sltr")
    assert model.coef_.shape == (5, 4, 3)
    assert model.refine == "scale"


def test_predict_prints_what_the_model_says(folder):
    done = process("predict", "model.sltr", "data-test.npz", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    printed = [float(row["prediction"]) for row in rows]
    model = load(folder / "model.sltr")
    expected = model.predict(np.load(folder / "data-test.npz")["X"])
    np.testing.assert_allclose(printed, expected, rtol=1e-12)


def test_tune_chooses_and_says_what(folder):
    done = sltr("tune", "data.npz", "--out", "tuned.sltr", "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    model = load(folder / "tuned.sltr")
    assert found["model"] == "SLTRRegressorCV"
    assert found["lambda sparse"] == model.lambda_sparse_
    assert found["best score"] == pytest.approx(model.best_score_)
    assert "sltr report tuned.sltr data.npz" in done.stderr


def test_counts_are_fitted_by_likelihood(folder):
    data = dict(np.load(folder / "data.npz"))
    y = np.random.default_rng(0).poisson(np.exp(data["y"] / np.std(data["y"])))
    np.savez(folder / "counts.npz", X=data["X"], y=y.astype(float))
    common = ("counts.npz", "--family", "poisson", "--out", "counts.sltr", "--json")
    for command in ("fit", "tune"):
        done = sltr(command, *common, folder=folder)
        assert done.returncode == 0, done.stderr
        model = load(folder / "counts.sltr")
        assert model.family == "poisson"
        assert (model.predict(data["X"]) > 0).all()
    assert "held-out D²" in json.loads(done.stdout)
    other = sltr("tune", *common, "--method", "lasso", folder=folder)
    assert other.returncode != 0
    assert "--family=poisson" in other.stderr.replace("\n", "")


def test_compare_prints_one_fair_table(folder):
    options = ("--methods", "elem_ridge", "--folds", 2, "--json")
    done = sltr("compare", "data.npz", *options, folder=folder)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    lines = {line["method"]: line for line in found["summary"]}
    assert list(lines) == ["null", "ridge", "elem_ridge"]
    assert lines["null"]["r2"] <= 0
    assert {row["fold"] for row in found["folds"]} == {0, 1}


def test_report_writes_a_page(folder):
    options = ("--test", "data-test.npz", "--modes", "x,y,<z>", "--title", "A & B")
    done = sltr("report", "model.sltr", "data.npz", *options, folder=folder)
    assert (done.returncode, done.stdout) == (0, "")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "A &amp; B" in page
    assert "held-out" in page


def test_reproduce_refuses_an_unknown_name_in_one_line(folder):
    done = process("reproduce", "figure99", folder=folder)
    assert done.returncode != 0
    assert done.stderr.startswith("Error: ")
    assert "figure99" in done.stderr
    assert "Traceback" not in done.stderr


def test_info_tells_versions(folder):
    done = sltr("info", "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["versions"]["numpy"] == np.__version__
    assert found["optional packages"]["typer"]


def test_test_says_whether_there_is_anything(folder):
    common = ("test", "data.npz", "--permutations", 19, "--json")
    done = sltr(*common, "--plot", "test.png", folder=folder)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["p-value"] == pytest.approx(0.05)
    assert facts["permuted"] == "samples"
    assert (folder / "test.png").read_bytes()[:4] == b"\x89PNG"
    wrong = sltr("test", "data.npz", "--statistic", "t", folder=folder)
    assert wrong.returncode == 2
    assert "expected one of pilot, procedure" in wrong.stderr.replace("meant", "")


def test_stability_writes_what_is_found_again(folder):
    options = ("--pairs", 3, "--out", "found.npz", "--plot", "found.svg")
    done = sltr("stability", "data.npz", *options, "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    facts, found = json.loads(done.stdout), np.load(folder / "found.npz")
    assert facts["halves"] == 6
    assert found["frequency"].shape == (5, 4, 3)
    assert found["selected"].sum() == facts["selected entries"]
    assert "<svg" in (folder / "found.svg").read_text()
    wrong = sltr("stability", "data.npz", "--plot", "found.doc", folder=folder)
    assert wrong.returncode == 2
    assert "--plot='.doc' was given" in wrong.stderr


def test_several_targets_are_one_model(folder):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5, 4))
    Y = X[:, 0, :1] * [1.0, -2.0, 3.0] + 0.1 * rng.normal(size=(40, 3))
    np.savez(folder / "three.npz", X=X, a=Y[:, 0], b=Y[:, 1], c=Y[:, 2])
    np.save(folder / "three.npy", X)
    names = ("a", "b", "c")
    lines = [",".join(names), *(",".join(map(str, row)) for row in Y.tolist())]
    (folder / "three.csv").write_text("\n".join(lines) + "\n")
    common = ("--target", "a,b,c", "--out", "three.sltr")
    found = []
    for data in (("three.npz",), ("three.npy", "--y", "three.csv")):
        made = sltr("fit", *data, *common, folder=folder)
        assert made.returncode == 0, made.stderr
        found.append(load(folder / "three.sltr"))
    np.testing.assert_array_equal(found[0].coef_, found[1].coef_)
    assert found[0].shape_out_ == (3,)
    assert found[0].response_names_ == ["a", "b", "c"]
    made = sltr("predict", "three.sltr", "three.npy", folder=folder)
    rows = list(csv.reader(io.StringIO(made.stdout)))
    assert rows[0] == ["sample", *(f"prediction of {name}" for name in names)]
    np.testing.assert_allclose(
        np.array(rows[1:], float)[:, 1:], found[0].predict(X), atol=1e-12
    )
    sltr("predict", "three.sltr", "three.npy", "--out", "three-p.npy", folder=folder)
    np.testing.assert_array_equal(np.load(folder / "three-p.npy"), found[0].predict(X))
    tuned = ("tune", "three.npz", *common, "--json", "--method")
    for method in ("sltr", "reduced_rank", "ridge"):
        made = sltr(*tuned, method, folder=folder)
        assert made.returncode == 0, made.stderr
        assert json.loads(made.stdout)["best score"] > 0.9
    made = sltr(*tuned, "cp", folder=folder)
    assert made.returncode != 0
    assert "takes one number for each sample" in made.stderr
    made = sltr("plot", "three.sltr", "b.png", "--target", "b", folder=folder)
    assert made.returncode == 0, made.stderr
    pages = []
    for target in ("a,b,c", "c,a,b"):
        given = ("report", "three.sltr", "three.npz", "--target", target)
        made = sltr(*given, "--response", "all", folder=folder)
        assert made.returncode == 0, made.stderr
        page = (folder / "report.html").read_text(encoding="utf-8")
        pages.append(re.findall(r"<td>[^<]*</td>", page))
    assert pages[0]
    assert pages[0] == pages[1]
    for target, text in (("a,b,d", "fitted to"), ("a,b", "fitted to"), ("a", "shape")):
        given = ("report", "three.sltr", "three.npz", "--target", target)
        made = sltr(*given, folder=folder)
        assert made.returncode == 1
        assert text in made.stderr


@pytest.mark.parametrize(
    ("column", "text"),
    [("d", "has no ['d']"), ("words", "are words"), ("gaps", "has no number for 1")],
)
def test_targets_that_cannot_be_responses_are_named(folder, column, text):
    np.save(folder / "four.npy", np.random.default_rng(0).normal(size=(4, 3, 2)))
    rows = ["a,words,gaps", "1,x,1", "2,y,", "3,z,2", "4,z,3"]
    (folder / "four.csv").write_text("\n".join(rows) + "\n")
    target = ("--y", "four.csv", "--target", f"a,{column}")
    made = sltr("fit", "four.npy", *target, folder=folder)
    assert made.returncode != 0
    assert text in made.stderr
