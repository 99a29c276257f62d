"""Send states down many trees and along many lines.

A state is a place on a flat tape Z of float32 frames, W columns each: the feature of a node is read at an offset
from that place, so no state is ever copied. A node is 8 bytes, because what is read decides how long a step takes; the
children of a node lie side by side, a leaf is its own child, and all trees take a step together, so that the loads of
one overlap the work of another. Terms of a piecewise linear f are read at offsets too; theirs is one sum in one order,
so its bits depend on nothing else.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from simile.models.kernels.compiling import fetch, inner, kernel

# `child` tells how far behind the node its left child lies; its complement (~child) where missing values go right.
NODE = np.dtype([("threshold", np.float32), ("offset", np.int16), ("child", np.int16)])
WIDE = np.dtype([("threshold", np.float32), ("offset", np.int32), ("child", np.int32)])  # of large trees, long horizons
TERM = np.dtype([("knot", np.float64), ("fill", np.float64), ("offset", np.int64)])

BLOCK = 64  # trees that take a step together: while some do, the nodes of the others arrive


class Trees(NamedTuple):
    """All trees of a forest, or of several; the deepest come first."""

    nodes: Any  # (nodes,) NODE or WIDE
    roots: Any  # (trees,)
    depths: Any  # (trees,)
    values: Any  # (nodes, k)
    missing_right: bool  # whether missing values go right at some node: where they never do, no node is asked


class Lines(NamedTuple):
    """All terms of a piecewise linear f, or of several."""

    terms: Any  # (terms,) TERM
    slopes: Any  # (1 + terms, k) the intercept, then the coefficient of each term


@inner
def descend(trees, begin, end, Z, place, at):
    """Send the state at Z[place] down trees begin to end; `at` receives their leaves."""
    n = end - begin
    for i in range(n):
        at[i] = trees.roots[begin + i]
    for level in range(trees.depths[begin]):
        while n > 0 and trees.depths[begin + n - 1] <= level:
            n -= 1
        for i in range(n):
            here = at[i]
            node = trees.nodes[np.uintp(here)]  # unsigned: an index that may be negative costs a test
            value = Z[np.uintp(place + node["offset"])]
            child = node["child"]
            if not trees.missing_right or child >= 0:
                here += child + (value > node["threshold"])
            else:
                here += ~child + (not (value <= node["threshold"]))
            at[i] = here
            fetch(trees.nodes, here)


@inner
def add_terms(lines, j, Z, place):
    """Return the intercept and the sum of all terms for action j, in the state at Z[place]."""
    total = lines.slopes[0, j]
    for i in range(len(lines.terms)):
        term = lines.terms[i]
        value = np.float64(Z[np.uintp(place + term["offset"])])
        if value != value:  # NaN
            value = term["fill"]
        knot = term["knot"]
        total += lines.slopes[i + 1, j] * (value if value > knot else knot)
    return total


@kernel
def predict(trees, lines, Z, places, n, at, out):
    """Write the sum of all trees and terms for the states at the first n places to `out` (n, k).

    `at` (BLOCK,) is room to work in.
    """
    for i in range(n):
        for j in range(out.shape[1]):
            out[i, j] = 0.0
    for begin in range(0, len(trees.roots), BLOCK):
        end = begin + BLOCK if begin + BLOCK < len(trees.roots) else len(trees.roots)
        for i in range(n):
            descend(trees, begin, end, Z, places[i], at)
            for j in range(out.shape[1]):
                total = out[i, j]
                for tree in range(end - begin):
                    total += trees.values[np.uintp(at[tree]), j]
                out[i, j] = total
    for i in range(n):
        for j in range(out.shape[1]):
            out[i, j] += add_terms(lines, j, Z, places[i])


def pack_nodes(threshold: Any, offset: Any, child: Any, missing_right: Any) -> np.ndarray:
    """Pack nodes, whose left children are given as places: as NODE, or as WIDE where numbers are too large for that."""
    far = child - np.arange(len(child), dtype=child.dtype)
    small = all(np.abs(part).max(initial=0) <= np.iinfo(np.int16).max for part in (offset, far))
    nodes = np.empty(len(child), NODE if small else WIDE)
    nodes["threshold"], nodes["offset"], nodes["child"] = threshold, offset, np.where(missing_right, ~far, far)
    return nodes


def predict_rows(Z: np.ndarray, k: int, trees: Trees | None = None, lines: Lines | None = None) -> np.ndarray:
    """Return the sum of all trees and terms for states that are the rows of Z, (n, k)."""
    none = np.empty(0, np.int32)
    trees = trees or Trees(np.empty(0, NODE), none, none, np.empty((0, k)), False)
    lines = lines or Lines(np.empty(0, TERM), np.zeros((1, k)))
    out, places = np.empty((len(Z), k)), np.arange(len(Z)) * Z.shape[1]
    predict(trees, lines, Z.ravel(), places, len(Z), np.empty(BLOCK, np.int32), out)
    return out
