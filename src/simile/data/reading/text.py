"""Text: comma, semicolon and tab separated values, parsed by polars in blocks of whole rows, and JSON lines."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import IO, Any

import numpy as np

from simile._common.typing import IntArray
from simile._common.urls import File, Url, open_file
from simile.data.reading import tables
from simile.data.reading.repair import ENCODING, ODD, PREAMBLE, UNITS, Repairs, find_layout
from simile.data.reading.tables import NUMERIC, Budget, Chunk, Column, Table, Types, decoding, elements, read_lines
from simile.data.reading.values import (
    SAMPLE,
    TAIL,
    DamageError,
    Place,
    is_unicode,
    is_word,
    kind_of,
    look_like_values,
    no_header,
    quote,
)
from simile.errors import DataError

_DECIMAL = r"[+-]?\d*[{}]\d+(?:[eE][+-]?\d+)?"
_BLOCK = 1 << 21  # bytes that are parsed at once, and the rest of the last row
_START = 1 << 20  # bytes that tell the delimiter
_LOOK = 1 << 24  # bytes that tell commas from points
_ROWS = 1 << 13  # of JSON lines
_MARK, _UTF_16 = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")
_PER_BYTE = 8  # bytes of memory that a byte of text in another encoding takes while it is decoded


def open_text(path: File, repairs: Repairs | None = None, budget: Budget | None = None) -> Table:
    """Open a .csv, .tsv or .txt file, or one of these as .gz; where `repairs` are counted, it may be damaged."""
    source = partial(open_bytes, path) if repairs is None else _open_any(path, repairs, budget)
    with decoding(path, "text"), source() as file:
        start = file.read(_START)
        if not start.strip():
            raise DataError(f"{path}: the file is empty")
        if start.startswith(_UTF_16):
            raise DamageError(f"{path}: UTF-16 text: save it as UTF-8")
        text = start.removeprefix(_MARK).lstrip(b"\r\n").decode("latin-1")
        delimiter, header, units = (find_delimiter(text), 0, False) if repairs is None else find_layout(text)
        comma = None if delimiter == "," else _find_decimal_comma(start + file.read(_LOOK), delimiter)
    notes = () if comma is None else (f"numbers have a decimal comma: {quote(comma)} is {comma.replace(',', '.')}",)
    with decoding(path, "CSV"), io.TextIOWrapper(source(), "utf-8-sig", "surrogateescape", newline="") as text_file:
        reader = csv.reader(read_lines(text_file, path), delimiter=delimiter, strict=True)
        rows = (row for row in reader if row)
        names = next(islice(rows, header, None), [])
        next(islice(rows, units, units), None)
        lines = reader.line_num  # above the first row
        for name in names:
            name.encode()  # which refuses what is not UTF-8
        table = _Rows(path, source, delimiter, names, lines, 1 + units, comma is not None, repairs)
        first, _ = replace(table, repairs=repairs and Repairs()).check(islice(rows, SAMPLE), 1)
    if look_like_values(names) and (repairs is not None or len(set(names)) < len(names)):
        raise DataError(f"{path}: {no_header(names)}")
    if not first:
        raise DataError(f"{path}: there is a header but no row below it")
    if repairs is not None:
        repairs.add(PREAMBLE, header, path)
        repairs.add(UNITS, int(units), path, 1)
    columns = [
        Column(name, kind_of(table.point(v) for v in values if repairs is None or not is_word(v)))
        for name, values in zip(names, zip(*first, strict=True), strict=True)
    ]
    return Table(path, tuple(columns), table.scan, notes=notes)


def _open_any(path: File, repairs: Repairs, budget: Budget | None) -> Callable[[], IO[bytes]]:
    """Return what opens a file as UTF-8; UTF-16, and what old Windows programs write, is held in memory."""
    with decoding(path, "text"), open_bytes(path) as file, suppress(UnicodeDecodeError):
        decoder, block = codecs.getincrementaldecoder("utf-8")(), file.read(_BLOCK)
        encoding = "utf-16" if block.startswith(_UTF_16) else "cp1252"
        while block:
            decoder.decode(block)
            block = file.read(_BLOCK)
        decoder.decode(b"", final=True)
        return partial(open_bytes, path)
    repairs.add(ENCODING, 1, path)
    with decoding(path, "text"), open_bytes(path) as file:
        data = file.read(-1 if budget is None else budget.limit // _PER_BYTE + 1)
    if budget is not None:
        budget.check(path, _PER_BYTE * len(data))
    return partial(io.BytesIO, data.decode(encoding, "replace").encode())


@dataclass(frozen=True)
class _Rows:
    """The rows of a file of text, below the header."""

    path: File
    source: Callable[[], IO[bytes]]
    delimiter: str
    names: Sequence[str]
    above: int  # lines, of the header and before it
    first: int  # the number of the first row
    comma: bool  # in numbers, instead of a point
    repairs: Repairs | None = None  # where odd rows are dropped

    def point(self, text: str) -> str:
        """Return a number with a point."""
        return text.replace(",", ".") if self.comma and "." not in text else text

    def scan(self, types: Types, watched: Sequence[str] = ()) -> Iterator[Chunk]:
        """Yield the wanted columns; the others are not parsed."""
        import polars as pl

        numbers = {float: pl.Float64, int: pl.Int64}
        wanted = {self.names.index(name): numbers.get(kind, pl.String) for name, kind in types.items()}
        tails = [self.names.index(name) for name in watched]
        first = self.first
        with decoding(self.path, "CSV"), self.source() as file:
            for block in self._blocks(file):
                place, (rows, found) = Place(self.path, first), self._parse(block, wanted) or (0, None)
                first += rows
                if found is None:
                    place, rows, found = self._parse_slowly(block, wanted, first)
                    first = place.row(rows)
                if rows:
                    found |= {self.names[i]: texts for i, texts in self._read_tail(block, tails).items()}
                    yield Chunk(place, found, rows)

    def _blocks(self, file: IO[bytes]) -> Iterator[bytes]:
        """Yield the bytes of whole rows; a row ends at a line outside of quotes."""
        longest = tables.LONGEST_LINE
        parts = iter(lambda: file.read(_BLOCK) + file.readline(longest), b"")
        for i, block in enumerate(parts):
            while b'"' in block and block.count(b'"') % 2 and len(block) < 2 * longest and (more := next(parts, b"")):
                block += more
            if len(block) - block.rfind(b"\n", 0, -1) > longest:
                raise tables.endless_line(self.path)
            yield block if i else block[sum(map(len, block.splitlines(keepends=True)[: self.above])) :]

    def _parse(self, block: bytes, wanted: Mapping[int, Any]) -> tuple[int, dict[str, Any]] | None:
        """Return how many rows there are, and their columns; None where a row is odd, or what polars does not take."""
        import polars as pl

        if b"\r" in block and re.search(rb"\r(?!\n)", block):  # a row ends there, but not to polars
            return None
        block = _MARK + block if block.startswith(_MARK) else block  # which takes one for the beginning of a file
        last = len(self.names) - 1  # whose value is missing in every row that is too short, and in empty lines
        chosen = sorted({*wanted, last})
        strings = dict.fromkeys(wanted, pl.String)
        for i, types in enumerate((wanted, wanted, strings)):
            if i == 1:  # which fails again unless there were empty lines
                if b'"' in block or not (b"\n\n" in block or b"\n\r\n" in block or block[:1] in b"\r\n"):
                    continue
                block = re.sub(rb"(\A|\n)[\r\n]+", rb"\1", block)
            with suppress(pl.exceptions.PolarsError):
                frame = pl.read_csv(
                    block,
                    has_header=False,
                    schema={str(i): types.get(i, pl.String) for i in range(len(self.names))},
                    columns=chosen,
                    separator=self.delimiter,
                    decimal_comma=self.comma,
                    raise_if_empty=False,
                )
                ends = frame.to_series(chosen.index(last))
                if not ends.null_count() or _count(block, self.delimiter) == frame.height * last:
                    values = {i: frame.to_series(chosen.index(i)) for i in wanted}
                    if types is strings and self.comma:
                        values |= {i: _to_points(v) for i, v in values.items() if wanted[i] != pl.String}
                    return frame.height, {self.names[i]: v for i, v in values.items()}
        return None

    def _parse_slowly(self, block: bytes, wanted: Mapping[int, Any], first: int) -> tuple[Place, int, dict[str, Any]]:
        """Return the rows of a block, split one by one, and where they stand; the first that is odd is named."""
        import polars as pl

        text = io.StringIO(block.decode("utf-8", "surrogateescape"), newline="")
        rows, numbers = self.check((row for row in split_lines(text, self.delimiter) if row), first)
        place, values = Place(self.path, rows=numbers), dict[str, Any]()
        for i, kind in wanted.items():
            own = [row[i] for row in rows]
            if kind == pl.String:
                for row, label in enumerate(own):
                    if not is_unicode(label):
                        raise place.error(row, self.names[i], "not UTF-8 text: save the file as UTF-8", DamageError)
                values[self.names[i]] = pl.Series([text or None for text in own], dtype=pl.String)
            else:
                values[self.names[i]] = list(map(self.point, own))
        return place, len(rows), values

    def check(self, rows: Iterable[list[str]], first: int) -> tuple[list[list[str]], IntArray]:
        """Return rows, of which each must have a field for each column, and their numbers with that of the next."""
        found, numbers, number = list[list[str]](), list[int](), first
        try:
            for row in rows:
                if len(row) == len(self.names):
                    found.append(row)
                    numbers.append(number)
                elif self.repairs is not None:
                    self.repairs.add(ODD, 1, self.path, number)
                else:
                    raise DamageError(
                        f"{self.path}: row {number}: {len(row)} fields, but the header has {len(self.names)}: "
                        "add or remove delimiters there, and quote texts that hold one"
                    )
                number += 1
        except csv.Error as error:
            raise DataError(
                f"{self.path}: row {number}: cannot be read as CSV: {error}: is a quote opened there, and never closed?"
            ) from None
        return found, np.array([*numbers, number])

    def _read_tail(self, block: bytes, columns: Sequence[int]) -> dict[int, list[str]]:
        """Return the last values of columns of text, in whatever encoding, as far as their rows are whole."""
        if not columns:
            return {}
        lines = block.rstrip(b"\r\n").rsplit(b"\n", TAIL)[-TAIL:]
        with suppress(csv.Error):
            rows = [r for r in split_lines((x.decode("utf-8", "replace") for x in lines), self.delimiter) if r]
            whole = [row for row in rows if len(row) == len(self.names)]
            return {i: [self.point(row[i]) for row in whole] for i in columns}
        return {}


def _count(block: bytes, mark: str) -> int:
    """Return how often a character stands outside of quotes."""
    codes = np.frombuffer(block, np.uint8)
    found = codes == ord(mark)
    if b'"' in block:
        found &= np.cumsum(codes == ord('"'), dtype=np.uint8) % 2 == 0
    return int(np.count_nonzero(found))


def open_bytes(path: File) -> IO[bytes]:
    """Open the text of a file, which may be compressed."""
    if path.suffix.lower() != ".gz":
        return open_file(path)
    return gzip.open(path.open() if isinstance(path, Url) else path)  # type: ignore[return-value]


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


def _find_decimal_comma(start: bytes, delimiter: str) -> str | None:
    """Return the first number with a decimal comma; None if there is none, or if others have a point."""
    field = r"(?:^|{0})[ \"]*({1})[ \"]*(?=[{0}\r\n]|\Z)"
    patterns = (field.format(delimiter, _DECIMAL.format(mark)) for mark in ",.")
    comma, point = (re.compile(pattern.encode(), re.MULTILINE) for pattern in patterns)
    if len(start) >= _LOOK:
        start = start[: start.rfind(b"\n") + 1]  # whole lines
    found = comma.search(start) if b"," in start else None
    return None if found is None or point.search(start) else found[1].decode()


def is_decimal(text: str, mark: str) -> bool:
    """Whether a field is a number with this mark before its decimals."""
    return re.fullmatch(_DECIMAL.format(mark), text.strip()) is not None


def _to_points(texts: Any) -> Any:
    """Return a series of text with points instead of decimal commas."""
    return texts.set(~texts.str.contains(".", literal=True), None).fill_null(texts.str.replace_all(",", "."))


def open_records(path: File) -> Table:
    """Open a JSON lines file; keys may be left out of a row where they are missing. A first pass finds the columns."""
    samples: dict[str, list[Any]] = {}
    empty = True
    for row in _records(path):
        empty = False
        for key, value in row.items():
            seen = samples.setdefault(key, [])
            if value is not None and len(seen) < SAMPLE:
                seen.append(value)
    if empty:
        raise DataError(f"{path}: the file is empty")
    columns = {key: _columns_of(key, values) for key, values in samples.items()}
    places = {c.name: (key, i, len(group)) for key, group in columns.items() for i, c in enumerate(group)}

    def scan(types: Types, watched: Sequence[str] = ()) -> Iterator[Chunk]:
        rows, first = _records(path), 1
        while some := list(islice(rows, _ROWS)):
            place = Place(path, first)
            values = {name: _values_of(some, *places[name], place) for name in types}
            yield Chunk(place, {name: [row.get(name) for row in some] for name in watched} | values, len(some))
            first += len(some)

    return Table(path, tuple(c for group in columns.values() for c in group), scan)


def _records(path: File) -> Iterator[dict[str, Any]]:
    row = 0
    with decoding(path, "JSON lines"), open_file(path) as file:
        for number, line in enumerate(read_lines(file, path)):
            if text := line.decode("utf-8-sig" if number == 0 else "utf-8").strip():
                row += 1
                yield parse_record(text, f"{path}: row {row}")


def parse_record(line: str, place: str) -> dict[str, Any]:
    """Return the object of a line, in which no key stands twice."""
    try:
        value = json.loads(line)
        if isinstance(value, dict) and line.count(":") > len(value):  # with as many no key can stand twice
            value = json.loads(line, object_pairs_hook=partial(_take_each_once, place))
    except DataError:
        raise
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: not JSON: {error}: one object per line is wanted") from None
    if not isinstance(value, dict):
        raise DataError(f'{place}: {quote(value)} is not an object: write rows as {{"name": value, ...}}')
    return value


def _take_each_once(place: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, n in Counter(key for key, _ in pairs).items() if n > 1)
        raise DataError(f"{place}: the key {quote(twice)} stands there twice: which of both is meant? Leave one out")
    return found


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


def _columns_of(key: str, values: list[Any]) -> list[Column]:
    """Return the columns of a key, by some of its values."""
    if any(isinstance(v, dict) for v in values):
        return [Column(key, "objects", key)]
    if not values or not isinstance(values[0], list):
        return [Column(key, kind_of(values), key)]
    kind = kind_of(element for v in values if isinstance(v, list) for element in v)
    return elements(key, len(values[0]), kind) if kind in NUMERIC and values[0] else [Column(key, "lists", key)]


def _values_of(rows: list[dict[str, Any]], key: str, index: int, width: int, place: Place) -> list[Any]:
    """Return the values under a key, or the elements at `index` of the lists under it."""
    values = [row.get(key) for row in rows]
    for i, value in enumerate(values):
        if isinstance(value, list):
            if len(value) != width:
                raise place.error(i, key, f"a list of {len(value)} elements among lists of {width}: make them equal")
            values[i] = value[index]
        elif value is not None and width > 1:
            raise place.error(i, key, f"{quote(value)} among lists of {width}: make it a list")
    return values
