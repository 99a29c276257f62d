"""What a comparison found: a frontier for every contender, and where each stands at equal smoothness."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from simile._common import plots
from simile._common.files import replacing
from simile._common.text import count, table
from simile.data.reference import Reference
from simile.evaluation.evaluation import tell_row
from simile.evaluation.rivals import HELD
from simile.learning.frontier import time_scale
from simile.learning.verdict import Verdict, compare_errors, reach_verdict, tell_reversals
from simile.metrics import Estimate, Score, Tally

EQUAL = 1.01  # roughness within one per cent is the same


@dataclass(frozen=True, eq=False)
class Trial:
    """One controller of a contender, judged on the held-out sequences.

    Attributes
    ----------
    strength : float
        How smooth, in the contender's own measure (lambda of a reduction, frames of a filter).
    controller
        What acted.
    validation : float
        Mean squared error on which its knobs were chosen, in standard units.
    knobs : mapping
        What was chosen.
    tally : Tally
        What it did.
    """

    strength: float
    controller: Any
    validation: float
    knobs: Mapping[str, float]
    tally: Tally

    @cached_property
    def score(self) -> Score:
        """Error and roughness of all recordings."""
        return self.tally.score


@dataclass(frozen=True, eq=False)
class Standing:
    """A contender at the smoothness of the one in question: between two trials, or one of them."""

    tally: Tally
    nearest: Trial
    too_rough: bool = False  # no trial is as smooth: it is judged at its smoothest


@dataclass(frozen=True, eq=False)
class Contender:
    """A contender: its trials from rough to smooth, and where it stands; no trials where it failed.

    Attributes
    ----------
    name : str
    kind : {"reduction", "waiting", "rival"}
        An algorithm; `learn` with another lead; or built by hand.
    trials : tuple of Trial
    seconds : float
        CPU time to tune and fit all its controllers.
    trouble : str
        What went wrong, where something did.
    chosen : Trial, optional
        The one it would ship, where it chooses by itself.
    standing : Standing, optional
    microseconds : float
        CPU time of one step online.
    """

    name: str
    kind: str
    trials: tuple[Trial, ...]
    seconds: float
    trouble: str = ""
    chosen: Trial | None = None
    standing: Standing | None = None
    microseconds: float = math.nan


def stand(trials: Sequence[Trial], level: float) -> Standing | None:
    """Judge a path at a roughness: the most accurate, as validation says, of what is at most so rough.

    Errors are interpolated, on log scales, where the path crosses the level. A path that is smoother from end to
    end is judged at its most accurate trial; one that nowhere gets so smooth at its smoothest, and marked. Where the
    expert never moves there is no roughness, and all trials count.
    """
    if not trials:
        return None
    smooth = [t for t in trials if not t.score.roughness > level * EQUAL]
    found = [(t.validation, Standing(t.tally, t)) for t in smooth]
    for one, next_one in pairwise(trials):
        rough, smoother = sorted((one, next_one), key=lambda t: -t.score.roughness)
        if rough.score.roughness > level > smoother.score.roughness > 0.0:
            share = math.log(rough.score.roughness / level) / math.log(rough.score.roughness / smoother.score.roughness)
            validation = (1.0 - share) * rough.validation + share * smoother.validation
            crossing = rough.tally.between(smoother.tally, share)
            found.append((validation, Standing(crossing, rough if share < 0.5 else smoother)))
    if found:
        return min(found, key=lambda f: math.inf if math.isnan(f[0]) else f[0])[1]
    smoothest = min(trials, key=lambda t: t.score.roughness)
    return Standing(smoothest.tally, smoothest, too_rough=True)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Contenders on the same held-out frames; prints as a table, sorted by error at equal smoothness, and in words.

    Attributes
    ----------
    contenders : tuple of Contender
        The first is the one in question: all are compared at its smoothness.
    reference : Reference
        The held-out frames that all were measured on.
    held : Tally
        What holding the last action does there.
    new : str
        What is new in the held-out frames: another person, another recording, ...
    """

    contenders: tuple[Contender, ...]
    reference: Reference
    held: Tally
    new: str = ""

    def __getitem__(self, name: str) -> Contender:
        """Return a contender by name."""
        return next(c for c in self.contenders if c.name == name)

    @property
    def level(self) -> float:
        """The roughness at which all are compared; NaN where the expert never moves."""
        standing = self.contenders[0].standing
        return math.nan if standing is None else standing.tally.score.roughness

    @property
    def recordings(self) -> int:
        """How many recordings judge: those that are long enough."""
        return int(self.held.weights.any(axis=1).sum())

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each contender at equal smoothness, best first.

        Keys: those of `Evaluation.rows`, and kind, ratio (to the first contender's error), low and high (its 95 %
        interval; NaN of fewer than six recordings), microseconds (CPU, a step), strength and knobs of the nearest
        controller, note.
        """
        return [dict(row) for row in self._sorted]

    def points(self) -> list[dict[str, Any]]:
        """Return a row for each controller of every contender: the frontiers, rough to smooth."""
        return [
            {
                "name": c.name,
                "strength": t.strength,
                "knobs": dict(t.knobs),
                "validation": math.sqrt(t.validation),
                "error": t.score.rmse,
                "roughness": t.score.roughness,
                "lag": t.tally.lag,
            }
            for c in self.contenders
            for t in c.trials
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, for JSON."""
        demos = self.reference.demos
        return {
            "verdict": None if self.verdict is None else self.verdict.to_dict(),
            "said": self.tell(),
            "new": self.new,
            "recordings": self.recordings,
            "held_out": self.rows(),
            "frontier": self.points(),
            "rate": demos.rate,
        }

    @cached_property
    def verdict(self) -> Verdict | None:
        """What is said of the first contender, beside the best rival at equal smoothness; None where it failed."""
        if (standing := self.contenders[0].standing) is None:
            return None
        demos = self.reference.demos
        rival = self._best("rival")
        other = None if rival is None else self[rival].standing
        return reach_verdict(
            standing.tally,
            self.held,
            None if other is None else other.tally,
            actions=demos.action_names,
            scale=self.reference.scale,
            kin=demos.kin,
            rate=demos.rate,
            baseline=f"the best rival at equal smoothness ({rival})",
            new=self.new,
            pace=time_scale(demos),
        )

    def tell(self) -> str:
        """Say in words how the first contender did, beside the best other reduction, and what waiting would buy."""
        name = self.contenders[0].name
        if self.verdict is None:
            return f"{name}: {next(row['note'] for row in self.rows() if row['name'] == name)}."
        said, best = [f"{name}: {self.verdict}"], self._best("reduction")
        if best is not None and not math.isnan((found := self._over(self[best])).value):
            said.append(f"At equal smoothness the best other reduction, {best}, has {_phrase_duel(name, best, found)}.")
        waits = [c for c in self.contenders if c.kind == "waiting" and c.standing is not None]
        return " ".join([*said, *(_phrase_waiting(c.name, self._over(c)) for c in waits)])

    def _best(self, kind: str) -> str | None:
        """Return the name of the best other contender of a kind at equal smoothness."""
        ours = self.contenders[0].name
        others = (r for r in self._sorted if r["kind"] == kind and r["name"] not in (ours, HELD) and not r["note"])
        return next((str(r["name"]) for r in others), None)

    def _over(self, contender: Contender) -> Estimate:
        """Return the error of a contender over that of the first, both where they stand."""
        first, kin = self.contenders[0].standing, self.reference.demos.kin
        if first is None or contender.standing is None:
            return Estimate(math.nan)
        return compare_errors(contender.standing.tally.grouped(kin), first.tally.grouped(kin))

    def __str__(self) -> str:
        rows, demos, name = self.rows(), self.reference.demos, self.contenders[0].name
        units = list(demos.action_names) if demos.n_actions <= 2 else []
        sure = any(not math.isnan(row["low"]) for row in rows)
        columns = [("", 0, "<"), ("error", 9, ".4f"), (f"over {name}", 9, ".3f")]
        columns += [("95 % interval", 9, ">")] if sure else []
        columns += [(f"RMSE {u}", 9, ".4g") for u in units]
        columns += [(head, 9, ".3g") for head in ("roughness", "reversals", "rest", "lag", "fit (s)", "step (us)")]
        rest = [*(f"rmse {u}" for u in units), "roughness", "reversals", "rest", "lag", "seconds", "microseconds"]
        cells = []
        for row in rows:
            interval = ["-" if math.isnan(row["low"]) else f"{row['low']:.3f}-{row['high']:.3f}"] if sure else []
            note = f"  {row['note']}" if row["note"] else ""
            cells.append([row["name"], row["error"], row["ratio"], *interval, *(row[key] for key in rest), note])
        lines = table(columns, cells)
        level = f", at most {self.level:.3g} times as rough as the expert, like {name}"
        turns, rests = (float(np.mean(some[1])) for some in (self.held.turn_rates(demos.rate), self.held.rest_shares))
        lines += [
            f"roll-outs over {self.recordings} held-out recordings{f' ({self.new})' if self.new else ''}, without the "
            f"first {count(self.reference.begin, 'frame')} of each"
            f"{'' if math.isnan(self.level) else level};",
            "error: RMSE in standard deviations of the expert's actions; roughness: mean |second difference|, 1 is the",
            f"expert's; reversals {tell_reversals(demos.rate)}, the expert's {turns:.3g}; rest: share of time, the "
            f"expert's {rests:.2g};",
            "lag in frames; fit, step: CPU time",
            "",
            self.tell(),
        ]
        return "\n".join(lines)

    def plot(self) -> Any:
        """Draw the frontiers, error over roughness; returns a matplotlib figure."""
        moving = {c.name: [t.score for t in c.trials if t.score.roughness > 0.0] for c in self.contenders}
        paths = [(name, some) for name, some in moving.items() if some and name != HELD]
        own = self.contenders[0].standing
        return plots.frontier(paths, None if own is None else own.tally.score, "where all are compared")

    def draw(self, path: str | os.PathLike[str]) -> None:
        """Draw the frontiers to an image file."""
        import matplotlib.pyplot as plt

        figure = self.plot()
        with replacing(path) as file:
            figure.savefig(file, format=Path(path).suffix.removeprefix(".") or None)
        plt.close(figure)

    @cached_property
    def _sorted(self) -> list[dict[str, Any]]:
        return sorted((self._row(c) for c in self.contenders), key=_rank)

    def _row(self, contender: Contender) -> dict[str, Any]:
        standing, demos = contender.standing, self.reference.demos
        kind = {"kind": contender.kind, "microseconds": contender.microseconds}
        if standing is None:
            missing = ("error", "roughness", "reversals", "rest", "lag", "ratio", "low", "high", "strength")
            nothing = dict.fromkeys([f"rmse {a}" for a in demos.action_names] + list(missing), math.nan)
            note = contender.trouble or "nothing to compare with"
            return {"name": contender.name, **nothing, "seconds": contender.seconds, **kind, "knobs": {}, "note": note}
        over = Estimate(1.0) if contender is self.contenders[0] else self._over(contender)
        scale = np.broadcast_to(self.reference.scale, (demos.n_actions,))
        return {
            **tell_row(contender.name, standing.tally, demos.action_names, scale, demos.rate, contender.seconds),
            **kind,
            "ratio": over.value,
            "low": over.low,
            "high": over.high,
            "strength": standing.nearest.strength,
            "knobs": dict(standing.nearest.knobs),
            "note": "rougher" if standing.too_rough else "",
        }


