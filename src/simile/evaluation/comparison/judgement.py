"""One policy judged on held-out sequences, beside simple rivals and the held action: for `simile train`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from simile._common.text import table
from simile._common.typing import Trajectories
from simile.data.demonstrations import Demonstrations
from simile.evaluation.comparison.phrases import phrase_error, phrase_lag, phrase_roughness
from simile.evaluation.comparison.scores import HeldOut, HeldOutElsewhere
from simile.evaluation.rivals import HELD, Held
from simile.learning.distributed import DistributedDemonstrations
from simile.learning.frontier import Frontier
from simile.learning.second_opinion import AVERAGE, FOLLOWER, SimpleRival, best_of
from simile.policies.policies import Policy, given_frames

ROWS = {AVERAGE: "predict, then average", FOLLOWER: "predict, then damp"}  # what a table calls the filters of rivals
SIMPLE = tuple(ROWS.values())


@dataclass(frozen=True, eq=False)
class Entry:
    """One contender and its roll-outs; None where one diverged."""

    name: str
    policy: Policy
    rolled: Trajectories | None
    seconds: float = math.nan  # CPU time of the fit


@dataclass(frozen=True, eq=False)
class Judgement:
    """Contenders on the same held-out frames; prints as a table, the first entry being the one in question."""

    entries: tuple[Entry, ...]
    ruler: HeldOut

    def rows(self) -> list[dict[str, Any]]:
        """Return name, RMSE of each action, roughness (1: the expert's), reversals, still, lag, seconds; best first."""
        return [dict(row) for row in self._rows]

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        ruler, held = self.ruler, self.ruler.roll(Held())
        scores = [None if e.rolled is None else ruler.measure(e.rolled) for e in self.entries]
        found = [ruler.row(e.name, score, e.seconds) for e, score in zip(self.entries, scores, strict=True)]
        return rank([*found, ruler.row(HELD, ruler.measure(held))])

    def motion(self) -> dict[str, dict[str, dict[str, float]]]:
        """Return how the expert and every entry moves, by name and action: reversals, holds, moves and speeds."""
        rolled = {e.name: e.rolled for e in self.entries if e.rolled is not None}
        return {who: self.ruler.motion(a) for who, a in {"expert": self.ruler.demos.actions, **rolled}.items()}

    def verdict(self) -> str:
        """Say in words how the first entry did."""
        rows = {row["name"]: row for row in self.rows()}
        ours = rows[self.entries[0].name]
        if self.entries[0].rolled is None:
            return f"{ours['name']}: its roll-out diverged; try a smaller smoothness or fewer action lags."
        parts = [phrase_error(ours["error"], rows[HELD]["error"], "holding the last action")]
        simple = [rows[e.name] for e in self.entries[1:] if e.name in SIMPLE and e.rolled is not None]
        if simple:
            best = min(simple, key=lambda row: row["error"])
            parts.append(phrase_error(ours["error"], best["error"], f"the best simple filter ({best['name']})"))
        smooth = "" if math.isnan(ours["roughness"]) else f"; {phrase_roughness(ours['roughness'])}"
        late = "" if math.isnan(ours["lag"]) else f", {phrase_lag(ours['lag'])}"
        return f"{ours['name']}: {', '.join(parts)}{smooth}{late}."

    def __str__(self) -> str:
        actions = self.ruler.demos.action_names
        head = [*(f"RMSE {a}" for a in actions), "roughness", "reversals", "still", "lag", "fit (s)"]
        keys = ["name", *(f"rmse {a}" for a in actions), "roughness", "reversals", "still", "lag", "seconds"]
        columns = [("", 0, "<"), *((h, 12, ".4g") for h in head)]
        lines = table(columns, ([row[key] for key in keys] for row in self.rows()))
        lines.append(
            f"roll-outs of {len(self.ruler.demos)} held-out sequences; roughness: mean |second difference|, 1 is the "
            f"expert's;\n{self.ruler.describe_expert()}; lag in frames"
        )
        return "\n".join(lines)


def judge(entries: Mapping[str, tuple[Policy, float]], test: Demonstrations | DistributedDemonstrations) -> Judgement:
    """Roll policies out over the same frames; `entries` maps names to policies and the CPU seconds of their fits.

    Errors are in the units of the first. Roll-outs of what lies with a backend stay, and are measured, there.
    """
    first = next(policy for policy, _ in entries.values())
    ruler = _hold_out(test, first, max(given_frames(policy) for policy, _ in entries.values()))
    found = [Entry(name, policy, ruler.roll(policy), seconds) for name, (policy, seconds) in entries.items()]
    return Judgement(tuple(found), ruler)


def _hold_out(test: Demonstrations | DistributedDemonstrations, policy: Policy, begin: int) -> HeldOut:
    if isinstance(test, Demonstrations):
        return HeldOut(test, policy.units.scale, begin)
    return HeldOutElsewhere(test, policy.units.scale, begin)


def simple_entries(rivals: Sequence[SimpleRival]) -> dict[str, tuple[Policy, float]]:
    """Choose the best rival behind each kind of filter, as entries for `judge`."""
    kinds = {name: [r for r in rivals if r.filter == kind] for kind, name in ROWS.items()}
    return {name: (best_of(some).policy, best_of(some).seconds) for name, some in kinds.items() if some}


def judge_path(frontier: Frontier, test: Demonstrations | DistributedDemonstrations) -> list[dict[str, float]]:
    """Roll the policies of a path out over held-out sequences: smoothness, lag, error (RMSE) and roughness of each."""
    policies = [p.policy for p in frontier.points]
    ruler = _hold_out(test, policies[0], max(map(given_frames, policies)))
    rows = []
    for point in frontier.points:
        if (rolled := ruler.roll(point.policy)) is None:
            continue
        score = ruler.measure(rolled)
        found = {"error": score.rmse, "roughness": score.roughness}
        rows.append({"smoothness": point.smoothness, "lag": point.lag, **found})
    return rows


def rank(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort rows by error, best first; those without one come last."""
    return sorted(rows, key=lambda row: (math.isnan(row["error"]), row["error"]))
