"""What `tune` may choose from, as objects: a space asks for its knobs and returns the settings of a training."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np

from simile._common import checks
from simile._common.text import spell
from simile.data import timing
from simile.data.demonstrations import Demonstrations
from simile.data.losses import Loss
from simile.data.recorded import ActionSpace, Units
from simile.data.states import Horizon
from simile.errors import ArgumentError
from simile.learning.algorithms import PRINTED
from simile.learning.components import MODELS
from simile.learning.feedback import ExpertFeedback, Feedback, SmoothFeedback, by_distance, exponential, geometric
from simile.learning.frontier import time_scale
from simile.learning.mixture import LEAST_LAG, Choices, Mixture, standardize
from simile.learning.step_sizes import Constant, ErrorRatio, StepSize
from simile.models import Criterion, SmoothForest
from simile.models.regularizers import CriticallyDamped, RegularizerClass, VelocityAutoregression
from simile.models.ridge import Ridge

PARTS = ("forest", "hinges", "ridge")  # of a mixture
WITHIN = 3.0  # factor around the lag of the default in which to look for a better one
DAMPED = CriticallyDamped(order=3)


@dataclass(frozen=True)
class Between:
    """A range to choose from, both ends included; whole numbers where both ends are, by scales where `log`.

    >>> Between(8, 64, log=True).whole
    True
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        checks.number(self.low, "low", above=0.0 if self.log else -math.inf)
        checks.number(self.high, "high", at_least=self.low)

    @property
    def whole(self) -> bool:
        """Whether only whole numbers are meant."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def middle(self) -> float:
        """The number half way, by scales where `log`.

        >>> Between(1.0, 100.0, log=True).middle
        10.0
        """
        half = math.sqrt(self.low * self.high) if self.log else (self.low + self.high) / 2.0
        return round(half) if self.whole else half

    def __contains__(self, value: object) -> bool:
        return isinstance(value, float | int) and self.low <= value <= self.high


Options = Between | Sequence[Any]


class Ask(Protocol):
    """Chooses the value of one knob."""

    def __call__(self, name: str, options: Options, first: Any = None) -> Any:
        """Return one of `options`; `first` is what the first trial takes, where it is among them."""


@dataclass(frozen=True, eq=False)
class Known:
    """What a space may go by: the sequences that trials learn from, and what is asked of the policy."""

    demos: Demonstrations
    budget: float | None
    seed: int
    loss: Loss | None = None
    lead: int = 0  # frames, as in a `Horizon`
    ahead: timing.Known = ()

    def see(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Return settings of a trial that waits or aims ahead as was asked for, around which its lags are."""
        if not (self.lead or self.ahead):
            return settings
        rounds = settings.get("algorithm", "learn") != "learn"
        own = settings.get("horizon", Horizon() if rounds else Horizon.auto(self.demos.rate))
        return {**settings, "horizon": replace(own.led(self.lead), known=self.ahead)}

    @cached_property
    def each(self) -> list[float]:
        """Frames by which each action lags in the default of `learn` at the budget; one number where all do alike."""
        demos = self.demos.foretell(self.ahead)
        _, standard, inside = standardize(demos, Choices.of(demos, seed=self.seed, **self.see({})))
        mixture, ratio = Mixture.fit(standard, inside), 1.0 if self.budget is None else self.budget
        return [max(mixture.choose(j, ratio).lag, LEAST_LAG) for j in range(demos.n_actions)]

    @property
    def lag(self) -> float:
        """Their mean: a good place to begin."""
        return float(np.mean(self.each))

    def spread(self, lag: float) -> float | tuple[float, ...]:
        """Return lambda for a mean lag: where actions differ in the default, they differ by the same factors."""
        found = tuple(_shorten(DAMPED.smoothness_for(lag * own / self.lag)) for own in self.each)
        return found[0] if len(found) == 1 else found

    @cached_property
    def lags(self) -> Between:
        """The range of lags: around that place, or from hardly any to the expert's own where no budget is given."""
        if self.budget is not None:
            return Between(self.lag / WITHIN, self.lag * WITHIN, log=True)
        slowest = time_scale(self.demos.standardize(Units.of(self.demos))) / 3.0
        return Between(LEAST_LAG, max(4.0 * LEAST_LAG, slowest, self.lag), log=True)


