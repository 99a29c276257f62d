"""What a policy does on a held-out sequence, at its own smoothness or at any other, while a slider moves.

Where f reads contexts alone its outputs do not hang on the actions, and so not on lambda either: they are computed
once, and a roll-out at any lambda is a linear filter over them (`simile.models.closed_loop`), a millisecond's work.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from simile._common.typing import FloatArray, Trajectories
from simile.data import losses
from simile.data.demonstrations import ActionSpace, Demonstration, Demonstrations, Units
from simile.data.states import Tape
from simile.errors import ArgumentError, SimileError
from simile.learning import measures
from simile.learning.recipes import parse
from simile.models.regularizers import Autoregressor, CriticallyDamped, Regularizer, RegularizerClass
from simile.policies.fused import FusedPolicy
from simile.policies.policies import MixedPolicy, Policy, SmoothPolicy, acting, closed_loop, collapse, parts
from simile.policies.rollouts import rollout

LAMBDAS = (0.1, 1e5)  # the slider's range, wider where the policy's own lambda asks for it
_ROWS = 20_000  # states at a time for models that want a matrix of them


@dataclass(frozen=True, eq=False)
class Subject:
    """A policy that is looked at, with what is needed to give it another smoothness.

    Parameters
    ----------
    policy : Policy
        As it was loaded.
    trained_on : Demonstrations
        What it learned from: h is chosen anew for these.
    """

    policy: Policy
    trained_on: Demonstrations

    @cached_property
    def whole(self) -> Policy:
        """The policy as roll-outs see it, in one piece where that can be."""
        return acting(self.policy)

    @cached_property
    def smoothness(self) -> float:
        """Its own lambda, or the mean of its parts'."""
        own = [part.smoothness for _, part in parts(self.whole)]
        return float(np.mean(own)) if own else 0.0

    @property
    def is_linear(self) -> bool:
        """Whether a roll-out is a linear filter over f's outputs."""
        one = self.whole
        return isinstance(one, SmoothPolicy) and one.closed_loop is not None and one.horizon.memory == 0

    def range(self) -> dict[str, float]:
        """Return the slider's range: lambda now, and the lowest and highest."""
        now = self.smoothness
        low, high = LAMBDAS
        return {"now": now, "low": min(low, now / 10.0) if now > 0.0 else low, "high": max(high, 10.0 * now)}

    def at(self, smoothness: float | None) -> Policy:
        """Return the policy with another lambda: the same f behind the filter of that lambda."""
        if smoothness is None or smoothness == self.smoothness:
            return self.whole
        return collapse(self._change(self.whole, smoothness))

    def h_at(self, smoothness: float, kept: Regularizer) -> Regularizer:
        """Choose h (line 7 of Algorithm 1) for a lambda; an h that is not linear is kept."""
        if not isinstance(kept, Autoregressor):
            return kept
        h = self._regularizer.fit(self._standard, smoothness)
        if isinstance(h, Autoregressor) and h.radius(smoothness) >= 1.0:
            raise ArgumentError(
                f"smoothness {smoothness:g} is more than sequences of a million frames need: slide back"
            )
        return h

    def _change(self, policy: Policy, smoothness: float) -> Policy:
        if isinstance(policy, MixedPolicy):
            return replace(policy, components=tuple(self._change(part, smoothness) for part in policy.components))
        if not isinstance(policy, SmoothPolicy):
            return policy
        return replace(policy, h=self.h_at(smoothness, policy.h), smoothness=smoothness)

    @cached_property
    def _regularizer(self) -> RegularizerClass:
        """H, as the policy's card says it."""
        said = self.policy.card.training.get("settings", {})
        try:
            found = parse(str(said.get("regularizer")), "regularizer")
        except SimileError:  # one of the user's own; the default is as good as any other
            found = None
        return found if isinstance(found, RegularizerClass) else CriticallyDamped(order=3)

    @cached_property
    def _standard(self) -> Trajectories:
        """The expert's actions in standard units, for classes H that learn from them."""
        return [self.policy.units.standardize(a) for a in self.trained_on.actions]


@dataclass(frozen=True, eq=False)
class Rolled:
    """A roll-out over one sequence and how good it is."""

    actions: FloatArray  # (T, k), in the user's units
    smoothness: float
    preview: bool  # whether lambda is another than the policy's own
    begins: int
    rmse: float  # in standard deviations of the expert's actions
    roughness: float
    lag: float

    @classmethod
    def of(
        cls, policy: Policy, actions: FloatArray, demo: Demonstration, smoothness: float, *, preview: bool
    ) -> Rolled:
        """Measure a roll-out over the frames that the policy chose itself."""
        begins = min(policy.memory, len(demo))
        ours, theirs = actions[begins:], demo.actions[begins:]
        error = float(np.sqrt(np.mean(((ours - theirs) / policy.units.scale) ** 2))) if len(ours) else math.nan
        late = losses.lag(ours, theirs) if len(ours) else np.full(1, math.nan)
        known = late[~np.isnan(late)]
        rough = measures.roughness([ours], Demonstrations((demo.cut(begins),))) if len(ours) > 2 else math.nan
        lag = float(known.mean()) if len(known) else math.nan
        return cls(actions, smoothness, preview, begins, error, rough, lag)


def outputs(policy: SmoothPolicy, demo: Demonstration) -> FloatArray:
    """Return f's outputs (T, k) along the contexts of a sequence, in standard units."""
    bare = replace(policy, smoothness=0.0, units=Units.identity(policy.n_actions), space=ActionSpace())
    if FusedPolicy.of(bare) is not None:
        # Without smoothness an action is what f says, and the kernel of roll-outs says it fastest.
        return rollout(bare, [demo.contexts], start=np.zeros(policy.n_actions))[0]
    tape = Tape.of([demo.contexts], [np.zeros_like(demo.actions)])
    parts = [
        policy.f.predict(tape.states(policy.horizon, np.arange(i, min(i + _ROWS, len(demo)))).matrix())
        for i in range(0, len(demo), _ROWS)
    ]
    return np.concatenate(parts)


def roll(subject: Subject, demo: Demonstration, smoothness: float | None, said: FloatArray | None) -> Rolled:
    """Roll a policy out over a sequence, from the expert's first frames.

    Parameters
    ----------
    smoothness : float, optional
        Another lambda than the policy's own.
    said : (T, k) array, optional
        `outputs` of the policy, where it is linear.
    """
    own = smoothness is None or smoothness == subject.smoothness
    policy = subject.at(None if own else smoothness)
    value = subject.smoothness if own or smoothness is None else smoothness
    actions = None if said is None else _filtered(policy, said, demo)
    if actions is None:
        actions = rollout(policy, demo)[0]
    return Rolled.of(policy, actions, demo, value, preview=not own)


def _filtered(policy: Policy, said: FloatArray, demo: Demonstration) -> FloatArray | None:
    """Filter f's outputs; None where bounds cut in, which no filter knows of."""
    loop = closed_loop(policy)
    if loop is None:
        return None
    actions = policy.units.restore(loop.roll(said, policy.units.standardize(demo.actions)))
    actions[: policy.memory] = demo.actions[: policy.memory]
    later = actions[policy.memory :]
    if not np.isfinite(later).all() or (later < policy.space.low).any() or (later > policy.space.high).any():
        return None
    return actions
