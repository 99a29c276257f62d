"""Paths to opened tables: the suffix tells the format; folders and patterns stand for several files."""

from __future__ import annotations

import glob
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from simile._common import memory
from simile._common.urls import File, Url, locate, refuse_url
from simile.data.reading.arrays import open_arrays
from simile.data.reading.arrow import open_frame, open_ipc, open_journal, open_parquet, read_journal
from simile.data.reading.datasets import open_dataset
from simile.data.reading.repair import (
    MENDS,
    NO_DATA,
    Repairs,
    leave_out_unrelated_tables,
    mend_words,
)
from simile.data.reading.tables import Budget, Chunk, GoneError, Table, Types
from simile.data.reading.text import open_records, open_text
from simile.errors import ArgumentError, DataError

_OPENERS: dict[str, Callable[[File], Table]] = {
    **dict.fromkeys((".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz"), open_text),
    **dict.fromkeys((".parquet", ".pq"), open_parquet),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), open_ipc),
    ".arrows": open_journal,
    **dict.fromkeys((".jsonl", ".ndjson"), open_records),
    ".npz": open_arrays,
}

_AT_ONCE = 16  # files elsewhere that are opened


def open_tables(
    path: Any,
    *,
    max_memory: float | None = None,
    rows: tuple[int, int] | None = None,
    repairs: Repairs | None = None,
) -> list[Table]:
    """Open whatever a path, a pattern, a folder or a list of these stands for, or a data frame.

    All rows may take `max_memory` MB.

    Of a single Parquet file, `rows` may be given: from one to before another, counted from 0. Where `repairs` are to be
    counted, damage is mended.
    """
    budget = Budget(memory.read_limit(max_memory))

    def finish(table: Table) -> Table:
        return budget.watch(table if repairs is None else mend_words(table, repairs))

    if isinstance(path, Table | Mapping) or hasattr(type(path), "columns"):
        return [finish(path if isinstance(path, Table) else open_frame(path))]
    given = [path] if isinstance(path, str | Path | Url) else list(path) if isinstance(path, Iterable) else []
    if not given or not all(isinstance(p, str | Path | Url) for p in given):
        got = " ".join(repr(path).split())
        raise ArgumentError(f"path must be a path or a list of paths; got {got}: or give a data frame")
    if nul := next((p for p in given if "\0" in str(p)), None):
        raise ArgumentError(f"path must not hold a null character; got {nul!r}")
    try:
        places = [locate(one, limit=budget.limit) for one in given]
        if len(places) == 1 and (table := open_dataset(places[0])) is not None:
            return [finish(table)]
        files = [file for one in places for file in _files(one, repairs)]
    except OSError as error:
        raise DataError(f"{error.filename or path}: {error.strerror or error}") from None
    if twice := next((f for i, f in enumerate(files) if f in files[:i]), None):
        raise ArgumentError(f"path: {twice} is given twice")
    if repairs is not None:
        return [budget.watch(table) for table in _open_damaged(files, repairs, budget)]
    # One by one on this machine; elsewhere each answer takes a while.
    at_once = _AT_ONCE if any(isinstance(file, Url) for file in files[1:]) else 1
    with ThreadPoolExecutor(at_once) as pool:
        ways = [*[_open_while_there] * (len(files) - 1), _open]  # without the newest of a recording, nothing is left
        opened = (map if at_once == 1 else pool.map)(lambda way, file: way(file), ways, files)
        tables = [table for table in opened if table is not None]
    if rows is not None:
        tables = [table.part(*rows) for table in tables if table.part is not None]
    return [budget.watch(table) for table in tables]


def _open_damaged(files: Sequence[File], repairs: Repairs, budget: Budget) -> list[Table]:
    """Open files, but for those that hold no data where others do."""
    tables, errors = [], []
    for file in files:
        try:
            if _OPENERS[suffix_of(file)] is open_text:
                tables.append(mend_words(open_text(file, repairs, budget), repairs, typed=False))
            else:
                tables.append(mend_words(_open(file), repairs))
        except DataError as error:
            errors.append(error)
            repairs.add(NO_DATA, 1, file)
    if not tables:
        raise errors[0]
    return leave_out_unrelated_tables(tables, repairs)


def _open(file: File) -> Table:
    return _OPENERS[suffix_of(file)](file)


