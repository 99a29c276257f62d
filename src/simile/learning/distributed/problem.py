"""Data in parts: each line of Algorithm 1 runs where a part is, and only models, histograms and sums travel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import add, itemgetter
from typing import Any

import numpy as np

from simile._common.typing import BoolArray, FloatArray, IntArray, PerAction, Trajectories
from simile.data.demonstrations import Demonstrations
from simile.data.groups import draw_sequences
from simile.data.recorded import Units
from simile.data.states import Horizon, States, Tape
from simile.errors import ArgumentError
from simile.learning.aims import Aim
from simile.learning.checkpoints import Checkpointed, keep_fit, recipe_of
from simile.learning.distributed.demonstrations import DistributedDemonstrations
from simile.learning.distributed.forest import (
    Part,
    bring,
    choose_context_edges,
    grow_apart,
    grow_distributed,
    grow_there,
)
from simile.learning.distributed.parts import DistributedParts, View
from simile.learning.feedback import Feedback, Seen, SmoothFeedback, constant
from simile.learning.measures import Outcome
from simile.learning.outliers import refuse_loss
from simile.learning.problem import (
    Course,
    Setup,
    check_models,
    judge,
    lesson_of,
    match_lag,
    pose,
    prepare,
    regularize,
    resolve,
    teach,
    teach_folds,
)
from simile.learning.smoothness import SmoothTime, smoothness_for
from simile.learning.step_sizes import BoundMinimizer, Evidence, Monotonic, StepSize
from simile.learning.training import Dataset, Rule, anchors_of
from simile.models import Model, SmoothForest, SmoothRegressor, fit
from simile.models.neural import TorchRegressor
from simile.models.regularizers import Regularizer, RegularizerClass, SummedRegularizerClass, Sums, choose_each
from simile.models.ridge import FoldRegressor
from simile.policies.policies import Combine, Policy, SmoothPolicy

Handles = Sequence[Any]  # one for each part
COPIES = 4  # of a matrix of states that fitting it may take


@dataclass(frozen=True, eq=False, kw_only=True)
class DistributedProblem(Setup):
    """Demonstrations in parts, in standard units; trajectories, states and data are handles, one for each part."""

    demos: DistributedDemonstrations

    def __post_init__(self) -> None:
        check_choices({"model": self.model, "regularizer": self.regularizer}, rounds=True)

    def check(self, step_size: StepSize, combine: Combine) -> None:  # noqa: ARG002
        """Refuse choices that need all data in one place."""
        check_choices({"step_size": step_size}, rounds=True)

    @cached_property
    def expert(self) -> Handles:
        """The expert's trajectories A*."""
        return self.demos.actions()

    @cached_property
    def _naive(self) -> Model | None:
        """f_0, fitted once, before the first f."""
        if not self.horizon.memory:
            return None
        parts = self.demos.map(_naive_part, self.expert, shared=(self.horizon.without_actions(),))
        return self._grow(parts, 1, 0.0, self.horizon.without_actions())

    def roll_out(self, policy: Policy, seed: int = 0) -> Outcome:
        """Roll a policy out and measure its error: line 4."""
        return self.demos.outcome(policy, seed=seed)

    def states(self, rolled: Handles) -> Handles:
        """Return the trajectories: states are formed where they are needed (line 5)."""
        return rolled

    def targets(self, n: int, policy: Policy, rolled: Handles, states: Handles) -> tuple[Handles, float]:  # noqa: ARG002
        """Take feedback on the roll-out of a policy, part by part, with one sigma for all: line 6."""
        feedback, sigma = self.feedback, math.nan
        if isinstance(feedback, SmoothFeedback):
            away: Any = Elsewhere("feedback", f"{feedback!r}", "a schedule that goes by the number of the round")
            sigma = feedback.sigma(Seen(n, self.n_rounds, away, away, away, policy, self.units))
            feedback = replace(feedback, schedule=constant(sigma))
        shared = (n, self.n_rounds, self.horizon, policy, self.units, feedback)
        return self.demos.map(_targets, rolled, shared=shared), sigma

    def regularize(self, targets: Handles) -> Regularizer:
        """Choose h by sums over all sequences: line 7."""
        return _solvable(self.regularizer).solve(self._sums(targets), self.smoothness)

    def _sums(self, targets: Handles) -> Sums:
        backend = self.demos.backend
        found: Sums = backend.total(add, backend.map(_sums, targets, shared=(self.regularizer,)))
        return found

    def dataset(self, states: Handles, targets: Handles) -> tuple[Handles, Handles]:
        """Keep states and targets for training."""
        return states, targets

    def train(self, data: Sequence[tuple[Handles, Handles]], h: Regularizer) -> SmoothPolicy:
        """Train on the data of some rounds, all parts of one round before those of the next: line 8."""
        naive = self._naive
        shared = (self.horizon, h, self.rule, self.smoothness)
        parts = [part for states, targets in data for part in self.demos.map(_part, states, targets, shared=shared)]
        f = self._grow(parts, len(data), self.smoothness, self.horizon)
        units = Units.identity(self.demos.n_actions)
        return SmoothPolicy(f, h, self.smoothness, self.horizon, naive, self.demos.n_contexts, units, self.space)

    def _grow(self, parts: Handles, n_rounds: int, smoothness: float, horizon: Horizon) -> Model:
        starts = np.append(0, np.cumsum(np.tile(self.demos.lengths, n_rounds)))
        edges, model = self._context_edges, recipe_of(self.model)

        def grow() -> Model:
            backend = self.demos.backend
            return grow_distributed(backend, model, parts, starts, smoothness, self.rng, context_edges=edges)

        return keep_fit(self.model, grow, self.demos, horizon, self.demos.n_actions, self.rng)

    @cached_property
    def _context_edges(self) -> list[Any]:
        """Bins of the contexts, which stay the same in all rounds."""
        parts = self.demos.map(_naive_part, self.expert, shared=(self.horizon,))
        return choose_context_edges(self.demos.backend, parts)

    def evidence(
        self,
        policy: Policy,
        trained: Policy,
        outcome: Outcome,
        states: Handles,  # noqa: ARG002
        combine: Combine,
    ) -> Evidence:
        """Gather what a step size may go by: errors of roll-outs (line 9)."""
        away: Any = Elsewhere("step_size", "this rule", "ErrorRatio(), LineSearch(), OneOverHorizon() or a number")
        return DistributedEvidence(away, policy, trained, outcome, away, combine, self.demos)

    def show(self, trajectories: Handles) -> list[FloatArray]:  # noqa: ARG002
        """Return nothing: trajectories stay where they are."""
        return []


