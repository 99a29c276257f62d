"""What `learn` asks before it answers: whether something simpler does better.

Rivals are judged as the policy is: by roll-outs of sequences that they have not seen, at no more roughness than the
policy was allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from simile._common.typing import FloatArray
from simile.data.demonstrations import ActionSpace, Demonstrations, Units
from simile.data.losses import hold_last_action
from simile.data.states import Horizon
from simile.learning.crossfit import rolled_out
from simile.learning.folds import Folds, states_of
from simile.learning.measures import Ruler
from simile.learning.reduction import card_of
from simile.models import Forest, Model, PiecewiseLinear, SmoothForest
from simile.models.closed_loop import ClosedLoop
from simile.models.forest import layout
from simile.models.regularizers import Autoregressor, CriticallyDamped, PreviousAction
from simile.models.ridge import RolloutRidge
from simile.policies.policies import Policy, SmoothPolicy

MARGIN = 1.03  # ratio of RMSE from which a rival is worth telling of
AHEAD = (0, 4, 16)  # frames that a forest looks ahead
TREES = SmoothForest(n_trees=16, max_depth=None, min_leaf=10)
FILTERS: dict[str, PreviousAction | CriticallyDamped] = {
    "an exponential average": PreviousAction(),
    "a critically damped follower": CriticallyDamped(order=2),
}
STRENGTHS = (0.0, *np.geomspace(0.5, 5000.0, 11).tolist())
FOREVER = 1e9  # a lambda at which h(a) = a holds its action


@dataclass(frozen=True, eq=False)
class Rival:
    """A simple policy, and how it does: RMSE in standard units and roughness over the expert's."""

    name: str
    rmse: float
    roughness: float
    policy: Policy


def best_rival(
    demos: Demonstrations, horizon: Horizon, *, budget: float, order: int = 2, space: ActionSpace, seed: int
) -> Rival | None:
    """Return the most accurate of the simple policies within a budget of roughness; None where no frame can be spared.

    Parameters
    ----------
    demos : Demonstrations
        In the user's units.
    horizon : Horizon
        What the predictors see.
    budget : float
        Largest roughness allowed; where none is as smooth, the smoothest of each kind stands for it.
    order : int
        Of the differences that roughness is measured by.
    """
    units = Units.of(demos)
    standard = demos.with_actions([units.standardize(a) for a in demos.actions])
    folds = Folds.of(standard)
    if len(folds) == 1:
        return None
    begin = max(f.fit(standard.actions, 1.0).order for f in FILTERS.values())
    held = [hold_last_action(a, warm_up=begin) for a in folds.demos.actions]
    ruler = Ruler(folds.demos, begin=begin, order=order)
    name, error, rough = "holding the last action", ruler.measure(held).error, 0.0
    fit: Callable[[], Model] = partial(_nothing, standard, horizon)
    h, smoothness = PreviousAction().fit(standard.actions, FOREVER), FOREVER
    for predictor, said, refit in _predictors(standard, folds, horizon, seed):
        tried: list[tuple[float, float, str, Autoregressor, float]] = []
        for kind, filters in FILTERS.items():
            for strength in STRENGTHS:
                one = filters.fit(standard.actions, strength)
                score = ruler.measure(rolled_out(ClosedLoop.of(one, strength), said, folds.demos))
                tried.append((score.error, score.roughness, kind, one, strength))
        best = min([t for t in tried if not t[1] > budget] or [min(tried, key=lambda t: t[1])], key=lambda t: t[0])
        if best[0] < error:
            error, rough, kind, h, smoothness = best
            name, fit = f"{predictor} behind {kind}", refit
    policy = SmoothPolicy(fit(), h, smoothness, horizon, None, demos.n_contexts)
    card = card_of(demos, {"rival": name, "smoothness": smoothness, "horizon": horizon, "seed": seed})
    return Rival(name, math.sqrt(error), rough, policy.in_units(units, space, card))


def _predictors(
    demos: Demonstrations, folds: Folds, horizon: Horizon, seed: int
) -> Iterator[tuple[str, FloatArray, Callable[[], Model]]]:
    """Yield name, what fits say in the fold they have not seen, and how to fit to all demonstrations."""
    k = demos.n_actions
    still = ClosedLoop(np.ones((1, k)))  # no filter, so that the ridge is an ordinary one
    states, ridge = states_of(folds.demos, horizon), RolloutRidge()
    line, said = ridge.fit_rollout(states, folds.demos.actions, still, folds.fold)
    yield "a ridge", said, lambda: line

    def grown(some: Demonstrations, frames: tuple[int, ...]) -> Forest:
        labels = np.concatenate([np.concatenate([ahead(a, d) for d in frames], axis=1) for a in some.actions])
        rng = np.random.default_rng(seed)
        return TREES.fit_smooth([states_of(some, horizon)], labels, labels, labels, 0.0, rng)

    told = folds.unseen(lambda some: grown(some, AHEAD), horizon, k * len(AHEAD))
    for i, d in enumerate(AHEAD):
        name = f"a forest that looks {d} frames ahead" if d else "a forest"
        yield name, told[:, i * k : (i + 1) * k], partial(grown, demos, (d,))


def ahead(actions: FloatArray, frames: int) -> FloatArray:
    """Return the actions (T, k) of so many frames later; the last one lasts."""
    return actions[np.minimum(np.arange(len(actions)) + frames, len(actions) - 1)]


def _nothing(demos: Demonstrations, horizon: Horizon) -> PiecewiseLinear:
    """Return the f that always says the mean."""
    m, k = demos.n_contexts, demos.n_actions
    none = np.empty(0)
    columns, lags = layout(horizon, m, k)
    return PiecewiseLinear(none.astype(np.intp), none, none, np.empty((0, k)), np.zeros(k), columns, lags, m + k)
