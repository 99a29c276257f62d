"""How alike two signals are when one is shifted against the other, and the shift that fits best."""

from __future__ import annotations

import math

import numpy as np

from simile._common.typing import FloatArray, IntArray

ENOUGH = 0.1  # share of the largest power: parts in which less happens agree by accident, as two rests do


def shifted_sums(rolled: FloatArray, expert: FloatArray, shifts: IntArray) -> FloatArray:
    """Return the products of rolled[t + shift] and expert[t] and the squares of each, summed over what overlaps."""
    from scipy.fft import irfft, next_fast_len, rfft

    n = next_fast_len(len(expert) + int(shifts[-1]), real=True)  # long enough not to wrap around
    products = irfft(rfft(rolled, n) * np.conj(rfft(expert, n)), n)[shifts]
    overlap = len(expert) - np.abs(shifts)
    heads, tails = ([np.cumsum(x[::way] ** 2)[overlap - 1] for x in (rolled, expert)] for way in (1, -1))
    late = shifts >= 0
    return np.stack([products, np.where(late, tails[0], heads[0]), np.where(late, heads[1], tails[1])])


def correlate(sums: FloatArray) -> FloatArray:
    """Return the correlation at every shift, given the sums (3, shifts); NaN where too little happens.

    Each product is divided by the power of the two overlapping parts, not of the whole: only then is a sequence
    compared with itself never late (Cauchy-Schwarz).
    """
    products, power = sums[0], sums[1:]
    enough = (power > ENOUGH * power.max(axis=1, keepdims=True)).all(axis=0)
    correlation = np.full(len(products), math.nan)
    correlation[enough] = products[enough] / np.sqrt(power[0, enough] * power[1, enough])
    return correlation


def find_peak(correlation: FloatArray, shifts: IntArray) -> float:
    """Return the shift of the peak nearest to zero, refined by a parabola through its neighbours; NaN for none."""
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
