"""Any regressor as F: scikit-learn estimators as they are, and anything else with `fit` and `predict`."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from simile._common.typing import FloatArray, PerAction, Trajectories
from simile.data.states import States
from simile.errors import ArgumentError, DataError


@runtime_checkable
class Model(Protocol):
    """A fitted f."""

    def predict(self, S: FloatArray, /) -> FloatArray:
        """Map states (n, features) to actions (n, k)."""


@runtime_checkable
class Regressor(Protocol):
    """A recipe for f; scikit-learn's estimators are some. It is copied before each `fit`."""

    def fit(self, S: FloatArray, Y: FloatArray, /) -> Any:
        """Fit to states (n, features) and labels, (n,) for one action and (n, k) for more; return what predicts."""


@runtime_checkable
class SmoothRegressor(Protocol):
    """A recipe for f that wants h itself, to choose its structure by it (Appendix B)."""

    def fit_smooth(
        self,
        states: Sequence[States],
        labels: FloatArray,
        targets: FloatArray,
        anchors: FloatArray,
        smoothness: float,
        rng: np.random.Generator,
    ) -> Model:
        """Fit to lazy states and their labels, knowing the targets a^, `anchors` h(s) (each (n, k)) and lambda."""


def takes_weights(model: Any) -> bool:
    """Tell whether a recipe can let some rows count more than others."""
    model = getattr(model, "recipe", model)  # of one with checkpoints
    method = next((m for n in ("fit_smooth", "fit") if (m := getattr(model, n, None))), None)
    return method is not None and not {"weights", "sample_weight"}.isdisjoint(inspect.signature(method).parameters)


def weights_for(model: Any, weights: Trajectories | None) -> dict[str, Any]:
    """Return the argument by which a recipe takes the weights of sequences (T, k), if there are any and it does."""
    return {} if weights is None or not takes_weights(model) else {"weights": np.concatenate(weights)}


def fit(
    model: Regressor, S: FloatArray, Y: FloatArray, rng: np.random.Generator, *, weights: FloatArray | None = None
) -> Model:
    """Fit a copy of `model` to states S (n, features) and labels Y (n, k).

    Of weights (n, k), which one that `takes_weights` may be given, the mean over the actions counts.
    """
    estimator = fresh(model, Y.shape[1], rng)
    counts = {"sample_weight": weights.mean(axis=1)} if weights is not None else {}
    try:
        fitted = estimator.fit(S, Y[:, 0] if Y.shape[1] == 1 else Y, **counts)
    except ValueError as error:
        if np.isnan(S).any() and "nan" in str(error).lower():
            raise DataError(
                f"model {type(model).__name__} cannot take the missing values (NaN) in the contexts: "
                "impute them first, for example make_pipeline(SimpleImputer(), model), or choose a model that can"
            ) from error
        raise
    if not callable(getattr(fitted, "predict", None)):
        raise ArgumentError(
            f"model must return an object with predict() from fit(); {type(model).__name__}.fit returned {fitted!r}"
        )
    trees = _trees(fitted)
    return TreeMean(tuple(trees)) if trees else FittedRegressor(fitted)


@dataclass(frozen=True, eq=False)
class FittedRegressor:
    """A fitted regressor of any kind, its prediction brought to (n, k)."""

    estimator: Any

    def predict(self, S: FloatArray) -> FloatArray:
        """Map states (n, features) to actions (n, k)."""
        return np.asarray(self.estimator.predict(S), dtype=np.float64).reshape(len(S), -1)


class Deferred:
    """A model that is fitted when it is first asked; until then it costs nothing but a hold on its data.

    >>> model = Deferred(lambda: WeightedModel((), ()))
    >>> settle(model)
    WeightedModel(models=(), weights=())
    """

    def __init__(self, fit: Callable[[], Model]) -> None:
        self._fit: Callable[[], Model] | None = fit
        self._model: Model | None = None

    @property
    def model(self) -> Model:
        """The fitted model."""
        if self._model is None:
            assert self._fit is not None
            self._model, self._fit = self._fit(), None  # which held the data
        return self._model

    def predict(self, S: FloatArray) -> FloatArray:
        """Map states (n, features) to actions (n, k)."""
        return self.model.predict(S)

    def parts(self, weight: PerAction = 1.0) -> list[tuple[Model, PerAction]]:
        """Return the models that the fitted model is a sum of, and `weight` times their weights."""
        return parts_of(self.model, weight)

    def __reduce__(self) -> tuple[Any, ...]:
        return settle, (self.model,)  # data do not travel


