"""What a service does beside answering never ends unseen."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import shutil
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import servers as shared
from served import Played
from simile._common.supervision import supervise
from simile._common.web import listen
from simile.errors import ArgumentError
from simile.serving import server as servers
from simile.serving import state as states
from simile.serving.counts import Counts
from simile.serving.policy_file import load_policy
from simile.serving.service import Service
from simile.serving.state import Options, ServerState
from test_predictor import make

policies = shared.policies


def test_what_ends_is_logged_in_one_line_counted_and_begun_again(caplog: pytest.LogCaptureFixture):
    counts, begun = Counts(), []

    async def watch_something() -> None:
        begun.append(asyncio.get_running_loop().time())
        if len(begun) == 1:
            raise MemoryError("two\nlines")
        if len(begun) < 5:
            raise OverflowError("x" * 999)
        await asyncio.Event().wait()

    async def play() -> None:
        task = asyncio.create_task(supervise(watch_something, counts, first=0.001, longest=0.004))
        while len(begun) < 5:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(play())
    assert counts.tasks_restarted == 4
    first, *others = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert first.startswith("watch something has ended, and begins again in 0.001 s: MemoryError: two lines (in ")
    assert [message.split()[8] for message in others] == ["0.002", "0.004", "0.004"]  # no more often than that
    assert max(map(len, others)) < 400
    for message in (first, *others):
        assert "\n" not in message


def test_what_returns_is_begun_again_too_unless_it_may_end():
    counts, begun = Counts(), []

    async def end() -> None:
        begun.append(1)

    asyncio.run(supervise(end, counts, first=0.0, until=lambda: len(begun) > 2))
    assert (len(begun), counts.tasks_restarted) == (3, 2)


def play(policies: dict[str, Path], tmp_path: Path, act: Callable[[ServerState], Awaitable[None]]) -> ServerState:
    """Let a server's state act in a loop, beside nobody."""
    live = tmp_path / "live"
    shutil.copy(policies["served"], live)
    loaded = load_policy(live)

    async def run() -> ServerState:
        state = ServerState(Options(live, snapshots=tmp_path / "kept"), loaded, Service(loaded.policy, max_streams=3))
        await act(state)
        return state

    return asyncio.run(run())


@pytest.mark.parametrize("error", [MemoryError(), OverflowError("two\nlines"), RuntimeError("live"), OSError(5, "IO")])
@pytest.mark.parametrize("where", ["load", "prepare", "take over"])
def test_whatever_a_policy_file_does_the_next_one_is_taken(
    policies: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, where: str
):
    told: list[dict[str, Any]] = []

    def fail(*_: Any) -> Any:
        raise error

    async def act(state: ServerState) -> None:
        state.tell = lambda event, _: told.append(event)
        state.service.put(state.service.open("one"), shared_frame(state), lambda *_: None)
        state.run()
        before = state.service.policy
        shutil.copy(policies["next"], state.options.policy)
        with monkeypatch.context() as patched:
            if where == "load":
                patched.setattr(states, "load_policy", fail)
            else:
                name = "prepare" if where == "prepare" else "take_over"
                patched.setattr(state.service._switcher, name, fail)
            sentence = await state.reload()
        assert sentence is not None
        assert "\n" not in sentence
        assert str(tmp_path) not in sentence
        assert state.service.policy is before
        assert state.service.counts.reload_failures == 1
        assert await state.reload() is None
        assert state.service.policy is not before
        assert [event["kind"] for event in told] == ["reload_failed", "reloaded"]

    play(policies, tmp_path, act)


