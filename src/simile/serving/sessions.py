"""Streams as the service knows them: a name, a place in the pool, frames that wait, and what has happened."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

from msgspec import Struct

from simile.errors import SimileError
from simile.serving.counts import Counts
from simile.serving.messages import FURTHEST, LARGEST_N, Answer, By

Sink = Callable[["Stream", Answer], None]


class Refusal(SimileError):  # noqa: N818 - nothing went wrong
    """What a service does not do; `code` is a word for programs, the message is a sentence for people."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class QueuedFrame(Struct, gc=False):
    """A frame that waits: its number, what it brought, and when."""

    n: int
    x: list[float | None] | None  # None: dropped, or not to be used
    override: list[float] | None
    problem: str | None  # why it cannot be used
    arrived: float  # seconds

    def without_context(self, problem: str) -> QueuedFrame:
        """Return it as a frame whose context cannot be used, and why."""
        return QueuedFrame(self.n, None, self.override, problem, self.arrived)


class Stream:
    """One stream of a service.

    Attributes
    ----------
    name : str
        Who it is.
    slot : int
        Its place in the pool; -1 once it is closed, or was opened by somebody else.
    sink : callable or None
        Where answers go; None while nobody is connected.
    n : int or None
        The number of the last frame that came, or that was bridged at a deadline.
    frames, dropped, late, unsent : int
        Frames taken, dropped, and too late; answers not sent.
    lost : int
        What the next answer must tell.
    by : str or None
        Who made the last action.
    hand : list of float or None
        What an operator does, who has taken the stream over.
    band : float or None
        Level of the band that it asked for.
    """

    __slots__ = (
        "band",
        "begun",
        "by",
        "deadline",
        "dropped",
        "due",
        "frames",
        "hand",
        "late",
        "lost",
        "n",
        "name",
        "period",
        "queue",
        "received",
        "seen",
        "sink",
        "slot",
        "taken",
        "unsent",
    )

    def __init__(self, name: str, slot: int) -> None:
        self.name = name
        self.slot = slot
        self.sink: Sink | None = None
        self.queue: deque[QueuedFrame] = deque()
        self.n: int | None = None
        self.received: int | None = None  # the last number that came
        self.taken: int | None = None  # the last number that was answered by a batch
        self.begun = False  # is there a past to bridge from?
        self.period = self.deadline = 0.0  # seconds from frame to frame, and by which one may be late
        self.due = math.inf  # when the next frame will be late
        self.seen = -math.inf  # when the last frame came
        self.frames = self.dropped = self.late = self.unsent = self.lost = 0
        self.by: By | None = None
        self.hand: list[float] | None = None
        self.band: float | None = None

    @property
    def closed(self) -> bool:
        """Whether it takes no more frames."""
        return self.slot < 0

    def make_successor(self) -> Stream:
        """Return the same stream for another connection; this one, which has nothing waiting, is closed by it."""
        heir = Stream(self.name, self.slot)
        for name in ("begun", "by", "dropped", "frames", "hand", "late", "lost", "taken", "unsent"):
            setattr(heir, name, getattr(self, name))
        heir.n = heir.received = self.taken
        self.slot = -1
        return heir

    def drop(self, frames: int) -> None:
        """Note that frames were dropped; the next answer tells."""
        self.dropped += frames
        self.lost += frames

    def refuse(self, n: int, last: int | None, now: float, counts: Counts) -> str:
        """Note a frame whose number has been, or that nobody could count to; returns a sentence."""
        self.lost += 1
        if n > LARGEST_N or last is None:
            counts.far_ahead += 1
            return f"the numbers of this stream end with {LARGEST_N}: open it anew"
        if n - last > FURTHEST:
            counts.far_ahead += 1
            return (
                f"n must be at most {FURTHEST:,} above the last one, {last}; got {n}: number frames one by one, or "
                "open the stream anew"
            )
        if self.received is not None and n > self.received:
            counts.late += 1
            self.late += 1
            self.received = n
            # The frames after it are likely to come as late: their time is counted from this one.
            self.due = now + self.period + self.deadline
            return f"frame {n} came after its deadline: its action was made without it"
        if n == last:
            counts.duplicates += 1
            return f"frame {n} has come before"
        counts.out_of_order += 1
        return f"frame {n} came after frame {last}: numbers must increase"

    def make_overdue(self, now: float) -> QueuedFrame:
        """Return the frame that did not come in time; the next one is due a period later."""
        self.n = 0 if self.n is None else self.n + 1
        self.due = max(self.due + self.period, now)
        return QueuedFrame(self.n, None, self.hand, None, now)

    def unsend(self, answers: int = 1) -> None:
        """Note that answers were not sent; the next one tells."""
        self.unsent += answers
        self.lost += answers
