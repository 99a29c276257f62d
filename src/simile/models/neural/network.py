"""A fitted network: a recipe, its weights as arrays, and what brings states to standard units."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from simile._common.typing import FloatArray
from simile.data.states import Horizon
from simile.errors import ArgumentError
from simile.models.neural import _torch
from simile.models.neural.recipes import Recipe
from simile.models.neural.shapes import StateShape

BLOCK = 16_384  # states predicted at a time


@dataclass(frozen=True, eq=False)
class Network:
    """f as a network on states in standard units.

    States are taken in single precision, and a missing value (NaN) counts as the mean of its column.

    Parameters
    ----------
    recipe : Recipe
        Makes the module.
    shape : StateShape
        The states it reads.
    parameters : tuple of arrays
        The module's weights in single precision, in the order of its `state_dict`.
    mean, scale : (m + k,) arrays
        Of the contexts and past actions; those of the actions count only where states hold some.
    center, spread : (k,) arrays
        What the module's outputs are multiplied by (`spread`) and moved by (`center`).
    """

    kind = "a network"

    recipe: Recipe
    shape: StateShape
    parameters: tuple[Any, ...]
    mean: Any
    scale: Any
    center: Any
    spread: Any

    @property
    def n_actions(self) -> int:
        """Dimension k of an action."""
        return self.shape.n_actions

    @property
    def n_contexts(self) -> int:
        """Dimension m of a context."""
        return self.shape.n_contexts

    def fits(self, horizon: Horizon, n_contexts: int, n_actions: int) -> bool:
        """Tell whether f reads the states of this horizon and predicts k actions."""
        return self.shape == StateShape.of(horizon, n_contexts, n_actions)

    def module(self) -> Any:
        """Return a new `torch.nn.Module` that maps raw states (n, features) to actions (n, k): CPU, float32, eval."""
        torch = _torch.require()
        from simile.models.neural.modules import Standardised

        with _torch.seed_torch(0):  # what a recipe draws is overwritten at once
            inside = self.recipe(self.shape)
        names = list(inside.state_dict())
        inside.load_state_dict({n: torch.tensor(w) for n, w in zip(names, self.parameters, strict=True)})
        spread = (self.shape.spread(self.mean), self.shape.spread(self.scale))
        return Standardised(inside, *spread, self.center, self.spread).eval()

    @cached_property
    def _module(self) -> Any:
        return self.module()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_module"}  # made again where needed

    def predict(self, S: FloatArray) -> FloatArray:
        """Map states (n, features) to actions (n, k)."""
        torch = _torch.require()
        with np.errstate(over="ignore"):
            X = np.ascontiguousarray(S, dtype=np.float32)
        if X.shape[1] != self.shape.n_features:
            raise ArgumentError(f"S must have the {self.shape.n_features} features f was fitted on; got {X.shape[1]}")
        out = np.empty((len(X), self.n_actions))
        with torch.inference_mode(), _torch.one_thread():
            for i in range(0, len(X), BLOCK):
                # Copied to where torch wants it: where an array lies in memory must not change a bit of the result.
                out[i : i + BLOCK] = self._module(torch.tensor(X[i : i + BLOCK])).numpy()
        return out
