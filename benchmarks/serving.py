"""Measure `simile serve`: `python benchmarks/serving.py`, five minutes on two quiet cores.

A server with a policy of 100 trees runs in a process of its own, on one core where there are two; frames come from
this process, on another core, at 60 a second and stream, their phases spread evenly. Streams have connections of their
own, or share four. Printed are percentiles of the time from a frame to its action, in milliseconds, from when the frame
was due, which leaves nothing out when the generator or the server falls behind. Beside it stands a server that only
echoes, in turn with ours: what this machine, its neighbours and the generator take alone. On a shared machine a process
is stopped for tens of milliseconds now and then, whatever it does; so beside the 99th percentile of all frames stands
that of a typical second, the median over the seconds of all runs, and how many of them stay below 5 ms. Other figures
are medians of three runs. The kernel is `Predictor.step` in this process. At the end 500 streams are served with and
without `--record`, in turn, and the same with a `--shadow`.
Lost frames are those that the server dropped and told. CPU time is that of the server, as a share and for each answer,
and that of the generator: at the end of its core it measures itself. `--quick` takes seconds and few streams: no figure
to judge by.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import uvloop
from load import generator
from load.echo import echoing
from load.percentiles import COLUMNS, milliseconds, table
from load.policies import RATE, contexts, saved
from load.servers import Server, cores

from simile.online import Predictor

GOAL = 5.0  # milliseconds at p99, from when a frame was due
LINES = 4  # connections that streams share


def main() -> None:
    """Measure streams on connections of their own and over four, and one stream beside the kernel."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 100, 500, 1000], help="how many at a time")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each run")
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
        arguments += ["--max-per-address", str(max(streams) + 8)]
        server = Server(Path(folder, "policy.simile"), arguments, core=server_core)
        try:
            print(
                f"{n_trees} trees, {options.kind}, {RATE:g} Hz; server on core {server_core}, load on core {own_core}"
            )
            measure(server, streams, seconds, options.kind, server_core, 1 if options.quick else 3)
            compare(server, policy, 2.0 if options.quick else seconds, options.kind, server_core)
        finally:
            server.stop()
        n, repeats = (20, 1) if options.quick else (500, 8)
        beside(Path(folder, "policy.simile"), arguments, n, seconds, options.kind, server_core, repeats)


def measure(server: Server, streams: list[int], seconds: float, kind: str, core: int | None, repeats: int) -> None:
    """Print percentiles for growing numbers of streams, ours and those of the echo."""
    rows, best = [], {"own": 0, "shared": 0}
    with echoing(core) as echo:
        served = {"echo": (echo.url, echo.pid), "simile": (server.url, server.pid)}
        for n in streams:
            for lines, how in ((0, "own"), (LINES, "shared")):
                runs: dict[str, list[OneRun]] = {name: [] for name in served}
                for _ in range(repeats):
                    for name, (url, pid) in served.items():
                        runs[name].append(one_run(url, pid, n, seconds, lines, kind))
                for name, found in runs.items():
                    p50, p95, p99, lost, untold, share, each, own = np.median([run.figures for run in found], axis=0)
                    seconds_p99 = [p for run in found for p in run.by_second]
                    typical, under = median(seconds_p99), np.mean(np.array(seconds_p99) < GOAL)
                    cells = [f"{p50:.2f}", f"{p95:.2f}", f"{p99:.2f}", f"{typical:.2f}", f"{under:.0%}"]
                    cells += [f"{lost:,.0f}", f"{untold:,.0f}", f"{share:.0%}", f"{each:.0f}", f"{own:.0%}"]
                    rows.append([f"{n:,}", how, name, *cells])
                    if name == "simile" and typical < GOAL and not lost + untold:
                        best[how] = max(best[how], n)
    columns = (
        "streams",
        "lines",
        "",
        "p50",
        "p95",
        "p99",
        "of a second",
        "< 5 ms",
        "lost",
        "untold",
        "CPU",
        "us/frame",
        "load",
    )
    print(table("From when a frame was due to its action, milliseconds", columns, rows))
    for how, n in best.items():
        print(f"\nmost streams at {RATE:g} Hz with p99 of a typical second under {GOAL:g} ms, {how} connections: {n:,}")


