"""What a worker does while a forest grows from data in many places: pure functions of one part of the data.

A worker holds the `Rows` of its part, and the `OpenNodes` of the trees that are being grown: which of its rows lie in
which node. Of these, only sums leave it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from operator import add, itemgetter
from typing import Any

import numpy as np

from simile._common.threads import spread
from simile._common.typing import FloatArray, IntArray
from simile.data.states import Horizon, States
from simile.models.columns import BinnedColumns
from simile.models.forest import Apart, Forest
from simile.models.trees import Growth, Tree, cut_stretches, grow_from, grow_tree, measure_bag, take_bag


@dataclass(frozen=True, eq=False)
class Part:
    """Training data of a contiguous range of the sequences: states, labels, targets a^ and anchors h(s), (n, k).

    Weights (n,), or (n, k), say how much the rows count, where they do not count alike.
    """

    states: States
    labels: FloatArray
    targets: FloatArray
    anchors: FloatArray
    weights: FloatArray | None = None


@dataclass(frozen=True)
class Size:
    """How large a part is, and how its states are laid out."""

    rows: int
    frames: int  # of its tape, whose columns choose the edges of the bins
    n_contexts: int
    n_actions: int
    n_labels: int
    horizon: Horizon
    is_weighed: bool


@dataclass(frozen=True)
class Place:
    """Where a part begins among all rows and among all frames."""

    row: int
    frame: int


@dataclass(frozen=True, eq=False)
class Packed:
    """The rows of a part as they travel to whoever grows whole trees: bins, and what the payload is made from."""

    columns: BinnedColumns
    arrays: tuple[FloatArray, ...]  # labels, and targets and anchors where the impurity needs them
    weights: FloatArray | None


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a part as trees see them."""

    columns: BinnedColumns
    payload: FloatArray  # (n, channels)
    first: int  # its first row among all


@dataclass(frozen=True, eq=False)
class OpenNodes:
    """The rows in each node that may still be split, node after node; of all trees of a group together."""

    rows: Any  # (in bags,) padded rows
    payload: FloatArray  # (in bags, channels) rounded, and times how often the row is in the bag
    begins: IntArray  # (nodes + 1,)


@dataclass(frozen=True, eq=False)
class PackedNodes:
    """The rows of some nodes, and the frames that their lags reach, on the way to whoever grows what is below."""

    bins: Any  # (W, frames) uint8
    rows: Any  # (n,) among those frames
    payload: FloatArray  # (n, channels)
    begins: IntArray  # (nodes + 1,)


@dataclass(frozen=True, eq=False)
class Splits:
    """How nodes were split: feature (-1 for a leaf), highest bin on the left, side of missing values, open children."""

    feature: Any  # (nodes,)
    bin: Any  # (nodes,)
    missing_right: Any  # (nodes,)
    keep: Any  # (nodes, 2) whether the left and the right child may be split again


@dataclass(frozen=True, eq=False)
class Histograms:
    """Sums by bin, one histogram after the other, without the bins that hold nothing.

    A bin takes one byte and eight for each sum, and a node has no more bins than rows: less travels than the bins
    between the lowest and the highest.
    """

    where: IntArray  # (histograms + 1,) where each begins
    bins: Any  # (entries,) uint8
    sums: FloatArray  # (entries, channels)

    def __add__(self, other: Histograms) -> Histograms:
        from simile.models.kernels.histograms import merge

        mine, its = ((h.where, h.bins, h.sums) for h in (self, other))
        return Histograms(*merge(*mine, *its))


def size_of(part: Part) -> Size:
    """Say how large a part is."""
    tape, states = part.states.tape, part.states
    widths = tape.n_contexts, tape.actions.shape[1], part.labels.shape[1]
    return Size(len(states), len(tape.floor), *widths, states.horizon, part.weights is not None)


def sampled_contexts(part: Part, place: Place, n_frames: int) -> Any:
    """Return the contexts (rows, m) in those of the sampled frames that lie in this part, in single precision."""
    from simile.models.kernels import binning

    tape, mine = part.states.tape, _sampled_here(part, place, n_frames)
    columns = (np.concatenate([x[:, j] for x in tape.parts])[mine] for j in range(tape.n_contexts))
    return np.stack([binning.single(column) for column in columns], axis=1)


def sampled_actions(part: Part, place: Place, n_frames: int) -> Any:
    """Return the actions (rows, k) in those of the sampled frames that lie in this part, in single precision."""
    from simile.models.kernels import binning

    return binning.single(part.states.tape.actions[_sampled_here(part, place, n_frames)])


def _sampled_here(part: Part, place: Place, n_frames: int) -> IntArray:
    from simile.models.kernels import binning

    frames: IntArray = binning.sampled_rows(n_frames)
    mine: IntArray = frames[within(frames, place.frame, len(part.states.tape.floor))] - place.frame
    return mine


def within(frames: IntArray, first: int, n: int) -> Any:
    """Tell which frames are among the n from the first on."""
    return (frames >= first) & (frames < first + n)


