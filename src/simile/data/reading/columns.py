"""Which columns are contexts, actions, the label of the sequence and the time: named, matched or guessed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from simile._common import checks
from simile._common.urls import File
from simile.data.groups import names_groups
from simile.data.names import by_fold, fold, is_index, list_some, tell_untidy, tidy, tidy_all
from simile.data.preparation import Preparation, Wrap, read_pairs
from simile.data.reading.tables import BOOKKEEPING, FRAME, LIMITED, NUMERIC, WHO, Column, Roles, Table
from simile.data.reading.values import (
    EMPTY,
    MARKED,
    NUMBER,
    SPAN,
    STAMP,
    TEXT,
    WHOLE,
    WRITE_TIMES,
    DamageError,
    look_like_values,
    no_header,
    quote,
)
from simile.data.recorded import share_about
from simile.errors import ArgumentError, DataError

SEQUENCE_NAMES = ("sequence", "episode", "episode_index", "run", "game", "trial")
SINGLE = "sequence"  # as a group: each sequence is one
TIME_NAMES = ("t", "time", "timestamp", "seconds", "frame", "frame_index")
ACTION_PATTERNS = (("a_*",), ("action", "action.*"), ("actions", "actions.*"), ("action_*",))
_UNIT_NAMES = {
    "s": ("s", "sec", "secs", "second", "seconds"),
    "ms": ("ms", "msec", "millis", "millisecond", "milliseconds"),
    "us": ("us", "\u00b5s", "\u03bcs", "usec", "micros", "microsecond", "microseconds"),
    "ns": ("ns", "nsec", "nanos", "nanosecond", "nanoseconds"),
    "min": ("min", "mins", "minute", "minutes"),
    "h": ("h", "hr", "hrs", "hour", "hours"),
    "d": ("d", "day", "days"),
}
_UNITS = {name: unit for unit, names in _UNIT_NAMES.items() for name in names}
_TIME_TYPES: dict[str, type] = {STAMP: datetime, WHOLE: int}
_WATCHED = 100  # columns of text that are looked at on the way, for it takes time

Patterns = str | Sequence[str] | None


@dataclass(frozen=True)
class ReadOptions:
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
    as_is: bool = False
    repair: bool = False
    missing: Any = None
    wraps: Any = None

    def __post_init__(self) -> None:
        for name in ("missing", "wraps"):
            object.__setattr__(self, name, read_pairs(getattr(self, name), name))
        for name in ("rate", "gap", "resample"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, checks.number(value, name, above=0.0))
        if self.time_unit is not None and self.time_unit not in _UNIT_NAMES:
            raise ArgumentError(f"time_unit must be one of {', '.join(_UNIT_NAMES)}; got {self.time_unit!r}")


@dataclass(frozen=True)
class ColumnRoles:
    """The columns in use, by role, and those left out with the reason."""

    contexts: tuple[str, ...]
    actions: tuple[str, ...]
    sequence: str | None
    time: str | None
    time_kind: str
    left_out: tuple[str, ...]
    shown: Mapping[str, str]  # what a column is called from here on; most often as in the file
    notes: tuple[str, ...] = ()
    guessed: tuple[str, ...] = ()  # contexts of whole numbers that nobody has asked for: they may count rows
    texts: tuple[str, ...] = ()  # left out as text, which may turn into numbers further down
    group: str | None = None
    group_guessed: bool = False  # by its name, and its values have yet to bear it out
    preparation: Preparation = field(default=Preparation())  # of columns as they are shown; their turns are yet unknown
    frames: str | None = None  # numbers frames beside the time
    who: str | None = None  # tells who acted, if its values bear it out
    recorded: bool = False  # whether it has the columns of a recording of ours

    @property
    def types(self) -> dict[str, type]:
        """What to scan, and as what."""
        labels = (name for name in (self.sequence, self.group, self.who) if name is not None)
        found: dict[str, type] = {**dict.fromkeys((*self.contexts, *self.actions), float), **dict.fromkeys(labels, str)}
        return found if self.time is None else {**found, self.time: _TIME_TYPES.get(self.time_kind, float)}

    def name(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Return what columns are called from here on."""
        return tuple(self.shown[column] for column in columns)

    def without(self, counters: Collection[str]) -> ColumnRoles:
        """Leave out contexts that have turned out to count rows."""
        if not counters:
            return self
        left_out = [f"{self.shown[name]} (counts rows)" for name in self.contexts if name in counters]
        rest = tuple(name for name in self.contexts if name not in counters)
        if not rest:
            raise ArgumentError(
                f"contexts: no numeric column is left beside the actions but {', '.join(left_out)}: name it with "
                "contexts=... if it is one"
            )
        return replace(self, contexts=rest, left_out=(*left_out, *self.left_out))


