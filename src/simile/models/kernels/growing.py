"""Grow regression trees on binned base columns, reading lagged features at row offsets.

A tree depends neither on the order of its rows nor on the order in which its nodes are split: the payload is rounded
so that every sum is exact (`take_bag`), and every node draws features from a stream of its own. So `grow`, depth first
and with all rows at hand, and the functions below it, level by level and with rows in many places, give equal bits;
and a tree of `grow_best`, which splits the best node first, is the upper part of that of `grow`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from simile.models.kernels.binning import MISSING
from simile.models.kernels.compiling import ONE, TWO, ZERO, inner, kernel
from simile.models.kernels.drawing import draw_feature, inner_branch
from simile.models.kernels.histograms import fill_histograms
from simile.models.kernels.splitting import Room, find_split, inner_gain, make_room

AT_ONCE = 16  # features whose histograms are filled together: more would not fit the cache


class Nodes(NamedTuple):
    """The nodes of one tree; node 0 is the root, and the right child lies next to the left."""

    feature: Any  # (nodes,) feature of a split, -1 for a leaf
    bin: Any  # (nodes,) highest bin that goes left
    missing_right: Any  # (nodes,)
    child: Any  # (nodes,) left child; a leaf is its own
    value: Any  # (nodes, k) leaf value
    gain: Any  # (nodes,) by how much the split lowers the impurity


class Workspace(NamedTuple):
    """Arrays to work in: numba takes long to compile how they are made."""

    room: Room
    hist: Any  # (features at once, 256, channels) zero between two nodes
    shifts: Any  # (features at once,)
    order: Any  # (F,) all features, in order between two nodes
    places: Any  # (F,)
    total: Any  # (channels,)
    rows: Any  # (n,)
    payload: Any  # (n, channels)
    stack: Any  # (nodes, 7) those that wait: node, begin, end, depth, and of their split feature, bin and missing right
    streams: Any  # (nodes,)
    gains: Any  # (nodes,) of their splits


def make_workspace(n_features: int, max_features: int, waiting: int, rows: Any, payload: Any, seed: Any) -> Workspace:
    """Make room for the growth of one tree, of whose nodes so many may wait to be split; the root, of a seed, does."""
    at_once = min(AT_ONCE, max_features)
    work = Workspace(
        room=make_room(payload.shape[1]),
        hist=np.zeros((at_once, 256, payload.shape[1])),
        shifts=np.empty(at_once, np.int64),
        order=np.arange(n_features),
        places=np.empty(n_features, np.int64),
        total=np.empty(payload.shape[1]),
        rows=np.empty_like(rows),
        payload=np.empty_like(payload),
        stack=np.empty((waiting, 7), np.int64),
        streams=np.empty(waiting, np.uint64),
        gains=np.empty(waiting),
    )
    work.stack[0, :4], work.streams[0] = (0, 0, len(rows), 0), seed
    return work


@inner
def partition(bins, shift, highest, missing_right, rows, payload, begin, end, spare):
    """Send rows[begin:end] of a node to the left or behind those, in order; returns where the right ones begin."""
    channels, begin, end = np.uintp(payload.shape[1]), np.uintp(begin), np.uintp(end)
    spare_rows, spare_payload = spare
    kept, moved = begin, ZERO
    for c in range(ZERO, channels, TWO):  # the rows go with the last pair of channels
        last = c + TWO == channels
        kept, moved = begin, ZERO
        for i in range(begin, end):
            row, first, second = rows[i], payload[i, c], payload[i, c + ONE]
            b = bins[np.uintp(row + shift)]
            goes_left = np.uintp((not missing_right) if b == MISSING else b <= highest)
            # Written to both places, where the next one writes over the wrong one: a branch would be guessed wrong.
            payload[kept, c], payload[kept, c + ONE] = first, second
            spare_payload[moved, c], spare_payload[moved, c + ONE] = first, second
            if last:
                rows[kept], spare_rows[moved] = row, row
            kept += goes_left
            moved += ONE - goes_left
        for i in range(moved):
            payload[kept + i, c], payload[kept + i, c + ONE] = spare_payload[i, c], spare_payload[i, c + ONE]
    for i in range(moved):
        rows[kept + i] = spare_rows[i]
    return np.int64(kept)


@inner
def look(features, rules, may_split, rows, payload, at, nodes, work):
    """Make a leaf of the node that waits at a place; returns whether it divides, and writes there how."""
    total, order, places, shifts, stack = work.total, work.order, work.places, work.shifts, work.stack
    n_features, at_once = len(order), len(shifts)
    node, begin, end = stack[at, 0], stack[at, 1], stack[at, 2]
    for c in range(0, len(total), 2):
        first, second = 0.0, 0.0
        for i in range(np.uintp(begin), np.uintp(end)):
            first += payload[i, c]
            second += payload[i, c + 1]
        total[c], total[c + 1] = first, second
    for j in range(rules.k):
        nodes.value[node, j] = total[1 + j] / total[0]
    nodes.feature[node], nodes.child[node], nodes.gain[node] = -1, node, 0.0
    if not may_split or total[0] < 2.0 * rules.min_leaf:
        return False
    best, best_feature, best_bin, best_right = -np.inf, -1, -1, False
    tried, drawn, stream = 0, 0, work.streams[at]
    while tried < rules.max_features and drawn < n_features:
        some = rules.max_features - tried if rules.max_features - tried < at_once else at_once
        some = n_features - drawn if n_features - drawn < some else some
        for i in range(some):
            stream = draw_feature(stream, drawn + i, order, places)
            shifts[i] = features.shifts[order[drawn + i]]
        fill_histograms(features.bins, shifts, some, rows, payload, begin, end, work.hist)
        for i in range(some):
            worth, b, goes_right, varies = find_split(work.hist[i], total, rules, work.room)
            tried += varies  # a constant feature does not count as tried
            if worth > best:
                best, best_feature, best_bin, best_right = worth, order[drawn + i], b, goes_right
        drawn += some
    for i in range(drawn):  # put them back, so that the next node draws as if it were the first
        order[i] = i
        order[places[i]] = places[i]
    if best_feature < 0:
        return False
    work.gains[at], divides = inner_gain(best, total, rules)
    stack[at, 4], stack[at, 5], stack[at, 6] = best_feature, best_bin, best_right
    return divides


@inner
def split(features, rows, payload, at, top, n_nodes, nodes, work):
    """Split the node at a place as `look` wrote there; its children wait at the top, the left one above the right."""
    stack, streams = work.stack, work.streams
    node, begin, end, depth, feature = stack[at, 0], stack[at, 1], stack[at, 2], stack[at, 3], stack[at, 4]
    highest, missing_right, stream = stack[at, 5], stack[at, 6], streams[at]
    nodes.feature[node], nodes.bin[node], nodes.missing_right[node] = feature, highest, missing_right
    nodes.gain[node], nodes.child[node] = work.gains[at], n_nodes
    shift, spare = features.shifts[feature], (work.rows, work.payload)
    middle = partition(features.bins, shift, highest, missing_right, rows, payload, begin, end, spare)
    stack[top, 0], stack[top + 1, 0] = n_nodes + 1, n_nodes
    stack[top, 1], stack[top + 1, 1] = middle, begin
    stack[top, 2], stack[top + 1, 2] = end, middle
    stack[top, 3] = stack[top + 1, 3] = depth + 1
    streams[top + 1], streams[top] = inner_branch(stream)


@kernel
def grow(features, rules, max_depth, rows, payload, nodes, work):
    """Grow one tree depth first on `rows` (n,), which are reordered as `payload` (n, channels) is, into `nodes`.

    The root waits in `work`. Returns the number of nodes and the depth.
    """
    top, n_nodes, deepest = np.int64(0), np.int64(1), 0  # for a plain 0, a type of its own, all would be compiled twice
    while top >= 0:
        depth = work.stack[top, 3]
        deepest = depth if depth > deepest else deepest
        if look(features, rules, depth < max_depth, rows, payload, top, nodes, work):
            split(features, rows, payload, top, top, n_nodes, nodes, work)
            n_nodes += 2
            top += 1
        else:
            top -= 1
    return n_nodes, deepest


@inner
def move(work, a, b):
    """Move a node that waits from one place to another."""
    for i in range(work.stack.shape[1]):
        work.stack[b, i] = work.stack[a, i]
    work.streams[b], work.gains[b] = work.streams[a], work.gains[a]


@kernel
def grow_best(features, rules, max_depth, max_leaves, rows, payload, nodes, work):
    """Grow one tree best first, as `grow` depth first, until there are so many leaves.

    Of the nodes that wait, the first `known` have been looked at. The one that gains most is split when all have; of
    equals, the oldest.
    """
    stack, gains = work.stack, work.gains
    top, known, n_nodes, deepest = np.int64(1), np.int64(0), np.int64(1), 0
    while top > known or (top > 0 and n_nodes + 1 < 2 * max_leaves):  # a tree of n nodes has (n + 1) / 2 leaves
        if known < top:
            depth = stack[known, 3]
            deepest = depth if depth > deepest else deepest
            may_split = depth < max_depth and n_nodes + 1 < 2 * max_leaves
            if look(features, rules, may_split, rows, payload, known, nodes, work):
                known += 1
            else:
                top -= 1
                move(work, top, known)
        else:
            best = 0
            for i in range(1, top):
                if gains[i] > gains[best] or (gains[i] == gains[best] and stack[i, 0] < stack[best, 0]):
                    best = i
            move(work, best, top)
            move(work, top - 1, best)
            split(features, rows, payload, top, top - 1, n_nodes, nodes, work)
            n_nodes += 2
            known -= 1
            top += 1
    return n_nodes, deepest


@partial(kernel, makes_arrays=True)
def draw_features(streams, n_features, begin, end):
    """Return the features that each node draws, from its `begin`-th to its `end`-th, (nodes, end - begin)."""
    features = np.empty((len(streams), end - begin), np.int32)
    order, places = np.arange(n_features), np.empty(n_features, np.int64)
    for i in range(len(streams)):
        stream = streams[i]
        for drawn in range(end):
            stream = draw_feature(stream, drawn, order, places)
        for drawn in range(begin, end):
            features[i, drawn - begin] = order[drawn]
        for drawn in range(end):
            order[drawn] = drawn
            order[places[drawn]] = places[drawn]
    return features


@partial(kernel, makes_arrays=True)
def divide(features, rows, payload, begins, feature, highest, missing_right, keep):
    """Send the rows of nodes to their children, left before right, and keep those of some, keep (nodes, 2).

    Nodes with feature -1 are leaves. Returns rows, payload and begins of the children kept.
    """
    side = np.empty(len(rows), np.uint8)
    begins_kept = np.zeros(keep.sum() + 1, begins.dtype)
    child = 0
    for node in range(len(feature)):
        if feature[node] < 0:
            continue
        shift, on_the_right = features.shifts[feature[node]], 0
        for i in range(begins[node], begins[node + 1]):
            b = features.bins[rows[i] + shift]
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


@partial(kernel, makes_arrays=True)
def number_nodes(root, child, depth):
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
