"""What stands on and around a court, for pictures in perspective: its floor, lines, goals, boards and stands."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from simile._common.typing import FloatArray
from simile.camera.courts import Court
from simile.camera.film.scene import markings
from simile.camera.geometry import Camera


class Surface(NamedTuple):
    """The colours of a floor, of every second strip of it, of what is beside it and beyond, of its lines and above."""

    floor: str
    strip: str
    apron: str
    beyond: str
    line: str
    above: str


WOOD = Surface("#d9b37c", "#d3ab72", "#8f6f52", "#39363a", "#fffaf0", "#23262c")
GRASS = Surface("#5f9f52", "#589648", "#4d8744", "#55645a", "#f7faf4", "#b9d3e6")
ICE = Surface("#eaf2f7", "#e2ecf3", "#9aa7b2", "#39363a", "#b4586a", "#23262c")
PLAIN = Surface("#a7a79f", "#a0a098", "#8b8b84", "#55585c", "#fafafa", "#c3cdd6")
SURFACES = {
    **dict.fromkeys(("basketball", "nba", "handball", "volleyball", "futsal"), WOOD),
    **dict.fromkeys(("soccer", "field-hockey"), GRASS),
    **dict.fromkeys(("hockey", "nhl"), ICE),
}
SEATS = ("#6d7683", "#5f6874", "#7a8390", "#667481", "#58616d", "#737a85", "#64707c")
BOARDS = ("#2f5d8a", "#e8e6df", "#37424f", "#b9c4cc")
GOALS = {  # half the width, the height and the depth, in metres
    "soccer": (3.66, 2.44, 2.0),
    **dict.fromkeys(("handball", "futsal"), (1.5, 2.0, 1.0)),
    "field-hockey": (1.83, 2.14, 1.2),
    **dict.fromkeys(("hockey", "nhl"), (0.915, 1.22, 1.1)),
}
STRIPS, TIERS = 16, 4


@dataclass(frozen=True, eq=False)
class Shape:
    """Something flat, (n, 3) in metres: filled, or a line where it has a width."""

    points: FloatArray
    colour: str
    width: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return it as the page wants it."""
        return {"points": np.round(self.points, 2).tolist(), "colour": self.colour, "width": self.width}


@dataclass(frozen=True, eq=False)
class Surroundings:
    """What does not move.

    Parameters
    ----------
    above : str
        The colour behind it all.
    ground : list of Shape
        To be drawn in this order, before all that stands on it.
    things : list of list of Shape
        What stands there: to be drawn among the players, the far ones first.
    """

    above: str
    ground: list[Shape]
    things: list[list[Shape]]

    @classmethod
    def of(cls, court: Court, camera: Camera) -> Surroundings:
        """Build what a camera sees around a court; it sees through what it stands behind."""
        surface = SURFACES.get(court.name, PLAIN)
        x, y = court.corners[2]
        apron = min(max(0.12 * court.width, 2.0), 5.0)
        strips = np.linspace(-x, x, STRIPS + 1)
        ground = [
            _floor(-400.0, -400.0, 400.0, 400.0, surface.beyond),
            *_build_stands(court, camera, apron),
            _floor(-x - apron, -y - apron, x + apron, y + apron, surface.apron),
            _floor(-x, -y, x, y, surface.floor),
            *(_floor(*(a, -y, b, y), surface.strip) for a, b in zip(strips[::2], strips[1::2], strict=False)),
        ]
        if court.name in ("basketball", "nba"):
            ground += [_floor(side * x, -2.45, side * (x - 5.8), 2.45, "#b98555") for side in (-1.0, 1.0)]
        wide = 0.06 if court.length < 50.0 else 0.13
        ground += [Shape(_lift(line), surface.line, wide) for line in markings(court)]
        return cls(surface.above, ground, _build_things(court))


def _lift(points: ArrayLike, height: float = 0.0) -> FloatArray:
    flat = np.asarray(points, dtype=np.float64)
    return np.column_stack([flat, np.full(len(flat), height)])


def _floor(left: float, low: float, right: float, high: float, colour: str) -> Shape:
    return Shape(_lift([[left, low], [right, low], [right, high], [left, high]]), colour)


