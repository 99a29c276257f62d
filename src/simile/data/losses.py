"""Every error and smoothness metric, in one place; no metric crosses from one sequence to the next.

Each function takes the (T, k) actions of one sequence and returns (k,) values, one per action dimension;
NaN says that there is nothing to measure. A diverged roll-out is measured, not refused: numbers beyond
float64 come out as inf or NaN, without warnings. The metrics disagree with one another, so report several,
with the expert's beside the policy's, and always with `lag`: smooth but late is not good.

What is learned by is a `Loss`: l of Section 2, `Squared()` unless another is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray
from simile.data.cross_correlation import correlate, find_peak, shifted_sums
from simile.errors import DataError


@runtime_checkable
class Loss(Protocol):
    """l of Section 2, convex and even, of residuals in robust standard deviations (median absolute deviations)."""

    def __call__(self, residuals: FloatArray) -> FloatArray:
        """Return the loss of each residual."""

    def weigh(self, residuals: FloatArray) -> FloatArray:
        """Return l'(r) / 2r of each residual r: how much it counts in the least squares that go downhill on l."""


@dataclass(frozen=True)
class Squared:
    """l(r) = r^2: what the paper's experiments use, and the most accurate where no frame is wrong."""

    def __call__(self, residuals: FloatArray) -> FloatArray:
        """Return r^2."""
        return residuals**2

    def weigh(self, residuals: FloatArray) -> FloatArray:
        """Return 1: all count alike."""
        return np.ones_like(residuals)


@dataclass(frozen=True)
class Absolute:
    """l(r) = |r|, quadratic below `smoothing`, without which a frame that fits would count without bounds.

    >>> Absolute(smoothing=0.5)(np.array([0.0, 0.5, 3.0]))
    array([0.25, 0.5 , 3.  ])
    """

    smoothing: float = 0.5

    def __post_init__(self) -> None:
        checks.number(self.smoothing, "smoothing", above=0.0)

    def __call__(self, residuals: FloatArray) -> FloatArray:
        """Return |r|, or where that is small the parabola that touches it."""
        size = np.abs(residuals)
        return np.where(size < self.smoothing, residuals**2 / (2.0 * self.smoothing) + self.smoothing / 2.0, size)

    def weigh(self, residuals: FloatArray) -> FloatArray:
        """Return 1 / 2|r|."""
        return 0.5 / np.maximum(np.abs(residuals), self.smoothing)


@dataclass(frozen=True)
class Huber:
    """l(r) = r^2 up to `delta`, and straight on from there: an outlier pulls no harder than a residual of delta.

    Parameters
    ----------
    delta : float
        In robust standard deviations of the residuals themselves, so that it means the same on any data. Of normal
        residuals 0.3 % lie beyond 3, so that without outliers next to nothing changes; with 1.345, the textbook's, 18 %
        do, at 95 % of the efficiency (Huber 1981, "Robust Statistics").

    Examples
    --------
    >>> Huber(delta=1.0)(np.array([0.5, 1.0, 3.0]))
    array([0.25, 1.  , 5.  ])
    """

    delta: float = 3.0

    def __post_init__(self) -> None:
        checks.number(self.delta, "delta", above=0.0)

    def __call__(self, residuals: FloatArray) -> FloatArray:
        """Return r^2, or the tangent of the parabola at delta."""
        inside = np.minimum(np.abs(residuals), self.delta)
        return inside * (2.0 * np.abs(residuals) - inside)

    def weigh(self, residuals: FloatArray) -> FloatArray:
        """Return 1, or delta / |r| beyond delta."""
        return self.delta / np.maximum(np.abs(residuals), self.delta)


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


