"""Who does the trials: this process, several of them, or a backend."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

from simile.learning.tuning.result import Tried
from simile.learning.tuning.study import Search
from simile.learning.tuning.trial import Split, Verdict, judge

if TYPE_CHECKING:
    from simile.learning.distributed.backend import Backend

DIED = "its process died, for want of memory or of `if __name__ == '__main__':` in the script that called tune"


def run_here(search: Search, split: Split) -> Iterator[Tried]:
    """Try one after the other, here."""
    while (asked := search.ask()) is not None:
        number, settings = asked
        verdict = judge(settings, split, lambda *how, number=number: search.report(number, *how))
        yield search.tell(number, verdict)


def run_on_backend(search: Search, split: Split, backend: Backend, batch: int) -> Iterator[Tried]:
    """Ask for a batch, let the backend do it, and tell; what is asked next depends on no race.

    Workers cannot tell how they are doing, so that no trial is given up early.
    """
    (data,) = backend.place([split])
    while asked := [one for _ in range(batch) if (one := search.ask()) is not None]:
        settings = backend.place([settings for _, settings in asked])
        verdicts = backend.collect(backend.map(judge, settings, [data] * len(asked)))
        for (number, _), verdict in zip(asked, verdicts, strict=True):
            yield search.tell(number, verdict)


def run_in_processes(search: Search, split: Split, jobs: int) -> Iterator[Tried]:
    """Keep several processes busy. They report here, and only this process writes to the storage."""
    idle: list[_Worker] = []
    busy: dict[Connection, tuple[_Worker, int]] = {}
    try:
        while True:
            while len(busy) < jobs and (asked := search.ask()) is not None:
                worker, (number, settings) = idle.pop() if idle else _Worker(split), asked
                busy[worker.end] = worker, number
                with suppress(OSError):  # where it has died, we hear of it below
                    worker.end.send(settings)
            if not busy:
                return
            for end in wait(list(busy)):
                assert isinstance(end, Connection)
                worker, number = busy[end]
                try:
                    said = end.recv()
                except (EOFError, OSError):
                    worker.stop()
                    del busy[end]
                    yield search.tell(number, Verdict(trouble=DIED))
                    continue
                if isinstance(said, Verdict):
                    del busy[end]
                    idle.append(worker)
                    yield search.tell(number, said)
                else:
                    end.send(search.report(number, *said))
    finally:
        for worker in (*idle, *(worker for worker, _ in busy.values())):
            worker.stop()


class _Worker:
    """A process, and our end of the line to it."""

    def __init__(self, split: Split) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy locks of threads that are not copied
        self.end, other = context.Pipe()
        self.process = context.Process(target=_work, args=(other, split), daemon=True)
        self.process.start()
        other.close()  # theirs alone: when they die, we hear of it

    def stop(self) -> None:
        """End the process, whatever it is doing; the trial is lost, the search knows of it."""
        self.process.kill()
        self.process.join()
        self.end.close()


def _work(line: Connection, split: Split) -> None:
    """Do the trials that come over the line until it is cut."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever keeps the search says when to stop

    def report(*how: Any) -> bool:
        line.send(how)
        return bool(line.recv())

    try:
        while True:
            line.send(judge(line.recv(), split, report))
    except (EOFError, OSError):
        return
