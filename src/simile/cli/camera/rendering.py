"""`simile camera render`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from simile._common.files import write_atomically
from simile.cli.camera.games import game_option, game_options, open_one


@click.command(short_help="Draw a game as a still camera would film it.")
@click.argument("game")
@game_option
@game_options
@click.option("--size", type=(int, int), default=(1280, 720), help="Width and height of the picture.")
@click.option("--out", type=click.Path(path_type=Path), default="game.mp4", help="Video to write: .mp4, .gif or .webp.")
def render(game: str, size: tuple[int, int], out: Path, **given: Any) -> None:
    """Draw the players of GAME on their court as a camera that sees all of it would film them: to try `live` with.

    --camera is where that camera stands, with a lens that is wide enough. Beside the video stand its calibration
    (.json) and a picture of the empty court (.png), under the same name.
    """
    import numpy as np

    from simile._common.needs import need
    from simile.camera.calibration import save_calibration
    from simile.camera.film.encoding import even_size
    from simile.camera.film.rendering import Rendering, overview, render_video
    from simile.cli.progress import Frames

    cv2 = need("cv2", "rendering a game", extra="vision")
    found = open_one(game, {**given, "camera": None})
    view = overview(found.court, even_size(size), given["camera"])
    with Frames("drawing") as progress:
        render_video(found, out, view, watch=progress)
    calibration, empty = out.with_suffix(".json"), out.with_suffix(".png")
    save_calibration(view, calibration)
    picture = cv2.cvtColor(Rendering(found.court, view).picture(np.empty((0, 2))), cv2.COLOR_RGB2BGR)
    write_atomically(empty, cv2.imencode(".png", picture)[1].tobytes())
    click.echo(
        f"{out}: {len(found)} frames, filmed from {view.camera}\nFilm it: simile camera live {out} --policy POLICY "
        f"--calibration {calibration} --background {empty} --out broadcast.mp4"
    )
