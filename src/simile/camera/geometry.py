"""The geometry of a pan-tilt-zoom camera: from the ground to the image and back."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from simile._common import checks
from simile._common.files import read_bytes
from simile._common.typing import FloatArray
from simile.camera.courts import Court
from simile.errors import ArgumentError, DataError


class Base(NamedTuple):
    """How the head of a camera is mounted, in degrees; a level one that faces the court by default.

    Parameters
    ----------
    heading : float
        Where pan 0 looks, seen from above: 0 straight across the court, along y, and 90 along x.
    tilt : float
        By how much pan 0, tilt 0 looks above the horizon.
    roll : float
        By how much the base is turned clockwise about that direction, as the camera sees it; 180 hangs upside down.
    """

    heading: float = 0.0
    tilt: float = 0.0
    roll: float = 0.0


class Lens(NamedTuple):
    """What a camera shows at zoom 1.

    Parameters
    ----------
    widest : float
        Horizontal angle of view at zoom 1, in degrees; zoom 2 magnifies twice.
    aspect : float
        Width of the picture over its height.
    """

    widest: float = 60.0
    aspect: float = 16.0 / 9.0

    @classmethod
    def of_focal_length(cls, shortest: float, sensor: tuple[float, float]) -> Lens:
        """Return the lens whose zoom 1 has this focal length, on a sensor of this width and height, in the same unit.

        >>> round(Lens.of_focal_length(4.3, (5.0, 2.8125)).widest, 1)
        60.3
        """
        width, height = (checks.number(side, "sensor", above=0.0) for side in sensor)
        shortest = checks.number(shortest, "shortest", above=0.0)
        return cls(2.0 * math.degrees(math.atan(width / 2.0 / shortest)), width / height)


LEVEL, USUAL = Base(), Lens()
SHOWN = 0.42  # share of the court's length that a camera shows which only pans


@dataclass(frozen=True)
class Camera:
    """A camera on a pan-tilt-zoom head, beside a court.

    Angles are in degrees. Pan 0 looks straight across the court, along y, and positive pan turns to positive x, unless
    the `base` says otherwise. Tilt 0 is level; negative tilt looks down. Zoom 1 is the widest view of the `lens`.
    Image coordinates have their origin in the middle of the picture, x to the right and y up; the left and right
    edges are at -1 and 1, the lower and upper ones at -1 / aspect and 1 / aspect.

    Parameters
    ----------
    position : (x, y, z)
        Of the optical centre, in metres.
    base : (heading, tilt, roll)
        How the head is mounted, see `Base`.
    lens : (widest, aspect)
        See `Lens`.

    Examples
    --------
    >>> camera = Camera((0.0, -20.0, 8.0), base=(10.0, 0.0, 0.0))
    >>> [float(angle.round(6)) for angle in camera.aim([0.0, 0.0])]
    [-10.0, -21.801409]
    """

    position: tuple[float, float, float]
    base: Base = LEVEL
    lens: Lens = USUAL

    def __post_init__(self) -> None:
        for name, kind, n in (("position", tuple, 3), ("base", Base._make, 3), ("lens", Lens._make, 2)):
            given = getattr(self, name)
            if np.shape(given) != (n,):
                raise ArgumentError(f"{name} must be {n} numbers; got {given!r}")
            object.__setattr__(self, name, kind(checks.number(value, name) for value in given))
        checks.number(self.lens.widest, "lens (its widest view)", above=0.0, at_most=179.0)
        checks.number(self.lens.aspect, "lens (its aspect)", above=0.0)

    @classmethod
    def beside(cls, court: Court) -> Camera:
        """Put a camera where the main broadcast camera stands: in the middle, behind the near side line, and high."""
        return cls((0.0, -1.1 * court.width, 0.55 * court.width))

    @classmethod
    def parse(cls, text: str) -> Camera:
        """Return the camera that `--camera` tells: x,y,z in metres, and perhaps its heading; or a JSON file.

        Behind the heading there may be all else: tilt and roll of the base, widest view and aspect of the lens.

        >>> Camera.parse("3, -20, 8, 10").base
        Base(heading=10.0, tilt=0.0, roll=0.0)
        >>> str(Camera.parse("3, -20, 8, 10"))
        '3,-20,8,10'
        """
        if text.lower().endswith(".json"):
            try:
                about = json.loads(read_bytes(text))
            except (OSError, ValueError, RecursionError) as error:
                raise DataError(f"{text} cannot be read as a camera: {error}") from None
            return cls.from_dict(about, text)
        try:
            x, y, z, *more = (float(part) for part in text.split(","))
            return cls((x, y, z), Base(*more[:3]), Lens(*more[3:]))
        except (TypeError, ValueError):
            raise ArgumentError(
                f"camera must be x,y,z in metres, or x,y,z,heading, or a .json file with position, base and lens; "
                f"got {text!r}"
            ) from None

    def __str__(self) -> str:
        values = [*self.position, *self.base, *self.lens]
        usual = [None, None, None, *LEVEL, *USUAL]
        while values[-1] == usual[len(values) - 1]:
            values.pop()
        return ",".join(f"{value:.17g}" if value != round(value, 6) else f"{value:.10g}" for value in values)

    def to_dict(self) -> dict[str, Any]:
        """Return position, base and lens as plain values, for a file or a card."""
        return {"position": list(self.position), "base": self.base._asdict(), "lens": self.lens._asdict()}

    @classmethod
    def from_dict(cls, about: Any, source: str = "camera") -> Camera:
        """Return the camera that `to_dict` told; `source` is named where it is none."""
        try:
            lens = about["lens"] if "lens" in about else {k: about[k] for k in Lens._fields if k in about}
            return cls(tuple(about["position"]), Base(**about.get("base", {})), Lens(**lens))
        except (AttributeError, KeyError, TypeError, ArgumentError) as error:
            raise DataError(
                f'{source} is no camera: {error}: write {{"position": [x, y, z], "base": {{"heading": 0}}, '
                '"lens": {"widest": 60}}, in metres and degrees'
            ) from None

    def facing(self, court: Court, margin: float = 0.0) -> Camera:
        """Return this camera if it stands above the ground, outside a court and faces that; else say what is wrong.

        The pan of a camera that turns its back to the court, or stands upon it, would jump by a whole turn.
        """
        x, y, z = self.position
        corners = court.corners + margin * np.sign(court.corners)
        if not z > 0.0 or court.inside(np.array([x, y]), margin):
            raise ArgumentError(
                f"camera must stand above the ground and outside the {court.name} court, which reaches to x = "
                f"{corners[2, 0]:g} and y = {corners[2, 1]:g} either way; got {self}"
            )
        if np.ptp(self.aim(corners)[0]) >= 180.0:
            raise self.backwards()
        return self

    def backwards(self) -> ArgumentError:
        """Return what to say of a camera that turns its back to the court."""
        x, y, _ = self.position
        return ArgumentError(
            f"camera {self} with heading {self.base.heading:g} has the court behind it: turn it, with a heading of "
            f"{math.degrees(math.atan2(0.0 - x, -y)):.0f}, say"
        )

    def still_view(self, court: Court) -> tuple[float, float]:
        """Return the (tilt, zoom) of a camera that only pans: it looks at a court's middle, shows `SHOWN` of it."""
        _, tilt = self.aim([0.0, 0.0])
        x, y, z = self.position
        shown = 2.0 * float(np.sqrt(x**2 + y**2 + z**2)) * float(self.half_width(1.0))
        return float(tilt), max(1.0, shown / (SHOWN * court.length))

    def gaze(self, pan: ArrayLike, tilt: ArrayLike) -> FloatArray:
        """Return the directions (..., 3), of length 1 along x, y and z, in which the camera looks."""
        pan, tilt = np.radians(pan), np.radians(tilt)
        ways = np.cos(tilt) * np.sin(pan), np.cos(tilt) * np.cos(pan), np.sin(tilt) + 0.0 * pan
        return np.stack(self._turn(*ways, self._back), axis=-1)

    def half_width(self, zoom: ArrayLike) -> FloatArray:
        """Return the tangent of half the horizontal angle of view."""
        return np.asarray(np.tan(np.radians(self.lens.widest) / 2.0) / np.asarray(zoom, dtype=np.float64))

    def aim(self, points: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return the pan and tilt (...) that put points (..., 2) of the ground, or (..., 3), into the middle."""
        along, across, up = self._turn(*self._ways(points), self._axes)
        return np.degrees(np.arctan2(along, across)), np.degrees(np.arctan2(up, np.hypot(along, across)))

    def project(self, points: ArrayLike, pan: ArrayLike, tilt: ArrayLike, zoom: ArrayLike) -> FloatArray:
        """Return where points (..., 2) of the ground, or (..., 3), are in the picture, (..., 2); NaN behind the camera.

        `pan`, `tilt` and `zoom` are numbers, or arrays that broadcast with the points' leading axes.
        """
        right, height, depth = self.locate(points, pan, tilt)
        scale = np.where(depth > 0.0, depth, np.nan) * self.half_width(zoom)
        return np.stack([right / scale, height / scale], axis=-1)

    def locate(self, points: ArrayLike, pan: ArrayLike, tilt: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return how far points (..., 2) of the ground, or (..., 3), are from the lens: to its right, up, and ahead."""
        along, across, up = self._turn(*self._ways(points), self._axes)
        pan, tilt = np.radians(pan), np.radians(tilt)
        level = along * np.sin(pan) + across * np.cos(pan)
        ahead = level * np.cos(tilt) + up * np.sin(tilt)
        return along * np.cos(pan) - across * np.sin(pan), up * np.cos(tilt) - level * np.sin(tilt), ahead

    def unproject(self, image: ArrayLike, pan: ArrayLike, tilt: ArrayLike, zoom: ArrayLike) -> FloatArray:
        """Return the points of the ground (..., 2) that are seen at image points (..., 2); NaN above the horizon."""
        x, y, z = self.position
        ray = self._ray(image, pan, tilt, zoom)
        along, across, up = self._turn(*ray, self._back)
        reach = np.where(up < 0.0, -z / np.where(up < 0.0, up, -1.0), np.nan)
        return np.stack([x + along * reach, y + across * reach], axis=-1)

    def look(self, image: ArrayLike, pan: ArrayLike, tilt: ArrayLike, zoom: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return the pan and tilt (...) that would put what is seen at image points (..., 2) into the middle."""
        along, across, up = self._ray(image, pan, tilt, zoom)
        return np.degrees(np.arctan2(along, across)), np.degrees(np.arctan2(up, np.hypot(along, across)))

    def footprint(self, pan: float, tilt: float, zoom: float, *, far: float | None = None) -> FloatArray:
        """Return the corners (4, 2) of what the picture shows of the ground, anticlockwise from the near left.

        Above the horizon they are NaN; with `far`, what lies farther ahead than so many metres is cut off instead, and
        there are as many corners (n, 2) as are left: none where no ground is seen.
        """
        high = 1.0 / self.lens.aspect
        corners = np.array([[-1.0, -high], [1.0, -high], [1.0, high], [-1.0, high]])
        if far is not None:
            along, across, up = self._turn(*self._ray(corners, pan, tilt, zoom), self._back)
            x, y = self.gaze(pan, tilt)[:2] / max(np.hypot(*self.gaze(pan, tilt)[:2]), 1e-9)
            corners = cut(corners, -far * up - self.position[2] * (along * x + across * y))
        return self.unproject(corners, pan, tilt, zoom)

    def _ray(self, image: ArrayLike, pan: ArrayLike, tilt: ArrayLike, zoom: ArrayLike) -> tuple[Any, Any, Any]:
        """Return the way from the camera to what is seen at image points, along the axes of its base."""
        points = np.asarray(image, dtype=np.float64)
        pan, tilt = np.radians(pan), np.radians(tilt)
        half = self.half_width(zoom)
        right, height = points[..., 0] * half, points[..., 1] * half
        level = np.cos(tilt) - height * np.sin(tilt)
        rise = np.sin(tilt) + height * np.cos(tilt)
        return right * np.cos(pan) + level * np.sin(pan), level * np.cos(pan) - right * np.sin(pan), rise

    def _ways(self, points: ArrayLike) -> tuple[FloatArray, FloatArray, Any]:
        """Return how far points lie from the camera: along x, y and z."""
        given = np.asarray(points, dtype=np.float64)
        x, y, z = self.position
        return given[..., 0] - x, given[..., 1] - y, -z if given.shape[-1] == 2 else given[..., 2] - z

    @cached_property
    def axes(self) -> FloatArray:
        """The directions (3, 3) of right, ahead and up of the base, a row each."""
        (ch, ct, cr), (sh, st, sr) = np.cos(angles := np.radians(self.base)), np.sin(angles)
        ahead = np.array([ct * sh, ct * ch, st])
        right, up = np.array([ch, -sh, 0.0]), np.array([-st * sh, -st * ch, ct])
        # Turned clockwise, what was up goes to the right.
        return np.array([cr * right - sr * up, ahead, sr * right + cr * up])

    @property
    def _axes(self) -> FloatArray | None:
        """As `axes`; None where these are x, y and z."""
        return None if self.base == LEVEL else self.axes

    @property
    def _back(self) -> FloatArray | None:
        """What turns ways along the axes of the base into those along x, y and z."""
        return None if self._axes is None else self._axes.T

    @staticmethod
    def _turn(along: Any, across: Any, up: Any, axes: FloatArray | None) -> tuple[Any, Any, Any]:
        """Return the parts of ways along the axes of the base, or back; as they are where these are the court's."""
        if axes is None:
            return along, across, up
        return tuple(a * along + b * across + c * up for a, b, c in axes)


def cut(polygon: FloatArray, values: FloatArray) -> FloatArray:
    """Return the part (m, k) of a polygon (n, k) in which what has these values (n,) at its corners is not negative.

    >>> cut(np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0]]), np.array([1.0, -1.0, -1.0])).tolist()
    [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]
    """
    sides, kept = values.tolist(), []
    for i, here in enumerate(sides):
        there = sides[i + 1 - len(sides)]
        if here >= 0.0:
            kept.append(polygon[i])
        if (here >= 0.0) != (there >= 0.0):
            kept.append(polygon[i] + here / (here - there) * (polygon[i + 1 - len(sides)] - polygon[i]))
    return np.reshape(np.array(kept), (-1, polygon.shape[1]))
