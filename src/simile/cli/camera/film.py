"""`simile camera watch` and `crop`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from simile.cli import options
from simile.cli.camera.games import (
    aim_stages,
    calibration_of,
    features_of,
    game_option,
    game_options,
    open_one,
    roll_out,
)


@click.command(short_help="Show a game and what the cameras see of it.")
@click.argument("game")
@game_option
@game_options
@click.option(
    "--policy", multiple=True, type=click.Path(path_type=Path), help="Show what this policy does, too. May be repeated."
)
@click.option(
    "--view",
    type=click.Choice(("both", "viewfinder", "court")),
    default="both",
    help="What each camera sees, the court from above, or both.",
)
@click.option("--thirds/--no-thirds", default=True, help="Draw the thirds of what each camera sees.")
@click.option("--size", type=(int, int), show_default="1280 720", help="Width and height of a film.")
@options.stage_option
@options.policy_options
@click.option("--out", type=click.Path(path_type=Path), default="watch.html", help=".html, .mp4, .gif, .webp")
def watch(
    game: str,
    policy: tuple[Path, ...],
    stage: tuple[str, ...],
    size: tuple[int, int] | None,
    trust: tuple[str, ...],
    max_memory: float | None,
    out: Path,
    **given: Any,
) -> None:
    """Show GAME as the operator and policies see it, side by side; from above, with what they see; and their curves."""
    from simile.camera.film.watch import watch_page, watch_video
    from simile.cli.progress import Frames

    stages, page = options.stages_of(stage), out.suffix.lower() in (".html", ".htm")
    if stages and not policy:
        raise click.ClickException("--stage limits what a policy does: say with --policy which")
    if page and size is not None:
        raise click.ClickException(f"--size is for films, and {out} is a page, which fits its window: leave it out")
    loaded = [options.load_policy(path, trust, max_memory) for path in policy]
    found = open_one(game, given, *loaded)
    cameras = {} if found.actions is None else {"operator": found.actions}
    for name, one in zip(_name(policy), loaded, strict=True):
        cameras[name] = roll_out(one, found, aim_stages(one, found.court, found.camera, stages))
    if not cameras:
        raise click.ClickException(f"{game} has no operator: say with --policy who films it")
    shown = {name: given[name] for name in ("view", "thirds")}
    if page:
        watch_page(found, cameras, out, **shown)
    else:
        with Frames("drawing") as progress:
            watch_video(found, cameras, out, size=size or (1280, 720), watch=progress, **shown)
    click.echo(f"Look at {out}")


def _name(policies: tuple[Path, ...]) -> list[str]:
    """Return what to call policies: by their files, with their folders where files are called alike."""
    if len(policies) == 1:
        return ["simile"]
    if len(set(policies)) < len(policies):
        raise click.ClickException("--policy names the same file twice: each can be watched once")
    stems = [path.stem for path in policies]
    return [str(p.with_suffix("")) if stems.count(p.stem) > 1 or p.stem == "operator" else p.stem for p in policies]


@click.command(short_help="Cut a broadcast view out of a panoramic video.")
@click.argument("video", type=click.Path(path_type=Path))
@options.policy_argument
@click.argument("game")
@game_option
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

    With --calibration or --homography the window shows the same ground as the camera of GAME would; without them, every
    degree is taken to be as many pixels wide as any other.
    """
    from simile.camera.film.crop import crop as film
    from simile.camera.film.panorama import Calibrated, Panorama
    from simile.cli.progress import Frames

    if None not in (given["fov"], given["calibration"]):
        raise click.ClickException("--fov and --calibration both tell where in the video what is: leave one out")

    loaded = options.load_policy(policy, trust, max_memory)
    found = open_one(game, given, loaded)
    panorama: Panorama | Calibrated = Panorama.of(found, given["fov"] or 120.0)
    if given["fov"] is None and (calibration := calibration_of(given)) is not None:
        panorama = Calibrated.of(found, calibration)
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
