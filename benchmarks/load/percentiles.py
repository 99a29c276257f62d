"""Percentiles of latencies, as columns of a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

COLUMNS = ("p50", "p95", "p99", "p99.9", "max")


def milliseconds(seconds: Sequence[float]) -> list[str]:
    """Return the percentiles of `COLUMNS`, in milliseconds."""
    if not len(seconds):
        return ["-"] * len(COLUMNS)
    found = np.percentile(np.asarray(seconds) * 1e3, [50.0, 95.0, 99.0, 99.9, 100.0])
    return [f"{value:.2f}" for value in found]


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Lay out a table for a terminal: the first column to the left, the others to the right."""
    lines = [list(columns), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[j]) for line in lines) for j in range(len(columns))]
    laid = [
        "  ".join(
            cell.ljust(w) if j == 0 else cell.rjust(w) for j, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
    return "\n".join(["", title, laid[0], "  ".join("-" * w for w in widths), *laid[1:]])
