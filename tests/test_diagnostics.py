"""The theory measured: what `diagnose` says of policies whose truth is known, and Lemma 5.2 on both kinds."""

from __future__ import annotations

import math

import numpy as np
import pytest

import simile
from conftest import demos_of
from simile import Horizon, Mixture, SimileError, SmoothPolicy, StochasticMixture, diagnose, stochastic_gap
from simile.learning import measures
from simile.models.regularizers import Autoregressor, CriticallyDamped
from test_policies import Linear, affine
from test_step_sizes import towards


def test_example_2_1_satisfies_condition_2_and_says_so():
    diagnosis = diagnose(towards(1.0, smoothness=0.2), demos_of(40, 20))
    assert diagnosis.gamma == pytest.approx(0.2 / 1.2)
    assert diagnosis.radius == pytest.approx(0.2 / 1.2)
    assert "Stability Condition 2 holds: gamma = 0.167." in str(diagnosis)
    assert "needs two policies" in str(diagnosis)
    assert math.isnan(diagnosis.advantage)


def test_a_mixture_is_taken_apart_into_its_last_step():
    old, new = towards(0.2, 0.2), towards(1.0, 0.2)
    demos = demos_of(40, 20)
    diagnosis = diagnose(Mixture((old, new), (0.75, 0.25)), demos)
    assert diagnosis.beta == 0.25
    assert diagnosis.advantage > 0.0
    assert diagnosis.epsilon > 0.0
    expected = diagnosis.gamma * diagnosis.epsilon * diagnosis.lipschitz / (1.0 - diagnosis.gamma)
    assert diagnosis.drift == pytest.approx(expected)
    assert "SEARN's range" in str(diagnosis)


def test_it_says_when_the_corollary_applies():
    demos = simile.Demonstrations.from_arrays([np.ones((30, 2))], [np.concatenate([[0.0], np.ones(29)])])
    diagnosis = diagnose(Mixture((towards(0.0, 0.05), towards(1.0, 0.05)), (0.5, 0.5)), demos)
    assert "Corollary 5.7 applies" in str(diagnosis)


def test_it_says_when_the_theory_is_vacuous(pursuit):
    train, test = pursuit
    diagnosis = diagnose(simile.authors(train, n_rounds=3, validation=0.2).rounds[-1].policy, test)
    text = str(diagnosis)
    assert diagnosis.gamma > 1.0
    assert "Neither stability condition holds" in text
    assert "Theorem 5.6 promises nothing" in text or "no better" in text
    assert "closed loop of h is stable" in text
    assert 0.0 < diagnosis.fit_error < diagnosis.expert_gap * 10.0


def test_it_says_when_expert_feedback_would_be_too_hard():
    demos = demos_of(60)
    far_off = SmoothPolicy(Linear(np.zeros((2, 1))), Autoregressor(np.ones((1, 1))), 0.0, Horizon(0, 0))
    diagnosis = diagnose(far_off, demos)
    assert diagnosis.expert_gap == pytest.approx(
        np.mean(np.abs(np.concatenate([demos[0].actions[1:2] - demos[0].actions[:1], demos[0].actions[2:]])))
    )
    assert diagnosis.roughness_budget == pytest.approx(np.mean(np.abs(np.diff(demos[0].actions, axis=0))))
    close = SmoothPolicy(
        Linear(np.array([[1.0], [0.0]])), CriticallyDamped(1).fit(demos.actions, 9.0), 9.0, Horizon(0, 0)
    )
    assert "Proposition 5.8 does not apply: Omega" in str(diagnose(close, demos))


@pytest.mark.parametrize(
    ("h", "applies"),
    [
        (Autoregressor(np.ones((1, 1))), True),
        (Autoregressor(np.array([[1.0], [0.0]])), True),
        (Autoregressor(np.array([[2.0], [-1.0]])), False),
        (Autoregressor(np.full((1, 1), 0.9)), False),
    ],
)
def test_it_says_that_proposition_5_8_is_about_the_previous_action_alone(h, applies: bool):
    demos = demos_of(60)
    poor = SmoothPolicy(Linear(np.full((2, 1), 9.0)), h, 0.5, Horizon(0, 0))
    for policy in (poor, Mixture((poor, poor), (0.5, 0.5))):
        diagnosis = diagnose(policy, demos)
        assert diagnosis.follows_last == applies
        assert "follows_last" not in str(diagnosis)
        assert diagnosis.findings()[-1].startswith("Proposition 5.8 does not apply: it is about h(a) = a") != applies


