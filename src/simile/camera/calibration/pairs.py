"""Point pairs: where in a picture a known place of the court is seen."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from simile._common import checks
from simile._common.files import read_text
from simile._common.typing import AnyPath, FloatArray, IntArray
from simile.camera.calibration.landmarks import find_landmark
from simile.camera.courts import Court
from simile.data.reading.tables import decoding
from simile.data.reading.values import Place, not_a_number, to_number
from simile.errors import ArgumentError, DataError

COLUMNS = "u, v and x, y (metres), or u, v and name (a landmark of the court); z, frame and name besides, if you like"


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pixels and the points that they show.

    Parameters
    ----------
    pixels : (n, 2) array
        From the upper left corner, to the right and down.
    points : (n, 3) array
        Metres on the court; the third is the height, 0 on the ground.
    names : tuple of str
        What the points are called in messages.
    frames : (n,) array of int
        In which frame each was seen, from 0; all 0 for a camera that stands still.
    """

    pixels: FloatArray
    points: FloatArray
    names: tuple[str, ...]
    frames: IntArray

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, mask: npt.NDArray[np.bool_]) -> Pairs:
        names = tuple(name for name, kept in zip(self.names, mask, strict=True) if kept)
        return Pairs(self.pixels[mask], self.points[mask], names, self.frames[mask])

    @property
    def ground(self) -> npt.NDArray[np.bool_]:
        """Which points lie on the ground."""
        return np.asarray(self.points[:, 2] == 0.0)

    @classmethod
    def of(cls, given: Any, court: Court | None = None) -> Pairs:
        """Take pairs as they are, from a file, or from rows u, v, x, y or u, v, x, y, z."""
        if isinstance(given, Pairs):
            return given
        if isinstance(given, str) or hasattr(given, "__fspath__"):
            return read_pairs(given, court)
        return cls.of_rows(given)

    @classmethod
    def of_rows(cls, rows: ArrayLike) -> Pairs:
        """Take rows u, v, x, y or u, v, x, y, z."""
        table = checks.table(rows, "pairs")
        if table.shape[1] not in (4, 5):
            raise ArgumentError(f"pairs must be rows u, v, x, y, and perhaps z; got {table.shape[1]} columns")
        points = table[:, 2:] if table.shape[1] == 5 else np.column_stack([table[:, 2:], np.zeros(len(table))])
        names = tuple(f"point {i + 1}" for i in range(len(table)))
        return cls(table[:, :2], points, names, np.zeros(len(table), dtype=np.intp))


def read_pairs(path: AnyPath, court: Court | None = None) -> Pairs:
    """Read pairs from a table of text with a header: u, v, and x, y or the name of a landmark of the `court`.

    Other columns that are understood are z, the height in metres; frame, from 0; and name, beside x and y. A row has
    either x and y or a landmark. Whatever else there is, is left out.
    """
    file = Path(path)
    if not file.is_file():
        raise DataError(f"{file}: there is no such file")
    with decoding(file, "point pairs"):
        lines = [line for line in read_text(file, longest=1 << 24).lstrip("\ufeff").splitlines() if line.strip()]
    header = lines[0] if lines else ""
    mark = max(",;\t", key=header.count)
    names = [name.strip().lower() for name in header.split(mark)]
    if not {"u", "v"} <= set(names) or not ({"x", "y"} <= set(names) or "name" in names):
        raise DataError(f"{file}: the header must name {COLUMNS}; got {', '.join(names) or 'nothing'}")
    place = Place(file)
    rows = [
        _row({k: v for k, v in row.items() if k}, i, place, court)
        for i, row in enumerate(csv.DictReader(lines[1:], names, delimiter=mark))
    ]
    if not rows:
        raise DataError(f"{file}: there is no row under the header")
    values = np.array([numbers for numbers, _ in rows])
    return Pairs(values[:, :2], values[:, 2:5], tuple(name for _, name in rows), values[:, 5].astype(np.intp))


def _row(row: dict[str, str | None], i: int, place: Place, court: Court | None) -> tuple[list[float], str]:
    """Return u, v, x, y, z and frame of a row, and its name."""

    def read(column: str, missing: float | None = None) -> float:
        text = (row.get(column) or "").strip()
        if not text and missing is not None:
            return missing
        try:
            value = to_number(text)
        except ValueError:
            raise place.error(i, column, not_a_number(text)) from None
        if not np.isfinite(value):
            raise place.error(i, column, "it is missing: write a number, or remove the row")
        return value

    name = (row.get("name") or "").strip()
    frame = read("frame", 0.0)
    if frame < 0.0 or frame != int(frame):
        raise place.error(i, "frame", f"{frame:g} is no number of a frame: they count from 0")
    if name and not (row.get("x") or "").strip():
        if court is None:
            raise place.error(i, "name", f"{name!r} is a landmark of which court? Say it with --sport (court=...)")
        try:
            point = find_landmark(name, court)
        except DataError as error:
            raise place.error(i, "name", str(error)) from None
    else:
        point = read("x"), read("y"), read("z", 0.0)
    return [read("u"), read("v"), *point, frame], name or f"row {i + 1}"
