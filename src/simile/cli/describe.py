"""`simile describe`: what recorded data hold, how the expert moves, and how late it is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from simile.cli import options
from simile.cli.output import to_json

if TYPE_CHECKING:
    from simile.data.delays import Delay


@click.command(short_help="Show what recorded data hold, and how late the expert is.")
@options.data_argument
@options.config_option
@options.column_options
@options.reading_options
@click.option(
    "--effect",
    multiple=True,
    metavar="COMMAND=EFFECT",
    help="Columns of a command and of what it brings about: how late is that? May be repeated.",
)
@options.json_option
def describe(data: Any, effect: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Describe DATA: its columns, how the expert moves, and how late it is behind the contexts where that is clearest.

    With --effect it tells, too, how late the effect of a command is, such as the angle of a joint behind the angle it
    was sent to. These columns need be neither contexts nor actions.

    Damaged files are read as with --repair, and what was found and mended is told.
    """
    from simile.data.reading.columns import ReadOptions
    from simile.data.reading.reader import read_all
    from simile.errors import ArgumentError, DataError
    from simile.learning.runs import reading_arguments

    with options.bounded(given):
        how, refused = reading_arguments(given), []
        try:
            demos, summary = read_all(data, ReadOptions(**how))
        except (ArgumentError, DataError) as error:
            how, refused = {**how, "repair": True}, [f"as it is, it is refused: {error}"]
            demos, summary = read_all(data, ReadOptions(**how))
        found, notes = demos.describe(), [*refused, *summary.notes]
        effects = [_measure(data, how, *_split(pair)) for pair in effect]
    if as_json:
        delays, told = ([one.to_dict() for one in some] for some in (found.delays(), effects))
        click.echo(to_json({"columns": found.to_dict(), "delays": delays, "effects": told, "notes": notes}))
    else:
        click.echo("\n".join([*map(str, [found, *effects]), *(f"note       {note}" for note in notes)]))


def _split(pair: str) -> tuple[str, str]:
    command, _, effect = (part.strip() for part in pair.partition("="))
    if not command or not effect:
        raise click.ClickException(f"--effect must be COMMAND=EFFECT, two columns; got {pair!r}")
    return command, effect


def _measure(data: Any, how: dict[str, Any], command: str, effect: str) -> Delay:
    """Read both columns, and estimate how late one is behind the other."""
    from simile._common.text import escape
    from simile.data.delays import estimate_delay
    from simile.data.reading import read

    demos = read(data, **{**how, "actions": [command], "contexts": [effect]}, quiet=True)
    if demos.n_actions > 1 or demos.n_contexts > 1:
        raise click.ClickException(f"--effect: {command}={effect} must name one column each, not several")
    return replace(
        estimate_delay(demos.actions, demos.contexts, rate=demos.rate), cause=escape(command), effect=escape(effect)
    )
