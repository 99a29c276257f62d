"""Another policy takes over while streams run: without a jump, or not at all."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import some
from served import Played, listed, unstable
from simile import Hold, Offset
from simile.data.recorded import Units
from simile.errors import ArgumentError
from simile.models.regularizers import Autoregressor
from simile.online import AccelerationLimit, HoldAction, Predictor, PredictorPool, RateLimit
from test_predictor import STAGES, contexts_of, make

# The generator of the bags wraps around on purpose; NumPy says so where numba is switched off.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in scalar:RuntimeWarning")


def other_policies():
    """Policies for the same columns as `make("forest")`, and yet others."""
    forest = make("forest")
    return {
        "rougher": replace(forest, smoothness=0.0),
        "smoother": replace(forest, smoothness=100.0),
        "longer lags": make("forest", context_lags=6, action_lags=7),
        "no lags": make("forest", context_lags=0, action_lags=0),
        "another model": make("tree"),
        "a mixture": make("mixture"),
        "bounded": make("forest", bounded=True),
        "other units": forest.in_units(
            Units(forest.units.center + 1.0, forest.units.scale * 2.0), forest.space, forest.card
        ),
        "holding still": forest.holding(Hold(0.2)),
        "remembering the start": make("forest", action_lags=0).keeping(Offset(1.0, 0.9)),
    }


@pytest.mark.parametrize("hold", [None, Hold(0.1)])
@pytest.mark.parametrize("name", other_policies())
@pytest.mark.parametrize("limited", [False, True])
def test_a_reload_hands_over_without_a_jump(name: str, limited: bool, hold: Hold | None):
    old, new = make("forest").holding(hold), other_policies()[name]
    stages, limit = ([RateLimit(0.5)], 0.5 / 20.0) if limited else ([], math.inf)
    served, alone = Played(old, stages=stages), Predictor(old, stages=stages)
    stream, X = served.open(), np.sin(np.arange(120) / 9.0)[:, np.newaxis] * [1.0, 0.5]
    before, without = served.play(stream, X[:50]), [alone.step(x) for x in X]
    served.service.reload(new)
    assert served.service.handing_over
    after = served.play(stream, X[50:71])
    served.clock.now += 2.0
    served.service.tick(served.clock.now)
    assert not served.service.handing_over
    moves = np.abs(np.diff(np.concatenate([before[-1:], after, served.play(stream, X[71:])]), axis=0))
    assert (moves <= limit * (1.0 + 1e-9)).all()
    usual = np.abs(np.diff(without, axis=0)).max()
    # A smooth step over 20 frames has moved by less than 1 % in the first, and never by more than 7.5 % in one.
    there = Predictor(new, stages=stages)
    theirs = [there.step(x) for x in X]
    apart = np.abs(np.subtract(theirs, without)).max()
    assert moves.max() <= max(usual, np.abs(np.diff(theirs, axis=0)).max()) + 0.075 * apart
    gap = np.abs(Predictor(new, start=before[-9:]).step(X[50]) - without[50]).max()
    if hold is not None:  # the new one goes on from what the old one wanted, which is as near
        gap += float((hold.width * old.units.scale).max())
    assert moves[0] <= np.abs(without[50] - without[49]) + 0.01 * (gap + usual)
    assert np.isfinite(moves).all()


def test_after_the_hand_over_the_new_policy_goes_on_from_what_was_sent():
    old, new = make("forest"), make("tree", context_lags=4, action_lags=6)
    X = contexts_of(old, 90, 3, missing=0.0)
    served = Played(old, handover=1.0)
    stream = served.open()
    served.play(stream, X[:30])
    served.service.reload(new)
    ours = Predictor(old)
    for x in X[:30]:
        ours.step(x)
    theirs = PredictorPool(new, 1)
    theirs.adopt(wrapped(old, X[:30]))
    for number, x in enumerate(X[30:50], start=1):  # one second
        a, b = ours.step(x), theirs.step([x])[0]
        w = (number / 20) ** 2 * (3 - 2 * number / 20)
        mixed = a + w * (b - a)
        theirs._streams.rewrite(np.arange(1), mixed[np.newaxis])
        np.testing.assert_allclose(served.step(stream, listed(x)).a, mixed, rtol=1e-12)
    after = served.play(stream, X[50:])
    np.testing.assert_array_equal(after, [theirs.step([x])[0] for x in X[50:]])


def wrapped(policy, X) -> PredictorPool:
    pool = PredictorPool(policy, 1)
    for x in X:
        pool.step([x])
    return pool


def test_a_stream_that_pauses_finds_its_old_policy_and_a_new_one_does_not():
    old, new = make("forest"), replace(make("forest"), smoothness=50.0)
    served, X = Played(old), contexts_of(old, 60, 5)
    pauses, alone = served.open("one"), Predictor(old)
    served.play(pauses, X[:20])
    for x in X[:20]:
        alone.step(x)
    served.service.reload(new)
    fresh = Predictor(new)
    np.testing.assert_array_equal(served.play(served.open("two"), X), [fresh.step(x) for x in X])
    served.clock.now += 30.0
    served.service.tick(served.clock.now)
    assert served.service.handing_over
    here, there = served.step(pauses, listed(X[20])).a, alone.step(X[20])
    np.testing.assert_allclose(here, there, atol=0.01)
    served.clock.now += 61.0
    served.service.tick(served.clock.now)  # who never comes back holds nothing up
    assert not served.service.handing_over


@given(st.integers(0, 2**32), st.booleans())
@some(0.3)
def test_every_stream_is_handed_over_as_if_it_were_alone(seed: int, staged: bool):
    rng, stages, names = np.random.default_rng(seed), STAGES if staged else (), ("one", "two", "three", "four")
    old, others = make("forest"), list(other_policies().values())
    together = Played(old, stages=stages, handover=0.4)
    alone = {name: Played(old, stages=stages, handover=0.4, max_streams=1) for name in names}
    everyone = [together, *alone.values()]
    for _ in range(60):
        for name in names:
            both, chance = (together, alone[name]), rng.random()
            if name not in together.service.streams or chance < 0.02:
                start = [float(rng.normal())] if rng.random() < 0.5 else None
                for served in both:
                    served.open(name, start=start)
            x, a = rng.normal(size=2).tolist(), [float(rng.normal())]
            if chance < 0.3:
                continue
            for served in both:
                stream = served.service.streams[name]
                if chance < 0.45:
                    served.put(stream, None)
                else:
                    served.put(stream, x, override=a if chance < 0.55 else None)
        chance, policy = rng.random(), others[rng.integers(len(others))]
        for served in everyone:
            served.service.run()
            if chance < 0.08:
                served.service.reload(policy)
            served.clock.now += 0.9
            served.service.tick(served.clock.now)
    for name in names:
        assert [answer.a for answer in together.answers[name]] == [answer.a for answer in alone[name].answers[name]]


def test_reloads_within_a_hand_over_are_handed_over_too():
    old, X = make("forest"), contexts_of(make("forest"), 120, 7, missing=0.0)
    served = Played(old)
    stream = served.open()
    served.play(stream, X[:30])
    for i, smoothness in enumerate((50.0, 0.5, 8.0)):
        served.service.reload(replace(old, smoothness=smoothness))
        served.play(stream, X[30 + 5 * i : 35 + 5 * i])
    override = served.step(stream, listed(X[45]), override=[0.25])
    assert (override.a, override.by) == ([0.25], "operator")
    assert served.step(stream, None).by == "gap"
    served.play(stream, X[46:])
    served.clock.now += 2.0
    served.service.tick(served.clock.now)
    assert not served.service.handing_over
    assert served.service.policy.smoothness == 8.0
    served.step(stream, listed(X[0]))
    for _ in range(8):
        served.service.reload(old)
    with pytest.raises(ArgumentError, match="8 hand-overs are still under way"):
        served.service.reload(old)


@pytest.mark.parametrize("where", ["old", "new"])
def test_a_divergence_within_a_hand_over_leaves_the_others(where: str):
    tame, wild = replace(unstable(), h=Autoregressor(np.array([[0.5]]))), unstable()
    old, new = (wild, tame) if where == "old" else (tame, wild)
    served = Played(old, gap=HoldAction())
    for name, start in (("one", 1.0), ("two", 9e5), ("three", 2.0), ("four", None)):
        served.open(name, start=None if start is None else [start])
    served.service.reload(new)
    for stream in served.service.streams.values():
        served.put(stream, [0.0])
    served.service.run()
    assert served.answers["two"][0].error is not None
    lone = {"one": 1.0, "three": 2.0}
    for name, start in lone.items():
        other = Played(old, gap=HoldAction())
        stream = other.open(name, start=[start])
        other.service.reload(new)
        assert served.answers[name][0].a == other.step(stream, [0.0]).a
    assert served.answers["four"][0].a == [0.0]
    assert served.step(served.service.streams["two"], [0.0]).a == [0.0]


def test_a_policy_for_other_columns_is_refused_and_the_old_one_goes_on():
    old = make("forest")
    renamed = old.in_units(old.units, old.space, replace(old.card, context_names=("u", "v")))
    served, alone = Played(old), Predictor(old)
    stream = served.open()
    for policy, message in (
        (make("forest", m=3), "it is for"),
        (make("forest", k=2), "it is for"),
        (renamed, "it is for the contexts u, v, and these streams have x0, x1: serve it by a service of its own"),
        (unstable(), "it is for 1 contexts, and these streams have 2|it is for the contexts"),
    ):
        with pytest.raises(ArgumentError, match=message):
            served.service.reload(policy)
    X = contexts_of(old, 20, 0)
    np.testing.assert_array_equal(served.play(stream, X), [alone.step(x) for x in X])
    assert served.counts.reloads == 0


def test_a_policy_that_looks_back_too_far_for_all_streams_is_refused_with_the_numbers():
    old = make("forest")
    greedy = make("forest", context_lags=(0, 50_000))
    with pytest.raises(ArgumentError, match=r"takes 1\.64 GB .* 1\.6 MB for the past of each of 1,024 streams, as it "):
        Played(greedy, max_streams=1024, max_memory=1000)
    served, alone = Played(old, max_streams=1024, max_memory=1000), Predictor(old)
    stream, X = served.open(), contexts_of(old, 20, 0)
    with pytest.raises(ArgumentError, match=r"50,000 frames back at 2 contexts; it may take 1 GB: .*fewer streams or"):
        served.service.reload(greedy)
    np.testing.assert_array_equal(served.play(stream, X), [alone.step(x) for x in X])
    # Where it may, it takes what the streams that are there need: not a thousand times as much.
    roomy = Played(old, max_streams=1024, max_memory=2000)
    stream = roomy.open()
    roomy.step(stream, [0.0, 0.0])
    tracemalloc.start()
    roomy.service.reload(greedy)
    roomy.step(stream, [0.0, 0.0])
    roomy.service.snapshot()
    assert tracemalloc.get_traced_memory()[1] < 30e6
    tracemalloc.stop()


def test_without_streams_or_time_a_reload_is_at_once():
    old, new = make("forest"), make("tree")
    served = Played(old)
    served.service.reload(served.service.prepare(new))
    assert not served.service.handing_over
    at_once = Played(old, handover=0.0)
    at_once.step(at_once.open(), [0.0, 0.0])
    at_once.service.reload(new)
    assert not at_once.service.handing_over
    assert at_once.service.policy is new


@pytest.mark.parametrize("factor", [1e5, 1e-5])
def test_an_operator_far_from_either_policy_during_a_hand_over_leaves_the_stream_alive(factor: float):
    old = make("forest")
    units = Units(old.units.center, old.units.scale * factor)
    served = Played(old, stages=[AccelerationLimit(1.0)])
    stream = served.open()
    served.step(stream, [0.0, 1.0])
    served.service.reload(old.in_units(units, old.space, old.card))
    assert served.service.handing_over
    for n, action in enumerate((9e5, -9e5, 9e5 * factor, -9e5 * factor, None, None, None, None)):
        answer = served.step(
            stream, [0.0, n / 10.0], override=None if action is None else [action * old.units.scale[0]]
        )
        assert answer.a is None or np.isfinite(answer.a).all()
    assert answer.a is not None
    assert served.counts.failed == 0
