"""The quantities of Section 5, measured along roll-outs, in standard units."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from simile._typing import FloatArray, Trajectories
from simile.demonstrations import Demonstrations
from simile.errors import DataError, DivergedError
from simile.losses import mean_difference
from simile.policies import Policy
from simile.rollouts import rollout
from simile.states import States


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
    try:
        rolled = rollout(policy, demos, seed=seed)
    except DivergedError:
        return Outcome(list(demos.actions), math.inf)
    return Outcome(rolled, imitation_error(policy, rolled, demos))


def imitation_error(policy: Policy, rolled: Trajectories, demos: Demonstrations) -> float:
    """Return the mean squared error over all frames that the policy chose itself."""
    gaps = [
        (a[policy.memory :] - b[policy.memory :]) / policy.units.scale
        for a, b in zip(rolled, demos.actions, strict=True)
    ]
    gap = np.concatenate(gaps)
    if len(gap) == 0:
        raise DataError(
            f"the policy remembers {policy.memory} actions and no sequence is longer (the longest has "
            f"{max(len(d) for d in demos)} frames): use fewer action lags or a smaller order, or longer sequences"
        )
    return float(np.mean(gap**2))


def roughness(rolled: Trajectories, demos: Demonstrations, *, order: int = 2) -> float:
    """Return the mean absolute difference of roll-outs over the expert's; NaN where the expert has none."""
    ratios = []
    for j in range(demos.n_actions):
        ours, theirs = (
            [mean_difference(a[:, j : j + 1], order=order)[0] * (len(a) - order) for a in actions if len(a) > order]
            for actions in (rolled, demos.actions)
        )
        # What rounding alone leaves of a straight line is no roughness to compare with.
        if sum(theirs) > 1e-12 * sum(float(np.abs(a[:, j]).sum()) for a in demos.actions):
            ratios.append(sum(ours) / sum(theirs))
    return float(np.mean(ratios)) if ratios else math.nan


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
