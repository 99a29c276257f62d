"""Locks on files: they end with the process that holds them, however it ends, and so tell whether it is alive."""

from __future__ import annotations

import os
from pathlib import Path

try:
    import fcntl
except ImportError:  # on Windows a lock is never seen as held
    fcntl = None  # type: ignore[assignment]


def acquire(file: Path) -> int | None:
    """Lock a file and return its open descriptor; None where somebody else holds it.

    A child process that inherits the descriptor holds the lock too.
    """
    held = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    if fcntl is not None:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(held)
            return None
    return held


def is_held(file: Path) -> bool:
    """Return whether somebody holds the lock on a file."""
    if not file.exists():
        return False
    held = acquire(file)
    if held is None:
        return True
    os.close(held)
    return False
