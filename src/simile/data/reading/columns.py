"""Which columns are contexts, actions, the label of the sequence and the time: named, matched or guessed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from simile.data.reading.tables import EMPTY, NUMBER, NUMERIC, STAMP, TEXT, WHOLE, Column, Roles, Table, Wanted, quote
from simile.errors import ArgumentError, DataError

SEQUENCE_NAMES = ("sequence", "episode", "episode_index", "run", "game", "trial")
TIME_NAMES = ("t", "time", "timestamp", "seconds", "frame", "frame_index")
ACTION_PATTERNS = (("a_*",), ("action", "action.*"), ("actions", "actions.*"), ("action_*",))

Patterns = str | Sequence[str] | None


@dataclass(frozen=True)
class Choice:
    """The columns in use, by role, and those left out with the reason."""

    contexts: tuple[str, ...]
    actions: tuple[str, ...]
    sequence: str | None
    time: str | None
    time_kind: str
    left_out: tuple[str, ...]

    @property
    def wanted(self) -> Wanted:
        """What to scan."""
        return Wanted((*self.contexts, *self.actions), self.sequence, self.time, self.time_kind == STAMP)


def shared_columns(tables: Sequence[Table]) -> tuple[Column, ...]:
    """Return the columns that all tables have; tables that differ are refused."""
    first, *others = tables
    kinds = {c.name: {c.kind} for c in first.columns}
    for table in others:
        names = {c.name for c in table.columns}
        for there, absent, lacking in ((first, table, kinds.keys() - names), (table, first, names - kinds.keys())):
            if lacking:
                raise DataError(
                    f"{there.path} has the column {quote(min(lacking))}, {absent.path} has not: "
                    "give files of one layout, or read them one by one"
                )
        for column in table.columns:
            kinds[column.name].add(column.kind)
    return tuple(Column(c.name, _common_kind(kinds[c.name]), c.parent) for c in first.columns)


def _common_kind(kinds: set[str]) -> str:
    present = kinds - {EMPTY} or kinds
    if len(present) == 1:
        return next(iter(present))
    return NUMBER if present <= NUMERIC else TEXT


def shared_roles(tables: Sequence[Table]) -> Roles:
    """Return what the files say of themselves if they agree; where only the rate differs, the times must tell."""
    first = tables[0].roles
    for roles in (first, replace(first, rate=None)):
        if all(t.roles == roles or replace(t.roles, rate=None) == roles for t in tables):
            return roles
    return Roles()


def choose(
    columns: Sequence[Column],
    roles: Roles,
    *,
    actions: Patterns,
    contexts: Patterns,
    sequence: str | None,
    time: str | None,
) -> Choice:
    """Return the role of every column; what is named wins, then what the file says, then a guess."""
    by_name = {c.name: c for c in columns}
    explicit: dict[str, str] = {}  # column -> the argument that names it, so that no guess takes it
    sequence = None if sequence is None else _one(columns, "sequence", sequence)
    time = None if time is None else _one(columns, "time", time)
    _claim(explicit, "sequence", _some(sequence))
    _claim(explicit, "time", _some(time))
    chosen = {}
    for argument, patterns, others in (("actions", actions, contexts), ("contexts", contexts, actions)):
        if patterns is not None:
            chosen[argument] = _match(columns, argument, patterns, taken={*explicit, *_find(columns, others)})
            _claim(explicit, argument, chosen[argument])

    def free(names: Iterable[str]) -> list[str]:
        return [n for n in names if n not in explicit]

    told = roles.contexts is not None  # a file that knows its columns leaves nothing to guess
    if sequence is None:
        sequence = next(iter(free(_some(roles.sequence) if told else _find_named(columns, SEQUENCE_NAMES))), None)
    _claim(explicit, "sequence", _some(sequence))
    if time is None:
        stamped = [c for c in columns if c.kind in (WHOLE, NUMBER, STAMP)]
        time = next(iter(free(_some(roles.time) if told else _find_named(stamped, TIME_NAMES))), None)
    _claim(explicit, "time", _some(time))
    if "actions" not in chosen:
        rest = [c for c in columns if c.name not in explicit]
        chosen["actions"] = free(roles.actions or ()) if told else _guess_actions(rest)
        if not chosen["actions"]:
            raise ArgumentError(
                f"actions: which columns are the actions? name them with actions=...; {_list(columns)}{_odd(rest)}"
            )
        _claim(explicit, "actions", chosen["actions"])
    if "contexts" not in chosen:
        rest = [c for c in columns if c.name not in explicit]
        chosen["contexts"] = free(roles.contexts or ()) if told else _guess_contexts(rest, chosen["actions"])
        if not chosen["contexts"]:
            raise ArgumentError(
                f"contexts: no numeric column is left beside the actions: name some with contexts=...; {_list(columns)}"
            )
        _claim(explicit, "contexts", chosen["contexts"])
    return Choice(
        tuple(chosen["contexts"]),
        tuple(chosen["actions"]),
        sequence,
        time,
        "" if time is None else by_name[time].kind,
        tuple(_reason(c) for c in columns if c.name not in explicit),
    )


def select(columns: Sequence[Column], argument: str, patterns: str | Sequence[str]) -> list[str]:
    """Return the columns that names, globs or regexes (between slashes) choose, each once."""
    return _match(columns, argument, patterns, taken=frozenset())


def _match(columns: Sequence[Column], argument: str, patterns: str | Sequence[str], taken: Set[str]) -> list[str]:
    found: dict[str, None] = {}
    given = [patterns] if isinstance(patterns, str) else list(patterns)
    if not given:
        raise ArgumentError(f"{argument} must name at least one column; {_list(columns)}")
    for pattern in given:
        if not isinstance(pattern, str):
            raise ArgumentError(f"{argument} must be names of columns; got {pattern!r}")
        # A pattern passes over what has another role; a name for two roles is a mistake.
        matches = _find(columns, pattern) or [n for n in _match_pattern(columns, argument, pattern) if n not in taken]
        if not matches:
            names = [c.name for c in columns]
            close = difflib.get_close_matches(pattern, names, n=1)
            hint = f" (did you mean {quote(close[0])}?)" if close else ""
            raise ArgumentError(f"{argument}: no column is {pattern!r}{hint}; {_list(columns)}")
        found |= dict.fromkeys(matches)
    return list(found)


def _find(columns: Sequence[Column], patterns: Patterns) -> list[str]:
    """Return the columns of exactly these names, and the elements of lists of these names."""
    given = [patterns] if isinstance(patterns, str) else list(patterns or ())
    names = {c.name for c in columns}
    return [n for g in given for n in ([g] if g in names else [c.name for c in columns if c.parent == g])]


def _match_pattern(columns: Sequence[Column], argument: str, pattern: str) -> list[str]:
    """Return the columns that a glob, or a regex between slashes, matches."""
    names = [c.name for c in columns]
    if len(pattern) > 2 and pattern[0] == pattern[-1] == "/":
        try:
            regex = re.compile(pattern[1:-1])
        except re.error as error:
            raise ArgumentError(f"{argument}: {pattern!r} is not a regular expression: {error}") from None
        return [n for n in names if regex.search(n)]
    return [n for n in names if fnmatchcase(n, pattern)]


def _one(columns: Sequence[Column], argument: str, name: str) -> str:
    found = select(columns, argument, name)
    if len(found) > 1:
        raise ArgumentError(f"{argument} must be one column; {name!r} matches {', '.join(found)}")
    return found[0]


def _claim(explicit: dict[str, str], argument: str, names: Iterable[str]) -> None:
    for name in names:
        if explicit.get(name, argument) != argument:
            raise ArgumentError(
                f"{argument}: column {quote(name)} is named as {explicit[name]} already: it has one role"
            )
        explicit[name] = argument


def _some(name: str | None) -> list[str]:
    return [] if name is None else [name]


def _find_named(columns: Sequence[Column], names: Sequence[str]) -> list[str]:
    return [c.name for name in names for c in columns if c.name.lower() == name]


def _guess_actions(columns: Sequence[Column]) -> list[str]:
    numeric = [c for c in columns if c.is_numeric]
    for patterns in ACTION_PATTERNS:
        if found := [c.name for c in numeric if any(fnmatchcase(c.name, p) for p in patterns)]:
            return found
    return []


def _guess_contexts(columns: Sequence[Column], actions: Sequence[str]) -> list[str]:
    numeric = [c.name for c in columns if c.is_numeric and c.name]  # a nameless column is an index, as a rule
    if found := [n for n in numeric if n.startswith("x_")]:
        return found
    convention = any(a.startswith("a_") for a in actions)
    return [n for n in numeric if not (convention and n.startswith(("a_", "z_")))]


def _odd(columns: Sequence[Column]) -> str:
    """Name the first column that is called like an action but cannot be one."""
    patterns = [p for group in ACTION_PATTERNS for p in group]
    odd = [c for c in columns if any(fnmatchcase(c.name, p) for p in patterns)]
    return f"; {quote(odd[0].name)} holds {odd[0].kind}" if odd else ""


def _reason(column: Column) -> str:
    name = column.name or "(a column without a name)"
    return name if column.is_numeric else f"{name} ({column.kind})"


def _list(columns: Sequence[Column]) -> str:
    return f"the columns are {list_names([c.name for c in columns])}"


def list_names(names: Sequence[str]) -> str:
    """Write names one after the other, never more than a few lines."""
    short = [name if len(name) <= 40 else f"{name[:37]}..." for name in names]
    some = short if len(names) <= 20 else [*short[:15], "...", short[-1]]
    return ", ".join(some) + (f" ({len(names)})" if len(names) > 20 else "")


def counts_frames(name: str, kind: str) -> bool | None:
    """Return whether a time column counts frames: True by its name, None if its steps must tell, else False."""
    if kind == STAMP:
        return False
    if re.fullmatch(r"(video_)?frames?(_?(index|id|number|no|nr))?", name.lower().replace(" ", "_")):
        return True
    return None if kind == WHOLE else False
