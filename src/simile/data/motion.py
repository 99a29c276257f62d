"""How an expert moves: hold and move, reversals, and the smoothness of each move, per action.

Second differences do not tell a hand that holds and moves from one that creeps. These measures do, and look through
noise by hysteresis: a change that is smaller than the threshold of the expert's `Log` is no motion. A policy is
measured with the log of its expert, so that both are asked the same.

References
----------
Balasubramanian, Melendez-Calderon and Burdet (2012), "A robust and sensitive metric for quantifying movement
smoothness", IEEE Transactions on Biomedical Engineering 59:2126 (SPARC, and log dimensionless jerk beside it); Krejci
(1996), "Hysteresis, Convexity and Dissipation in Hyperbolic Equations" (the play operator).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simile._common.typing import FloatArray, IntArray, Trajectories
from simile.data.logs import Log
from simile.data.losses import difference, log_dimensionless_jerk, spectral_arc_length

HELD_FRAMES, HELD_SECONDS = 3, 0.25  # the shortest hold
CREEP = 0.1  # of the threshold, during the shortest hold: less is rest, so that noise or a filter's tail ends none
BORDER = 2  # no way to move: where a sequence begins
MOST_MOVES = 256  # whose smoothness is measured


def play(actions: FloatArray, width: npt.ArrayLike, start: npt.ArrayLike | None = None) -> FloatArray:
    """Follow actions with play (backlash), y_t = min(max(y_{t-1}, a_t - w), a_t + w), along the first axis.

    A reversal moves y only once the actions have come back by 2 w, so that what is smaller is not seen. A clamp after
    a clamp is a clamp, and min and max do not round: the prefix scan has the bits of the loop over frames.

    Parameters
    ----------
    actions : (T,) or (T, k) array
    width : float or (k,) array
        The half-width w; 0 follows exactly.
    start : float or (k,) array, optional
        y before the first frame; the first action by default.

    Examples
    --------
    >>> play(np.array([0.0, 1.0, 2.0, 1.5, 0.5, 0.0]), 0.5)
    array([0. , 0.5, 1.5, 1.5, 1. , 0.5])
    """
    actions = np.asarray(actions, dtype=np.float64)
    table = actions.reshape(len(actions), -1)
    widths = np.broadcast_to(np.asarray(width, dtype=np.float64), table.shape[1:])
    begin = None if start is None else np.broadcast_to(np.asarray(start, dtype=np.float64), table.shape[1:])
    return _Joined.of([table]).play(widths, begin).reshape(table.shape[::-1]).T.reshape(actions.shape)


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def count_reversals(trajectories: Trajectories, threshold: npt.ArrayLike) -> FloatArray:
    """Count how often each action of (T, k) trajectories turns round for more than the threshold, (k,).

    >>> count_reversals([np.array([[0.0], [2.0], [1.9], [2.5], [0.0]])], 0.5)
    array([1.])
    """
    joined = _Joined.of(trajectories)
    ways = np.sign(joined.steps(joined.play(joined.widths(threshold))))
    moves = np.flatnonzero(ways)
    of = joined.sequence[moves]
    turns = (ways[moves][1:] != ways[moves][:-1]) & (of[1:] == of[:-1])
    return joined.where_finite(np.bincount(of[1:][turns] // joined.sequences, minlength=joined.k))


def rate_reversals(trajectories: Trajectories, threshold: npt.ArrayLike, rate: float | None = None) -> FloatArray:
    """Return the reversals of each action a minute, or per 1,000 frames where the rate (Hz) is unknown, (k,)."""
    return count_reversals(trajectories, threshold) / sum(map(len, trajectories)) * reversals_unit(rate)


def reversals_unit(rate: float | None) -> float:
    """Return how many frames reversals are counted by: those of a minute, or 1,000 where the rate is unknown."""
    return 60.0 * rate if rate else 1000.0


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def share_still(trajectories: Trajectories, threshold: npt.ArrayLike, rate: float | None = None) -> FloatArray:
    """Return the share of time that each action of (T, k) trajectories rests, (k,); NaN where no time passes.

    It rests while, for 3 frames and 0.25 s at least, the play of the threshold does not move.

    >>> square = np.repeat([0.0, 1.0, 0.0, 1.0], 25)[:, np.newaxis]
    >>> share_still([square], 0.01, rate=25.0).round(2)
    array([0.97])
    """
    return count_still(trajectories, threshold, rate) / (sum(map(len, trajectories)) - len(trajectories) or math.nan)


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def count_still(trajectories: Trajectories, threshold: npt.ArrayLike, rate: float | None = None) -> FloatArray:
    """Count the frames in which each action of (T, k) trajectories rests, (k,); see `share_still`."""
    joined = _Joined.of(trajectories)
    holds, _ = joined.holds_and_moves(threshold, rate)
    held = np.bincount(joined.sequence[holds[:, 0]] // joined.sequences, holds[:, 1] - holds[:, 0], joined.k)
    return joined.where_finite(held)


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def find_holds(actions: FloatArray, threshold: npt.ArrayLike, rate: float | None = None) -> list[IntArray]:
    """Return first and last frame of every hold, (n, 2), of each action of (T, k) actions; see `share_still`.

    What is not finite has none.

    >>> find_holds(np.array([[0.0], [0.0], [0.0], [0.0], [1.0], [2.0], [3.0]]), 0.01)[0].tolist()
    [[0, 3]]
    """
    found = []
    for column, width in zip(actions.T, np.broadcast_to(threshold, actions.shape[1:]), strict=True):
        holds = np.empty((0, 2), dtype=np.intp)
        if len(column) and np.isfinite(column).all():
            holds, _ = _Joined.of([column[:, np.newaxis]]).holds_and_moves(width, rate)
        found.append(holds - 1)  # a frame that holds is as the one before it
    return found


@dataclass(frozen=True)
class Motion:
    """How one action moves; times are in seconds, or in frames where the rate is unknown.

    Attributes
    ----------
    reversals : float
        A minute, or per 1,000 frames.
    still : float
        The share of time in holds.
    hold, move : float
        Median lengths of holds, and of moves: what is between holds and reversals. NaN where there is none.
    sparc, ldlj : float
        Spectral arc length and log dimensionless jerk, medians over moves; higher is smoother.
    speed, acceleration : tuple of float
        Their 50th and 95th percentiles, in the action's unit.
    """

    reversals: float
    still: float
    hold: float
    move: float
    sparc: float
    ldlj: float
    speed: tuple[float, float]
    acceleration: tuple[float, float]

    def to_dict(self) -> dict[str, float]:
        """Return all of it by name; percentiles as `speed_50`, `speed_95` and so on."""
        names = ("reversals", "still", "hold", "move", "sparc", "ldlj")
        found: dict[str, float] = {name: getattr(self, name) for name in names}
        for name in ("speed", "acceleration"):
            found |= zip((f"{name}_50", f"{name}_95"), getattr(self, name), strict=True)
        return found


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def measure_motion(trajectories: Trajectories, logs: Sequence[Log], rate: float | None = None) -> tuple[Motion, ...]:
    """Measure how each action of (T, k) trajectories moves, by the logs of the expert's.

    >>> sway = np.sin(2 * np.pi * np.arange(1500)[:, np.newaxis] / 50)  # for a minute, in two seconds each
    >>> from simile.data.logs import know_log
    >>> (motion,) = measure_motion([sway], know_log([sway]), rate=25.0)
    >>> round(motion.reversals), motion.still, motion.move
    (60, 0.0, 1.0)
    """
    threshold = [log.threshold for log in logs]
    reversals, still = rate_reversals(trajectories, threshold, rate), share_still(trajectories, threshold, rate)
    joined = _Joined.of(trajectories)
    holds, moves = joined.holds_and_moves(threshold, rate)
    found = []
    for j, log in enumerate(logs):
        column = [a[:, [j]] for a in trajectories]
        mine = [spans[joined.sequence[spans[:, 0]] // joined.sequences == j] for spans in (holds, moves)]
        hold, move = (_median((spans[:, 1] - spans[:, 0]) / (rate or 1.0)) for spans in mine)
        some = mine[1][:: -(-len(mine[1]) // MOST_MOVES) or 1]
        paths = [joined.path(begin, end)[:, np.newaxis] for begin, end in some]
        first, second, third = log.strides
        found.append(
            Motion(
                float(reversals[j]),
                float(still[j]),
                hold,
                move,
                _median([spectral_arc_length(p[::first], rate=(rate or 1.0) / first)[0] for p in paths]),
                _median([log_dimensionless_jerk(p[::third])[0] for p in paths]),
                *(_percentiles(column, n, s, rate) for n, s in ((1, first), (2, second))),
            )
        )
    return tuple(found)


def tell_motion(
    names: Sequence[str], logs: Sequence[Log], trajectories: Trajectories, rate: float | None = None
) -> tuple[str, ...]:
    """Say in a line per action what its log is worth, and how it moves.

    >>> square = np.repeat([0.0, 1.0] * 10, 30)[:, np.newaxis]
    >>> tell_motion(["pan"], [Log(0.01, 0.03, (0.02, 0.04), 20.0)], [square], 10.0)
    ('pan: resolution 0.01, noise 0.03, still 97 % of the time, 18 reversals a minute',)
    """
    threshold = [log.threshold for log in logs]
    turns, still = rate_reversals(trajectories, threshold, rate), share_still(trajectories, threshold, rate)
    lines = []
    for name, log, reversals, rests in zip(names, logs, turns, still, strict=True):
        said = [
            f"{what} {value:.3g}" for what, value in (("resolution", log.resolution), ("noise", log.noise)) if value
        ]
        said += [] if math.isnan(rests) else [f"still {100.0 * rests:.0f} % of the time"]
        digits = ".0f" if reversals >= 10.0 else ".2g"
        said.append(f"{reversals:{digits}} reversals {'a minute' if rate else 'per 1,000 frames'}")
        lines.append(f"{name}: {', '.join(said)}")
    return tuple(lines)


@dataclass(frozen=True, eq=False)
class _Joined:
    """All actions of all sequences behind one another: first that of all sequences, then the next."""

    values: FloatArray
    sequence: IntArray  # of each value; those of the second action count on
    first: IntArray  # where each begins
    sequences: int
    k: int

    @classmethod
    def of(cls, trajectories: Trajectories) -> _Joined:
        lengths = np.array([len(a) for a in trajectories])
        table = np.concatenate(trajectories)
        k = table.shape[1]
        each = np.tile(lengths, k)
        sequence = np.repeat(np.arange(len(each)), each)
        return cls(np.ascontiguousarray(table.T).ravel(), sequence, np.cumsum(each) - each, len(lengths), k)

    def widths(self, threshold: npt.ArrayLike) -> FloatArray:
        return np.broadcast_to(np.asarray(threshold, dtype=np.float64), (self.k,)) / 2.0

    def play(self, widths: FloatArray, start: FloatArray | None = None) -> FloatArray:
        """Follow with play, by a prefix scan of clamps; one whose ends have met forgets all that was before."""
        each = np.repeat(widths, len(self.values) // self.k)
        low, high = self.values - each, self.values + each
        begin = self.values[self.first] if start is None else start
        low[self.first] = high[self.first] = np.minimum(np.maximum(begin, low[self.first]), high[self.first])
        reach, open_ = 1, np.flatnonzero(low < high)
        while len(open_):
            bottom, top, before = low[open_], high[open_], open_ - reach
            low[open_], high[open_] = (np.minimum(np.maximum(x[before], bottom), top) for x in (low, high))
            reach, open_ = 2 * reach, open_[low[open_] < high[open_]]
        return low

    def steps(self, values: FloatArray) -> FloatArray:
        """Return what each frame adds to the one before; 0 at the first of a sequence."""
        steps = np.diff(values, prepend=values[:1])
        steps[self.first] = 0.0
        return steps

    def where_finite(self, found: IntArray | FloatArray) -> FloatArray:
        """Return what was found of each action, NaN where one is not finite."""
        return np.where(np.isfinite(self.values).reshape(self.k, -1).all(axis=1), found, math.nan)

    def holds_and_moves(self, threshold: npt.ArrayLike, rate: float | None) -> tuple[IntArray, IntArray]:
        """Return first and end of the frames that hold, and of those that move one way, (n, 2) each."""
        widths = self.widths(threshold)
        shortest = max(HELD_FRAMES, math.ceil(HELD_SECONDS * (rate or 0.0)))
        steps = self.steps(self.play(widths))
        travelled, slack = np.cumsum(np.abs(steps)), np.repeat(2.0 * CREEP * widths, len(steps) // self.k)[shortest:]
        still = travelled[shortest:] - travelled[:-shortest] <= slack
        still &= self.sequence[shortest:] == self.sequence[:-shortest]
        # Each still window opens after its first frame and closes after its last.
        open_ = np.zeros(len(steps) + 1, dtype=np.intp)
        open_[1 : 1 + len(still)] += still
        open_[1 + shortest : 1 + shortest + len(still)] -= still
        ways = (steps > 0.0).astype(np.int8) - (steps < 0.0).astype(np.int8)
        ways[self.first] = BORDER  # no time passes there
        # A rest that is too short for a hold belongs to the move before it.
        ways = ways[np.flatnonzero(ways)[np.cumsum(ways != 0) - 1]]
        ways[np.cumsum(open_[:-1]) > 0] = 0
        spans = _spans(ways)
        way = ways[spans[:, 0]]
        return spans[way == 0], spans[np.abs(way) == 1]

    def path(self, begin: int, end: int) -> FloatArray:
        """Return the actions of a move, with those before and after it that go the same way, below the threshold."""
        here = self.sequence[begin]
        low, high = self.first[here], self.first[here + 1] if here + 1 < len(self.first) else len(self.values)
        along = np.diff(self.values[low:high]) * np.sign(self.values[end - 1] - self.values[begin - 1]) > 0.0
        before, after = np.flatnonzero(~along[: begin - 1 - low]), np.flatnonzero(~along[end - 1 - low :])
        start = low + (before[-1] + 1 if len(before) else 0)
        return self.values[start : end + after[0] if len(after) else high]


def _spans(states: npt.NDArray[np.int8]) -> IntArray:
    """Return first and end of every run of equal states, (n, 2)."""
    edges = np.flatnonzero(np.diff(states)) + 1
    return np.column_stack([np.append(0, edges), np.append(edges, len(states))])


def _median(values: npt.ArrayLike) -> float:
    known = np.asarray(values)[np.isfinite(values)]
    return float(np.median(known)) if len(known) else math.nan


def _percentiles(column: Trajectories, order: int, stride: int, rate: float | None) -> tuple[float, float]:
    found = np.concatenate([np.abs(difference(a, order, stride)) for a in column])
    middle, high = np.percentile(found, (50.0, 95.0)) if len(found) else (math.nan, math.nan)
    return float(middle) * (rate or 1.0) ** order, float(high) * (rate or 1.0) ** order
