"""Work on data that lie in several places: how it gets there, and sums that do not depend on how the data are cut.

A part of the data is a contiguous range of the sequences, in their order: part 0 has the first sequences, part 1 the
next, and so on. What is computed from parts equals, to the bit, what one machine computes, if it is computed sequence
by sequence and added up by `ExactSum`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Backend(Protocol):
    """Where the parts of the data are, and how work gets to them.

    A handle stands for a value that may be elsewhere. Functions must be pure and importable: a part may be computed
    again.
    """

    @property
    def exact(self) -> bool:
        """Whether results must be those of one machine to the bit, at the price of more traffic."""

    @property
    def parts(self) -> int:
        """How many parts to cut data into that are not in parts yet."""

    @property
    def workers(self) -> int:
        """In how many places work is done at a time, each with memory of its own."""

    @property
    def threads(self) -> int:
        """How many cores each of them has."""

    @property
    def room(self) -> int:
        """Bytes that a task may take there, besides its result; results do not depend on it."""

    def place(self, parts: Sequence[Any]) -> list[Any]:
        """Put values where they will live; returns their handles."""

    def map(self, function: Callable[..., Any], *handles: Sequence[Any], shared: tuple[Any, ...] = ()) -> list[Any]:
        """Call function(*one of each handles, *shared) for each part, where it is; returns handles of the results.

        What is shared may be values, which are sent, or handles.
        """

    def total(self, add: Callable[[Any, Any], Any], handles: Sequence[Any]) -> Any:
        """Add results up, pairwise where they are (add must be associative to the bit), and bring the sum here."""

    def collect(self, handles: Sequence[Any]) -> list[Any]:
        """Bring small results here, in order."""


@dataclass(frozen=True)
class LocalBackend:
    """All parts in this process: handles are the values themselves. It shows what a backend does, and tests them."""

    parts: int = 1
    exact: bool = True
    workers: int = 1
    threads: int = 1
    room: int = 2**31

    def place(self, parts: Sequence[Any]) -> list[Any]:
        """Return the values."""
        return list(parts)

    def map(self, function: Callable[..., Any], *handles: Sequence[Any], shared: tuple[Any, ...] = ()) -> list[Any]:
        """Call the function for each part."""
        return [function(*some, *shared) for some in zip(*handles, strict=True)]

    def total(self, add: Callable[[Any, Any], Any], handles: Sequence[Any]) -> Any:
        """Add up from the left."""
        return reduce(add, handles)

    def collect(self, handles: Sequence[Any]) -> list[Any]:
        """Return the values."""
        return list(handles)
