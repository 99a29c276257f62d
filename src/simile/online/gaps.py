"""Gaps: what a predictor does in a frame without a context."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray, IntArray
from simile.errors import ArgumentError
from simile.policies.policies import Mixture, Policy, SmoothPolicy, StochasticMixture

Trend = Callable[[Callable[[int], FloatArray]], FloatArray]  # from a view of the past to h of it, (n, k)


@dataclass(frozen=True, eq=False)
class Blind:
    """What is known of n streams in a frame that brought them no context, in standard units."""

    missed: IntArray  # (n,) frames in a row without a context before this one
    held: Callable[[], FloatArray]  # the last actions, (n, k)
    trend: Callable[[], FloatArray]  # h of the past actions, (n, k)
    again: Callable[[], FloatArray]  # what the policy would do if the last context had come again, (n, k)


@runtime_checkable
class Gap(Protocol):
    """Chooses the actions of streams whose context did not come."""

    def __call__(self, blind: Blind) -> FloatArray:
        """Return actions (n, k) in standard units; they are clipped to the policy's bounds afterwards."""


@dataclass(frozen=True)
class Extrapolate:
    """Go on as the past actions suggest, a = h(past), and hold the action when that has lasted too long.

    Parameters
    ----------
    frames : int
        Longest run of missing frames to bridge by h; later ones hold the action.
    """

    frames: int = 30

    def __post_init__(self) -> None:
        checks.whole_number(self.frames, "frames", at_least=1)

    def __call__(self, blind: Blind) -> FloatArray:
        """Follow h for a while."""
        return np.where((blind.missed < self.frames)[:, np.newaxis], blind.trend(), blind.held())


@dataclass(frozen=True)
class HoldAction:
    """Repeat the last action."""

    def __call__(self, blind: Blind) -> FloatArray:
        """Hold."""
        return blind.held()


@dataclass(frozen=True)
class HoldContext:
    """Act as if the last context had come again."""

    def __call__(self, blind: Blind) -> FloatArray:
        """Ask the policy."""
        return blind.again()


def trend_of(policy: Policy) -> Trend | None:
    """Return h of a policy, or the weighted mean of the h of its components; None where there is none."""
    if isinstance(policy, SmoothPolicy):
        h = policy.h
        return lambda history: h(history(h.order))
    if not isinstance(policy, Mixture | StochasticMixture):
        return None
    parts = [trend_of(c) for c in policy.components]
    known = [part for part in parts if part is not None]
    return partial(_mean, known, policy.weights) if len(known) == len(parts) else None


def _mean(trends: list[Trend], weights: tuple[float, ...], history: Callable[[int], FloatArray]) -> FloatArray:
    total = weights[0] * trends[0](history)
    for weight, trend in zip(weights[1:], trends[1:], strict=True):
        total = total + weight * trend(history)
    return total


def no_trend(policy: Policy) -> ArgumentError:
    """Say that a policy has no h to extrapolate by."""
    return ArgumentError(
        f"gap: a {type(policy).__name__} has no regularizer h to extrapolate past actions by: "
        "use gap=HoldAction() or gap=HoldContext()"
    )
