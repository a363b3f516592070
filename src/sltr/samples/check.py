"""User input of any library, in memory or not -> clean samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from math import isfinite, prod
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight, column_or_1d, validate_data

from sltr.arrays import (
    Array,
    array_namespace,
    as_array,
    detached,
    explained_memory,
    is_array_api,
    is_numpy,
    largest_entry,
    real_dtype,
    to_numpy,
)
from sltr.arrays.libraries import is_dask
from sltr.arrays.resources import free_bytes, memory_bytes, working_bytes
from sltr.parameters import LARGEST_COUNT, check_choice, parts_of, refuse, unmasked
from sltr.samples.front import Front
from sltr.samples.labelled import aligned, remember_labels, unlabelled
from sltr.samples.samples import Samples, is_lazy


def check_samples(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    labels: bool = False,
    tensors: bool = False,
    min_samples: int = 2,
    reset: bool = True,
) -> Samples:
    """Check training data, remember its shape on the estimator, return it clean.

    Sets `shape_in_`, `n_features_in_` for flat rows, and what the samples know of
    themselves (`samples/labelled.py`). With `tensors` a response may have any shape,
    `shape_out_`, and responses are returned as rows. NumPy input (and whatever
    converts to it) is checked by scikit-learn; arrays of other libraries stay where
    they are. Samples in a file or on a cluster are read if they fit; else they stay
    there, for estimators that have a `memory_limit`. Samples of weight zero are
    dropped.
    Without `reset` the samples must be like those the estimator has seen.
    """
    _check_running(estimator)
    X, known = unlabelled(X)
    X, y = check_plain(X, "X"), check_plain(unlabelled(y)[0], "y")
    y = y if reset else responses_in_order(estimator, y)
    X = X if reset else aligned(estimator, X, known)
    weight = check_plain(sample_weight, "sample_weight")
    measured, names = None, _names_of_columns(y)
    shape_out: tuple[int, ...] = ()
    if tensors:
        y, shape_out = _response_rows(y)
        y, measured = _without_gaps(estimator, y)
    X = _read_if_it_fits(estimator, X)
    if is_lazy(X):
        from sltr.samples.mapped import check_beside, mask_in_place

        y, weight = check_beside(X, y, weight, labels, tensors, min_samples)
        given, gaps = tuple(X.source.shape), _takes_gaps(estimator)
        kept = mask_in_place(estimator, X.sample_shape, known) if gaps else None
    else:
        if is_array_api(X) and not is_numpy(X):
            with explained_memory():
                X = check_foreign_tensor(X, finite=not _takes_gaps(estimator))
                y = _check_foreign_responses(X, y, labels, tensors, min_samples)
            weight = _check_foreign_weight(weight, X)
        else:
            X, y, weight = _checked_by_sklearn(
                estimator, X, y, weight, labels, tensors, min_samples, reset
            )
        given, mask = tuple(X.shape), None if known is None else known.mask
        X, kept = _check_values(X, None if labels else y, estimator, mask)
    samples = Samples(X, y, weight, kept=kept, labels=known, measured=measured)
    if tensors:
        _remember_responses(estimator, shape_out, names, reset=reset)
    if reset:
        _remember_shape(estimator, samples, given, is_numpy(X))
    else:
        _check_fitted_shape(estimator, samples.shape)
    samples = _drop_weightless(samples, min_samples)
    return _filled(samples, estimator) if _takes_gaps(estimator) else samples


def _read_if_it_fits(estimator: Any, X: Any) -> Any:
    """Return samples in memory as they are; others opened, or read if they fit."""
    if not _is_left_in_place(estimator, X):
        return X
    from sltr.samples.mapped import loaded, opened

    stored = opened(estimator, X)
    if fits_in_memory(X, estimator.memory_limit):
        return loaded(stored, gaps=_takes_gaps(estimator))
    return stored


def _checked_by_sklearn(
    estimator: Any,
    X: Any,
    y: Any,
    weight: Any,
    labels: bool,
    tensors: bool,
    min_samples: int,
    reset: bool,
) -> tuple[Array, Array, Array]:
    """Return samples, responses and weights as NumPy arrays."""
    if not reset:
        _check_tensor_shape(estimator, X)
    if not labels:
        check_numbers(y, tensors)
    with explained_overflow():
        X, y = validate_data(
            estimator,
            X,
            y,
            dtype=(np.float64, np.float32),
            allow_nd=True,
            y_numeric=not labels,
            multi_output=tensors,
            ensure_min_samples=min_samples,
            ensure_all_finite=not _takes_gaps(estimator),
            reset=reset,
        )
        y = column_or_1d(y, warn=True) if labels else as_float(y, X.dtype)
        return X, y, as_weight(weight, X)


def _remember_responses(
    estimator: Any, shape: tuple[int, ...], names: list[str] | None, *, reset: bool
) -> None:
    """Set the shape of a response, and names of a table's; or check that shape."""
    if reset:
        estimator.shape_out_ = shape
        estimator.__dict__.pop("response_names_", None)
        if names is not None and shape:
            estimator.response_names_ = names
    elif shape != tuple(estimator.shape_out_):
        msg = (
            f"y has shape {shape} per sample; expected that of the first chunk, "
            f"{tuple(estimator.shape_out_)}."
        )
        raise ValueError(msg)


