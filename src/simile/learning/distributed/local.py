"""All data at hand: the lines of Algorithm 1 on arrays in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from simile._common.typing import FloatArray, Trajectories
from simile.data.demonstrations import Demonstrations
from simile.data.states import States, Tape
from simile.learning import measures
from simile.learning.distributed.access import Asked
from simile.learning.feedback import Seen, SmoothFeedback
from simile.learning.measures import Outcome
from simile.learning.step_sizes import Evidence
from simile.learning.training import Dataset, Train, fit_naive
from simile.models import Model
from simile.models.regularizers import Regularizer
from simile.policies.policies import Combine, Policy, SmoothPolicy


@dataclass(frozen=True, eq=False, kw_only=True)
class LocalSite(Asked):
    """Demonstrations in memory, in standard units."""

    demos: Demonstrations

    @cached_property
    def _tape(self) -> Tape:
        return Tape.of(self.demos.contexts, self.demos.actions)

    @cached_property
    def _naive(self) -> Model | None:
        """f_0, fitted once, before the first f."""
        if not self.horizon.memory:
            return None
        return fit_naive(self.model, self.states(self.expert), np.concatenate(self.expert), self.rng)

    @property
    def expert(self) -> Trajectories:
        """The expert's trajectories A*."""
        return self.demos.actions

    def outcome(self, policy: Policy, seed: int = 0) -> Outcome:
        """Roll a policy out and measure its error: line 4."""
        return measures.outcome(policy, self.demos, seed=seed)

    def states(self, rolled: Trajectories) -> States:
        """Form the states met along trajectories: line 5."""
        return self._tape.along(rolled).states(self.horizon)

    def targets(self, n: int, policy: Policy, rolled: Trajectories, states: States) -> tuple[Trajectories, float]:
        """Take feedback on the roll-out of a policy: line 6."""
        seen = Seen(n, self.n_rounds, self.demos, rolled, states, policy, self.units)
        sigma = self.feedback.sigma(seen) if isinstance(self.feedback, SmoothFeedback) else math.nan
        return list(self.feedback(seen)), sigma

    def fit(self, targets: Trajectories) -> Regularizer:
        """Choose h: line 7."""
        return self.regularizer.fit(targets, self.smoothness)

    def data(self, states: States, targets: Trajectories) -> Dataset:
        """Keep states and targets for training."""
        return Dataset(states, np.concatenate(targets))

    def train(self, data: Sequence[Dataset], h: Regularizer) -> SmoothPolicy:
        """Train on the data of some rounds: line 8."""
        train = Train(self.model, self.smoothness, self.horizon, self.rule, self._naive, self.space)
        return train(data, h, self.rng)

    def evidence(self, policy: Policy, trained: Policy, outcome: Outcome, states: States, combine: Combine) -> Evidence:
        """Gather what a step size may go by: line 9."""
        return Evidence(self.demos, policy, trained, outcome, states, combine)

    def shown(self, trajectories: Trajectories) -> list[FloatArray]:
        """Return trajectories for a `Round`."""
        return list(trajectories)
