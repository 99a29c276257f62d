"""What every source is read through: named columns of a known kind, scanned chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import IO, Any, AnyStr

import numpy as np

from simile._common import checks
from simile._common.text import size
from simile._common.typing import FloatArray
from simile._common.urls import File
from simile.data.reading import values as convert
from simile.data.reading.values import EMPTY, NUMBER, SPAN, TAIL, WHOLE, DamageError, Place, quote
from simile.data.timing import LONGEST as FURTHEST
from simile.errors import DataError, SimileError

NUMERIC = frozenset({WHOLE, NUMBER, SPAN, EMPTY})

LONGEST = 100_000  # elements of a list that are columns
LONGEST_LINE = 1 << 26  # bytes
PER_VALUE = 16  # bytes of memory: what was read, and once more while the pieces of a sequence are joined
PER_PIECE = 1024  # bytes of memory for what a sequence has in one chunk, beside its values
METADATA_KEY = b"simile"  # in the metadata of a schema: the roles of the columns, as JSON
FRAME, WHO, LIMITED = "n", "who", "limited"  # of a recording: numbers of frames, who acted, whether a stage did
BOOKKEEPING = ("sequence", FRAME, "t", WHO, LIMITED, "policy", "event")  # beside contexts and actions
OPERATOR, POLICY, GAP, WAITING = "operator", "policy", "gap", "waiting"  # of whom the first alone is a person

# Which columns to scan, and what they hold: `float`, `int` where all are whole, `str` labels, or `datetime` as written.
Types = Mapping[str, type]


@dataclass(frozen=True)
class Column:
    """A column: its name, its kind (see `values`, or any other word), and the list it is an element of."""

    name: str
    kind: str
    parent: str = ""

    @property
    def is_numeric(self) -> bool:
        """Whether it can be a context or an action."""
        return self.kind in NUMERIC


@dataclass(frozen=True)
class Roles:
    """What a file that knows says of its own columns; None where it does not."""

    sequence: str | None = None
    time: str | None = None
    contexts: tuple[str, ...] | None = None
    actions: tuple[str, ...] | None = None
    rate: float | None = None
    group: str | None = None
    about: Mapping[str, Any] | None = field(default=None, compare=False)  # see `Demonstration.about`
    continues: bool | None = None  # whether a sequence goes on from file to file, as in recordings
    # For which frame the action of a row is, so many after its own: a recording's, of a policy with a lead. Readers
    # align; files of different leads are read together.
    lead: int | None = field(default=None, compare=False)

    @classmethod
    def parse(cls, stored: Mapping[str, Any]) -> Roles:
        """Take what `write` has stored; KeyError, TypeError or ValueError if it is not that."""
        roles = cls(
            stored["sequence"],
            stored["time"],
            tuple(stored["contexts"]),
            tuple(stored["actions"]),
            None if stored["rate"] is None else checks.number(stored["rate"], "rate", above=0.0),
            stored.get("group"),
            stored.get("about"),
            stored.get("continues") is True or None,
            checks.whole_number(stored.get("lead") or 0, "lead", at_least=-FURTHEST, at_most=FURTHEST) or None,
        )
        if not isinstance(roles.about, dict | None) or not all(isinstance(name, str) for name in roles.columns):
            raise TypeError("names must be strings, and what it is about facts by name")
        return roles

    @property
    def columns(self) -> list[str]:
        """Every column with a role."""
        one = (self.sequence, self.time, self.group, FRAME if self.lead else None)
        return [*(name for name in one if name is not None), *(self.contexts or ()), *(self.actions or ())]


class GoneError(DataError):
    """A file was removed between the list that had it and the moment at which it was to be read."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some consecutive rows, as they were stored: a polars series, an array or a list for each column."""

    place: Place
    values: Mapping[str, Any]
    rows: int

    def numbers(self, names: Sequence[str]) -> FloatArray:
        """Return columns as float64 (rows, columns), NaN where missing."""
        table = np.empty((self.rows, len(names)))
        for i, name in enumerate(names):
            table[:, i] = convert.as_numbers(self.values[name], name, self.place)
        return table

    def labels(self, name: str, *, optional: bool = False) -> Any:
        """Return the labels of a column as a polars series of text; where `optional`, null where they are missing."""
        return convert.as_labels(self.values[name], name, self.place, optional=optional)

    def actors(self, name: str) -> Any:
        """Return who acted as a polars series of text, null where it is missing."""
        import polars as pl

        found = self.labels(name, optional=True).cast(pl.String).str.strip_chars()
        return found.set(found.is_in(list(convert.MISSING)), None)

    def times(self, name: str, *, stamps: bool) -> convert.Times:
        """Return a time for each row."""
        return convert.as_times(self.values[name], name, self.place, stamps=stamps)

    def turned(self, names: Iterable[str]) -> set[str]:
        """Return the columns of text whose last values are numbers."""
        there = (name for name in names if name in self.values)
        return {name for name in there if convert.kind_of(self.values[name][-TAIL:]) in (WHOLE, NUMBER)}


