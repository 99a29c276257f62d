"""How good roll-outs are, in standard units, and the quantities of Section 5 measured along them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from simile._common.sums import ExactSum
from simile._common.typing import FloatArray, Trajectories
from simile.data.demonstrations import Demonstrations
from simile.data.logs import Log
from simile.data.losses import mean_difference
from simile.data.recorded import Recorded
from simile.data.states import States
from simile.errors import DataError, DivergedError
from simile.policies.policies import Policy, given_frames, timing
from simile.policies.rollouts import rollout


@dataclass(frozen=True, eq=False)
class Score:
    """How roll-outs compare with the expert's trajectories.

    Attributes
    ----------
    error : float
        Mean squared error in standard units; infinite where a roll-out diverged, NaN where no frame counts.
    roughness : float
        Mean absolute difference over the expert's, the mean over the actions; NaN where the expert never moves.
    """

    error: float
    roughness: float

    @property
    def rmse(self) -> float:
        """The root of the error: in standard deviations of the expert's actions that the policy was trained on."""
        return math.sqrt(self.error)

    @property
    def diverged(self) -> bool:
        """Whether the policy left every reasonable range."""
        return math.isinf(self.error)


@dataclass(frozen=True, eq=False)
class Outcome(Score):
    """A score, and the roll-out from the expert's start that it is of.

    A diverged policy has no roll-out to learn from, so `rolled` is then the expert's own trajectory, where
    Algorithm 1 begins too (A_0 = A*).
    """

    rolled: list[FloatArray] = field(repr=False)


@dataclass(frozen=True, eq=False)
class ScoreSums:
    """What a score is made of, summed over sequences; which are added first does not matter."""

    squares: ExactSum  # of errors in standard units, each times its weight
    count: float  # how many were summed, or their weights
    ours: ExactSum  # (k,) absolute differences of the roll-outs
    expert: ExactSum  # (2, k) those of the expert, and the absolute actions

    def __add__(self, other: ScoreSums) -> ScoreSums:
        return ScoreSums(
            self.squares + other.squares,
            self.count + other.count,
            self.ours + other.ours,
            self.expert + other.expert,
        )

    @property
    def score(self) -> Score:
        """The means of what was summed; where something diverged the expert acts, as rough as the expert is."""
        error = float(self.squares.value) / self.count if self.count else math.nan
        theirs, sizes = self.expert.value
        ours = theirs if math.isinf(error) else self.ours.value
        moving = theirs > 1e-12 * sizes  # what rounding alone leaves of a straight line is no roughness to compare with
        with np.errstate(over="ignore", invalid="ignore"):
            return Score(error, float(np.mean(ours[moving] / theirs[moving])) if moving.any() else math.nan)


