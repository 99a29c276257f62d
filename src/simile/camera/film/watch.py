"""Watching a game and its cameras from above: as a page that opens in any browser, or as a film."""

from __future__ import annotations

import html
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike

from simile._common import checks, pages
from simile._common.files import replacing, write_atomically
from simile._common.needs import need
from simile._common.pages import pack
from simile._common.typing import FloatArray, IntArray
from simile.camera.courts import Court
from simile.camera.games import AXES, Game
from simile.camera.geometry import Camera
from simile.errors import ArgumentError

Progress = Callable[[int, int], object]  # called with what is done, and what there is

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


def watch_page(
    game: Game, cameras: Mapping[str, ArrayLike], path: str | os.PathLike[str], *, title: str | None = None
) -> None:
    """Write a page that plays the game with what every camera sees; it needs no network and no other file.

    Space plays and pauses, the arrow keys step (with shift, by a second), a click on the curves goes there, and
    `page.html#t=12.5` opens at that second.

    Parameters
    ----------
    game : Game
        What to play. The first half of its `players` is one team, the second half the other; without players there
        are only the detections.
    cameras : mapping of str to (T, k) array_like
        Names and actions: pan, or pan, tilt and zoom, for every frame of the game; NaN where there is no action.
    path : path
        Where to write, whole or not at all.
    title : str, optional
        The game's name by default.

    Raises
    ------
    ArgumentError
        When the actions of a camera do not fit the game.
    """
    scene = Scene.of(game, cameras, title)
    page = pages.fill(
        resources.files("simile.camera.film").joinpath("page.html").read_text(encoding="utf-8"),
        title=html.escape(scene.title),
        scene=pages.harmless(scene.to_json()),
    )
    write_atomically(path, page.encode())


def watch_video(
    game: Game,
    cameras: Mapping[str, ArrayLike],
    path: str | os.PathLike[str],
    *,
    size: tuple[int, int] = (1280, 720),
    speed: float = 1.0,
    watch: Progress | None = None,
) -> None:
    """Write a film of the game with what every camera sees.

    Parameters
    ----------
    game, cameras
        As in `watch_page`.
    path : path
        Ends in .mp4, or in .gif: those show 25 frames a second at most.
    size : (width, height)
        In pixels; even numbers for .mp4.
    speed : float
        2 plays twice as fast, and leaves out every second frame.
    watch : callable, optional
        Called with the number of frames drawn and of all frames, after each.

    Raises
    ------
    ArgumentError
        When an argument cannot be used, or the extra `video` is not installed.
    """
    scene = Scene.of(game, cameras, None)
    speed = checks.number(speed, "speed", above=0.0)
    encode, rate = _encoder(path, game.rate)
    width, height = even_size(size, step=1 if encode is _encode_gif else 2, at_least=160)
    every = speed * game.rate / rate
    shown = np.arange(math.ceil(len(game) / every - 1e-9)) * every
    painter = Painter(scene, (width, height))

    def pictures() -> Iterator[Any]:
        for done, frame in enumerate(shown, start=1):
            yield painter.picture(int(frame + 1e-9))
            if watch is not None:
                watch(done, len(shown))

    with replacing(path) as file:
        encode(file, pictures(), rate)


# ------------------------------------------------------------------------------------------------------------ the scene


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
    high = 1.0 / camera.aspect
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


# ----------------------------------------------------------------------------------------------------- court markings


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


# ------------------------------------------------------------------------------------------------------------- the film

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


def even_size(size: Any, *, step: int = 2, at_least: int = 16) -> tuple[int, int]:
    """Check the size of a film: multiples of `step`, for the colours of most films are stored at half the size."""
    try:
        width, height = (checks.whole_number(side, "size", at_least=at_least) for side in size)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"size must be (width, height) in pixels, {at_least} or more each; got {size!r}: try (1280, 720)"
        ) from error
    if width % step or height % step:
        raise ArgumentError(f"size must be even numbers; got {size!r}: try {(width + width % 2, height + height % 2)}")
    return width, height


Encoder = Callable[[BinaryIO, Iterator[Any], float], None]


def _encoder(path: str | os.PathLike[str], rate: float) -> tuple[Encoder, float]:
    """Return what writes such a film, and how many frames it shows a second."""
    suffix = Path(path).suffix.lower()
    if suffix == ".mp4":
        need("av", "watch_video to .mp4")
        return _encode_mp4, rate
    if suffix == ".gif":
        return _encode_gif, min(rate, 25.0)
    raise ArgumentError(f"path must end in .mp4 or .gif; got {os.fspath(path)!r}")


def _encode_mp4(file: BinaryIO, pictures: Iterator[Any], rate: float) -> None:
    av = need("av", "watch_video to .mp4")
    codec, options = h264(av)
    with av.open(file, "w", format="mp4") as container:
        stream = None
        for image in pictures:
            if stream is None:
                stream = container.add_stream(codec, rate=Fraction(rate).limit_denominator(1001), options=options)
                stream.width, stream.height = image.size
                stream.pix_fmt = "yuv420p"
            container.mux(stream.encode(av.VideoFrame.from_image(image)))
        container.mux(stream.encode() if stream is not None else [])


def h264(av: Any) -> tuple[str, dict[str, str]]:
    """Return the encoder to use and its options: H.264 where FFmpeg was built with it, or else MPEG-4."""
    if "libx264" in av.codecs_available:
        return "libx264", {"preset": "superfast", "crf": "20"}
    return "mpeg4", {"qscale": "3"}


def _encode_gif(file: BinaryIO, pictures: Iterator[Any], rate: float) -> None:
    Image = need("PIL.Image", "watch_video to .gif")
    first = next(pictures)
    # One palette for all, so that nothing flickers: every colour that we draw with (a ball may come later than the
    # first picture), and the mixtures that the first picture shows.
    pure = b"".join(bytes.fromhex(colour[1:]) for colour in _every_colour())
    mixed = bytes(first.quantize(128).getpalette())
    palette = Image.new("P", (1, 1))
    palette.putpalette((pure + mixed)[: 3 * 256])

    def quantize(image: Any) -> Any:
        return image.quantize(palette=palette, dither=Image.Dither.NONE)

    # Hundredths of a second are all that a GIF knows; whole ones are near enough for the eye.
    hundredths = max(round(100.0 / rate), 2)
    others = (quantize(image) for image in pictures)
    quantize(first).save(file, format="GIF", save_all=True, append_images=others, duration=10 * hundredths, loop=0)


def _every_colour() -> list[str]:
    colours: Any = PALETTES["light"]
    return ["#ffffff", *(c for entry in colours.values() for c in ([entry] if isinstance(entry, str) else entry))]
