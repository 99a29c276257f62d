"""What a driver expects of a head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from simile.errors import SimileError


class HeadError(SimileError):
    """A head does not answer, or refuses a command; the message names the head, the command and the way out."""


class Pose(NamedTuple):
    """Where a camera looks, or how fast that changes.

    Parameters
    ----------
    pan, tilt : float
        Degrees (per second); positive pan turns to the right, positive tilt up, as in `simile.camera.geometry.Camera`.
    zoom : float
        Magnification: 1 is the widest view (per second).
    """

    pan: float
    tilt: float
    zoom: float


@runtime_checkable
class Head(Protocol):
    """Something that can be pointed. No method but `where` and `settle` may wait: they are called in a control loop."""

    def move(self, pose: Pose, speed: Pose, *, braking: bool = False) -> None:
        """Be at `pose` now, moving at `speed`; `braking`: only slow down, do not correct the position any more."""

    def stop(self) -> None:
        """Stand still."""

    def poll(self) -> Sequence[HeadError]:
        """Deal with replies that have come; returns what has gone wrong since the last call."""

    def where(self) -> Pose:
        """Ask where the head is; waits for the answer, though not for ever."""

    def settle(self) -> None:
        """Wait until the last command was confirmed, though not for ever."""
