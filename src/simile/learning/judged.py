"""What a policy did over recordings that its parts had not seen: by that it is judged, and nothing is held out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from simile._common.typing import FloatArray, IntArray
from simile.data.demonstrations import Demonstrations
from simile.data.logs import Log
from simile.data.reference import Reference
from simile.learning.frontier import time_scale
from simile.learning.verdict import Verdict, reach_verdict
from simile.metrics import Tally, hold_last_action


def cut_places(demos: Demonstrations, places: IntArray) -> Demonstrations:
    """Return what is judged of demonstrations, by sequence, first and last frame, (n, 3)."""
    cut = (demos[int(i)].cut(int(begin), int(end)) for i, begin, end in places)
    return Demonstrations(tuple(cut))


@dataclass(frozen=True, eq=False)
class Judged:
    """Recordings, and roll-outs over them by a policy and by the best simple filter; all in the user's units.

    Attributes
    ----------
    demos : Demonstrations
        What the expert did: all that was learned from, or as many recordings as there is room for.
    rolled : list of (T, k) arrays
        Roll-outs of the policy, each by parts that have not seen the recording, or that stretch of it.
    simple : list of (T, k) arrays, optional
        Those of the best simple filter.
    begin : int
        How many first frames are the expert's.
    scale : (k,) array
        Standard deviations of the actions that were learned from.
    logs : tuple of Log
        By which noise is told from motion.
    kin : (n,) array
        Group of each: stretches of one recording are of one.
    new : str
        What is new in each; "" where there was too little to leave anything out.
    places : (n, 3) array
        Which they are, see `cut_places`.
    problems : tuple of str
        What was likely wrong with what was learned from.
    """

    demos: Demonstrations
    rolled: list[FloatArray]
    simple: list[FloatArray] | None
    begin: int
    scale: FloatArray
    logs: tuple[Log, ...]
    kin: IntArray
    new: str
    places: IntArray
    problems: tuple[str, ...] = ()

    @cached_property
    def reference(self) -> Reference:
        """What roll-outs are measured against."""
        return Reference(self.demos, self.scale, self.begin, logs=self.logs)

    @cached_property
    def held(self) -> list[FloatArray]:
        """What holding the last action does."""
        return [hold_last_action(a, warm_up=self.begin) for a in self.demos.actions]

    @cached_property
    def tally(self) -> Tally:
        """What is told of the policy."""
        return self.reference.tally(self.rolled)

    @cached_property
    def verdict(self) -> Verdict:
        """What is said of the policy."""
        return reach_verdict(
            self.tally,
            self.reference.tally(self.held),
            None if self.simple is None else self.reference.tally(self.simple),
            actions=self.demos.action_names,
            scale=self.scale,
            kin=self.kin,
            rate=self.demos.rate,
            baseline="" if self.simple is None else "the best simple filter",
            new=self.new,
            problems=self.problems,
            in_turn=bool(self.new),
            learned_from=0 if self.new else len(self.demos),
            pace=time_scale(self.demos),
        )

    def error(self, some: Sequence[bool]) -> float:
        """Return the root mean squared error over some of the recordings, in standard deviations; NaN over none."""
        sums = self.reference.sums(self.rolled)[np.array(some, bool)]
        return sums.score.rmse if len(sums) else math.nan
