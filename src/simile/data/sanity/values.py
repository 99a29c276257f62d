"""Values that mean something else than they say, one column or one row at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from shlex import quote
from typing import TYPE_CHECKING

import numpy as np

from simile._common.text import escape
from simile._common.typing import BoolArray, FloatArray
from simile.data.sanity.problem import Problem, list_columns, name_recordings

if TYPE_CHECKING:
    from simile.data.demonstrations import Demonstrations

LIMITS = (32767.0, 32768.0, 65535.0, 2147483647.0, 2147483648.0, 4294967295.0)  # of whole numbers in 16 and 32 bits
NINES = re.compile(r"9{2,}(\.0*|\.9+0*)?")
ENOUGH = 20  # rows, of which a sum or a mean is no chance
HUGE = 1e15  # no quantity of a plant is larger
APART, BEYOND = 0.5, 100.0  # times the range of all other values that a code lies outside of it, and what is absurd
MANY, FEW_TIMES = 20, 3  # values of a column that is no choice of a few, and times that a code comes at least
PERIODS = {360.0: "360", 2.0 * np.pi: "2 pi", 65536.0: "65536", 4096.0: "4096", 256.0: "256"}
TURN, STEADY = 0.75, 0.1  # of the period: the least jump of a wrap, and the most that all other steps move
SEVERAL = 3  # jumps of a period in a recording
LONG_ENOUGH = 50  # frames in which a sensor that changes in most frames does not stand still by chance
STILL = 0.25  # of a recording, at the least, that a sensor stands still where it otherwise never does


def find_codes(demos: Demonstrations) -> Iterator[Problem]:
    """Find numbers that stand for a missing value, such as -999: far outside of all other values of the column."""
    for name, is_action, parts in list_columns(demos):
        values = np.concatenate(parts)
        values, total = values[np.isfinite(values)], len(values)
        found: dict[float, tuple[int, bool]] = {}
        while len(found) < 3 and (code := _find_code(values)) is not None:
            found[code[0]] = int(np.count_nonzero(values == code[0])), code[1]
            values = values[values != code[0]]
        if found:
            codes = " and ".join(f"{code:g}" for code in found)
            share, certain = sum(n for n, _ in found.values()) / total, any(sure for _, sure in found.values())
            rest = f"all others lie between {values.min():.4g} and {values.max():.4g}"
            meant = "that stands for a missing value" if certain else "that may stand for a missing value"
            option = " ".join(f"--missing {quote(f'{escape(name)}={code!r}'.removesuffix('.0'))}" for code in found)
            way = "leave those rows out" if is_action else f"make them empty, or NaN, or read them so: {option}"
            yield Problem(
                "code",
                (name,),
                f"{escape(name)} is {codes} in {100.0 * share:.2g} % of the rows, and {rest}: {meant}; {way}",
                certain=certain,
            )


def _find_code(values: FloatArray) -> tuple[float, bool] | None:
    """Return a value at either end that lies far from all others and looks like a code, and whether it surely is one.

    Whatever its digits, a value may be one that lies beyond all reason, or that comes now and then, for a moment.
    """
    if len(values) < 10:
        return None
    for code in (float(values.max()), float(values.min())):
        here = values == code
        rest = values[~here]
        if len(rest) < 3:
            continue
        low, high = float(rest.min()), float(rest.max())
        far, unique = max(code - high, low - code), len(np.unique(rest[:10_000]))
        if far <= APART * (high - low) or unique <= 2:
            continue
        if abs(code) >= HUGE or abs(code) in LIMITS or NINES.fullmatch(f"{abs(code):.10g}"):
            return code, True
        times, runs = int(here.sum()), int(np.count_nonzero(here[1:] & ~here[:-1])) + int(here[0])
        if unique > MANY and (far > BEYOND * (high - low) or FEW_TIMES <= times <= 1.5 * runs):
            return code, False
    return None


def find_thousands(demos: Demonstrations) -> Iterator[Problem]:
    """Find points between thousands that were read as decimal points: 1.234 beside 987."""
    for name, _, parts in list_columns(demos):
        values = np.concatenate(parts)
        values = values[np.isfinite(values)]
        pointed = values != np.floor(values)
        whole = np.abs(values[~pointed])
        thousands = 1000.0 * values[pointed]
        if (
            not 0.05 < pointed.mean() < 0.95
            or whole.max() >= 1000.0
            or np.abs(thousands - np.round(thousands)).max() > 1e-6
        ):
            continue
        mended, turns = np.where(pointed, 1000.0 * values, values), pointed[1:] != pointed[:-1]
        if turns.sum() >= 3 and np.median(np.abs(np.diff(mended))[turns]) < 0.2 * np.median(
            np.abs(np.diff(values))[turns]
        ):
            yield Problem(
                "thousands",
                (name,),
                f"{escape(name)} has whole numbers below 1000 beside numbers with three decimals, such as "
                f"{values[pointed][0]:.3f}, and goes on smoothly if that is {thousands[0]:.0f}: a point stands between "
                "thousands; write the file without",
                certain=True,
            )


def find_wraps(demos: Demonstrations) -> Iterator[Problem]:
    """Find angles and counters that jump from one end of their range to the other."""
    for name, is_action, parts in list_columns(demos):
        for period, written in PERIODS.items():
            where = [i for i, values in enumerate(parts) if _wraps(values, period)]
            if not where:
                continue
            steps = np.concatenate([np.abs(np.diff(parts[i])) for i in where])
            times = int(np.count_nonzero(steps > TURN * period))
            way = f"--wraps {quote(f'{escape(name)}={written}'.replace(' pi', 'pi'))} makes it go on"
            way += "" if is_action else ", or give its sine and cosine"
            yield Problem(
                "wrap",
                (name,),
                f"{escape(name)} jumps by {written} {times} times {name_recordings(demos, where)}: it wraps, and the "
                f"way between both ends is no motion; {way}",
                certain=is_action,
            )
            break


def _wraps(values: FloatArray, period: float) -> bool:
    """Return whether values jump by about a period and move little else, within one period."""
    values = values[np.isfinite(values)]
    if len(values) < 10 or np.ptp(values) > 1.02 * period:
        return False
    steps = np.abs(np.diff(values))
    jumps = steps > TURN * period
    if not jumps.any() or jumps.mean() > 0.05:
        return False
    usual = float(np.max(steps[~jumps], initial=0.0))
    steady = STEADY if np.count_nonzero(jumps) < SEVERAL else 2.0 * STEADY  # so many are no chance
    return 0.0 < usual < steady * period and bool((np.abs(steps[jumps] - period) <= max(3.0 * usual, 1e-9)).all())


def find_frozen(demos: Demonstrations) -> Iterator[Problem]:
    """Find sensors that stand still where they otherwise change in most frames."""
    for name, is_action, parts in list_columns(demos):
        if is_action:
            continue
        changes = [_changes(values) for values in parts]
        longest = [_longest_run(~change) for change in changes]
        frozen = [
            i
            for i, (values, change, run) in enumerate(zip(parts, changes, longest, strict=True))
            if run >= max(LONG_ENOUGH, STILL * len(change))
            and change.sum() >= 0.9 * (len(change) - run)
            and (change.any() or float(f"{values[0]:.1f}") != values[0])  # a round constant is a setting
        ]
        moving = [i for i, change in enumerate(changes) if i not in frozen and len(change) and change.mean() > 0.9]
        known_still = any(changes[i].any() for i in frozen) or bool(moving)
        if frozen and known_still and len(frozen) + len(moving) == sum(len(c) >= LONG_ENOUGH for c in changes):
            first = max(longest[i] for i in frozen)
            yield Problem(
                "frozen",
                (name,),
                f"{escape(name)} stands still for up to {first} frames {name_recordings(demos, frozen)}, and changes "
                "in nearly every frame elsewhere: was the sensor stuck? Make it empty there, or leave the column out",
            )


def _changes(values: FloatArray) -> BoolArray:
    """Return whether each step changes the value; steps to or from a missing value are left out."""
    steps = np.diff(values)
    return np.asarray(steps[np.isfinite(steps)] != 0.0)


def _longest_run(marked: BoolArray) -> int:
    """Return the length of the longest run of marked frames."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], marked.astype(np.int8), [0]])))
    return int(np.max(edges[1::2] - edges[::2], initial=0))


