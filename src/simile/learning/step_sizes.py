"""Line 9 of Algorithm 1: beta, how much of the newly trained policy to take on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from simile._common import checks
from simile.data.demonstrations import Demonstrations
from simile.data.states import States
from simile.errors import ArgumentError
from simile.learning import measures, theory
from simile.learning.measures import Outcome
from simile.policies.policies import Combine, Policy, interpolate


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a step size may go by: both policies and, measured when asked for, the quantities of Section 5."""

    demos: Demonstrations
    policy: Policy
    trained: Policy
    outcome: Outcome  # the roll-out of `policy`
    states: States  # the states met along it
    combine: Combine

    @property
    def error(self) -> float:
        """error(pi) of Eq. 8."""
        return self.outcome.error

    @cached_property
    def trained_error(self) -> float:
        """error(pi^) of Eq. 8: the trained policy is rolled out by itself."""
        return self.error_of(self.trained)

    @property
    def longest(self) -> int:
        """Frames of the longest sequence, T."""
        return max(len(d) for d in self.demos)

    def error_of(self, policy: Policy) -> float:
        """Roll any policy out and return its error; infinite where it diverges."""
        return measures.outcome(policy, self.demos).error

    @cached_property
    def step(self) -> measures.Step:
        """What Section 5 needs to know of a step."""
        return measures.Step(self.policy, self.trained, self.states, np.concatenate(self.demos.actions))

    @property
    def advantage(self) -> float:
        """The advantage Delta of Corollary 5.7."""
        return self.step.advantage

    @property
    def drift(self) -> float:
        """The drift delta of Corollary 5.7; infinite where nothing is promised: it is about `interpolate` alone."""
        return self.step.drift if self.combine is interpolate else math.inf


@runtime_checkable
class StepSize(Protocol):
    """Chooses beta."""

    def __call__(self, evidence: Evidence) -> float:
        """Return beta in [0, 1]."""


@dataclass(frozen=True)
class ErrorRatio:
    """beta = error(pi) / (error(pi^) + error(pi)) (Eq. 8): bad policies are disregarded."""

    def __call__(self, evidence: Evidence) -> float:
        """Compare the roll-out errors; a diverged policy has no say."""
        old, new = evidence.error, evidence.trained_error
        if math.isinf(new):
            return 0.0
        if math.isinf(old):
            return 1.0
        return old / (new + old) if new + old > 0.0 else 0.5


@dataclass(frozen=True)
class Constant:
    """The same beta in every round, as in SEARN."""

    beta: float = 0.5

    def __post_init__(self) -> None:
        checks.number(self.beta, "beta", at_least=0.0, at_most=1.0)

    def __call__(self, evidence: Evidence) -> float:  # noqa: ARG002
        """Return beta."""
        return self.beta


@dataclass(frozen=True)
class OneOverHorizon:
    """beta = 1 / T, the largest step that the guarantees of SEARN and of Theorem 5.5 allow (T: the longest)."""

    def __call__(self, evidence: Evidence) -> float:
        """Return 1 / T."""
        return 1.0 / evidence.longest


@dataclass(frozen=True)
class Monotonic:
    """beta = (Delta - delta) / (2 Delta), the step of Corollary 5.7; 0 where the corollary promises nothing."""

    def __call__(self, evidence: Evidence) -> float:
        """Measure Delta and delta, and apply the corollary."""
        delta = evidence.drift
        return 0.0 if math.isinf(delta) else theory.monotonic_step(evidence.advantage, delta)


@dataclass(frozen=True)
class BoundMinimizer:
    """beta = 1 - sqrt(delta / Delta), which minimises the bound of Theorem 5.6 exactly; 0 where it promises nothing."""

    def __call__(self, evidence: Evidence) -> float:
        """Measure Delta and delta, and minimise the bound."""
        delta = evidence.drift
        return 0.0 if math.isinf(delta) else theory.best_step(evidence.advantage, delta)


@dataclass(frozen=True)
class LineSearch:
    """Try several beta and take the one whose combined policy has the smallest roll-out error.

    One roll-out per candidate: dearer than Eq. 8, and never worse than the old policy, since 0 is tried too.
    """

    candidates: Sequence[float] = (0.25, 0.5, 0.75, 1.0)

    def __post_init__(self) -> None:
        betas = [checks.number(b, "candidates", at_least=0.0, at_most=1.0) for b in self.candidates]
        if not betas:
            raise ArgumentError("candidates must hold at least one beta; got none")
        object.__setattr__(self, "candidates", tuple(sorted(betas)))

    def __call__(self, evidence: Evidence) -> float:
        """Roll out every candidate."""
        errors = {0.0: evidence.error}
        for beta in self.candidates:
            candidate = evidence.combine(evidence.trained, evidence.policy, beta)
            errors[beta] = evidence.error_of(candidate)
        return min(errors, key=lambda beta: errors[beta])
