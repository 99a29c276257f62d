"""Plain tables of detections, one row each, with an operator's camera beside them or in a second file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from simile._common import checks
from simile._common.typing import AnyPath, FloatArray
from simile.camera.calibration.views import Calibration
from simile.camera.courts import Court
from simile.camera.games import AXES, Game
from simile.camera.geometry import Camera
from simile.camera.tracking.frames import Piece, check_file, pieces, spread
from simile.camera.tracking.rows import ROLES, Rows, Timeline
from simile.camera.tracking.units import Ground
from simile.data.reading import clock
from simile.data.reading.values import quote
from simile.errors import ArgumentError, DataError

_POSITION, _BALL = ("x", "y"), ("ball_x", "ball_y")


def read_detections(
    path: AnyPath,
    *,
    court: Court,
    camera: Camera | None = None,
    rate: float | None = None,
    operator: AnyPath | None = None,
    columns: Mapping[str, str] | None = None,
    gap: float | None = None,
    units: str | None = None,
    middle: tuple[float, float] | None = None,
    calibration: ArrayLike | Calibration | None = None,
    still: tuple[float, float] | None = None,
) -> tuple[Game, ...]:
    """Read a table with one row per detection: CSV, Parquet, or any other that `simile.data.reading.read` takes.

    The columns are `frame` or `time` (seconds or ISO 8601), `x` and `y` in `units`, and, where they are there, `game`,
    which tells games apart, and those that belong to the frame and are repeated in each of its rows: the operator's
    `pan`, or `pan`, `tilt` and `zoom`, and the ball's `ball_x` and `ball_y`. All others, such as `id` or `team`, are
    left out: a detection has no identity. A row with empty x and y is a frame, but no detection.

    Parameters
    ----------
    rate : float, optional
        Frames per second; inferred from the time if not given. With frame numbers only, it must be given.
    operator : path, optional
        A second table, one row per frame, with `pan`, or `pan`, `tilt` and `zoom`, and `frame` or `time`, and `game`,
        as in the first. The games then are the frames of this one.
    columns : mapping, optional
        Other names: `{"x": "field_x", "time": "utc"}` reads x from the column field_x and the time from utc.
    gap : float, optional
        Begin another game where there is no row for more than this many seconds.
    units : str, optional
        Of positions: "metres" by default, "feet", "yards", "cm", or "pixels" with a calibration.
    middle : (x, y), optional
        Where the middle of the court is in these units; (0, 0) by default.
    calibration : (3, 3) array_like or Calibration, optional
        From pixels to metres on the court. Frames that the table counts are those of a calibration that moves.
    still : (tilt, zoom), optional
        Of an operator's camera that only pans.
    """
    names, ground = _names(columns), Ground.of(units, middle, calibration)
    rate = None if rate is None else checks.number(rate, "rate", above=0.0)
    gap = None if gap is None else checks.number(gap, "gap", above=0.0)
    # What is named wins; else the time where there is no rate, for it can tell that, and frames cannot.
    told = [role for role in ("frame", "time") if role in (columns or {})]
    clocks = told or (["time", "frame"] if rate is None else ["frame", "time"])
    seen = Rows.read(check_file(path), names, clocks=clocks, needed=_POSITION, optional=(*AXES, *_BALL))
    acted = seen
    if operator is not None:
        seen = seen.without(AXES)
        acted = Rows.read(
            check_file(operator), names, clocks=(seen.clock,), needed=AXES[:1], optional=AXES[1:], name=seen.name
        )
        _check_games(seen, acted)
    _check_found(columns or {}, seen, acted)
    rate = _rate((seen,) if acted is seen else (seen, acted), rate)
    extra: dict[str, Any] = {} if still is None else {"still": still}
    stand = camera or Camera.beside(court)
    games = []
    for game in acted.games:
        line = Timeline.of(acted, game, 1.0 if acted.clock == "frame" else rate)
        frames, moves = line.frames(seen), line.frames(acted)
        points, first = seen.values(game, _POSITION), int(line.origin) if line.numbered else 0
        here = ground.settle(points, frames + first, rate, seen.path)
        points = here.to_metres(points, frames + first)
        for piece in pieces(np.unique(moves), game, None if gap is None else gap * rate):
            detections = spread(frames, points, piece, seen.path)
            ball = seen.per_frame(game, _BALL, frames, piece) if seen.has(_BALL) else None
            if ball is not None:
                ball = here.to_metres(ball, np.arange(piece.first, piece.stop) + first)
            actions = take_actions(acted, game, line, piece)
            games.append(Game(piece.name, rate, court, stand, detections, actions=actions, ball=ball, **extra))
    return tuple(games)


def take_actions(rows: Rows, game: str, line: Timeline, piece: Piece) -> FloatArray | None:
    """Return how the operator moved in a piece, (T, 1) or (T, 3); None where the table does not say."""
    roles = tuple(role for role in AXES if rows.has((role,)))
    if not roles:
        return None
    if roles not in (AXES[:1], AXES):
        raise ArgumentError(
            f"{rows.path}: pan, or pan, tilt and zoom are wanted; there is {' and '.join(roles)} only: "
            "add the others, or rename the column if it is no angle of the camera"
        )
    out = rows.per_frame(game, roles, line.frames(rows), piece)
    if (missing := np.isnan(out)).any():
        t, k = (int(i) for i in np.argwhere(missing)[0])
        raise DataError(
            f"{rows.path}: {line.name_frame(piece.first + t)} of game {quote(game)} has no {roles[k]} "
            f"({int(missing.any(axis=1).sum()):,} such frames): add rows with empty x and y for frames without "
            "detections, give the camera in a file of its own with operator (--operator), or cut the game there with "
            "gap (--gap, seconds)"
        )
    if len(roles) == 3 and (bad := out[:, 2] <= 0.0).any():
        t = int(bad.argmax())
        raise DataError(
            f"{rows.path}: {line.name_frame(piece.first + t)} of game {quote(game)} has a zoom of {out[t, 2]:g}: "
            "1 is the widest view, 2 magnifies twice"
        )
    return out


def _rate(tables: tuple[Rows, ...], given: float | None) -> float:
    """Return the frames per second, which must fit the time if there is one."""
    if tables[0].clock == "frame":
        if given is None:
            raise ArgumentError(
                f"rate: {tables[0].path} counts frames, and has no time: say how many there are a second (--rate)"
            )
        return given
    steps = [
        (game, clock.steps_of(np.unique(rows.since(game, rows.begin(game))), game))
        for rows in tables
        for game in rows.games
    ]
    if given is None:
        if (inferred := clock.infer_rate(steps)) is None:
            raise ArgumentError(f"rate: {tables[0].path} has one frame per game: give the rate (--rate)")
        return inferred
    for game, step in steps:
        with np.errstate(over="ignore", invalid="ignore"):
            off = np.abs(step * given - np.rint(step * given))
        if len(step) and not np.median(off) <= 0.1:
            raise ArgumentError(
                f"rate: the time of game {quote(game)} goes in steps of {float(np.median(step)):.6g} s, which are no "
                f"whole frames at {given:g} Hz: leave the rate out, or give the right one"
            )
    return given


def _names(columns: Mapping[str, str] | None) -> dict[str, tuple[str, ...]]:
    """Return the names to look for, by role."""
    given = {} if columns is None else columns
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given.values()):
        raise ArgumentError(f"columns must be a mapping from roles to names of columns; got {quote(columns)}")
    if unknown := [role for role in given if role not in ROLES]:
        raise ArgumentError(f"columns: {quote(unknown[0])} is no role; known are {', '.join(ROLES)}")
    return {role: (given[role],) if role in given else names for role, names in ROLES.items()}


def _check_found(columns: Mapping[str, str], *tables: Rows) -> None:
    for role, name in columns.items():
        if not any(name in rows.present for rows in tables):
            raise ArgumentError(
                f"columns[{role!r}] (--columns {role}=...): no column is {quote(name)} in {tables[0].path}; there are "
                f"{quote(', '.join(tables[0].present))}"
            )


def _check_games(seen: Rows, acted: Rows) -> None:
    if seen.when.dtype.kind != acted.when.dtype.kind:
        raise DataError(
            f"{seen.path} and {acted.path} must tell the time in one way: one has seconds, the other time stamps"
        )
    for rows, other in ((seen, acted), (acted, seen)):
        if lacking := [game for game in rows.games if game not in other.games]:
            raise DataError(
                f"{rows.path} has the game {quote(lacking[0])}, {other.path} has not: "
                "give both the same games in the column 'game', or read them one by one"
            )
