"""Time-stamped frames: the policy runs on its own ticks."""

from __future__ import annotations

import numpy as np
import pytest

from simile import ColdStart, Horizon, SimileError, SmoothPolicy, rollout
from simile.models.regularizers import Autoregressor
from simile.online import HoldAction, Predictor
from test_policies import Linear, affine
from test_predictor import contexts_of, make, run


@pytest.mark.parametrize("rate", [3.0, 10.0, 29.97, 60.0, 1000.0])
@pytest.mark.parametrize("origin", [0.0, 0.1, 1.7e9])
def test_frames_on_the_grid_are_frames_without_stamps(rate: float, origin: float):
    policy = make("forest")
    x = contexts_of(policy, 10_000 if rate in (10.0, 29.97) else 2_000, 0)
    stamped = Predictor(policy, rate=rate)
    ours = [stamped.step(c, t=origin + i / rate) for i, c in enumerate(x)]
    np.testing.assert_array_equal(ours, run(Predictor(policy), x))


def follower(rate: float = 10.0) -> Predictor:
    """A predictor whose action is its context."""
    policy = SmoothPolicy(Linear(np.ones((1, 1))), Autoregressor(np.ones((1, 1))), 0.0, Horizon(0, 0))
    return Predictor(policy, rate=rate)


def test_contexts_are_interpolated_at_the_ticks_and_actions_are_held_between_them():
    predictor = follower()
    assert predictor.step([0.0], t=5.0) == 0.0
    assert predictor.step([0.5], t=5.05) == 0.0  # no tick is due
    assert predictor.step([2.0], t=5.2) == 2.0
    assert predictor.step([5.0], t=5.25) == 2.0
    assert predictor.step([9.0], t=5.35) == pytest.approx(7.0)  # the tick at 5.3
    assert predictor._streams.history.frame[0] == 4


def test_the_ticks_between_two_stamps_are_all_run():
    h = Autoregressor(np.ones((1, 1)))
    policy = SmoothPolicy(Linear(np.ones((1, 1))), h, 1.0, Horizon(0, 0))
    stamped, counted = Predictor(policy, rate=4.0), Predictor(policy)
    stamped.step([0.0], t=0.0)
    run(counted, [[0.0], [1.0], [2.0], [3.0]])
    assert stamped.step([4.0], t=1.0) == counted.step([4.0])


def test_missing_entries_are_taken_from_the_nearer_stamp():
    policy = SmoothPolicy(Linear(np.ones((2, 1))), Autoregressor(np.ones((1, 1))), 0.0, Horizon(0, 0))
    taken = []
    predictor = Predictor(policy, rate=10.0, start=0.0)
    predictor._streams.step = lambda ids, X: taken.append(X[0].tolist()) or np.zeros((1, 1))
    predictor.step([1.0, 1.0], t=0.0)
    predictor.step([np.nan, 5.0], t=0.4)
    assert taken[1:3] == [[1.0, 2.0], [pytest.approx(np.nan, nan_ok=True), 3.0]]
    assert np.isnan(taken[3][0])


def test_dropped_stamps_run_their_ticks_through_the_gap_rule():
    policy = make("forest")
    x = contexts_of(policy, 20, 0)
    stamped, counted = Predictor(policy, rate=10.0), Predictor(policy)
    for i, c in enumerate(x):
        stamped.step(c, t=i / 10.0)
        counted.step(c)
    last = [counted.step(None) for _ in range(3)][-1]
    np.testing.assert_array_equal(stamped.step(None, t=2.2), last)
    np.testing.assert_array_equal(stamped.step(None, t=2.25), last)
    # Between the last known context and the next the contexts are interpolated all the same.
    np.testing.assert_array_equal(stamped.step(x[0], t=2.3), counted.step(x[0]))