def _open_while_there(file: File) -> Table | None:
    """Open a file; of a recording that is one of the older, which whoever records may remove before it is scanned."""
    if not _is_recorded(file):
        return _open(file)
    try:
        table = _open(file)
    except GoneError:
        return None

    def scan(types: Types, watched: Sequence[str] = ()) -> Iterator[Chunk]:
        with suppress(GoneError):
            yield from table.scan(types, watched)

    return replace(table, scan=scan)


def suffix_of(path: File) -> str:
    """Return the suffix that tells the format, in lower case; unknown ones are refused."""
    name = path.name.lower()
    for suffix in sorted(_OPENERS, key=len, reverse=True):
        if name.endswith(suffix):
            return suffix
    raise ArgumentError(
        f"path: the suffix of {path.name!r} is not known: use one of {', '.join(_OPENERS)}, "
        "or give a data frame to Demonstrations.from_frame"
    )


def _files(path: File, repairs: Repairs | None = None) -> list[File]:
    if isinstance(path, Url):
        return _files_there(path, repairs)
    if path.is_dir():
        return _files_below(path, repairs)
    if path.exists():
        suffix_of(path)
        if not path.is_file():
            raise DataError(f"{path}: a pipe or a device, which can be read only once: write it to a file first")
        return [path]
    if not glob.has_magic(str(path)):
        refuse_url(path, "path", "give it as text, for pathlib takes a slash away")
        raise DataError(f"{path}: there is no such file")
    return _matching(path, (Path(p) for p in glob.glob(str(path), recursive=True) if Path(p).is_file()))


def _files_there(url: Url, repairs: Repairs | None) -> list[File]:
    """Return the files that a URL stands for: as on this machine, but that each look there takes a while."""
    if url.has_magic() and ((found := url.glob()) or not url.is_file()):
        return _matching(url, found)
    if url.kind == "directory":
        return _files_below(url, repairs)
    suffix_of(url)
    return [url]


def _matching(pattern: File, files: Iterable[File]) -> list[File]:
    found = _sort(files)
    if not found:
        raise DataError(f"{pattern}: no file matches the pattern")
    for file in found:
        suffix_of(file)
    return found


def _files_below(folder: File, repairs: Repairs | None) -> list[File]:
    below = _list_below(folder)
    while any(map(_is_recorded, below)):
        # While somebody records, a journal becomes Parquet under another name, and a list may have neither.
        before, below = set(below), _list_below(folder)
        if set(below) == before:
            break
    if not below:
        raise DataError(f"{folder}: there is no data file in this folder; known are {', '.join(_OPENERS)}")
    below = _leave_out_journals(below)
    counts = Counter(suffix_of(p) for p in below if suffix_of(p) != ".arrows").most_common()
    if len(counts) > 1:  # the same data twice, as a rule
        most, suffixes = counts[0][1] > counts[1][1], sorted(suffix for suffix, _ in counts)
        if repairs is None or not most:
            raise ArgumentError(
                f"path: {folder} holds files of several formats ({', '.join(suffixes)}): "
                f"choose with a pattern, as '{folder}/*{suffixes[0]}'{MENDS * most}"
            )
        strange = _sort(p for p in below if suffix_of(p) in suffixes and suffix_of(p) != counts[0][0])
        repairs.add(NO_DATA, len(strange), strange[0])
        below = [p for p in below if p not in strange]
    return _sort(below)


def _list_below(folder: File) -> list[File]:
    return [
        p
        for p in folder.rglob("*")
        if (isinstance(p, Url) or p.is_file()) and not p.name.startswith((".", "_")) and _is_known(p)
    ]


def _leave_out_journals(files: list[File]) -> list[File]:
    """Return files without the journals of a recording that are in it as Parquet too, or have no row yet."""
    journals = [p for p in files if isinstance(p, Path) and suffix_of(p) == ".arrows"]
    gone = {p for p in journals if p.with_suffix(".parquet") in files or _is_empty(p)}
    return [p for p in files if p not in gone] if len(gone) < len(files) else files


def _is_empty(journal: Path) -> bool:
    try:
        return next(read_journal(journal), None) is None
    except FileNotFoundError:  # it has just become Parquet, which is found when it is opened
        return False


def _is_recorded(path: File) -> bool:
    return path.name.startswith("recording-")


def _is_known(path: File) -> bool:
    return path.name.lower().endswith(tuple(_OPENERS))


def _sort(paths: Iterable[File]) -> list[File]:
    """Return paths in the order people expect: run2 before run10."""
    return sorted(paths, key=lambda p: [(int(s), "") if s.isdecimal() else (-1, s) for s in re.split(r"(\d+)", str(p))])
