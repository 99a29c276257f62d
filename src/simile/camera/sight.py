"""A camera that sees through its own lens: what a moving head films, put where it is and not where the head looks.

A box in a moving picture says nothing until it is known where the head looked when the picture was taken. A head tells
where it looks on another way than the picture goes, so that one of the two comes late: by the latency.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from simile._common import checks
from simile._common.typing import AnyPath, FloatArray
from simile.camera.calibration.files import load_calibration, read_about
from simile.camera.calibration.views import Calibration, Homography, Keyframes, Size, View, interpolate_poses
from simile.camera.games import AXES
from simile.camera.geometry import Camera
from simile.errors import ArgumentError, DataError

if TYPE_CHECKING:
    from simile.camera.heads.freed import FreeD

STEP = 0.02  # seconds between the latencies that are tried; between them, a parabola
ENOUGH = 5000  # frames to estimate a latency from
APART = 0.04  # seconds between the frames whose motion is looked at: later, things have moved on their own
BLOCKS = 12  # parts of a recording, each of which is left out once, to see how much the estimate depends on it
MOST_DOUBT = 0.03  # seconds of standard error: an estimate with more is none


@dataclass(frozen=True, eq=False)
class PoseLog:
    """Where a head looked, when.

    Parameters
    ----------
    times : (n,) array_like
        Seconds, rising.
    poses : (n, 3) array_like
        Pan and tilt in degrees, and zoom, of the head: 1 is the widest view.
    limit : float
        Seconds: farther from what is known than this, where the head looks is unknown.

    Examples
    --------
    >>> log = PoseLog([0.0, 0.1], [[0.0, -20.0, 1.0], [2.0, -20.0, 4.0]])
    >>> [float(axis.round(6)) for axis in log.at(0.05)]
    [1.0, -20.0, 2.0]
    """

    times: FloatArray
    poses: FloatArray
    limit: float = 0.25

    def __post_init__(self) -> None:
        times, poses = checks.table(self.times, "times")[:, 0], checks.table(self.poses, "poses")
        if poses.shape != (len(times), 3):
            raise ArgumentError(
                f"poses must be pan, tilt and zoom at each of the {len(times)} times; got shape {poses.shape}"
            )
        if (stuck := np.diff(times) <= 0.0).any():
            i = int(stuck.argmax())
            raise DataError(
                f"times must rise; {times[i + 1]:g} s follows {times[i]:g} s, in row {i + 1} (from 0): sort the rows, "
                "and leave out those that are there twice"
            )
        if (poses[:, 2] <= 0.0).any():
            i = int((poses[:, 2] <= 0.0).argmax())
            raise DataError(f"zoom must be > 0; got {poses[i, 2]:g} in row {i} (from 0): 1 is the widest view")
        checks.number(self.limit, "limit", at_least=0.0)
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "poses", poses)

    @classmethod
    def of(cls, samples: Iterable[tuple[float, Sequence[float]]], limit: float = 0.25) -> PoseLog:
        """Take what a head has told: its poses, each with the time of the answer."""
        times, poses = zip(*samples, strict=True)
        return cls(np.array(times), np.array(poses), limit)

    @classmethod
    def of_freed(
        cls, packets: Iterable[tuple[float, FreeD]], zoom: Callable[[int], float], limit: float = 0.25
    ) -> PoseLog:
        """Take Free-D packets and the time of each; `zoom` makes a magnification of their zoom, which has no unit."""
        return cls.of(((when, (p.pan, p.tilt, zoom(p.zoom))) for when, p in packets), limit)

    def plus(self, time: float, pose: Sequence[float], *, keep: float = 10.0) -> PoseLog:
        """Return the log with one more pose, and without what is more than `keep` seconds before it."""
        recent = self.times > time - keep
        times, poses = np.append(self.times[recent], time), np.vstack([self.poses[recent], pose])
        return PoseLog(times, poses, self.limit)

    def at(self, times: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return pan, tilt and zoom (...) at times (...); NaN where nothing is known within the limit."""
        asked = np.asarray(times, dtype=np.float64)
        after = np.clip(np.searchsorted(self.times, asked), 0, len(self.times) - 1)
        away = np.minimum(np.abs(asked - self.times[after]), np.abs(asked - self.times[np.maximum(after - 1, 0)]))
        pan, tilt, zoom = interpolate_poses(self.times, self.poses, asked)
        lost = ~(away <= self.limit)
        return np.where(lost, np.nan, pan), np.where(lost, np.nan, tilt), np.where(lost, np.nan, zoom)


