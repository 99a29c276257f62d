"""Every number that is told of actions, and its only home: arrays in, numbers out.

First the metrics of one recording: of the (T, k) actions of a sequence they return (k,) values, one per action; NaN
says that there is nothing to measure. Then those of several recordings, `Sums` and `Tally`: what a policy and its
expert did in each, added up, so that one definition serves a single recording, all of them together, and the interval
over recordings (`estimate`). No metric crosses from one recording to the next. What diverged is measured, not refused:
numbers beyond float64 come out as inf or NaN, without warnings.

Errors are mean squared ones (Section 2 and Eq. 8) or their roots. Roughness is the mean absolute second difference over
the expert's: of the expert's motion, without the noise of the log (`simile.data.logs`). Reversals and rest tell a hand
that moves and holds from one that creeps, and look through noise by hysteresis: less than a threshold is no motion.

References
----------
Krejci (1996), "Hysteresis, Convexity and Dissipation in Hyperbolic Equations" (the play operator); Efron (1982), "The
Jackknife, the Bootstrap and Other Resampling Plans" (intervals).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from simile._common import checks
from simile._common.typing import BoolArray, FloatArray, IntArray, Trajectories
from simile.errors import DataError

LONGEST_LAG = 100  # frames
ENOUGH = 0.1  # share of the largest power: parts in which less happens agree by accident, as two rests do
HELD_FRAMES, HELD_SECONDS = 3, 0.25  # the shortest rest
CREEP = 0.1  # of the threshold, during the shortest rest: less is rest, so that noise or a filter's tail ends none
FEWEST = 6  # recordings, or groups of them, from which on an interval is told
LEVEL = 0.95  # of intervals

# Errors of one recording


@np.errstate(over="ignore", invalid="ignore")
def mean_squared_error(rolled: FloatArray, expert: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Mean of (rolled - expert)^2 over the (T, k) frames, or weighted mean: the loss of Section 2 and of Eq. 8.

    >>> mean_squared_error(np.array([[0.0], [2.0]]), np.array([[1.0], [5.0]]))
    array([5.])
    """
    rolled, expert = _pair(rolled, expert)
    return _mean((rolled - expert) ** 2, weights)


