"""What an operator corrected: recordings of a policy at work, read as demonstrations of what was done instead.

Frames under the operator are expert actions. Frames before a take-over are kept for what lags look back to, and for a
roll-out to run up; they count nothing, for nobody showed what would have been right in them. Of those, the last seconds
are marked as what went wrong: somebody decided that it was bad. All others were watched, and let be.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from simile._common import checks
from simile._common.text import escape, table
from simile._common.typing import FloatArray, IntArray
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.preparation import Preparation
from simile.data.reading.formats import open_tables
from simile.data.reading.sequences import align_rows, check_numbers
from simile.data.reading.tables import OPERATOR, POLICY, Roles, Table
from simile.data.states import Horizon
from simile.data.timing import Known
from simile.errors import ArgumentError, DataError

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
    times : (float, float)
        When those came, in Unix seconds.
    seconds : float
        How long the operator acted.
    correction : tuple of float
        How far the operator was from the last action of the policy, the mean over the frames, for each action.
    """

    name: str
    sequence: str
    first: int
    last: int
    times: tuple[float, float]
    seconds: float
    correction: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Corrections:
    """The stretches of recordings in which an operator acted; prints as a table.

    Attributes
    ----------
    demos : Demonstrations
        One for each stretch, as it was recorded, with seconds before it; weights are 1 where the operator acted in it,
        and 0 elsewhere. Each is a group of its own, or of those who share frames, and so always on one side of a split.
    stretches : tuple of Stretch
        What is known of each.
    blamed : tuple of (T,) array of bool
        Which frames of each are marked as what went wrong.
    recorded : float
        Seconds of all recordings, whoever acted.
    runs : tuple of Demonstration
        The streams in which an operator acted, whole and as recorded, cut where frames are lost; weights are 1 where
        the policy acted, but for the frames of stretches that `where` did not take.
    places : tuple of (int, int)
        For each stretch the number of its run, and the row there at which its demonstration begins.
    """

    demos: Demonstrations
    stretches: tuple[Stretch, ...]
    blamed: tuple[npt.NDArray[np.bool_], ...]
    recorded: float
    runs: tuple[Demonstration, ...]
    places: tuple[tuple[int, int], ...]

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
    def watched(self) -> Demonstrations | None:
        """The runs in which somebody took over; weights are 1 where the policy acted and is not blamed.

        Somebody watched there, and let it. None where there is no such frame.
        """
        runs = self._silence(dict(enumerate(self.blamed)))
        let = tuple(run for run in runs if run.weights is not None and run.weights.any())
        return Demonstrations(let) if let else None

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
        """Return some of the stretches, by number; of the frames of the others nothing is watched."""
        some = [int(i) for i in numbers]
        apart = set(range(len(self))).difference(some)
        return replace(self._take(some), runs=self._silence({i: np.ones(len(self.demos[i]), bool) for i in apart}))

    def _take(self, some: Sequence[int]) -> Corrections:
        return replace(
            self,
            demos=Demonstrations(tuple(self.demos[i] for i in some)),
            stretches=tuple(self.stretches[i] for i in some),
            blamed=tuple(self.blamed[i] for i in some),
            places=tuple(self.places[i] for i in some),
        )

    def _silence(self, marked: Mapping[int, npt.NDArray[np.bool_]]) -> tuple[Demonstration, ...]:
        """Return the runs with weight 0 in some frames of stretches, which are given by number."""
        weights: dict[int, FloatArray] = {}
        for i, frames in marked.items():
            number, begin = self.places[i]
            if number not in weights:
                weights[number] = np.array(self.runs[number].weights)
            weights[number][begin : begin + len(frames)][frames] = 0.0
        runs = list(self.runs)
        for number, own in weights.items():
            runs[number] = replace(runs[number], weights=own)
            vars(runs[number])["digest"] = self.runs[number].digest
        return tuple(runs)

    def without(self, names: Sequence[str]) -> Corrections:
        """Leave stretches out that were a mistake of the operator, by their names or how those begin.

        What the policy did before them is not blamed.
        """
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
        return self._take(left)

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
        return replace(self, demos=self.demos.foretell(known), runs=tuple(run.foretell(known) for run in self.runs))

    def prepare(self, preparation: Preparation) -> Corrections:
        """Return them with what their policy was trained to find mended, see `Demonstrations.prepare`."""
        demos = self.demos.prepare(preparation)
        for demo, other in zip(self.demos, demos, strict=True):
            vars(other)["digest"] = demo.digest
        return replace(self, demos=demos, runs=tuple(run.prepare(preparation) for run in self.runs))

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
        Seconds before a take-over, also before one that follows within a second of a hand-back, that are marked as
        what went wrong.
    without : sequence of str
        Names of stretches to leave out, or how they begin.
    rate : float, optional
        Frames per second, where the recordings do not say.

    Returns
    -------
    Corrections
    """
    blame = checks.number(blame, "blame", at_least=0.0, at_most=LEAD)
    roles, columns = _read(folder, None if rate is None else checks.rate(rate))
    if roles.rate is None:
        raise DataError(f"{folder}: the recordings do not say how many frames there are a second: give rate=...")
    found, runs = [], list[Demonstration]()
    for rows, done in _cut_runs(columns, roles):
        if own := list(_find_stretches(rows, done, columns, roles, round(blame * roles.rate))):
            found += [(*one, (len(runs), begin)) for *one, begin in own]
            runs.append(_watch(rows, done, columns, own[0][0]))
    if not found:
        raise DataError(
            f"{folder}: no frame of the {len(columns['who'])} recorded is an operator's: there is nothing to learn "
            "from as long as nobody takes over"
        )
    demos, stretches, blamed, places = zip(*found, strict=True)
    recorded = len(columns["who"]) / roles.rate
    read = Corrections(Demonstrations(demos), stretches, blamed, recorded, tuple(runs), places)
    return read.without(without) if without else read


def _read(folder: str | Path, rate: float | None) -> tuple[Roles, dict[str, Any]]:
    """Read all files of a folder, one after the other, as arrays by name; a rate that is given holds for all."""
    roles: Roles | None = None
    parts: dict[str, list[Any]] = {name: [] for name in ("sequence", "who", "n", "t", "contexts", "actions")}
    for one in open_tables(folder):
        own = _check_roles(one)
        own = own if rate is None else replace(own, rate=rate)
        if roles is not None:
            _compare(one, own, roles)
        roles = own
        contexts, actions, sequence = own.contexts or (), own.actions or (), str(own.sequence)
        types: dict[str, type] = dict.fromkeys(("n", "t", *contexts, *actions), float) | {sequence: str, "who": str}
        for chunk in one.scan(types):
            moments = chunk.numbers(("n", "t"))
            parts["sequence"].append(np.array([*chunk.labels(sequence), None], dtype=object)[:-1])
            who = chunk.labels("who", optional=True)
            if who.null_count():
                told = "it does not say who acted: write operator or policy, or leave the row out"
                raise chunk.place.error(int(who.is_null().arg_max()), "who", told)
            parts["who"].append(np.array([*who, None], dtype=object)[:-1])
            parts["n"].append(moments[:, 0].astype(np.int64))
            parts["t"].append(moments[:, 1])
            for part, names in (("contexts", contexts), ("actions", actions)):
                parts[part].append(chunk.numbers(names))
                check_numbers(parts[part][-1], names, chunk)
    assert roles is not None  # no file, or one without a row, was refused
    return roles, {name: np.concatenate(some) for name, some in parts.items()}


def _check_roles(table: Table) -> Roles:
    """Return which columns of a recording are what; refuse what is none."""
    roles, names = table.roles, {column.name for column in table.columns}
    told = roles.sequence is not None and roles.contexts and roles.actions
    if not told or not {"n", "t", "who", *roles.columns} <= names:
        raise DataError(
            f"{table.path} is no recording: it does not say who acted, or which columns are contexts and actions: name "
            "what `simile serve --record` wrote"
        )
    return roles


def _compare(table: Table, own: Roles, others: Roles) -> None:
    """Refuse a recording that is not of one kind with the others in its folder."""
    if (own.contexts, own.actions) != (others.contexts, others.actions):
        raise DataError(
            f"{table.path}: it records {own.contexts} and {own.actions}, and others in the folder {others.contexts} "
            f"and {others.actions}: put recordings of each policy's columns in a folder of their own"
        )
    if own.lead != others.lead:
        raise DataError(
            f"{table.path}: its policy had a lead of {own.lead or 0} frames, and others in the folder "
            f"{others.lead or 0}: put recordings of each in a folder of their own"
        )
    if own.rate != others.rate:
        mine, theirs = ("an unknown rate" if r is None else f"{r:g} Hz" for r in (own.rate, others.rate))
        raise DataError(
            f"{table.path}: it was recorded at {mine}, and others in the folder at {theirs}: put recordings of each in "
            "a folder of their own, or say by rate=... what all have"
        )


def _cut_runs(columns: dict[str, Any], roles: Roles) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the rows of every stretch of time without a lost frame, stream after stream, and who acted for them."""
    labels = columns["sequence"].tolist()
    codes = {label: code for code, label in enumerate(sorted(set(labels)))}
    stream = np.fromiter(map(codes.__getitem__, labels), np.intp, len(labels))
    order = np.lexsort((columns["n"], stream))
    other, step = np.diff(stream[order]) != 0, np.diff(columns["n"][order])
    if len(twice := np.flatnonzero(~other & (step == 0))):
        row = order[twice[0]]
        raise DataError(
            f"frame {columns['n'][row]} of {labels[row]!r} is there twice: is a recording in the folder as a copy, too?"
        )
    falls = ~other & (step == 1) & (np.diff(columns["t"][order]) < 0.0)
    if len(fell := np.flatnonzero(falls)):
        row, later = order[fell[0]], order[fell[0] + 1]
        raise DataError(
            f"frame {columns['n'][later]} of {labels[row]!r}: its time is {columns['t'][later]:.3f} s, and that of "
            f"the frame before {columns['t'][row]:.3f} s: are they of two recordings? Leave one of them out"
        )
    cut = other | (step != 1)
    for run in np.split(order, np.flatnonzero(cut) + 1):
        seen, done = align_rows(run, roles.lead or 0)
        known = ~np.isnan(columns["actions"][done]).any(axis=1)  # a policy that waits has none at first
        yield seen[known], done[known]


