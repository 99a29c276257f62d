"""Algorithm 1: smooth imitation learning reduced to a sequence of regressions.

`algorithm_1` is the loop as the paper prints it, with every open choice passed in. It yields a `Round` after
each turn and never prints, saves or stops by itself: whoever consumes the rounds does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Any

import numpy as np

from simile._common import checks
from simile._common.text import spell
from simile._common.typing import FloatArray
from simile.data.demonstrations import ActionSpace, Demonstration, Demonstrations, Units
from simile.data.states import Horizon
from simile.errors import ArgumentError
from simile.learning import distributed
from simile.learning.distributed import AnyDemonstrations, Site, SpreadDemonstrations
from simile.learning.distributed.backend import Backend
from simile.learning.feedback import Feedback, SmoothFeedback
from simile.learning.measures import Outcome
from simile.learning.smoothness import SmoothTime
from simile.learning.step_sizes import Constant, ErrorRatio, StepSize
from simile.learning.training import JointRule, Memory, Rule, latest
from simile.models import SmoothForest
from simile.models.regularizers import Regularizer, RegularizerClass, VelocityAutoregression
from simile.policies.cards import Card
from simile.policies.policies import Combine, Policy, interpolate, radius

# What a round measured, as numbers that can be written down.
MEASURED = (
    "number",
    "beta",
    "sigma",
    "error",
    "roughness",
    "radius",
    "validation_error",
    "validation_roughness",
    "diverged",
)


@dataclass(frozen=True, eq=False)
class Round:
    """One turn of Algorithm 1. Errors are in standard units (standard deviations of the expert's actions)."""

    number: int
    policy: Policy  # pi_n
    trained: Policy  # pi^_n
    h: Regularizer  # h_n
    targets: list[FloatArray]  # A^_n, what `trained` learned from; empty where they stay with a backend
    rolled: list[FloatArray]  # the roll-out of `policy`, that is A_{n+1}; empty where it stays with a backend
    beta: float
    sigma: float  # NaN where the feedback has none
    error: float  # mean squared error of the roll-out of `policy`
    roughness: float  # mean |second difference| of that roll-out over the expert's
    radius: float  # of the closed loop; NaN where h is not linear
    diverged: bool  # whether the step was refused because its roll-out diverged or its closed loop was unstable
    validation_error: float = math.nan
    validation_roughness: float = math.nan

    def measured(self) -> dict[str, Any]:
        """Return what was measured, by name; errors are mean squared ones."""
        return {name: getattr(self, name) for name in MEASURED}

    def in_units(self, units: Units, space: ActionSpace, card: Card) -> Round:
        """Return the round with policies and trajectories in the user's units, and with the run's card."""
        return replace(
            self,
            policy=self.policy.in_units(units, space, card),
            trained=self.trained.in_units(units, space, card),
            targets=[units.restore(a) for a in self.targets],
            rolled=[units.restore(a) for a in self.rolled],
        )


def algorithm_1(site: Site, *, memory: Memory, step_size: StepSize, combine: Combine, n_rounds: int) -> Iterator[Round]:
    """Run Algorithm 1 on demonstrations in standard units, wherever they are."""
    states = site.states(site.expert)  # line 1
    h = site.fit(site.expert)
    data = memory((), site.data(states, site.expert))
    trained = site.train(data, h)  # line 2
    policy: Policy = trained
    outcome = site.outcome(policy)
    yield _round(0, policy, trained, h, site.expert, outcome, site, beta=1.0, sigma=0.0, refused=outcome.diverged)

    for n in range(1, n_rounds + 1):  # line 3; its line 4 is the roll-out that ends the round before
        states = site.states(outcome.rolled)  # line 5
        targets, sigma = site.targets(n, policy, outcome.rolled, states)  # line 6
        h = site.fit(targets)  # line 7
        data = memory(data, site.data(states, targets))
        trained = site.train(data, h)  # line 8
        beta = step_size(site.evidence(policy, trained, outcome, states, combine))  # line 9
        proposed = combine(trained, policy, beta)  # line 10
        attempt = site.outcome(proposed, seed=n)  # line 4 of the next round
        refused = attempt.diverged or (radius(proposed) or 0.0) >= 1.0
        if not refused:
            policy, outcome = proposed, attempt
        yield _round(n, policy, trained, h, targets, outcome, site, beta=beta, sigma=sigma, refused=refused)


def rounds(
    demos: Demonstrations | Demonstration | SpreadDemonstrations,
    *,
    model: Any = None,
    regularizer: RegularizerClass | None = None,
    smoothness: float | SmoothTime = 30.0,
    horizon: Horizon | None = None,
    feedback: Feedback | None = None,
    rule: Rule | None = None,
    memory: Memory = latest,
    step_size: StepSize | float | None = None,
    combine: Combine = interpolate,
    n_rounds: int = 10,
    seed: int = 0,
    space: ActionSpace | None = None,
    validation: Demonstrations | Demonstration | SpreadDemonstrations | None = None,
    backend: Backend | None = None,
) -> Iterator[Round]:
    """Check the choices, bring the actions to standard units, and run Algorithm 1.

    Parameters
    ----------
    demos : Demonstrations or SpreadDemonstrations
        What to learn from.
    model : Regressor, optional
        F: a `SmoothForest` (the default), any scikit-learn regressor, or any object whose `fit(S, Y)` returns
        something that predicts.
    regularizer : RegularizerClass, optional
        H; `VelocityAutoregression(order=10)` by default.
    smoothness : float or SmoothTime
        lambda, or the lag that it costs.
    horizon : Horizon, optional
        tau; ten context lags and ten action lags by default.
    feedback : Feedback, optional
        Line 6; `SmoothFeedback` with the authors' schedule by default.
    rule : Rule, optional
        The loss that f minimises; `JointRule()` by default.
    memory : Memory
        Which rounds' data to train on: `latest` or `everything`.
    step_size : StepSize or float, optional
        Line 9; `ErrorRatio()` (Eq. 8) by default.
    combine : Combine
        Line 10: `interpolate`, `sample`, `sample_geometric` or `replace_policy`.
    n_rounds : int
        N; round 0, plain supervised learning, comes before them.
    seed : int
        The same seed gives the same bits.
    space : ActionSpace, optional
        Bounds that every action is clipped to.
    validation : Demonstrations, optional
        Rolled out after each round for `Round.validation_error`.
    backend : Backend, optional
        Where to do it, for example `DaskBackend(client)`: demonstrations are cut into parts, and each part is rolled
        out and learned from where it lies. The model must be a `SmoothForest`, and `Round.targets` and `Round.rolled`
        stay empty.

    Yields
    ------
    Round
        n_rounds + 1 of them, in the user's units.
    """
    demos = distributed.placed(demos, backend)
    held_out = None if validation is None else distributed.placed(validation, backend)
    check_alike(demos, held_out)
    space = ActionSpace() if space is None else space
    distributed.check_space(space, demos)
    model = SmoothForest() if model is None else model
    needs = next((name for name in ("fit_rollouts", "fit_smooth") if hasattr(model, name)), "fit")
    checks.instance(model, "model", needs=needs)
    step_size = Constant(step_size) if isinstance(step_size, float | int) else step_size or ErrorRatio()
    regularizer = VelocityAutoregression() if regularizer is None else regularizer
    feedback = SmoothFeedback() if feedback is None else feedback
    rule = JointRule() if rule is None else rule
    horizon = Horizon() if horizon is None else horizon
    for value, name, needs in (
        (regularizer, "regularizer", "fit"),
        (feedback, "feedback", "__call__"),
        (step_size, "step_size", "__call__"),
        (rule, "rule", "labels"),
        (horizon, "horizon", "states"),
    ):
        checks.instance(value, name, needs=needs)
    if isinstance(demos, SpreadDemonstrations):
        distributed.check_spreadable(model=model, regularizer=regularizer, step_size=step_size, combine=combine)
    units = Units.of(demos)
    standard = distributed.standardized(demos, units)
    if isinstance(smoothness, SmoothTime):
        smoothness = distributed.resolved(smoothness, regularizer, standard)
    asked: dict[str, Any] = {
        "model": model,
        "regularizer": regularizer,
        "smoothness": checks.number(smoothness, "smoothness", at_least=0.0),
        "horizon": horizon,
        "feedback": feedback,
        "rule": rule,
    }
    n_rounds = checks.whole_number(n_rounds, "n_rounds")
    loop: dict[str, Any] = {"memory": memory, "step_size": step_size, "combine": combine, "n_rounds": n_rounds}
    site = distributed.site_of(
        standard,
        **asked,
        n_rounds=n_rounds,
        rng=np.random.default_rng(checks.whole_number(seed, "seed")),
        units=units,
        space=ActionSpace(units.standardize(space.low), units.standardize(space.high)),
    )
    card = card_of(demos, {**asked, **loop, "seed": seed})
    return (finished(r, units, space, card, held_out) for r in algorithm_1(site, **loop))


def card_of(demos: AnyDemonstrations, choices: Mapping[str, Any]) -> Card:
    """Write down what the policies of a run learn from, and how."""
    training = {
        "sequences": len(demos),
        "frames": demos.n_frames,
        "data": demos.digest(),
        "ranges": _ranges(demos),
        "settings": {n: v if isinstance(v, float | int) else spell(v) for n, v in choices.items()},
    }
    return Card(demos.context_names, demos.action_names, demos.rate, training)


def _ranges(demos: AnyDemonstrations) -> dict[str, list[float | None]]:
    """Return the lowest and the highest value of each context in six digits; None where all are missing."""
    sides = {}
    low, high = distributed.extremes(demos)
    for name, extreme, rounding in (("low", low, ROUND_FLOOR), ("high", high, ROUND_CEILING)):
        outwards = Context(prec=6, rounding=rounding)  # so that no value of the training falls outside
        values = extreme.tolist()
        rounded = [float(outwards.create_decimal(repr(value))) for value in values]
        sides[name] = [
            None if math.isnan(value) else short if math.isfinite(short) else value
            for value, short in zip(values, rounded, strict=True)
        ]
    return sides


def finished(found: Round, units: Units, space: ActionSpace, card: Card, held_out: AnyDemonstrations | None) -> Round:
    """Bring a round to the user's units, judge it on the validation part, and note both on the policy's card."""
    turn = found.in_units(units, space, card)
    if held_out is not None:
        score = distributed.outcome(turn.policy, held_out)
        turn = replace(turn, validation_error=score.error, validation_roughness=score.roughness)
    measured = {
        name: value if math.isfinite(value) else None
        for name in ("error", "validation_error", "roughness", "validation_roughness", "radius")
        if isinstance(value := getattr(turn, name), float)
    }
    noted = replace(card, training={**card.training, "round": turn.number, **measured})
    return replace(turn, policy=turn.policy.in_units(units, space, noted))


def _round(
    number: int,
    policy: Policy,
    trained: Policy,
    h: Regularizer,
    targets: Any,
    outcome: Outcome,
    site: Site,
    *,
    beta: float,
    sigma: float,
    refused: bool,
) -> Round:
    closed_loop = radius(policy)
    return Round(
        number=number,
        policy=policy,
        trained=trained,
        h=h,
        targets=site.shown(targets),
        rolled=site.shown(outcome.rolled),
        beta=0.0 if refused and number else beta,
        sigma=sigma,
        error=outcome.error,
        roughness=outcome.roughness,
        radius=math.nan if closed_loop is None else closed_loop,
        diverged=refused,
    )


def check_alike(demos: AnyDemonstrations, held_out: AnyDemonstrations | None) -> None:
    """Refuse a validation part with other columns."""
    if held_out is not None and (held_out.context_names, held_out.action_names) != (
        demos.context_names,
        demos.action_names,
    ):
        raise ArgumentError(
            f"validation must have the columns of the demonstrations; got {held_out.context_names} -> "
            f"{held_out.action_names} instead of {demos.context_names} -> {demos.action_names}"
        )
