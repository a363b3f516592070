"""Encode two classes of noisy clips: python moving_discs.py DIR.

For `reproduce("ucf101", …)` where UCF101 is not at hand. A disc falls or crosses,
hardly brighter than the noise; four clips to a film, named as in UCF101.
"""

import sys
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

N_CLIPS, N_FRAMES, HEIGHT, WIDTH, RATE = 40, 30, 120, 160, 25
BRIGHTNESS, NOISE, RADIUS = 5.0, 45.0, 13.0


def clip(rng: np.random.Generator, falling: bool) -> np.ndarray:
    """Return grey frames as RGB, (frames, height, width, 3)."""
    frames = rng.normal(70.0, NOISE, (N_FRAMES, HEIGHT, WIDTH))
    off = rng.normal(0.0, 16.0)
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    for t, frame in enumerate(frames):
        y, x = (10 + 3.4 * t, 80 + off) if falling else (60 + 0.8 * off, 12 + 4.7 * t)
        frame[(rows - y) ** 2 + (columns - x) ** 2 < RADIUS**2] += BRIGHTNESS
    grey = np.clip(frames, 0.0, 255.0).astype(np.uint8)
    return np.repeat(grey[..., None], 3, axis=3)


def encode(path: Path, frames: np.ndarray) -> None:
    """Write an MPEG-4 file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.bit_rate = 3_000_000
        for k, image in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts, frame.time_base = k, Fraction(1, RATE)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


if __name__ == "__main__":
    rng, out = np.random.default_rng(0), Path(sys.argv[1])
    for k in range(N_CLIPS):
        for name in ("Falling", "Crossing"):
            file = f"v_{name}_g{k // 4 + 1:02d}_c{k % 4 + 1:02d}.avi"
            encode(out / name / file, clip(rng, name == "Falling"))
    print(f"{2 * N_CLIPS} clips in {out}")
