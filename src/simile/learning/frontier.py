"""How accurate at which smoothness: a whole path of policies, at little more than the cost of one."""

from __future__ import annotations

import itertools
import math
import numbers
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from simile._common import checks, plots
from simile._common.sums import ExactSum
from simile._common.text import count, table
from simile._common.typing import FloatArray
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.groups import draw_sequences
from simile.data.losses import Loss
from simile.data.recorded import ActionSpace, Recorded
from simile.data.states import Horizon
from simile.data.timing import Ahead
from simile.errors import ArgumentError
from simile.learning.crossfit import GATE, Choices, Mixed, crossfit, mix
from simile.learning.distributed import DistributedDemonstrations, place
from simile.learning.distributed.backend import Backend
from simile.learning.feedback import Feedback
from simile.learning.holds import COST, Backlash, Habits
from simile.learning.initial import leave_seen, see_by
from simile.learning.outliers import weigh
from simile.learning.problem import check_models, match_lag, resolve
from simile.learning.rounds import card_of, note_band
from simile.learning.smoothness import MatchExpert, SmoothTime
from simile.metrics import Score
from simile.models import SmoothForest
from simile.models.neural import TorchRegressor
from simile.models.regularizers import RegularizerClass
from simile.models.ridge import RolloutRidge
from simile.policies.hold import Hold
from simile.policies.policies import Policy

LEAST_LAG = 0.5  # frames: hardly any smoothing
MOST_SCOUTED, FEWEST_SCOUTED = 300_000, 40  # frames that tell about smoothness, and sequences even so
N_SCOUTS, N_TREES, N_ROWS = 6, 16, 5_000  # values of lambda, and what the models spend, to find the right one

SLOWER = (1.25, 1.6, 2.0, 2.5)  # times the lag of the filter alone, to try with a hysteresis
CLEAR = 0.01  # of the squared error, by which a smoother policy is better than one that uses all of the budget
STEEP, N_HALVINGS = 3.0, 4  # ratio of roughness over which to interpolate, and steps that lead there


@dataclass(frozen=True, eq=False)
class Point:
    """One policy of a path, judged by roll-outs of sequences that its models have not seen.

    Attributes
    ----------
    smoothness : float
        lambda.
    lag : float
        Frames by which the closed loop lags a resting input.
    error : float
        Mean squared error in standard units.
    roughness : float
        Mean absolute difference over the expert's, 1 being as rough.
    policy : Policy
        In the user's units.
    lead : int
        Frames ahead that it acts for; below 0 it waits.
    """

    smoothness: float
    lag: float
    error: float
    roughness: float
    policy: Policy
    lead: int = 0


