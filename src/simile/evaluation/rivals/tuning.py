"""Fitting rivals: every knob is chosen on the validation part, by roll-outs, for each strength of the filter."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Protocol, runtime_checkable

import numpy as np

from simile._common.typing import Trajectories
from simile.data.demonstrations import Demonstrations
from simile.data.recorded import Units
from simile.data.reference import Reference
from simile.data.timing import Known
from simile.errors import ArgumentError, DataError, DivergedError
from simile.evaluation.rivals.controllers import HELD, Filtered, Held, filter_after_expert, forecast, put_behind
from simile.evaluation.rivals.filters import Filter, Follower
from simile.evaluation.rivals.predictors import Source, lead_source
from simile.metrics import Score
from simile.policies.policies import SmoothPolicy
from simile.policies.rollouts import ExpertStart, rollout

# Frames that a filter remembers: from none at all to several seconds of video.
STRENGTHS = (0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 18.0, 27.0, 40.0, 60.0, 100.0, 200.0)
SCORED_AFTER = 10  # frames that the expert acts in every roll-out that tunes, the memory of the longest contender

Filters = Callable[[float], tuple[Filter, ...]]  # all filters of one strength that are to be tried


@dataclass(frozen=True, eq=False)
class Point:
    """One controller of a family.

    Attributes
    ----------
    strength : float
        How smooth, in the family's own measure.
    controller : Policy, Filtered or Held
        What acts; fitted on training and validation part together.
    validation, roughness : float
        Mean squared error, in standard units, and roughness of the roll-outs that chose the knobs; NaN where there
        were none.
    knobs : mapping
        What was chosen for this strength.
    """

    strength: float
    controller: Any
    validation: float = math.nan
    knobs: Mapping[str, float] = field(default_factory=dict)
    roughness: float = math.nan


@dataclass(frozen=True, eq=False)
class Family:
    """A contender: controllers from rough to smooth; without points where it failed, and `trouble` says how."""

    name: str
    points: tuple[Point, ...]
    seconds: float  # CPU time to tune and fit them all
    trouble: str = ""
    chosen: Point | None = None  # the point it would ship, where it chooses by itself

    def at(self, roughness: float) -> Point:
        """Return the most accurate point that is at most so rough, as validation says, or else the smoothest."""
        smooth = [p for p in self.points if p.roughness <= roughness]
        return min(smooth, key=lambda p: p.validation) if smooth else min(self.points, key=lambda p: p.roughness)


@dataclass(frozen=True, eq=False)
class Bench:
    """The data that rivals are fitted and tuned on, and what several of them share.

    Parameters
    ----------
    train, validation : Demonstrations
        Predictors are fitted on the one and knobs chosen on the other; without a validation part, on the same, which
        flatters rough controllers.
    seed : int
        Same seed, same rivals.
    lead, known
        Those of `Horizon`, in frames: rivals may wait, must aim ahead, and know what comes, as ours.
    """

    train: Demonstrations
    validation: Demonstrations | None = None
    seed: int = 0
    lead: int = 0
    known: Known = ()
    _made: dict[Any, tuple[Any, float]] = field(default_factory=dict, repr=False)

    @property
    def begin(self) -> int:
        """How many first frames are the expert's in every roll-out that tunes."""
        return max(SCORED_AFTER, self.lead)

    @property
    def tuned_on(self) -> Demonstrations:
        """What knobs are chosen on."""
        return self.train if self.validation is None else self.validation

    @property
    def everything(self) -> Demonstrations:
        """Training and validation part together: what a rival is fitted on once its knobs are chosen."""
        return self.train if self.validation is None else Demonstrations((*self.train, *self.validation))

    def shared(self, key: Any, make: Callable[[], Any]) -> tuple[Any, float]:
        """Make a thing once for all rivals; returns it and the CPU seconds it took."""
        if key not in self._made:
            begin = time.process_time()
            made = make()
            self._made[key] = made, time.process_time() - begin
        return self._made[key]

    @cached_property
    def _reference(self) -> Reference:
        return Reference(self.tuned_on, Units.of(self.train).scale, self.begin)

    def measure(self, rolled: Trajectories) -> Score:
        """Measure roll-outs over the part that tunes."""
        score = self._reference.measure(rolled)
        if math.isnan(score.error):
            raise DataError(
                f"validation: no sequence has more than the {self.begin} frames that start a roll-out: give longer "
                "sequences"
            )
        return score


@runtime_checkable
class Rival(Protocol):
    """A recipe for a family of controllers."""

    @property
    def name(self) -> str:
        """What it is called in tables."""

    def fit(self, bench: Bench) -> Family:
        """Choose the knobs, fit, and return the controllers from rough to smooth."""


