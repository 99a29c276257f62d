"""A virtual camera: cutting the view that a policy chooses out of a video that shows the whole court."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from simile._common import checks
from simile._common.files import replacing
from simile._common.needs import need
from simile._common.typing import AnyPath, FloatArray
from simile.camera.features import Features
from simile.camera.film.encoding import Progress, even_size, h264
from simile.camera.film.footage import Footage, open_video, read_through
from simile.camera.film.panorama import Calibrated, Panorama
from simile.camera.games import Game
from simile.camera.pace import find_ticks, interpolate, same_pace
from simile.errors import ArgumentError
from simile.policies.policies import Policy
from simile.policies.rollouts import ColdStart, rollout
from simile.policies.stages import Stage

CONTAINERS = {".mp4": "mp4", ".mov": "mov", ".mkv": "matroska"}
PLANAR = ("yuv420p", "yuvj420p")  # brightness and half-size colours apart, 8 bits each: cut as they are
AHEAD = 6  # frames cut while others are decoded and encoded


@dataclass(frozen=True)
class Cropped:
    """What `crop` and `cut` have done.

    Parameters
    ----------
    path : Path
        The new video.
    frames : int
        How many it has.
    seconds : float
        How long the work took.
    audio : int
        How many sound tracks were kept.
    """

    path: Path
    frames: int
    seconds: float
    audio: int

    @property
    def fps(self) -> float:
        """Frames done per second of work."""
        return self.frames / max(self.seconds, 1e-9)


def crop(
    video: AnyPath,
    out: AnyPath,
    policy: Policy | ArrayLike,
    game_or_detections: Game | ArrayLike | None = None,
    *,
    panorama: Panorama | Calibrated,
    features: Features | None = None,
    size: tuple[int, int] = (1280, 720),
    codec: str | None = None,
    stages: Sequence[Stage] = (),
    audio: bool = True,
    watch: Progress | None = None,
) -> Cropped:
    """Film a wide video again with a policy as the operator.

    Parameters
    ----------
    video : path
        What to cut from; any file that FFmpeg reads. It is not changed.
    out : path
        The new video: .mp4, .mov or .mkv. It appears when all is done.
    policy : Policy or (T, k) array_like
        Who looks where, in every frame of the video; or the actions themselves: pan, or pan, tilt and zoom.
    game_or_detections : Game or (T, n, 2) array_like
        What was detected in every frame, in metres; not needed with ready actions. Only frames up to the one being
        cut are looked at, as in a live broadcast, and as many more as a policy may wait (but see the notes).
    panorama : Panorama or Calibrated
        Where in the picture which angle is: by degrees, or by a calibration of the picture.
    features : Features, optional
        What the policy was trained on; those of the game's court by default. Detections without a game need them.
    size : (width, height)
        Of the new video.
    codec : str, optional
        FFmpeg's name of the encoder, such as "libx265"; H.264 by default.
    stages : sequence of Stage
        Limits of speed and the like, see `Predictor`.
    audio : bool
        Keep the sound, as it is.
    watch : callable, optional
        Called with the number of frames done and of all frames, after each.

    Raises
    ------
    ArgumentError
        When an argument cannot be used, or the extra `video` is not installed.
    DataError
        When the video cannot be read, or has not as many frames as there are detections or actions.

    Notes
    -----
    A policy runs at the rate of its card. Where the video's differs, it is shown the latest detections at each of its
    own steps, and its actions are interpolated to the times of the frames; so it may look ahead by one such step.
    """
    size, footage = even_size(size), Footage.of(video)
    actions = _choose_actions(policy, game_or_detections, footage, features, stages)
    windows = panorama.windows(actions, footage.size, size)
    return _cut(footage, windows, out, size, codec, audio, watch)


def cut(
    video: AnyPath,
    windows: ArrayLike,
    out: AnyPath,
    *,
    size: tuple[int, int] = (1280, 720),
    codec: str | None = None,
    audio: bool = True,
    watch: Progress | None = None,
) -> Cropped:
    """Cut one window (left, top, right, bottom) out of each frame of a video and scale it to `size`.

    Windows (T, 4) are in pixels, and may begin and end between them, so that slow motion is smooth. The times of the
    frames are kept; sound and colours are copied as they are. The other arguments are those of `crop`.
    """
    footage, boxes = Footage.of(video), checks.table(windows, "windows")
    if boxes.shape[1] != 4:
        raise ArgumentError(f"windows must be left, top, right and bottom; got {boxes.shape[1]} columns")
    footage.check_length(len(boxes), "windows")
    low, high = boxes[:, :2], boxes[:, 2:]
    wrong = (low < -1e-6).any(axis=1) | (high > np.add(footage.size, 1e-6)).any(axis=1) | (high - low < 1.0).any(axis=1)
    if wrong.any():
        t = int(np.argmax(wrong))
        raise ArgumentError(
            f"windows must lie within the {footage.size[0]} x {footage.size[1]} pixels of {footage.video} and be a "
            f"pixel or more wide and high; got {boxes[t].tolist()} in frame {t}: Panorama.windows sees to it"
        )
    return _cut(footage, np.clip(boxes, 0.0, [*footage.size, *footage.size]), out, even_size(size), codec, audio, watch)


# --------------------------------------------------------------------------------------------------- where to look


def _choose_actions(
    policy: Policy | ArrayLike,
    given: Game | ArrayLike | None,
    footage: Footage,
    features: Features | None,
    stages: Sequence[Stage],
) -> FloatArray:
    """Return the actions (T, k) of a policy, or those that were given instead of one."""
    if not isinstance(policy, Policy):
        if given is not None:
            raise ArgumentError(
                f"policy must be a policy where detections are given; got {type(policy).__name__}: leave the "
                "detections out to crop by ready actions"
            )
        actions = checks.table(policy, "policy (as ready actions)")
        footage.check_length(len(actions), "actions")
        return actions
    detections, features = _find_detections(given, features)
    footage.check_length(len(detections), "detections")
    return _act(policy, detections, footage, features, stages)


def _find_detections(given: Game | ArrayLike | None, features: Features | None) -> tuple[FloatArray, Features]:
    if isinstance(given, Game):
        return given.detections, features or Features(given.court)
    detections = np.asarray(np.nan if given is None else given, dtype=np.float64)
    if detections.ndim != 3 or detections.shape[2] != 2:
        raise ArgumentError(
            f"game_or_detections must be a Game or positions of shape (T, n, 2); got "
            f"{'nothing' if given is None else f'shape {detections.shape}'}"
        )
    if features is None:
        raise ArgumentError("features must be given with bare detections: features=Features(BASKETBALL), say")
    return detections, features


def _act(
    policy: Policy, detections: FloatArray, footage: Footage, features: Features, stages: Sequence[Stage]
) -> FloatArray:
    """Let a policy act on detections (T, n, 2), at its own pace; returns the actions (T, k) at the frames' times."""
    times, rate = footage.times - footage.times[0], policy.card.rate or footage.rate
    paced = same_pace(footage.rate, rate)
    ticks, latest = (times, np.arange(len(times))) if paced else find_ticks(times, rate)
    contexts = features.batch(detections[latest])
    acted = rollout(policy, [contexts], start=ColdStart(), stages=stages, rate=rate)[0]
    return acted if paced else interpolate(times, ticks, acted)


