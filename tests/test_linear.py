"""Piecewise linear models: what they predict, alone and among forests, rolled out, online and from a file."""

from __future__ import annotations

import math
import signal
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simile
from conftest import demos_of
from naive import NaiveStream, naive_lines, naive_roll
from simile import ColdStart, DivergedError, Horizon, Mixture, Ridge, SimileError, SmoothPolicy
from simile.data import tasks
from simile.data.recorded import ActionSpace, Units
from simile.models import PiecewiseLinear, WeightedModel
from simile.models.columns import layout
from simile.models.kernels import predicting
from simile.models.regularizers import Autoregressor
from simile.online import Predictor, PredictorPool
from simile.online.engines import FusedEngine
from simile.online.history import SPARE
from simile.policies.fused import FusedPolicy, _merge
from simile.policies.rollouts import open_rollout, rollout
from simile.policies.storage.loading import load
from test_forest import LENGTHS, policy_of, rolled_generally, with_holes

# The generator of the bags wraps around on purpose; NumPy says so where numba is switched off.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in scalar:RuntimeWarning")

RNG = np.random.default_rng
SEEDS = st.integers(0, 2**32)
KINDS = ("lines", "two sets of lines", "forest and lines", "nested", "mixture")


def lines(horizon: Horizon, m: int = 2, k: int = 1, n: int = 12, seed: int = 0) -> PiecewiseLinear:
    """Random terms over the states of a horizon, small enough together for a stable loop."""
    rng = RNG(seed)
    columns, lags = layout(horizon, m, k)
    return PiecewiseLinear(
        feature=rng.integers(len(columns), size=n),
        knot=np.where(rng.random(n) < 0.4, -np.inf, rng.normal(size=n)),
        fill=rng.normal(size=n),
        coefficient=rng.normal(size=(n, k)) / max(n, 1),
        intercept=rng.normal(size=k),
        columns=columns,
        lags=lags,
        width=m + k,
    )


def policy_with_lines(kind: str, horizon: Horizon, *, k: int = 1, seed: int = 0, space: ActionSpace | None = None):
    """A policy of two contexts whose f has lines in it, in one of several ways."""
    demos = demos_of(30, 25, k=k, seed=seed % 1000)
    base = policy_of(demos, horizon, smoothness=2.0, space=space, seed=seed)
    assert isinstance(base, SmoothPolicy)
    forest, one, two = base.f, lines(horizon, k=k, seed=seed), lines(horizon, k=k, n=7, seed=seed + 1)
    naive = WeightedModel((base.naive, lines(horizon.without_actions(), k=k, seed=seed)), (0.5, 0.5))
    blend = WeightedModel((forest, one, two), (0.5, 0.2, 0.3))
    f = {
        "lines": one,
        "two sets of lines": WeightedModel((two, one), (0.25, 0.75)),
        "forest and lines": blend,
        "nested": WeightedModel((WeightedModel((one, forest), (0.4, 0.6)), two), (0.7, 0.3)),
        "mixture": blend,
    }[kind]
    policy = replace(base, f=f, naive=naive)
    if kind != "mixture":
        return policy
    h = Autoregressor(RNG(seed).dirichlet(np.ones(3), size=k).T)
    return Mixture((policy, replace(policy, f=two, h=h), base), (0.5, 0.2, 0.3))


@st.composite
def policies(draw):
    """Policies of all kinds, sizes and horizons."""
    lags = draw(st.sampled_from([(0, 0), (3, 0), ((0, 5), ()), (1, 2), ((0, 4), (2, 6))]))
    k = draw(st.integers(1, 3))
    space = draw(st.sampled_from([None, ActionSpace(-0.5, 0.5), ActionSpace(low=np.full(k, -0.1))]))
    return policy_with_lines(draw(st.sampled_from(KINDS)), Horizon(*lags), k=k, seed=draw(SEEDS), space=space)


def walk(length: int, seed: int = 0, missing: float = 0.1) -> np.ndarray:
    """Two contexts on a random walk with holes."""
    rng = RNG(seed)
    x = np.cumsum(rng.normal(size=(length, 2)), axis=0)
    return np.where(rng.random(x.shape) < missing, np.nan, x)


# Prediction


@given(st.integers(0, 20), st.integers(1, 3), st.integers(0, 9), SEEDS)
def test_lines_predict_as_their_naive_twin_to_the_bit(n_terms: int, k: int, n: int, seed: int):
    model = lines(Horizon(2, 1), k=k, n=n_terms, seed=seed)
    rng = RNG(seed)
    S = rng.normal(scale=3.0, size=(n, len(model.columns)))
    S[rng.random(S.shape) < 0.2] = np.nan
    predicted = model.predict(S)
    assert predicted.shape == (n, k)
    np.testing.assert_array_equal(predicted, naive_lines(model, S).reshape(n, k))


