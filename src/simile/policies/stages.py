"""Stages: what an actuator can follow, applied to the actions of a policy after it has chosen them.

A stage is a frozen recipe that maps the wanted action to the one let through, given the last two it let through.
Stages work in the user's units, in the order given. The policy's own past stays what the policy chose: a dead band
fed back would stick, because a small wish, held back once, would look like the wish to stay.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray, IntArray
from simile.data.demonstrations import ActionSpace
from simile.errors import ArgumentError, DivergedError

ANYTHING = (np.array([-np.inf]), np.array([np.inf]))


@runtime_checkable
class Stage(Protocol):
    """Maps wanted actions to those that are sent."""

    def __call__(self, wanted: FloatArray, last: FloatArray, before: FloatArray, seconds: float) -> FloatArray:
        """Return what to send instead of `wanted`, (n, k), for n streams.

        `last` (n, k) is what this stage sent `seconds` ago, and `before` what it sent one step earlier.
        """


@dataclass(frozen=True, eq=False)
class RateLimit:
    """Move at most this fast.

    Parameters
    ----------
    rate : float or (k,) array_like
        Units per second, above zero.

    Examples
    --------
    >>> last = np.zeros((1, 1))
    >>> RateLimit(2.0)(np.array([[1.0]]), last, last, seconds=0.1)
    array([[0.2]])
    """

    rate: FloatArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", _limits(self.rate, "rate", zero=False))

    def __call__(self, wanted: FloatArray, last: FloatArray, before: FloatArray, seconds: float) -> FloatArray:  # noqa: ARG002
        """Return the nearest action that can be reached in time."""
        return _within(wanted, last - self.rate * seconds, last + self.rate * seconds)


@dataclass(frozen=True, eq=False)
class AccelerationLimit:
    """Change speed at most this fast, and brake in time: a target at rest is reached without overshoot.

    After an operator who moved faster than `rate`, the speed falls as fast as `acceleration` allows: an actuator
    cannot stop at once. A stage behind this one may break the limit again: put `Bounds` before it.

    Parameters
    ----------
    acceleration : float or (k,) array_like
        Units per second squared, above zero.
    rate : float or (k,) array_like, optional
        Units per second, above zero; None for any speed.
    """

    acceleration: FloatArray
    rate: FloatArray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "acceleration", _limits(self.acceleration, "acceleration", zero=False))
        if self.rate is not None:
            object.__setattr__(self, "rate", _limits(self.rate, "rate", zero=False))

    def __call__(self, wanted: FloatArray, last: FloatArray, before: FloatArray, seconds: float) -> FloatArray:
        """Return the action nearest to `wanted` from which the actuator can still stop there."""
        speed, most = last - before, self.acceleration * seconds**2  # per step, and per step squared
        away = wanted - last
        # Who moves by u now and brakes by `most` in each later step goes u + (u - most) + (u - 2 most) + ... on. The
        # u for which that is just the way to go: with n further steps, (n + 1) u - most n (n + 1) / 2.
        way = np.abs(away)
        steps = np.floor((np.sqrt(1.0 + 8.0 * way / most) - 1.0) / 2.0)
        move = np.copysign(way / (steps + 1.0) + most * steps / 2.0, away)
        if self.rate is not None:
            move = _within(move, -self.rate * seconds, self.rate * seconds)
        return last + _within(move, speed - most, speed + most)


@dataclass(frozen=True, eq=False)
class Play:
    """Move only as far as needed to stay within `width` of the wanted action, as a gear with play does.

    What turns back and forth by less than twice the `width` is held still.

    Parameters
    ----------
    width : float or (k,) array_like
        Half the play, in units of the action.
    stepping : bool
        Hold until the wanted action is more than `width` away, and then go there at once, as an expert does who steps
        rather than glides.

    Examples
    --------
    >>> last, wanted = np.zeros((1, 2)), np.array([[0.4, 1.5]])
    >>> Play(0.5)(wanted, last, last, seconds=0.1)
    array([[0., 1.]])
    >>> Play(0.5, stepping=True)(wanted, last, last, seconds=0.1)
    array([[0. , 1.5]])
    """

    width: FloatArray
    stepping: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", _limits(self.width, "width", zero=True))
        if not isinstance(self.stepping, bool):
            raise ArgumentError(f"stepping must be True or False; got {self.stepping!r}")

    def __call__(self, wanted: FloatArray, last: FloatArray, before: FloatArray, seconds: float) -> FloatArray:  # noqa: ARG002
        """Return the last action, moved into the band around `wanted`, or onto it."""
        low, high = wanted - self.width, wanted + self.width
        if self.stepping:
            return np.where((low <= last) & (last <= high), last, wanted)
        return _within(last, low, high)


class DeadBand(Play):
    """`Play` by its first name here: the same bits. What others call a dead band is `Play(width, stepping=True)`."""


@dataclass(frozen=True, eq=False)
class Bounds:
    """Stay within `low` and `high`; None leaves a side open.

    The policy does not know these bounds; an `ActionSpace` that it was trained with is obeyed in any case.

    Parameters
    ----------
    low, high : float or (k,) array_like, optional
        In units of the action.
    """

    low: FloatArray | None = None
    high: FloatArray | None = None

    def __post_init__(self) -> None:
        space = ActionSpace(self.low, self.high)
        object.__setattr__(self, "low", space.low)
        object.__setattr__(self, "high", space.high)

    def __call__(self, wanted: FloatArray, last: FloatArray, before: FloatArray, seconds: float) -> FloatArray:  # noqa: ARG002
        """Return the nearest action inside."""
        return np.clip(wanted, self.low, self.high)


class Chain:
    """Stages one after the other, for n streams, with the last two actions that each stage let through.

    Where one of them leaves the `reason`able range, low and high of the actions in the user's units, all of that
    stream's begin anew, at rest where the policy wants to be; `restarted` has the streams, for somebody to tell.
    """

    def __init__(
        self,
        stages: Stage | Sequence[Stage],
        n_streams: int,
        n_actions: int,
        rate: float | None,
        reason: tuple[FloatArray, FloatArray] = ANYTHING,
    ) -> None:
        self.stages = _stages(stages)
        if self.stages and rate is None:
            raise ArgumentError(
                "rate: stages need to know how long a step takes, and the policy's card does not say: "
                "give rate=..., in steps per second"
            )
        self.seconds = 1.0 / rate if rate is not None else 0.0
        self.depth = 2
        self.sent = np.zeros((n_streams, len(self.stages), self.depth, n_actions))  # the last first
        self.moving = np.zeros(n_streams, np.bool_)  # False: nothing was sent yet
        self.n_new = n_streams  # to know quickly that all are under way
        self.reason = reason
        self._safe = max(0.0, min(-float(reason[0].max()), float(reason[1].min()))) ** 2  # a sum of squares
        self.restarted: set[int] = set()
        for stage in self.stages:
            _check_stage(stage, n_actions, self.seconds)

    def __call__(self, streams: IntArray, wanted: FloatArray) -> FloatArray:
        """Return what to send, (n, k), where the policy wants `wanted`; the first action finds all at rest there."""
        if not self.stages:
            return wanted
        now, wild = self._pass(streams, wanted)
        if wild is not None:
            again = streams[wild]
            self.reset(again)
            now[wild], still = self._pass(again, wanted[wild])
            if still is not None:
                self.reset(again)
                raise DivergedError(
                    f"stages: {', '.join(map(repr, self.stages))} leave every reasonable range of actions, "
                    f"{self.reason[0]} to {self.reason[1]}, even from rest: give others"
                )
            self.restarted.update(again.tolist())
        return now

    def _pass(self, streams: IntArray, wanted: FloatArray) -> tuple[FloatArray, Any]:
        """Let actions (n, k) pass all stages; returns them, and which streams left the reasonable range, or None."""
        sent = self.sent[streams]
        new = ~self.moving[streams] if self.n_new else None
        if new is not None and not new.any():
            new = None
        for i, stage in enumerate(self.stages):
            last, before = sent[:, i, 0], sent[:, i, 1]
            if new is not None:
                last[new] = before[new] = wanted[new]
            now = stage(wanted, last, before, self.seconds)
            before[:] = last
            last[:] = wanted = now
            if new is not None:
                before[new] = now[new]
        self.sent[streams] = sent
        if new is not None:
            self._mark(streams, moving=True)
        if np.vdot(sent, sent) <= self._safe:  # none can be outside: at a fraction of the cost
            return wanted, None
        low, high = self.reason
        sane = (sent >= low) & (sent <= high)
        return wanted, None if sane.all() else ~sane.all(axis=(1, 2, 3))

    def follow(self, streams: IntArray, actions: FloatArray) -> None:
        """Note that `actions` (n, k) were sent past the stages: all of them go on from there."""
        if self.stages:
            where = np.where(self.moving[streams, np.newaxis], self.sent[streams, -1, 0], actions)
            self.sent[streams, :, 1] = where[:, np.newaxis]
            self.amend(streams, actions)

    def amend(self, streams: IntArray, actions: FloatArray) -> None:
        """Note that `actions` (n, k) took the place of those sent last."""
        self.sent[streams, :, 0] = actions[:, np.newaxis]
        self._mark(streams, moving=True)

    def warn_of_restarts(self, what: str, *, stacklevel: int = 4) -> None:
        """Say which streams began anew since the last call, as a warning of Python."""
        if self.restarted:
            who = ", ".join(map(str, sorted(self.restarted)))
            self.restarted.clear()
            warnings.warn(
                f"the stages of {what} {who} left every reasonable range: they begin anew, from rest where the policy "
                "wants to be",
                RuntimeWarning,
                stacklevel=stacklevel,
            )

    def rest(self, streams: IntArray) -> None:
        """Let every stage come to rest where the actuator is."""
        if self.stages:
            self.sent[streams] = self.sent[streams, -1:, :1]

    def reset(self, streams: IntArray) -> None:
        """Forget what was sent."""
        self.sent[streams] = 0.0
        self._mark(streams, moving=False)

    def load(self, streams: IntArray, sent: FloatArray, moving: Any) -> None:
        """Take over what another chain of such stages had sent."""
        self.sent[streams], self.moving[streams] = sent, moving
        self._mark(np.arange(0), moving=True)

    def _mark(self, streams: IntArray, *, moving: bool) -> None:
        self.moving[streams] = moving
        self.n_new = int(len(self.moving) - np.count_nonzero(self.moving))


def _stages(given: Any) -> tuple[Stage, ...]:
    stages = (given,) if callable(given) else tuple(given)
    for stage in stages:
        checks.instance(stage, "stages", needs="__call__")
    return stages


def _check_stage(stage: Stage, n_actions: int, seconds: float) -> None:
    """Refuse a stage for another number of actions, or with limits beyond computing, by trying it."""
    still = np.zeros((2, n_actions))
    try:
        with np.errstate(all="ignore"):
            found = np.asarray(stage(still, still, still, seconds))
    except ValueError:  # arrays that do not broadcast
        found = np.empty(0)
    if found.shape != still.shape:
        raise ArgumentError(f"stages: {stage!r} must hold one value, or one for each of the {n_actions} actions")
    if not np.isfinite(found).all():
        raise ArgumentError(f"stages: {stage!r} must give finite actions at {1.0 / seconds:g} steps per second")


def _within(values: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Clip, without the time that `numpy.clip` takes to look at its arguments: more than all the rest of a stage."""
    return np.minimum(np.maximum(values, low), high)


def _limits(given: Any, name: str, *, zero: bool) -> FloatArray:
    """Return a limit as a read-only array of one value, or one per action."""
    try:
        values = np.array(given, dtype=np.float64, ndmin=1)
    except (TypeError, ValueError):
        values = np.full(1, np.nan)
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all() or (values < 0.0).any():
        raise ArgumentError(f"{name} must be a finite number, or one per action, and not below 0; got {given!r}")
    if not zero and (values == 0.0).any():
        raise ArgumentError(f"{name} must be above 0, or nothing would ever move; got {given!r}")
    values.setflags(write=False)
    return values
