"""The online predictor: the bits of a roll-out, gaps, time stamps, operators, and stopping half-way."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

import simile
from conftest import demos_of, some
from naive import NaiveStream
from simile import (
    ActionSpace,
    ColdStart,
    DataError,
    DivergedError,
    Horizon,
    Mixture,
    Offset,
    SimileError,
    SmoothForest,
    SmoothPolicy,
    StochasticMixture,
    rollout,
)
from simile.data.recorded import Units
from simile.models.regularizers import Autoregressor
from simile.online import (
    AccelerationLimit,
    Bounds,
    DeadBand,
    Extrapolate,
    HoldAction,
    HoldContext,
    JerkLimit,
    Predictor,
    RateLimit,
)
from simile.online.history import SPARE
from test_policies import Linear, affine

# The generator of the bags wraps around on purpose; NumPy says so where numba is switched off.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in scalar:RuntimeWarning")

RNG = np.random.default_rng
SEEDS = st.integers(0, 2**32)
KINDS = ("forest", "forests", "tree", "mixture", "stochastic")
FUSED = ("forest", "forests")
GAPS = (Extrapolate(), Extrapolate(frames=2), HoldAction(), HoldContext())


@cache
def trained(model: str, m: int, k: int, context_lags, action_lags, smoothness: float, seed: int) -> SmoothPolicy:
    """A small policy, learned on contexts with holes."""
    demos = demos_of(60, 50, m=m, k=k, seed=seed, rate=20.0)
    rng = RNG(seed)
    holes = [np.where(rng.random(x.shape) < 0.1, np.nan, x) for x in demos.contexts]
    demos = simile.Demonstrations.from_arrays(holes, demos.actions, rate=20.0)
    recipe = SmoothForest(3, min_leaf=4, n_jobs=1) if model == "forest" else DecisionTreeRegressor(min_samples_leaf=4)
    horizon = Horizon(context_lags, action_lags)
    return simile.clone(demos, model=recipe, horizon=horizon, smoothness=smoothness, seed=seed).policy


def make(kind: str, m: int = 2, k: int = 1, context_lags=2, action_lags=2, *, bounded: bool = False):
    """A policy of some kind; the last two do not collapse."""

    def one(model: str, smoothness: float, seed: int) -> SmoothPolicy:
        return trained(model, m, k, context_lags, action_lags, smoothness, seed)

    first = one("forest" if kind in FUSED else "tree", 3.0, 0)
    policy = first
    if kind == "forests":
        policy = simile.interpolate(replace(one("forest", 3.0, 1), units=first.units), first, 0.3)
    elif kind in ("mixture", "stochastic"):
        other = replace(one("tree", 0.5, 1), units=first.units)
        policy = (Mixture if kind == "mixture" else StochasticMixture)((first, other), (0.6, 0.4))
    space = ActionSpace(-0.5, np.linspace(0.5, 1.0, k)) if bounded else ActionSpace()
    return policy.in_units(policy.units, space, policy.card)


@st.composite
def policies(draw, kinds=KINDS):
    """Policies of all kinds, sizes and horizons."""
    lags = draw(st.sampled_from([(0, 0), (2, 2), (0, 3), (4, 1), (3, 0), ((0, 5), (2, 6))]))
    m, k, bounded = draw(st.sampled_from([1, 3])), draw(st.sampled_from([1, 2])), draw(st.booleans())
    policy = make(kind := draw(st.sampled_from(kinds)), m, k, *lags, bounded=bounded)
    keeps = lags[1] == 0 and kind not in ("mixture", "stochastic") and draw(st.booleans())
    return policy.keeping(Offset(np.linspace(1.0, 0.4, k), np.linspace(0.8, 0.99, k))) if keeps else policy


def contexts_of(policy, length: int, seed: int, missing: float = 0.1) -> np.ndarray:
    """A random walk with holes."""
    rng = RNG(seed)
    walk = np.cumsum(rng.normal(size=(length, policy.n_contexts)), axis=0)
    return np.where(rng.random(walk.shape) < missing, np.nan, walk)


def run(predictor, X) -> np.ndarray:
    return np.array([predictor.step(x) for x in X])


# ------------------------------------------------------------------------------------------------ as `rollout` does it


@given(policies(), st.integers(1, 90), SEEDS, st.sampled_from(["cold", "given", "expert"]))
def test_the_actions_are_those_of_a_roll_out_bit_for_bit(policy, length: int, seed: int, start: str):
    x = contexts_of(policy, length, seed)
    expert = RNG(seed).normal(size=(length, policy.n_actions))
    if start == "expert":
        demo = simile.Demonstration(x, expert)
        predictor, begin = Predictor(policy, seed=seed), min(policy.memory, length)
        ours = [predictor.override(a, c) for a, c in zip(expert[:begin], x[:begin], strict=True)]
        ours += [predictor.step(c) for c in x[begin:]]
        theirs = rollout(policy, demo, seed=seed)[0]
    else:
        known = None if start == "cold" else expert[: 1 + seed % 12]
        ours = run(Predictor(policy, start=known, seed=seed), x)
        theirs = rollout(policy, [x], start=ColdStart() if known is None else known, seed=seed)[0]
    np.testing.assert_array_equal(np.reshape(ours, theirs.shape), theirs)


@pytest.mark.parametrize("kind", KINDS)
def test_a_long_run_needs_no_more_memory_and_keeps_the_bits(kind: str):
    policy = make(kind)
    x = contexts_of(policy, 10 * SPARE + 7, 0)
    predictor = Predictor(policy)
    size = predictor._streams.history.Z.size
    np.testing.assert_array_equal(run(predictor, x), rollout(policy, [x], start=ColdStart())[0])
    assert predictor._streams.history.Z.size == size == (policy.reach + SPARE) * predictor._streams.history.Z.shape[2]


@given(policies(kinds=["forest"]), SEEDS, st.booleans())
@settings(max_examples=20)
def test_the_kernel_does_what_its_naive_twin_does(policy, seed: int, cold: bool):
    rng = RNG(seed)
    start = [] if cold else rng.normal(size=(3, policy.n_actions))
    twin, predictor = NaiveStream(policy, start), Predictor(policy, start=start if len(start) else None)
    for frame, x in enumerate(contexts_of(policy, SPARE + 12, seed)):
        if frame % 9 == 5:
            ours, theirs = predictor.step(None), twin.miss()
        else:
            ours, theirs = predictor.step(x), twin.step(x)
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
        if frame % 11 == 7:
            action = rng.normal(size=policy.n_actions)
            predictor.override(action, x)
            twin.override(action, x)


def test_handmade_policies_in_the_users_units_act_as_in_a_roll_out():
    policy = affine(0, k=2).in_units(Units(np.array([0.3, -1.0]), np.array([1.7, 0.2])), ActionSpace(-1.0, [0.4, 2.0]))
    x = np.cumsum(RNG(0).normal(size=(80, 2)), axis=0)
    start = np.array([[0.1, 0.2], [0.3, 0.4]])
    np.testing.assert_array_equal(run(Predictor(policy, start=start), x), rollout(policy, [x], start=start)[0])
    np.testing.assert_array_equal(run(Predictor(policy, start=start.tolist()), x), rollout(policy, [x], start=start)[0])
    predictor = Predictor(policy, start=start)
    predictor.step([1.0, 2.0])
    with pytest.raises(SimileError, match=r"x must hold 2 values; got shape \(3,\)"):
        predictor.step([1.0, 2.0, 3.0])


def test_all_ways_to_write_a_context_and_a_start_are_the_same():
    policy = make("forest", m=1)
    expected = Predictor(policy, start=[0.25]).step(np.array([0.5]))
    for x in ([0.5], (0.5,), 0.5, np.float32(0.5), {"x0": 0.5}, np.ma.masked_array([0.5], [False])):
        assert Predictor(policy, start=simile.GivenStart(0.25)).step(x) == expected
    missing = Predictor(policy, start=[0.25]).step([np.nan])
    assert Predictor(policy, start=[0.25]).step(np.ma.masked_array([0.5], [True])) == missing
    np.testing.assert_array_equal(Predictor(policy, start=ColdStart()).step(0.5), Predictor(policy).step(0.5))


def test_actions_are_new_arrays_and_contexts_are_not_touched():
    predictor, x = Predictor(make("forest")), np.array([0.1, 0.2])
    x.setflags(write=False)
    first = predictor.step(x)
    copy = first.copy()
    assert first.shape == (1,)
    assert first.dtype == np.float64
    predictor.step(x)[:] = 9.0
    np.testing.assert_array_equal(first, copy)
    np.testing.assert_array_equal(predictor.step(x), run(Predictor(make("forest")), [x] * 3)[-1])


def test_divergence_is_an_error_and_the_frame_is_not_taken():
    h = Autoregressor(np.array([[3.0]]))
    unstable = SmoothPolicy(Linear(np.zeros((1, 1))), h, 10.0, Horizon(0, 0))
    predictor = Predictor(unstable, start=1.0)
    with pytest.raises(DivergedError, match=r"stream 0 diverged at frame \d+, at the action .* ActionSpace"):
        run(predictor, np.zeros((100, 1)))
    with pytest.raises(DivergedError):
        predictor.step([0.0])
    predictor.override([0.0])
    assert predictor.step([0.0]) == 0.0


def test_forests_diverge_by_the_same_rule():
    policy = make("forest", context_lags=0, action_lags=0)
    policy = replace(policy, h=Autoregressor(np.array([[3.0]])), smoothness=10.0)
    predictor = Predictor(policy, start=1.0, gap=HoldContext())
    x = np.zeros((100, 2))
    with pytest.raises(DivergedError, match=r"stream 0 diverged at frame (\d+)") as ours:
        run(predictor, x)
    with pytest.raises(DivergedError, match=r"diverged at frame (\d+)") as theirs:
        rollout(policy, [x], start=1.0)
    assert str(ours.value).split("frame ")[1].split(",")[0] == str(theirs.value).split("frame ")[1].split(",")[0]
    with pytest.raises(DivergedError):
        predictor.step(None)


# ------------------------------------------------------------------------------------------------------ dropped frames


@given(policies(kinds=(*FUSED, "tree")), SEEDS)
@settings(max_examples=20)
def test_holding_the_context_is_what_the_context_coming_again_would_do(policy, seed: int):
    policy = policy.keeping(None)  # which does not fade where a frame is missed
    x = contexts_of(policy, 50, seed)
    holes = RNG(seed).random(50) < 0.3
    holes[0] = False
    filled = x[np.maximum.accumulate(np.where(holes, 0, np.arange(50)))]
    predictor = Predictor(policy, gap=HoldContext())
    ours = [predictor.step(None if hole else c) for hole, c in zip(holes, x, strict=True)]
    np.testing.assert_array_equal(ours, run(Predictor(policy), filled))


@pytest.mark.parametrize("kind", KINDS)
def test_extrapolation_follows_h_for_a_while_and_then_holds(kind: str):
    policy = make(kind, context_lags=1, action_lags=1)
    predictor = Predictor(policy, gap=Extrapolate(frames=3))
    past = [policy.units.standardize(a) for a in run(predictor, contexts_of(policy, 30, 1))]
    ours = [predictor.step(None) for _ in range(6)]
    parts = getattr(policy, "components", (policy,))
    for frame in range(6):
        history = np.array(past[::-1])[np.newaxis]
        weights = getattr(policy, "weights", (1.0,))
        h = sum(w * p.h(history[:, : p.h.order])[0] for w, p in zip(weights, parts, strict=True))
        past.append(h if frame < 3 else past[-1])
        np.testing.assert_allclose(policy.units.standardize(ours[frame]), past[-1], rtol=1e-9, atol=1e-12)


def test_a_frame_that_comes_lets_extrapolation_begin_again():
    x = contexts_of(make("forest"), 30, 1)
    ours = Predictor(make("forest"), gap=Extrapolate(frames=1))
    run(ours, x)
    first, second = ours.step(None), ours.step(None)
    np.testing.assert_array_equal(first, second)
    ours.step(x[0])
    assert not np.array_equal(ours.step(None), ours.step(x[0]))
    ours.override(first, x[0])
    assert ours._streams.history.missed[0] == 0


def test_holding_the_action_repeats_it_and_later_lags_read_the_last_context():
    f = Linear(np.array([[0.0], [0.0], [1.0]]))  # the context two frames ago
    policy = SmoothPolicy(f, Autoregressor(np.ones((1, 1))), 0.0, Horizon(2, 0))
    predictor = Predictor(policy, start=5.0, gap=HoldAction())
    assert predictor.step(None) == 5.0  # a start is held until there is a context
    assert [float(predictor.step([v])[0]) for v in (1.0, 2.0, 3.0)] == [1.0, 1.0, 1.0]
    assert predictor.step(None) == 1.0
    assert [float(predictor.step([v])[0]) for v in (4.0, 5.0, 6.0)] == [3.0, 3.0, 4.0]


def test_extrapolated_actions_stay_within_the_bounds():
    line = Autoregressor(np.array([[2.0], [-1.0]]))  # goes on in a straight line
    policy = replace(affine(0, m=1), f=Linear(np.zeros((3, 1))), h=line, horizon=Horizon(1, 1), smoothness=1e9)
    policy = policy.in_units(Units.identity(), ActionSpace(0.0, 1.0))
    predictor = Predictor(policy, start=[[0.1], [0.3]])
    predictor.step([0.0])
    assert [round(float(predictor.step(None)[0]), 6) for _ in range(4)] == [0.7, 0.9, 1.0, 1.0]


@dataclass(frozen=True)
class Handmade:
    """A policy of the user's own: nothing is known of it but what it does."""

    inner: SmoothPolicy

    def __getattr__(self, name: str):
        return getattr(object.__getattribute__(self, "inner"), name)


