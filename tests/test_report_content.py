"""What a report holds: every key against the page's own types, for runs, comparisons, folders and edges."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

import reports as shared
import simile
from conftest import demos_of
from reports import assert_page_can_read, fits, linear, run_of, unpacked
from simile._common.text import plain
from simile.data import tasks
from simile.data.reference import Reference
from simile.evaluation import evaluation
from simile.evaluation.evaluation import POLICY as OURS
from simile.evaluation.evaluation import SIMPLE
from simile.evaluation.report import Report, curves
from simile.evaluation.rivals import HELD, ROSTER
from simile.learning.runs import COMPARISON, JUDGED, POLICY, ROUNDS, SUMMARY, RunFolder
from simile.metrics import rate_reversals, share_rest

learned = shared.learned


# --- The contract with the page --------------------------------------------------------------------------------------


def test_the_reader_of_types_refuses_what_does_not_fit():
    types = {"Share": {"name": "string", "share": "number | null"}}
    assert fits([{"name": "a", "share": None}], "Share[]", types)
    for wrong in ([{"name": "a"}], [{"name": 1, "share": 1}], {"name": "a", "share": 1}, [{"name": "", "share": True}]):
        assert not fits(wrong, "Share[]", types)
    assert fits([None, 1.0], "(number | null)[]", types)
    assert not fits("red", '"good" | "poor"', types)


def test_a_report_of_a_run_has_every_part_that_the_page_shows(learned):
    run, test = learned
    report = Report.of(run, test, repeat={"command": "simile train x.csv", "python": "", "config": ""})
    assert_page_can_read(report)
    content = report.content
    assert content["curves"] == ["expert", OURS, SIMPLE]
    assert {row[0] for row in content["table"]["rows"]} == {OURS, SIMPLE, HELD}
    assert [c["kind"] for c in content["frontier"]] == ["ours", "rival", "path"]
    assert len(content["frontier"][-1]["points"]) == len(run.frontier.points)
    assert content["chosen"] == run.chosen.number
    assert content["rounds"] == []
    assert [row[:2] for row in content["mixture"]["rows"]] == [[one["component"], one["aim"]] for one in run.mixed]
    assert sum(row[2] for row in content["mixture"]["rows"]) == pytest.approx(100.0)
    assert content["importances"] is not None
    assert f"{len(test)} held-out sequences" in content["subtitle"]
    assert "3 sequences" in content["frontier_note"]
    assert not content["in_turn"]


def test_without_recordings_to_judge_on_a_report_is_of_all_each_left_out_in_turn(learned):
    run, _ = learned
    report = Report.of(run)
    assert_page_can_read(report)
    content = report.content
    assert content["in_turn"]
    assert content["verdict"] == str(run.verdict)
    assert f"{run.verdict.recordings} sequences, each left out in turn" in content["subtitle"]
    assert [s["name"] for s in content["sequences"]] == list(run.judged.demos.names)
    assert content["frontier"][-1]["points"][3]["error"] == pytest.approx(math.sqrt(run.frontier.points[3].error))
    with pytest.raises(simile.ArgumentError, match="test must be recordings to judge on"):
        Report.of(simile.paper(run.judged.demos, n_rounds=0, model=simile.SmoothForest(n_trees=2)))


def test_a_report_says_of_each_action_whether_it_moves_as_the_expert_does():
    sway = np.round(2.0 * np.sin(np.arange(400) / 20.0)) / 2.0  # in steps of a half, with rests
    twitch = np.where(np.arange(400) % 4 < 2, 0.2, -0.2)

    def follow(seen, done):
        return simile.Demonstrations.from_arrays(
            [seen[:, np.newaxis]] * 6, [np.column_stack([done, done])] * 6, rate=10.0
        )

    run = run_of(linear(1, 2, slope=1.0, growth=0.0).holding(simile.Hold([0.0, 0.25])))
    said = Report.of(run, follow(sway, sway)).content["answers"][3]
    assert said == {
        "question": "Does it look like a person?",
        "mood": "good",
        "answer": "Yes: it turns and rests like the expert.",
    }
    said = Report.of(run, follow(sway + twitch, sway)).content["answers"][3]
    assert said["mood"] == "poor"
    turns = r"No: in a0 it turns \d{3} times a minute, the expert 9.*,"
    assert re.fullmatch(turns + r" and rests 0 % of the time, the expert \d\d %\.", said["answer"])


def test_the_points_of_the_path_are_those_of_the_held_out_sequences(learned):
    run, test = learned
    points = Report.of(run, test).content["frontier"][-1]["points"]
    begin = simile.evaluate(run.policy, test).begin
    for point, one in zip(points, run.frontier.points, strict=True):
        own = simile.evaluate(one.policy, test, start=simile.ExpertStart(begin))
        tally = Reference(test, run.policy.units.scale, begin, logs=run.policy.card.logs(1)).tally(own.rolled)
        assert (point["error"], point["roughness"]) == (tally.score.rmse, tally.score.roughness)


def test_an_evaluation_brings_its_rows_and_the_best_filter_and_no_roll_out_is_made_twice(learned, monkeypatch):
    run, test = replace(learned[0], frontier=None), learned[1]
    found = simile.evaluate(run.policy, test, baseline=run.baseline)
    for name in ("_roll", "rollout"):
        monkeypatch.setattr(evaluation, name, lambda *_, **__: pytest.fail("rolled out again"))
    monkeypatch.setattr(curves.DrawnBand, "of", lambda *_: None)
    report = Report.of(run, test, evaluation=found)
    assert_page_can_read(report)
    assert report.content["verdict"] == str(found.verdict)
    assert [row[0] for row in report.content["table"]["rows"]] == [row["name"] for row in found.rows()]
    assert report.content["curves"] == ["expert", OURS, SIMPLE]
    assert "the best simple filter" in report.content["answers"][0]["answer"]


def test_a_comparison_shows_the_first_contender_the_best_reduction_and_the_best_rival(tmp_path):
    train, test = tasks.pursuit(n_sequences=6, length=100).split(test=0.4)
    found = simile.compare(train, test, reductions=("learn", "clone"), rivals=ROSTER[:2], model=DecisionTreeRegressor())
    report = Report.of_comparison(found, title="A title", subtitle="and more")
    assert_page_can_read(report)
    best = next(r["name"] for r in found.rows() if r["kind"] == "rival" and r["name"] != HELD)
    assert report.content["curves"] == ["expert", "learn", "clone", best]
    assert [c["kind"] for c in report.content["frontier"]] == ["ours", "reduction", "rival"]
    (tmp_path / COMPARISON).write_text(json.dumps(plain(found.to_dict())))
    folder = RunFolder(tmp_path)
    folder.write_config({"data": ["x.csv"], "seed": 0, "test": "0.25"})
    kept = Report.of_folder(folder)
    assert_page_can_read(kept)
    assert kept.series == ()
    assert kept.content["verdict"] == report.content["verdict"]
    assert kept.content["frontier"] == report.content["frontier"]
    assert kept.content["repeat"]["command"].startswith("simile compare x.csv")
    assert kept.content["answers"][:2] == report.content["answers"][:2]
    assert kept.content["answers"][3] == report.content["answers"][3]
    assert kept.content["headline"] == report.content["headline"] == found.verdict.headline


def test_a_folder_tells_what_the_run_found_and_rolls_its_policy_out_again(learned, tmp_path):
    run, test = learned
    demos = tasks.pursuit(n_sequences=4, length=150)
    simile.write(demos, tmp_path / "data.csv")
    folder = RunFolder(tmp_path / "my run")
    folder.write_config(
        {"data": [str(tmp_path / "data.csv")], "actions": ["pan"], "seed": 0, "test": "0.5", "algorithm": "learn"}
    )
    run.policy.save(folder.path / POLICY)
    turns = [{name: getattr(r, name) for name in ("number", "beta", "error", "diverged")} for r in run.rounds]
    (folder.path / ROUNDS).write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    early = Report.of_folder(folder)
    assert_page_can_read(early)
    assert early.content["title"] == "A policy learned from data.csv"
    assert early.content["notes"] == ["the run has not ended"]
    assert early.content["chosen"] == run.chosen.number
    assert [s["frames"] for s in early.content["sequences"]] == [150, 150]
    path = [{"smoothness": s, "lag": 3.0, "error": e, "roughness": 1.0 / s} for s, e in ((0.5, 0.2), (2.0, 0.3))]
    held_out = simile.evaluate(run.policy, folder.demonstrations()[1])
    summary = {
        **plain(held_out.to_dict()),
        "notes": ["a note"],
        "chosen_round": 0,
        "rounds": plain(turns),
        "path": path,
        "digest": folder.demonstrations()[1].digest(),
    }
    (folder.path / SUMMARY).write_text(json.dumps(summary))
    told = Report.of_folder(folder)
    assert_page_can_read(told)
    assert told.content["verdict"] == str(held_out.verdict)
    assert told.content["notes"] == ["a note"]
    assert told.content["frontier"][-1]["points"][0]["label"] == "smoothness 0.5, lag 100 ms"
    assert Report.of_folder(folder, demos=folder.demonstrations()[1]).content == told.content
    elsewhere = Report.of_folder(folder, demos=test)
    assert elsewhere.content["verdict"] == str(simile.evaluate(run.policy, test).verdict)
    assert {c["kind"] for c in elsewhere.content["frontier"]} == {"ours"}


# --- Edges ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [None, 25.0])
@pytest.mark.parametrize("k", [1, 3])
def test_any_number_of_actions_with_or_without_a_rate_can_be_shown(k, rate):
    demos = demos_of(90, 60, 1, m=2, k=k, rate=rate)
    report = Report.of(run_of(linear(2, k)), demos)
    assert_page_can_read(report)
    assert report.content["spectrum"]["unit"] == ("cycles per frame" if rate is None else "Hz")
    motion = report.content["motion"]
    assert [row[:2] for row in motion["rows"]] == [[who, a] for a in demos.action_names for who in ("policy", "expert")]
    assert motion["columns"][2] == ("reversals in 1,000 frames" if rate is None else "reversals a minute")
    threshold = [log.threshold for log in demos.logs]
    expert = [a[1:] for a in demos.actions[:2]]
    assert motion["rows"][1][2] == rate_reversals(expert, threshold, rate)[0]
    assert motion["rows"][1][3] == share_rest(expert, threshold, rate)[0]
    assert report.content["notes"] == ["1 sequence of at most 1 frame could not be judged"]
    assert report.content["sequences"][2]["error"] is None


def test_one_short_sequence_with_missing_contexts_and_a_resting_expert_can_be_shown():
    contexts = np.full((7, 2), np.nan)
    demos = simile.Demonstrations.from_arrays([contexts], [np.full((7, 1), 3.0)])
    report = Report.of(run_of(linear(2)), demos)
    assert_page_can_read(report)
    assert [a["mood"] for a in report.content["answers"][:4]] == ["unknown"] * 4
    assert report.content["spectrum"] is None
    assert report.content["lag"] is None
    assert report.content["frontier"] == []


@pytest.mark.parametrize("lengths", [(80,), (80, 6, 70)])
def test_a_policy_that_runs_away_is_told_and_its_curve_breaks_off(lengths):
    demos = demos_of(*lengths)
    report = Report.of(run_of(linear(2, growth=3.0, smoothness=100.0)), demos)
    assert_page_can_read(report)
    lost = sum(n > 6 for n in lengths)
    assert f"in {lost} of {len(lengths)} recording" in report.content["answers"][0]["answer"]
    assert report.content["headline"] == "Its roll-out diverged."
    assert "left every reasonable range" in report.content["verdict"]
    found = unpacked(report.series[0])
    assert not np.isnan(found[:, 0]).any()
    assert np.isnan(found[1:, 1]).all()
    assert not np.isnan(found[0, 1])
    assert all(len(lengths) > 1 and m["sequence"] == 1 for m in report.content["moments"])


def test_a_foreign_model_has_no_shares_to_show(pursuit):
    train, test = pursuit
    run = simile.clone(train, model=DecisionTreeRegressor(min_samples_leaf=20))
    report = Report.of(run, test)
    assert_page_can_read(report)
    assert report.content["importances"] is None
    assert "settles by itself" in report.content["answers"][4]["answer"]


def test_sequences_shorter_than_the_memory_are_refused_with_a_way_out():
    with pytest.raises(simile.DataError, match="give longer sequences"):
        Report.of(run_of(linear(2)), demos_of(1))


@pytest.mark.parametrize("way", ["cut short", "no digest", "other data"])
def test_what_a_run_was_judged_by_is_refused_where_it_is_damaged_or_of_other_data(learned, tmp_path, way: str):
    run, _ = learned
    demos = run.judged.demos
    simile.write(demos, tmp_path / "data.csv")
    folder = RunFolder(tmp_path / "run")
    folder.write_config({"data": str(tmp_path / "data.csv"), "actions": ["pan"], "seed": 0, "algorithm": "learn"})
    run = simile.learn(folder.demonstrations()[0], model=simile.Ridge())
    run.policy.save(folder.path / POLICY)
    folder.write_judged(run.judged)
    assert str(folder.judged().verdict) == str(run.verdict)
    file = folder.path / JUDGED
    if way == "cut short":
        file.write_bytes(file.read_bytes()[:-100])
    elif way == "no digest":
        with np.load(file) as kept:
            np.savez(file, **{name: kept[name] for name in kept.files if name != "digest"})
    else:
        simile.write(demos.with_actions([a + 1.0 for a in demos.actions]), tmp_path / "data.csv")
    with pytest.raises(simile.DataError, match=r"judged\.npz is (damaged|of other data)"):
        folder.judged()
