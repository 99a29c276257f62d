"""The smooth forest: what it predicts, how it rolls out, what its trees saw, and what a run spends on it."""

from __future__ import annotations

import gc
import re
import weakref
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import simile
from conftest import demos_of
from naive import naive_leaf, naive_predict, naive_roll
from simile import Bagging, ColdStart, Criterion, Demonstrations, DivergedError, Horizon, SimileError, SmoothForest
from simile.data.groups import draw_sequences
from simile.data.recorded import ActionSpace, Units
from simile.data.states import States
from simile.models import WeightedModel
from simile.models.kernels import binning, predicting
from simile.models.regularizers import Autoregressor, PreviousAction
from simile.models.trees import Tree, keep_best
from simile.policies import fused
from simile.policies.fused import FusedPolicy
from simile.policies.policies import Mixture, SmoothPolicy, whole
from simile.policies.rollouts import open_rollout, rollout, rollout_out_of_bag

# The generator of the bags wraps around on purpose; NumPy says so where numba is switched off.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in scalar:RuntimeWarning")

RNG = np.random.default_rng
SMALL = SmoothForest(n_trees=3, max_depth=4, min_leaf=2, max_features=0.5, n_jobs=1)
LENGTHS = st.lists(st.integers(1, 14), min_size=1, max_size=4)
ARRAYS = ("feature", "threshold", "missing_right", "child", "value", "gain", "roots", "depths", "number")


def with_holes(demos: Demonstrations, share: float = 0.2, seed: int = 0) -> Demonstrations:
    """The same demonstrations with some contexts missing."""
    rng = RNG(seed)
    holes = [np.where(rng.random(x.shape) < share, np.nan, x) for x in demos.contexts]
    return Demonstrations.from_arrays(holes, demos.actions)


def fitted(demos: Demonstrations, horizon: Horizon, recipe: SmoothForest = SMALL, seed: int = 0, labels=None):
    """Grow a forest on the expert's states."""
    y = np.concatenate(demos.actions) if labels is None else labels
    return recipe.fit_smooth([horizon.states(demos, demos.actions)], y, y, y, 0.0, RNG(seed))


def policy_of(demos, horizon, *, order=2, smoothness=2.0, n_parts=1, space=None, seed=0, gain=1.0):
    """A policy, or a mixture of several, whose f are forests grown on the expert's states."""
    rng, units, k = RNG(seed), Units.of(demos), demos.n_actions
    demos = demos.with_actions([units.standardize(a) for a in demos.actions])
    y = np.concatenate(demos.actions)
    parts = []
    for i in range(n_parts):
        recipe = replace(SMALL, n_trees=1 + i, max_depth=4 - i)
        f = fitted(demos, horizon, recipe, seed + i, y + 0.3 * rng.normal(size=y.shape))
        naive = fitted(demos, horizon.without_actions(), recipe, seed + i)
        h = Autoregressor(gain * rng.dirichlet(np.ones(order + i), size=k).T)
        parts.append(SmoothPolicy(f, h, smoothness, horizon, naive, demos.n_contexts, units, space or ActionSpace()))
    weights = 0.1 + rng.random(n_parts)
    return Mixture(tuple(parts), tuple(weights / weights.sum())) if n_parts > 1 else parts[0]


