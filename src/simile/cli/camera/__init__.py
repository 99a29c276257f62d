"""`simile camera ...`: the case study of the paper, from tracking data to a moving picture; a file for each verb."""

from __future__ import annotations

import click

from simile.cli.camera.calibration import calibrate
from simile.cli.camera.driving import drive
from simile.cli.camera.emulation import emulate
from simile.cli.camera.evaluation import evaluate
from simile.cli.camera.features import features
from simile.cli.camera.film import crop, watch
from simile.cli.camera.live import live
from simile.cli.camera.operation import operate
from simile.cli.camera.rendering import render
from simile.cli.camera.retargeting import retarget
from simile.cli.camera.simulation import simulate


@click.group(short_help="Plan a camera: simulate, watch, cut a video, drive a head.")
def camera() -> None:
    """Automated camera planning, the case study of the paper: from tracking data to a smooth broadcast camera.

    GAMES are files that `simile camera simulate` writes (.npz), SportVU logs (.json), boxes of MOTChallenge (.txt),
    tables of detections (.csv, .parquet) or, with --provider, the files of a soccer game.
    """


for command in (simulate, operate, calibrate, features, evaluate, retarget, watch, crop, render, drive, live, emulate):
    camera.add_command(command)
