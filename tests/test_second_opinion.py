"""Whether `learn` takes what is simpler where that does better, and says so."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import simile
from simile import ActionSpace, ColdStart, Demonstrations, Horizon, MatchExpert, RolloutRidge, rollout
from simile.data import tasks
from simile.data.recorded import Units
from simile.data.reference import Reference
from simile.learning import measures, second_opinion
from simile.models import PiecewiseLinear
from simile.online import Predictor
from simile.policies.policies import radius

RNG = np.random.default_rng
PURSUIT = tasks.pursuit(n_sequences=4, length=150, n_players=3)


@pytest.fixture(scope="module")
def default() -> simile.Run:
    return simile.learn(PURSUIT)


def ignorant(n: int = 8, length: int = 40, seed: int = 0) -> Demonstrations:
    """Short sequences of a slow action that contexts tell nothing about."""
    rng = RNG(seed)
    contexts = [rng.normal(size=(length, 2)) for _ in range(n)]
    actions = [10.0 * rng.normal() + np.cumsum(0.02 * rng.normal(size=length)) for _ in range(n)]
    return Demonstrations.from_arrays(contexts, actions, rate=10.0)


def test_where_holding_the_last_action_does_better_the_run_takes_it_and_says_so(tmp_path):
    demos, seen = ignorant(), []
    run = simile.learn(demos, watch=seen.append)
    (note,) = run.notes
    assert note.startswith("holding the last action does better on sequences that were left out, ")
    assert note.endswith("standard deviations, and is the policy: the mixture is run.rounds[-2].policy")
    assert f"note: {note}" in str(run).splitlines()
    assert run.chosen is run.rounds[-1] is seen[-1]
    assert [r.number for r in run.rounds] == list(range(len(run.rounds)))
    assert run.chosen.validation_error < run.rounds[-2].validation_error
    for rolled, a in zip(rollout(run.policy, demos), demos.actions, strict=True):
        np.testing.assert_allclose(rolled[1:, 0], a[0, 0], rtol=1e-5, atol=1e-5)
    cold = rollout(run.policy, demos.contexts, start=ColdStart())
    np.testing.assert_allclose(np.concatenate(cold), np.concatenate(demos.actions).mean(), rtol=1e-6)
    run.policy.save(tmp_path / "held.safetensors")
    again = simile.load(tmp_path / "held.safetensors")
    for a, b in zip(rollout(again, demos), rollout(run.policy, demos), strict=True):
        np.testing.assert_array_equal(a, b)
    predictor = Predictor(again, start=[[4.0]])
    assert predictor.step(demos[0].contexts[0])[0] == pytest.approx(4.0)
    assert again.card.training["settings"]["rival"] == "'holding the last action'"
    assert radius(run.policy) < 1.0


def test_where_the_models_were_chosen_by_hand_what_does_better_is_offered_beside_them():
    run = simile.learn(ignorant(), model=RolloutRidge())
    (note,) = run.notes
    assert "standard deviations: it is kept as run.alternative" in note
    assert run.alternative is not None
    assert run.policy is run.rounds[-1].policy is not run.alternative


def test_where_nothing_simpler_does_better_there_is_no_note(default):
    assert default.notes == ()
    assert default.alternative is None
    assert "note:" not in str(default)


def rival_of(demos: Demonstrations, budget: float = 1.0):
    found = second_opinion.simple_rivals(demos, Horizon.auto(demos.rate), budget=budget, space=ActionSpace(), seed=0)
    return second_opinion.most_accurate(found) if found else None


def test_rivals_are_within_the_budget_where_any_is():
    for budget in (0.3, 1.0, 10.0):
        assert rival_of(PURSUIT, budget).score.roughness <= budget


def test_a_rival_is_what_its_name_says():
    held = rival_of(ignorant())
    assert held.name == "holding the last action"
    assert held.score.roughness == 0.0
    # Contexts that tell the action at once need no past and no filter.
    x = [np.cumsum(RNG(i).normal(size=(60, 1)), axis=0) for i in range(4)]
    line = rival_of(Demonstrations.from_arrays(x, [3.0 * a[:, 0] for a in x]), budget=2.0)
    assert line.name.startswith("a ridge behind")
    assert isinstance(line.policy.f, PiecewiseLinear)
    assert line.score.rmse < 0.05


def test_a_rival_does_out_of_fold_what_its_numbers_say():
    held = rival_of(ignorant())
    demos = ignorant()
    units = Units.of(demos)
    gaps = [units.standardize(a)[2:] - units.standardize(a)[1] for a in demos.actions]
    assert held.score.rmse == pytest.approx(np.sqrt(np.mean(np.concatenate(gaps) ** 2)))


def test_a_single_short_sequence_has_nobody_to_ask():
    assert rival_of(tasks.pursuit(n_sequences=1, length=30, n_players=2)) is None


def test_a_stored_run_leaves_the_demonstrations_of_its_rivals_behind():
    run = simile.learn(PURSUIT, smoothness=30.0, model=RolloutRidge())
    fitted = run.rivals[1].policy
    again = pickle.loads(pickle.dumps(run.rivals))
    for a, b in zip(rollout(again[1].policy, PURSUIT), rollout(fitted, PURSUIT), strict=True):
        np.testing.assert_array_equal(a, b)
    assert again[2].score.error == run.rivals[2].score.error
    with pytest.raises(simile.ArgumentError, match="ask for its policy before"):
        _ = again[2].policy
    assert run.rivals[2].policy is run.rivals[2].policy


@pytest.mark.parametrize("frames", [0, 1, 3, 100])
def test_looking_ahead_ends_with_the_last_action(frames: int):
    actions = np.arange(10.0)[:, np.newaxis]
    ahead = second_opinion.ahead(actions, frames)
    np.testing.assert_array_equal(ahead[:, 0], np.minimum(np.arange(10) + frames, 9))


def test_a_note_compares_like_with_like():
    # Validation of your own is harder here, for everybody, than what was left out in training: no merit of a rival's.
    train = tasks.pursuit(n_sequences=6, length=150, n_players=3)
    test = tasks.pursuit(n_sequences=3, length=150, n_players=3, seed=9)
    noise = [np.where(np.arange(150) < 10, 0.0, 15.0 * RNG(i).normal(size=150)) for i in range(3)]
    test = test.with_actions([a + e[:, np.newaxis] for a, e in zip(test.actions, noise, strict=True)])
    assert simile.learn(train).notes == ()
    run = simile.learn(train, validation=test)
    ours, theirs = (measures.outcome(p, test).error for p in (run.policy, rival_of(train).policy))
    assert math.sqrt(ours) < second_opinion.MARGIN * math.sqrt(theirs)
    assert run.notes == ()


def test_rivals_are_as_rough_as_the_policy_may_be_by_the_same_metric(monkeypatch):
    asked = []
    true = Reference.sums

    def sums(ruler, rolled):
        asked.append(ruler.order)
        return true(ruler, rolled)

    monkeypatch.setattr(Reference, "sums", sums)
    demos = tasks.pursuit(n_sequences=4, length=60, n_players=2)
    run = simile.learn(demos, smoothness=30.0, model=RolloutRidge())
    assert run.rounds
    asked.clear()
    learned = []
    simile.learn(
        demos,
        smoothness=MatchExpert(2.0, metric="difference_1"),
        model=RolloutRidge(),
        watch=lambda _: learned.append(len(asked)),
    )
    assert set(asked[learned[-1] :]) == {1}  # what was asked after the last round, by the second opinion
