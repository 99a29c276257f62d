"""From what is known of a run to the content of a page: `Report` of frontend/src/payload.ts."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import simile
from simile._common.text import count, number, plain
from simile.data.delays import summarize_delays
from simile.data.demonstrations import Demonstrations
from simile.data.logs import tell_noise
from simile.evaluation.report.answers import Facts, answers, list_grounds, read_roughness
from simile.evaluation.report.contenders import Path
from simile.evaluation.report.curves import Curves
from simile.evaluation.report.diagnosis import diagnosis
from simile.evaluation.report.importances import describe_importances, measure_importances
from simile.evaluation.report.spectrum import spectrum
from simile.evaluation.report.worst_moments import worst_moments
from simile.learning.rounds import MEASURED, Round
from simile.learning.verdict import tell_reversals
from simile.metrics import LONGEST_LAG, correlate, find_lag
from simile.policies.policies import Policy, radius, tell_timing

REPEATED = ("command", "python", "config")
NOTHING_DRAWN: dict[str, Any] = {
    **dict.fromkeys(("curves", "sequences", "moments"), ()),
    **dict.fromkeys(("lag", "spectrum", "importances", "diagnosis", "band")),
}


@dataclass(frozen=True, eq=False)
class Material:
    """What a page is made of, wherever it came from."""

    title: str
    subtitle: str
    said: str  # the verdict in words
    facts: Facts
    actions: Sequence[str]
    curves: Curves | None  # None where the policies were not kept
    policy: Policy | None  # None where it is no policy of Eq. 2
    table: Mapping[str, Any]
    frontier: Sequence[Mapping[str, Any]]  # those who rest have no place on a log scale, and are left to the table
    frontier_note: str
    notes: Sequence[str] = ()
    rounds: Sequence[Mapping[str, Any]] = ()
    chosen: int | None = None
    mixture: Sequence[Mapping[str, Any]] = ()  # what the policy consists of, see `Mixture.tell`
    in_turn: bool = False  # whether in each recording parts of the policy act that have not seen it
    repeat: Mapping[str, str] | None = None

    def content(self) -> dict[str, Any]:
        """Return everything as plain data, keys as in payload.ts."""
        verdict = self.facts.verdict
        found = {
            "title": self.title,
            "subtitle": self.subtitle,
            "version": simile.__version__,
            "made": datetime.date.today().isoformat(),
            "headline": "Nothing could be measured." if verdict is None else verdict["headline"],
            "verdict": self.said,
            "answers": answers(self.facts),
            "notes": list(dict.fromkeys([*self.notes, *([] if self.curves is None else _remarks(self.curves))])),
            "rate": self.facts.rate,
            "actions": list(self.actions),
            **(NOTHING_DRAWN if self.curves is None else self._drawn(self.curves)),
            "motion": list_motion(verdict, self.facts.rate),
            "rounds": list(self.rounds),
            "chosen": self.chosen,
            "mixture": _list_parts(self.mixture, self.actions),
            "in_turn": self.in_turn,
            "frontier": [c for c in self.frontier if any(number(p["roughness"]) > 0.0 for p in c["points"])],
            "frontier_note": self.frontier_note,
            "table": self.table,
            "repeat": None if self.repeat is None else {name: self.repeat.get(name, "") for name in REPEATED},
        }
        content: dict[str, Any] = plain(found)
        return content

    def _drawn(self, curves: Curves) -> dict[str, Any]:
        """Return what needs roll-outs."""
        seen = None if self.policy is None else measure_importances(self.policy, curves.demos)
        return {
            "curves": list(curves.names),
            "sequences": curves.sequences(),
            "moments": worst_moments(curves),
            "lag": _lag_curve(curves),
            "spectrum": _spectrum(curves),
            "importances": None if seen is None else describe_importances(seen, curves.demos.rate),
            "diagnosis": self._diagnosis(curves.demos),
            "band": None if curves.band is None else curves.band.to_dict(),
        }

    def _diagnosis(self, demos: Demonstrations) -> dict[str, Any]:
        """Say what speaks for and against trust; then, where the policy can be looked into, what theory says."""
        plainly = [f"{said[0].upper()}{said[1:]}." for part in list_grounds(self.facts) for said in part]
        theory = None if self.policy is None or self.facts.diverged else diagnosis(self.policy, demos)
        if theory is None:
            return {"findings": plainly, "values": []}
        return {**theory, "findings": [*plainly, *theory["findings"]]}


def _list_parts(mixture: Sequence[Mapping[str, Any]], actions: Sequence[str]) -> dict[str, Any] | None:
    """Return what a policy consists of, as a table of the page: shares in per cent; None where it is no mixture."""
    rows = [[one["component"], one["aim"], *(100.0 * weight for weight in one["weights"])] for one in mixture]
    heads = [f"% of {action}" for action in actions]
    return {"columns": ["model", "aims at the action", *heads], "rows": rows} if rows else None


def list_motion(verdict: Mapping[str, Any] | None, rate: float | None) -> dict[str, Any] | None:
    """Return how each action of policy and expert moves, as a table of the page; None where that is not known."""
    if verdict is None or not verdict["motion"]:
        return None
    rows = [
        [who, one["action"], one["reversals"][i], one["rest"][i]]
        for one in verdict["motion"]
        for i, who in enumerate(("policy", "expert"))
    ]
    return {"columns": ["who", "action", f"reversals {tell_reversals(rate)}", "rest"], "rows": rows}


def gather_facts(
    curves: Curves,
    policy: Policy | None,
    verdict: Mapping[str, Any],
    *,
    path: Path | None = None,
    expected: float = math.nan,
) -> Facts:
    """Measure what the answers need beside the verdict; `expected` is the RMSE that the training foresaw."""
    loop, error = None if policy is None else radius(policy), curves.tally.score.rmse
    return Facts(
        verdict=verdict,
        error=error,
        roughness=read_roughness(verdict),
        rate=curves.demos.rate,
        radius=math.nan if loop is None else loop,
        surprise=error / expected if policy is not None and expected > 0.0 else math.nan,
        path=path,
        behind=tell_behind(curves.demos),
    )


def tell_behind(demos: Demonstrations) -> str:
    """Say how late the expert is behind its clearest context, and what that means; "" where it is not clear."""
    clearest = summarize_delays(demos)[0]
    if not clearest.clear:
        return ""
    if clearest.low > 0.0:
        return f"{clearest}: a policy that is on time with the expert is as late"
    return f"{clearest}: a policy has to foresee it" if clearest.high < 0.0 else str(clearest)


def list_rounds(rounds: Sequence[Round | Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what a page tells of rounds; their mean squared errors become RMSE."""
    found = []
    for one in rounds:
        told = {name: one.get(name) if isinstance(one, Mapping) else getattr(one, name) for name in MEASURED}
        for name in ("error", "validation_error"):
            told[name] = math.sqrt(number(told[name]))
        found.append({**told, "diverged": bool(told["diverged"])})
    return found


