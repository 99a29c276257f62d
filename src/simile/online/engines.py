"""Engines: how a policy acts in one frame of many streams, with the bits of `rollout`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.data.states import Horizon, Tape
from simile.errors import ArgumentError, DataError, DivergedError, SimileError
from simile.online.history import History
from simile.policies.fused import FusedPolicy
from simile.policies.hold import Hold
from simile.policies.policies import Policy, SmoothPolicy, hold, is_stochastic, timing
from simile.policies.precision import find_limits, warn_unresolved
from simile.policies.rollouts import DIVERGED, reasonable

BLOCK = 64  # uniform numbers drawn at a time


class Engine(Protocol):
    """Acts on the past of streams; a frame that fails leaves them as they were."""

    @property
    def history(self) -> History:
        """The past of the streams."""

    @property
    def bounds(self) -> UserBounds:
        """Between standard and the user's units."""

    def act(self, streams: IntArray) -> FloatArray:
        """Return the actions (n, k), in standard units, where the contexts were pushed."""

    def advance(self, streams: IntArray, X: FloatArray) -> FloatArray:
        """Take a frame with contexts X (n, m); returns the actions (n, k) in the user's units."""


def engine_of(policy: Policy, n_streams: int, seed: int, n_contexts: int | None) -> Engine:
    """Return the engine for a collapsed policy: one kernel where it can be fused, else its own `act`."""
    fused = FusedPolicy.of(policy)
    if fused is None or not isinstance(policy, SmoothPolicy):
        return GeneralEngine(policy, n_streams, seed, n_contexts)
    return FusedEngine(policy, fused, n_streams)


class UserBounds:
    """A policy's units and bounds, one value per action: what `rollout` does with its actions, frame by frame."""

    def __init__(self, policy: Policy, n_contexts: int = 0) -> None:
        self.policy = policy
        self.limits = find_limits(policy, n_contexts, online=True)
        units, space, k = policy.units, policy.space, policy.n_actions
        self.low, self.high, self.center, self.scale, self.floor, self.ceiling = (
            np.broadcast_to(values, (k,)).copy()
            for values in (
                units.standardize(space.low),
                units.standardize(space.high),
                units.center,
                units.scale,
                space.low,
                space.high,
            )
        )
        self.reason = reasonable(policy)

    def check(self, actions: FloatArray, streams: IntArray, frames: IntArray) -> FloatArray:
        """Clip actions (n, k) in standard units; refuse those that are no actions any more."""
        actions = np.clip(actions, self.low, self.high)
        wild = ~(np.abs(actions) <= DIVERGED).all(axis=1)  # catches NaN too
        if wild.any():
            i = int(np.argmax(wild))
            raise self.divergence(int(streams[i]), int(frames[i]), actions[i])
        return actions

    def check_given(self, actions: FloatArray, name: str) -> FloatArray:
        """Return actions (..., k) that somebody gave, in the user's units; refuse those that are no actions."""
        low, high = self.reason
        wild = ~((actions >= low) & (actions <= high))
        if wild.any():
            raise ArgumentError(
                f"{name} must lie within {DIVERGED:g} deviations of the training's mean, from {_list(low)} to "
                f"{_list(high)}; got {_list(actions[wild])}"
            )
        return actions

    def restore(self, actions: FloatArray) -> FloatArray:
        """Bring actions (n, k) to the user's units and exactly into the user's bounds."""
        return self.policy.space.clip(self.policy.units.restore(actions))

    def watch(self, X: FloatArray) -> bool:
        """Tell, once, of contexts (n, m), measured from the origin, that the training had nothing like."""
        told = self.limits is not None and warn_unresolved(self.policy, X, self.limits)
        self.limits = None if told else self.limits
        return told

    def divergence(self, stream: int, frame: int, action: FloatArray) -> DivergedError:
        """Say which stream diverged, and where."""
        error = DivergedError(
            f"stream {stream} diverged at frame {frame}, at the action {self.policy.units.restore(action)}; no stream "
            "took the frame: reset it or override the action, and try other smoothness, fewer action lags, an "
            "ActionSpace"
        )
        error.stream = stream
        return error


def _list(values: FloatArray) -> str:
    return ", ".join(f"{value:g}" for value in values[:5])


