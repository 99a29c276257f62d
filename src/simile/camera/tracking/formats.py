"""Any file of games that says enough by itself."""

from __future__ import annotations

from simile._common.typing import AnyPath
from simile.camera.courts import Court
from simile.camera.games import Game
from simile.camera.tracking.frames import check_file
from simile.camera.tracking.recordings import load_game
from simile.camera.tracking.sportvu import read_sportvu
from simile.camera.tracking.table import read_detections


def open_games(path: AnyPath, court: Court) -> tuple[Game, ...]:
    """Read games by the suffix of their file: .npz of `save_game`, .json of SportVU, or else a table of detections."""
    file = check_file(path)
    if file.suffix.lower() == ".npz":
        return (load_game(file),)
    if file.suffix.lower() == ".json":
        return read_sportvu(file, court)
    return read_detections(file, court=court)
