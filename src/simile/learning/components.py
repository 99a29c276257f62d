"""What a mixture is made of: models that are fitted once, and know of no lambda.

Each model is fitted to all that there is to learn from and, to tell what it is worth, without one fold of the sequences
after the other. It serves several aims at once: the action of now, of a little later, and sharpened ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, is_dataclass, replace
from typing import Any

import numpy as np

from simile._common.typing import FloatArray
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.recorded import Recorded
from simile.data.states import Horizon
from simile.learning.aims import FEW, LAGS, Aim, choose_aims
from simile.learning.checkpoints import recipe_of
from simile.learning.folds import Folds
from simile.learning.initial import Kept
from simile.learning.problem import Course, Fitted, Watch, teach, teach_folds
from simile.models import Apart, Forest, Model, PiecewiseLinear, SmoothForest
from simile.models.ridge import FoldRegressor, Ridge

# Trees for what is not linear, lines for what trees cannot resolve, and hinges for what lies between.
MODELS = (
    SmoothForest(n_trees=48, max_depth=None, min_leaf=20, max_frames=250_000),
    Ridge(),
    Ridge(knots=5),
)
FEWER = 2  # times as few trees tell, fold by fold, what a forest is worth


@dataclass(frozen=True, eq=False)
class Component:
    """A fitted model with all of its aims.

    Attributes
    ----------
    name : str
        What kind of model it is.
    model : Model
        Says the action of each aim, aim by aim, (n, aims * k).
    aims : tuple of Aim
        What it was fitted to.
    unseen : (frames, aims * k) array
        What it says where it is judged, by fits that have not seen the sequence.
    """

    name: str
    model: Model
    aims: tuple[Aim, ...]
    unseen: FloatArray

    def blend(self, weights: FloatArray) -> tuple[Model, FloatArray] | None:
        """Return one model of actions for the weights (aims, k) of the aims, and its share (k,); None without any.

        The weights go into leaves and coefficients: asking the model costs no more than for one aim.
        """
        share: FloatArray = weights.sum(axis=0)
        if not share.any():
            return None
        parts, share = weights / np.where(share > 0.0, share, 1.0), np.minimum(share, 1.0)  # but for rounding
        model = self.model
        if isinstance(model, Forest):
            return replace(model, value=_mix_aims(model.value, parts)), share
        if isinstance(model, Apart):
            own = zip(model.forests, parts.T, strict=True)
            return Forest.beside([replace(f, value=_mix_aims(f.value, part[:, np.newaxis])) for f, part in own]), share
        if isinstance(model, PiecewiseLinear):
            coefficient, intercept = (_mix_aims(values, parts) for values in (model.coefficient, model.intercept))
            return replace(model, coefficient=coefficient, intercept=intercept), share
        return model, share

    def stack(self, weights: Sequence[FloatArray]) -> tuple[Model, FloatArray] | None:
        """Return what `blend` returns for several weights side by side, (n, several * k); None where that cannot be."""
        blends = [self.blend(one) for one in weights]
        known = next(one[0] for one in blends if one is not None)
        if not isinstance(known, Forest | PiecewiseLinear):
            return None
        names = ("value",) if isinstance(known, Forest) else ("coefficient", "intercept")
        values: dict[str, Any] = {}
        for name in names:
            nothing = np.zeros_like(getattr(known, name))
            each = [nothing if one is None else getattr(one[0], name) for one in blends]
            values[name] = np.concatenate(each, axis=-1)
        k = weights[0].shape[1]
        share = np.concatenate([np.zeros(k) if one is None else one[1] for one in blends])
        return replace(known, **values, width=known.width + (len(weights) - 1) * k), share


def _mix_aims(values: FloatArray, parts: FloatArray) -> FloatArray:
    """Add up values (..., aims * k) of the aims to (..., k), each times its part (aims, k)."""
    apart = values.reshape(*values.shape[:-1], *parts.shape)
    total = apart[..., 0, :] * parts[0]
    for i in range(1, len(parts)):
        total += apart[..., i, :] * parts[i]
    return np.ascontiguousarray(total)


def fit_components(
    demos: Recorded,
    folds: Folds,
    models: Sequence[Any],
    horizon: Horizon,
    rng: np.random.Generator,
    *,
    beside: Demonstrations | None = None,
    watch: Watch | None = None,
) -> list[Component]:
    """Fit every model; the mean of what the expert does comes first.

    Parameters
    ----------
    demos : Recorded
        What to learn from, in standard units.
    folds : Folds
        Of these.
    models : sequence of Regressor
        What to fit.
    horizon : Horizon
        What they see.
    rng : Generator
        Where chance comes from.
    beside : Demonstrations, optional
        What models learn from as well, and nothing is judged by.
    watch : callable, optional
        Called with every `Fitted` as it comes.
    """
    tasks = [task for model in models for task in _list_tasks(model, demos.rate)]
    found, steps, done = [fit_mean(folds, horizon)], sum(1 if t.at_once else 1 + len(folds) for t in tasks), 0
    for task in tasks:

        def tell(task: _Task = task) -> None:
            nonlocal done
            done += 1
            if watch is not None:
                watch(Fitted(task.name, done, steps))

        found.append(task.fit(demos, folds, horizon, rng, beside or (), tell))
    return found


def fit_mean(folds: Folds, horizon: Horizon) -> Component:
    """Return what the expert does on average, and in each fold that of the others."""
    demos = folds.demos
    sums = np.concatenate(demos.collect(_sum_actions))
    means = np.array([_average(sums[others]) for others, _ in folds.apart()])
    said = np.repeat(means[folds.fold[folds.judged]], folds.shown.lengths, axis=0)
    return Component("mean", PiecewiseLinear.constant(_average(sums), horizon, demos.n_contexts), (Aim(),), said)


def _average(sums: FloatArray) -> FloatArray:
    total, count = sums.sum(axis=0)
    average: FloatArray = np.divide(total, count, out=np.zeros_like(total), where=count > 0.0)
    return average


@dataclass(frozen=True)
class _Task:
    """A model and what to fit it to."""

    model: Any
    name: str
    aims: tuple[Aim, ...]

    @property
    def at_once(self) -> bool:
        """Whether the model fits all and without each fold in one pass."""
        return isinstance(self.model, FoldRegressor)

    def fit(
        self,
        demos: Recorded,
        folds: Folds,
        horizon: Horizon,
        rng: np.random.Generator,
        beside: Sequence[Demonstration],
        tell: Callable[[], None],
    ) -> Component:
        """Fit to all, and without each fold."""
        if self.at_once:
            fold = np.append(folds.fold, np.full(len(beside), len(folds), np.intp))  # one of its own
            judged = np.append(folds.judged, np.zeros(len(beside), bool))
            f, said = teach_folds(_join(folds.demos, beside), self.model, horizon, self.aims, fold, judged)
            lengths = folds.demos.lengths[folds.judged]
            unseen = folds.cut(np.split(said, np.cumsum(lengths)[:-1]))
            tell()
            return Component(self.name, f, self.aims, unseen)
        recipe = recipe_of(self.model)
        apart = demos.n_actions > 1 and isinstance(recipe, SmoothForest) and recipe.by_labels
        course = Course(horizon, self.aims, apart)

        smaller = halve(self.model)

        def fit(some: Recorded, model: Any = smaller, *, here: bool = False) -> Any:
            f = teach(_join(some, beside), model, course, rng, here=here)
            tell()
            return f

        whole = fit(demos, self.model, here=True)
        return Component(self.name, whole, self.aims, folds.predict_unseen(fit, horizon))


def _list_tasks(model: Any, rate: float | None) -> Iterator[_Task]:
    """Yield what to fit of a model: all aims at once where it can, else a few delays one after the other."""
    recipe = recipe_of(model)
    if isinstance(recipe, Kept):
        yield _Task(model, "policy before", (Aim(),))
    elif isinstance(recipe, Ridge):
        yield _Task(model, "hinges" if recipe.knots else "line", choose_aims(rate, lags=LAGS))
    elif isinstance(recipe, SmoothForest):
        yield _Task(model, "forest", choose_aims(rate))
    else:
        for aim in choose_aims(rate, FEW):
            yield _Task(model, type(recipe).__name__, (aim,))


def halve(model: Any) -> Any:
    """Return what tells, fold by fold, what a model is worth: a forest of fewer trees, and any other as it is."""
    if isinstance(model, SmoothForest):
        return replace(model, n_trees=-(-model.n_trees // FEWER))
    if is_dataclass(model) and hasattr(model, "for_folds"):
        return model.for_folds(halve)
    return model


def _join(demos: Recorded, beside: Sequence[Demonstration]) -> Recorded:
    """Put sequences beside demonstrations, which are here where there are such."""
    return Demonstrations((*demos, *beside)) if beside and isinstance(demos, Demonstrations) else demos


# What runs where a part is.


def _sum_actions(demos: Demonstrations) -> FloatArray:
    """Sum, (n, 2, k), the actions of each sequence and how many there are, each times its weight."""
    weights = [np.ones_like(a) for a in demos.actions] if demos.weights is None else demos.weights
    return np.array([(np.sum(w * a, axis=0), np.sum(w, axis=0)) for w, a in zip(weights, demos.actions, strict=True)])
