"""The parts of `variants.py`: cases, the closed loop, what can be fitted as f, and the ways to mix.

All act through a linear closed loop, so a policy is f's outputs z and a filter. Each part is fitted on K folds of the
training sequences and once on all of them: out-of-fold outputs to choose by, outputs on the test sequences to check.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import nnls
from scipy.signal import lfilter, lfiltic
from scipy.sparse.linalg import spsolve

import simile
from simile.data.states import Tape

Arrays = list[Any]  # one (T, columns) array per sequence
Variant = Callable[[Any, float], "Pair"]  # the trajectories of one case at one lag
Fit = Callable[[Sequence[int] | None, Arrays], Callable[[Sequence[int] | None], Arrays]]

SCORED_AFTER = 10  # frames, in which the expert acts
AUTO = (0, 1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
FOREST = simile.SmoothForest(n_trees=48, min_leaf=30, max_depth=None, n_jobs=1)
AHEAD = (0, 2, 4, 7, 11, 16)  # frames that "look" predicts ahead, to choose from
ALPHAS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
GATE = 0.005  # a policy is mixed in if the out-of-fold error falls by this share


@dataclass(frozen=True)
class Pair:
    """Something for every training sequence, out of fold, and for every test sequence."""

    train: Arrays
    test: Arrays


@dataclass(eq=False)
class Case:
    """One split of one data set; actions are in standard deviations. Parts that variants share are made once."""

    name: str
    actions: Pair
    contexts: Pair
    fold: Any  # (sequences,) of the training part
    lags: tuple[float, ...]  # the path: how many frames the loop lags at rest
    levels: tuple[float, ...]  # roughness to compare at, as a multiple of the expert's
    memo: dict[Any, Any] = field(default_factory=dict)
    reused: float = 0.0  # seconds that parts made earlier took

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """Make a part, or take it from before and count what it took then."""
        if key in self.memo:
            self.reused += self.memo[key][1]
        else:
            begin = self.clock()
            self.memo[key] = make(), self.clock() - begin
        return self.memo[key][0]

    def clock(self) -> float:
        """Seconds of CPU, as if nothing were shared."""
        return time.process_time() + self.reused

    def inside(self, k: int) -> list[int]:
        """Return the sequences to train on when fold k is left out."""
        return [i for i, own in enumerate(self.fold) if own != k]

    def outside(self, k: int) -> list[int]:
        """Return the sequences of fold k."""
        return [i for i, own in enumerate(self.fold) if own == k]

    def some(self, which: Sequence[int] | None, pair: Pair) -> Arrays:
        """Take some of the training sequences, or those of the test part."""
        return pair.test if which is None else [pair.train[i] for i in which]


# The closed loop.


@dataclass(frozen=True)
class Loop:
    """The filter from f's outputs to actions: unit gain at rest, real or complex poles."""

    poles: tuple[complex, ...]

    @classmethod
    def of(cls, lag: float, shares: Sequence[complex] = (1 / 3, 1 / 3, 1 / 3)) -> Loop:
        """Make a loop that lags by `lag` frames at rest, each pole by a share; equal shares are critically damped."""
        return cls(tuple(lag * s / (1 + lag * s) for s in shares))

    @property
    def order(self) -> int:
        """How many past actions it needs."""
        return len(self.poles)

    @property
    def taps(self) -> Any:
        """The inverse filter: z_t = sum_j taps_j a_{t-j}."""
        taps = np.real(np.poly(self.poles))
        return taps / taps.sum()

    def roll(self, z: Any, expert: Any) -> Any:
        """Act on z (T, k) after the expert's first frames."""
        q, taps, out = self.order, self.taps, expert.copy()
        for j in range(expert.shape[1]):
            state = lfiltic([1.0], taps, expert[:q, j][::-1])
            out[q:, j] = lfilter([1.0], taps, z[q:, j], zi=state)[0]
        return out

    def rolled(self, outputs: Pair, case: Case) -> Pair:
        """Act on all sequences."""
        sides = (outputs.train, case.actions.train), (outputs.test, case.actions.test)
        return Pair(*([self.roll(z, a) for z, a in zip(*side, strict=True)] for side in sides))

    def forced(self, z: Any) -> Any:
        """Act on z from rest, after the frames that the expert starts."""
        return lfilter([1.0], self.taps, z[self.order :], axis=0)

    def asked(self, expert: Any) -> Any:
        """Return what f has to add to the roll-out with f = 0, after the frames that the expert starts."""
        return (expert - self.roll(np.zeros_like(expert), expert))[self.order :]

    def compensated(self, expert: Any, mu: float = 0.1) -> Any:
        """Return z = argmin ||G z + i - a*||^2 + mu ||z - a*||^2, as `simile.CompensatedFeedback` does."""
        q, n = self.order, len(expert) - self.order
        A = sparse.diags(self.taps, -np.arange(q + 1), shape=(n, n), format="csc")
        y = spsolve((sparse.eye(n) + mu * A.T @ A).tocsc(), self.asked(expert) + mu * (A.T @ expert[q:]))
        return np.concatenate([expert[:q], A @ y.reshape(n, -1)])


