"""How long the default of `learn` takes, and a whole path (`make bench`): CPU seconds, all threads added."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import simile
from simile.data import tasks

TURNS = 3


def median(work: Callable[[], object]) -> float:
    """Return the median CPU time of some work in seconds."""
    seconds = []
    for _ in range(TURNS):
        begin = time.process_time()
        work()
        seconds.append(time.process_time() - begin)
    return statistics.median(seconds)


def main() -> None:
    """Measure on the built-in task."""
    demos = tasks.pursuit(n_sequences=20, length=1_000, n_players=20)
    simile.learn(demos.head(60))  # the kernels compile, or come from their cache
    print(f"{demos.n_frames:,} frames x {demos.n_contexts} contexts; median CPU seconds of {TURNS} turns\n")
    ways: dict[str, Callable[[], object]] = {
        "learn(demos)": lambda: simile.learn(demos),
        "learn(demos, smoothness=30.0)": lambda: simile.learn(demos, smoothness=30.0),
        "path(demos), 8 values": lambda: simile.path(demos),
        "paper(demos), 10 rounds": lambda: simile.paper(demos),
        "authors(demos), 10 rounds": lambda: simile.authors(demos),
    }
    first = None
    for name, work in ways.items():
        seconds = median(work)
        first = first or seconds
        print(f"{name:32}{seconds:8.1f} s{seconds / first:8.2f} x learn")


if __name__ == "__main__":
    main()
