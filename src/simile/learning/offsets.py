"""The memory of the start, chosen by roll-outs over what the models have not seen."""

from __future__ import annotations

import numpy as np

from simile._common.typing import FloatArray, Trajectories
from simile.data.demonstrations import Demonstrations
from simile.models.closed_loop import ClosedLoop
from simile.policies.offset import Offset

GAIN = 0.002  # share of the squared error that a memory of the start has to take away
HALF_LIVES = (1.0, 4.0, 16.0)  # times the filter's lag, in which half of it fades: what was a bad start has to heal


def fit_offset(rolled: Trajectories, demos: Demonstrations, loop: ClosedLoop) -> Offset | None:
    """Choose how much of the start to remember, and for how long, for each action; None where it does not help.

    A roll-out is linear in the offset, so that the best share is one of least squares; it is shrunk by as much as the
    gain of a sequence varies from one to the next, since a few starts may make all of it.
    """
    found = [_fit(rolled, demos, loop, j) for j in range(demos.n_actions)]
    share, fade = np.array(found).T
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


def _fit(rolled: Trajectories, demos: Demonstrations, loop: ClosedLoop, action: int) -> tuple[float, float]:
    """Return share and fade for one action."""
    begin, gaps = loop.order, _disagreements(rolled, demos, loop, action)
    missing = [(b - a)[begin:, action] for a, b in zip(rolled, demos.actions, strict=True)]
    lag, longest = max(float(loop.lags[action]), 1.0), max(map(len, rolled))
    best, before = (0.0, 0.0), sum(float(m @ m) for m in missing)
    least = GAIN * before
    for half_life in HALF_LIVES:
        fade = 0.5 ** (1.0 / (half_life * lag))
        response = _response(fade, longest, loop, action)
        power = sum(
            gap**2 * float(response[: len(m)] @ response[: len(m)]) for gap, m in zip(gaps, missing, strict=True)
        )
        pull = sum(gap * float(response[: len(m)] @ m) for gap, m in zip(gaps, missing, strict=True))
        share = min(max(pull / power, 0.0), 1.0) if power > 0.0 else 0.0
        gain = share * (2.0 * pull - share * power)
        if gain > least:
            best, least = (share, fade), gain
    return best


def _disagreements(rolled: Trajectories, demos: Demonstrations, loop: ClosedLoop, action: int) -> list[float]:
    """Return the last action of the start less what f says next, of each sequence; 0 where there is no next."""
    taps, q = loop.taps[:, action], loop.order
    said = [float(taps @ a[: q + 1, action][::-1]) if len(a) > q else np.nan for a in rolled]
    last = [float(a[min(q, len(a)) - 1, action]) for a in demos.actions]
    return [0.0 if np.isnan(f) else a - f for a, f in zip(last, said, strict=True)]


def _response(fade: float, length: int, loop: ClosedLoop, action: int) -> FloatArray:
    """Return what the filter makes of an offset that is 1 in the first frame, (length - order,)."""
    fading = fade ** np.arange(float(length))[:, np.newaxis]
    z = np.concatenate([np.zeros((loop.order, 1)), fading])
    return loop.forced(z, action)[loop.order : length, 0]
