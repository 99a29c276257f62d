"""Time: the rate behind time stamps, how regular they are, where they break off, and bringing them to a rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.data.names import FEW
from simile.data.reading.tables import Times, quote
from simile.errors import DataError

_BROADCAST = (24000 / 1001, 30000 / 1001, 60000 / 1001)  # written 23.976, 29.97 and 59.94
_IRREGULAR = 0.1  # a step this far from the period, relatively, is worth a note
_GROWTH = 100  # resampling that makes a sequence longer than this many times is a mistake
UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}  # of them in a second
UNIT_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_MINUTE, _DAY = 60.0, 86400.0
_CENTURY = (946_684_800.0, 4_102_444_800.0)  # 2000 to 2100, in seconds since 1970


Steps = Sequence[tuple[str, FloatArray]]  # name and steps (T - 1,) in seconds of every sequence


@dataclass(frozen=True)
class Irregularity:
    """Steps that are more than a tenth off the period, over all sequences."""

    count: int
    total: int
    period: float
    longest: float
    where: str


def to_seconds(times: Times, unit: str = "s") -> FloatArray:
    """Return times (T,) as seconds: stamps and finer units since the first of them, other numbers as they are."""
    if times.dtype.kind == "M":
        return np.asarray((times - times[0]) / np.timedelta64(1, "s"), dtype=np.float64)
    if unit == "s":
        return times.astype(np.float64, copy=False)
    with np.errstate(over="ignore"):
        return np.asarray((times - times[0]) / UNITS[unit], dtype=np.float64)


def infer_unit(times: Sequence[Times], rate: float | None = None) -> str:
    """Return the unit of times (T,) that are numbers, one array for each sequence.

    A rate that is known tells, and so does a date of this century. Without them numbers are seconds, unless that would
    be a step that nobody logs at, of ten seconds or more, or of whole seconds that waver: then they are of the
    coarsest unit with at least 1 Hz.

    >>> infer_unit([np.arange(100) * 40]), infer_unit([np.arange(100) * 86400])
    ('ms', 's')
    """
    steps = np.concatenate([np.diff(t).astype(np.float64) for t in times])
    if not len(steps):
        return "s"
    step = _median(steps)
    if rate is not None and (fits := [u for u, per in UNITS.items() if abs(step / per * rate - 1.0) < 0.02]):
        return fits[0]
    first, last = (float(extreme(t[i] for t in times)) for extreme, i in ((min, 0), (max, -1)))
    for unit, per in UNITS.items():
        # A clock that runs since a machine was started may show such numbers too, but at a finer step.
        sane = step / per < (1000.0 if unit == "s" else 10.0) or _is_logged(step / per)
        if sane and _CENTURY[0] <= first / per and last / per <= _CENTURY[1]:
            return unit
    if len(steps) < FEW or (step < 10.0 and not _wavers(times, steps)):
        return "s"
    return next((u for u, per in UNITS.items() if _is_logged(step / per) or (u != "s" and step <= per)), "s")


def _wavers(times: Sequence[Times], steps: FloatArray) -> bool:
    """Return whether whole numbers waver, as 8, 8, 9 do at 120 Hz in milliseconds: they count something finer."""
    regular = _keep_regular(steps)
    mean = float(regular.mean())
    rounded = np.ptp(regular) == 1.0 and all((t == np.floor(t)).all() for t in times)  # two neighbours, no jitter
    return rounded and mean >= 3.0 and abs(mean - round(mean)) > 0.02 * mean


def _is_logged(step: float) -> bool:
    """Return whether people log at a step of so many seconds: 15, 30, whole minutes of which a day has some, days."""
    near = round(step)
    if abs(step - near) > 1e-6 * step:
        return False
    return near in (15, 30) or (0 < near <= 366 * _DAY and near % _MINUTE == 0.0 and 0.0 in (_DAY % near, near % _DAY))


def first_not_later(times: Times) -> int | None:
    """Return the first index whose time is not later than the one before it."""
    bad = times[1:] <= times[:-1]
    return int(bad.argmax()) + 1 if bad.any() else None


def steps_of(times: FloatArray, name: str) -> FloatArray:
    """Return the steps (T - 1,) between times."""
    with np.errstate(over="ignore"):
        steps = np.diff(times)
    if len(steps) and not 0.0 < steps.min() <= steps.max() < np.inf:
        raise DataError(f"the times of {quote(name)} are too far apart or too close together for numbers: mend them")
    return steps


def goes_on(earlier: Times, later: Times) -> bool:
    """Tell whether times begin a step after earlier ones have ended."""
    if len(earlier) < 2:
        return False
    step = (earlier[-1] - earlier[0]) / (len(earlier) - 1)
    return bool(0.5 * step <= later[0] - earlier[-1] <= 1.5 * step)


def segments(steps: FloatArray, gap: float) -> list[slice]:
    """Return the parts of a sequence between the steps that are longer than `gap`."""
    cuts = (np.flatnonzero(steps > gap) + 1).tolist()
    return [slice(a, b) for a, b in zip([0, *cuts], [*cuts, len(steps) + 1], strict=True)]


def infer_rate(steps: Steps, *, alike: bool = True) -> float | None:
    """Return the rate (Hz) of sequences from their steps; None without any step.

    Unless told otherwise (`alike=False`), sequences whose rates differ by more than one percent are refused.
    """
    present = [(name, s) for name, s in steps if len(s)]
    if not present:
        return None
    if alike:
        _check_alike(present)
    regular = _keep_regular(np.concatenate([s for _, s in present]))
    step = float(regular.mean())
    if not 1e-300 < step < 1e300:
        raise DataError(f"the steps of time ({step:g}) are no seconds: give the rate with rate=..., or another column")
    spread = float(np.ptp(regular)) / step
    if spread <= 1e-6:
        return _simplify(1.0 / step)
    # Rounding the stamps makes a sequence longer or shorter by one unit at most, which is how far steps differ.
    return _snap(1.0 / step, blur=spread * len(present) / len(regular))


def irregularity(steps: Steps, period: float) -> Irregularity | None:
    """Return how many steps are more than a tenth off the period; None if there are none."""
    count, total, longest, where = 0, 0, 0.0, ""
    for name, s in steps:
        count += int((np.abs(s - period) > _IRREGULAR * period).sum())
        total += len(s)
        if len(s) and float(s.max()) > longest:
            longest, where = float(s.max()), name
    return Irregularity(count, total, period, longest, where) if count else None


def resample(times: FloatArray, tables: Sequence[FloatArray], rate: float, name: str) -> list[FloatArray]:
    """Return tables (T, columns) brought from `times` to a rate by linear interpolation.

    Where one of two neighbours is missing (NaN) the value of the nearer one is taken, missing or not.
    """
    duration = float(times[-1] - times[0])
    frames = duration * rate * (1.0 + 1e-9) + 1.0 + 1e-9
    if not frames <= _GROWTH * (len(times) + 100):
        raise DataError(
            f"resample={rate:g} would make {frames:.3g} frames of the {len(times)} of {quote(name)}, "
            f"which last {duration:g} s: cut it where the time jumps with gap=..., or resample at a lower rate"
        )
    position = np.interp(times[0] + np.arange(int(frames)) / rate, times, np.arange(len(times), dtype=np.float64))
    whole = np.round(position)
    position = np.where(np.abs(position - whole) < 1e-6, whole, position)
    before = np.floor(position).astype(np.intp)
    after = np.minimum(before + 1, len(times) - 1)
    weight = position - before
    return [_interpolate(table, before, after, weight) for table in tables]


def _interpolate(table: FloatArray, before: IntArray, after: IntArray, weight: FloatArray) -> FloatArray:
    out = np.empty((len(weight), table.shape[1]))
    for i, column in enumerate(table.T):  # one by one: a long recording must not be in memory many times
        low, high = column[before], column[after]
        mixed = low + weight * (high - low)  # exact where nothing changes
        out[:, i] = np.where(np.isnan(mixed), np.where(weight <= 0.5, low, high), mixed)
    out.setflags(write=False)
    return out


def _keep_regular(steps: FloatArray) -> FloatArray:
    median = _median(steps)
    return steps[(steps <= 1.5 * median) & (steps >= median / 1.5)]


def _median(values: FloatArray) -> float:
    """Return the middle value, which is one of them also if they are even in number."""
    middle = (len(values) - 1) // 2
    return float(np.partition(values, middle)[middle])


def _check_alike(steps: Steps) -> None:
    means = [float(_keep_regular(s).mean()) for _, s in steps]
    usual = _median(np.array(means))
    for (name, s), mean in zip(steps, means, strict=True):
        # A few steps of rounded stamps say little about the rate.
        if abs(mean - usual) > max(0.01, 0.5 / len(s)) * usual:
            raise DataError(
                f"the rates differ: {1.0 / mean:.6g} Hz in {quote(name)} and {1.0 / usual:.6g} Hz in "
                f"{quote(steps[means.index(usual)][0])}: bring all to one with "
                f"resample={_snap(1.0 / usual, 0.0):g}, or read them apart"
            )


def _simplify(rate: float) -> float:
    """Return the shortest decimal within 1e-9, or the whole period if it is simpler: 86400 s, not 1.1574e-05 Hz."""
    for digits in range(1, 18):
        if digits == 7 and abs(1.0 / rate - round(1.0 / rate)) <= 1e-9 / rate:
            return 1.0 / round(1.0 / rate)
        if abs((decimal := float(f"{rate:.{digits}g}")) - rate) <= 1e-9 * rate:
            return decimal
    return rate


def _snap(rate: float, blur: float) -> float:
    """Return the round rate that is meant: 30 Hz and 29.97 Hz differ by 1e-3, so less than half of that is near."""
    candidates = [c for c in (float(round(rate)), *_BROADCAST, 1.0 / max(1, round(1.0 / rate))) if c > 0.0]
    nearest = min(candidates, key=lambda c: abs(c - rate))
    if abs(nearest - rate) <= max(4e-4, min(blur, 2e-3)) * rate:
        return float(f"{nearest:.5g}") if nearest in _BROADCAST else nearest
    return float(f"{rate:.6g}")
