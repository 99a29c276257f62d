"""Writing files so that nobody ever sees half of one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from simile.errors import StorageError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that takes the place of `path` when all is written, and its folder where that is missing.

    Raises
    ------
    StorageError
        When the file cannot be written; what was there before is then untouched.
    """
    target = Path(path)
    if "\0" in str(target):
        raise StorageError(f"{str(target)!r} cannot be written: no file can have this name: choose another")
    # In the same folder, for a file can be renamed in one step only where it lies.
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.tmp") if target.name else target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            if temporary != target:
                temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        reason = error.strerror or error
        raise StorageError(f"{target} cannot be written: {reason}: choose another place, or make room there") from error


def read_stamp(path: Path) -> tuple[int, int, int] | None:
    """Return what changes when a file does: when it was written, its size and its place; None where it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write `data` to a file, whole or not at all; see `replacing`."""
    with replacing(path) as file:
        file.write(data)
