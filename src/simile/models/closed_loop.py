"""The closed loop of a linear h, as a filter: a = G z + i, from f's outputs z to the actions of a roll-out.

It holds where f reads contexts alone; a roll-out is then linear in f, and what f should say (`targets`) can be worked
out without rolling anything out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from simile._common.typing import FloatArray, IntArray, PerAction
from simile.models.regularizers import Autoregressor


@dataclass(frozen=True, eq=False)
class ClosedLoop:
    """(1 + lambda) a_t - lambda (c_1 a_{t-1} + ...) = z_t in each action dimension: Eq. 2 along a roll-out.

    Parameters
    ----------
    taps : (order + 1, k) array
        1 + lambda, -lambda c_1, -lambda c_2, ...: the filter from actions back to f's outputs.
    """

    taps: FloatArray

    @classmethod
    def of(cls, h: Autoregressor, smoothness: PerAction) -> ClosedLoop:
        """Close the loop around h at this lambda, or at one for each action."""
        lead = np.broadcast_to(1.0 + smoothness, (1, h.coefficients.shape[1]))
        return cls(np.concatenate([lead, -smoothness * h.coefficients]))

    @property
    def order(self) -> int:
        """How many past actions the loop reads: the expert gives the first ones of a roll-out."""
        return len(self.taps) - 1

    @property
    def lags(self) -> FloatArray:
        """Frames by which each action lags a resting input, (k,)."""
        gain: FloatArray = self.taps.sum(axis=0)
        moment: FloatArray = (np.arange(self.order + 1)[:, np.newaxis] * self.taps).sum(axis=0)
        return -moment / gain

    @property
    def lag(self) -> float:
        """Their mean."""
        return float(np.mean(self.lags))

    def forced(self, z: FloatArray, dimension: int) -> FloatArray:
        """Return G z for columns of inputs z (T, any) of one action dimension; nothing happens in the first frames."""
        out: FloatArray = np.zeros_like(z)
        out[self.order :] = _filter(self.taps[:, dimension], z[self.order :], np.empty(0))
        return out

    def carry(self, z: FloatArray, state: FloatArray) -> FloatArray:
        """Return G z for inputs z (T, n, k) of n streams, on from `state` (k, order + 1, n), which goes on with them.

        The bits of a stream depend neither on those beside it nor on how many frames are sent at a time.
        """
        from simile.models.kernels.filtering import filter_frames

        out: FloatArray = np.empty_like(z)
        for j, taps in enumerate(self.taps.T):
            column = np.array(z[:, :, j], order="C")
            own = np.empty_like(column)
            filter_frames(1.0 / taps[0], taps[1:] / taps[0], column, state[j], own)
            out[:, :, j] = own
        return out

    def rest(self, z: FloatArray) -> FloatArray:
        """Return the state (k, order + 1, n) in which inputs z (n, k) have lasted forever."""
        state: FloatArray = np.zeros((z.shape[1], self.order + 1, z.shape[0]))
        for j, taps in enumerate(self.taps.T):
            out = z[:, j] / taps.sum()
            for i in range(self.order - 1, -1, -1):
                state[j, i] = state[j, i + 1] - out * (taps[i + 1] / taps[0])
        return state

    def roll(self, z: FloatArray, expert: FloatArray) -> FloatArray:
        """Return the roll-out (T, k) of outputs z from the expert's first frames."""
        out = expert.copy()
        if len(z) > self.order:
            for j, taps in enumerate(self.taps.T):
                own = _filter(taps, z[self.order :, j : j + 1], expert[: self.order, j])
                out[self.order :, j] = own[:, 0]
        return out

    def roll_columns(self, z: FloatArray, starts: IntArray, expert: FloatArray, dimension: int) -> FloatArray:
        """Return the roll-outs of columns of outputs z (frames, any) of one action over several sequences, joined.

        `starts` (sequences + 1,) tells where each begins, `expert` (frames,) what it did: each begins with that.
        """
        from simile.models.kernels.filtering import roll_sequences

        taps, out = self.taps[:, dimension], np.empty_like(z, order="C")
        given = np.array(starts, np.int64), np.ascontiguousarray(expert), np.ascontiguousarray(z)
        roll_sequences(1.0 / taps[0], taps[1:] / taps[0], *given, out)
        return out

    def free(self, expert: FloatArray) -> FloatArray:
        """Return i, the roll-out (T, k) with f = 0 from the expert's first frames."""
        return self.roll(np.zeros_like(expert), expert)

    def targets(self, expert: FloatArray, mu: float) -> FloatArray:
        """Return z = argmin ||G z + i - a*||^2 + mu ||z - a*||^2, (T, k); the expert's own in the first frames."""
        z, free = expert.copy(), self.free(expert)
        later = slice(self.order, None)
        for j, taps in enumerate(self.taps.T):
            z[later, j] = _compensate(taps, expert[later, j], free[later, j], mu)
        return z


def _filter(taps: FloatArray, z: FloatArray, known: FloatArray) -> FloatArray:
    """Return actions for columns z (n, any), after known ones if any: the bits of scipy.signal, which loads slowly."""
    from simile.models.kernels.filtering import filter_frames

    z, lead, taps = np.array(z, order="C"), taps[0], taps[1:]
    past, out = np.zeros((len(taps) + 1, z.shape[1])), np.empty_like(z)
    for i in range(len(known)):
        past[i] = -np.sum(taps[i:] * known[::-1][: len(taps) - i]) / lead
    filter_frames(1.0 / lead, taps / lead, z, past, out)
    return out


def _compensate(taps: FloatArray, expert: FloatArray, free: FloatArray, mu: float) -> FloatArray:
    """Solve for z in one dimension of one sequence, exactly and in O(T).

    The inverse of G is the short filter A with the given taps. In y = G z the problem is
    min ||y - (a* - i)||^2 + mu ||A y - a*||^2. Its normal equations would square A, whose taps may be 1e9. With
    r = s (A y - a*), s^2 = mu, the gradient is zero where y + s A' r = a* - i and s A y - r = s a*. Put in turns,
    y_0, r_0, y_1, r_1, ..., these are banded, too.
    """
    from scipy.linalg import solve_banded

    if len(expert) == 0:
        return expert
    n, q, scale = len(expert), min(len(taps), len(expert)) - 1, math.sqrt(mu)
    width = 2 * q + 1
    bands = np.zeros((2 * width + 1, 2 * n))  # bands[width + i - j, j] is row i, column j
    bands[width, 0::2], bands[width, 1::2] = 1.0, -1.0
    for d in range(q + 1):
        tap = scale * taps[d]
        bands[width + 2 * d + 1, 0 : 2 * (n - d) : 2] = tap  # y_t in row r_(t + d)
        bands[width - 2 * d - 1, 2 * d + 1 :: 2] = tap  # r_t in row y_(t - d)
    right = np.stack([expert - free, scale * expert], axis=1).ravel()
    y = solve_banded((width, width), bands, right)[0::2]
    return np.asarray(np.convolve(y, taps)[:n], dtype=np.float64)