@dataclass(frozen=True, eq=False)
class Frontier:
    """Policies from rough to smooth, for one lead or for several one after the other, to print, draw and pick from."""

    points: tuple[Point, ...]
    metric: str
    rate: float | None

    @property
    def leads(self) -> tuple[int, ...]:
        """The leads (frames) that there are, in their order."""
        return tuple(dict.fromkeys(p.lead for p in self.points))

    def only(self, lead: int) -> Frontier:
        """Return the policies with this lead (frames)."""
        found = tuple(p for p in self.points if p.lead == lead)
        if not found:
            raise ArgumentError(f"lead must be one of this path, {', '.join(map(str, self.leads))} frames; got {lead}")
        return replace(self, points=found)

    def at(self, *, roughness: float) -> Point:
        """Return the most accurate policy that is at most so many times as rough as the expert."""
        roughness = checks.number(roughness, "roughness", above=0.0)
        smooth = [p for p in self.points if not p.roughness > roughness]  # NaN: an expert who never moves
        if not smooth:
            smoothest = min(self.points, key=lambda p: p.roughness)
            raise ArgumentError(
                f"roughness must be at least {smoothest.roughness:.3g}, that of the smoothest policy of this path; got "
                f"{roughness:g}: give path a larger smoothness"
            )
        return min(smooth, key=lambda p: p.error)

    def knee(self) -> Point:
        """Return the policy after which more smoothness begins to cost: the one farthest below the line of the ends.

        Of several leads it is that of the one nearest to 0.
        """
        points = self.only(min(self.leads, key=abs)).points
        rough, error = ([max(getattr(p, name), 1e-12) for p in points] for name in ("roughness", "error"))
        depth = depths(rough, error)
        return min(points, key=lambda p: p.error) if depth is None else points[int(np.argmax(depth))]

    def rows(self) -> list[dict[str, float]]:
        """Return smoothness, lag (frames), RMSE in standard deviations and roughness of every point, and its lead."""
        return [
            {"smoothness": p.smoothness, "lag": p.lag, "rmse": math.sqrt(p.error), "roughness": p.roughness}
            | ({"lead": p.lead} if len(self.leads) > 1 else {})
            for p in self.points
        ]

    def waiting(self, *, roughness: float | None = None) -> list[dict[str, float]]:
        """Return what each lead (frames) is worth, all as smooth: the RMSE, and that over the one nearest to 0.

        Parameters
        ----------
        roughness : float, optional
            Where they are compared; by default as rough as the expert, or as the smoothest that all of them reach. What
            lies between policies is interpolated.
        """
        paths = [self.only(lead).points for lead in self.leads]
        if roughness is None:
            roughness = max(1.0, *(min(p.roughness for p in some) for some in paths))
        found = [math.sqrt(_error_at(some, roughness)) for some in paths]
        base = found[self.leads.index(min(self.leads, key=abs))]
        return [
            {"lead": lead, "rmse": rmse, "ratio": rmse / base if base else math.nan, "roughness": roughness}
            for lead, rmse in zip(self.leads, found, strict=True)
        ]

    def __str__(self) -> str:
        lag, knee, several = "lag (frames)" if self.rate is None else "lag (s)", self.knee(), len(self.leads) > 1
        columns = ((lag, 9, ".3g"), ("RMSE", 10, ".4f"), ("roughness", 10, ".3f"))
        lead = (("lead (frames)" if self.rate is None else "lead (s)", 9, ".3g"),) if several else ()
        per = self.rate or 1.0
        lines = table(
            (*lead, ("smoothness", 12, ".4g"), *columns),
            (
                (
                    *((p.lead / per,) if several else ()),
                    *(p.smoothness, p.lag / per, math.sqrt(p.error), p.roughness, "  <- knee" * (p is knee)),
                )
                for p in self.points
            ),
        )
        lines.append(
            f"RMSE in standard deviations of the expert's actions, roughness ({self.metric}) as a multiple of the "
            "expert's; roll-outs of sequences that were left out"
        )
        if several:
            rows = self.waiting()
            lines += ["", *table((*lead, *columns[1:]), ((r["lead"] / per, r["rmse"], r["roughness"]) for r in rows))]
            lines += tell_waiting(rows, self.rate)
        return "\n".join(lines)

    def plot(self) -> Any:
        """Draw error over roughness, a line for each lead; returns a matplotlib figure."""
        return plots.frontier([(self._name(lead), self.only(lead).points) for lead in self.leads], self.knee())

    def _name(self, lead: int) -> str:
        """Name a line of a drawing."""
        if len(self.leads) == 1:
            return ""
        return name_delay(lead, self.rate)


def tell_waiting(rows: Sequence[Mapping[str, float]], rate: float | None) -> list[str]:
    """Say in words what each lead is worth (`Frontier.waiting`).

    >>> tell_waiting([{"lead": 0, "ratio": 1.0}, {"lead": -15, "ratio": 0.958}, {"lead": 3, "ratio": 1.03}], 30.0)
    ['0.5 s of waiting: 4.2 % closer', '0.1 s of aiming ahead: 3.0 % farther']
    """
    base = min((int(row["lead"]) for row in rows), key=abs, default=0)
    worth = {int(row["lead"]): row["ratio"] - 1.0 for row in rows if math.isfinite(row["ratio"])}
    return [
        f"{name_delay(lead, rate)}: {100.0 * abs(more):.1f} % {'farther' if more > 0.0 else 'closer'}"
        for lead, more in worth.items()
        if lead != base
    ]


