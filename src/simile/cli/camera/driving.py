"""`simile camera drive`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

import click

from simile.cli import options
from simile.cli.camera.games import aim_stages, court_options, features_of, place_of
from simile.cli.camera.heads import driver_of, head_of, head_options, tell_head
from simile.errors import DataError


@click.command(short_help="Drive a pan-tilt-zoom head (VISCA or ONVIF).")
@click.argument("policy", type=click.Path(path_type=Path), required=False)
@head_options
@court_options
@options.stage_option
@click.option("--check", is_flag=True, help="Turn by a degree and back, tell which units fit, and end.")
@options.policy_options
def drive(
    policy: Path | None,
    stage: tuple[str, ...],
    check: bool,
    trust: tuple[str, ...],
    max_memory: float | None,
    **given: Any,
) -> None:
    """Drive a head from detections on stdin: a JSON list of [x, y] in metres per line and frame.

    On lost input, on an error and at the end the head comes to a stop smoothly. The limits of --speed and
    --acceleration come behind the stages; an AccelerationLimit or a JerkLimit at the end of these takes their place.
    """
    from simile.online import Predictor

    if check:
        _check(given)
        return
    if policy is None:
        raise click.ClickException("POLICY is missing: name the file of the policy that drives, or give --check")
    stages = options.stages_of(stage)
    loaded = options.load_policy(policy, trust, max_memory)
    court, camera = place_of(given)
    stream = features_of(loaded, court).stream()
    aim = aim_stages(loaded, court, camera, ())
    predictor = Predictor(loaded, stages=aim, rate=loaded.card.rate or 25.0)
    if loaded.n_actions == 1:
        tilt, zoom = camera.still_view(court)
        told = f"tilt {tilt:.1f} and zoom {zoom:.2f} look at the middle of the court from {camera}"
        click.echo(f"simile: the policy pans; tilt and zoom stay as they are: {told}", err=True)
    with driver_of(loaded, stages, given) as driver:
        for detections in _lines(sys.stdin):
            x = None if detections is None else stream.step(detections)
            driver.send(predictor.step(x))


def _check(given: Mapping[str, Any]) -> None:
    """Let a head look at itself."""
    from simile.camera.heads.checking import check_head

    with head_of(given) as head:
        tell_head(head)
        found = check_head(head)
    click.echo(found)
    if not found.good:
        click.get_current_context().exit(1)


def _lines(source: TextIO) -> Iterator[Any]:
    """Yield the detections (n, 2) of each line; None for an empty one."""
    import numpy as np

    for number, line in enumerate(source, start=1):
        if not line.strip():
            yield None
            continue
        try:
            yield np.array(json.loads(line), dtype=np.float64).reshape(-1, 2)
        except (ValueError, TypeError) as error:
            raise DataError(
                f"stdin: line {number} must be a JSON list of [x, y]; got {line.strip()[:80]!r}: {error}"
            ) from None
