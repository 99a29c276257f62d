"""The registry of streams: they come, come again and go, and every one that lives has a slot of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.errors import ArgumentError
from simile.policies.bands import check_level
from simile.serving.counts import Counts
from simile.serving.sessions import Refusal, Stream
from simile.serving.switcher import PolicySwitcher

Begin = Callable[[Stream, list[FloatArray] | None], None]  # makes the slot of a stream new, from known actions or cold
End = Callable[[Stream], None]


class StreamRegistry:
    """Knows the streams by name and by slot; a slot that was left is used again.

    Parameters
    ----------
    n_slots : int
        How many streams there can be.
    switcher : PolicySwitcher
        Who acts; asked for the rate and for how many actions there are.
    begin, end : callable
        Makes a slot new; answers what a stream that ends still waits for.
    counts : Counts
        What happens is counted here.
    clock : callable
        Seconds.
    """

    def __init__(
        self, n_slots: int, switcher: PolicySwitcher, begin: Begin, end: End, counts: Counts, clock: Callable[[], float]
    ) -> None:
        self.n_slots, self.switcher, self.counts, self.clock = n_slots, switcher, counts, clock
        self._begin, self._end = begin, end
        self._free = list(range(n_slots - 1, -1, -1))  # the lowest is used first
        self._by_name: dict[str, Stream] = {}
        self._by_slot: dict[int, Stream] = {}
        self.by_name: Mapping[str, Stream] = MappingProxyType(self._by_name)
        self.by_slot: Mapping[int, Stream] = MappingProxyType(self._by_slot)
        self.timed: dict[Stream, None] = {}  # those with a deadline, in order

    @property
    def slots(self) -> IntArray:
        """The slots of all streams."""
        return np.array(list(self._by_slot), dtype=np.intp)

    def open(
        self, name: str, *, start: Sequence[float] | None, deadline: float, resume: bool, band: float | None
    ) -> Stream:
        """Begin a stream, or go on with one; see `Service.open`."""
        period, known, level = self._compute_period(deadline), self._read_start(start), self._read_band(band)
        present = self._by_name.get(name)
        if present is None and not self._free:
            raise self.refuse("full", f"all {self.n_slots} streams are taken: close one, wait, or raise --max-streams")
        if resume and present is not None:
            self.detach(present)
            stream = present.make_successor()
            self.counts.resumed += 1
        else:
            if present is not None:
                self.close(present)
            stream = Stream(name, self._free.pop())
            self._begin(stream, known)
            self.counts.opened += 1
        stream.seen, stream.period, stream.deadline, stream.band = self.clock(), period, float(deadline), level
        if deadline:
            self.timed[stream] = None
        self._add(stream)
        return stream

    def detach(self, stream: Stream) -> None:
        """Leave a stream without a reader; what waits is dropped, and its numbers may come again."""
        self.counts.dropped += len(stream.queue)
        stream.drop(len(stream.queue))
        stream.queue.clear()
        stream.sink, stream.due = None, math.inf
        stream.n = stream.received = stream.taken
        self.timed.pop(stream, None)

    def close(self, stream: Stream) -> None:
        """End a stream; its slot is free again."""
        self._end(stream)
        self.detach(stream)
        del self._by_name[stream.name], self._by_slot[stream.slot]
        self._free.append(stream.slot)
        stream.slot = -1
        self.counts.closed += 1

    def restore(self, streams: Sequence[Stream]) -> None:
        """Add streams that bring their slots with them, and have begun elsewhere."""
        for stream in streams:
            stream.seen = self.clock()
            self._free.remove(stream.slot)
            self._add(stream)

    def refuse(self, code: str, sentence: str) -> Refusal:
        """Count a refusal, for the caller to raise."""
        self.counts.refused += 1
        return Refusal(code, sentence)

    def _add(self, stream: Stream) -> None:
        self._by_name[stream.name] = self._by_slot[stream.slot] = stream

    def _read_start(self, start: Sequence[float] | None) -> list[FloatArray] | None:
        if start is None:
            return None
        k = self.switcher.streams.n_actions
        known = np.array(start, dtype=np.float64)
        if known.shape != (k,) or not np.isfinite(known).all():
            raise self.refuse("start", f"start must be {k} finite numbers, the last action; got {list(start)}")
        try:
            return [self.switcher.streams.engine.bounds.check_given(known, "start")]
        except ArgumentError as error:
            raise self.refuse("start", str(error)) from None

    def _read_band(self, band: float | None) -> float | None:
        """Return the level of a band, where one is asked for that the policy has."""
        try:
            if band is not None:
                self.switcher.streams.require_band()
            return None if band is None else check_level(band)
        except ArgumentError as error:
            raise self.refuse("band", str(error)) from None

    def _compute_period(self, deadline: float) -> float:
        """Return the seconds from frame to frame, which a deadline needs."""
        rate = self.switcher.streams.rate
        if not 0.0 <= deadline < math.inf:
            raise self.refuse("deadline", f"deadline must be in seconds, 0 for none; got {deadline}")
        if deadline and rate is None:
            raise self.refuse("deadline", "deadline: the policy does not know its frames per second: give --rate")
        return 1.0 / rate if rate is not None else 0.0
