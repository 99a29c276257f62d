"""Files to demonstrations."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from simile._common.urls import File
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.names import list_some, tell_twins, tidy
from simile.data.preparation import Preparation, fit_wrap
from simile.data.reading.arrow import open_frame
from simile.data.reading.clock import TimeColumn, Timing, find_timing, resample
from simile.data.reading.columns import (
    SINGLE,
    ColumnRoles,
    Header,
    Patterns,
    ReadOptions,
    choose,
    naming,
    shared_columns,
    shared_roles,
)
from simile.data.reading.formats import open_tables
from simile.data.reading.grouping import are_likely_groups, find_groups, folders_of, names_other_source, note_two_groups
from simile.data.reading.repair import MENDS, Repairs, mend_actions, mend_rows
from simile.data.reading.sequences import Gathered, NoGroupError, Pieces, file_names, gather, join_pieces, list_cuts
from simile.data.reading.summary import Summary
from simile.data.reading.tables import Table
from simile.data.reading.values import DamageError, quote
from simile.data.sanity.problem import list_columns
from simile.errors import DataError


def read(
    path: Any,
    *,
    actions: Patterns = None,
    contexts: Patterns = None,
    sequence: str | None = None,
    group: str | None = None,
    time: str | None = None,
    time_unit: str | None = None,
    rate: float | None = None,
    gap: float | None = None,
    resample: float | None = None,
    max_memory: float | None = None,
    as_is: bool = False,
    repair: bool = False,
    missing: Any = None,
    wraps: Any = None,
    quiet: bool = False,
) -> Demonstrations:
    r"""Read demonstrations from files or data frames; what is not said is guessed, and guesses are printed to stderr.

    Parameters
    ----------
    path : path, sequence of paths, or data frame
        A file (.csv, .tsv, .txt, also as .gz; .parquet, .feather, .arrow, .jsonl, .npz), a pattern such as
        `"runs/*.csv"`, a folder of files of one format, a Minari or LeRobot folder, or a list of files. Each may be a
        URL that fsspec knows: s3://, gs://, abfs://, hdfs://, https:// (files only), file://, memory://.
        One row per frame. Several files are one sequence each, unless a column tells sequences apart.
        Or what is in memory: a data frame of pandas, polars, Arrow or whoever speaks Arrow, or a mapping of arrays.
    actions, contexts : str or sequence of str, optional
        Columns: names, globs (`"a_*"`) or regexes between slashes (`"/^a_\d+$/"`). Guessed: actions are `a_*`,
        or else `action*`; contexts are `x_*`, or else all other numeric columns.
    sequence : str, optional
        Column that tells sequences apart. Guessed: sequence, episode, episode_index, run, game or trial.
    group : str, optional
        What sequences of one are held out together, where data are split: a column that is the same in every row of a
        sequence (who acted, the day), "folder" (of the files), or FILE:COLUMN of a table with a row for each sequence;
        "sequence" for none. Guessed: a column called person, subject, driver, run, session or the like with three
        values or more, folders called so, and pieces of one recording, whose clock goes on.
    time : str, optional
        Column of time: seconds, frame numbers, or time stamps (ISO 8601, `12:00:01`, `31.05.2024 12:00:01`).
        Guessed: t, time, timestamp, seconds, frame or frame_index. It must increase inside every sequence.
    time_unit : {"s", "ms", "us", "ns", "min", "h", "d"}, optional
        What numbers in that column are. Guessed: what its name says (`t_ms`), or else seconds, or finer where seconds
        would be an absurd rate.
    rate : float, optional
        Frames per second; inferred from the time if not given.
    gap : float, optional
        Begin a new sequence where the time jumps by more than this many seconds.
    resample : float, optional
        Bring every sequence to this rate (Hz) by linear interpolation.
    max_memory : float, optional
        MB of memory that the rows may take: a small file can hold a great many. A half of the machine's by default.
    as_is : bool
        Do not look for what is wrong with the values, such as codes for missing ones, and learn from them as they are.
    repair : bool
        Mend what loggers, spreadsheets and people do to files: rows that stand twice or late, words for missing values,
        other encodings, lines above the header and units below it, odd rows, missing actions, outages, files that are
        no data. Each kind is told with a count and the first place. Text that is not UTF-8 is held in memory.
    missing : number, or mapping of str, optional
        Codes that stand for a missing value: -999 in all contexts, or by column, `{"wind": -999, "*": [9999, 65535]}`.
    wraps : mapping of str, optional
        The period of angles and counters that begin anew, `{"pan": 360, "phase": "2pi"}`: in demonstrations they go on
        past it. The policy remembers both, and does the same to what comes online.
    quiet : bool
        Do not print the summary.

    Returns
    -------
    Demonstrations
        Empty fields, NA, null and NaN are missing (NaN) in contexts, and an error in actions.
    """
    how = ReadOptions(
        *(actions, contexts, sequence, group, time, time_unit, rate, gap, resample, max_memory, as_is, repair),
        missing=missing,
        wraps=wraps,
    )
    demos, summary = read_all(path, how)
    if not quiet:
        print(summary, file=sys.stderr)  # noqa: T201 - the summary is what this prints
    return demos


@dataclass(frozen=True)
class Part:
    """Some rows of a file, from one to before another, and what was made of all of them: the columns and the clock."""

    rows: tuple[int, int]
    choice: ColumnRoles
    time: TimeColumn | None


def find_parts(path: str | File, wished: Sequence[int], **how: Any) -> list[Part]:
    """Cut a Parquet file into parts of whole sequences, near rows that are wished for.

    Only the columns of the sequences and of the time are read, and those that may count rows: what is guessed is
    guessed from all rows, and so the parts together are what `read` makes of the file.

    Returns
    -------
    list of Part
        In the order of the rows; none where sequences are not told apart, or go on side by side throughout.
    """
    tables, choice, gathered, timing = _look(path, ReadOptions(**how))
    if choice.sequence is None or tidy(choice.sequence) != choice.sequence:  # whose labels are looked at together
        return []
    free = np.array(list_cuts(p.rows for p in gathered.pieces))
    nearest = {int(free[np.abs(free - row).argmin()]) for row in wished} if len(free) else set()
    ends = sorted({0, *nearest, sum(tables[0].groups)})
    return [Part(rows, choice, timing.column) for rows in pairwise(ends)]


def find_rate(paths: Sequence[str | File], **how: Any) -> float | None:
    """Return the rate that `read` would find in files, from the columns of the sequences and of the time alone."""
    return _look(paths, ReadOptions(**how))[-1].rate


def _look(path: Any, how: ReadOptions) -> tuple[list[Table], ColumnRoles, Gathered, Timing]:
    """Return what `read` makes of columns and times."""
    tables = open_tables(path, max_memory=how.max_memory)
    beside = names_other_source(how.group, Header(shared_columns(tables)))
    choice = choose(tables, how, SINGLE if beside else how.group)
    light = replace(
        choice, contexts=choice.guessed, actions=(), texts=(), group=None, group_guessed=False, frames=None, who=None
    )
    gathered = _gather(tables, light)
    with naming(tables[0].path):
        choice = replace(choice.without(gathered.counters), guessed=())
    return tables, choice, gathered, _time(tables, gathered, choice, how)


def _gather(tables: Sequence[Table], choice: ColumnRoles, repairs: Repairs | None = None) -> Gathered:
    names = file_names([table.path for table in tables])
    mend = None if repairs is None else partial(mend_rows, repairs=repairs, column=choice.time or "")
    return gather(tables, choice, names, joined=bool(shared_roles(tables).continues), mend=mend)


def _time(
    tables: Sequence[Table],
    gathered: Gathered,
    choice: ColumnRoles,
    how: ReadOptions,
    known: TimeColumn | None = None,
) -> Timing:
    names = [p.name for p in gathered.pieces]
    times: list[Any] = [join_pieces(p.times) if p.times else range(len(p)) for p in gathered.pieces]
    return find_timing(names, times, choice, how, shared_roles(tables).rate, known)


def read_frame(frame: Any, how: ReadOptions) -> tuple[Demonstrations, Summary]:
    """Read demonstrations of a data frame, or of arrays by name, and what is to be said of them."""
    return read_all(open_frame(frame), how)


def read_all(path: Any, how: ReadOptions, part: Part | None = None) -> tuple[Demonstrations, Summary]:
    """Read demonstrations, and what is to be said of them.

    Of a `part` that `find_parts` has found, the very demonstrations are read that `read` finds there.
    """
    try:
        return _read_all(path, how, part)
    except DamageError as error:
        raise DataError(f"{error}{'' if how.repair else MENDS}") from None


def _read_all(path: Any, how: ReadOptions, part: Part | None) -> tuple[Demonstrations, Summary]:
    repairs = Repairs() if how.repair else None
    tables = open_tables(path, max_memory=how.max_memory, rows=None if part is None else part.rows, repairs=repairs)
    paths = [table.path for table in tables]
    beside = names_other_source(how.group, Header(shared_columns(tables)))
    choice = choose(tables, how, SINGLE if beside else how.group) if part is None else part.choice
    gathered: Gathered | None = None
    with suppress(NoGroupError):
        gathered = _gather(tables, choice, repairs)
    notes = [*tables[0].notes]
    if choice.group_guessed and (gathered is None or not are_likely_groups(gathered.pieces)):
        notes += [] if gathered is None else note_two_groups(gathered.pieces, choice.shown[str(choice.group)])
        other = choose(tables, how, SINGLE)
        if gathered is None or other.contexts != choice.contexts:
            repairs = Repairs() if how.repair else None
            gathered = _gather(open_tables(path, max_memory=how.max_memory, repairs=repairs), other, repairs)
        choice = other
    assert gathered is not None
    with naming(paths[0]):
        choice = choice.without(gathered.counters)
    pieces = gathered.pieces
    timing = _time(tables, gathered, choice, how, None if part is None else part.time)
    names = choice.name(choice.contexts), choice.name(choice.actions)
    new = {n: wrap.period for n, wrap in choice.preparation.wraps.items() if wrap.is_new}
    logged = {
        n: np.concatenate([table[:, j] for p in pieces for table in (p.contexts, p.actions)[side]])
        for side, some in enumerate(names)
        for j, n in enumerate(some)
        if n in new
    }
    if repairs is not None:
        for p in pieces:  # a line between two actions must not cross a turn
            p.actions = [choice.preparation.unwrap(join_pieces(p.actions), names[1])]
        timing = mend_actions(pieces, timing, repairs, cut=how.gap is None)
    folders = [folder for folder, n in zip(folders_of(paths), gathered.counts, strict=True) for _ in range(n)]
    roles = shared_roles(tables)
    told = roles.contexts is not None
    grouping = find_groups(pieces, choice, how, folders, timing, beside=beside, told=told)
    demos = Demonstrations(
        tuple(
            Demonstration(x, a, timing.rate, name, *names, group, grouping.name, about=roles.about, as_is=how.as_is)
            for i, (p, group) in enumerate(zip(pieces, grouping.labels, strict=True))
            for name, x, a in _cut(p, timing, i, choice.preparation, names)
        )
    )
    fitted = {n: fit_wrap(new[n], logged[n], parts) for n, _, parts in list_columns(demos) if n in new}
    demos = demos.prepare(replace(choice.preparation, wraps={**choice.preparation.wraps, **fitted}))
    apart = " of one file each" if choice.sequence is None and len(tables) > 1 else ""
    if choice.sequence is not None:
        apart = f" by column {choice.shown[choice.sequence]!r}"
        notes += tell_twins(p.name for p in pieces)
    notes += [*choice.notes, *_list_notes(gathered, choice)]
    source = paths[0].resolve().name if len(tables) == 1 else f"{len(tables)} files"
    rows = "" if part is None else f", rows {part.rows[0] + 1:,} to {part.rows[1]:,}"
    left_out = (*choice.left_out, *tables[0].unread)
    notes += [*grouping.notes, *timing.notes, *([] if repairs is None else repairs.notes)]
    return demos, Summary(source + rows, demos, apart, timing.said, left_out, tuple(notes), grouping.said)


def _list_notes(gathered: Gathered, choice: ColumnRoles) -> list[str]:
    """Return notes on frames that are lost, on rows in which no person acted, and on texts that turn into numbers."""
    notes = []
    if gathered.lost:
        lost = list_some(gathered.lost, most=4)
        notes.append(f"frames are lost in {lost}: what comes after is a sequence of its own")
    if gathered.hidden:
        frames, time = (choice.shown[str(name)] for name in (choice.frames, choice.time))
        notes.append(
            f"{frames!r} jumps where {time!r} goes on evenly, in {list_some(gathered.hidden, most=4)}: frames are lost "
            f"there, and the time was written anew: time={frames!r} with rate=... and gap=... cuts there"
        )
    if gathered.nobody:
        notes.append(
            f"{gathered.nobody}: these rows are left out, and recordings are cut there; `simile improve` learns from "
            "recordings of a policy at work, and as_is=True (--as-is) reads all rows"
        )
    return notes + [
        f"{quote(choice.shown[name])} begins with text but holds numbers further down, and is left out: leave those "
        "fields empty, or drop their rows"
        for name in choice.texts
        if name in gathered.turned
    ]


def _cut(
    pieces: Pieces, timing: Timing, index: int, preparation: Preparation, names: Sequence[Sequence[str]]
) -> list[tuple[str, Any, Any]]:
    """Return the parts that a sequence is cut into: name, contexts and actions."""
    contexts, actions = join_pieces(pieces.contexts), join_pieces(pieces.actions)
    parts, found = timing.parts[index], []
    for i, part in enumerate(parts):
        name = pieces.name if len(parts) == 1 else f"{pieces.name}/{i}"
        whole = part == slice(0, len(actions))
        x, a = (contexts, actions) if whole else (contexts[part], actions[part])
        if timing.times and timing.rate is not None:
            steady = preparation.unwrap(x, names[0]), preparation.unwrap(a, names[1])
            x, a = resample(timing.times[index][part], steady, timing.rate, name)
        found.append((name, x, a))
    return found
