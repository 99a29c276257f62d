"""f in F: the complex model class, any regressor."""

from simile.models.adapters import Model, Regressor, SmoothRegressor, WeightedModel, default_forest, fit

__all__ = ["Model", "Regressor", "SmoothRegressor", "WeightedModel", "default_forest", "fit"]
