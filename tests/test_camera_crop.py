"""The virtual camera: windows, what is cut out of a panorama, times, sound, and what happens when things go wrong."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simile import ArgumentError, DataError, Horizon, SmoothPolicy
from simile.camera.calibration import Homography, View, calibrate, landmarks
from simile.camera.courts import BASKETBALL, SOCCER
from simile.camera.features import Features
from simile.camera.film.crop import Cropped, _act, crop, cut
from simile.camera.film.footage import Footage
from simile.camera.film.panorama import Calibrated, Panorama
from simile.camera.games import Game
from simile.camera.geometry import Base, Camera, Lens
from simile.models.regularizers import Autoregressor
from simile.online import RateLimit
from simile.policies.cards import Card

av = pytest.importorskip("av", reason="needs the extra video")
pytest.importorskip("PIL", reason="needs the extra video")

WIDE, HIGH, FRAMES, RATE = 3840, 1080, 50, 25
MARK = 80  # pixels
PANS = 40.0 * np.sin(np.arange(FRAMES) / 12.0)
PANORAMA = Panorama(fov=120.0)
DEGREES_PER_METRE = 3.0
FEATURES = Features(BASKETBALL)
PIXELS = st.integers(64, 5000)


def sine(stream, seconds: float, rate: int = 48_000):
    """A tone, in the pieces that AAC and PCM take."""
    tone = (8000 * np.sin(2.0 * np.pi * 440.0 * np.arange(int(seconds * rate)) / rate)).astype(np.int16)
    for start in range(0, len(tone), 1024):
        frame = av.AudioFrame.from_ndarray(tone[np.newaxis, start : start + 1024], format="s16", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = rate, start, Fraction(1, rate)
        yield from stream.encode(frame)
    yield from stream.encode()


def film(path: Path, pictures, *, sound: str | None = None, stamps=None, pix_fmt: str = "yuv420p") -> Path:
    """Write grey pictures (h, w) as a film; frame t is shown at stamps[t] milliseconds."""
    pictures = list(pictures)
    stamps = np.arange(len(pictures)) * 1000 // RATE if stamps is None else stamps
    with av.open(str(path), "w") as sink:
        stream = sink.add_stream("libx264", rate=RATE, options={"preset": "ultrafast", "crf": "18"})
        stream.height, stream.width = pictures[0].shape
        stream.pix_fmt = pix_fmt
        stream.codec_context.time_base = Fraction(1, 1000)
        track = None if sound is None else sink.add_stream(sound, rate=48_000, layout="mono")
        for picture, stamp in zip(pictures, stamps, strict=True):
            frame = av.VideoFrame.from_ndarray(picture, format="gray")
            frame.pts, frame.time_base = int(stamp), Fraction(1, 1000)
            sink.mux(stream.encode(frame))
        sink.mux(stream.encode())
        for packet in sine(track, len(pictures) / RATE) if track is not None else ():
            sink.mux(packet)
    return path


def marked(pan: float) -> np.ndarray:
    """A panorama with one bright square where a camera with this pan looks."""
    picture = np.full((HIGH, WIDE), 60, np.uint8)
    x = round(WIDE / 2 + pan / 120.0 * WIDE)
    picture[HIGH // 2 - MARK // 2 : HIGH // 2 + MARK // 2, x - MARK // 2 : x + MARK // 2] = 230
    return picture


@pytest.fixture(scope="module")
def panorama(tmp_path_factory) -> Path:
    """Two seconds of a square that moves to and fro, with a tone."""
    return film(tmp_path_factory.mktemp("film") / "wide.mp4", map(marked, PANS), sound="aac")


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    """Twelve small pictures at uneven times."""
    stamps = [0, 40, 90, 120, 200, 240, 241, 300, 400, 440, 480, 600]
    pictures = [np.full((120, 320), 20 * t, np.uint8) for t in range(12)]
    return film(tmp_path_factory.mktemp("film") / "small.mp4", pictures, stamps=stamps)


def decoded(path: Path) -> list[np.ndarray]:
    with av.open(str(path)) as source:
        return [frame.to_ndarray(format="gray") for frame in source.decode(video=0)]


def times(path: Path) -> list[float]:
    with av.open(str(path)) as source:
        return [round(frame.time, 3) for frame in source.decode(video=0)]


def sounds(path: Path) -> list[bytes]:
    with av.open(str(path)) as source:
        return [bytes(packet) for packet in source.demux(audio=0) if packet.size]


def middle(picture: np.ndarray) -> tuple[float, float]:
    """Where the bright square is."""
    rows, columns = np.nonzero(picture > 150)
    return columns.mean(), rows.mean()


@dataclass(frozen=True)
class Follow:
    """Looks at the middle of all players."""

    def predict(self, S: np.ndarray) -> np.ndarray:
        return DEGREES_PER_METRE * S[:, [FEATURES.names.index("centroid_x")]]


def follower(rate: float | None = RATE, lead: int = 0) -> SmoothPolicy:
    h = Autoregressor(np.ones((1, 1)))
    return SmoothPolicy(Follow(), h, 0.0, Horizon(0, 0, lead), Follow(), len(FEATURES.names), card=Card(rate=rate))


def detections(pans: np.ndarray) -> np.ndarray:
    """Two players around the place that the follower looks at."""
    x = pans / DEGREES_PER_METRE
    return np.stack([np.column_stack([x + 0.5, 0.0 * x]), np.column_stack([x - 0.5, 0.0 * x])], axis=1)


def game(pans: np.ndarray) -> Game:
    return Game("g", float(RATE), BASKETBALL, Camera.beside(BASKETBALL), detections(pans))


# -------------------------------------------------------------------------------------------------------------- windows


@given(st.floats(-180, 180), st.floats(-90, 90), st.floats(0.1, 50.0), PIXELS, PIXELS, PIXELS, PIXELS)
def test_windows_lie_in_the_picture_and_keep_the_aspect(pan, tilt, zoom, wide, high, width, height):
    box = PANORAMA.windows([[pan, tilt, zoom]], (wide, high), (width, height))[0]
    assert (box[:2] >= -1e-6).all()
    assert (box[2:] <= np.array([wide, high]) + 1e-6).all()
    assert (box[2] - box[0]) / (box[3] - box[1]) == pytest.approx(width / height)


def test_a_window_is_where_the_formula_of_the_docs_says():
    box = Panorama(120.0, (5.0, -10.0), 60.0).windows([[20.0, -12.0, 1.0]], (3840, 1080), (800, 200))[0]
    assert (box[0] + box[2]) / 2 == pytest.approx(1920 + 15 * 32)
    assert (box[1] + box[3]) / 2 == pytest.approx(540 + 2 * 32)
    assert box[2] - box[0] == pytest.approx(60 * 32)


def test_small_motions_move_the_window_by_fractions_of_a_pixel():
    lefts = PANORAMA.windows(np.linspace(0.0, 0.1, 20)[:, np.newaxis], (3840, 1080), (1280, 720))[:, 0]
    np.testing.assert_allclose(np.diff(lefts), 0.1 / 19 * 32)


def test_a_panorama_can_stand_in_for_the_camera_of_a_game():
    filmed = game(PANS)
    stand_in = Panorama.of(filmed, 150.0)
    assert (stand_in.fov, stand_in.widest, stand_in.still) == (150.0, 60.0, filmed.camera.still_view(filmed.court))
    assert stand_in.centre == (0.0, float(filmed.camera.aim([0.0, 0.0])[1]))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"fov": 0.0}, "fov must be"),
        ({"fov": 400.0}, "fov must be"),
        ({"widest": 180.0}, "widest must be"),
        ({"centre": 3.0}, "centre must be two numbers"),
        ({"still": (0.0, 0.0)}, "zoom"),
    ],
)
def test_a_panorama_that_cannot_be_is_refused(wrong, words):
    with pytest.raises(ArgumentError, match=words):
        Panorama(**wrong)


def test_zoom_must_be_positive_and_actions_pan_or_three():
    with pytest.raises(DataError, match="zoom must be > 0; got -1"):
        PANORAMA.windows([[0.0, 0.0, -1.0]], (100, 100), (16, 16))
    with pytest.raises(ArgumentError, match="2 columns"):
        PANORAMA.windows([[0.0, 0.0]], (100, 100), (16, 16))


# ---------------------------------------------------------------------------------------------- windows by calibration


FILMED = Camera.beside(BASKETBALL)  # whom the actions are for
WIDE_VIEW = View(Camera((4.0, -13.0, 6.5), Base(3.0, 0.0, 0.5), Lens(105.0)), (WIDE, HIGH), (0.0, -24.0, 1.0))
LOOKS = np.column_stack([np.linspace(-25.0, 25.0, 30), np.linspace(-26.0, -20.0, 30), np.linspace(2.0, 4.0, 30)])


def centres(boxes: np.ndarray) -> np.ndarray:
    return (boxes[:, :2] + boxes[:, 2:]) / 2.0


def test_windows_by_calibration_show_the_ground_that_the_camera_would():
    aim = FILMED.unproject([0.0, 0.0], *LOOKS.T)
    truth = WIDE_VIEW.to_pixels(aim)
    places = np.array([p for p in landmarks(BASKETBALL).values() if p[2] == 0.0])
    clicks = WIDE_VIEW.to_pixels(places) + np.random.default_rng(2).normal(size=(len(places), 2))
    found = calibrate(np.column_stack([clicks, places]), size=(WIDE, HIGH)).calibration
    boxes = Calibrated(found, FILMED).windows(LOOKS, (WIDE, HIGH), (1280, 720))
    assert np.median(np.linalg.norm(centres(boxes) - truth, axis=1)) < 3.0
    degrees = Panorama(105.0, (0.0, -24.0)).windows(LOOKS, (WIDE, HIGH), (1280, 720))
    assert np.median(np.linalg.norm(centres(degrees) - truth, axis=1)) > 100.0
    # As wide as the view of the camera at what it aims at: a small thing there fills the same share of both pictures.
    pan = np.radians(LOOKS[:, 0])
    beside = aim + 0.1 * np.column_stack([np.cos(pan), -np.sin(pan)])
    share = np.linalg.norm(FILMED.project(beside, *LOOKS.T) - FILMED.project(aim, *LOOKS.T), axis=1) / 2.0
    width = boxes[:, 2] - boxes[:, 0]
    np.testing.assert_allclose(np.linalg.norm(WIDE_VIEW.to_pixels(beside) - truth, axis=1) / width, share, rtol=0.03)
    np.testing.assert_allclose(width / (boxes[:, 3] - boxes[:, 1]), 16 / 9)


def test_a_stitched_panorama_is_cut_by_a_homography():
    """No picture of a single camera: seams bend it by 14 pixels."""
    size, view = (6500, 1000), View(Camera((-2.0, -48.0, 13.0), Base(1.5, 0.0, 0.4), Lens(112.0)), (6500, 1000))

    def stitched(points: np.ndarray) -> np.ndarray:
        u, v = np.moveaxis(view.to_pixels(points, pose=(0.0, -11.0, 1.0)), -1, 0)
        return np.stack([u + 14.0 * np.sin(2.0 * np.pi * u / 6500), v + 7.0 * np.cos(3.0 * np.pi * u / 6500)], axis=-1)

    places = np.array([p for p in landmarks(SOCCER).values() if p[2] == 0.0])
    clicks = stitched(places) + 2.0 * np.random.default_rng(0).normal(size=(len(places), 2))
    fit = calibrate(np.column_stack([clicks, places])[((clicks > 0.0) & (clicks < size)).all(axis=1)], size=size)
    assert np.median(fit.metres) < 0.5
    camera = Camera.beside(SOCCER)
    looks = np.column_stack([np.linspace(-30.0, 30.0, 50), np.linspace(-16.0, -24.0, 50), np.full(50, 3.0)])
    truth = stitched(camera.unproject([0.0, 0.0], *looks.T))
    boxes = [
        by.windows(looks, size, (1280, 720))
        for by in (Calibrated(fit.calibration, camera), Panorama(112.0, (0.0, -11.0)))
    ]
    room = boxes[0][:, 1] > 0.0  # and below, where the window was not moved inside
    room &= boxes[0][:, 3] < size[1]
    misses = [np.median(np.linalg.norm(centres(box) - truth, axis=1)[room]) for box in boxes]
    assert misses[0] < 10.0
    assert misses[1] > 100.0


def test_the_window_of_the_camera_itself_is_its_own_picture():
    view = View(FILMED, (1920, 1080), (5.0, -25.0, 1.0))
    boxes = Calibrated(view, FILMED).windows([[5.0, -25.0, 2.0]], (1920, 1080), (1280, 720))
    np.testing.assert_allclose(boxes, [[480.0, 270.0, 1440.0, 810.0]], atol=0.2)
    half = Calibrated(view, FILMED, (-25.0, 2.0)).windows([5.0], (960, 540), (1280, 720))  # the video is smaller
    np.testing.assert_allclose(half, boxes / 2.0, atol=0.2)


@given(st.floats(-30, 30), st.floats(-40, -12), st.floats(0.5, 20.0), PIXELS, PIXELS)
def test_windows_by_calibration_lie_in_the_picture_too(pan, tilt, zoom, width, height):
    box = Calibrated(WIDE_VIEW, FILMED).windows([[pan, tilt, zoom]], (WIDE, HIGH), (width, height))[0]
    assert (box[:2] >= -1e-6).all()
    assert (box[2:] <= np.array([WIDE, HIGH]) + 1e-6).all()
    assert (box[2] - box[0]) / (box[3] - box[1]) == pytest.approx(width / height)


def test_looking_above_the_ground_is_refused_with_the_frame():
    by = Calibrated(WIDE_VIEW, FILMED)
    with pytest.raises(DataError, match=r"tilt 5\.0 looks above the horizon in frame 1 \(1 such"):
        by.windows([[0.0, -20.0, 2.0], [0.0, 5.0, 2.0]], (WIDE, HIGH), (16, 16))
    away = Calibrated(WIDE_VIEW, Camera((0.0, 40.0, 5.0), Base(180.0)))
    with pytest.raises(DataError, match="where the calibration knows no ground in frame 0"):
        away.windows([[0.0, -3.0, 2.0]], (WIDE, HIGH), (16, 16))
    with pytest.raises(DataError, match="another shape"):
        by.windows([[0.0, -20.0, 2.0]], (1000, 1000), (16, 16))


def test_a_film_is_cut_by_a_calibration(panorama, tmp_path):
    """The bright square is where the picture's own rule says; a homography of the same says it in metres."""
    plan = Homography([[0.01, 0.0, -0.01 * WIDE / 2], [0.0, -0.01, 0.01 * HIGH / 2], [0.0, 0.0, 1.0]], (WIDE, HIGH))
    camera = Camera((0.0, -20.0, 10.0))
    pan, tilt = camera.aim(np.column_stack([PANS * 0.32, 0.0 * PANS]))
    actions = np.column_stack([pan, tilt, np.full(FRAMES, 4.0)])
    crop(panorama, tmp_path / "a.mp4", actions, panorama=Calibrated(plan, camera), size=(320, 180))
    for picture in decoded(tmp_path / "a.mp4"):
        x, y = middle(picture)
        assert abs(x - 159.5) < 2.0
        assert abs(y - 89.5) < 2.0


