"""Sequences left out in turn, to tell how well a model does where it has seen nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.data.demonstrations import Demonstrations
from simile.data.groups import PART, are_grouped, deal_groups
from simile.data.states import Horizon, States, Tape
from simile.models import Model

N_FOLDS = 4
SHORTEST = 20  # frames of a piece that can stand for a sequence
BLOCK = 20_000  # states predicted at a time


@dataclass(frozen=True, eq=False)
class Folds:
    """Sequences to leave out in turn; where there are few, they are cut into pieces."""

    demos: Demonstrations
    fold: IntArray  # number of the fold of each sequence
    new: str  # what of a fold the others have not seen: another person, another recording, a part of the same one

    @classmethod
    def of(cls, demos: Demonstrations) -> Folds:
        """Deal whole groups out, or else sequences as chance has it; folds have like many frames.

        Whoever cuts a set into a part to learn from and a part to test on without naming groups does it by chance, so
        this asks the same question. Runs of neighbours ask a harder one, which takes the models that generalise least.
        """
        if are_grouped(demos.kin):
            return cls(demos, deal_groups(demos.kin, demos.lengths, N_FOLDS), demos.new)
        pieces = -(-N_FOLDS // len(demos))
        parts = []
        for demo in demos:
            n = max(1, min(pieces, len(demo) // SHORTEST))
            ends = np.linspace(0, len(demo), n + 1).astype(int)
            parts += [demo.cut(a, b) for a, b in pairwise(ends)]
        whole = len(parts) == len(demos) > 1
        order = np.random.default_rng(0).permutation(len(parts)) if whole else np.arange(len(parts))
        lengths = np.array([len(d) for d in parts])[order]
        middle = np.cumsum(lengths) - lengths / 2
        fold = np.empty(len(parts), np.intp)
        fold[order] = np.unique((N_FOLDS * middle / lengths.sum()).astype(int), return_inverse=True)[1]
        return cls(Demonstrations(tuple(parts)), fold, demos.new if whole else PART)

    def __len__(self) -> int:
        return int(self.fold.max()) + 1

    def apart(self) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield, for each fold, the sequences of the others and its own; of a single fold, itself twice."""
        for number in range(len(self)):
            own = np.flatnonzero(self.fold == number)
            yield np.flatnonzero(self.fold != number) if len(self) > 1 else own, own

    def predict_unseen(self, fit: Callable[[Demonstrations], Model], horizon: Horizon, width: int) -> FloatArray:
        """Return what models that were fitted without a sequence's fold say in it, (frames, width)."""
        lengths = [len(d) for d in self.demos]
        said = np.split(np.empty((sum(lengths), width)), np.cumsum(lengths)[:-1])
        for others, own in self.apart():
            f = fit(Demonstrations(tuple(self.demos[i] for i in others)))
            for i in own:
                said[i][:] = predict(f, states_of(self.demos[int(i) : int(i) + 1], horizon))
        return np.concatenate(said)


def states_of(demos: Demonstrations, horizon: Horizon) -> States:
    """Form the states along the expert's actions."""
    return Tape.of(demos.contexts, demos.actions).states(horizon)


def predict(f: Model, states: States) -> FloatArray:
    """Let f predict in all states, a block at a time."""
    rows = np.arange(len(states))
    return np.concatenate([f.predict(states.where(rows[i : i + BLOCK]).matrix()) for i in range(0, len(rows), BLOCK)])
