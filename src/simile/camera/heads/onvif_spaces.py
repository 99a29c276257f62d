"""Degrees and zoom factors on one side, the spaces of an ONVIF camera on the other."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

from simile.camera.heads.head import HeadError, Pose
from simile.errors import ArgumentError

GENERIC = (-1.0, 1.0)
SLOWEST_STOP = 1.0  # seconds without news after which the camera stops by itself, if it lets us choose


@dataclass(frozen=True)
class OnvifUnits:
    """What a camera does not say by itself.

    Parameters
    ----------
    pan_range, tilt_range : (low, high), optional
        The degrees at the ends of the camera's own range, -1 and 1 in its generic space. None takes what a camera says
        that offers spaces in degrees. The other way round (170, -170) for a camera that counts to the left.
    zoom_range : (low, high)
        Zoom factors at 0 and 1; in between they are taken for linear.
    speeds : (pan, tilt, zoom)
        Degrees, and zoom factors, per second at the generic speed 1, where there are no speeds in degrees.
    """

    pan_range: tuple[float, float] | None = None
    tilt_range: tuple[float, float] | None = None
    zoom_range: tuple[float, float] = (1.0, 20.0)
    speeds: tuple[float, float, float] = (100.0, 80.0, 4.0)

    def __post_init__(self) -> None:
        for name in ("pan_range", "tilt_range", "zoom_range"):
            ends = getattr(self, name)
            if ends is not None and (len(ends) != 2 or ends[0] == ends[1]):
                raise ArgumentError(f"{name} must be two different numbers; got {ends!r}")
        if not (0.0 < self.zoom_range[0] < self.zoom_range[1]) or min(self.speeds) <= 0.0:
            raise ArgumentError(
                f"zoom_range must increase, and speeds be above 0; got {self.zoom_range}, {self.speeds}"
            )


@dataclass(frozen=True)
class Axis:
    """A line from degrees (or factors) to a camera's own numbers: low to low_there, high to high_there."""

    low: float
    high: float
    low_there: float
    high_there: float

    def there(self, value: float) -> float:
        """Return the camera's number; what is outside the range is brought to its end."""
        share = (min(max(value, min(self.low, self.high)), max(self.low, self.high)) - self.low) / (
            self.high - self.low
        )
        return self.low_there + share * (self.high_there - self.low_there)

    def here(self, number: float) -> float:
        """Return the degrees of a number of the camera."""
        share = (number - self.low_there) / (self.high_there - self.low_there)
        return self.low + share * (self.high - self.low)