@np.errstate(over="ignore", invalid="ignore")
def mean_absolute_error(rolled: FloatArray, expert: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Mean of |rolled - expert| over the (T, k) frames, or weighted mean.

    >>> mean_absolute_error(np.array([[0.0], [2.0]]), np.array([[1.0], [5.0]]))
    array([2.])
    """
    rolled, expert = _pair(rolled, expert)
    return _mean(np.abs(rolled - expert), weights)


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


def difference(actions: FloatArray, order: int, stride: int = 1) -> FloatArray:
    """Return the differences of (T, k) actions between frames that are `stride` apart, per step, of the given order.

    >>> difference(np.array([[0.0], [1.0], [4.0], [9.0], [16.0]]), order=2, stride=2)
    array([[2.]])
    """
    for _ in range(order):
        actions = actions[stride:] - actions[: max(len(actions) - stride, 0)]
    return actions / float(stride**order) if stride > 1 else actions


@np.errstate(over="ignore", invalid="ignore")
def total_variation(actions: FloatArray) -> FloatArray:
    """Sum of |first differences| of (T, k) actions: the distance travelled.

    >>> total_variation(np.array([[0.0], [1.0], [-1.0]]))
    array([3.])
    """
    distance: FloatArray = np.abs(np.diff(_as_table(actions, "actions"), axis=0)).sum(axis=0)
    return distance


def spectral_arc_length(actions: FloatArray, *, rate: float = 1.0) -> FloatArray:
    """Spectral arc length (SPARC) of the speed of (T, k) actions: negative, and higher is smoother.

    The length of the speed's normalised spectrum up to min(10, rate / 2) Hz, cut after the last amplitude
    of at least 0.05. NaN where nothing moves, or where the sequence is too short to resolve 10 Hz.

    References
    ----------
    Balasubramanian, Melendez-Calderon, Roby-Brami and Burdet (2015), "On the analysis of movement
    smoothness", Journal of NeuroEngineering and Rehabilitation 12:112.

    Examples
    --------
    >>> time = np.linspace(0.0, 1.0, 101)[:, np.newaxis]
    >>> minimum_jerk = 10 * time**3 - 15 * time**4 + 6 * time**5
    >>> spectral_arc_length(minimum_jerk, rate=100.0).round(2)
    array([-1.41])
    """
    rate = checks.number(rate, "rate", above=0.0)
    return _per_dimension(lambda column: _spectral_arc_length(column, rate), _as_table(actions, "actions"))


def log_dimensionless_jerk(actions: FloatArray) -> FloatArray:
    """Log dimensionless jerk (LDLJ) of (T, k) actions: higher is smoother.

    -ln(duration^3 / peak_speed^2 * integral of jerk^2), with the third difference as jerk (Balasubramanian
    et al. 2015, as for `spectral_arc_length`). The units of time cancel, so no rate is needed. NaN where T < 4 or
    nothing moves; inf for motion without any jerk.

    >>> log_dimensionless_jerk(np.array([[0.0], [1.0], [3.0], [4.0]])).round(3)  # -ln(27 / 4 * 4)
    array([-3.296])
    """
    return _per_dimension(_log_dimensionless_jerk, _as_table(actions, "actions"))


def high_frequency_ratio(actions: FloatArray, *, cutoff: float = 0.2) -> FloatArray:
    """Share (0 to 1) of the power of (T, k) actions above `cutoff` times the Nyquist frequency.

    Taken from the periodogram of the mean-removed actions under a Hann window; NaN for a constant.

    >>> step = np.arange(64)[:, np.newaxis]
    >>> high_frequency_ratio(np.hstack([np.sin(0.2 * step), np.sin(2.0 * step)])).round(3)
    array([0., 1.])
    """
    cutoff = checks.number(cutoff, "cutoff", at_least=0.0, at_most=1.0)
    return _per_dimension(lambda column: _high_frequency_ratio(column, cutoff), _as_table(actions, "actions"))


def lag(rolled: FloatArray, expert: FloatArray, *, max_lag: int | None = None) -> FloatArray:
    """Frames by which (T, k) `rolled` is late with respect to `expert`; negative where it is early.

    The shift at the peak of the normalised cross-correlation of the mean-removed actions, refined by a
    parabola through the peak and its neighbours; the smallest shift where several fit as well. NaN where
    either is constant or T < 4.

    Parameters
    ----------
    rolled, expert : (T, k) arrays
    max_lag : int, optional
        Longest shift considered, min(T // 4, 100) by default; never more than T // 2, so that at least
        half of the frames overlap.

    Examples
    --------
    >>> time = np.arange(200.0)[:, np.newaxis]
    >>> lag(np.sin(0.1 * (time - 2.5)), np.sin(0.1 * time)).round(1)
    array([2.5])
    """
    rolled, expert = _pair(rolled, expert)
    frames = len(expert)
    longest = min(frames // 4, 100) if max_lag is None else checks.whole_number(max_lag, "max_lag")
    return _per_dimension(lambda r, e: _lag(r, e, min(longest, frames // 2)), rolled, expert)


@np.errstate(over="ignore", invalid="ignore")
def overshoot(rolled: FloatArray, expert: FloatArray) -> FloatArray:
    """How far (T, k) `rolled` leaves the expert's own range, as a share of that range; 0 inside it.

    NaN where the expert is constant.

    >>> overshoot(np.array([[-1.0], [4.5]]), np.array([[0.0], [4.0]]))
    array([0.25])
    """
    rolled, expert = _pair(rolled, expert)
    low, high = expert.min(axis=0), expert.max(axis=0)
    outside = np.maximum(low - rolled.min(axis=0), rolled.max(axis=0) - high)
    share: FloatArray = np.maximum(outside, 0.0) / np.where(high > low, high - low, np.nan)
    return share


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


def _per_dimension(metric: Callable[..., float], *arrays: FloatArray) -> FloatArray:
    """Apply a metric that does not depend on scale to each dimension; NaN where one is not finite."""
    dimensions = zip(*(array.T for array in arrays), strict=True)
    return np.array(
        [metric(*map(_unit, columns)) if np.isfinite(columns).all() else math.nan for columns in dimensions]
    )


def _unit(column: FloatArray) -> FloatArray:
    """Divide by a power of two, which is exact, so that later squares neither overflow nor vanish."""
    _, exponent = np.frexp(np.abs(column).max())
    scaled: FloatArray = np.ldexp(column, -exponent)
    return scaled


def _spectral_arc_length(column: FloatArray, rate: float) -> float:
    speed = np.abs(np.diff(column))
    if not speed.any():
        return math.nan
    n = 2**4 << (len(speed) - 1).bit_length()  # zero padding level 4, after the next power of two
    spectrum = np.abs(np.fft.rfft(speed, n))[: int(n * min(10.0 / rate, 0.5)) + 1]
    amplitude = spectrum / spectrum[0]  # no speed is negative, so the peak is at frequency zero
    amplitude = amplitude[: np.flatnonzero(amplitude >= 0.05)[-1] + 1]
    if len(amplitude) < 2:
        return math.nan
    return -float(np.hypot(1.0 / (len(amplitude) - 1), np.diff(amplitude)).sum())


def _log_dimensionless_jerk(column: FloatArray) -> float:
    speed = np.diff(column)
    if len(speed) < 3 or not speed.any():
        return math.nan
    jerk = np.diff(speed / np.abs(speed).max(), n=2)
    dimensionless = len(speed) ** 3 * float((jerk**2).sum())
    return -math.log(dimensionless) if dimensionless > 0.0 else math.inf


def _high_frequency_ratio(column: FloatArray, cutoff: float) -> float:
    if np.ptp(column) == 0.0:
        return math.nan
    window = np.hanning(len(column) + 2)[1:-1]  # without the zeros at its ends, which would waste two frames
    power = np.abs(np.fft.fft((column - column.mean()) * window)) ** 2
    high = np.abs(np.fft.fftfreq(len(column))) > cutoff * 0.5
    above, below = float(power[high].sum()), float(power[~high].sum())
    return above / (above + below)


def _lag(rolled: FloatArray, expert: FloatArray, longest: int) -> float:
    if len(expert) < 4 or np.ptp(rolled) == 0.0 or np.ptp(expert) == 0.0:
        return math.nan
    shifts = np.arange(-longest, longest + 1)
    sums = shifted_sums(rolled - rolled.mean(), expert - expert.mean(), shifts)
    return find_peak(correlate(sums), shifts)
