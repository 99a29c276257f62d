"""The theory of Section 5, measured on data, and said in words."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from simile._common.typing import FloatArray, Trajectories
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.states import Horizon, States
from simile.errors import ArgumentError
from simile.learning import measures, theory
from simile.learning.distributed import DistributedDemonstrations, bring_here
from simile.models.regularizers import Autoregressor, Regularizer
from simile.policies.policies import (
    MixedPolicy,
    Mixture,
    Policy,
    StochasticMixture,
    given_frames,
    hold,
    hold_by,
    keep_by,
    offset,
    radius,
    timing,
    whole,
)
from simile.policies.rollouts import ExpertStart, rollout


@dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` measured, in standard units; NaN where it could not. Prints as findings in words."""

    gamma: float  # Lipschitz constant in the past actions, in the largest change of one of them
    radius: float  # spectral radius of the closed loop of h
    epsilon: float  # largest distance between the last trained policy and the policy before it
    lipschitz: float  # L of the squared loss over the actions met and, where gamma is known below 1, those near them
    advantage: float  # Delta
    drift: float  # delta; infinite where gamma is not known to be below 1, or bounds cut actions off
    fit_error: float  # omega, of the naive learner on contexts alone
    expert_gap: float  # Omega, E ||a*_t - a_{t-1}||
    roughness_budget: float  # eta, E ||a*_t - a*_{t-1}||
    smoothness: float  # lambda, the largest where each action has its own; NaN where the components differ
    beta: float  # weight of the last trained policy
    length: int  # T, the longest sequence
    hold: float = 0.0  # the widest hysteresis; all else is of what the policy wants, before it
    offset: float = 0.0  # the largest share of the start that is kept; all else is without it
    follows_last: bool = True  # whether h(a) = a (Example 2.1), of which alone Proposition 5.8 speaks
    gamma_known: bool = True  # whether gamma is an upper bound; else the largest that was found

    def findings(self) -> list[str]:
        """Say which guarantee applies and which is vacuous."""
        said = [self._stability(), self._closed_loop(), self._improvement(), self._searn(), self._feedback()]
        if self.offset:
            said.insert(
                0,
                "The policy remembers the start, and all numbers are of it without that: what it keeps follows from "
                "the start and from f alone, so that gamma and the closed loop are the same.",
            )
        return [self._hold(), *(f"Before the hold: {one}" for one in said)] if self.hold else said

    def __str__(self) -> str:
        hidden = {"length", "follows_last", "gamma_known"} | {n for n in ("hold", "offset") if not getattr(self, n)}
        values = "\n".join(
            f"{name:18} {getattr(self, name):12.4g}" for name in self.__dataclass_fields__ if name not in hidden
        )
        return values + "\n\n" + "\n".join(f"- {finding}" for finding in self.findings())

    def _hold(self) -> str:
        return (
            "The policy holds still, and all numbers are of what it wants, before the hold. What it does stays within "
            f"{self.hold:.3g} deviations of it. Two roll-outs of an action that glides are never farther apart than "
            "their wishes were, of one that steps at most 2 widths farther; losses have no bound behind the hold."
        )

    def _stability(self) -> str:
        size = f"gamma = {self.gamma:.3g}"
        if theory.satisfies_stability_1(self.gamma):
            condition, end = ("2", "") if theory.satisfies_stability_2(self.gamma) else ("1", ", but 2 is not sure to")
            if self.gamma_known:
                return f"Stability Condition {condition} holds{end}: {size}."
            return (
                f"Stability Condition {condition} was not violated: {size} is the largest that was found, and may be "
                "larger where nobody looked, so that no theorem of Section 5 promises anything."
            )
        if self.gamma_known:
            return f"Neither stability condition is sure to hold: {size} > 1, so no theorem of Section 5 applies."
        return (
            f"Neither stability condition holds: {size} > 1, so no theorem of Section 5 applies. "
            "With several action lags or trees in f this is the rule; judge stability by the closed loop instead."
        )

    def _closed_loop(self) -> str:
        if math.isnan(self.radius):
            return "The closed loop of h has no radius: h is not linear."
        verdict = "stable" if self.radius < 1.0 else "UNSTABLE: roll-outs may diverge"
        return f"The closed loop of h is {verdict} (radius {self.radius:.4f})."

    def _improvement(self) -> str:
        if math.isnan(self.advantage):
            return "Policy improvement (Theorem 5.6) needs two policies; this one is not a mixture."
        if self.advantage <= 0.0:
            return f"The last trained policy was no better in its predecessor's states (Delta = {self.advantage:.3g})."
        if math.isinf(self.drift):
            known = "bounds cut actions off" if self.gamma_known else "gamma is only a lower bound"
            reason = "gamma >= 1" if self.gamma >= 1.0 else known
            return f"Theorem 5.6 promises nothing: Delta = {self.advantage:.3g} > 0 but {reason}."
        if self.drift >= self.advantage:
            return (
                f"Theorem 5.6 is vacuous: delta / Delta = {self.drift / self.advantage:.3g} is not below 1, "
                "so no step is guaranteed to improve."
            )
        step = theory.monotonic_step(self.advantage, self.drift)
        promise = theory.monotonic_improvement(self.advantage, self.drift)
        return f"Corollary 5.7 applies: beta = {step:.3g} improves the loss by at least {-promise:.3g}."

    def _searn(self) -> str:
        if math.isnan(self.beta):
            return "SEARN's bound (Lemma 5.4) needs two policies; this one is not a mixture."
        relation = "within" if self.beta < 1.0 / self.length else "far outside"
        return f"beta = {self.beta:.3g} is {relation} SEARN's range (0, 1/T) = (0, {1.0 / self.length:.2g})."

    def _feedback(self) -> str:
        if math.isnan(self.fit_error) or math.isnan(self.smoothness):
            return "Proposition 5.8 could not be judged: no naive learner, or no single lambda."
        if not self.follows_last:
            return "Proposition 5.8 does not apply: it is about h(a) = a alone (PreviousAction), and this h is another."
        threshold = theory.feasible_gap(self.fit_error, self.roughness_budget, self.smoothness)
        if theory.needs_smooth_feedback(self.expert_gap, self.fit_error, self.roughness_budget, self.smoothness):
            return (
                f"Proposition 5.8 applies (Omega = {self.expert_gap:.3g} >= {threshold:.3g}): the roll-out is so far "
                "off that the expert's own actions as feedback would make a rough policy; use SmoothFeedback."
            )
        return f"Proposition 5.8 does not apply: Omega = {self.expert_gap:.3g} < {threshold:.3g}."


