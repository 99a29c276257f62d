"""What the lines of Algorithm 1 do: the problem of Section 2, with the choices that were made for it.

`algorithm_1` calls a method for each of its lines. Here the demonstrations are at hand; `simile.learning.distributed`
does the same where they are not, and says so by registering its own way to `pose` a problem.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, singledispatch
from typing import Any, Protocol

import numpy as np

from simile import models
from simile._common.parts import Whole
from simile._common.typing import BoolArray, FloatArray, IntArray, PerAction, Trajectories
from simile.data.demonstrations import Demonstrations
from simile.data.recorded import ActionSpace, Units
from simile.data.states import Horizon, Laid, States, Tape
from simile.learning import measures
from simile.learning.aims import Aim, label, weigh_ahead
from simile.learning.feedback import Feedback, Seen, SmoothFeedback
from simile.learning.folds import states_of
from simile.learning.measures import Outcome
from simile.learning.smoothness import SmoothTime, smoothness_for
from simile.learning.step_sizes import Evidence, StepSize
from simile.learning.training import Dataset, Lesson, Rule, Train, fit_naive
from simile.models import Model, SmoothRegressor
from simile.models.adapters import weights_for
from simile.models.regularizers import Regularizer, RegularizerClass, fit_each
from simile.models.ridge import Lesson as FoldLesson
from simile.policies.policies import Combine, Policy, SmoothPolicy


class Problem(Protocol):
    """A method for each line of Algorithm 1. Trajectories, states and data are the problem's own affair."""

    @property
    def expert(self) -> Any:
        """The expert's trajectories A*."""

    def roll_out(self, policy: Policy, seed: int = 0) -> Outcome:
        """Roll a policy out and measure it: line 4."""

    def states(self, rolled: Any) -> Any:
        """Form the states met along trajectories: line 5."""

    def targets(self, n: int, policy: Policy, rolled: Any, states: Any) -> tuple[Any, float]:
        """Take feedback on the roll-out of a policy: line 6; returns the targets and sigma, NaN where there is none."""

    def regularize(self, targets: Any) -> Regularizer:
        """Choose h: line 7."""

    def dataset(self, states: Any, targets: Any) -> Any:
        """Keep states and targets for training, D_n."""

    def train(self, data: Sequence[Any], h: Regularizer) -> SmoothPolicy:
        """Train on the data of some rounds: line 8."""

    def evidence(self, policy: Policy, trained: Policy, outcome: Outcome, states: Any, combine: Combine) -> Evidence:
        """Gather what a step size may go by: line 9."""

    def check(self, step_size: StepSize, combine: Combine) -> None:
        """Refuse choices for lines 9 and 10 that this problem cannot take."""

    def show(self, trajectories: Any) -> list[FloatArray]:
        """Return trajectories for a `Round`, where they are at hand."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Setup:
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


@dataclass(frozen=True, eq=False, kw_only=True)
class ProblemAtHand(Setup):
    """The problem with demonstrations in memory."""

    demos: Demonstrations

    @cached_property
    def _tape(self) -> Tape:
        tape = Tape.of(self.demos.contexts, self.demos.actions)
        return tape.with_actions(np.empty((0, self.demos.n_actions)))  # every roll-out brings its own

    @cached_property
    def _naive(self) -> Model | None:
        """f_0, before the first f."""
        if not self.horizon.memory:
            return None
        return fit_naive(self.model, lambda: (self.states(self.expert), np.concatenate(self.expert)), self.rng)

    @property
    def expert(self) -> Trajectories:
        """The expert's trajectories A*."""
        return self.demos.actions

    def roll_out(self, policy: Policy, seed: int = 0) -> Outcome:
        """Roll a policy out and measure it: line 4."""
        outcome = measures.outcome(policy, self.demos, seed=seed)
        return replace(outcome, rolled=Laid.of(outcome.rolled))

    def states(self, rolled: Trajectories) -> States:
        """Form the states met along trajectories: line 5."""
        return self._tape.along(rolled).states(self.horizon)

    def targets(self, n: int, policy: Policy, rolled: Trajectories, states: States) -> tuple[Trajectories, float]:
        """Take feedback on the roll-out of a policy: line 6."""
        seen = Seen(n, self.n_rounds, self.demos, rolled, states, policy, self.units)
        sigma = self.feedback.sigma(seen) if isinstance(self.feedback, SmoothFeedback) else math.nan
        return Laid.of(self.feedback(seen)), sigma

    def regularize(self, targets: Trajectories) -> Regularizer:
        """Choose h: line 7."""
        return self.regularizer.fit(targets, self.smoothness)

    def dataset(self, states: States, targets: Trajectories) -> Dataset:
        """Keep states and targets for training, D_n."""
        weights = self.demos.weights
        return Dataset(states, Laid.of(targets).joined, None if weights is None else np.concatenate(weights))

    def train(self, data: Sequence[Dataset], h: Regularizer) -> SmoothPolicy:
        """Train on the data of some rounds: line 8."""
        train = Train(self.model, self.smoothness, self.horizon, self.rule, self._naive, self.space)
        return train(data, h, self.rng)

    def evidence(self, policy: Policy, trained: Policy, outcome: Outcome, states: States, combine: Combine) -> Evidence:
        """Gather what a step size may go by: line 9."""
        return Evidence(self.demos, policy, trained, outcome, states, combine)

    def check(self, step_size: StepSize, combine: Combine) -> None:
        """Take any."""

    def show(self, trajectories: Trajectories) -> list[FloatArray]:
        """Return trajectories for a `Round`."""
        return list(trajectories)


