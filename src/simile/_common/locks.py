"""Locks on files: they end with the process that holds them, however it ends, and so tell whether it is alive."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from simile.errors import ArgumentError, StorageError

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]
    import msvcrt

HELD = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)  # what a system says where somebody else has the lock
FAR = 2**30  # where Windows locks a byte: there, what is locked cannot be read, and the beginning tells who holds it


def lock(held: int, *, wait: bool = False) -> None:
    """Lock an open file until it is closed; where somebody else has, wait for that, or raise OSError."""
    if fcntl is not None:
        fcntl.flock(held, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    else:
        os.lseek(held, FAR, os.SEEK_SET)
        msvcrt.locking(held, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        os.lseek(held, 0, os.SEEK_SET)


def acquire(file: Path) -> int | None:
    """Lock a file and return its open descriptor; None where somebody else holds it.

    A child process that inherits the descriptor holds the lock too.
    """
    while True:
        held = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            lock(held)
        except OSError as error:
            if error.errno in HELD:
                os.close(held)
                return None
            return held  # a file system without locks: nobody can be kept out
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(held), os.stat(file)):
                return held
        os.close(held)  # it was removed by whoever held it, as `hold` does: it is no lock on anything any more


def is_held(file: Path) -> bool:
    """Return whether somebody holds the lock on a file."""
    if not file.exists():
        return False
    held = acquire(file)
    if held is None:
        return True
    os.close(held)
    return False


@contextlib.contextmanager
def hold(file: Path, busy: str) -> Iterator[None]:
    """Hold the lock on a file, which tells the process and is gone at the end; its folder is made where it is missing.

    A file that somebody has put in its place stays, and so does the parent's in a child process.

    Parameters
    ----------
    file : Path
        The file.
    busy : str
        What to say where another holds it: "{other}" becomes "process 123", or "another process".

    Raises
    ------
    ArgumentError
        When another holds it.
    StorageError
        When there can be no such file.
    """
    made, owner = not file.parent.exists(), os.getpid()
    try:
        file.parent.mkdir(0o700, parents=True, exist_ok=True)
        held = acquire(file)
    except OSError as error:
        raise StorageError(f"{file} cannot be written: {error.strerror or error}: choose another place") from error
    if held is None:
        raise ArgumentError(busy.replace("{other}", _name_holder(file)))
    try:
        os.ftruncate(held, 0)
        os.write(held, f"{os.getpid()}\n".encode())
        yield
    finally:
        own = os.getpid() == owner
        with contextlib.suppress(OSError):  # Windows removes no file that is open
            if own and os.path.samestat(os.fstat(held), os.stat(file)):
                file.unlink()
        os.close(held)
        if made and own:
            with contextlib.suppress(OSError):  # unless something was written there
                file.parent.rmdir()


def _name_holder(file: Path) -> str:
    with contextlib.suppress(OSError):
        pid = file.read_text("ascii", "replace").partition("\n")[0]
        if pid.isdecimal():
            return f"process {pid[:20]}"
    return "another process"
