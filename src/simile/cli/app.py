"""The group of all commands. Nothing heavy is imported before a command runs: `simile --help` must be quick."""

from __future__ import annotations

import click

from simile import __version__
from simile.cli.bench import bench
from simile.cli.camera import camera
from simile.cli.describe import describe
from simile.cli.evaluate import compare, diagnose, evaluate, rollout
from simile.cli.export import export
from simile.cli.improve import accept, improve, roll_back, versions
from simile.cli.inspect import inspect
from simile.cli.report import report
from simile.cli.reproduce import demo, reproduce
from simile.cli.run import run
from simile.cli.serve import serve
from simile.cli.studio import studio
from simile.cli.train import train
from simile.cli.tune import tune

EXAMPLE = """\b
From a log file to a running controller:
  simile train games.csv --actions pan --sequence game --out run
  simile evaluate run/policy.safetensors new_games.csv
  simile run run/policy.safetensors < contexts.csv > actions.csv"""


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110, "show_default": True},
    epilog=EXAMPLE,
)
@click.version_option(__version__, prog_name="simile")
def app() -> None:
    """Learn a smooth controller from recorded demonstrations."""


for command in (
    *(demo, studio, describe, train, tune, report, evaluate, rollout, compare),
    *(diagnose, inspect, export, bench, run, serve, improve, versions, accept, roll_back, camera, reproduce),
):
    app.add_command(command)
