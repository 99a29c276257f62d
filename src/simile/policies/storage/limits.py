"""Bounds of what a policy file may say, and what it would take, found in its header before anything is read."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from simile._common.checks import HIGHEST_RATE, LOWEST_RATE
from simile.errors import ArgumentError, StorageError
from simile.policies.footprint import Footprint

if TYPE_CHECKING:
    from simile.policies.storage.files import Layout

LAGS = ("context_lags", "action_lags")
LONGEST_LAG = 100_000  # frames
LARGEST_ORDER = 1_000  # of h; its loop is judged by a matrix of that side
LONGEST_NAME = 1_000  # characters
MOST_CONTEXTS = 1_000_000
MOST_ACTIONS = 10_000
MOST_FEATURES = 10_000_000
WORTH_A_LOOK = 2**20  # bytes: of less that nothing refers to, the reason is found when it is read


def check_header(header: dict[str, Any], layout: Layout, limit: int) -> None:
    """Refuse a file that would take more than `limit` bytes, or that holds arrays which nothing refers to."""
    nodes = [*_walk(header["policy"])]
    strays = set(layout) - {node["tensor"] for node in nodes if isinstance(node.get("tensor"), str)}
    if sum(_count_bytes(*layout[name]) for name in strays) > WORTH_A_LOOK:
        raise StorageError(f"it holds a tensor that nothing refers to: {min(strays)[:100]!r}")
    try:
        _measure([*nodes, {"n_contexts": _count_names(header["card"])}], layout).check(limit)
    except ArgumentError as error:
        raise StorageError(str(error)) from error


def check_writable(header: dict[str, Any], layout: Layout) -> None:
    """Refuse to write what would not be read again, while it can still be chosen otherwise."""
    card, nodes = header["card"], [*_walk(header["policy"])]
    rate = card["rate"] or 1.0
    lags = (lag for node in nodes for lag in _counts(node, LAGS, sys.maxsize))
    for found, most, what in (
        (max(map(len, (*card["context_names"], *card["action_names"])), default=0), LONGEST_NAME, "letters in a name"),
        (max(lags, default=0), LONGEST_LAG, "frames of looking back"),
        (_find_order(nodes, layout), LARGEST_ORDER, "as the order of h"),
        (rate, HIGHEST_RATE, "frames a second"),
        (1.0 / rate, 1.0 / LOWEST_RATE, "seconds between frames"),
    ):
        if found > most:
            raise StorageError(f"a policy file holds at most {most:,} {what}; got {found:,}")


def _measure(nodes: list[dict[str, Any]], layout: Layout) -> Footprint:
    """Return what a policy takes at most: its widest frame, and its longest look back.

    Numbers beyond the bounds count for nothing here: they are refused for what they are.
    """
    tables = sum(_count_bytes(*entry) for entry in layout.values())
    lags = [[*_counts(node, LAGS, LONGEST_LAG)] for node in nodes]
    k = max((len(node["center"]) for node in nodes if isinstance(node.get("center"), list)), default=1)
    told = (n for node in nodes for n in _counts(node, ("n_contexts",), MOST_CONTEXTS))
    m = max([*told, *(n - k for node in nodes for n in _counts(node, ("width",), MOST_CONTEXTS + k))], default=0)
    leads = (abs(n) for node in nodes if type(n := node.get("lead")) is int and abs(n) <= LONGEST_LAG)
    reach = max([0, _find_order(nodes, layout), *(lag for some in lags for lag in some)]) + max(leads, default=0)
    return Footprint(tables, reach, m, k, max(map(len, lags), default=0) * max(m, k))


def _count_names(card: Any) -> int:
    """Return how many contexts a card names: where nothing else does, it tells how many there are."""
    names = card.get("context_names") if isinstance(card, dict) else None
    return len(names) if isinstance(names, list) else 0


def _count_bytes(dtype: Any, shape: tuple[int, ...]) -> int:
    return int(math.prod(shape) * dtype.itemsize)


def _find_order(nodes: list[dict[str, Any]], layout: Layout) -> int:
    paths = [str(node["coefficients"].get("tensor")) for node in nodes if isinstance(node.get("coefficients"), dict)]
    return max((layout[path][1][0] for path in paths if path in layout and layout[path][1]), default=0)


def _counts(node: dict[str, Any], names: Iterable[str], most: int) -> Iterator[int]:
    for name in names:
        value = node.get(name)
        yield from (n for n in (value if isinstance(value, list) else [value]) if type(n) is int and 0 <= n <= most)


def _walk(value: Any) -> Iterator[dict[str, Any]]:
    """Return all objects in JSON values, however deep."""
    left = [value]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            yield node
            left += node.values()
        elif isinstance(node, list):
            left += node
