"""Algorithm 1 on a Dask cluster: time, CPU and bytes of a round, by number of workers and by how forests are grown.

`python benchmarks/scaling.py` takes a few minutes; `--quick` takes a minute, to see that it works. `millions.py` has
more data than the workers have memory.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import distributed
import numpy as np
import psutil

import simile
from simile.data import tasks
from simile.learning.distributed.dask import DaskBackend


@dataclass(frozen=True)
class Size:
    """How much to measure."""

    n_files: int
    n_sequences: int  # in a file
    length: int
    memory: str  # limit of each worker
    workers: tuple[int, ...]
    n_rounds: int
    model: simile.SmoothForest
    n_contexts: int = 20
    horizon: simile.Horizon = simile.Horizon(10, 10)  # noqa: RUF009 - frozen


FULL = Size(32, 10, 1_000, "2GiB", (1, 2, 4), 2, simile.SmoothForest(n_trees=24))
QUICK = Size(4, 4, 300, "1GiB", (1, 2), 1, simile.SmoothForest(n_trees=8))


def write(folder: Path, size: Size) -> int:
    """Write files of sequences that differ; returns the bytes that their frames take in memory."""
    demos = tasks.pursuit(n_sequences=size.n_sequences, length=size.length, n_players=size.n_contexts)
    taken = 0
    for i in range(size.n_files):
        rng = np.random.default_rng(i)
        contexts = [x + rng.normal(scale=0.1, size=x.shape) for x in demos.contexts]
        names = [f"{i}-{j}" for j in range(len(demos))]
        some = simile.Demonstrations.from_arrays(contexts, demos.actions, rate=demos.rate, names=names)
        simile.write(some, folder / f"{i:03d}.parquet")
        taken += sum(x.nbytes + a.nbytes for x, a in zip(some.contexts, some.actions, strict=True))
    return taken


@dataclass(frozen=True)
class Cost:
    """What one round took."""

    seconds: float
    cpu: float  # of this process, in which the scheduler is too, and of all workers
    sent: int = 0  # by this process
    received: int = 0
    between: int = 0  # workers

    @classmethod
    def so_far(cls, backend: DaskBackend | None) -> Cost:
        """Read all clocks and counters."""
        if backend is None:
            return cls(time.monotonic(), time.process_time())
        workers = (psutil.Process(pid).cpu_times() for pid in backend.client.run(os.getpid).values())
        cpu = time.process_time() + sum(times.user + times.system for times in workers)
        moved = backend.traffic
        return cls(time.monotonic(), cpu, moved.sent, moved.received, backend.traffic_between())

    def __sub__(self, earlier: Cost) -> Cost:
        return Cost(*(a - b for a, b in zip(astuple(self), astuple(earlier), strict=True)))

    def __str__(self) -> str:
        bytes_ = zip(("sent", "received", "between workers"), (self.sent, self.received, self.between), strict=True)
        moved = "".join(f"   {name} {n / 1e6:7.2f} MB" for name, n in bytes_)
        return f"{self.seconds:6.1f} s   CPU {self.cpu:6.1f} s" + (moved if self.sent else "")


def measure(turns: Any, backend: DaskBackend | None = None) -> list[Cost]:
    """Run rounds, and print what each takes."""
    costs, before = [], Cost.so_far(backend)
    for n, _ in enumerate(turns):
        now = Cost.so_far(backend)
        costs.append(now - before)
        print(f"  round {n}: {costs[-1]}", flush=True)
        before = Cost.so_far(backend)
    return costs


def spread(data: str, size: Size, n_workers: int, *, exact: bool = True) -> Cost:
    """Run on a cluster; returns the cost of the last round."""
    with (
        distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, memory_limit=size.memory, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        backend = DaskBackend(client, exact=exact)
        begin = time.monotonic()
        demos = backend.read(data, quiet=True)
        reading = time.monotonic() - begin
        print(f"{n_workers} workers of {size.memory}, exact={exact}: {demos.n_frames:,} frames read in {reading:.1f} s")
        rounds = simile.rounds(demos, model=size.model, n_rounds=size.n_rounds, horizon=size.horizon, backend=backend)
        return measure(rounds, backend)[-1]


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    size = QUICK if given.quick else FULL
    with tempfile.TemporaryDirectory() as folder:
        taken = write(Path(folder), size)
        data = f"{folder}/*.parquet"
        print(f"{size.n_files} files, {taken / 1e6:,.0f} MB of frames in memory, {size.model!r}\n")
        here = simile.read(data, quiet=True)
        print("one process, all cores")
        alone = measure(simile.rounds(here, model=size.model, n_rounds=size.n_rounds, horizon=size.horizon))[-1]
        found = {n: spread(data, size, n) for n in size.workers}
        spread(data, size, size.workers[-1], exact=False)
    last = found[size.workers[-1]]
    print(f"\nThe last round with {size.workers[-1]} workers, exact, against one process:")
    print(f"  {last.cpu / alone.cpu:.2f} times its CPU (at most 2.5)")
    print(f"  {(last.sent + last.received) / 1e6:.1f} MB through this process (at most 10 MB)")
    print(f"  {last.between / 1e6:.1f} MB between workers")


if __name__ == "__main__":
    main()
