"""Line 8 of Algorithm 1: Train(S, A^ | h), for any regressor, and D_n, what there is to train on."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from simile import models
from simile._common.typing import FloatArray
from simile.data.recorded import ActionSpace, Units
from simile.data.states import Horizon, States
from simile.errors import ArgumentError
from simile.models import Criterion, Model, SmoothForest, SmoothRegressor
from simile.models.adapters import Deferred, fresh, weights_for
from simile.models.forest import draw_seeds
from simile.models.regularizers import Regularizer
from simile.policies.policies import SmoothPolicy


@dataclass(frozen=True, eq=False)
class Dataset:
    """D_n: the states of a round, their targets (n, k), and how much each counts where they do not count alike."""

    states: States
    targets: FloatArray
    weights: FloatArray | None = None

    def __post_init__(self) -> None:
        expected = (len(self.states), self.states.tape.actions.shape[1])
        if self.targets.shape != expected or not np.isfinite(self.targets).all():
            raise ArgumentError(
                f"feedback must return finite targets, one (T, k) array per sequence and {expected} together; "
                f"got {self.targets.shape}{'' if np.isfinite(self.targets).all() else ' with NaN or infinity'}"
            )


@dataclass(frozen=True, eq=False)
class Lesson:
    """What f is fitted to: states, labels (n, any), and anchors h(s) for those who choose their structure by them."""

    states: States
    labels: FloatArray
    anchors: FloatArray
    weights: FloatArray | None = None  # (n, k)


Memory = Callable[[tuple[Any, ...], Any], tuple[Any, ...]]  # of `Dataset`s, or of what stands for those elsewhere


def latest(past: tuple[Any, ...], new: Any) -> tuple[Any, ...]:  # noqa: ARG001
    """Train on the latest round alone, as SIMILE and SEARN do."""
    return (new,)


def everything(past: tuple[Any, ...], new: Any) -> tuple[Any, ...]:
    """Train on all rounds together, as DAgger does."""
    return (*past, new)


@runtime_checkable
class Rule(Protocol):
    """Which loss the leaf values of Appendix B minimise; both come down to least squares for any f."""

    def labels(self, targets: FloatArray, anchors: FloatArray, smoothness: float) -> FloatArray:
        """Return what f is fitted to, (n, k), given targets a^ and anchors h(s)."""


@dataclass(frozen=True)
class JointRule:
    """Imitation and smoothness loss together: f is fitted to a^ (leaf rule of Eq. 25)."""

    def labels(self, targets: FloatArray, anchors: FloatArray, smoothness: float) -> FloatArray:  # noqa: ARG002
        """Return a^."""
        return targets


@dataclass(frozen=True)
class ImitationRule:
    """Imitation loss alone: f is fitted to (1 + lambda) a^ - lambda h(s) (leaf rule of Eq. 23).

    It makes the policy, not f, hit the targets, and multiplies their noise by lambda.
    """

    def labels(self, targets: FloatArray, anchors: FloatArray, smoothness: float) -> FloatArray:
        """Return (1 + lambda) a^ - lambda h(s)."""
        return (1.0 + smoothness) * targets - smoothness * anchors


@dataclass(frozen=True)
class Train:
    """The base routine: finds the best f in F for a fixed h."""

    model: Any
    smoothness: float
    horizon: Horizon
    rule: Rule
    naive: Model | None
    space: ActionSpace

    def __call__(self, data: Sequence[Dataset], h: Regularizer, rng: np.random.Generator) -> SmoothPolicy:
        """Fit f to D_n and return pi^_n = (f, h)."""
        targets = data[0].targets if len(data) == 1 else np.concatenate([d.targets for d in data])
        anchors = targets  # which do not matter where trees split by the targets alone
        if not (isinstance(self.rule, JointRule) and getattr(self.model, "by_labels", False)):
            anchors = np.concatenate([anchors_of(h, d.states) for d in data])
        labels = self.rule.labels(targets, anchors, self.smoothness)
        known = [d.weights for d in data if d.weights is not None]
        counts = weights_for(self.model, known or None)
        if isinstance(self.model, SmoothRegressor):
            states = [d.states for d in data]
            f = self.model.fit_smooth(states, labels, targets, anchors, self.smoothness, rng, **counts)
        else:
            S = np.concatenate([d.states.matrix() for d in data])
            f = models.fit(self.model, S, labels, rng, **counts)
        n_contexts = data[0].states.tape.n_contexts
        units = Units.identity(targets.shape[1])
        return SmoothPolicy(f, h, self.smoothness, self.horizon, self.naive, n_contexts, units, self.space)


def anchors_of(h: Regularizer, states: States, *, at_once: int = 20_000) -> FloatArray:
    """Return h(s) for each state, (n, k); a part at a time, for histories take `order` times the room of actions."""
    parts = np.array_split(np.arange(len(states)), max(1, len(states) // at_once))
    return np.concatenate([h(some.history(h.order)) for some in (states.where(part) for part in parts)])


def split_by(criterion: Criterion | None, model: Any) -> Any:
    """Let a forest that names no criterion have this one, also one that is wrapped, as in `Checkpointed(model)`."""
    if isinstance(model, SmoothForest):
        return model if model.criterion else replace(model, criterion=criterion)
    if is_dataclass(model) and isinstance(inner := getattr(model, "model", None), SmoothForest):
        return replace(model, model=split_by(criterion, inner))  # type: ignore[type-var]
    return model


def fit_naive(model: Any, form: Callable[[], tuple[States, FloatArray]], rng: np.random.Generator) -> Model:
    """Fit f_0, the "naive" learner on contexts alone (proof of Proposition 5.8): it starts cold roll-outs.

    Only cold starts and files want it, so it is fitted, and its states and targets are formed, when one of them asks;
    what it draws at random is drawn now.
    """

    def fit(chance: np.random.Generator) -> Model:
        states, targets = form()
        contexts = states.view_through(states.horizon.without_actions())
        if isinstance(model, SmoothRegressor):
            return model.fit_smooth([contexts], targets, targets, targets, 0.0, chance)
        return models.fit(model, contexts.matrix(), targets, chance)

    if isinstance(model, SmoothRegressor) and not isinstance(model, SmoothForest):
        return fit(rng)  # it may remember its fits, in their order
    chance = copy.deepcopy(rng)
    if isinstance(model, SmoothForest):
        draw_seeds(model, rng)
    else:
        fresh(model, form()[1].shape[1], rng)
    return Deferred(lambda: fit(chance))
