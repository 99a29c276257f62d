"""How late one signal is behind another: an expert behind what it sees, the effect of a command behind the command.

Velocities are correlated, not levels: that two signals drift alike says nothing about time. Differences make noise
loud, and so both are smoothed alike, by as little as leaves their correlation near its highest.

References
----------
Knapp and Carter (1976), "The generalized correlation method for estimation of time delay", IEEE Transactions on
Acoustics, Speech and Signal Processing 24:320; White (1980), "A heteroskedasticity-consistent covariance matrix
estimator and a direct test for heteroskedasticity", Econometrica 48:817 (the interval).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np

from simile._common import checks
from simile._common.text import escape
from simile._common.typing import FloatArray, IntArray, Trajectories
from simile.data.names import list_some
from simile.errors import ArgumentError, DataError
from simile.metrics import correlate

if TYPE_CHECKING:
    from simile.data.demonstrations import Demonstrations

LONGEST_FRAMES, LONGEST_SECONDS = 100, 4.0  # that delays are looked for, whichever is more
WIDTHS = (1, 2, 4, 8, 16, 32)  # frames to either side that velocities are smoothed over
NEAR = 0.9  # of the highest correlation over all widths: the first with so much is taken
PARTS, LEAST_PART = 24, 24  # that an interval is found from where sequences are fewer, and frames of one
LEVEL, FINEST = 0.9, 0.25  # of the interval, and frames to either side that it is never narrower than
WEAK, STRONG = 0.2, 0.6  # correlations that say nothing, and that speak for themselves if others are below its square
CHANCE = 0.001  # how often signals that have nothing to do with each other may seem to
PERIOD = 0.95  # of the highest peak: another one is another period, and the nearest counts
OPPOSED = 0.8  # of the peak: with the other sign, it cannot be told which of them is meant
FLAT = 0.75  # of all shifts, above half of the peak: nothing stands out
MOST_PAIRS = 800  # of columns that delays are told of; and, of one and of all of them...
MOST_FRAMES, MOST_WORK = 40_000, 1_000_000  # ...the frames
MOST_TOLD, ALIKE = 3, 0.7  # delays in a description, and their correlation over that of the clearest


@dataclass(frozen=True)
class Delay:
    """How late an effect is behind its cause; NaN, and not `clear`, where that cannot be told.

    Attributes
    ----------
    frames : float
        Positive where the effect is late, negative where it is ahead.
    low, high : float
        Between which it lies, for 90 of 100 such recordings.
    correlation : float
        Of the velocities at the best shift, clear or not; negative where the effect turns against its cause.
    rate : float, optional
        Frames per second.
    cause, effect : str
        What they are called.
    """

    frames: float
    low: float
    high: float
    correlation: float
    rate: float | None = None
    cause: str = "the cause"
    effect: str = "the effect"

    @property
    def clear(self) -> bool:
        """Whether it could be told."""
        return not math.isnan(self.frames)

    @property
    def seconds(self) -> float:
        """The same in seconds; NaN where the rate is unknown."""
        return self.frames / self.rate if self.rate else math.nan

    def to_dict(self) -> dict[str, Any]:
        """Return all of it by name."""
        return {**vars(self), "seconds": self.seconds, "clear": self.clear}

    def __str__(self) -> str:
        if not self.clear:
            at_most = "" if math.isnan(self.correlation) else f" (correlation {self.correlation:.2f})"
            return f"how late {self.effect} is behind {self.cause} is not clear{at_most}"
        way, frames, low, high = "behind", self.frames, self.low, self.high
        if frames < 0.0:
            way, frames, low, high = "ahead of", -frames, -high, -low
        time = f" ({frames / self.rate:.3g} s)" if self.rate else ""
        against = ", which it turns against" if self.correlation < 0.0 else ""
        return f"{self.effect} is {frames:.1f} frames{time} {way} {self.cause} [{low:.1f} to {high:.1f}]{against}"


def estimate_delay(
    cause: Any, effect: Any, *, rate: float | None = None, longest: int | None = None, either_sign: bool = False
) -> Delay:
    """Estimate how late an effect is behind its cause, such as an actuator behind its command.

    The shift at the peak of the cross-correlation of both velocities, summed over sequences. Behind a filter it is the
    shift at which most of the motion has come through. Of a repeating motion it is the shift nearest to none.

    Parameters
    ----------
    cause, effect : (T,) array, or a sequence of them
        What was recorded, of one sequence or of several; NaN marks a missing value.
    rate : float, optional
        Frames per second (Hz).
    longest : int, optional
        The longest delay that is looked for, in frames: 4 s or 100 frames by default, whichever is longer, and never
        more than a quarter of the longest sequence.
    either_sign : bool
        Whether the effect may turn against its cause, as a valve may that is closed when much flows in.

    Examples
    --------
    >>> command = np.cumsum(np.random.default_rng(0).normal(size=500))
    >>> print(estimate_delay(command[6:], command[:-6], rate=30.0))
    the effect is 6.0 frames (0.2 s) behind the cause [5.8 to 6.3]
    """
    causes, effects = _as_columns(cause, "cause"), _as_columns(effect, "effect")
    if [len(x) for x in causes] != [len(x) for x in effects]:
        raise DataError("cause and effect must have as many sequences, and as many frames in each: cut them alike")
    rate = None if rate is None else checks.rate(rate)
    most = max(map(len, causes))
    reach = max(LONGEST_FRAMES, math.ceil(LONGEST_SECONDS * (rate or 0.0)))
    reach = min(reach if longest is None else checks.whole_number(longest, "longest", at_least=1), most // 4)
    widths = [w for w in WIDTHS if 2 * w <= reach and 8 * w < most]
    tried = [_correlate(causes, effects, reach, width, either_sign=either_sign) for width in widths]
    found = [one for one in tried if one is not None]
    highest = max((one.height for one in found), default=0.0)
    best = next((one for one in found if one.height >= NEAR * highest), None)
    return replace(Delay(math.nan, math.nan, math.nan, math.nan) if best is None else best.read(), rate=rate)


def summarize_delays(demos: Demonstrations) -> tuple[Delay, ...]:
    """Estimate how late each action of an expert is behind each context, the clearest first.

    Of many frames some are looked at, and of a great many columns the first.
    """
    names = tuple(islice(product(enumerate(demos.context_names), enumerate(demos.action_names)), MOST_PAIRS))
    some = _take_some(demos, min(MOST_FRAMES, MOST_WORK // len(names)))
    found = [
        replace(
            estimate_delay([x[:, i] for x, _ in some], [a[:, j] for _, a in some], rate=demos.rate, either_sign=True),
            cause=escape(context),
            effect=escape(action),
        )
        for (i, context), (j, action) in names
    ]
    return tuple(sorted(found, key=lambda d: (not d.clear, -np.nan_to_num(abs(d.correlation)))))


def tell_delays(delays: Sequence[Delay]) -> tuple[str, ...]:
    """Say how late the expert is behind the contexts where that is clearest, and what to make of it.

    >>> tell_delays([Delay(-3.0, -3.5, -2.5, 0.7, None, "mean_7d", "valve")])[0]
    'valve is 3.0 frames ahead of mean_7d [2.5 to 3.5]: that is foreseen, comes late as a mean does, or follows from it'
    """
    foreseen = ": that is foreseen, comes late as a mean does, or follows from it"
    told = [one for one in delays if one.clear and abs(one.correlation) >= ALIKE * abs(delays[0].correlation)]
    clear = [f"{one}{foreseen if one.high < 0.0 else ''}" for one in told]
    return tuple(clear[:MOST_TOLD]) or ("how late the expert is behind its contexts is not clear",)


@dataclass(frozen=True)
class SuggestedLead:
    """By how much a policy should be ahead of its actuator, with what that is from.

    Attributes
    ----------
    frames : int
        Rounded; the middle one where several actuators differ.
    delays : tuple of Delay
        Of the effect of each action that one was named for.
    """

    frames: int
    delays: tuple[Delay, ...]

    @property
    def seconds(self) -> float:
        """The same in seconds; NaN where the rate is unknown."""
        return self.frames / (self.delays[0].rate or math.nan)

    def __str__(self) -> str:
        each = sorted(self.delays, key=lambda d: d.frames)
        time = "" if math.isnan(self.seconds) else f" ({self.seconds:.3g} s)"
        said = f"a lead of {self.frames} frames{time}: {each[0]}"
        if each[-1].frames - each[0].frames <= 1.0:
            return said
        return f"{said}, but {each[-1]}: one lead does not fit both, and actions that are learned apart have one each"


def suggest_lead(demos: Demonstrations, effect: str | Sequence[str] | Trajectories) -> SuggestedLead:
    """Suggest how far ahead a policy should aim: by how late the effects of its actions are.

    Parameters
    ----------
    demos : Demonstrations
        With the actions, which are the commands.
    effect : str, sequence of str, or sequence of (T,) or (T, j) arrays
        What the first action brought about, or each of the first j: columns among the contexts, or as recorded.

    Raises
    ------
    DataError
        Where it is not clear how late an effect is, or where it comes before its command.
    """
    named = (effect,) if isinstance(effect, str) else tuple(effect)
    if all(isinstance(name, str) for name in named):
        names = tuple(map(str, named))
        if unknown := [name for name in names if name not in demos.context_names]:
            raise ArgumentError(f"effect: {unknown[0]!r} is no context; there are {list_some(demos.context_names)}")
        numbers = [demos.context_names.index(name) for name in names]
        effects = [x[:, numbers] for x in demos.contexts]
    else:
        effects = [checks.table(x, "effect", allow_nan=True) for x in named]
        names = tuple(f"the effect of {name}" for name in demos.action_names[: effects[0].shape[1]])
    if not 0 < len(names) <= demos.n_actions or {x.shape[1] for x in effects} != {len(names)}:
        raise ArgumentError(f"effect must be one for each of the first actions, at most {demos.n_actions}")
    found = []
    for j, (name, action) in enumerate(zip(names, demos.action_names, strict=False)):
        delay = estimate_delay([a[:, j] for a in demos.actions], [x[:, j] for x in effects], rate=demos.rate)
        found.append(replace(delay, cause=escape(action), effect=escape(name)))
        if not delay.clear or delay.high < 0.0:
            why = "an effect cannot come before its command" if delay.clear else "give lead= in seconds or frames"
            raise DataError(f"lead: {found[-1]}: {why}, or name another effect")
    return SuggestedLead(max(0, round(statistics.median(d.frames for d in found))), tuple(found))


@dataclass(frozen=True, eq=False)
class _Correlation:
    """Cross-correlation at every shift, (n,), and where it is highest.

    Of each part, (parts, n): its share in the products, and by how much it lifts the correlation, whose powers it is a
    share of, too.
    """

    shifts: IntArray
    whole: FloatArray
    parts: FloatArray
    lifts: FloatArray
    sign: float

    @cached_property
    def peak(self) -> tuple[int, int, int]:
        """Where the highest peak is, and where what is above half of it begins and ends."""
        known = np.nan_to_num(self.whole, nan=-1.0)
        edges = np.flatnonzero(np.diff((known > 0.5 * known.max()).astype(np.int8), prepend=0, append=0))
        humps = [(low + int(known[low:end].argmax()), low, end) for low, end in edges.reshape(-1, 2).tolist()]
        # Periods of a repeating motion fit equally well but for noise.
        high = [one for one in humps if known[one[0]] >= PERIOD * known.max()]
        return min(high, key=lambda one: abs(int(self.shifts[one[0]])))

    @property
    def height(self) -> float:
        return float(self.whole[self.peak[0]])

    def read(self) -> Delay:
        """Read the delay off the peak, if it is one."""
        from scipy.special import stdtrit

        _, low, end = self.peak
        frames, deviation = (self._refine() if self._stands_out() else None) or (math.nan, math.nan)
        half = max(FINEST, float(stdtrit(len(self.parts) - 1, 0.5 + 0.5 * LEVEL)) * deviation)
        if not half < max(1.0, 0.25 * (end - low)):  # the top of a hump that scatters over it is nowhere
            frames = math.nan
        return Delay(frames, frames - half, frames + half, self.sign * self.height)

    def _refine(self) -> tuple[float, float] | None:
        """Return the top of a parabola around the peak, between frames, and its deviation; None where there is none.

        The top is where the slope is zero, and each part has a slope of its own there: how these scatter, over the
        bend, is how the top does.
        """
        at, low, end = self.peak
        span = max(1, round((end - low) / 8))
        about = np.arange(-span, span + 1.0)
        curved = about**2 - np.mean(about**2)
        for _ in range(8):
            around = slice(max(at - span, 0), at + span + 1)
            rows = np.vstack([self.whole[around], self.lifts[:, around]])
            if rows.shape[1] < len(about) or np.isnan(rows).any():
                return None
            slopes, bends = rows @ about / (about @ about), 2.0 * (rows @ curved) / (curved @ curved)
            if bends[0] >= 0.0:
                return None
            off = -float(slopes[0] / bends[0])
            if abs(off) <= 1.0:
                scatter = math.sqrt(float(np.sum((slopes + off * bends)[1:] ** 2)))
                return float(self.shifts[at]) + off, scatter / -float(bends[0])
            at += int(np.clip(round(off), -span, span))
        return None

    def _stands_out(self) -> bool:
        """Whether the peak is higher than chance would have it: over parts, or over all other shifts."""
        from scipy.special import stdtr

        at, low, end = self.peak
        n, shares = len(self.parts), self.parts[:, at]
        if n < 2 or self.height < WEAK or end - low > FLAT * len(self.whole):
            return False
        scatter = math.sqrt(n * float(np.sum((shares - shares.mean()) ** 2)) / (n - 1.0))
        ratio = self.height / scatter if scatter > 0.0 else math.inf
        others = np.nan_to_num(np.abs(self.whole[np.abs(np.arange(len(self.whole)) - at) > end - low]))
        alone = self.height >= STRONG and ratio > 1.5 and len(others) > 0 and others.max() < self.height**2
        return bool(alone or 2.0 * stdtr(n - 1, -ratio) * len(self.whole) / (end - low) < CHANCE)


def _correlate(
    causes: list[FloatArray], effects: list[FloatArray], reach: int, width: int, *, either_sign: bool
) -> _Correlation | None:
    """Correlate smoothed velocities at all shifts as far as reach; None where nothing moves, or not together."""
    shifts = np.arange(-reach, reach + 1)
    sums = np.array(list(_sum_parts([_move(x, width) for x in causes], [_move(x, width) for x in effects], shifts)))
    if not len(sums):
        return None
    total = sums.sum(axis=0)
    whole = correlate(total)
    highest, lowest = (np.nanmax(whole), np.nanmin(whole)) if not np.isnan(whole).all() else (0.0, 0.0)
    sign = -1.0 if either_sign and -lowest > highest else 1.0
    height, other = max(sign * highest, sign * lowest), max(-sign * highest, -sign * lowest)
    if height <= 0.0 or (either_sign and other > OPPOSED * height):
        return None
    whole *= sign
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = sign * sums[:, 0] / np.sqrt(total[1] * total[2])
        shares = 0.5 * (sums[:, 1] / total[1] + sums[:, 2] / total[2])
        lifts = (parts - whole * shares) / (1.0 - shares)  # as if each were left out in turn
    return _Correlation(shifts, whole, parts, lifts, sign)


def _move(values: FloatArray, width: int) -> FloatArray:
    """Return the velocity, smoothed over frames to either side; 0 where a value is missing."""
    if len(values) <= 2 * width + 1 or np.isnan(values).all():
        return np.empty(0)
    window = np.hanning(2 * width + 3)[1:-1]
    return np.convolve(np.nan_to_num(np.diff(values)), window / window.sum(), "valid")


def _sum_parts(causes: list[FloatArray], effects: list[FloatArray], shifts: IntArray) -> Iterator[FloatArray]:
    """Yield products and squares at each shift, (3, n), of each sequence, or of parts of it where there are few."""
    frames = sum(map(len, causes))
    for cause, effect in zip(causes, effects, strict=True):
        if 0 < len(cause) == len(effect):
            n = 1 if len(causes) >= PARTS else max(1, round(len(cause) / max(frames / PARTS, LEAST_PART)))
            cuts = np.linspace(0, len(cause), n + 1).astype(np.intp).tolist()
            yield from (_sum_part(cause, effect, *some, shifts) for some in pairwise(cuts))


def _sum_part(cause: FloatArray, effect: FloatArray, begin: int, end: int, shifts: IntArray) -> FloatArray:
    """Sum products of cause[t] and effect[t + shift], and the squares of each, over a part of the cause's frames."""
    from scipy.fft import irfft, next_fast_len, rfft

    n, reach = len(cause), int(shifts[-1])
    first, last = max(begin - reach, 0), min(end + reach, n)
    size = next_fast_len(last - first + max(end - begin, reach), real=True)  # long enough not to wrap around
    products = irfft(rfft(effect[first:last], size) * np.conj(rfft(cause[begin:end], size)), size)
    edges = [np.clip(edge, np.clip(-shifts, 0, n), np.clip(n - shifts, 0, n)) for edge in (begin, end)]
    power = [
        np.subtract(*(squares[np.clip(edge + by, 0, n) - first] for edge in edges[::-1]))
        for squares, by in (
            (np.append(0.0, np.cumsum(x[first:last] ** 2)), by) for x, by in ((effect, shifts), (cause, 0))
        )
    ]
    return np.array([products[(shifts + begin - first) % size], *power])


