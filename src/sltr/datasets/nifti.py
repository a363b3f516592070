"""Brain images in and coefficient images out, three-dimensional throughout."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractContextManager
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from sltr.arrays import to_numpy
from sltr.datasets.reading import (
    check_expansion,
    check_regular,
    expansion_limit,
    reading,
)
from sltr.parameters import import_optional, unmasked
from sltr.samples.labelled import LabelledArray, Labels

Box = tuple[slice, slice, slice]
# Bytes of a compressed file that are read at a time to come to its end.
PIECE = 2**20


def load_nifti(
    images: Any,
    *,
    mask: Any = None,
    crop: bool = True,
    dtype: Any = np.float32,
) -> Bunch:
    """Read NIfTI images as three-dimensional samples, cropped to a mask's box.

    Parameters
    ----------
    images : path, nibabel image, or a sequence of them
        A four-dimensional image holds one sample for each step of its last axis. A
        folder stands for the images in it, at any depth and in the order of their
        names, without masks and BIDS ``derivatives``. All must have the same space:
        shape and affine.
    mask : path, nibabel image, bool array of shape (x, y, z), or model, optional
        Voxels to keep (neither zero nor NaN); the others become zero. Default: all.
        A model fitted to images, or a fitted masker of nilearn, has one.
    crop : bool
        Cut samples to the smallest box that holds the mask. Only that part of the
        files is read.
    dtype : dtype
        Of the samples.

    Returns
    -------
    Bunch
        `X` (n, x, y, z), which knows the names and places of its modes (see
        `label`), mask and affine, and with it each model fitted to it; `mask`
        (x, y, z) in the same box; `box`, the three slices of the original space it
        was cut from; `affine` (4, 4) and `shape` of the original space; `filenames`
        (n,), the source of each sample; `ids` (n,), what it is called: its file's
        name, with a number where the file holds several.

    See Also
    --------
    coef_img : The way back.

    Examples
    --------
    >>> import nibabel, numpy as np
    >>> scans = nibabel.Nifti1Image(np.ones((6, 5, 4, 10), np.float32), np.eye(4))
    >>> inside = np.zeros((6, 5, 4), bool)
    >>> inside[1:4, 2:5, 1:3] = True
    >>> data = load_nifti(scans, mask=inside)
    >>> data.X.shape
    (10, 3, 3, 2)
    """
    nibabel = _nibabel()
    listed = _as_list(images, mask, nibabel)
    names = [(_name(source, k), source) for k, source in enumerate(listed)]
    scans = [(name, _open(source, name, nibabel)) for name, source in names]
    shape, affine = scans[0][1].shape[:3], scans[0][1].affine
    for name, scan in scans:
        _check_space(name, scan.shape[:3], scan.affine, shape, affine)
        if len(scan.shape) not in (3, 4) or min(scan.shape) < 1:
            msg = (
                f"{name} has shape {scan.shape}; expected (x, y, z) or (x, y, z, n). "
                "Reshape or split the image."
            )
            raise ValueError(msg)
    kept, kept_name = _mask_of(mask, nibabel)
    inside = _read_mask(kept, kept_name, shape, affine, nibabel)
    box = _own_box(mask) or _bounding_box(inside if crop else np.ones_like(inside))
    samples = [_samples(scan, name, box, np.dtype(dtype)) for name, scan in scans]
    X = np.concatenate(samples)
    X[:, ~inside[box]] = 0
    sources = [n for (n, _), part in zip(scans, samples, strict=True) for _ in part]
    ids = _ids(sources)
    space = {
        "kind": "voxels",
        "affine": np.asarray(affine, float),
        "shape": tuple(int(size) for size in shape),
        "corner": tuple(cut.start for cut in box),
    }
    places = _millimetres(np.asarray(affine, float), box)
    labels = Labels(
        ("x", "y", "z"),
        tuple("" if place is None else "mm" for place in places),
        places,
        None if mask is None else inside[box],
        space,
        ids,
    )
    return Bunch(
        X=LabelledArray(X, labels),
        mask=inside[box],
        box=box,
        affine=affine,
        shape=tuple(shape),
        filenames=np.array(sources),
        ids=ids,
    )


def _millimetres(affine: np.ndarray, box: Box) -> tuple[np.ndarray | None, ...]:
    """Return where slices lie along the axes of space; None if images are oblique."""
    steps, origin = affine[:3, :3], affine[:3, 3]
    if np.count_nonzero(np.abs(steps) > 1e-6 * np.abs(steps).max()) > 3 or not np.all(
        np.diag(steps)
    ):
        return (None, None, None)
    return tuple(
        origin[m] + steps[m, m] * np.arange(cut.start, cut.stop, dtype=float)
        for m, cut in enumerate(box)
    )


def _mask_of(mask: Any, nibabel: Any) -> tuple[Any, str]:
    """Return a mask and its name; a model fitted to images, or a masker, has one."""
    mask = getattr(mask, "mask_img_", mask)
    if not hasattr(mask, "coef_"):
        named = mask is not None and not isinstance(mask, np.ndarray)
        return mask, f"the mask {_name(mask, 0)}" if named else "the mask"
    space = getattr(mask, "space_", None)
    if space is None or space["kind"] != "voxels":
        msg = (
            f"mask={type(mask).__name__} was given, which was not fitted to images; "
            "expected a model that knows its voxels, or a mask."
        )
        raise ValueError(msg)
    return _in_space(_inside_of(mask), space, np.uint8, nibabel), "the model"


def _own_box(mask: Any) -> Box | None:
    """Return the box that a model was fitted on, which its mask need not fill."""
    if not hasattr(mask, "coef_"):
        return None
    ends = zip(mask.space_["corner"], mask.shape_in_, strict=True)
    x, y, z = (slice(start, start + size) for start, size in ends)
    return x, y, z


def _inside_of(model: Any) -> np.ndarray:
    """Return the voxels of a model: those of its mask, or all."""
    mask = getattr(model, "mask_", None)
    return np.ones(model.shape_in_, bool) if mask is None else mask


def _in_space(values: np.ndarray, space: Any, dtype: Any, nibabel: Any) -> Any:
    """Return values (x, y, z, …) of a box as an image of the space it was cut from."""
    whole = np.zeros((*space["shape"], *values.shape[3:]), dtype)
    first = zip(space["corner"], values.shape, strict=False)
    whole[tuple(slice(start, start + size) for start, size in first)] = values
    return nibabel.Nifti1Image(whole, np.asarray(space["affine"]))


def _ids(sources: list[str]) -> np.ndarray:
    """Return the names of files, or paths where these are not unique, counted."""
    short = [Path(source).name for source in sources]
    names = short if len(set(short)) == len(set(sources)) else sources
    several, seen = Counter(names), Counter[str]()
    ids = []
    for name in names:
        ids.append(name if several[name] == 1 else f"{name}:{seen[name]}")
        seen[name] += 1
    return np.array(ids)


def coef_img(coef: Any, data: Bunch | None = None) -> Any:
    """Return a coefficient as a nibabel image in the space the samples came from.

    Parameters
    ----------
    coef : fitted model, or array of shape (x, y, z)
        A model that was fitted to samples of `load_nifti`, or its coefficient.
    data : Bunch, optional
        What `load_nifti` returned; not needed for a model that knows its voxels.

    Returns
    -------
    nibabel.Nifti1Image
        float32, zero outside the mask; for a model of several classes or responses
        with one volume for each.

    Examples
    --------
    >>> import nibabel, numpy as np
    >>> scans = nibabel.Nifti1Image(np.ones((6, 5, 4, 10), np.float32), np.eye(4))
    >>> data = load_nifti(scans)
    >>> coef_img(np.zeros((6, 5, 4)), data).shape
    (6, 5, 4)
    """
    nibabel = _nibabel()
    values = np.asarray(to_numpy(getattr(coef, "coef_", coef)))
    shape_out = tuple(getattr(coef, "shape_out_", ()))
    if shape_out:  # responses come last, classes first
        flat = values.reshape(*values.shape[: -len(shape_out)], -1)
        values = np.moveaxis(flat, -1, 0)
    if data is not None:
        corner = tuple(cut.start for cut in data.box)
        space = {"affine": data.affine, "shape": data.shape, "corner": corner}
        inside = data.mask
    else:
        space, inside = getattr(coef, "space_", {}), _inside_of(coef)
        if space.get("kind") != "voxels":
            msg = (
                f"{type(coef).__name__} was given, which was not fitted to images; "
                "expected a model that knows its voxels. Fit it to the X of "
                "load_nifti, or give what load_nifti returned as data."
            )
            raise ValueError(msg)
    if values.shape[values.ndim - 3 :] != inside.shape or values.ndim > 4:
        msg = (
            f"coef has shape {values.shape}; the samples have {inside.shape}. Pass "
            "the coefficient of a model fitted on data.X."
        )
        raise ValueError(msg)
    masked = np.where(inside, values, 0)
    last = np.moveaxis(masked, 0, -1) if masked.ndim == 4 else masked
    return _in_space(last, space, np.float32, nibabel)


def _nibabel() -> Any:
    return import_optional("nibabel", "NIfTI images need nibabel", "'sltr[neuro]'")


def _as_list(images: Any, mask: Any, nibabel: Any) -> list[Any]:
    one = isinstance(images, str | PathLike | nibabel.spatialimages.SpatialImage)
    several = [images] if one or not isinstance(images, Iterable) else list(images)
    if one and isinstance(images, str | PathLike) and Path(images).is_dir():
        several = list(images_in(Path(images), mask))
    if not several:
        msg = f"images={images!r} was given; expected at least one path or image."
        raise ValueError(msg)
    return several


def is_image(file: Path) -> bool:
    """Say whether a file is called like a NIfTI image."""
    return file.name.endswith((".nii", ".nii.gz"))


def images_in(folder: Path, mask: Any = None) -> list[Path]:
    """Return the NIfTI images of a folder, by name; neither masks nor derivatives."""
    if not folder.is_dir() or folder.suffix == ".zarr":
        return []
    named = isinstance(mask, str | PathLike)
    left_out = Path(mask).resolve() if named else None
    return sorted(
        file
        for file in folder.rglob("*")
        if is_image(file)
        and not file.name.startswith(".")
        and not re.search(r"(^|_)mask\.nii", file.name)
        and not {"derivatives", "sourcedata"} & set(file.relative_to(folder).parts)
        and file.resolve() != left_out
    )


def _name(source: Any, position: int) -> str:
    if isinstance(source, str | PathLike):
        return str(source)
    get_filename = getattr(source, "get_filename", None)
    return (get_filename and get_filename()) or f"image {position}"


def _open(source: Any, name: str, nibabel: Any) -> Any:
    image = source
    if isinstance(source, str | PathLike):
        with _reading(name):
            check_regular(source)
            if str(source).endswith(".gz"):
                _check_header(Path(source), nibabel)
            image = nibabel.load(source)
    elif not hasattr(source, "dataobj"):
        msg = (
            f"An image of type {type(source).__name__} was given; expected a path "
            "or a nibabel image. Wrap arrays in nibabel.Nifti1Image."
        )
        raise TypeError(msg)
    if getattr(image, "affine", None) is None:
        msg = (
            f"{name} is a {type(image).__name__} without an affine; expected voxels "
            "in a space. Save it as a NIfTI volume with an affine."
        )
        raise ValueError(msg)
    _check_size(image)
    return image


def _reading(name: str) -> AbstractContextManager[None]:
    return reading(f"{name} cannot be read as an image", "Check or leave it out.")


class _Bounded(gzip.GzipFile):
    """A compressed file whose reader asks for a header and may get a flood."""

    limit = 0

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= self.limit - self.tell():
            msg = f"its header asks for {size} bytes, more than {self.limit:,} in all"
            raise ValueError(msg)
        return super().read(size)


def _check_header(file: Path, nibabel: Any) -> None:
    """Read the header and its extensions, within the limit for this file."""
    with _Bounded(file) as stream:
        stream.limit = expansion_limit(file)
        second = stream.read(4) in ((540).to_bytes(4, "little"), (540).to_bytes(4))
        stream.seek(0)
        header = nibabel.Nifti2Header if second else nibabel.Nifti1Header
        header.from_fileobj(stream, check=False)


def _check_size(image: Any) -> None:
    """Refuse an image in a file whose header says that it takes too much memory."""
    file = _file(image)
    if file is not None:
        n_voxels = prod(int(size) for size in image.shape)
        n_bytes = n_voxels * image.get_data_dtype().itemsize
        check_expansion(file, n_bytes + int(getattr(image.dataobj, "offset", 0)))


def _file(image: Any) -> Path | None:
    """Return the file that still holds the voxels of an image."""
    name = image.file_map["image"].filename
    return None if name is None or isinstance(image.dataobj, np.ndarray) else Path(name)


def _values(image: Any, name: str, box: Any = ...) -> np.ndarray:
    """Return voxels; a compressed file is read to its end, where the checksum is."""
    file = _file(image)
    with _reading(name):
        if file is None or file.suffix != ".gz" or not hasattr(image, "from_stream"):
            return np.asanyarray(image.dataobj[box])
        with gzip.open(file) as stream:
            values = np.asanyarray(type(image).from_stream(stream).dataobj[box])
            while stream.read(PIECE):
                pass
        return values


def _check_space(
    name: str,
    shape: tuple[int, ...],
    affine: np.ndarray,
    expected_shape: tuple[int, ...],
    expected_affine: np.ndarray,
) -> None:
    if tuple(shape) != tuple(expected_shape):
        msg = (
            f"{name} has shape {tuple(shape)}; expected {tuple(expected_shape)}, that "
            "of the first image. Resample it to the same space."
        )
        raise ValueError(msg)
    # Affines pass through float32 headers: differences of rounding are no other space.
    if not np.allclose(affine, expected_affine, rtol=1e-4, atol=1e-4):
        msg = (
            f"{name} has the affine {_rows(affine)}; expected that of the first image, "
            f"{_rows(expected_affine)}. Resample it to the same space."
        )
        raise ValueError(msg)


def _rows(affine: np.ndarray) -> str:
    return "; ".join(" ".join(f"{value:g}" for value in row) for row in affine[:3])


def _read_mask(
    mask: Any, name: str, shape: tuple[int, ...], affine: np.ndarray, nibabel: Any
) -> np.ndarray:
    if mask is None:
        return np.ones(shape, bool)
    if isinstance(mask, np.ndarray):
        inside, mask_affine = _inside(unmasked(mask, "mask")), affine
    else:
        image = _open(mask, name, nibabel)
        inside, mask_affine = _inside(_values(image, name)), image.affine
        if inside.ndim == 4 and inside.shape[3] == 1:
            inside = inside[..., 0]
    _check_space(name, inside.shape, mask_affine, shape, affine)
    if not inside.any():
        msg = f"{name} holds no voxel; expected some that are not zero."
        raise ValueError(msg)
    return inside


def _inside(mask: Any) -> np.ndarray:
    values = np.asanyarray(mask)
    # Statistical maps, used as masks, are NaN where there was nothing to compute.
    return (values != 0) & ~np.isnan(values)


def _bounding_box(inside: np.ndarray) -> Box:
    places = np.nonzero(inside)
    x, y, z = (slice(int(p.min()), int(p.max()) + 1) for p in places)
    return x, y, z


def _samples(scan: Any, name: str, box: Box, dtype: np.dtype) -> np.ndarray:
    """Return the box of an image as samples (n, x, y, z); reads only the box."""
    values = _values(scan, name, box)
    with _reading(name):
        values = np.asarray(values, dtype=dtype)
    return np.moveaxis(values, 3, 0) if values.ndim == 4 else values[None]
