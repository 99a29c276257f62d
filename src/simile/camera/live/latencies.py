"""How long every stage takes, from a frame to what was sent."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping

import numpy as np

KEPT = 100_000  # frames, about an hour
STAGES = ("decode", "wait", "detect", "locate", "act", "keep", "send", "total")


class Latencies:
    """The seconds that each stage took, of the latest hour.

    >>> latencies = Latencies()
    >>> for t in range(1, 100):
    ...     latencies.note({"detect": 0.001 * t, "total": 0.0015 * t})
    >>> print(latencies.table())
    ms         median      p95      p99     most
    detect      50.00    94.10    98.02    99.00
    total       75.00   141.15   147.03   148.50
    """

    def __init__(self) -> None:
        self._seconds: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=KEPT))

    def note(self, seconds: Mapping[str, float]) -> None:
        """Note the stages of one frame."""
        for stage, spent in seconds.items():
            self._seconds[stage].append(spent)

    def summary(self) -> dict[str, dict[str, float]]:
        """Return median, p95, p99 and most of every stage, in milliseconds."""
        columns = ("median", "p95", "p99", "most")
        found = {}
        for stage in sorted(self._seconds, key=STAGES.index):
            values = 1e3 * np.percentile(np.array(self._seconds[stage]), (50.0, 95.0, 99.0, 100.0))
            found[stage] = dict(zip(columns, values.tolist(), strict=True))
        return found

    def table(self) -> str:
        """Return a line for each stage."""
        lines = [f"{'ms':<8}{'median':>9}{'p95':>9}{'p99':>9}{'most':>9}"]
        for stage, values in self.summary().items():
            lines.append(f"{stage:<8}" + "".join(f"{value:9.2f}" for value in values.values()))
        return "\n".join(lines)

    def line(self, last: int) -> str:
        """Return the medians of the last frames in a few words."""
        medians = {stage: 1e3 * float(np.median(list(spent)[-last:])) for stage, spent in self._seconds.items()}
        return ", ".join(f"{stage} {medians[stage]:.0f}" for stage in STAGES if stage in medians) + " ms"
