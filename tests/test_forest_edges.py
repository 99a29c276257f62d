"""The smooth forest at its edges: odd weights, depths, values, tapes and layouts."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import simile
from conftest import demos_of
from naive import naive_predict
from simile import Bagging, Criterion, Demonstrations, DivergedError, Horizon, ImitationRule, SimileError, SmoothForest
from simile.models.kernels.binning import bin_edges
from simile.models.regularizers import Autoregressor
from simile.policies.policies import SmoothPolicy
from simile.policies.rollouts import rollout
from test_forest import RNG, SMALL, fitted, policy_of, pytestmark, rolled_generally

__all__ = ["pytestmark"]  # the same warning is expected here


def test_weights_leave_room_for_every_leaf():
    X = np.arange(12.0)[:, None]
    recipe = SmoothForest(1, None, 1, None, bagging=Bagging.NONE)
    demos = Demonstrations.from_arrays([X], [X])
    forest = recipe.fit_smooth(
        [Horizon(0, 0).states(demos, demos.actions)], X, X, X, 0.0, RNG(0), weights=np.full(12, 1.1)
    )
    assert len(forest.feature) == 23
    np.testing.assert_allclose(forest.predict(X), X)


def test_a_depth_beyond_all_rows_is_no_limit():
    fitted(demos_of(20), Horizon(0, 0), replace(SMALL, max_depth=10**12))


def test_threads_report_the_earliest_divergence(monkeypatch):
    demos = demos_of(80, 80, 80, 80, seed=2)
    scale = [1e-3, 1.0, 1e-2, 1e3]
    demos = demos.with_actions([a * s for a, s in zip(demos.actions, scale, strict=True)])
    policy = policy_of(demos, Horizon(1, 0), smoothness=20.0, gain=2.0)
    monkeypatch.setattr("simile.policies.fused.FEWEST_FRAMES", 1)
    monkeypatch.setattr("simile.policies.fused.os.cpu_count", lambda: 4)
    found = []
    for roll in (rollout, rolled_generally):
        with pytest.raises(DivergedError) as caught:
            roll(policy, demos)
        found.append(re.search(r"sequence (\d+) diverged at frame (\d+)", str(caught.value)).groups())
    assert found[0] == found[1]


def test_periodic_columns_keep_all_their_values():
    assert len(bin_edges(np.arange(400_000) % 2.0)) == 1


@pytest.mark.parametrize("column", [[-3e38, 3e38], [0.0, 1e300, 1e300, -1e300]])
def test_huge_values_have_edges_of_their_own(column):
    edges = bin_edges(np.array(column))
    assert len(set(edges)) == len(edges)


@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")  # without numba, in bin_column
def test_contexts_beyond_single_precision_fit_predict_and_roll():
    x = RNG(0).normal(size=(40, 2))
    x[3, 0] = 1e99
    demos = Demonstrations.from_arrays([x], [x[:, 1]])
    policy = policy_of(demos, Horizon(0, 0))
    policy.f.predict(x)
    rollout(policy, demos)


def test_bins_do_not_depend_on_what_was_fitted_before():
    a, b = demos_of(30, seed=1), demos_of(30, seed=2)
    sa, sb = (Horizon(0, 0).states(d, d.actions) for d in (a, b))
    sb2 = Horizon(0, 0).states(b, b.actions)
    y = np.concatenate([a.actions[0], b.actions[0]])
    recipe = replace(SMALL, bagging=Bagging.NONE)
    fresh = recipe.fit_smooth([sa, sb], y, y, y, 0.0, RNG(0))
    recipe.fit_smooth([sb2], y[30:], y[30:], y[30:], 0.0, RNG(0))
    again = recipe.fit_smooth([sa, sb2], y, y, y, 0.0, RNG(0))
    S = np.concatenate([sa.matrix(), sb.matrix()])
    np.testing.assert_array_equal(fresh.predict(S), again.predict(S))


@pytest.mark.parametrize("sequence", [-2, -1, 2])
def test_only_training_sequences_can_be_out_of_bag(sequence):
    f = fitted(demos_of(9, 9), Horizon(0, 0), replace(SMALL, n_trees=9, bagging=Bagging.SEQUENCES))
    with pytest.raises(SimileError, match=f"sequence must be one of 0 to 1; got {sequence}"):
        f.out_of_bag(sequence, 2)


def test_some_trees_may_be_picked_in_any_order():
    demos = demos_of(30, 1, 1, 1)
    f = fitted(demos, Horizon(1, 0), SmoothForest(n_trees=12, max_depth=None, min_leaf=1, bagging=Bagging.SEQUENCES))
    some = f.only(np.array([11, 0]))
    S = Horizon(1, 0).states(demos, demos.actions).matrix()
    np.testing.assert_allclose(some.predict(S), naive_predict(some, S))


@pytest.mark.parametrize("criterion", Criterion)
def test_importances_sum_to_one_with_the_imitation_rule(criterion):
    demos = demos_of(200, 200)
    run = simile.paper(demos, model=SmoothForest(2, 4, criterion=criterion), rule=ImitationRule(), n_rounds=0)
    imp = run.policy.f.feature_importances
    assert imp.sum() == pytest.approx(1.0)
    assert (imp >= 0.0).all()


def test_too_few_contexts_are_refused_by_both_roll_outs():
    demos = demos_of(20)
    policy = replace(policy_of(demos, Horizon(0, 0)), n_contexts=None)
    with pytest.raises(SimileError, match="S must have the 2 features"):
        rolled_generally(policy, [np.zeros((5, 1))], start=0.0)
    with pytest.raises(SimileError, match="contexts must have the 2 columns"):
        rollout(policy, [np.zeros((5, 1))], start=0.0)


def test_a_forest_of_another_layout_is_rolled_out_generally():
    demos = demos_of(20)
    S = Horizon(1, 0).states(demos, demos.actions).matrix()
    f = fitted(Demonstrations.from_arrays([S], demos.actions), Horizon(0, 0))
    policy = SmoothPolicy(f, Autoregressor(np.ones((1, 1))), 1.0, Horizon(1, 0))
    np.testing.assert_allclose(rollout(policy, demos)[0], rolled_generally(policy, demos)[0])
