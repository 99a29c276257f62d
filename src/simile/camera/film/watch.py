"""Watching a game through its cameras, and from above: as a page that opens in any browser, or as a film."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from simile._common import checks, pages
from simile._common.files import replacing, write_atomically
from simile._common.typing import AnyPath, FloatArray
from simile.camera.film.encoding import Progress, choose_encoder, encode_gif, encode_webp, even_size
from simile.camera.film.painter import Painter
from simile.camera.film.scene import PALETTES, UNITS, Scene, markings
from simile.camera.film.surroundings import Surroundings
from simile.camera.film.viewfinder import to_dict
from simile.camera.games import AXES, Game

FINENESS = {"pan": 0.01, "tilt": 0.01, "zoom": 0.001}  # hundredths of a degree
CENTIMETRE = 0.01


def watch_page(
    game: Game,
    cameras: Mapping[str, ArrayLike],
    path: AnyPath,
    *,
    title: str | None = None,
    view: str = "both",
    thirds: bool = True,
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
    view : {"both", "viewfinder", "court"}
        Show what each camera sees, the court from above, or both.
    thirds : bool
        Draw the thirds of what cameras see; the page has a switch for them.

    Raises
    ------
    ArgumentError
        When the actions of a camera do not fit the game.
    """
    scene = Scene.of(game, cameras, title, view=view, thirds=thirds)
    page = pages.fill(
        resources.files("simile.camera.film").joinpath("page.html").read_text(encoding="utf-8"),
        title=html.escape(scene.title),
        scene=pages.harmless(json.dumps(_tell(scene))),
    )
    write_atomically(path, page.encode())


def _tell(scene: Scene) -> dict[str, Any]:
    """Return all that the page draws."""
    game, camera = scene.game, scene.game.camera
    return {
        "view": scene.view,
        "thirds": scene.thirds,
        "rate": game.rate,
        "frames": len(game),
        "area": scene.area,
        "far": scene.far,
        "radius": scene.radius,
        "lines": [np.round(line, 2).ravel().tolist() for line in markings(game.court)],
        "palettes": PALETTES,
        "axes": [{"name": axis, "unit": UNITS[axis], "range": scene.ranges[axis]} for axis in scene.axes],
        "players": None if game.players is None else pages.pack(game.players, CENTIMETRE),
        "ball": None if game.ball is None else pages.pack(game.ball, CENTIMETRE),
        "detections": pages.pack(_sort(game.detections), CENTIMETRE),
        "camera": {
            "position": camera.position,
            "axes": camera.axes.tolist(),
            "half": float(camera.half_width(1.0)),
            "aspect": camera.lens.aspect,
            "still": game.still,
        },
        "cameras": [
            {"name": name, "curves": [pages.pack(v[:, AXES.index(axis)], FINENESS[axis]) for axis in scene.axes]}
            for name, v in scene.views.items()
        ],
        "picture": None if scene.view == "court" else to_dict(Surroundings.of(game.court, camera)),
    }


def _sort(detections: FloatArray) -> FloatArray:
    """Order the detections (T, n, 2) of each frame along x: their order means nothing, and so they pack better."""
    order = np.argsort(detections[:, :, :1], axis=1)
    return np.take_along_axis(detections, order, axis=1)


def watch_video(
    game: Game,
    cameras: Mapping[str, ArrayLike],
    path: AnyPath,
    *,
    size: tuple[int, int] = (1280, 720),
    speed: float = 1.0,
    view: str = "both",
    thirds: bool = True,
    watch: Progress | None = None,
) -> None:
    """Write a film of the game with what every camera sees.

    Parameters
    ----------
    game, cameras, view, thirds
        As in `watch_page`.
    path : path
        Ends in .mp4, .gif or .webp (animated); those show 25 and 12.5 frames a second at most.
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
    scene = Scene.of(game, cameras, None, view=view, thirds=thirds)
    speed = checks.number(speed, "speed", above=0.0)
    encode, rate = choose_encoder(path, game.rate)
    width, height = even_size(size, step=1 if encode in (encode_gif, encode_webp) else 2, at_least=160)
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
