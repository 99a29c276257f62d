"""The frames of a tape on a device, from which states are gathered when they are needed: no lag matrix is kept.

This module imports torch: import it inside functions alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from simile._common.typing import FloatArray
from simile.data.states import States
from simile.models.neural.shapes import StateShape


@dataclass(frozen=True, eq=False)
class Frames:
    """Base columns in single precision, one sequence after the other."""

    contexts: torch.Tensor  # (rows, m)
    actions: torch.Tensor  # (rows, k)
    floor: torch.Tensor  # (rows,) first row of the sequence that the row belongs to
    ceiling: torch.Tensor  # (rows,) its last row
    rows: torch.Tensor  # (n,) where the states are
    shape: StateShape

    @classmethod
    def of(cls, states: Sequence[States], device: Any) -> Frames:
        """Lay the frames of states on a device; several sets of states (DAgger's) one after the other."""
        before, floors, ceilings, rows = 0, [], [], []
        for s in states:
            floors.append(s.tape.floor + before)
            ceilings.append(s.tape.ceiling + before)
            rows.append(s.rows + before)
            before += len(s.tape.floor)
        first = states[0]
        return cls(
            _single(np.concatenate([s.tape.contexts for s in states]), device),
            _single(np.concatenate([s.tape.actions for s in states]), device),
            torch.as_tensor(np.concatenate(floors), device=device),
            torch.as_tensor(np.concatenate(ceilings), device=device),
            torch.as_tensor(np.concatenate(rows), device=device),
            StateShape.of(first.horizon, first.tape.n_contexts, first.tape.actions.shape[1]),
        )

    def states(self, rows: torch.Tensor) -> torch.Tensor:
        """Gather the states (n, features) at rows of the tape."""
        parts = [self._at(self.contexts, rows, self.shape.context_lags)]
        if self.shape.action_lags:
            parts.append(self._at(self.actions, rows, self.shape.action_lags))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def _at(self, columns: torch.Tensor, rows: torch.Tensor, lags: tuple[int, ...]) -> torch.Tensor:
        back = rows[:, None] - torch.tensor(lags, device=rows.device)
        places = torch.maximum(back, self.floor[rows][:, None])
        if min(lags) < 0:
            places = torch.minimum(places, self.ceiling[rows][:, None])
        return columns.index_select(0, places.reshape(-1)).reshape(len(rows), -1)


def statistics(frames: Frames) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of contexts and actions, (m + k,) each, over what is not missing."""
    means, scales = [], []
    for column in torch.cat([frames.contexts, frames.actions], dim=1).cpu().numpy().T:
        known = column[np.isfinite(column)].astype(np.float64)
        mean, scale = (float(known.mean()), float(known.std())) if len(known) else (0.0, 0.0)
        means.append(mean)
        # Relative to the values, so that contexts may come in any unit.
        scales.append(scale if scale > max(1e-6 * abs(mean), 1e-30) else 1.0)
    return np.array(means, np.float32).astype(np.float64), np.array(scales, np.float32).astype(np.float64)


def _single(values: FloatArray, device: Any) -> torch.Tensor:
    """Round to single precision, as models take their states; what is too large becomes infinite."""
    with np.errstate(over="ignore"):
        return torch.as_tensor(values.astype(np.float32), device=device)
