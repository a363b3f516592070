"""Build the package, install it in empty environments, and use it there.

Run by ``make wheel-test``. Each extra is installed alone: what it brings has to work,
and what the others would bring has to be missed with the right words. Names of extras
as arguments choose some ("bare" is none); the default is all but "gpu", which is large.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).parents[1]
EXTRAS = ("bare", "cli", "report", "models", "neuro", "video", "eeg", "dask")
# What a wheel holds beside modules: nobody notices that it is missing until it is used.
FILES = ("py.typed", "datasets/packaged/", "reporting/")


def main(names: list[str]) -> int:
    """Build, look inside, and use the wheel with each extra; return the exit status."""
    wheel = build(ROOT / "dist")
    failed = [name for name in names or EXTRAS if not passes(wheel, name)]
    print("failed:" if failed else "all passed", *failed)
    return bool(failed)


def build(folder: Path) -> Path:
    """Build the source archive, and the wheel from it; return the wheel."""
    shutil.rmtree(folder, ignore_errors=True)
    run([sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)])
    (wheel,), (archive,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    with tarfile.open(archive) as inside:
        print(f"{archive.name}: {len(inside.getnames())} files")
    with zipfile.ZipFile(wheel) as inside:
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
        held = inside.namelist()
    absent = [f for f in FILES if not any(n.startswith(f"sltr/{f}") for n in held)]
    if absent:
        msg = f"The wheel lacks {absent}."
        raise SystemExit(msg)
    return wheel


def passes(wheel: Path, name: str) -> bool:
    """Return whether the wheel works in an empty environment with one extra."""
    start = perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "env")
        venv.create(home, with_pip=True)
        python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
        what = str(wheel) if name == "bare" else f"{wheel}[{name}]"
        run([str(python), "-m", "pip", "install", "--quiet", what])
        shutil.copy(ROOT / "tests" / "wheel_smoke.py", folder)
        done = run([str(python), "wheel_smoke.py", name], cwd=folder)
        typed = name != "bare" or is_typed(python, folder)
    print(f"{name}: {'passed' if done and typed else 'FAILED'}", end=" ")
    print(f"({perf_counter() - start:.0f} s)", flush=True)
    return done and typed


def is_typed(python: Path, folder: str) -> bool:
    """Return whether mypy, from outside, sees the types of the public names."""
    shutil.copy(ROOT / "tests" / "typed_use.py", folder)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", os.devnull]
    return run([*command, "--python-executable", str(python), "typed_use.py"], folder)


def run(command: list[str], cwd: str | None = None) -> bool:
    """Run a command without our own paths; show what it says if it fails."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True)
    if done.returncode:
        print(" ".join(command), done.stdout, done.stderr, sep="\n")
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
