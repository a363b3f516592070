"""Damaged files: models and data with flipped bits, cut short, or edited.

A file is read, or refused by one clear error; memory stays within a bound.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
import tempfile
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import numpy as np
from fuzzer import unclear

import sltr
from sltr.datasets import label, load_csv, load_data
from sltr.samples.covariates import encoding_of

# Bytes of memory that reading may take beside a multiple of the file.
ROOM, MULTIPLE = 20_000_000, 100


@dataclass(frozen=True, eq=False)
class File:
    """The bytes of a damaged file, and what reads it."""

    name: str
    suffix: str
    content: bytes
    read: Callable[[Path], Any]
    how: str

    def __str__(self) -> str:
        return f"{self.name} of {len(self.content)} bytes, {self.how}"

    @property
    def size(self) -> int:
        return len(self.content)

    def violations(self) -> Iterator[tuple[str, str]]:
        """Yield other errors than clear ones, and too much memory."""
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path = Path(folder) / f"file{self.suffix}"
            path.write_bytes(self.content)
            tracemalloc.start()
            try:
                self.read(path)
            except Exception as error:
                yield from unclear("read", error)
            finally:
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
        if peak > ROOM + MULTIPLE * self.size:
            yield "memory", f"reading takes {peak:,} bytes"


def damage(rng: np.random.Generator, content: bytes) -> tuple[bytes, str]:
    """Flip bits, cut the end off, or repeat, remove or overwrite a part."""
    data, how = bytearray(content), str(rng.choice(["bits", "cut", "part", "head"]))
    if how == "bits":
        for place in rng.integers(0, len(data), int(rng.integers(1, 4))):
            data[place] ^= 1 << int(rng.integers(8))
    elif how == "cut":
        del data[int(rng.integers(0, len(data))) :]
    elif how == "head":
        # Formats say at their beginning how large they are.
        place = int(rng.integers(0, min(len(data), 64)))
        data[place] = int(rng.integers(256))
    else:
        start, stop = sorted(rng.integers(0, len(data) + 1, 2).tolist())
        part = data[start:stop]
        data[start:stop] = [b"", part * 2, bytes(len(part))][int(rng.integers(3))]
    return bytes(data), how


@cache
def _models() -> dict[str, bytes]:
    """Return files of a few fitted models, by the name of their class."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 3, 2)), rng.normal(size=12)
    labels = np.where(y > 0, "up", "down")
    known = label(X, ("a", "=b"), coords=[["u", "v", "w"], [1.0, 2.0]], units=["", "s"])
    Z = np.array([[k, "uvw"[k % 3]] for k in range(12)], object)
    gaps = np.where(X[0, 0, 0] == X, np.nan, X)
    fitted = {
        "SLTRRegressor": sltr.SLTRRegressor(slices=0).fit(X, y),
        "SLTRClassifier": sltr.SLTRClassifier(epsilon=1.0).fit(X, labels),
        "SLTRRegressorCV": sltr.SLTRRegressorCV(cv=2).fit(X, y),
        "SLTRClassifierCV": sltr.SLTRClassifierCV(cv=2).fit(known, np.arange(12) % 3),
        "SLTRRegressor of tensors": sltr.SLTRRegressor().fit(known, X),
        "SLTRRegressor beside covariates": sltr.SLTRRegressor(
            missing="low_rank", smooth={0: 1.0}, standardize="entries"
        ).fit(gaps, y, covariates=Z),
        "CPRegressor": sltr.CPRegressor(rank=1).fit(X, y),
        "TensorRidge": sltr.TensorRidge(),
    }
    with tempfile.TemporaryDirectory() as folder:
        return {
            name: sltr.save(model, Path(folder) / "model").read_bytes()
            for name, model in fitted.items()
        }


def draw_model_file(rng: np.random.Generator) -> File:
    """Draw a damaged model, half of them with a checksum that is right."""
    name, content = list(_models().items())[rng.integers(len(_models()))]
    if rng.random() < 0.4:
        content, how = damage(rng, content)
    else:
        content, how = _edited(rng, content), "edited, its checksum right"
    return File(f"model file of {name}", ".sltr", content, _use_model, how)


def _use_model(path: Path) -> None:
    """Read a model and use it: predictions, its summary, a table, another file."""
    model = sltr.load(path)
    if not hasattr(model, "coef_"):
        return
    X = np.zeros((2, *model.shape_in_))
    beside = encoding_of(model).example()
    more = {} if beside is None else {"covariates": np.repeat(beside, 2, axis=0)}
    predicted = np.asarray(model.predict(X, **more))
    if len(predicted) != 2:
        raise AssertionError(f"{len(predicted)} predictions for 2 samples")
    if hasattr(model, "summary"):
        str(model.summary())
    sltr.export(model, path.with_suffix(".csv"))
    sltr.export(model, path.with_suffix(".nc"))
    sltr.save(model, path)


