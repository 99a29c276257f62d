"""What the filters of the rivals are put behind: predictors, each with one knob that validation chooses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.data.demonstrations import Demonstrations
from simile.data.recorded import Units
from simile.data.states import Horizon, Tape
from simile.data.timing import Known
from simile.learning.aims import Aim, label
from simile.learning.algorithms import clone, dagger
from simile.models import Model, PiecewiseLinear, SmoothForest
from simile.models.columns import layout
from simile.models.regularizers import PreviousAction
from simile.policies.cards import Card
from simile.policies.policies import SmoothPolicy

FOREST = SmoothForest()
CONTEXTS, HISTORY = Horizon(context_lags=10, action_lags=0), Horizon(context_lags=10, action_lags=10)


@runtime_checkable
class Source(Protocol):
    """A recipe for predictors (smoothness 0), one for every value of its knob."""

    @property
    def knob(self) -> str:
        """What the knob is called; empty where there is none."""

    def candidates(self, demos: Demonstrations, seed: int) -> Iterator[tuple[float, SmoothPolicy]]:
        """Fit a predictor for each value of the knob."""

    def chosen(self, demos: Demonstrations, value: float, seed: int) -> SmoothPolicy:
        """Fit the predictor of one value."""


def lead_source(source: Any, lead: int, known: Known) -> Any:
    """Return a recipe whose predictors act so many frames ahead and know what comes; its horizon says what they see."""
    if not lead and not known:
        return source
    return replace(source, horizon=replace(source.horizon.led(lead), known=known))


@dataclass(frozen=True)
class ContextForest:
    """A forest on contexts that predicts the expert's action some frames ahead, to make up for the filter's lag.

    Parameters
    ----------
    model : SmoothForest
        The forest.
    horizon : Horizon
        The context lags.
    ahead : tuple of int
        How many frames ahead; the knob, where there is more than one.
    """

    model: SmoothForest = FOREST
    horizon: Horizon = CONTEXTS
    ahead: tuple[int, ...] = (0,)

    @property
    def knob(self) -> str:
        """What the knob is called."""
        return "ahead" if len(self.ahead) > 1 else ""

    def candidates(self, demos: Demonstrations, seed: int) -> Iterator[tuple[float, SmoothPolicy]]:
        """Fit a forest for each number of frames ahead, each its own: one for all is faster and less accurate."""
        units, shortest = Units.of(demos), min(self.ahead)
        tape = _tape(demos.standardize(units))
        # Further ahead than any sequence goes there is nothing to learn.
        for ahead in (d for d in self.ahead if d == shortest or d < max(len(a) for a in demos.actions)):
            yield ahead, self._fit(demos, units, tape, ahead, seed)

    def chosen(self, demos: Demonstrations, value: float, seed: int) -> SmoothPolicy:
        """Fit the forest for one number of frames ahead."""
        units = Units.of(demos)
        return self._fit(demos, units, _tape(demos.standardize(units)), int(value), seed)

    def _fit(self, demos: Demonstrations, units: Units, tape: Tape, ahead: int, seed: int) -> SmoothPolicy:
        actions = np.split(tape.actions, np.cumsum(demos.lengths)[:-1])
        labels, rng = label(actions, [Aim(ahead)]), np.random.default_rng(seed)
        f = self.model.fit_smooth([tape.states(self.horizon)], labels, labels, labels, 0.0, rng)
        return _bare(f, self.horizon, demos, units)


@dataclass(frozen=True)
class ContextRidge:
    """A ridge on standardised contexts; a missing value counts as the mean.

    Parameters
    ----------
    horizon : Horizon
        The context lags.
    alphas : tuple of float
        Penalties per frame; the knob.
    """

    horizon: Horizon = CONTEXTS
    alphas: tuple[float, ...] = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    knob: ClassVar[str] = "alpha"

    def candidates(self, demos: Demonstrations, seed: int) -> Iterator[tuple[float, SmoothPolicy]]:  # noqa: ARG002
        """Fit a ridge for each penalty; they share one Gram matrix."""
        system = _System.of(demos, self.horizon)
        for alpha in self.alphas:
            yield alpha, _bare(system.solve(alpha), self.horizon, demos, system.units)

    def chosen(self, demos: Demonstrations, value: float, seed: int) -> SmoothPolicy:  # noqa: ARG002
        """Fit the ridge of one penalty."""
        system = _System.of(demos, self.horizon)
        return _bare(system.solve(value), self.horizon, demos, system.units)


@dataclass(frozen=True)
class NoisyHistory:
    """A forest that also reads past actions, trained with noise on them so that it does not simply copy the last.

    Parameters
    ----------
    sigmas : tuple of float
        Deviation of the noise in standard units; the knob. (0.0,) is plain cloning.
    copies : int
        How often the data are repeated, each time with other noise.
    model, horizon
        The forest, and what it reads.
    """

    sigmas: tuple[float, ...] = (0.0,)
    copies: int = 2
    model: SmoothForest = FOREST
    horizon: Horizon = HISTORY

    @property
    def knob(self) -> str:
        """What the knob is called."""
        return "noise" if len(self.sigmas) > 1 else ""

    def candidates(self, demos: Demonstrations, seed: int) -> Iterator[tuple[float, SmoothPolicy]]:
        """Fit a forest for each deviation."""
        for sigma in self.sigmas:
            yield sigma, self.chosen(demos, sigma, seed)

    def chosen(self, demos: Demonstrations, value: float, seed: int) -> SmoothPolicy:
        """Fit the forest for one deviation."""
        plain = clone(
            demos, model=self.model, horizon=self.horizon, smoothness=0.0, regularizer=PreviousAction(), seed=seed
        ).policy
        assert isinstance(plain, SmoothPolicy)
        if value == 0.0:
            return plain
        rng = np.random.default_rng(seed)
        tape = _tape(demos.standardize(plain.units))
        actions = tape.actions
        noisy = [
            tape.with_actions(actions + value * rng.normal(size=actions.shape)).states(self.horizon)
            for _ in range(self.copies)
        ]
        labels = np.concatenate([actions] * self.copies)
        return replace(plain, f=self.model.fit_smooth(noisy, labels, labels, labels, 0.0, rng))


@dataclass(frozen=True)
class Demonstrator:
    """DAgger without an expert: the recorded action of a frame is the label wherever the policy then is.

    "Data as demonstrator", Venkatraman, Hebert and Bagnell 2015.

    Parameters
    ----------
    n_rounds : int
        How many rounds; the knob is the round that is taken.
    model, horizon
        The forest, and what it reads.
    """

    n_rounds: int = 3
    model: SmoothForest = FOREST
    horizon: Horizon = HISTORY
    knob: ClassVar[str] = "round"

    def candidates(self, demos: Demonstrations, seed: int) -> Iterator[tuple[float, SmoothPolicy]]:
        """Run the rounds; each has a policy."""
        for turn in self._run(demos, self.n_rounds, seed).rounds:
            if turn.number > 0 and isinstance(turn.policy, SmoothPolicy):
                yield turn.number, turn.policy

    def chosen(self, demos: Demonstrations, value: float, seed: int) -> SmoothPolicy:
        """Run up to one round."""
        policy = self._run(demos, int(value), seed).rounds[-1].policy
        assert isinstance(policy, SmoothPolicy)
        return policy

    def _run(self, demos: Demonstrations, n_rounds: int, seed: int) -> Any:
        return dagger(
            demos,
            model=self.model,
            horizon=self.horizon,
            smoothness=0.0,
            regularizer=PreviousAction(),
            n_rounds=n_rounds,
            seed=seed,
        )


@dataclass(frozen=True, eq=False)
class _System:
    """The normal equations of a ridge on the lagged contexts of demonstrations."""

    gram: FloatArray
    moment: FloatArray
    center: FloatArray
    scale: FloatArray
    n_frames: int
    place: tuple[IntArray, IntArray, int]  # base columns, lags and width of the states
    units: Units

    @classmethod
    def of(cls, demos: Demonstrations, horizon: Horizon) -> _System:
        """Sum them up sequence by sequence, so that no matrix of all frames is built."""
        units = Units.of(demos)
        demos = demos.standardize(units)
        x = np.concatenate(demos.contexts)
        there = ~np.isnan(x)
        counts = np.maximum(there.sum(axis=0), 1)
        center = np.where(there, x, 0.0).sum(axis=0) / counts
        scale = np.sqrt((np.where(there, x - center, 0.0) ** 2).sum(axis=0) / counts)
        scale[scale < 1e-12 * np.maximum(1.0, np.abs(center))] = 1.0  # a context that never moves says nothing
        columns, lags = layout(horizon, demos.n_contexts, demos.n_actions)
        center, scale = center[columns], scale[columns]
        gram, moment = np.zeros((len(columns), len(columns))), np.zeros((len(columns), demos.n_actions))
        for contexts, actions in zip(demos.contexts, demos.actions, strict=True):
            matrix = Tape.of([contexts], [np.zeros((len(contexts), demos.n_actions))]).states(horizon).matrix()
            z = np.where(np.isnan(matrix), 0.0, (matrix - center) / scale)
            gram += z.T @ z
            moment += z.T @ actions
        # The lagged columns keep the mean of the present one, nearly their own: the intercept stays that of the units.
        return cls(
            gram, moment, center, scale, demos.n_frames, (columns, lags, demos.n_contexts + demos.n_actions), units
        )

    def solve(self, alpha: float) -> PiecewiseLinear:
        """Return the ridge of one penalty per frame."""
        penalized = self.gram + alpha * self.n_frames * np.eye(len(self.gram))
        weights = np.linalg.lstsq(penalized, self.moment, rcond=None)[0] / self.scale[:, np.newaxis]
        columns, lags, width = self.place
        return PiecewiseLinear(
            feature=np.arange(len(columns)),
            knot=np.full(len(columns), -np.inf),
            fill=self.center,
            coefficient=weights,
            intercept=-self.center @ weights,
            columns=columns,
            lags=lags,
            width=width,
        )


def _bare(f: Model, horizon: Horizon, demos: Demonstrations, units: Units) -> SmoothPolicy:
    """Make a policy without smoothness of a model on contexts."""
    h = PreviousAction().fit(demos.actions, 0.0)
    card = Card(
        demos.context_names, demos.action_names, demos.rate, {"sequences": len(demos), "frames": demos.n_frames}
    )
    return SmoothPolicy(f, h, 0.0, horizon, None, demos.n_contexts, units, card=card)


def _tape(demos: Demonstrations) -> Tape:
    return Tape.of(demos.contexts, demos.actions)
