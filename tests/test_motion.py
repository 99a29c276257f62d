"""How an expert moves, and what its log is worth, on signals whose answers are known."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from naive import naive_play, naive_rests, naive_reversals
from simile import Demonstrations, Horizon, SmoothForest, clone, evaluate, read
from simile.camera.features import demonstrations
from simile.camera.simulation import simulate
from simile.data import tasks
from simile.data.logs import Log, know_log, tell_motion, tell_noise
from simile.data.reference import Reference
from simile.learning.distributed import DistributedDemonstrations
from simile.learning.distributed.backend import LocalBackend
from simile.learning.measures import outcome
from simile.metrics import count_rests, count_reversals, find_holds, play, rate_reversals, share_rest
from simile.policies.cards import Card

VALUES = st.floats(-3.0, 3.0, width=32)
RATE = 50.0


def column(values):
    return np.asarray(values, dtype=float)[:, np.newaxis]


def glide(frames=50):
    """A movement of minimum jerk from 0 to 1 (Flash and Hogan 1985)."""
    time = np.linspace(0.0, 1.0, frames)
    return 10 * time**3 - 15 * time**4 + 6 * time**5


def operator(moves=40, hold=50, frames=50, seed=0):
    """Hold, glide, hold: half of the time still, with moves up and down of 1 to 2."""
    rng = np.random.default_rng(seed)
    levels = np.cumsum(rng.uniform(1.0, 2.0, moves) * np.where(np.arange(moves) % 2, -1.0, 1.0))
    levels = np.append(0.0, levels)
    parts = [np.append(np.full(hold, a), a + (b - a) * glide(frames)) for a, b in pairwise(levels)]
    return column(np.concatenate(parts))


def quick_policy(demos):
    return clone(demos, model=SmoothForest(n_trees=2, min_leaf=4, max_depth=4), horizon=Horizon(2, 0)).policy


def motion_of(trajectories, logs, rate=None):
    """How often actions turn and for how long they rest, by the thresholds of their logs."""
    threshold = [log.threshold for log in logs]
    both = rate_reversals(trajectories, threshold, rate), share_rest(trajectories, threshold, rate)
    return [SimpleNamespace(reversals=turns, rest=rest) for turns, rest in zip(*both, strict=True)]


def noisy(actions, share, seed=1):
    return actions + share * actions.std() * np.random.default_rng(seed).normal(size=actions.shape)


@given(
    st.integers(1, 40).flatmap(lambda n: arrays(float, st.sampled_from([(n,), (n, 2)]), elements=VALUES)),
    st.floats(0.0, 2.0),
    st.none() | VALUES,
)
def test_play_has_the_bits_of_the_loop(actions, width, start):
    followed = play(actions, width, start)
    assert followed.shape == actions.shape
    np.testing.assert_array_equal(followed, naive_play(actions, width, start))


def test_play_has_a_width_and_a_start_per_action():
    actions = np.random.default_rng(0).normal(size=(300, 2)).cumsum(axis=0)
    widths, start = np.array([0.5, 4.0]), np.array([9.0, -9.0])
    np.testing.assert_array_equal(play(actions, widths, start), naive_play(actions, widths, start))


@given(arrays(float, (30, 2), elements=VALUES), arrays(float, (30, 2), elements=VALUES), st.floats(0.0, 2.0))
def test_play_does_not_expand(one, other, width):
    """The play operator is non-expansive in the supremum norm, from the same start."""
    apart = np.abs(play(one, width, 0.0) - play(other, width, 0.0)).max()
    assert apart <= np.abs(one - other).max() + 1e-12


COUNTED = st.integers(0, 40).flatmap(lambda n: arrays(float, (n, 2), elements=st.integers(-20, 20)))


@given(st.lists(COUNTED, min_size=1, max_size=4), st.none() | st.sampled_from([10.0, 25.0]))
def test_reversals_and_rests_are_those_of_the_loop(sequences, rate):
    for twin, counted in (
        (naive_reversals, count_reversals(sequences, (3.0, 8.0))),
        (partial(naive_rests, rate=rate), count_rests(sequences, (3.0, 8.0), rate)),
    ):
        wanted = [[twin(a[:, j].tolist(), threshold) for j, threshold in enumerate((3.0, 8.0))] for a in sequences]
        np.testing.assert_array_equal(counted, wanted)


def test_each_action_has_its_own_threshold():
    wave = column(np.sin(np.arange(400) * 2 * math.pi / 40.0))
    both = [np.hstack([wave, wave])]
    np.testing.assert_array_equal(count_reversals(both, np.array([0.1, 3.0])), [[20, 0]])
    assert (share_rest(both, np.array([0.01, 3.0])) == [0.0, 1.0]).all()


def test_what_diverged_has_no_count():
    gone = np.array([[0.0, 0.0], [1.0, math.inf], [0.0, math.nan], [1.0, 0.0], [0.0, 0.0]])
    still = np.zeros((9, 2))
    np.testing.assert_array_equal(count_reversals([gone, still], 0.1), [[3.0, math.nan], [0.0, 0.0]])
    np.testing.assert_array_equal(count_rests([gone[:, ::-1], still], 0.1), [[math.nan, 0.0], [8.0, 8.0]])
    np.testing.assert_array_equal(np.isnan(share_rest([gone], 0.1)), [False, True])


@given(st.lists(arrays(np.float64, st.tuples(st.integers(2, 60), st.just(2)), elements=st.integers(0, 2)), min_size=1))
def test_holds_are_found_where_the_share_says(sequences):
    found = [find_holds(a, (0.5, 3.0), 4.0) for a in sequences]
    intervals = sum(len(a) - 1 for a in sequences)
    held = [sum(int(np.diff(holds[j]).sum()) for holds in found) for j in range(2)]
    assert np.array(held) / intervals == pytest.approx(share_rest(sequences, (0.5, 3.0), 4.0))
    for a, (first, _) in zip(sequences, found, strict=True):
        for begin, end in first:
            assert len(np.unique(a[begin : end + 1, 0])) == 1
            assert end - begin >= 3


def test_what_diverged_holds_nowhere():
    still = np.zeros((20, 2))
    still[10:, 0] = np.nan
    assert [holds.tolist() for holds in find_holds(still, 0.1)] == [[], [[0, 19]]]
    assert [holds.tolist() for n in (0, 1) for holds in find_holds(still[:n], 0.1)] == [[], []] * 2


def test_no_time_passes_in_one_frame():
    assert np.isnan(share_rest([np.zeros((1, 1)), np.zeros((1, 1))], 0.1)).all()


@pytest.mark.parametrize(("rate", "shortest"), [(None, 3), (10.0, 3), (50.0, 13)])
def test_a_hold_is_three_frames_and_a_quarter_of_a_second_at_least(rate, shortest):
    for length, held in ((shortest - 1, 0.0), (shortest, 1.0)):
        steps = column(np.repeat(np.arange(20.0), length + 1))  # a jump, and as many intervals at rest
        assert share_rest([steps], 0.1, rate) == pytest.approx(held * 20 * length / (len(steps) - 1))


@pytest.mark.parametrize(
    ("values", "step"),
    [
        pytest.param(np.round(np.sin(np.arange(500) / 30) * 170, 2), 0.01, id="degrees as text"),
        pytest.param(
            np.float32(0.1) * np.float32(np.round(np.sin(np.arange(500) / 30) * 50)), 0.1, id="single precision"
        ),
        pytest.param(np.round(np.sin(np.arange(900) / 90) * 2047) * 0.00123, 0.00123, id="counts of 12 bits"),
        pytest.param(np.round(np.sin(np.arange(300) / 30) * 40) * 0.25 + 5e6, 0.25, id="far off"),
        pytest.param(np.round(np.arange(300) % 37 * 2.611e-5, 6), 2.611e-5, id="written with few digits"),
        pytest.param(np.sin(np.arange(500) / 30), 0.0, id="continuous"),
        pytest.param(np.float32(np.sin(np.arange(500) / 30)), 0.0, id="continuous in single precision"),
        pytest.param(np.repeat(np.random.default_rng(0).normal(size=50), 20), 0.0, id="held at any values"),
        pytest.param(np.tile([0.0, 1.0], 50), 0.0, id="two values"),
        pytest.param(np.full(50, 7.0), 0.0, id="constant"),
    ],
)
def test_resolution(values, step):
    (log,) = know_log([column(values)])
    assert log.resolution == pytest.approx(step, rel=2e-3)
    (shifted,) = know_log([(column(values) - 0.123) / 7.7])  # in other units it is the same
    assert shifted.resolution == pytest.approx(step / 7.7, rel=2e-3)


def test_the_resolution_of_all_sequences_is_one_that_divides_each():
    rng = np.random.default_rng(0)
    sequences = [column(n * 0.5 * rng.integers(-50, 50, size=200)) for n in (2, 3)]
    assert know_log(sequences)[0].resolution == pytest.approx(0.5)
    assert know_log([*sequences, column(rng.normal(size=200))])[0].resolution == 0.0


@pytest.mark.parametrize("share", [0.0013, 0.0044, 0.01, 0.1])
@pytest.mark.parametrize("held", [True, False])
def test_noise_is_recovered(share, held):
    clean = operator() if held else column(np.sin(np.arange(4000) / 40))
    (log,) = know_log([noisy(clean, share)])
    low, high = log.noise_interval
    true = share * clean.std()
    assert log.noise == pytest.approx(true, rel=0.1)
    assert low < true < high
    assert log.spread == pytest.approx(clean.std(), rel=0.02)


def test_noise_is_found_in_holds_where_motion_hides_it():
    rng = np.random.default_rng(0)
    steps = np.where(rng.random(3000) < 0.12, rng.normal(size=3000), 0.0)
    clean = column(np.cumsum(steps))
    (log,) = know_log([noisy(clean, 0.005)])
    assert log.noise == pytest.approx(0.005 * clean.std(), rel=0.25)


@pytest.mark.parametrize(
    "clean",
    [
        pytest.param(operator(), id="hold and move"),
        pytest.param(column(np.sin(np.arange(3000) / 20)), id="sine"),
        pytest.param(column(np.round(np.sin(np.arange(3000) / 20), 2)), id="quantised"),
        pytest.param(column(np.random.default_rng(0).normal(size=4000).cumsum()), id="random walk"),
        pytest.param(column(np.sin(np.arange(3000) / 50) + 0.05 * (-1.0) ** np.arange(3000)), id="alternating"),
        pytest.param(column(np.repeat([0.0, 1.0], 30).tolist() * 40), id="square wave"),
        pytest.param(np.zeros((500, 1)), id="constant"),
        pytest.param(np.zeros((3, 1)), id="short"),
    ],
)
def test_motion_is_not_taken_for_noise(clean):
    (log,) = know_log([clean])
    assert log.noise == 0.0
    assert log.strides == (1, 1, 1)
    assert log.kept == (1.0, 1.0, 1.0)


def test_which_sequence_comes_first_does_not_matter():
    sequences = [noisy(operator(moves, seed=moves), 0.01, seed=moves) for moves in (3, 8, 13, 20)]
    assert know_log(sequences) == know_log(sequences[::-1])


def test_the_threshold_is_twice_the_resolution_six_times_the_noise_or_a_hundredth_of_the_spread():
    assert Log(0.0, 0.0, (0.0, 0.0), 2.0).threshold == 0.02
    assert Log(0.04, 0.0, (0.0, 0.0), 2.0).threshold == 0.08
    assert Log(0.04, 0.02, (0.0, 0.0), 2.0).threshold == pytest.approx(0.12)
    assert Log(1.0, 0.0, (0.0, 0.0), 2.0).threshold == 0.2  # every step of a coarse log is a move


def test_a_sine():
    actions = [column(np.sin(2 * math.pi * np.arange(3000) / 100.0))]  # a minute of half a hertz
    (motion,) = motion_of(actions, know_log(actions), RATE)
    assert motion.reversals == pytest.approx(60.0, abs=1.0)
    assert motion.rest == 0.0
    (unknown,) = motion_of(actions, know_log(actions))
    assert unknown.reversals == pytest.approx(20.0, abs=0.5)  # per 1,000 frames


def test_movements_of_minimum_jerk():
    actions = [operator()]
    (motion,) = motion_of(actions, know_log(actions), RATE)
    assert motion.reversals == pytest.approx(39 / 80 * 60, rel=0.01)
    assert motion.rest == pytest.approx(0.5, abs=0.08)  # a move begins once the threshold is passed


def test_a_policy_that_ripples_and_creeps_is_told_from_its_expert():
    expert = operator()
    logs = know_log([expert])
    creeping = expert + column(0.05 * np.sin(np.arange(len(expert)) / 8.0))
    theirs, ours = (motion_of([a], logs, RATE)[0] for a in (expert, creeping))
    assert ours.reversals > 2.0 * theirs.reversals
    assert ours.rest < 0.05


@pytest.mark.parametrize("share", [0.0013, 0.0044, 0.01])
def test_noise_changes_little(share):
    clean = operator()
    heard = [noisy(clean, share)]
    (true,), (found,) = (motion_of(a, know_log(a), RATE) for a in ([clean], heard))
    for name in ("reversals", "rest"):
        assert getattr(found, name) == pytest.approx(getattr(true, name), rel=0.15), name


def test_sequences_are_never_joined():
    there, back = column(np.linspace(0.0, 1.0, 60)), column(np.linspace(1.0, 0.0, 60))
    assert count_reversals([there, back], 0.1).sum() == 0.0
    assert count_reversals([np.concatenate([there, back])], 0.1) == [[1.0]]
    assert share_rest([column([0.0] * 3), column([0.0] * 3)], 0.1) == [0.0]


def demos_with(actions):
    return Demonstrations.from_arrays(
        [np.zeros((len(a), 1)) for a in actions], actions, rate=RATE, action_names=["pan"]
    )


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("share", [0.0013, 0.0044, 0.01])
def test_budgets_are_about_the_motion(order, share):
    """What is compared with a noisy log is as rough as beside the true expert; plainly it would be 40 times off."""
    clean = [operator(seed=s) for s in range(3)]
    true, logged = demos_with(clean), demos_with([noisy(a, share, seed=s) for s, a in enumerate(clean)])
    jitter = np.random.default_rng(0).normal(size=(len(clean[0]), 1))
    for rolled in (clean, [np.apply_along_axis(np.convolve, 0, a, np.ones(9) / 9, "same") for a in clean]):
        restless = [a + 1e-4 * jitter for a in rolled]
        for one in (rolled, restless):
            found, right = (Reference(demos, order=order).measure(one).roughness for demos in (logged, true))
            assert found == pytest.approx(right, rel=0.22)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_without_noise_budgets_have_the_bits_of_plain_differences(order):
    clean = [operator(seed=s) for s in range(3)]
    rolled = [a + 0.1 * np.sin(np.arange(len(a)))[:, np.newaxis] for a in clean]
    plain = Reference(demos_with(clean), order=order, logs=(Log(0.0, 0.0, (0.0, 0.0), 1.0),))
    assert Reference(demos_with(clean), order=order).measure(rolled).roughness == plain.measure(rolled).roughness
    ours, theirs = (np.sum([np.abs(np.diff(a[:, 0], n=order)).sum() for a in s]) for s in (rolled, clean))
    assert plain.measure(rolled).roughness == ours / theirs


def test_noise_is_told_from_motion_on_many_machines_to_the_bit():
    demos = tasks.pursuit(n_sequences=6, length=200, seed=0)
    demos = demos.with_actions([noisy(a, 0.05, seed=i) for i, a in enumerate(demos.actions)])
    assert demos.logs[0].strides[1] > 1
    policy = quick_policy(demos)
    spread = DistributedDemonstrations.of(demos, LocalBackend(parts=4))
    assert spread.logs == demos.logs
    assert spread.outcome(policy).roughness == outcome(policy, demos).roughness


def test_evaluation_stands_beside_the_motion_of_the_expert():
    demos = tasks.pursuit(n_sequences=4, length=600, rate=RATE, seed=0)
    logged = demos.with_actions([noisy(a, 0.02, seed=i) for i, a in enumerate(demos.actions)])
    policy = replace(quick_policy(demos), card=Card())  # of which nobody knows what it was trained on
    true, found = (evaluate(policy, d) for d in (demos, logged))
    theirs, as_is = (sum(np.abs(np.diff(a, 2, axis=0)).sum() for a in d.actions) for d in (demos, logged))
    assert found.entries[0].tally.expert_bends.sum() <= 1.2 * theirs < 0.2 * as_is
    (expert,) = motion_of([a[policy.memory :] for a in demos.actions], demos.logs, RATE)
    (ours,) = motion_of([a[policy.memory :] for a in true.rolled], demos.logs, RATE)
    (alike,) = true.verdict.motion
    assert alike.reversals == pytest.approx((ours.reversals, expert.reversals))
    assert alike.rest == pytest.approx((ours.rest, expert.rest))
    rows = {row["name"]: row for row in true.rows()}
    assert rows["policy"]["reversals"] == pytest.approx(ours.reversals)
    assert (rows["hold the last action"]["rest"], rows["hold the last action"]["reversals"]) == (1.0, 0.0)
    assert tell_noise(demos.action_names, logged.logs)[0] in str(found)
    assert "noise" not in str(true)


def test_noise_is_told_from_motion_by_what_the_card_says_of_the_training():
    demos = tasks.pursuit(n_sequences=4, length=600, rate=RATE, seed=0)
    logged = demos.with_actions([noisy(a, 0.02, seed=i) for i, a in enumerate(demos.actions)])
    policy = quick_policy(logged)
    assert policy.card.logs(1) == logged.logs
    one = evaluate(policy, logged[:1])
    assert one.logs == logged.logs != logged[:1].logs
    assert one.recordings() == evaluate(policy, logged).recordings()[:1]


def test_a_note_names_the_noise_that_dominates():
    clean = operator()
    assert tell_noise(["pan"], know_log([clean])) == ()
    (note,) = tell_noise(["pan"], know_log([noisy(clean, 0.01)]))
    assert note.startswith("pan was recorded with noise of 0.0")
    assert "1 % of its standard deviation" in note


def test_sequences_that_are_the_experts_alone_count_for_nothing():
    demos = demos_with([operator(), np.ones((2, 1))])
    ruler = Reference(demos, begin=3)
    assert ruler.measure(demos.actions).roughness == 1.0


def test_a_description_says_what_the_log_is_worth_and_how_the_expert_moves():
    logged = demos_with([np.round(noisy(operator(seed=s), 0.01, seed=s), 3) for s in range(3)])
    (line,) = logged.describe().motion()
    assert str(logged.describe()).endswith(line)
    log = r"pan: resolution 0.001, noise 0.0\d+"
    assert re.fullmatch(rf"{log}, at rest 5\d % of the time, \d\d reversals a minute", line)
    assert demos_with([operator()[:50]]).describe().motion() == ()  # too little to tell


@given(
    st.lists(
        arrays(
            float, st.tuples(st.integers(1, 60), st.just(2)), elements=st.floats(allow_nan=False, allow_infinity=False)
        ),
        min_size=1,
        max_size=3,
    ),
    st.none() | st.floats(0.1, 1000.0),
)
def test_any_finite_values_are_measured(trajectories, rate):
    logs = know_log(trajectories)
    assert all(log.resolution >= 0.0 and log.noise >= 0.0 and log.threshold >= 0.0 for log in logs)
    for motion in motion_of(trajectories, logs, rate):
        assert not motion.rest > 1.0
        assert not motion.reversals < 0.0
    tell_motion(["a", "b"], logs, trajectories, rate)


SHARED = Path(__file__).parents[2] / "shared" / "data"
RECORDED = {
    "car_following": ("a_speed", 1e-4),
    "reservoir": ("a_release", 2.611e-5),
    "head360": ("a_yaw", 0.01),
    "grip_force": ("a_force", 0.1),
}


@pytest.mark.skipif(not SHARED.exists(), reason="the shared data is not here")
@pytest.mark.parametrize("name", RECORDED)
def test_real_logs(name):
    """Real motion, and the hum of one sensor, are not taken for noise; resolutions are those of the files."""
    action, step = RECORDED[name]
    demos = read(SHARED / name / f"{name}.csv", sequence="sequence", time="t", actions=action, quiet=True)
    (log,) = demos.logs
    assert log.resolution == pytest.approx(step, rel=1e-3)
    assert log.noise == 0.0
    if name in ("car_following", "reservoir"):  # where white noise can be told from what is there
        (heard,) = know_log(
            [a + 0.01 * log.spread * np.random.default_rng(0).normal(size=a.shape) for a in demos.actions]
        )
        assert heard.noise == pytest.approx(0.01 * log.spread, rel=0.1)


@pytest.mark.parametrize("share", [0.0, 0.0013, 0.0044, 0.01])
def test_simulated_operators(share):
    games = demonstrations(simulate(4, minutes=1.0, seed=3))
    logged = games.with_actions(
        [
            a + share * games.logs[0].spread * np.random.default_rng(i).normal(size=a.shape)
            for i, a in enumerate(games.actions)
        ]
    )
    (log,) = logged.logs
    assert log.noise == pytest.approx(share * log.spread, rel=0.1)
    assert Reference(logged).measure(games.actions).roughness == pytest.approx(1.0, abs=0.15)
    ours, theirs = (rate_reversals(d.actions, log.threshold, d.rate)[0] for d in (games, logged))
    assert theirs == pytest.approx(ours, rel=0.25)
    assert len(tell_noise(["pan"], logged.logs)) == (share > 0.0)
