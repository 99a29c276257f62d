"""What `learn` asks before it answers: whether something simpler does better.

Simple rivals, a predictor and a filter behind it, are judged as the policy is: by roll-outs of sequences that they have
not seen, at no more roughness than the policy was allowed.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np

from simile._common.typing import FloatArray, Trajectories
from simile.data.demonstrations import Demonstrations
from simile.data.recorded import ActionSpace, Recorded, Units
from simile.data.reference import sum_errors
from simile.data.states import Horizon, States
from simile.errors import ArgumentError
from simile.learning.bands import fit_band
from simile.learning.crossfit import roll_out
from simile.learning.folds import Folds, states_of
from simile.learning.problem import Course, judge, teach, teach_rollouts
from simile.learning.rounds import Round, card_of, note_band
from simile.learning.training import Lesson
from simile.metrics import Score, hold_last_action
from simile.models import Forest, Model, PiecewiseLinear, SmoothForest
from simile.models.closed_loop import ClosedLoop
from simile.models.regularizers import Autoregressor, CriticallyDamped, PreviousAction
from simile.models.ridge import RolloutRidge
from simile.policies.bands import Band
from simile.policies.policies import Policy, SmoothPolicy

MARGIN = 1.01  # ratio of RMSE from which a rival is better than by chance
AHEAD = (0, 4, 16)  # frames that a forest looks ahead
TREES = SmoothForest(n_trees=16, max_depth=None, min_leaf=10, max_frames=250_000)
AVERAGE, FOLLOWER = "an exponential average", "a critically damped follower"
FILTERS: dict[str, PreviousAction | CriticallyDamped] = {
    AVERAGE: PreviousAction(),
    FOLLOWER: CriticallyDamped(order=2),
}
STRENGTHS = (0.0, *np.geomspace(0.5, 5000.0, 11).tolist())
FOREVER = 1e9  # a lambda at which h(a) = a holds its action


@dataclass(frozen=True, eq=False)
class RivalData:
    """What rivals are fitted to, and how."""

    demos: Recorded  # in the user's units
    horizon: Horizon
    space: ActionSpace
    seed: int

    @cached_property
    def units(self) -> Units:
        """Of the policies."""
        return Units.of(self.demos)

    @cached_property
    def standard(self) -> Recorded:
        """The demonstrations in standard units."""
        return self.demos.standardize(self.units)

    def grow(self, demos: Recorded, frames: Sequence[int], *, here: bool = True) -> Any:
        """Fit a forest that looks ahead; one that is not wanted here may stay where the demonstrations are."""
        course = Course(_look_ahead, self.horizon, (frames,))
        return teach(demos, TREES, course, np.random.default_rng(self.seed), here=here)


@dataclass(frozen=True, eq=False)
class SimpleRival:
    """A simple policy, and how it does.

    Attributes
    ----------
    predictor, filter : str
        What it consists of; the action is held where there is no filter.
    score : Score
        Of roll-outs over sequences that were left out.
    smooth_enough : bool
        Whether it is within the budget of roughness.
    squares : array
        Of the errors, summed over each of those sequences.
    seconds : float
        CPU time that it took to tune them all.
    band : Band, optional
        How far the expert is from those roll-outs; that of the most accurate one alone, and of none that holds.
    """

    predictor: str
    filter: str
    score: Score
    smooth_enough: bool
    squares: FloatArray
    h: Autoregressor
    smoothness: float
    data: RivalData | None  # None once it was stored: demonstrations are not part of a run
    model: Model | int  # fitted, or how many frames ahead a forest is to look
    seconds: float = 0.0
    band: Band | None = None

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.predictor} behind {self.filter}" if self.filter else self.predictor

    @property
    def known_data(self) -> RivalData:
        """What it is fitted to; refused once it was stored."""
        if self.data is None:
            raise ArgumentError(
                f"rivals: {self.name} was not fitted when its run was stored: ask for its policy before"
            )
        return self.data

    @cached_property
    def policy(self) -> Policy:
        """The policy itself, fitted to all demonstrations when it is first asked for."""
        source = self.known_data
        f = source.grow(source.standard, (self.model,)) if isinstance(self.model, int) else self.model
        policy = SmoothPolicy(f, self.h, self.smoothness, source.horizon, None, source.demos.n_contexts)
        said = {"rival": self.name, "smoothness": self.smoothness, "horizon": source.horizon, "seed": source.seed}
        return policy.in_units(source.units, source.space, note_band(card_of(source.demos, said), self.band))

    def as_round(self, number: int, score: Score) -> Round:
        """Return the policy as a round of its own, which takes the place of what was learned; `score` is why."""
        demos = self.known_data.demos
        outcome = judge(demos, self.policy)
        return Round(
            number=number,
            policy=self.policy,
            trained=self.policy,
            h=self.h,
            targets=list(demos.actions) if isinstance(demos, Demonstrations) else [],
            rolled=demos.show(outcome.rolled),
            beta=1.0,
            sigma=math.nan,
            error=outcome.error,
            roughness=outcome.roughness,
            radius=self.h.radius(self.smoothness),
            diverged=outcome.diverged,
            validation_error=score.error,
            validation_roughness=score.roughness,
            unseen=self.squares,
            band=self.band,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "data": None}


def simple_rivals(
    demos: Recorded, horizon: Horizon, *, budget: float, order: int = 2, space: ActionSpace, seed: int
) -> tuple[SimpleRival, ...]:
    """Tune what an engineer would try first: hold the last action, or predict and filter; none for too few frames.

    Parameters
    ----------
    demos : Recorded
        In the user's units.
    horizon : Horizon
        What the predictors see.
    budget : float
        Largest roughness allowed; where none is as smooth, the smoothest of each kind stands for it.
    order : int
        Of the differences that roughness is measured by.

    Returns
    -------
    tuple of SimpleRival
        The one that holds the last action, then for every predictor one behind each kind of filter.
    """
    begun = time.process_time()
    source = RivalData(demos, horizon, space, seed)
    folds, nothing = Folds.of(source.standard), [np.empty((0, demos.n_actions))]  # these h look at no trajectories
    if len(folds) == 1:
        return ()
    begin = max(horizon.lead, *(f.fit(nothing, 1.0).order for f in FILTERS.values()))
    still = folds.demos.map(_hold_last, shared=(begin,))
    sums, h = sum_errors(folds.demos, still, begin=begin, order=order), PreviousAction().fit(nothing, FOREVER)
    held, squares = Score(sums.score.error, 0.0), sums.squares.sum(axis=1)
    mean = PiecewiseLinear.constant(np.zeros(demos.n_actions), horizon, demos.n_contexts)
    found = [SimpleRival("holding the last action", "", held, True, squares, h, FOREVER, source, mean)]
    says: dict[str, Any] = {}
    for predictor, said, model in _predictors(source, folds):
        says[predictor] = said
        rivals = []
        for kind, strength in itertools.product(FILTERS, STRENGTHS):
            h = FILTERS[kind].fit(nothing, strength)
            sums = sum_errors(
                folds.demos, roll_out(ClosedLoop.of(h, strength), said, folds.demos), begin=begin, order=order
            )
            score, squares = sums.score, sums.squares.sum(axis=1)
            smooth = not score.roughness > budget
            rivals.append(SimpleRival(predictor, kind, score, smooth, squares, h, strength, source, model))
        found += [best_of(r for r in rivals if r.filter == kind) for kind in FILTERS]
    best_known, banded = most_accurate(found), None
    if best_known.predictor in says:
        loop = ClosedLoop.of(best_known.h, best_known.smoothness)
        rolled = roll_out(loop, says[best_known.predictor], folds.demos)
        banded = fit_band(folds, ((1.0, says[best_known.predictor]),), rolled, rolled, loop, horizon.lead)
    spent = time.process_time() - begun if isinstance(demos, Demonstrations) else math.nan  # by others
    return tuple(replace(r, seconds=spent, band=banded if r is best_known else None) for r in found)


def best_of(rivals: Iterable[SimpleRival]) -> SimpleRival:
    """Return the most accurate of those that are smooth enough; where none is, the smoothest."""
    some = list(rivals)
    smooth = [r for r in some if r.smooth_enough]
    return min(smooth, key=lambda r: r.score.error) if smooth else min(some, key=lambda r: r.score.roughness)


def most_accurate(rivals: Sequence[SimpleRival]) -> SimpleRival:
    """Return the most accurate rival, every predictor behind the better of its filters."""
    best = [best_of(some) for _, some in groupby(rivals, key=lambda r: r.predictor)]
    return min(best, key=lambda r: r.score.error)


def _predictors(source: RivalData, folds: Folds) -> Iterator[tuple[str, Any, Model | int]]:
    """Yield name, what fits say in the fold they have not seen, and the fit to all or how far a forest looks ahead."""
    k = source.demos.n_actions
    still = ClosedLoop(np.ones((1, k)))  # no filter, so that the ridge is an ordinary one
    ((line, said),) = teach_rollouts(folds.demos, RolloutRidge(), source.horizon, [still], folds.fold)
    yield "a ridge", said, line
    told = folds.predict_unseen(lambda some: source.grow(some, AHEAD, here=False), source.horizon)
    for i, d in enumerate(AHEAD):
        says = folds.demos.map(_columns, told, shared=(slice(i * k, (i + 1) * k),))
        yield f"a forest that looks {d} frames ahead" if d else "a forest", says, d


# What runs where a part is.


def _hold_last(demos: Demonstrations, begin: int) -> list[FloatArray]:
    return [hold_last_action(a, warm_up=begin) for a in demos.actions]


def _columns(_: Demonstrations, told: FloatArray, some: slice) -> FloatArray:
    return told[:, some]


def _look_ahead(demos: Demonstrations, horizon: Horizon, frames: Sequence[int]) -> Lesson:
    labels = label_ahead(demos.actions, frames)
    weights = None if demos.weights is None else np.concatenate(demos.weights)
    return Lesson(states_of(demos, horizon), labels, labels, weights)


def fit_ahead(
    model: SmoothForest,
    states: States,
    actions: Trajectories,
    frames: Sequence[int],
    seed: int,
    *,
    weights: FloatArray | None = None,
) -> Forest:
    """Fit a forest to the actions (standard units) of so many frames later, all side by side in its leaves."""
    labels = label_ahead(actions, frames)
    return model.fit_smooth([states], labels, labels, labels, 0.0, np.random.default_rng(seed), weights=weights)


def label_ahead(actions: Trajectories, frames: Sequence[int]) -> FloatArray:
    """Return the actions of so many frames later side by side, (n, any)."""
    return np.concatenate([np.concatenate([ahead(a, d) for d in frames], axis=1) for a in actions])


def ahead(actions: FloatArray, frames: int) -> FloatArray:
    """Return the actions (T, k) of so many frames later; the last one lasts."""
    return actions[np.minimum(np.arange(len(actions)) + frames, len(actions) - 1)]
