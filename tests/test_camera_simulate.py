"""Simulated games: play that obeys physics and rules, detections that fail as real ones do, and a human operator."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simile
from simile.camera.courts import BASKETBALL, COURTS, SOCCER, Court
from simile.camera.features import demonstrations
from simile.camera.film.framing import framing
from simile.camera.geometry import Camera
from simile.camera.simulation import FIVE_A_SIDE, Detector, Operator, Play, simulate
from simile.camera.simulation.operators import lag_signal
from simile.data.logs import know_log

SPORTS = pytest.mark.parametrize("sport", [BASKETBALL, SOCCER], ids=lambda court: court.name)


def bits(games) -> str:
    """A digest of everything in the games."""
    digest = hashlib.sha256()
    for game in games:
        for array in (game.players, game.ball, game.possession, game.detections, game.actions):
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def moments(array, rate: float):
    """Speeds and accelerations of points (T, ..., 2)."""
    speed = np.diff(array, axis=0) * rate
    return np.linalg.norm(speed, axis=-1), np.linalg.norm(np.diff(speed, axis=0) * rate, axis=-1)


@SPORTS
@pytest.mark.parametrize("axes", [1, 3])
def test_games_have_the_shapes_of_the_settled_interface(sport: Court, axes: int):
    games = simulate(3, minutes=(0.1, 0.3), sport=sport, axes=axes, seed=5)
    assert [g.name for g in games] == ["game 0", "game 1", "game 2"]
    assert len({len(g) for g in games}) == 3
    for g in games:
        assert 0.1 * 60 * 25 <= len(g) <= 0.3 * 60 * 25
        both = 2 * Play.of(sport).side
        assert both == {"basketball": 10, "soccer": 22}[sport.name]
        assert g.players.shape == (len(g), both, 2)
        assert g.detections.shape == (len(g), both + 4, 2)
        assert g.actions.shape == (len(g), axes)
        assert g.ball.shape == (len(g), 2)
        assert set(np.unique(g.possession)) <= {-1, 0, 1}
        assert np.isfinite(g.players).all()
        assert np.isfinite(g.ball).all()
        assert np.isfinite(g.actions).all()
        tilt, zoom = g.still
        assert tilt == pytest.approx(float(g.camera.aim([0.0, 0.0])[1]))
        near, right = g.camera.footprint(0.0, tilt, zoom)[:2]
        assert right[0] - near[0] < sport.length / 2
        edges = g.camera.unproject([[-1.0, 0.0], [1.0, 0.0]], 0.0, tilt, zoom)
        assert sport.length / 3 <= edges[1, 0] - edges[0, 0] <= sport.length / 2


@settings(max_examples=8)
@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(0, 2))
def test_a_game_does_not_depend_on_the_games_beside_it(seed: int, n_games: int, more: int):
    few = simulate(n_games, minutes=0.05, seed=seed)
    assert bits(few) == bits(simulate(n_games + more, minutes=0.05, seed=seed)[:n_games])
    assert bits(few) != bits(simulate(n_games, minutes=0.05, seed=seed + 1))


def test_play_detector_and_operator_have_streams_of_their_own():
    (plain,) = simulate(1, minutes=0.2)
    (blurred,) = simulate(1, minutes=0.2, detector=Detector(noise=1.0, missed=0.5))
    (sleepy,) = simulate(1, minutes=0.2, operator=Operator(reaction=0.5))
    for other in (blurred, sleepy):
        np.testing.assert_array_equal(other.players, plain.players)
        np.testing.assert_array_equal(other.ball, plain.ball)
    np.testing.assert_array_equal(blurred.actions, plain.actions)
    np.testing.assert_array_equal(sleepy.detections, plain.detections)
    assert not np.array_equal(sleepy.actions, plain.actions)


def test_without_numba_the_same_game_is_played():
    code = (
        "import sys; sys.path.insert(0, 'tests'); from test_camera_simulate import bits; "
        "from simile.camera.simulation import simulate; print(bits(simulate(1, minutes=0.05, seed=3, axes=3)))"
    )
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == bits(simulate(1, minutes=0.05, seed=3, axes=3))


@SPORTS
def test_players_are_second_order_and_stay_near_the_court(sport: Court):
    play = Play.of(sport)
    for game in simulate(3, minutes=2.0, sport=sport, seed=1):
        speed, acceleration = moments(game.players, game.rate)
        assert speed.max() <= play.sprint + 1e-9
        assert acceleration.max() <= play.acceleration + 1e-6
        assert 1.0 < speed.mean() < 4.0
        assert sport.inside(game.players, margin=3.0).all()
        apart = np.linalg.norm(game.players[:, :, np.newaxis] - game.players[:, np.newaxis], axis=-1)
        assert np.quantile(apart[:, ~np.eye(game.players.shape[1], dtype=bool)].min(axis=1), 0.5) > 0.5


@SPORTS
def test_the_ball_flies_no_faster_than_it_is_thrown_or_shot(sport: Court):
    play = Play.of(sport)
    for game in simulate(3, minutes=2.0, sport=sport, seed=2):
        speed, _ = moments(game.ball, game.rate)
        assert speed.max() <= max(play.pass_speed, play.shot_speed) + 1e-9
        assert sport.inside(game.ball, margin=3.0).all()


@SPORTS
def test_the_ball_changes_sides_and_hands_and_at_times_rests(sport: Court):
    (game,) = simulate(1, minutes=10.0, sport=sport, seed=4)
    held = game.possession[game.possession >= 0]
    assert 1.0 < np.count_nonzero(np.diff(held)) / 10.0 < 10.0
    assert 0.1 < (game.possession < 0).mean() < 0.55
    assert 0.25 < (held == 0).mean() < 0.75
    assert (game.ball[:, 0] > 0.6 * sport.goal).mean() > 0.1
    assert (game.ball[:, 0] < -0.6 * sport.goal).mean() > 0.1
    nearest = np.linalg.norm(game.players - game.ball[:, np.newaxis], axis=-1).min(axis=1)
    assert (nearest < 0.5).mean() > 0.4  # someone has it, most of the time it is not flying or out of play


def test_defenders_stand_between_their_men_and_the_goal():
    (game,) = simulate(1, minutes=5.0, seed=0)
    for team in (0, 1):
        attack, defence = game.players[:, 5 * team : 5 * team + 5], game.players[:, 5 - 5 * team : 10 - 5 * team]
        # Which goal a team attacks shows in where its set plays are: where the ball rests near a goal.
        frames = np.flatnonzero((game.possession == team) & (np.abs(game.ball[:, 0]) > 5.0))
        goal = np.sign(np.median(game.ball[frames, 0])) * BASKETBALL.goal
        frames = frames[np.sign(game.ball[frames, 0]) == np.sign(goal)]
        spot = np.array([goal, 0.0])
        far = [np.linalg.norm(side[frames] - spot, axis=-1).mean() for side in (attack, defence)]
        assert far[1] < far[0]


@settings(max_examples=15)
@given(st.integers(0, 1000))
def test_detections_are_shuffled_and_padded_with_nan_at_the_end(seed: int):
    (game,) = simulate(1, minutes=0.1, seed=seed)
    missing = np.isnan(game.detections)
    assert (missing[..., 0] == missing[..., 1]).all()
    assert (np.diff(missing[..., 0].astype(int), axis=1) >= 0).all()
    # No slot follows one player: from frame to frame the first detection jumps about.
    jumps = np.linalg.norm(np.diff(game.detections[:, 0], axis=0), axis=-1)
    assert np.nanmedian(jumps) > 1.0


def test_a_perfect_detector_sees_the_players_and_nobody_else():
    perfect = Detector(noise=0.0, missed=0.0, hidden=0.0, referee=0.0, bystander=0.0, clutter=0.0)
    (game,) = simulate(1, minutes=0.1, detector=perfect)
    assert np.isnan(game.detections[:, 10:]).all()
    np.testing.assert_allclose(np.sort(game.detections[:, :10, 0]), np.sort(game.players[..., 0]))


def test_noise_grows_with_the_distance_from_the_camera():
    detector = Detector(missed=0.0, hidden=0.0, referee=0.0, bystander=0.0, clutter=0.0, noise=0.3)
    (game,) = simulate(1, minutes=5.0, detector=detector)
    gaps = np.linalg.norm(game.players[:, :, np.newaxis] - game.detections[:, np.newaxis, :10], axis=-1).min(axis=2)
    near, far = game.players[..., 1] < -3.0, game.players[..., 1] > 3.0
    assert gaps[far].mean() > 1.3 * gaps[near].mean()


def test_players_are_missed_in_bursts():
    detector = Detector(noise=0.0, missed=0.2, burst=0.6, hidden=0.0, referee=0.0, bystander=0.0, clutter=0.0)
    (game,) = simulate(1, minutes=5.0, detector=detector)
    seen = (game.players[:, :, np.newaxis] == game.detections[:, np.newaxis]).all(axis=-1).any(axis=2)
    assert (~seen).mean() == pytest.approx(0.2, abs=0.03)
    starts = (seen[:-1] & ~seen[1:]).sum()
    assert (~seen).sum() / starts / game.rate == pytest.approx(0.6, rel=0.15)


def test_the_operator_is_as_smooth_as_a_hand_on_a_fluid_head():
    operator = Operator()
    for game in simulate(3, minutes=3.0, axes=3, seed=6):
        pan = game.actions[:, 0]
        speed, acceleration = np.diff(pan) * game.rate, np.diff(pan, n=2) * game.rate**2
        assert np.abs(speed).max() <= operator.fastest
        assert np.abs(acceleration).max() <= 1.1 * operator.strongest  # the tremor comes on top
        assert 3.0 < np.abs(speed).mean() < 9.0
        assert np.abs(acceleration).mean() < 15.0
        assert 0.05 < (np.abs(speed) < 0.5).mean() < 0.6
        zoom = game.actions[:, 2]
        usual = (zoom.min() + zoom.max()) / 2.0
        assert zoom.min() >= 1.0
        assert usual < game.still[1]  # those of a half, rather than of 42 % of the length
        assert operator.tighten < np.ptp(zoom) / usual < 1.3 * operator.tighten
        # Two framings, each kept for seconds.
        assert (np.abs(np.diff(zoom)) * game.rate < 0.005 * usual).mean() > 0.5
        assert 2 <= np.count_nonzero(np.diff(zoom > usual)) <= 3 * 12


def test_the_operator_frames_play_before_a_goal_more_closely_than_on_its_way():
    (game,) = simulate(1, minutes=10.0, axes=3, seed=7)
    way = np.abs(game.players[..., 0].mean(axis=1)) / BASKETBALL.goal
    zoom = game.actions[:, 2]
    assert zoom[way > 0.7].mean() > 1.08 * zoom[way < 0.3].mean()


# What is measured of one minute of one broadcast operator of a soccer game; the ranges are those of ten simulated
# minutes about it, on seeds that were not used to choose the parameters.
MEASURED = {
    "still": (0.62, 0.1),
    "speed": (2.0, 0.5),
    "fastest": (38.0, 3.0),
    "reversals": (24.0, 8.0),
    "tilt": (0.7, 0.25),
    "zoom": (0.006, 0.004),
}


def pan_reversals(game):
    pan = game.actions[:, :1]
    return simile.metrics.rate_reversals([pan], max(know_log([pan])[0].threshold, 0.05), game.rate)[0]


def test_the_operator_of_soccer_does_what_one_did_who_was_measured():
    games = simulate(5, minutes=2.0, sport=SOCCER, axes=3, seed=2026)
    speeds = [np.abs(np.diff(game.actions[:, 0])) * game.rate for game in games]
    minutes = [half for game in games for half in np.split(game.actions, 2)]
    found = {
        "still": np.mean([(speed < 0.5).mean() for speed in speeds]),
        "speed": np.mean([speed.mean() for speed in speeds]),
        "fastest": np.max(speeds),
        "reversals": np.mean([pan_reversals(game) for game in games]),
        "tilt": np.mean([minute[:, 1].std() for minute in minutes]),
        "zoom": np.mean([minute[:, 2].std() / minute[:, 2].mean() for minute in minutes]),
    }
    for name, (measured, margin) in MEASURED.items():
        assert found[name] == pytest.approx(measured, abs=margin), name


def test_eleven_a_side_keep_a_goal_and_a_shape_that_moves_with_the_ball():
    (game,) = simulate(1, minutes=5.0, sport=SOCCER, seed=3)
    for team in (0, 1):
        own = game.players[:, 11 * team : 11 * team + 11]
        side = np.sign(np.median(own[:, 0, 0]))  # of the goalkeeper
        assert (side * own[:, 0, 0] > 0.7 * SOCCER.goal).mean() > 0.9
        assert (np.abs(own[:, 0, 1]) < 10.0).mean() > 0.9
        field = own[:, 1:]
        assert np.corrcoef(field[..., 0].mean(axis=1), game.ball[:, 0])[0, 1] > 0.8
        assert np.corrcoef(field[..., 1].mean(axis=1), game.ball[:, 1])[0, 1] > 0.4
        # Defenders behind midfielders behind forwards, as in their formation.
        lines = [np.median(side * field[:, part, 0]) for part in (slice(1, 3), slice(4, 7), slice(8, 10))]
        assert lines[0] > lines[1] > lines[2]
        assert 15.0 < np.median(np.ptp(field[..., 0], axis=1)) < 50.0
    assert game.ball[:, 0].min() < -SOCCER.goal / 2 < SOCCER.goal / 2 < game.ball[:, 0].max()


@pytest.mark.parametrize("sport", ["futsal", "nba"])
def test_courts_that_are_like_others_are_played_on(sport: str):
    (game,) = simulate(1, minutes=1.0, sport=COURTS[sport], seed=1)
    assert game.players.shape[1] == 10
    assert game.court.inside(game.players, margin=3.0).all()
    assert framing(game).players > 0.6


def test_five_a_side_on_the_full_pitch_is_still_played():
    (game,) = simulate(1, minutes=0.1, sport=SOCCER, play=FIVE_A_SIDE)
    assert game.players.shape == (150, 10, 2)


# The default games of one axis are those that published tables hang on: no bit of them may change.
DEFAULT = ["1.211645 5.366933", "-5.496743 7.838210"]


def test_the_default_games_of_one_axis_are_what_they_were():
    games = simulate(2, minutes=0.1, seed=0)
    rounded = [np.round(np.concatenate([g.players.reshape(len(g), -1), g.actions], 1), 6) for g in games]
    assert [f"{float(r.mean()):.6f} {float(r.std()):.6f}" for r in rounded] == DEFAULT


def test_an_operator_who_reacts_later_is_later():
    by_reaction = [
        np.concatenate([g.actions for g in simulate(1, minutes=5.0, operator=replace(Operator(), reaction=r))])
        for r in (0.1, 0.6)
    ]
    late = simile.metrics.lag(by_reaction[1], by_reaction[0])[0] / 25.0
    assert late == pytest.approx(0.5, abs=0.1)


def test_the_rate_changes_how_often_one_looks_and_not_the_sport():
    for rate in (5.0, 12.5, 60.0):
        (game,) = simulate(1, minutes=4.0, rate=rate, seed=8)
        assert len(game) == round(4.0 * 60.0 * rate)
        speed, _ = moments(game.players, rate)
        assert 1.2 < speed.mean() < 2.8
        assert 15.0 < game.actions.std() < 35.0


def test_a_sport_of_ones_own_is_played_by_rules_of_ones_own():
    handball = Court("handball", 40.0, 20.0, goal=20.0)
    with pytest.raises(simile.ArgumentError, match=r"play must be given for 'handball'.*basketball, soccer"):
        simulate(1, sport=handball)
    (game,) = simulate(1, minutes=0.1, sport=handball, play=replace(Play(), shot_clock=60.0))
    assert game.court is handball


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: simulate(0), "n_games must be >= 1; got 0"),
        (lambda: simulate(1, minutes=(2.0, 1.0)), "minutes must be >= 2; got 1.0"),
        (lambda: simulate(1, minutes=(1.0, 2.0, 3.0)), r"minutes must be a number, or \(shortest, longest\)"),
        (lambda: simulate(1, axes=2), r"axes must be 1 \(pan\) or 3"),
        (lambda: simulate(1, rate=0.0), "rate must be > 0"),
        (lambda: Play(sprint=-1.0), "sprint must be > 0; got -1.0"),
        (lambda: Play(made=1.5), "made must be >= 0 and <= 1; got 1.5"),
        (lambda: Play(sets=(((1.0, 2.0),),)), "sets must be formations of as many players each, two at least"),
        (lambda: Play(sets=(((1.0, 2.0), (3.0, 4.0)), ((1.0, 2.0),))), "sets must be formations of as many players"),
        (lambda: Play(block=(0.3, 1.2)), r"block \(with the ball, without it\) must be >= 0 and <= 1; got 1.2"),
        (lambda: Play(block=(0.3,)), r"block \(with the ball, without it\) must be"),
        (lambda: Play(pause=(5.0, 1.0)), "pause must be >= 5; got 1.0"),
        (lambda: Detector(missed=2.0), "missed must be >= 0 and <= 1"),
        (lambda: Operator(stiffness=0.0), "stiffness must be > 0"),
    ],
)
def test_what_cannot_be_simulated_is_refused_by_name(call, message: str):
    with pytest.raises(simile.ArgumentError, match=message):
        call()


def test_importing_the_simulator_does_not_load_numba():
    code = "import sys, simile.camera.simulation, simile.camera.film.framing; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# How hard it is to learn the operator: in the way of real data, or methods that work here would not work there.


def features(game):
    """Simple features of detections (T, n, 2): moments, range, number, and a soft histogram along the court."""
    x, y = game.detections[..., 0], game.detections[..., 1]
    places = np.linspace(-0.5, 0.5, 8) * game.court.length
    near = np.clip(1.0 - np.abs(x[..., np.newaxis] - places) / (places[1] - places[0]), 0.0, 1.0)
    moments = [f(v, axis=1) for f in (np.nanmean, np.nanstd) for v in (x, y)]
    return np.column_stack([*moments, np.nanmin(x, 1), np.nanmax(x, 1), np.isfinite(x).sum(1), np.nansum(near, 1)])


@pytest.fixture(
    scope="module", params=[BASKETBALL, pytest.param(SOCCER, marks=pytest.mark.long)], ids=lambda court: court.name
)
def recorded(request):
    """Games of a sport as demonstrations, training and test part."""
    games = simulate(12, sport=request.param, seed=1)
    demos = simile.Demonstrations.from_arrays([features(g) for g in games], [g.actions for g in games], rate=25.0)
    return demos[3:], demos[:3]


@pytest.fixture(scope="module")
def from_contexts(recorded):
    train, test = recorded
    horizon = simile.Horizon((0, 2, 4, 8, 16), 0)
    run = simile.clone(train, smoothness=0.0, horizon=horizon, regularizer=simile.PreviousAction())
    return simile.evaluate(run.policy, test)


def one_step_error(policy, demos):
    """The RMSE of a policy that always sees the expert's own past."""
    standard = [policy.units.standardize(a) for a in demos.actions]
    acted = policy.act(policy.horizon.states(demos, standard), np.zeros(demos.n_frames))
    return float(np.sqrt(np.mean((policy.units.restore(acted) - np.concatenate(demos.actions)) ** 2)))


