"""Any file of games that says enough by itself."""

from __future__ import annotations

import sys

from simile._common.typing import AnyPath
from simile.camera.courts import Court
from simile.camera.games import Game
from simile.camera.geometry import Camera
from simile.camera.retarget import refilm
from simile.camera.tracking.frames import check_file
from simile.camera.tracking.recordings import load_game
from simile.camera.tracking.sportvu import read_sportvu
from simile.camera.tracking.table import read_detections


def open_games(path: AnyPath, court: Court, *, camera: Camera | None = None) -> tuple[Game, ...]:
    """Read games by the suffix of their file: .npz of `save_game`, .json of SportVU, or else a table of detections.

    Parameters
    ----------
    court : Court
        Where files play that do not say it.
    camera : Camera, optional
        Where the camera stands; by default as the file says, or `Camera.beside` the court. Where a file says another
        place, its operator's actions are re-aimed from there, and stderr says so.
    """
    file = check_file(path)
    if file.suffix.lower() == ".npz":
        game = load_game(file)
        if camera is None or camera == game.camera:
            return (game,)
        done = "" if game.actions is None else "; its operator's actions are re-aimed at the same places from there"
        print(f"{file}: filmed from {game.camera}, taken from {camera}{done}", file=sys.stderr)  # noqa: T201 - as `read`
        return (refilm(game, camera),)
    if file.suffix.lower() == ".json":
        return read_sportvu(file, court, camera=camera)
    return read_detections(file, court=court, camera=camera)
