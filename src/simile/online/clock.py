"""The clock of a predictor whose frames are time-stamped: which ticks are due, and what the context was at each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray
from simile.errors import ArgumentError
from simile.online.snapshots import State

LONGEST_PAUSE = 10.0  # seconds; after more, contexts start anew instead of thousands of ticks being run
TOLERANCE = 1e-6  # of a tick, by which a stamp may come early
COARSEST = 0.1  # of a tick, by which the float of a stamp may be off

NEVER = math.nan


class Clock:
    """Ticks at `rate` from the first stamp on, and the contexts stamped in between.

    Parameters
    ----------
    rate : float, optional
        Ticks per second; None where no stamp can be used.
    """

    def __init__(self, rate: float | None) -> None:
        self.rate = rate
        self.reset()

    def reset(self) -> None:
        """Forget every stamp."""
        self.now = NEVER  # the latest stamp
        self.begin(0.0)

    def begin(self, t: float) -> None:
        """Let tick 0 be at time t, and forget the contexts stamped before."""
        self.origin, self.ticks = t, 0  # when tick 0 is, and how many were run
        self.stamped = NEVER  # when the latest context came
        self.context = np.empty((1, 0))

    @property
    def running(self) -> bool:
        """Whether frames were stamped so far."""
        return self.now == self.now

    def check(self, t: Any, *, counted: bool) -> float:
        """Return a stamp as a number; refuse it where frames were `counted` without stamps, or time went back."""
        if t is None or (counted and not self.running):
            raise ArgumentError(
                f"t must be given in every frame or in none; got t={t!r} after frames "
                f"{'with' if t is None else 'without'} it: call reset() before changing over"
            )
        if self.rate is None:
            raise ArgumentError(
                "t: the policy's card does not say how many frames a second has: give rate=... to the Predictor"
            )
        seconds = checks.number(t, "t")
        if math.ulp(seconds) * self.rate > COARSEST:
            raise ArgumentError(
                f"t must be nearer to zero: at {seconds:g} s floats cannot tell frames at {self.rate:g} Hz apart: "
                "count the seconds from a later moment on"
            )
        if self.running and seconds <= self.now:
            raise ArgumentError(f"t must increase; got {seconds} after {self.now}: drop late frames, or call reset()")
        return seconds

    def is_paused(self, t: float) -> bool:
        """Whether there was nothing for too long before time t."""
        return self.running and t - self.now > LONGEST_PAUSE

    def due(self, t: float) -> range:
        """Return the ticks to run by time t."""
        position = (t - self.origin) * self._rate
        return range(self.ticks, math.floor(position + self._slack(t)) + 1)

    def context_at(self, tick: int, t: float, x: FloatArray | None) -> FloatArray | None:
        """Interpolate between the latest stamped context and x (1, m) of time t; None where x is.

        An entry missing in either is taken as it is in the one that is nearer in time.
        """
        when = self.origin + tick / self._rate
        if x is None or math.isnan(self.stamped) or (t - when) * self._rate <= self._slack(t):
            return x
        share = min(max((when - self.stamped) / (t - self.stamped), 0.0), 1.0)
        mixed = (1.0 - share) * self.context + share * x
        return np.where(np.isnan(mixed), x if share >= 0.5 else self.context, mixed)

    def note(self, t: float, x: FloatArray | None) -> None:
        """Note that a stamp was dealt with, and the context (1, m) that came with it."""
        self.now = t
        if x is not None:
            self.stamped, self.context = t, x

    def state(self, n_contexts: int) -> State:
        """Return the clock as plain numbers and an array (m,)."""
        known = self.context.shape[1] > 0
        return {
            "now": self.now,
            "origin": self.origin,
            "ticks": self.ticks,
            "stamped": self.stamped,
            "context": self.context[0].copy() if known else np.full(n_contexts, np.nan),
        }

    def load(self, state: State) -> None:
        """Take over what `state` returned."""
        self.now, self.origin, self.stamped = (float(state[name]) for name in ("now", "origin", "stamped"))
        self.ticks = int(state["ticks"])
        self.context = np.array(state["context"][np.newaxis])

    @property
    def _rate(self) -> float:
        return self.rate or NEVER

    def _slack(self, t: float) -> float:
        """Return by how much of a tick a stamp may be early: a little, and what the floats of large stamps round."""
        return TOLERANCE + 2.0 * self._rate * (math.ulp(t) + math.ulp(self.origin))
