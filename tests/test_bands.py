"""Bands: what they promise on sequences that are alike, that they are the same online, and what is refused."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simile
from commands import simile_
from simile import tasks
from simile.data.reference import Reference
from simile.evaluation.evaluation import BandCheck
from simile.evaluation.report.curves import DrawnBand
from simile.learning import bands
from simile.learning.bands import fit_band
from simile.learning.distributed.backend import LocalBackend
from simile.learning.folds import Folds
from simile.models.closed_loop import ClosedLoop
from simile.models.regularizers import CriticallyDamped
from simile.models.ridge import Ridge
from simile.online import HoldAction, HoldContext
from simile.online.gauge import PACE
from simile.policies.bands import KEY, LEVELS, Band, Doubts
from simile.serving.messages import Frame
from simile.serving.monitoring import UNSURE, Monitor
from simile.serving.service import Service

LIGHT = [simile.SmoothForest(n_trees=4, max_depth=6), Ridge()]


@pytest.fixture(scope="module")
def demos():
    return tasks.pursuit(n_sequences=10, length=120, seed=3)


@pytest.fixture(scope="module")
def policy(demos):
    return simile.learn(demos[:6], model=LIGHT, smoothness=simile.SmoothTime(0.2)).policy


@pytest.fixture(scope="module")
def waiting(demos):
    return simile.learn(demos[:6], model=LIGHT[1], smoothness=3.0, lead=-0.1).policy


def with_band(policy, band):
    card = replace(policy.card, training={**policy.card.training, KEY: band})
    return policy.in_units(policy.units, policy.space, card)


# What a band promises


def folds_of(demos):
    """Return fold and group of each sequence."""
    folds = Folds.of(demos)
    return folds.fold, folds.kin


def noisy(n, length, rng):
    """Sequences whose errors are larger where the context is far, and in some sequences more than in others."""
    x = [rng.normal(size=(length, 1)) for _ in range(n)]
    away = [rng.gamma(3.0) * (0.2 + np.abs(one)) * rng.normal(size=(length, 1)) for one in x]
    demos = simile.Demonstrations.from_arrays(x, away)
    return demos, [np.zeros_like(a) for a in away]


def test_coverage_by_sequence_is_as_asked_for_and_narrower_than_a_constant_band():
    rng, loop = np.random.default_rng(0), ClosedLoop(np.ones((1, 1)))  # no filter
    held, ratios = [], []
    for _ in range(12):
        demos, zero = noisy(60, 30, rng)
        band = fit_band(demos, folds_of(demos), [(1.0, np.zeros((demos.n_frames, 1)))], zero, zero, loop)
        new, _ = noisy(60, 30, rng)
        for demo in new:
            signs = band.signs(demo.contexts, np.concatenate([demo.contexts[:1], demo.contexts[:-1]]))
            sigma = band.sigma(band.doubt(np.zeros((1, 1)), *signs), np.zeros(1))
            held.append(np.mean(np.abs(demo.actions) <= band.quantile(0.9) * sigma))
            ratios.append(np.mean(band.quantile(0.9) * sigma / band.half(0.9)))
    assert 0.9 * 60 / 61 - 0.01 < np.mean(held) < 0.915  # what one more sequence has, but for chance
    assert np.mean(ratios) < 0.95


def test_a_context_that_tells_on_one_side_makes_the_band_wider_there():
    rng, loop = np.random.default_rng(2), ClosedLoop(np.ones((1, 1)))
    x = [rng.normal(size=(60, 2)) for _ in range(24)]
    away = [(0.2 + np.maximum(one[:, :1], 0.0)) * rng.normal(size=(60, 1)) for one in x]
    demos = simile.Demonstrations.from_arrays(x, away)
    zero = [np.zeros_like(a) for a in away]
    band = fit_band(demos, folds_of(demos), [(1.0, np.zeros((demos.n_frames, 1)))], zero, zero, loop)
    above, below = band.weights[0, 5:].reshape(2, 2)  # of each context
    assert above[0] > 3.0 * max(above[1], *below)
    contexts = np.array([[2.0, 0.0], [-2.0, 0.0], [np.nan, 0.0], [np.inf, 0.0], [-np.inf, 0.0]])
    high, low, missing, endless, other = band.doubt(np.zeros((1, 1)), *band.signs(contexts, contexts))[:, 0]
    assert high > 1.5 * low
    assert low >= missing
    assert endless >= other > high
    # Many contexts, and there would be more chance than reason in it.
    wide = simile.Demonstrations.from_arrays([np.repeat(one, 40, axis=1) for one in x], away)
    band = fit_band(wide, folds_of(wide), [(1.0, np.zeros((demos.n_frames, 1)))], zero, zero, loop)
    assert band.weights.shape == (1, 5)


def test_few_sequences_are_told_and_so_is_what_is_sure(policy):
    band = Band.of(policy)
    assert band.n == 6
    assert band.tell(0.9).startswith("measured on 6 sequences or groups that were left out, which are few for 90%")
    assert band.tell(0.8).endswith("in theory one more has 68.6%")


def test_groups_count_as_one_each(demos):
    two = demos[:6].grouped(["a", "a", "a", "b", "c", "c"])
    assert Band.of(simile.learn(two, model=LIGHT[1], smoothness=30.0).policy).n == 3


def test_pieces_of_a_sequence_count_as_that_sequence_and_what_has_no_weight_as_none(demos):
    alone, three = (simile.learn(demos[:n], model=LIGHT[1], smoothness=30.0).policy for n in (1, 3))
    assert (
        Band.of(alone).tell(0.9)
        == "measured on parts of one sequence that were left out, which tell nothing of another"
    )
    assert Band.of(three).n == 3
    some = [replace(d, weights=np.full_like(d.actions, float(i > 1))) for i, d in enumerate(demos[:6])]
    weighed = simile.learn(simile.Demonstrations(tuple(some)), model=LIGHT[1], smoothness=30.0).policy
    assert Band.of(weighed).n == 4


@pytest.mark.parametrize("constant", [0.1, 1 / 3, 12345.678])
def test_a_context_that_never_changes_says_nothing_of_the_others(constant):
    rng, loop = np.random.default_rng(0), ClosedLoop(np.ones((1, 1)))
    demos, zero = noisy(24, 30, rng)
    beside = [np.column_stack([x, np.full(len(x), constant)]) for x in demos.contexts]
    demos = simile.Demonstrations.from_arrays(beside, demos.actions)
    band = fit_band(demos, folds_of(demos), [(1.0, np.zeros((demos.n_frames, 1)))], zero, zero, loop)
    far = np.array([[50.0, constant]])
    distance, *_ = band.signs(far, far)
    assert band.spread[1] == 1.0
    assert distance[0] > 5.0 * band.farthest


def test_the_frames_that_are_looked_at_do_not_depend_on_the_parts(demos, monkeypatch):
    monkeypatch.setattr(bands, "MOST_FRAMES", 200)
    how = {"model": LIGHT[1], "smoothness": 30.0}
    here = Band.of(simile.learn(demos, **how).policy)
    assert Band.of(simile.learn(demos, backend=LocalBackend(parts=3), **how).policy).to_dict() == here.to_dict()


def test_every_policy_of_learn_and_of_a_path_has_one_and_those_of_the_paper_none(policy, demos):
    run = simile.learn(demos[:6], model=LIGHT, smoothness=30.0)
    assert all(Band.of(r.policy) for r in run.rounds)
    point = simile.path(demos[:6], smoothness=(10.0, 30.0), model=LIGHT[1]).points[0]
    assert Band.of(point.policy).n == 6
    printed = simile.clone(demos[:6], model=LIGHT[0]).policy
    with pytest.raises(simile.SimileError, match=r"band: this policy carries none.*simile\.learn"):
        simile.rollout(printed, demos, band=0.9)
    with pytest.raises(simile.SimileError, match="carries none"):
        simile.Predictor(printed).step(demos[0].contexts[0], band=0.9)
    with pytest.raises(simile.SimileError, match="carries none"):
        simile.evaluate(printed, demos, band=0.9)


def test_a_single_sequence_is_cut_into_parts_and_one_that_is_too_short_has_no_band():
    one = tasks.pursuit(n_sequences=1, length=200)
    assert Band.of(simile.learn(one, model=LIGHT[1], smoothness=3.0).policy).n == 1
    short = simile.learn(tasks.pursuit(n_sequences=1, length=30), model=LIGHT[1], smoothness=3.0).policy
    assert KEY not in short.card.training


def test_the_simple_filter_has_one_too():
    rng = np.random.default_rng(1)
    x = [rng.normal(size=(150, 2)).cumsum(axis=0) for _ in range(8)]
    demos = simile.Demonstrations.from_arrays(x, [a[:, :1] for a in x])
    assert Band.of(simile.learn(demos, model=LIGHT[1], smoothness=1.0).baseline).n == 8


def test_a_policy_file_keeps_it(policy, demos, tmp_path):
    policy.save(tmp_path / "p.safetensors")
    again = simile.load(tmp_path / "p.safetensors")
    for one, other in zip(simile.rollout(policy, demos, band=0.9), simile.rollout(again, demos, band=0.9), strict=True):
        assert np.array_equal(one.low, other.low)


def test_a_band_is_of_the_policy_that_it_was_measured_on(policy, demos):
    alike = policy.holding(policy.hold).keeping(policy.offset)
    for same in (alike, simile.collapse(policy), simile.prune(policy).policy):
        assert Band.of(same).n == 6
    for other in (policy.holding(simile.Hold(0.5)), policy.keeping(simile.Offset(0.3, 0.9))):
        with pytest.raises(simile.SimileError, match=r"carries none.*put on later takes it away"):
            simile.rollout(other, demos, band=0.9)
        assert other.card.training.keys() == policy.card.training.keys() - {KEY}
        with pytest.raises(simile.SimileError, match="carries none"):  # it is not that band again
            Band.of(other.holding(policy.hold).keeping(policy.offset))


# What a band is like


@given(level=st.floats(LEVELS[0], LEVELS[-1]), more=st.floats(LEVELS[0], LEVELS[-1]))
def test_a_band_holds_its_action_and_grows_with_the_level(policy, demos, level, more):
    low, high = sorted((level, more))
    narrow, wide = (simile.rollout(policy, demos[7], band=one)[0] for one in (low, high))
    assert (narrow.width >= 0.0).all()
    assert (wide.low <= narrow.low).all()
    assert (narrow.high <= wide.high).all()
    assert (narrow.low <= narrow.actions).all()
    assert (narrow.actions <= narrow.high).all()
    assert np.array_equal(narrow.actions, simile.rollout(policy, demos[7])[0])


def test_what_is_given_has_no_width_and_doubt_comes_with_the_filter(policy, demos):
    banded = simile.rollout(policy, demos[8], band=0.9)[0]
    assert not banded.width[: policy.memory].any()
    begun = banded.width[policy.memory : policy.memory + 4, 0]
    assert (np.diff(begun) > 0.0).all()
    assert begun[0] < 0.2 * banded.width.max()


def test_bands_do_not_explode_with_the_horizon(policy, demos):
    x = np.tile(demos[0].contexts, (50, 1))
    width = simile.rollout(policy, [x], band=0.9, start=simile.ColdStart())[0].width
    assert width[-120:].max() <= 1.01 * width[120:240].max()


def test_contexts_far_from_the_training_make_it_wider_and_unsure(policy, demos):
    x = demos[8].contexts.copy()
    x[60:] += 1000.0
    usual, far = (
        simile.rollout(policy, [one], band=0.9, start=simile.ColdStart())[0] for one in (demos[8].contexts, x)
    )
    assert far.width[-20:].mean() > 10.0 * usual.width[-20:].mean()
    assert far.unsure[-20:].all()
    assert not far.unsure[:10].all()


def test_bounds_hold_for_bands(policy, demos):
    bounded = policy.in_units(policy.units, simile.ActionSpace(-5.0, 5.0), policy.card)
    banded = simile.rollout(bounded, demos[9].contexts, band=0.99, start=simile.ColdStart())[0]
    assert banded.low.min() >= -5.0
    assert banded.high.max() <= 5.0


def test_unsure_goes_off_later_than_on():
    band = replace(make_band(), alarm=np.array([2.0, 1.0]))
    assert band.watch(np.array([1.5, 2.5, 1.5, 0.5, 1.5])).tolist() == [False, True, True, False, False]


@pytest.mark.parametrize("level", [0.4, 0.995, np.nan, "wide", None])
def test_levels_that_are_none_are_refused(policy, demos, level):
    if level is None:
        assert isinstance(simile.rollout(policy, demos)[0], np.ndarray)
        return
    with pytest.raises(simile.SimileError, match="band must be"):
        simile.rollout(policy, demos, band=level)


# Cards may come from anybody


def make_band(m=2, k=1):
    ones, levels = np.ones(k), np.linspace(1.0, 2.0, len(LEVELS))
    return Band(
        np.zeros(m),
        np.ones(m),
        3.0,
        np.ones((k, 5)),
        np.tile(levels, (k, 1)),
        np.tile(levels, (k, 1)),
        ones,
        ones[[0, 0]],
        5,
    )


NONSENSE = [
    None,
    [],
    "wide",
    {},
    {"center": [0.0, "x"]},
    {"center": [0.0]},
    {"spread": [0.0, 1.0]},
    {"weights": [[1.0, 1.0, 1.0, 1.0, -1.0]]},
    {"weights": [[1.0] * 7]},
    {"weights": [[1.0] * 8 + [-1.0]]},
    {"scores": [list(range(len(LEVELS)))[::-1]]},
    {"scores": [[float("nan")] * len(LEVELS)]},
    {"farthest": float("inf")},
    {"farthest": {}},
    {"farthest": 0.0},
    {"constant": [[1e300] * len(LEVELS)]},
    {"n": 0},
    {"n": "many"},
    {"usual": [0.0]},
    {"alarm": [1.0, 2.0]},
    *({"n": n} for n in (2.7, True, "9", 10**400, 10**10)),
    *({"farthest": far} for far in (True, "3", [3.0], 1e300)),
    *({"usual": usual} for usual in ([5e-324], [1e300], ["1"], [True], [10**400])),
    *({"center": center} for center in ([0.0, 1e300], [True, False], ["0", "1"])),
    *({"spread": spread} for spread in ([1.0, 1e300], [5e-324, 1.0])),
]


@pytest.mark.parametrize("given", NONSENSE, ids=lambda given: str(given)[:40])
def test_a_card_of_nonsense_has_no_band(given):
    sound = make_band().to_dict()
    assert Band.read(json.loads(json.dumps(sound)), 2, 1) is not None
    assert Band.read(sound | {"weights": [[1.0] * 9]}, 2, 1) is not None
    wrong = {**sound, **given} if isinstance(given, dict) and given else given
    assert Band.read(wrong, 2, 1) is None


def test_a_band_of_other_contexts_is_refused(policy, demos):
    other = with_band(policy, make_band(m=3).to_dict())
    with pytest.raises(simile.SimileError, match="carries none"):
        simile.rollout(other, demos, band=0.9)


# Online


def online(policy, demo, level, *, begin=0, **kind):
    predictor = simile.Predictor(policy, **kind)
    found = []
    for t, (x, a) in enumerate(zip(demo.contexts, demo.actions, strict=True)):
        found.append(predictor.override(a, x) if t < begin else predictor.step(x, band=level))
    return found


@pytest.mark.parametrize("level", [0.5, 0.83, 0.9])
def test_online_bands_have_the_bits_of_roll_outs(policy, demos, level):
    for demo in demos[7:9]:
        cold = simile.rollout(policy, [demo.contexts], band=level, start=simile.ColdStart())[0]
        known = simile.rollout(policy, [demo.contexts], band=level, start=demo.actions[0])[0]
        for whole, found in (
            (cold, online(policy, demo, level)),
            (known, online(policy, demo, level, start=demo.actions[0])),
        ):
            for name in ("actions", "low", "high", "unsure"):
                assert np.array_equal([getattr(one, name) for one in found], getattr(whole, name)), name


def test_two_actions_and_missing_values_have_the_bits_of_roll_outs():
    rng = np.random.default_rng(2)
    x = [rng.normal(size=(80, 5)).cumsum(axis=0) for _ in range(6)]
    a = [np.column_stack([one[:, 0] - one[:, 1], np.abs(one[:, 2])]) for one in x]
    x = [np.where(rng.random(one.shape) < 0.1, np.nan, one) for one in x]
    demos = simile.Demonstrations.from_arrays(x, a)
    policy = simile.learn(demos[:5], model=LIGHT, smoothness=(3.0, 30.0)).policy
    assert Band.of(policy).weights[:, 5:].any()  # sides of single contexts count, too
    whole = simile.rollout(policy, x[5:], band=0.9, start=simile.ColdStart())[0]
    found = online(policy, demos[5], 0.9)
    for name in ("actions", "low", "high", "unsure"):
        assert np.array_equal([getattr(one, name) for one in found], getattr(whole, name)), name


def test_a_pool_has_the_bits_of_predictors_whoever_stands_beside(policy, demos):
    pool = simile.PredictorPool(policy, 3)
    apart = [online(policy, demo, 0.9) for demo in demos[7:10]]
    for t in range(60):
        some = [0, 2] if t % 2 else [1]
        X = [demos[7 + s].contexts[t // 2] for s in some]
        found = pool.step(X, streams=some, band=0.9)
        for i, s in enumerate(some):
            assert np.array_equal(found.high[i], apart[s][t // 2].high)


def test_after_an_operator_the_width_begins_anew(policy, demos):
    demo, predictor = demos[8], simile.Predictor(policy)
    before = [predictor.step(x, band=0.9) for x in demo.contexts[:60]][-1]
    for x, a in zip(demo.contexts[60:90], demo.actions[60:90], strict=True):
        predictor.override(a, x)
    after = predictor.step(demo.contexts[90], band=0.9)
    assert 0.0 < after.width[0] < 0.3 * before.width[0]


def test_gaps_and_states_go_on(policy, demos):
    demo, one = demos[8], simile.Predictor(policy)
    for x in demo.contexts[:30]:
        one.step(x, band=0.9)
    other = simile.Predictor(policy)
    other.load_state_dict(one.state_dict())
    for x in (None, None, *demo.contexts[30:40]):
        assert np.array_equal(one.step(x, band=0.9).high, other.step(x, band=0.9).high)
    plain = simile.Predictor(policy)
    plain.step(demo.contexts[0])
    one.load_state_dict(plain.state_dict())  # where nobody asked: the band begins anew
    assert one.step(demo.contexts[1], band=0.9).width > 0.0


def test_who_sees_nothing_for_longer_than_the_filter_lags_is_unsure(policy, demos):
    one, lag = simile.Predictor(policy), Doubts.of(policy).loop.lags.max()
    easy = np.tile(Band.of(policy).center, (30, 1))
    assert not any(one.step(x, band=0.9).unsure for x in easy)
    blind = [one.step(None, band=0.9).unsure for _ in range(2 * math.ceil(lag))]
    assert np.argmax(blind) == math.floor(lag)
    assert all(blind[math.floor(lag) :])
    assert not one.step(easy[0], band=0.9).unsure
    stamped = simile.Predictor(policy, rate=30.0)
    for i in range(60):
        seen = stamped.step(easy[0] if i < 20 else None, t=i / 30.0, band=0.9)
    assert seen.unsure
    stamped.override([0.1], t=59.3 / 30.0)  # in the place of what was sent: nobody doubts that
    assert not stamped.step(None, t=59.5 / 30.0, band=0.9).unsure


PARTS = ("actions", "low", "high", "unsure")


def assert_equal_bands(ours, theirs):
    for name in PARTS:
        one, other = (np.ravel(getattr(banded, name)) for banded in (ours, theirs))
        np.testing.assert_array_equal(one, other, err_msg=name)


def remembering(policy):
    """The same policy within bounds that it meets, which keeps something of its start and holds still."""
    bounded = policy.in_units(policy.units, simile.ActionSpace(-2.0, 2.0), policy.card)
    other = bounded.holding(simile.Hold(0.3)).keeping(simile.Offset(0.8, 0.99))
    return with_band(other, Band.of(policy).to_dict())  # as if it were of this one


@pytest.mark.parametrize("seed", range(3))
def test_who_asks_for_bands_gets_the_same_actions(policy, demos, seed):
    """Whatever comes: operators between ticks, pauses, dropped frames, states of an earlier life."""
    rng, x = np.random.default_rng(seed), demos[8].contexts
    plain, asking = (simile.Predictor(policy, rate=30.0) for _ in range(2))
    t, past = 0.0, [asking.state_dict()]
    for row in x[:90]:
        t += rng.choice([0.01, 0.05, 12.0], p=[0.45, 0.5, 0.05])
        event = rng.choice(["step", "override", "drop", "load"], p=[0.6, 0.2, 0.1, 0.1])
        if event == "load":
            state = past[rng.integers(len(past))]
            for one in (plain, asking):
                one.load_state_dict(state)
            t = max(0.0, float(np.nan_to_num(state["now"]))) + 0.01
        if event == "override":
            action = 20.0 * rng.normal(size=1)
            assert np.array_equal(asking.override(action, row, t=t), plain.override(action, row, t=t))
            continue
        given = None if event == "drop" and t > 0.02 and asking._streams.history.begun.all() else row
        banded = asking.step(given, t=t, band=0.9)
        assert np.array_equal(banded.actions, plain.step(given, t=t))
        assert banded.low <= banded.actions <= banded.high
        past.append(asking.state_dict())


def test_a_slip_of_the_clock_costs_no_band_and_no_action(policy, demos, tmp_path):
    policy.save(tmp_path / "p.safetensors")
    far = np.array([[1.0], [1.0], [1.0], [50.0], [1.0]])  # so that the policy moves in the row that slips
    stamped = np.hstack([[[0.0], [0.04], [0.08], [50.0], [0.09]], far * demos[8].contexts[:5]])
    rows = [",".join(map(repr, row)) for row in stamped.tolist()]
    lines = "\n".join([",".join(("t", *demos.context_names)), *rows])
    how = ["run", "p.safetensors", "--time", "t", "--rate", "20"]
    plain, banded = (simile_(*how, *more, cwd=tmp_path, stdin=lines, code=2).stdout for more in ([], ["--band", "0.9"]))
    actions = [[row.split(",")[0] for row in said.splitlines()] for said in (plain, banded)]
    assert len(actions[0]) == 6
    assert actions[0] == actions[1]


def test_a_policy_that_repeats_itself_never_moves_the_level_up(policy, demos):
    demo, met = demos[8], 0
    for one in (policy, remembering(policy)):
        for start in (None, [one.space.clip(np.array([15.0]))]):
            known = simile.ColdStart() if start is None else start[0]
            rolled = simile.rollout(one, [demo.contexts], start=known)[0]
            met += np.count_nonzero(np.abs(rolled[5:100]) == 2.0)
            predictor = simile.Predictor(one, start=start)
            for x in demo.contexts[:5]:
                predictor.step(x, band=0.8)
            half = predictor.state_dict()  # what is kept of the start is in it
            for again in (predictor, simile.Predictor(one)):
                again.load_state_dict(half)
                for t in range(5, 100):
                    again.override(rolled[t], demo.contexts[t])
                assert again._streams.gauge._moved[0, 0] == pytest.approx(95 * PACE * -0.2)
    assert met > 40


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("lead", [0.0, -0.1])
def test_streams_of_a_pool_have_bands_and_levels_as_predictors_of_their_own(policy, demos, waiting, seed, lead):
    rng, one = np.random.default_rng(seed), remembering(waiting if lead else policy)
    how = {"gap": HoldAction() if seed else HoldContext()}
    pool, alone = simile.PredictorPool(one, 3, **how), [simile.Predictor(one, **how) for _ in range(3)]
    fresh = np.ones(3, bool)
    for _ in range(120):
        ids = rng.permutation(3)[: rng.integers(1, 4)]
        X = demos[8].contexts[rng.integers(100, size=len(ids))]
        band = None if rng.random() < 0.3 else float(rng.choice([0.8, 0.9]))
        event = rng.choice(["step", "some", "override", "reset", "start", "load"], p=[0.4, 0.3, 0.23, 0.02, 0.02, 0.03])
        if event == "load":  # into new ones, by way of a file
            pool, old = simile.PredictorPool(one, 3, **how), pool
            pool.load_state_dict(through_a_file(old.state_dict()))
            alone, old = [simile.Predictor(one, **how) for _ in range(3)], alone
            for new, before in zip(alone, old, strict=True):
                new.load_state_dict(through_a_file(before.state_dict()))
        elif event in ("reset", "start"):
            start = None if event == "reset" else [2.0]
            pool.reset(ids, start=start)
            for i in ids:
                alone[i].reset(start)
            fresh[ids] = event == "reset"
        elif event == "override":
            A = 3.0 * rng.normal(size=(len(ids), 1))
            pool.override(A, X, streams=ids)
            for i, a, x in zip(ids, A, X, strict=True):
                alone[i].override(a, x)
            fresh[ids] = False
        else:
            present = fresh[ids] | (rng.random(len(ids)) < (1.0 if event == "step" else 0.5))
            found = pool.step(X, streams=ids, present=present, band=band)
            theirs = [alone[i].step(x if p else None, band=band) for i, x, p in zip(ids, X, present, strict=True)]
            fresh[ids] = False
            for row, own in enumerate(theirs):
                if own is None:
                    assert np.isnan(np.asarray(found if band is None else found.actions)[row]).all()
                elif band is None:
                    assert np.array_equal(found[row], own)
                else:
                    assert_equal_bands(simile.policies.bands.Banded(*(getattr(found, p)[row] for p in PARTS)), own)


def through_a_file(state):
    file = io.BytesIO()
    np.savez(file, **state)
    file.seek(0)
    return dict(np.load(file))


def test_a_predictor_goes_on_from_its_state_with_equal_bits_whoever_acts(policy, demos):
    one, x = simile.Predictor(policy, rate=30.0), demos[8].contexts
    for t in range(30):
        one.step(x[t], t=t / 30.0, band=0.9)
    other = simile.Predictor(policy, rate=30.0)
    other.load_state_dict(through_a_file(one.state_dict()))
    for each in (one, other):
        each.step(x[30], t=29.3 / 30.0, band=0.9)
    assert_equal_bands(*(each.step(x[30], t=29.4 / 30.0, band=0.9) for each in (one, other)))  # no tick was due
    for t in range(30, 60):  # nobody has asked the other one for a band
        for each in (one, other):
            each.override([30.0], x[t], t=t / 30.0)
    assert one._streams.gauge._moved[0, 0] == other._streams.gauge._moved[0, 0] > 0.1
    assert_equal_bands(*(each.step(x[60], t=2.0, band=0.9) for each in (one, other)))


def test_an_operator_between_ticks_has_no_width(policy, demos):
    predictor, x = simile.Predictor(policy, rate=10.0), demos[8].contexts
    for t in range(3):
        predictor.step(x[t], t=t / 10.0, band=0.9)
    predictor.override([5.0], t=0.25)
    now = predictor.step(x[3], t=0.26, band=0.9)
    assert (now.actions, now.low, now.high, now.unsure) == (5.0, 5.0, 5.0, False)


def test_who_adopts_forgets_what_its_bands_were(policy, demos):
    x, far = demos[8].contexts, demos[8].contexts + 1000.0
    old, fresh, used = (simile.PredictorPool(policy, 1) for _ in range(3))
    for t in range(30):
        old.step(x[t : t + 1])
        used.step(far[t : t + 1], band=0.9)
    for heir in (fresh, used):
        heir.adopt(old)
    assert_equal_bands(*(heir.step(x[30:31], band=0.9) for heir in (fresh, used)))
    known, heir = simile.PredictorPool(policy, 1, start=[3.0]), simile.PredictorPool(policy, 1)
    heir.adopt(known)
    assert_equal_bands(known.step(x[:1], band=0.9), heir.step(x[:1], band=0.9))


def test_a_state_knows_that_its_start_is_known(policy, demos):
    x = demos[8].contexts
    for make in (simile.Predictor, lambda policy, **how: simile.PredictorPool(policy, 1, **how)):
        known, other = make(policy, start=[3.0]), make(policy)
        cold = other.state_dict()
        other.load_state_dict(through_a_file(known.state_dict()))
        row = x[0] if make is simile.Predictor else x[:1]
        assert_equal_bands(known.step(row, band=0.9), other.step(row, band=0.9))
        known.reset(start=[3.0])
        known.load_state_dict(cold)  # which began at nothing
        other.reset()
        assert_equal_bands(known.step(row, band=0.9), other.step(row, band=0.9))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_state_whose_band_is_no_number_is_refused(policy, demos, value):
    predictor = simile.Predictor(policy)
    predictor.step(demos[8].contexts[0], band=0.9)
    state = predictor.state_dict()
    assert np.isfinite(state["band"]).all()
    for at in (0, -1):
        state["band"][0, at] = value
        with pytest.raises(simile.SimileError, match=r"state\['band'\] must be finite numbers: it is damaged"):
            simile.Predictor(policy).load_state_dict(state)
        state["band"][0, at] = 1e300  # a number at least: bands begin anew, or are as it says
        simile.Predictor(policy).load_state_dict(state)


def test_ticks_bring_bands(policy, demos):
    predictor = simile.Predictor(policy)
    found = [predictor.step(x, t=t / 30.0, band=0.9) for t, x in enumerate(demos[8].contexts[:20])]
    assert all(one.width > 0.0 for one in found)
    again = predictor.step(demos[8].contexts[20], t=19.1 / 30.0, band=0.9)  # no tick is due
    assert np.array_equal(again.high, found[-1].high)


def test_operators_who_are_elsewhere_make_bands_wider_and_those_who_agree_narrower(policy, demos):
    demo = demos[8]
    rolled = simile.rollout(policy, [demo.contexts], start=simile.ColdStart())[0]
    widths = []
    for away in (0.0, 30.0):
        predictor = simile.Predictor(policy)
        for x in demo.contexts[:30]:
            predictor.step(x, band=0.8)
        for t in range(30, 90):
            predictor.override(rolled[t] + away, demo.contexts[t])
        gauge = predictor._streams.gauge
        widths.append(float(gauge._quantile(np.arange(1), 0.8)[0, 0]))
        assert gauge._moved[0, 0] == pytest.approx(60 * PACE * (0.8 if away else -0.2))
    assert widths[0] < float(Band.of(policy).quantile(0.8)[0]) < widths[1]


def test_adaptive_levels_reach_their_coverage_where_the_world_has_changed(policy, demos):
    """Gibbs and Candes (2021): in the long run as many operators' actions are held as asked for."""
    rng = np.random.default_rng(0)
    predictor, x = simile.Predictor(policy), demos[8].contexts
    predictor.step(x[0], band=0.8)
    gauge, held = predictor._streams.require_band(), []
    for t in range(1, 1500):
        wanted = gauge._wanted[0, 0] if t > 1 else np.zeros(1)
        action = policy.units.restore(wanted + 0.25 * rng.normal())
        before = float(gauge._moved[0, 0])
        predictor.override(action, x[t % len(x)])
        held.append(gauge._moved[0, 0] < before)
    assert np.mean(held[750:]) == pytest.approx(0.8, abs=0.03)


