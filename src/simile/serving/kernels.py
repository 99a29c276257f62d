"""Judge frames of many streams as they come: the running shares and levels by which a monitor knows trouble."""

from __future__ import annotations

from functools import partial

import numpy as np

from simile.models.kernels.compiling import inner, kernel

DRIFT, STUCK, SATURATED, OSCILLATING = range(4)  # columns of levels, limits and `on`

# What is known of a stream of m contexts and k actions.
# `x` and `peak` are NaN until there was one; `way` is 1 where an action goes up, -1 where down, 0 at first.


@inner
def judge_context(x, low, high, keep, last, outside):
    """Blend which of the contexts x (m,) lie outside into their shares; tells whether x is `last`."""
    same = True
    for j in range(len(x)):
        value = x[j]
        outside[j] = keep * outside[j] + (1.0 - keep) * (value < low[j] or value > high[j])
        if value != last[j] and not (np.isnan(value) and np.isnan(last[j])):
            same = False
        last[j] = value
    return same


@inner
def judge_action(a, floor, ceiling, swing, keep, bound, turns, peak, way):
    """Blend which actions (k,) are at a bound, and which have gone back by a swing from their furthest point."""
    for j in range(len(a)):
        value, turned = a[j], False
        if np.isnan(peak[j]):
            peak[j] = value
        away = value - peak[j]
        if way[j] * away > 0.0:
            peak[j] = value
        elif abs(away) > swing[j]:
            turned = way[j] != 0.0
            peak[j], way[j] = value, np.sign(away)
        bound[j] = keep * bound[j] + (1.0 - keep) * (value <= floor[j] or value >= ceiling[j])
        turns[j] = keep * turns[j] + (1.0 - keep) * turned


@partial(kernel, makes_arrays=True)
def judge(slots, X, A, ranges, bounds, keeps, limits, rate, contexts, actions, same, seen, on, changes):
    """Judge a frame of each of the streams in `slots`; returns how many troubles began or ended.

    Parameters
    ----------
    X, A : (n, m) and (n, k) arrays
        Contexts, all NaN where none came; X is empty where none came to anybody. Actions.
    ranges, bounds : (2, m) and (3, k) arrays
        Low and high; floor, ceiling and swing.
    keeps, limits : (2,) and (2, 4) arrays
        What a frame leaves of the shares of contexts and actions; what turns trouble on, and what keeps it on.
    contexts, actions : (streams, 2, m) and (streams, 4, k) arrays
        Last contexts and shares outside; shares at a bound and of turns, peak and way.
    same, seen, on : (streams,), (streams,) and (streams, 4) arrays
        Frames in a row with one context; whether there was one; what is on.
    changes : (4 n, 4) array
        Receives slot, kind, whether it is on, and the level.
    """
    n_changes, levels = 0, np.empty(4)
    for i in range(len(slots)):
        s = slots[i]
        if len(X) and not np.isnan(X[i]).all():
            alike = judge_context(X[i], ranges[0], ranges[1], keeps[0], contexts[s, 0], contexts[s, 1])
            same[s] = same[s] + 1 if alike else 0
            seen[s] = True
        bound, turns = actions[s, 0], actions[s, 1]
        judge_action(A[i], bounds[0], bounds[1], bounds[2], keeps[1], bound, turns, actions[s, 2], actions[s, 3])
        levels[DRIFT] = contexts[s, 1].max() if contexts.shape[2] else 0.0
        levels[STUCK] = same[s] / rate
        levels[SATURATED] = bound.max()
        levels[OSCILLATING] = turns.max() * rate
        for kind in range(4):
            now = levels[kind] >= limits[np.intp(on[s, kind]), kind]
            if now != on[s, kind]:
                on[s, kind] = now
                changes[n_changes, 0], changes[n_changes, 1] = s, kind
                changes[n_changes, 2], changes[n_changes, 3] = now, levels[kind]
                n_changes += 1
    return n_changes
