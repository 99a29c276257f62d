"""Linear h in which each action may depend on the past of all of them: h(a) = sum_i C_i a_{t-i}, with k x k matrices.

The paper's h (Example 2.2) takes each action by itself, and so does most of what knows of h: mixtures, kernels
and exports. `check_apart` says so where this one is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simile._common import checks
from simile._common.sums import ExactSum
from simile._common.typing import FloatArray, PerAction, Trajectories
from simile.errors import ArgumentError, DataError
from simile.models.regularizers import Autoregressor, stabilize

LARGEST_SIDE = 1_000  # order times actions, of the matrix by which a closed loop is judged


@dataclass(frozen=True, eq=False)
class CoupledAutoregressor:
    """Linear h of all actions together.

    Parameters
    ----------
    coefficients : (order, k, k) array
        C_i for the latest action first; row j makes action j.
    damping : float
        What `stabilized` left of the distance to h(a) = a: 1 means untouched, 0 means h(a) = a.
    """

    coefficients: FloatArray
    damping: float = 1.0

    @property
    def order(self) -> int:
        """How many past actions h reads."""
        return len(self.coefficients)

    def __call__(self, history: FloatArray) -> FloatArray:
        """Map past actions (n, order, k), the latest first, to the next action (n, k)."""
        # Term by term: the same bits for any n, which a matrix product does not promise.
        total = np.zeros((len(history), history.shape[2]))
        for i, matrix in enumerate(self.coefficients):
            for j, column in enumerate(matrix.T):
                total = total + history[:, i, j, np.newaxis] * column
        return total

    def radius(self, smoothness: PerAction) -> float:
        """Return the spectral radius of the closed loop at this lambda, or one for each action: of its companion."""
        order, k, _ = self.coefficients.shape
        kappa = np.broadcast_to(smoothness / (1.0 + smoothness), (k,))
        companion = np.eye(order * k, k=-k)
        companion[:k] = np.concatenate(kappa[:, np.newaxis] * self.coefficients, axis=1)
        return float(np.abs(np.linalg.eigvals(companion)).max())

    def stabilized(self, smoothness: PerAction) -> CoupledAutoregressor:
        """Move all C towards h(a) = a, whose closed loop is always stable, just until this one is."""
        still = np.zeros_like(self.coefficients)
        still[0] = np.eye(len(still[0]))
        return stabilize(self, still, smoothness)


LinearH = Autoregressor | CoupledAutoregressor


def align(hs: Sequence[LinearH]) -> FloatArray:
    """Return the coefficients of several: (n, order, k), or (n, order, k, k) where one of them couples actions."""
    apart = all(isinstance(h, Autoregressor) for h in hs)
    terms = [h.coefficients if apart else matrices(h) for h in hs]
    found = np.zeros((len(hs), max(map(len, terms)), *terms[0].shape[1:]))
    for some, term in zip(found, terms, strict=True):
        some[: len(term)] = term
    return found


def average(hs: Sequence[LinearH], weights: Sequence[PerAction]) -> LinearH:
    """Return the weighted mean of linear h: one that couples actions where one of them does."""
    terms = align(hs)
    coupled = terms.ndim == 4
    coefficients = np.zeros_like(terms[0])
    for weight, term in zip(weights, terms, strict=True):
        coefficients += (np.reshape(weight, (-1, 1)) if coupled else weight) * term
    return (CoupledAutoregressor if coupled else Autoregressor)(coefficients, min(h.damping for h in hs))


def matrices(h: LinearH) -> FloatArray:
    """Return the coefficients as (order, k, k) matrices; those that take each action by itself are diagonal."""
    c = h.coefficients
    return c if isinstance(h, CoupledAutoregressor) else c[:, np.newaxis] * np.eye(c.shape[1])


def check_apart(h: object, name: str, where: str) -> None:
    """Refuse an h that couples actions where each is taken by itself."""
    if isinstance(h, CoupledAutoregressor):
        raise ArgumentError(
            f"{name}: an h that couples the actions (CoupledAutoregression) has no place in {where}, where each action "
            "is taken by itself: use VelocityAutoregression() or CriticallyDamped()"
        )


@dataclass(frozen=True)
class CoupledAutoregression:
    """H = {h(a) = sum_i C_i a_{t-i}}, C_i matrices: what one action does may tell what another is about to do.

    Learned on velocities by ridge regression, as `VelocityAutoregression`, which it is for one action: the C_i sum to
    the identity, and constant histories are reproduced. For the rounds of Algorithm 1.

    Parameters
    ----------
    order : int
        How many past actions h reads (tau); it sees one velocity less.
    ridge : float
        Penalty relative to the mean square of each action's velocities, so that it means the same in any unit.

    Examples
    --------
    >>> t = np.arange(200.0)[:, np.newaxis]
    >>> h = CoupledAutoregression(order=2).fit([np.hstack([np.sin(t / 9), np.cos(t / 9)])], smoothness=30.0)
    >>> h.coefficients.shape
    (2, 2, 2)
    """

    order: int = 10
    ridge: float = 0.05

    def __post_init__(self) -> None:
        checks.whole_number(self.order, "order", at_least=1)
        checks.number(self.ridge, "ridge", at_least=0.0)

    def fit(self, trajectories: Trajectories, smoothness: float) -> CoupledAutoregressor:
        """Choose the matrices for trajectories, one (T, k) array per sequence, and for the policy's lambda."""
        k, n_lags, longest = trajectories[0].shape[1], self.order - 1, max(map(len, trajectories))
        if self.order >= longest:
            raise DataError(
                f"order must be shorter than the longest sequence; got order={self.order} and at most {longest} "
                "frames: choose a smaller order or give longer sequences"
            )
        if self.order * k > LARGEST_SIDE:
            raise ArgumentError(f"order must be at most {LARGEST_SIDE // k} for {k} coupled actions; got {self.order}")
        w = np.zeros((n_lags, k, k))
        if n_lags:
            equations = ExactSum.of(np.array([_equations(np.diff(a, axis=0), n_lags) for a in trajectories])).value
            gram, moment = equations[:, :-k], equations[:, -k:]
            squares = np.diag(gram).reshape(n_lags, k).mean(axis=0)  # of each action's velocities
            penalized = gram + np.diag(np.tile(self.ridge * squares, n_lags))
            w[:] = np.linalg.lstsq(penalized, moment, rcond=None)[0].reshape(n_lags, k, k).transpose(0, 2, 1)
        edge = np.zeros((1, k, k))
        coefficients = np.diff(np.concatenate([edge, w, edge]), axis=0)
        coefficients[0] += np.eye(k)
        return CoupledAutoregressor(coefficients).stabilized(smoothness)


def _equations(signal: FloatArray, n_lags: int) -> FloatArray:
    """Return the normal equations of a signal (T, k) on its last values, lag by lag: the products, then with itself."""
    side = n_lags * signal.shape[1]
    if len(signal) <= n_lags:
        return np.zeros((side, side + signal.shape[1]))
    windows = np.lib.stride_tricks.sliding_window_view(signal, n_lags + 1, axis=0)
    past = windows[:, :, -2::-1].transpose(0, 2, 1).reshape(len(windows), side)
    # einsum, not a matrix product: the same bits for any number of threads.
    found: FloatArray = np.einsum("ti,tj->ij", past, np.concatenate([past, windows[:, :, -1]], axis=1))
    return found
