"""Contenders side by side: the same frames for all, and rivals that are tuned fairly."""

from __future__ import annotations

import math

import numpy as np
import pytest

import simile
from conftest import demos_of
from simile import measures, rivals
from simile.comparison import SIMPLE, compare, judge


@pytest.fixture(scope="module")
def contest():
    train, test = simile.tasks.pursuit(n_sequences=10, length=200, seed=5).split(test=0.3)
    told: list[str] = []
    found = compare(
        train, test, reductions=("learn", "clone"), model=simile.SmoothForest(8), n_rounds=1, watch=told.append
    )
    return found, told


def test_a_comparison_ranks_all_contenders_and_the_baseline_by_their_error(contest):
    found, told = contest
    assert told == ["learn", "clone", "simple filters"]
    names = [row["name"] for row in found.rows()]
    assert sorted(names) == sorted(["learn", "clone", *SIMPLE, "hold the last action"])
    errors = [row["error"] for row in found.rows()]
    assert errors == sorted(errors)
    assert all(name in str(found) for name in names)


def test_the_verdict_names_the_first_contender_the_baseline_and_the_best_filter(contest):
    verdict = contest[0].verdict()
    assert verdict.startswith("learn: ")
    assert "holding the last action" in verdict
    assert "best simple filter" in verdict


def test_all_contenders_are_scored_on_the_same_frames(contest):
    frames = {tuple(row["frames"] for row in e.evaluation.rows) for e in contest[0].entries}
    assert len(frames) == 1


def test_a_filter_is_at_least_as_smooth_as_asked_for_where_one_is(pursuit):
    train, validation = pursuit
    bare = rivals.predictor(train, model=simile.SmoothForest(8))
    rough = measures.outcome(bare, validation)
    assert measures.roughness(rough.rolled, validation) > 3.0
    for kind in (rivals.EXPONENTIAL_AVERAGE, rivals.FOLLOWER):
        smooth = rivals.filtered(bare, kind, validation, roughness=1.0)
        outcome = measures.outcome(smooth, validation)
        assert measures.roughness(outcome.rolled, validation) <= 1.0


def test_where_no_filter_is_smooth_enough_the_smoothest_is_taken(pursuit):
    train, validation = pursuit
    bare = rivals.predictor(train, model=simile.SmoothForest(4))
    assert rivals.filtered(bare, rivals.EXPONENTIAL_AVERAGE, validation, roughness=0.0).smoothness == max(
        rivals.STRENGTHS
    )


def test_a_filter_behind_a_predictor_is_an_exponential_moving_average_of_it(pursuit):
    train, test = pursuit
    bare = rivals.predictor(train, model=simile.SmoothForest(4))
    smooth = rivals.filtered(bare, rivals.EXPONENTIAL_AVERAGE, test, roughness=1.0)
    weight = 1.0 / (1.0 + smooth.smoothness)
    raw, rolled = (simile.rollout(p, test.contexts, start=np.array([0.0]))[0][:, 0] for p in (bare, smooth))
    average = 0.0
    for value, got in zip(raw, rolled, strict=True):
        average = (1.0 - weight) * average + weight * value
        assert got == pytest.approx(average, abs=1e-9)


def test_a_contender_that_diverges_is_listed_without_numbers(pursuit):
    train, test = pursuit
    run = simile.clone(train, model=simile.SmoothForest(4))
    wild = simile.SmoothPolicy(
        run.policy.f,
        simile.regularizers.Autoregressor(np.full((1, 1), 3.0)),
        100.0,
        run.policy.horizon,
        run.policy.naive,
        run.policy.n_contexts,
        run.policy.units,
    )
    found = judge({"wild": (wild, math.nan), "clone": (run.policy, 1.0)}, test)
    assert math.isnan({row["name"]: row for row in found.rows()}["wild"]["error"])
    assert "diverged" in found.verdict()


def test_unknown_reductions_are_refused(pursuit):
    with pytest.raises(simile.ArgumentError, match="reductions"):
        compare(*pursuit, reductions=("magic",))


def test_an_action_that_never_moves_does_not_break_the_table():
    demos = demos_of(80, 80, 80, k=2, rate=10.0)
    still = demos.with_actions([np.column_stack([a[:, 0], np.full(len(a), 5.0)]) for a in demos.actions])
    found = compare(still, still, reductions=("clone",), model=simile.SmoothForest(4, min_leaf=4), n_rounds=0)
    assert all(math.isfinite(row["error"]) for row in found.rows())


def test_where_nothing_ever_moves_the_verdict_says_so_and_speaks_of_no_divergence():
    demos = demos_of(80, 80, 80, rate=10.0)
    still = demos.with_actions([np.full((len(a), 1), 5.0) for a in demos.actions])
    verdict = compare(
        still, still, reductions=("clone",), model=simile.SmoothForest(4, min_leaf=4), n_rounds=0
    ).verdict()
    assert "holding the last action has no error here" in verdict
    assert "diverged" not in verdict
