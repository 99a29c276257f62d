"""What every format is read through: named columns of a known kind, scanned batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import IO, Any, AnyStr

import numpy.typing as npt

from simile._common import checks
from simile._common.text import size
from simile._common.typing import FloatArray
from simile._common.urls import File
from simile.data.timing import LONGEST as FURTHEST
from simile.errors import DataError, SimileError

WHOLE, NUMBER, EMPTY, STAMP, TEXT = "whole numbers", "numbers", "nothing", "timestamps", "text"
SPAN = "durations"  # seconds, whatever their unit in the file
NUMERIC = frozenset({WHOLE, NUMBER, SPAN, EMPTY})

LONGEST = 100_000  # elements of a list that are columns
LONGEST_LINE = 1 << 26  # bytes
PER_VALUE = 16  # bytes of memory: what was read, and once more while the pieces of a sequence are joined
PER_PIECE = 1024  # bytes of memory for what a sequence has in one batch, beside its values

FRAME = "n"  # the column of a recording that numbers its frames

Times = npt.NDArray[Any]  # float64 or int64 numbers, or datetime64 time stamps


@dataclass(frozen=True)
class Column:
    """A column: its name, its kind (one of the above, or any other word), and the list it is an element of."""

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
        if not isinstance(roles.about, dict | None):
            raise TypeError("what it is about must be facts by name")
        if not all(isinstance(name, str) for name in roles.columns):
            raise TypeError("names must be strings")
        return roles

    @property
    def columns(self) -> list[str]:
        """Every column with a role."""
        numbers = FRAME if self.lead else None
        one = [name for name in (self.sequence, self.time, self.group, numbers) if name is not None]
        return [*one, *(self.contexts or ()), *(self.actions or ())]


class GoneError(DataError):
    """A file was removed between the list that had it and the moment at which it was to be read."""


@dataclass(frozen=True)
class Wanted:
    """The columns to scan: numbers, labels of sequences, the time, texts that may turn into numbers, and groups."""

    numbers: tuple[str, ...]
    labels: str | None = None
    time: str | None = None
    time_kind: str = ""
    texts: tuple[str, ...] = ()
    group: str | None = None

    @property
    def stamps(self) -> bool:
        """Whether the time is one of stamps."""
        return self.time_kind == STAMP

    @property
    def names(self) -> list[str]:
        """Every column to read in full, each once."""
        others = (n for n in (self.labels, self.time, self.group) if n is not None)
        return list(dict.fromkeys((*self.numbers, *others)))


@dataclass(frozen=True)
class Place:
    """Where a batch begins: in this file, at this row (counted from 1, the header is none)."""

    path: File | str
    first_row: int = 1

    def error(self, index: int, column: str, problem: str) -> DataError:
        """Return the error for the value at `index` of this batch."""
        return DataError(f"{self.path}: row {self.first_row + index}, column {quote(column)}: {problem}")


@dataclass(frozen=True, eq=False)
class Batch:
    """Some consecutive rows: float64 numbers per column (NaN is missing), labels, times, texts that are numbers now.

    Of the groups, None is missing.
    """

    place: Place
    numbers: dict[str, FloatArray]
    labels: list[str] | None
    times: Times | None
    turned: frozenset[str] = frozenset()
    groups: list[str | None] | None = None

    def __len__(self) -> int:
        return len(next(iter((*self.numbers.values(), self.labels or ()))))


@dataclass(frozen=True, eq=False)
class Table:
    """A file that was opened: its columns are known, its rows are scanned when asked for."""

    path: File
    columns: tuple[Column, ...]
    scan: Callable[[Wanted], Iterator[Batch]]
    roles: Roles = field(default=Roles())
    notes: tuple[str, ...] = ()  # for the summary
    unread: tuple[str, ...] = ()  # what belongs to the data but is no column, such as videos
    weigh: Callable[[Wanted], int] = lambda _: 0  # bytes that a scan takes, as far as the file tells them
    groups: tuple[int, ...] = ()  # rows that a file stores together, where it does, and where it can be cut:
    part: Callable[[int, int], Table] | None = None  # the rows from one to before another, from 0

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for column in self.columns:
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

        def scan(wanted: Wanted) -> Iterator[Batch]:
            self._check(table.path, self.taken + table.weigh(wanted))
            for batch in table.scan(wanted):
                self.taken += len(batch) * len(wanted.names) * PER_VALUE + len(set(batch.labels or ())) * PER_PIECE
                self._check(table.path, self.taken)
                yield batch

        return replace(table, scan=scan)

    def _check(self, path: File, needed: int) -> None:
        if needed > self.limit:
            raise DataError(
                f"{path}: its rows take {size(needed)} of memory or more, and may take {size(self.limit)}: choose "
                "fewer columns or read a part of it; where you know who made it, allow more, in MB, by max_memory "
                "(--max-memory)"
            )


def quote(value: object) -> str:
    """Return a value as it stands in messages, never longer than a line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:50]}... ({len(text):,} characters)"


@contextmanager
def decoding(path: File, what: str) -> Iterator[None]:
    """Turn whatever a decoder raises on the bytes of a file into a DataError that names the file.

    The decoders (pyarrow, h5py, zipfile, numpy, json) raise a dozen classes between them on a damaged file.
    """
    try:
        yield
    except SimileError:
        raise
    except PermissionError:
        raise DataError(f"{path}: permission denied: make the file readable") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text ({error.reason}): save it as UTF-8") from None
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


def read_lines(file: IO[AnyStr], path: File) -> Iterator[AnyStr]:
    """Yield the lines of a file; what has no end is refused before it fills the memory."""
    while line := file.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE and line[-1:] not in ("\n", "\r", b"\n", b"\r"):
            raise DataError(
                f"{path}: a line of more than {size(LONGEST_LINE)}: is this a table, with a line for each row?"
            )
        yield line


def elements(name: str, width: int, kind: str, labels: Sequence[str] = ()) -> list[Column]:
    """Return the columns that a list of `width` elements is spread over; a single element keeps the name."""
    if width > LONGEST:
        return [Column(name, f"lists of {width:,}", name)]
    if width == 1 and not labels:
        return [Column(name, kind, name)]
    return [Column(f"{name}.{label}", kind, name) for label in labels or range(width)]
