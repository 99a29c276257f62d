"""What lies in several places: `simile._common.parts` with a backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from operator import add
from typing import Any, Self

from simile.learning.distributed.backend import Backend


@dataclass(frozen=True, eq=False)
class View:
    """A way to see parts: function(part, one of each beside, *shared). It is gone through at every use.

    What shares its frames with the part that it is made from would lie on disk twice if it were kept, where memory is
    short; and it is made in no time.
    """

    function: Callable[..., Any]
    beside: tuple[Sequence[Any], ...] = ()  # handles, one for each part
    shared: tuple[Any, ...] = ()


@dataclass(frozen=True, eq=False)
class DistributedParts:
    """Values that lie with a backend; what `map` returns are handles, one for each.

    Parameters
    ----------
    backend : Backend
        Where they are.
    handles : tuple
        Of the values, in their order.
    views : tuple of View
        How they are seen, one after the other.
    """

    backend: Backend
    handles: tuple[Any, ...]
    views: tuple[View, ...] = field(default=(), kw_only=True)

    def keep(self, parts: Sequence[int]) -> Self:
        """Keep some of the parts, by number."""
        views = (replace(v, beside=tuple([h[i] for i in parts] for h in v.beside)) for v in self.views)
        return replace(self, handles=tuple(self.handles[i] for i in parts), views=tuple(views))

    def map(self, function: Callable[..., Any], *others: Any, shared: tuple[Any, ...] = ()) -> list[Any]:
        """Call function(part, one of each others, *shared) for each part, where it is."""
        if not self.views:
            return self.backend.map(function, self.handles, *others, shared=shared)
        beside = (handles for view in self.views for handles in view.beside)
        steps = [(view.function, len(view.beside), view.shared) for view in self.views]
        return self.backend.map(_Seen(function), self.handles, *beside, *others, shared=(steps, shared))

    def total(
        self,
        function: Callable[..., Any],
        *others: Any,
        shared: tuple[Any, ...] = (),
        then: Callable[[Any], Any] | None = None,
    ) -> Any:
        """Add up what a function returns, pairwise where the parts are, and bring the sum here, or what becomes of it.

        What `then` makes of the sum is made there, so that the sum itself does not travel.
        """
        found = self.map(function, *others, shared=shared)
        if then is None:
            return self.backend.total(add, found)
        while len(found) > 1:
            odd = found[len(found) // 2 * 2 :]
            found = [*self.backend.map(add, found[: len(found) - len(odd) : 2], found[1::2]), *odd]
        (result,) = self.backend.collect(self.backend.map(then, found))
        return result

    def collect(self, function: Callable[..., Any], *others: Any, shared: tuple[Any, ...] = ()) -> list[Any]:
        """Call a function for each part, and bring the results here."""
        return self.backend.collect(self.map(function, *others, shared=shared))

    def place(self, values: Sequence[Any]) -> list[Any]:
        """Put a value beside each part."""
        return self.backend.place(values)


@dataclass(frozen=True)
class _Seen:
    """Goes through the views of a part, whose own come first, and calls a function: by its name, as it is watched."""

    function: Callable[..., Any]

    @property
    def __name__(self) -> str:
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def __call__(self, part: Any, *given: Any) -> Any:
        *rest, steps, shared = given
        for view, n, own in steps:
            part, rest = view(part, *rest[:n], *own), rest[n:]
        return self.function(part, *rest, *shared)