def name_delay(lead: int, rate: float | None) -> str:
    """Name a lead.

    >>> name_delay(-15, 30.0), name_delay(2, None), name_delay(0, 30.0)
    ('0.5 s of waiting', '2 frames of aiming ahead', 'no waiting')
    """
    if lead == 0:
        return "no waiting"
    long = count(abs(lead), "frame") if rate is None else f"{abs(lead) / rate:.3g} s"
    return f"{long} of {'waiting' if lead < 0 else 'aiming ahead'}"


def _error_at(points: Sequence[Point], roughness: float) -> float:
    """Return the least error at which policies are so rough at most: of one of them, or between two, on log scales."""
    found = [p.error for p in points if not p.roughness > roughness]
    for one, other in itertools.pairwise(sorted(points, key=lambda p: p.roughness)):
        if 0.0 < one.roughness <= roughness < other.roughness and min(one.error, other.error) > 0.0:
            share = math.log(roughness / one.roughness) / math.log(other.roughness / one.roughness)
            found.append(one.error ** (1.0 - share) * other.error**share)
    return min(found, default=math.nan)


def depths(roughness: Sequence[float], error: Sequence[float]) -> FloatArray | None:
    """Return how far each point lies below the line of the ends, on log scales; None where there is no such line."""
    x, y = np.log(roughness), np.log(error)
    if len(x) < 3 or not np.isfinite(x).all() or x[0] == x[-1]:
        return None
    below: FloatArray = y[0] + (y[-1] - y[0]) * (x - x[0]) / (x[-1] - x[0]) - y
    return below


def path(
    demos: Demonstrations | Demonstration | DistributedDemonstrations,
    *,
    smoothness: int | Sequence[float | SmoothTime] = 8,
    metric: str = "difference_2",
    model: Any = None,
    regularizer: RegularizerClass | None = None,
    horizon: Horizon | None = None,
    lead: float | Sequence[float] | None = None,
    known: Ahead | None = None,
    feedback: Feedback | None = None,
    hold: Hold | float | tuple[float, ...] | None = None,
    loss: Loss | None = None,
    seed: int = 0,
    space: ActionSpace | None = None,
    initial: Policy | None = None,
    backend: Backend | None = None,
) -> Frontier:
    """Learn policies of many smoothness values together, as `simile.learn` learns one.

    Bins, folds and states are shared, and one forest serves the whole path: its trees are grown once, with a value
    for every lambda in each leaf. A policy learned at one lambda alone may be a little better than that of the path.

    Parameters
    ----------
    demos : Demonstrations
        What to learn from.
    smoothness : int or sequence
        How many values, from hardly any smoothing to a filter about as slow as the expert; or the values, each
        lambda or `SmoothTime(seconds)`.
    metric : {"difference_1", "difference_2", "difference_3"}
        What roughness means, as for `MatchExpert`.
    lead : float or sequence of float, optional
        As for `simile.learn`. Several, such as `(0, -0.5, -1)`, make a path for each, judged over the same frames: what
        waiting would buy, or what a late actuator costs.
    model, regularizer, horizon, known, feedback, hold, loss, seed, space
        As for `simile.learn`.
    initial : Policy, optional
        What to go on from, as for `simile.learn`; behind the filter of each smoothness.
    backend : Backend, optional
        Where the data are, as for `simile.learn`.

    Returns
    -------
    Frontier

    Examples
    --------
    >>> from simile import tasks
    >>> frontier = path(tasks.pursuit(n_sequences=4, length=200), smoothness=(3.0, 30.0))
    >>> [p.smoothness for p in frontier.points]
    [3.0, 30.0]
    """
    placed = place(demos, backend)
    views = [see_by(placed, horizon, one, known, initial) for one in list_leads(lead)]
    seen = {around.lead: (told, around) for told, around in views}
    paths: list[Frontier] = []
    for told, around in seen.values():
        recorded = weigh(told, loss, seed=seed)
        choices = Choices.of(
            recorded,
            model=model,
            regularizer=regularizer,
            horizon=around,
            feedback=feedback,
            hold=hold,
            loss=loss,
            seed=seed,
            space=space,
            initial=initial,
        )
        if not paths:
            for note in check_models(recorded, choices.models, choices.horizon):
                warnings.warn(note, stacklevel=2)
        if initial is not None:
            recorded, left_out = leave_seen(initial.card.training, recorded)
            if left_out:
                warnings.warn(left_out, stacklevel=2)
        paths.append(trace(recorded, choices, smoothness, MatchExpert(metric=metric), begin=max(seen)))
    return replace(paths[0], points=tuple(point for one in paths for point in one.points))


