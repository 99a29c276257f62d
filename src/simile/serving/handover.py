"""Bumpless hand-over: for a while two policies act on the same frames, and what is sent moves from one to the other.

Each stream is handed over in frames of its own, so that one that pauses finds its old policy still there. The new
policy takes what was sent for its own past, and goes on from there; the old one goes on as if nothing had happened.
Stages come after the mixing: a limit of the actuator holds throughout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.online.streams import Streams

DEEPEST = 8  # hand-overs within each other


class Handover:
    """Two policies at work, the second of which takes over.

    Parameters
    ----------
    old : Acting
        What acts now; it may be a hand-over itself.
    new : Streams
        What will act; it has adopted the past.
    frames : int
        How many frames of each stream it takes.
    """

    def __init__(self, old: Acting, new: Streams, frames: int) -> None:
        self.old, self.new, self.frames = old, new, max(1, frames)
        self.depth: int = 1 + (old.depth if isinstance(old, Handover) else 0)
        self._since = np.zeros(len(new.everyone), np.intp)  # frames of each stream since the hand-over began

    def step(self, streams: IntArray, X: FloatArray) -> FloatArray:
        """Take a frame with contexts X (n, m); returns what to send, (n, k)."""
        return self.new.send(streams, self.choose(streams, X))

    def miss(self, streams: IntArray) -> FloatArray:
        """Take a frame that brought no contexts; returns what to send, (n, k)."""
        return self.new.send(streams, self.choose_blind(streams))

    def choose(self, streams: IntArray, X: FloatArray) -> FloatArray:
        """Do as `step` does, but for the stages."""
        return self._mix(streams, lambda who, rows: who.choose(streams[rows], X[rows]))

    def choose_blind(self, streams: IntArray) -> FloatArray:
        """Do as `miss` does, but for the stages."""
        return self._mix(streams, lambda who, rows: who.choose_blind(streams[rows]))

    def override(self, streams: IntArray, A: FloatArray, X: FloatArray | None) -> FloatArray:
        """Take a frame in which operators act: both policies go on from there."""
        self.old.override(streams, A, X)
        return self.new.override(streams, A, X)

    def reset(self, streams: IntArray, start: Any, *, actuators: bool = True) -> None:
        """Forget all about some streams; a new one has no old policy."""
        self.new.reset(streams, start, actuators=actuators)
        self.old.reset(streams, None)
        self._since[streams] = self.frames

    def mark(self, streams: IntArray) -> Any:
        """Return what `withdraw` needs."""
        return self.new.mark(streams), self.old.mark(streams), self._since[streams]

    def withdraw(self, streams: IntArray, mark: Any) -> None:
        """Take back the frame since `mark`."""
        new, old, since = mark
        self.new.withdraw(streams, new)
        both = since < self.frames  # the old policy has not seen the others
        if both.any():
            self.old.withdraw(streams[both], _select_rows(old, both))
        self._since[streams] = since

    def settle(self, live: IntArray) -> Acting:
        """Return what acts from now on: the new policy alone, where all streams that live were handed over."""
        if (self._since[live] >= self.frames).all():
            return self.new
        if isinstance(self.old, Handover):
            self.old = self.old.settle(live)
            self.depth = 1 + (self.old.depth if isinstance(self.old, Handover) else 0)
        return self

    def _mix(self, streams: IntArray, act: Callable[[Acting, Any], FloatArray]) -> FloatArray:
        both = self._since[streams] < self.frames
        if not both.any():
            return act(self.new, slice(None))
        before = self.new.mark(streams)
        actions = act(self.new, slice(None))
        try:
            old = act(self.old, both)
        except BaseException:
            self.new.withdraw(streams, before)  # a frame that fails is taken by nobody
            raise
        both[both] = acted = ~np.isnan(old).any(axis=1)  # of who waits there is nothing to hand over yet
        handed, old = streams[both], old[acted]
        self._since[handed] += 1
        part = (self._since[handed] / self.frames)[:, np.newaxis]
        mixed = old + part * part * (3.0 - 2.0 * part) * (actions[both] - old)
        self.new.rewrite(handed, mixed)
        actions[both] = mixed
        return actions


Acting = Streams | Handover  # what serves frames: one policy, or a hand-over between two


def _select_rows(mark: Any, rows: Any) -> Any:
    """Return a mark, which may hold others, for some of its streams."""
    return tuple(_select_rows(part, rows) if isinstance(part, tuple) else part[rows] for part in mark)