def describe_data(curves: Curves, policy: Policy | None, new: str = "", *, in_turn: bool = False) -> str:
    """Say in a line where the data came from, and what is new in them."""
    demos = curves.demos
    told = ", each left out in turn" if in_turn else f" ({new})" if new else ""
    kind = "sequence" if in_turn else "held-out sequence"
    held_out = f"{count(len(demos), kind, ',')}{told}, {count(demos.n_frames, 'frame', ',')}"
    rate = "" if demos.rate is None else f" at {demos.rate:g} Hz"
    training, told = ({}, "") if policy is None else (policy.card.training, tell_timing(policy))
    parts = [held_out + rate]
    if {"sequences", "frames"} <= set(training):
        learned = f"{count(training['sequences'], 'sequence', ',')}, {count(training['frames'], 'frame', ',')}"
        parts.append(f"learned from {learned}")
    return "; ".join([*parts, *([f"the policy {told}"] if told else [])])


def describe_frontier(curves: Curves) -> str:
    """Say what the points of a frontier have in common."""
    begin, counted = curves.reference.begin, curves.tally.frames[:, 0]
    first = f", without the first {count(begin, 'frame', ',')} of each" if begin else ""
    sequences = count(int((counted > 0.0).sum()), "sequence", ",")
    return f"Every point is a roll-out over the same {sequences}, {count(int(counted.sum()), 'frame', ',')}{first}."


def _remarks(curves: Curves) -> list[str]:
    """Say what the page leaves out."""
    found, frames = [], curves.reference.begin
    if short := int((curves.demos.lengths <= frames).sum()):
        found.append(f"{count(short, 'sequence', ',')} of at most {count(frames, 'frame', ',')} could not be judged")
    if curves.step > 1:
        found.append(f"the curves are thinned: of every {2 * curves.step} frames they show the lowest and the highest")
    return [*found, *tell_noise(curves.demos.action_names, curves.reference.known_logs)]


def _lag_curve(curves: Curves) -> dict[str, Any] | None:
    """Return how alike policy and expert are when one is shifted against the other, and the lag of each action."""
    sums = curves.tally.products.sum(axis=0)
    found = np.array([correlate(each) for each in sums])
    known = np.flatnonzero(~np.isnan(found).all(axis=0))
    if not len(known):
        return None
    shown, shifts = slice(known[0], known[-1] + 1), np.arange(-LONGEST_LAG, LONGEST_LAG + 1)
    return {"frames": shifts[shown], "correlation": found[:, shown], "best": [find_lag(each) for each in sums]}


def _spectrum(curves: Curves) -> dict[str, Any] | None:
    found = spectrum(curves)
    if found is None:
        return None
    # What never moves has no power, and no place on a log scale.
    expert, policy = (np.where(power > 0.0, power, np.nan) for power in (found.expert, found.policy))
    unit = "cycles per frame" if curves.demos.rate is None else "Hz"
    return {"hertz": found.frequency, "expert": expert, "policy": policy, "unit": unit}
