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
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from simile._common import locks
from simile._common.files import PRIVATE, clear_leftovers, make_folder, replacing
from simile._common.needs import need
from simile.data.reading.arrow import METADATA_KEY, read_journal
from simile.data.reading.tables import Roles
from simile.errors import ArgumentError, DataError, StorageError

NAME = re.compile(r"recording-(\d{6,})\.(arrows|parquet)")
LOCK = ".recording.lock"
MOST_BYTES, MOST_ROWS = 32 << 20, 200_000  # of a journal
SHARES = 4  # files that a limit leaves room for, at least
GROUP = 1 << 13  # rows of a row group of Parquet: few, for they are in memory while they are written
BOOKKEEPING = ("sequence", "n", "t", "who", "limited", "policy", "event")

log = logging.getLogger("simile.recording")


def build_schema(contexts: Sequence[str], actions: Sequence[str], rate: float | None, lead: int = 0) -> Any:
    """Return the columns of a recording, with their roles for `simile.read`; frames a second, and those of the lead."""
    pa = need("pyarrow", "recording")
    names = [*BOOKKEEPING, *contexts, *actions]
    if twice := next((name for name in names if names.count(name) > 1), None):
        what = "of the recording itself" if twice in BOOKKEEPING else "of a context and of an action"
        raise ArgumentError(f"recorder: the column {twice!r} would be one {what}: train the policy on another name")
    roles = asdict(Roles("sequence", "t", tuple(contexts), tuple(actions), rate, continues=True, lead=lead))
    said = {name: value for name, value in roles.items() if name not in ("group", "about") and (lead or name != "lead")}
    kinds = {
        "sequence": pa.string(),
        "n": pa.int64(),
        "t": pa.float64(),
        **dict.fromkeys((*contexts, *actions), pa.float64()),
        "who": pa.string(),
        "limited": pa.bool_(),
        "policy": pa.string(),
        "event": pa.string(),
    }
    return pa.schema(kinds.items(), metadata={METADATA_KEY: json.dumps({"version": 1, **said}).encode()})


class JournalFolder:
    """A folder that one process records into; to be used by one thread, which may wait for the disk.

    Parameters
    ----------
    folder : Path
        Where the files are; it is made where it is missing, for its owner alone, and held by a lock until `close`.
    limit : float or None
        MB that all files may take; the oldest whole ones go first.
    schema : pyarrow.Schema
        Of all files.

    Attributes
    ----------
    removed : int
        Files that had to go.
    """

    def __init__(self, folder: Path, limit: float | None, schema: Any) -> None:
        self.folder, self.schema = folder, schema
        self.limit = None if limit is None else int(limit * 1e6)
        self.removed = 0
        self._most = MOST_BYTES if self.limit is None else min(MOST_BYTES, self.limit // SHARES)
        self._file: io.FileIO | None = None
        self._path = folder  # of that file
        self._whole = self._rows = 0  # bytes and rows of the journal that are on the disk
        self._held = ExitStack()
        busy = f"recorder: {folder} is being recorded into by {{other}}: end that one, or name another folder"
        self._held.enter_context(locks.hold(folder / LOCK, busy))
        try:
            self._recover()
        except BaseException:
            self._held.close()
            raise
        # What is loaded for it is loaded now, and not while somebody acts.
        need("pyarrow.parquet", "recording").write_table(schema.empty_table(), io.BytesIO(), compression="zstd")
        ipc = need("pyarrow.ipc", "recording")
        # Threads of Arrow's own would take turns with whoever acts, a column at a time.
        self._how = ipc.IpcWriteOptions(compression=_choose_codec(), use_threads=False)

    def append(self, batches: Sequence[Any]) -> None:
        """Add record batches to the journal, and wait until they are on the disk.

        Raises
        ------
        OSError
            When they cannot be; the journal is then as it was.
        """
        data = self._pack(batches)
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
        """Turn a journal that is full into a Parquet file, and keep to the limit.

        Raises
        ------
        OSError or StorageError
            When there is no room for that; the journal stays as it is, and the next one begins.
        """
        try:
            if self._whole >= self._most or self._rows >= MOST_ROWS:
                self._rotate()
        finally:
            self._keep_limit()

    def close(self) -> None:
        """Leave whole files, and the folder to others."""
        try:
            self._rotate()
        finally:
            self._held.close()

    def _rotate(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file, self._whole, self._rows = None, 0, 0
        self._settle_all()

    def _settle_all(self) -> None:
        for _, path in list_files(self.folder):
            if path.suffix == ".arrows":
                settle(path)

    def _take_back(self) -> None:
        """Leave the journal as it was: half a batch would hide all that come after it."""
        assert self._file is not None
        try:
            self._file.truncate(self._whole)
            self._file.seek(self._whole)
        except OSError:  # then this one has ended
            self._file.close()
            self._file = None

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
        """Turn the journals of killed processes into whole files; refuse a folder that holds other columns."""
        clear_leftovers(self.folder)
        try:
            self._settle_all()
        except (OSError, StorageError) as error:  # it reads as it is, and there may be room later
            log.warning("a journal in %s could not be made whole: %s", self.folder, error)
        for _, path in list_files(self.folder)[-1:]:
            there = _read_schema(path)
            if there is not None and there.names != self.schema.names:
                other = sorted(set(there.names) ^ set(self.schema.names)) or there.names
                raise ArgumentError(
                    f"recorder: {self.folder} holds recordings of other columns ({', '.join(other[:5])}): name another "
                    "folder"
                )

    def _keep_limit(self) -> None:
        if self.limit is None:
            return
        sizes = [(path, _measure(path)) for _, path in list_files(self.folder)]
        total = sum(size for _, size in sizes)
        for path, size in sizes:
            if total <= self.limit or (self._file is not None and path == self._path):
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
    """Write the whole batches of a journal as Parquet, and remove it; one without any is removed.

    Raises
    ------
    StorageError
        When there is no room for it; the journal stays.
    """
    pq = need("pyarrow.parquet", "recording")
    pa = need("pyarrow", "recording")
    target = journal.with_suffix(".parquet")
    batches = None if target.exists() else read_journal(journal)
    first = None if batches is None else next(batches, None)
    if batches is not None and first is not None:
        # Numbers that are hardly ever the same twice make no dictionary.
        texts = [field.name for field in first.schema if pa.types.is_string(field.type)]
        how = {"compression": "zstd", "use_dictionary": texts}
        # A file of Arrow's own is written without Python's lock, which whoever acts wants.
        with (
            replacing(target, secret=True) as file,
            pa.OSFile(file.name, "wb") as sink,
            pq.ParquetWriter(sink, first.schema, **how) as writer,
        ):
            waiting, rows = [first], first.num_rows
            for batch in batches:
                waiting.append(batch)
                rows += batch.num_rows
                if rows >= GROUP:
                    writer.write_table(pa.Table.from_batches(waiting))
                    waiting, rows = [], 0
            if waiting:
                writer.write_table(pa.Table.from_batches(waiting))
    journal.unlink(missing_ok=True)


def _read_schema(path: Path) -> Any:
    """Return the schema of a file; None where it is damaged, which is for who reads it to tell."""
    try:
        if path.suffix == ".parquet":
            return need("pyarrow.parquet", "recording").read_schema(path)
        first = next(read_journal(path), None)
        return None if first is None else first.schema
    except (OSError, ValueError, DataError):
        return None


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
