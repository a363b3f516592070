"""Video files to tensors, frames × width × height: one clip, or folders of them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.utils import Bunch

from sltr.datasets.reading import check_regular
from sltr.parameters import import_optional
from sltr.samples.labelled import LabelledArray, Labels


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
    _check_options(n_frames, size)
    return read_clip(path, n_frames, size, colour).frames


def read_clip(
    path: str | PathLike[str], n_frames: int, size: tuple[int, int], colour: bool
) -> Clip:
    """Read one clip as `load_video` does, and say what was odd about it."""
    av = import_optional("av", "Reading videos needs PyAV", "'sltr[video]'")
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

    `times` (n,) say when each frame comes on display, ascending; the last one stays
    for as long as a frame usually does. The result has shape (n_frames,).
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
    """
    edges = np.arange(n_out + 1) * (n_in / n_out)
    pixel = np.arange(n_in)
    upper = np.minimum(edges[1:, None], pixel + 1)
    lower = np.maximum(edges[:-1, None], pixel)
    weights = np.clip(upper - lower, 0.0, None) * (n_out / n_in)
    return weights.astype(np.float32)


def _check_options(n_frames: int, size: tuple[int, int]) -> None:
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
    check_regular(path)
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


SUFFIXES = frozenset(
    f".{name}"
    for name in (
        *("3gp", "avi", "flv", "m4v", "mkv", "mov", "mp4", "mpeg", "mpg", "ogv"),
        *("ts", "webm", "wmv"),
    )
)


def load_video_folder(
    folder: str | PathLike[str],
    *,
    classes: Sequence[str] | None = None,
    n_frames: int = 15,
    size: tuple[int, int] = (32, 24),
    colour: bool = False,
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
    n_jobs : int, optional
        Clips read at the same time, as in joblib.
    on_error : {"report", "raise"}
        What to do with a clip that cannot be read: list it in `failures` and warn,
        or raise. If no clip of a class can be read, an error is raised anyway.
    progress : callable, optional
        Called as ``progress(done, total)`` after each clip.

    Returns
    -------
    Bunch
        `X` (n, n_frames, width, height[, 3]) float32 in [0, 1], which knows its modes
        (see `label`); `target` (n,), the
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
    _check_options(n_frames, size)
    if on_error not in ("report", "raise"):
        msg = f"on_error={on_error!r} was given; expected 'report' or 'raise'."
        raise ValueError(msg)
    root = Path(folder)
    names = _class_names(root, classes)
    by_class = [_clips(root / name) for name in names]
    paths = [path for clips in by_class for path in clips]
    labels = np.repeat(range(len(names)), [len(clips) for clips in by_class])
    files = np.array([path.relative_to(root).as_posix() for path in paths])
    options = (int(n_frames), (int(size[0]), int(size[1])), bool(colour))
    outcomes = _read_all(paths, options, n_jobs, progress)
    readable = np.array([isinstance(outcome, Clip) for outcome in outcomes])
    failures = [
        (file, outcome)
        for file, outcome in zip(files.tolist(), outcomes, strict=True)
        if isinstance(outcome, str)
    ]
    lost = [name for k, name in enumerate(names) if k not in labels[readable]]
    if lost:
        msg = (
            f"No clip of the classes {lost} could be read; expected at least one of "
            f"each. First of {len(failures)} failures: {failures[0][1]}"
        )
        raise ValueError(msg)
    if failures and on_error == "raise":
        raise ValueError(failures[0][1])
    if failures:
        first = ", ".join(file for file, _ in failures[:3])
        msg = (
            f"{len(failures)} of {len(paths)} clips could not be read ({first}, …); "
            "see `failures` of the result for the reasons."
        )
        warnings.warn(msg, stacklevel=2)
    clips = [outcome for outcome in outcomes if isinstance(outcome, Clip)]
    kept = files[readable].tolist()
    notes = [(file, clip.note) for file, clip in zip(kept, clips, strict=True)]
    return Bunch(
        X=_labelled(np.stack([clip.frames for clip in clips]), files[readable]),
        target=labels[readable],
        target_names=np.array(names),
        filenames=files[readable],
        groups=np.array([_film(name) for name in kept]),
        failures=failures,
        notes=[(file, note) for file, note in notes if note],
    )


def _labelled(X: np.ndarray, files: np.ndarray) -> LabelledArray:
    """Return films whose modes are named, so that they are drawn upright."""
    colours = [np.array(["red", "green", "blue"])][: X.ndim - 4]
    names = ("frame", "width", "height", "colour")[: X.ndim - 1]
    labels = Labels(
        names,
        ("",) * len(names),
        (None, None, None, *colours),
        space={"kind": "film"},
        ids=files,
    )
    return LabelledArray(X, labels)


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


def _film(filename: str) -> str:
    """Return what clips of one film share: UCF101 counts them by g07_c01, g07_c02."""
    return re.sub(r"(_g\d+)_c\d+(\.\w+)$", r"\1", filename)