def test_policies_without_h_need_another_rule_for_gaps():
    policy = Handmade(affine(0))
    with pytest.raises(SimileError, match=r"Handmade has no regularizer h .* use gap=HoldAction"):
        Predictor(policy)
    predictor = Predictor(policy, start=0.5, gap=HoldAction())
    assert predictor.step(None) == 0.5
    x = RNG(0).normal(size=(20, 2))
    predictor.reset(start=0.5)
    np.testing.assert_array_equal(run(predictor, x), rollout(policy, [x], start=0.5)[0])


# -------------------------------------------------------------------------------------------------------- time stamps


# ------------------------------------------------------------------------------------------------------------ operators


def test_the_policy_returns_smoothly_from_an_operators_actions():
    policy = replace(make("forest", context_lags=1, action_lags=0), smoothness=50.0)
    x = contexts_of(policy, 60, 0, missing=0.0)
    predictor = Predictor(policy)
    run(predictor, x[:30])
    for c in x[30:45]:
        predictor.override([4.0], c)  # the operator holds a position of its own
    after = run(predictor, x[45:])
    scale = float(policy.units.scale[0])
    assert abs(after[0, 0] - 4.0) < 0.1 * scale
    assert np.abs(np.diff(after[:, 0], prepend=4.0)).max() < 0.3 * scale


