"""What a policy does on demonstrations, and the quantities of Section 5 measured along them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from simile._common.typing import FloatArray
from simile.data.demonstrations import Demonstrations
from simile.data.logs import Log
from simile.data.reference import Reference
from simile.data.states import States
from simile.errors import DataError, DivergedError
from simile.metrics import Score, Sums
from simile.policies.policies import Policy, given_frames, timing
from simile.policies.rollouts import rollout


@dataclass(frozen=True, eq=False)
class Outcome(Score):
    """A score, and the roll-out from the expert's start that it is of.

    A diverged policy has no roll-out to learn from, so `rolled` is then the expert's own trajectory, where
    Algorithm 1 begins too (A_0 = A*).
    """

    rolled: list[FloatArray] = field(repr=False)


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
) -> tuple[list[FloatArray], Sums]:
    """Roll a policy out and sum what its score is made of; where it diverges errors are infinite, the expert acts."""
    reference = Reference(demos, policy.units.scale, given_frames(policy), order, logs)
    try:
        rolled = rollout(policy, demos, seed=seed, first=first)
    except DivergedError:
        acted = reference.sums(demos.actions)
        return list(demos.actions), replace(acted, squares=np.full_like(acted.squares, math.inf))
    return rolled, reference.sums(rolled)


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