@runtime_checkable
class Space(Protocol):
    """A search space; write your own with this one method."""

    def draw(self, ask: Ask, known: Known) -> dict[str, Any]:
        """Ask for the knobs, and return keyword arguments of `simile.learn`.

        With "algorithm" among them, "paper" for example, they are those of that algorithm.

        The same answers must give the same settings. What is asked for may depend on earlier answers.
        """


@dataclass(frozen=True)
class CrossFitting:
    """The default way of `learn`: forest and ridges on contexts alone, in one mixture.

    Parameters
    ----------
    mixture : sequence of str
        Which of "forest", "hinges" and "ridge" to mix, joined by "+"; one alone is a single model.
    trees, leaf, features, leaves : options
        Of the forest: `n_trees`, `min_leaf`, `max_features`, `max_leaves`.
    knots : options
        Hinges that each context gets.
    stretch : options
        How much longer than by default a policy looks back: 2 for lags twice as long.
    lag : options, optional
        Smoothness, as frames by which the closed loop lags, in all actions alike; by default around the lags that fit
        the budget, of each action its own.
    hold : options, optional
        How far to hold still, widths or `Hold`s; by default each trial chooses it as `learn` does.
    extra : sequence of models
        Models that may join the mixture, a network for example; none, or one of them.
    bounds : ActionSpace, optional
        What every action is clipped to.
    """

    mixture: Sequence[str] = ("forest+hinges+ridge", "forest+hinges", "forest", "hinges+ridge")
    trees: Options = Between(16, 128, log=True)
    leaf: Options = Between(5, 100, log=True)
    features: Options = ("sqrt", 0.15, 0.4)
    leaves: Options = (None,)
    knots: Options = Between(2, 9)
    stretch: Options = (0.5, 1.0, 2.0)
    lag: Options | None = None
    hold: Options | None = None
    extra: Sequence[Any] = ()
    bounds: ActionSpace | None = None

    def __post_init__(self) -> None:
        for one in self.mixture:
            if not set(one.split("+")) <= set(PARTS):
                raise ArgumentError(f"mixture must be of {', '.join(PARTS)}, joined by +; got {one!r}")

    def draw(self, ask: Ask, known: Known) -> dict[str, Any]:
        """Choose the models, their knobs, how far to look back, and how smooth to be."""
        parts = ask("mixture", self.mixture, "+".join(PARTS)).split("+")
        models: list[Any] = []
        if "forest" in parts:
            trees, leaf = ask("trees", self.trees, 48), ask("leaf", self.leaf, 20)
            features, leaves = ask("features", self.features, "sqrt"), ask("leaves", self.leaves)
            chosen = {"n_trees": trees, "min_leaf": leaf, "max_features": features, "max_leaves": leaves}
            models.append(replace(MODELS[0], **chosen))
        if "ridge" in parts:
            models.append(Ridge())
        if "hinges" in parts:
            models.append(Ridge(knots=ask("knots", self.knots, 5)))
        if self.extra and (other := ask("extra", (None, *self.extra))) is not None:
            models.append(other)
        stretch = ask("stretch", self.stretch, 1.0)
        lags = sorted({round(stretch * lag) for lag in Horizon.auto(known.demos.rate).context_lags})
        lag = ask("lag", known.lags if self.lag is None else self.lag, known.lag if self.lag is None else None)
        return {
            "model": tuple(models),
            "horizon": Horizon(lags, 0),
            "smoothness": known.spread(lag) if self.lag is None else _shorten(DAMPED.smoothness_for(lag)),
            **({} if self.hold is None else {"hold": ask("hold", self.hold)}),
            **_with_bounds(self.bounds, known),
        }


