"""SimileRegressor keeps scikit-learn's conventions, and its sequences apart."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

import simile
from simile import ColdStart, Demonstrations, Horizon, PreviousAction
from simile.data import tasks
from simile.errors import ArgumentError, DataError
from simile.sklearn import SimileRegressor

SMALL = {"n_rounds": 1, "regularizer": PreviousAction(), "horizon": Horizon(1, 1), "validation": 0}
TREE = DecisionTreeRegressor(max_depth=4, random_state=0)
SEQUENCES, LENGTH = 6, 60
VERSION = tuple(int(part) for part in sklearn.__version__.split(".")[:2])

ROWS_ARE_IN_TIME = "a roll-out acts on its own past: what it predicts for a row depends on the rows before"
EXPECTED_FAILURES = {
    "check_methods_sample_order_invariance": ROWS_ARE_IN_TIME,
    "check_methods_subset_invariance": ROWS_ARE_IN_TIME,
}


def small(**settings):
    return SimileRegressor(**{"algorithm": "paper", **SMALL, "model": TREE, **settings})


def rows(demos, names=None):
    """Contexts (n, m), actions (n,) and labels (n,) of demonstrations, one after the other."""
    lengths = [len(d) for d in demos]
    labels = np.repeat(demos.names if names is None else names, lengths)
    return np.concatenate(demos.contexts), np.concatenate(demos.actions)[:, 0], labels


def sequences(X, y, groups):
    """What `rows` undoes, written another way than in the library."""
    labels = list(dict.fromkeys(groups))
    return Demonstrations.from_arrays([X[groups == g] for g in labels], [y[groups == g] for g in labels])


def score_by_hand(X, y, groups, train, test, **settings):
    """R^2 on `test` of a policy learned on `train`, without scikit-learn's machinery."""
    settings.pop("algorithm", None)
    run = simile.paper(sequences(X[train], y[train], groups[train]), **settings)
    expected, rolled = [], []
    for g in np.unique(groups[test]):
        part = test[groups[test] == g]
        expected.append(y[part])
        rolled.append(simile.rollout(run.policy, [X[part]], start=ColdStart())[0][:, 0])
    return r2_score(np.concatenate(expected), np.concatenate(rolled))


@pytest.fixture(scope="module")
def data():
    return rows(tasks.pursuit(n_sequences=SEQUENCES, length=LENGTH))


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


# scikit-learn's conventions


