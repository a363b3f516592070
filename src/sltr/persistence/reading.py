"""The tensors and the text of a saved model, read within bounded memory.

The format is safetensors': eight bytes with the length of a JSON header, the header,
the bytes of all tensors. It is read here, not by the library, because a forged header
may ask for many times the memory that its file takes. Nothing is allocated before
the file is known to hold as much.
"""

from __future__ import annotations

import hashlib
import json
import stat
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from sltr.persistence.values import Tensors, check_sizes

TEXT = "sltr"  # the metadata entry with the model, as JSON
CHECKSUM = "sha256"
_DTYPES = {"BOOL": "?", "F16": "<f2", "F32": "<f4", "F64": "<f8"} | {
    f"{kind.upper()}{8 * size}": f"<{kind}{size}"
    for kind in "iu"
    for size in (1, 2, 4, 8)
}
# An empty list is three characters and 64 bytes of memory. Models that we write
# have one bracket or colon in nine characters or more; small files may have any.
_CHARACTERS = 8
_FREE = 100_000
_DEEPEST = 50  # models that we write have about ten levels
_LONGEST = 100_000_000  # bytes of a header, as in safetensors


def read_model(path: Path) -> tuple[Any, Tensors]:
    """Return the JSON content of a saved model and its tensors, checked.

    Raises OSError for what cannot be read, and whatever json and NumPy raise for
    content that is not as `save` writes it.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("it is no regular file")
    with path.open("rb") as file:
        size = path.stat().st_size - 8
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(size, _LONGEST):
            raise ValueError("it does not begin with the length of a header")
        header = parse(file.read(length).decode())
        metadata = header.pop("__metadata__")
        text, checksum = metadata[TEXT], metadata[CHECKSUM]
        sizes = [_check_entry(name, entry) for name, entry in header.items()]
        if sum(sizes) != size - length:
            raise ValueError("its tensors do not have the size of the file")
        data = file.read(size - length + 1)
    tensors = _tensors(header, data)
    if checksum != checksum_of(text, tensors):
        raise ValueError("its content does not match its checksum")
    return parse(text), tensors


def parse(text: str) -> Any:
    """Return JSON as Python objects; their memory is bounded by the text's length."""
    if sum(map(text.count, "[{:")) > _FREE + len(text) / _CHARACTERS:
        raise ValueError("its text is little but brackets")
    found = json.loads(text)
    if _deeper(found, _DEEPEST):
        raise ValueError("its values are nested too deeply")
    return found


def _deeper(value: Any, levels: int) -> bool:
    """Say whether lists and objects lie within each other at more levels than this."""
    if not isinstance(value, list | dict):
        return False
    items = value.values() if isinstance(value, dict) else value
    return levels <= 0 or any(_deeper(item, levels - 1) for item in items)


def checksum_of(text: str, tensors: Tensors) -> str:
    """Return the checksum of a model's JSON text and its tensors."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _check_entry(name: str, entry: dict[str, Any]) -> int:
    """Return the size in bytes of a tensor that the header describes as it should."""
    first, last = entry["data_offsets"]
    dtype = np.dtype(_DTYPES[entry["dtype"]])
    size = prod(check_sizes(entry["shape"])) * dtype.itemsize
    if type(first) is not int or last - first != size:
        msg = f"tensor {name!r} has other offsets than its shape asks for"
        raise ValueError(msg)
    return size


def _tensors(header: dict[str, dict[str, Any]], data: bytes) -> Tensors:
    """Return views of the data; no two tensors may share bytes."""
    tensors: Tensors = {}
    end = 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        first, last = entry["data_offsets"]
        if first != end:
            msg = f"tensor {name!r} does not begin where the one before it ends"
            raise ValueError(msg)
        dtype = np.dtype(_DTYPES[entry["dtype"]])
        tensors[name] = np.ndarray(entry["shape"], dtype, data, first)
        end = last
    return tensors
