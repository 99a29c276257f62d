"""The data of one seed, the runs made on them, and how roll-outs are scored; what all claims share."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from simile._common.typing import FloatArray, Trajectories
from simile.data.demonstrations import Demonstrations
from simile.data.losses import hold_last_action
from simile.data.states import Horizon, States
from simile.errors import DataError, DivergedError
from simile.experiments.statistics import Row
from simile.learning import algorithms
from simile.learning.algorithms import Run
from simile.learning.feedback import CompensatedFeedback
from simile.learning.reduction import Round
from simile.models import Model, SmoothForest
from simile.models.regularizers import CriticallyDamped
from simile.policies.policies import Policy
from simile.policies.rollouts import ExpertStart, rollout

# The expert acts for so many frames in every roll-out, and they are not scored: more than any policy here remembers,
# so that all are judged on the same frames.
WARM_UP = 12
SMOOTHNESS = 30.0  # lambda, of every run that is not about lambda
LOOK = Horizon(context_lags=(0, 1, 2, 4, 8, 12, 16, 24, 32), action_lags=0)
# Our own setting beside the paper's: f sees contexts alone, and its targets make up for the lag of h.
CONTEXTS_ALONE = {"horizon": LOOK, "regularizer": CriticallyDamped(3), "feedback": CompensatedFeedback()}


@dataclass(frozen=True)
class Effort:
    """How much to compute.

    Parameters
    ----------
    n_games, minutes
        Size of the simulated camera data; other sources have sizes of their own.
    n_trees : int
        Trees of the forest of each round.
    n_rounds : int
        Rounds of a run; some claims look at half and at twice as many, too.
    n_rollouts : int
        Roll-outs of each stochastic policy.
    """

    n_games: int = 12
    minutes: float = 0.5
    n_trees: int = 20
    n_rounds: int = 10
    n_rollouts: int = 50


FULL = Effort()
SMALL = Effort(n_games=3, minutes=0.15, n_trees=5, n_rounds=3, n_rollouts=5)


@dataclass(frozen=True)
class Training:
    """A run, and the CPU seconds of each of its rounds: all of it, and the fit of the forest alone."""

    run: Run
    seconds: tuple[float, ...]
    fit_seconds: tuple[float, ...]

    @property
    def policy(self) -> Policy:
        """The last policy, the paper's result."""
        return self.run.rounds[-1].policy

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds of the run."""
        return self.run.rounds


@dataclass(frozen=True, eq=False)
class Lab:
    """The data of one seed; a run is made once, however many claims look at it."""

    seed: int
    train: Demonstrations
    test: Demonstrations
    effort: Effort
    unit: str = ""  # of the actions, for the axes of pictures
    made: dict[str, Training] = field(default_factory=dict, repr=False)

    def run(self, reduction: str = "paper", **settings: Any) -> Training:
        """Run an algorithm by its name on the training part, with this seed's number of trees and rounds."""
        choices = {
            "n_rounds": self.effort.n_rounds,
            "smoothness": SMOOTHNESS,
            "model": self.forest(),
            "seed": self.seed,
            **settings,
        }
        key = repr((reduction, sorted(choices.items())))
        if key not in self.made:
            self.made[key] = _timed(reduction, self.train, choices)
        return self.made[key]

    def contexts_alone(self, **settings: Any) -> Training:
        """Run our own setting."""
        return self.run(**{**CONTEXTS_ALONE, **settings})

    def forest(self, **settings: Any) -> SmoothForest:
        """Make the recipe of this lab's forest."""
        return SmoothForest(n_trees=self.effort.n_trees, **settings)

    def score(self, policy: Policy, *, times: int = 1) -> Score:
        """Roll a policy out over the held-out sequences."""
        return score(policy, self.test, times=times)

    def hold_last(self) -> Score:
        """Score the baseline that holds the last action given."""
        held = [hold_last_action(a, warm_up=min(WARM_UP, len(a) - 1)) for a in self.test.actions]
        return score_of(held, self.test, _scale(self.train))


