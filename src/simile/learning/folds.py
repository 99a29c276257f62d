"""Sequences left out in turn, to tell how well a model does where it has seen nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from simile._common.typing import FloatArray, IntArray, Trajectories
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.groups import PART, are_grouped, deal_groups
from simile.data.recorded import Recorded
from simile.data.states import Horizon, States, Tape
from simile.models import Model

N_FOLDS = 4
SHORTEST = 20  # frames of a piece that can stand for a sequence
MOST_FRAMES = 100_000  # of which habits are known
BLOCK = 20_000  # states predicted at a time


@dataclass(frozen=True, eq=False)
class Folds:
    """Sequences to leave out in turn; where there are few, they are cut into pieces."""

    demos: Recorded
    fold: IntArray  # number of the fold of each sequence
    kin: IntArray  # group that each is of: pieces of one sequence are of one, wherever they are dealt to
    new: str  # what of a fold the others have not seen: another person, another recording, a part of the same one

    @classmethod
    def of(cls, demos: Recorded) -> Folds:
        """Deal whole groups out, or else sequences as chance has it; folds have like many frames.

        Whoever cuts a set into a part to learn from and a part to test on without naming groups does it by chance, so
        this asks the same question. Runs of neighbours ask a harder one, which takes the models that generalise least.
        """
        if are_grouped(demos.kin):
            return cls(demos, deal_groups(demos.kin, demos.lengths, N_FOLDS), demos.kin, demos.new)
        pieces = -(-N_FOLDS // len(demos))
        counts = [_count(n, pieces) for n in demos.lengths]
        parts = demos.convert(cut, shared=(pieces,)) if max(counts) > 1 else demos
        whole = len(parts) == len(demos) > 1
        order = np.random.default_rng(0).permutation(len(parts)) if whole else np.arange(len(parts))
        lengths = parts.lengths[order]
        middle = np.cumsum(lengths) - lengths / 2
        fold = np.empty(len(parts), np.intp)
        fold[order] = np.unique((N_FOLDS * middle / lengths.sum()).astype(int), return_inverse=True)[1]
        kin = demos.kin if parts is demos else np.repeat(demos.kin, counts)
        return cls(parts, fold, kin, demos.new if whole else PART)

    def __len__(self) -> int:
        return int(self.fold.max()) + 1

    @cached_property
    def looked(self) -> Demonstrations:
        """The first sequences, here: enough of them to know the expert's habits."""
        return self.demos.bring(int(np.searchsorted(np.cumsum(self.demos.lengths), MOST_FRAMES)) + 1)

    def apart(self) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield, for each fold, the sequences of the others and its own; of a single fold, itself twice."""
        for number in range(len(self)):
            own = np.flatnonzero(self.fold == number)
            yield np.flatnonzero(self.fold != number) if len(self) > 1 else own, own

    def predict_unseen(self, fit: Callable[[Any], Any], horizon: Horizon) -> Any:
        """Return what models that were fitted without a sequence's fold say in it, (frames, any) for each part.

        What fits them returns a model, or its handle where the sequences lie elsewhere.
        """
        dealt, said = self.demos.deal(self.fold), []
        for number, (others, _) in enumerate(self.apart()):
            f = fit(self.demos.where(others))
            said.append(self.demos.map(_predict_fold, dealt, shared=(f, horizon, number)))
        return self.demos.map(_weave, dealt, *said)


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


def _weave(_: Demonstrations, folds: IntArray, *said: Trajectories) -> FloatArray:
    """Put what was said of the sequences of each fold in their order."""
    turns = [iter(some) for some in said]
    return np.concatenate([next(turns[fold]) for fold in folds])


def states_of(demos: Demonstrations, horizon: Horizon) -> States:
    """Form the states along the expert's actions."""
    return Tape.of(demos.contexts, demos.actions).states(horizon)


def predict(f: Model, states: States) -> FloatArray:
    """Let f predict in all states, a block at a time."""
    rows = np.arange(len(states))
    return np.concatenate([f.predict(states.where(rows[i : i + BLOCK]).matrix()) for i in range(0, len(rows), BLOCK)])
