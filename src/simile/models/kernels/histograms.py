"""Sum what counts of rows by the bins of their features."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from simile.models.kernels.binning import MISSING
from simile.models.kernels.compiling import TWO, ZERO, add_pair, inner, kernel

BINS = np.uintp(MISSING + 1)


class Features(NamedTuple):
    """Binned base columns, and where in them each feature is read: no lagged column is ever copied."""

    bins: Any  # (W * R,) uint8: base columns of R rows, one after the other; missing is 255
    shifts: Any  # (F,) what leads from a row to the entry of a feature: where its column begins, less its lag


@inner
def fill_histograms(bins, shifts, n_features, rows, payload, begin, end, hist):
    """Add the payload of rows[begin:end] to the histograms `hist` (f, 256, channels) of some features at once.

    `bins` and `shifts` (f,), of which the first `n_features` count, are those of `Features`. The channels, an even
    number, are added in pairs. Neighbouring rows often meet in one bin, and an addition waits for the one before it:
    so features take turns.
    """
    n_features, channels = np.uintp(n_features), np.uintp(payload.shape[1])
    begin, end = np.uintp(begin), np.uintp(end)
    for c in range(ZERO, channels, TWO):
        for i in range(begin, end):
            row, first = rows[i], c
            for f in range(n_features):
                b = np.uintp(bins[np.uintp(row + shifts[f])])
                add_pair(hist, first + b * channels, payload, i * channels + c)
                first += BINS * channels


@partial(kernel, makes_arrays=True)
def sum_by_bin(features, rows, payload, begins, nodes, drawn):
    """Sum the payload by bin, for features `drawn` (nodes, n) by some nodes, whose rows lie from begins[node] on.

    Returns where each histogram begins (nodes * n + 1,), the bins that are not empty, and their sums.
    """
    n_drawn, channels = drawn.shape[1], payload.shape[1]
    most = 0
    for node in nodes:
        most += n_drawn * min(256, begins[node + 1] - begins[node])
    where, met, sums = np.zeros(drawn.size + 1, np.int64), np.empty(most, np.uint8), np.empty((most, channels))
    hist, shifts = np.zeros((1, 256, channels)), np.empty(1, np.int64)
    at = 0
    for i, node in enumerate(nodes):
        for j in range(n_drawn):
            shifts[0] = features.shifts[drawn[i, j]]
            fill_histograms(features.bins, shifts, 1, rows, payload, begins[node], begins[node + 1], hist)
            for b in range(MISSING + 1):
                if hist[0, b, 0] > 0.0:
                    met[at] = b
                    for c in range(channels):
                        sums[at, c] = hist[0, b, c]
                        hist[0, b, c] = 0.0
                    at += 1
            where[i * n_drawn + j + 1] = at
    return where, met[:at], sums[:at]  # what lies behind was never touched: it takes no memory


@partial(kernel, makes_arrays=True)
def merge(where_a, met_a, sums_a, where_b, met_b, sums_b):
    """Add the histograms of two parts of the data, as `sum_by_bin` returns them."""
    most, channels = len(met_a) + len(met_b), sums_a.shape[1]
    where, met, sums = np.zeros_like(where_a), np.empty(most, np.uint8), np.empty((most, channels))
    at = 0
    for h in range(len(where) - 1):
        a, b, end_a, end_b = where_a[h], where_b[h], where_a[h + 1], where_b[h + 1]
        while a < end_a or b < end_b:
            from_a = b == end_b or (a < end_a and met_a[a] <= met_b[b])
            from_b = a == end_a or (b < end_b and met_b[b] <= met_a[a])
            met[at] = met_a[a] if from_a else met_b[b]
            for c in range(channels):
                sums[at, c] = (sums_a[a, c] if from_a else 0.0) + (sums_b[b, c] if from_b else 0.0)
            a += from_a
            b += from_b
            at += 1
        where[h + 1] = at
    return where, met[:at], sums[:at]
