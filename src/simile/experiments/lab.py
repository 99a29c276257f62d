"""The data of one seed, the runs made on them, and how roll-outs are scored; what all claims share."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from simile._common.typing import FloatArray, Trajectories
from simile.data.demonstrations import Demonstrations, Units
from simile.data.losses import hold_last_action
from simile.data.states import Horizon
from simile.errors import DataError, DivergedError
from simile.evaluation.rivals import roll_out
from simile.experiments.statistics import Row
from simile.learning import algorithms
from simile.learning.algorithms import Run
from simile.learning.feedback import CompensatedFeedback
from simile.learning.measures import Outcome, Ruler
from simile.learning.rounds import Round
from simile.models import Model, SmoothForest
from simile.models.regularizers import CriticallyDamped
from simile.policies.policies import Policy

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

    def run(self, reduction: str = "authors", **settings: Any) -> Training:
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
            self.made[key] = _run_timed(reduction, self.train, choices)
        return self.made[key]

    def contexts_alone(self, **settings: Any) -> Training:
        """Run our own setting."""
        return self.run(**{**CONTEXTS_ALONE, **settings})

    def forest(self, **settings: Any) -> SmoothForest:
        """Make the recipe of this lab's forest."""
        return SmoothForest(n_trees=self.effort.n_trees, **settings)

    def score(self, policy: Any, *, times: int = 1) -> RolloutScore:
        """Roll a policy, or a controller of the rivals, out over the held-out sequences."""
        return score(policy, self.test, times=times)

    def hold_last(self) -> RolloutScore:
        """Score the baseline that holds the last action given."""
        held = [hold_last_action(a, warm_up=min(WARM_UP, len(a) - 1)) for a in self.test.actions]
        return score_of(held, self.test, Units.of(self.train).scale)


@dataclass(frozen=True, eq=False)
class RolloutScore(Outcome):
    """How roll-outs compare with the expert; differences of first order beside those of second, the roughness.

    The mean |first difference| is the paper's smoothness loss; 1 is the expert's.
    """

    difference_1: float

    def columns(self, prefix: str = "") -> Row:
        """Return the numbers as columns of a row."""
        return {
            f"{prefix}rmse": self.rmse,
            f"{prefix}difference_1": self.difference_1,
            f"{prefix}difference_2": self.roughness,
        }


def score(policy: Any, demos: Demonstrations, *, times: int = 1) -> RolloutScore:
    """Roll a policy out from the expert's start; a stochastic one several times at once, all roll-outs in step."""
    many = Demonstrations(demos.items * times)
    try:
        rolled = roll_out(policy, many, WARM_UP)
    except DivergedError:
        return RolloutScore(math.inf, math.nan, list(demos.actions), math.nan)
    return score_of(rolled, many, policy.units.scale)


def score_of(rolled: Trajectories, demos: Demonstrations, scale: FloatArray) -> RolloutScore:
    """Compare trajectories with the expert's, after the frames that were given."""
    if all(len(d) <= WARM_UP + 2 for d in demos):
        raise DataError(f"every held-out sequence has at most {WARM_UP + 2} frames: give longer ones")
    first, second = (Ruler(demos, scale, WARM_UP, whole=False, order=order).measure(rolled) for order in (1, 2))
    return RolloutScore(second.error, second.roughness, list(rolled), first.roughness)


@dataclass(frozen=True)
class _Timed:
    """A forest that notes the CPU time of each fit; written as the forest itself, for the policy's card."""

    model: SmoothForest
    spent: list[float]

    def fit_smooth(self, *given: Any) -> Model:
        begin = time.process_time()
        fitted = self.model.fit_smooth(*given)
        self.spent.append(time.process_time() - begin)
        return fitted

    def __repr__(self) -> str:
        return repr(self.model)


def _run_timed(reduction: str, train: Demonstrations, choices: dict[str, Any]) -> Training:
    """Run an algorithm and note what every round took."""
    model = _Timed(choices["model"], [])
    clock = [time.process_time()]
    fits: list[float] = []

    def note(_: Round) -> None:
        clock.append(time.process_time())
        fits.append(model.spent[-1])  # the last fit of the round: round 0 also fits the naive learner

    run = getattr(algorithms, reduction)(train, **{**choices, "model": model}, watch=note)
    return Training(run, tuple(b - a for a, b in pairwise(clock)), tuple(fits))
