"""Fitted models as files: tensors (safetensors) and JSON, never code.

A file is one safetensors file. Its metadata holds a JSON text with the schema
number, the version of `sltr`, the class name, the parameters, the fitted
attributes; beside it is a checksum of text and tensors. Reading a file looks
the class up among the estimators of this package and fills in plain values.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import pkgutil
import warnings
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator

import sltr.estimators
import sltr.peers
from sltr.persistence.files import write_atomically
from sltr.persistence.values import Tensors, decode, encode

__all__ = [
    "estimator_classes",
    "installed_version",
    "load",
    "package_version",
    "save",
]

SCHEMA = 1
# What a header that is damaged, or not ours, can raise.
_DAMAGES = (KeyError, ValueError, TypeError, AttributeError, RecursionError)
_KEY = "sltr"
# A callback belongs to the process that watches a fit, moments of samples, P × P, to
# the one that streams them, and requests for metadata to the pipeline around the model.
_LEFT_OUT = ("progress", "_moments", "_metadata_request")


def estimator_classes() -> dict[str, type[BaseEstimator]]:
    """Return the public estimators of the package, by class name."""
    classes: dict[str, type[BaseEstimator]] = {}
    names = [
        info.name
        for package in (sltr.estimators, sltr.peers)
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    for module in names:
        for name, item in vars(import_module(module)).items():
            if (
                inspect.isclass(item)
                and issubclass(item, BaseEstimator)
                and item.__module__ == module
                and hasattr(item, "fit")
                and not name.startswith("_")
            ):
                classes[item.__name__] = item
    return dict(sorted(classes.items()))


def save(model: BaseEstimator, path: str | os.PathLike) -> Path:
    """Write a model of this package to a file, all or nothing.

    The file is written beside its destination and renamed, so that an
    interrupted or failed call leaves what was there before. Arrays of other
    libraries (torch, CuPy) are stored as NumPy arrays. Two things are left out: the
    callable `progress`, and what `partial_fit` has kept of the samples it saw. A
    loaded model predicts as before, but its `partial_fit` begins anew; to go on
    with a stream later, pickle the model.

    Parameters
    ----------
    model : estimator of `sltr`
        Fitted or not.
    path : path-like
        Any name; an existing file is replaced.

    Returns
    -------
    pathlib.Path
        Where the file is.

    See Also
    --------
    load : read the file.

    Examples
    --------
    >>> save(object(), "model.sltr")
    Traceback (most recent call last):
    ...
    TypeError: object was given; expected an estimator of sltr. ...
    """
    name = type(model).__name__
    if estimator_classes().get(name) is not type(model):
        msg = f"{name} was given; expected an estimator of sltr. {_instead(model)}"
        raise TypeError(msg)
    tensors: Tensors = {}
    params = model.get_params(deep=False)
    fitted = {
        name: value
        for name, value in vars(model).items()
        if name not in params and name not in _LEFT_OUT
    }
    params = {name: value for name, value in params.items() if name not in _LEFT_OUT}
    header = {
        "schema": SCHEMA,
        "version": package_version(),
        "class": name,
        "params": {k: encode(v, tensors, f"params.{k}") for k, v in params.items()},
        "fitted": {k: encode(v, tensors, f"fitted.{k}") for k, v in fitted.items()},
    }
    text = json.dumps(header, allow_nan=False, ensure_ascii=False)
    metadata = {_KEY: text, "sha256": _checksum(text, tensors)}
    content = _safetensors().numpy.save(tensors, metadata=metadata)
    return write_atomically(Path(path), content)


def _instead(model: Any) -> str:
    """Return what can be done with a model that is not of this package."""
    if hasattr(model, "steps"):
        return (
            "Save the whole pipeline by skops.io.dump or pickle: its last step alone "
            "would predict from rows that the steps before it have not transformed."
        )
    if hasattr(model, "best_estimator_"):
        return "Save its best_estimator_, if that is one."
    return "Save the fitted sltr estimator itself, or keep this one as a pickle."


def load(path: str | os.PathLike) -> Any:
    """Read a model written by `save`, of this or an earlier version of `sltr`.

    No code is executed: the class is looked up among the package's own
    estimators and receives plain values.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    estimator
        With the parameters and the fitted attributes of the saved one.

    Raises
    ------
    ValueError
        If the file is damaged, not one of ours, or written by a newer schema.
    """
    path = Path(path)
    header, tensors = _read(path)
    schema = header.get("schema")
    if not isinstance(schema, int) or not 1 <= schema <= SCHEMA:
        msg = (
            f"{path} has schema {schema!r}, written by sltr {header.get('version')}; "
            f"this is sltr {package_version()}, which reads schemas 1 to {SCHEMA}. "
            "Update sltr."
        )
        raise ValueError(msg)
    classes = estimator_classes()
    cls = classes.get(str(header.get("class")))
    if cls is None:
        msg = (
            f"{path} holds a {header.get('class')!r}, written by sltr "
            f"{header.get('version')}; expected one of {', '.join(classes)}. Update "
            "sltr, or fit the model again."
        )
        raise ValueError(msg)
    try:
        params = {k: decode(v, tensors) for k, v in header["params"].items()}
        fitted = {k: decode(v, tensors) for k, v in header["fitted"].items()}
    except _DAMAGES as error:
        msg = f"{path} is not a model of sltr, or damaged: {error}."
        raise ValueError(msg) from error
    return _build(cls, _known_params(cls, params, path), fitted, path)


def _known_params(cls: type, params: dict[str, Any], path: Path) -> dict[str, Any]:
    known = inspect.signature(cls).parameters
    unknown = sorted(set(params) - set(known))
    if unknown:
        msg = (
            f"{path}: this version of {cls.__name__} has no parameter "
            f"{', '.join(unknown)}; the fitted model is loaded without."
        )
        warnings.warn(msg, UserWarning, stacklevel=3)
    return {name: value for name, value in params.items() if name in known}


def _build(
    cls: type, params: dict[str, Any], fitted: dict[str, Any], path: Path
) -> Any:
    model = cls(**params)
    for name, value in fitted.items():
        # A file may set what fitting sets, and never hide a method.
        if not name.isidentifier() or name.startswith("__") or hasattr(model, name):
            msg = (
                f"{path} is not a model of sltr, or damaged: it sets "
                f"{type(model).__name__}.{name}."
            )
            raise ValueError(msg)
        setattr(model, name, value)
    return model


def _read(path: Path) -> tuple[dict[str, Any], Tensors]:
    safetensors = _safetensors()
    path.stat()  # a missing file is not a foreign one
    if path.is_dir():
        msg = f"{path} was given; expected a file, and it is a folder."
        raise IsADirectoryError(msg)
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            text = metadata[_KEY]
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if metadata.get("sha256") != _checksum(text, tensors):
            raise ValueError("its content does not match its checksum")
        header = json.loads(text)
        if not isinstance(header, dict):
            raise TypeError("its header is not an object")
    except (safetensors.SafetensorError, OSError, *_DAMAGES) as error:
        msg = (
            f"{path} is not a model of sltr, or damaged ({error}); expected a file "
            "written by sltr.save. Copy or save the model again."
        )
        raise ValueError(msg) from error
    return header, tensors


def _checksum(text: str, tensors: Tensors) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].tobytes())
    return digest.hexdigest()


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError as error:
        msg = "Saved models need safetensors: pip install 'sltr[models]'."
        raise ImportError(msg) from error
    return safetensors


def package_version() -> str:
    """Return the version of `sltr`."""
    # Looked up by name: the root of the package imports this module.
    return str(import_module("sltr").__version__)


def installed_version(name: str) -> str | None:
    """Return the version of an installed package, or None where there is none."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
