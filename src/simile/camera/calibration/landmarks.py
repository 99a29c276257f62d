"""The landmarks of courts: places that anybody finds in a picture, by name."""

from __future__ import annotations

import math
import re

from simile.camera.courts import CIRCLES, Court
from simile.errors import DataError

Point = tuple[float, float, float]

# At either end: metres before the goal line or base line, metres beside the middle, and metres of height. Those beside
# the middle are there twice, near and far; those at the side line are as far from it as that.
_SIDE = math.inf
ENDS: dict[str, dict[str, Point]] = {
    "basketball": {
        "key": (5.8, 2.45, 0.0),
        "key base line": (0.0, 2.45, 0.0),
        "three-point base line": (0.0, 6.6, 0.0),
        "three-point top": (8.325, 0.0, 0.0),
        "ring": (1.575, 0.0, 3.05),
    },
    "nba": {
        "key": (5.791, 2.438, 0.0),
        "key base line": (0.0, 2.438, 0.0),
        "three-point base line": (0.0, 6.706, 0.0),
        "three-point top": (8.839, 0.0, 0.0),
        "ring": (1.6, 0.0, 3.05),
    },
    "soccer": {
        "penalty area": (16.5, 20.16, 0.0),
        "penalty area goal line": (0.0, 20.16, 0.0),
        "goal area": (5.5, 9.16, 0.0),
        "goal area goal line": (0.0, 9.16, 0.0),
        "penalty arc": (16.5, 7.312, 0.0),
        "penalty spot": (11.0, 0.0, 0.0),
        "post": (0.0, 3.66, 0.0),
        "crossbar": (0.0, 3.66, 2.44),
    },
    "futsal": {
        "penalty area": (6.0, 1.58, 0.0),
        "penalty area goal line": (0.0, 7.58, 0.0),
        "penalty spot": (6.0, 0.0, 0.0),
        "second penalty spot": (10.0, 0.0, 0.0),
        "post": (0.0, 1.5, 0.0),
        "crossbar": (0.0, 1.5, 2.0),
    },
    "handball": {
        "goal area": (6.0, 1.5, 0.0),
        "goal area goal line": (0.0, 7.5, 0.0),
        "seven-metre line": (7.0, 0.5, 0.0),
        "post": (0.0, 1.5, 0.0),
        "crossbar": (0.0, 1.5, 2.0),
    },
    "volleyball": {"attack line": (6.0, _SIDE, 0.0)},
    "hockey": {
        "blue line": (22.86, _SIDE, 0.0),
        "face-off spot": (10.0, 7.0, 0.0),
        "post": (4.0, 0.915, 0.0),
        "crossbar": (4.0, 0.915, 1.22),
    },
    "nhl": {
        "blue line": (22.86, _SIDE, 0.0),
        "face-off spot": (9.449, 6.706, 0.0),
        "post": (3.353, 0.914, 0.0),
        "crossbar": (3.353, 0.914, 1.219),
    },
    "field-hockey": {
        "23-metre line": (22.9, _SIDE, 0.0),
        "circle": (14.63, 1.83, 0.0),
        "circle goal line": (0.0, 16.46, 0.0),
        "penalty spot": (6.4, 0.0, 0.0),
        "post": (0.0, 1.83, 0.0),
        "crossbar": (0.0, 1.83, 2.14),
    },
}
ROUND = ("hockey", "nhl")  # whose corners are


def landmarks(court: Court) -> dict[str, Point]:
    """Return the places (x, y, z) of a court, in metres, that have a name.

    Left and right are as the camera beside the court sees it, near and far from it.

    >>> from simile.camera.courts import BASKETBALL
    >>> landmarks(BASKETBALL)["left near corner"]
    (-14.0, -7.5, 0.0)
    """
    x, y = court.length / 2.0, court.width / 2.0
    found: dict[str, Point] = {
        "near halfway line": (0.0, -y, 0.0),
        "far halfway line": (0.0, y, 0.0),
        "centre": (0.0, 0.0, 0.0),
    }
    if radius := CIRCLES.get(court.name):
        for name, along, across in (("near", 0.0, -1.0), ("far", 0.0, 1.0), ("left", -1.0, 0.0), ("right", 1.0, 0.0)):
            found[f"{name} centre circle"] = (along * radius, across * radius, 0.0)
    corner = {} if court.name in ROUND else {"corner": (0.0, _SIDE, 0.0)}
    for end, sign in (("left", -1.0), ("right", 1.0)):
        for what, (before, beside, height) in {**corner, **ENDS.get(court.name, {})}.items():
            sides = (("near ", -1.0), ("far ", 1.0)) if beside else (("", 1.0),)
            for side, across in sides:
                found[f"{end} {side}{what}"] = (sign * (x - before), across * min(beside, y), height)
    return found


def find_landmark(name: str, court: Court) -> Point:
    """Return the place that a name means, whatever the order of its words."""
    known = landmarks(court)
    for candidate, point in known.items():
        if _words(candidate) == _words(name):
            return point
    raise DataError(
        f"{name!r} is no landmark of a court of {court.name}: write x and y in metres, or one of {', '.join(known)}"
    )


def _words(name: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z0-9]+", name.lower().replace("center", "centre")))
