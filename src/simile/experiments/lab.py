"""The data of one seed, the runs made on them, and how roll-outs are scored; what all claims share."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeVar

from simile._common.typing import FloatArray, Trajectories
from simile.data.demonstrations import Demonstrations
from simile.data.recorded import Units
from simile.data.reference import Reference
from simile.errors import DataError, DivergedError
from simile.evaluation.rivals import roll_out
from simile.experiments.statistics import Row
from simile.learning import algorithms
from simile.learning.algorithms import Run
from simile.learning.measures import Outcome
from simile.learning.rounds import Round
from simile.metrics import hold_last_action
from simile.models import Model, SmoothForest
from simile.policies.policies import Policy

T = TypeVar("T")

# The expert acts for so many frames in every roll-out, and they are not scored: more than any policy here remembers,
# so that all are judged on the same frames.
WARM_UP = 12
SMOOTHNESS: float = algorithms.PRINTED["smoothness"]  # lambda, of every run that is not about lambda
# Algorithm 2 in two readings, by the name of the function that runs it: each claim is measured under both.
PRESETS: Mapping[str, Mapping[str, Any]] = {"paper": algorithms.PRINTED, "authors": algorithms.AUTHORS}
READINGS = {"paper": "as printed", "authors": "as the script"}
# What the rivals share with SIMILE, so that they differ in the reduction alone; coaching its schedule of sigma, too.
SHARED = ("regularizer", "horizon", "smoothness", "rule")
LITTLE = 1.1  # what counts as little: a tenth of the error
SMOOTH = 1.2  # a policy is smooth whose mean |first difference| is at most so many times the expert's


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
    """The data of one seed and a reading of the paper; a run is made once, however many claims look at it."""

    seed: int
    train: Demonstrations
    test: Demonstrations
    effort: Effort
    reading: str = "paper"
    unit: str = ""  # of the actions, for the axes of pictures
    simulated: bool = False  # whether what needs an expert who can be asked is measured, too
    made: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def preset(self) -> Mapping[str, Any]:
        """The choices of this reading."""
        return PRESETS[self.reading]

    @property
    def other(self) -> Mapping[str, Any]:
        """The choices of the other reading."""
        return next(preset for name, preset in PRESETS.items() if name != self.reading)

    def run(self, reduction: str | None = None, **settings: Any) -> Training:
        """Run SIMILE, or another reduction by its name, on the training part, with this seed's trees and rounds."""
        shared = (*SHARED, "feedback") if reduction == "coach" else SHARED
        choices = {
            **(self.preset if reduction is None else {name: self.preset[name] for name in shared}),
            "n_rounds": self.effort.n_rounds,
            "model": self.forest(),
            "seed": self.seed,
            **settings,
        }
        key = repr((reduction, sorted(choices.items())))
        return self.once(key, lambda: _run_timed(reduction or self.reading, self.train, choices))

    def once(self, key: Any, make: Callable[[], T]) -> T:
        """Make something for the first claim that asks for it."""
        if key not in self.made:
            self.made[key] = make()
        found: T = self.made[key]
        return found

    def forest(self, **settings: Any) -> SmoothForest:
        """Make the recipe of this lab's forest."""
        own: SmoothForest = self.preset["model"]
        return replace(own, n_trees=self.effort.n_trees, **settings)

    def score(self, policy: Any, *, times: int = 1, train: bool = False) -> RolloutScore:
        """Roll a policy, or a controller of the rivals, out over the held-out sequences, or those it learned from."""
        demos = self.train if train else self.test
        # With the policy itself, so that no other one gets its id.
        return self.once((id(policy), times, train), lambda: (policy, score(policy, demos, times=times)))[1]

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
    first, second = (Reference(demos, scale, WARM_UP, order).measure(rolled) for order in (1, 2))
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
