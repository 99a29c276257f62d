"""The closed loop on tensors: by FFT and frame by frame as the loop of the roll-out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simile.models.closed_loop import ClosedLoop
from simile.models.regularizers import Autoregressor, CriticallyDamped

torch = pytest.importorskip("torch")

from simile.models.neural.filtering import filter_signal, follow, impulse_response  # noqa: E402

RNG = np.random.default_rng


def loop_of(lags: list[float], order: int = 3) -> ClosedLoop:
    """A critically damped filter in each dimension, with a lag of its own; they share the largest lambda."""
    h = CriticallyDamped(order)
    smoothness = h.smoothness_for(max(lags))
    columns = []
    for lag in lags:
        poles = np.poly(np.full(order, lag / (order + lag)))
        columns.append(-poles[1:] * (1.0 + smoothness) / smoothness)
    return ClosedLoop.of(Autoregressor(np.stack(columns, axis=1)), smoothness)


lags = st.lists(st.floats(0.2, 60.0), min_size=1, max_size=3)


@given(lags=lags, length=st.integers(1, 300), order=st.integers(1, 4))
def test_the_impulse_response_is_the_loop_s_answer_to_a_single_one(lags, length, order):
    loop = loop_of(lags, order)
    response = impulse_response(loop.taps, length)
    one = np.zeros((order + length, 1))
    one[order] = 1.0
    for j in range(len(lags)):
        whole = loop.forced(one, j)[order:, 0]
        np.testing.assert_allclose(response[:, j], whole[: len(response)], rtol=1e-9, atol=1e-12)
        assert np.abs(whole[len(response) :]).max(initial=0.0) <= 1e-8 * np.abs(whole).max()


@given(lags=lags, n=st.integers(1, 3), length=st.integers(1, 400), seed=st.integers(0, 99))
def test_the_fft_does_what_the_loop_does(lags, n, length, seed):
    loop, inputs = loop_of(lags), RNG(seed).normal(size=(n, length, len(lags)))
    rest = np.zeros((loop.order, n))
    response = impulse_response(loop.taps, length)
    for dtype, digits in ((torch.float32, 1e-5), (torch.float64, 1e-7)):
        found = filter_signal(*(torch.tensor(a, dtype=dtype) for a in (inputs, response))).double().numpy()
        for j in range(len(lags)):
            wanted = loop.forced(np.concatenate([rest, inputs[:, :, j].T]), j)[loop.order :].T
            assert np.abs(found[:, :, j] - wanted).max() <= digits * np.abs(wanted).max()


@given(length=st.integers(1, 100), seed=st.integers(0, 99), low=st.floats(-2.0, -0.1), high=st.floats(0.1, 2.0))
def test_bounds_are_kept_frame_by_frame(length, seed, low, high):
    loop, rng = loop_of([4.0, 9.0]), RNG(seed)
    z, past = rng.normal(size=(3, length, 2)), rng.uniform(low, high, size=(3, 3, 2))
    out = follow(*(torch.tensor(a) for a in (z, loop.taps, past)), *(torch.full((2,), b) for b in (low, high)))
    history = list(np.moveaxis(past, 1, 0))  # the latest first
    for t in range(length):
        forced = z[:, t] - sum(tap * a for tap, a in zip(loop.taps[1:], history, strict=True))
        history = [np.clip(forced / loop.taps[0], np.float32(low), np.float32(high)), *history[:-1]]
        np.testing.assert_allclose(out[:, t], history[0], atol=1e-9)
