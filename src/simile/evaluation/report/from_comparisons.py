"""Material from a comparison: the object itself, or what was written of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from simile._common.text import number
from simile.evaluation.comparison import Comparison
from simile.evaluation.report.answers import Facts, Moves
from simile.evaluation.report.contenders import Path, Step, table
from simile.evaluation.report.content import Material, describe_data, describe_frontier, gather_facts
from simile.evaluation.report.curves import Curves, roll
from simile.evaluation.rivals import HELD, Filtered
from simile.policies.policies import Policy

Rows = list[dict[str, Any]]


def of_comparison(comparison: Comparison, title: str, subtitle: str, repeat: Mapping[str, str] | None) -> Material:
    """Draw the first contender, and the best other reduction and rival where each stands, on the held-out sequences."""
    rows, ruler = comparison.rows(), comparison.ruler
    first = comparison.contenders[0]
    names = [first.name, *_best_others(rows, first.name)]
    controllers = {n: s.nearest.controller for n in names if (s := comparison[n].standing) is not None}
    curves = Curves.of(ruler, {n: roll(c, ruler.demos, ruler.begin) for n, c in controllers.items()})
    policy = controllers.get(first.name)
    policy = policy.policy if isinstance(policy, Filtered) else policy if isinstance(policy, Policy) else None
    frontier = _frontier(comparison.points(), rows, first.name)
    if first.standing is None:  # nothing could be rolled out
        facts = _facts(rows, comparison.points(), first.name, len(ruler.scored), ruler.demos.rate)
    else:
        path = _path(comparison.points(), first.name)
        facts = gather_facts(
            curves,
            policy,
            held=_error(rows, HELD),
            simple=_best_rival(rows, first.name),
            path=path,
            expected=math.sqrt(first.standing.nearest.validation),
            others="rival",
        )
    return Material(
        title=title,
        subtitle=subtitle or describe_data(curves, policy, comparison.new),
        verdict=comparison.verdict(),
        facts=facts,
        actions=ruler.demos.action_names,
        curves=None if first.standing is None else curves,
        policy=policy,
        table=table(rows, ruler.demos.action_names),
        frontier=frontier,
        frontier_note=describe_frontier(curves),
        repeat=repeat,
    )


def of_data(compared: Mapping[str, Any], title: str, repeat: Mapping[str, str] | None) -> Material:
    """Make what can be made of comparison.json: the policies are not kept, so that no curve can be drawn."""
    rows: Rows = [dict(r) for r in compared["held_out"]]
    points: Rows = [dict(p) for p in compared["frontier"]]
    ours = str(points[0]["name"] if points else rows[0]["name"])
    n = len(compared["sequences"])
    actions = [key.removeprefix("rmse ") for key in rows[0] if key.startswith("rmse ")]
    plural = "sequence" if n == 1 else "sequences"
    new = f" ({compared['new']})" if compared.get("new") else ""
    return Material(
        title=title,
        subtitle=f"{len(rows)} contenders on {n} held-out {plural}{new}",
        verdict=str(compared["verdict"]),
        facts=_facts(rows, points, ours, n, compared.get("rate"), _moves(compared, points, rows, ours)),
        actions=actions,
        curves=None,
        policy=None,
        table=table(rows, actions),
        frontier=_frontier(points, rows, ours),
        frontier_note=f"Every point is a roll-out over the same {plural}.",
        repeat=repeat,
    )


def _facts(
    rows: Rows, points: Rows, ours: str, sequences: int, rate: float | None, moves: tuple[Moves, ...] = ()
) -> Facts:
    """Return what a table tells without any roll-out."""
    own = next(r for r in rows if r["name"] == ours)
    return Facts(
        error=number(own["error"]),
        rmse={key.removeprefix("rmse "): number(value) for key, value in own.items() if key.startswith("rmse ")},
        held=_error(rows, HELD),
        simple=_best_rival(rows, ours),
        roughness=number(own["roughness"]),
        lag=number(own["lag"]),
        pace=math.nan,
        rate=rate,
        sequences=sequences,
        diverged=0,
        radius=math.nan,
        surprise=math.nan,
        path=_path(points, ours),
        others="rival",
        moves=moves,
    )


def _moves(compared: Mapping[str, Any], points: Rows, rows: Rows, ours: str) -> tuple[Moves, ...]:
    """Return how the first contender moves where it stands: as its nearest controller. None of an older comparison."""
    expert, own = compared.get("expert"), [p for p in points if p["name"] == ours and "still" in p]
    if not expert or not own:
        return ()
    level = next(number(r["roughness"]) for r in rows if r["name"] == ours)
    near = min(own, key=lambda p: abs(number(p["roughness"]) - level))
    measured = ([list(map(number, near[n])), [number(m[n]) for m in expert.values()]] for n in ("reversals", "still"))
    return Moves.of(list(expert), *measured, frames=compared["frames"], rate=compared["rate"])


def _best_others(rows: Rows, ours: str) -> list[str]:
    """Return the names of the best other reduction and the best rival at equal smoothness."""
    found = []
    for kind in ("reduction", "rival"):
        others = [r for r in rows if r["kind"] == kind and r["name"] not in (ours, HELD) and not r["note"]]
        found += [str(r["name"]) for r in others[:1]]  # rows come best first
    return found


def _best_rival(rows: Rows, ours: str) -> tuple[str, float] | None:
    names = [n for n in _best_others(rows, ours) if next(r for r in rows if r["name"] == n)["kind"] == "rival"]
    return (names[0], _error(rows, names[0])) if names else None


def _error(rows: Rows, name: str) -> float:
    return next((number(r["error"]) for r in rows if r["name"] == name), math.nan)


def _path(points: Rows, ours: str) -> Path | None:
    own = [p for p in points if p["name"] == ours]
    steps = [Step(*(number(p[n]) for n in ("strength", "lag", "error", "roughness"))) for p in own]
    return Path.of(steps) if len(steps) > 1 else None


def _frontier(points: Rows, rows: Rows, ours: str) -> Rows:
    """Return every contender with its controllers from rough to smooth."""
    kinds = {str(r["name"]): "reduction" if r["kind"] == "waiting" else str(r["kind"]) for r in rows}
    found: Rows = []
    for name in dict.fromkeys(str(p["name"]) for p in points):
        kind = "ours" if name == ours else "baseline" if name == HELD else kinds.get(name, "rival")
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
