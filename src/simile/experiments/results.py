"""A claim of the paper, and what was measured of it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from simile._common.text import plain
from simile.experiments.lab import READINGS, Effort, Lab
from simile.experiments.statistics import Effect, Row, Verdict, conclude, correct, headline

TIME = "cpu_"  # columns whose name begins so depend on the machine


@dataclass(frozen=True)
class Claim:
    """What the paper says, how it is measured, and by which effects it is judged.

    Parameters
    ----------
    name : str
        Names its files.
    title : str
        What is compared.
    statement, section : str
        The paper's own words, and where they stand.
    method : str
        How it is measured, and why so.
    measure : callable
        Makes the rows of one seed; none where these data cannot tell.
    judge : callable
        Makes effects from the rows of all seeds; those with a bound decide.
    trace : callable, optional
        Makes rows of trajectories to draw, of the first seed alone.
    timed : bool
        Whether its verdict rests on CPU times.
    """

    name: str
    title: str
    statement: str
    section: str
    method: str
    measure: Callable[[Lab], list[Row]] = field(repr=False)
    judge: Callable[[Sequence[Row]], list[Effect]] = field(repr=False)
    trace: Callable[[Lab], list[Row]] | None = field(default=None, repr=False)
    timed: bool = False


@dataclass(frozen=True)
class Case:
    """A reading of the paper on the data of a source: a column of the page."""

    reading: str  # "paper" or "authors"
    source: str  # its name

    def __str__(self) -> str:
        return f"{self.source}, {READINGS[self.reading]}"

    @property
    def columns(self) -> Row:
        """What names it in a table."""
        return {"source": self.source, "preset": self.reading}


@dataclass(frozen=True)
class Result:
    """A claim with its numbers in one case. The verdict follows from the effects; see `statistics.Effect.verdict`."""

    claim: Claim
    case: Case
    rows: tuple[Row, ...] = field(repr=False)
    effects: tuple[Effect, ...]
    traces: tuple[Row, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, claim: Claim, case: Case, rows: Sequence[Row], traces: Sequence[Row] = ()) -> Result:
        """Judge a claim by the rows of all seeds, as if it were the only one; `correct_all` mends that."""
        return cls(claim, case, tuple(rows), tuple(claim.judge(rows)), tuple(traces))

    @property
    def name(self) -> str:
        """Name of the claim."""
        return self.claim.name

    @property
    def statement(self) -> str:
        """The paper's sentence, with its place."""
        return f"{self.claim.statement} ({self.claim.section})"

    @property
    def headline(self) -> Effect:
        """The effect that made the verdict."""
        return headline(self.effects)

    @property
    def effect(self) -> float:
        """Mean of the headline effect."""
        return self.headline.mean

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of the headline effect."""
        return self.headline.interval

    @property
    def n_seeds(self) -> int:
        """How many seeds there are."""
        return len({row["seed"] for row in self.rows})

    @property
    def verdict(self) -> Verdict:
        """Whether the claim holds on these data."""
        return conclude(self.effects)

    @property
    def comment(self) -> str:
        """What a reader must know to read the numbers."""
        notes = []
        lost = [e.text for e in self.effects if not all(map(math.isfinite, e.values))]
        if lost:
            notes.append(f"No finite number in every seed for: {'; '.join(lost)}.")
        if self.n_seeds < 2:
            notes.append("One seed has no interval.")
        if self.claim.timed:
            notes.append("CPU times: they depend on the machine and on what else it does.")
        return " ".join(notes)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the rows, as JSON can hold it."""
        return {
            "name": self.name,
            **self.case.columns,
            "title": self.claim.title,
            "statement": self.statement,
            "method": self.claim.method,
            "verdict": str(self.verdict),
            "effect": plain(self.effect),
            "interval": [plain(v) for v in self.interval],
            "n_seeds": self.n_seeds,
            "comment": self.comment,
            "depends_on_machine": self.claim.timed,
            "effects": [
                {
                    "text": e.text,
                    "scale": e.scale,
                    "said": describe_bound(e),
                    "mean": plain(e.mean),
                    "interval": [plain(v) for v in e.interval],
                    "level": plain(e.level),
                    "verdict": None if e.verdict is None else str(e.verdict),
                    "values": [plain(v) for v in e.values],
                }
                for e in self.effects
            ],
        }