# The service and the other doors


def test_the_service_sends_bands_to_those_who_ask_and_says_when_it_is_unsure(policy, demos):
    monitor = Monitor(policy, 30.0, 4)
    service, answers = Service(policy, max_streams=4, monitor=monitor), []
    asks, plain = service.open("asks", band=0.9), service.open("plain")
    x = demos[8].contexts.copy()
    x[60:] += 1000.0
    for row in x.tolist():
        for stream in (asks, plain):
            service.put(stream, Frame(row), lambda stream, answer: answers.append((stream.name, answer)))
        service.run()
    own = [answer for name, answer in answers if name == "asks"]
    found = online(policy, simile.Demonstration(x, demos[8].actions), 0.9)
    assert [one.band for one in own] == [[b.low.tolist(), b.high.tolist()] for b in found]
    assert all(answer.band is None for name, answer in answers if name == "plain")
    told = [event for event in monitor.events() if event.kind == UNSURE]
    assert told
    assert told[-1].on
    assert {event.slot for event in told} == {asks.slot}
    assert monitor.troubles(np.arange(4))[UNSURE] == 1
    service.put(asks, Frame(None, override=[1.0]), lambda stream, answer: answers.append((stream.name, answer)))
    service.run()
    assert answers[-1][1].band == [[1.0], [1.0]]


