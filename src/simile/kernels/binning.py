"""Replace values by small whole numbers: 255 bins and one for missing values."""

from __future__ import annotations

import numba as nb
import numpy as np

MISSING = 255  # the bin of a missing value
MOST_SAMPLED = 200_000  # rows that choose the edges of a column; more would not move them


def bin_edges(column: np.ndarray) -> np.ndarray:
    """Choose at most 254 edges for a column (n,): a value's bin is the number of edges below it.

    Between few distinct values the edges lie half-way, as in scikit-learn; else they are quantiles.
    """
    if len(column) > MOST_SAMPLED:  # at random: a stride would see one phase of a periodic column
        column = column[np.random.default_rng(0).integers(len(column), size=MOST_SAMPLED)]
    with np.errstate(over="ignore"):
        values = column.astype(np.float32)
    values = np.sort(values[~np.isnan(values)])
    distinct = values[np.append(True, values[1:] != values[:-1])[: len(values)]]
    if len(distinct) <= MISSING:
        below, above = distinct[:-1], distinct[1:]
        with np.errstate(invalid="ignore"):  # half-way between two infinities
            middle = below / 2 + above / 2
        edges = np.where(middle < above, middle, below)  # rounding must not move a value to the other side
    else:
        edges = np.unique(values[np.arange(1, MISSING) * len(values) // MISSING])
        edges = edges[edges < values[-1]]
    single: np.ndarray = edges.astype(np.float32)
    return single


@nb.njit(cache=True)
def bin_column(column, edges, out):
    """Write the bins of a column (n,) to `out` (n,) uint8."""
    for i in range(len(column)):
        value = np.float32(column[i])
        if np.isnan(value):
            out[i] = MISSING
            continue
        low, high = 0, len(edges)
        while low < high:
            middle = (low + high) // 2
            if edges[middle] < value:
                low = middle + 1
            else:
                high = middle
        out[i] = low
