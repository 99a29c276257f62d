"""Stages: the limits of an actuator, alone, in a row, and across an operator's frames."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import demos_of
from simile import ColdStart, Demonstrations, ExpertStart, SimileError, evaluate, rollout
from simile.online import AccelerationLimit, Bounds, DeadBand, Play, Predictor, RateLimit
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


STAGES = ([Bounds(-0.6, 0.5), Play(0.1), RateLimit(3.0)], [AccelerationLimit(8.0, rate=2.0)], Play(0.05, stepping=True))


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
    with pytest.raises(SimileError, match=r"trained at 20 frames .* demonstrations have 50: give rate="):
        roll(policy, fast)
    with pytest.raises(SimileError, match="give rate="):
        roll(bare, fast.contexts)
    with pytest.raises(SimileError, match="rate must be"):
        roll(policy, fast, rate=-1.0)


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
        (lambda: Play(1.0, stepping=1), "stepping must be True or False; got 1"),
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
