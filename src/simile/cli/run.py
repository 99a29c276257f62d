"""`simile run`: contexts come in on stdin, an action goes out on stdout for each, as they come."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from simile.cli import MISTAKE, options
from simile.errors import DataError, SimileError

if TYPE_CHECKING:
    from simile.online import Predictor


@click.command(short_help="Act online: contexts on stdin, actions on stdout.")
@options.policy_argument
@options.config_option
@click.option("--time", help="Field that holds the time in seconds; without it, every row is one frame.")
@click.option("--rate", type=float, help="Frames per second; the training data's by default.")
@click.option("--start", multiple=True, type=float, help="Where the actuator stands, one number per action.")
@click.option("--gap", default="Extrapolate()", help="What to do in a dropped frame (an empty row).")
@click.option("--stage", multiple=True, help="Actuator limit, e.g. 'RateLimit(30.0)'. May be repeated; kept in order.")
@click.option("--seed", type=click.IntRange(0), default=0, help="For stochastic policies.")
@options.trust_option
@click.pass_context
def run(ctx: click.Context, /, policy: Path, trust: tuple[str, ...], time: str | None, **given: Any) -> None:
    """Run POLICY online: contexts on stdin, actions on stdout, each as soon as it can be.

    Rows are CSV with a header, or JSON lines; the answer is of the same kind. Fields are found by name, others are
    ignored. An empty row is a dropped frame, which the policy bridges. So is a row that cannot be read, but then a
    message goes to stderr and the exit code is 2 at the end.
    """
    from simile.learning.recipes import parse
    from simile.online import Predictor

    found = options.load_policy(policy, trust)
    predictor = Predictor(
        found,
        start=list(given["start"]) or None,
        gap=parse(given["gap"], "gap"),
        stages=tuple(parse(text, "stage") for text in given["stage"]),
        rate=given["rate"],
        seed=given["seed"],
    )
    names = found.card.context_names
    if not names:
        raise click.ClickException(f"{policy} does not say which columns it was trained on")
    wire = Wire.open(sys.stdin, sys.stdout, found.card.action_names)
    wire.check((*names, *(() if time is None else (time,))))
    bad = _stream(predictor, wire, names, time)
    if bad:
        click.echo(f"simile: {bad} rows could not be used; the messages above say why", err=True)
        ctx.exit(MISTAKE)


def _stream(predictor: Predictor, wire: Wire, names: tuple[str, ...], time: str | None) -> int:
    """Answer every row; return how many could not be used."""
    bad = 0
    for number, row in enumerate(wire.rows(), start=1):
        try:
            if isinstance(row, DataError):
                raise row
            x, t = _context(row, names, time, number)
            wire.answer(predictor.step(x, t=t))
        except SimileError as error:
            bad += 1
            click.echo(f"simile: {error}", err=True)
            wire.answer(_bridge(predictor, time))
    return bad


def _bridge(predictor: Predictor, time: str | None) -> Any:
    """Act in a frame that brought nothing; None where nothing is known yet, or where its time is not."""
    try:
        return None if time is not None else predictor.step(None)
    except SimileError:
        return None


def _context(
    row: dict[str, Any], names: tuple[str, ...], time: str | None, number: int
) -> tuple[list[float] | None, float | None]:
    """Pick the context and the time out of a row; an empty row has no context."""
    from simile.data.reading.values import not_a_number, to_number

    def read(name: str) -> float:
        if name not in row:
            raise DataError(f"stdin: row {number} has no field {name!r}; it has {', '.join(row)}")
        try:
            return to_number(row[name])
        except ValueError:
            raise DataError(f"stdin: row {number}, field {name!r}: {not_a_number(row[name])}") from None

    t = None if time is None else read(time)
    return None if row.keys() <= {time} else [read(name) for name in names], t


@dataclass
class Wire:
    """Rows in, actions out, in CSV or JSON lines: as the first line says."""

    source: TextIO
    sink: TextIO
    action_names: tuple[str, ...]
    first: str

    @classmethod
    def open(cls, source: TextIO, sink: TextIO, action_names: tuple[str, ...]) -> Wire:
        """Look at the first line that is not empty; CSV must begin with a header."""
        return cls(source, sink, action_names, next((line for line in source if line.strip()), ""))

    def check(self, names: tuple[str, ...]) -> None:
        """Refuse a CSV header without one of these fields, and answer one that has them by a header of our own."""
        if not self.first or self.is_json:
            return
        if missing := [name for name in names if name not in self.header]:
            raise DataError(
                f"stdin: the header has no field {missing[0]!r} ({len(missing)} of {len(names)} are missing); it has "
                f"{', '.join(self.header)}"
            )
        self._send(_csv(self.action_names))

    @property
    def header(self) -> list[str]:
        """The fields that the first line of CSV names."""
        return next(csv.reader([self.first]), [])

    @property
    def is_json(self) -> bool:
        """Whether the rows are JSON objects."""
        return self.first.lstrip().startswith("{")

    def rows(self) -> Iterator[dict[str, Any] | DataError]:
        """Yield the rows by field name; one that cannot be read as the error that says why."""
        if self.is_json:
            yield self._object(self.first, 1)
            for number, line in enumerate(self.source, start=2):
                yield self._object(line, number) if line.strip() else {}
            return
        header = self.header
        for number, line in enumerate(self.source, start=1):
            fields = next(csv.reader([line]), [])
            if not fields:
                yield {}
            elif len(fields) != len(header):
                yield DataError(f"stdin: row {number} has {len(fields)} fields; the header has {len(header)}")
            else:
                yield dict(zip(header, fields, strict=True))

    def answer(self, action: Any) -> None:
        """Send one action (k,), at once; empty fields where there is none."""
        values = [None] * len(self.action_names) if action is None else [float(a) for a in action]
        if self.is_json:
            self._send(json.dumps(dict(zip(self.action_names, values, strict=True))))
        else:
            self._send(_csv(["" if value is None else repr(value) for value in values]))

    def _send(self, line: str) -> None:
        self.sink.write(line + "\n")
        self.sink.flush()

    def _object(self, line: str, number: int) -> dict[str, Any] | DataError:
        try:
            found = json.loads(line)
        except ValueError as error:
            return DataError(f"stdin: row {number} is no JSON: {error}")
        return found if isinstance(found, dict) else DataError(f"stdin: row {number} is no JSON object: {line.strip()}")


def _csv(fields: Sequence[str]) -> str:
    """Write one line of CSV, with quotes where they are needed."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()
