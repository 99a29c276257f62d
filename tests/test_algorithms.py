"""Every reduction by its name, and the run it returns."""

from __future__ import annotations

import numpy as np
import pytest

import simile
from conftest import demos_of
from simile import (
    Criterion,
    Horizon,
    LinearAutoregression,
    Mixture,
    OracleFeedback,
    SimileError,
    SmoothForest,
    SmoothPolicy,
    StochasticMixture,
    VelocityAutoregression,
)
from simile.learning.algorithms import Run
from simile.learning.reduction import rounds
from simile.learning.training import latest

SMALL = {"horizon": Horizon(2, 2), "regularizer": VelocityAutoregression(order=3), "n_rounds": 3}

DEMOS = demos_of(30, 30)


@pytest.fixture
def settings(tree):
    return {**SMALL, "model": tree}


@pytest.mark.parametrize(
    ("algorithm", "kind"),
    [
        (simile.paper, Mixture),
        (simile.authors, Mixture),
        (simile.searn, StochasticMixture),
        (simile.smile, StochasticMixture),
        (simile.dagger, SmoothPolicy),
        (simile.coach, SmoothPolicy),
        (simile.clone, SmoothPolicy),
    ],
)
def test_every_algorithm_takes_the_same_settings_and_combines_in_its_own_way(algorithm, kind, settings):
    run = algorithm(demos_of(60, 60, 60), **settings, smoothness=5.0, seed=1, validation=0.3)
    assert isinstance(run.rounds[-1].policy, kind)
    assert len(run.rounds) == (1 if algorithm is simile.clone else 4)
    assert all(np.isfinite(r.validation_error) for r in run.rounds)


def errors_of(rounds_):
    return [r.error for r in rounds_]


def test_paper_is_algorithm_2_as_printed():
    demos = demos_of(60, 60)
    run = simile.paper(demos, n_rounds=3)
    assert run.chosen is run.rounds[-1]  # output: last policy
    assert run.policy.components[0].horizon == Horizon(10, 10)
    # Line 7: h is the least squares fit to positions.
    standard = [run.policy.units.standardize(t) for t in run.rounds[1].targets]
    h = LinearAutoregression(order=10, ridge=1e-5).fit(standard, 30.0)
    np.testing.assert_allclose(run.rounds[1].h.coefficients, h.coefficients, rtol=1e-6)
    assert [r.sigma for r in run.rounds[1:]] == pytest.approx([2 / 3, 1 / 3, 0.0])  # sigma falls to 0
    # Line 8: splits by the impurity with lambda and h, and children weighed as printed.
    assert "criterion=Criterion.PRINTED" in run.policy.card.training["settings"]["model"]
    others = [simile.paper(demos, n_rounds=3, model=SmoothForest(criterion=c)) for c in Criterion]
    assert [errors_of(other.rounds) == errors_of(run.rounds) for other in others] == [False, False, True]
    again = simile.rounds(demos, **{**simile.PRINTED, "n_rounds": 3})
    assert errors_of(again) == errors_of(run.rounds)


def test_authors_is_the_released_script():
    demos = demos_of(60, 60)
    run = simile.authors(demos, n_rounds=3)
    assert run.chosen is run.rounds[-1]
    assert run.policy.components[0].horizon == Horizon(10, 10)
    assert run.rounds[1].h.coefficients.sum() == pytest.approx(1.0)  # of velocities: constant histories go on
    assert [r.sigma for r in run.rounds[1:]] == pytest.approx(np.exp(-np.linspace(0.2, 1.6, 3)))
    assert "criterion=Criterion.LABELS" in run.policy.card.training["settings"]["model"]
    for same in (
        simile.rounds(demos, n_rounds=3),  # which has the choices of the script, as all other reductions
        simile.rounds(demos, **{**simile.AUTHORS, "n_rounds": 3}),
        simile.paper(demos, **{**simile.AUTHORS, "n_rounds": 3}).rounds,
    ):
        assert errors_of(same) == errors_of(run.rounds)


