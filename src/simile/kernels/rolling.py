"""Send states down many trees, and roll a policy out with no Python in between.

A state is a place on a flat tape Z of float32 frames, W columns each: the feature of a node is read at an offset
from that place, so no state is ever copied. A node is 12 bytes; the children of a node lie side by side, a leaf
is its own child, and all trees take a step together, so that the loads of one overlap the work of another.
"""

from __future__ import annotations

import numba as nb
import numpy as np

# `child` is the left child, or its complement (~child) where missing values go right.
NODE = np.dtype([("threshold", np.float32), ("offset", np.int32), ("child", np.int32)])


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
def roll(nodes, roots, depths, values, coefficients, smoothness, low, high, limit, Z, actions, first, begin, end):
    """Roll sequences out, all in step: frames begin[s] to end[s] of sequence s, whose frame 0 is row first[s].

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
                a = min(max((f[s, j] + smoothness * h) / (1.0 + smoothness), low[j]), high[j])
                actions[row, j] = a
                Z[row * W + W - k + j] = a
                if not (abs(a) <= limit):
                    return s, t
    return -1, -1
