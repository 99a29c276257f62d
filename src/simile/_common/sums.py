"""Sums that do not depend on the order of what is added."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from simile._common.typing import FloatArray


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
