"""Smoothness by lambda, by the lag it costs, and by the expert's own; and the horizon that goes with a rate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simile
from conftest import demos_of, some
from simile import (
    ActionSpace,
    CriticallyDamped,
    Horizon,
    LinearAutoregression,
    MatchExpert,
    PreviousAction,
    Ridge,
    SimileError,
    SmoothTime,
    VelocityAutoregression,
    rollout,
)
from simile.data import tasks
from simile.data.reference import Reference
from simile.learning.mixture import FLAT, Choices, Mixture, standardize
from simile.learning.smoothness import smoothness_for
from simile.metrics import Sums
from simile.models.closed_loop import ClosedLoop
from simile.models.regularizers import Autoregressor
from simile.policies.policies import SmoothPolicy, radius

LINEAR = [
    PreviousAction(),
    CriticallyDamped(order=1),
    CriticallyDamped(order=2),
    CriticallyDamped(order=3),
    LinearAutoregression(order=3),
    VelocityAutoregression(order=3),
    VelocityAutoregression(order=10),
]
PURSUIT = tasks.pursuit(n_sequences=4, length=120, n_players=3)
WIDE = ActionSpace(-1e4, 1e4)  # bounds that cut nothing off: a policy that is cut off is smoother than it was made


@dataclass(frozen=True)
class Crooked:
    """A class of h that is not linear."""

    order: int = 1

    def fit(self, trajectories, smoothness):
        return self

    def __call__(self, history):
        return np.tanh(history[:, 0])


def lag_of(policy) -> float:
    one = policy if isinstance(policy, SmoothPolicy) else policy.components[0]
    return ClosedLoop.of(one.h, one.smoothness).lag


def smoothness_of(policy) -> float:
    return (policy if isinstance(policy, SmoothPolicy) else policy.components[0]).smoothness


def choose(demos, ratio: float) -> tuple[Sums, list[Sums]]:
    """Return what the policy does that a budget chooses, and all that there are, behind one filter in each fold."""
    _, standard, inside = standardize(demos, Choices.of(demos, space=WIDE))
    made = Mixture.fit(standard, inside)
    return made.choose(0, ratio).sums, [one.sums for one in made.table[0]]


@pytest.mark.parametrize("regularizer", LINEAR, ids=repr)
@given(lag=st.floats(0.05, 60.0))
@some(0.3)
def test_smoothness_by_time_gives_that_lag_for_every_linear_regularizer(regularizer, lag: float):
    smoothness = SmoothTime(lag / 30.0).resolve(regularizer, PURSUIT.actions, 30.0)
    loop = ClosedLoop.of(regularizer.fit(PURSUIT.actions, smoothness), smoothness)
    assert loop.lag == pytest.approx(lag, rel=1e-6)


@pytest.mark.parametrize("regularizer", LINEAR, ids=repr)
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_policies_have_the_lag_that_was_asked_for_in_any_units(regularizer, offset: float):
    demos = PURSUIT.with_actions([3.0 * a + offset for a in PURSUIT.actions])
    horizon, goal = Horizon((0, 4), 0), SmoothTime(0.2)
    first = next(simile.rounds(demos, regularizer=regularizer, smoothness=goal, horizon=horizon))
    assert lag_of(first.policy) == pytest.approx(6.0, rel=1e-6)
    run = simile.learn(demos, model=Ridge(), regularizer=regularizer, smoothness=goal, horizon=horizon)
    assert lag_of(run.policy) == pytest.approx(6.0, rel=1e-6)


@given(st.floats(0.0, 1e4), st.floats(0.0, 1e4))
def test_more_time_is_more_smoothness(a: float, b: float):
    one, other = (SmoothTime(s).resolve(CriticallyDamped(order=3), [], 1.0) for s in (a, b))
    assert one <= other if a <= b else one >= other


def test_no_time_is_no_smoothness():
    for regularizer in LINEAR:
        assert SmoothTime(0.0).resolve(regularizer, PURSUIT.actions, 30.0) == 0.0


def test_the_rate_turns_seconds_into_frames():
    slow, fast = (SmoothTime(0.3).resolve(PreviousAction(), PURSUIT.actions, rate) for rate in (10.0, 100.0))
    assert (slow, fast) == pytest.approx((3.0, 30.0))


@dataclass(frozen=True)
class Ahead:
    """h goes on with the last velocity: the loop then leads a ramp instead of lagging it."""

    def fit(self, trajectories, smoothness):
        return Autoregressor(np.array([[2.5], [-1.5]]))


def test_a_regularizer_that_looks_ahead_has_no_such_lag():
    with pytest.raises(
        SimileError, match=r"smoothness: Ahead\(\) looks ahead, so that no lambda makes it lag by 3 frames"
    ):
        smoothness_for(Ahead(), 3.0, PURSUIT.actions)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SmoothTime(-0.1), "seconds must be >= 0; got -0.1"),
        (lambda: SmoothTime("long"), "seconds must be a number; got 'long'"),
        (lambda: SmoothTime(np.inf), "seconds must be finite and >= 0; got inf"),
        (lambda: MatchExpert(0.0), "ratio must be > 0; got 0.0"),
        (lambda: MatchExpert(np.nan), "ratio must be > 0; got nan"),
        (
            lambda: MatchExpert(metric="jerk"),
            "metric must be one of difference_1, difference_2, difference_3; got 'jerk'",
        ),
        (
            lambda: SmoothTime(0.3).resolve(PreviousAction(), PURSUIT.actions, None),
            r"smoothness: SmoothTime\(seconds=0.3\) needs to know how many frames there are a second: .* rate=",
        ),
        (
            lambda: simile.learn(demos_of(30, 30), smoothness=SmoothTime(0.3)),
            "give the demonstrations a rate=..., or a number for lambda",
        ),
        (
            lambda: list(simile.rounds(demos_of(30, 30), smoothness=SmoothTime(0.3))),
            "give the demonstrations a rate=..., or a number for lambda",
        ),
        (
            lambda: simile.path(demos_of(30, 30), smoothness=[SmoothTime(0.3)]),
            "give the demonstrations a rate=..., or a number for lambda",
        ),
        (
            lambda: SmoothTime(0.3).resolve(Crooked(), PURSUIT.actions, 30.0),
            r"smoothness: Crooked\(order=1\) is not linear and has no lag to choose: give lambda",
        ),
        (lambda: list(simile.rounds(PURSUIT, smoothness=MatchExpert())), "smoothness must be a number"),
        (lambda: simile.learn(PURSUIT, smoothness=-1.0), "smoothness must be >= 0; got -1.0"),
        (lambda: simile.learn(PURSUIT, smoothness=1e20), "smoothness must be"),
        (lambda: simile.learn(PURSUIT, smoothness=SmoothTime(1e6)), "smoothness must be"),
        (lambda: simile.path(PURSUIT, smoothness=[3.0, 1e20]), "smoothness must be"),
    ],
)
def test_mistakes_are_told(call, message: str):
    with pytest.raises(SimileError, match=message):
        call()


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_metric_names_the_order_of_the_differences(order: int):
    assert MatchExpert(metric=f"difference_{order}").order == order


@pytest.mark.parametrize("ratio", [1.0, 2.0])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 4))])
def test_the_budget_is_not_exceeded_out_of_fold(seed: int, ratio: float):
    demos = tasks.pursuit(n_sequences=4, length=200, n_players=3, seed=seed)
    for space in (None, WIDE):
        run = simile.learn(demos, smoothness=MatchExpert(ratio), space=space)
        assert run.chosen.validation_roughness <= 1.05 * ratio


@pytest.mark.parametrize("ratio", [0.25, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 4))])
def test_the_budget_is_not_exceeded_and_not_wasted_either(seed: int, ratio: float):
    demos = tasks.pursuit(n_sequences=8, length=200, n_players=3, seed=seed)
    chosen, line = choose(demos, ratio)
    smooth = [one.score for one in line if one.score.roughness <= ratio]
    assert chosen.score.roughness <= 1.1 * ratio
    if chosen.score.roughness <= 0.5 * ratio:  # smoother is as accurate
        assert chosen.score.rmse <= (1.0 + FLAT) * min(score.rmse for score in smooth)
    run = simile.learn(demos, smoothness=MatchExpert(ratio), space=WIDE)
    assert run.chosen.validation_roughness <= 1.1 * ratio


@pytest.mark.parametrize("ratio", [0.5, *(pytest.param(ratio, marks=pytest.mark.long) for ratio in (1.0, 2.0))])
def test_the_budget_holds_with_little_data(ratio: float):
    # The weights jump from one lambda to the next.
    demos = tasks.pursuit(n_sequences=4, length=200, n_players=3, seed=2)
    run = simile.learn(demos, smoothness=MatchExpert(ratio), space=WIDE)
    assert run.chosen.validation_roughness <= 1.1 * ratio


def test_on_unseen_sequences_the_policy_is_about_as_rough_as_the_expert(pursuit):
    train, test = pursuit
    run = simile.learn(train)
    assert 0.6 < Reference(test).measure(rollout(run.policy, test)).roughness < 1.3


def test_a_smaller_budget_gives_a_smoother_policy():
    values = [smoothness_of(simile.learn(PURSUIT, smoothness=MatchExpert(r)).policy) for r in (2.0, 1.0, 0.5)]
    assert values[0] < values[1] < values[2]


def test_a_budget_that_nothing_fills_gives_the_most_accurate_policy():
    run = simile.learn(PURSUIT, smoothness=MatchExpert(1e9), space=WIDE)
    tight = simile.learn(PURSUIT, smoothness=MatchExpert(1.0), space=WIDE)
    assert smoothness_of(run.policy) <= smoothness_of(tight.policy)
    chosen, line = choose(PURSUIT, 1e9)
    assert chosen.score.rmse <= (1.0 + FLAT) * min(one.score.rmse for one in line)
    assert smoothness_of(run.policy) in [p.smoothness for p in run.frontier.points]


def test_a_budget_that_nothing_meets_still_gives_a_stable_policy():
    run = simile.learn(PURSUIT, smoothness=MatchExpert(1e-9))
    assert radius(run.policy) < 1.0
    assert all(np.isfinite(a).all() for a in rollout(run.policy, PURSUIT))
    free = simile.learn(PURSUIT, smoothness=MatchExpert(1e-9), space=WIDE)
    smoothest = min(free.frontier.points, key=lambda p: p.roughness)
    assert smoothness_of(free.policy) == smoothest.smoothness
    assert free.verdict.smoothness.mood != "good" or smoothest.roughness <= 1.1


def test_a_budget_that_nothing_meets_does_not_end_in_nonsense():
    # Slower and slower filters only make f shout louder here: the smoothest policy is not the slowest.
    run = simile.learn(PURSUIT, smoothness=MatchExpert(0.8, metric="difference_1"), space=WIDE)
    assert run.chosen.validation_error < 0.5


@pytest.mark.parametrize("metric", ["difference_1", "difference_3"])
def test_the_budget_can_be_measured_by_other_differences(metric: str):
    match = MatchExpert(1.2, metric=metric)
    run = simile.learn(PURSUIT, smoothness=match)
    again = simile.path(PURSUIT, smoothness=[smoothness_of(run.policy)], metric=metric)
    assert again.points[0].roughness <= 1.1 * match.ratio


@pytest.mark.parametrize("regularizer", [PreviousAction(), VelocityAutoregression(order=3)], ids=repr)
def test_the_budget_holds_for_other_regularizers(regularizer):
    run = simile.learn(PURSUIT, regularizer=regularizer, space=WIDE)
    smoothest = min(p.roughness for p in run.frontier.points)  # of filters that the recordings are long enough for
    assert run.chosen.validation_roughness <= max(1.15, 1.01 * smoothest)
    assert radius(run.policy) < 1.0
    longer = tasks.pursuit(n_sequences=4, length=600, n_players=3)
    assert simile.learn(longer, regularizer=regularizer, space=WIDE).chosen.validation_roughness <= 1.15


def test_where_the_rounds_run_lambda_is_searched_for(tree):
    settings = {"model": tree, "horizon": Horizon(4, 2), "n_rounds": 1}
    train, test = PURSUIT.split(0.5)
    run = simile.paper(train, smoothness=MatchExpert(1.0), validation=test, **settings)
    # The roughest run that is smooth enough: a little less lambda would be too rough.
    assert Reference(test).measure(rollout(run.policy, test)).roughness <= 1.0
    less = simile.paper(train, smoothness=0.8 * smoothness_of(run.policy), validation=test, **settings)
    assert Reference(test).measure(rollout(less.policy, test)).roughness > 0.7
    assert 0.1 <= smoothness_of(run.policy) <= 1e5


def test_a_search_without_validation_is_judged_by_the_training_part(tree):
    settings = {"model": tree, "horizon": Horizon(4, 2), "n_rounds": 0}
    run = simile.paper(PURSUIT, smoothness=MatchExpert(1.0), **settings)
    assert Reference(PURSUIT).measure(rollout(run.policy, PURSUIT)).roughness <= 1.0


def test_a_search_for_the_impossible_ends_at_the_largest_lambda(tree):
    settings = {"model": tree, "horizon": Horizon(4, 0), "n_rounds": 0, "regularizer": PreviousAction()}
    run = simile.paper(PURSUIT, smoothness=MatchExpert(1e-12), validation=0.2, **settings)
    assert smoothness_of(run.policy) == pytest.approx(1e5, rel=0.1)


def test_ctrl_c_ends_a_search():
    fits = []

    class Stopping:
        def fit(self, S, Y):
            fits.append(len(S))
            if len(fits) == 5:  # in the second round of the second trial
                raise KeyboardInterrupt
            self.mean = Y.mean()
            return self

        def predict(self, S):
            return np.full(len(S), self.mean)

    settings = {"model": Stopping(), "horizon": Horizon(2, 0), "n_rounds": 2}
    run = simile.paper(PURSUIT, smoothness=MatchExpert(), validation=0.2, **settings)
    assert len(fits) == 5
    assert run.interrupted
    assert len(run.rounds) >= 1


@given(st.floats(0.01, 5000.0))
def test_the_automatic_horizon_spreads_over_two_seconds_or_64_frames(rate: float):
    horizon = Horizon.auto(rate)
    assert horizon.memory == 0
    assert len(horizon.context_lags) == 11
    assert horizon.context_lags[0] == 0
    assert horizon.context_lags[-1] == pytest.approx(max(64.0, 64.0 * rate / 30.0), abs=0.5)
    steps = np.diff(horizon.context_lags)
    assert (steps > 0).all()


def test_without_a_rate_the_horizon_is_that_of_30_hz():
    assert Horizon.auto() == Horizon.auto(30.0) == Horizon.auto(1.0)
    with pytest.raises(SimileError, match="rate must be > 0; got 0"):
        Horizon.auto(0)