# ------------------------------------------------------------------------------------------------------------- cropping


def test_a_policy_keeps_the_marker_in_the_middle_and_the_sound_is_kept(panorama, tmp_path):
    before, calls = panorama.read_bytes(), []
    out = tmp_path / "new" / "view.mp4"
    done = crop(
        panorama, out, follower(), game(PANS), panorama=PANORAMA, watch=lambda done, total: calls.append((done, total))
    )
    assert isinstance(done, Cropped)
    assert (done.path, done.frames, done.audio) == (out, FRAMES, 1)
    assert done.fps == pytest.approx(FRAMES / done.seconds)
    assert calls == [(t + 1, FRAMES) for t in range(FRAMES)]
    pictures = decoded(out)
    assert len(pictures) == FRAMES
    for picture in pictures:
        assert picture.shape == (720, 1280)
        x, y = middle(picture)
        assert abs(x - 639.5) < 3.0
        assert abs(y - 359.5) < 3.0
    assert sounds(out) == sounds(panorama)
    assert times(out) == times(panorama)
    assert panorama.read_bytes() == before
    assert [p.name for p in out.parent.iterdir()] == ["view.mp4"]


def test_bare_detections_with_features_do_as_well_as_a_game(panorama, tmp_path):
    outs = tmp_path / "a.mp4", tmp_path / "b.mp4"
    small = {"panorama": PANORAMA, "size": (320, 180)}
    crop(panorama, outs[0], follower(), game(PANS), **small)
    crop(panorama, outs[1], follower(), detections(PANS).tolist(), features=FEATURES, **small)
    assert all((a == b).all() for a, b in zip(*map(decoded, outs), strict=True))


