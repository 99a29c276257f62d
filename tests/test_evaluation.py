"""`evaluate`: policy, expert and baseline side by side."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import simile
from conftest import demos_of
from reports import linear
from simile import ColdStart, SimileError, evaluate, metrics, rollout
from simile._common.text import plain
from simile.evaluation.rivals import HELD
from test_policies import affine


@pytest.fixture(scope="module")
def judged():
    demos = demos_of(40, 25, 2, k=2, rate=30.0)
    return demos, evaluate(affine(0, k=2), demos)


def test_the_start_is_not_scored_and_errors_are_pooled_over_frames(judged):
    demos, evaluation = judged
    gaps = [r[2:] - a[2:] for r, a in zip(rollout(affine(0, k=2), demos), demos.actions, strict=True)]
    pooled = np.concatenate(gaps)
    row = next(row for row in evaluation.rows() if row["name"] == "policy")
    rmse = np.sqrt(np.mean(pooled**2, axis=0))
    assert [row["rmse a0"], row["rmse a1"]] == pytest.approx(rmse)
    assert evaluation.verdict.rmse == pytest.approx(dict(zip(demos.action_names, rmse, strict=True)))
    assert row["error"] == pytest.approx(np.sqrt(np.mean((pooled / affine(0, k=2).units.scale) ** 2)))
    # The third sequence ends with the expert's start: there is nothing to score.
    assert evaluation.verdict.recordings == 2


def test_there_is_a_row_per_recording_and_action_with_the_expert_and_the_held_action_beside(judged):
    demos, evaluation = judged
    rows = evaluation.recordings()
    names = [(demo.name, action) for demo in demos for action in demos.action_names]
    assert [(row["recording"], row["action"]) for row in rows] == names
    assert [row["frames"] for row in rows] == [38, 38, 23, 23, 0, 0]
    assert all(math.isnan(row["rmse"]) for row in rows[4:])
    threshold, rolled = [log.threshold for log in demos.logs], rollout(affine(0, k=2), demos)
    for i in (0, 1):
        ours, expert = rolled[i][2:], demos[i].actions[2:]
        held = metrics.hold_last_action(demos[i].actions, warm_up=2)[2:]
        kept = [log.kept[1] for log in demos.logs]
        bends = [metrics.mean_difference(a, order=2) for a in (ours, expert)]
        twins = {
            "rmse": metrics.root_mean_squared_error(ours, expert),
            "hold_last": metrics.root_mean_squared_error(held, expert),
            "roughness": bends[0] / (kept * bends[1]),
            "lag": metrics.lag(ours, expert),
        }
        for name, some in (("", ours), ("expert_", expert)):
            twins[f"{name}reversals"] = metrics.rate_reversals([some], threshold, demos.rate)
            twins[f"{name}rest"] = metrics.share_rest([some], threshold, demos.rate)
        for name, twin in twins.items():
            assert [row[name] for row in rows[2 * i : 2 * i + 2]] == pytest.approx(twin, nan_ok=True), name


def test_all_entries_stand_in_the_table_best_first_and_others_may_be_added(judged):
    demos, _ = judged
    found = evaluate(affine(0, k=2), demos, baseline=affine(1, k=2)).add("third", affine(2, k=2))
    assert [entry.name for entry in found.entries] == ["policy", "baseline", "third", HELD]
    errors = [row["error"] for row in found.rows()]
    assert errors == sorted(errors)
    assert found.verdict.baseline == "the baseline"
    ours, other = (next(r["error"] for r in found.rows() if r["name"] == name) for name in ("policy", "baseline"))
    assert found.verdict.over_baseline.value == pytest.approx(ours / other)
    assert found.verdict.to_dict() == evaluate(affine(0, k=2), demos, baseline=affine(1, k=2)).verdict.to_dict()
    for name in ("the expert", *(row["name"] for row in found.rows())):
        assert sum(line.startswith(name) for line in str(found).splitlines()) == 1
    assert str(found.verdict) in str(found)


def test_a_policy_that_diverges_leaves_rows_without_numbers_and_a_verdict_that_says_so(judged):
    demos, _ = judged
    found = evaluate(linear(2, 2, growth=3.0, smoothness=100.0), demos, baseline=affine(0, k=2))
    assert "its roll-out left every reasonable range in 2 of 3 recordings" in found.verdict.accuracy.text
    assert found.verdict.accuracy.mood == "poor"
    assert found.entries[0].diverged == 2
    assert found.rows()[-1]["name"] == "policy"
    assert math.isnan(found.rows()[-1]["error"])
    assert all(math.isfinite(row["error"]) for row in found.rows()[:-1])
    assert str(found.verdict) in str(found)
    json.dumps(plain(found.to_dict()), allow_nan=False)


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_it_converts_to_a_frame(judged, backend: str):
    frame = judged[1].to_frame(backend)
    assert len(frame) == len(judged[1].recordings())


def test_a_cold_start_is_scored_from_the_first_frame(tree):
    demos = demos_of(40, 40)
    policy = simile.clone(demos, model=tree, horizon=simile.Horizon(1, 1)).policy
    assert {r["frames"] for r in evaluate(policy, demos, start=ColdStart()).recordings()} == {40}


def test_sequences_that_are_too_short_are_refused():
    with pytest.raises(SimileError, match="no sequence is longer than the 2 frames"):
        evaluate(affine(0), demos_of(2))
