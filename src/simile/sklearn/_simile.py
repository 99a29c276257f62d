"""SIMILE as a scikit-learn regressor: rows in order of time, predicted by rolling out."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from simile._common.typing import FloatArray, IntArray
from simile.data.demonstrations import Demonstrations
from simile.data.losses import Loss
from simile.data.recorded import ActionSpace
from simile.data.states import Horizon
from simile.data.timing import Ahead
from simile.errors import ArgumentError, DataError
from simile.learning import ALGORITHMS, algorithms
from simile.learning.algorithms import Validation
from simile.learning.feedback import Feedback
from simile.learning.smoothness import Smoothness
from simile.learning.step_sizes import StepSize
from simile.learning.training import Rule
from simile.models import SmoothForest
from simile.models.regularizers import RegularizerClass
from simile.models.ridge import Ridge
from simile.policies.hold import Hold
from simile.policies.policies import Policy
from simile.policies.rollouts import ColdStart, rollout


class SimileRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Learn a smooth policy from rows in order of time; predict by rolling it out.

    Parameters
    ----------
    algorithm : str
        What learns: "learn", "paper", "authors", or another of `simile.learning.ALGORITHMS`.
    model, regularizer, smoothness, horizon, lead, known, hold, loss, validation, space, initial
        As for `simile.learn`; `lead` and `known` in rows, for they have no rate.
    feedback, rule, step_size, n_rounds
        As for `simile.paper`; `learn` has no use for them, and refuses them.
    random_state : int or RandomState, optional
        An int is the `seed` of `simile.learn`; None is the seed 0, so that the same data give the same bits.

    Attributes
    ----------
    run_ : Run
        The rounds of the training; prints as a table.
    policy_ : Policy
        The policy of the chosen round.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    Rows of one group are one sequence. A search passes groups on to `fit` and `score` only with metadata
    routing (`sklearn.set_config(enable_metadata_routing=True)`) and on request:
    `SimileRegressor().set_fit_request(groups=True).set_score_request(groups=True)`. Where the folds go by something
    coarser, say by player, request the sequences under a name of their own: `set_fit_request(groups="game")`.
    A `scoring` of your own predicts without groups, and so does a search over a Pipeline before scikit-learn 1.8.

    Examples
    --------
    >>> import numpy as np
    >>> from simile import tasks
    >>> from simile.sklearn import SimileRegressor
    >>> demos = tasks.pursuit(n_sequences=4, length=150)
    >>> X, y = np.concatenate(demos.contexts), np.concatenate(demos.actions)[:, 0]
    >>> play = np.repeat(demos.names, 150)
    >>> regressor = SimileRegressor(algorithm="paper", n_rounds=2).fit(X, y, groups=play)
    >>> regressor.predict(X[:200], groups=play[:200]).shape
    (200,)
    """

    def __init__(
        self,
        *,
        algorithm: str = "learn",
        model: Any = None,
        regularizer: RegularizerClass | None = None,
        smoothness: Smoothness | None = None,
        horizon: Horizon | None = None,
        lead: int | None = None,
        known: Ahead | None = None,
        hold: Hold | float | tuple[float, ...] | None = None,
        loss: Loss | None = None,
        feedback: Feedback | None = None,
        rule: Rule | None = None,
        step_size: StepSize | float | None = None,
        n_rounds: int | None = None,
        validation: Validation = None,
        space: ActionSpace | None = None,
        initial: Policy | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.algorithm = algorithm
        self.model = model
        self.regularizer = regularizer
        self.smoothness = smoothness
        self.horizon = horizon
        self.lead = lead
        self.known = known
        self.hold = hold
        self.loss = loss
        self.feedback = feedback
        self.rule = rule
        self.step_size = step_size
        self.n_rounds = n_rounds
        self.validation = validation
        self.space = space
        self.initial = initial
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Learn from contexts X (n, m) and actions y, (n,) or (n, k), with one label per row in groups (n,).

        Rows are in order of time. Those of one group are one sequence, also where groups interleave; without
        groups all rows are.
        """
        names = tuple(getattr(y, "columns", [getattr(y, "name", None)]))
        # NaN passes: whether it is welcome is the model's to say. One row has no past to go on from.
        contexts, actions = validate_data(
            self,
            X,
            y,
            dtype=np.float64,
            ensure_all_finite="allow-nan",
            ensure_min_samples=2,
            multi_output=True,
            y_numeric=True,
        )
        sequences = _sequences(len(contexts), groups)
        demos = Demonstrations.from_arrays(
            [contexts[rows] for rows in sequences],
            [actions[rows] for rows in sequences],
            context_names=getattr(self, "feature_names_in_", ()),
            action_names=names if all(isinstance(name, str) and name for name in names) else (),
        )
        settings = {name: value for name, value in self.get_params(deep=False).items() if value is not None}
        algorithm, seed = settings.pop("algorithm"), seed_of(settings.pop("random_state", None))
        if algorithm not in ALGORITHMS:
            raise ArgumentError(f"algorithm must be one of {', '.join(ALGORITHMS)}; got {algorithm!r}")
        self.run_ = getattr(algorithms, algorithm)(demos, seed=seed, **settings)
        self.policy_ = self.run_.policy
        self._flat = actions.ndim == 1
        return self

    def predict(self, X: ArrayLike, groups: ArrayLike | None = None) -> FloatArray:
        """Roll the policy out over contexts X (n, m) from a cold start; actions (n,) or (n, k), in the order of X."""
        check_is_fitted(self)
        contexts = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        sequences = _sequences(len(contexts), groups)
        rolled = np.concatenate(rollout(self.policy_, [contexts[rows] for rows in sequences], start=ColdStart()))
        actions = np.empty_like(rolled)
        actions[np.concatenate(sequences)] = rolled
        return actions[:, 0] if self._flat else actions

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> float:
        """Return R^2 of the roll-out over contexts X (n, m) against actions y, (n,) or (n, k)."""
        return float(r2_score(y, self.predict(X, groups), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # A promise, and only our own forest and scikit-learn's estimators tell whether it can be made.
        tags.input_tags.allow_nan = (
            self.model is None
            or isinstance(self.model, SmoothForest | Ridge)
            or (isinstance(self.model, BaseEstimator) and get_tags(self.model).input_tags.allow_nan)
        )
        tags.target_tags.multi_output = True
        # A smooth policy is slow by design: it cannot follow actions that jump from row to row, as in made-up data.
        tags.regressor_tags.poor_score = True
        return tags


def _sequences(n: int, groups: ArrayLike | None) -> list[IntArray]:
    """Return the rows of each sequence, in order of time; the sequences in order of appearance."""
    if groups is None:
        return [np.arange(n)]
    labels = np.asarray(groups)
    if labels.shape != (n,):
        raise DataError(f"groups must hold one label for each of {n} rows; got shape {labels.shape}")
    rows: dict[Any, list[int]] = {}
    for row, label in enumerate(labels.tolist()):
        if label is None or label != label:  # NaN: equal to nothing, it would make every row a sequence
            raise DataError(f"groups must name the sequence of every row; got {label!r} at row {row}: drop such rows")
        rows.setdefault(label, []).append(row)
    return [np.array(index) for index in rows.values()]


def seed_of(random_state: Any) -> int:
    """Turn a `random_state` into a seed; an int stays what it is, so that `simile.learn` repeats the run."""
    if random_state is None:
        return 0
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))
