"""Roll a policy out with no Python in between, over whole sequences or one frame of many streams."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from simile.models.kernels.compiling import kernel
from simile.models.kernels.predicting import BLOCK, Lines, Trees, predict


class Control(NamedTuple):
    """A policy in standard units: f is the sum of all trees and terms, of which there may be none; h is linear."""

    trees: Trees
    lines: Lines
    coefficients: Any  # (order, k) of h
    smoothness: Any  # (k,) lambda
    low: Any  # (k,) bounds of an action
    high: Any  # (k,)
    limit: float  # actions beyond it are no actions any more
    share: Any  # (k,) of the offset; all 0 where there is none
    fade: Any  # (k,)


class Streams(NamedTuple):
    """The recent past of streams: tapes of as many rows for each, one after the other."""

    Z: Any  # (streams * rows * W,) float32, the actions in the last k columns
    actions: Any  # (streams * rows, k)
    row: Any  # (streams,) the next row of each tape
    frame: Any  # (streams,) frames taken
    missed: Any  # (streams,) frames in a row that it missed
    stand: Any  # (streams, 2, k) what was done last, in standard units, and the offset of the next frame
    reach: int  # rows that the policy looks back
    ahead: int  # rows that the contexts are ahead of the actions; below 0 behind


class Desk(NamedTuple):
    """Arrays to work in: numba takes long to compile how they are made."""

    at: Any  # (BLOCK,) the leaves where a state arrives
    f: Any  # (sequences, k) what f says
    places: Any  # (sequences,) where on the tape
    running: Any  # (sequences,) those that have not ended
    offset: Any  # (sequences, k) what is added to f next; NaN where that is to be taken anew
    first: Any  # (2, k) bounds of the first frame of each sequence; (0, k) where it has none of its own


def make_desk(n: int, k: int, first: Any = None) -> Desk:
    """Make room for n sequences of k actions; `first` are the bounds of the first frame, where it has its own."""
    places, running, bounds = np.empty(n, np.int64), np.empty(n, np.int64), np.empty((0, k)) if first is None else first
    return Desk(np.empty(BLOCK, np.int32), np.empty((n, k)), places, running, np.full((n, k), np.nan), bounds)


@kernel
def roll(control, Z, actions, first, begin, end, desk):
    """Roll sequences out, all in step: frames begin[s] to end[s] of sequence s, whose frame 0 is row first[s].

    `actions` (rows, k) and the last k columns of Z hold the past and receive the new actions. Returns the sequence
    that diverged first and its frame, or -1 twice.
    """
    k, W = actions.shape[1], len(Z) // len(actions)
    at, f, places, running, offset, bounds = desk
    keeps, last = False, 0
    for j in range(k):
        keeps |= control.share[j] > 0.0
    for s in range(len(first)):
        last = end[s] if end[s] > last else last
    for t in range(last):
        n = np.int64(0)
        for s in range(len(first)):
            if begin[s] <= t < end[s]:
                running[n], places[n] = s, (first[s] + t) * W
                n += 1
        predict(control.trees, control.lines, Z, places, n, at, f)
        for i in range(n):
            row = first[running[i]] + t
            for j in range(k):
                h = actions[row - 1, j] * control.coefficients[0, j]
                for lag in range(1, len(control.coefficients)):
                    h += actions[row - 1 - lag, j] * control.coefficients[lag, j]
                z = f[i, j]
                if keeps:
                    d = offset[running[i], j]
                    if np.isnan(d):
                        d = control.share[j] * (actions[row - 1, j] - z)
                    offset[running[i], j] = control.fade[j] * d
                    z += d
                a = (z + control.smoothness[j] * h) / (1.0 + control.smoothness[j])
                a = min(max(a, control.low[j]), control.high[j])
                if len(bounds) > 0 and t == begin[running[i]]:
                    a = min(max(a, bounds[0, j]), bounds[1, j])
                actions[row, j] = a
                Z[row * W + W - k + j] = a
                if not (abs(a) <= control.limit):
                    return running[i], t
    return -1, -1


@kernel
def make_room(past, streams):
    """Move the last rows of every tape that is full to its front: `reach` of them, and contexts that came ahead."""
    Z, actions, row, reach = past.Z, past.actions, past.row, past.reach
    wait = max(0, past.ahead)
    rows = len(actions) // len(row)
    W = len(Z) // len(actions)
    for s in streams:
        if row[s] + wait == rows:
            front, last = s * rows, (s + 1) * rows - wait - reach
            # Forwards: where the two overlap, a row is read before it is written.
            for i in range((reach + wait) * W):
                Z[front * W + i] = Z[last * W + i]
            for i in range(reach):
                for j in range(actions.shape[1]):
                    actions[front + i, j] = actions[last + i, j]
            row[s] = reach


@partial(kernel, makes_arrays=True)
def advance(
    nodes,
    roots,
    depths,
    values,
    missing_right,
    terms,
    slopes,
    coefficients,
    smoothness,
    low,
    high,
    limit,
    Z,
    actions,
    row,
    frame,
    missed,
    stand,
    reach,
    ahead,
    units,
    streams,
    X,
    out,
):
    """Take one frame of some streams, with contexts X (n, m), by `roll`; `out` (n, k) is in the user's units.

    The parts of `Control` and `Streams` come one by one, for numba takes longer to look at a tuple, and this is done in
    every frame. `units` holds center, scale, floor, ceiling, width of the hold and 1 where it steps, share and fade of
    the offset (k,), and then how large contexts may be (m,), in one array: each array handed over takes time.
    Returns which of the streams diverged first, and then none has moved on; or -1, or -2 where a context is too large.
    """
    n, k, answer = len(streams), out.shape[1], -1
    trees, lines = Trees(nodes, roots, depths, values, missing_right), Lines(terms, slopes)
    share, fade = units[6 * k : 7 * k], units[7 * k : 8 * k]
    control = Control(trees, lines, coefficients, smoothness, low, high, limit, share, fade)
    past = Streams(Z, actions, row, frame, missed, stand, reach, ahead)
    make_room(past, streams)
    if n == 0:  # a call to have it compiled
        return -1
    rows = len(past.actions) // len(past.row)
    W = len(past.Z) // len(past.actions)
    first, begin, end = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        first[i], begin[i], end[i] = streams[i] * rows + past.row[streams[i]], 0, 1
        for j in range(X.shape[1]):
            past.Z[(first[i] + ahead) * W + j] = X[i, j]
            if abs(X[i, j]) > units[8 * k + j]:
                answer = -2
    at, f, places, offset = np.empty(BLOCK, np.int32), np.empty((n, k)), np.empty(n, np.int64), np.empty((n, k))
    for i in range(n):
        for j in range(k):
            offset[i, j] = past.stand[streams[i], 1, j]
    desk = Desk(at, f, places, np.empty(n, np.int64), offset, np.empty((0, k)))
    lost, _ = roll(control, past.Z, past.actions, first, begin, end, desk)
    if lost >= 0:
        return lost
    for i in range(n):
        s = streams[i]
        past.row[s] += 1
        past.frame[s] += 1
        past.missed[s] = 0
        for j in range(k):
            a, y, width = past.actions[first[i], j], past.stand[s, 0, j], units[4 * k + j]
            if units[5 * k + j] == 0.0:
                y = min(max(y, a - width), a + width)
            elif abs(a - y) > width:
                y = a
            past.stand[s, 0, j], past.stand[s, 1, j] = y, offset[i, j]
            out[i, j] = min(max(y * units[k + j] + units[j], units[2 * k + j]), units[3 * k + j])
    return answer
