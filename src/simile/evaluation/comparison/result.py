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

from simile._common.files import replacing
from simile._common.text import table
from simile.evaluation.comparison.phrases import phrase_error, phrase_lag, phrase_roughness
from simile.evaluation.comparison.scores import HeldOut, SequenceScore
from simile.evaluation.rivals import HELD

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
    score : SequenceScore
        What it did.
    """

    strength: float
    controller: Any
    validation: float
    knobs: Mapping[str, float]
    score: SequenceScore


@dataclass(frozen=True, eq=False)
class Standing:
    """A contender at the smoothness of the one in question: between two trials, or one of them."""

    score: SequenceScore
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
    found = [(t.validation, Standing(t.score, t)) for t in smooth]
    for one, next_one in pairwise(trials):
        rough, smoother = sorted((one, next_one), key=lambda t: -t.score.roughness)
        if rough.score.roughness > level > smoother.score.roughness > 0.0:
            share = math.log(rough.score.roughness / level) / math.log(rough.score.roughness / smoother.score.roughness)
            validation = (1.0 - share) * rough.validation + share * smoother.validation
            crossing = rough.score.towards(smoother.score, share)
            found.append((validation, Standing(crossing, rough if share < 0.5 else smoother)))
    if found:
        return min(found, key=lambda f: math.inf if math.isnan(f[0]) else f[0])[1]
    smoothest = min(trials, key=lambda t: t.score.roughness)
    return Standing(smoothest.score, smoothest, too_rough=True)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Contenders on the same held-out frames; prints as a table, sorted by error at equal smoothness.

    Attributes
    ----------
    contenders : tuple of Contender
        The first is the one in question: all are compared at its smoothness.
    ruler : HeldOut
        The held-out frames that all were scored on.
    seed : int
        Of the bootstrap.
    new : str
        What is new in the held-out frames: another person, another recording, ...
    """

    contenders: tuple[Contender, ...]
    ruler: HeldOut
    seed: int = 0
    new: str = ""

    def __getitem__(self, name: str) -> Contender:
        """Return a contender by name."""
        return next(c for c in self.contenders if c.name == name)

    @property
    def level(self) -> float:
        """The roughness at which all are compared; NaN where the expert never moves."""
        standing = self.contenders[0].standing
        return math.nan if standing is None else standing.score.roughness

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each contender at equal smoothness, best first.

        Keys: name, kind, error (RMSE in standard deviations), ratio (to the first contender's error), low and high
        (its 95 % interval), rmse of each action in its unit, roughness, reversals and still (means over the actions,
        see `simile.data.motion`), lag (frames), seconds (CPU, to fit), microseconds (CPU, a step), strength and knobs
        of the nearest controller, note.
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
                "reversals": t.score.reversals.tolist(),
                "still": t.score.still.tolist(),
                "lag": t.score.lag,
                "sequences": np.sqrt(t.score.squares.mean(axis=1)).tolist(),
            }
            for c in self.contenders
            for t in c.trials
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, for JSON."""
        return {
            "verdict": self.verdict(),
            "new": self.new,
            "roughness": self.level,
            "sequences": list(self.ruler.scored.names),
            "held_out": self.rows(),
            "frontier": self.points(),
            "frames": self.ruler.scored.n_frames,
            "rate": self.ruler.demos.rate,
            "expert": self.ruler.motion(self.ruler.demos.actions),
        }

    def verdict(self) -> str:
        """Say in words how the first contender did."""
        rows = {row["name"]: row for row in self.rows()}
        ours = rows[self.contenders[0].name]
        if self.contenders[0].standing is None:
            return f"{ours['name']}: {ours['note']}."
        parts = []
        if HELD in rows and ours["name"] != HELD and not math.isnan(rows[HELD]["error"]):
            parts.append(phrase_error(ours["error"], rows[HELD]["error"], "holding the last action"))
        if not math.isnan(ours["roughness"]):
            parts.append(phrase_roughness(ours["roughness"]))
        if not math.isnan(ours["lag"]):
            parts.append(phrase_lag(ours["lag"]))
        lines = [f"{ours['name']}: {', '.join(parts)}."]
        others = [row for row in self.rows() if row["name"] not in (ours["name"], HELD) and not row["note"]]
        for kind in ("rival", "reduction"):
            best = next((row for row in others if row["kind"] == kind), None)
            if best is not None and not math.isnan(best["ratio"]):
                lines.append(_phrase_duel(ours["name"], best, f"best {kind}"))
        return " ".join([*lines, *self.waiting()])

    def waiting(self) -> list[str]:
        """Say in words what each other lead is worth at equal smoothness."""
        rows = {row["name"]: row for row in self.rows()}
        waits = [rows[c.name] for c in self.contenders if c.kind == "waiting" and c.standing is not None]
        return [_phrase_waiting(row) for row in waits if not math.isnan(row["ratio"])]

    def __str__(self) -> str:
        rows, names = self.rows(), [c.name for c in self.contenders]
        units = list(self.ruler.demos.action_names) if self.ruler.demos.n_actions <= 2 else []
        columns = [("", 0, "<"), ("error", 9, ".4f"), (f"over {names[0]}", 9, ".3f"), ("95 % interval", 9, ">")]
        columns += [(f"RMSE {u}", 9, ".4g") for u in units]
        columns += [(head, 9, ".3g") for head in ("roughness", "reversals", "still", "lag", "fit (s)", "step (us)")]
        rest = [*(f"rmse {u}" for u in units), "roughness", "reversals", "still", "lag", "seconds", "microseconds"]
        cells = []
        for row in rows:
            interval = "-" if math.isnan(row["low"]) else f"{row['low']:.3f}-{row['high']:.3f}"
            note = f"  {row['note']}" if row["note"] else ""
            cells.append([row["name"], row["error"], row["ratio"], interval, *(row[key] for key in rest), note])
        lines = table(columns, cells)
        level = f", at most {self.level:.3g} times as rough as the expert, like {names[0]}"
        lines += [
            f"roll-outs of {len(self.ruler.scored)} held-out sequences{f' ({self.new})' if self.new else ''}"
            f"{'' if math.isnan(self.level) else level};",
            "error: RMSE in standard deviations of the expert's actions; roughness: mean |second difference|, 1 is the",
            f"expert's; {self.ruler.describe_expert()};",
            "lag in frames; fit, step: CPU time",
        ]
        return "\n".join(lines)

    def plot(self) -> Any:
        """Draw the frontiers, error over roughness; returns a matplotlib figure."""
        from simile.evaluation.comparison.drawing import draw

        return draw(self)

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
        standing, reference = contender.standing, self.contenders[0].standing
        kind = {"kind": contender.kind, "microseconds": contender.microseconds}
        if standing is None or reference is None:
            missing = dict.fromkeys(("ratio", "low", "high", "strength"), math.nan)
            note = contender.trouble or "nothing to compare with"
            row = self.ruler.row(contender.name, None, contender.seconds)
            return {**row, **kind, **missing, "knobs": {}, "note": note}
        ratio, low, high = standing.score.over(reference.score, self.seed)
        if contender is self.contenders[0]:
            low = high = math.nan
        return {
            **self.ruler.row(contender.name, standing.score, contender.seconds),
            **kind,
            "ratio": ratio,
            "low": low,
            "high": high,
            "strength": standing.nearest.strength,
            "knobs": dict(standing.nearest.knobs),
            "note": "rougher" if standing.too_rough else "",
        }


def _rank(row: dict[str, Any]) -> tuple[bool, bool, float]:
    """Sort by error; after all others what is too rough to be compared, and last what failed."""
    return math.isnan(row["error"]), bool(row["note"]), row["error"]


def _phrase_duel(name: str, other: dict[str, Any], what: str) -> str:
    """Say whether another contender is better, worse, or cannot be told apart."""
    sure = not math.isnan(other["low"])
    interval = f" (95 % interval {other['low']:.2f} to {other['high']:.2f})" if sure else ""
    if sure and other["low"] > 1.0:
        end = f"{name} is better"
    elif sure and other["high"] < 1.0:
        end = f"{other['name']} is better"
    else:
        end = "these sequences do not tell them apart"
    return (
        f"At equal smoothness the {what}, {other['name']}, has {other['ratio']:.2f} times its error{interval}: {end}."
    )


def _phrase_waiting(row: dict[str, Any]) -> str:
    """Say what another lead is worth.

    >>> _phrase_waiting({"name": "learn, 0.5 s of waiting", "ratio": 0.958, "low": 0.94, "high": 0.98, "note": ""})
    'At equal smoothness 0.5 s of waiting: 4.2 % closer (95 % interval of the ratio 0.94 to 0.98).'
    """
    much = f"{100.0 * abs(1.0 - row['ratio']):.1f} % {'closer' if row['ratio'] <= 1.0 else 'farther'}"
    found = f" (95 % interval of the ratio {row['low']:.2f} to {row['high']:.2f})" if row["low"] == row["low"] else ""
    unsure = ", which these sequences do not tell from chance" if row["low"] <= 1.0 <= row["high"] else ""
    where = f"At {row['roughness']:.2f} times the roughness" if row["note"] else "At equal smoothness"
    return f"{where} {row['name'].removeprefix('learn, ')}: {much}{found}{unsure}."
