"""The online predictor: one frame in, one action out, with the bits of `rollout`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike

from simile._common.typing import FloatArray
from simile.errors import ArgumentError, DivergedError
from simile.online import inputs
from simile.online.clock import Clock
from simile.online.gaps import Extrapolate, Gap
from simile.online.plans import Foresight
from simile.online.snapshots import State, check_state
from simile.online.streams import Streams
from simile.policies.bands import Banded, check_level
from simile.policies.policies import Policy, timing
from simile.policies.stages import Stage

if TYPE_CHECKING:
    from simile.online.recording import Recorder

ONE = np.arange(1)  # the only stream
APART = 2.0  # frames in the recording from one beginning to another: after a single one it would seem to go on


class Predictor:
    """A policy at work: takes the context of one frame and returns the action, and remembers its own past.

    Memory and time per frame do not grow. On the same contexts its actions are those of `rollout`, bit for bit.
    A frame that raises an error is not taken: the predictor is as it was before. (Of several ticks of a stamped
    frame, those before the error were taken, and the same frame may be tried again.)

    Parameters
    ----------
    policy : Policy
        What acts. What was mended in the data of its training, codes for missing values and angles that wrap, is mended
        in what comes; actions go out in the range of that log.
    start : (k,) or (n, k) array_like, optional
        The last known actions, oldest first, in the user's units. None starts cold: as if the action guessed from
        the first context had always been held; that and the first answer lie within what experts did in the first
        frames of recordings, where the policy knows it (`ActionSpace`). Where the first frame is an `override`, its
        action was held.
    gap : Gap
        What to do in a frame without a context: `Extrapolate()`, `HoldAction()` or `HoldContext()`.
    stages : sequence of Stage
        What the actuator can follow: `RateLimit`, `AccelerationLimit`, `JerkLimit`, `Play`, `Bounds`, as many as there
        are, in their order. They see the policy's actions and change what is sent; the policy's past remains its own
        actions. With a `start`, they go on from there; else they are at rest at the first action.
    rate : float, optional
        Frames per second, for stages and time stamps; that of the policy's card by default.
    seed : int
        For stochastic policies: the draws are those of sequence 0 of a roll-out with this seed.
    recorder : Recorder, optional
        What keeps every frame and action, off this thread. An `override` between two ticks, which takes the place of
        the latest action, is in the recording from the next tick on.
    name : str
        What the recording calls this stream.
    plan : (T, m) array_like or mapping, optional
        For a policy that knows contexts ahead (`known`): these contexts of all frames from the first on, by name or as
        a table of all; missing after its end. Without, each frame brings them (`step`).

    Examples
    --------
    >>> import simile
    >>> demos = simile.tasks.pursuit(n_sequences=2, length=100, seed=0)
    >>> policy = simile.clone(demos, model=simile.SmoothForest(n_trees=3), horizon=simile.Horizon(2, 0)).policy
    >>> predictor = Predictor(policy)
    >>> actions = [predictor.step(x) for x in demos[0].contexts]
    >>> bool(np.array_equal(actions, simile.rollout(policy, demos.contexts[:1], start=simile.ColdStart())[0]))
    True
    >>> predictor.step(None).shape  # a dropped frame
    (1,)

    A policy of `simile.learn` says how far off it may be:

    >>> predictor = Predictor(simile.learn(demos, model=simile.SmoothForest(n_trees=3)).policy)
    >>> banded = predictor.step(demos[0].contexts[0], band=0.9)
    >>> bool(banded.low <= banded.actions <= banded.high)
    True
    """

    def __init__(
        self,
        policy: Policy,
        *,
        start: ArrayLike | None = None,
        gap: Gap = Extrapolate(),  # noqa: B008 - frozen
        stages: Sequence[Stage] = (),
        rate: float | None = None,
        seed: int = 0,
        recorder: Recorder | None = None,
        name: str = "predictor",
        plan: Any = None,
    ) -> None:
        self._streams = Streams(policy, 1, start=_alone(start), gap=gap, stages=stages, rate=rate, seed=seed)
        self._foresight = Foresight(timing(policy)[1], self._streams.names, plan)
        self._clock = Clock(self._streams.rate)
        self._held = np.full(policy.n_actions, np.nan)  # what was sent at the latest tick
        self.name = name
        self.recording = None if recorder is None else self._streams.record(recorder, [name])
        self._epoch = 0.0  # the Unix time of the clock's zero
        self._tick: float | None = None  # what that clock says at this tick

    @overload
    def step(
        self, x: ArrayLike | Mapping[str, float] | None, t: float | None = ..., *, band: None = ..., ahead: Any = ...
    ) -> FloatArray | None: ...
    @overload
    def step(
        self, x: ArrayLike | Mapping[str, float] | None, t: float | None = ..., *, band: float, ahead: Any = ...
    ) -> Banded | None: ...
    def step(
        self,
        x: ArrayLike | Mapping[str, float] | None,
        t: float | None = None,
        *,
        band: float | None = None,
        ahead: Any = None,
    ) -> FloatArray | Banded | None:
        """Take one frame and return the action to send.

        Parameters
        ----------
        x : (m,) array_like or mapping, optional
            The context, in the order of training or by name; NaN is a missing value. None is a dropped frame: the
            last context is taken to have lasted, and `gap` chooses the action.
        t : float, optional
            Seconds. The policy then runs at its own rate: tick 0 is at the first stamp, every tick due since the
            last call is run with a context interpolated linearly between the stamps around it (an entry missing in
            either is taken from the nearer one), and the action of the latest tick is returned, which may be the
            same as before. After more than 10 seconds without a stamp, contexts start anew from x, the last action
            is the past, and a recording begins another sequence. Give t in every frame or in none.
        band : float, optional
            Level of the band to return with the action, such as 0.9, with the bits of `rollout(..., band=...)` where it
            is asked for from the first frame on; later it begins as if the context had lasted. In a gap it is that of
            the last context. What an operator does (`override`) moves the level.
        ahead : (any, m) array_like or mapping, optional
            What is known now of the frames to come, the next one first, of a policy that knows contexts ahead; it goes
            before a plan. Where neither is given, x brings the columns `name[t+frames]` itself.

        Returns
        -------
        (k,) array, or None
            The action in the user's units; with `band`, a `Banded` that holds it. A policy with a `lead` answers for
            frame t + lead: one that may wait gives None until it has waited, and the last answers by `flush`.

        Raises
        ------
        DivergedError
            When the action leaves every reasonable range.
        """
        X = self._read(x, t, ahead)
        self._ask(band)
        if t is None and not self._clock.running:
            action = self._take(X).reshape(-1)
        else:
            self._run(t, X, self._take)
            action = self._held.copy()
        if self._streams.history.wait and np.isnan(action).any():
            return None
        if band is None:
            return self._streams.preparer.restore(action)
        found = self._streams.tell_band(ONE, action[np.newaxis])
        return Banded(*(getattr(found, f.name)[0] for f in fields(Banded)))

    def _read(self, x: Any, t: float | None, ahead: Any) -> FloatArray | None:
        """Return the context of a frame as (1, m), with what is known ahead; None where none came."""
        if self._foresight.known and x is not None:
            x = self._foresight.widen(x, self._count_frames(t), ahead)
        elif ahead is not None and not self._foresight.known:
            raise ArgumentError("ahead: this policy knows nothing ahead: learn with known={...}, or leave it out")
        if x is None:
            return None
        return self._streams.preparer.prepare(
            ONE, inputs.read_context(x, self._streams.n_contexts, self._streams.names)
        )

    def _count_frames(self, t: float | None) -> int:
        """Return the number of the frame that comes, by which a plan is read."""
        if t is not None and self._foresight.plan is not None:
            raise ArgumentError("plan: frames with time stamps bring what is known: give step(x, t, ahead=...)")
        return int(self._streams.history.frame[0] + self._streams.history.waited[0])

    @overload
    def flush(self, *, band: None = ...) -> FloatArray: ...
    @overload
    def flush(self, *, band: float) -> Banded: ...
    def flush(self, *, band: float | None = None) -> FloatArray | Banded:
        """End the sequence: return the answers that are still due, (n, k), as if the last context had lasted.

        There are some where the policy may wait (`lead` below 0), one for each frame without an answer; with `band`, a
        `Banded` of such arrays. The predictor is as new afterwards.
        """
        self._ask(band)
        none = np.empty((0, self._streams.n_actions))
        found = [Banded(none, none, none, np.empty(0, np.bool_))]
        for sent in self._streams.flush(self._streams.find_due(ONE)):
            if self._tick is not None:
                self._tick += 1.0 / (self._clock.rate or 1.0)
            self._keep(None, sent, "policy")
            if not np.isnan(sent).any():
                found.append(self._streams.tell_band(ONE, sent))
        self.reset()
        banded = Banded(*(np.concatenate([getattr(one, f.name) for one in found]) for f in fields(Banded)))
        return banded.actions if band is None else banded

    def override(
        self,
        action: ArrayLike,
        x: ArrayLike | Mapping[str, float] | None = None,
        t: float | None = None,
        *,
        ahead: Any = None,
    ) -> FloatArray:
        """Let an operator act in this frame: the action becomes the past and is sent as it is, past all stages.

        When the policy takes over again, it goes on from there, because h continues the operator's actions; stages
        go on from the operator's position and speed. An action outside the bounds is accepted: it did happen. One a
        million deviations from the training's mean is not: it did not.

        Parameters
        ----------
        action : (k,) array_like
            What the operator did, in the user's units; finite.
        x, t, ahead
            As in `step`; without x the last context is taken to have lasted. With t, the operator has acted in all
            ticks due since the last call; where none is due, the action takes the place of the latest one.

        Returns
        -------
        (k,) array
            The action, for the actuator.
        """
        A = self._streams.read_actions(ONE, action, "action")
        X = self._read(x, t, ahead)
        if t is None and not self._clock.running:
            return self._streams.preparer.restore(self._lead(A, X).reshape(-1))
        if not self._run(t, X, lambda at: self._lead(A, at)):
            self._held = self._streams.amend(ONE, A)[0]
        return self._streams.preparer.restore(self._held.copy())

    def reset(self, start: ArrayLike | None = None) -> None:
        """Forget everything, as a new predictor with this `start` would; None starts cold."""
        self._streams.reset(ONE, _alone(start))
        self._clock.reset()
        self._held[:] = np.nan
        self._tick = None
        self._begin()

    def state_dict(self) -> State:
        """Return all that is needed to go on elsewhere with equal bits: arrays and plain numbers by name."""
        return {
            **self._streams.state(),
            **self._clock.state(self._streams.n_contexts),
            "held": self._held.copy(),
        }

    def load_state_dict(self, state: State) -> None:
        """Go on where another predictor was when it returned `state`; policy and stages must be like its own."""
        self._streams.expect(state)
        state = check_state(state, self.state_dict())
        self._streams.load(state)
        self._clock.load(state)
        self._held = np.array(state["held"])
        self._tick = None
        self._set_epoch(self._clock.now)
        self._begin()

    def _take(self, X: FloatArray | None) -> FloatArray:
        try:
            taken = self._streams.miss(ONE) if X is None else self._streams.step(ONE, X)
        except DivergedError:  # no demonstration goes on over that
            self._begin()
            raise
        self._keep(X, taken, "gap" if X is None else "policy")
        return taken

    def _keep(self, X: FloatArray | None, taken: FloatArray, who: str) -> None:
        """Record a frame that was taken, and measure its band."""
        if self.recording is not None:
            self._streams.note(self.recording, ONE, X, taken, who, self._read_clock())
        self._streams.warn_of_restarts()
        self._streams.measure_asked(ONE)

    def _begin(self) -> None:
        """Let the recording begin another sequence with the next frame."""
        if self.recording is not None:
            self.recording.begin(0, self.name)

    def _set_epoch(self, t: float) -> None:
        """Let time t of the clock be now in the recording, or after all that is there: stamps may outrun the time."""
        if self.recording is not None:
            self._epoch = max(time.time(), self.recording.latest + APART / (self._clock.rate or 1.0)) - t

    def _read_clock(self) -> float | None:
        """Return the Unix time of the tick at hand; None where frames are not stamped: it is now."""
        return None if self._tick is None else self._epoch + self._tick

    def _lead(self, A: FloatArray, X: FloatArray | None) -> FloatArray:
        taken = self._streams.override(ONE, A, X)
        if self.recording is not None:
            self._streams.note(self.recording, ONE, X, taken, "operator", self._read_clock())
        self._streams.measure_asked(ONE, led=True)
        return taken

    def _ask(self, band: float | None) -> None:
        """Measure bands from now on, where one is asked for; a policy without one is refused before the frame."""
        if band is not None:
            self._streams.ask_band(ONE, check_level(band))

    def _run(self, t: Any, X: FloatArray | None, take: Callable[[FloatArray | None], FloatArray]) -> int:
        """Run the ticks due by time t; returns how many there were."""
        clock = self._clock
        t = clock.check(t, counted=bool(self._streams.history.frame[0]))
        paused = clock.is_paused(t)
        if paused:  # which the stamps tell in the recording, too
            self._streams.restart(ONE, X)
            self._begin()
        if not clock.running:
            self._set_epoch(t)
        if paused or not clock.running:
            clock.begin(t)
        due = clock.due(t)
        for tick in due:
            self._tick = clock.origin + tick / (clock.rate or 1.0)
            self._held = take(clock.context_at(tick, t, X))[0]
            clock.ticks = tick + 1
        clock.note(t, X)
        return len(due)


def _alone(start: Any) -> Any:
    """Return known actions (any, k) as those of one stream of a pool."""
    return start if start is None or callable(start) else [start]