@dataclass(frozen=True)
class OnvifSpaces:
    """The spaces of one camera, as it told them and as `OnvifUnits` completes them."""

    place: str  # the space that positions are told in
    axes: tuple[Axis, Axis]  # pan and tilt in it
    generic: tuple[Axis, Axis]  # and in the generic space, which a camera may report in
    turn: str  # the space that speeds are told in
    fastest: tuple[float, float, float]  # degrees, and zoom factors, per second at most
    scale: tuple[float, float]  # what a degree per second is there, with the sign
    zoom: Axis | None  # None where there is none
    timeout: datetime.timedelta

    @classmethod
    def of(cls, spaces: Any, units: OnvifUnits, name: str, *, limits: Any = None, timeouts: Any = None) -> OnvifSpaces:
        """Choose among the spaces that a camera offers (those of its configuration, or of a PTZNode)."""
        offered = {_kind(s.URI): s for s in spaces.AbsolutePanTiltPositionSpace or ()}
        speeds = {_kind(s.URI): s for s in spaces.ContinuousPanTiltVelocitySpace or ()}
        if "PositionGenericSpace" not in offered and "SphericalPositionSpaceDegrees" not in offered:
            raise HeadError(f"{name} has no absolute positions of pan and tilt ({', '.join(offered) or 'none'})")
        degrees = offered.get("SphericalPositionSpaceDegrees")
        if degrees is None and (units.pan_range is None or units.tilt_range is None):
            raise HeadError(
                f"{name} tells pan and tilt from -1 to 1 and not in degrees: say which degrees these are, "
                "pan_range=(-170, 170), tilt_range=(-30, 90) (--pan-range -170:170 --tilt-range -30:90)"
            )
        told = _both(degrees)
        ends = units.pan_range or told[0], units.tilt_range or told[1]
        signs = tuple(1.0 if low < high else -1.0 for low, high in ends)
        generic = tuple(Axis(low, high, *GENERIC) for low, high in ends)
        chosen = generic
        if degrees is not None:
            near = getattr(limits, "Range", None)
            narrow = told if near is None or _kind(near.URI) != _kind(degrees.URI) else _both(near)
            chosen = tuple(Axis(s * low, s * high, low, high) for (low, high), s in zip(narrow, signs, strict=True))
        quick = speeds.get("VelocitySpaceDegrees")
        most = units.speeds if quick is None else (float(quick.XRange.Max), float(quick.YRange.Max), units.speeds[2])
        scale = tuple(sign if quick is not None else sign / by for sign, by in zip(signs, most, strict=False))
        zooms = spaces.AbsoluteZoomPositionSpace or ()
        best = (degrees or offered["PositionGenericSpace"]).URI
        turn = (quick or speeds["VelocityGenericSpace"]).URI if speeds else ""
        wait = datetime.timedelta(seconds=SLOWEST_STOP)
        if timeouts is not None and timeouts.Min is not None and timeouts.Max is not None:
            wait = min(max(wait, timeouts.Min), timeouts.Max)
        zoom = Axis(*units.zoom_range, *_ends(zooms[0].XRange)) if zooms else None
        return cls(best, chosen, generic, turn, most, scale, zoom, wait)  # type: ignore[arg-type]

    def position(self, pose: Pose) -> dict[str, Any]:
        """Return a PTZVector."""
        pan, tilt = (axis.there(value) for axis, value in zip(self.axes, pose, strict=False))
        vector: dict[str, Any] = {"PanTilt": {"x": pan, "y": tilt, "space": self.place}}
        if self.zoom is not None:
            vector["Zoom"] = {"x": self.zoom.there(pose.zoom)}
        return vector

    def velocity(self, speed: Pose) -> dict[str, Any]:
        """Return a PTZSpeed for a continuous move."""
        x, y = (
            round(min(max(s, -most), most) * scale, 4)
            for s, most, scale in zip(speed, self.fastest, self.scale, strict=False)
        )
        vector: dict[str, Any] = {"PanTilt": {"x": x, "y": y, "space": self.turn}}
        if self.zoom is not None:
            vector["Zoom"] = {"x": round(min(max(speed.zoom / self.fastest[2], -1.0), 1.0), 3)}
        return vector

    def speed(self, speed: float) -> dict[str, Any]:
        """Return a PTZSpeed of an absolute move: a share of the fastest, in the generic space."""
        x, y = (min(max(abs(speed) / most, 0.01), 1.0) for most in self.fastest[:2])
        return {"PanTilt": {"x": x, "y": y, "space": "http://www.onvif.org/ver10/tptz/PanTiltSpaces/GenericSpeedSpace"}}

    def pose(self, position: Any) -> Pose:
        """Read where a camera says that it is."""
        turned, zoomed = position.PanTilt, position.Zoom
        axes = self.axes if (turned.space or self.place) == self.place else self.generic
        zoom = 1.0 if self.zoom is None or zoomed is None else self.zoom.here(float(zoomed.x))
        return Pose(axes[0].here(float(turned.x)), axes[1].here(float(turned.y)), zoom)


def _kind(uri: str) -> str:
    return uri.rpartition("/")[2]


def _both(space: Any) -> tuple[tuple[float, float], tuple[float, float]]:
    return (GENERIC, GENERIC) if space is None else (_ends(space.XRange), _ends(space.YRange))


def _ends(span: Any) -> tuple[float, float]:
    return float(span.Min), float(span.Max)
