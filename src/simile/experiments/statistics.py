"""From one number per seed to an effect with an interval, and from the interval to a verdict.

Every comparison is paired: both sides are measured on the same data with the same seed, and one number per seed, their
ratio or difference, is what the statistics see. Ratios are averaged on the log scale, so that 2 and 1/2 cancel. The
interval is Student's t interval of the mean at 95 %; it takes the (log) values to be about normal, which five or six
seeds can neither show nor refute.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

import numpy as np

from simile.errors import ArgumentError

LEVEL = 0.95
Row = dict[str, Any]


class Verdict(StrEnum):
    """What the numbers say of a claim."""

    HOLDS = "holds"
    FAILS = "does not hold here"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Effect:
    """One number per seed, and what the paper says of their mean.

    Parameters
    ----------
    text : str
        What is compared.
    values : tuple of float
        One per seed.
    scale : {"ratio", "value"}
        Ratios are averaged on the log scale, values as they are.
    above, below : float, optional
        What the paper says: the mean is above, or below, this. With neither, the effect decides nothing.
    """

    text: str
    values: tuple[float, ...]
    scale: Literal["ratio", "value"] = "ratio"
    above: float | None = None
    below: float | None = None

    def __post_init__(self) -> None:
        if not self.values:
            raise ArgumentError(f"values of {self.text!r} must hold at least one number; got none")
        if self.above is not None and self.below is not None:
            raise ArgumentError(f"above and below cannot both be what is said of {self.text!r}: give one of them")

    @property
    def mean(self) -> float:
        """The mean over seeds, geometric for ratios."""
        return interval(self.values, self.scale)[0]

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the mean."""
        return interval(self.values, self.scale)[1:]

    @property
    def decides(self) -> bool:
        """Whether the paper says something of it."""
        return self.above is not None or self.below is not None

    @property
    def verdict(self) -> Verdict | None:
        """The rule: the whole interval on the side that the paper says, the whole interval on the other, or neither."""
        if not self.decides:
            return None
        low, high = self.interval
        bound = self.above if self.above is not None else self.below
        assert bound is not None
        if low > bound:
            return Verdict.HOLDS if self.above is not None else Verdict.FAILS
        if high < bound:
            return Verdict.FAILS if self.above is not None else Verdict.HOLDS
        return Verdict.UNDECIDED  # the interval includes the bound, or there is none (one seed, a diverged roll-out)


def interval(values: Iterable[float], scale: Literal["ratio", "value"] = "ratio") -> tuple[float, float, float]:
    """Return mean, low and high of the t interval; NaN where a value is not finite (or a ratio not positive).

    A value that is missing is not left out: the seeds on which a policy diverged are not the ones to forget.

    >>> [round(v, 3) for v in interval([1.0, 2.0, 4.0])]
    [2.0, 0.357, 11.19]
    """
    numbers = np.asarray(list(values), dtype=np.float64)
    if not np.isfinite(numbers).all() or (scale == "ratio" and not (numbers > 0.0).all()):
        return math.nan, math.nan, math.nan
    # Python's own logarithm: numpy's may differ in the last bit from one machine to the next.
    seen = np.array([math.log(v) for v in numbers]) if scale == "ratio" else numbers
    middle = float(seen.mean())
    reach = math.inf if len(seen) < 2 else _quantile(len(seen) - 1) * float(seen.std(ddof=1)) / math.sqrt(len(seen))
    ends = (middle, middle - reach, middle + reach)
    return ends if scale == "value" else (_exp(ends[0]), _exp(ends[1]), _exp(ends[2]))


def conclude(effects: Sequence[Effect]) -> Verdict:
    """Join the verdicts of the effects that decide: all must hold; one that fails is enough to fail.

    Asking that all hold needs no correction for their number (an intersection-union test).
    """
    verdicts = [e.verdict for e in effects if e.decides]
    if Verdict.FAILS in verdicts:
        return Verdict.FAILS
    return Verdict.UNDECIDED if Verdict.UNDECIDED in verdicts or not verdicts else Verdict.HOLDS


def headline(effects: Sequence[Effect]) -> Effect:
    """Pick the effect that made the verdict: the first that decides and agrees with it."""
    verdict = conclude(effects)
    return next((e for e in effects if e.decides and e.verdict is verdict), effects[0])


def per_seed(rows: Iterable[Row], column: str, **where: Any) -> dict[int, float]:
    """Pick a column, one number per seed: the geometric mean where several rows (of several rounds) match."""
    found: dict[int, list[float]] = {}
    for row in rows:
        if all(row[name] == value for name, value in where.items()):
            found.setdefault(row["seed"], []).append(row[column])
    if not found:
        raise ArgumentError(f"no row has {where}: nothing to take {column!r} of")
    return {seed: interval(values)[0] if len(values) > 1 else values[0] for seed, values in found.items()}


def ratios(over: dict[int, float], under: dict[int, float]) -> tuple[float, ...]:
    """Divide seed by seed."""
    return tuple(over[seed] / under[seed] if under[seed] else math.nan for seed in over)


def _quantile(degrees: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 + LEVEL / 2.0))


def _exp(value: float) -> float:
    return math.exp(value) if value < 700.0 else math.inf
