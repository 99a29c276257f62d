"""MOTChallenge: text without a header, one box per line, in pixels, in metres, or both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from simile._common import checks
from simile._common.typing import AnyPath, FloatArray
from simile.camera.calibration.files import as_calibration
from simile.camera.calibration.views import Calibration
from simile.camera.courts import Court
from simile.camera.games import Game
from simile.camera.geometry import Camera
from simile.camera.sight import Sight
from simile.camera.tracking.frames import MOST, Piece, check_file, pieces, spread
from simile.data.reading.tables import Place, decoding, quote
from simile.data.reading.values import not_a_number, to_number
from simile.errors import ArgumentError, DataError

FIELDS = ("frame", "id", "left", "top", "width", "height", "conf", "x", "y", "z")
_FEWEST = 7  # some trackers write no world coordinates; ground truth since 2016 has a class and a visibility there
_UNKNOWN = -1.0


def read_mot(
    path: AnyPath,
    homography: ArrayLike | Calibration | None = None,
    *,
    court: Court,
    rate: float,
    camera: Camera | None = None,
    confidence: float | None = None,
    gap: float | None = None,
) -> tuple[Game, ...]:
    """Read boxes or tracks in the format of MOTChallenge.

    A line is `frame, id, left, top, width, height, conf, x, y, z`, with -1 for what is unknown; frames count from 1.
    Where the world coordinates x and y are known they are the position, in metres from the middle of the court.
    Otherwise it is the foot of the box, (left + width / 2, top + height), on the ground by the homography. Lines of
    seven to nine values have no world coordinates. Frame 1 of a file is frame 0 of a calibration that moves.

    Parameters
    ----------
    homography : (3, 3) array_like or Calibration, optional
        From pixels (u, v, 1) to metres on the court; or any calibration; of a camera that
        moves, a `Sight` puts every box where it was when the head looked there.
    rate : float
        Frames per second; `seqinfo.ini` beside the file says it.
    camera : Camera, optional
        Beside the court by default.
    confidence : float, optional
        Drop detections with less; an unknown confidence (-1) is kept. In ground truth, 0.5 drops what is to be ignored.
    gap : float, optional
        Begin another game where no detection is for more than this many seconds.
    """
    file = check_file(path)
    rate = checks.number(rate, "rate", above=0.0)
    longest = None if gap is None else checks.number(gap, "gap", above=0.0) * rate
    calibration, table = None if homography is None else as_calibration(homography), _table(file)
    if isinstance(calibration, Sight):
        feet, when = _feet(table), table[:, 0].astype(np.intp) - 1
        sight = replace(calibration, rate=rate)
        calibration = sight.settle(spread(when, feet, Piece(file.stem, 0, int(when.max()) + 1), file))
    points = _points(table, calibration, file)
    if confidence is not None:
        conf = table[:, FIELDS.index("conf")]
        points[(conf != _UNKNOWN) & (conf < checks.number(confidence, "confidence"))] = np.nan
    frames = table[:, 0].astype(np.intp)
    present = np.unique(frames)
    if longest is None and present[0] != 1:
        present = np.concatenate([[1], present])  # the video begins before anybody is seen
    where = camera or Camera.beside(court)
    return tuple(
        Game(piece.name, rate, court, where, spread(frames, points, piece, file))
        for piece in pieces(present, file.stem, longest)
    )


def _table(file: Path) -> FloatArray:
    """Return the values (N, 10); -1 for those at the end that a line has not."""
    rows: list[list[float]] = []
    place = Place(file)
    with decoding(file, "text"):
        lines = file.read_text("utf-8-sig").splitlines()
    for i, line in enumerate(lines):
        if not line.strip():
            continue
        values = _values(line, i, place)
        if len(values) < _FEWEST:
            raise DataError(
                f"{file}: row {i + 1}: {len(values)} values, but at least {_FEWEST} are wanted "
                f"({', '.join(FIELDS)}, separated by commas): mend or remove it"
            )
        if values[0] < 1.0 or values[0] != int(values[0]):
            raise place.error(i, "frame", f"{values[0]:g} is no number of a frame: they count from 1")
        rows.append(values if len(values) == len(FIELDS) else values[:_FEWEST] + [_UNKNOWN] * 3)
    if not rows:
        raise DataError(f"{file}: the file is empty")
    return np.array(rows)


def _values(line: str, row: int, place: Place) -> list[float]:
    texts = line.split(",")[: len(FIELDS)]
    if line.isascii() and "_" not in line:  # what Python takes for numbers is then what we do
        try:
            values = [float(text) for text in texts]
        except ValueError:
            pass
        else:
            if all(-MOST <= value <= MOST for value in values):
                return values
    return [_value(text, row, name, place) for name, text in zip(FIELDS, texts, strict=False)]


def _value(text: str, row: int, name: str, place: Place) -> float:
    try:
        value = to_number(text)
    except ValueError:
        raise place.error(row, name, not_a_number(text)) from None
    if not abs(value) <= MOST:
        raise place.error(row, name, f"{quote(text.strip())} is missing or too large: write -1 for what is unknown")
    return value


def _points(table: FloatArray, calibration: Calibration | None, file: Path) -> FloatArray:
    world = table[:, 7:9].copy()
    unknown = (world == _UNKNOWN).all(axis=1)
    if unknown.any() and calibration is None:
        raise ArgumentError(
            f"homography: {file} has detections without world coordinates (the first of {int(unknown.sum()):,} is in "
            f"frame {table[unknown.argmax(), 0]:.0f}): give the matrix that takes pixels to metres on the court, or a "
            "calibration (--homography, --calibration)"
        )
    if calibration is not None and unknown.any():
        world[unknown] = calibration.to_court(_feet(table)[unknown], table[unknown, 0] - 1.0)
    return world


def _feet(table: FloatArray) -> FloatArray:
    """Return where the boxes stand in the picture."""
    left, top, width, height = table[:, 2:6].T
    return np.column_stack([left + width / 2.0, top + height])
