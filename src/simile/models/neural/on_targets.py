"""Training on targets, as any f is trained by a round of Algorithm 1 (line 8).

This module imports torch: import it inside functions alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from simile._common.typing import FloatArray
from simile.models.neural.frames import Frames
from simile.models.neural.learning import Learner, Patience

EVERY = 5  # so manieth sequence of a round tells when to stop
BLOCK = 16_384  # states judged at a time


def fit(
    learner: Learner,
    frames: Frames,
    labels: FloatArray,
    weights: FloatArray | None = None,
    *,
    epochs: int,
    patience: int,
    batch: int,
    rng: np.random.Generator,
) -> None:
    """Train on labels (n, k), and their weights, of the frames' rows.

    The learner goes back to its best epoch on sequences left out.
    """
    device = frames.rows.device
    aims = torch.as_tensor(labels.astype(np.float32), device=device)
    spread = aims.std(dim=0, correction=0).clamp_min(1e-6)
    held = left_out(frames.floor[frames.rows].cpu().numpy(), rng)
    learn, judge = (torch.as_tensor(np.flatnonzero(part), device=device) for part in (~held, held))
    counts = None if weights is None else torch.as_tensor(weights.astype(np.float32), device=device)
    limit = Patience(patience)

    def error(said: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        squares = ((said - aims[places]) / spread) ** 2
        return (squares if counts is None else counts[places] * squares).mean()

    def measure() -> float:
        said = learner.predict(frames.states(frames.rows[part]) for part in torch.split(judge, BLOCK))
        return float(error(said, judge))

    limit.better(measure())  # a network that comes from the round before may be the best already
    for _ in range(epochs):
        order = torch.as_tensor(rng.permutation(len(learn)), device=device)
        for places in torch.split(learn[order], batch):
            learner.step(error(learner.outputs(frames.states(frames.rows[places])), places))
        if limit.better(measure()):
            learner.keep()
        if limit.over:
            break
    learner.go_back()


def left_out(floor: Any, rng: np.random.Generator) -> Any:
    """Tell which rows are left out, (n,): every fifth sequence, or the end of a single one."""
    sequences = np.unique(floor)
    if len(sequences) == 1:
        n = len(floor)
        return np.arange(n) >= n - max(1, n // EVERY) if n > 1 else np.ones(n, bool)
    some = rng.permutation(sequences)[: max(1, len(sequences) // EVERY)]
    return np.isin(floor, some)
