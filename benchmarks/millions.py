"""`learn` on more frames than the workers of a cluster have memory for: what each stage takes, and how that grows.

`python benchmarks/millions.py` has `write_frames.py` write a million frames of 20 contexts, then 20 million, and learns
from each on a cluster of processes on this machine: a scheduler, two workers of 1.5 GiB, and a client of its own. In
the larger run a worker is killed while the forest grows. It takes most of an hour and 15 GB of disk;
`--frames 100_000 200_000 --memory 1GiB` shows in a few minutes that it works.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import distributed
import psutil
from scaling import Cost

import simile
from simile.learning.distributed.dask import DaskBackend
from simile.learning.problem import Fitted

BILLION = 1_000_000_000
CONTEXTS = 20
WRITE = Path(__file__).with_name("write_frames.py")


@contextmanager
def start_cluster(workers: int, memory: str, folder: Path) -> Iterator[DaskBackend]:
    """Start a scheduler and workers as processes of their own, as on a cluster."""
    shared = ["--no-dashboard", "--scheduler-file", str(folder / "scheduler.json")]
    scheduler = ["scheduler", "--port", "0", *shared]
    worker = ["worker", "--nthreads", "1", "--memory-limit", memory, "--local-directory", str(folder), *shared]
    started: list[subprocess.Popen[bytes]] = []
    with (folder / "dask.log").open("wb") as log:
        try:
            for command in (scheduler, *[worker] * workers):
                process = subprocess.Popen([sys.executable, "-m", "dask", *command], stdout=log, stderr=log)
                started.append(process)
            with distributed.Client(scheduler_file=str(folder / "scheduler.json"), timeout=60) as client:
                client.wait_for_workers(workers, timeout=60)
                yield DaskBackend(client)
        finally:
            for process in reversed(started):
                process.terminate()
            for process in started:
                process.wait()


@dataclass
class Meter:
    """Reads what this process and all others of the cluster spend; those that were killed are not forgotten."""

    backend: DaskBackend
    cpu: dict[int, float] = field(default_factory=dict)  # seconds of each process
    between: int = 0  # bytes that a killed worker had got
    spent: dict[str, Cost] = field(default_factory=dict)
    last: Cost = field(init=False)

    def __post_init__(self) -> None:
        threading.Thread(target=self._watch, daemon=True).start()
        self.last = self._read()

    def end(self, stage: str) -> None:
        """Book what was spent since the last stage ended."""
        now = self._read()
        self.spent[stage], self.last = now - self.last, now
        print(f"  {stage:<16} {self.spent[stage]}   client {memory_of_client():4.0f} MB", flush=True)

    def kill_worker(self) -> None:
        """Kill a worker with SIGKILL; its nanny starts another."""
        client, (address, pid) = self.backend.client, next(iter(self.backend.client.run(os.getpid).items()))
        before = self.backend.traffic_between()
        os.kill(pid, signal.SIGKILL)
        while address in client.nthreads():
            time.sleep(0.1)
        self.between += before - self.backend.traffic_between()
        print(f"  {time.monotonic() - self.last.seconds:.0f} s: a worker was killed", flush=True)

    def _read(self) -> Cost:
        self._sample()
        moved = self.backend.traffic
        between = self.backend.traffic_between() + self.between
        return Cost(time.monotonic(), sum(self.cpu.values()), moved.sent, moved.received, between)

    def _watch(self) -> None:
        while True:
            self._sample()
            time.sleep(0.5)

    def _sample(self) -> None:
        for process in (here := psutil.Process(), *here.children(recursive=True)):
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            self.cpu[process.pid] = times.user + times.system


def memory_of_client() -> float:
    """Return the most memory that this process had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def learn(frames: int, memory: str, workers: int, *, kill: bool) -> Cost:
    """Write frames, learn from them, and print what that takes; returns the sum of all but writing."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [WRITE, "--frames", str(frames), "--contexts", str(CONTEXTS), "--out", name]
        subprocess.run([sys.executable, *map(str, command)], check=True, stdout=subprocess.DEVNULL)
        taken = 8 * frames * (CONTEXTS + 1)
        print(f"\n{frames:,} frames, {taken / 1e6:,.0f} MB in memory; {workers} workers of {memory}", flush=True)
        with start_cluster(workers, memory, folder) as backend:
            meter = Meter(backend)
            demos = backend.read(f"{folder}/*.parquet", quiet=True)
            meter.end(f"{len(demos.handles)} parts")
            timer = threading.Timer(5.0 + frames / 1e5, meter.kill_worker)
            if kill:
                timer.start()

            def tell(turn: Any) -> None:
                meter.end(f"{turn.what} {turn.done}" if isinstance(turn, Fitted) else "mixture")

            run = simile.learn(demos, backend=backend, watch=tell)
            timer.cancel()
            run.policy.save(folder / "policy.safetensors")
            size = (folder / "policy.safetensors").stat().st_size
            rmse = math.sqrt(run.chosen.validation_error)
            print(f"  policy of {size / 1e6:.0f} MB; RMSE on sequences left out {rmse:.3f} standard deviations")
        whole = Cost(*(sum(c) for c in zip(*(vars(cost).values() for cost in meter.spent.values()), strict=True)))
        print(f"  {'all':<16} {whole}", flush=True)
        return whole


def learn_alone(*given: Any, kill: bool) -> Cost:
    """Learn in a process of its own, so that the memory of the client is that of this run."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(learn, *given, kill=kill).result()


def main() -> None:
    """Learn from few and from many, and carry the costs on."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, nargs=2, default=(1_000_000, 20_000_000))
    parser.add_argument("--memory", default="1.5GiB", help="limit of each worker")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    few, many = given.frames
    small = learn_alone(few, given.memory, given.workers, kill=False)
    large = learn_alone(many, given.memory, given.workers, kill=True)
    times = many / few
    print(f"\nFrom {few:,} to {many:,} frames, {times:g} times as many:")
    for what, a, b in (("seconds", small.seconds, large.seconds), ("CPU", small.cpu, large.cpu)):
        print(f"  {what}: {b / a:.1f} times, exponent {math.log(b / a) / math.log(times):.2f} (at most 1.05)")

    def carry(a: float, b: float) -> float:
        return b + (b - a) * (BILLION - many) / (many - few)

    cpu, between = carry(small.cpu, large.cpu), carry(small.between, large.between)
    client = carry(small.sent + small.received, large.sent + large.received)
    print(f"\nOn paper, {BILLION:,} frames, {8 * BILLION * (CONTEXTS + 1) / 1e9:.0f} GB in memory:")
    print(f"  {cpu / 3600:.0f} core hours, {cpu / 60 / 64:.0f} min on 64 cores")
    print(f"  {client / 1e9:.1f} GB through the client, {between / 1e9:.0f} GB between workers")


if __name__ == "__main__":
    main()
