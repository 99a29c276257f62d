"""States s_t = [x_t, ..., x_{t-p}, a_{t-1}, ..., a_{t-q}] (Section 2; Algorithm 1, line 5).

One layout serves batches and roll-outs alike: frames lie on a `Tape`, and `States` reads rows of it at
lag offsets. A lag before a sequence's first frame repeats that frame's value, so no lag ever reaches
into another sequence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray, IntArray, Trajectories
from simile.data.demonstrations import Demonstrations
from simile.data.recorded import Recorded
from simile.data.timing import LONGEST, Ahead, Known, count_frames, find_known
from simile.errors import ArgumentError

Data = TypeVar("Data", bound=Recorded)

# Dense near the present, and sparse in the past: at 30 Hz the last two seconds.
LAGS, LAGS_RATE = (0, 1, 2, 4, 8, 12, 16, 24, 32, 48, 64), 30.0


def stretch(rate: float | None) -> float:
    """Return how many frames at a rate (Hz) take as long as one at 30 Hz, and one at lower rates."""
    return 1.0 if rate is None else max(1.0, checks.number(rate, "rate", above=0.0) / LAGS_RATE)


@dataclass(frozen=True, init=False)
class Horizon:
    """How far back a policy looks (tau in the paper).

    Parameters
    ----------
    context_lags : int or sequence of int
        A count p means x_t, ..., x_{t-p}; a list names the lags, for example (0, 1, 2, 4, 8).
    action_lags : int or sequence of int
        A count q means a_{t-1}, ..., a_{t-q}; a list names the lags, each at least 1; 0 or () means none.
    lead : int
        Frames from when an action is chosen to the frame that it is for: where it is negative, the policy may wait that
        long and sees what comes meanwhile; where it is positive, it aims ahead for an actuator that is late. The lags
        of contexts count back from the moment of the choice.
    known : sequence of (int, int)
        Columns that are known ahead, and by how many frames: each is one more context, `name[t+frames]`, with lags as
        the others have.

    Examples
    --------
    >>> Horizon(context_lags=2, action_lags=1)
    Horizon(context_lags=(0, 1, 2), action_lags=(1,))
    >>> Horizon(context_lags=(0, 8), action_lags=0).n_features(n_contexts=3, n_actions=1)
    6
    """

    context_lags: tuple[int, ...]
    action_lags: tuple[int, ...]
    lead: int = 0
    known: Known = ()

    def __init__(
        self,
        context_lags: int | Sequence[int] = 10,
        action_lags: int | Sequence[int] = 10,
        lead: int = 0,
        known: Sequence[tuple[int, int]] = (),
    ) -> None:
        object.__setattr__(self, "context_lags", _lags(context_lags, "context_lags", first=0))
        object.__setattr__(self, "action_lags", _lags(action_lags, "action_lags", first=1))
        if not self.context_lags:
            raise ArgumentError("context_lags must name at least one lag; 0 or (0,) means the present alone")
        object.__setattr__(self, "lead", checks.whole_number(lead, "lead", at_least=-LONGEST, at_most=LONGEST))
        object.__setattr__(self, "known", _known(known))

    def __repr__(self) -> str:
        lead = f", lead={self.lead}" if self.lead else ""
        known = f", known={self.known}" if self.known else ""
        return f"Horizon(context_lags={self.context_lags}, action_lags={self.action_lags}{lead}{known})"

    @classmethod
    def auto(cls, rate: float | None = None, lead: int = 0) -> Horizon:
        """Look back at contexts alone, at lags that spread: two seconds at 30 Hz and more, 64 frames at lower rates.

        One that may wait looks as far ahead as that allows, too: lags are dense around the frame that it acts for.

        >>> Horizon.auto(10.0).context_lags
        (0, 1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
        >>> Horizon.auto(120.0).context_lags[:5]
        (0, 4, 8, 16, 32)
        >>> Horizon.auto(30.0, lead=-10)
        Horizon(context_lags=(0, 2, 6, 8, 9, 10, 11, 12, 14, 18, 22, 26, 34, 42, 58, 74), action_lags=(), lead=-10)
        """
        return cls([round(lag * stretch(rate)) for lag in LAGS], 0).led(lead)

    @property
    def memory(self) -> int:
        """How many past actions a state needs: the longest action lag."""
        return max(self.action_lags, default=0)

    @property
    def offsets(self) -> tuple[int, ...]:
        """How many frames before that of the action the contexts of a state are; below 0 after it."""
        return tuple(lag + self.lead for lag in self.context_lags)

    @property
    def reach(self) -> int:
        """How many frames before that of the action a state looks, at contexts or actions."""
        return max(0, self.memory, *self.offsets)

    @property
    def wait(self) -> int:
        """How many frames after that of the action have to come first."""
        return max(0, -self.lead)

    def led(self, lead: int) -> Horizon:
        """Return the horizon of a policy that acts so many frames ahead, and looks around that frame by the same lags.

        One that may wait looks as far ahead as that allows, too; this horizon has no lead of its own.

        >>> Horizon((0, 2, 8), 1).led(-4)
        Horizon(context_lags=(0, 2, 4, 6, 12), action_lags=(1,), lead=-4)
        """
        wait = max(-lead, 0)
        ahead = (wait - lag for lag in (*self.context_lags, wait) if 0 < lag <= wait)
        lags = tuple(sorted({*ahead, *(wait + lag for lag in self.context_lags)}))
        return replace(self, context_lags=lags, lead=lead)

    def without_actions(self) -> Horizon:
        """Return the same horizon over contexts alone."""
        return replace(self, action_lags=())

    def n_features(self, n_contexts: int, n_actions: int) -> int:
        """Length of a state."""
        return len(self.context_lags) * n_contexts + len(self.action_lags) * n_actions

    def feature_names(self, context_names: Sequence[str], action_names: Sequence[str]) -> list[str]:
        """Name the entries of a state, in their order: lag by lag, contexts first."""
        return [f"{n}[t{-lag:+d}]" if lag else f"{n}[t]" for lag in self.offsets for n in context_names] + [
            f"{n}[t-{lag}]" for lag in self.action_lags for n in action_names
        ]

    def states(self, demos: Demonstrations, actions: Trajectories) -> States:
        """Form the states met along `actions` (Algorithm 1, line 5), one per frame, in order."""
        return Tape.of(Demonstrations.of(demos).foretell(self.known).contexts, actions).states(self)


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

    @property
    def ceiling(self) -> IntArray:
        """(rows,) Last row of the sequence that it belongs to; what would come after is taken to be as there."""
        if "ceiling" not in self.memo:
            _, lengths = np.unique(self.floor, return_counts=True)
            self.memo["ceiling"] = np.repeat(np.cumsum(lengths) - 1, lengths)
        ceiling: IntArray = self.memo["ceiling"]
        return ceiling

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
            self.tape.contexts[self._at(self.horizon.offsets)],
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
        back = max(reach, self.horizon.reach)
        index = self._at(range(back, -self.horizon.wait - 1, -1)).ravel()
        depth = back + self.horizon.wait + 1
        floor = np.repeat(np.arange(len(self)) * depth, depth)
        tape = Tape([self.tape.contexts[index]], self.tape.actions[index], floor)
        return States(tape, floor[::depth] + back, self.horizon)

    def _at(self, lags: Iterable[int]) -> IntArray:
        each = np.fromiter(lags, dtype=np.intp)
        rows: IntArray = np.maximum(self.rows[:, np.newaxis] - each, self.tape.floor[self.rows][:, np.newaxis])
        if (each < 0).any():
            rows = np.minimum(rows, self.tape.ceiling[self.rows][:, np.newaxis])
        return rows


def see(
    demos: Data, horizon: Horizon, lead: float | None = None, known: Ahead | None = None, *, fixed: bool = False
) -> tuple[Data, Horizon]:
    """Return demonstrations as policies of a horizon see them, and that horizon.

    The last frames, of which it was not recorded what was known ahead, are no examples, and are left out.

    Parameters
    ----------
    demos : Recorded
        What was recorded.
    horizon : Horizon
        Its own lead and known are in frames.
    lead, known
        Those of `simile.learn`, in seconds or, where nobody knows how long a frame is, in frames.
    fixed : bool
        Whether the horizon is that of a policy to go on from, which decides.
    """
    checks.instance(horizon, "horizon", needs="states")
    names = demos.context_names
    if lead is not None:
        horizon = _agree(horizon, "lead", count_frames(lead, demos.rate, "lead"), fixed=fixed)
    if known is not None:
        horizon = _agree(horizon, "known", find_known(known, names, demos.rate), fixed=fixed)
    if beyond := [column for column, _ in horizon.known if column >= len(names)]:
        raise ArgumentError(f"known must be columns of {len(names)} contexts, counted from 0; got {beyond[0]}")
    return demos.foretell(horizon.known, complete=True), horizon


def _agree(horizon: Horizon, name: str, value: Any, *, fixed: bool) -> Horizon:
    """Put a lead, or what is known, into a horizon, which must not say otherwise."""
    said = getattr(horizon, name)
    if said != value and (said or fixed):
        whose = "of initial" if fixed else "of the horizon"
        raise ArgumentError(f"{name} must be that {whose}, {said} (in frames); got {value}: leave one out")
    return replace(horizon, **{name: value})


def _known(given: Sequence[tuple[int, int]]) -> Known:
    try:
        pairs = tuple((column, frames) for column, frames in given)
    except (TypeError, ValueError):
        raise ArgumentError(f"known must be pairs of a column and how many frames ahead; got {given!r}") from None
    return tuple((checks.whole_number(c, "known"), checks.whole_number(n, "known", at_least=1)) for c, n in pairs)


def _lags(given: int | Sequence[int], name: str, *, first: int) -> tuple[int, ...]:
    if isinstance(given, Iterable) and not isinstance(given, str | bytes) and getattr(given, "ndim", 1) != 0:
        lags = sorted(checks.whole_number(lag, name, at_least=first) for lag in given)
    else:
        lags = list(range(first, checks.whole_number(given, name) + 1))
    if len(set(lags)) != len(lags):
        raise ArgumentError(f"{name} must be different lags; got {given!r}")
    return tuple(lags)
