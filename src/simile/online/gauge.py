"""Bands of streams, frame after frame, with the bits of `rollout(..., band=...)`; adaptive where an operator acts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.data.states import Tape
from simile.online.history import History
from simile.policies.bands import LEVELS, Banded, Doubts
from simile.policies.policies import Policy, offset

PACE = 0.005  # by which an operator's frame moves the level (Gibbs and Candes 2021)
FURTHEST = 0.5  # that it moves in all


class Gauge:
    """Measures sigma in every frame of some streams, after they took it.

    A stream that was not measured in the frame before begins as if its context had lasted forever; at known actions,
    without a width. In a gap it does last, and the policy is unsure once nothing that it saw still acts: for longer
    than its filter lags. Where an operator acts, the policy is rolled out on beside it, as if nobody had interfered,
    stages aside: whether its band holds the operator's action moves the level of that stream, up where it often does
    not.

    Parameters
    ----------
    policy : Policy
        One with a band, as it was given.
    history : History
        The past of the streams, as the policy knows it.

    Attributes
    ----------
    level : (n,) array
        Of the bands that were asked for; 0 where nobody has.
    """

    def __init__(self, policy: Policy, history: History) -> None:
        self.policy, self.history, self.doubts = policy, history, Doubts.of(policy)
        n, k, q = len(history.row), policy.n_actions, self.doubts.loop.order
        self._offset = offset(policy)
        self._bounds = [policy.units.standardize(bound) for bound in (policy.space.low, policy.space.high)]
        self._lag = max(1.0, float(self.doubts.loop.lags.max()))  # frames in which contexts from before a gap still act
        self.level = np.zeros(n)
        self._half = np.zeros((n, k))  # of the latest band, in the user's units
        self._carried = np.zeros((k, q + 1, n))  # states of the filter of doubts
        self._alone = np.zeros((k, q + 1, n))  # the same, and past actions, as if nobody had interfered
        self._wanted = np.zeros((n, max(q, 1), k))
        self._stand, self._kept = np.zeros((2, n, k))  # where the hysteresis stands, and the offset of the next frame
        self._moved = np.zeros((n, k))  # of the level
        self._frame = np.full(n, -1, np.intp)  # that was measured last
        self._on = np.zeros(n, np.bool_)
        self._acted = np.zeros(n, np.bool_)  # has the policy chosen a frame?
        self._floor = np.empty(0, np.intp)

    def step(self, streams: IntArray, known: Any) -> None:
        """Measure a frame that the policy chose, or a gap; `known` (n,) are those that began at known actions."""
        band, loop, history = self.doubts.band, self.doubts.loop, self.history
        doubt = self._doubt(streams)
        self._begin(streams, doubt, known)
        state = self._carried[:, :, streams]
        carried = loop.carry(doubt[np.newaxis], state)[0]
        self._carried[:, :, streams] = self._alone[:, :, streams] = state
        past = history.past_actions(streams, max(loop.order, 2))
        self._wanted[streams] = past[:, : self._wanted.shape[1]]
        self._stand[streams], self._kept[streams] = history.position[streams], history.offset[streams]
        self._frame[streams], self._acted[streams] = history.frame[streams], True
        sigma = band.sigma(carried, np.abs(past[:, 0] - past[:, 1]))
        self._watch(streams, band.excess(sigma))
        self._half[streams] = self._quantile(streams, self.level[streams]) * sigma * self.policy.units.scale

    def override(self, streams: IntArray, known: Any) -> None:
        """Measure a frame in which operators act: what they do has no width; the level is moved by it."""
        band, loop, history = self.doubts.band, self.doubts.loop, self.history
        doubt, fresh = self._doubt(streams), self._frame[streams] != history.frame[streams] - 1
        self._begin(streams, np.zeros_like(doubt), known)
        new = streams[fresh]  # nothing is known of what the policy would have done
        self._wanted[new] = history.past_actions(new, self._wanted.shape[1] + 1)[:, 1:]
        self._stand[new], self._kept[new] = self._wanted[new, 0], np.nan
        state = self._alone[:, :, streams]
        carried = loop.carry(doubt[np.newaxis], state)[0]
        self._alone[:, :, streams] = state
        before = self._wanted[streams]
        wanted, done = self._go_on(streams)
        sigma = band.sigma(carried, np.abs(wanted - before[:, 0]))
        missed = np.abs(history.last(streams) - done) > self._quantile(streams, self.level[streams]) * sigma
        # Who leads from the start says nothing of the policy.
        step = PACE * (missed - (1.0 - self.level[streams, np.newaxis])) * self._acted[streams, np.newaxis]
        self._moved[streams] = np.clip(self._moved[streams] + step, -FURTHEST, FURTHEST)
        # What is done is known: nothing comes out of the filter in this frame.
        self._carried[:, :-1, streams] = self._carried[:, 1:, streams]
        self._frame[streams] = history.frame[streams]
        self.settle(streams)

    def settle(self, streams: IntArray) -> None:
        """Note that what was done in the latest frame is known: it has no width, and nobody is unsure of it."""
        self._half[streams] = 0.0
        self._watch(streams, np.zeros(len(streams)))

    def draw(self, streams: IntArray, sent: FloatArray) -> Banded:
        """Return the latest bands, around what is sent, (n, k)."""
        half, clip = self._half[streams], self.policy.space.clip
        low, high = np.minimum(clip(sent - half), sent), np.maximum(clip(sent + half), sent)
        bare = half == 0.0  # and stays so for an operator outside the bounds
        blind = (self.history.missed[streams] > self._lag) & ~bare.all(axis=1)
        return Banded(sent, np.where(bare, sent, low), np.where(bare, sent, high), self._on[streams] | blind)

    def reset(self, streams: IntArray) -> None:
        """Forget streams."""
        self.level[streams] = self._half[streams] = self._moved[streams] = 0.0
        self._frame[streams], self._on[streams], self._acted[streams] = -1, False, False

    def state(self, streams: IntArray) -> FloatArray:
        """Return all that tells streams apart, a row (n, any) for each; all of it are numbers."""
        parts = [np.reshape(part, (len(streams), -1)) for part in self._parts(streams)]
        return np.concatenate(parts, axis=1, dtype=np.float64)

    def load(self, streams: IntArray, state: FloatArray) -> None:
        """Take over what `state` returned."""
        shapes = [part.shape[1:] for part in self._parts(streams)]
        columns = np.split(state, np.cumsum([math.prod(shape) for shape in shapes])[:-1], axis=1)
        given = [np.reshape(part, (-1, *shape)) for part, shape in zip(columns, shapes, strict=True)]
        for own, part in zip((self._carried, self._alone), given, strict=False):
            own[:, :, streams] = np.moveaxis(part, 0, 2)
        kept, anew, frame = given[2:5]
        self._kept[streams] = np.where(anew > 0.0, np.nan, kept)
        self._frame[streams] = np.clip(frame, -1.0, 2.0**53)  # whatever a file says
        for own, part in zip(self._columns, given[5:], strict=True):
            own[streams] = part

    @property
    def _columns(self) -> tuple[Any, ...]:
        """What is kept of each stream as it is."""
        return (self._wanted, self._stand, self._moved, self._half, self.level, self._on, self._acted)

    def _parts(self, streams: IntArray) -> list[Any]:
        """Return all that tells streams apart, (n, ...) each."""
        states = [np.moveaxis(own[:, :, streams], 2, 0) for own in (self._carried, self._alone)]
        kept, frame = self._kept[streams], self._frame[streams]
        return [*states, np.nan_to_num(kept), np.isnan(kept), frame, *(own[streams] for own in self._columns)]

    def _go_on(self, streams: IntArray) -> tuple[FloatArray, FloatArray]:
        """Roll the policy out by a frame, as if nobody had interfered; returns what it wants and does, (n, k) each."""
        loop, before = self.doubts.loop, self._wanted[streams]
        z = self._say(streams)
        if self._offset is not None:
            z, self._kept[streams] = self._offset(z, before[:, 0], self._kept[streams])
        # Added up lag by lag, so that the bits of a stream do not depend on those beside it.
        drawn = sum(tap * past for tap, past in zip(loop.taps[1:], np.moveaxis(before, 1, 0), strict=False))
        wanted = np.clip((z - drawn) / loop.taps[0], *self._bounds)
        hold = self.history.passed
        self._stand[streams] = done = wanted if hold is None else hold(wanted, self._stand[streams])
        self._wanted[streams] = np.concatenate([wanted[:, np.newaxis], before[:, :-1]], axis=1)
        return wanted, done

    def _begin(self, streams: IntArray, doubt: FloatArray, known: Any) -> None:
        """Begin where the frame before was not measured: at rest, or at known actions."""
        frame = self.history.frame[streams]
        fresh = self._frame[streams] != frame - 1
        if fresh.any():
            at = np.where((known & (frame == 1))[:, np.newaxis], 0.0, doubt)
            self._carried[:, :, streams[fresh]] = self._alone[:, :, streams[fresh]] = self.doubts.loop.rest(at[fresh])
            new = streams[fresh]
            self._moved[new], self._on[new], self._acted[new] = 0.0, False, False

    def _doubt(self, streams: IntArray) -> FloatArray:
        """Return what goes into the filter in the frame that was taken, (n, k)."""
        history, m = self.history, self.history.n_contexts
        row = history.row[streams] - max(0, -history.ahead)
        signs = self.doubts.band.signs(history.Z[streams, row - 1, :m], history.Z[streams, row - 2, :m])
        away = self.doubts.ask(*self._tape(streams)) if len(self.doubts.voices) > 1 else np.zeros(1)
        return self.doubts.band.doubt(away, *signs)

    def _say(self, streams: IntArray) -> FloatArray:
        """Return what f says in the frame that was taken, (n, k)."""
        tape, rows = self._tape(streams)
        matrix = tape.states(self.doubts.voices[0][1].horizon, rows).matrix()
        return np.asarray(sum(weight * part.f.predict(matrix) for weight, part in self.doubts.voices))

    def _tape(self, streams: IntArray) -> tuple[Tape, IntArray]:
        history = self.history
        n = len(history.flat_actions)
        if len(self._floor) != n:  # there is room for more streams now
            self._floor = np.repeat(np.arange(len(history.actions)) * history.rows, history.rows)
        contexts = history.Z.reshape(n, -1)[:, : history.n_contexts]
        return Tape([contexts], history.flat_actions, self._floor), history.places(streams) - 1

    def _quantile(self, streams: IntArray, level: FloatArray) -> FloatArray:
        """Return q, (n, k), at a level that operators have moved."""
        levels = np.clip(np.reshape(level, (-1, 1)) + self._moved[streams], LEVELS[0], LEVELS[-1])
        return self.doubts.band.quantile(levels)

    def _watch(self, streams: IntArray, excess: FloatArray) -> None:
        alarm = self.doubts.band.alarm
        self._on[streams] = excess > np.where(self._on[streams], alarm[1], alarm[0])