def correct_all(results: Sequence[Result]) -> tuple[Result, ...]:
    """Correct the intervals of each case, a column of the page, for the number of its effects with a bound."""
    found = list(results)
    for case in dict.fromkeys(r.case for r in results):
        own = [i for i, r in enumerate(results) if r.case == case]
        corrected = iter(correct([e for i in own for e in results[i].effects]))
        for i in own:
            found[i] = replace(results[i], effects=tuple(next(corrected) for _ in results[i].effects))
    return tuple(found)


@dataclass(frozen=True)
class Results:
    """The results of all claims in all cases, and what they were measured with; prints as a table of verdicts."""

    items: tuple[Result, ...]
    seeds: tuple[int, ...]
    effort: Effort
    sources: Mapping[str, str]  # name: what makes its data
    data: Mapping[str, str]  # source and seed: digest of its training and held-out part
    version: str
    absent: str = ""  # what there are no data for, and the way out

    def __iter__(self) -> Iterator[Result]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, name: str) -> Result:
        """Return the result of a claim by its name, in the first of its cases."""
        return self.of(name)[0]

    def of(self, name: str) -> tuple[Result, ...]:
        """Return the results of a claim in all cases."""
        return tuple(r for r in self.items if r.name == name)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The claims that were measured."""
        return tuple({r.name: r.claim for r in self.items}.values())

    @property
    def cases(self) -> tuple[Case, ...]:
        """The columns: readings side by side, source by source."""
        return tuple(dict.fromkeys(r.case for r in self.items))

    def verdict(self, name: str, case: Case) -> Verdict | None:
        """Return the verdict on a claim in a case; None where its data cannot tell."""
        return next((r.verdict for r in self.items if r.name == name and r.case == case), None)

    def digest(self) -> str:
        """Return the SHA-256 of every number but CPU times: equal seeds must give equal digests."""
        steady = [[r.name, str(r.case), [_without_times(row) for row in (*r.rows, *r.traces)]] for r in self.items]
        return hashlib.sha256(json.dumps(steady, default=str).encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Return results, settings and digests, as JSON can hold them."""
        return {
            "version": self.version,
            "sources": dict(self.sources),
            "absent": self.absent,
            "effort": asdict(self.effort),
            "seeds": list(self.seeds),
            "data": dict(self.data),
            "digest": self.digest(),
            "results": [r.to_dict() for r in self.items],
        }

    def __str__(self) -> str:
        width, wide = max(len(c.name) for c in self.claims), max(18, *(len(str(case)) for case in self.cases))
        lines = [" " * width + "".join(f"  {case!s:{wide}}" for case in self.cases)]
        for claim in self.claims:
            verdicts = (self.verdict(claim.name, case) or "-" for case in self.cases)
            lines.append(f"{claim.name:{width}}" + "".join(f"  {verdict:{wide}}" for verdict in verdicts))
        lines.append(f"seeds {', '.join(map(str, self.seeds))}; corrected 95 % intervals over seeds")
        return "\n".join(line.rstrip() for line in lines)


def format_effect(effect: Effect) -> str:
    """Write mean and interval."""
    low, high = effect.interval
    return f"{format_number(effect.mean)} [{format_number(low)}, {format_number(high)}]"


def describe_bound(effect: Effect) -> str:
    """Write what the paper says of an effect, and so what decides; nothing where it says nothing."""
    if effect.above is not None:
        return f"above {effect.above:g}"
    return f"below {effect.below:g}" if effect.below is not None else ""


def format_number(value: float) -> str:
    """Write a number with three digits, with more where it is close to 1; a dash for none."""
    if math.isnan(value):
        return "-"
    if 0.0 < abs(value - 1.0) < 0.05:
        return f"{value:.3f}"  # on which side of 1 it is must be seen
    return f"{value:.2f}" if 0.095 <= abs(value) < 9.995 or value == 0.0 else f"{value:.3g}"


def _without_times(row: Row) -> Row:
    return {name: value for name, value in row.items() if not name.startswith(TIME)}