def list_leads(lead: float | Sequence[float] | None) -> list[float | None]:
    """Return the leads that were given; None alone where none was."""
    leads: list[float | None] = list(lead) if isinstance(lead, Iterable) else [lead]
    if not leads:
        raise ArgumentError("lead must hold at least one number; got none")
    return leads


def trace(
    demos: Recorded,
    choices: Choices,
    smoothness: int | Sequence[float | SmoothTime],
    match: MatchExpert,
    *,
    begin: int = 0,
) -> Frontier:
    """Fit a path with choices that have been checked; `match` tells what roughness means, frames count from `begin`."""
    units = choices.units(demos)
    standard = demos.standardize(units)
    mixtures = _fit_path(standard, choices.standardize(units), _values(standard, choices, smoothness))
    points = tuple(_point(mixed, demos, choices, match, begin=begin) for mixed in mixtures)
    return Frontier(points, match.metric, demos.rate)


def _fit_path(standard: Recorded, choices: Choices, values: Sequence[float]) -> list[Mixed]:
    *_, mixtures = crossfit(standard, choices, [choices.lane(standard, value) for value in values])
    return mixtures


def _point(
    mixed: Mixed, demos: Recorded, choices: Choices, match: MatchExpert, *, banded: bool = True, begin: int = 0
) -> Point:
    lane, held = mixed.lane, mixed.completed(choices)
    score, smoothness = held.score(order=match.order, begin=begin), float(np.mean(lane.smoothness))
    card = card_of(demos, {"models": choices.models, "smoothness": smoothness, "seed": choices.seed}, choices.seen)
    policy = held.policy.in_units(choices.units(demos), choices.space, note_band(card, held.band() if banded else None))
    return Point(smoothness, lane.loop.lag, score.error, score.roughness, policy, choices.horizon.lead)


@dataclass(frozen=True)
class Match:
    """What was chosen for each action.

    Attributes
    ----------
    smoothness : float or tuple of float
        lambda.
    stepping : tuple of bool
        Whether it steps, or glides.
    aim : tuple of float
        How far ahead f aims, for an action that glides.
    scarce : tuple of float
        What smoothness is worth when policies are mixed: the square of the share of the budget that is used.
    """

    smoothness: float | tuple[float, ...]
    stepping: tuple[bool, ...]
    aim: tuple[float, ...]
    scarce: tuple[float, ...]


def match_expert(demos: Recorded, choices: Choices, match: MatchExpert) -> tuple[Match, Frontier]:
    """Choose, for each action, lambda and the way to hold with which policies are as rough as asked for.

    A path of light models, returned too, finds them; the policy itself is then learned at that lambda alone.
    """
    units = choices.units(demos)
    some = draw_sequences(demos.lengths, MOST_SCOUTED, choices.seed, at_least=FEWEST_SCOUTED)
    standard = (demos if len(some) == len(demos) else demos.where(some)).standardize(units)
    light = replace(choices.standardize(units), models=tuple(_light(m) for m in choices.models))
    scouts = Scouts(standard, light, match, _fit_path(standard, light, _values(standard, light, N_SCOUTS)))
    lags, holds, scarce = zip(*(scouts.choose(j) for j in range(demos.n_actions)), strict=True)
    found = tuple(match_lag(standard, choices.regularizer, lag) for lag in lags)
    stepping, ahead = tuple(o.stepping for o in holds), tuple(0.0 if o.stepping else o.width for o in holds)
    bounded = replace(light, space=choices.space)
    points = tuple(_point(mixed, demos, bounded, match, banded=False) for mixed in scouts.mixtures)
    tried = Frontier(points, match.metric, demos.rate)
    return Match(found[0] if len(set(found)) == 1 else found, stepping, ahead, scarce), tried


