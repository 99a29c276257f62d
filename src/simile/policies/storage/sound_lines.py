"""Whether a piecewise linear model from a file can be summed: the kernels trust its indices and look at no number."""

from __future__ import annotations

import numpy as np

from simile.models import PiecewiseLinear
from simile.policies.storage.sound_trees import check_layout, refuse


def check_lines(model: PiecewiseLinear, path: str) -> None:
    """Refuse a model whose terms would read outside of a state, or are no numbers."""
    feature, knot = model.feature, model.knot
    refuse(((feature < 0) | (feature >= len(model.columns))).any(), path, "feature must be a feature")
    refuse((np.isnan(knot) | (knot == np.inf)).any(), path, "knot must be finite, or -inf for a line")
    for name in ("fill", "coefficient", "intercept"):
        refuse(not np.isfinite(getattr(model, name)).all(), path, f"{name} must be finite")
    check_layout(model, path)
