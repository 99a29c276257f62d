"""The closed loop on tensors: by FFT as frame by frame, values and gradients, and as the loop of the roll-out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simile.models.closed_loop import ClosedLoop
from simile.models.regularizers import Autoregressor, CriticallyDamped

torch = pytest.importorskip("torch")

from simile.models.neural.filtering import filter_signal, follow, impulse_response, recur  # noqa: E402
from simile.models.neural.through import Aims, batches  # noqa: E402

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
def test_the_fft_does_what_the_loop_does_values_and_gradients(lags, n, length, seed):
    loop, k = loop_of(lags), len(lags)
    taps = torch.tensor(loop.taps)
    inputs, wanted = RNG(seed).normal(size=(2, n, length, k))
    found = {}
    for name, dtype in (("single", torch.float32), ("loop", torch.float64)):
        z = torch.tensor(inputs, dtype=dtype, requires_grad=True)
        response = torch.tensor(impulse_response(loop.taps, length), dtype=dtype)
        out = filter_signal(z, response) if name == "single" else recur(z, taps)
        ((out - torch.tensor(wanted, dtype=dtype)) ** 2).sum().backward()
        found[name] = out.detach().double().numpy(), z.grad.double().numpy()
    for single, loop_by_loop in zip(found["single"], found["loop"], strict=True):
        scale = np.abs(loop_by_loop).max() + 1e-12
        assert np.abs(single - loop_by_loop).max() <= 1e-5 * scale


@given(lag=st.floats(0.5, 30.0), length=st.integers(4, 200), seed=st.integers(0, 99))
def test_the_error_of_a_roll_out_is_the_filtered_gap_to_what_f_should_say(lag, length, seed):
    loop, rng = loop_of([lag, 1.0]), RNG(seed)
    expert, z = np.cumsum(rng.normal(size=(length, 2)), axis=0) / 10.0, rng.normal(size=(length, 2))
    aims = Aims.of([expert], loop, 0.0, torch.device("cpu"))
    rows = torch.arange(length)[None]
    loss = float(aims.loss(torch.tensor(z, dtype=torch.float32)[None], rows, torch.ones(1, length)))
    assert loss == pytest.approx(np.mean((loop.roll(z, expert) - expert) ** 2), rel=1e-3, abs=1e-9)


def test_bending_is_charged_for_by_the_fourth_power_of_the_lag():
    loop, rng = loop_of([5.0]), RNG(0)
    expert, z = rng.normal(size=(2, 60, 1))
    rows, real = torch.arange(60)[None], torch.ones(1, 60)
    free, charged = (
        float(
            Aims.of([expert], loop, bend, torch.device("cpu")).loss(
                torch.tensor(z, dtype=torch.float32)[None], rows, real
            )
        )
        for bend in (0.0, 0.1)
    )
    bends = np.diff(loop.roll(z, expert), n=2, axis=0)
    assert charged - free == pytest.approx(0.1 * 5.0**4 * np.mean(bends**2), rel=1e-3)


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


@given(
    lengths=st.lists(st.integers(1, 900), min_size=1, max_size=5),
    frames=st.integers(1, 3000),
    seed=st.integers(0, 99),
)
def test_the_pieces_of_an_epoch_are_all_frames_once_but_for_ends_too_short_for_the_filter(lengths, frames, seed):
    loop = loop_of([3.0], order=7)
    aims = Aims.of([np.ones((n, 1)) for n in lengths], loop, 0.0, torch.device("cpu"))
    pieces = list(aims.pieces(np.arange(len(lengths)), RNG(seed)))
    rows = np.concatenate([np.empty(0, int), *pieces])
    assert len(np.unique(rows)) == len(rows)
    assert sum(lengths) - len(rows) <= 2 * loop.order * len(lengths)
    taken = [r[m.bool()] for r, m in batches(pieces, frames, torch.device("cpu"))]
    assert sorted(np.concatenate([np.empty(0, int), *taken])) == sorted(rows)
