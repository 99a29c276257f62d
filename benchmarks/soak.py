"""Let `simile serve` run under load while everything goes wrong: `python benchmarks/soak.py`, twenty minutes.

A server in a process of its own serves 50 streams at 60 Hz, on connections of their own and several over one, in JSON
and msgpack. A seeded schedule injects malformed, oversized, out of order, duplicated and missing frames, NaN, slow
readers, abrupt disconnects, noise instead of HTTP, floods, silent connections, kill -9 and restart, a full disk while
snapshotting and recording (RLIMIT_FSIZE of the running server), and policy files replaced by junk, by half a policy, by
hostile ones and by another policy, which is also a shadow. Through all of it operators take streams over by their seats
(`/operate/NAME`), act, and hand back, fall silent, or are gone without a word. Every answer is compared with a
`Predictor` of its own, to the bit, across disconnects and restarts too; while one policy hands over to another, with
the actuator's rate limit. Who acted is what the answer says, where only the server can know it. Every frame must be
answered, or told to be lost; every action that was heard must be in the recording, as that of who acted, or counted as
lost there, but for the last second before a kill; and the server's memory must not grow. The exit status is 1 if one
was wrong or lost without being counted. Linux only: the full disk needs prlimit.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil
import uvloop
from load.callers import Caller
from load.fuzzing import Fuzzer
from load.lines import Line
from load.operators import Operator
from load.percentiles import COLUMNS, milliseconds, table
from load.policies import RATE, contexts, saved
from load.servers import Server
from load.trials import Trials, copied
from load.twins import QUEUE
from load.worlds import World

from simile.online import Predictor, RateLimit

MALFORMED_A_MINUTE = 10_500  # 200,000 in twenty minutes, restarts aside
FUZZERS = 8  # connections for these: one alone would send more than its share, and be read no further
OPERATORS = 4
KILLS_UNTIL, KILLS_MOST = 0.4, 300.0  # of the whole time, and seconds; the rest shows whether memory grows
MOST_GROWTH = 0.02
LONG_ENOUGH = 120.0  # seconds of one process after which its growth is judged
WARM_UP = 600.0  # of its seconds that are not, at most


def main() -> None:
    """Run it, print the books, and leave with their verdict."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=20.0, help="how long")
    parser.add_argument("--streams", type=int, default=50, help="how many; at least 10")
    parser.add_argument("--trees", type=int, default=100, help="of the policy")
    parser.add_argument("--seed", type=int, default=0, help="of the faults")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(uvloop.run(soak(Path(folder), options)))


async def soak(folder: Path, options: argparse.Namespace) -> int:
    """Return the exit status."""
    policies = [
        (folder / f"{name}.simile", saved(folder / f"{name}.simile", options.trees, seed=i))
        for i, name in enumerate("ab")
    ]
    limit = limit_of([policy for _, policy in policies])
    served = copied(policies[0][0], folder / "policy.simile")
    arguments = [
        *("--stage", f"RateLimit({limit})", "--snapshots", str(folder / "streams.safetensors")),
        *("--max-per-address", "1024"),  # all come from here
        *("--record", str(folder / "recorded"), "--shadow", str(policies[1][0])),
        *("--snapshot-every", "1", "--max-streams", str(options.streams + FUZZERS + 5), "--queue", str(QUEUE)),
    ]
    server = Server(served, arguments)
    world = World(policies[0][1], (RateLimit(limit),), limit / RATE)
    lines, callers, slow = called(world, server.url, options)
    fuzzers = [Fuzzer(world, f"{server.url}/fuzz-{i}", options.seed + i) for i in range(FUZZERS)]
    operators = operate(world, server.url, callers, slow, options)
    trials = Trials(server, world, served, policies, lines, callers, slow)
    memory: list[tuple[float, int, int]] = []
    begin, seconds = time.monotonic(), 60.0 * options.minutes
    tasks = [
        *(asyncio.create_task(line.keep()) for line in lines),
        asyncio.create_task(pace(callers)),
        *(asyncio.create_task(fuzzer.run(MALFORMED_A_MINUTE / 60.0 / FUZZERS)) for fuzzer in fuzzers),
        *(asyncio.create_task(operator.run()) for operator in operators),
        asyncio.create_task(sample(server, memory)),
    ]
    try:
        await direct(trials, begin + seconds)
        await finish(world, callers)
        counted = await asyncio.to_thread(server.metrics)
        shadows = (await asyncio.to_thread(server.json, "/shadows"))["shadows"]
        for fuzzer in fuzzers:
            fuzzer.check()
    except OSError as error:  # a server that does not answer: say what it said last, instead of where we noticed
        world.ledger.mistake(f"the server could not be asked: {error}; it said last:\n{server.tail}")
        counted, shadows = {}, []
    finally:
        for task in tasks:
            task.cancel()
        status = await asyncio.to_thread(server.stop)
    for task in tasks:
        if task.done() and not task.cancelled() and task.exception() is not None:
            world.ledger.mistake(f"the soak itself: {task.exception()!r}")
    if status != 0:
        world.ledger.mistake(f"the server left with status {status} when it was asked to end: {server.tail}")
    check_recording(world, folder / "recorded", counted)
    check_shadows(world, shadows)
    report(world, fuzzers, counted, memory, time.monotonic() - begin)
    return 1 if world.ledger.mistakes else 0


