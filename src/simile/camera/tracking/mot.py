"""MOTChallenge: text without a header, one box per line, in pixels, in metres, or both."""

from __future__ import annotations

from configparser import ConfigParser
from configparser import Error as ConfigError
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from simile._common import checks
from simile._common.files import LONGEST, open_regular, read_text
from simile._common.typing import AnyPath, FloatArray
from simile.camera.calibration.views import Calibration
from simile.camera.courts import Court
from simile.camera.games import AXES, Game
from simile.camera.geometry import Camera
from simile.camera.sight import Sight
from simile.camera.tracking.frames import MOST, check_file, pieces, spread
from simile.camera.tracking.rows import ROLES, Rows, Timeline
from simile.camera.tracking.table import take_actions
from simile.camera.tracking.units import PIXELS, Ground
from simile.data.reading.tables import decoding
from simile.data.reading.values import Place, not_a_number, quote, to_number
from simile.errors import ArgumentError, DataError

FIELDS = ("frame", "id", "left", "top", "width", "height", "conf", "x", "y", "z")
_FEWEST = 7  # some trackers write no world coordinates; ground truth since 2016 has a class and a visibility there
_UNKNOWN = -1.0
_START = 1 << 16  # bytes in which the first line must be


def read_mot(
    path: AnyPath,
    homography: ArrayLike | Calibration | None = None,
    *,
    court: Court,
    rate: float | None = None,
    camera: Camera | None = None,
    units: str | None = None,
    middle: tuple[float, float] | None = None,
    confidence: float | None = None,
    gap: float | None = None,
    operator: AnyPath | None = None,
) -> tuple[Game, ...]:
    """Read boxes or tracks in the format of MOTChallenge.

    A line is `frame, id, left, top, width, height, conf, x, y, z`, with -1 for what is unknown; frames count from 1.
    Where the world coordinates x and y are known they are the position, in `units` from the middle of the court.
    Otherwise it is the foot of the box, (left + width / 2, top + height), on the ground by the homography. Lines of
    seven to nine values have no world coordinates. Frame 1 of a file is frame 0 of a calibration that moves.

    Parameters
    ----------
    homography : (3, 3) array_like or Calibration, optional
        From pixels (u, v, 1) to metres on the court; or any calibration; of a camera that moves, a `Sight` puts every
        box where it was when the head looked there, and the head's poses are the operator's actions.
    rate : float, optional
        Frames per second; by default as `seqinfo.ini` says, beside the file or its folder.
    camera : Camera, optional
        Beside the court by default.
    units : str, optional
        Of the world coordinates: "metres" by default, "feet", "yards", "cm"; "pixels" leaves them and takes the boxes.
    middle : (x, y), optional
        Where the middle of the court is in these units; (0, 0) by default.
    confidence : float, optional
        Drop detections with less; an unknown confidence (-1) is kept. In ground truth, 0.5 drops what is to be ignored.
    gap : float, optional
        Begin another game where no detection is for more than this many seconds.
    operator : path, optional
        A table, as for `read_detections`: `pan`, or `pan`, `tilt` and `zoom`, in every `frame`, counted from 1 as the
        boxes are, or at every `time` since frame 1. The game then is what it covers.
    """
    file, ground = check_file(path), Ground.of(units, middle, homography)
    rate = _find_rate(file) if rate is None else checks.number(rate, "rate", above=0.0)
    longest = None if gap is None else checks.number(gap, "gap", above=0.0) * rate
    table = _table(file)
    frames = table[:, 0].astype(np.intp)
    ground = ground.settle(_feet(table), frames - 1, rate, file)
    points = _points(table, ground, file)
    if confidence is not None:
        conf = table[:, FIELDS.index("conf")]
        points[(conf != _UNKNOWN) & (conf < checks.number(confidence, "confidence"))] = np.nan
    present = np.unique(frames)
    if longest is None and present[0] != 1:
        present = np.concatenate([[1], present])  # the video begins before anybody is seen
    sight = ground.calibration if isinstance(ground.calibration, Sight) else None
    where = camera or (Camera.beside(court) if sight is None else sight.view.camera)
    if operator is not None:
        rows = Rows.read(
            check_file(operator), ROLES, clocks=("frame", "time"), needed=AXES[:1], optional=AXES[1:], name=file.stem
        )
        name, *others = rows.games
        if others:
            raise DataError(f"{rows.path} has several games, and {file} one: write the operator of each apart")
        line = Timeline.of(rows, name, 1.0 if rows.clock == "frame" else rate)
        began = line.origin if line.numbered else 1.0 + line.origin * rate if rows.when.dtype.kind == "f" else 1.0
        return tuple(
            Game(
                *(piece.name, rate, court, where, spread(frames - round(began), points, piece, file)),
                actions=take_actions(rows, name, line, piece),
            )
            for piece in pieces(np.unique(line.frames(rows)), file.stem, longest)
        )
    return tuple(
        Game(
            *(piece.name, rate, court, where, spread(frames, points, piece, file)),
            actions=None if sight is None else sight.actions(np.arange(piece.first, piece.stop) - 1),
        )
        for piece in pieces(present, file.stem, longest)
    )


