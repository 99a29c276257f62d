"""Every metric against hand-computed values, a naive twin, and the properties its docstring claims."""

from __future__ import annotations

import math
from dataclasses import astuple, fields, replace
from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from conftest import demos_of
from naive import naive_bends
from simile import Demonstration, Demonstrations, metrics
from simile.data.reference import Reference, tally_rollouts
from simile.errors import ArgumentError, DataError
from simile.learning.distributed import DistributedDemonstrations
from simile.learning.distributed.backend import LocalBackend

ERRORS = [metrics.mean_squared_error, metrics.root_mean_squared_error]
OF_PAIRS = [*ERRORS, metrics.lag]
OF_ONE = [metrics.mean_difference]
# the power of the actions' unit that each metric comes in
DEGREE = {
    metrics.mean_squared_error: 2,
    metrics.root_mean_squared_error: 1,
    metrics.mean_difference: 1,
}
TIME = np.arange(400.0)


def column(*values):
    return np.array(values, dtype=float)[:, np.newaxis]


def motion(time):
    """A smooth band-limited motion, sampled at any times."""
    return (np.sin(0.05 * time) + 0.5 * np.sin(0.13 * time + 1.0) + 0.2 * np.sin(0.31 * time))[:, np.newaxis]


@st.composite
def action_pairs(draw, min_frames=1):
    shape = (draw(st.integers(min_frames, 24)), draw(st.integers(1, 3)))
    # no tiny numbers: their squares lose bits, and scaling would not be exact
    values = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e3, 1e3).map(lambda v: round(v, 6)))
    return draw(arrays(float, shape, elements=values)), draw(arrays(float, shape, elements=values))


# Naive twins


