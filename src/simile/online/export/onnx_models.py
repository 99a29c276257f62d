"""Forests, lines and networks in an ONNX graph, without losing the precision that its operator for trees has not."""

from __future__ import annotations

import contextlib
import io
import logging
import math
import warnings
from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np

from simile._common.needs import need
from simile._common.typing import FloatArray, PerAction
from simile.errors import ArgumentError
from simile.models import Forest, PiecewiseLinear
from simile.online.export.onnx_graph import OPSET, Graph

SINGLE_BITS = 24  # of the significand of a float


@runtime_checkable
class Networked(Protocol):
    """A model that is a torch module inside, as `simile.neural.Network` is."""

    def module(self) -> Any:
        """Return a torch.nn.Module (CPU, float32, eval) that maps raw states (n, features) to (n, k)."""


def add_forests(graph: Graph, seen: str, forests: list[tuple[Forest, PerAction]]) -> str:
    """Add forests and their weights; `seen` (n, features) holds floats as doubles. Returns (n, k), double."""
    nodes = [_reach(forest) for forest, _ in forests]
    value = np.concatenate(
        [weight / len(f.roots) * f.value[at] for (f, weight), (_, at) in zip(forests, nodes, strict=True)]
    )
    tree, number, feature, threshold, left, right, keeps_left = (
        np.concatenate(part) for part in zip(*_columns(forests, nodes), strict=True)
    )
    leaf = feature < 0
    high, low = _split(value[leaf], len(np.unique(tree)))
    n_leaves, k = high.shape
    out = graph.add(
        "TreeEnsembleRegressor",
        seen,
        domain="ai.onnx.ml",
        n_targets=2 * k,
        nodes_treeids=tree.tolist(),
        nodes_nodeids=number.tolist(),
        nodes_featureids=np.where(leaf, 0, feature).tolist(),
        nodes_modes=["LEAF" if end else "BRANCH_LEQ" for end in leaf],
        nodes_values_as_tensor=graph.tensor(np.where(leaf, 0.0, threshold)),
        nodes_truenodeids=np.where(leaf, 0, left).tolist(),
        nodes_falsenodeids=np.where(leaf, 0, right).tolist(),
        nodes_missing_value_tracks_true=keeps_left.astype(np.int64).tolist(),
        target_treeids=np.repeat(tree[leaf], 2 * k).tolist(),
        target_nodeids=np.repeat(number[leaf], 2 * k).tolist(),
        target_ids=np.tile(np.arange(2 * k), n_leaves).tolist(),
        target_weights_as_tensor=graph.tensor(np.concatenate([high, low], axis=1).ravel()),
    )
    parts = graph.cast(out, np.float64)
    places = [graph.constant(np.arange(k) + begin, np.int64) for begin in (0, k)]
    return graph.add("Add", *(graph.add("Gather", parts, place, axis=1) for place in places))


def add_line(graph: Graph, seen: str, line: PiecewiseLinear, weight: PerAction) -> str:
    """Add intercept + sum_j coefficient_j max(s_j, knot_j), where NaN counts as the fill."""
    entries = graph.add("Gather", seen, graph.constant(line.feature, np.int64), axis=1)
    known = graph.add("Where", graph.add("IsNaN", entries), graph.constant(line.fill), entries)
    bent = graph.add("Max", known, graph.constant(line.knot))
    total = graph.add("MatMul", bent, graph.constant(weight * line.coefficient))
    return graph.add("Add", total, graph.constant(weight * line.intercept))


def add_network(graph: Graph, seen: str, model: Networked, n_features: int) -> str:
    """Add a network that reads `seen` (n, features), double; returns (n, k), double."""
    # torch's exporter needs onnxscript.
    _, torch = (need(name, "exporting a network", extra="torch,export") for name in ("onnxscript", "torch"))
    # Two rows: torch takes a size of one for a constant.
    example = torch.zeros((2, n_features), dtype=torch.float32)
    with _quiet(), torch.inference_mode(False):
        program = torch.onnx.export(
            model.module(),
            (example,),
            dynamo=True,
            opset_version=OPSET,
            dynamic_shapes=({0: torch.export.Dim("n")},),
            verbose=False,
        )
    if program is None:
        raise ArgumentError(f"policy: torch could not export the network ({type(model).__name__})")
    return graph.cast(graph.merge(program.model_proto, graph.cast(seen, np.float32)), np.float64)


def _reach(forest: Forest) -> tuple[Any, Any]:
    """Return tree and place of each node that the roots lead to: a forest of some trees shares nodes with others."""
    tree, place = [], []
    for i, root in enumerate(forest.roots):
        ahead, inside = [int(root)], []
        while ahead:
            at = ahead.pop()
            inside.append(at)
            if forest.feature[at] >= 0:
                ahead += [int(forest.child[at]) + 1, int(forest.child[at])]
        tree.append(np.full(len(inside), i))
        place.append(np.array(inside))
    return np.concatenate(tree), np.concatenate(place)


def _columns(forests: list[tuple[Forest, PerAction]], nodes: list[tuple[Any, Any]]) -> list[tuple[Any, ...]]:
    """Return tree, number, feature, threshold, left, right and whether NaN goes left of each node, per forest."""
    found, before = [], 0
    for (forest, _), (tree, place) in zip(forests, nodes, strict=True):
        left = forest.child[place].astype(np.int64)
        found.append(
            (
                tree + before,
                place.astype(np.int64),  # the place in the forest serves as the number in the tree
                forest.feature[place].astype(np.int64),
                forest.threshold[place].astype(np.float64),
                left,
                left + 1,
                ~forest.missing_right[place],
            )
        )
        before += len(forest.roots)
    return found


def _split(value: FloatArray, n_trees: int) -> tuple[FloatArray, FloatArray]:
    """Write leaf values as a coarse and a fine part.

    The operator sums in double and returns a float, which errs by 1e-7; fed back, such errors may send a state down
    another branch. Sums of coarse parts, multiples of a power of two, are floats without an error, and the fine parts
    are so small that theirs does not matter.
    """
    largest = max(float(np.abs(value).max(initial=0.0)) * n_trees, np.finfo(np.float64).tiny * 2.0**SINGLE_BITS)
    grain = 2.0 ** (math.ceil(math.log2(largest)) + 1 - SINGLE_BITS)
    coarse = np.round(value / grain) * grain
    return coarse, value - coarse


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter's chatter from whoever exports a policy; its errors still come through."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
