"""h and H: Examples 2.1 and 2.2, the critically damped class, and the stability of closed loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simile import CriticallyDamped, LinearAutoregression, PreviousAction, SimileError, VelocityAutoregression
from simile.models.regularizers import Autoregressor

LAMBDAS = st.floats(1e-3, 1e4)


def wave(length: int = 400, k: int = 1, scale: float = 1.0) -> np.ndarray:
    t = np.arange(length)[:, np.newaxis]
    return scale * np.hstack([np.sin(0.05 * (j + 1) * t) + 0.1 * j for j in range(k)])


def response(h: Autoregressor, smoothness: float, inputs: np.ndarray) -> np.ndarray:
    """Run the closed loop from rest at zero."""
    actions = np.zeros((len(inputs) + h.order, 1))
    for t, f in enumerate(inputs):
        past = actions[t : t + h.order][::-1][np.newaxis]
        actions[t + h.order] = (f + smoothness * h(past)[0]) / (1.0 + smoothness)
    return actions[h.order :, 0]


def test_example_2_1_previous_action_returns_the_latest_action():
    h = PreviousAction().fit([wave(10, k=3)], smoothness=5.0)
    history = np.arange(6.0).reshape(2, 1, 3)
    np.testing.assert_array_equal(h(history), history[:, 0])
    assert h.radius(5.0) == pytest.approx(5.0 / 6.0)


def test_example_2_2_linear_autoregression_recovers_the_dynamics():
    rng = np.random.default_rng(0)
    a = np.zeros((5000, 1))
    for t in range(2, len(a)):
        a[t] = 1.5 * a[t - 1] - 0.7 * a[t - 2] + rng.normal()
    h = LinearAutoregression(order=2, ridge=0.0).fit([a], smoothness=1.0)
    np.testing.assert_allclose(h.coefficients[:, 0], [1.5, -0.7], atol=0.03)


def test_linear_autoregression_is_least_squares_over_all_sequences_and_joins_none():
    rng = np.random.default_rng(1)
    parts = [rng.normal(size=(n, 2)) for n in (30, 50, 3)]
    h = LinearAutoregression(order=4, ridge=0.0).fit(parts, smoothness=0.0)
    for j in range(2):
        rows = [(p[t - 4 : t, j][::-1], p[t, j]) for p in parts for t in range(4, len(p))]
        expected = np.linalg.lstsq(np.array([r[0] for r in rows]), np.array([r[1] for r in rows]), rcond=None)[0]
        np.testing.assert_allclose(h.coefficients[:, j], expected, atol=1e-10)


@pytest.mark.parametrize("order", [1, 2, 5, 10])
def test_velocity_autoregression_reproduces_constant_histories(order: int):
    h = VelocityAutoregression(order=order).fit([wave(k=3)], smoothness=30.0)
    np.testing.assert_allclose(h.coefficients.sum(axis=0), 1.0, atol=1e-12)
    assert h.order == order
    np.testing.assert_allclose(h(np.full((1, order, 3), 7.0)), 7.0)


def test_velocity_coefficients_are_those_of_the_velocities():
    signal = np.cumsum(np.random.default_rng(2).normal(size=(500, 1)), axis=0)
    h = VelocityAutoregression(order=3, ridge=0.0).fit([signal], smoothness=0.0)
    v = np.diff(signal[:, 0])
    w = np.linalg.lstsq(np.stack([v[1:-1], v[:-2]], axis=1), v[2:], rcond=None)[0]
    np.testing.assert_allclose(h.coefficients[:, 0], [1 + w[0], w[1] - w[0], -w[1]], atol=1e-10)


@pytest.mark.parametrize("recipe", [LinearAutoregression(order=4), VelocityAutoregression(order=4)])
@pytest.mark.parametrize("scale", [1e-3, 1024.0, 1e6])
def test_the_ridge_means_the_same_in_any_unit(recipe, scale: float):
    plain = recipe.fit([wave()], smoothness=10.0).coefficients
    np.testing.assert_allclose(recipe.fit([wave(scale=scale)], smoothness=10.0).coefficients, plain, rtol=1e-6)


def test_dimensions_of_very_different_scale_do_not_disturb_each_other():
    scales = np.array([1e-3, 1.0, 1e3])
    together = VelocityAutoregression(order=4).fit([wave(k=3) * scales], smoothness=30.0)
    for j in range(3):
        alone = VelocityAutoregression(order=4).fit([(wave(k=3) * scales)[:, [j]]], smoothness=30.0)
        if together.damping == alone.damping:  # damping is one for all dimensions
            np.testing.assert_allclose(together.coefficients[:, [j]], alone.coefficients)


def test_constant_actions_give_the_previous_action():
    for recipe in (VelocityAutoregression(order=5), CriticallyDamped(order=1)):
        h = recipe.fit([np.full((20, 1), 3.0)], smoothness=4.0)
        assert h(np.full((1, h.order, 1), 3.0))[0, 0] == pytest.approx(3.0)


@given(LAMBDAS, st.integers(1, 6))
def test_critically_damped_has_equal_real_poles_and_unit_gain(smoothness: float, order: int):
    recipe = CriticallyDamped(order=order)
    h = recipe.fit([np.zeros((5, 2))], smoothness)
    np.testing.assert_allclose(h.coefficients.sum(axis=0), 1.0, rtol=1e-6)
    pole = recipe.pole(smoothness)
    kappa = smoothness / (1.0 + smoothness)
    np.testing.assert_allclose(np.poly([pole] * order)[1:], -kappa * h.coefficients[:, 0], atol=1e-9)
    assert recipe.smoothness_for(recipe.lag(smoothness)) == pytest.approx(smoothness, rel=1e-6)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_critically_damped_lags_a_ramp_by_its_lag_and_never_overshoots_a_step(order: int):
    recipe = CriticallyDamped(order=order)
    smoothness = recipe.smoothness_for(lag=8.0)
    h = recipe.fit([np.zeros((5, 1))], smoothness)
    ramp = np.arange(2000.0)
    assert (ramp - response(h, smoothness, ramp))[-1] == pytest.approx(8.0, abs=1e-6)
    step = response(h, smoothness, np.ones(500))
    assert step.max() <= 1.0 + 1e-12
    assert (np.diff(step) >= -1e-12).all()


@given(st.lists(st.floats(-3.0, 3.0), min_size=1, max_size=6), st.floats(0.0, 1e4), st.integers(1, 3))
def test_stabilized_closed_loops_have_a_radius_below_one(coefficients: list[float], smoothness: float, k: int):
    h = Autoregressor(np.repeat(np.array(coefficients)[:, np.newaxis], k, axis=1)).stabilized(smoothness)
    assert h.radius(smoothness) < 1.0
    assert 0.0 <= h.damping <= 1.0


def test_damping_leaves_stable_loops_alone_and_is_reported_otherwise():
    stable = Autoregressor(np.array([[1.2], [-0.3]]))
    assert stable.stabilized(10.0).damping == 1.0
    np.testing.assert_array_equal(stable.stabilized(10.0).coefficients, stable.coefficients)
    unstable = Autoregressor(np.array([[2.5], [-1.2]])).stabilized(100.0)
    assert unstable.damping < 1.0
    assert unstable.radius(100.0) < 1.0


def test_a_stable_autoregressor_can_make_an_unstable_closed_loop_and_is_damped():
    # Stability is a property of the closed loop, not of the autoregressor.
    found = 0
    for seed in range(200):
        roots = np.random.default_rng(seed).uniform(-1.0, 1.0, 4)
        h = Autoregressor(-np.poly(roots)[1:, np.newaxis])
        if h.radius(30.0) > 1.0:
            found += 1
            assert h.stabilized(30.0).damping < 1.0
            assert h.stabilized(30.0).radius(30.0) < 1.0
    assert found > 0


@pytest.mark.parametrize("recipe", [LinearAutoregression(order=10), VelocityAutoregression(order=10)])
def test_an_order_longer_than_every_sequence_is_refused(recipe):
    with pytest.raises(SimileError, match=r"order must be shorter .* got order=10 and at most 10 frames: choose"):
        recipe.fit([np.zeros((10, 1)), np.zeros((4, 1))], 1.0)
    recipe.fit([np.zeros((11, 1)), np.zeros((4, 1))], 1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinearAutoregression(order=0), "order must be >= 1; got 0"),
        (lambda: VelocityAutoregression(order=2.5), "order must be a whole number; got 2.5"),
        (lambda: VelocityAutoregression(ridge=-1.0), r"ridge must be >= 0; got -1.0"),
        (lambda: CriticallyDamped(order=0), "order must be >= 1; got 0"),
        (lambda: CriticallyDamped().smoothness_for(-1.0), "lag must be >= 0; got -1.0"),
    ],
)
def test_bad_recipes_are_refused(make, message: str):
    with pytest.raises(SimileError, match=message):
        make()
