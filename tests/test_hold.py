"""Policies that hold still: the hysteresis behind the filter, everywhere a policy acts, and how `learn` chooses it."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import simile
from commands import simile_
from conftest import demos_of
from simile.cli import main
from simile.data.logs import know_log
from simile.errors import ArgumentError, StorageError
from simile.evaluation.report.importances import measure_importances
from simile.learning import holds
from simile.learning.holds import COST, REST, REVERSALS, WIDTHS, Habits, fit_hold, hold_all
from simile.learning.recipes import parse
from simile.learning.runs import RunFolder
from simile.metrics import count_reversals, play, share_rest
from simile.models import Forest
from simile.online.streams import Streams
from simile.policies.hold import Hold
from simile.policies.policies import OpenPolicy, whole
from simile.policies.storage.decoding import Decoder
from simile.policies.storage.files import Packed, from_bytes, to_bytes
from simile.policies.storage.loading import read_header
from simile.serving.policy_file import load_policy

NUMBERS = st.floats(-10.0, 10.0)
WALKS = arrays(np.float64, st.integers(1, 60), elements=NUMBERS)
GLIDING, STEPPING = Hold(0.1), Hold(0.1, stepping=True)


def follow(actions: np.ndarray, width: float, *, stepping: bool) -> np.ndarray:
    """The naive twin."""
    y, out = actions[0], []
    for a in actions:
        y = (a if abs(a - y) > width else y) if stepping else min(max(y, a - width), a + width)
        out.append(y)
    return np.array(out)


def learned(k: int = 2, seed: int = 0, **settings: Any) -> Any:
    """A policy that is quickly learned, and what it learned from."""
    demos = demos_of(160, 160, 160, k=k, seed=seed)
    return simile.clone(demos, model=simile.SmoothForest(n_trees=4), horizon=simile.Horizon(3, 0), **settings).policy


@given(WALKS, st.floats(0.0, 5.0), st.booleans())
def test_the_kernel_and_the_call_frame_by_frame_are_the_loop(walk: np.ndarray, width: float, stepping: bool):
    hold, expected = Hold(width, stepping), follow(walk, width, stepping=stepping)
    assert np.array_equal(hold.along(walk[:, np.newaxis])[:, 0], expected)
    y = walk[:1, np.newaxis]
    for a, wanted in zip(walk, expected, strict=True):
        y = hold(np.array([[a]]), y)
        assert y.item() == wanted
    if not stepping:
        assert np.array_equal(play(walk, width), expected)


@given(
    st.integers(1, 40).flatmap(lambda n: st.tuples(*[arrays(np.float64, n, elements=NUMBERS)] * 2)), st.floats(0.0, 5)
)
def test_the_play_is_non_expansive_in_the_supremum_norm(walks: tuple[np.ndarray, np.ndarray], width: float):
    a, b = (Hold(width).along(walk[:, np.newaxis]) for walk in walks)
    assert np.abs(a - b).max() <= np.abs(walks[0] - walks[1]).max() + 1e-12


@given(WALKS, st.floats(0.0, 5.0), st.booleans())
def test_what_is_done_is_never_further_than_the_width_from_what_is_wanted(
    walk: np.ndarray, width: float, stepping: bool
):
    done = Hold(width, stepping).along(walk[:, np.newaxis])
    assert np.abs(done[:, 0] - walk).max() <= width * (1.0 + 1e-12) + 1e-12


@given(WALKS, st.floats(0.0, 5.0))
def test_the_play_turns_no_more_often_and_goes_no_further(walk: np.ndarray, width: float):
    done = Hold(width).along(walk[:, np.newaxis])
    assert count_reversals([done], 0.0)[0] <= count_reversals([walk[:, np.newaxis]], 0.0)[0]
    assert np.abs(np.diff(done[:, 0])).sum() <= np.abs(np.diff(walk)).sum() + 1e-9


def test_a_width_of_zero_is_no_hold():
    policy = learned()
    assert policy.holding(Hold(0.0)).hold is None
    assert np.array_equal(policy.holding(Hold(np.array([0.0, 0.1]))).hold.width, [0.0, 0.1])


@pytest.mark.parametrize(
    ("hold", "written"),
    [
        (Hold(0.1), "Hold(0.1)"),
        (Hold(0.1, stepping=True), "Hold(0.1, stepping=True)"),
        (Hold((0.3, 0.0), (False, True)), "Hold((0.3, 0.0), stepping=(False, True))"),
    ],
)
def test_a_hold_is_written_as_options_have_it(hold: Hold, written: str):
    assert repr(hold) == written
    again = parse(written, "hold")
    assert np.array_equal(again.width, hold.width)
    assert np.array_equal(again.stepping, hold.stepping)


def test_a_policy_and_inspect_tell_smoothness_and_hold_in_a_line(tmp_path: Path):
    policy = replace(learned(), smoothness=np.array([3.0, 30.0]), hold=Hold((0.3, 0.1), (False, True)))
    wide, narrow = policy.units.scale * [0.3, 0.1]
    line = f"SmoothPolicy: smoothness a0 3, a1 30; a0 glides within {wide:.4g}, a1 steps beyond {narrow:.4g}"
    assert str(policy) == line
    assert str(learned()) == "SmoothPolicy: smoothness 30"
    path = tmp_path / "policy.safetensors"
    policy.save(path)
    assert line in simile_("inspect", path, cwd=tmp_path).stdout
    found = json.loads(simile_("inspect", path, "--json", cwd=tmp_path).stdout)["structure"]
    assert found["summary"] == line
    assert found["hold"] == [wide, narrow]
    assert found["smoothness"] == [3.0, 30.0]


@pytest.mark.parametrize("hold", [None, Hold((0.3, 0.1), (False, True))])
def test_a_service_tells_anybody_how_its_policy_holds(tmp_path: Path, hold: Hold | None):
    policy = learned().holding(hold)
    policy.save(tmp_path / "policy.safetensors")
    facts = load_policy(tmp_path / "policy.safetensors").facts
    told = (None, None) if hold is None else ((hold.width * policy.units.scale).tolist(), [False, True])
    assert (facts.hold, facts.stepping) == told


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Hold(-1.0), "not below 0"),
        (lambda: Hold(np.nan), "finite"),
        (lambda: Hold("wide"), "one width"),
        (lambda: Hold(np.zeros((2, 2))), "one per action"),
        (lambda: Hold(np.ones(2), np.ones(3)), "for each action"),
        (lambda: learned().holding(Hold(np.ones(3))), "or 2; got 3"),
        (lambda: simile.interpolate(learned(), learned().holding(GLIDING), 0.5), "share their hold"),
        (
            lambda: simile.Mixture((learned().holding(STEPPING), learned().holding(GLIDING)), (0.5, 0.5)),
            "share their hold",
        ),
        (lambda: replace(learned(), smoothness=np.ones(3)), "one for each of 2 actions"),
        (lambda: simile.learn(demos_of(*[60] * 4), hold=-1.0), "hold must be >= 0"),
        (lambda: simile.learn(demos_of(*[60] * 4, k=2), smoothness=(1.0, 2.0, 3.0)), "one for each of 2 actions"),
        (lambda: simile.learn(demos_of(*[60] * 4, k=2), smoothness=[1.0, -2.0]), r"must be >= 0; got -2\.0"),
        (lambda: simile.paper(demos_of(60, 60, k=2), smoothness=simile.MatchExpert([1.0, 0.5])), "one lambda"),
        (lambda: simile.MatchExpert(()), "ratio must be a number"),
        (lambda: OpenPolicy().holding(Hold(0.1)), "cannot hold"),
        (
            lambda: simile.learn(demos_of(*[60] * 4, k=2), smoothness=simile.MatchExpert((1.0, 2.0, 3.0))),
            "ratio must be",
        ),
    ],
)
def test_what_cannot_be_held_is_refused(make: Any, words: str):
    with pytest.raises(ArgumentError, match=words):
        make()


def test_a_tuple_of_widths_has_one_for_each_action():
    demos = demos_of(*[60] * 4, k=2)
    policy = simile.learn(demos, model=simile.Ridge(), smoothness=5.0, hold=(0.2, 0.0)).policy
    assert np.array_equal(policy.hold.width, [0.2, 0.0])
    for wrong, words in (
        ((0.1, -1.0), "hold must be >= 0"),
        ((0.1, 0.2, 0.3), "or 2; got 3"),
        ((), "or one per action"),
    ):
        with pytest.raises(ArgumentError, match=words):
            simile.learn(demos, hold=wrong)


def test_train_takes_the_hold_and_says_what_it_made(tmp_path: Path):
    simile.write(demos_of(*[80] * 5, k=2, rate=25.0), tmp_path / "d.csv")
    said = ("--actions", "a0", "--actions", "a1", "--model", "Ridge()", "--smoothness", "(5, 20)", "--no-report")
    wanted = "Hold((0.2, 0.1), stepping=(False, True))"
    done = simile_("train", "d.csv", *said, "--hold", wanted, "--out", "run", cwd=tmp_path)
    policy = simile.load(tmp_path / "run/policy.safetensors")
    assert repr(policy.hold) == wanted
    assert f"Policy: run/policy.safetensors\n        {policy}\n" in done.stdout
    run = RunFolder(tmp_path / "run")
    assert "--hold" in run.command
    assert f"hold=simile.{wanted}" in run.python
    again = simile_(*shlex.split(run.command)[1:], "--out", "again", cwd=tmp_path)
    assert (tmp_path / "again/policy.safetensors").read_bytes() == (tmp_path / "run/policy.safetensors").read_bytes()
    assert str(policy) in again.stdout


# Everywhere a policy acts.


@pytest.mark.parametrize("hold", [GLIDING, STEPPING, Hold(np.array([0.05, 0.3]), np.array([True, False]))])
@pytest.mark.parametrize("general", [False, True], ids=["fused", "general"])
def test_batch_and_online_have_the_same_bits(hold: Hold, general: bool):
    policy = learned()
    policy = policy.in_units(policy.units, simile.ActionSpace(low=-6.0, high=6.0)).holding(hold)
    if general:
        policy = replace(policy, f=Plain(policy.f))
    X = demos_of(300, 300, k=2, seed=5).contexts
    rolled = simile.rollout(policy, X, start=simile.ColdStart())
    pool = simile.PredictorPool(policy, 2)
    together = np.array([pool.step(np.array(x)) for x in zip(*X, strict=True)])
    for i, x in enumerate(X):
        predictor = simile.Predictor(policy)
        assert np.array_equal([predictor.step(row) for row in x], rolled[i])
        assert np.array_equal(together[:, i], rolled[i])
    assert share_rest(rolled, 1e-6).max() > 0.1
    known = simile.rollout(policy, X, start=[0.5, -0.5])
    predictor = simile.Predictor(policy, start=[0.5, -0.5])
    assert np.array_equal([predictor.step(row) for row in X[0]], known[0])


class Plain:
    """A model that no kernel knows."""

    def __init__(self, f: Any) -> None:
        self.f = f

    def predict(self, S: np.ndarray) -> np.ndarray:
        return self.f.predict(S)


def test_a_roll_out_from_the_expert_goes_on_from_the_expert():
    demos = demos_of(100, 100, k=2, seed=3)
    policy = learned().holding(Hold(50.0))
    for rolled, expert in zip(simile.rollout(policy, demos), demos.actions, strict=True):
        assert np.array_equal(rolled[: policy.memory], expert[: policy.memory])
        assert np.abs(rolled[policy.memory :] - expert[policy.memory - 1]).max() < 1e-9  # wider than any wish


@pytest.mark.parametrize("hold", [GLIDING, STEPPING])
def test_the_hold_is_behind_the_loop_which_it_leaves_as_it_is(hold: Hold):
    demos, bare = demos_of(120, 90, k=2, seed=5), learned()
    policy = bare.holding(hold)
    assert policy.radius() == bare.radius()
    wanted = [policy.units.standardize(a) for a in simile.rollout(bare, demos)]
    expected = [policy.units.restore(a) for a in hold_all(hold, wanted, bare.memory)]
    for found, y in zip(simile.rollout(policy, demos), expected, strict=True):
        assert np.abs(found - y).max() < 1e-9


@pytest.mark.parametrize("hold", [GLIDING, STEPPING])
def test_a_predictor_resumes_in_the_middle_of_a_hold(hold: Hold):
    policy, X = learned().holding(hold), demos_of(200, k=2, seed=5).contexts[0]
    one, other = simile.Predictor(policy), simile.Predictor(policy)
    for x in X[:90]:
        one.step(x)
    other.load_state_dict(one.state_dict())
    assert np.array_equal([one.step(x) for x in X[90:]], [other.step(x) for x in X[90:]])
    assert "position" in one.state_dict()
    assert "position" not in simile.Predictor(learned()).state_dict()  # as snapshots were before
    with pytest.raises(ArgumentError, match="position"):
        simile.Predictor(learned()).load_state_dict(one.state_dict())


def test_gaps_and_operators_pass_the_hold_and_move_it():
    policy, X = learned().holding(Hold(0.2)), demos_of(60, k=2, seed=5).contexts[0]
    predictor = simile.Predictor(policy)
    for x in X[:20]:
        predictor.step(x)
    there = predictor.override([3.0, -3.0], X[20])
    assert np.array_equal(there, [3.0, -3.0])
    width = 0.2 * policy.units.scale
    bare = simile.Predictor(policy.holding(None))
    for x in X[:20]:
        bare.step(x)
    bare.override([3.0, -3.0], X[20])
    for x in [X[21], None, None, X[24]]:
        assert (np.abs(predictor.step(x) - bare.step(x)) <= width * (1 + 1e-12)).all()


def test_a_frame_that_is_taken_back_takes_back_the_hold():
    policy, X = learned().holding(Hold(0.05)), demos_of(60, k=2, seed=5).contexts[0]
    streams = Streams(policy, 1, start=None, gap=simile.Extrapolate(), stages=(), rate=25.0, seed=0)
    one = np.arange(1)
    for x in X[:30]:
        streams.step(one, x[np.newaxis])
    mark = streams.mark(one)
    first = streams.choose(one, X[30][np.newaxis])
    streams.withdraw(one, mark)
    assert np.array_equal(streams.choose(one, X[30][np.newaxis]), first)


def test_another_policy_goes_on_from_where_the_hold_stood():
    X = demos_of(60, k=2, seed=5).contexts[0]
    old = Streams(learned().holding(Hold(0.5)), 1, start=None, gap=simile.Extrapolate(), stages=(), rate=25.0, seed=0)
    new = Streams(
        learned(seed=9).holding(Hold(20.0)), 1, start=None, gap=simile.Extrapolate(), stages=(), rate=25.0, seed=0
    )
    one = np.arange(1)
    for x in X[:30]:
        last = old.step(one, x[np.newaxis])
    new.adopt(old)
    assert np.allclose(new.step(one, X[30][np.newaxis]), last, atol=1e-12)  # so wide that it does not move


@pytest.mark.parametrize("hold", [None, GLIDING, STEPPING])
def test_files_keep_the_hold_and_those_without_are_as_they_were(tmp_path: Path, hold: Hold | None):
    policy = replace(learned().holding(hold), space=simile.ActionSpace())  # learned bounds are of version 5
    path = tmp_path / "policy.safetensors"
    policy.save(path)
    demos = demos_of(80, 80, k=2)
    for one, other in zip(simile.rollout(policy, demos), simile.rollout(simile.load(path), demos), strict=True):
        assert np.array_equal(one, other)
    header = read_header(path)
    assert header["version"] == (1 if hold is None else 3)
    assert ("hold" in header["structure"]) == (hold is not None)


def test_files_keep_a_lambda_and_a_weight_for_each_action(tmp_path: Path):
    one = replace(learned(), smoothness=np.array([3.0, 30.0]), space=simile.ActionSpace())
    mixed = simile.interpolate(
        replace(learned(seed=2), smoothness=one.smoothness).in_units(one.units, one.space, one.card),
        one,
        np.array([0.25, 0.5]),
    )
    mixed.save(tmp_path / "policy.safetensors")
    found = simile.load(tmp_path / "policy.safetensors")
    demos = demos_of(80, 80, k=2)
    assert all(
        np.array_equal(a, b) for a, b in zip(simile.rollout(mixed, demos), simile.rollout(found, demos), strict=True)
    )
    assert to_bytes(found) == to_bytes(mixed)
    assert from_bytes(to_bytes(mixed)).header["version"] == 3


@pytest.mark.parametrize(
    ("hold", "words"),
    [
        ({"kind": "Hold", "width": [-1.0, 0.1], "stepping": [False, False]}, "width from 0 on"),
        ({"kind": "Hold", "width": [0.1, 0.1], "stepping": [0, 1]}, "whether it steps"),
        ({"kind": "Hold", "width": [0.1, 0.1], "stepping": [False]}, "2 choices"),
        ({"kind": "Hold", "width": [0.1] * 5, "stepping": [False] * 5}, "or 2; got 5"),
        ({"kind": "Hold", "width": [0.1, None], "stepping": [False] * 2}, "finite numbers"),
        ({"kind": "Hold", "width": [0.1, 1e300], "stepping": [False] * 2}, "up to 1e"),
        ({"kind": "Card"}, "kind Hold"),
    ],
)
def test_a_hostile_hold_is_refused(hold: dict[str, Any], words: str):
    packed = from_bytes(to_bytes(learned().holding(GLIDING)))
    header = {**packed.header, "policy": {**packed.header["policy"], "hold": hold}}
    with pytest.raises(StorageError, match=words):
        Decoder(Packed(header, packed.tensors), None).decode()


def test_a_mixture_of_other_holds_is_refused():
    one = learned().holding(GLIDING)
    other = learned(seed=1).in_units(one.units, one.space, one.card).holding(GLIDING)
    packed = from_bytes(to_bytes(simile.interpolate(one, other, 0.5)))
    policy = json.loads(json.dumps(packed.header["policy"]))
    del policy["components"][1]["hold"]
    with pytest.raises(StorageError, match="share their hold"):
        Decoder(Packed({**packed.header, "policy": policy}, packed.tensors), None).decode()


# How it is chosen.


def halting(n: int = 8, length: int = 500, *, seed: int = 0, width: float = 0.4, noise: float = 0.0) -> Any:
    """An expert who follows a slow wish with play, so that the hand rests and moves."""
    rng = np.random.default_rng(seed)
    wish = [np.cumsum(np.cumsum(rng.normal(size=length)) * 0.002) for _ in range(n)]
    wish = [w - np.linspace(0, 1, length) * w[-1] + np.sin(np.arange(length) / 60 + i) for i, w in enumerate(wish)]
    contexts = [np.column_stack([w + 0.05 * rng.normal(size=length), rng.normal(size=length)]) for w in wish]
    actions = [play(w, width)[:, np.newaxis] + noise * rng.normal(size=(length, 1)) for w in wish]
    return simile.Demonstrations.from_arrays(contexts, actions, rate=25.0)


@pytest.fixture(scope="module")
def halted() -> Any:
    train, test = halting().split(test=0.25)
    return train, test, simile.learn(train), simile.learn(train, hold=0)


def test_learn_holds_still_rather_as_the_expert_does_where_that_costs_next_to_nothing(halted: Any):
    train, test, run, plain = halted
    assert run.policy.hold is not None
    assert plain.policy.hold is None
    threshold = [log.threshold for log in know_log(train.actions)]
    expert, held, bare = test.actions, simile.rollout(run.policy, test), simile.rollout(plain.policy, test)
    resting, ours, theirs = (share_rest(a, threshold, 25.0)[0] for a in (expert, held, bare))
    assert REST[1] * resting >= ours > 1.25 * theirs
    turning, own, others = (count_reversals(a, threshold).sum() for a in (expert, held, bare))
    assert REVERSALS[0] * turning <= own < others
    assert rmse(held, expert) <= 1.05 * rmse(bare, expert)
    assert run.chosen.error <= COST * plain.chosen.error


def rmse(rolled: Any, expert: Any) -> float:
    return float(np.sqrt(np.mean(np.concatenate([a - b for a, b in zip(rolled, expert, strict=True)]) ** 2)))


def test_who_never_rests_is_not_made_to(halted: Any):
    t = np.arange(600) / 20
    actions = [np.column_stack([np.sin(t + i)]) for i in range(5)]
    demos = simile.Demonstrations.from_arrays(
        [np.column_stack([np.sin(t + i), np.cos(t + i)]) for i in range(5)], actions, rate=25.0
    )
    assert simile.learn(demos).policy.hold is None


def lively(demos: Any, seed: int) -> list[np.ndarray]:
    """Roll-outs that tremble where the expert rests."""
    rng = np.random.default_rng(seed)
    size, pace = rng.uniform(0.01, 0.1), rng.uniform(2.0, 9.0)
    return [a + 0.02 + size * np.sin(np.arange(len(a)) / pace)[:, np.newaxis] for a in demos.actions]


@settings(max_examples=20)
@given(st.integers(0, 2**31), st.booleans())
def test_the_width_most_like_the_expert_is_found_by_halving_as_by_trying_all(seed: int, stepping: bool):
    demos = halting(4, 300)
    habits, rolled = Habits(demos, 3, demos.logs[0]), lively(demos, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(holds, "COST", np.inf)
        found = habits.search(rolled, stepping=stepping)
    tried = [habits.hold(rolled, width, stepping=stepping) for width in WIDTHS]
    assert found.unlike <= tried[0].unlike
    if not stepping:  # the wider the play, the calmer; of steps that is so by and large
        crossed = next(i for i, held in enumerate(tried) if held.lively <= held.calm)
        assert found.width in {held.width for held in tried[max(crossed - 1, 0) : crossed + 1]}
        assert found.unlike <= 1.05 * min(held.unlike for held in tried)
    cheap = habits.search(rolled, stepping=stepping)
    assert cheap.width <= found.width
    assert cheap.error <= COST * tried[0].error


def test_the_expert_itself_and_who_is_calmer_are_not_held():
    demos = halting(4, 300)
    logs = demos.logs
    for rolled in (demos.actions, hold_all(Hold(0.2), demos.actions, 3), [0.0 * a for a in demos.actions]):
        assert fit_hold(rolled, demos, begin=3, logs=logs) is None


@pytest.mark.parametrize(("turns", "rest", "like"), [(1.1, 1.0, True), (2.0, 1.0, False), (1.0, 0.5, False)])
def test_what_is_like_the_expert_turns_and_rests_about_as_much(turns: float, rest: float, like: bool):
    demos = halting(2, 200)
    habits = Habits(demos, 3, demos.logs[0])
    theirs = habits.expert
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Habits, "_count", lambda *_: (turns * theirs[0], rest * theirs[1]))
        assert (habits.hold(list(demos.actions), 0.0, stepping=False).unlike <= 1.0) is like


def test_what_is_no_rougher_is_preferred_to_what_is_closer():
    demos = halting(4, 300)
    rolled = lively(demos, 0)
    habits = Habits(demos, 3, demos.logs[0])
    glides, steps = (habits.search(rolled, stepping=way) for way in (False, True))
    assert steps.roughness > glides.roughness
    assert habits.choose(rolled, budget=glides.roughness).stepping is False
    assert habits.choose(rolled, budget=0.0).stepping is False  # nothing is as smooth: it is what there is
    better = min((glides, steps), key=lambda held: (held.unlike > 1.0, held.error))
    assert habits.choose(rolled, budget=np.inf).width == better.width


def uneven(length: int) -> Any:
    """Of two actions, one is recorded with noise."""
    demos = demos_of(*[length] * 6, k=2, seed=4, rate=25.0)
    noise = [0.3 * np.random.default_rng(i).normal(size=(len(a), 1)) for i, a in enumerate(demos.actions)]
    return demos.with_actions([np.hstack([a[:, :1], a[:, 1:] + n]) for a, n in zip(demos.actions, noise, strict=True)])


def test_each_action_has_its_own_filter_and_is_as_good_as_alone():
    train, test = uneven(300).split(test=0.34)
    joint = simile.learn(train).policy
    assert np.ndim(whole(joint).smoothness) == 1
    rolled = simile.rollout(joint, test)
    for j in range(2):
        alone, expert = simile.learn(train.only_action(j)).policy, test.only_action(j)
        assert rmse([a[:, [j]] for a in rolled], expert.actions) <= 1.05 * rmse(
            simile.rollout(alone, expert), expert.actions
        )


def test_what_each_action_has_of_its_own_passes_every_door(tmp_path: Path):
    demos = uneven(150)
    simile.write(demos, tmp_path / "data.csv")
    names = [word for name in demos.action_names for word in ("--actions", name)]
    assert main(["train", str(tmp_path / "data.csv"), *names, "--time", "t", "--out", str(tmp_path / "run")]) == 0
    policy = simile.load(tmp_path / "run" / "policy.safetensors")
    parts = getattr(policy, "components", (policy,))
    assert np.shape(parts[0].smoothness) == (2,)
    mixed = simile.interpolate(parts[0], replace(parts[0], f=parts[-1].f), np.array([0.25, 0.75])).holding(Hold(0.05))
    assert "radius" in str(simile.diagnose(mixed, demos))
    assert simile.stochastic_gap(mixed, demos, n_rollouts=2).n_rollouts == 2
    assert simile.prune(mixed).dropped == 0
    assert measure_importances(mixed, demos) is not None
    assert simile.evaluate(mixed, demos)
    mixed.save(tmp_path / "mixed.safetensors")
    for verb in ("evaluate", "diagnose", "inspect"):
        data = [] if verb == "inspect" else [str(tmp_path / "data.csv"), "--time", "t"]
        assert main([verb, str(tmp_path / "mixed.safetensors"), *data]) == 0


def test_trees_of_their_own_are_forests_side_by_side():
    demos = demos_of(120, 120, 120, k=3)
    states = simile.Horizon(2, 0).states(demos, demos.actions)
    labels = np.concatenate(demos.actions)
    recipe = simile.SmoothForest(n_trees=9)
    together = recipe.fit_apart(states, labels, 3, np.random.default_rng(0))
    rng, S = np.random.default_rng(0), states.matrix()
    each = replace(recipe, n_trees=6)  # 9 / sqrt(3)
    for j in range(3):
        alone = each.fit_smooth([states], labels[:, [j]], labels[:, [j]], labels[:, [j]], 0.0, rng)
        assert np.allclose(together.predict(S)[:, j], alone.predict(S)[:, 0], rtol=1e-12)


def test_trees_of_their_own_lie_in_order_and_can_be_saved():
    demos = demos_of(120, 120, 120, k=2)
    states, labels = simile.Horizon(3, 0).states(demos, demos.actions), np.concatenate(demos.actions)
    for seed in range(8):
        apart = simile.SmoothForest(n_trees=3).fit_apart(states, labels, 2, np.random.default_rng(seed))
        forest = Forest.beside(apart.forests)
        assert (np.diff(forest.roots) > 0).all()
        assert (np.diff(forest.depths) <= 0).all()
        policy = replace(learned(), f=forest)
        again = Decoder(from_bytes(to_bytes(policy)), None).decode()
        S = states.matrix()
        assert np.array_equal(again.f.predict(S), forest.predict(S))
        assert np.allclose(forest.predict(S), apart.predict(S), rtol=1e-12)


def test_out_of_bag_each_action_has_the_mean_of_its_own_trees():
    demos = demos_of(90, 80, 70, 60, k=2)
    states, labels = simile.Horizon(2, 0).states(demos, demos.actions), np.concatenate(demos.actions)
    recipe = simile.SmoothForest(n_trees=14, bagging=simile.Bagging.SEQUENCES)
    together = Forest.beside(recipe.fit_apart(states, labels, 2, np.random.default_rng(0)).forests)
    rng, each, S = np.random.default_rng(0), replace(recipe, n_trees=10), states.matrix()
    alone = [each.fit_smooth([states], *[labels[:, [j]]] * 3, 0.0, rng) for j in range(2)]
    for i in range(4):
        found = together.out_of_bag(i, 4).predict(S)
        for j in range(2):
            assert np.allclose(found[:, j], alone[j].out_of_bag(i, 4).predict(S)[:, 0], rtol=1e-12)


def test_a_lambda_for_each_action_may_be_given_as_a_list():
    demos, ridge = demos_of(*[80] * 4, k=2), simile.Ridge(alphas=(1e-2,))
    one, other = (simile.learn(demos, model=ridge, smoothness=given).policy for given in ([5.0, 9.0], (5.0, 9.0)))
    assert np.array_equal(one.smoothness, [5.0, 9.0])
    assert to_bytes(one) == to_bytes(other)


@settings(max_examples=4)
@given(st.integers(0, 2**31))
def test_learning_twice_gives_the_same_hold(seed: int):
    demos = halting(4, 120, seed=seed)
    one, other = (simile.learn(demos, model=simile.Ridge(), smoothness=20.0).policy.hold for _ in range(2))
    assert (one is None) == (other is None)
    assert one is None or np.array_equal(one.width, other.width)