def test_the_service_refuses_bands_that_there_are_not(policy, demos):
    service = Service(policy, max_streams=2)
    with pytest.raises(simile.SimileError, match="band must be a level"):
        service.open("a", band=2.0)
    bare = Service(with_band(policy, None), max_streams=2)
    with pytest.raises(simile.SimileError, match="carries none"):
        bare.open("a", band=0.9)


def test_a_policy_without_a_band_that_takes_over_costs_bands_alone(policy, demos):
    service, answers = Service(policy, max_streams=2, handover=0.0), []
    stream = service.open("a", band=0.9)
    service.reload(with_band(policy, None))
    service.put(stream, Frame(demos[8].contexts[0].tolist()), lambda _, answer: answers.append(answer))
    service.run()
    assert answers[0].a is not None
    assert answers[0].band is None


@pytest.mark.parametrize("how", ["another policy", "resumed", "failing"])
def test_who_has_no_band_any_more_is_not_unsure(how, policy, demos, monkeypatch):
    monitor = Monitor(policy, 30.0, 2)
    service = Service(policy, max_streams=2, monitor=monitor, handover=0.0)
    stream = service.open("a", band=0.9)
    slots, x = np.array([stream.slot]), demos[8].contexts

    def feed(row):
        service.put(stream, Frame(row.tolist()), lambda *_: None)
        service.run()

    feed(x[0])
    feed(x[1] + 1000.0)
    assert monitor.troubles(slots)[UNSURE] == 1
    if how == "another policy":
        service.reload(with_band(policy, None))
    elif how == "resumed":
        stream = service.open("a", resume=True)
    else:
        monkeypatch.setattr("simile.online.streams.Streams.measure", lambda *_, **__: 1 / 0)
    feed(x[2])
    assert monitor.troubles(slots)[UNSURE] == 0
    assert [event.on for event in monitor.events() if event.kind == UNSURE] == [True, False]