class GeneralEngine:
    """Asks the policy itself: for any model."""

    def __init__(self, policy: Policy, n_streams: int, seed: int, n_contexts: int | None) -> None:
        self.policy = policy
        self.bounds = UserBounds(policy, n_contexts or 0)
        sizes = n_streams, policy.reach, n_contexts or 0, policy.n_actions
        self.history = History(*sizes, hold(policy), single=False, ahead=-timing(policy)[0])
        self.draws = Draws(seed, n_streams) if is_stochastic(policy) else None
        self._floor = np.empty(0, np.intp)

    def act(self, streams: IntArray) -> FloatArray:
        """Return the actions (n, k), in standard units, where the contexts were pushed."""
        return self._choose(streams)[0]

    def _choose(self, streams: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the actions, and the offsets of the frame after this one, (n, k) each."""
        history, frames = self.history, self.history.frame[streams]
        if len(self._floor) != len(history.flat_actions):  # there is room for more streams now
            self._floor = np.repeat(np.arange(len(history.actions)) * history.rows, history.rows)
        tape = Tape([history.Z.reshape(len(self._floor), -1)], history.flat_actions, self._floor)
        chance = np.zeros(len(streams)) if self.draws is None else self.draws(streams, frames)
        states, kept = tape.states(Horizon(0, 0), history.places(streams)), history.offset[streams]
        with explain_missing(lambda: self._window(streams)):
            if isinstance(self.policy, SmoothPolicy) and self.policy.offset is not None:
                acted, kept = self.policy.go_on(states, kept)
            else:
                acted = self.policy.act(states, chance)
        return self.bounds.check(acted, streams, frames), kept

    def advance(self, streams: IntArray, X: FloatArray) -> FloatArray:
        """Take a frame with contexts X (n, m); returns the actions (n, k) in the user's units."""
        self.history.push(streams, X)
        self.bounds.watch(X)
        acted, self.history.offset[streams] = self._choose(streams)
        self.history.commit(streams, acted)
        return self.bounds.restore(self.history.output(streams, acted))

    def _window(self, streams: IntArray) -> FloatArray:
        """Return the contexts that the policy reads in this frame, (n, reach + 1, m)."""
        recent = self.history.row[streams, np.newaxis] - np.arange(self.history.reach + 1)
        return np.asarray(self.history.Z[streams[:, np.newaxis], recent], dtype=np.float64)


class FusedEngine:
    """One kernel call for a frame of all streams."""

    def __init__(self, policy: SmoothPolicy, fused: FusedPolicy, n_streams: int) -> None:
        from simile.models.kernels import rolling

        k = policy.n_actions
        self.bounds = bounds = UserBounds(policy, fused.width - k)
        sizes = n_streams, policy.reach, fused.width - k, k
        self.history = History(*sizes, policy.hold, single=True, ahead=-policy.horizon.lead)
        self._roll, self._make_desk = rolling.roll, rolling.make_desk
        self._advance: Any = rolling.advance
        self._control = fused.control(bounds.low, bounds.high, DIVERGED)
        self._parts = (*self._control.trees, *self._control.lines, *self._control[2:-2])
        limits = np.full(fused.width - k, np.inf) if bounds.limits is None else bounds.limits
        held = Hold(np.zeros(k)) if policy.hold is None else policy.hold
        user = (bounds.center, bounds.scale, bounds.floor, bounds.ceiling)
        kept = self._control[-2:]
        self._units = np.concatenate([*user, held.width, held.stepping, *kept, limits])
        self.advance(np.arange(0), np.empty((0, self.history.n_contexts)))  # compiled now, not in the first frame

    def act(self, streams: IntArray) -> FloatArray:
        """Return the actions (n, k), in standard units, where the contexts were pushed."""
        history, places = self.history, self.history.places(streams)
        begin, end, desk = (
            np.zeros_like(places),
            np.ones_like(places),
            self._make_desk(len(places), history.actions.shape[2]),
        )
        desk.offset[:] = history.offset[streams]
        lost, _ = self._roll(self._control, history.flat_Z, history.flat_actions, places, begin, end, desk)
        acted = history.flat_actions[places]
        if lost >= 0:
            raise self.bounds.divergence(int(streams[lost]), int(history.frame[streams[lost]]), acted[lost])
        return acted

    def advance(self, streams: IntArray, X: FloatArray) -> FloatArray:
        """Take a frame with contexts X (n, m); returns the actions (n, k) in the user's units."""
        history = self.history
        actions = np.empty((len(streams), history.actions.shape[2]))
        lost = self._advance(*self._parts, *history.past, self._units, streams, X, actions)
        if lost >= 0:
            stream = int(streams[lost])
            wild = history.flat_actions[history.places(streams)[lost]]
            raise self.bounds.divergence(stream, int(history.frame[stream]), wild)
        if lost < -1 and self.bounds.watch(X):
            self._units[8 * actions.shape[1] :] = np.inf
        return actions


class Draws:
    """The uniform numbers of each stream: in frame t, number t of `default_rng((seed, stream))`, as in `rollout`.

    They follow from stream and frame, so that there is no generator whose state one would have to keep.
    """

    def __init__(self, seed: int, n_streams: int) -> None:
        self.seed = seed
        self._block = np.full(n_streams, -1, np.intp)  # which block of numbers of its generator a stream holds
        self._numbers = np.empty((n_streams, BLOCK))

    def __call__(self, streams: IntArray, frames: IntArray) -> FloatArray:
        """Return the numbers of these frames, (n,)."""
        block = frames // BLOCK
        for i in np.flatnonzero(self._block[streams] != block):
            generator = np.random.PCG64(np.random.SeedSequence((self.seed, int(streams[i]))))
            generator.advance(int(block[i]) * BLOCK)
            self._numbers[streams[i]] = np.random.Generator(generator).random(BLOCK)
            self._block[streams[i]] = block[i]
        return self._numbers[streams, frames % BLOCK]

    def reseed(self, seed: int) -> None:
        """Draw by another seed."""
        self.seed = seed
        self._block[:] = -1


@contextmanager
def explain_missing(contexts: Callable[[], FloatArray]) -> Iterator[None]:
    """Where a model refuses contexts that hold NaN, say so, and the way out."""
    try:
        yield
    except SimileError:
        raise
    except ValueError as error:
        if not np.isnan(contexts()).any():
            raise
        reason = str(error).split("\n", maxsplit=1)[0]
        raise DataError(
            f"x holds NaN (missing), now or within the policy's lags, and its model cannot take it ({reason}): fill "
            "the values in before step(), drop the frame with step(None), or learn with model=SmoothForest(), which "
            "takes NaN as it is"
        ) from error
