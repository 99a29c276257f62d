"""Steps of a network in training. This module imports torch: import it inside functions alone."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from simile.errors import ArgumentError

CLIP = 1.0  # largest norm of a gradient
MEMORY = 0.98  # of the running mean of the weights, which is what is judged and kept


class Learner:
    """A network, its optimiser, and the running mean of its weights: steadier than the latest ones."""

    def __init__(self, module: nn.Module, *, rate: float, weight_decay: float, half: bool) -> None:
        self.module = module
        self.averaged = copy.deepcopy(module).eval()
        self.best: dict[str, Any] = {}
        self._half = half
        self._pairs = list(zip(self.averaged.state_dict().values(), module.state_dict().values(), strict=True))
        parameters = [p for p in module.parameters() if p.requires_grad]
        if not parameters:
            raise ArgumentError("module must have weights to train; got one without any")
        self._optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=weight_decay)
        self._steps = 0
        self.keep()

    def outputs(self, states: torch.Tensor) -> torch.Tensor:
        """Return what the network in training says, (n, k), in single precision."""
        self.module.train()
        with self._precision(states):
            out: torch.Tensor = self.module(states)
        return out.float()

    def step(self, loss: torch.Tensor) -> None:
        """Go down the gradient, and let the running mean follow."""
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.module.parameters(), CLIP)
        self._optimizer.step()
        self._steps += 1
        share = 1.0 - min(MEMORY, self._steps / (self._steps + 9.0))
        with torch.no_grad():
            for mean, latest in self._pairs:
                if mean.is_floating_point():
                    mean.lerp_(latest, share)
                else:  # a counter of somebody's own module
                    mean.copy_(latest)

    @torch.no_grad()
    def predict(self, blocks: Iterator[torch.Tensor]) -> torch.Tensor:
        """Return what the running mean says to blocks of states, (n, k) together."""
        found = []
        for states in blocks:
            with self._precision(states):
                found.append(self.averaged(states).float())
        return torch.cat(found)

    def keep(self) -> None:
        """Take the running mean as the best so far."""
        self.best = {name: value.clone() for name, value in self.averaged.state_dict().items()}

    def go_back(self) -> None:
        """Return to the best so far."""
        self.averaged.load_state_dict(self.best)

    def _precision(self, states: torch.Tensor) -> Any:
        if not self._half:
            return contextlib.nullcontext()
        return torch.autocast(states.device.type, dtype=torch.bfloat16)


class Patience:
    """Tells when to stop: after so many epochs in a row without a better error."""

    def __init__(self, epochs: int) -> None:
        self.best = math.inf
        self._epochs, self._waited = epochs, 0

    def better(self, error: float) -> bool:
        """Take in the error of an epoch; tells whether it is the best so far."""
        if not math.isfinite(error):
            raise ArgumentError("rate must be smaller: the weights of the network left every range in training")
        if error < self.best:
            self.best, self._waited = error, 0
            return True
        self._waited += 1
        return False

    @property
    def over(self) -> bool:
        """Whether to stop."""
        return self._waited >= self._epochs