def _find_stretches(
    rows: IntArray, done: IntArray, columns: dict[str, Any], roles: Roles, blame: int
) -> Iterator[tuple[Demonstration, Stretch, npt.NDArray[np.bool_], int]]:
    """Yield the stretches under an operator in rows that follow each other; `done` are the rows of their actions.

    With each come its blamed frames, so many before every turn of the operator, and the row where its demonstration
    begins.
    """
    acted = columns["who"][done] == OPERATOR
    turns = np.flatnonzero(acted)
    if not len(turns):
        return
    rate = roles.rate
    assert rate is not None
    sequence, numbers = str(columns["sequence"][rows[0]]), columns["n"][rows]
    lead = max(round(LEAD * rate), *Horizon.auto(rate).context_lags)
    group, end = "", -1
    for part in np.split(turns, np.flatnonzero(np.diff(turns) > 1 + TOGETHER * rate) + 1):
        first, last = int(part[0]), int(part[-1])
        begin = max(0, first - lead)
        frames = np.arange(begin, last + 1)
        actions, contexts = columns["actions"][done[frames]], columns["contexts"][rows[frames]]
        digest = hashlib.sha256(repr((sequence, int(numbers[first]))).encode())
        name = digest.hexdigest()[:SHOWN]
        group, end = group if begin <= end else name, last
        own = acted[frames] & (frames >= first)  # of the frames before, others may be of an earlier stretch
        demo = Demonstration(
            contexts=contexts,
            actions=actions,
            rate=rate,
            name=f"{sequence}, frames {numbers[first]} to {numbers[last]}",
            context_names=roles.contexts or (),
            action_names=roles.actions or (),
            group=group,
            group_name="stretch",
            weights=np.repeat(own[:, np.newaxis].astype(np.float64), actions.shape[1], axis=1),
            about=roles.about,
        )
        vars(demo)["digest"] = digest.digest()  # by where it begins: it is known again when more of it is recorded
        before = actions[first - begin - 1] if first > begin else actions[0]
        moved = np.mean(np.abs(actions[own] - before), axis=0)
        turn = part[np.searchsorted(part, frames)]  # the next frame under the operator
        blamed = ~acted[frames] & (turn - frames <= blame)
        came, until = columns["t"][done[[first, last]]].tolist()
        about = Stretch(
            name=name,
            sequence=sequence,
            first=int(numbers[first]),
            last=int(numbers[last]),
            times=(came, until),
            seconds=len(part) / rate,
            correction=tuple(moved.tolist()),
        )
        yield demo, about, blamed, begin


def _watch(rows: IntArray, done: IntArray, columns: dict[str, Any], one: Demonstration) -> Demonstration:
    """Return rows that follow each other as one sequence, given a stretch of it; what the policy did counts."""
    let = columns["who"][done] == POLICY
    contexts, actions = columns["contexts"][rows], columns["actions"][done]
    weights = np.repeat(let[:, np.newaxis].astype(np.float64), actions.shape[1], axis=1)
    name = str(columns["sequence"][rows[0]])
    return replace(one, contexts=contexts, actions=actions, name=name, group=None, weights=weights)
