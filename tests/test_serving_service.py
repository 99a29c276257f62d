"""The core of serving, without sockets: streams act as predictors of their own, and every frame is accounted for."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from served import NAMES, Played, check_conservation, listed, unstable
from simile import SimileError
from simile.online import AccelerationLimit, Bounds, Extrapolate, HoldAction, JerkLimit, Predictor, RateLimit
from simile.serving.messages import Frame
from simile.serving.monitoring import Monitor
from simile.serving.service import Service
from simile.serving.sessions import Refusal
from test_policies import affine
from test_predictor import STAGES, contexts_of, make, trained

# The generator of the bags wraps around on purpose; NumPy says so where numba is switched off.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in scalar:RuntimeWarning")

RNG = np.random.default_rng


# ------------------------------------------------------------------------------------- as predictors of their own do it


class Twin:
    """What the rules say of one stream, one frame at a time, with a predictor of its own."""

    def __init__(self, policy, gap, stages, start=None) -> None:
        self.predictor = Predictor(policy, gap=gap, stages=stages, start=start)
        self.longest = gap.frames if isinstance(gap, Extrapolate) else 30
        self.begun = start is not None
        self.n = self.taken = None
        self.queue: list = []
        self.lost = 0
        self.expected: list = []  # (n, a, by, is there an error?, lost)

    def put(self, n, x, override, depth: int) -> None:
        if n is None:
            n = 0 if self.n is None else self.n + 1
        elif self.n is not None and n <= self.n:
            self.lost += 1
            self.say(n, None, None, wrong=True)
            return
        self.n = n
        if len(self.queue) == depth:
            del self.queue[0]
            self.lost += 1
        self.queue.append((n, x, override))

    def run(self) -> None:
        for n, x, override in self.queue:
            self.take(n, x, override)
        self.queue = []

    def take(self, n, x, override) -> None:
        missing = 0 if self.taken is None else n - self.taken - 1
        self.taken = n
        if self.begun:
            for _ in range(missing if missing <= self.longest else 1):
                self.predictor.step(None)
        wrong = isinstance(x, str)
        if override is not None:
            a, by = self.predictor.override(override, x), "operator"
        elif x is not None and not wrong:
            a, by = self.predictor.step(x), "policy"
        elif self.begun:
            a, by = self.predictor.step(None), "gap"
        else:
            self.say(n, None, None, wrong=True)
            return
        self.begun = True
        self.say(n, a.tolist(), by, wrong)

    def give_up(self) -> None:
        self.lost += len(self.queue)
        self.queue = []
        self.n = self.taken

    def say(self, n, a, by, wrong: bool) -> None:
        self.expected.append((n, a, by, wrong, self.lost))
        self.lost = 0


class Interleavings(RuleBasedStateMachine):
    """Streams that come, go, stumble and are pushed about, beside their twins."""

    @initialize(
        kind=st.sampled_from(["forest", "forest", "tree", "mixture"]),
        gap=st.sampled_from([Extrapolate(), Extrapolate(frames=2), HoldAction()]),
        staged=st.booleans(),
        seed=st.integers(0, 2**32),
        watched=st.booleans(),
    )
    def begin(self, kind, gap, staged, seed, watched) -> None:
        self.policy, self.gap, self.stages = make(kind), gap, STAGES if staged else ()
        monitor = Monitor(self.policy, 20.0, 3) if watched else None
        self.served = Played(
            self.policy, gap=gap, stages=self.stages, max_streams=3, queue=2, monitor=monitor, handover=0.2
        )
        self.rng = RNG(seed)
        self.twins: dict[str, Twin] = {}
        self.streams: dict = {}

    @rule(name=st.sampled_from(NAMES), started=st.booleans())
    def open_anew(self, name, started) -> None:
        start = self.rng.normal(size=self.policy.n_actions).tolist() if started else None
        self.streams[name] = self.served.open(name, start=start)
        self.twins[name] = Twin(self.policy, self.gap, self.stages, start)
        self.served.answers[name] = []

    @precondition(lambda self: self.streams)
    @rule(data=st.data(), resumes=st.booleans())
    def disconnect_and_resume(self, data, resumes) -> None:
        name = data.draw(st.sampled_from(sorted(self.streams)))
        if not resumes:
            self.served.service.detach(self.streams[name])  # else the break goes unnoticed
        before = self.streams[name]
        self.streams[name] = self.served.open(name, resume=True)
        assert before.closed
        self.twins[name].give_up()

    @precondition(lambda self: self.streams)
    @rule(data=st.data())
    def close(self, data) -> None:
        name = data.draw(st.sampled_from(sorted(self.streams)))
        self.served.service.close(self.streams.pop(name))
        del self.twins[name]

    @precondition(lambda self: self.streams)
    @rule(
        data=st.data(),
        kind=st.sampled_from(["x", "x", "x", "named", "none", "wrong", "override", "blind override"]),
        jump=st.sampled_from([None, None, 1, 1, 2, 4, 40, 0, -3]),
    )
    def put(self, data, kind, jump) -> None:
        name = data.draw(st.sampled_from(sorted(self.streams)))
        twin = self.twins[name]
        n = None if jump is None else max(0, (twin.n or 0) + jump)
        x = self.rng.normal(size=self.policy.n_contexts)
        x[self.rng.random(len(x)) < 0.1] = np.nan
        given = listed(x)
        override = self.rng.normal(size=self.policy.n_actions).tolist() if "override" in kind else None
        if kind == "named":
            given = dict(reversed(list(zip(self.policy.card.context_names, given, strict=True))))
        if kind in ("none", "blind override"):
            given = x = None
        if kind == "wrong":
            given, x = [1.0] * 9, "wrong"
        self.served.put(self.streams[name], given, n, override)
        twin.put(n, x, override, 2)

    @rule()
    def run_all(self) -> None:
        self.served.service.run()
        for twin in self.twins.values():
            twin.run()

    @invariant()
    def answers_are_those_of_the_twins(self) -> None:
        for name, twin in getattr(self, "twins", {}).items():
            ours = [(a.n, a.a, a.by, a.error is not None, a.lost) for a in self.served.answers.get(name, [])]
            assert ours == twin.expected

    @invariant()
    def every_frame_is_answered_or_counted(self) -> None:
        if hasattr(self, "served"):
            check_conservation(self.served.service)


TestInterleavings = Interleavings.TestCase
TestInterleavings.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


# ----------------------------------------------------------------------------------------- what is lost, and is counted


def test_a_full_queue_drops_the_oldest_and_the_next_answer_tells():
    policy = make("forest")
    served, X = Played(policy, queue=3), contexts_of(policy, 6, 0)
    stream = served.open()
    for x in X:
        served.put(stream, listed(x))
    served.service.run()
    assert [a.n for a in served.answers["one"]] == [3, 4, 5]
    assert [a.lost for a in served.answers["one"]] == [3, 0, 0]
    assert (stream.dropped, served.counts.dropped, served.counts.missing) == (3, 3, 0)
    served.put(stream, listed(X[0]))
    served.service.drop(stream)
    assert served.counts.limited == 1
    check_conservation(served.service)
    served.service.close(stream)
    check_conservation(served.service)


def test_a_round_answers_one_frame_of_each_stream_however_many_wait():
    policy = make("forest")
    served, X = Played(policy), contexts_of(policy, 3, 0)
    flooding, other = served.open("flooding"), served.open("other")
    for x in X:
        served.put(flooding, listed(x))
    served.put(other, listed(X[0]))
    served.service.run_round()
    assert [len(served.answers[name]) for name in ("flooding", "other")] == [1, 1]
    assert served.service.has_waiting
    served.put(other, listed(X[1]))
    served.service.run_round()
    assert [len(served.answers[name]) for name in ("flooding", "other")] == [2, 2]
    served.service.run()
    assert not served.service.has_waiting
    check_conservation(served.service)


def test_numbers_that_have_been_are_turned_away_at_once():
    policy = make("forest")
    served = Played(policy)
    stream, x = served.open(), [0.0, 1.0]
    served.step(stream, x, n=5)
    twice, earlier, next_one = served.step(stream, x, n=5), served.step(stream, x, n=2), served.step(stream, x, n=6)
    assert "has come before" in twice.error
    assert twice.lost == 1
    assert twice.a is None
    assert "after frame 5" in earlier.error
    assert next_one.error is None
    assert (served.counts.duplicates, served.counts.out_of_order, stream.frames) == (1, 1, 2)


@pytest.mark.parametrize(
    ("x", "override", "message"),
    [
        ([1.0], None, "x must hold 2 values, null where one is missing; got 1"),
        ({"x0": 1.0}, None, "x: 'x1' is missing"),
        ({"x0": 1.0, "x1": 2.0, "x9": 0.0}, None, "no context is called 'x9'"),
        ([1.0, math.inf], None, "x must be finite, or null where a value is missing"),
        ([1.0, math.inf], [1.0], "x must be finite"),
        ([1.0, 2.0], [1.0, 2.0], "override must be 1 finite numbers; got"),
        ([1.0, 2.0], [math.nan], "override must be 1 finite numbers"),
        (None, None, "nothing is known of this stream yet"),
    ],
)
def test_a_frame_that_cannot_be_used_is_bridged_and_told(x, override, message: str):
    policy = make("forest")
    served, alone = Played(policy), Predictor(policy)
    stream = served.open()
    unknown = served.step(stream, x, override=override)
    assert message in unknown.error
    assert unknown.a is None
    served.step(stream, [0.5, 0.5])
    alone.step([0.5, 0.5])
    known = served.step(stream, x, override=override)
    assert known.a == alone.step(None).tolist()
    assert known.by == "gap"
    assert served.counts.malformed == (0 if x is None else 2)
    assert (known.error is None) == (x is None)
    check_conservation(served.service)


def test_a_reader_that_fails_takes_no_answer_from_the_others(caplog):
    served = Played(make("forest"))
    first, second = served.open("one"), served.open("two")

    def broken(stream, answer):
        raise OSError("gone")

    served.service.put(first, Frame(x=[0.0, 0.0]), broken)
    served.put(second, [0.0, 0.0])
    with caplog.at_level(logging.CRITICAL):
        served.service.run()
    assert served.answers["two"][0].a is not None
    assert (served.counts.unsent, first.unsent) == (1, 1)
    assert served.step(first, [0.0, 0.0]).lost == 1


def test_a_stream_that_is_closed_while_others_are_answered_is_counted_as_unsent():
    served = Played(make("forest"))
    first, second = served.open("one"), served.open("two")
    served.service.put(first, Frame(x=[0.0, 0.0]), lambda *_: served.service.close(second))
    served.put(second, [0.0, 0.0])
    served.put(second, [0.0, 0.0])
    served.service.run()
    assert "two" not in served.answers
    assert (served.counts.unsent, served.counts.dropped) == (1, 1)
    check_conservation(served.service)
    with pytest.raises(Refusal, match="was closed"):
        served.put(second, [0.0, 0.0])


def test_whatever_goes_wrong_in_a_batch_nobody_waits_in_vain(caplog):
    class Broken(Monitor):
        def observe(self, *_) -> None:
            raise RuntimeError("a mistake")

    policy = make("forest")
    monitor = Monitor(policy, 20.0, 8)
    monitor.__class__ = Broken
    served = Played(policy, monitor=monitor)
    with caplog.at_level(logging.CRITICAL):
        answer = served.step(served.open(), [0.0, 0.0])
    assert "the policy cannot act" in answer.error
    assert served.counts.failed == 1


# ------------------------------------------------------------------------------------------------------- what diverges


def test_a_stream_that_diverges_leaves_the_others_and_begins_anew():
    policy = unstable()
    served = Played(policy, gap=HoldAction())
    starts = {"one": 1.0, "two": 9e5, "three": 2.0}
    alone = {name: Predictor(policy, start=[start], gap=HoldAction()) for name, start in starts.items()}
    for name, start in starts.items():
        served.put(served.open(name, start=[start]), [0.0])
    served.service.run()
    assert "left every reasonable range" in served.answers["two"][0].error
    assert served.answers["two"][0].a is None
    for name in ("one", "three"):
        assert served.answers[name][0].a == alone[name].step([0.0]).tolist()
    assert served.counts.diverged == 1
    again = served.step(served.service.streams["two"], [0.0])
    assert again.a == Predictor(policy, gap=HoldAction()).step([0.0]).tolist()
    check_conservation(served.service)


def test_after_a_divergence_the_actuator_is_still_where_it_was():
    policy = unstable()
    served = Played(policy, gap=HoldAction(), stages=[RateLimit(1.0)])
    stream = served.open(start=[9e5])
    served.step(stream, [0.0])
    assert served.step(stream, [0.0]).a == pytest.approx([9e5 - 0.1])


def test_actions_beyond_reason_are_never_taken_and_the_stream_goes_on():
    served = Played(make("forest"), stages=[AccelerationLimit(1.0)], rate=10.0)
    stream = served.open()
    before = served.step(stream, [0.0, 1.0])
    for wild in (1e308, -1.7e308, math.nan, math.inf, 1e9):
        found = served.step(stream, override=[wild])
        assert (found.by, found.a) == ("gap", pytest.approx(before.a, abs=1.0))
        assert found.error.startswith(("override must be 1 finite", "override must lie within 1e+06 deviations of the"))
    assert served.counts.malformed == 5
    assert served.counts.overrides == 0
    for wild in (1e308, 1e9):
        with pytest.raises(Refusal, match="start must lie within"):
            served.open("other", start=[wild])
    for _ in range(20):
        assert abs(served.step(stream, [0.0, 1.0]).a[0]) < 10.0


WILD = st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from([1e308, -1.7e308, 9e5, -9e5, 0.0, None])


@given(
    st.sampled_from(
        [
            (AccelerationLimit(0.01),),
            (AccelerationLimit(1e-9, rate=1e300), Bounds(-1.0, 1.0)),
            (JerkLimit(0.01),),
            (JerkLimit(1e-9, 1e200, rate=1e300), Bounds(-1.0, 1.0)),
            (JerkLimit(1e9, 1e-9),),
            STAGES,
        ]
    ),
    st.lists(st.tuples(WILD, WILD, st.booleans()), max_size=25),
)
def test_whatever_operators_and_sensors_say_actions_are_finite_and_the_snapshot_is_whole(stages, frames):
    policy = make("forest")
    served = Played(policy, stages=stages, rate=30.0)
    stream, limit = served.open(), 1e6 * policy.units.scale[0] + abs(policy.units.center[0])
    for override, value, seen in frames:
        x = [0.0, value] if seen else None
        answer = served.step(stream, x, override=None if override is None else [override])
        assert answer.a is None or abs(answer.a[0]) <= limit
    for _ in range(3):  # whatever came, the stream acts again
        last = served.step(stream, [0.0, 1.0])
    assert last.a is not None
    assert served.counts.failed == 0
    assert Played(policy, stages=stages, rate=30.0).service.restore(served.service.snapshot()) == []


def test_stages_that_run_away_begin_anew_from_rest_and_it_is_told():
    policy = replace(make("forest"), smoothness=0.0)  # whose past is nothing to it
    served = Played(policy, stages=[AccelerationLimit(0.001)], rate=10.0)
    stream, wanted = served.open(), Predictor(policy)
    far = 8e5 * policy.units.scale[0]
    for action in (-far, far):  # so fast that to stop takes longer than there is a way
        assert served.step(stream, override=[action]).by == "operator"
        wanted.override([action])
    found = served.step(stream, [0.0, 1.0])
    assert found.a == wanted.step([0.0, 1.0]).tolist()
    assert served.counts.stages_restarted == 1
    assert served.service.take_restarted() == ["one"]
    assert served.service.take_restarted() == []


def test_a_bridge_that_diverges_begins_anew_too():
    served = Played(unstable(), gap=Extrapolate())
    stream = served.open(start=[3e5])
    assert served.step(stream, [0.0], n=0).a is not None
    assert served.step(stream, None, n=1).error is not None
    stream = served.open(start=[2e5])
    served.step(stream, [0.0], n=0)
    assert served.step(stream, [0.0], n=9).a == [0.0]
    assert (served.counts.diverged, served.counts.missing) == (2, 8)


def test_a_model_that_cannot_take_holes_is_bridged_and_the_others_act():
    policy = replace(trained("tree", 2, 1, 2, 2, 3.0, 0), f=Fussy(trained("tree", 2, 1, 2, 2, 3.0, 0).f))
    served = Played(policy)
    alone = {name: Predictor(policy) for name in NAMES}
    streams = [served.open(name) for name in NAMES]
    for step, hole in enumerate([False, True, False]):
        for stream in streams:
            x = [0.5, None if hole and stream.name == "two" else 0.1 * step]
            served.put(stream, x)
            want = alone[stream.name].step(None if x[1] is None else x)
            served.answers.setdefault(f"{stream.name} alone", []).append(want.tolist())
        served.service.run()
    for name in NAMES:
        assert [a.a for a in served.answers[name]] == served.answers[f"{name} alone"]
    assert "cannot take a context with missing values" in served.answers["two"][1].error
    assert served.counts.failed == 1


def test_a_policy_that_needs_a_start_says_so():
    policy = replace(affine(0), n_contexts=2)
    served = Played(policy)
    assert "open the stream with the last action as start" in served.step(served.open(), [0.0, 0.0]).error
    assert served.step(served.open(start=[0.0]), [0.0, 0.0]).error is None


@dataclass(frozen=True)
class Fussy:
    """A model that refuses holes."""

    model: Any

    def predict(self, S: np.ndarray) -> np.ndarray:
        if np.isnan(S).any():
            raise ValueError("Input X contains NaN.")
        return self.model.predict(S)


# ------------------------------------------------------------------------------------------------------------ the clock


def test_a_frame_that_is_late_is_bridged_and_answered_at_its_deadline():
    policy = make("forest")  # 20 frames a second
    served, alone = Played(policy), Predictor(policy)
    stream = served.open(deadline=0.01)
    served.service.tick(served.clock.now + 1.0)
    assert not served.answers  # nothing is due before the first frame
    served.step(stream, [0.0, 0.0], n=0)
    alone.step([0.0, 0.0])
    began = served.clock.now
    for number in (1, 2, 3):  # each due a period after the other
        served.clock.now = began + number * 0.05 + 0.0099
        served.service.tick(served.clock.now)
        assert len(served.answers["one"]) == number
        served.clock.now = began + number * 0.05 + 0.0101
        served.service.tick(served.clock.now)
        last = served.answers["one"][-1]
        assert (last.n, last.by, last.a) == (number, "gap", alone.step(None).tolist())
    late = served.step(stream, [1.0, 1.0], n=1)
    assert "after its deadline" in late.error
    assert (served.counts.late, stream.late, served.counts.bridged_late) == (1, 1, 3)
    # Frames that come as late as this one did are in time from now on.
    served.clock.now += 0.05
    served.service.tick(served.clock.now)
    assert served.step(stream, [1.0, 1.0], n=4).a == alone.step([1.0, 1.0]).tolist()
    check_conservation(served.service)


def test_without_numbers_a_late_frame_is_simply_the_next():
    policy = make("forest")
    served, alone = Played(policy), Predictor(policy)
    stream = served.open(deadline=0.01)
    served.step(stream, [0.0, 0.0])
    served.clock.now += 0.07
    served.service.tick(served.clock.now)
    alone.step([0.0, 0.0])
    alone.step(None)
    answer = served.step(stream, [1.0, 1.0])
    assert (answer.n, answer.a) == (2, alone.step([1.0, 1.0]).tolist())


def test_nobody_is_bridged_who_is_waiting_disconnected_or_without_a_deadline():
    served = Played(make("forest"))
    waits, gone, patient = served.open("one", deadline=0.01), served.open("two", deadline=0.01), served.open("three")
    for stream in (waits, gone, patient):
        served.step(stream, [0.0, 0.0])
    served.put(waits, [0.0, 0.0])
    served.service.detach(gone)
    served.clock.now += 1.0
    served.service.tick(served.clock.now)
    assert served.counts.bridged_late == 0


def test_idle_streams_expire_and_their_slot_knows_nothing_of_them():
    policy = make("forest")
    served = Played(policy, max_streams=1, stages=STAGES, monitor=Monitor(policy, 20.0, 1), idle=5.0)
    X = contexts_of(policy, 50, 0)
    served.play(served.open("one", deadline=9.0), X)
    served.clock.now += 4.9
    assert served.service.tick(served.clock.now) == []
    served.clock.now += 1.2
    assert [stream.name for stream in served.service.tick(served.clock.now)] == ["one"]
    assert (served.counts.expired, served.counts.closed, len(served.service.streams)) == (1, 1, 0)
    alone = Predictor(policy, stages=STAGES)
    stream = served.open("two")
    np.testing.assert_array_equal(served.play(stream, X[::-1]), [alone.step(x) for x in X[::-1]])
    assert stream.slot == 0
    assert served.service.slots[0] is stream


def test_a_full_service_refuses_politely():
    served = Played(make("forest"), max_streams=2)
    served.open("one")
    served.open("two")
    with pytest.raises(Refusal, match="all 2 streams are taken: close one") as caught:
        served.open("three")
    assert caught.value.code == "full"
    served.open("two")  # has a place
    served.service.close(served.service.streams["one"])
    served.open("three")
    assert (served.counts.refused, served.counts.opened) == (1, 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": [1.0, 2.0]}, "start must be 1 finite numbers, the last action"),
        ({"start": [math.inf]}, "start must be 1 finite numbers"),
        ({"deadline": -1.0}, "deadline must be in seconds, 0 for none; got -1.0"),
        ({"deadline": math.nan}, "deadline must be in seconds"),
    ],
)
def test_a_stream_that_cannot_be_is_refused_and_takes_no_place(options, message: str):
    served = Played(make("forest"), max_streams=1)
    with pytest.raises(Refusal, match=message):
        served.open("one", **options)
    served.open("two")


def test_a_deadline_needs_a_rate():
    policy = make("forest")
    unknown = policy.in_units(policy.units, policy.space, replace(policy.card, rate=None))
    with pytest.raises(Refusal, match="does not know its frames per second: give --rate"):
        Played(unknown).open(deadline=0.1)
    Played(unknown, rate=10.0).open(deadline=0.1)


@pytest.mark.parametrize(
    ("make_it", "message"),
    [
        (lambda: Service(make("forest"), max_streams=0), "max_streams must be >= 1"),
        (lambda: Service(make("forest"), queue=0), "queue must be >= 1"),
        (lambda: Service(make("forest"), idle=0), "idle must be > 0"),
        (lambda: Service(make("forest"), handover=-1), "handover must be >= 0"),
        (lambda: Service(affine(0), gap=HoldAction()), "policy: it does not say how many contexts it takes"),
    ],
)
def test_a_service_that_cannot_be_is_refused(make_it, message: str):
    with pytest.raises(SimileError, match=message):
        make_it()
