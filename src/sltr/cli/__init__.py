"""The command line: every command reads, calls the library once, and writes.

`entry` is the program. Commands are in `data`, `fit`, `predict` and `show`, apart from
it so that each can be read beside its own options; what they share is in `options`,
`reading` and `output`.
"""

from sltr.cli.entry import app, main

__all__ = ["app", "main"]
