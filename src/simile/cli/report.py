"""`simile report`: a page that shows a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from simile.cli import options
from simile.errors import DataError


@click.command(short_help="Make a page that shows a run.")
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("data", nargs=-1)
@options.reading_options
@options.trust_option
@click.option("--out", type=click.Path(path_type=Path), help="Page to write; RUN/report.html by default.")
def report(run: Path, data: tuple[str, ...], trust: tuple[str, ...], out: Path | None, **given: Any) -> None:
    """Make a page that shows RUN, the folder that `simile train --out` wrote: one file, which needs no network.

    It shows the sequences that the run held out, or DATA, where that is given: other recordings with the same columns.
    """
    from simile.evaluation.report import Report
    from simile.learning.runs import REPORT, RunFolder, reading_arguments

    folder, most = RunFolder(run), given["max_memory"]
    shown = None
    if data:
        asked = {**reading_arguments(folder.config), **reading_arguments(given)}
        shown = options.read_for(folder.policy(trust, max_memory=most), list(data) if len(data) > 1 else data[0], asked)
    elif folder.verb == "train":
        try:
            shown = None if folder.judged() is not None else folder.demonstrations()[1]
        except DataError as error:
            raise DataError(f"{error}: say where the data are now: simile report RUN DATA") from None
    target = run / REPORT if out is None else out
    Report.of_folder(folder, demos=shown, trusted=trust, max_memory=most).save(target)
    click.echo(f"Look at {target}")