def _check_running(estimator: Any) -> None:
    """Refuse a number of jobs, a listener, or an answer, that is none."""
    jobs, progress = (getattr(estimator, n, None) for n in ("n_jobs", "progress"))
    whole = isinstance(jobs, Integral) and not isinstance(jobs, bool)
    if jobs is not None and not (whole and 0 < abs(jobs) <= LARGEST_COUNT):
        refuse("n_jobs", jobs, "None, 1 or more, or -1 for all cores")
    if progress is not None and not callable(progress):
        refuse("progress", progress, "None, or a function of two numbers")
    intercept = getattr(estimator, "fit_intercept", True)
    if not isinstance(intercept, bool | np.bool_ | Integral) or intercept not in (0, 1):
        refuse("fit_intercept", intercept, "True or False")
    for name in ("missing", "positive", "verbose"):
        value = getattr(estimator, name, None)
        if getattr(value, "shape", ()) != ():
            refuse(name, value, "a single value")


def _response_rows(y: Any) -> tuple[Any, tuple[int, ...]]:
    """Return responses as rows (n, K), or as they are, and the shape of one of them."""
    if y is None:
        return y, ()
    values = y if hasattr(y, "shape") else np.asarray(y)
    shape = tuple(int(size) for size in values.shape[1:])
    if prod(shape) == 0:
        msg = f"y has shape {tuple(values.shape)}; expected at least one response."
        raise ValueError(msg)
    if len(shape) < 2:
        return y, shape
    values = values if is_array_api(values) else np.asarray(values)
    return array_namespace(values).reshape(values, (values.shape[0], -1)), shape


def _names_of_columns(y: Any) -> list[str] | None:
    """Return what the columns of a table of responses are called."""
    columns = getattr(y, "columns", None)
    return None if columns is None else [str(name) for name in columns]


def responses_in_order(model: Any, y: Any) -> Any:
    """Return responses in the order of those of a fit, where both have names."""
    names, fitted = _names_of_columns(y), getattr(model, "response_names_", None)
    if names is None or fitted is None or names == list(fitted):
        return y
    check_response_names(names, fitted)
    return np.asarray(y)[:, [names.index(name) for name in fitted]]


def check_response_names(names: Sequence[str], fitted: Sequence[str]) -> None:
    """Refuse names of responses that are not those of a fit, in any order."""
    if sorted(names) != sorted(fitted):
        msg = (
            f"y has the responses {list(names)}; expected {list(fitted)}, which the "
            "model was fitted to. Give these columns."
        )
        raise ValueError(msg)


