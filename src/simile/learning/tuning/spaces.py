"""What `tune` may choose from, as objects: a space asks for its knobs and returns the settings of a training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from simile._common import checks
from simile._common.text import spell
from simile.data.demonstrations import Demonstrations
from simile.data.losses import Loss
from simile.data.recorded import ActionSpace
from simile.data.states import Horizon
from simile.errors import ArgumentError
from simile.learning.algorithms import PRINTED
from simile.learning.components import MODELS
from simile.learning.feedback import ExpertFeedback, Feedback, SmoothFeedback, by_distance, exponential, geometric
from simile.learning.smoothness import MatchExpert
from simile.learning.step_sizes import Constant, ErrorRatio, StepSize
from simile.models import Criterion, SmoothForest
from simile.models.regularizers import CriticallyDamped, RegularizerClass, VelocityAutoregression
from simile.models.ridge import Ridge

if TYPE_CHECKING:
    from optuna.trial import BaseTrial

PARTS = ("forest", "hinges", "ridge")  # of a mixture


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

    def choose_first(self, first: Any) -> Any:
        """Return `first` where it is in the range, and the number half way (by scales where `log`) where it is not.

        >>> Between(1.0, 100.0, log=True).choose_first(None)
        10.0
        """
        if isinstance(first, float | int) and self.low <= first <= self.high:
            return first
        half = math.sqrt(self.low * self.high) if self.log else (self.low + self.high) / 2.0
        return round(half) if self.whole else half


Options = Between | Sequence[Any]
FRONTIER = Between(0.1, 2.0, log=True)  # times as rough as the expert, where there is no budget


class Ask(Protocol):
    """Chooses the value of one knob."""

    def __call__(self, name: str, options: Options, first: Any = None) -> Any:
        """Return one of `options`; `first` is what the first trial takes, where it is among them."""


@dataclass(frozen=True, eq=False)
class Conditions:
    """What all trials of a search have in common, for a space to go by.

    Attributes
    ----------
    demos : Demonstrations
        The sequences that trials learn from.
    budget : float, optional
        Largest roughness allowed.
    seed : int
        Of all trainings.
    loss : Loss, optional
        By what trials are fitted.
    timing : Horizon, optional
        Has the lead and the contexts known ahead; None where there are none.
    """

    demos: Demonstrations
    budget: float | None
    seed: int
    loss: Loss | None = None
    timing: Horizon | None = None

    def add_to(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Return settings of a trial with the loss, and a horizon that waits or aims ahead, as they were asked for."""
        loss = {} if self.loss is None else {"loss": self.loss}
        if self.timing is None:
            return settings | loss
        auto = Horizon.auto(self.demos.rate) if settings.get("algorithm", "learn") == "learn" else Horizon()
        own = settings.get("horizon", auto).led(self.timing.lead)
        return settings | loss | {"horizon": replace(own, known=self.timing.known)}


