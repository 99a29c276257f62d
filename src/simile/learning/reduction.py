"""Algorithm 1: smooth imitation learning reduced to a sequence of regressions.

`algorithm_1` is the loop as the paper prints it, with every open choice passed in; `simile.learning.problem` says what
its lines do. It yields a `Round` after each turn and never prints, saves or stops by itself: whoever consumes the
rounds does. The default of `simile.learn` is one mixture, in `simile.learning.mixture`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from simile._common import checks
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.losses import Loss, Squared
from simile.data.recorded import ActionSpace, Units
from simile.data.states import Horizon
from simile.learning.bounds import bound_training, choose_space
from simile.learning.distributed import DistributedDemonstrations, place
from simile.learning.distributed.backend import Backend
from simile.learning.feedback import Feedback, SmoothFeedback
from simile.learning.initial import check_initial, describe, marks_of, see_by, standardized
from simile.learning.measures import Outcome
from simile.learning.outliers import weigh
from simile.learning.problem import Problem, pose, resolve
from simile.learning.rounds import Round, card_of, check_alike, finish
from simile.learning.smoothness import SmoothTime
from simile.learning.step_sizes import Constant, ErrorRatio, StepSize
from simile.learning.training import JointRule, Memory, Rule, latest, split_by
from simile.models import Criterion, SmoothForest
from simile.models.regularizers import Regularizer, RegularizerClass, VelocityAutoregression
from simile.policies.policies import Combine, Policy, interpolate, radius


def algorithm_1(
    problem: Problem,
    *,
    memory: Memory,
    step_size: StepSize,
    combine: Combine,
    n_rounds: int,
    initial: Policy | None = None,
) -> Iterator[Round]:
    """Run Algorithm 1 in standard units; beside each line stands its number in the paper."""
    states = problem.states(problem.expert)  # line 1: begin with A_0 = A*
    h = problem.regularize(problem.expert)
    data = memory((), problem.dataset(states, problem.expert))
    trained: Policy = problem.train(data, h) if initial is None else initial  # line 2
    policy = trained
    outcome = problem.roll_out(policy)  # line 4 of round 1
    yield _record(
        problem, 0, policy, trained, h, problem.expert, outcome, beta=1.0, sigma=0.0, refused=outcome.diverged
    )

    for n in range(1, n_rounds + 1):  # line 3
        states = problem.states(outcome.rolled)  # line 5
        targets, sigma = problem.targets(n, policy, outcome.rolled, states)  # line 6
        h = problem.regularize(targets)  # line 7
        data = memory(data, problem.dataset(states, targets))
        trained = problem.train(data, h)  # line 8
        beta = step_size(problem.evidence(policy, trained, outcome, states, combine))  # line 9
        proposed = combine(trained, policy, beta)  # line 10
        attempt = problem.roll_out(proposed, seed=n)  # line 4 of the next round
        refused = attempt.diverged or _radius(proposed) >= 1.0
        if not refused:
            policy, outcome = proposed, attempt
        yield _record(problem, n, policy, trained, h, targets, outcome, beta=beta, sigma=sigma, refused=refused)


def _record(
    problem: Problem,
    number: int,
    policy: Policy,
    trained: Policy,
    h: Regularizer,
    targets: Any,
    outcome: Outcome,
    *,
    beta: float,
    sigma: float,
    refused: bool,
) -> Round:
    return Round(
        number=number,
        policy=policy,
        trained=trained,
        h=h,
        targets=problem.show(targets),
        rolled=problem.show(outcome.rolled),
        beta=0.0 if refused and number else beta,
        sigma=sigma,
        error=outcome.error,
        roughness=outcome.roughness,
        radius=_radius(policy),
        diverged=refused,
    )


def _radius(policy: Policy) -> float:
    """Return the closed-loop radius of a policy; NaN where its h is not linear."""
    found = radius(policy)
    return math.nan if found is None else found


def rounds(
    demos: Demonstrations | Demonstration | DistributedDemonstrations,
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
    loss: Loss | None = None,
    validation: Demonstrations | Demonstration | DistributedDemonstrations | None = None,
    initial: Policy | None = None,
    backend: Backend | None = None,
) -> Iterator[Round]:
    """Check the choices, bring the actions to standard units, and run Algorithm 1.

    What is not given is as in the authors' script, `simile.AUTHORS`; `rounds(demos, **simile.PRINTED)` is Algorithm 2
    as the paper prints it.

    Parameters
    ----------
    demos : Demonstrations or DistributedDemonstrations
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
        Bounds that every action is clipped to; `ActionSpace()` for none. By default the range of the recorded actions,
        and a margin around it (`simile.learning.bounds`).
    loss : Loss, optional
        l of Section 2: `Squared()` by default, `Huber()` or `Absolute()` for records with outliers, through leaves,
        other models and the errors of Eq. 8 (`simile.learning.outliers`).
    validation : Demonstrations, optional
        Rolled out after each round for `Round.validation_error`.
    initial : Policy, optional
        What to go on from: round 0 is this policy, and not a trained one. Its contexts and actions must be those of the
        demonstrations; its units, and its bounds where none are given (wider, where learned), are those of the run, its
        lambda, h and horizon remain its own.
    backend : Backend, optional
        Where to do it, for example `DaskBackend(client)`: demonstrations are cut into parts, and each part is rolled
        out and learned from where it lies. The model must be a `SmoothForest`, and `Round.targets` and `Round.rolled`
        stay empty.

    Yields
    ------
    Round
        n_rounds + 1 of them, in the user's units.
    """
    placed, horizon = see_by(place(demos, backend), Horizon() if horizon is None else horizon, initial=initial)
    demos = weigh(placed, loss, seed=seed)
    judges = None if validation is None else place(validation, backend).foretell(horizon.known)
    held_out = None if judges is None else weigh(judges, loss, seed=seed)
    check_alike(demos, held_out)
    if initial is not None:
        check_initial(initial, demos, combine)
    space = choose_space(demos, space, initial)
    model = split_by(Criterion.LABELS, SmoothForest() if model is None else model)
    checks.instance(model, "model", needs="fit_smooth" if hasattr(model, "fit_smooth") else "fit")
    step_size = Constant(step_size) if isinstance(step_size, float | int) else step_size or ErrorRatio()
    regularizer = VelocityAutoregression() if regularizer is None else regularizer
    feedback = SmoothFeedback() if feedback is None else feedback
    rule = JointRule() if rule is None else rule
    for value, name, needs in (
        (regularizer, "regularizer", "fit"),
        (feedback, "feedback", "__call__"),
        (step_size, "step_size", "__call__"),
        (rule, "rule", "labels"),
        (horizon, "horizon", "states"),
    ):
        checks.instance(value, name, needs=needs)
    units = Units.of(demos) if initial is None else initial.units
    standard = demos.standardize(units)
    if isinstance(smoothness, SmoothTime):
        smoothness = resolve(standard, smoothness, regularizer)
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
    inside = bound_training(space, units)
    problem = pose(
        standard,
        **asked,
        n_rounds=n_rounds,
        rng=np.random.default_rng(checks.whole_number(seed, "seed")),
        units=units,
        space=inside,
    )
    problem.check(step_size, combine)
    said: dict[str, Any] = {} if initial is None else {"initial": describe(initial)}
    said |= {} if loss is None or isinstance(loss, Squared) else {"loss": loss}
    seen = () if initial is None else marks_of(initial.card.training)
    card = card_of(demos, {**asked, **loop, "seed": seed, **said}, seen)
    loop["initial"] = None if initial is None else standardized(initial, inside)
    ending = partial(finish, units=units, space=space, card=card, held_out=held_out)
    return map(ending, algorithm_1(problem, **loop))  # which keeps no round while it waits for the next
