"""Fitted models as files: tensors (safetensors) and JSON, never code.

A file is one safetensors file. Its metadata holds a JSON text with the schema
number, the version of `sltr`, the class name, the parameters, the fitted
attributes; beside it is a checksum of text and tensors. Reading a file looks
the class up among the estimators of this package and fills in plain values.
"""

from __future__ import annotations

import inspect
import json
import os
import pkgutil
import warnings
from importlib import import_module, metadata
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

import sltr.estimators
import sltr.peers
from sltr.parameters import import_optional, printable
from sltr.persistence.files import write_atomically
from sltr.persistence.reading import CHECKSUM, TEXT, checksum_of, read_model
from sltr.persistence.values import Tensors, decode, encode
from sltr.samples.covariates import Encoding, encoding_of

__all__ = [
    "estimator_classes",
    "installed_version",
    "load",
    "package_version",
    "save",
]

SCHEMA = 1
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
    metadata = {TEXT: text, CHECKSUM: checksum_of(text, tensors)}
    safetensors = import_optional(
        "safetensors.numpy", "Saved models need safetensors", "'sltr[models]'"
    )
    content = safetensors.save(tensors, metadata=metadata)
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
    estimators and receives plain values. Attributes are checked as a whole: a fitted
    model has predicted one sample of zeros, and made its summary, before it is
    returned. Reading takes at
    most about 20 times the memory of the file, and 3 times that of its arrays.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    estimator
        With the parameters and the fitted attributes of the saved one.

    Raises
    ------
    OSError
        If there is no such file, or it cannot be read.
    ValueError
        If anything is wrong with its content: damaged, forged, not one of ours, or
        written by a newer schema.
    """
    path = Path(path)
    if path.is_dir():
        msg = f"{path} was given; expected a file, and it is a folder."
        raise IsADirectoryError(msg)
    try:
        cls, params, fitted = _checked(*read_model(path))
        model = _build(cls, params, fitted)
    except (OSError, MemoryError):  # the file may be as it should
        raise
    except _OtherVersion as error:
        raise ValueError(f"{path} {_short(error)}") from None
    except Exception as error:
        msg = (
            f"{path} is not a model of sltr, or damaged ({_short(error)}); expected a "
            "file written by sltr.save. Copy or save the model again."
        )
        raise ValueError(msg) from error
    unknown = sorted(set(params) - set(inspect.signature(cls).parameters))
    if unknown:
        msg = (
            f"{path}: this version of {cls.__name__} has no parameter "
            f"{_short(', '.join(unknown))}; the fitted model is loaded without."
        )
        warnings.warn(msg, UserWarning, stacklevel=2)
    return model


class _OtherVersion(ValueError):
    """What a file says of itself is known to another version at best."""


def _short(value: Any) -> str:
    """Return what a file holds as a text for a message: a line, not too long."""
    text = f"{value} is missing" if isinstance(value, KeyError) else str(value)
    text = " ".join(text.split()) or type(value).__name__
    return printable(text if len(text) <= 300 else f"{text[:300]}…")


def _checked(
    header: dict[str, Any], tensors: Tensors
) -> tuple[type, dict[str, Any], dict[str, Any]]:
    """Return the class, its parameters and fitted attributes that a file holds."""
    writer, schema = f"written by sltr {header['version']}", header["schema"]
    if type(schema) is not int or not 1 <= schema <= SCHEMA:
        msg = (
            f"has schema {schema!r}, {writer}; this is sltr {package_version()}, which "
            f"reads schemas 1 to {SCHEMA}. Update sltr."
        )
        raise _OtherVersion(msg)
    classes = estimator_classes()
    cls = classes.get(header["class"])
    if cls is None:
        msg = (
            f"holds a {header['class']!r}, {writer}; expected an estimator of this "
            "version. Update sltr, or fit the model again."
        )
        raise _OtherVersion(msg)
    params = {k: decode(v, tensors) for k, v in header["params"].items()}
    fitted = {k: decode(v, tensors) for k, v in header["fitted"].items()}
    for name in fitted:
        # A file may set what fitting sets, and never hide a method.
        taken = hasattr(cls, name) or name in inspect.signature(cls).parameters
        if not name.isidentifier() or name.startswith("__") or taken:
            msg = f"it sets {cls.__name__}.{name}"
            raise ValueError(msg)
    if "coef_" in fitted:
        _check_shapes(params, fitted)
    return cls, params, fitted


def _check_shapes(params: dict[str, Any], fitted: dict[str, Any]) -> None:
    """Refuse attributes of a fit that cannot have come from one fit."""
    coef, shape = fitted["coef_"], fitted["shape_in_"]
    folded, q = params.get("feature_shape"), _n_covariates(fitted)
    intercept, classes = fitted["intercept_"], fitted.get("classes_")
    shape_out = fitted.get("shape_out_", ())
    single = len(shape) == coef.ndim
    # Responses come last, classes first.
    scores = shape_out if shape_out else () if single else (len(coef),)
    n_scores = prod(scores)
    alike = all(
        getattr(fitted[name], "shape", None) == coef.shape
        for name in ("pilot_", "refined_")
        if name in fitted
    )
    agree = {
        "shape_in_": isinstance(shape, tuple)
        and isinstance(shape_out, tuple)
        and coef.ndim - len(shape) == len(scores)
        and coef.shape == ((*shape, *scores) if shape_out else (*scores, *shape)),
        "coef_": coef.dtype.kind == "f" and coef.size > 0 and _finite(coef),
        "pilot_": alike,
        "weights_": getattr(fitted.get("weights_", np.ones(1)), "ndim", 0) == 1,
        **{
            name: _is_fraction(fitted.get(name))
            for name in ("low_radius_", "sparse_radius_")
        },
        "intercept_": getattr(intercept, "shape", ()) == scores and _finite(intercept),
        **{
            name: _finite(fitted.get(name, 0.0))
            for name in ("covariate_coef_", "sigmoids_")
        },
        # Samples with modes have none, but for those of early versions.
        "n_features_in_": fitted.get("n_features_in_", shape[0])
        in (shape[0], prod(shape)),
        "names_": all(
            len(fitted[name]) == len(shape)
            for name in ("names_", "units_", "coords_")
            if name in fitted
        ),
        # Tables and figures are written with them.
        "units_": all(
            isinstance(word, str)
            for name in ("names_", "units_")
            for word in fitted.get(name, ())
        ),
        "coords_": all(
            values is None or values.shape == (size,)
            for values, size in zip(fitted.get("coords_", ()), shape, strict=False)
        ),
        "mask_": _is_of(fitted.get("mask_"), shape, "b"),
        "entry_scale_": _is_of(fitted.get("entry_scale_"), shape, "f")
        and (fitted.get("entry_scale_") is None or fitted["entry_scale_"].min() > 0),
        "classes_": classes is None or len(classes) == (2 if single else n_scores),
        "n_covariates_in_": not q or _covariates_agree(q, fitted),
        # Its length comes first: a range can be longer than memory.
        "feature_shape": folded is None
        or (len(folded) == len(shape) and tuple(folded) == shape),
    }
    for name, agrees in agree.items():
        if not agrees:
            msg = f"its {name} does not agree with a coef_ of shape {coef.shape}"
            raise ValueError(msg)


def _finite(values: Any) -> bool:
    return bool(np.isfinite(values).all())


def _is_of(values: Any, shape: tuple[int, ...], kind: str) -> bool:
    """Say whether there is nothing, or an array of this shape and kind, finite."""
    if values is None:
        return True
    return values.shape == shape and values.dtype.kind == kind and _finite(values)


def _is_fraction(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and 0 <= value <= 1)


def _n_covariates(fitted: dict[str, Any]) -> int:
    """Return how many covariates a model takes; one that knows slopes must say so."""
    return fitted["n_covariates_in_"] if "covariate_coef_" in fitted else 0


def _covariates_agree(q: int, fitted: dict[str, Any]) -> bool:
    """Say whether there is a coefficient for each encoded covariate."""
    columns, levels = fitted.get("covariate_columns_"), fitted.get("covariate_levels_")
    if columns is None:
        return fitted["covariate_coef_"].shape == (q,)
    encoding = Encoding(tuple(columns), levels or {})
    right = len(columns) == q and encoding.names == fitted["covariate_names_"]
    return right and fitted["covariate_coef_"].shape[-1] == len(encoding.names)


def _build(cls: type, params: dict[str, Any], fitted: dict[str, Any]) -> Any:
    """Return the estimator; a fitted one has predicted, and can say what it is."""
    known = inspect.signature(cls).parameters
    model = cls(**{name: value for name, value in params.items() if name in known})
    vars(model).update(fitted)
    if "coef_" not in fitted:
        return model
    shape = fitted["shape_in_"]
    if params.get("feature_shape") is not None:
        rows = fitted.get("n_features_in_") == prod(shape)
        shape = (prod(shape),) if rows else shape
    sample = np.zeros((1, *shape), fitted["coef_"].dtype)
    row = encoding_of(model).example()
    more = {} if row is None else {"covariates": row}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.predict(sample, **more)
        if hasattr(model, "predict_proba"):
            model.predict_proba(sample, **more)
        if hasattr(model, "summary"):
            str(model.summary())
    return model


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
