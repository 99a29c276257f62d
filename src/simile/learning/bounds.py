"""The bounds of a policy to which nobody gave any: the range of the recorded actions, and a margin around it.

The first action of a cold start lies within what experts did in the first frames of the recordings, without a margin.

Policies get them when they are learned. While they are, only bounds that were given cut actions off: behind others a
policy that diverges would look like one that errs a little, and Equation 8 would mix it in.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.data.demonstrations import Demonstrations
from simile.data.recorded import ActionSpace, Recorded, Units
from simile.policies.policies import Policy

MARGIN = 0.1  # of the range, on either side: the smallest that costs hardly any accuracy (docs/default.md)
ENDS = (np.minimum, np.maximum) * 2  # of all actions, and of the first ones
SMALLEST = 1e-9  # of the largest action: an action that never moved has bounds, too


def choose_space(demos: Recorded, space: ActionSpace | None = None, initial: Policy | None = None) -> ActionSpace:
    """Return the bounds of what is learned from demonstrations, and where a cold start begins.

    Bounds that were given are kept as they are, those of the policy to go on from, too. Bounds that it had learned are
    widened by the demonstrations.
    """
    found = learn_space(demos)
    known = initial.space if space is None and initial is not None else space
    if known is None:
        return found
    if space is None and known.learned:
        return known.unite(found)
    demos.check(known)
    if space is not None and space.first_low is not None:
        return space
    return known.unite(replace(known, first_low=found.first_low, first_high=found.first_high))


def bound_training(space: ActionSpace, units: Units) -> ActionSpace:
    """Return the bounds that hold while a policy is learned, in standard units: none where they are learned, too."""
    return ActionSpace() if space.learned else space.standardize(units)


def learn_space(demos: Recorded, margin: float | None = None) -> ActionSpace:
    """Return the range of the recorded actions, widened by a share of it, and the range of the first ones."""
    found: ActionSpace = demos.over("moments", _widen, MARGIN if margin is None else margin)
    return found


def learn_without(demos: Recorded, folds: IntArray) -> list[ActionSpace]:
    """Return, for each fold, the bounds that the sequences of the others would give, in the units that they have."""
    n = int(folds.max()) + 1
    ends = np.stack(demos.collect(_reach, demos.deal(folds), shared=(n,)))  # (parts, folds, 4, k)
    others = [np.delete(ends, fold, axis=1) for fold in range(n)]
    return [_make_room(*(f.reduce(some[:, :, i], axis=(0, 1)) for i, f in enumerate(ENDS))) for some in others]


def _widen(moments: FloatArray, margin: float) -> ActionSpace:
    """Return the bounds by the moments of each sequence, see `Demonstrations.moments`."""
    _, _, lows, highs, first = np.moveaxis(moments, 1, 0)
    return _make_room(lows.min(axis=0), highs.max(axis=0), first.min(axis=0), first.max(axis=0), margin)


def _make_room(
    low: FloatArray, high: FloatArray, first_low: FloatArray, first_high: FloatArray, margin: float = MARGIN
) -> ActionSpace:
    """Return the bounds around the lowest and the highest actions."""
    with np.errstate(over="ignore"):
        room = np.maximum(margin * (high - low), SMALLEST * np.maximum(np.abs(low), np.abs(high)))
        room = np.where(room > 0.0, room, SMALLEST)
        sides = low - room, high + room
    return ActionSpace(*sides, first_low=first_low, first_high=first_high, learned=True)


# What runs where a part is.


def _reach(demos: Demonstrations, folds: IntArray, n: int) -> FloatArray:
    """Return the lowest and the highest action of each fold, and of its first actions, (n, 4, k)."""
    found = np.array([[np.inf, -np.inf, np.inf, -np.inf]] * n)[:, :, np.newaxis] * np.ones(demos.n_actions)
    for fold, actions in zip(folds, demos.actions, strict=True):
        ends = actions.min(axis=0), actions.max(axis=0), actions[0], actions[0]
        found[fold] = [f(a, b) for f, a, b in zip(ENDS, found[fold], ends, strict=True)]
    return found
