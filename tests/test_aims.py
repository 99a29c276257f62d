"""What models of a mixture are fitted to: actions of now and later, and sharpened ones that a filter makes whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simile import SimileError
from simile.learning.aims import DELAYS, FEW, FILTER, LAGS, MU, Aim, choose_aims, label, weigh_ahead
from simile.models.closed_loop import ClosedLoop

RNG = np.random.default_rng
SEEDS = st.integers(0, 2**32)
LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=4)
aims = st.one_of(
    st.builds(Aim, st.integers(0, 50)), st.builds(lambda lag: Aim(lag=lag), st.sampled_from([0.5, 1.0, 4.0, 16.0]))
)


def walks(lengths, k: int, seed: int) -> list[np.ndarray]:
    rng = RNG(seed)
    return [np.cumsum(rng.normal(size=(n, k)), axis=0) for n in lengths]


def loop_of(actions: np.ndarray, lag: float) -> ClosedLoop:
    """The filter that a sharpened aim is made for."""
    smoothness = FILTER.smoothness_for(lag)
    return ClosedLoop.of(FILTER.fit([actions], smoothness), smoothness)


def missed(z: np.ndarray, actions: np.ndarray, lag: float) -> float:
    """How far a filter over z is from the actions."""
    return float(np.sqrt(np.mean((loop_of(actions, lag).roll(z, actions) - actions) ** 2)))


# ------------------------------------------------------------------------------------------------------ one aim


@given(st.integers(0, 60), st.integers(1, 40), st.integers(1, 3), SEEDS)
def test_an_aim_ahead_is_the_action_of_so_many_frames_later_and_the_last_one_lasts(ahead, length, k, seed):
    (a,) = walks([length], k, seed)
    found = Aim(ahead).of(a)
    assert found.shape == a.shape
    for t in range(length):
        np.testing.assert_array_equal(found[t], a[min(t + ahead, length - 1)])


@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 40), SEEDS)
def test_ahead_of_what_is_ahead_is_as_far_ahead_as_both(one: int, other: int, length: int, seed: int):
    (a,) = walks([length], 2, seed)
    np.testing.assert_array_equal(Aim(one).of(Aim(other).of(a)), Aim(one + other).of(a))


def test_the_aim_of_now_is_the_action_itself_and_not_the_same_memory():
    (a,) = walks([12], 2, 0)
    found = Aim().of(a)
    np.testing.assert_array_equal(found, a)
    assert not np.shares_memory(found, a)


@given(aims, st.integers(1, 40), SEEDS)
def test_nothing_that_is_given_is_written_to(aim: Aim, length: int, seed: int):
    (a,) = walks([length], 2, seed)
    kept = a.copy()
    assert np.isfinite(aim.of(a)).all()
    np.testing.assert_array_equal(a, kept)


@pytest.mark.parametrize("lag", LAGS)
def test_a_filter_of_that_lag_over_a_sharpened_action_nearly_gives_the_action_back(lag: float):
    t = np.arange(300.0)[:, np.newaxis]
    actions = np.hstack([np.sin(t / 15.0), np.cos(t / 20.0) + 0.3 * np.sin(t / 10.0), 3.0 + t / 100.0])
    sharpened = Aim(lag=lag).of(actions)
    assert missed(sharpened, actions, lag) < 0.01
    assert missed(sharpened, actions, lag) < 0.15 * missed(actions, actions, lag)
    # A filter that lags by more or less does not.
    assert missed(sharpened, actions, 2.0 * lag) > 5.0 * missed(sharpened, actions, lag)
    assert missed(sharpened, actions, 0.5 * lag) > 5.0 * missed(sharpened, actions, lag)


@given(st.floats(0.1, 40.0), st.integers(1, 80), st.integers(1, 2), SEEDS)
def test_a_filter_over_a_sharpened_action_is_never_further_from_it_than_over_the_action(lag, length, k, seed):
    (a,) = walks([length], k, seed)
    sharpened, loop = Aim(lag=lag).of(a), loop_of(a, lag)
    rolled = loop.roll(sharpened, a)
    gained = np.sum((loop.roll(a, a) - a) ** 2) - np.sum((rolled - a) ** 2)
    assert gained >= MU * np.sum((sharpened - a) ** 2) - 1e-6 * np.sum(a**2)  # what it is held back by is paid for


@given(st.floats(0.1, 40.0), st.integers(1, 30), SEEDS)
def test_what_is_sharpened_begins_with_the_action_and_rests_where_it_rests(lag: float, length: int, seed: int):
    (a,) = walks([length], 2, seed)
    order = loop_of(a, lag).order
    np.testing.assert_array_equal(Aim(lag=lag).of(a)[:order], a[:order])
    still = np.broadcast_to(a[:1], a.shape).copy()
    np.testing.assert_allclose(Aim(lag=lag).of(still), still, rtol=1e-6, atol=1e-6)


def test_each_action_is_sharpened_by_itself():
    a, other = walks([60, 60], 3, 1)
    beside = np.column_stack([a[:, 0], other[:, 1:]])
    for lag in LAGS:
        np.testing.assert_array_equal(Aim(lag=lag).of(beside)[:, 0], Aim(lag=lag).of(a)[:, 0])


@pytest.mark.parametrize(
    ("aim", "rate", "told"),
    [
        (Aim(), None, "now"),
        (Aim(), 25.0, "now"),
        (Aim(1), None, "1 frame ahead"),
        (Aim(8), None, "8 frames ahead"),
        (Aim(16), 30.0, "0.533 s ahead"),
        (Aim(lag=1.0), None, "sharpened by 1 frame"),
        (Aim(lag=2.5), None, "sharpened by 2.5 frames"),
        (Aim(lag=16.0), 60.0, "sharpened by 0.267 s"),
    ],
)
def test_an_aim_is_told_in_seconds_or_frames(aim: Aim, rate, told: str):
    assert aim.tell(rate) == told


# ------------------------------------------------------------------------------------------------------- choices


@given(st.floats(1.0, 500.0))
def test_aims_are_as_many_frames_at_low_rates_and_as_long_at_high_ones(rate: float):
    found, plain = choose_aims(rate, lags=LAGS), choose_aims(None, lags=LAGS)
    assert len(found) == len(plain) == len(DELAYS) + len(LAGS)
    if rate <= 30.0:
        assert found == plain
    for one, delay in zip(found, DELAYS, strict=False):
        assert one.lag == 0.0
        assert abs(one.ahead - delay * max(1.0, rate / 30.0)) <= 0.5
    for one, lag in zip(found[len(DELAYS) :], LAGS, strict=True):
        assert one.ahead == 0
        assert one.lag == pytest.approx(lag * max(1.0, rate / 30.0))
    assert len({one.tell(rate) for one in found}) == len(found)  # each has a name of its own


def test_aims_that_are_the_same_are_chosen_once_and_the_present_comes_first():
    assert choose_aims(None, (0, 8, 8)) == (Aim(), Aim(8))
    assert choose_aims(31.0, (0, 1, 2))[0] == Aim()
    assert [aim.ahead for aim in choose_aims(None, FEW)] == [0, 8, 24]
    assert choose_aims(None) == tuple(map(Aim, DELAYS))


def test_a_rate_that_is_none_is_refused():
    for rate in (0.0, -30.0, float("nan")):
        with pytest.raises(SimileError, match="rate must be > 0"):
            choose_aims(rate)


# ------------------------------------------------------------------------------------------- labels and weights


@given(LENGTHS, st.integers(1, 3), st.lists(aims, min_size=1, max_size=4), SEEDS)
def test_labels_are_aim_by_aim_and_no_sequence_looks_into_the_next(lengths, k: int, several, seed: int):
    actions = walks(lengths, k, seed)
    found = label(actions, several)
    assert found.shape == (sum(lengths), len(several) * k)
    begin = 0
    for a in actions:
        for i, aim in enumerate(several):
            np.testing.assert_array_equal(found[begin : begin + len(a), i * k : (i + 1) * k], aim.of(a))
        begin += len(a)


def naive_weights(weights: list[np.ndarray], several) -> np.ndarray:
    """The least weight of what is aimed at, a number at a time."""
    return np.array(
        [
            [min(w[min(t + aim.ahead, len(w) - 1), j] for aim in several) for j in range(w.shape[1])]
            for w in weights
            for t in range(len(w))
        ]
    )


@given(LENGTHS, st.integers(1, 3), st.lists(aims, min_size=1, max_size=4), SEEDS)
def test_a_frame_counts_no_more_than_any_action_that_it_aims_at(lengths, k: int, several, seed: int):
    weights = [RNG(seed).uniform(size=(n, k)) for n in lengths]
    found = weigh_ahead(weights, several)
    np.testing.assert_array_equal(found, naive_weights(weights, several))
    alone = np.stack([weigh_ahead(weights, [aim]) for aim in several])
    np.testing.assert_array_equal(found, alone.min(axis=0))


@given(LENGTHS, st.integers(1, 2), SEEDS)
def test_of_the_present_alone_frames_count_as_they_did(lengths, k: int, seed: int):
    weights = [RNG(seed).uniform(size=(n, k)) for n in lengths]
    for several in ([Aim()], [Aim(lag=4.0)], [Aim(), Aim(lag=8.0)]):
        np.testing.assert_array_equal(weigh_ahead(weights, several), np.concatenate(weights))


def test_what_does_not_count_is_not_aimed_at():
    weights = [np.ones((30, 1))]
    weights[0][20] = 0.0
    found = weigh_ahead(weights, choose_aims(None))[:, 0]
    assert np.flatnonzero(found == 0.0).tolist() == sorted(20 - ahead for ahead in DELAYS if ahead <= 20)
