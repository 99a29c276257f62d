"""The closed loop of a linear h as a filter: against roll-outs, and against loops written out."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter, lfiltic

from simile import CriticallyDamped, Demonstrations, Horizon, PreviousAction, SmoothPolicy, interpolate, rollout
from simile.models.closed_loop import ClosedLoop, _compensate
from simile.models.kernels.filtering import filter_frames
from simile.models.regularizers import Autoregressor

RNG = np.random.default_rng
SEEDS = st.integers(0, 2**32)
LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=4)


@dataclass(frozen=True, eq=False)
class Table:
    """f looks its answer up: the context is the number of a row."""

    outputs: np.ndarray

    def predict(self, S: np.ndarray) -> np.ndarray:
        return self.outputs[S[:, 0].astype(int)]


def stable(seed: int, k: int = 1, order: int = 3) -> tuple[Autoregressor, float]:
    """A random h of another filter in every dimension, and a lambda."""
    rng = RNG(seed)
    h = Autoregressor(rng.normal(size=(order, k)) / order)
    smoothness = float(rng.choice([0.0, 0.3, 5.0, 60.0]))
    return h.stabilized(smoothness), smoothness


def numbered(lengths, k: int, seed: int) -> tuple[Demonstrations, np.ndarray]:
    """Demonstrations whose context is the frame's number, and outputs of f for every frame."""
    rng, total = RNG(seed), sum(lengths)
    ends = np.cumsum(lengths)[:-1]
    actions = np.split(rng.normal(size=(total, k)), ends)
    return Demonstrations.from_arrays(np.split(np.arange(total), ends), actions), rng.normal(size=(total, k))


def split(outputs: np.ndarray, demos: Demonstrations) -> list[np.ndarray]:
    return np.split(outputs, np.cumsum([len(d) for d in demos])[:-1])


@given(SEEDS, st.integers(1, 3), st.integers(1, 4), st.integers(1, 40))
def test_a_loop_has_the_bits_of_scipys_filter(seed, k, order, frames):
    h, smoothness = stable(seed, k, order)
    loop, rng = ClosedLoop.of(h, smoothness), RNG(seed)
    z, expert = rng.normal(size=(2, frames, k))
    rolled, forced = loop.roll(z, expert), loop.forced(z, k - 1)
    for j, taps in enumerate(loop.taps.T if frames > order else ()):
        begin = lfiltic([1.0], taps, expert[:order][::-1, j])
        np.testing.assert_array_equal(rolled[order:, j], lfilter([1.0], taps, z[order:, j], zi=begin)[0])
    np.testing.assert_array_equal(rolled[:order], expert[:order])
    np.testing.assert_array_equal(forced[order:], lfilter([1.0], loop.taps[:, -1], z[order:], axis=0))


@given(st.integers(0, 3), st.integers(1, 9), SEEDS)
def test_the_filter_has_the_bits_of_scipys_in_one_piece_or_two(order: int, columns: int, seed: int):
    rng = RNG(seed)
    Z, lead, taps = rng.normal(size=(30, columns)), rng.uniform(1.0, 9.0), rng.normal(size=order) / 3.0
    twin = lfilter([1.0], [lead, *taps], Z, axis=0)
    out, past = np.empty_like(Z), np.zeros((order + 1, columns))
    cut = int(rng.integers(31))
    for part in (slice(0, cut), slice(cut, 30)):
        filter_frames(1.0 / lead, taps / lead, Z[part], past, out[part])
    np.testing.assert_array_equal(out, twin)


def naive_roll(h: Autoregressor, smoothness: float, z: np.ndarray, expert: np.ndarray) -> np.ndarray:
    """Eq. 2, a frame and a dimension at a time."""
    a = expert.copy()
    for t in range(h.order, len(z)):
        for j in range(z.shape[1]):
            past = sum(h.coefficients[i, j] * a[t - 1 - i, j] for i in range(h.order))
            a[t, j] = (z[t, j] + smoothness * past) / (1.0 + smoothness)
    return a


