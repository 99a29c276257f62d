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
from simile.data.groups import are_grouped
from simile.data.motion import measure_motion, rate_reversals, share_still
from simile.errors import DataError
from simile.learning.measures import Ruler, Score

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
class HeldOut(Ruler):
    """Held-out demonstrations, of which the frames after the first `begin` count, for all contenders the same.

    Sequences that are too short do not count. Errors are in standard deviations of the training data, which the
    contenders share.
    """

    scale: FloatArray
    whole: bool = False

    def __post_init__(self) -> None:
        if not any(self.counts):
            longest = max(len(d) for d in self.demos)
            raise DataError(
                f"test: no sequence is longer than the {self.begin} frames that start the roll-outs (the longest has "
                f"{longest}): give longer sequences"
            )

    @cached_property
    def counts(self) -> list[bool]:
        """Which sequences are long enough."""
        return [len(d) > self.begin for d in self.demos]

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
        score, scored = super().measure(rolled), self.scored
        ours = [a[self.begin :] for a, ok in zip(rolled, self.counts, strict=True) if ok]
        pairs = list(zip(ours, scored.actions, strict=True))
        squares = np.array([(((a - b) / self.scale) ** 2).mean(axis=0) for a, b in pairs])
        if (counts := scored.weights) is not None:
            found = [losses.mean_squared_error(*pair, w) for pair, w in zip(pairs, counts, strict=True)]
            squares = np.array(found) / self.scale**2
        frames = np.array([len(d) for d in scored], dtype=np.float64)
        lags = np.array([losses.lag(a, b) for a, b in pairs])
        known = ~np.isnan(lags) & ~np.isnan(score.error)
        weights = np.broadcast_to(frames[:, np.newaxis], lags.shape)
        lag = float(np.average(lags[known], weights=weights[known])) if known.any() else math.nan
        alone = len(set(scored.groups or (None,))) == 1 and scored.groups is not None
        kin = np.zeros(len(scored), np.intp) if alone else scored.kin if are_grouped(scored.kin) else None
        return SequenceScore(score.error, score.roughness, squares, frames, lag, *self.rate_motion(ours), kin)

    def motion(self, rolled: Trajectories) -> dict[str, dict[str, float]]:
        """Return how each action moves over the frames that count, by name, as `Motion.to_dict`."""
        ours = [a[self.begin :] for a, ok in zip(rolled, self.counts, strict=True) if ok]
        found = measure_motion(ours, self.known_logs, self.demos.rate)
        return {name: motion.to_dict() for name, motion in zip(self.demos.action_names, found, strict=True)}

    def describe_expert(self) -> str:
        """Say how the expert moves, as the columns of a table do of contenders."""
        reversals, still = (float(np.mean(found)) for found in self.rate_motion(self.scored.actions))
        per = "per 1,000 frames" if self.demos.rate is None else "a minute"
        return f"reversals {per}, the expert's {reversals:.3g}; still: share of time, the expert's {still:.2g}"

    def rate_motion(self, actions: Trajectories) -> tuple[FloatArray, FloatArray]:
        """Return reversals and stillness of the frames that count, (k,) each."""
        threshold, rate = [log.threshold for log in self.known_logs], self.demos.rate
        return rate_reversals(actions, threshold, rate), share_still(actions, threshold, rate)
