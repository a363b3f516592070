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
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_pictures_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    local = [target for target in targets if "://" not in target]
    assert [t for t in local if not (page.parent / t).exists()] == []


def test_what_the_map_of_the_house_names_is_there():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    places = re.findall(r"`([\w/]+\.py): (\w+)`", text)
    assert len(places) > 7
    for file, name in places:
        source = (ROOT / "src" / "sltr" / file).read_text(encoding="utf-8")
        assert re.search(rf"^ *(def|class) {name}\b", source, flags=re.MULTILINE), name
    table = text.partition("## The map of the house")[2].partition("\n## ")[0]
    rooms = {path.name for path in (ROOT / "src" / "sltr").iterdir() if path.is_dir()}
    assert rooms - {"__pycache__"} <= set(re.findall(r"`(\w+)`", table))
    modules = {path.name for path in (ROOT / "src" / "sltr").rglob("*.py")}
    assert set(re.findall(r"`(?:\w+/)?(\w+\.py)`", table)) <= modules


@pytest.mark.parametrize(
    "page", ["add_a_term", "add_a_method", "add_a_reader", "add_a_picture"]
)
def test_source_shown_in_the_docs_is_there(page):
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    shown = re.findall(r"literalinclude} (\S+)\n\s*:pyobject: (\w+)", text)
    assert shown
    for file, name in shown:
        source = (ROOT / "docs" / file).read_text(encoding="utf-8")
        assert re.search(rf"^(def|class) {name}\b", source, flags=re.MULTILINE), name
    named = re.findall(r"`((?:src|tests|docs)/[\w/.]+)`", text)
    assert [path for path in named if not (ROOT / path).exists()] == []


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
        # A cluster of another test may hold the port of the dashboard.
        [
            sys.executable,
            *("-W", "error::UserWarning", "-W", "ignore:Port"),
            "script.py",
        ],
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
    # The same lines on every fifth voltage and cycle.
    small = code.replace("X, y = cells.X", "X, y = cells.X[:, ::5, ::5]")
    exec(small, {})
    assert float(capsys.readouterr().out.split()[0]) > 0.3
    assert (tmp_path / "report.html").exists()
    assert sltr.load(tmp_path / "model.sltr").coef_.shape == (20, 20)


def test_the_readme_is_short():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 120


def test_the_benchmarks_are_short_enough_to_read():
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert len(text.split()) < 1000


def test_the_gallery_is_large_and_mostly_on_real_data():
    examples = sorted((ROOT / "examples").glob("plot_*.py"))
    texts = [path.read_text(encoding="utf-8") for path in examples]
    real = [t for t in texts if re.search(r"load_(sugar|battery|adrenal|digits)", t)]
    assert len(examples) >= 12
    assert len(real) >= 8


def test_every_page_has_a_picture_or_a_reason_not_to():
    new = [p for p in PAGES if p.name.startswith(("howto", "start", "data", "index"))]
    new += [ROOT / "docs" / f"{n}.md" for n in ("faq", "limits", "coming_from")]
    for page in new:
        text = page.read_text(encoding="utf-8")
        assert "](images/" in text or "no picture" in text, page.name


def test_formulas_need_no_script_from_elsewhere():
    text = (ROOT / "docs" / "conf.py").read_text(encoding="utf-8")
    assert 'html_math_renderer = "mathml"' in text
