"""Chunks of rows to sequences, checked value by value while the place of each is still known."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from simile._common.checks import LARGEST
from simile._common.typing import BoolArray, FloatArray, IntArray
from simile._common.urls import File, pure
from simile.data.groups import one_group
from simile.data.names import FEW, counts_rows, tidy, tidy_all
from simile.data.reading.clock import first_not_later
from simile.data.reading.columns import ColumnRoles
from simile.data.reading.tables import FRAME, GAP, OPERATOR, POLICY, WAITING, Chunk, Table
from simile.data.reading.values import STAMP, DamageError, Place, Times, find_runs, quote
from simile.errors import DataError

NOBODY = frozenset((POLICY, GAP, WAITING))  # of those who act in recordings


@dataclass(eq=False)
class Pieces:
    """One sequence while it is read: pieces of its contexts (., m), actions (., k) and times (.,)."""

    name: str
    group: str | None = None
    lead: int = 0  # see `Roles`
    rows: tuple[int, int] = (0, 0)  # the first and the last one of its table, counted from 0
    contexts: list[FloatArray] = field(default_factory=list)
    actions: list[FloatArray] = field(default_factory=list)
    times: list[Times] = field(default_factory=list)
    numbers: list[FloatArray] = field(default_factory=list)  # of the frames, where they have some
    path: File | str = ""
    places: list[IntArray] = field(default_factory=list)  # the numbers of its rows in the file, to mend them
    human: list[BoolArray] = field(default_factory=list)  # whether a person acted, where a column tells
    lost: bool = False  # whether frames are lost in it
    source: str = ""  # the sequence that it was cut from, if it was

    def __len__(self) -> int:
        return sum(map(len, self.actions))

    def take(self, rows: Any, acted: Any = None, name: str | None = None) -> Pieces:
        """Return some of its rows, in this order, as a sequence; their actions may be those of other rows."""

        def pick(pieces: list[Any], at: Any) -> list[Any]:
            if len(pieces) > 1:
                pieces[:] = [np.concatenate(pieces)]
            return [piece[at] for piece in pieces]

        return replace(
            self,
            name=self.name if name is None else name,
            source=self.source or self.name,
            contexts=pick(self.contexts, rows),
            actions=pick(self.actions, rows if acted is None else acted),
            times=pick(self.times, rows),
            numbers=pick(self.numbers, rows),
            places=pick(self.places, rows),
            human=pick(self.human, rows),
        )

    def find_hidden_loss(self) -> bool:
        """Return whether the numbers of frames jump where the time does not, and let go of the numbers."""
        steps = np.diff(np.concatenate(self.numbers))
        times = np.diff(np.concatenate(self.times)).astype(np.float64) if self.times else np.empty(0)
        self.numbers.clear()
        lost = steps > 1.5 * np.median(steps) if len(times) else np.empty(0, np.bool_)
        return bool((times[lost] < 1.5 * np.median(times)).any())

    def cut(self, *, human: bool) -> list[Pieces]:
        """Return it as sequences without lost frames, called by their first frame; every action beside its contexts.

        That is, beside those of the frame that it is for: rows without the other go, and so do, where it is asked for,
        those in which no person acted.
        """
        rows = np.arange(len(self))
        numbers = np.concatenate(self.numbers) if self.numbers else rows
        by_person = np.concatenate(self.human) if human else np.ones(len(rows), np.bool_)
        lost = np.flatnonzero(np.diff(numbers) != 1) + 1
        self.numbers.clear()
        self.human.clear()
        self.lost = bool(len(lost))
        if not self.lead and not len(lost) and by_person.all():
            return [self]
        actions, found = np.concatenate(self.actions), []
        for run in np.split(rows, lost):
            seen, acted = align_rows(run, self.lead)
            known = ~np.isnan(actions[acted]).any(axis=1) & by_person[acted]
            seen, acted = seen[known], acted[known]
            ends = np.flatnonzero(np.diff(seen) != 1) + 1
            for i, (x, a) in enumerate(zip(np.split(seen, ends), np.split(acted, ends), strict=True)):
                begin = x[0] if i else run[0]
                found.append(self.take(x, a, f"{self.name}/{numbers[begin]:.0f}" if begin else self.name))
        return [part for part in found if len(part)]


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
    hidden: tuple[str, ...] = ()  # sequences in which the time goes on evenly where frames are lost
    nobody: str = ""  # how many rows are no person's, if any


def gather(
    tables: Sequence[Table],
    choice: ColumnRoles,
    names: Sequence[str],
    *,
    joined: bool = False,
    mend: Callable[[Pieces], list[Pieces]] | None = None,
) -> Gathered:
    """Return the sequences of all tables, in the order in which they begin, without guessed contexts that count rows.

    Parameters
    ----------
    names : sequence of str
        One per table: the name of the sequence where no column tells them apart.
    joined : bool
        Whether what has the same label in several tables is one sequence, which goes on from one to the next.
    mend : callable, optional
        Puts the rows of a sequence in order, and may cut it; without it rows must be in order and have an action.
    """
    gathered: list[list[Pieces]] = []
    turned: set[str] = set()
    guessed = {name: choice.contexts.index(name) for name in choice.guessed}
    steps = dict.fromkeys(guessed, 0)  # from row to row, as long as all are 1
    begun: dict[str, Pieces] = {}  # in the tables before
    actors = Counter[str | None]()  # rows of each
    for table, name in zip(tables, names, strict=True):
        by_label = dict(begun)
        before: FloatArray | None = None  # the contexts of the row before
        lead, numbers = table.roles.lead or 0, FRAME if _is_numbered(table, choice) else choice.frames
        for chunk in table.scan(choice.types | ({numbers: float} if numbers else {}), choice.texts):
            acted = None if choice.who is None else chunk.actors(choice.who)
            if acted is not None:
                actors += Counter(dict(acted.value_counts().rows()))
            contexts = _add(chunk, choice, by_label, name, lead, acted, numbers, strict=mend is None)
            turned |= chunk.turned(choice.texts)
            for column in list(steps):
                values = contexts[:, guessed[column]]
                values = values if before is None else np.append(before[guessed[column]], values)
                steps[column] += len(values) - 1
                if (np.diff(values) != 1.0).any():
                    del steps[column]
            before = contexts[-1]
        gathered.append([p for label, p in by_label.items() if label not in begun])
        begun = by_label if joined else {}
        if choice.sequence is not None and tidy(choice.sequence) != choice.sequence:  # blanks after delimiters
            names_of = tidy_all(list(by_label))
            for label, p in by_label.items():
                p.name = names_of[label]
    if mend is not None:
        gathered = [[part for p in pieces for part in mend(p)] for pieces in gathered]
    hidden = tuple(p.name for pieces in gathered for p in pieces if choice.frames and p.find_hidden_loss())
    # Elsewhere a column of this name has other words in it, such as names.
    human = choice.who is not None and (
        choice.recorded or bool(actors.keys() & NOBODY) or actors.keys() - {None} == {OPERATOR}
    )
    nobody = _count_nobody(actors, choice, tables[0]) if human else ""
    cut = [[p.cut(human=human) for p in pieces] for pieces in gathered]
    lost = tuple(p.name for pieces in gathered for p in pieces if p.lost)
    together = [[p for parts in some for p in parts] for some in cut]
    if any(gathered) and not any(together):
        raise DataError(
            f"{tables[0].path}: no frame has an action: the policy was recorded with a lead of "
            f"{tables[0].roles.lead} frames, and no sequence is longer: record for longer, and end streams"
        )
    pieces = [p for some in together for p in some]
    if choice.sequence is not None and len({p.name for p in pieces}) < len(pieces):  # files that each count from 0
        for some, name in zip(together, names, strict=True):
            for p in some:
                p.name = f"{name}/{p.name}"
    counters = frozenset(
        name for name, i in guessed.items() if steps.get(name, 0) >= FEW or counts_rows(_find_steps(pieces, i))
    )
    if counters:
        kept = [i for i, name in enumerate(choice.contexts) if name not in counters]
        for p in pieces:
            p.contexts = [table[:, kept] for table in p.contexts]
    return Gathered(pieces, list(map(len, together)), counters, frozenset(turned), lost, hidden, nobody)


def _count_nobody(actors: Mapping[str | None, int], choice: ColumnRoles, table: Table) -> str:
    """Return how many rows are no person's, in words; refuse where all are."""
    no_person = {who or "missing": n for who, n in actors.items() if who is None or who in NOBODY}
    who = quote(choice.shown[str(choice.who)])
    counts = ", ".join(f"{name} {n:,}" for name, n in sorted(no_person.items()))
    told = f"{sum(no_person.values()):,} of {sum(actors.values()):,} rows are no person's ({who} is {counts})"
    if len(no_person) == len(actors):
        raise DataError(
            f"{table.path}: {told}: what a policy did is no demonstration, or it would learn from itself: let an "
            "operator take over, and learn by `simile improve`; as_is=True (--as-is) reads them all the same"
        )
    return told if no_person else ""


