"""Watching a game and its cameras from above: as a page that opens in any browser, or as a film."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from simile._common import checks, pages
from simile._common.files import replacing, write_atomically
from simile._common.typing import AnyPath
from simile.camera.film.encoding import Progress, choose_encoder, encode_gif, even_size
from simile.camera.film.painter import Painter
from simile.camera.film.scene import Scene
from simile.camera.games import Game


def watch_page(game: Game, cameras: Mapping[str, ArrayLike], path: AnyPath, *, title: str | None = None) -> None:
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
    path: AnyPath,
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
    encode, rate = choose_encoder(path, game.rate)
    width, height = even_size(size, step=1 if encode is encode_gif else 2, at_least=160)
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
