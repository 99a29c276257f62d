"""Random numbers of a tree: which rows are in its bag, and which features a node tries.

Every node draws from a stream of its own, so that a tree does not depend on the order in which its nodes are split.
"""

from __future__ import annotations

import numpy as np

from simile.models.kernels.compiling import inner, kernel

GAMMA, MIX = np.uint64(0x9E3779B97F4A7C15), (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # splitmix64
AT_ONCE = 16_384  # numbers drawn at a time: they stay in the cache


@inner
def _advance(state):
    """Advance a splitmix64 generator; returns the new state and 64 random bits."""
    state = state + GAMMA
    z = state
    z = (z ^ (z >> np.uint64(30))) * MIX[0]
    z = (z ^ (z >> np.uint64(27))) * MIX[1]
    return state, z ^ (z >> np.uint64(31))


def _branch(stream):
    """Return the streams of the left and the right child of a node, far from its own and from each other."""
    _, left = _advance(stream ^ np.uint64(0xD1B54A32D192ED03))
    _, right = _advance(stream ^ np.uint64(0x8CB92BA72F3D8DD7))
    return left, right


branch, inner_branch = kernel(_branch), inner(_branch)


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


def draw_counts(n: int, seed: int, first: int, size: int, draws: range | None = None) -> np.ndarray:
    """Draw n of n things with replacement; returns how often each of `size` things from the first on was drawn.

    The generator is `_advance`, whose n-th state is known without those before it: NumPy can draw many at once, numba
    need not compile a kernel for it, and some of the n draws can be made without the others.
    """
    counts, draws = np.zeros(size, np.int32), range(n) if draws is None else draws
    for begin in range(draws.start, draws.stop, AT_ONCE):
        z = np.arange(begin + 1, min(begin + AT_ONCE, draws.stop) + 1, dtype=np.uint64) * GAMMA + np.uint64(seed)
        z ^= z >> np.uint64(30)
        z *= MIX[0]
        z ^= z >> np.uint64(27)
        z *= MIX[1]
        z ^= z >> np.uint64(31)
        picks = (z % np.uint64(n)).astype(np.int64) - first
        np.add.at(counts, picks if size == n else picks[(picks >= 0) & (picks < size)], np.int32(1))
    return counts