@runtime_checkable
class Space(Protocol):
    """A search space; write your own with this one method."""

    def draw(self, ask: Ask, conditions: Conditions) -> dict[str, Any]:
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
    roughness : options, optional
        How many times as rough as the expert `learn` may be where it chooses lambda (`MatchExpert`); by default around
        the budget.
    lag : options, optional
        Smoothness in place of that, as frames by which the closed loop lags, in all actions alike.
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
    roughness: Options | None = None
    lag: Options | None = None
    hold: Options | None = None
    extra: Sequence[Any] = ()
    bounds: ActionSpace | None = None

    def __post_init__(self) -> None:
        for one in self.mixture:
            if not set(one.split("+")) <= set(PARTS):
                raise ArgumentError(f"mixture must be of {', '.join(PARTS)}, joined by +; got {one!r}")

    def draw(self, ask: Ask, conditions: Conditions) -> dict[str, Any]:
        """Choose the models, their knobs, how far to look back, and how smooth to be."""
        parts = ask("mixture", self.mixture, "+".join(PARTS)).split("+")
        models: list[Any] = [_draw_forest(ask, self, MODELS[0])] if "forest" in parts else []
        if "ridge" in parts:
            models.append(Ridge())
        if "hinges" in parts:
            models.append(Ridge(knots=ask("knots", self.knots, 5)))
        if self.extra and (other := ask("extra", (None, *self.extra))) is not None:
            models.append(other)
        stretch = ask("stretch", self.stretch, 1.0)
        lags = sorted({round(stretch * lag) for lag in Horizon.auto(conditions.demos.rate).context_lags})
        return {
            "model": tuple(models),
            "horizon": Horizon(lags, 0),
            "smoothness": self._draw_smoothness(ask, conditions.budget),
            **({} if self.hold is None else {"hold": ask("hold", self.hold)}),
            **_fix_arguments(self.bounds, conditions),
        }

    def _draw_smoothness(self, ask: Ask, budget: float | None) -> float | MatchExpert:
        """Choose lambda by its lag, or leave it to `learn` and choose what roughness that may come to."""
        if self.lag is not None:
            return _shorten(CriticallyDamped(order=3).smoothness_for(ask("lag", self.lag)))
        around = FRONTIER if budget is None else Between(0.5 * budget, 1.25 * budget, log=True)
        return MatchExpert(_shorten(ask("roughness", self.roughness or around, budget or 1.0)))


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
        *(SmoothFeedback(schedule) for schedule in (exponential(), geometric(0.7, 0.5), by_distance())),
        ExpertFeedback(),
    )
    step_size: Sequence[StepSize | float] = (ErrorRatio(), Constant(0.5), Constant(0.9))
    bounds: ActionSpace | None = None

    def draw(self, ask: Ask, conditions: Conditions) -> dict[str, Any]:
        """Choose the open choices of Algorithm 1; the first trial is `paper`, and `authors` is among them."""
        past = ask("past", self.past, 10)
        model = replace(_draw_forest(ask, self, PRINTED["model"]), criterion=ask("criterion", self.criterion))
        others = ("regularizer", "smoothness", "feedback", "step_size", "n_rounds")
        drawn = {name: ask(name, getattr(self, name), PRINTED[name]) for name in others}
        return {
            "algorithm": "paper",
            "model": model,
            "horizon": Horizon(context_lags=past, action_lags=past),
            **drawn,
            "smoothness": _shorten(drawn["smoothness"]),
            "validation": 0.0,  # nothing is held out, and the last round is taken
            **_fix_arguments(self.bounds, conditions),
        }


def suggest(trial: BaseTrial | dict[str, Any], space: str, name: str, options: Options, first: Any = None) -> Any:
    """Let an Optuna trial choose, as an `Ask` once trial and space are bound.

    Optuna gets numbers and labels, which every storage can keep. A dict in place of a trial takes the `first` of all
    knobs, for Optuna to enqueue.
    """
    knob = f"{space}.{name}"
    if isinstance(options, Between):
        if isinstance(trial, dict):
            return trial.setdefault(knob, options.choose_first(first))
        choose: Any = trial.suggest_int if options.whole else trial.suggest_float
        return choose(knob, options.low, options.high, log=options.log)
    labels = [label(option) for option in options]
    if not labels or len(set(labels)) != len(labels):
        raise ArgumentError(f"{name} must have one option or more, all different; got {options!r}")
    if isinstance(trial, dict):
        chosen = trial.setdefault(knob, label(first) if label(first) in labels else labels[0])
    else:
        chosen = labels[0] if len(labels) == 1 else trial.suggest_categorical(knob, labels)
    return options[labels.index(chosen)]


def label(option: Any) -> str:
    """Format an option as a storage keeps it.

    >>> label("sqrt"), label(0.5), label(Constant(0.5))
    ('sqrt', '0.5', 'Constant(beta=0.5)')
    """
    return option if isinstance(option, str) else spell(option)


def _draw_forest(ask: Ask, space: CrossFitting | Rounds, default: SmoothForest) -> SmoothForest:
    """Choose the forest of a space; the first trial takes the default."""
    names = {"trees": "n_trees", "leaf": "min_leaf", "features": "max_features", "leaves": "max_leaves"}
    return replace(default, **{n: ask(knob, getattr(space, knob), getattr(default, n)) for knob, n in names.items()})


def _fix_arguments(bounds: ActionSpace | None, conditions: Conditions) -> dict[str, Any]:
    """Return the arguments that are no knobs."""
    return {"seed": conditions.seed} | ({} if bounds is None else {"space": bounds})


def _shorten(value: float) -> float:
    """Round to six digits, as many as anybody wants to read in a command."""
    return float(f"{value:.6g}")
