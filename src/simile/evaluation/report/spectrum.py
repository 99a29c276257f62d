"""Is it smooth? How much of the motion is slow, and how much is jitter: power spectra of policy and expert."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from simile._common.typing import FloatArray, IntArray, Trajectories
from simile.evaluation.report.curves import Curves

MOST_BINS = 400  # in a page
LONG, SHORT = 1024, 256  # frames of the pieces that Welch's method averages over


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Power per frequency.

    Attributes
    ----------
    frequency : (n,) array
        In hertz, or in cycles per frame where the rate is not known; zero is left out.
    expert, policy : (k, n) arrays
        Of each action; NaN where a roll-out diverged.
    """

    frequency: FloatArray
    expert: FloatArray
    policy: FloatArray


def spectrum(curves: Curves) -> Spectrum | None:
    """Estimate the spectra of policy and expert by Welch's method, the mean over sequences; None for short ones."""
    scored = [(a, e) for _, a, e in curves.scored() if not np.isnan(a).any()]
    longest = max((len(e) for _, e in scored), default=0)
    if longest < 8:
        return None
    piece = min(LONG, max(min(SHORT, longest), longest // 4))
    rate = curves.demos.rate or 1.0
    policy, expert = (_welch([pair[side] for pair in scored], piece, rate) for side in (0, 1))
    frequency = np.asarray(np.fft.rfftfreq(piece, 1.0 / rate)[1:], dtype=np.float64)
    bins = log_bins(len(frequency), MOST_BINS)
    return Spectrum(*(np.array(_binned(values, bins)) for values in (frequency, expert, policy)))


def _welch(parts: Trajectories, piece: int, rate: float) -> FloatArray:
    """Return the mean power density (k, n) without frequency zero; longer sequences weigh more."""
    total, frames = np.zeros((parts[0].shape[1], piece // 2)), 0
    for part in parts:
        if len(part) < 8:
            continue
        inside = min(piece, len(part))
        total += len(part) * _power(part, inside, piece, rate)
        frames += len(part)
    return total / frames if frames else np.full_like(total, math.nan)


def _power(part: FloatArray, inside: int, piece: int, rate: float) -> FloatArray:
    """Return what scipy.signal.welch does, slow to import as it is: (k, n) without frequency zero."""
    window = np.hanning(inside + 1)[:-1]
    windows = np.lib.stride_tricks.sliding_window_view(part, inside, axis=0)[:: inside - inside // 2]
    waves = np.fft.rfft((windows - windows.mean(axis=-1, keepdims=True)) * window, piece)[..., 1:]
    power: FloatArray = 2.0 * np.mean(np.abs(waves) ** 2, axis=0) / (rate * np.sum(window**2))
    if piece % 2 == 0:
        power[:, -1] /= 2.0  # the highest frequency has no twin below zero
    return power


def log_bins(n: int, most: int) -> IntArray:
    """Return where each of at most `most` bins begins among n frequencies, evenly on a log scale but never empty.

    >>> log_bins(8, 4)
    array([0, 1, 2, 4])
    """
    if n <= most:
        return np.arange(n)
    # Bins narrower than the grid hold one frequency each: widen the others until the number fits.
    low, high = 1, 64 * most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if len(_edges(n, middle)) <= most else (low, middle - 1)
    return _edges(n, low)


def _edges(n: int, bins: int) -> IntArray:
    edges: IntArray = np.unique(np.floor(np.geomspace(1, n + 1, bins + 1)[:-1] + 1e-9).astype(np.intp) - 1)
    return edges


def _binned(values: FloatArray, begins: IntArray) -> FloatArray:
    """Return the mean of each bin along the last axis."""
    sizes = np.diff(np.append(begins, values.shape[-1]))
    means: FloatArray = np.add.reduceat(values, begins, axis=-1) / sizes
    return means
