"""Where in a wide picture a camera looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from simile._common import checks
from simile._common.typing import FloatArray
from simile.camera.calibration.views import Calibration
from simile.camera.games import Game
from simile.camera.geometry import Camera
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
        pan, tilt, zoom = _complete(actions, self.still)
        (across, high), degree = picture, picture[0] / self.fov
        angle = 2.0 * np.degrees(np.arctan(np.tan(np.radians(self.widest) / 2.0) / zoom))
        x = across / 2.0 + (pan - self.centre[0]) * degree
        y = high / 2.0 - (tilt - self.centre[1]) * degree
        return _place(x, y, angle * degree, picture, size)


@dataclass(frozen=True, eq=False)
class Calibrated:
    """Where in a picture that was calibrated a camera with this pan, tilt and zoom would look.

    What counts is the point of the ground in the middle of its view, and how wide the view is there: so any picture
    will do that shows the court, stitched or not, from wherever it was taken.

    Parameters
    ----------
    calibration : Calibration
        Of the picture to cut from.
    camera : Camera
        Whose pan, tilt and zoom the actions are.
    still : (tilt, zoom)
        Where only pan is given.
    """

    calibration: Calibration
    camera: Camera
    still: tuple[float, float] = (-20.0, 2.0)

    @classmethod
    def of(cls, game: Game, calibration: Calibration) -> Calibrated:
        """Return what stands in for the camera of a game."""
        return cls(calibration, game.camera, game.still)

    def windows(self, actions: ArrayLike, picture: tuple[int, int], size: tuple[int, int]) -> FloatArray:
        """Return left, top, right and bottom (T, 4), as `Panorama.windows` does; actions must look at the ground."""
        pan, tilt, zoom = _complete(actions, self.still)
        beside = 0.01  # of half the width of the view, to either side of its middle
        view = np.array([[0.0, 0.0], [-beside, 0.0], [beside, 0.0]])
        ground = self.camera.unproject(view, *(np.asarray(axis)[..., np.newaxis] for axis in (pan, tilt, zoom)))
        frame = np.arange(len(pan))[:, np.newaxis]
        seen = self.calibration.resized(picture).to_pixels(ground, frame)
        wrong = ~np.isfinite(seen).all(axis=(1, 2))
        if wrong.any():
            t = int(np.argmax(wrong))
            where = "above the horizon" if np.isnan(ground[t]).any() else "where the calibration knows no ground"
            raise DataError(
                f"actions: pan {pan[t]:.1f}, tilt {tilt[t]:.1f} looks {where} in frame {t} ({int(wrong.sum())} such "
                "frames): see whether it is for this camera, or limit the tilt"
            )
        width = np.linalg.norm(seen[:, 2] - seen[:, 1], axis=1) / beside
        return _place(seen[:, 0, 0], seen[:, 0, 1], width, picture, size)


def _complete(actions: ArrayLike, still: tuple[float, float]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the pan, tilt and zoom (T,) of actions (T, k)."""
    values = checks.table(actions, "actions")
    if values.shape[1] not in (1, 3):
        raise ArgumentError(f"actions must be pan, or pan, tilt and zoom; got {values.shape[1]} columns")
    pan, tilt, zoom = np.broadcast_arrays(*(values.T if values.shape[1] == 3 else (values[:, 0], *still)))
    if np.min(zoom) <= 0.0:
        raise DataError(f"actions: zoom must be > 0; got {np.min(zoom):g}: 1 is the widest view, 2 magnifies twice")
    return pan, tilt, zoom


def _place(x: Any, y: Any, width: Any, picture: tuple[int, int], size: tuple[int, int]) -> FloatArray:
    """Return windows (T, 4) around x and y, of the aspect of `size`, moved into the picture and made to fit there."""
    (across, high), aspect = picture, size[0] / size[1]
    width = np.minimum(width, min(across, high * aspect))
    height = width / aspect
    x = np.clip(x, width / 2.0, across - width / 2.0)
    y = np.clip(y, height / 2.0, high - height / 2.0)
    return np.column_stack([x - width / 2.0, y - height / 2.0, x + width / 2.0, y + height / 2.0])
