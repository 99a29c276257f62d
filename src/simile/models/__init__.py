"""f in F: the complex model class, any regressor."""

from simile.models.adapters import Model, Regressor, SmoothRegressor, WeightedModel, fit
from simile.models.forest import Bagging, Criterion, Forest, SmoothForest

__all__ = [
    "Bagging",
    "Criterion",
    "Forest",
    "Model",
    "Regressor",
    "SmoothForest",
    "SmoothRegressor",
    "WeightedModel",
    "fit",
]
