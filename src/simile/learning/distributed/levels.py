"""Trees that grow level by level, from sums of rows that lie in many places: for data that no worker can hold.

A split needs sums per bin, and nothing else of the rows. Each part sums its own, for slices of the open nodes of all
trees; each slice is added up, and searched for the best splits, by one worker. Only splits come here, and travel back.
Where the histograms below a node would take more bytes than its rows, these travel instead: a worker that has all of
them grows the rest of the tree.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from operator import add, itemgetter
from typing import Any

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.learning.distributed import growing as work
from simile.learning.distributed.backend import Backend
from simile.learning.distributed.growing import Splits
from simile.models.trees import OTHER_STREAM, Bagging, Growth, Tree, exact_units

BATCHES = 8  # of rows that travel, which a worker may have in its room at a time: those it packed, got and laid out


@dataclass(frozen=True, eq=False)
class Level:
    """All nodes of one depth, of all trees of a group, and how they were split."""

    total: FloatArray  # (nodes, channels)
    streams: Any  # (nodes,) uint64
    feature: Any  # (nodes,) -1 for a leaf
    bin: Any  # (nodes,)
    missing_right: Any  # (nodes,)
    gain: FloatArray  # (nodes,)
    left: FloatArray  # (nodes, channels) sums of the left child
    below: dict[int, Tree]  # what grew in one place, by the node that it begins with, a leaf here

    def children(self) -> tuple[FloatArray, Any]:
        """Return total and stream of the children, left before right."""
        from simile.models.kernels.drawing import branch

        split = self.feature >= 0
        total = np.stack([self.left[split], self.total[split] - self.left[split]], axis=1)
        streams = np.array([branch(stream) for stream in self.streams[split]], np.uint64)
        return total.reshape(-1, total.shape[2]), streams.ravel()


@dataclass(frozen=True, eq=False)
class Group:
    """A group of trees that grow together, so that what it takes to ask is paid once a level."""

    backend: Backend
    rows: Sequence[Any]  # handles of `Rows`
    task: Growth
    starts: IntArray  # (sequences + 1,)
    begins: IntArray  # (parts + 1,) the first row of each
    room: int  # bytes

    def grow(self, seeds: tuple[int, ...]) -> list[Tree]:
        """Grow the trees of some seeds."""
        nodes, total = self._roots(seeds)
        streams = np.array([seed ^ OTHER_STREAM for seed in seeds], np.uint64)
        levels: list[Level] = []
        is_open = self._may_be_split(total, 0)
        held = np.ones_like(is_open)  # the nodes whose rows the workers hold: all roots, and then those that are open
        while True:
            levels.append(self._split(nodes, total, streams, is_open, held, len(levels)))
            total, streams = levels[-1].children()
            if not len(total):
                return lay_trees(levels, self.task.k)
            is_open = self._may_be_split(total, len(levels))
            if is_open.any():
                splits, held = _splits(levels[-1], held, is_open), is_open
                nodes = self.backend.map(work.split_nodes, self.rows, nodes, shared=(splits,))

    def _roots(self, seeds: tuple[int, ...]) -> tuple[list[Any], FloatArray]:
        """Draw the bags; returns handles of the open nodes, and the sums of the roots."""
        backend, counts = self.backend, self._draw_bags(seeds)
        measures = backend.total(work.widest, backend.map(work.measure_bags, self.rows, counts))
        units = np.stack([exact_units(largest, size) for size, *largest in measures])
        nodes = backend.map(work.open_roots, self.rows, counts, shared=(units,))
        return nodes, backend.total(add, backend.map(work.sum_nodes, nodes))

    def _draw_bags(self, seeds: tuple[int, ...]) -> list[Any]:
        """Draw the bags; returns handles of how often the rows of each part are in them."""
        backend, task = self.backend, self.task
        if task.model.bagging is not Bagging.ROWS or not task.sees_all(self.starts):
            return backend.map(work.draw_bags, self.rows, shared=(seeds, task, self.starts))
        # Any of the draws may fall on any part: each worker makes its share of them, for all parts.
        cuts = np.linspace(0, self.begins[-1], backend.workers + 1).astype(int)
        shares = backend.place([range(int(a), int(b)) for a, b in pairwise(cuts)])
        drawn = backend.map(work.draw_shares, shares, shared=(seeds, self.begins))
        of_parts = [backend.map(itemgetter(part), drawn) for part in range(len(self.rows))]
        return backend.map(work.add_shares, *zip(*of_parts, strict=True))

    @cached_property
    def _limit(self) -> float:
        """How deep a tree may be."""
        return math.inf if self.task.model.max_depth is None else self.task.model.max_depth

    def _may_be_split(self, total: FloatArray, depth: int) -> Any:
        return (total[:, 0] >= 2.0 * self.task.model.min_leaf) & (depth < self._limit)

    def _split(
        self, nodes: Sequence[Any], total: FloatArray, streams: Any, is_open: Any, held: Any, depth: int
    ) -> Level:
        """Find the best split of each open node of a level; the workers count those alone whose rows they hold."""
        from simile.models.kernels.splitting import measure_gain

        backend, task, number, n = self.backend, self.task, np.cumsum(held) - 1, len(total)
        travels = is_open & self._may_travel(total, depth)
        below = self._finish(nodes, np.flatnonzero(travels), number, total, streams, depth)
        best, tried, left = np.full((n, 4), -1.0), np.zeros(n, np.int64), np.zeros_like(total)
        best[:, 0] = -np.inf  # score, feature, bin, missing goes right
        for trip in self._trips(np.flatnonzero(is_open & ~travels), total):
            here, drawn = trip, range(task.tried)
            while len(here):
                slices = np.array_split(here, min(backend.workers, len(here)))
                asked = [(task, number[some], streams[some], drawn) for some in slices]
                sums = [backend.map(work.sum_bins, self.rows, nodes, shared=ask) for ask in asked]
                so_far = backend.place([(streams[s], total[s], best[s], tried[s], left[s]) for s in slices])
                found = backend.collect(
                    backend.map(work.find_splits, *zip(*sums, strict=True), so_far, shared=(task, drawn))
                )
                for some, better in zip(slices, found, strict=True):
                    best[some], tried[some], left[some] = better
                # Constant features do not count: ask for twice as many, so that there are few trips where many are.
                drawn = range(drawn.stop, min(2 * drawn.stop, len(task.columns)))
                here = here[tried[here] < task.tried] if drawn else here[:0]
        gain, feature = np.zeros(n), best[:, 1].astype(np.int32)
        for node in np.flatnonzero(feature >= 0):
            gain[node], divides = measure_gain(best[node, 0], total[node], task.rules)
            feature[node] = feature[node] if divides else -1
        highest, missing_right = np.maximum(best[:, 2], 0.0).astype(np.uint8), best[:, 3] > 0.0
        return Level(total, streams, feature, highest, missing_right & (feature >= 0), gain, left, below)

    def _bytes_of_bins(self, total: FloatArray) -> FloatArray:
        """Estimate what the histograms of nodes take at each part: a row makes one entry, in each feature tried."""
        entry = self.task.tried * (1 + 8 * total.shape[1])
        return np.asarray(np.minimum(total[:, 0], 256.0) * entry)

    def _bytes_of_rows(self, total: FloatArray) -> FloatArray:
        """Estimate what the rows of nodes take on their way: less where neighbours travel, which share their past."""
        return np.asarray(total[:, 0] * (len(self.task.columns) + 4 + 8 * total.shape[1]))

    def _may_travel(self, total: FloatArray, depth: int) -> Any:
        """Tell which nodes' rows take less than the histograms of all levels below, and fit one worker."""
        rows, bins, width = self._bytes_of_rows(total), np.zeros(len(total)), np.ones(len(total))
        most = total[:, 0] * self.task.tried * (1 + 8 * total.shape[1])
        deepest = np.minimum(self._limit - depth, np.log2(np.maximum(total[:, 0] / self.task.model.min_leaf, 1.0)))
        for level in range(int(deepest.max(initial=0.0))):
            width = len(self.rows) * 2**level * self._bytes_of_bins(np.maximum(total / 2**level, 1.0))
            bins += np.where(level < deepest, np.minimum(width, most), 0.0)
        return (rows <= bins) & (BATCHES * rows <= self.room)

    def _finish(
        self, nodes: Sequence[Any], here: IntArray, number: IntArray, total: FloatArray, streams: Any, depth: int
    ) -> dict[int, Tree]:
        """Send the rows of some nodes to one worker or another, which grows all that is below them."""
        backend, task = self.backend, replace(self.task, model=replace(self.task.model, max_leaves=None))
        limit = None if task.model.max_depth is None else task.model.max_depth - depth
        batches = list(_cut(here, self._bytes_of_rows(total[here]), self.room / BATCHES))
        found: dict[int, Tree] = {}
        at_once = backend.workers  # asked once: there may be fewer by and by
        for first in range(0, len(batches), at_once):  # no more than there is room for
            turn = batches[first : first + at_once]
            packed = [backend.map(work.pack_nodes, self.rows, nodes, shared=(number[some],)) for some in turn]
            theirs = backend.place([streams[some] for some in turn])
            grown = backend.map(work.finish_nodes, *zip(*packed, strict=True), theirs, shared=(task, limit))
            for some, trees in zip(turn, backend.collect(grown), strict=True):
                found |= {int(node): tree for node, tree in zip(some, trees, strict=True)}
        return found

    def _trips(self, nodes: IntArray, total: FloatArray) -> Iterator[IntArray]:
        """Cut the nodes of a level so that the histograms that a worker makes and gets keep to the room."""
        share = max(1.0, len(self.rows) / self.backend.workers)  # parts of a worker
        return _cut(nodes, 2.0 * share * self._bytes_of_bins(total[nodes]), self.room)


