"""Demonstrations in parts that lie elsewhere: only small facts about them are at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from operator import add, itemgetter
from typing import Any, Self

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray, IntArray
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.groups import draw_groups, draw_sequences
from simile.data.logs import Log, read_logs
from simile.data.recorded import ActionSpace, Recorded, Units
from simile.errors import DataError
from simile.learning import measures
from simile.learning.distributed.backend import Backend
from simile.learning.distributed.facts import Facts
from simile.learning.distributed.parts import DistributedParts, View
from simile.learning.measures import Outcome, ScoreSums
from simile.policies.policies import Policy

LITTLE = 0.25  # share of the frames up to which sequences are copied rather than seen where they lie


@dataclass(frozen=True, eq=False)
class DistributedDemonstrations(DistributedParts, Recorded):
    """Several demonstrations of one task, in parts that lie with a backend; their frames are never gathered.

    Parameters
    ----------
    backend : Backend
        Where the parts are.
    handles : tuple
        Of `Demonstrations`, one for each part: the first sequences, the next, and so on.
    facts : tuple of Facts
        Of each part.

    Examples
    --------
    >>> from simile import tasks
    >>> from simile.learning.distributed.backend import LocalBackend
    >>> spread = DistributedDemonstrations.of(tasks.pursuit(n_sequences=5, length=100), LocalBackend(parts=2))
    >>> spread
    DistributedDemonstrations(5 sequences, 500 frames, 2 parts)
    """

    facts: tuple[Facts, ...]

    @classmethod
    def of(
        cls, demos: DistributedDemonstrations | Demonstrations | Demonstration, backend: Backend
    ) -> DistributedDemonstrations:
        """Cut demonstrations into parts of about as many frames, and place them; what is in parts stays as it is."""
        if isinstance(demos, DistributedDemonstrations):
            return demos
        demos = Demonstrations.of(demos)
        parts = [demos[begin:end] for begin, end in share_evenly([len(d) for d in demos], backend.parts)]
        return cls(backend, tuple(backend.place(parts)), tuple(map(Facts.of, parts)))

    @classmethod
    def take(cls, handles: Sequence[Any], backend: Backend) -> Self:
        """Take demonstrations that a backend has already, one handle for each part."""
        return cls(backend, tuple(handles), tuple(backend.collect(backend.map(Facts.of, handles))))

    def __len__(self) -> int:
        return len(self.all.names)

    def __repr__(self) -> str:
        return f"DistributedDemonstrations({len(self)} sequences, {self.n_frames} frames, {len(self.handles)} parts)"

    @cached_property
    def all(self) -> Facts:
        """The facts of all sequences."""
        return Facts.join(self.facts)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the sequences."""
        return self.all.names

    @property
    def lengths(self) -> IntArray:
        """Frames of each sequence."""
        return self.all.lengths

    @property
    def moments(self) -> FloatArray:
        """Of the actions of each sequence, as `Demonstrations.moments`."""
        return self.all.moments

    @property
    def places(self) -> FloatArray:
        """Where the contexts of each sequence lie, as `Demonstrations.places`."""
        return self.all.places

    @cached_property
    def logs(self) -> tuple[Log, ...]:
        """What the recording of each action is worth, as `Demonstrations.logs`."""
        known = self.all.marks
        return read_logs(known if known.size else np.concatenate(self.collect(_marks)))

    @property
    def rate(self) -> float | None:
        """Frames per second, shared by all sequences; None when unknown."""
        return self.all.rate

    @property
    def context_names(self) -> tuple[str, ...]:
        """Names of the m context columns."""
        return self.all.context_names

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the k action columns."""
        return self.all.action_names

    @property
    def groups(self) -> tuple[str | None, ...] | None:
        """The group of each sequence, as `Demonstrations.groups`."""
        return None if self.all.groups.count(None) == len(self) else self.all.groups

    @property
    def group_name(self) -> str:
        """What groups are, such as "person"."""
        return self.all.group_name

    @property
    def digests(self) -> tuple[bytes, ...]:
        """Of each sequence."""
        return self.all.digests

    def digest(self) -> str:
        """Return the digest of all names, the rate and every value."""
        return self.all.digest()

    def extremes(self) -> tuple[FloatArray, FloatArray]:
        """Return the lowest and the highest value of each context, (m,); NaN where all are missing."""
        return np.fmin.reduce(self.all.low), np.fmax.reduce(self.all.high)

    def check(self, space: ActionSpace) -> None:
        """Refuse actions outside the bounds."""
        self.backend.collect(self.map(_check, shared=(space,)))

    def standardize(self, units: Units) -> Self:
        """Bring actions and contexts to standard units; facts other than the logs remain those of the user's."""
        facts = tuple(known.without_marks() for known in self.facts)
        return replace(self, facts=facts, views=(*self.views, View(_standardize, shared=(units,))))

    def convert(self, function: Callable[..., Demonstrations], *, shared: tuple[Any, ...] = ()) -> Self:
        """Return what function(demonstrations of a part, *shared) makes of each part; it stays there."""
        handles = tuple(self.map(function, shared=shared))
        return type(self)(self.backend, handles, tuple(self.backend.collect(self.backend.map(_derived, handles))))

    def deal(self, values: IntArray) -> list[Any]:
        """Put a value for each sequence beside the parts."""
        return self.place(np.split(values, np.cumsum([len(f.names) for f in self.facts])[:-1]))

    def bring(self, n: int) -> Demonstrations:
        """Bring the actions of the first n sequences here, without contexts."""
        parts, counts = self._first(n)
        return Demonstrations(tuple(d for part in self._keep(parts).collect(_bare, counts) for d in part))

    def show(self, trajectories: Sequence[Any], n: int | None = None) -> list[FloatArray]:
        """Bring the first n trajectories here; by default none, for they stay where they are."""
        if not n:
            return []
        parts, counts = self._first(n)
        found = self.backend.map(_head, [trajectories[i] for i in parts], counts)
        return [a for part in self.backend.collect(found) for a in part]

    @cached_property
    def firsts(self) -> list[Any]:
        """Handles of the number of the first sequence of each part."""
        return self.place(np.cumsum([0, *(len(f.names) for f in self.facts)])[:-1].tolist())

    def _first(self, n: int) -> tuple[range, list[Any]]:
        """Return the parts that the first n sequences lie in, and handles of how many of them lie there."""
        before = np.cumsum([0, *(len(f.names) for f in self.facts)])[:-1]
        parts = range(int(np.searchsorted(before, n)))
        return parts, self.place([n - int(before[i]) for i in parts])

    def _keep(self, parts: Sequence[int]) -> Self:
        """Keep some of the parts."""
        handles, facts = (tuple(each[i] for i in parts) for each in (self.handles, self.facts))
        views = (replace(v, beside=tuple([h[i] for i in parts] for h in v.beside)) for v in self.views)
        return replace(self, handles=handles, facts=facts, views=tuple(views))

    def where(self, numbers: IntArray) -> Self:
        """Return some of the sequences, by number, in their order; they stay where they are."""
        if len(numbers) == len(self):
            return self
        begins, numbers = np.cumsum([0, *(len(f.names) for f in self.facts)]), np.sort(numbers)
        here = [numbers[(a <= numbers) & (numbers < b)] - a for a, b in pairwise(begins)]
        some = self._keep([i for i, mine in enumerate(here) if len(mine)])
        here = [mine for mine in here if len(mine)]
        facts = tuple(known.where(mine) for known, mine in zip(some.facts, here, strict=True))
        found = replace(some, facts=facts, views=(*some.views, View(_some, (self.place(here),))))
        return found if found.n_frames > LITTLE * self.n_frames else found._together()

    def _together(self) -> Self:
        """Copy a few sequences out of many parts into as few as workers need, so that the parts may stay on disk."""
        copied, handles, facts = self.map(_copy), [], []
        for begin, end in share_evenly([known.lengths.sum() for known in self.facts], self.backend.parts):
            handles += self.backend.map(_join, *([one] for one in copied[begin:end]))
            facts.append(Facts.join(self.facts[begin:end]))
        return type(self)(self.backend, tuple(handles), tuple(facts))

    def split(self, test: float = 0.25, *, seed: int = 0) -> tuple[Self, Self]:
        """Split whole groups or sequences at random, as `Demonstrations.split` does: the same, for the same seed."""
        if len(self) < 2:
            raise DataError(
                f"split needs at least two sequences; got {len(self)}: cut a long recording into several first, or "
                "hold out nothing (validation=0)"
            )
        held_out = draw_groups(self.kin, test, seed)
        return self.where(np.flatnonzero(~held_out)), self.where(np.flatnonzero(held_out))

    def hold_out(self, validation: float, *, seed: int = 0) -> tuple[Self, Self]:
        """Split off a share of the sequences for validation, as `Demonstrations.hold_out`."""
        return self.split(checks.number(validation, "validation", above=0.0, at_most=1.0), seed=seed)

    def draw(self, most: int, *, seed: int = 0) -> Self:
        """Return as many sequences as fit into so many bytes, drawn by chance, in their order; all where all do."""
        return self.where(draw_sequences(8 * (self.n_contexts + self.n_actions) * self.lengths, most, seed))

    def gather(self) -> Demonstrations:
        """Bring all frames here, for a few sequences that are wanted at hand: to judge a policy, or to draw."""
        return Demonstrations(tuple(d for part in self.collect(_all) for d in part))

    def outcome(self, policy: Policy, *, seed: int = 0, order: int = 2) -> Outcome:
        """Roll a policy out where the contexts are, and measure it; `rolled` are handles of the trajectories."""
        found = self.map(_roll_and_sum, self.firsts, shared=(policy, seed, order, self.logs))
        sums: ScoreSums = self.backend.total(add, self.backend.map(itemgetter(1), found))
        measures.refuse_short(policy, int(self.lengths.max()))
        score = sums.score
        rolled = self.actions() if score.diverged else self.backend.map(itemgetter(0), found)
        return Outcome(score.error, score.roughness, rolled)

    def actions(self) -> list[Any]:
        """Return handles of the expert's trajectories."""
        return self.map(_actions)


