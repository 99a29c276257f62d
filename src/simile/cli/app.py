"""The group of all commands. Nothing heavy is imported before a command runs: `simile --help` must be quick."""

from __future__ import annotations

import click

from simile import __version__
from simile.cli.experimenting import reproduce
from simile.cli.exporting import export
from simile.cli.filming import camera
from simile.cli.judging import compare, diagnose, evaluate, rollout
from simile.cli.reporting import report
from simile.cli.serving import serve
from simile.cli.showing import bench, demo, inspect
from simile.cli.streaming import run
from simile.cli.studio import studio
from simile.cli.training import train
from simile.cli.tuning import tune

EXAMPLE = """\b
From a log file to a running controller:
  simile train games.csv --actions pan --sequence game --out run
  simile evaluate run/policy.safetensors new_games.csv
  simile run run/policy.safetensors < contexts.csv > actions.csv"""


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}, epilog=EXAMPLE)
@click.version_option(__version__, prog_name="simile")
def app() -> None:
    """Learn a smooth controller from recorded demonstrations."""


for command in (
    demo,
    studio,
    train,
    tune,
    report,
    evaluate,
    rollout,
    compare,
    diagnose,
    inspect,
    export,
    bench,
    run,
    serve,
    camera,
    reproduce,
):
    app.add_command(command)