def settle(model: Any) -> Any:
    """Return the model itself, fitted now where that was put off."""
    if isinstance(model, WeightedModel) and any(isinstance(part, Deferred) for part in model.models):
        return WeightedModel(tuple(map(settle, model.models)), model.weights)
    return model.model if isinstance(model, Deferred) else model


@dataclass(frozen=True, eq=False)
class TreeMean:
    """The mean of scikit-learn trees: what a forest predicts, to the bit, without its overhead per call.

    A roll-out predicts for a few states at a time, and the checks and dispatch of a forest's own `predict`
    take 15 times as long as its trees.
    """

    trees: tuple[Any, ...]

    def predict(self, S: FloatArray) -> FloatArray:
        """Map states (n, features) to actions (n, k)."""
        X = np.ascontiguousarray(S, dtype=np.float32)
        if X.shape[1] != (wanted := self.trees[0].n_features):  # the trees themselves do not look
            raise ArgumentError(f"S must have the {wanted} features the trees were grown on; got {X.shape[1]}")
        total = np.zeros((len(S), self.trees[0].n_outputs))
        for tree in self.trees:
            total += tree.predict(X).reshape(total.shape)
        return total / len(self.trees)


@dataclass(frozen=True, eq=False)
class WeightedModel:
    """One f made of several: sum_i w_i f_i."""

    models: tuple[Model, ...]
    weights: tuple[PerAction, ...]  # (k,) arrays where each action has its own

    def predict(self, S: FloatArray) -> FloatArray:
        """Map states (n, features) to actions (n, k)."""
        total = self.weights[0] * self.models[0].predict(S)
        for weight, model in zip(self.weights[1:], self.models[1:], strict=True):
            total = total + weight * model.predict(S)
        return total

    def parts(self, weight: PerAction = 1.0) -> list[tuple[Model, PerAction]]:
        """Return the models inside, those inside of weighted ones too, and `weight` times their weights."""
        pairs = zip(self.models, self.weights, strict=True)
        return [part for model, share in pairs for part in parts_of(model, weight * share)]


def parts_of(model: Model, weight: PerAction = 1.0) -> list[tuple[Model, PerAction]]:
    """Return the fitted models that a model is a weighted sum of, with their weights; most are their only part."""
    return model.parts(weight) if isinstance(model, WeightedModel | Deferred) else [(model, weight)]


def fresh(model: Any, n_actions: int, rng: np.random.Generator) -> Any:
    """Copy a recipe, seed what is unseeded, and give one-action estimators one copy per action."""
    if not hasattr(model, "get_params"):
        return copy.deepcopy(model)
    from sklearn.base import clone
    from sklearn.multioutput import MultiOutputRegressor
    from sklearn.utils import get_tags

    estimator = clone(model)
    seeds = {
        name: int(rng.integers(2**31))
        for name, value in sorted(estimator.get_params().items())
        if name.split("__")[-1] == "random_state" and value is None
    }
    estimator.set_params(**seeds)
    if n_actions > 1 and not get_tags(estimator).target_tags.multi_output:
        return MultiOutputRegressor(estimator)
    return estimator


def _trees(fitted: Any) -> list[Any]:
    """Return the trees of a model that predicts their plain mean; none for any other model."""
    if not type(fitted).__module__.startswith("sklearn."):
        return []
    from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
    from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

    if isinstance(fitted, RandomForestRegressor | ExtraTreesRegressor):
        return [tree.tree_ for tree in fitted.estimators_]
    return [fitted.tree_] if isinstance(fitted, DecisionTreeRegressor | ExtraTreeRegressor) else []
