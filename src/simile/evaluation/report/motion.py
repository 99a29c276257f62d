"""Does it move as the expert does? Holds, reversals and speeds of every curve, side by side."""

from __future__ import annotations

from typing import Any

from simile.data.motion import measure_motion
from simile.evaluation.report.curves import Curves


def describe_motion(curves: Curves) -> dict[str, Any]:
    """Return how each action moves, a row for every curve, over the frames that count, as a table of the page."""
    ruler = curves.ruler
    rate, time = ruler.demos.rate, "s" if ruler.demos.rate else "frames"
    per = "a minute" if rate else "per 1,000 frames"
    heads = [f"reversals {per}", "still", f"hold ({time})", f"move ({time})", "SPARC", "LDLJ"]
    heads += [f"{name} {share} %" for name in ("speed", "acceleration") for share in (50, 95)]
    rows = []
    for name, rolled in zip(curves.names, curves.rolled, strict=True):
        scored = [a[ruler.begin :] for a, ok in zip(rolled, ruler.counts, strict=True) if ok]
        found = measure_motion(scored, ruler.known_logs, rate)
        named = zip(ruler.demos.action_names, found, strict=True)
        rows += [[name, action, *motion.to_dict().values()] for action, motion in named]
    return {"columns": ["who", "action", *heads], "rows": rows}
