"""The memory of the start, chosen by roll-outs over what the models have not seen."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from simile._common.typing import FloatArray, IntArray, Trajectories
from simile.data.demonstrations import Demonstrations
from simile.models.closed_loop import ClosedLoop

GAIN = 0.002  # share of the squared error that a memory of the start has to take away
HALF_LIVES = (1.0, 4.0, 16.0)  # times the filter's lag, in which half of it fades: what was a bad start has to heal


def fit_offset(
    rolled: Trajectories, demos: Demonstrations, loop: ClosedLoop, fold: IntArray
) -> tuple[tuple[float, float], Trajectories]:
    """Choose how much of one action's start to remember, and for how long; (0, 0) where that is not sure to help.

    A roll-out is linear in the offset, so that the best share is one of least squares. There is one start in each
    sequence: a few say little, and flatter. So each fold gets what the others choose, and that has to help by more
    than a standard error.

    Parameters
    ----------
    rolled : list of (T, 1) arrays
        Roll-outs without a memory.
    demos : Demonstrations
        What the expert did.
    loop : ClosedLoop
        Of the action.
    fold : (sequences,) array
        Which were left out together.

    Returns
    -------
    (float, float)
        Share and fade.
    list of (T, 1) arrays
        Roll-outs with the memory that the other folds choose.
    """
    fades = [0.5 ** (1.0 / (half_life * max(loop.lag, 1.0))) for half_life in HALF_LIVES]
    responses = [_respond(fade, max(map(len, rolled)), loop) for fade in fades]
    gaps = _find_gaps(rolled, demos, loop)
    sums = _sum_pulls(rolled, demos, loop, gaps, responses)
    folds = int(fold.max()) + 1
    gains, remembering = np.zeros(folds), [a.copy() for a in rolled]
    for number in range(folds if folds > 1 else 0):
        own = fold == number
        share, i = _choose(sums[~own].sum(axis=0))
        gains[number] = _gain(share, *sums[own].sum(axis=0)[1 + 2 * i : 3 + 2 * i])
        for s in np.flatnonzero(own):
            later = remembering[s][loop.order :, 0]
            later += share * gaps[s] * responses[i][: len(later)]
    total = sums.sum(axis=0)
    share, i = _choose(total)
    error = math.sqrt(folds) * float(gains.std(ddof=1)) if folds > 1 else math.inf
    if not (share and gains.sum() > max(error, GAIN * total[0])):
        return (0.0, 0.0), rolled
    return (share, fades[i]), remembering


def _choose(sums: FloatArray) -> tuple[float, int]:
    """Return the share, and the number of the fade, with the largest gain; `sums` as `_sum_pulls` has them."""
    shares = [min(max(pull / power, 0.0), 1.0) if power > 0.0 else 0.0 for power, pull in sums[1:].reshape(-1, 2)]
    gains = [_gain(share, *pair) for share, pair in zip(shares, sums[1:].reshape(-1, 2), strict=True)]
    best = int(np.argmax(gains))
    return (float(shares[best]), best) if gains[best] > GAIN * sums[0] else (0.0, best)


def _gain(share: float, power: float, pull: float) -> float:
    """Return the squared error that a share takes away."""
    return share * (2.0 * pull - share * power)


def _sum_pulls(
    rolled: Trajectories,
    demos: Demonstrations,
    loop: ClosedLoop,
    gaps: Sequence[float],
    responses: Sequence[FloatArray],
) -> FloatArray:
    """Sum, of each sequence, squared errors, and for each fade its power, and how it pulls to the expert, (n, any)."""
    rows = []
    for a, demo, gap in zip(rolled, demos, gaps, strict=True):
        root = 1.0 if demo.weights is None else np.sqrt(demo.weights[loop.order :, 0])
        missing = (demo.actions - a)[loop.order :, 0] * root
        answers = [gap * response[: len(missing)] * root for response in responses]
        pairs = [value for answer in answers for value in (np.sum(answer**2), np.sum(answer * missing))]
        rows.append([np.sum(missing**2), *pairs])
    return np.array(rows)


def _find_gaps(rolled: Trajectories, demos: Demonstrations, loop: ClosedLoop) -> list[float]:
    """Return the last action of the start less what f says next, of each sequence; 0 where there is no next.

    A sequence whose first frames do not count starts in the midst of things: there is no start to remember.
    """
    taps, q = loop.taps[:, 0], loop.order
    said = [float(taps @ a[: q + 1, 0][::-1]) if len(a) > q else np.nan for a in rolled]
    last = [float(d.actions[min(q, len(d)) - 1, 0]) if d.counted.start == 0 else np.nan for d in demos]
    return [0.0 if np.isnan(f) or np.isnan(a) else a - f for a, f in zip(last, said, strict=True)]


def _respond(fade: float, length: int, loop: ClosedLoop) -> FloatArray:
    """Return what the filter makes of an offset that is 1 in the first frame, (length - order,)."""
    fading = fade ** np.arange(float(length))[:, np.newaxis]
    z = np.concatenate([np.zeros((loop.order, 1)), fading])
    return loop.forced(z, 0)[loop.order : length, 0]
