"""How well a camera frames a game: who is in the picture, how large, with how much room, and how fast it moves.

How it turns and rests beside the operator is what `simile.evaluate` tells, of every policy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import cast

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from simile._common import checks
from simile._common.text import cell
from simile._common.typing import FloatArray
from simile.camera.games import Game
from simile.data.logs import Log, know_log
from simile.errors import ArgumentError
from simile.metrics import difference

MOVING = 1.0  # metres per second
TALL = 1.8  # metres, of a player


@dataclass(frozen=True)
class Framing:
    """What `framing` measured; prints as a small table. NaN says that there is nothing to measure.

    Attributes
    ----------
    players : float
        Share of the known players, over all frames, that are inside the picture.
    ball : float
        Share of the frames with a known ball that have it in the picture.
    lead_room : float
        Room ahead of the play in the picture beyond the half that is there with play in the middle, in half-widths of
        the picture: from 1, play at the trailing edge or behind it, to -1, at the leading edge or beyond.
    speed, acceleration : float
        Mean absolute pan speed and acceleration, in degrees per second (squared).
    size : float
        Height of a player of 1.8 metres over that of the picture, the mean of those who stand in it.
    head_room : float
        Room above the highest head of those who stand in the picture, over its height; below 0 where that is cut off.
    tilt_speed, zoom_speed : float
        Mean absolute speeds, in degrees and in shares of the zoom (0.1: by a tenth) per second; NaN without such an
        axis.
    """

    players: float
    ball: float
    lead_room: float
    speed: float
    acceleration: float
    size: float
    head_room: float
    tilt_speed: float
    zoom_speed: float

    def to_dict(self) -> dict[str, float]:
        """Return the measures by name."""
        return {f.name: float(getattr(self, f.name)) for f in fields(self)}

    def __str__(self) -> str:
        return _table({"": self})


@dataclass(frozen=True)
class FramingComparison:
    """The framing of games by several cameras; prints as a table with a column for each."""

    framings: Mapping[str, Framing]

    def __getitem__(self, name: str) -> Framing:
        return self.framings[name]

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Return the measures by camera and name."""
        return {name: found.to_dict() for name, found in self.framings.items()}

    def __str__(self) -> str:
        return _table(self.framings)


def framing(
    game: Game,
    actions: ArrayLike | None = None,
    *,
    moving: float = MOVING,
) -> Framing:
    """Measure how actions (T, k) frame a game; those of its operator by default.

    Frames with a missing action have no picture and do not count. The centre of play is the ball, or the middle of the
    known players where the ball is unknown. `lead_room` is the mean, over the frames in which the centre of play moves
    along the court, of its image position against the direction of play, cut off at the picture's edges.

    Parameters
    ----------
    moving : float
        Metres per second, over one second, above which play counts as moving.

    Examples
    --------
    >>> from simile.camera.simulation import simulate
    >>> game, = simulate(1, minutes=0.2)
    >>> 0.5 < framing(game).players <= 1.0
    True
    """
    return _measure(game, actions, _know_axes([game]), moving)


def _measure(game: Game, actions: ArrayLike | None, logs: Sequence[Log], moving: float) -> Framing:
    """Measure a camera, by what the operators' logs of its axes take for motion and for noise."""
    log = logs[0]
    moving = checks.number(moving, "moving", at_least=0.0)
    view, axes = _view(game, actions)
    there = np.isfinite(view).all(axis=1)
    players = game.detections if game.players is None else game.players
    ball = np.full((len(game), 2), np.nan) if game.ball is None else game.ball
    speed = np.abs(difference(view[:, 0], 1, log.strides[0])) * game.rate
    acceleration = np.abs(difference(view[:, 0], 2, log.strides[1])) * game.rate**2
    moved = [_mean(np.abs(difference(a, 1, known.strides[0])) * game.rate) for a, known in _others(view, axes, logs)]
    tall, room = _heads(game, players[there], view[there])
    return Framing(
        players=_share_inside(game, players[there], view[there]),
        ball=_share_inside(game, ball[there, np.newaxis], view[there]),
        lead_room=_lead_room(game, _centre(ball, players), view, moving),
        size=tall,
        head_room=room,
        tilt_speed=moved[0] if moved else np.nan,
        zoom_speed=moved[1] if moved else np.nan,
        speed=_mean(speed),
        acceleration=_mean(acceleration),
    )


