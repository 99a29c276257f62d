"""Scores sequence by sequence: for errors of single actions, for intervals, and for what lies between controllers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from simile._common.typing import FloatArray, IntArray, Trajectories
from simile.data import losses
from simile.data.demonstrations import Demonstrations
from simile.data.groups import are_grouped, number_groups
from simile.data.logs import Log
from simile.data.motion import count_reversals, count_still, measure_motion, reversals_unit
from simile.data.recorded import Recorded
from simile.errors import DataError, DivergedError
from simile.evaluation.rivals import roll_out
from simile.learning.measures import Ruler, Score, ScoreSums

RESAMPLES = 4000  # of the bootstrap


@dataclass(frozen=True, eq=False)
class SequenceScore(Score):
    """How roll-outs did in each of the held-out sequences.

    Attributes
    ----------
    squares : (sequences, k) array
        Mean squared error of each sequence and action, in standard units.
    frames : (sequences,) array
        How many frames of each count.
    lag : float
        Frames late, by cross-correlation; NaN where it cannot be told.
    reversals : (k,) array
        Of each action a minute, or per 1,000 frames where the rate is unknown.
    still : (k,) array
        The share of time that each action rests.
    kin : (sequences,) array, optional
        Number of the group of each sequence; None where each is its own.
    """

    squares: FloatArray
    frames: FloatArray
    lag: float
    reversals: FloatArray
    still: FloatArray
    kin: IntArray | None = None

    def towards(self, other: SequenceScore, share: float) -> SequenceScore:
        """Interpolate: 0 is this score, 1 the other; errors and roughness on log scales, where paths bend least."""
        squares = self.squares ** (1.0 - share) * other.squares**share
        return SequenceScore(
            float(np.average(squares.mean(axis=1), weights=self.frames)),
            math.exp((1.0 - share) * math.log(self.roughness) + share * math.log(other.roughness)),
            squares,
            self.frames,
            **{n: (1.0 - share) * getattr(self, n) + share * getattr(other, n) for n in ("lag", "reversals", "still")},
            kin=self.kin,
        )

    def over(self, other: SequenceScore, seed: int) -> tuple[float, float, float]:
        """Return the ratio of two RMSEs with a 95 % interval: sequences or groups are drawn anew, for both alike."""
        above, below = (self.frames * score.squares.mean(axis=1) for score in (self, other))
        if self.kin is not None:
            above, below = (np.bincount(self.kin, weights=some) for some in (above, below))
        if below.sum() == 0.0:
            return math.nan, math.nan, math.nan
        ratio = math.sqrt(above.sum() / below.sum())
        if len(above) < 2:
            return ratio, math.nan, math.nan  # one sequence, or one person, tells nothing of others
        drawn = np.random.default_rng(seed).integers(len(above), size=(RESAMPLES, len(above)))
        under = below[drawn].sum(axis=1)
        found = np.sqrt(above[drawn].sum(axis=1)[under > 0.0] / under[under > 0.0])
        low, high = np.quantile(found, (0.025, 0.975))
        return ratio, float(low), float(high)


@dataclass(frozen=True, eq=False)
class PartScore:
    """What scores are made of, of some of the sequences that count; those of others are added."""

    sums: ScoreSums
    squares: FloatArray  # (sequences, k)
    lags: FloatArray  # (sequences, k)
    reversals: FloatArray  # (k,)
    held: FloatArray  # (k,) frames

    def __add__(self, other: PartScore) -> PartScore:
        squares, lags = (np.concatenate([getattr(self, n), getattr(other, n)]) for n in ("squares", "lags"))
        return PartScore(
            self.sums + other.sums, squares, lags, self.reversals + other.reversals, self.held + other.held
        )


@dataclass(frozen=True, eq=False)
class HeldOut(Ruler):
    """Held-out demonstrations, of which the frames after the first `begin` count, for all contenders the same.

    Sequences that are too short do not count. Errors are in standard deviations of the training data, which the
    contenders share.
    """

    scale: FloatArray
    whole: bool = False

    def __post_init__(self) -> None:
        if not any(self.counts):
            longest = int(self.demos.lengths.max())
            raise DataError(
                f"test: no sequence is longer than the {self.begin} frames that start the roll-outs (the longest has "
                f"{longest}): give longer sequences"
            )

    @cached_property
    def counts(self) -> list[bool]:
        """Which sequences are long enough."""
        return [n > self.begin for n in self.demos.lengths]

    @cached_property
    def scored(self) -> Demonstrations:
        """The frames that count."""
        return Demonstrations(tuple(d.cut(self.begin) for d, ok in zip(self.demos, self.counts, strict=True) if ok))

    def row(self, name: str, score: SequenceScore | None, seconds: float = math.nan) -> dict[str, Any]:
        """Return the row of a table: what a contender scores, NaN where it does not."""
        rmse = dict.fromkeys(self.demos.action_names, math.nan) if score is None else self.rmse_by_action(score)
        return {
            "name": name,
            **{f"rmse {action}": value for action, value in rmse.items()},
            # Over all actions, each in its own standard deviations: what contenders are ranked by.
            "error": math.nan if score is None else score.rmse,
            "roughness": math.nan if score is None else score.roughness,
            "lag": math.nan if score is None else score.lag,
            # The means over the actions.
            "reversals": math.nan if score is None else float(np.mean(score.reversals)),
            "still": math.nan if score is None else float(np.mean(score.still)),
            "seconds": seconds,
        }

    def rmse_by_action(self, score: SequenceScore) -> dict[str, float]:
        """Return the RMSE of each action over all sequences, in the user's units."""
        pooled = np.sqrt(np.average(score.squares, axis=0, weights=score.frames)) * self.scale
        return dict(zip(self.demos.action_names, pooled.tolist(), strict=True))

    def measure(self, rolled: Trajectories) -> SequenceScore:
        """Measure roll-outs of all demonstrations; NaN where one diverged."""
        return self.finish(self.look(rolled), self.demos)

    def look(self, rolled: Trajectories) -> PartScore:
        """Sum what the scores are made of."""
        if not any(self.counts):  # of a part; of all, that is refused
            nothing = np.empty((0, self.demos.n_actions))
            return PartScore(self.sums(rolled), nothing, nothing, *self.count_motion([]))
        scored = self.scored
        ours = [a[self.begin :] for a, ok in zip(rolled, self.counts, strict=True) if ok]
        pairs = list(zip(ours, scored.actions, strict=True))
        squares = np.array([(((a - b) / self.scale) ** 2).mean(axis=0) for a, b in pairs])
        if (counts := scored.weights) is not None:
            found = [losses.mean_squared_error(*pair, w) for pair, w in zip(pairs, counts, strict=True)]
            squares = np.array(found) / self.scale**2
        lags = np.array([losses.lag(a, b) for a, b in pairs])
        return PartScore(self.sums(rolled), squares, lags, *self.count_motion(ours))

    def finish(self, found: PartScore, demos: Recorded) -> SequenceScore:
        """Make scores of the sums over all demonstrations."""
        score, long = found.sums.score, demos.lengths > self.begin
        frames, lags = (demos.lengths[long] - self.begin).astype(np.float64), found.lags
        known = ~np.isnan(lags) & ~np.isnan(score.error)
        weights = np.broadcast_to(frames[:, np.newaxis], lags.shape)
        lag = float(np.average(lags[known], weights=weights[known])) if known.any() else math.nan
        groups = None if demos.groups is None else {g for g, ok in zip(demos.groups, long, strict=True) if ok}
        numbers = number_groups([g for g, ok in zip(demos.groups or (None,) * len(long), long, strict=True) if ok])
        alone = groups is not None and len(groups) == 1
        kin = np.zeros(len(frames), np.intp) if alone else numbers if are_grouped(numbers) else None
        rates = self.rate_counts(found.reversals, found.held, frames)
        return SequenceScore(score.error, score.roughness, found.squares, frames, lag, *rates, kin)

    def motion(self, rolled: Trajectories) -> dict[str, dict[str, float]]:
        """Return how each action moves over the frames that count, by name, as `Motion.to_dict`."""
        ours = [a[self.begin :] for a, ok in zip(rolled, self.counts, strict=True) if ok]
        found = measure_motion(ours, self.known_logs, self.demos.rate)
        return {name: motion.to_dict() for name, motion in zip(self.demos.action_names, found, strict=True)}

    def describe_expert(self) -> str:
        """Say how the expert moves, as the columns of a table do of contenders."""
        reversals, still = (float(np.mean(found)) for found in self.expert_motion())
        per = "per 1,000 frames" if self.demos.rate is None else "a minute"
        return f"reversals {per}, the expert's {reversals:.3g}; still: share of time, the expert's {still:.2g}"

    def expert_motion(self) -> tuple[FloatArray, FloatArray]:
        """Return reversals and stillness of the expert, (k,) each."""
        return self.rate_motion(self.scored.actions)

    def roll(self, controller: Any) -> Any:
        """Roll a policy, or a controller, out over all demonstrations; None where it diverges."""
        return _roll(self.demos, 0, controller, self.begin)

    def rate_motion(self, actions: Trajectories) -> tuple[FloatArray, FloatArray]:
        """Return reversals and stillness of the frames that count, (k,) each."""
        return self.rate_counts(*self.count_motion(actions), np.array([len(a) for a in actions]))

    def count_motion(self, actions: Trajectories) -> tuple[FloatArray, FloatArray]:
        """Count reversals and frames at rest, (k,) each."""
        threshold = [log.threshold for log in self.known_logs]
        if not actions:
            return np.zeros(len(threshold)), np.zeros(len(threshold))
        return count_reversals(actions, threshold), count_still(actions, threshold, self.demos.rate)

    def rate_counts(self, reversals: FloatArray, held: FloatArray, frames: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return reversals by time, and the share of time at rest, for sequences of so many frames."""
        passed = frames.sum() - len(frames) or math.nan
        return reversals / frames.sum() * reversals_unit(self.demos.rate), held / passed


@dataclass(frozen=True, eq=False)
class HeldOutElsewhere(HeldOut):
    """Held-out demonstrations that lie with a backend: roll-outs stay there, and are measured there."""

    demos: Any  # DistributedDemonstrations

    def look(self, rolled: Any) -> PartScore:
        """Sum what the scores are made of, where the roll-outs are."""
        found: PartScore = self.demos.total(_look, rolled, shared=(self.scale, self.begin, self.order, self.known_logs))
        return found

    def roll(self, controller: Any) -> Any:
        """Roll a policy, or a controller, out where the demonstrations are; None where it diverges."""
        rolled = self.demos.map(_roll, self.demos.firsts, shared=(controller, self.begin))
        return None if any(self.demos.collect(_is_none, rolled)) else rolled

    def expert_motion(self) -> tuple[FloatArray, FloatArray]:
        """Return reversals and stillness of the expert, (k,) each."""
        score = self.measure(self.demos.map(_act))
        return score.reversals, score.still


class _Some(HeldOut):
    """A part, of which all sequences may be too short."""

    def __post_init__(self) -> None:
        pass


# What runs where a part is.


def _look(
    demos: Demonstrations, rolled: Trajectories, scale: FloatArray, begin: int, order: int, logs: tuple[Log, ...]
) -> PartScore:
    return _Some(demos, scale, begin, order=order, logs=logs).look(rolled)


def _roll(demos: Demonstrations, first: int, controller: Any, begin: int) -> list[FloatArray] | None:
    try:
        return roll_out(controller, demos, begin, first=first)
    except DivergedError:
        return None


def _is_none(_: Demonstrations, rolled: Trajectories | None) -> bool:
    return rolled is None


def _act(demos: Demonstrations) -> list[FloatArray]:
    return demos.actions
