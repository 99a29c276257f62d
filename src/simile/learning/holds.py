"""How far to hold still: the hysteresis behind a policy, chosen by roll-outs of sequences that it has not seen.

A policy should turn about as often as the expert and rest about as much. The wider the hysteresis, the less it turns
and the more it rests, so that the width at which it is as much too lively as too calm is the one most like the expert.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from simile._common.typing import FloatArray, PerAction, Trajectories
from simile.data.demonstrations import Demonstrations
from simile.data.logs import Log
from simile.data.reference import Reference
from simile.metrics import count_reversals, share_rest
from simile.policies.hold import Hold

WIDTHS = (0.0, *np.geomspace(0.004, 1.0, 20))  # standard deviations of the action
# Within these a policy is like the expert: its reversals and the time at rest over the expert's, and a share of time
# that makes no difference.
REVERSALS, REST, SLIGHT = (0.5, 1.2), (0.7, 1.5), 0.05
COST = 1.02  # times the squared error without a hysteresis that it may cost
LENIENT = 1.1  # times the roughness of a policy that its steps may have, where nothing else is said


@dataclass(frozen=True, eq=False)
class HoldTrial:
    """What a width does to one action of roll-outs."""

    width: float
    stepping: bool
    lively: float  # how much it turns too often or rests too little: 1 where it is just like the expert still
    calm: float  # how much it turns too rarely or rests too much
    error: float  # mean squared, standard units
    roughness: float  # over the expert's

    @property
    def unlike(self) -> float:
        """How unlike the expert it is: 1 where it is just like the expert still."""
        return max(self.lively, self.calm)


@dataclass(frozen=True, eq=False)
class Habits:
    """How the expert moves one action, to hold a policy to it; all in standard units.

    Parameters
    ----------
    demos : Demonstrations
        What the expert did, with this action alone.
    begin : int
        How many first frames are the expert's.
    log : Log
        By which noise is told from motion.
    """

    demos: Demonstrations
    begin: int
    log: Log

    @cached_property
    def reference(self) -> Reference:
        """What roll-outs are measured against."""
        return Reference(self.demos, begin=self.begin, logs=(self.log,))

    @cached_property
    def expert(self) -> tuple[float, float]:
        """How often the expert turns, and the share of time at rest."""
        return self._count(self.demos.actions)

    def _count(self, actions: Trajectories) -> tuple[float, float]:
        threshold = self.log.threshold
        turns = float(count_reversals(actions, threshold).sum())
        return turns, float(share_rest(actions, threshold, self.demos.rate)[0])

    def hold(self, rolled: Sequence[FloatArray], width: float, *, stepping: bool) -> HoldTrial:
        """Let roll-outs (T, 1) pass a hysteresis, and measure them."""
        held = hold_all(Hold(np.array([width]), np.array([stepping])) if width else None, rolled, self.begin)
        (turns, rest), (own_turns, own_rest) = self.expert, self._count(held)
        more = math.log(max(own_turns, 0.5) / max(turns, 0.5))
        longer = math.log(max(own_rest, 1e-9) / max(rest, 1e-9))
        restless = min(longer / math.log(REST[0]), (rest - own_rest) / SLIGHT)
        restful = min(longer / math.log(REST[1]), (own_rest - rest) / SLIGHT)
        lively = max(more / math.log(REVERSALS[1]), restless)
        calm = max(more / math.log(REVERSALS[0]), restful)
        score = self.reference.measure(held)
        return HoldTrial(width, stepping, lively, calm, score.error, score.roughness)

    def search(self, rolled: Sequence[FloatArray], *, stepping: bool) -> HoldTrial:
        """Return the width at which roll-outs (T, 1) are most like the expert, and that does not cost too much."""
        known = {0: self.hold(rolled, 0.0, stepping=stepping)}

        def at(i: int) -> HoldTrial:
            if i not in known:
                known[i] = self.hold(rolled, WIDTHS[i], stepping=stepping)
            return known[i]

        low, high = 0, len(WIDTHS) - 1
        if at(0).lively <= max(at(0).calm, 0.0):
            return at(0)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if at(middle).lively <= at(middle).calm else (middle, high)
        best = min((low, high), key=lambda i: at(i).unlike)
        while best and not at(best).error <= COST * at(0).error:
            best -= 1
        return at(best)

    def choose(self, rolled: Sequence[FloatArray], budget: float | None = None) -> HoldTrial:
        """Choose width and way for roll-outs (T, 1): the most accurate that is no rougher than `budget`, or now."""
        budget = LENIENT * self.reference.measure(rolled).roughness if budget is None else budget
        found = [self.search(rolled, stepping=way) for way in (False, True)]
        # A play is hardly ever rougher than what it follows; where nothing is smooth enough, it is what there is.
        smooth = [held for held in found if not held.roughness > budget] or found[:1]
        return min(smooth, key=lambda held: (held.unlike > 1.0, held.error, held.stepping))


def fit_hold(
    rolled: Trajectories,
    demos: Demonstrations,
    *,
    begin: int,
    logs: Sequence[Log],
    budget: PerAction | None = None,
) -> Hold | None:
    """Choose the hysteresis of each action for roll-outs over demonstrations, both in standard units."""
    rolled = [a[d.counted] for a, d in zip(rolled, demos, strict=True)]  # elsewhere nobody showed how to move
    demos = Demonstrations(tuple(d.cut(d.counted.start, d.counted.stop) for d in demos))
    budgets = [None] * demos.n_actions if budget is None else np.broadcast_to(budget, (demos.n_actions,)).tolist()
    found = [
        Habits(demos.only_action(j), begin, log).choose([a[:, j : j + 1] for a in rolled], one)
        for j, (one, log) in enumerate(zip(budgets, logs, strict=True))
    ]
    if not any(held.width for held in found):
        return None
    return Hold(np.array([held.width for held in found]), np.array([held.stepping for held in found]))


def hold_all(hold: Hold | None, rolled: Trajectories, begin: int) -> list[FloatArray]:
    """Let roll-outs pass a hysteresis, all but the first frames, which are the expert's."""
    if hold is None:
        return list(rolled)
    lengths = [len(a) for a in rolled]
    frame = np.concatenate([np.arange(n) for n in lengths])
    joined = hold.along(np.concatenate(rolled), frame < max(begin, 1))
    return np.split(joined, np.cumsum(lengths)[:-1])