def test_a_state_is_predicted_to_the_same_bits_whatever_its_company():
    model = lines(Horizon(4, 0), k=2, n=300)
    S = RNG(1).normal(size=(50, len(model.columns)))
    together = model.predict(S)
    for i, row in enumerate(S):
        np.testing.assert_array_equal(model.predict(row[np.newaxis]), together[i : i + 1])
    np.testing.assert_array_equal(model.predict(np.asfortranarray(S)[::-1]), together[::-1])
    turned = replace(model, coefficient=np.asfortranarray(model.coefficient))
    np.testing.assert_array_equal(turned.predict(S), together)


def test_a_hinge_is_flat_up_to_its_knot_and_missing_values_count_as_fill():
    model = PiecewiseLinear(
        feature=np.array([0, 0, 1]),
        knot=np.array([1.0, -np.inf, 0.0]),
        fill=np.array([5.0, -3.0, -9.0]),
        coefficient=np.array([[2.0], [10.0], [100.0]]),
        intercept=np.array([0.5]),
        columns=np.array([0, 1]),
        lags=np.array([0, 0]),
        width=3,
    )
    S = np.array([[0.0, -1.0], [3.0, 2.0], [-np.inf, 0.0], [np.nan, np.nan]])
    expected = [[0.5 + 2.0], [0.5 + 6.0 + 30.0 + 200.0], [-np.inf], [0.5 + 10.0 - 30.0]]
    np.testing.assert_array_equal(model.predict(S), expected)


def test_values_are_taken_in_single_precision_as_a_forest_takes_them():
    model = replace(lines(Horizon(0, 0), m=1, n=1), knot=np.array([-np.inf]), feature=np.zeros(1, np.intp))
    fine = 1.0 + 1e-12
    np.testing.assert_array_equal(model.predict(np.array([[fine]])), model.predict(np.array([[1.0]])))
    assert np.isinf(model.predict(np.array([[1e300]]))).all()


@pytest.mark.parametrize("lags", [(0, 0), (3, 0), (2, 2), ((0, 4), (1, 3))])
def test_reading_the_tape_gives_the_bits_of_reading_the_lag_matrix(lags):
    horizon = Horizon(*lags)
    demos = with_holes(demos_of(25, k=2))
    model = lines(horizon, k=2, n=40)
    room = max(horizon.memory, *horizon.context_lags)
    frames = np.concatenate([demos[0].contexts, demos[0].actions], axis=1).astype(np.float32)
    Z = np.concatenate([np.repeat(frames[:1], room, axis=0), frames])
    out = np.empty((len(frames), 2))
    places = (room + np.arange(len(frames))) * model.width
    none, at = np.empty(0, np.int32), np.empty(predicting.BLOCK, np.int32)
    no_trees = predicting.Trees(np.empty(0, predicting.NODE), none, none, np.empty((0, 2)), False)
    predicting.predict(no_trees, predicting.Lines(model.on_tape, model.slopes), Z.ravel(), places, len(places), at, out)
    np.testing.assert_array_equal(out, model.predict(horizon.states(demos, demos.actions).matrix()))


def test_another_number_of_features_and_features_that_are_none_are_refused():
    model = lines(Horizon(1, 0))
    with pytest.raises(SimileError, match="S must have the 4 features f was fitted on; got 3"):
        model.predict(np.zeros((2, 3)))
    for wrong in (4, -5):  # the kernels would read anywhere
        with pytest.raises(IndexError):
            replace(model, feature=np.full(12, wrong)).predict(np.zeros((2, 4)))


# Roll-outs


@given(policies(), LENGTHS, SEEDS, st.sampled_from(["expert", "cold", "given"]))
def test_the_fused_roll_out_is_the_general_one(policy, lengths, seed: int, start: str):
    demos = demos_of(*lengths, k=policy.n_actions, seed=seed % 1000)
    demos = with_holes(demos, seed=seed) if seed % 2 else demos
    begin = {"expert": None, "cold": ColdStart(), "given": RNG(seed).normal(size=(3, policy.n_actions))}[start]
    assert FusedPolicy.of(simile.collapse(policy)) is not None
    ours, theirs = rollout(policy, demos, start=begin), rolled_generally(policy, demos, start=begin)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@settings(max_examples=20)
