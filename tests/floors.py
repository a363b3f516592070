"""Print the lowest versions that `pyproject.toml` allows, as constraints for pip.

Only what a user installs is held at its floor; tools of the tests are free.
"""

import re
import sys
import tomllib
from pathlib import Path

TOOLS = {"gpu", "test", "dev", "docs"}


def floors(pyproject: Path) -> list[str]:
    """Return `name==version` for each requirement `name>=version` of a user."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [r for extra in extras.keys() - TOOLS for r in extras[extra]]
    lines = []
    for requirement in [*project["dependencies"], *wanted]:
        name = re.split(r"[\[>=]", requirement)[0]
        if name == project["name"]:
            continue
        if not (found := re.fullmatch(r"[^>=]+>=([\d.]+)", requirement)):
            msg = f"{requirement!r} has no floor. Write it as {name}>=version."
            raise ValueError(msg)
        lines.append(f"{name}=={found[1]}")
    return sorted(lines)


if __name__ == "__main__":
    sys.stdout.write("\n".join(floors(Path("pyproject.toml"))) + "\n")
