"""What a network is told of the states it will read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simile._common.typing import FloatArray
from simile.data.states import Horizon


@dataclass(frozen=True)
class StateShape:
    """The layout of a state, (features,): lag by lag with the present first, contexts before past actions.

    Parameters
    ----------
    n_contexts, n_actions : int
        Dimension m of a context, and k of an action.
    context_lags, action_lags : tuple of int
        As the `offsets` of a `Horizon`, and its lags of actions, in rising order.

    Examples
    --------
    >>> StateShape(3, 1, (0, 1, 4), (1,)).n_features
    10
    """

    n_contexts: int
    n_actions: int
    context_lags: tuple[int, ...]
    action_lags: tuple[int, ...] = ()

    @classmethod
    def of(cls, horizon: Horizon, n_contexts: int, n_actions: int) -> StateShape:
        """Describe the states of a horizon."""
        return cls(n_contexts, n_actions, horizon.offsets, horizon.action_lags)

    @property
    def horizon(self) -> Horizon:
        """What of the past such a state holds."""
        return Horizon(self.context_lags, self.action_lags)

    @property
    def n_context_features(self) -> int:
        """How many entries of a state are contexts; they come first."""
        return len(self.context_lags) * self.n_contexts

    @property
    def n_features(self) -> int:
        """Length of a state."""
        return self.n_context_features + len(self.action_lags) * self.n_actions

    def spread(self, values: FloatArray) -> FloatArray:
        """Repeat a value for each base column, (m + k,) with the contexts first, for every lag: (features,)."""
        m = self.n_contexts
        return np.concatenate([np.tile(values[:m], len(self.context_lags)), np.tile(values[m:], len(self.action_lags))])