# Parts: f's outputs, out of fold and on the test sequences.


def cross_fit(case: Case, fit: Fit, labels: Arrays) -> Pair:
    """Fit K times and once more."""
    train: Arrays = [None] * len(labels)
    for k in sorted(set(case.fold)):
        f = fit(case.inside(k), [labels[i] for i in case.inside(k)])
        for i, z in zip(case.outside(k), f(case.outside(k)), strict=True):
            train[i] = z
    return Pair(train, fit(range(len(labels)), labels)(None))


def states(case: Case, which: Sequence[int] | None, horizon: Any, contexts: Pair) -> Any:
    """Lay contexts on a tape, once, so that its bins are kept too."""
    key = ("tape", id(contexts), None if which is None else tuple(which))
    if key not in case.memo:
        parts = case.some(which, contexts)
        case.memo[key] = Tape.of(parts, [np.zeros((len(x), 1)) for x in parts]), 0.0
    return case.memo[key][0].states(horizon)


def cut(stacked: Any, parts: Arrays) -> Arrays:
    """Cut one array into sequences."""
    return np.split(stacked, np.cumsum([len(p) for p in parts])[:-1])


def forest(
    case: Case,
    labels: Arrays,
    recipe: Any = FOREST,
    lags: Any = AUTO,
    contexts: Pair | None = None,
    weights: Arrays | None = None,
    seed: int = 0,
) -> Pair:
    """Fit our forest."""
    seen, horizon = contexts or case.contexts, simile.Horizon(lags, 0)

    def fit(which: Any, own: Arrays) -> Any:
        y = np.concatenate(own)
        w = None if weights is None else np.concatenate([weights[i] for i in which])
        rng = np.random.default_rng(seed)
        f = recipe.fit_smooth([states(case, which, horizon, seen)], y, y, y, 0.0, rng, weights=w)
        return lambda at: cut(f.predict(states(case, at, horizon, seen).matrix()), case.some(at, seen))

    return cross_fit(case, fit, labels)


def foreign(case: Case, labels: Arrays, make: Callable[[], Any]) -> Pair:
    """Fit any regressor with scikit-learn's interface, one for each action."""
    horizon = simile.Horizon(AUTO, 0)

    def fit(which: Any, own: Arrays) -> Any:
        S, Y = states(case, which, horizon, case.contexts).matrix(), np.concatenate(own)
        fs = [make().fit(S, y) for y in Y.T]

        def predict(at: Any) -> Arrays:
            S = states(case, at, horizon, case.contexts).matrix()
            return cut(np.stack([f.predict(S) for f in fs], 1), case.some(at, case.contexts))

        return predict

    return cross_fit(case, fit, labels)


def boosted(case: Case, loop: Loop, leaf: int, n: int = 60, rate: float = 0.1, through: bool = False) -> Pair:
    """Boost trees on the targets, or on the gradient of the roll-out's error, with a line search through the loop."""
    horizon, recipe, q = simile.Horizon(AUTO, 0), replace(FOREST, n_trees=1, min_leaf=leaf), loop.order

    def forced(z: Any, own: Arrays) -> Any:
        return np.concatenate([np.concatenate([0 * p[:q], loop.forced(p)]) for p in cut(z, own)])

    def fit(which: Any, own: Arrays) -> Any:
        view, y, rng, grown = (
            states(case, which, horizon, case.contexts),
            np.concatenate(own),
            np.random.default_rng(0),
            [],
        )
        S, z = view.matrix(), np.zeros_like(y)
        for _ in range(n):
            left = y - (forced(z, own) if through else z)
            pull = np.concatenate([forced(p[::-1], [p])[::-1] for p in cut(left, own)]) if through else left
            f = recipe.fit_smooth([view], pull, pull, pull, 0.0, rng)
            move, size = f.predict(S), rate
            if through:
                moved = forced(move, own)
                size *= float((moved * left).sum() / max((moved * moved).sum(), 1e-12))
            z += size * move
            grown.append((size, f))

        def predict(at: Any) -> Arrays:
            S = states(case, at, horizon, case.contexts).matrix()
            return cut(sum(size * f.predict(S) for size, f in grown), case.some(at, case.contexts))

        return predict

    if not through:
        return cross_fit(case, fit, [loop.compensated(a) for a in case.actions.train])
    asked = [np.concatenate([0 * a[:q], loop.asked(a)]) for a in case.actions.train]
    return cross_fit(case, fit, asked)


