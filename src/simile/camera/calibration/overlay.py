"""Drawing the lines of a court over a picture, to see with one's own eyes whether a calibration is right."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from simile._common.files import read_bytes, write_atomically
from simile._common.needs import need
from simile._common.typing import AnyPath, FloatArray
from simile.camera.calibration.pairs import Pairs
from simile.camera.calibration.views import Calibration, Size
from simile.camera.courts import Court
from simile.camera.film.footage import open_video, read_through
from simile.camera.film.scene import markings
from simile.data.reading.tables import decoding
from simile.errors import ArgumentError, DataError

Picture = npt.NDArray[np.uint8]

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff")
LINE, CLICK = (0, 190, 255), (255, 60, 200)  # blue, green, red
STEP = 0.25  # metres: a lens may bend lines


def trace(calibration: Calibration, court: Court, size: Size, frame: int = 0) -> list[FloatArray]:
    """Return where the lines of a court are in a picture, as polylines (n, 2) in pixels; those far outside are cut."""
    found = []
    for line in markings(court):
        far = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(line, axis=0), axis=1)))
        at = np.union1d(np.linspace(0.0, far[-1], 2 + int(far[-1] / STEP)), far)
        pixels = calibration.to_pixels(np.column_stack([np.interp(at, far, axis) for axis in line.T]), frame)
        near = (np.abs(pixels - np.array(size) / 2.0) < 2.0 * max(size)).all(axis=1)  # and not behind the camera
        parts = zip(*(np.split(array, np.flatnonzero(np.diff(near)) + 1) for array in (pixels, near)), strict=True)
        found += [part for part, inside in parts if inside[0] and len(part) > 1]
    return found


def draw_overlay(
    picture: Picture, calibration: Calibration, court: Court, pairs: Pairs | None = None, *, frame: int = 0
) -> Picture:
    """Return a picture (h, w, 3) with the lines of the court over it, and the points that were clicked."""
    cv2 = need("cv2", "an overlay")
    drawn, wide = picture.copy(), picture.shape[1]
    thick = max(1, round(wide / 900))
    for line in trace(calibration, court, (wide, len(picture)), frame):
        cv2.polylines(drawn, [np.round(line * 8).astype(np.int32)], False, LINE, thick, cv2.LINE_AA, 3)
    for u, v in () if pairs is None else pairs.pixels[pairs.frames == frame]:
        where = (round(u), round(v))
        cv2.drawMarker(drawn, where, CLICK, cv2.MARKER_CROSS, 14 * thick, thick, cv2.LINE_AA)
    return drawn


def read_picture(path: AnyPath, frame: int = 0) -> Picture:
    """Return a picture (h, w, 3) from a file, or the frame of a video, from 0."""
    file = Path(path)
    if not file.is_file():
        raise DataError(f"{file}: there is no such file")
    if file.suffix.lower() in PICTURES:
        cv2 = need("cv2", "a picture")
        with decoding(file, "a picture"):
            data = np.frombuffer(read_bytes(file), np.uint8)
        found = cv2.imdecode(data, cv2.IMREAD_COLOR) if len(data) else None
        if found is None:
            raise DataError(f"{file} cannot be read as a picture: is it whole?")
        return np.asarray(found)
    av = need("av", "a frame of a video")
    with open_video(av, file) as source:
        frames: Any = read_through(av, file, source.decode(source.streams.video[0]))
        one = next(islice(frames, frame, None), None)
    if one is None:
        raise ArgumentError(f"frame {frame} is not in {file}, which is shorter: frames count from 0")
    return np.asarray(one.to_ndarray(format="bgr24"))


def write_picture(picture: Picture, path: AnyPath) -> None:
    """Write a picture to a file, whole or not at all."""
    file = Path(path)
    if file.suffix.lower() not in PICTURES:
        raise ArgumentError(f"a picture must end in {', '.join(PICTURES)}; got {str(file)!r}")
    _, data = need("cv2", "a picture").imencode(file.suffix, picture)
    write_atomically(file, data.tobytes())
