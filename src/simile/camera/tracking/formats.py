"""Any file of games that says enough by itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from simile._common.typing import AnyPath
from simile.camera.courts import Court
from simile.camera.games import Game
from simile.camera.geometry import Camera
from simile.camera.tracking.frames import check_file
from simile.camera.tracking.recordings import load_game
from simile.camera.tracking.sportvu import read_sportvu
from simile.camera.tracking.table import read_detections
from simile.errors import ArgumentError


def open_games(path: AnyPath, court: Court, *, camera: Camera | None = None) -> tuple[Game, ...]:
    """Read games by the suffix of their file: .npz of `save_game`, .json of SportVU, or else a table of detections.

    Parameters
    ----------
    court : Court
        Where files play that do not say it.
    camera : Camera, optional
        Where the camera stands, whatever the file says; by default as the file says, or `Camera.beside` the court.
    """
    file = check_file(path)
    if file.suffix.lower() == ".npz":
        return (_film_from(load_game(file), camera, file),)
    if file.suffix.lower() == ".json":
        return read_sportvu(file, court, camera=camera)
    return read_detections(file, court=court, camera=camera)


def _film_from(game: Game, camera: Camera | None, file: Path) -> Game:
    """Return a game with another camera; its operator's angles are those of the camera that he had."""
    if camera is None or camera == game.camera:
        return game
    if game.actions is not None:
        raise ArgumentError(
            f"camera: {file} was filmed by an operator at {game.camera.position}, whose angles say nothing at "
            f"{camera.position}: leave the camera out"
        )
    return replace(game, camera=camera)