def test_a_forest_on_contexts_is_jittery(from_contexts):
    assert from_contexts.verdict.roughness.value > 5.0


def test_a_clone_that_sees_past_actions_copies_them_and_fails_when_rolled_out(recorded, from_contexts):
    train, test = recorded
    policy = simile.clone(train, smoothness=0.0).policy
    (rolled,) = simile.evaluate(policy, test).verdict.rmse.values()
    (sees,) = from_contexts.verdict.rmse.values()
    assert rolled > 1.5 * sees
    assert one_step_error(policy, test) < 0.2 * rolled


def test_smooth_learning_is_accurate_and_as_smooth_as_the_operator(recorded):
    train, test = recorded
    run = simile.paper(
        train,
        validation=0.2,
        smoothness=100.0,
        horizon=simile.Horizon((0, 1, 2, 4, 8, 12, 16, 24, 32), 0),
        regularizer=simile.CriticallyDamped(order=3),
        n_rounds=4,
    )
    found = simile.evaluate(run.policy, test).verdict
    assert found.rmse["a0"] < 0.5 * np.concatenate(test.actions).std()
    assert found.over_hold.value < 0.5
    assert found.roughness.value < 3.0


def slow_features(game):
    """Features of a game (T, m), averaged over a second or two, for what moves slowly."""
    return np.column_stack([np.ones(len(game)), lag_signal(features(game), 1.5, game.rate)])


