"""One policy judged on held-out sequences, beside simple filters and the held action: for `simile train`."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from simile._common.text import cell
from simile.data.demonstrations import Demonstrations
from simile.errors import DivergedError
from simile.evaluation import rivals
from simile.evaluation.comparison.phrases import against, lateness, smoothness_in_words
from simile.evaluation.comparison.scores import Ruler
from simile.evaluation.evaluation import Evaluation, evaluate
from simile.learning import measures
from simile.learning.frontier import Frontier
from simile.policies.policies import Policy
from simile.policies.rollouts import ExpertStart, rollout


@dataclass(frozen=True, eq=False)
class Entry:
    """One contender and how it did; `evaluation` is None where its roll-out diverged."""

    name: str
    policy: Policy
    evaluation: Evaluation | None
    seconds: float = math.nan  # CPU time of the fit


@dataclass(frozen=True, eq=False)
class Judgement:
    """Contenders on the same held-out frames; prints as a table, the first entry being the one in question."""

    entries: tuple[Entry, ...]
    demos: Demonstrations

    def rows(self) -> list[dict[str, Any]]:
        """Return name, RMSE of each action, roughness (1: the expert's), lag and seconds, best first."""
        found = [_row(e.name, e.evaluation, self.demos, "policy", e.seconds) for e in self.entries]
        judged = next((e.evaluation for e in self.entries if e.evaluation is not None), None)
        if judged is not None:
            found.append(_row("hold the last action", judged, self.demos, "hold_last", math.nan))
        return sorted(found, key=lambda row: (math.isnan(row["error"]), row["error"]))

    def verdict(self) -> str:
        """Say in words how the first entry did."""
        rows = {row["name"]: row for row in self.rows()}
        ours = rows[self.entries[0].name]
        if self.entries[0].evaluation is None:
            return f"{ours['name']}: its roll-out diverged; try a smaller smoothness or fewer action lags."
        parts = [against(ours["error"], rows["hold the last action"]["error"], "holding the last action")]
        simple = [rows[e.name] for e in self.entries[1:] if e.name in SIMPLE and e.evaluation is not None]
        if simple:
            best = min(simple, key=lambda row: row["error"])
            parts.append(against(ours["error"], best["error"], f"the best simple filter ({best['name']})"))
        smooth = "" if math.isnan(ours["roughness"]) else f"; {smoothness_in_words(ours['roughness'])}"
        late = "" if math.isnan(ours["lag"]) else f", {lateness(ours['lag'])}"
        return f"{ours['name']}: {', '.join(parts)}{smooth}{late}."

    def __str__(self) -> str:
        actions = self.demos.action_names
        width = max(len(row["name"]) for row in self.rows())
        head = [f"RMSE {a}" for a in actions] + ["roughness", "lag", "fit (s)"]
        lines = [f"{'':{width}}  " + "  ".join(f"{h:>12}" for h in head)]
        for row in self.rows():
            cells = [*(row[f"rmse {a}"] for a in actions), row["roughness"], row["lag"], row["seconds"]]
            lines.append(f"{row['name']:{width}}  " + "  ".join(cell(c) for c in cells))
        lines.append(
            f"roll-outs of {len(self.demos)} held-out sequences; roughness: mean |second difference|, 1 is the "
            "expert's; lag in frames"
        )
        return "\n".join(lines)


EMA, DAMPED = "predict, then average", "predict, then damp"
SIMPLE = (EMA, DAMPED)


def judge(entries: Mapping[str, tuple[Policy, float]], test: Demonstrations) -> Judgement:
    """Roll policies out over the same frames; `entries` maps names to policies and the CPU seconds of their fits."""
    start = ExpertStart(frames=max(policy.memory for policy, _ in entries.values()))
    found = []
    for name, (policy, seconds) in entries.items():
        try:
            judged = evaluate(policy, test, start=start)
        except DivergedError:
            judged = None
        found.append(Entry(name, policy, judged, seconds))
    return Judgement(tuple(found), test)


def simple_filters(
    train: Demonstrations,
    validation: Demonstrations | None,
    policy: Policy,
    *,
    model: Any = None,
    horizon: Any = None,
    seed: int = 0,
) -> Iterator[tuple[str, Policy, float]]:
    """Fit the simple rivals of a policy, each tuned to be at least as smooth; yields name, policy and CPU seconds."""
    tuned_on = train if validation is None else validation
    outcome = measures.outcome(policy, tuned_on)
    roughness = math.inf if outcome.diverged else measures.roughness(outcome.rolled, tuned_on)
    begin = time.process_time()
    bare = rivals.predictor(train, model=model, horizon=horizon, seed=seed)
    fitting = time.process_time() - begin
    for name, kind in ((EMA, rivals.EXPONENTIAL_AVERAGE), (DAMPED, rivals.FOLLOWER)):
        begin = time.process_time()
        found = rivals.filtered(bare, kind, tuned_on, roughness=roughness)
        yield name, found, fitting + time.process_time() - begin


def judged_path(frontier: Frontier, test: Demonstrations) -> list[dict[str, float]]:
    """Roll the policies of a path out over held-out sequences: smoothness, lag, error (RMSE) and roughness of each."""
    ruler = Ruler(test, max(p.policy.memory for p in frontier.points))
    rows = []
    for point in frontier.points:
        try:
            score = ruler.measure(rollout(point.policy, test, start=ExpertStart(ruler.frames)))
        except DivergedError:
            continue
        rows.append(
            {
                "smoothness": point.smoothness,
                "lag": point.lag,
                "error": ruler.error(score.squares),
                "roughness": score.roughness,
            }
        )
    return rows


def _row(name: str, judged: Evaluation | None, demos: Demonstrations, of: str, seconds: float) -> dict[str, Any]:
    actions = demos.action_names
    if judged is None:
        nothing = dict.fromkeys((*(f"rmse {a}" for a in actions), "error", "roughness", "lag"), math.nan)
        return {"name": name, **nothing, "seconds": seconds}
    rmse = {a: judged.mean("rmse", a, of=of) for a in actions}
    scale = np.concatenate(demos.actions).std(axis=0)
    scale[scale == 0.0] = 1.0  # an action that never moves is judged in its own units
    wiggles = {a: judged.mean("difference_2", a, of="expert") for a in actions}
    rough = [judged.mean("difference_2", a, of=of) / wiggle for a, wiggle in wiggles.items() if wiggle > 0.0]
    return {
        "name": name,
        **{f"rmse {a}": value for a, value in rmse.items()},
        # Over all actions, each in its own standard deviations: what contenders are ranked by.
        "error": math.sqrt(float(np.mean([(rmse[a] / s) ** 2 for a, s in zip(actions, scale, strict=True)]))),
        "roughness": float(np.mean(rough)) if rough else math.nan,
        "lag": judged.mean("lag", of=of),
        "seconds": seconds,
    }
