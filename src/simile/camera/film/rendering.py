"""A game as a still camera would film it: players as upright figures on a court with its lines, in perspective."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from simile._common.files import replacing
from simile._common.needs import need
from simile._common.typing import AnyPath, FloatArray
from simile.camera.calibration import View
from simile.camera.courts import Court
from simile.camera.film.encoding import Progress, choose_encoder
from simile.camera.film.scene import PALETTES, markings
from simile.camera.games import Game
from simile.camera.geometry import Camera, Lens
from simile.errors import ArgumentError

TALL = 1.85  # metres
WIDEST = 150.0  # degrees that a lens may show without bending lines
FINE = 4  # bits of a pixel behind the point, in which OpenCV draws
STEPS = 0.1  # metres between the points of a line, which a lens may bend


def overview(court: Court, size: tuple[int, int] = (1280, 720), camera: Camera | None = None) -> View:
    """Return the view of a camera that stands still, with a lens that shows the whole court.

    Parameters
    ----------
    camera : Camera, optional
        Where it stands; far behind the near side by default. Its lens does not count.

    Examples
    --------
    >>> from simile.camera.courts import BASKETBALL
    >>> view = overview(BASKETBALL, camera=Camera((9.0, -20.0, 7.0)))
    >>> bool((abs(view.to_pixels(BASKETBALL.corners) - [640, 360]) < [640, 360]).all())
    True
    """
    place = Camera((0.0, -court.length, 0.43 * court.length)) if camera is None else camera
    aspect = size[0] / size[1]
    wide = replace(place, lens=Lens(90.0, aspect))
    pan, tilt = (float(angle) for angle in wide.aim([0.0, -0.06 * court.width]))
    across, up = np.abs(wide.project(court.corners, pan, tilt, 1.0)).T
    lens = Lens(2.0 * math.degrees(math.atan(max(across.max(), aspect * up.max()) / 0.97)), aspect)
    if not lens.widest < WIDEST:  # nor is it NaN, with a corner behind it
        raise ArgumentError(f"camera: no lens shows the whole court from {place}: go farther away, or higher")
    return View(replace(place, lens=lens), size, (pan, tilt, 1.0))


def render_video(game: Game, path: AnyPath, view: View, *, watch: Progress | None = None) -> None:
    """Write what a camera would film of the players of a game, as a video (.mp4 or .gif).

    Parameters
    ----------
    game : Game
        Its players, or else its detections, are drawn.
    path : path
        The video.
    view : View
        The camera, such as an `overview`.
    watch : callable, optional
        Called with the number of frames done and of all frames, after each.
    """
    encode, rate = choose_encoder(path, game.rate)
    Image, drawn = need("PIL.Image", "rendering a game"), Rendering(game.court, view)
    people = game.detections if game.players is None else game.players

    def pictures() -> Iterator[Any]:
        for i, places in enumerate(people):
            yield Image.fromarray(drawn.picture(places, i))
            if watch is not None:
                watch(i + 1, len(people))

    with replacing(path) as file:
        encode(file, pictures(), rate)


class Rendering:
    """Draws pictures of a game.

    Parameters
    ----------
    court : Court
        What is drawn of the ground.
    view : View
        What the camera shows.
    grain : float
        Standard deviation of the noise, in levels of 255.
    seed : int
        Of the noise.
    """

    def __init__(self, court: Court, view: View, *, grain: float = 0.5, seed: int = 0) -> None:
        self.court, self.view = court, view
        self._cv2, rng = need("cv2", "rendering a game", extra="vision"), np.random.default_rng(seed)
        self._ground = self._draw_ground()
        shape = (4, *self._ground.shape)
        self._grain = rng.normal(0.0, grain, shape).round().astype(np.int16)  # drawn once: it is the slowest part

    def picture(self, players: ArrayLike, frame: int = 0) -> npt.NDArray[np.uint8]:
        """Return a picture (H, W, 3), red, green and blue, of players (p, 2); the first half of them is one team."""
        image = self._ground.copy()
        places = np.asarray(players, dtype=np.float64)
        team = np.arange(len(places)) * 2 // max(len(places), 1)
        near = self.view.to_pixels(np.column_stack([places, np.zeros(len(places))]))[:, 1]
        for i in np.argsort(near):  # who is nearer hides others; who is missing comes last
            if np.isfinite(places[i]).all():
                self._draw_player(image, places[i], _colour(PALETTES["light"]["teams"][team[i]]), frame + 7 * int(i))
        noisy = image.astype(np.int16) + self._grain[frame % len(self._grain)]
        return np.asarray(np.clip(noisy, 0, 255).astype(np.uint8))

    def _draw_ground(self) -> Any:
        width, height = self.view.size
        image = np.empty((height, width, 3), np.uint8)
        image[:] = np.linspace(70, 110, height).astype(np.uint8)[:, np.newaxis, np.newaxis]
        corners = self.court.corners * [1.0 + 4.0 / self.court.length, 1.0 + 4.0 / self.court.width]
        edge = self._trace(np.vstack([corners, corners[:1]]))
        self._cv2.fillPoly(image, [edge], (150, 140, 122), lineType=self._cv2.LINE_AA, shift=FINE)
        for line in markings(self.court):
            self._cv2.polylines(image, [self._trace(line)], False, (235, 235, 230), 2, self._cv2.LINE_AA, FINE)
        return image

    def _trace(self, line: FloatArray) -> Any:
        lengths = np.hypot(*np.diff(line, axis=0).T)
        parts = [
            np.linspace(a, b, max(int(n / STEPS), 1), endpoint=False)
            for a, b, n in zip(line[:-1], line[1:], lengths, strict=True)
        ]
        points = np.vstack([*parts, line[-1:]])
        pixels = self.view.to_pixels(np.column_stack([points, np.zeros(len(points))]))
        return _fine(pixels[np.isfinite(pixels).all(axis=1)])

    def _draw_player(self, image: Any, place: FloatArray, colour: tuple[int, int, int], phase: int) -> None:
        heights = np.array([0.0, 0.45, 0.78, 0.87, 1.0]) * TALL  # feet, hips, shoulders, neck, crown
        joints = self.view.to_pixels(np.column_stack([np.tile(place, (5, 1)), heights]))
        if not np.isfinite(joints).all():
            return
        feet, hips, shoulders, neck, crown = joints
        tall = float(np.hypot(*(crown - feet)))
        stride = 0.09 * tall * np.sin(phase / 3.0)
        thick = max(round(0.09 * tall), 1)
        for side in (-1.0, 1.0):
            foot = feet + np.array([side * (0.04 * tall + abs(stride)), -thick / 2.0])  # lines end in half a circle
            self._limb(image, hips + np.array([side * 0.05 * tall, 0.0]), foot, (52, 50, 58), thick)
            hand = hips + np.array([side * (0.14 * tall + abs(stride) / 2.0), 0.0])
            arm = shoulders + np.array([side * 0.1 * tall, 0.0])
            self._limb(image, arm, hand, (196, 150, 120), max(round(0.05 * tall), 1))
        wide, waist = np.array([0.12 * tall, 0.0]), np.array([0.08 * tall, 0.0])
        body = np.array([shoulders - wide, shoulders + wide, hips + waist, hips - waist])
        self._cv2.fillConvexPoly(image, _fine(body), colour, self._cv2.LINE_AA, FINE)
        radius = int(max(float(np.hypot(*(crown - neck))) / 2.0, 1.0) * 2**FINE)
        middle = _fine(((neck + crown) / 2.0)[np.newaxis])[0]
        self._cv2.circle(image, tuple(int(v) for v in middle), radius, (204, 160, 130), -1, self._cv2.LINE_AA, FINE)

    def _limb(self, image: Any, a: FloatArray, b: FloatArray, colour: tuple[int, int, int], thick: int) -> None:
        begin, end = (tuple(int(v) for v in point) for point in _fine(np.array([a, b])))
        self._cv2.line(image, begin, end, colour, thick, self._cv2.LINE_AA, FINE)


def _fine(pixels: FloatArray) -> Any:
    """Return pixels as OpenCV wants them, where fractions count."""
    return np.rint(np.clip(pixels, -1e4, 1e4) * 2**FINE).astype(np.int32)


def _colour(code: Any) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(str(code)[1:])
    return red, green, blue
