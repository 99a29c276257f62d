"""Ways to say how smooth a policy should be: lambda itself, the lag it costs, or a measure of the expert's own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray, Trajectories
from simile.errors import ArgumentError
from simile.models.closed_loop import ClosedLoop
from simile.models.coupling import check_apart
from simile.models.regularizers import Autoregressor, RegularizerClass

METRICS = {"difference_1": 1, "difference_2": 2, "difference_3": 3}
# Between these lambda every policy goes from unfiltered to one that remembers a million frames.
SMALLEST, LARGEST = 1e-6, 1e12


@dataclass(frozen=True)
class SmoothTime:
    """As smooth as a filter that lags a resting input by so many seconds; easier to choose than lambda.

    >>> from simile import CriticallyDamped
    >>> round(SmoothTime(0.4).resolve(CriticallyDamped(order=3), [], rate=25.0), 3)
    80.37
    """

    seconds: float

    def __post_init__(self) -> None:
        checks.number(self.seconds, "seconds", at_least=0.0)

    def resolve(self, regularizer: RegularizerClass, trajectories: Trajectories, rate: float | None) -> float:
        """Return the lambda of this lag for demonstrations at `rate` (Hz)."""
        if rate is None:
            raise ArgumentError(
                f"smoothness: {self} needs to know how many frames there are a second: give the demonstrations a "
                "rate=..., or a number for lambda"
            )
        return smoothness_for(regularizer, self.seconds * rate, trajectories)


@dataclass(frozen=True)
class MatchExpert:
    """At most `ratio` times as rough as the expert, and as accurate as that allows: the paper's budget eta.

    The roughness is measured along roll-outs of sequences that the policy has not seen.

    Parameters
    ----------
    ratio : float or tuple of float
        1 for as smooth as the expert, 0.5 for half as rough; a tuple has one for each action.
    metric : {"difference_1", "difference_2", "difference_3"}
        The mean absolute difference of that order: 1 is the smoothness loss of the paper's experiments, 2 (the
        default) sees jerks that 1 does not.
    """

    ratio: float | tuple[float, ...] = 1.0
    metric: str = "difference_2"

    def __post_init__(self) -> None:
        if isinstance(self.ratio, list):
            object.__setattr__(self, "ratio", tuple(self.ratio))
        for ratio in self.ratio if isinstance(self.ratio, tuple) and self.ratio else (self.ratio,):
            checks.number(ratio, "ratio", above=0.0)
        if self.metric not in METRICS:
            raise ArgumentError(f"metric must be one of {', '.join(METRICS)}; got {self.metric!r}")

    @property
    def mean(self) -> float:
        """The ratio, the mean over the actions."""
        return float(np.mean(self.ratio))

    def ratios(self, n_actions: int) -> FloatArray:
        """Return the ratio of each action, (k,)."""
        if isinstance(self.ratio, tuple) and len(self.ratio) not in (1, n_actions):
            raise ArgumentError(f"ratio must be one number, or one for each of {n_actions} actions; got {self.ratio}")
        return np.broadcast_to(np.asarray(self.ratio, dtype=np.float64), (n_actions,))

    @property
    def order(self) -> int:
        """Order of the differences."""
        return METRICS[self.metric]


Smoothness = float | tuple[float, ...] | SmoothTime | MatchExpert


def smoothness_for(regularizer: RegularizerClass, lag: float, trajectories: Trajectories) -> float:
    """Return the lambda at which the closed loop of a regularizer lags a resting input by `lag` frames."""
    if hasattr(regularizer, "smoothness_for"):
        return float(regularizer.smoothness_for(lag))
    low, high = SMALLEST, LARGEST
    if lag <= _lag(regularizer, low, trajectories):
        return 0.0
    if _lag(regularizer, high, trajectories) < lag:
        raise ArgumentError(
            f"smoothness: {regularizer!r} looks ahead, so that no lambda makes it lag by {lag:g} frames: "
            "give a number for lambda, or regularizer=CriticallyDamped(order=3)"
        )
    for _ in range(60):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if _lag(regularizer, middle, trajectories) < lag else (low, middle)
    return high


def _lag(regularizer: RegularizerClass, smoothness: float, trajectories: Trajectories) -> float:
    h = regularizer.fit(trajectories, smoothness)
    check_apart(h, "smoothness", "a lag in seconds")
    if not isinstance(h, Autoregressor):
        raise ArgumentError(f"smoothness: {regularizer!r} is not linear and has no lag to choose: give lambda")
    return ClosedLoop.of(h, smoothness).lag
