"""`simile inspect`: what a policy file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from simile.cli import options
from simile.cli.output import to_json

LISTED = 12  # numbers of a list that `inspect` shows; --json shows all


@click.command(short_help="Show what is in a policy file.")
@options.policy_argument
@options.memory_option
@options.json_option
def inspect(policy: Path, max_memory: float | None, as_json: bool) -> None:
    """Show what is in a POLICY file: names, units, lags, smoothness, hold, how it was trained. Nothing in it is run."""
    from simile.policies.storage.loading import read_header

    header = read_header(policy, max_memory=max_memory)
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
