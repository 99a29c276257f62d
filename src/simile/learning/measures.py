"""The quantities of Section 5, measured along roll-outs, in standard units."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from simile._common.sums import ExactSum
from simile._common.typing import FloatArray, Trajectories
from simile.data.demonstrations import Demonstrations
from simile.data.losses import mean_difference
from simile.data.states import States
from simile.errors import DataError, DivergedError
from simile.policies.policies import Policy
from simile.policies.rollouts import rollout


@dataclass(frozen=True, eq=False)
class Outcome:
    """A roll-out from the expert's start and its imitation error; infinite where it diverged.

    A diverged policy has no roll-out to learn from, so `rolled` is then the expert's own trajectory, where
    Algorithm 1 begins too (A_0 = A*).
    """

    rolled: list[FloatArray]
    error: float

    @property
    def diverged(self) -> bool:
        """Whether the policy left every reasonable range."""
        return math.isinf(self.error)


def outcome(policy: Policy, demos: Demonstrations, seed: int = 0) -> Outcome:
    """Roll a policy out and measure its mean squared error in standard units, `error(pi)` of Eq. 8."""
    rolled, errors = rolled_out(policy, demos, seed)
    return Outcome(rolled, errors.mean(policy))


def rolled_out(policy: Policy, demos: Demonstrations, seed: int = 0) -> tuple[list[FloatArray], Errors]:
    """Roll a policy out and sum its squared errors; where it diverges they are infinite, and the expert acts."""
    try:
        rolled = rollout(policy, demos, seed=seed)
    except DivergedError:
        return list(demos.actions), Errors(ExactSum.of(np.array([math.inf])), 1, max(len(d) for d in demos))
    return rolled, Errors.of(policy, rolled, demos)


def imitation_error(policy: Policy, rolled: Trajectories, demos: Demonstrations) -> float:
    """Return the mean squared error over all frames that the policy chose itself."""
    return Errors.of(policy, rolled, demos).mean(policy)


@dataclass(frozen=True, eq=False)
class Errors:
    """Squared errors in standard units, summed over sequences; which are added first does not matter."""

    squares: ExactSum
    count: int  # how many were summed
    longest: int  # frames of the longest sequence

    @classmethod
    def of(cls, policy: Policy, rolled: Trajectories, demos: Demonstrations) -> Errors:
        """Sum over all frames that the policy chose itself."""
        gaps = [
            (a[policy.memory :] - b[policy.memory :]) / policy.units.scale
            for a, b in zip(rolled, demos.actions, strict=True)
        ]
        squares = ExactSum.of(np.array([np.sum(gap**2) for gap in gaps]))
        return cls(squares, sum(gap.size for gap in gaps), max(len(d) for d in demos))

    def __add__(self, other: Errors) -> Errors:
        return Errors(self.squares + other.squares, self.count + other.count, max(self.longest, other.longest))

    def mean(self, policy: Policy) -> float:
        """Return the mean squared error of the policy."""
        if self.count == 0:
            raise DataError(
                f"the policy remembers {policy.memory} actions and no sequence is longer (the longest has "
                f"{self.longest} frames): use fewer action lags or a smaller order, or longer sequences"
            )
        return float(self.squares.value) / self.count


def roughness(rolled: Trajectories, demos: Demonstrations, *, order: int = 2) -> float:
    """Return the mean absolute difference of roll-outs over the expert's; NaN where the expert has none."""
    return rough_ratio(differences(rolled, demos, order=order))


def differences(rolled: Trajectories, demos: Demonstrations, *, order: int = 2) -> ExactSum:
    """Sum over sequences what roughness compares: (3, k) absolute differences of both, and the expert's actions."""

    def summed(a: FloatArray) -> FloatArray:
        long_enough = len(a) > order
        return mean_difference(a, order=order) * (len(a) - order) if long_enough else np.zeros(demos.n_actions)

    pairs = zip(rolled, demos.actions, strict=True)
    return ExactSum.of(np.array([(summed(a), summed(b), np.abs(b).sum(axis=0)) for a, b in pairs]))


def rough_ratio(sums: ExactSum) -> float:
    """Return the roughness, the mean over the action dimensions, for the sums over all sequences."""
    ours, theirs, sizes = sums.value
    moving = theirs > 1e-12 * sizes  # what rounding alone leaves of a straight line is no roughness to compare with
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.mean(ours[moving] / theirs[moving])) if moving.any() else math.nan


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
    base = states.where(spread).isolated(policy.reach)
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
    """Measure Delta = l_pi(pi) - l_pi(trained), squared losses in the states of pi (Corollary 5.7)."""
    return float(
        np.mean(np.sum((act(policy, states) - expert) ** 2, axis=1))
        - np.mean(np.sum((act(trained, states) - expert) ** 2, axis=1))
    )


def lipschitz(actions: FloatArray, expert: FloatArray) -> float:
    """Measure L of the squared loss over the actions met: its largest slope 2 ||a - a*||."""
    return float(2.0 * np.linalg.norm(actions - expert, axis=1).max())
