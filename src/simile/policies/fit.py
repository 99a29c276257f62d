"""How well new data fit what a policy was trained on: where they do not, a sentence with numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.policies.cards import Card
from simile.policies.rollouts import SAME_RATE

MOST = 0.5  # share of the frames in which a context lies outside, from which on it is told; as a service does
SHOWN = 3


@dataclass(frozen=True, eq=False)
class Fit:
    """Contexts beside the ranges of a card: in how many of the frames each lies outside, and between what they all lie.

    Parameters
    ----------
    known, outside : (m,) array of int
        Frames in which a context is there, and in which it lies outside.
    low, high : (m,) array
        The lowest and the highest of them; NaN where all are missing.
    """

    known: IntArray
    outside: IntArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, card: Card, contexts: Sequence[FloatArray]) -> Fit:
        """Look at contexts (T, m) of each sequence; there is at least one."""
        m = contexts[0].shape[1]
        unknown = np.full(m, -np.inf), np.full(m, np.inf)
        low, high = card.ranges(m) or unknown
        known = sum((~np.isnan(x)).sum(axis=0) for x in contexts)
        outside = sum(((x < low) | (x > high)).sum(axis=0) for x in contexts)
        sides = (extreme.reduce([extreme.reduce(x, axis=0) for x in contexts]) for extreme in (np.fmin, np.fmax))
        return cls(np.asarray(known), np.asarray(outside), *sides)

    def __add__(self, other: Fit) -> Fit:
        sums = self.known + other.known, self.outside + other.outside
        return Fit(*sums, np.fmin(self.low, other.low), np.fmax(self.high, other.high))

    def doubts(self, card: Card, rate: float | None = None) -> tuple[str, ...]:
        """Return what to say of data, of so many frames a second, that are unlike the training's."""
        return (*self._doubt_rate(card, rate), *self._doubt_ranges(card))

    @staticmethod
    def _doubt_rate(card: Card, rate: float | None) -> tuple[str, ...]:
        if card.rate is None or rate is None or math.isclose(card.rate, rate, rel_tol=SAME_RATE):
            return ()
        return (
            f"the policy was trained at {card.rate:g} frames a second, and takes a step in each of {rate:g} here: what "
            f"it knows of speed and smoothness does not hold: resample the data to its rate (--resample {card.rate:g})",
        )

    def _doubt_ranges(self, card: Card) -> tuple[str, ...]:
        m = len(self.known)
        ranges = card.ranges(m)
        shares = self.outside / np.maximum(self.known, 1)
        worst = [int(j) for j in np.argsort(-shares, kind="stable") if shares[j] > MOST]
        if ranges is None or not worst:
            return ()
        names = card.context_names if len(card.context_names) == m else [f"x{j}" for j in range(m)]
        told = [
            f"{names[j]} in {shares[j]:.0%} ({self.low[j]:.4g} to {self.high[j]:.4g} here, {ranges[0][j]:.4g} to "
            f"{ranges[1][j]:.4g} there)"
            for j in worst[:SHOWN]
        ]
        more = f", and {len(worst) - SHOWN} more" if len(worst) > SHOWN else ""
        return (
            f"{len(worst)} of {m} contexts lie outside what the policy was trained on in most frames: {', '.join(told)}"
            f"{more}: what it does there is a guess: look at the units and columns, or train on such data too",
        )
