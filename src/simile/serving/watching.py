"""Watching for trouble: contexts unlike those of the training, stuck sensors, actions at their bounds or trembling.

Frames are only noted as they come, and judged a few hundred at a time. So an event comes up to `WAVES` frames,
or one call of `events`, late: little beside the seconds that it takes to be sure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from simile import _checks
from simile._typing import FloatArray, IntArray
from simile.demonstrations import ActionSpace
from simile.errors import ArgumentError
from simile.online import Bounds
from simile.online.stages import Stage
from simile.policies import Policy

KINDS = ("drift", "stuck", "saturated", "oscillating")
ROWS = 512  # frames noted before they are judged
WAVES = 64  # batches noted before they are judged, and so the most frames of one stream
UNKNOWN_RATE = 30.0  # frames a second where neither the policy nor the user says


@dataclass(frozen=True)
class Thresholds:
    """When something is trouble. 0 turns a kind off; what is on goes off below `release` of its threshold."""

    drift: float = 0.5  # share of the recent contexts outside the training's range, in any one feature
    drift_seconds: float = 10.0  # how long "recent" is: the time constant of an exponential window
    stuck: float = 2.0  # seconds for which the whole context is the same, to the bit
    saturated: float = 0.5  # share of the recent actions at a bound, in any one action
    margin: float = 0.001  # share of the way between the bounds (or else of the expert's deviation) that counts as "at"
    oscillating: float = 3.0  # recent changes of direction a second, in any one action
    swing: float = 0.01  # share of the expert's deviation by which an action must go back for that
    action_seconds: float = 5.0  # how long "recent" is for actions
    release: float = 0.5

    def __post_init__(self) -> None:
        for one in fields(self):
            most = 1.0 if one.name in ("drift", "saturated", "margin", "release") else math.inf
            least = -math.inf if one.name in KINDS else 0.0  # of the kinds, 0 is allowed
            _checks.number(getattr(self, one.name), one.name, at_least=0.0, at_most=most, above=least)


class Event(NamedTuple):
    """A trouble of the stream in a slot that began or ended."""

    slot: int
    kind: str  # one of KINDS
    on: bool
    detail: dict[str, str | float]  # what is worst, and how bad it is


@dataclass(frozen=True, eq=False)
class Usual:
    """What a policy calls usual, in the user's units: the ranges of contexts, the bounds and swings of actions."""

    features: tuple[str, ...]
    actions: tuple[str, ...]
    low: FloatArray  # (m,); -inf where it is unknown
    high: FloatArray
    floor: FloatArray  # (k,); from here down an action is at its bound
    ceiling: FloatArray
    swing: FloatArray  # (k,)
    drift_known: bool

    @classmethod
    def of(cls, policy: Policy, stages: Sequence[Stage], thresholds: Thresholds) -> Self:
        """Read it off the policy, its card, and the `Bounds` among the stages."""
        card, k = policy.card, policy.n_actions
        m = policy.n_contexts or len(card.context_names)
        if not m:
            raise ArgumentError("policy: it does not say how many contexts it takes: give n_contexts, or their names")
        ranges = _ranges(card.training.get("ranges"), m)
        low, high = ranges or (np.full(m, -np.inf), np.full(m, np.inf))
        limits: list[ActionSpace | Bounds] = [policy.space, *(stage for stage in stages if isinstance(stage, Bounds))]
        bottom = np.max([np.broadcast_to(np.asarray(one.low), (k,)) for one in limits], axis=0)
        top = np.min([np.broadcast_to(np.asarray(one.high), (k,)) for one in limits], axis=0)
        scale, way = np.broadcast_to(policy.units.scale, (k,)), top - bottom
        margin = thresholds.margin * np.where(np.isfinite(way), way, scale)
        return cls(
            features=_names(card.context_names, m, "x"),
            actions=_names(card.action_names, k, "a"),
            low=low,
            high=high,
            floor=bottom + margin,
            ceiling=top - margin,
            swing=thresholds.swing * scale,
            drift_known=ranges is not None,
        )


