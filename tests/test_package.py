"""What is built and published: the wheel, its metadata and the files about releases."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import sltr

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation"]
    done = subprocess.run(
        [*command, "--outdir", str(folder), str(ROOT)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as inside:
        yield inside


def test_the_wheel_holds_the_whole_package(wheel):
    source = ROOT / "src"
    wanted = {
        path.relative_to(source).as_posix()
        for path in (source / "sltr").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert {"sltr/py.typed", "sltr/datasets/packaged/battery.npz"} <= wanted
    held = set(wheel.namelist())
    assert wanted <= held
    assert {name.split("/")[0].partition("-")[0] for name in held} == {"sltr"}
    assert any(name.endswith("licenses/LICENSE") for name in held)


def test_the_wheel_says_what_it_is(wheel):
    (name,) = [name for name in wheel.namelist() if name.endswith("METADATA")]
    text = wheel.read(name).decode()
    assert f"Version: {sltr.__version__}" in text
    assert "Typing :: Typed" in text
    assert "Project-URL: Source" in text


def test_versions_agree():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == sltr.__version__
    assert citation["license"] == PROJECT["license"]
    assert citation["repository-code"] == PROJECT["urls"]["Source"]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", changes, flags=re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert headings[1].split(" ")[0] == sltr.__version__
    assert str(citation["date-released"]) in headings[1]


@pytest.mark.parametrize("file", ["tests.yml", "release.yml"])
def test_workflows_run_what_the_makefile_has(file):
    path = ROOT / ".github" / "workflows" / file
    flow = yaml.safe_load(path.read_text(encoding="utf-8"))
    # YAML reads the key "on" as true.
    assert set(flow) >= {"name", True, "jobs", "permissions"}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, flags=re.MULTILINE))
    steps = [step for job in flow["jobs"].values() for step in job["steps"]]
    made = [s["run"].split()[1] for s in steps if s.get("run", "").startswith("make ")]
    assert made
    assert set(made) <= targets
    assert all("run" in step or "@" in step["uses"] for step in steps)


def test_workflows_try_every_python_that_is_promised():
    path = ROOT / ".github" / "workflows" / "tests.yml"
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    tried = jobs["tests"]["strategy"]["matrix"]["python"]
    promised = [
        found[1]
        for line in PROJECT["classifiers"]
        if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line))
    ]
    assert tried == promised
    assert PROJECT["requires-python"] == f">={tried[0]}"


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, sltr; print(*[m for m in sys.modules if '.' not in m])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not {"numpy", "scipy", "sklearn"} & set(done.stdout.split())


def test_a_plain_fit_loads_only_what_it_uses():
    code = """
import sys
import numpy as np
import sltr
X = np.random.default_rng(0).normal(size=(30, 6, 6))
sltr.SLTRRegressorCV().fit(X, X[:, 0, 0]).predict(X)
print(*sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )
    others = {"ridge.likelihood", "ridge.moments", "core.families", "core.ppxa"}
    others |= {"samples.stored", "samples.dask", "samples.mapped", "samples.missing"}
    others |= {"samples.smooth", "tuning.stored", "tuning.passes", "tuning.maps"}
    others |= {"refine.shared", "refine.stored_sweeps", "estimators.summary"}
    loaded = set(done.stdout.split())
    assert "sltr.tuning.search" in loaded
    assert not {f"sltr.{name}" for name in others} & loaded
