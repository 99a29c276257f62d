"""Where in a wide picture a camera looks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from simile._common import checks
from simile._common.typing import FloatArray
from simile.camera.games import Game
from simile.errors import ArgumentError, DataError


@dataclass(frozen=True)
class Panorama:
    """Where in a wide picture a camera with this pan, tilt and zoom would look.

    Every degree is taken to be as many pixels wide and high as any other: `x = width / 2 + (pan - pan0) / fov * width`,
    and alike for tilt, upwards. This is so in equirectangular pictures, nearly so in cylindrical ones (as stitched from
    several cameras), and a rough approximation in the middle of a single wide lens's picture.

    Parameters
    ----------
    fov : float
        Degrees across the whole width of the picture.
    centre : (pan, tilt)
        What the middle of the picture shows, in degrees.
    widest : float
        Horizontal angle of view at zoom 1, in degrees, as in `Camera`.
    still : (tilt, zoom)
        Of a policy that only pans.

    Examples
    --------
    >>> Panorama(fov=120.0, widest=60.0).windows([[0.0], [15.0]], picture=(3840, 1080), size=(1280, 720)).round(1)
    array([[1404.7,  250.2, 2435.3,  829.8],
           [1884.7,  250.2, 2915.3,  829.8]])
    """

    fov: float = 120.0
    centre: tuple[float, float] = (0.0, -20.0)
    widest: float = 60.0
    still: tuple[float, float] = (-20.0, 2.0)

    def __post_init__(self) -> None:
        checks.number(self.fov, "fov", above=0.0, at_most=360.0)
        checks.number(self.widest, "widest", above=0.0, at_most=179.0)
        for name in ("centre", "still"):
            pair = getattr(self, name)
            if np.shape(pair) != (2,):
                raise ArgumentError(f"{name} must be two numbers; got {pair!r}")
            for value in pair:
                checks.number(value, name)
        checks.number(self.still[1], "still (its zoom)", above=0.0)

    @classmethod
    def of(cls, game: Game, fov: float) -> Panorama:
        """Return the panorama that stands in for the camera of a game, and looks where that one does at rest."""
        return cls(fov, (0.0, game.still[0]), game.camera.lens.widest, game.still)

    def windows(self, actions: ArrayLike, picture: tuple[int, int], size: tuple[int, int]) -> FloatArray:
        """Return left, top, right and bottom (T, 4), in pixels and fractions of them, for actions (T, k).

        Windows have the aspect of `size`. One that would leave the `picture` (width, height) is moved inside, and one
        too large for it is made smaller; none is distorted.
        """
        values = checks.table(actions, "actions")
        if values.shape[1] not in (1, 3):
            raise ArgumentError(f"actions must be pan, or pan, tilt and zoom; got {values.shape[1]} columns")
        pan, tilt, zoom = values.T if values.shape[1] == 3 else (values[:, 0], *self.still)
        if np.min(zoom) <= 0.0:
            raise DataError(f"actions: zoom must be > 0; got {np.min(zoom):g}: 1 is the widest view, 2 magnifies twice")
        (across, high), aspect = picture, size[0] / size[1]
        degree = across / self.fov
        angle = 2.0 * np.degrees(np.arctan(np.tan(np.radians(self.widest) / 2.0) / zoom))
        width = np.minimum(angle * degree, min(across, high * aspect)) * np.ones(len(values))
        height = width / aspect
        x = np.clip(across / 2.0 + (pan - self.centre[0]) * degree, width / 2.0, across - width / 2.0)
        y = np.clip(high / 2.0 - (tilt - self.centre[1]) * degree, height / 2.0, high - height / 2.0)
        return np.column_stack([x - width / 2.0, y - height / 2.0, x + width / 2.0, y + height / 2.0])
