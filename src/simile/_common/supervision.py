"""Supervision: what a server does beside answering never ends unseen, but is told, counted and begun again."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

FIRST, LONGEST = 0.1, 60.0  # seconds before it is begun again: twice as long each time, and at most that

log = logging.getLogger(__name__)


class Counts(Protocol):
    """Where restarts are counted."""

    tasks_restarted: int


async def supervise(
    work: Callable[[], Awaitable[None]],
    counts: Counts | None = None,
    *,
    first: float = FIRST,
    longest: float = LONGEST,
    until: Callable[[], bool] = lambda: False,
) -> None:
    """Do what is done for ever; where it ends all the same, say so, and begin it again after a while.

    Parameters
    ----------
    work : callable
        What to do; its name is told.
    counts : Counts, optional
        Where it is counted.
    first, longest : float
        Seconds to wait after the first failure, and at most. Who has worked for `longest` has not failed before.
    until : callable
        Tells whether it may end.
    """
    clock, pause = asyncio.get_running_loop().time, first
    while True:
        begun = clock()
        try:
            await work()
            reason = "it came to its end"
        except Exception as error:  # a task that is gone is worse than any mistake in it
            reason = explain(error)
        if until():
            return
        if clock() - begun > longest:
            pause = first
        if counts is not None:
            counts.tasks_restarted += 1
        name = getattr(work, "__name__", "a task").strip("_").replace("_", " ")
        log.error("%s has ended, and begins again in %g s: %s", name, pause, reason)
        await asyncio.sleep(pause)
        pause = min(2.0 * pause, longest)


def explain(error: BaseException) -> str:
    """Say in a line what went wrong, and where."""
    said = " ".join(f"{type(error).__name__}: {error}".split())[:200].rstrip(": ")
    places = traceback.extract_tb(error.__traceback__)
    return f"{said} (in {places[-1].name}, {Path(places[-1].filename).name}:{places[-1].lineno})" if places else said
