"""Networks as F: recipes for torch modules, fitted to targets like any f or through the roll-out itself.

torch is loaded when a network is fitted or asked, not before: policies with networks can be looked into without it.
"""

from simile.neural.batched import rollouts
from simile.neural.network import Network
from simile.neural.recipes import GRU, MLP, TCN, Own
from simile.neural.regressor import TorchRegressor
from simile.neural.shapes import StateShape

__all__ = ["GRU", "MLP", "TCN", "Network", "Own", "StateShape", "TorchRegressor", "rollouts"]
