"""The state of a server, which both ports share: it batches frames for the service, reloads policies, keeps snapshots.

Everything here runs in the event loop, but for what takes long: reading a policy file and writing a snapshot.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from simile._common.files import read_stamp
from simile._common.supervision import explain
from simile.errors import SimileError
from simile.online.gaps import Extrapolate, Gap
from simile.policies.policies import Policy
from simile.policies.stages import Stage
from simile.serving import snapshots
from simile.serving.messages import Closed, StreamFacts, StreamList
from simile.serving.metrics import build_registry, write_metrics
from simile.serving.openapi import PolicyFacts, ShadowList
from simile.serving.policy_file import LoadedPolicy, hide_path, load_policy
from simile.serving.service import Service

if TYPE_CHECKING:
    from simile.serving.websocket import Connection

TICK, SLOW_TICK = 0.005, 0.1  # seconds between looks at the clock, with deadlines and without
EVENTS_EVERY, WATCH_EVERY = 0.25, 1.0  # seconds
RESTARTED = "the stages left every reasonable range, and began anew from rest where the policy wants to be"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """How a policy is served; `simile serve --help` says what each is.

    Parameters
    ----------
    policy : Path
        The file.
    """

    policy: Path
    host: str = "127.0.0.1"
    port: int = 8770
    http_port: int = 8771
    token: str | None = None
    insecure: bool = False
    certfile: Path | None = None
    keyfile: Path | None = None
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    gap: Gap = Extrapolate()  # noqa: RUF009 - frozen
    stages: tuple[Stage, ...] = ()
    rate: float | None = None
    handover: float = 1.0
    queue: int = 4
    idle: float = 60.0
    patience: float = 30.0
    max_streams: int = 1024
    max_connections: int = 1024
    max_per_address: int | None = None
    max_message: int = 65_536
    max_rate: float | None = None
    snapshots: Path | None = None
    snapshot_every: float = 5.0
    record: Path | None = None
    record_limit: float | None = None
    record_without: tuple[str, ...] = ()
    record_hashed: tuple[str, ...] = ()
    shadows: tuple[Path, ...] = ()
    watch: bool = True
    trust: tuple[str, ...] = ()
    max_memory: float | None = None


class ServerState:
    """A service at work.

    Parameters
    ----------
    options : Options
        How.
    loaded : LoadedPolicy
        The policy.
    service : Service
        What answers.
    """

    def __init__(self, options: Options, loaded: LoadedPolicy, service: Service) -> None:
        self.options = options
        self.loaded = loaded
        self.service = service
        self.loop = asyncio.get_running_loop()
        self.clock = time.monotonic
        # What is faster than this is no control any more, but a mistake.
        self.max_rate = options.max_rate or max(1000.0, 10.0 * (self.rate or 0.0))
        self.draining = False
        self.tell: Callable[[dict[str, Any], str | None], None] = _tell_nobody  # until there are connections
        self.gathering: list[Connection] = []  # connections whose answers go out together when the batch is done
        self._begun = self.clock()
        self._due = False  # whether a run is on its way
        self._failing = False  # whether the last snapshot could not be written
        self._losing = False  # whether the recording could not be written
        self._following = False  # whether the shadows are on their way
        self._reloading, self._snapshotting = asyncio.Lock(), asyncio.Lock()
        self._stamp = read_stamp(options.policy)
        self._registry = build_registry(service)

    @property
    def policy(self) -> Policy:
        """The policy at work."""
        return self.loaded.policy

    @property
    def facts(self) -> PolicyFacts:
        """What may be told of it."""
        return msgspec.structs.replace(self.loaded.facts, rate=self.rate)

    @property
    def n_contexts(self) -> int:
        """How wide a context is; 0 where the policy takes any."""
        return self.policy.n_contexts or len(self.policy.card.context_names)

    @property
    def names(self) -> tuple[list[str], list[str]]:
        """Names of contexts and actions."""
        return self.loaded.facts.contexts, self.loaded.facts.actions

    @property
    def rate(self) -> float | None:
        """Frames a second."""
        return self.options.rate or self.policy.card.rate

    @property
    def uptime(self) -> float:
        """Seconds since the start."""
        return self.clock() - self._begun

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another stream."""
        return len(self.service.streams) >= self.options.max_streams

    def wake(self) -> None:
        """Let what has come be answered in one batch, when all that has come in this turn of the loop was read."""
        if not self._due:
            self._due = True
            self.loop.call_soon(self._run_round)

    def _run_round(self) -> None:
        """Answer a frame of each stream; the next ones wait for what others send in the meantime."""
        self._answer_by(self.service.run_round)
        if self.service.has_waiting:
            self.wake()

    def run(self) -> None:
        """Answer all that has come."""
        self._answer_by(self.service.run)

    def _answer_by(self, run: Callable[[], None]) -> None:
        self._due = True  # what is gathered now does not wake it again
        try:
            run()
            gathering, self.gathering = self.gathering, []
            for connection in gathering:
                connection.send_gathered()
            self.service.show()
        finally:
            self._due = False
        self._wake_shadows()

    def _wake_shadows(self) -> None:
        if self.service.shadows is not None and not self._following:
            self._following = True
            self.loop.call_soon(self._follow)

    def _follow(self) -> None:
        """Let the shadows take a batch, after all that has come meanwhile."""
        self._following = False
        if self.service.follow():
            self._wake_shadows()

    def close(self, name: str) -> Closed | None:
        """End a stream; None where there is none."""
        self.run()
        stream = self.service.streams.get(name)
        if stream is None:
            return None
        closed = Closed(stream.frames, stream.dropped)
        self.service.close(stream)  # which sends the last answers
        self.tell({"kind": "closed", "on": True}, name)
        return closed

    def describe_streams(self) -> StreamList:
        """Describe the streams."""
        streams = self.service.streams.values()
        return StreamList([StreamFacts(s.name, s.frames, s.dropped, s.late, s.by) for s in streams])

    def describe_shadows(self) -> ShadowList:
        """Describe the candidates that act beside the policy at work."""
        shadows = () if self.service.shadows is None else self.service.shadows.all
        return ShadowList(self.names[1], [shadow.describe() for shadow in shadows])

    def metrics(self) -> bytes:
        """Return the metrics as Prometheus reads them."""
        return write_metrics(self._registry)

    async def reload(self) -> str | None:
        """Read the policy file anew and hand over to it; returns why not, where the one at work goes on."""
        async with self._reloading:
            self._stamp = read_stamp(self.options.policy)
            try:
                options = self.options
                loaded = await asyncio.to_thread(load_policy, options.policy, options.trust, options.max_memory)
                if loaded.digest == self.loaded.digest:
                    return None
                prepared = await asyncio.to_thread(self.service.prepare, loaded.policy)
                self.run()
                self.service.reload(prepared)
            except SimileError as error:
                return self._report_failed_reload(hide_path(error, self.options.policy))
            except Exception as error:  # a file may be anybody's, and must not end what waits for the next one
                log.error("the policy file cannot be used: %s", explain(error))
                return self._report_failed_reload(f"it cannot be used ({type(error).__name__}): train it anew")
            self.loaded = loaded
            if self.service.recording is not None:
                self.service.recording.policy = loaded.digest
            self.tell({"kind": "reloaded", "on": True, "digest": loaded.digest}, None)
            log.warning("the policy %s is at work", loaded.digest[:12])
            return None

    def _report_failed_reload(self, sentence: str) -> str:
        self.service.counts.reload_failures += 1
        self.tell({"kind": "reload_failed", "on": True, "reason": sentence}, None)
        log.warning("the policy file was not taken, and the policy at work goes on: %s", sentence)
        return sentence

    async def snapshot(self) -> None:
        """Keep the state of every stream; a disk that is full is counted, and serving goes on."""
        if self.options.snapshots is None:
            return
        async with self._snapshotting:
            try:
                state = self.service.snapshot()  # now; what comes later belongs to the next one
                await asyncio.to_thread(snapshots.write, state, self.options.snapshots)
            except Exception as error:  # whatever it is, it must not end serving
                self.service.counts.snapshot_failures += 1
                if not self._failing:  # said once; it is tried again and again
                    log.warning("the snapshot could not be written: %s", error)
                    self._report_failing(True)
            else:
                self.service.counts.snapshots += 1
                if self._failing:
                    self._report_failing(False)

    def _report_failing(self, failing: bool) -> None:
        self._failing = failing
        self.tell({"kind": "snapshot_failed", "on": failing}, None)

    async def watch_deadlines(self) -> None:
        """Look after deadlines, expiry and hand-overs, for ever."""
        while True:
            await asyncio.sleep(TICK if self.service.has_deadlines else SLOW_TICK)
            for stream in self.service.tick(self.clock()):
                self.tell({"kind": "expired", "on": True}, stream.name)
            self.service.show()
            self._wake_shadows()

    async def tell_troubles(self) -> None:
        """Tell the streams what became of their stages, and what the monitor sees in them, for ever."""
        while True:
            await asyncio.sleep(EVENTS_EVERY)
            for name in self.service.take_restarted():
                self.tell({"kind": "restarted", "on": True, "reason": RESTARTED}, name)
            for slot, kind, on, detail in [] if self.service.monitor is None else self.service.monitor.events():
                if (stream := self.service.slots.get(slot)) is not None:
                    self.tell({"kind": kind, "on": on, **detail}, stream.name)
            recorder = self.service.recorder
            if recorder is not None and recorder.failing != self._losing:
                self._losing = recorder.failing
                self.tell({"kind": "record_failed", "on": self._losing}, None)

    async def watch_file(self) -> None:
        """Reload whenever the file is replaced, for ever."""
        while True:
            await asyncio.sleep(WATCH_EVERY)
            now = read_stamp(self.options.policy)
            if now is not None and now != self._stamp:
                await self.reload()

    async def keep_snapshots(self) -> None:
        """Write a snapshot now and then, for ever."""
        while True:
            await asyncio.sleep(self.options.snapshot_every)
            await self.snapshot()


def _tell_nobody(event: dict[str, Any], name: str | None) -> None:
    """Tell nobody."""
