"""The short form of `make soak`, and that the soak would notice."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import socket
import subprocess
import sys
import weakref
from collections import deque
from collections.abc import Coroutine
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

import simile
from conftest import SEED, demos_of
from simile._common import web
from simile.data.tasks import pursuit
from simile.online import Predictor, RateLimit
from simile.serving import messages, server
from simile.serving.service import Service

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

pytestmark = pytest.mark.skipif(
    not BENCHMARKS.exists() or sys.platform != "linux", reason="needs a checkout, and Linux to fill a disk"
)

INJECTED = (
    *(
        "abrupt disconnect",
        "connections with noise",
        "disk full while snapshotting",
        "duplicated",
        "kill -9 and restart",
    ),
    *("malformed", "missing frame", "missing value", "NaN or infinity", "out of order", "slow readers", "wrong length"),
    *("policy file replaced by junk", "policy file replaced by half a policy", "policy replaced by another"),
    *("floods", "silent connections", "policy file replaced by a hostile one"),
    *("take-overs by an operator", "take-overs: handed back", "take-overs: connection dropped"),
    "take-overs: fell silent",
)


@pytest.mark.long  # each fault once takes a quarter of a minute; by itself each is in a test of serving, of some frames
def test_a_short_soak_finds_no_frame_wrong_or_lost_without_being_counted() -> None:
    options = ["--minutes", "0.5", "--streams", "20", "--trees", "10", "--seed", str(SEED)]
    command = [sys.executable, str(BENCHMARKS / "soak.py"), *options]
    found = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "wrong, or lost without being counted: 0" in found.stdout
    for fault in INJECTED:
        assert f"\n{fault} " in found.stdout, f"{fault} was not injected:\n{found.stdout}"


# Memory, which must not grow.


def test_what_hangs_in_circles_is_freed_while_a_server_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    class Circle:
        itself: Any

    async def wait() -> bool:
        circle = Circle()
        circle.itself = circle
        kept = weakref.ref(circle)
        del circle
        task = asyncio.create_task(server._collect_garbage(every=0.01))
        for _ in range(500):
            await asyncio.sleep(0.01)
            if kept() is None:
                break
        task.cancel()
        return kept() is None

    tasks = list(server._list_tasks(MagicMock(), MagicMock()))
    assert "_collect_garbage" in {getattr(task, "__name__", "") for task in tasks}
    for task in tasks:
        if isinstance(task, Coroutine):
            task.close()
    gc.disable()  # a server lets 50,000 objects pile up before Python looks by itself
    try:
        assert asyncio.run(wait())
    finally:
        gc.enable()


def test_the_system_keeps_little_for_a_connection() -> None:
    # Left to itself it keeps up to tens of megabytes for one that is read fast at first, and not for a moment then.
    with web.listen("127.0.0.1", 0, option="--port", way_out="") as listening:
        server._limit_buffers(listening)
        with socket.create_connection(listening.getsockname()):
            accepted, _ = listening.accept()
            with accepted:
                for kind in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                    assert accepted.getsockopt(socket.SOL_SOCKET, kind) <= 2 * server.SYSTEM_BUFFER  # as Linux counts


def test_memory_is_judged_after_the_first_minutes_and_its_curve_is_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import soak

    killed = [(float(t), 1, 900_000_000) for t in range(60)]
    flat = [(float(t), 2, 200_000_000 + 100_000 * min(t - 60, 600)) for t in range(60, 3600)]
    assert soak.grown(killed + flat) == (True, 0.0)  # what grew at first, or before a kill, does not count
    growing = [(float(t), 2, 200_000_000 + 10_000 * t) for t in range(60, 3600)]
    judged, growth = soak.grown(killed + growing)
    assert judged
    assert 0.10 < growth < 0.15
    assert not soak.grown(killed + flat[:60])[0]
    rows = soak.curve(killed + flat[:120])
    assert rows[0] == ("0", "900.0", "900.0", "900.0", "1")
    assert [row[0] for row in rows] == ["0", "1", "2"]
    assert rows[-1] == ("2", "206.0", "211.9", "211.9", "2")


# The twin, by which the soak judges.


@pytest.fixture
def twins(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(BENCHMARKS)
    from load import twins

    return twins


@pytest.fixture(scope="module")
def policy() -> Any:
    return simile.clone(demos_of(150, 150, rate=60.0), model=simile.SmoothForest(n_trees=3), smoothness=1.0).policy


@pytest.fixture(scope="module")
def policy_of_twenty() -> Any:
    demos = pursuit(n_sequences=4, length=300, n_players=20, rate=60.0, seed=0)
    return simile.clone(demos, model=simile.SmoothForest(n_trees=1), horizon=simile.Horizon.auto(60.0)).policy


X = np.random.default_rng(1).normal(size=(600, 2)).cumsum(axis=0).tolist()


def sent(twins: Any, n: int, **options: Any) -> Any:
    return twins.Sent(n, X[n], **options)


def test_a_twin_bridges_what_is_missing_and_a_long_gap_by_one(twins: Any, policy: Any) -> None:
    twin, predictor = twins.Twin(policy, (), None), Predictor(policy)
    assert twin.take(sent(twins, 0)).action == predictor.step(X[0]).tolist()
    for _ in range(3):
        predictor.step(None)
    assert twin.take(sent(twins, 4)).action == predictor.step(X[4]).tolist()
    predictor.step(None)
    assert twin.take(sent(twins, 100)).action == predictor.step(X[100]).tolist()
    assert twin.take(sent(twins, 101, usable=False)).action == predictor.step(None).tolist()


def test_a_twin_finds_which_unanswered_frames_were_taken_even_behind_a_limit(twins: Any, policy: Any) -> None:
    stages = (RateLimit(0.5),)  # so tight that actions alone seldom tell
    twin, server = twins.Twin(policy, stages, None), twins.Twin(policy, stages, None)
    rng = np.random.default_rng(0)
    doubtful: list[Any] = []
    for n in range(500):
        frame = sent(twins, n)
        if rng.random() < 0.03:  # not answered; every other one was taken
            doubtful.append(frame)
            if rng.random() < 0.5:
                server.take(frame)
            continue
        action = server.take(frame).action
        assert twin.follow(doubtful, frame, action).action == action
        doubtful = []


def test_a_twin_notices_an_action_that_is_wrong_in_the_last_bit(twins: Any, policy: Any) -> None:
    twin, predictor = twins.Twin(policy, (), None), Predictor(policy)
    for n in range(20):
        action = predictor.step(X[n]).tolist()
        assert twin.follow([], sent(twins, n), action).action == action
    wrong = [float(np.nextafter(predictor.step(X[20])[0], np.inf))]
    assert twin.follow([], sent(twins, 20), wrong).action != wrong


@pytest.mark.parametrize("back", [1, 7, 150, 300])
def test_a_twin_goes_back_to_a_snapshot_and_forwards_to_what_was_under_way(twins: Any, policy: Any, back: int) -> None:
    twin, predictor = twins.Twin(policy, (), None), Predictor(policy)
    for n in range(400):
        twin.take(sent(twins, n))
    for n in range(400 - back):
        predictor.step(X[n])
    assert twin.go_to(400 - back, 399 - back, [])
    under_way = [sent(twins, n) for n in range(400 - back, 400 - back + 6)]
    assert twin.go_to(400 - back + 3, under_way[4].n, under_way)
    predictor.step(under_way[0].x)  # read alone; of the next the queue kept two, and the last did not come
    predictor.step(None), predictor.step(None)
    predictor.step(under_way[3].x), predictor.step(under_way[4].x)
    predictor.step(None)
    after = sent(twins, 400 - back + 6)
    action = predictor.step(after.x).tolist()
    assert twin.follow([], after, action).action == action


def test_a_twin_says_where_the_past_is_too_long_ago(twins: Any, policy: Any) -> None:
    twin = twins.Twin(policy, (), None)
    for n in range(5):
        twin.take(sent(twins, n))
    assert not twin.go_to(8, 7, [sent(twins, 5)])


def test_a_twin_takes_an_operators_frame_with_the_contexts_that_could_be_used(twins: Any, policy: Any) -> None:
    twin, predictor = twins.Twin(policy, (), None), Predictor(policy)
    assert twin.take(sent(twins, 0)).action == predictor.step(X[0]).tolist()
    doing = twin.take(sent(twins, 1, override=[0.3]))
    assert (doing.action, doing.by) == (predictor.override([0.3], X[1]).tolist(), "operator")
    doing = twin.take(sent(twins, 2, override=[0.4], usable=False))
    assert (doing.action, doing.by) == (predictor.override([0.4]).tolist(), "operator")
    assert twin.take(sent(twins, 3)).action == predictor.step(X[3]).tolist()


# A caller, whose books must balance however late frames and answers come.


class Wire:
    """A way to a service and back on which messages are held up; its clock is the test's."""

    many = binary = slow = False

    def __init__(self, service: Any, rng: random.Random) -> None:
        self.service, self.rng, self.stream = service, rng, None
        self.now = 0.0
        self.up: deque[tuple[float, bytes]] = deque()
        self.down: deque[tuple[float, bytes]] = deque()

    def send(self, message: dict[str, Any]) -> None:
        self.hold(self.up, json.dumps(message).encode())

    def send_raw(self, data: bytes) -> None: ...

    def abort(self) -> None: ...

    def hold(self, way: deque[tuple[float, bytes]], message: bytes) -> None:
        late = self.rng.choice((0.02, 0.15, 0.3)) if self.rng.random() < 0.04 else 0.001
        way.append((max(self.now + late, way[-1][0] if way else 0.0), message))

    def serve(self) -> None:
        while self.up and self.up[0][0] <= self.now:
            frame = messages.from_json(self.up.popleft()[1])
            messages.complete(frame)
            if frame.open is not None:
                self.stream = self.service.open("s", deadline=frame.open.deadline)
                self.hold(self.down, b'{"opened": {"frames": 0, "n": null}}')
            elif frame.close is not None:
                self.service.close(self.stream)
                self.hold(self.down, b'{"closed": {"frames": %d}}' % self.stream.frames)
            elif frame.stream is None:  # else it is too large for a server
                self.service.put(self.stream, frame, lambda _, answer: self.hold(self.down, messages.to_json(answer)))
        self.service.run()
        self.service.tick(self.now)

    def hear(self, caller: Any) -> None:
        while self.down and self.down[0][0] <= self.now:
            caller.hear(json.loads(self.down.popleft()[1]))


