"""The folder of a recording: a journal that grows batch by batch, whole Parquet files, and no more than is allowed.

The journal is an Arrow IPC stream: whatever ends the process, it reads up to its last whole batch. When it is full it
becomes a Parquet file; so does one that a killed process has left, when the folder is opened again.
"""

from __future__ import annotations

import io
import json
import logging
import os
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from simile._common import locks
from simile._common.files import PRIVATE, clear_leftovers, make_folder, replacing
from simile._common.needs import need
from simile.data.reading.arrow import measure_unread, read_journal
from simile.data.reading.tables import BOOKKEEPING, METADATA_KEY, Roles
from simile.errors import ArgumentError, SimileError, StorageError

NAME = re.compile(r"recording-(\d{6,})\.(arrows|parquet)")
LOCK = ".recording.lock"
MOST_BYTES, MOST_ROWS = 32 << 20, 200_000  # of a journal
SHARES = 4  # files that a limit leaves room for, at least
PIECES = 4  # of a file, at least: what is written at once
GROUP = 1 << 13  # rows of a row group of Parquet: few, for they are in memory while they are written

log = logging.getLogger("simile.recording")


def name_roles(contexts: Sequence[str], actions: Sequence[str], rate: float | None, lead: int) -> Roles:
    """Return what a recording says of its columns, of its frames a second, and of those of the lead."""
    return Roles("sequence", "t", tuple(contexts), tuple(actions), rate, continues=True, lead=lead or None)


