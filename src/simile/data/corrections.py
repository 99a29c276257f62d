"""What an operator corrected: recordings of a policy at work, read as demonstrations of what was done instead.

Frames under the operator are expert actions. Frames before a take-over are kept for what lags look back to, and for a
roll-out to run up; they count nothing, for nobody showed what would have been right in them. Of those, the last seconds
are marked as what went wrong: somebody decided that it was bad. All others were watched, and let be.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from simile._common import checks
from simile._common.text import escape, table
from simile._common.typing import IntArray
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.reading.formats import open_tables
from simile.data.reading.sequences import align_rows
from simile.data.reading.tables import Batch, Roles, Table, Wanted
from simile.data.states import Horizon
from simile.data.timing import Known
from simile.errors import ArgumentError, DataError

OPERATOR, POLICY = "operator", "policy"  # in the column `who`
TOGETHER = 1.0  # seconds that a policy may act between two stretches that are one
LEAD = 5.0  # seconds before a take-over that are kept, or what `Horizon.auto` looks back to: the longer of both
SHOWN = 8  # letters of the name of a stretch


@dataclass(frozen=True)
class Stretch:
    """Some frames under an operator, without a pause of more than a second.

    Attributes
    ----------
    name : str
        By which it is known again, as long as the recording is.
    sequence : str
        The stream, and when it was opened.
    first, last : int
        Numbers of its first and last frame there.
    seconds : float
        How long the operator acted.
    correction : tuple of float
        How far the operator was from the last action of the policy, the mean over the frames, for each action.
    """

    name: str
    sequence: str
    first: int
    last: int
    seconds: float
    correction: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Corrections:
    """The stretches of recordings in which an operator acted; prints as a table.

    Attributes
    ----------
    demos : Demonstrations
        One for each stretch, as it was recorded, with seconds before it; weights are 1 where the operator acted and 0
        elsewhere. Each is a group of its own, or of those who share frames, and so always on one side of a split.
    stretches : tuple of Stretch
        What is known of each.
    blamed : tuple of (T,) array of bool
        Which frames of each are marked as what went wrong.
    recorded : float
        Seconds of all recordings, whoever acted.
    watched : Demonstrations, optional
        The streams in which an operator acted, whole and as recorded; weights are 1 where the policy acted and is not
        blamed: somebody watched, and let it. None where there is no such frame.
    """

    demos: Demonstrations
    stretches: tuple[Stretch, ...]
    blamed: tuple[npt.NDArray[np.bool_], ...]
    recorded: float
    watched: Demonstrations | None = None

    def __len__(self) -> int:
        return len(self.stretches)

    def __repr__(self) -> str:
        return f"Corrections({len(self)} stretch{'es' * (len(self) > 1)}, {self.seconds:.1f} of {self.recorded:.1f} s)"

    def __str__(self) -> str:
        numbers = (("first", 8, "d"), ("last", 8, "d"), ("seconds", 8, ".1f"))
        columns = (("stretch", SHOWN, "<"), ("sequence", 8, "<"), *numbers)
        rows = [(s.name, escape(s.sequence), s.first, s.last, s.seconds, self._tell(s)) for s in self.stretches]
        blamed = sum(int(b.sum()) for b in self.blamed) / (self.demos.rate or 1.0)
        last = (
            f"the operator acted for {self.seconds:.1f} of {self.recorded:.1f} seconds; {blamed:.1f} seconds before "
            "take-overs are marked as what went wrong"
        )
        return "\n".join([*table(columns, rows), last])

    def _tell(self, stretch: Stretch) -> str:
        """Say by how much the operator corrected each action."""
        moved = zip(self.demos.action_names, stretch.correction, strict=True)
        return "  " + ", ".join(f"{name} by {value:.3g}" for name, value in moved)

    @property
    def seconds(self) -> float:
        """How long the operator acted."""
        return sum(s.seconds for s in self.stretches)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the names of the stretches and all values, their own and those of the streams around them."""
        found = hashlib.sha256(repr((self.demos.context_names, self.demos.action_names, self.demos.rate)).encode())
        for stretch, demo in zip(self.stretches, self.demos, strict=True):
            found.update(repr((stretch.name, len(demo))).encode())
            found.update(np.ascontiguousarray(demo.contexts).data)
            found.update(np.ascontiguousarray(demo.actions).data)
        for demo in self.watched or ():
            found.update(demo.digest)
            found.update(np.ascontiguousarray(demo.weights).data)
        return found.hexdigest()

    def where(self, numbers: Sequence[int] | IntArray) -> Corrections:
        """Return some of the stretches, by number."""
        some = [int(i) for i in numbers]
        return replace(
            self,
            demos=Demonstrations(tuple(self.demos[i] for i in some)),
            stretches=tuple(self.stretches[i] for i in some),
            blamed=tuple(self.blamed[i] for i in some),
        )

    def without(self, names: Sequence[str]) -> Corrections:
        """Leave stretches out, by their names or how those begin."""
        left = list(range(len(self)))
        for name in [names] if isinstance(names, str) else names:
            found = [i for i, s in enumerate(self.stretches) if name and s.name.startswith(name)]
            if len(found) != 1:
                known = ", ".join(s.name for s in self.stretches[:10])
                raise ArgumentError(
                    f"without must name one stretch each; {name!r} names {len(found) or 'none'}: there are {known}"
                    f"{' and more' if len(self) > 10 else ''}"
                )
            left = [i for i in left if i != found[0]]
        if not left:
            raise ArgumentError("without names all stretches: there is nothing left to learn from")
        return self.where(left)

    def grouped(self, groups: Sequence[Any], *, by: str = "recording") -> Corrections:
        """Return the same stretches in other groups, a label for each: those of one group are held out together."""
        regrouped = []
        for demo, other in zip(self.demos, self.demos.grouped(groups, by=by), strict=True):
            vars(other)["digest"] = demo.digest
            regrouped.append(other)
        return replace(self, demos=Demonstrations(tuple(regrouped)))

    def lessons(self, weight: float = 1.0) -> Demonstrations:
        """Return what to learn from: frames under the operator count `weight` times.

        What the policy did is no example: where it acted, there are lines between what the operator did, so that no
        jump from one to the other is learned.
        """
        taught = []
        for demo in self.demos:
            assert demo.weights is not None
            lesson = replace(demo, actions=demo.bridge(demo.weights == 0.0), weights=weight * demo.weights)
            vars(lesson)["digest"] = demo.digest  # of what was recorded
            taught.append(lesson)
        return Demonstrations(tuple(taught))

    def foretell(self, known: Known) -> Corrections:
        """Return them with columns that are known ahead, see `Demonstrations.foretell`."""
        watched = None if self.watched is None else self.watched.foretell(known)
        return replace(self, demos=self.demos.foretell(known), watched=watched)

    def let_be(self) -> Demonstrations | None:
        """Return what the policy did where nobody took over; all of it counts as much as the frames of the stretches.

        These actions tell nothing about the expert but that they were good enough: to stay close to, not to judge by.
        """
        if self.watched is None:
            return None
        weights = self.watched.weights or []
        corrected, let = (sum(float(w.sum()) for w in some) for some in (self.demos.weights or [], weights))
        share = min(1.0, corrected / let)
        return Demonstrations(tuple(replace(d, weights=share * w) for d, w in zip(self.watched, weights, strict=True)))


