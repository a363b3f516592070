"""Files that are written wholly or not at all, and claims on work to be done."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

try:
    import fcntl
except ImportError:  # not on Windows: nothing is claimed there, nor cleaned up
    fcntl = None  # type: ignore[assignment]


def check_destination(path: Path, read: Iterable[Path | None] = ()) -> None:
    """Refuse a file that cannot be written where it is to go, or that is to be read.

    Worth a call before long work whose result would be lost.
    """
    target = Path(os.path.realpath(path))
    folder = target.parent if path.is_symlink() else path.parent
    if path.is_dir():
        msg = f"{path} was given; expected a file, and it is a folder. Add a name."
        raise IsADirectoryError(msg)
    # A link in a circle is still a link; one of the system's, as /dev/stdout, may lead
    # to a pipe that has no name.
    known = path.stat() if path.exists() else None
    if known is None and os.path.lexists(target):
        known = target.lstat()
    regular = known is None or stat.S_ISREG(known.st_mode)
    # What a descriptor leads to may be a file that somebody else is writing.
    if not regular or _is_descriptor(path):
        msg = (
            f"{path} was given; expected a file, and it is something else, as a device "
            "or a pipe, that a file would replace. Choose another name."
        )
        raise FileExistsError(msg)
    if any(one is not None and _same(path, one) for one in read):
        msg = (
            f"{path} was given; expected another file than those that are read, and it "
            "is one of them. Choose another name."
        )
        raise FileExistsError(msg)
    if not folder.is_dir():
        msg = (
            f"{path} was given; expected a file in a folder that exists, and "
            f"{folder} does not. Make the folder, or choose another."
        )
        raise FileNotFoundError(msg)
    if not os.access(folder, os.W_OK):
        msg = (
            f"{path} was given; expected a folder that you may write to, and "
            f"{folder} is not. Choose another."
        )
        raise PermissionError(msg)


def _is_descriptor(path: Path) -> bool:
    """Say whether a name, as /dev/stdout, leads to an open file of some process."""
    for _ in range(40):  # links of links, and no more than systems follow
        path = Path(os.path.realpath(path.parent)) / path.name
        if path.is_relative_to("/proc"):
            return True
        if not path.is_symlink():
            break
        path = path.parent / path.readlink()
    return False


def _same(path: Path, other: Path) -> bool:
    return path.exists() and other.exists() and path.samefile(other)


def write_atomically(path: Path, content: bytes) -> Path:
    """Write beside the destination and rename: a failure leaves what was there.

    A link stays a link, and a file keeps who may read it. What killed writers of this
    file have left beside it is removed.
    """
    check_destination(path)
    target = Path(os.path.realpath(path))
    part = target.with_name(f"{_part_name(target)}.{uuid4().hex}.part")
    try:
        _remove_parts(target)
        with _held(part):
            with part.open("wb") as file:
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


def write_through(path: Path, write: Callable[[BinaryIO], object]) -> Path:
    """Write what a function writes into a file, all or nothing."""
    content = BytesIO()
    write(content)
    return write_atomically(path, content.getvalue())


def claim(path: Path) -> BinaryIO | None:
    """Return a file that no other process holds until it is closed, or None.

    The system drops the claim of a process that dies. Raises OSError where the file
    system has no locks.
    """
    file = path.open("ab")
    try:
        _lock(file, wait=False)
        # It may have been released, and so removed, before it was ours.
        if os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return file
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        file.close()
        raise
    file.close()
    return None


def release(path: Path, held: BinaryIO | None) -> None:
    """Remove a file that was claimed and end the claim; without one do nothing."""
    if held is not None:
        with held:
            path.unlink(missing_ok=True)


def _lock(file: BinaryIO, *, wait: bool) -> None:
    if fcntl is None:
        raise OSError("This system has no file locks")
    fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


@contextmanager
def _held(part: Path) -> Iterator[None]:
    """Make a new file and lock it: other writers see that this one is alive."""
    while True:
        with closing(part.open("xb")) as file:
            try:
                _lock(file, wait=True)
            except OSError:
                file.close()  # Windows renames no open file
            if part.exists():  # it was not taken for a dead writer's before the lock
                yield
                return


def _remove_parts(target: Path) -> None:
    """Remove parts of this file whose writers are gone."""
    name = re.compile(rf"{re.escape(_part_name(target))}\.[0-9a-f]{{32}}\.part")
    with suppress(OSError):  # a folder may take files and not list them
        for part in target.parent.iterdir():
            if name.fullmatch(part.name) and stat.S_ISREG(part.lstat().st_mode):
                release(part, claim(part))


def _part_name(target: Path) -> str:
    """Return how parts of a file are called; a long name leaves no room for more."""
    return f".{target.name[:50]}"


def _remove(part: Path) -> None:
    # What the folder does not let us write it does not let us look for, either.
    with suppress(OSError):
        part.unlink(missing_ok=True)
