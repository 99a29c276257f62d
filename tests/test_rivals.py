"""Rivals: tuned on validation, fitted on everything, causal, and the same as policies where they can be one."""

from __future__ import annotations

import math

import numpy as np
import pytest

import simile
from conftest import demos_of
from simile.evaluation.rivals import (
    ROSTER,
    Behind,
    Bench,
    ContextForest,
    ContextRidge,
    Demonstrator,
    Filtered,
    HoldLast,
    NoisyHistory,
    Rival,
    Source,
    forecast,
)
from simile.evaluation.rivals.filters import EMA, Follower, Kalman, OneEuro

SMALL = simile.SmoothForest(6)
FEW = (0.0, 3.0, 20.0)


@pytest.fixture(scope="module")
def bench() -> Bench:
    demos = simile.tasks.pursuit(n_sequences=8, length=200, seed=2)
    return Bench(demos[:6], demos[6:])


def followers(strength: float) -> tuple[Follower, ...]:
    return (Follower(strength),)


def test_the_roster_has_different_names_and_holds_every_rival_that_was_promised():
    names = [rival.name for rival in ROSTER]
    assert len(set(names)) == len(names)
    assert all(isinstance(rival, Rival) for rival in ROSTER)
    for part in ("hold", "forest + EMA", "ridge + One-Euro", "forest + Kalman", "ridge + follower", "look", "look+"):
        assert any(name.startswith(part) for name in names)


@pytest.mark.parametrize(
    "source",
    [
        ContextForest(SMALL),
        ContextForest(SMALL, ahead=(0, 4)),
        ContextRidge(alphas=(0.01, 1.0)),
        NoisyHistory(model=SMALL),
        NoisyHistory(sigmas=(0.1, 0.5), model=SMALL),
        Demonstrator(n_rounds=1, model=SMALL),
    ],
)
def test_every_source_makes_a_family_from_rough_to_smooth_the_same_each_time(source, bench):
    assert isinstance(source, Source)
    rival = Behind("one", source, followers, strengths=FEW)
    families = [rival.fit(Bench(bench.train, bench.validation)) for _ in range(2)]
    for family in families:
        assert [p.strength for p in family.points] == list(FEW)
        assert family.seconds > 0.0
        assert not family.trouble
    assert [p.validation for p in families[0].points] == [p.validation for p in families[1].points]


def test_a_predictor_is_fitted_once_for_all_filters_and_its_time_counts_for_each(bench):
    shared = Bench(bench.train, bench.validation)
    source = ContextForest(SMALL)
    one = Behind("one", source, followers, FEW).fit(shared)
    other = Behind("other", source, lambda s: (EMA(s),), FEW).fit(shared)
    assert one.points[0].controller.predictor is other.points[0].controller.predictor
    assert other.seconds > 0.0


def test_what_was_chosen_is_fitted_on_training_and_validation_part_together(bench):
    family = Behind("one", ContextForest(SMALL), followers, FEW).fit(bench)
    assert family.points[0].controller.predictor.card.training["sequences"] == 8


def test_the_knob_is_the_one_with_the_smallest_roll_out_error_for_that_strength(bench):
    source = ContextForest(SMALL, ahead=(0, 12, 24))
    family = Behind("look", source, followers, (0.5, 40.0)).fit(bench)
    for point in family.points:
        errors = {}
        for ahead, policy in source.candidates(bench.train, 0):
            errors[ahead] = bench.measure(
                Filtered(policy, Follower(point.strength)).rollout(bench.validation, frames=10)
            ).error
        assert point.knobs["ahead"] == min(errors, key=errors.get)
        assert point.validation == pytest.approx(min(errors.values()))


def test_a_slow_filter_is_made_up_for_by_looking_as_far_ahead():
    t = np.arange(400)[:, np.newaxis] / 12.0
    waves = [np.concatenate([np.sin(t + s), np.cos(t + s)], axis=1) for s in (0.0, 1.0, 2.0, 3.0)]
    demos = simile.Demonstrations.from_arrays(waves, [x[:, 0] for x in waves])
    source = ContextForest(SMALL, ahead=(0, 2, 4, 6, 8))
    points = Behind("look", source, followers, (0.0, 4.0)).fit(Bench(demos[:3], demos[3:])).points
    assert [p.knobs["ahead"] for p in points] == [0, 4]