def find_total_rows(demos: Demonstrations) -> Iterator[Problem]:
    """Find last rows that are the sum or the mean of the others, of their recording or of all."""
    bodies = [[_sum_up(table[:-1]) for table in (demo.contexts, demo.actions)] for demo in demos]
    lasts = [np.concatenate([demo.contexts[-1], demo.actions[-1]]) for demo in demos]
    sums = [np.hstack(both) for both in bodies]
    everything = np.array([*sums, *(np.array([row, row, row]) for row in lasts[:-1])])
    low, total, high = everything[:, 0].min(axis=0), everything[:, 1].sum(axis=0), everything[:, 2].max(axis=0)
    for what in ("sum", "mean"):
        where = [
            i
            for i, (some, last) in enumerate(zip(sums, lasts, strict=True))
            if _is_total(some[0], some[1], some[2], len(demos[i]) - 1, last, what)
        ]
        if not where and _is_total(low, total, high, demos.n_frames - 1, lasts[-1], what):
            where.append(len(demos) - 1)
        if where:
            message = f"the last row {name_recordings(demos, where)} is the {what} of all others: leave it out"
            yield Problem("total", (), message, certain=True)


def _sum_up(table: FloatArray) -> FloatArray:
    """Return the least values, the sums and the largest values of columns, (3, columns)."""
    if not len(table):
        nothing = np.zeros(table.shape[1])
        return np.array([nothing + np.inf, nothing, nothing - np.inf])
    return np.array([table.min(axis=0), table.sum(axis=0), table.max(axis=0)])


def _is_total(low: FloatArray, total: FloatArray, high: FloatArray, n: int, last: FloatArray, what: str) -> bool:
    if n < ENOUGH:
        return False
    moving = high > low  # which is not so where a value is missing
    # As far off as writing with a few digits makes it.
    same = np.abs(last - (total if what == "sum" else total / n)) <= 3e-4 * (high - low)
    return int(same[moving].sum()) >= 2 and bool(same[moving].mean() > 0.6)


def find_doubled_rows(demos: Demonstrations) -> Iterator[Problem]:
    """Find recordings in which every row stands twice."""
    where = []
    for i, demo in enumerate(demos):
        x, a = demo.contexts, demo.actions
        unchanged = (x[1:] == x[:-1]) | (np.isnan(x[1:]) & np.isnan(x[:-1]))
        same = unchanged.all(axis=1) & (a[1:] == a[:-1]).all(axis=1)
        if len(demo) >= ENOUGH and same[::2].mean() > 0.95 and same[1::2].mean() < 0.3:
            where.append(i)
    if where:
        at = name_recordings(demos, where)
        message = f"every row stands twice {at}: keep one of each two"
        yield Problem("doubled", (), message, certain=True)
