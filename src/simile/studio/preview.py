"""What a policy does on a held-out sequence, at its own smoothness or at any other, while a slider moves.

Where f reads contexts alone its outputs do not hang on the actions, and so not on lambda either: they are computed
once, and a roll-out at any lambda is a linear filter over them (`simile.models.closed_loop`), and the hold behind it, a
millisecond's work.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from simile._common.typing import FloatArray, PerAction, Trajectories
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.logs import Log
from simile.data.recorded import ActionSpace, Units
from simile.data.reference import Reference
from simile.data.states import Tape
from simile.errors import ArgumentError, SimileError
from simile.learning.recipes import parse
from simile.metrics import Score
from simile.models.coupling import LinearH
from simile.models.regularizers import CriticallyDamped, Regularizer, RegularizerClass, fit_each
from simile.policies.fused import FusedPolicy
from simile.policies.policies import (
    MixedPolicy,
    Policy,
    SmoothPolicy,
    acting,
    closed_loop,
    collapse,
    given_frames,
    hold,
    offset,
    parts,
    whole,
)
from simile.policies.rollouts import let_hold, rollout

LAMBDAS = (0.1, 1e5)  # the slider's range, wider where the policy's own lambda asks for it
_ROWS = 20_000  # states at a time for models that want a matrix of them


@dataclass(frozen=True, eq=False)
class PreviewedPolicy:
    """A policy that is looked at, with what is needed to give it another smoothness.

    Parameters
    ----------
    policy : Policy
        As it was loaded.
    trained_on : Demonstrations
        What it learned from: h is chosen anew for these.
    path : Policy, optional
        The mixtures from rough to smooth that it was chosen among, all their actions side by side.
    """

    policy: Policy
    trained_on: Demonstrations
    path: Policy | None = None

    @cached_property
    def whole(self) -> Policy:
        """The policy as roll-outs see it, in one piece where that can be."""
        return acting(self.policy)

    @cached_property
    def logs(self) -> tuple[Log, ...]:
        """By which noise is told from motion."""
        return self.policy.card.logs(self.trained_on.n_actions) or self.trained_on.logs

    @cached_property
    def smoothness(self) -> float:
        """Its own lambda, or the mean over its parts and actions."""
        own = [float(np.mean(part.smoothness)) for _, part in parts(self.whole)]
        return float(np.mean(own)) if own else 0.0

    @property
    def linear(self) -> SmoothPolicy | None:
        """The policy where a roll-out is a linear filter over f's outputs; None for any other."""
        one = whole(self.whole)
        return None if one is None or one.closed_loop is None or one.horizon.memory else one

    def describe_range(self) -> dict[str, float]:
        """Return the slider's range: lambda now, and the lowest and highest."""
        now = self.smoothness
        low, high = LAMBDAS
        return {"now": now, "low": min(low, now / 10.0) if now > 0.0 else low, "high": max(high, 10.0 * now)}

    def at(self, smoothness: float) -> Policy:
        """Return the policy with another lambda: the same f behind the filter of that lambda, and the same hold.

        Where each action has its own, all change by one factor, so that their mean is the one asked for.
        """
        if smoothness == self.smoothness:
            return self.whole
        return collapse(self._change(self.whole, smoothness))

    def read_path(self, outputs: FloatArray, smoothness: float) -> FloatArray:
        """Return f's outputs (T, k) at another lambda from those of the path, (T, any * k): between its neighbours."""
        assert isinstance(self.path, SmoothPolicy)
        k, found = self.policy.n_actions, []
        grid = np.log1p(np.reshape(self.path.smoothness, (-1, k)))
        own = np.mean([np.broadcast_to(part.smoothness, k) for _, part in parts(self.whole)], axis=0)
        wanted = np.log1p(np.broadcast_to(scale_smoothness(own, smoothness), k))
        for j, line in enumerate(grid.T):
            above = int(np.clip(np.searchsorted(line, wanted[j]), 1, len(line) - 1))
            share = np.clip((wanted[j] - line[above - 1]) / (line[above] - line[above - 1]), 0.0, 1.0)
            found.append((1.0 - share) * outputs[:, (above - 1) * k + j] + share * outputs[:, above * k + j])
        return np.stack(found, axis=1)

    def choose_h(self, smoothness: PerAction, kept: Regularizer) -> Regularizer:
        """Choose h (line 7 of Algorithm 1) for a lambda, or one for each action; an h that is not linear is kept."""
        if not isinstance(kept, LinearH):
            return kept
        h = fit_each(self._regularizer, self._standard, smoothness)
        if isinstance(h, LinearH) and h.radius(smoothness) >= 1.0:
            raise ArgumentError(
                f"smoothness {np.mean(smoothness):g} is more than sequences of a million frames need: slide back"
            )
        return h

    def _change(self, policy: Policy, smoothness: float) -> Policy:
        if isinstance(policy, MixedPolicy):
            return replace(policy, components=tuple(self._change(part, smoothness) for part in policy.components))
        if not isinstance(policy, SmoothPolicy):
            return policy
        value = scale_smoothness(policy.smoothness, smoothness)
        return replace(policy, h=self.choose_h(value, policy.h), smoothness=value)

    @cached_property
    def _regularizer(self) -> RegularizerClass:
        """H, as the policy's card says it."""
        settings = self.policy.card.training.get("settings", {})
        try:
            found = parse(str(settings.get("regularizer")), "regularizer")
        except SimileError:  # one of the user's own; the default is as good as any other
            found = None
        return found if isinstance(found, RegularizerClass) else CriticallyDamped(order=3)

    @cached_property
    def _standard(self) -> Trajectories:
        """The expert's actions in standard units, for classes H that learn from them."""
        return [self.policy.units.standardize(a) for a in self.trained_on.actions]