def read_poses(path: AnyPath, *, rate: float | None = None, limit: float = 0.25) -> PoseLog:
    """Read a log of poses from a table: time (seconds), or frame with a `rate`; pan, tilt, and zoom if it changes."""
    from simile.camera.tracking.frames import check_file
    from simile.camera.tracking.rows import ROLES, Rows

    file = check_file(path)
    rows = Rows.read(file, ROLES, clocks=("time", "frame"), needed=AXES[:2], optional=AXES[2:])
    if rows.clock == "frame" and rate is None:
        raise ArgumentError(f"{file} has frames and no time: say how many there are a second (--rate, rate=...)")
    when = rows.when if rows.when.dtype.kind == "f" else (rows.when - rows.when[0]) / np.timedelta64(1, "s")
    zoom = rows.numbers.get("zoom", np.ones(len(when)))
    poses = np.column_stack([rows.numbers["pan"], rows.numbers["tilt"], zoom])
    known = np.isfinite(poses).all(axis=1)
    if not known.any():
        raise DataError(f"{file}: no row has pan and tilt")
    try:
        return PoseLog(when[known] / (rate if rows.clock == "frame" and rate else 1.0), poses[known], limit)
    except DataError as error:
        raise DataError(f"{file}: {error}") from None


def choose_calibration(
    *,
    homography: AnyPath | None = None,
    calibration: AnyPath | None = None,
    poses: AnyPath | None = None,
    latency: float | str = 0.0,
    camera: Camera | None = None,
    size: Size | None = None,
    rate: float | None = None,
) -> Calibration | None:
    """Return how pixels become metres, as the options of the same names tell; None where they tell nothing.

    Parameters
    ----------
    homography, calibration : path, optional
        A matrix, or what `simile camera calibrate` writes.
    poses : path, optional
        Where the head looked, see `read_poses`. Its camera, its lens and the size of its picture are those of the
        calibration, or else `camera` and `size`.
    latency : float or "auto"
        Seconds, or to be estimated.
    rate : float, optional
        Frames per second.
    """
    if None not in (homography, calibration):
        raise ArgumentError("homography and calibration (--homography, --calibration) tell the same: leave one out")
    path = calibration if homography is None else homography
    found = None if path is None else load_calibration(path)
    if poses is None:
        if latency != 0.0:
            raise ArgumentError("latency (--latency) is that of a log of poses: name it by --poses")
        return found
    if path is not None and read_about(path).get("by_head") is False:
        raise ArgumentError(
            f"{path} was found without the head: where its pan 0 looks is not what the head calls so: calibrate again "
            "with its poses (simile camera calibrate --model camera --poses ...)"
        )
    view = found.view if isinstance(found, Keyframes) else found
    if view is None and camera is not None and size is not None:
        view = View(camera, size)
    if view is None or isinstance(view, Homography):
        raise ArgumentError(
            "poses (--poses) need the camera and its lens: give the --calibration of `simile camera calibrate --model "
            "camera`, or --camera and --size"
        )
    try:
        late = None if latency == "auto" else float(latency)
    except ValueError:
        raise ArgumentError(f'latency (--latency) must be seconds, or "auto"; got {latency!r}') from None
    return Sight(view, read_poses(poses, rate=rate), late, 25.0 if rate is None else rate)


class Latency(NamedTuple):
    """By how many seconds pictures come later than poses: an estimate, and where it lies with 95 % probability."""

    seconds: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{1000 * self.seconds:.0f} ms ({1000 * self.low:.0f} to {1000 * self.high:.0f})"


