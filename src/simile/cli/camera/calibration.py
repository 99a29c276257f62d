"""`simile camera calibrate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from simile.cli import options
from simile.cli.camera.games import place_of, sport_option


@click.command(short_help="Find where in a picture the court is, from point pairs.")
@click.argument("pairs", type=click.Path(path_type=Path))
@sport_option
@click.option("--model", type=click.Choice(["homography", "camera"]), default="homography", show_default=True)
@click.option("--size", type=(int, int), help="Width and height of the picture; that of --picture by default.")
@click.option("--picture", type=click.Path(path_type=Path), help="Picture or video to draw the court's lines over.")
@click.option("--frame", type=click.IntRange(0), default=0, help="Of a video, from 0.")
@click.option("--overlay", type=click.Path(path_type=Path), help="Picture to write: --picture with the lines.")
@click.option(
    "--poses",
    type=click.Path(path_type=Path),
    help="What the head told: time or frame, pan, tilt, zoom. The camera then counts as the head does.",
)
@click.option("--rate", type=float, default=25.0, show_default=True, help="Frames per second, to find the poses by.")
@click.option("--latency", type=float, default=0.0, help="Seconds by which the picture is later than the poses.")
@options.json_option
@click.option("--out", type=click.Path(path_type=Path), default="calibration.json", help="File to write.")
def calibrate(
    pairs: Path,
    model: str,
    size: tuple[int, int] | None,
    picture: Path | None,
    frame: int,
    overlay: Path | None,
    poses: Path | None,
    as_json: bool,
    out: Path,
    **given: Any,
) -> None:
    """Find where in a picture the court is from PAIRS: a table of u, v and x, y, or of u, v and the name of a landmark.

    u and v are pixels from the upper left corner, x and y metres from the middle of the court. A column `frame`, from
    0, makes a calibration that moves. The file that is written goes to --calibration of the other commands; that of
    --model camera to --camera, too. For boxes in the picture of a head that moves, find its camera with --poses.
    """
    import numpy as np

    from simile.camera.calibration import calibrate as fit
    from simile.camera.calibration import overlay as drawing
    from simile.camera.calibration import read_pairs, save_calibration
    from simile.camera.sight import read_poses
    from simile.cli.output import to_json

    if overlay is not None and picture is None:
        raise click.ClickException("--overlay is drawn over a picture or a frame of a video: name it with --picture")
    court, _ = place_of(given)
    shown = None if picture is None else drawing.read_picture(picture, frame)
    if shown is not None:
        there = (shown.shape[1], shown.shape[0])
        if size is not None and size != there:
            raise click.ClickException(
                f"--size {size[0]} {size[1]} is not that of {picture}, {there[0]} x {there[1]}: leave it out"
            )
        size = there
    clicked = read_pairs(pairs, court)
    told = None
    if poses is not None:
        when = np.unique(clicked.frames) / given["rate"] - given["latency"]
        told = np.column_stack(read_poses(poses, rate=given["rate"]).at(when))
        if np.isnan(told).any():
            lost = when[np.isnan(told).any(axis=1)][0]
            raise click.ClickException(f"--poses: {poses} does not tell where the head looked at {lost:.2f} s")
    found = fit(clicked, model=model, size=size, poses=told)
    save_calibration(found.calibration, out, about=found.to_dict())
    if shown is not None and overlay is not None:
        drawn = drawing.draw_overlay(shown, found.calibration, court, found.pairs, frame=frame)
        drawing.write_picture(drawn, overlay)
    click.echo(to_json(found.to_dict()) if as_json else found)
    if not as_json:
        click.echo(f"{out}: written" + ("" if overlay is None else f"\nLook at {overlay}"))
