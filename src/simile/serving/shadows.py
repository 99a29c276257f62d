"""Shadows: candidates that act beside the policy at work, on the same frames, and of whom nothing is ever sent.

They run when the answers have gone out and nobody waits, and are the first to be dropped under load. A shadow goes its
own way from where its stream began. After frames that it has skipped, and when an operator hands back, it goes on from
the past of the policy at work: from what was really done.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.online.streams import Streams
from simile.serving.openapi import ShadowFacts, ShadowScore
from simile.serving.switcher import PreparedPolicy

PATIENCE = 0.1  # seconds that a batch waits for the shadows before all that wait are dropped
SLOW = 0.02  # seconds that an answer took; after a slower one the shadows leave their turn to others

NOBODY = np.arange(0)

log = logging.getLogger("simile.serving")


@dataclass(frozen=True, eq=False, slots=True)
class Turn:
    """A frame of different streams, as it was answered."""

    slots: IntArray  # (n,)
    X: FloatArray | None  # (n, m)
    A: FloatArray  # (n, k): what was sent
    who: str
    at: float  # seconds


@dataclass(frozen=True, eq=False, slots=True)
class Beginning:
    """A slot that was made new."""

    slots: IntArray  # (1,)
    start: Any
    actuators: bool
    at: float  # seconds


@dataclass(eq=False)
class MeanSquare:
    """Squares of differences to what was done, one sum for each action, and the frames they are of."""

    squares: FloatArray  # (k,)
    frames: int = 0

    def add(self, differences: FloatArray) -> None:
        """Add those of some frames, (n, k)."""
        self.squares += np.einsum("nk,nk->k", differences, differences)
        self.frames += len(differences)

    @property
    def mean(self) -> list[float] | None:
        """The mean square of each action; None without a frame."""
        return (self.squares / self.frames).tolist() if self.frames else None


class Shadow:
    """One candidate.

    Parameters
    ----------
    name : str
        What it is called.
    prepared : PreparedPolicy
        What acts.

    Attributes
    ----------
    operator, policy : MeanSquare
        How far it was from what operators did, and from what the policy at work did.
    roughness, done : MeanSquare
        Second differences of its own actions, and of what was done in the same frames.
    frames, skipped, failed : int
        Frames that it acted in, that it did not see, and that it could not act on.
    seconds : float
        CPU time that it took.
    """

    def __init__(self, name: str, prepared: PreparedPolicy) -> None:
        self.name, self.digest, self.streams = name, prepared.file_digest, prepared.streams
        n, k = len(self.streams.everyone), self.streams.n_actions
        self.operator, self.policy, self.roughness, self.done = (MeanSquare(np.zeros(k)) for _ in range(4))
        self.frames = self.skipped = self.failed = 0
        self.seconds = 0.0
        self._stale = np.zeros(n, np.bool_)  # goes on from the past of the policy at work
        self._led = np.zeros(n, np.bool_)  # an operator acted in the last frame
        self._past = np.full((n, 2, 2, k), np.nan)  # the last two actions, the latest first: its own, and those done

    def look(self, slot: int) -> list[float] | None:
        """Return what it would have done in the last frame of a stream; None where it did not act."""
        own = self.streams.preparer.restore(self._past[slot, 0, 0])
        return None if np.isnan(own).any() else own.tolist()

    def begin(self, slots: IntArray, start: Any, *, actuators: bool) -> None:
        """Make streams new."""
        self.streams.reset(slots, start, actuators=actuators)
        self._past[slots] = np.nan
        self._stale[slots] = self._led[slots] = False

    def follow(self, turn: Turn) -> None:
        """Act in a frame, and compare with what was done."""
        slots, led = turn.slots, turn.who == "operator"
        if not led:
            self._stale[slots] |= self._led[slots]  # an operator has handed back
        self._led[slots] = led
        if turn.X is None:  # who has no past cannot bridge
            self._stale[slots] |= ~self.streams.history.begun[slots]
        here = ~self._stale[slots]
        if here.any():
            seen, done = slots[here], turn.A[here]
            own = self.streams.miss(seen) if turn.X is None else self.streams.step(seen, turn.X[here])
            self.streams.chain.restarted.clear()
            self._compare(seen, own, done, turn.who)
        self.frames += int(np.count_nonzero(here))
        self.skipped += int(np.count_nonzero(~here))

    def leave_out(self, slots: IntArray) -> None:
        """Let streams go on from the past of the policy at work, as soon as it can be."""
        self._stale[slots] = True
        self._past[slots] = np.nan

    def catch_up(self, at_work: Streams) -> None:
        """Let streams that have skipped frames go on from what was done."""
        stale = np.flatnonzero(self._stale)
        if len(stale):
            self.streams.adopt(at_work, stale)
            self._past[stale] = np.nan
            self._stale[stale] = False

    def describe(self) -> ShadowFacts:
        """Return what may be told of it."""
        return ShadowFacts(
            name=self.name,
            digest=self.digest,
            frames=self.frames,
            skipped=self.skipped,
            failed=self.failed,
            seconds=round(self.seconds, 6),
            operator=ShadowScore(self.operator.frames, self.operator.mean),
            policy=ShadowScore(self.policy.frames, self.policy.mean),
            roughness=self.roughness.mean,
            roughness_done=self.done.mean,
        )

    def _compare(self, slots: IntArray, own: FloatArray, done: FloatArray, who: str) -> None:
        apart = own - done
        apart = apart[~np.isnan(apart).any(axis=1)]  # where neither waits
        if who == "operator":
            self.operator.add(apart)
        elif who == "policy":
            self.policy.add(apart)
        now, past = np.stack([own, done], axis=1), self._past[slots]  # (n, 2, k) and (n, 2, 2, k)
        second = now - 2.0 * past[:, 0] + past[:, 1]
        known = ~np.isnan(second).any(axis=(1, 2))
        self.roughness.add(second[known, 0])
        self.done.add(second[known, 1])
        self._past[slots, 1], self._past[slots, 0] = past[:, 0], now


class Shadows:
    """The candidates of a service, and the batches that wait for them.

    Parameters
    ----------
    prepared : mapping of str to PreparedPolicy
        By name.
    clock : callable
        Seconds.
    """

    def __init__(self, prepared: Mapping[str, PreparedPolicy], clock: Callable[[], float]) -> None:
        self.all = tuple(Shadow(name, one) for name, one in prepared.items())
        self.clock = clock
        self._turns: deque[Turn | Beginning] = deque()

    @property
    def has_turns(self) -> bool:
        """Whether something waits for the shadows."""
        return bool(self._turns)

    def begin(self, slot: int, start: Any, *, actuators: bool = True) -> None:
        """Note that a slot was made new."""
        self._turns.append(Beginning(np.array([slot]), start, actuators, self.clock()))

    def note(self, slots: IntArray, X: FloatArray | None, A: FloatArray, who: str) -> None:
        """Note a frame of different streams that was answered; the arrays must not change."""
        self._turns.append(Turn(slots, X, A, who, self.clock()))

    def join(self, slot: int) -> None:
        """Note a stream that began elsewhere: the shadows go on from the past of the policy at work."""
        for shadow in self.all:
            shadow.leave_out(np.array([slot]))

    def run(self, at_work: Streams) -> None:
        """Take the oldest batch; when none is left, who has skipped some goes on from the past of the one at work.

        `at_work` has taken all that was noted.
        """
        turn = self._turns.popleft() if self._turns else None
        for shadow in self.all:
            begin = time.thread_time()
            if isinstance(turn, Beginning):
                begin_anew = partial(shadow.begin, turn.slots, turn.start, actuators=turn.actuators)
                _try(shadow, begin_anew, turn.slots, frames=0)
            elif turn is not None:
                _try(shadow, partial(shadow.follow, turn), turn.slots, frames=len(turn.slots))
            if not self._turns:
                _try(shadow, partial(shadow.catch_up, at_work), NOBODY, frames=0)
            shadow.seconds += time.thread_time() - begin

    def drop(self) -> None:
        """Leave out all that waits: others need the time."""
        while self._turns:
            turn = self._turns.popleft()
            for shadow in self.all:
                shadow.leave_out(turn.slots)
                shadow.skipped += len(turn.slots) if isinstance(turn, Turn) else 0

    def is_late(self) -> bool:
        """Tell whether the oldest batch has waited for too long."""
        return bool(self._turns) and self.clock() - self._turns[0].at > PATIENCE

    def look(self, slot: int) -> dict[str, list[float] | None]:
        """Return what each would have done in the last frame of a stream, by name."""
        return {shadow.name: shadow.look(slot) for shadow in self.all}


def _try(shadow: Shadow, act: Callable[[], None], slots: IntArray, *, frames: int) -> None:
    """Let a shadow do something with these streams; where it fails, so many frames have."""
    try:
        act()
    except Exception as error:  # a model of somebody else may raise anything, and nobody waits for it
        shadow.failed += frames
        shadow.leave_out(slots)
        log.warning("the shadow %s failed: %s", shadow.name, str(error)[:200])
