"""What a policy sees of a game: where the players are and where they go, without knowing who is who.

The features are those of Chen and Carr ("Mimicking human camera operators", 2015), from which the paper of SIMILE has
its case study: a soft heat map of the noisy detections with quantised values, and a few summaries of all detections.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from simile._common import checks
from simile._common.typing import FloatArray, IntArray
from simile.camera.courts import Court
from simile.camera.games import Game
from simile.camera.geometry import Camera
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.errors import ArgumentError, DataError

# Positions are whole multiples of 1/1024 (a millimetre, far below the noise of any detector), and shares of a
# detection are whole multiples of 2^-20. Sums of these are exact, so that neither the order of the detections nor the
# size of a batch nor a mirror can change the last bit of a feature.
_FINE = 1024.0
_SHARE = 2.0**20
_LEVELS = 8.0  # the heat map is quantised to eighths of a detection
_BLOCK = 1 << 14  # detections at a time: what is computed of them fits into a cache

_COLUMNS = ("centroid", "median", "std", "extent", "flow", "median_flow")  # each along both axes

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Features:
    """The context (m,) of a frame, from its detections (n, 2) and those of a few frames before.

    In order, and by `names`, with x and y replaced by pan and tilt where the map is over rays:

    - `heat_i_j`: how many detections are in cell i along x and j along y, each spread over the cells around it so that
      it counts 1 in all; quantised to eighths;
    - `centroid`, `median`, `std` and `extent` of the detections, along both axes;
    - `flow` and `median_flow`: how far centroid and median moved per frame, since the earliest of the `flow_frames`
      frames before that has any detection;
    - `count`, and the shares `left` and `right` of the detections in either half of the court.

    A frame without detections has zeros in the heat map and the count, and NaN elsewhere. Detections that are missing
    (NaN), not finite or more than `margin` beside the court do not count.

    Parameters
    ----------
    grid : (int, int)
        Cells along x and y.
    softness : float, optional
        Gaussian spread of a detection over the cells, in metres, or in degrees over rays; half a cell by default.
    rays : Camera, optional
        Where all is seen from: positions are pan and tilt angles (degrees) from this camera instead of metres, and the
        cells cover the court as seen by it. The camera must stand outside the court, `margin` included, and face it.
    flow_frames : int
        Over how many frames motion is measured; only the past counts.
    margin : float
        Metres.

    Examples
    --------
    >>> from simile.camera.courts import BASKETBALL
    >>> features = Features(BASKETBALL, grid=(4, 2))
    >>> stream = features.stream()
    >>> seen = stream.step([[10.0, 2.0], [6.0, -2.0]])
    >>> dict(zip(features.names, seen.tolist()))["centroid_x"]
    8.0
    """

    court: Court
    grid: tuple[int, int] = (8, 4)
    softness: float | None = None
    rays: Camera | None = None
    flow_frames: int = 5
    margin: float = 2.0

    def __post_init__(self) -> None:
        if not isinstance(self.grid, tuple | list) or len(self.grid) != 2:
            raise ArgumentError(f"grid must be two whole numbers, the cells along x and y; got {self.grid!r}")
        object.__setattr__(self, "grid", tuple(checks.whole_number(n, "grid", at_least=1) for n in self.grid))
        if self.softness is not None:
            checks.number(self.softness, "softness", at_least=1e-3)
        checks.whole_number(self.flow_frames, "flow_frames", at_least=1)
        checks.number(self.margin, "margin", at_least=0.0)
        if self.rays is not None:
            try:
                self.rays.facing(self.court, self.margin)
            except ArgumentError as error:
                raise ArgumentError(f"rays: {error}") from None

    @classmethod
    def from_names(cls, names: Sequence[str], court: Court, camera: Camera) -> Features:
        """Return the features with these names, as the card of a policy tells them; all else as by default."""
        cells = [tuple(map(int, found.groups())) for n in names if (found := re.fullmatch(r"heat_(\d+)_(\d+)", n))]
        grid = (1 + max((i for i, _ in cells), default=-1), 1 + max((j for _, j in cells), default=-1))
        features = cls(court, grid, rays=camera if "centroid_pan" in names else None) if min(grid) > 0 else None
        if features is None or features.names != tuple(names):
            raise ArgumentError(f"names must be those of the features of detections; got {', '.join(names[:5])}, ...")
        return features

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the m columns."""
        columns, rows = self.grid
        axes = ("x", "y") if self.rays is None else ("pan", "tilt")
        return (
            *(f"heat_{i}_{j}" for i in range(columns) for j in range(rows)),
            *(f"{what}_{axis}" for what in _COLUMNS for axis in axes),
            *("count", "left", "right"),
        )

    def batch(self, detections: ArrayLike) -> FloatArray:
        """Return the features (T, m) of detections (T, n, 2); NaN where there are fewer than n."""
        points = _as_points(detections, 3)
        block = max(1, _BLOCK // points.shape[1])
        out = np.empty((len(points), len(self.names)))
        for start in range(0, len(points), block):
            out[start : start + block] = self._still(points[start : start + block])
        middles, flow = out[:, self._middles], out[:, self._flows]
        for lag in range(self.flow_frames, 0, -1):  # the earliest frame first: later ones only fill gaps
            np.copyto(flow[lag:], (middles[lag:] - middles[:-lag]) / lag, where=np.isnan(flow[lag:]))
        return out

    def stream(self) -> Stream:
        """Return the features frame by frame, as a camera needs them: equal to those of `batch` bit for bit."""
        return Stream(self)

    @cached_property
    def _middles(self) -> slice:
        """Where centroid and median are among the columns."""
        cells = self.grid[0] * self.grid[1]
        return slice(cells, cells + 4)

    @cached_property
    def _flows(self) -> slice:
        """Where their motions are."""
        return slice(self._middles.start + 8, self._middles.start + 12)

    @cached_property
    def _cells(self) -> tuple[tuple[FloatArray, float], ...]:
        """The middles (cells, 1, 1) of the cells along each axis, and 1 / (2 spread^2), in multiples of 1/1024."""
        made = []
        for (low, high), n in zip(self._bounds(), self.grid, strict=True):
            size = (high - low) / n
            middles = (low + high) / 2.0 + (np.arange(n) - (n - 1) / 2.0) * size
            spread = _FINE * (size / 2.0 if self.softness is None else self.softness)
            made.append((np.asarray(_FINE * middles).reshape(n, 1, 1), float(0.5 / spread**2)))
        return tuple(made)

    def _bounds(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return what the cells cover along either axis: the court, or all angles under which it is seen."""
        x, y = self.court.length / 2.0, self.court.width / 2.0
        if self.rays is None:
            return (-x, x), (-y, y)
        nearest = np.clip(self.rays.position[:2], [-x, -y], [x, y])
        pan, tilt = self.rays.aim(np.vstack([self.court.corners, nearest]))
        return (float(pan.min()), float(pan.max())), (float(tilt.min()), float(tilt.max()))

    def _still(self, points: FloatArray) -> FloatArray:
        """Return the features (B, m) of each frame of (B, n, 2) by itself; NaN for its motion."""
        out = np.full((len(points), len(self.names)), np.nan)
        start = self._middles.start
        here = self.court.inside(points, self.margin)  # what is missing is nowhere
        metres = np.where(here[..., np.newaxis], points, 0.0)
        spots = metres.transpose(2, 0, 1) if self.rays is None else np.stack(self.rays.aim(metres))
        spots = np.rint(spots * _FINE) + 0.0  # no negative zero
        counts = here.sum(axis=1)
        n = np.where(counts > 0, counts, np.nan)
        tip = np.sign(metres[..., 0]).sum(axis=1)  # how many more are on the right; who is missing is in the middle
        out[:, :start] = self._heat(spots, here)
        out[:, start : start + 8] = _measure(spots, here, counts, n) / _FINE
        out[:, -3], out[:, -2], out[:, -1] = counts, (counts - tip) / (2.0 * n), (counts + tip) / (2.0 * n)
        return out

    def _heat(self, spots: FloatArray, here: Mask) -> FloatArray:
        """Return the heat map (B, cells) of spots (2, B, n)."""
        along, across = (_shares(spots[axis], *self._cells[axis]) for axis in (0, 1))
        heat = np.matmul((along * here).transpose(1, 0, 2), across.transpose(1, 2, 0))
        return np.asarray(np.rint(heat * (_LEVELS / _SHARE**2)) / _LEVELS).reshape(len(here), -1)


class Stream:
    """The features of one game while it is played, see `Features.stream`."""

    def __init__(self, features: Features) -> None:
        self.features = features
        self._past: deque[FloatArray] = deque(maxlen=features.flow_frames)

    def step(self, detections: ArrayLike) -> FloatArray:
        """Return the features (m,) of the next frame from its detections (n, 2); n may change."""
        features = self.features
        out: FloatArray = features._still(_as_points(detections, 2)[np.newaxis])[0]
        middles, flow = out[features._middles], out[features._flows]
        for i, before in enumerate(self._past):
            if before[0] == before[0]:  # the earliest frame with detections
                flow[:] = (middles - before) / (len(self._past) - i)
                break
        self._past.append(middles.copy())  # what is returned may be changed
        return out

    def reset(self) -> None:
        """Begin another game."""
        self._past.clear()


def demonstrations(games: Game | Iterable[Game], features: Features | None = None) -> Demonstrations:
    """Return what the operators of games saw, as features of the detections, and did.

    Parameters
    ----------
    games : Game or iterable of Game
        All on one court, by one camera, and with actions; the card of a policy will say which camera.
    features : Features, optional
        Those of the court by default.
    """
    games = (games,) if isinstance(games, Game) else tuple(games)
    if not games:
        raise DataError("games must hold at least one game; got none")
    features = Features(games[0].court) if features is None else features
    for game in games:
        if game.camera != games[0].camera:
            raise DataError(
                f"game {games[0].name!r} is filmed from {games[0].camera} and game {game.name!r} from {game.camera}, "
                f"whose angles mean other places: film all from one, by --camera {games[0].camera} or refilm(game, "
                "camera), or learn from each alone"
            )
    return Demonstrations(tuple(_demonstration(game, features) for game in games))


def _demonstration(game: Game, features: Features) -> Demonstration:
    if game.actions is None:
        raise DataError(
            f"game {game.name!r} has no actions, so there is nothing to learn from it: "
            "give it those of an operator (--operator), let a simulated one film it (simile camera operate), or leave "
            "it out"
        )
    if game.court != features.court:
        raise ArgumentError(
            f"features are of {features.court}, but game {game.name!r} is on {game.court}: give all the same court "
            "(--court)"
        )
    return Demonstration(
        features.batch(game.detections),
        game.actions,
        game.rate,
        game.name,
        features.names,
        game.action_names,
        about={"camera": game.camera.to_dict(), "court": str(game.court)},
    )


def _measure(spots: FloatArray, here: Mask, counts: IntArray, n: FloatArray) -> FloatArray:
    """Return centroid, median, deviation and extent, (B, 8), of spots (2, B, n); `n` is NaN where `counts` is 0."""
    rows, counted = np.arange(len(here)), spots * here
    total, squares = counted.sum(axis=2), (counted * spots).sum(axis=2)
    ordered = np.sort(np.where(here, spots, np.nan), axis=2)  # NaN comes last
    measured = (
        total / n,
        (ordered[:, rows, (counts - 1) // 2] + ordered[:, rows, counts // 2]) / 2.0,
        np.sqrt(np.maximum(squares * n - total * total, 0.0)) / n,
        ordered[:, rows, counts - 1] - ordered[..., 0],
    )
    return np.concatenate(measured).T


def _shares(spots: FloatArray, middles: FloatArray, sharpness: float) -> FloatArray:
    """Return the share (cells, B, n), in multiples of 2^-20, that cells have of spots (B, n) along one axis."""
    squared = np.square(spots - middles)
    near = np.exp((squared.min(axis=0) - squared) * sharpness)
    twice = (near + near[::-1]).sum(axis=0)  # the same additions in a mirror
    return np.asarray(np.rint(near * (2.0 * _SHARE / twice)))


def _as_points(detections: ArrayLike, ndim: int) -> FloatArray:
    try:
        points = np.asarray(detections, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        points = np.empty(0)
    wanted = "(T, n, 2)" if ndim == 3 else "(n, 2)"
    if points.ndim != ndim or points.shape[-1] != 2:
        if points.size == 0 and ndim == 2:  # an empty list is a frame in which nothing was detected
            return np.full((1, 2), np.nan)
        raise ArgumentError(f"detections must be numbers of shape {wanted}; got shape {np.shape(detections)}")
    return points if points.shape[-2] else np.full((*points.shape[:-2], 1, 2), np.nan)
