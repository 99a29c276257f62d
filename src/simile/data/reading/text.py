"""Text: comma, semicolon and tab separated values, parsed by polars in blocks of whole rows, and JSON lines."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import IO, Any

import numpy as np

from simile._common.urls import File, Url, open_file
from simile.data.reading import tables
from simile.data.reading.tables import NUMERIC, Chunk, Column, Table, Types, decoding, elements, read_lines
from simile.data.reading.values import SAMPLE, TAIL, DamageError, Place, kind_of, look_like_values, no_header, quote
from simile.errors import DataError

_DECIMAL = r"[+-]?\d*[{}]\d+(?:[eE][+-]?\d+)?"
_BLOCK = 1 << 21  # bytes that are parsed at once, and the rest of the last row
_START = 1 << 20  # bytes that tell the delimiter
LOOK = 1 << 24  # bytes that tell commas from points
_ROWS = 1 << 13  # of JSON lines
_MARK = b"\xef\xbb\xbf"


def open_text(path: File) -> Table:
    """Open a .csv, .tsv or .txt file, or one of these as .gz."""
    with decoding(path, "text"), open_bytes(path) as file:
        start = file.read(_START)
    if not start.strip():
        raise DataError(f"{path}: the file is empty")
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DamageError(f"{path}: UTF-16 text: save it as UTF-8")
    delimiter = find_delimiter(start.removeprefix(_MARK).lstrip(b"\r\n").decode("latin-1"))
    with decoding(path, "text"), open_bytes(path) as file:
        comma = None if delimiter == "," else find_decimal_comma(file.read(LOOK), delimiter)
    notes = () if comma is None else (note_decimal_comma(comma),)
    with decoding(path, "CSV"), io.TextIOWrapper(open_bytes(path), "utf-8-sig", "surrogateescape", newline="") as text:
        reader = csv.reader(read_lines(text, path), delimiter=delimiter, strict=True)
        rows = (row for row in reader if row)
        names = next(rows, [])
        lines = reader.line_num  # above the first row
        for name in names:
            name.encode()  # which refuses what is not UTF-8
        first = _Rows(path, delimiter, len(names)).check(islice(rows, SAMPLE), 1)
    if len(set(names)) < len(names) and look_like_values(names):
        raise DataError(f"{path}: {no_header(names)}")
    if not first:
        raise DataError(f"{path}: there is a header but no row below it")
    point = _to_point if comma else str
    columns = tuple(
        Column(name, kind_of(map(point, values))) for name, values in zip(names, zip(*first, strict=True), strict=True)
    )
    return Table(path, columns, _Rows(path, delimiter, len(names), lines, names, comma is not None).scan, notes=notes)


@dataclass(frozen=True)
class _Rows:
    """The rows of a file of text, below the header."""

    path: File
    delimiter: str
    width: int
    above: int = 0  # lines, of the header and before it
    names: Sequence[str] = ()
    comma: bool = False  # in numbers, instead of a point

    def scan(self, types: Types, watched: Sequence[str] = ()) -> Iterator[Chunk]:
        """Yield the wanted columns; the others are not parsed."""
        import polars as pl

        numbers = {float: pl.Float64, int: pl.Int64}
        wanted = {self.names.index(name): numbers.get(kind, pl.String) for name, kind in types.items()}
        tails = [self.names.index(name) for name in watched]
        first = 1
        with decoding(self.path, "CSV"), open_bytes(self.path) as file:
            for block in self._blocks(file):
                rows, found = self._parse(block, wanted) or self._parse_slowly(block, wanted, first)
                if rows:
                    found |= {self.names[i]: texts for i, texts in self._read_tail(block, tails).items()}
                    yield Chunk(Place(self.path, first), found, rows)
                first += rows

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

        if _count(block, "\r", unless="\n"):  # a row ends there, but not to polars
            return None
        block = _MARK + block if block.startswith(_MARK) else block  # which takes one for the beginning of a file
        last = self.width - 1  # whose value is missing in every row that is too short, and in empty lines
        chosen = sorted({*wanted, last})
        strings = dict.fromkeys(wanted, pl.String)
        attempts = [wanted]
        for i, types in enumerate(attempts):  # which grow where the first does not do
            if i == 1:
                block = _drop_empty_lines(block)
            with suppress(pl.exceptions.PolarsError):
                frame = pl.read_csv(
                    block,
                    has_header=False,
                    schema={str(i): types.get(i, pl.String) for i in range(self.width)},
                    columns=chosen,
                    separator=self.delimiter,
                    decimal_comma=self.comma,
                    raise_if_empty=False,
                )
                ends = frame.to_series(chosen.index(last))
                if not ends.null_count() or _count(block, self.delimiter) == frame.height * last:
                    values = {i: frame.to_series(chosen.index(i)) for i in wanted}
                    if types is strings and self.comma:
                        values |= {i: to_points(v) for i, v in values.items() if wanted[i] != pl.String}
                    return frame.height, {self.names[i]: v for i, v in values.items()}
            if i == 0:
                attempts += [wanted, strings] if _has_empty_lines(block) else [strings]
        return None

    def _parse_slowly(self, block: bytes, wanted: Mapping[int, Any], first: int) -> tuple[int, dict[str, Any]]:
        """Return the rows of a block, split one by one; the first that is odd is named."""
        import polars as pl

        text = io.StringIO(block.decode("utf-8", "surrogateescape"), newline="")
        rows = self.check((row for row in split_lines(text, self.delimiter) if row), first)
        values: dict[str, Any] = {}
        for i, kind in wanted.items():
            own = [row[i] for row in rows]
            if kind == pl.String:
                for row, label in enumerate(own):
                    if not label.isascii() and any("\ud800" <= c <= "\udfff" for c in label):
                        problem = "not UTF-8 text: save the file as UTF-8"
                        raise Place(self.path, first).error(row, self.names[i], problem)
                values[self.names[i]] = pl.Series([text or None for text in own], dtype=pl.String)
            else:
                values[self.names[i]] = [_to_point(text) for text in own] if self.comma else own
        return len(rows), values

    def check(self, rows: Iterable[list[str]], first: int) -> list[list[str]]:
        """Return rows, of which each must have a field for each column."""
        found: list[list[str]] = []
        try:
            for row in rows:
                if len(row) != self.width:
                    raise DamageError(
                        f"{self.path}: row {first + len(found)}: {len(row)} fields, but the header has {self.width}: "
                        "add or remove delimiters there, and quote texts that hold one"
                    )
                found.append(row)
        except csv.Error as error:
            raise DataError(
                f"{self.path}: row {first + len(found)}: cannot be read as CSV: {error}: is a quote opened there, and "
                "never closed?"
            ) from None
        return found

    def _read_tail(self, block: bytes, columns: Sequence[int]) -> dict[int, list[str]]:
        """Return the last values of columns of text, in whatever encoding, as far as their rows are whole."""
        if not columns:
            return {}
        lines = block.rstrip(b"\r\n").rsplit(b"\n", TAIL)[-TAIL:]
        with suppress(csv.Error):
            rows = [r for r in split_lines((x.decode("utf-8", "replace") for x in lines), self.delimiter) if r]
            whole = [row for row in rows if len(row) == self.width]
            return {i: [_to_point(row[i]) if self.comma else row[i] for row in whole] for i in columns}
        return {}


def _count(block: bytes, mark: str, *, unless: str = "") -> int:
    """Return how often a character stands outside of quotes, unless another follows it."""
    if (code := mark.encode()) not in block:
        return 0
    codes = np.frombuffer(block, np.uint8)
    found = codes == ord(code)
    if b'"' in block:
        found &= np.cumsum(codes == ord('"'), dtype=np.uint8) % 2 == 0
    if unless:
        found[:-1] &= codes[1:] != ord(unless)
    return int(np.count_nonzero(found))


def _has_empty_lines(block: bytes) -> bool:
    return b'"' not in block and (b"\n\n" in block or b"\n\r\n" in block or block[:1] in b"\r\n")


def _drop_empty_lines(block: bytes) -> bytes:
    return re.sub(rb"(\A|\n)[\r\n]+", rb"\1", block) if _has_empty_lines(block) else block


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


def find_decimal_comma(start: bytes, delimiter: str) -> str | None:
    """Return the first number with a decimal comma; None if there is none, or if others have a point."""
    field = r"(?:^|{0})[ \"]*({1})[ \"]*(?=[{0}\r\n]|\Z)"
    patterns = (field.format(delimiter, _DECIMAL.format(mark)) for mark in ",.")
    comma, point = (re.compile(pattern.encode(), re.MULTILINE) for pattern in patterns)
    if len(start) >= LOOK:
        start = start[: start.rfind(b"\n") + 1]  # whole lines
    found = comma.search(start) if b"," in start else None
    return None if found is None or point.search(start) else found[1].decode()


def note_decimal_comma(found: str) -> str:
    """Return the note on numbers with a decimal comma."""
    return f"numbers have a decimal comma: {quote(found)} is {found.replace(',', '.')}"


def is_decimal(text: str, mark: str) -> bool:
    """Whether a field is a number with this mark before its decimals."""
    return re.fullmatch(_DECIMAL.format(mark), text.strip()) is not None


def _to_point(text: str) -> str:
    return text if "." in text else text.replace(",", ".")


def to_points(texts: Any) -> Any:
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
