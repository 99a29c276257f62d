"""Tracks: how whoever acts notes frames for a recorder, at the price of a few copies into a block of rows."""

from __future__ import annotations

import json
import math
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from simile._common.typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from simile.online.recording import Recorder

FEWEST_ROWS, MOST_ROWS = 256, 4096  # of a block; each is twice as large as the one before, while they fill up
MOST_EVENTS = 16  # that are kept until the next frame of a stream
STEP = 1e-6  # seconds between two frames of a stream, at least


@dataclass(eq=False)
class Block:
    """Room for rows, of which the first are filled."""

    codes: IntArray  # (rows,): which sequence
    numbers: IntArray
    times: FloatArray
    X: FloatArray  # (rows, m)
    A: FloatArray  # (rows, k)
    limited: BoolArray
    runs: list[list[Any]] = field(default_factory=list)  # how many rows, who acted in them, and the policy's digest
    told: list[tuple[int, int, str]] = field(default_factory=list)  # from which row on, which sequence, and what
    gone: list[int] = field(default_factory=list)  # sequences that have ended within it
    length: int = 0

    @classmethod
    def make(cls, rows: int, m: int, k: int) -> Block:
        """Make an empty one."""
        whole = (np.empty(rows, np.intp), np.empty(rows, np.intp))
        # A column lies in one piece, so that it is written from where it lies.
        numbers = (np.empty((rows, m), order="F"), np.empty((rows, k), order="F"))
        return cls(*whole, np.empty(rows), *numbers, np.zeros(rows, np.bool_))

    @property
    def size(self) -> int:
        """Bytes, about."""
        return sum(array.nbytes for array in (self.codes, self.numbers, self.times, self.X, self.A, self.limited))


