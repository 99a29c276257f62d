"""What heads of all kinds share: where a head should be by now, and at what speed it follows a trajectory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from simile.camera.heads.head import Pose

HEADROOM = 1.5  # in absolute mode, how much faster than the trajectory the camera may go to catch up
NEAR, NEAR_ZOOM = 0.1, 0.02  # degrees, and share of a zoom factor: in velocity mode, what is so near has arrived
CREEP = 0.5  # degrees per second: a trajectory that is slower has come to rest
NOWHERE, AT_REST = Pose(math.nan, math.nan, math.nan), Pose(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Reckoning:
    """Where the head was, and what speed it was told since; replaced as a whole, so that other threads may read it."""

    pose: Pose
    speed: Pose
    when: float

    def at(self, now: float) -> Pose:
        """Return where the head should be."""
        return Pose(*(at + speed * (now - self.when) for at, speed in zip(self.pose, self.speed, strict=True)))


def steer(pose: Pose, speed: Pose, here: Sequence[float], gain: float, most: Pose) -> Pose:
    """Return the speed to command: that of the trajectory, and a bounded share of the error where it is known.

    Examples
    --------
    >>> steer(Pose(10.0, 0.0, 1.0), Pose(4.0, 0.0, 0.0), [9.0, 0.0, 1.0], gain=2.0, most=Pose(5.0, 5.0, 0.5))
    Pose(pan=6.0, tilt=0.0, zoom=0.0)
    """
    errors = (0.0 if math.isnan(at) else wanted - at for wanted, at in zip(pose, here, strict=True))
    return Pose(*(s + min(max(gain * e, -m), m) for s, e, m in zip(speed, errors, most, strict=True)))


def unfinished(pose: Pose, speed: Pose, here: Pose) -> tuple[bool, bool]:
    """Tell whether pan and tilt, and whether the zoom, are not where a trajectory has come to rest."""
    turned = max(abs(pose.pan - here.pan), abs(pose.tilt - here.tilt))
    resting = max(abs(speed.pan), abs(speed.tilt)) < CREEP
    return resting and turned > NEAR, not speed.zoom and abs(pose.zoom - here.zoom) > NEAR_ZOOM * pose.zoom
