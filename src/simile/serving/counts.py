"""What a service counts: plain numbers, for nobody must wait for them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

# Seconds; from what loopback takes to what no actuator would wait for.
EDGES = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


@dataclass
class Counts:
    """What has happened since the start.

    Every frame is answered or counted: `frames` is `answers` + `dropped` + `limited` + those that still wait.
    """

    frames: int = 0  # that came, whatever became of them
    answers: int = 0  # to these frames; those with an error too
    dropped: int = 0  # the oldest of a full queue, and those left in the queue of a stream that was closed
    limited: int = 0  # came faster than a stream may send
    duplicates: int = 0  # answered with an error, as are the next three
    out_of_order: int = 0
    late: int = 0  # came after their deadline, when their action had been made without them
    malformed: int = 0  # cannot be read, or not be used as contexts or actions
    diverged: int = 0  # streams that left every reasonable range, and began anew
    failed: int = 0  # frames that the policy could not act on
    overrides: int = 0
    missing: int = 0  # numbers that were left out
    bridged_missing: int = 0  # actions made for these
    bridged_late: int = 0  # actions made and sent at a deadline
    unsent: int = 0  # answers that a slow reader did not get
    opened: int = 0
    resumed: int = 0
    closed: int = 0
    expired: int = 0
    refused: int = 0
    reloads: int = 0
    reload_failures: int = 0
    snapshots: int = 0
    snapshot_failures: int = 0


@dataclass(eq=False)
class Latencies:
    """How long answers took, from the arrival of their frames: counts between `edges`, the last one of the longer."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(EDGES) + 1))
    total: float = 0.0  # seconds

    @property
    def edges(self) -> tuple[float, ...]:
        """Seconds, in order."""
        return EDGES

    def add(self, seconds: Iterable[float]) -> None:
        """Count some; often they are so few that numpy would take longer."""
        counts = self.counts
        for value in seconds:
            counts[bisect_left(EDGES, value)] += 1
            self.total += value
