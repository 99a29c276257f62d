"""f in F: the complex model class, any regressor."""

from simile.models.adapters import Model, Regressor, SmoothRegressor, WeightedModel, fit, parts_of
from simile.models.forest import Apart, Forest, SmoothForest
from simile.models.linear import PiecewiseLinear
from simile.models.trees import Bagging, Criterion

__all__ = [
    "Apart",
    "Bagging",
    "Criterion",
    "Forest",
    "Model",
    "PiecewiseLinear",
    "Regressor",
    "SmoothForest",
    "SmoothRegressor",
    "WeightedModel",
    "fit",
    "parts_of",
]
