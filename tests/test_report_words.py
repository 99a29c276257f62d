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

MOODS = {"accuracy": "good", "smoothness": "fair", "timing": "poor", "likeness": "unknown"}
TOLD = {name: {"mood": mood, "text": f"what is said of {name}"} for name, mood in MOODS.items()}
FACTS = answers.Facts({"findings": TOLD, "diverged": 0}, error=0.2, roughness=1.0, rate=25.0, radius=0.9, surprise=1.0)
LOST = {"findings": {"accuracy": {"mood": "poor", "text": "it ran away"}}, "diverged": 2}
BENT = Steps(tuple(Step(2.0**i, float(i), 0.1 + 0.01 * 2.0**i, 4.0 / 2.0**i) for i in range(6)))


@pytest.mark.parametrize(
    ("question", "changed", "mood", "said"),
    [
        (0, {}, "good", "Yes: what is said of accuracy."),
        (1, {}, "fair", "Not sure: what is said of smoothness."),
        (2, {}, "poor", "No: what is said of timing."),
        (2, {"behind": "pan is behind ball"}, "poor", "of timing. In the recordings pan is behind ball."),
        (3, {}, "unknown", "What is said of likeness."),
        *((i, {"verdict": None}, "unknown", "There was nothing to measure it on.") for i in range(5)),
        (4, {}, "plain", "Its smoother settles by itself and the held-out error is what the training expected."),
        (4, {"surprise": 0.5}, "plain", "and the held-out error is less than the training expected."),
        (4, {"surprise": 2.0}, "plain", "by itself; but the held-out error is 2 times what the training expected."),
        (4, {"radius": 1.01}, "poor", "; but its smoother does not settle by itself (radius 1.0100)."),
        (4, {"radius": math.nan, "surprise": math.nan}, "plain", "Nothing speaks for or against it."),
        (4, {"verdict": LOST}, "poor", "it ran away."),
        (5, {}, "unknown", "no other smoothness was tried"),
        (5, {"path": BENT}, "plain", "Half as rough has 1.29 times the error; twice as rough saves 14% of the error"),
        (5, {"path": BENT, "roughness": 2.0}, "plain", "the curve bends at roughness"),
        (5, {"path": BENT, "roughness": 0.25}, "plain", "ask for less smoothness"),
        (5, {"path": BENT, "roughness": 0.05}, "plain", "do not reach half or twice this roughness."),
        (5, {"path": Steps(BENT.steps[:1]), "roughness": 9.0}, "plain", "do not reach"),
    ],
)  # fmt: skip
def test_answers_are_those_of_the_verdict_then_whether_to_trust_it_and_how_smooth_to_choose(
    question, changed, mood, said
):
    found = answers.answers(replace(FACTS, **changed))[question]
    assert said in found["answer"]
    assert found["mood"] == mood
    assert found["answer"].endswith(".")


def test_more_smoothness_that_costs_nothing_is_recommended():
    flat = Steps(tuple(Step(s, s, 0.1, 1.0 / s) for s in (0.25, 0.5, 1.0, 2.0, 4.0)))
    found = answers.answers(replace(FACTS, path=flat))[5]
    assert "next to nothing" in found["answer"]


def test_every_value_of_the_diagnosis_has_a_meaning_and_a_long_recording_takes_no_longer(learned):
    run, test = learned
    long = simile.Demonstrations(test.items * 40)
    assert set(MEANINGS) == set(simile.Diagnosis.__dataclass_fields__) - {
        "follows_last",
        "gamma_known",
    }  # of which findings tell
    assert diagnosis(run.policy, long)["findings"][1] == diagnosis(run.policy, test)["findings"][1]
    assert Report.of(run, test).content["diagnosis"]["findings"][0].startswith("Its smoother settles")
