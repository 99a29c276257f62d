"""JSON lines: one object per row; lists of numbers are spread over one column per element."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from simile._common.urls import File, open_file
from simile.data.reading.tables import (
    NUMERIC,
    Batch,
    Column,
    Place,
    Table,
    Wanted,
    decoding,
    elements,
    quote,
    read_lines,
)
from simile.data.reading.values import TAIL, as_batch, kind_of
from simile.errors import DataError

_ROWS = 1 << 13
_SAMPLE = 1000  # values of a column that tell its kind


def open_records(path: File) -> Table:
    """Open a JSON lines file; keys may be left out of a row where they are missing."""
    columns = _columns(path)
    parents = {
        c.name: (key, i if len(group) > 1 else None) for key, group in columns.items() for i, c in enumerate(group)
    }

    def scan(wanted: Wanted) -> Iterator[Batch]:
        rows, first = _rows(path), 1
        while batch := list(islice(rows, _ROWS)):
            place = Place(path, first)
            values = {n: _column(batch, *parents[n], len(columns[parents[n][0]]), place) for n in wanted.names}
            values |= {n: [row.get(n) for row in batch[-TAIL:]] for n in wanted.texts}
            yield as_batch(values, wanted, place)
            first += len(batch)

    return Table(path, tuple(c for group in columns.values() for c in group), scan)


def _rows(path: File) -> Iterator[dict[str, Any]]:
    row = 0
    with decoding(path, "JSON lines"), open_file(path) as file:
        for number, line in enumerate(read_lines(file, path)):
            text = line.decode("utf-8-sig" if number == 0 else "utf-8").strip()
            if not text:
                continue
            row += 1
            yield parse_record(text, f"{path}: row {row}")


def parse_record(line: str, place: str) -> dict[str, Any]:
    """Return the object of a line."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: not JSON: {error}: one object per line is wanted") from None
    if not isinstance(value, dict):
        raise DataError(f'{place}: {quote(value)} is not an object: write rows as {{"name": value, ...}}')
    return value


def spread_lists(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of one row by the names of their columns.

    >>> spread_lists({"ball": [1.5, 2.0], "wind": 3})
    {'ball.0': 1.5, 'ball.1': 2.0, 'wind': 3}
    """
    flat: dict[str, Any] = {}
    for key, value in record.items():
        values = value if isinstance(value, list) else [value]
        flat |= zip((c.name for c in elements(key, len(values), "")), values, strict=True)
    return flat


def _columns(path: File) -> dict[str, list[Column]]:
    """Return the columns of every key, from a first pass over the file."""
    samples: dict[str, list[Any]] = {}
    empty = True
    for row in _rows(path):
        empty = False
        for key, value in row.items():
            seen = samples.setdefault(key, [])
            if value is not None and len(seen) < _SAMPLE:
                seen.append(value)
    if empty:
        raise DataError(f"{path}: the file is empty")
    return {key: _columns_of(key, values) for key, values in samples.items()}


def _columns_of(key: str, values: list[Any]) -> list[Column]:
    if any(isinstance(v, dict) for v in values):
        return [Column(key, "objects", key)]
    if not values or not isinstance(values[0], list):
        return [Column(key, kind_of(values), key)]
    kind = kind_of(element for v in values if isinstance(v, list) for element in v)
    if kind not in NUMERIC or not values[0]:
        return [Column(key, "lists", key)]
    return elements(key, len(values[0]), kind)


def _column(rows: list[dict[str, Any]], key: str, index: int | None, width: int, place: Place) -> list[Any]:
    """Return the values under a key, or the elements at `index` of the lists under it."""
    values = [row.get(key) for row in rows]
    for i, value in enumerate(values):
        if value is None:
            continue
        if isinstance(value, list) and len(value) != width:
            raise place.error(i, key, f"a list of {len(value)} elements among lists of {width}: make them equal")
        if index is not None and not isinstance(value, list):
            raise place.error(i, key, f"{quote(value)} among lists of {width}: make it a list")
        values[i] = value[0 if index is None else index] if isinstance(value, list) else value
    return values