def _is_numbered(table: Table, choice: ColumnRoles) -> bool:
    """Tell whether the frames of the sequences have numbers, which tell where some are lost: those of recordings."""
    streams = bool(table.roles.continues) and choice.sequence == table.roles.sequence
    return bool(table.roles.lead) or (streams and any(c.name == FRAME and c.is_numeric for c in table.columns))


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


def _find_steps(pieces: Sequence[Pieces], i: int) -> FloatArray:
    """Return the steps of context i inside sequences, as far as the first that is not 1."""
    found = []
    for p in pieces:
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


def _add(
    chunk: Chunk,
    choice: ColumnRoles,
    by_label: dict[str, Pieces],
    name: str,
    lead: int,
    actors: Any,
    numbered: str | None,
    *,
    strict: bool,
) -> FloatArray:
    """Add the rows of a chunk to their sequences, given who acted in them if a column tells; returns its contexts.

    Unless `strict`, rows may be out of order, and actions missing.
    """
    contexts, actions = (
        choice.preparation.blank(chunk.numbers(columns), choice.name(columns))
        for columns in (choice.contexts, choice.actions)
    )
    numbers = chunk.numbers((numbered,))[:, 0] if numbered else None
    human = None if actors is None else (actors.is_not_null() & ~actors.is_in(list(NOBODY))).to_numpy()
    runs: dict[Any, list[slice]] = {name: [slice(0, chunk.rows)]}
    if choice.sequence is not None:
        runs = find_runs(chunk.labels(choice.sequence))
    times = None if choice.time is None else chunk.times(choice.time, stamps=choice.time_kind == STAMP)
    groups = None if choice.group is None else chunk.labels(choice.group, optional=True)
    required = strict and lead >= 0
    check_numbers(contexts, choice.contexts, chunk)
    check_numbers(actions, choice.actions, chunk, needed=required if human is None else human & required)
    places = chunk.place.row(np.arange(chunk.rows))
    first = int(places[0]) - 1
    for label, slices in runs.items():
        begins = label not in by_label
        pieces = by_label.setdefault(
            label, Pieces(label, lead=lead, rows=(first + slices[0].start, 0), path=chunk.place.path)
        )
        pieces.rows = (pieces.rows[0], first + slices[-1].stop - 1)
        rows = slices[0] if len(slices) == 1 else np.concatenate([np.arange(s.start, s.stop) for s in slices])
        if groups is not None:
            for some in slices:
                _check_group(pieces, groups[some], some.start, chunk, choice, begins=begins and some == slices[0])
        if times is not None:
            own = past_midnight(pieces.times, times[rows])
            if strict:
                last = pieces.times[-1][-1:] if pieces.times else own[:0]
                known = np.append(places[rows][: len(last)], places[rows])
                check_later(np.concatenate([last, own]), Place(chunk.place.path, rows=known), str(choice.time))
            pieces.times.append(own)
        pieces.contexts.append(contexts[rows])
        pieces.actions.append(actions[rows])
        if numbers is not None:
            pieces.numbers.append(numbers[rows])
        if not strict:
            pieces.places.append(places[rows])
        if human is not None:
            pieces.human.append(human[rows])
    return contexts