def scale_smoothness(own: PerAction, mean: float) -> PerAction:
    """Return lambda with another mean over the actions, or the number itself where they share one."""
    return own * (mean / np.mean(own)) if isinstance(own, np.ndarray) and own.any() else mean


@dataclass(frozen=True, eq=False)
class Preview:
    """A roll-out over one sequence and how good it is, over the frames that the policy chose itself."""

    actions: FloatArray  # (T, k), in the user's units
    smoothness: float
    is_own: bool  # whether lambda is the policy's own
    begins: int
    score: Score
    lag: float
    reversals: tuple[float, float]  # of the policy and of the expert, a minute or per 1,000 frames; means over actions
    rest: tuple[float, float]  # shares of time


def measure(
    policy: Policy,
    actions: FloatArray,
    demo: Demonstration,
    smoothness: float,
    *,
    is_own: bool,
    logs: tuple[Log, ...],
) -> Preview:
    """Measure a roll-out, by the logs of all that the policy learned from."""
    begins = min(given_frames(policy), len(demo))
    tally = Reference(Demonstrations((demo,)), policy.units.scale, begins, logs=logs).tally([actions])
    turns, rests = (
        [float(np.mean(some)) for some in both] for both in (tally.turn_rates(demo.rate), tally.rest_shares)
    )
    both = (turns[0], turns[1]), (rests[0], rests[1])
    return Preview(actions, smoothness, is_own, begins, tally.score, tally.lag, *both)


def compute_outputs(policy: SmoothPolicy, demo: Demonstration) -> FloatArray:
    """Return f's outputs (T, k) along the contexts of a sequence, in standard units."""
    own = policy.holding(None).keeping(None)
    bare = replace(own, smoothness=0.0, units=Units.identity(policy.n_actions), space=ActionSpace())
    contexts = policy.units.shift(demo.foretell(policy.horizon.known).contexts)
    if FusedPolicy.of(bare) is not None:
        # Without smoothness an action is what f says, and the kernel of roll-outs says it fastest.
        return rollout(bare, [contexts], start=np.zeros(policy.n_actions))[0]
    tape = Tape.of([contexts], [np.zeros_like(demo.actions)])
    parts = [
        policy.f.predict(tape.states(policy.horizon, np.arange(i, min(i + _ROWS, len(demo)))).matrix())
        for i in range(0, len(demo), _ROWS)
    ]
    return np.concatenate(parts)


def roll(
    previewed: PreviewedPolicy, demo: Demonstration, smoothness: float | None, outputs: FloatArray | None
) -> Preview:
    """Roll a policy out over a sequence, from the expert's first frames.

    Parameters
    ----------
    smoothness : float, optional
        Another lambda than the policy's own.
    outputs : (T, k) array, optional
        `compute_outputs` of the policy, where it is linear.
    """
    own = previewed.smoothness
    value = own if smoothness is None else smoothness
    policy = previewed.at(value)
    actions = None if outputs is None else _filter(policy, outputs, demo)
    if actions is None:
        actions = rollout(policy, demo)[0]
    return measure(policy, actions, demo, value, is_own=value == own, logs=previewed.logs)


def _filter(policy: Policy, outputs: FloatArray, demo: Demonstration) -> FloatArray | None:
    """Filter f's outputs; None where bounds cut in, which no filter knows of."""
    loop = closed_loop(policy)
    if loop is None:
        return None
    known, begin = policy.units.standardize(demo.actions), given_frames(policy)
    if (kept := offset(policy)) is not None and len(demo) > begin:
        outputs = np.concatenate([outputs[:begin], kept.along(outputs[begin:], known[begin - 1])])
    own, wanted = slice(begin - loop.order, None), known.copy()
    wanted[own] = loop.roll(outputs[own], known[own])
    actions = policy.units.restore(wanted)
    later = actions[begin:]
    if not np.isfinite(later).all() or (later < policy.space.low).any() or (later > policy.space.high).any():
        return None
    if (held := hold(policy)) is not None:
        actions = policy.space.clip(policy.units.restore(let_hold(held, wanted, known[:1], known[:begin])))
    actions[:begin] = demo.actions[:begin]
    return actions