@SPORTS
def test_tilt_and_zoom_can_be_told_from_what_is_detected(sport: Court):
    games = simulate(6, minutes=1.0, sport=sport, axes=3, seed=11)
    x, y = (np.concatenate([f(g) for g in games[:4]]) for f in (slow_features, lambda g: g.actions))
    told = np.linalg.lstsq(np.column_stack([x, np.abs(x[:, 1])]), y, rcond=None)[0]
    seen, acted = (np.concatenate([f(g) for g in games[4:]]) for f in (slow_features, lambda g: g.actions))
    errors = np.sqrt(np.mean((np.column_stack([seen, np.abs(seen[:, 1])]) @ told - acted) ** 2, axis=0))
    assert (errors < acted.std(axis=0)).all()  # the best constant


@pytest.mark.long
def test_pan_tilt_and_zoom_learned_together_each_beat_a_constant():
    demos = demonstrations(simulate(8, minutes=0.8, axes=3, seed=1))
    train, test = demos[:6], demos[6:]
    rolled = np.concatenate(simile.rollout(simile.learn(train).policy, test))
    acted, mean = np.concatenate(test.actions), np.concatenate(train.actions).mean(axis=0)
    ratio = np.sqrt(np.mean((rolled - acted) ** 2, axis=0) / np.mean((acted - mean) ** 2, axis=0))
    assert (ratio < 0.9).all()