@dataclass(eq=False)
class Scouts:
    """Light policies from rough to smooth, by which the filter of each action is chosen."""

    demos: Recorded  # in standard units
    choices: Choices
    match: MatchExpert
    mixtures: list[Mixed]

    def choose(self, action: int) -> tuple[float, Backlash, float]:
        """Return the lag of the filter of an action, the hysteresis behind it, and how scarce smoothness is.

        Where the policy alone is as rough as asked for, or smoother if that is more accurate; and then what is more
        accurate, and no rougher, with a hysteresis behind it that keeps the expert's habits.
        """
        begin, folds = self.mixtures[0].lane.loop.order, self.mixtures[0].folds
        habits = Habits(folds.looked, action, begin, self.match.order)
        ratio = float(self.match.ratios(self.demos.n_actions)[action])
        alone = self._match(habits, ratio)
        plain = habits.reference.measure(self._roll(habits, alone))
        scarce = min(1.0, plain.roughness / ratio) ** 2 if math.isfinite(plain.roughness) else 1.0
        if (own := self.choices.hold) is not None:
            return alone, Backlash(float(own.width[action]), bool(own.stepping[action])), scarce
        first = habits.choose(self._roll(habits, alone), plain.roughness)
        if first.width == 0.0:
            return alone, first, scarce
        # What steps may have to be slower to be as smooth, and be more accurate even so.
        slowest = max(self.mixtures[-1].lane.loop.lag, alone)
        lags = [lag for factor in SLOWER if (lag := alone * factor) <= slowest]
        others = [(lag, habits.choose(self._roll(habits, lag), plain.roughness)) for lag in lags]
        good = [o for o in others if not (o[1].roughness > plain.roughness or o[1].error > COST * plain.error)]
        return (*min([(alone, first), *good], key=lambda o: (not o[1].kept, o[1].error)), scarce)

    def _match(self, habits: Habits, ratio: float) -> float:
        """Return the lag at which an action is `ratio` times as rough as the expert's, or more if that is better."""
        scores = self._score(habits)
        longest = int(self.demos.lengths.max())
        while self.mixtures[-1].lane.loop.lag < longest and (
            scores[-1].roughness > ratio or scores[-1].error < (1.0 - GATE) * min(s.error for s in scores[:-1])
        ):
            lags = self.mixtures[-1].lane.loop.lag * np.geomspace(1.0, 8.0, 3)[1:]
            self._send(lags.tolist())
            scores = self._score(habits)
        rough, error = (np.array([getattr(s, n) for s in scores]) for n in ("roughness", "error"))
        lags = np.array([m.lane.loop.lag for m in self.mixtures])
        if not (rough <= ratio).any():  # too much was asked for; or nothing, where the expert never moves
            return float(lags[np.argmin(error if np.isnan(rough).all() else rough)])
        best = int(np.argmin(np.where(rough <= ratio, error, np.inf)))
        if best == 0 or rough[best - 1] <= ratio or error[best] < (1.0 - CLEAR) * error[best - 1]:
            return float(lags[best])
        # The budget binds: between the last policy that is too rough and the first that is not.
        for _ in range(N_HALVINGS):
            if rough[best - 1] < STEEP * rough[best]:
                share = math.log(rough[best - 1] / ratio) / math.log(rough[best - 1] / rough[best])
                return float(lags[best - 1] ** (1.0 - share) * lags[best] ** share)
            self._send([math.sqrt(lags[best - 1] * lags[best])])
            rough = np.array([s.roughness for s in self._score(habits)])
            lags = np.array([m.lane.loop.lag for m in self.mixtures])
            best += int(rough[best] > ratio)
        return float(lags[best])  # it jumps

    def _send(self, lags: Sequence[float]) -> None:
        """Fit further policies, with filters of these lags."""
        values = [match_lag(self.demos, self.choices.regularizer, lag) for lag in lags]
        self.mixtures += _fit_path(self.demos, self.choices, values)
        self.mixtures.sort(key=lambda m: m.lane.loop.lag)

    def _score(self, habits: Habits) -> list[Score]:
        return [habits.reference.measure(habits.pick(m.looked)) for m in self.mixtures]

    def _roll(self, habits: Habits, lag: float) -> list[FloatArray]:
        """Return about what a policy with a filter of this lag does with an action: between its neighbours."""
        lags = np.log([max(m.lane.loop.lag, LEAST_LAG / 10.0) for m in self.mixtures])
        at = int(np.clip(np.searchsorted(lags, math.log(max(lag, LEAST_LAG / 10.0))), 1, len(lags) - 1))
        share = float(np.clip((math.log(max(lag, LEAST_LAG / 10.0)) - lags[at - 1]) / (lags[at] - lags[at - 1]), 0, 1))
        slower, faster = (habits.pick(self.mixtures[i].looked) for i in (at, at - 1))
        return list(mix(slower, faster, share))