def test_ready_actions_need_no_policy_and_zoom_magnifies(panorama, tmp_path):
    actions = np.column_stack([PANS, np.full(FRAMES, -20.0), np.linspace(2.0, 4.0, FRAMES)])
    crop(panorama, tmp_path / "a.mkv", actions, panorama=PANORAMA, size=(640, 360))
    pictures = decoded(tmp_path / "a.mkv")
    areas = [(picture > 150).sum() for picture in (pictures[0], pictures[-1])]
    assert areas[1] / areas[0] == pytest.approx(4.0, rel=0.1)
    assert middle(pictures[-1]) == pytest.approx((319.5, 179.5), abs=4.0)


def test_at_the_edge_of_the_picture_the_window_stays_inside(panorama, tmp_path):
    crop(panorama, tmp_path / "a.mp4", np.full((FRAMES, 1), 500.0), panorama=PANORAMA, size=(320, 180))
    assert all(abs(picture.astype(float).mean() - 60.0) < 6.0 for picture in decoded(tmp_path / "a.mp4"))


def test_a_policy_of_another_rate_runs_at_its_own(panorama, tmp_path):
    crop(panorama, tmp_path / "a.mp4", follower(rate=50.0), game(PANS), panorama=PANORAMA, size=(640, 360))
    for picture in decoded(tmp_path / "a.mp4")[1:]:
        assert abs(middle(picture)[0] - 319.5) < 60.0  # at most a frame late: 3.3 degrees
    crop(panorama, tmp_path / "b.mp4", follower(rate=None), game(PANS), panorama=PANORAMA, size=(640, 360))
    assert all(abs(middle(picture)[0] - 319.5) < 3.0 for picture in decoded(tmp_path / "b.mp4"))