@dataclass(frozen=True, eq=False)
class DistributedEvidence(Evidence):
    """What a step size may go by where the data are in parts: errors of roll-outs."""

    spread: DistributedDemonstrations

    @property
    def longest(self) -> int:
        """Frames of the longest sequence, T."""
        return int(self.spread.lengths.max())

    def error_of(self, policy: Policy) -> float:
        """Roll any policy out and return its error; infinite where it diverges."""
        return self.spread.outcome(policy).error


@dataclass(frozen=True, eq=False)
class SolvedRegularizer:
    """H that has its sums already, to look for a lambda without asking for the trajectories again."""

    regularizer: SummedRegularizerClass
    sums: Sums

    @classmethod
    def of(cls, regularizer: RegularizerClass, demos: DistributedDemonstrations) -> RegularizerClass:
        """Sum over the expert's trajectories."""
        if hasattr(regularizer, "smoothness_for"):  # which needs no trajectories
            return regularizer
        return cls(_solvable(regularizer), demos.total(_sum_actions, shared=(_solvable(regularizer),)))

    def fit(self, trajectories: Trajectories, smoothness: float) -> Regularizer:  # noqa: ARG002
        """Choose h for the sums; the trajectories do not matter."""
        return self.regularizer.solve(self.sums, smoothness)


class Elsewhere:
    """Stands for data that are not here: whoever looks into them is told so."""

    def __init__(self, name: str, who: str, instead: str) -> None:
        self._said = f"{name}: {who} looks at trajectories, which stay where they are with a backend: use {instead}"

    def __getattr__(self, _: str) -> Any:
        raise ArgumentError(self._said)

    def __len__(self) -> int:
        raise ArgumentError(self._said)

    def __iter__(self) -> Any:
        raise ArgumentError(self._said)

    def __getitem__(self, _: Any) -> Any:
        raise ArgumentError(self._said)


