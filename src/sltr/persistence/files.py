"""Files that are written wholly or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

__all__ = ["write_atomically"]


def write_atomically(path: Path, content: bytes) -> Path:
    """Write beside the destination and rename: a failure leaves what was there.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(Path(folder, "a"), b"content").read_bytes()
    b'content'
    """
    part = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return path