def test_operators_may_leave_the_bounds_and_the_policy_does_not():
    policy = make("forest", bounded=True)
    predictor = Predictor(policy, gap=HoldAction())
    assert predictor.override([7.0], [0.0, 0.0]) == 7.0
    assert policy.units.restore(predictor._streams.history.last(np.arange(1))) == pytest.approx(7.0)
    assert predictor.step(None) == 0.5
    predictor.reset()
    assert predictor.override([0.25]) == 0.25  # no context is known yet, and none is needed
    assert predictor.step(None) == pytest.approx(0.25)


def test_the_first_context_after_an_operators_frames_has_lasted_forever():
    policy, x = make("forest", context_lags=3, action_lags=0), contexts_of(make("forest"), 20, 0)
    ours, theirs = Predictor(policy), Predictor(policy, start=[[0.1], [0.2]])
    ours.override([0.1])
    ours.override([0.2])
    np.testing.assert_array_equal(run(ours, x), run(theirs, x))


# --------------------------------------------------------------------------------------------------------------- state

STAGES = (Bounds(-1.0, 1.0), RateLimit(9.0), AccelerationLimit(80.0, rate=8.0), DeadBand(0.01), JerkLimit(900.0, 90.0))


def play(predictor, frames, stamped: bool):
    """Play frames of any kind: (kind, time, context, action)."""
    actions = []
    for kind, t, x, action in frames:
        stamp = {"t": t} if stamped else {}
        if kind == "override":
            actions.append(predictor.override(action, x, **stamp))
        else:
            actions.append(predictor.step(None if kind == "miss" else x, **stamp))
    return np.reshape(actions, (len(frames), -1)) if frames else np.empty((0, predictor._streams.n_actions))


