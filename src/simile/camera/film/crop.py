"""A virtual camera: cutting the view that a policy chooses out of a video that shows the whole court."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
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
from simile._common.typing import FloatArray
from simile.camera.features import Features
from simile.camera.film.watch import Progress, even_size, h264
from simile.camera.games import Game
from simile.errors import ArgumentError, DataError
from simile.online import Predictor
from simile.online.stages import Stage
from simile.policies.policies import Policy

Place = str | os.PathLike[str]

CONTAINERS = {".mp4": "mp4", ".mov": "mov", ".mkv": "matroska"}
PLANAR = ("yuv420p", "yuvj420p")  # brightness and half-size colours apart, 8 bits each: cut as they are
AHEAD = 6  # frames cut while others are decoded and encoded


@dataclass(frozen=True)
class Panorama:
    """Where in a wide picture a camera with this pan, tilt and zoom would look.

    Every degree is taken to be as many pixels wide and high as any other: `x = width / 2 + (pan - pan0) / fov * width`,
    and alike for tilt, upwards. This is so in equirectangular pictures, nearly so in cylindrical ones (as stitched from
    several cameras), and a rough approximation in the middle of a single wide lens's picture.

    Parameters
    ----------
    fov : float
        Degrees across the whole width of the picture.
    centre : (pan, tilt)
        What the middle of the picture shows, in degrees.
    widest : float
        Horizontal angle of view at zoom 1, in degrees, as in `Camera`.
    still : (tilt, zoom)
        Of a policy that only pans.

    Examples
    --------
    >>> Panorama(fov=120.0, widest=60.0).windows([[0.0], [15.0]], picture=(3840, 1080), size=(1280, 720)).round(1)
    array([[1404.7,  250.2, 2435.3,  829.8],
           [1884.7,  250.2, 2915.3,  829.8]])
    """

    fov: float = 120.0
    centre: tuple[float, float] = (0.0, -20.0)
    widest: float = 60.0
    still: tuple[float, float] = (-20.0, 2.0)

    def __post_init__(self) -> None:
        checks.number(self.fov, "fov", above=0.0, at_most=360.0)
        checks.number(self.widest, "widest", above=0.0, at_most=179.0)
        for name in ("centre", "still"):
            pair = getattr(self, name)
            if np.shape(pair) != (2,):
                raise ArgumentError(f"{name} must be two numbers; got {pair!r}")
            for value in pair:
                checks.number(value, name)
        checks.number(self.still[1], "still (its zoom)", above=0.0)

    @classmethod
    def of(cls, game: Game, fov: float) -> Panorama:
        """Return the panorama that stands in for the camera of a game, and looks where that one does at rest."""
        return cls(fov, (0.0, game.still[0]), game.camera.widest, game.still)

    def windows(self, actions: ArrayLike, picture: tuple[int, int], size: tuple[int, int]) -> FloatArray:
        """Return left, top, right and bottom (T, 4), in pixels and fractions of them, for actions (T, k).

        Windows have the aspect of `size`. One that would leave the `picture` (width, height) is moved inside, and one
        too large for it is made smaller; none is distorted.
        """
        values = checks.table(actions, "actions")
        if values.shape[1] not in (1, 3):
            raise ArgumentError(f"actions must be pan, or pan, tilt and zoom; got {values.shape[1]} columns")
        pan, tilt, zoom = values.T if values.shape[1] == 3 else (values[:, 0], *self.still)
        if np.min(zoom) <= 0.0:
            raise DataError(f"actions: zoom must be > 0; got {np.min(zoom):g}: 1 is the widest view, 2 magnifies twice")
        (across, high), aspect = picture, size[0] / size[1]
        degree = across / self.fov
        angle = 2.0 * np.degrees(np.arctan(np.tan(np.radians(self.widest) / 2.0) / zoom))
        width = np.minimum(angle * degree, min(across, high * aspect)) * np.ones(len(values))
        height = width / aspect
        x = np.clip(across / 2.0 + (pan - self.centre[0]) * degree, width / 2.0, across - width / 2.0)
        y = np.clip(high / 2.0 - (tilt - self.centre[1]) * degree, height / 2.0, high - height / 2.0)
        return np.column_stack([x - width / 2.0, y - height / 2.0, x + width / 2.0, y + height / 2.0])


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
    video: Place,
    out: Place,
    policy: Policy | ArrayLike,
    game_or_detections: Game | ArrayLike | None = None,
    *,
    panorama: Panorama,
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
        cut are looked at, as in a live broadcast (but see the notes).
    panorama : Panorama
        Where in the picture which angle is.
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
    video: Place,
    windows: ArrayLike,
    out: Place,
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
    _check_length(footage, len(boxes), "windows")
    low, high = boxes[:, :2], boxes[:, 2:]
    wrong = (low < -1e-6).any(axis=1) | (high > np.add(footage.size, 1e-6)).any(axis=1) | (high - low < 1.0).any(axis=1)
    if wrong.any():
        t = int(np.argmax(wrong))
        raise ArgumentError(
            f"windows must lie within the {footage.size[0]} x {footage.size[1]} pixels of {footage.video} and be a "
            f"pixel or more wide and high; got {boxes[t].tolist()} in frame {t}: Panorama.windows sees to it"
        )
    return _cut(footage, np.clip(boxes, 0.0, [*footage.size, *footage.size]), out, even_size(size), codec, audio, watch)


# -------------------------------------------------------------------------------------------------------- what comes in


@dataclass(frozen=True, eq=False)
class Footage:
    """What there is to know of a video without decoding it.

    Parameters
    ----------
    times : (T,) array
        When each frame is shown, in seconds, in this order.
    size : (width, height)
        In pixels.
    """

    video: Path
    times: FloatArray
    size: tuple[int, int]

    @classmethod
    def of(cls, video: Place) -> Footage:
        """Look through a file."""
        av = need("av", "crop")
        path = Path(video)
        with _open(av, path) as source:
            film = source.streams.video[0]
            # Frames marked to be discarded come before the beginning of a file that was trimmed.
            packets = [p for p in _read(av, path, source.demux(film)) if p.size and not p.is_discard]
            stamps = [p.dts if p.pts is None else p.pts for p in packets]
            if any(s is None for s in stamps):
                times = np.arange(len(stamps)) / float(film.guessed_rate or film.average_rate or 25)
            else:
                times = np.sort(np.array(stamps, dtype=np.float64)) * float(film.time_base)
            if not len(times):
                raise DataError(f"{path} has no frames: is it whole?")
            return cls(path, times, (film.width, film.height))

    @property
    def rate(self) -> float:
        """Frames per second, on average."""
        length = float(self.times[-1] - self.times[0])
        return (len(self.times) - 1) / length if length > 0.0 else 25.0


def _open(av: Any, path: Path) -> Any:
    try:
        source = av.open(os.fspath(path))
    except (av.FFmpegError, OSError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path} cannot be read as a video: {reason}: give a file that FFmpeg reads") from error
    if not source.streams.video:
        source.close()
        raise DataError(f"{path} holds no video, only {len(source.streams)} other streams")
    return source


def _read(av: Any, path: Path, items: Iterable[Any]) -> Iterator[Any]:
    """Go through what is read from a file; where that fails, name it."""
    try:
        yield from items
    except av.FFmpegError as error:
        raise DataError(f"{path} cannot be read to its end: {error}: is it whole?") from error


def _decode(source: Any, film: Any, tracks: Container[int]) -> Iterator[Any]:
    """Yield the frames of a film and the packets of the numbered sound tracks, as they come."""
    for packet in source.demux(film, *(track for track in source.streams.audio if track.index in tracks)):
        if packet.stream.index == film.index:
            yield from packet.decode()
        elif packet.dts is not None:  # the last one is empty, and says that there are no more
            yield packet


def _check_length(footage: Footage, n: int, what: str) -> None:
    if n != len(footage.times):
        raise DataError(
            f"{footage.video} has {len(footage.times)} frames and there are {what} for {n}: they must belong to the "
            "same frames: cut the longer one, or detect again with this video"
        )


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
        _check_length(footage, len(actions), "actions")
        return actions
    detections, features = _find_detections(given, features)
    _check_length(footage, len(detections), "detections")
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
    predictor, stream = Predictor(policy, stages=stages, rate=rate), features.stream()
    if abs(footage.rate / rate - 1.0) < 0.01:  # 29.97 is 30
        return np.array([predictor.step(stream.step(seen)) for seen in detections])
    ticks = np.arange(np.ceil(times[-1] * rate - 1e-6) + 1.0) / rate
    latest = np.searchsorted(times, ticks + 1e-6, side="right") - 1
    acted = np.array([predictor.step(stream.step(detections[i])) for i in latest])
    return np.column_stack([np.interp(times, ticks, column) for column in acted.T])


# ------------------------------------------------------------------------------------------------------ what goes out


def _cut(
    footage: Footage,
    boxes: FloatArray,
    out: Place,
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
        return item if skipped else _cut_window(av, image, item, boxes[number], size)

    with (
        _open(av, footage.video) as source,
        replacing(target) as file,
        _encoding(av, codec, size),
        av.open(file, "w", format=CONTAINERS[target.suffix.lower()]) as sink,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        film = source.streams.video[0]
        film.thread_type = "AUTO"
        stream = _add_film(av, sink, film, size, codec)
        tracks = _add_tracks(sink, source, target) if audio else {}
        items = _number(av, _read(av, footage.video, _decode(source, film, tracks)))
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
        _check_length(footage, done, "decoded pictures")
        sink.mux(stream.encode())
    return Cropped(target, done, time.perf_counter() - began, len(tracks))


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


def _check_target(out: Place, footage: Footage) -> Path:
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


def _cut_window(av: Any, image: Any, frame: Any, box: FloatArray, size: tuple[int, int]) -> Any:
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