def lagged(case: Case, contexts: Pair, lags: Any) -> Pair:
    """Build the lag matrices of all sequences."""
    horizon = simile.Horizon(lags, 0)
    return Pair(
        [states(case, [i], horizon, contexts).matrix() for i in range(len(contexts.train))],
        cut(states(case, None, horizon, contexts).matrix(), contexts.test),
    )


def hinges(case: Case) -> Pair:
    """Make max(x - knot, 0) of every context, knots at quantiles."""
    shares = (0.15, 0.3, 0.5, 0.7, 0.85) if case.contexts.test[0].shape[1] <= 10 else (0.25, 0.5, 0.75)
    knots = np.nanquantile(np.concatenate(case.contexts.train), shares, axis=0)
    sides = case.contexts.train, case.contexts.test
    return Pair(*([np.concatenate([np.maximum(x - k, 0) for k in knots], 1) for x in side] for side in sides))


def averages(case: Case) -> Pair:
    """Make moving averages of every context over windows that double, beside the present."""

    def of(x: Any) -> Any:
        t, known = np.arange(1, len(x) + 1), np.isfinite(x)
        totals = [np.concatenate([np.zeros((1, x.shape[1])), np.cumsum(v, 0)]) for v in (np.where(known, x, 0), known)]
        columns = [x]
        for window in (2, 4, 8, 16, 32, 64):
            value, count = (v[t] - v[np.maximum(t - window, 0)] for v in totals)
            columns.append(np.where(count > 0, value / np.maximum(count, 1), np.nan))
        return np.concatenate(columns, 1)

    return Pair([of(x) for x in case.contexts.train], [of(x) for x in case.contexts.test])


def standard(features: Pair) -> Pair:
    """Standardise columns, what is missing to their means, and add one of ones."""
    rows = np.concatenate(features.train)
    middle, spread = np.nanmean(rows, 0), np.nanstd(rows, 0)
    spread = np.where(spread > 1e-9 * np.abs(middle) + 1e-12, spread, 1.0)
    sides = features.train, features.test
    return Pair(*([np.c_[np.nan_to_num((m - middle) / spread), np.ones(len(m))] for m in side] for side in sides))


def beside(left: Pair, right: Pair) -> Pair:
    """Put columns beside columns."""
    sides = (left.train, right.train), (left.test, right.test)
    return Pair(*([np.c_[a, b] for a, b in zip(*side, strict=True)] for side in sides))


def linear(case: Case, kind: str = "lags", lags: Any = AUTO) -> Pair:
    """Make the features of a ridge, once for all smoothness."""

    def make() -> Pair:
        if kind == "averages":
            return standard(averages(case))
        plain = lagged(case, case.contexts, lags)
        if kind == "hinges":
            few = case.contexts.test[0].shape[1] <= 10
            sparse_lags = tuple(g for g in ((0, 2, 4, 8, 16, 32, 64) if few else (0, 8)) if g <= np.max(lags))
            return standard(beside(plain, lagged(case, case.once("hinges", lambda: hinges(case)), sparse_lags)))
        if kind == "fourier":
            plain, rng = standard(plain), np.random.default_rng(0)
            rows = np.concatenate(plain.train)[:, :-1]
            few = rows[rng.choice(len(rows), 300)]
            width = np.sqrt(np.median(((few[:, None] - few) ** 2).sum(-1)))
            W, b = rng.normal(size=(rows.shape[1], 300)) / width, rng.uniform(0, 2 * np.pi, 300)
            sides = plain.train, plain.test
            return Pair(*([np.c_[m[:, :-1], 6 * np.cos(m[:, :-1] @ W + b), m[:, -1:]] for m in s] for s in sides))
        return standard(plain)

    return case.once(("features", kind, lags), make)


