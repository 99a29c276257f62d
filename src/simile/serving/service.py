"""The service itself, without sockets and without waiting: frames are put in, and `run` answers them together."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence

from simile._common import checks
from simile.errors import ArgumentError
from simile.online import Extrapolate
from simile.online.gaps import Gap
from simile.policies.policies import Policy
from simile.policies.stages import Stage
from simile.serving import snapshots
from simile.serving.batching import FAILED, Answered, Batcher, Item
from simile.serving.counts import Counts, Latencies
from simile.serving.handover import Handover
from simile.serving.inputs import Reader
from simile.serving.messages import FURTHEST, LARGEST_N, Answer, Frame
from simile.serving.monitoring import Monitor
from simile.serving.registry import StreamRegistry
from simile.serving.sessions import QueuedFrame, Sink, Stream
from simile.serving.switcher import PolicySwitcher, PreparedPolicy

SWEEP = 1.0  # seconds between two looks for streams that have gone
CLOSED = "this stream was closed, was idle for too long, or was opened by somebody else: open it again"

log = logging.getLogger("simile.serving")


class Service:
    """A policy at work for many streams, which come and go.

    Each stream acts as a `Predictor` of its own would, bit for bit. Nothing here blocks, and nothing is thread-safe
    but `prepare`: one thread, or one event loop, calls it all.

    Parameters
    ----------
    policy : Policy
        What acts. Its number of contexts must be known.
    gap, stages, rate
        As for a `Predictor`.
    max_streams : int
        How many streams there can be; room is taken as they come.
    queue : int
        How many frames of a stream may wait; of more, the oldest is dropped.
    idle : float
        Seconds without a frame after which a stream is forgotten.
    clock : callable
        Seconds, from any beginning.
    monitor : Monitor, optional
        What watches for trouble, with as many slots.
    handover : float
        Seconds that a reload takes to hand every stream over.
    max_memory : float, optional
        MB that a policy may take with the past of all streams that there can be; a half of what there is by default.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        gap: Gap = Extrapolate(),  # noqa: B008 - frozen
        stages: Sequence[Stage] = (),
        rate: float | None = None,
        max_streams: int = 1024,
        queue: int = 4,
        idle: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
        monitor: Monitor | None = None,
        handover: float = 1.0,
        max_memory: float | None = None,
    ) -> None:
        self.max_streams = checks.whole_number(max_streams, "max_streams", at_least=1)
        self.queue = checks.whole_number(queue, "queue", at_least=1)
        self.idle, handover = (
            checks.number(idle, "idle", above=0.0),
            checks.number(handover, "handover", at_least=0.0),
        )
        self.clock, self.monitor = clock, monitor
        self.counts, self.latencies = Counts(), Latencies()
        self._switcher = PolicySwitcher(
            policy, self.max_streams, gap=gap, stages=stages, rate=rate, seconds=handover, max_memory=max_memory
        )
        self._reader = Reader(self._switcher.streams)
        self._batcher = Batcher(self._switcher, self.counts, monitor)
        self._registry = StreamRegistry(self.max_streams, self._switcher, self._batcher.begin, self.counts, clock)
        self._waiting: list[Stream] = []  # those with a queue
        self._next_sweep = -math.inf

    # -------------------------------------------------------------------------------------------------- what there is

    @property
    def policy(self) -> Policy:
        """The policy at work; during a hand-over, the one that takes over."""
        return self._switcher.streams.policy

    @property
    def rate(self) -> float | None:
        """Frames a second; None where neither the policy nor the user says."""
        return self._switcher.streams.rate

    @property
    def streams(self) -> Mapping[str, Stream]:
        """The streams that live, by name."""
        return self._registry.by_name

    @property
    def slots(self) -> Mapping[int, Stream]:
        """The streams that live, by slot, as a monitor's events name them."""
        return self._registry.by_slot

    @property
    def handing_over(self) -> bool:
        """Whether there are streams on their way from one policy to another."""
        return isinstance(self._switcher.acting, Handover)

    @property
    def has_waiting(self) -> bool:
        """Whether frames wait for the next `run`."""
        return bool(self._waiting)

    @property
    def has_deadlines(self) -> bool:
        """Whether some streams must not wait, so that `tick` is to be called every few milliseconds."""
        return bool(self._registry.timed)

    # --------------------------------------------------------------------------------------------- streams come and go

    def open(
        self,
        name: str,
        *,
        start: Sequence[float] | None = None,
        deadline: float = 0.0,
        resume: bool = False,
        band: float | None = None,
    ) -> Stream:
        """Begin a stream, or go on with one.

        Whoever had opened a stream of this name loses it: after a connection broke unnoticed, the same client comes.

        Parameters
        ----------
        name : str
            Whoever speaks to the client checks its letters.
        start : sequence of float, optional
            The last known action; None starts cold. Of no use to a stream that is resumed.
        deadline : float
            Seconds by which a frame may be late; then an action is made without it, and answered by "gap". 0: none.
        resume : bool
            Go on with the stream of this name, where it exists; else it begins anew.
        band : float, optional
            Level of the band that answers shall bring; a policy that carries none is refused. Where one without takes
            over, answers bring none.

        Raises
        ------
        Refusal
            When there is no room, or the stream cannot be as asked for.
        """
        return self._registry.open(name, start=start, deadline=deadline, resume=resume, band=band)

    def detach(self, stream: Stream) -> None:
        """Note that nobody is connected to a stream any more: it can be resumed until it has been idle too long."""
        if not stream.closed:
            self._registry.detach(stream)

    def close(self, stream: Stream) -> None:
        """End a stream; its slot is for another."""
        if not stream.closed:
            self._registry.close(stream)

    # --------------------------------------------------------------------------------------------------- frame by frame

    def put(self, stream: Stream, frame: Frame, sink: Sink, now: float | None = None) -> None:
        """Let a frame wait for the next `run`, and be answered to `sink`; one whose number has been is answered now.

        Parameters
        ----------
        stream, frame, sink
            What came, and where the answer goes.
        now : float, optional
            What the clock says, where the caller has just looked.

        Raises
        ------
        Refusal
            When the stream is closed, or has been opened by somebody else.
        """
        if stream.slot < 0:
            raise self._registry.refuse("closed", CLOSED)
        counts = self.counts
        if now is None:
            now = self.clock()
        counts.frames += 1
        stream.sink, stream.seen = sink, now
        n, last = frame.n, stream.n
        if n is None:
            n = 0 if last is None else last + 1
        if n > LARGEST_N or (last is not None and not 0 < n - last <= FURTHEST):
            counts.answers += 1
            self._send(stream, Answer(min(n, LARGEST_N), error=stream.refuse(n, last, now, counts)))
            return
        stream.n = stream.received = n
        if stream.deadline:
            stream.due = now + stream.period + stream.deadline
        x, override, problem = frame.x, frame.override, None
        if override is not None or type(x) is not list or len(x) != self._reader.n_contexts:
            x, override, problem = self._reader(x, override)
            if problem is not None:
                counts.malformed += 1
        queue = stream.queue
        if not queue:
            self._waiting.append(stream)
        elif len(queue) >= self.queue:
            queue.popleft()
            stream.drop(1)
            counts.dropped += 1
        queue.append(QueuedFrame(n, x, override, problem, now))

    def drop(self, stream: Stream) -> None:
        """Count a frame that came too fast, and was not looked at; the next answer tells."""
        self.counts.frames += 1
        self.counts.limited += 1
        stream.drop(1)

    def run(self) -> None:
        """Answer all frames that wait: of each stream one, all together, then the next of each, until none waits."""
        while self._waiting:
            self.run_round()

    def run_round(self) -> None:
        """Answer the first frame that waits of each stream, all together."""
        waiting, self._waiting = self._waiting, []
        batch = []
        for stream in waiting:
            queue = stream.queue
            if queue:  # else it was closed in the meantime
                batch.append((stream, queue.popleft()))
                if queue:
                    self._waiting.append(stream)
        if batch:
            self.counts.answers += len(batch)
            for stream, answer in self._take(batch):
                self._send(stream, answer)
            now = self.clock()
            self.latencies.add([now - queued.arrived for _, queued in batch])

    def tick(self, now: float) -> list[Stream]:
        """Do what the clock says: deadlines, idle streams, ends of hand-overs; returns the streams that expired."""
        late = [
            s
            for s in self._registry.timed
            if s.due <= now and s.begun and s.sink is not None and not s.queue and s.n != LARGEST_N
        ]
        if late:
            self.counts.bridged_late += len(late)
            for stream, answer in self._take([(stream, stream.make_overdue(now)) for stream in late]):
                self._send(stream, answer)
        if now < self._next_sweep:
            return []
        self._next_sweep = now + SWEEP
        expired = [stream for stream in self.streams.values() if now - stream.seen > self.idle]
        for stream in expired:
            self.close(stream)
        self.counts.expired += len(expired)
        self._switcher.settle(self._registry.slots)
        return expired

    def take_restarted(self) -> list[str]:
        """Return the names of streams whose stages ran away, and began anew from rest, since the last call."""
        names = sorted(self._batcher.restarted)
        self._batcher.restarted.clear()
        return names

    # ----------------------------------------------------------------------------------------------- policies and state

    def prepare(self, policy: Policy) -> PreparedPolicy:
        """Build what `reload` takes, and check that it can take over; slow, and safe in another thread than `run`."""
        return self._switcher.prepare(policy)

    def reload(self, policy: Policy | PreparedPolicy) -> None:
        """Hand all streams over to another policy, or to what `prepare` made of it, without a jump.

        Raises
        ------
        ArgumentError
            When the policy cannot take over: the old one goes on. Whoever asked for it counts the failure.
        """
        prepared = policy if isinstance(policy, PreparedPolicy) else self._switcher.prepare(policy)
        reader, before = Reader(prepared.streams), None if self.monitor is None else self.monitor.baseline
        if self.monitor is not None:
            self.monitor.adopt(prepared.streams.policy, self._switcher.stages)
        try:
            self._switcher.take_over(prepared, self._registry.slots)
        except BaseException:  # then all is as it was
            if self.monitor is not None and before is not None:
                self.monitor.baseline = before
            raise
        self._reader = reader
        self.counts.reloads += 1

    def snapshot(self) -> snapshots.Snapshot:
        """Return copies of all that a new service of the same policy needs to go on with every stream.

        Frames that wait are not in it. During a hand-over it is the state of the policy that takes over. A policy
        that cannot be written down has none: StorageError.
        """
        return snapshots.take(self._switcher.current, self.streams.values())

    def restore(self, snapshot: snapshots.Snapshot) -> list[str]:
        """Go on with the streams of a snapshot, of which nobody is connected yet; the service must be new.

        A stream that cannot be restored costs the others nothing: of each, returns a sentence that says why.

        Raises
        ------
        ArgumentError
            When it is of another policy, of other stages, or of more streams than there is room for.
        """
        if self.streams:
            raise ArgumentError(f"snapshot: a new service is needed; this one has {len(self.streams)} streams")
        sessions, unfit = snapshots.restore(self._switcher.current, snapshot)
        self._registry.restore(sessions)
        self.counts.unrestored += len(unfit)
        return unfit

    # ---------------------------------------------------------------------------------------------------------- helpers

    def _take(self, batch: list[Item]) -> list[Answered]:
        try:
            return self._batcher.take(batch)
        except Exception:  # nothing is known to come here, but nobody may wait for an answer in vain
            log.exception("a batch of %d frames failed", len(batch))
            self.counts.failed += len(batch)
            return [(stream, Answer(queued.n, error=FAILED)) for stream, queued in batch]

    def _send(self, stream: Stream, answer: Answer) -> None:
        if stream.sink is None:  # its connection went while others were answered
            self.counts.unsent += 1
            stream.unsend()
            return
        if stream.lost:
            answer.lost, stream.lost = stream.lost, 0
        try:
            stream.sink(stream, answer)
        except Exception:  # whatever is wrong with one reader, the others get theirs
            self.counts.unsent += 1
            stream.unsend()
            stream.lost += answer.lost
            log.exception("an answer of stream %s could not be handed over", stream.name)
