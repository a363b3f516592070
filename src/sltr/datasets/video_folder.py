"""A folder of labelled clips to a data set, in parallel and cached."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn.utils import Bunch

from sltr.datasets.npz_cache import cache_file, read_arrays, write_arrays
from sltr.datasets.video import Clip, check_options, read_clip

__all__ = ["load_video_folder"]

SUFFIXES = frozenset(
    f".{name}"
    for name in (
        *("3gp", "avi", "flv", "m4v", "mkv", "mov", "mp4", "mpeg", "mpg", "ogv"),
        *("ts", "webm", "wmv"),
    )
)
_STORED = ("X", "kept", "notes", "reasons")


def load_video_folder(
    folder: str | PathLike[str],
    *,
    classes: Sequence[str] | None = None,
    n_frames: int = 15,
    size: tuple[int, int] = (32, 24),
    colour: bool = False,
    cache: str | PathLike[str] | None = None,
    n_jobs: int | None = None,
    on_error: str = "report",
    progress: Callable[[int, int], object] | None = None,
) -> Bunch:
    """Read a folder with one sub-folder of clips for each class.

    Each clip is read as `load_video` does. The defaults are those of the SLTR
    paper for UCF101: 15 frames of 32 × 24 grey pixels.

    Parameters
    ----------
    folder : path
        Its sub-folders name the classes; clips may lie deeper inside them. Files
        that do not end like a video are left out.
    classes : sequence of str, optional
        The sub-folders to read, in the order of their labels. Default: all, by
        name.
    n_frames, size, colour
        As in `load_video`.
    cache : path, optional
        A folder for the result: it is read from there as long as the clips (names,
        sizes, times of change) and the options stay the same.
    n_jobs : int, optional
        Clips read at the same time, as in joblib.
    on_error : {"report", "raise"}
        What to do with a clip that cannot be read: list it in `failures` and warn,
        or raise. If no clip of a class can be read, an error is raised anyway.
    progress : callable, optional
        Called as ``progress(done, total)`` after each clip that is read (not at all
        for a cached result).

    Returns
    -------
    Bunch
        `X` (n, n_frames, width, height[, 3]) float32 in [0, 1]; `target` (n,), the
        label; `target_names`; `filenames` (n,), relative to `folder`; `groups`
        (n,), the same for clips cut from the same film, where names follow UCF101
        (``v_Bowling_g07_c02.avi``): split by groups, or the test set is not new;
        `failures`, pairs (file, reason); `notes`, pairs (file, what was odd).

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as empty:
    ...     load_video_folder(empty)
    Traceback (most recent call last):
        ...
    ValueError: ...holds the class folders []; expected at least 2...
    """
    check_options(n_frames, size)
    if on_error not in ("report", "raise"):
        msg = f"on_error={on_error!r} was given; expected 'report' or 'raise'."
        raise ValueError(msg)
    root = Path(folder)
    names = _class_names(root, classes)
    files = [(path, k) for k, name in enumerate(names) for path in _clips(root / name)]
    labels = np.array([k for _, k in files], dtype=np.int64)
    relative = [path.relative_to(root).as_posix() for path, _ in files]
    options = (int(n_frames), (int(size[0]), int(size[1])), bool(colour))
    paths = [path for path, _ in files]
    stored = None if cache is None else cache_file(cache, "video", paths, options)
    found = None if stored is None else read_arrays(stored, _STORED)
    if found is None:
        found = _collect(_read_all(paths, options, n_jobs, progress))
        _check_classes(labels[found["kept"]], names, found["reasons"])
        if stored is not None:
            write_arrays(stored, found)
    return _as_bunch(found, labels, relative, names, on_error)


def _class_names(root: Path, classes: Sequence[str] | None) -> list[str]:
    if not root.is_dir():
        msg = f"{root} is not a folder; expected one with a sub-folder for each class."
        raise ValueError(msg)
    there = sorted(
        p.name for p in root.iterdir() if p.is_dir() and not p.name.startswith(".")
    )
    names = there if classes is None else list(classes)
    absent = [name for name in names if name not in there]
    if absent:
        msg = f"{root} has no class folders {absent}; expected some of {there}."
        raise ValueError(msg)
    if len(set(names)) < len(names):
        msg = f"classes={names} was given; expected each once, from {there}."
        raise ValueError(msg)
    if len(names) < 2:
        msg = (
            f"{root} holds the class folders {names}; expected at least 2 of them. "
            "Put the clips of each class into a sub-folder of its own."
        )
        raise ValueError(msg)
    empty = [name for name in names if not _clips(root / name)]
    if empty:
        msg = (
            f"The class folders {empty} of {root} hold no video; expected files that "
            f"end in one of {sorted(SUFFIXES)}. Fill them or choose other `classes`."
        )
        raise ValueError(msg)
    return names


def _clips(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES)


def _read_all(
    paths: list[Path],
    options: tuple[int, tuple[int, int], bool],
    n_jobs: int | None,
    progress: Callable[[int, int], object] | None,
) -> list[Clip | str]:
    # Decoding and averaging release the interpreter lock: threads are enough.
    workers = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")
    outcomes = []
    for outcome in workers(delayed(_attempt)(path, options) for path in paths):
        outcomes.append(outcome)
        if progress is not None:
            progress(len(outcomes), len(paths))
    return outcomes


def _attempt(path: Path, options: tuple[int, tuple[int, int], bool]) -> Clip | str:
    """Return the clip, or why it cannot be read: one file must not stop the rest."""
    try:
        return read_clip(path, *options)
    except ValueError as error:
        return str(error)


def _collect(outcomes: list[Clip | str]) -> dict[str, np.ndarray]:
    """Return the outcomes as arrays that can be stored without pickling."""
    clips = [outcome for outcome in outcomes if not isinstance(outcome, str)]
    return {
        "X": np.stack([clip.frames for clip in clips]) if clips else np.empty(0),
        "kept": np.array([not isinstance(outcome, str) for outcome in outcomes]),
        "notes": np.array([clip.note for clip in clips], dtype=str),
        "reasons": np.array([o for o in outcomes if isinstance(o, str)], dtype=str),
    }


def _check_classes(left: np.ndarray, names: list[str], reasons: np.ndarray) -> None:
    lost = [name for k, name in enumerate(names) if k not in left]
    if lost:
        msg = (
            f"No clip of the classes {lost} could be read; expected at least one of "
            f"each. First of {len(reasons)} failures: {reasons[0]}"
        )
        raise ValueError(msg)


def _as_bunch(
    found: dict[str, np.ndarray],
    labels: np.ndarray,
    relative: list[str],
    names: list[str],
    on_error: str,
) -> Bunch:
    kept = found["kept"]
    filenames = np.array(relative)
    failures = list(
        zip(filenames[~kept].tolist(), found["reasons"].tolist(), strict=True)
    )
    if failures and on_error == "raise":
        raise ValueError(failures[0][1])
    if failures:
        first = ", ".join(file for file, _ in failures[:3])
        msg = (
            f"{len(failures)} of {len(kept)} clips could not be read ({first}, …); "
            "see `failures` of the result for the reasons."
        )
        warnings.warn(msg, stacklevel=3)
    noted = zip(filenames[kept].tolist(), found["notes"].tolist(), strict=True)
    return Bunch(
        X=found["X"],
        target=labels[kept],
        target_names=np.array(names),
        filenames=filenames[kept],
        groups=np.array([_film(name) for name in filenames[kept].tolist()]),
        failures=failures,
        notes=[(file, note) for file, note in noted if note],
    )


def _film(filename: str) -> str:
    """Return what clips of one film share: UCF101 counts them by g07_c01, g07_c02."""
    return re.sub(r"(_g\d+)_c\d+(\.\w+)$", r"\1", filename)
