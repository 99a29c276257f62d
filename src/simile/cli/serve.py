"""`simile serve`: a policy as a service for many streams at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simile.cli import options

if TYPE_CHECKING:
    from simile.serving.openapi import PolicyFacts

FILE = click.Path(path_type=Path, dir_okay=False)
POSITIVE = click.FloatRange(min=0.0, min_open=True)


@click.command(short_help="Serve a policy to many streams, over WebSocket and HTTP.")
@options.policy_argument
@options.config_option
@click.option("--host", default="127.0.0.1", help="Address to listen on; others need a token.")
@click.option("--port", type=click.IntRange(0, 65535), default=8770, help="Of streams; 0: any.")
@click.option("--http-port", type=click.IntRange(0, 65535), default=8771, help="Of HTTP; 0: none.")
@click.option("--token", envvar="SIMILE_TOKEN", show_envvar=True, help="Secret that everybody must show.")
@click.option("--token-file", type=FILE, help="File that holds it.")
@click.option("--insecure", is_flag=True, help="Let other machines in without a token.")
@options.host_option
@click.option("--certfile", type=FILE, help="Certificate (PEM), for TLS on both ports.")
@click.option("--keyfile", type=FILE, help="Its key (PEM).")
@click.option("--allow-origin", multiple=True, help="Web page that may use the service. May be repeated.")
@click.option("--gap", default="Extrapolate()", help="What to do in frames that do not come.")
@options.stage_option
@click.option("--rate", type=POSITIVE, help="Frames per second; the training data's by default.")
@click.option("--handover", type=click.FloatRange(min=0.0), default=1.0, help="Seconds of a reload.")
@click.option("--queue", type=click.IntRange(1), default=4, help="Frames of a stream that may wait.")
@click.option("--idle", type=POSITIVE, default=60.0, help="Seconds until a silent stream is forgotten.")
@click.option(
    "--patience",
    type=POSITIVE,
    default=30.0,
    help="Seconds until who reads nothing, or does not end a request, is cut.",
)
@click.option("--max-streams", type=click.IntRange(1), default=1024, help="Streams at a time.")
@click.option("--max-connections", type=click.IntRange(1), default=1024, help="Connections.")
@click.option(
    "--max-per-address",
    type=click.IntRange(1),
    help="Connections of one address, with as large a share of the streams; three quarters by default.",
)
@click.option("--max-message", type=click.IntRange(64), default=65536, help="Bytes of a message.")
@click.option(
    "--max-rate", type=POSITIVE, help="Frames per second of a stream; by default 10 x the rate, at least 1000."
)
@click.option("--snapshots", type=FILE, help="File that keeps the streams, for the next start to go on with them.")
@click.option("--snapshot-every", type=POSITIVE, default=5.0, help="Seconds between two.")
@options.record_options
@click.option(
    "--shadow",
    type=FILE,
    multiple=True,
    help="Policy that acts beside, on the same frames, and is never sent: GET /shadows compares. May be repeated.",
)
@click.option("--watch/--no-watch", default=True, help="Reload when the policy file is replaced.")
@options.policy_options
def serve(policy: Path, **given: Any) -> None:
    """Serve POLICY: every stream sends its contexts and gets an action for each, over a WebSocket.

    Streams are at /streams/NAME, one per connection, or many at /streams; a message is JSON or msgpack. HTTP has
    /health, /metrics, /rollouts and /openapi.json. A new policy file takes over without a jump (or SIGHUP); SIGTERM
    ends the service in good order.
    """
    from simile._common import logs
    from simile.learning.recipes import parse
    from simile.serving.guard import read_token
    from simile.serving.server import serve as run
    from simile.serving.state import Options

    logs.calm()
    options.check_record(given)
    token_file, stages = given.pop("token_file"), given.pop("stage")
    given |= {"origins": given.pop("allow_origin"), "hosts": given.pop("allow_host"), "shadows": given.pop("shadow")}
    if token_file is not None:
        given["token"] = read_token(token_file)
    gap = parse(given.pop("gap"), "gap")
    run(Options(policy, gap=gap, stages=options.stages_of(stages), **given), _announce)


def _announce(streams: str, http: str | None, policy: PolicyFacts) -> None:
    """Say where what is served."""
    from simile._common.text import escape
    from simile.data.timing import tell_lead

    rate = "" if policy.rate is None else f" at {policy.rate:g} Hz"
    lead = f"; {tell_lead(policy.lead, policy.rate)}" if policy.lead else ""
    click.echo(f"streams {streams}/NAME")
    if http is not None:
        click.echo(f"http    {http}")
    columns = f": {len(policy.contexts)} contexts to {escape(', '.join(policy.actions))}" if policy.contexts else ""
    click.echo(f"policy  {policy.digest[:12]}{columns}{rate}{lead}")
