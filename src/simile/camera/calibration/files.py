"""Calibrations as files: JSON of our own, or a plain matrix as others write it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from simile._common.files import read_text, write_atomically
from simile._common.typing import AnyPath
from simile.camera.calibration.views import Calibration, Homography, Keyframes, View
from simile.data.reading.tables import decoding
from simile.errors import DataError, SimileError

FORMAT = "simile-calibration"
Kept = Homography | View | Keyframes  # what there are files of
LONGEST = 1 << 26  # bytes
MODELS: dict[str, Any] = {kind.MODEL: kind for kind in (Homography, View, Keyframes)}


def save_calibration(calibration: Kept, path: AnyPath, *, about: Mapping[str, Any] | None = None) -> None:
    """Write a calibration to a JSON file, whole or not at all; `about` it, such as its residuals, stands beside it."""
    write_atomically(path, encode_calibration(calibration, about).encode())


def encode_calibration(calibration: Kept, about: Mapping[str, Any] | None = None) -> str:
    """Return the text of a file."""
    held = {"format": FORMAT, "model": calibration.MODEL, **calibration.to_dict()}
    return json.dumps({**held, **({"about": about} if about else {})}, indent=1)


def load_calibration(path: AnyPath) -> Kept:
    """Read a calibration that `save_calibration` wrote, or a homography: a plain (3, 3) matrix from pixels to metres.

    A matrix may be a list of lists in .json, an array in .npy, or three lines of three numbers in any text. No pickle
    is loaded.
    """
    file = Path(path)
    if not file.is_file():
        raise DataError(f"{file}: there is no such file")
    if file.suffix.lower() == ".npy":
        with decoding(file, "an array"):
            held: Any = np.load(file, allow_pickle=False)
    else:
        with decoding(file, "a calibration"):
            text = read_text(file, longest=LONGEST)
            held = json.loads(text) if file.suffix.lower() == ".json" else _read_matrix(text)
    if isinstance(held, dict) and (held.get("format") != FORMAT or str(held.get("model")) not in MODELS):
        raise DataError(
            f'{file} is no calibration: it must say "format": "{FORMAT}" and "model": {" or ".join(MODELS)}: '
            "`simile camera calibrate` writes one"
        )
    try:
        made: Kept = MODELS[held["model"]].from_dict(held) if isinstance(held, dict) else Homography(held)
        return made
    except (SimileError, KeyError, TypeError, AttributeError) as error:
        what = f"it has no {error}" if isinstance(error, KeyError) else error
        raise DataError(f"{file} is no calibration: {what}") from None


def read_about(path: AnyPath) -> dict[str, Any]:
    """Return what stands beside the calibration of a file that `load_calibration` takes."""
    if Path(path).suffix.lower() != ".json":
        return {}
    held = json.loads(read_text(Path(path), longest=LONGEST))
    about = held.get("about") if isinstance(held, dict) else None
    return about if isinstance(about, dict) else {}


def as_calibration(given: ArrayLike | Calibration) -> Calibration:
    """Return a calibration as it is, or the homography of a matrix."""
    return given if isinstance(given, Calibration) else Homography(np.asanyarray(given))


def _read_matrix(text: str) -> list[list[float]]:
    lines = (line.replace(",", " ").replace(";", " ").strip(" []\t") for line in text.splitlines())
    return [[float(value) for value in line.split()] for line in lines if line]
