"""What is learned by: the loss of Section 2, `Squared()` unless another is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray


@runtime_checkable
class Loss(Protocol):
    """l of Section 2, convex and even, of residuals in robust standard deviations (median absolute deviations)."""

    def __call__(self, residuals: FloatArray) -> FloatArray:
        """Return the loss of each residual."""

    def weigh(self, residuals: FloatArray) -> FloatArray:
        """Return l'(r) / 2r of each residual r: how much it counts in the least squares that go downhill on l."""


@dataclass(frozen=True)
class Squared:
    """l(r) = r^2: what the paper's experiments use, and the most accurate where no frame is wrong."""

    def __call__(self, residuals: FloatArray) -> FloatArray:
        """Return r^2."""
        return residuals**2

    def weigh(self, residuals: FloatArray) -> FloatArray:
        """Return 1: all count alike."""
        return np.ones_like(residuals)


@dataclass(frozen=True)
class Absolute:
    """l(r) = |r|, quadratic below `smoothing`, without which a frame that fits would count without bounds.

    >>> Absolute(smoothing=0.5)(np.array([0.0, 0.5, 3.0]))
    array([0.25, 0.5 , 3.  ])
    """

    smoothing: float = 0.5

    def __post_init__(self) -> None:
        checks.number(self.smoothing, "smoothing", above=0.0)

    def __call__(self, residuals: FloatArray) -> FloatArray:
        """Return |r|, or where that is small the parabola that touches it."""
        size = np.abs(residuals)
        return np.where(size < self.smoothing, residuals**2 / (2.0 * self.smoothing) + self.smoothing / 2.0, size)

    def weigh(self, residuals: FloatArray) -> FloatArray:
        """Return 1 / 2|r|."""
        return 0.5 / np.maximum(np.abs(residuals), self.smoothing)


@dataclass(frozen=True)
class Huber:
    """l(r) = r^2 up to `delta`, and straight on from there: an outlier pulls no harder than a residual of delta.

    Parameters
    ----------
    delta : float
        In robust standard deviations of the residuals themselves, so that it means the same on any data. Of normal
        residuals 0.3 % lie beyond 3, so that without outliers next to nothing changes; with 1.345, the textbook's, 18 %
        do, at 95 % of the efficiency (Huber 1981, "Robust Statistics").

    Examples
    --------
    >>> Huber(delta=1.0)(np.array([0.5, 1.0, 3.0]))
    array([0.25, 1.  , 5.  ])
    """

    delta: float = 3.0

    def __post_init__(self) -> None:
        checks.number(self.delta, "delta", above=0.0)

    def __call__(self, residuals: FloatArray) -> FloatArray:
        """Return r^2, or the tangent of the parabola at delta."""
        inside = np.minimum(np.abs(residuals), self.delta)
        return inside * (2.0 * np.abs(residuals) - inside)

    def weigh(self, residuals: FloatArray) -> FloatArray:
        """Return 1, or delta / |r| beyond delta."""
        return self.delta / np.maximum(np.abs(residuals), self.delta)
