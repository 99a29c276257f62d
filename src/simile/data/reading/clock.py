"""Time: the rate behind time stamps, how regular they are, where they break off, and bringing them to a rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.data.names import FEW
from simile.data.reading.columns import ColumnRoles, ReadOptions, counts_frames, unit_of_name
from simile.data.reading.values import SPAN, STAMP, WHOLE, Times, quote
from simile.errors import ArgumentError, DataError

_BROADCAST = (24000 / 1001, 30000 / 1001, 60000 / 1001)  # written 23.976, 29.97 and 59.94
_IRREGULAR = 0.1  # a step this far from the period, relatively, is worth a note
_OUTAGE, _OUTAGES = 10.0, 0.2  # times the usual step; and the share of the steps that may be so long
_PAUSE = 30  # times the usual step, from which on one is no jitter
_GROWTH = 100  # resampling that makes a sequence longer than this many times is a mistake
_INFERRED = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}  # of them in a second
UNITS = {**_INFERRED, "min": 1.0 / 60.0, "h": 1.0 / 3600.0, "d": 1.0 / 86400.0}
UNIT_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
UNIT_NAMES |= {"min": "minutes", "h": "hours", "d": "days"}
FAST, _ABSURD = 1e3, 1e5  # Hz, beyond which nobody moves, and nobody records
_MINUTE, _DAY = 60.0, 86400.0
_CENTURY = (946_684_800.0, 4_102_444_800.0)  # 2000 to 2100, in seconds since 1970


Steps = Sequence[tuple[str, FloatArray]]  # name and steps (T - 1,) in seconds of every sequence


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
    for unit, per in _INFERRED.items():
        # A clock that runs since a machine was started may show such numbers too, but at a finer step.
        sane = step / per < (1000.0 if unit == "s" else 10.0) or _is_logged(step / per)
        if sane and _CENTURY[0] <= first / per and last / per <= _CENTURY[1]:
            return unit
    if len(steps) < FEW or (step < 10.0 and not _wavers(times, steps)):
        return "s"
    return next((u for u, per in _INFERRED.items() if _is_logged(step / per) or (u != "s" and step <= per)), "s")


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


def find_outage(steps: FloatArray) -> float:
    """Return the length beyond which a step is an outage; infinity where many are so long, as when events are logged.

    >>> find_outage(np.array([0.1, 0.1, 0.1, 60.0]))
    1.0
    """
    longest = _OUTAGE * _median(steps) if len(steps) else np.inf
    return longest if (steps > longest).sum() <= max(3.0, _OUTAGES * len(steps)) else np.inf


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


def note_uneven(steps: Steps, period: float, column: str, *, frames: bool) -> list[str]:
    """Return the note on steps that are more than a tenth off the period, over all sequences, with the way out."""
    count = total = 0
    longest, where = 0.0, ""
    for name, s in steps:
        count += int((np.abs(s - period) > _IRREGULAR * period).sum())
        total += len(s)
        if len(s) and s.max() > longest:
            longest, where = float(s.max()), name
    if not count:
        return []
    off = f"{count:,} of {total:,} steps of {quote(column)} ({percent(count / total)})"
    last = f"the longest: {longest:.4g} {'frame numbers' if frames else 's'} in {quote(where)}"
    if frames:
        return [f"{off} are not 1 ({last}): frames are missing; rate=... with resample=... or gap=... evens it out"]
    even = f"resample={1.0 / period:.6g} or gap={3.0 * period:.2g} evens it out"
    return [f"{off} are more than 10 % off {period:.4g} s ({last}): {even}"]


def note_unit(column: str, unit: str, rate: float | None, *, whole: bool, known: bool = False) -> list[str]:
    """Return the note on the unit of time that was taken where nobody says it, if another is thinkable.

    What cannot be is refused, unless a rate is known.
    """
    if rate is None:
        return []
    if unit != "s":
        slow = f"for as seconds it would be {rate / UNITS[unit]:.4g} Hz: time_unit='s' overrules"
        return [f"{quote(column)} is taken for {UNIT_NAMES[unit]}, {slow}"]
    if rate > FAST and not known:
        way_out = "time_unit='min', 'h' or 'd' if it is in minutes, hours or days, and 's' if it is in seconds"
        if rate > _ABSURD:
            raise DataError(f"{quote(column)} in seconds would be {rate:,.0f} Hz: {way_out}")
        return [f"{quote(column)} is taken for seconds ({rate:,.0f} Hz): {way_out}"]
    uneven = abs(2.0 / rate - round(2.0 / rate)) > 0.1  # as 8.33 ms are, and no seconds of people
    doubtful = (whole or uneven) and 0.1 < rate < 1.0
    return [f"{quote(column)} is taken for seconds ({rate:g} Hz): time_unit='ms' if it is in milliseconds"] * doubtful


def percent(share: float) -> str:
    """Return a share as it stands in notes."""
    return f"{100.0 * share:.2g} %" if share < 0.1 else f"{100.0 * share:.0f} %"


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


@dataclass(frozen=True)
class TimeColumn:
    """What a column of time is: frames or a unit, and the rate (Hz) that its steps say."""

    frames: bool
    unit: str
    rate: float | None


@dataclass(frozen=True, eq=False)
class Timing:
    """The rate and where it comes from, and for every sequence the parts it is cut into."""

    rate: float | None
    said: str
    parts: list[list[slice]]
    goes_on: list[bool]  # whether a sequence begins a step after the one before it has ended
    times: list[FloatArray] = field(default_factory=list)  # only where they are needed, to resample
    column: TimeColumn | None = None
    notes: Sequence[str] = ()


def find_timing(
    names: Sequence[str],
    given: Sequence[Times],
    choice: ColumnRoles,
    how: ReadOptions,
    stored: float | None,
    known: TimeColumn | None = None,
) -> Timing:
    """Return the timing of sequences; what their column of time is, is inferred unless it is known."""
    rate = stored if how.rate is None else how.rate
    origin = "" if rate is None else " as stored" if how.rate is None else " as given"
    if choice.time is None:
        return _time_evenly(list(map(len, given)), rate, origin, how)
    column = choice.shown[choice.time]
    told_unit = _find_told_unit(choice, how.time_unit)
    frames = (told_unit is None and _are_frames(choice, given)) if known is None else known.frames
    if frames or choice.time_kind in (STAMP, SPAN):
        told_unit = "s"
    unit = told_unit or (infer_unit(given, rate) if known is None else known.unit)
    # A number of frames may count on from one recording to the next.
    continues = [i > 0 and not frames and goes_on(given[i - 1], t) for i, t in enumerate(given)]
    times = [to_seconds(t, unit) for t in given]
    steps = [steps_of(t, name) for t, name in zip(times, names, strict=True)]
    if frames and rate is not None:
        times, steps = [t / rate for t in times], [s / rate for s in steps]
    elif frames and (how.gap or how.resample):
        raise ArgumentError(
            f"{'gap' if how.gap else 'resample'} is in seconds, but {column!r} counts frames: say how many there are "
            "in a second with rate=..."
        )
    gaps = [find_outage(s) if how.repair and how.gap is None else how.gap or np.inf for s in steps]
    parts = [segments(s, gap) for s, gap in zip(steps, gaps, strict=True)]
    named = [(name, s[s <= gap]) for name, s, gap in zip(names, steps, gaps, strict=True)]
    alike = how.resample is None and rate is None
    known = known or TimeColumn(frames, unit, None if frames else infer_rate(named, alike=alike))
    inferred = known.rate
    notes = (
        [] if told_unit else note_unit(column, unit, inferred, whole=choice.time_kind == WHOLE, known=rate is not None)
    )
    if how.resample is not None:
        if how.gap is None:
            _check_pauses(named, how.resample)
        source = "from unknown" if (was := inferred or rate) is None else f"from {was:g} Hz"
        said = f" resampled {source} by column {column!r}"
        return Timing(how.resample, said, parts, continues, times, known, notes)
    if rate is not None and inferred is not None and abs(rate - inferred) > 0.01 * inferred:
        notes.append(f"the rate is {rate:g} Hz as said, but the steps of {column!r} say {inferred:g} Hz")
    period = next((1.0 / r for r in (inferred, rate) if r is not None), 1.0)
    notes += note_uneven(named, period, column, frames=frames and rate is None)
    if rate is None and inferred is not None:
        origin = f" inferred from column {column!r}{'' if unit == 's' else f' in {UNIT_NAMES[unit]}'}"
    elif rate is None and frames:
        origin = f" ({column!r} counts frames: rate=... says how many a second)"
    return Timing(inferred if rate is None else rate, origin, parts, continues, [], known, notes)


def _check_pauses(steps: Steps, rate: float) -> None:
    """Refuse to fill long pauses with straight lines, unless they are allowed by a gap."""
    for name, s in steps:
        if len(s) and s.max() > _PAUSE * (usual := _median(s)):
            raise DataError(
                f"the time of {quote(name)} jumps by {s.max():.4g} s, and resample={rate:g} would fill that with a "
                f"straight line of {s.max() * rate:.0f} frames: gap={3.0 * usual:.2g} cuts there, and "
                f"gap={1.01 * s.max():.4g} fills it"
            )


def _time_evenly(lengths: Sequence[int], rate: float | None, origin: str, how: ReadOptions) -> Timing:
    """Return the timing of sequences without a column of time."""
    for argument in ("time_unit", "gap"):
        if getattr(how, argument) is not None:
            raise ArgumentError(f"{argument} needs a column of time: name it with time=...")
    parts, alone = [[slice(0, n)] for n in lengths], [False] * len(lengths)
    if how.resample is None:
        return Timing(rate, origin, parts, alone)
    if rate is None:
        raise ArgumentError("resample needs a column of time, named with time=..., or the rate, with rate=...")
    return Timing(how.resample, f" resampled from {rate:g} Hz", parts, alone, [np.arange(n) / rate for n in lengths])


def _find_told_unit(choice: ColumnRoles, given: str | None) -> str | None:
    """Return the unit of the time as given, or as the name of the column has it; None if nobody says it."""
    name, kind = str(choice.time), choice.time_kind
    if given is not None and kind in (STAMP, SPAN):
        said = f"column {choice.shown[name]!r} holds {kind}, which tell their unit: leave time_unit out"
        raise ArgumentError(f"time_unit: {said}")
    if given is not None and counts_frames(name, kind):
        said = f"{choice.shown[name]!r} counts frames: say how many there are in a second with rate=..."
        raise ArgumentError(f"time_unit: {said}")
    return given or unit_of_name(name)[1]


def _are_frames(choice: ColumnRoles, times: Sequence[Times]) -> bool:
    """Return whether the time column counts frames: by its name, or because it is whole and steps by one."""
    by_name = counts_frames(str(choice.time), choice.time_kind)
    if by_name is False or not all((t == np.floor(t)).all() for t in times):
        return False
    together = np.concatenate([np.diff(t) for t in times])
    return by_name is True or len(together) == 0 or float(np.median(together)) == 1.0
