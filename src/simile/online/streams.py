"""Streams: what `Predictor` and `PredictorPool` are faces of. Here contexts are checked and streams are numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray, IntArray
from simile.data.names import list_some
from simile.data.timing import tell_lead
from simile.errors import ArgumentError
from simile.online import inputs
from simile.online.engines import GeneralEngine, engine_of, explain_missing
from simile.online.gaps import Blind, Extrapolate, Gap, no_trend
from simile.online.gauge import Gauge
from simile.online.history import Mark
from simile.online.preparing import Preparer
from simile.online.snapshots import State
from simile.policies.bands import Banded
from simile.policies.cards import Card
from simile.policies.policies import Policy, acting, offset, timing, trend
from simile.policies.rollouts import ColdStart, GivenStart, find_first
from simile.policies.stages import Chain, Stage

if TYPE_CHECKING:
    from simile.online.recording import Recorder
    from simile.online.tracks import Track


class Streams:
    """n copies of a policy at work, each with a past of its own; the parameters are those of `PredictorPool`."""

    def __init__(
        self,
        policy: Policy,
        n_streams: int,
        *,
        start: Any,
        gap: Gap,
        stages: Sequence[Stage],
        rate: float | None,
        seed: int,
    ) -> None:
        checks.instance(policy, "policy", needs="act")
        checks.instance(gap, "gap", needs="__call__")
        card = getattr(policy, "card", None) or Card()
        self.names = card.context_names
        self.rate = card.rate if rate is None else checks.rate(rate)
        self.seed = checks.whole_number(seed, "seed")
        self.policy = policy
        self._first = find_first(policy)
        self._shift = policy.units.shift
        one = acting(policy)
        self.gap, self._trend = gap, trend(one)
        if self._trend is None and isinstance(gap, Extrapolate):
            raise no_trend(one)
        self.memory = one.memory
        self.engine = engine_of(one, n_streams, self.seed, policy.n_contexts or len(self.names))
        self.history = self.engine.history
        self.chain = Chain(stages, n_streams, policy.n_actions, self.rate, self.engine.bounds.reason)
        self.everyone = np.arange(n_streams)
        self.preparer = Preparer(policy, card, n_streams, self.chain.stages)
        self.gauge: Gauge | None = None  # of bands, once somebody asks for one
        self._known = np.zeros(n_streams, np.bool_)  # did it begin at known actions?
        self.reset(self.everyone, start)

    @property
    def n_contexts(self) -> int:
        """Dimension m of a context; 0 where only the first one will tell."""
        return self.history.n_contexts

    @property
    def n_actions(self) -> int:
        """Dimension k of an action."""
        return self.policy.n_actions

    @property
    def lead(self) -> int:
        """How many frames after the one that has come the answer is for; below 0 before it (`Horizon`)."""
        return -self.history.ahead

    def reset(self, streams: IntArray, start: Any, *, actuators: bool = True) -> None:
        """Forget all about some streams; `start` is None for a cold start, or known actions as in `GivenStart`.

        Without `actuators`, the stages know where these are: they go on from there.
        """
        past = self._read_start(start, len(streams))
        self.history.forget(streams)
        self.preparer.forget(streams)
        self._known[streams] = past is not None
        if self.gauge is not None:
            self.gauge.reset(streams)
        if actuators:
            self.chain.reset(streams)
        if past is None:
            return
        units = self.policy.units
        self.history.begin(streams, [units.standardize(self.chain.undo(p)) for p in past])
        self._stand(streams)
        self.history.settle(streams, seen=False)
        for back in range(self.chain.depth, 0, -1):  # the actuators are where the known actions left them, and as fast
            self.chain.follow(streams, np.array([p[max(len(p) - back, 0)] for p in past]))

    def prepare_actions(self, streams: IntArray, A: FloatArray) -> FloatArray:
        """Return actions (n, k) of operators as the policy takes them, see `Preparer`."""
        return self.preparer.prepare_actions(streams, A, self.policy.units, self.history)

    def step(self, streams: IntArray, X: FloatArray) -> FloatArray:
        """Take a frame with contexts X (n, m); returns what to send, (n, k), NaN where a stream waits."""
        return self.send(streams, self.choose(streams, X))

    def miss(self, streams: IntArray) -> FloatArray:
        """Take a frame that brought no contexts; returns what to send, (n, k), NaN where a stream waits."""
        return self.send(streams, self.choose_blind(streams))

    def send(self, streams: IntArray, wanted: FloatArray) -> FloatArray:
        """Let what the policy wants (n, k) pass the stages; streams that wait send nothing."""
        if not self.history.wait:
            return self.chain(streams, wanted)
        waits = np.isnan(wanted)
        if not waits.any():
            return self.chain(streams, wanted)
        ready = ~waits.any(axis=1)
        wanted[ready] = self.chain(streams[ready], wanted[ready])
        return wanted

    def choose(self, streams: IntArray, X: FloatArray) -> FloatArray:
        """Take a frame with contexts X (n, m); returns what the policy wants, (n, k), which no stage has seen."""
        # Of many streams some have often not begun; that these here have is quickly seen.
        new = self.history.n_unseen > 0 and not self.history.seen[streams].all()
        if new:
            self._welcome(streams, X)
        advance = self._advance_some if self.history.wait else self._advance if new else self.engine.advance
        actions = advance(streams, self._shift(X))
        if new:
            self.history.settle(streams, seen=True)
        return actions

    def _advance(self, streams: IntArray, X: FloatArray) -> FloatArray:
        """Take a frame of streams some of which may begin cold: their first action is where experts began."""
        cold = self._find_cold(streams)
        stood = self.history.position[streams[cold]]
        actions = self.engine.advance(streams, X)
        actions[cold] = self._begin(streams[cold], stood, actions[cold])
        return actions

    def _find_cold(self, streams: IntArray) -> Any:
        """Tell which streams have no action yet, neither a known one nor their own, (n,)."""
        return ~self._known[streams] & (self.history.frame[streams] == 0)

    def _begin(self, streams: IntArray, stood: FloatArray, actions: FloatArray) -> FloatArray:
        """Return the first actions (n, k) of cold starts, from where the output stood, within their bounds."""
        if self._first is None or not len(streams):
            return actions
        wanted = self.history.last(streams)
        within = np.clip(wanted, *self._first)
        if (within != wanted).any():
            actions = self._redo(streams, stood, within)
        return self.policy.space.begin(actions)

    def _redo(self, streams: IntArray, stood: FloatArray, wanted: FloatArray) -> FloatArray:
        """Put other actions (n, k), in standard units, in the place of the last, which the policy chose."""
        kept = self.history.offset[streams]
        self.history.amend(streams, wanted)
        self.history.offset[streams], self.history.position[streams] = kept, stood
        return self.engine.bounds.restore(self.history.output(streams, wanted))

    def _advance_some(self, streams: IntArray, X: FloatArray) -> FloatArray:
        """Take a frame of streams some of which may wait: what these want is NaN."""
        ready = self._ready(streams)
        if ready.all():
            return self._advance(streams, X)
        actions = np.full((len(streams), self.n_actions), np.nan)
        if ready.any():
            actions[ready] = self._advance(streams[ready], X[ready])
        self.history.linger(streams[~ready], X[~ready])
        return actions

    def _ready(self, streams: IntArray) -> Any:
        """Tell which streams have waited long enough to act, (n,)."""
        return self.history.waited[streams] == self.history.wait

    def flush(self, streams: IntArray) -> Iterator[FloatArray]:
        """End the sequences of streams that `find_due` found: take frames after the last, as if its context had lasted.

        They are as many as the policy waits. Yields what to send in each, (n, k); NaN where nothing is due yet.
        """
        for _ in range(self.history.wait if len(streams) else 0):
            yield self.send(streams, self._advance_some(streams, self.history.last_contexts(streams)))

    def find_due(self, streams: IntArray) -> IntArray:
        """Return those of the streams that have frames without an answer, and saw a context."""
        return streams[self.history.seen[streams] & (self.history.waited[streams] > 0)]

    def choose_blind(self, streams: IntArray) -> FloatArray:
        """Take a frame that brought no contexts; returns what the gap wants, (n, k), which no stage has seen."""
        self._require_past(streams)
        ready = self._ready(streams)
        actions = np.full((len(streams), self.n_actions), np.nan)
        actions[ready] = self._commit_blind(streams[ready], self._act_blind(streams[ready]))
        self.history.linger(streams[~ready], None)
        return actions

    def step_some(self, streams: IntArray, X: FloatArray, present: Any) -> FloatArray:
        """Take a frame that brought contexts to those of the streams that are `present`."""
        gone, here = streams[~present], streams[present]
        actions = np.empty((len(streams), self.n_actions))
        late = gone[~self._ready(gone)]
        self._require_past(gone)
        gone = gone[self._ready(gone)]
        blind = self._act_blind(gone)  # nothing has changed if this fails, nor if the next line does
        actions[present] = self.step(here, X[present]) if len(here) else actions[:0]
        self.history.linger(late, None)
        actions[~present] = np.nan
        actions[np.isin(streams, gone)] = self.chain(gone, self._commit_blind(gone, blind))
        return actions

    def override(self, streams: IntArray, A: FloatArray, X: FloatArray | None) -> FloatArray:
        """Take a frame in which operators act, by A (n, k) in the user's units; X (n, m) is None where unknown."""
        standard = self.policy.units.standardize(self.chain.undo(A))
        new = ~self.history.begun[streams]
        self.history.hold(streams[new], standard[new])
        if X is not None and self.history.n_unseen:
            self._see(streams, X)
        shifted, ready = None if X is None else self._shift(X), self._ready(streams)
        if not ready.all():  # no frame has an answer yet: what is done is where the first one begins
            self.history.linger(streams[~ready], None if shifted is None else shifted[~ready])
            self.history.hold(streams[~ready], standard[~ready])
            self._known[streams[~ready]] = True
        self.history.push(streams[ready], None if shifted is None else shifted[ready])
        self.history.commit(streams[ready], standard[ready])
        self.history.amend(streams, standard)
        self.history.settle(streams, seen=X is not None)
        self.chain.follow(streams, A)
        return A.copy()

    def measure(self, streams: IntArray, sent: FloatArray, level: float | FloatArray, *, led: bool = False) -> Banded:
        """Return the bands of a frame that was taken, around what is sent (n, k); `led` where operators acted.

        Without `measure_asked` in the frames between, to be asked for in every frame, or else a band begins anew.
        """
        self.ask_band(streams, level)
        self.measure_asked(streams, led=led)
        return self.tell_band(streams, sent)

    def ask_band(self, streams: IntArray, level: float | FloatArray) -> None:
        """Have bands measured in these streams from now on, at a level that was checked, of all or of each."""
        self.require_band().level[streams] = level

    def measure_asked(self, streams: IntArray, *, led: bool = False) -> None:
        """Measure a frame that was taken, in those of the streams whose bands were asked for, and that do not wait."""
        if self.gauge is None:
            return
        some = streams[(self.gauge.level[streams] > 0.0) & (self.history.frame[streams] > 0)]
        if len(some):
            (self.gauge.override if led else self.gauge.step)(some, self._known[some])

    def tell_band(self, streams: IntArray, sent: FloatArray) -> Banded:
        """Return the latest bands, around what is restored, (n, k); they have no width where none was measured."""
        restored = self.preparer.restore(sent)
        if self.gauge is None:
            return Banded(restored, restored, restored, np.zeros(len(streams), np.bool_))
        found = self.gauge.draw(streams, sent)
        moved = 0.0 if restored is sent else restored - sent
        return replace(found, actions=restored, low=found.low + moved, high=found.high + moved)

    def require_band(self) -> Gauge:
        """Return what measures bands; refuse a policy that carries none."""
        if self.gauge is None:
            self.gauge = Gauge(self.policy, self.history)
        return self.gauge

    def read_actions(self, streams: IntArray, A: Any, name: str) -> FloatArray:
        """Return the actions of operators as (n, k), prepared; refuse what is none."""
        actions = inputs.read_actions(A, name, (len(streams), self.n_actions))
        return self.prepare_actions(streams, self.engine.bounds.check_given(actions, name))

    def warn_of_restarts(self) -> None:
        """Say which streams' stages began anew since the last call, as a warning of Python."""
        self.chain.warn_of_restarts("stream", stacklevel=5)

    def amend(self, streams: IntArray, A: FloatArray) -> FloatArray:
        """Put an operator's actions A (n, k) in the place of those of the last frame."""
        self.history.amend(streams, self.policy.units.standardize(self.chain.undo(A)))
        self.chain.amend(streams, A)
        if self.gauge is not None:
            self.gauge.settle(streams)
        return A.copy()

    def restart(self, streams: IntArray, X: FloatArray | None) -> None:
        """Go on after a long pause: the last actions were held, X (n, m) or the last contexts lasted; all rests."""
        if self.history.seen[streams].all():  # else the first context is still to come, and will have lasted anyway
            last = self.history.last_contexts(streams) if X is None else self._shift(X)
            self.history.hold_contexts(streams, last)
        self.history.rest(streams, self.history.last(streams))
        self.chain.rest(streams)

    def rewrite(self, streams: IntArray, A: FloatArray) -> None:
        """Let the policy believe that it wanted A (n, k), in the user's units, in the last frame."""
        kept = self.history.offset[streams]
        self.history.amend(streams, self.policy.units.standardize(A))
        self.history.offset[streams] = kept

    # ------------------------------------------------------------------------------------------------------- recording

    def record(self, recorder: Recorder, names: Sequence[str]) -> Track:
        """Return the track of a recorder that notes these streams, by their names."""
        self.chain.watched = True
        track = recorder.track(self.policy, rate=self.rate)
        for slot, name in enumerate(names):
            track.begin(slot, name)
        return track

    def note(
        self,
        track: Track,
        streams: IntArray,
        X: FloatArray | None,
        A: FloatArray,
        who: str = "policy",
        t: float | None = None,
        numbers: Sequence[int] | None = None,
    ) -> None:
        """Note the last frame of these streams: contexts X (n, m) and what was sent, A (n, k), NaN where they wait.

        Numbers are those of the frames that came, whichever the action is for; by default they are counted.
        """
        X = self.preparer.restore_contexts(X)
        named = self.history.frame[streams] + self.history.waited[streams] - 1 if numbers is None else numbers
        limited = self.chain.limited[streams] if self.chain.stages and who != "operator" else None
        if not self.history.wait or not (waits := np.isnan(A).any(axis=1)).any():
            track.note(streams, named, X, self.preparer.restore(self.chain.undo(A)), who, limited, t)
            return
        for rows, acted in ((waits, "waiting"), (~waits, who)):
            if rows.any():
                x, held = None if X is None else X[rows], None if limited is None else limited[rows]
                sent = self.preparer.restore(self.chain.undo(A[rows]))
                track.note(streams[rows], np.asarray(named)[rows], x, sent, acted, held, t)

    # ----------------------------------------------------------------------------------------------------------- state

    def mark(self, streams: IntArray) -> Mark:
        """Return what `withdraw` needs to take back the frame that comes next."""
        return self.history.mark(streams)

    def withdraw(self, streams: IntArray, mark: Mark) -> None:
        """Take back the frame since `mark`, of what the policy knows; the stages are not asked to."""
        self.history.withdraw(streams, mark)

    def adopt(self, other: Streams, streams: IntArray | None = None) -> None:
        """Go on from the past of `other`, in all streams or some; its policy may have other lags and units.

        Its lead must be the same (`check_fits`): frames that wait for an answer would be others.
        """
        ours, theirs = self.policy.units, other.policy.units
        some = self.everyone if streams is None else streams
        live = some[other.history.begun[some]]
        past = other.history.state(live)
        if offset(other.policy) is None:
            del past["offset"]  # then it is taken anew
        if not (np.array_equal(ours.center, theirs.center) and np.array_equal(ours.scale, theirs.scale)):
            for name in ("actions", "position"):  # else the bits would change for nothing
                past[name] = ours.standardize(theirs.restore(past[name]))
            if "offset" in past:
                past["offset"] = past["offset"] * theirs.scale / ours.scale
        if other.n_contexts and not ours.equals(theirs):
            past["contexts"] = ours.shift(theirs.shift_back(past["contexts"]))
        if other.n_contexts == 0:  # none has come yet
            past["contexts"] = np.zeros((len(live), 1, self.n_contexts))
        self.history.forget(some)
        with np.errstate(over="ignore"):
            self.history.load(live, past)
        self._known[some] = other._known[some]
        self.preparer.last[some] = other.preparer.last[some]
        if self.gauge is not None:  # what it measured was of another past
            self.gauge.reset(some)
        if self.chain.sent.shape == other.chain.sent.shape:
            self.chain.load(some, other.chain.sent[some], other.chain.moving[some])
            return
        self.chain.reset(some)
        begun = some[self.history.begun[some]]
        for back in range(self.chain.depth, 0, -1):
            held = other.history.position[begun] - other.history.last(begun)  # 0 but for a hysteresis
            wanted = other.history.past_actions(begun, min(back, other.history.reach))[:, -1]
            sent = other.chain.look_back(begun, back) if other.chain.stages else theirs.restore(wanted + held)
            self.chain.follow(begun, sent)

    def check_fits(self, other: Policy, name: str) -> None:
        """Refuse a policy that acts for other frames than this one, or on angles of another turn."""
        lead = timing(other)[0]
        if lead != self.lead:
            told = [tell_lead(n, self.rate) or "answers every frame at once" for n in (lead, self.lead)]
            raise ArgumentError(
                f"{name} must have the lead of these streams, {self.lead} frames; got {lead}: it {told[0]}, and the "
                f"one at work {told[1]}: train it with the same lead, or begin streams of its own"
            )
        ours, theirs = self.policy.card.preparation, other.card.preparation
        if not (ours.agrees(theirs) and theirs.agrees(ours)):
            raise ArgumentError(
                f"{name} must bring {list_some({**ours.wraps, **theirs.wraps})} to the turn that the one at work does: "
                "train both with the same wraps=..., or begin streams of its own"
            )

    def state(self, streams: IntArray | None = None) -> State:
        """Return all that is needed to go on elsewhere: what the policy must look like, and the streams' past.

        That of all, or of some, in their order: "n_streams" is how many there can be.
        """
        some = self.everyone if streams is None else streams
        past = self.history.state(some)
        if self.history.passed is None:  # then it is the last action
            del past["position"]
        if offset(self.policy) is None:
            del past["offset"]
        known = self._known[some] & (self.history.frame[some] == 0)  # later it is of no use
        return {
            "n_streams": len(self.everyone),
            "n_contexts": self.n_contexts,
            "n_actions": self.n_actions,
            "reach": self.history.reach,
            "memory": self.memory,
            "n_stages": len(self.chain.stages),
            "rate": math.nan if self.rate is None else self.rate,
            **({"lead": self.lead} if self.lead else {}),
            "seed": self.seed,
            **({} if self.policy.units.origin is None else {"context_origin": self.policy.units.origin.copy()}),
            "sent": self.chain.sent[some],
            "moving": self.chain.moving[some],
            **past,
            **({"known": known} if known.any() else {}),
            **({"turned": self.preparer.last[some]} if self.preparer.last.size else {}),
            **({} if self.gauge is None else {"band": self.gauge.state(some)}),
        }

    def expect(self, state: Any) -> None:
        """Make room for bands, where a state that is to be loaded has them."""
        if isinstance(state, dict) and "band" in state:
            self.require_band()

    def load(self, state: State, streams: IntArray | None = None) -> None:
        """Take over what `state` returned of all streams, or of these; it was checked."""
        some = self.everyone if streams is None else streams
        self.history.load(some, state)
        self._known[some] = state.get("known", False)
        self.preparer.last[some] = state.get("turned", self.preparer.last[some])
        self.chain.load(some, state["sent"], state["moving"])
        if self.gauge is not None and "band" in state:
            self.gauge.load(some, state["band"])
        elif self.gauge is not None:  # nobody asked where it comes from
            self.gauge.reset(some)
        self.seed = int(state["seed"])
        if isinstance(self.engine, GeneralEngine) and self.engine.draws is not None:
            self.engine.draws.reseed(self.seed)

    # ---------------------------------------------------------------------------------------------------------- helpers

    def _read_start(self, start: Any, n: int) -> list[FloatArray] | None:
        """Return the known actions (any, k) of each stream, in the user's units; None for a cold start."""
        if start is None or isinstance(start, ColdStart):
            return None
        if callable(start) and not isinstance(start, GivenStart):
            raise ArgumentError(
                f"start must be known actions, or None for a cold start; got {start!r}: let an expert begin by "
                "override(action, x)"
            )
        given = start if isinstance(start, GivenStart) else GivenStart(start)
        opening = given(self.policy, [np.empty((0, 0))] * n, None)
        past = [np.concatenate(both) for both in zip(opening.past, opening.given, strict=True)]
        if wrong := next((p.shape[1] for p in past if p.shape[1] != self.n_actions), 0):
            raise ArgumentError(f"start must have the policy's {self.n_actions} actions; got {wrong}")
        return [self.preparer.prepare_past(self.engine.bounds.check_given(p, "start")) for p in past]

    def _welcome(self, streams: IntArray, X: FloatArray) -> None:
        """Give streams that see their first contexts X (n, m) a past; it counts once the frame is taken."""
        self._see(streams, X)
        cold = ~self.history.begun[streams]
        if cold.any():
            with explain_missing(lambda: X[cold]):
                guess = ColdStart()(self.policy, [x[np.newaxis] for x in X[cold]], None).past
            self.history.hold(streams[cold], self.policy.units.standardize(np.concatenate(guess)))
            self._stand(streams[cold])

    def _stand(self, streams: IntArray) -> None:
        """Let what is done begin within the bounds, wherever the past was."""
        bounds, position = self.engine.bounds, self.history.position
        position[streams] = np.clip(position[streams], bounds.low, bounds.high)

    def _see(self, streams: IntArray, X: FloatArray) -> None:
        if self.n_contexts == 0:
            self.history.widen(X.shape[1])
        new = ~self.history.seen[streams]
        self.history.hold_contexts(streams[new], self._shift(X[new]))

    def _act_blind(self, streams: IntArray) -> FloatArray:
        """Choose the actions (n, k), in standard units, of streams without a context in this frame."""
        self.history.push(streams, None)
        actions = self.history.last(streams)
        seen = self.history.seen[streams]
        if seen.any():
            actions[seen] = self.gap(self._look(streams[seen]))
        return self.engine.bounds.check(actions, streams, self.history.frame[streams])

    def _require_past(self, streams: IntArray) -> None:
        """Refuse streams of which nothing is known yet."""
        if not self.history.begun[streams].all():
            first = int(streams[np.argmin(self.history.begun[streams])])
            raise ArgumentError(
                f"x: nothing is known yet of stream {first}, neither a context nor a past: give the first frame's "
                "context, or start=... with the last known action"
            )

    def _commit_blind(self, streams: IntArray, blind: FloatArray) -> FloatArray:
        cold = self._find_cold(streams)
        stood = self.history.position[streams[cold]]
        self.history.commit(streams, blind, missed=True)
        actions = self.engine.bounds.restore(self.history.output(streams, blind))
        actions[cold] = self._begin(streams[cold], stood, actions[cold])
        return actions

    def _look(self, streams: IntArray) -> Blind:
        def trend() -> FloatArray:
            if self._trend is None:
                raise no_trend(self.policy)
            return self._trend(self.history.past_actions(streams, self._trend.order))

        return Blind(
            missed=self.history.missed[streams],
            held=lambda: self.history.last(streams),
            trend=trend,
            again=lambda: self.engine.act(streams),
        )
