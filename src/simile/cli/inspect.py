"""`simile demo`, `inspect` and `bench`: see it work, see what a file holds, see how fast it is here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from simile.cli import options
from simile.cli.output import to_json

LISTED = 12  # numbers of a list that `inspect` shows; --json shows all


@click.command(short_help="Learn to film simulated games, and see how well it went.")
@click.option("--out", type=click.Path(path_type=Path), default="out", help="Folder to write.")
def demo(out: Path) -> None:
    """Simulate games, learn to film them, print how well it went, and write a picture and a page to watch."""
    from simile.experiments.demo import main

    main(out)


@click.command(short_help="Show what is in a policy file.")
@options.policy_argument
@options.json_option
def inspect(policy: Path, as_json: bool) -> None:
    """Show what is in a POLICY file: names, units, lags, smoothness, how it was trained. Nothing in it is run."""
    from simile.policies.storage.loading import read_header

    header = read_header(policy)
    click.echo(to_json(header) if as_json else "\n".join(_lines(header)))


def _lines(values: dict[str, Any], indent: str = "") -> list[str]:
    """Write nested facts as indented lines."""
    lines = []
    for name, value in values.items():
        if isinstance(value, dict):
            lines += [f"{indent}{name}", *_lines(value, indent + "  ")]
        else:
            text = _write_list(value) if isinstance(value, list) else _write_value(value)
            lines.append(f"{indent}{name:<{max(1, 20 - len(indent))}} {text}")
    # Names come from the file, and a terminal would obey control characters in them.
    return ["".join(c if c.isprintable() else repr(c)[1:-1] for c in line) for line in lines]


def _write_list(values: list[Any]) -> str:
    """Write a list in one line: names in full, and of many numbers the first few."""
    numbers = all(value is None or isinstance(value, float | int) for value in values)
    shown = values[:LISTED] if numbers and len(values) > LISTED else values
    more = f", ... ({len(values)} in all)" if len(shown) < len(values) else ""
    return ", ".join(map(_write_value, shown)) + more


def _write_value(value: Any) -> str:
    return "-" if value is None else str(value)


@click.command(short_help="Measure how fast a policy acts on this machine.")
@click.argument("policy", type=click.Path(path_type=Path), required=False)
@options.trust_option
@options.json_option
def bench(policy: Path | None, trust: tuple[str, ...], as_json: bool) -> None:
    """Measure how fast POLICY acts on this machine; without one, a policy of 100 trees, and how fast it is learned."""
    from simile.cli.speed import measure

    found = measure(None if policy is None else options.load_policy(policy, trust))
    lines = [f"{name:44} {value:12.4g}" for name, value in found.items()]
    click.echo(to_json(found) if as_json else "\n".join(lines))
