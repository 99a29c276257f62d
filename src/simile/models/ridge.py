"""A ridge fitted through the roll-out: the linear f whose *roll-out* comes closest to the expert (not in the paper).

For f on contexts alone the roll-out is a = G z + i (`closed_loop`), so that with z = S w the best w is found by
least squares on the filtered states G S: no lag is left to compensate, because the fit knows of the filter behind it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial, reduce
from operator import add
from typing import Any, Protocol, runtime_checkable

import numpy as np

from simile._common import checks
from simile._common.parts import Parts, Whole
from simile._common.sums import ExactSum
from simile._common.typing import FloatArray, IntArray, Trajectories
from simile.data.states import Horizon, States
from simile.errors import ArgumentError
from simile.models import Model
from simile.models.closed_loop import ClosedLoop
from simile.models.columns import layout
from simile.models.linear import PiecewiseLinear

BLOCK = 10_000  # frames of the state matrix that are held at a time
AT_ONCE = 128  # of these, frames that are worked on at a time: they stay in the cache
MOST_KEPT = 20_000_000  # numbers of it that are kept from one closed loop to the next, in all places together
MOST_FILTERED = 1_000_000  # frames that are sent through a closed loop: of more, those of every so many-th sequence
FEWEST_FILTERED = 200  # sequences that normal equations are formed of, where there are so many
MOST_LINES, MOST_HINGES = 800, 400  # terms of each kind
MOST_HINGE_LAGS = 7
SUMMED = ("gram", "bend", "moment", "power", "rows")  # of `Sums`


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
        so that all of them say little more. Of more than a million frames, those of every so many-th sequence.
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
        return self.fit_lessons(Whole(Lesson(states, expert, folds, weights)), loops)

    def fit_lessons(self, lessons: Parts, loops: Sequence[ClosedLoop]) -> list[tuple[PiecewiseLinear, Any]]:
        """Fit as `fit_rollouts` does, with the same bits, to lessons in one place or in several.

        What fits without a fold say is as `lessons.map` has it, an (n, k) array for each part.
        """
        sizes: list[Size] = lessons.collect(Size.of)
        if sizes[0].horizon.memory:
            raise ArgumentError(
                "model: RolloutRidge needs a horizon without past actions: Horizon(context_lags, action_lags=0)"
            )
        terms = Terms.of(lessons, sizes, self.knots)
        size = Size.join(sizes)
        firsts = lessons.place(np.cumsum([0, *(s.sequences for s in sizes)])[:-1].tolist())
        regressors = lessons.map(Regressors.of, shared=(terms, size.frames * (len(terms.feature) + 1) <= MOST_KEPT))
        return [self._fit(lessons, size, terms, (regressors, firsts), loop) for loop in loops]

    def _fit(
        self, lessons: Parts, size: Size, terms: Terms, beside: tuple[Any, Any], loop: ClosedLoop
    ) -> tuple[PiecewiseLinear, Any]:
        weights = np.zeros((size.folds + 1, len(terms.feature) + 1, loop.taps.shape[1]))
        aims = lessons.map(_aims, shared=(loop,))
        largest: Largest = lessons.total(Largest.of, aims)
        every = max(1, min(size.frames // MOST_FILTERED, size.sequences // FEWEST_FILTERED))
        step = -(-size.frames // (every * self.rows))
        alike = np.arange(loop.taps.shape[1])[:, np.newaxis] if size.weight else _alike(loop.taps)
        for dimensions in alike:
            bounds = Bounds.of(terms, loop, dimensions, size, largest.values)
            solve = partial(self._solve, size.folds, self.bend * loop.lags[dimensions[0]] ** 4)
            sums = (loop, dimensions, every, step, bounds)
            weights[:, :, dimensions] = lessons.total(_sum_folds, *beside, aims, shared=sums, then=solve)
        said = lessons.map(_say_unseen, beside[0], shared=(weights,))
        return terms.to_lines(weights[-1], size.horizon, size.n_contexts, size.n_actions), said

    def _solve(self, n_folds: int, gamma: float, found: FoldSums) -> FloatArray:
        """Return the weights without each fold, and those of all data, (folds + 1, terms + 1, k)."""
        sums = [found.folds[fold] for fold in range(n_folds)]
        every = reduce(add, sums)
        with _one_thread():
            if len(sums) == 1:  # nothing can be left out, so that no penalty can be chosen
                return np.stack([every.solve(sorted(self.alphas)[len(self.alphas) // 2], gamma)] * 2)
            tried = [[every.minus(s).solve(alpha, gamma) for s in sums] for alpha in self.alphas]
            errors = [sum(s.error(w) for s, w in zip(sums, weights, strict=True)) for weights in tried]
            best = int(np.argmin(errors))
            return np.stack([*tried[best], every.solve(self.alphas[best], gamma)])


@dataclass(frozen=True, eq=False)
class Lesson:
    """What there is to learn from some of the sequences."""

    states: States
    expert: Trajectories
    folds: IntArray  # number of the fold of each sequence
    weights: FloatArray | None = None  # (n, k)


@dataclass(frozen=True)
class Size:
    """How large a lesson is, and how its states are laid out."""

    frames: int
    sequences: int
    longest: int
    folds: int
    weight: float  # the largest; 0 where there are none
    horizon: Horizon
    n_contexts: int
    n_actions: int

    @classmethod
    def of(cls, lesson: Lesson) -> Size:
        """Look at one lesson."""
        tape, horizon = lesson.states.tape, lesson.states.horizon
        weight = 0.0 if lesson.weights is None else float(lesson.weights.max())
        longest, k = max(map(len, lesson.expert)), tape.actions.shape[1]
        sizes = len(lesson.states), len(lesson.expert), longest
        return cls(*sizes, int(lesson.folds.max()) + 1, weight, horizon, tape.n_contexts, k)

    @classmethod
    def join(cls, sizes: Sequence[Size]) -> Size:
        """Return that of all parts."""
        most = {name: max(getattr(s, name) for s in sizes) for name in ("longest", "folds", "weight")}
        sums = {name: sum(getattr(s, name) for s in sizes) for name in ("frames", "sequences")}
        return replace(sizes[0], **sums, **most)


@dataclass(frozen=True, eq=False)
class Terms:
    """The regressors max(s_j, knot_j), and what brings them to standard units."""

    feature: IntArray
    knot: FloatArray
    fill: FloatArray
    mean: FloatArray
    scale: FloatArray
    reach: FloatArray  # the largest, in standard units

    @classmethod
    def of(cls, lessons: Parts, sizes: Sequence[Size], knots: int) -> Terms:
        """Choose terms for states: every lag of every context and, where there are knots, hinges at some lags."""
        m, n_lags, n = sizes[0].n_contexts, len(sizes[0].horizon.context_lags), sum(s.frames for s in sizes)
        range_: Range = lessons.total(Range.of)
        total, count = range_.sums.value
        fill = np.divide(total, count, out=np.zeros(m), where=count > 0.0)
        levels, lags = [np.full(m, -np.inf)], [_spread(n_lags, MOST_LINES // m)]
        if knots and (some := MOST_HINGES // (m * knots)):
            firsts = lessons.place([sum(s.frames for s in sizes[:i]) for i in range(len(sizes))])
            levels += lessons.total(_sample, firsts, shared=(n,), then=partial(_place_knots, fill=fill, knots=knots))
            lags += [_spread(n_lags, min(some, MOST_HINGE_LAGS))] * knots
        mean = lessons.total(_sum_bent, shared=(fill, levels)).value / n
        spread = np.sqrt(lessons.total(_sum_bent, shared=(fill, levels, mean)).value / n)
        # Relative to the values, so that contexts may come in any unit.
        scale = np.where(spread > 1e-9 * np.abs(mean), spread, 1.0)
        ends = [np.fmax(np.where(count > 0.0, end, 0.0), levels) for end in (range_.low, range_.high)]
        reach = np.maximum(*(np.abs(end - mean) for end in ends)) / scale
        feature = np.concatenate([place * m + np.arange(m) for places in lags for place in places])
        each = np.repeat(np.arange(len(levels)), [len(places) for places in lags])
        at = [np.concatenate([table[i] for i in each]) for table in (levels, mean, scale, reach)]
        return cls(feature, at[0], fill[feature % m], *at[1:])

    def to_lines(self, weights: FloatArray, horizon: Horizon, m: int, k: int) -> PiecewiseLinear:
        """Write weights (terms + 1, k) of regressors in standard units as f of states with m contexts."""
        columns, lags = layout(horizon, m, k)
        coefficient = weights[:-1] / self.scale[:, np.newaxis]
        return PiecewiseLinear(
            feature=self.feature,
            knot=self.knot,
            fill=self.fill,
            coefficient=coefficient,
            intercept=weights[-1] - self.mean @ coefficient,
            columns=columns,
            lags=lags,
            width=m + k,
        )


@dataclass(frozen=True, eq=False)
class Range:
    """Where contexts lie: sums and how many were summed (2, m), the lowest and the highest; NaN where there is none."""

    sums: ExactSum
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, lesson: Lesson) -> Range:
        """Look at one lesson."""
        sums, ends = [], []
        for x in map(_single, lesson.states.tape.parts):
            known = np.isfinite(x)
            sums.append([np.sum(x, axis=0, where=known), known.sum(axis=0)])
            ends.append(
                [np.min(x, axis=0, where=known, initial=np.inf), np.max(x, axis=0, where=known, initial=-np.inf)]
            )
        low, high = np.min([e[0] for e in ends], axis=0), np.max([e[1] for e in ends], axis=0)
        return cls(ExactSum.of(np.array(sums, dtype=np.float64)), low, high)

    def __add__(self, other: Range) -> Range:
        return Range(self.sums + other.sums, np.minimum(self.low, other.low), np.maximum(self.high, other.high))


@dataclass(frozen=True, eq=False)
class Largest:
    """The largest absolute values, (k,)."""

    values: FloatArray

    @classmethod
    def of(cls, _: Lesson, trajectories: Trajectories) -> Largest:
        """Look at trajectories."""
        return cls(np.max([np.abs(a).max(axis=0) for a in trajectories], axis=0))

    def __add__(self, other: Largest) -> Largest:
        return Largest(np.maximum(self.values, other.values))


@dataclass(frozen=True, eq=False)
class Regressors:
    """The terms of all states in standard units, a block at a time; those of small data are kept."""

    terms: Terms
    kept: dict[tuple[int, int], FloatArray] | None

    @classmethod
    def of(cls, _: Lesson, terms: Terms, keep: bool) -> Regressors:
        """Begin with nothing kept."""
        return cls(terms, {} if keep else None)

    def room(self, states: States) -> tuple[FloatArray, FloatArray]:
        """Make two arrays to work in: a page of memory that is new costs more than what is written to it."""
        shape = min(BLOCK, len(states)), len(self.terms.feature) + 1
        return np.empty(shape), np.empty(shape)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "kept": None if self.kept is None else {}}  # what is kept does not travel

    def at(self, states: States, rows: IntArray) -> FloatArray:
        """Return the regressors (n, terms + 1) of neighbouring states, with a constant last."""
        place = int(rows[0]), len(rows)
        if self.kept is not None and place in self.kept:
            return self.kept[place]
        terms = self.terms
        out = np.ones((len(rows), len(terms.feature) + 1))
        for begin in range(0, len(rows), AT_ONCE):
            some = slice(begin, begin + AT_ONCE)
            S = out[some, :-1]
            S[:] = _single(states.where(rows[some]).matrix()).take(terms.feature, axis=1)
            missing = ~np.isfinite(S)
            if missing.any():
                S[missing] = np.broadcast_to(terms.fill, S.shape)[missing]
            np.maximum(S, terms.knot, out=S)
            S -= terms.mean
            S /= terms.scale
        if self.kept is not None:
            self.kept[place] = out
        return out

    def filter(
        self, states: States, rows: IntArray, loop: ClosedLoop, dimension: int, room: tuple[FloatArray, FloatArray]
    ) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
        """Send the regressors of one sequence through the closed loop.

        Yields rows, what comes out, and its second differences, both in the `room`, written over at the next turn.
        """
        from simile.models.kernels.filtering import filter_frames

        lead, taps = loop.taps[0, dimension], loop.taps[1:, dimension]
        past = np.zeros((loop.order + 1, len(self.terms.feature) + 1))
        for part in _blocks(rows):
            some = part[max(0, loop.order - int(part[0] - rows[0])) :]  # the first frames are the expert's
            if len(some):
                Z, bends = (space[: len(some)] for space in room)
                filter_frames(1.0 / lead, taps / lead, self.at(states, part)[-len(some) :], past, Z, bends)
                yield some, Z, bends[: max(0, len(some) - 2)]


@dataclass(frozen=True, eq=False)
class Bounds:
    """Powers of two that no filtered regressor, second difference of one, aim or root of their number is beyond."""

    filtered: FloatArray  # (terms + 1,)
    bent: FloatArray
    aims: FloatArray  # (k,)
    many: float  # a sum over all frames and actions of products is not beyond that of what they are bounded by

    @classmethod
    def of(cls, terms: Terms, loop: ClosedLoop, dimensions: IntArray, size: Size, largest: FloatArray) -> Bounds:
        """Follow the largest regressors through the closed loop: a filter adds up to so many times its input."""
        impulse = np.zeros((size.longest + loop.order, 1))
        impulse[loop.order] = 1.0
        answer = loop.forced(impulse, int(dimensions[0]))[loop.order :, 0]
        bends = np.diff(answer, n=2, prepend=[0.0, 0.0])
        reach, root = np.append(terms.reach, 1.0), math.sqrt(size.weight or 1.0)
        filtered, bent = (_above(np.abs(x).sum() * reach) for x in (root * answer, bends))
        return cls(filtered, bent, _above(root * largest[dimensions]), float(_above(size.frames * len(dimensions))))


@dataclass(eq=False)
class Sums:
    """Normal equations of the roll-out, summed over sequences: cross-validation then costs no further pass.

    What is added is rounded to a common grid, so fine that no sum is beyond 2^51 of its steps: such sums are exact, and
    do not depend on the order of the sequences or on where they lie.
    """

    gram: FloatArray  # of filtered regressors
    bend: FloatArray  # of their second differences
    moment: FloatArray  # with what they should add up to
    power: FloatArray  # (1, 1)
    rows: int

    @classmethod
    def zero(cls, terms: int, k: int) -> Sums:
        """Begin with nothing."""
        return cls(np.zeros((terms, terms)), np.zeros((terms, terms)), np.zeros((terms, k)), np.zeros((1, 1)), 0)

    def __add__(self, other: Sums) -> Sums:
        return Sums(*(getattr(self, n) + getattr(other, n) for n in SUMMED))

    def minus(self, other: Sums) -> Sums:
        """Leave a fold out."""
        return Sums(*(getattr(self, n) - getattr(other, n) for n in SUMMED))

    def take(self, Z: FloatArray, bends: FloatArray, aims: FloatArray, bounds: Bounds) -> None:
        """Take in rows of filtered regressors, of their second differences, and of their aims."""
        add_rounded(self.gram, Z.T @ Z, bounds.many * bounds.filtered, bounds.filtered)
        add_rounded(self.bend, bends.T @ bends, bounds.many * bounds.bent, bounds.bent)
        add_rounded(self.moment, Z.T @ aims, bounds.many * bounds.filtered, bounds.aims)
        most = np.array([bounds.aims.max()])
        add_rounded(self.power, np.sum(aims**2).reshape(1, 1), bounds.many * most, most)
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
        error = np.sum(weights * (self.gram @ weights)) - 2.0 * np.sum(weights * self.moment) + self.power[0, 0]
        return float(error)


@dataclass(eq=False)
class FoldSums:
    """Sums of each fold that there is."""

    folds: dict[int, Sums]

    def __add__(self, other: FoldSums) -> FoldSums:
        both = {fold: s + other.folds[fold] for fold, s in self.folds.items() if fold in other.folds}
        return FoldSums({**self.folds, **other.folds, **both})


# What runs where a part is.


def _aims(lesson: Lesson, loop: ClosedLoop) -> list[FloatArray]:
    """Return what f has to force of each sequence."""
    return [a - loop.free(a) for a in lesson.expert]


def _sample(lesson: Lesson, first: int, n_frames: int) -> list[Any]:
    """Return the contexts of those of the frames that choose the knots that lie in this part; lists add up in order."""
    from simile.models.kernels import binning

    drawn = binning.sampled_rows(n_frames)
    mine = drawn[(drawn >= first) & (drawn < first + len(lesson.states))] - first
    tape = lesson.states.tape
    columns = (np.concatenate([x[:, j] for x in tape.parts])[mine] for j in range(tape.n_contexts))
    return [np.stack([binning.single(column) for column in columns], axis=1)]


def _place_knots(samples: Sequence[Any], *, fill: FloatArray, knots: int) -> list[FloatArray]:
    """Return so many levels of each context, (knots, m), by its quantiles."""
    drawn = np.concatenate(samples).astype(np.float64)
    shares = (np.arange(knots) + 0.75) / (knots + 0.5)
    return list(np.quantile(np.where(np.isfinite(drawn), drawn, fill), shares, axis=0))


def _sum_bent(
    lesson: Lesson, fill: FloatArray, levels: Sequence[FloatArray], mean: FloatArray | None = None
) -> ExactSum:
    """Sum the contexts with hinges at each level, (levels, m); or their squares about a mean."""
    found: FloatArray = np.empty((len(lesson.states.tape.parts), *np.shape(levels)))
    for x, out in zip(map(_single, lesson.states.tape.parts), found, strict=True):
        filled = np.where(np.isfinite(x), x, fill)
        for i, level in enumerate(levels):
            bent = np.maximum(filled, level)
            out[i] = bent.sum(axis=0) if mean is None else np.sum((bent - mean[i]) ** 2, axis=0)
    return ExactSum.of(found)


def _sum_folds(
    lesson: Lesson,
    regressors: Regressors,
    first: int,
    aims: Trajectories,
    loop: ClosedLoop,
    dimensions: IntArray,
    every: int,
    step: int,
    bounds: Bounds,
) -> FoldSums:
    """Sum the normal equations of each fold, over every so many-th row of every so many-th of all sequences."""
    sums = {int(fold): Sums.zero(len(bounds.filtered), len(dimensions)) for fold in np.unique(lesson.folds)}
    room, counts = regressors.room(lesson.states), lesson.weights
    with _one_thread():
        several = zip(aims, _sequences(lesson.states), lesson.folds, strict=True)
        for aimed, rows, fold in (one for number, one in enumerate(several, first) if number % every == 0):
            for part, Z, bends in regressors.filter(lesson.states, rows, loop, dimensions[0], room):
                aim = aimed[part - rows[0]][:, dimensions]
                if counts is not None:
                    root = np.sqrt(counts[part][:, dimensions])
                    Z, aim = Z * root, aim * root
                sums[fold].take(Z[::step], bends[::step], aim[::step], bounds)
    return FoldSums(sums)


def _say_unseen(lesson: Lesson, regressors: Regressors, weights: FloatArray) -> FloatArray:
    """Return what fits without a frame's fold say in it, (n, k)."""
    unseen = np.empty((len(lesson.states), weights.shape[2]))
    with _one_thread():
        for rows, fold in zip(_sequences(lesson.states), lesson.folds, strict=True):
            for part in _blocks(rows):
                unseen[part] = regressors.at(lesson.states, part) @ weights[fold]
    return unseen


def _one_thread() -> Any:
    """Let the matrix products of what follows have the same bits for any number of threads."""
    return _products().limit(limits=1, user_api="blas")


@cache
def _products() -> Any:
    """Find the libraries that multiply matrices, once: that takes as long as a small fit."""
    import scipy.linalg  # noqa: F401 - loaded before, for only libraries that are loaded are found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _above(values: Any) -> Any:
    """Return powers of two that are a little larger; 0 for 0."""
    return np.where(np.asarray(values) > 0.0, 2.0 ** np.ceil(np.log2(1.01 * np.maximum(values, 5e-324))), 0.0)


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


def add_rounded(total: FloatArray, values: FloatArray, rows: FloatArray, columns: FloatArray) -> None:
    """Add values (n, m), which are used up, to a total, rounded to a grid of 2^-51 of rows_i columns_j, powers of two.

    In the binade above twice that, numbers are as far apart as the grid: adding and taking off three times rounds.
    """
    far = np.multiply.outer(3.0 * rows, columns)
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite stays so
        values += far
        values -= far
        total += values
