"""The trajectories that a report shows: roll-outs over held-out sequences, packed for the page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from simile._common import pages
from simile._common.typing import FloatArray, Trajectories
from simile.data.demonstrations import Demonstrations
from simile.data.reference import Reference
from simile.errors import ArgumentError, DivergedError
from simile.evaluation.evaluation import BandCheck, check_band, tell_row
from simile.metrics import Tally, find_holds
from simile.policies.bands import KEY
from simile.policies.policies import Policy
from simile.policies.rollouts import ExpertStart, rollout

EXPERT = "expert"
MOST_VALUES = 6_000_000  # in one page; longer recordings are thinned
BAND = 0.9  # level of the band that is drawn
LEVELS = 2**14  # between the lowest and the highest value of a curve: more than a screen shows, and half the bytes


@dataclass(frozen=True, eq=False)
class DrawnBand:
    """The band of a policy around its roll-outs, as a page draws it."""

    ends: Trajectories  # (T, 2 k) of each sequence: low, then high
    coverage: float  # in the mean over sequences
    said: str  # what can be relied on

    @classmethod
    def of(cls, policy: Policy, reference: Reference, rolled: Trajectories | None = None) -> DrawnBand | None:
        """Roll a policy out with its band, put around other roll-outs if given; None without one, or if it diverges."""
        if KEY not in policy.card.training:
            return None
        try:
            banded = rollout(policy, reference.demos, start=ExpertStart(reference.begin), band=BAND)
        except (ArgumentError, DivergedError):
            return None
        if rolled is not None:
            banded = [b.around(a) for a, b in zip(rolled, banded, strict=True)]
        rows = (
            check_band(policy, BAND, i, demo, b, reference.begin)
            for i, (demo, b) in enumerate(zip(reference.demos, banded, strict=True))
        )
        found = BandCheck.of(policy, BAND, chain.from_iterable(rows))
        return cls([np.hstack([b.low, b.high]) for b in banded], found.mean("coverage"), found.said)

    def to_dict(self) -> dict[str, Any]:
        """Return what the page says of it (`Band` of payload.ts)."""
        return {"level": BAND, "coverage": self.coverage, "said": self.said}


@dataclass(frozen=True, eq=False)
class Curves:
    """Trajectories over the same held-out sequences: the expert's first, then those of the policy in question.

    Parameters
    ----------
    reference : Reference
        The sequences, and how many first frames of each are the expert's.
    names : tuple of str
        Of the trajectories.
    rolled : tuple of lists of (T, k) arrays
        The trajectories, for each of the sequences; NaN where a roll-out diverged.
    tally : Tally
        What was measured of the policy.
    band : DrawnBand, optional
        Around its trajectories.
    """

    reference: Reference
    names: tuple[str, ...]
    rolled: tuple[Trajectories, ...]
    tally: Tally
    band: DrawnBand | None = None

    @classmethod
    def of(cls, reference: Reference, others: Mapping[str, Trajectories], tally: Tally) -> Curves:
        """Put the expert in front of others, the first of which is the policy."""
        return cls(reference, (EXPERT, *others), (reference.demos.actions, *others.values()), tally)

    @property
    def demos(self) -> Demonstrations:
        """The held-out sequences."""
        return self.reference.demos

    @property
    def policy(self) -> Trajectories:
        """What the policy in question did."""
        return self.rolled[1]

    @cached_property
    def diverged(self) -> int:
        """In how many sequences the policy diverged."""
        return sum(bool(np.isnan(a).any()) for a in self.policy)

    def scored(self) -> list[tuple[int, FloatArray, FloatArray]]:
        """Return number, policy and expert of every sequence, after the frames that are the expert's."""
        begin, pairs = self.reference.begin, zip(self.policy, self.demos.actions, strict=True)
        return [(i, a[begin:], e[begin:]) for i, (a, e) in enumerate(pairs) if len(e) > begin]

    @cached_property
    def step(self) -> int:
        """How many frames lie between the samples that the page gets."""
        columns = len(self.names) + (0 if self.band is None else 2)
        return max(1, math.ceil(columns * self.demos.n_actions * self.demos.n_frames / MOST_VALUES))

    def sequences(self) -> list[dict[str, Any]]:
        """Return what the page says of each sequence (`Sequence` of payload.ts)."""
        begin, rate, scale = self.reference.begin, self.demos.rate, np.asarray(self.reference.scale)
        found = []
        for i, demo in enumerate(self.demos):
            one = self.tally[[i]]
            row = tell_row(demo.name, one, self.demos.action_names, scale, rate)
            found.append(
                {
                    "name": demo.name,
                    "frames": len(demo),
                    "begins": min(begin, len(demo)),
                    "step": self.step,
                    "series": f"series-{i}",
                    "error": row["error"],
                    "rmse": [row[f"rmse {action}"] for action in self.demos.action_names],
                    "roughness": row["roughness"] if len(demo) > begin else math.nan,
                    "reversals": one.turn_rates(rate).T.tolist(),
                    "rest": one.rest_shares.T.tolist(),
                    "lag": row["lag"],
                }
            )
        return found

    def packed(self) -> tuple[dict[str, Any], ...]:
        """Return each sequence as text, and where it rests: for each curve, for each action, a column.

        Behind them stand the ends of the band, where there is one.
        """
        joined = [np.hstack(some) for some in zip(*self.rolled, strict=True)]
        ends = [some[:, :0] for some in joined] if self.band is None else self.band.ends
        return tuple(
            {**_packed(np.hstack([some, band]), self.step), "holds": self._holds(some)}
            for some, band in zip(joined, ends, strict=True)
        )

    def _holds(self, columns: FloatArray) -> list[list[int]]:
        """Return where each column rests after the frames that are the expert's: first and last frame, in turn."""
        begin, logs = self.reference.begin, self.reference.known_logs
        threshold = [log.threshold for log in logs] * len(self.names)
        found = find_holds(columns[begin:], threshold, self.demos.rate)
        return [(holds + begin).ravel().tolist() for holds in found]


def _packed(values: FloatArray, step: int) -> dict[str, Any]:
    """Pack columns (T, any), each in 2^14 levels between its own extremes."""
    kept = thin(values, step)
    there = np.where(np.isnan(kept), kept[0], kept)  # a curve breaks off, or is not there at all
    low, high = np.nan_to_num(there.min(axis=0)), np.nan_to_num(there.max(axis=0))
    reach = high / 2.0 - low / 2.0  # halves, for the largest numbers do not add
    unit = np.where(reach > 0.0, np.maximum(reach / (LEVELS / 2.0), np.finfo(np.float64).tiny), 1.0)
    return pages.pack(kept, unit, low / 2.0 + high / 2.0)


def thin(values: FloatArray, step: int) -> FloatArray:
    """Keep one sample in `step` of columns (T, any): of each 2 * step frames the extremes, in order of occurrence.

    No peak is lost, and none moves by more than 2 * step frames.
    """
    if step == 1:
        return values
    width = 2 * step
    parts = -(-len(values) // width)
    # The last bucket is filled up with the last frame: its extremes stay.
    buckets = np.pad(values, ((0, parts * width - len(values)), (0, 0)), mode="edge").reshape(parts, width, -1)
    missing = np.isnan(buckets)
    first = np.where(missing, np.inf, buckets).argmin(axis=1)
    second = np.where(missing, -np.inf, buckets).argmax(axis=1)
    places = np.sort(np.stack([first, second], axis=1), axis=1)
    kept: FloatArray = np.take_along_axis(buckets, places, axis=1)
    return kept.reshape(2 * parts, -1)
