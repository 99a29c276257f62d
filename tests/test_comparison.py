"""Contenders side by side: the same frames for all, and rivals that are tuned fairly."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest

import simile
from conftest import demos_of
from simile.cli.output import to_json
from simile.evaluation.comparison import SIMPLE, Trial, compare, judge, simple_entries
from simile.evaluation.comparison.result import stand
from simile.evaluation.comparison.scores import SequenceScore
from simile.evaluation.rivals import HELD, ROSTER, Behind, Bench, ContextForest, HoldLast, roll_out
from simile.evaluation.rivals.filters import EMA, Follower
from simile.evaluation.rivals.tuning import STRENGTHS
from simile.learning import ALGORITHMS, measures

QUICK = (HoldLast(), Behind("forest + follower", ContextForest(simile.SmoothForest(8)), lambda s: (Follower(s),)))


@dataclass(frozen=True)
class Broken:
    """A rival that cannot be fitted."""

    name: str = "broken"

    def fit(self, bench):
        raise ZeroDivisionError("it cannot be done\nat all")


@pytest.fixture(scope="module")
def contest():
    train, test = simile.tasks.pursuit(n_sequences=12, length=120, seed=5).split(test=0.3)
    told: list[str] = []
    found = compare(
        train,
        test,
        reductions=("clone", "learn", "paper", "authors"),
        rivals=(*QUICK, Broken()),
        model=simile.SmoothForest(8),
        n_rounds=1,
        watch=told.append,
    )
    return found, told


def test_learn_is_the_one_in_question_and_every_contender_is_announced(contest):
    found, told = contest
    assert told == ["learn", "clone", "paper", "authors", HELD, "forest + follower", "broken"]
    assert [c.name for c in found.contenders] == told


def test_a_comparison_ranks_contenders_by_their_error_at_equal_smoothness(contest):
    found, _ = contest
    rows = found.rows()
    assert [row["name"] for row in rows][-1] == "broken"
    fair = [row["error"] for row in rows if not row["note"]]
    assert fair == sorted(fair)
    assert all(row["name"] in str(found) for row in rows)
    assert all(row["roughness"] <= found.level * 1.001 for row in rows if not row["note"])
    own = found["learn"].standing
    assert own.score.roughness == found.level
    assert own.nearest is found["learn"].chosen


def test_a_rival_that_fails_is_shown_as_such(contest):
    row = next(row for row in contest[0].rows() if row["name"] == "broken")
    assert row["note"] == "failed: it cannot be done"
    assert math.isnan(row["error"])


def test_ratios_have_paired_intervals_around_them_and_are_the_same_each_time(contest):
    found = contest[0]
    for row in found.rows():
        if row["name"] not in ("learn", "broken"):
            assert row["low"] <= row["ratio"] <= row["high"]
            own = found["learn"].standing.score
            assert found[row["name"]].standing.score.over(own, 0) == (row["ratio"], row["low"], row["high"])
            assert row["microseconds"] > 0.0
    ratio, low, high = own.over(own, 3)
    assert (ratio, low, high) == (1.0, 1.0, 1.0)


def test_the_verdict_names_the_first_contender_the_baseline_the_best_rival_and_the_best_reduction(contest):
    verdict = contest[0].verdict()
    assert verdict.startswith("learn: ")
    for words in ("holding the last action", "best rival, forest + follower", "expert"):
        assert words in verdict


def test_all_controllers_are_scored_on_the_same_frames_with_the_same_errors_as_evaluate(contest):
    found = contest[0]
    assert found.ruler.begin == max(t.controller.memory for c in found.contenders for t in c.trials) == 10
    policy = found["learn"].chosen.controller
    judged = simile.evaluate(policy, found.ruler.demos, start=simile.ExpertStart(found.ruler.begin))
    row = next(row for row in found.rows() if row["name"] == "learn")
    assert row["rmse pan"] == pytest.approx(judged.mean("rmse", "pan"))
    assert row["lag"] == pytest.approx(judged.mean("lag"))
    assert row["roughness"] == pytest.approx(judged.mean("difference_2") / judged.mean("difference_2", of="expert"))
    assert row["reversals"] == pytest.approx(judged.mean("reversals"))
    assert row["still"] == pytest.approx(judged.mean("still"), abs=0.01)
    expert = judged.mean("reversals", of="expert")
    assert f"the expert's {expert:.3g}; still: share of time, the expert's " in str(found)


def test_plain_data_hold_the_frontiers_sequence_by_sequence(contest):
    found = contest[0]
    plain = json.loads(to_json(found.to_dict()))
    assert len(plain["held_out"]) == 7
    assert {p["name"] for p in plain["frontier"]} == {c.name for c in found.contenders} - {"broken"}
    assert all(len(p["sequences"]) == len(plain["sequences"]) for p in plain["frontier"])


def test_the_frontier_is_drawn(contest, tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    contest[0].draw(tmp_path / "frontier.png")
    assert (tmp_path / "frontier.png").stat().st_size > 10_000


def trial(roughness: float, error: float, validation: float | None = None) -> Trial:
    score = SequenceScore(
        1.5 * error, roughness, np.array([[error], [2.0 * error]]), np.ones(2), 0.0, *np.zeros((2, 1))
    )
    return Trial(1.0, None, error if validation is None else validation, {}, score)


def test_errors_and_roughness_are_interpolated_on_log_scales_where_a_path_crosses_the_level():
    found = stand([trial(4.0, 1.0), trial(1.0, 2.0), trial(0.25, 8.0)], 2.0)
    np.testing.assert_allclose(found.score.squares, [[2.0**0.5], [8.0**0.5]])
    assert found.score.roughness == pytest.approx(2.0)
    assert not found.too_rough


def test_a_path_that_is_smoother_everywhere_is_judged_where_validation_is_best():
    trials = [trial(0.9, 3.0, validation=1.0), trial(0.5, 1.0, validation=2.0)]
    assert stand(trials, 2.0).nearest is trials[0]


def test_a_smoother_and_more_accurate_place_is_taken_where_there_is_one():
    trials = [trial(4.0, 5.0), trial(1.0, 4.0), trial(0.5, 1.0)]
    assert stand(trials, 2.0).nearest is trials[2]


def test_a_path_that_gets_nowhere_so_smooth_is_marked_and_judged_at_its_smoothest():
    trials = [trial(4.0, 1.0), trial(3.0, 2.0)]
    found = stand(trials, 2.0)
    assert found.too_rough
    assert found.nearest is trials[1]
    assert stand([], 2.0) is None


@pytest.fixture(scope="module")
def averages(pursuit):
    source = ContextForest(simile.SmoothForest(8))
    return Behind("forest + EMA", source, lambda s: (EMA(s),)).fit(Bench(*pursuit))


def test_a_filter_is_at_least_as_smooth_as_asked_for_where_one_is(averages, pursuit):
    validation = pursuit[1]
    assert averages.points[0].roughness > 3.0
    point = averages.at(1.0)
    assert point.roughness <= 1.0
    smooth = [p for p in averages.points if p.roughness <= 1.0]
    assert point.validation == min(p.validation for p in smooth)
    rolled = Behind("again", ContextForest(simile.SmoothForest(8)), lambda s: (EMA(s),)).fit(Bench(pursuit[0]))
    assert len(rolled.points) == len(averages.points)
    assert measures.roughness(roll_out(point.controller, validation, 10), validation) < 1.5


def test_where_no_filter_is_smooth_enough_the_smoothest_is_taken(averages):
    assert averages.at(0.0).strength == max(STRENGTHS)


def test_a_filter_behind_a_predictor_is_an_exponential_moving_average_of_it(averages, pursuit):
    test, smooth = pursuit[1], averages.at(1.0).controller
    weight = 1.0 / (1.0 + smooth.filter.strength)
    raw, rolled = (
        simile.rollout(p, test.contexts, start=np.array([0.0]))[0][:, 0] for p in (smooth.predictor, smooth.policy)
    )
    average = 0.0
    for value, got in zip(raw, rolled, strict=True):
        average = (1.0 - weight) * average + weight * value
        assert got == pytest.approx(average, abs=1e-9)


def test_the_rivals_of_a_run_are_judged_beside_it_each_kind_by_its_best(pursuit):
    train, test = pursuit
    run = simile.learn(train, smoothness=30.0, model=simile.RolloutRidge())
    assert [r.filter for r in run.rivals].count("") == 1
    entries = simple_entries(run.rivals)
    found = judge({"policy": (run.policy, math.nan), **entries}, test)
    assert [e.name for e in found.entries] == ["policy", *SIMPLE]
    assert {row["name"] for row in found.rows()} == {"policy", *SIMPLE, HELD}
    for name, (policy, seconds) in entries.items():
        row = next(row for row in found.rows() if row["name"] == name)
        score = measures.Ruler(test, run.policy.units.scale, found.ruler.begin).measure(
            simile.rollout(policy, test, start=simile.ExpertStart(found.ruler.begin))
        )
        assert row["error"] == pytest.approx(score.rmse)  # in standard deviations of the training data, as in the run
        assert seconds > 0.0
    assert all(r.policy is r.policy for r in run.rivals)  # fitted once


def test_a_contender_that_diverges_is_listed_without_numbers(pursuit):
    train, test = pursuit
    run = simile.clone(train, model=simile.SmoothForest(4))
    wild = simile.SmoothPolicy(
        run.policy.f,
        simile.models.regularizers.Autoregressor(np.full((1, 1), 3.0)),
        100.0,
        run.policy.horizon,
        run.policy.naive,
        run.policy.n_contexts,
        run.policy.units,
    )
    found = judge({"wild": (wild, math.nan), "clone": (run.policy, 1.0)}, test)
    assert math.isnan({row["name"]: row for row in found.rows()}["wild"]["error"])
    assert "diverged" in found.verdict()


def test_what_makes_no_sense_is_refused(pursuit):
    with pytest.raises(simile.ArgumentError, match="reductions"):
        compare(*pursuit, reductions=("magic",))
    with pytest.raises(simile.ArgumentError, match="nothing to compare"):
        compare(*pursuit, reductions=(), rivals=())
    with pytest.raises(simile.ArgumentError, match="test must have the columns"):
        compare(pursuit[0], demos_of(50))
    with pytest.raises(simile.ArgumentError, match="model"):
        compare(*pursuit, reductions=("clone",), rivals=QUICK, model="magic")


def test_one_sequence_is_enough_to_learn_from_and_one_to_judge():
    demos = simile.tasks.pursuit(n_sequences=2, length=300, seed=1)
    found = compare(demos[0], demos[1], reductions=("learn", "clone"), rivals=QUICK)
    assert all(math.isfinite(row["error"]) and math.isnan(row["low"]) for row in found.rows())
    assert "do not tell them apart" in found.verdict()


def test_tiny_data_end_in_numbers_or_in_words():
    demos = demos_of(40, 40, 30)
    found = compare(demos[:2], demos[2:], n_rounds=1, model=simile.SmoothForest(n_trees=4))
    assert len(found.rows()) == len(ALGORITHMS) + len(ROSTER)
    assert all(math.isfinite(row["error"]) or row["note"] for row in found.rows())
    with pytest.raises(simile.DataError, match="longer sequences"):
        compare(demos[:2], demos_of(5), reductions=("clone",), rivals=QUICK)


def test_without_a_validation_part_knobs_are_chosen_on_the_training_part(pursuit):
    found = compare(*pursuit, reductions=("clone",), rivals=QUICK, validation=None)
    assert all(math.isfinite(row["error"]) for row in found.rows())


def test_several_actions_missing_contexts_and_an_action_that_never_moves_do_not_break_the_table():
    demos = demos_of(80, 80, 80, 80, k=2, m=3, rate=10.0)
    contexts = [np.where(np.arange(len(x))[:, np.newaxis] % 9 == 0, np.nan, x) for x in demos.contexts]
    actions = [np.column_stack([a[:, 0], np.full(len(a), 5.0)]) for a in demos.actions]
    still = simile.Demonstrations.from_arrays(contexts, actions, rate=10.0)
    found = compare(still[:3], still[3:], reductions=("clone",), rivals=(*QUICK, ROSTER[5]), n_rounds=0)
    assert all(math.isfinite(row["error"]) for row in found.rows())
    assert "RMSE a1" in str(found)


def test_where_nothing_ever_moves_the_verdict_says_so_and_speaks_of_no_divergence(tmp_path):
    demos = demos_of(80, 80, 80, rate=10.0)
    still = demos.with_actions([np.full((len(a), 1), 5.0) for a in demos.actions])
    found = compare(still, still, reductions=("clone",), rivals=QUICK, n_rounds=0)
    assert "holding the last action has no error here" in found.verdict()
    assert "diverged" not in str(found)
    pytest.importorskip("matplotlib").use("agg")
    found.draw(tmp_path / "still.png")
