"""`simile camera simulate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from simile.cli import options
from simile.cli.camera.games import axes_option, court_options, place_of, write_games


@click.command(short_help="Make games with noisy detections and an operator.")
@options.folder_option("games", "Folder to write.")
@click.option("--n-games", type=click.IntRange(1), default=8)
@click.option("--minutes", type=(float, float), default=(1.0, 2.0), help="Shortest and longest.")
@court_options
@axes_option
@click.option("--rate", type=float, default=25.0, help="Frames per second.")
@click.option("--seed", type=click.IntRange(0), default=0)
def simulate(
    out: Path, n_games: int, minutes: tuple[float, float], axes: str, rate: float, seed: int, **given: Any
) -> None:
    """Make games with noisy detections and a human-like operator, one file each."""
    from simile.camera.simulation import simulate as make

    court, camera = place_of(given)
    games = make(n_games, minutes=minutes, sport=court, camera=camera, axes=int(axes), rate=rate, seed=seed)
    write_games(games, out)
