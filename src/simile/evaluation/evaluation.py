"""Judge a policy by its roll-outs: how accurate, how smooth, how late, with the expert and a baseline beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Literal, Self

import numpy as np

from simile._common import checks, plots
from simile._common.text import cell
from simile._common.typing import FloatArray
from simile.data import losses
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.groups import tell_groups
from simile.data.logs import Log, tell_noise
from simile.data.losses import Loss
from simile.data.motion import measure_motion
from simile.data.recorded import Recorded
from simile.errors import ArgumentError, DataError
from simile.learning.distributed import DistributedDemonstrations, place
from simile.learning.distributed.backend import Backend
from simile.learning.outliers import weigh
from simile.policies.bands import Band, Banded
from simile.policies.fit import Fit
from simile.policies.policies import Policy, timing
from simile.policies.rollouts import Start, open_rollout, rollout
from simile.policies.stages import Stage

# Errors compare a trajectory with the expert's; the expert's own are zero and not shown.
ERRORS: dict[str, Callable[..., FloatArray]] = {
    "rmse": losses.root_mean_squared_error,
    "mae": losses.mean_absolute_error,
    "lag": losses.lag,
    "overshoot": losses.overshoot,
}
WEIGHED = ("rmse", "mae")
# Of the motion, without noise: the orders of differences, per step and per second.
DIFFERENCES = {"difference_1": 1, "difference_2": 2, "difference_3": 3}
PER_SECOND = {"velocity": 1, "acceleration": 2, "jerk": 3}


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
class Evaluation:
    """What `evaluate` measured: a row per sequence, action and metric; prints as a table of means.

    Attributes
    ----------
    rows : tuple of dict
        Keys `sequence`, `action`, `metric`, `policy`, `expert`, `hold_last`, `frames`. A value that does not
        apply is NaN.
    rolled : list of (T, k) arrays
        The roll-outs that were measured; none where they stay with a backend.
    demos : Demonstrations or DistributedDemonstrations
        What the expert did meanwhile.
    doubts : tuple of str
        What does not fit what the policy was trained on: the rate, contexts outside its range in most frames.
    band : BandCheck, optional
        How well the band that was asked for holds.
    """

    rows: tuple[dict[str, Any], ...]
    rolled: list[FloatArray]
    demos: Recorded
    doubts: tuple[str, ...] = ()
    band: BandCheck | None = None

    def mean(self, metric: str, action: str | None = None, *, of: str = "policy") -> float:
        """Return a metric's mean over sequences, weighted by frames; the RMSE is pooled as squares.

        Parameters
        ----------
        metric : str
            A name from the table, for example "rmse".
        action : str, optional
            One action; the mean over all of them by default.
        of : {"policy", "expert", "hold_last"}
            Whose.
        """
        rows = [r for r in self.rows if r["metric"] == metric and action in (None, r["action"])]
        if not rows:
            known = sorted({r["metric"] for r in self.rows})
            raise ArgumentError(f"no metric {metric!r} of action {action!r}; there are {', '.join(known)}")
        values, frames = np.array([r[of] for r in rows]), np.array([r["frames"] for r in rows])
        there = ~np.isnan(values)
        if not there.any():
            return math.nan
        power = 2 if metric == "rmse" else 1
        return float(np.average(values[there] ** power, weights=frames[there]) ** (1.0 / power))

    def plot(self, sequence: int | None = None) -> Any:
        """Draw what the policy did in one sequence beside the expert, and the RMSE of all; a matplotlib figure.

        Parameters
        ----------
        sequence : int, optional
            Which; the one of median error by default.
        """
        if not isinstance(self.demos, Demonstrations):
            raise ArgumentError("demos: roll-outs stay with the backend: evaluate those to be drawn here")
        actions = self.demos.action_names
        found = {(r["sequence"], r["action"]): r["policy"] for r in self.rows if r["metric"] == "rmse"}
        errors = np.array([[found.get((i, a), math.nan) for a in actions] for i in range(len(self.demos))])
        total = errors.sum(axis=1)
        if sequence is None:
            sequence = int(np.argsort(total)[(~np.isnan(total)).sum() // 2])  # sequences too short to judge sort last
        sequence = checks.whole_number(sequence, "sequence", at_most=len(self.demos) - 1)
        demo = self.demos[sequence]
        return plots.trajectories(demo.actions, self.rolled[sequence], actions, demo.rate, demo.name, errors)

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] = "pandas") -> Any:
        """Return the rows as a data frame of "pandas", "polars" or "pyarrow"."""
        import narwhals.stable.v2 as nw

        columns = {key: [row[key] for row in self.rows] for key in self.rows[0]}
        return nw.from_dict(columns, backend=backend).to_native()

    def __str__(self) -> str:
        lines = []
        for action in dict.fromkeys(r["action"] for r in self.rows):
            lines.append(f"{action:24} {'policy':>12} {'expert':>12} {'ratio':>8} {'hold last':>12}")
            for metric in dict.fromkeys(r["metric"] for r in self.rows):
                policy, expert, held = (self.mean(metric, action, of=o) for o in ("policy", "expert", "hold_last"))
                ratio = policy / expert if expert and metric not in ERRORS else math.nan
                lines.append(f"  {metric:22} {cell(policy)} {cell(expert)} {cell(ratio, 8)} {cell(held)}")
        n_sequences = len({r["sequence"] for r in self.rows})
        groups = tell_groups(self.demos.kin, self.demos.group_name)
        lines.append(
            f"means over {n_sequences} sequences{groups} of roll-outs; differences per step; lag in frames, late is "
            "positive"
        )
        unit = "a minute; hold, move in s" if self.demos.rate else "per 1,000 frames; hold, move in frames"
        lines.append(
            f"reversals {unit}; sparc, ldlj: medians over moves; speed, acceleration: 50th and 95th percentile"
        )
        lines += tell_noise(self.demos.action_names, self.demos.logs)
        lines += [] if self.band is None else [str(self.band)]
        lines += [f"note: {doubt}" for doubt in self.doubts]
        return "\n".join(lines)


def evaluate(
    policy: Policy,
    demos: Demonstrations | Demonstration | DistributedDemonstrations,
    *,
    start: Start | Any = None,
    seed: int = 0,
    stages: Stage | Sequence[Stage] = (),
    rate: float | None = None,
    loss: Loss | None = None,
    backend: Backend | None = None,
    band: float | None = None,
) -> Evaluation:
    """Roll a policy out and measure error and smoothness, per sequence and action, beside expert and baseline.

    The frames that the start gives (the expert's first, as many as the policy remembers or aims ahead) are not scored.
    The baseline holds the last of them; a policy that does not beat it has learned nothing.

    Parameters
    ----------
    policy : Policy
        What to judge.
    demos : Demonstrations
        Held-out sequences, if the numbers are to mean anything.
    start, seed, stages, rate
        As for `simile.rollout`.
    loss : Loss, optional
        As for `simile.learn`, for records with outliers: errors are weighted by it, and what an expert's frame that is
        far off is compared with, or measured by, is what lies between the others.
    backend : Backend, optional
        Where the data are, as for `simile.learn`: the policy is rolled out there, and rows of numbers come here.
    band : float, optional
        Level of a band to judge, such as 0.9, as for `simile.rollout`: how much of each sequence it holds, and how wide
        it is, beside one that is always as wide.

    Returns
    -------
    Evaluation
    """
    recorded = weigh(place(demos, backend).foretell(timing(policy)[1]), loss, seed=seed)
    found = recorded.map(_evaluate, recorded.firsts, shared=(policy, start, seed, stages, rate, recorded.logs, band))
    told = recorded.collect(_take, found, shared=(1,))
    rows = [row for some, _, _, _ in told for row in some]
    if not rows:
        raise DataError(
            f"no sequence is longer than the {max(longest for _, longest, _, _ in told)} frames that start the "
            "roll-out: give longer sequences, or start=ColdStart()"
        )
    fit = reduce(add, (fit for _, _, fit, _ in told))
    rolled = recorded.show(recorded.map(_take, found, shared=(0,)))
    held = None
    if band is not None:
        held = BandCheck.of(policy, band, (row for _, _, _, some in told for row in some))
    return Evaluation(tuple(rows), rolled, recorded, fit.doubts(policy.card, recorded.rate), held)


def _evaluate(
    demos: Demonstrations,
    first: int,
    policy: Policy,
    start: Start | Any,
    seed: int,
    stages: Stage | Sequence[Stage],
    rate: float | None,
    logs: Sequence[Log],
    band: float | None,
) -> tuple[list[FloatArray], tuple[list[dict[str, Any]], int, Fit, list[dict[str, Any]]]]:
    """Roll out over a part, whose first sequence has a number; returns rows, the longest start, and how all fits.

    With them come the rows of a band, where one is asked for.
    """
    how: Any = {"start": start, "seed": seed, "stages": stages, "rate": rate, "first": first}
    given = [len(g) for g in open_rollout(policy, demos, start).given]
    rows: list[dict[str, Any]] = []
    checked: list[dict[str, Any]] = []
    if band is None:
        rolled = rollout(policy, demos, **how)
    else:
        banded = rollout(policy, demos, band=band, **how)
        rolled = [one.actions for one in banded]
        for number, (demo, one, n) in enumerate(zip(demos, banded, given, strict=True), first):
            checked += check_band(policy, band, number, demo, one, n)
    for number, (demo, actions, warm_up) in enumerate(zip(demos, rolled, given, strict=True), first):
        if len(demo) <= warm_up:
            continue
        expert = demo.actions[warm_up:]
        held = losses.hold_last_action(demo.actions, warm_up=warm_up)[warm_up:]
        weights = None if demo.weights is None else demo.weights[warm_up:]
        ours, theirs, baseline = (
            _measure(a, expert, weights, logs, demo.rate) for a in (actions[warm_up:], expert, held)
        )
        for name in ours:
            order = (DIFFERENCES | PER_SECOND).get(name)
            kept = np.array([1.0 if order is None else log.kept[order - 1] for log in logs])
            rows.extend(
                {
                    "sequence": number,
                    "name": demo.name,
                    "action": action,
                    "metric": name,
                    "policy": float(ours[name][j]),
                    "expert": math.nan if name in ERRORS else float(kept[j] * theirs[name][j]),
                    "hold_last": float(baseline[name][j]),
                    "frames": len(expert),
                }
                for j, action in enumerate(demos.action_names)
            )
    return rolled, (rows, max(given), Fit.of(policy.card, demos.contexts), checked)


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


def _take(_: Demonstrations, found: tuple[Any, ...], place: int) -> Any:
    return found[place]


def _measure(
    actions: FloatArray,
    expert: FloatArray,
    weights: FloatArray | None,
    logs: Sequence[Log],
    rate: float | None,
) -> dict[str, FloatArray]:
    """Measure one trajectory by every metric, (k,) values each."""
    found = {name: metric(actions, expert) for name, metric in ERRORS.items()}
    if weights is not None:
        found |= {name: ERRORS[name](actions, expert, weights) for name in WEIGHED}
    for names, per in ((DIFFERENCES, None), *([(PER_SECOND, rate)] if rate else [])):
        found |= {name: losses.mean_difference(actions, order=order, rate=per) for name, order in names.items()}
    found["total_variation"] = losses.total_variation(actions)
    found["spectral_arc_length"] = losses.spectral_arc_length(actions, rate=rate or 1.0)
    found["log_dimensionless_jerk"] = losses.log_dimensionless_jerk(actions)
    found["high_frequency_ratio"] = losses.high_frequency_ratio(actions)
    motions = [motion.to_dict() for motion in measure_motion([actions], logs, rate)]
    return found | {name: np.array([m[name] for m in motions]) for name in motions[0]}
