"""States s_t = [x_t, ..., x_{t-p}, a_{t-1}, ..., a_{t-q}] (Section 2; Algorithm 1, line 5).

One layout serves batches and roll-outs alike: frames lie on a `Tape`, and `States` reads rows of it at
lag offsets. A lag before a sequence's first frame repeats that frame's value, so no lag ever reaches
into another sequence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray, IntArray, Trajectories
from simile.data.demonstrations import Demonstrations
from simile.errors import ArgumentError

# Dense near the present, and sparse in the past: at 30 Hz the last two seconds.
LAGS, LAGS_RATE = (0, 1, 2, 4, 8, 12, 16, 24, 32, 48, 64), 30.0


@dataclass(frozen=True, init=False)
class Horizon:
    """How far back a policy looks (tau in the paper).

    Parameters
    ----------
    context_lags : int or sequence of int
        A count p means x_t, ..., x_{t-p}; a list names the lags, for example (0, 1, 2, 4, 8).
    action_lags : int or sequence of int
        A count q means a_{t-1}, ..., a_{t-q}; a list names the lags, each at least 1; 0 or () means none.

    Examples
    --------
    >>> Horizon(context_lags=2, action_lags=1)
    Horizon(context_lags=(0, 1, 2), action_lags=(1,))
    >>> Horizon(context_lags=(0, 8), action_lags=0).n_features(n_contexts=3, n_actions=1)
    6
    """

    context_lags: tuple[int, ...]
    action_lags: tuple[int, ...]

    def __init__(self, context_lags: int | Sequence[int] = 10, action_lags: int | Sequence[int] = 10) -> None:
        object.__setattr__(self, "context_lags", _lags(context_lags, "context_lags", first=0))
        object.__setattr__(self, "action_lags", _lags(action_lags, "action_lags", first=1))
        if not self.context_lags:
            raise ArgumentError("context_lags must name at least one lag; 0 or (0,) means the present alone")

    @classmethod
    def auto(cls, rate: float | None = None) -> Horizon:
        """Look back at contexts alone, at lags that spread: two seconds at 30 Hz and more, 64 frames at lower rates.

        >>> Horizon.auto(10.0).context_lags
        (0, 1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
        >>> Horizon.auto(120.0).context_lags[:5]
        (0, 4, 8, 16, 32)
        """
        stretch = 1.0 if rate is None else max(1.0, checks.number(rate, "rate", above=0.0) / LAGS_RATE)
        return cls([round(lag * stretch) for lag in LAGS], 0)

    @property
    def memory(self) -> int:
        """How many past actions a state needs: the longest action lag."""
        return max(self.action_lags, default=0)

    def without_actions(self) -> Horizon:
        """Return the same horizon over contexts alone."""
        return Horizon(self.context_lags, ())

    def n_features(self, n_contexts: int, n_actions: int) -> int:
        """Length of a state."""
        return len(self.context_lags) * n_contexts + len(self.action_lags) * n_actions

    def feature_names(self, context_names: Sequence[str], action_names: Sequence[str]) -> list[str]:
        """Name the entries of a state, in their order: lag by lag, contexts first."""
        return [f"{n}[t-{lag}]" if lag else f"{n}[t]" for lag in self.context_lags for n in context_names] + [
            f"{n}[t-{lag}]" for lag in self.action_lags for n in action_names
        ]

    def states(self, demos: Demonstrations, actions: Trajectories) -> States:
        """Form the states met along `actions` (Algorithm 1, line 5), one per frame, in order."""
        return Tape.of(Demonstrations.of(demos).contexts, actions).states(self)


class Laid(list[FloatArray]):
    """Trajectories that lie in one array, one after the other, to be joined without a copy; nobody writes to them."""

    joined: FloatArray  # (rows, k)

    @classmethod
    def of(cls, trajectories: Trajectories) -> Laid:
        """Lay trajectories down, where they do not lie so yet."""
        if isinstance(trajectories, Laid):
            return trajectories
        joined = np.concatenate(trajectories)
        joined.setflags(write=False)
        laid = cls(np.split(joined, np.cumsum([len(a) for a in trajectories])[:-1]))
        laid.joined = joined
        return laid


@dataclass(frozen=True, eq=False)
class Tape:
    """The base columns of all sequences, one after the other, and where each sequence begins."""

    parts: Trajectories  # contexts (T, m) of each sequence, as they were given
    actions: FloatArray  # (rows, k)
    floor: IntArray = field(repr=False)  # (rows,) first row of the sequence that the row belongs to
    # What models derive from the contexts alone, to keep between rounds; shared by all tapes with these contexts.
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, contexts: Trajectories, actions: Trajectories) -> Tape:
        """Lay sequences on a tape; `contexts` and `actions` list one array per sequence."""
        if [len(x) for x in contexts] != [len(a) for a in actions]:
            raise ArgumentError(
                "actions must have as many frames as the contexts of each sequence; got "
                f"{[len(a) for a in actions]} and {[len(x) for x in contexts]}"
            )
        lengths = np.array([len(x) for x in contexts])
        begins = np.cumsum(lengths) - lengths
        return cls(contexts, np.concatenate(actions), np.repeat(begins, lengths))

    @property
    def n_contexts(self) -> int:
        """Dimension m of a context."""
        return int(self.parts[0].shape[1])

    @property
    def contexts(self) -> FloatArray:
        """The contexts (rows, m) in one array, made when somebody asks: our forest never does."""
        if "contexts" not in self.memo:
            self.memo["contexts"] = self.parts[0] if len(self.parts) == 1 else np.concatenate(self.parts)
        contexts: FloatArray = self.memo["contexts"]
        return contexts

    def with_actions(self, actions: FloatArray) -> Tape:
        """Return the tape with other actions (rows, k); the contexts are shared, not copied."""
        return replace(self, actions=actions)

    def along(self, trajectories: Trajectories) -> Tape:
        """Return the tape with the actions of other trajectories, one (T, k) array per sequence."""
        return self.with_actions(Laid.of(trajectories).joined)

    def states(self, horizon: Horizon, rows: IntArray | None = None) -> States:
        """View the states at `rows` (all of them by default)."""
        if rows is None:
            rows = self.memo.setdefault("rows", np.arange(len(self.floor)))
        return States(self, rows, horizon)


@dataclass(frozen=True, eq=False)
class States:
    """A lazy view of states: rows of a tape, read at the lags of a horizon."""

    tape: Tape
    rows: IntArray
    horizon: Horizon

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def contexts(self) -> FloatArray:
        """The present contexts x_t, (n, m)."""
        return self.tape.contexts[self.rows]

    def history(self, order: int) -> FloatArray:
        """Return the past actions a_{t-1}, ..., a_{t-order}, the latest first, (n, order, k)."""
        return self.tape.actions[self._at(range(1, order + 1))]

    def matrix(self) -> FloatArray:
        """Build the (n, features) matrix for models that need one: lag by lag, contexts first."""
        parts = (
            self.tape.contexts[self._at(self.horizon.context_lags)],
            self.tape.actions[self._at(self.horizon.action_lags)],
        )
        return np.concatenate([p.reshape(len(self), math.prod(p.shape[1:])) for p in parts], axis=1)

    def view_through(self, horizon: Horizon) -> States:
        """View the same rows through another horizon."""
        return self if horizon == self.horizon else replace(self, horizon=horizon)

    def where(self, mask: FloatArray | IntArray) -> States:
        """Keep some of the states, by mask or by index."""
        return replace(self, rows=self.rows[mask])

    def isolate(self, reach: int) -> States:
        """Give each state a past of its own, `reach` frames long, so that it can be changed without the others."""
        depth = max(reach, self.horizon.memory, *self.horizon.context_lags) + 1
        index = self._at(range(depth - 1, -1, -1)).ravel()
        floor = np.repeat(np.arange(len(self)) * depth, depth)
        tape = Tape([self.tape.contexts[index]], self.tape.actions[index], floor)
        return States(tape, floor[::depth] + depth - 1, self.horizon)

    def _at(self, lags: Iterable[int]) -> IntArray:
        offsets = self.rows[:, np.newaxis] - np.fromiter(lags, dtype=np.intp)
        return np.maximum(offsets, self.tape.floor[self.rows][:, np.newaxis])


def _lags(given: int | Sequence[int], name: str, *, first: int) -> tuple[int, ...]:
    if isinstance(given, Iterable) and not isinstance(given, str | bytes) and getattr(given, "ndim", 1) != 0:
        lags = sorted(checks.whole_number(lag, name, at_least=first) for lag in given)
    else:
        lags = list(range(first, checks.whole_number(given, name) + 1))
    if len(set(lags)) != len(lags):
        raise ArgumentError(f"{name} must be different lags; got {given!r}")
    return tuple(lags)