@parametrize_with_checks(
    [SimileRegressor(algorithm="paper", **SMALL), small(model=Ridge())],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_importing_simile_does_not_import_scikit_learn():
    subprocess.run([sys.executable, "-c", "import simile, sys; assert 'sklearn' not in sys.modules"], check=True)


def test_parameters_are_kept_as_given_and_cloned():
    model = DecisionTreeRegressor()
    regressor = small(smoothness=7.0, model=model)
    assert regressor.model is model
    assert regressor.horizon is SMALL["horizon"]
    copy = clone(regressor.set_params(model__max_depth=2))
    assert (copy.smoothness, copy.model.max_depth, copy.horizon) == (7.0, 2, SMALL["horizon"])
    assert copy.model is not model


@pytest.mark.parametrize("hold", [0.2, simile.Hold(0.2, stepping=True)])
def test_hold_is_a_parameter_like_any_other(hold, data):
    X, y, groups = data
    plain = SimileRegressor(model=Ridge(), smoothness=5.0, hold=0)
    held = clone(plain).set_params(hold=hold).fit(X, y, groups)
    assert held.policy_.hold.width == 0.2
    assert held.policy_.hold.stepping == (hold != 0.2)
    rests = [(np.diff(one.predict(X, groups), axis=0) == 0.0).mean() for one in (plain.fit(X, y, groups), held)]
    assert rests[0] < rests[1]


def test_same_parameters_as_learn():
    ours, theirs = set(SimileRegressor().get_params()), set(simile.learn.__kwdefaults__)
    of_rounds = {"feedback", "rule", "step_size", "n_rounds"}
    # Nobody watches an estimator, its data are here, and all columns of X are contexts.
    assert ours - {"random_state", "algorithm"} - of_rounds == theirs - {"seed", "watch", "backend", "effect"}
    assert of_rounds < set(simile.rounds.__kwdefaults__)
    assert all(value is None for name, value in SimileRegressor().get_params().items() if name != "algorithm")
    assert SimileRegressor().algorithm == "learn"
    with pytest.raises(
        simile.ArgumentError, match=r"n_rounds: learn has no rounds.*simile\.paper\(demos, n_rounds=2\)"
    ):
        SimileRegressor(n_rounds=2).fit([[0.0]] * 9, [0.0] * 9)
    with pytest.raises(simile.ArgumentError, match="algorithm must be one of learn, paper"):
        SimileRegressor(algorithm="best").fit([[0.0]] * 9, [0.0] * 9)


def test_predict_before_fit():
    with pytest.raises(NotFittedError):
        SimileRegressor().predict(np.zeros((3, 1)))


# Sequences


def test_fit_is_learn_on_the_sequences(data):
    X, y, groups = data
    regressor = small().fit(X, y, groups)
    run = simile.paper(sequences(X, y, groups), model=TREE, **SMALL)
    assert len(regressor.run_.rounds) == 2
    assert regressor.policy_ is regressor.run_.policy
    for ours, theirs in zip(regressor.run_.chosen.rolled, run.chosen.rolled, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_groups_may_interleave(data):
    X, y, groups = data
    # a merge of the sequences: each keeps its own order, and no two rows of one are neighbours
    mixed = np.arange(len(X)).reshape(SEQUENCES, LENGTH).T.ravel()
    apart = small().fit(X, y, groups)
    merged = small().fit(X[mixed], y[mixed], groups[mixed])
    np.testing.assert_array_equal(merged.predict(X, groups), apart.predict(X, groups))
    np.testing.assert_array_equal(merged.predict(X[mixed], groups[mixed]), apart.predict(X, groups)[mixed])


def test_predict_rolls_each_sequence_out_from_a_cold_start(data):
    X, y, groups = data
    regressor = small().fit(X, y, groups)
    predicted = regressor.predict(X, groups)
    for g in np.unique(groups):
        alone = simile.rollout(regressor.policy_, [X[groups == g]], start=ColdStart())[0]
        np.testing.assert_array_equal(predicted[groups == g], alone[:, 0])
        np.testing.assert_array_equal(predicted[groups == g], regressor.predict(X[groups == g]))
    assert regressor.score(X, y, groups=groups) == r2_score(y, predicted)
    weights = np.arange(len(y))
    assert regressor.score(X, y, weights, groups) == r2_score(y, predicted, sample_weight=weights)


def test_without_groups_all_rows_are_one_sequence(data):
    X, y, groups = data
    joined, one = small().fit(X, y), small().fit(X, y, np.zeros(len(X)))
    np.testing.assert_array_equal(joined.predict(X), one.predict(X))
    assert len(joined.run_.chosen.rolled) == 1
    assert not np.array_equal(joined.predict(X), joined.predict(X, groups))


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([0, 1], "one label for each of 360 rows; got shape \\(2,\\)"),
        (np.zeros((SEQUENCES * LENGTH, 2)), "got shape \\(360, 2\\)"),
        ([0.0] * (SEQUENCES * LENGTH - 1) + [np.nan], "got nan at row 359"),
        ([None] + ["a"] * (SEQUENCES * LENGTH - 1), "got None at row 0"),
    ],
)
def test_groups_that_do_not_name_every_row(data, groups, message):
    X, y, good = data
    with pytest.raises(DataError, match=message):
        small().fit(X, y, groups)
    regressor = small().fit(X, y, good)
    with pytest.raises(DataError, match=message):
        regressor.predict(X, groups)