def _without_gaps(estimator: Any, y: Any) -> tuple[Any, np.ndarray | None]:
    """Return responses with means in place of NaN, and where they were measured.

    None if all were, or if the estimator has no choice for those that were not.
    """
    gaps = _gaps(estimator, y)
    if gaps is None:
        return y, None
    xp = array_namespace(gaps)
    values = y if is_array_api(y) else np.asarray(y)
    n_gaps, size = int(xp.sum(xp.astype(gaps, xp.int64))), prod(gaps.shape)
    if estimator.missing_y == "error":
        msg = (
            f"Input y contains NaN, {n_gaps} of {size} entries; expected a number for "
            "each. Leave these samples out, or use missing_y='ridge'."
        )
        raise ValueError(msg)
    count = xp.sum(xp.astype(~gaps, values.dtype), axis=0)
    rare = np.flatnonzero(to_numpy(count) < 2).tolist()
    if rare:
        names = _names_of_columns(y)
        which = rare[0] if names is None else repr(names[rare[0]])
        msg = (
            f"{len(rare)} of the responses were measured fewer than two times, the "
            f"first is {which}; expected more. Drop these."
        )
        raise ValueError(msg)
    mean = xp.sum(xp.where(gaps, 0.0, values), axis=0) / count
    measured = ~to_numpy(gaps)
    return xp.where(gaps, mean, values), measured.reshape(len(measured), -1)


def _gaps(estimator: Any, y: Any) -> Array | None:
    """Return where responses are NaN; None if nowhere, or if nobody asks."""
    choice = getattr(estimator, "missing_y", None)
    if choice is None or y is None:
        return None
    check_choice("missing_y", choice, ("error", "ridge"))
    values = y if is_array_api(y) else np.asarray(y)
    xp = array_namespace(values)
    if not xp.isdtype(values.dtype, "real floating"):
        return None
    gaps = xp.isnan(values)
    return gaps if bool(xp.any(gaps)) else None


def measured_weight(estimator: Any, y: Any, sample_weight: Any) -> Any:
    """Return weights in which samples without any response count nothing."""
    gaps = _gaps(estimator, y)
    if gaps is None or estimator.missing_y == "error":
        return sample_weight
    some = ~to_numpy(gaps).reshape(gaps.shape[0], -1).all(axis=1)
    if some.all():
        return sample_weight
    return np.where(some, 1.0 if sample_weight is None else to_numpy(sample_weight), 0)


def _remember_shape(
    estimator: Any, samples: Samples, given: tuple[int, ...], by_sklearn: bool
) -> None:
    """Set what scikit-learn sets for the samples it checks, and what they know."""
    estimator.shape_in_ = samples.shape
    if not by_sklearn:
        estimator.n_features_in_ = given[1]
        estimator.__dict__.pop("feature_names_in_", None)
    if len(given) > 2:
        # The length of the first mode is no number of features; tools that find
        # one there (MAPIE) would predict for rows of that length.
        del estimator.n_features_in_
    remember_labels(estimator, samples.labels, len(samples.shape))


def as_float(y: np.ndarray, dtype: Any) -> np.ndarray:
    """Return responses in double precision, or in single if X and y both are.

    A fit casts them to the samples' precision after their mean is removed: a large
    mean would take all the digits.
    """
    single = np.dtype(dtype) == np.float32 and y.dtype == np.float32
    return y.astype(np.float32 if single else np.float64, copy=False)


def as_weight(sample_weight: Any, like: np.ndarray) -> np.ndarray:
    """Return weights (n,) in the precision of the samples, ones where none are given.

    They are checked before they are rounded to it: it may not have them.
    """
    weight = _check_sample_weight(
        sample_weight, like, dtype=np.float64, ensure_non_negative=True
    )
    check_squares(float(weight.max()), like, "sample_weight", len(weight))
    return weight.astype(like.dtype)


def _check_values(
    X: Array, y: Array | None, estimator: Any, mask: np.ndarray | None
) -> tuple[Array, np.ndarray | None]:
    """Refuse samples without entries, and units beyond squares; fold flat rows.

    Returns the samples, zero outside the mask, and the mask: the user's, or the one
    that the samples know.
    """
    if prod(X.shape) == 0:
        msg = f"Found array with shape {tuple(X.shape)}; expected at least one feature."
        raise ValueError(msg)
    X, kept = _fold_rows(X, estimator), None
    if _takes_gaps(estimator):
        given = mask if estimator.mask is None else estimator.mask
        kept = check_mask(given, tuple(X.shape[1:]))
        X = _inside(X, kept, missing=estimator.missing != "error")
    check_squares(_largest_measured(X, estimator), X, "X", prod(X.shape))
    if y is not None:
        # Errors may be a few times as large as the responses.
        check_squares(largest_entry(y), X, "y", 64)
    return X, kept


