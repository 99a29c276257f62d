"""Checks of arguments, each ending in a message that names the argument, the value and the way out."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from simile._common.typing import FloatArray
from simile.errors import ArgumentError, DataError

LARGEST = 1e100  # of recorded values: policies hold no larger ones, and sums of squares are numbers
LOWEST_RATE, HIGHEST_RATE = 1e-9, 1e6  # frames a second: one in thirty years, and a million


def number(
    value: Any, name: str, *, at_least: float = -math.inf, at_most: float = math.inf, above: float = -math.inf
) -> float:
    """Return `value` as a finite float inside the given range."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise ArgumentError(f"{name} must be a number; got {value!r}")
    try:
        result = float(value)
    except OverflowError:
        raise ArgumentError(f"{name} must be finite; got a number of hundreds of digits") from None
    limits = [
        text
        for text, given in (
            (f">= {at_least:g}", at_least > -math.inf),
            (f"> {above:g}", above > -math.inf),
            (f"<= {at_most:g}", at_most < math.inf),
        )
        if given
    ]
    if not math.isfinite(result) or result < at_least or result > at_most or result <= above:
        wanted = limits if limits and not math.isinf(result) else ["finite", *limits]
        raise ArgumentError(f"{name} must be {' and '.join(wanted)}; got {value!r}")
    return result


def rate(value: Any, name: str = "rate") -> float:
    """Return frames a second as a float: of what anybody films, or steers by."""
    return number(number(value, name, above=0.0), name, at_least=LOWEST_RATE, at_most=HIGHEST_RATE)


def whole_number(value: Any, name: str, *, at_least: int = 0, at_most: int | None = None) -> int:
    """Return `value` as an int within bounds."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise ArgumentError(f"{name} must be a whole number; got {value!r}")
    if value < at_least:
        raise ArgumentError(f"{name} must be >= {at_least}; got {value!r}")
    if at_most is not None and int(value) > at_most:
        raise ArgumentError(f"{name} must be <= {at_most}; got {value!r}")
    return int(value)


def instance(value: Any, name: str, *, needs: str) -> None:
    """Refuse a class where an object is wanted, and an object without the method `needs`."""
    if isinstance(value, type):
        raise ArgumentError(
            f"{name} must be an object, not a class; got the class {value.__name__}: "
            f"write {value.__name__}(...) with parentheses"
        )
    if not callable(getattr(value, needs, None)):
        wanted = "be callable" if needs == "__call__" else f"have a method {needs}()"
        raise ArgumentError(f"{name} must {wanted}; got {value!r}")


def table(values: Any, name: str, *, allow_nan: bool = False, largest: float = math.inf) -> FloatArray:
    """Return `values` as a read-only (T, columns) float64 array, all below `largest`; a flat one becomes one column."""
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)  # masked means missing
    try:
        if (given := np.asarray(values).dtype).kind in "cmMSU":  # numpy would read these as numbers
            raise TypeError(f"got {given}")
        # What nobody can write to need not be copied: demonstrations share contexts when only actions change.
        frozen = isinstance(values, np.ndarray) and values.base is None and not values.flags.writeable
        array = (np.asarray if frozen else np.array)(values, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{name} must be numbers of shape (T,) or (T, columns): {error}") from None
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2:
        raise DataError(f"{name} must have shape (T,) or (T, columns); got {array.shape}")
    if 0 in array.shape:
        raise DataError(f"{name} must have at least one row and one column; got shape {array.shape}")
    bad = (array >= largest) | (array <= -largest) | (np.isnan(array) & (not allow_nan))
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        kinds = "finite or NaN (missing)" if allow_nan else "finite"
        kinds += "" if not math.isfinite(array[row, column]) else f" and below {largest:g}"
        raise DataError(
            f"{name} must be {kinds}; got {array[row, column]} at row {row}, column {column} "
            f"({int(bad.sum())} such values): drop or repair those rows, or cut the sequence there"
        )
    array.setflags(write=False)
    return array
