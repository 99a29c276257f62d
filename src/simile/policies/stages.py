"""Stages: what an actuator can follow, applied to the actions of a policy after it has chosen them.

A stage is a frozen recipe that maps the wanted action to the one let through, given the last ones it let through.
Stages work in the user's units, in the order given. The policy's own past stays what the policy chose: a dead band
fed back would stick, because a small wish, held back once, would look like the wish to stay.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from simile._common import checks
from simile._common.needs import need
from simile._common.typing import FloatArray, IntArray
from simile.data.recorded import ActionSpace
from simile.errors import ArgumentError, DivergedError
from simile.policies.hold import pass_play

ANYTHING = (np.array([-np.inf]), np.array([np.inf]))
HORIZON, FARTHEST = 2000.0, 1e6  # in steps and jerks: who has farther to go heads for what can be reached until then
ROUNDING = 1e-14  # of a speed
STEEPEST = 1e3  # of two limits: what is reached in a thousandth of a step is reached at once


@runtime_checkable
class Stage(Protocol):
    """Maps wanted actions to those that are sent."""

    def __call__(self, wanted: FloatArray, last: FloatArray, before: FloatArray, seconds: float) -> FloatArray:
        """Return what to send instead of `wanted`, (n, k), for n streams.

        `last` (n, k) is what this stage sent `seconds` ago, and `before` what it sent one step earlier.
        """


@runtime_checkable
class LongStage(Stage, Protocol):
    """A stage that looks further back than two actions, or keeps something else in their place."""

    memory: ClassVar[int]

    def advance(self, wanted: FloatArray, past: FloatArray, seconds: float) -> FloatArray:
        """Return what `past` (n, `memory` or more, k), the latest first, becomes; the first of it is sent.

        After an operator, or at the start, it holds what was sent: what a stage puts there must be of that kind.
        """


@runtime_checkable
class Conversion(Stage, Protocol):
    """A stage behind which actions mean something else: `undo` turns those that were sent back into what was wanted."""

    def undo(self, actions: FloatArray) -> FloatArray:
        """Return what actions (..., k) behind the stage are before it."""


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

    def brake(self, past: FloatArray, seconds: float) -> tuple[FloatArray, float]:
        """Return what `past` (n, 2 or more, k) becomes by slowing down at once, and in how many steps it rests."""
        last, before = past[:, 0], past[:, 1]
        now = self(last, last, before, seconds)  # to want to be where one is leaves nothing but to brake
        steps = np.abs(last - before) / (self.acceleration * seconds**2)
        return np.concatenate([now[:, np.newaxis], past[:, :-1]], axis=1), float(steps.max())


@dataclass(frozen=True, eq=False)
class JerkLimit:
    """Change acceleration at most this fast, and come to rest at the target as soon as can be, without overshoot.

    In every frame the quickest way within all limits is planned anew, by Ruckig [1]_ (extra `motion`), and followed for
    a step: what is sent lies on a path whose speed, acceleration and jerk keep to the limits between frames, too. After
    an operator, it goes on with the speed of the last two actions and the acceleration of the last three, which counts
    no higher than these limits allow; a speed above `rate` falls as fast as they allow. A stage behind this one may
    break the limits again.

    Parameters
    ----------
    jerk : float or (k,) array_like
        Units per second cubed, above zero.
    acceleration : float or (k,) array_like, optional
        Units per second squared, above zero; None for any.
    rate : float or (k,) array_like, optional
        Units per second, above zero; None for any speed.

    References
    ----------
    .. [1] L. Berscheid, T. Kröger, "Jerk-limited Real-time Trajectory Generation with Arbitrary Target States", 2021.

    Examples
    --------
    >>> chain = Chain(JerkLimit(jerk=8.0, acceleration=4.0, rate=2.0), n_streams=1, n_actions=1, rate=4.0)
    >>> [round(chain(np.arange(1), np.array([[a]])).item(), 3) for a in (0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)]
    [0.0, 0.021, 0.164, 0.445, 0.748, 0.949, 0.999, 1.0]
    """

    jerk: FloatArray
    acceleration: FloatArray | None = None
    rate: FloatArray | None = None
    memory: ClassVar[int] = 3

    def __post_init__(self) -> None:
        need("ruckig", "JerkLimit")
        for name in ("jerk", "acceleration", "rate"):
            if (given := getattr(self, name)) is not None or name == "jerk":
                object.__setattr__(self, name, _limits(given, name, zero=False))

    def __call__(self, wanted: FloatArray, last: FloatArray, before: FloatArray, seconds: float) -> FloatArray:
        """Return the action of the next step on the way to `wanted`, from a steady speed."""
        return self.advance(wanted, np.stack([last, before, 2.0 * before - last], axis=1), seconds)[:, 0]

    def advance(self, wanted: FloatArray, past: FloatArray, seconds: float) -> FloatArray:
        """Return `past` (n, 3 or more, k) a step further on the way to `wanted` (n, k)."""
        return self._move(wanted, past, seconds, braking=False)[0]

    def brake(self, past: FloatArray, seconds: float) -> tuple[FloatArray, float]:
        """Return what `past` (n, 3 or more, k) becomes by slowing down at once, and in how many steps it rests."""
        return self._move(past[:, 0], past, seconds, braking=True)

    def _move(self, wanted: FloatArray, past: FloatArray, seconds: float, *, braking: bool) -> tuple[FloatArray, float]:
        """Plan the way and go a step; returns the past, and how many steps the longest way takes.

        The past is points, a step apart, of the parabola with the position, speed and acceleration of now: just what
        was sent where the acceleration is steady, and nothing more has to be kept.
        """
        scale, limits, reach = _scale(self, seconds, past.shape[2])
        # Time is counted in steps, and the way in `scale`: Ruckig's tolerances are no matter of the user's units.
        last, pace = past[:, 0], (past[:, 0] - past[:, 1]) / scale
        bend = _within(pace - (past[:, 1] - past[:, 2]) / scale, -limits[1], limits[1])
        state = np.stack([_within((last - wanted) / scale, -reach, reach), pace + bend / 2.0, bend])
        moved, steps = _plan(state.reshape(3, -1), np.tile(limits, len(wanted)), braking=braking)
        there, (place, pace, bend) = steps.reshape(wanted.shape) <= 1.0, moved.reshape(state.shape)
        now = np.where(there & (not braking), wanted, last + (place - state[0]) * scale)
        before = now - np.where(there, 0.0, pace - bend / 2.0) * scale
        earlier = before - np.where(there, 0.0, pace - 1.5 * bend) * scale
        new = np.stack([now, before, earlier], axis=1)
        return np.concatenate([new, past[:, 2:-1]], axis=1), float(steps.max())


@dataclass(frozen=True, eq=False)
class Play:
    """Move only as far as needed to stay within `width` of the wanted action, as a gear with play does.

    What turns back and forth by less than twice the `width` is held still.

    Parameters
    ----------
    width : float or (k,) array_like
        Half the play, in units of the action.
    stepping : bool or (k,) array_like
        Hold until the wanted action is more than `width` away, and then go there at once, as an expert does who steps
        rather than glides.

    Examples
    --------
    >>> last, wanted = np.zeros((1, 2)), np.array([[0.4, 1.5]])
    >>> Play(0.5)(wanted, last, last, seconds=0.1)
    array([[0., 1.]])
    >>> Play(0.5, stepping=True)(wanted, last, last, seconds=0.1)
    array([[0. , 1.5]])

    See Also
    --------
    simile.policies.hold.Hold : The same within a policy, which is then trained for it.
    """

    width: FloatArray
    stepping: Any = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", _limits(self.width, "width", zero=True))
        stepping = np.asarray(self.stepping)
        if stepping.dtype != np.bool_ or stepping.ndim > 1:
            raise ArgumentError(f"stepping must be True or False, or one of them per action; got {self.stepping!r}")

    def __call__(self, wanted: FloatArray, last: FloatArray, before: FloatArray, seconds: float) -> FloatArray:  # noqa: ARG002
        """Return the last action, moved into the band around `wanted`, or onto it."""
        return pass_play(wanted, last, self.width, self.stepping)


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
    """Stages one after the other, for n streams, with the last two actions, or more, that each stage let through.

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
        self._advance = [stage.advance if isinstance(stage, LongStage) else None for stage in self.stages]
        self._undo = [stage.undo if isinstance(stage, Conversion) else None for stage in self.stages]
        self.seconds = 1.0 / rate if rate is not None else 0.0
        self.depth = max([2, *(stage.memory for stage in self.stages if isinstance(stage, LongStage))])
        self.sent = np.zeros((n_streams, len(self.stages), self.depth, n_actions))  # the last first
        self.moving = np.zeros(n_streams, np.bool_)  # False: nothing was sent yet
        self.n_new = n_streams  # to know quickly that all are under way
        self.reason = reason
        self._safe = max(0.0, min(-float(reason[0].max()), float(reason[1].min()))) ** 2  # a sum of squares
        self.restarted: set[int] = set()
        self.watched = False  # whether `limited` is kept, for somebody who records
        self.limited = np.zeros(n_streams, np.bool_)  # whose last action a stage has changed, units aside
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
            self.limited[again] = True
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
        changed = np.zeros(len(streams), np.bool_)
        for i, stage in enumerate(self.stages):
            past, asked = sent[:, i], wanted
            if new is not None:
                past[new] = wanted[new, np.newaxis]
            advance = self._advance[i]
            if advance is not None:
                past[:] = advance(wanted, past, self.seconds)
                wanted = past[:, 0].copy()
            else:
                wanted = stage(wanted, past[:, 0], past[:, 1], self.seconds)
                past[:, 1:] = past[:, :-1]
                past[:, 0] = wanted
            if new is not None:
                past[new] = wanted[new, np.newaxis]
            if self.watched and self._undo[i] is None:
                changed |= (wanted != asked).any(axis=1)
        self.sent[streams] = sent
        if self.watched:
            self.limited[streams] = changed
        if new is not None:
            self._mark(streams, moving=True)
        if np.vdot(sent, sent) <= self._safe:  # none can be outside: at a fraction of the cost
            return wanted, None
        low, high = self.reason
        sane = (sent >= low) & (sent <= high)
        return wanted, None if sane.all() else ~sane.all(axis=(1, 2, 3))

    def look_back(self, streams: IntArray, steps: int) -> FloatArray:
        """Return what was sent so many steps ago, (n, k); before all that is known the speed was steady."""
        past: FloatArray = self.sent[streams, -1]
        beyond = max(0, steps - self.depth)
        return np.asarray(past[:, steps - beyond - 1] + beyond * (past[:, -1] - past[:, -2]))

    def follow(self, streams: IntArray, actions: FloatArray) -> None:
        """Note that `actions` (n, k) were sent past the stages: all of them go on from there."""
        if self.stages:
            moving, earlier = self.moving[streams, np.newaxis, np.newaxis], self.sent[streams, -1, :-1]
            self.sent[streams, :, 1:] = self._behind(np.where(moving, earlier, actions[:, np.newaxis]))
            self.amend(streams, actions)

    def amend(self, streams: IntArray, actions: FloatArray) -> None:
        """Note that `actions` (n, k) took the place of those sent last."""
        self.sent[streams, :, 0] = self._behind(actions)
        self._mark(streams, moving=True)

    def undo(self, actions: FloatArray) -> FloatArray:
        """Return what actions (..., k) of the actuator, such as an operator's, are to the policy."""
        for undo in reversed(self._undo):
            actions = actions if undo is None else undo(actions)
        return actions

    def _behind(self, actions: FloatArray) -> FloatArray:
        """Return what actions (n, ..., k) of the actuator are behind each of the stages, (n, 1 or stages, ..., k)."""
        if not any(self._undo):
            return actions[:, np.newaxis]
        levels = [actions]
        for undo in reversed(self._undo[1:]):
            levels.append(levels[-1] if undo is None else undo(levels[-1]))
        return np.stack(levels[::-1], axis=1)

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
            self.sent[streams] = self._behind(self.sent[streams, -1, :1])

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


