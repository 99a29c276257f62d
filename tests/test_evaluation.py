"""`evaluate`: policy, expert and baseline side by side."""

from __future__ import annotations

import numpy as np
import pytest

import simile
from conftest import demos_of
from simile import ColdStart, SimileError, evaluate, rollout
from simile.data import losses
from test_policies import affine


@pytest.fixture(scope="module")
def judged():
    demos = demos_of(40, 25, 2, k=2, rate=30.0)
    return demos, evaluate(affine(0, k=2), demos)


def test_there_is_a_row_per_sequence_action_and_metric(judged):
    _, evaluation = judged
    # The third sequence ends with the expert's start: there is nothing to score.
    assert {(r["sequence"], r["action"]) for r in evaluation.rows} == {(i, a) for i in (0, 1) for a in ("a0", "a1")}
    metrics = {r["metric"] for r in evaluation.rows}
    assert metrics >= {"rmse", "mae", "lag", "overshoot", "difference_1", "difference_2", "difference_3"}
    assert metrics >= {"total_variation", "spectral_arc_length", "log_dimensionless_jerk", "high_frequency_ratio"}
    assert metrics >= {"velocity", "acceleration", "jerk"}


def test_the_start_is_not_scored_and_errors_are_pooled_over_frames(judged):
    demos, evaluation = judged
    policy = affine(0, k=2)
    gaps = [r[2:] - a[2:] for r, a in zip(rollout(policy, demos), demos.actions, strict=True)]
    expected = np.sqrt(np.mean(np.concatenate(gaps)[:, 1] ** 2))
    assert evaluation.mean("rmse", "a1") == pytest.approx(expected)


def test_the_expert_and_the_baseline_stand_beside_the_policy(judged):
    demos, evaluation = judged
    row = next(r for r in evaluation.rows if (r["sequence"], r["action"], r["metric"]) == (0, "a0", "difference_2"))
    assert row["expert"] == losses.mean_difference(demos[0].actions[2:], order=2)[0]
    held = losses.hold_last_action(demos[0].actions, warm_up=2)[2:]
    rmse = next(r for r in evaluation.rows if (r["sequence"], r["action"], r["metric"]) == (0, "a0", "rmse"))
    assert rmse["hold_last"] == losses.root_mean_squared_error(held, demos[0].actions[2:])[0]
    assert np.isnan(rmse["expert"])


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_it_converts_to_a_frame(judged, backend: str):
    frame = judged[1].to_frame(backend)
    assert len(frame) == len(judged[1].rows)


def test_it_prints_as_a_table(judged):
    text = str(judged[1])
    assert "policy" in text
    assert "hold last" in text
    assert sum(line.startswith("  rmse") for line in text.splitlines()) == 2


def test_without_a_rate_nothing_is_said_per_second():
    assert "jerk" not in {r["metric"] for r in evaluate(affine(0), demos_of(20)).rows}


def test_a_cold_start_is_scored_from_the_first_frame(tree):
    demos = demos_of(40, 40)
    policy = simile.clone(demos, model=tree, horizon=simile.Horizon(1, 1)).policy
    assert {r["frames"] for r in evaluate(policy, demos, start=ColdStart()).rows} == {40}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: e.mean("speed"), "no metric 'speed'.*rmse"),
        (lambda e: evaluate(affine(0), demos_of(2)), "no sequence is longer than the 2 frames"),
    ],
)
def test_bad_questions_are_refused(judged, call, message: str):
    with pytest.raises(SimileError, match=message):
        call(judged[1])
