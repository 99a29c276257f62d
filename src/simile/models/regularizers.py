"""h in H: what the next action would be if only the past actions counted (Examples 2.1 and 2.2).

A regularizer class is a frozen recipe; its `fit` returns h, a function of the past actions. For a linear h
the policy's closed loop, a_t = kappa (c_1 a_{t-1} + ... ) + (1 - kappa) f with kappa = lambda / (1 + lambda),
must be stable, or roll-outs diverge: `Autoregressor.stabilized` sees to that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np

from simile._common import checks
from simile._common.sums import ExactSum
from simile._common.typing import FloatArray, PerAction, Trajectories
from simile.errors import ArgumentError, DataError

# A closed loop this slow already remembers ten thousand frames.
LARGEST_RADIUS = 1.0 - 1e-4


@runtime_checkable
class Regularizer(Protocol):
    """h: predicts the next action from the last `order` actions."""

    @property
    def order(self) -> int:
        """How many past actions h reads."""

    def __call__(self, history: FloatArray) -> FloatArray:
        """Map past actions (n, order, k), the latest first, to the next action (n, k)."""


@runtime_checkable
class RegularizerClass(Protocol):
    """The class H; Algorithm 1, line 7 chooses h from it."""

    def fit(self, trajectories: Trajectories, smoothness: float) -> Regularizer:
        """Choose h for trajectories, one (T, k) array per sequence, and for the policy's lambda."""


@runtime_checkable
class SummedRegularizerClass(RegularizerClass, Protocol):
    """H from which h is chosen by sums over the sequences alone, which may then lie in several places."""

    def sums(self, trajectories: Trajectories) -> Sums:
        """Return what counts of some of the sequences; sums of all of them are these, added."""

    def solve(self, sums: Sums, smoothness: float) -> Regularizer:
        """Choose h for the sums over all sequences, and for the policy's lambda."""


@dataclass(frozen=True, eq=False)
class Sums:
    """The normal equations of a regression on lags, summed over sequences; which are added first does not matter.

    Parameters
    ----------
    equations : ExactSum of (k, lags, lags + 1) arrays
        For each action dimension, the products of the lags with each other and, last, with what followed them.
    longest : int
        Frames of the longest sequence.
    """

    equations: ExactSum
    longest: int

    @classmethod
    def of(cls, trajectories: Trajectories, signals: Trajectories, n_lags: int) -> Sums:
        """Sum over signals, one (any, k) array for each trajectory; those too short for the lags add nothing."""
        usable = [s for s in signals if len(s) > n_lags] if n_lags else []
        longest = max(len(a) for a in trajectories)
        if not usable:  # adding up nothing takes long, where the lags are far too many
            return cls(ExactSum(np.zeros((1, signals[0].shape[1], n_lags, n_lags + 1))), longest)
        equations = np.zeros((len(usable), signals[0].shape[1], n_lags, n_lags + 1))
        for signal, out in zip(usable, equations, strict=True):
            for j in range(len(out)):
                windows = np.lib.stride_tricks.sliding_window_view(signal[:, j], n_lags + 1)
                past, present = windows[:, -2::-1], windows[:, -1]
                # einsum, not a matrix product: the same bits for any number of threads.
                out[j, :, :-1] = np.einsum("ti,tj->ij", past, past)
                out[j, :, -1] = np.einsum("ti,t->i", past, present)
        return cls(ExactSum.of(equations), longest)

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.equations + other.equations, max(self.longest, other.longest))

    @property
    def n_actions(self) -> int:
        """Dimension k of an action."""
        return len(self.equations.value)

    def solve(self, ridge: float) -> FloatArray:
        """Regress each dimension on its own last values; returns (lags, k)."""
        equations = self.equations.value
        n_lags = equations.shape[1]
        coefficients = np.zeros((n_lags, len(equations)))
        for j, both in enumerate(equations if n_lags else ()):
            gram, moment = both[:, :-1], both[:, -1]
            mean_square = np.trace(gram) / n_lags
            if mean_square > 0.0:  # a signal that never moves has nothing to teach
                penalized = gram + ridge * mean_square * np.eye(n_lags)
                coefficients[:, j] = np.linalg.lstsq(penalized, moment, rcond=None)[0]
        return coefficients


class _Summed(Protocol):
    """What the classes below have in common: h is linear and follows from sums over the sequences."""

    def sums(self, trajectories: Trajectories) -> Sums: ...
    def solve(self, sums: Sums, smoothness: float) -> Autoregressor: ...
    def fit(self, trajectories: Trajectories, smoothness: float) -> Autoregressor:
        """Choose h for trajectories, one (T, k) array per sequence, and for the policy's lambda."""
        return self.solve(self.sums(trajectories), smoothness)


