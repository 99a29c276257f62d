"""What a policy is made of, in a few plain values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from simile.models import Forest, PiecewiseLinear, parts_of
from simile.models.adapters import FittedRegressor, TreeMean
from simile.policies.policies import Policy, parts
from simile.policies.storage.decoding import Unread


def summary(policy: Policy) -> dict[str, Any]:
    """Return kind, sizes, lags, smoothness, units and bounds as JSON values; a list where components differ."""
    smooth = [part for _, part in parts(policy)]
    # Every model once, however many components start from it.
    models = [model for p in smooth for model in (p.f, p.naive) if model is not None]
    kept = {id(f): f for model in models for f, _ in parts_of(model)}.values()
    forests = [f for f in kept if isinstance(f, Forest)]
    return {
        "kind": type(policy).__name__,
        "components": len(smooth),
        "models": sorted({_name(f) for f in kept}),
        "trees": sum(len(f.roots) for f in forests),
        "nodes": sum(len(f.feature) for f in forests),
        "terms": sum(len(f.feature) for f in kept if isinstance(f, PiecewiseLinear)),
        "contexts": _one(p.n_inputs for p in smooth),
        "actions": policy.n_actions,
        "context_lags": _one(list(p.horizon.context_lags) for p in smooth),
        "action_lags": _one(list(p.horizon.action_lags) for p in smooth),
        "smoothness": _one(p.smoothness for p in smooth),
        "order": _one(getattr(p.h, "order", None) for p in smooth),
        "center": policy.units.center.tolist(),
        "scale": policy.units.scale.tolist(),
        "low": [x if math.isfinite(x) else None for x in policy.space.low.tolist()],
        "high": [x if math.isfinite(x) else None for x in policy.space.high.tolist()],
    }


def _name(model: Any) -> str:
    """Return the class of a model, looking into what stands for another library's."""
    inside = model.trees[0] if isinstance(model, TreeMean) else model
    inside = inside.estimator if isinstance(inside, FittedRegressor) else inside
    return inside.name if isinstance(inside, Unread) else type(inside).__name__


def _one(values: Iterable[Any]) -> Any:
    """Return what all have in common, or else the list of all."""
    found = list(values)
    return found[0] if all(value == found[0] for value in found) else found
