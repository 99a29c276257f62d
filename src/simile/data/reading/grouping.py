"""Which sequences belong together: by a column, by the folders of files, by a table beside the data, or by the clock.

What names and values do not say beyond doubt is not taken for granted, but pointed out.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from simile._common.urls import File, locate, name_of, pure
from simile.data.groups import GROUP, RECORDING, names_group, one_group
from simile.data.names import list_some
from simile.data.reading.clock import Timing
from simile.data.reading.columns import SEQUENCE_NAMES, SINGLE, ColumnRoles, Header, ReadOptions, find_known, select
from simile.data.reading.formats import open_tables
from simile.data.reading.sequences import Pieces
from simile.data.reading.values import quote
from simile.errors import ArgumentError, DataError

FOLDER = "folder"
LEAST = 3  # groups that are inferred: two may be two conditions of one person
_OVERRULES = f"group='{SINGLE}' (--group {SINGLE}) overrules"


@dataclass(frozen=True)
class Grouping:
    """The group of each sequence that was read, what groups are, and what to say of it."""

    labels: Sequence[str | None]
    name: str = GROUP
    said: str = ""
    notes: tuple[str, ...] = ()


def names_other_source(group: str | None, header: Header) -> bool:
    """Tell whether groups are named by what is no column: the folders, or a table of sequences as FILE:COLUMN."""
    if group is None:
        return False
    if not isinstance(group, str):
        raise ArgumentError(f"group must be the name of a column, '{FOLDER}', FILE:COLUMN or '{SINGLE}'; got {group!r}")
    return not header.find(group) and (group == FOLDER or ":" in group)


def are_likely_groups(pieces: Sequence[Pieces]) -> bool:
    """Tell whether a column that is called like a group is one: coarser than the sequences, and no mere condition."""
    return LEAST <= len({p.group for p in pieces}) < len(pieces)


def note_two_groups(pieces: Sequence[Pieces], column: str) -> list[str]:
    """Say that a column that is called like a group may be one, where it has but two values."""
    two = len({p.group for p in pieces}) == LEAST - 1 < len(pieces)
    return [f"{column!r} has 2 values: group={column!r} (--group {column}) holds out the sequences of one"] * two


def find_groups(
    pieces: Sequence[Pieces],
    choice: ColumnRoles,
    how: ReadOptions,
    folders: Sequence[str],
    timing: Timing,
    *,
    beside: bool,
    told: bool,
) -> Grouping:
    """Return the groups of sequences: as named, as chosen, or as folders and clocks tell where no file does."""
    if beside:
        return _group_beside(str(how.group), pieces, folders, how.max_memory)
    if choice.group is not None:
        return _group_by_column(pieces, choice)
    if how.group is None and not told:
        return _infer_groups(pieces, folders, timing.goes_on, [len(some) for some in timing.parts])
    return Grouping([None] * len(pieces))


def _group_by_column(pieces: Sequence[Pieces], choice: ColumnRoles) -> Grouping:
    """Group sequences by the column that was chosen."""
    name = choice.shown[str(choice.group)]
    notes = [f"{name!r} is taken for what sequences have in common: those of one are held out together; {_OVERRULES}"]
    return _named([p.group for p in pieces], name, f"column {name!r}", notes if choice.group_guessed else [])


def _group_beside(
    group: str, pieces: Sequence[Pieces], folders: Sequence[str], max_memory: float | None = None
) -> Grouping:
    """Group sequences by their folders, or by a table of sequences."""
    if group == FOLDER:
        return _named(folders, FOLDER, "the folders")
    file, column = group.rsplit(":", 1)
    if isinstance(place := locate(file), Path) and not place.is_file():
        told = f"group: no column is called {group!r}, and of the file {file!r}"
        raise ArgumentError(f"{told}: there is no such file")
    found = _look_up(file, column, max_memory)
    if lost := [p.name for p in pieces if p.name not in found]:
        raise DataError(f"{file}: no row is about the sequence {quote(lost[0])}, which is in the data: add one")
    return _named([found[p.name] for p in pieces], column, f"column {column!r} of {name_of(file)}")


def _infer_groups(
    pieces: Sequence[Pieces], folders: Sequence[str], goes_on: Sequence[bool], parts: Sequence[int]
) -> Grouping:
    """Group sequences where the names of folders or the clock say so, given into how many parts a gap cuts each."""
    several = list(dict.fromkeys(folders))
    if LEAST <= len(several) < len(pieces) and all(names_group(Path(folder).name) for folder in several):
        note = f"files of one folder ({list_some(several)}) are held out together; {_OVERRULES}"
        return _named(folders, FOLDER, "the folders", [note])
    notes: list[str] = []
    if 1 < len(several) < len(pieces):
        notes.append(
            f"the files lie in {len(several)} folders: group='{FOLDER}' (--group {FOLDER}) holds out those of one"
        )
    roots: list[str] = []
    for piece, continues in zip(pieces, goes_on, strict=True):
        roots.append(roots[-1] if continues else piece.source or piece.name)
    n, total = len(set(roots)), sum(parts)
    if n == total or (n == 1 and len(pieces) == 1 and not any(goes_on)):
        return Grouping([None] * len(pieces), notes=tuple(notes))
    why = "the clock goes on from sequence to sequence" if any(goes_on) else "sequences are cut"
    if n == 1:
        note = f"{why}: all {total} are pieces of one recording, and what is held out are other pieces of it"
        return Grouping(roots, RECORDING, notes=(*notes, note))
    note = f"{why}: {total} pieces of {n} recordings, and those of one are held out together; {_OVERRULES}"
    return Grouping(roots, RECORDING, f"{n} recordings", (*notes, note))


def folders_of(paths: Sequence[File]) -> list[str]:
    """Return the folder of every file, from the one that all share."""
    full = [pure(path.resolve()).parent for path in paths]
    try:
        common = os.path.commonpath(full)
    except ValueError:  # on several drives
        return [folder.as_posix() for folder in full]
    return [folder.relative_to(common).as_posix() for folder in full]


def _named(labels: Sequence[str | None], name: str, source: str, notes: Sequence[str] = ()) -> Grouping:
    """Return groups that are named; say so where they are as good as none."""
    n, kind = len(set(labels)), quote(name)
    if n == 1:
        notes = [*notes, f"all sequences have the same {kind}: single sequences are held out"]
    elif n == len(labels):
        notes = [*notes, f"every sequence has a {kind} of its own: single sequences are held out"]
    said = f"{n} by {source}, each held out as a whole" if 1 < n < len(labels) else ""
    return Grouping(labels, name, said, tuple(notes))


def _look_up(file: str, column: str, max_memory: float | None) -> dict[str, str]:
    """Return the group of each sequence, by name, from a table with a column for each of the two."""
    found: dict[str, str] = {}
    for table in open_tables(file, max_memory=max_memory):
        label = next(iter(find_known(table.columns, SEQUENCE_NAMES)), None)
        if label is None:
            raise ArgumentError(f"group: {table.path} has no column for the sequences: call one 'sequence'")
        (chosen,) = select(table.columns, f"{table.path}: group", [column])[:1]
        for chunk in table.scan({label: str, chosen: str}):
            named, groups = chunk.labels(label), chunk.labels(chosen, optional=True)
            for i, (name, group) in enumerate(zip(named, groups, strict=True)):
                if group is None or found.setdefault(name, group) != group:
                    raise chunk.place.error(i, chosen, one_group(name, found.get(name, group), group))
    return found
