"""Replace values by small whole numbers: 255 bins and one for missing values."""

from __future__ import annotations

import numba as nb
import numpy as np

MISSING = 255  # the bin of a missing value
MOST_SAMPLED = 50_000  # rows that choose the edges of a column; more would hardly move them


def bin_edges(column: np.ndarray) -> np.ndarray:
    """Choose at most 254 edges for a column (n,): a value's bin is the number of edges below it.

    The edges lie half-way between neighbouring values, as in scikit-learn: between all of them where they are few,
    else at quantiles.
    """
    if len(column) > MOST_SAMPLED:  # at random: a stride would see one phase of a periodic column
        column = column[np.random.default_rng(0).integers(len(column), size=MOST_SAMPLED)]
    with np.errstate(over="ignore"):
        values = column.astype(np.float32)
    values = np.sort(values[~np.isnan(values)])
    distinct = values[np.append(True, values[1:] != values[:-1])[: len(values)]]
    last = np.arange(len(distinct) - 1)  # the distinct values that an edge follows: all of them, or quantiles
    if len(distinct) > MISSING:
        last = np.unique(np.searchsorted(distinct, values[np.arange(1, MISSING) * len(values) // MISSING]))
        last = last[last < len(distinct) - 1]
    below, above = distinct[last], distinct[last + 1]
    with np.errstate(invalid="ignore"):  # half-way between two infinities
        middle = below / 2 + above / 2
    edges = np.where(middle < above, middle, below)  # rounding must not move a value to the other side
    single: np.ndarray = edges.astype(np.float32)
    return single


@nb.njit(cache=True, nogil=True)
def bin_column(column, edges, out):
    """Write the bins of a column (n,) to `out` (n,) uint8: a binary search without branches to guess wrong."""
    ladder = np.full(256, np.inf, np.float32)
    ladder[: len(edges)] = edges
    for i in range(len(column)):
        value = np.float32(column[i])
        low = 0
        for step in (128, 64, 32, 16, 8, 4, 2, 1):
            low += step * (ladder[low + step - 1] < value)
        out[i] = MISSING if np.isnan(value) else min(low, len(edges))  # infinity lies above the last edge
