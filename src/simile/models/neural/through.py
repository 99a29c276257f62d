"""Training through the roll-out: by its own squared error, followed back through the filter behind the network.

This module imports torch: import it inside functions alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from simile._common.typing import FloatArray, IntArray, Trajectories
from simile.models.closed_loop import ClosedLoop
from simile.models.neural.filtering import filter_signal, impulse_response
from simile.models.neural.frames import Frames
from simile.models.neural.learning import Learner, Patience

SHORTEST, LONGEST = 256, 8_192  # frames of a piece of a sequence that is rolled out in training
LAGS = 8.0  # times the filter's lag, as long a piece is at least
BLOCK = 16_384  # states judged at a time


@dataclass(frozen=True, eq=False)
class Aims:
    """What f should say at every row for the roll-out to be the expert's, A a*, and how far off that it is.

    Parameters
    ----------
    loop : ClosedLoop
        The filter behind f.
    expert, wanted : (rows, k) tensors
        The expert's actions, and A a*.
    bounds : list of (int, int)
        First row of each sequence, and the row after its last.
    response : (any, k) tensor
        What the filter answers to a single one.
    gamma : float
        Price of squared second differences.
    weights : (rows, k) tensor, optional
        How much each squared error counts; all alike by default.
    """

    loop: ClosedLoop
    expert: torch.Tensor
    wanted: torch.Tensor
    bounds: list[tuple[int, int]]
    response: torch.Tensor
    gamma: float
    weights: torch.Tensor | None = None

    @classmethod
    def of(
        cls,
        expert: Trajectories,
        loop: ClosedLoop,
        bend: float,
        device: torch.device,
        weights: FloatArray | None = None,
    ) -> Aims:
        """Work out what f should say; in double precision, for A magnifies what changes fast."""
        wanted = []
        for actions in expert:
            aim = np.zeros_like(actions)
            for j, tap in enumerate(loop.taps if len(actions) > loop.order else ()):
                aim[loop.order :] += tap * actions[loop.order - j : len(actions) - j]
            wanted.append(aim)
        ends = np.cumsum([len(a) for a in expert])
        bounds = [(int(e) - len(a), int(e)) for a, e in zip(expert, ends, strict=True)]
        longest = max(len(a) for a in expert)

        def on_device(values: FloatArray) -> torch.Tensor:
            return torch.as_tensor(values.astype(np.float32), device=device)

        return cls(
            loop,
            on_device(np.concatenate(expert)),
            on_device(np.concatenate(wanted)),
            bounds,
            on_device(impulse_response(loop.taps, longest)),
            bend * loop.lag**4,
            None if weights is None else on_device(weights),
        )

    def loss(self, z: torch.Tensor, rows: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        """Return the mean loss of roll-outs of pieces, given f's outputs z (n, T, k) at `rows` (n, T).

        `real` (n, T) tells which frames are there at all. The first frames of a piece are the expert's.
        """
        e = self._errors(z, rows)
        squares = e**2 if self.weights is None else self.weights[rows] * e**2
        total = (real * squares.mean(dim=2)).sum() / real.sum().clamp_min(1.0)
        if self.gamma == 0.0 or rows.shape[1] < 3:
            return total
        bends = torch.diff(self.expert[rows] + e, n=2, dim=1)
        whole = real[:, 2:]
        return total + self.gamma * (whole * (bends**2).mean(dim=2)).sum() / whole.sum().clamp_min(1.0)

    def _errors(self, z: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        gaps = z - self.wanted[rows]
        gaps = torch.cat([torch.zeros_like(gaps[:, : self.loop.order]), gaps[:, self.loop.order :]], dim=1)
        return filter_signal(gaps, self.response)

    def pieces(self, sequences: IntArray, rng: np.random.Generator) -> Iterator[IntArray]:
        """Cut sequences at random places; yields the rows of each piece that leaves f something to do, shuffled."""
        span = int(min(LONGEST, max(SHORTEST, LAGS * self.loop.lag)))
        found = []
        for i in sequences:
            first, end = self.bounds[i]
            cut = first - int(rng.integers(span)) if end - first > span else first
            found += [(max(begin, first), min(begin + span, end)) for begin in range(cut, end, span)]
        useful = [(a, b) for a, b in found if b - a > self.loop.order]
        for i in rng.permutation(len(useful)):
            yield np.arange(*useful[i])


def fit(
    learners: Sequence[Learner],
    frames: Frames,
    aims: Aims,
    folds: IntArray,
    *,
    epochs: int,
    patience: int,
    batch: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Train one learner without each fold and the last on everything, side by side.

    The number of epochs is the one at which roll-outs of the folds, each by the learner that has not seen it, are best
    together; every learner goes back to it. Returns what they say there, (frames, k).
    """
    n_folds = int(folds.max()) + 1
    every = np.arange(len(folds))
    shares = [np.flatnonzero(folds != i) for i in range(n_folds)] if n_folds > 1 else [every]
    limit = Patience(patience)
    said = judge(learners, frames, aims, folds)[1]
    for _ in range(epochs if n_folds > 1 else max(1, epochs // 4)):  # alone, nothing tells when to stop
        for learner, sequences in zip(learners, [*shares, every], strict=True):
            for rows, real in batches(list(aims.pieces(sequences, rng)), batch, frames.rows.device):
                z = learner.outputs(frames.states(rows.reshape(-1))).reshape(*rows.shape, -1)
                learner.step(aims.loss(z, rows, real))
        error, latest = judge(learners, frames, aims, folds)
        if limit.better(error) or n_folds == 1:
            said = latest
            for learner in learners:
                learner.keep()
        if limit.over and n_folds > 1:
            break
    for learner in learners:
        learner.go_back()
    return said


def judge(learners: Sequence[Learner], frames: Frames, aims: Aims, folds: IntArray) -> tuple[float, FloatArray]:
    """Roll every sequence out by the learner that has not seen it; returns the mean loss and outputs (frames, k)."""
    said = torch.empty_like(aims.wanted)
    total, count = 0.0, 0
    for (first, end), fold in zip(aims.bounds, folds, strict=True):
        rows = torch.arange(first, end, device=said.device)
        said[first:end] = learners[fold].predict(frames.states(part) for part in torch.split(rows, BLOCK))
        if end - first > aims.loop.order:
            loss = aims.loss(said[None, first:end], rows[None], torch.ones_like(rows[None], dtype=torch.float32))
            total, count = total + float(loss) * (end - first), count + end - first
    return total / max(count, 1), said.cpu().numpy().astype(np.float64)


def batches(pieces: list[IntArray], frames: int, device: torch.device) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Put pieces together, about so many frames at a time; yields rows (n, T) and which of them are there, 1 or 0."""
    while pieces:
        n = max(1, frames // max(len(pieces[0]), 1))
        some, pieces = pieces[:n], pieces[n:]
        longest = max(len(p) for p in some)
        rows = np.stack([np.pad(p, (0, longest - len(p)), mode="edge") for p in some])
        real = np.stack([np.arange(longest) < len(p) for p in some])
        yield torch.as_tensor(rows, device=device), torch.as_tensor(real, dtype=torch.float32, device=device)
