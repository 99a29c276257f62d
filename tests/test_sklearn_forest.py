"""SmoothForestRegressor keeps scikit-learn's conventions, and grows scikit-learn's trees where they are comparable."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from simile import Criterion
from simile.errors import ArgumentError, DataError
from simile.sklearn import SmoothForestRegressor

TREE = {"n_estimators": 1, "bootstrap": False, "max_features": None}
DRAWS = {"check_sample_weight_equivalence_on_dense_data": "rows are drawn alike, whatever their weight"}


def tree(**settings):
    return SmoothForestRegressor(**{**TREE, **settings})


@pytest.fixture
def data():
    """Few enough rows for a bin to each value; nothing is tied."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(250, 4))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=250)


# scikit-learn's conventions


@parametrize_with_checks(
    [
        SmoothForestRegressor(),
        SmoothForestRegressor(5, min_samples_leaf=1, max_depth=None, max_leaf_nodes=50, bootstrap=False),
        SmoothForestRegressor(5, min_samples_leaf=0.05, max_features="sqrt", criterion="printed", bootstrap=False),
    ],
    expected_failed_checks=lambda regressor: DRAWS if regressor.bootstrap else {},
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_before_fit():
    with pytest.raises(NotFittedError):
        SmoothForestRegressor().predict(np.zeros((3, 1)))
    with pytest.raises(NotFittedError):
        _ = SmoothForestRegressor().feature_importances_


def test_clone_and_pickle(data):
    X, y = data
    forest = SmoothForestRegressor(5, min_samples_leaf=4, criterion="smooth", random_state=3)
    assert clone(forest).get_params() == forest.get_params()
    unused = pickle.loads(pickle.dumps(forest.fit(X, y)))
    predicted = forest.predict(X)
    used = pickle.loads(pickle.dumps(forest))  # the nodes are packed by now
    for copy in (unused, used, clone(forest).fit(X, y)):
        np.testing.assert_array_equal(copy.predict(X), predicted)
        np.testing.assert_array_equal(copy.feature_importances_, forest.feature_importances_)
    np.testing.assert_array_equal(used.forest_.bag.counts(2), forest.forest_.bag.counts(2))


def test_frames_name_their_columns(data):
    pandas = pytest.importorskip("pandas")
    X, y = data
    names = ["a", "b", "c", "d"]
    frame = pandas.DataFrame(X, columns=names)
    forest = SmoothForestRegressor(3).fit(frame, pandas.Series(y))
    assert list(forest.feature_names_in_) == names
    assert forest.n_features_in_ == 4
    np.testing.assert_array_equal(forest.predict(frame), SmoothForestRegressor(3).fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names should match"):
        forest.predict(frame[names[::-1]])


def test_pipeline_and_search(data):
    X, y = data
    folds = KFold(3)
    forest = SmoothForestRegressor(5, min_samples_leaf=4)
    for score, (train, test) in zip(
        cross_val_score(make_pipeline(StandardScaler(), forest), X, y, cv=folds), folds.split(X), strict=True
    ):
        scaler = StandardScaler().fit(X[train])
        alone = clone(forest).fit(scaler.transform(X[train]), y[train])
        assert score == alone.score(scaler.transform(X[test]), y[test])
    anchors = 0.5 * y + X[:, 3]
    forest = SmoothForestRegressor(3, min_samples_leaf=4, criterion="smooth")
    search = GridSearchCV(forest, {"smoothness": [0.0, 5.0]}, cv=folds).fit(X, y, anchors=anchors)
    for i, (train, test) in enumerate(folds.split(X)):
        for j, smoothness in enumerate([0.0, 5.0]):
            alone = clone(forest).set_params(smoothness=smoothness).fit(X[train], y[train], anchors[train])
            assert search.cv_results_[f"split{i}_test_score"][j] == alone.score(X[test], y[test])
    assert search.cv_results_["mean_test_score"][0] != search.cv_results_["mean_test_score"][1]


def test_anchors_and_weights_are_routed(data):
    X, y = data
    folds, given = KFold(3), {"anchors": X[:, 3], "sample_weight": 1.0 + np.arange(len(y)) % 3}
    forest = SmoothForestRegressor(3, min_samples_leaf=4, smoothness=2.0, criterion="smooth")
    with sklearn.config_context(enable_metadata_routing=True):
        asking = clone(forest).set_fit_request(anchors=True, sample_weight=True).set_score_request(sample_weight=True)
        scores = cross_val_score(asking, X, y, cv=folds, params=given)
    for score, (train, test) in zip(scores, folds.split(X), strict=True):
        alone = clone(forest).fit(X[train], y[train], *(v[train] for v in given.values()))
        assert score == alone.score(X[test], y[test], given["sample_weight"][test])


# Against scikit-learn


def missing(X):
    """Half of the large values of one column are missing, and a tenth of another."""
    rng = np.random.default_rng(1)
    X = X.copy()
    X[(X[:, 0] > 0.5) & (rng.random(len(X)) < 0.5), 0] = np.nan
    X[rng.random(len(X)) < 0.1, 2] = np.nan
    return X


@pytest.mark.parametrize("with_missing", [False, True])
@pytest.mark.parametrize("criterion", ["labels", "smooth"])
@pytest.mark.parametrize(("max_depth", "max_leaf_nodes"), [(1, None), (3, None), (None, None), (None, 2), (5, 11)])
def test_a_tree_of_scikit_learn(data, max_depth, max_leaf_nodes, criterion, with_missing):
    X, y = data
    X = missing(X) if with_missing else X
    limits = {"max_depth": max_depth, "max_leaf_nodes": max_leaf_nodes, "min_samples_leaf": 7}
    theirs = DecisionTreeRegressor(**limits).fit(X, y)
    ours = tree(**limits, criterion=criterion).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ours.feature_importances_, theirs.feature_importances_, rtol=1e-9, atol=1e-12)
    assert len(ours.forest_.feature) == theirs.tree_.node_count
    assert ours.forest_.depths.tolist() == [theirs.get_depth()]
    assert ours.score(X, y) == r2_score(y, ours.predict(X))


def test_a_weighted_tree_of_scikit_learn(data):
    X, y = data
    weights = np.random.default_rng(2).uniform(1.0, 3.0, size=len(y))  # every row alone is enough for a leaf
    theirs = DecisionTreeRegressor(max_depth=5).fit(X, y, sample_weight=weights)
    ours = tree(max_depth=5, min_samples_leaf=1).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-12, atol=1e-12)