@pytest.mark.parametrize("lead", [-15, 5])
def test_each_frame_is_cut_by_the_action_for_it_to_the_last_one(panorama, tmp_path, lead):
    """A follower that waits looks where the players are so many frames later; at the end, where they are last."""
    made, same = tmp_path / "made.mp4", tmp_path / "same.mp4"
    there = PANS[np.clip(np.arange(FRAMES) - lead, 0, FRAMES - 1)]
    small = {"panorama": PANORAMA, "size": (320, 180)}
    assert crop(panorama, made, follower(lead=lead), game(PANS), **small).frames == FRAMES
    acted = _act(follower(lead=lead), detections(PANS), Footage.of(panorama), FEATURES, ())
    assert acted[:, 0] == pytest.approx(there, abs=0.01)
    crop(panorama, same, acted, **small)
    assert all((a == b).all() for a, b in zip(*map(decoded, (made, same)), strict=True))
    other = _act(follower(2.0 * RATE, 2 * lead), detections(PANS), Footage.of(panorama), FEATURES, ())
    assert other[:, 0] == pytest.approx(there, abs=3.4)  # a frame late at most, as without a lead


def test_stages_limit_the_virtual_camera_too(panorama, tmp_path):
    stages = (RateLimit(1.0),)
    crop(panorama, tmp_path / "a.mp4", follower(), game(PANS), panorama=PANORAMA, size=(640, 360), stages=stages)
    x = [middle(picture)[0] for picture in decoded(tmp_path / "a.mp4")[:4]]
    assert x[0] == pytest.approx(319.5, abs=3.0)
    assert x[3] > 319.5 + 60.0  # the marker leaves the middle


