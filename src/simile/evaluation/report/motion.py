"""Does it move as the expert does? Holds, reversals and speeds of every curve, side by side."""

from __future__ import annotations

from typing import Any

from simile.evaluation.report.curves import Curves
from simile.evaluation.verdict import tell_reversals


def describe_motion(curves: Curves) -> dict[str, Any]:
    """Return how each action moves, a row for every curve, over the frames that count, as a table of the page."""
    reference = curves.reference
    rate = reference.demos.rate
    time = "s" if rate else "frames"
    heads = [f"reversals {tell_reversals(rate)}", "rest", f"hold ({time})", f"move ({time})"]
    heads += [f"{name} {share} %" for name in ("speed", "acceleration") for share in (50, 95)]
    pairs = zip(curves.names, curves.rolled, strict=True)
    motions = ((name, action, m) for name, some in pairs for action, m in reference.motion(some).items())
    rows = [[name, action, *motion.to_dict().values()] for name, action, motion in motions]
    return {"columns": ["who", "action", *heads], "rows": rows}
