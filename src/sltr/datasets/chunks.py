"""How many bytes a compressed chunk becomes, found out before it is decompressed.

Apart from `files.py` because it knows how compressors begin what they write, and
nothing else does.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Bytes that hold all we read of a header.
_HEAD = 32
# Nothing that deflate writes becomes longer than this many times.
_DEFLATE = 1032
_PIECE = 1_000_000


def decompressed_bytes(array: Any, file: Path, limit: int) -> int:
    """Return the bytes of the zarr array's largest chunk, once it is decompressed.

    They are known for the compressors zstd, Blosc, LZ4, gzip and zlib; other chunks,
    and those within shards, count as zero. More than `limit` need not be exact.
    """
    if not array.compressors or getattr(array, "shards", None) is not None:
        return 0
    # Chunks are compressed by one after another: the last one is met first.
    name = type(array.compressors[-1]).__name__.lower().removesuffix("codec")
    count = _COUNTERS.get(name)
    if count is None:
        return 0
    parts = (p for p in (file / array.path).rglob("*") if not _is_about(p))
    return max((count(part, limit) for part in parts), default=0)


def _is_about(part: Path) -> bool:
    """Say whether this is a folder, or a file that says what the chunks are."""
    return part.name.startswith(".z") or part.suffix == ".json" or not part.is_file()


def _head(part: Path) -> bytes:
    with part.open("rb") as stream:
        return stream.read(_HEAD)


def _blosc(part: Path, limit: int) -> int:
    return int.from_bytes(_head(part)[4:8], "little")


def _lz4(part: Path, limit: int) -> int:
    return int.from_bytes(_head(part)[:4], "little")


def _zstd(part: Path, limit: int) -> int:
    """Return the content size of the frame; one that is not given counts as zero."""
    head = _head(part)
    if head[:4] != b"\x28\xb5\x2f\xfd" or len(head) < 5:
        return 0
    flags = head[4]
    single = flags >> 5 & 1
    start = 5 + (1 - single) + (0, 1, 2, 4)[flags & 3]
    length = (single, 2, 4, 8)[flags >> 6]
    size = int.from_bytes(head[start : start + length], "little")
    return size + 256 if length == 2 else size


def _deflated(part: Path, limit: int) -> int:
    """Count, a piece at a time, what is compressed by gzip or zlib."""
    if part.stat().st_size * _DEFLATE <= limit:
        return 0
    total, stream = 0, zlib.decompressobj(47)
    with part.open("rb") as file:
        waiting = file.read(_PIECE)
        while waiting and total <= limit:
            try:
                total += len(stream.decompress(waiting, _PIECE))
            except zlib.error:  # damaged: whoever reads it says so
                break
            waiting = stream.unconsumed_tail or stream.unused_data
            if stream.eof:  # another may follow
                stream = zlib.decompressobj(47)
            waiting = waiting or file.read(_PIECE)
    return total


_COUNTERS: dict[str, Callable[[Path, int], int]] = {
    "blosc": _blosc,
    "lz4": _lz4,
    "zstd": _zstd,
    "gzip": _deflated,
    "zlib": _deflated,
}
