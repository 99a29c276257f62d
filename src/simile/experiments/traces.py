"""Trajectories to look at: one sequence, the expert's and the policies' side by side."""

from __future__ import annotations

from collections.abc import Mapping

from simile._common.typing import FloatArray
from simile.experiments.lab import Lab
from simile.experiments.statistics import Row

SECONDS, FRAMES = 20.0, 600  # how much is shown, where the rate is known and where not
EXPERT = "expert"


def trace(lab: Lab, curves: Mapping[str, FloatArray], *, train: bool = False) -> list[Row]:
    """Lay out the first action of (T, k) trajectories of the first sequence, a row per frame and curve."""
    demo = (lab.train if train else lab.test)[0]
    action = f"{demo.action_names[0]} ({lab.unit})" if lab.unit else demo.action_names[0]
    shown = min(len(demo), FRAMES if demo.rate is None else round(SECONDS * demo.rate))
    return [
        {
            "seed": lab.seed,
            "sequence": demo.name,
            "action": action,
            "curve": curve,
            "time": round(t / (demo.rate or 1.0), 6),
            "unit": "frames" if demo.rate is None else "seconds",
            "value": float(f"{actions[t, 0]:.6g}"),  # as fine as a picture can show
        }
        for curve, actions in {EXPERT: demo.actions, **curves}.items()
        for t in range(shown)
    ]
