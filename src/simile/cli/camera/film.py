"""`simile camera watch` and `crop`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from simile.cli import options
from simile.cli.camera.games import aim_stages, features_of, game_options, open_all, roll_out


@click.command(short_help="Show a game and what the cameras see of it.")
@click.argument("game")
@game_options
@click.option("--policy", type=click.Path(path_type=Path), help="Show what this policy does, too.")
@options.stage_option
@options.policy_options
@click.option("--out", type=click.Path(path_type=Path), default="watch.html", help=".html, .mp4, .gif")
def watch(
    game: str,
    policy: Path | None,
    stage: tuple[str, ...],
    trust: tuple[str, ...],
    max_memory: float | None,
    out: Path,
    **given: Any,
) -> None:
    """Show GAME from above, with the fields of view of the operator and of a policy, and their pan curves."""
    from simile.camera.film.watch import watch_page, watch_video
    from simile.cli.progress import Frames

    stages = options.stages_of(stage)
    if stages and policy is None:
        raise click.ClickException("--stage limits what a policy does: say with --policy which")
    found = open_all((game,), given)[0]
    cameras = {} if found.actions is None else {"operator": found.actions}
    if policy is not None:
        loaded = options.load_policy(policy, trust, max_memory)
        cameras["simile"] = roll_out(loaded, found, aim_stages(loaded, found.court, found.camera, stages))
    if not cameras:
        raise click.ClickException(f"{game} has no operator: say with --policy who films it")
    if out.suffix.lower() in (".html", ".htm"):
        watch_page(found, cameras, out)
    else:
        with Frames("drawing") as progress:
            watch_video(found, cameras, out, watch=progress)
    click.echo(f"Look at {out}")


@click.command(short_help="Cut a broadcast view out of a panoramic video.")
@click.argument("video", type=click.Path(path_type=Path))
@options.policy_argument
@click.argument("game")
@game_options
@click.option("--fov", type=float, show_default="120", help="Degrees across the width of the panorama.")
@click.option("--size", type=(int, int), default=(1280, 720), help="Width and height of the result.")
@options.stage_option
@options.policy_options
@click.option("--out", type=click.Path(path_type=Path), default="broadcast.mp4", help="Video to write.")
def crop(
    video: Path,
    policy: Path,
    game: str,
    trust: tuple[str, ...],
    max_memory: float | None,
    out: Path,
    **given: Any,
) -> None:
    """Cut a smooth broadcast view out of a wide VIDEO, as POLICY frames the detections of GAME. The sound is kept.

    With --calibration the window shows the same ground as the camera of GAME would; without it, every degree is taken
    to be as many pixels wide as any other.
    """
    from simile.camera.calibration import load_calibration
    from simile.camera.film.crop import crop as film
    from simile.camera.film.panorama import Calibrated, Panorama
    from simile.cli.progress import Frames

    if None not in (given["fov"], given["calibration"]):
        raise click.ClickException("--fov and --calibration both tell where in the video what is: leave one out")

    loaded, found = options.load_policy(policy, trust, max_memory), open_all((game,), given)[0]
    panorama: Panorama | Calibrated = Panorama.of(found, given["fov"] or 120.0)
    if given["calibration"] is not None:
        panorama = Calibrated.of(found, load_calibration(given["calibration"]))
    stages = aim_stages(loaded, found.court, found.camera, options.stages_of(given["stage"]))
    with Frames("filming") as progress:
        done = film(
            *(video, out, loaded, found),
            panorama=panorama,
            features=features_of(loaded, found.court),
            size=given["size"],
            stages=stages,
            watch=progress,
        )
    click.echo(f"{done.path}: {done.frames} frames at {done.fps:.0f} a second, {done.audio} sound tracks")