def check_choices(settings: Mapping[str, Any], *, rounds: bool) -> None:
    """Refuse choices that need all data in one place: arguments of `learn`, or of the rounds of Algorithm 1."""
    refuse_loss(settings.get("loss"))
    model, step_size = settings.get("model"), settings.get("step_size")
    for one in model if isinstance(model, tuple) else () if model is None else (model,):
        _check_model(recipe_of(one), rounds=rounds)
    if settings.get("regularizer") is not None:
        _solvable(settings["regularizer"])
    if isinstance(step_size, Monotonic | BoundMinimizer):
        raise ArgumentError(
            f"step_size: {step_size!r} needs more than errors of roll-outs, which is all that comes back with a "
            "backend: use ErrorRatio(), LineSearch(), OneOverHorizon() or a number"
        )


def _check_model(model: Any, *, rounds: bool) -> None:
    fitted = isinstance(model, FoldRegressor) or not isinstance(model, SmoothRegressor)
    if isinstance(model, SmoothForest) or (fitted and not rounds):
        return
    known = "SmoothForest()" if rounds else "SmoothForest(), Ridge() or a regressor of scikit-learn"
    way_out = "or no backend"
    if isinstance(model, TorchRegressor):
        way_out = (
            "or train the network on one machine, best with a GPU, without a backend (a command: without --dask), on "
            "what that machine holds: some of the files, or demos.draw(BYTES).gather()"
        )
    raise ArgumentError(f"model: {model!r} cannot be trained on data in parts: use {known} with a backend, {way_out}")


def _solvable(regularizer: Any) -> SummedRegularizerClass:
    if not isinstance(regularizer, SummedRegularizerClass):
        raise ArgumentError(
            f"regularizer: {regularizer!r} must have methods sums() and solve() to be fitted to data in parts: use "
            "VelocityAutoregression(), LinearAutoregression(), CriticallyDamped() or PreviousAction() with a backend"
        )
    return regularizer


@pose.register
def _(demos: DistributedDemonstrations, **setup: Any) -> DistributedProblem:
    return DistributedProblem(demos=demos, **setup)


@judge.register
def _(demos: DistributedDemonstrations, policy: Policy, *, order: int = 2) -> Outcome:
    return demos.outcome(policy, order=order)


@check_models.register
def _(demos: DistributedDemonstrations, models: Sequence[Any], horizon: Horizon) -> tuple[str, ...]:
    check_choices({"model": tuple(models)}, rounds=False)
    notes = []
    for model in map(recipe_of, models):
        if isinstance(model, FoldRegressor | SmoothForest):
            continue
        n = len(_fitting(demos, horizon))
        if n < len(demos):
            notes.append(
                f"{type(model).__name__} is fitted to {n} of the {len(demos)} sequences, drawn by chance: as many as "
                "fit one worker"
            )
    return tuple(notes)


def _fitting(demos: DistributedDemonstrations, horizon: Horizon) -> IntArray:
    """Draw as many sequences as fit one worker, states and all; the same for the same sequences."""
    width = horizon.n_features(demos.n_contexts, demos.n_actions) + demos.n_actions
    frames = demos.backend.room // (COPIES * 8 * width)
    return draw_sequences(demos.lengths, frames, seed=0)


@regularize.register
def _(demos: DistributedDemonstrations, regularizer: RegularizerClass, smoothness: PerAction) -> Regularizer:
    def solve(action: int | None, value: float) -> Regularizer:
        return _solvable(regularizer).solve(demos.total(_sum_actions, shared=(_solvable(regularizer), action)), value)

    return choose_each(solve, smoothness, regularizer)


@match_lag.register
def _(demos: DistributedDemonstrations, regularizer: RegularizerClass, lag: float) -> float:
    return smoothness_for(SolvedRegularizer.of(regularizer, demos), lag, [])


