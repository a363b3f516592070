"""Python values to JSON and tensors, and back, without ever executing code.

A value becomes JSON as it is where JSON can hold it exactly, and a tagged
object ``{"$": kind, …}`` otherwise. Arrays go to a table of tensors, and the
JSON keeps their names.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from math import isfinite, prod
from typing import Any

import numpy as np
from sklearn import model_selection

from sltr.arrays import is_array_api, to_numpy

Tensors = dict[str, np.ndarray]

# Dtypes stored as themselves; everything else of a plain kind is stored as bytes.
_NATIVE = ("?", *(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)))
_NATIVE += ("f2", "f4", "f8")
_PLAIN_KINDS = "biufcmMSU"
_SPLITTERS = {
    name: getattr(model_selection, name)
    for name in (
        *("GroupKFold", "GroupShuffleSplit", "KFold", "LeaveOneGroupOut"),
        *("LeaveOneOut", "LeavePGroupsOut", "LeavePOut", "PredefinedSplit"),
        *("RepeatedKFold", "RepeatedStratifiedKFold", "ShuffleSplit"),
        *("StratifiedGroupKFold", "StratifiedKFold", "StratifiedShuffleSplit"),
        "TimeSeriesSplit",
    )
}
_LONGEST_RANGE = 10**6  # a longer one is a forgery: NumPy would write it out
_BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")


def encode(value: Any, tensors: Tensors, where: str) -> Any:
    """Return a value as JSON; each of its arrays becomes an entry of `tensors`.

    `where` is the name of the value, for error messages and names of tensors.

    Examples
    --------
    >>> tensors = {}
    >>> encode((1, None, "a"), tensors, "x")
    {'$': 'tuple', 'items': [1, None, 'a']}
    >>> decode(encode({"w": np.ones(2)}, tensors, "x"), tensors)
    {'w': array([1., 1.])}
    """
    if type(value) in (bool, int, str) or value is None:
        return value
    if type(value) is float:
        return value if isfinite(value) else {"$": "float", "value": repr(value)}
    if type(value) in (list, tuple, set, frozenset):
        items = [encode(v, tensors, f"{where}.{i}") for i, v in enumerate(value)]
        kind = type(value).__name__
        return items if kind == "list" else {"$": kind, "items": items}
    if isinstance(value, dict):
        pairs = [
            [encode(k, tensors, f"{where} key"), encode(v, tensors, f"{where}.{k}")]
            for k, v in value.items()
        ]
        return {"$": "dict", "items": pairs}
    if isinstance(value, range) and _n_steps(value) <= _LONGEST_RANGE:
        return {"$": "range", "items": [value.start, value.stop, value.step]}
    if isinstance(value, np.str_):
        return {"$": "str_", "value": str(value)}
    if isinstance(value, np.generic) and value.dtype.kind in "biufcmM":
        return {"$": "scalar", "dtype": value.dtype.str, "hex": value.tobytes().hex()}
    if isinstance(value, np.ma.MaskedArray):  # as the columns of every cv_results_
        # Setting the default fill explicitly would cut it to the width of texts.
        default = str(value.fill_value) == str(np.ma.default_fill_value(value.data))
        fill = None if default else value.fill_value
        return {
            "$": "masked",
            "data": encode(np.asarray(value.data), tensors, f"{where}.data"),
            "mask": encode(np.ma.getmaskarray(value), tensors, f"{where}.mask"),
            "fill": encode(fill, tensors, f"{where}.fill"),
        }
    if is_array_api(value):
        return _encode_array(to_numpy(value), tensors, where)
    if type(value) in _SPLITTERS.values():
        held = {**getattr(value, "cvargs", {}), **vars(value)}
        names = inspect.signature(type(value)).parameters
        settings = {name: held[name] for name in names if name in held}
        items = encode(settings, tensors, where)
        return {"$": "splitter", "name": type(value).__name__, "settings": items}
    msg = (
        f"{where} is {value!r} of type {type(value).__name__}; expected numbers, "
        "text, arrays, lists, tuples, dicts or scikit-learn splitters. Give the model "
        "a name or a number in its place, or keep the model as a pickle."
    )
    raise TypeError(msg)


def _encode_array(array: np.ndarray, tensors: Tensors, where: str) -> dict:
    if array.dtype.kind in ("O", "T"):
        # The shape is kept apart: objects can be sequences themselves.
        items = [encode(v, tensors, f"{where}.{i}") for i, v in enumerate(array.flat)]
        kind = "objects" if array.dtype.kind == "O" else "texts"
        return {"$": kind, "shape": list(array.shape), "items": items}
    if array.dtype.kind not in _PLAIN_KINDS:
        msg = (
            f"{where} is an array of dtype {array.dtype}; expected numbers, "
            "dates, text or objects. Convert it before saving."
        )
        raise TypeError(msg)
    dtype, shape = array.dtype.str, list(array.shape)
    flat = np.ascontiguousarray(array).reshape(-1)
    native = dtype.lstrip("<|=") in _NATIVE or dtype == "|b1"
    while where in tensors:  # the keys 1 and "1" of a dict look alike
        where += "'"
    tensors[where] = flat if native else np.frombuffer(flat.tobytes(), np.uint8)
    return {"$": "array", "dtype": dtype, "shape": shape, "tensor": where}


def decode(value: Any, tensors: Tensors) -> Any:
    """Return the value that `encode` turned into JSON and tensors.

    Lists are changed in place and tensors taken out of their table, so that memory
    is bounded by that of the arguments: each tensor is used once, and what has
    items holds them one by one.
    """
    if isinstance(value, list):
        for i, item in enumerate(value):
            value[i] = decode(item, tensors)
        return value
    if not isinstance(value, dict):
        return value
    kind = value.get("$")
    if not isinstance(kind, str) or kind not in _DECODERS:
        msg = f"a value of unknown kind {kind!r} was found"
        raise ValueError(msg)
    return _DECODERS[kind](value, tensors)


def check_sizes(shape: Any) -> tuple[int, ...]:
    """Return the shape of an array, which a file may state wrongly."""
    if type(shape) is not list or len(shape) > 32:
        raise ValueError("an array of no shape was found")
    if not all(type(size) is int and 0 <= size < 2**63 for size in shape):
        msg = f"an array of shape {shape} was found"
        raise ValueError(msg)
    return tuple(shape)


def _items(value: dict, tensors: Tensors) -> list:
    return decode(_of_type(value["items"], list), tensors)


def _of_type(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        msg = f"a {type(value).__name__} was found in place of a {kind.__name__}"
        raise TypeError(msg)
    return value


def _simple(value: Any) -> Any:
    """Return a value that others may hand to NumPy, which would expand a range."""
    if isinstance(value, dict):
        return {name: _simple(item) for name, item in value.items()}
    numbers = isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
    kinds = (bool, int, float, str, np.generic, np.random.RandomState)
    if not (value is None or numbers or isinstance(value, kinds)):
        msg = f"a {type(value).__name__} was found in place of a number or a text"
        raise TypeError(msg)
    return value


def _dtype(text: Any) -> np.dtype:
    # NumPy's own grammar goes as far as Python literals.
    if not re.fullmatch(rf"[<>|=]?[?{_PLAIN_KINDS}]\d{{0,9}}(\[\w{{1,20}}\])?", text):
        msg = f"an array of dtype {text!r} was found"
        raise ValueError(msg)
    return np.dtype(text)


def _decode_array(value: dict, tensors: Tensors) -> np.ndarray:
    dtype, shape = _dtype(value["dtype"]), check_sizes(value["shape"])
    stored = tensors.pop(value["tensor"]).reshape(-1)
    if not dtype.itemsize:  # texts that are all empty; zeros would make them longer
        if prod(shape) > _LONGEST_RANGE:
            msg = f"an array of {prod(shape)} empty texts was found"
            raise ValueError(msg)
        return np.ndarray(shape, dtype)
    if stored.dtype != dtype:
        stored = stored.view(np.uint8).view(dtype)
    if stored.size != prod(shape):
        msg = f"tensor {value['tensor']!r} does not have shape {shape}"
        raise ValueError(msg)
    return stored.reshape(shape).copy()


def _n_steps(value: range) -> int:
    return (value.stop - value.start) // value.step


def _decode_range(value: dict, tensors: Tensors) -> range:
    found = range(*_of_type(value["items"], list))
    if _n_steps(found) > _LONGEST_RANGE:
        msg = f"{found} was found; expected at most {_LONGEST_RANGE} numbers"
        raise ValueError(msg)
    return found


def _decode_objects(value: dict, tensors: Tensors) -> np.ndarray:
    items, shape = _items(value, tensors), check_sizes(value["shape"])
    array = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        array[i] = item
    return array.reshape(shape)


def _decode_scalar(value: dict, tensors: Tensors) -> np.generic:
    (found,) = np.frombuffer(bytes.fromhex(value["hex"]), _dtype(value["dtype"]))
    return found


def _decode_splitter(value: dict, tensors: Tensors) -> Any:
    if value["name"] not in _SPLITTERS:
        msg = f"a splitter {value['name']!r} was found"
        raise ValueError(msg)
    settings = _of_type(_simple(decode(value["settings"], tensors)), dict)
    return _SPLITTERS[value["name"]](**settings)


def _decode_texts(value: dict, tensors: Tensors) -> np.ndarray:
    array = _decode_objects(value, tensors)
    for text in array.flat:
        _of_type(text, str)
    return array.astype(np.dtypes.StringDType())


def _decode_masked(value: dict, tensors: Tensors) -> np.ma.MaskedArray:
    data, mask = decode(value["data"], tensors), decode(value["mask"], tensors)
    if _of_type(data, np.ndarray).shape != _of_type(mask, np.ndarray).shape:
        raise ValueError("a mask of another shape than its array was found")
    fill = _simple(decode(value["fill"], tensors))
    return np.ma.MaskedArray(data, mask, fill_value=fill)


def _decode_random_state(value: dict, tensors: Tensors) -> np.random.RandomState:
    state = np.random.RandomState(0)
    state.set_state(_simple(decode(value["state"], tensors)))
    return state


def _decode_generator(value: dict, tensors: Tensors) -> np.random.Generator:
    state = _simple(decode(value["state"], tensors))
    if state["bit_generator"] not in _BIT_GENERATORS:
        msg = f"a random generator {state['bit_generator']!r} was found"
        raise ValueError(msg)
    bits = getattr(np.random, state["bit_generator"])()
    bits.state = state
    return np.random.Generator(bits)


_DECODERS: dict[str, Any] = {
    "float": lambda v, _: float(_of_type(v["value"], str)),
    "str_": lambda v, _: np.str_(_of_type(v["value"], str)),
    "tuple": lambda v, t: tuple(_items(v, t)),
    "set": lambda v, t: set(_items(v, t)),
    "frozenset": lambda v, t: frozenset(_items(v, t)),
    "range": _decode_range,
    "dict": lambda v, t: {k: x for k, x in _items(v, t)},
    "scalar": _decode_scalar,
    "array": _decode_array,
    "objects": _decode_objects,
    "texts": _decode_texts,
    "masked": _decode_masked,
    "splitter": _decode_splitter,
    # Kinds that earlier versions wrote.
    "slice": lambda v, _: slice(*_of_type(v["items"], list)),
    "RandomState": _decode_random_state,
    "Generator": _decode_generator,
}


def plain_json(value: Any) -> Any:
    """Return a value as other programs read JSON, not to be read back exactly.

    Arrays become lists, numbers that JSON lacks null, and what is unknown its text.
    """
    if isinstance(value, Mapping):
        return {str(name): plain_json(item) for name, item in value.items()}
    if hasattr(value, "tolist"):
        return plain_json(value.tolist())
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in value]
    if isinstance(value, float) and not isfinite(value):
        return None
    return value if value is None or isinstance(value, int | float) else str(value)


def harmless(value: Any) -> Any:
    """Return a cell with an apostrophe if a spreadsheet would run it as a formula.

    Examples
    --------
    >>> harmless("=1+1"), harmless("-1.5"), harmless(2.0)
    ("'=1+1", '-1.5', 2.0)
    """
    if not isinstance(value, str) or not value.startswith(tuple("=+-@\t\r\n")):
        return value
    try:
        float(value)  # as -1.5
    except ValueError:
        return f"'{value}"
    return value
