"""Whether models from a file can be asked: the kernels trust their indices, so a wrong one would read anywhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from simile.errors import StorageError
from simile.models import Forest, PiecewiseLinear
from simile.models.columns import LaggedModel
from simile.models.neural import Network
from simile.models.trees import Bag

FARTHEST = 2**31 - 1  # int32, what the kernels' offsets are
HEAVIEST = 1e30  # of weights: sums of larger ones overflow in single precision


def check_forest(forest: Forest, path: str) -> None:
    """Refuse a forest that the kernels could not walk, or would walk outside of it."""
    _check_walk(forest, path)
    _refuse(not np.isfinite(forest.value).all(), path, "value must be finite")
    _refuse(not np.isfinite(forest.gain).all(), path, "gain must be finite")
    _refuse(np.isnan(forest.threshold).any(), path, "threshold must not be NaN")
    _check_layout(forest, path)
    number, seeds = np.sort(forest.number), forest.bag.seeds
    _refuse(int(number[0]) < 0 or int(number[-1]) >= len(seeds), path, "number must tell a seed of the bag")
    _refuse(not _rises(number), path, "number must tell a different seed for each tree")


def _check_walk(forest: Forest, path: str) -> None:
    """Refuse nodes from which some walk does not end, in a leaf of its own tree, in as many steps as it says."""
    n = len(forest.feature)
    feature, child, here = forest.feature, forest.child, np.arange(n, dtype=np.int32)  # small: forests can be large
    leaf = feature == -1
    inner = here[~leaf]
    _refuse(((feature < -1) | (feature >= len(forest.columns))).any(), path, "feature must be a feature or -1")
    # A walk goes on at a leaf until the deepest tree has arrived: the leaf must keep it, missing values and all.
    still = (child == here) & ~forest.missing_right & (forest.threshold == np.inf)
    _refuse(not still[leaf].all(), path, "child of a leaf must be the leaf itself, for any value")
    left = child[inner]
    _refuse(((left <= inner) | (left >= n - 1)).any(), path, "child must lie further on, and inside")
    parent = here.copy()
    parent[left] = parent[left + 1] = inner
    _refuse(np.count_nonzero(parent != here) < 2 * len(inner), path, "child must belong to one node alone")
    roots = forest.roots
    ordered = roots[0] >= 0 and roots[-1] < n and _rises(roots)
    _refuse(not ordered, path, "roots must be nodes, in order")
    _refuse(not (parent[roots] == roots).all(), path, "roots must be no node's child")
    depth, root = _depths(parent)
    deepest = np.zeros(n, np.int32)
    np.maximum.at(deepest, root, depth)
    _refuse(not np.array_equal(deepest[roots], forest.depths), path, "depths must be how deep the trees are")
    _refuse((deepest[roots[1:]] > deepest[roots[:-1]]).any(), path, "depths must fall: the deepest tree comes first")


def _depths(parent: Any) -> tuple[Any, Any]:
    """Return how far each node lies below its root, and that root; a root is its own parent.

    Each step doubles the way that is known, so even one endless branch takes few.
    """
    depth = (parent != np.arange(len(parent), dtype=np.int32)).astype(np.int32)
    while True:
        further = depth[parent]
        if not further.any():
            return depth, parent
        depth, parent = depth + further, parent[parent]


def check_bag(bag: Bag, path: str) -> None:
    """Refuse a bag that could not be drawn again."""
    starts = bag.starts
    rising = starts[0] == 0 and _rises(starts) and starts[-1] <= FARTHEST
    _refuse(len(starts) < 2 or not rising, path, "starts must rise from 0")
    _refuse(min(bag.seeds) < 0, path, "seeds must not be negative")


def check_sklearn_tree(tree: Any, path: str) -> None:
    """Refuse what is no tree of scikit-learn, or one that scikit-learn, which checks nothing, would walk outside of."""
    from sklearn.tree._tree import Tree

    _refuse(not isinstance(tree, Tree), path, "must be a tree of scikit-learn")
    n, inner = tree.node_count, np.flatnonzero(tree.children_left != -1)
    _refuse(n < 1 or len(tree.value) != n, path, "must have as many values as nodes, and one at least")
    for children in (tree.children_left[inner], tree.children_right[inner]):
        _refuse(((children <= inner) | (children >= n)).any(), path, "children must lie further on, and inside")
    feature = tree.feature[inner]
    _refuse(((feature < 0) | (feature >= tree.n_features)).any(), path, "feature must be a feature")


def check_lines(model: PiecewiseLinear, path: str) -> None:
    """Refuse a model whose terms would read outside of a state, or are no numbers."""
    feature, knot = model.feature, model.knot
    _refuse(((feature < 0) | (feature >= len(model.columns))).any(), path, "feature must be a feature")
    _refuse((np.isnan(knot) | (knot == np.inf)).any(), path, "knot must be finite, or -inf for a line")
    for name in ("fill", "coefficient", "intercept"):
        _refuse(not np.isfinite(getattr(model, name)).all(), path, f"{name} must be finite")
    _check_layout(model, path)


def check_network(network: Network, path: str) -> None:
    """Refuse weights and units that are no numbers, or weights so large that sums of them overflow."""
    for array in network.parameters:
        _refuse(not (np.abs(array) <= HEAVIEST).all(), path, f"parameters must be finite, {HEAVIEST:g} at most")
    for name in ("center", "mean", "scale", "spread"):
        _refuse(not np.isfinite(getattr(network, name)).all(), path, f"{name} must be finite")
    for name in ("scale", "spread"):
        _refuse(not (getattr(network, name) > 0.0).all(), path, f"{name} must be above zero")


def _check_layout(model: LaggedModel, path: str) -> None:
    """Refuse entries of a state that lie outside of the frames."""
    columns, lags = model.columns, model.lags
    _refuse(((columns < 0) | (columns >= model.width)).any(), path, "columns must lie in the frame")
    _refuse(int(np.abs(lags).max()) * model.width > FARTHEST, path, "lags must be within reach")


def _rises(numbers: Any) -> bool:
    return bool((numbers[1:] > numbers[:-1]).all())  # compared: differences of hostile numbers overflow


def _refuse(bad: Any, path: str, message: str) -> None:
    """Say what is wrong with the object at this place of the file."""
    if bad:
        raise StorageError(f"{path}: {message}")
