"""The problem of Section 2: contexts, and the actions that an expert took in them."""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from simile._common import checks
from simile._common.parts import AtHand
from simile._common.text import count
from simile._common.typing import FloatArray, IntArray, Trajectories
from simile.data import origins
from simile.data.delays import Delay, summarize_delays, tell_delays
from simile.data.groups import GROUP, draw_groups, label_sequences, tell_groups
from simile.data.logs import Log, find_marks, read_logs, tell_motion
from simile.data.preparation import Preparation
from simile.data.recorded import ActionSpace, Recorded, Units, share_about
from simile.data.sanity import Problem, find_problems
from simile.data.timing import Known, look_ahead, name_ahead
from simile.errors import ArgumentError, DataError

LEAST_TOLD = 100  # frames, of which motion is told


@dataclass(frozen=True, eq=False)
class Demonstration:
    """One recorded sequence: contexts X = {x_t} and the expert's actions A* = {a*_t}.

    Parameters
    ----------
    contexts : (T, m) or (T,) array_like
        Exogenous context; NaN marks a missing value.
    actions : (T, k) or (T,) array_like
        What the expert did; finite. Values of 1e100 and more are refused.
    rate : float, optional
        Frames per second (Hz); metrics per second need it.
    name : str
        Shown in tables and in error messages.
    context_names, action_names : sequence of str, optional
        One name per column; `x0, x1, ...` and `a0, a1, ...` by default.
    group : str, optional
        What it belongs to with other sequences, a person or a run: they are held out together.
    group_name : str
        What groups are, such as "person".
    weights : (T, k) array, optional
        How much each action of each frame counts, as a robust `loss` has found; all alike by default. First and last
        frames of weight 0, such as those before an operator took over, are contexts that lags look back to: their
        actions are nobody's example, and tell nothing of how the expert moves.
    about : mapping, optional
        Facts that all sequences of a set share, as plain JSON values, such as where the camera stands; a policy's card
        keeps them.
    as_is : bool
        Whether to learn from it whatever is wrong with its values: nothing is looked for.
    preparation : Preparation
        What was mended in it when it was read; the policy that is learned from it mends what comes online alike.

    Examples
    --------
    >>> one = Demonstration(contexts=[[0.0], [1.0], [2.0]], actions=[0.0, 0.5, 1.0], rate=10.0)
    >>> one
    Demonstration('demonstration', 3 frames, 1 context, 1 action, 10 Hz)
    """

    contexts: FloatArray
    actions: FloatArray
    rate: float | None = None
    name: str = "demonstration"
    context_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    group: str | None = None
    group_name: str = GROUP
    weights: FloatArray | None = field(default=None, repr=False)
    about: Mapping[str, Any] | None = field(default=None, repr=False)
    as_is: bool = field(default=False, repr=False)
    preparation: Preparation = field(default=Preparation(), repr=False)

    def __post_init__(self) -> None:
        contexts = checks.table(self.contexts, f"contexts of {self.name!r}", allow_nan=True, largest=checks.LARGEST)
        actions = checks.table(self.actions, f"actions of {self.name!r}", largest=checks.LARGEST)
        if len(contexts) != len(actions):
            raise DataError(
                f"contexts and actions of {self.name!r} must have as many rows; got {len(contexts)} and "
                f"{len(actions)}: cut both to the frames they share"
            )
        if self.weights is not None:
            weights = checks.table(self.weights, f"weights of {self.name!r}")
            if weights.shape != actions.shape or (weights < 0.0).any():
                raise DataError(f"weights of {self.name!r} must be one for each action, none below 0: {actions.shape}")
            object.__setattr__(self, "weights", weights)
        if self.rate is not None:
            object.__setattr__(self, "rate", checks.rate(self.rate))
        if self.group is not None:
            object.__setattr__(self, "group", str(self.group))
        if self.about is not None:
            try:
                object.__setattr__(self, "about", json.loads(json.dumps(dict(self.about), allow_nan=False)))
            except (TypeError, ValueError) as error:
                raise ArgumentError(f"about of {self.name!r} must be plain JSON values by name: {error}") from None
        object.__setattr__(self, "contexts", contexts)
        object.__setattr__(self, "actions", actions)
        for attribute, width, letter in (
            ("context_names", contexts.shape[1], "x"),
            ("action_names", actions.shape[1], "a"),
        ):
            given = getattr(self, attribute)
            names = tuple(str(n) for n in ((given,) if isinstance(given, str) else given))
            names = names or tuple(f"{letter}{i}" for i in range(width))
            if len(names) != width or len(set(names)) != width:
                raise ArgumentError(f"{attribute} must be {width} different names; got {names!r}")
            object.__setattr__(self, attribute, names)
        object.__setattr__(self, "preparation", self.preparation.among((*self.context_names, *self.action_names)))
        if shared := set(self.context_names) & set(self.action_names):
            raise ArgumentError(
                f"context_names and action_names must differ; got {sorted(shared)} in both: rename or drop one side"
            )

    def __len__(self) -> int:
        return len(self.actions)

    def __repr__(self) -> str:
        m, k = self.contexts.shape[1], self.actions.shape[1]
        rate = "" if self.rate is None else f", {self.rate:g} Hz"
        size = f"{count(len(self), 'frame')}, {count(m, 'context')}, {count(k, 'action')}"
        return f"Demonstration({self.name!r}, {size}{rate})"

    @cached_property
    def digest(self) -> bytes:
        """The SHA-256 of name, length and every value, and of the group where there is one, not of what it is about."""
        grouped = () if self.group is None else (self.group,)
        found = hashlib.sha256(repr((self.name, len(self), *grouped)).encode())
        found.update(np.ascontiguousarray(self.contexts).data)
        found.update(np.ascontiguousarray(self.actions).data)
        return found.digest()

    @cached_property
    def marks(self) -> FloatArray:
        """What the sequence tells of its log, (62, k), see `simile.data.logs.find_marks`."""
        return find_marks(self.actions[self.counted])

    @cached_property
    def counted(self) -> slice:
        """The frames from the first to the last that counts; all where none does."""
        if self.weights is None or not self.weights.any():
            return slice(0, len(self))
        counting = np.flatnonzero(self.weights.any(axis=1))
        return slice(int(counting[0]), int(counting[-1]) + 1)

    def cut(self, start: int, stop: int | None = None) -> Demonstration:
        """Return frames `start` to `stop` as a demonstration of its own."""
        if len(self.actions[start:stop]) == 0:
            raise DataError(f"cut({start}, {stop}) leaves nothing of {self.name!r}: it has {count(len(self), 'frame')}")
        weights = None if self.weights is None else self.weights[start:stop]
        return replace(self, contexts=self.contexts[start:stop], actions=self.actions[start:stop], weights=weights)

    def foretell(self, known: Known, *, complete: bool = False) -> Demonstration:
        """Return it with columns that are known ahead, as contexts of their own; those that are there stay.

        At the end they are missing; where `complete`, those frames are left out, if others remain. The digest stays
        that of what was recorded.
        """
        ahead = name_ahead(self.context_names, known)
        if set(ahead) <= set(self.context_names):
            return self
        told = replace(self, contexts=look_ahead(self.contexts, known), context_names=(*self.context_names, *ahead))
        most = max(n for _, n in known)
        if complete and len(self) > most:
            told = told.cut(0, len(self) - most)
        vars(told)["digest"] = self.digest
        return told

    def prepare(self, preparation: Preparation) -> Demonstration:
        """Return it with what a policy was trained to find mended."""
        if not preparation or preparation == self.preparation:
            return self
        contexts = preparation.mend(self.contexts, self.context_names)
        actions = preparation.mend(self.actions, self.action_names)
        return replace(self, contexts=contexts, actions=actions, preparation=preparation)

    def bridge(self, wrong: npt.NDArray[np.bool_]) -> FloatArray:
        """Return the actions with those marked (T, k) replaced by lines between the others; of no others, as it is."""
        out, frames = self.actions.copy(), np.arange(len(self))
        for j, some in enumerate(wrong.T):
            if some.any() and not some.all():
                out[some, j] = np.interp(frames[some], frames[~some], self.actions[~some, j])
        return out

    def only_action(self, number: int) -> Demonstration:
        """Return the same contexts with one of the actions alone."""
        if len(self.action_names) == 1:
            return self
        some = slice(number, number + 1)
        weights = None if self.weights is None else self.weights[:, some]
        return replace(self, actions=self.actions[:, some], action_names=self.action_names[some], weights=weights)


