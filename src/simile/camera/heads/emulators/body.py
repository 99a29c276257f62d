"""The moving parts of an emulated head: three motors with limits of speed and acceleration, in real time."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from simile._common import checks
from simile.camera.heads.head import Pose
from simile.errors import ArgumentError

STEP = 0.002  # seconds of a step of the motion
LONGEST = 5.0  # seconds that are caught up with at most: what slept longer has stood still
RANGES = ((-170.0, 170.0), (-30.0, 90.0), (1.0, 20.0))


@dataclass
class Motor:
    """One axis: where it is, how fast, and what it was told."""

    at: float
    low: float
    high: float
    acceleration: float
    speed: float = 0.0
    wanted: float = 0.0  # the speed, or the most of it on the way to a target
    target: float | None = None

    def drive(self, speed: float) -> None:
        """Move on at a speed."""
        self.wanted, self.target = speed, None

    def go(self, target: float, speed: float) -> None:
        """Go to a place, at a speed at most, and stay there."""
        self.wanted, self.target = abs(speed), min(max(target, self.low), self.high)

    def advance(self, seconds: float) -> None:
        """Let a short time pass."""
        goal, most = self.wanted, self.acceleration * seconds
        if self.target is not None:
            way = self.target - self.at
            if abs(way) <= max(abs(self.speed) * seconds, 1e-9) and abs(self.speed) <= 2.0 * most:
                self.at, self.speed = self.target, 0.0
                return
            brake = math.sqrt(2.0 * self.acceleration * abs(way)) - most  # what can still be stopped on the way
            goal = math.copysign(max(min(self.wanted, brake), min(self.wanted, abs(way) / seconds, most)), way)
        self.speed += min(max(goal - self.speed, -most), most)
        self.at += self.speed * seconds
        if not self.low <= self.at <= self.high:  # an end stop
            self.at, self.speed = min(max(self.at, self.low), self.high), 0.0


class Body:
    """Pan, tilt and zoom of an emulated head; safe to use from several threads.

    Parameters
    ----------
    pan_range, tilt_range, zoom_range : (low, high)
        Degrees, and zoom factors.
    start : (pan, tilt, zoom)
        Where it looks in the beginning.
    acceleration : float
        Degrees per second squared; the zoom has a tenth of it.
    clock : callable
        Seconds; for tests.

    Examples
    --------
    >>> now = [0.0]
    >>> body = Body(clock=lambda: now[0])
    >>> body.go(10.0, 5.0, 60.0, 60.0)
    >>> now[0] = 2.0
    >>> body.pose
    Pose(pan=10.0, tilt=5.0, zoom=1.0)
    """

    def __init__(
        self,
        *,
        pan_range: tuple[float, float] = RANGES[0],
        tilt_range: tuple[float, float] = RANGES[1],
        zoom_range: tuple[float, float] = RANGES[2],
        start: tuple[float, float, float] = (0.0, 0.0, 1.0),
        acceleration: float = 300.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        hardest = checks.number(acceleration, "acceleration", above=0.0)
        names = ("pan", "tilt", "zoom")
        self._motors = []
        for name, at, (low, high) in zip(names, start, (pan_range, tilt_range, zoom_range), strict=True):
            if not low <= at <= high:
                raise ArgumentError(f"start: {name} {at:g} must be within {name}_range, {low:g} to {high:g}")
            self._motors.append(Motor(at, low, high, hardest / 10.0 if name == "zoom" else hardest))
        self.ranges = (pan_range, tilt_range, zoom_range)
        self._clock, self._now = clock, clock()
        self._lock = threading.Lock()

    @property
    def pose(self) -> Pose:
        """Where the head looks now."""
        with self._lock:
            self._advance()
            return Pose(*(motor.at for motor in self._motors))

    @property
    def moving(self) -> bool:
        """Whether anything moves, or is on its way."""
        with self._lock:
            self._advance()
            return any(m.speed or (m.target is None and m.wanted) or m.target not in (None, m.at) for m in self._motors)

    def drive(self, pan: float, tilt: float) -> None:
        """Turn at speeds in degrees per second."""
        self._tell(0, lambda motor: motor.drive(pan))
        self._tell(1, lambda motor: motor.drive(tilt))

    def go(self, pan: float, tilt: float, pan_speed: float, tilt_speed: float) -> None:
        """Turn to a place, at speeds at most."""
        self._tell(0, lambda motor: motor.go(pan, pan_speed))
        self._tell(1, lambda motor: motor.go(tilt, tilt_speed))

    def zoom(self, speed: float) -> None:
        """Zoom at a speed in factors per second."""
        self._tell(2, lambda motor: motor.drive(speed))

    def zoom_to(self, factor: float, speed: float) -> None:
        """Zoom to a factor, at a speed at most."""
        self._tell(2, lambda motor: motor.go(factor, speed))

    def _tell(self, axis: int, act: Callable[[Motor], None]) -> None:
        with self._lock:
            self._advance()
            act(self._motors[axis])

    def _advance(self) -> None:
        now = self._clock()
        self._now = max(self._now, now - LONGEST)
        while self._now + STEP <= now + 1e-6 * STEP:
            for motor in self._motors:
                motor.advance(STEP)
            self._now += STEP
