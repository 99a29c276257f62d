"""Recordings against one another: copies, and those in another unit, with another sign, offset or clock."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from simile._common.text import escape
from simile._common.typing import FloatArray, IntArray
from simile.data.sanity.problem import Problem, list_columns, name_recordings, solve_ridge

if TYPE_CHECKING:
    from simile.data.demonstrations import Demonstrations

FACTORS = {
    "1000": 1000.0,
    "100": 100.0,
    "180/pi (degrees and radians)": 180.0 / math.pi,
    "60": 60.0,
    "3.28 (feet and metres)": 3.28084,
    "3.6 (km/h and m/s)": 3.6,
    "25.4 (inches and millimetres)": 25.4,
}
SURE, CONTEXTS_SURE = 15.0, 300.0  # times that scales of an action, and of a context, differ by no chance
ROUGHLY = 0.7  # of a factor, in logarithms, that ranges of recordings differ anyway
CLOSE = 0.15  # of a factor, in logarithms, within which it is that
LEAST, MOST = 4, 40  # recordings that can be compared, and that are
ENOUGH, NUMBERS = 100, 500_000  # frames that a recording must have, and numbers that are looked at in all
AGREES = 0.75  # correlation of what one recording's line says of another, from which on they are alike
ALIKE = 0.5  # of a factor, in logarithms, by which recordings that are alike react more or less
FEWEST_SHIFTS = 16  # frames either way, by which a clock may be off
MATTERS = 0.2  # of what a line says, that a context has to say of it for its clock to be looked at
BEST = 0.7  # of the recordings, whose line is fitted once more
WORSE = 2.0  # times the usual error, from which on a recording is asked what would mend it
MENDS = 0.5  # times the error that is left, for what mends it to be told


def find_repeated_recordings(demos: Demonstrations) -> Iterator[Problem]:
    """Find recordings whose values are those of another, whatever they are called."""
    known: dict[bytes, int] = {}
    for i, demo in enumerate(demos):
        found = hashlib.sha256(np.ascontiguousarray(demo.contexts).data)
        found.update(np.ascontiguousarray(demo.actions).data)
        first = known.setdefault(found.digest(), i)
        if first != i and len(demo) > 10 and np.ptp(demo.actions):
            yield Problem(
                "repeated",
                (),
                f"{escape(demo.name)} is a copy of {escape(demos[first].name)}, value for value: it would count twice, "
                "and judge what has learned from it; leave one out",
            )
            return


def find_scales(demos: Demonstrations) -> Iterator[Problem]:
    """Find recordings in which a column is so much larger or smaller that it must be in another unit."""
    for name, is_action, parts in list_columns(demos):
        spread = np.array([_spread(part) for part in parts])
        if len(spread) < LEAST or (spread > 0.0).mean() < 0.8:
            continue
        logs = np.where(spread > 0.0, np.log(np.maximum(spread, 1e-300) / np.median(spread)), 0.0)
        sure = math.log(SURE if is_action else CONTEXTS_SURE)
        far, rest = np.abs(logs) > sure, logs[np.abs(logs) <= sure]
        if not far.any() or far.mean() > 0.5 or np.abs(rest).max(initial=0.0) > sure / 3.0:
            continue
        ratio = float(np.median(np.abs(logs[far])))
        near = [text for text, factor in FACTORS.items() if abs(ratio - math.log(factor)) < ROUGHLY]
        if near and np.ptp(np.abs(logs[far])) < 2.0 * ROUGHLY:
            yield Problem(
                "unit",
                (name,),
                f"{escape(name)} is {'larger' if np.median(logs[far]) > 0 else 'smaller'} by a factor of about "
                f"{near[0]} {name_recordings(demos, np.flatnonzero(far).tolist())}: bring it to one unit",
            )


def _spread(values: FloatArray) -> float:
    """Return the range of a column but for its extremes."""
    values = values[np.isfinite(values)]
    return float(np.subtract(*np.quantile(values, (0.95, 0.05)))) if len(values) >= ENOUGH else 0.0


@dataclass(frozen=True, eq=False)
class _Lines:
    """Ridges from contexts, now and a little earlier, to one action: of each recording, and of those that agree."""

    inputs: list[FloatArray]
    targets: list[FloatArray]
    lags: tuple[int, ...]
    center: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, demos: Demonstrations, numbers: Sequence[int], action: int) -> _Lines:
        step = max(1, round(0.25 * (demos.rate or 12.0)))
        lags = (0, *(step * times for times in (1, 2, 4, 8, 16, 32)))
        most = max(ENOUGH, NUMBERS // (len(numbers) * len(lags) * demos.n_contexts))
        rows = [np.unique(np.linspace(0, len(demos[i]) - 1, min(len(demos[i]), most)).astype(int)) for i in numbers]
        joined = np.concatenate([demos[i].contexts[some] for i, some in zip(numbers, rows, strict=True)])
        center = np.nan_to_num(np.nanmedian(joined, axis=0))
        spread = np.nan_to_num(np.nanquantile(np.abs(joined - center), 0.8, axis=0))
        scale = np.where(spread > 0.0, spread, 1.0)
        made = cls([], [], lags, center, scale)
        for i, some in zip(numbers, rows, strict=True):
            made.inputs.append(np.hstack([made.read(demos, i, some, lag) for lag in lags]))
            made.targets.append(demos[i].actions[some, action])
        return made

    def read(self, demos: Demonstrations, number: int, rows: IntArray, lag: int) -> FloatArray:
        """Return contexts of a recording some frames back, on one scale; missing ones are the center."""
        x = demos[number].contexts[np.maximum(rows - lag, 0)]
        return np.nan_to_num((x - self.center) / self.scale)

    def fit(self, numbers: Sequence[int]) -> FloatArray:
        """Return the weights of a ridge; the level of each recording is left aside."""
        X = np.concatenate([self.inputs[i] - self.inputs[i].mean(axis=0) for i in numbers])
        y = np.concatenate([self.targets[i] - self.targets[i].mean() for i in numbers])
        return solve_ridge(X, y, 1e-2)

    def predict(self, number: int, weights: FloatArray, scale: FloatArray | float = 1.0) -> FloatArray:
        """Return what a line says of a recording, whose contexts are multiplied by something first."""
        scales = np.tile(np.broadcast_to(scale, len(self.center)), len(self.lags))
        return np.asarray((self.inputs[number] * scales) @ weights)


def compare_recordings(demos: Demonstrations) -> Iterator[Problem]:
    """Find recordings that agree with the others once an action or a context is turned, rescaled or shifted in time."""
    numbers = [i for i, demo in enumerate(demos) if len(demo) >= ENOUGH][:MOST]
    if len(numbers) < LEAST:
        return
    chance = math.sqrt(demos.n_actions)  # of many actions one is likely to lie elsewhere for a reason
    for k, name in enumerate(demos.action_names):
        lines = _Lines.of(demos, numbers, k)
        n = len(numbers)
        own = [lines.fit([i]) for i in range(n)]
        agree = np.array([[_correlation(lines.predict(i, w), lines.targets[i]) for i in range(n)] for w in own])
        center = int(np.argmax(np.median(agree, axis=1)))
        slopes = np.array([_slope(lines.predict(i, own[center]), lines.targets[i]) for i in range(n)])
        alike = np.abs(np.log(np.maximum(slopes / np.median(slopes), 1e-9))) < ALIKE
        kin = agreeing = np.flatnonzero(alike & (agree[center] > AGREES)).tolist()
        if len(agreeing) < max(LEAST - 1, 0.5 * n):
            continue
        for _ in range(2):  # those that are off must not bend the line
            weights = lines.fit(kin)
            errors = np.array([_error(lines.predict(i, weights), lines.targets[i]) for i in range(n)])
            kin = sorted(kin, key=errors.__getitem__)[: max(LEAST - 1, math.ceil(BEST * n))]
        usual = float(np.median(errors[kin]))
        mends: dict[tuple[str, str], list[int]] = {}
        for i in range(n):
            if errors[i] > WORSE * usual and (
                mend := _find_mend(lines, demos, i, numbers[i], weights, errors[i], usual, k)
            ):
                mends.setdefault(mend, []).append(numbers[i])
        for (column, how), where in mends.items():
            if len(where) <= 0.5 * n:
                yield Problem("differs", (column,), f"{escape(column)} {how} {name_recordings(demos, where)}")
        levels = np.array([lines.targets[i].mean() - lines.predict(i, weights).mean() for i in agreeing])
        inner = float(np.median([lines.targets[i].std() for i in kin]))
        if not mends and len(levels) >= LEAST and _spread_of(levels) > max(3.0 * usual, chance * inner):
            yield Problem(
                "offset",
                (name,),
                f"{escape(name)} lies at another level in each recording, by {_spread_of(levels):.3g} where contexts "
                f"leave {usual:.3g} open: was its zero set anew, or is a context in another unit in some? Look "
                "at them side by side",
            )


def _spread_of(values: FloatArray) -> float:
    return float(np.std(values, ddof=1))


def _correlation(one: FloatArray, other: FloatArray) -> float:
    if np.ptp(one) == 0.0 or np.ptp(other) == 0.0:
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])


def _slope(said: FloatArray, target: FloatArray) -> float:
    """Return by how much a line is to be multiplied to be as large as a recording."""
    said = said - said.mean()
    return float(np.dot(said, target - target.mean()) / max(np.dot(said, said), 1e-300))


def _error(said: FloatArray, target: FloatArray) -> float:
    """Return how far a line is off a recording, its level aside."""
    gap = target - said
    return float(np.sqrt(np.mean((gap - gap.mean()) ** 2)))


def _find_mend(
    lines: _Lines,
    demos: Demonstrations,
    i: int,
    number: int,
    weights: FloatArray,
    error: float,
    usual: float,
    action: int,
) -> tuple[str, str] | None:
    """Return the column, and what is other about it, that brings a recording nearest to the others; None if nothing."""
    said, target = lines.predict(i, weights), lines.targets[i]
    tried: list[tuple[float, str, str]] = []
    name = demos.action_names[action]
    slope = _slope(said, target)
    if slope < 0.0:
        tried.append((_error(-said, target), name, "has the other sign"))
    for text, factor in FACTORS.items():
        for times, word in ((factor, "larger"), (1.0 / factor, "smaller")):
            if slope > 0.0 and abs(math.log(slope / times)) < CLOSE:
                tried.append((_error(said * times, target) / times, name, f"is {word} by a factor of {text}"))
    step, demo = lines.lags[1], demos[number]
    frames = np.arange(len(demo))
    parts = np.split(weights, len(lines.lags))
    each = np.sum(
        [lines.read(demos, number, frames, lag) * w for lag, w in zip(lines.lags, parts, strict=True)], axis=0
    )
    along = each.sum(axis=1)
    matter = np.flatnonzero(each.std(axis=0) > MATTERS * along.std()).tolist()
    without = [_error(along - each[:, j], demo.actions[:, action]) for j in matter]
    most = max(8 * step, FEWEST_SHIFTS)
    for shift in range(-most, most + 1, max(1, step // 3)):
        if abs(shift) >= step and 4 * abs(shift) < len(demo):
            early, late = slice(len(demo) - abs(shift)), slice(abs(shift), None)
            before, after = (early, late) if shift > 0 else (late, early)
            seconds = "" if demos.rate is None else f" ({abs(shift) / demos.rate:.2g} s)"
            text = f"is about {abs(shift)} frames{seconds} {'later' if shift > 0 else 'earlier'}"
            tried.append((_error(along[before], demo.actions[after, action]), name, f"{text} than elsewhere"))
            for m, least in zip(matter, without, strict=True):
                mended = along[before] + each[after, m] - each[before, m]
                if (error_then := _error(mended, demo.actions[before, action])) < MENDS * least:
                    how = f"{text} beside {escape(name)} than elsewhere"
                    tried.append((error_then, demos.context_names[m], how))
    for j, column in enumerate(demos.context_names):
        for text, times in _context_changes():
            scale = np.ones(len(lines.center))
            scale[j] = times
            changed = _error(lines.predict(i, weights, scale), target)
            if changed < MENDS * _error(lines.predict(i, weights, np.where(scale == 1.0, 1.0, 0.0)), target):
                tried.append((changed, column, text))  # it is more than what leaving the column out would do
    best, column, how = min(tried, default=(math.inf, "", ""))
    return (column, how) if best < MENDS * error and best < WORSE * usual else None


def _context_changes() -> Iterator[tuple[str, float]]:
    """Yield what a context may be multiplied by to be as elsewhere, and what it is then said to be."""
    yield "has the other sign", -1.0
    for text, factor in FACTORS.items():
        yield f"is larger by a factor of {text}", 1.0 / factor
        yield f"is smaller by a factor of {text}", factor