def check_squares(size: float, like: Array, name: str, count: int = 1) -> None:
    """Refuse a size whose squares, or their sum, the precision of `like` lacks.

    This bounds the units of X, y and weights, so that their products and ratios are
    numbers.
    """
    limits = array_namespace(like).finfo(like.dtype)
    least, most = float(limits.smallest_normal), float(limits.max)
    if size == 0.0 or (least <= size * size and size * size <= most / count):
        return
    about = f"{size:.0e}" if isfinite(size) else f"{most**0.5:.0e} or more"
    what = {"X": "Samples", "y": "Responses", "sample_weight": "Weights"}[name]
    msg = (
        f"{what} of about {about} were given, whose squared errors {like.dtype} "
        f"does not have. Divide {name} by its largest entry."
    )
    raise ValueError(msg)


def _takes_gaps(estimator: Any) -> bool:
    """Say whether an estimator has a mask, or a choice for missing entries.

    Others leave the check for NaN to scikit-learn; these have to look at the mask.
    """
    return hasattr(estimator, "missing") and hasattr(estimator, "mask")


def check_mask(mask: Any, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return which entries of a sample a user's mask keeps; None for all of them.

    Examples
    --------
    >>> check_mask([[1, 0], [1, 1]], (2, 2)).tolist()
    [[True, False], [True, True]]
    """
    if mask is None:
        return None
    given = np.asarray(to_numpy(unmasked(mask, "mask")))
    if given.shape == (prod(shape),):
        given = given.reshape(shape)
    if given.shape != shape:
        msg = (
            f"mask has shape {given.shape}; expected {shape}, that of a sample. Cut or "
            "resample it."
        )
        raise ValueError(msg)
    kept = given.astype(bool) if given.dtype.kind in "biuf" else None
    if kept is None or not np.array_equal(given, kept):
        msg = "mask holds other values than 0 and 1; expected True where to look."
        raise ValueError(msg)
    if not kept.any():
        msg = "mask keeps no entry; expected at least one. Is it the wrong way round?"
        raise ValueError(msg)
    return None if kept.all() else kept


def _inside(X: Array, kept: np.ndarray | None, *, missing: bool) -> Array:
    """Return samples with zeros outside the mask; refuse what is not finite inside.

    With `missing`, NaN inside is left to be filled.
    """
    xp = array_namespace(X)
    if kept is not None:
        X = xp.where(as_array(kept, X, dtype=xp.bool), X, 0.0)
    # A sum is finite unless an entry is not, or it overflows.
    with np.errstate(over="ignore", invalid="ignore"):
        total = xp.sum(X)
    if bool(xp.isfinite(total)):
        return X
    n_gaps = int(xp.sum(xp.astype(xp.isnan(X), xp.int64)))
    if not bool(xp.all(xp.isfinite(X) | xp.isnan(X))):
        msg = (
            f"X contains infinity, and {n_gaps} entries that are NaN; expected finite "
            "numbers. Replace or mask what is infinite."
        )
        raise ValueError(msg)
    if n_gaps and not missing:
        msg = (
            f"X contains NaN, {n_gaps} of {prod(X.shape)} entries; expected a number "
            "for each. With missing='mean' or missing='low_rank' an estimator of SLTR "
            "fills them in; a mask leaves out entries that are never measured."
        )
        raise ValueError(msg)
    return X


def _largest_measured(X: Array, estimator: Any) -> float:
    if not _takes_gaps(estimator) or estimator.missing == "error":
        return largest_entry(X)
    xp = array_namespace(X)
    return largest_entry(xp.where(xp.isnan(X), 0.0, X))


def _filled(samples: Samples, estimator: Any) -> Samples:
    """Return samples without gaps, and what filled them, by the estimator's choice.

    Entries that no sample has are outside the mask.
    """
    check_choice("missing", estimator.missing, ("error", "mean", "low_rank"))
    if estimator.missing == "error" or is_lazy(samples.X):
        return samples
    from sltr.samples.missing import FILLS

    xp = array_namespace(samples.X)
    gaps = xp.isnan(samples.X)
    axes = tuple(range(1, samples.X.ndim))
    empty = xp.all(gaps, axis=axes)
    if bool(xp.any(empty)):
        row = int(np.flatnonzero(to_numpy(empty))[0])
        msg = (
            f"Sample {row} (of those with a positive weight) has no measured entry; "
            "expected at least one. Drop it."
        )
        raise ValueError(msg)
    fill = FILLS[estimator.missing](samples.X, samples.weight)
    measured = to_numpy(~xp.all(gaps, axis=0))
    kept = measured if samples.kept is None else samples.kept & measured
    return replace(
        samples,
        X=fill(samples.X),
        fill=fill,
        kept=None if kept.all() else kept,
    )


def _drop_weightless(samples: Samples, min_samples: int) -> Samples:
    kept = np.flatnonzero(to_numpy(samples.weight) > 0)
    if len(kept) < min_samples:
        msg = (
            f"{len(kept)} sample(s) with a positive weight were given; "
            f"expected at least {min_samples}. Add samples or change sample_weight."
        )
        raise ValueError(msg)
    return samples if len(kept) == samples.weight.shape[0] else samples.take(kept)


@contextmanager
def explained_overflow() -> Iterator[None]:
    """Turn the error for a number that no float has into one that says so.

    Sums that overflow, by which others look for infinity, are not worth a warning.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except ArithmeticError as error:  # of whole numbers, or of decimals
        msg = (
            f"A number beyond all floats was given ({error}); expected numbers of at "
            "most about 1e308. Take its logarithm, or drop its sample."
        )
        raise ValueError(msg) from error


def check_plain(values: Any, name: str) -> Any:
    """Return values without the mask of NumPy; refuse masked ones, and dates.

    scikit-learn would count dates in units that depend on how they were written.
    What PyTorch keeps to differentiate is left behind.
    """
    values = detached(unmasked(values, name))
    if isinstance(getattr(values, "_meta", None), np.ma.MaskedArray):  # Dask's
        plain, meta = partial(unmasked, name=name), values._meta.data
        values = values.map_blocks(plain, dtype=values.dtype, meta=meta)
    if _holds_dates(values):
        msg = (
            f"{name} holds dates or times; expected numbers or labels. Turn them into "
            "numbers yourself, for example days since the first one."
        )
        raise ValueError(msg)
    return values


def _holds_dates(values: Any) -> bool:
    if hasattr(values, "columns") and hasattr(values, "iloc"):  # a table
        kinds = [dtype.kind for dtype in values.dtypes]
        odd = [k for k, kind in enumerate(kinds) if kind not in "biufc"]
        return any(_holds_dates(values.iloc[:, k]) for k in odd)
    if hasattr(values, "iloc") and values.dtype.kind == "O":
        values = np.asarray(values)  # what categories stand for
    return any(
        isinstance(part, date | timedelta)
        or getattr(getattr(part, "dtype", None), "kind", "") in ("M", "m")
        for part in parts_of(values)
    )


def check_new_samples(estimator: Any, X: Any) -> Any:
    """Check samples to predict for against the shape the estimator was fitted on."""
    X, known = unlabelled(X)
    X = aligned(estimator, check_plain(X, "X"), known)
    if _is_left_in_place(estimator, X):
        from sltr.samples.mapped import in_place, opened

        lazy = opened(estimator, X)
        _check_fitted_shape(estimator, lazy.sample_shape)
        shape, kept = lazy.sample_shape, getattr(estimator, "mask_", None)
        if kept is None:
            return lazy
        return in_place(lazy, Front(shape, kept, cuts=False))
    finite = not _takes_gaps(estimator)
    if is_array_api(X) and not is_numpy(X):
        X = check_foreign_tensor(X, finite=finite)
    else:
        _check_tensor_shape(estimator, X)
        with explained_overflow():
            X = validate_data(
                estimator,
                X,
                dtype=(np.float64, np.float32),
                allow_nd=True,
                ensure_all_finite=finite,
                reset=False,
            )
    X = _fold_rows(X, estimator)
    _check_fitted_shape(estimator, tuple(X.shape[1:]))
    if finite:
        return X
    # A model of an earlier version has neither.
    fill, kept = (getattr(estimator, name, None) for name in ("fill_", "mask_"))
    X = _inside(X, kept, missing=fill is not None)
    if fill is None:
        return X
    from sltr.samples.missing import Fill

    return Fill(**fill)(X)


def _check_fitted_shape(estimator: Any, shape: tuple[int, ...]) -> None:
    if shape != tuple(estimator.shape_in_):
        msg = (
            f"X has shape {shape} per sample; the model was fitted on "
            f"{tuple(estimator.shape_in_)}. Reshape X or refit."
        )
        if len(shape) == 1:
            msg += " For flat rows of tensors there is feature_shape."
        raise ValueError(msg)


def _check_tensor_shape(estimator: Any, X: Any) -> None:
    """Refuse tensors of another shape; scikit-learn would speak of the first mode."""
    shape = tuple(getattr(X, "shape", ()))[1:]
    folded = getattr(estimator, "feature_shape", None) is not None
    if not folded and shape and max(len(shape), len(estimator.shape_in_)) > 1:
        _check_fitted_shape(estimator, shape)


def _fold_rows(X: Array, estimator: Any) -> Array:
    feature_shape = getattr(estimator, "feature_shape", None)
    if feature_shape is None:
        return X
    shape = check_shape(tuple(X.shape[1:]), feature_shape)
    return array_namespace(X).reshape(X, (X.shape[0], *shape))


def check_shape(given: tuple[int, ...], shape: Any) -> tuple[int, ...]:
    """Return `feature_shape` if samples of the given shape, flat rows, fold into it."""
    n_features = prod(given)
    try:
        clean = tuple(int(size) for size in shape)
    except (TypeError, ValueError, OverflowError):
        clean = ()
    if not clean or any(size < 1 for size in clean) or prod(clean) != n_features:
        msg = (
            f"feature_shape={shape!r} was given for rows of {n_features} entries; "
            f"expected positive sizes whose product is {n_features}."
        )
        raise ValueError(msg)
    if len(given) > 1 and clean != given:
        msg = (
            f"feature_shape={shape!r} was given for samples of shape {given}; expected "
            "flat rows, or that shape. Reshape X, or leave it out."
        )
        raise ValueError(msg)
    return clean


def check_foreign_tensor(X: Array, *, finite: bool = True) -> Array:
    """Return samples of another library than NumPy in floating point."""
    X = detached(X)
    xp = array_namespace(X)
    if X.ndim < 2:
        msg = (
            f"X has shape {tuple(X.shape)}; expected (n_samples, p1, …, pM). "
            "Reshape X so that its first axis counts samples."
        )
        raise ValueError(msg)
    if xp.isdtype(X.dtype, "complex floating"):
        msg = f"Complex data not supported: X has dtype {X.dtype}. Pass real numbers."
        raise ValueError(msg)
    if prod(X.shape) == 0:
        msg = (
            f"Found array with shape {tuple(X.shape)}; expected at least one sample "
            "and one feature."
        )
        raise ValueError(msg)
    X = xp.astype(X, real_dtype(X), copy=False)
    if finite and not bool(xp.all(xp.isfinite(X))):
        msg = (
            "X contains NaN or infinity; expected finite numbers. Impute or drop them."
        )
        raise ValueError(msg)
    return X


def _check_foreign_responses(
    X: Array, y: Any, labels: bool, tensors: bool, min_samples: int
) -> Array:
    """Return responses beside the samples, or labels in NumPy."""
    n_responses = None if y is None else y.shape[0] if is_array_api(y) else len(y)
    check_counts(X.shape[0], n_responses, min_samples)
    if labels:
        y = np.asarray(to_numpy(y) if is_array_api(y) else y)
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            msg = "y contains NaN or infinity; expected one label for each sample."
            raise ValueError(msg)
        return y
    if is_array_api(y) and not is_numpy(y):
        y = detached(y)
    else:
        check_numbers(y, tensors)
    xp = array_namespace(X)
    narrow = "32" in str(getattr(y, "dtype", "")) and "32" in str(X.dtype)
    y = as_array(y, X, dtype=xp.float32 if narrow else xp.float64)
    y = y if tensors and y.ndim > 1 else xp.reshape(y, (-1,))
    if y.shape[0] != X.shape[0] or not bool(xp.all(xp.isfinite(y))):
        msg = "y must hold one finite number for each sample; drop or impute the rest."
        raise ValueError(msg)
    return y


def check_counts(n_samples: int, n_responses: int | None, min_samples: int) -> None:
    """Refuse responses that are not as many as samples, or too few of both."""
    if n_responses is None:
        msg = "y=None was given; expected one response for each sample."
        raise ValueError(msg)
    if n_responses != n_samples or n_samples < min_samples:
        msg = (
            f"X has {n_samples} samples and y {n_responses}; expected equal numbers "
            f"of at least {min_samples}."
        )
        raise ValueError(msg)


def _check_foreign_weight(sample_weight: Any, X: Array) -> Array:
    """Return weights (n,) like X; ones where none are given."""
    xp = array_namespace(X)
    if sample_weight is None:
        return xp.ones_like(X[(slice(None), *([0] * (X.ndim - 1)))])
    if is_array_api(sample_weight):
        sample_weight = detached(sample_weight)
    weight = as_array(sample_weight, X)
    if tuple(weight.shape) != (X.shape[0],) or not bool(
        xp.all(xp.isfinite(weight) & (weight >= 0))
    ):
        msg = (
            f"sample_weight has shape {tuple(weight.shape)}; expected {(X.shape[0],)} "
            "finite numbers of at least 0."
        )
        raise ValueError(msg)
    return weight


def check_numbers(y: Any, tensors: bool = False) -> None:
    """Refuse words as responses, and several for each sample; say what is for them.

    With `tensors` there may be several.
    """
    values = np.asarray(y)
    words = []
    if values.dtype.kind in "USO":
        words = [one for one in values.ravel().tolist() if _is_word(one)]
    if words:
        msg = (
            f"y holds words, such as {str(words[0])!r}; expected numbers. For labels "
            "use a classifier, for example SLTRClassifierCV."
        )
        raise ValueError(msg)
    if not tensors and values.ndim > 1 and values.shape[1:] != (1,):
        msg = (
            f"y has shape {values.shape}; expected one number for each sample. Give "
            "one response at a time; SLTRRegressor and SLTRRegressorCV, without a "
            "family, can be fitted to responses of any shape."
        )
        raise ValueError(msg)


def _is_word(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        float(value)
    except ValueError:
        return True
    return False


def _is_left_in_place(estimator: Any, X: Any) -> bool:
    """Say whether samples stay where they are, for an estimator that can read them."""
    return hasattr(estimator, "memory_limit") and is_left_in_place(
        X, estimator.memory_limit
    )


def is_left_in_place(X: Any, memory_limit: Any = None) -> bool:
    """Say whether samples are left in their file, or on their cluster.

    Dask arrays and what can be sliced but is no array (zarr, HDF5) are, memmaps
    only if they are larger than the limit: joblib hands small ones to its workers.
    """
    if isinstance(X, np.memmap):
        return working_bytes(X) > memory_bytes(memory_limit)
    if is_dask(X):
        return True
    if is_array_api(X) or not hasattr(X, "__getitem__"):
        return False
    # Tables and sparse matrices are sliced in other ways.
    if any(hasattr(X, name) for name in ("iloc", "tocsr", "__array_namespace__")):
        return False
    try:
        np.dtype(X.dtype)
        return len(X.shape) >= 1
    except (AttributeError, TypeError):
        return False


# A fit in memory takes so many times what its samples take.
ROOM = 4


def fits_in_memory(X: Any, memory_limit: Any = None) -> bool:
    """Say whether stored samples can be read, with room to work.

    Without a limit, what is free counts.
    """
    most = free_bytes() if memory_limit is None else memory_bytes(memory_limit)
    return ROOM * working_bytes(X) <= most
