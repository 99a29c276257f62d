"""The questions that everybody asks of a policy, answered from its verdict, with a word beside every colour."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simile._common.text import number
from simile.evaluation.report.contenders import Path
from simile.learning.verdict import format_time

Answer = dict[str, str]

QUESTIONS = {
    "accuracy": "Is it accurate?",
    "smoothness": "Is it smooth?",
    "timing": "Is it on time?",
    "likeness": "Does it look like a person?",
}
LEADS = {"good": "Yes", "fair": "Not sure", "poor": "No"}
SURPRISE = 1.25  # held-out error over the error that the training expected
FAR = 8.0  # times the policy's roughness from which a bend of the curve is no advice
CHEAP, WORTH = 0.03, 0.10  # what half the roughness may cost to be cheap, and what twice must save to be worth it


@dataclass(frozen=True, eq=False)
class Facts:
    """What the answers are made of beside the verdict; NaN where something is not known."""

    verdict: Mapping[str, Any] | None  # `Verdict.to_dict`; None where nothing could be rolled out
    error: float = math.nan  # RMSE in standard deviations of the expert's actions, held-out
    roughness: float = math.nan
    rate: float | None = None
    radius: float = math.nan  # of the closed loop
    surprise: float = math.nan  # held-out error over the error that the training expected
    path: Path | None = None  # other smoothness, on the same recordings
    behind: str = ""  # how late the expert itself is, in a sentence

    @property
    def diverged(self) -> bool:
        """Whether a roll-out left every reasonable range."""
        return self.verdict is not None and bool(self.verdict["diverged"])


def answers(facts: Facts) -> list[Answer]:
    """Answer what the verdict tells; then whether to trust it, and how smooth to choose."""
    found = {} if facts.verdict is None else facts.verdict["findings"]
    told = []
    for name, question in QUESTIONS.items():
        one = found.get(name, {"mood": "unknown", "text": "there was nothing to measure it on"})
        behind = f" In the recordings {facts.behind}." if name == "timing" and facts.behind else ""
        told.append(_answer(question, one["mood"], f"{one['text']}.{behind}"))
    return [*told, _judge_trust(facts), _judge_choice(facts)]


def _answer(question: str, mood: str, said: str) -> Answer:
    lead = LEADS.get(mood)
    text = f"{lead}: {said}" if lead else f"{said[:1].upper()}{said[1:]}"
    return {"question": question, "answer": text, "mood": mood}


def _judge_trust(facts: Facts) -> Answer:
    question = "Can I trust it?"
    if facts.verdict is None:
        return _answer(question, "unknown", "there was nothing to measure it on.")
    reasons, doubts = list_grounds(facts)
    said = "; but ".join(_join(part) for part in (reasons, doubts) if part) or "nothing speaks for or against it"
    mood = "poor" if facts.diverged or facts.radius >= 1.0 else "fair" if facts.verdict.get("problems") else "plain"
    return _answer(question, mood, f"{said}.")


def list_grounds(facts: Facts) -> tuple[list[str], list[str]]:
    """Return what speaks for trust in a policy, and what against it."""
    if facts.diverged and facts.verdict is not None:
        return [], [str(facts.verdict["findings"]["accuracy"]["text"])]
    reasons, doubts = [], [] if facts.verdict is None else list(facts.verdict.get("problems", ()))
    if facts.radius >= 1.0:
        doubts.append(f"its smoother does not settle by itself (radius {facts.radius:.4f})")
    elif not math.isnan(facts.radius):
        reasons.append("its smoother settles by itself")
    if facts.surprise <= SURPRISE:
        less = facts.surprise < 1.0 / SURPRISE
        reasons.append(f"the held-out error is {'less than' if less else 'what'} the training expected")
    elif facts.surprise > SURPRISE:
        doubts.append(f"the held-out error is {facts.surprise:.2g} times what the training expected")
    return reasons, doubts


def _judge_choice(facts: Facts) -> Answer:
    question = "How smooth should I choose?"
    if facts.path is None or math.isnan(facts.roughness):
        return _answer(question, "unknown", "not measured: no other smoothness was tried on these recordings.")
    here, smoother, rougher = (facts.path.error_at(facts.roughness * factor) for factor in (1.0, 0.5, 2.0))
    here = facts.error if math.isnan(here) else here
    said = []
    if not math.isnan(cost := smoother / here - 1.0):
        cheap = "costs next to nothing: ask for more smoothness"
        said.append(f"half as rough {cheap if cost < CHEAP else f'has {1.0 + cost:.2f} times the error'}")
    if not math.isnan(gain := 1.0 - rougher / here):
        worth = ": ask for less smoothness if you can bear it" if gain > WORTH else ""
        said.append(f"twice as rough saves {gain:.0%} of the error{worth}" if gain > 0.005 else "rougher is no better")
    said = said or ["the policies that were tried do not reach half or twice this roughness"]
    knee = facts.path.knee()
    if knee is not None and facts.roughness / FAR <= knee.roughness <= FAR * facts.roughness:
        where = f"smoothness {knee.smoothness:.3g}, {format_time(knee.lag, facts.rate)} of lag"
        said.append(f"the curve bends at roughness {knee.roughness:.2g} ({where})")
    return _answer(question, "plain", f"{'; '.join(said)}.")


def read_roughness(verdict: Mapping[str, Any] | None) -> float:
    """Return the roughness that a verdict tells; NaN where there is none."""
    return math.nan if verdict is None else number(verdict["roughness"]["value"])


def _join(parts: list[str]) -> str:
    return ", ".join(parts[:-1]) + " and " + parts[-1] if len(parts) > 1 else "".join(parts)