@pytest.mark.parametrize("kind", [EMA(4.0), Follower(4.0), Follower(9.0, order=3)])
def test_a_follower_behind_a_predictor_is_a_policy_that_can_be_saved_and_run(kind, bench, tmp_path):
    _, predictor = next(ContextForest(SMALL).candidates(bench.train, 0))
    found = Filtered(predictor, kind)
    found.policy.save(tmp_path / "rival.safetensors")
    policy = simile.load(tmp_path / "rival.safetensors")
    demos = bench.validation
    for ours, theirs in zip(
        found.rollout(demos, frames=5), simile.rollout(policy, demos, start=simile.ExpertStart(5)), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("kind", [EMA(4.0), Kalman(5.0), OneEuro(8.0, beta=0.5)])
@pytest.mark.parametrize("source", [ContextForest(SMALL), ContextRidge()])
def test_online_a_rival_does_what_its_roll_out_does(kind, source, bench):
    _, predictor = next(source.candidates(bench.train, 0))
    found, demo = Filtered(predictor, kind), bench.validation[0]
    rolled = found.rollout(simile.Demonstrations.of(demo), frames=0)[0]
    step = found.online(demo.actions[: found.memory])
    # From frame 0, as if the first actions lay before it: the same contexts must be seen.
    raw = forecast(predictor, simile.Demonstrations.of(demo))[0]
    expected = predictor.units.restore(kind.run(raw, predictor.units.standardize(demo.actions[: found.memory])))
    np.testing.assert_allclose([step(x) for x in demo.contexts], expected, rtol=1e-6, atol=1e-6)
    assert np.isfinite(rolled).all()
    np.testing.assert_array_equal(rolled[: found.memory], demo.actions[: found.memory])


def test_the_held_action_is_the_last_of_the_given_frames(bench):
    family = HoldLast().fit(bench)
    held, demos = family.points[0].controller, bench.validation
    rolled = held.rollout(demos, frames=7)
    assert all((r[7:] == a[6]).all() for r, a in zip(rolled, demos.actions, strict=True))
    assert held.online(demos[0].actions[:3])(demos[0].contexts[0]) == demos[0].actions[2]


def test_a_one_euro_family_keeps_only_what_nothing_beats_in_both_accuracy_and_smoothness(bench):
    rival = Behind("1e", ContextForest(SMALL), lambda s: tuple(OneEuro(s, b) for b in (0.0, 1.0)), (1.0, 8.0, 40.0))
    errors = [p.validation for p in rival.fit(bench).points]
    assert len(errors) > 1
    assert errors == sorted(errors)  # from rough to smooth it costs accuracy, or the rougher one would be dropped


def test_a_ridge_is_the_textbook_one():
    from sklearn.linear_model import Ridge

    demos = demos_of(60, 60)
    x, a = np.concatenate(demos.contexts), np.concatenate(demos.actions)
    policy = ContextRidge(simile.Horizon(0, 0)).chosen(demos, 0.5, 0)
    z, y = (x - x.mean(axis=0)) / x.std(axis=0), policy.units.standardize(a)
    expected = Ridge(alpha=0.5 * len(x), fit_intercept=False).fit(z, y).predict(z)
    np.testing.assert_allclose(np.concatenate(forecast(policy, demos)), expected.reshape(-1, 1), atol=1e-5)


@pytest.mark.parametrize("k", [1, 2])
def test_missing_contexts_several_actions_and_columns_that_never_move_are_taken(k):
    demos = demos_of(90, 90, 90, m=4, k=k)
    contexts = [x.copy() for x in demos.contexts]
    for x in contexts:
        x[::7, 0] = np.nan
        x[:, 1] = np.nan
        x[:, 2] = 3.0
    holey = simile.Demonstrations.from_arrays(contexts, demos.actions)
    bench = Bench(holey[:2], holey[2:])
    for source in (ContextForest(SMALL), ContextRidge(), NoisyHistory(sigmas=(0.2,), model=SMALL)):
        points = Behind("one", source, followers, FEW).fit(bench).points
        assert all(math.isfinite(p.validation) for p in points)


def test_frames_ahead_that_no_sequence_has_are_not_tried():
    demos = demos_of(30, 30)
    assert [d for d, _ in ContextForest(SMALL, ahead=(0, 8, 80)).candidates(demos, 0)] == [0, 8]


def test_only_followers_go_behind_what_reads_past_actions(bench):
    rival = Behind("wrong", NoisyHistory(model=SMALL), lambda s: (Kalman(s),), FEW)
    with pytest.raises(simile.ArgumentError, match="filters"):
        rival.fit(bench)


def test_a_validation_part_that_is_too_short_is_told():
    demos = demos_of(80, 8)
    with pytest.raises(simile.DataError, match="validation"):
        Behind("one", ContextForest(SMALL), followers, FEW).fit(Bench(demos[:1], demos[1:]))