@dataclass(frozen=True, eq=False)
class Table:
    """A source that was opened: its columns are known, its rows are scanned when asked for.

    `scan` takes which columns to read, and columns of text to watch: their values may be those of the last rows alone.
    """

    path: File
    columns: tuple[Column, ...]
    scan: Callable[..., Iterator[Chunk]]
    roles: Roles = field(default=Roles())
    notes: tuple[str, ...] = ()  # for the summary
    unread: tuple[str, ...] = ()  # what belongs to the data but is no column, such as videos
    weigh: Callable[[Types], int] = lambda _: 0  # bytes that a scan takes, as far as the source tells them
    groups: tuple[int, ...] = ()  # rows that a file stores together, where it does, and where it can be cut:
    part: Callable[[int, int], Table] | None = None  # the rows from one to before another, from 0

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for column in self.columns:
            if not convert.is_unicode(column.name):
                raise DataError(f"{self.path}: column {quote(column.name)} holds half a character: rename it")
            if column.name in seen:
                raise DataError(f"{self.path}: column {quote(column.name)} is there twice: rename one of the two")
            seen.add(column.name)


@dataclass
class Budget:
    """The bytes that the rows of one reading may take, of all its files together."""

    limit: int
    taken: int = 0

    def watch(self, table: Table) -> Table:
        """Return a table whose scan is refused before it begins, or ends, where its rows take more than that."""

        def scan(types: Types, watched: Sequence[str] = ()) -> Iterator[Chunk]:
            self.check(table.path, self.taken + table.weigh(types))
            for chunk in table.scan(types, watched):
                labels = (chunk.values[name] for name, kind in types.items() if kind is str)
                pieces = max((x.n_unique() if hasattr(x, "n_unique") else len(set(x)) for x in labels), default=0)
                self.taken += chunk.rows * len(types) * PER_VALUE + pieces * PER_PIECE
                self.check(table.path, self.taken)
                yield chunk

        return replace(table, scan=scan)

    def check(self, path: File | str, needed: int) -> None:
        """Refuse what takes more than may be taken."""
        if needed > self.limit:
            raise DataError(
                f"{path}: its rows take {size(needed)} of memory or more, and may take {size(self.limit)}: choose "
                "fewer columns or read a part of it; where you know who made it, allow more, in MB, by max_memory "
                "(--max-memory)"
            )


@contextmanager
def decoding(path: File | str, what: str) -> Iterator[None]:
    """Turn whatever a decoder raises on the bytes of a file into a DataError that names the file.

    The decoders (polars, pyarrow, h5py, zipfile, numpy, json) raise a dozen classes between them on a damaged file.
    """
    try:
        yield
    except SimileError:
        raise
    except PermissionError:
        raise DataError(f"{path}: permission denied: make the file readable") from None
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise DamageError(f"{path}: not UTF-8 text ({error.reason}): save it as UTF-8") from None
    except Exception as error:
        if isinstance(error, MemoryError) or "Failed to launch worker thread" in str(error):  # no room for its stack
            raise DataError(
                f"{path}: it takes more memory than there is, or than is allowed: read a part of it; where you know "
                "who made it, allow more, in MB, by max_memory (--max-memory)"
            ) from None
        first_line = (str(error).splitlines() or [""])[0]
        reason = first_line if len(first_line) <= 160 else f"{first_line[:150]}..."
        raise DataError(
            f"{path}: cannot be read as {what}: {reason or type(error).__name__}: "
            "is the file whole, and is its suffix right?"
        ) from None


def read_lines(file: IO[AnyStr], path: File | str) -> Iterator[AnyStr]:
    """Yield the lines of a file; what has no end is refused before it fills the memory."""
    while line := file.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE and line[-1:] not in ("\n", "\r", b"\n", b"\r"):
            raise endless_line(path)
        yield line


def endless_line(path: File | str) -> DataError:
    """Return the refusal of a line that does not end."""
    return DataError(f"{path}: a line of more than {size(LONGEST_LINE)}: is this a table, with a line for each row?")


def elements(name: str, width: int, kind: str, labels: Sequence[str] = ()) -> list[Column]:
    """Return the columns that a list of `width` elements is spread over; a single element keeps the name."""
    if width > LONGEST:
        return [Column(name, f"lists of {width:,}", name)]
    if width == 1 and not labels:
        return [Column(name, kind, name)]
    return [Column(f"{name}.{label}", kind, name) for label in labels or range(width)]
