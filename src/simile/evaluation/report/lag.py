"""Is it late? The whole cross-correlation that `simile.losses.lag` finds the peak of, pooled over sequences."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.evaluation.report.curves import Curves

LONGEST = 100  # frames, as in `losses.lag`
ENOUGH = 0.1  # share of the largest power below which overlapping parts do not compete, as there


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
    return None if np.isnan(found).all() else LagCurve(shifts, found, np.array([peak(c, shifts) for c in found]))


def _pooled(pairs: list[tuple[FloatArray, FloatArray]], shifts: IntArray) -> FloatArray:
    """Return the correlation at each shift: sums over all sequences, divided by the power of what overlaps."""
    spread = max((float(np.abs(x - x.mean()).max()) for pair in pairs for x in pair), default=0.0)
    products, power = np.zeros(len(shifts)), np.zeros((2, len(shifts)))
    for pair in pairs:
        if any(np.ptp(x) == 0.0 for x in pair):
            continue
        rolled, expert = ((x - x.mean()) / spread for x in pair)  # so that squares neither overflow nor vanish
        near = np.abs(shifts) <= len(expert) // 2  # at least half of the frames overlap
        more = _sums(rolled, expert, shifts[near])
        products[near] += more[0]
        power[:, near] += more[1:]
    enough = (power > ENOUGH * power.max(axis=1, keepdims=True)).all(axis=0)
    correlation = np.full(len(shifts), math.nan)
    correlation[enough] = products[enough] / np.sqrt(power[0, enough] * power[1, enough])
    return correlation


def _sums(rolled: FloatArray, expert: FloatArray, shifts: IntArray) -> FloatArray:
    """Return the products of rolled[t + shift] and expert[t] and the squares of each, summed over what overlaps."""
    from scipy.fft import irfft, next_fast_len, rfft

    n = next_fast_len(len(expert) + int(shifts[-1]), real=True)  # long enough not to wrap around
    products = irfft(rfft(rolled, n) * np.conj(rfft(expert, n)), n)[shifts]
    overlap = len(expert) - np.abs(shifts)
    heads, tails = ([np.cumsum(x[::way] ** 2)[overlap - 1] for x in (rolled, expert)] for way in (1, -1))
    late = shifts >= 0
    return np.stack([products, np.where(late, tails[0], heads[0]), np.where(late, heads[1], tails[1])])


def peak(correlation: FloatArray, shifts: IntArray) -> float:
    """Return the shift of the peak nearest to zero, refined by a parabola through its neighbours."""
    if np.isnan(correlation).all():
        return math.nan
    known = np.where(np.isnan(correlation), -1.0, correlation)
    around = np.pad(known, 1, constant_values=-1.0)
    # Periods of a repeating motion fit equally well but for rounding.
    peaks = (known >= np.maximum(around[:-2], around[2:])) & (known >= known.max() - 1e-9)
    at = int(np.flatnonzero(peaks)[np.abs(shifts[peaks]).argmin()])
    if at in (0, len(shifts) - 1):
        return float(shifts[at])
    before, here, after = (float(c) for c in known[at - 1 : at + 2])
    bend = before - 2.0 * here + after
    return float(shifts[at]) + (0.5 * (before - after) / bend if bend < 0.0 else 0.0)