def is_mot(file: Path) -> bool:
    """Tell whether a file begins with a line of numbers such as those of MOTChallenge."""
    try:
        with open_regular(file) as opened:
            text = opened.read(_START).decode("utf-8-sig", "ignore")
            line = next((line for line in text.splitlines() if line.strip()), "")
            return len([float(value) for value in line.split(",")]) in range(_FEWEST, len(FIELDS) + 1)
    except (OSError, ValueError):
        return False


def _find_rate(file: Path) -> float:
    """Return the rate that `seqinfo.ini` says, as MOTChallenge lays out its folders."""
    for folder in (file.absolute().parent, file.absolute().parent.parent):
        said = ConfigParser()
        try:
            said.read_string(read_text(folder / "seqinfo.ini", encoding="utf-8-sig"))
            return checks.number(float(said["Sequence"]["frameRate"]), "frameRate", above=0.0)
        except FileNotFoundError:
            continue
        except (ConfigError, KeyError, ValueError, OSError):
            raise DataError(
                f"{folder / 'seqinfo.ini'} does not say the frameRate of its [Sequence]: mend it, or say how many "
                "frames there are a second by rate (--rate)"
            ) from None
    raise ArgumentError(
        f"rate (--rate): {file} counts frames, and no seqinfo.ini is beside it: say how many there are a second"
    )


def _table(file: Path) -> FloatArray:
    """Return the values (N, 10); -1 for those at the end that a line has not."""
    rows: list[list[float]] = []
    place = Place(file)
    with decoding(file, "text"):
        lines = read_text(file, longest=LONGEST, encoding="utf-8-sig").splitlines()
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


def _points(table: FloatArray, ground: Ground, file: Path) -> FloatArray:
    world = table[:, 7:9].copy()
    unknown = (world == _UNKNOWN).all(axis=1) | (ground.units == PIXELS)
    if unknown.any() and ground.calibration is None:
        raise ArgumentError(
            f"homography: {file} has detections without world coordinates (the first of {int(unknown.sum()):,} is in "
            f"frame {table[unknown.argmax(), 0]:.0f}): give the matrix that takes pixels to metres on the court, or a "
            "calibration (--homography, --calibration)"
        )
    frames = table[:, 0].astype(np.intp) - 1
    world[~unknown] = ground.to_metres(world[~unknown], frames[~unknown])
    if unknown.any():
        world[unknown] = replace(ground, units=PIXELS).to_metres(_feet(table)[unknown], frames[unknown])
    return world


def _feet(table: FloatArray) -> FloatArray:
    """Return where the boxes stand in the picture."""
    left, top, width, height = table[:, 2:6].T
    return np.column_stack([left + width / 2.0, top + height])
