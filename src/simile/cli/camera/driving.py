"""`simile camera drive`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from simile.cli import options
from simile.cli.camera.games import (
    aim_stages,
    calibration_of,
    features_of,
    game_option,
    game_options,
    open_one,
    place_of,
)
from simile.cli.camera.hands import operator_of, take_over_option
from simile.cli.camera.heads import driver_of, head_of, head_options, tell_head, tell_timing
from simile.errors import DataError

if TYPE_CHECKING:
    from simile._common.typing import FloatArray
    from simile.camera.games import Game


@click.command(short_help="Drive a pan-tilt-zoom head (VISCA or ONVIF).")
@click.argument("policy", type=click.Path(path_type=Path), required=False)
@click.argument("game", required=False)
@head_options
@game_option
@game_options
@options.stage_option
@take_over_option
@options.record_options
@click.option("--check", is_flag=True, help="Turn by a degree and back, tell which units fit, and end.")
@options.policy_options
def drive(
    policy: Path | None,
    game: str | None,
    stage: tuple[str, ...],
    check: bool,
    trust: tuple[str, ...],
    max_memory: float | None,
    **given: Any,
) -> None:
    """Drive a head from detections on stdin: a JSON list of [x, y] per line and frame; or as GAME was recorded.

    Positions are in metres from the middle of the court, unless --units and --middle tell otherwise. A recorded game
    is played at its own pace, as if it were live; a policy that may wait is shown as much of what comes. Lines come
    when they come, and count as frames of the policy unless --rate tells how many there are a second.

    On lost input, on an error and at the end the head comes to a stop smoothly. The limits of --speed and
    --acceleration come behind the stages; an AccelerationLimit or a JerkLimit at the end of these takes their place.
    They hold for a person who takes over, too.
    """
    import numpy as np

    from simile.camera.live.acting import Actor
    from simile.camera.live.doubts import Doubts

    if check:
        _check(given)
        return
    if policy is None:
        raise click.ClickException("POLICY is missing: name the file of the policy that drives, or give --check")
    if given["take_over"] == "keys" and game is None:
        raise click.ClickException("--take-over keys and detections would both read stdin: use a joystick or faders")
    stages = options.stages_of(stage)
    loaded = options.load_policy(policy, trust, max_memory)
    own = loaded.card.rate or 25.0
    tell_timing(loaded, own, turns=game is None)
    played = None if game is None else open_one(game, given, loaded)
    court, camera = place_of(given, loaded) if played is None else (played.court, played.camera)
    rate = (given["rate"] or own) if played is None else played.rate
    features, aim = features_of(loaded, court), aim_stages(loaded, court, camera, ())
    if loaded.n_actions == 1:
        tilt, zoom = camera.still_view(court)
        told = f"tilt {tilt:.1f} and zoom {zoom:.2f} look at the middle of the court from {camera}"
        click.echo(f"simile: the policy pans; tilt and zoom stay as they are: {told}", err=True)
    with ExitStack() as stack:
        recorder = stack.enter_context(options.recording(given, policy))
        actor = Actor(loaded, features, rate=rate, stages=aim, recorder=recorder)
        operator = operator_of(stack, given)
        driver = stack.enter_context(driver_of(loaded, stages, given))
        shown, doubts = 0, Doubts(court)
        last: FloatArray | None = None
        for seen in _lines(sys.stdin, given) if played is None else _play(played, actor.delay):
            taken = None if operator is None or last is None else operator.act(last, shown / rate)
            if operator is not None and operator.leaves:
                return
            if seen is None and actor.alike and taken is None:
                driver.send(last := actor.predictor.step(None))
                continue
            for last in actor.answer(np.empty((0, 2)) if seen is None else seen, shown / rate, taken):
                driver.send(last)
            if played is None and seen is not None and len(seen):
                options.say(doubts.note(shown / rate, seen, dropped=0, detecting=0.0))
            shown += 1
        for action in actor.finish():  # of the frames that it waited for
            driver.send(action)
            time.sleep(1.0 / rate)


def _check(given: Mapping[str, Any]) -> None:
    """Let a head look at itself."""
    from simile.camera.heads.checking import check_head

    with head_of(given) as head:
        tell_head(head)
        found = check_head(head)
    click.echo(found)
    if not found.good:
        click.get_current_context().exit(1)


def _play(game: Game, ahead: float) -> Iterator[FloatArray]:
    """Yield the detections (n, 2) of each frame when it is its time, or so many seconds ahead of it."""
    began = time.monotonic() - ahead
    for i, seen in enumerate(game.detections):
        time.sleep(max(0.0, began + i / game.rate - time.monotonic()))
        yield seen


def _lines(source: TextIO, given: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the detections (n, 2) of each line, in metres; None for an empty one."""
    import numpy as np

    from simile.camera.tracking.units import Ground

    ground = Ground.of(given["units"], given["middle"], calibration_of(given))
    for number, line in enumerate(source, start=1):
        if not line.strip():
            yield None
            continue
        try:
            points = np.array(json.loads(line), dtype=np.float64).reshape(-1, 2)
        except (ValueError, TypeError) as error:
            raise DataError(
                f"stdin: line {number} must be a JSON list of [x, y]; got {line.strip()[:80]!r}: {error}"
            ) from None
        yield ground.to_metres(points, np.full(len(points), number - 1))
