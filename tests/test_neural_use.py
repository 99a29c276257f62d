"""Policies of networks in use: rolled out in blocks, stepped, served, saved, judged; whatever is wrong is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simile
from conftest import demos_of
from simile import ActionSpace, ColdStart, Horizon, Predictor, PredictorPool, SimileError, SmoothForest, SmoothPolicy
from simile.data.recorded import Units
from simile.errors import StorageError
from simile.models import PiecewiseLinear, WeightedModel
from simile.models.neural import GRU, MLP, TCN, StateShape, TorchRegressor
from simile.models.regularizers import CriticallyDamped
from simile.policies.batched import rollouts
from simile.policies.hold import Hold
from simile.policies.offset import Offset
from simile.policies.policies import Mixture
from simile.policies.storage.files import Packed, from_bytes, to_bytes
from simile.policies.storage.loading import check_savable, load, read_header
from test_neural import TINY, network
from test_storage import sealed
from test_storage_hostile import changed

torch = pytest.importorskip("torch")

RNG = np.random.default_rng
HORIZON = Horizon((0, 1, 4), 0)
RECIPES = (MLP((5, 3)), TCN(4, 2), GRU(4))


def policy_of(recipe=TINY, *, m: int = 2, k: int = 1, lag: float = 4.0, seed: int = 0, **options) -> SmoothPolicy:
    # Bounds within reach throw a filter of a higher order back and forth: rounding then grows from frame to frame.
    h = CriticallyDamped(1 if "space" in options else 3)
    smoothness = h.smoothness_for(lag)
    f = network(recipe, StateShape.of(HORIZON, m, k), seed=seed)
    units = Units(np.arange(1.0, k + 1.0), np.full(k, 1.5))
    return SmoothPolicy(f, h.fit([np.zeros((1, k))], smoothness), smoothness, HORIZON, None, m, units, **options)


def contexts_of(*lengths: int, m: int = 2, holes: float = 0.0, seed: int = 0) -> list:
    rng = RNG(seed)
    found = [rng.normal(size=(n, m)) for n in lengths]
    return [np.where(rng.random(x.shape) < holes, np.nan, x) for x in found]


def assert_close(found, expected) -> None:
    """Networks calculate in single precision, so what counts is the size of what they say."""
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0.0, atol=1e-6 * max(1.0, np.abs(b).max()))


class ByItself:
    """A policy that is asked frame by frame, because nobody knows what is in it."""

    def __init__(self, policy: SmoothPolicy) -> None:
        self.policy = policy

    def __getattr__(self, name: str):
        return getattr(self.policy, name)


def frame_by_frame(policy: SmoothPolicy, contexts, start=None) -> list:
    return simile.rollout(ByItself(policy), contexts, start=start)


# --------------------------------------------------------------------------------------------------- roll-outs


@given(
    recipe=st.sampled_from(RECIPES),
    k=st.integers(1, 2),
    lag=st.floats(0.0, 20.0),
    bounded=st.booleans(),
    cold=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(max_examples=20)
def test_roll_outs_in_blocks_are_those_frame_by_frame(recipe, k, lag, bounded, cold, seed):
    options = {"space": ActionSpace(-0.5, 2.0)} if bounded else {}
    policy = policy_of(recipe, k=k, lag=lag, seed=seed, **options)
    contexts = contexts_of(30, 1, 12, holes=0.1, seed=seed)
    start = ColdStart() if cold else RNG(seed).normal(size=(2, k))
    blocks, plain = (roll(policy, contexts, start=start) for roll in (simile.rollout, frame_by_frame))
    assert_close(blocks, plain)
    if bounded:
        assert all((a >= -0.5).all() and (a <= 2.0).all() for a in blocks)


def test_the_expert_starts_roll_outs_of_mixtures_with_forests_too():
    demos = demos_of(60, 40, 50)
    forest = simile.learn(demos, model=SmoothForest(n_trees=3), smoothness=30.0, horizon=HORIZON).policy
    forest = forest.keeping(None)
    net = replace(policy_of(), h=forest.h, smoothness=forest.smoothness, units=forest.units)
    mixture = Mixture((forest, net), (0.3, 0.7))
    whole = simile.collapse(mixture)
    assert isinstance(whole.f, WeightedModel)
    assert_close(simile.rollout(mixture, demos), frame_by_frame(whole, demos))


def test_f_is_asked_in_blocks_and_not_in_every_frame(monkeypatch):
    asked = []
    policy = policy_of()
    monkeypatch.setattr(type(policy.f), "predict", lambda self, S: asked.append(len(S)) or np.zeros((len(S), 1)))
    simile.rollout(policy, contexts_of(200, 100), start=np.zeros(1))
    assert asked == [302]  # with the frame before each sequence


def test_a_roll_out_that_diverges_says_where():
    policy = policy_of()
    wild = replace(policy, f=replace(policy.f, center=np.full(1, 1e20, np.float32)))
    with pytest.raises(simile.DivergedError, match="sequence 0 diverged at frame"):
        simile.rollout(wild, contexts_of(20, 20), start=np.zeros(1))


@given(
    recipe=st.sampled_from(RECIPES),
    lag=st.floats(0.1, 20.0),
    length=st.integers(1, 60),
    block=st.sampled_from([7, 50, 1000]),
    bounded=st.booleans(),
    cold=st.booleans(),
    held=st.booleans(),
    kept=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(max_examples=25)
def test_roll_outs_on_a_device_are_those_of_rollout(recipe, lag, length, block, bounded, cold, held, kept, seed):
    options = {"space": ActionSpace(-0.5, 2.0)} if bounded else {}
    one, other = (policy_of(r, k=2, lag=lag, seed=seed, **options) for r in (recipe, MLP((3,))))
    weights = (0.4, 0.6) if cold else (np.array([0.4, 0.1]), np.array([0.6, 0.9]))
    policy = Mixture((one, other), weights).holding(Hold(0.2) if held else None)
    policy = policy.keeping(Offset((0.5, 1.0), (0.9, 1.0)) if kept else None)
    contexts = contexts_of(*[length] * 5, holes=0.1, seed=seed)
    start = None if cold else RNG(seed).normal(size=2)
    found = rollouts(policy, np.stack(contexts), start=start, device="cpu", block=block)
    expected = simile.rollout(policy, contexts, start=ColdStart() if cold else start)
    assert_close(found, expected)


def test_a_mean_beside_a_network_is_rolled_out_on_a_device_too():
    bare = policy_of(MLP((3,)), k=2, lag=2.0, seed=0)
    mean = PiecewiseLinear.constant(np.array([0.5, -2.0]), bare.horizon, 2)
    policy = replace(bare, f=WeightedModel((bare.f, mean), (np.array([0.7, 1.0]), np.array([0.3, 0.0]))))
    contexts = contexts_of(40, 40, seed=1)
    found = rollouts(policy, np.stack(contexts), start=np.zeros(2), device="cpu")
    assert_close(found, simile.rollout(policy, contexts, start=np.zeros(2)))


def test_roll_outs_on_a_device_are_for_networks_with_a_linear_h_and_contexts_that_fit():
    policy, contexts = policy_of(), np.zeros((2, 5, 2))
    forest = simile.learn(demos_of(60, 40), model=SmoothForest(n_trees=2), smoothness=3.0, horizon=HORIZON).policy
    for wrong in (forest, replace(policy, horizon=Horizon(1, 1))):
        with pytest.raises(SimileError, match=r"use simile\.rollout for others"):
            rollouts(wrong, contexts)
    with pytest.raises(SimileError, match=r"contexts must be an \(n, T, 2\) array"):
        rollouts(policy, contexts[0])
    with pytest.raises(SimileError, match=r"start must hold an action, \(1,\) or \(2, 1\)"):
        rollouts(policy, contexts, start=np.zeros((3, 1)), device="cpu")
    with pytest.raises(simile.DivergedError):
        rollouts(replace(policy, f=replace(policy.f, spread=np.full(1, np.inf, np.float32))), contexts, device="cpu")


# ------------------------------------------------------------------------------------------------------ online


@pytest.mark.parametrize("recipe", RECIPES)
def test_steps_are_those_of_a_roll_out(recipe):
    policy, (x, y) = policy_of(recipe).holding(Hold(0.1)), contexts_of(25, 25, holes=0.1)
    rolled = simile.rollout(policy, [x, y], start=ColdStart())
    predictor = Predictor(policy)
    assert_close([np.array([predictor.step(row) for row in x])], rolled[:1])
    pool = PredictorPool(policy, 2)
    stepped = np.stack([pool.step(np.stack([a, b])) for a, b in zip(x, y, strict=True)], axis=1)
    assert_close(stepped, rolled)


def test_networks_are_served():
    pytest.importorskip("msgspec")
    from served import Played

    policy, (x,) = policy_of(), contexts_of(20)
    played = Played(policy)
    found = played.play(played.open(), x)
    assert_close([found], simile.rollout(policy, [x], start=ColdStart()))


def test_policies_of_networks_are_judged_diagnosed_and_reported_on(tmp_path: Path):
    train, test = demos_of(80, 80, 80, rate=10.0), demos_of(60, 60, seed=1, rate=10.0)
    model = TorchRegressor(MLP((8,)), epochs=3)
    run = simile.learn(train, model=[SmoothForest(n_trees=2), model], smoothness=3.0, horizon=HORIZON)
    alone = simile.learn(train, model=model, smoothness=3.0, horizon=HORIZON)
    for one in (run, alone):
        assert "RMSE" in str(simile.evaluate(one.policy, test))
        assert str(simile.diagnose(one.policy, test))
        simile.Report.of(one, test).save(tmp_path / "report.html")


def test_a_smoothness_that_matches_the_expert_is_found_for_networks():
    run = simile.learn(demos_of(100, 100, 100), model=TorchRegressor(MLP((4,)), epochs=2), horizon=HORIZON)
    assert run.frontier is not None


# ----------------------------------------------------------------------------------------------------- storage


@pytest.mark.parametrize("recipe", RECIPES)
def test_what_is_saved_comes_back_to_the_bit(recipe, tmp_path: Path):
    policy = policy_of(recipe, k=2)
    policy.save(tmp_path / "p")
    again = load(tmp_path / "p")
    assert again.f.recipe == policy.f.recipe
    assert again.f.shape == policy.f.shape
    assert to_bytes(again) == to_bytes(policy)
    contexts = contexts_of(20)
    for a, b in zip(*(simile.rollout(p, contexts, start=ColdStart()) for p in (policy, again)), strict=True):
        np.testing.assert_array_equal(a, b)
    assert read_header(tmp_path / "p")["structure"]["models"] == ["Network"]


def test_mixtures_and_networks_of_rounds_are_saved(tmp_path: Path):
    model = TorchRegressor(MLP((4,)), epochs=2)
    policy = simile.paper(demos_of(50, 50), model=model, n_rounds=2, horizon=Horizon(2, 2), step_size=0.5).policy
    policy.save(tmp_path / "p")
    again, demos = load(tmp_path / "p"), demos_of(30)
    np.testing.assert_array_equal(simile.rollout(policy, demos)[0], simile.rollout(again, demos)[0])


def test_a_policy_of_networks_is_read_without_torch_and_needs_it_to_act(tmp_path: Path):
    policy_of().save(tmp_path / "p")
    code = (
        "import sys\n"
        "sys.modules['torch'] = None\n"
        "import simile\n"
        "from simile.policies.storage.loading import read_header\n"
        f"policy = simile.load({str(tmp_path / 'p')!r})\n"
        f"assert read_header({str(tmp_path / 'p')!r})\n"
        "try:\n"
        "    simile.rollout(policy, [[[0.0, 1.0]]], start=[0.0])\n"
        "except simile.SimileError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'smooth-imitation[torch]'" in done.stdout


def test_a_module_of_one_s_own_is_not_saved_and_that_is_said_before_the_training(tmp_path: Path):
    model = TorchRegressor(lambda shape: torch.nn.Linear(shape.n_features, shape.n_actions), epochs=1)
    own = TorchRegressor(torch.nn.Linear(6, 1), epochs=1)
    for one in (model, own):
        # Cloned, it is the policy whatever it has learned; `learn` may rather keep the mean.
        policy = simile.clone(demos_of(40, 40), model=one, smoothness=3.0, horizon=HORIZON).policy
        with pytest.raises(StorageError, match=r"use simile\.neural\.MLP, TCN or GRU"):
            policy.save(tmp_path / "p")
        with pytest.raises(StorageError):
            check_savable(one)
    check_savable(TorchRegressor(epochs=1))


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("recipe.kind", "Foreign", "must be an object of kind GRU or MLP or TCN"),
        ("recipe.hidden", [], "hidden must be 1 to 64 layers"),
        ("recipe.hidden", [10**9], "hidden.* must be a whole number from 1 to 65536"),
        ("recipe.hidden", [5], "parameters.0 must be a tensor"),
        ("recipe.hidden", [4, 4], "parameters must be a list of 7 to 7"),
        ("recipe.hidden", 4, "hidden must be a list"),
        ("recipe.hidden", ..., "must have a field hidden"),
        ("recipe.extra", 1, "has a field that no MLP has"),
        ("shape.n_contexts", 3, "parameters.2 must be a tensor"),
        ("shape.n_contexts", 10**12, "must be a whole number from 1 to"),
        ("shape.context_lags", [0, 4, 1], "must be different lags in order"),
        ("shape.context_lags", [], "must be different lags in order"),
        ("shape.context_lags", [0, 1, 5], "must be a network for 2 contexts, 1 actions and the lags of the horizon"),
        ("shape.action_lags", [1], "parameters.2 must be a tensor"),
        ("shape.action_lags", [0], "must be a whole number from 1"),
        ("parameters", [], "parameters must be a list of 5 to 5"),
        ("parameters.0", {"tensor": "policy.f.parameters.1"}, "must be a reference to a tensor"),
        ("parameters.0", 3, "must be a reference to a tensor"),
        ("mean", None, "must be a reference to a tensor"),
        ("more", None, "has a field that no Network has"),
    ],
)
def test_files_with_wrong_trees_are_refused(tmp_path: Path, place, value, message):
    packed = from_bytes(to_bytes(policy_of()))
    header = changed(packed.header, f"policy.f.{place}", value)
    (tmp_path / "p").write_bytes(sealed(Packed(json.loads(json.dumps(header)), packed.tensors)))
    with pytest.raises(StorageError, match=message):
        load(tmp_path / "p")


@pytest.mark.parametrize(
    ("name", "edit", "message"),
    [
        ("parameters.0", lambda a: a * np.float32(np.nan), "parameters must be finite"),
        ("parameters.3", lambda a: a + np.float32(1e35), "parameters must be finite"),
        ("parameters.0", lambda a: a.astype(np.float64), "parameters.0 must be a tensor of float32"),
        ("parameters.0", lambda a: a.T, "parameters.0 must be a tensor of float32"),
        ("parameters.4", lambda a: a[:-1], "parameters.4 must be a tensor of float32"),
        ("mean", lambda a: a * np.float32(np.inf), "mean must be finite"),
        ("mean", lambda a: a[:-1], "mean must be a tensor"),
        ("center", lambda a: a * np.float32(np.nan), "center must be finite"),
        ("scale", lambda a: 0.0 * a, "scale must be above zero"),
        ("scale", lambda a: -a, "scale must be above zero"),
        ("spread", lambda a: a * np.float32(np.nan), "spread must be finite"),
    ],
)
def test_files_with_wrong_numbers_are_refused(tmp_path: Path, name, edit, message):
    packed = from_bytes(to_bytes(policy_of()))
    tensors = {**packed.tensors, f"policy.f.{name}": np.ascontiguousarray(edit(packed.tensors[f"policy.f.{name}"]))}
    (tmp_path / "p").write_bytes(sealed(Packed(packed.header, tensors)))
    with pytest.raises(StorageError, match=message):
        load(tmp_path / "p")
