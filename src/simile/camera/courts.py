"""Courts and pitches: metres, with the origin in the middle, x along the length and y across, away from the camera."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simile._common.typing import FloatArray


@dataclass(frozen=True)
class Court:
    """A rectangle on the ground plane with a goal at either end.

    Parameters
    ----------
    name : str
        The sport.
    length, width : float
        Metres along x and y.
    goal : float
        Metres from the middle to either goal or basket, along x.
    """

    name: str
    length: float
    width: float
    goal: float

    @property
    def corners(self) -> FloatArray:
        """The four corners (4, 2), anticlockwise from the near left."""
        x, y = self.length / 2.0, self.width / 2.0
        return np.array([[-x, -y], [x, -y], [x, y], [-x, y]])

    def inside(self, points: FloatArray, margin: float = 0.0) -> npt.NDArray[np.bool_]:
        """Tell which points (..., 2) lie on the court, or at most `margin` metres beside it."""
        far = np.abs(points)
        return np.asarray((far[..., 0] <= self.length / 2.0 + margin) & (far[..., 1] <= self.width / 2.0 + margin))


# The rules of FIBA (baskets 1.575 m inside the line) and the usual size of a FIFA pitch.
BASKETBALL = Court("basketball", 28.0, 15.0, goal=14.0 - 1.575)
SOCCER = Court("soccer", 105.0, 68.0, goal=52.5)
COURTS = {court.name: court for court in (BASKETBALL, SOCCER)}
