"""Is it late? The whole cross-correlation that `simile.losses.lag` finds the peak of, pooled over sequences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.data.cross_correlation import correlate, find_peak, shifted_sums
from simile.evaluation.report.curves import Curves

LONGEST = 100  # frames, as in `losses.lag`


@dataclass(frozen=True, eq=False)
class LagCurve:
    """How alike policy and expert are when one is shifted against the other.

    Attributes
    ----------
    frames : (n,) array
        Shifts; positive where the policy is late.
    correlation : (k, n) array
        Of each action; NaN where too little happens in what overlaps.
    best : (k,) array
        The shift at the peak, between frames; NaN where there is none.
    """

    frames: IntArray
    correlation: FloatArray
    best: FloatArray


def lag_curve(curves: Curves) -> LagCurve | None:
    """Correlate policy and expert at every shift, each sequence about its own mean; None where nothing moves."""
    pairs = [(a, e) for _, a, e in curves.scored() if not np.isnan(a).any()]
    longest = min(LONGEST, max((len(e) // 4 for _, e in pairs), default=0))
    if longest < 1:
        return None
    shifts = np.arange(-longest, longest + 1)
    found = np.array([_pooled([(a[:, j], e[:, j]) for a, e in pairs], shifts) for j in range(curves.demos.n_actions)])
    return None if np.isnan(found).all() else LagCurve(shifts, found, np.array([find_peak(c, shifts) for c in found]))


def _pooled(pairs: list[tuple[FloatArray, FloatArray]], shifts: IntArray) -> FloatArray:
    """Return the correlation at each shift: sums over all sequences, divided by the power of what overlaps."""
    spread = max((float(np.abs(x - x.mean()).max()) for pair in pairs for x in pair), default=0.0)
    sums = np.zeros((3, len(shifts)))
    for pair in pairs:
        if any(np.ptp(x) == 0.0 for x in pair):
            continue
        rolled, expert = ((x - x.mean()) / spread for x in pair)  # so that squares neither overflow nor vanish
        near = np.abs(shifts) <= len(expert) // 2  # at least half of the frames overlap
        sums[:, near] += shifted_sums(rolled, expert, shifts[near])
    return correlate(sums)