def frames_of(policy, n: int, seed: int):
    rng = RNG(seed)
    kinds = ["step", *rng.choice(["step", "step", "miss", "override"], size=n - 1)]
    times = np.cumsum(rng.choice([0.01, 0.05, 0.12, 0.4, 11.0], p=[0.3, 0.3, 0.3, 0.08, 0.02], size=n))
    return list(zip(kinds, times, contexts_of(policy, n, seed), rng.normal(size=(n, policy.n_actions)), strict=True))


@given(policies(), SEEDS, st.integers(0, 60), st.sampled_from(GAPS), st.booleans(), st.booleans())
@some(0.4)
def test_a_stream_stopped_and_resumed_elsewhere_keeps_its_bits(policy, seed, moment, gap, stamped, staged):
    frames = frames_of(policy, 60, seed)

    def new(seed: int) -> Predictor:
        return Predictor(policy, gap=gap, stages=STAGES if staged else (), seed=seed)

    whole = play(new(seed), frames, stamped)
    first = new(seed)
    begun = play(first, frames[:moment], stamped)
    file = io.BytesIO()
    np.savez(file, **first.state_dict())
    file.seek(0)
    second = new(seed + 1)
    play(second, frames[: seed % 3], stamped)  # whatever it did before
    second.load_state_dict(dict(np.load(file, allow_pickle=False)))
    for one in (first, second):
        rest = play(one, frames[moment:], stamped)
        np.testing.assert_array_equal(np.concatenate([begun, rest]), whole)


