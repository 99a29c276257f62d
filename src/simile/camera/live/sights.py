"""A picture that the head itself takes: each frame is taken for where the head looked then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from simile._common.typing import FloatArray
from simile.camera.calibration import View
from simile.camera.live.sources import Shot
from simile.camera.sight import PoseLog, Sight


class Through:
    """What a head sees through its own lens while it moves.

    Where it looks is asked with every frame, so that the latest ten seconds are known; a picture is older than what the
    head tells by its latency.

    Parameters
    ----------
    view : View
        The camera, the size of its picture and its distortion; its pose is not used.
    where : callable
        Returns pan, tilt and zoom of the head now, and does not wait; NaN where that is unknown.
    latency : float
        Seconds by which a picture comes later than what the head tells.
    """

    def __init__(self, view: View, where: Callable[[], Sequence[float]], *, latency: float = 0.0) -> None:
        self._where, self._view, self._latency = where, view, latency
        self._sight: Sight | None = None

    def note(self, shot: Shot) -> float:
        """Ask where the head looks now, and return the time of a frame on the same clock, which is our own."""
        pose = [float(axis) for axis in self._where()]
        if np.isfinite(pose).all():
            if self._sight is None:  # frames are seconds
                self._sight = Sight(self._view, PoseLog.of([(shot.came, pose)]), self._latency, rate=1.0)
            elif shot.came > self._sight.log.times[-1]:
                self._sight = replace(self._sight, log=self._sight.log.plus(shot.came, pose))
        return shot.came - shot.decoding

    def to_court(self, pixels: ArrayLike, time: float) -> FloatArray:
        """Return the points of the ground (n, 2) that pixels (n, 2) showed; NaN where the head did not tell."""
        if self._sight is None:
            return np.full(np.shape(pixels), np.nan)
        return self._sight.to_court(pixels, time)