def test_sound_can_be_left_out(panorama, tmp_path):
    boxes = np.tile([0.0, 0.0, 640.0, 360.0], (FRAMES, 1))
    done = cut(panorama, boxes, tmp_path / "a.mp4", size=(64, 36), audio=False)
    assert done.audio == 0
    with av.open(str(tmp_path / "a.mp4")) as source:
        assert not source.streams.audio


def test_frames_at_uneven_times_keep_their_times_and_order(small, tmp_path):
    boxes = np.tile([0.0, 0.0, 160.0, 90.0], (12, 1))
    assert cut(small, boxes, tmp_path / "a.mp4", size=(160, 90)).audio == 0
    assert times(tmp_path / "a.mp4") == times(small)
    brightness = [picture.mean() for picture in decoded(tmp_path / "a.mp4")]
    assert (np.diff(brightness) > 5.0).all()


def test_windows_between_pixels_move_an_edge_by_fractions(tmp_path):
    edge = np.full((120, 320), 40, np.uint8)
    edge[:, 160:] = 200
    film(tmp_path / "edge.mp4", [edge] * 8)
    shifts = np.arange(8) / 8.0
    boxes = np.stack([100 + shifts, 0 * shifts, 228 + shifts, 72 + 0 * shifts], axis=1)
    cut(tmp_path / "edge.mp4", boxes, tmp_path / "a.mp4", size=(128, 72))
    where = [128 - (picture.astype(float).mean(axis=0) - 40).sum() / 160 for picture in decoded(tmp_path / "a.mp4")]
    np.testing.assert_allclose(np.diff(where), -1 / 8, atol=0.06)