@lru_cache(maxsize=64)
def _scale(stage: JerkLimit, seconds: float, n_actions: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return a unit for each action, (k,); speed, acceleration and jerk at most, (3, k), and a far way, (k,), in it."""
    jerk = np.broadcast_to(stage.jerk, (n_actions,)) * seconds**3
    rate = np.broadcast_to(np.inf if stage.rate is None else stage.rate * seconds, jerk.shape)
    hardest = np.sqrt(2.0 * jerk * rate)  # from full speed to full speed back, it never gets harder than that
    if stage.acceleration is not None:
        hardest = np.minimum(hardest, np.broadcast_to(stage.acceleration, jerk.shape) * seconds**2)
    hardest = np.minimum(hardest, STEEPEST * rate)
    limits = np.stack([rate, hardest, np.minimum(jerk, STEEPEST * hardest)])
    scale = np.where(np.isfinite(limits), limits, 0.0).max(axis=0)
    limits /= scale
    reach = limits.T * [HORIZON, HORIZON**2 / 4.0, HORIZON**3 / 32.0]
    return scale, limits, np.minimum(reach.min(axis=1), FARTHEST)


def _plan(state: FloatArray, limits: FloatArray, *, braking: bool) -> tuple[FloatArray, FloatArray]:
    """Return position, speed and acceleration (3, n) a step later on the way to 0, and how many steps that takes.

    Each of the n finds its way as if it were alone; who is so fast that no way can be computed brakes.
    """
    ruckig, n = need("ruckig", "JerkLimit"), state.shape[1]
    asked, path = ruckig.InputParameter(n), ruckig.Trajectory(n)
    asked.current_position, asked.current_velocity, asked.current_acceleration = state.tolist()
    asked.target_position = [0.0] * n
    # Who takes back the acceleration just in time may break the limit of speed by rounding, and must not brake for it.
    summit = (1.0 + ROUNDING) * np.abs(state[1] + state[2] * np.abs(state[2]) / (2.0 * limits[2]))
    fastest = np.where(summit < (1.0 + 1e3 * ROUNDING) * limits[0], np.maximum(summit, limits[0]), limits[0])
    asked.max_velocity, asked.max_acceleration, asked.max_jerk = np.stack([fastest, *limits[1:]]).tolist()
    asked.synchronization = ruckig.Synchronization.No
    asked.control_interface = ruckig.ControlInterface.Velocity if braking else ruckig.ControlInterface.Position
    try:
        ruckig.Ruckig(n).calculate(asked, path)
    except (ruckig.RuckigError, ValueError):  # the latter where the result has no name in Python: a way too long
        if n > 1:
            alone = [_plan(state[:, [i]], limits[:, [i]], braking=braking) for i in range(n)]
            return np.concatenate([moved for moved, _ in alone], axis=1), np.concatenate([steps for _, steps in alone])
        moved = np.full((3, 1), np.nan) if braking else _plan(state, limits, braking=True)[0]
        return moved, np.full(1, np.inf)
    return np.array(path.at_time(1.0)), np.array(path.independent_min_durations)


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
