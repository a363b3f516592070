"""The command line: every command reads, calls the library once, and writes."""

from sltr.cli.entry import app, main

__all__ = ["app", "main"]