def compare_framing(
    games: Game | Sequence[Game],
    actions: Mapping[str, ArrayLike | Sequence[ArrayLike]],
    *,
    moving: float = MOVING,
) -> FramingComparison:
    """Measure several cameras: {name: actions (T, k)} on one game, or {name: one array per game} on several.

    Over several games the measures are means, weighted by frames. The other arguments are those of `framing`.
    """
    if not actions:
        raise ArgumentError("actions must name at least one camera, as in {'operator': game.actions}; got none")
    logs, found = _know_axes([games] if isinstance(games, Game) else games), {}  # the same for all cameras
    for name, moves in actions.items():
        pairs = _pairs(games, moves, name)
        each = [_measure(game, m, logs, moving) for game, m in pairs]
        found[name] = _pool(each, [len(game) for game, _ in pairs])
    return FramingComparison(found)


def _know_axes(games: Sequence[Game]) -> tuple[Log, ...]:
    """Return the operators' logs: of pan and tilt in degrees, and of the logarithm of the zoom."""
    views = [game.view(game.actions) for game in games if game.actions is not None]
    known = [view[np.isfinite(view).all(axis=1)] for view in views]
    logs = [np.column_stack([view[:, :2], np.log(view[:, 2])]) for view in known if len(view)]
    return know_log(logs) if logs else (Log(0.0, 0.0, (0.0, 0.0), 0.0),) * 3


def _others(view: FloatArray, axes: int, logs: Sequence[Log]) -> list[tuple[FloatArray, Log]]:
    """Return tilt (T,) and the logarithm of the zoom, with their logs, where these are axes of the camera."""
    return [] if axes == 1 else [(view[:, 1], logs[1]), (np.log(view[:, 2]), logs[2])]


def _pairs(
    games: Game | Sequence[Game], moves: ArrayLike | Sequence[ArrayLike], name: str
) -> list[tuple[Game, ArrayLike]]:
    """Return every game with the actions on it."""
    if isinstance(games, Game):
        return [(games, cast(ArrayLike, moves))]
    given = list(cast(Sequence[ArrayLike], moves))
    if len(given) != len(games) or not given:
        raise ArgumentError(f"actions of {name!r} must be one array for each of {len(games)} games; got {len(given)}")
    return list(zip(games, given, strict=True))


def _pool(framings: Sequence[Framing], frames: Sequence[int]) -> Framing:
    """Return the means over games, weighted by frames; a game without a measure does not count in it."""
    values = np.array([list(f.to_dict().values()) for f in framings])
    weights = np.where(np.isnan(values), 0.0, np.array(frames, dtype=np.float64)[:, np.newaxis])
    total = weights.sum(axis=0)
    means = (weights * np.nan_to_num(values)).sum(axis=0) / np.where(total > 0.0, total, np.nan)
    return Framing(*(float(m) for m in means))


def _view(game: Game, actions: ArrayLike | None) -> tuple[FloatArray, int]:
    """Return pan, tilt and zoom (T, 3), and how many of them are axes of the camera."""
    if actions is None:
        if game.actions is None:
            raise ArgumentError(f"actions must be given: {game.name!r} has no operator")
        actions = game.actions
    given = np.asarray(actions, dtype=np.float64)
    if given.ndim == 1:
        given = given[:, np.newaxis]
    if given.ndim != 2 or given.shape[1] not in (1, 3) or len(given) != len(game):
        raise ArgumentError(
            f"actions must be pan, or pan, tilt and zoom, for the {len(game)} frames of {game.name!r}; "
            f"got shape {given.shape}"
        )
    if given.shape[1] == 3 and not np.nanmin(given[:, 2], initial=1.0) > 0.0:
        raise ArgumentError(f"actions: zoom must be above 0; got {np.nanmin(given[:, 2]):g}: 1 is the widest view")
    return game.view(given), given.shape[1]


