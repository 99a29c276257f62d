"""`simile camera drive`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from simile.cli import options
from simile.cli.camera.games import aim_stages, court_options, features_of, place_of
from simile.errors import ArgumentError, DataError

if TYPE_CHECKING:
    from simile.camera.heads import OnvifHead, ViscaHead
    from simile.policies.stages import Stage


@click.command(short_help="Drive a pan-tilt-zoom head (VISCA over IP).")
@options.policy_argument
@click.option("--head", required=True, help="HOST[:PORT], visca://, visca+tcp://, visca+udp://HOST[:PORT].")
@court_options
@click.option("--speed", type=float, show_default="30", help="Degrees per second at most.")
@click.option("--acceleration", type=float, show_default="60", help="Degrees per second squared at most.")
@options.stage_option
@click.option("--timeout", type=float, default=0.5, help="Seconds without input before the head stops.")
@options.policy_options
def drive(
    policy: Path,
    head: str,
    speed: float | None,
    acceleration: float | None,
    stage: tuple[str, ...],
    timeout: float,
    trust: tuple[str, ...],
    max_memory: float | None,
    **given: Any,
) -> None:
    """Drive a head from detections on stdin: a JSON list of [x, y] in metres per line and frame.

    On lost input, on an error and at the end the head comes to a stop smoothly. The limits of --speed and
    --acceleration come behind the stages; an AccelerationLimit or a JerkLimit at the end of these takes their place.
    """
    from simile.camera.heads import Driver
    from simile.online import Predictor

    limits = _limits(options.stages_of(stage), speed, acceleration)
    loaded = options.load_policy(policy, trust, max_memory)
    court, camera = place_of(given)
    stream = features_of(loaded, court).stream()
    aim = aim_stages(loaded, court, camera, limits)[: -len(limits)]
    predictor = Predictor(loaded, stages=aim, rate=loaded.card.rate or 25.0)
    if loaded.n_actions == 1:
        tilt, zoom = camera.still_view(court)
        told = f"tilt {tilt:.1f} and zoom {zoom:.2f} look at the middle of the court from {camera}"
        click.echo(f"simile: the policy pans; tilt and zoom stay as they are: {told}", err=True)
    with (
        _open(head) as moved,
        Driver(
            moved,
            rate=loaded.card.rate or 25.0,
            limits=limits,
            n_actions=loaded.n_actions,
            timeout=timeout,
            on_fault=lambda error: click.echo(f"simile: {error}", err=True),
        ) as driver,
    ):
        for detections in _lines(sys.stdin):
            x = None if detections is None else stream.step(detections)
            driver.send(predictor.step(x))


def _open(url: str) -> ViscaHead | OnvifHead:
    """Return the head of --head."""
    from simile.camera.heads import open_head

    try:
        return open_head(url)
    except ArgumentError as error:
        raise click.ClickException(f"--head: {error}") from None


def _limits(stages: tuple[Stage, ...], speed: float | None, acceleration: float | None) -> tuple[Stage, ...]:
    """Return the limits of a head, which end in one that brakes."""
    import numpy as np

    from simile.camera.heads.driver import BRAKES
    from simile.online import AccelerationLimit

    if not stages or not isinstance(stages[-1], BRAKES):
        fastest, hardest = (np.array(usual if x is None else x) for x, usual in ((speed, 30.0), (acceleration, 60.0)))
        return *stages, AccelerationLimit(hardest, rate=fastest)
    if speed is not None or acceleration is not None:
        raise click.ClickException(
            f"--speed and --acceleration: {stages[-1]!r}, the last --stage, limits both: leave these out, or that"
        )
    return stages


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
