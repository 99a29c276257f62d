"""The torch modules behind the recipes. This module imports torch: import it inside functions alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from simile._common.typing import FloatArray
from simile.models.neural.shapes import StateShape

FARTHEST = 10.0  # standard deviations: a state farther out counts as this far, and so cannot blow a network up


class Standardised(nn.Module):
    """A network between the units of the states and those of the actions.

    A missing value (NaN) counts as the mean of its column.
    """

    mean: torch.Tensor
    scale: torch.Tensor
    center: torch.Tensor
    spread: torch.Tensor

    def __init__(
        self, inside: nn.Module, mean: FloatArray, scale: FloatArray, center: FloatArray, spread: FloatArray
    ) -> None:
        super().__init__()
        self.inside = inside
        for name, values in (("mean", mean), ("scale", scale), ("center", center), ("spread", spread)):
            self.register_buffer(name, torch.as_tensor(values, dtype=torch.float32))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Map raw states (n, features) to actions (n, k)."""
        z = (states - self.mean) / self.scale
        z = torch.where(torch.isnan(z), torch.zeros_like(z), z).clamp(-FARTHEST, FARTHEST)
        out: torch.Tensor = self.inside(z)
        return out * self.spread + self.center


class _BesideALine(nn.Module):
    """What all have in common: a line in the states that begins at zero, as what is beside it nearly does."""

    def __init__(self, shape: StateShape, width: int) -> None:
        super().__init__()
        self.n_context_features = shape.n_context_features
        self.by_lag = (len(shape.context_lags), shape.n_contexts)
        self.last = nn.Linear(width, shape.n_actions)
        self.line = nn.Linear(shape.n_features, shape.n_actions, bias=False)
        with torch.no_grad():
            self.line.weight.zero_()
            self.last.weight.mul_(0.1)
            self.last.bias.zero_()

    def sequence(self, states: torch.Tensor) -> torch.Tensor:
        """Return the contexts (n, lags, m), the oldest first."""
        return states[:, : self.n_context_features].reshape(-1, *self.by_lag).flip(1)

    def ended(self, features: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """Let past actions join, and add the line."""
        joined = torch.cat([features, states[:, self.n_context_features :]], dim=1)
        out: torch.Tensor = self.last(joined) + self.line(states)
        return out


class MLP(_BesideALine):
    """Fully connected layers."""

    def __init__(self, shape: StateShape, hidden: Sequence[int]) -> None:
        super().__init__(shape, hidden[-1])
        before = shape.n_features
        layers: list[nn.Module] = []
        for width in hidden:
            layers += [nn.Linear(before, width), nn.SiLU()]
            before = width
        self.layers = nn.Sequential(*layers)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Map states (n, features) to (n, k)."""
        out: torch.Tensor = self.last(self.layers(states)) + self.line(states)
        return out


class TCN(_BesideALine):
    """Causal convolutions over the lags."""

    def __init__(self, shape: StateShape, channels: int, kernel: int, dilations: Sequence[int]) -> None:
        super().__init__(shape, channels + shape.n_features - shape.n_context_features)
        before = shape.n_contexts
        layers: list[nn.Module] = []
        for dilation in dilations:
            layers.append(nn.Conv1d(before, channels, kernel, dilation=dilation))
            before = channels
        self.layers = nn.ModuleList(layers)
        self.rooms = [(kernel - 1) * d for d in dilations]

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Map states (n, features) to (n, k)."""
        x = self.sequence(states).transpose(1, 2)
        for i, (layer, room) in enumerate(zip(self.layers, self.rooms, strict=True)):
            y = nn.functional.silu(layer(nn.functional.pad(x, (room, 0))))
            x = y if i == 0 else x + y
        return self.ended(x[:, :, -1], states)


class GRU(_BesideALine):
    """A gated recurrent unit over the lags."""

    def __init__(self, shape: StateShape, hidden: int) -> None:
        super().__init__(shape, hidden + shape.n_features - shape.n_context_features)
        self.unit = nn.GRU(shape.n_contexts, hidden, batch_first=True)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Map states (n, features) to (n, k)."""
        _, latest = self.unit(self.sequence(states))
        return self.ended(latest[0], states)


def weights_of(module: nn.Module) -> tuple[Any, ...]:
    """Return the weights and buffers of a module as arrays, in the order of its `state_dict`."""
    return tuple(t.detach().cpu().numpy().copy() for t in module.state_dict().values())
