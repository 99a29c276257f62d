"""Something that lies in one place or in several: what is done to it is said once.

A part of the sequences is a range of them, in their order. Functions get one part at a time, where it is; what they
return stays there, or is added up. Sums that do not depend on how the parts are cut (`simile._common.sums`) make the
result that of one place, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class Parts(Protocol):
    """What lies in one place or in several; functions must be importable, and free of side effects."""

    def map(self, function: Callable[..., Any], *others: Any, shared: tuple[Any, ...] = ()) -> Any:
        """Call function(part, one of each others, *shared) for each part, where it is.

        What is returned stands for the results, to be one of the `others` next time: they are what `map` returned.
        """

    def total(
        self,
        function: Callable[..., Any],
        *others: Any,
        shared: tuple[Any, ...] = (),
        then: Callable[[Any], Any] | None = None,
    ) -> Any:
        """Call a function as `map` does, and bring the sum of the results here; or what `then` makes of it there."""

    def collect(self, function: Callable[..., Any], *others: Any, shared: tuple[Any, ...] = ()) -> list[Any]:
        """Call a function as `map` does, and bring all results here, one for each part."""

    def place(self, values: Sequence[Any]) -> Any:
        """Put a value beside each part, to be one of the `others`."""


class AtHand:
    """What is in one place, here: results are the values themselves."""

    def map(self, function: Callable[..., Any], *others: Any, shared: tuple[Any, ...] = ()) -> Any:
        """Call the function."""
        return function(self._part, *others, *shared)

    def total(
        self,
        function: Callable[..., Any],
        *others: Any,
        shared: tuple[Any, ...] = (),
        then: Callable[[Any], Any] | None = None,
    ) -> Any:
        """Call the function: the sum of one result."""
        found = self.map(function, *others, shared=shared)
        return found if then is None else then(found)

    def collect(self, function: Callable[..., Any], *others: Any, shared: tuple[Any, ...] = ()) -> list[Any]:
        """Call the function."""
        return [self.map(function, *others, shared=shared)]

    def place(self, values: Sequence[Any]) -> Any:
        """Return the only value."""
        (value,) = values
        return value

    @property
    def _part(self) -> Any:
        return self


@dataclass(frozen=True, eq=False)
class Whole(AtHand):
    """A value in one place, here."""

    value: Any

    @property
    def _part(self) -> Any:
        return self.value