@pytest.mark.parametrize("seed", range(40))
def test_the_books_of_a_caller_balance_however_late_frames_and_answers_come(
    monkeypatch: pytest.MonkeyPatch, policy_of_twenty: Any, seed: int
) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    from load.callers import Caller
    from load.policies import RATE
    from load.worlds import World

    stages, rng = (RateLimit(60.0),), random.Random(seed)
    wire = Wire(Service(policy_of_twenty, stages=stages, queue=8, clock=lambda: wire.now), rng)
    world = World(policy_of_twenty, stages, 1.0)
    caller = Caller(world, wire, "s", seed, deadline=0.05)
    caller.connected()
    due = asleep = 0.0
    while wire.now < 50.0:
        wire.now += 0.001
        wire.serve()
        if wire.now >= asleep:
            wire.hear(caller)
            asleep = wire.now + 0.15 if rng.random() < 0.0005 else 0.0
            while due <= wire.now < 48.0:
                due += 1.0 / RATE
                caller.turn()
        if wire.now > 49.0:
            world.ending = True
            caller.close()
    assert world.ledger.mistakes == []
    assert world.ledger.held["books that balance"] == 1
    assert world.ledger.held["answers equal to the bit"] > 2000
    assert world.ledger.lost["later than their deadline, and told"] > 100


