"""Any file of games: what it is, and what has to be told of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from simile._common.typing import AnyPath
from simile.camera.calibration.views import Calibration
from simile.camera.courts import BASKETBALL, Court
from simile.camera.games import AXES, Game
from simile.camera.geometry import Camera
from simile.camera.retarget import refilm
from simile.camera.tracking.frames import check_file
from simile.camera.tracking.mot import is_mot, read_mot
from simile.camera.tracking.recordings import load_game
from simile.camera.tracking.soccer import PROVIDERS, read_kloppy
from simile.camera.tracking.sportvu import read_sportvu
from simile.camera.tracking.table import read_detections
from simile.data.reading.formats import suffix_of
from simile.errors import ArgumentError, DataError

# How what is packed is unpacked; text tables with .gz behind their suffix are read as they are.
ARCHIVES = {
    ".7z": "7z x",
    ".zip": "unzip",
    ".rar": "unrar x",
    ".tar": "tar xf",
    ".tgz": "tar xf",
    ".gz": "gunzip -k",
    ".bz2": "bunzip2 -k",
    ".xz": "unxz -k",
    ".zst": "unzstd",
}
# What may be told of each kind of file; the rest they say themselves.
OWN, SPORTVU, MOT, TABLE, SOCCER = (
    "a game that simile wrote",
    "taken for a SportVU log",
    "taken for MOTChallenge text",
    "taken for a table of detections",
    "of a soccer provider",
)
_PLACES = ("rate", "units", "middle", "gap")
TOLD = {
    OWN: (),
    SPORTVU: (),
    MOT: (*_PLACES, "confidence", "operator"),
    TABLE: (*_PLACES, "columns", "operator"),
    SOCCER: ("gap",),
}


def open_games(
    path: AnyPath | Sequence[Any] | Mapping[str, Any],
    court: Court | None = None,
    *,
    camera: Camera | None = None,
    rate: float | None = None,
    columns: Mapping[str, str] | None = None,
    operator: AnyPath | None = None,
    calibration: ArrayLike | Calibration | None = None,
    provider: str | None = None,
    units: str | None = None,
    middle: tuple[float, float] | None = None,
    confidence: float | None = None,
    gap: float | None = None,
    axes: int | None = None,
) -> tuple[Game, ...]:
    """Read games of any kind: .npz of `save_game`, .json of SportVU, MOTChallenge text, a table, or by a provider.

    Parameters
    ----------
    path : path
        Of a provider, several files, as for `read_kloppy`; or in one text: joined by commas, in the order of kloppy's
        loader or as name=file, and by + where one of these is a list.
    court : Court, optional
        Where files play that do not say it: basketball, or the pitch of a provider's data by default.
    camera : Camera, optional
        Where the camera stands; by default as the file says, or `Camera.beside` the court. Where a file says another
        place, its operator's actions are re-aimed from there, and stderr says so.
    rate, columns, operator, calibration, units, middle, confidence, gap
        As for `read_detections` and `read_mot`. What is of no use for a file is refused, but for a calibration.
    provider : str, optional
        Whose soccer data these are; see `read_kloppy`.
    axes : {1, 3}, optional
        How many of the operator's are taken: 1 for his pan, though he also tilts and zooms.
    """
    given = {"rate": rate, "columns": columns, "operator": operator, "units": units, "middle": middle}
    told: dict[str, Any] = {n: v for n, v in {**given, "confidence": confidence, "gap": gap}.items() if v is not None}
    if provider is not None:
        _refuse_spare(told, SOCCER, path)
        return read_kloppy(split_files(path), provider, court=court, camera=camera, **told)
    file = check_file(path)  # type: ignore[arg-type]
    kind = _recognise(file)
    usual = BASKETBALL if court is None else court
    if kind == SPORTVU and told.get("units") == "feet":
        del told["units"]
    _refuse_spare(told, kind, file)
    games: tuple[Game, ...]
    if kind == OWN:
        games = (_take_from(camera, load_game(file), file),)
    elif kind == SPORTVU:
        games = read_sportvu(file, usual, camera=camera)
    elif kind == MOT:
        games = read_mot(file, calibration, court=usual, camera=camera, **told)
    else:
        games = read_detections(file, court=usual, camera=camera, calibration=calibration, **told)
    return games if axes is None else tuple(_take_axes(game, axes) for game in games)


def split_files(path: Any) -> Any:
    """Return the files of a game that one text tells: by name, or in order; others as they are."""
    if not isinstance(path, str) or Path(path).is_file():
        return path
    parts = [part.partition("=") for part in path.split(",")]
    named = {name if equals else str(i): file if equals else name for i, (name, equals, file) in enumerate(parts)}
    files = {
        name: file.split("+") if "+" in file and not Path(file).is_file() else file for name, file in named.items()
    }
    if all(equals for _, equals, _ in parts):
        return files
    if any(equals for _, equals, _ in parts):
        raise ArgumentError(f"path: either all files or none have a name before =; got {path!r}")
    return list(files.values())


def _recognise(file: Path) -> str:
    suffix = file.suffix.lower()
    if suffix in (".npz", ".json"):
        return OWN if suffix == ".npz" else SPORTVU
    try:
        suffix_of(file)
    except ArgumentError:
        if suffix in ARCHIVES:
            raise DataError(
                f"{file} is packed: unpack it by `{ARCHIVES[suffix]} {file.name}`, and read what comes out"
            ) from None
        raise DataError(
            f"{file}: its suffix is not known: read .npz of simile, .json of SportVU, text of MOTChallenge, or tables "
            f"(.csv, .parquet); files of soccer providers need their name (--provider {', '.join(PROVIDERS)})"
        ) from None
    return MOT if suffix in (".txt", ".csv") and is_mot(file) else TABLE


def _refuse_spare(told: Mapping[str, Any], kind: str, path: Any) -> None:
    if spare := next((name for name in told if name not in TOLD[kind]), None):
        shown = os.fspath(path) if isinstance(path, str | os.PathLike) else path
        raise ArgumentError(f"{spare} (--{spare}) is of no use for {shown}, which is {kind}: leave it out")


def _take_from(camera: Camera | None, game: Game, file: Path) -> Game:
    """Return a game from where its camera is said to stand."""
    if camera is None or camera == game.camera:
        return game
    done = "" if game.actions is None else "; its operator's actions are re-aimed at the same places from there"
    print(f"{file}: filmed from {game.camera}, taken from {camera}{done}", file=sys.stderr)  # noqa: T201 - as `read`
    return refilm(game, camera)


def _take_axes(game: Game, axes: int) -> Game:
    if axes not in (1, len(AXES)):
        raise ArgumentError(f"axes (--axes) must be 1 (pan) or 3 (pan, tilt and zoom); got {axes!r}")
    if game.actions is None or game.actions.shape[1] == axes:
        return game
    if axes > game.actions.shape[1]:
        raise DataError(f"axes (--axes): the operator of game {game.name!r} pans only: there are not {axes} to take")
    return replace(game, actions=game.actions[:, :axes])
