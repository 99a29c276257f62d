"""Losses other than the squared one: what they weigh, through which models, and what they do about outliers."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import linear_model
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import simile
from commands import simile_
from simile import tasks
from simile._common.parts import Whole
from simile.data.losses import Absolute, Huber, Squared
from simile.data.reference import Reference
from simile.data.states import Horizon
from simile.errors import ArgumentError, DataError
from simile.learning.aims import Aim
from simile.learning.components import Component
from simile.learning.distributed.backend import LocalBackend
from simile.learning.folds import Folds, states_of
from simile.learning.mixture import Choices, Mixture
from simile.learning.outliers import weigh
from simile.learning.runs import RunFolder
from simile.models import SmoothForest, adapters
from simile.models.ridge import Lesson, Ridge

CONTEXTS = Horizon((0, 2, 4), 0)
LIGHT = (SmoothForest(n_trees=8), Ridge())


def spoil(demos, share=0.02, size=20.0, seed=0):
    """Put gross outliers, of so many standard deviations, into a share of the actions."""
    rng, spread = np.random.default_rng(seed), np.concatenate(demos.actions).std(axis=0)
    noise = [np.where(rng.random(a.shape) < share, rng.normal(0.0, size, a.shape), 0.0) for a in demos.actions]
    return demos.with_actions([a + spread * n for a, n in zip(demos.actions, noise, strict=True)])


def rmse(policy, demos):
    rolled = simile.rollout(policy, demos)
    return float(np.sqrt(np.mean([np.mean((a - b) ** 2) for a, b in zip(rolled, demos.actions, strict=True)])))


def roughness(policy, demos):
    ours = np.mean([np.abs(np.diff(a, n=2, axis=0)).mean() for a in simile.rollout(policy, demos)])
    return float(ours / np.mean([np.abs(np.diff(a, n=2, axis=0)).mean() for a in demos.actions]))


@pytest.fixture(scope="module")
def pursuit():
    return tasks.pursuit(n_sequences=8, length=300).split(test=0.25)


@pytest.mark.parametrize("loss", [Squared(), Absolute(), Absolute(0.1), Huber(), Huber(0.5)])
@given(residual=st.floats(-30.0, 30.0), other=st.floats(-30.0, 30.0))
def test_losses_are_convex_even_and_weigh_by_their_slope(loss, residual, other):
    r = np.array([residual, -residual, other, (residual + other) / 2.0])
    value = loss(r)
    assert value[0] == value[1]
    assert value[3] <= (value[0] + value[2]) / 2.0 + 1e-9
    step = 1e-6
    slope = (loss(r + step) - loss(r - step)) / (2.0 * step)
    np.testing.assert_allclose(2.0 * r * loss.weigh(r), slope, atol=1e-4)


def test_the_squared_loss_changes_no_bit(pursuit):
    train, _ = pursuit
    assert weigh(train, Squared()) is train
    plain, named = (simile.learn(train, model=LIGHT, **loss) for loss in ({}, {"loss": Squared()}))
    assert "loss" not in plain.policy.card.training["settings"]
    assert plain.policy.card.training == named.policy.card.training
    for a, b in zip(simile.rollout(plain.policy, train), simile.rollout(named.policy, train), strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize(
    ("seed", "model"), [(0, LIGHT), *(pytest.param(seed, None, marks=pytest.mark.long) for seed in range(6))]
)
def test_huber_keeps_the_error_with_outliers_and_squared_does_not(seed, model):
    train, test = tasks.pursuit(n_sequences=8, length=400, seed=seed).split(test=0.25, seed=seed)
    wrong = spoil(train, seed=seed)
    # Without learned bounds, which would cost more than outliers where one plays as the others never did.
    how = {"model": model, "space": simile.ActionSpace()}
    clean, squared = (simile.learn(d, **how).policy for d in (train, wrong))
    same, run = (simile.learn(d, **how, loss=Huber()) for d in (train, wrong))
    assert rmse(run.policy, test) <= 1.05 * rmse(same.policy, test)
    assert rmse(run.policy, test) <= 1.1 * rmse(clean, test)
    assert rmse(squared, test) > 1.3 * rmse(clean, test)
    assert rmse(squared, test) > 1.3 * rmse(run.policy, test)
    # The budget of roughness is that of the motion, not of the outliers.
    assert roughness(run.policy, test) < 1.15
    assert not 0.6 < roughness(squared, test) < 3.0
    assert any("of the frames of pan are gross outliers" in note for note in run.notes)
    assert run.policy.card.training["settings"]["loss"] == "Huber(delta=3.0)"
    assert run.policy.card.training["data"] == wrong.digest()  # what was recorded


@pytest.mark.parametrize("algorithm", [simile.paper, simile.dagger])
def test_the_rounds_keep_the_error_too(pursuit, algorithm):
    train, test = pursuit
    wrong, settings = spoil(train), {"n_rounds": 2, "model": SmoothForest(n_trees=10)}
    clean = rmse(algorithm(train, **settings).policy, test)
    run = algorithm(wrong, **settings, loss=Huber())
    assert rmse(run.policy, test) <= 1.05 * clean
    assert rmse(algorithm(wrong, **settings).policy, test) > 1.1 * clean
    assert run.policy.card.training["settings"]["loss"] == "Huber(delta=3.0)"
    assert any("gross outliers" in note for note in run.notes)


def test_a_path_takes_a_loss(pursuit):
    train, _ = pursuit
    errors = [
        simile.path(demos, smoothness=[30.0], model=LIGHT, **loss).points[0].error
        for demos, loss in ((train, {}), (spoil(train), {"loss": Huber()}))
    ]
    assert errors[1] < 1.3 * errors[0]


def test_outliers_are_bridged_and_weigh_little_and_the_others_stay(pursuit):
    train, _ = pursuit
    wrong = spoil(train)
    weighed = weigh(wrong, Huber())
    hit = np.concatenate([a != b for a, b in zip(train.actions, wrong.actions, strict=True)])
    found = np.concatenate([a != b for a, b in zip(wrong.actions, weighed.actions, strict=True)])
    assert (found & hit).sum() > 0.95 * hit.sum()
    assert (found & ~hit).mean() < 0.002
    spread = np.concatenate(train.actions).std()
    off = np.concatenate(weighed.actions) - np.concatenate(train.actions)
    assert np.abs(off).max() < 0.5 * spread
    weights = np.concatenate(weighed.weights)
    assert np.median(weights[hit]) < 0.1
    assert np.median(weights[~hit]) > 0.95
    np.testing.assert_allclose(weights.mean(axis=0), 1.0)
    assert weigh(weighed, Huber()) is weighed
    assert weighed.digest() == wrong.digest()


def test_an_outlier_where_a_sequence_begins_or_ends_is_found(pursuit):
    train, _ = pursuit
    moved = [a.copy() for a in train.actions]
    for actions in moved:
        actions[0], actions[-1] = 1e3, -1e3
    weighed = weigh(train.with_actions(moved), Huber())
    for a, b in zip(weighed.actions, train.actions, strict=True):
        assert np.abs(a - b).max() < 10.0


def test_what_never_moves_or_is_short_is_weighed_without_warnings():
    demos = simile.Demonstrations.from_arrays([np.arange(30.0)[:, np.newaxis]], [np.full(30, 2.0)])
    weighed = weigh(demos, Huber())
    assert np.array_equal(weighed.actions[0], demos.actions[0])
    assert (weighed.weights[0] == 1.0).all()


def weighted(demos, far=10):
    """Let some frames count nothing."""
    rng = np.random.default_rng(1)
    weights = [np.where(rng.random(a.shape) < 1.0 / far, 0.0, 1.0) for a in demos.actions]
    items = [
        simile.Demonstration(d.contexts, d.actions, d.rate, weights=w) for d, w in zip(demos, weights, strict=True)
    ]
    return simile.Demonstrations(tuple(items))


@pytest.mark.parametrize("kind", ["leaves", "apart", "ridge", "scikit-learn", "network"])
def test_what_weighs_nothing_teaches_nothing(pursuit, kind):
    train, _ = pursuit
    one = weighted(train[:4])
    weights, labels = np.concatenate(one.weights), np.concatenate(one.actions)
    labels[weights == 0.0] = labels[weights == 0.0][::-1]  # in another order, so that means and deviations stay
    other = one.with_actions(np.split(labels, np.cumsum(one.lengths)[:-1]))
    forest, said = SmoothForest(n_trees=3), []
    for demos in (one, other):
        states, labels, rng = states_of(demos, CONTEXTS), np.concatenate(demos.actions), np.random.default_rng(0)
        if kind == "leaves":
            f = forest.fit_smooth([states], labels, labels, labels, 0.0, rng, weights=weights)
        elif kind == "apart":
            f = forest.fit_apart(states, labels, 1, rng, weights=weights)
        elif kind == "ridge":
            f, _ = Ridge().fit_folds(Whole(Lesson(states, labels, np.arange(4), weights)))
        elif kind == "scikit-learn":
            f = adapters.fit(linear_model.Ridge(), states.matrix(), labels, rng, weights=weights)
        else:
            pytest.importorskip("torch")
            network = simile.TorchRegressor(simile.MLP((4,)), epochs=2)
            f = network.fit_smooth([states], labels, labels, labels, 0.0, rng, weights=weights)
        said.append(f.predict(states.matrix()))
    np.testing.assert_allclose(said[0], said[1], rtol=1e-4, atol=1e-4)


def test_errors_and_mixtures_take_weights(pursuit):
    train, _ = pursuit
    demos = weighted(train)
    off = [a + np.where(w == 0.0, 50.0, 2.0) for a, w in zip(demos.actions, demos.weights, strict=True)]
    assert Reference(demos).measure(off).error == pytest.approx(4.0)
    right = [a + np.where(w == 0.0, 50.0, 0.0) for a, w in zip(demos.actions, demos.weights, strict=True)]
    said = {"right": right, "still": [np.zeros_like(a) for a in demos.actions]}

    def share(some):
        """Return the share of what is right where it counts."""
        parts = [Component(name, None, (Aim(),), np.concatenate(z)) for name, z in said.items()]
        (blend,) = Mixture(some, Choices.of(some), Folds.of(some), tuple(parts), 2).at(0.0)  # no filter
        return blend.weights[0]

    assert share(demos) == pytest.approx(1.0)
    assert share(train) < 0.95


def test_weights_go_where_their_frames_go(pursuit):
    demos = weighted(pursuit[0])
    assert np.array_equal(demos[0].cut(5, 9).weights, demos[0].weights[5:9])
    two = simile.Demonstration(np.ones((3, 1)), np.ones((3, 2)), weights=[[1, 2], [3, 4], [5, 6]])
    assert two.only_action(1).weights.ravel().tolist() == [2.0, 4.0, 6.0]
    mixed = simile.Demonstrations((two, simile.Demonstration(np.ones((2, 1)), np.ones((2, 2)))))
    assert [w.shape for w in mixed.weights] == [(3, 2), (2, 2)]
    with pytest.raises(DataError, match=r"weights of 'demonstration' must be one for each action, none below 0"):
        simile.Demonstration(np.ones(3), np.ones(3), weights=[1.0, -1.0, 1.0])


def test_a_model_without_weights_keeps_its_own_loss_and_says_so(pursuit):
    model = make_pipeline(StandardScaler(), linear_model.Ridge())
    run = simile.learn(spoil(pursuit[0]), model=model, smoothness=30.0, loss=Huber())
    assert any("Pipeline takes no weights, so that its own loss counts" in note for note in run.notes)
    run = simile.learn(spoil(pursuit[0]), model=linear_model.Ridge(), smoothness=30.0, loss=Huber())
    assert not any("takes no weights" in note for note in run.notes)


def test_a_backend_and_what_is_no_loss_are_refused(pursuit):
    train, _ = pursuit
    with pytest.raises(ArgumentError, match=r"loss must be Squared\(\) with a backend.*got Huber\(delta=3.0\)"):
        simile.paper(train, loss=Huber(), backend=LocalBackend(2))
    with pytest.raises(ArgumentError, match="demos must have no weights with a backend"):
        simile.paper(weighted(train), backend=LocalBackend(2))
    with pytest.raises(ArgumentError, match=r"loss must be an object, not a class; got the class Huber: write Huber\("):
        simile.learn(train, loss=Huber)
    with pytest.raises(ArgumentError, match=r"loss must be an object, for example simile.Huber\(\); got 'huber'"):
        simile.learn(train, loss="huber")
    with pytest.raises(ArgumentError, match="loss must have a method weigh"):
        simile.learn(train, loss=3.0)
    with pytest.raises(ArgumentError, match="delta must be"):
        Huber(0.0)
    with pytest.raises(ArgumentError, match="smoothing must be"):
        Absolute(-1.0)


def test_validation_is_weighed_as_well(pursuit):
    train, test = pursuit
    settings = {"model": LIGHT, "smoothness": 30.0}
    clean = simile.learn(train, validation=test, **settings).chosen.validation_error
    found = simile.learn(spoil(train), validation=spoil(test, seed=1), loss=Huber(), **settings).chosen.validation_error
    assert found < 1.3 * clean
    assert Choices.of(train, loss=Squared()).loss is None


def test_evaluations_and_comparisons_look_through_outliers(pursuit):
    train, test = pursuit
    policy = simile.learn(train, model=LIGHT, smoothness=30.0).policy
    clean, wrong, found = (
        simile.evaluate(policy, demos, loss=loss).entries[0].tally
        for demos, loss in ((test, None), (spoil(test), None), (spoil(test), Huber()))
    )
    assert wrong.score.rmse > 3.0 * clean.score.rmse
    assert found.score.rmse < 1.1 * clean.score.rmse
    assert found.score.roughness == pytest.approx(clean.score.roughness, rel=0.1)
    np.testing.assert_allclose(found.expert_bends, clean.expert_bends, rtol=0.1)
    how = {"reductions": ("learn", "clone"), "rivals": (), "model": LIGHT[0]}
    compared = simile.compare(spoil(train), spoil(test), **how, loss=Huber())
    assert all(row["error"] < 1.0 and row["roughness"] < 2.0 for row in compared.rows())


def test_a_search_takes_a_loss(pursuit):
    pytest.importorskip("optuna")
    from simile.learning.tuning import CrossFitting

    space = CrossFitting(mixture=("ridge",), lag=(4.0, 6.0))
    tuned = simile.tune(spoil(pursuit[0]), trials=1, space=space, loss=Huber())
    assert tuned.best["loss"] == Huber()
    assert tuned.chosen.rmse < 0.5
    assert tuned.chosen.options()["loss"] == "Huber()"
    assert tuned.run().policy.card.training["settings"]["loss"] == "Huber(delta=3.0)"


def test_the_estimator_of_scikit_learn_takes_a_loss(pursuit):
    from simile.sklearn import SimileRegressor

    train, _ = pursuit
    X, y = np.concatenate(train.contexts), np.concatenate(spoil(train).actions)[:, 0]
    fitted = SimileRegressor(model=LIGHT, smoothness=30.0, loss=Huber()).fit(X, y, np.repeat(train.names, 300))
    assert any("gross outliers" in note for note in fitted.run_.notes)
    assert fitted.score(X, np.concatenate(train.actions)[:, 0], groups=np.repeat(train.names, 300)) > 0.9


def test_the_command_learns_judges_and_reports_by_a_loss(pursuit, tmp_path):
    simile.write(spoil(simile.Demonstrations((*pursuit[0], *pursuit[1]))), tmp_path / "wrong.csv")
    given = ("train", "wrong.csv", "--actions", "pan", "--model", "Ridge(rows=5000)", "--smoothness", "30")
    for test, times in ((), 1), (("--test", "0.25"), 2):  # what is held out is judged by it, too
        out = ("--overwrite", "--out", "run")
        made = simile_(*given, "--loss", "Huber", *test, *out, cwd=tmp_path)
        assert "of the frames of pan are gross outliers" in made.stdout
        folder = RunFolder(tmp_path / "run")
        assert "--loss Huber" in folder.command
        assert folder.python.count("loss=simile.Huber()") == times
        rows = {row["name"]: row["error"] for row in folder.summary()["held_out"]}
        assert rows["policy"] < 0.3
    judged = simile_("evaluate", "run/policy.safetensors", "wrong.csv", "--loss", "Huber()", "--json", cwd=tmp_path)
    assert all(row["rmse"] < 10.0 for row in json.loads(judged.stdout)["recordings"])
    assert "gross outliers" in (tmp_path / "run" / "report.html").read_text()
    refused = simile_(*given, "--loss", "huber", "--out", "other", cwd=tmp_path, code=2)
    assert "loss must be a recipe such as Huber()" in refused.stderr
