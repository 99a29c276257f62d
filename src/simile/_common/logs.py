"""The log of a server that strangers can reach: a line for a record, and few records from one line of code."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TextIO

from simile._common.text import escape

MOST, EVERY = 10, 60.0  # records of one kind in so many seconds


class CalmHandler(logging.StreamHandler[TextIO]):
    """Writes each record on one line, its traceback too, and of many of the same kind the first few.

    Parameters
    ----------
    stream : text file, optional
        Where to; stderr.
    most, every : int and float
        Records of one kind in so many seconds; how many were left out is told with the next one.
    clock : callable
        Seconds, from any beginning.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        most: int = MOST,
        every: float = EVERY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(stream)
        self.most, self.every, self.clock = most, every, clock
        self._seen: dict[tuple[str, int], tuple[float, int]] = {}  # when a kind was first told, and how many came

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or count it."""
        kind, now = (record.pathname, record.lineno), self.clock()
        first, came = self._seen.get(kind, (now, 0))
        left_out = 0
        if now - first >= self.every:
            first, came, left_out = now, 0, max(0, came - self.most)
        self._seen[kind] = (first, came + 1)
        if came < self.most:
            record.left_out = left_out
            super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        """Write a record as one line, in which nothing can pass for another, or steer a terminal."""
        left_out = getattr(record, "left_out", 0)
        try:
            text = super().format(record)
        except Exception:  # of a library that logs what is no traceback, for example
            text = f"simile: {record.msg}"
        return escape(text) + (f" (and {left_out:,} more like it before)" if left_out else "")


def calm() -> None:
    """Let what is worth a warning be logged by a `CalmHandler`, unless this program's log is configured already."""
    logging.basicConfig(format="simile: %(message)s", level=logging.WARNING, handlers=[CalmHandler()])
