"""Locks end with their holder, tell who it is, and leave nothing behind."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from commands import simile_
from simile import ArgumentError, StorageError, write
from simile._common import locks
from simile.data import tasks
from simile.learning.runs import LOCK, RunFolder

HOLDER = """
import sys
from pathlib import Path
from simile._common import locks
with locks.hold(Path(sys.argv[1]), "busy"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def games(tmp_path: Path) -> Path:
    file = tmp_path / "games.csv"
    write(tasks.pursuit(n_sequences=4, length=60), file)
    return file


def test_the_second_is_told_who_holds_a_lock_and_a_crash_ends_it(tmp_path: Path):
    file = tmp_path / "new {folder}" / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(ArgumentError, match=rf"^{{that}} is held by process {other.pid}$"):
            locks.hold(file, "{that} is held by {other}").__enter__()
        file.write_text("nobody knows")
        with pytest.raises(ArgumentError, match=r"^held by another process$"):
            locks.hold(file, "held by {other}").__enter__()
        other.kill()
    assert not locks.is_held(file)
    with locks.hold(file, "busy"):
        assert file.read_text() == f"{os.getpid()}\n"
    assert not file.exists()


def test_a_lock_that_was_removed_while_somebody_waited_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file, lock = tmp_path / "lock", locks.lock

    def remove_first(held: int) -> None:
        monkeypatch.setattr(locks, "lock", lock)
        file.unlink()
        lock(held)

    monkeypatch.setattr(locks, "lock", remove_first)
    held = locks.acquire(file)
    assert held is not None
    assert os.path.samestat(os.fstat(held), file.stat())
    assert locks.is_held(file)
    os.close(held)


def test_where_the_file_system_has_no_locks_nobody_is_kept_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(_: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(locks, "lock", refuse)
    with locks.hold(tmp_path / "lock", "busy"), locks.hold(tmp_path / "lock", "busy"):
        assert not locks.is_held(tmp_path / "lock")


def test_a_folder_that_was_made_for_a_lock_goes_with_it_unless_it_is_used(tmp_path: Path):
    for used in (False, True):
        folder = tmp_path / "folder"
        with locks.hold(folder / "lock", "busy"):
            if used:
                (folder / "result").touch()
        assert folder.exists() is used
    with pytest.raises(StorageError, match="cannot be written"), locks.hold(folder / "result" / "lock", "busy"):
        pass


def test_a_folder_takes_one_run_at_a_time(games: Path, tmp_path: Path):
    folder = tmp_path / "run"
    train = ("train", games, "--actions", "pan", "--model", "SmoothForest(n_trees=2)", "--no-report")
    simile_(*train, cwd=tmp_path)
    before = {file: file.read_bytes() for file in folder.iterdir()}
    with RunFolder(folder).hold():
        for words in ((*train, "--overwrite"), ("train", "--resume", folder), ("compare", games, "--out", folder)):
            refused = simile_(*words, cwd=tmp_path, code=2)
            assert f"is in use by process {os.getpid()}, a run that is at work: wait for it" in refused.stderr
        (folder / LOCK).write_bytes(b"")
        assert {file: file.read_bytes() for file in folder.iterdir() if file.name != LOCK} == before
    simile_(*train, "--overwrite", cwd=tmp_path)
    assert not (folder / LOCK).exists()