ELSEWHERE = {
    "behind the far side line": Camera((0.0, 16.5, 8.25), (180.0, 0.0, 0.0)),
    "in a corner": Camera((-20.0, -12.0, 6.0), (60.0, 0.0, 0.0)),
    "behind a goal, hanging upside down": Camera((22.0, 1.0, 7.0), (-90.0, -5.0, 180.0)),
}


@pytest.mark.parametrize("where", ELSEWHERE)
def test_operator_and_detector_work_for_a_camera_elsewhere(where: str):
    camera = ELSEWHERE[where]
    (game,) = simulate(1, minutes=0.3, seed=4, axes=3, camera=camera)
    (usual,) = simulate(1, minutes=0.3, seed=4, axes=3)
    assert game.camera == camera
    assert np.array_equal(game.players, usual.players)  # the game knows nothing of who films it
    assert framing(game).players > 0.7
    assert np.abs(np.diff(game.actions[:, 0])).max() < 60.0 / 25.0  # no jump at the seam of a turn
    (panned,) = simulate(1, minutes=0.3, seed=4, camera=camera)
    aimed, _ = camera.aim(game.ball)
    assert np.corrcoef(panned.actions[:, 0], aimed)[0, 1] > 0.7
    assert panned.still == pytest.approx(camera.still_view(BASKETBALL))


def test_seen_from_the_other_side_the_operator_pans_the_other_way():
    near = Camera.beside(BASKETBALL)
    far = Camera((0.0, -near.position[1], near.position[2]), (180.0, 0.0, 0.0))
    (one,), (other,) = (simulate(1, minutes=0.3, seed=2, camera=camera) for camera in (near, far))
    assert np.corrcoef(one.actions[:, 0], other.actions[:, 0])[0, 1] < -0.9


@pytest.mark.parametrize(
    ("camera", "word"),
    [
        (Camera((0.0, 0.0, 9.0)), "outside the basketball court"),
        (Camera((0.0, -20.0, 0.0)), "above the ground"),
        (Camera((0.0, 20.0, 8.0)), "heading of 180"),
        (Camera((-30.0, 0.0, 8.0), (-80.0, 0.0, 0.0)), "heading of 90"),
    ],
)
def test_a_camera_that_cannot_follow_the_play_is_refused(camera: Camera, word: str):
    with pytest.raises(simile.ArgumentError, match=word):
        simulate(1, minutes=0.1, camera=camera)
