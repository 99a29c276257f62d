"""The verdict: what it says of numbers that are known, that it hangs on no accident, and that all doors show it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simile
from commands import simile_
from reports import linear
from simile import Demonstrations
from simile._common.text import plain
from simile.data import tasks
from simile.errors import SimileError
from simile.evaluation.gate import Gate
from simile.evaluation.report import Report
from simile.learning.runs import RunFolder
from simile.learning.verdict import FINDINGS, Likeness, Verdict
from simile.metrics import Estimate
from simile.studio.preview_service import PreviewService
from simile.studio.run_view import describe_run
from simile.studio.workspace import Job

NAN = Estimate(math.nan)
SURE, UNSURE = 0.05, math.nan


def about(value: float, share: float = SURE) -> Estimate:
    """A ratio with an interval so wide; without one where the share is NaN."""
    return Estimate(value, value * (1.0 - share), value * (1.0 + share))


def moves(turns: float = 10.0, rest: float = 0.3, theirs: float = 0.3, share: float = SURE) -> Likeness:
    """An action that turns so often, the expert 10 times a minute, and rests so long."""
    ratio = about(rest / theirs, share) if theirs >= 0.1 else NAN
    apart = Estimate(rest - theirs, *((rest - theirs - share / 5.0, rest - theirs + share / 5.0)))
    return Likeness("pan", (turns, 10.0), (rest, theirs), about(turns / 10.0, share), ratio, apart)


def verdict(**changed) -> Verdict:
    known = Verdict(
        rmse={"pan": 0.163},
        over_hold=about(0.3),
        over_baseline=about(0.68),
        baseline="the best simple filter",
        roughness=about(1.0),
        lag=Estimate(5.5, 5.2, 6.0),
        motion=(moves(),),
        recordings=6,
        groups=6,
        rate=25.0,
        pace=50.0,
    )
    return replace(known, **changed)


def test_a_verdict_reads_as_a_person_would_say_it():
    assert str(verdict()) == (
        "Typically 0.163 off in pan on 6 recordings it had not seen: 32 % closer than the best simple filter and 70 % "
        "closer than holding the last action. As smooth as the expert. It turns and rests like the expert. 0.2 s late."
    )
    assert verdict().headline == "32 % closer than the best simple filter, as smooth as the expert, 0.2 s late."


@pytest.mark.parametrize(
    ("changed", "finding", "mood", "said"),
    [
        ({}, "accuracy", "good", "32 % closer than the best simple filter"),
        ({"over_baseline": about(0.97)}, "accuracy", "fair", "(3 % closer, which may be chance)"),
        ({"over_baseline": about(0.68, UNSURE)}, "accuracy", "fair", "32 % closer"),
        ({"over_baseline": about(1.3)}, "accuracy", "poor", "30 % farther off than the best simple filter"),
        ({"over_baseline": NAN, "baseline": ""}, "accuracy", "good", "holding: 70 % closer"),
        ({"over_hold": about(1.3)}, "accuracy", "poor", "30 % farther off than holding the last action"),
        ({"over_hold": NAN}, "accuracy", "unknown", "the expert never moves here"),
        ({"roughness": about(0.4)}, "smoothness", "good", "2.5 times smoother than the expert"),
        ({"roughness": about(1.16, 0.2)}, "smoothness", "fair", "which may be chance"),
        ({"roughness": about(0.4, UNSURE)}, "smoothness", "fair", "2.5 times smoother than the expert"),
        ({"roughness": about(1.3)}, "smoothness", "poor", "1.3 times as rough as the expert"),
        ({"roughness": about(2.0, UNSURE)}, "smoothness", "fair", "2.0 times as rough as the expert"),
        ({"over_baseline": about(1.3, UNSURE)}, "accuracy", "fair", "30 % farther off than the best simple filter"),
        ({"roughness": about(2.0)}, "smoothness", "poor", "2.0 times as rough as the expert"),
        ({"roughness": NAN}, "smoothness", "unknown", "the expert never turns here"),
        ({"lag": Estimate(2.5, -1.0, 6.0)}, "timing", "fair", "on time"),
        ({"lag": Estimate(8.0, -1.0, 17.0)}, "timing", "fair", "whether it is on time is not clear"),
        ({"lag": Estimate(8.0, 7.0, 9.0)}, "timing", "poor", "0.3 s late"),
        ({"lag": Estimate(5.5, 4.0, 7.0)}, "timing", "fair", "0.2 s late"),
        ({"lag": Estimate(1.0, 0.5, 1.5)}, "timing", "good", "hardly late (40 ms)"),
        ({"lag": Estimate(-60.0, -70.0, -50.0)}, "timing", "poor", "2.4 s early"),
        ({"lag": Estimate(0.3)}, "timing", "fair", "on time"),
        ({"lag": NAN}, "timing", "unknown", "nothing can be late"),
        ({"motion": (moves(turns=15.0),)}, "likeness", "poor", "in pan it turns 15 times a minute, the expert 10"),
        ({"motion": (moves(turns=4.0),)}, "likeness", "poor", "turns 4 times a minute"),
        ({"motion": (moves(turns=11.5, share=0.1),)}, "likeness", "fair", "turns and rests like the expert"),
        ({"motion": (moves(rest=0.5),)}, "likeness", "poor", "rests 50 % of the time, the expert 30 %"),
        ({"motion": (moves(turns=15.0, share=UNSURE),)}, "likeness", "fair", "in pan it turns 15 times a minute"),
        ({"motion": (moves(rest=0.15),)}, "likeness", "poor", "rests 15 % of the time, the expert 30 %"),
        ({"motion": (moves(rest=0.04, theirs=0.01),)}, "likeness", "good", "turns and rests like the expert"),
        ({"motion": (moves(rest=0.1, theirs=0.01),)}, "likeness", "poor", "rests 10 % of the time, the expert 1 %"),
        ({"motion": (moves(share=UNSURE),)}, "likeness", "fair", "turns and rests like the expert"),
        ({"motion": (moves(turns=math.nan),)}, "likeness", "unknown", "was not measured"),
        ({"diverged": 2}, "accuracy", "poor", "left every reasonable range in 2 of 6 recordings"),
    ],
)  # fmt: skip
def test_every_finding_has_a_word_and_is_good_only_where_an_interval_shows_it(changed, finding, mood, said):
    found = getattr(verdict(**changed), finding)
    assert said.replace("holding: ", "") in found.text
    assert found.mood == mood


@pytest.mark.parametrize("recordings", [1, 5])
def test_few_recordings_show_nothing_for_sure(recordings):
    found = verdict(recordings=recordings, groups=recordings)
    assert "can show nothing for sure: test on six or more." in str(found)
    assert "of 2 groups" in str(verdict(groups=2))


def test_what_it_has_learned_from_flatters_it():
    assert "It has learned from all of these recordings, which flatters it." in str(verdict(learned_from=6))
    assert "It has learned from 2 of these" in str(verdict(learned_from=2))
    assert "it had not seen" not in str(verdict(learned_from=2))


# It hangs on no accident


@pytest.fixture(scope="module")
def noisy() -> Demonstrations:
    """Twelve recordings of 900 frames, by a hand that moves smoothly and a log that adds noise."""
    demos = tasks.pursuit(n_sequences=12, length=900, rate=25.0, seed=36)
    return demos.with_actions(
        [a + 0.01 * a.std() * np.random.default_rng(i).normal(size=a.shape) for i, a in enumerate(demos.actions)]
    )


@pytest.mark.parametrize("seed", [0, 1])
def test_one_recording_and_all_of_them_differ_by_sampling_only(noisy: Demonstrations, seed: int):
    """A mean of eight lies among the eight, whichever are judged together; noise estimated anew made it differ."""
    train, test = noisy.hold_out(8 / 12, seed=seed)
    policy = simile.clone(train, model=simile.SmoothForest(n_trees=4), smoothness=10.0).policy
    judged = {n: [simile.evaluate(policy, test[i : i + n]) for i in range(0, 8, n)] for n in (1, 2, 4, 8)}
    alone = [one.verdict for one in judged[1]]
    for n, found in judged.items():
        for one in found:
            assert one.logs == train.logs
            for number in (
                lambda v: v.roughness.value,
                lambda v: v.rmse["pan"],
                lambda v: v.motion[0].reversals,
                lambda v: v.motion[0].rest,
            ):
                every = np.array([number(v) for v in alone])
                low, high = every.min(axis=0), every.max(axis=0)
                within = (low * (1 - 1e-9) <= number(one.verdict)) & (number(one.verdict) <= high * (1 + 1e-9))
                assert np.all(within), (n, number(one.verdict), every)
        rows = [row for one in found for row in one.recordings()]
        assert rows == judged[8][0].recordings()  # each has the same numbers, whatever it is judged with
        assert all(one.verdict.roughness.is_sure == (n >= 6) for one in found)


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=8),
    st.integers(1, 3),
    st.sampled_from([1e-12, 1e-3, 1.0, 1e6, 1e12]),
    st.sampled_from(["smooth", "noisy", "constant", "steps", "missing", "huge"]),
    st.none() | st.sampled_from([0.5, 25.0, 1000.0]),
    st.floats(0.0, 1.2),
    st.integers(0, 99),
)
def test_any_data_have_a_verdict_or_an_error_that_says_why(lengths, k, scale, kind, rate, growth, seed):
    rng = np.random.default_rng(seed)
    contexts = [rng.normal(size=(n, 2)).cumsum(axis=0) for n in lengths]
    actions = [np.sin(c[:, :1] * np.arange(1, k + 1)) * scale for c in contexts]
    if kind == "noisy":
        actions = [a + 0.1 * scale * rng.normal(size=a.shape) for a in actions]
    elif kind == "constant":
        actions = [np.full_like(a, scale) for a in actions]
    elif kind == "steps":
        actions = [np.round(a / scale) * scale for a in actions]
    elif kind == "huge":
        actions = [a * 1e95 for a in actions]
    elif kind == "missing":
        contexts = [np.where(rng.random(c.shape) < 0.3, math.nan, c) for c in contexts]
    try:
        demos = Demonstrations.from_arrays(contexts, actions, rate=rate)
        found = simile.evaluate(linear(2, k, growth=growth), demos)
    except SimileError:
        return
    said, told = str(found), found.verdict
    assert str(told) in said
    assert "nan" not in str(told)
    assert json.loads(json.dumps(plain(found.to_dict())))["verdict"]["text"] == str(told)
    findings = {name: getattr(told, name) for name in FINDINGS}
    assert {one.mood for one in findings.values()} <= {"good", "fair", "poor", "unknown"}
    assert told.groups >= 6 or not any(one.mood == "good" for one in findings.values())
    assert told.groups >= 6 or not any(one.is_sure for one in (told.over_hold, told.roughness, told.lag))
    assert len(found.recordings()) == len(lengths) * k


# All doors show it


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run of `simile train`, and what it printed."""
    folder = tmp_path_factory.mktemp("doors")
    simile.write(tasks.pursuit(n_sequences=16, length=150, rate=25.0, seed=3), folder / "games.csv")
    choices = ("--actions", "pan", "--test", "0.5", "--model", "SmoothForest(n_trees=2)", "--report")
    return folder / "run", simile_("train", "games.csv", *choices, cwd=folder).stdout