def _check_group(pieces: Pieces, labels: Any, first: int, chunk: Chunk, choice: ColumnRoles, *, begins: bool) -> None:
    """Keep the group of a sequence; refuse another one inside it."""
    blanks = tidy(str(choice.group)) != choice.group  # after delimiters
    for group, (run, *_) in find_runs(labels).items():
        group = group and group.strip() if blanks else group
        if begins:
            pieces.group, begins = group, False
        if not group or group != pieces.group:
            if choice.group_guessed:
                raise NoGroupError
            problem = "the row has no label, so its sequence is in no group: fill it in"
            problem = one_group(pieces.name, pieces.group, group) if group else problem
            raise chunk.place.error(first + run.start, str(choice.group), problem)


def check_numbers(table: FloatArray, names: Sequence[str], chunk: Chunk, *, needed: bool | BoolArray = False) -> None:
    """Refuse what is not finite or too large, and actions that are missing in rows where they are needed."""
    if (np.abs(table) < LARGEST).all():
        return
    for values, name in zip(table.T, names, strict=True):
        if (bad := np.abs(values) >= LARGEST).any():
            i = int(bad.argmax())
            why = "not finite" if np.isinf(values[i]) else "too large to reckon with"
            raise chunk.place.error(i, name, f"{values[i]} is {why}: leave it empty if it is missing")
        if (bad := np.isnan(values) & needed).any():
            raise chunk.place.error(
                int(bad.argmax()),
                name,
                f"the action is missing ({int(bad.sum()):,} in these {chunk.rows:,} rows): fill it in or drop the "
                "rows; a gap they leave in the time can be cut with gap=...",
                DamageError,
            )


def past_midnight(earlier: list[Times], times: Times) -> Times:
    """Let times of day, which have no date, go on after midnight."""
    if times.dtype.kind != "M" or not len(times) or times[0].astype("datetime64[Y]") != np.datetime64("0001"):
        return times
    day = np.timedelta64(1, "D")
    last = earlier[-1][-1:] if earlier else times[:1]
    times = times + np.maximum(np.rint((last - times[0]) / day), 0).astype(int) * day
    return times + np.cumsum(np.diff(np.concatenate([last, times])) < -day // 2) * day


def check_later(times: Times, place: Place, column: str) -> None:
    """Refuse a time that is not later than the one before it in the same sequence."""
    if (i := first_not_later(times)) is not None:
        raise place.error(
            i,
            column,
            f"the time goes from {times[i - 1]} to {times[i]}, but must increase inside a sequence: sort the rows by "
            "it, tell the sequences apart with sequence=..., or name another column with time=...",
            DamageError,
        )
