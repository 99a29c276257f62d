"""Find the best split of a node in the histogram of a feature.

Sums per bin are all a split needs. The payload holds, for each training row, what is to be summed: its weight, its
weighted labels (k of them; their mean is the leaf value v), its weighted goals (k) and its weighted square (1). With
goals g the impurity of a leaf is sum_i q_i - 2 v g_i + penalty v^2, so goals = labels and penalty = 1 is CART, and
g = a^ + lambda h(s) and penalty = 1 + lambda is the smooth impurity of Appendix B. Goals may be left out where they are
the labels, and squares where children are not weighed by their size.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from simile.models.kernels.binning import MISSING
from simile.models.kernels.compiling import ONE, TWO, ZERO, inner, kernel


class Rules(NamedTuple):
    """How the nodes of a forest are split."""

    k: int  # labels
    goals: int  # the channel of the payload where the goals begin: that of the labels where they are the labels
    penalty: float  # the factor of v^2 in the impurity of a leaf
    weigh: bool  # whether children are weighed by their size, as printed
    max_features: int  # how many features a node tries
    min_leaf: float  # least weight of a leaf


class Room(NamedTuple):
    """Arrays to work in, which are made once for many nodes."""

    met: Any  # (256,) bins that are not empty
    sums: Any  # (2, channels, 256) of the left and the right child, for a split at each of them
    worth: Any  # (2, 256)


def make_room(channels: int) -> Room:
    """Make room for the bins of a feature."""
    return Room(np.empty(256, np.uintp), np.empty((2, channels, 256)), np.empty((2, 256)))


@inner
def weigh_leaves(sums, begin, end, rules, out):
    """Write to `out` what leaves with sums (channels, n) are worth; the best split maximises that of its two children.

    The worth is how far the impurity lies below the sum of squares, which cancels between a node and its children;
    only children weighed by their size need the squares themselves.
    """
    sizes = sums[0]  # plain rows, and indices without a sign, make vectors of the loops
    for i in range(begin, end):
        out[i] = 0.0
    for j in range(rules.k):
        labels, goals = sums[1 + j], sums[rules.goals + j]
        for i in range(begin, end):
            v = labels[i] / sizes[i]
            out[i] += 2.0 * v * goals[i] - rules.penalty * sizes[i] * v * v
    if rules.weigh:
        squares = sums[1 + 2 * rules.k]
        for i in range(begin, end):
            out[i] = sizes[i] * (out[i] - squares[i])


@inner
def find_split(hist, total, rules, room):
    """Scan the bins of one feature, and empty them; `hist` (256, channels) and `total` (channels,) are of the node.

    Returns (score, bin, missing goes right, whether the feature is no constant), the score -inf where nothing splits.
    """
    met, left, right = room.met, room.sums[0], room.sums[1]
    channels, n_met = np.uintp(hist.shape[1]), ZERO
    for b in range(np.uintp(MISSING)):
        met[n_met] = b
        n_met += np.uintp(hist[b, ZERO] > 0.0)
    missing = hist[MISSING, 0] > 0.0
    varies = n_met > (0 if missing else 1)
    best, best_bin, best_right = -np.inf, -1, False
    if varies and channels == 2 and not missing:  # the usual case, with one division a bin
        n, label = 0.0, 0.0
        for i in range(n_met - ONE):
            n += hist[met[i], ZERO]
            label += hist[met[i], ONE]
            rest, other = total[0] - n, total[1] - label
            worth = (label * label * rest + other * other * n) / (n * rest)
            if worth > best and n >= rules.min_leaf and rest >= rules.min_leaf:
                best, best_bin = worth, np.int64(met[i])
    elif varies:
        for side in range(2 if missing else 1):  # side 0: missing goes right (or there is none); side 1: left
            for c in range(ZERO, channels, TWO):
                first, second = 0.0, 0.0
                if side == 1:
                    first, second = hist[MISSING, c], hist[MISSING, c + ONE]
                for i in range(n_met):
                    first += hist[met[i], c]
                    second += hist[met[i], c + ONE]
                    left[c, i], left[c + ONE, i] = first, second
                    right[c, i], right[c + ONE, i] = total[c] - first, total[c + ONE] - second
            begin, end = ZERO, n_met
            while begin < end and left[0, begin] < rules.min_leaf:
                begin += ONE
            while begin < end and right[0, end - ONE] < rules.min_leaf:
                end -= ONE
            for child in range(2):
                weigh_leaves(room.sums[child], begin, end, rules, room.worth[child])
            for i in range(begin, end):
                worth = room.worth[0, i] + room.worth[1, i]
                if worth > best:
                    best, best_bin, best_right = worth, np.int64(met[i]), missing and side == 0
    for b in range(MISSING + 1):
        for c in range(channels):
            hist[b, c] = 0.0
    return best, best_bin, best_right, varies


def measure_gain(best: float, total: Any, rules: Rules) -> tuple[float, bool]:
    """Return by how much the best split lowers the impurity, and whether the node is to be split.

    The smooth impurity may rise at the best split (its gain is then negative): the paper still splits. CART's never
    rises, and a node where it does not fall is pure.
    """
    before, size = 0.0, total[0]
    for j in range(rules.k):  # `weigh_leaves` for the node itself
        v = total[1 + j] / size
        before += 2.0 * v * total[rules.goals + j] - rules.penalty * size * v * v
    if rules.weigh:
        before = size * (before - total[1 + 2 * rules.k])
        return (best - before) / size, True
    gain = best - before
    if rules.penalty == 1.0 and gain <= 1e-12 * abs(before):
        return 0.0, False
    return gain, True


inner_gain = inner(measure_gain)


@partial(kernel, makes_arrays=True)
def try_features(where, met, sums, nodes, features, total, rules, room, tried, best, lefts):
    """Look for better splits of some nodes in the histograms of features (nodes, drawn) that they drew.

    Per node of the level: `total` (channels,) its sums, `tried` how many features it has tried, `best` its best split
    so far (score, feature, bin, missing goes right), `lefts` (channels,) the sums on the left of it. The last three
    are brought up to date.
    """
    channels = sums.shape[1]
    hist = np.zeros((256, channels))
    for i, node in enumerate(nodes):
        for j in range(features.shape[1]):
            if tried[node] == rules.max_features:
                continue
            begin, end = where[i * features.shape[1] + j], where[i * features.shape[1] + j + 1]
            for e in range(begin, end):
                for c in range(channels):
                    hist[met[e], c] = sums[e, c]
            worth, b, goes_right, varies = find_split(hist, total[node], rules, room)
            tried[node] += varies  # a constant feature is no try
            if worth > best[node, 0]:
                best[node, 0], best[node, 1], best[node, 2], best[node, 3] = worth, features[i, j], b, goes_right
                lefts[node] = 0.0
                for e in range(begin, end):
                    if (met[e] == MISSING and not goes_right) or (met[e] != MISSING and met[e] <= b):
                        for c in range(channels):
                            lefts[node, c] += sums[e, c]
