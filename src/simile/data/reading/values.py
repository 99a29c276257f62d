"""Single values of any make to numbers, labels and times; what cannot be converted is named by its place."""

from __future__ import annotations

import numbers
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from simile._common.typing import FloatArray
from simile.data.reading.tables import (
    EMPTY,
    NUMBER,
    SPAN,
    STAMP,
    TEXT,
    WHOLE,
    Batch,
    Place,
    Times,
    Wanted,
    quote,
)

# What stands for a missing value in text, wherever text is read.
_WORDS = ("nan", "na", "n/a", "null", "none")
MISSING = frozenset({"", "NaN", *(spell(word) for word in _WORDS for spell in (str.lower, str.upper, str.title))})
WRITE_TIMES = "write ISO 8601, as 2024-05-31T12:00:00.25, or seconds"
TAIL = 50  # values at the end of a batch that tell whether a text has turned into numbers
NO_DATE = "0001-01-03"  # of times without one; not the first, that no zone leads out of the calendar
_LONGEST_TIME = 80  # characters
_TIME = re.compile(
    r"(?:(?P<days>\d{1,3}) days?,?\s+)?"
    r"(?:(?P<y>\d{4})[-/.](?P<m>\d\d?)[-/.](?P<d>\d\d?)|(?P<D>\d\d?)\.(?P<M>\d\d?)\.(?P<Y>\d{4}))?[T,\s]*"
    r"(?:(?P<clock>\d\d?:\d\d:\d\d)(?:[.,](?P<part>\d+))?)?\s*(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d)?(?:\[[\w/+-]+\])?",
    re.ASCII | re.IGNORECASE,
)


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


