"""The command line: every command reads, calls the library once, and writes.

`entry` is the program. Commands are in `data`, `fit`, `predict` and `show`, apart from
it so that each can be read beside its own options; what they share is in `options`,
`reading` and `output`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]

# What the extra "cli" installs.
_NEEDED = ("typer", "rich")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status; say what is not installed."""
    try:
        from sltr.cli.entry import main as run
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        sys.stderr.write(
            f"Error: The command line needs {' and '.join(_NEEDED)}, and {error.name} "
            "is not installed. Install them with: pip install 'sltr[cli]'\n"
        )
        return 1
    return run(arguments)
