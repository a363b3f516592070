"""One video file to one tensor: frames × width × height."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.utils import Bunch

from sltr.datasets.files import READ_ERRORS


class Clip(NamedTuple):
    """A clip's frames, and what was odd about its file (empty: nothing)."""

    frames: np.ndarray
    note: str


def load_video(
    path: str | PathLike[str],
    *,
    n_frames: int = 15,
    size: tuple[int, int] = (32, 24),
    colour: bool = False,
) -> np.ndarray:
    """Read a video as a small tensor of uniformly sampled, averaged frames.

    The clip is cut into `n_frames` parts of equal duration, and the frame on
    display in the middle of each is taken: by time, so that a variable frame rate
    does no harm. A clip with fewer frames repeats some. Each pixel of the result
    is the mean of the area it covers; the aspect ratio is not kept.

    Parameters
    ----------
    path : path
    n_frames : int
    size : (int, int)
        Width and height in pixels; the default is that of the SLTR paper.
    colour : bool
        Keep red, green and blue as a last mode; otherwise grey.

    Returns
    -------
    array of shape (n_frames, width, height) or (n_frames, width, height, 3)
        float32 in [0, 1]. Mind the order: width first, as in the paper's
        15 × 32 × 24; transpose the last two modes of a grey frame to show it.

    Examples
    --------
    >>> load_video("no-such-clip.avi")
    Traceback (most recent call last):
        ...
    ValueError: no-such-clip.avi cannot be read as a video: No such file...
    """
    check_options(n_frames, size)
    return read_clip(path, n_frames, size, colour).frames


def read_clip(
    path: str | PathLike[str], n_frames: int, size: tuple[int, int], colour: bool
) -> Clip:
    """Read one clip as `load_video` does, and say what was odd about it."""
    av = _import_av()
    try:
        times, n_damages = _frame_times(av, path)
        if not len(times):
            msg = f"{path} holds no frame that can be decoded. Leave the file out."
            raise ValueError(msg)
        chosen = frame_indices(times, n_frames)
        images = _small_images(av, path, set(chosen.tolist()), size, colour)
    except (av.error.FFmpegError, OSError) as error:
        reason = getattr(error, "strerror", None) or error
        msg = f"{path} cannot be read as a video: {reason}. Check or leave it out."
        raise ValueError(msg) from error
    frames = np.stack([images[i] for i in chosen.tolist()])
    return Clip(frames, _note(len(times), n_frames, n_damages))


def frame_indices(times: np.ndarray, n_frames: int) -> np.ndarray:
    """Return which frames are on display in the middle of equal parts of a clip.

    Parameters
    ----------
    times : array of shape (n,)
        When each frame comes on display, ascending. The last one stays for as
        long as a frame usually does.
    n_frames : int

    Returns
    -------
    array of int of shape (n_frames,)

    Examples
    --------
    >>> import numpy as np
    >>> frame_indices(np.arange(30.0), 3)
    array([ 5, 15, 25])
    >>> frame_indices(np.array([0.0, 7.0, 8.0, 9.0]), 5)
    array([0, 0, 0, 1, 3])
    """
    usual = np.median(np.diff(times)) if len(times) > 1 else 1.0
    duration = times[-1] - times[0] + usual
    middles = times[0] + (np.arange(n_frames) + 0.5) * (duration / n_frames)
    return np.maximum(np.searchsorted(times, middles, side="right") - 1, 0)


@lru_cache(maxsize=64)
def area_weights(n_in: int, n_out: int) -> np.ndarray:
    """Return the matrix that averages `n_in` pixels over `n_out` equal intervals.

    Row i holds the share of each input pixel in the i-th interval, so that rows
    sum to 1 and the mean is kept exactly.

    Examples
    --------
    >>> area_weights(3, 2).round(3)
    array([[0.667, 0.333, 0.   ],
           [0.   , 0.333, 0.667]], dtype=float32)
    """
    edges = np.arange(n_out + 1) * (n_in / n_out)
    pixel = np.arange(n_in)
    upper = np.minimum(edges[1:, None], pixel + 1)
    lower = np.maximum(edges[:-1, None], pixel)
    weights = np.clip(upper - lower, 0.0, None) * (n_out / n_in)
    return weights.astype(np.float32)


def check_options(n_frames: int, size: tuple[int, int]) -> None:
    """Say what is wrong with the shape asked for, if anything is."""
    try:
        width, height = size
        possible = all(int(n) == n and n >= 1 for n in (n_frames, width, height))
    except (TypeError, ValueError, OverflowError):  # no pair, no number, infinite
        possible = False
    if not possible:
        msg = (
            f"n_frames={n_frames!r} and size={size!r} were given; expected a positive "
            "number of frames and (width, height) in pixels."
        )
        raise ValueError(msg)


