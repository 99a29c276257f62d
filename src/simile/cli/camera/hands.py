"""`--take-over`: what a person has in hand beside a policy that films."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from simile.camera.live.hands import Operator

take_over_option = click.option(
    "--take-over",
    metavar="keys|/dev/input/js0|midi:PORT",
    help="Let a person act, too: arrows or hjkl turn, +- zoom, space hands back, q quits; or a joystick; or the faders "
    "of a MIDI controller.",
)


def operator_of(stack: ExitStack, given: dict[str, Any]) -> Operator | None:
    """Return the person of --take-over, whose device the stack closes, and say how it is used."""
    from simile.camera.live.hands import Operator, help_with, open_device

    if given["take_over"] is None:
        return None
    device = open_device(given["take_over"])
    stack.callback(device.close)
    click.echo(f"simile: {help_with(given['take_over'])}", err=True)
    return Operator(device)