def test_short_data_say_what_is_too_short():
    X, y = np.arange(5.0)[:, np.newaxis], np.arange(5.0)
    with pytest.raises(DataError, match="no sequence is longer"):
        SimileRegressor().fit(X[:3], y[:3])
    with pytest.raises(ValueError, match="1 sample"):
        small().fit(X[:1], y[:1])
    assert small().fit(X[:2], y[:2]).predict(X).shape == (5,)


# Data of all sorts


def test_several_actions_and_a_column(data):
    X, y, groups = data
    both = small().fit(X, np.column_stack([y, -2.0 * y]), groups)
    predicted = both.predict(X, groups)
    assert predicted.shape == (len(X), 2)
    np.testing.assert_allclose(predicted[:, 1], -2.0 * predicted[:, 0])
    column = small().fit(X, y[:, np.newaxis], groups).predict(X, groups)
    np.testing.assert_array_equal(column, small().fit(X, y, groups).predict(X, groups)[:, np.newaxis])


def test_missing_contexts_are_the_models_affair(data):
    X, y, groups = data
    X = X.copy()
    X[::7, 0] = np.nan
    forest, ridge = SimileRegressor(algorithm="paper", **SMALL), small(model=Ridge())
    assert get_tags(forest).input_tags.allow_nan
    assert get_tags(small()).input_tags.allow_nan
    assert not get_tags(ridge).input_tags.allow_nan
    assert np.isfinite(forest.fit(X, y, groups).predict(X, groups)).all()
    with pytest.raises(ValueError, match="Ridge cannot take the missing values"):
        ridge.fit(X, y, groups)
    with pytest.raises(ValueError, match="NaN"):
        ridge.fit(np.nan_to_num(X), y, groups).predict(X, groups)


class Mean:
    """A model that knows nothing of scikit-learn."""

    def fit(self, S, Y):
        self.mean = Y.mean(axis=0)
        return self

    def predict(self, S):
        return np.full(len(S), self.mean)


def test_a_model_that_is_no_estimator(data):
    X, y, groups = data
    regressor = small(model=Mean(), n_rounds=0)
    assert not get_tags(regressor).input_tags.allow_nan
    end = regressor.fit(X, y, groups).predict(X, groups)[LENGTH - 1 :: LENGTH]
    np.testing.assert_allclose(end, y.mean(), atol=0.1)  # from where the recordings begin
    with pytest.raises(ArgumentError, match="got the class Mean"):
        small(model=Mean).fit(X, y, groups)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_name_their_columns(data, library):
    frames = pytest.importorskip(library)
    X, y, groups = data
    names = [f"player{i}" for i in range(X.shape[1])]
    table = frames.DataFrame({**dict(zip(names, X.T, strict=True)), "pan": y, "play": groups})
    if library == "polars" and VERSION < (1, 9) and not hasattr(table, "__dataframe__"):
        pytest.skip("this scikit-learn reads no names from this polars")
    validation = Demonstrations.from_frame(table, contexts=names, actions="pan", sequence="play")
    regressor = small(validation=validation).fit(table[names], table["pan"], table["play"])
    assert list(regressor.feature_names_in_) == names
    assert np.isfinite(regressor.run_.chosen.validation_error)
    predicted = regressor.predict(table[names], table["play"])
    np.testing.assert_array_equal(predicted, small().fit(X, y, groups).predict(X, groups))
    assert small().fit(table[names], table[["pan"]], groups).predict(table[names]).shape == (360, 1)
    with pytest.raises(ValueError, match="feature names should match"):
        regressor.predict(table[names[::-1]])


def test_validation_share_chooses_the_round(data):
    X, y, groups = data
    run = small(n_rounds=3, validation=0.3).fit(X, y, groups).run_
    errors = [r.validation_error for r in run.rounds]
    assert run.chosen.validation_error == min(errors)
    assert len(run.chosen.rolled) == 4  # of six sequences, two are held out


