"""How an expert moves, and what the log of it is worth: hold and move, reversals, resolution and noise, per action.

Second differences do not tell a hand that holds and moves from one that creeps, and sensor noise is most of them in a
fine log. These measures look through noise by hysteresis: a change that is smaller than the threshold of the expert's
`Log` is no motion. A policy is measured with the log of its expert, so that both are asked the same.

References
----------
Balasubramanian, Melendez-Calderon and Burdet (2012), "A robust and sensitive metric for quantifying movement
smoothness", IEEE Transactions on Biomedical Engineering 59:2126 (SPARC, and log dimensionless jerk beside it); Krejci
(1996), "Hysteresis, Convexity and Dissipation in Hyperbolic Equations" (the play operator); Gasser, Sroka and
Jennen-Steinmetz (1986), "Residual variance and residual pattern in nonlinear regression", Biometrika 73:625 (noise
from differences); Hampel (1974), "The influence curve and its role in robust estimation" (median absolute deviation).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from simile._common.sums import ExactSum
from simile._common.typing import FloatArray, IntArray, Trajectories
from simile.data.losses import difference, log_dimensionless_jerk, spectral_arc_length

HELD_FRAMES, HELD_SECONDS = 3, 0.25  # the shortest hold
CREEP = 0.1  # of the threshold, during the shortest hold: less is rest, so that noise or a filter's tail ends none
BORDER = 2  # no way to move: where a sequence begins
MOST_MOVES = 256  # whose smoothness is measured
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
TOLERANCE = 0.05  # of a step: multiples of it are no farther off, even if written with few digits


def play(actions: FloatArray, width: npt.ArrayLike, start: npt.ArrayLike | None = None) -> FloatArray:
    """Follow actions with play (backlash), y_t = min(max(y_{t-1}, a_t - w), a_t + w), along the first axis.

    A reversal moves y only once the actions have come back by 2 w, so that what is smaller is not seen. A clamp after
    a clamp is a clamp, and min and max do not round: the prefix scan has the bits of the loop over frames.

    Parameters
    ----------
    actions : (T,) or (T, k) array
    width : float or (k,) array
        The half-width w; 0 follows exactly.
    start : float or (k,) array, optional
        y before the first frame; the first action by default.

    Examples
    --------
    >>> play(np.array([0.0, 1.0, 2.0, 1.5, 0.5, 0.0]), 0.5)
    array([0. , 0.5, 1.5, 1.5, 1. , 0.5])
    """
    actions = np.asarray(actions, dtype=np.float64)
    table = actions.reshape(len(actions), -1)
    widths = np.broadcast_to(np.asarray(width, dtype=np.float64), table.shape[1:])
    begin = None if start is None else np.broadcast_to(np.asarray(start, dtype=np.float64), table.shape[1:])
    return _Joined.of([table]).play(widths, begin).reshape(table.shape[::-1]).T.reshape(actions.shape)


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def count_reversals(trajectories: Trajectories, threshold: npt.ArrayLike) -> FloatArray:
    """Count how often each action of (T, k) trajectories turns round for more than the threshold, (k,).

    >>> count_reversals([np.array([[0.0], [2.0], [1.9], [2.5], [0.0]])], 0.5)
    array([1.])
    """
    joined = _Joined.of(trajectories)
    ways = np.sign(joined.steps(joined.play(joined.widths(threshold))))
    moves = np.flatnonzero(ways)
    of = joined.sequence[moves]
    turns = (ways[moves][1:] != ways[moves][:-1]) & (of[1:] == of[:-1])
    return joined.where_finite(np.bincount(of[1:][turns] // joined.sequences, minlength=joined.k))


def rate_reversals(trajectories: Trajectories, threshold: npt.ArrayLike, rate: float | None = None) -> FloatArray:
    """Return the reversals of each action a minute, or per 1,000 frames where the rate (Hz) is unknown, (k,)."""
    return count_reversals(trajectories, threshold) / sum(map(len, trajectories)) * (60.0 * rate if rate else 1000.0)


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def share_still(trajectories: Trajectories, threshold: npt.ArrayLike, rate: float | None = None) -> FloatArray:
    """Return the share of time that each action of (T, k) trajectories rests, (k,); NaN where no time passes.

    It rests while, for 3 frames and 0.25 s at least, the play of the threshold does not move.

    >>> square = np.repeat([0.0, 1.0, 0.0, 1.0], 25)[:, np.newaxis]
    >>> share_still([square], 0.01, rate=25.0).round(2)
    array([0.97])
    """
    joined = _Joined.of(trajectories)
    holds, _ = joined.holds_and_moves(threshold, rate)
    held = np.bincount(joined.sequence[holds[:, 0]] // joined.sequences, holds[:, 1] - holds[:, 0], joined.k)
    return joined.where_finite(held) / (joined.intervals or math.nan)


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

    @property
    def threshold(self) -> float:
        """The hysteresis, full width, below which a change is no motion."""
        return max(min(2.0 * self.resolution, 0.1 * self.spread), 6.0 * self.noise, 0.01 * self.spread)


@dataclass(frozen=True)
class Motion:
    """How one action moves; times are in seconds, or in frames where the rate is unknown.

    Attributes
    ----------
    reversals : float
        A minute, or per 1,000 frames.
    still : float
        The share of time in holds.
    hold, move : float
        Median lengths of holds, and of moves: what is between holds and reversals. NaN where there is none.
    sparc, ldlj : float
        Spectral arc length and log dimensionless jerk, medians over moves; higher is smoother.
    speed, acceleration : tuple of float
        Their 50th and 95th percentiles, in the action's unit.
    """

    reversals: float
    still: float
    hold: float
    move: float
    sparc: float
    ldlj: float
    speed: tuple[float, float]
    acceleration: tuple[float, float]

    def to_dict(self) -> dict[str, float]:
        """Return all of it by name; percentiles as `speed_50`, `speed_95` and so on."""
        names = ("reversals", "still", "hold", "move", "sparc", "ldlj")
        found: dict[str, float] = {name: getattr(self, name) for name in names}
        for name in ("speed", "acceleration"):
            found |= zip((f"{name}_50", f"{name}_95"), getattr(self, name), strict=True)
        return found


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


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def measure_motion(trajectories: Trajectories, logs: Sequence[Log], rate: float | None = None) -> tuple[Motion, ...]:
    """Measure how each action of (T, k) trajectories moves, by the logs of the expert's.

    >>> sway = np.sin(2 * np.pi * np.arange(1500)[:, np.newaxis] / 50)  # for a minute, in two seconds each
    >>> (motion,) = measure_motion([sway], know_log([sway]), rate=25.0)
    >>> round(motion.reversals), motion.still, motion.move
    (60, 0.0, 1.0)
    """
    threshold = [log.threshold for log in logs]
    reversals, still = rate_reversals(trajectories, threshold, rate), share_still(trajectories, threshold, rate)
    joined = _Joined.of(trajectories)
    holds, moves = joined.holds_and_moves(threshold, rate)
    found = []
    for j, log in enumerate(logs):
        column = [a[:, [j]] for a in trajectories]
        mine = [spans[joined.sequence[spans[:, 0]] // joined.sequences == j] for spans in (holds, moves)]
        hold, move = (_median((spans[:, 1] - spans[:, 0]) / (rate or 1.0)) for spans in mine)
        some = mine[1][:: -(-len(mine[1]) // MOST_MOVES) or 1]
        paths = [joined.path(begin, end)[:, np.newaxis] for begin, end in some]
        first, second, third = log.strides
        found.append(
            Motion(
                float(reversals[j]),
                float(still[j]),
                hold,
                move,
                _median([spectral_arc_length(p[::first], rate=(rate or 1.0) / first)[0] for p in paths]),
                _median([log_dimensionless_jerk(p[::third])[0] for p in paths]),
                *(_percentiles(column, n, s, rate) for n, s in ((1, first), (2, second))),
            )
        )
    return tuple(found)


def tell_motion(
    names: Sequence[str], logs: Sequence[Log], trajectories: Trajectories, rate: float | None = None
) -> tuple[str, ...]:
    """Say in a line per action what its log is worth, and how it moves.

    >>> square = np.repeat([0.0, 1.0] * 10, 30)[:, np.newaxis]
    >>> tell_motion(["pan"], [Log(0.01, 0.03, (0.02, 0.04), 20.0)], [square], 10.0)
    ('pan: resolution 0.01, noise 0.03, still 97 % of the time, 18 reversals a minute',)
    """
    threshold = [log.threshold for log in logs]
    turns, still = rate_reversals(trajectories, threshold, rate), share_still(trajectories, threshold, rate)
    lines = []
    for name, log, reversals, rests in zip(names, logs, turns, still, strict=True):
        said = [
            f"{what} {value:.3g}" for what, value in (("resolution", log.resolution), ("noise", log.noise)) if value
        ]
        said += [] if math.isnan(rests) else [f"still {100.0 * rests:.0f} % of the time"]
        digits = ".0f" if reversals >= 10.0 else ".2g"
        said.append(f"{reversals:{digits}} reversals {'a minute' if rate else 'per 1,000 frames'}")
        lines.append(f"{name}: {', '.join(said)}")
    return tuple(lines)


def tell_noise(names: Sequence[str], logs: Sequence[Log]) -> tuple[str, ...]:
    """Say which actions were recorded with so much noise that their second differences are about it."""
    return tuple(
        f"{name} was recorded with noise of {log.noise:.2g}, {100.0 * log.noise / log.spread:.2g} % of its standard "
        f"deviation: of its mean second difference {100.0 * log.kept[1]:.2g} % is motion, and roughness is about that"
        for name, log in zip(names, logs, strict=True)
        if log.kept[1] < DOMINATED
    )


@dataclass(frozen=True, eq=False)
class _Joined:
    """All actions of all sequences behind one another: first that of all sequences, then the next."""

    values: FloatArray
    sequence: IntArray  # of each value; those of the second action count on
    first: IntArray  # where each begins
    sequences: int
    k: int

    @classmethod
    def of(cls, trajectories: Trajectories) -> _Joined:
        lengths = np.array([len(a) for a in trajectories])
        table = np.concatenate(trajectories)
        k = table.shape[1]
        each = np.tile(lengths, k)
        sequence = np.repeat(np.arange(len(each)), each)
        return cls(np.ascontiguousarray(table.T).ravel(), sequence, np.cumsum(each) - each, len(lengths), k)

    @property
    def intervals(self) -> int:
        """From frame to frame of one action."""
        return len(self.values) // self.k - self.sequences

    def widths(self, threshold: npt.ArrayLike) -> FloatArray:
        return np.broadcast_to(np.asarray(threshold, dtype=np.float64), (self.k,)) / 2.0

    def play(self, widths: FloatArray, start: FloatArray | None = None) -> FloatArray:
        """Follow with play, by a prefix scan of clamps; one whose ends have met forgets all that was before."""
        each = np.repeat(widths, len(self.values) // self.k)
        low, high = self.values - each, self.values + each
        begin = self.values[self.first] if start is None else start
        low[self.first] = high[self.first] = np.minimum(np.maximum(begin, low[self.first]), high[self.first])
        reach, open_ = 1, np.flatnonzero(low < high)
        while len(open_):
            bottom, top, before = low[open_], high[open_], open_ - reach
            low[open_], high[open_] = (np.minimum(np.maximum(x[before], bottom), top) for x in (low, high))
            reach, open_ = 2 * reach, open_[low[open_] < high[open_]]
        return low

    def steps(self, values: FloatArray) -> FloatArray:
        """Return what each frame adds to the one before; 0 at the first of a sequence."""
        steps = np.diff(values, prepend=values[:1])
        steps[self.first] = 0.0
        return steps

    def where_finite(self, found: IntArray | FloatArray) -> FloatArray:
        """Return what was found of each action, NaN where one is not finite."""
        return np.where(np.isfinite(self.values).reshape(self.k, -1).all(axis=1), found, math.nan)

    def holds_and_moves(self, threshold: npt.ArrayLike, rate: float | None) -> tuple[IntArray, IntArray]:
        """Return first and end of the frames that hold, and of those that move one way, (n, 2) each."""
        widths = self.widths(threshold)
        shortest = max(HELD_FRAMES, math.ceil(HELD_SECONDS * (rate or 0.0)))
        steps = self.steps(self.play(widths))
        travelled, slack = np.cumsum(np.abs(steps)), np.repeat(2.0 * CREEP * widths, len(steps) // self.k)[shortest:]
        still = travelled[shortest:] - travelled[:-shortest] <= slack
        still &= self.sequence[shortest:] == self.sequence[:-shortest]
        # Each still window opens after its first frame and closes after its last.
        open_ = np.zeros(len(steps) + 1, dtype=np.intp)
        open_[1 : 1 + len(still)] += still
        open_[1 + shortest : 1 + shortest + len(still)] -= still
        ways = (steps > 0.0).astype(np.int8) - (steps < 0.0).astype(np.int8)
        ways[self.first] = BORDER  # no time passes there
        # A rest that is too short for a hold belongs to the move before it.
        ways = ways[np.flatnonzero(ways)[np.cumsum(ways != 0) - 1]]
        ways[np.cumsum(open_[:-1]) > 0] = 0
        spans = _spans(ways)
        way = ways[spans[:, 0]]
        return spans[way == 0], spans[np.abs(way) == 1]

    def path(self, begin: int, end: int) -> FloatArray:
        """Return the actions of a move, with those before and after it that go the same way, below the threshold."""
        here = self.sequence[begin]
        low, high = self.first[here], self.first[here + 1] if here + 1 < len(self.first) else len(self.values)
        along = np.diff(self.values[low:high]) * np.sign(self.values[end - 1] - self.values[begin - 1]) > 0.0
        before, after = np.flatnonzero(~along[: begin - 1 - low]), np.flatnonzero(~along[end - 1 - low :])
        start = low + (before[-1] + 1 if len(before) else 0)
        return self.values[start : end + after[0] if len(after) else high]


def _spans(states: npt.NDArray[np.int8]) -> IntArray:
    """Return first and end of every run of equal states, (n, 2)."""
    edges = np.flatnonzero(np.diff(states)) + 1
    return np.column_stack([np.append(0, edges), np.append(edges, len(states))])


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


def _median(values: npt.ArrayLike) -> float:
    known = np.asarray(values)[np.isfinite(values)]
    return float(np.median(known)) if len(known) else math.nan


def _percentiles(column: Trajectories, order: int, stride: int, rate: float | None) -> tuple[float, float]:
    found = np.concatenate([np.abs(difference(a, order, stride)) for a in column])
    middle, high = np.percentile(found, (50.0, 95.0)) if len(found) else (math.nan, math.nan)
    return float(middle) * (rate or 1.0) ** order, float(high) * (rate or 1.0) ** order
