"""Least squares on states: linear f, or piecewise linear, with a penalty chosen by sequences that were left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial, reduce
from operator import add
from typing import Any, Protocol, runtime_checkable

import numpy as np

from simile._common import checks
from simile._common.parts import Parts, Whole
from simile._common.sums import ExactSum
from simile._common.typing import BoolArray, FloatArray, IntArray
from simile.data.states import Horizon, States
from simile.errors import ArgumentError
from simile.models import Model
from simile.models.columns import layout
from simile.models.linear import PiecewiseLinear

BLOCK = 10_000  # frames of the state matrix that are held at a time
AT_ONCE = 128  # of these, frames that are worked on at a time: they stay in the cache
MOST_KEPT = 20_000_000  # numbers of it that are kept from one pass to the next, in all places together
MOST_SUMMED = 1_000_000  # frames: of more, those of every so many-th sequence
FEWEST_SUMMED = 200  # sequences that normal equations are formed of, where there are so many
MOST_LINES, MOST_HINGES = 800, 400  # terms of each kind
MOST_HINGE_LAGS = 7
N_FOLDS = 4  # by which a ridge that is fitted alone chooses its penalty
SUMMED = ("gram", "moment", "power", "rows")  # of `Sums`


@runtime_checkable
class FoldRegressor(Protocol):
    """A recipe for f that is fitted to all and without each fold in one pass, wherever the data lie."""

    def fit_folds(self, lessons: Parts) -> tuple[Model, Any]:
        """Fit to `Lesson`s; returns f, and what fits without a frame's fold say in it, as `lessons.map` has it."""