@given(LENGTHS, st.integers(1, 3), st.integers(1, 4), SEEDS)
def test_the_loop_gives_what_rollout_gives_for_the_same_outputs_of_f(lengths, k: int, order: int, seed: int):
    demos, z = numbered(lengths, k, seed)
    h, smoothness = stable(seed, k, order)
    rolled = rollout(SmoothPolicy(Table(z), h, smoothness, Horizon(0, 0)), demos)
    loop = ClosedLoop.of(h, smoothness)
    for part, a, b in zip(split(z, demos), demos.actions, rolled, strict=True):
        np.testing.assert_allclose(loop.roll(part, a), b, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(loop.roll(part, a), naive_roll(h, smoothness, part, a), rtol=1e-9, atol=1e-9)


def naive_roll_columns(loop: ClosedLoop, z: np.ndarray, starts, expert: np.ndarray, dimension: int) -> np.ndarray:
    """The roll-out of each column over each sequence, a number at a time."""
    out = np.empty_like(z)
    for begin, end in pairwise(starts):
        for column in range(z.shape[1]):
            for t in range(begin, end):
                if t - begin < loop.order:
                    out[t, column] = expert[t]
                    continue
                past = sum(loop.taps[i, dimension] * out[t - i, column] for i in range(1, loop.order + 1))
                out[t, column] = (z[t, column] - past) / loop.taps[0, dimension]
    return out


@given(LENGTHS, st.integers(1, 3), st.integers(1, 4), st.integers(1, 5), SEEDS)
def test_columns_are_rolled_out_over_joined_sequences_as_one_by_one(lengths, k: int, order: int, columns, seed: int):
    # Also where sequences are shorter than the order, which the expert gives whole.
    rng, loop = RNG(seed), ClosedLoop.of(*stable(seed, k, order))
    starts, total = np.append(0, np.cumsum(lengths)), sum(lengths)
    expert, z, dimension = rng.normal(size=total), rng.normal(size=(total, columns)), int(rng.integers(k))
    found = loop.roll_columns(z, starts, expert, dimension)
    assert found.shape == z.shape
    twin = naive_roll_columns(loop, z, starts, expert, dimension)
    np.testing.assert_allclose(found, twin, rtol=1e-9, atol=1e-9)
    alone = ClosedLoop(loop.taps[:, dimension : dimension + 1])
    for begin, end in pairwise(starts):
        own = expert[begin:end, np.newaxis]
        rolled = np.hstack([alone.roll(z[begin:end, [i]], own) for i in range(columns)])
        np.testing.assert_allclose(found[begin:end], rolled, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(found[begin:end][:order], np.broadcast_to(own[:order], rolled[:order].shape))


@pytest.mark.parametrize("turn", [np.asfortranarray, lambda a: a[:, ::-1], lambda a: a.astype(np.float64)])
def test_columns_are_rolled_out_wherever_they_lie_in_memory_and_nothing_is_written_to(turn):
    loop, rng = ClosedLoop.of(*stable(5)), RNG(0)
    z, many = turn(rng.normal(size=(20, 3))), rng.normal(size=(20, 4))
    expert, starts = many[:, 1], np.array([0, 7, 9, 20], np.int32)  # not in one piece
    kept = z.copy(), expert.copy(), starts.copy()
    found = loop.roll_columns(z, starts, expert, 0)
    twin = naive_roll_columns(loop, z, starts, expert, 0)
    np.testing.assert_allclose(found, twin, rtol=1e-9, atol=1e-9)
    for given_, before in zip((z, expert, starts), kept, strict=True):
        np.testing.assert_array_equal(given_, before)


def test_columns_of_no_sequence_and_no_column_are_rolled_out_too():
    loop = ClosedLoop.of(*stable(5))
    assert loop.roll_columns(np.empty((0, 3)), np.array([0]), np.empty(0), 0).shape == (0, 3)
    assert loop.roll_columns(np.empty((5, 0)), np.array([0, 2, 5]), np.zeros(5), 0).shape == (5, 0)


@given(LENGTHS, st.integers(1, 3), SEEDS)
def test_a_roll_out_is_what_f_forces_and_what_the_start_leaves(lengths, k: int, seed: int):
    demos, z = numbered(lengths, k, seed)
    loop = ClosedLoop.of(*stable(seed, k))
    for part, a in zip(split(z, demos), demos.actions, strict=True):
        forced = np.column_stack([loop.forced(part[:, [j]], j) for j in range(k)])
        np.testing.assert_allclose(loop.roll(part, a), forced + loop.free(a), rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(forced[: loop.order], 0.0)
        np.testing.assert_array_equal(loop.free(a)[: loop.order], a[: loop.order])


@given(st.floats(-3.0, 3.0), st.integers(1, 3), SEEDS)
def test_what_f_forces_is_linear_in_f(scale: float, k: int, seed: int):
    loop, rng = ClosedLoop.of(*stable(seed, k)), RNG(seed)
    x, y = rng.normal(size=(2, 30, 5))
    for j in range(k):
        together = loop.forced(scale * x + y, j)
        np.testing.assert_allclose(together, scale * loop.forced(x, j) + loop.forced(y, j), rtol=1e-9, atol=1e-9)


# Roll-outs leave out components with less than a millionth of the weight (`prune`).
@given(st.floats(1e-5, 1.0 - 1e-5) | st.sampled_from([0.0, 1.0]), LENGTHS, SEEDS)
def test_the_roll_out_of_a_mixture_is_the_mixture_of_the_roll_outs(beta: float, lengths, seed: int):
    demos, z = numbered(lengths, 2, seed)
    y = RNG(seed + 1).normal(size=z.shape)
    h, smoothness = stable(seed, 2)
    new, old = (SmoothPolicy(Table(outputs), h, smoothness, Horizon(0, 0)) for outputs in (z, y))
    loop = ClosedLoop.of(h, smoothness)
    rolled = rollout(interpolate(new, old, beta), demos)
    for both, a, b, c in zip(rolled, split(z, demos), split(y, demos), demos.actions, strict=True):
        mixture = beta * loop.roll(a, c) + (1.0 - beta) * loop.roll(b, c)
        np.testing.assert_allclose(both, mixture, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 40])
@pytest.mark.parametrize("mu", [0.01, 0.1, 3.0])
def test_targets_solve_their_least_squares_problem(length: int, k: int, mu: float):
    h, smoothness = stable(length, k)
    loop, expert = ClosedLoop.of(h, smoothness), RNG(length).normal(size=(length, k))
    targets = loop.targets(expert, mu)
    np.testing.assert_array_equal(targets[:3], expert[:3])
    n = max(length - 3, 0)
    for j in range(k):
        G = np.zeros((n, n))
        for s in range(n):
            kick = np.zeros((length, k))
            kick[3 + s, j] = 1.0
            G[:, s] = naive_roll(h, smoothness, kick, np.zeros((length, k)))[3:, j]
        free = naive_roll(h, smoothness, np.zeros((length, k)), expert)[3:, j]
        a = expert[3:, j]
        z = np.linalg.solve(G.T @ G + mu * np.eye(n), G.T @ (a - free) + mu * a)
        np.testing.assert_allclose(targets[3:, j], z, rtol=1e-7, atol=1e-8)


@given(st.sampled_from([0.02, 0.1, 1.0]), SEEDS)
def test_no_other_targets_near_by_cost_less(mu: float, seed: int):
    loop, expert = ClosedLoop.of(*stable(seed, 2)), RNG(seed).normal(size=(25, 2))
    best = loop.targets(expert, mu)

    def cost(z):
        return np.sum((loop.roll(z, expert) - expert) ** 2) + mu * np.sum((z - expert)[loop.order :] ** 2)

    for change in RNG(seed + 1).normal(size=(5, 25, 2)):
        assert cost(best) <= cost(best + 1e-3 * change) + 1e-12


def test_a_small_mu_makes_the_roll_out_follow_and_a_large_one_holds_z_to_the_expert():
    loop = ClosedLoop.of(CriticallyDamped(3).fit([np.zeros((1, 1))], 50.0), 50.0)
    expert = np.cumsum(RNG(0).normal(size=(200, 1)), axis=0)
    np.testing.assert_allclose(loop.roll(loop.targets(expert, 1e-9), expert), expert, atol=1e-2)
    np.testing.assert_allclose(loop.targets(expert, 1e9), expert, atol=1e-6)


@pytest.mark.parametrize("smoothness", [0.0, 0.5, 20.0, 1000.0])
@pytest.mark.parametrize(
    "regularizer", [PreviousAction(), CriticallyDamped(order=2), CriticallyDamped(order=3)], ids=repr
)
def test_the_lag_is_that_of_a_ramp_after_a_long_time(regularizer, smoothness: float):
    loop = ClosedLoop.of(regularizer.fit([np.zeros((1, 1))], smoothness), smoothness)
    ramp = np.arange(40_000.0)[:, np.newaxis]
    assert (ramp - loop.roll(ramp, ramp))[-1, 0] == pytest.approx(loop.lag, abs=1e-4)
    if isinstance(regularizer, CriticallyDamped):
        assert loop.lag == pytest.approx(regularizer.lag(smoothness))


def test_the_lag_is_the_mean_over_the_dimensions():
    one, two = (CriticallyDamped(3).fit([np.zeros((1, 1))], s).coefficients for s in (7.0, 63.0))
    lags = [ClosedLoop.of(Autoregressor(c), 20.0).lag for c in (one, two)]
    assert ClosedLoop.of(Autoregressor(np.hstack([one, two])), 20.0).lag == pytest.approx(np.mean(lags))


def test_without_smoothness_the_roll_out_is_what_f_says():
    demos, z = numbered((12,), 2, 0)
    loop = ClosedLoop.of(CriticallyDamped(3).fit(demos.actions, 0.0), 0.0)
    np.testing.assert_array_equal(loop.roll(z, demos[0].actions)[3:], z[3:])
    assert loop.lag == 0.0


def test_a_loop_without_memory_passes_everything_on():
    loop, z = ClosedLoop(np.ones((1, 2))), RNG(0).normal(size=(6, 2))
    np.testing.assert_array_equal(loop.roll(z, np.zeros((6, 2))), z)
    np.testing.assert_array_equal(loop.forced(z, 0), z)
    assert (loop.order, loop.lag) == (0, 0.0)


def test_nothing_that_is_given_is_written_to():
    demos, z = numbered((10, 2), 2, 0)
    kept = [a.copy() for a in demos.actions]
    loop = ClosedLoop.of(*stable(3, 2))
    for part, a in zip(split(z, demos), demos.actions, strict=True):
        before = part.copy()
        assert loop.roll(part, a) is not a
        loop.targets(a, 0.1)
        loop.free(a)
        np.testing.assert_array_equal(part, before)
    for a, b in zip(demos.actions, kept, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("frames", [1, 2, 3, 4, 5, 9, 60])
@pytest.mark.parametrize("smoothness", [1.0, 1e4, 1e8])
@pytest.mark.parametrize("mu", [0.1, 1e-6])
def test_what_a_filter_needs_is_solved_without_squares(frames, smoothness, mu):
    """As dense least squares, also where normal equations have no digits left; and as these where they have some."""
    rng = np.random.default_rng(frames)
    h = CriticallyDamped(order=3).fit([rng.normal(size=(60, 1)).cumsum(axis=0)], smoothness)
    (taps,) = ClosedLoop.of(h, smoothness).taps.T
    expert, free = rng.normal(size=(2, frames)).cumsum(axis=1)
    A = sum(tap * np.eye(frames, k=-d) for d, tap in enumerate(taps))
    stacked = np.concatenate([np.eye(frames), np.sqrt(mu) * A]), np.concatenate([expert - free, np.sqrt(mu) * expert])
    wanted = A @ np.linalg.lstsq(*stacked, rcond=None)[0]
    found = _compensate(taps, expert, free, mu)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6 * np.abs(wanted).max())
    if smoothness < 1e5:
        squared = A @ np.linalg.solve(np.eye(frames) + mu * A.T @ A, expert - free + mu * A.T @ expert)
        np.testing.assert_allclose(found, squared, rtol=1e-6, atol=1e-7 * np.abs(wanted).max())


@pytest.mark.parametrize("smoothness", [1e6, 1e9, 1e12])
def test_targets_of_the_slowest_filters_are_finite(smoothness):
    walk = np.random.default_rng(0).normal(size=(1000, 2)).cumsum(axis=0).cumsum(axis=0)
    walk = walk / walk.std(axis=0) + 0.01 * np.random.default_rng(1).normal(size=walk.shape)
    loop = ClosedLoop.of(CriticallyDamped(order=3).fit([walk], smoothness), smoothness)
    assert np.isfinite(loop.targets(walk, 0.1)).all()