def _rank(row: dict[str, Any]) -> tuple[bool, bool, float]:
    """Sort by error; after all others what is too rough to be compared, and last what failed."""
    return math.isnan(row["error"]), bool(row["note"]), row["error"]


def _phrase_duel(name: str, other: str, found: Estimate) -> str:
    """Say whether another contender is better, worse, or cannot be told apart.

    >>> _phrase_duel("learn", "paper", Estimate(1.2, 1.1, 1.3))
    '1.20 times its error (95 % interval 1.10 to 1.30): learn is better'
    """
    interval = f" (95 % interval {found.low:.2f} to {found.high:.2f})" if found.is_sure else ""
    end = "these recordings do not tell them apart"
    if found.is_sure and not found.holds(1.0):
        end = f"{name if found.value > 1.0 else other} is better"
    return f"{found.value:.2f} times its error{interval}: {end}"


def _phrase_waiting(name: str, found: Estimate) -> str:
    """Say what another lead is worth.

    >>> _phrase_waiting("learn, 0.5 s of waiting", Estimate(0.958, 0.94, 0.98))
    'At equal smoothness 0.5 s of waiting: 4.2 % closer (95 % interval of the ratio 0.94 to 0.98).'
    """
    much = f"{100.0 * abs(1.0 - found.value):.1f} % {'closer' if found.value <= 1.0 else 'farther off'}"
    interval = f" (95 % interval of the ratio {found.low:.2f} to {found.high:.2f})" if found.is_sure else ""
    unsure = "" if found.is_sure and not found.holds(1.0) else ", which may be chance"
    return f"At equal smoothness {name.removeprefix('learn, ')}: {much}{interval}{unsure}."