def share_evenly(frames: Sequence[int], n: int) -> list[tuple[int, int]]:
    """Cut a sequence of things with so many frames each into n parts of about as many frames, where there are so many.

    >>> share_evenly([5, 1, 1, 1, 4], 3)
    [(0, 1), (1, 4), (4, 5)]
    """
    ends = np.cumsum([0, *frames])
    if len(frames) <= n:
        return list(pairwise(range(len(ends))))
    return list(pairwise(sorted({int(np.abs(ends - ends[-1] * i / n).argmin()) for i in range(n + 1)})))


# What runs where a part is stands at the top level, so that it can be sent there.


def _check(demos: Demonstrations, space: ActionSpace) -> None:
    demos.check(space)


def _standardize(demos: Demonstrations, units: Units) -> Demonstrations:
    return demos.standardize(units)


def _all(demos: Demonstrations) -> Demonstrations:
    return demos


def _copy(demos: Demonstrations) -> Demonstrations:
    return Demonstrations(tuple(replace(d, contexts=d.contexts.copy(), actions=d.actions.copy()) for d in demos))


def _join(*parts: Demonstrations) -> Demonstrations:
    return Demonstrations(tuple(d for demos in parts for d in demos))


def _some(demos: Demonstrations, numbers: IntArray) -> Demonstrations:
    return Demonstrations(tuple(demos[int(i)] for i in numbers))


def _derived(demos: Demonstrations) -> Facts:
    return Facts.of(demos, whole=False)


def _marks(demos: Demonstrations) -> FloatArray:
    return np.array([d.marks for d in demos])


def _bare(demos: Demonstrations, n: int) -> Demonstrations:
    some = demos[:n]
    return Demonstrations(tuple(replace(d, contexts=np.zeros(len(d)), context_names=()) for d in some))


def _head(trajectories: Sequence[FloatArray], n: int) -> list[FloatArray]:
    return list(trajectories[:n])


def _roll_and_sum(
    demos: Demonstrations, first: int, policy: Policy, seed: int, order: int, logs: tuple[Log, ...]
) -> tuple[list[FloatArray], ScoreSums]:
    return measures.roll_and_sum(policy, demos, seed=seed, order=order, logs=logs, first=first)


def _actions(demos: Demonstrations) -> list[FloatArray]:
    return demos.actions
