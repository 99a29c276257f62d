"""What pages and films show of a game: its cameras, what they see of the ground, and the lines of the court."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from simile._common import checks
from simile._common.typing import FloatArray
from simile.camera.courts import CIRCLES, Court
from simile.camera.games import AXES, Game
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
VIEWS = ("both", "viewfinder", "court")


@dataclass(frozen=True, eq=False)
class Scene:
    """A game and the views of named cameras, (T, 3) each: what both pages and films show, and how."""

    game: Game
    title: str
    views: dict[str, FloatArray]
    axes: tuple[str, ...]
    view: str = "both"
    thirds: bool = True

    @classmethod
    def of(
        cls,
        game: Game,
        cameras: Mapping[str, ArrayLike],
        title: str | None,
        *,
        view: str = "both",
        thirds: bool = True,
    ) -> Scene:
        """Check the cameras and complete their actions to pan, tilt and zoom."""
        if view not in VIEWS:
            raise ArgumentError(f"view must be one of {', '.join(VIEWS)}; got {view!r}")
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
            view,
            thirds,
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

    @property
    def far(self) -> float:
        """How far ahead the ground is shown that a camera sees, in metres."""
        return 1.5 * (self.game.court.length + self.game.court.width)

    def footprint(self, name: str, frame: int) -> FloatArray:
        """Return the corners (n, 2) of what a camera sees of the ground, from the near left; none without a view."""
        return self.game.camera.footprint(*self.views[name][frame], far=self.far)

    @cached_property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """The lowest and the highest value that the curves of each axis have room for."""
        return {axis: _make_room([view[:, AXES.index(axis)] for view in self.views.values()]) for axis in self.axes}


def _check_actions(game: Game, name: str, actions: ArrayLike) -> FloatArray:
    """Check the actions (T, k) of one camera."""
    values = checks.table(actions, f"cameras[{name!r}]", allow_nan=True)
    if len(values) != len(game) or values.shape[1] not in (1, 3):
        raise ArgumentError(
            f"cameras[{name!r}] must have the {len(game)} frames of {game.name!r} and 1 column (pan) or 3 (pan, tilt, "
            f"zoom); got shape {values.shape}"
        )
    return values


def _make_room(curves: list[FloatArray]) -> tuple[float, float]:
    """Return a range with all values of the curves and some air; at least one unit high."""
    values = np.concatenate(curves)
    values = values[np.isfinite(values)]
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
    air = max(0.08 * (high - low), 0.5 - (high - low) / 2.0)
    return low - air, high + air


def markings(court: Court) -> list[FloatArray]:
    """Return the lines of a court as polylines (n, 2) in metres: the main ones for the sports that we know."""
    x, y = court.length / 2.0, court.width / 2.0
    corner = 8.5 if court.name in ("hockey", "nhl") else 0.0
    lines = [_box(-x, -y, x, y, min(corner, x, y)), np.array([[0.0, -y], [0.0, y]])]
    if radius := CIRCLES.get(court.name):
        lines.append(_arc(0.0, 0.0, radius))
    if court.name in ENDS:
        lines += _both_ends(ENDS[court.name](court))
    return lines


def _basket_end(court: Court) -> list[FloatArray]:
    """Return the lines on the right, by the rules of FIBA or the NBA: three-point line, key and basket."""
    x, goal, ours = court.length / 2.0, court.goal, court.name != "nba"
    three, depth, half, circle, charge = (6.75, 5.8, 2.45, 1.8, 1.25) if ours else (7.24, 5.79, 2.44, 1.83, 1.22)
    reach = math.degrees(math.asin(min((court.width / 2.0 - 0.9) / three, 1.0)))
    arc = _arc(goal, 0.0, three, 180.0 - reach, 180.0 + reach)
    board = np.array([[goal + 0.375, -0.9], [goal + 0.375, 0.9]])
    return [
        np.concatenate([[[x, arc[0, 1]]], arc, [[x, arc[-1, 1]]]]),
        _box(x - depth, -half, x, half),
        _arc(x - depth, 0.0, circle, 90.0, 270.0),
        _arc(goal, 0.0, charge, 90.0, 270.0),
        board,
    ]


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


def _rink_end(court: Court) -> list[FloatArray]:
    """Return the lines on the right of a rink: the blue line, the goal line, the crease and the face-off circles."""
    blue, goal = court.length / 2.0 - 22.86, court.goal
    lines = [np.array([[blue, -court.width / 2.0], [blue, court.width / 2.0]]), _arc(goal, 0.0, 1.8, 90.0, 270.0)]
    round_ = 8.5 - min(court.length / 2.0 - goal, 8.5)  # of the boards, before which the goal line ends
    across = court.width / 2.0 - 8.5 + math.sqrt(8.5**2 - round_**2)
    lines.append(np.array([[goal, -across], [goal, across]]))
    return lines + [_arc(goal - 6.0, side * 6.85, 4.5) for side in (-1.0, 1.0)]


def _round_end(court: Court) -> list[FloatArray]:
    """Return the areas on the right that are round about the posts of a goal: of handball, futsal and field hockey."""
    x, post = court.length / 2.0, {"futsal": 1.58, "field-hockey": 1.83}.get(court.name, 1.5)
    lines = [_box(x, -post, x + 1.0, post)]
    for radius in {"handball": (6.0, 9.0), "futsal": (6.0,)}.get(court.name, (14.63,)):
        far = _arc(x, post, radius, 90.0, 180.0)
        area = np.concatenate([far, far[::-1] * [1.0, -1.0]])
        lines.append(area[np.abs(area[:, 1]) <= court.width / 2.0])
    marks = {"handball": (7.0,), "futsal": (6.0, 10.0)}.get(court.name, (6.4,))
    lines += [np.array([[x - mark, -0.5], [x - mark, 0.5]]) for mark in marks]
    if court.name == "field-hockey":
        lines.append(np.array([[x - 22.9, -court.width / 2.0], [x - 22.9, court.width / 2.0]]))
    return lines


def _attack_end(court: Court) -> list[FloatArray]:
    """Return the attack line of volleyball, on the right."""
    return [np.array([[3.0, -court.width / 2.0], [3.0, court.width / 2.0]])]


ENDS: dict[str, Callable[[Court], list[FloatArray]]] = {
    **dict.fromkeys(("basketball", "nba"), _basket_end),
    "soccer": _goal_end,
    **dict.fromkeys(("hockey", "nhl"), _rink_end),
    **dict.fromkeys(("handball", "futsal", "field-hockey"), _round_end),
    "volleyball": _attack_end,
}


def _both_ends(lines: list[FloatArray]) -> list[FloatArray]:
    return [line * [side, 1.0] for side in (1.0, -1.0) for line in lines]


def _box(left: float, low: float, right: float, high: float, corner: float = 0.0) -> FloatArray:
    """Return a rectangle, with round corners where these have a radius."""
    if not corner:
        return np.array([[left, low], [right, low], [right, high], [left, high], [left, low]])
    middles = ((right, low, 270.0), (right, high, 0.0), (left, high, 90.0), (left, low, 180.0))
    parts = [
        _arc(x - math.copysign(corner, x), y - math.copysign(corner, y), corner, turn, turn + 90.0)
        for x, y, turn in middles
    ]
    return np.concatenate([*parts, parts[0][:1]])


def _arc(x: float, y: float, radius: float, begin: float = 0.0, end: float = 360.0) -> FloatArray:
    angle = np.radians(np.linspace(begin, end, 1 + 2 * math.ceil((end - begin) / 12.0)))  # symmetric
    return np.column_stack([x + radius * np.cos(angle), y + radius * np.sin(angle)])