def check_recording(world: World, folder: Path, counted: dict[str, float]) -> None:
    """See that what was heard is recorded, or was counted as lost."""
    heard, recorded, missing = world.tape.compare(folder, counted.get("simile_record_lost_total", 0.0))
    world.ledger.held["actions heard that are in the recording"] = recorded
    world.ledger.lost["not recorded, and counted, or in the last second before a kill"] = heard - recorded - missing
    if missing:
        world.ledger.mistake(f"{missing:,} of {heard:,} actions are not in the recording, and were not counted")


def check_shadows(world: World, shadows: list[dict[str, Any]]) -> None:
    """See that the shadows acted, or told that they did not."""
    for shadow in shadows:
        world.ledger.held["frames of shadows"] += shadow["frames"]
        world.ledger.lost["skipped by shadows under load, and counted"] += shadow["skipped"]
        if shadow["failed"] or not shadow["frames"]:
            world.ledger.mistake(
                f"the shadow {shadow['name']} acted in {shadow['frames']} frames, failed in {shadow['failed']}"
            )


def called(world: World, url: str, options: argparse.Namespace) -> tuple[list[Line], list[Caller], list[Caller]]:
    """Make callers: two fifths of them four to a line, three slow at times, some with a deadline."""
    lines: list[Line] = []
    callers: list[Caller] = []
    shared = 2 * options.streams // 5
    for i in range(options.streams):
        name, many, slow = f"stream-{i}", i < shared, i >= options.streams - 3
        if not many or i % 4 == 0:
            own = {"many": many, "binary": len(lines) % 2 == 0 and not slow, "slow": slow}
            lines.append(Line(world, url if many else f"{url}/{name}", **own))
        deadline = 0.05 if i % 10 == 9 and not slow else 0.0
        caller = Caller(world, lines[-1], name, 1000 * options.seed + i, deadline=deadline)
        lines[-1].callers[name] = caller
        callers.append(caller)
    return lines, callers, callers[-3:]


def operate(
    world: World, url: str, callers: list[Caller], slow: list[Caller], options: argparse.Namespace
) -> list[Operator]:
    """Make operators, each with streams of their own to take over."""
    free = [caller for caller in callers if not caller.deadline and caller not in slow]
    seats = url.removesuffix("/streams") + "/operate"
    return [Operator(world, seats, free[i::OPERATORS], options.seed + i) for i in range(OPERATORS)]


async def pace(callers: list[Caller]) -> None:
    """Let every caller have its turn at the rate, their phases spread evenly."""
    step, due = 1.0 / (RATE * len(callers)), time.perf_counter()
    while True:
        for caller in callers:
            due += step
            if due - time.perf_counter() > 0.001:
                await asyncio.sleep(due - time.perf_counter())
            caller.turn()
        if time.perf_counter() - due > 1.0:  # this process was stopped for a while: nobody can make up for that
            due = time.perf_counter()
        await asyncio.sleep(0)


async def direct(trials: Trials, end: float) -> None:
    """Do one trial after the other until the time is up; kill only early, so that memory can be watched later."""
    begin = time.monotonic()
    await asyncio.sleep(2.0)
    program: list[Callable[[], Awaitable[None]]] = [
        *(trials.replace_by_junk, trials.replace_by_another, trials.kill, trials.fill_disk),
        *(trials.read_slowly, trials.make_noise, trials.flood, trials.stay_silent, trials.replace_by_hostile),
    ]
    while True:
        for trial in program:
            early = time.monotonic() < begin + min(KILLS_UNTIL * (end - begin), KILLS_MOST)
            if trial == trials.kill and not early and trials.world.ledger.injected["kill -9 and restart"]:
                continue
            await trial()
            await trials.rest()
        left = end - time.monotonic()
        if left < 25.0:
            await asyncio.sleep(max(left - 3.0, 0.0))
            return