def _cut(nodes: IntArray, sizes: FloatArray, room: float) -> Iterator[IntArray]:
    """Cut nodes into runs of some size together."""
    run = np.cumsum(sizes) // room
    for number in np.unique(run):
        yield nodes[run == number]


def _splits(level: Level, held: Any, is_open: Any) -> Splits:
    """Tell the workers how the nodes that they hold were split, and which of the children are open."""
    keep = np.zeros((len(level.feature), 2), np.bool_)
    keep[level.feature >= 0] = is_open.reshape(-1, 2)
    return Splits(*(array[held] for array in (level.feature, level.bin, level.missing_right, keep)))


def lay_trees(levels: Sequence[Level], k: int) -> list[Tree]:
    """Take the trees out of the levels, their nodes in the order of `grow`."""
    from simile.models.kernels.growing import number_nodes

    sizes = [len(level.feature) for level in levels]
    before = np.cumsum([0, *sizes])
    total = np.concatenate([level.total for level in levels])
    parts = {name: [getattr(level, name) for level in levels] for name in ("feature", "bin", "missing_right", "gain")}
    found = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    found["value"], found["depth"] = total[:, 1 : 1 + k] / total[:, :1], np.repeat(np.arange(len(levels)), sizes)
    found["child"] = np.full(before[-1], -1)
    inner = found["feature"] >= 0  # children lie level after level in the order of their parents, behind the roots
    found["child"][inner] = sizes[0] + 2 * np.arange(int(inner.sum()))
    # What grew in one place lies behind all levels, but for its first node.
    grown = [(int(before[i]) + node, tree) for i, level in enumerate(levels) for node, tree in level.below.items()]
    behind = before[-1] + np.cumsum([0, *(len(tree.feature) - 1 for _, tree in grown)])
    more: dict[str, list[Any]] = {name: [array] for name, array in found.items()}
    for (node, tree), at in zip(grown, behind, strict=False):
        child = np.where(tree.feature >= 0, tree.child + at - 1, -1)
        deep = np.full(len(tree.feature), found["depth"][node] + tree.depth)  # of which the largest counts
        for name, array in more.items():
            own = child if name == "child" else deep if name == "depth" else getattr(tree, name)
            array[0][node] = own[0]
            array.append(own[1:])
    found = {name: np.concatenate(arrays) for name, arrays in more.items()}
    depth = found.pop("depth")
    trees = []
    for root in range(sizes[0]):
        order, child = number_nodes(root, found["child"], int(depth.max()) + 1)
        taken = {name: array[order] for name, array in found.items()}
        trees.append(Tree(**{**taken, "child": child}, depth=int(depth[order].max())))
    return trees
