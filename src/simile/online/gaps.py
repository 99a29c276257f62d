"""Gaps: what a predictor does in a frame without a context."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray, IntArray
from simile.errors import ArgumentError
from simile.policies.policies import Policy


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
    """Act as if the last context had come again; what is kept of the start does not fade meanwhile."""

    def __call__(self, blind: Blind) -> FloatArray:
        """Ask the policy."""
        return blind.again()


def no_trend(policy: Policy) -> ArgumentError:
    """Say that a policy has no h to extrapolate by."""
    return ArgumentError(
        f"gap: a {type(policy).__name__} has no regularizer h to extrapolate past actions by: "
        "use gap=HoldAction() or gap=HoldContext()"
    )
