"""What pages and films show of a game from above: cameras, what they see, and the lines of the court."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from simile._common import checks
from simile._common.pages import pack
from simile._common.typing import FloatArray
from simile.camera.courts import Court
from simile.camera.games import AXES, Game
from simile.camera.geometry import Camera
from simile.errors import ArgumentError

# The colours of Okabe and Ito, which colour-blind people can tell apart; on dark, those of them that are light.
PALETTES = {
    "light": {
        "cameras": ["#000000", "#e69f00", "#009e73", "#cc79a7", "#56b4e9"],
        "teams": ["#0072b2", "#d55e00"],
        "ball": "#f0e442",
        "marks": "#6b6b6b",
        "lines": "#b5ab98",
        "floor": "#f6f2e9",
        "ink": "#1c1c1c",
    },
    "dark": {
        "cameras": ["#ffffff", "#e69f00", "#009e73", "#cc79a7", "#f0e442"],
        "teams": ["#56b4e9", "#d55e00"],
        "ball": "#f0e442",
        "marks": "#a8a8a8",
        "lines": "#5d6066",
        "floor": "#22252a",
        "ink": "#e8e8e8",
    },
}
UNITS = {"pan": "°", "tilt": "°", "zoom": "×"}  # noqa: RUF001 - a times sign is meant
FINENESS = {"pan": 0.01, "tilt": 0.01, "zoom": 0.001}  # hundredths of a degree
CENTIMETRE = 0.01


@dataclass(frozen=True, eq=False)
class Scene:
    """A game and the views of named cameras, (T, 3) each: what both pages and films show."""

    game: Game
    title: str
    views: dict[str, FloatArray]
    axes: tuple[str, ...]

    @classmethod
    def of(cls, game: Game, cameras: Mapping[str, ArrayLike], title: str | None) -> Scene:
        """Check the cameras and complete their actions to pan, tilt and zoom."""
        if not isinstance(cameras, Mapping) or not cameras:
            raise ArgumentError(f'cameras must map names to actions, such as {{"operator": actions}}; got {cameras!r}')
        if not len(game):
            raise ArgumentError(f"game must have frames; {game.name!r} has none")
        tables = {str(name): _check_actions(game, str(name), actions) for name, actions in cameras.items()}
        axes = AXES if any(actions.shape[1] == 3 for actions in tables.values()) else AXES[:1]
        return cls(
            game,
            str(game.name if title is None else title),
            {name: game.view(actions) for name, actions in tables.items()},
            axes,
        )

    @property
    def area(self) -> tuple[float, float]:
        """Half the length and width, in metres, of what is drawn: the court and what is just beside it."""
        margin = 0.12 * self.game.court.width
        return self.game.court.length / 2.0 + margin, self.game.court.width / 2.0 + margin

    @property
    def radius(self) -> float:
        """Of a player as drawn, in metres: larger than life on a pitch, to be seen at all."""
        return self.game.court.length / 80.0

    @cached_property
    def footprints(self) -> dict[str, FloatArray]:
        """What each camera sees of the ground, (T, 4, 2)."""
        far = 1.5 * (self.game.court.length + self.game.court.width)
        return {name: find_footprints(self.game.camera, view, far) for name, view in self.views.items()}

    @cached_property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """The lowest and the highest value that the curves of each axis have room for."""
        return {axis: _make_room([view[:, AXES.index(axis)] for view in self.views.values()]) for axis in self.axes}

    def to_json(self) -> str:
        """Return all that the page draws, as JSON."""
        game = self.game
        return json.dumps(
            {
                "rate": game.rate,
                "frames": len(game),
                "area": self.area,
                "radius": self.radius,
                "lines": [np.round(line, 2).ravel().tolist() for line in markings(game.court)],
                "palettes": PALETTES,
                "axes": [{"name": axis, "unit": UNITS[axis], "range": self.ranges[axis]} for axis in self.axes],
                "players": None if game.players is None else pack(game.players, CENTIMETRE),
                "ball": None if game.ball is None else pack(game.ball, CENTIMETRE),
                "detections": pack(_sort(game.detections), CENTIMETRE),
                "cameras": [
                    {
                        "name": name,
                        "footprint": pack(self.footprints[name], CENTIMETRE),
                        "curves": [pack(view[:, AXES.index(axis)], FINENESS[axis]) for axis in self.axes],
                    }
                    for name, view in self.views.items()
                ],
            }
        )


def _check_actions(game: Game, name: str, actions: ArrayLike) -> FloatArray:
    """Check the actions (T, k) of one camera."""
    values = checks.table(actions, f"cameras[{name!r}]", allow_nan=True)
    if len(values) != len(game) or values.shape[1] not in (1, 3):
        raise ArgumentError(
            f"cameras[{name!r}] must have the {len(game)} frames of {game.name!r} and 1 column (pan) or 3 (pan, tilt, "
            f"zoom); got shape {values.shape}"
        )
    return values


def find_footprints(camera: Camera, view: FloatArray, far: float) -> FloatArray:
    """Return the corners (T, 4, 2) of what is seen of the ground, up to about `far` metres away; NaN where nothing is.

    As `Camera.footprint`, but a picture that shows the horizon is cut below it.
    """
    pan, tilt, zoom = view.T[:, :, np.newaxis]
    high = 1.0 / camera.lens.aspect
    # The horizon is a level line in the picture, and so is everything that lies `far` away in the direction of view.
    drop = np.arctan2(camera.position[2], far)
    farthest = np.tan(np.radians(-tilt) - drop) / camera.half_width(zoom)
    top = np.where(farthest > -high, np.minimum(high, farthest), np.nan)
    bottom = np.where(np.isnan(top), np.nan, -high)
    sides = np.broadcast_to([-1.0, 1.0, 1.0, -1.0], (len(view), 4))
    image = np.stack([sides, np.concatenate([bottom, bottom, top, top], axis=1)], axis=-1)
    return camera.unproject(image, pan, tilt, zoom)


def _make_room(curves: list[FloatArray]) -> tuple[float, float]:
    """Return a range with all values of the curves and some air; at least one unit high."""
    values = np.concatenate(curves)
    values = values[np.isfinite(values)]
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
    air = max(0.08 * (high - low), 0.5 - (high - low) / 2.0)
    return low - air, high + air


def _sort(detections: FloatArray) -> FloatArray:
    """Order the detections (T, n, 2) of each frame along x: their order means nothing, and so they pack better."""
    order = np.argsort(detections[:, :, :1], axis=1)
    return np.take_along_axis(detections, order, axis=1)


def markings(court: Court) -> list[FloatArray]:
    """Return the lines of a court as polylines (n, 2) in metres: all of them for the sports that we know."""
    x, y = court.length / 2.0, court.width / 2.0
    lines = [_box(-x, -y, x, y), np.array([[0.0, -y], [0.0, y]])]
    if court.name == "basketball":
        lines += [_arc(0.0, 0.0, 1.8), *_both_ends(_basket_end(court))]
    if court.name == "soccer":
        lines += [_arc(0.0, 0.0, 9.15), *_both_ends(_goal_end(court))]
    return lines


def _basket_end(court: Court) -> list[FloatArray]:
    """Return the lines on the right, by the rules of FIBA: the three-point line, the key, and the basket."""
    x, goal, side = court.length / 2.0, court.goal, court.width / 2.0 - 0.9
    reach = math.degrees(math.asin(min(side / 6.75, 1.0)))
    arc = _arc(goal, 0.0, 6.75, 180.0 - reach, 180.0 + reach)
    three = np.concatenate([[[x, arc[0, 1]]], arc, [[x, arc[-1, 1]]]])
    board = np.array([[goal + 0.375, -0.9], [goal + 0.375, 0.9]])
    key = _box(x - 5.8, -2.45, x, 2.45)
    return [three, key, _arc(x - 5.8, 0.0, 1.8, 90.0, 270.0), _arc(goal, 0.0, 1.25, 90.0, 270.0), board]


def _goal_end(court: Court) -> list[FloatArray]:
    """Return the lines on the right, by the laws of the game: the boxes, the arc before them, spot and goal."""
    x = court.length / 2.0
    reach = math.degrees(math.acos(5.5 / 9.15))
    return [
        _box(x - 16.5, -20.16, x, 20.16),
        _box(x - 5.5, -9.16, x, 9.16),
        _box(x, -3.66, x + 2.0, 3.66),
        _arc(x - 11.0, 0.0, 9.15, 180.0 - reach, 180.0 + reach),
        _arc(x - 11.0, 0.0, 0.2),
    ]


def _both_ends(lines: list[FloatArray]) -> list[FloatArray]:
    return [line * [side, 1.0] for side in (1.0, -1.0) for line in lines]


def _box(left: float, low: float, right: float, high: float) -> FloatArray:
    return np.array([[left, low], [right, low], [right, high], [left, high], [left, low]])


def _arc(x: float, y: float, radius: float, begin: float = 0.0, end: float = 360.0) -> FloatArray:
    angle = np.radians(np.linspace(begin, end, 1 + 2 * math.ceil((end - begin) / 12.0)))  # symmetric
    return np.column_stack([x + radius * np.cos(angle), y + radius * np.sin(angle)])