def test_random_state(data):
    X, y, groups = data

    def predict(random_state):
        model = DecisionTreeRegressor(max_features=1, max_depth=4)
        return small(model=model, random_state=random_state).fit(X, y, groups).predict(X, groups)

    np.testing.assert_array_equal(predict(None), predict(0))
    np.testing.assert_array_equal(predict(np.random.RandomState(3)), predict(np.random.RandomState(3)))
    assert not np.array_equal(predict(0), predict(1))
    with pytest.raises(ValueError, match="cannot be used to seed"):
        predict("chance")


# Searches, cross-validation and pipelines


def test_grid_search_keeps_the_sequences_apart(data, routing):
    X, y, groups = data
    folds = GroupKFold(3)
    regressor = small().set_fit_request(groups=True).set_score_request(groups=True)
    search = GridSearchCV(regressor, {"smoothness": [1.0, 20.0]}, cv=folds).fit(X, y, groups=groups)
    for i, (train, test) in enumerate(folds.split(X, y, groups)):
        for j, smoothness in enumerate([1.0, 20.0]):
            score = score_by_hand(X, y, groups, train, test, model=TREE, smoothness=smoothness, **SMALL)
            assert search.cv_results_[f"split{i}_test_score"][j] == pytest.approx(score, rel=1e-12)
            one = np.zeros(len(X))
            joined = score_by_hand(X, y, one, train, test, model=TREE, smoothness=smoothness, **SMALL)
            assert abs(joined - score) > 1e-4  # else this test could not tell
    assert search.best_estimator_.run_.chosen.rolled[0].shape == (LENGTH, 1)
    assert search.score(X, y, groups=groups) == search.best_estimator_.score(X, y, groups=groups)


def test_folds_may_be_coarser_than_sequences(data, routing):
    X, y, sequence = data
    player = np.repeat(["ann", "bob", "cy"], 2 * LENGTH)
    regressor = small().set_fit_request(groups="sequence").set_score_request(groups="sequence")
    folds = GroupKFold(3)
    scores = cross_val_score(regressor, X, y, cv=folds, params={"groups": player, "sequence": sequence})
    by_hand = [score_by_hand(X, y, sequence, *fold, model=TREE, **SMALL) for fold in folds.split(X, y, player)]
    np.testing.assert_allclose(scores, by_hand, rtol=1e-12)


def test_groups_are_never_dropped_in_silence(data, routing):
    X, y, groups = data
    with pytest.raises(UnsetMetadataPassedError, match="groups"):
        cross_val_score(small(), X, y, cv=GroupKFold(3), params={"groups": groups})


def test_pipeline(data):
    X, y, groups = data
    pipeline = make_pipeline(StandardScaler(), small(model=Ridge(alpha=100.0)))
    pipeline.fit(X, y, simileregressor__groups=groups)
    scaled = StandardScaler().fit_transform(X)
    alone = small(model=Ridge(alpha=100.0)).fit(scaled, y, groups)
    np.testing.assert_array_equal(pipeline.predict(X, groups=groups), alone.predict(scaled, groups))


@pytest.mark.skipif(VERSION < (1, 8), reason="scikit-learn's issue 30937: groups do not reach a pipeline's score")
def test_cross_validation_of_a_pipeline(data, routing):
    X, y, groups = data
    regressor = small(model=Ridge(alpha=100.0)).set_fit_request(groups=True).set_score_request(groups=True)
    folds = GroupKFold(3)
    scores = cross_val_score(make_pipeline(StandardScaler(), regressor), X, y, cv=folds, params={"groups": groups})
    for score, (train, test) in zip(scores, folds.split(X, y, groups), strict=True):
        scaled = StandardScaler().fit(X[train]).transform(X)
        by_hand = score_by_hand(scaled, y, groups, train, test, model=Ridge(alpha=100.0), **SMALL)
        assert score == pytest.approx(by_hand, rel=1e-12)