def as_numbers(values: Sequence[Any] | npt.NDArray[Any], column: str, place: Place) -> FloatArray:
    """Return float64 values, NaN where missing."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        with np.errstate(
            over="ignore"
        ):  # what is beyond float64 becomes inf, which is refused where its place is known
            return values.astype(np.float64, copy=False)
    if isinstance(values, np.ndarray) and values.dtype.kind == "m":
        return np.asarray(values / np.timedelta64(1, "s"))
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":  # numpy would make whole numbers of these
        values = values.astype(str)
    out = np.empty(len(values))
    for i, value in enumerate(_plain(values)):
        try:
            out[i] = to_number(value)
        except ValueError:
            raise place.error(i, column, not_a_number(value)) from None
    return out


def as_labels(values: Sequence[Any] | npt.NDArray[Any], column: str, place: Place) -> list[str]:
    """Return one label per row."""
    labels = _plain(values)
    if set(map(type, labels)) == {str}:
        return list(labels)
    for i, label in enumerate(labels):
        if label is None or label != label:
            raise place.error(i, column, no_label())
    return [str(label) for label in labels]


def as_groups(values: Sequence[Any] | npt.NDArray[Any]) -> list[str | None]:
    """Return the label of a group per row, None where it is missing."""
    return [None if label is None or label != label or label == "" else str(label) for label in _plain(values)]


def as_times(values: Sequence[Any] | npt.NDArray[Any], column: str, place: Place, *, stamps: bool) -> Times:
    """Return one time per row: datetime64 if these are stamps, int64 if they are whole, float64 otherwise."""
    if not stamps and (whole := _as_whole(values)) is not None:
        return whole  # nanoseconds since 1970 lose their end as float64
    if stamps and not (isinstance(values, np.ndarray) and values.dtype.kind == "M"):
        values = np.array(_stamps(_plain(values), column, place), dtype="datetime64[us]")
    times = values if stamps else as_numbers(values, column, place)
    assert isinstance(times, np.ndarray)
    missing = np.isnat(times) if stamps else ~np.isfinite(times)
    if missing.any():
        i = int(missing.argmax())
        raise place.error(
            i, column, f"the time is {'missing' if stamps else times[i]}: every row needs one, or leave the column out"
        )
    return times


def as_batch(values: Mapping[str, Any], wanted: Wanted, place: Place) -> Batch:
    """Return the wanted columns of some rows, given their values by name."""
    return Batch(
        place,
        {n: as_numbers(values[n], n, place) for n in wanted.numbers},
        None if wanted.labels is None else as_labels(values[wanted.labels], wanted.labels, place),
        None if wanted.time is None else as_times(values[wanted.time], wanted.time, place, stamps=wanted.stamps),
        frozenset(n for n in wanted.texts if n in values and kind_of(values[n][-TAIL:]) in (WHOLE, NUMBER)),
        None if wanted.group is None else as_groups(values[wanted.group]),
    )


def kind_of(values: Iterable[object]) -> str:
    """Return the kind of a column from some of its values: most decide, so that a slip is seen as an error."""
    seen = [v for v in values if v is not None and not (isinstance(v, str) and v.strip() in MISSING)]
    if not seen:
        return EMPTY
    if 2 * sum(_succeeds(to_number, v) for v in seen) >= len(seen):
        return WHOLE if all(_is_whole(v) for v in seen) else NUMBER
    return STAMP if 2 * sum(_succeeds(to_stamp, v) for v in seen) >= len(seen) else TEXT


def kind_of_array(values: npt.NDArray[Any]) -> str:
    """Return the kind of a numpy array."""
    known = {"b": NUMBER, "i": WHOLE, "u": WHOLE, "f": NUMBER, "M": STAMP, "m": SPAN, "S": "bytes", "V": "records"}
    return known.get(values.dtype.kind) or kind_of(values[:1000].tolist())


def no_header(names: Sequence[str]) -> str:
    """Say that the names of columns are values, and what to do."""
    some = ", ".join(map(quote, names[:3]))
    return (
        f"the first row holds values ({some}{', ...' if len(names) > 3 else ''}), not names: put a header above it, as "
        "sequence,t,x_ball,a_pan"
    )


def look_like_values(names: Sequence[str]) -> bool:
    """Return whether most of these names are numbers or times; whole numbers that differ may be names.

    >>> look_like_values(["mon", "0.0", "1.5"]), look_like_values(["0", "1", "2"])
    (True, False)
    """
    named = [n for n in names if n.strip() not in MISSING]
    found = [n for n in named if _succeeds(to_number, n) or _succeeds(to_stamp, n)]
    numbered = all(map(_is_whole, found)) and len(set(found)) == len(found)
    return 2 * len(found) > len(named) and not numbered


def not_a_number(value: object) -> str:
    """Say that a value is no number, and what to do."""
    hint = ""
    if isinstance(value, str) and _succeeds(to_number, value.strip().replace(",", ".")):
        hint = " (a number needs a point, not a comma)"
    elif isinstance(value, str) and _succeeds(to_number, re.sub(r"[_.,\s]", "", value)):
        hint = " (a number has nothing between its digits)"
    return f"{quote(value)} is not a number{hint}: mend it, leave it empty if it is missing, or leave the column out"


def no_label() -> str:
    """Say that a row belongs to no sequence, and what to do."""
    return "the row has no label, so it belongs to no sequence: fill it in or drop the row"


def _plain(values: Sequence[Any] | npt.NDArray[Any]) -> Sequence[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else values


def _stamps(values: Sequence[Any], column: str, place: Place) -> list[datetime]:
    stamps = []
    for i, value in enumerate(values):
        try:
            stamps.append(to_stamp(value))
        except (ValueError, OverflowError):
            raise place.error(i, column, f"{quote(value)} is not a time: {WRITE_TIMES}") from None
    return stamps


def _succeeds(convert: Any, value: object) -> bool:
    try:
        convert(value)
    except (ValueError, OverflowError):
        return False
    return True


def _as_whole(values: Sequence[Any] | npt.NDArray[Any]) -> npt.NDArray[np.int64] | None:
    """Return whole numbers as int64; None if they are not, or too large."""
    if not isinstance(values, np.ndarray):
        if not all(map(_is_whole, values)):
            return None
        try:
            return np.array(list(map(int, values)), dtype=np.int64)
        except (OverflowError, ValueError):  # of thousands of digits
            return None
    fits = values.dtype.kind == "i" or (values.dtype.kind == "u" and (not len(values) or int(values.max()) < 2**63))
    return values.astype(np.int64, copy=False) if fits else None


def _is_whole(value: object) -> bool:
    if isinstance(value, str):
        digits = value.strip().lstrip("+-")
        return digits.isascii() and digits.isdecimal()
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)
