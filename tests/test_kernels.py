"""The kernels against their slow twins: binning, histograms, splits, bags, growth, and sending states down trees."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from fractions import Fraction

import numba as nb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeRegressor

from conftest import demos_of
from naive import (
    MISSING,
    NaiveNode,
    naive_bin,
    naive_branch,
    naive_draw,
    naive_edges,
    naive_features,
    naive_grow,
    naive_grow_best_first,
    naive_histogram,
    naive_leaf,
    naive_random,
    naive_states,
)
from simile import Bagging, Criterion, Demonstrations, Horizon, ImitationRule, JointRule, SmoothForest
from simile.models import trees
from simile.models.kernels import compiling, histograms, splitting
from simile.models.kernels.binning import bin_column, bin_edges
from simile.models.kernels.drawing import branch, draw_counts
from simile.models.kernels.growing import draw_features
from simile.models.kernels.histograms import Features, merge, sum_by_bin
from simile.models.kernels.splitting import Rules, make_room, measure_gain
from simile.models.trees import Bag, exact_units, measure_bag, take_bag

# The generator of the bags wraps around on purpose; NumPy says so where numba is switched off.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in scalar:RuntimeWarning")

RNG = np.random.default_rng


def called_from_python(inner):
    """A function that otherwise kernels alone can call."""
    return nb.njit(getattr(inner, "py_func", inner), error_model="numpy")


fill_histograms = called_from_python(histograms.fill_histograms)
weigh_leaves, find_split = called_from_python(splitting.weigh_leaves), called_from_python(splitting.find_split)
SEEDS = st.integers(0, 2**32)
CRITERIA = st.sampled_from(Criterion)
RULES = st.sampled_from([JointRule(), ImitationRule()])
SMOOTHNESS = st.sampled_from([0.0, 0.5, 10.0])
FEW = st.one_of(st.integers(-3, 3).map(float), st.just(np.nan))
HUGE = st.one_of(st.floats(-1e38, 1e38), st.just(np.nan))
COLUMNS = st.lists(FEW, min_size=1, max_size=60) | st.lists(HUGE, min_size=1, max_size=60)


def binned(column):
    """The edges and bins of a column."""
    column = np.array(column, dtype=np.float64)
    edges = bin_edges(column)
    return edges, bin_column(column, edges)


def check_bins(column):
    """Compare with the twin, and assert what every part of the forest relies on."""
    edges, bins = binned(column)
    assert edges.dtype == np.float32
    assert list(edges) == naive_edges(column)
    assert list(bins) == [naive_bin(v, edges) for v in column]
    missing = np.isnan(column)
    assert (bins[missing] == MISSING).all()
    assert bins[~missing].max(initial=0) <= len(edges) <= 254
    values = np.array(column, dtype=np.float32)[~missing]
    for b, edge in enumerate(edges):
        np.testing.assert_array_equal(values <= edge, bins[~missing] <= b)
    assert (np.diff(bins[~missing][np.argsort(values, kind="stable")].astype(int)) >= 0).all()


@given(COLUMNS)
def test_a_column_is_binned_as_by_its_twin(column: list[float]):
    check_bins(column)


@pytest.mark.parametrize(
    "column",
    [
        [np.nan],
        [np.nan] * 5,
        [7.5],
        [7.5] * 40 + [np.nan],
        [-0.0, 0.0],
        [1.0, 1.0 + 1e-12],  # one value in single precision
        [1e-45, 3e-45, 4e-45, -1e-45],  # neighbours, with no number half-way
        [1.0, np.nextafter(np.float32(1.0), np.float32(2.0))],
        [0.0, 1e38, -1e38],
    ],
    ids=str,
)
def test_odd_columns_are_binned_as_by_their_twin(column: list[float]):
    check_bins(column)


@pytest.mark.parametrize("n", [255, 256, 300, 1000])
@pytest.mark.parametrize("ties", [False, True])
def test_many_distinct_values_share_254_edges_at_their_quantiles(n: int, ties: bool):
    column = RNG(n).normal(size=n)
    column[3] = np.nan
    if ties:
        column[: n // 2 : 2] = 0.25
    check_bins(column)
    assert len(binned(column)[0]) == (253 if n == 255 else 254) or ties


@given(st.lists(st.integers(-400, 400), min_size=1, max_size=255, unique=True))
def test_up_to_255_distinct_values_have_a_bin_each(column: list[int]):
    assert sorted(binned(column)[1]) == list(range(len(column)))


def test_a_column_of_the_training_set_bins_unseen_values_by_the_same_edges():
    edges, _ = binned([0.0, 1.0, 2.0])
    bins = bin_column(np.array([-1e30, 0.5, 0.51, 1.49, 1e30, np.nan]), edges)
    assert list(bins) == [0, 0, 1, 1, 2, MISSING]


@st.composite
def nodes(draw, most_features=3):
    """Random nodes: tied and missing features, labels by a rule, weights."""
    rng = RNG(draw(SEEDS))
    n, k = draw(st.integers(2, 30)), draw(st.sampled_from([1, 3]))
    features = rng.integers(12, size=(n, draw(st.integers(1, most_features)))).astype(float)
    features[rng.random(features.shape) < draw(st.sampled_from([0.0, 0.3]))] = np.nan
    targets, anchors = rng.normal(size=(2, n, k))
    weights = rng.integers(2, 13, size=n) / 4.0 if draw(st.booleans()) else np.ones(n)
    smoothness = draw(SMOOTHNESS)
    labels = draw(RULES).labels(targets, anchors, smoothness)
    return NaiveNode(features, labels, targets, anchors, weights, smoothness, draw(CRITERIA))


def payload_of(node: NaiveNode):
    """What the kernels sum: 1, labels, goals and squares, times the weight, in pairs."""
    parts = [np.ones((len(node.labels), 1)), node.labels]
    if node.criterion is not Criterion.LABELS:
        parts.append(node.targets + node.smoothness * node.anchors)
    if node.criterion is Criterion.PRINTED:
        parts.append(np.sum(node.targets**2 + node.smoothness * node.anchors**2, axis=1, keepdims=True))
    payload = node.weights[:, np.newaxis] * np.concatenate(parts, axis=1)
    return np.pad(payload, ((0, 0), (0, payload.shape[1] % 2)))


def rules_of(node: NaiveNode, min_leaf: int = 1) -> Rules:
    """How the node is to be split."""
    k, labels = node.labels.shape[1], node.criterion is Criterion.LABELS
    penalty = 1.0 if labels else 1.0 + node.smoothness
    return Rules(k, 1 if labels else 1 + k, penalty, node.criterion is Criterion.PRINTED, 1, float(min_leaf))


@given(nodes(), st.integers(0, 3), SEEDS)
def test_a_histogram_sums_the_payload_of_some_rows_at_a_lag(node: NaiveNode, lag: int, seed: int):
    payload = payload_of(node)
    n, n_features = node.features.shape
    bins = np.where(np.isnan(node.features), MISSING, node.features).astype(np.uint8).T.copy()
    rows = RNG(seed).permutation(n).astype(np.int32)
    begin, end = sorted(RNG(seed).integers(n + 1, size=2))
    hist, shifts = np.zeros((n_features + 1, 256, payload.shape[1])), np.arange(n_features + 1) * n - lag
    fill_histograms(bins.ravel(), shifts, n_features, rows + np.int32(lag), payload, begin, end, hist)
    for column, summed in zip(bins, hist, strict=False):
        met = column[rows[begin:end]]
        np.testing.assert_allclose(summed, naive_histogram(met, payload[begin:end]) if len(met) else 0.0, atol=1e-12)
    assert not hist[n_features].any()  # nobody asked for it


@pytest.mark.parametrize("n", [1, 127, 128, 255, 256, 400])
@pytest.mark.parametrize("holes", [0.0, 0.1, 1.0])
def test_a_split_leaves_no_sum_behind_and_tells_a_constant_feature(n: int, holes: float):
    rng = RNG(n)
    bins = np.where(rng.random(n) < holes, MISSING, rng.integers(3, 250, size=n)).astype(np.uint8)
    payload = np.concatenate([np.ones((n, 1)), rng.normal(size=(n, 1))], axis=1)
    hist = np.zeros((1, 256, 2))
    fill_histograms(bins, np.zeros(1, np.int64), 1, np.arange(n, dtype=np.int32), payload, 0, n, hist)
    np.testing.assert_allclose(hist[0], naive_histogram(bins, payload), atol=1e-12)
    *_, varies = find_split(hist[0], payload.sum(axis=0), Rules(1, 1, 1.0, False, 1, 1.0), make_room(2))
    assert varies == (len(np.unique(bins)) > 1)
    assert not hist.any()


@given(nodes())
def test_the_score_is_the_impurity_of_appendix_b_below_its_squares(node: NaiveNode):
    payload, rules, scores = payload_of(node), rules_of(node), np.empty(1)
    weigh_leaves(payload.sum(axis=0)[:, np.newaxis], np.uintp(0), np.uintp(1), rules, scores)
    score = scores[0]
    if rules.weigh:
        assert score == pytest.approx(-node.size * node.impurity)
    elif node.criterion is Criterion.LABELS:
        assert np.sum(node.weights[:, np.newaxis] * node.labels**2) - score == pytest.approx(node.impurity, abs=1e-7)
    else:
        squares = node.targets**2 + node.smoothness * node.anchors**2
        assert np.sum(node.weights[:, np.newaxis] * squares) - score == pytest.approx(node.impurity, abs=1e-7)


@given(nodes(most_features=1), st.sampled_from([1, 2, 5]))
def test_the_best_split_has_the_largest_reduction_of_all(node: NaiveNode, min_leaf: int):
    payload, rules = payload_of(node), rules_of(node, min_leaf)
    bins = np.where(np.isnan(node.features[:, 0]), MISSING, node.features[:, 0]).astype(np.uint8)
    hist, total, room = np.zeros((1, 256, payload.shape[1])), payload.sum(axis=0), make_room(payload.shape[1])
    rows = np.arange(len(payload), dtype=np.int32)
    fill_histograms(bins, np.zeros(1, np.int64), 1, rows, payload, 0, len(rows), hist)
    worth, highest, missing_right, _ = find_split(hist[0], total, rules, room)
    best = node.best_reduction(min_leaf)
    if best == -np.inf:
        assert worth == -np.inf
        return
    gain, divides = measure_gain(worth, total, rules)
    assert divides or best == pytest.approx(0.0, abs=1e-7)
    assert gain == pytest.approx(best, rel=1e-9, abs=1e-7)
    side = node.goes_left(0, highest, missing_right)
    assert node.reduction(side) == pytest.approx(best, rel=1e-9, abs=1e-7)
    assert min(node.weights[side].sum(), node.weights[~side].sum()) >= min_leaf


def test_missing_values_go_to_the_side_that_explains_them():
    x = np.array([0.0, 0.0, 1.0, 1.0, np.nan, np.nan])
    for value, goes_right in ((0.0, False), (1.0, True)):
        y = np.array([0.0, 0.0, 1.0, 1.0, value, value])[:, np.newaxis]
        forest = grown(x[:, np.newaxis], y, y, 0.0, Criterion.LABELS, max_depth=1)
        assert forest.missing_right[0] == goes_right
        np.testing.assert_array_equal(forest.predict(np.array([[np.nan]])), [[value]])


def test_missing_values_are_split_from_all_others_where_that_is_best():
    x = np.array([[0.0], [1.0], [2.0], [np.nan], [np.nan]])
    y = np.array([[5.0], [5.0], [5.0], [1.0], [1.0]])
    forest = grown(x, y, y, 0.0, Criterion.LABELS, max_depth=1)
    np.testing.assert_array_equal(forest.predict(x), y)
    np.testing.assert_array_equal(forest.predict(np.array([[1e30], [-1e30]])), [[5.0], [5.0]])


def test_the_generator_is_splitmix64():
    assert list(itertools.islice(naive_random(1234567), 2)) == [6457827717110365317, 3203168211198807973]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.booleans(), st.integers(0, 2**63 - 1))
def test_bags_are_drawn_as_by_their_twin_and_are_as_large_as_the_whole(lengths, by_sequence: bool, seed: int):
    starts = np.cumsum([0, *lengths])
    bagging = Bagging.SEQUENCES if by_sequence else Bagging.ROWS
    counts = Bag(bagging, (seed,), starts).counts(0)
    assert list(counts) == naive_draw(lengths, by_sequence, seed)
    assert (counts[starts[:-1]].sum() == len(lengths)) if by_sequence else (counts.sum() == sum(lengths))
    n = len(lengths) if by_sequence else sum(lengths)
    drawn = draw_counts(n, seed, 0, n)
    for first in range(len(drawn)):  # whoever holds some of them counts those alone, in the same bag
        some = draw_counts(n, seed, first, (n - first + 1) // 2)
        assert list(some) == list(drawn[first : first + len(some)])


def test_a_bag_takes_each_row_as_often_as_it_was_drawn():
    base = RNG(0).normal(size=(4, 3))
    times, positions, units = np.array([2, 0, 1, 0], np.int32), np.array([5, 6, 7, 8], np.int32), 2.0 ** -np.arange(3)
    rows, payload = take_bag(times, positions, base, units)
    np.testing.assert_array_equal(rows, [5, 7])
    rounded = np.round(base / units) * units
    np.testing.assert_array_equal(payload, [2 * rounded[0], rounded[2]])
    np.testing.assert_array_equal(measure_bag(times, base), np.abs(base[[0, 2]]).max(axis=0))


def test_a_bag_is_taken_some_rows_at_a_time_with_the_same_bits(monkeypatch):
    rng = RNG(0)
    times, base = rng.integers(3, size=50).astype(np.int32), rng.normal(size=(50, 2))
    units = exact_units(measure_bag(times, base), float(times.sum()))
    whole = take_bag(times, np.arange(50), base, units)
    monkeypatch.setattr(trees, "AT_ONCE", 7)
    assert measure_bag(times, base).tolist() == np.abs(base[times > 0]).max(axis=0).tolist()
    for some, all_ in zip(take_bag(times, np.arange(50), base, units), whole, strict=True):
        np.testing.assert_array_equal(some, all_)


@given(
    st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=40)
    | st.lists(st.floats(-1e-300, 1e-300), min_size=1, max_size=40)
    | st.lists(st.floats(-3.0, 3.0), min_size=1, max_size=40),
    st.integers(1, 9),
    SEEDS,
)
def test_the_values_in_a_bag_move_a_little_and_have_sums_that_are_exact_in_any_order(values, most: int, seed: int):
    rng, base = RNG(seed), np.array(values)[:, np.newaxis]
    times = rng.integers(most + 1, size=len(values)).astype(np.int32)
    largest, size = measure_bag(times, base), float(times.sum())
    _, payload = take_bag(times, np.arange(len(times)), base, exact_units(largest, size))
    inside, counts = base[times > 0, 0], times[times > 0]
    exact = [Fraction(p) for p in payload[:, 0]]
    for p, value, count in zip(exact, inside, counts, strict=True):
        assert abs(p - int(count) * Fraction(value)) <= int(count) * Fraction(largest[0]) * int(size) / 2**51
    for _ in range(3):
        assert np.cumsum(payload[rng.permutation(len(payload)), 0])[-1:].tolist() == [sum(exact)][: len(exact)]


def test_ordinary_labels_move_by_less_than_a_billionth():
    largest, n = np.array([4.0]), 500_000  # of standardised actions, in a long recording
    assert exact_units(largest, n)[0] / 2 < 1e-9


@given(st.integers(0, 2**64 - 1), st.integers(1, 12), st.data())
def test_nodes_draw_features_as_their_twins_each_from_a_stream_of_its_own(stream: int, n_features: int, data):
    streams = np.array([stream, *naive_branch(stream)], np.uint64)
    begin, end = sorted((data.draw(st.integers(0, n_features)), data.draw(st.integers(0, n_features))))
    drawn = draw_features(streams, n_features, begin, end)
    assert drawn.tolist() == [naive_features(int(s), n_features)[begin:end] for s in streams]
    assert [int(s) for s in branch(streams[0])] == naive_branch(stream)


def check_draws(forest, root, S, rows, stream, tried):
    """Assert that each split is on one of the first features its node draws, those aside that are constant there."""
    if forest.feature[root] < 0:
        return
    values = S[rows].astype(np.float32)
    varies = [len(np.unique(column)) > 1 for column in values.T]  # to NumPy, missing values are one value
    candidates = [f for f in naive_features(stream, S.shape[1]) if varies[f]][:tried]
    assert forest.feature[root] in candidates
    column = values[:, forest.feature[root]]
    right = np.where(np.isnan(column), forest.missing_right[root], column > forest.threshold[root]).astype(bool)
    for which, child_stream in enumerate(naive_branch(stream)):
        check_draws(forest, forest.child[root] + which, S, rows[right == which], child_stream, tried)


@pytest.mark.parametrize("bagging", Bagging)
def test_each_node_of_a_tree_tries_the_features_that_its_twin_draws(bagging):
    rng = RNG(3)
    X = rng.integers(3, size=(80, 9)).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 4] = 1.0
    y = rng.normal(size=(80, 1))
    demos = Demonstrations.from_arrays([X[:30], X[30:]], [y[:30], y[30:]])
    recipe = SmoothForest(3, None, 2, 2, bagging=bagging, n_jobs=1)
    forest = recipe.fit_smooth([Horizon(0, 0).states(demos, demos.actions)], y, y, y, 0.0, RNG(0))
    for root, number in zip(forest.roots, forest.number, strict=True):
        rows = np.flatnonzero(forest.bag.counts(number))
        check_draws(forest, root, X, rows, forest.bag.seeds[number] ^ 0x5DEECE66D, 2)


@given(nodes(), st.integers(0, 30), SEEDS)
def test_histograms_of_parts_add_up_to_the_histogram_of_all(node: NaiveNode, cut: int, seed: int):
    payload = np.round(payload_of(node) * 1024) / 1024
    bins = np.where(np.isnan(node.features), MISSING, node.features).astype(np.uint8).T.copy()
    n, n_features = len(payload), len(bins)
    read = Features(bins.ravel(), np.arange(n_features) * n)
    features = RNG(seed).integers(n_features, size=(1, 2)).astype(np.int32)

    def summed(rows):
        begins = np.array([0, 0, len(rows)])  # behind a node that is empty
        return sum_by_bin(read, rows, payload[rows], begins, np.array([1]), features)

    rows = np.arange(n, dtype=np.int32)
    whole = summed(rows)
    for parts in ((rows[:cut], rows[cut:]), (rows[cut:], rows[:cut])):
        for ours, theirs in zip(merge(*(a for part in parts for a in summed(part))), whole, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    where, met, sums = whole
    for j, feature in enumerate(features[0]):
        dense = np.zeros((256, payload.shape[1]))
        dense[met[where[j] : where[j + 1]]] = sums[where[j] : where[j + 1]]
        np.testing.assert_array_equal(dense, naive_histogram(bins[feature], payload))


def grown(
    features,
    labels,
    targets,
    smoothness,
    criterion,
    *,
    anchors=None,
    weights=None,
    min_leaf=1,
    max_depth=None,
    max_leaves=None,
):
    """Grow one whole tree on features (n, F), taken as contexts without lags."""
    recipe = SmoothForest(1, max_depth, min_leaf, None, criterion, Bagging.NONE, n_jobs=1, max_leaves=max_leaves)
    demos = Demonstrations.from_arrays([features], [targets])
    states = Horizon(0, 0).states(demos, demos.actions)
    anchors = np.zeros_like(targets) if anchors is None else anchors
    return recipe.fit_smooth([states], labels, targets, anchors, smoothness, RNG(0), weights=weights)


def check_tree(forest, S, leaves):
    """Assert that a forest of one tree parts the rows of S (n, features) into the leaves {rows: value} of a twin."""
    found: dict[int, list[int]] = {}
    for i, state in enumerate(S):
        found.setdefault(naive_leaf(forest, forest.roots[0], state), []).append(i)
    assert sorted(tuple(rows) for rows in found.values()) == sorted(leaves)
    for leaf, rows in found.items():
        np.testing.assert_allclose(forest.value[leaf], leaves[tuple(rows)], rtol=1e-9, atol=1e-9)
    assert len(forest.feature) == 2 * len(leaves) - 1


@settings(max_examples=40)
@given(nodes(), st.sampled_from([1, 2, 5]), st.sampled_from([0, 1, 3, 100]))
def test_a_whole_tree_has_the_leaves_of_its_twin(node: NaiveNode, min_leaf: int, max_depth: int):
    forest = grown(
        node.features,
        node.labels,
        node.targets,
        node.smoothness,
        node.criterion,
        anchors=node.anchors,
        weights=node.weights,
        min_leaf=min_leaf,
        max_depth=None if max_depth == 100 else max_depth,
    )
    check_tree(forest, node.features, naive_grow(node, min_leaf, max_depth))
    if forest.feature[0] >= 0:
        assert forest.gain[0] == pytest.approx(node.best_reduction(min_leaf), rel=1e-9, abs=1e-7)


@settings(max_examples=40)
@given(nodes(), st.sampled_from([1, 2, 5]), st.sampled_from([1, 3, 100]), st.integers(2, 9))
def test_a_tree_grown_best_first_has_the_leaves_of_its_twin(node: NaiveNode, min_leaf: int, depth: int, leaves: int):
    forest = grown(
        node.features,
        node.labels,
        node.targets,
        node.smoothness,
        node.criterion,
        anchors=node.anchors,
        weights=node.weights,
        min_leaf=min_leaf,
        max_depth=None if depth == 100 else depth,
        max_leaves=leaves,
    )
    check_tree(forest, node.features, naive_grow_best_first(node, min_leaf, depth, leaves))


@settings(max_examples=25)
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=3),
    st.sampled_from([(0, 0), (2, 0), (1, 3), ((1, 4), (2,))]),
    st.integers(1, 2),
    CRITERIA,
    SEEDS,
)
def test_a_tree_on_lazy_states_has_the_leaves_of_its_twin_on_the_lag_matrix(lengths, lags, k: int, criterion, seed):
    demos, horizon = demos_of(*lengths, k=k, seed=seed), Horizon(*lags)
    S, y = naive_states(demos, demos.actions, horizon), np.concatenate(demos.actions)
    anchors = RNG(seed).normal(size=y.shape)
    recipe = SmoothForest(1, 4, 2, None, criterion, Bagging.NONE, n_jobs=1)
    forest = recipe.fit_smooth([horizon.states(demos, demos.actions)], y, y, anchors, 0.7, RNG(0))
    twin = NaiveNode(S.astype(np.float32), y, y, anchors, np.ones(len(y)), 0.7, criterion)
    check_tree(forest, S, naive_grow(twin, 2, 4))


@pytest.mark.parametrize("criterion", Criterion)
def test_a_tree_on_many_values_has_the_leaves_of_its_twin_on_the_bins(criterion):
    rng = RNG(4)
    X = rng.normal(size=(300, 2))
    X[rng.random(X.shape) < 0.05] = np.nan
    y, anchors = np.sin(X[:, :1]) + 0.1 * rng.normal(size=(300, 1)), rng.normal(size=(300, 1))
    y[np.isnan(y)] = 1.0
    forest = grown(X, y, y, 0.5, criterion, anchors=anchors, min_leaf=20, max_depth=3)
    bins = np.array([[naive_bin(v, naive_edges(column)) for v in column] for column in X.T], dtype=float).T
    bins[bins == MISSING] = np.nan
    twin = NaiveNode(bins, y, y, anchors, np.ones(300), 0.5, criterion)
    check_tree(forest, X, naive_grow(twin, 20, 3))


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("min_leaf", [1, 7])
@pytest.mark.parametrize("max_depth", [1, 4, None])
def test_without_smoothness_a_tree_is_the_cart_of_scikit_learn(k: int, min_leaf: int, max_depth: int | None):
    X, Y = RNG(0).normal(size=(120, 4)), RNG(1).normal(size=(120, k))
    theirs = DecisionTreeRegressor(max_depth=max_depth, min_samples_leaf=min_leaf, random_state=0).fit(X, Y)
    for criterion in (Criterion.LABELS, Criterion.SMOOTH):
        ours = grown(X, Y, Y, 0.0, criterion, min_leaf=min_leaf, max_depth=max_depth)
        np.testing.assert_allclose(ours.predict(X), theirs.predict(X).reshape(-1, k), rtol=1e-12, atol=1e-12)
        assert len(ours.feature) == theirs.tree_.node_count


def test_a_bagged_tree_is_a_tree_with_the_bag_as_weights():
    demos = demos_of(20, 15)
    y = np.concatenate(demos.actions)
    states = Horizon(1, 0).states(demos, demos.actions)
    bagged = SmoothForest(1, None, 3, None, bagging=Bagging.ROWS).fit_smooth([states], y, y, y, 0.0, RNG(0))
    counts = bagged.bag.counts(0)
    whole = SmoothForest(1, None, 3, None, bagging=Bagging.NONE)
    weighed = whole.fit_smooth([states], y, y, y, 0.0, RNG(0), weights=counts.astype(float))
    inside = states.matrix()[counts > 0]
    # Rounded to `exact_units` before and after it is weighed.
    np.testing.assert_allclose(bagged.predict(inside), weighed.predict(inside), rtol=1e-12, atol=1e-13)


def test_labels_that_cannot_be_told_apart_are_not_split():
    X, y = RNG(0).normal(size=(50, 2)), np.full((50, 1), 0.1)
    for criterion in (Criterion.LABELS, Criterion.SMOOTH):
        assert len(grown(X, y, y, 0.0, criterion).feature) == 1
    assert len(grown(np.ones((50, 2)), X[:, :1], X[:, :1], 0.0, Criterion.PRINTED).feature) == 1


COMPILED = """
import json
import numba.core.event as event
import numpy as np
from simile.sklearn import SmoothForestRegressor
with event.install_recorder("numba:compile") as recorder:
    SmoothForestRegressor(1, n_jobs=1).fit(np.arange(40.0).reshape(20, 2), np.arange(20.0))
names = [found.data["dispatcher"].py_func.__name__ for _, found in recorder.buffer if found.is_start]
print(json.dumps(names))
"""


@pytest.mark.long
@pytest.mark.skipif(bool(nb.config.DISABLE_JIT), reason="nothing is compiled")
def test_a_first_forest_compiles_no_function_twice_nor_one_that_it_does_not_call(tmp_path):
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", COMPILED], env=env, capture_output=True, text=True, check=True)
    names = json.loads(done.stdout)
    assert "grow" in names
    assert "grow_best" not in names
    assert len(names) == len(set(names))  # a plain 0 is a type of its own beside that of whole numbers


@pytest.mark.skipif(bool(nb.config.DISABLE_JIT), reason="nothing is compiled")
def test_a_kernel_that_counts_no_arrays_may_return_none(monkeypatch, tmp_path):
    monkeypatch.setattr(nb.config, "CACHE_DIR", str(tmp_path))

    def first_half(values):
        return len(values), values[: len(values) // 2]

    with pytest.raises(TypeError, match="first_half returns an array"):
        compiling.kernel(first_half)(np.arange(4.0))
    np.testing.assert_array_equal(compiling.kernel(first_half, makes_arrays=True)(np.arange(4.0))[1], [0.0, 1.0])
