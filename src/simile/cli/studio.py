"""`simile studio`: a page on this machine to work with, from a data file to a policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from simile.cli import options


@click.command(short_help="Work live on a page: open data, train, slide, compare.")
@click.argument("data", nargs=-1)
@options.column_options
@options.reading_options
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default="8765, or a free one", help="Port.")
@click.option("--host", default="127.0.0.1", help="Name or address under which the page is opened.")
@options.host_option
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default="simile-studio",
    help="Where uploads and runs are kept.",
)
@click.option("--max-upload", type=click.FloatRange(min=0.0, min_open=True), default=200.0, help="MB of a file.")
@click.option("--jobs", type=click.IntRange(1), default=1, help="Trainings at a time.")
@click.option(
    "--service",
    "services",
    multiple=True,
    metavar="URL",
    help="A `simile serve` elsewhere that the live page may talk to: wss://pan.example:8770. May be repeated; those of "
    "this machine need not be named.",
)
@click.option(
    "--improve",
    type=(click.Path(path_type=Path, exists=True, dir_okay=False), click.Path(path_type=Path, file_okay=False)),
    metavar="POLICY FOLDER",
    help="The policy that is served, and the folder that `simile serve --record` writes: the live page may learn its "
    "next version, and put it to work.",
)
@click.option("--open/--no-open", "show", default=True, help="Open a browser.")
def studio(
    data: tuple[str, ...],
    port: int,
    host: str,
    allow_host: tuple[str, ...],
    folder: Path,
    max_upload: float,
    jobs: int,
    max_memory: float | None,
    services: tuple[str, ...],
    improve: tuple[Path, Path] | None,
    show: bool,
    **given: Any,
) -> None:
    """Open a page to work on, and print its address: read data, train, look, slide the smoothness, compare.

    DATA (a file, a folder, several files, a quoted glob, or URLs) is there from the start; other files can be dropped
    on the page. Everything is kept in the folder of --folder: what was under way goes on at the next start. Nobody gets
    in without the token in the address.
    """
    from simile._common import logs
    from simile.learning.runs import reading_arguments
    from simile.studio.server import serve

    logs.calm()
    serve(
        folder,
        data=data,
        options=reading_arguments(given),
        host=host,
        port=port,
        hosts=allow_host,
        upload=round(max_upload * 1e6),
        jobs=jobs,
        max_memory=max_memory,
        services=services,
        improve=improve,
        show=show,
    )