# Operators, and what was recorded of them.


def test_a_hand_does_what_was_said_in_turn_and_nothing_after_it_was_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    from load.hands import Hand

    hand = Hand()
    for action in ([0.1], [0.2]):
        hand.say(action)
    assert not hand.act([0.1], hand.since)  # nobody was told that it is in hand
    hand.tell(True)
    assert hand.must_act(hand.since)
    assert not hand.must_act(hand.since - 1)  # it was sent before
    assert not hand.act([0.3], hand.since)
    assert hand.act([0.2], hand.since)
    assert not hand.act([0.1], hand.since)  # which came before
    before = hand.since
    hand.tell(False)
    assert hand.act([0.2], before)  # it waited meanwhile
    assert not hand.act([0.2], hand.since)
    hand.tell(None)
    assert not hand.must_act(hand.since)
    assert hand.act([0.2], hand.since)


def test_an_operator_who_was_held_up_hands_back_before_the_next_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    from load.operators import Seat
    from picows import WSMsgType

    from simile.serving.operators import LET_GO

    world, transport, frame = MagicMock(), MagicMock(), MagicMock(msg_type=WSMsgType.TEXT)
    frame.get_payload_as_bytes.return_value = json.dumps({"error": LET_GO}).encode()
    seat = Seat(world)
    seat.transport = transport
    seat.on_ws_frame(transport, frame)
    transport.send.assert_called_once_with(WSMsgType.TEXT, b'{"hand_back":true}')
    world.ledger.mistake.assert_not_called()


def test_a_tape_misses_what_is_recorded_as_somebody_elses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import pyarrow as pa
    import pyarrow.parquet as pq
    from load.tapes import Tape

    columns = {"sequence": ["one 2026"] * 2, "n": [0, 1], "pan": [0.5, 0.6], "who": ["policy", "policy"]}
    pq.write_table(pa.table(columns), tmp_path / "recording-000001.parquet")
    tape = Tape()
    tape.hear("one", 0, [0.5], "policy")
    assert tape.compare(tmp_path, 0.0) == (1, 1, 0)
    tape.hear("one", 1, [0.6], "operator")
    assert tape.compare(tmp_path, 0.0) == (2, 1, 1)


def test_a_ledger_calls_a_jump_beyond_the_limit_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    from load.ledgers import Ledger

    ledger = Ledger()
    ledger.jump(1.0, "s")
    assert ledger.mistakes == []
    ledger.jump(1.01, "s")
    assert "1.01 of the rate limit" in ledger.summary()
