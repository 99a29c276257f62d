"""The head that camera commands are given: its options, and how it is opened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from simile.cli import options
from simile.errors import ArgumentError

if TYPE_CHECKING:
    from simile.camera.heads import Driver, OnvifHead, OnvifUnits, Pose, ViscaHead, ViscaUnits
    from simile.policies.policies import Policy
    from simile.policies.stages import Stage

AXES = ("pan", "tilt", "zoom")
OPEN = (float("-inf"), float("inf"))
PATIENCE = 2.0  # seconds for a head that speaks VISCA to say where it is
units_options = options.stack(
    click.option("--model", help="How a VISCA camera counts: sony, sony-x400, ptzoptics, ... (see docs/heads.md)."),
    click.option("--head-units", help="Units per degree of a VISCA camera: pan=14.4,tilt=14.4; negative to the left."),
    click.option("--pan-range", help="Degrees at the ends of the head's own range, e.g. -170:170."),
    click.option("--tilt-range", help="The same for tilt, e.g. -30:90."),
    click.option("--zoom-range", help="Zoom factors of the head's own range: 1:20."),
)
head_options = options.stack(
    click.option("--head", help="HOST[:PORT], visca://, visca+tcp://, visca+udp:// or onvif://USER:PASSWORD@HOST."),
    units_options,
    click.option(
        "--mode", type=click.Choice(["velocity", "absolute"]), default="velocity", help="Told speeds, or positions."
    ),
    click.option("--local-port", type=int, help="Port of this computer that the camera answers to: 52381 for some."),
    click.option("--speed", type=float, show_default="30", help="Of the head: degrees per second at most."),
    click.option(
        "--acceleration", type=float, show_default="60", help="Of the head: degrees per second squared at most."
    ),
    click.option("--bounds", help="Where the head may look: pan=-60:60,tilt=-30:10,zoom=1:8."),
    click.option("--start", help="PAN,TILT,ZOOM where the head is, for one that does not say it."),
    click.option("--timeout", type=float, default=0.5, help="Seconds without input before the head stops."),
)


@contextmanager
def driver_of(policy: Policy, stages: tuple[Stage, ...], given: Mapping[str, Any]) -> Iterator[Driver]:
    """Let the head of the options be driven by what a policy says, within the limits of the options."""
    from simile.camera.heads import Driver

    limits = limits_of(stages, given["speed"], given["acceleration"])
    start, bounds = pose_of(given["start"], "--start"), bounds_of(given["bounds"], policy.n_actions)
    with head_of(given) as head:
        if start is None:
            start = tell_head(head)
        with Driver(
            head,
            rate=policy.card.rate or 25.0,
            limits=(*bounds, *limits),
            n_actions=policy.n_actions,
            start=start,
            timeout=given["timeout"],
            on_fault=lambda error: click.echo(f"simile: {error}", err=True),
        ) as driver:
            yield driver


def head_of(given: Mapping[str, Any]) -> ViscaHead | OnvifHead:
    """Return the head of the options."""
    from simile.camera.heads import HeadAddress, open_head

    if given["head"] is None:
        raise click.ClickException("--head: say which camera moves, e.g. --head 192.168.0.100")
    try:
        scheme = HeadAddress.parse(given["head"]).scheme
        return open_head(
            given["head"], units=units_of(scheme, given), mode=given["mode"], local_port=given["local_port"]
        )
    except ArgumentError as error:
        raise click.ClickException(f"--head: {error}") from None


def units_of(scheme: str, given: Mapping[str, Any]) -> ViscaUnits | OnvifUnits:
    """Return how the head of a scheme counts, as the options say."""
    from simile.camera.heads import OnvifUnits, visca_units

    spans: dict[str, Any] = spans_of(given)
    if scheme != "onvif":
        model = given["model"] or ("sony" if scheme == "visca" else "ptzoptics")
        return visca_units(model, counts=counts_of(given["head_units"]), **spans)
    for name in ("model", "head_units"):
        if given[name] is not None:
            option = f"--{name.replace('_', '-')}"
            raise click.ClickException(f"{option} is of VISCA: an ONVIF camera tells its spaces; leave it out")
    return OnvifUnits(**spans)


def spans_of(given: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Read --pan-range, --tilt-range and --zoom-range, where they are given."""
    said = {f"{axis}_range": (given[f"{axis}_range"], f"--{axis}-range") for axis in AXES}
    return {name: span(text, option, backwards=True) for name, (text, option) in said.items() if text is not None}


