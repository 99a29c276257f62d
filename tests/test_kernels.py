"""The kernels against their slow twins: binning, histograms, splits, bags, growth, and sending states down trees."""

from __future__ import annotations

import itertools

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
    naive_draw,
    naive_edges,
    naive_grow,
    naive_histogram,
    naive_leaf,
    naive_random,
    naive_states,
)
from simile import Bagging, Criterion, Demonstrations, Horizon, ImitationRule, JointRule, SmoothForest
from simile.kernels import growing
from simile.kernels.binning import bin_column, bin_edges

# The generator of the bags wraps around on purpose; NumPy says so where numba is switched off.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in scalar:RuntimeWarning")

RNG = np.random.default_rng
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
    edges, bins = bin_edges(column), np.empty(len(column), np.uint8)
    bin_column(column, edges, bins)
    return edges, bins


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
    bins = np.empty(6, np.uint8)
    bin_column(np.array([-1e30, 0.5, 0.51, 1.49, 1e30, np.nan]), edges, bins)
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
    """What the kernels sum: 1, labels, goals and squares, times the weight; and curb and weigh."""
    parts = [np.ones((len(node.labels), 1)), node.labels]
    if node.criterion is not Criterion.LABELS:
        parts.append(node.targets + node.smoothness * node.anchors)
    if node.criterion is Criterion.PRINTED:
        parts.append(np.sum(node.targets**2 + node.smoothness * node.anchors**2, axis=1, keepdims=True))
    curb = 1.0 if node.criterion is Criterion.LABELS else 1.0 + node.smoothness
    return node.weights[:, np.newaxis] * np.concatenate(parts, axis=1), curb, node.criterion is Criterion.PRINTED


@given(nodes(), st.integers(0, 3), SEEDS)
def test_a_histogram_sums_the_payload_of_some_rows_at_a_lag(node: NaiveNode, lag: int, seed: int):
    payload, _, _ = payload_of(node)
    n = len(payload)
    bins = np.where(np.isnan(node.features[:, 0]), MISSING, node.features[:, 0]).astype(np.uint8)
    rows = RNG(seed).permutation(n).astype(np.int32)
    begin, end = sorted(RNG(seed).integers(n + 1, size=2))
    hist = np.zeros((256, payload.shape[1]))
    low, high, missing = growing.histogram(bins, lag, rows + np.int32(lag), payload, begin, end, hist)
    met = bins[rows[begin:end]]
    if len(met):
        np.testing.assert_allclose(hist, naive_histogram(met, payload[begin:end]), atol=1e-12)
    present = met[met != MISSING]
    assert (low, high) == ((present.min(), present.max()) if len(present) else (256, -1))
    assert missing == (MISSING in met)


@pytest.mark.parametrize("n", [127, 128, 255, 256, 400])
@pytest.mark.parametrize("holes", [0.0, 0.1, 1.0])
def test_large_nodes_have_the_histogram_of_small_ones(n: int, holes: float):
    rng = RNG(n)
    bins = np.where(rng.random(n) < holes, MISSING, rng.integers(3, 250, size=n)).astype(np.uint8)
    payload = np.concatenate([np.ones((n, 1)), rng.normal(size=(n, 1))], axis=1)
    hist = np.zeros((256, 2))
    low, high, missing = growing.histogram(bins, 0, np.arange(n, dtype=np.int32), payload, 0, n, hist)
    present = bins[bins != MISSING]
    assert (low, high) == ((present.min(), present.max()) if len(present) else (256, -1))
    assert missing == (holes > 0.0)
    np.testing.assert_allclose(hist, naive_histogram(bins, payload), atol=1e-12)


@given(nodes())
def test_the_score_is_the_impurity_of_appendix_b_below_its_squares(node: NaiveNode):
    payload, curb, weigh = payload_of(node)
    score = growing.score(payload.sum(axis=0), node.labels.shape[1], curb, weigh)
    if weigh:
        assert score == pytest.approx(-node.size * node.impurity)
    elif node.criterion is Criterion.LABELS:
        assert np.sum(node.weights[:, np.newaxis] * node.labels**2) - score == pytest.approx(node.impurity, abs=1e-7)
    else:
        squares = node.targets**2 + node.smoothness * node.anchors**2
        assert np.sum(node.weights[:, np.newaxis] * squares) - score == pytest.approx(node.impurity, abs=1e-7)


@given(nodes(most_features=1), st.sampled_from([1, 2, 5]))
def test_the_best_split_has_the_largest_reduction_of_all(node: NaiveNode, min_leaf: int):
    payload, curb, weigh = payload_of(node)
    k, channels = node.labels.shape[1], payload.shape[1]
    bins = np.where(np.isnan(node.features[:, 0]), MISSING, node.features[:, 0]).astype(np.uint8)
    hist, total = np.zeros((256, channels)), payload.sum(axis=0)
    rows = np.arange(len(payload), dtype=np.int32)
    low, high, missing = growing.histogram(bins, 0, rows, payload, 0, len(rows), hist)
    left, right = np.zeros(channels), np.zeros(channels)
    worth, highest, missing_right = growing.best_split(
        hist, low, high, missing, total, k, curb, weigh, float(min_leaf), left, right
    )
    best = node.best_reduction(min_leaf)
    if best == -np.inf:
        assert worth == -np.inf
        return
    gain = worth - growing.score(total, k, curb, weigh)
    assert (gain / total[0] if weigh else gain) == pytest.approx(best, rel=1e-9, abs=1e-7)
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
    counts = np.empty(sum(lengths), np.int32)
    growing.draw(starts, by_sequence, seed, counts)
    assert list(counts) == naive_draw(lengths, by_sequence, seed)
    assert (counts[starts[:-1]].sum() == len(lengths)) if by_sequence else (counts.sum() == sum(lengths))


def test_a_bag_takes_each_row_as_often_as_it_was_drawn():
    base = RNG(0).normal(size=(4, 3))
    rows, payload = growing.take(np.array([2, 0, 1, 0], np.int32), np.array([5, 6, 7, 8], np.int32), base)
    np.testing.assert_array_equal(rows, [5, 7])
    np.testing.assert_array_equal(payload, [2 * base[0], base[2]])


def grown(features, labels, targets, smoothness, criterion, *, anchors=None, weights=None, min_leaf=1, max_depth=None):
    """Grow one whole tree on features (n, F), taken as contexts without lags."""
    recipe = SmoothForest(1, max_depth, min_leaf, None, criterion, Bagging.NONE, n_jobs=1)
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
    np.testing.assert_allclose(bagged.predict(inside), weighed.predict(inside), rtol=1e-12)


def test_labels_that_cannot_be_told_apart_are_not_split():
    X, y = RNG(0).normal(size=(50, 2)), np.full((50, 1), 0.1)
    for criterion in (Criterion.LABELS, Criterion.SMOOTH):
        assert len(grown(X, y, y, 0.0, criterion).feature) == 1
    assert len(grown(np.ones((50, 2)), X[:, :1], X[:, :1], 0.0, Criterion.PRINTED).feature) == 1
