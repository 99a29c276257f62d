"""The memory of the start, chosen by roll-outs over what the models have not seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simile._common.typing import FloatArray, Trajectories
from simile.data.demonstrations import Demonstrations
from simile.models.closed_loop import ClosedLoop
from simile.policies.offset import Offset

GAIN = 0.002  # share of the squared error that a memory of the start has to take away
HALF_LIVES = (1.0, 4.0, 16.0)  # times the filter's lag, in which half of it fades: what was a bad start has to heal


def fit_offset(rolled: Trajectories, demos: Demonstrations, loop: ClosedLoop) -> Offset | None:
    """Choose how much of the start to remember, and for how long, for each action; None where it does not help.

    A roll-out is linear in the offset, so that the best share is one of least squares.
    """
    k = demos.n_actions
    fades = [[0.5 ** (1.0 / (h * max(float(loop.lags[j]), 1.0))) for h in HALF_LIVES] for j in range(k)]
    sums = _sum_pulls(demos, rolled, loop, fades)
    share, fade = np.array([_choose(sums[j], fades[j]) for j in range(k)]).T
    return Offset(share, fade) if share.any() else None


def remember_all(offset: Offset | None, rolled: Trajectories, demos: Demonstrations, loop: ClosedLoop) -> Trajectories:
    """Return roll-outs as they are with this memory of the start."""
    if offset is None:
        return rolled
    out = [a.copy() for a in rolled]
    for j, (share, fade) in enumerate(zip(offset.share, offset.fade, strict=True)):
        response = share * _response(fade, max(map(len, rolled)), loop, j)
        for a, gap in zip(out, _disagreements(rolled, demos, loop, j), strict=True):
            a[loop.order :, j] += gap * response[: len(a[loop.order :])]
    return out


def _choose(sums: FloatArray, fades: Sequence[float]) -> tuple[float, float]:
    """Return share and fade for one action; `sums` are squared errors, and power and pull of each fade."""
    best, least = (0.0, 0.0), GAIN * sums[0]
    for fade, power, pull in zip(fades, sums[1::2], sums[2::2], strict=True):
        share = min(max(pull / power, 0.0), 1.0) if power > 0.0 else 0.0
        gain = share * (2.0 * pull - share * power)
        if gain > least:
            best, least = (float(share), fade), gain
    return best


def _sum_pulls(
    demos: Demonstrations, rolled: Trajectories, loop: ClosedLoop, fades: Sequence[Sequence[float]]
) -> FloatArray:
    """Sum for each action squared errors, and for each fade its power, and how it pulls to the expert, (k, any)."""
    found = np.zeros((len(fades), 1 + 2 * len(HALF_LIVES)))
    weights: Sequence[FloatArray | None] = demos.weights or [None] * len(demos)
    for j, some in enumerate(fades):
        roots = [1.0 if w is None else np.sqrt(w[loop.order :, j]) for w in weights]
        parts = zip(rolled, demos.actions, roots, strict=True)
        missing = [(b - a)[loop.order :, j] * root for a, b, root in parts]
        gaps = _disagreements(rolled, demos, loop, j)
        found[j, 0] = sum(float(np.sum(m**2)) for m in missing)
        for i, fade in enumerate(some):
            response = _response(fade, max(map(len, rolled)), loop, j)
            for gap, m, root in zip(gaps, missing, roots, strict=True):
                answer = response[: len(m)] * root
                found[j, 1 + 2 * i] += gap**2 * np.sum(answer**2)
                found[j, 2 + 2 * i] += gap * np.sum(answer * m)
    return found


def _disagreements(rolled: Trajectories, demos: Demonstrations, loop: ClosedLoop, action: int) -> list[float]:
    """Return the last action of the start less what f says next, of each sequence; 0 where there is no next.

    A sequence whose first frames do not count starts in the midst of things: there is no start to remember.
    """
    taps, q = loop.taps[:, action], loop.order
    said = [float(taps @ a[: q + 1, action][::-1]) if len(a) > q else np.nan for a in rolled]
    last = [float(d.actions[min(q, len(d)) - 1, action]) if d.counted.start == 0 else np.nan for d in demos]
    return [0.0 if np.isnan(f) or np.isnan(a) else a - f for a, f in zip(last, said, strict=True)]


def _response(fade: float, length: int, loop: ClosedLoop, action: int) -> FloatArray:
    """Return what the filter makes of an offset that is 1 in the first frame, (length - order,)."""
    fading = fade ** np.arange(float(length))[:, np.newaxis]
    z = np.concatenate([np.zeros((loop.order, 1)), fading])
    return loop.forced(z, action)[loop.order : length, 0]