def tell_head(head: ViscaHead | OnvifHead) -> Pose:
    """Say where the head is and how it counts, and what speaks against that; returns where it is."""
    from simile.camera.heads import ViscaHead
    from simile.camera.heads.models import doubt

    pan, tilt, zoom = pose = head.where(PATIENCE) if isinstance(head, ViscaHead) else head.where()
    said = f"{head.name}: pan {pan:.1f}, tilt {tilt:.1f}, zoom {zoom:.1f}"
    if isinstance(head, ViscaHead):
        said += f"; {head.units.pan:g} units per degree of pan, {head.units.tilt:g} of tilt"
        if doubted := doubt(head.version(), head.units):
            said += f"\nsimile: {doubted}"
    click.echo(said, err=True)
    return pose


def counts_of(text: str | None) -> dict[str, float] | None:
    """Read --head-units."""
    return None if text is None else {n: number(v, "--head-units") for n, v in pairs(text, "--head-units").items()}


def limits_of(stages: tuple[Stage, ...], speed: float | None, acceleration: float | None) -> tuple[Stage, ...]:
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


def bounds_of(text: str | None, n_actions: int) -> tuple[Stage, ...]:
    """Read --bounds: the limits of each axis that is driven."""
    import numpy as np

    from simile.online import Bounds

    if text is None:
        return ()
    said = {name: span(value, "--bounds") for name, value in pairs(text, "--bounds").items()}
    if unknown := sorted(set(said) - set(AXES[:n_actions])):
        raise click.ClickException(
            f"--bounds: the policy moves {', '.join(AXES[:n_actions])}; got {', '.join(unknown)}: leave that out"
        )
    low, high = np.array([said.get(axis, OPEN) for axis in AXES[:n_actions]]).T
    return (Bounds(low, high),)


def pose_of(text: str | None, option: str) -> tuple[float, float, float] | None:
    """Read PAN,TILT,ZOOM."""
    if text is None:
        return None
    parts = text.split(",")
    if len(parts) != len(AXES):
        raise click.ClickException(f"{option} must be PAN,TILT,ZOOM, e.g. 0,-10,1; got {text!r}")
    pan, tilt, zoom = (number(part, option) for part in parts)
    return pan, tilt, zoom


def pairs(text: str, option: str) -> dict[str, str]:
    """Read NAME=VALUE,NAME=VALUE."""
    found = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or not value:
            raise click.ClickException(f"{option} must be pan=...,tilt=...; got {text!r}")
        found[name.strip()] = value.strip()
    return found


def span(text: str, option: str, *, backwards: bool = False) -> tuple[float, float]:
    """Read LOW:HIGH; `backwards`, the other way round too."""
    low, colon, high = text.partition(":")
    if not colon:
        raise click.ClickException(f"{option} must be LOW:HIGH, e.g. -60:60; got {text!r}")
    ends = number(low, option), number(high, option)
    if not (ends[0] < ends[1] or (backwards and ends[0] > ends[1])):
        raise click.ClickException(f"{option}: the low end must be below the high one; got {text!r}")
    return ends


def number(text: str, option: str) -> float:
    """Read a number."""
    try:
        return float(text)
    except ValueError:
        raise click.ClickException(f"{option}: {text!r} is not a number") from None


def tell_timing(policy: Policy, rate: float, *, turns: bool, cuts: bool = False) -> int:
    """Say how long a policy waits, or how far it aims ahead, at a rate if it has none itself, and return its lead.

    Where a head turns now it cannot wait; where a picture is cut at once, it need not aim ahead.
    """
    from simile.data.timing import tell_lead
    from simile.policies.policies import timing

    lead, _ = timing(policy)
    told = f"the policy {tell_lead(lead, policy.card.rate or rate)}"
    if lead < 0 and turns:
        raise click.ClickException(f"{told}, and a head turns now: learn one with lead=0, or above (--lead)")
    if lead > 0 and cuts:
        raise click.ClickException(
            f"{told}, for a head that is late, and --out cuts at once: learn one with lead=0, or below (--lead)"
        )
    options.say([told] if lead else [])
    return lead