async def finish(world: World, callers: list[Caller]) -> None:
    """End every stream and balance its books."""
    world.calm = True
    await asyncio.sleep(2.0)
    world.ending = True
    for caller in callers:
        if not caller.ready:
            world.ledger.mistake(f"{caller.name} was not open at the end")
        caller.close()
    await asyncio.sleep(1.0)
    for caller in callers:
        if caller.closing:
            world.ledger.mistake(f"{caller.name} was not closed")


async def sample(server: Server, memory: list[tuple[float, int, int]]) -> None:
    """Note the memory of the server twice a second."""
    while True:
        try:
            process = psutil.Process(server.pid)
            memory.append((time.monotonic(), process.pid, process.memory_info().rss))
        except psutil.Error:
            pass  # it was killed just now
        await asyncio.sleep(0.5)


def report(
    world: World, fuzzers: list[Fuzzer], counted: dict[str, float], memory: list[tuple[float, int, int]], seconds: float
) -> None:
    """Print the books."""
    ledger = world.ledger
    ledger.injected["malformed messages, tried by the fuzzer"] = sum(f.sent for f in fuzzers)
    print(f"{seconds:.0f} s of soak, {ledger.held['answers equal to the bit']:,} answers equal to the bit")
    judged, growth = grown(memory)
    if judged and growth > MOST_GROWTH:
        ledger.mistake(f"the server's memory grew by {growth:.1%}")
    print(ledger.summary())
    print(table("Latency with all this, milliseconds", ("", *COLUMNS), [["answers", *milliseconds(ledger.latencies)]]))
    print(table("Counted by the server since its last start", ("", "count"), _counters(counted)))
    print(f"\nlargest step, as a share of the actuator's rate limit: {ledger.largest_jump:.3f}")
    print(table("Memory of the server, MB", ("minute", "from", "to", "most", "process"), curve(memory)))
    print(f"\nmemory of the server: {growth:+.1%}" + ("" if judged else " (too short to judge)"))
    print(f"wrong, or lost without being counted: {len(ledger.mistakes)}")


def curve(memory: list[tuple[float, int, int]]) -> list[tuple[str, ...]]:
    """Lay out the server's memory minute by minute: at its begin, at its end, and the most; processes are numbered."""
    numbers = {pid: i + 1 for i, pid in enumerate(dict.fromkeys(pid for _, pid, _ in memory))}
    minutes: dict[tuple[int, int], list[int]] = {}
    for when, pid, size in memory:
        minutes.setdefault((int((when - memory[0][0]) // 60.0), pid), []).append(size)
    return [
        (f"{minute}", *(f"{size / 1e6:.1f}" for size in (sizes[0], sizes[-1], max(sizes))), f"{numbers[pid]}")
        for (minute, pid), sizes in minutes.items()
    ]


def grown(memory: list[tuple[float, int, int]]) -> tuple[bool, float]:
    """Return whether the last process ran for long enough to judge its growth, and the growth after its first minutes.

    These are ten, or a third of a shorter run: caches fill, and the heap takes its shape.
    """
    last = [(when, size) for when, pid, size in memory if pid == memory[-1][1]]
    ran = last[-1][0] - last[0][0]
    warm = [size for when, size in last if when >= last[0][0] + min(WARM_UP, ran / 3.0)]
    tenth = max(1, len(warm) // 10)
    return ran >= LONG_ENOUGH, median(warm[-tenth:]) / median(warm[:tenth]) - 1.0


def limit_of(policies: list[Any]) -> float:
    """Return a rate limit, in units a second, that ordinary actions reach at times."""
    fastest = 0.0
    for policy in policies:
        predictor = Predictor(policy)
        actions = np.array([predictor.step(row) for row in contexts()])
        fastest = max(fastest, float(np.quantile(np.abs(np.diff(actions, axis=0)), 0.995)))
    return round(1.2 * fastest * RATE, 3)


def _counters(counted: dict[str, float]) -> list[tuple[str, str]]:
    return [
        (name.removeprefix("simile_").removesuffix("_total").replace("_", " "), f"{value:,.0f}")
        for name, value in counted.items()
        if name.startswith("simile_") and name.endswith("_total")
    ]


if __name__ == "__main__":
    main()
