"""From one number per seed to an effect with an interval, and from the interval to a verdict.

Every comparison is paired: both sides are measured on the same data with the same seed, and one number per seed, their
ratio or difference, is what the statistics see. Ratios are averaged on the log scale, so that 2 and 1/2 cancel. The
interval is Student's t interval of the mean at 95 %; it takes the (log) values to be about normal, which five or six
seeds can neither show nor refute. Where many effects are judged at once, their intervals are widened as Holm says
(`correct`), so that the chance of a single wrong verdict among them stays below 5 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
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
    level : float
        Of the interval; `correct` raises it where the effect is one of many.
    """

    text: str
    values: tuple[float, ...]
    scale: Literal["ratio", "value"] = "ratio"
    above: float | None = None
    below: float | None = None
    level: float = LEVEL

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
        """The interval of the mean, at the effect's level."""
        return interval(self.values, self.scale, self.level)[1:]

    @property
    def decides(self) -> bool:
        """Whether the paper says something of it."""
        return self.above is not None or self.below is not None

    @property
    def bound(self) -> float:
        """What the mean is compared with; NaN where the paper says nothing."""
        return next((b for b in (self.above, self.below) if b is not None), math.nan)

    @property
    def chance(self) -> float:
        """How likely a mean so far from the bound is where the bound is the truth: the p of a two-sided t test."""
        middle, spread, bound = *_moments(self.values, self.scale), self.bound
        if math.isnan(spread) or math.isnan(bound):
            return 1.0
        apart = abs(middle - (math.log(bound) if self.scale == "ratio" else bound))
        if spread == 0.0:
            return 0.0 if apart > 0.0 else 1.0
        from scipy.special import stdtr

        return 2.0 * float(stdtr(len(self.values) - 1, -apart / spread))

    @property
    def verdict(self) -> Verdict | None:
        """The rule: the whole interval on the side that the paper says, the whole interval on the other, or neither."""
        if not self.decides:
            return None
        low, high = self.interval
        if low > self.bound:
            return Verdict.HOLDS if self.above is not None else Verdict.FAILS
        if high < self.bound:
            return Verdict.FAILS if self.above is not None else Verdict.HOLDS
        return Verdict.UNDECIDED  # the interval includes the bound, or there is none (one seed, a diverged roll-out)


def interval(
    values: Iterable[float], scale: Literal["ratio", "value"] = "ratio", level: float = LEVEL
) -> tuple[float, float, float]:
    """Return mean, low and high of the t interval; NaN where a value is not finite (or a ratio not positive).

    A value that is missing is not left out: the seeds on which a policy diverged are not the ones to forget.

    >>> [round(v, 3) for v in interval([1.0, 2.0, 4.0])]
    [2.0, 0.357, 11.19]
    """
    numbers = tuple(values)
    middle, spread = _moments(numbers, scale)
    reach = math.inf if len(numbers) < 2 and not math.isnan(middle) else _quantile(len(numbers) - 1, level) * spread
    ends = (middle, middle - reach, middle + reach)
    return ends if scale == "value" else (_exp(ends[0]), _exp(ends[1]), _exp(ends[2]))


def correct(effects: Sequence[Effect]) -> list[Effect]:
    """Widen the intervals of the effects with a bound for their number (Holm 1979), in the order given.

    The effect farthest from its bound, of m, has an interval at 1 - 5 % / m, the next one at 1 - 5 % / (m - 1), and so
    on up to the first whose interval includes its bound; it and all behind it keep that level and are undecided. An
    interval so excludes its bound where Holm's step-down test does.

    >>> [round(e.level, 4) for e in correct([Effect("", (2.0, 2.1, 1.9), above=b) for b in (1.0, 2.0)])]
    [0.975, 0.95]
    """
    ranked = sorted((i for i, e in enumerate(effects) if e.decides), key=lambda i: effects[i].chance)
    levels, among = {}, len(ranked)
    for i in ranked:
        levels[i] = 1.0 - (1.0 - LEVEL) / among
        if effects[i].chance <= 1.0 - levels[i]:
            among -= 1  # the next has one fewer beside it
    return [replace(e, level=levels.get(i, e.level)) for i, e in enumerate(effects)]


def conclude(effects: Sequence[Effect]) -> Verdict:
    """Join the verdicts of the effects that decide: all must hold; one that fails is enough to fail."""
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
    found = by_seed(rows, column, **where)
    return {seed: interval(values)[0] if len(values) > 1 else values[0] for seed, values in found.items()}


def ratios(over: dict[int, float], under: dict[int, float]) -> tuple[float, ...]:
    """Divide seed by seed."""
    return tuple(divide(over[seed], under[seed]) for seed in over)


def divide(over: float, under: float) -> float:
    """Divide; by nothing, it is NaN."""
    return over / under if under else math.nan


def by_seed(rows: Iterable[Row], column: str, **where: Any) -> dict[int, list[float]]:
    """Pick a column, all numbers of each seed in the order of its rows."""
    found: dict[int, list[float]] = {}
    for row in rows:
        if all(row[name] == value for name, value in where.items()):
            found.setdefault(row["seed"], []).append(row[column])
    if not found:
        raise ArgumentError(f"no row has {where}: nothing to take {column!r} of")
    return found


def error_at(roughness: float, frontier: Iterable[tuple[float, float]]) -> float:
    """Return the error that a path of (roughness, error) has at a roughness: straight lines between logarithms.

    Rougher than the whole path, its roughest point counts, which is at least as smooth. Smoother than all of it there
    is none: NaN.

    >>> round(error_at(2.0, [(1.0, 4.0), (4.0, 1.0)]), 6), error_at(9.0, [(1.0, 4.0), (4.0, 1.0)])
    (2.0, 1.0)
    """
    points = sorted(frontier)
    if not all(math.isfinite(v) and v > 0.0 for v in (roughness, *sum(points, ()))) or roughness < points[0][0]:
        return math.nan
    x, y = ([math.log(v) for v in side] for side in zip(*points, strict=True))
    return _exp(float(np.interp(math.log(roughness), x, y)))


def exponent(sizes: Sequence[float], amounts: Sequence[float]) -> float:
    """Fit p in amount = c size^p by least squares on the log scale.

    >>> round(exponent([1, 2, 3, 4], [1.0, 4.0, 9.0, 16.0]), 6)
    2.0
    """
    if len(amounts) < 2 or not min(amounts) > 0.0:
        return math.nan
    return float(np.polyfit(np.log(sizes), np.log(amounts), 1)[0])


def _moments(values: Sequence[float], scale: Literal["ratio", "value"]) -> tuple[float, float]:
    """Return the mean (of logarithms, for ratios) and its standard error: NaN without two finite numbers."""
    numbers = np.asarray(values, dtype=np.float64)
    if not np.isfinite(numbers).all() or (scale == "ratio" and not (numbers > 0.0).all()):
        return math.nan, math.nan
    # Python's own logarithm: numpy's may differ in the last bit from one machine to the next.
    seen = np.array([math.log(v) for v in numbers]) if scale == "ratio" else numbers
    return float(seen.mean()), float(seen.std(ddof=1)) / math.sqrt(len(seen)) if len(seen) > 1 else math.nan


def _quantile(degrees: int, level: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 + level / 2.0))


def _exp(value: float) -> float:
    return math.inf if value >= 700.0 else math.exp(value)
