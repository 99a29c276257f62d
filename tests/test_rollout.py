"""Roll-outs: lock-step, the start rules, bounds and divergence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

import simile
from conftest import demos_of
from naive import naive_rollout
from simile import ColdStart, DivergedError, GivenStart, Horizon, SimileError, SmoothPolicy, rollout
from simile.data.recorded import Units
from simile.models.regularizers import Autoregressor
from simile.policies import rollouts
from simile.policies.policies import StochasticMixture
from test_policies import Linear, affine


class Counting:
    """f that counts how often it is asked."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def predict(self, S: np.ndarray) -> np.ndarray:
        self.calls.append(len(S))
        return S[:, :1]


@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=4),
    st.integers(0, 4),
    st.integers(0, 4),
    st.integers(1, 3),
    st.integers(0, 5),
)
def test_rollout_equals_its_naive_twin(lengths, context_lags, action_lags, k, seed):
    horizon = Horizon(context_lags, action_lags)
    rng = np.random.default_rng(seed)
    f = Linear(0.1 * rng.normal(size=(horizon.n_features(2, k), k)))
    policy = SmoothPolicy(f, Autoregressor(rng.dirichlet(np.ones(3), size=k).T), 1.5, horizon)
    demos = demos_of(*lengths, k=k, seed=seed)
    for ours, theirs in zip(rollout(policy, demos), naive_rollout(policy, demos), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)


def test_one_prediction_per_frame_serves_all_sequences():
    f = Counting()
    demos = demos_of(10, 4, 7)
    rollout(SmoothPolicy(f, Autoregressor(np.ones((1, 1))), 1.0, Horizon(0, 1)), demos)
    assert f.calls == [3, 3, 3, 2, 2, 2, 1, 1, 1]


def test_f_on_contexts_alone_is_asked_once_for_all_frames_whatever_model_it_is(monkeypatch):
    f, demos, h = Counting(), demos_of(10, 4, 7), Autoregressor(np.ones((1, 1)))
    policy = SmoothPolicy(f, h, 1.0, Horizon(2, 0))
    at_once = rollout(policy, demos)
    assert f.calls == [9 + 3 + 6]  # the first frame of each sequence is the expert's
    monkeypatch.setattr(rollouts, "BLOCK", 8)
    in_blocks = rollout(policy, demos)
    assert f.calls[1:] == [8, 8, 2]
    for ours, blocks, theirs in zip(at_once, in_blocks, naive_rollout(policy, demos), strict=True):
        np.testing.assert_array_equal(ours, blocks)
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_a_sequence_is_rolled_out_the_same_whatever_its_company():
    demos = demos_of(30, 12, 25)
    policy = StochasticMixture((affine(0), affine(1)), (0.5, 0.5))
    together = rollout(policy, demos, seed=5)
    np.testing.assert_array_equal(rollout(policy, demos[:1], seed=5)[0], together[0])
    np.testing.assert_array_equal(rollout(affine(0), demos[1:2])[0], rollout(affine(0), demos)[1])


def test_the_expert_starts_and_the_policy_never_sees_it_again():
    demos = demos_of(20)
    policy = affine(0, order=3)
    rolled = rollout(policy, demos)[0]
    np.testing.assert_array_equal(rolled[:3], demos[0].actions[:3])
    other = demos.with_actions([np.concatenate([a[:3], a[3:] + 100.0]) for a in demos.actions])
    np.testing.assert_array_equal(rollout(policy, other)[0], rolled)


def test_given_starts_are_the_past_before_the_first_frame():
    demos = demos_of(20)
    policy = affine(0, order=3)
    whole = rollout(policy, demos)[0]
    # Cut where the expert's start ends: the past is then given, and contexts lag back to the cut alone.
    tail = demos[0].cut(3)
    one_lag = SmoothPolicy(Linear(policy.f.weights[:2]), policy.h, policy.smoothness, Horizon(0, 0))
    whole = rollout(one_lag, demos)[0]
    np.testing.assert_allclose(rollout(one_lag, [tail.contexts], start=demos[0].actions[:3])[0], whole[3:])
    np.testing.assert_allclose(rollout(one_lag, tail, start=GivenStart([demos[0].actions[:3]]))[0], whole[3:])
    assert rollout(one_lag, [tail.contexts], start=0.5)[0].shape == (17, 1)


def test_cold_starts_hold_the_guess_from_the_first_context():
    demos = demos_of(20, 5)
    f = Linear(np.array([[1.0], [0.0]]))
    policy = SmoothPolicy(f, Autoregressor(np.array([[0.5], [0.5]])), 1e9, Horizon(0, 0))
    for rolled, x in zip(rollout(policy, demos.contexts, start=ColdStart()), demos.contexts, strict=True):
        np.testing.assert_allclose(rolled[:, 0], x[0, 0], rtol=1e-6, atol=1e-6)


def test_cold_starts_use_the_naive_learner_where_f_reads_actions(tree):
    demos = demos_of(80, 80)
    policy = simile.clone(demos, model=tree, horizon=Horizon(1, 1)).policy
    rolled = rollout(policy, demos.contexts, start=ColdStart())
    assert [len(r) for r in rolled] == [80, 80]
    with pytest.raises(SimileError, match="has no model of contexts alone"):
        rollout(affine(0), demos.contexts, start=ColdStart())


