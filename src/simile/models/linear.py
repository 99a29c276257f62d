"""Piecewise linear f: what `Ridge` makes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.data.states import Horizon
from simile.errors import ArgumentError
from simile.models.columns import LaggedModel, layout


@dataclass(frozen=True, eq=False)
class PiecewiseLinear(LaggedModel):
    """f(s) = intercept + sum_j coefficient_j max(s_j, knot_j): linear where the knot is -inf, else a hinge.

    The entries s_j of a state are taken in single precision, as a forest takes them, and NaN counts as `fill`.
    """

    kind = "piecewise linear"

    feature: IntArray  # (terms,) entry of the state, as `columns` and `lags` number them
    knot: FloatArray  # (terms,)
    fill: FloatArray  # (terms,)
    coefficient: FloatArray  # (terms, k)
    intercept: FloatArray  # (k,)
    columns: IntArray  # (features,) base column of each entry of the state
    lags: IntArray  # (features,)
    width: int  # number of base columns

    @classmethod
    def constant(cls, value: FloatArray, horizon: Horizon, n_contexts: int) -> PiecewiseLinear:
        """Return the f that always says the same, (k,)."""
        k, none = len(value), np.empty(0)
        columns, lags = layout(horizon, n_contexts, k)
        return cls(none.astype(np.intp), none, none, np.empty((0, k)), value, columns, lags, n_contexts + k)

    @property
    def n_actions(self) -> int:
        """Dimension k of an action."""
        return len(self.intercept)

    @cached_property
    def on_matrix(self) -> Any:
        """The terms, reading entries from a row of a lag matrix."""
        return self.terms(np.arange(len(self.columns)))

    @cached_property
    def on_tape(self) -> Any:
        """The terms, reading entries from a tape of frames."""
        return self.terms(self.columns - self.lags * self.width)

    @cached_property
    def slopes(self) -> FloatArray:
        """The intercept, then the coefficient of each term, (1 + terms, k), as the kernels take them."""
        return np.ascontiguousarray(np.concatenate([self.intercept[np.newaxis], self.coefficient]), dtype=np.float64)

    def terms(self, offsets: IntArray) -> Any:
        """Pack the terms for the kernels, with the entries at given offsets."""
        from simile.models.kernels.predicting import TERM

        terms = np.zeros(len(self.feature), TERM)
        terms["knot"] = self.knot
        terms["fill"] = self.fill
        terms["offset"] = offsets[self.feature]
        return terms

    def predict(self, S: FloatArray) -> FloatArray:
        """Map states (n, features) to actions (n, k); the bits of a row do not depend on the rows beside it."""
        from simile.models.kernels.predicting import Lines, predict_rows

        with np.errstate(over="ignore"):
            Z = np.ascontiguousarray(S, dtype=np.float32)
        if Z.shape[1] != len(self.columns):
            raise ArgumentError(f"S must have the {len(self.columns)} features f was fitted on; got {Z.shape[1]}")
        return np.asarray(predict_rows(Z, self.n_actions, lines=Lines(self.on_matrix, self.slopes)))
