"""How accurate at which smoothness: a whole path of policies, at little more than the cost of one."""

from __future__ import annotations

import itertools
import math
import numbers
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from simile._common import checks, plots
from simile._common.sums import ExactSum
from simile._common.text import count, table
from simile._common.typing import FloatArray
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.losses import Loss
from simile.data.recorded import ActionSpace, Recorded, Units
from simile.data.sanity import check_problems
from simile.data.states import Horizon
from simile.data.timing import Ahead
from simile.errors import ArgumentError
from simile.learning.distributed import DistributedDemonstrations, place
from simile.learning.distributed.backend import Backend
from simile.learning.initial import leave_seen, see_by
from simile.learning.mixture import LEAST_LAG, Choices, Finished, Mixture, standardize
from simile.learning.outliers import weigh
from simile.learning.problem import check_models, match_lag, resolve
from simile.learning.rounds import card_of, note_band
from simile.learning.smoothness import MatchExpert, SmoothTime
from simile.models.regularizers import RegularizerClass
from simile.policies.hold import Hold
from simile.policies.policies import Policy


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
        In the user's units; made when it is first asked for.
    lead : int
        Frames ahead that it acts for; below 0 it waits.
    """

    smoothness: float
    lag: float
    error: float
    roughness: float
    made: Callable[[], Policy] = field(repr=False)
    lead: int = 0

    @cached_property
    def policy(self) -> Policy:
        """The policy, in the user's units."""
        return self.made()


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
    hold: Hold | float | tuple[float, ...] | None = None,
    loss: Loss | None = None,
    seed: int = 0,
    space: ActionSpace | None = None,
    initial: Policy | None = None,
    backend: Backend | None = None,
) -> Frontier:
    """Learn policies of many smoothness values together, as `simile.learn` learns one.

    All models are fitted once, and serve the whole path: what changes is how they are weighed.

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
    model, regularizer, horizon, known, hold, loss, seed, space
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
    check_problems(placed)
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
        units, standard, inside = standardize(recorded, choices)
        mixture = Mixture.fit(standard, inside, order=MatchExpert(metric=metric).order)
        filters = [inside.filter_at(standard, value) for value in _values(standard, inside, smoothness)]
        finished = [
            mixture.finish([mixture.blend(j, filter_) for j in range(recorded.n_actions)]) for filter_ in filters
        ]
        paths.append(make_frontier(finished, recorded, units, choices, metric, begin=max(seen)))
    return replace(paths[0], points=tuple(point for one in paths for point in one.points))


def make_frontier(
    finished: Sequence[Finished],
    demos: Recorded,
    units: Units,
    choices: Choices,
    metric: str = "difference_2",
    *,
    begin: int = 0,
) -> Frontier:
    """Put policies of a mixture side by side; errors count from a frame on."""
    return Frontier(tuple(_point(one, demos, units, choices, begin) for one in finished), metric, demos.rate)


def _point(found: Finished, demos: Recorded, units: Units, choices: Choices, begin: int) -> Point:
    mixture, smoothness, score = found.mixture, float(np.mean(found.filter.smoothness)), found.score
    if begin > mixture.begin(found.filter):
        score = mixture.reference(None, begin).measure(found.rolled)

    def make() -> Policy:
        card = card_of(demos, {"models": choices.models, "smoothness": smoothness, "seed": choices.seed}, choices.seen)
        return found.policy.in_units(units, choices.space, note_band(card, found.band()))

    return Point(smoothness, found.filter.loop.lag, score.error, score.roughness, make, choices.horizon.lead)


def list_leads(lead: float | Sequence[float] | None) -> list[float | None]:
    """Return the leads that were given; None alone where none was."""
    leads: list[float | None] = list(lead) if isinstance(lead, Iterable) else [lead]
    if not leads:
        raise ArgumentError("lead must hold at least one number; got none")
    return leads


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
