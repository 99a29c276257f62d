"""Contexts far from 0, such as northings or seconds since 1970: nothing of them is lost, anywhere, nor in silence.

The twin of data at x is data at x + offset, with values for which that sum is exact: all that is learned from it, and
all that it then does, must have the same bits.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn import linear_model
from sklearn.ensemble import RandomForestRegressor

import simile
from commands import simile_
from conftest import demos_of
from naive import naive_place
from simile import Demonstrations, Horizon, Predictor, PredictorPool, SmoothForest, rollout
from simile.data.origins import choose_origin, find_places, tell_origin
from simile.data.recorded import Units
from simile.errors import ArgumentError, StorageError
from simile.evaluation.report.importances import measure_importances
from simile.evaluation.rivals.controllers import forecast
from simile.evaluation.rivals.predictors import ContextForest, ContextRidge, NoisyHistory
from simile.learning.distributed.backend import LocalBackend
from simile.models.ridge import Ridge
from simile.policies.cards import Card
from simile.policies.policies import SmoothPolicy
from simile.policies.storage.files import from_bytes, to_bytes
from simile.policies.storage.loading import read_header
from simile.studio.preview import compute_outputs
from test_storage import sealed

FOREST = SmoothForest(n_trees=4, min_leaf=4, n_jobs=1)
QUICK: dict[str, Any] = {"model": FOREST, "horizon": Horizon((0, 1, 3), 0), "smoothness": 3.0}
# Offsets and scales: UTM, seconds since 1970, and more; every sum below is exact in double precision.
FAR = [(5.4e6, 1.0), (1e9, 1.0), (-1e12, 1.0), (1e3, 2.0**-20), (2.0**40, 2.0**20)]


def near(scale: float = 1.0, *, missing: float = 0.02, **more: Any) -> Demonstrations:
    """Make demonstrations around 0, in steps of scale / 256, with some values missing."""
    demos, rng = demos_of(90, 70, 80, m=3, rate=25.0, **more), np.random.default_rng(1)
    steps = [np.round(256.0 * np.sin(x) + 64.0 * rng.normal(size=x.shape)) for x in demos.contexts]
    contexts = [np.where(rng.random(x.shape) < missing, np.nan, scale / 256.0 * x) for x in steps]
    return Demonstrations.from_arrays(contexts, demos.actions, rate=25.0)


def moved(demos: Demonstrations, offset: float, columns: Any = slice(None)) -> Demonstrations:
    """Return the twin of demonstrations, some of whose contexts lie at an offset."""
    offsets = np.zeros(demos.n_contexts)
    offsets[columns] = offset
    contexts = [x + offsets for x in demos.contexts]
    assert all(np.array_equal(x - offsets, y, equal_nan=True) for x, y in zip(contexts, demos.contexts, strict=True))
    return Demonstrations.from_arrays(contexts, demos.actions, rate=25.0)


def learn(how: str, demos: Demonstrations) -> Any:
    if how == "learn":
        return simile.learn(demos, model=(FOREST, Ridge(knots=2)), smoothness=3.0, horizon=Horizon(3, 0)).policy
    if how == "paper":
        return simile.paper(demos, model=FOREST, horizon=Horizon(2, 2), n_rounds=2).policy
    if how == "path":
        points = simile.path(demos, smoothness=(1.0, 9.0), model=FOREST, horizon=Horizon(3, 0)).points
        return points[-1].policy
    model = {"trees": RandomForestRegressor(4, random_state=0), "ridge": linear_model.Ridge()}[how]
    return simile.clone(demos, model=model, horizon=Horizon(2, 1), smoothness=3.0).policy


def check_same(policy: Any, twin: Any, demos: Demonstrations, far: Demonstrations) -> None:
    for start in (simile.ExpertStart(), simile.ColdStart()):
        for a, b in zip(rollout(policy, demos, start=start), rollout(twin, far, start=start), strict=True):
            np.testing.assert_array_equal(a, b)


# ------------------------------------------------------------------------------------------------------------ the rule


def test_contexts_near_0_have_no_origin_and_keep_their_bits():
    demos = near()
    assert Units.of(demos).origin is None
    assert all(a is b for a, b in zip(demos.standardize(Units.of(demos)).contexts, demos.contexts, strict=True))
    policy = simile.clone(demos, **QUICK).policy
    assert "origin" not in str(from_bytes(to_bytes(policy)).header)


@pytest.mark.parametrize(
    ("column", "origin"),
    [
        ([0.0] * 40, 0.0),  # constant
        ([5.4e6] * 40, 0.0),  # constant too: nothing to lose
        ([np.nan] * 40, 0.0),
        ([float(i) for i in range(40)], 0.0),
        ([1000.0 + i / 4 for i in range(40)], 0.0),  # single precision holds these well
        ([300.0 if i % 3 else 300.0 * (1 + 2e-16) for i in range(40)], 0.0),  # rounding errors
        ([1e9 + i for i in range(40)], 1e9),
        ([1e9 + i if i % 3 else 0.0 for i in range(80)], 1e9),  # missing values coded as 0
        ([1e9 + i if i % 3 == 0 else 0.0 for i in range(160)], 1e9),  # most of them
        ([1e9 + i if i % 4 == 0 else np.nan for i in range(160)], 1e9),
        ([1e9 if i % 4 else 1e9 + i for i in range(160)], 1e9),  # it rests most of the time
    ],
)
def test_the_origin_of_a_column(column: list[float], origin: float):
    found = choose_origin(find_places(np.array(column)[:, np.newaxis])[np.newaxis])
    assert found is None if origin == 0.0 else abs(found[0] - origin) <= 512.0


def test_the_origin_goes_by_what_moves_within_sequences_and_else_between_them():
    moving = [find_places(5.4e6 + 1e4 * i + np.arange(40.0)[:, np.newaxis]) for i in range(9)]
    assert choose_origin(np.array(moving))[0] == pytest.approx(5.44e6, abs=512)
    rests = [find_places(np.full((40, 1), 5.4e6 + i)) for i in range(9)]
    assert choose_origin(np.array(rests))[0] == pytest.approx(5.4e6, abs=64)
    assert choose_origin(np.array(rests[:1])) is None


@given(
    offset=st.floats(-1e12, 1e12),
    spread=st.floats(1e-6, 1e6),
    seed=st.integers(0, 99),
    shape=st.sampled_from([(1, 30), (5, 40), (3, 700)]),
)
def test_with_an_origin_single_precision_holds_what_double_does(offset, spread, seed, shape):
    assume(spread > 2.0**-44 * abs(offset))  # else there is nothing even in double precision
    x = offset + spread * np.random.default_rng(seed).normal(size=(*shape, 1))
    units = Units(np.zeros(1), np.ones(1), choose_origin(np.array([find_places(one) for one in x])))
    shifted = units.shift(x)
    assert np.array_equal(units.shift_back(shifted), x)
    lost = np.abs(shifted.astype(np.float32) - shifted).max()
    assert lost <= spread / 1000.0
    if units.origin is not None:
        assert np.array_equal(units.origin, choose_origin(np.array([find_places(one) for one in x[::-1]])))


# --------------------------------------------------------------------------------------------------- learning, acting


@pytest.mark.parametrize("how", ["learn", "paper", "path", "trees", "ridge"])
def test_a_policy_learned_far_from_0_acts_with_the_bits_of_its_twin(how: str):
    demos = near(missing=0.0)
    far = moved(demos, 1e9, [0, 2])
    policy, twin = learn(how, demos), learn(how, far)
    np.testing.assert_array_equal(twin.units.origin, [1e9, 0.0, 1e9])
    check_same(policy, twin, demos, far)


@pytest.mark.parametrize(("offset", "scale"), FAR)
def test_all_offsets_and_scales_give_the_bits_of_the_twin_online_too(offset: float, scale: float):
    demos = near(scale)
    far = moved(demos, offset)
    policy, twin = (simile.clone(d, **QUICK).policy for d in (demos, far))
    np.testing.assert_array_equal(twin.units.origin, np.full(3, offset))
    check_same(policy, twin, demos, far)
    cold = rollout(twin, far.contexts[:2], start=simile.ColdStart())
    one = Predictor(twin)
    np.testing.assert_array_equal([one.step(x) for x in far.contexts[0]], cold[0])
    pool = PredictorPool(twin, 2)
    frames = np.stack([x[:70] for x in far.contexts[:2]], axis=1)
    np.testing.assert_array_equal(np.array([pool.step(X) for X in frames])[:, 1], cold[1][:70])


@pytest.mark.parametrize("offset", [5400123.456, 1700000000.789, -123456789012.3])
def test_any_offset_costs_no_more_than_the_rounding_of_the_data(offset: float):
    demos = near()
    far = Demonstrations.from_arrays([x + offset for x in demos.contexts], demos.actions, rate=25.0)
    settings = {**QUICK, "model": Ridge(knots=2)}
    policy, twin = (simile.clone(d, **settings).policy for d in (demos, far))
    apart = np.concatenate(rollout(policy, demos)) - np.concatenate(rollout(twin, far))
    assert np.abs(apart).max() < 1e-4 * policy.units.scale[0]


def test_gaps_overrides_pauses_and_states_far_from_0_are_those_of_the_twin():
    demos = near()
    far = moved(demos, 1e9)
    pairs = [(simile.clone(d, **QUICK).policy, d.contexts[0]) for d in (demos, far)]

    def act(policy: Any, x: Any) -> Any:
        one, acted = Predictor(policy), []
        for t in range(40):
            if t == 20:
                other = Predictor(policy)
                other.load_state_dict(one.state_dict())
                one = other
            acted.append(one.override([0.5], x[t]) if t in (7, 8) else one.step(None if t % 9 == 5 else x[t]))
        stamped = Predictor(policy)
        return acted + [stamped.step(x[t], t=t / 20.0 + (30.0 if t > 25 else 0.0)) for t in range(40)]

    np.testing.assert_array_equal(*(act(*pair) for pair in pairs))


def test_a_pool_adopts_the_past_of_a_policy_with_another_origin():
    demos = near()
    low, high = (simile.clone(moved(demos, offset), **QUICK).policy for offset in (1e9, 1e9 + 2048))
    assert not low.units.equals(high.units)
    contexts = moved(demos, 1e9).contexts[0]
    old, new, other = PredictorPool(low, 1), PredictorPool(high, 1), PredictorPool(low, 1)
    for x in contexts[:20]:
        old.step([x])
    new.adopt(old)
    other.adopt(new)
    np.testing.assert_array_equal(old.step([contexts[20]]), other.step([contexts[20]]))
    with pytest.raises(ArgumentError, match="context_origin"):
        new.load_state_dict(old.state_dict())
    with pytest.raises(ArgumentError, match="context_origin"):
        PredictorPool(simile.clone(demos, **QUICK).policy, 1).load_state_dict(old.state_dict())


def test_parts_on_a_cluster_have_the_origin_and_the_bits_of_one_machine():
    far = moved(near(), 1e9)
    one, parts = (simile.paper(far, model=FOREST, n_rounds=1, backend=b).policy for b in (None, LocalBackend(parts=2)))
    assert one.units.equals(parts.units)
    check_same(one, parts, far, far)


def test_an_oracle_is_shown_the_contexts_as_they_are():
    far, seen = moved(near(missing=0.0), 1e9), []

    def oracle(states: Any) -> Any:
        seen.append(states.contexts)
        return states.history(1)[:, 0]

    simile.dagger(far, model=FOREST, feedback=simile.OracleFeedback(oracle), n_rounds=1)
    np.testing.assert_array_equal(seen[0], np.concatenate(far.contexts))


def test_networks_far_from_0_have_the_bits_of_their_twin():
    pytest.importorskip("torch")
    from simile.policies.batched import rollouts

    demos = near(missing=0.0)
    far = moved(demos, 1e9)
    model = simile.TorchRegressor(simile.MLP((8,)), epochs=2)
    settings = {**QUICK, "model": model}
    policy, twin = (simile.clone(d, **settings).policy for d in (demos, far))
    check_same(policy, twin, demos, far)
    some = [np.stack([x[:50] for x in d.contexts]) for d in (demos, far)]
    np.testing.assert_array_equal(rollouts(policy, some[0], device="cpu"), rollouts(twin, some[1], device="cpu"))


def test_what_looks_into_policies_far_from_0_sees_what_it_sees_in_the_twin():
    demos = near(missing=0.0)
    far = moved(demos, 1e9)
    pairs = [(simile.clone(d, **{**QUICK, "model": Ridge(knots=2)}).policy, d) for d in (demos, far)]
    assert str(simile.diagnose(*pairs[0])) == str(simile.diagnose(*pairs[1]))
    np.testing.assert_array_equal(*(compute_outputs(policy, d[0]) for policy, d in pairs))
    assert measure_importances(*pairs[0]) == measure_importances(*pairs[1])
    for source in (ContextForest(FOREST), ContextRidge(), NoisyHistory((0.1,), model=FOREST)):
        value = {"ContextRidge": 1e-3, "NoisyHistory": 0.1}.get(type(source).__name__, 0.0)
        rivals = [source.chosen(d, value, 0) for d in (demos, far)]
        check_same(*rivals, demos, far)
        if not rivals[0].horizon.memory:
            np.testing.assert_array_equal(*(forecast(r, d)[0] for r, d in zip(rivals, (demos, far), strict=True)))


# --------------------------------------------------------------------------------------------------- files and exports


def test_an_origin_is_kept_in_a_file_of_version_2_which_older_readers_refuse(tmp_path: Path):
    far = moved(near(), 1e9)
    policy = simile.paper(far, model=FOREST, n_rounds=1).policy
    policy = policy.in_units(policy.units, simile.ActionSpace(), policy.card)
    policy.save(tmp_path / "far.safetensors")
    loaded = simile.load(tmp_path / "far.safetensors")
    assert loaded.units.equals(policy.units)
    check_same(policy, loaded, far, far)
    assert to_bytes(loaded) == to_bytes(policy)
    header = read_header(tmp_path / "far.safetensors")
    assert (header["version"], header["structure"]["origin"]) == (2, [1e9] * 3)
    plain = simile.clone(near(), **QUICK).policy
    plain.in_units(plain.units, simile.ActionSpace(), plain.card).save(tmp_path / "near.safetensors")
    assert read_header(tmp_path / "near.safetensors")["version"] == 1


@pytest.mark.parametrize(
    ("origin", "message"),
    [
        ([1e9], "an origin for each of n_contexts; got 1"),
        ([0.0, 0.0, 0.0], "not all 0"),
        ([1e101, 0.0, 0.0], r"no number beyond 1e\+100"),
        ([1e9, None, 0.0], "a list of finite numbers"),
        (None, "must be a list"),
    ],
)
def test_an_origin_that_makes_no_sense_is_refused(origin: Any, message: str, tmp_path: Path):
    packed = from_bytes(to_bytes(simile.clone(moved(near(), 1e9), **QUICK).policy))
    packed.header["policy"]["units"]["origin"] = origin
    path = tmp_path / "odd.safetensors"
    path.write_bytes(sealed(packed))
    with pytest.raises(StorageError, match=message):
        simile.load(path)


def test_mixtures_share_their_origin():
    near_, far = (simile.clone(d, **QUICK).policy for d in (near(), moved(near(), 1e9)))
    with pytest.raises(ArgumentError, match="share their units"):
        simile.Mixture((near_, far), (0.5, 0.5))


def test_a_run_far_from_0_goes_on_from_its_checkpoints_to_the_same_bits(tmp_path: Path):
    far, choices = moved(near(), 1e9), {"horizon": Horizon(2, 2), "n_rounds": 2}
    model = simile.Checkpointed(FOREST, tmp_path)
    for turn in simile.rounds(far, model=model, **choices):
        if turn.number == 1:
            break
    *_, resumed = simile.rounds(far, model=simile.Checkpointed(FOREST, tmp_path), **choices)
    *_, whole = simile.rounds(far, model=FOREST, **choices)
    check_same(resumed.policy, whole.policy, far, far)


def test_the_command_says_what_it_took_off_and_acts_by_the_bits_of_the_twin(tmp_path: Path):
    demos = near(missing=0.0)
    answers = []
    for name, some in (("near", demos), ("far", moved(demos, 5.4e6))):
        simile.write(some, tmp_path / f"{name}.csv")
        how = (
            "--actions",
            "a0",
            "--algorithm",
            "clone",
            "--model",
            "SmoothForest(n_trees=4)",
            "--no-report",
            "--out",
            name,
        )
        done = simile_("train", f"{name}.csv", *how, cwd=tmp_path)
        assert ("note: contexts so far from 0" in done.stdout) == (name == "far")
        policy = f"{name}/policy.safetensors"
        assert ("origin" in simile_("inspect", policy, cwd=tmp_path).stdout) == (name == "far")
        rows = [",".join(some.context_names), *(",".join(map(repr, x.tolist())) for x in some.contexts[0][:20])]
        done = simile_("run", policy, cwd=tmp_path, stdin="\n".join(rows))
        assert not done.stderr
        answers.append(done.stdout)
    assert answers[0] == answers[1]


# ------------------------------------------------------------------------------------------------------ what is said


def test_a_run_says_which_contexts_are_measured_from_elsewhere():
    run = simile.clone(moved(near(), 1e9, [1]), **QUICK)
    assert run.notes == (
        "contexts so far from 0 that single precision would lose them are measured from nearby: x1 from 1000000000",
    )
    assert "measured from nearby" in str(run)
    assert simile.clone(near(), **QUICK).notes == ()
    assert simile.learn(moved(near(), 1e9, [1]), **QUICK).notes[0] == run.notes[0]


def test_a_run_says_what_no_single_origin_can_save():
    demos = near(missing=0.0)
    contexts = [x + 1e9 * i for i, x in enumerate(demos.contexts)]
    apart = Demonstrations.from_arrays(contexts, demos.actions, context_names=("north", "b", "c"))
    notes = simile.clone(apart, **QUICK).notes
    assert any(
        n.startswith("north lies in places far apart: in 2 sequences of 3 it is held in steps of") for n in notes
    )
    assert tell_origin(demos.context_names, demos.places, None) == []


@pytest.mark.parametrize(("scale", "told"), [(1e-40, True), (1e39, True), (1e-30, False), (1e37, False)])
def test_a_run_says_what_is_too_small_or_too_large(scale: float, told: bool):
    demos = near(scale, missing=0.0)
    assert any("in another unit" in n for n in tell_origin(demos.context_names, demos.places, None)) == told


@given(
    st.lists(st.lists(st.floats(-1e9, 1e9) | st.sampled_from([0.0, 1.0, np.nan]), min_size=1), min_size=1, max_size=3)
)
def test_places_are_those_of_the_slow_twin(columns: list[list[float]]):
    length = min(map(len, columns))
    contexts = np.array([column[:length] for column in columns]).T
    np.testing.assert_array_equal(find_places(contexts).T, [naive_place(column.tolist()) for column in contexts.T])


def test_the_ranges_on_a_card_tell_contexts_far_from_0_apart():
    far = moved(near(), 1e9, [1])
    low, high = simile.clone(far, **QUICK).policy.card.ranges(3)
    assert (low[1], high[1]) == tuple(extreme[1] for extreme in far.extremes())


@pytest.fixture(autouse=True)
def _heard(caplog: pytest.LogCaptureFixture) -> None:
    """Hear warnings: a service that has run in this process may have muted them."""
    caplog.set_level(logging.WARNING, logger="simile.policies.precision")


@pytest.mark.parametrize("model", [FOREST, RandomForestRegressor(4, random_state=0)])
def test_a_policy_that_is_fed_what_it_cannot_tell_apart_says_so_once(model: Any, caplog: pytest.LogCaptureFixture):
    demos = near(missing=0.0)
    policy = simile.clone(demos, **{**QUICK, "model": model}).policy
    rollout(policy, demos)
    Predictor(policy).step(demos.contexts[0][0])
    assert not caplog.records
    far = moved(demos, 1e9, [1])
    rollout(policy, far)
    assert len(caplog.records) == 1
    assert caplog.records[0].levelno == logging.WARNING
    assert caplog.messages[0].startswith("context 'x1' is 1000000000")
    assert "in steps of 1.2e+02, too coarse for a policy that was trained on values within" in caplog.messages[0]
    one, pool = Predictor(policy), PredictorPool(policy, 2)
    for x in far.contexts[0][:5]:
        one.step(x)
        pool.step([x, x])
    assert caplog.messages[1:] == [caplog.messages[1]] * 2


def test_a_policy_of_an_older_simile_that_lost_its_contexts_says_so(caplog: pytest.LogCaptureFixture):
    far = moved(near(16.0, missing=0.0), 5.4e6, [1])
    policy = simile.clone(far, **QUICK).policy
    rollout(policy, far)
    assert not caplog.records
    older = replace(policy, units=replace(policy.units, origin=None))
    Predictor(older).step(far.contexts[0][0])
    assert "learn it anew if an older simile did" in caplog.messages[0]


def test_a_context_that_never_moves_is_not_told_of(caplog: pytest.LogCaptureFixture):
    demos = near(missing=0.0)
    still = [np.concatenate([x, np.full((len(x), 1), 0.1234567)], axis=1) for x in demos.contexts]
    policy = simile.clone(Demonstrations.from_arrays(still, demos.actions), **QUICK).policy
    Predictor(policy).step([*demos.contexts[0][0], 0.3])
    assert not caplog.records


def test_a_sequence_in_which_a_context_rests_is_not_told_of():
    demos = near(missing=0.0)
    contexts = [x + 40.0 if i else 40.0 + 1e-6 * x for i, x in enumerate(demos.contexts)]
    assert simile.clone(Demonstrations.from_arrays(contexts, demos.actions), **QUICK).notes == ()


def test_ranges_that_make_no_sense_watch_nothing(caplog: pytest.LogCaptureFixture):
    policy = simile.clone(near(), **QUICK).policy
    for ranges in (None, {"low": [0.0], "high": [1.0]}, {"low": [None] * 3, "high": [None] * 3}, {"low": "abc"}):
        odd = replace(policy, card=Card(training={"ranges": ranges}))
        assert isinstance(odd, SmoothPolicy)
        Predictor(odd).step([1e9] * 3)
    assert not caplog.records
    Predictor(replace(policy, card=Card(training=policy.card.training))).step([1e9] * 3)
    assert caplog.messages[0].startswith("context 'x0'")