def test_bounds_hold_exactly_in_the_users_units_and_are_fed_back():
    demos = demos_of(40)
    policy = affine(0).in_units(Units(np.array([0.3]), np.array([1.7])), simile.ActionSpace(0.25, 0.4))
    start = np.array([[0.3], [0.3]])
    rolled = rollout(policy, demos.contexts, start=start)[0]
    assert (rolled.min(), rolled.max()) == (0.25, 0.4)
    # The clipped action, not the wished one, is the next state's past.
    states = policy.horizon.states(demos, [policy.units.standardize(rolled)])
    acted = policy.units.restore(policy.act(states, np.zeros(len(states))))
    np.testing.assert_allclose(np.clip(acted, 0.25, 0.4)[5:], rolled[5:], atol=1e-12)


def test_divergence_is_an_error_that_says_where():
    unstable = SmoothPolicy(Linear(np.zeros((1, 1))), Autoregressor(np.array([[3.0]])), 10.0, Horizon(0, 0))
    demos = simile.Demonstrations.from_arrays([np.zeros((100, 1))] * 2, [np.zeros(100), np.ones(100)])
    with pytest.raises(DivergedError, match=r"sequence 1 diverged at frame \d+.*ActionSpace"):
        rollout(unstable, demos)
    bounded = unstable.in_units(Units.identity(), simile.ActionSpace(-1.0, 2.0))
    assert rollout(bounded, demos)[1].max() == 2.0


def test_nan_from_a_model_is_divergence_too():
    policy = SmoothPolicy(Linear(np.full((1, 1), np.nan)), Autoregressor(np.ones((1, 1))), 1.0, Horizon(0, 0))
    with pytest.raises(DivergedError):
        rollout(policy, demos_of(5, m=1))


def test_large_units_are_not_mistaken_for_divergence():
    demos = demos_of(20)
    large = demos.with_actions([a * 1e9 for a in demos.actions])
    policy = SmoothPolicy(Linear(np.zeros((2, 1))), Autoregressor(np.ones((1, 1))), 1e6, Horizon(0, 0))
    assert np.isfinite(rollout(policy, large)[0]).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rollout(SmoothPolicy, demos_of(5)), "policy must be an object, not a class"),
        (lambda: rollout(affine(0), [np.zeros((5, 2))]), "contexts alone have no expert to start from"),
        (
            lambda: rollout(affine(0), [np.zeros((5, 2))], start=np.ones((1, 3))),
            "start must have the policy's 1 action",
        ),
        (
            lambda: rollout(affine(0), [np.zeros((5, 2))] * 2, start=[np.ones(1)]),
            "one history for each of 2 sequences; got 1",
        ),
        (lambda: rollout(affine(0), [np.zeros((5, 2))], start=np.nan), "start must be finite; got nan"),
        (
            lambda: rollout(replace(affine(0), n_contexts=2), demos_of(5, m=3)),
            "contexts must have the 2 columns .* got 3",
        ),
        (lambda: rollout(affine(0), [np.full((5, 2), np.inf)], start=0.0), "contexts must be finite or NaN"),
    ],
)
def test_bad_calls_are_refused(call, message: str):
    with pytest.raises(SimileError, match=message):
        call()


def test_out_of_bag_roll_outs_are_those_of_trees_that_saw_nothing_of_the_sequence():
    demos = demos_of(60, 50, 40, 30)
    forest = simile.SmoothForest(n_trees=20, min_leaf=4, bagging=simile.Bagging.SEQUENCES)
    policy = simile.paper(demos, model=forest, horizon=Horizon(1, 0), n_rounds=2).policy
    rolled = simile.rollout_out_of_bag(policy, demos)
    assert [len(r) for r in rolled] == [60, 50, 40, 30]

    def error(trajectories):
        return np.mean([np.mean((a - b) ** 2) for a, b in zip(trajectories, demos.actions, strict=True)])

    assert error(rolled) > error(rollout(policy, demos))  # unseen sequences are harder


@pytest.mark.parametrize(
    ("bagging", "demos", "message"),
    [
        (simile.Bagging.ROWS, demos_of(60, 50), "out-of-bag roll-outs need SmoothForest.bagging=Bagging.SEQUENCES."),
        (simile.Bagging.SEQUENCES, demos_of(60, 50, 40), "the 2 sequences the forest was grown on; got 3"),
    ],
)
def test_what_cannot_be_rolled_out_of_bag_is_refused(bagging, demos, message: str):
    forest = simile.SmoothForest(n_trees=9, bagging=bagging)
    policy = simile.clone(demos_of(60, 50), model=forest, horizon=Horizon(1, 0)).policy
    with pytest.raises(SimileError, match=message):
        simile.rollout_out_of_bag(policy, demos)
    with pytest.raises(SimileError, match="policy must be made of forests"):
        simile.rollout_out_of_bag(affine(0), demos_of(5))


@pytest.mark.parametrize("model", [simile.SmoothForest(n_trees=2), Ridge()], ids=["fused", "general"])
def test_a_sequence_may_be_shorter_than_a_policy_aims_ahead(model):
    policy = simile.clone(demos_of(60, 50), model=model, horizon=Horizon(1, 0, lead=5)).policy
    known = np.arange(1.0, 8.0)[:, np.newaxis]
    demos = demos_of(1, 5, 30)
    for start in (None, simile.ColdStart(), known):
        assert [len(a) for a in simile.rollout(policy, demos, start=start)] == [1, 5, 30]
    rolled = simile.rollout(policy, demos, start=known)
    assert np.array_equal(rolled[0], known[2:3])  # the last five are for the first five frames
    assert np.array_equal(rolled[1], known[2:])
