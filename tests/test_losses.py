"""Every metric against hand-computed values, a naive twin, and the properties its docstring claims."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from simile.data import losses
from simile.errors import ArgumentError, DataError

ERRORS = [losses.mean_squared_error, losses.root_mean_squared_error, losses.mean_absolute_error]
OF_PAIRS = [*ERRORS, losses.lag, losses.overshoot]
OF_ONE = [
    losses.mean_difference,
    losses.total_variation,
    losses.spectral_arc_length,
    losses.log_dimensionless_jerk,
    losses.high_frequency_ratio,
]
# the power of the actions' unit that each metric comes in
DEGREE = {
    losses.mean_squared_error: 2,
    losses.root_mean_squared_error: 1,
    losses.mean_absolute_error: 1,
    losses.mean_difference: 1,
    losses.total_variation: 1,
}
TIME = np.arange(400.0)


def column(*values):
    return np.array(values, dtype=float)[:, np.newaxis]


def motion(time):
    """A smooth band-limited motion, sampled at any times."""
    return (np.sin(0.05 * time) + 0.5 * np.sin(0.13 * time + 1.0) + 0.2 * np.sin(0.31 * time))[:, np.newaxis]


def minimum_jerk(n):
    s = np.linspace(0.0, 1.0, n)[:, np.newaxis]
    return 10 * s**3 - 15 * s**4 + 6 * s**5


@st.composite
def action_pairs(draw, min_frames=1):
    shape = (draw(st.integers(min_frames, 24)), draw(st.integers(1, 3)))
    # no tiny numbers: their squares lose bits, and scaling would not be exact
    values = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e3, 1e3).map(lambda v: round(v, 6)))
    return draw(arrays(float, shape, elements=values)), draw(arrays(float, shape, elements=values))


# Naive twins


def naive_spectral_arc_length(position, rate):
    """As published by Balasubramanian (github.com/siva82kb/smoothness), frequencies and all."""
    speed = np.abs(np.diff(position)) * rate
    n = int(2 ** (np.ceil(np.log2(len(speed))) + 4))
    frequency = np.arange(n) * rate / n
    amplitude = np.abs(np.fft.fft(speed, n))
    amplitude = amplitude / amplitude.max()
    below = frequency <= min(10.0, rate / 2)
    frequency, amplitude = frequency[below], amplitude[below]
    chosen = np.flatnonzero(amplitude >= 0.05)
    part = slice(chosen[0], chosen[-1] + 1)
    frequency, amplitude = frequency[part], amplitude[part]
    steps = np.diff(frequency) / (frequency[-1] - frequency[0])
    return -sum(math.hypot(f, a) for f, a in zip(steps, np.diff(amplitude), strict=True))


def naive_log_dimensionless_jerk(position, rate):
    step = 1.0 / rate
    speed = np.diff(position) / step
    jerk = np.diff(speed, n=2) / step**2
    duration = len(speed) * step
    return -math.log(duration**3 / np.abs(speed).max() ** 2 * sum(jerk**2) * step)


def naive_high_frequency_ratio(position, cutoff):
    frames = len(position)
    n = np.arange(frames)
    signal = (position - position.mean()) * np.sin(np.pi * (n + 1) / (frames + 1)) ** 2
    power = [abs(sum(signal * np.exp(-2j * np.pi * f * n / frames))) ** 2 for f in range(frames)]
    return sum(p for f, p in enumerate(power) if min(f, frames - f) / frames > cutoff / 2) / sum(power)


def naive_lag(rolled, expert, max_lag):
    """Whole frames: the best shift by one loop over shifts."""
    r, e = rolled - rolled.mean(), expert - expert.mean()
    best, best_shift = -2.0, None
    for shift in sorted(range(-max_lag, max_lag + 1), key=abs):
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
        (losses.mean_squared_error, [5.0, 0.0, 8.0]),
        (losses.root_mean_squared_error, [5.0**0.5, 0.0, 8.0**0.5]),
        (losses.mean_absolute_error, [2.0, 0.0, 2.0]),
    ],
)
def test_errors_by_hand(metric, wanted):
    rolled = np.array([[0.0, 1.0, 4.0], [2.0, 1.0, 0.0]])
    expert = np.array([[1.0, 1.0, 0.0], [5.0, 1.0, 0.0]])
    np.testing.assert_array_equal(metric(rolled, expert), wanted)


@settings(max_examples=40, deadline=None)
@given(action_pairs())
def test_errors_are_symmetric_and_ordered(pair):
    for metric in ERRORS:
        np.testing.assert_array_equal(metric(*pair), metric(*pair[::-1]))
        np.testing.assert_array_equal(metric(pair[0], pair[0]), 0.0)
    rms, mean = losses.root_mean_squared_error(*pair), losses.mean_absolute_error(*pair)
    assert (rms >= mean * (1 - 1e-12)).all()


# Differences


def test_mean_difference_by_hand():
    actions = column(0, 1, 4, 9)
    assert losses.mean_difference(actions) == 3.0
    assert losses.mean_difference(actions, order=2) == 2.0
    assert losses.mean_difference(actions, order=3) == 0.0
    assert losses.mean_difference(actions, order=2, rate=10.0) == 200.0


@pytest.mark.parametrize("order", [1, 2, 3, 7])
@pytest.mark.parametrize("frames", [1, 2, 3, 4])
def test_mean_difference_needs_more_frames_than_its_order(order, frames):
    value = losses.mean_difference(np.eye(frames, 3), order=order)
    assert value.shape == (3,)
    assert (np.isnan(value) == (frames <= order)).all()


def test_total_variation_by_hand():
    np.testing.assert_array_equal(losses.total_variation(np.array([[0.0, 5.0], [1.0, 5.0], [-1.0, 5.0]])), [3.0, 0.0])
    assert losses.total_variation(column(7)) == 0.0


# Smoothness


@pytest.mark.parametrize("rate", [1.0, 15.0, 30.0, 100.0])
@pytest.mark.parametrize("frames", [4, 5, 33, 34, 200])
def test_smoothness_equals_the_published_code(frames, rate):
    actions = np.random.default_rng(frames).normal(size=(frames, 3)).cumsum(axis=0)
    wanted = [naive_spectral_arc_length(a, rate) for a in actions.T]
    np.testing.assert_allclose(losses.spectral_arc_length(actions, rate=rate), wanted, rtol=1e-10)
    wanted = [naive_log_dimensionless_jerk(a, rate) for a in actions.T]
    np.testing.assert_allclose(losses.log_dimensionless_jerk(actions), wanted, rtol=1e-10)


@pytest.mark.parametrize("frames", [2, 3, 8, 31])
@pytest.mark.parametrize("cutoff", [0.0, 0.2, 0.55, 1.0])
def test_high_frequency_ratio_equals_the_naive_twin(frames, cutoff):
    actions = np.random.default_rng(frames).normal(size=(frames, 3))
    wanted = [naive_high_frequency_ratio(a, cutoff) for a in actions.T]
    np.testing.assert_allclose(losses.high_frequency_ratio(actions, cutoff=cutoff), wanted, rtol=1e-9, atol=1e-12)


def test_smoother_is_higher():
    noise = np.random.default_rng(0).normal(size=(200, 1))
    noisy = [minimum_jerk(200) + scale * noise for scale in (0.0, 0.001, 0.01, 0.1)]
    for metric in (partial(losses.spectral_arc_length, rate=30.0), losses.log_dimensionless_jerk):
        values = [metric(a).item() for a in noisy]
        assert values == sorted(values, reverse=True)
    rough = [losses.high_frequency_ratio(a).item() for a in noisy]
    assert rough == sorted(rough)


def test_minimum_jerk_motion_has_its_known_jerk():
    # The squared third derivative of 10 s^3 - 15 s^4 + 6 s^5 integrates to 720; its peak speed is 15 / 8.
    value = losses.log_dimensionless_jerk(minimum_jerk(20_001))
    np.testing.assert_allclose(value, -math.log(720 / (15 / 8) ** 2), rtol=1e-3)


def test_motion_without_jerk_is_infinitely_smooth():
    assert losses.log_dimensionless_jerk(column(0, 1, 2, 3, 4)) == math.inf


def test_arc_length_too_short_to_resolve_the_cut_off_is_nan():
    assert np.isnan(losses.spectral_arc_length(column(0, 1, 3), rate=1e6))


def test_high_frequency_ratio_tells_slow_from_fast():
    alternating = np.where(TIME % 2 == 0, 1.0, -1.0)
    ratio = losses.high_frequency_ratio(np.stack([np.sin(0.05 * TIME), alternating], axis=1))
    np.testing.assert_allclose(ratio, [0.0, 1.0], atol=1e-4)


# Lag


@pytest.mark.parametrize("delay", [-20, -7.3, -1, 0, 0.25, 0.5, 1, 2.5, 7, 33.8])
def test_lag_recovers_the_delay(delay):
    late = losses.lag(motion(TIME - delay), motion(TIME))
    np.testing.assert_allclose(late, delay, atol=0.05 + 0.01 * abs(delay))


def test_lag_of_each_dimension_is_its_own():
    rolled = np.hstack([motion(TIME - 5), -2.0 * motion(TIME), motion(TIME + 3)])
    expert = np.hstack([motion(TIME), -motion(TIME), 40.0 + 1e-3 * motion(TIME)])
    np.testing.assert_allclose(losses.lag(rolled, expert), [5.0, 0.0, -3.0], atol=0.1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("frames", "max_lag"), [(40, 10), (60, 30), (200, 50)])
def test_lag_equals_brute_force(seed, frames, max_lag):
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=frames + 20)
    delay = int(rng.integers(-8, 9))
    expert = noise[10:-10]
    rolled = noise[10 - delay : 10 - delay + frames] + 0.3 * rng.normal(size=frames)
    value = losses.lag(rolled[:, np.newaxis], expert[:, np.newaxis], max_lag=max_lag).item()
    assert abs(value - naive_lag(rolled, expert, max_lag)) <= 0.5
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
    np.testing.assert_allclose(losses.lag(actions[:, np.newaxis], actions[:, np.newaxis]), 0.0, atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(action_pairs(min_frames=4), st.integers(0, 30))
def test_lag_stays_within_its_limit(pair, max_lag):
    value = losses.lag(*pair, max_lag=max_lag)
    defined = ~np.isnan(value)
    assert (np.abs(value[defined]) <= min(max_lag, len(pair[0]) // 2)).all()
    moving = (np.ptp(pair[0], axis=0) > 0) & (np.ptp(pair[1], axis=0) > 0)
    np.testing.assert_array_equal(defined, moving)


def test_lag_turns_with_its_arguments():
    rolled, expert = motion(TIME - 6.5), motion(TIME)
    np.testing.assert_allclose(losses.lag(rolled, expert), -losses.lag(expert, rolled), rtol=1e-9)


def test_lag_at_the_limit_is_the_limit():
    np.testing.assert_array_equal(losses.lag(motion(TIME - 30), motion(TIME), max_lag=10), 10.0)
    np.testing.assert_array_equal(losses.lag(motion(TIME - 30), motion(TIME), max_lag=0), 0.0)


def test_two_rests_are_no_evidence_of_lag():
    rolled, expert = np.zeros((400, 1)), np.zeros((400, 1))
    rolled[10], expert[390] = 1.0, 1.0  # without their impulses, the parts left by a shift of 20 are alike
    np.testing.assert_allclose(losses.lag(rolled, expert), 0.0, atol=0.5)


def test_lag_of_a_long_sequence():
    walk = np.random.default_rng(0).normal(size=(100_007, 1)).cumsum(axis=0)
    np.testing.assert_allclose(losses.lag(walk[:-7], walk[7:]), 7.0, atol=0.1)


# Overshoot and the baseline


def test_overshoot_by_hand():
    expert = np.array([[0.0, 0.0, 0.0, 1.0], [4.0, 4.0, 4.0, 1.0]])
    rolled = np.array([[1.0, -1.0, -1.0, 1.0], [4.0, 4.0, 7.0, 2.0]])
    np.testing.assert_array_equal(losses.overshoot(rolled, expert), [0.0, 0.25, 0.75, np.nan])


@pytest.mark.parametrize(
    ("warm_up", "wanted"), [(0, [1, 1, 1]), (1, [1, 1, 1]), (2, [1, 2, 2]), (3, [1, 2, 3]), (9, [1, 2, 3])]
)
def test_hold_last_action_by_hand(warm_up, wanted):
    expert = np.hstack([column(1, 2, 3), column(-1, -2, -3)])
    expert.setflags(write=False)
    held = losses.hold_last_action(expert, warm_up=warm_up)
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


@settings(max_examples=40, deadline=None)
@given(action_pairs())
def test_ranges(pair):
    ratio = losses.high_frequency_ratio(pair[0])
    assert ((ratio >= 0) & (ratio <= 1) | np.isnan(ratio)).all()
    assert not (losses.overshoot(*pair) < 0).any()
    assert not (losses.spectral_arc_length(pair[0]) > -1 + 1e-9).any()
    np.testing.assert_array_equal(np.nan_to_num(losses.overshoot(pair[0], pair[0])), 0.0)


@pytest.mark.parametrize("frames", [1, 2, 3, 4, 50])
def test_constants(frames):
    still = np.full((frames, 3), 0.1)  # whose mean is not exactly 0.1
    np.testing.assert_array_equal(losses.total_variation(still), 0.0)
    for metric in (losses.spectral_arc_length, losses.log_dimensionless_jerk, losses.high_frequency_ratio):
        np.testing.assert_array_equal(metric(still), [np.nan] * 3)
    moving = np.arange(3.0 * frames).reshape(frames, 3)
    for pair in ((still, still), (still, moving), (moving, still)):
        np.testing.assert_array_equal(losses.lag(*pair), [np.nan] * 3)
    np.testing.assert_array_equal(losses.overshoot(moving, still), [np.nan] * 3)


@pytest.mark.parametrize("frames", [1, 2, 3])
def test_too_short_for_lag_and_jerk(frames):
    actions = np.random.default_rng(0).normal(size=(frames, 3))
    np.testing.assert_array_equal(losses.lag(actions, actions), [np.nan] * 3)
    np.testing.assert_array_equal(losses.log_dimensionless_jerk(actions), [np.nan] * 3)


@pytest.mark.parametrize("value", [1.7e308, 1e200, 1e-200, 5e-324, math.inf, math.nan])
def test_extreme_numbers_are_measured_without_warnings(value):
    rolled = np.random.default_rng(0).choice([-1.0, 0.5, 1.0], size=(50, 1)) * value
    expert = -rolled[::-1]
    for metric in OF_PAIRS:
        assert metric(rolled, expert).shape == (1,)
    for metric in OF_ONE:
        assert metric(rolled).shape == (1,)
    if 0 < value < math.inf:
        for metric in (
            losses.spectral_arc_length,
            losses.log_dimensionless_jerk,
            losses.high_frequency_ratio,
        ):
            assert np.isfinite(metric(rolled)).all()
        assert np.isfinite(losses.lag(rolled, expert)).all()


def test_arguments_are_left_alone():
    rolled, expert = motion(TIME - 2), motion(TIME)
    for array in (rolled, expert):
        array.setflags(write=False)
    for metric in OF_PAIRS:
        metric(rolled, expert)
    for metric in OF_ONE:
        metric(rolled)


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
        (lambda a: losses.mean_difference(a, order=0), "order must be >= 1; got 0"),
        (lambda a: losses.mean_difference(a, rate=0.0), "rate must be > 0; got 0.0"),
        (lambda a: losses.spectral_arc_length(a, rate=-1.0), "rate must be > 0; got -1.0"),
        (lambda a: losses.high_frequency_ratio(a, cutoff=2.0), "cutoff must be >= 0 and <= 1; got 2.0"),
        (lambda a: losses.lag(a, a, max_lag=-1), "max_lag must be >= 0; got -1"),
        (lambda a: losses.lag(a, a, max_lag=1.5), "max_lag must be a whole number; got 1.5"),
        (lambda a: losses.hold_last_action(a, warm_up=-1), "warm_up must be >= 0; got -1"),
    ],
)
def test_messages_name_the_argument_and_the_value(call, message):
    with pytest.raises(ArgumentError) as caught:
        call(motion(TIME))
    assert str(caught.value) == message
