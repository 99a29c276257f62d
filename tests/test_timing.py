"""Time ahead and time behind: `lead` and `known` (docs/timing.md)."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import lfilter

import simile
from commands import simile_
from simile.data.states import Tape
from simile.data.timing import count_frames, delay, find_known, look_ahead, tell_lead
from simile.errors import ArgumentError, SimileError
from simile.learning.distributed.backend import LocalBackend
from simile.models.adapters import FittedRegressor
from simile.policies.policies import timing

LIGHT = simile.SmoothForest(n_trees=3, min_leaf=20)
SMALL = simile.tasks.pursuit(n_sequences=4, length=90, seed=3)
RATE = 30.0


def follow(seed: int, n: int, *, late: int) -> simile.Demonstrations:
    """Make an operator who follows a target so many frames late (below 0: ahead of it) by a smooth hand."""
    contexts, actions = [], []
    for rng in np.random.default_rng(seed).spawn(n):
        x = lfilter([0.06], [1.0, -1.88, 0.8836], rng.normal(size=700))[100:]
        hand = lfilter([0.04], [1.0, -1.6, 0.64], np.roll(x, late))
        seen = np.stack([x + rng.normal(0.0, 0.05, len(x)), rng.normal(size=len(x))], axis=1)
        contexts.append(seen[100:500])
        actions.append(hand[100:500])
    return simile.Demonstrations.from_arrays(contexts, actions, rate=RATE, context_names=("target", "noise"))


def answer(predictor: simile.Predictor, contexts):
    """Return all answers, those that are due at the end too, (n, k)."""
    steps = [a for a in map(predictor.step, contexts) if a is not None]
    return np.array([*steps, *predictor.flush()])


# ------------------------------------------------------------------------------------------------------------- horizons


def test_offsets_count_from_the_frame_that_an_action_is_for():
    horizon = simile.Horizon((0, 1, 4), 0, lead=-3)
    assert (horizon.offsets, horizon.wait, horizon.reach) == ((-3, -2, 1), 3, 1)
    assert simile.Horizon((0, 1), 2, lead=5).offsets == (5, 6)
    assert simile.Horizon((0, 2), 0, -1).feature_names(["x"], ["a"]) == ["x[t+1]", "x[t-1]"]
    assert repr(simile.Horizon(1, 1)) == "Horizon(context_lags=(0, 1), action_lags=(1,))"
    assert repr(simile.Horizon(0, 0, 2, [(0, 3)])) == (
        "Horizon(context_lags=(0,), action_lags=(), lead=2, known=((0, 3),))"
    )


@pytest.mark.parametrize("lead", [-4, -1, 0, 2, 7])
def test_states_read_both_sides_and_never_another_sequence(lead):
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(n, 2)) for n in (1, 5, 12)]
    tape = Tape.of(parts, [np.zeros((len(x), 1)) for x in parts])
    horizon = simile.Horizon((0, 1, 3), 0, lead)
    naive = [
        np.concatenate([x[min(max(t - lag - lead, 0), len(x) - 1)] for lag in (0, 1, 3)])
        for x in parts
        for t in range(len(x))
    ]
    np.testing.assert_array_equal(tape.states(horizon).matrix(), naive)
    alone = tape.states(horizon, np.array([3, 11])).isolate(2)
    np.testing.assert_array_equal(alone.matrix(), np.array(naive)[[3, 11]])


@pytest.mark.parametrize("lead", [-20, -3, 4])
def test_the_kernels_read_what_states_hold(lead):
    horizon = simile.Horizon((0, 1, 5), 2, lead)
    policy = simile.clone(SMALL, model=LIGHT, horizon=horizon).policy
    plain = replace(policy, f=FittedRegressor(policy.f))  # which is asked state by state
    for fused, slow in zip(simile.rollout(policy, SMALL), simile.rollout(plain, SMALL), strict=True):
        np.testing.assert_allclose(fused, slow, rtol=0.0, atol=1e-9)
    assert not np.array_equal(fused, simile.rollout(replace(policy, horizon=replace(horizon, lead=0)), SMALL)[-1])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"lead": 0.5}, "lead must be a whole number"),
        ({"lead": -200_000}, "lead must be >= -100000"),
        ({"lead": 200_000}, "lead must be <= 100000"),
        ({"known": [3]}, "known must be pairs of a column and how many frames ahead"),
        ({"known": [(0, 0)]}, "known must be >= 1"),
    ],
)
def test_a_horizon_refuses_what_is_no_time(asked, message):
    with pytest.raises(ArgumentError, match=message):
        simile.Horizon(1, 0, **asked)


def test_seconds_are_frames_where_nobody_knows_the_rate():
    assert count_frames(-0.5, 30.0, "lead") == -15
    assert count_frames(3, None, "lead") == 3
    with pytest.raises(ArgumentError, match=r"whole number of frames where the demonstrations have no rate; got 0.5"):
        count_frames(0.5, None, "lead")
    with pytest.raises(ArgumentError, match=r"at most 100,?000 frames either way"):
        count_frames(1e6, 30.0, "lead")
    bare = simile.Demonstrations.from_arrays(SMALL.contexts, SMALL.actions)
    assert timing(simile.learn(bare, model=LIGHT, lead=-2).policy) == (-2, ())


def test_a_lead_is_told_in_words():
    assert tell_lead(0, 30.0) == ""
    assert tell_lead(-1, 10.0) == "waits 1 frame (0.1 s): the answer to a frame comes with the 1st after it"
    assert tell_lead(12, None).endswith("is for the 12th after it")


# --------------------------------------------------------------------------------------------- the same bits everywhere


@pytest.mark.parametrize("lead", [-100, -12, -1, 0, 1, 9])  # -100: longer than the sequences
@pytest.mark.parametrize("start", [None, [[1.0], [2.0], [4.0]]])
@pytest.mark.parametrize("stages", [(), (simile.RateLimit(20.0),)])
def test_a_predictor_answers_as_roll_outs_do(lead, start, stages):
    policy = simile.learn(SMALL, model=LIGHT, lead=lead / RATE).policy
    begin = simile.ColdStart() if start is None else np.array(start)
    rollouts = simile.rollout(policy, SMALL.contexts, start=begin, stages=stages)
    for contexts, rolled in zip(SMALL.contexts, rollouts, strict=True):
        answers = answer(simile.Predictor(policy, start=start, stages=stages), contexts)
        ahead = max(lead, 0)
        np.testing.assert_array_equal(answers[: len(rolled) - ahead], rolled[ahead:])


@pytest.mark.parametrize("lead", [-12, 9])
def test_bands_of_a_policy_with_a_lead_are_those_of_roll_outs(lead):
    policy = simile.learn(SMALL, lead=lead / RATE).policy
    rolled = simile.rollout(policy, SMALL.contexts, start=simile.ColdStart(), band=0.9)[0]
    predictor = simile.Predictor(policy)
    steps = [predictor.step(x, band=0.9) for x in SMALL.contexts[0]]
    assert [s is None for s in steps] == [i < -lead for i in range(len(steps))]
    answers, ahead = [s for s in steps if s is not None], max(lead, 0)
    n = len(rolled.low) - abs(lead)
    for name in ("actions", "low", "high"):
        found = np.array([getattr(a, name) for a in answers])[:n]
        np.testing.assert_array_equal(found, getattr(rolled, name)[ahead : ahead + n])


@pytest.mark.parametrize("algorithm", [simile.paper, simile.dagger])
@pytest.mark.parametrize("lead", [-8, 3])
def test_rounds_with_past_actions_take_a_lead_too(algorithm, lead):
    policy = algorithm(SMALL, model=LIGHT, n_rounds=1, lead=lead / RATE).policy
    rolled = simile.rollout(policy, SMALL.contexts, start=simile.ColdStart())[1]
    answers, ahead = answer(simile.Predictor(policy), SMALL.contexts[1]), max(lead, 0)
    np.testing.assert_array_equal(answers[: len(rolled) - ahead], rolled[ahead:])


@pytest.mark.parametrize("asked", [{"lead": -0.3}, {"lead": 0.1}, {"known": {"player0": 0.5}}])
def test_files_and_backends_keep_the_bits(asked, tmp_path):
    here, there = tmp_path / "here.safetensors", tmp_path / "there.safetensors"
    policy = simile.learn(SMALL, model=LIGHT, **asked).policy
    policy.save(here)
    simile.learn(SMALL, model=LIGHT, backend=LocalBackend(parts=3), **asked).policy.save(there)
    assert here.read_bytes() == there.read_bytes()
    loaded = simile.load(here)
    assert timing(loaded) == timing(policy)
    np.testing.assert_array_equal(simile.rollout(loaded, SMALL)[2], simile.rollout(policy, SMALL)[2])


def test_without_a_lead_a_file_says_nothing_of_one(tmp_path):
    plain, named = (simile.learn(SMALL, model=LIGHT, **asked).policy for asked in ({}, {"lead": 0.0}))
    plain.save(tmp_path / "plain.safetensors")
    named.save(tmp_path / "named.safetensors")
    assert (tmp_path / "plain.safetensors").read_bytes() == (tmp_path / "named.safetensors").read_bytes()
    assert b'"lead"' not in (tmp_path / "plain.safetensors").read_bytes()


def test_dropped_frames_and_operators_while_it_waits():
    policy = simile.learn(SMALL, model=LIGHT, lead=-0.2).policy
    predictor = simile.Predictor(policy, gap=simile.HoldAction())
    x = SMALL.contexts[0]
    assert predictor.step(x[0]) is None
    assert predictor.step(None) is None  # a frame was lost: it is waited for as for any
    np.testing.assert_array_equal(predictor.override([7.0], x[2]), [7.0])
    assert [predictor.step(one) is None for one in x[3:8]] == [True, True, True, False, False]
    assert len(predictor.flush()) == 6
    assert len(predictor.flush()) == 0  # it is as new
    with pytest.raises(ArgumentError, match="nothing is known yet"):
        predictor.step(None)


# ------------------------------------------------------------------------------------------------- what it is good for


def test_a_late_actuator_leaves_no_lag_where_the_policy_aims_ahead():
    late, train, test = 6, follow(1, 8, late=10), follow(2, 4, late=10)
    lags = {}
    for lead in (0, late):
        rolled = simile.rollout(simile.learn(train, lead=lead / RATE).policy, test)
        effect = [delay(a, late - lead) for a in rolled]
        found = [simile.metrics.lag(e[60:], a[60:]) for e, a in zip(effect, test.actions, strict=True)]
        lags[lead] = float(np.mean(found))
    assert abs(lags[late]) < 0.5
    assert abs(lags[0] - late) < 0.5


def test_what_is_known_a_second_ahead_is_worth_as_much_as_to_wait_for_it():
    train, test = follow(3, 8, late=-20), follow(4, 4, late=-20)

    def error(**asked):
        rolled = simile.rollout(simile.learn(train, **asked).policy, test)
        gaps = [np.mean((a - b)[60:-60] ** 2) for a, b in zip(rolled, test.actions, strict=True)]
        return float(np.sqrt(np.mean(gaps)))

    blind, waiting, knowing = error(), error(lead=-1.0), error(known={"target": 1.0})
    assert knowing <= 1.05 * waiting
    assert waiting < 0.3 * blind


# ------------------------------------------------------------------------------------------------------- known futures


def test_what_lies_behind_the_end_is_missing():
    wide = look_ahead(np.arange(8.0).reshape(4, 2), ((1, 1), (0, 5)))
    np.testing.assert_array_equal(wide[:, 2], [3.0, 5.0, 7.0, np.nan])
    assert np.isnan(wide[:, 3]).all()
    told = SMALL.foretell(((2, 30),))
    assert told.context_names[-1] == "player2[t+30]"
    assert told.foretell(((2, 30),)) is told
    assert told.digests == SMALL.digests  # they are known again
    assert len(SMALL.foretell(((2, 30),), complete=True)[0]) == 60  # of the others it is not known what came
    assert len(SMALL.foretell(((2, 90),), complete=True)[0]) == 90  # all of them: better than none


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (1.0, "known must say how far ahead contexts are known"),
        ({"nobody": 1.0}, "known must name contexts; got 'nobody', and they are player0"),
        ({"player*": 0.0}, "known must be ahead, by a frame or more"),
        ({"player*": [-1.0]}, "known must be ahead"),
    ],
)
def test_known_refuses_what_is_no_future(known, message):
    with pytest.raises(ArgumentError, match=message):
        simile.learn(SMALL, known=known)


def test_known_columns_are_found_by_patterns():
    assert find_known({"a*": [2]}, ["ab", "b", "a"], None) == ((0, 2), (2, 2))
    assert find_known({"b": 8}, ["ab", "b", "a"], None) == ((1, 2), (1, 4), (1, 8))
    with pytest.raises(ArgumentError, match="known must be columns of 6 contexts, counted from 0; got 6"):
        simile.learn(SMALL, horizon=simile.Horizon(1, 0, known=[(6, 2)]))


@pytest.mark.parametrize("lead", [-6, 0, 3])
def test_plans_and_coming_values_give_the_bits_of_roll_outs(lead):
    policy = simile.learn(SMALL, model=LIGHT, lead=lead / RATE, known={"player1": 0.5}).policy
    x, names = SMALL.contexts[0], SMALL.context_names
    rolled = simile.rollout(policy, [x], start=simile.ColdStart())[0]
    np.testing.assert_array_equal(rolled, simile.rollout(policy, SMALL, start=simile.ColdStart())[0])
    wide = SMALL.foretell(timing(policy)[1]).contexts[0]
    coming = simile.Predictor(policy)
    given = [(dict(zip(names, row, strict=True)), {"player1": x[t + 1 :, 1]}) for t, row in enumerate(x)]
    steps = [a for row, ahead in given if (a := coming.step(row, ahead=ahead)) is not None]
    for answers in (
        answer(simile.Predictor(policy, plan=x), x),
        answer(simile.Predictor(policy, plan={"player1": x[:, 1]}), x),
        answer(simile.Predictor(policy), wide),
        np.concatenate([steps, coming.flush()]),
    ):
        np.testing.assert_array_equal(answers[: len(rolled) - max(lead, 0)], rolled[max(lead, 0) :])


def test_operators_act_on_the_contexts_that_a_policy_takes():
    policy = simile.learn(SMALL, model=LIGHT, known={"player1": 0.5}).policy
    x, wide = SMALL.contexts[0], SMALL.foretell(timing(policy)[1]).contexts[0]
    planned, coming, whole = simile.Predictor(policy, plan=x), simile.Predictor(policy), simile.Predictor(policy)
    for t in range(40):
        ahead = {"player1": x[t + 1 :, 1]}
        if t % 9 == 5:
            planned.override([1.0], x[t])
            coming.override([1.0], x[t], ahead=ahead)
            whole.override([1.0], wide[t])
        else:
            now = [planned.step(x[t]), coming.step(x[t], ahead=ahead), whole.step(wide[t])]
            assert np.array_equal(now[0], now[2])
            assert np.array_equal(now[1], now[2])
    with pytest.raises(ArgumentError, match=r"x must bring what is known ahead, player1\[t\+4\]"):
        whole.override([1.0], x[0])


def test_plans_that_do_not_fit_are_refused():
    policy = simile.learn(SMALL, model=LIGHT, known={"player1": 0.5}).policy
    x = SMALL.contexts[0]
    with pytest.raises(ArgumentError, match=r"x must bring what is known ahead, player1\[t\+4\]"):
        simile.Predictor(policy).step(x[0])
    with pytest.raises(ArgumentError, match="plan must tell player1; got no"):
        simile.Predictor(policy, plan={"player2": x[:, 2]})
    with pytest.raises(ArgumentError, match="plan must have the 6 contexts as columns"):
        simile.Predictor(policy, plan=x[:, :2])
    with pytest.raises(ArgumentError, match="x must hold the 6 values of now"):
        simile.Predictor(policy, plan=x).step(x[0, :2])
    with pytest.raises(ArgumentError, match="frames with time stamps bring what is known"):
        simile.Predictor(policy, plan=x).step(x[0], 0.0)
    plain = simile.learn(SMALL, model=LIGHT).policy
    with pytest.raises(ArgumentError, match="this policy knows nothing ahead"):
        simile.Predictor(plain, plan=x)
    with pytest.raises(ArgumentError, match="ahead: this policy knows nothing ahead"):
        simile.Predictor(plain).step(x[0], ahead=x)


# ----------------------------------------------------------------------------------------------- policies to go on from


def test_a_policy_to_go_on_from_decides_about_time():
    first = simile.learn(SMALL[:2], model=LIGHT, lead=-0.2).policy
    assert timing(simile.learn(SMALL, model=LIGHT, initial=first).policy) == (-6, ())
    with pytest.raises(SimileError, match="lead must be that of initial, -6"):
        simile.learn(SMALL, model=LIGHT, initial=first, lead=0.2)
    with pytest.raises(SimileError, match="lead must be that of the horizon, 3"):
        simile.learn(SMALL, model=LIGHT, horizon=simile.Horizon(3, 0, lead=3), lead=0.2)
    other = simile.learn(SMALL[:2], model=LIGHT).policy
    bare = tuple(one.keeping(None).holding(None).in_units(first.units, first.space) for one in (first, other))
    with pytest.raises(ArgumentError, match="components must share their lead"):
        simile.Mixture(bare, (0.5, 0.5))


# ------------------------------------------------------------------------------------------------------ a measured lead


@pytest.mark.parametrize("algorithm", [simile.learn, simile.paper])
def test_auto_measures_how_late_the_actuator_is(algorithm):
    plain = follow(5, 4, late=10)
    rng = np.random.default_rng(6)
    effects = [delay(a, 5) + 0.1 * a.std() * rng.normal(size=a.shape) for a in plain.actions]  # 20 dB
    logs = simile.Demonstrations.from_arrays(
        [np.concatenate([x, e], axis=1) for x, e in zip(plain.contexts, effects, strict=True)],
        plain.actions,
        rate=RATE,
        context_names=(*plain.context_names, "angle"),
    )
    quick = {"model": LIGHT} if algorithm is simile.learn else {"model": LIGHT, "n_rounds": 0}
    run = algorithm(logs, lead="auto", effect="angle", **quick)
    assert abs(timing(run.policy)[0] - 5) <= 1
    assert run.policy.card.context_names == plain.context_names  # it follows from the action
    assert "angle is no context any more" in run.notes[0]
    by_arrays = algorithm(plain, lead="auto", effect=[e[:, 0] for e in effects], **quick)
    assert timing(by_arrays.policy) == timing(run.policy)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"lead": "auto"}, "'auto' measures how late the actuator is: name the context"),
        ({"lead": "soon"}, "lead must be seconds, or 'auto'"),
        ({"lead": 0.1, "effect": "player0"}, "effect is what lead='auto' is measured by"),
        ({"lead": "auto", "effect": "nobody"}, "effect: 'nobody' is no context"),
    ],
)
def test_auto_refuses_what_it_cannot_measure(asked, message):
    with pytest.raises(ArgumentError, match=message):
        simile.learn(SMALL, **asked)


def test_the_command_measures_a_lead_and_leaves_the_effect_out(tmp_path):
    plain = follow(5, 4, late=10)
    names = ("sequence", "target", "noise", "angle", "pan")
    rows = [
        np.column_stack([np.full(len(a), i), x, delay(a, 5), a])
        for i, (x, a) in enumerate(zip(plain.contexts, plain.actions, strict=True))
    ]
    np.savetxt(log := tmp_path / "log.csv", np.concatenate(rows), delimiter=",", header=",".join(names), comments="")
    said = ("train", str(log), "--actions", "pan", "--sequence", "sequence", "--rate", "30", "--lead", "auto")
    light = ("--model", "SmoothForest(n_trees=3)", "--no-report", "--out", str(tmp_path / "run"))
    done = simile_(*said, "--effect", "angle", *light, cwd=tmp_path)
    assert "a lead of 5 frames (0.167 s)" in done.stderr
    assert "aims 5 frames (0.167 s) ahead" in done.stderr
    policy = simile.load(tmp_path / "run" / "policy.safetensors")
    assert (timing(policy), policy.card.context_names) == ((5, ()), ("target", "noise"))
    refused = simile_(*said, *light[:-1], str(tmp_path / "other"), cwd=tmp_path, code=2)
    assert "'auto' measures how late the actuator is" in refused.stderr
    refused = simile_(*said[:-1], "soon", *light[:-1], str(tmp_path / "other"), cwd=tmp_path, code=2)
    assert "'soon' is not a valid float" in refused.stderr


def test_the_command_takes_a_plan(tmp_path):
    policy = simile.learn(SMALL, model=LIGHT, known={"player1": 0.5}).policy
    policy.save(tmp_path / "policy.safetensors")
    x, names = SMALL.contexts[0], SMALL.context_names
    lines = [",".join(names), *(",".join(map(repr, row)) for row in x.tolist())]
    (tmp_path / "plan.csv").write_text("\n".join(["player1", *map(repr, x[:, 1].tolist())]))
    told = "\n".join(lines)
    done = simile_("run", "policy.safetensors", "--plan", "plan.csv", cwd=tmp_path, stdin=told)
    answers = [float(line) for line in done.stdout.split()[1:]]
    rolled = simile.rollout(policy, [x], start=simile.ColdStart())[0]
    np.testing.assert_array_equal(answers, rolled[:, 0])
    (tmp_path / "wrong.csv").write_text("player1\nfar\n")
    refused = simile_("run", "policy.safetensors", "--plan", "wrong.csv", cwd=tmp_path, stdin=told, code=2)
    assert "--plan: wrong.csv: row 1, field 'player1'" in refused.stderr
    (tmp_path / "empty.csv").write_text("player1\n")
    refused = simile_("run", "policy.safetensors", "--plan", "empty.csv", cwd=tmp_path, stdin=told, code=2)
    assert "--plan: empty.csv: it must have a row for each frame, with player1" in refused.stderr
    refused = simile_("run", "policy.safetensors", cwd=tmp_path, stdin=told, code=2)
    assert "the header has no field 'player1[t+4]'" in refused.stderr
