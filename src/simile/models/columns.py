"""Binned base columns: what a forest sees of its states.

No lag matrix is ever built: each base column is binned once, and a lagged feature is that column, read at an
offset. The bins of the contexts are kept on the tape, so that the rounds of a run bin the actions alone.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from simile._common.threads import spread
from simile._common.typing import IntArray
from simile.data.states import Horizon, States, Tape

if TYPE_CHECKING:
    from simile.models.kernels.histograms import Features

AT_ONCE = 4  # columns of contexts read together: they share lines of the cache


@dataclass(frozen=True, eq=False)
class BinnedColumns:
    """Binned base columns, contexts then actions, with room before each sequence for the longest lag."""

    bins: Any  # (W, padded rows) uint8
    edges: list[Any]  # of each base column
    columns: IntArray  # (features,) base column of each feature
    lags: IntArray  # (features,)
    positions: Any  # (n,) padded row of each state
    starts: IntArray  # (sequences + 1,) where each sequence begins among the states

    @property
    def width(self) -> int:
        """Number W of base columns."""
        return len(self.bins)

    @property
    def features(self) -> Features:
        """The features as the kernels read them."""
        from simile.models.kernels.histograms import Features

        return Features(self.bins.ravel(), self.columns * self.bins.shape[1] - self.lags)

    @classmethod
    def of(cls, states: Sequence[States], edges: list[Any] | None = None, *, threads: int = 1) -> BinnedColumns:
        """Bin what states read; several sets of states (DAgger's) are laid one after the other.

        `edges` of each base column are given where there is more data than these states.
        """
        from simile.models.kernels import binning

        horizon = states[0].horizon
        m = states[0].tape.n_contexts
        k = states[0].tape.actions.shape[1]
        pads = [Padding.of(s.tape, horizon) for s in states]
        if edges is None:
            context_edges, _ = _bin_contexts(states[0].tape, pads[0], k, threads=threads)
            actions = [s.tape.actions for s in states]
            action_edges = [binning.bin_edges(np.concatenate([a[:, j] for a in actions])) for j in range(k)]
        else:
            context_edges, action_edges = edges[:m], edges[m:]
        blocks, positions, starts, before, lent = [], [], [0], 0, None
        for s, pad in zip(states, pads, strict=True):
            _, block = _bin_contexts(s.tape, pad, k, context_edges, keep=edges is not None, threads=threads)
            if horizon.memory:  # otherwise nothing reads the actions
                lent = s.tape.memo.pop(_own(pad), None) if edges is None and len(states) == 1 else None
                block = block.copy() if lent is None else block
                for j in range(k):
                    binned = binning.bin_column(s.tape.actions[:, j], action_edges[j])
                    np.take(binned, pad.source, out=block[m + j], mode="clip")
            blocks.append(block)
            positions.append(pad.position[s.rows] + before)
            before += len(pad.source)
            floor = s.tape.floor[s.rows]
            starts += [starts[-1] + int(i) for i in (*(np.flatnonzero(np.diff(floor)) + 1), len(floor))]
        columns, lags = layout(horizon, m, k)
        found = cls(
            bins=blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1),
            edges=[*context_edges, *action_edges],
            columns=columns,
            lags=lags,
            positions=np.concatenate(positions, dtype=np.int32),
            starts=np.array(starts, dtype=np.intp),
        )
        if lent is not None:  # the tape gets its bins back when nobody needs those of the actions any more
            weakref.finalize(found, states[0].tape.memo.__setitem__, _own(pads[0]), lent).atexit = False
        return found

    def where(self, spans: Iterable[tuple[int, int]]) -> BinnedColumns:
        """Keep the rows of some spans, each in one sequence, from its first to the one after its last."""
        bins, positions, starts, before = [self.bins[:, :0]], [self.positions[:0]], [0], 0
        for begin, end in spans:
            rows = self.positions[begin:end]
            first = rows[0] - max(0, self.lags.max())  # what the lags of its first row reach
            bins.append(self.bins[:, first : rows[-1] + 1 - min(0, self.lags.min())])
            positions.append(rows - first + before)
            starts.append(starts[-1] + len(rows))
            before += bins[-1].shape[1]
        joined = np.concatenate(positions, dtype=np.int32)
        return replace(
            self, bins=np.concatenate(bins, axis=1), positions=joined, starts=np.array(starts, dtype=np.intp)
        )

    @classmethod
    def join(cls, parts: Sequence[BinnedColumns]) -> BinnedColumns:
        """Lay the rows of several parts, binned by the same edges, one after the other."""
        before = np.cumsum([0, *(part.bins.shape[1] for part in parts)])
        rows = np.cumsum([0, *(part.starts[-1] for part in parts)])
        return replace(
            parts[0],
            bins=np.concatenate([part.bins for part in parts], axis=1),
            positions=np.concatenate([p.positions + n for p, n in zip(parts, before, strict=False)]).astype(np.int32),
            starts=np.concatenate([[0], *(p.starts[1:] + n for p, n in zip(parts, rows, strict=False))]),
        )


@dataclass(frozen=True, eq=False)
class Padding:
    """Room before each sequence, as long as the longest lag, and after it, filled with its first and last frame."""

    source: Any  # (padded rows,) the row of the tape that each padded row repeats
    position: Any  # (rows,) the padded row of each row of the tape
    room: tuple[int, int]  # before and after

    @classmethod
    def of(cls, tape: Tape, horizon: Horizon) -> Padding:
        """Lay the sequences of a tape out with room between them; kept with the contexts."""
        room = before, after = horizon.reach, horizon.wait
        if ("padding", room) not in tape.memo:
            begins, n = np.flatnonzero(np.diff(tape.floor, prepend=-1)).tolist(), len(tape.floor)
            source, position = np.empty(n + len(begins) * (before + after), np.int32), np.empty(n, np.int32)
            at = 0
            for begin, end in pairwise([*begins, n]):
                first, last = at + before, at + before + end - begin
                source[at:first], source[first:last], source[last : last + after] = (
                    begin,
                    np.arange(begin, end),
                    end - 1,
                )
                position[begin:end] = np.arange(first, last)
                at = last + after
            tape.memo["padding", room] = cls(source, position, room)
        padding: Padding = tape.memo["padding", room]
        return padding


def _own(pad: Padding) -> tuple[str, str, tuple[int, int]]:
    """Return where a tape keeps its contexts, binned by their own edges."""
    return "bins", "own", pad.room


def _bin_contexts(
    tape: Tape, pad: Padding, k: int, edges: list[Any] | None = None, *, keep: bool = False, threads: int = 1
) -> tuple[list[Any], Any]:
    """Bin the contexts of a tape once, by their own edges or by given ones.

    Returns edges, and bins (m + k, padded rows) with room for those of the actions.
    """
    from simile.models.kernels import binning

    own, common = _own(pad), ("bins", "common", pad.room)
    for key in (own,) if edges is None else (own, common):
        found: tuple[list[Any], Any] | None = tape.memo.get(key)
        if found is not None and (edges is None or all(map(np.array_equal, found[0], edges))):
            return found
    bins = np.empty((tape.n_contexts + k, len(pad.source)), np.uint8)
    rooms = SimpleQueue[Any]()
    for _ in range(threads):  # made here: what a thread makes is taken from a heap of its own, which keeps it
        rooms.put(np.empty((min(AT_ONCE, tape.n_contexts), len(tape.floor)), np.float32))

    def bin_some(columns: IntArray) -> list[Any]:
        room, chosen = rooms.get(), []
        _read_columns(tape, columns, room)
        for values, j in zip(room, columns, strict=False):
            found = binning.bin_edges(values) if edges is None else edges[j]
            # No index is out of bounds; NumPy writes through a buffer where it is to look.
            np.take(binning.bin_column(values, found), pad.source, out=bins[j], mode="clip")
            chosen.append(found)
        rooms.put(room)
        return chosen

    turns = threads * -(-tape.n_contexts // (threads * AT_ONCE))  # as many for each thread
    parts = spread(bin_some, np.array_split(np.arange(tape.n_contexts), turns), threads)
    chosen = [found for part in parts for found in part]
    if edges is None or keep:  # given edges are kept apart: what a tape gives must not depend on its company
        tape.memo[own if edges is None else common] = chosen, bins
    return chosen, bins


def _read_columns(tape: Tape, columns: IntArray, out: Any) -> None:
    """Write neighbouring columns of the contexts to `out` (columns, rows), in the single precision of bins."""
    begin, n, first = 0, len(columns), int(columns[0]) if len(columns) else 0
    with np.errstate(over="ignore"):  # as `binning.single`
        for part in tape.parts:
            out[:n, begin : begin + len(part)] = part[:, first : first + n].T
            begin += len(part)


def layout(horizon: Horizon, n_contexts: int, n_actions: int) -> tuple[IntArray, IntArray]:
    """Return base column and lag of each feature, in the order of `States.matrix`."""
    columns = [c for _ in horizon.context_lags for c in range(n_contexts)]
    columns += [n_contexts + c for _ in horizon.action_lags for c in range(n_actions)]
    lags = [lag for lag in horizon.offsets for _ in range(n_contexts)]
    lags += [lag for lag in horizon.action_lags for _ in range(n_actions)]
    return np.array(columns, dtype=np.intp), np.array(lags, dtype=np.intp)


class LaggedModel:
    """An f that reads frames by itself: each entry of a state is a base column, so many frames ago."""

    kind: ClassVar[str]  # what a message calls it

    columns: IntArray  # (features,) base column of each entry of the state
    lags: IntArray  # (features,)
    width: int  # number of base columns, contexts then actions

    @property
    def n_actions(self) -> int:
        """Dimension k of an action."""
        raise NotImplementedError

    @property
    def n_contexts(self) -> int:
        """Dimension m of a context."""
        return self.width - self.n_actions

    def fits(self, horizon: Horizon, n_contexts: int, n_actions: int) -> bool:
        """Tell whether f reads the states of this horizon and predicts k actions: the kernels do not look."""
        sizes = (n_contexts, n_actions, horizon.n_features(n_contexts, n_actions))
        if (self.n_contexts, self.n_actions, len(self.columns)) != sizes:
            return False
        return np.array_equal((self.columns, self.lags), layout(horizon, n_contexts, n_actions))