def _import_av() -> Any:
    try:
        import av
    except ImportError as error:
        msg = "Reading videos needs PyAV. Install it with: pip install 'sltr[video]'"
        raise ImportError(msg) from error
    return av


def _frame_times(av: Any, path: str | PathLike[str]) -> tuple[np.ndarray, int]:
    """Return when each frame is shown, in that order, and the number of damages."""
    broken: list[Exception] = []
    with _open(av, path) as container:
        frames = [(f.pts, f.is_corrupt) for f in _decode(av, container, broken)]
    stamps = [stamp for stamp, _ in frames]
    n_damages = len(broken) + sum(corrupt for _, corrupt in frames)
    if None in stamps:
        return np.arange(float(len(stamps))), n_damages
    # Frames are decoded in the order of display, but "packed" AVI files number
    # some of them the wrong way round.
    return np.sort(np.array(stamps, dtype=float)), n_damages


def _small_images(
    av: Any,
    path: str | PathLike[str],
    chosen: set[int],
    size: tuple[int, int],
    colour: bool,
) -> dict[int, np.ndarray]:
    images = {}
    with _open(av, path) as container:
        for index, frame in enumerate(_decode(av, container, [])):
            if index in chosen:
                images[index] = _shrink(frame, size, colour)
                if len(images) == len(chosen):
                    break
    return images


def _open(av: Any, path: str | PathLike[str]) -> Any:
    # Metadata in other encodings than UTF-8 must not keep us from the pictures.
    return av.open(str(path), metadata_errors="ignore")


def _decode(av: Any, container: Any, broken: list[Exception]) -> Iterator[Any]:
    """Yield the frames of the first video stream, step over broken packets."""
    if not container.streams.video:
        return
    for packet in container.demux(container.streams.video[0]):
        try:
            yield from packet.decode()
        except av.error.InvalidDataError as error:
            broken.append(error)


def _shrink(frame: Any, size: tuple[int, int], colour: bool) -> np.ndarray:
    """Return a frame as width × height (× 3) means of areas, in [0, 1]."""
    image = frame.to_ndarray(format="rgb24" if colour else "gray").astype(np.float32)
    image = image.reshape(*image.shape[:2], -1)
    height, width = image.shape[:2]
    across, down = area_weights(width, size[0]), area_weights(height, size[1])
    channels = [across @ image[:, :, c].T @ down.T for c in range(image.shape[2])]
    small = np.stack(channels, axis=-1) / np.float32(255)
    return small if colour else small[:, :, 0]


def _note(n_found: int, n_frames: int, n_damages: int) -> str:
    notes = []
    if n_found < n_frames:
        notes.append(f"{n_found} frames, fewer than {n_frames}: some are repeated")
    if n_damages:
        notes.append(f"{n_damages} damaged places")
    return "; ".join(notes)


# Change it when the same files and options would give other numbers.
_FORMAT = 1


def cache_file(
    cache: str | PathLike[str], name: str, sources: list[Path], options: object
) -> Path:
    """Return the file that belongs to these source files and options.

    Its name changes with the path, size and time of change of every source and
    with the options (anything JSON can hold). The folder `cache` is made, and
    checked, before the work is done rather than after.
    """
    directory = Path(cache)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if not os.access(directory, os.W_OK):
            raise PermissionError("not writable")
    except OSError as error:
        msg = (
            f"cache={str(cache)!r} cannot be used as a folder: {error}. Choose another."
        )
        raise ValueError(msg) from error
    files = [(str(path.absolute()), *_state(path)) for path in sources]
    key = json.dumps([_FORMAT, options, files])
    return directory / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:24]}.npz"


def _state(path: Path) -> tuple[int, int]:
    """Return size and time of change, negative where there is no file to ask."""
    try:
        found = path.stat()
    except OSError:  # a broken link: whoever reads the files reports it
        return -1, -1
    return found.st_size, found.st_mtime_ns


def read_arrays(stored: Path, names: Iterable[str]) -> dict[str, np.ndarray] | None:
    """Return the stored arrays, or None where they are not there or damaged."""
    try:
        with stored.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in names}
    except (*READ_ERRORS, KeyError):
        return None


def write_arrays(stored: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Store arrays; the file appears under its name only when it is complete."""
    handle, partial = tempfile.mkstemp(dir=stored.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        Path(partial).replace(stored)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


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