def test_after_a_long_pause_contexts_start_anew_and_the_action_is_held():
    policy = make("forest", context_lags=3, action_lags=3)
    x = contexts_of(policy, 20, 0)
    predictor = Predictor(policy, rate=10.0)
    actions = [predictor.step(c, t=i / 10.0) for i, c in enumerate(x)]
    again = Predictor(policy, start=actions[-1])
    np.testing.assert_allclose(predictor.step(x[3], t=100.03), again.step(x[3]), rtol=1e-12)
    np.testing.assert_allclose(predictor.step(x[4], t=100.13), again.step(x[4]), rtol=1e-12)
    held = Predictor(policy, rate=10.0, gap=HoldAction())
    held.step(x[0], t=0.0)
    action = held.step(x[1], t=0.1)
    np.testing.assert_array_equal(held.step(None, t=60.0), action)
    assert held._streams.history.frame[0] == 3


def test_a_long_pause_before_the_first_context_changes_nothing():
    predictor = Predictor(affine(0), start=0.5, rate=10.0)
    assert predictor.step(None, t=0.0) == 0.5
    assert predictor.step(None, t=50.0) == 0.5
    np.testing.assert_array_equal(predictor.step([1.0, 2.0], t=99.0), Predictor(affine(0), start=0.5).step([1.0, 2.0]))


def test_values_beyond_single_precision_are_taken_as_in_a_roll_out():
    policy = make("forest")
    x = np.array([[1e300, -1e300], [0.0, 1e39], [np.nan, -1e39]] * 5)
    np.testing.assert_array_equal(run(Predictor(policy), x), rollout(policy, [x], start=ColdStart())[0])


def test_operators_act_in_the_ticks_that_are_due_or_take_the_place_of_the_latest():
    predictor = follower()
    predictor.step([1.0], t=0.0)
    assert predictor.override([7.0], t=0.05) == 7.0
    assert predictor.step([1.0], t=0.06) == 7.0  # still held
    assert predictor._streams.history.last(np.arange(1)) == 7.0
    assert predictor.override([8.0], x=[2.0], t=0.3) == 8.0
    assert predictor._streams.history.frame[0] == 4
    assert predictor.step([3.0], t=0.4) == 3.0


def test_stamps_must_increase_and_come_with_every_frame_or_none():
    predictor = follower()
    predictor.step([0.0], t=1.0)
    with pytest.raises(SimileError, match=r"t must increase; got 0.5 after 1.0"):
        predictor.step([0.0], t=0.5)
    with pytest.raises(SimileError, match="in every frame or in none; got t=None after frames with it"):
        predictor.step([0.0])
    with pytest.raises(SimileError, match="in every frame or in none"):
        predictor.override([0.0])
    predictor.reset()
    predictor.step([0.0])
    with pytest.raises(SimileError, match=r"got t=2.0 after frames without it: call reset"):
        predictor.step([0.0], t=2.0)
    with pytest.raises(SimileError, match="give rate="):
        Predictor(affine(0), start=0.0).step([0.0, 0.0], t=0.0)
    with pytest.raises(SimileError, match="t must be finite"):
        follower().step([0.0], t=np.nan)
    with pytest.raises(SimileError, match="t must be finite; got a number of hundreds of digits"):
        follower().step([0.0], t=10**400)


@pytest.mark.parametrize("t", [1e300, -1e300, 2.0**54])
def test_stamps_that_floats_cannot_tell_apart_are_refused_at_once(t: float):
    predictor = follower()
    predictor.step([1.0], t=0.0)
    with pytest.raises(SimileError, match="floats cannot tell frames at 10 Hz apart"):
        predictor.step([2.0], t=t)  # it ran 1e285 ticks once
    assert predictor.step([3.0], t=0.1) == 3.0


def test_the_rate_comes_from_the_card():
    policy = make("forest")
    assert policy.card.rate == 20.0
    predictor = Predictor(policy)
    predictor.step([0.0, 0.0], t=0.0)
    predictor.step([0.0, 0.0], t=0.5)
    assert predictor._streams.history.frame[0] == 11