def diagnose(policy: Policy, demos: Demonstrations | Demonstration | DistributedDemonstrations) -> Diagnosis:
    """Measure every quantity of Section 5 along the roll-outs of a policy.

    Of a mixture, the last component is taken for the newly trained policy and the rest for the one before, as
    Algorithm 1 leaves them. Of a policy that holds still, it is about what the policy wants: its past are its wishes.

    Parameters
    ----------
    policy : Policy
        A policy from a run, or any other.
    demos : Demonstrations
        The data to measure on. Those that lie with a backend are brought here, 256 MiB at most.

    Returns
    -------
    Diagnosis
    """
    demos = bring_here(demos, "diagnose").foretell(timing(policy)[1])
    measures.refuse_short(policy, max(len(d) for d in demos))
    units = policy.units
    standard = demos.standardize(units)
    expert = standard.actions
    held, kept, policy = hold(policy), offset(policy), keep_by(hold_by(policy, None), None)
    before, trained, beta = _last_step(policy)
    begin = ExpertStart(given_frames(policy))  # as a roll-out of the mixture does
    rolled = [units.standardize(a) for a in rollout(before or policy, demos, start=begin)]
    states = Horizon(0, 0).states(standard, rolled)
    flat = np.concatenate(expert)
    step = measures.Step(before or policy, trained or policy, states, flat)
    is_step = before is not None
    closed_loop, one = radius(policy), whole(policy)
    return Diagnosis(
        gamma=max(measures.gamma(p, states) for p in (step.policy, step.trained)),
        radius=math.nan if closed_loop is None else closed_loop,
        epsilon=step.epsilon if is_step else math.nan,
        lipschitz=step.lipschitz,
        advantage=step.advantage if is_step else math.nan,
        drift=step.drift if is_step else math.nan,
        fit_error=_fit_error(policy, states, flat),
        expert_gap=_mean_step([e[1:] - a[:-1] for e, a in zip(expert, rolled, strict=True)]),
        roughness_budget=_mean_step([np.diff(e, axis=0) for e in expert]),
        smoothness=math.nan if one is None else float(np.max(one.smoothness)),
        beta=beta,
        length=max(len(d) for d in demos),
        hold=0.0 if held is None else float(held.width.max()),
        offset=0.0 if kept is None else float(kept.share.max()),
        follows_last=one is not None and _follows_last(one.h),
        gamma_known=math.isfinite(step.gamma),
    )


