"""Comma, semicolon and tab separated text, streamed through pyarrow in blocks of one megabyte."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice
from typing import IO, Any

import numpy as np

from simile._common.needs import need
from simile._common.urls import File, Url, open_file
from simile.data.reading.tables import (
    WHOLE,
    Batch,
    Column,
    Place,
    Table,
    Wanted,
    decoding,
    quote,
    read_lines,
)
from simile.data.reading.values import MISSING, TAIL, as_batch, kind_of, look_like_values, no_header, no_label
from simile.errors import DataError

_DECIMAL = r"[+-]?\d*[{}]\d+(?:[eE][+-]?\d+)?"
_BLOCK = 1 << 20
_ROWS = 1 << 13
_SAMPLE = 1000  # rows that tell numbers from text
_LOOK = 1 << 24  # bytes that tell commas from points


def open_text(path: File) -> Table:
    """Open a .csv, .tsv or .txt file, or one of these as .gz."""
    delimiter = _delimiter(path)
    comma = None if delimiter == "," else _decimal_comma(path, delimiter)
    text = _Text(path, delimiter, comma is not None)
    notes = () if comma is None else (f"numbers have a decimal comma: {quote(comma)} is {comma.replace(',', '.')}",)
    return Table(path, text.columns(), text.scan, notes=notes)


@dataclass(frozen=True)
class _Text:
    path: File
    delimiter: str
    comma: bool  # in numbers, instead of a point

    def columns(self) -> tuple[Column, ...]:
        """Return the columns; their kinds are those of the first rows."""
        pa = need("pyarrow", "reading CSV")
        with decoding(self.path, "CSV"):
            try:
                names = self._reader({}, check_utf8=False).schema.names
                # As bytes: what the text columns that nobody asks for hold, and how encoded, does not matter.
                first = next(iter(self._reader(dict.fromkeys(names, pa.binary()))), None)
            except pa.ArrowInvalid:
                list(self._scan_slowly(Wanted(()), 1))  # which names the row that is too long or too short
                raise
            if len(set(names)) < len(names) and look_like_values(names):
                raise DataError(f"{self.path}: {no_header(names)}")
            if first is None:
                raise DataError(f"{self.path}: there is a header but no row below it")
            return tuple(
                Column(name, kind_of(self._decode(first.column(i).slice(0, _SAMPLE)))) for i, name in enumerate(names)
            )

    def _decode(self, column: Any) -> list[str]:
        return [self._point(value.decode(errors="replace")) for value in column.to_pylist()]

    def _point(self, text: str) -> str:
        """Return a number with a point."""
        return text.replace(",", ".") if self.comma and "." not in text else text

    def scan(self, wanted: Wanted) -> Iterator[Batch]:
        """Yield the wanted columns; the others are not parsed."""
        pa = need("pyarrow", "reading CSV")
        types = dict.fromkeys(wanted.names, pa.float64())
        types |= {name: pa.string() for name in (wanted.labels, wanted.group) if name is not None}
        if wanted.time is not None and (wanted.stamps or wanted.time_kind == WHOLE):
            types[wanted.time] = pa.string() if wanted.stamps else pa.int64()
        types |= dict.fromkeys(wanted.texts, pa.binary())
        row, checked = 1, False
        with decoding(self.path, "CSV"):
            try:
                for batch in self._reader(types, include_columns=[*wanted.names, *wanted.texts]):
                    values = {n: _values(batch.column(n)) for n in wanted.names}
                    tail = batch.slice(max(0, batch.num_rows - TAIL))
                    values |= {n: self._decode(tail.column(n)) for n in wanted.texts}
                    if not checked and wanted.labels is not None and "" in values[wanted.labels]:
                        self._check_labels(wanted.labels)
                        checked = True
                    yield as_batch(values, wanted, Place(self.path, row))
                    row += batch.num_rows
            except pa.ArrowInvalid:
                yield from self._scan_slowly(wanted, row)

    def _scan_slowly(self, wanted: Wanted, first: int) -> Iterator[Batch]:
        """Yield the rows from `first` on, converted one by one: pyarrow takes less than we do, or a row is wrong."""
        with _open(self.path) as file:
            lines = io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="")
            rows = (row for row in split_lines(read_lines(lines, self.path), self.delimiter) if row)
            header = next(rows, [])
            for number in count(1, _ROWS):
                if not (some := list(islice(rows, _ROWS))):
                    return
                for i, row in enumerate(some, start=number):
                    if len(row) != len(header):
                        raise DataError(
                            f"{self.path}: row {i}: {len(row)} fields, but the header has {len(header)}: "
                            "add or remove delimiters there, and quote texts that hold one"
                        )
                place, skipped = Place(self.path, max(first, number)), max(0, first - number)
                columns = dict(zip(header, zip(*some[skipped:], strict=True), strict=False))
                if not columns:
                    continue
                labels = () if wanted.labels is None else columns[wanted.labels]
                if "" in labels:
                    self._check_labels(str(wanted.labels))
                for name in (wanted.labels, wanted.group):
                    for i, label in enumerate(() if name is None else columns[name]):
                        if not _is_utf8(label):
                            raise place.error(i, str(name), "not UTF-8 text: save the file as UTF-8")
                if self.comma:
                    for name in {*wanted.names, *wanted.texts} - {wanted.labels, wanted.group}:
                        columns[name] = tuple(map(self._point, columns[name]))
                yield as_batch(columns, wanted, place)

    def _reader(self, types: Mapping[str, Any], **convert: Any) -> Any:
        pa, pa_csv = need("pyarrow", "reading CSV"), need("pyarrow.csv", "reading CSV")
        settings = {"null_values": sorted(MISSING), "quoted_strings_can_be_null": True, **convert}
        source = self.path.open() if isinstance(self.path, Url) else str(self.path)
        return pa_csv.open_csv(
            pa.input_stream(source, compression="gzip" if self.path.suffix.lower() == ".gz" else None),
            read_options=pa_csv.ReadOptions(block_size=_BLOCK),
            parse_options=pa_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict(types), decimal_point="," if self.comma else ".", **settings
            ),
        )

    def _check_labels(self, column: str) -> None:
        """Refuse rows without a label; a quoted "" is one: a sequence may have the empty name."""
        pa = need("pyarrow", "reading CSV")
        only_bare = {"null_values": [""], "strings_can_be_null": True, "quoted_strings_can_be_null": False}
        row = 1
        for batch in self._reader({column: pa.string()}, include_columns=[column], **only_bare):
            if batch.column(0).null_count:
                raise Place(self.path, row).error(batch.column(0).is_null().to_pylist().index(True), column, no_label())
            row += batch.num_rows


def _values(column: Any) -> Any:
    if str(column.type) == "string":
        return column.to_pylist()
    # to_numpy imports pandas, wherever it is installed: as much time as all of a short file takes.
    return column.to_numpy(zero_copy_only=False) if column.null_count else np.from_dlpack(column)


def _open(path: File) -> IO[bytes]:
    if path.suffix.lower() != ".gz":
        return open_file(path)
    return gzip.open(path.open() if isinstance(path, Url) else path)  # type: ignore[return-value]


def _delimiter(path: File) -> str:
    """Return the delimiter of a file, by its header."""
    with decoding(path, "text"), _open(path) as file:
        start = file.read(_BLOCK)
    if not start.strip():
        raise DataError(f"{path}: the file is empty")
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{path}: UTF-16 text: save it as UTF-8")
    return find_delimiter(start.lstrip(b"\xef\xbb\xbf\r\n").decode("latin-1"))


def find_delimiter(start: str) -> str:
    """Return the delimiter of a header: the most frequent one outside of quotes."""
    quoted, counts = False, Counter[str]()
    for character in start:
        quoted ^= character == '"'
        if not quoted and character in "\r\n":
            break
        if not quoted and character in ",;\t":
            counts[character] += 1
    return max(",;\t", key=lambda d: counts[d])


def split_lines(lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    """Yield the fields of every row; csv.Error where quotes, ends of lines or lengths are wrong."""
    return csv.reader(lines, delimiter=delimiter, strict=True)


def _decimal_comma(path: File, delimiter: str) -> str | None:
    """Return the first number with a decimal comma; None if there is none, or if others have a point."""
    field = r"(?:^|{0})[ \"]*({1})[ \"]*(?=[{0}\r\n]|\Z)"
    patterns = (field.format(delimiter, _DECIMAL.format(mark)) for mark in ",.")
    comma, point = (re.compile(pattern.encode(), re.MULTILINE) for pattern in patterns)
    with decoding(path, "text"), _open(path) as file:
        start = file.read(_LOOK)
    if len(start) == _LOOK:
        start = start[: start.rfind(b"\n") + 1]  # whole lines
    found = comma.search(start) if b"," in start else None
    return None if found is None or point.search(start) else found[1].decode()


def is_decimal(text: str, mark: str) -> bool:
    """Whether a field is a number with this mark before its decimals."""
    return re.fullmatch(_DECIMAL.format(mark), text.strip()) is not None


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
