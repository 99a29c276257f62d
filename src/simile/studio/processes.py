"""The child processes that do the runs, begun by this server or left over by one that died."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from simile._common import locks, memory
from simile.learning.runs import CONFIG
from simile.studio.workspace import Job

LOCK, LOG = "lock", "train.log"
UNKNOWN = -1000  # exit status of a child that was not ours
NICENESS = 5  # by which children stand back behind the server, so that the page stays quick


class Child(Protocol):
    """A process at work on a run."""

    def poll(self) -> int | None:
        """Return its exit status; None while it is at work."""

    def terminate(self) -> None:
        """Ask it to stop and to keep what it has; `simile` takes SIGTERM as Ctrl-C.

        Not SIGINT: a server in the background of a shell ignores that, and so do its children.
        """

    def kill(self) -> None:
        """End it at once."""


def start(job: Job, folder: Path, max_memory: float | None) -> Child:
    """Begin a run, or go on with it: the folder holds its config and, where it was begun, its checkpoints."""
    verb = ["train", "--resume", str(folder)]
    if job.kind == "compare":
        verb = ["compare", "--config", str(folder / CONFIG), "--out", str(folder)]
    lock = locks.acquire(folder / LOCK)
    if lock is None:
        raise OSError("another process is at work in the folder of this run")
    try:
        with (folder / LOG).open("wb") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", "simile", *verb],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd=folder,
                start_new_session=True,  # Ctrl-C in the server's terminal is the server's to pass on
                pass_fds=(lock,) if os.name == "posix" else (),
            )
        os.write(lock, f"{child.pid}\n".encode())  # for the next server, should this one die
    finally:
        os.close(lock)  # now the child alone holds it
    memory.confine(child.pid, memory.read_limit(max_memory))
    if hasattr(os, "setpriority"):
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, child.pid, NICENESS)
    return child


def find_left_over(folder: Path) -> Child | None:
    """Return the child of a server that died, if it is still at work."""
    if not locks.is_held(folder / LOCK):
        return None
    pid = (folder / LOCK).read_text("ascii", "replace").partition("\n")[0]
    return _LeftOver(int(pid), folder / LOCK) if pid.isdecimal() and int(pid) > 1 else None


@dataclass(frozen=True)
class _LeftOver:
    pid: int
    lock: Path

    def poll(self) -> int | None:
        return None if locks.is_held(self.lock) else UNKNOWN

    def terminate(self) -> None:
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        self._send(getattr(signal, "SIGKILL", signal.SIGTERM))

    def _send(self, number: int) -> None:
        if self.poll() is None:  # the lock tells that the id is still that of our child
            with contextlib.suppress(OSError):
                os.kill(self.pid, number)
