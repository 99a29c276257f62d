"""A head looks at itself: it turns a little and back, and tells whether it counts as it was said to."""

from __future__ import annotations

import time
from dataclasses import dataclass

from simile.camera.heads.head import HeadError, Pose
from simile.camera.heads.models import MODELS
from simile.camera.heads.onvif_head import OnvifHead
from simile.camera.heads.visca_head import ViscaHead

STEP = 6  # the speed step that is measured: some degrees per second in all tables
RUN_UP, MEASURED = 0.3, 0.4  # seconds of it
ALIKE = 1.5  # speeds within this factor fit
ARRIVED = 0.15  # degrees


@dataclass(frozen=True)
class HeadCheck:
    """What a head did, and which known models count like that.

    Parameters
    ----------
    name : str
        Of the head.
    start : Pose
        Where it was.
    turned, returned : float
        Degrees, as it reports them, of the way there and back; a degree was asked for.
    seconds : float
        Until it said that it had arrived.
    used : float
        Units per degree of pan that were used; 1 for a head that counts in degrees.
    rate : float, optional
        Units per second at the speed step that was measured; None for a head without speed steps.
    fits : tuple of str
        The models that have this rate at this step.
    """

    name: str
    start: Pose
    turned: float
    returned: float
    seconds: float
    used: float
    rate: float | None = None
    fits: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """Whether nothing speaks against the units."""
        fitting = self.rate is None or any(MODELS[name].units.pan == self.used for name in self.fits)
        return fitting and all(abs(abs(way) - 1.0) <= 2.0 * ARRIVED for way in (self.turned, self.returned))

    def __str__(self) -> str:
        pan, tilt, zoom = self.start
        lines = [
            f"{self.name}: pan {pan:.2f}, tilt {tilt:.2f}, zoom {zoom:.2f}",
            f"asked to turn by 1 degree it turned by {abs(self.turned):.2f} within {self.seconds:.1f} s, and back by "
            f"{abs(self.returned):.2f}, as it says",
        ]
        if self.rate is not None:
            known = ", ".join(f"{name} ({MODELS[name].units.pan:g} units per degree)" for name in self.fits)
            lines.append(
                f"at speed step {STEP} it counts {self.rate:.0f} units per second: that fits {known or 'no model'}"
            )
            if not self.fits:
                lines.append(
                    "turn it by an angle that you can see, divide the units by that, and give --head-units pan=..."
                )
            elif not self.good:
                lines.append(f"and not {self.used:g} units per degree, as used: give --model {self.fits[0]}")
        return "\n".join([*lines, "good" if self.good else "NOT GOOD: do not drive with these units"])


def check_head(head: ViscaHead | OnvifHead) -> HeadCheck:
    """Turn a head by a degree and back, and some degrees at a known speed step; takes a few seconds.

    What a head reports after a move to a position is in the same units as the move, and says nothing about degrees:
    the speed does, because no two of the known models count alike at the same step.
    """
    start = head.where()
    way = 1.0 if start.pan <= 0.0 else -1.0
    begin = time.monotonic()
    there = _arrive(head, start._replace(pan=start.pan + way))
    seconds = time.monotonic() - begin - RUN_UP
    back = _arrive(head, start)
    if not isinstance(head, ViscaHead):
        return HeadCheck(head.name, start, there.pan - start.pan, back.pan - there.pan, seconds, 1.0)
    rate = abs(_measure(head, way)) * abs(head.units.pan)
    _arrive(head, start)
    speeds: dict[float, str] = {}
    for name, model in MODELS.items():
        speeds.setdefault(model.units.pan_speeds[STEP - 1] * model.units.pan, name)
    fits = tuple(name for speed, name in speeds.items() if speed / ALIKE <= rate <= speed * ALIKE)
    return HeadCheck(
        head.name, start, there.pan - start.pan, back.pan - there.pan, seconds, abs(head.units.pan), rate, fits
    )


def _arrive(head: ViscaHead | OnvifHead, goal: Pose, timeout: float = 4.0) -> Pose:
    """Go somewhere, and return where the head says it is in the end."""
    head.absolute(*goal)
    until = time.monotonic() + timeout
    while abs(head.where().pan - goal.pan) > ARRIVED and time.monotonic() < until:
        _pause(head, 0.02)
    _pause(head, RUN_UP)  # the last bit of the way
    return head.where()


def _measure(head: ViscaHead, way: float) -> float:
    """Return the degrees per second, in the units that are used, at a speed step."""
    head.velocity(way * head.units.pan_speeds[STEP - 1], 0.0)
    try:
        _pause(head, RUN_UP)
        before, begin = head.where(), time.monotonic()
        _pause(head, MEASURED)
        after, end = head.where(), time.monotonic()
    finally:
        head.stop()
        head.settle()
    return (after.pan - before.pan) / (end - begin)


def _pause(head: ViscaHead | OnvifHead, seconds: float) -> None:
    """Let time pass; raises what goes wrong in it."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for fault in head.poll():
            raise HeadError(str(fault))
        time.sleep(0.01)
