"""Grow the smooth forest of Appendix B from data in many places, to the bits of the forest grown in one.

A split needs sums per bin, and nothing else of the rows. They are summed where the rows lie, added up on the way, and
arrive here, where all nodes of a level, of all trees of a group, are split at once; the splits travel back. That the
forest is the same to the bit rests on three things: sums are exact (`exact_units`), so that they do not depend on how
the data are cut; every node draws features from a stream of its own, so that trees do not depend on the order of
growth; and the edges of the bins come from a sample that each part can draw its share of (`sampled_rows`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import add
from typing import Any

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.errors import ArgumentError
from simile.learning.distributed import growing as work
from simile.learning.distributed.backend import Backend
from simile.learning.distributed.growing import Part, Size, Splits
from simile.models.columns import layout
from simile.models.forest import Forest, SmoothForest, draw_seeds
from simile.models.trees import OTHER_STREAM, Bag, Bagging, Growth, Tree, exact_units, keep_best

__all__ = ["Part", "choose_context_edges", "grow_apart", "grow_distributed"]


def grow_distributed(
    backend: Backend,
    model: SmoothForest,
    parts: Sequence[Any],
    starts: IntArray,
    smoothness: float,
    rng: np.random.Generator,
    *,
    exact: bool | None = None,
    context_edges: Sequence[Any] | None = None,
    room: int | None = None,
) -> Forest:
    """Grow a forest as `SmoothForest.fit_smooth` does, from parts of the data in several places.

    Parameters
    ----------
    backend : Backend
        Where the parts are.
    model : SmoothForest
        The recipe.
    parts : sequence of handles
        Of `Part`s, in the order of their rows, none of them empty. Several sets of states (DAgger's) are the parts of
        the first set, then those of the second, and so on.
    starts : (sequences + 1,) array
        The row at which each sequence begins, over all parts.
    smoothness : float
        Lambda.
    rng : numpy.random.Generator
        Drawn from as `fit_smooth` does.
    exact : bool, optional
        Whether to grow the forest of `fit_smooth` to the bit; as the backend has it by default. Otherwise every tree is
        grown whole on one part, and only trees travel; parts get trees by their share of the rows, and which part gets
        one more changes with the seed. Such a tree saw a bag of its part, and the forest cannot tell which: its own
        `bag` is that of `Bagging.NONE`, and nothing is out of it.
    context_edges : sequence of arrays, optional
        From `choose_context_edges`, to save their sample: contexts stay the same in all rounds of a run.
    room : int, optional
        Bytes that a task may take, by default the backend's. Where the binned rows of all parts keep to it, workers
        send them to each other and grow whole trees. Otherwise trees grow level by level, in groups whose open nodes
        keep to it at each part. The forest does not depend on it.

    Returns
    -------
    Forest
        The forest.
    """
    laid = _Laid.of(backend, parts, starts, context_edges, room)
    return laid.grow(parts, model, laid.sizes[0].n_labels, smoothness, rng, exact=exact)


def grow_apart(
    backend: Backend,
    model: SmoothForest,
    parts: Sequence[Any],
    starts: IntArray,
    n_actions: int,
    rng: np.random.Generator,
    *,
    exact: bool | None = None,
    room: int | None = None,
) -> Forest:
    """Grow trees of its own for each action, as `SmoothForest.fit_apart` does, by the labels of parts.

    The arguments are those of `grow_distributed`. Weights are (n, k).
    """
    laid, each = _Laid.of(backend, parts, starts, None, room), model.for_each_of(n_actions)
    width, grown = laid.sizes[0].n_labels // n_actions, []
    for action in range(n_actions):
        some = backend.map(work.of_action, parts, shared=(action, n_actions))
        grown.append(laid.grow(some, each, width, 0.0, rng, exact=exact))
    return Forest.beside(grown)


@dataclass(frozen=True, eq=False)
class _Laid:
    """Parts of which is known where they lie, and by which edges they are binned."""

    backend: Backend
    sizes: Sequence[Size]
    places: Sequence[Any]  # handles
    starts: IntArray
    edges: list[Any]
    room: int

    @classmethod
    def of(
        cls,
        backend: Backend,
        parts: Sequence[Any],
        starts: IntArray,
        context_edges: Sequence[Any] | None,
        room: int | None,
    ) -> _Laid:
        """Ask the parts for their sizes and for their share of the sample that chooses the edges."""
        sizes = backend.collect(backend.map(work.size_of, parts))
        _check(sizes, starts)
        places = backend.place(work.places_of(sizes))
        if context_edges is None:
            context_edges = _edges(backend, parts, places, sizes, work.sampled_contexts)
        edges = [*context_edges, *_edges(backend, parts, places, sizes, work.sampled_actions)]
        starts, room = np.asarray(starts, dtype=np.intp), backend.room if room is None else room
        return cls(backend, sizes, places, starts, edges, room)

    def grow(
        self,
        parts: Sequence[Any],
        model: SmoothForest,
        n_labels: int,
        smoothness: float,
        rng: np.random.Generator,
        *,
        exact: bool | None,
    ) -> Forest:
        """Grow a forest."""
        size, backend, seeds = self.sizes[0], self.backend, draw_seeds(model, rng)
        columns, lags = layout(size.horizon, size.n_contexts, size.n_actions)
        task = Growth.of(model, n_labels, columns, lags, smoothness)
        exact = backend.exact if exact is None else exact
        if exact and self._bytes_together(task) <= self.room:
            packed = backend.map(work.pack_rows, parts, shared=(self.edges, task))
            trees = _grow_together(backend, packed, task, seeds)
        else:
            rows = backend.map(work.lay_rows, parts, self.places, shared=(self.edges, task))
            grow = self._grow_levels if exact else self._grow_apart
            trees = grow(rows, task, seeds)
        return Forest.of(trees, self.edges, task, Bag(model.bagging if exact else Bagging.NONE, seeds, self.starts))

    def _bytes_together(self, task: Growth) -> float:
        """Count what it takes to have the rows of all parts in one place, and to grow trees on bags of them."""
        size, channels = self.sizes[0], _channels(task)
        n, widest = float(self.starts[-1]), max(size.horizon.memory, *size.horizon.context_lags)
        padded = sum(size.frames for size in self.sizes) + len(self.starts) * widest
        arrays = size.n_labels * (1 if task.model.by_labels else 3) + size.is_weighed
        came = padded * (size.n_contexts + size.n_actions) + n * (4 + 8 * arrays)
        bags = self.backend.threads * 2 * n * (4 + 8 * channels)  # each and a copy to sort it in
        return 2 * came + 8 * channels * n + bags

    def _grow_levels(self, rows: Sequence[Any], task: Growth, seeds: tuple[int, ...]) -> list[Tree]:
        row = 4 + 8 * _channels(task)  # bytes of a row in an open node
        group = max(1, self.room // (row * max(size.rows for size in self.sizes)))
        trees = []
        for first in range(0, len(seeds), group):
            trees += _Group(self.backend, rows, task, self.starts, self.room).grow(seeds[first : first + group])
        return [keep_best(tree, task.model.max_leaves) for tree in trees]

    def _grow_apart(self, rows: Sequence[Any], task: Growth, seeds: tuple[int, ...]) -> list[Tree]:
        """Grow each tree on one part: they stand at equal distances along the rows, from one drawn by its seed on."""
        backend, ends = self.backend, np.cumsum([size.rows for size in self.sizes])
        stands = (seeds[0] / 2**63 + np.arange(len(seeds))) * (ends[-1] / len(seeds))
        part_of = np.minimum(np.searchsorted(ends, stands, side="right"), len(rows) - 1)
        numbers = [np.flatnonzero(part_of == part) for part in range(len(rows))]
        turns = backend.place([tuple(seeds[i] for i in mine) for mine in numbers])
        grown = backend.collect(backend.map(work.grow_here, rows, turns, shared=(task,)))
        by_number: dict[int, Tree] = {
            int(i): tree
            for mine, trees in zip(numbers, grown, strict=True)
            for i, tree in zip(mine, trees, strict=True)
        }
        return [by_number[i] for i in range(len(seeds))]


def choose_context_edges(backend: Backend, parts: Sequence[Any]) -> list[Any]:
    """Choose the edges of the bins of each context over all parts: those of the forest grown in one place."""
    sizes = backend.collect(backend.map(work.size_of, parts))
    return _edges(backend, parts, backend.place(work.places_of(sizes)), sizes, work.sampled_contexts)


def _check(sizes: Sequence[Size], starts: IntArray) -> None:
    n = sum(size.rows for size in sizes)
    if starts[-1] != n:
        raise ArgumentError(f"starts must end with the number of rows of all parts, {n}; got {starts[-1]}")
    if len({(size.n_contexts, size.n_actions, size.horizon) for size in sizes}) > 1:
        raise ArgumentError("parts must have the same contexts, actions and horizon; got parts that differ")


def _edges(
    backend: Backend, parts: Sequence[Any], places: Sequence[Any], sizes: Sequence[Size], sample: Callable[..., Any]
) -> list[Any]:
    """Choose the edges of columns by a sample of all parts, which one of the workers sees."""
    samples = backend.map(sample, parts, places, shared=(sum(size.frames for size in sizes),))
    (edges,) = backend.collect(backend.map(work.choose_edges, *([some] for some in samples), shared=(sizes,)))
    return list(edges)


def _grow_together(backend: Backend, packed: Sequence[Any], task: Growth, seeds: tuple[int, ...]) -> list[Tree]:
    """Let each worker get the rows of all parts, and grow its share of the trees on them."""
    turns = [seeds[i :: backend.workers] for i in range(min(backend.workers, len(seeds)))]
    everywhere = ([part] * len(turns) for part in packed)
    grown = backend.collect(
        backend.map(work.grow_together, *everywhere, backend.place(turns), shared=(task, backend.threads))
    )
    return [grown[i % len(turns)][i // len(turns)] for i in range(len(seeds))]


def _channels(task: Growth) -> int:
    """Count what is summed of each row."""
    some: FloatArray = np.zeros((1, task.k))
    return int(task.payload(some, some, some).shape[1])


@dataclass(frozen=True, eq=False)
class _Level:
    """All nodes of one depth, of all trees of a group, and how they were split."""

    total: FloatArray  # (nodes, channels)
    streams: Any  # (nodes,) uint64
    feature: Any  # (nodes,) -1 for a leaf
    bin: Any  # (nodes,)
    missing_right: Any  # (nodes,)
    gain: FloatArray  # (nodes,)
    left: FloatArray  # (nodes, channels) sums of the left child

    def children(self) -> tuple[FloatArray, Any]:
        """Return total and stream of the children, left before right."""
        from simile.models.kernels.drawing import branch

        split = self.feature >= 0
        total = np.stack([self.left[split], self.total[split] - self.left[split]], axis=1)
        streams = np.array([branch(stream) for stream in self.streams[split]], np.uint64)
        return total.reshape(-1, total.shape[2]), streams.ravel()


@dataclass(frozen=True, eq=False)
class _Group:
    """A group of trees that is grown level by level."""

    backend: Backend
    rows: Sequence[Any]
    task: Growth
    starts: IntArray
    room: int

    def grow(self, seeds: tuple[int, ...]) -> list[Tree]:
        """Grow the trees of some seeds."""
        nodes, total = self._roots(seeds)
        streams = np.array([seed ^ OTHER_STREAM for seed in seeds], np.uint64)
        levels: list[_Level] = []
        is_open = self._may_be_split(total, 0)
        held = np.ones_like(is_open)  # the nodes whose rows the workers hold: all roots, and then those that are open
        while True:
            levels.append(self._split(nodes, total, streams, is_open, held))
            total, streams = levels[-1].children()
            if not len(total):
                return _trees(levels, self.task.k)
            is_open = self._may_be_split(total, len(levels))
            if is_open.any():
                splits, held = _splits(levels[-1], held, is_open), is_open
                nodes = self.backend.map(work.split_nodes, self.rows, nodes, shared=(splits,))

    def _roots(self, seeds: tuple[int, ...]) -> tuple[list[Any], FloatArray]:
        """Draw the bags; returns handles of the open nodes, and the sums of the roots."""
        backend, bagging = self.backend, self.task.model.bagging
        counts = backend.map(work.draw_bags, self.rows, shared=(seeds, bagging, self.starts))
        measures = backend.total(work.widest, backend.map(work.measure_bags, self.rows, counts))
        units = np.stack([exact_units(largest, size) for size, *largest in measures])
        nodes = backend.map(work.open_roots, self.rows, counts, shared=(units,))
        return nodes, backend.total(add, backend.map(work.sum_nodes, nodes))

    def _may_be_split(self, total: FloatArray, depth: int) -> Any:
        model = self.task.model
        limit = math.inf if model.max_depth is None else model.max_depth
        return (total[:, 0] >= 2.0 * model.min_leaf) & (depth < limit)

    def _split(self, nodes: Sequence[Any], total: FloatArray, streams: Any, is_open: Any, held: Any) -> _Level:
        """Find the best split of each open node of a level; the workers count those alone whose rows they hold."""
        from simile.models.kernels.growing import draw_features
        from simile.models.kernels.splitting import make_room, measure_gain, try_features

        task, rules, n = self.task, self.task.rules, len(total)
        room = make_room(total.shape[1])
        number = np.cumsum(held) - 1
        tried, left = np.zeros(n, np.int64), np.zeros_like(total)
        best = np.full((n, 4), -1.0)  # score, feature, bin, missing goes right
        best[:, 0] = -np.inf
        for trip in self._trips(np.flatnonzero(is_open), total):
            here, drawn = trip, range(task.tried)
            while len(here):
                ask = (task, number[here], streams[here], drawn)
                found = self.backend.total(add, self.backend.map(work.sum_bins, self.rows, nodes, shared=ask))
                features = draw_features(streams[here], len(task.columns), drawn.start, drawn.stop)
                sums = (found.where, found.bins, found.sums)
                try_features(*sums, here, features, total, rules, room, tried, best, left)
                # Constant features do not count: ask for twice as many, so that there are few trips where many are.
                drawn = range(drawn.stop, min(2 * drawn.stop, len(task.columns)))
                here = here[tried[here] < task.tried] if drawn else here[:0]
        gain, feature = np.zeros(n), best[:, 1].astype(np.int32)
        for node in np.flatnonzero(feature >= 0):
            gain[node], divides = measure_gain(best[node, 0], total[node], rules)
            feature[node] = feature[node] if divides else -1
        highest, missing_right = np.maximum(best[:, 2], 0.0).astype(np.uint8), best[:, 3] > 0.0
        return _Level(total, streams, feature, highest, missing_right & (feature >= 0), gain, left)

    def _trips(self, nodes: IntArray, total: FloatArray) -> Iterator[IntArray]:
        """Cut the nodes of a level so that the histograms of each cut keep to the room; a row makes one entry."""
        entry = 1 + 8 * total.shape[1]
        size = np.cumsum(np.minimum(total[nodes, 0], 256.0) * self.task.tried * entry)
        trips = (size // self.room).astype(np.int64)
        for trip in np.unique(trips):
            yield nodes[trips == trip]


def _splits(level: _Level, held: Any, is_open: Any) -> Splits:
    """Tell the workers how the nodes that they hold were split, and which of the children are open."""
    keep = np.zeros((len(level.feature), 2), np.bool_)
    keep[level.feature >= 0] = is_open.reshape(-1, 2)
    return Splits(*(array[held] for array in (level.feature, level.bin, level.missing_right, keep)))


def _trees(levels: Sequence[_Level], k: int) -> list[Tree]:
    """Take the trees out of the levels, their nodes in the order of `grow`."""
    from simile.models.kernels.growing import number_nodes

    sizes = [len(level.feature) for level in levels]
    depth = np.repeat(np.arange(len(levels)), sizes)
    feature, highest, missing_right, gain, total = (
        np.concatenate([getattr(level, name) for level in levels])
        for name in ("feature", "bin", "missing_right", "gain", "total")
    )
    child = np.full(len(feature), -1)
    inner = feature >= 0  # children lie level after level in the order of their parents, behind the roots
    child[inner] = sizes[0] + 2 * np.arange(int(inner.sum()))
    value = total[:, 1 : 1 + k] / total[:, :1]
    trees = []
    for root in range(sizes[0]):
        order, children = number_nodes(root, child, len(levels))
        trees.append(
            Tree(
                feature=feature[order],
                bin=highest[order],
                missing_right=missing_right[order],
                child=children,
                value=value[order],
                gain=gain[order],
                depth=int(depth[order].max()),
            )
        )
    return trees
