"""Single pictures of a scene, drawn by pillow: what each camera sees, the court from above, and curves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from simile._common.needs import need
from simile._common.typing import FloatArray, IntArray
from simile.camera.film.scene import PALETTES, UNITS, Scene, markings
from simile.camera.film.viewfinder import Stroke, Viewfinder
from simile.camera.games import AXES
from simile.camera.geometry import Camera

FINER = 2  # pillow draws hard edges: draw this much larger, then shrink
LONGEST_PAGE = 60.0  # seconds of curves shown at a time
SHARE = 0.55  # of the height, at most, that viewfinders have above the court

Box = tuple[float, float, float, float]  # left, top, right and bottom, in pixels of the large picture


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
        load = need("PIL.ImageFont", "watch_video").load_default
        self.font, self.small = load(size=self.text), load(size=0.8 * self.text)
        self.stroke = max(round(self.height / 360.0), 1)
        self.viewfinder = Viewfinder(scene)
        self._lay_out()
        self.span = min(len(scene.game) / scene.game.rate, LONGEST_PAGE)
        self._page: tuple[int, Any] = (-1, None)

    def _lay_out(self) -> None:
        """Find room for the viewfinders, for the court and for the curves."""
        view = self.scene.view
        strip = 0.13 if len(self.scene.axes) == 1 else 0.10
        edge, top = 0.6 * self.text, 2.2 * self.text
        bottom = self.height * (1.0 - strip * len(self.scene.axes)) - 2.0 * self.text
        self.finders: list[Box] = []
        self.charts: Box = (0.0, bottom, self.width, self.height)
        court: Box = (0.0, top, self.width, bottom)
        if view != "court":
            beside = view == "both" and self.width > self.height  # the curves stand beside the court
            end = top + SHARE * (self.height - top) if beside else bottom if view == "viewfinder" else 0.5 * bottom
            self.finders = _tile(len(self.scene.views), (edge, top, self.width - edge, end), self.scene.game.camera)
            court = (edge, max(box[3] for box in self.finders) + edge, self.width - edge, bottom)
            if view == "viewfinder":
                self.charts = (0.0, court[1] - 0.4 * self.text, self.width, self.height)
            if beside:
                long, wide = self.scene.area
                right = min(edge + (self.height - edge - court[1]) * long / wide, 0.52 * self.width)
                court = (edge, court[1], right, self.height - edge)
                self.charts = (right, court[1] - 0.4 * self.text, self.width, self.height)
        self.court = court if view != "viewfinder" else None
        left, top, right, bottom = court
        half_length, half_width = self.scene.area
        self.scale = min((right - left) / (2.0 * half_length), (bottom - top) / (2.0 * half_width))
        self.center = np.array([(left + right) / 2.0, (top + bottom) / 2.0])

    def picture(self, frame: int) -> Any:
        """Return frame number `frame` as a pillow image of mode RGB."""
        page = int(frame / self.scene.game.rate / self.span)
        if self._page[0] != page:
            self._page = (page, self._background(page))
        image = self._page[1].copy()
        draw = self._ImageDraw.Draw(image, "RGBA")  # colours with an alpha are mixed in
        self._cursor(draw, frame, page)
        for box, name in zip(self.finders, self.scene.views, strict=False):
            self._look(image, box, name, frame)
        if self.court is not None:
            stage = self._stage()
            above = image.crop(stage)  # what lies outside of the drawn area is cut off, above all of what is seen
            self._play(self._ImageDraw.Draw(above, "RGBA"), frame, np.array(stage[:2]))
            image.paste(above, stage[:2])
        return image.reduce(FINER)

    def place(self, points: FloatArray) -> FloatArray:
        """Return where points (..., 2) of the ground are, in pixels of the large picture."""
        return np.asarray(self.center + points * [self.scale, -self.scale])

    # ------------------------------------------------------------------------------------------------ the viewfinders

    def _look(self, image: Any, box: Box, name: str, frame: int) -> None:
        """Draw what a camera sees."""
        left, top, right, bottom = (round(side) for side in box)
        wide, high = right - left, bottom - top
        view = self.scene.views[name][frame]
        seen = bool(np.isfinite(view).all())
        picture = self._Image.new("RGB", (wide, high), self.viewfinder.surroundings.above if seen else "#30343a")
        draw = self._ImageDraw.Draw(picture, "RGBA")
        for stroke in self.viewfinder.draw(frame, view):
            self._stroke(draw, stroke, wide, high)
        for share in (1.0 / 3.0, 2.0 / 3.0) if self.scene.thirds else ():
            draw.line([share * wide, 0, share * wide, high], fill="#ffffff50", width=FINER // 2)
            draw.line([0, share * high, wide, share * high], fill="#ffffff50", width=FINER // 2)
        self._label(draw, name, view, wide, high)
        number = list(self.scene.views).index(name)
        colour = _colour(self.colours["cameras"], number)
        draw.rectangle([0, 0, wide - 1, high - 1], outline=colour, width=2 * self.stroke)
        image.paste(picture, (left, top))

    def _stroke(self, draw: Any, stroke: Stroke, wide: int, high: int) -> None:
        half = wide / 2.0
        points = [tuple(p) for p in (stroke.points * [half, -half] + [half, high / 2.0]).tolist()]
        if not stroke.width:
            if len(points) > 2:
                draw.polygon(points, fill=stroke.colour)
            return
        width = max(stroke.width * half, 1.0)
        if points[0] != points[-1] or len(points) > 2:
            draw.line(points, fill=stroke.colour, width=round(width), joint="curve")
        for x, y in points[:: max(len(points) - 1, 1)] if width > 3.0 else ():  # round ends
            draw.ellipse([x - width / 2.0, y - width / 2.0, x + width / 2.0, y + width / 2.0], fill=stroke.colour)

    def _label(self, draw: Any, name: str, view: FloatArray, wide: int, high: int) -> None:
        """Write who sees this and where that one looks: as much of it as there is room for."""
        numbers = "  ".join(
            f"{axis} {value:.{2 if axis == 'zoom' else 1}f}{_unit(axis)}"
            for axis, value in zip(AXES, view, strict=True)
            if np.isfinite(value)
        )
        text = 0.8 * self.text
        for label in (f"{name}   {numbers or 'no picture'}", name, name[:8]):
            length = draw.textlength(label, self.small)
            if length <= wide - 2.0 * text and 3.0 * text < high:
                back = [0.5 * text, high - 2.0 * text, 1.5 * text + length, high - 0.5 * text]
                draw.rectangle(back, fill="#000000a0")
                draw.text((text, high - 1.25 * text), label, "#ffffff", self.small, anchor="lm")
                return

    # ------------------------------------------------------------------------------------------------------ the court

    def _stage(self) -> tuple[int, int, int, int]:
        (left, top), (right, bottom) = self.place(np.array(self.scene.area) * [[-1.0, 1.0], [1.0, -1.0]])
        return round(left), round(top), round(right), round(bottom)

    def _play(self, draw: Any, frame: int, origin: FloatArray) -> None:
        """Draw what each camera sees, and who is where."""
        game, colours, radius = self.scene.game, self.colours, self.scene.radius * self.scale
        for i, name in enumerate(self.scene.views):
            seen = self.scene.footprint(name, frame)
            if len(seen) > 2:
                corners = [tuple(c) for c in self.place(seen) - origin]
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

    def _strip(self, row: int) -> Box:
        """Return where one axis' curves are."""
        left, above, right, below = self.charts
        room = (below - above - 1.6 * self.text) / len(self.scene.axes)
        top = above + row * room + 0.4 * self.text
        return left + 7.0 * self.text, top, right - 1.2 * self.text, top + room - 0.4 * self.text

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
        if self.court is not None:
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

    def _curves(self, image: Any, axis: str, strip: Box, page: int) -> None:
        left, top, right, bottom = strip
        draw = self._ImageDraw.Draw(image)
        low, high = self.scene.ranges[axis]
        draw.rectangle(strip, outline=self.colours["lines"], width=1)
        for value, anchor in ((high, "rt"), (low, "rb")):
            y = top if value == high else bottom
            label = f"{value:.3g}{_unit(axis)}"
            draw.text((left - 0.5 * self.text, y), label, self.colours["marks"], self.font, anchor=anchor)
        draw.text((left - 6.2 * self.text, (top + bottom) / 2.0), axis, self.colours["ink"], self.font, anchor="lm")
        first = math.floor(page * self.span * self.scene.game.rate)
        frames = np.arange(first, min(first + math.ceil(self.span * self.scene.game.rate) + 1, len(self.scene.game)))
        x = left + (frames / self.scene.game.rate / self.span - page) * (right - left)
        for i, view in enumerate(self.scene.views.values()):
            values = view[frames, AXES.index(axis)]
            y = bottom - (values - low) / (high - low) * (bottom - top)
            for run in _find_runs(np.isfinite(values) & (x <= right)):
                points = [(float(x[j]), float(y[j])) for j in run]
                draw.line(points, fill=_colour(self.colours["cameras"], i), width=2 * self.stroke, joint="curve")


def _unit(axis: str) -> str:
    return UNITS[axis].replace(UNITS["zoom"], "x")  # pillow's own font knows no times sign


def _tile(count: int, box: Box, camera: Camera) -> list[Box]:
    """Return boxes for so many pictures of a camera in one, side by side, as large as they get."""
    left, top, right, bottom = box
    gap, aspect = 0.006 * (right - left), camera.lens.aspect

    def width(columns: int) -> float:
        rows = math.ceil(count / columns)
        return min((right - left + gap) / columns - gap, ((bottom - top + gap) / rows - gap) * aspect)

    columns = max(range(1, count + 1), key=width)
    wide = width(columns)
    start = (left + right - columns * (wide + gap) + gap) / 2.0
    corners = [(start + i % columns * (wide + gap), top + i // columns * (wide / aspect + gap)) for i in range(count)]
    return [(x, y, x + wide, y + wide / aspect) for x, y in corners]


def _colour(colours: list[str], i: int) -> str:
    return colours[i % len(colours)]


def _find_runs(known: Any) -> list[IntArray]:
    """Return the runs of places at which a condition (n,) holds."""
    places = np.flatnonzero(known)
    return [run for run in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1) if len(run)]