def test_evaluate_says_how_well_it_holds(policy, demos):
    judged = simile.evaluate(policy, demos[6:], band=0.9)
    assert judged.band is not None
    assert len(judged.band.rows) == 4
    banded = simile.rollout(policy, demos[6:], band=0.9)
    first = slice(policy.memory, None)
    inside = [(b.low <= d.actions) & (d.actions <= b.high) for b, d in zip(banded, demos[6:], strict=True)]
    assert judged.band.mean("coverage") == pytest.approx(np.mean([one[first].mean() for one in inside]))
    assert "band 0.9" in str(judged)
    assert "in theory one more has" in str(judged)
    assert simile.evaluate(policy, demos[6:]).band is None


def test_frames_that_do_not_count_are_no_hits(policy, demos):
    rng = np.random.default_rng(0)
    weights = [rng.choice([0.0, 0.5, 2.0], size=one.actions.shape) for one in demos[6:9]]
    weighed = simile.Demonstrations(
        tuple(replace(one, weights=w) for one, w in zip(demos[6:9], [*weights[:2], 0.0 * weights[2]], strict=True))
    )
    first, banded = slice(policy.memory, None), simile.rollout(policy, weighed, band=0.6)
    inside = [(b.low <= d.actions) & (d.actions <= b.high) for b, d in zip(banded, weighed, strict=True)]
    checked = simile.evaluate(policy, weighed, band=0.6).band
    assert [row["sequence"] for row in checked.rows] == [0, 1]  # the third says nothing
    for row, within, b, w in zip(checked.rows, inside, banded, weights, strict=False):
        assert row["coverage"] == pytest.approx(np.average(within[first], weights=w[first]))
        assert row["width"] == pytest.approx(np.average(b.width[first], weights=w[first]))
    drawn = DrawnBand.of(policy, Reference(weighed, policy.units.scale, policy.memory))
    assert drawn.coverage == simile.evaluate(policy, weighed, band=0.9).band.mean("coverage")
    none = BandCheck.of(policy, 0.9, [])
    assert np.isnan(none.mean("coverage"))
    assert str(none).startswith("band 0.9: no frame counts, so that nothing is known of it; measured on 6")


