"""What `search.py` measures: the recipe of `learn`, and every other way to a smooth policy that we could think of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from parts import (
    AHEAD,
    AUTO,
    FOREST,
    Arrays,
    Case,
    Loop,
    Pair,
    Variant,
    averages,
    cross_fit,
    error,
    forest,
    greedy,
    linear,
    ridge,
)
from scipy.ndimage import gaussian_filter1d, uniform_filter1d

import simile

# The recipe, and what else was tried: each variant makes the trajectories of one case at one lag.


def targets(case: Case, loop: Loop) -> Arrays:
    """Return the compensated targets."""
    return case.once(("targets", loop), lambda: [loop.compensated(a) for a in case.actions.train])


def own_forest(case: Case, loop: Loop, **changes: Any) -> Pair:
    """Return the recipe's forest, or one with changes."""
    return case.once(("forest", loop, repr(changes)), lambda: forest(case, targets(case, loop), **changes))


def own_ridge(case: Case, lag: float, kind: str, loop: Loop, gamma: float = 0.1, lags: Any = AUTO) -> Pair:
    """Return one of the recipe's ridges, or one with changes."""
    key = ("ridge", kind, loop, gamma, lags)
    return case.once(key, lambda: ridge(case, loop, linear(case, kind, lags), gamma * lag**4))


def ridges(case: Case, lag: float, loop: Loop | None = None, **changes: Any) -> list[Pair]:
    """Return the recipe's ridge and the one with hinges."""
    return [own_ridge(case, lag, kind, loop or Loop.of(lag), **changes) for kind in ("lags", "hinges")]


def recipe(case: Case, lag: float) -> Pair:
    """Return what `learn` does: forest, ridge and hinges, mixed by line searches; f's outputs."""
    loop = Loop.of(lag)
    return case.once(("recipe", lag), lambda: greedy(case, loop, [own_forest(case, loop), *ridges(case, lag)]))


def stack(first: Callable[[Case, Loop], Pair] = own_forest, shares: Any = (1 / 3,) * 3, **kind: Any) -> Variant:
    """Put another f in the forest's place, or another loop."""

    def run(case: Case, lag: float) -> Pair:
        loop = Loop.of(lag, shares)
        return loop.rolled(greedy(case, loop, [first(case, loop), *ridges(case, lag, loop, **kind)]), case)

    return run


def alone(*kinds: str) -> Variant:
    """Keep some of "forest", ridge on "lags" and ridge with "hinges"."""

    def run(case: Case, lag: float) -> Pair:
        loop = Loop.of(lag)
        parts = [own_forest(case, loop) if k == "forest" else own_ridge(case, lag, k, loop) for k in kinds]
        return loop.rolled(greedy(case, loop, parts), case)

    return run


def weighed(
    how: Callable[..., Pair], bend: float = 0.0, ridge_gamma: float = 0.1, turned: bool = False, **kind: Any
) -> Variant:
    """Mix the recipe's parts in another way; `bend` prices second differences as gamma does in the ridges."""

    def run(case: Case, lag: float) -> Pair:
        loop = Loop.of(lag)
        parts = [own_forest(case, loop), *ridges(case, lag, gamma=ridge_gamma)[:: -1 if turned else 1]]
        return loop.rolled(how(case, loop, parts, gamma=bend * lag**4, **kind), case)

    return run


def added(more: Callable[[Case, Loop, float], list[Pair]]) -> Variant:
    """Mix further policies in."""

    def run(case: Case, lag: float) -> Pair:
        loop = Loop.of(lag)
        parts = [own_forest(case, loop), *ridges(case, lag), *more(case, loop, lag)]
        return loop.rolled(greedy(case, loop, parts), case)

    return run


def look(order: int, forest_recipe: Any, lags: Any, with_ridges: bool = False) -> Variant:
    """Predict the action some frames ahead, the best for this lag out of fold, then filter."""

    def ahead(case: Case, d: int) -> Pair:
        labels = [np.concatenate([a[d:], np.repeat(a[-1:], min(d, len(a)), 0)]) for a in case.actions.train]
        return forest(case, labels, forest_recipe, lags)

    def run(case: Case, lag: float) -> Pair:
        loop = Loop.of(lag, (1 / order,) * order)
        outputs = [case.once(("look", repr(forest_recipe), lags, d), lambda d=d: ahead(case, d)) for d in AHEAD]
        best = min(outputs, key=lambda o: error(loop.rolled(o, case).train, case.actions.train))
        return loop.rolled(greedy(case, loop, [best, *ridges(case, lag)]) if with_ridges else best, case)

    return run


def preview(case: Case, lag: float) -> Pair:
    """Predict several horizons; the next action is the first of a quadratic plan through them: a linear map, too."""
    ahead = sorted({round(case.lags[-1] * share) for share in (0.0, 0.1, 0.25, 0.5, 0.9, 1.4)})
    k, n = case.actions.test[0].shape[1], ahead[-1] + 1

    def make() -> Pair:
        labels = [
            np.concatenate([a[np.minimum(np.arange(len(a)) + d, len(a) - 1)] for d in ahead], 1)
            for a in case.actions.train
        ]
        return forest(case, labels)

    outputs = case.once("preview", make)
    trust = np.gradient(np.array(ahead, float)) if len(ahead) > 1 else np.ones(1)
    pick = np.zeros((len(ahead), n))
    pick[np.arange(len(ahead)), ahead] = 1.0
    bend = np.diff(np.eye(n + 2), 2, axis=0)  # of the two past actions, then the plan
    past, plan, weight = bend[:, :2], bend[:, 2:], (lag / np.sqrt(2)) ** 4
    H = pick.T @ (trust[:, None] * pick) + weight * plan.T @ plan
    gain = np.linalg.solve(H, pick.T * trust)[0]  # of each horizon
    back = -np.linalg.solve(H, weight * plan.T @ past)[0]  # of a_{t-2}, a_{t-1}
    loop = Loop(tuple(np.roots([1.0, -back[1], -back[0]])))
    sides = outputs.train, outputs.test
    z = Pair(*([sum(g * o[:, j * k : (j + 1) * k] for j, g in enumerate(gain / gain.sum())) for o in s] for s in sides))
    return loop.rolled(greedy(case, loop, [z, *ridges(case, lag, loop)]), case)


