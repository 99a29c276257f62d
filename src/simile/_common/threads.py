"""Threads that share work."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def spread(function: Callable[[Item], Result], items: Iterable[Item], threads: int) -> list[Result]:
    """Call a function for each item, in so many threads; results come in the order of the items.

    One is this thread itself: another would take memory from a heap of its own, beside what was freed on ours.

    >>> spread(abs, [-1, 2, -3], threads=2)
    [1, 2, 3]
    """
    if threads == 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, items))
