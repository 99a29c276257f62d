"""Does it move as the expert does? Holds, reversals and speeds of every curve, side by side."""

from __future__ import annotations

from typing import Any

from simile.evaluation.report.curves import Curves


def describe_motion(curves: Curves) -> dict[str, Any]:
    """Return how each action moves, a row for every curve, over the frames that count, as a table of the page."""
    ruler = curves.ruler
    rate, time = ruler.demos.rate, "s" if ruler.demos.rate else "frames"
    per = "a minute" if rate else "per 1,000 frames"
    heads = [f"reversals {per}", "still", f"hold ({time})", f"move ({time})", "SPARC", "LDLJ"]
    heads += [f"{name} {share} %" for name in ("speed", "acceleration") for share in (50, 95)]
    pairs = zip(curves.names, curves.rolled, strict=True)
    rows = [[name, action, *m.values()] for name, rolled in pairs for action, m in ruler.motion(rolled).items()]
    return {"columns": ["who", "action", *heads], "rows": rows}
