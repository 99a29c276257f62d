"""Sequences left out in turn, to tell how well a model does where it has seen nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from simile._common.typing import BoolArray, FloatArray, IntArray
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.groups import PART, are_grouped, deal_groups, draw_sequences
from simile.data.recorded import Recorded
from simile.data.states import Horizon, States, Tape
from simile.models import Model

N_FOLDS = 4
FEWEST = 3  # recordings that can be left out whole; fewer are cut into pieces
SHORTEST = 20  # frames of a piece that can stand for a sequence
MARGIN = 8  # a piece gives at most one part in so many, at either end, to keep away from its neighbours
BLOCK = 20_000  # states predicted at a time


@dataclass(frozen=True, eq=False)
class Folds:
    """Sequences to leave out in turn; where there are few, they are cut into pieces.

    Parameters
    ----------
    demos : Recorded
        The sequences, or the pieces.
    fold : (n,) array
        Number of the fold of each.
    kin : (n,) array
        Group that each is of: pieces of one sequence are of one, wherever they are dealt to.
    new : str
        What of a fold the others have not seen: another person, another recording, a part of the same one.
    begin, end : (n,) array
        Of each, the first frame that is judged, and the one after the last: pieces of one sequence are learned from
        whole, and judged some way off from their neighbours, which are much like them there.
    judged : (n,) array
        Which are judged; all of them, unless there are too many to bring here.
    """

    demos: Recorded
    fold: IntArray
    kin: IntArray
    new: str
    begin: IntArray
    end: IntArray
    judged: BoolArray

    @classmethod
    def of(cls, demos: Recorded, *, gap: int = 0, most: int | None = None, seed: int = 0) -> Folds:
        """Deal whole groups out, or else sequences as chance has it; folds have like many frames.

        Whoever cuts a set into a part to learn from and a part to test on without naming groups does it by chance, so
        this asks the same question. Runs of neighbours ask a harder one, which takes the models that generalise least.

        Parameters
        ----------
        demos : Recorded
            What is learned from.
        gap : int
            Frames between what is learned from and what is judged, where both are of one sequence.
        most : int, optional
            About how many frames are judged at most.
        seed : int
            By which these are drawn.
        """
        parts, fold, kin, new = _deal(demos)
        margin = np.zeros(len(parts), np.intp) if parts is demos else np.minimum(gap, parts.lengths // MARGIN)
        starts, stops = np.diff(kin, prepend=-1) != 0, np.diff(kin, append=-1) != 0  # of what was cut
        judged = np.ones(len(parts), bool)
        if most is not None and parts.n_frames > most:  # of every fold some: its weights come from the others
            judged[:] = False
            for number in range(fold.max() + 1):
                own = np.flatnonzero(fold == number)
                judged[own[draw_sequences(parts.lengths[own], most / (fold.max() + 1), seed)]] = True
        begin, end = np.where(starts, 0, margin), parts.lengths - np.where(stops, 0, margin)
        return cls(parts, fold, kin, new, begin, end, judged)

    def __len__(self) -> int:
        return int(self.fold.max()) + 1

    @cached_property
    def shown(self) -> Demonstrations:
        """What is judged, here."""
        numbers = np.flatnonzero(self.judged)
        some = self.demos if len(numbers) == len(self.demos) else self.demos.where(numbers)
        ends = zip(some.gather(), self.begin[numbers], self.end[numbers], strict=True)
        return Demonstrations(tuple(d if b == 0 and e == len(d) else d.cut(int(b), int(e)) for d, b, e in ends))

    @cached_property
    def places(self) -> IntArray:
        """Of each that is judged, its sequence among those that were dealt, and its first and last frame there, (n, 3).

        The last is the one after the last that counts.
        """
        first = np.flatnonzero(np.diff(self.kin, prepend=-1)) if self.new == PART else np.arange(len(self.demos))
        source = np.searchsorted(first, np.arange(len(self.demos)), side="right") - 1
        before = np.append(0, np.cumsum(self.demos.lengths))
        offset = before[:-1] - before[first[source]]
        return np.stack([source, offset + self.begin, offset + self.end], axis=1)[self.judged]

    def apart(self) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield, for each fold, the sequences of the others and its own; of a single fold, itself twice."""
        for number in range(len(self)):
            own = np.flatnonzero(self.fold == number)
            yield np.flatnonzero(self.fold != number) if len(self) > 1 else own, own

    def predict_unseen(self, fit: Callable[[Any], Any], horizon: Horizon) -> FloatArray:
        """Return what models that were fitted without its fold say in each frame that is judged, (frames, outputs).

        What fits them returns a model, or its handle where the sequences lie elsewhere.
        """
        dealt, said = self.demos.deal(np.where(self.judged, self.fold, -1)), []
        for number, (others, _) in enumerate(self.apart()):
            f = fit(self.demos.where(others))
            said.append(self.demos.map(_predict_fold, dealt, shared=(f, horizon, number)))
        return self.cut([one for part in self.demos.collect(_weave, dealt, *said) for one in part])

    def cut(self, said: list[FloatArray]) -> FloatArray:
        """Join what was said in the sequences that are judged, (frames, any), in the frames that are."""
        numbers = np.flatnonzero(self.judged)
        return np.concatenate([z[b:e] for z, b, e in zip(said, self.begin[numbers], self.end[numbers], strict=True)])


