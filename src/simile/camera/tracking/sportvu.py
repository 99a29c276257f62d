"""NBA SportVU: the JSON logs of 2013 to 2016, one file per game, 25 moments a second, in feet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from simile._common.files import read_bytes
from simile._common.typing import AnyPath, FloatArray, IntArray
from simile.camera.courts import BASKETBALL, Court
from simile.camera.games import Game
from simile.camera.geometry import Camera
from simile.camera.tracking.frames import MOST, check_file, line_up, pieces, spread
from simile.data.reading.tables import decoding
from simile.data.reading.values import quote
from simile.errors import DataError

RATE = 25.0
_FOOT = 0.3048
_MIDDLE = (47.0, 25.0)  # of a court of 94 by 50 feet
_JUMP = 0.5  # seconds
_BALL = -1  # as a team
_NUMBERS = frozenset((int, float, type(None)))

Moment = tuple[str, Any]  # where it stands in the file, and the list it is


def read_sportvu(path: AnyPath, court: Court = BASKETBALL, *, camera: Camera | None = None) -> tuple[Game, ...]:
    """Read the log of an NBA game.

    The log lists events, whose moments overlap: each moment counts once. Where more than half a second is missing,
    another piece begins; moments that are lost in between become frames without detections. Positions become metres
    from the middle of the court; y keeps its direction, for the log does not say on which side the camera stood. The
    `players` are the same positions by team; the detections do not tell who is who.

    Parameters
    ----------
    path : path
        A JSON file, unpacked.
    court : Court
        Positions are not stretched to it: an NBA court is 28.65 m by 15.24 m.
    camera : Camera, optional
        Beside the court by default.

    Returns
    -------
    tuple of Game
        One per piece, named `"<gameid> piece <i>"`; without actions.
    """
    file = check_file(path)
    with decoding(file, "JSON"):
        log = json.loads(read_bytes(file))
    if not isinstance(log, dict) or not isinstance(log.get("events"), list):
        raise DataError(
            f"{file}: no list of 'events': a SportVU log is an object with gameid, gamedate "
            "and events; the files of soccer providers need their name (--provider)"
        )
    moments: dict[float, Moment] = {}
    for place, moment in _moments(log["events"], file):
        moments.setdefault(_stamp(moment, place), (place, moment))
    if not moments:
        raise DataError(f"{file}: no event has a moment: there is nothing to see in this log")
    return _games(moments, str(log.get("gameid") or file.stem), court, camera or Camera.beside(court), file)


def _moments(events: list[Any], file: Path) -> Iterator[Moment]:
    for i, event in enumerate(events):
        place = f"{file}: event {i}"
        if not isinstance(event, dict) or not isinstance(event.get("moments"), list | None):
            raise DataError(f"{place}: {quote(event)} is no object with a list of 'moments': mend or remove it")
        for j, moment in enumerate(event.get("moments") or ()):
            where = f"{place} (eventId {quote(event.get('eventId'))}), moment {j}"
            if not isinstance(moment, list) or len(moment) < 6 or not isinstance(moment[5], list):
                raise DataError(
                    f"{where}: {quote(moment)} is not [quarter, time, game clock, shot clock, null, [positions]]: "
                    "mend or remove it"
                )
            yield where, moment


def _stamp(moment: list[Any], place: str) -> float:
    """Return the time of a moment, in milliseconds."""
    stamp = moment[1]
    if type(stamp) not in (int, float) or not abs(stamp) <= MOST:
        raise DataError(f"{place}, time: {quote(stamp)} is not in milliseconds: mend it or remove the moment")
    return float(stamp)


def _games(moments: dict[float, Moment], name: str, court: Court, camera: Camera, file: Path) -> tuple[Game, ...]:
    stamps = np.array(sorted(moments))
    kept, present = _one_per_frame(stamps)
    seen = [_positions(*moments[stamp]) for stamp in stamps[kept].tolist()]
    frame, balls = np.repeat(present, [len(rows) for rows, _ in seen]), np.array([ball for _, ball in seen])
    ids, points = np.split(np.concatenate([rows for rows, _ in seen]), [1], axis=1)
    known = list(dict.fromkeys(ids[:, 0].tolist()))
    teams = np.array([known.index(team) for team in ids[:, 0].tolist()], dtype=np.intp)
    games = []
    for piece in pieces(present, name, _JUMP * RATE, numbered=True):
        detections, ball = spread(frame, points, piece, file), piece.place(present, balls)
        players = line_up(frame, points, teams, piece, file)
        games.append(Game(piece.name, RATE, court, camera, detections, players=players, ball=ball))
    return tuple(games)


def _one_per_frame(stamps: FloatArray) -> tuple[list[int], IntArray]:
    """Return which of the sorted stamps (N,) to keep, one per frame, and the frames they are.

    Steps are rounded one by one, for the clock of a log drifts.
    """
    kept, frames, since = [0], [0], 0.0
    for i, step in enumerate((np.diff(stamps) * (RATE / 1000.0)).tolist(), start=1):
        since += step
        if since > 0.5:
            kept.append(i)
            frames.append(frames[-1] + max(1, round(since)))
            since = 0.0
    return kept, np.array(frames)


def _positions(place: str, moment: list[Any]) -> tuple[FloatArray, FloatArray]:
    """Return the teams and the places of the players, (n, 3), and the ball (2,), in metres; null is missing."""
    for i, row in enumerate(moment[5]):
        if type(row) is not list or len(row) < 4 or not _NUMBERS.issuperset(map(type, row[:4])):
            raise _no_position(place, i, row)
    try:
        rows = np.array([row[:4] for row in moment[5]], dtype=np.float64).reshape(-1, 4)
    except OverflowError:
        raise _no_position(place, 0, moment[5]) from None
    if (far := (np.abs(rows) > MOST).any(axis=1)).any():
        raise _no_position(place, int(far.argmax()), moment[5][far.argmax()])
    metres = (rows[:, 2:] - _MIDDLE) * _FOOT
    is_ball = rows[:, 0] == _BALL
    ball = metres[is_ball][0] if is_ball.any() else np.full(2, np.nan)
    return np.column_stack([rows[:, 0], metres])[~is_ball], ball


def _no_position(place: str, index: int, row: object) -> DataError:
    return DataError(
        f"{place}, position {index}: {quote(row)} is not [team, player, x, y, z] in feet: mend or remove it"
    )
