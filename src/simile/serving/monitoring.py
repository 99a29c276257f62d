"""Monitoring: contexts unlike those of the training, stuck sensors, actions at their bounds or trembling.

Every frame is judged as it comes, by `simile.serving.kernels`: here are the rules, and what there is to tell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray, IntArray
from simile.data.recorded import ActionSpace
from simile.errors import ArgumentError
from simile.online import Bounds
from simile.policies.policies import Policy
from simile.policies.stages import Conversion, Stage
from simile.serving import kernels

KINDS = ("drift", "stuck", "saturated", "oscillating")
UNSURE = "unsure"  # what the policy says of itself, of streams that ask for a band
UNKNOWN_RATE = 30.0  # frames a second where neither the policy nor the user says


@dataclass(frozen=True)
class Thresholds:
    """When something is trouble. 0 turns a kind off; what is on goes off below `release` of its threshold."""

    drift: float = 0.5  # share of the recent contexts outside the training's range, in any one feature
    drift_seconds: float = 10.0  # how long "recent" is: the time constant of an exponential window
    stuck: float = 2.0  # seconds for which the whole context is the same
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
            checks.number(getattr(self, one.name), one.name, at_least=0.0, at_most=most, above=least)


class Event(NamedTuple):
    """A trouble of the stream in a slot that began or ended."""

    slot: int
    kind: str  # one of KINDS, or UNSURE
    on: bool
    detail: dict[str, str | float]  # what is worst, and how bad it is


@dataclass(frozen=True, eq=False)
class Baseline:
    """What is usual for a policy, in the user's units: the ranges of contexts, the bounds and swings of actions."""

    features: tuple[str, ...]
    actions: tuple[str, ...]
    ranges: FloatArray  # (2, m): low and high; infinite where unknown
    bounds: FloatArray  # (3, k): from here down and from here up an action is at its bound; the least swing
    drift_known: bool

    @classmethod
    def of(cls, policy: Policy, stages: Sequence[Stage], thresholds: Thresholds) -> Self:
        """Read it off the policy, its card, and the `Bounds` among the stages."""
        card, k = policy.card, policy.n_actions
        m = policy.n_contexts or len(card.context_names)
        if not m:
            raise ArgumentError("policy: it does not say how many contexts it takes: give n_contexts, or their names")
        ranges = card.ranges(m)
        unknown = np.full(m, -np.inf), np.full(m, np.inf)
        limits: list[ActionSpace | Bounds] = [policy.space]
        for stage in stages:  # bounds before a conversion are of other units than what is sent
            limits = [ActionSpace()] if isinstance(stage, Conversion) else limits
            limits += [stage] if isinstance(stage, Bounds) else []
        bottom = np.max([np.broadcast_to(np.asarray(one.low), (k,)) for one in limits], axis=0)
        top = np.min([np.broadcast_to(np.asarray(one.high), (k,)) for one in limits], axis=0)
        scale, way = np.broadcast_to(policy.units.scale, (k,)), top - bottom
        margin = thresholds.margin * np.where(np.isfinite(way), way, scale)
        return cls(
            features=_choose_names(card.context_names, m, "x"),
            actions=_choose_names(card.action_names, k, "a"),
            ranges=np.array(ranges or unknown),
            bounds=np.array([bottom + margin, top - margin, thresholds.swing * scale]),
            drift_known=ranges is not None,
        )