def root_mean_squared_error(rolled: FloatArray, expert: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Root of `mean_squared_error`, in the units of the (T, k) actions.

    >>> root_mean_squared_error(np.array([[0.0], [2.0]]), np.array([[3.0], [5.0]]))
    array([3.])
    """
    return np.sqrt(mean_squared_error(rolled, expert, weights))


def hold_last_action(expert: FloatArray, *, warm_up: int) -> FloatArray:
    """Copy the (T, k) expert for `warm_up` frames (at least one), then hold the last of them.

    The baseline every policy must beat: policies that copy their own last action come close to it.

    >>> hold_last_action(np.array([[1.0], [2.0], [3.0], [4.0]]), warm_up=2).ravel()
    array([1., 2., 2., 2.])
    """
    held = _as_table(expert, "expert").copy()
    last = max(checks.whole_number(warm_up, "warm_up"), 1) - 1
    held[last:] = held[last : last + 1]
    return held


# Smoothness of one recording


def difference(actions: FloatArray, order: int, stride: int = 1) -> FloatArray:
    """Return the differences of (T, k) actions between frames that are `stride` apart, per step, of the given order.

    >>> difference(np.array([[0.0], [1.0], [4.0], [9.0], [16.0]]), order=2, stride=2)
    array([[2.]])
    """
    for _ in range(order):
        actions = actions[stride:] - actions[: max(len(actions) - stride, 0)]
    return actions / float(stride**order) if stride > 1 else actions


@np.errstate(over="ignore", invalid="ignore")
def mean_difference(actions: FloatArray, *, order: int = 1, rate: float | None = None) -> FloatArray:
    """Mean absolute difference of the given order of (T, k) actions; NaN where T <= order.

    Order 1 is the smoothness loss of the paper's experiments (Section 6). Values are per step, or per
    second (to the power of `order`) where `rate`, in Hz, is given.

    >>> mean_difference(np.array([[0.0], [1.0], [4.0]]))
    array([2.])
    >>> mean_difference(np.array([[0.0], [1.0], [4.0]]), order=2, rate=10.0)
    array([200.])
    """
    actions = _as_table(actions, "actions")
    order = checks.whole_number(order, "order", at_least=1)
    rate = 1.0 if rate is None else checks.number(rate, "rate", above=0.0)
    return _mean(np.abs(difference(actions, order))) * rate**order


# Lag


def lag(rolled: FloatArray, expert: FloatArray) -> FloatArray:
    """Frames by which (T, k) `rolled` is late with respect to `expert`, (k,); negative where it is early.

    The shift at the peak of the normalised cross-correlation of the mean-removed actions, refined by a parabola through
    the peak and its neighbours; the smallest shift where several fit as well. No shift is longer than T // 4 or 100
    frames. NaN where either is constant or T < 4.

    >>> time = np.arange(200.0)[:, np.newaxis]
    >>> lag(np.sin(0.1 * (time - 2.5)), np.sin(0.1 * time)).round(1)
    array([2.5])
    """
    rolled, expert = _pair(rolled, expert)
    scale = np.maximum(np.abs(expert).max(axis=0), np.finfo(np.float64).tiny)
    return np.array([find_lag(sums) for sums in sum_products(rolled, expert, scale)])


@np.errstate(over="ignore", invalid="ignore")
def sum_products(rolled: FloatArray, expert: FloatArray, scale: npt.ArrayLike) -> FloatArray:
    """Return what two (T, k) trajectories have in common at every shift up to `LONGEST_LAG`, (k, 3, shifts).

    These are the products of rolled[t + shift] and expert[t] about their means, and the squares of each, summed over
    the frames that overlap; 0 where one is constant or not finite, and at shifts of more than a quarter of the
    frames. Sums of several recordings may be added.
    """
    sums = np.zeros((expert.shape[1], 3, 2 * LONGEST_LAG + 1))
    longest = min(len(expert) // 4, LONGEST_LAG)
    if longest < 1:
        return sums
    shifts = np.arange(-longest, longest + 1)
    for j, (ours, theirs) in enumerate(
        zip((rolled / np.asarray(scale)).T, (expert / np.asarray(scale)).T, strict=True)
    ):
        if np.isfinite(ours).all() and np.ptp(ours) > 0.0 and np.ptp(theirs) > 0.0:
            found = _shift(ours - ours.mean(), theirs - theirs.mean(), shifts)
            if np.isfinite(found).all():
                sums[j][:, LONGEST_LAG + shifts] = found
    return sums


def find_lag(sums: FloatArray) -> float:
    """Return the shift at which two signals are most alike, between frames, from `sum_products` (3, shifts)."""
    return find_peak(correlate(sums), np.arange(-LONGEST_LAG, LONGEST_LAG + 1))


def _shift(rolled: FloatArray, expert: FloatArray, shifts: IntArray) -> FloatArray:
    from scipy.fft import irfft, next_fast_len, rfft

    n = next_fast_len(len(expert) + int(shifts[-1]), real=True)  # long enough not to wrap around
    products = irfft(rfft(rolled, n) * np.conj(rfft(expert, n)), n)[shifts]
    overlap = len(expert) - np.abs(shifts)
    heads, tails = ([np.cumsum(x[::way] ** 2)[overlap - 1] for x in (rolled, expert)] for way in (1, -1))
    late = shifts >= 0
    return np.stack([products, np.where(late, tails[0], heads[0]), np.where(late, heads[1], tails[1])])


def correlate(sums: FloatArray) -> FloatArray:
    """Return the correlation at every shift, given the sums (3, shifts); NaN where too little happens.

    Each product is divided by the power of the two overlapping parts, not of the whole: only then is a sequence
    compared with itself never late (Cauchy-Schwarz).
    """
    products, power = sums[0], sums[1:]
    enough = (power > np.maximum(ENOUGH * power.max(axis=1, keepdims=True), 0.0)).all(axis=0)
    correlation = np.full(len(products), math.nan)
    correlation[enough] = products[enough] / np.sqrt(power[0, enough] * power[1, enough])
    return correlation


def find_peak(correlation: FloatArray, shifts: IntArray) -> float:
    """Return the shift of the peak nearest to zero, refined by a parabola through its neighbours; NaN for none."""
    if np.isnan(correlation).all():
        return math.nan
    known = np.where(np.isnan(correlation), -1.0, correlation)
    around = np.pad(known, 1, constant_values=-1.0)
    # Periods of a repeating motion fit equally well but for rounding.
    peaks = (known >= np.maximum(around[:-2], around[2:])) & (known >= known.max() - 1e-9)
    at = int(np.flatnonzero(peaks)[np.abs(shifts[peaks]).argmin()])
    before, here, after = (float(c) for c in np.pad(correlation, 1, constant_values=math.nan)[at : at + 3])
    bend = before - 2.0 * here + after  # NaN at the longest shift
    return float(shifts[at]) + (0.5 * (before - after) / bend if bend < 0.0 else 0.0)


# Reversals and rest


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
    """Count how often each action of n (T, k) trajectories turns round for more than the threshold, (n, k).

    >>> count_reversals([np.array([[0.0], [2.0], [1.9], [2.5], [0.0]])], 0.5)
    array([[1.]])
    """
    if not any(map(len, trajectories)):
        return np.zeros((len(trajectories), trajectories[0].shape[1] if trajectories else 0))
    joined = _Joined.of(trajectories)
    ways = np.sign(joined.steps(joined.play(joined.widths(threshold))))
    moves = np.flatnonzero(ways)
    of = joined.sequence[moves]
    turns = (ways[moves][1:] != ways[moves][:-1]) & (of[1:] == of[:-1])
    return joined.by_recording(np.bincount(of[1:][turns], minlength=joined.sequences * joined.k))


def reversals_unit(rate: float | None) -> float:
    """Return how many frames reversals are counted by: those of a minute, or 1,000 where the rate is unknown."""
    return 60.0 * rate if rate else 1000.0


def rate_reversals(trajectories: Trajectories, threshold: npt.ArrayLike, rate: float | None = None) -> FloatArray:
    """Return the reversals of each action a minute, or per 1,000 frames where the rate (Hz) is unknown, (k,)."""
    counts = count_reversals(trajectories, threshold).sum(axis=0)
    return np.asarray(counts * reversals_unit(rate) / sum(map(len, trajectories)))


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def count_rests(trajectories: Trajectories, threshold: npt.ArrayLike, rate: float | None = None) -> FloatArray:
    """Count the frames in which each action of n (T, k) trajectories rests, (n, k); see `share_rest`."""
    if not any(map(len, trajectories)):
        return np.zeros((len(trajectories), trajectories[0].shape[1] if trajectories else 0))
    joined = _Joined.of(trajectories)
    rests = joined.sequence[joined.at_rest(threshold, rate)]
    return joined.by_recording(np.bincount(rests, minlength=joined.sequences * joined.k))


def share_rest(trajectories: Trajectories, threshold: npt.ArrayLike, rate: float | None = None) -> FloatArray:
    """Return the share of time that each action of (T, k) trajectories rests, (k,); NaN where no time passes.

    It rests while, for 3 frames and 0.25 s at least, the play of the threshold does not move.

    >>> square = np.repeat([0.0, 1.0, 0.0, 1.0], 25)[:, np.newaxis]
    >>> share_rest([square], 0.01, rate=25.0).round(2)
    array([0.97])
    """
    passed = sum(map(len, trajectories)) - len(trajectories) or math.nan
    return np.asarray(count_rests(trajectories, threshold, rate).sum(axis=0) / passed)


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def find_holds(actions: FloatArray, threshold: npt.ArrayLike, rate: float | None = None) -> list[IntArray]:
    """Return first and last frame of every hold, (n, 2), of each action of (T, k) actions; see `share_rest`.

    What is not finite has none.

    >>> find_holds(np.array([[0.0], [0.0], [0.0], [0.0], [1.0], [2.0], [3.0]]), 0.01)[0].tolist()
    [[0, 3]]
    """
    found = []
    for column, width in zip(actions.T, np.broadcast_to(threshold, actions.shape[1:]), strict=True):
        holds = np.empty((0, 2), dtype=np.intp)
        if len(column) and np.isfinite(column).all():
            rests = _Joined.of([column[:, np.newaxis]]).at_rest(width, rate).astype(np.int8)
            edges = np.flatnonzero(np.diff(rests, prepend=np.int8(0), append=np.int8(0)))
            holds = edges.reshape(-1, 2) - 1  # a frame that holds is as the one before it
        found.append(holds)
    return found


# Several recordings together


@dataclass(frozen=True)
class Score:
    """How accurate and how smooth roll-outs are.

    Attributes
    ----------
    error : float
        Mean squared error in standard units; infinite where a roll-out diverged, NaN where no frame counts.
    roughness : float
        Mean absolute difference over the expert's, the mean over the actions; NaN where the expert never moves.
    """

    error: float
    roughness: float

    @property
    def rmse(self) -> float:
        """The root of the error: in standard deviations of the expert's actions that the policy was trained on."""
        return math.sqrt(self.error)

    @property
    def diverged(self) -> bool:
        """Whether the policy left every reasonable range."""
        return math.isinf(self.error)


@dataclass(frozen=True, eq=False)
class Sums:
    """What errors and roughness are made of, summed over each of n recordings: (n, k) arrays; `+` adds recordings."""

    weights: FloatArray  # of the frames that count, or how many these are
    squares: FloatArray  # of the errors in standard units, times the weights
    bends: FloatArray  # absolute differences of the roll-out
    expert_bends: FloatArray  # those of the expert's motion
    sizes: FloatArray  # absolute actions of the expert

    def __add__(self, other: Self) -> Self:
        return self._each(lambda name: np.concatenate([getattr(self, name), getattr(other, name)]))

    def __getitem__(self, rows: Any) -> Self:
        return self._each(lambda name: getattr(self, name)[rows])

    def __len__(self) -> int:
        return len(self.weights)

    def _each(self, make: Callable[[str], FloatArray]) -> Self:
        return type(self)(*(make(field.name) for field in fields(self)))

    def grouped(self, groups: IntArray) -> Self:
        """Add up the recordings of each group, by its number; groups of which no frame counts are left out."""

        def add_up(name: str) -> FloatArray:
            values = getattr(self, name)
            found = np.zeros((int(groups.max()) + 1, *values.shape[1:]))
            np.add.at(found, groups, values)
            return found

        added = self._each(add_up)
        return added[added.weights.any(axis=1)]

    @property
    def score(self) -> Score:
        """Error and roughness of all recordings; where something diverged the expert acts, as rough as it is."""
        total = self.squares.sum()
        error = float(total / self.weights.sum()) if self.weights.any() else math.nan
        bends = self.expert_bends if math.isinf(error) else self.bends
        return Score(error, mean_roughness(bends.sum(axis=0), self.expert_bends.sum(axis=0), self.sizes.sum(axis=0)))

    def rmse(self, scale: npt.ArrayLike) -> FloatArray:
        """Return the root mean squared error of each action, (k,), in the user's units."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.sqrt(self.squares.sum(axis=0) / self.weights.sum(axis=0)) * scale)


def compare_bends(bends: FloatArray, expert: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return the ratio of the differences of each action, (k,); NaN where the expert never moves.

    What rounding alone leaves of a straight line is no roughness to compare with.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return np.where(expert > 1e-12 * sizes, bends / expert, math.nan)


def mean_roughness(bends: FloatArray, expert: FloatArray, sizes: FloatArray) -> float:
    """Return the mean of `compare_bends` over the actions in which the expert moves; NaN where there are none."""
    moving = expert > 1e-12 * sizes
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.mean(bends[moving] / expert[moving])) if moving.any() else math.nan


@dataclass(frozen=True, eq=False)
class Tally(Sums):
    """All that is told of roll-outs: `Sums`, and how often both turn, how long both rest, and how alike they are."""

    frames: FloatArray  # that count
    steps: FloatArray  # from one of these to the next
    turns: FloatArray
    expert_turns: FloatArray
    rests: FloatArray  # steps at rest
    expert_rests: FloatArray
    products: FloatArray  # (n, k, 3, shifts), of `sum_products`

    def turn_rates(self, rate: float | None) -> FloatArray:
        """Return the reversals of policy and expert, (2, k), a minute, or per 1,000 frames without a rate."""
        turns = np.array([self.turns, self.expert_turns]).sum(axis=1)
        return _divide(turns * reversals_unit(rate), self.frames.sum(axis=0))

    @property
    def rest_shares(self) -> FloatArray:
        """The shares of time that policy and expert rest, (2, k)."""
        return _divide(np.array([self.rests, self.expert_rests]).sum(axis=1), self.steps.sum(axis=0))

    @property
    def roughness(self) -> FloatArray:
        """The roughness of each action over the expert's, (k,)."""
        return compare_bends(*(some.sum(axis=0) for some in (self.bends, self.expert_bends, self.sizes)))

    @property
    def lags(self) -> FloatArray:
        """How many frames late each action is, (k,); NaN where nothing moves."""
        return np.array([find_lag(sums) for sums in self.products.sum(axis=0)])

    @property
    def lag(self) -> float:
        """How many frames late the policy is, the mean over its actions; NaN where nothing moves."""
        return mean_lag(self.products.sum(axis=0))

    def between(self, other: Tally, share: float) -> Tally:
        """Interpolate: 0 is this, 1 the other; errors and roughness on log scales, where paths bend least."""

        def mix(name: str) -> FloatArray:
            ours, theirs = getattr(self, name), getattr(other, name)
            if name in ("squares", "bends"):
                return np.asarray(ours ** (1.0 - share) * theirs**share)
            return np.asarray((1.0 - share) * ours + share * theirs)

        return self._each(mix)


def _divide(values: FloatArray, by: FloatArray) -> FloatArray:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(values / by)


def mean_lag(products: FloatArray) -> float:
    """Return the mean lag of all actions, in frames, from `sum_products` (k, 3, shifts); NaN where there is none."""
    lags = np.array([find_lag(sums) for sums in products])
    return math.nan if np.isnan(lags).all() else float(np.nanmean(lags))


@dataclass(frozen=True)
class Estimate:
    """A number, and the interval in which it lies for 95 of 100 such sets of recordings; NaN of fewer than six."""

    value: float
    low: float = math.nan
    high: float = math.nan

    @property
    def is_sure(self) -> bool:
        """Whether there is an interval."""
        return not math.isnan(self.low)

    def holds(self, value: float) -> bool:
        """Tell whether a value is in the interval."""
        return self.low <= value <= self.high


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def estimate(function: Callable[..., float], *rows: FloatArray, positive: bool = False) -> Estimate:
    """Compute a number from the sums of recordings, with its interval by the jackknife.

    Each recording is left out in turn; how the number changes tells how much it would with other recordings, by
    Student's t. Of fewer than six recordings there is no interval, nor where one alone decides whether the number
    exists.

    Parameters
    ----------
    function : callable
        The number, of the sums of `rows` over all recordings.
    rows : arrays
        What was summed over each recording, (n, ...) each.
    positive : bool
        Whether it is a ratio: then its logarithm is what spreads evenly.

    Examples
    --------
    >>> ours, theirs = np.array([1.0, 2.0, 3.0, 2.0, 1.0, 3.0]), np.array([2.0, 3.0, 7.0, 4.0, 2.0, 5.0])
    >>> found = estimate(lambda a, b: float(a / b), ours, theirs, positive=True)
    >>> round(found.value, 2), round(found.low, 2), round(found.high, 2)
    (0.52, 0.42, 0.65)
    """
    from scipy.special import stdtrit

    totals, n = [some.sum(axis=0) for some in rows], len(rows[0])
    value = function(*totals)
    if n < FEWEST or not math.isfinite(value) or (positive and value <= 0.0):
        return Estimate(value)
    others = np.array([function(*(t - some[i] for t, some in zip(totals, rows, strict=True))) for i in range(n)])
    if positive:
        others = np.log(others)
    spread = np.sqrt((n - 1) / n * ((others - others.mean()) ** 2).sum())
    half = float(stdtrit(n - 1, 0.5 + LEVEL / 2.0) * spread)
    low, high = value * np.exp((-half, half)) if positive else (value - half, value + half)
    return Estimate(value, float(low), float(high)) if math.isfinite(half) else Estimate(value)


# What the above is made of


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
        sequence, first = np.repeat(np.arange(len(each)), each), (np.cumsum(each) - each)[each > 0]
        return cls(np.ascontiguousarray(table.T).ravel(), sequence, first, len(lengths), k)

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

    def by_recording(self, found: IntArray | FloatArray) -> FloatArray:
        """Return what was found of each recording and action, (n, k); NaN where a value is not finite."""
        known = np.bincount(self.sequence[~np.isfinite(self.values)], minlength=len(found)) == 0
        return np.where(known, found, math.nan).reshape(self.k, self.sequences).T

    def at_rest(self, threshold: npt.ArrayLike, rate: float | None) -> BoolArray:
        """Tell of each frame whether it is as the one before it, for as long as a rest takes."""
        widths = self.widths(threshold)
        shortest = max(HELD_FRAMES, math.ceil(HELD_SECONDS * (rate or 0.0)))
        steps = self.steps(self.play(widths))
        # Summed in each sequence alone: a large one would hide what others do, one that diverged all of it.
        travelled = np.concatenate([np.cumsum(np.abs(part)) for part in np.split(steps, self.first[1:])])
        slack = np.repeat(2.0 * CREEP * widths, len(steps) // self.k)[shortest:]
        still = travelled[shortest:] - travelled[:-shortest] <= slack
        still &= self.sequence[shortest:] == self.sequence[:-shortest]
        # Each still window opens after its first frame and closes after its last.
        open_ = np.zeros(len(steps) + 1, dtype=np.intp)
        open_[1 : 1 + len(still)] += still
        open_[1 + shortest : 1 + shortest + len(still)] -= still
        return np.asarray(np.cumsum(open_[:-1]) > 0)


def _as_table(actions: FloatArray, name: str) -> FloatArray:
    actions = np.asarray(actions, dtype=np.float64)
    if actions.ndim != 2 or len(actions) == 0:
        raise DataError(f"{name} must have shape (T, k) with T >= 1; got {actions.shape}")
    return actions


def _pair(rolled: FloatArray, expert: FloatArray) -> tuple[FloatArray, FloatArray]:
    rolled, expert = _as_table(rolled, "rolled"), _as_table(expert, "expert")
    if rolled.shape != expert.shape:
        raise DataError(
            f"rolled and expert must have the same shape; got {rolled.shape} and {expert.shape}: "
            f"compare a roll-out with the demonstration it was rolled out on"
        )
    return rolled, expert


def _mean(values: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    if weights is not None:
        total = weights.sum(axis=0)
        return np.asarray((weights * values).sum(axis=0) / np.where(total > 0.0, total, np.nan))
    mean: FloatArray = values.mean(axis=0) if len(values) else np.full(values.shape[1], np.nan)
    return mean
