"""Stages: the limits of an actuator, alone, in a row, and across an operator's frames."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
import ruckig
from hypothesis import example, given, settings
from hypothesis import strategies as st

from conftest import demos_of, some
from simile import ColdStart, Demonstrations, ExpertStart, SimileError, evaluate, rollout
from simile.online import AccelerationLimit, Bounds, DeadBand, JerkLimit, Play, Predictor, PredictorPool, RateLimit
from simile.policies import stages
from simile.policies.stages import Chain
from test_predictor import contexts_of, make

# The generator of the bags wraps around on purpose; NumPy says so where numba is switched off.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in scalar:RuntimeWarning")

ALL = np.arange(1)
WISHES = st.lists(st.floats(-100.0, 100.0), min_size=2, max_size=60)
LIMITS = st.floats(0.5, 200.0)
QUICK = st.floats(5.0, 30.0)
RATES = st.sampled_from([1.0, 10.0, 30.0])


def sent(stages, wishes, rate: float = 10.0, chain: Chain | None = None) -> np.ndarray:
    """What reaches an actuator of one dimension."""
    chain = Chain(stages, 1, 1, rate) if chain is None else chain
    return np.array([chain(ALL, np.array([[w]]))[0, 0] for w in wishes])


@given(WISHES, LIMITS, RATES)
def test_no_step_is_faster_than_the_rate_and_none_is_slower_than_need_be(wishes, limit: float, rate: float):
    moved = sent([RateLimit(limit)], wishes, rate)
    assert moved[0] == wishes[0]
    assert (np.abs(np.diff(moved)) <= limit / rate * (1 + 1e-9) + 1e-12).all()
    for wish, last, now in zip(wishes[1:], moved, moved[1:], strict=False):
        assert now == wish or abs(now - last) == pytest.approx(limit / rate)


@given(WISHES, LIMITS, LIMITS, RATES)
def test_speed_and_acceleration_never_exceed_their_limits(wishes, acceleration: float, speed: float, rate: float):
    moved = sent([AccelerationLimit(acceleration, rate=speed)], wishes, rate)
    moved = np.concatenate([moved[:1], moved])  # at rest
    assert np.abs(np.diff(moved)).max() <= speed / rate * (1 + 1e-9) + 1e-9
    assert np.abs(np.diff(moved, n=2)).max() <= acceleration / rate**2 * (1 + 1e-9) + 1e-9


def frames_for(way: float, acceleration: float, speed: float, rate: float) -> int:
    """Frames enough to stop from full speed and to go a way, from rest to rest."""
    way = way + speed**2 / acceleration
    return 10 + int(rate * (2 * speed / acceleration + 2 * (way / acceleration) ** 0.5 + way / speed))


@given(st.floats(-20.0, 20.0), QUICK, st.none() | QUICK, RATES)
def test_a_target_at_rest_is_reached_without_overshoot(target: float, acceleration, speed, rate: float):
    stage = AccelerationLimit(acceleration, rate=speed)
    n = frames_for(abs(target), acceleration, speed or 30.0, rate)
    moved = sent([stage], [0.0, *[target] * n], rate)
    assert moved[-1] == pytest.approx(target, abs=1e-9)
    assert (np.diff(moved) * np.sign(target) >= -1e-9).all()
    assert (np.abs(moved) <= abs(target) + 1e-9).all()


@given(QUICK, QUICK, st.floats(-3.0, 3.0), st.floats(-20.0, 20.0), RATES)
def test_from_any_speed_within_the_limits_the_target_is_reached_within_the_limits(
    acceleration, speed, share, target, rate
):
    chain = Chain([AccelerationLimit(acceleration, rate=speed)], 1, 1, rate)
    pace = np.clip(share, -1.0, 1.0) * speed / rate
    for position in (0.0, pace):
        chain.follow(ALL, np.array([[position]]))
    moved = np.concatenate(
        [[0.0, pace], sent([], [target] * frames_for(abs(target) + 1, acceleration, speed, rate), chain=chain)]
    )
    assert moved[-1] == pytest.approx(target, abs=1e-9)
    assert np.abs(np.diff(moved)).max() <= speed / rate * (1 + 1e-9) + 1e-9
    assert np.abs(np.diff(moved, n=2)).max() <= acceleration / rate**2 * (1 + 1e-9) + 1e-9


def test_braking_from_more_speed_than_allowed_is_as_hard_as_allowed():
    chain = Chain([AccelerationLimit(1.0, rate=1.0)], 1, 1, 1.0)
    for position in (0.0, 5.0):
        chain.follow(ALL, np.array([[position]]))
    np.testing.assert_allclose(sent([], [100.0] * 6, chain=chain), [9.0, 12.0, 14.0, 15.0, 16.0, 17.0])


JERKS = st.floats(5.0, 2000.0)


def excess(moved, rate: float, *limits: float) -> float:
    """By how much the differences of a path that starts at rest are above their limits, as a share of these."""
    path = np.concatenate([moved[:1]] * 3 + [moved])
    return max(
        np.abs(np.diff(path, n=order)).max(initial=0.0) / (limit / rate**order) - 1.0
        for order, limit in enumerate(limits, start=1)
        if limit is not None
    )


@given(WISHES, st.none() | LIMITS, st.none() | LIMITS, JERKS, RATES)
def test_speed_acceleration_and_jerk_never_exceed_their_limits(wishes, speed, acceleration, jerk: float, rate: float):
    moved = sent([JerkLimit(jerk, acceleration, speed)], wishes, rate)
    assert excess(moved, rate, speed, acceleration, jerk) <= 1e-6


@given(st.floats(-20.0, 20.0), st.none() | QUICK, st.none() | QUICK, st.floats(20.0, 2000.0), RATES)
def test_a_target_at_rest_is_reached_without_overshoot_or_jerk(target, speed, acceleration, jerk: float, rate: float):
    n = frames_for(abs(target), acceleration or 30.0, speed or 30.0, rate) + int(4 * rate)
    moved = sent([JerkLimit(jerk, acceleration, speed)], [0.0, *[target] * n], rate)
    assert (moved[-3:] == target).all()  # to the bit, and it stays
    assert (np.diff(moved) * np.sign(target) >= -1e-9).all()
    assert (np.abs(moved) <= abs(target) + 1e-9).all()


@given(st.lists(st.floats(-20.0, 20.0), min_size=2, max_size=30), QUICK, QUICK, st.floats(20.0, 500.0), RATES)
@example([0.0, 6.0, 6.0, 6.0], 5.0, 6.0, 20.0, 1.0)
@example([5.0, *[0.0] * 12], 5.0, 21.0, 116.3125, 10.0)  # up to the limit of speed, where rounding matters
@settings(max_examples=15)
def test_it_is_the_way_that_ruckig_steps_along_by_itself(wishes, speed: float, acceleration, jerk: float, rate: float):
    moved = sent([JerkLimit(jerk, acceleration, speed)], wishes, rate)
    otg, state, after = ruckig.Ruckig(1, 1.0 / rate), ruckig.InputParameter(1), ruckig.OutputParameter(1)
    state.current_position, by_itself = wishes[:1], wishes[:1]
    state.max_velocity, state.max_acceleration, state.max_jerk = [speed], [acceleration], [jerk]
    for i, wish in enumerate(wishes[1:]):
        state.target_position = [wish]
        # A hair more each time, or it would itself brake for what rounding makes of its way up to the limit.
        state.max_velocity = [speed * (1.0 + i * 1e-12)]
        otg.update(state, after)
        after.pass_to_input(state)
        by_itself.append(after.new_position[0])
    np.testing.assert_allclose(moved, by_itself, atol=1e-5)


@given(QUICK, QUICK, st.floats(20.0, 500.0), st.floats(-20.0, 20.0), RATES, st.integers(1, 40))
def test_after_an_operator_within_the_limits_a_target_behind_is_reached_within_them(
    speed: float, acceleration: float, jerk: float, target: float, rate: float, frames: int
):
    limit = JerkLimit(jerk, acceleration, speed)
    operated = sent([limit], [0.0, *[100.0] * frames], rate)  # somebody who does the same
    chain = Chain([limit], 1, 1, rate)
    for action in operated:
        chain.follow(ALL, np.array([[action]]))
    n = frames_for(abs(target) + abs(operated[-1]) + 30.0, acceleration, speed, rate) + int(8 * rate)
    moved = sent([], [target] * n, chain=chain)
    path = np.concatenate([operated, moved])
    assert path[-1] == target
    # Of the speed, three actions tell as much as a step of acceleration may change it.
    assert excess(path, rate, speed + acceleration / rate, acceleration, jerk) <= 1e-6


@given(st.floats(-5.0, 5.0), st.floats(-30.0, 30.0), st.none() | st.floats(10.0, 30.0))
@some(0.4)
def test_after_an_operator_who_jumps_it_slows_down_as_it_may_and_obeys(jump: float, target: float, speed):
    chain, rate = Chain([JerkLimit(200.0, 60.0, speed), Play(0.0)], 1, 1, 20.0), 20.0
    for action in (0.0, jump):  # up to 100 units per second, and 2000 per second squared
        chain.follow(ALL, np.array([[action]]))
    moved = sent([], [target] * 500, chain=chain)
    assert moved[-1] == target
    assert np.abs(np.diff(moved, n=2)).max() <= 60.0 / rate**2 * (1 + 1e-6)
    assert np.abs(np.diff(moved, n=3)).max() <= 200.0 / rate**3 * (1 + 1e-6)


@given(st.integers(1, 5), st.integers(1, 3), st.integers(0, 2**32))
def test_streams_and_actions_do_not_influence_each_other_and_repeat_to_the_bit(n: int, k: int, seed: int):
    rng = np.random.default_rng(seed)
    wishes = np.repeat(rng.normal(scale=20.0, size=(6, n, k)), 5, axis=0)
    limits = rng.uniform(20.0, 200.0, (3, k))
    chain, again = (Chain([Play(0.5), JerkLimit(*limits)], n, k, 10.0) for _ in range(2))
    together = np.array([chain(np.arange(n), w) for w in wishes])
    np.testing.assert_array_equal(together, [again(np.arange(n), w) for w in wishes])
    for i in range(n):
        for j in range(k):
            alone = sent([Play(0.5), JerkLimit(*limits[:, j])], wishes[:, i, j])
            np.testing.assert_array_equal(together[:, i, j], alone)


def test_a_speed_beyond_all_computing_is_braked_and_disturbs_nobody():
    limit = JerkLimit(0.0096, 0.0468, rate=1.0)
    chain, wishes = Chain([limit], 2, 1, 1.0), np.array([[8304.0], [5.0]])
    for positions in ([[0.0], [0.0]], [[8304.0], [0.0]]):
        chain.follow(np.arange(2), np.array(positions))
    state = np.array([[0.0, -5.0], [8304.0, 0.0], [0.0, 0.0]])
    with pytest.raises(ruckig.RuckigError):
        plan_raw(state, limit)
    moved = np.array([chain(np.arange(2), wishes)[:, 0] for _ in range(30)])
    fast = np.diff(np.concatenate([[0.0, 8304.0], moved[:, 0]]))
    assert (np.diff(fast)[8:] < 0.0).all()
    assert np.abs(np.diff(fast)[1:]).max() <= 0.0468 * (1 + 1e-6)
    np.testing.assert_array_equal(moved[:, 1], sent([limit], [0.0, *[5.0] * 30], 1.0)[1:])


@pytest.mark.parametrize("speed", [None, 0.01])
def test_a_target_that_is_days_away_is_headed_for_by_all_together(speed, monkeypatch):
    limit, calls = JerkLimit(1.0, 0.5, speed), []
    plan = stages._plan
    monkeypatch.setattr(stages, "_plan", lambda *given, **options: calls.append(1) or plan(*given, **options))
    chain = Chain([limit], 3, 1, 1.0)
    chain(np.arange(3), np.zeros((3, 1)))
    moved = np.array([chain(np.arange(3), np.array([[1e5], [-1e9], [1.0]]))[:, 0] for _ in range(50)])
    assert len(calls) == 52  # with the one that tries the stage
    np.testing.assert_array_equal(moved[:, 2], sent([limit], [0.0, *[1.0] * 50], 1.0)[1:])
    far = sent([limit], [0.0, *[3000.0] * 50], 1.0)[1:]
    np.testing.assert_allclose(moved[:, 0], far, rtol=1e-6)
    np.testing.assert_allclose(moved[:, 1], -far, rtol=1e-6)


def plan_raw(state, limit: JerkLimit) -> None:
    """Ask Ruckig for the way to 0."""
    asked = ruckig.InputParameter(2)
    asked.current_position, asked.current_velocity, asked.current_acceleration = state.tolist()
    asked.target_position = [0.0, 0.0]
    limits = (limit.rate, limit.acceleration, limit.jerk)
    asked.max_velocity, asked.max_acceleration, asked.max_jerk = ([x.item()] * 2 for x in limits)
    ruckig.Ruckig(2).calculate(asked, ruckig.Trajectory(2))


def test_what_a_jerk_limit_keeps_is_in_the_snapshot_and_older_ones_are_told_from_it():
    policy = make("forest")
    x = contexts_of(policy, 60, 0)
    stages = [Play(0.1), JerkLimit(30.0, 10.0, 2.0)]
    whole, first, second = (Predictor(policy, stages=stages) for _ in range(3))
    expected = [whole.step(c) for c in x]
    for c in x[:30]:
        first.step(c)
    second.load_state_dict(first.state_dict())
    np.testing.assert_array_equal([second.step(c) for c in x[30:]], expected[30:])
    assert first.state_dict()["sent"].shape == (1, 2, 3, 1)
    before = Predictor(policy, stages=[Play(0.1), RateLimit(2.0)]).state_dict()  # as it always was
    assert before["sent"].shape == (1, 2, 2, 1)
    with pytest.raises(
        SimileError, match=r"'sent'\] must be .* \(1, 2, 3, 1\); got .* \(1, 2, 2, 1\): .* other stages"
    ):
        second.load_state_dict(before)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ([JerkLimit(30.0)], [RateLimit(2.0)]),
        ([RateLimit(2.0)], [JerkLimit(30.0)]),
        ([JerkLimit(30.0)], []),
    ],
)
def test_a_pool_with_other_stages_goes_on_from_where_the_actuators_are(ours, theirs):
    policy = make("forest")
    old, new = (PredictorPool(policy, 2, stages=stages) for stages in (theirs, ours))
    x = contexts_of(policy, 40, 0)
    moved = [old.step(np.stack([c, -c]))[:, 0] for c in x[:20]]
    new.adopt(old)
    moved += [new.step(np.stack([c, -c]))[:, 0] for c in x[20:]]
    order, most = {JerkLimit: (3, 30.0 / 20.0**3), RateLimit: (1, 2.0 / 20.0)}[type(ours[0])]
    if theirs and order == 3:  # whose stages knew nothing before these two
        moved[17] = 2.0 * moved[18] - moved[19]
    assert np.abs(np.diff(moved[20 - order :], n=order, axis=0)).max() <= most * (1 + 1e-6)


def test_without_ruckig_the_way_to_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "ruckig", None)
    with pytest.raises(SimileError, match=r"JerkLimit needs ruckig: pip install 'smooth-imitation\[motion\]'"):
        JerkLimit(1.0)


@given(WISHES, st.floats(0.0, 30.0))
def test_a_dead_band_moves_only_as_far_as_it_must(wishes, width: float):
    moved = sent([DeadBand(width)], wishes)
    for wish, last, now in zip(wishes[1:], moved, moved[1:], strict=False):
        assert abs(now - wish) <= width + 1e-9
        assert now == last or abs(now - wish) == pytest.approx(width, abs=1e-9)


@given(WISHES, st.floats(0.0, 30.0))
def test_a_dead_band_is_a_play_to_the_bit(wishes, width: float):
    np.testing.assert_array_equal(sent([DeadBand(width)], wishes), sent([Play(width)], wishes))
    by_hand = [wishes[0]]
    for wish in wishes[1:]:
        by_hand.append(min(max(by_hand[-1], wish - width), wish + width))
    assert sent([Play(width)], wishes).tolist() == by_hand
    assert isinstance(DeadBand(width), Play)
    assert repr(DeadBand(2.0)) == "DeadBand(width=array([2.]), stepping=False)"


@given(WISHES, st.floats(0.0, 30.0))
def test_a_stepping_play_holds_and_then_goes_there_at_once(wishes, width: float):
    moved = sent([Play(width, stepping=True)], wishes)
    for wish, last, now in zip(wishes[1:], moved, moved[1:], strict=False):
        assert now in (last, wish)
        assert abs(now - wish) <= width + 1e-9
        if abs(last - wish) < width - 1e-9:
            assert now == last


def test_some_actions_may_step_and_others_glide():
    chain = Chain([Play([0.5, 1.0], stepping=(True, False))], 1, 2, 1.0)
    chain(ALL, np.zeros((1, 2)))
    assert chain(ALL, np.array([[0.5, 3.0]])).tolist() == [[0.0, 2.0]]
    assert chain(ALL, np.array([[0.75, -3.0]])).tolist() == [[0.75, -2.0]]


STAGES = (
    [Bounds(-0.6, 0.5), Play(0.1), RateLimit(3.0)],
    [AccelerationLimit(8.0, rate=2.0)],
    Play(0.05, stepping=True),
    [Play(0.02), JerkLimit(80.0, 8.0, 2.0)],
)


def online(policy, demo, start, stages, **options) -> np.ndarray:
    """What a predictor sends; with an expert's start, he acts in the first frames."""
    led = policy.memory if isinstance(start, ExpertStart) else 0
    known = None if callable(start) else start
    predictor = Predictor(policy, stages=stages, start=known, **options)
    frames = enumerate(zip(demo.contexts, demo.actions, strict=True))
    return np.array([predictor.override(a, x) if t < led else predictor.step(x) for t, (x, a) in frames])