def read_corrections(
    folder: str | Path, *, blame: float = 2.0, without: Sequence[str] = (), rate: float | None = None
) -> Corrections:
    """Read the recordings of a folder as corrections.

    Parameters
    ----------
    folder : path
        Where `simile serve --record`, or another recorder, wrote; or one file of it.
    blame : float
        Seconds before a take-over that are marked as what went wrong.
    without : sequence of str
        Names of stretches to leave out, or how they begin.
    rate : float, optional
        Frames per second, where the recordings do not say.

    Returns
    -------
    Corrections
    """
    blame = checks.number(blame, "blame", at_least=0.0, at_most=LEAD)
    roles, columns = _read(folder)
    rate = roles.rate if rate is None else checks.rate(rate)
    if rate is None:
        raise DataError(f"{folder}: the recordings do not say how many frames there are a second: give rate=...")
    found, watched = [], list[Demonstration]()
    for rows, done in _cut_runs(columns, roles):
        if own := list(_find_stretches(rows, done, columns, roles, rate, blame)):
            found += own
            watched += _watch(rows, done, columns, own, round(blame * rate))
    if not found:
        raise DataError(
            f"{folder}: no frame of the {len(columns['who'])} recorded is an operator's: there is nothing to learn "
            "from as long as nobody takes over"
        )
    demos, stretches, blamed = zip(*found, strict=True)
    seconds = len(columns["who"]) / rate
    let = Demonstrations(tuple(watched)) if watched else None
    read = Corrections(Demonstrations(demos), stretches, blamed, seconds, let)
    return read.without(without) if without else read


def _read(folder: str | Path) -> tuple[Roles, dict[str, Any]]:
    """Read all files of a folder, one after the other, as arrays by name."""
    roles, batches = None, list[Batch]()
    for one in open_tables(folder):
        own = _check_roles(one)
        if roles is not None and (own.contexts, own.actions) != (roles.contexts, roles.actions):
            raise DataError(
                f"{one.path}: it records {own.contexts} and {own.actions}, and others in the folder {roles.contexts} "
                f"and {roles.actions}: put recordings of each policy's columns in a folder of their own"
            )
        if roles is not None and own.lead != roles.lead:
            raise DataError(
                f"{one.path}: its policy had a lead of {own.lead or 0} frames, and others in the folder "
                f"{roles.lead or 0}: put recordings of each in a folder of their own"
            )
        roles = own
        batches += one.scan(Wanted(("n", *(own.contexts or ()), *(own.actions or ())), own.sequence, group="who"))
    assert roles is not None  # no file, or one without a row, was refused
    columns: dict[str, Any] = {
        "sequence": np.array([label for batch in batches for label in batch.labels or ()], dtype=object),
        "who": np.array([who for batch in batches for who in batch.groups or ()], dtype=object),
        "n": np.concatenate([batch.numbers["n"] for batch in batches]).astype(np.int64),
    }
    for name, group in (("contexts", roles.contexts), ("actions", roles.actions)):
        columns[name] = np.concatenate([np.column_stack([batch.numbers[c] for c in group or ()]) for batch in batches])
    return roles, columns