def _light(model: Any) -> Any:
    """Return a recipe that tells as much about smoothness in less time."""
    recipe = getattr(model, "recipe", model)  # of a model with checkpoints, which are for the fits that take time
    if isinstance(recipe, SmoothForest):
        return replace(recipe, n_trees=min(recipe.n_trees, N_TREES))
    if isinstance(recipe, RolloutRidge):
        return replace(recipe, rows=min(recipe.rows, N_ROWS), alphas=recipe.alphas[1::2] or recipe.alphas)
    if isinstance(recipe, TorchRegressor):
        return recipe.light()
    return recipe


def _values(demos: Recorded, choices: Choices, given: int | Sequence[float | SmoothTime]) -> list[float]:
    """Return the lambda of a path, ascending; lags are spread evenly over scales where only their number is given."""
    if isinstance(given, numbers.Real):
        n = checks.whole_number(given, "smoothness", at_least=1)
        slowest = max(4.0 * LEAST_LAG, time_scale(demos) / 3.0)
        lags = np.geomspace(LEAST_LAG, slowest, n)
        return [match_lag(demos, choices.regularizer, float(lag)) for lag in lags]
    if not isinstance(given, Iterable):
        raise ArgumentError(
            f"smoothness must be how many values, or a list of them; got {given!r}: write [{given!r}] for one"
        )
    values = [
        resolve(demos, s, choices.regularizer)
        if isinstance(s, SmoothTime)
        else checks.number(s, "smoothness", at_least=0.0)
        for s in given
    ]
    if not values:
        raise ArgumentError("smoothness must hold at least one value; got none")
    return sorted(set(values))


def time_scale(demos: Recorded) -> float:
    """Return the frames in which the expert, at the mean speed, moves by one standard deviation of the actions."""
    total, moves = demos.total(_sum_moves).value
    squares, _ = demos.total(_sum_moves, shared=(total / demos.n_frames,)).value
    spread, n = np.sqrt(squares / demos.n_frames), max(demos.n_frames - len(demos), 1)
    speed = np.array([log.kept[0] for log in demos.logs]) * moves / n  # without noise
    moving = speed > 0.0
    return float(np.mean(spread[moving] / speed[moving])) if moving.any() else 1.0


@np.errstate(over="ignore", invalid="ignore")
def _sum_moves(demos: Demonstrations, center: FloatArray | None = None) -> ExactSum:
    """Sum actions, or their squares about a center, and absolute moves, (2, k)."""
    found = [
        [(a if center is None else (a - center) ** 2).sum(axis=0), np.abs(np.diff(a, axis=0)).sum(axis=0)]
        for a in demos.actions
    ]
    return ExactSum.of(np.array(found))
