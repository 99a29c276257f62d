"""Random numbers of a tree: which rows are in its bag, and which features a node tries.

Every node draws from a stream of its own, so that a tree does not depend on the order in which its nodes are split.
"""

from __future__ import annotations

import numpy as np

from simile.models.kernels.compiling import inner, kernel


@inner
def _advance(state):
    """Advance a splitmix64 generator; returns the new state and 64 random bits."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state, z ^ (z >> np.uint64(31))


@kernel
def branch(stream):
    """Return the streams of the left and the right child of a node, far from its own and from each other."""
    _, left = _advance(stream ^ np.uint64(0xD1B54A32D192ED03))
    _, right = _advance(stream ^ np.uint64(0x8CB92BA72F3D8DD7))
    return left, right


@inner
def draw_feature(stream, drawn, order, places):
    """Draw one more feature without replacement, to order[drawn]; places[drawn] is where it lay. Returns the stream.

    `order` numbers all features, and must again before another node draws: order[i] = i, for all i and places.
    """
    stream, bits = _advance(stream)
    place = drawn + np.int64(bits % np.uint64(len(order) - drawn))
    order[drawn], order[place] = order[place], order[drawn]
    places[drawn] = place
    return stream


@kernel
def draw_bag(n, seed, first, counts):
    """Draw n of n things with replacement; `counts`, zero at first, is how often those from the first on were drawn."""
    state, end = np.uint64(seed), first + len(counts)
    for _ in range(n):
        state, bits = _advance(state)
        pick = np.int64(bits % np.uint64(n))
        if first <= pick < end:
            counts[pick - first] += 1


@kernel
def measure_bag(times, base, largest):
    """Raise `largest` (channels,), zero at first, to the largest absolute value of `base` (n, channels) in a bag."""
    for i in range(len(times)):
        if times[i] > 0:
            for c in range(base.shape[1]):
                size = abs(base[i, c])
                if size > largest[c]:
                    largest[c] = size


@kernel
def take_bag(times, positions, base, units, rows, payload):
    """Write the rows in a bag, those with `times` (n,) above zero, and their payload; returns how many there are.

    The payload is `base` (n, channels), rounded to units, times its `times`.
    """
    at = 0
    for i in range(len(times)):
        if times[i] > 0:
            rows[at] = positions[i]
            for c in range(base.shape[1]):
                payload[at, c] = np.rint(base[i, c] / units[c]) * units[c] * times[i]
            at += 1
    return at
