"""Bounds that are learned, and where a policy begins without a start: at every door the same."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simile
from commands import simile_
from conftest import demos_of, some
from simile import ActionSpace, ColdStart, Horizon, Predictor, PredictorPool, SmoothForest, rollout
from simile.data.demonstrations import Demonstrations
from simile.errors import ArgumentError, DataError, SimileError, StorageError
from simile.learning import ALGORITHMS, algorithms
from simile.learning.bounds import MARGIN, learn_space
from simile.policies import rollouts as rollouts_module
from simile.policies.fused import FusedPolicy
from simile.policies.policies import Policy
from simile.policies.storage.files import from_bytes, to_bytes
from test_export import Compiled, Graphed, compiles

FEW = SmoothForest(n_trees=2, n_jobs=1)


def learned(demos: Demonstrations, algorithm: str = "clone", **settings) -> Policy:
    """Learn quickly."""
    rounds = {} if algorithm in ("learn", "clone") else {"n_rounds": 2}
    return getattr(algorithms, algorithm)(demos, model=FEW, **rounds, **settings).policy


def cranes(n: int = 4, length: int = 120) -> Demonstrations:
    """Speeds of something that hangs still at first: experts begin within 0.02 of it, and reach 2.5."""
    rng, contexts, actions = np.random.default_rng(5), [], []
    for _ in range(n):
        x = np.cumsum(rng.normal(size=(length, 2)), axis=0)
        ramp = np.minimum(np.arange(length) / 30.0, 1.0)[:, np.newaxis]
        contexts.append(x)
        actions.append(np.clip(ramp * x[:, :1], -2.5, 2.5) + rng.uniform(-0.02, 0.02))
    return Demonstrations.from_arrays(contexts, actions)


def extents(demos: Demonstrations) -> tuple[np.ndarray, np.ndarray]:
    actions = np.concatenate(demos.actions)
    return actions.min(axis=0), actions.max(axis=0)


def firsts(demos: Demonstrations) -> tuple[np.ndarray, np.ndarray]:
    first = np.array([a[0] for a in demos.actions])
    return first.min(axis=0), first.max(axis=0)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_learns_the_range_of_the_actions_and_of_the_first_ones(algorithm: str):
    demos = demos_of(60, 50, 40, k=2)
    space, (low, high) = learned(demos, algorithm).space, extents(demos)
    room = MARGIN * (high - low)
    assert np.allclose(space.low, low - room, rtol=1e-12)
    assert np.allclose(space.high, high + room, rtol=1e-12)
    assert np.array_equal([space.first_low, space.first_high], firsts(demos))
    assert space.learned


def test_simple_rivals_have_the_bounds_of_the_policy():
    demos = demos_of(60, 50, 40)
    run = simile.learn(demos, model=FEW)
    assert run.baseline is not None
    assert np.array_equal(run.baseline.space.low, run.policy.space.low)


def test_bounds_that_are_given_are_kept_and_can_be_none():
    demos = demos_of(60, 50)
    wide, none = (learned(demos, space=space).space for space in (ActionSpace(-1e3, 1e3), ActionSpace()))
    assert (wide.low, wide.high, wide.learned) == (-1e3, 1e3, False)
    assert (none.low, none.high, none.learned) == (-np.inf, np.inf, False)
    for space in (wide, none):  # where experts begin is another matter
        assert np.array_equal([space.first_low, space.first_high], firsts(demos))
    own = ActionSpace(-1e3, 1e3, first_low=-5.0, first_high=5.0)
    assert learned(demos, space=own).space.first_high == 5.0
    with pytest.raises(DataError, match="outside the bounds"):
        learned(demos, space=ActionSpace(0.0, 1e-3))


def test_a_constant_action_has_bounds_too():
    demos = demos_of(60, 50, k=3)
    still = demos.with_actions([a * [1.0, 0.0, 0.0] + [0.0, 7.0, 0.0] for a in demos.actions])
    space = learned(still).space
    assert (space.low < space.high).all()
    assert np.allclose(space.low[1:], [7.0, 0.0])
    assert (np.abs(np.concatenate(rollout(learned(still), still)) - [0.0, 7.0, 0.0])[:, 1:] <= 1e-8).all()


@pytest.mark.parametrize("algorithm", ["learn", "paper"])
def test_learned_bounds_widen_by_what_is_learned_later_and_given_ones_do_not(algorithm: str):
    first, more = demos_of(60, 50, 40, seed=1), demos_of(60, 50, 40, seed=2)
    more = more.with_actions([3.0 * a + 1.0 for a in more.actions])
    # A policy that cross-fitting can go on from is one on contexts alone.
    before = learned(first, "learn")
    after, fresh = learned(more, algorithm, initial=before).space, learn_space(more)
    assert np.array_equal(after.low, np.minimum(before.space.low, fresh.low))
    assert np.array_equal(after.high, np.maximum(before.space.high, fresh.high))
    assert np.array_equal(after.first_low, np.minimum(before.space.first_low, fresh.first_low))
    assert after.learned
    given_ones = before.in_units(before.units, ActionSpace(-1e3, 1e3), before.card)
    kept = learned(more, algorithm, initial=given_ones).space
    assert (kept.low, kept.high, kept.learned) == (-1e3, 1e3, False)
    assert np.array_equal(kept.first_low, fresh.first_low)


def test_a_file_keeps_bounds_and_one_without_them_is_as_it_always_was(tmp_path: Path):
    policy = learned(demos_of(60, 50, k=2))
    policy.save(tmp_path / "p.safetensors")
    space = simile.load(tmp_path / "p.safetensors").space
    for name in ("low", "high", "first_low", "first_high", "learned"):
        assert np.array_equal(getattr(space, name), getattr(policy.space, name))
    bare = policy.in_units(policy.units, ActionSpace(-9.0, 9.0), policy.card)
    tree = from_bytes(to_bytes(bare)).header["policy"]["space"]
    assert sorted(tree) == ["high", "kind", "low"]


@pytest.mark.parametrize(
    "change", [{"learned": 1}, {"first_low": [9e9]}, {"first_low": [None]}, {"first_low": [0.0] * 3}]
)
def test_a_file_with_bounds_that_make_no_sense_is_refused(change: dict):
    from simile.policies.storage.decoding import Decoder

    tree = {"kind": "ActionSpace", "low": [-1.0], "high": [1.0], "first_low": [0.0], "first_high": [0.5], **change}
    with pytest.raises(StorageError, match="space"):
        Decoder(from_bytes(to_bytes(learned(demos_of(20)))), None).read_space(tree, "policy.space")


def test_bounds_of_first_actions_must_be_as_many_and_in_order():
    with pytest.raises(ArgumentError, match="first_low must be as many as first_high, and not above"):
        ActionSpace(first_low=1.0, first_high=0.0)
    with pytest.raises(ArgumentError, match="first_high must be a number or one per action"):
        ActionSpace(first_low=1.0, first_high="far")


def test_train_and_inspect_tell_the_bounds(tmp_path: Path):
    simile.write(cranes(), tmp_path / "cranes.csv")
    quick = ["--model", "SmoothForest(n_trees=2)", "--no-report", "--sequence", "sequence"]
    for out, more in (("learned", []), ("none", ["--space", "none"])):
        simile_("train", "cranes.csv", "--actions", "a0", *quick, *more, "--out", out, cwd=tmp_path)
        shown = simile_("inspect", f"{out}/policy.safetensors", "--json", cwd=tmp_path).stdout
        told = json.loads(shown)["structure"]
        assert told["bounds"] == out
        assert (told["low"] == [None]) == (out == "none")
        assert -0.02 <= told["first_low"][0] <= told["first_high"][0] <= 0.02


# -------------------------------------------------------------------------------------------------- without a start


@pytest.mark.parametrize(
    ("algorithm", "lead"), [("learn", 0), ("learn", -3), ("learn", 3), ("paper", 0), ("paper", 3), ("searn", 0)]
)
def test_without_a_start_the_first_action_is_where_experts_begin(algorithm: str, lead: int):
    demos = cranes()
    policy = learned(demos, algorithm, lead=lead)
    low, high = firsts(demos)
    x = np.full((40, 2), 30.0)  # of which f says 2.5
    actions = rollout(policy, [x], start=ColdStart())[0]
    assert (low <= actions[0] <= high).all()
    assert (low <= actions[max(lead, 0)] <= high).all()
    assert np.abs(actions[-1]) > 0.1  # and then it goes there
    predictor = Predictor(policy)
    stepped = [a for a in map(predictor.step, x) if a is not None]
    stepped += list(predictor.flush()) if lead < 0 else []
    assert np.array_equal(stepped[: len(x) - max(lead, 0)], actions[max(lead, 0) :])
    assert np.array_equal(np.array([PredictorPool(policy, 2).step(np.array([x[0], x[0]]))]).shape, (1, 2, 1))


def test_what_holds_and_what_no_kernel_rolls_out_begins_there_too(monkeypatch: pytest.MonkeyPatch):
    demos = cranes()
    policy = learned(demos, "learn").holding(simile.Hold(0.05))
    x = np.full((40, 2), 30.0)
    actions = rollout(policy, [x], start=ColdStart())[0]
    predictor = Predictor(policy)
    assert np.array_equal([predictor.step(row) for row in x], actions)
    monkeypatch.setattr(FusedPolicy, "of", classmethod(lambda cls, policy: None))
    assert np.allclose(rollout(policy, [x], start=ColdStart())[0], actions, rtol=0.0, atol=1e-12)
    predictor = Predictor(policy)
    assert np.allclose([predictor.step(row) for row in x], actions, rtol=0.0, atol=1e-12)
    assert rollouts_module.find_first(policy) is not None


def test_a_start_that_is_given_is_not_moved():
    policy = learned(cranes(), "learn")
    x = np.full((3, 2), 30.0)
    far = Predictor(policy, start=[2.0]).step(x[0])
    assert far > 1.0
    assert np.array_equal(far, rollout(policy, [x], start=[2.0])[0][0])
    led = Predictor(policy)
    led.override([2.0], x[0])
    assert led.step(x[1]) > 1.0


def test_who_waits_begins_where_an_operator_put_it_and_a_state_remembers_how_it_began():
    policy = learned(cranes(), "learn", lead=-2)
    x = np.full((6, 2), 30.0)
    led, cold = Predictor(policy), Predictor(policy)
    led.override([2.0], x[0])
    led.step(x[1])
    assert led.step(x[2]) > 1.0
    cold.step(x[0])
    again = Predictor(policy)
    again.load_state_dict(cold.state_dict())
    again.step(x[1])
    assert abs(again.step(x[2])) <= 0.02
    blind = Predictor(policy)
    blind.step(x[0])
    assert [blind.step(None), blind.step(None) <= 0.02][1]


def test_networks_begin_there_on_a_device():
    torch_rollouts = pytest.importorskip("simile.policies.batched").rollouts
    pytest.importorskip("torch")
    demos = cranes()
    network = simile.TorchRegressor(simile.MLP((8,)), epochs=3)
    policy = simile.learn(demos, model=network, hold=0.0).policy
    x = np.stack([np.full((50, 2), 30.0), demos[0].contexts[:50]])
    rolled = torch_rollouts(policy, x, device="cpu")
    expected = rollout(policy, list(x), start=ColdStart())
    assert np.allclose(rolled, expected, rtol=0.0, atol=1e-4)
    low, high = firsts(demos)
    assert ((low <= rolled[:, 0]) & (rolled[:, 0] <= high)).all()
    tight = policy.in_units(
        policy.units, replace(policy.space, low=np.array([-0.1]), high=np.array([0.1])), policy.card
    )
    assert np.allclose(torch_rollouts(tight, x, device="cpu"), rollout(tight, list(x), start=ColdStart()), atol=1e-4)


# -------------------------------------------------------------------------------------------------------- the files


@compiles
@pytest.mark.parametrize("start", [None, 0.0], ids=["cold", "given"])
@pytest.mark.parametrize("algorithm", ["learn", "paper"])
def test_300_steps_in_c_have_the_bits_of_the_predictor(tmp_path: Path, algorithm: str, start: float | None):
    policy = learned(cranes(), algorithm)
    x = 10.0 * np.random.default_rng(3).normal(size=(300, 2)).cumsum(axis=0)
    program = Compiled(policy, tmp_path)
    assert "begins    from -0.0" in (tmp_path / "pan.h").read_text()
    predictor = Predictor(policy, start=start if start is None else [start])
    program.begin(x[0], None if start is None else [start])
    acted = np.array([program.step(row) for row in x])
    assert np.array_equal(acted, [predictor.step(row) for row in x])
    assert ((policy.space.low <= acted) & (acted <= policy.space.high)).all()


@compiles
def test_c_begins_where_experts_do_unless_it_is_told(tmp_path: Path):
    policy, far = learned(cranes(), "learn", lead=-2), np.full(2, 30.0)
    for operator, most in ((False, 0.02), (True, 2.5)):
        program, predictor = Compiled(policy, tmp_path), Predictor(policy)
        program.begin(far)
        if operator:
            program.override(far, [2.0])
            predictor.override([2.0], far)
        else:
            program.step(far)
            predictor.step(far)
        program.step(far)
        predictor.step(far)
        first = program.step(far)
        assert np.array_equal(first, predictor.step(far))
        assert (abs(first) > 1.0) == operator
        assert abs(first) <= most
        assert np.array_equal(program.miss(), predictor.step(None))


@pytest.mark.parametrize("lead", [0, -2])
def test_the_graph_begins_where_experts_do(tmp_path: Path, lead: int):
    pytest.importorskip("onnx")
    policy = learned(cranes(), "learn", lead=lead).holding(simile.Hold(0.01))
    graph, predictor = Graphed(policy, tmp_path, m=2), Predictor(policy)
    for row in np.full((30, 2), 30.0):
        said, expected = graph.step(row)[0], predictor.step(row)
        assert np.isnan(said).all() if expected is None else np.allclose(said, expected, rtol=0.0, atol=1e-9)


# -------------------------------------------------------------------------------------------------------- properties


@st.composite
def recordings(draw: st.DrawFn) -> Demonstrations:
    """Draw recordings of any size and scale, some columns of which may be constant."""
    m, k, n = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 4))
    lengths = draw(st.lists(st.integers(2, 40), min_size=n, max_size=n))
    demos = demos_of(*lengths, m=m, k=k, seed=draw(st.integers(0, 99)))
    scales = draw(st.lists(st.sampled_from([1e-9, 0.0, 1.0, 1e9]), min_size=k, max_size=k))
    places = draw(st.lists(st.sampled_from([-1e6, 0.0, 3.0]), min_size=k, max_size=k))
    flat = draw(st.booleans())
    demos = demos.with_actions([a * scales + places for a in demos.actions])
    return Demonstrations(tuple(replace(d, contexts=0.0 * d.contexts) for d in demos)) if flat else demos


@some(2.0)
@given(recordings(), st.sampled_from(ALGORITHMS), st.integers(0, 2))
def test_no_action_leaves_the_bounds_offline_or_online(demos: Demonstrations, algorithm: str, seed: int):
    with suppress(SimileError):  # too little to learn from
        policy = learned(demos, algorithm, **({} if algorithm == "learn" else {"horizon": Horizon(2, 2)}))
        space, (low, high) = policy.space, firsts(demos)
        wild = 100.0 * np.random.default_rng(seed).normal(size=(12, demos.n_contexts)).cumsum(axis=0)
        cold = rollout(policy, [wild], start=ColdStart(), seed=seed)[0]
        predictor = Predictor(policy, seed=seed)
        stepped = np.array([predictor.step(x) for x in wild])
        assert np.array_equal(cold, stepped)
        after = rollout(policy, demos, seed=seed)
        own = [a[policy.memory :] for a in after]
        for actions in (cold, *own):
            assert ((space.low <= actions) & (actions <= space.high)).all()
        assert ((low <= cold[0]) & (cold[0] <= high)).all()
