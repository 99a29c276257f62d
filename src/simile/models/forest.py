"""The smooth regression forest of Appendix B.

Its pipeline: base columns are binned (`columns`), every tree is grown on a bag of rows (`trees`) by sums over bins
(`kernels.histograms`), the splits found in them (`kernels.splitting`) and the rows sent on (`kernels.growing`), and
states go down all trees together (`kernels.predicting`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from simile._common import checks
from simile._common.threads import spread
from simile._common.typing import FloatArray, IntArray
from simile.data.states import States
from simile.errors import ArgumentError
from simile.models.columns import BinnedColumns, LaggedModel
from simile.models.trees import Bag, Bagging, Criterion, Growth, Tree, grow_tree


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
    criterion : Criterion, optional
        What a split is chosen by. By default the algorithm's: the printed impurity in `simile.paper`, and the labels
        alone (`Criterion.LABELS`) everywhere else.
    bagging : Bagging
        What each tree is grown on.
    n_jobs : int, optional
        Threads; all cores by default. The forest does not depend on it.
    max_leaves : int, optional
        Most leaves of a tree, which is then grown best first: the next node to be split is the one whose split lowers
        the impurity most. None for no limit, and depth first.
    max_frames : int, optional
        Most frames that a tree is grown on: of more, it sees sequences, and stretches of long ones, drawn by chance for
        each tree. None for no limit.

    Examples
    --------
    >>> SmoothForest(n_trees=10).min_leaf
    32
    """

    n_trees: int = 50
    max_depth: int | None = 12
    min_leaf: int = 32
    max_features: float | Literal["sqrt"] | None = "sqrt"
    criterion: Criterion | None = None
    bagging: Bagging = Bagging.ROWS
    n_jobs: int | None = None
    max_leaves: int | None = None
    max_frames: int | None = None

    def __post_init__(self) -> None:
        checks.whole_number(self.n_trees, "n_trees", at_least=1)
        checks.whole_number(self.min_leaf, "min_leaf", at_least=1)
        if self.max_depth is not None:
            checks.whole_number(self.max_depth, "max_depth", at_least=0)
        if self.max_leaves is not None:
            checks.whole_number(self.max_leaves, "max_leaves", at_least=2)
        if self.max_frames is not None:
            checks.whole_number(self.max_frames, "max_frames", at_least=1)
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
            if not isinstance(getattr(self, name), kind | None if name == "criterion" else kind):
                choices = ", ".join(f"{kind.__name__}.{c.name}" for c in kind)
                raise ArgumentError(f"{name} must be one of {choices}; got {getattr(self, name)!r}")

    @property
    def _threads(self) -> int:
        return self.n_jobs or os.cpu_count() or 1

    @property
    def by_labels(self) -> bool:
        """Whether splits look at the labels alone: targets and anchors do not matter to such a forest."""
        return self.criterion in (None, Criterion.LABELS)

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

        The bits of a tree depend on the rows in its bag, not on their order. Rows may have `weights` (n,), or (n, k) of
        which the mean counts.
        """
        return self._grow(
            BinnedColumns.of(states, threads=self._threads), labels, targets, anchors, smoothness, rng, weights
        )

    def fit_apart(
        self,
        states: States,
        labels: FloatArray,
        n_actions: int,
        rng: np.random.Generator,
        *,
        weights: FloatArray | None = None,
    ) -> Apart:
        """Grow trees of its own for each of k actions: `labels` (n, any * k), action by action and again.

        Trees that serve all actions split where the noisiest of them gains. Each action has n_trees / sqrt(k): all of
        them together cost more than one forest, and less than k.
        """
        columns = BinnedColumns.of([states], threads=self._threads)
        each = self.for_each_of(n_actions)
        parts = [labels[:, j::n_actions].copy() for j in range(n_actions)]
        counts = [None] * n_actions if weights is None else list(weights.T)
        grown = [each._grow(columns, part, part, part, 0.0, rng, w) for part, w in zip(parts, counts, strict=True)]
        return Apart(tuple(grown))

    def for_each_of(self, n_actions: int) -> SmoothForest:
        """Return the recipe for the trees of one of k actions, where each has its own."""
        return replace(self, n_trees=math.ceil(self.n_trees / math.sqrt(n_actions)))

    def _grow(
        self,
        columns: BinnedColumns,
        labels: FloatArray,
        targets: FloatArray,
        anchors: FloatArray,
        smoothness: float,
        rng: np.random.Generator,
        weights: FloatArray | None = None,
    ) -> Forest:
        growth = Growth.of(self, labels.shape[1], columns.columns, columns.lags, smoothness)
        payload = growth.payload(labels, targets, anchors, weights)
        seeds = draw_seeds(self, rng)

        def grow(seed: int) -> Tree:
            return grow_tree(growth, columns, payload, seed)

        trees = spread(grow, seeds, self._threads)
        return Forest.of(trees, columns.edges, growth, growth.bag(seeds, columns.starts))


@dataclass(frozen=True, eq=False)
class Apart:
    """Forests of one action each: the first says the first of k actions of each aim, and so on."""

    forests: tuple[Forest, ...]

    def predict(self, S: FloatArray) -> FloatArray:
        """Map states (n, features) to outputs (n, any * k)."""
        said = np.stack([forest.predict(S) for forest in self.forests], axis=2)
        return said.reshape(len(S), -1)


def draw_seeds(model: SmoothForest, rng: np.random.Generator) -> tuple[int, ...]:
    """Draw a seed for each tree."""
    return tuple(int(s) for s in rng.integers(2**63, size=model.n_trees))


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
    def of(cls, trees: Sequence[Tree], edges: list[Any], growth: Growth, bag: Bag) -> Forest:
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
            here = (feature >= 0) & (growth.columns[feature] == column)
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
            columns=growth.columns,
            lags=growth.lags,
            width=len(edges),
            bag=bag,
            number=np.array(order, dtype=np.intp),
        )

    @classmethod
    def beside(cls, forests: Sequence[Forest]) -> Forest:
        """Put forests with as many trees side by side: the first says the first of k outputs, and so on, and again."""
        k, n = len(forests), forests[0].value.shape[1]
        before = np.cumsum([0, *(len(f.feature) for f in forests)]).astype(np.int32)
        value = np.zeros((before[-1], n * k))
        for j, forest in enumerate(forests):
            value[before[j] : before[j + 1], j::k] = k * forest.value  # the mean is over all trees
        depths = np.concatenate([f.depths for f in forests])
        order = np.argsort(-depths, kind="stable")
        first = [f.roots + shift for f, shift in zip(forests, before, strict=False)]
        lying, sizes = np.concatenate(first)[order], np.diff([*np.concatenate(first), before[-1]])[order]
        roots = np.cumsum([0, *sizes[:-1]])
        moved = np.repeat(roots - lying, sizes)  # how far each node goes, for the deepest trees to lie first
        rows = np.arange(before[-1]) - moved
        child = np.concatenate([f.child + shift for f, shift in zip(forests, before, strict=False)])
        names = ("feature", "threshold", "missing_right", "gain")
        return replace(
            forests[0],
            **{name: np.concatenate([getattr(f, name) for f in forests])[rows] for name in names},
            child=(child[rows] + moved).astype(np.int32),
            value=value[rows],
            roots=roots.astype(np.int32),
            depths=depths[order],
            bag=replace(forests[0].bag, seeds=tuple(seed for f in forests for seed in f.bag.seeds)),
            number=np.concatenate([f.number + i * len(f.roots) for i, f in enumerate(forests)])[order],
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
        from simile.models.kernels.predicting import pack_nodes

        offset = np.where(self.feature >= 0, offsets[self.feature], 0)
        return pack_nodes(self.threshold, offset, self.child, self.missing_right)

    def predict(self, S: FloatArray) -> FloatArray:
        """Map states (n, features) to actions (n, k)."""
        from simile.models.kernels.predicting import Trees, predict_rows

        with np.errstate(over="ignore"):  # what single precision cannot hold is larger than any threshold
            Z = np.ascontiguousarray(S, dtype=np.float32)
        if Z.shape[1] != len(self.columns):
            raise ArgumentError(
                f"S must have the {len(self.columns)} features the forest was grown on; got {Z.shape[1]}"
            )
        trees = Trees(self.on_matrix, self.roots, self.depths, self.value, bool(self.missing_right.any()))
        return np.asarray(predict_rows(Z, self.n_actions, trees=trees) / len(self.roots))

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
        unseen = [i for i, number in enumerate(self.number) if not self.bag.saw(int(number), sequence)]
        # Where each action has its own trees (`beside`), the mean is over those.
        says = np.logical_or.reduceat(self.value != 0.0, self.roots)
        everyone, left = np.maximum(says.sum(axis=0), 1), says[unseen].sum(axis=0)
        if not unseen or (left[says.any(axis=0)] == 0).any():
            raise ArgumentError(f"every tree saw sequence {sequence}: grow more than {len(self.roots)} trees")
        share = np.where(left > 0, everyone / len(self.roots) / (np.maximum(left, 1) / len(unseen)), 1.0)
        found = self.only(np.array(unseen))
        return found if (share == 1.0).all() else replace(found, value=found.value * share)
