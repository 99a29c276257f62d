"""What a person detector makes of a game: noise, misses in bursts, and people who do not play."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simile._common.typing import FloatArray
from simile.camera.courts import Court
from simile.camera.geometry import Camera
from simile.camera.simulation.fields import check_numbers
from simile.camera.simulation.operators import lag_signal


@dataclass(frozen=True)
class Detector:
    """A detector of persons on the ground, without identities; metres and seconds.

    Parameters
    ----------
    noise : float
        Standard deviation of a position at the court's middle; it grows in proportion to the distance from the camera.
    missed, burst : float
        Share of the time that a player is missed who stands free, and how long that lasts, on average.
    hides, hidden : float
        A player is hidden by another up to three metres before him and `hides` beside the line of sight; he is then
        lost, for a burst, with probability `hidden` in every burst's time.
    referee, bystander, clutter : float
        Share of the time that each of two referees, someone beside the court, and nothing at all are taken for a
        player.
    linger : float
        How long a false detection of a person lasts, on average.
    """

    noise: float = 0.25
    missed: float = 0.06
    burst: float = 0.6
    hides: float = 0.4
    hidden: float = 0.8
    referee: float = 0.35
    bystander: float = 0.3
    clutter: float = 0.1
    linger: float = 2.5

    def __post_init__(self) -> None:
        shares = ("missed", "referee", "bystander", "clutter")
        check_numbers(self, shares=shares, above_zero=("burst", "linger"))

    @classmethod
    def of(cls, court: Court) -> Detector:
        """Return a detector for the size of a court."""
        return cls(noise=cls.noise * max(1.0, court.width / 30.0))


def detect(
    detector: Detector,
    players: FloatArray,
    ball: FloatArray,
    *,
    court: Court,
    camera: Camera,
    rate: float,
    rng: np.random.Generator,
) -> FloatArray:
    """Return detections (T, n, 2) of players (T, p, 2): in random order, NaN behind the last; n is p + 4."""
    seen = _observe(detector, players, camera, rate, rng)
    false = _make_false(detector, len(players), ball, court, rate, rng)
    false += _noise(detector, false, camera, rng)
    found = np.concatenate([seen, false], axis=1)
    return _shuffle(found, rng)


def _shuffle(found: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return the rows of every frame in random order, the missing ones last."""
    keys = np.where(np.isnan(found[..., 0]), 2.0, rng.random(found.shape[:2]))
    return np.take_along_axis(found, np.argsort(keys, axis=1, kind="stable")[..., np.newaxis], axis=1)


def _noise(detector: Detector, points: FloatArray, camera: Camera, rng: np.random.Generator) -> FloatArray:
    """Return errors for points (..., 2): a pixel covers the more metres the farther away it looks."""
    x, y, z = camera.position
    far = np.sqrt((points[..., 0] - x) ** 2 + (points[..., 1] - y) ** 2 + z**2)
    spread = detector.noise * far / np.sqrt(x**2 + y**2 + z**2)
    return np.asarray(spread[..., np.newaxis] * rng.standard_normal(points.shape))


def _observe(
    detector: Detector, players: FloatArray, camera: Camera, rate: float, rng: np.random.Generator
) -> FloatArray:
    """Return the players (T, p, 2) with noise, NaN while they are missed or hidden."""
    end = min(1.0, 1.0 / (detector.burst * rate))
    begin = np.full(players.shape[:2], _begin(detector.missed, end))
    begin[_find_occluded(players, camera, detector.hides)] += detector.hidden * end
    lost = _bursts(begin, end, rng)
    return np.where(lost[..., np.newaxis], np.nan, players + _noise(detector, players, camera, rng))


def _find_occluded(players: FloatArray, camera: Camera, width: float) -> npt.NDArray[np.bool_]:
    """Tell which players (T, p) have another less than three metres before them, `width` beside the line of sight."""
    sight = players - np.array(camera.position[:2])
    far = np.hypot(sight[..., 0], sight[..., 1])
    unit = sight / far[..., np.newaxis]
    gap = players[:, :, np.newaxis] - players[:, np.newaxis]  # from the other to the one
    depth = (gap * unit[:, :, np.newaxis]).sum(axis=-1)
    beside = np.abs(gap[..., 0] * unit[:, :, np.newaxis, 1] - gap[..., 1] * unit[:, :, np.newaxis, 0])
    return np.asarray(((depth > 0.0) & (depth < 3.0) & (beside < width)).any(axis=2))


def _make_false(
    detector: Detector, length: int, ball: FloatArray, court: Court, rate: float, rng: np.random.Generator
) -> FloatArray:
    """Return the false detections (T, 4, 2): two referees, a bystander and clutter; NaN where there is none."""
    half = np.array([court.length, court.width]) / 2.0
    end = min(1.0, 1.0 / (detector.linger * rate))
    # One referee follows the play along the near side line, the other along the far one, a little before it.
    trail = lag_signal(ball[:, 0], 1.2, rate)
    referees = np.stack(
        [
            np.column_stack([np.clip(trail + shift * half[0], -half[0], half[0]), np.full(length, side * half[1])])
            for side, shift in ((-1.0, 0.15), (1.0, -0.15))
        ],
        axis=1,
    )
    share = np.array([detector.referee, detector.referee, detector.bystander])
    there = _bursts(np.full((length, 3), [_begin(s, end) for s in share]), end, rng)
    # A bystander is someone else at another place each time.
    starts = np.cumsum(np.diff(there[:, 2], prepend=False) & there[:, 2])
    places = rng.uniform(-1.0, 1.0, (length + 1, 2)) * half
    places[:, 1] = np.copysign(half[1] + 1.0, places[:, 1])
    clutter = rng.uniform(-half, half, (length, 2))
    people = np.concatenate([referees, places[starts][:, np.newaxis], clutter[:, np.newaxis]], axis=1)
    there = np.column_stack([there, rng.random(length) < detector.clutter])
    return np.where(there[..., np.newaxis], people, np.nan)


def _begin(share: float, end: float) -> float:
    """Return how often a burst must begin, per frame, to take a share of the time, where it ends with `end`."""
    return 1.0 if share >= 1.0 else min(1.0, end * share / (1.0 - share))


def _bursts(begin: FloatArray, end: float, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Return a two-state Markov chain per column of begin (T, n)."""
    from simile.camera.simulation.kernels import lapse

    on = np.empty(begin.shape, np.bool_)
    lapse(begin, end, rng.random((len(begin) + 1, begin.shape[1])), on)
    return on
