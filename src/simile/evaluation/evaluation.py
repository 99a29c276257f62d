"""Judge a policy by its roll-outs, beside the expert, the held action and a baseline: numbers, and one verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import Any, Literal, Self

import numpy as np

from simile._common import checks, plots
from simile._common.needs import need
from simile._common.text import cell, count, table
from simile._common.typing import FloatArray
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.groups import tell_groups
from simile.data.logs import Log, tell_noise
from simile.data.losses import Loss
from simile.data.preparation import Preparation
from simile.data.recorded import Recorded
from simile.data.reference import Reference, tally_rollouts
from simile.errors import ArgumentError, DataError, DivergedError
from simile.evaluation.plants import Episodes, Plant, run_plant
from simile.evaluation.rivals.controllers import HELD, Held, roll_out
from simile.learning.distributed import DistributedDemonstrations, place
from simile.learning.distributed.backend import Backend
from simile.learning.frontier import time_scale
from simile.learning.initial import find_new
from simile.learning.judged import Judged
from simile.learning.outliers import weigh
from simile.learning.verdict import EXPERT, Verdict, reach_verdict, tell_reversals
from simile.metrics import Tally
from simile.policies.bands import Band, Banded
from simile.policies.fit import Fit
from simile.policies.policies import Policy, timing
from simile.policies.rollouts import ExpertStart, Start, open_rollout, rollout
from simile.policies.stages import Stage

POLICY, SIMPLE = "policy", "best simple filter"  # names in a table


@dataclass(frozen=True, eq=False)
class BandCheck:
    """How well the band of a policy holds: a row per sequence and action; prints as means over sequences.

    Attributes
    ----------
    level : float
        What was asked for.
    rows : tuple of dict
        Keys `sequence`, `name`, `action`, `metric`, `coverage` (share of the frames in which the expert is within the
        band), `width`, `constant_coverage` and `constant_width` (of the band that is always as wide), `unsure` (share).
        Frames count by their weight, as they do where the band is measured; where none counts there is no row.
    said : str
        What can be relied on, see `Band.tell`.
    """

    level: float
    rows: tuple[dict[str, Any], ...]
    said: str

    @classmethod
    def of(cls, policy: Policy, level: float, rows: Iterable[dict[str, Any]]) -> Self:
        """Put the rows of all sequences together."""
        return cls(level, tuple(rows), Band.of(policy).tell(level))

    def mean(self, what: str, action: str | None = None) -> float:
        """Return the mean over sequences, in which each counts the same; NaN where there are none."""
        found = [row[what] for row in self.rows if action in (None, row["action"])]
        return float(np.mean(found)) if found else math.nan

    def __str__(self) -> str:
        if not self.rows:
            return f"band {self.level:g}: no frame counts, so that nothing is known of it; {self.said}"
        lines = [f"{f'band {self.level:g}':24} {'coverage':>12} {'width':>12} {'constant':>12} {'its width':>12}"]
        columns = ("coverage", "width", "constant_coverage", "constant_width")
        actions = dict.fromkeys(row["action"] for row in self.rows)
        lines += [f"  {action:22} " + " ".join(cell(self.mean(what, action)) for what in columns) for action in actions]
        lines.append(f"means over sequences; unsure in {self.mean('unsure'):.1%} of the frames; {self.said}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Entry:
    """Who acted, and what came of it.

    Attributes
    ----------
    name : str
        In a table.
    rolled : list of (T, k) arrays
        Roll-outs, NaN where one diverged; where a backend has the data they stay with it, as it keeps them.
    tally : Tally
        What is told of them, summed over each recording.
    seconds : float
        CPU time of the fit.
    """

    name: str
    rolled: Any
    tally: Tally
    seconds: float = math.nan

    @property
    def diverged(self) -> int:
        """In how many recordings the roll-out diverged."""
        return int(np.isnan(self.tally.squares).any(axis=1).sum())


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What `evaluate` measured; prints as a table and the verdict.

    Attributes
    ----------
    verdict : Verdict
        What is said of the policy: numbers, their intervals, and sentences.
    entries : tuple of Entry
        The policy in question, others beside it, and last the held action.
    demos : Demonstrations or DistributedDemonstrations
        What the expert did meanwhile.
    scale : (k,) array
        Standard deviations of the actions that the policy was trained on, the unit of the column "error".
    begin : int
        How many first frames are the expert's: they do not count.
    logs : tuple of Log
        By which noise is told from motion: what the policy's card says of its training, or else of all of `demos`.
    baseline : str
        What the second entry is called in the verdict; "" where it is none to be compared with.
    doubts : tuple of str
        What does not fit what the policy was trained on: the rate, contexts outside its range in most frames.
    band : BandCheck, optional
        How well the band that was asked for holds.
    learned_from : int
        How many of the recordings the policy was learned from.
    new : str
        What is new in the others, where that is known.
    judged : Judged, optional
        What a run did over recordings that its parts had not seen, where it is that.
    at_work : Episodes, optional
        What the policy and the expert did in a plant, and what it cost, where there was one.
    """

    entries: tuple[Entry, ...]
    demos: Recorded
    scale: FloatArray
    begin: int
    logs: tuple[Log, ...]
    baseline: str = ""
    doubts: tuple[str, ...] = ()
    band: BandCheck | None = None
    learned_from: int = 0
    new: str = ""
    judged: Judged | None = None
    at_work: Episodes | None = None

    @classmethod
    def of(cls, judged: Judged) -> Self:
        """Put what a run did over recordings that its parts had not seen into a table."""
        played = {POLICY: judged.rolled, SIMPLE: judged.simple, HELD: judged.held}
        entries = tuple(
            Entry(who, rolled, judged.reference.tally(rolled)) for who, rolled in played.items() if rolled is not None
        )
        about = judged.scale, judged.begin, judged.logs, "" if judged.simple is None else "the best simple filter"
        return cls(entries, judged.demos, *about, new=judged.new, judged=judged)

    @cached_property
    def verdict(self) -> Verdict:
        """What is said of the policy."""
        if self.judged is not None:
            return self.judged.verdict
        ours, held = self.entries[0], self.entries[-1]
        return reach_verdict(
            ours.tally,
            held.tally,
            self.entries[1].tally if self.baseline else None,
            actions=self.demos.action_names,
            scale=self.scale,
            kin=self.demos.kin,
            rate=self.demos.rate,
            baseline=self.baseline,
            learned_from=self.learned_from,
            new=self.new,
            pace=time_scale(self.demos),
            at_work=None if self.at_work is None else self.at_work.summary,
        )

    @property
    def rolled(self) -> list[FloatArray]:
        """The roll-outs of the policy, (T, k) each; none where they stay with a backend."""
        return self.demos.show(self.entries[0].rolled)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each entry, best first.

        Keys: name, rmse of each action in its unit, error (of all actions, each in standard deviations), roughness (1:
        the expert's), reversals and rest (means over the actions), lag (frames), seconds (CPU, to fit).
        """
        rate, actions = self.demos.rate, self.demos.action_names
        found = [tell_row(e.name, e.tally, actions, self.scale, rate, e.seconds) for e in self.entries]
        return sorted(found, key=lambda row: (math.isnan(row["error"]), row["error"]))

    def recordings(self) -> list[dict[str, Any]]:
        """Return a row for each recording and action: what the policy did, and the expert."""
        ours, held, rows = self.entries[0].tally, self.entries[-1].tally, []
        for i, name in enumerate(self.demos.names):
            one, (turns, rests) = ours[[i]], (ours[[i]].turn_rates(self.demos.rate), ours[[i]].rest_shares)
            for j, action in enumerate(self.demos.action_names):
                row = {
                    "recording": name,
                    "action": action,
                    "frames": int(one.frames[0, j]),
                    "rmse": one.rmse(self.scale)[j],
                    "hold_last": held[[i]].rmse(self.scale)[j],
                    "roughness": one.roughness[j],
                    "lag": one.lags[j],
                    "reversals": turns[0, j],
                    "expert_reversals": turns[1, j],
                    "rest": rests[0, j],
                    "expert_rest": rests[1, j],
                }
                rows.append(
                    {key: value if isinstance(value, str | int) else float(value) for key, value in row.items()}
                )
        return rows

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] = "pandas") -> Any:
        """Return `recordings` as a data frame of "pandas", "polars" or "pyarrow"."""
        rows = self.recordings()
        columns = {key: [row[key] for row in rows] for key in rows[0]}
        if backend == "polars":
            import polars as pl

            return pl.DataFrame(columns)
        library = need(backend, "to_frame")
        return library.table(columns) if backend == "pyarrow" else library.DataFrame(columns)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data, for JSON."""
        return {
            "verdict": self.verdict.to_dict(),
            "held_out": self.rows(),
            "recordings": self.recordings(),
            **({} if self.band is None else {"band": list(self.band.rows)}),
            "doubts": list(self.doubts),
        }

    def add(self, name: str, policy: Policy) -> Self:
        """Roll another policy out over the same frames, for the table alone."""
        return replace(self, entries=(*self.entries[:-1], self.roll(policy, name), self.entries[-1]))

    def roll(self, policy: Policy, name: str = "") -> Entry:
        """Roll another policy out over the same frames, and measure it by the same logs."""
        rolled = self.demos.map(_roll, self.demos.firsts, shared=(policy, {"start": ExpertStart(self.begin)}))
        return Entry(
            name, rolled, tally_rollouts(self.demos, rolled, scale=self.scale, begin=self.begin, logs=self.logs)
        )

    @property
    def reference(self) -> Reference:
        """What everything is measured against; refused where the data stay with a backend."""
        if not isinstance(self.demos, Demonstrations):
            raise ArgumentError("demos: roll-outs stay with the backend: evaluate those to be drawn here")
        return Reference(self.demos, self.scale, self.begin, logs=self.logs)

    def plot(self, sequence: int | None = None) -> Any:
        """Draw what the policy did in one sequence beside the expert, and the RMSE of all; a matplotlib figure.

        Parameters
        ----------
        sequence : int, optional
            Which; the one of median error by default.
        """
        demos = self.reference.demos
        errors = np.array([self.entries[0].tally[[i]].rmse(self.scale) for i in range(len(demos))])
        total = errors.sum(axis=1)
        if sequence is None:
            sequence = int(np.argsort(total)[(~np.isnan(total)).sum() // 2])  # sequences too short to judge sort last
        sequence = checks.whole_number(sequence, "sequence", at_most=len(demos) - 1)
        demo = demos[sequence]
        return plots.trajectories(demo.actions, self.rolled[sequence], demos.action_names, demo.rate, demo.name, errors)

    def __repr__(self) -> str:
        return f"Evaluation({self.verdict.headline!r})"

    def __str__(self) -> str:
        actions, rate, ours = self.demos.action_names, self.demos.rate, self.entries[0].tally
        keys = ["name", *(f"rmse {a}" for a in actions), "roughness", "reversals", "rest", "lag", "seconds"]
        heads = [*(f"RMSE {a}" for a in actions), "roughness", "reversals", "rest", "lag", "fit (s)"]
        nothing = dict.fromkeys(keys, math.nan)
        turns, rests = (float(np.mean(both[1])) for both in (ours.turn_rates(rate), ours.rest_shares))
        rows = [{**nothing, "name": EXPERT, "roughness": 1.0, "reversals": turns, "rest": rests}, *self.rows()]
        if all(math.isnan(row["seconds"]) for row in rows):
            keys, heads = keys[:-1], heads[:-1]
        lines = table(
            [("", 0, "<"), *((head, 9, ".4g") for head in heads)], ([row[key] for key in keys] for row in rows)
        )
        counted = int(ours.weights.any(axis=1).sum())
        first = f", without the first {count(self.begin, 'frame')} of each" if self.begin else ""
        lines += [
            f"roll-outs over {count(counted, 'recording')}{tell_groups(self.demos.kin, self.demos.group_name)}{first};",
            f"roughness: mean |second difference| over {EXPERT}'s; reversals {tell_reversals(rate)}; rest: share of "
            "time; lag: frames late",
            "",
            str(self.verdict),
        ]
        lines += tell_noise(actions, self.logs)
        lines += [] if self.band is None else [str(self.band)]
        lines += [f"note: {doubt}" for doubt in self.doubts]
        return "\n".join(lines)


def tell_row(
    name: str, tally: Tally, actions: Sequence[str], scale: FloatArray, rate: float | None, seconds: float = math.nan
) -> dict[str, Any]:
    """Return the row of a table, as `Evaluation.rows` describes it."""
    score = tally.score
    return {
        "name": name,
        **{f"rmse {a}": float(value) for a, value in zip(actions, tally.rmse(scale), strict=True)},
        "error": score.rmse,
        "roughness": score.roughness,
        "reversals": float(np.mean(tally.turn_rates(rate)[0])),
        "rest": float(np.mean(tally.rest_shares[0])),
        "lag": tally.lag,
        "seconds": seconds,
    }


def evaluate(
    policy: Policy,
    demos: Demonstrations | Demonstration | DistributedDemonstrations | None = None,
    *,
    plant: Plant | None = None,
    episodes: int = 8,
    baseline: Policy | None = None,
    start: Start | Any = None,
    seed: int = 0,
    stages: Stage | Sequence[Stage] = (),
    rate: float | None = None,
    loss: Loss | None = None,
    backend: Backend | None = None,
    band: float | None = None,
) -> Evaluation:
    """Roll a policy out over recordings, and say how accurate, how smooth, how late and how like the expert it is.

    Recordings cannot show what happens where contexts follow from the action, as a position or an error does: there the
    policy's own mistakes come back. With a `plant` the policy acts in it too, by `simile.Predictor` as it does at work,
    and the verdict begins with what that costs, beside what the expert costs in the same episodes.

    The frames that the start gives (the expert's first, as many as the policy remembers or aims ahead) are not scored.
    The last of them, held, is what every policy must beat. What the log is like, noise and resolution, is taken from
    the policy's card, so that one recording and all of them are judged by the same measure.

    Parameters
    ----------
    policy : Policy
        What to judge.
    demos : Demonstrations, optional
        Held-out recordings, if the numbers are to mean anything. With a plant, by default what its expert does there.
    plant : Plant, optional
        What the policy acts on: any object with `reset(seed)`, which returns the first context; `step(action)`, which
        returns the next one, None after the last, and what the frame cost; and, to compare with, `expert()`, which
        returns what the expert would do now. Contexts are arrays in the order of training, or mappings by name, of
        which the policy takes what it knows. Costs are summed over an episode; smaller is better.
    episodes : int
        How many episodes in the plant; their seeds are `seed`, `seed` + 1, ...: choose others than those learned from.
    baseline : Policy, optional
        What it is compared with: `run.baseline` is the best simple filter on the same data.
    start, seed, stages, rate
        As for `simile.rollout`; those of the policy alone.
    loss : Loss, optional
        As for `simile.learn`, for records with outliers: errors are weighted by it, and what an expert's frame that is
        far off is compared with, or measured by, is what lies between the others.
    backend : Backend, optional
        Where the data are, as for `simile.learn`: the policy is rolled out there, and numbers come here.
    band : float, optional
        Level of a band to judge, such as 0.9, as for `simile.rollout`: how much of each sequence it holds, and how wide
        it is, beside one that is always as wide.

    Returns
    -------
    Evaluation
        With `verdict`, a table of all (`rows`), and of each recording (`recordings`, `to_frame`).

    Examples
    --------
    >>> import simile

    A tank, whose level follows from the valve, and a person who holds it at 3 m:

    >>> class Tank:
    ...     def reset(self, seed):
    ...         self.inflow = 5.0 + np.random.default_rng(seed).normal(size=300).cumsum() / 5.0
    ...         self.level, self.valve, self.frame = 3.0, 5.0, 0
    ...         return {"inflow": self.inflow[0], "level": self.level}
    ...
    ...     def expert(self):
    ...         return [self.valve + 0.3 * (self.inflow[self.frame] + self.level - 3.0 - self.valve)]
    ...
    ...     def step(self, action):
    ...         self.valve = action[0]
    ...         self.level += 0.1 * (self.inflow[self.frame] - self.valve)
    ...         self.frame += 1
    ...         context = {"inflow": self.inflow[self.frame], "level": self.level}
    ...         return context if self.frame < 299 else None, abs(self.level - 3.0)
    >>> from simile.evaluation.plants import record
    >>> demos = record(Tank(), episodes=8)
    >>> policy = simile.learn(demos, model=simile.Ridge()).policy
    >>> print(evaluate(policy, plant=Tank(), seed=100).verdict.at_work.finding)
    At work in the plant (8 episodes) it costs 1.00 times what the expert does (1.00 to 1.00).
    """
    how: dict[str, Any] = {"start": start, "seed": seed, "stages": stages, "rate": rate}
    at_work = None
    if plant is not None:
        at_work = run_plant(policy, plant, episodes, **how)
        demos = at_work.record(policy) if demos is None else demos
    if demos is None:
        raise ArgumentError("demos: give recordings, or a plant with a method expert(), which makes them")
    given = place(demos, backend)
    if policy.card.preparation not in (Preparation(), given.preparation):
        given = given.convert(Demonstrations.prepare, shared=(policy.card.preparation,))
    recorded = weigh(given.foretell(timing(policy)[1]), loss, seed=seed)
    begin = max(recorded.collect(_count_given, shared=(policy, start)))
    if not (recorded.lengths > begin).any():
        raise DataError(
            f"no sequence is longer than the {begin} frames that start the roll-out: give longer sequences, or "
            "start=ColdStart()"
        )
    logs = policy.card.logs(recorded.n_actions) or recorded.logs
    played = {POLICY: recorded.map(_roll, recorded.firsts, shared=(policy, how, band))}
    held = None
    if band is not None:
        checked = recorded.collect(_check_bands, recorded.firsts, played[POLICY], shared=(policy, band, begin))
        held = BandCheck.of(policy, band, (row for some in checked for row in some))
        played[POLICY] = recorded.map(_bare, played[POLICY])
    name = ""
    if baseline is not None:
        simple = "rival" in baseline.card.training.get("settings", {})
        name, label = ("the best simple filter", SIMPLE) if simple else ("the baseline", "baseline")
        played[label] = recorded.map(_roll, recorded.firsts, shared=(baseline, {"start": ExpertStart(begin)}))
    played[HELD] = recorded.map(_hold, shared=(begin,))
    scale = policy.units.scale
    entries = [
        Entry(who, rolled, tally_rollouts(recorded, rolled, scale=scale, begin=begin, logs=logs))
        for who, rolled in played.items()
    ]
    fit = reduce(add, recorded.collect(_fit, shared=(policy,)))
    doubts, seen = fit.doubts(policy.card, recorded.rate), len(given) - len(find_new(policy.card.training, given))
    return Evaluation(tuple(entries), recorded, scale, begin, logs, name, doubts, held, seen, at_work=at_work)


def check_band(
    policy: Policy, level: float, number: int, demo: Demonstration, banded: Banded, begin: int
) -> list[dict[str, Any]]:
    """Measure how well a band holds in one sequence from a frame on, a row for each action that counts there.

    What the band holds that is always as wide stands beside.
    """
    half = Band.of(policy).half(level) * policy.units.scale
    later = slice(begin, None)
    expert = demo.actions[later]
    within = (banded.low[later] <= expert) & (expert <= banded.high[later])
    close = np.abs(expert - banded.actions[later]) <= half
    weights = np.ones_like(expert) if demo.weights is None else demo.weights[later]

    def average(values: Any, j: int) -> float:
        return float(np.average(values, weights=weights[:, j]))

    return [
        {
            "sequence": number,
            "name": demo.name,
            "action": action,
            "metric": "band",
            "coverage": average(within[:, j], j),
            "width": average(banded.width[later, j], j),
            "constant_coverage": average(close[:, j], j),
            "constant_width": float(2.0 * half[j]),
            "unsure": average(banded.unsure[later], j),
        }
        for j, action in enumerate(demo.action_names)
        if weights[:, j].any()
    ]


def roll_each(controller: Any, demos: Demonstrations, frames: int) -> list[FloatArray]:
    """Roll a policy, or a controller of the rivals, out after so many frames of the expert; NaN where one diverges."""
    try:
        return roll_out(controller, demos, frames)
    except DivergedError:
        if len(demos) > 1:
            return [roll_each(controller, Demonstrations((demo,)), frames)[0] for demo in demos]
    return [_lose(demos.actions[0], frames)]


# What runs where a part of the data is.


def _roll(demos: Demonstrations, first: int, policy: Policy, how: dict[str, Any], band: float | None = None) -> Any:
    """Roll out over a part, whose first sequence has a number; a sequence in which the policy diverges is NaN."""
    try:
        return rollout(policy, demos, first=first, band=band, **how)
    except DivergedError:
        if len(demos) > 1:
            each = (Demonstrations((demo,)) for demo in demos)
            return [_roll(one, number, policy, how, band)[0] for number, one in enumerate(each, first)]
    return [_lose(demos.actions[0], _count_given(demos, policy, how["start"]))]


def _lose(expert: FloatArray, frames: int) -> FloatArray:
    """Return what is left of a roll-out that diverged."""
    lost = np.full_like(expert, math.nan)
    lost[:frames] = expert[:frames]
    return lost


def _hold(demos: Demonstrations, begin: int) -> list[FloatArray]:
    return Held().rollout(demos, frames=begin)


def _bare(_: Demonstrations, banded: Sequence[Any]) -> list[FloatArray]:
    return [one.actions if isinstance(one, Banded) else one for one in banded]


def _check_bands(
    demos: Demonstrations, first: int, banded: Sequence[Any], policy: Policy, level: float, begin: int
) -> list[dict[str, Any]]:
    """Measure a band in all sequences of a part that are long enough, and in which it did not diverge."""
    rows: list[dict[str, Any]] = []
    for number, (demo, one) in enumerate(zip(demos, banded, strict=True), first):
        if len(demo) > begin and isinstance(one, Banded):
            rows += check_band(policy, level, number, demo, one, begin)
    return rows


def _count_given(demos: Demonstrations, policy: Policy, start: Start | Any) -> int:
    return max(len(given) for given in open_rollout(policy, demos, start).given)


def _fit(demos: Demonstrations, policy: Policy) -> Fit:
    return Fit.of(policy.card, demos.contexts)
