"""Batches of rows to sequences, checked value by value while the place of each is still known."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile._common.urls import File, pure
from simile.data.groups import one_group
from simile.data.names import FEW, counts_rows, tidy, tidy_all
from simile.data.reading.clock import first_not_later
from simile.data.reading.columns import Choice
from simile.data.reading.tables import FRAME, Batch, Table, Times, Wanted
from simile.errors import DataError


@dataclass(eq=False)
class Pieces:
    """One sequence while it is read: pieces of its contexts (., m), actions (., k) and times (.,)."""

    name: str
    group: str | None = None
    lead: int = 0  # see `Roles`
    contexts: list[FloatArray] = field(default_factory=list)
    actions: list[FloatArray] = field(default_factory=list)
    times: list[Times] = field(default_factory=list)
    numbers: list[FloatArray] = field(default_factory=list)  # of the frames, where they have some

    def __len__(self) -> int:
        return sum(map(len, self.actions))

    def cut(self) -> list[Pieces]:
        """Return it as sequences without lost frames, called by their first frame; every action beside its contexts.

        That is, beside those of the frame that it is for: rows without the other go.
        """
        numbers = np.concatenate(self.numbers) if self.numbers else np.empty(0)
        lost = np.flatnonzero(np.diff(numbers) != 1) + 1
        self.numbers.clear()
        if not self.lead and not len(lost):
            return [self]
        contexts, actions, times = (
            np.concatenate(parts) if parts else None for parts in (self.contexts, self.actions, self.times)
        )
        assert contexts is not None
        assert actions is not None
        found = []
        for run in np.split(np.arange(len(actions)), lost):
            seen, acted = align_rows(run, self.lead)
            known = ~np.isnan(actions[acted]).any(axis=1)
            seen, acted = seen[known], acted[known]
            name = self.name if run[0] == 0 else f"{self.name}/{numbers[run[0]]:.0f}"
            own = [] if times is None else [times[seen]]
            found.append(replace(self, name=name, contexts=[contexts[seen]], actions=[actions[acted]], times=own))
        return found


def align_rows(rows: IntArray, lead: int) -> tuple[IntArray, IntArray]:
    """Return the rows of frames, and those of what was done for them, so many frames before.

    >>> align_rows(np.arange(5), -2)
    (array([0, 1, 2]), array([2, 3, 4]))
    """
    n = max(0, len(rows) - abs(lead))
    return rows[max(lead, 0) :][:n], rows[max(-lead, 0) :][:n]


class NoGroupError(Exception):
    """A column that is called like a group is none: it changes inside a sequence, or is missing."""


@dataclass(frozen=True, eq=False)
class Gathered:
    """All sequences, the contexts that count rows, and the texts that turn into numbers further down."""

    pieces: list[Pieces]
    counts: list[int]  # how many sequences of each table
    counters: frozenset[str]
    turned: frozenset[str]
    lost: tuple[str, ...] = ()  # sequences that are cut, for frames are lost in them


def gather(tables: Sequence[Table], choice: Choice, names: Sequence[str], *, joined: bool = False) -> Gathered:
    """Return the sequences of all tables, in the order in which they begin, without guessed contexts that count rows.

    Parameters
    ----------
    names : sequence of str
        One per table: the name of the sequence where no column tells them apart.
    joined : bool
        Whether what has the same label in several tables is one sequence, which goes on from one to the next.
    """
    gathered: list[list[Pieces]] = []
    turned: set[str] = set()
    by_row = dict.fromkeys(choice.guessed, 0)  # how many steps from row to row there were, as long as all are 1
    begun: dict[str, Pieces] = {}  # in the tables before
    for table, name in zip(tables, names, strict=True):
        by_label = dict(begun)
        last: dict[str, FloatArray] = {}
        lead, wanted, numbered = table.roles.lead or 0, choice.wanted, _is_numbered(table, choice)
        for batch in table.scan(replace(wanted, numbers=(*wanted.numbers, FRAME)) if numbered else wanted):
            _add(batch, choice, by_label, name, lead, numbered=numbered)
            turned |= batch.turned
            for column in list(by_row):
                values = np.concatenate([last.get(column, np.empty(0)), batch.numbers[column]])
                last[column] = values[-1:]
                by_row[column] += len(values) - 1
                if (np.diff(values) != 1.0).any():
                    del by_row[column]
        gathered.append([p for label, p in by_label.items() if label not in begun])
        if joined:
            begun = by_label
        if choice.sequence is not None and tidy(choice.sequence) != choice.sequence:  # blanks after delimiters
            names_of = tidy_all(list(by_label))
            for label, p in by_label.items():
                p.name = names_of[label]
    gathered, lost = _cut(gathered, tables)
    labels = [p.name for pieces in gathered for p in pieces]
    if choice.sequence is not None and len(set(labels)) < len(labels):  # files that each count from 0
        for pieces, name in zip(gathered, names, strict=True):
            for p in pieces:
                p.name = f"{name}/{p.name}"
    together = [p for pieces in gathered for p in pieces]
    places = {name: i for i, name in enumerate(choice.contexts)}
    counters = frozenset(
        name for name in choice.guessed if by_row.get(name, 0) >= FEW or counts_rows(_steps(together, places[name]))
    )
    if counters:
        kept = [i for i, name in enumerate(choice.contexts) if name not in counters]
        for p in together:
            p.contexts = [table[:, kept] for table in p.contexts]
    return Gathered(together, list(map(len, gathered)), counters, frozenset(turned), lost)


def _is_numbered(table: Table, choice: Choice) -> bool:
    """Tell whether the frames of the sequences have numbers, which tell where some are lost: those of recordings."""
    streams = bool(table.roles.continues) and choice.sequence == table.roles.sequence
    return bool(table.roles.lead) or (streams and any(c.name == FRAME and c.is_numeric for c in table.columns))


def _cut(gathered: list[list[Pieces]], tables: Sequence[Table]) -> tuple[list[list[Pieces]], tuple[str, ...]]:
    """Return the sequences cut where frames are lost, and the names of those that were.

    Those of policies with a lead are aligned; what is too short for one answer is left out.
    """
    cut, lost = list[list[Pieces]](), list[str]()
    for pieces in gathered:
        cut.append([])
        for p in pieces:
            found = [part for part in p.cut() if len(part)]
            lost += [p.name] * (len(found) > 1)
            cut[-1] += found
    if any(gathered) and not any(cut):
        raise DataError(
            f"{tables[0].path}: no frame has an action: the policy was recorded with a lead of "
            f"{tables[0].roles.lead} frames, and no sequence is longer: record for longer, and end streams"
        )
    return cut, tuple(lost)


def find_spans(table: Table, spans: dict[str, tuple[int, int]]) -> Table:
    """Return a table whose scan notes the first and the last row of every sequence, counted from 0."""

    def scan(wanted: Wanted) -> Iterator[Batch]:
        for batch in table.scan(wanted):
            row = batch.place.first_row - 1
            for label, rows in () if batch.labels is None else _groups(batch.labels, ""):
                first, last = (rows.start, rows.stop - 1) if isinstance(rows, slice) else (int(rows[0]), int(rows[-1]))
                spans[label] = spans.get(label, (row + first, 0))[0], row + last
            yield batch

    return replace(table, scan=scan)


def list_cuts(spans: Iterable[tuple[int, int]]) -> list[int]:
    """Return the rows at which a sequence begins and none goes on, but for the first.

    >>> list_cuts([(0, 4), (5, 9), (7, 12), (13, 20)])
    [5, 13]
    """
    cuts, end = [], -1
    for first, last in sorted(spans):
        if first > end >= 0:
            cuts.append(first)
        end = max(end, last)
    return cuts


def _steps(gathered: Sequence[Pieces], i: int) -> FloatArray:
    """Return the steps of context i inside sequences, as far as the first that is not 1."""
    found = []
    for p in gathered:
        found.append(np.diff(np.concatenate([table[:, i] for table in p.contexts])))
        if (found[-1] != 1.0).any():
            break
    return np.concatenate(found)


def join_pieces(pieces: list[FloatArray]) -> FloatArray:
    """Return the pieces as one read-only array and let go of them: both must not stay in memory."""
    whole = np.concatenate(pieces)
    pieces.clear()
    whole.setflags(write=False)
    return whole


def file_names(files: Sequence[File]) -> list[str]:
    """Return the stem of every file; where stems collide, the path from the folder they share."""
    paths = [pure(file) for file in files]
    try:
        common = os.path.commonpath([path.parent for path in paths])
    except ValueError:  # some are relative, or on another drive: whole paths tell them apart
        common = ""
    inside = [path.relative_to(common) if common else path for path in paths]
    names = [_stem(path) for path in paths]
    for longer in ([path.with_name(_stem(path)).as_posix() for path in inside], [path.as_posix() for path in inside]):
        counts = Counter(names)
        names = [short if counts[short] == 1 else long for short, long in zip(names, longer, strict=True)]
    return names


def _stem(path: PurePath) -> str:
    return Path(path.stem).stem if path.suffix.lower() == ".gz" else path.stem


def _add(batch: Batch, choice: Choice, by_label: dict[str, Pieces], name: str, lead: int, *, numbered: bool) -> None:
    _check(batch, choice, waits=lead < 0)
    contexts = _stack(batch, choice.contexts)
    actions = _stack(batch, choice.actions)
    for label, rows in _groups(batch.labels, name):
        pieces = by_label.setdefault(label, Pieces(label, lead=lead))
        if batch.groups is not None:
            _check_group(pieces, batch, rows, choice)
        if batch.times is not None:
            times = past_midnight(pieces.times, batch.times[rows])
            _check_later(pieces.times, times, batch, rows, choice)
            pieces.times.append(times)
        pieces.contexts.append(contexts[rows])
        pieces.actions.append(actions[rows])
        if numbered:
            pieces.numbers.append(batch.numbers[FRAME][rows])


def _check_group(pieces: Pieces, batch: Batch, rows: Any, choice: Choice) -> None:
    """Keep the group of a sequence; refuse another one inside it."""
    labels = batch.groups or ()
    if tidy(str(choice.group)) != choice.group:  # blanks after delimiters
        labels = [label and (label.strip() or None) for label in labels]
    groups = np.array([*labels, None], dtype=object)[:-1][rows]
    first = pieces.group if len(pieces) else groups[0]
    odd = np.array([label is None or label != first for label in groups])
    if odd.any():
        if choice.group_guessed:
            raise NoGroupError
        i = int(odd.argmax())
        told = "the row has no label, so its sequence is in no group: fill it in"
        told = told if groups[i] is None else one_group(pieces.name, first, groups[i])
        raise batch.place.error(int(np.arange(len(batch))[rows][i]), str(choice.group), told)
    pieces.group = first


def _stack(batch: Batch, names: Sequence[str]) -> FloatArray:
    table = np.empty((len(batch), len(names)))
    for i, name in enumerate(names):
        table[:, i] = batch.numbers[name]
    return table


def _check(batch: Batch, choice: Choice, *, waits: bool) -> None:
    for name in choice.wanted.numbers:
        values = batch.numbers[name]
        if (bad := np.isinf(values)).any():
            i = int(bad.argmax())
            raise batch.place.error(i, name, f"{values[i]} is not finite: leave it empty if it is missing")
    for name in () if waits else choice.actions:
        if (bad := np.isnan(batch.numbers[name])).any():
            raise batch.place.error(
                int(bad.argmax()),
                name,
                f"the action is missing ({int(bad.sum()):,} in these {len(batch):,} rows): fill it in or drop the "
                "rows; a gap they leave in the time can be cut with gap=...",
            )


def past_midnight(earlier: list[Times], times: Times) -> Times:
    """Let times of day, which have no date, go on after midnight."""
    if times.dtype.kind != "M" or not len(times) or times[0].astype("datetime64[Y]") != np.datetime64("0001"):
        return times
    day = np.timedelta64(1, "D")
    last = earlier[-1][-1:] if earlier else times[:1]
    times = times + np.maximum(np.rint((last - times[0]) / day), 0).astype(int) * day
    return times + np.cumsum(np.diff(np.concatenate([last, times])) < -day // 2) * day


def _check_later(earlier: list[Times], times: Times, batch: Batch, rows: Any, choice: Choice) -> None:
    """Refuse a time that is not later than the one before it in the same sequence."""
    last = earlier[-1][-1:] if earlier else times[:0]
    together = np.concatenate([last, times])
    if (i := first_not_later(together)) is not None:
        index = i - len(last)
        row = int(np.arange(len(batch))[rows][index])
        raise batch.place.error(
            row,
            str(choice.time),
            f"the time goes from {together[i - 1]} to {together[i]}, but must increase inside a sequence: sort the "
            "rows by it, tell the sequences apart with sequence=..., or name another column with time=...",
        )


def _groups(labels: list[str] | None, name: str) -> Iterator[tuple[str, Any]]:
    """Yield every label with its rows: a slice where they are neighbours, their indices otherwise."""
    if labels is None:
        yield name, slice(None)
        return
    values = np.array([*labels, None], dtype=object)[:-1]  # None keeps numpy from looking for more axes
    starts = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist()]
    runs: dict[str, list[slice]] = {}
    for start, stop in zip(starts, [*starts[1:], len(labels)], strict=True):
        runs.setdefault(labels[start], []).append(slice(start, stop))
    for label, slices in runs.items():
        yield label, slices[0] if len(slices) == 1 else np.concatenate([np.arange(s.start, s.stop) for s in slices])
