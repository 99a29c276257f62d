"""A ridge fitted through the roll-out: the linear f whose *roll-out* comes closest to the expert (not in the paper).

For f on contexts alone the roll-out is a = G z + i (`closed_loop`), so that with z = S w the best w is found by
least squares on the filtered states G S: no lag is left to compensate, because the fit knows of the filter behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray, IntArray, Trajectories
from simile.data.states import States
from simile.errors import ArgumentError
from simile.models import Model
from simile.models.closed_loop import ClosedLoop
from simile.models.columns import layout
from simile.models.linear import PiecewiseLinear

BLOCK = 10_000  # frames of the state matrix that are held at a time
MOST_KEPT = 20_000_000  # numbers of it that are kept from one closed loop to the next
MOST_LINES, MOST_HINGES = 800, 400  # terms of each kind
MOST_HINGE_LAGS = 7


@runtime_checkable
class RolloutRegressor(Protocol):
    """A recipe for f on contexts alone that is fitted through the closed loop behind it."""

    def fit_rollouts(
        self, states: States, expert: Trajectories, loops: Sequence[ClosedLoop], folds: IntArray
    ) -> Sequence[tuple[Model, FloatArray]]:
        """Fit through each closed loop; `folds` numbers the fold of each sequence.

        One that has an argument `weights` gets how much each action of each frame counts, (n, k), where they differ.
        Returns f, and what fits without a frame's fold say in that frame, (n, k), for each loop.
        """


@dataclass(frozen=True)
class RolloutRidge:
    """Least squares on roll-outs, linear in the contexts at all lags, or with hinges that bend at quantiles.

    Parameters
    ----------
    knots : int
        How many hinges each context gets at a few of the lags; 0 for a linear f.
    alphas : sequence of float
        Penalties to choose from, relative to the number of frames and on states in standard units; the one with the
        smallest error in roll-outs of the sequences that were left out.
    bend : float
        Penalty on the squared second differences of the roll-out, times the fourth power of the filter's lag: the
        smoother the policy is meant to be, the less f may undo it.
    rows : int
        About how many rows of the normal equations to form, out of longer data evenly: filtered states change slowly,
        so that all of them say little more.
    """

    knots: int = 0
    alphas: Sequence[float] = (1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
    bend: float = 0.1
    rows: int = 60_000

    def __post_init__(self) -> None:
        checks.whole_number(self.knots, "knots")
        alphas = tuple(checks.number(a, "alphas", above=0.0) for a in self.alphas)
        if not alphas:
            raise ArgumentError("alphas must hold at least one penalty; got none")
        object.__setattr__(self, "alphas", alphas)
        checks.number(self.bend, "bend", at_least=0.0)
        checks.whole_number(self.rows, "rows", at_least=1)

    def fit_rollout(
        self, states: States, expert: Trajectories, loop: ClosedLoop, folds: IntArray
    ) -> tuple[PiecewiseLinear, FloatArray]:
        """Solve the normal equations of every fold and of all data; the penalty is chosen by the folds."""
        return self.fit_rollouts(states, expert, [loop], folds)[0]

    def fit_rollouts(
        self,
        states: States,
        expert: Trajectories,
        loops: Sequence[ClosedLoop],
        folds: IntArray,
        *,
        weights: FloatArray | None = None,
    ) -> list[tuple[PiecewiseLinear, FloatArray]]:
        """Fit through several closed loops; they share the states in standard units."""
        import scipy.linalg  # noqa: F401 - loaded before the limit, which knows only of libraries that are
        from threadpoolctl import threadpool_limits

        if states.horizon.memory:
            raise ArgumentError(
                "model: RolloutRidge needs a horizon without past actions: Horizon(context_lags, action_lags=0)"
            )
        regressors = Regressors(Terms.of(states, self.knots), states, {})
        with threadpool_limits(1, user_api="blas"):  # the same bits for any number of threads
            return [self._fit(regressors, expert, loop, folds, weights) for loop in loops]

    def _fit(
        self,
        regressors: Regressors,
        expert: Trajectories,
        loop: ClosedLoop,
        folds: IntArray,
        counts: FloatArray | None,
    ) -> tuple[PiecewiseLinear, FloatArray]:
        states, terms = regressors.states, regressors.terms
        k, n_terms, n_folds = loop.taps.shape[1], len(terms.feature) + 1, int(folds.max()) + 1
        weights = np.zeros((n_folds + 1, n_terms, k))
        step = -(-len(states) // self.rows)
        sequences = _sequences(states)
        for dimensions in _alike(loop.taps) if counts is None else np.arange(k)[:, np.newaxis]:
            sums = [Sums.zero(n_terms, len(dimensions)) for _ in range(n_folds)]
            for actions, rows, fold in zip(expert, sequences, folds, strict=True):
                aims = (actions - loop.free(actions))[:, dimensions]
                for part, Z, bends in regressors.filter(rows, loop, dimensions[0]):
                    aim = aims[part - rows[0]]
                    if counts is not None:
                        root = np.sqrt(counts[part][:, dimensions])
                        Z, aim = Z * root, aim * root
                    sums[fold].add(Z[::step], bends[::step], aim[::step])
            weights[:, :, dimensions] = self._solve(sums, self.bend * loop.lags[dimensions[0]] ** 4)
        unseen = np.empty((len(states), k))
        for rows, fold in zip(sequences, folds, strict=True):
            for part in _blocks(rows):
                unseen[part] = regressors.at(part) @ weights[fold]
        return terms.to_lines(weights[-1], states), unseen

    def _solve(self, sums: Sequence[Sums], gamma: float) -> FloatArray:
        """Return the weights without each fold, and those of all data, (folds + 1, terms + 1, k)."""
        every = Sums.total(sums)
        if len(sums) == 1:  # nothing can be left out, so that no penalty can be chosen
            return np.stack([every.solve(sorted(self.alphas)[len(self.alphas) // 2], gamma)] * 2)
        tried = [[every.minus(s).solve(alpha, gamma) for s in sums] for alpha in self.alphas]
        errors = [sum(s.error(w) for s, w in zip(sums, weights, strict=True)) for weights in tried]
        best = int(np.argmin(errors))
        return np.stack([*tried[best], every.solve(self.alphas[best], gamma)])


@dataclass(frozen=True, eq=False)
class Terms:
    """The regressors max(s_j, knot_j), and what brings them to standard units."""

    feature: IntArray
    knot: FloatArray
    fill: FloatArray
    mean: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, states: States, knots: int) -> Terms:
        """Choose terms for states: every lag of every context and, where there are knots, hinges at some lags."""
        contexts = _single(states.tape.contexts)
        contexts[~np.isfinite(contexts)] = np.nan
        m, n_lags = states.tape.n_contexts, len(states.horizon.context_lags)
        fill = np.array([c[~np.isnan(c)].mean() if not np.isnan(c).all() else 0.0 for c in contexts.T])
        filled = np.where(np.isnan(contexts), fill, contexts)
        levels = [np.full(m, -np.inf)]
        lags = [_spread(n_lags, MOST_LINES // m)]
        if knots and (some := MOST_HINGES // (m * knots)):
            levels += list(np.quantile(filled, (np.arange(knots) + 0.75) / (knots + 0.5), axis=0))
            lags += [_spread(n_lags, min(some, MOST_HINGE_LAGS))] * knots
        feature, knot, mean, scale = [], [], [], []
        for level, places in zip(levels, lags, strict=True):
            bent = np.maximum(filled, level)
            for place in places:
                feature.append(place * m + np.arange(m))
                knot.append(level)
                mean.append(bent.mean(axis=0))
                scale.append(bent.std(axis=0))
        spread = np.concatenate(scale)
        places, means = np.concatenate(feature), np.concatenate(mean)
        # Relative to the values, so that contexts may come in any unit.
        units = np.where(spread > 1e-9 * np.abs(means), spread, 1.0)
        return cls(places, np.concatenate(knot), fill[places % m], means, units)

    def to_lines(self, weights: FloatArray, states: States) -> PiecewiseLinear:
        """Write weights (terms + 1, k) of regressors in standard units as f of the states themselves."""
        k = states.tape.actions.shape[1]
        columns, lags = layout(states.horizon, states.tape.n_contexts, k)
        coefficient = weights[:-1] / self.scale[:, np.newaxis]
        return PiecewiseLinear(
            feature=self.feature,
            knot=self.knot,
            fill=self.fill,
            coefficient=coefficient,
            intercept=weights[-1] - self.mean @ coefficient,
            columns=columns,
            lags=lags,
            width=states.tape.n_contexts + k,
        )


@dataclass(frozen=True, eq=False)
class Regressors:
    """The terms of all states in standard units, a block at a time; those of small data are kept."""

    terms: Terms
    states: States
    kept: dict[tuple[int, int], FloatArray]

    @cached_property
    def room(self) -> tuple[FloatArray, FloatArray]:
        """Two arrays to work in: a page of memory that is new costs more than what is written to it."""
        shape = min(BLOCK, len(self.states)), len(self.terms.feature) + 1
        return np.empty(shape), np.empty(shape)

    def at(self, rows: IntArray) -> FloatArray:
        """Return the regressors (n, terms + 1) of neighbouring rows, with a constant last."""
        place = int(rows[0]), len(rows)
        if place in self.kept:
            return self.kept[place]
        terms = self.terms
        out = np.ones((len(rows), len(terms.feature) + 1))
        S = out[:, :-1]
        S[:] = _single(self.states.where(rows).matrix())[:, terms.feature]
        missing = ~np.isfinite(S)
        if missing.any():
            S[missing] = np.broadcast_to(terms.fill, S.shape)[missing]
        np.maximum(S, terms.knot, out=S)
        S -= terms.mean
        S /= terms.scale
        if len(self.states) * out.shape[1] <= MOST_KEPT:
            self.kept[place] = out
        return out

    def filter(
        self, rows: IntArray, loop: ClosedLoop, dimension: int
    ) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
        """Send the regressors of one sequence through the closed loop.

        Yields rows, what comes out, and its second differences; the arrays are written over at the next turn.
        """
        from simile.models.kernels.filtering import filter_frames

        lead, taps = loop.taps[0, dimension], loop.taps[1:, dimension]
        past = np.zeros((loop.order + 1, len(self.terms.feature) + 1))
        for part in _blocks(rows):
            some = part[max(0, loop.order - int(part[0] - rows[0])) :]  # the first frames are the expert's
            if len(some):
                Z, bends = (room[: len(some)] for room in self.room)
                filter_frames(1.0 / lead, taps / lead, self.at(part)[-len(some) :], past, Z, bends)
                yield some, Z, bends[: max(0, len(some) - 2)]


@dataclass(eq=False)
class Sums:
    """Normal equations of the roll-out, summed over sequences: cross-validation then costs no further pass."""

    gram: FloatArray  # of filtered regressors
    bend: FloatArray  # of their second differences
    moment: FloatArray  # with what they should add up to
    power: float
    rows: int

    @classmethod
    def zero(cls, terms: int, k: int) -> Sums:
        """Begin with nothing."""
        return cls(np.zeros((terms, terms)), np.zeros((terms, terms)), np.zeros((terms, k)), 0.0, 0)

    @classmethod
    def total(cls, sums: Sequence[Sums]) -> Sums:
        """Add up the sums of all folds."""
        return cls(*(sum(getattr(s, n) for s in sums) for n in ("gram", "bend", "moment", "power", "rows")))

    def minus(self, other: Sums) -> Sums:
        """Leave a fold out."""
        return Sums(*(getattr(self, n) - getattr(other, n) for n in ("gram", "bend", "moment", "power", "rows")))

    def add(self, Z: FloatArray, bends: FloatArray, aims: FloatArray) -> None:
        """Take in rows of filtered regressors, of their second differences, and of their aims."""
        self.gram += Z.T @ Z
        self.bend += bends.T @ bends
        self.moment += Z.T @ aims
        self.power += float((aims**2).sum())
        self.rows += len(Z)

    def solve(self, alpha: float, gamma: float) -> FloatArray:
        """Return the weights (terms, k) under both penalties; the constant is free of the first."""
        from scipy.linalg import cho_factor, cho_solve

        normal = self.gram + gamma * self.bend
        rows = max(self.rows, 1)
        # The constant, and everything a little, so that there is a solution without any frame too.
        normal[np.diag_indices(len(normal) - 1)] += alpha * rows
        normal[np.diag_indices(len(normal))] += 1e-9 * rows
        return np.asarray(cho_solve(cho_factor(normal), self.moment))

    def error(self, weights: FloatArray) -> float:
        """Return the summed squared error of the roll-outs by these weights."""
        return float(np.sum(weights * (self.gram @ weights)) - 2.0 * np.sum(weights * self.moment)) + self.power


def _single(values: FloatArray) -> FloatArray:
    """Round to single precision, as models take their states; what is too large becomes infinite."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32).astype(np.float64)


def _sequences(states: States) -> list[IntArray]:
    """Return the rows of each sequence among the states."""
    return np.split(np.arange(len(states)), np.flatnonzero(np.diff(states.tape.floor[states.rows])) + 1)


def _blocks(rows: IntArray) -> list[IntArray]:
    return np.array_split(rows, max(1, -(-len(rows) // BLOCK))) if len(rows) else []


def _spread(n_lags: int, most: int) -> IntArray:
    """Pick at most so many lags (at least one), evenly from the first to the last."""
    return np.unique(np.linspace(0, n_lags - 1, max(1, min(most, n_lags))).astype(int))


def _alike(taps: FloatArray) -> list[IntArray]:
    """Group the action dimensions that have the same filter: they share their normal equations."""
    _, group = np.unique(taps.T, axis=0, return_inverse=True)
    return [np.flatnonzero(group == g) for g in range(int(group.max()) + 1)]