def test_presets_cannot_be_changed_and_settings_win_over_them():
    with pytest.raises(TypeError):
        simile.PRINTED["smoothness"] = 3.0
    for preset in (simile.PRINTED, simile.AUTHORS):
        assert set(preset) < {*simile.learning.algorithms.Settings.__annotations__}
    run = simile.paper(demos_of(60, 60), n_rounds=1, regularizer=simile.PreviousAction(), smoothness=None)
    assert run.policy.components[0].h.order == 1
    assert run.policy.card.training["settings"]["smoothness"] == 30.0  # None is what was not given


@pytest.mark.parametrize("wrap", [lambda model, _: model, simile.Checkpointed])
def test_a_forest_that_names_no_criterion_splits_as_the_algorithm_says(wrap, tmp_path):
    demos = demos_of(60, 60)

    def said(algorithm, folder, **choices):
        model = wrap(SmoothForest(n_trees=2, min_leaf=4, **choices), tmp_path / folder)
        return algorithm(demos, n_rounds=1, model=model).policy.card.training["settings"]["model"]

    assert "criterion=Criterion.PRINTED" in said(simile.paper, "paper")
    assert "criterion=Criterion.LABELS" in said(simile.authors, "authors")
    assert "criterion=Criterion.LABELS" in said(simile.dagger, "dagger")
    assert "criterion=Criterion.SMOOTH" in said(simile.paper, "smooth", criterion=Criterion.SMOOTH)
    assert "criterion=Criterion.LABELS" in said(simile.paper, "labels", criterion=Criterion.LABELS)


def test_a_last_round_that_is_clearly_worse_is_noted():
    class Forgetting:
        """Fits the mean, and something far off from the third fit on: rounds 0 and 1 are good."""

        def __init__(self, fits=None):
            self.fits = [0] if fits is None else fits

        def __deepcopy__(self, memo):
            return Forgetting(self.fits)

        def fit(self, S, Y):
            self.fits[0] += 1
            self.value = 0.0 if self.fits[0] <= 2 else 30.0
            return self

        def predict(self, S):
            return np.full(len(S), self.value)

    settings = {**SMALL, "horizon": Horizon(1, 0), "step_size": 0.5}
    for algorithm in (simile.paper, simile.authors):
        run = algorithm(demos_of(60, 60, 60), model=Forgetting(), **settings)
        best = min(run.rounds, key=lambda r: r.error)
        assert best.number < 2
        times = np.sqrt(run.rounds[-1].error / best.error)
        assert run.notes == (
            f"the last round is taken, and its training error is {times:.2f} times that of round {best.number}: "
            "validation=0.2 chooses the round by sequences that are held out (a command: --validation 0.2)",
        )
        assert f"note: {run.notes[0]}" in str(run)
        assert algorithm(demos_of(60, 60, 60), model=Forgetting(), **settings, validation=0.3).notes == ()
    assert simile.authors(demos_of(60, 60, 60), **SMALL).notes == ()  # where the last is the best there is none


@pytest.mark.parametrize(
    ("given", "call"),
    [
        ({"n_rounds": 5}, "n_rounds=5"),
        ({"rule": simile.JointRule()}, "rule=JointRule()"),
        ({"step_size": 0.5}, "step_size=0.5"),
        ({"memory": latest}, "memory=latest"),
        ({"combine": simile.interpolate}, "combine=interpolate"),
        ({"horizon": Horizon(2, 2)}, "horizon=Horizon("),
        ({"feedback": simile.ExpertFeedback(), "n_rounds": 2}, "feedback=ExpertFeedback(), n_rounds=2"),
    ],
)
def test_learn_refuses_what_only_rounds_have_a_use_for_and_shows_the_call(given, call):
    with pytest.raises(simile.ArgumentError, match="learn has no rounds") as caught:
        simile.learn(DEMOS, **given)
    assert f"simile.paper(demos, {call}" in str(caught.value)
    assert isinstance(simile.paper(DEMOS, **{"n_rounds": 1, **given}, model=simile.SmoothForest(2)), Run)


