"""What does it look at? The share that each context, and each lag, has in what f says.

Forests count how far each feature brought the error down while they grew. A piecewise linear f is a sum of a function
of each feature: what counts is how far that function moves over the states of the demonstrations (its standard
deviation, summed over the actions); for a line this is |coefficient| times the spread of the feature. Mixtures count
their parts by weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from simile._common.text import count
from simile._common.typing import FloatArray
from simile.data.demonstrations import Demonstrations
from simile.data.recorded import Units
from simile.data.states import Horizon, Tape
from simile.models import Forest, PiecewiseLinear, WeightedModel
from simile.models.columns import layout
from simile.policies.policies import Policy, SmoothPolicy, parts

MOST_ENTRIES = 5_000_000  # of the states over which lines are judged: some thousand states at least
MOST_STATES, FEWEST_STATES = 5_000, 200

NOTE = (
    "Shares of what the policy reads. Trees: how far a feature brought the error down while they grew. Lines: how far "
    "a feature moves the prediction over these sequences. Features that say nearly the same may share their part in any"
    " way, and a large share is no cause."
)


@dataclass(frozen=True)
class Importances:
    """Shares that sum to one, by name; contexts largest first, lags in the order of time."""

    contexts: dict[str, float]
    lags: dict[int, float]


def measure_importances(policy: Policy, demos: Demonstrations) -> Importances | None:
    """Return the share of each context and lag; None where a model is one that we cannot look into."""
    total: dict[tuple[int, int], float] = {}
    for weight, part in parts(policy):
        shares = _shares(part.f, part.horizon, demos, part)
        if shares is None:
            return None
        columns, lags = layout(part.horizon, demos.n_contexts, demos.n_actions)
        for column, lag, share in zip(columns.tolist(), lags.tolist(), shares.tolist(), strict=True):
            total[column, lag] = total.get((column, lag), 0.0) + float(np.mean(weight)) * share
    whole = sum(total.values())
    if not whole > 0.0:
        return None
    names = [*demos.context_names, *(f"own {a}" for a in demos.action_names)]
    contexts: dict[str, float] = {}
    by_lag: dict[int, float] = {}
    for (column, lag), share in total.items():
        contexts[names[column]] = contexts.get(names[column], 0.0) + share / whole
        by_lag[lag] = by_lag.get(lag, 0.0) + share / whole
    ranked = sorted(contexts.items(), key=lambda item: -item[1])
    return Importances(dict(ranked), dict(sorted(by_lag.items())))


def describe_importances(found: Importances, rate: float | None) -> dict[str, Any]:
    """Write shares as the page takes them."""
    return {
        "contexts": [{"name": name, "share": share} for name, share in found.contexts.items()],
        "lags": [{"name": name_lag(lag, rate), "share": share} for lag, share in found.lags.items()],
        "note": NOTE,
    }


def name_lag(lag: int, rate: float | None) -> str:
    """Name a lag.

    >>> name_lag(0, 30.0), name_lag(8, 30.0), name_lag(45, 30.0), name_lag(1, None), name_lag(-3, 30.0)
    ('now', '267 ms ago', '1.50 s ago', '1 frame ago', '100 ms later')
    """
    if lag == 0:
        return "now"
    when = "ago" if lag > 0 else "later"
    if rate is None:
        return f"{count(abs(lag), 'frame')} {when}"
    seconds = abs(lag) / rate
    return f"{1e3 * seconds:.0f} ms {when}" if seconds < 1.0 else f"{seconds:.2f} s {when}"


def _shares(f: Any, horizon: Horizon, demos: Demonstrations, policy: Any) -> FloatArray | None:
    """Return the share of each feature, (features,), summing to one or zero."""
    if isinstance(f, Forest):
        return f.feature_importances
    if isinstance(f, PiecewiseLinear):
        moved = _moved(f, horizon, demos, policy)
        return moved / moved.sum() if moved.sum() > 0.0 else moved
    if isinstance(f, WeightedModel):
        found = [_shares(g, horizon, demos, policy) for g in f.models]
        if any(s is None for s in found):
            return None
        return np.asarray(sum(np.mean(w) * s for w, s in zip(f.weights, found, strict=True) if s is not None))
    return None


def _moved(f: PiecewiseLinear, horizon: Horizon, demos: Demonstrations, policy: SmoothPolicy) -> FloatArray:
    """Return how far the terms of each feature, together, move f over the states of the demonstrations."""
    n_features = len(f.columns)
    most = min(MOST_STATES, max(FEWEST_STATES, MOST_ENTRIES // n_features))
    S = _spread(horizon, demos, policy.units, most)
    moved = np.zeros(n_features)
    for feature in np.unique(f.feature):
        terms = np.flatnonzero(f.feature == feature)
        column = S[:, feature, np.newaxis]
        bent = np.maximum(np.where(np.isnan(column), f.fill[terms], column), f.knot[terms])
        moved[feature] = float((bent @ f.coefficient[terms]).std(axis=0).sum())
    return moved


def _spread(horizon: Horizon, demos: Demonstrations, units: Units, most: int) -> FloatArray:
    """Return about `most` states (n, features) along the expert's actions, spread evenly over the sequences."""
    every, offset, found = max(1, demos.n_frames // most), 0, []
    for demo in demos:  # one at a time: all contexts in one array may be too much
        rows = np.arange(offset, len(demo), every)
        offset = (offset - len(demo)) % every
        if len(rows):
            tape = Tape.of([units.shift(demo.contexts)], [units.standardize(demo.actions)])
            with np.errstate(over="ignore"):
                found.append(tape.states(horizon, rows).matrix().astype(np.float32))  # as f itself takes them
    return np.concatenate(found).astype(np.float64)
