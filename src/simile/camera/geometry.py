"""The geometry of a pan-tilt-zoom camera: from the ground to the image and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from simile._common.typing import FloatArray
from simile.camera.courts import Court


@dataclass(frozen=True)
class Camera:
    """A camera on a pan-tilt-zoom head, beside a court.

    Angles are in degrees. Pan 0 looks straight across the court, along y; positive pan turns to positive x. Tilt 0
    is level; negative tilt looks down. Zoom 1 is the widest view, zoom 2 magnifies twice.
    Image coordinates have their origin in the middle of the picture, x to the right and y up; the left and right
    edges are at -1 and 1, the lower and upper ones at -1 / aspect and 1 / aspect.

    Parameters
    ----------
    position : (x, y, z)
        Of the optical centre, in metres.
    widest : float
        Horizontal angle of view at zoom 1.
    aspect : float
        Width of the picture over its height.
    """

    position: tuple[float, float, float]
    widest: float = 60.0
    aspect: float = 16.0 / 9.0

    @classmethod
    def beside(cls, court: Court) -> Camera:
        """Put a camera where the main broadcast camera stands: in the middle, behind the near side line, and high."""
        return cls((0.0, -1.1 * court.width, 0.55 * court.width))

    def half_width(self, zoom: ArrayLike) -> FloatArray:
        """Return the tangent of half the horizontal angle of view."""
        return np.asarray(np.tan(np.radians(self.widest) / 2.0) / np.asarray(zoom, dtype=np.float64))

    def aim(self, ground: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return the pan and tilt (...) that put points of the ground (..., 2) into the middle of the picture."""
        points = np.asarray(ground, dtype=np.float64)
        x, y, z = self.position
        across = points[..., 1] - y
        along = points[..., 0] - x
        return np.degrees(np.arctan2(along, across)), np.degrees(np.arctan2(-z, np.hypot(along, across)))

    def project(self, ground: ArrayLike, pan: ArrayLike, tilt: ArrayLike, zoom: ArrayLike) -> FloatArray:
        """Return where points of the ground (..., 2) are in the picture, (..., 2); NaN behind the camera.

        `pan`, `tilt` and `zoom` are numbers, or arrays that broadcast with the points' leading axes.
        """
        points = np.asarray(ground, dtype=np.float64)
        x, y, z = self.position
        pan, tilt = np.radians(pan), np.radians(tilt)
        along, across, up = points[..., 0] - x, points[..., 1] - y, -z
        right = along * np.cos(pan) - across * np.sin(pan)
        level = along * np.sin(pan) + across * np.cos(pan)
        depth = level * np.cos(tilt) + up * np.sin(tilt)
        height = up * np.cos(tilt) - level * np.sin(tilt)
        scale = np.where(depth > 0.0, depth, np.nan) * self.half_width(zoom)
        return np.stack([right / scale, height / scale], axis=-1)

    def unproject(self, image: ArrayLike, pan: ArrayLike, tilt: ArrayLike, zoom: ArrayLike) -> FloatArray:
        """Return the points of the ground (..., 2) that are seen at image points (..., 2); NaN above the horizon."""
        points = np.asarray(image, dtype=np.float64)
        x, y, z = self.position
        pan, tilt = np.radians(pan), np.radians(tilt)
        half = self.half_width(zoom)
        right, height = points[..., 0] * half, points[..., 1] * half
        level = np.cos(tilt) - height * np.sin(tilt)
        up = np.sin(tilt) + height * np.cos(tilt)
        reach = np.where(up < 0.0, -z / np.where(up < 0.0, up, -1.0), np.nan)
        along = (right * np.cos(pan) + level * np.sin(pan)) * reach
        across = (level * np.cos(pan) - right * np.sin(pan)) * reach
        return np.stack([x + along, y + across], axis=-1)

    def footprint(self, pan: float, tilt: float, zoom: float) -> FloatArray:
        """Return the corners (4, 2) of what the picture shows of the ground, anticlockwise from the near left."""
        high = 1.0 / self.aspect
        corners = np.array([[-1.0, -high], [1.0, -high], [1.0, high], [-1.0, high]])
        return self.unproject(corners, pan, tilt, zoom)