def test_commands_take_a_level(policy, demos, tmp_path):
    policy.save(tmp_path / "p.safetensors")
    simile.write(demos[6:8], tmp_path / "new.csv")
    said = simile_("evaluate", "p.safetensors", "new.csv", "--band", "0.9", cwd=tmp_path).stdout
    assert "band 0.9" in said
    found = json.loads(simile_("evaluate", "p.safetensors", "new.csv", "--band", "0.9", "--json", cwd=tmp_path).stdout)
    assert [row["coverage"] >= 0.0 for row in found["band"]] == [True, True]
    simile_("rollout", "p.safetensors", "new.csv", "--band", "0.9", "--out", "out.csv", cwd=tmp_path)
    rolled = simile.read(tmp_path / "out.csv", actions=["pan", "pan_low", "pan_high"], quiet=True)
    banded = simile.rollout(policy, demos[6:8], band=0.9)
    assert np.array_equal(rolled[1].actions[:, 1:], np.hstack([banded[1].low, banded[1].high]))
    lines = (tmp_path / "new.csv").read_text().splitlines()[:5]
    answers = simile_("run", "p.safetensors", "--band", "0.9", cwd=tmp_path, stdin="\n".join([*lines, "", ""]))
    header, *found = answers.stdout.splitlines()
    assert header == "pan,pan_low,pan_high,unsure"
    cold = simile.rollout(policy, demos[6:7].contexts, band=0.9, start=simile.ColdStart())[0]
    assert [float(row.split(",")[2]) for row in found[:4]] == cold.high[:4, 0].tolist()
    assert len(found) == 5  # a gap has a band, too
    assert {row.split(",")[3] for row in found} <= {"0", "1"}
    simile.clone(demos[:4], model=LIGHT[0]).policy.save(tmp_path / "bare.safetensors")
    refused = simile_("run", "bare.safetensors", "--band", "0.9", cwd=tmp_path, stdin="\n".join(lines), code=2)
    assert "carries none" in refused.stderr
    assert refused.stdout == ""


