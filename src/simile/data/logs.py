"""What the log of an expert is worth: the resolution and the white noise of each recorded action.

Second differences of a fine log are often mostly sensor noise. What is told here lets every measure look through it.

References
----------
Gasser, Sroka and Jennen-Steinmetz (1986), "Residual variance and residual pattern in nonlinear regression", Biometrika
73:625 (noise from differences); Hampel (1974), "The influence curve and its role in robust estimation" (median absolute
deviation).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from simile._common.sums import ExactSum
from simile._common.typing import FloatArray, Trajectories
from simile.metrics import difference, rate_reversals, share_rest

ORDER = 6  # of the differences that tell noise from motion
REST, QUIET, TYPICAL = 6, 0.1, 0.55  # frames of a window; share of those at rest; their variance, over the noise's
ALIKE = (-0.3, -0.13)  # the correlation of neighbours in windows of white noise is -1/6
WHITE = 1.25  # by which the noise at every second frame may differ, and be white: a random walk has 1.41
LEAST_FRAMES = 1000  # that tell it from a random walk
LEAST_NOISE = 2e-4  # of the spread, or else...
SHARE = 0.4  # ...of the root mean square difference: less is nobody's concern
DOMINATED = 0.7  # what is motion of the mean second difference: where it is less, a note names the noise
ORDERS, STRIDES = (1, 2, 3), (1, 2, 3, 4, 6, 8, 12, 16, 24)  # at which differences look through noise
MOST_SAMPLED, LEAST_LEVELS = 4096, 8  # frames of a sequence, and different values in them, that tell a resolution
GRAIN, FINEST = 2.0**-24, 2.0**-19  # of the range: what is closer differs by rounding; the finest step
_LISTS: tuple[tuple[str, Any], ...] = (("noise_interval", float), ("strides", int), ("kept", float))
TOLERANCE = 0.05  # of a step: multiples of it are no farther off, even if written with few digits


@dataclass(frozen=True)
class Log:
    """What the recording of one action is worth.

    Attributes
    ----------
    resolution : float
        The largest step that practically all values of a sequence are whole multiples of apart; 0 where there is none.
    noise : float
        Standard deviation of white measurement noise beyond the resolution's; 0 where none is told from motion.
    noise_interval : tuple of float
        What that noise lies between, for 95 of 100 such logs; from 0 to what it may be at most where none is told.
    spread : float
        Standard deviation of the action.
    strides : tuple of int
        How many frames apart differences of orders 1 to 3 are taken, so that noise is a small share of them; 1 without.
    kept : tuple of float
        How much of the mean absolute differences of orders 1 to 3, from frame to frame, is motion; 1 without noise.
    """

    resolution: float
    noise: float
    noise_interval: tuple[float, float]
    spread: float
    strides: tuple[int, ...] = (1, 1, 1)
    kept: tuple[float, ...] = (1.0, 1.0, 1.0)

    @classmethod
    def read(cls, facts: Any) -> Log:
        """Read what `dataclasses.asdict` wrote; a `ValueError` where it makes no sense."""
        try:
            numbers = {name: float(facts[name]) for name in ("resolution", "noise", "spread")}
            interval, strides, kept = (tuple(map(make, facts[name])) for name, make in _LISTS)
            log = cls(**numbers, noise_interval=interval, strides=strides, kept=kept)
        except (KeyError, OverflowError, TypeError) as error:
            raise ValueError(f"no log: {error}") from None
        values = (*numbers.values(), *interval, *kept)
        if (len(interval), len(strides), len(kept)) != (2, 3, 3) or not set(strides) <= set(STRIDES):
            raise ValueError("no log: of another length")
        if not all(0.0 <= value < math.inf for value in values) or not all(0.0 < share <= 1.0 for share in kept):
            raise ValueError("no log: out of range")
        return log

    @property
    def threshold(self) -> float:
        """The hysteresis, full width, below which a change is no motion."""
        return max(min(2.0 * self.resolution, 0.1 * self.spread), 6.0 * self.noise, 0.01 * self.spread)


def know_log(trajectories: Trajectories) -> tuple[Log, ...]:
    """Estimate resolution and noise of each action of (T, k) trajectories.

    >>> step = np.random.default_rng(0).normal(size=(2000, 1))
    >>> (log,) = know_log([np.round(np.cos(np.arange(2000)[:, np.newaxis] / 50) + 0.01 * step, 3)])
    >>> f"{log.resolution:.3g} {log.noise:.2g} {log.threshold:.2g}"
    '0.001 0.0097 0.058'
    """
    return read_logs(np.array([find_marks(actions) for actions in trajectories]))


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def find_marks(actions: FloatArray) -> FloatArray:
    """Return what one sequence (T, k) tells of its log, (62, k); NaN where it does not.

    These are frames, sum and squares about the mean; the step between values, 0 where they are continuous; the noise by
    all frames, by every second and by those at rest, and how neighbours among the last correlate; and the sums of
    absolute differences, and of their squares, of all `ORDERS` and, for each, all `STRIDES`.
    """
    frames, total = np.full(actions.shape[1], len(actions), dtype=np.float64), actions.sum(axis=0)
    squares = np.sum((actions - total / len(actions)) ** 2, axis=0)
    steps = [_find_step(column) for column in actions.T]
    rough = [np.abs(difference(actions, order, s)) for order in ORDERS for s in STRIDES]
    sums = [values.sum(axis=0) for values in rough] + [np.square(values).sum(axis=0) for values in rough]
    noises = _find_noise(actions, 1), _find_noise(actions, 2), *_find_noise_at_rest(actions)
    return np.array([frames, total, squares, steps, *noises, *sums])


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def read_logs(marks: FloatArray) -> tuple[Log, ...]:
    """Read the logs from the marks (sequences, 62, k) of all sequences, in whichever order; see `find_marks`."""
    return tuple(_read_log(marks[:, :, j].T) for j in range(marks.shape[2]))


def tell_noise(names: Sequence[str], logs: Sequence[Log]) -> tuple[str, ...]:
    """Say which actions were recorded with so much noise that their second differences are about it."""
    return tuple(
        f"{name} was recorded with noise of {log.noise:.2g}, {100.0 * log.noise / log.spread:.2g} % of its standard "
        "deviation: roughness is over that of the motion without this noise"
        for name, log in zip(names, logs, strict=True)
        if log.kept[1] < DOMINATED
    )


def tell_motion(
    names: Sequence[str], logs: Sequence[Log], trajectories: Trajectories, rate: float | None = None
) -> tuple[str, ...]:
    """Say in a line per action what its log is worth, and how it moves.

    >>> square = np.repeat([0.0, 1.0] * 10, 30)[:, np.newaxis]
    >>> tell_motion(["pan"], [Log(0.01, 0.03, (0.02, 0.04), 20.0)], [square], 10.0)
    ('pan: resolution 0.01, noise 0.03, at rest 97 % of the time, 18 reversals a minute',)
    """
    threshold = [log.threshold for log in logs]
    turns, rest = rate_reversals(trajectories, threshold, rate), share_rest(trajectories, threshold, rate)
    lines = []
    for name, log, reversals, rests in zip(names, logs, turns, rest, strict=True):
        said = [
            f"{what} {value:.3g}" for what, value in (("resolution", log.resolution), ("noise", log.noise)) if value
        ]
        said += [] if math.isnan(rests) else [f"at rest {100.0 * rests:.0f} % of the time"]
        digits = ".0f" if reversals >= 10.0 else ".2g"
        said.append(f"{reversals:{digits}} reversals {'a minute' if rate else 'per 1,000 frames'}")
        lines.append(f"{name}: {', '.join(said)}")
    return tuple(lines)


def _find_noise(actions: FloatArray, every: int) -> FloatArray:
    """Estimate the deviation of white noise by high differences, which leave little of smooth motion, (k,)."""
    parts = [np.diff(actions[begin::every], n=ORDER, axis=0) for begin in range(every)]
    if len(parts[-1]) < 2:
        return np.full(actions.shape[1], math.nan)
    deviation: FloatArray = np.median(np.abs(np.concatenate(parts)), axis=0) / 0.6745
    return deviation / math.sqrt(math.comb(2 * ORDER, ORDER))


def _find_noise_at_rest(actions: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Estimate the deviation of noise in the stillest windows, and how neighbours in them correlate, (k,) each."""
    if len(actions) < 4 * REST:
        return (np.full(actions.shape[1], math.nan),) * 2
    windows = sliding_window_view(actions, REST, axis=0)
    windows = windows - windows.mean(axis=2, keepdims=True)
    variance = np.sum(windows**2, axis=2) / (REST - 1)
    limit = np.quantile(variance, QUIET, axis=0, method="lower")
    still = variance <= limit
    with np.errstate(invalid="ignore"):
        alike = np.sum(windows[..., 1:] * windows[..., :-1], axis=2, where=still[..., np.newaxis]).sum(axis=0)
        alike /= np.sum(variance, axis=0, where=still) * (REST - 1)
    return np.sqrt(limit / TYPICAL), alike


