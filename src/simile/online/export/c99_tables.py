"""The constant tables of a model in C: trees and lines, with no byte more than they need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.data.states import Horizon
from simile.models.columns import layout
from simile.policies.fused import FusedPolicy


@dataclass(frozen=True, eq=False)
class Tables:
    """A fused f, its entries numbered as those of a state.

    Inner nodes and leaves lie apart, and children are numbered within their tree, so that 16 bits mostly suffice.
    The order of trees and of terms is that of the kernels, because the bits of a sum depend on it.
    """

    threshold: Any  # (nodes,) float32
    feature: IntArray  # (nodes,) entry of the state, or its complement where missing values go right
    child: IntArray  # (nodes, 2) node of the tree, left and right; the complement of a leaf of the tree
    value: FloatArray  # (leaves, k)
    tree: IntArray  # (trees + 1, 2) first node and first leaf of each tree, and where the last one ends
    entry: IntArray  # (terms,)
    knot: FloatArray  # (terms,)
    fill: FloatArray  # (terms,)
    slope: FloatArray  # (1 + terms, k), first the intercept

    @classmethod
    def of(cls, fused: FusedPolicy, horizon: Horizon) -> Tables:
        """Lay out a fused policy that sees through this horizon."""
        nodes, values, terms = fused.trees.nodes, fused.trees.values, fused.lines.terms
        k = values.shape[1]
        columns, lags = layout(horizon, fused.width - k, k)
        entries = {int(offset): i for i, offset in enumerate(columns - lags * fused.width)}
        left = np.arange(len(nodes)) + np.where(nodes["child"] >= 0, nodes["child"], ~nodes["child"])
        trees = [_Tree.of(nodes, left, int(root), entries) for root in fused.trees.roots]
        ends = np.cumsum([(0, 0), *((len(t.feature), len(t.leaves)) for t in trees)], axis=0)
        return cls(
            threshold=np.concatenate([np.empty(0, np.float32), *(t.threshold for t in trees)]),
            feature=_join([t.feature for t in trees]),
            child=_join([t.child for t in trees]).reshape(-1, 2),
            value=np.concatenate([np.empty((0, k)), *(values[t.leaves] for t in trees)]),
            tree=ends,
            entry=np.array([entries[int(offset)] for offset in terms["offset"]], dtype=np.intp),
            knot=terms["knot"],
            fill=terms["fill"],
            slope=fused.lines.slopes,
        )

    @property
    def n_trees(self) -> int:
        """How many trees."""
        return len(self.tree) - 1

    @property
    def lines(self) -> bool:
        """Whether there is anything but trees."""
        return bool(len(self.entry) > 0 or self.slope.any())

    def arrays(self) -> Iterator[tuple[str, Any]]:
        """Yield the arrays by name, each of the smallest type that holds it; none that is empty."""
        if self.n_trees:
            yield "tree", _smallest(self.tree)
            yield "value", self.value
        if len(self.feature):
            yield "threshold", self.threshold
            yield "feature", _smallest(self.feature)
            yield "child", _smallest(self.child)
        if len(self.entry):
            yield "entry", _smallest(self.entry)
            yield "knot", self.knot
            yield "fill", self.fill
        if self.lines:
            yield "slope", self.slope


@dataclass(frozen=True, eq=False)
class _Tree:
    threshold: Any
    feature: IntArray
    child: IntArray
    leaves: IntArray  # which nodes of the forest they were

    @classmethod
    def of(cls, all_nodes: Any, left: Any, root: int, entries: dict[int, int]) -> _Tree:
        """Walk through one tree, the left of a node before its right; `left` (nodes,) tells the left children."""
        inner: dict[int, int] = {}
        leaves: dict[int, int] = {}
        ahead = [root]
        while ahead:
            at = ahead.pop()
            if left[at] == at:  # a leaf is its own child
                leaves[at] = len(leaves)
            else:
                inner[at] = len(inner)
                ahead += [int(left[at]) + 1, int(left[at])]
        nodes = all_nodes[list(inner)]
        feature = [entries[int(offset)] for offset in nodes["offset"]]
        code = {**inner, **{at: ~number for at, number in leaves.items()}}
        return cls(
            threshold=nodes["threshold"],
            feature=np.where(nodes["child"] >= 0, feature, np.invert(np.array(feature, dtype=np.intp))),
            child=np.array([(code[int(left[at])], code[int(left[at]) + 1]) for at in inner], dtype=np.intp),
            leaves=np.array(list(leaves), dtype=np.intp),
        )


def _join(parts: list[IntArray]) -> IntArray:
    return np.concatenate([np.empty(0, np.intp), *(part.ravel() for part in parts)])


def _smallest(values: IntArray) -> Any:
    """Return whole numbers in 16 bits where they fit, else in 32."""
    return values.astype(np.int16 if np.abs(values).max(initial=0) <= np.iinfo(np.int16).max else np.int32)
