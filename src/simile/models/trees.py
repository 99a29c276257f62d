"""The trees of a forest: what they are grown on, and how one is grown from the rows at hand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.data.groups import draw_sequences
from simile.models.columns import BinnedColumns

if TYPE_CHECKING:
    from simile.models.forest import SmoothForest
    from simile.models.kernels.histograms import Features
    from simile.models.kernels.splitting import Rules

STRETCH = 10_000  # rows of a sequence that a tree sees together, where it does not see all
AT_ONCE = 65_536  # rows of a bag looked at together, so that what is made on the way takes little room
OTHER_STREAM = 0x5DEECE66D  # turns the seed that drew a bag into the seed of the features that the tree tries


class Criterion(Enum):
    """What a split is chosen by (Appendix B, node splitting mechanism)."""

    LABELS = "labels"  # the squared error of the labels: the loss that prediction really uses, as in CART
    SMOOTH = "smooth"  # the printed impurity, which holds the leaf value to a^ and to h; children simply added
    PRINTED = "printed"  # the same, with the children weighed by their size once more, as printed

    def __repr__(self) -> str:
        return str(self)  # as it is written in code


class Bagging(Enum):
    """What each tree is grown on."""

    NONE = "none"  # all rows
    ROWS = "rows"  # as many rows, drawn with replacement
    SEQUENCES = "sequences"  # as many sequences, drawn with replacement: the others are unseen, frames and all

    def __repr__(self) -> str:
        return str(self)  # as it is written in code


@dataclass(frozen=True, eq=False)
class Growth:
    """What the trees of one forest have in common: the recipe, the layout of the features, and lambda."""

    model: SmoothForest
    k: int
    columns: IntArray  # (features,) base column of each feature
    lags: IntArray  # (features,)
    smoothness: float
    tried: int  # how many features a node tries

    @classmethod
    def of(cls, model: SmoothForest, k: int, columns: IntArray, lags: IntArray, smoothness: float) -> Growth:
        """Work out how many features a node tries."""
        n_features = len(columns)
        if model.max_features == "sqrt":
            tried = max(1, math.isqrt(n_features))
        elif isinstance(model.max_features, float):
            tried = max(1, round(model.max_features * n_features))
        else:
            tried = n_features if model.max_features is None else min(int(model.max_features), n_features)
        return cls(model, k, columns, lags, smoothness, tried)

    def sees_all(self, starts: IntArray) -> bool:
        """Tell whether every tree sees all sequences."""
        return self.model.max_frames is None or int(starts[-1]) <= self.model.max_frames

    def seen(self, seed: int, starts: IntArray) -> IntArray:
        """Return the numbers of the stretches that the tree of a seed sees."""
        return draw_sequences(np.diff(cut_stretches(starts)), self.model.max_frames or math.inf, seed)

    def bag(self, seeds: tuple[int, ...], starts: IntArray) -> Bag:
        """Return what a forest keeps of its bags: nothing is out of them where trees did not see all sequences."""
        return Bag(self.model.bagging if self.sees_all(starts) else Bagging.NONE, seeds, starts)

    def draw(self, seed: int, starts: IntArray) -> Any:
        """Draw the bag of a seed: how often each row is in it, (n,)."""
        if self.sees_all(starts):
            return Bag(self.model.bagging, (seed,), starts).counts(0)
        lengths, seen = np.diff(cut_stretches(starts)), self.seen(seed, starts)
        inside = np.repeat(np.isin(np.arange(len(lengths)), seen), lengths)
        times = np.zeros(int(starts[-1]), np.int32)
        times[inside] = Bag(self.model.bagging, (seed,), np.append(0, np.cumsum(lengths[seen]))).counts(0)
        return times

    @property
    def rules(self) -> Rules:
        """How nodes are split, as the kernels take it."""
        from simile.models.kernels.splitting import Rules

        labels = self.model.by_labels
        return Rules(
            k=self.k,
            goals=1 if labels else 1 + self.k,
            penalty=1.0 if labels else 1.0 + self.smoothness,
            weigh=self.model.criterion is Criterion.PRINTED,
            max_features=self.tried,
            min_leaf=float(self.model.min_leaf),
        )

    def payload(
        self, labels: FloatArray, targets: FloatArray, anchors: FloatArray, weights: FloatArray | None = None
    ) -> FloatArray:
        """Lay out what a split needs of each row: 1, labels, and for the impurity its goals and squares, all weighed.

        Weights are (n,), or (n, k) of which the mean counts.
        """
        parts = [np.ones((len(labels), 1)), labels]
        if not self.model.by_labels:
            parts.append(targets + self.smoothness * anchors)
        if self.model.criterion is Criterion.PRINTED:
            squares = targets**2 + self.smoothness * anchors**2
            # Column by column: how numpy adds up along an axis may depend on the number of rows.
            parts.append(reduce(np.add, squares.T)[:, np.newaxis])
        if sum(part.shape[1] for part in parts) % 2:  # the kernels take channels in pairs
            parts.append(np.zeros((len(labels), 1)))
        payload = np.concatenate(parts, axis=1)
        if weights is not None:
            payload *= (weights if weights.ndim == 1 else weights.mean(axis=1))[:, np.newaxis]
        return payload


def cut_stretches(starts: IntArray) -> IntArray:
    """Cut sequences into stretches, of which a tree sees some: a few long recordings should all be seen by all trees.

    >>> cut_stretches(np.array([0, 8_000, 33_000]))
    array([    0,  8000, 16333, 24666, 33000])
    """
    lengths = np.diff(starts)
    counts = -(-lengths // STRETCH)
    if counts.max(initial=0) <= 1:
        return starts
    number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    begins = np.repeat(starts[:-1], counts) + np.repeat(lengths, counts) * number // np.repeat(counts, counts)
    return np.append(begins, starts[-1])


def exact_units(largest: FloatArray, size: float) -> FloatArray:
    """Return the powers of two to whose multiples the values in a bag are rounded, so that their sums are exact.

    Sums of floating-point numbers depend on their order, so a split could depend on where rows lie. Multiples of a unit
    do not, as long as no sum exceeds 2^53 of them: whole numbers up to there are floating-point numbers. So the unit
    keeps the sum of the whole bag below 2^52. Rounding moves a value by at most 2^-51 of the largest absolute value
    times the size of the bag, which is 2e-10 of that value in half a million rows.

    Parameters
    ----------
    largest : (channels,) array
        Largest absolute value of each channel in the bag.
    size : float
        How many rows the bag holds, those drawn twice counted twice.
    """
    _, reach = np.frexp(largest)  # |value| < 2^reach
    exponent = np.maximum(reach + math.ceil(math.log2(max(size, 1.0))) - 52, -1074)  # no number is finer than that
    units: FloatArray = np.ldexp(1.0, exponent)
    return units


@dataclass(frozen=True, eq=False)
class Bag:
    """What each tree of a forest was grown on, kept as the seeds that drew it."""

    bagging: Bagging
    seeds: tuple[int, ...]
    starts: IntArray

    def counts(self, tree: int) -> Any:
        """Return how often each row was in the bag of a tree, (n,)."""
        from simile.models.kernels.drawing import draw_counts

        seed, n = self.seeds[tree], int(self.starts[-1])
        if self.bagging is Bagging.NONE:
            return np.ones(n, np.int32)
        if self.bagging is Bagging.ROWS:
            return draw_counts(n, seed, 0, n)
        n_sequences = len(self.starts) - 1
        return np.repeat(draw_counts(n_sequences, seed, 0, n_sequences), np.diff(self.starts))

    def saw(self, tree: int, sequence: int) -> bool:
        """Tell whether a tree was grown on a sequence, of a bag of sequences; rows, of any number, are not laid out."""
        from simile.models.kernels.drawing import draw_counts

        return bool(draw_counts(len(self.starts) - 1, self.seeds[tree], sequence, 1)[0])


@dataclass(frozen=True, eq=False)
class Tree:
    """One grown tree; node 0 is the root, the right child lies next to the left, a leaf has feature -1."""

    feature: Any
    bin: Any
    missing_right: Any
    child: Any
    value: FloatArray
    gain: FloatArray
    depth: int


def grow_tree(growth: Growth, columns: BinnedColumns, payload: FloatArray, seed: int) -> Tree:
    """Grow the tree of a seed on rows at hand."""
    times = growth.draw(seed, columns.starts)
    units = exact_units(measure_bag(times, payload), float(times.sum()))
    rows, taken = take_bag(times, columns.positions, payload, units)
    del times  # a number for each row, of no use any more
    limit = growth.model.max_depth
    return grow_from(growth, columns.features, rows, taken, np.uint64(seed ^ OTHER_STREAM), limit)


def grow_from(
    growth: Growth, features: Features, rows: Any, payload: FloatArray, stream: Any, limit: int | None
) -> Tree:
    """Grow a tree, or the rest of one, below a node; its rows (n,) and their rounded payload are reordered."""
    from simile.models.kernels.growing import Nodes, grow, grow_best, make_workspace

    model = growth.model
    # Every leaf weighs at least min_leaf, up to rounding errors of sums of weights.
    most = max(1, 2 * int(1.000001 * payload[:, 0].sum() / model.min_leaf) - 1)
    depth = len(rows) if limit is None else min(limit, len(rows))
    most = min(most, 2 ** (min(depth, 40) + 1) - 1, 2 * len(rows) - 1)
    leaves = model.max_leaves or 0
    most = min(most, 2 * leaves - 1) if leaves else most
    nodes = Nodes(
        feature=np.empty(most, np.int32),
        bin=np.empty(most, np.uint8),
        missing_right=np.zeros(most, np.bool_),
        child=np.empty(most, np.int32),
        value=np.empty((most, growth.k)),
        gain=np.empty(most),
    )
    waiting = most + 1 if leaves else 2 * depth + 4
    work = make_workspace(len(growth.columns), growth.tried, waiting, rows, payload, stream)
    if leaves:
        size, depth = grow_best(features, growth.rules, depth, leaves, rows, payload, nodes, work)
    else:  # a kernel of its own: the other takes a second more to compile
        size, depth = grow(features, growth.rules, depth, rows, payload, nodes, work)
    used = {name: part[:size].copy() for name, part in nodes._asdict().items()}
    return Tree(**used, depth=depth)


def keep_best(tree: Tree, max_leaves: int | None) -> Tree:
    """Return the upper part of a tree that was grown without this limit: what best-first growth would have made of it.

    It is for growth that has all nodes of a level at once. How a node is split does not depend on when it is.
    """
    if max_leaves is None:
        return tree
    order, depths, children = [0], [0], {}
    waiting = [(-tree.gain[0], 0)] if tree.feature[0] >= 0 else []
    while waiting and len(order) + 1 < 2 * max_leaves:
        _, node = heappop(waiting)  # of equals, the oldest
        children[node] = len(order)
        for below in (tree.child[order[node]], tree.child[order[node]] + 1):
            if tree.feature[below] >= 0:
                heappush(waiting, (-tree.gain[below], len(order)))
            order.append(below)
            depths.append(depths[node] + 1)
    leaf = np.array([i not in children for i in range(len(order))])
    return Tree(
        feature=np.where(leaf, np.int32(-1), tree.feature[order]),
        bin=tree.bin[order],
        missing_right=tree.missing_right[order] & ~leaf,
        child=np.array([children.get(i, i) for i in range(len(order))], np.int32),
        value=tree.value[order],
        gain=np.where(leaf, 0.0, tree.gain[order]),
        depth=max(depths),
    )


def measure_bag(times: Any, payload: FloatArray) -> FloatArray:
    """Return the largest absolute value of each channel of the payload among the rows in a bag, (channels,)."""
    largest: FloatArray = np.zeros(payload.shape[1])
    for begin in range(0, len(times), AT_ONCE):
        some = slice(begin, begin + AT_ONCE)
        inside = times[some] > 0
        largest = np.maximum(largest, [(np.abs(channel) * inside).max(initial=0.0) for channel in payload[some].T])
    return largest


def take_bag(times: Any, positions: Any, payload: FloatArray, units: FloatArray) -> tuple[Any, FloatArray]:
    """Return the rows in a bag and their payload, rounded to units and times its `times` (n,)."""
    size, end = np.count_nonzero(times > 0), 0
    rows, taken = np.empty(size, positions.dtype), np.empty((size, payload.shape[1]))
    for first in range(0, len(times), AT_ONCE):
        bag = first + np.flatnonzero(times[first : first + AT_ONCE] > 0)  # of truths it is quick
        counts, begin, end = times.take(bag), end, end + len(bag)
        rows[begin:end] = positions.take(bag)
        for c, unit in enumerate(units):  # channel by channel: NumPy is slow along an axis of two
            channel = payload[bag, c]
            channel /= unit
            np.rint(channel, out=channel)
            channel *= unit
            np.multiply(channel, counts, out=taken[begin:end, c])
    return rows, taken
