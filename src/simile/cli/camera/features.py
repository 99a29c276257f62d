"""`simile camera features`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from simile.cli.camera.games import game_options, games_argument, open_all


@click.command(short_help="Turn tracking data into a table for `simile train`.")
@games_argument
@game_options
@click.option("--grid", type=(int, int), default=(8, 4), help="Cells along and across the court.")
@click.option("--out", type=click.Path(path_type=Path), default="games.parquet", help="Table to write.")
def features(games: tuple[str, ...], grid: tuple[int, int], out: Path, **given: Any) -> None:
    """Turn the detections of GAMES into a table of contexts and the operator's actions, for `simile train`."""
    from simile.camera.features import Features, demonstrations
    from simile.data.reading import write
    from simile.data.reading.formats import suffix_of
    from simile.data.reading.writer import FORGETFUL

    found = open_all(games, given)
    demos = demonstrations(found, Features(found[0].court, grid=grid))
    write(demos, out)
    if suffix_of(out).removesuffix(".gz") in FORGETFUL:
        click.echo(
            f"simile: {out} is text, and cannot keep that the camera stands at {found[0].camera}: write .parquet or "
            f".npz, or say it of the policy by `simile camera retarget POLICY --from {found[0].camera} --out POLICY`",
            err=True,
        )
    click.echo(
        f"{out}: {len(demos)} games, {demos.n_frames:,} frames, {demos.n_contexts} contexts, "
        f"{', '.join(demos.action_names)}\nTrain: simile train {out}"
    )
