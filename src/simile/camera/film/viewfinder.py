"""What a camera sees of a game: the court, what stands around it, the players and the ball, as its picture shows them.

The page of `watch` does the same in the browser (`page.html`), from the same tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from simile._common.typing import FloatArray
from simile.camera.film.scene import PALETTES, Scene
from simile.camera.film.surroundings import Surroundings
from simile.camera.geometry import cut

NEAR = 0.3  # metres from the lens: what is nearer is not seen
BESIDE = 1.15  # half-widths from the middle: what is farther is cut off
TALL = 1.8  # metres
STEPS = 1.7  # metres that a player runs in two steps
FAST = 3.0  # metres per second, at which steps are as long as they get
SHADOW, BALL = 0.38, 0.2  # radii in metres; the ball is larger than life
SHADE = "#00000038"
CIRCLE = np.array([[np.cos(angle), np.sin(angle)] for angle in np.arange(16) * np.pi / 8.0])
NEAREST = np.array([NEAR, 0.0, 0.0, 0.0, 0.0])

_TORSO = ((-0.16, 1.5), (0.16, 1.5), (0.27, 1.34), (0.18, 0.86), (-0.18, 0.86), (-0.27, 1.34))
# A figure in parts: colour, thickness (0 fills), and points: to the right, up, and how far they swing with a step.
FIGURE: list[tuple[str, float, list[list[float]]]] = [
    ("skin", 0.16, [[-0.09, 0.7, 0.0], [-0.1, 0.09, -0.3]]),
    ("skin", 0.16, [[0.09, 0.7, 0.0], [0.1, 0.09, 0.3]]),
    ("skin", 0.11, [[-0.21, 1.38, 0.0], [-0.29, 0.92, 0.2]]),
    ("skin", 0.11, [[0.21, 1.38, 0.0], [0.29, 0.92, -0.2]]),
    ("shorts", 0.0, [[-0.17, 0.95, 0.0], [0.17, 0.95, 0.0], [0.22, 0.55, 0.1], [-0.22, 0.55, -0.1]]),
    ("shirt", 0.0, [[x, z, 0.0] for x, z in _TORSO]),
    ("skin", 0.27, [[0.0, 1.665, 0.0], [0.0, 1.665, 0.0]]),
]
SKINS = ["#8a5a3c", "#c68e6a", "#e3b995"]
# The teams differ in how light their shorts are too, for those who see no colours; then who is only detected.
KITS: list[dict[str, str]] = [
    {"shirt": str(PALETTES["light"]["teams"][0]), "shorts": "#123a5c"},
    {"shirt": str(PALETTES["light"]["teams"][1]), "shorts": "#fff4ea"},
    {"shirt": "#565d66", "shorts": "#3b4047"},
]


class Stroke(NamedTuple):
    """A filled shape of the picture, or a line of a width; both in half-widths of the picture, from its middle."""

    points: FloatArray
    colour: str
    width: float = 0.0


class Viewfinder:
    """The picture of a camera, as strokes.

    Parameters
    ----------
    scene : Scene
        A game.
    """

    def __init__(self, scene: Scene) -> None:
        self.scene, self.camera = scene, scene.game.camera
        self.surroundings = Surroundings.of(scene.game.court, self.camera)
        self._shapes = [*self.surroundings.ground, *(s for thing in self.surroundings.things for s in thing)]
        self._points = np.concatenate([shape.points for shape in self._shapes])
        self._first = np.cumsum([0, *(len(shape.points) for shape in self._shapes)])
        known = scene.game.players
        self._figures: FloatArray = scene.game.detections if known is None else known
        count = max(self._figures.shape[1], 1)
        self._kits = [KITS[2 if known is None else 2 * i // count] for i in range(count)]

    def draw(self, frame: int, view: FloatArray) -> Iterator[Stroke]:
        """Return the strokes of one frame at pan, tilt and zoom (3,), the farthest first; none without a view."""
        if not np.isfinite(view).all():
            return
        seen = self._look_around(view)
        for i in range(len(self.surroundings.ground)):
            yield from seen[i][1]
        items, i = [], len(self.surroundings.ground)
        for thing in self.surroundings.things:
            items.append((seen[i][0], [stroke for _, strokes in seen[i : i + len(thing)] for stroke in strokes]))
            i += len(thing)
        figures = self._draw_figures(frame, view)
        for _, shadow, _ in figures:
            yield shadow
        items += [(away, strokes) for away, _, strokes in figures]
        if self.scene.game.ball is not None:
            items += self._draw_ball(self.scene.game.ball[frame], view)
        for _, strokes in sorted(items, key=lambda item: -item[0]):
            yield from strokes

    def find_feet(self, frame: int, view: FloatArray) -> FloatArray:
        """Return where the figures of a frame stand in the picture, (n, 2); NaN who is unknown or behind the camera."""
        return self.camera.project(self._figures[frame], *view)

    def _look_around(self, view: FloatArray) -> list[tuple[float, list[Stroke]]]:
        """Return how far ahead each of the surrounding shapes is, and what is seen of it."""
        half = float(self.camera.half_width(view[2]))
        eye = np.stack(self.camera.locate(self._points, *view[:2]), axis=-1)
        wide, high = BESIDE * half, BESIDE * half / self.camera.lens.aspect
        planes = np.array([[0, 0, 1], [1, 0, wide], [-1, 0, wide], [0, 1, high], [0, -1, high]], dtype=np.float64)
        inside = eye @ planes.T - NEAREST
        beside = np.any(np.maximum.reduceat(inside, self._first[:-1]) < 0.0, axis=1)
        whole = np.all(np.minimum.reduceat(inside, self._first[:-1]) >= 0.0, axis=1)
        found: list[tuple[float, list[Stroke]]] = []
        for i, shape in enumerate(self._shapes):
            points, strokes = eye[self._first[i] : self._first[i + 1]], []
            parts: Any = [points] if whole[i] or not shape.width else np.stack([points[:-1], points[1:]], axis=1)
            for part in () if beside[i] else parts:
                left = part
                for plane, nearest in () if whole[i] else zip(planes, NEAREST, strict=True):
                    left = cut(left, left @ plane - nearest) if len(left) else left
                if len(left):
                    width = shape.width / half / float(left[:, 2].mean())
                    strokes.append(Stroke(left[:, :2] / (half * left[:, 2:]), shape.colour, width))
            found.append((float(points[:, 2].mean()), strokes))
        return found

    def _draw_figures(self, frame: int, view: FloatArray) -> list[tuple[float, Stroke, list[Stroke]]]:
        """Return how far ahead each player is, the shadow and the upright figure; no one beside the picture."""
        places = self._figures[frame]
        scales = 1.0 / (self.camera.half_width(view[2]) * (aways := self.camera.locate(places, *view[:2])[2]))
        feet = self.camera.project(places, *view)
        crowns = self.camera.project(np.insert(places, 2, TALL, axis=1), *view)
        rim = np.insert(places[:, np.newaxis] + SHADOW * CIRCLE, 2, 0.0, axis=2)
        shadows = self.camera.project(rim, *view)
        edge = np.array([BESIDE, BESIDE / self.camera.lens.aspect])
        found = []
        for i, scale in enumerate(scales):
            near = np.abs(feet[i]) < edge + TALL * scale
            if not (near.all() and aways[i] > NEAR and np.isfinite(crowns[i]).all() and np.isfinite(shadows[i]).all()):
                continue
            up = (crowns[i] - feet[i]) / TALL
            right = np.array([up[1], -up[0]]) * scale / max(float(np.hypot(*up)), 1e-9)
            stride, colours = self.strides[frame, i], {**self._kits[i], "skin": SKINS[i % len(SKINS)]}
            strokes = []
            for colour, width, parts in FIGURE:
                x, z, swing = np.array(parts).T[:, :, np.newaxis]
                points = feet[i] + (x + stride * swing) * right + z * up
                strokes.append(Stroke(points, colours[colour], width * float(scale)))
            found.append((float(aways[i]), Stroke(shadows[i], SHADE), strokes))
        return found

    def _draw_ball(self, place: FloatArray, view: FloatArray) -> list[tuple[float, list[Stroke]]]:
        away = float(self.camera.locate(place, *view[:2])[2])
        if not away > NEAR:  # or unknown
            return []
        middle = self.camera.project([[*place, BALL]] * 2, *view)
        size = 2.0 * BALL / (away * float(self.camera.half_width(view[2])))
        strokes = [Stroke(middle, "#2a2115", size), Stroke(middle, str(PALETTES["light"]["ball"]), 0.7 * size)]
        return [(away - 0.5, strokes)]  # held before the body

    @cached_property
    def strides(self) -> FloatArray:
        """How far apart the feet of every figure are, from -1 to 1, (T, n): by the way it has gone, and its speed."""
        if self.scene.game.players is None:  # detections are nobody in particular
            return np.zeros(self._figures.shape[:2])
        moves = np.nan_to_num(np.hypot(*np.moveaxis(np.diff(self._figures, axis=0, prepend=self._figures[:1]), -1, 0)))
        walked = np.cumsum(moves, axis=0)
        reach = max(round(self.scene.game.rate / 5.0), 1)
        speed = (walked - walked[np.maximum(np.arange(len(walked)) - reach, 0)]) * self.scene.game.rate / reach
        return np.asarray(np.minimum(speed / FAST, 1.0) * np.sin(2.0 * np.pi / STEPS * walked))


def to_dict(surroundings: Surroundings) -> dict[str, Any]:
    """Return all tables that the page draws pictures from."""
    return {
        "above": surroundings.above,
        "ground": [shape.to_dict() for shape in surroundings.ground],
        "things": [[shape.to_dict() for shape in thing] for thing in surroundings.things],
        "figure": FIGURE,
        "skins": SKINS,
        "kits": KITS,
        "shadow": (SHADOW * CIRCLE).round(3).tolist(),
        "shade": SHADE,
        "near": NEAR,
        "beside": BESIDE,
        "tall": TALL,
        "steps": STEPS,
        "fast": FAST,
        "ball": BALL,
    }
