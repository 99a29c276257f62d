"""Roll a policy out with no Python in between, over whole sequences or one frame of many streams."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from simile.models.kernels.compiling import kernel
from simile.models.kernels.predicting import BLOCK, Lines, Trees, add_terms, descend


class Control(NamedTuple):
    """A policy in standard units: f is the sum of all trees and terms, of which there may be none; h is linear."""

    trees: Trees
    lines: Lines
    coefficients: Any  # (order, k) of h
    smoothness: float
    low: Any  # (k,) bounds of an action
    high: Any  # (k,)
    limit: float  # actions beyond it are no actions any more


class Streams(NamedTuple):
    """The recent past of streams: tapes of as many rows for each, one after the other."""

    Z: Any  # (streams * rows * W,) float32, the actions in the last k columns
    actions: Any  # (streams * rows, k)
    row: Any  # (streams,) the next row of each tape
    frame: Any  # (streams,) frames taken
    missed: Any  # (streams,) frames in a row that it missed
    reach: int  # rows that the policy looks back


@kernel
def roll(control, Z, actions, first, begin, end):
    """Roll sequences out, all in step: frames begin[s] to end[s] of sequence s, whose frame 0 is row first[s].

    `actions` (rows, k) and the last k columns of Z hold the past and receive the new actions. Returns the sequence
    that diverged first and its frame, or -1 twice.
    """
    trees, k = control.trees, actions.shape[1]
    W = len(Z) // len(actions)
    at = np.empty(BLOCK, np.int32)
    f = np.empty((len(first), k))
    last = 0
    for s in range(len(first)):
        last = end[s] if end[s] > last else last
    for t in range(last):
        for s in range(len(first)):
            for j in range(k):
                f[s, j] = 0.0
        for head in range(0, len(trees.roots), BLOCK):
            tail = min(head + BLOCK, len(trees.roots))
            for s in range(len(first)):
                if begin[s] <= t < end[s]:
                    descend(trees, head, tail, Z, (first[s] + t) * W, at)
                    for tree in range(tail - head):
                        for j in range(k):
                            f[s, j] += trees.values[at[tree], j]
        for s in range(len(first)):
            if t < begin[s] or t >= end[s]:
                continue
            row = first[s] + t
            for j in range(k):
                h = actions[row - 1, j] * control.coefficients[0, j]
                for i in range(1, len(control.coefficients)):
                    h += actions[row - 1 - i, j] * control.coefficients[i, j]
                total = f[s, j] + add_terms(control.lines, j, Z, row * W)
                a = (total + control.smoothness * h) / (1.0 + control.smoothness)
                a = min(max(a, control.low[j]), control.high[j])
                actions[row, j] = a
                Z[row * W + W - k + j] = a
                if not (abs(a) <= control.limit):
                    return s, t
    return -1, -1


@kernel
def make_room(past, streams):
    """Move the last `reach` rows of every tape that is full to its front."""
    Z, actions, row, reach = past.Z, past.actions, past.row, past.reach
    rows = len(actions) // len(row)
    W = len(Z) // len(actions)
    for s in streams:
        if row[s] == rows:
            front, last = s * rows, (s + 1) * rows - reach
            # Forwards: where the two overlap, a row is read before it is written.
            for i in range(reach * W):
                Z[front * W + i] = Z[last * W + i]
            for i in range(reach):
                for j in range(actions.shape[1]):
                    actions[front + i, j] = actions[last + i, j]
            row[s] = reach


@kernel
def advance(
    nodes,
    roots,
    depths,
    values,
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
    reach,
    units,
    streams,
    X,
    out,
):
    """Take one frame of some streams, with contexts X (n, m), by `roll`; `out` (n, k) is in the user's units.

    The parts of `Control` and `Streams` come one by one, for numba takes longer to look at a tuple, and this is done in
    every frame. `units` (4, k) holds center, scale, floor and ceiling in one array: each array handed over takes time.
    Returns which of the streams diverged first, and then none has moved on; or -1.
    """
    trees, lines = Trees(nodes, roots, depths, values), Lines(terms, slopes)
    control = Control(trees, lines, coefficients, smoothness, low, high, limit)
    past = Streams(Z, actions, row, frame, missed, reach)
    make_room(past, streams)
    n = len(streams)
    if n == 0:  # a call to have it compiled
        return -1
    rows = len(past.actions) // len(past.row)
    W = len(past.Z) // len(past.actions)
    first, begin, end = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        first[i], begin[i], end[i] = streams[i] * rows + past.row[streams[i]], 0, 1
        for j in range(X.shape[1]):
            past.Z[first[i] * W + j] = X[i, j]
    lost, _ = roll(control, past.Z, past.actions, first, begin, end)
    if lost >= 0:
        return lost
    for i in range(n):
        s = streams[i]
        past.row[s] += 1
        past.frame[s] += 1
        past.missed[s] = 0
        for j in range(out.shape[1]):
            out[i, j] = min(max(past.actions[first[i], j] * units[1, j] + units[0, j], units[2, j]), units[3, j])
    return -1
