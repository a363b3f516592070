"""The documentation keeps up with the package."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import sltr
from sltr.peers.registry import METHODS
from sltr.reproduction.reproduce import EXPERIMENTS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_pictures_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    local = [target for target in targets if "://" not in target]
    assert [t for t in local if not (page.parent / t).exists()] == []


def test_every_public_name_is_in_the_reference():
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    names = set(re.findall(r"\w+", text))
    assert set(sltr.__all__) - {"datasets", "metrics"} <= names


def test_every_page_is_reached_from_the_start_page():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"}
    assert pages <= set(index.split())


def test_every_experiment_is_in_the_page_about_the_paper():
    text = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert [name for name in EXPERIMENTS if f"`{name}`" not in text] == []


def test_every_method_is_in_the_page_about_methods():
    text = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    assert [name for name in METHODS if f"`{name}`" not in text] == []


def test_pictures_of_the_readme_are_small():
    sizes = [path.stat().st_size for path in (ROOT / "docs/images").glob("*.png")]
    assert sizes
    assert max(sizes) < 300_000


@pytest.mark.slow
def test_the_local_cluster_of_the_page_about_scaling_runs(tmp_path):
    pytest.importorskip("distributed")
    text = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    (code,) = [block for block in blocks if "LocalCluster" in block]
    small = code.replace("16, 16, 6", "6, 5, 4").replace("1000", "200")
    (tmp_path / "script.py").write_text(small.replace("250", "50"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "script.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) > 0.9


def test_the_python_of_the_readme_runs(tmp_path, monkeypatch, capsys):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    # The same lines on a smaller problem.
    small = code.replace("(16, 16, 6), 600", "(6, 5, 4), 600").replace("300", "60")
    exec(small, {})
    assert float(capsys.readouterr().out.split()[0]) > 0.5
    assert (tmp_path / "report.html").exists()
    assert sltr.load(tmp_path / "model.sltr").coef_.shape == (6, 5, 4)
