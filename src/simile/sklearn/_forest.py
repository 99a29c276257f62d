"""The smooth regression forest of Appendix B as a scikit-learn regressor of independent rows."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, assert_all_finite, check_is_fitted, validate_data

from simile._common import checks
from simile._common.typing import FloatArray
from simile.data.origins import choose_origin, find_places
from simile.data.recorded import Units
from simile.data.states import Horizon, Tape
from simile.errors import ArgumentError, DataError
from simile.models import Bagging, Criterion, SmoothForest
from simile.sklearn._simile import seed_of

FLOATS = [np.float64, np.float32]  # of features: taken as they come


class SmoothForestRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The forest of SIMILE by itself: a fast random forest that can be held to anchors h(s).

    Parameters
    ----------
    n_estimators : int
        How many trees.
    max_depth : int, optional
        Longest way from the root to a leaf; None for no limit.
    max_leaf_nodes : int, optional
        Most leaves of a tree, which is then grown best first; None for no limit.
    min_samples_leaf : int or float
        Fewest rows in a leaf, or their least share of all rows. Rows count by their weight.
    max_features : int, float, "sqrt", "log2" or None
        How many features a node tries, or which share of them; None for all.
    smoothness : float
        How strongly splits are held to the anchors (lambda of Appendix B).
    criterion : {"labels", "smooth", "printed"}
        What a split is chosen by, as in `simile.Criterion`. Leaves always predict the mean of y.
    bootstrap : bool
        Whether each tree is grown on rows drawn with replacement.
    random_state : int or RandomState, optional
        None is the seed 0, so that the same data give the same bits.
    n_jobs : int, optional
        Threads that grow the trees, counted as in joblib. The forest does not depend on it.

    Attributes
    ----------
    forest_ : Forest
        The fitted forest, in the units of y.
    feature_importances_ : ndarray of shape (n_features_in_,)
        How much of the fall of the impurity each feature brought about.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    Features are split at 255 bins each, which is exact where they have no more distinct values. Missing values (NaN)
    go where they fit best; where a node met none in training, they go left.

    A row of weight 2 is the same as two rows, also for `min_samples_leaf`, but not in the choice of the bins of a
    feature with more distinct values than that, nor for `bootstrap`, which draws rows alike. A row of weight 0 is
    the same as none. A row drawn twice counts twice (in scikit-learn's forests once), which makes for leaves of
    fewer distinct rows.

    Examples
    --------
    >>> import numpy as np
    >>> from simile.sklearn import SmoothForestRegressor
    >>> X = np.linspace(0.0, 6.0, 500)[:, np.newaxis]
    >>> y = np.sin(X[:, 0])
    >>> round(SmoothForestRegressor().fit(X, y).score(X, y), 3)
    0.997
    """

    _origin: FloatArray | None = None  # of what was fitted before there were any

    def __init__(
        self,
        n_estimators: int = 50,
        *,
        max_depth: int | None = 12,
        max_leaf_nodes: int | None = None,
        min_samples_leaf: float = 20,
        max_features: float | str | None = 1 / 3,
        smoothness: float = 0.0,
        criterion: str = "labels",
        bootstrap: bool = True,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.smoothness = smoothness
        self.criterion = criterion
        self.bootstrap = bootstrap
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        anchors: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Grow a forest on X (n, m) and y, (n,) or (n, k), with weights (n,).

        `anchors`, of the shape of y, are what splits are held to when smoothness is above zero, and by another
        criterion than "labels"; else they are ignored.
        """
        features, given = validate_data(
            self, X, y, dtype=FLOATS, ensure_all_finite="allow-nan", multi_output=True, y_numeric=True
        )
        self._flat = given.ndim == 1
        labels = np.asarray(given, dtype=np.float64).reshape(len(given), -1)
        weights = _check_sample_weight(sample_weight, features, dtype=np.float64)
        if weights.min() < 0.0 or not weights.any():
            raise DataError("sample_weight must hold no negative weights, and some that are not zero")
        smoothness = checks.number(self.smoothness, "smoothness", at_least=0.0)
        held_to = self._choose_anchors(labels, anchors)
        counted = weights > 0.0
        if not counted.all():
            features, labels = features[counted], labels[counted]
            held_to, weights = held_to[counted], weights[counted]
        weights, min_leaf = self._weigh_leaves(weights)
        self._origin = choose_origin(find_places(features)[np.newaxis])
        most = self.max_leaf_nodes
        recipe = SmoothForest(
            n_trees=checks.whole_number(self.n_estimators, "n_estimators", at_least=1),
            max_depth=None if self.max_depth is None else checks.whole_number(self.max_depth, "max_depth", at_least=1),
            min_leaf=min_leaf,
            max_features=self._count_tried(features.shape[1]),
            criterion=self._read_criterion(),
            bagging=Bagging.ROWS if self.bootstrap else Bagging.NONE,
            n_jobs=effective_n_jobs(self.n_jobs),
            max_leaves=None if most is None else checks.whole_number(most, "max_leaf_nodes", at_least=2),
        )
        units = _measure_units(labels, weights)
        targets = units.standardize(labels)  # so that no dimension outweighs another, and offsets cost no precision
        # Without lags each row stands alone, whichever sequence it is in.
        states = Tape.of([self._narrow(features)], [np.empty((len(features), 0))]).states(Horizon(0, 0))
        rng = np.random.default_rng(seed_of(self.random_state))
        forest = recipe.fit_smooth(
            [states], targets, targets, units.standardize(held_to), smoothness, rng, weights=weights
        )
        self.forest_ = replace(forest, value=units.restore(forest.value))
        return self

    def predict(self, X: ArrayLike) -> FloatArray:
        """Return the mean of the trees at X (n, m), (n,) or (n, k)."""
        check_is_fitted(self)
        features = validate_data(self, X, reset=False, dtype=FLOATS, ensure_all_finite="allow-nan")
        predicted = self.forest_.predict(self._narrow(features))
        return predicted[:, 0] if self._flat else predicted

    def _narrow(self, features: Any) -> Any:
        """Measure features from where they lie, in the single precision of bins, as scikit-learn's trees."""
        with np.errstate(over="ignore"):  # it is the error that tells
            narrow = (features if self._origin is None else features - self._origin).astype(np.float32, copy=False)
        assert_all_finite(narrow, allow_nan=True, estimator_name=type(self).__name__, input_name="X")
        return narrow

    @property
    def feature_importances_(self) -> FloatArray:
        """How much of the fall of the impurity each feature brought about, (m,), summing to one."""
        check_is_fitted(self)
        return self.forest_.feature_importances

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.multi_output = True
        return tags

    def _read_criterion(self) -> Criterion:
        try:
            return Criterion(self.criterion)
        except ValueError:
            choices = ", ".join(repr(c.value) for c in Criterion)
            raise ArgumentError(f"criterion must be one of {choices}; got {self.criterion!r}") from None

    def _choose_anchors(self, labels: FloatArray, anchors: ArrayLike | None) -> FloatArray:
        """Return the anchors (n, k), or the labels where splits are held to nothing."""
        if self.smoothness == 0.0 or self._read_criterion() is Criterion.LABELS:
            return labels
        if anchors is None:
            raise ArgumentError(
                f"smoothness={self.smoothness!r} with criterion={self.criterion!r} needs fit(X, y, anchors=...), what "
                'splits are held to; without anchors, set smoothness=0 or criterion="labels"'
            )
        held_to = checks.table(anchors, "anchors")
        if held_to.shape != labels.shape:
            raise DataError(f"anchors must have the shape of y, {labels.shape}; got {held_to.shape}")
        return held_to

    def _weigh_leaves(self, weights: FloatArray) -> tuple[FloatArray, int]:
        """Return the weights, scaled, and the least weight of a leaf."""
        total = float(weights.sum())
        if isinstance(self.min_samples_leaf, Integral):
            least = checks.whole_number(self.min_samples_leaf, "min_samples_leaf", at_least=1)
            if total < 2 * least <= len(weights):
                raise DataError(
                    f"sample_weight sums to {total:g}, too little for two leaves of min_samples_leaf={least}: scale "
                    "the weights, to mean one say, or set min_samples_leaf to a share, which has no scale"
                )
            return weights, least
        share = checks.number(self.min_samples_leaf, "min_samples_leaf", above=0.0)
        if share >= 1.0:
            raise ArgumentError(
                f"min_samples_leaf must be a whole number, or a share below 1; got {self.min_samples_leaf!r}"
            )
        # A power of two moves no bit of the weights, and makes them fine enough for a whole number to be the limit.
        scale = 2.0 ** max(0, math.ceil(30.0 - math.log2(share * total)))
        return weights * scale, math.ceil(share * total * scale)

    def _count_tried(self, n_features: int) -> int | None:
        """Return how many features a node tries, rounded as in scikit-learn."""
        given = self.max_features
        if given is None:
            return None
        if given == "sqrt":
            return max(1, int(math.sqrt(n_features)))
        if given == "log2":
            return max(1, int(math.log2(n_features)))
        if isinstance(given, str):
            raise ArgumentError(f'max_features must be a number, "sqrt", "log2" or None; got {given!r}')
        if isinstance(given, Integral):
            return checks.whole_number(given, "max_features", at_least=1)
        return max(1, int(checks.number(given, "max_features", above=0.0, at_most=1.0) * n_features))


def _measure_units(labels: FloatArray, weights: FloatArray) -> Units:
    """Measure mean and deviation of weighted labels (n, k); a constant dimension keeps its scale."""
    center = np.average(labels, axis=0, weights=weights)
    scale = np.sqrt(np.average((labels - center) ** 2, axis=0, weights=weights))
    constant = np.ptp(labels, axis=0) == 0.0
    center, scale = np.where(constant, labels[0], center), np.where(constant, 1.0, scale)
    if labels.shape[1] == 1 and not constant.all():
        # There is no other dimension to be on a par with. Round units keep the sums of round labels exact, so that
        # splits that are equally good are so to the last bit, in whatever order the rows come.
        scale = np.exp2(np.round(np.log2(scale)))
        center = np.round(16.0 * center / scale) * scale / 16.0
    return Units(center, scale)
