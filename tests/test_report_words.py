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
        (3, {}, "good", "never ran away in 5 held-out sequences"),
        (3, {"sequences": 1}, "fair", "but 1 held-out sequence tells little"),
        (3, {"surprise": 2.0}, "fair", "2 times what the training expected"),
        (3, {"radius": 1.01}, "poor", "does not settle"),
        (4, {}, "unknown", "no other smoothness was tried"),
        (4, {"path": BENT}, "fair", "half as rough has 129% of the error; twice as rough saves 14% of the error"),
        (4, {"path": BENT, "roughness": 2.0}, "good", "the curve bends at roughness"),
        (4, {"path": BENT, "roughness": 0.25}, "fair", "ask for less smoothness"),
        (4, {"path": Steps(BENT.steps[:1]), "roughness": 9.0}, "unknown", "do not reach"),
    ],
)  # fmt: skip
def test_answers_are_short_and_honest(question, changed, mood, said):
    found = answers.answers(replace(FACTS, **changed))[question]
    assert said in found["answer"]
    assert found["mood"] == mood
    assert len(found["answer"]) < 260
    assert found["answer"].endswith(".")


def test_more_smoothness_that_costs_nothing_is_recommended():
    flat = Steps(tuple(Step(s, s, 0.1, 1.0 / s) for s in (0.25, 0.5, 1.0, 2.0, 4.0)))
    found = answers.answers(replace(FACTS, path=flat))[4]
    assert found["mood"] == "fair"
    assert "next to nothing" in found["answer"]


def test_every_value_of_the_diagnosis_has_a_meaning_and_a_long_recording_takes_no_longer(learned):
    run, test = learned
    long = simile.Demonstrations(test.items * 40)
    assert set(MEANINGS) == set(simile.Diagnosis.__dataclass_fields__)
    assert diagnosis(run.policy, long)["findings"][1] == diagnosis(run.policy, test)["findings"][1]
    assert Report.of(run, test).content["diagnosis"]["findings"][0].startswith("Its smoother settles")