def _build_stands(court: Court, camera: Camera, apron: float) -> list[Shape]:
    """Return boards and rows of seats on the sides that a camera looks at from inside, the farthest side first."""
    size = max(court.width / 25.0, 1.0)  # a stadium is larger than a hall
    sides = []
    for turn, (across, along) in enumerate([(court.width, court.length), (court.length, court.width)] * 2):
        out, way = [((0, 1), (1, 0)), ((1, 0), (0, 1)), ((0, -1), (1, 0)), ((-1, 0), (0, 1))][turn]
        front, half = across / 2.0 + apron, along / 2.0 + apron
        if np.dot(camera.position[:2], out) >= front:
            continue
        columns = np.linspace(-1.0, 1.0, max(round(2.0 * half / (3.5 * size)), 2) + 1)
        rows = [(size * (0.6 + 3.0 * k), size * (0.9 + 1.7 * k)) for k in range(TIERS + 1)]
        shapes = []
        # Boards first, which stand upright; then tiers, which rise and become longer towards the corners.
        for k, ((a, low), (b, high)) in enumerate([((0.0, 0.0), (0.0, 0.9 * size)), *pairwise(rows)]):
            for i, (left, right) in enumerate(pairwise(columns)):
                corners = [(left, a, low), (right, a, low), (right, b, high), (left, b, high)]
                points = [[*np.multiply(way, s * (half + r)) + np.multiply(out, front + r), z] for s, r, z in corners]
                colour = SEATS[(5 * i + 3 * k + i * k + turn) % len(SEATS)] if k else BOARDS[i % len(BOARDS)]
                shapes.append(Shape(np.array(points), colour))
        far = np.linalg.norm(np.multiply(out, front) - camera.position[:2])
        sides.append((float(far), shapes[::-1]))
    return [shape for _, shapes in sorted(sides, key=lambda side: -side[0]) for shape in shapes]


def _build_things(court: Court) -> list[list[Shape]]:
    """Return the baskets, the goals, or the net."""
    if court.name == "volleyball":
        y = court.width / 2.0 + 0.5
        net = np.array([[0.0, -y, 1.43], [0.0, y, 1.43], [0.0, y, 2.43], [0.0, -y, 2.43]])
        posts = np.array([[0.0, -y, 0.0], [0.0, -y, 2.5], [0.0, y, 2.43], [0.0, y, 0.0]])
        return [[Shape(net, "#ffffff70"), Shape(posts, "#f2f2f2", 0.08)]]
    if court.name in ("basketball", "nba"):
        end = _build_basket(court.goal, court.length / 2.0)
    elif court.name in GOALS:
        end = _build_goal(court.goal, *GOALS[court.name])
    else:
        return []
    return [[Shape(s.points * [side, 1.0, 1.0], s.colour, s.width) for s in end] for side in (1.0, -1.0)]


def _build_basket(ring: float, line: float) -> list[Shape]:
    board, angle = ring + 0.375, np.linspace(0.0, 2.0 * np.pi, 13)
    glass = np.array([[board, -0.9, 2.9], [board, 0.9, 2.9], [board, 0.9, 3.95], [board, -0.9, 3.95]])
    post = np.array([[line + 1.3, 0.0, 0.0], [line + 1.3, 0.0, 2.6], [board + 0.05, 0.0, 3.2]])
    hoop = np.column_stack([ring + 0.23 * np.cos(angle), 0.23 * np.sin(angle), np.full(13, 3.05)])
    net = np.array([[ring - 0.22, 0, 3.05], [ring + 0.22, 0, 3.05], [ring + 0.14, 0, 2.6], [ring - 0.14, 0, 2.6]])
    side = net - [ring, 0.0, 0.0]
    across = np.column_stack([np.full(4, ring), side[:, 0], side[:, 2]])
    return [
        Shape(post, "#4c5560", 0.2),
        Shape(glass, "#f3f7fadd"),
        Shape(glass[[0, 1, 2, 3, 0]], "#33414f", 0.06),
        Shape(net, "#ffffffb0"),
        Shape(across, "#ffffffb0"),
        Shape(hoop, "#c8401c", 0.06),
    ]


def _build_goal(line: float, half: float, high: float, deep: float) -> list[Shape]:
    frame = np.array([[line, -half, 0.0], [line, -half, high], [line, half, high], [line, half, 0.0]])
    back = frame + np.outer([deep, 0.4 * deep, 0.4 * deep, deep], [1.0, 0.0, 0.0])
    sides = [np.array([frame[i], frame[j], back[j], back[i]]) for i, j in ((0, 1), (2, 3), (1, 2))]
    nets = [Shape(points, "#ffffff48") for points in (back, *sides)]
    return [*nets, Shape(frame, "#fbfbfb", 0.12)]