@dataclass(frozen=True, eq=False)
class Autoregressor:
    """Linear h of Example 2.2: h(a) = sum_i c_i a_{t-i}, in each action dimension by itself.

    Parameters
    ----------
    coefficients : (order, k) array
        c_i of each action dimension, for the latest action first.
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
        total: FloatArray = history[:, 0] * self.coefficients[0]
        for i in range(1, self.order):
            total = total + history[:, i] * self.coefficients[i]
        return total

    def radius(self, smoothness: PerAction) -> float:
        """Return the spectral radius of the closed loop at this lambda, or one for each action; the slowest one's.

        The eigenvalues of the companion matrix of kappa c are the roots of z^q - kappa c_1 z^(q-1) - ...
        """
        kappa = smoothness / (1.0 + smoothness)
        loops = np.concatenate([np.ones((1, self.coefficients.shape[1])), -kappa * self.coefficients])
        return max(float(np.abs(np.roots(taps)).max(initial=0.0)) for taps in loops.T)

    def stabilized(self, smoothness: float) -> Autoregressor:
        """Move c towards h(a) = a, whose closed loop is always stable, just until this one is."""
        still = np.zeros_like(self.coefficients)
        still[0] = 1.0
        return stabilize(self, still, smoothness)


class _Linear(Protocol):
    """A dataclass with coefficients, and a closed loop."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def coefficients(self) -> FloatArray: ...
    def radius(self, smoothness: PerAction) -> float: ...


Linear = TypeVar("Linear", bound=_Linear)


def stabilize(h: Linear, still: FloatArray, smoothness: PerAction) -> Linear:
    """Move the coefficients of h towards `still`, just until the closed loop is stable."""
    for damping in np.linspace(1.0, 0.0, 101):
        damped = replace(
            h,
            coefficients=still + damping * (h.coefficients - still) if damping < 1.0 else h.coefficients,
            damping=float(damping),
        )
        if damped.radius(smoothness) <= LARGEST_RADIUS:
            break
    return damped


@dataclass(frozen=True, eq=False)
class WeightedRegularizer:
    """One h made of several: sum_i w_i h_i."""

    regularizers: tuple[Regularizer, ...]
    weights: tuple[PerAction, ...]

    @property
    def order(self) -> int:
        """How many past actions h reads."""
        return max(h.order for h in self.regularizers)

    def __call__(self, history: FloatArray) -> FloatArray:
        """Map past actions (n, order, k), the latest first, to the next action (n, k)."""
        total = self.weights[0] * self.regularizers[0](history[:, : self.regularizers[0].order])
        for weight, h in zip(self.weights[1:], self.regularizers[1:], strict=True):
            total = total + weight * h(history[:, : h.order])
        return total


@dataclass(frozen=True)
class PreviousAction(_Summed):
    """H = {h(a) = a}, the simplest class (Example 2.1)."""

    def sums(self, trajectories: Trajectories) -> Sums:
        """Return sums of nothing: there is nothing to choose."""
        return Sums.of(trajectories, trajectories, 0)

    def solve(self, sums: Sums, smoothness: float) -> Autoregressor:  # noqa: ARG002
        """Return h(a) = a."""
        return Autoregressor(np.ones((1, sums.n_actions)))


@dataclass(frozen=True)
class LinearAutoregression(_Summed):
    """H = {h(a) = sum_i c_i a_{t-i}}: regularized least squares on positions (Example 2.2, Eq. 17 of Appendix B).

    The ridge pulls h towards zero, so that h does not quite reproduce a constant history;
    `VelocityAutoregression` does.

    Parameters
    ----------
    order : int
        How many past actions h reads (tau).
    ridge : float
        Penalty relative to the mean square of the regressors, so that it means the same in any unit.
    """

    order: int = 10
    ridge: float = 1e-3

    def __post_init__(self) -> None:
        checks.whole_number(self.order, "order", at_least=1)
        checks.number(self.ridge, "ridge", at_least=0.0)

    def sums(self, trajectories: Trajectories) -> Sums:
        """Return the normal equations of a_t on a_{t-1}, ..., a_{t-order}."""
        return Sums.of(trajectories, trajectories, self.order)

    def solve(self, sums: Sums, smoothness: float) -> Autoregressor:
        """Choose c by ridge regression."""
        _check_order(self.order, sums)
        return Autoregressor(sums.solve(self.ridge)).stabilized(smoothness)


