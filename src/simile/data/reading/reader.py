"""Files to demonstrations."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray
from simile._common.urls import File
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.names import tell_twins, tidy
from simile.data.reading import clock
from simile.data.reading.columns import (
    SINGLE,
    Choice,
    Header,
    Patterns,
    choose,
    counts_frames,
    shared_columns,
    shared_roles,
    unit_of_name,
)
from simile.data.reading.formats import open_tables
from simile.data.reading.grouping import (
    Grouping,
    convinces,
    folders_of,
    group_beside,
    group_by_column,
    infer_groups,
    lies_beside,
    point_out,
)
from simile.data.reading.sequences import (
    NoGroupError,
    Pieces,
    file_names,
    find_spans,
    gather,
    join_pieces,
    list_cuts,
)
from simile.data.reading.summary import Summary, irregular_note, lost_note, tell_unit, turned_note
from simile.data.reading.tables import SPAN, STAMP, WHOLE, Column, Roles, Times
from simile.errors import ArgumentError, DataError


def read(
    path: str | File | Sequence[str | File],
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
    quiet: bool = False,
) -> Demonstrations:
    r"""Read demonstrations from files; what is not said is guessed, and the guesses are printed to stderr.

    Parameters
    ----------
    path : path or sequence of paths
        A file (.csv, .tsv, .txt, also as .gz; .parquet, .feather, .arrow, .jsonl, .npz), a pattern such as
        `"runs/*.csv"`, a folder of files of one format, a Minari or LeRobot folder, or a list of files. Each may be a
        URL that fsspec knows: s3://, gs://, abfs://, hdfs://, https:// (files only), file://, memory://.
        One row per frame. Several files are one sequence each, unless a column tells sequences apart.
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
    time_unit : {"s", "ms", "us", "ns"}, optional
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
    quiet : bool
        Do not print the summary.

    Returns
    -------
    Demonstrations
        Empty fields, NA, null and NaN are missing (NaN) in contexts, and an error in actions.
    """
    asked = _Asked(actions, contexts, sequence, group, time, time_unit, rate, gap, resample, max_memory)
    return _read(path, asked, as_is=as_is, quiet=quiet)


@dataclass(frozen=True)
class _Asked:
    """The arguments of `read` that say how."""

    actions: Patterns = None
    contexts: Patterns = None
    sequence: str | None = None
    group: str | None = None
    time: str | None = None
    time_unit: str | None = None
    rate: float | None = None
    gap: float | None = None
    resample: float | None = None
    max_memory: float | None = None

    def __post_init__(self) -> None:
        for name in ("rate", "gap", "resample"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, checks.number(value, name, above=0.0))
        if self.time_unit is not None and self.time_unit not in clock.UNITS:
            raise ArgumentError(f"time_unit must be one of {', '.join(clock.UNITS)}; got {self.time_unit!r}")

    def choose(self, columns: Sequence[Column], roles: Roles, *, group: str | None, files: int) -> Choice:
        named: dict[str, Any] = {n: getattr(self, n) for n in ("actions", "contexts", "sequence", "time")}
        return choose(columns, roles, **named, group=group, files=files)


@dataclass(frozen=True)
class Part:
    """Some rows of a file, from one to before another, and what was made of all of them: the columns and the clock."""

    rows: tuple[int, int]
    choice: Choice
    ticking: _Ticking | None


def find_parts(path: str | File, wished: Sequence[int], **how: Any) -> list[Part]:
    """Cut a Parquet file into parts of whole sequences, near rows that are wished for.

    Only the columns of the sequences and of the time are read, and those that may count rows: what is guessed is
    guessed from all rows, and so the parts together are what `read` makes of the file.

    Returns
    -------
    list of Part
        In the order of the rows; none where sequences are not told apart, or go on side by side throughout.
    """
    spans: dict[str, tuple[int, int]] = {}
    choice, timing, n_rows = _look(path, _Asked(**how), spans)
    if choice.sequence is None or tidy(choice.sequence) != choice.sequence:  # whose labels are looked at together
        return []
    free = np.array(list_cuts(spans.values()))
    nearest = {int(free[np.abs(free - row).argmin()]) for row in wished} if len(free) else set()
    return [Part(rows, choice, timing.ticking) for rows in pairwise(sorted({0, *nearest, n_rows}))]


def find_rate(paths: Sequence[str | File], **how: Any) -> float | None:
    """Return the rate that `read` would find in files, from the columns of the sequences and of the time alone."""
    return _look(paths, _Asked(**how), {})[1].rate


def _look(
    path: str | File | Sequence[str | File], asked: _Asked, spans: dict[str, tuple[int, int]]
) -> tuple[Choice, _Timing, int]:
    """Return what `read` makes of columns and times, and the number of rows; notes the first and last row of each."""
    tables = open_tables(path, max_memory=asked.max_memory)
    roles, columns = shared_roles(tables), shared_columns(tables)
    group = SINGLE if lies_beside(asked.group, Header(columns)) else asked.group
    with _naming(tables[0].path):
        choice = asked.choose(columns, roles, group=group, files=len(tables))
    light = replace(choice, contexts=choice.guessed, actions=(), texts=(), group=None, group_guessed=False)
    gathered = gather(
        [find_spans(table, spans) for table in tables],
        light,
        file_names([t.path for t in tables]),
        joined=bool(roles.continues),
    )
    with _naming(tables[0].path):
        choice = replace(choice.without(gathered.counters) if gathered.counters else choice, guessed=())
    return choice, _timing(gathered.pieces, choice, asked, told=roles.rate), sum(sum(t.groups) for t in tables)


def read_part(path: str | File, part: Part, *, quiet: bool = True, **how: Any) -> Demonstrations:
    """Read a part of a file that `find_parts` has found, to the very demonstrations that `read` finds there."""
    return _read(path, _Asked(**how), part, quiet=quiet)


def _read(
    path: str | File | Sequence[str | File],
    asked: _Asked,
    part: Part | None = None,
    *,
    as_is: bool = False,
    quiet: bool,
) -> Demonstrations:
    group, max_memory = asked.group, asked.max_memory
    tables = open_tables(path, max_memory=max_memory, rows=None if part is None else part.rows)
    roles, columns, paths = shared_roles(tables), shared_columns(tables), [t.path for t in tables]
    beside = lies_beside(group, Header(columns))
    if part is not None:
        choice = part.choice
    else:
        with _naming(tables[0].path):
            choice = asked.choose(columns, roles, group=SINGLE if beside else group, files=len(tables))
    joined = bool(roles.continues)
    try:
        gathered = gather(tables, choice, file_names(paths), joined=joined)
    except NoGroupError:
        gathered = None
    may_be: list[str] = []
    if choice.group_guessed and (gathered is None or not convinces(gathered.pieces)):
        may_be = [] if gathered is None else point_out(gathered.pieces, choice.shown[str(choice.group)])
        with _naming(tables[0].path):
            other = asked.choose(columns, roles, group=SINGLE, files=len(tables))
        if gathered is None or other.contexts != choice.contexts:
            gathered = gather(open_tables(path, max_memory=max_memory), other, file_names(paths), joined=joined)
        choice = other
    assert gathered is not None
    if gathered.counters:
        with _naming(tables[0].path):
            choice = choice.without(gathered.counters)
    pieces = gathered.pieces
    timing = _timing(pieces, choice, asked, told=roles.rate, ticking=None if part is None else part.ticking)
    folders = [folder for folder, n in zip(folders_of(paths), gathered.counts, strict=True) for _ in range(n)]
    if beside:
        grouping = group_beside(str(group), pieces, folders, max_memory)
    elif choice.group is not None:
        grouping = group_by_column(pieces, choice)
    elif group is None and roles.contexts is None:
        grouping = infer_groups(pieces, folders, timing.goes_on, [len(some) for some in timing.parts])
    else:
        grouping = Grouping([None] * len(pieces))
    demos = Demonstrations(
        tuple(d for i, p in enumerate(pieces) for d in _demonstrations(p, i, timing, choice, grouping, roles))
    )
    demos = demos.as_is() if as_is else demos
    if not quiet:
        several = " of one file each" if choice.sequence is None and len(tables) > 1 else ""
        told_apart = several if choice.sequence is None else f" by column {choice.shown[choice.sequence]!r}"
        twins = () if choice.sequence is None else tell_twins(p.name for p in pieces)
        lost = lost_note(gathered.lost)
        turned = (turned_note(choice.shown[name]) for name in choice.texts if name in gathered.turned)
        summary = Summary(
            (tables[0].path.resolve().name if len(tables) == 1 else f"{len(tables)} files")
            + ("" if part is None else f", rows {part.rows[0] + 1:,} to {part.rows[1]:,}"),
            demos,
            told_apart,
            timing.said,
            (*choice.left_out, *(name for table in tables[:1] for name in table.unread)),
            (*tables[0].notes, *choice.notes, *lost, *turned, *twins, *may_be, *grouping.notes, *timing.notes),
            grouping.said,
        )
        print(summary, file=sys.stderr)  # noqa: T201 - the summary is what this prints
    return demos


@contextmanager
def _naming(path: File) -> Iterator[None]:
    """Put the file before what is said of it."""
    try:
        yield
    except (ArgumentError, DataError) as error:
        raise type(error)(f"{path}: {error}") from None


@dataclass(frozen=True)
class _Ticking:
    """What a column of time is: frames or a unit, and the rate (Hz) that its steps say."""

    frames: bool
    unit: str
    rate: float | None


@dataclass(frozen=True, eq=False)
class _Timing:
    """The rate and where it comes from, and for every sequence its times and the parts it is cut into."""

    rate: float | None
    said: str
    notes: tuple[str, ...]
    times: list[FloatArray]  # only where they are needed, to resample
    parts: list[list[slice]]
    goes_on: list[bool]  # whether a sequence begins a step after the one before it has ended
    ticking: _Ticking | None = None  # None without a column of time


def _timing(
    gathered: Sequence[Pieces],
    choice: Choice,
    asked: _Asked,
    *,
    told: float | None,
    ticking: _Ticking | None = None,
) -> _Timing:
    """Return the timing of sequences; what the column of time is, is inferred from them unless it is given."""
    unit, rate, gap, resample = asked.time_unit, asked.rate, asked.gap, asked.resample
    known = told if rate is None else rate
    origin = "" if known is None else " as stored" if rate is None else " as given"
    if choice.time is None:
        if unit is not None:
            raise ArgumentError("time_unit needs a column of time: name it with time=...")
        return _without_time(gathered, known, origin, gap, resample)
    column = choice.shown[choice.time]
    found = [join_pieces(p.times) for p in gathered]
    told_unit = _told_unit(choice, unit)
    frames = (told_unit is None and _are_frames(choice, found)) if ticking is None else ticking.frames
    known_unit = "s" if frames or choice.time_kind in (STAMP, SPAN) else told_unit
    unit = known_unit or (clock.infer_unit(found, known) if ticking is None else ticking.unit)
    # A number of frames may count on from one recording to the next.
    goes_on = [i > 0 and not frames and clock.goes_on(found[i - 1], t) for i, t in enumerate(found)]
    times = [clock.to_seconds(t, unit) for t in found]
    steps = [clock.steps_of(t, p.name) for t, p in zip(times, gathered, strict=True)]
    if frames and known is not None:
        times, steps = [t / known for t in times], [s / known for s in steps]
    elif frames and (gap or resample):
        raise ArgumentError(
            f"{'gap' if gap else 'resample'} is in seconds, but {column!r} counts frames: say how many there are "
            "in a second with rate=..."
        )
    parts = [[slice(0, len(t))] if gap is None else clock.segments(s, gap) for t, s in zip(times, steps, strict=True)]
    named = [(p.name, s if gap is None else s[s <= gap]) for p, s in zip(gathered, steps, strict=True)]
    if ticking is None:
        alike = resample is None and known is None
        ticking = _Ticking(frames, unit, None if frames else clock.infer_rate(named, alike=alike))
    inferred = ticking.rate
    notes = [] if known_unit else tell_unit(column, unit, inferred, whole=choice.time_kind == WHOLE)
    of_unit = tuple(notes)
    if known is not None and inferred is not None and abs(known - inferred) > 0.01 * inferred:
        notes.append(f"the rate is {known:g} Hz as said, but the steps of {column!r} say {inferred:g} Hz")
    period = next((1.0 / r for r in (inferred, known) if r is not None), 1.0)
    if resample is None and (uneven := clock.irregularity(named, period)) is not None:
        notes.append(irregular_note(uneven, column, frames=frames and known is None))
    if resample is not None:
        source = "from unknown" if (was := inferred or known) is None else f"from {was:g} Hz"
        return _Timing(resample, f" resampled {source} by column {column!r}", of_unit, times, parts, goes_on, ticking)
    if known is not None:
        return _Timing(known, origin, tuple(notes), [], parts, goes_on, ticking)
    counting = f" ({column!r} counts frames: rate=... says how many a second)" if frames else ""
    in_unit = "" if unit == "s" else f" in {clock.UNIT_NAMES[unit]}"
    said = counting if inferred is None else f" inferred from column {column!r}{in_unit}"
    return _Timing(inferred, said, tuple(notes), [], parts, goes_on, ticking)


def _without_time(
    gathered: Sequence[Pieces], known: float | None, origin: str, gap: float | None, resample: float | None
) -> _Timing:
    if gap is not None:
        raise ArgumentError("gap needs a column of time: name it with time=...")
    parts, alone = [[slice(0, len(p))] for p in gathered], [False] * len(gathered)
    if resample is None:
        return _Timing(known, origin, (), [], parts, alone)
    if known is None:
        raise ArgumentError("resample needs a column of time, named with time=..., or the rate, with rate=...")
    times = [np.arange(len(p)) / known for p in gathered]
    return _Timing(resample, f" resampled from {known:g} Hz", (), times, parts, alone)


def _told_unit(choice: Choice, given: str | None) -> str | None:
    """Return the unit of the time as given, or as the name of the column has it; None if nobody says it."""
    assert choice.time is not None
    column, kind = choice.shown[choice.time], choice.time_kind
    if given is not None and kind in (STAMP, SPAN):
        raise ArgumentError(f"time_unit: column {column!r} holds {kind}, which tell their unit: leave time_unit out")
    if given is not None and counts_frames(choice.time, kind):
        raise ArgumentError(f"time_unit: {column!r} counts frames: say how many there are in a second with rate=...")
    return given or unit_of_name(choice.time)[1]


def _are_frames(choice: Choice, times: Sequence[Times]) -> bool:
    """Return whether the time column counts frames: by its name, or because it is whole and steps by one."""
    by_name = counts_frames(str(choice.time), choice.time_kind)
    if by_name is False or not all((t == np.floor(t)).all() for t in times):
        return False
    together = np.concatenate([np.diff(t) for t in times])
    return by_name is True or len(together) == 0 or float(np.median(together)) == 1.0


def _demonstrations(
    pieces: Pieces, index: int, timing: _Timing, choice: Choice, grouping: Grouping, roles: Roles
) -> list[Demonstration]:
    """Return the demonstrations that a sequence is cut into."""
    contexts, actions = join_pieces(pieces.contexts), join_pieces(pieces.actions)
    parts = timing.parts[index]
    names = choice.name(choice.contexts), choice.name(choice.actions)
    demos = []
    for i, part in enumerate(parts):
        name = pieces.name if len(parts) == 1 else f"{pieces.name}/{i}"
        x, a = (contexts, actions) if len(parts) == 1 else (contexts[part], actions[part])
        if timing.times and timing.rate is not None:
            x, a = clock.resample(timing.times[index][part], (x, a), timing.rate, name)
        group = grouping.labels[index], grouping.name
        demos.append(Demonstration(x, a, timing.rate, name, *names, *group, about=roles.about))
    return demos
