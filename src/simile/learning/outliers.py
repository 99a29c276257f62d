"""How much each recorded frame counts: a loss other than the squared one, as weights in least squares.

Any convex loss is minimised by least squares in which a residual r counts l'(r) / 2r (iteratively reweighted least
squares). The residuals are those of light policies (`simile.learning.mixture`) that have not seen the sequence: robust
ones, for the record is drawn in to what they do, turn by turn. Every model, step size and choice then takes the weights
that are found: one step of the iteration from a robust start, which is as efficient as all of them.

A loss bounds the pull of a gross outlier, but not what it does to means, deviations, roughness and holds, nor to the
targets around it. So an action of a frame that is far off, by itself or beside its neighbours, counts as what lies
between the frames before and after; its small weight stays.

References
----------
Huber (1981), "Robust Statistics", sections 7.8 (weights) and 7.9 (one-step estimates); Hampel (1974), as in
`simile.data.logs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray
from simile.data.demonstrations import Demonstrations
from simile.data.losses import Loss, Squared
from simile.data.origins import choose_origin
from simile.data.recorded import Recorded, Units
from simile.errors import ArgumentError
from simile.learning.folds import Folds
from simile.learning.mixture import Choices, Mixture
from simile.models import SmoothForest
from simile.models.adapters import takes_weights
from simile.models.regularizers import CriticallyDamped
from simile.models.ridge import Ridge

N_TURNS = 3  # of fitting and drawing in
START, DRAWN = 4.0, 1.345  # robust deviations to draw actions in to: from the median at first, then from the policies
# So many of the frames tell what is usual: rare moves, such as floods, are no outliers as long as that many are none.
USUAL, USUAL_ALONE = 0.9, 0.95  # of the distances from those policies, and from the median of the neighbours
GROSS, APART = 5.0, 0.5  # of either's deviations are no noise; the latter are half of one of the former at least
NEIGHBOURS = 11  # frames by whose median a frame is off by itself
Data = TypeVar("Data", bound=Recorded)
FILTER, LAG = CriticallyDamped(order=3), 3.0  # frames: a little smoothing, which helps wherever contexts are noisy
LIGHT = (
    SmoothForest(n_trees=16, max_depth=None, min_leaf=30),
    Ridge(knots=5, rows=5_000),
    Ridge(rows=5_000),
)


def refuse_loss(loss: Loss | None) -> None:
    """Refuse what data in parts cannot be weighed by."""
    if loss is not None and not isinstance(loss, Squared):
        raise ArgumentError(
            f"loss must be Squared() with a backend, whose parts add up squares alone; got {loss!r}: train on one "
            "machine, or take the outliers out before"
        )


def weigh(demos: Data, loss: Loss | None, *, seed: int = 0) -> Data:
    """Weigh demonstrations by a loss, and take their gross outliers out; as they are for the squared loss.

    Those that have weights keep them.

    >>> from simile import Huber, tasks
    >>> demos = tasks.pursuit(n_sequences=4, length=100)
    >>> wrong = demos.with_actions([np.where(np.arange(100)[:, np.newaxis] == 50, 1e3, a) for a in demos.actions])
    >>> weighed = weigh(wrong, Huber())
    >>> bool(weighed.actions[0].max() < 100.0), bool(weighed[0].weights[50, 0] < 0.1)
    (True, True)
    """
    if not isinstance(demos, Demonstrations):
        refuse_loss(loss)
        return demos
    if loss is None or isinstance(loss, Squared):
        return demos
    if isinstance(loss, str):
        raise ArgumentError(f"loss must be an object, for example simile.Huber(); got {loss!r}")
    checks.instance(loss, "loss", needs="weigh")
    if demos.weights is not None:
        return demos
    cuts = np.cumsum(demos.lengths)[:-1]
    residuals = _residuals(demos, seed)
    scale = _deviation(residuals)
    alone = np.concatenate([_beside_neighbours(part) for part in np.split(residuals, cuts)])
    usual = _deviation(residuals, USUAL)
    gross = np.abs(residuals) > GROSS * usual
    gross |= np.abs(alone) > np.maximum(GROSS * _deviation(alone, USUAL_ALONE), APART * usual)
    weights = loss.weigh(np.divide(residuals, scale, out=np.zeros_like(residuals), where=scale > 0.0))
    weights /= weights.mean(axis=0)  # so that penalties, and the frames of a leaf, mean what they did
    weighed = []
    for demo, far, counts in zip(demos, np.split(gross, cuts), np.split(weights, cuts), strict=True):
        mended = replace(demo, actions=demo.bridge(far), weights=counts)
        vars(mended)["digest"] = demo.digest  # of what was recorded
        weighed.append(mended)
    return Demonstrations(tuple(weighed))  # type: ignore[return-value]


def tell_outliers(demos: Recorded, weighed: Recorded, models: Sequence[Any]) -> tuple[str, ...]:
    """Say how many frames count as what lies between their neighbours, and which models have a loss of their own."""
    if demos is weighed or not (isinstance(demos, Demonstrations) and isinstance(weighed, Demonstrations)):
        return ()
    changed = [np.mean(a != b, axis=0) for a, b in zip(demos.actions, weighed.actions, strict=True)]
    share = np.average(changed, axis=0, weights=demos.lengths)
    said = [
        f"{100.0 * part:.2g} % of the frames of {name} are gross outliers: they count as what lies between the others"
        for name, part in zip(demos.action_names, share, strict=True)
        if part
    ]
    own = [type(getattr(m, "recipe", m)).__name__ for m in models if not takes_weights(m)]
    said += [f"{name} takes no weights, so that its own loss counts, on frames without gross outliers" for name in own]
    return tuple(said)


def _residuals(demos: Demonstrations, seed: int) -> FloatArray:
    """Return how far the actions are from light policies that have not seen the sequence, (frames, k), in any unit."""
    center = np.median(np.concatenate(demos.actions), axis=0)
    scale = _deviation(np.concatenate(demos.actions) - center)
    units = Units(center, np.where(scale > 0.0, scale, 1.0), choose_origin(demos.places))
    pieces = Folds.of(demos.standardize(units)).demos
    assert isinstance(pieces, Demonstrations)
    cuts, actions = np.cumsum(pieces.lengths)[:-1], np.concatenate(pieces.actions)
    residuals, reach = actions, START
    for _ in range(N_TURNS):
        limit = reach * _deviation(residuals)
        drawn = np.split(actions - residuals + np.clip(residuals, -limit, limit), cuts)
        for piece in drawn:  # the first frames start a roll-out, and would look right whatever they are
            piece[: FILTER.order] = np.median(piece[:NEIGHBOURS], axis=0)
        taught = pieces.with_actions(drawn)
        choices = Choices.of(taught, model=LIGHT, regularizer=FILTER, seed=seed)
        blends = Mixture.fit(taught, choices).at(FILTER.smoothness_for(LAG))
        residuals, reach = actions - np.stack([blend.rolled for blend in blends], axis=1), DRAWN
    return residuals


def _deviation(values: FloatArray, least: float = 0.5) -> FloatArray:
    """Return the standard deviation that a quantile of |values| (n, k) tells, (k,): the next one where that is 0."""
    found = np.zeros(values.shape[1])
    for share, deviations in ((0.5, 0.6745), (0.8, 1.2816), (0.9, 1.6449), (0.95, 1.96)):
        if share >= least:
            found = np.where(found > 0.0, found, np.quantile(np.abs(values), share, axis=0) / deviations)
    return found


def _beside_neighbours(values: FloatArray) -> FloatArray:
    """Return values (T, k) less the medians of those around them."""
    from scipy.ndimage import median_filter

    around: FloatArray = median_filter(values, size=(NEIGHBOURS, 1), mode="nearest")
    return values - around
