"""Networks as F: recipes for torch modules, fitted to targets like any f.

torch is loaded when a network is fitted or asked, not before: policies with networks can be looked into without it.
"""

from simile.models.neural.network import Network
from simile.models.neural.recipes import GRU, MLP, TCN, Own
from simile.models.neural.regressor import TorchRegressor
from simile.models.neural.shapes import StateShape

__all__ = ["GRU", "MLP", "TCN", "Network", "Own", "StateShape", "TorchRegressor"]
