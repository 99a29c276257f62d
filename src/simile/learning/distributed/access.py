"""What Algorithm 1 asks of the place where the data are: a method for each line that looks at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from simile._common.typing import FloatArray
from simile.data.demonstrations import ActionSpace, Units
from simile.data.states import Horizon
from simile.learning.feedback import Feedback
from simile.learning.measures import Outcome
from simile.learning.step_sizes import Evidence
from simile.learning.training import Rule
from simile.models.regularizers import Regularizer, RegularizerClass
from simile.policies.policies import Combine, Policy, SmoothPolicy


@dataclass(frozen=True, eq=False, kw_only=True)
class Asked:
    """What was chosen for the lines of Algorithm 1 that look at data; actions are in standard units."""

    model: Any
    regularizer: RegularizerClass
    smoothness: float
    horizon: Horizon
    feedback: Feedback
    rule: Rule
    n_rounds: int
    rng: np.random.Generator
    units: Units  # what standard units mean to the user
    space: ActionSpace


class Site(Protocol):
    """Where the demonstrations are. Trajectories, states and data are the site's own: nobody else looks into them."""

    @property
    def expert(self) -> Any:
        """The expert's trajectories A*."""

    def outcome(self, policy: Policy, seed: int = 0) -> Outcome:
        """Roll a policy out and measure its error: line 4."""

    def states(self, rolled: Any) -> Any:
        """Form the states met along trajectories: line 5."""

    def targets(self, n: int, policy: Policy, rolled: Any, states: Any) -> tuple[Any, float]:
        """Take feedback on the roll-out of a policy: line 6; returns the targets and sigma, NaN where there is none."""

    def fit(self, targets: Any) -> Regularizer:
        """Choose h: line 7."""

    def data(self, states: Any, targets: Any) -> Any:
        """Keep states and targets for training."""

    def train(self, data: Sequence[Any], h: Regularizer) -> SmoothPolicy:
        """Train on the data of some rounds: line 8."""

    def evidence(self, policy: Policy, trained: Policy, outcome: Outcome, states: Any, combine: Combine) -> Evidence:
        """Gather what a step size may go by: line 9."""

    def shown(self, trajectories: Any) -> list[FloatArray]:
        """Return trajectories for a `Round`, where they are at hand."""
