"""What a service counts: plain numbers, for nobody must wait for them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

# Seconds; from what loopback takes to what no actuator would wait for.
EDGES = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


def _count(meaning: str) -> Any:
    return field(default=0, metadata={"help": meaning})


@dataclass
class Counts:
    """What has happened since the start.

    Every frame is answered or counted: `frames` is `answers` + `dropped` + `limited` + those that still wait.
    """

    frames: int = _count("Frames that came, whatever became of them.")
    answers: int = _count("Answers to these frames, those with an error too.")
    dropped: int = _count(
        "Frames dropped: the oldest of a full queue, or left in the queue of a stream that was closed."
    )
    limited: int = _count("Frames not taken because a stream sent more than --max-rate.")
    duplicates: int = _count("Frames whose number had come before.")
    out_of_order: int = _count("Frames whose number was below the last one's.")
    far_ahead: int = _count("Frames whose number was too far above the last one's, or above the largest.")
    late: int = _count("Frames that came after their deadline, when their action had been made without them.")
    malformed: int = _count("Messages that could not be read, or not be used as contexts or actions.")
    diverged: int = _count("Streams that left every reasonable range and began anew.")
    stages_restarted: int = _count("Times that the stages of a stream ran away, and began anew from rest.")
    failed: int = _count("Frames that the policy could not act on.")
    overrides: int = _count("Frames in which an operator acted.")
    take_overs: int = _count("Times that an operator at /operate took a stream over.")
    fell_silent: int = _count("Times that such an operator was not heard any more, and the stream was handed back.")
    missing: int = _count("Frames that never came, by their numbers.")
    bridged_missing: int = _count("Actions made for missing frames.")
    bridged_late: int = _count("Actions made and sent at a deadline.")
    unsent: int = _count("Answers that a slow reader did not get.")
    opened: int = _count("Streams that began.")
    resumed: int = _count("Streams that were continued.")
    closed: int = _count("Streams that were closed.")
    expired: int = _count("Streams that were idle for too long.")
    unrestored: int = _count("Streams of a snapshot that could not go on at the start.")
    refused: int = _count("Streams and connections that were refused.")
    throttled: int = _count("Turns in which a connection was read no further, for it had sent more than its share.")
    reloads: int = _count("Policies that were taken over while serving.")
    reload_failures: int = _count("Policy files that were refused while serving; the old policy went on.")
    snapshots: int = _count("Snapshots written.")
    tasks_restarted: int = _count("Times that something done beside answering ended, and was begun again.")
    snapshot_failures: int = _count("Snapshots that could not be written.")


HELP = {one.name: str(one.metadata["help"]) for one in fields(Counts)}  # what the counters mean, for Prometheus


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
