"""What every contender is measured by: errors sequence by sequence, roughness and lag on the same frames for all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from simile._common.typing import FloatArray, Trajectories
from simile.data import losses
from simile.data.demonstrations import Demonstrations, Units
from simile.errors import DataError
from simile.learning import measures

RESAMPLES = 4000  # of the bootstrap


@dataclass(frozen=True, eq=False)
class Score:
    """How roll-outs did.

    Attributes
    ----------
    squares : (sequences, k) array
        Mean squared error of each held-out sequence and action, in the user's units.
    roughness : float
        Mean absolute second difference over the expert's; NaN where the expert never moves.
    lag : float
        Frames late, by cross-correlation; NaN where it cannot be told.
    """

    squares: FloatArray
    roughness: float
    lag: float

    def towards(self, other: Score, share: float) -> Score:
        """Interpolate: 0 is this score, 1 the other; errors and roughness on log scales, where paths bend least."""
        return Score(
            self.squares ** (1.0 - share) * other.squares**share,
            math.exp((1.0 - share) * math.log(self.roughness) + share * math.log(other.roughness)),
            (1.0 - share) * self.lag + share * other.lag,
        )


@dataclass(frozen=True, eq=False)
class Ruler:
    """Held-out demonstrations and the frames of them that count: those after the first `frames`.

    Parameters
    ----------
    demos : Demonstrations
        Held-out sequences; those that are too short do not count.
    frames : int
        How many first frames are the expert's.
    """

    demos: Demonstrations
    frames: int

    def __post_init__(self) -> None:
        if not any(self.counts):
            longest = max(len(d) for d in self.demos)
            raise DataError(
                f"test: no sequence is longer than the {self.frames} frames that start the roll-outs (the longest has "
                f"{longest}): give longer sequences"
            )

    @cached_property
    def counts(self) -> list[bool]:
        """Which sequences are long enough."""
        return [len(d) > self.frames for d in self.demos]

    @cached_property
    def scored(self) -> Demonstrations:
        """The frames that count."""
        return Demonstrations(tuple(d.cut(self.frames) for d, ok in zip(self.demos, self.counts, strict=True) if ok))

    @cached_property
    def weights(self) -> FloatArray:
        """Frames of each sequence that counts, (sequences,)."""
        return np.array([len(d) for d in self.scored], dtype=np.float64)

    @cached_property
    def scale(self) -> FloatArray:
        """Deviation of the expert's actions, (k,): errors are told in it."""
        return Units.of(self.demos).scale

    def measure(self, rolled: Trajectories) -> Score:
        """Score roll-outs of all demonstrations."""
        scored = self.scored
        ours = [a[self.frames :] for a, ok in zip(rolled, self.counts, strict=True) if ok]
        squares = np.array([((a - b) ** 2).mean(axis=0) for a, b in zip(ours, scored.actions, strict=True)])
        lags = np.array([losses.lag(a, b) for a, b in zip(ours, scored.actions, strict=True)])
        known = ~np.isnan(lags)
        weights = np.broadcast_to(self.weights[:, np.newaxis], lags.shape)
        lag = float(np.average(lags[known], weights=weights[known])) if known.any() else math.nan
        return Score(squares, measures.roughness(ours, scored), lag)

    def error(self, squares: FloatArray) -> float:
        """Return the RMSE over all sequences and actions, in standard deviations of the expert's actions."""
        return math.sqrt(float(self._sums(squares).sum() / self.weights.sum()))

    def rmse(self, squares: FloatArray) -> FloatArray:
        """Return the RMSE of each action in the user's units, (k,)."""
        pooled: FloatArray = np.sqrt(np.average(squares, axis=0, weights=self.weights))
        return pooled

    def ratio(self, ours: FloatArray, theirs: FloatArray, seed: int) -> tuple[float, float, float]:
        """Return the ratio of two RMSEs with a 95 % interval: sequences are drawn anew, the same for both sides."""
        over, under = self._sums(ours), self._sums(theirs)
        if under.sum() == 0.0:
            return math.nan, math.nan, math.nan
        ratio = math.sqrt(over.sum() / under.sum())
        if len(over) < 2:
            return ratio, math.nan, math.nan  # one sequence tells nothing of others
        drawn = np.random.default_rng(seed).integers(len(over), size=(RESAMPLES, len(over)))
        below = under[drawn].sum(axis=1)
        found = np.sqrt(over[drawn].sum(axis=1)[below > 0.0] / below[below > 0.0])
        low, high = np.quantile(found, (0.025, 0.975))
        return ratio, float(low), float(high)

    def _sums(self, squares: FloatArray) -> FloatArray:
        """Return the summed squared error of each sequence in standard units, (sequences,)."""
        sums: FloatArray = self.weights * (squares / self.scale**2).mean(axis=1)
        return sums