# ------------------------------------------------------------------------------------------------------ what goes out


def _cut(
    footage: Footage,
    boxes: FloatArray,
    out: AnyPath,
    size: tuple[int, int],
    codec: str | None,
    audio: bool,
    watch: Progress | None,
) -> Cropped:
    av, image = (need(name, "crop") for name in ("av", "PIL.Image"))
    began, target = time.perf_counter(), _check_target(out, footage)
    done = 0

    def work(numbered: tuple[int, Any]) -> Any:
        """Cut one frame; sounds are left alone, and so are frames of which the file's index did not know."""
        number, item = numbered
        skipped = isinstance(item, av.Packet) or number >= len(boxes)
        return item if skipped else cut_window(av, image, item, boxes[number], size)

    with (
        open_video(av, footage.video) as source,
        replacing(target) as file,
        _encoding(av, codec, size),
        av.open(file, "w", format=CONTAINERS[target.suffix.lower()]) as sink,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        film = source.streams.video[0]
        film.thread_type = "AUTO"
        stream = _add_film(av, sink, film, size, codec)
        tracks = _add_tracks(sink, source, target) if audio else {}
        items = _number(av, read_through(av, footage.video, _decode(source, film, tracks)))
        for item in _work_ahead(pool, work, items):
            if isinstance(item, av.Packet):
                item.stream = tracks[item.stream.index]
                sink.mux(item)
                continue
            done += 1
            if done <= len(boxes):
                sink.mux(stream.encode(item))
                if watch is not None:
                    watch(done, len(boxes))
        footage.check_length(done, "decoded pictures")
        sink.mux(stream.encode())
    return Cropped(target, done, time.perf_counter() - began, len(tracks))


def _decode(source: Any, film: Any, tracks: Container[int]) -> Iterator[Any]:
    """Yield the frames of a film and the packets of the numbered sound tracks, as they come."""
    for packet in source.demux(film, *(track for track in source.streams.audio if track.index in tracks)):
        if packet.stream.index == film.index:
            yield from packet.decode()
        elif packet.dts is not None:  # the last one is empty, and says that there are no more
            yield packet


def _number(av: Any, items: Iterator[Any]) -> Iterator[tuple[int, Any]]:
    """Give every frame its number, and every packet of sound that of the next frame."""
    frames = 0
    for item in items:
        yield frames, item
        frames += not isinstance(item, av.Packet)


def _work_ahead(pool: ThreadPoolExecutor, work: Callable[[Any], Any], items: Iterator[Any]) -> Iterator[Any]:
    """Yield the results of work in order, with a few more under way while the caller is busy with one."""
    waiting: deque[Future[Any]] = deque()
    for item in items:
        waiting.append(pool.submit(work, item))
        if len(waiting) > AHEAD:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _check_target(out: AnyPath, footage: Footage) -> Path:
    target = Path(out)
    if target.suffix.lower() not in CONTAINERS:
        raise ArgumentError(f"out must end in {', '.join(CONTAINERS)}; got {os.fspath(out)!r}")
    if target.exists() and target.samefile(footage.video):
        raise ArgumentError(f"out must not be the video itself; got {os.fspath(out)!r} for both: choose another name")
    return target


@contextmanager
def _encoding(av: Any, codec: str | None, size: tuple[int, int]) -> Iterator[None]:
    """Where the encoder fails, say so; what happens to the file is the business of `replacing`."""
    try:
        yield
    except av.FFmpegError as error:
        if isinstance(error, OSError):
            raise
        raise ArgumentError(
            f"codec {codec or h264(av)[0]!r} cannot write {size[0]} x {size[1]} pixels here: {error}: try another "
            "codec or size, or codec=None"
        ) from error


def _add_film(av: Any, sink: Any, film: Any, size: tuple[int, int], codec: str | None) -> Any:
    """Add a stream for pictures of this size, with the times and the colours of the film."""
    usual, options = h264(av)
    rate = film.guessed_rate or film.average_rate or Fraction(25)
    try:
        stream = sink.add_stream(codec or usual, rate=rate, options=options if codec in (None, usual) else {})
    except (av.codec.codec.UnknownCodecError, ValueError) as error:
        raise ArgumentError(f"codec must be an encoder that FFmpeg has here; got {codec!r}: try 'libx264'") from error
    stream.width, stream.height = size
    stream.pix_fmt = "yuv420p"
    context, original = stream.codec_context, film.codec_context
    context.time_base = film.time_base
    context.thread_count = 0  # as many as there are cores
    for name in ("color_range", "colorspace", "color_primaries", "color_trc"):
        setattr(context, name, getattr(original, name))
    return stream


def _add_tracks(sink: Any, source: Any, target: Path) -> dict[int, Any]:
    """Add a stream for each sound track, by its number in the source; the packets are copied."""
    tracks = {}
    for track in source.streams.audio:
        name = track.codec_context.codec.canonical_name
        if name not in sink.supported_codecs:
            raise ArgumentError(
                f"out: a {target.suffix} cannot hold the sound, which is {name}: write .mkv, or leave it out by "
                "audio=False"
            )
        tracks[track.index] = sink.add_stream_from_template(track)
    return tracks


def cut_window(av: Any, image: Any, frame: Any, box: FloatArray, size: tuple[int, int]) -> Any:
    """Return what a window shows of a frame, at `size`."""
    planar = frame if frame.format.name in PLANAR else frame.reformat(format="yuv420p")
    width, height = size
    parts = []
    for i, plane in enumerate(planar.planes):  # each for itself: nothing is converted, only the window is touched
        whole = image.frombuffer("L", (plane.width, plane.height), plane, "raw", "L", plane.line_size, 1)
        # The eye sees sharpness in the brightness alone: the colours can be scaled more simply.
        scaled, how = ((width, height), "BICUBIC") if i == 0 else ((width // 2, height // 2), "BILINEAR")
        here = np.minimum(box * (plane.width / planar.width), [*whole.size, *whole.size])
        parts.append(np.asarray(whole.resize(scaled, image.Resampling[how], box=tuple(here))).reshape(-1))
    picture = av.VideoFrame.from_ndarray(np.concatenate(parts).reshape(-1, width), format="yuv420p")
    picture.pts, picture.time_base = frame.pts, frame.time_base
    return picture
