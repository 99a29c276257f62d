"""A linear h that couples the actions: its fit, its closed loop, and where it has no place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import simile
from conftest import demos_of
from naive import naive_roll
from simile import CoupledAutoregression, Horizon, VelocityAutoregression, rollout
from simile.errors import ArgumentError, DataError, StorageError
from simile.learning.distributed.backend import LocalBackend
from simile.models.coupling import CoupledAutoregressor, average, matrices
from simile.models.regularizers import LARGEST_RADIUS, Autoregressor
from simile.policies.policies import prune, whole

DEMOS = demos_of(60, 50, 55, k=2, m=2, rate=10.0)
SMALL = {"model": simile.SmoothForest(n_trees=4, min_leaf=6), "horizon": Horizon(3, 2), "n_rounds": 2}
COUPLED = CoupledAutoregression(order=4)
WALKS = arrays(float, st.tuples(st.integers(12, 30), st.integers(1, 3)), elements=st.floats(-1.0, 1.0, width=16))


@pytest.fixture(scope="module")
def run():
    return simile.paper(DEMOS, regularizer=COUPLED, **SMALL)


def naive(policy):
    nothing = [a[:0] for a in DEMOS.actions]
    return naive_roll(policy, DEMOS.contexts, nothing, [a[: policy.memory] for a in DEMOS.actions])


def companion(h, smoothness):
    """The naive twin of the radius: steps of the loop, as a matrix, one unit of the past after the other."""
    order, k, _ = h.coefficients.shape
    rows = []
    for unit in np.eye(order * k):
        past = unit.reshape(order, k)  # the latest first
        now = smoothness / (1.0 + smoothness) * sum(h.coefficients[i] @ past[i] for i in range(order))
        rows.append(np.concatenate([now[np.newaxis], past[:-1]]).ravel())
    return float(np.abs(np.linalg.eigvals(np.array(rows).T)).max())


@given(WALKS, st.integers(1, 5), st.floats(0.1, 1000.0))
def test_of_one_action_it_is_the_velocity_autoregression(steps, order, smoothness):
    walk = np.cumsum(steps[:, :1], axis=0)
    alone = VelocityAutoregression(order=order).fit([walk], smoothness)
    coupled = CoupledAutoregression(order=order).fit([walk], smoothness)
    np.testing.assert_allclose(coupled.coefficients[:, :, 0], alone.coefficients, atol=1e-9)
    assert coupled.damping == alone.damping
    assert coupled.radius(smoothness) == pytest.approx(alone.radius(smoothness), abs=1e-6)


@given(WALKS, st.integers(1, 4), st.floats(0.1, 1000.0))
def test_constant_histories_are_reproduced_and_the_closed_loop_is_stable(steps, order, smoothness):
    h = CoupledAutoregression(order=order).fit([np.cumsum(steps, axis=0)], smoothness)
    k = steps.shape[1]
    np.testing.assert_allclose(h.coefficients.sum(axis=0), np.eye(k), atol=1e-8)
    assert h.radius(smoothness) <= LARGEST_RADIUS
    assert h.radius(smoothness) == pytest.approx(companion(h, smoothness), abs=1e-6)
    assert h.order == order


def test_it_finds_the_matrices_of_a_system():
    rng, truth = np.random.default_rng(0), np.array([[0.6, 0.3], [-0.4, 0.5]])
    velocities = np.zeros((4000, 2))
    for t in range(1, len(velocities)):
        velocities[t] = truth @ velocities[t - 1] + rng.normal(size=2)
    h = CoupledAutoregression(order=2, ridge=0.0).fit([np.cumsum(velocities, axis=0)], smoothness=1.0)
    np.testing.assert_allclose(-h.coefficients[1], truth, atol=0.03)
    np.testing.assert_allclose(h.coefficients[0], np.eye(2) + truth, atol=0.03)


def test_it_is_least_squares_over_all_sequences_and_joins_none():
    rng = np.random.default_rng(1)
    walks = [np.cumsum(rng.normal(size=(n, 2)), axis=0) for n in (30, 50, 3)]
    h = CoupledAutoregression(order=4, ridge=0.0).fit(walks, smoothness=0.0)
    rows = [(v[t - 3 : t][::-1].ravel(), v[t]) for v in (np.diff(a, axis=0) for a in walks) for t in range(3, len(v))]
    w = np.linalg.lstsq(np.array([past for past, _ in rows]), np.array([now for _, now in rows]), rcond=None)[0]
    found = -np.cumsum(h.coefficients[::-1], axis=0)[:-1][::-1]  # back from positions to velocities
    np.testing.assert_allclose(found, w.reshape(3, 2, 2).transpose(0, 2, 1), atol=1e-9)


def test_a_unit_of_one_action_does_not_matter():
    walk = np.cumsum(np.random.default_rng(2).normal(size=(80, 2)), axis=0)
    one, other = (CoupledAutoregression(order=3).fit([walk * s], 0.1).coefficients for s in ([1.0, 1.0], [1.0, 1000.0]))
    np.testing.assert_allclose(other, one * [[1.0, 1e-3], [1e3, 1.0]], rtol=1e-6, atol=1e-12)


def test_an_action_that_never_moves_has_nothing_to_teach():
    walk = np.cumsum(np.random.default_rng(3).normal(size=(60, 2)), axis=0) * [1.0, 0.0]
    h = CoupledAutoregression(order=3).fit([walk], 5.0)
    assert np.isfinite(h.coefficients).all()
    np.testing.assert_allclose(h.coefficients[:, 0, 1], 0.0, atol=1e-12)


def test_the_same_bits_for_one_state_and_for_many():
    h = CoupledAutoregression(order=4).fit(DEMOS.actions, 10.0)
    histories = np.random.default_rng(4).normal(size=(50, 4, 2))
    assert np.array_equal(h(histories), np.concatenate([h(one[np.newaxis]) for one in histories]))
    np.testing.assert_allclose(h(histories), np.einsum("irj,nij->nr", h.coefficients, histories), atol=1e-12)


# --- in policies


def test_roll_outs_are_those_of_the_naive_twin_and_of_the_predictor(run):
    policy = run.policy
    for one, other in zip(rollout(policy, DEMOS), naive(policy), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    rolled = rollout(policy, DEMOS[:1], start=simile.ColdStart())[0]
    predictor = simile.Predictor(policy)
    assert np.array_equal(rolled, [predictor.step(x) for x in DEMOS[0].contexts])
    pool = simile.PredictorPool(policy, 2)
    both = [pool.step(np.stack([x, x])) for x in DEMOS[0].contexts[:20]]
    assert np.array_equal(np.array(both)[:, 1], rolled[:20])


def test_the_radius_of_rounds_and_of_mixtures_is_that_of_the_companion(run):
    one = whole(run.policy)
    assert isinstance(one.h, CoupledAutoregressor)
    assert run.rounds[-1].radius == pytest.approx(companion(one.h, 30.0))
    assert all(turn.radius < 1.0 for turn in run.rounds)


def test_a_mixture_with_an_h_that_takes_each_action_by_itself_collapses(run):
    alone = simile.paper(DEMOS, regularizer=VelocityAutoregression(order=3), initial=run.policy, **SMALL)
    one = whole(alone.policy)
    assert isinstance(one.h, CoupledAutoregressor)
    assert one.h.order == 4
    for a, b in zip(rollout(alone.policy, DEMOS), naive(alone.policy), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    weights = tuple(1e-9 if i == 0 else w for i, w in enumerate(alone.policy.weights))
    light = type(alone.policy)(alone.policy.components, tuple(w / sum(weights) for w in weights))
    assert prune(light).dropped == 1
    assert np.isfinite(prune(light).bound)


def test_the_mean_of_linear_h_is_that_of_what_they_say():
    rng = np.random.default_rng(5)
    coupled, alone = CoupledAutoregressor(rng.normal(size=(2, 3, 3))), Autoregressor(rng.normal(size=(4, 3)))
    histories = rng.normal(size=(10, 4, 3))
    for share in (0.3, np.array([0.1, 0.5, 1.0])):
        expected = share * coupled(histories[:, :2]) + (1.0 - share) * alone(histories)
        np.testing.assert_allclose(average([coupled, alone], [share, 1.0 - share])(histories), expected, atol=1e-12)
    np.testing.assert_allclose(CoupledAutoregressor(matrices(alone))(histories), alone(histories), atol=1e-12)
    assert isinstance(average([alone, alone], [0.5, 0.5]), Autoregressor)


def test_a_file_keeps_it(run, tmp_path):
    run.policy.save(tmp_path / "policy.safetensors")
    again = simile.load(tmp_path / "policy.safetensors")
    assert all(np.array_equal(a, b) for a, b in zip(rollout(again, DEMOS), rollout(run.policy, DEMOS), strict=True))


@pytest.mark.parametrize("shape", [(2, 2, 3), (501, 2, 2)])
def test_a_file_with_matrices_that_are_none_is_refused(run, tmp_path, shape):
    policy = replace(whole(run.policy), h=CoupledAutoregressor(np.zeros(shape)))
    policy.save(tmp_path / "policy.safetensors")
    with pytest.raises(StorageError, match=r"h.coefficients must be square, with 1000 columns together at most"):
        simile.load(tmp_path / "policy.safetensors")


def test_diagnosis_speaks_of_its_closed_loop(run):
    assert f"radius {run.rounds[-1].radius:.4f}" in str(simile.diagnose(run.policy, DEMOS))


# --- where it has no place


@pytest.mark.parametrize(
    ("call", "where"),
    [
        (lambda: simile.learn(DEMOS, regularizer=COUPLED, smoothness=5.0), "regularizer: .* in a mixture"),
        (lambda: simile.learn(DEMOS, regularizer=COUPLED, smoothness=simile.SmoothTime(0.3)), "smoothness: .* a lag"),
    ],
)
def test_it_is_refused_where_each_action_is_taken_by_itself(call, where):
    with pytest.raises(ArgumentError, match=f"{where}.* use VelocityAutoregression"):
        call()


def test_a_ridge_that_is_fitted_to_targets_may_stand_before_it():
    found = simile.paper(DEMOS, regularizer=COUPLED, **{**SMALL, "model": simile.Ridge(), "horizon": Horizon(3, 0)})
    assert found.rounds[-1].error < 0.5
    for ours, theirs in zip(rollout(found.policy, DEMOS), naive(found.policy), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_a_smoothness_for_each_action_is_refused():
    with pytest.raises(ArgumentError, match="smoothness must be one number for CoupledAutoregression"):
        simile.learn(DEMOS, regularizer=COUPLED, smoothness=(5.0, 6.0))


def test_it_is_not_exported(run, tmp_path):
    for export, name in ((simile.export_c, "policy.h"), (simile.export_onnx, "policy.onnx")):
        with pytest.raises(ArgumentError, match=r"policy: an h that couples the actions .* in an export"):
            export(run.policy, tmp_path / name)


def test_with_a_backend_it_is_refused():
    with pytest.raises(ArgumentError, match=r"CoupledAutoregression.* must have methods sums"):
        simile.paper(DEMOS, regularizer=COUPLED, backend=LocalBackend(parts=2), **SMALL)


def test_too_long_an_order_is_refused():
    with pytest.raises(DataError, match="order must be shorter than the longest sequence"):
        CoupledAutoregression(order=60).fit(DEMOS.actions, 1.0)
    with pytest.raises(ArgumentError, match="order must be at most 500 for 2 coupled actions; got 501"):
        CoupledAutoregression(order=501).fit([np.zeros((600, 2))], 1.0)
    with pytest.raises(ArgumentError, match="order must be"):
        CoupledAutoregression(order=0)
