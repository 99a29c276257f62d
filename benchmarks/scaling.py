"""Algorithm 1 on a Dask cluster: more data than a worker has memory, bytes per round, time by number of workers.

`python benchmarks/scaling.py` takes about ten minutes and 2 GB of disk; `--quick` a minute, to see that it works.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import distributed
import numpy as np

import simile
from simile.data import tasks
from simile.learning.distributed.dask import DaskBackend

LARGE = 100_000_000  # frames, to which the costs are carried on


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
    parts: int | None = None


# More than a worker may hold: what does not fit is kept on its disk.
BEYOND = Size(48, 8, 4_000, "1GiB", (2,), 1, simile.SmoothForest(n_trees=8), 100, simile.Horizon(2, 2), parts=48)
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


def timed(turns: Any, backend: DaskBackend | None = None) -> tuple[list[float], list[Any]]:
    """Run rounds; returns the seconds and the traffic of each."""
    seconds, traffic = [], []
    begin, before = time.monotonic(), None if backend is None else backend.traffic
    for _ in turns:
        seconds.append(time.monotonic() - begin)
        if backend is not None:
            traffic.append(backend.traffic - before)
            before = backend.traffic
        begin = time.monotonic()
    return seconds, traffic


def spread(data: str, size: Size, n_workers: int, *, exact: bool) -> tuple[int, float, int]:
    """Run on a cluster and print each round; returns the frames, the seconds and the bytes of the last round."""
    with (
        distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, memory_limit=size.memory, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        backend = DaskBackend(client, exact=exact, parts=size.parts)
        begin = time.monotonic()
        demos = backend.read(data)
        reading = time.monotonic() - begin
        seconds, traffic = timed(
            simile.rounds(demos, model=size.model, n_rounds=size.n_rounds, horizon=size.horizon, backend=backend),
            backend,
        )
    print(f"{n_workers} workers of {size.memory}, exact={exact}: {demos.n_frames:,} frames read in {reading:.1f} s")
    for n, (s, t) in enumerate(zip(seconds, traffic, strict=True)):
        print(f"  round {n}: {s:7.1f} s   sent {t.sent / 1e6:8.2f} MB   received {t.received / 1e6:8.2f} MB")
    return demos.n_frames, seconds[-1], traffic[-1].sent + traffic[-1].received


def go_beyond_memory(size: Size) -> None:
    """Run on more data than the limit of a worker: what it does not hold in memory lies on its disk."""
    with tempfile.TemporaryDirectory() as folder:
        taken = write(Path(folder), size)
        print(f"{taken / 1e6:,.0f} MB of frames, more than the {size.memory} of each of {size.workers[0]} workers")
        spread(f"{folder}/*.parquet", size, size.workers[0], exact=False)
        print()


def main() -> None:
    """Measure, and carry the costs on."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    size = QUICK if parser.parse_args().quick else FULL
    if size is FULL:
        go_beyond_memory(BEYOND)
    with tempfile.TemporaryDirectory() as folder:
        taken = write(Path(folder), size)
        data = f"{folder}/*.parquet"
        print(f"{size.n_files} files, {taken / 1e6:,.0f} MB of frames in memory; wall-clock time, {size.model!r}\n")
        here = simile.read(data, quiet=True)
        seconds, _ = timed(simile.rounds(here, model=size.model, n_rounds=size.n_rounds, horizon=size.horizon))
        print(f"one process, all cores: {', '.join(f'{s:.1f}' for s in seconds)} s for rounds 0 to {size.n_rounds}")
        found = {n: spread(data, size, n, exact=False) for n in size.workers}
        frames, _, moved = spread(data, size, size.workers[-1], exact=True)
    if size is QUICK:  # the cost of so few frames is the cost of asking
        return
    alone, apart = found[1][1], found[size.workers[-1]][2]
    per_frame = alone / frames
    print(f"\nOn paper, {LARGE:,} frames, from the last round of one worker and from the bytes of the last round:")
    print(f"  {per_frame * LARGE / 3600:.1f} core hours a round: {per_frame * LARGE / 60 / 64:.1f} min on 64 workers")
    print(f"  trees where their data are: {apart / 1e6:.1f} MB a round, which grows with the trees, not the frames")
    print(f"  exact: {moved / 1e6:.1f} MB a round, which grows with the open nodes until the trees are full")


if __name__ == "__main__":
    main()
