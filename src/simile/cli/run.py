"""`simile run`: contexts come in on stdin, an action goes out on stdout for each, as they come."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

import click

from simile._common import files
from simile.cli import MISTAKE, options
from simile.errors import DataError, SimileError

if TYPE_CHECKING:
    from simile.online import Predictor
    from simile.policies.policies import Policy

UNSURE = "unsure"  # field of an answer with a band
LONGEST = 1 << 20  # bytes of a row; what has no end must not fill the memory


@click.command(short_help="Act online: contexts on stdin, actions on stdout.")
@options.policy_argument
@options.config_option
@click.option("--time", help="Field that holds the time in seconds; without it, every row is one frame.")
@options.time_unit_option
@click.option("--rate", type=float, help="Frames per second; the training data's by default.")
@click.option(
    "--start",
    multiple=True,
    type=float,
    show_default="within what experts did in the first frames of recordings",
    help="Where the actuator stands, one number per action.",
)
@click.option("--gap", default="Extrapolate()", help="What to do in a dropped frame (an empty row).")
@options.stage_option
@options.record_options
@click.option(
    "--plan",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="For a policy that knows contexts ahead: these, a row for each frame; without it, rows bring 'name[t+5]', ...",
)
@click.option("--seed", type=click.IntRange(0), default=0, help="For stochastic policies.")
@options.band_option
@options.policy_options
@click.pass_context
def run(
    ctx: click.Context,
    /,
    policy: Path,
    trust: tuple[str, ...],
    max_memory: float | None,
    time: str | None,
    **given: Any,
) -> None:
    """Run POLICY online: contexts on stdin, actions on stdout, each as soon as it can be.

    Rows are CSV with a header, or JSON lines; the answer is of the same kind, and every line gets one. Fields are
    found by name, blanks and case aside; others are ignored. An empty row is a dropped frame, which the policy
    bridges. So is a row that cannot be read, but then a message goes to stderr and the exit code is 2 at the end. With
    --band fields ACTION_low and ACTION_high stand beside the actions, and `unsure`, 1 where the policy doubts.

    A policy with a lead acts for another row than the one it has just read; the field `for` says for which: its number,
    counted from 1, or with --time its time. While the policy waits, answers are empty; when the input has ended, those
    that are still due follow, as if the last row had lasted.
    """
    from simile.data.reading.clock import UNITS
    from simile.learning.recipes import parse
    from simile.online import Predictor
    from simile.policies.policies import recorded_names, timing

    found = options.load_policy(policy, trust, max_memory)
    names = found.card.context_names
    if not names:
        raise click.ClickException(f"{policy} does not say which columns it was trained on")
    if sys.stdin is None or sys.stdout is None:
        raise click.ClickException("stdin and stdout must be open: contexts come in there, and actions go out")
    if given["band"] is not None:
        options.check_band(found, more=(UNSURE,))
    lead, actions = timing(found)[0], found.card.action_names
    plan = None if given["plan"] is None else _read_plan(given["plan"], found)
    names = names if plan is None else recorded_names(found)
    wire = Wire.open(sys.stdin.buffer, sys.stdout, actions, banded=given["band"] is not None, aimed=lead != 0)
    if time is None and given["time_unit"] is not None:
        raise click.ClickException("--time-unit needs the field of time: name it with --time")
    wire.check((*names, *(() if time is None else (time,))))
    with options.recording(given, policy) as recorder:
        predictor = Predictor(
            found,
            start=list(given["start"]) or None,
            gap=parse(given["gap"], "gap"),
            stages=options.stages_of(given["stage"]),
            rate=given["rate"],
            seed=given["seed"],
            recorder=recorder,
            name="run",
            plan=plan,
        )
        aim = Aim(lead, given["rate"] or found.card.rate, UNITS[given["time_unit"] or "s"])
        bad = _stream(predictor, wire, names, time, aim, given["band"])
    if bad:
        click.echo(f"simile: {bad} rows could not be used; the messages above say why", err=True)
        ctx.exit(MISTAKE)


def _read_plan(path: Path, policy: Policy) -> dict[str, list[float]]:
    """Read what is known ahead, a row for each frame, as rows are read that come in."""
    from simile.policies.policies import recorded_names, timing

    raw, (_, known) = recorded_names(policy), timing(policy)
    names = list(dict.fromkeys(raw[column] for column, _ in known))
    with _naming(path), files.open_regular(path, longest=files.LONGEST) as file:
        wire = Wire.open(file, io.StringIO(), (), banded=False, aimed=False)
        wire.check(tuple(names))
        told: list[list[float]] = []
        for number, row in enumerate(wire.rows(), start=1):
            if isinstance(row, DataError):
                raise row
            told.append([read_field(row, name, number) for name in names])
        if not told:
            raise DataError(f"it must have a row for each frame, with {', '.join(names)}; got none")
    return {name: [row[i] for row in told] for i, name in enumerate(names)}


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Let mistakes in a file be told as such: rows usually come from stdin."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error)
        raise DataError(f"--plan: {path}: {reason.removeprefix('stdin: ')}") from None


def _stream(
    predictor: Predictor,
    wire: Wire,
    names: tuple[str, ...],
    time: str | None,
    aim: Aim,
    band: float | None,
) -> int:
    """Answer every row, and what is due at the end; return how many could not be used."""
    bad, slips, per_second = 0, Slips(predictor), aim.per_second
    number = 0
    last: float | None = None
    for number, row in enumerate(wire.rows(), start=1):
        t = None
        try:
            if isinstance(row, DataError):
                raise row
            t = None if time is None else read_field(row, time, number) / per_second
            if t is not None and slips.undo(t):
                bad += 1
                click.echo(f"simile: stdin: row {number - 1}: its time was a slip: {t:g} s came after it", err=True)
            x = None if row.keys() <= {time} else [read_field(row, name, number) for name in names]
            action: Any = predictor.step(x, t=t, band=band)
            slips.note(t)
        except SimileError as error:
            bad += 1
            said = error if isinstance(error, DataError) else f"stdin: row {number}: {error}"
            click.echo(f"simile: {said}", err=True)
            action = _bridge(predictor, t, band, stamped=time is not None)
        wire.answer(action, aim(number, t, aim.lead))
        last = last if t is None else t
    due = _flush(predictor, band)
    for left, action in zip(range(len(due) - 1, -1, -1), due, strict=True):
        wire.answer(action, aim(number, last, -left))
    return bad


def _flush(predictor: Predictor, band: float | None) -> list[Any]:
    """Return the answers that are due when the input has ended, one for each row that has none."""
    if band is None:
        return list(predictor.flush())
    due = predictor.flush(band=band)
    return [
        replace(due, actions=a, low=low, high=high, unsure=u) for a, low, high, u in zip(*astuple(due), strict=True)
    ]


@dataclass(frozen=True)
class Aim:
    """Which row an answer is for."""

    lead: int  # how many rows after the one that was read
    rate: float | None
    per_second: float  # units of the field of time

    def __call__(self, number: int, t: float | None, frames: int) -> float:
        """Return the number of the row so many frames after another or, where the time of that is known, its time."""
        return number + frames if t is None else round((t + frames / (self.rate or 1.0)) * self.per_second, 6)


@dataclass
class Slips:
    """One stamp far ahead of its time must not make all that come after it late."""

    predictor: Predictor
    now: float = math.nan
    before: tuple[float, Any] = (math.nan, None)  # the stamp before a jump, and the predictor as it was then

    def undo(self, t: float) -> bool:
        """Go back to where the predictor was before the latest stamp, where that jumped and t did not."""
        from simile.online.clock import LONGEST_PAUSE

        last, state = self.before
        if slipped := last < t <= self.now:
            self.predictor.load_state_dict(state)
            self.now = last
        jumps = t - self.now > LONGEST_PAUSE
        self.before = (self.now, self.predictor.state_dict()) if jumps else (math.nan, None)
        return slipped

    def note(self, t: float | None) -> None:
        """Note a stamp that was taken."""
        self.now = math.nan if t is None else t


def _bridge(predictor: Predictor, t: float | None, band: float | None, *, stamped: bool) -> Any:
    """Act in a frame that brought nothing; None where nothing is known yet, or where its time is not."""
    try:
        return None if stamped and t is None else predictor.step(None, t=t, band=band)
    except SimileError:
        return None


def read_field(row: Mapping[str, Any], name: str, number: int) -> float:
    """Read a field of a row, as `simile train` would."""
    from simile.data.names import recognise
    from simile.data.reading.columns import list_names
    from simile.data.reading.values import not_a_number, to_number

    if name not in row:
        meant = list(recognise([name], list(row)))
        if not meant:
            raise DataError(f"stdin: row {number} has no field {name!r}; it has {list_names(list(row))}")
        return read_field(row, meant[0], number)
    try:
        return to_number(row[name])
    except ValueError:
        raise DataError(f"stdin: row {number}, field {name!r}: {not_a_number(row[name])}") from None


@dataclass
class Wire:
    """Rows in, actions out, in CSV or JSON lines: as the first line says."""

    lines: Iterator[str | DataError]
    sink: TextIO
    action_names: tuple[str, ...]
    first: str
    banded: bool = False
    aimed: bool = False
    decimal: str = ""  # what stands before decimals; not known before the first of them

    @classmethod
    def open(
        cls,
        source: BinaryIO,
        sink: TextIO,
        action_names: tuple[str, ...],
        *,
        banded: bool = False,
        aimed: bool = False,
    ) -> Wire:
        """Look at the first line that is not empty; CSV must begin with a header."""
        lines = _read_lines(source)
        first = next((line for line in lines if isinstance(line, DataError) or line.strip("\ufeff\r\n \t")), "")
        if isinstance(first, DataError):
            raise first
        return cls(lines, sink, action_names, first.removeprefix("\ufeff"), banded, aimed)

    def check(self, names: tuple[str, ...]) -> None:
        """Refuse a CSV header without one of these fields, and answer one that has them by a header of our own."""
        from simile.data.names import recognise
        from simile.data.reading.columns import list_names

        if not self.first or self.is_json:
            return
        meant = recognise(names, self.header)
        self.header[:] = [meant.get(name, name) for name in self.header]
        if missing := [name for name in names if name not in self.header]:
            raise DataError(
                f"stdin: the header has no field {missing[0]!r} ({len(missing)} of {len(names)} are missing); it has "
                f"{list_names(self.header)}"
            )
        if twice := [name for name in names if self.header.count(name) > 1]:
            raise DataError(f"stdin: the header has the field {twice[0]!r} twice: rename one of the two")
        self._send(_csv(self.fields))

    @property
    def fields(self) -> tuple[str, ...]:
        """What an answer is made of."""
        names = self.action_names
        ends = (*options.name_ends(names), UNSURE) if self.banded else ()
        return (*names, *ends, *(("for",) if self.aimed else ()))

    @cached_property
    def header(self) -> list[str]:
        """The fields that the first line of CSV names."""
        return _split(self.first, self.delimiter, "the header")

    @cached_property
    def delimiter(self) -> str:
        """What stands between the fields of CSV."""
        from simile.data.reading.text import find_delimiter

        return find_delimiter(self.first)

    @property
    def is_json(self) -> bool:
        """Whether the rows are JSON objects."""
        return self.first.lstrip().startswith("{")

    def rows(self) -> Iterator[dict[str, Any] | DataError]:
        """Yield the rows by field name; one that cannot be read as the error that says why."""
        for number, line in enumerate(chain([self.first] if self.is_json else [], self.lines), start=1):
            if isinstance(line, DataError):
                yield DataError(f"stdin: row {number}: {line}")
                continue
            try:
                yield self._parse(line, number) if line.strip() else {}
            except DataError as error:
                yield error

    def _parse(self, line: str, number: int) -> dict[str, Any]:
        from simile.data.reading.text import parse_record, spread_lists

        if self.is_json:
            return spread_lists(parse_record(line, f"stdin: row {number}"))
        fields = _split(line, self.delimiter, f"row {number}")
        if len(fields) != len(self.header):
            raise DataError(f"stdin: row {number} has {len(fields)} fields; the header has {len(self.header)}")
        return dict(zip(self.header, self._point(fields), strict=True))

    def _point(self, fields: list[str]) -> list[str]:
        """Return numbers with a point where the first decimals of the stream stand behind a comma."""
        from simile.data.reading.text import is_decimal

        if self.decimal == "" and self.delimiter != ",":
            self.decimal = next((mark for mark in ".," if any(is_decimal(field, mark) for field in fields)), "")
            if self.decimal == ",":
                click.echo("simile: stdin: numbers have a decimal comma: '1,5' is 1.5", err=True)
        if self.decimal != ",":
            return fields
        return [field.replace(",", ".") if is_decimal(field, ",") else field for field in fields]

    def answer(self, action: Any, meant: float) -> None:
        """Send one action (k,), or one with its band, at once, and for which row; empty fields where there is none."""
        values: list[float | None] = [None] * len(self.fields)
        if action is not None:
            parts = (action.actions, action.low, action.high) if self.banded else (action,)
            values = [float(a) for part in parts for a in part]
            values += [int(action.unsure)] if self.banded else []
            values += [meant] if self.aimed else []
        if self.is_json:
            self._send(json.dumps(dict(zip(self.fields, values, strict=True))))
        else:
            self._send(_csv(["" if value is None else repr(value) for value in values]))

    def _send(self, line: str) -> None:
        self.sink.write(line + "\n")
        self.sink.flush()


def _read_lines(source: BinaryIO) -> Iterator[str | DataError]:
    """Yield lines as they come: only LF ends one, so that a stray CR spoils no more than the row it is in."""
    while line := source.readline(LONGEST):
        if len(line) < LONGEST or line.endswith(b"\n"):
            yield line.decode("utf-8", "surrogateescape").removesuffix("\n")
            continue
        while line and not line.endswith(b"\n"):
            line = source.readline(LONGEST)
        yield DataError(f"more than {LONGEST:,} bytes without an end: a row is one line")


def _split(line: str, delimiter: str, what: str) -> list[str]:
    """Return the fields of one line of CSV."""
    from simile.data.reading.text import split_lines

    try:
        return next(split_lines([line], delimiter), [])
    except csv.Error as error:
        reason = str(error).partition(" - ")[0]  # what follows is for programmers
        raise DataError(f"stdin: {what} cannot be read as CSV: {reason}") from None


def _csv(fields: Sequence[str]) -> str:
    """Write one line of CSV, with quotes where they are needed."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()
