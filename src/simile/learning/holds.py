"""How far to hold still: the hysteresis behind a policy, chosen by roll-outs of sequences that it has not seen.

A policy should turn no more often than the expert and rest as much, at the least error. The narrowest width that does
is nearly always the most accurate too, so that is what is looked for; whether to glide or to step is then read off the
errors of both, where both are smooth enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from simile._common.typing import FloatArray, PerAction, Trajectories
from simile.data.demonstrations import Demonstrations
from simile.data.recorded import Recorded
from simile.data.reference import Reference
from simile.metrics import count_reversals, play, share_rest
from simile.policies.hold import Hold

Data = TypeVar("Data", bound=Recorded)
WIDTHS = (0.0, *np.geomspace(0.004, 1.0, 20))  # standard deviations of the action
RESTING = 0.1  # share of time from which on an expert counts as one who rests
FEWER, ENOUGH = 0.9, 0.95  # share of the turns of the expert that a policy may have, and of the rest that it should
LENIENT = 1.1  # times the roughness of a policy that its steps may have, where nothing else is said
COST = 1.02  # times the squared error without a hysteresis that it may cost


@dataclass(frozen=True, eq=False)
class Backlash:
    """What a width does to one action of roll-outs."""

    width: float
    stepping: bool
    error: float = math.nan  # mean squared, standard units
    roughness: float = math.nan  # over the expert's
    kept: bool = True  # whether the expert's habits are


@dataclass(frozen=True, eq=False)
class Habits:
    """How the expert moves one action, to hold a policy to it; all in standard units.

    Parameters
    ----------
    demos : Demonstrations
        What the expert did; a part of it that is large enough to know the habits by, as `Folds.looked`.
    action : int
        Which action.
    begin : int
        How many first frames are the expert's.
    order : int
        Of the differences that roughness is measured by.
    """

    demos: Demonstrations
    action: int
    begin: int
    order: int = 2

    @cached_property
    def expert(self) -> Demonstrations:
        """The expert's sequences with this action alone."""
        return self.demos.only_action(self.action)

    @cached_property
    def reference(self) -> Reference:
        """What roll-outs are measured against."""
        return Reference(self.expert, begin=self.begin, order=self.order)

    @cached_property
    def threshold(self) -> float:
        """What is no motion."""
        return self.expert.logs[0].threshold

    @cached_property
    def fine(self) -> float:
        """What is no motion of a policy, whose roll-outs have no noise."""
        return replace(self.expert.logs[0], noise=0.0).threshold

    @cached_property
    def reversals(self) -> float:
        """How often the expert turns."""
        return float(count_reversals(self.expert.actions, self.threshold).sum())

    @cached_property
    def still(self) -> float:
        """The share of time that a policy should rest; 0 where the expert hardly does."""
        share = float(share_rest(self.expert.actions, self.threshold, self.demos.rate)[0])
        return ENOUGH * share if share >= RESTING else 0.0

    def pick(self, rolled: Trajectories) -> list[FloatArray]:
        """Return this action of roll-outs, (T, 1) each."""
        return [a[:, self.action : self.action + 1] for a in rolled]

    def keep(self, rolled: Sequence[FloatArray]) -> bool:
        """Tell whether roll-outs (T, 1) turn no more often than the expert, and rest as much."""
        if count_reversals(rolled, self.fine).sum() > FEWER * self.reversals:
            return False
        return not self.still or bool(share_rest(rolled, self.threshold, self.demos.rate)[0] >= self.still)

    def narrowest(self, rolled: Sequence[FloatArray], *, stepping: bool) -> Backlash:
        """Return the narrowest width with which roll-outs (T, 1) keep the expert's habits.

        Where that costs too much, the widest that does not.
        """

        def hold(i: int) -> list[FloatArray]:
            return list(rolled) if i == 0 else hold_all(Hold(np.array([WIDTHS[i]]), stepping), rolled, self.begin)

        def cheap(i: int) -> bool:
            return not self.reference.measure(hold(i)).error > COST * plain

        plain, last = self.reference.measure(rolled).error, len(WIDTHS) - 1
        found = 0 if self.keep(hold(0)) else _first(lambda i: self.keep(hold(i)), last)
        if not cheap(found):
            found = _first(lambda i: not cheap(i), found) - 1
        score = self.reference.measure(hold(found))
        return Backlash(WIDTHS[found], stepping, score.error, score.roughness, self.keep(hold(found)))

    def choose(
        self, rolled: Sequence[FloatArray], budget: float | None = None, stepping: bool | None = None
    ) -> Backlash:
        """Choose width and way for roll-outs (T, 1): the most accurate that is no rougher than `budget`, or now."""
        budget = LENIENT * self.reference.measure(rolled).roughness if budget is None else budget
        ways = (False, True) if stepping is None else (stepping,)
        found = [self.narrowest(rolled, stepping=way) for way in ways]
        # A play is hardly ever rougher than what it follows; where nothing is smooth enough, it is what there is.
        smooth = [o for o in found if not o.roughness > budget] or found[:1]
        return min(smooth, key=lambda o: (not o.kept, o.error, o.stepping))