def test_learn_takes_no_argument_that_nobody_knows():
    with pytest.raises(TypeError, match=r"learn\(\) got an unexpected keyword argument 'smothness'"):
        simile.learn(DEMOS, smothness=3.0)


def test_dagger_trains_on_all_rounds_and_simile_on_the_latest():
    sizes = []

    class Counting:
        def fit(self, S, Y):
            sizes.append(len(S))
            return self

        def predict(self, S):
            return np.zeros(len(S))

    settings = {**SMALL, "horizon": Horizon(1, 0), "model": Counting()}
    simile.dagger(demos_of(50), **settings)
    assert sizes == [50, 100, 150, 200]
    sizes.clear()
    simile.paper(demos_of(50), **settings)
    assert sizes == [50, 50, 50, 50]


@pytest.mark.parametrize("algorithm", [simile.searn, simile.smile])
def test_searn_and_smile_keep_their_first_policy(algorithm, settings):
    run = algorithm(demos_of(60, 60), **settings)
    first, last = run.rounds[0].policy, run.policy
    assert last.components[0].f is first.f
    assert last.weights[0] == pytest.approx(0.9**3)  # (1 - beta)^N


def test_dagger_rolls_out_its_newest_policy_alone(settings):
    demos, rolled = demos_of(60, 60), []

    class Noting(simile.ExpertFeedback):
        def __call__(self, seen):
            rolled.append([seen.units.restore(a) for a in seen.rolled])
            return super().__call__(seen)

    run = simile.dagger(demos, **settings, feedback=Noting())
    assert len(rolled) == 3
    for before, seen_ in zip(run.rounds, rolled, strict=False):  # by pi^_{n-1}, and no share beta_i of the expert
        for a, b in zip(simile.rollout(before.trained, demos), seen_, strict=True):
            np.testing.assert_allclose(a, b)


def test_dagger_can_query_an_expert(settings):
    demos = demos_of(80, 80)
    run = simile.dagger(
        demos, **settings, feedback=OracleFeedback(lambda s: 0.8 * s.history(1)[:, 0, 0] + 0.2 * s.contexts[:, 0])
    )
    assert run.rounds[-1].error < run.rounds[0].error


def test_the_same_seed_gives_the_same_bits_and_another_seed_another_run():
    demos = demos_of(120, 120)
    first, again, other = (simile.paper(demos, **SMALL, seed=s).rounds[-1].error for s in (4, 4, 5))
    assert first == again != other


def test_validation_by_share_by_demonstrations_or_not_at_all(settings):
    demos = demos_of(60, 60, 60)
    assert np.isfinite(simile.paper(demos, **settings, validation=0.34).chosen.validation_error)
    assert np.isfinite(simile.paper(demos[:2], **settings, validation=demos[2]).chosen.validation_error)
    assert np.isnan(simile.paper(demos, **settings, validation=0).chosen.validation_error)


def test_a_single_sequence_holds_out_its_end(settings):
    demos = demos_of(100)
    train, held = demos.hold_out(0.2)
    assert (train.n_frames, held.n_frames) == (80, 20)
    np.testing.assert_array_equal(np.concatenate([train[0].actions, held[0].actions]), demos[0].actions)
    assert np.isfinite(simile.paper(demos, **settings, validation=0.2).chosen.validation_error)


def test_the_round_is_chosen_by_validation(settings):
    run = simile.paper(demos_of(60, 60, 60), **settings, validation=0.2)
    assert run.chosen.validation_error == min(r.validation_error for r in run.rounds)
    assert run.policy is run.chosen.policy


def test_a_run_prints_one_row_per_round(settings):
    run = simile.paper(demos_of(60, 60, 60), **settings, validation=0.2)
    lines = str(run).splitlines()
    assert lines[0].split() == ["round", "beta", "sigma", "error", "roughness", "radius", "validation"]
    assert [line.split()[0] for line in lines[1:5]] == ["0", "1", "2", "3"]
    assert sum("<- chosen" in line for line in lines) == 1
    assert repr(run) == f"Run(4 rounds, round {run.chosen.number} chosen)"