def roll_in(case: Case, lag: float) -> Pair:
    """Let f see past actions and train it on its own roll-outs: Algorithm 1, compensated feedback, three rounds."""
    sides = [
        zip(c, a, strict=True) for c, a in zip(vars(case.contexts).values(), vars(case.actions).values(), strict=True)
    ]
    train, test = ([simile.Demonstration(contexts=x, actions=a, rate=1.0) for x, a in side] for side in sides)
    damped = simile.CriticallyDamped(order=3)

    def fit(which: Any, labels: Arrays) -> Any:  # noqa: ARG001
        run = simile.authors(
            simile.Demonstrations(tuple(train[i] for i in which)),
            model=FOREST,
            regularizer=damped,
            smoothness=damped.smoothness_for(lag),
            horizon=simile.Horizon(AUTO, (1, 2, 4)),
            feedback=simile.CompensatedFeedback(),
            n_rounds=3,
            validation=0.2,
        )
        own = lambda at: simile.Demonstrations(tuple(test if at is None else [train[i] for i in at]))  # noqa: E731
        return lambda at: simile.rollout(run.policy, own(at))

    return cross_fit(case, fit, case.actions.train)


def held(paths: Pair, threshold: float) -> Pair:
    """Hold the action until it would move by more than a threshold."""

    def of(path: Any) -> Any:
        out = path.copy()
        for t in range(1, len(out)):
            out[t] = np.where(np.abs(path[t] - out[t - 1]) > threshold, path[t], out[t - 1])
        return out

    return Pair([of(p) for p in paths.train], [of(p) for p in paths.test])


def dead_zone(threshold: float, behind: bool) -> Variant:
    """Put a dead zone behind the filter, or in front of it."""

    def run(case: Case, lag: float) -> Pair:
        loop, z = Loop.of(lag), recipe(case, lag)
        return held(loop.rolled(z, case), threshold) if behind else loop.rolled(held(z, threshold), case)

    return run


def zero_phase(share: float) -> Variant:
    """Fit all parts to the expert smoothed forwards and backwards."""

    def run(case: Case, lag: float) -> Pair:
        loop = Loop.of(lag)
        smooth = [gaussian_filter1d(a, share * lag, axis=0, mode="nearest") for a in case.actions.train]
        parts = [forest(case, [loop.compensated(a) for a in smooth])]
        parts += [ridge(case, loop, linear(case, kind), 0.1 * lag**4, smooth) for kind in ("lags", "hinges")]
        return loop.rolled(greedy(case, loop, parts), case)

    return run


def trusted(case: Case, lag: float) -> Pair:
    """Weigh frames by the inverse of the local variance of the recipe's out-of-fold residuals."""
    loop, weights = Loop.of(lag), []
    acted = loop.rolled(recipe(case, lag), case).train
    overall = error(acted, case.actions.train)
    for a, b in zip(acted, case.actions.train, strict=True):
        local = uniform_filter1d(((a - b) ** 2).mean(1), 25 + 2 * int(2 * lag), mode="nearest")
        weights.append(np.clip(overall / (local + 0.1 * overall), 0.25, 4.0))
    middle = np.concatenate(weights).mean()
    weights = [w / middle for w in weights]
    parts = [forest(case, targets(case, loop), weights=weights)]
    parts += [ridge(case, loop, linear(case, k), 0.1 * lag**4, weights=weights) for k in ("lags", "hinges")]
    return loop.rolled(greedy(case, loop, parts), case)


def averaged(case: Case, lag: float) -> Pair:
    """Give forest and ridges moving averages of the contexts instead of point lags."""
    loop = Loop.of(lag)
    seen = case.once("averages", lambda: averages(case))
    parts = [forest(case, targets(case, loop), lags=0, contexts=seen)]
    parts += [ridge(case, loop, linear(case, "averages"), 0.1 * lag**4), own_ridge(case, lag, "hinges", loop)]
    return loop.rolled(greedy(case, loop, parts), case)


def fourier(case: Case, loop: Loop, lag: float) -> list[Pair]:
    """Make a ridge on random Fourier features."""
    return [ridge(case, loop, linear(case, "fourier"), 0.1 * lag**4)]


def sklearn_boosting() -> Any:
    """Make scikit-learn's gradient boosting."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(
        max_iter=80, learning_rate=0.08, max_leaf_nodes=16, min_samples_leaf=100, max_features=0.2, random_state=0
    )


def lightgbm_boosting() -> Any:
    """Make LightGBM's."""
    import lightgbm

    return lightgbm.LGBMRegressor(
        n_estimators=120, learning_rate=0.05, num_leaves=16, min_child_samples=100, colsample_bytree=0.2,
        subsample=0.6, subsample_freq=1, n_jobs=1, verbosity=-1, random_state=0,
    )  # fmt: skip


def other(**changes: Any) -> Callable[[Case, Loop], Pair]:
    """Change the forest's recipe."""
    return lambda case, loop: own_forest(case, loop, recipe=replace(FOREST, **changes))
