"""Single pictures of a scene, drawn by pillow."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from simile._common.needs import need
from simile._common.typing import FloatArray, IntArray
from simile.camera.film.scene import PALETTES, UNITS, Scene, markings
from simile.camera.games import AXES

FINER = 2  # pillow draws hard edges: draw this much larger, then shrink
LONGEST_PAGE = 60.0  # seconds of curves shown at a time


class Painter:
    """Draws single frames of a scene.

    Parameters
    ----------
    scene : Scene
        What to draw.
    size : (width, height)
        In pixels.
    """

    def __init__(self, scene: Scene, size: tuple[int, int]) -> None:
        self.scene, self.size = scene, size
        self.colours: Any = PALETTES["light"]
        self._Image = need("PIL.Image", "watch_video")
        self._ImageDraw = need("PIL.ImageDraw", "watch_video")
        self.width, self.height = size[0] * FINER, size[1] * FINER
        self.text = max(self.height / 36.0, 11.0 * FINER)
        self.font = need("PIL.ImageFont", "watch_video").load_default(size=self.text)
        self.stroke = max(round(self.height / 360.0), 1)
        strip = 0.13 if len(scene.axes) == 1 else 0.10
        self.top = 2.2 * self.text
        self.bottom = self.height * (1.0 - strip * len(scene.axes)) - 2.0 * self.text
        half_length, half_width = scene.area
        self.scale = min(self.width / (2.0 * half_length), (self.bottom - self.top) / (2.0 * half_width))
        self.center = np.array([self.width / 2.0, (self.top + self.bottom) / 2.0])
        self.span = min(len(scene.game) / scene.game.rate, LONGEST_PAGE)
        self._page: tuple[int, Any] = (-1, None)

    def picture(self, frame: int) -> Any:
        """Return frame number `frame` as a pillow image of mode RGB."""
        page = int(frame / self.scene.game.rate / self.span)
        if self._page[0] != page:
            self._page = (page, self._background(page))
        image = self._page[1].copy()
        draw = self._ImageDraw.Draw(image, "RGBA")  # colours with an alpha are mixed in
        self._cursor(draw, frame, page)
        stage = self._stage()
        above = image.crop(stage)  # what lies outside of the drawn area is cut off, above all of what is seen
        self._play(self._ImageDraw.Draw(above, "RGBA"), frame, np.array(stage[:2]))
        image.paste(above, stage[:2])
        return image.reduce(FINER)

    def place(self, points: FloatArray) -> FloatArray:
        """Return where points (..., 2) of the ground are, in pixels of the large picture."""
        return np.asarray(self.center + points * [self.scale, -self.scale])

    # ------------------------------------------------------------------------------------------------------ the court

    def _stage(self) -> tuple[int, int, int, int]:
        (left, top), (right, bottom) = self.place(np.array(self.scene.area) * [[-1.0, 1.0], [1.0, -1.0]])
        return round(left), round(top), round(right), round(bottom)

    def _play(self, draw: Any, frame: int, origin: FloatArray) -> None:
        """Draw what each camera sees, and who is where."""
        game, colours, radius = self.scene.game, self.colours, self.scene.radius * self.scale
        for i, seen in enumerate(self.scene.footprints.values()):
            if np.isfinite(seen[frame]).all():
                corners = [tuple(c) for c in self.place(seen[frame]) - origin]
                draw.polygon(corners, fill=_colour(colours["cameras"], i) + "20")
                draw.line([*corners, *corners[:2]], fill=_colour(colours["cameras"], i), width=2 * self.stroke)
        if game.players is not None:
            for i, (x, y) in enumerate(self.place(game.players[frame]) - origin):
                team = int(i >= game.players.shape[1] / 2)
                shape = draw.ellipse if team == 0 else draw.rectangle
                reach = radius if team == 0 else 0.85 * radius
                if np.isfinite(x + y):
                    shape([x - reach, y - reach, x + reach, y + reach], fill=colours["teams"][team])
        self._detections(draw, self.place(game.detections[frame]) - origin, known=game.players is not None)
        if game.ball is not None and np.isfinite(game.ball[frame]).all():
            x, y = self.place(game.ball[frame]) - origin
            box = [x - 0.6 * radius, y - 0.6 * radius, x + 0.6 * radius, y + 0.6 * radius]
            draw.ellipse(box, fill=colours["ball"], outline=colours["ink"], width=self.stroke)

    def _detections(self, draw: Any, places: FloatArray, *, known: bool) -> None:
        """Draw crosses, or discs where there is nothing else to see of the players."""
        reach, colour = (
            self.scene.radius * self.scale * (0.5 if known else 0.9),
            self.colours["ink" if known else "marks"],
        )
        for x, y in places[np.isfinite(places).all(axis=1)]:
            if known:
                draw.line([x - reach, y - reach, x + reach, y + reach], fill=colour, width=self.stroke)
                draw.line([x - reach, y + reach, x + reach, y - reach], fill=colour, width=self.stroke)
            else:
                draw.ellipse([x - reach, y - reach, x + reach, y + reach], fill=colour)

    # ----------------------------------------------------------------------------------------------------- the curves

    def _strip(self, row: int) -> tuple[float, float, float, float]:
        """Return left, top, right and bottom of one axis' curves."""
        room = (self.height - self.bottom - 1.6 * self.text) / len(self.scene.axes)
        top = self.bottom + row * room + 0.4 * self.text
        return 7.0 * self.text, top, self.width - 1.2 * self.text, top + room - 0.4 * self.text

    def _cursor(self, draw: Any, frame: int, page: int) -> None:
        left, top, _, _ = self._strip(0)
        _, _, right, bottom = self._strip(len(self.scene.axes) - 1)
        x = left + (frame / self.scene.game.rate / self.span - page) * (right - left)
        draw.line([x, top, x, bottom], fill=self.colours["ink"], width=self.stroke)
        seconds = f"{frame / self.scene.game.rate:.1f} s"
        draw.text((self.width - 1.2 * self.text, 1.1 * self.text), seconds, self.colours["ink"], self.font, anchor="rm")

    def _background(self, page: int) -> Any:
        """Draw what does not move: the court, the names, and the curves of one page."""
        image = self._Image.new("RGB", (self.width, self.height), "#ffffff")
        draw = self._ImageDraw.Draw(image)
        draw.rectangle(self._stage(), fill=self.colours["floor"])
        for line in markings(self.scene.game.court):
            points = [tuple(p) for p in self.place(line)]
            draw.line(points, fill=self.colours["lines"], width=self.stroke, joint="curve")
        self._legend(draw)
        for row, axis in enumerate(self.scene.axes):
            self._curves(image, axis, self._strip(row), page)
        left, _, right, bottom = self._strip(len(self.scene.axes) - 1)
        for share in (0.0, 0.5, 1.0):
            seconds = f"{(page + share) * self.span:.4g} s"
            x, anchor = left + share * (right - left), {0.0: "lt", 0.5: "mt", 1.0: "rt"}[share]
            draw.text((x, bottom + 0.3 * self.text), seconds, self.colours["ink"], self.font, anchor=anchor)
        return image

    def _legend(self, draw: Any) -> None:
        x, y = 1.2 * self.text, 1.1 * self.text
        limit = self.width - 8.0 * self.text
        for i, name in enumerate(self.scene.views):
            if x > limit:
                break
            colour = _colour(self.colours["cameras"], i)
            draw.line([x, y, x + 1.6 * self.text, y], fill=colour, width=3 * self.stroke)
            short = name if len(name) <= 24 else name[:23] + "…"
            draw.text((x + 2.0 * self.text, y), short, self.colours["ink"], self.font, anchor="lm")
            x += 3.2 * self.text + draw.textlength(short, self.font)

    def _curves(self, image: Any, axis: str, strip: tuple[float, float, float, float], page: int) -> None:
        left, top, right, bottom = strip
        draw = self._ImageDraw.Draw(image)
        low, high = self.scene.ranges[axis]
        draw.rectangle(strip, outline=self.colours["lines"], width=1)
        for value, anchor in ((high, "rt"), (low, "rb")):
            y = top if value == high else bottom
            label = f"{value:.3g}{UNITS[axis].replace(UNITS['zoom'], 'x')}"  # pillow's own font knows no times sign
            draw.text((left - 0.5 * self.text, y), label, self.colours["marks"], self.font, anchor=anchor)
        draw.text((0.8 * self.text, (top + bottom) / 2.0), axis, self.colours["ink"], self.font, anchor="lm")
        first = math.floor(page * self.span * self.scene.game.rate)
        frames = np.arange(first, min(first + math.ceil(self.span * self.scene.game.rate) + 1, len(self.scene.game)))
        x = left + (frames / self.scene.game.rate / self.span - page) * (right - left)
        for i, view in enumerate(self.scene.views.values()):
            values = view[frames, AXES.index(axis)]
            y = bottom - (values - low) / (high - low) * (bottom - top)
            for run in _find_runs(np.isfinite(values) & (x <= right)):
                points = [(float(x[j]), float(y[j])) for j in run]
                draw.line(points, fill=_colour(self.colours["cameras"], i), width=2 * self.stroke, joint="curve")


def _colour(colours: list[str], i: int) -> str:
    return colours[i % len(colours)]


def _find_runs(known: Any) -> list[IntArray]:
    """Return the runs of places at which a condition (n,) holds."""
    places = np.flatnonzero(known)
    return [run for run in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1) if len(run)]
