"""A wave: one frame of each of many streams, taken together.

What fails takes nothing away from the others: the wave is halved until the frame that failed stands alone. A frame
that cannot be used is bridged as if it had been dropped, and its answer says why.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from simile._common.typing import FloatArray
from simile.errors import DivergedError, SimileError
from simile.online import Extrapolate
from simile.serving.counts import Counts
from simile.serving.messages import Answer, By
from simile.serving.monitoring import Monitor
from simile.serving.sessions import Stream, Turn
from simile.serving.switcher import Relay

LONGEST_BRIDGE = 30  # missing frames that are bridged one by one, where the gap does not say

NOTHING_KNOWN = "nothing is known of this stream yet: send a context first, or open it with the last action as start"
DIVERGED = "the action left every reasonable range: the stream begins anew with the next frame"
NO_START = "the policy cannot begin with a context alone: open the stream with the last action as start"
FAILED = "the policy cannot act on this context: send other values, or null for what is missing"
MISSING = "the policy cannot take a context with missing values: fill them in, or send x null for the whole frame"

log = logging.getLogger("simile.serving")

Taken = tuple[Stream, Turn]
Answered = tuple[Stream, Answer]


class Waves:
    """Takes waves of frames by whatever acts.

    Parameters
    ----------
    relay : Relay
        Who acts. Its gap says how many missing frames are bridged one by one.
    counts : Counts
        What happens is counted here.
    monitor : Monitor or None
        Sees all that is taken.
    """

    def __init__(self, relay: Relay, counts: Counts, monitor: Monitor | None) -> None:
        self.relay, self.counts, self.monitor = relay, counts, monitor
        self._longest = relay.gap.frames if isinstance(relay.gap, Extrapolate) else LONGEST_BRIDGE

    def begin(self, stream: Stream, start: Any) -> None:
        """Make the slot of a stream new; `start` as for a `PredictorPool`."""
        slots = np.array([stream.slot])
        self.relay.acting.reset(slots, start)
        if self.monitor is not None:
            self.monitor.reset(slots)
        stream.begun = start is not None

    def take(self, wave: Sequence[Taken]) -> list[Answered]:
        """Take a frame of each of these streams, all of them different; returns what became of each, in any order."""
        steps: list[Taken] = []
        others: list[Taken] = []
        gaps: list[Taken] = []  # some before these were left out
        for taken in wave:
            stream, turn = taken
            last = stream.taken
            if last is not None and turn.n - last > 1:
                gaps.append(taken)
            (steps if turn.x is not None and turn.override is None else others).append(taken)
        if gaps:
            self._bridge(gaps)
        answered = self._step(steps) if steps else []
        if others:
            operators = [taken for taken in others if taken[1].override is not None]
            seeing = [taken for taken in operators if taken[1].x is not None]
            blind = [taken for taken in operators if taken[1].x is None]
            answered += self._override(seeing, np.array([turn.x for _, turn in seeing], np.float64))
            answered += self._override(blind, None)
            answered += self._miss([taken for taken in others if taken[1].override is None])
        for stream, answer in answered:
            stream.taken = answer.n
            if answer.a is not None:
                stream.frames += 1
                stream.begun = True
                stream.by = answer.by
        return answered

    # ------------------------------------------------------------------------------------------------- kinds of frames

    def _step(self, wave: list[Taken]) -> list[Answered]:
        X = np.array([turn.x for _, turn in wave], dtype=np.float64)
        # Hardly ever is one infinite, or missing, which the sum of squares shows at a fraction of the cost.
        if math.isfinite(np.vdot(X, X)) or not np.isinf(X).any():
            return self._step_finite(wave, X)
        wild = np.isinf(X).sum(axis=1).tolist()
        fine = [taken for taken, n in zip(wave, wild, strict=True) if not n]
        bad = [
            (stream, turn.without_context(f"x must be finite, or null where a value is missing; got {turn.x}"))
            for (stream, turn), n in zip(wave, wild, strict=True)
            if n
        ]
        self.counts.malformed += len(bad)
        return [*(self._step(fine) if fine else []), *self._miss(bad)]

    def _step_finite(self, wave: list[Taken], X: FloatArray) -> list[Answered]:
        done, failed = self._attempt(wave, X)
        for taken, error in failed:
            stream, turn = taken
            if isinstance(error, DivergedError):
                done.append(self._begin_anew(taken))
                continue
            self.counts.failed += 1
            if not isinstance(error, SimileError):
                log.error("a policy failed on a frame of stream %s", stream.name, exc_info=error)
            done += self._miss([(stream, turn.without_context(_explained(stream, turn)))])
        return done

    def _miss(self, wave: list[Taken]) -> list[Answered]:
        known = [taken for taken in wave if taken[0].begun]
        unknown = [taken for taken in wave if not taken[0].begun]
        bridged, failed = self._attempt(known, None) if known else ([], [])
        return [
            *bridged,
            *((stream, Answer(turn.n, error=turn.problem or NOTHING_KNOWN)) for stream, turn in unknown),
            *(self._begin_anew(taken) for taken, _ in failed),
        ]

    def _override(self, wave: list[Taken], X: FloatArray | None) -> list[Answered]:
        if not wave:
            return []
        A = np.array([turn.override for _, turn in wave], dtype=np.float64)
        slots = np.array([stream.slot for stream, _ in wave])
        self.relay.acting.override(slots, A, X)
        if self.monitor is not None:
            self.monitor.see(slots, X, A)
        self.counts.overrides += len(wave)
        return [(stream, Answer(turn.n, turn.override, "operator")) for stream, turn in wave]

    def _bridge(self, gaps: list[Taken]) -> None:
        """Make the actions of frames that never came; nobody gets them, but the next action goes on from there."""
        left = []
        for stream, turn in gaps:
            missing = turn.n - (stream.taken or 0) - 1
            self.counts.missing += missing
            left.append(missing if missing <= self._longest else 1)
        for number in range(max(left)):
            wave = [taken for taken, n in zip(gaps, left, strict=True) if n > number and taken[0].begun]
            if wave:
                done, failed = self._attempt(wave, None)
                self.counts.bridged_missing += len(done)
                for (stream, _), _error in failed:
                    self._forget(stream)

    # ------------------------------------------------------------------------------------------------------ what fails

    def _attempt(self, wave: list[Taken], X: FloatArray | None) -> tuple[list[Answered], list[tuple[Taken, Exception]]]:
        """Act on contexts X (n, m), or blindly; returns what was done, and what failed on its own."""
        slots = np.array([stream.slot for stream, _ in wave])
        acting = self.relay.acting
        try:
            actions = acting.miss(slots) if X is None else acting.step(slots, X)
        except Exception as error:  # a model of somebody else may raise anything
            if len(wave) == 1:
                return [], [(wave[0], error)]
            half = len(wave) // 2
            done, failed = self._attempt(wave[:half], None if X is None else X[:half])
            more, worse = self._attempt(wave[half:], None if X is None else X[half:])
            return done + more, failed + worse
        if self.monitor is not None:
            self.monitor.see(slots, X, actions)
        by: By = "gap" if X is None else "policy"
        done = [
            (stream, Answer(turn.n, a, by, None, 0, turn.problem))
            for (stream, turn), a in zip(wave, actions.tolist(), strict=True)
        ]
        return done, []

    def _begin_anew(self, taken: Taken) -> Answered:
        stream, turn = taken
        self._forget(stream)
        return stream, Answer(turn.n, error=DIVERGED)

    def _forget(self, stream: Stream) -> None:
        self.counts.diverged += 1
        # The actuator is where it is: only the policy forgets.
        self.relay.acting.reset(np.array([stream.slot]), None, actuators=False)
        stream.begun = False


def _explained(stream: Stream, turn: Turn) -> str:
    """Say why a policy may have failed; what it says itself is for whoever has its files, not for all the world."""
    if any(value is None or value != value for value in turn.x or ()):
        return MISSING
    return FAILED if stream.begun else NO_START
