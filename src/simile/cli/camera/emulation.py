"""`simile camera emulate`."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import click

from simile.cli.camera.heads import pose_of, spans_of, units_of, units_options

if TYPE_CHECKING:
    from simile.camera.heads.emulators import Body, OnvifEmulator, ViscaEmulator

PROTOCOLS = ("visca", "visca+tcp", "visca+udp", "onvif", "freed")
PERIOD, SWAY = 10.0, 20.0  # seconds and degrees of a head that only says where it looks


@click.command(short_help="Emulate a head, to try `drive` without a camera.")
@click.option("--protocol", type=click.Choice(PROTOCOLS), default="visca", help="What it speaks.")
@click.option("--host", default="127.0.0.1", help="Where it listens; with freed, where it sends to.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Its port, 0 for a free one; by default that of the protocol (freed: 40000).",
)
@units_options
@click.option("--start", default="0,0,1", help="PAN,TILT,ZOOM where it looks in the beginning.")
@click.option("--acceleration", type=float, default=300.0, help="Degrees per second squared of its motors.")
@click.option("--latency", type=float, default=0.0, help="Seconds that a message takes.")
@click.option("--loss", type=float, default=0.0, help="Chance that a message is lost.")
@click.option("--user", default="", show_default=False, help="USER:PASSWORD that ONVIF asks for.")
@click.option("--generic", is_flag=True, help="ONVIF without degrees: positions from -1 to 1.")
@click.option("--freed", help="HOST:PORT to tell where it looks, in Free-D.")
@click.option("--seconds", type=float, default=math.inf, show_default="for ever", help="How long.")
def emulate(protocol: str, freed: str | None, seconds: float, **given: Any) -> None:
    """Emulate a pan-tilt-zoom head, and say every second where it looks, until Ctrl-C.

    With --protocol freed it sways to and fro by itself, and tells HOST:PORT where it looks 25 times a second.
    """
    from simile.camera.heads import FreeD, FreeDSender
    from simile.camera.heads.emulators import Body
    from simile.camera.heads.links import Closing

    if protocol == "freed":
        freed = f"{given['host']}:{given['port'] or 40000}"
    sender = None if freed is None else FreeDSender(*_address(freed))
    camera = _open(protocol, given)
    body = camera if isinstance(camera, Body) else camera.body
    try:
        where = freed if isinstance(camera, Body) else f"{protocol}://{given['host']}:{camera.port}"
        click.echo(f"An emulated head: {where}; Ctrl-C ends it")
        begin, told = time.monotonic(), -math.inf
        while (now := time.monotonic() - begin) < seconds:
            if camera is body:
                speed = 2.0 * math.pi / PERIOD * SWAY * math.cos(2.0 * math.pi / PERIOD * now)
                body.drive(speed, 0.0)
            pan, tilt, zoom = body.pose
            if now - told >= 1.0:
                told = now
                click.echo(f"pan {pan:8.2f}  tilt {tilt:7.2f}  zoom {zoom:5.2f}")
            if sender is not None:
                share = (zoom - body.ranges[2][0]) / (body.ranges[2][1] - body.ranges[2][0])
                sender.send(FreeD(pan=pan, tilt=tilt, zoom=round(share * 0x4000), camera=1))
            time.sleep(0.04)
    except KeyboardInterrupt:
        click.echo("")
    finally:
        for used in (camera, sender):
            if isinstance(used, Closing):
                used.close()


def _open(protocol: str, given: Mapping[str, Any]) -> ViscaEmulator | OnvifEmulator | Body:
    """Return the emulator of a protocol, listening; only what moves where it listens to nobody."""
    from simile.camera.heads import OnvifUnits
    from simile.camera.heads.emulators import Body, OnvifEmulator, ViscaEmulator
    from simile.camera.heads.models import MODELS
    from simile.camera.heads.urls import PORTS

    units, spans = units_of("onvif" if protocol == "freed" else protocol, given), spans_of(given)
    if not isinstance(units, OnvifUnits):  # as far as it can count
        spans = {"pan_range": units.pan_range, "tilt_range": units.tilt_range, "zoom_range": units.zoom_range, **spans}
    start = pose_of(given["start"], "--start") or (0.0, 0.0, 1.0)
    body = Body(start=start, acceleration=given["acceleration"], **cast(dict[str, Any], spans))
    if protocol == "freed":
        return body
    port = PORTS[protocol] if given["port"] is None else given["port"]
    common = {"host": given["host"], "port": port, "latency": given["latency"], "loss": given["loss"]}
    if isinstance(units, OnvifUnits):
        user, _, password = given["user"].partition(":")
        return OnvifEmulator(body, user=user, password=password, degrees=not given["generic"], **common)
    model = MODELS[given["model"] or ("sony" if protocol == "visca" else "ptzoptics")]
    version = (model.vendor, model.codes[0] if model.codes else 0)
    return ViscaEmulator(body, units=units, protocol=protocol, version=version, **common)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise click.ClickException(f"--freed must be HOST:PORT; got {text!r}")
    return host, int(port)
