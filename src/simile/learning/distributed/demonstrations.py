"""Demonstrations in parts that lie elsewhere: only small facts about them are at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import pairwise
from operator import add, itemgetter
from typing import Any, Self

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray, IntArray
from simile.data.demonstrations import Demonstration, Demonstrations, digest_all
from simile.data.groups import draw_groups, draw_sequences
from simile.data.logs import Log, read_logs
from simile.data.preparation import Preparation
from simile.data.recorded import ActionSpace, Recorded, Units
from simile.data.sanity import Problem
from simile.data.timing import Known, name_ahead
from simile.errors import DataError
from simile.learning import measures
from simile.learning.distributed.backend import Backend
from simile.learning.distributed.facts import Details, Facts, join_rows
from simile.learning.distributed.parts import DistributedParts, View
from simile.learning.measures import Outcome
from simile.metrics import Sums
from simile.policies.policies import Policy

DETAILS = View(Details.of)
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
    facts : Facts
        What is known of them here.
    details : DistributedParts
        Of the `Details` of each part, which stay there; they are those of the user's units.

    Examples
    --------
    >>> from simile import tasks
    >>> from simile.learning.distributed.backend import LocalBackend
    >>> spread = DistributedDemonstrations.of(tasks.pursuit(n_sequences=5, length=100), LocalBackend(parts=2))
    >>> spread
    DistributedDemonstrations(5 sequences, 500 frames, 2 parts)
    """

    facts: Facts
    details: DistributedParts

    @classmethod
    def of(
        cls, demos: DistributedDemonstrations | Demonstrations | Demonstration, backend: Backend
    ) -> DistributedDemonstrations:
        """Cut demonstrations into parts of about as many frames, and place them; what is in parts stays as it is."""
        if isinstance(demos, DistributedDemonstrations):
            return demos
        demos = Demonstrations.of(demos)
        parts = [demos[begin:end] for begin, end in share_evenly([len(d) for d in demos], backend.parts)]
        return cls.take(backend.place(parts), backend, [Facts.of(part) for part in parts])

    @classmethod
    def take(cls, handles: Sequence[Any], backend: Backend, facts: Sequence[Facts] | None = None) -> Self:
        """Take demonstrations that a backend has already, one handle for each part, and ask for their facts."""
        known = Facts.join(backend.collect(backend.map(Facts.of, handles)) if facts is None else facts)
        details = DistributedParts(backend, tuple(backend.map(Details.of, handles)))
        return cls(backend, tuple(handles), known, details)

    def __len__(self) -> int:
        return len(self.facts.lengths)

    def __repr__(self) -> str:
        return f"DistributedDemonstrations({len(self)} sequences, {self.n_frames} frames, {len(self.handles)} parts)"

    def over(self, what: str, function: Callable[..., Any], *shared: Any) -> Any:
        """Return function(what all sequences have by that name, *shared), called where it is: only that comes here."""
        return self._ask(self.details.map(getattr, shared=(what,)), function, *shared)

    def _ask(self, parts: Sequence[Any], function: Callable[..., Any], *shared: Any) -> Any:
        asked = self.backend.map(_over, *([part] for part in parts), shared=(function, shared))
        (found,) = self.backend.collect(asked)
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the sequences, which come here; `over` lets them stay."""
        found: tuple[str, ...] = self.over("names", tuple)
        return found

    @property
    def lengths(self) -> IntArray:
        """Frames of each sequence."""
        return self.facts.lengths

    @property
    def moments(self) -> FloatArray:
        """Of the actions of each sequence, as `Demonstrations.moments`, which come here."""
        return np.asarray(self.over("moments", np.asarray))

    @property
    def places(self) -> FloatArray:
        """Where the contexts of each sequence lie, as `Demonstrations.places`, which come here."""
        return np.asarray(self.over("places", np.asarray))

    @cached_property
    def logs(self) -> tuple[Log, ...]:
        """What the recording of each action is worth, as `Demonstrations.logs`."""
        found: tuple[Log, ...] = self._ask(self.map(_marks), read_logs)
        return found

    @property
    def rate(self) -> float | None:
        """Frames per second, shared by all sequences; None when unknown."""
        return self.facts.rate

    @property
    def context_names(self) -> tuple[str, ...]:
        """Names of the m context columns."""
        return self.facts.context_names

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the k action columns."""
        return self.facts.action_names

    @property
    def groups(self) -> tuple[str | None, ...] | None:
        """The group of each sequence, as `Demonstrations.groups`."""
        return self.facts.groups

    @property
    def about(self) -> Mapping[str, Any] | None:
        """Facts that all sequences share, as `Demonstrations.about`."""
        return self.facts.about

    @property
    def preparation(self) -> Preparation:
        """What was mended when they were read."""
        return self.facts.preparation

    @property
    def group_name(self) -> str:
        """What groups are, such as "person"."""
        return self.facts.group_name

    @property
    def digests(self) -> tuple[bytes, ...]:
        """Of each sequence, which come here."""
        found: tuple[bytes, ...] = self.over("digests", tuple)
        return found

    @cached_property
    def _digest(self) -> str:
        return str(self.over("digests", digest_all, self.context_names, self.action_names, self.rate))

    def digest(self) -> str:
        """Return the digest of all names, the rate and every value."""
        return self._digest

    def extremes(self) -> tuple[FloatArray, FloatArray]:
        """Return the lowest and the highest value of each context, (m,); NaN where all are missing."""
        return self.over("low", np.fmin.reduce), self.over("high", np.fmax.reduce)

    def check(self, space: ActionSpace) -> None:
        """Refuse actions outside the bounds."""
        self.backend.collect(self.map(_check, shared=(space,)))

    def foretell(self, known: Known, *, complete: bool = False) -> Self:
        """Return them with columns that are known ahead, as `Demonstrations.foretell`; they stay where they are."""
        if set(name_ahead(self.context_names, known)) <= set(self.context_names):
            return self
        return self.convert(_foretell, shared=(known, complete))

    def standardize(self, units: Units) -> Self:
        """Bring actions and contexts to standard units; what is known of them remains that of the user's."""
        return replace(self, views=(*self.views, View(_standardize, shared=(units,))))

    def convert(self, function: Callable[..., Demonstrations], *, shared: tuple[Any, ...] = ()) -> Self:
        """Return what function(demonstrations of a part, *shared) makes of each part; it stays there."""
        handles = tuple(self.map(function, shared=shared))
        facts = Facts.join(self.backend.collect(self.backend.map(Facts.of, handles)))
        return type(self)(self.backend, handles, facts, DistributedParts(self.backend, handles, views=(DETAILS,)))

    def deal(self, values: IntArray) -> list[Any]:
        """Put a value for each sequence beside the parts."""
        return self.place(np.split(values, self.facts.begins[1:-1]))

    def show(self, trajectories: Sequence[Any]) -> list[FloatArray]:  # noqa: ARG002
        """Return none: trajectories stay where they are."""
        return []

    @cached_property
    def firsts(self) -> list[Any]:
        """Handles of the number of the first sequence of each part."""
        return self.place(self.facts.begins[:-1].tolist())

    def where(self, numbers: IntArray) -> Self:
        """Return some of the sequences, by number, in their order; they stay where they are."""
        if len(numbers) == len(self):
            return self
        begins, numbers = self.facts.begins, np.sort(numbers)
        here = [numbers[(a <= numbers) & (numbers < b)] - a for a, b in pairwise(begins)]
        parts = [i for i, mine in enumerate(here) if len(mine)]
        placed = (self.place([here[i] for i in parts]),)
        some, known = self.keep(parts), self.details.keep(parts)
        details = replace(known, views=(*known.views, View(Details.where, placed)))
        views = (*some.views, View(_some, placed))
        found = replace(some, facts=self.facts.where(numbers), details=details, views=views)
        return found if found.n_frames > LITTLE * self.n_frames else found._together()

    def _together(self) -> Self:
        """Copy a few sequences out of many parts into as few as workers need, so that the parts may stay on disk."""
        spans = share_evenly(self.facts.frames.tolist(), self.backend.parts)
        handles, details = (
            [h for a, b in spans for h in self.backend.map(join, *([one] for one in parts[a:b]))]
            for join, parts in ((_join, self.map(_copy)), (Details.join, self.details.map(_all)))
        )
        facts = replace(self.facts, counts=np.array([self.facts.counts[a:b].sum() for a, b in spans]))
        return type(self)(self.backend, tuple(handles), facts, DistributedParts(self.backend, tuple(details)))

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

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the data, as each part shows it, see `Demonstrations.problems`."""
        found = {(problem.kind, problem.columns): problem for part in self.collect(_find_problems) for problem in part}
        return tuple(found.values())

    def outcome(self, policy: Policy, *, seed: int = 0, order: int = 2) -> Outcome:
        """Roll a policy out where the contexts are, and measure it; `rolled` are handles of the trajectories."""
        found = self.map(_roll_and_sum, self.firsts, shared=(policy, seed, order, self.logs))
        sums: Sums = reduce(add, self.backend.collect(self.backend.map(itemgetter(1), found)))
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


def _find_problems(demos: Demonstrations) -> tuple[Problem, ...]:
    return demos.problems


def _check(demos: Demonstrations, space: ActionSpace) -> None:
    demos.check(space)


def _foretell(demos: Demonstrations, known: Known, complete: bool) -> Demonstrations:
    return demos.foretell(known, complete=complete)


def _standardize(demos: Demonstrations, units: Units) -> Demonstrations:
    return demos.standardize(units)


def _all(part: Any) -> Any:
    return part


def _over(*given: Any) -> Any:
    """Call a function of what all parts, which come first, have."""
    *parts, function, shared = given
    return function(join_rows(parts), *shared)


def _copy(demos: Demonstrations) -> Demonstrations:
    return Demonstrations(tuple(replace(d, contexts=d.contexts.copy(), actions=d.actions.copy()) for d in demos))


def _join(*parts: Demonstrations) -> Demonstrations:
    return Demonstrations(tuple(d for demos in parts for d in demos))


def _some(demos: Demonstrations, numbers: IntArray) -> Demonstrations:
    return Demonstrations(tuple(demos[int(i)] for i in numbers))


def _marks(demos: Demonstrations) -> FloatArray:
    return np.array([d.marks for d in demos])


def _roll_and_sum(
    demos: Demonstrations, first: int, policy: Policy, seed: int, order: int, logs: tuple[Log, ...]
) -> tuple[list[FloatArray], Sums]:
    return measures.roll_and_sum(policy, demos, seed=seed, order=order, logs=logs, first=first)


def _actions(demos: Demonstrations) -> list[FloatArray]:
    return demos.actions
