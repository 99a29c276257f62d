"""What a run asks of recorded data, wherever they are, and of the actions in them: their bounds and their units."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from simile._common.parts import Parts
from simile._common.sums import ExactSum
from simile._common.typing import FloatArray, IntArray
from simile.data import origins
from simile.data.groups import number_groups, spell_kind, tell_new, tell_same
from simile.data.logs import Log
from simile.data.preparation import Preparation
from simile.data.timing import Known
from simile.errors import ArgumentError, DataError

if TYPE_CHECKING:
    from simile.data.demonstrations import Demonstrations


class Recorded(Parts, Protocol):
    """Demonstrations of one task, at hand or elsewhere: what a run asks of them as a whole."""

    @property
    def context_names(self) -> tuple[str, ...]:
        """Names of the m context columns."""

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the k action columns."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the sequences."""

    @property
    def rate(self) -> float | None:
        """Frames per second, shared by all sequences; None when unknown."""

    @property
    def lengths(self) -> IntArray:
        """Frames of each sequence."""

    @property
    def moments(self) -> FloatArray:
        """Of the actions of each sequence, see `Demonstrations.moments`."""

    @property
    def places(self) -> FloatArray:
        """Where the contexts of each sequence lie, and how far they move there, see `Demonstrations.places`."""

    @property
    def logs(self) -> tuple[Log, ...]:
        """What the recording of each action is worth: resolution, noise, and how to look through it."""

    @property
    def groups(self) -> tuple[str | None, ...] | None:
        """The group of each sequence, None for one that has none; None if none has."""

    @property
    def group_name(self) -> str:
        """What groups are, such as "person"."""

    @property
    def about(self) -> Mapping[str, Any] | None:
        """Facts that all sequences share, where some say them, see `Demonstration.about`."""

    @property
    def preparation(self) -> Preparation:
        """What was mended when they were read."""

    @property
    def kin(self) -> IntArray:
        """Number of the group of each sequence; without groups, or in one alone, each is its own."""
        return np.arange(len(self)) if (groups := self.groups) is None else number_groups(groups)

    @property
    def new(self) -> str:
        """What is new about what is held out: another person, another recording, or later in the same one."""
        return tell_new(self.kin, self.groups, self.group_name)

    def tell_new(self, other: Recorded) -> str:
        """Say what is new in others to whoever has learned from these."""
        if len(self) == len(other) == 1 and self.names == other.names:
            return "later in the same recording"
        ours, theirs = set(self.groups or ()), set(other.groups or ())
        if not ours or not theirs:
            return "another recording"
        new, known = f"another {spell_kind(other.group_name)}", tell_same(other.group_name)
        return known if theirs <= ours else f"{new}, or {known}" if ours & theirs else new

    @property
    def n_contexts(self) -> int:
        """Dimension m of a context."""
        return len(self.context_names)

    @property
    def n_actions(self) -> int:
        """Dimension k of an action."""
        return len(self.action_names)

    @property
    def n_frames(self) -> int:
        """Frames of all sequences together."""
        return int(self.lengths.sum())

    def __len__(self) -> int: ...

    @property
    def digests(self) -> tuple[bytes, ...]:
        """Of each sequence, see `Demonstration.digest`."""

    def digest(self) -> str:
        """Return the SHA-256 of all names, the rate and every value: two data sets with one digest are equal."""

    def extremes(self) -> tuple[FloatArray, FloatArray]:
        """Return the lowest and the highest value of each context, (m,); NaN where all are missing."""

    def over(self, what: str, function: Callable[..., Any], *shared: Any) -> Any:
        """Return function(what all sequences have by that name, *shared), such as "moments", wherever that is."""
        return function(getattr(self, what), *shared)

    def check(self, space: ActionSpace) -> None:
        """Refuse actions outside the bounds."""

    def foretell(self, known: Known, *, complete: bool = False) -> Self:
        """Return them with columns that are known ahead, see `Demonstration.foretell`."""

    def standardize(self, units: Units) -> Self:
        """Bring the actions to standard units, and take the origin off the contexts."""

    def where(self, numbers: IntArray) -> Self:
        """Return some of the sequences, by number, in their order."""

    def convert(self, function: Callable[..., Demonstrations], *, shared: tuple[Any, ...] = ()) -> Self:
        """Return what function(demonstrations, *shared) makes of each part."""

    @property
    def firsts(self) -> Any:
        """Number of the first sequence of each part, to be one of the others of `map`."""

    def deal(self, values: IntArray) -> Any:
        """Put a value for each sequence beside the parts, to be one of the others of `map`."""

    def gather(self) -> Demonstrations:
        """Bring them here."""

    def show(self, trajectories: Any) -> list[FloatArray]:
        """Return trajectories, which `map` made, if they are here."""

    def hold_out(self, validation: float, *, seed: int = 0) -> tuple[Self, Self]:
        """Split off whole groups, or whole sequences, for validation."""


