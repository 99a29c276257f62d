"""Grow regression trees on binned base columns, reading lagged features at row offsets.

Sums per bin are all a split needs. `payload` holds, for each training row, what is to be summed: its weight, its
weighted labels (k of them; their mean is the leaf value v), its weighted goals (k) and its weighted square (1). With
goals g the impurity of a leaf is sum_i q_i - 2 v g_i + curb v^2, so goals = labels and curb = 1 is CART, and
g = a^ + lambda h(s) and curb = 1 + lambda is the smooth impurity of Appendix B. Goals may be left out where they are
the labels, and squares where children are not weighed by their size.
"""

from __future__ import annotations

import numba as nb
import numpy as np

MISSING = 255  # the bin of a missing value


@nb.njit(cache=True, inline="always")
def _next(state):
    """Advance a splitmix64 generator; returns the new state and 64 random bits."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state, z ^ (z >> np.uint64(31))


@nb.njit(cache=True, nogil=True)
def draw(starts, by_sequence, seed, counts):
    """Draw a bag with replacement: how often each row is in it, row by row or sequence by sequence.

    `starts` (sequences + 1,) tells where each sequence begins among the rows.
    """
    state = np.uint64(seed)
    counts[:] = 0
    n_draws = len(starts) - 1 if by_sequence else len(counts)
    for _ in range(n_draws):
        state, bits = _next(state)
        pick = np.int64(bits % np.uint64(n_draws))
        if by_sequence:
            for row in range(starts[pick], starts[pick + 1]):
                counts[row] += 1
        else:
            counts[pick] += 1


@nb.njit(cache=True)
def score(sums, k, curb, weigh):
    """Return what a leaf with these sums is worth; the best split maximises the sum over its two children.

    The worth is how far the impurity lies below the sum of squares, which cancels between a node and its children;
    only children weighed by their size (`weigh`, the printed form) need the squares themselves.
    """
    n = sums[0]
    goals = 1 + k if len(sums) > 1 + k else 1
    worth = 0.0
    for j in range(k):
        v = sums[1 + j] / n
        worth += 2.0 * v * sums[goals + j] - curb * n * v * v
    return n * (worth - sums[1 + 2 * k]) if weigh else worth


@nb.njit(cache=True)
def histogram(bins, shift, rows, payload, begin, end, hist):
    """Add the payload of rows[begin:end] to the bins of one feature: `bins` (R,) is its column, `shift` its lag.

    Returns the lowest and the highest bin met, missing values aside, and whether any is missing.
    """
    low, high, missing = 256, -1, False
    channels = payload.shape[1]
    if channels == 2:  # the usual case, unrolled, and with unsigned indices, which need no test for negative ones
        for i in range(np.uintp(begin), np.uintp(end)):
            b = np.uintp(bins[np.uintp(rows[i] - shift)])
            hist[b, 0] += payload[i, 0]
            hist[b, 1] += payload[i, 1]
    else:
        for i in range(begin, end):
            b = bins[rows[i] - shift]
            for c in range(channels):
                hist[b, c] += payload[i, c]
    if end - begin < 128:  # fewer rows than bins to look through
        for i in range(begin, end):
            b = np.int64(bins[rows[i] - shift])
            if b != MISSING:
                low, high = min(low, b), max(high, b)
    else:
        for b in range(MISSING):
            if hist[b, 0] > 0.0:
                low = min(low, b)
                high = b
    missing = hist[MISSING, 0] > 0.0
    return low, high, missing


@nb.njit(cache=True)
def best_split(hist, low, high, missing, total, k, curb, weigh, min_leaf, left, right):
    """Scan the bins of one feature; returns (score, bin, missing goes right), the score -inf where nothing splits."""
    best, best_bin, best_right = -np.inf, -1, False
    channels = hist.shape[1]
    if channels == 2 and not missing:  # the usual case, with one division a bin
        n, label = 0.0, 0.0
        for b in range(np.uintp(low), np.uintp(high)):
            if hist[b, 0] == 0.0:
                continue
            n += hist[b, 0]
            label += hist[b, 1]
            if n < min_leaf:
                continue
            rest, other = total[0] - n, total[1] - label
            if rest < min_leaf:
                break
            worth = (label * label * rest + other * other * n) / (n * rest)
            if worth > best:
                best, best_bin = worth, np.int64(b)
        return best, best_bin, False
    for side in range(2 if missing else 1):  # side 0: missing goes right (or there is none); side 1: left
        for c in range(channels):
            left[c] = hist[MISSING, c] if side == 1 else 0.0
        # With missing values on the right, all others on the left is a split too.
        last = high if (missing and side == 0) else high - 1
        for b in range(low, last + 1):
            if hist[b, 0] == 0.0:
                continue
            for c in range(channels):
                left[c] += hist[b, c]
            if left[0] < min_leaf:
                continue
            if total[0] - left[0] < min_leaf:
                break
            for c in range(channels):
                right[c] = total[c] - left[c]
            worth = score(left, k, curb, weigh) + score(right, k, curb, weigh)
            if worth > best:
                best, best_bin, best_right = worth, b, missing and side == 0
    return best, best_bin, best_right


@nb.njit(cache=True, nogil=True)
def grow(
    bins,  # (W, R) uint8: base columns, missing is 255
    columns,  # (F,) base column of each feature
    lags,  # (F,) its lag in rows
    rows,  # (n,) rows to train on; reordered
    payload,  # (n, channels) their sums; reordered
    k,
    curb,
    weigh,
    max_features,
    min_leaf,
    max_depth,
    seed,
    feature,  # out (nodes,) feature of a split, -1 for a leaf
    threshold,  # out (nodes,) highest bin that goes left
    missing_right,  # out (nodes,)
    child,  # out (nodes,) left child; the right one is next to it
    value,  # out (nodes, k) leaf value
    gain,  # out (nodes,) by how much the split lowers the impurity
):
    """Grow one tree depth first; returns the number of nodes and the depth."""
    n, channels = payload.shape
    n_features = len(columns)
    hist = np.zeros((256, channels))
    total, left, right = np.zeros(channels), np.zeros(channels), np.zeros(channels)
    spare_rows, spare_payload = np.empty(n, rows.dtype), np.empty((n, channels))
    order = np.arange(n_features)
    stack = np.empty((2 * max_depth + 4, 4), np.int64)  # node, begin, end, depth
    stack[0] = 0, 0, n, 0
    top, n_nodes, deepest = 1, 1, 0
    state = np.uint64(seed)
    while top > 0:
        top -= 1
        node, begin, end, depth = stack[top]
        for c in range(channels):
            total[c] = 0.0
        for i in range(np.uintp(begin), np.uintp(end)):
            for c in range(channels):
                total[c] += payload[i, c]
        for j in range(k):
            value[node, j] = total[1 + j] / total[0]
        feature[node] = -1
        child[node] = node
        gain[node] = 0.0
        deepest = max(deepest, depth)
        if depth >= max_depth or total[0] < 2.0 * min_leaf:
            continue
        best, best_feature, best_bin, best_right = -np.inf, -1, -1, False
        tried, drawn = 0, 0
        while tried < max_features and drawn < n_features:
            state, bits = _next(state)
            pick = drawn + np.int64(bits % np.uint64(n_features - drawn))
            order[drawn], order[pick] = order[pick], order[drawn]
            f = order[drawn]
            drawn += 1
            column, lag = bins[columns[f]], lags[f]
            low, high, missing = histogram(column, lag, rows, payload, begin, end, hist)
            if low < high or (missing and high >= 0):  # a constant feature does not count as tried
                tried += 1
                worth, b, goes_right = best_split(
                    hist, low, high, missing, total, k, curb, weigh, min_leaf, left, right
                )
                if worth > best:
                    best, best_feature, best_bin, best_right = worth, f, b, goes_right
            hist[low : high + 1] = 0.0
            hist[MISSING] = 0.0
        if best_feature < 0:
            continue
        # The smooth impurity may rise at the best split (its gain is then negative): the paper still splits. CART's
        # never rises, and a node where it does not fall is pure.
        before = score(total, k, curb, weigh)
        gain[node] = (best - before) / total[0] if weigh else best - before
        if curb == 1.0 and not weigh and gain[node] <= 1e-12 * abs(before):
            gain[node] = 0.0
            continue
        column, lag = bins[columns[best_feature]], lags[best_feature]
        kept, moved, one = np.uintp(begin), np.uintp(0), np.uintp(1)
        for i in range(np.uintp(begin), np.uintp(end)):  # stable: rows stay in order, and memory is read forwards
            b = column[np.uintp(rows[i] - lag)]
            if (b == MISSING and not best_right) or (b != MISSING and b <= best_bin):
                rows[kept] = rows[i]
                for c in range(channels):
                    payload[kept, c] = payload[i, c]
                kept += one
            else:
                spare_rows[moved] = rows[i]
                for c in range(channels):
                    spare_payload[moved, c] = payload[i, c]
                moved += one
        rows[kept : kept + moved] = spare_rows[:moved]
        payload[kept : kept + moved] = spare_payload[:moved]
        feature[node], threshold[node], missing_right[node], child[node] = best_feature, best_bin, best_right, n_nodes
        middle = np.int64(kept)
        stack[top] = n_nodes + 1, middle, end, depth + 1
        stack[top + 1] = n_nodes, begin, middle, depth + 1
        top += 2
        n_nodes += 2
    return n_nodes, deepest


@nb.njit(cache=True, nogil=True)
def take(counts, positions, base):
    """Return the rows in the bag and their payload, `base` (n, channels) times how often each is in it."""
    inside = 0
    for i in range(len(counts)):
        inside += counts[i] > 0
    rows, payload = np.empty(inside, positions.dtype), np.empty((inside, base.shape[1]))
    at = 0
    for i in range(len(counts)):
        if counts[i] > 0:
            rows[at] = positions[i]
            for c in range(base.shape[1]):
                payload[at, c] = base[i, c] * counts[i]
            at += 1
    return rows, payload
