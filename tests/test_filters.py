"""Filters: causal, from a known start, the same in one go and step by step, and what the literature says they are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simile
from simile.evaluation.rivals.filters import EMA, Filter, Follower, Kalman, OneEuro

KINDS = (EMA, Follower, lambda s: Follower(s, order=3), Kalman, OneEuro, lambda s: OneEuro(s, beta=2.0))
strengths = st.sampled_from((0.0, 0.3, 1.0, 7.0, 60.0, 1000.0))


def signal(length: int = 80, k: int = 2, seed: int = 0) -> np.ndarray:
    return np.cumsum(np.random.default_rng(seed).normal(size=(length, k)), axis=0)


@given(st.sampled_from(KINDS), strengths, st.integers(0, 60), st.integers(1, 3), st.integers(0, 99))
def test_a_recording_and_a_stream_are_filtered_alike_and_stay_finite(kind, strength, length, k, seed):
    found, raw, past = kind(strength), signal(length, k, seed), signal(4, k, seed + 100)
    assert isinstance(found, Filter)
    state, stepped = found.start(past), np.empty((length, k))
    for t in range(length):
        state, stepped[t] = found.step(state, raw[t])
    whole = found.run(raw, past)
    assert whole.shape == raw.shape
    assert np.isfinite(whole).all()
    np.testing.assert_allclose(whole, stepped, rtol=1e-9, atol=1e-7)


@given(st.sampled_from(KINDS), strengths, st.integers(1, 79))
def test_no_filter_sees_the_future(kind, strength, cut):
    raw, past = signal(), signal(4, seed=9)
    changed = raw.copy()
    changed[cut:] += 100.0
    np.testing.assert_array_equal(kind(strength).run(raw, past)[:cut], kind(strength).run(changed, past)[:cut])


@pytest.mark.parametrize("kind", KINDS)
def test_strength_zero_changes_nothing(kind):
    raw = signal()
    np.testing.assert_allclose(kind(0.0).run(raw, signal(3, seed=4)), raw, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_signal_at_rest_stays_there_and_more_strength_is_smoother(kind):
    still = np.full((30, 1), 5.0)
    np.testing.assert_allclose(kind(9.0).run(still, still[:3]), still, rtol=1e-9)
    raw = np.random.default_rng(0).normal(size=(500, 1))
    rough = [np.abs(np.diff(kind(s).run(raw, 0.0 * raw[:3]), n=2, axis=0)).mean() for s in (0.0, 1.0, 4.0, 16.0, 64.0)]
    assert rough == sorted(rough, reverse=True)


def test_a_follower_lags_behind_a_ramp_by_its_strength_and_a_kalman_filter_does_not():
    ramp = np.arange(2000.0)[:, np.newaxis]
    for order in (1, 2, 3):
        late = ramp - Follower(12.0, order).run(ramp, ramp[:3] - 3.0)
        assert late[-1, 0] == pytest.approx(12.0, abs=1e-6)
    assert (ramp - Kalman(12.0).run(ramp, ramp[:3] - 3.0))[-1, 0] == pytest.approx(0.0, abs=1e-6)


def test_kalman_gains_solve_the_riccati_equation():
    from scipy.linalg import solve_discrete_are

    for strength in (0.7, 2.0, 30.0):
        found = Kalman(strength)
        step, seen, push = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]]), np.array([[0.5], [1.0]])
        covariance = solve_discrete_are(step.T, seen.T, found.ratio**2 * push @ push.T, np.eye(1))
        np.testing.assert_allclose(found.gains, (covariance @ seen.T / (covariance[0, 0] + 1.0)).ravel(), rtol=1e-6)


def test_one_euro_is_the_filter_of_casiez_and_others():
    rate, mincutoff, beta, dcutoff = 60.0, 0.8, 0.4, 1.0
    raw, past = signal(k=1), np.array([[0.5], [0.5]])

    def alpha(cutoff: float) -> float:
        return 1.0 / (1.0 + 1.0 / (2.0 * math.pi * cutoff) * rate)

    place, speed, expected = 0.5, 0.0, []
    for value in raw[:, 0]:  # Algorithm 1 and the listing of the paper's appendix
        speed = alpha(dcutoff) * (value - place) * rate + (1.0 - alpha(dcutoff)) * speed
        share = alpha(mincutoff + beta * abs(speed))
        place = share * value + (1.0 - share) * place
        expected.append(place)
    found = OneEuro.of(mincutoff, beta, dcutoff, rate=rate).run(raw, past)
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-9)


def test_one_euro_without_beta_is_the_average_and_with_it_less_late():
    ramp = np.arange(300.0)[:, np.newaxis]
    np.testing.assert_allclose(OneEuro(9.0).run(ramp, ramp[:2]), EMA(9.0).run(ramp, ramp[:2]), rtol=1e-12)
    assert OneEuro(9.0, beta=1.0).run(ramp, ramp[:2])[-1] > OneEuro(9.0).run(ramp, ramp[:2])[-1] + 5.0


@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_follower_is_a_smooth_policy_of_the_paper(order):
    found = Follower(6.0, order)
    h = found.regularizer.fit([np.zeros((9, 1))], found.smoothness)
    past, raw = signal(order, 1), signal(50, 1, seed=1)
    rolled = list(past)
    for value in raw:
        history = np.array(rolled[: -order - 1 : -1])[np.newaxis]
        rolled.append((value + found.smoothness * h(history)[0]) / (1.0 + found.smoothness))
    np.testing.assert_allclose(found.run(raw, past), rolled[order:], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: EMA(-1.0), "strength"),
        (lambda: Follower(1.0, order=0), "order"),
        (lambda: EMA(1.0, order=2), "order"),
        (lambda: Kalman(math.nan), "strength"),
        (lambda: OneEuro(1.0, beta=-1.0), "beta"),
        (lambda: OneEuro(1.0, dcutoff=0.0), "dcutoff"),
        (lambda: OneEuro.of(0.0, rate=30.0), "mincutoff"),
        (lambda: Kalman(1.0).start(np.zeros((1, 1))), "past"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(make, name):
    with pytest.raises(simile.ArgumentError, match=name):
        make()
