"""Mend what loggers, spreadsheets and people do to recordings, and count it by kind: `repair=True`."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile._common.urls import File
from simile.data.reading import values as convert
from simile.data.reading.clock import Timing, first_not_later
from simile.data.reading.sequences import Pieces, check_later
from simile.data.reading.tables import Chunk, Table, Types
from simile.data.reading.values import (
    MISSING,
    NUMBER,
    TEXT,
    WORDS,
    Place,
    Times,
    is_word,
    kind_of,
)
from simile.errors import DataError

_UNIT = re.compile(
    r"\[.*\]|\(.*\)|-|%|°C?|deg(ree)?s?(/s)?|rad(/s)?|[mµu]?s|sec(onds?)?|min|h|hours?|[cmk]?m(/s|/h|/s2|/s\^2|/s²)?|km/?h|mph|kn|"
    r"in(ch)?|f(ee)?t|px|pixels?|[km]?Hz|rpm|1/min|[km]?N|Nm|[khM]?Pa|m?bar|psi|[mk]?V|m?A|[mkM]?W|[kM]?Wh|J|kJ|K|degC|°F|"
    r"[mk]?g|t|l|l/(s|min|h)|m3|m³|m3/[sh]|m³/[sh]|counts?|units?|bool|int|float|string|text|frames?|name|label",
    re.IGNORECASE,
)
_HEADER_ROWS = 200  # lines among which the header is looked for
_FALLS = 10  # rows in a row behind an earlier one: the clock has begun anew
_DIFFER = 0.1  # share of the rows that may be late, or of the time of another: more is another order, or a coarse clock
_FEW = 3  # rows that may be late or have the time of another however few there are
_BRIDGED, _BRIDGED_SECONDS = 5, 0.5  # frames without an action that a line stands for, or seconds if that is more

MENDS = "; or let repair=True (--repair) mend it"
# The kinds of repairs, as they are told.
ENCODING = "texts that are not UTF-8 decoded"
PREAMBLE, UNITS = "lines above the header left out", "rows of units left out"
ODD = "rows with too few or too many fields dropped"
WORD = "words for missing values read as missing"
NO_DATA = "files that hold no data left out"
DUPLICATE, LATE = "duplicate rows dropped", "late rows put in order"
SAME = "rows with the time of another row dropped"
ANEW = "recordings cut where the clock begins anew"
OUTAGE = "recordings cut at outages of the clock"
BRIDGED, NO_ACTION = "missing actions bridged by lines", "rows without an action dropped, and recordings cut there"


@dataclass
class Repairs:
    """What was mended: by kind how often, and where first."""

    found: dict[str, tuple[int, str]] = field(default_factory=dict)

    def add(self, kind: str, n: int, path: File | str, row: int = 0, column: str = "") -> None:
        """Count what was mended from this place on."""
        count, first = self.found.get(kind, (0, ""))
        where = [str(getattr(path, "name", path)), f"row {row:,}" if row else "", column and f"column {column!r}"]
        if n:
            self.found[kind] = count + n, first or ", ".join(filter(None, where))

    def add_rows(self, kind: str, piece: Pieces, rows: IntArray, column: str = "") -> None:
        """Count rows of a sequence, of which these were mended."""
        if len(rows):
            self.add(kind, len(rows), piece.path, int(np.concatenate(piece.places)[rows].min()), column)

    @property
    def notes(self) -> list[str]:
        """A sentence on each kind."""
        return [f"repaired: {kind}: {n:,} (first: {first})" for kind, (n, first) in self.found.items()]


# --------------------------------------------------------------------------------------------------------------- text


def find_layout(start: str) -> tuple[str, int, bool]:
    """Return the delimiter of text, how many lines stand above the header, and whether units stand below it.

    By the delimiter most of the first lines have the same number of fields.
    """
    found = []
    for delimiter in ",;\t":
        lines = islice(io.StringIO(start, newline=""), _HEADER_ROWS)
        rows = [row for row in csv.reader(lines, delimiter=delimiter) if row]
        widths = Counter(len(row) for row in rows if len(row) > 1)
        width, count = max(widths.items(), key=lambda item: item[::-1], default=(1, 0))
        found.append((count, width, delimiter, rows))
    _, width, delimiter, rows = max(found, key=lambda one: one[:2])
    return delimiter, *_find_header(rows, width)


def _find_header(rows: Sequence[Sequence[str]], width: int) -> tuple[int, bool]:
    """Return which row is the header, and whether units stand below it."""
    whole = [i for i, row in enumerate(rows) if len(row) == width] or [0]
    for i, below in zip(whole, [*whole[1:], None], strict=True):
        units = below is not None and _are_units(rows[below])
        values = below + units if below is not None else len(rows)
        names = [name.strip() for name in rows[i]]
        if values < len(rows) and all(names) and not _holds_number(names) and _holds_number(rows[values]):
            return i, units
    return whole[0], len(whole) > 1 and _are_units(rows[whole[1]])


def _are_units(row: Sequence[str]) -> bool:
    cells = list(filter(None, (cell.strip() for cell in row)))
    return bool(cells) and all(map(_UNIT.fullmatch, cells))


def _holds_number(row: Sequence[str]) -> bool:
    return any(cell.strip() not in MISSING and kind_of([cell]) != TEXT for cell in row)


# --------------------------------------------------------------------------------------- words among numbers, files


def mend_words(table: Table, repairs: Repairs, *, typed: bool = True) -> Table:
    """Return a table in whose numbers the words for missing are missing.

    Where columns are `typed`, those of text that hold nothing else are of numbers.
    """
    spoiled = _find_numbers_with_words(table) if typed else set()

    def scan(types: Types, watched: Sequence[str] = ()) -> Iterator[Chunk]:
        for chunk in table.scan(types, watched):
            numbers = [name for name, kind in types.items() if kind in (float, int)]
            mended = {name: _remove_words(chunk.values[name], name, chunk.place, repairs) for name in numbers}
            yield replace(chunk, values={**chunk.values, **mended})

    columns = tuple(replace(c, kind=NUMBER) if c.name in spoiled else c for c in table.columns)
    return replace(table, columns=columns, scan=scan)


def _remove_words(values: Any, name: str, place: Place, repairs: Repairs) -> Any:
    """Return the values of a column without words."""
    values = convert.plain(values)
    if isinstance(values, np.ndarray) and values.dtype.kind in "OU":
        values = values.tolist()
    if isinstance(values, np.ndarray):
        return values
    if isinstance(values, list):
        at = [i for i, v in enumerate(values) if is_word(v)]
        values = [None if is_word(v) else v for v in values] if at else values
    else:
        spoiled = _are_words(values)
        at, values = spoiled.arg_true().to_list(), values.set(spoiled, None)
    if at:
        repairs.add(WORD, len(at), place.path, place.row(at[0]), name)
    return values


def _are_words(texts: Any) -> Any:
    return texts.str.strip_chars().str.to_lowercase().is_in(list(WORDS)).fill_null(False)


def _find_numbers_with_words(table: Table) -> set[str]:
    """Return the columns of text that hold nothing but numbers and words for missing ones."""
    import polars as pl

    left = {c.name: (False, False) for c in table.columns if c.kind == TEXT}
    for chunk in table.scan(dict.fromkeys(left, str)) if left else ():
        for name, (words, numbers) in list(left.items()):
            texts = chunk.labels(name, optional=True).cast(pl.String).drop_nulls()
            found = _are_words(texts)
            rest = texts.filter(~found).str.strip_chars()
            rest = rest.filter(~rest.is_in(list(MISSING)))
            left[name] = words or found.any(), numbers or bool(len(rest))
            if rest.cast(pl.Float64, strict=False).null_count():
                del left[name]
        if not left:
            break
    return {name for name, both in left.items() if all(both)}


def leave_out_unrelated_tables(tables: list[Table], repairs: Repairs) -> list[Table]:
    """Return the tables of numbers that have columns in common, where some have."""
    names = [{c.name for c in table.columns if c.is_numeric} for table in tables]
    counts = Counter(name for some in names for name in some)
    kept = [t for t, some in zip(tables, names, strict=True) if any(counts[name] > 1 for name in some)]
    if not kept:
        return tables
    for table in tables:
        repairs.add(NO_DATA, int(table not in kept), table.path)
    return kept


# -------------------------------------------------------------------------------------------------------- rows in time


def mend_rows(piece: Pieces, repairs: Repairs, column: str) -> list[Pieces]:
    """Return a sequence in the order of its clock, with one row for each time, cut where the clock begins anew."""
    times: Times = np.concatenate(piece.times) if piece.times else np.empty(0)
    if first_not_later(times) is None:
        return [piece]
    places, values = np.concatenate(piece.places), np.hstack([np.vstack(piece.contexts), np.vstack(piece.actions)])
    found: list[Pieces] = []
    begin = 0
    while begin < len(times):
        n, kept, *mended = _sort_rows(times[begin:], values[begin:])
        if len(mended[1]) + len(mended[2]) > max(_FEW, _DIFFER * n):
            check_later(times[begin:], Place(piece.path, rows=places[begin:]), column)
        for kind, at in zip((DUPLICATE, LATE, SAME), mended, strict=True):
            repairs.add_rows(kind, piece, begin + at, column)
        repairs.add_rows(ANEW, piece, np.array([begin] * bool(begin), int), column)
        found.append(piece.take(begin + kept, name=f"{piece.name}/{len(found)}"))
        begin += n
    return [replace(found[0], name=piece.name)] if len(found) == 1 else found


def _sort_rows(times: Times, values: FloatArray) -> tuple[int, IntArray, IntArray, IntArray, IntArray]:
    """Return before which row the clock begins anew, which rows before it are kept, in order, and which were odd.

    That is, which stand there twice, are late, and have the time of another row.
    """
    import polars as pl

    clock = times.view(np.int64) if times.dtype.kind == "M" else times
    frame = pl.DataFrame({"t": clock, **{str(i): column for i, column in enumerate(values.T)}})
    twice = ~frame.select(pl.struct(pl.all()).is_first_distinct()).to_series().to_numpy()
    late = clock < np.maximum.accumulate(clock)
    single, end = np.flatnonzero(~twice), len(times)
    for run in np.split(single, np.flatnonzero(np.diff(late[single])) + 1):
        if len(run) >= _FALLS and late[run[0]] and (np.diff(clock[run]) > 0).mean() > 1.0 - _DIFFER:
            end = int(run[0])
            while twice[end - 1] and late[end - 1]:
                end -= 1
            break
    single = single[single < end]
    order = single[np.argsort(clock[single], kind="stable")]
    same = np.append(False, np.diff(clock[order]) == 0)
    return end, order[~same], np.flatnonzero(twice[:end]), single[late[single]], np.sort(order[same])


def mend_actions(pieces: Sequence[Pieces], timing: Timing, repairs: Repairs, *, cut: bool) -> Timing:
    """Bridge short gaps in the actions of sequences, in place, and cut the parts of the timing at long ones.

    Where outages were `cut`, these are counted.
    """
    rate = timing.rate if timing.column is None else timing.column.rate or timing.rate
    most = max(_BRIDGED, round(_BRIDGED_SECONDS * (rate or 0.0)))
    parts = []
    for piece, whole in zip(pieces, timing.parts, strict=True):
        actions, own = np.concatenate(piece.actions), whole
        missing = np.asarray(np.isnan(actions).any(axis=1))
        if cut:
            repairs.add_rows(OUTAGE, piece, np.array([part.start for part in whole[1:]], int))
        if missing.any():
            known = [part.start + np.flatnonzero(~missing[part]) for part in whole]
            runs = [run for rows in known for run in np.split(rows, np.flatnonzero(np.diff(rows) > most + 1) + 1)]
            own = [slice(int(run[0]), int(run[-1]) + 1) for run in runs if len(run)]
            inside = np.zeros(len(actions), bool)
            for part in own:
                inside[part], rows = True, np.arange(part.start, part.stop)
                for a in actions.T:
                    there = np.flatnonzero(~np.isnan(a[part]))
                    a[part] = np.interp(rows, rows[there], a[part][there])
            repairs.add_rows(BRIDGED, piece, np.flatnonzero(missing & inside))
            repairs.add_rows(NO_ACTION, piece, np.flatnonzero(~inside))
            piece.actions[:] = [actions]
        parts.append(own)
    if not any(parts):
        raise DataError(f"{pieces[0].path}: no row has all actions: name those that were recorded with actions=...")
    return replace(timing, parts=parts)