def _edited(rng: np.random.Generator, content: bytes) -> bytes:
    """Return a model with a few changes to its JSON, and the checksum of the result."""
    length = int.from_bytes(content[:8], "little")
    head, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    inner = json.loads(head["__metadata__"]["sltr"])
    for _ in range(int(rng.integers(1, 4))):
        _edit(rng, inner)
    text = json.dumps(inner, ensure_ascii=False)
    digest = hashlib.sha256(text.encode())
    for key in sorted(set(head) - {"__metadata__"}):
        digest.update(key.encode())
        digest.update(data[slice(*head[key]["data_offsets"])])
    head["__metadata__"] = {"sltr": text, "sha256": digest.hexdigest()}
    encoded = json.dumps(head).encode()
    return len(encoded).to_bytes(8, "little") + encoded + data


ODD = (None, True, -1, 0, 3, 10**9, 10**400, 0.5, 1e308, "", "x", [], {}, [1, [2]])


def _edit(rng: np.random.Generator, tree: Any) -> None:
    """Remove, replace, swap or repeat one place of a JSON value."""
    places = list(_places(tree))
    node, key = places[rng.integers(len(places))]
    kind = int(rng.integers(5))
    if kind == 0:
        del node[key]
    elif kind == 1:
        node[key] = ODD[rng.integers(len(ODD))]
    elif kind == 2:
        other, place = places[rng.integers(len(places))]
        node[key] = json.loads(json.dumps(other[place]))
    elif kind == 3 and isinstance(node, dict):
        node[f"{key}_"] = node.pop(key)
    else:
        node[key] = [node[key]] * 3


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every container with each of its keys or indices."""
    keys = tree if isinstance(tree, dict) else range(len(tree))
    for key in keys:
        yield tree, key
        if isinstance(tree[key], dict | list):
            yield from _places(tree[key])


def draw_data_file(rng: np.random.Generator) -> File:
    """Draw a small file of arrays or a table, damaged."""
    suffix = str(rng.choice([".npy", ".npz", ".csv"]))
    n = int(rng.integers(1, 6))
    X, y = rng.normal(size=(n, 3, 2)), rng.normal(size=n)
    if suffix == ".csv":
        content, how = _damaged_table(rng, y)
        return File("csv file", suffix, content, _use_table, how)
    buffer = BytesIO()
    if suffix == ".npy":
        np.save(buffer, X.astype(str(rng.choice(["f8", "f4", "i2"]))))
    elif rng.random() < 0.5:
        np.savez(buffer, X=X, y=y)
    else:
        np.savez_compressed(buffer, X=X, y=y)
    content = buffer.getvalue()
    if rng.random() < 0.4:
        content, how = _lying_header(rng, content), "with another shape or type"
    else:
        content, how = damage(rng, content)
    return File(f"{suffix[1:]} file", suffix, content, _use_data, how)


def _lying_header(rng: np.random.Generator, content: bytes) -> bytes:
    """Return a file whose array has another shape or type in its header, as long."""
    new = (
        b"'shape': (9, 3, 2)",
        b"'shape': (-1, 3, 2)",
        b"'shape': (10**9, 3, 2)",
        b"'shape': (999999999, 9999)",
        b"'descr': '|O'",
        b"'descr': '<M8[s]'",
        b"'descr': '<c16'",
        b"'descr': '<U99'",
    )[rng.integers(8)]
    old = re.search(
        rb"'shape': \([^)]*\)" if b"shape" in new else rb"'descr': '[^']*'", content
    )
    return content if old is None else content.replace(old.group(), new)


def _use_data(path: Path) -> None:
    data = load_data(path, target=None)
    if not isinstance(data.X, np.ndarray) or data.X.dtype.kind in "OMmV":
        raise AssertionError(f"X is {type(data.X).__name__} of {data.X.dtype}")


def _damaged_table(rng: np.random.Generator, y: np.ndarray) -> tuple[bytes, str]:
    table = StringIO(newline="")
    writer = csv.writer(table)
    writer.writerow(["y", "age", "name"])
    odd = ["", "nan", "inf", "1e999", "a,b", '"', "\x00", "é", "1_0", "9" * 400, "\n"]
    for value in y:
        cell = odd[rng.integers(len(odd))] if rng.random() < 0.2 else "u"
        writer.writerow([value, _pick_cell(rng, odd), cell])
    content = table.getvalue().encode()
    if rng.random() < 0.3:
        return content, "odd cells"
    return damage(rng, content)


def _pick_cell(rng: np.random.Generator, odd: list[str]) -> Any:
    return odd[rng.integers(len(odd))] if rng.random() < 0.1 else int(rng.integers(99))


def _use_table(path: Path) -> None:
    table = load_csv(path)
    if len(table.y) != len(table.covariates):
        raise AssertionError("responses and covariates have different lengths")
