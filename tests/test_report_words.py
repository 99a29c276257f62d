"""Words of a report: its answers are short and honest, and every value of it has a meaning."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import reports as shared
import simile
from simile.evaluation.report import Report, answers
from simile.evaluation.report.contenders import Path as Steps
from simile.evaluation.report.contenders import Step
from simile.evaluation.report.diagnosis import MEANINGS, diagnosis

learned = shared.learned

FACTS = answers.Facts(
    error=0.2, rmse={"pan": 1.5}, held=1.0, simple=("filter", 0.4), roughness=1.0, lag=0.2, pace=50.0, rate=25.0,
    sequences=5, diverged=0, radius=0.9, surprise=1.0,
)  # fmt: skip
BENT = Steps(tuple(Step(2.0**i, float(i), 0.1 + 0.01 * 2.0**i, 4.0 / 2.0**i) for i in range(6)))

MOVES = answers.Moves


def moving(turns, theirs, rest=0.4, expected=0.45, **more):
    """Facts of how pan moves, of the policy and of the expert."""
    return {"moves": (MOVES("pan", (turns, theirs), (rest, expected), **more),)}


def several(*turns):
    """Facts of several actions, whose expert reverses ten times and rests half of the time."""
    return {"moves": tuple(MOVES(f"action {i}", (each, 10.0), (0.5, 0.5)) for i, each in enumerate(turns))}


@pytest.mark.parametrize(
    ("question", "changed", "mood", "said"),
    [
        (0, {}, "good", "20% of the error of holding the last action and 50% of that of the best simple filter"),
        (0, {"error": 0.7, "simple": None}, "fair", "off by 1.5 in pan"),
        (0, {"simple": ("filter", 0.18)}, "fair", "The simple filter does better"),
        (0, {"simple": ("filter", 0.1)}, "poor", "2.0 times that of the best simple filter"),
        (0, {"error": 1.2, "simple": None}, "poor", "120% of the error"),
        (0, {"held": 0.0}, "unknown", "never moves"),
        (0, {"error": math.nan}, "unknown", "nothing to measure"),
        (0, {"diverged": 2}, "poor", "in 2 of 5 held-out sequences"),
        (1, {}, "good", "about as smooth as the expert"),
        (1, {"roughness": 0.25}, "good", "4.0 times smoother"),
        (1, {"roughness": 1.3}, "fair", "1.3 times as rough"),
        (1, {"roughness": 3.0}, "poor", "3.0 times as rough"),
        (1, {"roughness": math.nan}, "unknown", "never turns"),
        (2, {}, "good", "on time"),
        (2, {"lag": 4.0}, "good", "Hardly: 4.0 frames (160 ms) late"),
        (2, {"lag": 10.0, "rate": None}, "fair", "A little: 10.0 frames late; the expert takes 50.0 frames"),
        (2, {"lag": 20.0}, "poor", "Yes: 20.0 frames"),
        (2, {"lag": -20.0}, "poor", "No: 20.0 frames (800 ms) early"),
        (2, {"lag": math.nan}, "unknown", "cannot be told"),
        (2, {"behind": "pan is behind ball"}, "good", "a frame. In the recordings pan is behind ball."),
        (2, {"lag": 4.0, "behind": "pan is late"}, "good", "one standard deviation. In the recordings pan is late."),
        (3, {}, "good", "never ran away in 5 held-out sequences"),
        (3, {"sequences": 1}, "fair", "but 1 held-out sequence tells little"),
        (3, {"surprise": 2.0}, "fair", "2 times what the training expected"),
        (3, {"radius": 1.01}, "poor", "does not settle"),
        (4, {}, "unknown", "no other smoothness was tried"),
        (4, {"path": BENT}, "fair", "half as rough has 129% of the error; twice as rough saves 14% of the error"),
        (4, {"path": BENT, "roughness": 2.0}, "good", "the curve bends at roughness"),
        (4, {"path": BENT, "roughness": 0.25}, "fair", "ask for less smoothness"),
        (4, {"path": Steps(BENT.steps[:1]), "roughness": 9.0}, "unknown", "do not reach"),
        (5, {}, "unknown", "It was not measured"),
        (5, {"diverged": 2}, "poor", "in 2 of 5 held-out sequences"),
        (5, moving(12, 14), "good", "Yes: pan reverses 12 times a minute (the expert 14) and rests 40% of the time"),
        (5, moving(9.6, 8.0), "good", "reverses 9.6 times a minute (the expert 8)"),
        (5, moving(30, 16), "fair", "Partly: pan reverses 30 times a minute (the expert 16)"),
        (5, moving(32, 16), "poor", "No: pan reverses 32 times a minute (the expert 16)"),
        (5, moving(32, 16), "poor", "For a calmer pan ask for a hold of 0.1 (--hold)."),
        (5, moving(32, 16, hold=0.125), "poor", "ask for a hold wider than 0.12 (--hold)"),
        (5, moving(3, 2, one=1.0), "good", "reverses 3 times"),
        (5, moving(2, 1, one=1.0), "fair", "reverses 2 times"),
        (5, moving(4, 1, one=1.0), "poor", "reverses 4 times"),
        (5, moving(12, 14, 0.3, 0.45), "fair", "rests 30% of the time (the expert 45%). For a calmer pan"),
        (5, moving(12, 14, 0.2, 0.45), "poor", "rests 20%"),
        (5, moving(12, 14, 0.0, 0.09), "good", "rests 0% of the time (the expert 9%)"),
        (5, moving(1, 14, 0.95, 0.45), "fair", "pan hardly moves: ask for a narrower hold (--hold)"),
        (5, moving(0, 0, 0.5, 1.0), "unknown", "the expert never moves"),
        (5, moving(math.nan, 14), "unknown", "not measured"),
        (5, moving(12, 14) | {"rate": None}, "good", "12 times in 1,000 frames"),
        (5, several(10.0, 11.0), "good", "; action 0 10 (10) and 50% (50%)."),
        (5, several(9.0, 13.0, 17.0, 21.0), "poor", "No: action 3 reverses 21 times a minute (the expert 10)"),
        (5, several(9.0, 13.0, 17.0, 21.0), "poor", "; action 2 17 (10) and 50% (50%); 2 more, some no better"),
    ],
)  # fmt: skip
def test_answers_are_short_and_honest(question, changed, mood, said):
    found = answers.answers(replace(FACTS, **changed))[question]
    assert said in found["answer"]
    assert found["mood"] == mood
    assert len(found["answer"]) < 260
    assert found["answer"].endswith(".")


def test_reversals_twice_the_experts_are_never_good():
    for theirs in range(30):
        for turns in range(2 * theirs, 4 * theirs + 2):
            assert turns == theirs == 0 or MOVES("pan", (turns, theirs), (0.9, 0.1), one=1.0).mood != "good"


def test_a_headline_says_so_where_a_policy_does_not_look_like_a_person():
    facts = [replace(FACTS, **moving(turns, 16)) for turns in (16, 25, 40)]
    assert [answers.headline(answers.answers(one)) for one in facts] == [
        "Accurate, smooth and on time.",
        "Accurate, smooth, on time and not quite like a person.",
        "Accurate, smooth, on time and unlike a person.",
    ]


def test_more_smoothness_that_costs_nothing_is_recommended():
    flat = Steps(tuple(Step(s, s, 0.1, 1.0 / s) for s in (0.25, 0.5, 1.0, 2.0, 4.0)))
    found = answers.answers(replace(FACTS, path=flat))[4]
    assert found["mood"] == "fair"
    assert "next to nothing" in found["answer"]


def test_every_value_of_the_diagnosis_has_a_meaning_and_a_long_recording_takes_no_longer(learned):
    run, test = learned
    long = simile.Demonstrations(test.items * 40)
    assert set(MEANINGS) == set(simile.Diagnosis.__dataclass_fields__) - {"follows_last"}  # of which a finding tells
    assert diagnosis(run.policy, long)["findings"][1] == diagnosis(run.policy, test)["findings"][1]
    assert Report.of(run, test).content["diagnosis"]["findings"][0].startswith("Its smoother settles")