@dataclass(frozen=True)
class HoldLast:
    """Hold the last action: no knob, nothing to fit."""

    name: str = HELD

    def fit(self, bench: Bench) -> Family:
        """Return the one controller there is."""
        held = Held()
        error = bench.measure(held.rollout(bench.tuned_on, frames=bench.begin)).error
        return Family(self.name, (Point(0.0, held, error),), 0.0)


@dataclass(frozen=True)
class Behind:
    """A filter behind a predictor: the knobs of both are chosen together, for every strength of the filter.

    Candidates are fitted on the training part and judged by roll-outs over the validation part. What was chosen is
    fitted again on both together, as anybody would who has to ship it.

    Parameters
    ----------
    name : str
        What it is called in tables.
    source : Source
        The predictors; those that read past actions are tuned with followers only.
    filters : callable
        The filters of a given strength.
    strengths : tuple of float
        Which strengths.
    """

    name: str
    source: Source
    filters: Filters
    strengths: tuple[float, ...] = STRENGTHS

    def fit(self, bench: Bench) -> Family:
        """Choose the knobs for each strength, and fit the chosen predictors again on all there is."""
        source: Source = lead_source(self.source, bench.lead, bench.known)
        tried, fitting = bench.shared(("tried", source), lambda: list(_try_candidates(source, bench)))
        begin = time.process_time()
        chosen = self._choose(tried, bench)
        seconds = fitting + time.process_time() - begin
        final: dict[float, SmoothPolicy] = {}
        for value in sorted({c.value for c in chosen}):
            key, everything = ("final", source, value), bench.everything.foretell(bench.known)
            final[value], took = bench.shared(key, partial(source.chosen, everything, value, bench.seed))
            seconds += took
        points = tuple(
            Point(c.filter.strength, _combine(final[c.value], c.filter), c.error, self._knobs(c), c.roughness)
            for c in chosen
        )
        return Family(self.name, points, seconds, "" if points else "diverged at every strength")

    def _choose(self, tried: list[_Tried], bench: Bench) -> list[_Choice]:
        """Return the most accurate choice for every strength, rough to smooth; none where all diverge.

        Of a filter with a knob of its own, which trades accuracy for smoothness as the strength does, every pair that
        no other beats in both is kept: the strength alone does not say how smooth it is.
        """
        kinds = [self.filters(strength) for strength in self.strengths]
        best = [
            min((c for t in tried if (c := t.choice(kind, bench)) is not None), key=lambda c: c.error, default=None)
            for some in kinds
            for kind in some
        ]
        found = [c for c in best if c is not None]
        if all(len(some) == 1 for some in kinds):
            return found
        kept: list[_Choice] = []
        for choice in sorted(found, key=lambda c: (np.nan_to_num(c.roughness), c.error)):
            if not kept or choice.error < kept[-1].error:
                kept.append(choice)
        return kept[::-1]

    def _knobs(self, choice: _Choice) -> dict[str, float]:
        knobs = {self.source.knob: choice.value, "beta": getattr(choice.filter, "beta", None)}
        return {name: value for name, value in knobs.items() if name and value is not None}


@dataclass(frozen=True, eq=False)
class _Choice:
    """One value of the predictor's knob and one filter, and how their roll-outs did."""

    error: float
    roughness: float
    value: float
    filter: Filter


@dataclass(frozen=True, eq=False)
class _Tried:
    """A candidate predictor: its forecasts of the part that tunes, or the policy where it reads past actions."""

    value: float
    units: Units
    raw: Trajectories | None
    policy: SmoothPolicy | None

    def choice(self, kind: Filter, bench: Bench) -> _Choice | None:
        """Roll out with a filter behind; None where it diverges."""
        demos = bench.tuned_on
        if self.policy is not None:
            try:
                rolled = rollout(_combine(self.policy, kind), demos, start=ExpertStart(bench.begin))
            except DivergedError:
                return None
        else:
            assert self.raw is not None
            rolled = filter_after_expert(kind, self.units, self.raw, demos, frames=bench.begin)
        score = bench.measure(rolled)
        return _Choice(score.error, score.roughness, self.value, kind)


def _try_candidates(source: Source, bench: Bench) -> Iterator[_Tried]:
    """Fit the candidates; of those on contexts alone keep the forecasts, not the models, which may be large."""
    for value, policy in source.candidates(bench.train.foretell(bench.known), bench.seed):
        if policy.horizon.memory:
            yield _Tried(value, policy.units, None, policy)
        else:
            yield _Tried(value, policy.units, forecast(policy, bench.tuned_on), None)


def _combine(policy: SmoothPolicy, kind: Filter) -> Any:
    """Put a filter behind a predictor; what reads its own past is a policy of Eq. 2, for the loop must be closed."""
    if policy.horizon.memory == 0:
        return Filtered(policy, kind)
    if not isinstance(kind, Follower):
        raise ArgumentError(f"filters must be followers behind a predictor that reads past actions; got {kind!r}")
    return put_behind(policy, kind)
