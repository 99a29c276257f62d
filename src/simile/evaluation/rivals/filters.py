"""Causal filters that an engineer puts behind a predictor: averages, springs, One-Euro and Kalman.

Every filter has one `strength`, about the number of frames that it remembers: 0 passes everything, more is smoother.
It starts from known outputs, sees no future, and its state does not grow. `run` filters a whole recording; `start`
and `step` do the same online, frame by frame.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray
from simile.errors import ArgumentError
from simile.models.regularizers import CriticallyDamped, RegularizerClass

State = Any  # what a filter remembers between frames; its size does not depend on how many there were


@runtime_checkable
class Filter(Protocol):
    """A causal filter of signals (T, k), each of the k dimensions by itself."""

    @property
    def strength(self) -> float:
        """About the frames it remembers; 0 changes nothing."""

    @property
    def memory(self) -> int:
        """How many outputs must be known before the first frame."""

    def run(self, raw: FloatArray, past: FloatArray) -> FloatArray:
        """Filter raw (T, k), following known outputs `past` (at least `memory`, k), oldest first."""

    def start(self, past: FloatArray) -> State:
        """Begin online after known outputs (at least `memory`, k), oldest first."""

    def step(self, state: State, raw: FloatArray) -> tuple[State, FloatArray]:
        """Take one raw value (k,); return the new state and the output (k,)."""


@dataclass(frozen=True)
class Follower:
    """A critically damped follower: `order` equal real poles, unit gain, no ringing; order 2 is a damped spring.

    Parameters
    ----------
    strength : float
        Frames by which it lags behind a ramp.
    order : int
        How many poles.

    Examples
    --------
    >>> Follower(2.0, order=1).run(np.ones((3, 1)), past=np.zeros((1, 1))).ravel().round(3).tolist()
    [0.333, 0.556, 0.704]
    """

    strength: float
    order: int = 2

    def __post_init__(self) -> None:
        checks.number(self.strength, "strength", at_least=0.0)
        checks.whole_number(self.order, "order", at_least=1)

    @property
    def memory(self) -> int:
        """How many outputs must be known before the first frame."""
        return self.order

    @property
    def regularizer(self) -> RegularizerClass:
        """The class H whose policies (Eq. 2) filter f like this."""
        return CriticallyDamped(self.order)

    @property
    def smoothness(self) -> float:
        """The lambda whose policies (Eq. 2) filter f like this."""
        return CriticallyDamped(self.order).smoothness_for(self.strength)

    def run(self, raw: FloatArray, past: FloatArray) -> FloatArray:
        """Filter raw (T, k), following known outputs `past` (at least `order`, k), oldest first."""
        gain, taps = self._taps()
        latest_first = _latest(past, self.memory)[::-1]
        # What a transposed direct form holds after those outputs.
        inner = np.stack(
            [-np.tensordot(taps[i:], latest_first[: self.order + 1 - i], axes=1) for i in range(1, self.order + 1)]
        )
        return _linear(np.array([gain]), taps, raw, inner)

    def start(self, past: FloatArray) -> State:
        """Begin online after known outputs (at least `order`, k), oldest first."""
        return self._taps(), tuple(_latest(past, self.memory)[::-1])

    def step(self, state: State, raw: FloatArray) -> tuple[State, FloatArray]:
        """Take one raw value (k,); return the new state and the output (k,)."""
        (gain, taps), before = state
        output = gain * raw
        for tap, value in zip(taps[1:], before, strict=True):
            output = output - tap * value
        return ((gain, taps), (output, *before[:-1])), output

    def _taps(self) -> tuple[float, FloatArray]:
        pole = self.strength / (self.order + self.strength)
        return (1.0 - pole) ** self.order, np.poly(np.full(self.order, pole)).astype(np.float64)


@dataclass(frozen=True)
class EMA(Follower):
    """The exponential moving average: a follower with one pole; the newest frame weighs 1 / (1 + strength)."""

    order: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.order != 1:
            raise ArgumentError(f"order must be 1; got {self.order}: Follower(strength, order) has more poles")


@dataclass(frozen=True)
class Kalman:
    """The steady Kalman filter of a constant velocity (the alpha-beta filter).

    Parameters
    ----------
    strength : float
        1 / sqrt(ratio), in frames, where `ratio` is the deviation of the random acceleration, per frame squared, over
        that of the measurement noise.

    Examples
    --------
    >>> [round(g, 4) for g in Kalman(1.0).gains]
    [0.75, 0.5]
    """

    strength: float

    def __post_init__(self) -> None:
        checks.number(self.strength, "strength", at_least=0.0)

    @property
    def memory(self) -> int:
        """How many outputs must be known before the first frame: they tell the velocity."""
        return 2

    @property
    def ratio(self) -> float:
        """Process over measurement noise, the tracking index."""
        return math.inf if self.strength == 0.0 else self.strength**-2

    @property
    def gains(self) -> tuple[float, float]:
        """The steady gains of position and velocity (Kalata 1984)."""
        if math.isinf(self.ratio):
            return 1.0, 2.0
        # (4 + i - sqrt(8 i + i^2)) / 4, written without the cancellation that a large index suffers.
        root = 4.0 / (4.0 + self.ratio + math.sqrt(8.0 * self.ratio + self.ratio**2))
        return 1.0 - root**2, 2.0 * (1.0 - root) ** 2

    def run(self, raw: FloatArray, past: FloatArray) -> FloatArray:
        """Filter raw (T, k), following known outputs `past` (at least 2, k), oldest first."""
        alpha, beta = self.gains
        place, speed = self.start(past)
        # x_t = (2 - alpha - beta) x_{t-1} - (1 - alpha) x_{t-2} + alpha z_t + (beta - alpha) z_{t-1}, and what its
        # transposed direct form holds at a given place and speed.
        inner = (1.0 - alpha) * np.stack([place + speed, -place])
        return _linear(np.array([alpha, beta - alpha]), np.array([1.0, alpha + beta - 2.0, 1.0 - alpha]), raw, inner)

    def start(self, past: FloatArray) -> State:
        """Begin online after known outputs (at least 2, k), oldest first."""
        before, last = _latest(past, self.memory)
        return last, last - before

    def step(self, state: State, raw: FloatArray) -> tuple[State, FloatArray]:
        """Take one raw value (k,); return the new state and the output (k,)."""
        alpha, beta = self.gains
        place, speed = state
        surprise = raw - (place + speed)
        place, speed = place + speed + alpha * surprise, speed + beta * surprise
        return (place, speed), place


@dataclass(frozen=True)
class OneEuro:
    """The One-Euro filter (Casiez, Roussel and Vogel 2012): an average that hurries when the signal moves fast.

    In units of frames: `OneEuro.of(mincutoff, beta, dcutoff, rate)` takes the paper's hertz and seconds.

    Parameters
    ----------
    strength : float
        Time constant at rest, in frames: 1 / (2 pi mincutoff).
    beta : float
        How much the cutoff, in cycles per frame, grows with the speed, in units of the signal per frame.
    dcutoff : float
        Cutoff of the speed's own average, in cycles per frame.
    """

    strength: float
    beta: float = 0.0
    dcutoff: float = 1.0 / 30.0

    def __post_init__(self) -> None:
        checks.number(self.strength, "strength", at_least=0.0)
        checks.number(self.beta, "beta", at_least=0.0)
        checks.number(self.dcutoff, "dcutoff", above=0.0)

    @classmethod
    def of(cls, mincutoff: float, beta: float = 0.0, dcutoff: float = 1.0, *, rate: float) -> Self:
        """Make the filter from the paper's parameters, with cutoffs in hertz and speeds per second."""
        rate = checks.number(rate, "rate", above=0.0)
        return cls(rate / (2.0 * math.pi * checks.number(mincutoff, "mincutoff", above=0.0)), beta, dcutoff / rate)

    @property
    def memory(self) -> int:
        """How many outputs must be known before the first frame: they tell the speed."""
        return 2

    def run(self, raw: FloatArray, past: FloatArray) -> FloatArray:
        """Filter raw (T, k), following known outputs `past` (at least 2, k), oldest first."""
        place, speed = self.start(past)
        return np.array(
            [self._column(*column) for column in zip(raw.T.tolist(), place.tolist(), speed.tolist(), strict=True)]
        ).T.reshape(raw.shape)

    def start(self, past: FloatArray) -> State:
        """Begin online after known outputs (at least 2, k), oldest first."""
        before, last = _latest(past, self.memory)
        return last, last - before

    def step(self, state: State, raw: FloatArray) -> tuple[State, FloatArray]:
        """Take one raw value (k,); return the new state and the output (k,)."""
        place, speed = state
        speed = speed + self._smoothed * (raw - place - speed)
        place = place + self._weight(np.abs(speed)) * (raw - place)
        return (place, speed), place

    def _column(self, raw: list[float], place: float, speed: float) -> list[float]:
        """Filter one dimension: plain floats are ten times as fast as arrays with one number in them."""
        found = []
        smoothed, weight = self._smoothed, self._weight
        for value in raw:
            speed = speed + smoothed * (value - place - speed)
            place = place + weight(abs(speed)) * (value - place)
            found.append(place)
        return found

    @property
    def _smoothed(self) -> float:
        """The weight of the newest speed in its average."""
        return 1.0 / (1.0 + 1.0 / (2.0 * math.pi * self.dcutoff))

    def _weight(self, speed: Any) -> Any:
        """Return the weight of the newest value, 1 / (1 + time constant)."""
        return 1.0 / (1.0 + self.strength / (1.0 + 2.0 * math.pi * self.beta * self.strength * speed))


def _latest(past: FloatArray, n: int) -> FloatArray:
    if len(past) < n:
        raise ArgumentError(f"past must hold at least {n} known outputs; got {len(past)}")
    return past[len(past) - n :]


def _linear(numerator: FloatArray, denominator: FloatArray, raw: FloatArray, inner: FloatArray) -> FloatArray:
    from scipy.signal import lfilter

    if len(raw) == 0:
        return raw.copy()
    filtered: FloatArray = lfilter(numerator, denominator, raw, axis=0, zi=inner)[0]
    return filtered