def _first(true: Callable[[int], bool], last: int) -> int:
    """Return the first number from 1 to `last` that something is true of, or `last`: it stays true."""
    low, high = 0, last
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if true(middle) else (middle, high)
    return high


def fit_hold(
    rolled: Trajectories,
    demos: Demonstrations,
    *,
    begin: int,
    budget: PerAction | None = None,
    stepping: Sequence[bool] | None = None,
) -> Hold | None:
    """Choose the hysteresis of each action for roll-outs over demonstrations, both in standard units."""
    rolled = [a[d.counted] for a, d in zip(rolled, demos, strict=True)]  # elsewhere nobody showed how to move
    demos, k = Demonstrations(tuple(d.cut(d.counted.start, d.counted.stop) for d in demos)), demos.n_actions
    budgets = [None] * k if budget is None else np.broadcast_to(budget, (k,)).tolist()
    ways = [None] * k if stepping is None else stepping
    habits = [Habits(demos, j, begin) for j in range(k)]
    found = [h.choose(h.pick(rolled), b, way) for h, b, way in zip(habits, budgets, ways, strict=True)]
    if not any(o.width for o in found):
        return None
    return Hold(np.array([o.width for o in found]), np.array([o.stepping for o in found]))


def aim(demos: Data, width: Sequence[float]) -> Data:
    """Return what a policy with a play of this width behind it should follow, in standard units.

    What comes out is `width` behind wherever it moves, so f learns to aim as much further, in the direction of the
    move; between moves anything within the width would do, and it goes over from one side to the other.
    """
    if not any(width):
        return demos
    return demos.convert(_aim, shared=(width, np.array([log.threshold for log in demos.logs])))


def _aim(demos: Demonstrations, width: Sequence[float], thresholds: FloatArray) -> Demonstrations:
    aimed = []
    for actions in demos.actions:
        moves, ahead = np.diff(play(actions, thresholds / 2.0), axis=0, prepend=np.nan), np.zeros_like(actions)
        for j, steps in enumerate(moves.T):
            moving = np.flatnonzero(np.nan_to_num(steps))
            if len(moving):
                ahead[:, j] = np.interp(np.arange(len(steps)), moving, np.sign(steps[moving]))
        aimed.append(actions + np.asarray(width) * ahead)
    return demos.with_actions(aimed)


def hold_part(_: Demonstrations, rolled: Trajectories, hold: Hold | None, begin: int) -> list[FloatArray]:
    """Let the roll-outs of a part pass a hysteresis."""
    return hold_all(hold, rolled, begin)


def hold_all(hold: Hold | None, rolled: Trajectories, begin: int) -> list[FloatArray]:
    """Let roll-outs pass a hysteresis, all but the first frames, which are the expert's."""
    if hold is None:
        return list(rolled)
    lengths = [len(a) for a in rolled]
    frame = np.concatenate([np.arange(n) for n in lengths])
    joined = hold.along(np.concatenate(rolled), frame < max(begin, 1))
    return np.split(joined, np.cumsum(lengths)[:-1])