@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize("start", [ExpertStart(), ColdStart(), [0.3], np.array([[2.0], [1.0], [0.5], [0.3]])])
@pytest.mark.parametrize("kind", ["forest", "tree"])
def test_a_roll_out_with_stages_has_the_bits_of_a_predictor(kind: str, start, stages):
    policy, demos = make(kind), demos_of(40, 9, 3, 1, m=2, seed=5, rate=20.0)
    rolled = rollout(policy, demos, start=start, stages=stages)
    for ours, demo in zip(rolled, demos, strict=True):
        np.testing.assert_array_equal(ours, online(policy, demo, start, stages))
    assert not np.array_equal(rolled[0], rollout(policy, demos, start=start)[0])
    found = evaluate(policy, demos, start=start, stages=stages)
    for ours, theirs in zip(found.rolled, rolled, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_roll_out_takes_the_rate_of_the_card_or_of_the_data_or_the_one_it_is_given():
    policy, limit = make("forest"), RateLimit(1.0)
    bare = policy.in_units(policy.units, policy.space)  # without a card
    demos = demos_of(30, m=2, seed=5, rate=20.0)
    fast = demos_of(30, m=2, seed=5, rate=50.0)
    at = {rate: online(policy, demos[0], ColdStart(), [limit], rate=rate) for rate in (20.0, 50.0)}

    def roll(policy, demos, **options):
        return rollout(policy, demos, start=ColdStart(), stages=[limit], **options)[0]

    np.testing.assert_array_equal(roll(policy, demos), at[20.0])
    np.testing.assert_array_equal(roll(policy, demos.contexts), at[20.0])
    np.testing.assert_array_equal(roll(bare, fast), at[50.0])
    np.testing.assert_array_equal(roll(policy, fast, rate=50.0), at[50.0])
    with pytest.raises(SimileError, match=r"trained at 20 frames .* demonstrations have 50: resample them.* by rate="):
        roll(policy, fast)
    with pytest.raises(SimileError, match="give rate="):
        roll(bare, fast.contexts)
    for rate in (-1.0, 0.0):
        with pytest.raises(SimileError, match="rate must be"):
            roll(policy, fast, rate=rate)


def test_a_roll_out_says_whose_stages_ran_away():
    policy = replace(make("forest"), smoothness=0.0)
    far = 9e5 * policy.units.scale
    demos = Demonstrations.from_arrays([np.zeros((4, 2))] * 2, [np.zeros((4, 1))] * 2, rate=20.0)
    with pytest.warns(RuntimeWarning, match="the stages of sequence 1 left every reasonable range"):
        rollout(policy, demos, start=[[[0.0]], [-far, far]], stages=[AccelerationLimit(0.001)])


def test_the_policys_own_past_is_untouched_by_a_dead_band():
    policy = make("forest")
    x = contexts_of(policy, 60, 0)
    free, banded = Predictor(policy), Predictor(policy, stages=[DeadBand(0.3)])
    wanted = np.array([free.step(c) for c in x])
    moved = np.array([banded.step(c) for c in x])
    assert np.abs(moved - wanted).max() <= 0.3 + 1e-12
    np.testing.assert_array_equal(free.step(x[0]), Predictor.step(_without_stages(banded), x[0]))


def _without_stages(predictor: Predictor) -> Predictor:
    predictor._streams.chain.stages = ()
    return predictor


def test_stages_act_in_the_order_given_and_each_on_its_own_past():
    wishes = [0.0, 10.0, 10.0, 10.0, -10.0]
    both = sent([Bounds(-1.0, 1.0), RateLimit(4.0)], wishes)
    np.testing.assert_allclose(both, [0.0, 0.4, 0.8, 1.0, 0.6])
    np.testing.assert_allclose(sent([RateLimit(4.0), Bounds(-1.0, 1.0)], wishes), [0.0, 0.4, 0.8, 1.0, 0.8])


def test_limits_may_differ_between_actions():
    chain = Chain([RateLimit([1.0, 2.0]), AccelerationLimit([100.0, 1000.0]), Bounds([-1.0, -2.0], None)], 1, 2, 10.0)
    chain(ALL, np.zeros((1, 2)))
    np.testing.assert_allclose(chain(ALL, np.full((1, 2), -9.0)), [[-0.1, -0.2]])
    for _ in range(40):
        last = chain(ALL, np.full((1, 2), -9.0))
    np.testing.assert_allclose(last, [[-1.0, -2.0]])


@pytest.mark.parametrize("kind", ["forest", "tree"])
@given(seed=st.integers(0, 2**32), speed=st.floats(0.5, 5.0), acceleration=st.floats(5.0, 50.0))
@settings(max_examples=10)
def test_all_limits_hold_across_the_hand_back_from_an_operator(kind: str, seed: int, speed, acceleration):
    policy = make(kind)
    rng = np.random.default_rng(seed)
    predictor = Predictor(policy, stages=[AccelerationLimit(acceleration, rate=speed)], rate=20.0)
    x = contexts_of(policy, 120, seed)
    moved = [predictor.step(c)[0] for c in x[:40]]
    pace = moved[-1] - moved[-2]
    for c in x[40:80]:  # the operator keeps within the limits
        pace = np.clip(pace + rng.uniform(-1, 1) * acceleration / 400.0, -speed / 20.0, speed / 20.0)
        moved.append(predictor.override([moved[-1] + pace], c)[0])
    moved += [predictor.step(None if i % 7 == 3 else c)[0] for i, c in enumerate(x[80:])]
    assert np.abs(np.diff(moved)).max() <= speed / 20.0 * (1 + 1e-9)
    assert np.abs(np.diff(moved, n=2)).max() <= acceleration / 400.0 * (1 + 1e-9) + 1e-12


def test_the_first_action_finds_all_at_rest_there_and_a_start_is_where_the_actuator_is():
    policy = make("forest")
    free, limited = Predictor(policy), Predictor(policy, stages=[RateLimit(1.0)])
    np.testing.assert_array_equal(free.step([5.0, 5.0]), limited.step([5.0, 5.0]))
    started = Predictor(policy, start=[[30.0], [31.0]], stages=[AccelerationLimit(4.0)], rate=1.0)
    assert started.step([0.0, 0.0]) == 28.0  # one unit a second upwards, and then four less
    operated = Predictor(policy, stages=[AccelerationLimit(4.0)], rate=1.0)
    operated.override([31.0])
    assert operated.step([0.0, 0.0]) == 27.0  # from rest


@pytest.mark.parametrize("stages", [[AccelerationLimit(0.001)], [AccelerationLimit(0.001), Bounds(-1.0, 1.0)]])
def test_what_runs_away_begins_anew_from_rest_where_the_policy_wants_it(stages):
    policy = replace(make("forest"), smoothness=0.0)  # whose past is nothing to it
    predictor, free = Predictor(policy, stages=stages, rate=10.0), Predictor(policy, stages=stages[1:], rate=10.0)
    far = 9e5 * policy.units.scale
    for action in (-far, far):
        predictor.override(action)
        free.override(action)
    with pytest.warns(RuntimeWarning, match="the stages of stream 0 left every reasonable range: .* from rest"):
        now = predictor.step([0.0, 0.0])
    np.testing.assert_array_equal(now, free.step([0.0, 0.0]))
    assert np.abs(predictor.state_dict()["sent"]).max() <= 1e6 * policy.units.scale.max() + 10.0
    wild = Predictor(policy, stages=[lambda wanted, last, before, seconds: wanted / seconds * 1e12], rate=1.0)
    with pytest.raises(SimileError, match=r"stages: .* even from rest"):
        wild.step([1.0, 1.0])


def test_after_a_long_pause_the_actuator_is_at_rest():
    predictor = Predictor(make("forest"), stages=[AccelerationLimit(1.0)], rate=1.0, start=[[0.0], [50.0]])
    fast = predictor.step([0.0, 0.0], t=0.0)
    assert fast == 99.0
    assert predictor.step([0.0, 0.0], t=20.0) == 98.0


def test_an_operator_between_ticks_moves_the_actuator_there():
    predictor = Predictor(make("forest"), stages=[RateLimit(1.0)], rate=1.0)
    predictor.step([0.0, 0.0], t=0.0)
    predictor.override([50.0], t=0.5)
    assert abs(predictor.step([0.0, 0.0], t=1.0) - 50.0) == 1.0  # h would go on upwards


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RateLimit(0.0), "rate must be above 0, or nothing would ever move"),
        (lambda: RateLimit(-1.0), "rate must be a finite number.* not below 0; got -1.0"),
        (lambda: AccelerationLimit(np.inf), "acceleration must be a finite number"),
        (lambda: AccelerationLimit(1.0, rate=0.0), "rate must be above 0"),
        (lambda: JerkLimit(None), "jerk must be a finite number"),
        (lambda: JerkLimit(1.0, 0.0), "acceleration must be above 0"),
        (lambda: JerkLimit(1.0, 1.0, np.nan), "rate must be a finite number"),
        (lambda: Chain([JerkLimit(1.0, [1.0, 2.0])], 1, 1, 1.0), "or one for each of the 1 actions"),
        (lambda: Chain([JerkLimit(1e-320)], 1, 1, 1e9), "stages: .* must give finite actions at 1e"),
        (lambda: Chain([JerkLimit(1.0, rate=1e-320)], 1, 1, 1e9), "stages: .* must give finite actions at 1e"),
        (lambda: Play(1.0, stepping=1), "stepping must be True or False, or one of them per action; got 1"),
        (lambda: Play(1.0, stepping="yes"), "stepping must be True or False"),
        (lambda: Chain([Play(1.0, stepping=[True, False])], 1, 1, 1.0), "or one for each of the 1 actions"),
        (lambda: DeadBand("wide"), "width must be a finite number"),
        (lambda: DeadBand([[1.0]]), "width must be a finite number, or one per action"),
        (lambda: Bounds(1.0, 0.0), "low must be below high"),
        (lambda: Predictor(make("forest"), stages=[RateLimit]), "stages must be an object, not a class"),
        (lambda: Predictor(make("forest"), stages=["slow"]), "stages must be callable"),
        (lambda: Predictor(make("forest"), stages=[DeadBand([1.0, 2.0])]), "or one for each of the 1 actions"),
        (lambda: Predictor(make("forest", k=2), stages=[DeadBand([1.0] * 3)]), "or one for each of the 2 actions"),
        (lambda: Chain([DeadBand(1.0)], 1, 1, None), "give rate="),
        (lambda: Chain([AccelerationLimit(1e-320)], 1, 1, 1e9), "stages: .* must give finite actions at 1e"),
        (lambda: Chain([AccelerationLimit(1e308)], 1, 1, 1e-9), "stages: .* must give finite actions at 1e"),
    ],
)
def test_bad_stages_are_refused(call, message: str):
    with pytest.raises(SimileError, match=message):
        call()


def test_a_single_stage_needs_no_list():
    assert Predictor(make("forest"), stages=DeadBand(0.5))._streams.chain.stages[0].width == 0.5
