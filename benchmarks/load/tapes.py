"""Tapes: what callers heard during a soak, to be found again in what the server recorded."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

LAST = 1.5  # seconds before a kill of which frames may be missing: one, and what answers take


class Tape:
    """Keeps a fingerprint of every action that was heard, and when."""

    def __init__(self) -> None:
        self.heard, self.times = array("q"), array("d")
        self.kills: list[float] = []
        self.lost = 0.0  # frames that servers which were killed had counted as lost

    def hear(self, name: str, n: int, action: Sequence[float], by: str | None) -> None:
        """Keep an action, and who acted."""
        self.heard.append(hash((name, n, tuple(action), by)))
        self.times.append(time.monotonic())

    def kill(self, lost: float) -> None:
        """Note that the server is killed now, which has counted so many frames as lost."""
        self.kills.append(time.monotonic())
        self.lost += lost

    def compare(self, folder: Path, lost: float) -> tuple[int, int, int]:
        """Return how many actions were heard, how many of them are recorded, and how many are missing uncounted.

        `lost` are those that the last server has counted.
        """
        recorded = set(_fingerprint(folder))
        heard, times = np.array(self.heard), np.array(self.times)
        there = np.array([one in recorded for one in self.heard], np.bool_)
        excused = np.zeros(len(heard), np.bool_)
        for kill in self.kills:
            excused |= (times > kill - LAST) & (times <= kill + LAST)
        missing = int(np.count_nonzero(~there & ~excused))
        return len(heard), int(np.count_nonzero(there)), max(0, missing - round(self.lost + lost))


def _fingerprint(folder: Path) -> Iterator[int]:
    for path in sorted(folder.glob("*.parquet")):
        table = pq.read_table(path)
        names = table.column_names
        actions = names[names.index("who") - 1]  # one, the last column before
        columns = (table.column(name).to_pylist() for name in ("sequence", "n", actions, "who"))
        for label, n, action, who in zip(*columns, strict=True):
            yield hash((label.partition(" ")[0], n, (action,), who))
