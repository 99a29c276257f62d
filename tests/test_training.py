"""Line 8: the two leaf rules, any regressor as F, and what there is to train on."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingRegressor, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeRegressor

import simile
from conftest import demos_of
from simile import Horizon, ImitationRule, JointRule, SimileError, models
from simile.learning.training import Dataset, Train, everything, latest
from simile.models.adapters import FittedRegressor, TreeMean
from simile.models.regularizers import PreviousAction

RNG = np.random.default_rng


@given(st.floats(0.0, 100.0), st.integers(0, 100))
def test_leaf_values_of_equations_23_and_25_minimise_their_losses(smoothness: float, seed: int):
    # A model that predicts one constant is one leaf; its value must be the argmin the appendix prints.
    rng = RNG(seed)
    a, h = rng.normal(size=(2, 20, 1))

    def policy(v):
        return (v + smoothness * h) / (1.0 + smoothness)

    def imitation(v):
        return np.sum((policy(v) - a) ** 2)

    def joint(v):
        return imitation(v) + smoothness * np.sum((policy(v) - h) ** 2)

    for rule, loss in ((ImitationRule(), imitation), (JointRule(), joint)):
        leaf = rule.labels(a, h, smoothness).mean()
        step = 1e-3 * (1.0 + smoothness)
        assert loss(leaf) <= min(loss(leaf + step), loss(leaf - step)) + 1e-12


def test_without_smoothness_both_rules_fit_the_targets():
    a, h = RNG(0).normal(size=(2, 5, 2))
    np.testing.assert_array_equal(ImitationRule().labels(a, h, 0.0), a)
    np.testing.assert_array_equal(JointRule().labels(a, h, 7.0), a)


def test_memories():
    demos = demos_of(5)
    states = Horizon(0, 0).states(demos, demos.actions)
    first, second = (Dataset(states, np.zeros((5, 1))) for _ in range(2))
    assert latest((first,), second) == (second,)
    assert everything((first,), second) == (first, second)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize(
    "model",
    [
        RandomForestRegressor(n_estimators=3),
        ExtraTreesRegressor(n_estimators=3),
        DecisionTreeRegressor(),
        Ridge(),
        KNeighborsRegressor(),
        GradientBoostingRegressor(n_estimators=3),  # one output only: one copy per action
        make_pipeline(SimpleImputer(), Ridge()),
        MLPRegressor(hidden_layer_sizes=(4,), solver="lbfgs", max_iter=20000),
    ],
    ids=lambda m: type(m).__name__,
)
def test_any_scikit_learn_regressor_fits_predicts_and_repeats(model, k: int):
    S, Y = RNG(0).normal(size=(40, 3)), RNG(1).normal(size=(40, k))
    first, again = (models.fit(model, S, Y, RNG(5)).predict(S) for _ in range(2))
    assert first.shape == (40, k)
    np.testing.assert_array_equal(first, again)
    assert not hasattr(model, "n_features_in_") or not vars(model).get("n_features_in_")  # cloned, never fitted itself


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize(
    "model",
    [
        RandomForestRegressor(n_estimators=5, random_state=0),
        ExtraTreesRegressor(n_estimators=5, random_state=0),
        DecisionTreeRegressor(random_state=0),
    ],
)
def test_trees_predict_the_very_bits_of_their_forest(model, k: int):
    S, Y = RNG(0).normal(size=(200, 4)), RNG(1).normal(size=(200, k))
    fast = models.fit(model, S, Y, RNG(0))
    assert isinstance(fast, TreeMean)
    slow = FittedRegressor(model.fit(S, Y[:, 0] if k == 1 else Y))
    np.testing.assert_array_equal(fast.predict(S), slow.predict(S))


def test_seeds_given_by_the_user_are_kept():
    S, Y = RNG(0).normal(size=(60, 3)), RNG(1).normal(size=(60, 1))
    fixed = RandomForestRegressor(n_estimators=2, random_state=1)
    np.testing.assert_array_equal(
        models.fit(fixed, S, Y, RNG(0)).predict(S), models.fit(fixed, S, Y, RNG(99)).predict(S)
    )


def test_a_model_of_ones_own_is_copied_before_it_is_fitted():
    class Mean:
        def fit(self, S, Y):
            self.value = np.mean(Y)
            return self

        def predict(self, S):
            return np.full(len(S), self.value)

    recipe = Mean()
    fitted = models.fit(recipe, np.zeros((4, 1)), np.ones((4, 1)), RNG(0))
    assert not hasattr(recipe, "value")
    np.testing.assert_array_equal(fitted.predict(np.zeros((2, 1))), np.ones((2, 1)))


def test_a_smooth_regressor_is_given_lazy_states_and_h():
    class Forest:
        def fit_smooth(self, states, labels, targets, anchors, smoothness, rng):
            assert labels is targets  # the joint rule
            self.seen = [len(s) for s in states], labels.shape, anchors, smoothness
            return self

        def predict(self, S):
            return np.zeros((len(S), 1))

    demos, recipe = demos_of(10, 5), Forest()
    horizon = Horizon(1, 1)
    data = (Dataset(horizon.states(demos, demos.actions), np.concatenate(demos.actions)),)
    h = PreviousAction().fit(demos.actions, 3.0)
    Train(recipe, 3.0, horizon, JointRule(), None, simile.ActionSpace())(data, h, RNG(0))
    sizes, shape, anchors, smoothness = recipe.seen
    assert (sizes, shape, smoothness) == ([15], (15, 1), 3.0)
    np.testing.assert_array_equal(anchors, data[0].states.history(1)[:, 0])
    assert simile.paper(demos_of(40, 40), model=recipe, n_rounds=1).policy is not None


def test_missing_contexts_work_where_the_model_takes_them_and_say_so_where_not():
    demos = demos_of(60, 60)
    holes = [np.where(RNG(i).random(x.shape) < 0.1, np.nan, x) for i, x in enumerate(demos.contexts)]
    missing = simile.Demonstrations.from_arrays(holes, demos.actions)
    settings = {"n_rounds": 1, "validation": None, "horizon": Horizon(1, 1)}
    simile.paper(missing, **settings)
    simile.paper(missing, model=make_pipeline(SimpleImputer(), Ridge()), **settings)
    with pytest.raises(SimileError, match=r"model Ridge cannot take the missing values .* make_pipeline"):
        simile.paper(missing, model=Ridge(), **settings)


def test_a_fit_that_returns_nothing_useful_is_refused():
    class Silent:
        def fit(self, S, Y):
            return None

    with pytest.raises(SimileError, match="model must return an object with predict"):
        models.fit(Silent(), np.zeros((3, 1)), np.zeros((3, 1)), RNG(0))


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (np.zeros((4, 1)), r"one \(T, k\) array per sequence and \(5, 1\) together; got \(4, 1\)"),
        (np.full((5, 1), np.nan), r"got \(5, 1\) with NaN or infinity"),
    ],
)
def test_a_feedback_with_unusable_targets_is_refused(targets, message: str):
    demos = demos_of(5)
    with pytest.raises(SimileError, match="feedback must return finite targets.*" + message):
        Dataset(Horizon(0, 0).states(demos, demos.actions), targets)


def test_f_0_is_fitted_when_a_cold_start_or_a_file_asks_for_it_and_once(tmp_path, monkeypatch):
    fits = []
    fit = simile.SmoothForest.fit_smooth

    def counted(self, states, *rest):
        fits.append(states[0].horizon.memory)
        return fit(self, states, *rest)

    monkeypatch.setattr(simile.SmoothForest, "fit_smooth", counted)
    demos = simile.tasks.pursuit(n_sequences=2, length=80)
    policy = simile.paper(demos, model=simile.SmoothForest(2), n_rounds=1).policy
    assert 0 not in fits
    first = simile.rollout(policy, demos, start=simile.ColdStart())
    policy.save(tmp_path / "policy.safetensors")
    pickle.loads(pickle.dumps(policy))
    assert fits.count(0) == 1
    again = simile.rollout(simile.load(tmp_path / "policy.safetensors"), demos, start=simile.ColdStart())
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