def choose_edges(*given: Any) -> list[Any]:
    """Put the samples of all parts, which come first, in the order of one column, and choose its edges."""
    from simile.models.kernels import binning

    *samples, sizes = given
    frames = binning.sampled_rows(sum(size.frames for size in sizes))
    values = np.empty((len(frames), samples[0].shape[1]), np.float32)
    for place, size, here in zip(places_of(sizes), sizes, samples, strict=True):
        values[within(frames, place.frame, size.frames)] = here
    return [binning.edges_between(column) for column in values.T]


def places_of(sizes: Sequence[Size]) -> list[Place]:
    """Tell where each part begins."""
    rows = np.cumsum([0, *(size.rows for size in sizes)])
    frames = np.cumsum([0, *(size.frames for size in sizes)])
    return [Place(int(row), int(frame)) for row, frame in zip(rows[:-1], frames[:-1], strict=True)]


def of_action(part: Part, action: int, n_actions: int) -> Part:
    """Keep what the trees of one action are grown on."""
    labels = part.labels[:, action::n_actions].copy()
    weights = None if part.weights is None else part.weights[:, action]
    return Part(part.states, labels, labels, labels, weights)


def pack_rows(part: Part, edges: list[Any], task: Growth) -> Packed:
    """Bin a part by the edges that all parts have in common, for the way to another worker."""
    columns = replace(BinnedColumns.of([part.states], edges), edges=[])
    arrays = (part.labels,) if task.model.by_labels else (part.labels, part.targets, part.anchors)
    return Packed(columns, arrays, part.weights)


def take_seen(part: Packed, span: tuple[int, int], seen: IntArray) -> Packed:
    """Take the stretches of a part that a tree sees; `span` are the first of all its stretches and the one after."""
    begin, end = span
    starts, numbers = cut_stretches(part.columns.starts), seen[(seen >= begin) & (seen < end)] - begin
    rows = np.isin(np.arange(end - begin), numbers).repeat(np.diff(starts))
    arrays, weights = tuple(a[rows] for a in part.arrays), None if part.weights is None else part.weights[rows]
    return Packed(part.columns.where(zip(starts[numbers], starts[numbers + 1], strict=True)), arrays, weights)


def grow_together(*given: Any) -> list[Tree]:
    """Grow whole trees on the rows of all parts, which come first, as one machine does."""
    *parts, seeds, task, threads = given
    columns = BinnedColumns.join([part.columns for part in parts])
    payload = np.concatenate([task.payload(*(part.arrays * 3)[:3], part.weights) for part in parts])
    return spread(lambda seed: grow_tree(task, columns, payload, seed), seeds, threads)


def make_forest(*given: Any) -> Forest:
    """Make a forest of trees that were grown in several places; the lists of them come first, then their numbers."""
    *grown, numbers, edges, task, bag = given
    trees = sorted(zip(numbers, (tree for some in grown for tree in some), strict=True), key=itemgetter(0))
    return Forest.of([tree for _, tree in trees], edges, task, bag)


def set_apart(*forests: Forest) -> Apart:
    """Keep the forests of all actions together."""
    return Apart(forests)


def lay_rows(part: Part, place: Place, edges: list[Any], task: Growth) -> Rows:
    """Bin a part by the edges that all parts have in common."""
    payload = task.payload(part.labels, part.targets, part.anchors, part.weights)
    return Rows(BinnedColumns.of([part.states], edges), payload, place.row)


def draw_bags(rows: Rows, seeds: tuple[int, ...], task: Growth, starts: IntArray) -> Any:
    """Draw the bags of trees over the rows of all parts, and return how often those here are in them, (trees, n)."""
    return np.stack([task.draw(seed, starts)[rows.first : rows.first + len(rows.payload)] for seed in seeds])


def draw_shares(draws: range, seeds: tuple[int, ...], begins: IntArray) -> list[Any]:
    """Make some of the draws of the bags of trees over all rows; returns the counts (trees, n) of each part."""
    from simile.models.kernels.drawing import draw_counts

    def draw(seed: int) -> Any:
        counts = draw_counts(int(begins[-1]), seed, 0, int(begins[-1]), draws)
        return counts.astype(np.uint8) if counts.max() < 256 else counts  # a byte a row travels

    drawn = [draw(seed) for seed in seeds]
    return [np.stack([counts[a:b] for counts in drawn]) for a, b in pairwise(begins)]


def add_shares(*shares: Any) -> Any:
    """Add up the counts of a part, (trees, n)."""
    return np.sum(shares, axis=0, dtype=np.int32)


def measure_bags(rows: Rows, counts: Any) -> FloatArray:
    """Return for each bag its size and the largest absolute value of each channel, (trees, 1 + channels)."""
    return np.stack([np.append(float(times.sum()), measure_bag(times, rows.payload)) for times in counts])