def test_a_stream_is_told_that_its_stages_began_anew(policies: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    told: list[tuple[str | None, dict[str, Any]]] = []
    monkeypatch.setattr(states, "EVENTS_EVERY", 0.001)

    async def act(state: ServerState) -> None:
        state.tell = lambda event, name: told.append((name, event))
        monkeypatch.setattr(state.service, "take_restarted", iter([["one"], []]).__next__)
        with pytest.raises((RuntimeError, StopIteration)):
            await state.tell_troubles()

    play(policies, tmp_path, act)
    assert told == [("one", {"kind": "restarted", "on": True, "reason": states.RESTARTED})]


def shared_frame(state: ServerState) -> Any:
    from simile.serving.messages import Frame

    return Frame(x=[0.0] * state.n_contexts)


def test_whatever_fails_in_a_snapshot_is_counted_and_told_once(policies: Any, tmp_path: Path):
    told: list[tuple[str, bool]] = []

    async def act(state: ServerState) -> None:
        state.tell = lambda event, _: told.append((event["kind"], event["on"]))
        take = state.service.snapshot
        state.service.snapshot = lambda: 1 / 0  # type: ignore[assignment, method-assign, return-value]
        await state.snapshot()
        await state.snapshot()
        state.service.snapshot = take  # type: ignore[method-assign]
        await state.snapshot()

    counts = play(policies, tmp_path, act).service.counts
    assert (counts.snapshot_failures, counts.snapshots) == (2, 1)
    assert told == [("snapshot_failed", True), ("snapshot_failed", False)]


@pytest.mark.parametrize(("where", "name"), [(servers._HttpServer, "main_loop"), (servers.Door, "accept")])
def test_ports_are_opened_again_where_they_were(policies: Any, monkeypatch: pytest.MonkeyPatch, where: Any, name: str):
    loaded = load_policy(policies["served"])
    service = Service(loaded.policy, max_streams=3)
    found: list[str] = []
    works = getattr(where, name)

    async def fail_first(*_: Any) -> None:
        monkeypatch.setattr(where, name, works)
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(where, name, fail_first)
    ports = [listen("127.0.0.1", 0, option="--port", way_out="") for _ in range(2)]
    monkeypatch.setattr(servers, "_listen_twice", lambda _: ports)

    def announce(streams: str, http: str | None, _: Any) -> None:
        found.extend((streams.replace("ws:", "http:"), f"{http}/health"))

    async def act() -> None:
        options = Options(policies["served"])
        serving = asyncio.create_task(servers._serve(options, loaded, service, None, announce))
        while not service.counts.tasks_restarted or not found:
            await asyncio.sleep(0.01)
        async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
            for address, status in zip(found, (400, 200), strict=True):  # the one wants a WebSocket
                assert await ask_again_and_again(client, address) == status
        os.kill(os.getpid(), signal.SIGTERM)
        await serving

    often = gc.get_threshold()
    asyncio.run(act())
    gc.unfreeze()
    gc.set_threshold(*often)
    assert service.counts.tasks_restarted == 1


async def ask_again_and_again(client: httpx.AsyncClient, address: str) -> int:
    while True:
        with contextlib.suppress(httpx.TransportError):
            return (await client.get(address)).status_code
        await asyncio.sleep(0.02)


def test_a_batch_that_fails_does_not_keep_the_next_from_being_answered(policies: Any, tmp_path: Path):
    async def act(state: ServerState) -> None:
        run, ran = state.service.run_round, []
        state.service.run = lambda: 1 / 0  # type: ignore[assignment, method-assign, return-value]
        with pytest.raises(ZeroDivisionError):
            state.run()
        state.service.run_round = lambda: ran.append(1) or run()  # type: ignore[method-assign, func-returns-value]
        state.wake()
        await asyncio.sleep(0)
        assert ran == [1]

    play(policies, tmp_path, act)


def test_a_hand_over_of_more_frames_than_anybody_waits_for_is_refused():
    with pytest.raises(ArgumentError, match=r"handover: 1e\+09 s at a rate of 20 Hz take 2e\+10 frames, and 1e\+06"):
        Played(make("forest"), handover=1e9, rate=20.0)
    with pytest.raises(ArgumentError, match=r"rate must be"):
        Played(make("forest"), rate=1.7e308)
    Played(make("forest"), handover=1.0, rate=1e6)