@dataclass(frozen=True, eq=False)
class Score:
    """How roll-outs compare with the expert: infinite or NaN where one diverged."""

    mse: float  # in squared standard deviations of the expert's training actions
    difference_1: float  # mean |first difference|, the paper's smoothness loss; 1 is the expert's
    difference_2: float  # mean |second difference|; 1 is the expert's
    rolled: Trajectories = field(repr=False)

    @property
    def rmse(self) -> float:
        """The root of the mean squared error, in standard deviations."""
        return math.sqrt(self.mse)

    def columns(self, prefix: str = "") -> Row:
        """Return the numbers as columns of a row."""
        return {
            f"{prefix}rmse": self.rmse,
            f"{prefix}difference_1": self.difference_1,
            f"{prefix}difference_2": self.difference_2,
        }


def score(policy: Policy, demos: Demonstrations, *, times: int = 1) -> Score:
    """Roll a policy out from the expert's start; a stochastic one several times at once, all roll-outs in step."""
    many = Demonstrations(demos.items * times)
    try:
        rolled = rollout(policy, many, start=ExpertStart(frames=WARM_UP))
    except DivergedError:
        return Score(math.inf, math.nan, math.nan, list(demos.actions))
    return score_of(rolled, many, policy.units.scale)


def score_of(rolled: Trajectories, demos: Demonstrations, scale: FloatArray) -> Score:
    """Compare trajectories with the expert's, after the frames that were given."""
    pairs = [(a[WARM_UP:], e[WARM_UP:]) for a, e in zip(rolled, demos.actions, strict=True) if len(e) > WARM_UP + 2]
    if not pairs:
        raise DataError(f"every held-out sequence has at most {WARM_UP + 2} frames: give longer ones")
    gaps = np.concatenate([(a - e) / scale for a, e in pairs])
    return Score(float(np.mean(gaps**2)), _relative(pairs, 1), _relative(pairs, 2), rolled)


def _relative(pairs: Sequence[tuple[FloatArray, FloatArray]], order: int) -> float:
    """Return the mean absolute difference over the expert's, the mean over the actions that the expert moves."""
    ours, theirs = (
        np.concatenate([np.abs(np.diff(pair[i], order, axis=0)) for pair in pairs]).mean(axis=0) for i in (0, 1)
    )
    moving = theirs > 0.0
    return float(np.mean(ours[moving] / theirs[moving])) if moving.any() else math.nan


def _scale(demos: Demonstrations) -> FloatArray:
    from simile.data.demonstrations import Units

    return Units.of(demos).scale


@dataclass(frozen=True)
class _Timed:
    """A forest that notes the CPU time of each fit; written as the forest itself, for the policy's card."""

    forest: SmoothForest
    spent: list[float]

    def fit_smooth(
        self,
        states: Sequence[States],
        labels: FloatArray,
        targets: FloatArray,
        anchors: FloatArray,
        smoothness: float,
        rng: np.random.Generator,
    ) -> Model:
        begin = time.process_time()
        fitted = self.forest.fit_smooth(states, labels, targets, anchors, smoothness, rng)
        self.spent.append(time.process_time() - begin)
        return fitted

    def __repr__(self) -> str:
        return repr(self.forest)


def _timed(reduction: str, train: Demonstrations, choices: dict[str, Any]) -> Training:
    """Run an algorithm and note what every round took."""
    model = _Timed(choices["model"], [])
    clock = [time.process_time()]
    fits: list[float] = []

    def note(_: Round) -> None:
        clock.append(time.process_time())
        fits.append(model.spent[-1])  # the last fit of the round: round 0 also fits the naive learner

    run = getattr(algorithms, reduction)(train, **{**choices, "model": model}, watch=note)
    return Training(run, tuple(b - a for a, b in pairwise(clock)), tuple(fits))
