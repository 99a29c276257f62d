"""How smooth should I choose? Every contender as error over roughness, and as rows of a table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simile._common.text import number
from simile.evaluation.evaluation import Evaluation
from simile.evaluation.rivals import HELD
from simile.learning.frontier import Frontier, depths

OTHERS = "other smoothness"


@dataclass(frozen=True)
class Step:
    """One policy of a path: lambda, the lag that it costs in frames, RMSE in standard deviations, and roughness."""

    smoothness: float
    lag: float
    error: float
    roughness: float


@dataclass(frozen=True)
class Path:
    """Policies of one kind from rough to smooth, all measured on the same held-out sequences."""

    steps: tuple[Step, ...]

    @classmethod
    def roll_out(cls, found: Frontier, evaluation: Evaluation, *, own: bool = False) -> Path:
        """Roll every policy of a frontier out over what another was judged on; those that diverge are left out.

        Where that is what their parts had not seen, it was done.
        """
        if own:
            return cls.of(Step(p.smoothness, p.lag, math.sqrt(p.error), p.roughness) for p in found.points)
        steps = []
        for point in found.points:
            score = evaluation.roll(point.policy).tally.score
            steps.append(Step(point.smoothness, point.lag, score.rmse, score.roughness))
        return cls.of(steps)

    @classmethod
    def of(cls, steps: Iterable[Step]) -> Path:
        """Keep the steps that have an error and a roughness above zero: what log scales can show."""
        return cls(tuple(s for s in steps if s.error > 0.0 and s.roughness > 0.0 and math.isfinite(s.error)))

    def error_at(self, roughness: float) -> float:
        """Return the RMSE at a roughness, between the steps on log scales; NaN beyond the ends."""
        steps = sorted(self.steps, key=lambda s: s.roughness)
        if not steps or not steps[0].roughness <= roughness <= steps[-1].roughness:
            return math.nan
        x, y = (np.log([getattr(s, name) for s in steps]) for name in ("roughness", "error"))
        return math.exp(float(np.interp(math.log(roughness), x, y)))

    def knee(self) -> Step | None:
        """Return the step farthest below the line between the ends, as `Frontier.knee`; None where none is."""
        depth = depths([s.roughness for s in self.steps], [s.error for s in self.steps])
        return self.steps[int(np.argmax(depth))] if depth is not None and depth.max() > 0.0 else None

    def contender(self, name: str, kind: str, rate: float | None) -> dict[str, Any]:
        """Return the path as the page takes it."""
        points = [
            {"roughness": s.roughness, "error": s.error, "label": f"smoothness {s.smoothness:.3g}, {_lag(s.lag, rate)}"}
            for s in self.steps
        ]
        return {"name": name, "kind": kind, "points": points}


def list_points(rows: Iterable[Mapping[str, Any]], ours: str) -> list[dict[str, Any]]:
    """Return each row as a contender with a single point, the policy in question first; what holds has no place."""
    found = []
    for r in sorted(rows, key=lambda r: r["name"] != ours):
        kind = "ours" if r["name"] == ours else "rival"
        if r["name"] != HELD and not math.isnan(number(r["error"])):
            point = {"roughness": r["roughness"], "error": r["error"], "label": str(r["name"])}
            found.append({"name": str(r["name"]), "kind": kind, "points": [point]})
    return found


def table(rows: Sequence[Mapping[str, Any]], actions: Sequence[str]) -> dict[str, Any]:
    """Return rows of an evaluation or of a comparison under headings; best first, as they come.

    A column in which nothing is known is left out.
    """
    columns = {"name": "name", "error": "error"}
    ratio = "ratio" in rows[0] if rows else False
    if ratio:
        columns |= {"ratio": "ratio", "low": "95 % from", "high": "95 % to"}
    columns |= {f"rmse {a}": f"RMSE {a}" for a in actions}
    columns |= {"roughness": "roughness", "reversals": "reversals", "rest": "rest"}
    columns |= {"lag": "lag (frames)", "seconds": "fit (s)", "microseconds": "step (µs)"}
    columns["note"] = "note"
    kept = [key for key in columns if any(_known(r.get(key)) for r in rows)]
    return {"columns": [columns[key] for key in kept], "rows": [[r.get(key) for key in kept] for r in rows]}


def _known(value: Any) -> bool:
    return value not in (None, "") and not (isinstance(value, float) and math.isnan(value))


def _lag(frames: float, rate: float | None) -> str:
    return f"lag {frames:.1f} frames" if rate is None else f"lag {frames / rate * 1e3:.0f} ms"