def _deal(demos: Recorded) -> tuple[Recorded, IntArray, IntArray, str]:
    """Return sequences or pieces, the fold and the group of each, and what is new in a fold."""
    if are_grouped(demos.kin):
        return demos, deal_groups(demos.kin, demos.lengths, N_FOLDS), demos.kin, demos.new
    if len(demos) >= FEWEST:
        n_folds, parts, kin, new = min(N_FOLDS, len(demos)), demos, demos.kin, demos.new
        order = np.random.default_rng(0).permutation(len(parts))
    else:
        pieces = -(-N_FOLDS // len(demos))
        counts = [_count(n, pieces) for n in demos.lengths]
        parts = demos.convert(cut, shared=(pieces,)) if max(counts) > 1 else demos
        n_folds, order, kin, new = N_FOLDS, np.arange(len(parts)), np.repeat(demos.kin, counts), PART
    lengths = parts.lengths[order]
    middle = np.cumsum(lengths) - lengths / 2
    fold = np.empty(len(parts), np.intp)
    fold[order] = np.unique((n_folds * middle / lengths.sum()).astype(int), return_inverse=True)[1]
    return parts, fold, kin, new


# What runs where a part is.


def cut(demos: Demonstrations, pieces: int) -> Demonstrations:
    """Cut sequences into so many pieces, or as many as are long enough."""
    parts: list[Demonstration] = []
    for demo in demos:
        ends = np.linspace(0, len(demo), _count(len(demo), pieces) + 1).astype(int)
        parts += [demo.cut(a, b) for a, b in pairwise(ends)]
    return Demonstrations(tuple(parts))


def _count(length: int, pieces: int) -> int:
    return max(1, min(pieces, int(length) // SHORTEST))


def _predict_fold(demos: Demonstrations, folds: IntArray, f: Model, horizon: Horizon, fold: int) -> list[FloatArray]:
    """Let a model predict in the sequences of one fold."""
    return [predict(f, states_of(demos[int(i) : int(i) + 1], horizon)) for i in np.flatnonzero(folds == fold)]


def _weave(_: Demonstrations, folds: IntArray, *said: list[FloatArray]) -> list[FloatArray]:
    """Put what was said of the sequences of each fold in their order."""
    turns = [iter(some) for some in said]
    return [next(turns[fold]) for fold in folds if fold >= 0]


def states_of(demos: Demonstrations, horizon: Horizon) -> States:
    """Form the states along the expert's actions."""
    return Tape.of(demos.contexts, demos.actions).states(horizon)


def predict(f: Model, states: States) -> FloatArray:
    """Let f predict in all states, a block at a time."""
    rows = np.arange(len(states))
    return np.concatenate([f.predict(states.where(rows[i : i + BLOCK]).matrix()) for i in range(0, len(rows), BLOCK)])