def _find_step(column: FloatArray) -> float:
    """Find the largest step of which all values are multiples, counted from one of them; 0 where there is none."""
    levels = np.unique(column[:: -(-len(column) // MOST_SAMPLED)])
    width = levels[-1] - levels[0]
    levels = levels[np.diff(levels, prepend=-math.inf) > GRAIN * width]
    if len(levels) < LEAST_LEVELS:
        return math.nan
    gaps = np.sort(np.diff(levels))
    common = reduce(_divide, gaps[: min(len(gaps) // 2, 32)])
    for step in sorted([common, *np.quantile(gaps, (0.0, 0.05, 0.25, 0.5), method="lower")], reverse=True):
        if step < FINEST * width:
            break
        for _ in range(4):  # all gaps round less than one; the better the step, the wider those that count
            times = np.round(gaps / step)
            whole = (times > 0.0) & (np.abs(gaps / step - times) < 0.1)
            step = gaps[whole].sum() / times[whole].sum() if whole.any() else step
        turns = levels / step
        turns = turns - np.angle(np.exp(2j * math.pi * turns).mean()) / (2.0 * math.pi)
        near = np.abs(turns - np.round(turns)) < TOLERANCE
        if near.mean() >= 0.95:
            whole_turns = np.round(turns[near]).astype(np.int64)
            return float(step * np.gcd.reduce(whole_turns - whole_turns[0]))
    return 0.0


def _divide(one: float, other: float) -> float:
    """Find the largest number of which both are multiples, but for rounding (Euclid)."""
    one, other = max(one, other), min(one, other)
    while other > 0.0 and (rest := abs(one - round(one / other) * other)) > 0.05 * other:
        one, other = other, rest
    return other


def _read_log(marks: FloatArray) -> Log:
    frames, total, squares, steps, *noises = marks[:8]
    n = frames.sum()
    center = ExactSum.of(total).value / n
    spread = float(np.sqrt(ExactSum.of(squares + frames * (total / frames - center) ** 2).value / n))
    if not np.isfinite([spread, *marks[8:].sum(axis=1)]).all():  # so large that nothing can be told
        return Log(0.0, 0.0, (0.0, 0.0), 0.0)
    resolution = _read_resolution(steps, frames)
    rounding = resolution / math.sqrt(12.0)
    *both, at_rest, alike = (_weighted_median(found, frames) for found in noises)
    low, high = sorted(both)
    doubt, white = min(4.1 / math.sqrt(n), 1.0), high <= WHITE * low
    # In holds motion does not hide it; where all of it is noise, the stillest windows tell three quarters of it.
    if at_rest < (0.65 if white else 1.0) * low and ALIKE[0] < alike < ALIKE[1]:
        low = high = at_rest
        doubt, white = 0.3, True
    least, noise, most = (
        math.sqrt(max(x**2 - rounding**2, 0.0)) for x in (low * (1.0 - doubt), low, high * (1.0 + doubt))
    )
    counts = [np.maximum(frames - o * stride, 0.0).sum() for o in ORDERS for stride in STRIDES]
    sums = [float(ExactSum.of(one).value) / max(count, 1.0) for one, count in zip(marks[8:], 2 * counts, strict=True)]
    means, squares = np.reshape(sums, (2, len(ORDERS), len(STRIDES)))
    own = [math.comb(2 * o, o) * noise**2 for o in ORDERS]  # squares of differences of noise
    told = n >= LEAST_FRAMES and white and noise > rounding
    if not (told and (noise > LEAST_NOISE * spread or own[1] > SHARE**2 * squares[1, 0])):
        return Log(resolution, 0.0, (0.0, spread if math.isnan(most) else most), spread)
    usable = np.reshape(counts, (len(ORDERS), len(STRIDES))) > 0.5 * n
    seen = [_see_motion(o, own[i], means[i], squares[i], usable[i]) for i, o in enumerate(ORDERS)]
    strides, kept = zip(*seen, strict=True)
    return Log(resolution, noise, (least, most), spread, strides, kept)


def _see_motion(
    order: int, own: float, means: FloatArray, squares: FloatArray, usable: npt.NDArray[np.bool_]
) -> tuple[int, float]:
    """Return the smallest stride at which noise is a small share of the differences, and what of them is motion.

    There, and at twice that stride, the squares of noise are taken off. What was between the stride and the next frame
    is found on a way between the straight line through both, and the parabola.
    """
    noise = own / (np.array(STRIDES) ** (2.0 * order) * squares)  # shares of the squares
    root = np.sqrt(squares * np.maximum(1.0 - noise, 0.05))
    chosen = next((i for i in range(len(STRIDES)) if noise[i] <= SHARE**2), len(STRIDES) - 1)
    while chosen and not usable[chosen]:
        chosen -= 1
    stride, found, twice = STRIDES[chosen], root[chosen], chosen
    if stride > 1 and 2 * stride in STRIDES and usable[STRIDES.index(2 * stride)]:
        twice = STRIDES.index(2 * stride)
        found += 2.0 / 3.0 * max(found - root[twice], 0.0)
    mean = found * means[twice] / math.sqrt(squares[twice])
    return stride, float(f"{min(mean / means[0], 1.0):.6g}")  # rounded: the same in whichever unit


def _read_resolution(steps: FloatArray, frames: FloatArray) -> float:
    known = ~np.isnan(steps)
    if not known.any() or frames[known & (steps == 0.0)].sum() > 0.01 * frames[known].sum():
        return 0.0
    return float(reduce(_divide, np.sort(steps[known & (steps > 0.0)])))


def _weighted_median(values: FloatArray, weights: FloatArray) -> float:
    """Return the smallest value with half of the weight at or below it: the same in whichever order."""
    order = np.argsort(values)
    order = order[~np.isnan(values[order])]
    if len(order) == 0:
        return math.nan
    below = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(below, below[-1] / 2.0)])
