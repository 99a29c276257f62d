"""The studio's folder: data/ID with the files and what is known of them, runs/ID with the folders of the runs.

Everything that must survive the server is in here, in files that are written whole or not at all.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from simile._common.files import clear_leftovers, find_readers, make_folder, write_atomically
from simile.errors import StorageError

ABOUT = "about.json"
ID = re.compile(r"[0-9a-f]{8}")
WAITING, RUNNING, DONE, STOPPED, FAILED = "waiting", "running", "done", "stopped", "failed"
UNFINISHED = (WAITING, RUNNING)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Record:
    """Something with a folder of its own in the workspace."""

    id: str
    name: str


@dataclass(frozen=True)
class Data(Record):
    """A data file: where it lies, how to read it, and what was understood of it.

    Attributes
    ----------
    kind : {"table", "games"}
    paths : list of str
        The files; those of uploads lie in the folder of the data.
    options : dict
        Arguments of `simile.read`.
    found : dict
        What a look into it said: status, columns, understood, frames, error (see `simile.studio.child_tasks`).
    origin : list of str
        Commands that make the file, where it was made here.
    uploaded : bool
        Whether the file came through the page: the user then knows it by its name alone.
    added : str
        ISO time at which it came.
    """

    kind: str
    paths: list[str]
    bytes: int
    options: dict[str, Any] = field(default_factory=dict)
    found: dict[str, Any] = field(default_factory=dict)
    origin: list[str] = field(default_factory=list)
    uploaded: bool = False
    added: str = field(default_factory=lambda: read_clock())

    def describe(self) -> dict[str, Any]:
        """Return what the page is told."""
        blank: dict[str, Any] = {"status": "broken", "columns": [], "understood": None, "frames": None, "error": None}
        kept = {name: getattr(self, name) for name in ("id", "name", "kind", "options", "bytes")}
        return {**blank, **self.found, **kept}


@dataclass(frozen=True)
class Job(Record):
    """A run that somebody asked for; what it finds is in its folder, see `simile.learning.runs`.

    Attributes
    ----------
    kind : {"train", "compare"}
    data : str
        Id of the data.
    parent : str, optional
        Id of the run that this one repeats with another smoothness.
    status : str
        What it was when it was last written down: after a crash, perhaps no more.
    started : str
        ISO time at which it was asked for.
    seconds : float
        For which it has run, before the present stretch.
    """

    kind: str
    data: str
    started: str
    parent: str | None = None
    status: str = WAITING
    error: str | None = None
    seconds: float = 0.0


Kind = TypeVar("Kind", Data, Job)


@dataclass(frozen=True)
class Workspace:
    """The folder of a studio.

    Parameters
    ----------
    folder : Path
        Made where it is missing.
    """

    folder: Path

    @classmethod
    def at(cls, folder: str | os.PathLike[str]) -> Workspace:
        """Open a folder, or make one."""
        path = Path(folder).resolve()
        try:
            make_folder(path)
            for part in (path / "data", path / "runs"):
                make_folder(part)
                with suppress(PermissionError):  # on a file system that knows no owners
                    part.chmod(0o700)  # an older simile left it open
        except OSError as error:
            raise StorageError(
                f"{path} cannot be the studio's folder: {error.strerror}: name another with --folder"
            ) from None
        return cls(path)

    def clear_up(self) -> None:
        """Remove what a studio that was killed has left of uploads; for who holds the lock."""
        clear_leftovers(self.folder, below=True)
        for place in (self.folder / "data").iterdir():
            with suppress(OSError):  # all but empty folders
                place.rmdir()

    def token(self) -> str:
        """Return the studio's secret; it stays the same, so that open pages find back after a restart.

        One that others could read is told, and replaced.
        """
        file = self.folder / "token"
        try:
            kept = file.read_text("ascii").strip()
        except (OSError, ValueError):
            kept = ""
        trouble = find_readers(file)
        if trouble is not None:
            log.warning("%s: the studio's token is another from now on", trouble)
        if len(kept) < 32 or trouble is not None:
            kept = secrets.token_urlsafe(32)
            write_atomically(file, kept.encode(), secret=True)
        return kept

    def folder_of(self, record: Data | Job) -> Path:
        """Return the folder of data or of a run."""
        return self.folder / ("data" if isinstance(record, Data) else "runs") / record.id

    def keep(self, record: Data | Job) -> None:
        """Write a record down."""
        write_atomically(self.folder_of(record) / ABOUT, msgspec.json.format(msgspec.json.encode(record), indent=1))

    def forget(self, record: Data | Job) -> None:
        """Remove data or a run, with all of its files."""
        shutil.rmtree(self.folder_of(record), ignore_errors=True)

    def data(self) -> list[Data]:
        """Return all data, in the order they came."""
        return sorted(self._read("data", Data), key=lambda data: data.added)

    def jobs(self) -> list[Job]:
        """Return all runs, in the order they were asked for."""
        return sorted(self._read("runs", Job), key=lambda job: job.started)

    def _read(self, part: str, kind: type[Kind]) -> Iterator[Kind]:
        for file in [p / ABOUT for p in (self.folder / part).iterdir() if ID.fullmatch(p.name)]:
            try:
                record = msgspec.json.decode(file.read_bytes(), type=kind)  # without what another studio has added
            except (OSError, ValueError, msgspec.MsgspecError):  # not ours, or an upload that was cut off
                continue
            if record.id == file.parent.name:
                yield record


def read_clock() -> str:
    """Return the time, so that texts sort as times do."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def make_id() -> str:
    """Return an id that nobody has yet."""
    return secrets.token_hex(4)


def clean_name(text: str) -> str:
    """Return a name as it may be shown: the last part of a path, on one line, not too long."""
    last = re.split(r"[/\\]", text)[-1]
    return "".join(c if c.isprintable() else " " for c in last).strip()[:120] or "data"
