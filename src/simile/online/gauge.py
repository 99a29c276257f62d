"""Bands of streams, frame after frame, with the bits of `rollout(..., band=...)`; adaptive where an operator acts."""

from __future__ import annotations

from typing import Any

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.data.states import Tape
from simile.online.history import History
from simile.policies.bands import LEVELS, Banded, Doubts
from simile.policies.policies import Policy

PACE = 0.005  # by which an operator's frame moves the level (Gibbs and Candes 2021)
FURTHEST = 0.5  # that it moves in all

Level = float | FloatArray


class Gauge:
    """Measures sigma in every frame of some streams, after they took it.

    A stream that was not measured in the frame before begins as if its context had lasted forever; at known actions,
    without a width. Where an operator acts, the policy is rolled out on beside it, as if nobody had interfered: whether
    its band holds the operator's action moves the level of that stream, up where it often does not.

    Parameters
    ----------
    policy : Policy
        One with a band, as it was given.
    history : History
        The past of the streams, as the policy knows it.
    """

    def __init__(self, policy: Policy, history: History) -> None:
        self.policy, self.history, self.doubts = policy, history, Doubts.of(policy)
        n, k, q = len(history.row), policy.n_actions, self.doubts.loop.order
        self._carried = np.zeros((k, q + 1, n))  # states of the filter of doubts
        self._alone = np.zeros((k, q + 1, n))  # the same, and past actions, as if nobody had interfered
        self._wanted = np.zeros((n, max(q, 1), k))
        self._moved = np.zeros((n, k))  # of the level
        self._frame = np.full(n, -1, np.intp)  # that was measured last
        self._on = np.zeros(n, np.bool_)
        self._acted = np.zeros(n, np.bool_)  # has the policy chosen a frame?
        self._floor = np.empty(0, np.intp)

    def step(self, streams: IntArray, known: Any, sent: FloatArray, level: Level) -> Banded:
        """Measure a frame that the policy chose, or a gap: the band around what is sent, (n, k) each.

        `known` (n,) tells whose first frame comes after known actions. The level is that of all, or of each.
        """
        band, loop, history = self.doubts.band, self.doubts.loop, self.history
        doubt = self._doubt(streams)
        self._begin(streams, doubt, known)
        state = self._carried[:, :, streams]
        carried = loop.carry(doubt[np.newaxis], state)[0]
        self._carried[:, :, streams] = self._alone[:, :, streams] = state
        past = history.past_actions(streams, max(loop.order, 2))
        self._wanted[streams] = past[:, : self._wanted.shape[1]]
        self._frame[streams], self._acted[streams] = history.frame[streams], True
        sigma = band.sigma(carried, np.abs(past[:, 0] - past[:, 1]))
        self._watch(streams, band.excess(sigma))
        half = self._quantile(streams, level) * sigma * self.policy.units.scale
        low, high = self.policy.space.clip(sent - half), self.policy.space.clip(sent + half)
        return Banded(sent, np.minimum(low, sent), np.maximum(high, sent), self._on[streams])

    def override(self, streams: IntArray, known: Any, sent: FloatArray, level: Level) -> Banded:
        """Measure a frame in which operators act: what they do has no width; the level is moved by it."""
        band, loop, history = self.doubts.band, self.doubts.loop, self.history
        doubt, fresh = self._doubt(streams), self._frame[streams] != history.frame[streams] - 1
        self._begin(streams, np.zeros_like(doubt), known)
        new = streams[fresh]  # nothing is known of what the policy would have done
        self._wanted[new] = history.past_actions(new, self._wanted.shape[1] + 1)[:, 1:]
        state = self._alone[:, :, streams]
        carried = loop.carry(doubt[np.newaxis], state)[0]
        self._alone[:, :, streams] = state
        said = self._say(streams)
        before = self._wanted[streams]
        wanted = (said - np.einsum("ik,nik->nk", loop.taps[1:], before[:, : loop.order])) / loop.taps[0]
        self._wanted[streams] = np.concatenate([wanted[:, np.newaxis], before[:, :-1]], axis=1)
        sigma = band.sigma(carried, np.abs(wanted - before[:, 0]))
        missed = np.abs(history.last(streams) - wanted) > self._quantile(streams, level) * sigma
        # Who leads from the start says nothing of the policy.
        step = np.where(self._acted[streams, np.newaxis], PACE * (missed - (1.0 - np.reshape(level, (-1, 1)))), 0.0)
        self._moved[streams] = np.clip(self._moved[streams] + step, -FURTHEST, FURTHEST)
        # What is done is known: nothing comes out of the filter in this frame.
        self._carried[:, :-1, streams] = self._carried[:, 1:, streams]
        self._frame[streams] = history.frame[streams]
        self._watch(streams, np.zeros(len(streams)))
        return Banded(sent, sent.copy(), sent.copy(), self._on[streams])

    def reset(self, streams: IntArray) -> None:
        """Forget streams."""
        self._moved[streams], self._frame[streams], self._on[streams], self._acted[streams] = 0.0, -1, False, False

    def state(self, streams: IntArray) -> FloatArray:
        """Return all that tells streams apart, a row (n, any) for each."""
        parts = (
            np.moveaxis(self._carried[:, :, streams], 2, 0),
            np.moveaxis(self._alone[:, :, streams], 2, 0),
            self._wanted[streams],
            self._moved[streams],
            self._frame[streams],
            self._on[streams],
            self._acted[streams],
        )
        return np.concatenate([np.reshape(part, (len(streams), -1)) for part in parts], axis=1, dtype=np.float64)

    def load(self, streams: IntArray, state: FloatArray) -> None:
        """Take over what `state` returned."""
        k, rows, _ = self._carried.shape
        sizes = np.cumsum([k * rows, k * rows, self._wanted[0].size, k, 1, 1])
        carried, alone, wanted, moved, frame, on, acted = np.split(state, sizes, axis=1)
        for own, given in ((self._carried, carried), (self._alone, alone)):
            own[:, :, streams] = np.moveaxis(given.reshape(-1, k, rows), 0, 2)
        self._wanted[streams] = wanted.reshape(-1, *self._wanted.shape[1:])
        self._moved[streams] = moved
        self._frame[streams] = frame[:, 0].astype(np.intp)
        self._on[streams], self._acted[streams] = on[:, 0] > 0.0, acted[:, 0] > 0.0

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

    def _quantile(self, streams: IntArray, level: Level) -> FloatArray:
        """Return q, (n, k), at a level that operators have moved."""
        levels = np.clip(np.reshape(level, (-1, 1)) + self._moved[streams], LEVELS[0], LEVELS[-1])
        return self.doubts.band.quantile(levels)

    def _watch(self, streams: IntArray, excess: FloatArray) -> None:
        alarm = self.doubts.band.alarm
        self._on[streams] = excess > np.where(self._on[streams], alarm[1], alarm[0])