class OneRun(NamedTuple):
    """What a run showed."""

    figures: list[float]  # p50, p95, p99; lost, untold; the server's share of a core, us a frame, the load's share
    by_second: list[float]  # p99 of each second, milliseconds


def one_run(url: str, pid: int, n: int, seconds: float, lines: int, kind: str) -> OneRun:
    """Drive a server for some seconds."""
    used, own = cpu_seconds(pid), time.process_time()
    found = uvloop.run(generator.drive(url, n, seconds, rate=RATE, lines=min(lines, n), kind=kind))
    used, own, wall = cpu_seconds(pid) - used, time.process_time() - own, seconds + 1.0
    late, due = 1e3 * np.array(found.from_due), np.array(found.due)
    second = (due - due.min()).astype(int)
    by_second = [float(np.percentile(late[second == s], 99.0)) for s in range(int(seconds))]
    percentiles = np.percentile(late, [50.0, 95.0, 99.0]).tolist()
    counts = [found.lost, found.unanswered - found.lost]
    figures = [*percentiles, *counts, used / wall, 1e6 * used / max(found.answered, 1), own / wall]
    return OneRun(figures, by_second)


def compare(server: Server, policy: Any, seconds: float, kind: str, core: int | None) -> None:
    """Print what the server adds to the kernel for one stream, beside an echo: medians of runs that take turns."""
    served, echoed, alone = [], [], []
    with echoing(core) as echo:
        for _ in range(5):
            alone += kernel(policy)
            for url, found in ((echo.url, echoed), (server.url, served)):
                found += uvloop.run(generator.drive(url, 1, seconds / 2.0, rate=RATE, kind=kind, warm=0.5)).from_write
    rows = [
        ["Predictor.step", *milliseconds(alone)],
        ["an echo, without a policy", *milliseconds(echoed)],
        ["the server", *milliseconds(served)],
    ]
    print(table("One stream, milliseconds", ("", *COLUMNS), rows))
    print(f"\nadded to the kernel at p50: {1e3 * (median(served) - median(alone)):.3f} ms")


def beside(
    policy: Path, arguments: list[str], n: int, seconds: float, kind: str, core: int | None, repeats: int
) -> None:
    """Print what recording costs, and what a shadow does: servers with and without take turns."""
    ways = {
        "alone": [],
        "--record": ["--record", str(policy.with_name("recorded")), "--record-limit", "1000"],
        "--shadow": ["--shadow", str(policy)],
    }
    rows, servers = [], {}
    try:
        for name, more in ways.items():
            servers[name] = Server(policy, [*arguments, *more], core=core)
        runs: dict[str, list[OneRun]] = {name: [] for name in ways}
        for turn in range(repeats):
            for name in (*ways,) if turn % 2 else reversed((*ways,)):
                server = servers[name]
                runs[name].append(one_run(server.url, server.pid, n, seconds, LINES, kind))
        alone = median(p for run in runs["alone"] for p in run.by_second)
        for name, found in runs.items():
            p50, _, p99, lost, untold, share, each, _ = np.median([run.figures for run in found], axis=0)
            typical = median(p for run in found for p in run.by_second)
            cells = [f"{p50:.2f}", f"{p99:.2f}", f"{typical:.2f}", f"{typical - alone:+.2f}"]
            rows.append(
                [
                    name,
                    *cells,
                    f"{lost + untold:,.0f}",
                    f"{share:.0%}",
                    f"{each:.0f}",
                    f"{megabytes(servers[name].pid):.0f}",
                ]
            )
        columns = ("", "p50", "p99", "of a second", "beside alone", "lost", "CPU", "us/frame", "MB")
        print(table(f"{n} streams over {LINES} connections, milliseconds", columns, rows))
        counted = servers["--record"].metrics()
        print(f"\nrecorded: {counted['simile_recorded_total']:,.0f}, lost: {counted['simile_record_lost_total']:,.0f}")
        (shadow,) = servers["--shadow"].json("/shadows")["shadows"]
        print(f"frames of the shadow: {shadow['frames']:,}, skipped under load: {shadow['skipped']:,}")
    finally:
        for server in servers.values():
            server.stop()


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


def megabytes(pid: int) -> float:
    """Return how much memory a process has."""
    import psutil

    return float(psutil.Process(pid).memory_info().rss) / 1e6


if __name__ == "__main__":
    main()
