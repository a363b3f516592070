"""Python values to JSON and tensors, and back, without ever executing code.

A value becomes JSON as it is where JSON can hold it exactly, and a tagged
object ``{"$": kind, …}`` otherwise. Arrays go to a table of tensors, and the
JSON keeps their names.
"""

from __future__ import annotations

import inspect
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
    if isinstance(value, range):
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
    tensors[where] = flat if native else np.frombuffer(flat.tobytes(), np.uint8)
    return {"$": "array", "dtype": dtype, "shape": shape, "tensor": where}


def decode(value: Any, tensors: Tensors) -> Any:
    """Return the value that `encode` turned into JSON and tensors."""
    if isinstance(value, list):
        return [decode(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get("$")
    if kind not in _DECODERS:
        msg = f"a value of unknown kind {kind!r} was found"
        raise ValueError(msg)
    return _DECODERS[kind](value, tensors)


def _dtype(text: str) -> np.dtype:
    dtype = np.dtype(str(text))
    if dtype.kind not in _PLAIN_KINDS:
        msg = f"an array of dtype {text!r} was found"
        raise ValueError(msg)
    return dtype


def _decode_array(value: dict, tensors: Tensors) -> np.ndarray:
    dtype, shape = _dtype(value["dtype"]), tuple(value["shape"])
    stored = tensors[value["tensor"]]
    if stored.dtype != dtype:
        if not dtype.itemsize:
            return np.zeros(shape, dtype)
        stored = np.frombuffer(stored.tobytes(), dtype)
    if stored.size != prod(shape):
        msg = f"tensor {value['tensor']!r} does not have shape {shape}"
        raise ValueError(msg)
    return stored.reshape(shape).copy()


def _decode_objects(value: dict, tensors: Tensors) -> np.ndarray:
    items = decode(value["items"], tensors)
    array = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        array[i] = item
    return array.reshape(value["shape"])


def _decode_scalar(value: dict, tensors: Tensors) -> np.generic:
    return np.frombuffer(bytes.fromhex(value["hex"]), _dtype(value["dtype"]))[0]


def _decode_splitter(value: dict, tensors: Tensors) -> Any:
    if value["name"] not in _SPLITTERS:
        msg = f"a splitter {value['name']!r} was found"
        raise ValueError(msg)
    return _SPLITTERS[value["name"]](**decode(value["settings"], tensors))


def _decode_texts(value: dict, tensors: Tensors) -> np.ndarray:
    return _decode_objects(value, tensors).astype(np.dtypes.StringDType())


def _decode_masked(value: dict, tensors: Tensors) -> np.ma.MaskedArray:
    data, mask = decode(value["data"], tensors), decode(value["mask"], tensors)
    return np.ma.MaskedArray(data, mask, fill_value=decode(value["fill"], tensors))


def _decode_random_state(value: dict, tensors: Tensors) -> np.random.RandomState:
    state = np.random.RandomState(0)
    state.set_state(decode(value["state"], tensors))
    return state


def _decode_generator(value: dict, tensors: Tensors) -> np.random.Generator:
    state = decode(value["state"], tensors)
    if state["bit_generator"] not in _BIT_GENERATORS:
        msg = f"a random generator {state['bit_generator']!r} was found"
        raise ValueError(msg)
    bits = getattr(np.random, state["bit_generator"])()
    bits.state = state
    return np.random.Generator(bits)


_DECODERS: dict[Any, Any] = {
    "float": lambda v, _: float(v["value"]),
    "str_": lambda v, _: np.str_(v["value"]),
    "tuple": lambda v, t: tuple(decode(v["items"], t)),
    "set": lambda v, t: set(decode(v["items"], t)),
    "frozenset": lambda v, t: frozenset(decode(v["items"], t)),
    "range": lambda v, _: range(*v["items"]),
    "dict": lambda v, t: {decode(k, t): decode(x, t) for k, x in v["items"]},
    "scalar": _decode_scalar,
    "array": _decode_array,
    "objects": _decode_objects,
    "texts": _decode_texts,
    "masked": _decode_masked,
    "splitter": _decode_splitter,
    # Kinds that earlier versions wrote.
    "slice": lambda v, _: slice(*v["items"]),
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
