"""What comes online is prepared as the data of the training were: codes become missing values, and nothing jumps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.data.recorded import Units
from simile.errors import ArgumentError
from simile.online.history import History
from simile.policies.cards import Card
from simile.policies.policies import Policy, name_recorded
from simile.policies.stages import Conversion, Stage


class Preparer:
    """Prepares what n streams bring, and puts what a policy does into the range of its log.

    Attributes
    ----------
    last : (n, contexts that wrap) array
        The last values of the streams, which the next ones go on from.
    """

    def __init__(self, policy: Policy, card: Card, n_streams: int, stages: Sequence[Stage]) -> None:
        self._names = name_recorded(policy) if card.preparation else ()
        self.preparation, self._action_names = card.preparation, card.action_names
        self._contexts, self._actions = map(self.preparation.find_wraps, (self._names, self._action_names))
        if self._actions and any(isinstance(stage, Conversion) for stage in stages):
            raise ArgumentError(
                "stages: what turns actions into others has no place behind a policy whose actions wrap: what comes "
                "out is not of its log: learn from data without jumps, or convert what the policy sends yourself"
            )
        self._middles = np.array([wrap.middle for _, wrap in self._contexts])
        self.last = np.tile(self._middles, (n_streams, 1))

    def forget(self, streams: IntArray) -> None:
        """Make streams new."""
        self.last[streams] = self._middles

    def prepare(self, streams: IntArray, X: FloatArray) -> FloatArray:
        """Return contexts (n, m) as the training had them: NaN for codes, and near the last ones."""
        X = self.preparation.blank(X, self._names)
        X = X.copy() if self._contexts else X
        for i, (j, wrap) in enumerate(self._contexts):
            X[:, j] = wrap.move_near(X[:, j], self.last[streams, i])
            self.last[streams, i] = np.where(np.isnan(X[:, j]), self.last[streams, i], X[:, j])
        return X

    def prepare_actions(self, streams: IntArray, A: FloatArray, units: Units, history: History) -> FloatArray:
        """Return actions (n, k) that somebody took, near those before."""
        A = A.copy() if self._actions else A
        for j, wrap in self._actions:
            near, begun = np.full(len(A), wrap.middle), history.begun[streams]
            near[begun] = units.restore(history.last(streams[begun]))[:, j]
            A[:, j] = wrap.move_near(A[:, j], near)
        return A

    def prepare_past(self, A: FloatArray) -> FloatArray:
        """Return known actions (any, k) of a stream as the training would have them."""
        return self.preparation.mend(A, self._action_names)

    def restore(self, A: FloatArray) -> FloatArray:
        """Return actions (..., k) in the range of the log."""
        return self.preparation.restore(A, self._action_names) if self._actions else A

    def restore_contexts(self, X: FloatArray | None) -> FloatArray | None:
        """Return contexts (n, m) in the range of the log."""
        return None if X is None else self.preparation.restore(X, self._names)