class Header:
    """Columns, to be found by name: by the very one, by one that differs in blanks or case, by that of their list."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns, self.by_name = tuple(columns), {c.name: c for c in columns}
        self.shown = tidy_all(list(self.by_name))  # the names without blanks around them
        self._elements: dict[str, list[str]] = {}
        for c in columns:
            self._elements.setdefault(c.parent, []).append(c.name)
        self._alike, self._lists = by_fold(self.by_name), by_fold(self._elements)

    def find(self, given: str) -> dict[str, str]:
        """Return the column that a name means, or the elements of the list, with what to call them."""
        if given in self.by_name:
            return {given: given}
        key = fold(given)
        lists = [given] if given in self._elements else self._lists.get(key, [])
        if given not in self._elements and key and len(alike := self._alike.get(key, [])) == 1:
            return {alike[0]: tidy(given)}
        return {n: self.shown[n] for n in self._elements[lists[0]]} if given and len(lists) == 1 else {}

    def twin(self, name: str) -> str | None:
        """Return another column whose name differs in nothing but the blanks around it."""
        return next((n for n in self._alike[fold(name)] if n != name and tidy(n) == tidy(name)), None)


def shared_columns(tables: Sequence[Table]) -> tuple[Column, ...]:
    """Return the columns that all tables have; tables that differ are refused."""
    first, *others = tables
    kinds = {c.name: [c.kind] for c in first.columns}
    for table in others:
        names = {c.name for c in table.columns}
        for there, absent, lacking in ((first, table, kinds.keys() - names), (table, first, names - kinds.keys())):
            if lacking:
                raise DamageError(
                    f"{there.path} has the column {quote(min(lacking))}, {absent.path} has not: "
                    "give files of one layout, or read them one by one"
                )
        for column in table.columns:
            kinds[column.name].append(column.kind)
    return tuple(Column(c.name, _common_kind(kinds[c.name]), c.parent) for c in first.columns)


def _common_kind(kinds: Sequence[str]) -> str:
    """Return the kind of a column that is of these in several files."""
    present = {*kinds} - {EMPTY} or {*kinds}
    if len(present) == 1:
        return next(iter(present))
    # Text in a few files is an error there, with its row; in most it is a text that sometimes looks like numbers.
    return NUMBER if 2 * sum(kind in NUMERIC for kind in kinds) >= len(kinds) else TEXT


def shared_roles(tables: Sequence[Table]) -> Roles:
    """Return what the files say of themselves if they agree; where only the rate differs, the times must tell."""
    first = tables[0].roles
    for roles in (first, replace(first, rate=None)):
        if all(t.roles == roles or replace(t.roles, rate=None) == roles for t in tables):
            return replace(roles, about=share_about((t.path, t.roles.about) for t in tables))
    return Roles()


@contextmanager
def naming(path: File) -> Iterator[None]:
    """Put the file before what is said of it."""
    try:
        yield
    except (ArgumentError, DataError) as error:
        raise type(error)(f"{path}: {error}") from None


def choose(tables: Sequence[Table], how: ReadOptions, group: str | None) -> ColumnRoles:
    """Return the role of every column of tables; what is named wins, then what the file says, then a guess.

    `group` is the column that groups are named by, where it is one.
    """
    with naming(tables[0].path):
        return _choose(shared_columns(tables), shared_roles(tables), how, group, len(tables))


def _choose(columns: Sequence[Column], roles: Roles, how: ReadOptions, group: str | None, files: int) -> ColumnRoles:
    actions, contexts, sequence, time = how.actions, how.contexts, how.sequence, how.time
    header = Header(columns)
    recorded = {*map(tidy, header.by_name)} >= {FRAME, WHO, LIMITED}  # by us, though the file may not say so any more
    who = next((c.name for c in columns if fold(c.name) == WHO and c.kind in (TEXT, EMPTY)), None)
    beside = {c.name for c in columns if c.name == who or (recorded and tidy(c.name) in BOOKKEEPING)}
    told = roles.contexts is not None  # a file that knows its columns leaves nothing to guess
    if not told:
        _check_header(header, actions, contexts)
    explicit: dict[str, str] = {}  # column -> the argument that names it, so that no guess takes it
    shown = {c.name: c.name for c in columns} if told else dict(header.shown)
    asked: dict[str, str] = {}  # column -> the name that was asked for
    chosen: dict[str, list[str]] = {}
    if sequence is not None:
        sequence = _one(header, "sequence", sequence, asked)
    if time is not None:
        time = _one(header, "time", time, asked)
    known = sequence or next(iter(_some(roles.sequence) if told else find_known(columns, SEQUENCE_NAMES)), None)
    found = {} if group is None else header.find(group)
    single = group is not None and set(found) <= {known} and bool(found or fold(group) == SINGLE)
    if group is not None and not single:
        group = _one(header, "group", group, asked)
    _claim(explicit, "sequence", _some(sequence))
    _claim(explicit, "time", _some(time))
    _claim(explicit, "group", _some(None if single else group))
    for argument, patterns, others in (("actions", actions, contexts), ("contexts", contexts, actions)):
        if patterns is not None:
            matched = _match(header, argument, patterns, taken={*explicit, *_named(header, others)})
            chosen[argument], asked = list(matched), asked | matched
            _claim(explicit, argument, matched)
    named = set(explicit)

    def free(names: Iterable[str]) -> list[str]:
        return [n for n in names if n not in explicit]

    if sequence is None:
        sequence = next(iter(free(_some(roles.sequence) if told else find_known(columns, SEQUENCE_NAMES))), None)
    _claim(explicit, "sequence", _some(sequence))
    if time is None:
        stamped = [c for c in columns if c.kind in (WHOLE, NUMBER, SPAN, STAMP)]
        time = next(iter(free(_some(roles.time) if told else find_known(stamped, TIME_NAMES))), None)
    _claim(explicit, "time", _some(time))
    guess = group is None and not told
    if group is None:
        some = [c.name for c in columns if c.kind in (WHOLE, STAMP, TEXT) and names_groups(c.name)]
        several = sequence is not None or files > 1
        group = next(iter(free(_some(roles.group) if told else some if several else ())), None)
        _claim(explicit, "group", _some(group))
    if "actions" not in chosen:
        rest = [c for c in columns if c.name not in explicit]
        chosen["actions"] = free(roles.actions or ()) if told else _guess_actions(rest)
        if not chosen["actions"]:
            raise ArgumentError(
                f"actions: which columns are the actions? name them with actions=...; {_list(columns)}{_odd(rest)}"
            )
        _claim(explicit, "actions", chosen["actions"])
    guessed: list[str] = []
    why: dict[str, str] = {}  # numbers are no contexts, where it is not their prefix
    if "contexts" not in chosen:
        rest = [c for c in columns if c.name not in explicit]
        prefixed = [c.name for c in rest if c.is_numeric and _has_prefix(c.name, "x_")]
        if not told and not prefixed:
            why = _no_contexts(rest, time)
            why |= {c.name: "of the recording" for c in rest if c.is_numeric and c.name in beside}
        chosen["contexts"] = (
            free(roles.contexts or ()) if told else prefixed or _guess_contexts(rest, chosen["actions"], why)
        )
        if not chosen["contexts"]:
            raise ArgumentError(
                f"contexts: no numeric column is left beside the actions: name some with contexts=...; {_list(columns)}"
            )
        _claim(explicit, "contexts", chosen["contexts"])
        if not told and not prefixed:
            guessed = [n for n in chosen["contexts"] if header.by_name[n].kind == WHOLE]
    if not told:
        _check_twins(header, [n for n in explicit if n not in named])
    left_out = sorted((c for c in columns if c.name not in explicit), key=lambda c: c.name not in why)
    who = None if how.as_is or who in (*chosen["contexts"], *chosen["actions"]) else who
    shown |= asked
    return ColumnRoles(
        tuple(chosen["contexts"]),
        tuple(chosen["actions"]),
        sequence,
        time,
        "" if time is None else header.by_name[time].kind,
        tuple(_reason(c, shown[c.name], why) for c in left_out),
        shown,
        () if told else tuple(_notes(columns, shown, asked, explicit)),
        tuple(guessed),
        tuple(c.name for c in left_out if c.kind == TEXT and c.name != who)[:_WATCHED],
        None if single else group,
        guess and group is not None,
        _find_preparation([header.by_name[n] for n in (*chosen["contexts"], *chosen["actions"])], shown, chosen, how),
        next((n for n in find_known(left_out, TIME_NAMES) if counts_frames(n, header.by_name[n].kind)), None),
        who,
        recorded,
    )


def _find_preparation(
    columns: Sequence[Column], shown: Mapping[str, str], chosen: Mapping[str, list[str]], how: ReadOptions
) -> Preparation:
    """Return what is to be mended in the contexts and actions in use; patterns of codes pass over actions."""
    header, missing, wraps = Header(columns), dict[str, tuple[float, ...]](), dict[str, Wrap]()
    for pattern, code in how.missing:
        for name in _match(header, "missing", pattern, taken=chosen["actions"]):
            missing[shown[name]] = (*missing.get(shown[name], ()), code)
    for pattern, given in how.wraps:
        wrap = given if isinstance(given, Wrap) else Wrap(given)
        for name in _match(header, "wraps", pattern, taken=()):
            if (other := wraps.get(shown[name], wrap).period) != wrap.period:
                raise ArgumentError(f"wraps: {quote(name)} wraps at {other:g} and at {wrap.period:g}: give it once")
            wraps[shown[name]] = wrap
    return Preparation(missing, wraps)


def select(columns: Sequence[Column], argument: str, patterns: str | Sequence[str]) -> list[str]:
    """Return the columns that names, globs or regexes (between slashes) choose, each once."""
    return list(_match(Header(columns), argument, patterns, taken=frozenset()))


def _match(header: Header, argument: str, patterns: str | Sequence[str], taken: Collection[str]) -> dict[str, str]:
    """Return the columns that are meant, and what to call them."""
    found: dict[str, str] = {}
    given = [patterns] if isinstance(patterns, str) else list(patterns)
    if not given:
        raise ArgumentError(f"{argument} must name at least one column; {_list(header.columns)}")
    for i, pattern in enumerate(given):
        if not isinstance(pattern, str):
            raise ArgumentError(f"{argument} must be names of columns; got {pattern!r}")
        if pattern in given[:i]:
            raise ArgumentError(f"{argument}: {pattern!r} must be named once; got {argument}={given}")
        matches = header.find(pattern)
        if not matches:  # a pattern passes over what has another role; a name for two roles is a mistake
            matches = {n: header.shown[n] for n in _match_pattern(header, argument, pattern) if n not in taken}
        if not matches:
            close = difflib.get_close_matches(pattern, list(header.by_name), n=1)
            hint = f" (did you mean {quote(close[0])}?)" if close else ""
            raise ArgumentError(f"{argument}: no column is {pattern!r}{hint}; {_list(header.columns)}")
        found |= {n: name for n, name in matches.items() if n not in found}
    return found


def _named(header: Header, patterns: Patterns) -> list[str]:
    """Return the columns of these names, and the elements of lists of these names."""
    given = [patterns] if isinstance(patterns, str) else list(patterns or ())
    return [n for g in given if isinstance(g, str) for n in header.find(g)]


def _match_pattern(header: Header, argument: str, pattern: str) -> list[str]:
    """Return the columns that a glob, or a regex between slashes, matches."""
    names = header.shown
    if len(pattern) > 2 and pattern[0] == pattern[-1] == "/":
        try:
            regex = re.compile(pattern[1:-1])
        except re.error as error:
            raise ArgumentError(f"{argument}: {pattern!r} is not a regular expression: {error}") from None
        return [n for n, shown in names.items() if regex.search(shown)]
    exact = [n for n, shown in names.items() if fnmatchcase(shown, pattern)]
    folded = fold(pattern) if any(mark in pattern for mark in "*?[") else ""
    return exact or [n for n in names if folded and fnmatchcase(fold(n), folded)]


def _one(header: Header, argument: str, name: str, asked: dict[str, str]) -> str:
    found = _match(header, argument, name, taken=frozenset())
    if len(found) > 1:
        raise ArgumentError(f"{argument} must be one column; {name!r} matches {', '.join(found)}")
    asked |= found
    return next(iter(found))


def _claim(explicit: dict[str, str], argument: str, names: Iterable[str]) -> None:
    for name in names:
        if explicit.get(name, argument) != argument:
            raise ArgumentError(
                f"{argument}: column {quote(name)} is named as {explicit[name]} already: it has one role"
            )
        explicit[name] = argument


def _some(name: str | None) -> list[str]:
    return [] if name is None else [name]


def _check_header(header: Header, actions: Patterns, contexts: Patterns) -> None:
    """Refuse a first row of values, which was taken for names, unless they are asked for by these names."""
    names = list(header.by_name)
    asked = [p for some in (actions, contexts) for p in ([some] if isinstance(some, str) else some or [])]
    exact = actions is not None and contexts is not None and all(name in header.by_name for name in asked)
    if not exact and look_like_values(names):
        raise DataError(no_header(names))


def _check_twins(header: Header, guessed: Iterable[str]) -> None:
    for name in guessed:
        if (twin := header.twin(name)) is not None:
            raise DataError(
                f"columns {quote(name)} and {quote(twin)} differ only in blanks: rename one of the two, or name "
                "all that are meant with actions=..., contexts=..., sequence=... and time=..."
            )


def find_known(columns: Sequence[Column], names: Sequence[str]) -> list[str]:
    """Return the columns that are called so, in the order of these names; a name to the letter comes first."""
    ranks = {name.replace("_", ""): i for i, name in enumerate(names)}
    found = []
    for c in columns:
        stem = unit_of_name(c.name)[0] if names is TIME_NAMES else fold(c.name)
        if (rank := ranks.get(stem.replace("_", ""))) is not None:
            found.append((rank, c.name not in names, c.name))
    return [name for *_, name in sorted(found, key=lambda ranked: ranked[:2])]


def unit_of_name(name: str) -> tuple[str, str | None]:
    """Return the name of a time without the unit in it, and the unit.

    >>> unit_of_name("Time [ms]"), unit_of_name("t_ns"), unit_of_name("nanoseconds"), unit_of_name("time")
    (('time', 'ms'), ('t', 'ns'), ('seconds', 'ns'), ('time', None))

    But a lowest temperature is no time:

    >>> unit_of_name("t [min]"), unit_of_name("time_min"), unit_of_name("t_min")
    (('t', 'min'), ('time', 'min'), ('t_min', None))
    """
    folded = fold(name)
    if folded.endswith("seconds"):
        return "seconds", _UNITS.get(folded)
    split = re.fullmatch(r"(.+?)[_\[(/]+(\w+)[\])]?", folded)
    unit = _UNITS.get(split[2]) if split else None
    if split is None or unit is None or (unit in ("min", "h", "d") and folded.isidentifier() and split[1] != "time"):
        return folded, None
    return split[1], unit


def counts_frames(name: str, kind: str) -> bool | None:
    """Return whether a time column counts frames: True by its name, None if its steps must tell, else False."""
    if kind in (STAMP, SPAN):
        return False
    if re.fullmatch(r"(video_)?frames?(_?(index|id|number|no|nr))?", tidy(name).lower().replace(" ", "_")):
        return True
    return None if kind == WHOLE else False


def _has_prefix(name: str, *prefixes: str) -> bool:
    return fold(name).startswith(prefixes)


def _is_action(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(fold(name), p) for p in patterns)


def _guess_actions(columns: Sequence[Column]) -> list[str]:
    numeric = [c for c in columns if c.is_numeric]
    for patterns in ACTION_PATTERNS:
        if found := [c.name for c in numeric if _is_action(c.name, patterns)]:
            return found
    return []


def _guess_contexts(columns: Sequence[Column], actions: Sequence[str], but: Collection[str]) -> list[str]:
    numeric = [c.name for c in columns if c.is_numeric and c.name not in but]
    convention = any(_has_prefix(a, "a_") for a in actions)
    return [n for n in numeric if not (convention and _has_prefix(n, "a_", "z_"))]


def _no_contexts(columns: Sequence[Column], time: str | None) -> dict[str, str]:
    """Return the columns of numbers that are called like an index, or like the time where there is one, and why not."""
    numeric = [c for c in columns if c.is_numeric]
    timed = [c for c in numeric if time is not None or c.kind == EMPTY]
    clocks = [n for n in find_known(timed, TIME_NAMES) if tidy(n) != "T"]  # a temperature
    return dict.fromkeys(clocks, "a time") | {c.name: "an index" for c in numeric if is_index(c.name)}


def _notes(
    columns: Sequence[Column], shown: Mapping[str, str], asked: Mapping[str, str], explicit: Mapping[str, str]
) -> list[str]:
    """Say what was recognised although it is not written so."""
    notes = tell_untidy(shown[c.name] for c in columns if shown[c.name] == tidy(c.name) != c.name)
    if other := [f"{name!r} is the column {n!r}" for n, name in asked.items() if tidy(n) != tidy(name)]:
        notes.append(f"blanks and case aside, {list_some(other)}")
    roles = {"actions": ("an action", ACTION_PATTERNS), "contexts": ("a context", (("x_*",),))}
    odd = []
    for argument, (role, groups) in roles.items():
        patterns = [p for group in groups for p in group]
        odd += [
            f"{shown[n]!r} is {role}"
            for n, given in explicit.items()
            if given == argument
            and n not in asked
            and _is_action(n, patterns)
            and not any(fnmatchcase(tidy(n), p) for p in patterns)
        ]
    if odd:
        notes.append(f"upper and lower case aside, {list_some(odd)}")
    no_times = (TEXT,) if "time" in explicit.values() else (TEXT, EMPTY)
    odd_times = {c.name: c.kind for c in columns if c.kind in no_times and c.name not in explicit}
    called = [
        f"{shown[n]!r} is called like a time but holds {odd_times[n]}: {WRITE_TIMES}"
        for n in find_known([c for c in columns if c.name in odd_times], TIME_NAMES)
    ]
    marked = [shown[c.name] for c in columns if c.kind == MARKED and c.name not in explicit]
    if marked:
        called.append(f"{list_some(marked)}: {MARKED}, as 1,234.5, and left out: write them without")
    return notes + called


def _odd(columns: Sequence[Column]) -> str:
    """Name the first column that is called like an action but cannot be one."""
    patterns = [p for group in ACTION_PATTERNS for p in group]
    odd = [c for c in columns if _is_action(c.name, patterns)]
    return f"; {quote(odd[0].name)} holds {odd[0].kind}" if odd else ""


def _reason(column: Column, name: str, why: Mapping[str, str]) -> str:
    if not tidy(name):
        return "(a column without a name)"
    reason = why.get(column.name, "" if column.is_numeric else column.kind)
    return f"{name} ({reason})" if reason else name


def _list(columns: Sequence[Column]) -> str:
    return f"the columns are {list_names([c.name for c in columns])}"


def list_names(names: Sequence[str]) -> str:
    """Write names one after the other, never more than a few lines."""
    short = [name if len(name) <= 40 else f"{name[:37]}..." for name in names]
    some = short if len(names) <= 20 else [*short[:15], "...", short[-1]]
    return ", ".join(some) + (f" ({len(names)})" if len(names) > 20 else "")
