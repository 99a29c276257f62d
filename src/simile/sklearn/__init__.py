"""SIMILE and its forest as scikit-learn regressors, for its pipelines, searches and cross-validation."""

from simile.sklearn._forest import SmoothForestRegressor
from simile.sklearn._simile import SimileRegressor

__all__ = ["SimileRegressor", "SmoothForestRegressor"]