def test_a_tree_of_scikit_learn_with_several_outputs(data):
    X, y = data
    Y = StandardScaler().fit_transform(np.column_stack([y, X[:, 3] ** 2, X[:, 0] + y]))
    theirs = DecisionTreeRegressor(min_samples_leaf=7).fit(X, Y)
    ours = tree(max_depth=None, min_samples_leaf=7).fit(X, Y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("max_features", [1 / 3, "sqrt", pytest.param(None, marks=pytest.mark.long)])
def test_held_out_as_good_as_a_random_forest(max_features):
    X, y = make_friedman1(6000, 8, noise=1.0, random_state=0)
    settings = {"max_depth": 12, "min_samples_leaf": 5, "max_features": max_features}
    scores, importances = [], []
    for kind in (SmoothForestRegressor, RandomForestRegressor):  # means of a few: one seed alone moves by as much
        fitted = [kind(50, random_state=seed, **settings).fit(X[:3000], y[:3000]) for seed in range(4)]
        scores.append(np.mean([forest.score(X[3000:], y[3000:]) for forest in fitted]))
        importances.append(np.mean([forest.feature_importances_ for forest in fitted], axis=0))
    assert scores[0] == pytest.approx(scores[1], abs=0.01)
    np.testing.assert_allclose(*importances, atol=0.03)


# Weights


@pytest.mark.parametrize("criterion", ["labels", "smooth", "printed"])
@pytest.mark.parametrize("min_samples_leaf", [1, 9, 0.03])
@pytest.mark.parametrize("outputs", [1, 2])
def test_integer_weights_are_repeated_rows(data, outputs, min_samples_leaf, criterion):
    X, y = data
    Y = np.column_stack([y, X[:, 3] ** 2])[:, :outputs]
    anchors = Y + X[:, [0]]
    weights = np.random.default_rng(3).integers(0, 4, size=len(y))
    forest = SmoothForestRegressor(
        4, min_samples_leaf=min_samples_leaf, max_depth=5, criterion=criterion, smoothness=3.0, bootstrap=False
    )
    weighted = clone(forest).fit(X, Y, anchors, weights)
    repeat = np.repeat(np.arange(len(y)), weights)
    repeated = clone(forest).fit(X[repeat], Y[repeat], anchors[repeat])
    seen = X[weights > 0]  # at ties between bins, an unseen row may go either way
    np.testing.assert_allclose(weighted.predict(seen), repeated.predict(seen), rtol=1e-9, atol=1e-9)
    assert weighted.predict(X).std() > 0.1


def test_rows_of_no_weight_are_ignored(data):
    X, y = data
    X, y = X.copy(), y.copy()
    kept = np.arange(len(y)) % 3 > 0
    without = SmoothForestRegressor(5, min_samples_leaf=4).fit(X[kept], y[kept])
    X[~kept], y[~kept] = 1e6, -1e6
    weighted = SmoothForestRegressor(5, min_samples_leaf=4).fit(X, y, sample_weight=kept)
    np.testing.assert_array_equal(weighted.predict(X), without.predict(X))


def test_a_share_has_no_scale(data):
    X, y = data
    weights = np.random.default_rng(4).uniform(0.5, 2.0, size=len(y))
    forest = SmoothForestRegressor(5, min_samples_leaf=0.05)
    predicted = forest.fit(X, y, sample_weight=weights).predict(X)
    for scale in (2.0**-40, 1e-3, 1e5):
        other = forest.fit(X, y, sample_weight=scale * weights).predict(X)
        np.testing.assert_allclose(other, predicted, rtol=1e-9)
    assert len(np.unique(predicted)) > 20
    with pytest.raises(DataError, match=r"sums to 1, too little for two leaves of min_samples_leaf=20: scale"):
        SmoothForestRegressor().fit(X, y, sample_weight=weights / weights.sum())


@pytest.mark.parametrize(
    ("weights", "message"),
    [([1.0, -1.0, 1.0], "no negative"), ([0.0, 0.0, 0.0], "zero"), ([1.0, np.nan, 1.0], "NaN"), ([1.0], "shape")],
)
def test_weights_that_cannot_be(weights, message):
    with pytest.raises(ValueError, match=message):
        SmoothForestRegressor().fit(np.zeros((3, 1)), [1.0, 2.0, 3.0], sample_weight=weights)


# Missing values


@pytest.mark.parametrize("where", [-3.0, 3.0])
def test_missing_values_go_where_they_fit(where):
    X = np.linspace(-1.0, 1.0, 201)[:, np.newaxis]
    y = np.where(X[:, 0] > 0.0, 3.0, -3.0)
    X, y = np.append(X, [[np.nan]] * 20, axis=0), np.append(y, [where] * 20)
    fitted = tree(min_samples_leaf=1, max_depth=1).fit(X, y)
    np.testing.assert_allclose(fitted.predict(X), y, rtol=1e-12)


def test_missing_or_not_is_a_split_and_a_column_may_be_empty():
    X = np.full((100, 2), np.nan)
    X[::2, 0] = np.random.default_rng(5).normal(size=50)
    y = np.where(np.isnan(X[:, 0]), 1.0, 0.0)
    fitted = tree(min_samples_leaf=1).fit(X, y)
    np.testing.assert_allclose(fitted.predict(X), y, atol=1e-12)
    np.testing.assert_array_equal(fitted.feature_importances_, [1.0, 0.0])
    assert np.isfinite(tree(min_samples_leaf=1).fit(np.nan_to_num(X), y).predict(X)).all()


def test_infinite_values():
    X = np.zeros((5, 1))
    for value in (np.inf, 1e300):
        X[2] = value
        with pytest.raises(ValueError, match="infinity or a value too large"):
            SmoothForestRegressor().fit(X, np.arange(5.0))


# Anchors


@pytest.fixture
def crossed():
    """Labels that ask for a split on one feature, and anchors that ask for one on the other."""
    X = np.array([[a, b] for a in (-1.0, 1.0) for b in (-1.0, 1.0)] * 25)
    return X, X[:, 0] + 0.5 * X[:, 1], X[:, 1]


@pytest.mark.parametrize(("criterion", "root"), [("labels", 0), ("smooth", 1), ("printed", 1), (Criterion.SMOOTH, 1)])
def test_anchors_change_the_tree(crossed, criterion, root):
    X, y, anchors = crossed
    settings = {"criterion": criterion, "min_samples_leaf": 1, "max_depth": 1}
    held = tree(smoothness=10.0, **settings).fit(X, y, anchors)
    assert held.forest_.feature.tolist() == [root, -1, -1]
    # the leaves are means of y all the same
    for side in (-1.0, 1.0):
        rows = X[:, root] == side
        np.testing.assert_allclose(held.predict(X[rows]), y[rows].mean(), rtol=1e-12)
    free = tree(smoothness=0.0, **settings)
    assert free.fit(X, y, anchors).forest_.feature[0] == 0
    np.testing.assert_array_equal(free.predict(X), free.fit(X, y).predict(X))


@pytest.mark.parametrize("criterion", ["smooth", "printed"])
def test_anchors_are_in_the_units_of_the_labels(data, criterion):
    X, y = data
    anchors = y + X[:, 0]
    forest = SmoothForestRegressor(5, min_samples_leaf=8, criterion=criterion, smoothness=4.0)
    predicted = forest.fit(X, y, anchors).predict(X)
    column = forest.fit(X, y[:, np.newaxis], anchors).predict(X)
    np.testing.assert_array_equal(column, predicted[:, np.newaxis])
    moved = forest.fit(X, 700.0 * y + 30.0, 700.0 * anchors + 30.0).predict(X)
    np.testing.assert_allclose(moved, 700.0 * predicted + 30.0, rtol=1e-9)
    assert not np.allclose(forest.fit(X, y, anchors + X[:, 3]).predict(X), predicted)


def test_anchors_that_are_missing_or_do_not_match(crossed):
    X, y, anchors = crossed
    forest = SmoothForestRegressor(smoothness=2.0, criterion="smooth")
    with pytest.raises(ArgumentError, match=r"smoothness=2.0 with criterion='smooth' needs fit\(X, y, anchors="):
        forest.fit(X, y)
    with pytest.raises(DataError, match=r"anchors must have the shape of y, \(100, 1\); got \(100, 2\)"):
        forest.fit(X, y, np.column_stack([anchors, anchors]))
    with pytest.raises(DataError, match="anchors must be finite; got nan at row 3"):
        forest.fit(X, y, np.where(np.arange(100) == 3, np.nan, anchors))
    assert SmoothForestRegressor(smoothness=2.0).fit(X, y).forest_ is not None  # "labels" needs none


# Several outputs


def test_outputs_weigh_the_same_in_any_unit(data):
    X, y = data
    Y, units, zero = np.column_stack([y, X[:, 3] ** 2]), np.array([1e-4, 1e5]), np.array([3.0, -1e6])
    forest = SmoothForestRegressor(5, min_samples_leaf=8)
    predicted = forest.fit(X, Y).predict(X)
    np.testing.assert_allclose(forest.fit(X, Y * units + zero).predict(X), predicted * units + zero, rtol=1e-9)
    assert min(r2_score(Y, predicted, multioutput="raw_values")) > 0.3  # neither is left out
    np.testing.assert_array_equal(forest.fit(X, Y).forest_.predict(X), predicted)


def test_the_same_output_twice_is_that_output(data):
    X, y = data
    forest = SmoothForestRegressor(5, min_samples_leaf=8)
    both = forest.fit(X, np.column_stack([y, 5.0 - 100.0 * y, np.full(len(y), 0.1)])).predict(X)
    alone = [forest.fit(X, 5.0 * sign - factor * y).predict(X) for sign, factor in ((0.0, -1.0), (1.0, 100.0))]
    np.testing.assert_allclose(both, np.column_stack([*alone, np.full(len(y), 0.1)]), rtol=1e-9)


def test_a_large_offset_costs_no_precision(data):
    X, y = data
    settings = {"min_samples_leaf": 8, "max_depth": 4}
    np.testing.assert_allclose(
        tree(**settings).fit(X, y + 1e8).predict(X) - 1e8, tree(**settings).fit(X, y).predict(X), atol=1e-6
    )


def test_constant_labels():
    X = np.random.default_rng(6).normal(size=(90, 3))
    forest = SmoothForestRegressor(4, min_samples_leaf=1).fit(X, np.full(90, 0.1))
    np.testing.assert_array_equal(forest.predict(X), 0.1)
    np.testing.assert_array_equal(forest.feature_importances_, 0.0)


# Settings


def test_same_bits_for_any_number_of_threads(data):
    X, y = data
    one = SmoothForestRegressor(20, min_samples_leaf=4, n_jobs=1).fit(X, y)
    for n_jobs in (None, 2, 5, -1):
        other = SmoothForestRegressor(20, min_samples_leaf=4, n_jobs=n_jobs).fit(X, y)
        np.testing.assert_array_equal(other.predict(X), one.predict(X))
        np.testing.assert_array_equal(other.forest_.threshold, one.forest_.threshold)


def test_random_state(data):
    X, y = data

    def predict(random_state, **settings):
        return SmoothForestRegressor(5, min_samples_leaf=4, random_state=random_state, **settings).fit(X, y).predict(X)

    np.testing.assert_array_equal(predict(None), predict(0))
    np.testing.assert_array_equal(predict(np.random.RandomState(3)), predict(np.random.RandomState(3)))
    assert not np.array_equal(predict(0), predict(1))
    whole = {"bootstrap": False, "max_features": None}
    np.testing.assert_allclose(predict(0, **whole), predict(1, **whole), rtol=1e-12)


def test_ties_do_not_hang_on_the_order_of_the_rows():
    rng = np.random.default_rng(7)
    X, y = rng.integers(0, 3, size=(300, 12)).astype(float), rng.integers(0, 4, size=300) * 10.0
    forest = SmoothForestRegressor(5, min_samples_leaf=1, max_depth=6, bootstrap=False)
    mixed = rng.permutation(300)
    np.testing.assert_array_equal(forest.fit(X, y).predict(X), forest.fit(X[mixed], y[mixed]).predict(X))


@pytest.mark.parametrize(
    ("given", "meant"), [("sqrt", 3), ("log2", 3), (0.39, 3), (1 / 3, 3), (0.01, 1), (1.0, 9), (None, 9), (20, 9)]
)
def test_max_features(given, meant):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(200, 9))
    y = X @ rng.normal(size=9)
    predicted = [
        SmoothForestRegressor(5, max_features=tried, min_samples_leaf=4).fit(X, y).predict(X)
        for tried in (given, meant)
    ]
    np.testing.assert_array_equal(*predicted)