def columns_of(roles: Roles) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of contexts and actions."""
    return roles.contexts or (), roles.actions or ()


def check_timing(ours: Roles, theirs: Roles, what: str, way_out: str) -> None:
    """Refuse a policy of another lead or rate than that which is recorded already: they are not read together."""
    if ours.lead != theirs.lead:
        raise ArgumentError(
            f"recorder: {what} a policy with a lead of {theirs.lead or 0} frames, and this one has {ours.lead or 0}: "
            f"{way_out}"
        )
    if ours.rate != theirs.rate:
        raise ArgumentError(
            f"recorder: {what} a policy with {_tell_rate(theirs.rate)}, and this one has {_tell_rate(ours.rate)}: "
            f"{way_out}, or give both the same rate"
        )


def _tell_rate(rate: float | None) -> str:
    return "no rate" if rate is None else f"a rate of {rate:.15g} Hz"


def build_schema(roles: Roles) -> Any:
    """Return the columns of a recording, with their roles for `simile.read`."""
    pa = need("pyarrow", "recording")
    numbers = sum(columns_of(roles), ())
    names = [*BOOKKEEPING, *numbers]
    if twice := next((name for name in names if names.count(name) > 1), None):
        what = "of the recording itself" if twice in BOOKKEEPING else "of a context and of an action"
        raise ArgumentError(f"recorder: the column {twice!r} would be one {what}: train the policy on another name")
    unsaid = ("group", "about") if roles.lead else ("group", "about", "lead")
    said = {name: value for name, value in asdict(roles).items() if name not in unsaid}
    kinds = {
        "sequence": pa.string(),
        "n": pa.int64(),
        "t": pa.float64(),
        **dict.fromkeys(numbers, pa.float64()),
        "who": pa.string(),
        "limited": pa.bool_(),
        "policy": pa.string(),
        "event": pa.string(),
    }
    return pa.schema(kinds.items(), metadata={METADATA_KEY: json.dumps({"version": 1, **said}).encode()})


class JournalFolder:
    """A folder that one process records into; to be used by one thread, which may wait for the disk.

    Where somebody removes it meanwhile, it is made anew.

    Parameters
    ----------
    folder : Path
        Where the files are; it is made where it is missing, for its owner alone, and held by a lock until `close`.
    limit : float or None
        MB that all files may take; the oldest go first, and the newest stays.
    roles : Roles
        Of the columns of all files.
    lose : callable
        Is told how many frames were in a journal that somebody has removed.

    Attributes
    ----------
    removed : int
        Files that had to go.
    """

    def __init__(self, folder: Path, limit: float | None, roles: Roles, lose: Callable[[int], None]) -> None:
        folder = folder.absolute()  # wherever the process is later
        self.folder, self.roles, self.schema = folder, roles, build_schema(roles)
        self.limit = None if limit is None else int(limit * 1e6)
        self.removed = 0
        self._lose = lose
        self._most = MOST_BYTES if self.limit is None else min(MOST_BYTES, self.limit // SHARES)
        self._file: io.FileIO | None = None
        self._path = folder  # of that file
        self._whole = self._rows = 0  # bytes and rows of the journal that are on the disk
        self._ended = False  # whether journals wait to become Parquet
        self._held = ExitStack()
        self._lock: os.stat_result | None = None
        self._take_folder()
        # What is loaded for it is loaded now, and not while somebody acts.
        need("pyarrow.parquet", "recording").write_table(self.schema.empty_table(), io.BytesIO(), compression="zstd")
        ipc = need("pyarrow.ipc", "recording")
        # Threads of Arrow's own would take turns with whoever acts, a column at a time.
        self._how = ipc.IpcWriteOptions(compression=_choose_codec(), use_threads=False)

    def cut(self, batches: Sequence[Any]) -> Iterator[list[Any]]:
        """Yield record batches in pieces to append: of these a file takes several, so that it is not too large."""
        most, piece, size = self._most // PIECES, list[Any](), 0
        for batch in batches:
            rows = max(1, most * batch.num_rows // max(1, batch.nbytes))
            for part in (batch.slice(i, rows) for i in range(0, batch.num_rows, rows)):
                if piece and size + part.nbytes > most:
                    yield piece
                    piece, size = [], 0
                piece.append(part)
                size += part.nbytes
        if piece:
            yield piece

    def append(self, batches: Sequence[Any]) -> None:
        """Add record batches to the journal, or to the next one where it is full, and wait until they are on the disk.

        Raises
        ------
        OSError
            When they cannot be; the journal is then as it was.
        ArgumentError or StorageError
            When the folder was removed, and cannot be made anew, or is somebody else's now.
        """
        self._miss_removed()
        if not _is_there(self.folder / LOCK, self._lock):
            self._end()
            self._take_folder()
        data = self._pack(batches)
        if self._whole and self._whole + len(data) > self._most:
            self._end()
        if self._file is None:
            self._begin()
        assert self._file is not None
        data = data[len(self.schema.serialize()) :] if self._whole else data
        try:
            _write_all(self._file, data)
            os.fsync(self._file.fileno())
        except OSError:
            self._take_back()
            raise
        self._whole += len(data)
        self._rows += sum(batch.num_rows for batch in batches)

    def tidy(self) -> None:
        """Turn journals that are full into Parquet files, and keep to the limit.

        Raises
        ------
        OSError or StorageError
            When there is no room for that; the journals stay as they are, and the next one begins.
        """
        if self._whole >= self._most or self._rows >= MOST_ROWS:
            self._end()
        try:
            if self._ended:
                self._ended = False
                self._settle_all()
        finally:
            self._keep_limit()

    def close(self) -> None:
        """Leave whole files, and the folder to others."""
        try:
            self._miss_removed()
            self._end()
            if _is_there(self.folder / LOCK, self._lock):  # else the journals there are somebody else's
                self._settle_all()
                self._keep_limit()
        finally:
            self._held.close()

    def abandon(self) -> None:
        """Leave the folder, in a child process, to the parent."""
        if self._file is not None:
            self._file.close()
        self._held.close()

    def _take_folder(self) -> None:
        """Hold the folder, and turn the journals of killed processes into whole files."""
        self._lock = None  # what is not held must not look as if it were
        self._held.close()
        busy = f"recorder: {self.folder} is being recorded into by {{other}}: end that one, or name another folder"
        self._held.enter_context(locks.hold(self.folder / LOCK, busy))
        try:
            self._lock = os.stat(self.folder / LOCK)
            self._check_others()
            self._recover()
        except BaseException:
            self._lock = None
            self._held.close()
            raise

    def _miss_removed(self) -> None:
        """Begin anew where somebody has removed the journal, and say what was in it."""
        if self._file is None or _is_there(self._path, os.fstat(self._file.fileno())):
            return
        log.warning("%s was removed by somebody, and %d frames with it: they are lost", self._path, self._rows)
        self._lose(self._rows)
        self._end()

    def _end(self) -> None:
        """Let the next journal begin; this one waits to become Parquet."""
        if self._file is not None:
            self._file.close()
            self._ended = True
        self._file, self._whole, self._rows = None, 0, 0

    def _settle_all(self) -> None:
        """Turn all journals but the open one into Parquet; what fails stays, and is told at the end."""
        failed: Exception | None = None
        for _, path in list_files(self.folder):
            if path.suffix != ".arrows" or (self._file is not None and path == self._path):
                continue
            self._keep_limit(_measure(path))  # for a moment there are both
            try:
                if path.exists():
                    settle(path)
            except (OSError, StorageError) as error:
                failed = error
        if failed is not None:
            raise failed

    def _take_back(self) -> None:
        """Leave the journal as it was: half a batch would hide all that come after it."""
        assert self._file is not None
        try:
            self._file.truncate(self._whole)
            self._file.seek(self._whole)
        except OSError:  # then this one has ended
            self._end()

    def _pack(self, batches: Sequence[Any]) -> memoryview:
        """Return batches as the bytes of an IPC stream, which begins with the schema."""
        sink = need("pyarrow", "recording").BufferOutputStream()
        writer = need("pyarrow.ipc", "recording").new_stream(sink, self.schema, options=self._how)
        for batch in batches:
            writer.write_batch(batch)
        return memoryview(sink.getvalue())

    def _begin(self) -> None:
        number = 1 + max((number for number, _ in list_files(self.folder)), default=0)
        self._path = self.folder / f"recording-{number:06d}.arrows"
        make_folder(self.folder)
        self._file = io.FileIO(self._path, "xb", opener=_open_privately)
        self._whole = self._rows = 0

    def _recover(self) -> None:
        """Turn the journals of killed processes into whole files."""
        clear_leftovers(self.folder)
        try:
            self._settle_all()
        except (OSError, StorageError) as error:  # it reads as it is, and there may be room later
            log.warning("a journal in %s could not be made whole: %s", self.folder, error)

    def _check_others(self) -> None:
        """Refuse a folder that holds other columns, or frames of another lead or rate."""
        there = next(filter(None, (_read_schema(path) for _, path in reversed(list_files(self.folder)))), None)
        if there is None:
            return
        ours, theirs = self.roles, _read_roles(there)
        if there.names != self.schema.names or columns_of(theirs) != columns_of(ours):
            pairs = (there.names, self.schema.names), (columns_of(theirs)[0], columns_of(ours)[0])
            other = next(filter(None, (sorted(set(a) ^ set(b)) for a, b in pairs)), there.names)
            raise ArgumentError(
                f"recorder: {self.folder} holds recordings of other columns ({', '.join(other[:5])}): name another "
                "folder"
            )
        check_timing(ours, theirs, f"{self.folder} holds recordings of", "name another folder")

    def _keep_limit(self, room: int = 0) -> None:
        """Remove the oldest files beyond the limit, which leaves so many bytes free; never the newest."""
        if self.limit is None:
            return
        sizes = [(number, path, _measure(path)) for number, path in list_files(self.folder)]
        total = room + sum(size for _, _, size in sizes)
        for number, path, size in sizes:
            if total <= self.limit or number == sizes[-1][0]:
                return
            path.unlink(missing_ok=True)
            total -= size
            self.removed += 1
            log.warning("%s was removed: the recordings may take %g MB", path.name, self.limit / 1e6)


def list_files(folder: Path) -> list[tuple[int, Path]]:
    """Return the files of a recording by number, oldest first; of a journal that became Parquet, both."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    found = ((int(match[1]), folder / match[0]) for match in map(NAME.fullmatch, names) if match)
    return sorted(found, key=lambda one: (one[0], one[1].suffix))


