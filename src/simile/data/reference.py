"""What roll-outs are measured against: what the expert did, which frames count, and what its log is like."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property, reduce
from operator import add
from typing import Any

import numpy as np

from simile._common.typing import FloatArray, Trajectories
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.data.logs import Log
from simile.data.recorded import Recorded
from simile.metrics import (
    Score,
    Sums,
    Tally,
    count_rests,
    count_reversals,
    difference,
    sum_products,
)


@dataclass(frozen=True, eq=False)
class Reference:
    """Demonstrations that roll-outs are measured against.

    Parameters
    ----------
    demos : Demonstrations
        What the expert did.
    scale : (k,) array
        Units of the errors, those of the policy: standard deviations of the actions that it was trained on. 1 where
        the demonstrations are in standard units.
    begin : int
        How many first frames are the expert's: they do not count. What a policy is chosen by (`sums`) does count a jump
        from them as rough; what is told of it (`tally`) does not, for their noise is not the policy's.
    order : int
        Of the differences that roughness is measured by.
    logs : tuple of Log, optional
        By which noise is told from motion: those of what a policy was trained on. Those of `demos` by default.
    """

    demos: Demonstrations
    scale: FloatArray | float = 1.0
    begin: int = 0
    order: int = 2
    logs: tuple[Log, ...] | None = None

    def measure(self, rolled: Trajectories) -> Score:
        """Measure error and roughness of roll-outs of all demonstrations."""
        return self.sums(rolled).score

    @np.errstate(over="ignore", invalid="ignore")
    def sums(self, rolled: Trajectories, first: int = 0) -> Sums:
        """Sum errors and, from a first frame on, differences of each sequence."""
        weights, expert_bends, sizes = self._expert if first == 0 else self._sum_expert(first)
        squares, bends = [], []
        for demo, actions in zip(self.demos, rolled, strict=True):
            gaps = ((actions - demo.actions)[self.begin :] / self.scale) ** 2
            squares.append((gaps if demo.weights is None else demo.weights[self.begin :] * gaps).sum(axis=0))
            bends.append(_bends(actions[_from(first, demo)], self.order))
        return Sums(weights, np.array(squares), np.array(bends), expert_bends, sizes)

    @np.errstate(over="ignore", invalid="ignore")
    def tally(self, rolled: Trajectories) -> Tally:
        """Sum all that is told of roll-outs, of each sequence."""
        sums, expert = self.sums(rolled, self.begin), self.demos.actions
        ours, theirs = ([a[self.begin :] for a in some] for some in (rolled, expert))
        frames = np.repeat([[float(len(a))] for a in ours], self.demos.n_actions, axis=1)
        return Tally(
            **{field.name: getattr(sums, field.name) for field in fields(sums)},
            frames=frames,
            steps=np.maximum(frames - 1.0, 0.0),
            turns=count_reversals(ours, self.threshold),
            expert_turns=count_reversals(theirs, self.threshold),
            rests=count_rests(ours, self.threshold, self.demos.rate),
            expert_rests=count_rests(theirs, self.threshold, self.demos.rate),
            products=np.array([sum_products(a, b, self.scale) for a, b in zip(ours, theirs, strict=True)]),
        )

    @cached_property
    def known_logs(self) -> tuple[Log, ...]:
        """By which noise is told from motion."""
        return self.demos.logs if self.logs is None else self.logs

    @property
    def threshold(self) -> list[float]:
        """The change of each action that is no motion, (k,)."""
        return [log.threshold for log in self.known_logs]

    @cached_property
    def _expert(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The expert's part of the sums, which every roll-out is compared with."""
        return self._sum_expert(0)

    def _sum_expert(self, first: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sum weights, differences (of the motion alone, without noise) and sizes of what the expert did."""
        kept = np.array([log.kept[self.order - 1] for log in self.known_logs])
        known = [demo.actions[_from(first, demo)] for demo in self.demos]
        bends = np.array([kept * _bends(actions, self.order) for actions in known])
        return self._weights, bends, np.array([np.abs(actions).sum(axis=0) for actions in known])

    @cached_property
    def _weights(self) -> FloatArray:
        def of(demo: Demonstration) -> FloatArray:
            weights = np.ones_like(demo.actions) if demo.weights is None else demo.weights
            return np.asarray(weights[self.begin :].sum(axis=0))

        return np.array([of(demo) for demo in self.demos])


def _from(first: int, demo: Demonstration) -> slice:
    """Return the frames that count, from a first one on."""
    return slice(max(demo.counted.start, first), demo.counted.stop)


def _bends(actions: FloatArray, order: int) -> FloatArray:
    """Sum the absolute differences of one sequence, (k,)."""
    return np.asarray(np.abs(difference(actions, order)).sum(axis=0))


def tally_rollouts(
    demos: Recorded, rolled: Any, *, scale: FloatArray, begin: int, logs: tuple[Log, ...] | None = None
) -> Tally:
    """Return the `Tally` of roll-outs in the user's units, wherever they and their demonstrations lie."""
    shared = (scale, begin, demos.logs if logs is None else logs)
    tally: Tally = reduce(add, demos.collect(_tally, rolled, shared=shared))
    return tally


# What runs where a part is.


def _tally(demos: Demonstrations, rolled: Trajectories, scale: FloatArray, begin: int, logs: tuple[Log, ...]) -> Tally:
    return Reference(demos, scale, begin, logs=logs).tally(rolled)
