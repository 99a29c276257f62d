"""Contexts far from those of a training, which no policy knows and single precision may not tell apart, are told of."""

from __future__ import annotations

import logging
import math

import numpy as np

from simile._common.typing import FloatArray
from simile.data.origins import STEP
from simile.policies.cards import DIGITS
from simile.policies.policies import Policy

LEAST = 128  # steps of single precision within the training's range of a context

log = logging.getLogger(__name__)


def find_limits(policy: Policy, m: int, *, online: bool = False) -> FloatArray | None:
    """Return how far from its origin each context may lie, (m,), to be told apart from others of the training's range.

    None where the ranges are not known; infinite where one is not, or where the context never moved. `online`, where
    nobody looks at all the data before, no farther than the training's range and as much again: beyond are codes.
    """
    card = getattr(policy, "card", None)
    ranges = None if card is None else card.ranges(m)
    if ranges is None:
        return None
    low, high = ranges
    # A context that never moved has a range of up to two units of the last digit, but for those with an origin.
    last = 10.0 ** (np.floor(np.log10(np.maximum(np.maximum(np.abs(low), np.abs(high)), 1e-300))) + 1.0 - DIGITS)
    rounded = 2.5 * (last if policy.units.origin is None else np.where(policy.units.origin == 0.0, last, 0.0))
    with np.errstate(over="ignore", invalid="ignore"):  # infinite where unknown
        limits = (high - low) / (STEP * LEAST)
        if online:
            origin = 0.0 if policy.units.origin is None else policy.units.origin
            limits = np.minimum(limits, np.maximum(np.abs(low - origin), np.abs(high - origin)) + high - low)
        return np.where(high - low > rounded, limits, math.inf)


def warn_unresolved(policy: Policy, contexts: FloatArray, limits: FloatArray) -> bool:
    """Tell of the first of the contexts (..., m), measured from the origin, that lies beyond the limits (m,)."""
    beyond = np.abs(contexts) > limits  # never where one is missing
    if not beyond.any():
        return False
    *place, j = np.argwhere(beyond)[0]
    value = contexts[(*place, j)]
    low, high = (side[j] for side in policy.card.ranges(len(limits)) or (-limits, limits))
    given = value if policy.units.origin is None else value + policy.units.origin[j]
    name = (*policy.card.context_names, *(f"x{i}" for i in range(len(policy.card.context_names), j + 1)))[j]
    if STEP * LEAST * abs(value) <= high - low:
        log.warning(
            "context %r is %.6g, far from the %.6g to %.6g that the policy was trained on, and what it does there is a "
            "guess: is it a code for a missing value? Give NaN instead, or learn with missing=... (--missing)",
            *(name, given, low, high),
        )
        return True
    log.warning(
        "context %r is %.17g: single precision holds it in steps of %.2g, too coarse for a policy that was trained on "
        "values within %.3g of each other: feed it what it was trained on, or learn it anew if an older simile did",
        name,
        given,
        STEP * abs(value),
        high - low,
    )
    return True