def widest(a: FloatArray, b: FloatArray) -> FloatArray:
    """Put the measures of the bags of two parts together: sizes add up, the largest value is the largest."""
    together: FloatArray = np.maximum(a, b)
    together[:, 0] = a[:, 0] + b[:, 0]
    return together


def open_roots(rows: Rows, counts: Any, units: FloatArray) -> OpenNodes:
    """Put the rows in the bag of each tree into its root; `units` (trees, channels) round them."""
    each = zip(counts, units, strict=True)
    bags = [take_bag(times, rows.columns.positions, rows.payload, unit) for times, unit in each]
    begins = np.cumsum([0, *(len(inside) for inside, _ in bags)])
    return OpenNodes(np.concatenate([b[0] for b in bags]), np.concatenate([b[1] for b in bags]), begins)


def sum_nodes(nodes: OpenNodes) -> FloatArray:
    """Return the sums of the payload of each node, (nodes, channels)."""
    bounds = zip(nodes.begins[:-1], nodes.begins[1:], strict=True)
    return np.stack([nodes.payload[begin:end].sum(axis=0) for begin, end in bounds])


def sum_bins(rows: Rows, nodes: OpenNodes, task: Growth, which: IntArray, streams: Any, drawn: range) -> Histograms:
    """Return the histograms of some of the nodes, for the features that they draw: from streams (which,), in turn."""
    from simile.models.kernels.growing import draw_features
    from simile.models.kernels.histograms import sum_by_bin

    features = draw_features(streams, len(task.columns), drawn.start, drawn.stop)
    held = (nodes.rows, nodes.payload, nodes.begins)
    return Histograms(*sum_by_bin(rows.columns.features, *held, which, features))


def find_splits(*given: Any) -> tuple[FloatArray, Any, FloatArray]:
    """Add up the histograms of some nodes from all parts, which come first, and look for better splits in them.

    The rest are streams and totals of the nodes, their best splits, the features tried and the sums on the left so far,
    as `try_features` has them, the last three of which are returned; and the task, and which features were drawn.
    """
    from simile.models.kernels.growing import draw_features
    from simile.models.kernels.splitting import make_room, try_features

    *parts, (streams, total, *so_far), task, drawn = given
    sums: Histograms = reduce(add, parts)
    features = draw_features(streams, len(task.columns), drawn.start, drawn.stop)
    best, tried, left = (array.copy() for array in so_far)
    room, nodes = make_room(total.shape[1]), np.arange(len(total))
    try_features(sums.where, sums.bins, sums.sums, nodes, features, total, task.rules, room, tried, best, left)
    return best, tried, left


def pack_nodes(rows: Rows, nodes: OpenNodes, which: IntArray) -> PackedNodes:
    """Take the rows of some of the nodes, and all that their lags reach, for the way to another worker."""
    spans = [slice(nodes.begins[node], nodes.begins[node + 1]) for node in which]
    mine, bins = np.concatenate([nodes.rows[span] for span in spans]), rows.columns.bins
    steps = np.zeros(bins.shape[1] + 1, np.int32)
    np.add.at(steps, mine - rows.columns.lags.max(), 1)
    np.add.at(steps, mine + 1, -1)
    reached = np.cumsum(steps[:-1]) > 0
    moved = (np.cumsum(reached) - 1)[mine].astype(np.int32)
    payload = np.concatenate([nodes.payload[span] for span in spans])
    begins = np.cumsum([0, *(span.stop - span.start for span in spans)])
    return PackedNodes(bins[:, reached], moved, payload, begins)


def finish_nodes(*given: Any) -> list[Tree]:
    """Grow all that is below some nodes, whose rows from all parts come first; the streams of the nodes follow."""
    from simile.models.kernels.histograms import Features

    *parts, streams, task, limit = given
    bins = np.concatenate([part.bins for part in parts], axis=1)
    features = Features(bins.ravel(), task.columns * bins.shape[1] - task.lags)
    before = np.cumsum([0, *(part.bins.shape[1] for part in parts)]).astype(np.int32)
    trees = []
    for node, stream in enumerate(streams):
        spans = [slice(*part.begins[node : node + 2]) for part in parts]
        rows = np.concatenate([p.rows[span] + at for p, span, at in zip(parts, spans, before, strict=False)])
        payload = np.concatenate([part.payload[span] for part, span in zip(parts, spans, strict=True)])
        trees.append(grow_from(task, features, rows, payload, stream, limit))
    return trees


def split_nodes(rows: Rows, nodes: OpenNodes, splits: Splits) -> OpenNodes:
    """Send rows on to the children that may be split again; the others need them no more."""
    from simile.models.kernels.growing import divide

    held = (nodes.rows, nodes.payload, nodes.begins)
    how = (splits.feature, splits.bin, splits.missing_right, splits.keep)
    return OpenNodes(*divide(rows.columns.features, *held, *how))


def grow_here(rows: Rows, seeds: tuple[int, ...], task: Growth) -> list[Tree]:
    """Grow whole trees on the rows of this part alone."""
    return [grow_tree(task, rows.columns, rows.payload, seed) for seed in seeds]
