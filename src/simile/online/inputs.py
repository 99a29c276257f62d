"""Reading what a caller hands over in a frame: contexts, actions, and the numbers of streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.errors import ArgumentError


def read_numbers(given: Any, name: str, *, ndmin: int) -> FloatArray:
    """Return `given` as a new float64 array that may be written to; masked values become NaN."""
    if isinstance(given, np.ma.MaskedArray):
        given = np.ma.filled(given.astype(np.float64), np.nan)
    try:
        if type(given) is not np.ndarray and np.asarray(given).dtype.kind in "cmMSU":  # numpy would read these
            raise TypeError(f"got {given!r}")
        # A copy in any case: the kernels are compiled for arrays in C order that may be written to.
        return np.array(given, dtype=np.float64, order="C", ndmin=ndmin)
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(f"{name} must be numbers: {error}") from None


def read_context(x: Any, n_contexts: int, names: Sequence[str]) -> FloatArray:
    """Return a context as (1, m): from m values in order, or from a mapping of their names; NaN is missing."""
    if isinstance(x, Mapping):
        x = put_in_order(x, names)
    row = read_numbers(x, "x", ndmin=1)
    if row.ndim != 1 or len(row) != (n_contexts or len(row) or 1):
        raise ArgumentError(f"x must hold {_count_values(n_contexts)}; got shape {row.shape}")
    if np.isinf(row).any():
        column = int(np.argmax(np.isinf(row)))
        raise ArgumentError(_tell_infinite("x", row[column], column, names))
    return row[np.newaxis]


def read_contexts(X: Any, n_rows: int, n_contexts: int, names: Sequence[str], present: Any = None) -> FloatArray:
    """Return contexts as (n, m), one row per stream; the rows that are not present may hold anything."""
    rows = read_numbers(X, "X", ndmin=2)
    if rows.ndim != 2 or len(rows) != n_rows or rows.shape[1] != (n_contexts or rows.shape[1] or 1):
        raise ArgumentError(
            f"X must have a row for each of {n_rows} streams with {_count_values(n_contexts)}; got shape {rows.shape}"
        )
    wild = np.isinf(rows) if present is None else np.isinf(rows) & present[:, np.newaxis]
    if wild.any():
        row, column = (int(i) for i in np.argwhere(wild)[0])
        raise ArgumentError(_tell_infinite(f"X, row {row},", rows[row, column], column, names))
    return rows


def read_actions(A: Any, name: str, shape: tuple[int, int]) -> FloatArray:
    """Return an operator's actions as (n, k), finite."""
    rows = read_numbers(A, name, ndmin=1)
    if rows.ndim == 1 and shape[0] == 1:
        rows = rows[np.newaxis]
    if rows.shape != shape:
        raise ArgumentError(
            f"{name} must hold {_count_values(shape[1], 'action')}"
            + (f" for each of {shape[0]} streams" if shape[0] != 1 else "")
            + f"; got shape {np.shape(A)}"
        )
    if not np.isfinite(rows).all():
        raise ArgumentError(f"{name} must be finite; got {A!r}: leave the frame to step(None) where nobody acted")
    return rows


def read_present(given: Any, n_rows: int) -> Any:
    """Return a mask of the rows that brought a context, (n,)."""
    mask = np.asarray(given)
    if mask.dtype != np.bool_ or mask.shape != (n_rows,):
        raise ArgumentError(f"present must be True or False for each of {n_rows} rows of X; got {given!r}")
    return mask


def read_streams(given: Any, n_streams: int) -> IntArray:
    """Return the numbers of different streams, (n,)."""
    ids = np.asarray(given)
    if ids.dtype.kind not in "iu" or ids.ndim != 1:
        raise ArgumentError(f"streams must be a list of whole numbers; got {given!r}")
    if len(ids) and (ids.min() < 0 or ids.max() >= n_streams):
        raise ArgumentError(f"streams must lie between 0 and {n_streams - 1}; got {given!r}")
    if len(np.unique(ids)) < len(ids):
        raise ArgumentError(f"streams must be different: a stream takes one frame at a time; got {given!r}")
    return np.array(ids, dtype=np.intp)


def put_in_order(x: Mapping[Any, Any], names: Sequence[str]) -> list[Any]:
    """Put named values in order."""
    if not names:
        raise ArgumentError(
            "x: the policy does not know the names of its contexts: give the values in order, or learn from "
            "demonstrations with context_names"
        )
    if (unknown := next((name for name in x if name not in names), None)) is not None:
        raise ArgumentError(f"x: no context is called {str(unknown)[:100]!r}; the policy knows {', '.join(names)}")
    if absent := [name for name in names if name not in x]:
        raise ArgumentError(f"x: {absent[0]!r} is missing: give it, as NaN where it is not known in this frame")
    return [x[name] for name in names]


def _count_values(n: int, noun: str = "value") -> str:
    return f"{n} {noun}" + ("s" if n != 1 else "") if n else f"at least one {noun}"


def _tell_infinite(place: str, value: float, column: int, names: Sequence[str]) -> str:
    named = f" ({names[column]!r})" if names else ""
    return f"{place} must be finite or NaN (missing); got {value} at column {column}{named}"