def _project(game: Game, points: FloatArray, view: FloatArray) -> FloatArray:
    """Return points (T, n, 2) in the pictures of view (T, 3)."""
    pan, tilt, zoom = view.T[..., np.newaxis]
    return game.camera.project(points, pan, tilt, zoom)


def _share_inside(game: Game, points: FloatArray, view: FloatArray) -> float:
    """Return the share of the known points (T, n, 2) that are in the picture; those behind the camera are not."""
    known = np.isfinite(points[..., 0]) & np.isfinite(points[..., 1])
    return _mean(_inside(game, _project(game, points, view))[known])


def _inside(game: Game, image: FloatArray) -> npt.NDArray[np.bool_]:
    """Tell which image points (..., 2) are in the picture."""
    across, up = np.moveaxis(np.abs(image), -1, 0)
    return np.asarray((across <= 1.0) & (up <= 1.0 / game.camera.lens.aspect))


def _heads(game: Game, players: FloatArray, view: FloatArray) -> tuple[float, float]:
    """Return the mean height of players who stand in the picture, and the room above them, over its height."""
    feet = _project(game, players, view)
    heads = _project(game, np.concatenate([players, np.full((*players.shape[:2], 1), TALL)], axis=2), view)
    seen, high = _inside(game, feet), 2.0 / game.camera.lens.aspect
    top = np.where(seen, heads[..., 1], -np.inf).max(axis=1, initial=-np.inf)
    tall = np.hypot(*np.moveaxis(heads - feet, -1, 0))[seen] / high
    return _mean(tall), _mean((0.5 - top / high)[np.isfinite(top)])


def _centre(ball: FloatArray, players: FloatArray) -> FloatArray:
    """Return the ball, or the mean of the known players where it is unknown, (T, 2)."""
    known = np.isfinite(players).all(axis=2, keepdims=True)
    count = known.sum(axis=1)
    mean = np.where(known, players, 0.0).sum(axis=1) / np.where(count > 0, count, np.nan)
    return np.where(np.isfinite(ball).all(axis=1, keepdims=True), ball, mean)


def _lead_room(game: Game, centre: FloatArray, view: FloatArray, moving: float) -> float:
    """Return the mean image position of the centre of play (T, 2) against its direction there, while it moves."""
    reach = max(1, round(game.rate / 2.0))
    frames = np.arange(len(centre))
    before, after = np.maximum(frames - reach, 0), np.minimum(frames + reach, len(centre) - 1)
    seconds = np.maximum(after - before, 1) / game.rate
    speed = (centre[after, 0] - centre[before, 0]) / seconds
    steps = np.stack([centre, centre + np.array([1.0, 0.0])], axis=1)
    where, beyond = _project(game, steps, view)[..., 0].T  # from the other side, what goes right goes left
    way = np.sign(speed) * np.where(beyond < where, -1.0, 1.0)
    return _mean((-way * np.clip(where, -1.0, 1.0))[np.abs(speed) > moving])


def _mean(values: npt.NDArray[np.float64] | npt.NDArray[np.bool_]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")


_ROWS = {
    "players": "players in the picture (share)",
    "ball": "ball in the picture (share)",
    "lead_room": "lead room (half-widths)",
    "speed": "pan speed (degrees/s)",
    "acceleration": "pan acceleration (degrees/s2)",
    "size": "size of players (of the height)",
    "head_room": "head room (of the height)",
    "tilt_speed": "tilt speed (degrees/s)",
    "zoom_speed": "zoom speed (share/s)",
}
_AXES = ("tilt_speed", "zoom_speed")  # left out where no camera has them


def _table(framings: Mapping[str, Framing]) -> str:
    width = max(10, *(len(name) for name in framings))
    head = [" ".join([f"{'framing':31}", *(f"{name:>{width}}" for name in framings)]).rstrip()]
    rows = [
        " ".join([f"{title:31}", *(cell(getattr(found, name), width, ".3g") for found in framings.values())])
        for name, title in _ROWS.items()
        if name not in _AXES or not all(math.isnan(getattr(found, name)) for found in framings.values())
    ]
    return "\n".join(head + rows)
