"""Material from a comparison: the object itself, or what was written of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from simile._common.text import count, number
from simile.evaluation.comparison import Comparison
from simile.evaluation.evaluation import roll_each
from simile.evaluation.report.answers import Facts, read_roughness
from simile.evaluation.report.contenders import Path, Step, table
from simile.evaluation.report.content import Material, describe_data, describe_frontier, gather_facts
from simile.evaluation.report.curves import Curves
from simile.evaluation.rivals import HELD, Filtered
from simile.policies.policies import Policy

Rows = list[dict[str, Any]]


def of_comparison(comparison: Comparison, title: str, subtitle: str, repeat: Mapping[str, str] | None) -> Material:
    """Draw the first contender, and the best other reduction and rival where each stands, on the held-out sequences."""
    first, verdict = comparison.contenders[0], comparison.verdict
    if first.standing is None or verdict is None:  # nothing could be rolled out
        return of_data(comparison.to_dict(), title, repeat)
    rows, reference = comparison.rows(), comparison.reference
    controllers = {
        name: standing.nearest.controller
        for name in (first.name, *_best_others(rows, first.name))
        if (standing := comparison[name].standing) is not None
    }
    rolled = {name: roll_each(one, reference.demos, reference.begin) for name, one in controllers.items()}
    curves = Curves.of(reference, rolled, first.standing.tally)
    policy = controllers[first.name]
    policy = policy.policy if isinstance(policy, Filtered) else policy if isinstance(policy, Policy) else None
    points, expected = comparison.points(), math.sqrt(first.standing.nearest.validation)
    return Material(
        title=title,
        subtitle=subtitle or describe_data(curves, policy, comparison.new),
        said=comparison.tell(),
        facts=gather_facts(curves, policy, verdict.to_dict(), path=_path(points, first.name), expected=expected),
        actions=reference.demos.action_names,
        curves=curves,
        policy=policy,
        table=table(rows, reference.demos.action_names),
        frontier=_frontier(points, rows, first.name),
        frontier_note=describe_frontier(curves),
        repeat=repeat,
    )


def of_data(compared: Mapping[str, Any], title: str, repeat: Mapping[str, str] | None) -> Material:
    """Make what can be made of comparison.json: the policies are not kept, so that no curve can be drawn."""
    rows: Rows = [dict(r) for r in compared["held_out"]]
    points: Rows = [dict(p) for p in compared["frontier"]]
    ours = str(points[0]["name"] if points else rows[0]["name"])
    n, verdict = int(compared["recordings"]), compared["verdict"]
    actions = [key.removeprefix("rmse ") for key in rows[0] if key.startswith("rmse ")]
    new = f" ({compared['new']})" if compared.get("new") else ""
    own = next(r for r in rows if r["name"] == ours)
    return Material(
        title=title,
        subtitle=f"{len(rows)} contenders on {count(n, 'held-out recording')}{new}",
        said=str(compared["said"]),
        facts=Facts(
            verdict,
            number(own["error"]),
            read_roughness(verdict),
            compared.get("rate"),
            path=_path(points, ours),
        ),
        actions=actions,
        curves=None,
        policy=None,
        table=table(rows, actions),
        frontier=_frontier(points, rows, ours),
        frontier_note=f"Every point is a roll-out over the same {'recording' if n == 1 else 'recordings'}.",
        repeat=repeat,
    )


def _best_others(rows: Rows, ours: str) -> list[str]:
    """Return the names of the best other reduction and the best rival at equal smoothness."""
    found = []
    for kind in ("reduction", "rival"):
        others = [r for r in rows if r["kind"] == kind and r["name"] not in (ours, HELD) and not r["note"]]
        found += [str(r["name"]) for r in others[:1]]  # rows come best first
    return found


def _path(points: Rows, ours: str) -> Path | None:
    own = [p for p in points if p["name"] == ours]
    steps = [Step(*(number(p[n]) for n in ("strength", "lag", "error", "roughness"))) for p in own]
    return Path.of(steps) if len(steps) > 1 else None


def _frontier(points: Rows, rows: Rows, ours: str) -> Rows:
    """Return every contender with its controllers from rough to smooth."""
    kinds = {str(r["name"]): "reduction" if r["kind"] == "waiting" else str(r["kind"]) for r in rows}
    found: Rows = []
    for name in dict.fromkeys(str(p["name"]) for p in points if p["name"] != HELD):
        kind = "ours" if name == ours else kinds.get(name, "rival")
        own = [
            {"roughness": p["roughness"], "error": p["error"], "label": _label(p, kind)}
            for p in points
            if p["name"] == name
        ]
        found.append({"name": name, "kind": kind, "points": own})
    return found


def _label(point: Mapping[str, Any], kind: str) -> str:
    """Say how a controller was set: lambda of a reduction, frames of a filter, and what was chosen beside it."""
    strength, lag = number(point["strength"]), number(point["lag"])
    parts = []
    if not math.isnan(strength) and kind != "baseline":
        parts.append(f"smoothness {strength:.3g}" if kind in ("ours", "reduction") else f"{strength:.3g} frames")
    parts += [f"{knob} {value:.3g}" for knob, value in point["knobs"].items()]
    return ", ".join([*parts, *([] if math.isnan(lag) else [f"lag {lag:.1f} frames"])])
