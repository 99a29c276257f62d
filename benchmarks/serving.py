"""Measure `simile serve`: `python benchmarks/serving.py`, two minutes on two quiet cores.

A server with a policy of 100 trees runs in a process of its own, on one core where there are two; frames come from
this process, on another core, at 60 a second and stream, their phases spread evenly. Printed are percentiles of the
time from a frame to its action, in milliseconds: from when the frame was written, and from when it was due, which
leaves nothing out when the generator or the server falls behind. The kernel is `Predictor.step` in this process, in
the same run. Lost frames are those that the server dropped and told. CPU time is that of the server, as a share and
for each answer, and that of the generator: at the end of its core it measures itself. `--quick` takes seconds and few
streams: no figure to judge by.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import uvloop
from load import generator
from load.echo import echoing
from load.percentiles import COLUMNS, milliseconds, table
from load.policies import RATE, contexts, saved
from load.servers import Server, cores

from simile.online import Predictor

GOAL = 5.0  # milliseconds at p99, from when a frame was due


def main() -> None:
    """Measure streams on connections of their own and over twenty, and one stream beside the kernel."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 100, 500, 1000], help="how many at a time")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each measurement")
    parser.add_argument("--kind", choices=["msgpack", "json"], default="msgpack", help="how messages are written")
    parser.add_argument("--quick", action="store_true", help="few trees and streams, seconds")
    options = parser.parse_args()
    n_trees, streams, seconds = (10, [1, 20], 1.0) if options.quick else (100, options.streams, float(options.seconds))
    server_core, own_core = cores()
    with tempfile.TemporaryDirectory() as folder:
        policy = saved(Path(folder, "policy.simile"), n_trees)
        if own_core is not None:
            os.sched_setaffinity(0, {own_core})
        arguments = ["--max-streams", str(max(streams)), "--max-connections", str(max(streams) + 8), "--no-watch"]
        server = Server(Path(folder, "policy.simile"), arguments, core=server_core)
        try:
            print(
                f"{n_trees} trees, {options.kind}, {RATE:g} Hz; server on core {server_core}, load on core {own_core}"
            )
            measure(server, streams, seconds, options.kind)
            compare(server, policy, 2.0 if options.quick else seconds, options.kind, server_core)
        finally:
            server.stop()


def measure(server: Server, streams: list[int], seconds: float, kind: str) -> None:
    """Print percentiles for growing numbers of streams."""
    rows, best = [], 0
    for n in streams:
        for lines, how in ((0, "own"), (min(20, n), f"{min(20, n)}")):
            used, own = cpu_seconds(server.pid), time.process_time()
            found = uvloop.run(generator.drive(server.url, n, seconds, rate=RATE, lines=lines, kind=kind))
            used, own, wall = cpu_seconds(server.pid) - used, time.process_time() - own, seconds + 1.0
            for since, values in (("written", found.from_write), ("due", found.from_due)):
                rows.append([f"{n:,}", how, since, *milliseconds(values)])
            rows[-1] += [f"{found.lost:,}", f"{found.unanswered - found.lost:,}"]
            rows[-1] += [f"{used / wall:.0%}", f"{1e6 * used / max(found.answered, 1):.0f}", f"{own / wall:.0%}"]
            rows[-2] += [""] * 5
            at_p99 = rows[-1][3 + COLUMNS.index("p99")]
            if at_p99 != "-" and float(at_p99) < GOAL and not found.unanswered:
                best = max(best, n)
    columns = ("streams", "lines", "since", *COLUMNS, "lost", "untold", "server CPU", "us/frame", "load CPU")
    print(table("From a frame to its action, milliseconds", columns, rows))
    print(f"\nmost streams at {RATE:g} Hz with p99 under {GOAL:g} ms, from when frames were due: {best:,}")


def compare(server: Server, policy: Any, seconds: float, kind: str, core: int | None) -> None:
    """Print what the server adds to the kernel for one stream, beside an echo: medians of runs that take turns."""
    served, echoed, alone = [], [], []
    with echoing(core) as echo:
        for _ in range(3):
            alone += kernel(policy)
            for url, found in ((echo, echoed), (server.url, served)):
                found += uvloop.run(generator.drive(url, 1, seconds / 3.0, rate=RATE, kind=kind, warm=0.5)).from_write
    rows = [
        ["Predictor.step", *milliseconds(alone)],
        ["an echo, without a policy", *milliseconds(echoed)],
        ["the server", *milliseconds(served)],
    ]
    print(table("One stream, milliseconds", ("", *COLUMNS), rows))
    print(f"\nadded to the kernel at p50: {1e3 * (median(served) - median(alone)):.3f} ms")


def kernel(policy: Any) -> list[float]:
    """Time single steps of a predictor in this process."""
    predictor, found = Predictor(policy), []
    for row in contexts():
        begin = time.perf_counter()
        predictor.step(row)
        found.append(time.perf_counter() - begin)
    return found[100:]


def cpu_seconds(pid: int) -> float:
    """Return how much CPU time a process has used."""
    import psutil

    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    main()
