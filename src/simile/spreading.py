"""Work on data that lie in several places: how it gets there, and sums that do not depend on how the data are cut.

A part of the data is a contiguous range of the sequences, in their order: part 0 has the first sequences, part 1 the
next, and so on. What is computed from parts equals, to the bit, what one machine computes, if it is computed sequence
by sequence and added up by `ExactSum`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol, runtime_checkable

import numpy as np

from simile._typing import FloatArray


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


@dataclass(frozen=True, eq=False)
class ExactSum:
    """The sum of many numbers without any rounding: a few floats, the largest first, that add up to it exactly.

    Such sums are associative, so that parts may be added in any grouping; `value` rounds once, at the end. Where
    something is infinite or overflows, so is the sum.

    Parameters
    ----------
    terms : (n, ...) array
        What adds up to the sum, along the first axis.

    Examples
    --------
    >>> values = np.array([[1e16], [1.0], [-1e16]])
    >>> float(values.sum()), float(ExactSum.of(values).value[0])
    (0.0, 1.0)
    >>> (ExactSum.of(values[:1]) + ExactSum.of(values[1:])).value.tolist()
    [1.0]
    """

    terms: FloatArray

    @classmethod
    def of(cls, values: FloatArray) -> ExactSum:
        """Add up values (n, ...) along the first axis; of no values the sum is 0."""
        columns = values.reshape(len(values), math.prod(values.shape[1:])).T
        sums = [_terms(column.tolist()) for column in columns]
        terms = np.zeros((max(map(len, sums), default=1), len(sums)))
        for j, column in enumerate(sums):
            terms[: len(column), j] = column
        return cls(terms.reshape(len(terms), *values.shape[1:]))

    def __add__(self, other: ExactSum) -> ExactSum:
        return ExactSum.of(np.concatenate([self.terms, other.terms]))

    @property
    def value(self) -> FloatArray:
        """The sum, rounded once, of the shape of one of the values."""
        first: FloatArray = self.terms[0]  # each term is what is left of the sum, rounded: the first is all of it
        return first


def _terms(values: list[float]) -> list[float]:
    """Return floats that add up to the sum of values exactly: its rounded value, what that misses, and so on."""
    try:
        first = math.fsum(values)
        if not math.isfinite(first):
            return [first]
        terms = [first]
        while (rest := math.fsum([*values, *(-t for t in terms)])) != 0.0:
            terms.append(rest)
    except (OverflowError, ValueError):  # a partial sum overflows, or infinities of both signs meet
        with np.errstate(over="ignore", invalid="ignore"):
            return [float(np.sum(values))]
    return terms
