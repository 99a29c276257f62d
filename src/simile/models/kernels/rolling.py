"""Send states down many trees and along many lines, and roll a policy out with no Python in between.

A state is a place on a flat tape Z of float32 frames, W columns each: the feature of a node is read at an offset
from that place, so no state is ever copied. A node is 12 bytes; the children of a node lie side by side, a leaf
is its own child, and all trees take a step together, so that the loads of one overlap the work of another. Terms
of a piecewise linear f are read at offsets too; theirs is one sum in one order, so its bits depend on nothing else.
"""

from __future__ import annotations

import numba as nb
import numpy as np

# `child` is the left child, or its complement (~child) where missing values go right.
NODE = np.dtype([("threshold", np.float32), ("offset", np.int32), ("child", np.int32)])
TERM = np.dtype([("knot", np.float64), ("fill", np.float64), ("offset", np.int64)])

BLOCK = 64  # trees whose nodes stay in the cache while one sequence after the other goes down them


@nb.njit(cache=True, nogil=True)
def descend(nodes, roots, depths, begin, end, Z, place, at):
    """Send the state at Z[place] down trees begin to end; `at` receives their leaves. Deepest trees come first."""
    n = end - begin
    for i in range(n):
        at[i] = roots[begin + i]
    for level in range(depths[begin]):
        while n > 0 and depths[begin + n - 1] <= level:
            n -= 1
        for i in range(n):
            node = nodes[np.uintp(at[i])]  # unsigned: an index that may be negative costs a test
            value = Z[np.uintp(place + node["offset"])]
            child = node["child"]
            if child >= 0:
                at[i] = child + (value > node["threshold"])
            else:
                at[i] = ~child + (not (value <= node["threshold"]))


@nb.njit(cache=True, nogil=True)
def predict(nodes, roots, depths, values, Z, places, out):
    """Sum the leaf values of every tree for each state, into out (n, k)."""
    at = np.empty(BLOCK, np.int32)
    out[:] = 0.0
    for begin in range(0, len(roots), BLOCK):
        end = min(begin + BLOCK, len(roots))
        for i in range(len(places)):
            descend(nodes, roots, depths, begin, end, Z, places[i], at)
            for tree in range(end - begin):
                for j in range(out.shape[1]):
                    out[i, j] += values[at[tree], j]


@nb.njit(cache=True, nogil=True)
def line(terms, slopes, j, Z, place):
    """Return the intercept and the sum of all terms for action j, in the state at Z[place].

    `slopes` (1 + terms, k) holds the intercept, then the coefficient of each term.
    """
    total = slopes[0, j]
    for i in range(len(terms)):
        term = terms[i]
        value = np.float64(Z[np.uintp(place + term["offset"])])
        if value != value:  # NaN
            value = term["fill"]
        knot = term["knot"]
        total += slopes[i + 1, j] * (value if value > knot else knot)
    return total


@nb.njit(cache=True, nogil=True)
def predict_lines(terms, slopes, Z, places, out):
    """Sum the terms for each state, into out (n, k)."""
    for i in range(len(places)):
        for j in range(out.shape[1]):
            out[i, j] = line(terms, slopes, j, Z, places[i])


@nb.njit(cache=True, nogil=True)
def roll(
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
    first,
    begin,
    end,
):
    """Roll sequences out, all in step: frames begin[s] to end[s] of sequence s, whose frame 0 is row first[s].

    f is the sum of the leaf values of all trees and of all terms; there may be no trees, or no terms.
    `actions` (rows, k) and the last k columns of Z hold the past and receive the new actions. Returns the sequence
    that diverged first and its frame, or -1 twice.
    """
    k = actions.shape[1]
    W = len(Z) // len(actions)
    order = len(coefficients)
    at = np.empty(BLOCK, np.int32)
    f = np.empty((len(first), k))
    for t in range(end.max()):
        f[:] = 0.0
        for head in range(0, len(roots), BLOCK):
            tail = min(head + BLOCK, len(roots))
            for s in range(len(first)):
                if begin[s] <= t < end[s]:
                    descend(nodes, roots, depths, head, tail, Z, (first[s] + t) * W, at)
                    for tree in range(tail - head):
                        for j in range(k):
                            f[s, j] += values[at[tree], j]
        for s in range(len(first)):
            if t < begin[s] or t >= end[s]:
                continue
            row = first[s] + t
            for j in range(k):
                h = actions[row - 1, j] * coefficients[0, j]
                for i in range(1, order):
                    h += actions[row - 1 - i, j] * coefficients[i, j]
                total = f[s, j] + line(terms, slopes, j, Z, row * W)
                a = min(max((total + smoothness * h) / (1.0 + smoothness), low[j]), high[j])
                actions[row, j] = a
                Z[row * W + W - k + j] = a
                if not (abs(a) <= limit):
                    return s, t
    return -1, -1


@nb.njit(cache=True, nogil=True)
def make_room(Z, actions, row, reach, streams):
    """Move the last `reach` rows of every tape that is full to its front; row[s] is the next one of stream s.

    The tapes of all streams have as many rows and lie one after the other.
    """
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


@nb.njit(cache=True, nogil=True)
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
    units,
    Z,
    actions,
    row,
    frame,
    missed,
    reach,
    streams,
    X,
    out,
):
    """Take one frame of some streams, with contexts X (n, m), by `roll`; `out` (n, k) is in the user's units.

    `units` (4, k) holds center, scale, floor and ceiling in one array: each array handed over takes time. Each stream
    counts its frames, and the frames in a row that it missed. Returns which of the streams diverged first, and then
    none has moved on; or -1.
    """
    make_room(Z, actions, row, reach, streams)
    n = len(streams)
    if n == 0:  # a call to have it compiled
        return -1
    rows = len(actions) // len(row)
    W = len(Z) // len(actions)
    first = np.empty(n, np.intp)
    for i in range(n):
        first[i] = streams[i] * rows + row[streams[i]]
        for j in range(X.shape[1]):
            Z[first[i] * W + j] = X[i, j]
    begin, end = np.zeros(n, np.intp), np.ones(n, np.intp)
    lost, _ = roll(
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
        first,
        begin,
        end,
    )
    if lost >= 0:
        return lost
    for i in range(n):
        s = streams[i]
        row[s] += 1
        frame[s] += 1
        missed[s] = 0
        for j in range(out.shape[1]):
            out[i, j] = min(max(actions[first[i], j] * units[1, j] + units[0, j], units[2, j]), units[3, j])
    return -1