def rolled_generally(policy, demos, **how):
    """Roll out frame by frame, as any policy is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FusedPolicy, "of", lambda _: None)
        return rollout(policy, demos, **how)


def assert_same_forest(first, second, arrays=ARRAYS):
    for name in arrays:
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)


# Prediction


@settings(max_examples=25)
@given(
    LENGTHS, st.integers(0, 3), st.integers(0, 3), st.integers(1, 3), st.sampled_from([0.0, 0.3]), st.integers(0, 99)
)
def test_a_forest_predicts_as_its_naive_walk(lengths, context_lags: int, action_lags: int, k: int, holes, seed: int):
    demos = with_holes(demos_of(*lengths, k=k, seed=seed), holes, seed)
    forest = fitted(demos, Horizon(context_lags, action_lags), seed=seed)
    S = RNG(seed).normal(scale=3.0, size=(20, len(forest.columns)))
    S[RNG(seed).random(S.shape) < 0.2] = np.nan
    np.testing.assert_allclose(forest.predict(S), naive_predict(forest, S), rtol=1e-12, atol=1e-12)


def test_trees_of_different_depth_lie_deepest_first_and_each_predicts_its_own_leaf():
    # Each bag holds a few of the sequences, and some of those cannot be split.
    demos = demos_of(30, 1, 1, 1)
    recipe = SmoothForest(n_trees=12, max_depth=None, min_leaf=1, bagging=Bagging.SEQUENCES)
    forest = fitted(demos, Horizon(1, 0), recipe)
    assert len(set(forest.depths)) > 2
    assert (np.diff(forest.depths) <= 0).all()
    S = Horizon(1, 0).states(demos, demos.actions).matrix()
    np.testing.assert_allclose(forest.predict(S), naive_predict(forest, S), rtol=1e-12)
    for i, root in enumerate(forest.roots):
        alone = [forest.value[naive_leaf(forest, root, s)] for s in S]
        np.testing.assert_array_equal(forest.only(np.array([i])).predict(S), alone)


def test_more_trees_than_a_block_predict_and_roll_out_as_their_twins():
    demos = demos_of(12, 5)
    forest = fitted(demos, Horizon(1, 0), replace(SMALL, n_trees=2 * predicting.BLOCK + 3))
    S = Horizon(1, 0).states(demos, demos.actions).matrix()
    np.testing.assert_allclose(forest.predict(S), naive_predict(forest, S), rtol=1e-12, atol=1e-12)
    policy = replace(policy_of(demos, Horizon(1, 0)), f=forest)
    for ours, theirs in zip(rollout(policy, demos), rolled_generally(policy, demos), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_missing_values_never_met_in_training_go_left():
    demos = demos_of(40)
    forest = fitted(demos, Horizon(0, 0), replace(SMALL, n_trees=1))
    assert not forest.missing_right.any()
    lowest = np.full((1, 2), -1e30)
    np.testing.assert_array_equal(forest.predict(np.full((1, 2), np.nan)), forest.predict(lowest))


@pytest.mark.parametrize("lags", [(0, 0), (3, 0), (2, 2), ((0, 4), (1, 3))])
def test_reading_the_tape_gives_the_bits_of_reading_the_lag_matrix(lags):
    horizon = Horizon(*lags)
    demos = with_holes(demos_of(25, k=2))
    forest = fitted(demos, horizon)
    room = max(horizon.memory, *horizon.context_lags)
    frames = np.concatenate([demos[0].contexts, demos[0].actions], axis=1).astype(np.float32)
    Z = np.concatenate([np.repeat(frames[:1], room, axis=0), frames])
    places = (room + np.arange(len(frames))) * forest.width
    trees = predicting.Trees(
        forest.on_tape, forest.roots, forest.depths, forest.value, bool(forest.missing_right.any())
    )
    no_lines = predicting.Lines(np.empty(0, predicting.TERM), np.zeros((1, 2)))
    out, at = np.empty((len(frames), 2)), np.empty(predicting.BLOCK, np.int32)
    predicting.predict(trees, no_lines, Z.ravel(), places, len(places), at, out)
    S = horizon.states(demos, demos.actions).matrix()
    np.testing.assert_array_equal(out / len(forest.roots), forest.predict(S))


def test_nodes_are_small_unless_their_numbers_are_large():
    zero, threshold = np.zeros(40_000, np.int64), np.zeros(40_000, np.float32)
    child, right = np.arange(40_000, dtype=np.int32), zero == 1
    assert predicting.pack_nodes(threshold, zero + 32_767, child, right).dtype == predicting.NODE
    child[0], right[0] = 32_767, True
    nodes = predicting.pack_nodes(threshold, zero - 32_767, child, right)
    assert (nodes.dtype, nodes["child"][0]) == (predicting.NODE, ~32_767)
    assert predicting.pack_nodes(threshold, zero + 32_768, child, right).dtype == predicting.WIDE
    child[0] = 32_768
    nodes = predicting.pack_nodes(threshold, zero, child, right)
    assert (nodes.dtype, nodes["child"][0]) == (predicting.WIDE, ~32_768)


@pytest.mark.parametrize("wide", [{0}, {1}, {0, 1}])
def test_large_nodes_predict_and_roll_out_with_the_bits_of_small_ones(wide):
    demos = with_holes(demos_of(20, 15))
    policy = policy_of(demos, Horizon(2, 1), n_parts=2)
    S = Horizon(2, 1).states(demos, demos.actions).matrix()
    small = [*rollout(policy, demos), *(part.f.predict(S) for part in policy.components)]
    policy = policy_of(demos, Horizon(2, 1), n_parts=2)
    for i in wide:  # as those of trees with more nodes than a test can grow
        f = policy.components[i].f
        f.__dict__.update({name: getattr(f, name).astype(predicting.WIDE) for name in ("on_tape", "on_matrix")})
    assert FusedPolicy.of(simile.collapse(policy)).trees.nodes.dtype == predicting.WIDE
    large = [*rollout(policy, demos), *(part.f.predict(S) for part in policy.components)]
    for ours, theirs in zip(large, small, strict=True):
        np.testing.assert_array_equal(ours, theirs)


# Roll-outs


@st.composite
def rollouts(draw, action_lags):
    """A policy of forests, sequences to roll it out over, and a start."""
    k, seed = draw(st.integers(1, 3)), draw(st.integers(0, 2**32))
    demos = demos_of(*draw(LENGTHS), k=k, seed=seed % 1000)
    if draw(st.booleans()):
        demos = with_holes(demos, seed=seed)
    policy = policy_of(
        demos,
        Horizon(draw(st.sampled_from([0, 1, 3, (0, 5)])), draw(action_lags)),
        order=draw(st.integers(1, 4)),
        smoothness=draw(st.sampled_from([0.0, 1.0, 30.0])),
        n_parts=draw(st.integers(1, 3)),
        space=draw(st.sampled_from([None, ActionSpace(-0.5, 0.5), ActionSpace(low=np.full(k, -0.1))])),
        seed=seed,
    )
    history = RNG(seed).normal(size=(draw(st.sampled_from([1, 2, 30])), k))
    start = draw(
        st.sampled_from([None, ColdStart(), history, [history[-1 - i % len(history) :] for i, _ in enumerate(demos)]])
    )
    return policy, demos, start


@settings(max_examples=40)
@given(rollouts(action_lags=st.just(0)))
def test_the_fused_roll_out_is_the_general_one_where_f_reads_contexts(case):
    policy, demos, start = case
    assert FusedPolicy.of(simile.collapse(policy)) is not None
    ours, theirs = rollout(policy, demos, start=start), rolled_generally(policy, demos, start=start)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@settings(max_examples=20)
@given(rollouts(action_lags=st.sampled_from([1, 3, (2, 6)])))
def test_the_fused_roll_out_is_the_general_one_where_f_reads_actions(case):
    policy, demos, start = case
    ours, theirs = rollout(policy, demos, start=start), rolled_generally(policy, demos, start=start)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@settings(max_examples=20)
@given(rollouts(action_lags=st.sampled_from([0, 2])))
def test_the_fused_roll_out_equals_its_naive_twin(case):
    policy, demos, start = case
    opening = open_rollout(policy, demos, start)
    twin = naive_roll(policy, demos.contexts, opening.past, opening.given)
    for ours, theirs in zip(rollout(policy, demos, start=start), twin, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


@settings(max_examples=20)
@given(st.lists(st.integers(1, 80), min_size=1, max_size=4), st.sampled_from([1.5, 2.0, 8.0]), st.integers(1, 3))
@example([80, 60, 80], 1.5, 2)
def test_divergence_is_reported_at_the_same_sequence_and_frame(lengths, gain: float, k: int):
    demos = demos_of(*lengths, k=k)
    policy = policy_of(demos, Horizon(1, 0), smoothness=20.0, gain=gain)
    found = []
    for roll in (rollout, rolled_generally):
        try:
            roll(policy, demos)
            found.append(None)
        except DivergedError as error:
            found.append(re.search(r"sequence (\d+) diverged at frame (\d+)", str(error)).groups())
    assert found[0] == found[1]
    if lengths == [80, 60, 80]:
        assert found[0] is not None


@pytest.mark.parametrize("frame", [2, 7])
def test_a_leaf_that_is_not_a_number_is_divergence_at_its_frame(frame: int):
    x = [np.where(np.arange(10) == t, 5.0, 0.0) for t in (10, frame, frame)]
    demos = Demonstrations.from_arrays(x, [np.arange(10.0)] * 3)
    recipe = replace(SMALL, n_trees=1, min_leaf=1, bagging=Bagging.NONE)
    f = fitted(demos, Horizon(0, 0), recipe, labels=np.concatenate(demos.contexts))
    broken = replace(f, value=np.where(f.value == 5.0, np.nan, f.value))
    policy = replace(policy_of(demos, Horizon(0, 0), order=1), f=broken)
    for roll in (rollout, rolled_generally):
        with pytest.raises(DivergedError, match=f"sequence 1 diverged at frame {frame}"):
            roll(policy, demos)


def test_threads_share_the_sequences_and_change_no_bit(monkeypatch):
    demos = demos_of(30, 1, 12, 25, 7)
    policy = policy_of(demos, Horizon(1, 2), n_parts=2)
    alone = rollout(policy, demos)
    monkeypatch.setattr("simile.policies.fused.FEWEST_FRAMES", 1)
    for n in (2, 3, 16):
        monkeypatch.setattr("simile.policies.fused.os.cpu_count", lambda n=n: n)
        for a, b in zip(rollout(policy, demos), alone, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_sequence_is_rolled_out_to_the_same_bits_whatever_its_company():
    demos = demos_of(30, 3, 25, k=2)
    policy = policy_of(demos, Horizon(2, 2), n_parts=3)
    for i, together in enumerate(rollout(policy, demos)):
        np.testing.assert_array_equal(rollout(policy, demos[i : i + 1])[0], together)


def test_policies_that_no_kernel_knows_are_rolled_out_in_general(tree):
    demos = demos_of(40, 30)
    forest = policy_of(demos, Horizon(1, 0))
    other = simile.clone(demos, model=tree, horizon=Horizon(1, 0)).policy
    assert FusedPolicy.of(other) is None
    assert FusedPolicy.of(simile.collapse(Mixture((forest, replace(forest, f=other.f)), (0.5, 0.5)))) is None
    assert FusedPolicy.of(Mixture((forest, replace(forest, smoothness=9.0)), (0.5, 0.5))) is None


# Growing on lazy states


@pytest.mark.parametrize("criterion", Criterion)
@pytest.mark.parametrize("bagging", Bagging)
def test_lazy_states_give_the_forest_of_the_materialised_matrix(criterion, bagging):
    rng, horizon = RNG(0), Horizon((0, 2), (1, 3))
    contexts = [np.where(rng.random((n, 2)) < 0.1, np.nan, rng.integers(4, size=(n, 2))) for n in (40, 60)]
    demos = Demonstrations.from_arrays(contexts, [rng.integers(3, size=(n, 1)) for n in (40, 60)])
    states = horizon.states(demos, demos.actions)
    S = states.matrix()
    as_columns = Demonstrations.from_arrays([S[:40], S[40:]], demos.actions)
    recipe = SmoothForest(4, 5, 3, 0.5, criterion, bagging)
    targets, anchors = rng.normal(size=(2, 100, 1))
    lazy, direct = (
        recipe.fit_smooth([s], targets, targets, anchors, 0.5, RNG(3))
        for s in (states, Horizon(0, 0).states(as_columns, demos.actions))
    )
    assert_same_forest(lazy, direct)
    np.testing.assert_array_equal(lazy.predict(S), direct.predict(S))


def test_a_lag_never_reaches_into_another_sequence():
    demos = demos_of(12, 9)
    apart = Demonstrations.from_arrays([demos[0].contexts, demos[1].contexts * 0.0 + 5.0], demos.actions)
    # What the first sequence teaches about its own frames does not depend on the second: grow on its rows alone.
    horizon, y = Horizon(3, 2), np.concatenate(demos.actions)[:12]
    recipe = replace(SMALL, bagging=Bagging.NONE)
    bits = []
    for some in (Demonstrations((demos[0],)), apart):
        states = horizon.states(some, some.actions)
        first = states.where(np.arange(12))
        bits.append((recipe.fit_smooth([first], y, y, y, 0.0, RNG(0)), first.matrix()))
    (alone, S), (beside, _) = bits
    np.testing.assert_allclose(alone.predict(S), beside.predict(S), rtol=1e-12)


def test_several_sets_of_states_are_one_training_set():
    demos = demos_of(20, 15)
    states = Horizon(2, 2).states(demos, demos.actions)
    y = np.concatenate(demos.actions)
    twice = np.concatenate([y, y])
    recipe = replace(SMALL, bagging=Bagging.NONE, max_features=None)
    one = replace(recipe, min_leaf=2).fit_smooth([states], y, y, y, 0.0, RNG(0))
    two = replace(recipe, min_leaf=4).fit_smooth([states, states], twice, twice, twice, 0.0, RNG(0))
    np.testing.assert_allclose(one.predict(states.matrix()), two.predict(states.matrix()), rtol=1e-9)


# Best first


def upper_part(forest, leaves):
    """What best-first growth makes of each tree of a forest that was grown without limit."""
    ends = [*forest.roots[1:], len(forest.feature)]
    trees = []
    for root, end in zip(forest.roots, ends, strict=True):
        parts = {name: getattr(forest, name)[root:end] for name in ("feature", "missing_right", "value", "gain")}
        whole = Tree(**parts, bin=forest.threshold[root:end], child=forest.child[root:end] - root, depth=99)
        trees.append(keep_best(whole, leaves))
    return trees


@settings(max_examples=25)
@given(LENGTHS, st.integers(1, 2), st.booleans(), st.sampled_from(Criterion), st.integers(2, 12), st.integers(0, 2**32))
def test_a_tree_grown_best_first_is_the_upper_part_of_the_whole_tree(lengths, k, holes, criterion, leaves, seed):
    demos = demos_of(*lengths, k=k, seed=seed)
    demos = with_holes(demos, seed=seed) if holes else demos
    recipe = replace(SMALL, criterion=criterion, max_depth=None)
    whole = fitted(demos, Horizon(1, 1), recipe, seed)
    best = fitted(demos, Horizon(1, 1), replace(recipe, max_leaves=leaves), seed)
    parts = dict(zip(whole.number, upper_part(whole, leaves), strict=True))
    ends = [*best.roots[1:], len(best.feature)]
    for root, end, depth, number in zip(best.roots, ends, best.depths, best.number, strict=True):
        part = parts[number]
        assert depth == part.depth
        assert (best.feature[root:end] < 0).sum() <= leaves
        np.testing.assert_array_equal(best.child[root:end] - root, part.child)
        for name in ("feature", "missing_right", "value", "gain"):
            np.testing.assert_array_equal(getattr(best, name)[root:end], getattr(part, name), err_msg=name)
        inner = part.feature >= 0
        np.testing.assert_array_equal(best.threshold[root:end][inner], part.bin[inner])


def test_more_leaves_than_a_tree_can_have_are_no_limit_but_for_the_order_of_the_nodes():
    demos = demos_of(80, 60, k=2)
    S = Horizon(2, 2).states(demos, demos.actions).matrix()
    whole, best = (fitted(demos, Horizon(2, 2), replace(SMALL, max_leaves=leaves)) for leaves in (None, 1000))
    assert len(whole.feature) == len(best.feature)
    np.testing.assert_array_equal(whole.predict(S), best.predict(S))


def test_of_two_nodes_that_gain_as_much_the_older_is_split_first():
    x, y = np.arange(8.0)[:, np.newaxis], np.array([0.0, 0.0, 2.0, 2.0, 10.0, 10.0, 12.0, 12.0])[:, np.newaxis]
    demos = Demonstrations.from_arrays([x], [y])
    recipe = SmoothForest(1, None, 1, None, bagging=Bagging.NONE, max_leaves=3)
    forest = fitted(demos, Horizon(0, 0), recipe)
    assert forest.feature.tolist() == [0, 0, -1, -1, -1]  # the left child


# Determinism


@pytest.mark.parametrize("bagging", Bagging)
def test_the_forest_does_not_depend_on_the_number_of_threads(bagging):
    demos = demos_of(40, 30, k=2)
    for leaves in (None, 6):
        recipe = replace(SMALL, n_trees=6, bagging=bagging, max_leaves=leaves)
        assert_same_forest(*(fitted(demos, Horizon(2, 2), replace(recipe, n_jobs=j)) for j in (1, 2)))


def test_the_same_seed_gives_the_same_bits_and_another_seed_others():
    demos = demos_of(40, 30)
    S = Horizon(2, 2).states(demos, demos.actions).matrix()
    first, again, other = (fitted(demos, Horizon(2, 2), seed=seed).predict(S) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_trees_of_a_forest_differ_by_their_bags_and_by_the_features_they_try():
    demos = demos_of(60)
    for recipe in (replace(SMALL, bagging=Bagging.NONE), replace(SMALL, max_features=None)):
        forest = fitted(demos, Horizon(2, 0), recipe)
        sizes = np.diff([*forest.roots, len(forest.feature)])
        trees = {tuple(forest.value[r : r + n, 0]) for r, n in zip(forest.roots, sizes, strict=True)}
        assert len(trees) == 3


# Bags


def test_bags_of_sequences_hold_whole_sequences():
    demos = demos_of(9, 4, 1, 7)
    forest = fitted(demos, Horizon(2, 1), replace(SMALL, n_trees=8, bagging=Bagging.SEQUENCES))
    for tree in range(8):
        counts = forest.bag.counts(tree)
        parts = np.split(counts, np.cumsum([9, 4, 1]))
        assert [len(set(part)) for part in parts] == [1, 1, 1, 1]
        assert sum(part[0] for part in parts) == 4


def test_bags_of_rows_hold_as_many_rows_and_no_bag_holds_each_once():
    demos = demos_of(9, 4)
    assert {fitted(demos, Horizon(0, 0)).bag.counts(i).sum() for i in range(3)} == {13}
    whole = fitted(demos, Horizon(0, 0), replace(SMALL, bagging=Bagging.NONE))
    np.testing.assert_array_equal(whole.bag.counts(0), np.ones(13))


def test_out_of_bag_trees_saw_nothing_of_the_sequence_and_are_all_of_those():
    demos = demos_of(20, 15, 25)
    recipe = replace(SMALL, n_trees=12, bagging=Bagging.SEQUENCES)
    forest = fitted(demos, Horizon(1, 0), recipe)
    S, y = Horizon(1, 0).states(demos, demos.actions).matrix(), np.concatenate(demos.actions)
    starts = [0, 20, 35, 60]
    for sequence in range(3):
        inside = slice(starts[sequence], starts[sequence + 1])
        unseen = forest.out_of_bag(sequence, 3)
        saw = [bool(forest.bag.counts(i)[inside].any()) for i in range(12)]
        assert sorted(unseen.number) == [i for i in range(12) if not saw[i]]
        np.testing.assert_allclose(unseen.predict(S), naive_predict(unseen, S), rtol=1e-12)
        # Other labels in the sequence change those trees that saw it, and no bit of the others.
        changed = y.copy()
        changed[inside] += 100.0 * RNG(0).normal(size=changed[inside].shape)
        other = fitted(demos, Horizon(1, 0), recipe, labels=changed)
        np.testing.assert_array_equal(other.out_of_bag(sequence, 3).predict(S), unseen.predict(S))
        assert (other.predict(S) != forest.predict(S)).any()


def test_out_of_bag_roll_outs_use_for_each_sequence_the_trees_that_saw_nothing_of_it():
    demos = demos_of(20, 15, 25)
    recipe = replace(SMALL, n_trees=12, bagging=Bagging.SEQUENCES)
    policy = simile.paper(demos, model=recipe, n_rounds=1, horizon=Horizon(1, 1), regularizer=PreviousAction()).policy
    whole = simile.collapse(policy)
    parts = getattr(whole.f, "models", (whole.f,))
    for i, rolled in enumerate(rollout_out_of_bag(policy, demos)):
        unseen = tuple(f.out_of_bag(i, 3) for f in parts)
        f = replace(whole.f, models=unseen) if len(parts) > 1 else unseen[0]
        np.testing.assert_array_equal(rolled, rollout(replace(whole, f=f), demos[i : i + 1])[0])


# Importances


@pytest.mark.parametrize("criterion", Criterion)
def test_importances_sum_to_one_and_find_the_feature_that_matters(criterion):
    contexts = RNG(0).normal(size=(200, 3))
    demos = Demonstrations.from_arrays([contexts], [np.concatenate([[0.0], contexts[:-1, 2]])])
    forest = fitted(demos, Horizon(1, 1), replace(SMALL, criterion=criterion, max_features=None))
    assert forest.feature_importances.sum() == pytest.approx(1.0)
    names = Horizon(1, 1).feature_names(demos.context_names, demos.action_names)
    assert names[int(forest.feature_importances.argmax())] == "x2[t-1]"
    assert forest.feature_importances.max() > 0.8


def test_a_forest_without_splits_has_no_importances():
    forest = fitted(demos_of(20), Horizon(0, 0), replace(SMALL, max_depth=0))
    np.testing.assert_array_equal(forest.feature_importances, [0.0, 0.0])
    np.testing.assert_array_equal(forest.depths, [0, 0, 0])


def test_max_features_is_a_count_a_share_the_square_root_or_all():
    rng = RNG(0)
    demos = Demonstrations.from_arrays([rng.normal(size=(60, 4))], [rng.normal(size=60)])
    recipe = replace(SMALL, bagging=Bagging.NONE)
    for count, share in ((2, 0.5), (99, 1.0), (4, None), (1, 0.01), (2, "sqrt")):
        assert_same_forest(
            *(fitted(demos, Horizon(0, 0), replace(recipe, max_features=m)) for m in (count, share)),
        )
    alone, every = (fitted(demos, Horizon(0, 0), replace(recipe, max_features=m)) for m in (1, None))
    assert set(every.feature[every.roots]) < set(alone.feature[alone.roots])


# What a run spends


def test_contexts_are_binned_once_per_run_and_actions_once_per_fit(monkeypatch):
    binned, bin_column = [], binning.bin_column
    monkeypatch.setattr(binning, "bin_column", lambda *args: binned.append(args[0].copy()) or bin_column(*args))
    demos = demos_of(40, 30, m=3)
    simile.paper(demos, model=SmoothForest(n_trees=2), n_rounds=3)
    contexts = np.concatenate(demos.contexts).astype(np.float32)
    times = [sum(np.array_equal(seen, column) for seen in binned) for column in contexts.T]
    assert times == [1, 1, 1]
    assert len(binned) == 3 + 4  # the actions: for round 0 and for each of three rounds; for f_0 when a cold start asks


def test_dagger_bins_the_contexts_once_however_many_rounds_it_keeps(monkeypatch):
    binned, bin_column = [], binning.bin_column
    monkeypatch.setattr(binning, "bin_column", lambda *args: binned.append(args[0].copy()) or bin_column(*args))
    demos = demos_of(40, 30)
    simile.dagger(demos, model=SmoothForest(n_trees=2), n_rounds=2, horizon=Horizon(3, 2))
    assert [sum(np.array_equal(b, x) for b in binned) for x in np.float32(np.concatenate(demos.contexts)).T] == [1, 1]


def test_no_lag_matrix_is_ever_built(monkeypatch):
    monkeypatch.setattr(States, "matrix", lambda self: pytest.fail("somebody built the lag matrix"))
    run = simile.paper(demos_of(40, 30, 30), model=SmoothForest(n_trees=2, min_leaf=4), n_rounds=2, validation=0.2)
    assert len(run.rounds) == 3


def test_the_rounds_of_a_run_roll_out_fused_as_in_general():
    demos = with_holes(demos_of(40, 30, 35, k=2))
    settings = {"model": SmoothForest(n_trees=2, min_leaf=4), "n_rounds": 2, "horizon": Horizon(2, 0)}
    run = simile.paper(demos, regularizer=simile.CriticallyDamped(), smoothness=5.0, **settings)
    assert isinstance(run.policy, Mixture)
    for a, b in zip(rollout(run.policy, demos), rolled_generally(run.policy, demos), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


# Bad calls


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SmoothForest(n_trees=0), "n_trees must be >= 1; got 0"),
        (lambda: SmoothForest(n_trees=2.5), "n_trees must be a whole number; got 2.5"),
        (lambda: SmoothForest(min_leaf=0), "min_leaf must be >= 1; got 0"),
        (lambda: SmoothForest(max_depth=-1), "max_depth must be >= 0; got -1"),
        (lambda: SmoothForest(max_leaves=1), "max_leaves must be >= 2; got 1"),
        (lambda: SmoothForest(max_leaves=8.5), "max_leaves must be a whole number; got 8.5"),
        (lambda: SmoothForest(max_features=0), "max_features must be >= 1; got 0"),
        (lambda: SmoothForest(max_features=0.0), "max_features must be > 0 and <= 1; got 0.0"),
        (lambda: SmoothForest(max_features=1.5), "max_features must be > 0 and <= 1; got 1.5"),
        (lambda: SmoothForest(max_features="log2"), "max_features must be \"sqrt\", a number or None; got 'log2'"),
        (lambda: SmoothForest(max_features=(1,)), r"max_features must be a whole number; got \(1,\)"),
        (lambda: SmoothForest(n_jobs=0), "n_jobs must be >= 1; got 0"),
        (lambda: SmoothForest(criterion="mse"), "criterion must be one of Criterion.LABELS, .*; got 'mse'"),
        (lambda: SmoothForest(bagging=True), "bagging must be one of Bagging.NONE, .*; got True"),
        (
            lambda: fitted(demos_of(20), Horizon(1, 1)).predict(np.zeros((3, 4))),
            "S must have the 5 features the forest was grown on; got 4",
        ),
        (
            lambda: fitted(demos_of(20), Horizon(0, 0)).out_of_bag(0, 1),
            r"out-of-bag roll-outs need SmoothForest\(bagging=Bagging.SEQUENCES\)",
        ),
        (
            lambda: fitted(demos_of(20), Horizon(0, 0), replace(SMALL, bagging=Bagging.SEQUENCES)).out_of_bag(0, 1),
            "every tree saw sequence 0: grow more than 3 trees",
        ),
        (
            lambda: fitted(demos_of(20), Horizon(0, 0), replace(SMALL, bagging=Bagging.SEQUENCES)).out_of_bag(0, 2),
            "demos must be the 1 sequences the forest was grown on; got 2",
        ),
        (
            lambda: rollout_out_of_bag(
                SmoothPolicy(None, Autoregressor(np.ones((1, 1))), 1.0, Horizon(0, 0)), demos_of(9)
            ),
            "policy must be made of forests .* to be rolled out of bag",
        ),
    ],
)
def test_bad_calls_are_refused(make, message: str):
    with pytest.raises(SimileError, match=message):
        make()


def test_an_f_is_fused_once_whatever_filter_is_behind_it(monkeypatch):
    demos, merged = demos_of(20, 30), []
    policy = policy_of(demos, Horizon(2, 0), n_parts=3)
    first, merge = rollout(policy, demos), fused._merge
    monkeypatch.setattr(fused, "_merge", lambda *given: merged.append(given) or merge(*given))
    np.testing.assert_array_equal(np.concatenate(rollout(policy, demos)), np.concatenate(first))
    one = whole(policy)
    for smoothness in (0.0, 1.0, 5.0):
        rollout(replace(one, smoothness=smoothness, h=PreviousAction().fit(demos.actions, smoothness)), demos)
    assert not merged
    rollout(replace(one, f=WeightedModel(one.f.models, one.f.weights)), demos)
    assert len(merged) == 1


def test_of_the_arrays_of_fused_models_few_are_kept_and_none_longer_than_its_model():
    demos = demos_of(20)
    policies = [policy_of(demos, Horizon(1, 0), seed=seed) for seed in range(fused.MOST_KEPT + 3)]
    for policy in policies:
        assert FusedPolicy.of(policy) is not None
    assert len(fused._kept) == fused.MOST_KEPT
    models = [weakref.ref(policy.f) for policy in policies]
    del policy, policies
    gc.collect()
    assert not any(model() for model in models)


def test_a_tree_sees_whole_sequences_up_to_a_number_of_frames():
    demos = demos_of(30, 20, 25, 40, seed=3)
    states, labels = Horizon(2, 0).states(demos, demos.actions), np.concatenate(demos.actions)
    model = replace(SMALL, bagging=Bagging.NONE, max_frames=60)
    forest = model.fit_smooth([states], labels, labels, labels, 0.0, RNG(0))
    assert forest.bag.bagging is Bagging.NONE
    starts, seen_by = np.cumsum([0, 30, 20, 25, 40]), set()
    for place, number in enumerate(forest.number):
        seen = draw_sequences(np.diff(starts), 60, forest.bag.seeds[number])
        seen_by.add(tuple(seen))
        assert 1 <= len(seen) < 4
        inside = np.isin(np.repeat(np.arange(4), np.diff(starts)), seen)
        np.testing.assert_allclose(forest.value[forest.roots[place]], labels[inside].mean(axis=0))
    assert len(seen_by) > 1  # each tree its own
    same = replace(model, max_frames=115).fit_smooth([states], labels, labels, labels, 0.0, RNG(0))
    assert_same_forest(same, replace(model, max_frames=None).fit_smooth([states], labels, labels, labels, 0.0, RNG(0)))
    with pytest.raises(SimileError, match="max_frames"):
        SmoothForest(max_frames=0)