def test_films_with_other_pixels_are_converted(tmp_path):
    film(tmp_path / "a.mp4", [np.full((120, 320), 100, np.uint8)] * 3, pix_fmt="yuv444p")
    boxes = np.tile([0.0, 0.0, 160.0, 90.0], (3, 1))
    cut(tmp_path / "a.mp4", boxes, tmp_path / "b.mp4", size=(160, 90), codec="mpeg4")
    assert [round(float(p.mean())) for p in decoded(tmp_path / "b.mp4")] == pytest.approx([100] * 3, abs=3)
    with av.open(str(tmp_path / "b.mp4")) as source:
        assert source.streams.video[0].codec_context.name == "mpeg4"


def test_footage_tells_frames_times_size_and_rate(small, panorama):
    assert Footage.of(small).size == (320, 120)
    assert Footage.of(small).times.tolist() == pytest.approx(times(small))
    assert Footage.of(panorama).rate == pytest.approx(RATE)


# ------------------------------------------------------------------------------------------------- when things go wrong


@pytest.mark.parametrize("n", [FRAMES - 1, FRAMES + 1])
def test_another_number_of_frames_is_refused_by_naming_both(panorama, tmp_path, n):
    pans = np.zeros(n)
    with pytest.raises(DataError, match=rf"wide.mp4 has {FRAMES} frames and there are detections for {n}"):
        crop(panorama, tmp_path / "a.mp4", follower(), game(pans), panorama=PANORAMA)
    with pytest.raises(DataError, match=f"actions for {n}"):
        crop(panorama, tmp_path / "a.mp4", pans, panorama=PANORAMA)
    with pytest.raises(DataError, match=f"windows for {n}"):
        cut(panorama, np.zeros((n, 4)), tmp_path / "a.mp4")
    assert not list(tmp_path.iterdir())


