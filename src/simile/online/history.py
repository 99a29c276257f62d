"""The recent past of many streams: as much as a policy looks back, and no more however long a stream runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.policies.footprint import SPARE
from simile.policies.hold import Hold

Mark = tuple[IntArray, IntArray, IntArray, Any, Any, FloatArray]  # frame, missed, waited, begun, seen, stand


class History:
    """The past of each of n streams, which slides on: contexts, and actions in standard units.

    Room is made when streams begin: for all up to the highest of them, and for twice as many as before at least.

    Parameters
    ----------
    n_streams : int
        n.
    reach : int
        How many frames back the policy looks.
    n_contexts : int
        m; 0 where only the first context will tell.
    n_actions : int
        k.
    hold : Hold, optional
        The hysteresis that the actions pass; `position` is where its output stands. `offset` is what is added to f in
        the next frame that the policy chooses; NaN where the last was not its own, and it is taken anew.
    single : bool
        Whether contexts are kept in single precision with the actions beside them, as the kernels read them.
    ahead : int
        How many frames the contexts are ahead of the actions, or below 0 behind: a policy with a lead (`Horizon`) acts
        for a frame when so many have come after it. `waited` have.
    """

    def __init__(
        self,
        n_streams: int,
        reach: int,
        n_contexts: int,
        n_actions: int,
        hold: Hold | None = None,
        *,
        single: bool,
        ahead: int = 0,
    ) -> None:
        from simile.models.kernels import rolling

        self._move, self._streams = rolling.make_room, rolling.Streams
        self.reach = max(1, reach)  # one at least, for the last context and action
        self.ahead, self.wait = ahead, max(0, ahead)
        self.rows = self.reach + SPARE + self.wait
        self.single = single
        self.actions = np.zeros((1, self.rows, n_actions))
        self.passed = hold
        self.stand = np.zeros((1, 2, n_actions))  # position, and the offset of the next frame
        self.row = np.full(n_streams, self.reach)  # the next to be written
        self.frame = np.zeros(n_streams, np.intp)  # frames taken so far
        self.missed = np.zeros(n_streams, np.intp)  # frames in a row without a context
        self.waited = np.zeros(n_streams, np.intp)  # contexts that lie ahead of the next action
        self.begun = np.zeros(n_streams, np.bool_)  # is there a past?
        self.seen = np.zeros(n_streams, np.bool_)  # was there a context?
        self.n_unseen = n_streams  # to know quickly that all are under way
        self.widen(n_contexts)

    def widen(self, n_contexts: int) -> None:
        """Make room for contexts of m values, before the first one."""
        n, _, k = self.actions.shape
        self.n_contexts = n_contexts
        width = n_contexts + k if self.single else n_contexts
        self.Z = np.zeros((n, self.rows, width), np.float32 if self.single else np.float64)
        self._refer()

    def reserve(self, streams: IntArray) -> None:
        """Make room for streams that begin."""
        held = len(self.actions)
        if len(streams) and (wanted := int(streams.max()) + 1) > held:
            room = min(len(self.row), max(wanted, 2 * held))
            self.Z, self.actions, self.stand = (_enlarge(array, room) for array in (self.Z, self.actions, self.stand))
            self._refer()

    def _refer(self) -> None:
        n, _, k = self.actions.shape
        self.position, self.offset = self.stand[:, 0], self.stand[:, 1]
        self.flat_Z, self.flat_actions = self.Z.reshape(-1), self.actions.reshape(-1, k)
        # What the kernels are handed, made once: it refers to the arrays, which are written in place.
        self.past = self._streams(
            self.flat_Z,
            self.flat_actions,
            self.row[:n],
            self.frame[:n],
            self.missed[:n],
            self.stand,
            self.reach,
            self.ahead,
        )

    # ------------------------------------------------------------------------------------------------ how a past begins

    def begin(self, streams: IntArray, past: Sequence[FloatArray]) -> None:
        """Start anew from known actions, one (any, k) array per stream; the earliest has lasted forever."""
        self.reserve(streams)
        for s, known in zip(streams, past, strict=True):
            recent = known[-self.reach :]
            self._write(s, slice(0, self.reach - len(recent)), known[0])
            self._write(s, slice(self.reach - len(recent), self.reach), recent)
            self.position[s] = known[-1]
        self.offset[streams] = np.nan
        self.row[streams] = self.reach

    def hold(self, streams: IntArray, actions: FloatArray) -> None:
        """Start anew as if `actions` (n, k) had lasted forever."""
        self.rest(streams, actions)
        self.position[streams] = actions

    def rest(self, streams: IntArray, actions: FloatArray) -> None:
        """Start anew as if `actions` (n, k) had been wanted forever; the output stays where it is."""
        self.reserve(streams)
        self._write(streams, slice(0, self.reach), actions[:, np.newaxis])
        self.offset[streams] = np.nan
        self.row[streams] = self.reach

    def hold_contexts(self, streams: IntArray, X: FloatArray) -> None:
        """Take contexts X (n, m) to have lasted forever, as lags before a sequence's start always do."""
        self.reserve(streams)
        with np.errstate(over="ignore"):
            self.Z[streams, :, : self.n_contexts] = X[:, np.newaxis]

    def settle(self, streams: IntArray, *, seen: bool) -> None:
        """Note that these streams have a past now and, where `seen`, a context."""
        self.begun[streams] = True
        self.seen[streams] |= seen
        self.n_unseen = int(len(self.seen) - np.count_nonzero(self.seen))

    def forget(self, streams: IntArray) -> None:
        """Make streams new."""
        held = streams[streams < len(self.actions)]
        self.Z[held] = self.actions[held] = 0
        self.position[held], self.offset[held] = 0.0, np.nan
        for array in (self.frame, self.missed, self.waited, self.begun, self.seen):
            array[streams] = 0
        self.row[streams] = self.reach
        self.n_unseen = int(len(self.seen) - np.count_nonzero(self.seen))

    # ------------------------------------------------------------------------------------------------- frame by frame

    def push(self, streams: IntArray, X: FloatArray | None) -> None:
        """Write the contexts (n, m) of the next frame; None repeats the last ones. Nothing else moves on yet."""
        row, m = self.row[streams], self.n_contexts
        if (row + self.wait == self.rows).any():
            self._move(self.past, streams)
            row = self.row[streams]
        row = row + np.minimum(self.waited[streams], self.ahead)
        with np.errstate(over="ignore"):
            self.Z[streams, row, :m] = self.Z[streams, row - 1, :m] if X is None else X

    def linger(self, streams: IntArray, X: FloatArray | None) -> None:
        """Take contexts (n, m) of a frame that streams wait in."""
        self.push(streams, X)
        self.waited[streams] += 1

    def commit(self, streams: IntArray, actions: FloatArray, *, missed: bool = False) -> None:
        """Write the actions (n, k) of that frame and move on."""
        self._write(streams, self.row[streams], actions)
        self.row[streams] += 1
        self.frame[streams] += 1
        self.missed[streams] = self.missed[streams] + 1 if missed else 0

    def output(self, streams: IntArray, actions: FloatArray) -> FloatArray:
        """Let the actions (n, k) of this frame pass the hysteresis; returns what is done."""
        self.position[streams] = done = actions if self.passed is None else self.passed(actions, self.position[streams])
        return done

    def amend(self, streams: IntArray, actions: FloatArray) -> None:
        """Put other actions (n, k) in the place of the last; they were done."""
        self._write(streams, self.row[streams] - 1, actions)
        self.position[streams], self.offset[streams] = actions, np.nan

    def mark(self, streams: IntArray) -> Mark:
        """Return all that one frame changes, but for what it writes."""
        held = streams < len(self.stand)
        stand = np.zeros((len(streams), *self.stand.shape[1:]))
        stand[held] = self.stand[streams[held]]
        facts = self.frame[streams], self.missed[streams], self.waited[streams], self.begun[streams], self.seen[streams]
        return (*facts, stand)

    def withdraw(self, streams: IntArray, mark: Mark) -> None:
        """Take back the one frame since `mark`; what it wrote will be written over."""
        self.row[streams] -= self.frame[streams] - mark[0]  # none, where it waited
        for array, before in zip((self.frame, self.missed, self.waited, self.begun, self.seen), mark, strict=False):
            array[streams] = before
        self.stand[streams] = mark[-1]
        self.n_unseen = int(len(self.seen) - np.count_nonzero(self.seen))

    def last(self, streams: IntArray) -> FloatArray:
        """Return the last actions, (n, k)."""
        actions: FloatArray = self.actions[streams, self.row[streams] - 1]
        return actions

    def last_contexts(self, streams: IntArray) -> FloatArray:
        """Return the last contexts, (n, m)."""
        last = self.row[streams] + np.minimum(self.waited[streams], self.ahead) - 1
        contexts: FloatArray = self.Z[streams, last, : self.n_contexts].astype(np.float64)
        return contexts

    def past_actions(self, streams: IntArray, order: int) -> FloatArray:
        """Return the past actions, the latest first, (n, order, k)."""
        return self.actions[streams[:, np.newaxis], self.row[streams, np.newaxis] - np.arange(1, order + 1)]

    def places(self, streams: IntArray) -> IntArray:
        """Return the rows of the frame being taken, with all streams one after the other, (n,)."""
        return np.asarray(streams * self.rows + self.row[streams])

    def _write(self, streams: IntArray | int, rows: IntArray | slice, actions: FloatArray) -> None:
        self.actions[streams, rows] = actions
        if self.single:
            with np.errstate(over="ignore"):
                self.Z[streams, rows, self.n_contexts :] = actions

    # ----------------------------------------------------------------------------------------------------------- state

    def state(self, streams: IntArray) -> dict[str, Any]:
        """Return copies of all that tells streams from new ones; only the rows that a policy can read."""
        n, m = len(streams), self.n_contexts
        contexts = np.zeros((n, self.reach + self.wait, m), self.Z.dtype)
        actions = np.zeros((n, self.reach, self.actions.shape[2]))
        position, offset = np.zeros((2, n, self.actions.shape[2]))
        for i, s in enumerate(streams.tolist()):  # which is quicker than an index of all rows
            if s < len(self.actions):
                recent = slice(self.row[s] - self.reach, self.row[s])
                contexts[i] = self.Z[s, recent.start : recent.stop + self.wait, :m]
                actions[i] = self.actions[s, recent]
                position[i], offset[i] = self.stand[s]
        facts = {name: getattr(self, name)[streams] for name in self._facts}
        return {"contexts": contexts, "actions": actions, "position": position, "offset": offset, **facts}

    @property
    def _facts(self) -> tuple[str, ...]:
        """What else is told of each stream."""
        return ("frame", "missed", "begun", "seen", *(("waited",) if self.wait else ()))

    def load(self, streams: IntArray, state: dict[str, Any]) -> None:
        """Take over what `state` returned, for these streams; those that had no past are new.

        Where it reaches back less far than this policy does, the oldest frame is taken to have lasted before.
        """
        if (m := state["contexts"].shape[2]) != self.n_contexts:
            self.widen(m)
        self.forget(streams)
        begun = np.asarray(state["begun"])
        some = streams[begun]
        self.reserve(some)
        contexts = state["contexts"][begun, -self.reach - self.wait :]
        actions = state["actions"][begun, -self.reach :]
        end = self.reach + self.wait
        known = slice(end - contexts.shape[1], end)
        self.Z[some, : known.start, :m] = contexts[:, :1]
        self.Z[some, known, :m] = contexts
        known = slice(self.reach - actions.shape[1], self.reach)
        self._write(some, slice(0, known.start), actions[:, :1])
        self._write(some, known, actions)
        self.position[some] = state.get("position", state["actions"][:, -1])[begun]
        self.offset[some] = state["offset"][begun] if "offset" in state else np.nan  # to be taken anew
        for name in self._facts:
            getattr(self, name)[streams] = state[name]
        self.waited[streams] = np.clip(self.waited[streams], 0, self.wait)  # whatever a file says
        self.n_unseen = int(len(self.seen) - np.count_nonzero(self.seen))


def _enlarge(array: Any, n: int) -> Any:
    """Return a copy with room for n streams."""
    found = np.zeros((n, *array.shape[1:]), array.dtype)
    found[: len(array)] = array
    return found
