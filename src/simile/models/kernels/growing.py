"""Grow regression trees on binned base columns, reading lagged features at row offsets.

Sums per bin are all a split needs. `payload` holds, for each training row, what is to be summed: its weight, its
weighted labels (k of them; their mean is the leaf value v), its weighted goals (k) and its weighted square (1). With
goals g the impurity of a leaf is sum_i q_i - 2 v g_i + curb v^2, so goals = labels and curb = 1 is CART, and
g = a^ + lambda h(s) and curb = 1 + lambda is the smooth impurity of Appendix B. Goals may be left out where they are
the labels, and squares where children are not weighed by their size.

A tree depends neither on the order of its rows nor on the order in which its nodes are split: the payload is rounded
so that every sum is exact (`take`), and every node draws features from a stream of its own. So `grow`, depth first
and with all rows at hand, and the functions below it, level by level and with rows in many places, give equal bits.
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


@nb.njit(cache=True)
def branch(stream):
    """Return the streams of the left and the right child of a node, far from its own and from each other."""
    _, left = _next(stream ^ np.uint64(0xD1B54A32D192ED03))
    _, right = _next(stream ^ np.uint64(0x8CB92BA72F3D8DD7))
    return left, right


@nb.njit(cache=True, inline="always")
def _pick(stream, drawn, order):
    """Draw one more feature without replacement, to order[drawn]; returns the stream, and where the feature lay."""
    stream, bits = _next(stream)
    place = drawn + np.int64(bits % np.uint64(len(order) - drawn))
    order[drawn], order[place] = order[place], order[drawn]
    return stream, place


@nb.njit(cache=True, inline="always")
def _put_back(drawn, places, order):
    """Undo the draws of a node, so that the next one draws as if it were the first."""
    for i in range(drawn - 1, -1, -1):
        order[i], order[places[i]] = order[places[i]], order[i]


@nb.njit(cache=True, nogil=True)
def draw(starts, by_sequence, seed, first, counts):
    """Draw a bag with replacement: how often each row is in it, row by row or sequence by sequence.

    `starts` (sequences + 1,) tells where each sequence begins among all rows; `counts` (n,) is of those from `first`.
    """
    state = np.uint64(seed)
    counts[:] = 0
    end = first + len(counts)
    n_draws = len(starts) - 1 if by_sequence else starts[-1]
    for _ in range(n_draws):
        state, bits = _next(state)
        pick = np.int64(bits % np.uint64(n_draws))
        if by_sequence:
            for row in range(max(starts[pick], first), min(starts[pick + 1], end)):
                counts[row - first] += 1
        elif first <= pick < end:
            counts[pick - first] += 1


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


@nb.njit(cache=True)
def gained(best, total, k, curb, weigh):
    """Return by how much the best split lowers the impurity, and whether the node is to be split.

    The smooth impurity may rise at the best split (its gain is then negative): the paper still splits. CART's never
    rises, and a node where it does not fall is pure.
    """
    before = score(total, k, curb, weigh)
    gain = (best - before) / total[0] if weigh else best - before
    if curb == 1.0 and not weigh and gain <= 1e-12 * abs(before):
        return 0.0, False
    return gain, True


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
    order, places = np.arange(n_features), np.empty(n_features, np.int64)
    stack = np.empty((2 * max_depth + 4, 4), np.int64)  # node, begin, end, depth
    streams = np.empty(len(stack), np.uint64)
    stack[0] = 0, 0, n, 0
    streams[0] = seed
    top, n_nodes, deepest = 1, 1, 0
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
        tried, drawn, stream = 0, 0, streams[top]
        while tried < max_features and drawn < n_features:
            stream, places[drawn] = _pick(stream, drawn, order)
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
        _put_back(drawn, places, order)
        if best_feature < 0:
            continue
        gain[node], divides = gained(best, total, k, curb, weigh)
        if not divides:
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
        streams[top + 1], streams[top] = branch(streams[top])
        top += 2
        n_nodes += 2
    return n_nodes, deepest


@nb.njit(cache=True, nogil=True)
def reach(times, base):
    """Return the largest absolute value of each channel of `base` (n, channels) among the rows in a bag."""
    largest = np.zeros(base.shape[1])
    for i in range(len(times)):
        if times[i] > 0:
            for c in range(base.shape[1]):
                largest[c] = max(largest[c], abs(base[i, c]))
    return largest


@nb.njit(cache=True, nogil=True)
def take(times, positions, base, units):
    """Return the rows in the bag and their payload: `base` (n, channels), rounded to units, times its `times` (n,)."""
    inside = 0
    for i in range(len(times)):
        inside += times[i] > 0
    rows, payload = np.empty(inside, positions.dtype), np.empty((inside, base.shape[1]))
    at = 0
    for i in range(len(times)):
        if times[i] > 0:
            rows[at] = positions[i]
            for c in range(base.shape[1]):
                payload[at, c] = np.rint(base[i, c] / units[c]) * units[c] * times[i]
            at += 1
    return rows, payload


@nb.njit(cache=True, nogil=True)
def drawn_features(streams, n_features, begin, end):
    """Return the features that each node draws, from its `begin`-th to its `end`-th, (nodes, end - begin)."""
    features = np.empty((len(streams), end - begin), np.int32)
    order, places = np.arange(n_features), np.empty(n_features, np.int64)
    for i in range(len(streams)):
        stream = streams[i]
        for drawn in range(end):
            stream, places[drawn] = _pick(stream, drawn, order)
        features[i] = order[begin:end]
        _put_back(end, places, order)
    return features


@nb.njit(cache=True, nogil=True)
def histograms(bins, columns, lags, rows, payload, begins, nodes, features):
    """Sum the payload by bin, for some features (nodes, drawn) of some nodes, whose rows lie from begins[node] on.

    Returns where each histogram begins (nodes * drawn + 1,), the bins that are not empty, and their sums.
    """
    drawn, channels = features.shape[1], payload.shape[1]
    most = 0
    for node in nodes:
        most += drawn * min(256, begins[node + 1] - begins[node])
    where, met, sums = np.zeros(features.size + 1, np.int64), np.empty(most, np.uint8), np.empty((most, channels))
    hist = np.zeros((256, channels))
    at = 0
    for i, node in enumerate(nodes):
        for j in range(drawn):
            column, lag = bins[columns[features[i, j]]], lags[features[i, j]]
            low, high, missing = histogram(column, lag, rows, payload, begins[node], begins[node + 1], hist)
            for b in range(min(low, MISSING), MISSING + 1 if missing else high + 1):
                if hist[b, 0] > 0.0:
                    met[at] = b
                    for c in range(channels):
                        sums[at, c] = hist[b, c]
                        hist[b, c] = 0.0
                    at += 1
            where[i * drawn + j + 1] = at
    return where, met[:at], sums[:at]  # what lies behind was never touched: it takes no memory


@nb.njit(cache=True, nogil=True)
def merge(where_a, met_a, sums_a, where_b, met_b, sums_b):
    """Add the histograms of two parts of the data, as `histograms` returns them."""
    most, channels = len(met_a) + len(met_b), sums_a.shape[1]
    where, met, sums = np.zeros_like(where_a), np.empty(most, np.uint8), np.empty((most, channels))
    at = 0
    for h in range(len(where) - 1):
        a, b, end_a, end_b = where_a[h], where_b[h], where_a[h + 1], where_b[h + 1]
        while a < end_a or b < end_b:
            from_a = b == end_b or (a < end_a and met_a[a] <= met_b[b])
            from_b = a == end_a or (b < end_b and met_b[b] <= met_a[a])
            met[at] = met_a[a] if from_a else met_b[b]
            for c in range(channels):
                sums[at, c] = (sums_a[a, c] if from_a else 0.0) + (sums_b[b, c] if from_b else 0.0)
            a += from_a
            b += from_b
            at += 1
        where[h + 1] = at
    return where, met[:at], sums[:at]


@nb.njit(cache=True)
def try_features(where, met, sums, nodes, features, total, k, curb, weigh, max_features, min_leaf, tried, best, lefts):
    """Look for better splits of some nodes in the histograms of features (nodes, drawn) that they drew.

    Per node of the level: `total` (channels,) its sums, `tried` how many features it has tried, `best` its best split
    so far (score, feature, bin, missing goes right), `lefts` (channels,) the sums on the left of it. The last three
    are brought up to date.
    """
    channels = sums.shape[1]
    hist, left, right = np.zeros((256, channels)), np.zeros(channels), np.zeros(channels)
    for i, node in enumerate(nodes):
        for j in range(features.shape[1]):
            begin, end = where[i * features.shape[1] + j], where[i * features.shape[1] + j + 1]
            missing = met[end - 1] == MISSING
            last = end - 1 if missing else end  # of the bins that hold values
            if tried[node] == max_features or last - begin < (1 if missing else 2):  # a constant feature is no try
                continue
            tried[node] += 1
            for e in range(begin, end):
                hist[met[e]] = sums[e]
            low, high = np.int64(met[begin]), np.int64(met[last - 1])
            worth, b, goes_right = best_split(
                hist, low, high, missing, total[node], k, curb, weigh, min_leaf, left, right
            )
            if worth > best[node, 0]:
                best[node, 0], best[node, 1], best[node, 2], best[node, 3] = worth, features[i, j], b, goes_right
                lefts[node] = 0.0
                for e in range(begin, end):
                    if (met[e] == MISSING and not goes_right) or (met[e] != MISSING and met[e] <= b):
                        for c in range(channels):
                            lefts[node, c] += sums[e, c]
            for e in range(begin, end):
                hist[met[e]] = 0.0


@nb.njit(cache=True, nogil=True)
def divide(bins, columns, lags, rows, payload, begins, feature, highest, missing_right, keep):
    """Send the rows of nodes to their children, left before right, and keep those of some, keep (nodes, 2).

    Nodes with feature -1 are leaves. Returns rows, payload and begins of the children kept.
    """
    side = np.empty(len(rows), np.uint8)
    begins_kept = np.zeros(keep.sum() + 1, begins.dtype)
    child = 0
    for node in range(len(feature)):
        if feature[node] < 0:
            continue
        column, lag, on_the_right = bins[columns[feature[node]]], lags[feature[node]], 0
        for i in range(begins[node], begins[node + 1]):
            b = column[rows[i] - lag]
            side[i] = missing_right[node] if b == MISSING else b > highest[node]
            on_the_right += np.int64(side[i])
        for which in range(2):
            if keep[node, which]:
                size = on_the_right if which == 1 else begins[node + 1] - begins[node] - on_the_right
                begins_kept[child + 1] = begins_kept[child] + size
                child += 1
    rows_kept = np.empty(begins_kept[-1], rows.dtype)
    payload_kept = np.empty((begins_kept[-1], payload.shape[1]))
    at = 0
    for node in range(len(feature)):
        for which in range(2):
            if keep[node, which]:
                for i in range(begins[node], begins[node + 1]):
                    if side[i] == which:
                        rows_kept[at] = rows[i]
                        for c in range(payload.shape[1]):
                            payload_kept[at, c] = payload[i, c]
                        at += 1
    return rows_kept, payload_kept, begins_kept


@nb.njit(cache=True)
def number(root, child, depth):
    """Put the nodes of a tree in the order of `grow`; `child` (nodes,) is the left one, -1 for a leaf.

    Returns where each lay, and its left child in the new order; the right one is next to it before and after.
    """
    order, children = np.empty(len(child), np.int64), np.empty(len(child), np.int32)
    stack = np.empty(depth + 2, np.int64)
    order[0], stack[0] = root, 0
    top, n_nodes = 1, 1
    while top > 0:
        top -= 1
        node = stack[top]
        left = child[order[node]]
        if left < 0:
            children[node] = node
            continue
        children[node] = n_nodes
        order[n_nodes], order[n_nodes + 1] = left, left + 1
        stack[top], stack[top + 1] = n_nodes + 1, n_nodes
        top += 2
        n_nodes += 2
    return order[:n_nodes].copy(), children[:n_nodes].copy()
