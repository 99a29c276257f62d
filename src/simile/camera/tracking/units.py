"""What the positions of a file are: lengths from some place, or pixels of a picture."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from simile._common import checks
from simile._common.typing import FloatArray, IntArray
from simile.camera.calibration.files import as_calibration
from simile.camera.calibration.views import Calibration
from simile.camera.sight import Sight
from simile.camera.tracking.frames import Piece, spread
from simile.errors import ArgumentError

METRES = {"metres": 1.0, "feet": 0.3048, "yards": 0.9144, "cm": 0.01}
PIXELS = "pixels"


@dataclass(frozen=True, eq=False)
class Ground:
    """How positions of a file become metres from the middle of the court.

    Parameters
    ----------
    units : str
        One of `METRES`, or "pixels", which are put on the ground by the calibration.
    middle : (x, y)
        Where the middle of the court is, in these units.
    """

    units: str
    middle: tuple[float, float]
    calibration: Calibration | None

    @classmethod
    def of(
        cls, units: str | None, middle: tuple[float, float] | None, calibration: ArrayLike | Calibration | None
    ) -> Ground:
        """Check what was given; metres from the middle where nothing was."""
        usual = "metres" if units is None else units
        if usual not in (*METRES, PIXELS):
            raise ArgumentError(f"units (--units) must be {', '.join(METRES)} or {PIXELS}; got {units!r}")
        made = None if calibration is None else as_calibration(calibration)
        if usual == PIXELS and made is None:
            raise ArgumentError(
                "units (--units) are pixels: say where on the court these are by a matrix (--homography) or a "
                "calibration (--calibration), which `simile camera calibrate` makes"
            )
        if np.shape(origin := (0.0, 0.0) if middle is None else middle) != (2,):
            raise ArgumentError(f"middle (--middle) must be x,y of the middle of the court; got {middle!r}")
        x, y = (checks.number(value, "middle") for value in origin)
        return cls(usual, (x, y), made)

    def to_metres(self, points: FloatArray, frames: IntArray) -> FloatArray:
        """Return points (N, 2), each of a frame (N,) of the recording, in metres."""
        if self.units != PIXELS or self.calibration is None:
            return (points - self.middle) * METRES[self.units]
        return self.calibration.to_court(points, frames)

    def settle(self, pixels: FloatArray, frames: IntArray, rate: float, path: Any) -> Ground:
        """Return the same with a head's latency that is known: estimated from pixels (N, 2) where it was not."""
        if not isinstance(self.calibration, Sight):
            return self
        whole = Piece("", 0, int(frames.max(initial=0)) + 1)
        sight = replace(self.calibration, rate=rate)
        return replace(self, calibration=sight.settle(spread(frames, pixels, whole, path)))