@pytest.mark.parametrize(("given", "fewest"), [(20, 20), (0.1, 25), (0.0801, 21), (1e-9, 1)])
def test_min_samples_leaf(data, given, fewest):
    X, y = data
    theirs = DecisionTreeRegressor(max_depth=9, min_samples_leaf=given).fit(X, y).predict(X)
    for leaf in (given, fewest):
        predicted = tree(min_samples_leaf=leaf, max_depth=9).fit(X, y).predict(X)
        np.testing.assert_allclose(predicted, theirs, rtol=1e-12, atol=1e-12)
        assert np.unique(predicted, return_counts=True)[1].min() >= fewest


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_estimators": 0}, "n_estimators must be >= 1; got 0"),
        ({"n_estimators": 2.5}, "n_estimators must be a whole number; got 2.5"),
        ({"max_depth": 0}, "max_depth must be >= 1; got 0"),
        ({"min_samples_leaf": 0}, "min_samples_leaf must be >= 1; got 0"),
        ({"min_samples_leaf": 1.5}, "min_samples_leaf must be a whole number, or a share below 1; got 1.5"),
        ({"min_samples_leaf": -0.5}, "min_samples_leaf must be > 0; got -0.5"),
        ({"max_features": "half"}, 'max_features must be a number, "sqrt", "log2" or None; got \'half\''),
        ({"max_features": 0}, "max_features must be >= 1; got 0"),
        ({"max_features": 1.5}, "max_features must be > 0 and <= 1; got 1.5"),
        ({"smoothness": -3}, "smoothness must be >= 0; got -3"),
        ({"criterion": "gini"}, "criterion must be one of 'labels', 'smooth', 'printed'; got 'gini'"),
        ({"n_jobs": 0}, "n_jobs == 0"),
    ],
)
def test_settings_that_cannot_be(data, settings, message):
    with pytest.raises(ValueError, match="^" + message):
        SmoothForestRegressor(**settings).fit(*data)


def test_features_far_from_0_lose_nothing():
    rng = np.random.default_rng(0)
    X = np.round(256.0 * rng.normal(size=(400, 2))) / 256.0
    y = X[:, 0] ** 2 + X[:, 1]
    near, far = (SmoothForestRegressor(4, random_state=0).fit(x, y).predict(x) for x in (X, X + 1e9))
    np.testing.assert_array_equal(near, far)
