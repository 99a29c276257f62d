"""f in F: the complex model class, any regressor."""

from simile.models.adapters import Model, Regressor, SmoothRegressor, WeightedModel, fit, parts_of
from simile.models.forest import Bagging, Criterion, Forest, SmoothForest
from simile.models.linear import PiecewiseLinear

__all__ = [
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
