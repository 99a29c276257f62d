"""The smooth regression forest of Appendix B, with the kernels that grow it and send states down its trees.

No lag matrix is ever built: each base column is binned once, and a lagged feature is that column, read at an
offset. The bins of the contexts are kept on the tape, so that the rounds of a run bin the actions alone.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property, reduce
from typing import Any, ClassVar, Literal

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray, IntArray
from simile.data.states import Horizon, States, Tape
from simile.errors import ArgumentError

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


@dataclass(frozen=True)
class SmoothForest:
    """A recipe for smooth regression forests (Appendix B).

    Parameters
    ----------
    n_trees : int
        How many trees.
    max_depth : int, optional
        Longest way from the root to a leaf; None for no limit.
    min_leaf : int
        Fewest frames in a leaf.
    max_features : "sqrt", int or float, optional
        How many features a node tries: the square root of their number, a number, or a share; None for all.
    criterion : Criterion
        What a split is chosen by.
    bagging : Bagging
        What each tree is grown on.
    n_jobs : int, optional
        Threads; all cores by default. The forest does not depend on it.

    Examples
    --------
    >>> SmoothForest(n_trees=10).min_leaf
    32
    """

    n_trees: int = 50
    max_depth: int | None = 12
    min_leaf: int = 32
    max_features: float | Literal["sqrt"] | None = "sqrt"
    criterion: Criterion = Criterion.LABELS
    bagging: Bagging = Bagging.ROWS
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        checks.whole_number(self.n_trees, "n_trees", at_least=1)
        checks.whole_number(self.min_leaf, "min_leaf", at_least=1)
        if self.max_depth is not None:
            checks.whole_number(self.max_depth, "max_depth", at_least=0)
        if isinstance(self.max_features, str):
            if self.max_features != "sqrt":
                raise ArgumentError(f'max_features must be "sqrt", a number or None; got {self.max_features!r}')
        elif isinstance(self.max_features, float):
            checks.number(self.max_features, "max_features", above=0.0, at_most=1.0)
        elif self.max_features is not None:
            checks.whole_number(self.max_features, "max_features", at_least=1)
        if self.n_jobs is not None:
            checks.whole_number(self.n_jobs, "n_jobs", at_least=1)
        for name, kind in (("criterion", Criterion), ("bagging", Bagging)):
            if not isinstance(getattr(self, name), kind):
                choices = ", ".join(f"{kind.__name__}.{c.name}" for c in kind)
                raise ArgumentError(f"{name} must be one of {choices}; got {getattr(self, name)!r}")

    def fit_smooth(
        self,
        states: Sequence[States],
        labels: FloatArray,
        targets: FloatArray,
        anchors: FloatArray,
        smoothness: float,
        rng: np.random.Generator,
        *,
        weights: FloatArray | None = None,
    ) -> Forest:
        """Grow a forest on lazy states; `labels` (n, k) make the leaf values, targets and anchors the impurity.

        The bits of a tree depend on the rows in its bag, not on their order. Where rows have `weights` (n,), they do:
        weighted sums are rounded.
        """
        base = Base.of(states)
        task = Task.of(self, labels.shape[1], base.columns, base.lags, smoothness)
        payload = task.payload(labels, targets, anchors)
        seeds = draw_seeds(self, rng)

        def grown(seed: int) -> Tree:
            return grow_tree(task, base, payload, seed, weights)

        with ThreadPoolExecutor(self.n_jobs or os.cpu_count() or 1) as pool:
            trees = list(pool.map(grown, seeds))
        return Forest.of(trees, base.edges, task, Bag(self.bagging, seeds, base.starts))


def draw_seeds(model: SmoothForest, rng: np.random.Generator) -> tuple[int, ...]:
    """Draw a seed for each tree."""
    return tuple(int(s) for s in rng.integers(2**63, size=model.n_trees))


@dataclass(frozen=True, eq=False)
class Task:
    """What the trees of one forest have in common: the recipe, the layout of the features, and lambda."""

    model: SmoothForest
    k: int
    columns: IntArray  # (features,) base column of each feature
    lags: IntArray  # (features,)
    smoothness: float
    tried: int  # how many features a node tries

    @classmethod
    def of(cls, model: SmoothForest, k: int, columns: IntArray, lags: IntArray, smoothness: float) -> Task:
        """Work out how many features a node tries."""
        n_features = len(columns)
        if model.max_features == "sqrt":
            tried = max(1, math.isqrt(n_features))
        elif isinstance(model.max_features, float):
            tried = max(1, round(model.max_features * n_features))
        else:
            tried = n_features if model.max_features is None else min(int(model.max_features), n_features)
        return cls(model, k, columns, lags, smoothness, tried)

    @property
    def curb(self) -> float:
        """The factor of v^2 in the impurity of a leaf."""
        return 1.0 if self.model.criterion is Criterion.LABELS else 1.0 + self.smoothness

    @property
    def weigh(self) -> bool:
        """Whether children are weighed by their size."""
        return self.model.criterion is Criterion.PRINTED

    def payload(self, labels: FloatArray, targets: FloatArray, anchors: FloatArray) -> FloatArray:
        """Lay out what a split needs of each row: 1, labels, and for the impurity its goals and squares."""
        parts = [np.ones((len(labels), 1)), labels]
        if self.model.criterion is not Criterion.LABELS:
            parts.append(targets + self.smoothness * anchors)
        if self.model.criterion is Criterion.PRINTED:
            squares = targets**2 + self.smoothness * anchors**2
            # Column by column: how numpy adds up along an axis may depend on the number of rows.
            parts.append(reduce(np.add, squares.T)[:, np.newaxis])
        return np.concatenate(parts, axis=1)


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


def grow_tree(task: Task, base: Base, payload: FloatArray, seed: int, weights: FloatArray | None = None) -> Tree:
    """Grow the tree of a seed on rows at hand."""
    from simile.models.kernels import growing

    model = task.model
    counts = Bag(model.bagging, (seed,), base.starts).counts(0)
    times = counts if weights is None else counts * weights
    units = exact_units(growing.reach(times, payload), float(counts.sum()))
    rows, payload = growing.take(times, base.positions, payload, units)
    # Every leaf weighs at least min_leaf, up to rounding errors of sums of weights.
    most = max(1, 2 * int(1.000001 * payload[:, 0].sum() / model.min_leaf) - 1)
    depth = len(rows) if model.max_depth is None else min(model.max_depth, len(rows))
    most = min(most, 2 ** (min(depth, 40) + 1) - 1, 2 * len(rows) - 1)
    tree = Tree(
        feature=np.empty(most, np.int32),
        bin=np.empty(most, np.uint8),
        missing_right=np.zeros(most, np.bool_),
        child=np.empty(most, np.int32),
        value=np.empty((most, task.k)),
        gain=np.empty(most),
        depth=0,
    )
    size, depth = growing.grow(
        base.bins,
        task.columns,
        task.lags,
        rows,
        payload,
        task.k,
        task.curb,
        task.weigh,
        task.tried,
        float(model.min_leaf),
        depth,
        np.uint64(seed ^ OTHER_STREAM),
        tree.feature,
        tree.bin,
        tree.missing_right,
        tree.child,
        tree.value,
        tree.gain,
    )
    return tree.cut(size, depth)


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

    def cut(self, size: int, depth: int) -> Tree:
        """Return copies of the part that was used."""
        used = {
            n: getattr(self, n)[:size].copy() for n in ("feature", "bin", "missing_right", "child", "value", "gain")
        }
        return replace(self, depth=depth, **used)


@dataclass(frozen=True, eq=False)
class Base:
    """Binned base columns, contexts then actions, with room before each sequence for the longest lag."""

    bins: Any  # (W, padded rows) uint8
    edges: list[Any]  # of each base column
    columns: IntArray  # (features,) base column of each feature
    lags: IntArray  # (features,)
    positions: Any  # (n,) padded row of each state
    starts: IntArray  # (sequences + 1,) where each sequence begins among the states

    @property
    def width(self) -> int:
        """Number W of base columns."""
        return len(self.bins)

    @classmethod
    def of(cls, states: Sequence[States], edges: list[Any] | None = None) -> Base:
        """Bin what states read; several sets of states (DAgger's) are laid one after the other.

        `edges` of each base column are given where there is more data than these states.
        """
        from simile.models.kernels import binning

        horizon = states[0].horizon
        m = states[0].tape.n_contexts
        k = states[0].tape.actions.shape[1]
        pads = [Padding.of(s.tape, horizon) for s in states]
        if edges is None:
            context_edges, _ = _binned_contexts(states[0].tape, pads[0])
            actions = [s.tape.actions for s in states]
            action_edges = [binning.bin_edges(np.concatenate([a[:, j] for a in actions])) for j in range(k)]
        else:
            context_edges, action_edges = edges[:m], edges[m:]
        blocks, positions, starts, before = [], [], [0], 0
        for s, pad in zip(states, pads, strict=True):
            _, contexts = _binned_contexts(s.tape, pad, context_edges, keep=edges is not None)
            block = np.empty((m + k, len(pad.source)), np.uint8)
            block[:m] = contexts
            for j in range(k):
                binned = np.empty(len(s.tape.actions), np.uint8)
                binning.bin_column(s.tape.actions[:, j], action_edges[j], binned)
                block[m + j] = binned[pad.source]
            blocks.append(block)
            positions.append(pad.position[s.rows] + before)
            before += len(pad.source)
            floor = s.tape.floor[s.rows]
            starts += [starts[-1] + int(i) for i in (*(np.flatnonzero(np.diff(floor)) + 1), len(floor))]
        columns, lags = layout(horizon, m, k)
        return cls(
            bins=blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1),
            edges=[*context_edges, *action_edges],
            columns=columns,
            lags=lags,
            positions=np.concatenate(positions).astype(np.int32),
            starts=np.array(starts, dtype=np.intp),
        )


@dataclass(frozen=True, eq=False)
class Padding:
    """Room before each sequence, as long as the longest lag, filled with its first frame."""

    source: Any  # (padded rows,) the row of the tape that each padded row repeats
    position: Any  # (rows,) the padded row of each row of the tape

    @classmethod
    def of(cls, tape: Tape, horizon: Horizon) -> Padding:
        """Lay the sequences of a tape out with room between them; kept with the contexts."""
        room = max(horizon.memory, *horizon.context_lags)
        if ("padding", room) not in tape.memo:
            begins = np.unique(tape.floor)
            lengths = np.diff(np.append(begins, len(tape.floor)))
            source = np.concatenate(
                [np.concatenate([np.full(room, b), np.arange(b, b + n)]) for b, n in zip(begins, lengths, strict=True)]
            ).astype(np.int32)
            number = np.repeat(np.arange(len(begins)), lengths)
            position = (np.arange(len(tape.floor)) + room * (number + 1)).astype(np.int32)
            tape.memo["padding", room] = cls(source, position)
        padding: Padding = tape.memo["padding", room]
        return padding


def layout(horizon: Horizon, n_contexts: int, n_actions: int) -> tuple[IntArray, IntArray]:
    """Return base column and lag of each feature, in the order of `States.matrix`."""
    columns = [c for _ in horizon.context_lags for c in range(n_contexts)]
    columns += [n_contexts + c for _ in horizon.action_lags for c in range(n_actions)]
    lags = [lag for lag in horizon.context_lags for _ in range(n_contexts)]
    lags += [lag for lag in horizon.action_lags for _ in range(n_actions)]
    return np.array(columns, dtype=np.intp), np.array(lags, dtype=np.intp)


class LaggedModel:
    """An f that reads frames by itself: each entry of a state is a base column, so many frames ago."""

    kind: ClassVar[str]  # what a message calls it

    columns: IntArray  # (features,) base column of each entry of the state
    lags: IntArray  # (features,)
    width: int  # number of base columns, contexts then actions

    @property
    def n_actions(self) -> int:
        """Dimension k of an action."""
        raise NotImplementedError

    @property
    def n_contexts(self) -> int:
        """Dimension m of a context."""
        return self.width - self.n_actions

    def fits(self, horizon: Horizon, n_contexts: int, n_actions: int) -> bool:
        """Tell whether f reads the states of this horizon and predicts k actions: the kernels do not look."""
        sizes = (n_contexts, n_actions, horizon.n_features(n_contexts, n_actions))
        if (self.n_contexts, self.n_actions, len(self.columns)) != sizes:
            return False
        return np.array_equal((self.columns, self.lags), layout(horizon, n_contexts, n_actions))


def _binned_contexts(
    tape: Tape, pad: Padding, edges: list[Any] | None = None, *, keep: bool = False
) -> tuple[list[Any], Any]:
    """Bin the contexts of a tape once, by their own edges or by given ones; returns edges and bins (m, padded rows)."""
    from simile.models.kernels import binning

    own, common = (("bins", kind, len(pad.source)) for kind in ("own", "common"))
    for key in (own,) if edges is None else (own, common):
        found: tuple[list[Any], Any] | None = tape.memo.get(key)
        if found is not None and (edges is None or all(map(np.array_equal, found[0], edges))):
            return found
    bins = np.empty((tape.n_contexts, len(pad.source)), np.uint8)
    chosen = []
    for j, out in enumerate(bins):
        column = np.concatenate([part[:, j] for part in tape.parts])
        chosen.append(binning.bin_edges(column) if edges is None else edges[j])
        binned = np.empty(len(column), np.uint8)
        binning.bin_column(column, chosen[j], binned)
        np.take(binned, pad.source, out=out)
    if edges is None or keep:  # given edges are kept apart: what a tape gives must not depend on its company
        tape.memo[own if edges is None else common] = chosen, bins
    return chosen, bins


@dataclass(frozen=True, eq=False)
class Bag:
    """What each tree of a forest was grown on, kept as the seeds that drew it."""

    bagging: Bagging
    seeds: tuple[int, ...]
    starts: IntArray

    def counts(self, tree: int) -> Any:
        """Return how often each row was in the bag of a tree, (n,)."""
        from simile.models.kernels import growing

        counts = np.ones(int(self.starts[-1]), np.int32)
        if self.bagging is not Bagging.NONE:
            growing.draw(self.starts, self.bagging is Bagging.SEQUENCES, self.seeds[tree], 0, counts)
        return counts


@dataclass(frozen=True, eq=False)
class Forest(LaggedModel):
    """A fitted forest: all trees in flat arrays. It predicts the mean of its trees.

    The trees lie deepest first, which lets the kernels stop looking at those that have arrived; `number` tells the
    place of each among the seeds of its bag.
    """

    kind = "a forest"

    feature: Any  # (nodes,) -1 for a leaf
    threshold: Any  # (nodes,) float32: values up to it go left
    missing_right: Any  # (nodes,)
    child: Any  # (nodes,) left child, the right one next to it; a leaf is its own
    value: FloatArray  # (nodes, k)
    gain: FloatArray  # (nodes,)
    roots: Any  # (trees,)
    depths: Any  # (trees,)
    columns: IntArray
    lags: IntArray
    width: int
    bag: Bag
    number: IntArray

    @classmethod
    def of(cls, trees: Sequence[Tree], edges: list[Any], task: Task, bag: Bag) -> Forest:
        """Put trees side by side; `edges` are those of each base column."""
        order = sorted(range(len(trees)), key=lambda i: -trees[i].depth)
        sizes = [len(trees[i].feature) for i in order]
        roots = np.cumsum([0, *sizes[:-1]]).astype(np.int32)
        feature = np.concatenate([trees[i].feature for i in order])
        bins = np.concatenate([trees[i].bin for i in order])
        threshold = np.full(len(feature), np.inf, np.float32)
        for column, below in enumerate(edges):
            # The last bin has no edge above it: all values go left, and the missing ones right.
            above = np.append(below, np.float32(np.inf)).astype(np.float32)
            here = (feature >= 0) & (task.columns[feature] == column)
            threshold[here] = above[np.minimum(bins[here], len(below))]
        return cls(
            feature=feature,
            threshold=threshold,
            missing_right=np.concatenate([trees[i].missing_right for i in order]),
            child=np.concatenate([trees[i].child + r for i, r in zip(order, roots, strict=True)]).astype(np.int32),
            value=np.concatenate([trees[i].value for i in order]),
            gain=np.concatenate([trees[i].gain for i in order]),
            roots=roots,
            depths=np.array([trees[i].depth for i in order], np.int32),
            columns=task.columns,
            lags=task.lags,
            width=len(edges),
            bag=bag,
            number=np.array(order, dtype=np.intp),
        )

    @property
    def n_actions(self) -> int:
        """Dimension k of an action."""
        return int(self.value.shape[1])

    @property
    def feature_importances(self) -> FloatArray:
        """How much of the fall of the impurity each feature brought about, (features,), summing to one."""
        inner = self.feature >= 0
        total: FloatArray = np.zeros(len(self.columns))
        np.add.at(total, self.feature[inner], np.maximum(self.gain[inner], 0.0))  # the smooth impurity may rise
        return total / total.sum() if total.sum() > 0.0 else total

    @cached_property
    def on_matrix(self) -> Any:
        """The nodes, reading features from a row of a lag matrix."""
        return self.nodes(np.arange(len(self.columns)))

    @cached_property
    def on_tape(self) -> Any:
        """The nodes, reading features from a tape of frames."""
        return self.nodes(self.columns - self.lags * self.width)

    def nodes(self, offsets: IntArray) -> Any:
        """Pack the nodes for the kernels, with the features at given offsets."""
        from simile.models.kernels import rolling

        nodes = np.zeros(len(self.feature), rolling.NODE)
        nodes["threshold"] = self.threshold
        nodes["offset"] = np.where(self.feature >= 0, offsets[self.feature], 0)
        nodes["child"] = np.where(self.missing_right, ~self.child, self.child)
        return nodes

    def predict(self, S: FloatArray) -> FloatArray:
        """Map states (n, features) to actions (n, k)."""
        from simile.models.kernels import rolling

        with np.errstate(over="ignore"):  # what single precision cannot hold is larger than any threshold
            Z = np.ascontiguousarray(S, dtype=np.float32)
        if Z.shape[1] != len(self.columns):
            raise ArgumentError(
                f"S must have the {len(self.columns)} features the forest was grown on; got {Z.shape[1]}"
            )
        out = np.empty((len(Z), self.n_actions))
        places = np.arange(len(Z)) * Z.shape[1]
        rolling.predict(self.on_matrix, self.roots, self.depths, self.value, Z.ravel(), places, out)
        return out / len(self.roots)

    def only(self, trees: IntArray) -> Forest:
        """Return the forest of some of its trees (places in `roots`); the nodes are shared."""
        trees = np.sort(trees)  # the deepest stay first
        return replace(self, roots=self.roots[trees], depths=self.depths[trees], number=self.number[trees])

    def out_of_bag(self, sequence: int, n_sequences: int) -> Forest:
        """Return the trees that saw nothing of one of the training sequences; needs `Bagging.SEQUENCES`."""
        if self.bag.bagging is not Bagging.SEQUENCES:
            raise ArgumentError("out-of-bag roll-outs need SmoothForest(bagging=Bagging.SEQUENCES)")
        if n_sequences != len(self.bag.starts) - 1:
            raise ArgumentError(
                f"demos must be the {len(self.bag.starts) - 1} sequences the forest was grown on; got {n_sequences}"
            )
        if not 0 <= sequence < n_sequences:
            raise ArgumentError(f"sequence must be one of 0 to {n_sequences - 1}; got {sequence}")
        row = int(self.bag.starts[sequence])
        unseen = [i for i, number in enumerate(self.number) if self.bag.counts(int(number))[row] == 0]
        if not unseen:
            raise ArgumentError(f"every tree saw sequence {sequence}: grow more than {len(self.roots)} trees")
        return self.only(np.array(unseen))
