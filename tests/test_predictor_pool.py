"""A pool of predictors: every stream acts as a predictor of its own would, bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import some
from simile import ColdStart, DivergedError, Horizon, SimileError, SmoothPolicy, rollout
from simile.data.recorded import Units
from simile.models.regularizers import Autoregressor
from simile.online import HoldAction, Predictor, PredictorPool
from simile.online.history import SPARE
from test_policies import Linear, affine
from test_predictor import GAPS, KINDS, SEEDS, STAGES, contexts_of, make, policies

# The generator of the bags wraps around on purpose; NumPy says so where numba is switched off.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in scalar:RuntimeWarning")

RNG = np.random.default_rng


@given(policies(kinds=("forest", "forests", "tree", "mixture")), SEEDS, st.sampled_from(GAPS), st.booleans())
@some(0.6)
def test_every_stream_acts_as_a_predictor_of_its_own(policy, seed: int, gap, staged: bool):
    rng, stages = RNG(seed), STAGES if staged else ()
    n = int(rng.integers(1, 5))
    pool = PredictorPool(policy, n, gap=gap, stages=stages)
    alone = [Predictor(policy, gap=gap, stages=stages) for _ in range(n)]
    fresh = np.ones(n, bool)  # knows nothing yet
    for _ in range(60):
        ids = rng.permutation(n)[: rng.integers(1, n + 1)]
        X = contexts_of(policy, len(ids), int(rng.integers(2**32)))
        A = rng.normal(size=(len(ids), policy.n_actions))
        everyone = len(ids) == n and (ids == np.arange(n)).all()
        streams = None if everyone else ids
        event = rng.choice(["step", "some", "override", "blind override", "reset", "start"], p=[0.5, 0.3, *[0.05] * 4])
        if event == "step":
            ours, theirs = pool.step(X, streams=streams), [alone[i].step(x) for i, x in zip(ids, X, strict=True)]
        elif event == "some":
            present = (rng.random(len(ids)) < 0.5) | fresh[ids]
            X[~present] = np.inf  # ignored
            ours = pool.step(X, streams=streams, present=present)
            theirs = [alone[i].step(x if p else None) for i, x, p in zip(ids, X, present, strict=True)]
        elif event == "override":
            ours = pool.override(A, X, streams=streams)
            theirs = [alone[i].override(a, x) for i, a, x in zip(ids, A, X, strict=True)]
        elif event == "blind override":
            ours = pool.override(A, streams=ids)
            theirs = [alone[i].override(a) for i, a in zip(ids, A, strict=True)]
        else:
            starts = None if event == "reset" else list(rng.normal(size=(len(ids), 3, policy.n_actions)))
            pool.reset(streams, start=starts)
            for i, stream in enumerate(ids):
                alone[stream].reset(None if starts is None else starts[i])
            fresh[ids] = event == "reset"
            continue
        fresh[ids] = False
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("kind", KINDS)
def test_streams_are_the_sequences_of_a_roll_out(kind: str):
    policy = make(kind)
    X = np.array([contexts_of(policy, 2 * SPARE, i) for i in range(4)])
    pool = PredictorPool(policy, 4, seed=9)
    ours = np.array([pool.step(X[:, t]) for t in range(X.shape[1])])
    theirs = rollout(policy, list(X), start=ColdStart(), seed=9)
    np.testing.assert_array_equal(ours.swapaxes(0, 1), theirs)


@given(policies(), SEEDS, st.integers(0, 40), st.booleans())
@some(0.4)
def test_a_pool_stopped_and_resumed_elsewhere_keeps_its_bits(policy, seed: int, moment: int, staged: bool):
    stages = STAGES if staged else ()
    rng = RNG(seed)
    X = np.array([contexts_of(policy, 45, seed + i) for i in range(3)])
    present = rng.random((45, 3)) < 0.8
    present[0] = True

    def play(pool, begin, end):
        return [pool.step(X[:, t], present=present[t]) for t in range(begin, end)]

    pool = PredictorPool(policy, 3, stages=stages, seed=seed)
    whole = play(PredictorPool(policy, 3, stages=stages, seed=seed), 0, 45)
    begun = play(pool, 0, moment)
    other = PredictorPool(policy, 3, stages=stages, seed=5)
    other.load_state_dict(pool.state_dict())
    np.testing.assert_array_equal(begun + play(other, moment, 45), whole)
    np.testing.assert_array_equal(begun + play(pool, moment, 45), whole)


@given(policies(kinds=("forest", "forests", "tree")), SEEDS, st.integers(0, 40), st.booleans())
@settings(max_examples=20)
def test_a_pool_that_adopts_its_equal_keeps_the_bits(policy, seed: int, moment: int, staged: bool):
    stages = STAGES if staged else ()
    X = np.array([contexts_of(policy, 60, seed + i) for i in range(3)])
    pool, heir = (PredictorPool(policy, 3, stages=stages) for _ in range(2))
    for t in range(moment):
        pool.step(X[:2, t], streams=[0, 1])  # the last has not begun
    heir.adopt(pool)
    for t in range(moment, 60):
        np.testing.assert_array_equal(heir.step(X[:, t]), pool.step(X[:, t]))


@pytest.mark.parametrize("kind", ["forest", "tree"])
@pytest.mark.parametrize("lags", [(0, 0), (1, 3), (9, 12)])
def test_a_pool_that_adopts_another_policy_s_past_goes_on_from_it(kind: str, lags):
    old, new = make("forest", context_lags=5, action_lags=6), make(kind, 2, 1, *lags)
    new = new.in_units(Units(new.units.center + 1.0, new.units.scale * 2.0), new.space, new.card)
    X = contexts_of(old, 40, 1)
    pool, heir, alone = PredictorPool(old, 2), PredictorPool(new, 2), PredictorPool(new, 2)
    sent = np.array([pool.step([x, -x]) for x in X])
    heir.adopt(pool)
    reach = pool._streams.history.reach
    for x, a in zip(X[-reach:], sent[-reach:], strict=True):  # the oldest of these has lasted before
        alone.override(a, [x, -x])
    for x in contexts_of(old, 20, 2):
        np.testing.assert_allclose(heir.step([x, x]), alone.step([x, x]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("before", [(), STAGES[1:2], STAGES])
@pytest.mark.parametrize("after", [(), STAGES[1:2], STAGES])
def test_a_pool_that_adopts_knows_where_the_actuators_are(before, after):
    policy = make("forest")
    pool = PredictorPool(policy, 2, stages=before)
    X = contexts_of(policy, 30, 4, missing=0.0)
    sent = [pool.step([x, -x]) for x in X][-1]
    heir = PredictorPool(policy, 2, stages=after)
    heir.adopt(pool)
    now = heir.step([X[-1], -X[-1]])
    if after:
        assert (np.abs(now - sent) <= 9.0 / 20.0 + 1e-12).all()
    assert (heir._streams.chain.moving.all()) or not after


def test_a_pool_that_does_not_know_its_contexts_yet_can_adopt_and_be_adopted():
    narrow, wide = (replace(affine(0), n_contexts=n) for n in (None, 2))
    for first, second in ((narrow, wide), (wide, narrow)):
        pool, heir, alone = (PredictorPool(policy, 2, start=0.5) for policy in (first, second, second))
        heir.adopt(pool)  # nothing has come yet
        np.testing.assert_array_equal(heir.step(np.ones((2, 2))), alone.step(np.ones((2, 2))))
        pool.step(np.ones((2, 2)))
        heir.adopt(pool)
        np.testing.assert_array_equal(heir.step(np.zeros((2, 2))), alone.step(np.zeros((2, 2))))


def test_a_stream_may_wait_while_others_go_on():
    policy = make("forest")
    X = contexts_of(policy, 30, 0)
    pool, alone = PredictorPool(policy, 3), Predictor(policy)
    for x in X:
        pool.step([x, x[::-1]], streams=[2, 0])
    late = [pool.step([x], streams=[1])[0] for x in X]
    np.testing.assert_array_equal(late, [alone.step(x) for x in X])
    assert pool.step(np.empty((0, 2)), streams=np.arange(0)).shape == (0, 1)
    assert len(pool) == 3


def test_a_frame_in_which_one_stream_diverges_is_taken_by_none():
    unstable = SmoothPolicy(Linear(np.zeros((1, 1))), Autoregressor(np.array([[3.0]])), 10.0, Horizon(0, 0))
    pool = PredictorPool(unstable, 3, start=[np.zeros(1), np.full(1, 9e5), np.ones(1)], gap=HoldAction())
    X = np.zeros((3, 1))
    for mask in (None, np.array([False, True, True])):
        with pytest.raises(DivergedError, match="stream 1 diverged at frame 0"):
            pool.step(X, present=mask)
    assert (pool._streams.history.frame == 0).all()
    pool.reset([1], start=2.0)
    np.testing.assert_allclose(pool.step(X)[:, 0], [0.0, 2.0 * 30 / 11, 30 / 11])


def test_a_few_kilobytes_hold_a_stream():
    pool = PredictorPool(make("forest", m=3), 1_000)
    pool.step(np.zeros((1_000, 3)))
    used = sum(v.nbytes for v in vars(pool._streams.history).values() if isinstance(v, np.ndarray) and v.base is None)
    rows = 10 + SPARE
    assert used <= 1_000 * (rows * 4 * 4 + rows * 8 + 100)


@pytest.mark.parametrize("name", ["forest", "linear"])
def test_room_is_made_as_streams_begin_and_no_bit_changes(name: str):
    policy = make(name)
    pool, alone = PredictorPool(policy, 50), {}
    history, X = pool._streams.history, contexts_of(policy, 60, 0)
    assert len(history.actions) == len(history.Z) == 1
    rooms = []
    for t in range(60):
        live = sorted({(7 * i) % 50 for i in range(1 + t // 3)})  # streams begin in any order
        found = pool.step(np.tile(X[t], (len(live), 1)), streams=live)
        for i, a in zip(live, found, strict=True):
            alone.setdefault(i, Predictor(policy))
            np.testing.assert_array_equal(a, alone[i].step(X[t]))
        rooms.append(len(history.actions))
    assert rooms[0] == 1
    assert rooms == sorted(rooms)
    assert rooms[-1] <= 50
    again = PredictorPool(policy, 50)
    again.load_state_dict(pool.state_dict())
    assert len(again._streams.history.actions) <= rooms[-1]
    np.testing.assert_array_equal(again.step(np.tile(X[0], (50, 1))), pool.step(np.tile(X[0], (50, 1))))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: pool().step(np.zeros((2, 2))),
            r"X must have a row for each of 3 streams with 2 values; got .*\(2, 2\)",
        ),
        (lambda: pool().step(np.zeros((3, 5))), "with 2 values; got shape"),
        (lambda: pool().step(np.full((3, 2), np.inf)), r"X, row 0, must be finite or NaN.*column 0 \('x0'\)"),
        (lambda: pool().step(np.zeros((2, 2)), streams=[1, 1]), "streams must be different"),
        (lambda: pool().step(np.zeros((1, 2)), streams=[3]), "streams must lie between 0 and 2"),
        (lambda: pool().step(np.zeros((1, 2)), streams=[0.5]), "streams must be a list of whole numbers"),
        (lambda: pool().step(np.zeros((3, 2)), present=[True]), "present must be True or False for each of 3 rows"),
        (lambda: pool().step(np.zeros((3, 2)), present=[1, 1, 0]), "present must be True or False"),
        (lambda: pool().step(np.zeros((3, 2)), present=[True, False, True]), "nothing is known yet of stream 1"),
        (lambda: pool().override(np.zeros((3, 2))), "A must hold 1 action for each of 3 streams"),
        (lambda: pool(start=[np.zeros(1)] * 2), "one history for each of 3 sequences; got 2"),
        (lambda: PredictorPool(affine(0), 0), "n_streams must be >= 1"),
        (lambda: pool().adopt(PredictorPool(make("forest"), 2)), "other must have 3 streams, as this pool; got 2"),
        (
            lambda: pool().adopt(PredictorPool(make("forest", m=3), 3)),
            "other must have 2 contexts, as this pool; got 3",
        ),
        (lambda: pool().adopt(PredictorPool(make("forest", k=2), 3)), "other must have 1 actions, as this pool; got 2"),
        (lambda: pool().load_state_dict(Predictor(make("forest")).state_dict()), "state must be what state_dict"),
        (lambda: pool().load_state_dict(PredictorPool(make("forest"), 2).state_dict()), "state"),
    ],
)
def test_bad_calls_are_refused(call, message: str):
    with pytest.raises(SimileError, match=message):
        call()


def pool(**options) -> PredictorPool:
    return PredictorPool(make("forest"), 3, **options)