class Monitor:
    """Judges the streams of a policy by their contexts and actions; streams are slots, as in a `PredictorPool`.

    Parameters
    ----------
    policy : Policy
        Whose streams they are; what is no trouble is read off it, see `Baseline`.
    rate : float or None
        Frames a second of each stream. None counts as 30, and no stream then oscillates.
    n_streams : int
        Slots.
    stages : sequence of Stage
        What the actions go through.
    thresholds : Thresholds
        When something is trouble.
    """

    def __init__(
        self,
        policy: Policy,
        rate: float | None,
        n_streams: int,
        *,
        stages: Sequence[Stage] = (),
        thresholds: Thresholds = Thresholds(),  # noqa: B008 - frozen
    ) -> None:
        self.thresholds = thresholds
        self.adopt(policy, stages)
        self.rate = UNKNOWN_RATE if rate is None else checks.number(rate, "rate", above=0.0)
        n_streams = checks.whole_number(n_streams, "n_streams", at_least=1)
        m, k = len(self.baseline.features), len(self.baseline.actions)
        self.begun = dict.fromkeys((*KINDS, UNSURE), 0)  # how often a trouble of each kind began
        limits = np.array([getattr(thresholds, kind) or math.inf for kind in KINDS])
        if rate is None:  # a valve that is set once a day may well go up and down
            limits[KINDS.index("oscillating")] = math.inf
        self._limits = np.array([limits, thresholds.release * limits])
        windows = np.array([thresholds.drift_seconds, thresholds.action_seconds]) * self.rate  # in frames
        self._keeps = np.exp(-1.0 / windows)
        self._no_contexts = np.empty((0, m))
        self._changes: list[Event] = []
        self._room = np.empty((len(KINDS) * n_streams, 4))
        # What is known of each stream, as `simile.serving.kernels` has it.
        self._contexts, self._actions = np.zeros((n_streams, 2, m)), np.zeros((n_streams, 4, k))
        self._same, self._seen = np.zeros(n_streams, np.intp), np.zeros(n_streams, np.bool_)
        self._on = np.zeros((n_streams, len(KINDS)), np.bool_)
        self._unsure = np.zeros(n_streams, np.bool_)
        self.reset(np.arange(n_streams))
        self.observe(np.arange(0), self._no_contexts, np.empty((0, k)))  # compiled now, not in the first frame

    def adopt(self, policy: Policy, stages: Sequence[Stage] = ()) -> None:
        """Judge by another policy of the same columns from now on: it took over the streams."""
        self.baseline = Baseline.of(policy, stages, self.thresholds)

    def observe(self, slots: IntArray, X: FloatArray | None, A: FloatArray) -> None:
        """Judge a frame of different streams: contexts X (n, m), all NaN where none came, and what was sent A (n, k).

        X is None where none came to anybody.
        """
        n = kernels.judge(
            slots,
            self._no_contexts if X is None else X,
            A,
            self.baseline.ranges,
            self.baseline.bounds,
            self._keeps,
            self._limits,
            self.rate,
            self._contexts,
            self._actions,
            self._same,
            self._seen,
            self._on,
            self._room,
        )
        for slot, kind, on, level in self._room[:n].tolist():
            self.begun[KINDS[int(kind)]] += bool(on)
            self._changes.append(self._describe_event(int(slot), KINDS[int(kind)], bool(on), round(level, 3)))

    def doubt(self, slots: IntArray, unsure: Any) -> None:
        """Note which of the streams in these slots are unsure now, (n,)."""
        changed = slots[self._unsure[slots] != unsure]
        self._unsure[slots] = unsure
        for slot in changed.tolist():
            on = bool(self._unsure[slot])
            self.begun[UNSURE] += on
            self._changes.append(Event(slot, UNSURE, on, {}))

    def events(self) -> list[Event]:
        """Return what began and ended since the last call, in order; a few calls a second are enough."""
        found, self._changes = self._changes, []
        return found

    def reset(self, slots: IntArray) -> None:
        """Forget the streams of these slots, which are to be used by others; their troubles end without an event."""
        gone = {int(slot) for slot in np.atleast_1d(slots)}
        self._changes = [event for event in self._changes if event.slot not in gone]
        for state in (self._contexts, self._actions, self._same, self._seen, self._on, self._unsure):
            state[slots] = 0
        self._contexts[slots, 0] = self._actions[slots, 2] = np.nan

    def troubles(self, live: IntArray) -> dict[str, int]:
        """Count those of the streams in these slots that are in trouble now, by kind."""
        judged = dict(zip(KINDS, np.count_nonzero(self._on[live], axis=0).tolist(), strict=True))
        return {**judged, UNSURE: int(np.count_nonzero(self._unsure[live]))}

    def drift(self, live: IntArray) -> dict[str, float]:
        """Return the recent share of contexts outside the training's range by feature, of these streams together."""
        seen = live[self._seen[live]]
        if not self.baseline.drift_known or not len(seen):
            return {}
        return dict(zip(self.baseline.features, self._contexts[seen, 1].mean(axis=0).tolist(), strict=True))

    def _describe_event(self, slot: int, kind: str, on: bool, level: float) -> Event:
        """Say what is worst, and how bad it is."""
        if kind == "stuck":
            return Event(slot, kind, on, {"seconds": level})
        if kind == "drift":
            worst = self.baseline.features[int(np.argmax(self._contexts[slot, 1]))]
            return Event(slot, kind, on, {"feature": worst, "share": level})
        shares = self._actions[slot, 0 if kind == "saturated" else 1]
        what = "share" if kind == "saturated" else "reversals_per_second"
        return Event(slot, kind, on, {"action": self.baseline.actions[int(np.argmax(shares))], what: level})


def _choose_names(names: Sequence[str], n: int, letter: str) -> tuple[str, ...]:
    """Return n different names: those of the card, or numbered ones where it does not have them."""
    return tuple(names) if len(set(names)) == len(names) == n else tuple(f"{letter}{i}" for i in range(n))
