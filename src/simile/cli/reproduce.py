"""`simile demo` and `reproduce`: see it work, and the paper's experiments with error bars and verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from simile.cli import options


@click.command(short_help="Learn to film simulated games, and see how well it went.")
@options.folder_option("out", "Folder to write.")
@click.option("--film", is_flag=True, help="Write viewfinder.webp too: seconds of a game, as its cameras see it.")
def demo(out: Path, film: bool) -> None:
    """Simulate games, learn to film them, print how well it went, and write a picture and a page to watch."""
    from simile.experiments.demo import main

    main(out, film)


@click.command(short_help="Reproduce the experiments of the paper.")
@options.folder_option("results", "Folder to write.")
@click.option("--claims", multiple=True, help="Only these claims; all by default. May be repeated.")
@click.option("--seeds", type=click.IntRange(1), default=6, help="How many, from --first-seed on.")
@click.option("--first-seed", type=click.IntRange(0), default=200)
@click.option(
    "--data",
    help="A folder with reservoir/reservoir.csv and car_following/car_following.csv, to measure on them beside "
    "simulated games (SIMILE_DATA by default); or your own data instead of all that: each seed is another split.",
)
@options.column_options
@options.reading_options
@click.option("--quick", is_flag=True, help="Small data, for a first look.")
@click.option("--jobs", type=click.IntRange(1), default=1, help="Processes.")
@click.option(
    "--page", type=click.Path(path_type=Path), help="Where to write the page; results.md in --out by default."
)
def reproduce(out: Path, seeds: int, first_seed: int, data: str | None, page: Path | None, **given: Any) -> None:
    """Measure each figure and claim of the paper over several seeds, as printed and as the authors' script has it.

    Writes a table (CSV) and a picture (PNG) per claim, results.json, and a page with the verdicts under both readings
    and on each data set: holds, does not hold here, or undecided, computed from confidence intervals over the seeds
    that are corrected for their number. With 6 seeds, 2 jobs and both real data sets that takes about 20 minutes.
    """
    from simile.data.reading import read
    from simile.experiments import FULL, SMALL, FileSource, default_sources
    from simile.experiments import reproduce as measure
    from simile.learning.runs import reading_arguments

    effort = SMALL if given["quick"] else FULL
    source = None if data is None else default_sources(effort, data)
    if source is not None and len(source) == 1:  # none of the recordings that we know is there
        with options.bounded(given):
            source = (FileSource(read(str(data), **reading_arguments(given))),)
    found = measure(
        out,
        claims=given["claims"] or None,
        seeds=range(first_seed, first_seed + seeds),
        source=source,
        effort=effort,
        n_jobs=given["jobs"],
        page=page,
        watch=lambda line: click.echo(line, err=True),
    )
    click.echo(found)
    click.echo(f"\nLook at {page or out / 'results.md'}")
