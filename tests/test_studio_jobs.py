"""Runs of the studio are followed to their end, whatever goes wrong beside them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from simile.learning.runs import SUMMARY
from simile.studio import jobs as module
from simile.studio import server
from simile.studio.jobs import Jobs
from simile.studio.workspace import DONE, FAILED, STOPPED, Data, Job, Workspace


class Child:
    """A process at work, in name only."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.code = folder, None

    def poll(self) -> int | None:
        return self.code

    def terminate(self) -> None:
        self.code = self.code or -15

    kill = terminate

    def finish(self) -> None:
        (self.folder / SUMMARY).write_text("{}")
        self.code = 0


class Plan:
    """Two runs of which one is done at a time, and what is told of them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.children: dict[str, Child] = {}
        self.trouble: Callable[[str], Exception | None] = lambda _: None  # by what is done
        self.jobs = Jobs(Workspace.at(folder), 1, None, self.tell)
        monkeypatch.setattr(module.processes, "start", self.start)
        for name, value in (("PERIOD", 0.001), ("PATIENCE", 0.2)):
            monkeypatch.setattr(module, name, value)

    def start(self, job: Job, folder: Path, _: Any) -> Child:
        self.fail(f"start {job.id}")
        self.children[job.id] = Child(folder)
        return self.children[job.id]

    async def tell(self, key: str) -> None:
        self.fail(f"tell {key} {self.jobs.all[key].status}")

    def fail(self, what: str) -> None:
        if (error := self.trouble(what)) is not None:
            raise error

    async def add(self, key: str) -> None:
        job = Job(key, key, "train", "data", "2026-01-01T00:00:00Z")
        self.jobs.workspace.folder_of(job).mkdir()
        await self.jobs.add(job)

    def play(self, act: Callable[[], Awaitable[None]]) -> dict[str, Job]:
        async def live() -> None:
            await self.add("first")
            await self.add("second")
            await asyncio.wait_for(act(), 10.0)
            await asyncio.wait_for(self.jobs.close(), 10.0)

        asyncio.run(live())
        return self.jobs.all


async def until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.001)


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    return Plan(tmp_path, monkeypatch)


@pytest.mark.parametrize("when", ["tell first running", "tell first done", "start second", "tell second running"])
def test_whatever_goes_wrong_once_a_run_is_followed_to_its_end_and_the_next_begins(
    plan: Plan, caplog: pytest.LogCaptureFixture, when: str
):
    times = []

    def fail_once(what: str) -> Exception | None:
        times.extend([what] * (what == when))
        return MemoryError("no room") if what == when and len(times) == 1 else None

    async def act() -> None:
        plan.children["first"].finish()
        if when != "start second":
            await until(lambda: "second" in plan.children)
            plan.children["second"].finish()
        await until(lambda: plan.jobs.all["second"].status in (DONE, FAILED))

    plan.trouble = fail_once
    found = plan.play(act)
    assert found["first"].status == DONE
    if when == "start second":  # which is told to who asked for it
        assert (found["second"].status, found["second"].error) == (FAILED, "it cannot be started: no room")
        return
    assert found["second"].status == DONE
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(told) == 1
    assert told[0].startswith("follow run has ended, and begins again in 0.001 s: MemoryError: no room (in ")


def test_a_run_that_cannot_be_followed_can_be_stopped_all_the_same(plan: Plan):
    async def act() -> None:
        await plan.jobs.stop(plan.jobs.all["first"], patience=0.1)

    plan.trouble = lambda what: ZeroDivisionError() if what.endswith(STOPPED) else None
    assert plan.play(act)["first"].status == STOPPED


def test_a_look_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    async def fail(*_: Any) -> Data:
        raise OSError("the disk is full")

    monkeypatch.setattr(server.Studio, "look", fail)
    data = Data("a", "games.csv", "table", ["games.csv"], 0)
    app = server.build_app(Workspace.at(tmp_path), token="t" * 40, hosts=frozenset(), cookie="c", given=[data])

    async def live() -> None:
        async with app.router.lifespan_context(app):
            await asyncio.sleep(0.01)

    asyncio.run(live())
    assert "games.csv was not looked into: OSError: the disk is full" in caplog.text
