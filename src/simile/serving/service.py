"""The service itself, without sockets and without waiting: frames are put in, and `run` answers them together."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from simile._common import checks
from simile.errors import ArgumentError
from simile.online import Extrapolate
from simile.online.gaps import Gap
from simile.online.recording import Recorder
from simile.online.tracks import Track
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
from simile.serving.shadows import SLOW, Shadows
from simile.serving.switcher import PolicySwitcher, PreparedPolicy

Watcher = Callable[[Stream, QueuedFrame, Answer], None]  # must be quick

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
    recorder : Recorder, optional
        What keeps every frame and action, off this thread; whoever made it closes it.
    shadows : mapping of str to Policy
        Candidates by name, for the same columns: they act on the same frames, when `follow` is called, and are never
        sent. They stay the same when the policy at work is replaced.
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
        recorder: Recorder | None = None,
        shadows: Mapping[str, Policy] = MappingProxyType({}),
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
            policy,
            self.max_streams,
            gap=gap,
            stages=stages,
            rate=rate,
            seconds=handover,
            max_memory=max_memory,
            recorded=recorder is not None,
        )
        self.shadows = self._prepare_shadows(shadows)
        self.recorder = recorder
        self.recording: Track | None = None
        if recorder is not None:
            self.recording = recorder.track(policy, rate=self.rate, digest=self._switcher.current.file_digest)
        self._reader = Reader(self._switcher.streams)
        self._batcher = Batcher(self._switcher, self.counts, monitor, self.recording, self.shadows)
        self._registry = StreamRegistry(
            self.max_streams, self._switcher, self._batcher.begin, self._flush, self.counts, clock
        )
        self.watchers: dict[str, Watcher] = {}  # of streams by name: `show` shows them what was answered
        self._unseen: list[tuple[list[Item], list[Answered]]] = []
        self._waiting: list[Stream] = []  # those with a queue
        self._next_sweep = -math.inf
        self._slowest = 0.0  # seconds, of the answers of the last round

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
        """End a stream, and answer the frames that still wait for an answer; its slot is for another."""
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
        hand = stream.hand
        if override is not None or hand is not None or type(x) is not list or len(x) != self._reader.n_contexts:
            x, override, problem = self._reader(x, override)
            if problem is not None:
                counts.malformed += 1
            if override is None:  # what the client itself sends wins
                override = hand
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
            answered = self._take(batch)
            for stream, answer in answered:
                self._send(stream, answer)
            now = self.clock()
            took = [now - queued.arrived for _, queued in batch]
            self.latencies.add(took)
            self._slowest = max(took)
            if self.watchers:
                self._unseen.append((batch, answered))

    def show(self) -> None:
        """Show what was answered since the last call to those who watch; call it when the answers have gone out."""
        unseen, self._unseen = self._unseen, []
        for batch, answered in unseen:
            watched = {stream: queued for stream, queued in batch if stream.name in self.watchers}
            for stream, answer in answered:
                if stream in watched:
                    try:
                        self.watchers[stream.name](stream, watched[stream], answer)
                    except Exception:  # who looks on must not be in the way
                        log.exception("a frame of stream %s could not be shown", stream.name)

    def follow(self) -> bool:
        """Let the shadows take a batch that was answered, where nobody waits; returns whether there is another.

        Under load, when answers are slow or batches wait for too long, all that wait are left out, and counted.
        """
        shadows = self.shadows
        if shadows is None or not shadows.has_turns:
            return False
        if self._slowest > SLOW or shadows.is_late():
            shadows.drop()
            self._slowest = 0.0
            return False
        if self._waiting:
            return False  # the next round comes first, and asks again
        shadows.run(self._switcher.streams)
        return shadows.has_turns

    def tick(self, now: float) -> list[Stream]:
        """Do what the clock says: deadlines, idle streams, ends of hand-overs; returns the streams that expired."""
        late = [
            s
            for s in self._registry.timed
            if s.due <= now and s.begun and s.sink is not None and not s.queue and s.n != LARGEST_N
        ]
        if late:
            self.counts.bridged_late += len(late)
            batch = [(stream, stream.make_overdue(now)) for stream in late]
            answered = self._take(batch)
            for stream, answer in answered:
                self._send(stream, answer)
            if self.watchers:
                self._unseen.append((batch, answered))
        if now < self._next_sweep:
            return []
        self._next_sweep = now + SWEEP
        expired = [stream for stream in self.streams.values() if now - stream.seen > self.idle]
        for stream in expired:
            self.close(stream)
        self.counts.expired += len(expired)
        self._switcher.settle(self._registry.slots)
        return expired

    def take_over(self, stream: Stream, action: Sequence[float] | None) -> None:
        """Let an operator act in the frames of a stream from now on, or hand it back with None.

        What its client sends as `override` wins.

        Raises
        ------
        Refusal
            When the stream is closed.
        ArgumentError
            When the action is none.
        """
        if stream.slot < 0:
            raise self._registry.refuse("closed", CLOSED)
        stream.hand = None if action is None else self._reader.read_action(list(action), "take")

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
        if self.recorder is not None:
            self.recorder.check_rate(prepared.streams.rate)
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
        if self.recording is not None:
            self.recording.policy = prepared.file_digest

    def note_event(self, event: Mapping[str, Any], name: str | None) -> None:
        """Let the recording tell what happened to a stream or, without a name, to all."""
        stream = None if name is None else self.streams.get(name)
        if self.recording is not None and (name is None or stream is not None):
            self.recording.tell(event, None if stream is None else stream.slot)

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
        for stream in sessions:
            if self.recording is not None:
                self.recording.begin(stream.slot, stream.name)
            if self.shadows is not None:
                self.shadows.join(stream.slot)
        self.counts.unrestored += len(unfit)
        return unfit

    # ---------------------------------------------------------------------------------------------------------- helpers

    def _prepare_shadows(self, policies: Mapping[str, Policy]) -> Shadows | None:
        prepared = {}
        for name, policy in policies.items():
            try:
                prepared[name] = self._switcher.prepare(policy)
            except ArgumentError as error:
                raise ArgumentError(f"shadows: {name} cannot act beside the policy: {error}") from None
        return Shadows(prepared, self.clock) if prepared else None

    def _take(self, batch: list[Item]) -> list[Answered]:
        try:
            return self._batcher.take(batch)
        except Exception:  # nothing is known to come here, but nobody may wait for an answer in vain
            log.exception("a batch of %d frames failed", len(batch))
            self.counts.failed += len(batch)
            return [(stream, Answer(queued.n, error=FAILED)) for stream, queued in batch]

    def _flush(self, stream: Stream) -> None:
        """Send the last answers of a stream that ends: those to frames that a policy with a lead has waited with."""
        try:
            for one, answer in self._batcher.flush(stream, self.clock()):
                self._send(one, answer)
        except Exception:  # a model of somebody else may raise anything, and the stream ends all the same
            log.exception("the last answers of stream %s failed", stream.name)

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
