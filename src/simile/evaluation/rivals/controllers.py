"""Controllers that are no policies of Eq. 2: a predictor with any causal filter behind it, and the held action."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from simile._common.typing import FloatArray, Trajectories
from simile.data.demonstrations import Demonstrations
from simile.data.recorded import Units
from simile.data.states import Tape
from simile.evaluation.rivals.filters import Filter, Follower
from simile.online import Predictor
from simile.policies.policies import SmoothPolicy
from simile.policies.rollouts import ExpertStart, rollout

HELD = "hold the last action"
Step = Callable[[Any], FloatArray | None]  # context (m,) -> action (k,); None while it waits


@dataclass(frozen=True, eq=False)
class Filtered:
    """A predictor on contexts alone, and a filter behind it.

    Parameters
    ----------
    predictor : SmoothPolicy
        Predicts from contexts, with no action lags and smoothness 0.
    filter : Filter
        What makes it smooth; it works in standard units.
    """

    predictor: SmoothPolicy
    filter: Filter

    @property
    def memory(self) -> int:
        """How many first frames are the expert's: what the filter remembers, or until the predictor can aim."""
        return max(self.filter.memory, self.predictor.horizon.lead)

    @property
    def units(self) -> Units:
        """Those of the predictor."""
        return self.predictor.units

    @property
    def policy(self) -> SmoothPolicy | None:
        """The same controller as a policy of Eq. 2, to save and to serve; None where the filter is no follower."""
        return put_behind(self.predictor, self.filter) if isinstance(self.filter, Follower) else None

    def rollout(self, demos: Demonstrations, *, frames: int = 0) -> list[FloatArray]:
        """Control every sequence from the expert's first frames: at least `frames`, and as many as it needs."""
        raw = forecast(self.predictor, demos)
        rolled = filter_after_expert(self.filter, self.predictor.units, raw, demos, frames=max(frames, self.memory))
        return [self.predictor.space.clip(a) for a in rolled]

    def online(self, start: ArrayLike) -> Step:
        """Return a function of the present context that acts, frame by frame, after known actions (any, k)."""
        policy, units, space = self.predictor, self.predictor.units, self.predictor.space
        past = units.standardize(np.atleast_2d(np.asarray(start, dtype=np.float64)))
        raw = Predictor(policy, start=start)
        state = self.filter.start(past)

        def step(x: Any) -> FloatArray | None:
            nonlocal state
            if (said := raw.step(x)) is None:
                return None
            state, action = self.filter.step(state, units.standardize(said))
            return space.clip(units.restore(action))

        return step


@dataclass(frozen=True)
class Held:
    """The last known action, held for good: what anything learned must beat."""

    memory: int = 1

    def rollout(self, demos: Demonstrations, *, frames: int = 0) -> list[FloatArray]:
        """Hold what the expert did last in the first frames."""
        known, rolled = max(frames, self.memory), []
        for expert in demos.actions:
            actions = expert.copy()
            actions[known:] = expert[min(known, len(expert)) - 1]
            rolled.append(actions)
        return rolled

    def online(self, start: ArrayLike) -> Step:
        """Return a function that always gives the last of the known actions (any, k)."""
        last = np.atleast_2d(np.asarray(start, dtype=np.float64))[-1]
        return lambda _: last


def roll_out(controller: Any, demos: Demonstrations, frames: int, *, first: int = 0) -> list[FloatArray]:
    """Roll a policy, or one of these controllers, out after `frames` frames of the expert; `first` as in `rollout`."""
    if isinstance(controller, Filtered | Held):
        return controller.rollout(demos, frames=frames)
    return rollout(controller, demos, start=ExpertStart(frames), first=first)


def forecast(policy: SmoothPolicy, demos: Demonstrations) -> list[FloatArray]:
    """Return what f says in every frame, (T, k) for each sequence in standard units; f must read contexts alone."""
    return [
        policy.f.predict(Tape.of([x], [np.zeros((len(x), policy.n_actions))]).states(policy.horizon).matrix())
        for x in map(policy.units.shift, demos.foretell(policy.horizon.known).contexts)
    ]


def filter_after_expert(
    kind: Filter, units: Units, raw: Trajectories, demos: Demonstrations, *, frames: int
) -> list[FloatArray]:
    """Filter forecasts (standard units) from the expert's first frames on; returns actions in the user's units."""
    rolled = []
    for forecast, expert in zip(raw, demos.actions, strict=True):
        actions = expert.copy()
        if len(expert) > frames:
            actions[frames:] = units.restore(kind.run(forecast[frames:], units.standardize(expert[:frames])))
        rolled.append(actions)
    return rolled


def put_behind(policy: SmoothPolicy, follower: Follower) -> SmoothPolicy:
    """Put a follower behind a predictor, as a policy of Eq. 2; the past that f may read is what was done."""
    h = follower.regularizer.fit([np.zeros((1, policy.n_actions))], follower.smoothness)
    return replace(policy, h=h, smoothness=follower.smoothness)