@dataclass(frozen=True, eq=False)
class Ruler:
    """What roll-outs are measured against: an expert, units, and the frames that count.

    Parameters
    ----------
    demos : Demonstrations
        What the expert did.
    scale : (k,) array
        Units of the errors, those of the policy: standard deviations of the actions that it was trained on. 1 where
        the demonstrations are in standard units.
    begin : int
        How many first frames are the expert's: their errors do not count.
    whole : bool
        Whether differences of those frames count, so that a jump from what was given does.
    order : int
        Of the differences that roughness is measured by.
    logs : tuple of Log, optional
        By which noise is told from motion, so that roughness is that of the motion; those of `demos` by default.
    """

    demos: Demonstrations
    scale: FloatArray | float = 1.0
    begin: int = 0
    whole: bool = True
    order: int = 2
    logs: tuple[Log, ...] | None = None

    @classmethod
    def of(cls, policy: Policy, demos: Demonstrations, *, order: int = 2, logs: tuple[Log, ...] | None = None) -> Ruler:
        """Measure in the units of a policy, over the frames that it chooses itself."""
        return cls(demos, policy.units.scale, given_frames(policy), order=order, logs=logs)

    def measure(self, rolled: Trajectories) -> Score:
        """Measure roll-outs of all demonstrations."""
        return self.sums(rolled).score

    def sums(self, rolled: Trajectories) -> ScoreSums:
        """Sum what the score is made of, to be added to that of other sequences."""
        begin, weights = self.begin, self.demos.weights
        ours = [_differences(a, self.order) for a in self._moving(rolled)]
        counted = [a[begin:].size for a in rolled] if weights is None else [w[begin:].sum() for w in weights]
        return ScoreSums(
            ExactSum.of(self.squares(rolled)), float(sum(counted)), ExactSum.of(np.array(ours)), self._expert
        )

    def squares(self, rolled: Trajectories) -> FloatArray:
        """Sum the squared errors of each sequence, times their weights, (n,)."""
        gaps = [(a - b)[self.begin :] / self.scale for a, b in zip(rolled, self.demos.actions, strict=True)]
        if (weights := self.demos.weights) is not None:
            gaps = [np.sqrt(w[self.begin :]) * gap for w, gap in zip(weights, gaps, strict=True)]
        return np.array([np.sum(gap**2) for gap in gaps])

    @cached_property
    def _expert(self) -> ExactSum:
        """The expert's part of the sums, which every roll-out is compared with: of the motion, without noise."""
        actions = self._moving(self.demos.actions)
        kept = np.array([log.kept[self.order - 1] for log in self.known_logs])
        return ExactSum.of(np.array([(kept * _differences(a, self.order), np.abs(a).sum(axis=0)) for a in actions]))

    def _moving(self, trajectories: Trajectories) -> list[FloatArray]:
        """Return what roughness is measured of: frames that count, for between others the expert did not move."""
        begin = 0 if self.whole else self.begin
        return [a[max(d.counted.start, begin) : d.counted.stop] for a, d in zip(trajectories, self.demos, strict=True)]

    @property
    def known_logs(self) -> tuple[Log, ...]:
        """By which noise is told from motion."""
        return self.demos.logs if self.logs is None else self.logs


def score(demos: Recorded, rolled: Any, *, begin: int, order: int = 2) -> Score:
    """Measure roll-outs of demonstrations in standard units, wherever both lie."""
    sums: ScoreSums = demos.total(_sum, rolled, shared=(begin, order, demos.logs))
    return sums.score


def squares(demos: Recorded, rolled: Any, *, begin: int) -> FloatArray:
    """Return the summed squared error of each sequence in standard units, (n,), wherever they lie."""
    return np.concatenate(demos.collect(_square, rolled, shared=(begin,)))


def _square(demos: Demonstrations, rolled: Trajectories, begin: int) -> FloatArray:
    return Ruler(demos, begin=begin).squares(rolled)


def _sum(demos: Demonstrations, rolled: Trajectories, begin: int, order: int, logs: tuple[Log, ...]) -> ScoreSums:
    return Ruler(demos, begin=begin, order=order, logs=logs).sums(rolled)


def outcome(policy: Policy, demos: Demonstrations, *, seed: int = 0, order: int = 2) -> Outcome:
    """Roll a policy out and measure it: its error is `error(pi)` of Eq. 8."""
    rolled, sums = roll_and_sum(policy, demos, seed=seed, order=order)
    refuse_short(policy, max(len(d) for d in demos))
    score = sums.score
    return Outcome(score.error, score.roughness, rolled)


def roll_and_sum(
    policy: Policy,
    demos: Demonstrations,
    *,
    seed: int = 0,
    order: int = 2,
    logs: tuple[Log, ...] | None = None,
    first: int = 0,
) -> tuple[list[FloatArray], ScoreSums]:
    """Roll a policy out and sum what its score is made of; where it diverges errors are infinite, the expert acts."""
    ruler = Ruler.of(policy, demos, order=order, logs=logs)
    try:
        rolled = rollout(policy, demos, seed=seed, first=first)
    except DivergedError:
        return list(demos.actions), replace(ruler.sums(demos.actions), squares=ExactSum.of(np.array([math.inf])))
    return rolled, ruler.sums(rolled)


