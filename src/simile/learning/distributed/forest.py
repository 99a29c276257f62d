"""Grow the smooth forest of Appendix B from data in many places, to the bits of the forest grown in one.

Binned, a frame takes a byte for each of its columns, however many lags a tree reads. So where the rows of all parts fit
one worker, the workers send them to each other, and each grows whole trees of all rows, as one machine does. Where they
do not, trees grow level by level (`levels`).

That the forest is the same to the bit rests on three things: sums are exact (`exact_units`), so that they do not depend
on how the data are cut; every node draws features from a stream of its own, so that trees do not depend on the order of
growth; and the edges of the bins come from a sample that each part can draw its share of (`sampled_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.errors import ArgumentError
from simile.learning.distributed import growing as work
from simile.learning.distributed.backend import Backend
from simile.learning.distributed.growing import Part, Size
from simile.learning.distributed.levels import Group
from simile.models.columns import layout
from simile.models.forest import Apart, Forest, SmoothForest, draw_seeds
from simile.models.trees import Bag, Bagging, Growth, Tree, cut_stretches, keep_best

_Grown = tuple[list[Any], Sequence[int]]  # handles of lists of trees, and the number of each tree in their order
AT_ONCE = 4  # trees that a core has before it, with the rows that they see

__all__ = ["Part", "choose_context_edges", "grow_apart", "grow_distributed", "grow_there"]


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
    forest: Forest = bring(backend, laid.grow(parts, model, laid.sizes[0].n_labels, smoothness, rng, exact=exact))
    return forest


def grow_there(
    backend: Backend,
    model: SmoothForest,
    parts: Sequence[Any],
    starts: IntArray,
    smoothness: float,
    rng: np.random.Generator,
) -> Any:
    """Grow a forest as `grow_distributed` does; returns its handle, or itself where it was put together here."""
    laid = _Laid.of(backend, parts, starts, None, None)
    return laid.grow(parts, model, laid.sizes[0].n_labels, smoothness, rng, exact=None)


def bring(backend: Backend, model: Any) -> Any:
    """Bring a model here, unless it is."""
    return model if isinstance(model, Apart | Forest) else backend.collect([model])[0]


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
) -> Any:
    """Grow trees of its own for each action, as `SmoothForest.fit_apart` does, by the labels of parts.

    The arguments are those of `grow_distributed`. Weights are (n, k). Returns the handle of the forests, or the forests
    where they were put together here.
    """
    laid, each = _Laid.of(backend, parts, starts, None, room), model.for_each_of(n_actions)
    width, grown = laid.sizes[0].n_labels // n_actions, []
    for action in range(n_actions):
        some = backend.map(work.of_action, parts, shared=(action, n_actions))
        grown.append(laid.grow(some, each, width, 0.0, rng, exact=exact))
    if all(isinstance(forest, Forest) for forest in grown):
        return Apart(tuple(grown))
    (forest,) = backend.map(work.set_apart, *([one] for one in grown))
    return forest


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
    ) -> Any:
        """Grow a forest, where the parts are; returns its handle, or itself where its nodes were split from here."""
        size, backend, seeds = self.sizes[0], self.backend, draw_seeds(model, rng)
        columns, lags = layout(size.horizon, size.n_contexts, size.n_actions)
        task = Growth.of(model, n_labels, columns, lags, smoothness)
        exact = backend.exact if exact is None else exact
        bag = task.bag(seeds, self.starts) if exact else Bag(Bagging.NONE, seeds, self.starts)
        if exact and self._bytes_together(task) <= self.room:
            packed = backend.map(work.pack_rows, parts, shared=(self.edges, task))
            grow = _grow_together if task.sees_all(self.starts) else self._grow_some
            grown, numbers = grow(backend, packed, task, seeds)
        else:
            rows = backend.map(work.lay_rows, parts, self.places, shared=(self.edges, task))
            if exact:
                return Forest.of(self._grow_levels(rows, task, seeds), self.edges, task, bag)
            grown, numbers = self._grow_apart(rows, task, seeds)
        _wait(backend, grown)
        (forest,) = backend.map(work.make_forest, *([some] for some in grown), shared=(numbers, self.edges, task, bag))
        return forest

    def _bytes_together(self, task: Growth) -> float:
        """Count what it takes to have all rows that a tree sees in one place, and to grow trees on bags of them."""
        size, channels = self.sizes[0], _channels(task)
        n, widest = float(self.starts[-1]), size.horizon.reach + size.horizon.wait
        padded = sum(size.frames for size in self.sizes) + len(self.starts) * widest
        arrays = size.n_labels * (1 if task.model.by_labels else 3) + size.is_weighed
        came = padded * (size.n_contexts + size.n_actions) + n * (4 + 8 * arrays)
        bags = 2 * n * (4 + 8 * channels)  # each and a copy to sort it in
        if task.sees_all(self.starts):
            return 2 * came + 8 * channels * n + self.backend.threads * bags
        longest = int(np.diff(cut_stretches(self.starts)).max())  # a tree sees one stretch at least
        share = min(1.0, max(task.model.max_frames or longest, longest) / n)
        return self.backend.threads * share * (3 * came + 8 * channels * n + bags)

    def _grow_some(self, backend: Backend, packed: Sequence[Any], task: Growth, seeds: tuple[int, ...]) -> _Grown:
        """Let workers get the stretches that a tree sees from all parts, tree by tree, and grow it on them."""
        begins = np.searchsorted(cut_stretches(self.starts), np.cumsum([0, *(size.rows for size in self.sizes)]))
        spans, turns = backend.place(list(pairwise(begins))), backend.place([(seed,) for seed in seeds])
        seen = backend.place([task.seen(seed, self.starts) for seed in seeds])
        grown, alone = list[Any](), replace(task, model=replace(task.model, max_frames=None))
        together = AT_ONCE * backend.workers * backend.threads
        for first in range(0, len(seeds), together):
            some = slice(first, first + together)
            each = [backend.map(work.take_seen, packed, spans, shared=(one,)) for one in seen[some]]
            of_parts = zip(*each, strict=True)
            grown += backend.map(work.grow_together, *of_parts, turns[some], shared=(alone, 1))
            _wait(backend, grown[some])
        return grown, range(len(seeds))

    def _grow_levels(self, rows: Sequence[Any], task: Growth, seeds: tuple[int, ...]) -> list[Tree]:
        """Grow as many trees at a time as a worker has room for, with the nodes of a level and of the next."""
        taken = 2 * (4 + 8 * _channels(task)) * -(-int(self.starts[-1]) // self.backend.workers)
        group = max(1, self.room // taken)
        begins = np.cumsum([0, *(size.rows for size in self.sizes)])
        trees, together = [], Group(self.backend, rows, task, self.starts, begins, self.room)
        for first in range(0, len(seeds), group):
            trees += together.grow(seeds[first : first + group])
        return [keep_best(tree, task.model.max_leaves) for tree in trees]

    def _grow_apart(self, rows: Sequence[Any], task: Growth, seeds: tuple[int, ...]) -> _Grown:
        """Grow each tree on one part: they stand at equal distances along the rows, from one drawn by its seed on."""
        backend, ends = self.backend, np.cumsum([size.rows for size in self.sizes])
        stands = (seeds[0] / 2**63 + np.arange(len(seeds))) * (ends[-1] / len(seeds))
        part_of = np.minimum(np.searchsorted(ends, stands, side="right"), len(rows) - 1)
        numbers = [np.flatnonzero(part_of == part) for part in range(len(rows))]
        turns = backend.place([tuple(seeds[i] for i in mine) for mine in numbers])
        return backend.map(work.grow_here, rows, turns, shared=(task,)), np.concatenate(numbers).tolist()


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


def _grow_together(backend: Backend, packed: Sequence[Any], task: Growth, seeds: tuple[int, ...]) -> _Grown:
    """Let each worker get the rows of all parts, and grow its share of the trees on them."""
    workers = min(backend.workers, len(seeds))  # asked once: there may be fewer by and by
    turns = [range(len(seeds))[i::workers] for i in range(workers)]
    given = backend.place([tuple(seeds[i] for i in mine) for mine in turns])
    everywhere = ([part] * len(turns) for part in packed)
    grown = backend.map(work.grow_together, *everywhere, given, shared=(task, backend.threads))
    return grown, [i for mine in turns for i in mine]


def _wait(backend: Backend, grown: Sequence[Any]) -> None:
    """Wait until trees are grown, so that their rows are gone before there are others."""
    backend.collect(backend.map(len, grown))


def _channels(task: Growth) -> int:
    """Count what is summed of each row."""
    some: FloatArray = np.zeros((1, task.k))
    return int(task.payload(some, some, some).shape[1])