def test_an_interruption_leaves_nothing_but_what_was_there(panorama, tmp_path):
    out = tmp_path / "a.mp4"
    out.write_bytes(b"old")

    def stop(done: int, total: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        crop(panorama, out, PANS, panorama=PANORAMA, size=(64, 36), watch=stop)
    assert [p.name for p in tmp_path.iterdir()] == ["a.mp4"]
    assert out.read_bytes() == b"old"


def test_the_video_itself_is_never_written_over(small):
    with pytest.raises(ArgumentError, match="must not be the video itself"):
        cut(small, np.tile([0.0, 0.0, 160.0, 90.0], (12, 1)), small)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"size": (641, 360)}, r"even numbers; got \(641, 360\): try \(642, 360\)"),
        ({"size": 7}, "size must be"),
        ({"size": (0, 2)}, "size must be"),
        ({"codec": "no such thing"}, "got 'no such thing'"),
        ({"out": "a.avi"}, r"\.mp4, \.mov, \.mkv; got 'a.avi'"),
        ({"windows": np.zeros((12, 3))}, "3 columns"),
        ({"windows": np.tile([0.0, 0.0, 400.0, 90.0], (12, 1))}, "320 x 120 pixels .* in frame 0"),
        ({"windows": np.tile([5.0, 0.0, 5.0, 90.0], (12, 1))}, "in frame 0"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(small, tmp_path, monkeypatch, wrong, words):
    monkeypatch.chdir(tmp_path)
    usual = {"windows": np.tile([0.0, 0.0, 160.0, 90.0], (12, 1)), "out": "a.mp4", "size": (160, 90)}
    with pytest.raises(ArgumentError, match=words):
        cut(small, **{**usual, **wrong})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("policy", "given", "words"),
    [
        (follower(), None, "got nothing"),
        (follower(), np.zeros((12, 2)), r"got shape \(12, 2\)"),
        (follower(), np.zeros((12, 4, 2)), "features must be given"),
        (np.zeros(12), np.zeros((12, 4, 2)), "leave the detections out"),
    ],
)
def test_policy_and_detections_must_fit_together(small, tmp_path, policy, given, words):
    with pytest.raises(ArgumentError, match=words):
        crop(small, tmp_path / "a.mp4", policy, given, panorama=PANORAMA)


def test_files_that_are_no_videos_are_named(tmp_path, small):
    noise = tmp_path / "noise.mp4"
    noise.write_bytes(b"not a film" * 100)
    with pytest.raises(DataError, match=r"noise\.mp4 cannot be read"):
        Footage.of(noise)
    with pytest.raises(DataError, match=r"missing\.mp4 cannot be read"):
        Footage.of(tmp_path / "missing.mp4")
    with av.open(str(tmp_path / "tone.mp4"), "w") as sink:
        for packet in sine(sink.add_stream("aac", rate=48_000, layout="mono"), 0.2):
            sink.mux(packet)
    with pytest.raises(DataError, match=r"tone\.mp4 holds no video"):
        Footage.of(tmp_path / "tone.mp4")


def test_a_video_that_breaks_off_is_named_and_nothing_is_left(panorama, tmp_path):
    broken, out = tmp_path / "broken.mkv", tmp_path / "a.mp4"
    boxes = np.tile([0.0, 0.0, 640.0, 360.0], (FRAMES, 1))
    cut(panorama, boxes, broken, size=(320, 180))
    broken.write_bytes(broken.read_bytes()[: broken.stat().st_size // 2])
    with pytest.raises(DataError, match=r"broken\.mkv"):
        cut(broken, boxes / 4.0, out, size=(64, 36))
    assert not out.exists()


def test_sound_that_the_container_cannot_hold_is_refused_with_a_way_out(tmp_path):
    video = film(tmp_path / "a.mkv", [np.zeros((120, 320), np.uint8)] * 5, sound="tta")
    boxes = np.tile([0.0, 0.0, 160.0, 90.0], (5, 1))
    with pytest.raises(ArgumentError, match=r"\.mp4 cannot hold the sound, which is tta: write \.mkv"):
        cut(video, boxes, tmp_path / "b.mp4", size=(160, 90))
    assert cut(video, boxes, tmp_path / "b.mkv", size=(160, 90)).audio == 1


def test_without_the_extra_the_way_to_install_it_is_said(small, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "av", None)
    with pytest.raises(ArgumentError, match=r"needs av: pip install 'smooth-imitation\[video\]'"):
        Footage.of(small)