@dataclass(frozen=True)
class Ridge:
    """Least squares, linear in the contexts at all lags, or with hinges that bend at quantiles.

    Parameters
    ----------
    knots : int
        How many hinges each context gets at a few of the lags; 0 for a linear f.
    alphas : sequence of float
        Penalties to choose from, relative to the number of frames and on states in standard units; for each output
        the one with the smallest error in the sequences that were left out.
    rows : int
        About how many rows of the normal equations to form, out of longer data evenly: states change slowly, so that
        all of them say little more. Of more than a million frames, those of every so many-th sequence.
    """

    knots: int = 0
    alphas: Sequence[float] = (1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
    rows: int = 60_000

    def __post_init__(self) -> None:
        checks.whole_number(self.knots, "knots")
        alphas = tuple(checks.number(a, "alphas", above=0.0) for a in self.alphas)
        if not alphas:
            raise ArgumentError("alphas must hold at least one penalty; got none")
        object.__setattr__(self, "alphas", alphas)
        checks.whole_number(self.rows, "rows", at_least=1)

    def fit_smooth(
        self,
        states: Sequence[States],
        labels: FloatArray,
        targets: FloatArray,  # noqa: ARG002
        anchors: FloatArray,  # noqa: ARG002
        smoothness: float,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        *,
        weights: FloatArray | None = None,
    ) -> PiecewiseLinear:
        """Fit to lazy states and their labels (n, outputs), as a round of Algorithm 1 does."""
        if len(states) > 1:
            raise ArgumentError("model: Ridge learns from one round at a time: use a memory of the latest alone")
        # By chance: in turn, every so many-th sequence of very many would be of one fold.
        folds = np.random.default_rng(0).permutation(len(_sequences(states[0]))) % N_FOLDS
        return self.fit_folds(Whole(Lesson(states[0], labels, folds, weights)))[0]

    def fit_folds(self, lessons: Parts) -> tuple[PiecewiseLinear, Any]:
        """Solve the normal equations of every fold and of all data; the bits do not depend on where the data lie.

        What fits without a fold say in it is as `lessons.map` has it, an (n, outputs) array for each part.
        """
        sizes: list[Size] = lessons.collect(Size.of)
        size = Size.join(sizes)
        if size.horizon.memory:
            raise ArgumentError(
                "model: Ridge needs a horizon without past actions: Horizon(context_lags, action_lags=0)"
            )
        terms = Terms.of(lessons, sizes, self.knots)
        firsts = lessons.place(np.cumsum([0, *(s.sequences for s in sizes)])[:-1].tolist())
        regressors = lessons.map(Regressors.of, shared=(terms, size.frames * (len(terms.feature) + 1) <= MOST_KEPT))
        every = max(1, min(size.frames // MOST_SUMMED, size.sequences // FEWEST_SUMMED))
        step = -(-size.frames // (every * self.rows))
        largest: Largest = lessons.total(Largest.of)
        weights = np.zeros((size.folds + 1, len(terms.feature) + 1, size.n_outputs))
        # Where frames do not count alike, each action has normal equations of its own.
        alike = [slice(None)] if not size.n_weights else [slice(j, None, size.n_weights) for j in range(size.n_weights)]
        for number, outputs in enumerate(alike):
            bounds = Bounds.of(terms, size, largest.values[outputs])
            shared = (outputs, number, every, step, bounds)
            solve = partial(self._solve, size.folds)
            weights[:, :, outputs] = lessons.total(_sum_folds, regressors, firsts, shared=shared, then=solve)
        said = lessons.map(_say_unseen, regressors, shared=(weights,))
        return terms.to_lines(weights[-1], size.horizon, size.n_contexts, size.n_actions), said

    def _solve(self, n_folds: int, found: FoldSums) -> FloatArray:
        """Return the weights without each fold, and those of all data, (folds + 1, terms + 1, outputs)."""
        sums = [found.folds[fold] for fold in range(n_folds)]
        every = reduce(add, sums)
        with one_thread():
            if len(sums) == 1:  # nothing can be left out, so that no penalty can be chosen
                return np.stack([every.solve(sorted(self.alphas)[len(self.alphas) // 2])] * 2)
            tried = np.array([[every.minus(s).solve(alpha) for s in sums] for alpha in self.alphas])
            errors = np.array([sum(s.error(w) for s, w in zip(sums, some, strict=True)) for some in tried])
            best = np.argmin(errors, axis=0)  # of each output
            all_ = np.array([every.solve(alpha) for alpha in self.alphas])
            every_fold = np.concatenate([tried, all_[:, np.newaxis]], axis=1)
            return np.stack([every_fold[a, :, :, i] for i, a in enumerate(best)], axis=2)


@dataclass(frozen=True, eq=False)
class Lesson:
    """What there is to learn from some of the sequences."""

    states: States
    labels: FloatArray  # (n, outputs)
    folds: IntArray  # number of the fold of each sequence
    weights: FloatArray | None = None  # (n, k): of output i that of action i modulo k
    judged: BoolArray | None = None  # (sequences,) whether it matters what is said there; everywhere by default


@dataclass(frozen=True)
class Size:
    """How large a lesson is, and how its states are laid out."""

    frames: int
    sequences: int
    folds: int
    weight: float  # the largest; 0 where there are none
    n_weights: int  # of each frame
    n_outputs: int
    horizon: Horizon
    n_contexts: int
    n_actions: int

    @classmethod
    def of(cls, lesson: Lesson) -> Size:
        """Look at one lesson."""
        tape, horizon = lesson.states.tape, lesson.states.horizon
        weight, n_weights = (0.0, 0) if lesson.weights is None else (lesson.weights.max(), lesson.weights.shape[1])
        sizes = len(lesson.states), len(lesson.folds), int(lesson.folds.max()) + 1
        outputs, k = lesson.labels.shape[1], tape.actions.shape[1]
        return cls(*sizes, float(weight), n_weights, outputs, horizon, tape.n_contexts, k)

    @classmethod
    def join(cls, sizes: Sequence[Size]) -> Size:
        """Return that of all parts."""
        most = {name: max(getattr(s, name) for s in sizes) for name in ("folds", "weight")}
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
    reach: FloatArray  # the largest, in standard units, or the root of the mean square, whichever is less

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
        # A frame is repeated where a lag reaches beyond its sequence; what is rare and far adds up to little.
        often = 1.0 + max(map(abs, sizes[0].horizon.offsets))
        reach = np.minimum(np.maximum(*(np.abs(end - mean) for end in ends)), math.sqrt(often) * spread) / scale
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
    """The largest absolute labels, (outputs,)."""

    values: FloatArray

    @classmethod
    def of(cls, lesson: Lesson) -> Largest:
        """Look at the labels."""
        return cls(np.abs(lesson.labels).max(axis=0))

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


@dataclass(frozen=True, eq=False)
class Bounds:
    """Powers of two: a sum of products over all frames is not beyond `many` times those of what is multiplied."""

    regressors: FloatArray  # (terms + 1,)
    labels: FloatArray  # (outputs,)
    many: float

    @classmethod
    def of(cls, terms: Terms, size: Size, largest: FloatArray) -> Bounds:
        """Take the largest of each, times the root of the largest weight."""
        root = math.sqrt(size.weight or 1.0)
        regressors, labels = (_above(root * values) for values in (np.append(terms.reach, 1.0), largest))
        return cls(regressors, labels, float(_above(size.frames)))


@dataclass(eq=False)
class Sums:
    """Normal equations, summed over sequences: cross-validation then costs no further pass.

    What is added is rounded to a common grid, so fine that no sum is beyond 2^51 of its steps: such sums are exact, and
    do not depend on the order of the sequences or on where they lie.
    """

    gram: FloatArray  # of regressors
    moment: FloatArray  # with what they should add up to
    power: FloatArray  # of that, (1, outputs)
    rows: int

    @classmethod
    def zero(cls, terms: int, outputs: int) -> Sums:
        """Begin with nothing."""
        return cls(np.zeros((terms, terms)), np.zeros((terms, outputs)), np.zeros((1, outputs)), 0)

    def __add__(self, other: Sums) -> Sums:
        return Sums(*(getattr(self, n) + getattr(other, n) for n in SUMMED))

    def minus(self, other: Sums) -> Sums:
        """Leave a fold out."""
        return Sums(*(getattr(self, n) - getattr(other, n) for n in SUMMED))

    def take(self, Z: FloatArray, labels: FloatArray, bounds: Bounds) -> None:
        """Take in rows of regressors, and of their labels."""
        add_rounded(self.gram, Z.T @ Z, bounds.many * bounds.regressors, bounds.regressors)
        add_rounded(self.moment, Z.T @ labels, bounds.many * bounds.regressors, bounds.labels)
        squares = np.sum(labels**2, axis=0, keepdims=True)
        add_rounded(self.power, squares, np.array([bounds.many]), bounds.labels**2)
        self.rows += len(Z)

    def solve(self, alpha: float) -> FloatArray:
        """Return the weights (terms, outputs) under a penalty, of which the constant is free."""
        from scipy.linalg import cho_factor, cho_solve

        normal = self.gram.copy()
        rows = max(self.rows, 1)
        # The constant, and everything a little, so that there is a solution without any frame too.
        normal[np.diag_indices(len(normal) - 1)] += alpha * rows
        normal[np.diag_indices(len(normal))] += 1e-9 * rows
        return np.asarray(cho_solve(cho_factor(normal), self.moment))

    def error(self, weights: FloatArray) -> FloatArray:
        """Return the summed squared error of each output by these weights."""
        products = np.sum(weights * (self.gram @ weights - 2.0 * self.moment), axis=0)
        return np.asarray(products + self.power[0])


@dataclass(eq=False)
class FoldSums:
    """Sums of each fold that there is."""

    folds: dict[int, Sums]

    def __add__(self, other: FoldSums) -> FoldSums:
        both = {fold: s + other.folds[fold] for fold, s in self.folds.items() if fold in other.folds}
        return FoldSums({**self.folds, **other.folds, **both})


# What runs where a part is.


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
    outputs: slice,
    number: int,
    every: int,
    step: int,
    bounds: Bounds,
) -> FoldSums:
    """Sum the normal equations of each fold, over every so many-th row of every so many-th of all sequences."""
    width = len(bounds.regressors), len(bounds.labels)
    sums = {int(fold): Sums.zero(*width) for fold in np.unique(lesson.folds)}
    with one_thread():
        several = zip(_sequences(lesson.states), lesson.folds, strict=True)
        for rows, fold in (one for i, one in enumerate(several, first) if i % every == 0):
            for part in _blocks(rows):
                Z, labels = regressors.at(lesson.states, part)[::step], lesson.labels[part[::step], outputs]
                if lesson.weights is not None:
                    root = np.sqrt(lesson.weights[part[::step], number])[:, np.newaxis]
                    Z, labels = Z * root, labels * root
                sums[fold].take(Z, labels, bounds)
    return FoldSums(sums)


def _say_unseen(lesson: Lesson, regressors: Regressors, weights: FloatArray) -> FloatArray:
    """Return what fits without a frame's fold say in it, (n, outputs), sequence after sequence of those judged."""
    said = [np.empty((0, weights.shape[2]))]
    judged = np.ones(len(lesson.folds), bool) if lesson.judged is None else lesson.judged
    with one_thread():
        for rows, fold, matters in zip(_sequences(lesson.states), lesson.folds, judged, strict=True):
            if matters:
                said += [regressors.at(lesson.states, part) @ weights[fold] for part in _blocks(rows)]
    return np.concatenate(said)


def one_thread() -> Any:
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


def add_rounded(total: FloatArray, values: FloatArray, rows: FloatArray, columns: FloatArray) -> None:
    """Add values (n, m), which are used up, to a total, rounded to a grid of 2^-51 of rows_i columns_j, powers of two.

    In the binade above twice that, numbers are as far apart as the grid: adding and taking off three times rounds.
    """
    far = np.multiply.outer(3.0 * rows, columns)
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite stays so
        values += far
        values -= far
        total += values