# What differs by where the demonstrations are; `simile.learning.distributed` registers its own.


@singledispatch
def pose(demos: Any, **setup: Any) -> Problem:
    """Pose the problem for demonstrations in standard units."""
    return ProblemAtHand(demos=demos, **setup)


@singledispatch
def judge(demos: Any, policy: Policy, *, order: int = 2) -> Outcome:
    """Roll a policy out over demonstrations and measure it."""
    return measures.outcome(policy, demos, order=order)


@singledispatch
def check_models(demos: Any, models: Sequence[Any], horizon: Horizon) -> tuple[str, ...]:  # noqa: ARG001
    """Refuse models that cannot be fitted where the demonstrations are, and say which see some of them; here none."""
    return ()


@singledispatch
def regularize(demos: Any, regularizer: RegularizerClass, smoothness: PerAction) -> Regularizer:
    """Choose h for the expert's actions in standard units."""
    return fit_each(regularizer, demos.actions, smoothness)


@singledispatch
def match_lag(demos: Any, regularizer: RegularizerClass, lag: float) -> float:
    """Return the lambda at which the closed loop lags by so many frames."""
    return smoothness_for(regularizer, lag, demos.actions)


@dataclass(frozen=True)
class Fitted:
    """A step of the training is done: what was fitted, and how many steps are of how many."""

    what: str
    done: int
    steps: int


Watch = Callable[[Any], object]  # of every `Round` of Algorithm 1, or of every `Fitted` of a mixture


@dataclass(frozen=True)
class Course:
    """What a model is fitted to: states of a horizon, and what to say in them, aim by aim."""

    horizon: Horizon
    aims: tuple[Aim, ...]
    apart: bool = False  # each action by itself, as `SmoothForest.fit_apart` does


@singledispatch
def teach(demos: Any, model: Any, course: Course, rng: np.random.Generator, *, here: bool = True) -> Any:  # noqa: ARG001
    """Fit a model to what a course makes of demonstrations; one that is not wanted here may stay where they are."""
    lesson = prepare(demos, course)
    counts = weights_for(model, None if lesson.weights is None else [lesson.weights])
    if course.apart:
        fitted: Model = model.fit_apart(lesson.states, lesson.labels, demos.n_actions, rng, **counts)
        return fitted
    if isinstance(model, SmoothRegressor):
        return model.fit_smooth([lesson.states], lesson.labels, lesson.labels, lesson.anchors, 0.0, rng, **counts)
    return models.fit(model, lesson.states.matrix(), lesson.labels, rng, **counts)


def prepare(demos: Demonstrations, course: Course) -> Lesson:
    """Form states and what to say in them."""
    labels = label(demos.actions, course.aims)
    weights = None if demos.weights is None else weigh_ahead(demos.weights, course.aims)
    return Lesson(states_of(demos, course.horizon), labels, labels, weights)


@singledispatch
def teach_folds(
    demos: Any, model: Any, horizon: Horizon, aims: Sequence[Aim], folds: IntArray, judged: BoolArray
) -> tuple[Model, FloatArray]:
    """Fit a `FoldRegressor` to all; with f comes what fits without a sequence's fold say in it, where it is judged."""
    found: tuple[Model, FloatArray] = model.fit_folds(Whole(lesson_of(demos, folds, judged, horizon, aims)))
    return found


def lesson_of(
    demos: Demonstrations, folds: IntArray, judged: BoolArray | IntArray, horizon: Horizon, aims: Sequence[Aim]
) -> FoldLesson:
    """Return what a `FoldRegressor` is fitted to."""
    weights = None if demos.weights is None else weigh_ahead(demos.weights, aims)
    return FoldLesson(states_of(demos, horizon), label(demos.actions, aims), folds, weights, judged > 0)


@singledispatch
def resolve(demos: Any, smoothness: SmoothTime, regularizer: RegularizerClass) -> float:
    """Return the lambda that lags by so much, for demonstrations in standard units."""
    return smoothness.resolve(regularizer, demos.actions, demos.rate)
