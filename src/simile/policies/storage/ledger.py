"""The ledger: which policies with models of other libraries this user's own trainings wrote, by their digests.

A run's own files, its checkpoints among them, are read back without naming once more what the user had chosen. The
ledger lies in the user's account, not beside the files: a folder that somebody sends cannot vouch for itself.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_here: set[str] = set()  # what this process wrote, wherever it may not keep a ledger


def note(digest: str) -> None:
    """Keep that a policy was written here; where nothing can be written, this process alone knows."""
    _here.add(digest)
    with contextlib.suppress(OSError, RuntimeError):
        path = _place()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(held, "w", encoding="ascii") as file:
            file.write(f"{digest}\n")


def holds(digest: str) -> bool:
    """Tell whether a policy was written by this user, here."""
    if digest not in _here:
        with contextlib.suppress(OSError, RuntimeError, ValueError):
            _here.update(_place().read_text("ascii").split())
    return digest in _here


def _place() -> Path:
    """Return the file; RuntimeError for a user without a home."""
    base = os.environ.get("XDG_STATE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(base) if base else Path.home() / ".local" / "state") / "simile" / "policies"
