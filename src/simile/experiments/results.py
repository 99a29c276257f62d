"""A claim of the paper, and what was measured of it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from simile._common.text import plain
from simile.experiments.lab import Effort, Lab
from simile.experiments.statistics import Effect, Row, Verdict, conclude, headline

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
        Makes the rows of one seed.
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
class Result:
    """A claim with its numbers. The verdict follows from the effects; see `statistics.Effect.verdict`."""

    claim: Claim
    rows: tuple[Row, ...] = field(repr=False)
    effects: tuple[Effect, ...]
    traces: tuple[Row, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, claim: Claim, rows: Sequence[Row], traces: Sequence[Row] = ()) -> Result:
        """Judge a claim by the rows of all seeds."""
        return cls(claim, tuple(rows), tuple(claim.judge(rows)), tuple(traces))

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
        """95 % interval of the headline effect."""
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
                    "verdict": None if e.verdict is None else str(e.verdict),
                    "values": [plain(v) for v in e.values],
                }
                for e in self.effects
            ],
        }


@dataclass(frozen=True)
class Results:
    """The results of all claims, and what they were measured with; prints as a table of verdicts."""

    items: tuple[Result, ...]
    seeds: tuple[int, ...]
    effort: Effort
    source: str
    data: Mapping[int, str]  # seed: digest of its training and held-out part
    version: str

    def __iter__(self) -> Iterator[Result]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, name: str) -> Result:
        """Return the result of a claim by its name."""
        return next(r for r in self.items if r.name == name)

    def digest(self) -> str:
        """Return the SHA-256 of every number but CPU times: equal seeds must give equal digests."""
        steady = [[r.name, [_without_times(row) for row in (*r.rows, *r.traces)]] for r in self.items]
        return hashlib.sha256(json.dumps(steady, default=str).encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Return results, settings and digests, as JSON can hold them."""
        return {
            "version": self.version,
            "source": self.source,
            "effort": asdict(self.effort),
            "seeds": list(self.seeds),
            "data": {str(seed): digest for seed, digest in self.data.items()},
            "digest": self.digest(),
            "results": [r.to_dict() for r in self.items],
        }

    def __str__(self) -> str:
        width = max(len(r.name) for r in self.items)
        lines = [
            f"{r.name:{width}}  {r.verdict:18}  {format_effect(r.headline)}  {r.headline.text}" for r in self.items
        ]
        lines.append(f"{self.source}, seeds {', '.join(map(str, self.seeds))}; mean and 95 % interval over seeds")
        return "\n".join(lines)


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