def test_the_stochastic_gap_and_the_advantage_leave_out_the_frames_of_the_expert():
    # Both policies remember three actions, so the expert acts for three frames of each sequence: none of them counts.
    parts = (affine(0, order=3), affine(1, order=3))
    mixture, demos = Mixture(parts, (0.5, 0.5)), demos_of(12, 9)
    gap = stochastic_gap(mixture, demos, n_rollouts=5)
    assert gap.deterministic_error == pytest.approx(measures.outcome(mixture, demos).error)
    drawn = [measures.outcome(StochasticMixture(parts, (0.5, 0.5)), demos, seed=i).error for i in range(5)]
    assert gap.stochastic_error == pytest.approx(np.mean(drawn))
    again = stochastic_gap(mixture, demos, n_rollouts=1)
    certain, chance = (simile.rollout(p, demos) for p in (mixture, StochasticMixture(parts, (0.5, 0.5))))
    off = np.concatenate([a[3:] - b[3:] for a, b in zip(certain, chance, strict=True)])
    assert again.gap == pytest.approx(np.sqrt(np.mean(off**2)))

    rolled = simile.rollout(parts[0], demos)
    states = Horizon(0, 0).states(demos, rolled)
    expert = np.concatenate(demos.actions)
    told = measures.Step(*parts, states, expert).advantage
    scored = np.concatenate([np.arange(12) >= 3, np.arange(9) >= 3])
    losses = [np.sum((measures.act(p, states) - expert)[scored] ** 2, axis=1) for p in parts]
    assert told == pytest.approx(np.mean(losses[0]) - np.mean(losses[1]))
    # l_pi(pi), its first half, is `error` times the number of actions.
    assert measures.Step(parts[0], parts[0], states, expert).advantage == 0.0
    assert np.mean(losses[0]) == pytest.approx(measures.outcome(parts[0], demos).error)


@pytest.mark.parametrize("stepping", [False, True])
def test_of_a_policy_that_holds_what_it_wants_is_diagnosed_and_it_is_said(stepping: bool):
    demos = demos_of(80, 60, k=2)
    bare = simile.learn(demos_of(80, 60, 80, k=2), model=simile.Ridge(), smoothness=5.0, hold=0).policy
    holding = bare.holding(simile.Hold((0.0, 0.4), stepping))
    plain, found = diagnose(bare, demos), diagnose(holding, demos)
    for name in ("gamma", "radius", "lipschitz", "fit_error", "expert_gap", "roughness_budget"):
        assert getattr(found, name) == getattr(plain, name)
    assert (plain.hold, found.hold) == (0.0, 0.4)
    assert "the hold" not in str(plain)
    assert "of what it wants, before the hold" in found.findings()[0]
    assert "within 0.4 deviations of it" in found.findings()[0]
    assert found.findings()[1:] == [f"Before the hold: {said}" for said in plain.findings()]


def test_the_stochastic_gap_is_of_what_is_wanted_before_the_hold():
    mixture = Mixture((affine(0), affine(1)), (0.5, 0.5))
    gaps = [stochastic_gap(mixture.holding(hold), demos_of(30, 15), n_rollouts=20) for hold in (None, simile.Hold(0.5))]
    assert gaps[0] == gaps[1]


def test_of_a_policy_that_remembers_the_start_all_is_without_that_and_it_is_said():
    demos = demos_of(80, 60, k=2)
    bare = simile.learn(demos_of(80, 60, 80, k=2), model=simile.Ridge(), smoothness=5.0, hold=0).policy.keeping(None)
    plain, found = diagnose(bare, demos), diagnose(bare.keeping(simile.Offset((0.0, 0.4), 0.9)), demos)
    assert (plain.offset, found.offset, found.gamma, found.expert_gap) == (0.0, 0.4, plain.gamma, plain.expert_gap)
    assert "remembers the start" in found.findings()[0]
    assert found.findings()[1:] == plain.findings()
    assert "offset" not in str(plain)
    mixture = Mixture((bare, bare), (0.5, 0.5)).keeping(simile.Offset(0.5, 0.9))
    assert stochastic_gap(mixture, demos, n_rollouts=2).gap < 1e-9


def test_lemma_5_2_holds_for_affine_policies_up_to_chance():
    gap = stochastic_gap(Mixture((affine(0), affine(1)), (0.5, 0.5)), demos_of(30, 15), n_rollouts=200)
    assert gap.gap < 2.0 * gap.noise
    assert "no more than chance" in str(gap)


def test_corollary_5_3_holds_for_affine_policies():
    halves = StochasticMixture((towards(0.5), towards(1.5)), (0.5, 0.5))
    gap = stochastic_gap(halves, demos_of(30, 15), n_rollouts=100)
    assert gap.deterministic_error < gap.stochastic_error


@pytest.mark.long
def test_lemma_5_2_measured_on_trees(pursuit):
    # The lemma says that the gap vanishes; for trees it is well above chance.
    train, test = pursuit
    run = simile.paper(train, n_rounds=3, step_size=0.5, model=simile.SmoothForest(n_trees=20))
    gap = stochastic_gap(run.policy, test[:2], n_rollouts=50)
    assert gap.gap > 2.0 * gap.noise


def test_only_mixtures_have_a_gap():
    with pytest.raises(SimileError, match="policy must be a mixture; got SmoothPolicy"):
        stochastic_gap(affine(0), demos_of(5))