def share_about(said: Iterable[tuple[Any, Mapping[str, Any] | None]]) -> Mapping[str, Any] | None:
    """Return what several are about, each with its name: what those that say it agree on; None if none does.

    Raises
    ------
    DataError
        When two of them say different things: what is learned from both would be about neither.
    """
    known = [(name, about) for name, about in said if about is not None]
    for name, about in known:
        if about != known[0][1]:
            one, other = (json.dumps(facts, separators=(",", ":"))[:200] for facts in (known[0][1], about))
            raise DataError(
                f"all demonstrations must be about the same; {str(known[0][0])!r} is about {one} and {str(name)!r} "
                f"about {other}: make them alike first, such as with --camera, or learn from each alone"
            )
    return known[0][1] if known else None


@dataclass(frozen=True, eq=False, init=False)
class ActionSpace:
    """The bounded space of actions of Section 2, `low <= a <= high`; None leaves a side open.

    Parameters
    ----------
    low, high : float or (k,) array_like, optional
        The bounds.
    first_low, first_high : float or (k,) array_like, optional
        Bounds of the first action that a policy chooses without a start, a cold one; `simile.learn` takes what the
        expert did in the first frames of recordings.
    learned : bool
        Whether the bounds are those of recorded actions: then they widen with what is learned later.

    Examples
    --------
    >>> ActionSpace(low=0.0, high=[1.0, 2.0]).clip(np.array([[-1.0, 5.0]]))
    array([[0., 2.]])
    """

    low: FloatArray
    high: FloatArray
    first_low: FloatArray | None = field(default=None, repr=False)
    first_high: FloatArray | None = field(default=None, repr=False)
    learned: bool = field(default=False, repr=False)

    def __init__(
        self,
        low: ArrayLike | None = None,
        high: ArrayLike | None = None,
        *,
        first_low: ArrayLike | None = None,
        first_high: ArrayLike | None = None,
        learned: bool = False,
    ) -> None:
        sides = {"low": _read_bound(low, "low", -np.inf), "high": _read_bound(high, "high", np.inf)}
        if len({len(side) for side in sides.values()} - {1}) > 1:
            raise ArgumentError(f"low and high must be as many, or one of them a number; got {low!r} and {high!r}")
        if not (sides["low"] < sides["high"]).all():
            raise ArgumentError(f"low must be below high; got low={low!r} and high={high!r}")
        firsts: dict[str, FloatArray | None] = {"first_low": None, "first_high": None}
        if first_low is not None or first_high is not None:
            one, other = _read_bound(first_low, "first_low", -np.inf), _read_bound(first_high, "first_high", np.inf)
            if len(one) != len(other) or (one > other).any():
                raise ArgumentError(
                    f"first_low must be as many as first_high, and not above; got {first_low!r} and {first_high!r}"
                )
            firsts = {"first_low": one, "first_high": other}
        for name, value in {**sides, **firsts, "learned": bool(learned)}.items():
            object.__setattr__(self, name, value)

    def begin(self, actions: FloatArray) -> FloatArray:
        """Return the first `actions` (..., k) of cold starts moved to where experts began, where that is known."""
        return actions if self.first_low is None else self.clip(np.clip(actions, self.first_low, self.first_high))

    def standardize(self, units: Units) -> ActionSpace:
        """Return the same bounds in standard units."""
        low, high, first_low, first_high = (
            None if side is None else units.standardize(side)
            for side in (self.low, self.high, self.first_low, self.first_high)
        )
        return ActionSpace(low, high, first_low=first_low, first_high=first_high, learned=self.learned)

    def unite(self, other: ActionSpace) -> ActionSpace:
        """Return the narrowest bounds around both; where only one has first actions, these."""
        lows, highs = (
            [side for one in (self, other) if (side := getattr(one, name)) is not None]
            for name in ("first_low", "first_high")
        )
        return ActionSpace(
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            first_low=np.min(lows, axis=0) if lows else None,
            first_high=np.max(highs, axis=0) if highs else None,
            learned=self.learned and other.learned,
        )

    def clip(self, actions: FloatArray) -> FloatArray:
        """Return `actions` (..., k) moved into the bounds."""
        return np.clip(actions, self.low, self.high)

    def check(self, demos: Demonstrations) -> None:
        """Refuse demonstrations with actions outside: the bounds or the data must be wrong."""
        if max(len(self.low), len(self.high)) not in (1, demos.n_actions):
            raise ArgumentError(
                f"space must have bounds for {demos.n_actions} actions; got low={self.low} and high={self.high}"
            )
        for demo in demos:
            outside = (demo.actions < self.low) | (demo.actions > self.high)
            if outside.any():
                row, column = (int(i) for i in np.argwhere(outside)[0])
                raise DataError(
                    f"space: action {demo.action_names[column]!r} of {demo.name!r} is {demo.actions[row, column]:g} "
                    f"at row {row}, outside the bounds {self.low} to {self.high}: widen them or clip the data"
                )


