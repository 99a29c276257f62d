"""Line 6: targets and schedules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simile
from conftest import demos_of
from simile import (
    ExpertFeedback,
    Horizon,
    OracleFeedback,
    SimileError,
    SmoothFeedback,
    by_distance,
    constant,
    exponential,
    geometric,
    linear,
    rollout,
)
from simile.data.recorded import Units
from simile.learning.feedback import Seen
from test_policies import affine


def seen(policy=None, *, round_: int = 1, n_rounds: int = 10, lengths=(40, 9), k: int = 1, seed: int = 0) -> Seen:
    demos = demos_of(*lengths, k=k, seed=seed)
    policy = affine(0, k=k) if policy is None else policy
    rolled = rollout(policy, demos)
    return Seen(round_, n_rounds, demos, rolled, Horizon(1, 1).states(demos, rolled), policy, Units.identity())


@given(st.floats(0.0, 1.0), st.integers(0, 5))
def test_smooth_targets_lie_between_rolled_and_expert(sigma: float, seed: int):
    now = seen(seed=seed)
    for target, rolled, expert in zip(SmoothFeedback(constant(sigma))(now), now.rolled, now.demos.actions, strict=True):
        slack = 1e-12 * (1.0 + np.abs(rolled))
        assert (target >= np.minimum(rolled, expert) - slack).all()
        assert (target <= np.maximum(rolled, expert) + slack).all()


@given(st.floats(0.01, 0.99))
def test_smooth_targets_point_against_the_gradient(sigma: float):
    # Section 5.4: (a_t - a*_t)(a^_t - a_t) < 0 wherever the roll-out is off.
    now = seen()
    for target, rolled, expert in zip(SmoothFeedback(constant(sigma))(now), now.rolled, now.demos.actions, strict=True):
        off = np.abs(rolled - expert) > 1e-9
        assert ((rolled - expert) * (target - rolled))[off].max(initial=-1.0) < 0.0


def test_expert_feedback_is_smooth_feedback_without_sigma():
    now = seen()
    for a, b in zip(ExpertFeedback()(now), SmoothFeedback(constant(0.0))(now), strict=True):
        np.testing.assert_array_equal(a, b)


def sigmas(schedule, n_rounds: int = 10) -> list[float]:
    return [schedule(seen(round_=n, n_rounds=n_rounds)) for n in range(1, n_rounds + 1)]


def test_schedules():
    assert sigmas(constant(0.3), 3) == [0.3, 0.3, 0.3]
    assert sigmas(geometric(0.8, 0.5), 3) == pytest.approx([0.8, 0.4, 0.2])
    np.testing.assert_allclose(sigmas(exponential()), np.exp(-np.linspace(0.2, 1.6, 10)))
    assert sigmas(exponential(), 1) == pytest.approx([np.exp(-0.2)])
    assert sigmas(exponential())[-1] == pytest.approx(0.2, abs=0.002)  # the script's does not end at 0
    assert sigmas(linear(), 5) == pytest.approx([0.8, 0.6, 0.4, 0.2, 0.0])
    assert sigmas(linear(0.5), 2) == [0.25, 0.0]
    assert sigmas(linear(), 1) == [0.0]
    assert repr(linear()) == "linear(1)"
    assert repr(SmoothFeedback(geometric(0.7, 0.5))) == "SmoothFeedback(schedule=geometric(0.7, 0.5))"


def test_a_number_is_a_constant_schedule_and_a_function_is_a_schedule_of_its_own():
    assert repr(SmoothFeedback(0.5)) == repr(SmoothFeedback(constant(0.5)))
    assert SmoothFeedback(0.5).sigma(seen()) == 0.5
    assert repr(SmoothFeedback(1)) == "SmoothFeedback(schedule=constant(1))"

    def halving(now: Seen) -> float:
        return 0.5**now.round

    assert isinstance(SmoothFeedback(halving).schedule, simile.Schedule)
    assert repr(SmoothFeedback(halving)) == "SmoothFeedback(schedule=halving)"
    assert sigmas(SmoothFeedback(halving).schedule, 2) == [0.5, 0.25]
    with pytest.raises(SimileError, match=r"sigma of halving must be .*; got 2"):
        SmoothFeedback(simile.Schedule("halving", lambda _: 2.0)).sigma(seen())


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        (1.5, "sigma must be >= 0 and <= 1; got 1.5"),
        ([0.9, 0.5, 0.1], r"schedule must be .*Schedule.*, for example 0.5, linear\(\) or .*; got \[0.9, 0.5, 0.1\]"),
        ("0.5", "schedule must be .*; got '0.5'"),
        (None, "schedule must be .*; got None"),
        (exponential, r"schedule: write exponential\(\), with parentheses"),
        (simile.Schedule, r"schedule must be an object, not a class"),
    ],
)
def test_what_is_no_schedule_is_refused_in_a_sentence(given_, message: str):
    with pytest.raises(SimileError, match=message):
        SmoothFeedback(given_)


def test_sigma_by_distance_follows_the_distance_and_vanishes_with_it():
    now = seen()
    perfect = replace(now, rolled=now.demos.actions)
    far = replace(now, rolled=[a + 1.0 for a in now.demos.actions])
    farther = replace(now, rolled=[a + 9.0 for a in now.demos.actions])
    schedule = by_distance(half=1.0)
    assert schedule(perfect) == 0.0
    assert schedule(far) == pytest.approx(0.5)
    assert schedule(farther) == pytest.approx(0.9)


def test_the_oracle_is_asked_in_the_users_units_at_every_state():
    now = seen(k=2)
    units = Units(np.array([10.0, -5.0]), np.array([2.0, 0.5]))
    now = replace(now, units=units)
    asked = []

    def oracle(states):
        asked.append((states.contexts.copy(), states.history(1)[:, 0].copy()))
        return 2.0 * states.history(1)[:, 0]

    targets = OracleFeedback(oracle)(now)
    contexts, previous = asked[0]
    np.testing.assert_array_equal(contexts, np.concatenate(now.demos.contexts))
    np.testing.assert_allclose(previous[1:40], units.restore(now.rolled[0])[:-1])
    np.testing.assert_allclose(units.restore(targets[0][1:]), 2.0 * units.restore(now.rolled[0])[:-1])
    assert [len(t) for t in targets] == [40, 9]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: constant(1.5), "sigma must be >= 0 and <= 1; got 1.5"),
        (lambda: geometric(0.5, -1.0), "decay must be >= 0 and <= 1; got -1.0"),
        (lambda: by_distance(0.0), "half must be > 0; got 0.0"),
        (lambda: OracleFeedback(3), "oracle must be callable; got 3"),
        (
            lambda: OracleFeedback(lambda s: np.zeros(3))(seen()),
            r"oracle must return actions of shape \(49, 1\); got shape \(3,\)",
        ),
        (lambda: OracleFeedback(lambda s: np.full(49, np.nan))(seen()), "oracle must return finite actions"),
    ],
)
def test_bad_feedback_is_refused(make, message: str):
    with pytest.raises(SimileError, match=message):
        make()


def test_a_callable_of_ones_own_is_a_feedback(tree):
    demos = demos_of(60, 60)
    run = simile.paper(
        demos,
        model=tree,
        feedback=lambda s: [0.5 * (a + b) for a, b in zip(s.rolled, s.demos.actions, strict=True)],
        n_rounds=1,
    )
    assert np.isnan(run.rounds[1].sigma)
