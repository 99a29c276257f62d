"""Where it errs: the stretches of the held-out sequences in which the policy is farthest from the expert."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from simile._common.typing import FloatArray
from simile.evaluation.report.curves import Curves

SECONDS, FRAMES = 2.0, 50  # how long a stretch is, where the rate is known and where it is not
MOST = 12


def stretch(rate: float | None) -> int:
    """Return the length of a stretch in frames.

    >>> stretch(30.0), stretch(None)
    (60, 50)
    """
    return FRAMES if rate is None else max(2, round(SECONDS * rate))


def worst_moments(curves: Curves, most: int = MOST) -> list[dict[str, Any]]:
    """Return the worst stretches, worst first, none overlapping another (`Moment` of payload.ts).

    They are ranked by the RMSE over all actions in standard deviations, and told by the action that is farthest off
    there, in its own unit. A sequence shorter than a stretch is one as a whole.
    """
    begin, scale = curves.reference.begin, np.broadcast_to(curves.reference.scale, curves.demos.n_actions)
    width = stretch(curves.demos.rate)
    places, gaps = [], []
    for number, ours, expert in curves.scored():
        if not np.isnan(ours).any():
            places.append(number)
            gaps.append(((ours - expert) / scale) ** 2)
    if not gaps:
        return []
    widths = [min(width, len(g)) for g in gaps]
    rank = [_sliding(g.mean(axis=1), w) for g, w in zip(gaps, widths, strict=True)]
    starts = np.concatenate([[0], np.cumsum([len(r) for r in rank])])
    left = np.concatenate(rank)  # of all sequences, one after the other: each pick looks at all
    found: list[dict[str, Any]] = []
    while len(found) < most:
        best = int(np.argmax(left))
        if not left[best] > 0.0:
            break
        which = int(np.searchsorted(starts, best, side="right")) - 1
        at, w = best - int(starts[which]), widths[which]
        squares = gaps[which][at : at + w].mean(axis=0)
        action = int(np.argmax(squares))
        found.append(
            {
                "sequence": places[which],
                "begin": begin + at,
                "end": begin + at + w,
                "action": action,
                "error": math.sqrt(float(squares[action])) * float(scale[action]),
            }
        )
        left[max(best - w + 1, int(starts[which])) : min(best + w, int(starts[which + 1]))] = -1.0
    return found


def _sliding(values: FloatArray, width: int) -> FloatArray:
    """Return the mean of every `width` neighbours, (T - width + 1,)."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    means: FloatArray = np.maximum(sums[width:] - sums[:-width], 0.0) / width
    return means