@dataclass(frozen=True, eq=False)
class Sight:
    """A calibration that moves with a head: every picture is taken for where the head looked at its time.

    Parameters
    ----------
    view : View
        The camera, the size of its picture and its distortion; its pose is not used.
    log : PoseLog
        Where the head looked.
    latency : float or None
        Seconds by which a picture is older than its time says, on the clock of the log; None where it is to be
        estimated, see `settle`.
    rate, start : float
        Frames per second, and the time of frame 0 on the clock of the log.
    """

    view: View
    log: PoseLog
    latency: float | None = 0.0
    rate: float = 25.0
    start: float = 0.0

    def __post_init__(self) -> None:
        checks.number(self.rate, "rate", above=0.0)
        checks.number(self.start, "start")
        if self.latency is not None:
            checks.number(self.latency, "latency", at_least=-10.0, at_most=10.0)

    @property
    def size(self) -> Size:
        """Width and height of the picture, in pixels."""
        return self.view.size

    def poses(self, frame: ArrayLike | None) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return where the head looked when frames were taken; NaN where the log does not tell."""
        if frame is None:
            raise ArgumentError("frame must be given: the camera moves")
        if self.latency is None:
            raise ArgumentError("latency must be known: give it in seconds (--latency 0.08), or settle(...) it first")
        return self.log.at(self.start + np.asarray(frame, dtype=np.float64) / self.rate - self.latency)

    def actions(self, frames: ArrayLike) -> FloatArray | None:
        """Return what the operator did, (T, 3): the poses in frames (T,); None where some are unknown, and says so."""
        found = np.column_stack(self.poses(frames))
        lost = np.isnan(found[:, 0])
        if lost.all():
            raise DataError(
                f"poses (--poses): the log, {self.log.times[0]:.2f} to {self.log.times[-1]:.2f} s, tells of no frame "
                f"where the head looked: frames are {self.rate:g} a second, the first at {self.start:g} s"
            )
        if lost.any():
            where = f"{int(lost.sum()):,} of {len(lost):,} frames, the first of them {int(np.asarray(frames)[lost][0])}"
            said = "nobody is seen there, and the game has no operator"
            print(f"simile: where the head looked is unknown in {where}: {said}", file=sys.stderr)  # noqa: T201
            return None
        return found

    def to_court(self, pixels: ArrayLike, frame: ArrayLike | None = None) -> FloatArray:
        """Return the points of the ground (..., 2) that pixels (..., 2) show in a frame, or one for each."""
        return self.view.to_court(pixels, pose=self.poses(frame))

    def to_angles(self, pixels: ArrayLike, frame: ArrayLike | None = None) -> tuple[FloatArray, FloatArray]:
        """Return the pan and tilt (...) of the head that would put what pixels (..., 2) show into the middle."""
        return self.view.to_angles(pixels, pose=self.poses(frame))

    def to_pixels(self, points: ArrayLike, frame: ArrayLike | None = None) -> FloatArray:
        """Return the pixels (..., 2) of points (..., 2) of the ground, or (..., 3), in a frame, or one for each."""
        return self.view.to_pixels(points, pose=self.poses(frame))

    def resized(self, size: Size) -> Sight:
        """Return the same for the picture at another size."""
        return replace(self, view=self.view.resized(size))

    def settle(self, pixels: ArrayLike) -> Sight:
        """Return the same with a latency that is known: estimated from feet (T, n, 2) of all frames where it was not.

        What was estimated is said on standard error, for it is a guess.
        """
        if self.latency is not None:
            return self
        given = np.asarray(pixels, dtype=np.float64)
        found = estimate_latency(given, self.start + np.arange(len(given)) / self.rate, self.log, self.view)
        print(f"latency of the picture: {found}, estimated (--latency auto)", file=sys.stderr)  # noqa: T201 - a guess
        return replace(self, latency=found.seconds)


def estimate_latency(
    pixels: ArrayLike, times: ArrayLike, log: PoseLog, view: View, *, between: tuple[float, float] = (-0.2, 0.6)
) -> Latency:
    """Find by how much pictures come later than poses: what is seen then moves least with the head.

    What is seen is turned into directions with the poses of an earlier time, for every latency in question. With the
    right one a thing that stands still does so; with a wrong one it swings whenever the head speeds up or brakes. The
    things need no identity: each is compared with the nearest a moment later. Those that run on their own count less.

    Parameters
    ----------
    pixels : (T, n, 2) array_like
        The same place in each box, such as its foot; NaN where there are fewer than n.
    times : (T,) array_like
        Of the pictures, in seconds, as they arrived.
    log : PoseLog
        Over the same time.
    view : View
        The camera, the size of its picture and its distortion.
    between : (lowest, highest)
        Latencies to try, in seconds.

    Raises
    ------
    DataError
        When the head moves too little, or the recording is too short, to tell.
    """
    seen = np.asarray(pixels, dtype=np.float64)[:ENOUGH]
    when = np.asarray(times, dtype=np.float64)[:ENOUGH]
    if seen.ndim != 3 or seen.shape[2:] != (2,) or when.shape != seen.shape[:1]:
        raise ArgumentError(f"pixels must be (T, n, 2), with T times; got shapes {seen.shape} and {when.shape}")
    apart = max(1, round(APART / float(np.median(np.diff(when))))) if len(when) > 1 else 1
    if len(when) < 4 * BLOCKS + apart:
        raise DataError(f"{len(when)} frames are too few to estimate a latency: {WAVE}")
    tried = np.arange(between[0], between[1] + STEP / 2.0, STEP)
    moved = np.array([_motion(seen, log.at((when - latency)[:, np.newaxis]), view, apart) for latency in tried])
    scale = 3.0 * float(np.nanmedian(moved))
    with np.errstate(invalid="ignore"):
        costs = moved**2 / (moved**2 + scale**2)  # what runs on its own counts little
    # A thing counts where it is seen at all latencies: so the sums are of the same things.
    costs = np.where(np.isfinite(costs).all(axis=0), costs, 0.0).sum(axis=2)
    parts = np.stack([block.sum(axis=1) for block in np.array_split(costs, BLOCKS, axis=1)])
    whole = parts.sum(axis=0)
    speed = float(np.ptp(log.poses[:, 0]))
    if not np.ptp(whole) > 0.0:
        raise DataError(f"the head hardly moves while something is seen ({speed:.1f} degrees of pan in all): {WAVE}")
    best = _lowest(tried, whole)
    others = np.array([_lowest(tried, whole - part) for part in parts])
    doubt = float(np.sqrt((BLOCKS - 1) / BLOCKS * np.sum((others - others.mean()) ** 2)))
    if doubt > MOST_DOUBT or not between[0] + STEP < best < between[1] - STEP:
        raise DataError(
            f"the latency cannot be told from this recording ({1000 * best:.0f} ms, give or take {1000 * doubt:.0f}; "
            f"{speed:.1f} degrees of pan in all): {WAVE}"
        )
    return Latency(best, best - 2.0 * doubt, best + 2.0 * doubt)


WAVE = "swing the head quickly to and fro for ten seconds while it sees people, or say the latency (--latency 0.08)"


def _motion(seen: FloatArray, pose: tuple[FloatArray, ...], view: View, apart: int) -> FloatArray:
    """Return how far (T - apart, n), in degrees, each thing is from the nearest so many frames later."""
    pan, tilt = view.to_angles(seen, pose=pose)
    way = np.stack([pan * np.cos(np.radians(tilt)), tilt], axis=-1)
    far = np.linalg.norm(way[:-apart, :, np.newaxis] - way[apart:, np.newaxis], axis=-1)
    lost = np.isnan(far).all(axis=2)
    return np.where(lost, np.nan, np.nanmin(np.where(lost[..., np.newaxis], 0.0, far), axis=2))


def _lowest(tried: FloatArray, costs: FloatArray) -> float:
    """Return where a curve is lowest: between its points, by a parabola through the lowest three."""
    i = int(np.clip(np.argmin(costs), 1, len(costs) - 2))
    left, middle, right = costs[i - 1 : i + 2]
    bend = left - 2.0 * middle + right
    return float(tried[i] + (STEP * 0.5 * (left - right) / bend if bend > 0.0 else 0.0))
