"""Games as files of our own: one .npz per game, arrays and a line of JSON, no pickle."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from dataclasses import asdict
from typing import Any

import numpy as np

from simile._common.files import open_regular, write_atomically
from simile._common.memory import read_limit
from simile._common.text import size
from simile._common.typing import AnyPath
from simile.camera.courts import Court
from simile.camera.games import Game
from simile.camera.geometry import Camera
from simile.errors import ArgumentError, DataError

ARRAYS = ("detections", "actions", "players", "ball", "possession")
FORMAT = "simile-game"


def save_game(game: Game, path: AnyPath) -> None:
    """Write a game to one .npz file, whole or not at all."""
    about = {
        "format": FORMAT,
        "name": game.name,
        "rate": game.rate,
        "court": asdict(game.court),
        "camera": game.camera.to_dict(),
        "still": game.still,
    }
    arrays = {name: array for name in ARRAYS if (array := getattr(game, name)) is not None}
    # Centimetres and hundredths of a degree are far finer than any detection; half the room of doubles.
    small = {
        name: array.astype(np.float32) if name in ("detections", "players", "ball") else array
        for name, array in arrays.items()
    }
    data = io.BytesIO()
    np.savez_compressed(data, about=np.array(json.dumps(about)), **small)
    write_atomically(path, data.getvalue())


def load_game(path: AnyPath) -> Game:
    """Read a game that `save_game` wrote.

    Raises
    ------
    DataError
        When the file is something else, or damaged.
    """
    try:
        with open_regular(path) as file, np.load(file, allow_pickle=False) as held:
            needed = 2 * sum(member.file_size for member in held.zip.infolist())  # as stored, and in double precision
            if needed > (limit := read_limit(None)):
                raise ValueError(f"it takes {size(needed)} of memory, and may take {size(limit)}")
            arrays = {name: held[name] for name in ARRAYS if name in held}
            about = json.loads(str(held["about"]))
        return _game(about, arrays)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    except (
        ArgumentError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        EOFError,
        zipfile.BadZipFile,
        zlib.error,
        MemoryError,
    ) as error:
        raise DataError(f"{path} is no game that simile wrote: {error}") from None


def _game(about: Any, arrays: dict[str, Any]) -> Game:
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise ValueError("it does not say so")
    court = about["court"]
    whole = {name: a if name == "possession" else a.astype(np.float64) for name, a in arrays.items()}
    if any(not np.issubdtype(a.dtype, np.number) for a in whole.values()):
        raise ValueError("its arrays must be numbers")
    return Game(
        name=str(about["name"]),
        rate=float(about["rate"]),
        court=Court(str(court["name"]), float(court["length"]), float(court["width"]), float(court["goal"])),
        camera=Camera.from_dict(about["camera"]),
        still=(float(about["still"][0]), float(about["still"][1])),
        **whole,
    )