@dataclass(frozen=True, eq=False)
class Demonstrations(Sequence[Demonstration], AtHand, Recorded):
    """Several demonstrations of one task, never joined: no lag or difference crosses from one to the next.

    Parameters
    ----------
    items : sequence of Demonstration
        The sequences.
    groups : sequence or mapping, optional
        A label for each sequence, or one by name: who acted, or in which run. Sequences of one group are held out
        together, by splits, folds and everything that judges. Without, each sequence keeps the group it has.

    Examples
    --------
    >>> demos = Demonstrations.from_arrays([[[0.0], [1.0]], [[2.0]]], [[0.0, 0.5], [1.0]], rate=30.0)
    >>> len(demos), demos.n_frames, demos.n_contexts, demos.n_actions
    (2, 3, 1, 1)
    """

    items: tuple[Demonstration, ...]
    groups: tuple[str | None, ...] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.items, type) or not isinstance(self.items, Demonstration | Iterable):
            raise ArgumentError(f"demos must be Demonstrations; got {self.items!r}: {_BUILD}")
        items = (self.items,) if isinstance(self.items, Demonstration) else tuple(self.items)
        if not items:
            raise DataError("demonstrations must hold at least one sequence; got none")
        for i, item in enumerate(items):
            if not isinstance(item, Demonstration):
                raise ArgumentError(
                    f"demonstrations must hold Demonstration objects; got {type(item).__name__} at position {i}: "
                    f"{_BUILD}"
                )
            for what in ("context_names", "action_names", "rate", "preparation"):
                if getattr(item, what) != getattr(items[0], what):
                    raise DataError(
                        f"all demonstrations must share their {what}; {items[0].name!r} has "
                        f"{getattr(items[0], what)!r} and {item.name!r} has {getattr(item, what)!r}"
                    )
        share_about((item.name, item.about) for item in items)
        if self.groups is not None:
            labels = label_sequences(self.groups, [item.name for item in items])
            items = tuple(replace(item, group=label) for item, label in zip(items, labels, strict=True))
        found = tuple(item.group for item in items)
        object.__setattr__(self, "items", items)
        object.__setattr__(self, "groups", None if found.count(None) == len(found) else found)

    @classmethod
    def of(cls, demos: Demonstration | Iterable[Demonstration]) -> Demonstrations:
        """Take one demonstration, an iterable of them, or demonstrations as they are."""
        return demos if isinstance(demos, Demonstrations) else cls(demos)  # type: ignore[arg-type]

    @classmethod
    def from_arrays(
        cls,
        contexts: Sequence[Any],
        actions: Sequence[Any],
        *,
        rate: float | None = None,
        names: Sequence[str] | None = None,
        context_names: Sequence[str] = (),
        action_names: Sequence[str] = (),
        groups: Sequence[Any] | Mapping[str, Any] | None = None,
    ) -> Demonstrations:
        """Build demonstrations from two lists, with one (T, m) and one (T, k) array per sequence."""
        if len(contexts) != len(actions):
            raise DataError(f"contexts and actions must list as many sequences; got {len(contexts)} and {len(actions)}")
        names = [f"sequence {i}" for i in range(len(contexts))] if names is None else names
        if len(names) != len(contexts):
            raise ArgumentError(f"names must name {len(contexts)} sequences; got {len(names)}")
        return cls(
            tuple(
                Demonstration(x, a, rate, str(name), context_names, action_names)  # type: ignore[arg-type]
                for x, a, name in zip(contexts, actions, names, strict=True)
            ),
            groups,  # type: ignore[arg-type]
        )

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        actions: str | Sequence[str] | None = None,
        contexts: str | Sequence[str] | None = None,
        sequence: str | None = None,
        group: str | None = None,
        time: str | None = None,
        time_unit: str | None = None,
        rate: float | None = None,
        gap: float | None = None,
        resample: float | None = None,
        repair: bool = False,
        missing: Any = None,
        wraps: Any = None,
        quiet: bool = False,
    ) -> Demonstrations:
        """Build demonstrations from a pandas, polars or Arrow frame, or from arrays by name, as `simile.read` does.

        Parameters
        ----------
        frame
            One row per frame, in order of time inside each sequence. An index of times is the time.
        actions, contexts, sequence, group, time, time_unit, rate, gap, resample, repair, missing, wraps
            As for `simile.read`, which chooses the same columns from a frame as from a file.
        quiet : bool
            Do not print to stderr what was left out, or is written in another way than it was read.
        """
        from simile.data.reading.columns import ReadOptions
        from simile.data.reading.reader import read_frame

        how = ReadOptions(
            *(actions, contexts, sequence, group, time, time_unit, rate, gap, resample),
            repair=repair,
            missing=missing,
            wraps=wraps,
        )
        demos, summary = read_frame(frame, how)
        if summary.doubts and not quiet:
            print("\n".join(["frame:", *summary.doubts]), file=sys.stderr)  # noqa: T201 - as `simile.read` does
        return demos

    def grouped(self, groups: Sequence[Any] | Mapping[str, Any] | None, *, by: str = GROUP) -> Demonstrations:
        """Return the same sequences in other groups: a label for each, or one by name; None leaves each alone.

        `by` is what groups are, such as "person".

        Examples
        --------
        >>> demos = Demonstrations.from_arrays([[[0.0]], [[1.0]], [[2.0]]], [[0.0], [0.5], [1.0]])
        >>> demos.grouped(["anna", "ben", "anna"], by="person").split(test=0.5)[1].new
        'another recording of the same person'
        """
        items = tuple(replace(d, group=None, group_name=by) for d in self.items)
        return Demonstrations(items, groups)  # type: ignore[arg-type]

    @overload
    def __getitem__(self, index: int) -> Demonstration: ...
    @overload
    def __getitem__(self, index: slice) -> Demonstrations: ...
    def __getitem__(self, index: int | slice) -> Demonstration | Demonstrations:
        return Demonstrations(self.items[index]) if isinstance(index, slice) else self.items[index]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Demonstration]:
        return iter(self.items)

    def __repr__(self) -> str:
        return f"Demonstrations({count(len(self), 'sequence')}, {count(self.n_frames, 'frame')})"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the sequences."""
        return tuple(d.name for d in self.items)

    @property
    def rate(self) -> float | None:
        """Frames per second, shared by all sequences; None when unknown."""
        return self.items[0].rate

    @property
    def context_names(self) -> tuple[str, ...]:
        """Names of the m context columns."""
        return self.items[0].context_names

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the k action columns."""
        return self.items[0].action_names

    @property
    def about(self) -> Mapping[str, Any] | None:
        """Facts that all sequences share, where some say them."""
        return share_about((d.name, d.about) for d in self.items)

    @property
    def preparation(self) -> Preparation:
        """What was mended when they were read."""
        return self.items[0].preparation

    @property
    def group_name(self) -> str:
        """What groups are, such as "person"."""
        return next((d.group_name for d in self.items if d.group is not None), GROUP)

    @property
    def lengths(self) -> IntArray:
        """Frames of each sequence."""
        return np.array([len(d) for d in self.items], dtype=np.intp)

    @property
    def moments(self) -> FloatArray:
        """Of the actions of each sequence sum, squares about the mean, minimum, maximum and the first, (n, 5, k)."""
        return np.array([_moments(d.actions) for d in self.items])

    @cached_property
    def places(self) -> FloatArray:
        """Where the contexts of each sequence lie, and how far they move there, (sequences, 2, m)."""
        return np.array([origins.find_places(d.contexts) for d in self.items])

    @cached_property
    def logs(self) -> tuple[Log, ...]:
        """What the recording of each action is worth: resolution, noise, and how to look through it."""
        return read_logs(np.array([d.marks for d in self.items]))

    @property
    def contexts(self) -> list[FloatArray]:
        """The contexts, one (T, m) array per sequence."""
        return [d.contexts for d in self.items]

    @property
    def actions(self) -> list[FloatArray]:
        """The expert's actions, one (T, k) array per sequence."""
        return [d.actions for d in self.items]

    @property
    def weights(self) -> list[FloatArray] | None:
        """How much each action of each frame counts, one (T, k) array per sequence; None where all do alike."""
        if all(d.weights is None for d in self.items):
            return None
        return [np.ones_like(d.actions) if d.weights is None else d.weights for d in self.items]

    def foretell(self, known: Known, *, complete: bool = False) -> Demonstrations:
        """Return them with columns that are known ahead, see `Demonstration.foretell`."""
        told = tuple(d.foretell(known, complete=complete) for d in self.items)
        return Demonstrations(told) if any(new is not old for new, old in zip(told, self.items, strict=True)) else self

    def prepare(self, preparation: Preparation) -> Demonstrations:
        """Return them with what a policy was trained to find mended: codes missing, angles near those of its training.

        `policy.card.preparation` says what that is.
        """
        return Demonstrations(tuple(d.prepare(preparation) for d in self.items))

    def without(self, names: Iterable[str]) -> Demonstrations:
        """Return them without some contexts, by name; those that are not there are not missed."""
        kept = [i for i, name in enumerate(self.context_names) if name not in set(names)]
        if len(kept) == self.n_contexts:
            return self
        if not kept:
            raise DataError(f"contexts: none is left without {', '.join(self.context_names)}")
        left = tuple(self.context_names[i] for i in kept)
        return Demonstrations(tuple(replace(d, contexts=d.contexts[:, kept], context_names=left) for d in self.items))

    def with_actions(self, actions: Trajectories) -> Demonstrations:
        """Return the same contexts with other actions."""
        if len(actions) != len(self):
            raise DataError(f"actions must list {count(len(self), 'sequence')}; got {len(actions)}")
        return Demonstrations(tuple(replace(d, actions=a) for d, a in zip(self.items, actions, strict=True)))

    def only_action(self, number: int) -> Demonstrations:
        """Return the same contexts with one of the actions alone."""
        return Demonstrations(tuple(d.only_action(number) for d in self.items))

    def standardize(self, units: Units) -> Demonstrations:
        """Bring the actions to standard units, and take the origin off the contexts."""
        return Demonstrations(
            tuple(
                replace(d, contexts=units.shift(d.contexts), actions=units.standardize(d.actions)) for d in self.items
            )
        )

    def where(self, numbers: IntArray) -> Demonstrations:
        """Return some of the sequences, by number, in their order."""
        return Demonstrations(tuple(self.items[i] for i in np.sort(numbers)))

    def convert(self, function: Callable[..., Demonstrations], *, shared: tuple[Any, ...] = ()) -> Demonstrations:
        """Return function(demonstrations, *shared)."""
        return function(self, *shared)

    @property
    def firsts(self) -> int:
        """0: all sequences are here."""
        return 0

    def deal(self, values: IntArray) -> IntArray:
        """Return the values: all sequences are here."""
        return values

    def gather(self) -> Demonstrations:
        """Return them: they are here."""
        return self

    def show(self, trajectories: Trajectories) -> list[FloatArray]:
        """Return trajectories, which are here."""
        return list(trajectories)

    def extremes(self) -> tuple[FloatArray, FloatArray]:
        """Return the lowest and the highest value of each context, (m,); NaN where all are missing."""
        low, high = ([extreme.reduce(x, axis=0) for x in self.contexts] for extreme in (np.fmin, np.fmax))
        return np.fmin.reduce(low), np.fmax.reduce(high)

    def check(self, space: ActionSpace) -> None:
        """Refuse actions outside the bounds."""
        space.check(self)

    def head(self, frames: int) -> Demonstrations:
        """Return the first frames of every sequence (`demos[:n]` gives the first sequences)."""
        frames = checks.whole_number(frames, "frames", at_least=1)
        return Demonstrations(tuple(d.cut(0, frames) for d in self.items))

    def split(
        self, test: float = 0.25, *, seed: int = 0, groups: Sequence[Any] | None = None
    ) -> tuple[Demonstrations, Demonstrations]:
        """Split whole sequences, or whole groups where there are several, at random into a training and a test part.

        Parameters
        ----------
        test : float
            Share of the sequences (or groups) in the test part; both parts get at least one.
        groups : sequence, optional
            One label per sequence, instead of the groups that they have: sequences of one group stay together.
        """
        kin = self.kin
        if groups is not None:
            if len(labels := list(groups)) != len(self):
                raise ArgumentError(f"groups must have a label for each of {len(self)} sequences; got {len(labels)}")
            kin = np.unique([labels.index(label) for label in labels], return_inverse=True)[1]
        held_out = draw_groups(kin, test, seed)
        train, left = (tuple(d for d, out in zip(self.items, held_out, strict=True) if out == side) for side in (0, 1))
        return Demonstrations(train), Demonstrations(left)

    def hold_out(self, validation: float, *, seed: int = 0) -> tuple[Demonstrations, Demonstrations]:
        """Split off a share for validation: whole groups, or whole sequences, or the end of a single one."""
        validation = checks.number(validation, "validation", above=0.0, at_most=1.0)
        if len(self) > 1:
            return self.split(validation, seed=seed)
        cut = min(max(1, round((1.0 - validation) * self.n_frames)), self.n_frames - 1)
        if cut < 1:
            raise ArgumentError("validation: one frame cannot be split; give longer demonstrations or validation=None")
        return Demonstrations((self[0].cut(0, cut),)), Demonstrations((self[0].cut(cut),))

    @property
    def digests(self) -> tuple[bytes, ...]:
        """Of each sequence, see `Demonstration.digest`."""
        return tuple(d.digest for d in self.items)

    def digest(self) -> str:
        """Return the SHA-256 of all names, the rate and every value: two data sets with one digest are equal."""
        return digest_all((d.digest for d in self.items), self.context_names, self.action_names, self.rate)

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the data: codes for missing values, copies of the action, recordings in another unit."""
        return () if any(item.as_is for item in self.items) else find_problems(self)

    def as_is(self) -> Demonstrations:
        """Return the same, to be learned from whatever is wrong with them."""
        return Demonstrations(tuple(replace(item, as_is=True) for item in self.items))

    def describe(self) -> Description:
        """Summarise the data, so that a wrong guess is seen at once."""
        return Description(self)


@dataclass(frozen=True)
class Description:
    """What the demonstrations hold; prints as a table."""

    demos: Demonstrations = field(repr=False)

    def to_dict(self) -> dict[str, Mapping[str, float]]:
        """Return minimum, mean, maximum, deviation and missing share of every column."""
        columns: dict[str, Mapping[str, float]] = {}
        for names, parts in (
            (self.demos.context_names, self.demos.contexts),
            (self.demos.action_names, self.demos.actions),
        ):
            for name, values in zip(names, np.concatenate(parts).T, strict=True):
                present = values[~np.isnan(values)]
                stats = (
                    (present.min(), present.mean(), present.max(), present.std()) if len(present) else (math.nan,) * 4
                )
                columns[name] = {
                    **{k: float(v) for k, v in zip(("min", "mean", "max", "std"), stats, strict=True)},
                    "missing": 1.0 - len(present) / len(values),
                }
        return columns

    def __str__(self) -> str:
        demos = self.demos
        lengths = [len(d) for d in demos]
        rate = "unknown rate" if demos.rate is None else f"{demos.rate:g} Hz, {demos.n_frames / demos.rate:.1f} s"
        groups = tell_groups(demos.kin, demos.group_name)
        lines = [
            f"{count(len(demos), 'sequence')}{groups}, {count(demos.n_frames, 'frame')} "
            f"({min(lengths)} to {max(lengths)} each), {rate}",
            f"{'':10} {'column':20} {'min':>10} {'mean':>10} {'max':>10} {'std':>10} {'missing':>8}",
        ]
        for i, (name, s) in enumerate(self.to_dict().items()):
            kind = "context" if i < demos.n_contexts else "action"
            lines.append(
                f"{kind:10} {name:20} {s['min']:10.4g} {s['mean']:10.4g} {s['max']:10.4g} {s['std']:10.4g} "
                f"{s['missing']:8.1%}"
            )
        told = tell_delays(self.delays()) if demos.n_frames >= LEAST_TOLD else ()
        problems = (f"problem    {problem}" for problem in demos.problems)
        return "\n".join([*lines, *told, *self.motion(), *problems])

    def delays(self) -> tuple[Delay, ...]:
        """Estimate how late each action is behind each context, the clearest first."""
        return summarize_delays(self.demos)

    def motion(self) -> tuple[str, ...]:
        """Say in a line per action what its log is worth, and how it moves; nothing of a few frames."""
        demos = self.demos
        told = demos.n_frames >= LEAST_TOLD
        return tell_motion(demos.action_names, demos.logs, demos.actions, demos.rate) if told else ()


_BUILD = "build them with Demonstration(contexts=..., actions=...) or Demonstrations.from_frame(...)"


def digest_all(
    digests: Iterable[bytes], context_names: tuple[str, ...], action_names: tuple[str, ...], rate: float | None
) -> str:
    """Return the digest of sequences with these digests, wherever they lie."""
    found = hashlib.sha256(repr((context_names, action_names, rate)).encode())
    for digest in digests:
        found.update(digest)
    return found.hexdigest()


def _moments(actions: FloatArray) -> FloatArray:
    total = actions.sum(axis=0)
    squares = np.sum((actions - total / len(actions)) ** 2, axis=0)
    return np.array([total, squares, actions.min(axis=0), actions.max(axis=0), actions[0]])
