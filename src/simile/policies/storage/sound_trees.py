"""Whether trees from a file can be walked: the kernels trust their indices, so a wrong one would read anywhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from simile.errors import StorageError
from simile.models import Forest, PiecewiseLinear
from simile.models.forest import Bag

FARTHEST = 2**31 - 1  # int32, what the kernels' offsets are


def check_forest(forest: Forest, path: str) -> None:
    """Refuse a forest that the kernels could not walk, or would walk outside of it."""
    check_walk(forest, path)
    refuse(not np.isfinite(forest.value).all(), path, "value must be finite")
    refuse(not np.isfinite(forest.gain).all(), path, "gain must be finite")
    refuse(np.isnan(forest.threshold).any(), path, "threshold must not be NaN")
    check_layout(forest, path)
    number, seeds = np.sort(forest.number), forest.bag.seeds
    refuse(int(number[0]) < 0 or int(number[-1]) >= len(seeds), path, "number must tell a seed of the bag")
    refuse(not _rises(number), path, "number must tell a different seed for each tree")


def check_layout(model: Forest | PiecewiseLinear, path: str) -> None:
    """Refuse entries of a state that lie outside of the frames."""
    columns, lags = model.columns, model.lags
    refuse(((columns < 0) | (columns >= model.width)).any(), path, "columns must lie in the frame")
    refuse((lags < 0).any() or int(lags.max()) * model.width > FARTHEST, path, "lags must be within reach")


def check_walk(forest: Forest, path: str) -> None:
    """Refuse nodes from which some walk does not end, in a leaf of its own tree, in as many steps as it says."""
    n = len(forest.feature)
    feature, child, here = forest.feature, forest.child, np.arange(n, dtype=np.int32)  # small: forests can be large
    leaf = feature == -1
    inner = here[~leaf]
    refuse(((feature < -1) | (feature >= len(forest.columns))).any(), path, "feature must be a feature or -1")
    # A walk goes on at a leaf until the deepest tree has arrived: the leaf must keep it, missing values and all.
    still = (child == here) & ~forest.missing_right & (forest.threshold == np.inf)
    refuse(not still[leaf].all(), path, "child of a leaf must be the leaf itself, for any value")
    left = child[inner]
    refuse(((left <= inner) | (left >= n - 1)).any(), path, "child must lie further on, and inside")
    parent = here.copy()
    parent[left] = parent[left + 1] = inner
    refuse(np.count_nonzero(parent != here) < 2 * len(inner), path, "child must belong to one node alone")
    roots = forest.roots
    ordered = roots[0] >= 0 and roots[-1] < n and _rises(roots)
    refuse(not ordered, path, "roots must be nodes, in order")
    refuse(not (parent[roots] == roots).all(), path, "roots must be no node's child")
    depth, root = _depths(parent)
    deepest = np.zeros(n, np.int32)
    np.maximum.at(deepest, root, depth)
    refuse(not np.array_equal(deepest[roots], forest.depths), path, "depths must be how deep the trees are")
    refuse((deepest[roots[1:]] > deepest[roots[:-1]]).any(), path, "depths must fall: the deepest tree comes first")


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
    refuse(len(starts) < 2 or not rising, path, "starts must rise from 0")
    refuse(min(bag.seeds) < 0, path, "seeds must not be negative")


def check_sklearn_tree(tree: Any, path: str) -> None:
    """Refuse what is no tree of scikit-learn, or one that scikit-learn, which checks nothing, would walk outside of."""
    from sklearn.tree._tree import Tree

    refuse(not isinstance(tree, Tree), path, "must be a tree of scikit-learn")
    n, inner = tree.node_count, np.flatnonzero(tree.children_left != -1)
    refuse(n < 1 or len(tree.value) != n, path, "must have as many values as nodes, and one at least")
    for children in (tree.children_left[inner], tree.children_right[inner]):
        refuse(((children <= inner) | (children >= n)).any(), path, "children must lie further on, and inside")
    feature = tree.feature[inner]
    refuse(((feature < 0) | (feature >= tree.n_features)).any(), path, "feature must be a feature")


def _rises(numbers: Any) -> bool:
    return bool((numbers[1:] > numbers[:-1]).all())  # compared: differences of hostile numbers overflow


def refuse(bad: Any, path: str, message: str) -> None:
    """Say what is wrong with the object at this place of the file."""
    if bad:
        raise StorageError(f"{path}: {message}")