@pytest.mark.parametrize("verb", ["evaluate", "rollout", "run"])
@pytest.mark.parametrize("level", ["nan", "0.4", "wide"])
def test_commands_refuse_what_is_no_level_before_they_read(verb, level, policy, tmp_path):
    data = () if verb == "run" else ("missing.csv",)
    said = simile_(verb, "missing.safetensors", *data, "--band", level, cwd=tmp_path, stdin="", code=2)
    assert "Invalid value for '--band'" in said.stderr
    assert said.stdout == ""


def test_commands_refuse_a_band_whose_columns_there_are_already(demos, tmp_path):
    both = [np.hstack([one.actions, one.actions]) for one in demos[:6]]
    named = simile.Demonstrations.from_arrays(
        demos[:6].contexts, both, rate=30.0, action_names=("pan", "pan_low"), context_names=demos[0].context_names
    )
    policy = simile.learn(named, model=LIGHT[1], smoothness=30.0, hold=0).policy
    policy.save(tmp_path / "p.safetensors")
    simile.write(named[:1], tmp_path / "new.csv")
    rows = (tmp_path / "new.csv").read_text().splitlines()[:3]
    for stdin, *words in (
        ("\n".join(rows), "run", "p.safetensors"),
        (json.dumps(dict(zip(rows[0].split(","), rows[1].split(","), strict=True))), "run", "p.safetensors"),
        ("", "rollout", "p.safetensors", "missing.csv"),  # before anything is read
    ):
        said = simile_(*words, "--band", "0.9", cwd=tmp_path, stdin=stdin, code=2)
        assert "would write a column 'pan_low', and that is a column of the policy already" in said.stderr
        assert said.stdout == ""
    assert simile_("evaluate", "p.safetensors", "new.csv", "--band", "0.9", cwd=tmp_path).stdout  # which writes none
    names = ("pan", "tilt"), ("tilt_high", *named.context_names[1:])
    card = replace(policy.card, action_names=names[0], context_names=names[1])
    policy.in_units(policy.units, policy.space, card).save(tmp_path / "q.safetensors")
    said = simile_("rollout", "q.safetensors", "missing.csv", "--band", "0.9", cwd=tmp_path, code=2)
    assert "'tilt_high'" in said.stderr
    bare = dict(zip(names[1], np.zeros(len(names[1])).tolist(), strict=True))
    said = simile_("run", "q.safetensors", "--band", "0.9", cwd=tmp_path, stdin=json.dumps(bare))  # which repeats none
    assert json.loads(said.stdout).keys() >= {"tilt_high", "unsure"}
    assert json.loads(said.stdout)["unsure"] in (0, 1)


