"""`simile camera operate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from simile.cli import options
from simile.cli.camera.games import axes_option, file_options, games_argument, open_all, write_games


@click.command(short_help="Let a simulated operator film recorded games.")
@games_argument
@file_options
@options.folder_option("operated", "Folder to write.")
@axes_option
@click.option("--seed", type=click.IntRange(0), default=0)
def operate(games: tuple[str, ...], out: Path, axes: str, seed: int, **given: Any) -> None:
    """Let a simulated operator film GAMES, one file each, so that tracking data without one can be learned from.

    Missing players and a missing ball are no matter. Detections and tracks stay what they are.
    """
    from simile.camera.simulation import operate as film

    found = open_all(games, {**given, "axes": None})
    replaced = sum(game.actions is not None for game in found)
    write_games(film(found, axes=int(axes), seed=seed), out)
    if replaced:
        click.echo(f"simile: in {replaced} of the games his actions are in place of the operator's there", err=True)
    click.echo(f"Learn: simile camera features {out}/*.npz")
