"""What a policy does on demonstrations, and the quantities of Section 5 measured along them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from simile._common.typing import BoolArray, FloatArray
from simile.data.demonstrations import Demonstrations
from simile.data.logs import Log
from simile.data.reference import Reference
from simile.data.states import States
from simile.errors import DataError, DivergedError
from simile.learning import theory
from simile.metrics import Score, Sums
from simile.models.coupling import LinearH, matrices
from simile.policies.policies import Policy, given_frames, is_stochastic, parts, timing, trend
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


@dataclass(frozen=True, eq=False)
class Step:
    """A step from a policy towards one trained on its states, and what Section 5 needs to know of it.

    The loss is squared, and averaged over the frames in which a mixture of both would act.
    """

    policy: Policy
    trained: Policy
    states: States  # of a roll-out of `policy`
    expert: FloatArray  # (n, k), in these states

    @cached_property
    def acted(self) -> tuple[FloatArray, FloatArray]:
        """What both policies do in the states, (n, k) each."""
        return act(self.policy, self.states), act(self.trained, self.states)

    @cached_property
    def gamma(self) -> float:
        """Upper bound of the gamma of any mixture of both (`bound_gamma`); infinite where none is known."""
        return max(bound_gamma(self.policy), bound_gamma(self.trained))

    @cached_property
    def epsilon(self) -> float:
        """The largest distance between what both do in a state (Theorem 5.5)."""
        before, after = self.acted
        return float(np.linalg.norm(after - before, axis=1).max())

    @cached_property
    def lipschitz(self) -> float:
        """L, the largest slope 2 ||a - a*|| of the squared loss; where gamma < 1, over all that a step can lead to."""
        farthest = max(float(np.linalg.norm(a - self.expert, axis=1).max()) for a in self.acted)
        return 2.0 * (farthest + (theory.farthest(self.gamma, self.epsilon) if self.gamma < 1.0 else 0.0))

    @cached_property
    def advantage(self) -> float:
        """Delta = l_pi(pi) - l_pi(trained) (Corollary 5.7); frames in which the expert begins do not count."""
        before, after = (np.sum((a - self.expert)[self._own] ** 2, axis=1) for a in self.acted)
        return float(np.mean(before) - np.mean(after))

    @cached_property
    def drift(self) -> float:
        """The delta of Corollary 5.7; infinite where its conditions are not known to hold: nothing is promised."""
        sure = self.gamma < 1.0 and self._is_free
        return theory.drift(self.gamma, self.epsilon, self.lipschitz) if sure else math.inf

    @property
    def _own(self) -> BoolArray:
        given = max(given_frames(self.policy), given_frames(self.trained))
        return np.asarray(self.states.rows - self.states.tape.floor[self.states.rows] >= given)

    @property
    def _is_free(self) -> bool:
        """Tell whether the states are of a roll-out that starts as a mixture's would, and that no bounds cut off."""
        low, high = (self.policy.units.standardize(b) for b in (self.policy.space.low, self.policy.space.high))
        met = np.where(self._own[:, np.newaxis], self.acted[0], self.expert)
        rolled = self.states.tape.actions[self.states.rows]
        # Towards an expert within the bounds, cutting off what a mixture does only shortens its way.
        within = np.allclose(np.clip(self.expert, low, high), self.expert)
        return within and np.allclose(met, rolled, atol=1e-6)


def gamma(policy: Policy, states: States) -> float:
    """Return `bound_gamma` where it is known, else the lower bound of `search_gamma`."""
    bound = bound_gamma(policy)
    return bound if math.isfinite(bound) else search_gamma(policy, states)


def bound_gamma(policy: Policy) -> float:
    """Bound the Lipschitz constant in the past actions (Stability Condition 2); infinite where no bound is known.

    The paper's state holds one past action, and its norm is ||a - a'||. Here a state holds several, and the norm is the
    largest ||a - a'|| of one of them, in which the induction of Theorems 5.5 and 5.6 goes from step to step; in the
    Euclidean norm of all of them together it does not. A bound is known where f reads contexts alone and h is linear:
    kappa times the sum of ||C_i||, which is attained where there is one action.
    """
    own = parts(policy)
    linear = [(w, p, p.h) for w, p in own if isinstance(p.h, LinearH) and p.horizon.memory == 0]
    if is_stochastic(policy) or not own or len(linear) < len(own):
        return math.inf
    total = np.zeros((policy.memory, policy.n_actions, policy.n_actions))
    for weight, part, h in linear:
        kappa = weight * part.smoothness / (1.0 + part.smoothness)
        total[: h.order] += np.reshape(kappa, (-1, 1)) * matrices(h)
    return float(np.linalg.norm(total, 2, axis=(1, 2)).sum())


def search_gamma(policy: Policy, states: States, *, step: float = 0.1, most: int = 500, seed: int = 0) -> float:
    """Search for the Lipschitz constant in the past actions, in the norm of `bound_gamma`: a lower bound of it.

    The largest ||pi(s) - pi(s')|| / `step` over at most `most` states and a set of changes that move a past action by
    `step`: the latest alone, all alike, against the alternating trend, as h weighs them, and at random.
    """
    memory, k = policy.memory, policy.n_actions
    if memory == 0:
        return 0.0
    spread = np.unique(np.linspace(0, len(states) - 1, most).astype(int))
    base = states.where(spread).isolate(policy.reach)
    latest = np.zeros((memory, k))
    latest[-1] = 1.0
    alternating = (np.arange(memory) % 2 * 2.0 - 1.0)[:, np.newaxis] * np.ones(k)
    rng = np.random.default_rng(seed)
    changes = [latest, np.ones((memory, k)), alternating, *_weighed(policy, step), *rng.normal(size=(13, memory, k))]
    before = act(policy, base)
    past = base.rows[:, np.newaxis] + np.arange(-memory, 0)
    worst = 0.0
    for change in changes:
        lengths = np.linalg.norm(change, axis=1, keepdims=True)
        actions = base.tape.actions.copy()
        actions[past] += step * change / np.where(lengths > 0.0, lengths, 1.0)
        after = act(policy, States(base.tape.with_actions(actions), base.rows, base.horizon))
        worst = max(worst, float(np.linalg.norm(after - before, axis=1).max()) / step)
    return worst


def _weighed(policy: Policy, step: float) -> FloatArray:
    """Return how h weighs the past for each action, (k, memory, k), the latest last; nothing where there is no h."""
    h, memory, k = trend(policy), policy.memory, policy.n_actions
    if h is None:
        return np.empty((0, memory, k))
    changed = step * np.eye(h.order * k).reshape(-1, h.order, k)
    slopes = (h(changed) - h(np.zeros_like(changed))).reshape(h.order, k, k)
    found = np.zeros((k, memory, k))
    found[:, memory - h.order :] = slopes[::-1].transpose(2, 0, 1)
    return found
