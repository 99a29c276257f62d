"""Data frames of any make, through narwhals, to plain arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.data.groups import one_group
from simile.data.names import counts_rows, is_index, recognise, tell_twins, tell_untidy, tidy, tidy_all
from simile.errors import ArgumentError, DataError


@dataclass(frozen=True, eq=False)
class Columns:
    """What a frame holds: contexts (rows, m), actions (rows, k) and the rows of each sequence, by name.

    `groups` are the labels of the sequences, in the column `group`. `said` are lines about what was left out, or is
    written in another way than it was read.
    """

    contexts: FloatArray
    actions: FloatArray
    sequences: dict[str, IntArray]
    context_names: list[str]
    action_names: list[str]
    said: list[str]
    group: str | None = None
    groups: list[Any] | None = None


def read_frame(
    frame: Any,
    *,
    actions: str | Sequence[str],
    contexts: str | Sequence[str] | None,
    sequence: str | None,
    group: str | None = None,
) -> Columns:
    """Pick columns of a pandas, polars or Arrow frame, blanks and case aside.

    `contexts` are all remaining columns by default, but for those that count rows or are called like an index.
    """
    wanted = [actions] if isinstance(actions, str) else list(actions)
    keys = [] if sequence is None else [sequence]
    kinds = [] if group is None else [group]
    seen = [contexts] if isinstance(contexts, str) else list(contexts or ())
    data, notes = _rename(_open_frame(frame), [wanted, keys, kinds, seen])
    left_out: dict[str, str] = {}
    if contexts is None:
        rest = [c for c in data.columns if c not in {*wanted, *keys, *kinds}]
        left_out = _indices(data, rest, keys)
        seen = [c for c in rest if c not in left_out]
    for argument, names in (("sequence", keys), ("group", kinds), ("actions", wanted), ("contexts", seen)):
        if not names and argument not in ("sequence", "group"):
            raise ArgumentError(f"{argument} must name at least one column; the frame has {', '.join(data.columns)}")
        for name in names:
            if (*keys, *kinds, *wanted, *seen).count(name) > 1:
                raise ArgumentError(
                    f"{argument}: column {name!r} must be named once, as sequence, group, action or context; got "
                    f"sequence={sequence!r}, group={group!r}, actions={wanted} and contexts={seen}"
                )
            if name not in data.columns:
                raise DataError(f"{argument}: no column {name!r}; the frame has {', '.join(data.columns)}")
    sequences = _sequences(data, *keys)
    notes += tell_twins(sequences)
    named = [f"  left out  {', '.join(f'{n} ({why})' for n, why in left_out.items())}"] if left_out else []
    return Columns(
        contexts=_numbers(data, seen, "contexts"),
        actions=_numbers(data, wanted, "actions"),
        sequences=sequences,
        context_names=seen,
        action_names=wanted,
        said=[*named, *(f"  note      {note}" for note in notes)],
        group=group if group is None else kinds[0],
        groups=_groups(data, sequences, *kinds) if kinds else None,
    )


def _rename(data: Any, given: Sequence[list[Any]]) -> tuple[Any, list[str]]:
    """Give columns the names they are asked for by, which may differ in blanks and case, and others tidy ones."""
    names = tidy_all(data.columns)
    asked = [name for group in given for name in group if isinstance(name, str)]
    found = recognise(asked, data.columns)
    names |= {name: name for name in asked if name in names} | {old: tidy(name) for old, name in found.items()}
    for group in given:
        group[:] = [tidy(name) if name in found.values() else name for name in group]
    notes = tell_untidy(new for old, new in names.items() if new == tidy(old) != old)
    notes += [f"{names[old]!r} is the column {old!r}" for old in found if names[old] != tidy(old)]
    return data.rename({old: new for old, new in names.items() if old != new}), notes


def _indices(data: Any, columns: Iterable[str], keys: Sequence[str]) -> dict[str, str]:
    """Return the columns that are called like an index or count rows, in the frame or in each sequence."""
    parts = list(_sequences(data, *keys).values()) if set(keys) <= set(data.columns) else []
    found = {}
    for name in columns:
        if is_index(name):
            found[name] = "an index"
        elif data[name].dtype.is_integer() and not data[name].is_null().any():
            values = data[name].to_numpy().astype(np.float64)
            inside = np.concatenate([np.diff(values[rows]) for rows in parts]) if parts else np.empty(0)
            if counts_rows(np.diff(values)) or counts_rows(inside):
                found[name] = "counts rows"
    return found


def _open_frame(frame: Any) -> Any:
    import narwhals.stable.v2 as nw

    try:
        data = nw.from_native(frame, eager_only=True)
    except nw.exceptions.DuplicateError as error:
        raise ArgumentError(f"frame must have different column names: {error}") from None
    except TypeError:
        raise ArgumentError(
            f"frame must be a pandas, polars or Arrow data frame; got {type(frame).__name__}: "
            "collect() a lazy one, give arrays to from_arrays(...)"
        ) from None
    if odd := [c for c in data.columns if not isinstance(c, str)]:
        raise ArgumentError(f"frame must have strings as column names; got {odd}: rename those columns")
    if data.is_empty():
        raise DataError("frame must have at least one row; got none")
    return data


def _numbers(data: Any, names: list[str], argument: str) -> FloatArray:
    import narwhals.stable.v2 as nw

    for name in names:
        if not (data[name].dtype.is_numeric() or data[name].dtype == nw.Boolean):
            raise DataError(
                f"{argument}: column {name!r} holds {data[name].dtype}, not numbers: convert it or leave it out"
            )
    # Null and NaN both mean missing; column by column, because a whole frame may come back as objects.
    return np.column_stack([data[c].cast(nw.Float64).to_numpy() for c in names]).astype(np.float64)


def _sequences(data: Any, sequence: str | None = None) -> dict[str, IntArray]:
    if sequence is None:
        return {"frame": np.arange(len(data))}
    labels = data[sequence]
    missing = labels.is_null() | labels.is_nan() if labels.dtype.is_float() else labels.is_null()
    if missing.any():
        raise DataError(
            f"sequence: column {sequence!r} must label every row; got {int(missing.sum())} without a label: "
            "fill or drop those rows"
        )
    return group_rows(labels.to_list())


def _groups(data: Any, sequences: dict[str, IntArray], column: str) -> list[Any]:
    """Return the group of each sequence, which must have one alone."""
    labels, found = data[column].to_list(), []
    for name, rows in sequences.items():
        here = list(dict.fromkeys(None if labels[i] != labels[i] else labels[i] for i in rows))
        if here[0] is None or len(here) > 1:
            raise DataError(f"group: {column!r} {one_group(name, *here[:2])}")
        found.append(here[0])
    return found


def group_rows(labels: Iterable[Any]) -> dict[str, IntArray]:
    """Return the rows of every label, in order; labels in the order in which they first come."""
    rows: dict[Any, list[int]] = {}
    for row, label in enumerate(labels):
        rows.setdefault(label, []).append(row)
    return {str(label): np.array(index) for label, index in rows.items()}