@given(policies(), LENGTHS, SEEDS)
def test_the_fused_roll_out_equals_its_naive_twin(policy, lengths, seed: int):
    demos = with_holes(demos_of(*lengths, k=policy.n_actions, seed=seed % 1000), seed=seed)
    opening = open_rollout(policy, demos)
    twin = naive_roll(policy, demos.contexts, opening.past, opening.given)
    for ours, theirs in zip(rollout(policy, demos), twin, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_terms_that_are_the_same_are_summed_once():
    policy = policy_with_lines("lines", Horizon(2, 0))
    f = policy.f
    fused = FusedPolicy.of(policy)
    assert len(fused.lines.terms) == len(f.feature)
    again = replace(policy, f=WeightedModel((f, replace(f, intercept=f.intercept + 1.0)), (0.5, 0.5)))
    twice = FusedPolicy.of(again)
    np.testing.assert_array_equal(twice.lines.terms, fused.lines.terms)
    np.testing.assert_allclose(twice.lines.slopes[1:], fused.lines.slopes[1:], rtol=1e-15)
    np.testing.assert_allclose(twice.lines.slopes[0], f.intercept + 0.5, rtol=1e-15)
    for name in ("knot", "fill"):
        other = replace(f, **{name: np.arange(12.0)})
        assert len(FusedPolicy.of(replace(policy, f=WeightedModel((f, other), (0.5, 0.5)))).lines.terms) == 24


def test_lines_that_add_nothing_leave_the_bits_of_a_forest_alone():
    demos, horizon = demos_of(40, 30, k=2), Horizon(2, 2)
    policy = policy_of(demos, horizon)
    nothing = replace(lines(horizon, k=2), coefficient=np.zeros((12, 2)), intercept=np.zeros(2))
    both = replace(policy, f=WeightedModel((policy.f, nothing), (1.0, 0.0)))
    for a, b in zip(rollout(policy, demos), rollout(both, demos), strict=True):
        np.testing.assert_array_equal(a, b)


def test_an_intercept_alone_is_a_policy():
    policy = policy_with_lines("lines", Horizon(1, 0))
    policy = replace(policy, f=lines(Horizon(1, 0), n=0))
    assert FusedPolicy.of(policy) is not None
    x = [walk(20), walk(7, 1)]
    ours, theirs = (roll(policy, x, start=0.0) for roll in (rollout, rolled_generally))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_models_of_other_states_or_actions_are_not_fused():
    policy = policy_with_lines("forest and lines", Horizon(1, 0))
    forest, one, _ = policy.f.models
    for other in (
        lines(Horizon(2, 0)),
        lines(Horizon(1, 0), m=3),
        replace(one, lags=one.lags[::-1]),
        replace(one, width=4),
        replace(lines(Horizon(1, 0), m=1, k=2), columns=one.columns, lags=one.lags),
    ):
        for models in ((forest, other), (other, forest), (one, other)):
            assert FusedPolicy.of(replace(policy, f=WeightedModel(models, (0.5, 0.5)))) is None


def test_threads_share_the_sequences_and_change_no_bit(monkeypatch):
    demos = demos_of(30, 1, 12, 25, 7)
    policy = policy_with_lines("mixture", Horizon(1, 2))
    alone = rollout(policy, demos)
    monkeypatch.setattr("simile.policies.fused.FEWEST_FRAMES", 1)
    for n in (2, 16):
        monkeypatch.setattr("simile.policies.fused.os.cpu_count", lambda n=n: n)
        for a, b in zip(rollout(policy, demos), alone, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # where numba is switched off
@pytest.mark.parametrize("frame", [3, 7])
def test_a_context_beyond_all_numbers_is_divergence_at_its_frame(frame: int):
    policy = policy_with_lines("forest and lines", Horizon(1, 0))
    x = [walk(12, missing=0.0), walk(12, 1, missing=0.0)]
    x[1][frame] = 1e300
    for roll in (rollout, rolled_generally):
        with (
            np.errstate(invalid="ignore", over="ignore"),
            pytest.raises(DivergedError, match=f"sequence 1 diverged at frame {frame}"),
        ):
            roll(policy, x, start=0.0)


def test_other_contexts_than_f_was_fitted_on_are_refused():
    policy = replace(policy_with_lines("lines", Horizon(1, 0)), n_contexts=None)
    with pytest.raises(SimileError, match="contexts must have the 2 columns that f was fitted on; got 3"):
        rollout(policy, [np.zeros((5, 3))], start=0.0)


# Online, and from a file


@settings(max_examples=25)
@given(policies(), st.integers(1, 2 * SPARE), SEEDS, st.booleans())
def test_predictors_and_pools_have_the_bits_of_a_roll_out(policy, length: int, seed: int, cold: bool):
    x = [walk(length, seed + i) for i in range(3)]
    known = None if cold else RNG(seed).normal(size=(2, policy.n_actions))
    rolled = rollout(policy, x, start=ColdStart() if cold else known)
    pool = PredictorPool(policy, 3, start=known)
    predictor = Predictor(policy, start=known)
    assert isinstance(predictor._streams.engine, FusedEngine)
    crowd = np.array([pool.step(np.array(now)) for now in zip(*x, strict=True)])
    for i in range(3):
        np.testing.assert_array_equal(crowd[:, i], rolled[i])
    np.testing.assert_array_equal([predictor.step(now) for now in x[0]], rolled[0])


@settings(max_examples=10)
@given(policies(), SEEDS, st.booleans())
def test_online_the_kernel_does_what_its_naive_twin_does(policy, seed: int, cold: bool):
    policy = simile.collapse(policy)
    start = [] if cold else RNG(seed).normal(size=(3, policy.n_actions))
    twin, predictor = NaiveStream(policy, start), Predictor(policy, start=start if len(start) else None)
    for frame, x in enumerate(walk(SPARE + 12, seed)):
        ours, theirs = (predictor.step(None), twin.miss()) if frame % 9 == 5 else (predictor.step(x), twin.step(x))
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_policy_has_the_bits_of_the_one_that_was_saved(kind: str, tmp_path: Path):
    policy = policy_with_lines(kind, Horizon((0, 3), 2), k=2)
    policy.save(tmp_path / "policy.safetensors")
    again = load(tmp_path / "policy.safetensors")
    x = [walk(40), walk(30, 1)]
    for start in (ColdStart(), np.zeros((2, 2))):
        for a, b in zip(rollout(policy, x, start=start), rollout(again, x, start=start), strict=True):
            np.testing.assert_array_equal(a, b)


# What is done with policies


def test_mixtures_with_lines_collapse_and_prune():
    policy = policy_with_lines("mixture", Horizon(2, 0))
    whole = simile.collapse(policy)
    assert isinstance(whole, SmoothPolicy)
    assert isinstance(whole.f, WeightedModel)
    light = Mixture((*policy.components, policy.components[0]), (*(w * (1 - 1e-8) for w in policy.weights), 1e-8))
    pruned = simile.prune(light)
    assert (pruned.dropped, pruned.weight) == (1, 1e-8)
    assert math.isnan(pruned.bound)  # lines have no largest value
    x = [walk(30)]
    expected = rollout(policy, x, start=0.0)[0]
    for same in (whole, pruned.policy, light):
        np.testing.assert_allclose(rollout(same, x, start=0.0)[0], expected, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_policies_with_lines_are_diagnosed_and_evaluated(kind: str):
    demos = demos_of(30, 25)
    policy = policy_with_lines(kind, Horizon(1, 2))
    found = simile.diagnose(policy, demos)
    assert np.isfinite([found.gamma, found.radius, found.fit_error]).all()
    assert math.isnan(found.beta) == (kind != "mixture")
    assert str(found)
    assert np.isfinite([row["rmse"] for row in simile.evaluate(policy, demos).recordings()]).all()


def test_units_and_bounds_are_those_of_any_policy():
    policy = policy_with_lines("lines", Horizon(1, 0))
    inside = policy.in_units(Units(np.array([10.0]), np.array([4.0])), ActionSpace(9.9, 10.1))
    rolled = rollout(inside, [walk(50)], start=10.0)[0]
    assert rolled.min() == 9.9
    assert rolled.max() <= 10.1
    predictor = Predictor(inside, start=10.0)
    np.testing.assert_array_equal([predictor.step(x) for x in walk(50)], rolled)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
def test_an_interrupt_while_models_are_merged_stays_an_interrupt():
    run = simile.learn(tasks.pursuit(n_sequences=3, length=80), model=Ridge(), smoothness=5.0)
    models = [(simile.collapse(run.policy).f, 1.0)] * 2

    def interrupt(number, frame):
        raise KeyboardInterrupt

    def merge_until(wait: float):
        signal.setitimer(signal.ITIMER_REAL, wait)
        while True:
            _merge(models, 1)

    before, tracer = signal.signal(signal.SIGALRM, interrupt), sys.gettrace()
    sys.settrace(None)  # an interrupt within coverage's tracer would leave its lock held, and all would wait for ever
    try:
        for wait in np.linspace(1e-4, 1e-3, 300):
            with pytest.raises(KeyboardInterrupt):
                merge_until(wait)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        sys.settrace(tracer)
