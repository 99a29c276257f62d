"""Single values of any make to numbers, labels and times; what cannot be converted is named by its place."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from simile._common.typing import FloatArray
from simile.data.reading.tables import EMPTY, NUMBER, STAMP, TEXT, WHOLE, Batch, Place, Times, Wanted, quote

# What stands for a missing value in text, wherever text is read.
_WORDS = ("nan", "na", "n/a", "null", "none")
MISSING = frozenset({"", "NaN", *(spell(word) for word in _WORDS for spell in (str.lower, str.upper, str.title))})


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
    """Return an ISO 8601 string or a date as a moment in UTC; without a zone it is taken for UTC."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value.strip())
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime):
        raise ValueError
    return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)


def as_numbers(values: Sequence[Any] | npt.NDArray[Any], column: str, place: Place) -> FloatArray:
    """Return float64 values, NaN where missing."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
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


def as_times(values: Sequence[Any] | npt.NDArray[Any], column: str, place: Place, *, stamps: bool) -> Times:
    """Return one time per row: datetime64 if these are stamps, float64 otherwise."""
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
    known = {"b": NUMBER, "i": WHOLE, "u": WHOLE, "f": NUMBER, "M": STAMP, "m": NUMBER, "S": "bytes", "V": "records"}
    return known.get(values.dtype.kind) or kind_of(values[:1000].tolist())


def not_a_number(value: object) -> str:
    """Say that a value is no number, and what to do."""
    hint = ""
    if isinstance(value, str) and _succeeds(to_number, value.strip().replace(",", ".")):
        hint = " (a number needs a point, not a comma)"
    elif isinstance(value, str) and _succeeds(to_number, value.replace("_", "")):
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
            raise place.error(
                i, column, f"{quote(value)} is not a time: write ISO 8601, as 2024-05-31T12:00:00.25, or seconds"
            ) from None
    return stamps


def _succeeds(convert: Any, value: object) -> bool:
    try:
        convert(value)
    except (ValueError, OverflowError):
        return False
    return True


def _is_whole(value: object) -> bool:
    if isinstance(value, str):
        return value.strip().lstrip("+-").isdecimal()
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)