def naive_lag(rolled, expert):
    """Whole frames: the best shift by one loop over shifts."""
    r, e, longest = rolled - rolled.mean(), expert - expert.mean(), min(len(rolled) // 4, 100)
    best, best_shift = -2.0, None
    for shift in sorted(range(-longest, longest + 1), key=abs):
        late = r[max(shift, 0) : len(r) + min(shift, 0)]
        base = e[max(-shift, 0) : len(e) - max(shift, 0)]
        value = np.mean(late * base) / np.sqrt(np.mean(late**2) * np.mean(base**2))
        if value > best:
            best, best_shift = value, shift
    return best_shift


# Errors


@pytest.mark.parametrize(
    ("metric", "wanted"),
    [
        (metrics.mean_squared_error, [5.0, 0.0, 8.0]),
        (metrics.root_mean_squared_error, [5.0**0.5, 0.0, 8.0**0.5]),
    ],
)
def test_errors_by_hand(metric, wanted):
    rolled = np.array([[0.0, 1.0, 4.0], [2.0, 1.0, 0.0]])
    expert = np.array([[1.0, 1.0, 0.0], [5.0, 1.0, 0.0]])
    np.testing.assert_array_equal(metric(rolled, expert), wanted)


@settings(max_examples=40, deadline=None)
@given(action_pairs())
def test_errors_are_symmetric(pair):
    for metric in ERRORS:
        np.testing.assert_array_equal(metric(*pair), metric(*pair[::-1]))
        np.testing.assert_array_equal(metric(pair[0], pair[0]), 0.0)


# Differences


def test_mean_difference_by_hand():
    actions = column(0, 1, 4, 9)
    assert metrics.mean_difference(actions) == 3.0
    assert metrics.mean_difference(actions, order=2) == 2.0
    assert metrics.mean_difference(actions, order=3) == 0.0
    assert metrics.mean_difference(actions, order=2, rate=10.0) == 200.0


@pytest.mark.parametrize("order", [1, 2, 3, 7])
@pytest.mark.parametrize("frames", [1, 2, 3, 4])
def test_mean_difference_needs_more_frames_than_its_order(order, frames):
    value = metrics.mean_difference(np.eye(frames, 3), order=order)
    assert value.shape == (3,)
    assert (np.isnan(value) == (frames <= order)).all()


# Lag


@pytest.mark.parametrize("delay", [-20, -7.3, -1, 0, 0.25, 0.5, 1, 2.5, 7, 33.8])
def test_lag_recovers_the_delay(delay):
    late = metrics.lag(motion(TIME - delay), motion(TIME))
    np.testing.assert_allclose(late, delay, atol=0.05 + 0.01 * abs(delay))


def test_lag_of_each_dimension_is_its_own():
    rolled = np.hstack([motion(TIME - 5), -2.0 * motion(TIME), motion(TIME + 3)])
    expert = np.hstack([motion(TIME), -motion(TIME), 40.0 + 1e-3 * motion(TIME)])
    np.testing.assert_allclose(metrics.lag(rolled, expert), [5.0, 0.0, -3.0], atol=0.1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("frames", [40, 60, 200, 500])
def test_lag_equals_brute_force(seed, frames):
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=frames + 20)
    delay = int(rng.integers(-8, 9))
    expert = noise[10:-10]
    rolled = noise[10 - delay : 10 - delay + frames] + 0.3 * rng.normal(size=frames)
    value = metrics.lag(rolled[:, np.newaxis], expert[:, np.newaxis]).item()
    assert abs(value - naive_lag(rolled, expert)) <= 0.5
    assert abs(value - delay) <= 0.5


@pytest.mark.parametrize(
    "actions",
    [
        np.sin(2 * np.pi * TIME / 20),  # every period fits as well
        np.exp(-0.5 * ((TIME - 200) / 30) ** 2),  # dividing by the overlap's length alone would say 2 frames
        np.tanh((TIME - 200) / 10),
        TIME,
        1e9 + np.sin(TIME),
    ],
)
def test_nothing_is_late_with_respect_to_itself(actions):
    np.testing.assert_allclose(metrics.lag(actions[:, np.newaxis], actions[:, np.newaxis]), 0.0, atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(action_pairs(min_frames=4))
def test_lag_stays_within_its_limit(pair):
    value = metrics.lag(*pair)
    defined = ~np.isnan(value)
    assert (np.abs(value[defined]) <= len(pair[0]) // 4).all()
    moving = (np.ptp(pair[0], axis=0) > 0) & (np.ptp(pair[1], axis=0) > 0)
    np.testing.assert_array_equal(defined, moving)


def test_lag_turns_with_its_arguments():
    rolled, expert = motion(TIME - 6.5), motion(TIME)
    np.testing.assert_allclose(metrics.lag(rolled, expert), -metrics.lag(expert, rolled), rtol=1e-9)


@pytest.mark.parametrize(("frames", "longest"), [(100, 25), (400, 100)])
def test_lag_at_the_limit_is_the_limit(frames, longest):
    late = metrics.lag(motion(TIME[:frames] - longest - 5), motion(TIME[:frames]))
    np.testing.assert_array_equal(late, longest)


def test_two_rests_are_no_evidence_of_lag():
    rolled, expert = np.zeros((400, 1)), np.zeros((400, 1))
    rolled[10], expert[390] = 1.0, 1.0  # without their impulses, the parts left by a shift of 20 are alike
    np.testing.assert_allclose(metrics.lag(rolled, expert), 0.0, atol=0.5)


def test_lag_of_a_long_sequence():
    walk = np.random.default_rng(0).normal(size=(100_007, 1)).cumsum(axis=0)
    np.testing.assert_allclose(metrics.lag(walk[:-7], walk[7:]), 7.0, atol=0.1)


# The baseline


@pytest.mark.parametrize(
    ("warm_up", "wanted"), [(0, [1, 1, 1]), (1, [1, 1, 1]), (2, [1, 2, 2]), (3, [1, 2, 3]), (9, [1, 2, 3])]
)
def test_hold_last_action_by_hand(warm_up, wanted):
    expert = np.hstack([column(1, 2, 3), column(-1, -2, -3)])
    expert.setflags(write=False)
    held = metrics.hold_last_action(expert, warm_up=warm_up)
    np.testing.assert_array_equal(held, np.array([wanted, np.negative(wanted)]).T)
    assert held.flags.writeable
    assert not np.shares_memory(held, expert)


# All of them


@settings(max_examples=40, deadline=None)
@given(action_pairs())
def test_scale_is_exact_in_powers_of_two(pair):
    for scale in (1024.0, 2.0**-10):
        for metric in OF_PAIRS:
            wanted = metric(*pair) * scale ** DEGREE.get(metric, 0)
            np.testing.assert_array_equal(metric(pair[0] * scale, pair[1] * scale), wanted)
        for metric in OF_ONE:
            wanted = metric(pair[0]) * scale ** DEGREE.get(metric, 0)
            np.testing.assert_array_equal(metric(pair[0] * scale), wanted)


@settings(max_examples=40, deadline=None)
@given(st.floats(-100, 100))
def test_an_offset_changes_nothing(offset):
    rolled, expert = motion(TIME[:150] - 2), motion(TIME[:150])
    for metric in OF_PAIRS:
        np.testing.assert_allclose(metric(rolled + offset, expert + offset), metric(rolled, expert), rtol=1e-6)
    for metric in OF_ONE:
        np.testing.assert_allclose(metric(rolled + offset), metric(rolled), rtol=1e-6)


@pytest.mark.parametrize("frames", [1, 2, 3, 4, 50])
def test_constants(frames):
    still = np.full((frames, 3), 0.1)  # whose mean is not exactly 0.1
    moving = np.arange(3.0 * frames).reshape(frames, 3)
    for pair in ((still, still), (still, moving), (moving, still)):
        np.testing.assert_array_equal(metrics.lag(*pair), [np.nan] * 3)


@pytest.mark.parametrize("frames", [1, 2, 3])
def test_too_short_for_lag(frames):
    actions = np.random.default_rng(0).normal(size=(frames, 3))
    np.testing.assert_array_equal(metrics.lag(actions, actions), [np.nan] * 3)


@pytest.mark.parametrize("value", [1.7e308, 1e200, 1e-200, 5e-324, math.inf, math.nan])
def test_extreme_numbers_are_measured_without_warnings(value):
    rolled = np.random.default_rng(0).choice([-1.0, 0.5, 1.0], size=(50, 1)) * value
    expert = -rolled[::-1]
    for metric in OF_PAIRS:
        assert metric(rolled, expert).shape == (1,)
    for metric in OF_ONE:
        assert metric(rolled).shape == (1,)
    if 0 < value < math.inf:
        assert np.isfinite(metrics.lag(rolled, expert)).all()


def test_arguments_are_left_alone():
    rolled, expert = motion(TIME - 2), motion(TIME)
    for array in (rolled, expert):
        array.setflags(write=False)
    for metric in OF_PAIRS:
        metric(rolled, expert)
    for metric in OF_ONE:
        metric(rolled)


# Several recordings

SCALES = st.sampled_from([1e-9, 1.0, 1e9])


@st.composite
def references_and_rolled(draw):
    """Recordings of any length, weights and units, an expert who may rest, and roll-outs that may diverge."""
    k, begin = draw(st.integers(1, 3)), draw(st.integers(0, 3))
    units = np.array(draw(st.lists(SCALES, min_size=k, max_size=k)))
    demos, rolled = [], []
    for i, length in enumerate(draw(st.lists(st.integers(1, 30), min_size=1, max_size=5))):
        table = arrays(float, (length, k), elements=st.integers(-20, 20).map(float) | st.floats(-20.0, 20.0), fill=None)
        expert = draw(table | st.just(np.ones((length, k)))) * units
        off = draw(table | st.just(np.zeros((length, k))) | st.sampled_from([math.nan, math.inf, 1e200, 1e-200]))
        weights = draw(st.none() | arrays(float, (length, k), elements=st.sampled_from([0.0, 0.5, 2.0])))
        demos.append(Demonstration(np.zeros((length, 1)), expert, name=f"{i}", weights=weights))
        rolled.append(expert + off * units)
    rate = draw(st.none() | st.just(10.0))
    demos = Demonstrations(tuple(replace(demo, rate=rate) for demo in demos))
    return Reference(demos, units, begin), rolled


def part(reference, rolled, some):
    """The tally of some of the recordings, by the logs of all."""
    demos = Demonstrations(tuple(reference.demos[i] for i in some))
    return replace(reference, demos=demos, logs=reference.known_logs).tally([rolled[i] for i in some])


def assert_same(ours, theirs):
    for field in fields(ours):
        np.testing.assert_array_equal(getattr(ours, field.name), getattr(theirs, field.name), err_msg=field.name)


@given(references_and_rolled())
def test_whatever_is_rolled_out_is_tallied_without_warnings(given):
    reference, rolled = given
    tally, n, k = reference.tally(rolled), len(rolled), reference.demos.n_actions
    assert len(tally) == n
    for field in fields(tally):
        shape = (n, k, 3, 2 * metrics.LONGEST_LAG + 1) if field.name == "products" else (n, k)
        assert getattr(tally, field.name).shape == shape
    for some in (tally.rmse(reference.scale), tally.roughness, tally.lags):
        assert some.shape == (k,)
    for some in (tally.turn_rates(reference.demos.rate), tally.rest_shares):
        assert some.shape == (2, k)
        assert not (some < 0.0).any()
    assert not (tally.rest_shares > 1.0).any()
    assert not (np.abs(tally.lags) > metrics.LONGEST_LAG).any()
    assert np.isnan(tally.lag) == np.isnan(tally.lags).all()
    assert np.isnan(tally.score.roughness) == np.isnan(tally.roughness).all() or not np.isfinite(tally.bends).all()
    gone = ~np.isfinite([a[reference.begin :].sum(axis=0) for a in rolled])
    np.testing.assert_array_equal(np.isnan(tally.turns), gone)
    np.testing.assert_array_equal(np.isnan(tally.rests), gone)


@given(references_and_rolled(), st.data())
def test_recordings_are_tallied_each_on_its_own(given, data):
    """However a list is cut or ordered: its tallies are those of its parts, and its score is the same."""
    reference, rolled = given
    tally, n = reference.tally(rolled), len(rolled)
    cuts = sorted(data.draw(st.sets(st.integers(1, n - 1)))) if n > 1 else []
    parts = [range(*ends) for ends in pairwise([0, *cuts, n])]
    added = reduce(add, (part(reference, rolled, some) for some in parts))
    assert_same(added, tally)
    np.testing.assert_equal(astuple(added.score), astuple(tally.score))
    order = data.draw(st.permutations(range(n)))
    assert_same(part(reference, rolled, order), tally[order])


@given(references_and_rolled(), st.sampled_from([1, 2, 3]))
def test_bends_are_those_of_the_loop(given, order):
    reference, rolled = given
    reference = replace(reference, order=order)
    sums = reference.sums(rolled)
    for i, demo in enumerate(reference.demos):
        for j, log in enumerate(reference.known_logs):
            ours, theirs = (naive_bends(a[demo.counted, j].tolist(), order) for a in (rolled[i], demo.actions))
            np.testing.assert_allclose(sums.bends[i, j], ours, rtol=1e-12)
            np.testing.assert_allclose(sums.expert_bends[i, j], log.kept[order - 1] * theirs, rtol=1e-12)


def test_a_tally_is_the_sum_of_what_the_metrics_tell():
    demos = demos_of(90, 60, 75, k=2, rate=25.0)
    rolled = [0.9 * np.roll(a, 2, axis=0) for a in demos.actions]
    reference = Reference(demos, np.array([2.0, 3.0]), begin=5)
    tally = reference.tally(rolled)
    ours, theirs = ([a[5:] for a in some] for some in (rolled, demos.actions))
    squares = np.mean((np.concatenate(ours) - np.concatenate(theirs)) ** 2, axis=0)
    np.testing.assert_allclose(tally.rmse(reference.scale), np.sqrt(squares))
    assert tally.score.error == pytest.approx(np.mean(squares / reference.scale**2))
    later = Demonstrations(tuple(demo.cut(5) for demo in demos))
    assert tally.score == Reference(later, reference.scale, logs=reference.known_logs).measure(ours)
    assert tally.score.error == reference.measure(rolled).error
    assert tally.score.roughness == pytest.approx(tally.roughness.mean())
    rates = [metrics.rate_reversals(some, reference.threshold, 25.0) for some in (ours, theirs)]
    np.testing.assert_allclose(tally.turn_rates(25.0), rates)
    shares = [metrics.share_rest(some, reference.threshold, 25.0) for some in (ours, theirs)]
    np.testing.assert_allclose(tally.rest_shares, shares)
    for i in range(3):
        np.testing.assert_allclose(tally[[i]].lags, metrics.lag(ours[i], theirs[i]), atol=1e-6)
    assert tally.lag == pytest.approx(2.0, abs=0.5)
    assert_same(tally.grouped(np.arange(3)), tally)
    assert tally.grouped(np.array([1, 0, 1])).score.error == pytest.approx(tally.score.error)
    unseen = replace(reference, begin=80)  # of one recording alone there are frames that count
    assert len(unseen.tally(rolled).grouped(np.arange(3))) == 1


def test_tallies_are_the_same_wherever_the_recordings_are():
    demos = demos_of(50, 40, 30, 60, k=2, rate=25.0)
    spread, scale = DistributedDemonstrations.of(demos, LocalBackend(parts=3)), np.ones(2)
    here = tally_rollouts(demos, demos.actions, scale=scale, begin=2)
    assert_same(tally_rollouts(spread, spread.actions(), scale=scale, begin=2), here)
    assert_same(here, Reference(demos, scale, 2).tally(demos.actions))


# Intervals


def ratio(above, below):
    with np.errstate(all="ignore"):
        return float(np.divide(above, below))


@given(
    st.integers(0, 12).flatmap(
        lambda n: arrays(float, (2, n), elements=st.floats() | st.sampled_from([0.0, 1.0]) | st.floats(0.5, 2.0))
    ),
    st.booleans(),
)
def test_estimates_of_wild_numbers(rows, positive):
    found = metrics.estimate(ratio, *rows, positive=positive)
    assert isinstance(found, metrics.Estimate)
    assert found.is_sure == (not math.isnan(found.high))
    assert not found.is_sure or (rows.shape[1] >= 6 and found.low <= found.value <= found.high)
    assert not (positive and found.low < 0.0)


@pytest.mark.parametrize("spread", [1e-300, 1e-3, 1e3, 1e150, 1e300])
def test_recordings_however_unlike_have_an_estimate(spread):
    above = np.array([1.0, spread, 1.0, 1.0 / spread, 1.0, spread])
    for rows in ((above, above[::-1]), (above, np.ones(6)), (np.ones(6), above)):
        for positive in (True, False):
            found = metrics.estimate(ratio, *rows, positive=positive)
            assert not found.is_sure or found.low <= found.value <= found.high


@given(st.integers(2, 12), st.integers(0, 99))
def test_the_interval_of_a_mean_is_students(n, seed):
    values = np.random.default_rng(seed).normal(3.0, 1.0, size=n)
    found = metrics.estimate(ratio, values, np.ones(n))
    assert found.value == pytest.approx(values.mean())
    wanted = stats.t.interval(0.95, n - 1, values.mean(), stats.sem(values)) if n >= 6 else (math.nan, math.nan)
    assert (found.low, found.high) == pytest.approx(wanted, nan_ok=True)
    assert found.holds(found.value) == found.is_sure == (n >= 6)


@given(st.integers(6, 12), st.integers(0, 99))
def test_a_ratio_upside_down_has_its_interval_upside_down(n, seed):
    ours, theirs = np.random.default_rng(seed).lognormal(size=(2, n))
    one, other = (
        metrics.estimate(ratio, ours, theirs, positive=True),
        metrics.estimate(ratio, theirs, ours, positive=True),
    )
    assert (1.0 / one.high, 1.0 / one.value, 1.0 / one.low) == pytest.approx((other.low, other.value, other.high))
    same = metrics.estimate(ratio, ours, ours, positive=True)
    assert (same.low, same.value, same.high) == pytest.approx((1.0, 1.0, 1.0))


def test_one_recording_that_decides_whether_there_is_a_number_leaves_no_interval():
    alone = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    assert metrics.estimate(ratio, np.ones(6), alone).value == 6.0
    for rows in ((np.ones(6), alone), (alone, np.ones(6))):
        assert not metrics.estimate(ratio, *rows, positive=True).is_sure


# Messages


@pytest.mark.parametrize("metric", OF_PAIRS)
def test_shapes_must_agree(metric):
    with pytest.raises(DataError, match=r"rolled and expert must have the same shape; got \(4, 1\) and \(5, 1\)"):
        metric(np.zeros((4, 1)), np.zeros((5, 1)))
    with pytest.raises(DataError, match=r"rolled must have shape \(T, k\) with T >= 1; got \(5,\)"):
        metric(np.zeros(5), np.zeros((5, 1)))


@pytest.mark.parametrize("metric", OF_ONE)
def test_actions_must_be_a_table(metric):
    with pytest.raises(DataError, match=r"actions must have shape \(T, k\) with T >= 1; got \(0, 2\)"):
        metric(np.zeros((0, 2)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: metrics.mean_difference(a, order=0), "order must be >= 1; got 0"),
        (lambda a: metrics.mean_difference(a, rate=0.0), "rate must be > 0; got 0.0"),
        (lambda a: metrics.hold_last_action(a, warm_up=-1), "warm_up must be >= 0; got -1"),
    ],
)
def test_messages_name_the_argument_and_the_value(call, message):
    with pytest.raises(ArgumentError) as caught:
        call(motion(TIME))
    assert str(caught.value) == message