def test_all_doors_show_the_same_numbers(trained: tuple[Path, str], monkeypatch: pytest.MonkeyPatch):
    folder, printed = trained
    monkeypatch.chdir(folder.parent)
    run = RunFolder(folder)
    _, test = run.demonstrations()
    policy, baseline = run.policy(), run.baseline()
    notebook = simile.evaluate(policy, test, baseline=baseline)
    wanted = {**notebook.verdict.to_dict(), "new": None, "text": None}
    summary = json.loads((folder / "summary.json").read_text())

    def numbers(told: dict) -> dict:
        return {**told, "new": None, "text": None, "findings": wanted["findings"]}

    assert numbers(summary["verdict"]) == wanted  # its text says, too, what is new in the recordings
    said = summary["verdict"]["text"]
    assert said in printed

    simile.write(test, "test.csv")
    again = simile_("evaluate", folder / "policy.safetensors", "test.csv", "--json", cwd=folder.parent).stdout
    assert numbers(json.loads(again)["verdict"]) == wanted
    assert json.loads(again)["recordings"] == plain(notebook.recordings())

    page = Report.of_folder(run).content
    assert page["verdict"] == said
    table = dict(zip(page["table"]["columns"], page["table"]["rows"][0], strict=True))
    row = next(one for one in notebook.rows() if one["name"] == page["table"]["rows"][0][0])
    assert (table["RMSE pan"], table["roughness"], table["reversals"], table["rest"]) == (
        row["rmse pan"],
        row["roughness"],
        row["reversals"],
        row["rest"],
    )
    (alike,) = notebook.verdict.motion
    assert [row[2:] for row in page["motion"]["rows"]] == [
        list(own) for own in zip(alike.reversals, alike.rest, strict=True)
    ]
    for number, answer in enumerate(["accuracy", "smoothness", "timing", "likeness"]):
        assert summary["verdict"]["findings"][answer]["text"] in page["answers"][number]["answer"]

    job = Job("a", "run", "train", "b", "2026-11-19T00:00:00", status="done")
    shown = describe_run(job, folder, None)
    assert shown["verdict"] == said
    assert shown["table"] == plain(page["table"])
    _, preview = PreviewService().roll(run, 0, None)
    first = notebook.recordings()[0]
    assert preview.score.roughness == pytest.approx(first["roughness"])
    assert preview.lag == pytest.approx(first["lag"])
    assert (*preview.reversals, *preview.rest) == pytest.approx(
        [first[name] for name in ("reversals", "expert_reversals", "rest", "expert_rest")]
    )

    tally = notebook.entries[0].tally
    gate = Gate().decide([notebook.reference, notebook.reference], [tally, tally], [tally, tally]).demonstrations
    for name in ("rmse", "over_hold", "roughness", "lag", "motion", "recordings", "groups"):
        assert getattr(gate, name) == getattr(notebook.verdict, name), name
