"""`simile bench`: how fast a policy is on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from simile.cli import options
from simile.cli.output import to_json


@click.command(short_help="Measure how fast a policy acts on this machine.")
@click.argument("policy", type=click.Path(path_type=Path), required=False)
@options.policy_options
@options.json_option
def bench(policy: Path | None, trust: tuple[str, ...], max_memory: float | None, as_json: bool) -> None:
    """Measure how fast POLICY acts on this machine; without one, a policy of 100 trees, and how fast it is learned."""
    from simile.cli.speed import measure

    found = measure(None if policy is None else options.load_policy(policy, trust, max_memory))
    lines = [f"{name:44} {value:12.4g}" for name, value in found.items()]
    click.echo(to_json(found) if as_json else "\n".join(lines))
