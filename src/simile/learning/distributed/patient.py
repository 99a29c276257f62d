"""What a worker on this machine runs first: Ctrl-C goes to all processes of a terminal, and ours tells it to stop."""

from __future__ import annotations

import signal
from typing import Any


def dask_setup(worker: Any) -> None:  # noqa: ARG001 - Dask calls it by this name
    """Leave Ctrl-C to the process that started the worker; nothing is done where this file is only imported."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
