"""Trainings and comparisons, some at a time; others wait in order. What was cut short is taken up at the next start."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from simile._common.supervision import supervise
from simile.errors import StorageError
from simile.learning.runs import COMPARISON, SUMMARY
from simile.studio import processes
from simile.studio.processes import LOG, UNKNOWN, Child
from simile.studio.run_view import read_last_line, read_stamps
from simile.studio.workspace import DONE, FAILED, RUNNING, STOPPED, UNFINISHED, WAITING, Job, Workspace

INTERRUPTED = 130  # exit status of a command that was stopped and has kept its work
PERIOD = 0.2  # seconds between looks at what a child has written
PATIENCE = 15.0  # seconds in which a child that is told to stop may keep its work

Changed = Callable[[str], Awaitable[None]]


class Jobs:
    """All runs of a workspace, and the children that do them.

    Parameters
    ----------
    workspace : Workspace
    most : int
        Children at a time.
    max_memory : float, optional
        MB that a child may take; a half of the machine's by default.
    changed : callable
        Awaited with the id of a run whenever it, or what its folder holds, has changed.
    """

    def __init__(self, workspace: Workspace, most: int, max_memory: float | None, changed: Changed) -> None:
        self.workspace = workspace
        self.all: dict[str, Job] = {job.id: job for job in workspace.jobs()}
        self._most = most
        self._max_memory = max_memory
        self._changed = changed
        self._children: dict[str, Child] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stopping: set[str] = set()
        self._closing = False

    async def begin(self) -> None:
        """Take up what was under way when the last server ended."""
        for job in [job for job in self.all.values() if job.status in UNFINISHED]:
            child = processes.find_left_over(self.workspace.folder_of(job))
            if child is None:
                await self._keep(replace(job, status=WAITING))
            else:
                self._follow_in_task(job, child)
        await self._start_waiting()

    async def add(self, job: Job) -> None:
        """Queue a run whose folder holds its config."""
        await self._keep(job)
        await self._start_waiting()

    async def resume(self, job: Job) -> None:
        """Queue a run again that was stopped or has failed."""
        if job.status in (STOPPED, FAILED):
            await self.add(replace(job, status=WAITING, error=None))

    async def stop(self, job: Job, *, patience: float = PATIENCE) -> None:
        """Stop a run and wait until it has ended; the best policy so far is kept, if there is patience."""
        task, child = self._tasks.get(job.id), self._children.get(job.id)
        if task is None or child is None:
            if job.status in UNFINISHED:
                await self._keep(replace(job, status=STOPPED))
            return
        self._stopping.add(job.id)
        await _end(task, child, patience)

    async def remove(self, job: Job) -> None:
        """Stop a run, at once, and delete its folder."""
        await self.stop(job, patience=0.0)
        self.all.pop(job.id, None)
        self.workspace.forget(job)

    async def close(self) -> None:
        """Interrupt all children; what they were at is taken up by the next server."""
        self._closing = True
        await asyncio.gather(*(_end(task, self._children[i], PATIENCE) for i, task in list(self._tasks.items())))

    async def _start_waiting(self) -> None:
        """Start what waits, as far as there is room."""
        for key in list(self.all):
            if self._closing or len(self._tasks) >= self._most:
                return
            job = self.all.get(key)
            if job is not None and job.status == WAITING and key not in self._tasks:
                try:
                    child = processes.start(job, self.workspace.folder_of(job), self._max_memory)
                    self._follow_in_task(replace(job, status=RUNNING), child)
                except Exception as error:  # it is told to who asked for it, and the others have their turn
                    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
                    await self._keep(replace(job, status=FAILED, error=f"it cannot be started: {reason}"))

    def _follow_in_task(self, job: Job, child: Child) -> None:
        begun, is_told = time.monotonic() - job.seconds, False

        async def follow_run() -> None:
            nonlocal is_told
            if self._children.get(job.id) is child:  # else it has ended, and that could not be told
                await self._follow(job, child, begun)
            if job.id in self.all:
                await self._keep(self.all[job.id])
            await self._start_waiting()
            is_told = True

        self._children[job.id] = child
        self._tasks[job.id] = asyncio.create_task(supervise(follow_run, first=PERIOD, until=lambda: is_told))

    async def _follow(self, job: Job, child: Child, begun: float) -> None:
        """Watch a child until it ends, and tell what it writes."""
        folder, seen = self.workspace.folder_of(job), None
        await self._keep(job)
        while (code := child.poll()) is None:
            if (now := read_stamps(folder)) != seen:
                seen = now
                self.all[job.id] = replace(self.all[job.id], seconds=time.monotonic() - begun)
                await self._changed(job.id)
            await asyncio.sleep(PERIOD)
        self.all[job.id] = replace(self._outcome(job, code, folder), seconds=time.monotonic() - begun)
        del self._tasks[job.id], self._children[job.id]
        self._stopping.discard(job.id)

    def _outcome(self, job: Job, code: int, folder: Path) -> Job:
        """Tell from its exit status and its folder how a run ended."""
        there = (folder / (COMPARISON if job.kind == "compare" else SUMMARY)).exists()
        if there and code in (0, UNKNOWN):
            return replace(job, status=DONE, error=None)
        if job.id in self._stopping or (code == INTERRUPTED and not self._closing):
            return replace(job, status=STOPPED)
        if self._closing or code == UNKNOWN:
            return replace(job, status=WAITING)
        why = read_last_line(folder / LOG) if code > 0 else f"it was ended by signal {-code}: is there enough memory?"
        return replace(job, status=FAILED, error=why or f"it ended with status {code}")

    async def _keep(self, job: Job) -> None:
        self.all[job.id] = job
        with suppress(StorageError):  # on a full disk a run goes on; after a restart it may be done again
            self.workspace.keep(job)
        await self._changed(job.id)


async def _end(task: asyncio.Task[None], child: Child, patience: float) -> None:
    """Ask a child to stop, insist when patience is at its end, and wait for its task."""
    if patience > 0.0:
        child.terminate()
        await asyncio.wait([task], timeout=patience)
    if not task.done():
        child.kill()
    await asyncio.wait([task], timeout=PATIENCE)  # no longer, should it not be able to tell what it has to
