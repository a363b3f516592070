"""One video file to one tensor: frames × width × height."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Clip", "area_weights", "frame_indices", "load_video", "read_clip"]


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