def ridge(
    case: Case, loop: Loop, features: Pair, gamma: float, experts: Arrays | None = None, weights: Arrays | None = None
) -> Pair:
    """Fit a ridge through the roll-out, with gamma on second differences of what it adds; alpha by cross-validation."""
    grams, sides, rows = [], [], []
    for i, (m, a) in enumerate(zip(features.train, experts or case.actions.train, strict=True)):
        Z, y = loop.forced(m), loop.asked(a)
        w = np.ones(len(Z)) if weights is None else weights[i][loop.order :]
        rough = np.diff(Z, 2, axis=0)
        grams.append((Z * w[:, None]).T @ Z + gamma * rough.T @ rough)
        sides.append((Z * w[:, None]).T @ y)
        rows.append(len(Z))

    def solved(which: Sequence[int], alpha: float) -> Any:
        n, gram = sum(rows[i] for i in which), sum(grams[i] for i in which)
        penalty = np.full(len(gram), (alpha + 1e-9) * n)
        penalty[-1] = 1e-9 * n  # the intercept is free
        return np.linalg.solve(gram + np.diag(penalty), sum(sides[i] for i in which))

    found = []
    for alpha in ALPHAS:
        train: Arrays = [None] * len(rows)
        for k in sorted(set(case.fold)):
            w = solved(case.inside(k), alpha)
            for i in case.outside(k):
                train[i] = features.train[i] @ w
        acted = [loop.roll(z, a) for z, a in zip(train, case.actions.train, strict=True)]
        found.append((error(acted, case.actions.train), alpha, train))
    _, alpha, train = min(found, key=lambda f: f[0])
    w = solved(range(len(rows)), alpha)
    return Pair(train, [m @ w for m in features.test])


def error(acted: Arrays, experts: Arrays) -> float:
    """Return the mean squared error after the first ten frames."""
    return float(np.mean(np.concatenate([((a - b)[SCORED_AFTER:]) ** 2 for a, b in zip(acted, experts, strict=True)])))


# Mixing: which weights, chosen on out-of-fold roll-outs.


def mixed(parts: Sequence[Pair], weights: Any) -> Pair:
    """Interpolate policies; weights (parts,) or (parts, k)."""
    return Pair(
        *(
            [sum(w * z for w, z in zip(weights, zs, strict=True)) for zs in zip(*side, strict=True)]
            for side in ([p.train for p in parts], [p.test for p in parts])
        )
    )


def to_mix(case: Case, loop: Loop, parts: Sequence[Pair], gamma: float) -> tuple[Arrays, Any]:
    """Return the out-of-fold actions of each policy and the expert's, and below them second differences and zeros."""

    def with_bends(paths: Arrays, keep: float) -> Any:
        bends = [keep * np.sqrt(gamma) * np.diff(a, 2, axis=0) for a in paths] if gamma else []
        return np.concatenate([*paths, *bends])

    return [with_bends(loop.rolled(p, case).train, 1.0) for p in parts], with_bends(case.actions.train, 0.0)


def greedy(
    case: Case, loop: Loop, parts: Sequence[Pair], gamma: float = 0.0, passes: int = 1, each: bool = False
) -> Pair:
    """Go from the first policy towards each of the others, as far as a line search says and if it pays (line 10)."""
    acted, y = to_mix(case, loop, parts, gamma)
    weights = np.zeros((len(parts), y.shape[1]))
    weights[0] = 1.0
    for dims in [[j] for j in range(y.shape[1])] if each else [list(range(y.shape[1]))]:
        now = acted[0][:, dims]
        for turn in range(passes):
            for i in range(0 if turn else 1, len(parts)):
                way, left = acted[i][:, dims] - now, y[:, dims] - now
                beta = float(np.clip((way * left).sum() / max((way * way).sum(), 1e-12), 0.0, 1.0))
                if np.mean((left - beta * way) ** 2) < (1 - GATE) * np.mean(left**2):
                    weights[:, dims] *= 1 - beta
                    weights[i, dims] += beta
                    now = now + beta * way
    return mixed(parts, weights)


def joint(case: Case, loop: Loop, parts: Sequence[Pair], gamma: float = 0.0) -> Pair:
    """Find convex weights for all policies at once."""
    acted, y = to_mix(case, loop, parts, gamma)
    heavy = 1e3 * np.sqrt(y.size)  # holds the sum to one
    M = np.r_[np.stack([a.ravel() for a in acted], 1), np.full((1, len(parts)), heavy)]
    weights = nnls(M, np.r_[y.ravel(), heavy])[0]
    return mixed(parts, weights / weights.sum())