class Track:
    """Notes the streams of one policy for a `Recorder`, by slots.

    Attributes
    ----------
    policy : str or None
        Digest of the policy at work.
    noted : int
        Frames that were noted, those that are lost too.
    latest : float
        When the last of them was, in Unix seconds.
    """

    def __init__(self, recorder: Recorder, policy: str | None, n_contexts: int, n_actions: int) -> None:
        self.recorder, self.policy = recorder, policy
        self.noted = 0
        self.labels: dict[int, str] = {}  # of sequences, by code
        self._m, self._k = n_contexts, n_actions
        self.latest = 0.0
        self._codes = np.zeros(0, np.intp)  # the sequence of each slot
        self._next = 0  # code
        self._lock = threading.Lock()  # of the block, which is taken away now and then
        self._block = Block.make(FEWEST_ROWS, n_contexts, n_actions)
        self._full: list[Block] = []
        self._waiting = 0.0  # bytes of these
        self._events: dict[int, deque[str]] = {}  # told, but of no frame yet, by code

    def begin(self, slot: int, name: str) -> None:
        """Note that a stream begins in a slot, or begins anew."""
        label = self.recorder.name_sequence(name)
        with self._lock:
            if slot >= len(self._codes):
                grown = np.full(max(slot + 1, 2 * len(self._codes)), -1, np.intp)
                grown[: len(self._codes)] = self._codes
                self._codes = grown
            if self._codes[slot] >= 0:
                self._block.gone.append(int(self._codes[slot]))
            self._codes[slot], self.labels[self._next] = self._next, label
            self._next += 1

    def note(
        self,
        slots: IntArray,
        numbers: Sequence[int] | IntArray,
        X: FloatArray | None,
        A: FloatArray,
        who: str,
        limited: BoolArray | None = None,
        t: float | None = None,
    ) -> None:
        """Note a frame of different streams.

        Parameters
        ----------
        slots, numbers : (n,) int
            Whose frames, and which: those that came, whichever the action is for.
        X : (n, m) array or None
            The contexts, NaN where missing; None where none came.
        A : (n, k) array
            What was sent; NaN where nothing was.
        who : {"policy", "operator", "gap", "waiting"}
            Who acted, if anybody.
        limited : (n,) bool, optional
            Where a stage changed the action.
        t : float, optional
            Unix seconds; now by default. In a track it increases.
        """
        n = len(slots)
        self.noted += n
        now = self.recorder.now() if t is None else t
        self.latest = now = now if now > self.latest else self.latest + STEP
        with self._lock:
            block = self._block
            begin = block.length
            end = begin + n
            if end > len(block.codes):
                if self._waiting > self.recorder.most_waiting:
                    self.recorder.lose(n)
                    return
                block, begin, end = self._turn_over(n), 0, n
            block.codes[begin:end] = self._codes[slots]
            block.numbers[begin:end] = numbers
            block.times[begin:end] = now
            block.X[begin:end] = np.nan if X is None else X
            block.A[begin:end] = A
            if limited is not None:
                block.limited[begin:end] = limited
            if not block.runs or block.runs[-1][1:] != [who, self.policy]:
                block.runs.append([0, who, self.policy])
            block.runs[-1][0] += n
            block.length = end

    def tell(self, event: Mapping[str, Any], slot: int | None = None) -> None:
        """Note something that happened to the stream of a slot, or to all; the next frame has it."""
        text = json.dumps(event)
        with self._lock:
            codes = self._codes if slot is None else self._codes[slot : slot + 1]
            self._block.told += [(self._block.length, code, text) for code in codes[codes >= 0].tolist()]

    def take(self) -> list[Block]:
        """Return all that was noted since the last call; for the recorder's thread."""
        with self._lock:
            fuller = self._block.length > FEWEST_ROWS // 2 or bool(self._full)
            fresh = Block.make(len(self._block.codes) if fuller else FEWEST_ROWS, self._m, self._k)
            blocks, self._full, self._waiting, self._block = [*self._full, self._block], [], 0.0, fresh
        return blocks

    def end(self) -> list[Block]:
        """Return all that was noted since the last call of `take`; what is noted from now on is lost, and counted.

        There is no room any more, and no more may wait: whoever acts need not ask whether anybody listens.
        """
        with self._lock:
            blocks, self._full, self._waiting = [*self._full, self._block], [], math.inf
            self._block = Block.make(0, self._m, self._k)
        return blocks

    def abandon(self) -> None:
        """End in a child process, where a thread that is not there may hold the lock; what waits is the parent's."""
        self._lock = threading.Lock()
        self.end()

    def _turn_over(self, rows: int) -> Block:
        """Put the block aside, and return a new one with room for so many rows."""
        self._full.append(self._block)
        self._waiting += self._block.size
        room = max(rows, min(MOST_ROWS, 2 * len(self._block.codes)))
        self._block = Block.make(room, self._m, self._k)
        return self._block

    def lay_out(self, block: Block) -> dict[str, Any]:
        """Return the rows of a block by column; texts as a list, and which of them stands in every row."""
        rows = slice(block.length)
        codes = block.codes[rows]
        found, row_of = np.unique(codes, return_inverse=True)
        runs = np.repeat(np.arange(len(block.runs)), [n for n, _, _ in block.runs])
        columns = {
            "sequence": (row_of, [self.labels[code] for code in found.tolist()]),
            "n": block.numbers[rows],
            "t": block.times[rows],
            "X": block.X[rows],
            "A": block.A[rows],
            "who": (runs, [who for _, who, _ in block.runs]),
            "limited": block.limited[rows],
            "policy": (runs, [policy for _, _, policy in block.runs]),
            "event": self._place_events(block.told, codes),
        }
        for code in block.gone:
            del self.labels[code]
            self._events.pop(code, None)
        return columns

    def _place_events(self, told: list[tuple[int, int, str]], codes: IntArray) -> dict[int, str]:
        """Return what is told in rows, by row: the first of the sequence from there on."""
        placed: dict[int, list[str]] = {}
        waiting = [(0, code, text) for code, texts in self._events.items() for text in texts]
        self._events.clear()
        for begin, code, text in [*waiting, *told]:
            after = np.flatnonzero(codes[begin:] == code)
            if len(after):
                placed.setdefault(begin + int(after[0]), []).append(text)
            else:
                self._events.setdefault(code, deque(maxlen=MOST_EVENTS)).append(text)
        return {row: "\n".join(texts) for row, texts in placed.items()}