class Monitor:
    """Judges the streams of a policy by their contexts and actions; streams are slots, as in a `PredictorPool`.

    Parameters
    ----------
    usual : Usual
        What is no trouble.
    rate : float or None
        Frames a second of each stream. None counts as 30, and no stream then oscillates.
    n_streams : int
        Slots.
    thresholds : Thresholds
        When something is trouble.
    """

    def __init__(self, usual: Usual, rate: float | None, n_streams: int, thresholds: Thresholds) -> None:
        self.usual, self.thresholds = usual, thresholds
        self.rate = UNKNOWN_RATE if rate is None else _checks.number(rate, "rate", above=0.0)
        n_streams = _checks.whole_number(n_streams, "n_streams", at_least=1)
        m, k, rows = len(usual.features), len(usual.actions), max(ROWS, n_streams)
        self.begun = dict.fromkeys(KINDS, 0)  # how often a trouble of each kind began
        self._limits = np.array([getattr(thresholds, kind) or math.inf for kind in KINDS])
        if rate is None:  # a valve that is set once a day may well go up and down
            self._limits[KINDS.index("oscillating")] = math.inf
        self._on = np.zeros((n_streams, len(KINDS)), np.bool_)
        self._changes: list[Event] = []
        # What was noted and not judged yet.
        self._noted = self._waves = 0
        self._slots, self._X, self._A = np.zeros(rows, np.intp), np.zeros((rows, m)), np.zeros((rows, k))
        # What is known of each stream. NaN in a last context or action: there was none yet.
        self._seen = np.zeros(n_streams, np.bool_)
        self._x, self._a = np.full((n_streams, m), np.nan), np.full((n_streams, k), np.nan)
        self._outside = np.zeros((n_streams, m))  # recent share of contexts outside the training's range
        self._same = np.zeros(n_streams)  # frames in a row with the context of the frame before
        self._bound = np.zeros((n_streams, k))  # recent share of actions at a bound
        self._turns = np.zeros((n_streams, k))  # recent share of frames in which the direction changed
        self._peak = np.zeros((n_streams, k))  # the furthest point in the direction in which it goes:
        self._way = np.zeros((n_streams, k))  # up is 1, down is -1

    @classmethod
    def of(
        cls,
        policy: Policy,
        rate: float | None,
        n_streams: int,
        *,
        stages: Sequence[Stage] = (),
        thresholds: Thresholds = Thresholds(),  # noqa: B008 - frozen
    ) -> Self:
        """Watch streams of this policy, whose actions go through these stages."""
        return cls(Usual.of(policy, stages, thresholds), rate, n_streams, thresholds)

    def adopt(self, policy: Policy, stages: Sequence[Stage] = ()) -> None:
        """Judge by another policy of the same columns from now on: it took over the streams."""
        self._judge()
        self.usual = Usual.of(policy, stages, self.thresholds)

    def see(self, slots: IntArray, X: FloatArray, A: FloatArray) -> None:
        """Note a frame of different streams: contexts X (n, m), all NaN where none came, and what was sent A (n, k)."""
        begin, end = self._noted, self._noted + len(slots)
        if end > len(self._slots):
            self._judge()
            begin, end = 0, len(slots)
        self._slots[begin:end], self._X[begin:end], self._A[begin:end] = slots, X, A
        self._noted, self._waves = end, self._waves + 1
        if self._waves >= WAVES or end >= ROWS:
            self._judge()

    def events(self) -> list[Event]:
        """Return what began and ended since the last call, in order; a few calls a second are enough."""
        self._judge()
        found, self._changes = self._changes, []
        return found

    def reset(self, slots: IntArray) -> None:
        """Forget the streams of these slots, which are to be used by others; their troubles end without an event."""
        self._judge()
        gone = {int(slot) for slot in np.atleast_1d(slots)}
        self._changes = [event for event in self._changes if event.slot not in gone]
        for state in (self._on, self._seen, self._outside, self._same, self._bound, self._turns, self._way):
            state[slots] = 0
        self._x[slots] = self._a[slots] = np.nan

    def troubles(self, live: IntArray) -> dict[str, int]:
        """Count those of the streams in these slots that are in trouble now, by kind."""
        self._judge()
        return dict(zip(KINDS, np.count_nonzero(self._on[live], axis=0).tolist(), strict=True))

    def drift(self, live: IntArray) -> dict[str, float]:
        """Return the recent share of contexts outside the training's range by feature, of these streams together."""
        self._judge()
        seen = live[self._seen[live]]
        if not self.usual.drift_known or not len(seen):
            return {}
        return dict(zip(self.usual.features, self._outside[seen].mean(axis=0).tolist(), strict=True))

    def _judge(self) -> None:
        n, self._noted, self._waves = self._noted, 0, 0
        if n == 0:
            return
        order = np.argsort(self._slots[:n], kind="stable")  # by stream, and then by time
        slots, X, A = self._slots[order], self._X[order], self._A[order]
        if not np.isnan(X[:, :1]).any():  # quick to see, and nearly always so
            self._judge_contexts(slots, X)
        elif (came := ~np.isnan(X).all(axis=1)).any():
            self._judge_contexts(slots[came], X[came])
        self._note_changes(self._judge_actions(slots, A))

    def _judge_contexts(self, slots: IntArray, X: FloatArray) -> None:
        who, first, last, counts = _runs(slots)
        usual, window = self.usual, self.thresholds.drift_seconds * self.rate
        _blend(self._outside, who, (usual.low > X) | (usual.high < X), first, counts, window)
        # Bits are compared, so that a value that stays missing is the same.
        changed = (X.view(np.int64) != _before(X, first, self._x[who]).view(np.int64)).any(axis=1)
        latest = np.maximum.reduceat(np.where(changed, np.arange(len(X)), -1), first)
        self._same[who] = np.where(latest < 0, self._same[who] + counts, last - latest)
        self._x[who] = X[last]
        self._seen[who] = True

    def _judge_actions(self, slots: IntArray, A: FloatArray) -> IntArray:
        who, first, last, counts = _runs(slots)
        usual, window = self.usual, self.thresholds.action_seconds * self.rate
        _blend(self._bound, who, (usual.floor >= A) | (usual.ceiling <= A), first, counts, window)
        self._peak[who] = np.where(np.isnan(self._a[who]), A[first], self._peak[who])
        _blend(self._turns, who, self._turned(who, A, first, last), first, counts, window)
        self._a[who] = A[last]
        return who

    def _turned(self, who: IntArray, A: FloatArray, first: IntArray, last: IntArray) -> NDArray[np.bool_]:
        """Mark where an action has gone back by more than a swing from the furthest point, (n, k)."""
        move = A - _before(A, first, self._a[who])
        ahead = np.zeros_like(move)
        ahead[:-1] = move[1:]
        ahead[last] = 0.0
        # Only where the direction changes, and at the end, can an action be further than before.
        column, row = np.nonzero(((move * ahead <= 0.0) & (move != 0.0)).T)
        slot = who[np.searchsorted(first, row, side="right") - 1]
        _, start, _, counts = _runs(column * len(self._on) + slot)
        rank = np.arange(len(row)) - np.repeat(start, counts)
        turned = np.zeros(A.shape, np.bool_)
        for turn in range(int(rank.max(initial=-1)) + 1):  # one point of every stream and action at a time
            now = rank == turn
            at, value = (slot[now], column[now]), A[row[now], column[now]]
            away, way = value - self._peak[at], self._way[at]
            far = np.abs(away) > self.usual.swing[column[now]]
            back, begins = far & (away * way < 0.0), far & (way == 0.0)
            self._peak[at] = np.where(back | begins | (away * way > 0.0), value, self._peak[at])
            self._way[at] = np.where(back | begins, np.sign(away), way)
            turned[row[now], column[now]] = back
        return turned

    def _note_changes(self, who: IntArray) -> None:
        levels = np.zeros((len(who), len(KINDS)))
        levels[:, 0] = self._outside[who].max(axis=1, initial=0.0)
        levels[:, 1] = self._same[who] / self.rate
        levels[:, 2] = self._bound[who].max(axis=1)
        levels[:, 3] = self._turns[who].max(axis=1) * self.rate
        was = self._on[who]
        on = levels >= np.where(was, self.thresholds.release * self._limits, self._limits)
        if (on == was).all():
            return
        self._on[who] = on
        for i, kind in np.argwhere(on != was):
            slot, name, begins = int(who[i]), KINDS[kind], bool(on[i, kind])
            self.begun[name] += begins
            self._changes.append(Event(slot, name, begins, self._detail(slot, name, float(levels[i, kind]))))

    def _detail(self, slot: int, kind: str, level: float) -> dict[str, str | float]:
        """Say what is worst, and how bad it is."""
        level = round(level, 3)
        if kind == "stuck":
            return {"seconds": level}
        if kind == "drift":
            return {"feature": self.usual.features[int(np.argmax(self._outside[slot]))], "share": level}
        if kind == "saturated":
            return {"action": self.usual.actions[int(np.argmax(self._bound[slot]))], "share": level}
        return {"action": self.usual.actions[int(np.argmax(self._turns[slot]))], "reversals_per_second": level}


