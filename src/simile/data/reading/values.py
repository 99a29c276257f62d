"""Values of any make to numbers, labels and times; what cannot be converted is named by its place."""

from __future__ import annotations

import numbers
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from simile._common.typing import FloatArray, IntArray
from simile._common.urls import File
from simile.errors import DataError

WHOLE, NUMBER, EMPTY, STAMP, TEXT = "whole numbers", "numbers", "nothing", "timestamps", "text"
SPAN = "durations"  # seconds, whatever their unit in the file
MARKED = "numbers with marks between their digits"

# What stands for a missing value in text, wherever text is read.
_WORDS = ("nan", "na", "n/a", "null", "none")
MISSING = frozenset({"", "NaN", *(spell(word) for word in _WORDS for spell in (str.lower, str.upper, str.title))})
WORDS = frozenset(
    (  # that stand for one too, to `repair=True`; in lower case
        *("-", "--", "---", "?", "*", ".", "err", "error", "#err", "missing", "n.a.", "n.a"),
        *("#n/a", "#na", "nil", "<na>", "nat", "bad", "fault"),
        *("invalid", "undefined", "unknown", "timeout", "overflow", "nodata"),
        *("1.#qnan", "-1.#qnan", "1.#snan", "1.#ind", "-1.#ind", "nan(ind)", "-nan(ind)"),
        *("#div/0!", "#value!", "#ref!", "#num!", "#name?", "#null!"),
    )
)
WRITE_TIMES = "write ISO 8601, as 2024-05-31T12:00:00.25, or seconds"
NO_LABEL = "the row has no label, so it belongs to no sequence: fill it in or drop the row"
TAIL = 50  # values at the end of a chunk that tell whether a text has turned into numbers
SAMPLE = 1000  # values of a column that tell its kind
NO_DATE = "0001-01-03"  # of times without one; not the first, that no zone leads out of the calendar
_LONGEST_TIME = 80  # characters
_THOUSANDS = re.compile(r"[+-]?\d{1,3}([', .\u00a0\u202f])\d{3}(\1\d{3})*([.,]\d+)?", re.ASCII)
_TIME = re.compile(
    r"(?:(?P<days>\d{1,3}) days?,?\s+)?"
    r"(?:(?P<y>\d{4})[-/.](?P<m>\d\d?)[-/.](?P<d>\d\d?)|(?P<D>\d\d?)\.(?P<M>\d\d?)\.(?P<Y>\d{4}))?[T,\s]*"
    r"(?:(?P<clock>\d\d?:\d\d:\d\d)(?:[.,](?P<part>\d+))?)?\s*(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d)?(?:\[[\w/+-]+\])?",
    re.ASCII | re.IGNORECASE,
)

Times = npt.NDArray[Any]  # float64 or int64 numbers, or datetime64 time stamps


class DamageError(DataError):
    """Damage that `repair=True` mends; `read` says so."""


@dataclass(frozen=True)
class Place:
    """Where rows begin: in this file, at this row (counted from 1, the header is none), or which numbers they have."""

    path: File | str
    first_row: int = 1
    rows: IntArray | None = None

    def row(self, index: Any) -> Any:
        """Return the number of the row at `index` from here, or of several."""
        return self.first_row + index if self.rows is None else self.rows[index]

    def error(self, index: int, column: str, problem: str, kind: type[DataError] = DataError) -> DataError:
        """Return the error for the value of the row at `index` from here."""
        return kind(f"{self.path}: row {self.row(index)}, column {quote(column)}: {problem}")