def test_the_state_is_flat_and_made_of_arrays_and_plain_numbers():
    predictor = Predictor(make("stochastic"), stages=STAGES)
    run(predictor, contexts_of(make("stochastic"), 40, 0))
    for name, value in predictor.state_dict().items():
        assert isinstance(name, str)
        assert isinstance(value, int | float) or (isinstance(value, np.ndarray) and value.dtype != object)


def test_handmade_policies_learn_the_width_of_contexts_from_a_state():
    first, second = Predictor(affine(0), start=0.1), Predictor(affine(0), start=0.2)
    second.load_state_dict(first.state_dict())
    run(first, RNG(0).normal(size=(5, 2)))
    second.load_state_dict(first.state_dict())
    np.testing.assert_array_equal(first.step([1.0, 2.0]), second.step([1.0, 2.0]))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: Predictor(make("forest", m=3)).state_dict(), "n_contexts.*|contexts"),
        (lambda: Predictor(make("forest", k=2)).state_dict(), "state"),
        (lambda: Predictor(make("forest", context_lags=12)).state_dict(), "state"),
        (lambda: Predictor(make("tree")).state_dict(), r"state\['contexts'\] must be float32"),
        (lambda: Predictor(make("forest"), stages=STAGES[:1]).state_dict(), "state"),
        (lambda: Predictor(make("forest"), rate=7.0).state_dict(), r"state\['rate'\] must be 20.0, as here; got 7.0"),
        (lambda: {**Predictor(make("forest")).state_dict(), "rate": np.nan}, r"state\['rate'\] must be 20.0, as here"),
        (lambda: {"frame": 1}, "state must be what state_dict"),
        (lambda: 5, "got int"),
        (lambda: {**Predictor(make("forest")).state_dict(), "frame": np.zeros(1)}, "must be int64 of shape"),
        (lambda: {**Predictor(make("forest")).state_dict(), "n_contexts": "two"}, "state"),
    ],
)
def test_states_of_others_are_refused_and_change_nothing(other, message: str):
    predictor = Predictor(make("forest"))
    before = predictor.step([0.1, 0.2])
    with pytest.raises(SimileError, match=message):
        predictor.load_state_dict(other())
    fresh = Predictor(make("forest"))
    np.testing.assert_array_equal(fresh.step([0.1, 0.2]), before)
    np.testing.assert_array_equal(fresh.step([0.3, 0.2]), predictor.step([0.3, 0.2]))


