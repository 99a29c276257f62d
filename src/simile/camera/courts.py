"""Courts and pitches: metres, with the origin in the middle, x along the length and y across, away from the camera."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simile._common import checks
from simile._common.typing import FloatArray
from simile.errors import ArgumentError


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

    def __post_init__(self) -> None:
        for side in ("length", "width", "goal"):
            checks.number(getattr(self, side), side, above=0.0)

    @classmethod
    def parse(cls, text: str) -> Court:
        """Return the court that `--court` tells: a name, length,width in metres, or name,length,width.

        >>> Court.parse("handball")
        Court(name='handball', length=40.0, width=20.0, goal=20.0)
        >>> str(Court.parse("soccer, 100, 64"))
        'soccer,100,64'
        """
        if (usual := COURTS.get(text.strip().lower())) is not None:
            return usual
        try:
            *names, length, width = (part.strip() for part in text.split(","))
            (name,) = names or ["court"]
            name = name.lower()
            if not any(letter.isalpha() for letter in name):
                raise ValueError
            behind = COURTS[name].length / 2.0 - COURTS[name].goal if name in COURTS else 0.0
            return cls(name, float(length), float(width), goal=float(length) / 2.0 - behind)
        except (ValueError, ArgumentError):
            raise ArgumentError(
                f"court must be {', '.join(COURTS)}, or length,width in metres, or a name with both; got {text!r}"
            ) from None

    def __str__(self) -> str:
        return f"{self.name},{self.length:.10g},{self.width:.10g}"

    @property
    def corners(self) -> FloatArray:
        """The four corners (4, 2), anticlockwise from the near left."""
        x, y = self.length / 2.0, self.width / 2.0
        return np.array([[-x, -y], [x, -y], [x, y], [-x, y]])

    def inside(self, points: FloatArray, margin: float = 0.0) -> npt.NDArray[np.bool_]:
        """Tell which points (..., 2) lie on the court, or at most `margin` metres beside it."""
        far = np.abs(points)
        return np.asarray((far[..., 0] <= self.length / 2.0 + margin) & (far[..., 1] <= self.width / 2.0 + margin))


# By the rules of FIBA and the NBA (baskets 1.575 m and 5.25 feet inside the line), the usual size of a FIFA pitch, the
# rinks of the IIHF and the NHL (goals 4 m and 11 feet before the boards), FIH, IHF, FIVB, and FIFA for futsal.
BASKETBALL = Court("basketball", 28.0, 15.0, goal=14.0 - 1.575)
SOCCER = Court("soccer", 105.0, 68.0, goal=52.5)
COURTS = {
    court.name: court
    for court in (
        BASKETBALL,
        Court("nba", 28.6512, 15.24, goal=12.7254),  # 94 by 50 feet
        SOCCER,
        Court("hockey", 60.0, 30.0, goal=26.0),
        Court("nhl", 60.96, 25.908, goal=27.1272),  # 200 by 85 feet
        Court("field-hockey", 91.4, 55.0, goal=45.7),
        Court("handball", 40.0, 20.0, goal=20.0),
        Court("volleyball", 18.0, 9.0, goal=9.0),
        Court("futsal", 40.0, 20.0, goal=20.0),
    )
}
CIRCLES = {"basketball": 1.8, "nba": 1.83, "soccer": 9.15, "hockey": 4.5, "nhl": 4.57, "futsal": 3.0}  # in the middle
