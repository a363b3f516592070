import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from sltr.datasets import load_video, load_video_folder
from sltr.datasets.video import (
    area_weights,
    frame_indices,
    read_clip,
)

av = pytest.importorskip("av")

WIDTH, HEIGHT = 64, 48


def moving_square(n_frames, *, down=False):
    """White square on black, in equal steps along the width or the height."""
    frames = np.zeros((n_frames, HEIGHT, WIDTH, 3), np.uint8)
    room = (HEIGHT if down else WIDTH) - 16
    for k in range(n_frames):
        at = round(k * room / max(n_frames - 1, 1))
        top, left = (at, 24) if down else (16, at)
        frames[k, top : top + 16, left : left + 16] = 255
    return frames


def noise(n_frames):
    """Pictures that do not compress: files large enough to damage in the middle."""
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (n_frames, HEIGHT, WIDTH, 3), dtype=np.uint8)


def encode(path, frames, *, codec="mpeg4", pts=None, rate=30):
    """Write a real, encoded video; `pts` in frames of `rate`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=rate)
        stream.width, stream.height = frames.shape[2], frames.shape[1]
        stream.pix_fmt = "yuv420p"
        stream.bit_rate = 4_000_000
        for k, image in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts = k if pts is None else pts[k]
            frame.time_base = Fraction(1, rate)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def block_means(image, size):
    """Average by loops over whole blocks of pixels: width × height."""
    w, h = image.shape[1] // size[0], image.shape[0] // size[1]
    return np.array(
        [
            [
                image[j * h : (j + 1) * h, i * w : (i + 1) * w].mean()
                for j in range(size[1])
            ]
            for i in range(size[0])
        ]
    )


def grey(path):
    with av.open(str(path)) as container:
        return [f.to_ndarray(format="gray") for f in container.decode(video=0)]


@pytest.fixture
def folder(tmp_path):
    for k in range(3):
        across, below = moving_square(20 + k), moving_square(20 + k, down=True)
        encode(tmp_path / "clips/across" / f"v_across_g0{k // 2}_c0{k}.mp4", across)
        encode(tmp_path / "clips/down" / f"{k}.avi", below)
    return tmp_path / "clips"


@pytest.mark.parametrize(("n_in", "n_out"), [(320, 32), (7, 3), (3, 7), (5, 5), (4, 1)])
def test_area_weights_are_the_overlaps(n_in, n_out):
    fine = np.arange(n_in * n_out)  # cut every pixel into n_out slivers
    expected = np.zeros((n_out, n_in))
    for sliver in fine:
        expected[sliver // n_in, sliver // n_out] += 1 / n_in
    np.testing.assert_allclose(area_weights(n_in, n_out), expected, atol=1e-6)


def test_frames_are_the_ones_on_display_in_the_middle_of_equal_parts():
    assert frame_indices(np.arange(150.0), 15).tolist() == list(range(5, 150, 10))
    assert frame_indices(np.arange(4.0), 4).tolist() == [0, 1, 2, 3]
    assert frame_indices(np.array([3.0]), 3).tolist() == [0, 0, 0]
    # 8 s with one picture, then 12 pictures in 4 s
    times = np.concatenate([[0.0], 8 + np.arange(12) / 3])
    assert frame_indices(times, 3).tolist() == [0, 0, 7]


def test_video_is_sampled_averaged_and_width_first(tmp_path):
    path = encode(tmp_path / "a.mp4", moving_square(30))
    small = load_video(path, n_frames=15, size=(16, 12))
    assert small.shape == (15, 16, 12)
    assert small.dtype == np.float32
    images = grey(path)
    for k in range(15):
        expected = block_means(images[2 * k + 1] / 255, (16, 12))
        np.testing.assert_allclose(small[k], expected, atol=1e-5)
    centre = [np.average(np.arange(16), weights=f.sum(axis=1)) for f in small]
    assert np.all(np.diff(centre) > 0)


def test_colour_keeps_three_channels(tmp_path):
    frames = moving_square(16)
    frames[..., 1:] = 0
    red = load_video(encode(tmp_path / "a.mp4", frames), colour=True)
    assert red.shape == (15, 32, 24, 3)
    assert red[..., 0].max() > 0.9
    assert red[..., 1:].max() < 0.2


def test_any_size_keeps_the_mean(tmp_path):
    path = encode(tmp_path / "a.mp4", moving_square(15))
    small = load_video(path, size=(7, 5))
    expected = [image.mean() / 255 for image in grey(path)]
    np.testing.assert_allclose(small.mean(axis=(1, 2)), expected, atol=1e-5)


def test_variable_rate_is_sampled_by_time(tmp_path):
    frames = moving_square(20)
    pts = [*range(8), *range(10, 130, 10)]  # the second part plays ten times slower
    path = encode(tmp_path / "slow.mkv", frames, pts=pts)
    small = load_video(path, n_frames=13, size=(WIDTH, HEIGHT))
    images = grey(path)
    for k, index in enumerate(range(8, 20), start=1):  # middles at 15, 25, …
        np.testing.assert_allclose(small[k], images[index].T / 255, atol=1e-5)


def test_short_clip_repeats_frames_and_says_so(tmp_path):
    path = encode(tmp_path / "short.mp4", moving_square(4))
    clip = read_clip(path, 15, (32, 24), False)
    assert clip.frames.shape == (15, 32, 24)
    assert len(np.unique(clip.frames, axis=0)) == 4
    assert "4 frames, fewer than 15" in clip.note


def test_truncated_clip_gives_what_is_there(tmp_path):
    path = encode(tmp_path / "cut.avi", noise(60))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    clip = read_clip(path, 15, (32, 24), False)
    assert len(np.unique(clip.frames, axis=0)) == 15


def test_damage_in_the_middle_is_stepped_over_and_noted(tmp_path):
    path = encode(tmp_path / "hurt.mp4", noise(60))
    data = bytearray(path.read_bytes())
    data[len(data) // 4 : len(data) // 4 + 12000] = bytes(12000)
    path.write_bytes(data)
    clip = read_clip(path, 15, (32, 24), False)
    assert clip.frames.shape == (15, 32, 24)
    assert "damaged places" in clip.note


@pytest.mark.parametrize("content", [b"", b"this is no video", b"\x00" * 5000])
def test_what_is_no_video_is_named(tmp_path, content):
    path = tmp_path / "no.mp4"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"no\.mp4 cannot be read as a video"):
        load_video(path)


def test_sound_without_pictures_is_named(tmp_path):
    path = tmp_path / "sound.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=8000)
        silence = av.AudioFrame.from_ndarray(
            np.zeros((1, 1024), np.float32), format="fltp", layout="mono"
        )
        silence.sample_rate, silence.pts = 8000, 0
        container.mux(stream.encode(silence))
        container.mux(stream.encode())
    with pytest.raises(ValueError, match="holds no frame"):
        load_video(path)


@pytest.mark.parametrize(
    "options",
    [
        *({"n_frames": n} for n in (0, 2.5, "a", "15", None, np.nan, np.inf)),
        *({"size": size} for size in ((0, 3), (3,), (3, 4, 5), None, 32, "ab")),
    ],
)
def test_impossible_shapes_are_named(options):
    with pytest.raises(ValueError, match=r"n_frames=.* and size=.* were given"):
        load_video("a.mp4", **options)


def test_folder_gives_clips_labels_and_films(folder):
    seen = []
    data = load_video_folder(folder, progress=lambda *step: seen.append(step))
    assert data.X.shape == (6, 15, 32, 24)
    assert data.target.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.target_names.tolist() == ["across", "down"]
    assert data.filenames[0] == "across/v_across_g00_c00.mp4"
    assert data.groups[0] == data.groups[1] == "across/v_across_g00"
    assert len(set(data.groups)) == 5
    assert data.failures == data.notes == []
    assert seen == [(k, 6) for k in range(1, 7)]
    for path, clip in zip(data.filenames, data.X, strict=True):
        np.testing.assert_array_equal(clip, load_video(folder / path))


def test_result_does_not_depend_on_workers(folder):
    np.testing.assert_array_equal(
        load_video_folder(folder).X, load_video_folder(folder, n_jobs=2).X
    )


def test_classes_choose_and_order_the_labels(folder):
    (folder / "third").mkdir()
    data = load_video_folder(folder, classes=("down", "across"))
    assert data.target_names.tolist() == ["down", "across"]
    assert data.filenames[0].startswith("down/")


def test_unreadable_clips_are_listed_and_warned_of(folder):
    (folder / "down" / "broken.mp4").write_bytes(b"no video")
    (folder / "down" / "notes.txt").write_text("not a clip, not looked at")
    encode(folder / "across" / "short.mp4", moving_square(3))
    with pytest.warns(UserWarning, match="1 of 8 clips could not be read"):
        data = load_video_folder(folder)
    assert len(data.X) == len(data.target) == len(data.filenames) == 7
    assert [file for file, _ in data.failures] == ["down/broken.mp4"]
    assert [file for file, _ in data.notes] == ["across/short.mp4"]
    with pytest.raises(ValueError, match=r"broken\.mp4 cannot be read"):
        load_video_folder(folder, on_error="raise")


def test_class_without_a_readable_clip_is_an_error(folder):
    for path in (folder / "down").iterdir():
        path.write_bytes(b"no video")
    with pytest.raises(ValueError, match=r"No clip of the classes \['down'\]"):
        load_video_folder(folder)


def test_a_broken_link_is_a_failure_until_it_is_mended(folder, tmp_path):
    (folder / "down" / "link.avi").symlink_to(tmp_path / "film.avi")
    with pytest.warns(UserWarning, match="1 of 7"):
        data = load_video_folder(folder)
    assert [file for file, _ in data.failures] == ["down/link.avi"]
    encode(tmp_path / "film.avi", moving_square(20))
    seen = []
    again = load_video_folder(folder, progress=lambda *step: seen.append(step))
    assert len(again.X) == len(seen) == 7


def test_bad_folders_are_named(folder, tmp_path):
    with pytest.raises(ValueError, match="is not a folder"):
        load_video_folder(tmp_path / "absent")
    with pytest.raises(ValueError, match=r"no class folders \['up'\]"):
        load_video_folder(folder, classes=("up", "down"))
    with pytest.raises(ValueError, match=r"\['down', 'down', 'across'\] .* each once"):
        load_video_folder(folder, classes=("down", "down", "across"))
    with pytest.raises(ValueError, match="at least 2"):
        load_video_folder(folder, classes=("down",))
    with pytest.raises(ValueError, match="on_error='shrug'"):
        load_video_folder(folder, on_error="shrug")
    (folder / "empty").mkdir()
    with pytest.raises(ValueError, match=r"\['empty'\] .* hold no video"):
        load_video_folder(folder)


def test_real_clips_are_read(tmp_path):
    if "SLTR_DATA" not in os.environ:
        pytest.skip("SLTR_DATA is not set: no real clips")
    clips = sorted((Path(os.environ["SLTR_DATA"]) / "clips").iterdir())
    for path in clips:  # one of them carries metadata that are not UTF-8
        kind = "soccer" if "Soccer" in path.name else "other"
        (tmp_path / kind).mkdir(exist_ok=True)
        (tmp_path / kind / path.name).symlink_to(path)
    data = load_video_folder(tmp_path, n_jobs=2)
    assert data.X.shape == (len(clips), 15, 32, 24)
    assert data.failures == data.notes == []
    assert np.all(data.X.std(axis=(1, 2, 3)) > 0.05)