@given(policies(), SEEDS)
@some(0.4)
def test_a_reset_predictor_is_a_new_one(policy, seed: int):
    predictor = Predictor(policy, start=np.ones(policy.n_actions), stages=STAGES, seed=seed)
    play(predictor, frames_of(policy, 45, seed), stamped=True)
    predictor.reset()
    x = contexts_of(policy, 40, seed + 1)
    np.testing.assert_array_equal(run(predictor, x), run(Predictor(policy, stages=STAGES, seed=seed), x))


# ------------------------------------------------------------------------------------------------------------ refusals


def blank(**options) -> Predictor:
    return Predictor(make("forest"), **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: blank().step([1.0]), r"x must hold 2 values; got shape \(1,\)"),
        (lambda: blank().step([[1.0, 2.0]]), r"x must hold 2 values; got shape \(1, 2\)"),
        (lambda: blank().step([1.0, np.inf]), r"x must be finite or NaN \(missing\); got inf at column 1 \('x1'\)"),
        (lambda: blank().step(["1", "2"]), "x must be numbers"),
        (lambda: blank().step([None, "a"]), "x must be numbers"),
        (lambda: blank().step({"x0": 1.0}), "x: 'x1' is missing: give it, as NaN"),
        (lambda: blank().step({"x0": 1.0, "x1": 2.0, "y": 3.0}), "no context is called 'y'; the policy knows x0, x1"),
        (lambda: Predictor(affine(0), start=0.0).step({"x0": 1.0}), "does not know the names of its contexts"),
        (lambda: blank().step(None), "nothing is known yet of stream 0.* or start="),
        (lambda: blank().override([1.0, 2.0]), r"action must hold 1 action; got shape \(2,\)"),
        (lambda: blank().override([np.nan]), "action must be finite; got"),
        (lambda: blank().override([1e308]), r"action must lie within 1e\+06 deviations of the training's .*got 1e"),
        (lambda: blank(start=1e308), r"start must lie within 1e\+06 deviations of the training's mean, from -.* to "),
        (lambda: blank(start=[1.0, 2.0]), "start must have the policy's 1 actions; got 2"),
        (lambda: blank(start=np.nan), "start must be finite"),
        (lambda: blank(start=simile.ExpertStart()), r"start must be known actions.*override\(action, x\)"),
        (lambda: Predictor(SmoothPolicy), "policy must be an object, not a class"),
        (lambda: blank(gap=HoldAction), "gap must be an object, not a class"),
        (lambda: blank(gap="hold"), "gap must be callable"),
        (lambda: blank(rate=0.0), "rate must be > 0"),
        (lambda: blank(seed=0.5), "seed must be a whole number"),
        (lambda: Extrapolate(frames=0), "frames must be >= 1"),
        (lambda: Predictor(affine(0)).step([1.0, 2.0]), "has no model of contexts alone"),
    ],
)
def test_bad_calls_are_refused(call, message: str):
    with pytest.raises(SimileError, match=message):
        call()


def test_a_refused_frame_is_not_taken():
    x = contexts_of(make("forest"), 20, 0)
    ours, theirs = blank(), blank()
    for c in x:
        for bad in ([1.0], [np.inf, 0.0], {"x": 1.0}):
            with pytest.raises(SimileError):
                ours.step(bad)
        np.testing.assert_array_equal(ours.step(c), theirs.step(c))


@pytest.mark.parametrize("action_lags", [0, 1])
def test_models_that_cannot_take_missing_values_say_so(action_lags: int):
    demos = demos_of(60, 50)
    policy = simile.clone(demos, model=LinearRegression(), horizon=Horizon(1, action_lags)).policy
    predictor = Predictor(policy)
    with pytest.raises(DataError, match=r"its model cannot take it .*step\(None\), or learn with model=SmoothForest"):
        predictor.step([np.nan, 1.0])
    predictor.step([0.0, 1.0])
    with pytest.raises(DataError, match="its model cannot take it"):
        predictor.step([0.0, np.nan])
    predictor.step(None)
    predictor.step([0.0, 1.0])


def test_importing_the_predictor_does_not_load_numba():
    code = "import sys, simile.online; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