def _runs(keys: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return the runs of equal keys: the key, the first and the last place, and the length of each."""
    first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1]))[: len(keys)])
    end = np.append(first[1:], len(keys))
    return keys[first], first, end - 1, end - first


def _before(values: FloatArray, first: IntArray, earlier: FloatArray) -> FloatArray:
    """Return the row before each row; `earlier` has those before the first of each run."""
    before = np.empty_like(values)
    before[1:] = values[:-1]
    before[first] = earlier
    return before


def _blend(
    shares: FloatArray, who: IntArray, marks: NDArray[np.bool_], first: IntArray, counts: IntArray, window: float
) -> None:
    """Let the marks (n, columns) of each stream's frames take their part in its shares of the last `window` frames."""
    keep = np.exp(-counts / window)[:, np.newaxis]
    recent = keep * shares[who]
    if marks.any():  # which is rare, and summing is slow
        row, column = np.nonzero(marks)
        owner = np.searchsorted(first, row, side="right") - 1
        total = np.bincount(owner * marks.shape[1] + column, minlength=recent.size).reshape(recent.shape)
        recent += (1.0 - keep) * total / counts[:, np.newaxis]
    shares[who] = recent


def _ranges(given: Any, m: int) -> tuple[FloatArray, FloatArray] | None:
    """Read the ranges (m,) of a card, which may come from anybody; None where they are not there or make no sense."""
    try:
        low, high = np.array([[np.nan if v is None else v for v in given[side]] for side in ("low", "high")], float)
    except (KeyError, OverflowError, TypeError, ValueError):
        return None
    known = low <= high
    if low.shape != (m,) or not known.any():
        return None
    return np.where(known, low, -np.inf), np.where(known, high, np.inf)


def _names(names: Sequence[str], n: int, letter: str) -> tuple[str, ...]:
    """Return n different names: those of the card, or numbered ones where it does not have them."""
    return tuple(names) if len(set(names)) == len(names) == n else tuple(f"{letter}{i}" for i in range(n))