def quote(value: object) -> str:
    """Return a value as it stands in messages, never longer than a line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:50]}... ({len(text):,} characters)"


def to_number(value: object) -> float:
    """Return a value as float64, NaN if it is missing; ValueError if it is no number."""
    if value is None:
        return float("nan")
    if isinstance(value, str):
        text = value.strip()
        if "_" in text or not text.isascii():  # Python would take 1_000 and the digits of every script
            raise ValueError
        return float("nan") if text in MISSING else float(text)
    if isinstance(value, numbers.Real | Decimal | np.bool_):
        try:
            return float(value)
        except OverflowError:
            return float("inf")
    raise ValueError


def is_word(value: object) -> bool:
    """Return whether a value is a word for a missing number."""
    return isinstance(value, str) and value.strip().lower() in WORDS


def to_stamp(value: object) -> datetime:
    """Return a time as text, or a date, as a moment in UTC; without a zone it is taken for UTC.

    >>> to_stamp("2024-05-31 12:00:01+02:00"), to_stamp("31.05.2024 12:00:01") - to_stamp("2024-05-31T12:00:00")
    (datetime.datetime(2024, 5, 31, 10, 0, 1), datetime.timedelta(seconds=1))
    """
    if isinstance(value, str):
        text = value.strip()
        try:
            value = datetime.fromisoformat(text)
        except ValueError:
            value = datetime.fromisoformat(_as_iso(text))
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime):
        raise ValueError
    return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)


def _as_iso(text: str) -> str:
    """Write a time, or a date, as ISO 8601; ValueError if it is neither."""
    found = _TIME.fullmatch(text) if len(text) <= _LONGEST_TIME else None
    if found is None or not (found["clock"] or found["y"] or found["Y"]):
        raise ValueError
    year, month, day = (found[name] or found[name.swapcase()] for name in "ymd")
    since = (date.fromisoformat(NO_DATE) + timedelta(int(found["days"] or 0))).isoformat()
    date_part = f"{year}-{month:0>2}-{day:0>2}" if year else since
    zone = (found["zone"] or "").upper()
    part = f".{found['part'][:6]:0<6}" if found["part"] else ""
    return f"{date_part}T{found['clock'] or '00:00:00':0>8}{part}{'Z' if zone in ('UTC', 'GMT') else zone}"


def as_numbers(values: Any, column: str, place: Place) -> FloatArray:
    """Return float64 values, NaN where missing, of a polars series, an array or a list."""
    values = plain(values)
    if isinstance(values, np.ndarray):
        if values.dtype.kind == "m":
            return np.asarray(values / np.timedelta64(1, "s"))
        if values.dtype.kind in "biuf":
            with np.errstate(over="ignore"):  # beyond float64 is inf, which is refused where its place is known
                return values.astype(np.float64, copy=False)
        values = (values.astype(str) if values.dtype.kind == "M" else values).tolist()
    elif not isinstance(values, list):
        return _parse_numbers(values, column, place)
    out = np.empty(len(values))
    for i, value in enumerate(values):
        try:
            out[i] = to_number(value)
        except ValueError:
            # A word for missing ones, or a row of units.
            mends = place.row(i) == 1 or is_word(value)
            raise place.error(i, column, not_a_number(value), DamageError if mends else DataError) from None
    return out


def _parse_numbers(texts: Any, column: str, place: Place) -> FloatArray:
    """Return the numbers of a series of text."""
    import polars as pl

    bare = texts.str.strip_chars()
    bare = bare.set(bare.is_in(list(MISSING)), None)
    found = bare.cast(pl.Float64, strict=False)
    out = np.array(found.to_numpy())
    for i in (found.is_null() & bare.is_not_null()).arg_true():  # what polars does not take, but we may
        out[i] = as_numbers([texts[i]], column, Place(place.path, place.row(i)))[0]
    return out


def plain(values: Any) -> Any:
    """Return a series of numbers or times as an array, NaN where missing; others that are not text as a list."""
    if isinstance(values, np.ndarray | list):
        return values
    import polars as pl

    kind = values.dtype
    if kind.is_integer() and "128" not in str(kind) and not values.null_count():
        return values.to_numpy()  # a label must not read '1.0', and nanoseconds keep their end
    if kind.is_numeric() or kind in (pl.Boolean, pl.Null):
        return values.cast(pl.Float64).to_numpy()
    if kind == pl.Time:
        return values.cast(pl.Int64).to_numpy() / 1e9
    if isinstance(kind, pl.Datetime | pl.Duration | pl.Date):
        return values.to_numpy()
    return values.cast(pl.String) if kind in (pl.String, pl.Categorical, pl.Enum) else values.to_list()


def as_labels(values: Any, column: str, place: Place, *, optional: bool = False) -> Any:
    """Return labels as a polars series of text or of categories; null where they are missing and `optional`."""
    import polars as pl

    texts = (pl.String, pl.Categorical, pl.Enum)
    if not isinstance(values, pl.Series) or not (values.dtype.is_integer() or values.dtype in texts):
        labels = [None if v is None or v != v else str(v) for v in values]
        if (odd := next((i for i, label in enumerate(labels) if label and not is_unicode(label)), None)) is not None:
            raise place.error(odd, column, f"{quote(labels[odd])} holds half a character: mend it")
        values = pl.Series(labels, dtype=pl.String)
    missing = values.is_null()
    if optional and values.dtype == pl.String:
        missing |= values == ""
        values = values.set(missing, None)
    elif not optional and missing.any():
        raise place.error(missing.arg_true()[0], column, NO_LABEL)
    return values if values.dtype in texts else values.cast(pl.String)


def is_unicode(text: str) -> bool:
    """Return whether a text can be written: JSON and Python may hold halves of characters (surrogates)."""
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def find_runs(labels: Any) -> dict[str | None, list[slice]]:
    """Return where each label stands in a series, as runs of neighbours; labels in the order of their first rows."""
    codes = labels.to_physical()
    starts = [0, *(codes != codes.shift(1, fill_value=codes[0])).fill_null(True).arg_true()] if len(codes) else []
    found: dict[str | None, list[slice]] = {}
    for label, start, stop in zip(labels.gather(starts).to_list(), starts, [*starts[1:], len(labels)], strict=True):
        found.setdefault(label, []).append(slice(start, stop))
    return found


def as_times(values: Any, column: str, place: Place, *, stamps: bool) -> Times:
    """Return one time per row: datetime64 if these are stamps, int64 if they are whole, float64 otherwise."""
    values = plain(values)
    if not stamps and (whole := _as_whole(values)) is not None:
        return whole  # nanoseconds since 1970 lose their end as float64
    if stamps and not (isinstance(values, np.ndarray) and values.dtype.kind == "M"):
        values = np.array(_stamps(values, column, place), dtype="datetime64[us]")
    times = values if stamps else as_numbers(values, column, place)
    missing = np.isnat(times) if stamps else ~np.isfinite(times)
    if missing.any():
        i = int(missing.argmax())
        raise place.error(
            i, column, f"the time is {'missing' if stamps else times[i]}: every row needs one, or leave the column out"
        )
    return np.asarray(times)


def _stamps(values: Iterable[Any], column: str, place: Place) -> list[datetime]:
    stamps = []
    for i, value in enumerate(values):
        try:
            stamps.append(to_stamp(value))
        except (ValueError, OverflowError):
            raise place.error(i, column, f"{quote(value)} is not a time: {WRITE_TIMES}") from None
    return stamps


def _as_whole(values: Any) -> npt.NDArray[np.int64] | None:
    """Return whole numbers as int64; None if they are not, or too large."""
    if isinstance(values, np.ndarray):
        fits = values.dtype.kind == "i" or (values.dtype.kind == "u" and (not len(values) or int(values.max()) < 2**63))
        return values.astype(np.int64, copy=False) if fits else None
    given = values if isinstance(values, list) else values.to_list()
    try:
        return np.array(list(map(int, given)), dtype=np.int64) if all(map(_is_whole, given)) else None
    except (OverflowError, ValueError):  # of thousands of digits
        return None


def kind_of(values: Iterable[object]) -> str:
    """Return the kind of a column from some of its values: most decide, so that a slip is seen as an error."""
    seen = [v for v in values if v is not None and not (isinstance(v, str) and v.strip() in MISSING)]
    if not seen:
        return EMPTY
    if 2 * sum(_succeeds(to_number, v) for v in seen) >= len(seen):
        return WHOLE if all(_is_whole(v) for v in seen) else NUMBER
    if 2 * sum(_succeeds(to_stamp, v) for v in seen) >= len(seen):
        return STAMP
    marked = [isinstance(v, str) and _THOUSANDS.fullmatch(v.strip()) is not None for v in seen]
    return MARKED if 2 * sum(marked) >= len(seen) else TEXT


def kind_of_array(values: npt.NDArray[Any]) -> str:
    """Return the kind of a numpy array."""
    known = {"b": NUMBER, "i": WHOLE, "u": WHOLE, "f": NUMBER, "M": STAMP, "m": SPAN, "S": "bytes", "V": "records"}
    return known.get(values.dtype.kind) or kind_of(values[:SAMPLE].tolist())


def look_like_values(names: Sequence[str]) -> bool:
    """Return whether most of these names are numbers or times; whole numbers that differ may be names.

    >>> look_like_values(["mon", "0.0", "1.5"]), look_like_values(["0", "1", "2"])
    (True, False)
    """
    named = [n for n in names if n.strip() not in MISSING]
    found = [n for n in named if _succeeds(to_number, n) or _succeeds(to_stamp, n)]
    return 2 * len(found) > len(named) and not (all(map(_is_whole, found)) and len(set(found)) == len(found))


def no_header(names: Sequence[str]) -> str:
    """Return the message on names of columns that are values."""
    some = ", ".join(map(quote, names[:3]))
    return (
        f"the first row holds values ({some}{', ...' if len(names) > 3 else ''}), not names: put a header above it, as "
        "sequence,t,x_ball,a_pan"
    )


def not_a_number(value: object) -> str:
    """Return the message on a value that is no number."""
    hint = ""
    if isinstance(value, str) and _succeeds(to_number, value.strip().replace(",", ".")):
        hint = " (a number needs a point, not a comma)"
    elif isinstance(value, str) and _succeeds(to_number, re.sub(r"[_.,\s]", "", value)):
        hint = " (a number has nothing between its digits)"
    return f"{quote(value)} is not a number{hint}: mend it, leave it empty if it is missing, or leave the column out"


def _succeeds(convert: Any, value: object) -> bool:
    try:
        convert(value)
    except (ValueError, OverflowError):
        return False
    return True


def _is_whole(value: object) -> bool:
    if isinstance(value, str):
        digits = value.strip().lstrip("+-")
        return digits.isascii() and digits.isdecimal()
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)
