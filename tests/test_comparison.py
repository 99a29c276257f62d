"""Contenders side by side: the same frames for all, and rivals that are tuned fairly."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest

import simile
from conftest import demos_of
from simile._common.text import plain
from simile.cli.output import to_json
from simile.data.reference import Reference
from simile.evaluation.comparison import Trial, compare
from simile.evaluation.comparison.result import stand
from simile.evaluation.evaluation import SIMPLE
from simile.evaluation.rivals import HELD, ROSTER, Behind, Bench, ContextForest, HoldLast, roll_out
from simile.evaluation.rivals.filters import EMA, Follower
from simile.evaluation.rivals.tuning import STRENGTHS
from simile.learning import ALGORITHMS
from simile.learning.verdict import compare_errors
from simile.metrics import Tally

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
    assert own.tally.score.roughness == found.level
    assert own.nearest is found["learn"].chosen


def test_a_rival_that_fails_is_shown_as_such(contest):
    row = next(row for row in contest[0].rows() if row["name"] == "broken")
    assert row["note"] == "failed: it cannot be done"
    assert math.isnan(row["error"])


def test_ratios_are_those_of_the_errors_and_have_intervals_of_six_recordings_or_more(contest):
    found = contest[0]
    own = found["learn"].standing.tally
    for row in found.rows():
        if row["name"] not in ("learn", "broken"):
            tally = found[row["name"]].standing.tally
            over = compare_errors(tally, own)
            assert (row["ratio"], row["low"], row["high"]) == pytest.approx(
                (over.value, math.nan, math.nan), nan_ok=True
            )
            assert row["ratio"] == pytest.approx(tally.score.rmse / own.score.rmse)
            six = compare_errors(tally + tally, own + own)  # of eight
            assert six.value == pytest.approx(row["ratio"])
            assert six.low <= six.value <= six.high
            assert row["microseconds"] > 0.0
    assert next((r["ratio"], r["low"]) for r in found.rows() if r["name"] == "learn") == pytest.approx(
        (1.0, math.nan), nan_ok=True
    )


def test_the_words_name_the_first_contender_the_baseline_the_best_rival_and_the_best_reduction(contest):
    found = contest[0]
    text = found.tell()
    assert text.startswith(f"learn: {found.verdict}")
    for words in ("holding the last action", "the best rival at equal smoothness (forest + follower)", "expert"):
        assert words in text
    assert f"At equal smoothness the best other reduction, {found._best('reduction')}, has" in text
    assert found.verdict.baseline == "the best rival at equal smoothness (forest + follower)"
    assert text in str(found)


def test_all_controllers_are_scored_on_the_same_frames_with_the_same_errors_as_evaluate(contest):
    found = contest[0]
    reference = found.reference
    assert reference.begin == max(t.controller.memory for c in found.contenders for t in c.trials) == 10
    policy = found["learn"].chosen.controller
    judged = simile.evaluate(policy, reference.demos, start=simile.ExpertStart(reference.begin))
    row = next(row for row in found.rows() if row["name"] == "learn")
    twin = next(row for row in judged.rows() if row["name"] == "policy")
    for name in ("rmse pan", "error", "roughness", "reversals", "rest", "lag"):
        assert row[name] == pytest.approx(twin[name], rel=1e-12)
    (motion,) = found.verdict.motion
    expert = f"the expert's {motion.reversals[1]:.3g}; rest: share of time, the expert's {motion.rest[1]:.2g};"
    assert expert in " ".join(str(found).split())


def test_plain_data_hold_the_verdict_the_table_and_the_frontiers(contest):
    found = contest[0]
    written = json.loads(to_json(found.to_dict()))
    assert written["verdict"] == plain(found.verdict.to_dict())
    assert written["said"] == found.tell()
    assert len(written["held_out"]) == 7
    assert {p["name"] for p in written["frontier"]} == {c.name for c in found.contenders} - {"broken"}
    assert written["recordings"] == len(found.reference.demos)


def test_the_frontier_is_drawn(contest, tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    contest[0].draw(tmp_path / "frontier.png")
    assert (tmp_path / "frontier.png").stat().st_size > 10_000


def trial(roughness: float, error: float, validation: float | None = None) -> Trial:
    ones = np.ones((2, 1))
    tally = Tally(
        weights=ones,
        squares=np.array([[error], [2.0 * error]]),
        bends=roughness * ones,
        expert_bends=ones,
        sizes=ones,
        **dict.fromkeys(("frames", "steps", "turns", "expert_turns", "rests", "expert_rests"), ones),
        products=np.zeros((2, 1, 3, 201)),
    )
    return Trial(1.0, None, error if validation is None else validation, {}, tally)


def test_errors_and_roughness_are_interpolated_on_log_scales_where_a_path_crosses_the_level():
    found = stand([trial(4.0, 1.0), trial(1.0, 2.0), trial(0.25, 8.0)], 2.0)
    np.testing.assert_allclose(found.tally.squares, [[2.0**0.5], [8.0**0.5]])
    assert found.tally.score.roughness == pytest.approx(2.0)
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
    assert Reference(validation).measure(roll_out(point.controller, validation, 10)).roughness < 1.5


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


def test_the_baseline_of_a_run_is_its_simple_filter_and_stands_beside_it(pursuit):
    train, test = pursuit
    run = simile.learn(train, smoothness=30.0, model=simile.Ridge())
    assert run.baseline is run.simple.policy  # made once
    found = simile.evaluate(run.policy, test, baseline=run.baseline)
    assert [e.name for e in found.entries] == ["policy", SIMPLE, HELD]
    assert found.verdict.baseline == "the best simple filter"
    rolled = simile.rollout(run.baseline, test, start=simile.ExpertStart(found.begin))
    row = next(row for row in found.rows() if row["name"] == SIMPLE)
    score = Reference(test, run.policy.units.scale, found.begin).measure(rolled)
    assert row["error"] == score.rmse  # in standard deviations of the training data, as in the run


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
    assert "1 recording can show nothing for sure: test on six or more." in found.tell()
    assert not found.verdict.over_hold.is_sure


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
    assert "The expert never moves here" in found.tell()
    assert "diverged" not in str(found)
    pytest.importorskip("matplotlib").use("agg")
    found.draw(tmp_path / "still.png")
