"""Degrees and zoom factors on one side, the units of a VISCA camera on the other."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simile._common import checks
from simile.errors import ArgumentError

# Degrees per second of the speed steps 1, 2, ..., from the command list of the Sony EVI-D100; later models move alike,
# but publish no table.
PAN_SPEEDS = (
    *(2.0, 2.4, 3.0, 3.7, 4.7, 6.1, 7.4, 9.1, 11.0, 14.0, 18.0, 22.0),
    *(27.0, 34.0, 42.0, 52.0, 65.0, 81.0, 100.0, 125.0, 155.0, 190.0, 240.0, 300.0),
)
TILT_SPEEDS = PAN_SPEEDS[:20]

# Zoom factor and position of a lens of 25 times, as published in the manual of a camera that has one. All optical
# ranges of these cameras end at 4000h.
ZOOM_TABLE = (
    *((1.0, 0x0000), (2.0, 0x1781), (3.0, 0x213B), (4.0, 0x2752), (5.0, 0x2BB3), (6.0, 0x2F03), (7.0, 0x315D)),
    *((8.0, 0x3364), (9.0, 0x34FF), (10.0, 0x362C), (12.0, 0x386A), (14.0, 0x3A20), (16.0, 0x3BBA)),
    *((18.0, 0x3CCB), (20.0, 0x3DF8), (22.0, 0x3ED3), (25.0, 0x4000)),
)

# Units of zoom position per second of the steps 0 to 7. An assumption: a few seconds from end to end at the fastest.
ZOOM_SPEEDS = (250.0, 500.0, 900.0, 1400.0, 2000.0, 2700.0, 3400.0, 4100.0)


@dataclass(frozen=True)
class ViscaUnits:
    """How a camera counts; the defaults are those of Sony's SRG and BRC heads as far as we could find them.

    Pan and tilt are linear, zoom is interpolated in a table. What is outside a range is brought to its end.

    Parameters
    ----------
    pan, tilt : float
        Units per degree, to the right and up; negative for a camera that counts the other way (the BRC-H700 does).
        By default DE00h to 2200h for -170 to 170 degrees, and FC00h to 1200h for -20 to 90 degrees.
    pan_range, tilt_range : (low, high)
        In degrees.
    zoom : sequence of (factor, position)
        Increasing, two or more.
    pan_speeds, tilt_speeds : sequence of float
        Degrees per second of the speed steps 1, 2, ...; increasing, 24 at most.
    zoom_speeds : sequence of float
        Units of position per second of the zoom speeds 0, 1, ...; increasing, 8 at most.

    Examples
    --------
    >>> units = ViscaUnits()
    >>> units.position(170.0, -20.0, 25.0)
    (8704, -1024, 16384)
    >>> units.pan_step(-12.0)
    -9
    """

    pan: float = 51.2
    tilt: float = 51.2
    pan_range: tuple[float, float] = (-170.0, 170.0)
    tilt_range: tuple[float, float] = (-20.0, 90.0)
    zoom: Sequence[tuple[float, int]] = ZOOM_TABLE
    pan_speeds: Sequence[float] = PAN_SPEEDS
    tilt_speeds: Sequence[float] = TILT_SPEEDS
    zoom_speeds: Sequence[float] = ZOOM_SPEEDS

    def __post_init__(self) -> None:
        for name, given in (("pan", self.pan), ("tilt", self.tilt)):
            if checks.number(given, name) == 0.0:
                raise ArgumentError(f"{name} must not be 0 units per degree; the command list of the camera says it")
        for name, low, high, scale in (
            ("pan_range", *self.pan_range, self.pan),
            ("tilt_range", *self.tilt_range, self.tilt),
        ):
            if not low < high or max(abs(low * scale), abs(high * scale)) > 0x7FFF:
                raise ArgumentError(
                    f"{name} must increase and fit into 16 bits; got {(low, high)} at {scale:g} units per degree"
                )
        object.__setattr__(self, "zoom", tuple((float(factor), int(place)) for factor, place in self.zoom))
        _increasing([factor for factor, _ in self.zoom], "zoom factors", least=2)
        _increasing([place for _, place in self.zoom], "zoom positions", least=2, at_most=0xFFFF)
        for name, most in (("pan_speeds", 24), ("tilt_speeds", 24), ("zoom_speeds", 8)):
            object.__setattr__(self, name, tuple(float(speed) for speed in getattr(self, name)))
            _increasing(getattr(self, name), name, least=1, most=most)

    @property
    def zoom_range(self) -> tuple[float, float]:
        """The factors at the ends of the table."""
        return self.zoom[0][0], self.zoom[-1][0]

    def position(self, pan: float, tilt: float, zoom: float) -> tuple[int, int, int]:
        """Return the nearest position in units of the camera."""
        return (
            round(_clip(pan, *self.pan_range) * self.pan),
            round(_clip(tilt, *self.tilt_range) * self.tilt),
            round(float(np.interp(zoom, *self._table()))),
        )

    def degrees(self, pan: int, tilt: int) -> tuple[float, float]:
        """Return pan and tilt of a position in units of the camera."""
        return pan / self.pan, tilt / self.tilt

    def factor(self, position: float) -> float:
        """Return the zoom factor of a zoom position."""
        factors, places = self._table()
        return float(np.interp(position, places, factors))

    def pan_step(self, speed: float) -> int:
        """Return the step nearest to a speed in degrees per second, with its sign; 0 stands still."""
        return nearest_step(speed, self.pan_speeds)

    def tilt_step(self, speed: float) -> int:
        """Return the step nearest to a speed in degrees per second, with its sign; 0 stands still."""
        return nearest_step(speed, self.tilt_speeds)

    def zoom_step(self, speed: float, at: float) -> int:
        """Return the step, -8 to 8, nearest to a speed in factors per second where the zoom factor is `at`."""
        return nearest_step(speed / self._factors_per_unit(at), self.zoom_speeds)

    def speeds(self, pan_step: int, tilt_step: int, zoom_step: int, at: float) -> tuple[float, float, float]:
        """Return the speeds of signed steps, the inverse of `pan_step`, `tilt_step` and `zoom_step`."""
        return (
            speed_of(pan_step, self.pan_speeds),
            speed_of(tilt_step, self.tilt_speeds),
            speed_of(zoom_step, self.zoom_speeds) * self._factors_per_unit(at),
        )

    def _table(self) -> tuple[list[float], list[int]]:
        return [factor for factor, _ in self.zoom], [place for _, place in self.zoom]

    def _factors_per_unit(self, at: float) -> float:
        """Return the slope of the table where the zoom factor is `at`."""
        factors, places = self._table()
        i = min(max(int(np.searchsorted(factors, at, side="right")), 1), len(factors) - 1)
        return float((factors[i] - factors[i - 1]) / (places[i] - places[i - 1]))


def nearest_step(speed: float, table: Sequence[float]) -> int:
    """Return the signed step of a table (that of step 1 first) nearest to a speed; 0 below half the slowest."""
    step = int(np.argmin(np.abs(np.array([0.0, *table]) - abs(speed))))
    return int(math.copysign(step, speed))


def step_above(speed: float, table: Sequence[float]) -> int:
    """Return the slowest step, 1 or more, that is at least as fast as a speed; the fastest where none is."""
    return min(int(np.searchsorted(table, abs(speed))) + 1, len(table))


def speed_of(step: int, table: Sequence[float]) -> float:
    """Return the speed of a signed step."""
    return math.copysign(table[abs(step) - 1], step) if step else 0.0


def _clip(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def _increasing(
    values: Sequence[float], name: str, *, least: int, most: int = 1 << 16, at_most: float = math.inf
) -> None:
    rises = all(a < b for a, b in itertools.pairwise(values))
    if not least <= len(values) <= most or not rises or not (values[0] >= 0 and values[-1] <= at_most):
        raise ArgumentError(
            f"{name} must be {least} or more increasing numbers, not below 0"
            f"{f', {most} at most' if most < 1 << 16 else ''}; got {values!r}"
        )
