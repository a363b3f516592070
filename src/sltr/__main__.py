"""Run the command line as `python -m sltr`."""

from __future__ import annotations

import sys

from sltr.cli import main

if __name__ == "__main__":
    sys.exit(main())