def test_ctrl_c_keeps_the_rounds_there_are(settings):
    def stopping():
        for r in rounds(demos_of(60, 60), **settings):
            if r.number == 2:
                raise KeyboardInterrupt
            yield r

    run = Run.of(stopping())
    assert run.interrupted
    assert len(run.rounds) == 2
    assert "interrupted after round 1" in str(run)
    with pytest.raises(KeyboardInterrupt):
        Run.of(r for r in _interrupted_at_once())


def _interrupted_at_once():
    raise KeyboardInterrupt
    yield


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: simile.learn(DEMOS, smoothness=-3), r"smoothness must be >= 0; got -3"),
        (lambda: simile.learn(DEMOS, smoothness="smooth"), "smoothness must be a number; got 'smooth'"),
        (lambda: simile.paper(DEMOS, n_rounds=-1), "n_rounds must be >= 0; got -1"),
        (lambda: simile.learn(DEMOS, seed=0.5), "seed must be a whole number; got 0.5"),
        (
            lambda: simile.learn(DEMOS, model=VelocityAutoregression),
            r"model must be an object, not a class; .* with parentheses",
        ),
        (lambda: simile.learn(DEMOS, model="forest"), r"model must have a method fit\(\); got 'forest'"),
        (lambda: simile.learn(DEMOS, regularizer=VelocityAutoregression), "regularizer must be an object, not a class"),
        (lambda: simile.paper(DEMOS, feedback=simile.ExpertFeedback), "feedback must be an object, not a class"),
        (lambda: simile.paper(DEMOS, step_size=simile.ErrorRatio), "step_size must be an object, not a class"),
        (lambda: simile.paper(DEMOS, step_size=1.5), "beta must be >= 0 and <= 1; got 1.5"),
        (lambda: simile.learn(DEMOS, horizon=Horizon), "horizon must be an object, not a class"),
        (lambda: simile.paper(DEMOS, rule=simile.JointRule), "rule must be an object, not a class"),
        (lambda: simile.learn(DEMOS, validation=1.5), "validation must be > 0 and <= 1; got 1.5"),
        (lambda: simile.learn(demos_of(1)), "no sequence is longer"),
        (lambda: simile.learn(DEMOS, validation=demos_of(30, m=3)), "validation must have the columns"),
        (
            lambda: simile.learn(DEMOS, regularizer=VelocityAutoregression(order=30)),
            "order must be shorter than the longest sequence; got order=30",
        ),
        (
            lambda: simile.paper(DEMOS, horizon=Horizon(1, 40)),
            "remembers 40 actions and no sequence is longer",
        ),
        (
            lambda: simile.learn(DEMOS, space=simile.ActionSpace(0.0, 1e-9)),
            r"space: action 'a0' of 'sequence \d' is .* outside the bounds",
        ),
        (lambda: simile.learn(3), "demos must be Demonstrations; got 3"),
        (lambda: simile.learn([1, 2]), "demonstrations must hold Demonstration objects; got int at position 0"),
        (lambda: simile.learn(simile.Demonstration), "demos must be Demonstrations"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_learned(call, message: str):
    with pytest.raises(SimileError, match=message):
        call()


def test_watch_sees_every_round_as_it_comes(pursuit, tree):
    seen = []
    run = simile.paper(pursuit[0], model=tree, n_rounds=2, watch=seen.append)
    assert [r.number for r in seen] == [0, 1, 2]
    assert all(a is b for a, b in zip(seen, run.rounds, strict=True))


def test_every_policy_carries_a_card_with_names_rate_settings_and_errors(pursuit, tree):
    train, _ = pursuit
    run = simile.paper(train, model=tree, n_rounds=1, validation=0.2)
    card = run.rounds[1].policy.card
    assert card.context_names == train.context_names
    assert card.action_names == ("pan",)
    assert card.rate == 30.0
    assert card.training["round"] == 1
    assert card.training["error"] == run.rounds[1].error
    assert card.training["validation_error"] == run.rounds[1].validation_error
    assert card.training["settings"]["regularizer"] == "LinearAutoregression(order=10, ridge=1e-05)"
    assert " at 0x" not in str(card)
