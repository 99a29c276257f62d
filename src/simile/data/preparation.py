"""What is mended in recorded data while they are read: codes for missing values, and angles that wrap.

It goes with the demonstrations and with the policy that is learned from them: what comes online is mended alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray
from simile.errors import ArgumentError

CLOSE = 1e-7  # share of a code by which a value may miss it, as it does in single precision
LEAST, MOST = 1e-6, 1e12  # of a period
MOST_CODES = 100  # of a column
FARTHEST = 1e15  # from 0 that something which wraps lies


@dataclass(frozen=True)
class Wrap:
    """How an angle or a counter begins anew after each period.

    Parameters
    ----------
    period : float
        What it jumps by, such as 360.
    middle : float
        Of all values of the training, once they go on past a period; what comes is taken to lie near it.
    low : float, optional
        Where the log begins, such as 0 or -180; None where its recordings do not fit into one period.
    """

    period: float
    middle: float = 0.0
    low: float | None = None

    def __post_init__(self) -> None:
        checks.number(self.period, "wraps: the period", at_least=LEAST, at_most=MOST)
        for value in (self.middle, self.low or 0.0):
            checks.number(value, "wraps: a value", at_least=-FARTHEST, at_most=FARTHEST)

    @property
    def is_new(self) -> bool:
        """Whether nothing but the period is known yet."""
        return self == Wrap(self.period)

    def move_near(self, values: FloatArray, near: Any) -> FloatArray:
        """Return values moved by whole periods to within half a period of others."""
        return np.asarray(values - self.period * np.rint((values - near) / self.period))

    def unwrap(self, values: FloatArray, *, align: bool = False) -> FloatArray:
        """Return the values (T,) of a recording without jumps, where `align` with their median near the middle.

        Else the first one stays. Missing ones are passed over.
        """
        known, turns = np.flatnonzero(np.isfinite(values)), np.zeros(len(values))
        with np.errstate(over="ignore", invalid="ignore"):  # of what is no angle, and refused as infinite
            turns[known[1:]] = np.cumsum(np.rint(np.diff(values[known]) / self.period))
            found: FloatArray = values - self.period * turns
            if align and len(known):  # all turns at once: the bits must be those of whoever reads the log anew
                turns += np.rint((np.median(found[known]) - self.middle) / self.period)
                found = values - self.period * turns
        return found

    def agrees(self, other: Wrap | None) -> bool:
        """Tell whether both make the same of a value."""
        if other is None or other.period != self.period:
            return False
        return abs(self.middle - other.middle) < 0.5 * self.period


@dataclass(frozen=True)
class Preparation:
    """What is mended in columns, by their names; see `simile.read`.

    Parameters
    ----------
    missing : mapping
        Codes that stand for a missing value.
    wraps : mapping
        How angles and counters wrap.
    """

    missing: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    wraps: Mapping[str, Wrap] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if name := next((name for name, codes in self.missing.items() if len(codes) > MOST_CODES), None):
            raise ArgumentError(f"missing: {name!r} has {len(self.missing[name])} codes, and {MOST_CODES} are the most")

    def __bool__(self) -> bool:
        return bool(self.missing or self.wraps)

    @classmethod
    def from_dict(cls, given: Any) -> Self:
        """Read what `dataclasses.asdict` made of one, from anybody; ArgumentError where it is something else."""
        try:
            missing = {n: tuple(checks.number(c, "missing") for c in codes) for n, codes in given["missing"].items()}
            found = cls(missing, {name: Wrap(**wrap) for name, wrap in given["wraps"].items()})
            if {**given, "missing": missing} == asdict(found):
                return found
        except (AttributeError, KeyError, TypeError):
            pass
        raise ArgumentError("preparation must hold codes and periods by column, and nothing else")

    def among(self, names: Iterable[str]) -> Preparation:
        """Return what is mended in some columns."""
        some = set(names)
        missing = {name: codes for name, codes in self.missing.items() if name in some}
        return Preparation(missing, {name: wrap for name, wrap in self.wraps.items() if name in some})

    def agrees(self, other: Preparation) -> bool:
        """Tell whether the other makes the same of what wraps here."""
        return all(wrap.agrees(other.wraps.get(name)) for name, wrap in self.wraps.items())

    def find_wraps(self, names: Sequence[str]) -> list[tuple[int, Wrap]]:
        """Return the columns that wrap, by number."""
        return [(j, self.wraps[name]) for j, name in enumerate(names) if name in self.wraps]

    def blank(self, table: FloatArray, names: Sequence[str]) -> FloatArray:
        """Return a table (T, columns) with NaN for every code."""
        for j, name in enumerate(names if self.missing else ()):
            for code in self.missing.get(name, ()):
                if (found := np.abs(table[:, j] - code) <= CLOSE * abs(code)).any():
                    table = table.copy()
                    table[found, j] = np.nan
        return table

    def unwrap(self, table: FloatArray, names: Sequence[str], *, align: bool = False) -> FloatArray:
        """Return the table (T, columns) of a recording in which nothing jumps, near the middles where `align`."""
        table = table.copy() if (wraps := self.find_wraps(names)) else table
        for j, wrap in wraps:
            table[:, j] = wrap.unwrap(table[:, j], align=align)
        return table

    def mend(self, table: FloatArray, names: Sequence[str]) -> FloatArray:
        """Return the table (T, columns) of a recording as those of the training were made."""
        return self.unwrap(self.blank(table, names), names, align=True)

    def restore(self, table: FloatArray, names: Sequence[str]) -> FloatArray:
        """Return a table (..., columns) in the ranges of the log."""
        for j, wrap in self.find_wraps(names):
            if wrap.low is not None:
                table = table.copy()
                table[..., j] = wrap.low + np.mod(table[..., j] - wrap.low, wrap.period)
        return table


def fit_wrap(period: float, raw: FloatArray, recordings: Sequence[FloatArray]) -> Wrap:
    """Find how recordings wrap, and about which middle they lie once they go on.

    Parameters
    ----------
    period : float
        What the log jumps by.
    raw : (frames,) array
        All values of the log.
    recordings : sequence of (T,) arrays
        As they were logged, or without jumps.
    """
    if not (known := [values for values in recordings if np.isfinite(values).any()]):
        return Wrap(period)
    near = Wrap(period, float(np.nanmedian(Wrap(period).unwrap(known[0]))))
    together = np.concatenate([near.unwrap(values, align=True) for values in known])
    least, most = float(np.nanmin(together)), float(np.nanmax(together))
    low, high, slack = float(np.nanmin(raw)), float(np.nanmax(raw)), 1e-3 * period  # 2 pi may be written as 6.2832
    starts = [start for start in (0.0, -0.5 * period, low) if start - slack <= low and high <= start + period + slack]
    middle = 0.5 * (least + most)
    if not starts:
        return Wrap(period, middle)
    # As in the log where no recording passes its end. Else the middle is near an end, and moved to the first: between
    # two ends, far from where recordings pass, lies the border, so that other data of the log come to the same turn.
    first, last = (math.floor((side - starts[0]) / period) for side in (least, most))
    turns = first if first == last else round((middle - starts[0]) / period)
    return Wrap(period, middle - period * turns, starts[0])


def read_pairs(given: Any, name: str) -> tuple[tuple[str, Any], ...]:
    """Return patterns of columns with a number, or a `Wrap`, each; a number alone is for all.

    >>> read_pairs(["wind=-999", "9999"], "missing"), read_pairs({"pan": "2pi"}, "wraps")
    ((('wind', -999.0), ('*', 9999.0)), (('pan', 6.283185307179586),))
    """
    pairs = given.items() if isinstance(given, Mapping) else map(_split, _list(given))
    try:
        return tuple((str(pattern or "*"), _read_number(n)) for pattern, some in pairs for n in _list(some))
    except ValueError:  # which an ArgumentError is
        example = "'wind=-999', or a number for all contexts" if name == "missing" else "'pan=360' or 'pan=2pi'"
        raise ArgumentError(f"{name} must be finite numbers by column, such as {example}; got {given!r}") from None


def _split(given: Any) -> Any:
    """Return a pattern and what is for it."""
    return given.rpartition("=")[::2] if isinstance(given, str) else given if isinstance(given, tuple) else ("", given)


def _list(given: Any) -> list[Any]:
    return [] if given is None else list(given) if isinstance(given, list | tuple) else [given]


def _read_number(given: Any) -> float | Wrap:
    if isinstance(given, str):
        given = float(given.removesuffix("pi")) * (math.pi if given.endswith("pi") else 1.0)
    return given if isinstance(given, Wrap) else checks.number(given, "it")
