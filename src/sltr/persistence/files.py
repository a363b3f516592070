"""Files that are written wholly or not at all."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from uuid import uuid4


def check_destination(path: Path) -> None:
    """Refuse a file that cannot be written where it is to go.

    Worth a call before long work whose result would be lost.
    """
    if path.is_dir():
        msg = f"{path} was given; expected a file, and it is a folder. Add a name."
        raise IsADirectoryError(msg)
    if not path.parent.is_dir():
        msg = (
            f"{path} was given; expected a file in a folder that exists, and "
            f"{path.parent} does not. Make the folder, or choose another."
        )
        raise FileNotFoundError(msg)
    if not os.access(path.parent, os.W_OK):
        msg = (
            f"{path} was given; expected a folder that you may write to, and "
            f"{path.parent} is not. Choose another."
        )
        raise PermissionError(msg)


def write_atomically(path: Path, content: bytes) -> Path:
    """Write beside the destination and rename: a failure leaves what was there.

    A link stays a link, and a file keeps who may read it.
    """
    check_destination(path)
    target = Path(os.path.realpath(path))
    part = target.with_name(f".{target.name}.{uuid4().hex}.part")
    try:
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            part.chmod(stat.S_IMODE(target.stat().st_mode))
        part.replace(target)
    except BaseException as error:
        _remove(part)
        if isinstance(error, OSError) and error.errno is not None:
            # The system's own message names the hidden part.
            msg = (
                f"{error.strerror}; expected a place that takes a file of "
                f"{len(content)} bytes. Make room or choose another place"
            )
            raise OSError(error.errno, msg, str(path)) from error
        raise
    return path


def _remove(part: Path) -> None:
    # What the folder does not let us write it does not let us look for, either.
    with suppress(OSError):
        part.unlink(missing_ok=True)