def refuse_short(policy: Policy, longest: int) -> None:
    """Refuse sequences of which the policy would choose no frame."""
    lead, _ = timing(policy)
    if longest <= lead:
        raise DataError(
            f"the policy aims {lead} frames ahead and no sequence is longer (the longest has {longest} frames): use a "
            "smaller lead, or longer sequences"
        )
    if longest <= policy.memory:
        raise DataError(
            f"the policy remembers {policy.memory} actions and no sequence is longer (the longest has "
            f"{longest} frames): use fewer action lags or a smaller order, or longer sequences"
        )


def roughness(rolled: Trajectories, demos: Demonstrations, *, order: int = 2) -> float:
    """Return the mean absolute difference of roll-outs over the expert's; NaN where the expert has none."""
    return Ruler(demos, order=order).measure(rolled).roughness


def _differences(actions: FloatArray, order: int) -> FloatArray:
    """Sum the absolute differences of one sequence, (k,)."""
    n = len(actions) - order
    return mean_difference(actions, order=order) * n if n > 0 else np.zeros(actions.shape[1])


def act(policy: Policy, states: States) -> FloatArray:
    """Return what a policy does in given states, (n, k); a stochastic one by its even chance."""
    return policy.act(states, np.full(len(states), 0.5))


def gamma(policy: Policy, states: States, *, step: float = 0.1, most: int = 500, seed: int = 0) -> float:
    """Measure the Lipschitz constant in the past actions (Stability Condition 2), a lower bound of it.

    The largest ||pi(s) - pi(s')|| / ||a - a'|| over at most `most` states and a set of changes a - a' of length
    `step`: of the latest action alone, of all actions alike, against the alternating trend, and at random.
    """
    memory = policy.memory
    if memory == 0:
        return 0.0
    spread = np.unique(np.linspace(0, len(states) - 1, most).astype(int))
    base = states.where(spread).isolate(policy.reach)
    k = base.tape.actions.shape[1]
    latest = np.zeros((memory, k))
    latest[-1] = 1.0
    alternating = (np.arange(memory) % 2 * 2.0 - 1.0)[:, np.newaxis] * np.ones(k)
    rng = np.random.default_rng(seed)
    changes = [latest, np.ones((memory, k)), alternating, *rng.normal(size=(13, memory, k))]
    before = act(policy, base)
    past = base.rows[:, np.newaxis] + np.arange(-memory, 0)
    worst = 0.0
    for change in changes:
        actions = base.tape.actions.copy()
        actions[past] += step * change / np.linalg.norm(change)
        after = act(policy, States(base.tape.with_actions(actions), base.rows, base.horizon))
        worst = max(worst, float(np.linalg.norm(after - before, axis=1).max()) / step)
    return worst


def epsilon(policy: Policy, trained: Policy, states: States) -> float:
    """Measure the largest distance between what two policies do in the first one's states (Theorem 5.5)."""
    return float(np.linalg.norm(act(trained, states) - act(policy, states), axis=1).max())


def advantage(policy: Policy, trained: Policy, states: States, expert: FloatArray) -> float:
    """Measure Delta = l_pi(pi) - l_pi(trained), squared losses in the states of pi (Corollary 5.7).

    As in `error`, the frames with which the expert begins a roll-out of pi do not count.
    """
    own = states.rows - states.tape.floor[states.rows] >= given_frames(policy)
    before, after = (np.sum((act(p, states) - expert)[own] ** 2, axis=1) for p in (policy, trained))
    return float(np.mean(before) - np.mean(after))


def lipschitz(actions: FloatArray, expert: FloatArray) -> float:
    """Measure L of the squared loss over the actions met: its largest slope 2 ||a - a*||."""
    return float(2.0 * np.linalg.norm(actions - expert, axis=1).max())
