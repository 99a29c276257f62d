"""Batches: one frame of each of many streams, taken together.

What fails takes nothing away from the others: the batch is halved until the frame that failed stands alone. A frame
that cannot be used is bridged as if it had been dropped, and its answer says why.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.errors import ArgumentError, DivergedError, SimileError
from simile.online import Extrapolate
from simile.online.tracks import Track
from simile.policies.bands import Banded
from simile.serving.counts import Counts
from simile.serving.messages import Answer, By
from simile.serving.monitoring import Monitor
from simile.serving.sessions import QueuedFrame, Stream
from simile.serving.shadows import Shadows
from simile.serving.switcher import PolicySwitcher

LONGEST_BRIDGE = 30  # missing frames that are bridged one by one, where the gap does not say

NOTHING_KNOWN = "nothing is known of this stream yet: send a context first, or open it with the last action as start"
DIVERGED = "the action left every reasonable range: the stream begins anew with the next frame"
NO_START = "the policy cannot begin with a context alone: open the stream with the last action as start"
FAILED = "the policy cannot act on this context: send other values, or null for what is missing"
MISSING = "the policy cannot take a context with missing values: fill them in, or send x null for the whole frame"

log = logging.getLogger("simile.serving")

Item = tuple[Stream, QueuedFrame]
Answered = tuple[Stream, Answer]


class Batcher:
    """Takes batches of frames by whatever acts.

    Parameters
    ----------
    switcher : PolicySwitcher
        Who acts. Its gap says how many missing frames are bridged one by one.
    counts : Counts
        What happens is counted here.
    monitor : Monitor or None
        Sees all that is taken.
    recording : Track or None
        Keeps all that is taken.
    shadows : Shadows or None
        Take it too, later.
    """

    def __init__(
        self,
        switcher: PolicySwitcher,
        counts: Counts,
        monitor: Monitor | None,
        recording: Track | None = None,
        shadows: Shadows | None = None,
    ) -> None:
        self.switcher, self.counts, self.monitor = switcher, counts, monitor
        self.recording, self.shadows = recording, shadows
        self.restarted: set[str] = set()  # streams whose stages began anew, for somebody to tell
        self._longest = switcher.gap.frames if isinstance(switcher.gap, Extrapolate) else LONGEST_BRIDGE

    def begin(self, stream: Stream, start: Any) -> None:
        """Make the slot of a stream new; `start` as for a `PredictorPool`."""
        slots = np.array([stream.slot])
        self.switcher.acting.reset(slots, start)
        if self.monitor is not None:
            self.monitor.reset(slots)
        if self.recording is not None:
            self.recording.begin(stream.slot, stream.name)
        if self.shadows is not None:
            self.shadows.begin(stream.slot, start)
        stream.begun = start is not None

    def take(self, batch: Sequence[Item]) -> list[Answered]:
        """Take a frame of each of these streams, all of them different; returns what became of each, in any order."""
        steps: list[Item] = []
        others: list[Item] = []
        gaps: list[Item] = []  # some before these were left out
        for item in batch:
            stream, frame = item
            last = stream.taken
            if last is not None and frame.n - last > 1:
                gaps.append(item)
            (steps if frame.x is not None and frame.override is None else others).append(item)
        if gaps:
            self._bridge(gaps)
        answered = self._step(steps) if steps else []
        if others:
            operators = [item for item in others if item[1].override is not None]
            seeing = [item for item in operators if item[1].x is not None]
            blind = [item for item in operators if item[1].x is None]
            answered += self._override(seeing, np.array([frame.x for _, frame in seeing], np.float64))
            answered += self._override(blind, None)
            answered += self._miss([item for item in others if item[1].override is None])
        for stream, answer in answered:
            stream.taken = answer.n
            if answer.by is not None:
                stream.frames += 1
                stream.begun = True
                stream.by = answer.by
        return answered

    def flush(self, stream: Stream, now: float) -> Iterator[Answered]:
        """Answer the frames of a stream that ends which still wait for an answer, as if the last context had lasted."""
        acting = self.switcher.streams
        slots = acting.find_due(np.array([stream.slot]))
        for n, sent in enumerate(acting.flush(slots), start=(stream.taken or 0) + 1):
            frame = QueuedFrame(n, None, None, None, now)
            yield from (done for done in self._answer([(stream, frame)], slots, None, sent, "policy") if done[1].a)

    # ------------------------------------------------------------------------------------------------- kinds of frames

    def _step(self, batch: list[Item]) -> list[Answered]:
        X = np.array([frame.x for _, frame in batch], dtype=np.float64)
        # Hardly ever is one infinite, or missing, which the sum of squares shows at a fraction of the cost.
        if math.isfinite(np.vdot(X, X)) or not np.isinf(X).any():
            return self._step_finite(batch, X)
        wild = np.isinf(X).sum(axis=1).tolist()
        fine = [item for item, n in zip(batch, wild, strict=True) if not n]
        bad = [
            (stream, frame.without_context(f"x must be finite, or null where a value is missing; got {frame.x}"))
            for (stream, frame), n in zip(batch, wild, strict=True)
            if n
        ]
        self.counts.malformed += len(bad)
        return [*(self._step(fine) if fine else []), *self._miss(bad)]

    def _step_finite(self, batch: list[Item], X: FloatArray) -> list[Answered]:
        X = self.switcher.streams.preparer.prepare(np.array([stream.slot for stream, _ in batch]), X)
        done, failed = self._attempt(batch, X)
        for item, error in failed:
            stream, frame = item
            if isinstance(error, DivergedError):
                done.append(self._restart(item))
                continue
            self.counts.failed += 1
            if not isinstance(error, SimileError):
                log.error("a policy failed on a frame of stream %s", stream.name, exc_info=error)
            done += self._miss([(stream, frame.without_context(_explain(stream, frame)))])
        return done

    def _miss(self, batch: list[Item]) -> list[Answered]:
        known = [item for item in batch if item[0].begun]
        unknown = [item for item in batch if not item[0].begun]
        bridged, failed = self._attempt(known, None) if known else ([], [])
        return [
            *bridged,
            *((stream, Answer(frame.n, error=frame.problem or NOTHING_KNOWN)) for stream, frame in unknown),
            *(self._restart(item) for item, _ in failed),
        ]

    def _override(self, batch: list[Item], X: FloatArray | None) -> list[Answered]:
        if not batch:
            return []
        A = np.array([frame.override for _, frame in batch], dtype=np.float64)
        slots = np.array([stream.slot for stream, _ in batch])
        A = self.switcher.streams.prepare_actions(slots, A)
        X = None if X is None else self.switcher.streams.preparer.prepare(slots, X)
        self.switcher.acting.override(slots, A, X)
        if self.monitor is not None:
            self.monitor.observe(slots, X, A)
        self._note(batch, slots, X, A, "operator")
        if self.shadows is not None:
            self.shadows.note(slots, X, A, "operator")
        self.counts.overrides += len(batch)
        done = [
            (stream, Answer(frame.n, frame.override, "operator", None, 0, frame.problem)) for stream, frame in batch
        ]
        self._put_bands(done, slots, A, led=True)
        self._aim(done)
        return done

    def _bridge(self, gaps: list[Item]) -> None:
        """Make the actions of frames that never came; nobody gets them, but the next action goes on from there."""
        left = []
        for stream, frame in gaps:
            missing = frame.n - (stream.taken or 0) - 1
            self.counts.missing += missing
            # All that wait for an answer must be near: else the next answers would be for frames before the jump.
            near = max(1, self.switcher.streams.history.wait)
            left.append(missing if missing <= max(self._longest, near) else near)
        for number in range(max(left)):
            batch = [
                (stream, QueuedFrame(frame.n - n + number, None, None, None, frame.arrived))
                for (stream, frame), n in zip(gaps, left, strict=True)
                if n > number and stream.begun
            ]
            if batch:
                done, failed = self._attempt(batch, None)
                self.counts.bridged_missing += len(done)
                for (stream, _), _error in failed:
                    self._forget(stream)

    # ------------------------------------------------------------------------------------------------------ what fails

    def _attempt(self, batch: list[Item], X: FloatArray | None) -> tuple[list[Answered], list[tuple[Item, Exception]]]:
        """Act on contexts X (n, m), or blindly; returns what was done, and what failed on its own."""
        slots = np.array([stream.slot for stream, _ in batch])
        acting = self.switcher.acting
        try:
            actions = acting.miss(slots) if X is None else acting.step(slots, X)
        except Exception as error:  # a model of somebody else may raise anything
            if len(batch) == 1:
                return [], [(batch[0], error)]
            half = len(batch) // 2
            done, failed = self._attempt(batch[:half], None if X is None else X[:half])
            more, worse = self._attempt(batch[half:], None if X is None else X[half:])
            return done + more, failed + worse
        if again := self.switcher.streams.chain.restarted:
            self.counts.stages_restarted += len(again)
            self.restarted.update(stream.name for stream, _ in batch if stream.slot in again)
            again.clear()
        if self.shadows is not None:
            self.shadows.note(slots, X, actions, "gap" if X is None else "policy")
        return self._answer(batch, slots, X, actions, "gap" if X is None else "policy"), []

    def _answer(
        self, batch: list[Item], slots: IntArray, X: FloatArray | None, actions: FloatArray, by: By
    ) -> list[Answered]:
        """Let the monitor and the recording see what was done, and return it as answers."""
        if self.monitor is not None:
            self.monitor.observe(slots, X, actions)
        self._note(batch, slots, X, actions, by)
        done = [
            (stream, Answer(frame.n, a, by, None, 0, frame.problem))
            for (stream, frame), a in zip(batch, self.switcher.streams.preparer.restore(actions).tolist(), strict=True)
        ]
        self._put_bands(done, slots, actions)
        self._aim(done)
        return done

    def _aim(self, done: list[Answered]) -> None:
        """Say which frames the actions of a policy with a lead are for, and which frames wait for theirs."""
        if not (lead := self.switcher.streams.lead):
            return
        for _, answer in done:
            if answer.a is not None and answer.n is not None:
                answer.meant = answer.n + lead
                if math.isnan(answer.a[0]):
                    answer.a, answer.by, answer.meant = None, "waiting", None

    def _note(self, batch: list[Item], slots: IntArray, X: FloatArray | None, A: FloatArray, by: By) -> None:
        """Let what was done be recorded."""
        if self.recording is not None:
            numbers = [frame.n for _, frame in batch]
            self.switcher.streams.note(self.recording, slots, X, A, by, numbers=numbers)

    def _put_bands(self, done: list[Answered], slots: IntArray, sent: FloatArray, *, led: bool = False) -> None:
        """Put bands beside the actions of streams that asked for one, and tell the monitor who is unsure.

        Who has no band, any more, is not. It was all done before: what fails here costs a band, and no action.
        """
        unsure = np.zeros(len(done), np.bool_)
        asked = [i for i, (stream, _) in enumerate(done) if stream.band is not None]
        if asked and (banded := self._measure(done, asked, slots, sent, led=led)) is not None:
            there: list[bool] = np.isfinite(banded.width).all(axis=1).tolist()  # type: ignore[assignment]
            for i, low, high, finite in zip(asked, banded.low.tolist(), banded.high.tolist(), there, strict=True):
                done[i][1].band = [low, high] if finite else None
            unsure[asked] = banded.unsure
        if self.monitor is not None:
            self.monitor.doubt(slots, unsure)

    def _measure(
        self, done: list[Answered], asked: list[int], slots: IntArray, sent: FloatArray, *, led: bool
    ) -> Banded | None:
        """Return the bands of those of the answers that are asked for; None where there are none."""
        levels = np.array([done[i][0].band for i in asked], dtype=np.float64)
        try:
            return self.switcher.streams.measure(slots[asked], sent[asked], levels, led=led)
        except ArgumentError:  # the policy that took over carries none
            return None
        except Exception:  # a model of somebody else may raise anything
            log.exception("the bands of %d frames failed", len(asked))
            return None

    def _restart(self, item: Item) -> Answered:
        stream, frame = item
        self._forget(stream)
        return stream, Answer(frame.n, error=DIVERGED)

    def _forget(self, stream: Stream) -> None:
        self.counts.diverged += 1
        # The actuator is where it is: only the policy forgets.
        self.switcher.acting.reset(np.array([stream.slot]), None, actuators=False)
        if self.recording is not None:  # no demonstration goes on over that
            self.recording.begin(stream.slot, stream.name)
        if self.shadows is not None:
            self.shadows.begin(stream.slot, None, actuators=False)
        stream.begun = False


def _explain(stream: Stream, frame: QueuedFrame) -> str:
    """Say why a policy may have failed; what it says itself is for whoever has its files, not for all the world."""
    if any(value is None or value != value for value in frame.x or ()):
        return MISSING
    return FAILED if stream.begun else NO_START