def test_exports_carry_constant_bands(policy, demos, tmp_path):
    simile.export_c(policy, tmp_path / "pan.h")
    line = next(one for one in (tmp_path / "pan.h").read_text().splitlines() if "PAN_BAND_90" in one)
    half = float(line.partition("{")[2].partition("}")[0])
    assert half == (Band.of(policy).half(0.9) * policy.units.scale)[0]
    simile.export_c(with_band(policy, None), tmp_path / "bare.h")
    assert "_BAND_" not in (tmp_path / "bare.h").read_text()
    onnx = pytest.importorskip("onnx")
    simile.export_onnx(policy, tmp_path / "pan.onnx")
    facts = {one.key: one.value for one in onnx.load(tmp_path / "pan.onnx").metadata_props}
    assert json.loads(facts["band"])["0.9"] == [half]


def test_doubts_are_zero_where_there_is_one_voice(demos):
    alone = simile.learn(demos[:6], model=LIGHT[1], smoothness=30.0, hold=0).policy
    doubts = Doubts.of(alone)
    assert Band.of(alone).weights[0, 1] == 0.0 or len(doubts.voices) > 1


def test_the_state_of_a_filter_at_rest_stays():
    h = CriticallyDamped(order=3).fit([np.zeros((0, 2))], 30.0)
    loop, z = ClosedLoop.of(h, 30.0), np.array([[1.0, -2.0], [0.5, 3.0]])
    out = loop.carry(np.repeat(z[np.newaxis], 50, axis=0), loop.rest(z))
    assert np.allclose(out, z[np.newaxis])