def _check_roles(table: Table) -> Roles:
    """Return which columns of a recording are what; refuse what is none."""
    roles, names = table.roles, {column.name for column in table.columns}
    if roles.sequence is None or not roles.contexts or not roles.actions or not {"n", "who", *roles.columns} <= names:
        raise DataError(
            f"{table.path} is no recording: it does not say who acted, or which columns are contexts and actions: name "
            "what `simile serve --record` wrote"
        )
    return roles


def _cut_runs(columns: dict[str, Any], roles: Roles) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the rows of every stretch of time without a lost frame, stream after stream, and who acted for them."""
    names, stream = np.unique(columns["sequence"].astype(str), return_inverse=True)
    for number in range(len(names)):
        rows = np.flatnonzero(stream == number)
        rows = rows[np.argsort(columns["n"][rows], kind="stable")]
        for run in np.split(rows, np.flatnonzero(np.diff(columns["n"][rows]) != 1) + 1):
            seen, done = align_rows(run, roles.lead or 0)
            known = ~np.isnan(columns["actions"][done]).any(axis=1)  # a policy that waits has none at first
            yield seen[known], done[known]


def _find_stretches(
    rows: IntArray, done: IntArray, columns: dict[str, Any], roles: Roles, rate: float, blame: float
) -> Iterator[tuple[Demonstration, Stretch, npt.NDArray[np.bool_]]]:
    """Yield the stretches under an operator in rows that follow each other; `done` are the rows of their actions."""
    acted = columns["who"][done] == OPERATOR
    turns = np.flatnonzero(acted)
    if not len(turns):
        return
    sequence, numbers = str(columns["sequence"][rows[0]]), columns["n"][rows]
    lead = max(round(LEAD * rate), *Horizon.auto(rate).context_lags)
    group, end = "", -1
    for part in np.split(turns, np.flatnonzero(np.diff(turns) > 1 + TOGETHER * rate) + 1):
        first, last = int(part[0]), int(part[-1])
        begin = max(0, first - lead)
        some, who = rows[begin : last + 1], acted[begin : last + 1]
        actions, contexts = columns["actions"][done[begin : last + 1]], columns["contexts"][some]
        digest = hashlib.sha256(repr((sequence, int(numbers[first]))).encode())
        name = digest.hexdigest()[:SHOWN]
        group, end = group if begin <= end else name, last
        demo = Demonstration(
            contexts=contexts,
            actions=actions,
            rate=rate,
            name=f"{sequence}, frames {numbers[first]} to {numbers[last]}",
            context_names=roles.contexts or (),
            action_names=roles.actions or (),
            group=group,
            group_name="stretch",
            weights=np.repeat(who[:, np.newaxis].astype(np.float64), actions.shape[1], axis=1),
            about=roles.about,
        )
        vars(demo)["digest"] = digest.digest()  # by where it begins: it is known again when more of it is recorded
        before = actions[first - begin - 1] if first > begin else actions[0]
        moved = np.mean(np.abs(actions[who] - before), axis=0)
        frames = np.arange(begin, last + 1)
        blamed = (frames < first) & (frames >= first - round(blame * rate)) & ~who
        about = Stretch(
            name, sequence, int(numbers[first]), int(numbers[last]), len(part) / rate, tuple(moved.tolist())
        )
        yield demo, about, blamed


def _watch(
    rows: IntArray,
    done: IntArray,
    columns: dict[str, Any],
    found: Sequence[tuple[Demonstration, Stretch, Any]],
    blame: int,
) -> Iterator[Demonstration]:
    """Yield rows that follow each other as one sequence, in which what the policy did and is not blamed for counts."""
    one, about, _ = found[0]
    let = columns["who"][done] == POLICY
    for _, stretch, _ in found:
        first = stretch.first - int(columns["n"][rows[0]])
        let[max(0, first - blame) : first] = False
    if not let.any():
        return
    contexts, actions = columns["contexts"][rows], columns["actions"][done]
    weights = np.repeat(let[:, np.newaxis].astype(np.float64), actions.shape[1], axis=1)
    yield replace(one, contexts=contexts, actions=actions, name=about.sequence, group=None, weights=weights)