@teach.register
def _(
    demos: DistributedDemonstrations, model: Any, course: Course, rng: np.random.Generator, *, here: bool = True
) -> Any:
    backend, recipe = demos.backend, recipe_of(model)

    def grow() -> Any:
        parts = demos.map(_prepare_part, shared=(course,))
        starts = np.append(0, np.cumsum(demos.lengths))
        if course.apart:
            return grow_apart(backend, recipe, parts, starts, demos.n_actions, rng)
        return grow_there(backend, recipe, parts, starts, 0.0, rng)

    def fit() -> Any:
        some = demos.where(_fitting(demos, course.horizon))
        lessons = some.map(prepare, shared=(course,))
        found = backend.map(_fit_together, *([one] for one in lessons), shared=(recipe, rng))
        (rng.bit_generator.state,) = backend.collect(backend.map(itemgetter(1), found))
        (f,) = backend.map(itemgetter(0), found)
        return f

    make = grow if isinstance(recipe, SmoothForest) else fit
    if not here and not isinstance(model, Checkpointed):  # which come here to be kept
        return make()
    outputs = len(course.aims) * demos.n_actions
    return keep_fit(model, lambda: bring(backend, make()), demos, course.horizon, outputs, rng)


@teach_folds.register
def _(
    demos: DistributedDemonstrations,
    model: Any,
    horizon: Horizon,
    aims: Sequence[Aim],
    folds: IntArray,
    judged: BoolArray,
) -> tuple[Model, FloatArray]:
    lesson = View(lesson_of, (demos.deal(folds), demos.deal(judged.astype(np.intp))), (horizon, aims))
    lessons = DistributedParts(demos.backend, demos.handles, views=(*demos.views, lesson))
    f, said = model.fit_folds(lessons)
    return f, np.concatenate(demos.backend.collect(said))


@resolve.register
def _(demos: DistributedDemonstrations, smoothness: SmoothTime, regularizer: RegularizerClass) -> float:
    return smoothness.resolve(SolvedRegularizer.of(regularizer, demos), [], demos.rate)


# What runs where a part is stands at the top level, so that it can be sent there.


def _states(demos: Demonstrations, rolled: Trajectories, horizon: Horizon) -> States:
    return Tape.of(demos.contexts, rolled).states(horizon)


def _naive_part(demos: Demonstrations, expert: Trajectories, horizon: Horizon) -> Part:
    targets = np.concatenate(expert)
    return Part(_states(demos, expert, horizon), targets, targets, targets)


def _part(
    demos: Demonstrations,
    rolled: Trajectories,
    targets: Trajectories,
    horizon: Horizon,
    h: Regularizer,
    rule: Rule,
    smoothness: float,
) -> Part:
    data = Dataset(_states(demos, rolled, horizon), np.concatenate(targets))
    anchors = anchors_of(h, data.states)
    return Part(data.states, rule.labels(data.targets, anchors, smoothness), data.targets, anchors)


def _targets(
    demos: Demonstrations,
    rolled: Trajectories,
    n: int,
    n_rounds: int,
    horizon: Horizon,
    policy: Policy,
    units: Units,
    feedback: Feedback,
) -> Trajectories:
    return list(feedback(Seen(n, n_rounds, demos, rolled, _states(demos, rolled, horizon), policy, units)))


def _sum_actions(demos: Demonstrations, regularizer: SummedRegularizerClass, action: int | None = None) -> Sums:
    return regularizer.sums(demos.actions if action is None else [a[:, [action]] for a in demos.actions])


def _prepare_part(demos: Demonstrations, course: Course) -> Part:
    lesson = prepare(demos, course)
    return Part(lesson.states, lesson.labels, lesson.labels, lesson.anchors)


def _fit_together(*given: Any) -> tuple[Model, Any]:
    """Fit any regressor to the lessons of all parts, which come first; returns what chance is left, too."""
    *lessons, model, rng = given
    S, Y = (
        np.concatenate(some) for some in ([one.states.matrix() for one in lessons], [one.labels for one in lessons])
    )
    return fit(model, S, Y, rng), rng.bit_generator.state


def _sums(targets: Trajectories, regularizer: SummedRegularizerClass) -> Sums:
    return regularizer.sums(targets)