def settle(journal: Path) -> None:
    """Write the whole batches of a journal as Parquet, and remove it; where more is in it, it is kept beside.

    Raises
    ------
    OSError or StorageError
        When it cannot be read, or there is no room for it; the journal stays.
    """
    target, batches = journal.with_suffix(".parquet"), read_journal(journal)
    n = sum(1 for _ in batches) if target.exists() else _write_parquet(batches, target)
    if unread := measure_unread(journal, n):
        aside = journal.with_name(f".{journal.name}.{secrets.token_hex(4)}.damaged")  # which readers pass over
        journal.rename(aside)
        log.warning("%s is damaged: %d bytes of it could not be read, and are kept in %s", journal, unread, aside.name)
    else:
        journal.unlink(missing_ok=True)


def _write_parquet(batches: Iterator[Any], target: Path) -> int:
    """Write record batches as Parquet, where there are any, and return how many."""
    pa, pq = need("pyarrow", "recording"), need("pyarrow.parquet", "recording")
    first = next(batches, None)
    if first is None:
        return 0
    # Numbers that are hardly ever the same twice make no dictionary.
    texts = [field.name for field in first.schema if pa.types.is_string(field.type)]
    how = {"compression": "zstd", "use_dictionary": texts}
    # A file of Arrow's own is written without Python's lock, which whoever acts wants.
    with (
        replacing(target, secret=True) as file,
        pa.OSFile(file.name, "wb") as sink,
        pq.ParquetWriter(sink, first.schema, **how) as writer,
    ):
        waiting, rows, n = [first], first.num_rows, 1
        for batch in batches:
            waiting.append(batch)
            rows += batch.num_rows
            n += 1
            if rows >= GROUP:
                writer.write_table(pa.Table.from_batches(waiting))
                waiting, rows = [], 0
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting))
    return n


def _read_schema(path: Path) -> Any:
    """Return the schema of a file; None where it is damaged, which is for who reads it to tell."""
    try:
        if path.suffix == ".parquet":
            return need("pyarrow.parquet", "recording").read_schema(path)
        first = next(read_journal(path), None)
        return None if first is None else first.schema
    except (OSError, ValueError, SimileError):
        return None


def _read_roles(schema: Any) -> Roles:
    try:
        return Roles.parse(json.loads((schema.metadata or {})[METADATA_KEY]))
    except (KeyError, TypeError, ValueError):
        return Roles()


def _is_there(path: Path, known: os.stat_result | None) -> bool:
    """Return whether a path still leads to the file that is known."""
    try:
        return known is not None and os.path.samestat(os.stat(path), known)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _choose_codec() -> str | None:
    return "lz4" if need("pyarrow", "recording").Codec.is_available("lz4_frame") else None


def _measure(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _open_privately(path: str, flags: int) -> int:
    return os.open(path, flags, PRIVATE)


def _write_all(file: io.FileIO, rest: memoryview) -> None:
    while rest:
        rest = rest[file.write(rest) :]