def _read_bound(given: ArrayLike | None, name: str, otherwise: float) -> FloatArray:
    """Return one side of the bounds as an array that nobody can change."""
    try:
        bound = np.atleast_1d(np.array(otherwise if given is None else given, dtype=np.float64))
    except (TypeError, ValueError):
        bound = np.full(1, np.nan)
    if bound.ndim != 1 or len(bound) == 0 or np.isnan(bound).any():
        raise ArgumentError(f"{name} must be a number or one per action; got {given!r}")
    bound.setflags(write=False)
    return bound


@dataclass(frozen=True, eq=False)
class Units:
    """The affine map between the user's units and standard units, per action dimension.

    The algorithm works in standard units (mean 0, deviation 1), so that its defaults hold for degrees,
    metres and cubic metres alike; policies take and return the user's units. Contexts keep their units; those that lie
    far from 0 are measured from an `origin` (m,) nearby, see `simile.data.origins`.
    """

    center: FloatArray
    scale: FloatArray
    origin: FloatArray | None = None  # where nothing is taken off

    @classmethod
    def of(cls, demos: Recorded) -> Units:
        """Measure mean and deviation of the expert's actions; a constant action keeps its scale.

        The same bits come out wherever the sequences lie, and in whichever order.
        """
        center, scale = demos.over("moments", _measure, demos.lengths)
        return cls(center, scale, demos.over("places", origins.choose_origin))

    @classmethod
    def identity(cls, n_actions: int = 1) -> Units:
        """Return the units that change nothing."""
        return cls(np.zeros(n_actions), np.ones(n_actions))

    def standardize(self, actions: FloatArray) -> FloatArray:
        """Map actions (..., k) from the user's to standard units."""
        return (actions - self.center) / self.scale

    def restore(self, actions: FloatArray) -> FloatArray:
        """Map actions (..., k) from standard to the user's units."""
        return actions * self.scale + self.center

    def shift(self, contexts: FloatArray) -> FloatArray:
        """Take the origin off contexts (..., m)."""
        return contexts if self.origin is None else contexts - self.origin

    def shift_back(self, contexts: FloatArray) -> FloatArray:
        """Put the origin back on contexts (..., m)."""
        return contexts if self.origin is None else contexts + self.origin

    def equals(self, other: Units) -> bool:
        """Tell whether both mean the same, to the bit."""
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in ("center", "scale", "origin"))


def _measure(moments: FloatArray, lengths: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and deviation of all actions, (k,) each, from the moments of each sequence."""
    frames = lengths[:, np.newaxis]
    total, squares, low, high, _ = np.moveaxis(moments, 1, 0)
    center = ExactSum.of(total).value / frames.sum()
    # The squares about the common mean are those about each sequence's own, and those of the own means about it.
    scale = np.sqrt(ExactSum.of(squares + frames * (total / frames - center) ** 2).value / frames.sum())
    lowest = low.min(axis=0)
    constant = lowest == high.max(axis=0)  # whose mean may miss it by a rounding error, which is no deviation
    return np.where(constant, lowest, center), np.where(constant, 1.0, scale)
