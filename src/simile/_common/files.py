"""Reading files that come to an end, and writing them so that nobody ever sees half of one."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from simile._common import locks
from simile._common.urls import refuse_url
from simile.errors import StorageError

LONGEST = 1 << 31  # bytes of a file that is read as a whole
PRIVATE = 0o600  # who may read and write a file: its owner alone
ELSEWHERE = "files are written whole or not at all, which takes a folder of this machine: name one, and copy them there"
TEMPORARY = re.compile(r"\.(.*)\.[0-9a-f]{8}\.tmp", re.DOTALL)


@contextmanager
def replacing(path: str | os.PathLike[str], *, secret: bool = False) -> Iterator[BinaryIO]:
    """Open a file that takes the place of `path` when all is written, and its folder where that is missing.

    Both are their owner's alone; a file that was there, and that its owner has opened to others, stays open to them
    unless it is secret.

    Raises
    ------
    StorageError
        When the file cannot be written, or is no regular one; what was there before is then untouched.
    """
    target = Path(path)
    refuse_url(target, "what is written", ELSEWHERE, StorageError)
    if "\0" in str(target) or not target.name:
        raise StorageError(f"{str(target)!r} cannot be written: no file can have this name: choose another")
    try:
        if target.exists() and not (target.is_file() or target.is_dir()):
            raise StorageError(f"{target} is a pipe or a device, which a file would replace: name another")
        make_folder(target.parent)
        with _open_temporary(target) as file:
            temporary = Path(file.name)
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                if not secret:
                    with suppress(FileNotFoundError):
                        temporary.chmod(PRIVATE | stat.S_IMODE(target.stat().st_mode) & 0o666)
                if os.name == "nt":  # where a file that is open cannot be renamed
                    file.close()
                os.replace(temporary, target)
            except BaseException:
                file.close()
                temporary.unlink(missing_ok=True)
                raise
    except OSError as error:
        reason = error.strerror or error
        raise StorageError(f"{target} cannot be written: {reason}: choose another place, or make room there") from error


def _open_temporary(target: Path) -> BinaryIO:
    """Open a new file beside another: one can take another's place in one step only where that lies.

    It is locked, which tells `clear_leftovers` that it is being written.
    """
    while True:
        path = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.tmp")
        file = open(path, "xb", opener=_open_privately)  # noqa: SIM115 - for the caller to close
        with suppress(OSError):  # on a file system without locks, where nothing is cleared either
            locks.lock(file.fileno(), wait=True)
        if path.exists():
            return file
        file.close()  # it was taken for a left-over


def clear_leftovers(folder: Path, name: str | None = None, *, below: bool = False) -> None:
    """Remove what processes that were killed have left of `replacing`; what is being written, or is not ours, stays.

    Parameters
    ----------
    folder : Path
        Where to look.
    name : str, optional
        Of the file that was being written; any by default.
    below : bool
        Whether to look into the folders in it, too.
    """
    for place, _, files in os.walk(folder):
        for found in filter(None, map(TEMPORARY.fullmatch, files)):
            if name is None or found[1] == name[:100]:
                with suppress(OSError):
                    _clear(os.path.join(place, found[0]))
        if not below:
            return


def _clear(path: str) -> None:
    file = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    try:
        if stat.S_ISREG(os.fstat(file).st_mode):
            locks.lock(file)
            os.unlink(path)
    finally:
        os.close(file)


def _open_privately(path: str, flags: int) -> int:
    return os.open(path, flags, PRIVATE)


def make_folder(path: Path) -> None:
    """Make a folder, where it is missing, that is its owner's alone."""
    refuse_url(path, "the folder to write to", ELSEWHERE, StorageError)
    path.mkdir(0o700, parents=True, exist_ok=True)


def append(path: Path, text: str) -> None:
    """Add text to a file; where it was not there it is its owner's alone, and so is its folder."""
    make_folder(path.parent)
    with open(path, "a", encoding="utf-8", opener=_open_privately) as file:
        file.write(text)


def find_readers(path: Path) -> str | None:
    """Return a sentence where everybody may read or write a file, its owner's group aside; None where they may not."""
    with suppress(OSError):
        mode = stat.S_IMODE(path.stat().st_mode)
        if os.name == "posix" and mode & 0o006:
            return f"every user of this machine can read {path}, or write it: chmod 600 {shlex.quote(str(path))}"
    return None


def read_stamp(path: Path) -> tuple[int, int, int] | None:
    """Return what changes when a file does: when it was written, its size and its place; None where it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def open_regular(path: str | os.PathLike[str], *, longest: int = 1 << 62) -> BinaryIO:
    """Open a file to read: one that nobody has to wait for, of so many bytes at most.

    Raises
    ------
    OSError
        When it cannot be opened.
    ValueError
        When it is a folder, a pipe or a device, or longer.
    """
    _check_regular(os.stat(path), longest)  # to open a device may do something already
    file = open(path, "rb", opener=_open_at_once)  # noqa: SIM115 - for the caller to close
    try:
        _check_regular(os.fstat(file.fileno()), longest)  # which may be another one by now
    except ValueError:
        file.close()
        raise
    return file


def _check_regular(found: os.stat_result, longest: int) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise ValueError("it is a folder: name a file")
    if not stat.S_ISREG(found.st_mode):
        raise ValueError("it is no regular file: copy it to one first")
    if found.st_size > longest:
        raise ValueError(f"it has {found.st_size:,} bytes, and at most {longest:,} are read")


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_bytes(path: str | os.PathLike[str], *, longest: int = LONGEST) -> bytes:
    """Return what is in a file; see `open_regular`."""
    with open_regular(path, longest=longest) as file:
        return file.read()


def read_text(path: str | os.PathLike[str], *, longest: int = 1 << 20, encoding: str = "utf-8") -> str:
    """Return the text of a small file; see `open_regular`. ValueError where it is no text."""
    return read_bytes(path, longest=longest).decode(encoding)


def write_atomically(path: str | os.PathLike[str], data: bytes, *, secret: bool = False) -> None:
    """Write `data` to a file, whole or not at all; see `replacing`."""
    with replacing(path, secret=secret) as file:
        file.write(data)