def _as_columns(values: Any, name: str) -> list[FloatArray]:
    """Return one (T,) array per sequence without the drift of all, of a size that squares neither overflow nor vanish.

    The drift of each would be the wrong one to take off: what a short sequence moves by is no drift.
    """
    several = not isinstance(values, np.ndarray) and np.ndim(next(iter(values), 0.0)) > 0
    tables = [checks.table(x, name, allow_nan=True) for x in (values if several else [values])]
    if any(x.shape[1] > 1 for x in tables):
        raise DataError(f"{name} must be one column of each sequence; got shape {tables[0].shape}: choose one")
    largest = max((float(np.nanmax(np.abs(x), initial=0.0)) for x in tables), default=0.0)
    columns = [x[:, 0] / (largest or 1.0) for x in tables]
    steps = np.concatenate([np.diff(x) for x in columns])
    drift = float(np.mean(steps, where=known)) if (known := ~np.isnan(steps)).any() else 0.0
    return [x - drift * np.arange(len(x)) for x in columns]


def _take_some(demos: Demonstrations, frames: int) -> list[tuple[FloatArray, FloatArray]]:
    """Return contexts and actions of about so many frames: of sequences from all over the recordings, or of a few."""
    step = max(1, -(-demos.n_frames // frames))
    some = [(d.contexts[d.counted], d.actions[d.counted]) for d in demos.items[:: min(step, -(-len(demos) // PARTS))]]
    each = max(4 * LEAST_PART, frames // len(some))
    return [(x[:each], a[:each]) for x, a in some]