@dataclass(frozen=True)
class VelocityAutoregression(_Summed):
    """Linear h learned on velocities: c sums to one and constant histories are reproduced (Example 2.2).

    With v_t = a_t - a_{t-1} and v_t = sum_i w_i v_{t-i}, the coefficients on positions are
    c = (1 + w_1, w_2 - w_1, ..., -w_last).

    Parameters
    ----------
    order : int
        How many past actions h reads (tau); it sees one velocity less.
    ridge : float
        Penalty relative to the mean square of the velocities, so that it means the same in any unit.
    """

    order: int = 10
    ridge: float = 0.05

    def __post_init__(self) -> None:
        checks.whole_number(self.order, "order", at_least=1)
        checks.number(self.ridge, "ridge", at_least=0.0)

    def sums(self, trajectories: Trajectories) -> Sums:
        """Return the normal equations of the velocities."""
        return Sums.of(trajectories, [np.diff(a, axis=0) for a in trajectories], self.order - 1)

    def solve(self, sums: Sums, smoothness: float) -> Autoregressor:
        """Choose the velocity coefficients by ridge regression, and write them on positions."""
        _check_order(self.order, sums)
        w = sums.solve(self.ridge)
        edge = np.zeros((1, w.shape[1]))
        coefficients = np.diff(np.concatenate([edge, w, edge]), axis=0)
        coefficients[0] += 1.0
        return Autoregressor(coefficients).stabilized(smoothness)


@dataclass(frozen=True)
class CriticallyDamped(_Summed):
    """h whose closed loop has `order` equal real poles: it never rings and has unit gain.

    Not in the paper. With lambda fixed there is one such h: the poles lie at r with
    (1 - r)^order = 1 / (1 + lambda), and kappa c are minus the coefficients of (z - r)^order.
    The loop then lags a resting input by order * r / (1 - r) frames (`CriticallyDamped.lag`).
    """

    order: int = 3

    def __post_init__(self) -> None:
        checks.whole_number(self.order, "order", at_least=1)

    def pole(self, smoothness: float) -> float:
        """Return the common pole r at this lambda."""
        return float(-np.expm1(-np.log1p(smoothness) / self.order))

    def lag(self, smoothness: float) -> float:
        """Return the frames by which the closed loop lags at rest."""
        pole = self.pole(smoothness)
        return self.order * pole / (1.0 - pole)

    def smoothness_for(self, lag: float) -> float:
        """Return the lambda whose closed loop lags by `lag` frames."""
        pole = checks.number(lag, "lag", at_least=0.0) / (self.order + lag)
        return float((1.0 - pole) ** -self.order - 1.0)

    def sums(self, trajectories: Trajectories) -> Sums:
        """Return sums of nothing: the trajectories do not matter."""
        return Sums.of(trajectories, trajectories, 0)

    def solve(self, sums: Sums, smoothness: float) -> Autoregressor:
        """Return the h of this lambda."""
        coefficients = np.zeros((self.order, sums.n_actions))
        coefficients[0] = 1.0  # for lambda = 0, where h has no weight and any will do
        if smoothness > 0.0:
            kappa = smoothness / (1.0 + smoothness)
            coefficients[:] = -np.poly(np.full(self.order, self.pole(smoothness)))[1:, np.newaxis] / kappa
        return Autoregressor(coefficients)


def fit_each(regularizer: RegularizerClass, trajectories: Trajectories, smoothness: PerAction) -> Regularizer:
    """Choose h (Algorithm 1, line 7) for a lambda; where each action has its own, for each by itself."""

    def fit(action: int | None, value: float) -> Regularizer:
        return regularizer.fit(trajectories if action is None else [a[:, [action]] for a in trajectories], value)

    return choose_each(fit, smoothness, regularizer)


def choose_each(
    choose: Callable[[int | None, float], Regularizer], smoothness: PerAction, regularizer: RegularizerClass
) -> Regularizer:
    """Choose h by choose(None, lambda); where each action has its own, by choose(action, its lambda) for each."""
    if np.ndim(smoothness) == 0:
        return choose(None, float(smoothness))
    found = [choose(j, float(s)) for j, s in enumerate(np.ravel(smoothness))]
    linear = [h for h in found if isinstance(h, Autoregressor)]
    if len(linear) < len(found):
        raise ArgumentError(
            f"smoothness must be one number for {regularizer!r}, which is not linear in each action by itself"
        )
    return Autoregressor(np.concatenate([h.coefficients for h in linear], axis=1), min(h.damping for h in linear))


def _check_order(order: int, sums: Sums) -> None:
    if order >= sums.longest:
        raise DataError(
            f"order must be shorter than the longest sequence; got order={order} and at most {sums.longest} frames: "
            "choose a smaller order or give longer sequences"
        )