@dataclass(frozen=True)
class StochasticGap:
    """Deterministic against stochastic mixing (Lemma 5.2 and Corollary 5.3), measured, in standard units."""

    gap: float  # root mean squared distance of the mean stochastic roll-out from the deterministic one
    noise: float  # what that distance would be by chance alone, with this many roll-outs
    deterministic_error: float  # mean squared error of the deterministic roll-out
    stochastic_error: float  # mean over the stochastic roll-outs of theirs
    n_rollouts: int

    def __str__(self) -> str:
        verdict = "more than chance" if self.gap > 2.0 * self.noise else "no more than chance"
        return (
            f"E[stochastic] is {self.gap:.4g} away from deterministic ({verdict}: {self.noise:.4g} over "
            f"{self.n_rollouts} roll-outs); squared error {self.deterministic_error:.4g} deterministic, "
            f"{self.stochastic_error:.4g} stochastic"
        )


def stochastic_gap(
    policy: Mixture | StochasticMixture,
    demos: Demonstrations | Demonstration,
    *,
    n_rollouts: int = 50,
    seed: int = 0,
) -> StochasticGap:
    """Measure how far the mean of stochastic roll-outs is from the deterministic roll-out of the same mixture.

    As in `error`, the frames with which the expert begins do not count: there the two never differ.
    Lemma 5.2 says it is zero. That holds for affine policies; for trees it is a matter of measurement. Of a policy that
    holds still it is measured before the hold, behind which it would not be zero for affine policies either.
    """
    if not isinstance(policy, MixedPolicy):
        raise ArgumentError(f"policy must be a mixture; got {type(policy).__name__}, which has nothing to sample from")
    demos = Demonstrations.of(demos)
    measures.refuse_short(policy, max(len(d) for d in demos))
    weights = tuple(float(np.mean(w)) for w in policy.weights)  # a coin is tossed for all actions at once
    components = policy.holding(None).keeping(None).components
    deterministic, stochastic = (kind(components, weights) for kind in (Mixture, StochasticMixture))

    def own(rolled: Trajectories) -> FloatArray:
        return np.concatenate([a[given_frames(policy) :] for a in rolled]) / policy.units.scale

    certain, expert = own(rollout(deterministic, demos)), own(demos.actions)
    drawn = [own(rollout(stochastic, demos, seed=seed + i)) for i in range(n_rollouts)]
    return StochasticGap(
        gap=float(np.sqrt(np.mean((np.mean(drawn, axis=0) - certain) ** 2))),
        noise=float(np.sqrt(np.mean(np.var(drawn, axis=0, ddof=1)) / n_rollouts)) if n_rollouts > 1 else math.inf,
        deterministic_error=float(np.mean((certain - expert) ** 2)),
        stochastic_error=float(np.mean([np.mean((d - expert) ** 2) for d in drawn])),
        n_rollouts=n_rollouts,
    )


def _last_step(policy: Policy) -> tuple[Policy | None, Policy | None, float]:
    """Undo the last line 10: return the policy before, the trained policy and beta."""
    if not isinstance(policy, MixedPolicy) or len(policy.components) < 2:
        return None, None, math.nan
    beta = policy.weights[-1]
    if np.max(beta) == 1.0:
        return None, None, math.nan
    weights = tuple(w / (1.0 - beta) for w in policy.weights[:-1])
    before = replace(policy, components=policy.components[:-1], weights=weights)
    return before, policy.components[-1], float(np.mean(beta))


def _fit_error(policy: Policy, states: States, expert: FloatArray) -> float:
    try:
        guess = policy.first_guess(states)
    except ArgumentError:
        return math.nan
    return float(np.mean(np.linalg.norm(guess - expert, axis=1)))


def _follows_last(h: Regularizer) -> bool:
    """Tell whether h(a) = a."""
    return isinstance(h, Autoregressor) and np.allclose(h.coefficients, np.eye(h.order, 1))


def _mean_step(steps: list[FloatArray]) -> float:
    flat = np.concatenate(steps)
    return float(np.mean(np.linalg.norm(flat, axis=1))) if len(flat) else math.nan
