"""The driver: between a control loop that may fail and a head that must not jump, run on or stay moving."""

from __future__ import annotations

import atexit
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from simile._common import checks
from simile._common.typing import FloatArray
from simile.camera.heads.head import Head, HeadError, Pose
from simile.camera.heads.links import Closing
from simile.errors import ArgumentError
from simile.policies.stages import AccelerationLimit, Chain, JerkLimit, Stage

ONE = np.arange(1)  # the only stream of the chain
LARGEST = 1e6  # an action beyond is no angle and no zoom
EARLY = 1e-6  # of a period, by which a tick may come early
KEPT_FAULTS = 100
NAMES = ("pan", "tilt", "zoom")
BRAKES = (AccelerationLimit, JerkLimit)  # stages that can brake a head


class Phase(Enum):
    """What a driver is doing."""

    RESTING = "resting"  # the head was told to stop
    MOVING = "moving"
    BRAKING = "braking"  # actions failed to come: slowing down as fast as allowed
    CLOSED = "closed"


class Driver(Closing):
    """Moves a head towards the actions that are sent, within limits, and stops it smoothly when they fail to come.

    The head is braked, within the last of the limits, and then told to stop: when no action comes for `timeout`
    seconds; when an action is None or not finite; when a stage raises an error; when the body of `with` is left, by
    an error or not; on `close`; and when the interpreter exits. A new action takes over smoothly, also while braking,
    until the driver is closed.

    All of this happens in `tick`, which takes one step of the trajectory whenever one is due. In a `with` block a
    thread ticks; with `threaded=False` the caller does. A tick that comes late delays the trajectory and is not made
    up for: the head never hurries after a pause.

    Parameters
    ----------
    head : Head
        What is moved; it stays open when the driver is closed.
    rate : float
        Steps of the trajectory per second; that of the control loop or more.
    limits : Stage or sequence of Stage
        As in `Predictor`, in degrees and zoom factors per second; the last one must be an `AccelerationLimit` or a
        `JerkLimit`, because braking is its task, and nothing behind it may break it. Put `Bounds` before it.
    n_actions : int
        1: pan only; 3: pan, tilt and zoom.
    start : (pan, tilt, zoom), optional
        Where the head is now; None asks it. Tilt and zoom stay there where only pan is driven.
    timeout : float
        Seconds without an action after which the head is stopped.
    on_fault : callable, optional
        Told each `HeadError` and each error of a stage, in the thread that ticks; must be quick. The latest ones are
        kept in `faults` in any case.
    threaded : bool
        Whether `with` starts a thread that ticks.
    clock, sleep : callable
        Seconds that never go back, and how to let them pass; for tests.

    Examples
    --------
    A head is anything with the methods of `Head`; this one only says what it is told.

    >>> from simile.online import AccelerationLimit
    >>> class Paper:
    ...     def move(self, pose, speed, *, braking=False): print(f"at {pose.pan:.2f}, {braking=}")
    ...     def stop(self): print("stop")
    ...     def poll(self): return []
    ...     def where(self): return Pose(0.0, 0.0, 1.0)
    ...     def settle(self): pass
    >>> driver = Driver(Paper(), rate=10.0, limits=AccelerationLimit(10.0, rate=5.0), threaded=False)
    >>> driver.send([3.0])
    >>> for tick in range(2):
    ...     phase = driver.tick(driver.due)
    at 0.10, braking=False
    at 0.30, braking=False
    >>> driver.send(None)
    >>> while driver.tick(driver.due) is not Phase.RESTING: pass
    at 0.40, braking=True
    stop
    >>> driver.close()
    stop
    """

    def __init__(
        self,
        head: Head,
        *,
        rate: float,
        limits: Stage | Sequence[Stage],
        n_actions: int = 1,
        start: ArrayLike | None = None,
        timeout: float = 0.5,
        on_fault: Callable[[Exception], None] | None = None,
        threaded: bool = True,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        checks.instance(head, "head", needs="move")
        self.head = head
        self.rate = checks.number(rate, "rate", above=0.0)
        self.timeout = checks.number(timeout, "timeout", above=0.0)
        self.threaded = threaded
        self.faults: deque[Exception] = deque(maxlen=KEPT_FAULTS)
        self.reason = "nothing was sent yet"
        self._on_fault, self._clock, self._sleep = on_fault, clock, sleep
        self._limit, self._chain = _trajectory(limits, n_actions, self.rate)
        self._pose = _start(head.where() if start is None else start)
        self._chain.follow(ONE, self._pose[np.newaxis, :n_actions])
        self._target = self._pose[:n_actions].copy()
        self._phase, self._closing = Phase.RESTING, False
        self._heard = -math.inf  # when the latest action came
        self._due = clock()
        self._lock = threading.RLock()  # send and tick come from different threads
        self._thread: threading.Thread | None = None
        atexit.register(self.close)

    @property
    def phase(self) -> Phase:
        """What the driver is doing."""
        return self._phase

    @property
    def pose(self) -> Pose:
        """Where the trajectory is: what was commanded last."""
        return Pose(*(float(at) for at in self._pose))

    @property
    def speed(self) -> Pose:
        """How fast the trajectory moves, per second."""
        last, before = self._chain.sent[0, -1, :2]
        speeds = (float(s) for s in (last - before) * self.rate)
        return Pose(*speeds, *([0.0] * (3 - len(last))))

    @property
    def due(self) -> float:
        """When the next step is due."""
        return self._due

    def send(self, action: ArrayLike | None) -> None:
        """Say where the head should be; None, and what is not finite, stops it. Never waits for the head.

        Parameters
        ----------
        action : (1,) or (3,) array_like, optional
            Pan, or pan, tilt and zoom: what `Predictor.step` returns.
        """
        with self._lock:
            if self._closing:
                raise HeadError("the driver is closed: make a new one, or send within its with block")
            try:
                target = _action(action, len(self._target))
            except ArgumentError:
                self._brake(f"an action of the wrong kind: {action!r}")
                raise
            if target is None:
                self._brake(f"the action was {action!r}")
                return
            self._target, self._heard, self._phase = target, self._clock(), Phase.MOVING

    def halt(self, reason: str = "halt() was called") -> None:
        """Stop smoothly; the next action moves on."""
        with self._lock:
            self._brake(reason)

    def tick(self, now: float | None = None) -> Phase:
        """Take the step of the trajectory that is due, if any, and deal with the head's replies."""
        with self._lock:
            now = self._clock() if now is None else now
            if self._phase is not Phase.CLOSED:
                period = 1.0 / self.rate
                if now >= self._due - EARLY * period:
                    # On a grid, so that ticks a little late do not add up; but a missed step is gone.
                    self._due = (self._due if now < self._due + period else now) + period
                    self._step(now)
                self._listen()
            return self._phase

    def start(self) -> None:
        """Let a thread tick from now on."""
        with self._lock:
            if self._closing:
                raise HeadError("the driver is closed: make a new one")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="simile driver", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Stop smoothly, wait until the head stands still, and send no more."""
        atexit.unregister(self.close)
        if self._phase is Phase.CLOSED:
            return
        with self._lock:
            self._closing = True  # no action moves it again
            self._brake("the driver was closed")
        for _ in range(self._steps_to_rest()):
            if self._phase is not Phase.BRAKING:
                break
            due = self._due  # tick here too, in case that the thread has ended
            self._sleep(max(due - self._clock(), 0.0))
            self.tick(max(due, self._clock()))
        with self._lock:
            self._phase = Phase.CLOSED
            self._safely(self.head.stop)
            self._safely(self.head.settle)
            self._listen()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=1.0)

    def __enter__(self) -> Self:
        if self.threaded:
            self.start()
        return self

    def _run(self) -> None:
        while self.tick() is not Phase.CLOSED:
            self._sleep(max(self._due - self._clock(), 0.0))

    def _step(self, now: float) -> None:
        if self._phase is Phase.MOVING and now - self._heard > self.timeout:
            self._brake(f"no action came for {self.timeout:g} s")
        if self._phase is Phase.MOVING and not self._advance():
            self._brake("a stage failed")
        if self._phase is Phase.BRAKING:
            self._slow()
        if self._phase in (Phase.MOVING, Phase.BRAKING):
            self._pose[: len(self._target)] = self._chain.sent[0, -1, 0]
            braking = self._phase is Phase.BRAKING
            if braking and not any(self.speed):
                self._phase = Phase.RESTING
                self._safely(self.head.stop)
            else:
                self._safely(lambda: self.head.move(self.pose, self.speed, braking=braking))

    def _advance(self) -> bool:
        """Take a step towards the target; a step that fails is not taken."""
        before = self._chain.sent.copy()
        try:
            fine = bool(np.isfinite(self._chain(ONE, self._target[np.newaxis])).all()) and not self._chain.restarted
        except Exception as error:  # a stage may be anybody's; the head must not run on
            self._note(error)
            fine = False
        if not fine:  # nor one that would begin anew elsewhere: the head is not there
            self._chain.restarted.clear()
            self._chain.load(ONE, before, moving=True)
        return fine

    def _slow(self) -> None:
        """Brake as hard as the limit allows; all other stages go on from there."""
        past, _ = self._limit.brake(self._chain.sent[:, -1], self._chain.seconds)
        if np.isfinite(past).all():
            self._chain.load(ONE, past[:, np.newaxis], moving=True)
        else:  # no way to brake can be computed
            self._chain.rest(ONE)

    def _steps_to_rest(self) -> int:
        """Return how many steps braking takes at most: `close` must come to an end in any case."""
        _, steps = self._limit.brake(self._chain.sent[:, -1], self._chain.seconds)
        return int(np.nan_to_num(steps, posinf=0.0)) + 2

    def _brake(self, reason: str) -> None:
        if self._phase is Phase.MOVING:
            self._phase, self.reason = Phase.BRAKING, reason

    def _listen(self) -> None:
        def note_all() -> None:
            for fault in self.head.poll():
                self._note(fault)

        self._safely(note_all)

    def _safely(self, act: Callable[[], Any]) -> None:
        """Do something with the head; an error is noted, because the thread has to go on, to stop if nothing else."""
        try:
            act()
        except Exception as error:
            self._note(error)

    def _note(self, fault: Exception) -> None:
        self.faults.append(fault)
        if self._on_fault is not None:
            try:
                self._on_fault(fault)
            except Exception as error:  # it must not end the thread either
                self.faults.append(error)


def _trajectory(limits: Any, n_actions: int, rate: float) -> tuple[AccelerationLimit | JerkLimit, Chain]:
    """Return the limit that brakes, and the chain of all limits."""
    if n_actions not in (1, 3):
        raise ArgumentError(f"n_actions must be 1 (pan) or 3 (pan, tilt and zoom); got {n_actions!r}")
    chain = Chain(limits, 1, n_actions, rate)
    last = chain.stages[-1] if chain.stages else None
    if not isinstance(last, BRAKES):
        raise ArgumentError(
            f"limits must end in an AccelerationLimit or a JerkLimit, which brakes; got {limits!r}: "
            "add AccelerationLimit(acceleration, rate=...) at the end"
        )
    return last, chain


def _start(given: Any) -> FloatArray:
    pose = np.array(given, dtype=np.float64)
    if pose.shape != (3,) or not np.isfinite(pose).all():
        raise ArgumentError(f"start must be three finite numbers: pan, tilt and zoom; got {given!r}")
    return pose


def _action(given: Any, n_actions: int) -> FloatArray | None:
    """Return an action as (k,) numbers; None where it says to stop."""
    if given is None:
        return None
    try:
        action = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"action must be {n_actions} numbers ({', '.join(NAMES[:n_actions])}); got {given!r}"
        ) from None
    if action.shape != (n_actions,):
        raise ArgumentError(
            f"action must have shape ({n_actions},): {', '.join(NAMES[:n_actions])}; got {action.shape}: "
            "give n_actions=... to the driver"
        )
    return action if (np.abs(action) <= LARGEST).all() else None