@dataclass(frozen=True)
class Rounds:
    """The rounds of Algorithm 1 with a forest that reads past actions, as in the paper.

    The policy of the last round counts, so that the number of rounds is chosen too.

    Parameters
    ----------
    n_rounds, smoothness : options
        N and lambda.
    past : options
        tau: how many past contexts and actions a policy sees.
    trees, leaf, features, leaves, criterion : options
        Of the forest: `n_trees`, `min_leaf`, `max_features`, `max_leaves`, `criterion`.
    regularizer, feedback, step_size : sequence
        Lines 7, 6 (with the schedule of sigma) and 9 of Algorithm 1.
    bounds : ActionSpace, optional
        What every action is clipped to.
    """

    n_rounds: Options = Between(2, 10)
    smoothness: Options = Between(1.0, 300.0, log=True)
    past: Options = (5, 10, 20)
    trees: Options = Between(10, 60, log=True)
    leaf: Options = Between(5, 100, log=True)
    features: Options = ("sqrt", 0.15)
    leaves: Options = (None,)
    criterion: Sequence[Criterion] = (Criterion.PRINTED, Criterion.LABELS)
    regularizer: Sequence[RegularizerClass] = (
        PRINTED["regularizer"],
        VelocityAutoregression(order=10),
        CriticallyDamped(order=3),
    )
    feedback: Sequence[Feedback] = (
        PRINTED["feedback"],
        SmoothFeedback(exponential()),
        SmoothFeedback(geometric(0.7, 0.5)),
        SmoothFeedback(by_distance()),
        ExpertFeedback(),
    )
    step_size: Sequence[StepSize | float] = (ErrorRatio(), Constant(0.5), Constant(0.9))
    bounds: ActionSpace | None = None

    def draw(self, ask: Ask, known: Known) -> dict[str, Any]:
        """Choose the open choices of Algorithm 1; the first trial is `paper`, and `authors` is among them."""
        past = ask("past", self.past, 10)
        trees, leaf = ask("trees", self.trees, 50), ask("leaf", self.leaf, 32)
        features, leaves = ask("features", self.features, "sqrt"), ask("leaves", self.leaves)
        forest = SmoothForest(n_trees=trees, min_leaf=leaf, max_features=features, max_leaves=leaves)
        return {
            "algorithm": "paper",
            "model": replace(forest, criterion=ask("criterion", self.criterion)),
            "regularizer": ask("regularizer", self.regularizer),
            "smoothness": _shorten(ask("smoothness", self.smoothness, 30.0)),
            "horizon": Horizon(context_lags=past, action_lags=past),
            "feedback": ask("feedback", self.feedback),
            "step_size": ask("step_size", self.step_size),
            "n_rounds": ask("n_rounds", self.n_rounds, 10),
            "validation": 0.0,  # nothing is held out, and the last round is taken
            **_with_bounds(self.bounds, known),
        }


def ask_by(choose: Callable[[str, Between | list[str], Any], Any]) -> Ask:
    """Build an `Ask` from something that chooses among numbers and labels, which can be stored; objects cannot."""

    def ask(name: str, options: Options, first: Any = None) -> Any:
        if isinstance(options, Between):
            return choose(name, options, first)
        labels = [label(option) for option in options]
        if not labels or len(set(labels)) != len(labels):
            raise ArgumentError(f"{name} must have one option or more, all different; got {options!r}")
        return options[labels.index(choose(name, labels, label(first)))] if len(labels) > 1 else options[0]

    return ask


def label(option: Any) -> str:
    """Write an option as a storage keeps it.

    >>> label("sqrt"), label(0.5), label(Constant(0.5))
    ('sqrt', '0.5', 'Constant(beta=0.5)')
    """
    return option if isinstance(option, str) else spell(option)


def _with_bounds(bounds: ActionSpace | None, known: Known) -> dict[str, Any]:
    return {"seed": known.seed, **({} if bounds is None else {"space": bounds})}


def _shorten(value: float) -> float:
    """Return six digits of a number, as many as anybody wants to read in a command."""
    return float(f"{value:.6g}")
