"""Framing: what is in the picture, room ahead of the play, and how the camera moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simile
from simile.camera.courts import BASKETBALL
from simile.camera.film.framing import compare_framing, framing
from simile.camera.games import Game
from simile.camera.geometry import Camera
from simile.camera.simulation import simulate

RATE = 25.0
CAMERA = Camera.beside(BASKETBALL)


@pytest.fixture(scope="module")
def game() -> Game:
    return simulate(1, minutes=1.0, axes=3, seed=3)[0]


def rally(ball, players=None, rate: float = RATE) -> Game:
    """A game of nothing but a ball (T, 2), and players (T, p, 2)."""
    ball = np.asarray(ball, dtype=np.float64)
    players = np.full((len(ball), 1, 2), np.nan) if players is None else players
    return Game("rally", rate, BASKETBALL, CAMERA, detections=players, players=players, ball=ball)


def run_across(seconds: float = 4.0, speed: float = 4.0):
    """A ball that runs along the middle of the court, (T, 2)."""
    t = np.arange(round(seconds * RATE)) / RATE
    return np.column_stack([speed * (t - seconds / 2.0), np.zeros(len(t))])


def looking_at(points, zoom: float = 2.0, *, beside: float = 0.0):
    """The actions (T, 3) that have points (T, 2), or what is so many metres beside them, in the middle."""
    pan, tilt = CAMERA.aim(points + np.array([beside, 0.0]))
    return np.column_stack([pan, tilt, np.full(len(pan), zoom)])


def mirrored(game: Game) -> Game:
    flip = np.array([-1.0, 1.0])
    return replace(
        game,
        detections=game.detections * flip,
        players=None if game.players is None else game.players * flip,
        ball=None if game.ball is None else game.ball * flip,
    )


@settings(max_examples=15)
@given(st.integers(0, 1000), st.floats(1.0, 4.0))
def test_a_camera_that_follows_the_ball_has_it_in_the_picture_and_no_lead_room(seed: int, zoom: float):
    (played,) = simulate(1, minutes=0.1, seed=seed)
    found = framing(played, looking_at(played.ball, zoom))
    assert found.ball == 1.0
    assert np.isnan(found.lead_room) or found.lead_room == pytest.approx(0.0, abs=1e-9)


def unknown(game: Game, rng, share: float) -> Game:
    """The game with a share of its positions missing."""
    players, ball = game.players.copy(), game.ball.copy()
    players[rng.random(players.shape[:2]) < share] = np.nan
    ball[rng.random(len(ball)) < share] = np.nan
    return replace(game, players=players, ball=ball)


@settings(max_examples=20)
@given(st.integers(0, 1000), st.sampled_from([0.0, 0.3, 1.0]))
def test_a_mirrored_game_is_framed_as_well(seed: int, share: float):
    (played,) = simulate(1, minutes=0.1, seed=seed, axes=3)
    played = unknown(played, np.random.default_rng(seed), share)
    there, back = framing(played), framing(mirrored(played), played.actions * [-1.0, 1.0, 1.0])
    np.testing.assert_allclose(list(there.to_dict().values()), list(back.to_dict().values()), rtol=1e-9, atol=1e-9)


@settings(max_examples=20)
@given(st.floats(1.0, 3.0), st.floats(1.0, 3.0), st.floats(-5.0, 5.0))
def test_more_zoom_never_puts_more_into_the_picture(game: Game, zoom: float, more: float, aside: float):
    wide = game.actions.copy()
    wide[:, 0] += aside
    wide[:, 2] = zoom
    tight = wide * [1.0, 1.0, more]
    assert framing(game, tight).players <= framing(game, wide).players
    assert framing(game, tight).ball <= framing(game, wide).ball


@pytest.mark.parametrize("way", [1.0, -1.0])
def test_lead_room_is_positive_where_the_camera_is_ahead_of_the_play(way: float):
    ball = way * run_across()
    ahead, behind = (framing(rally(ball), looking_at(ball, beside=way * shift)) for shift in (2.0, -2.0))
    assert ahead.lead_room > 0.1
    assert behind.lead_room == pytest.approx(-ahead.lead_room, rel=0.05)


def test_lead_room_is_counted_in_half_widths_and_cut_off_at_the_edges():
    ball = run_across()
    pan, tilt = CAMERA.aim(ball)
    # A level distance of tan(half the angle of view) puts the ball on the trailing edge.
    half = np.degrees(np.arctan(CAMERA.half_width(2.0) / np.cos(np.radians(tilt))))
    edge = np.column_stack([pan + 0.5 * half, tilt, np.full(len(pan), 2.0)])
    assert framing(rally(ball), edge).lead_room == pytest.approx(0.5, abs=0.03)
    assert framing(rally(ball), edge + np.array([60.0, 0.0, 0.0])).lead_room == 1.0


def test_play_that_rests_has_no_lead_room():
    assert np.isnan(framing(rally(np.zeros((50, 2))), np.full((50, 1), 3.0)).lead_room)


def test_without_a_ball_the_players_are_the_centre_of_play():
    ball = run_across()
    players = ball[:, np.newaxis] + np.array([[-1.0, 0.0], [1.0, 0.0]])
    unseen = rally(np.full_like(ball, np.nan), players)
    assert np.isnan(framing(unseen, looking_at(ball)).ball)
    assert framing(unseen, looking_at(ball, beside=2.0)).lead_room > 0.1


def test_speed_and_acceleration_are_per_second():
    t = np.arange(101) / RATE
    found = framing(rally(np.zeros((101, 2))), 1.5 * t**2)
    assert found.acceleration == pytest.approx(3.0)
    assert found.speed == pytest.approx(1.5 * t[-1])
    held = framing(rally(np.zeros((101, 2))), np.full(101, 3.0))
    assert (held.speed, held.acceleration) == (0.0, 0.0)


def test_frames_without_an_action_do_not_count(game: Game):
    gaps = game.actions.copy()
    gaps[::7] = np.nan
    whole, found = framing(game), framing(game, gaps)
    assert found.players == pytest.approx(whole.players, abs=0.01)
    assert found.speed == pytest.approx(whole.speed, rel=0.05)
    lost = framing(game, np.full_like(game.actions, np.nan))
    assert np.isnan(list(lost.to_dict().values())).all()


def test_one_frame_has_a_picture_and_no_motion():
    found = framing(rally([[0.0, 0.0]]), [[0.0]])
    assert np.isnan([found.speed, found.acceleration]).all()


def test_a_game_without_truth_is_framed_by_its_detections(game: Game):
    raw = replace(game, players=None, ball=None)
    found = framing(raw)
    assert 0.5 < found.players < 1.0
    assert np.isnan(found.ball)
    assert np.isfinite(found.lead_room)


def test_the_operator_frames_better_than_a_camera_that_never_moves():
    games = simulate(4, seed=2)
    still = [np.zeros_like(g.actions) for g in games]
    found = compare_framing(games, {"operator": [g.actions for g in games], "still": still})
    assert found["operator"].players > 1.5 * found["still"].players
    assert found["operator"].ball > 1.5 * found["still"].ball
    assert found["operator"].lead_room > 0.0


def test_several_games_are_pooled_by_their_frames():
    games = simulate(2, minutes=(0.1, 0.4), seed=1)
    pooled = compare_framing(games, {"operator": [g.actions for g in games]})["operator"]
    each = [framing(g) for g in games]
    assert pooled.players == pytest.approx(np.average([f.players for f in each], weights=[len(g) for g in games]))


def test_a_comparison_prints_as_a_table_with_a_column_for_each_camera(game: Game):
    found = compare_framing(game, {"operator": game.actions, "policy": game.actions[:, :1]})
    lines = str(found).splitlines()
    assert lines[0].split() == ["framing", "operator", "policy"]
    assert len(lines) == 10
    assert str(framing(game)).splitlines()[1].startswith("players in the picture (share)")
    assert set(found.to_dict()) == {"operator", "policy"}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: framing(g, np.zeros((3, 1))), r"for the \d+ frames of 'game 0'; got shape \(3, 1\)"),
        (lambda g: framing(g, np.zeros((len(g), 2))), "pan, or pan, tilt and zoom"),
        (lambda g: framing(replace(g, actions=None)), "actions must be given: 'game 0' has no operator"),
        (lambda g: compare_framing(g, {}), "at least one camera"),
        (lambda g: compare_framing([g, g], {"a": [g.actions]}), "one array for each of 2 games; got 1"),
    ],
)
def test_what_cannot_be_framed_is_refused_by_name(game: Game, call, message: str):
    with pytest.raises(simile.ArgumentError, match=message):
        call(game)


def test_noise_of_the_operators_log_is_no_motion():
    (game,) = simulate(1, minutes=1.0, seed=0)
    noise = 0.2 * np.random.default_rng(0).normal(size=game.actions.shape)
    heard = replace(game, actions=game.actions + noise)
    true, found = framing(game), framing(heard)
    assert found.speed == pytest.approx(true.speed, rel=0.2)
    assert found.acceleration == pytest.approx(true.acceleration, rel=0.4)


def test_players_are_as_large_as_the_geometry_says_and_heads_have_room():
    spot = np.zeros((10, 1, 2))
    looked = looking_at(spot[:, 0], zoom=3.0)
    found = framing(rally(np.full((10, 2), np.nan), spot), looked)
    # Seen from above under an angle, 18.4 metres away: a little less than upright.
    foot, head = (CAMERA.project([[0.0, 0.0, z]], *looked[0])[0] for z in (0.0, 1.8))
    high = 2.0 / CAMERA.lens.aspect
    assert found.size == pytest.approx((head[1] - foot[1]) / high)
    assert found.size == pytest.approx(
        1.8 * np.cos(np.radians(26.6)) / 18.4 / (2 * np.tan(np.radians(30)) / 3 / 16 * 9), rel=0.1
    )
    assert found.head_room == pytest.approx(0.5 - head[1] / high)
    twice = framing(rally(np.full((10, 2), np.nan), spot), looked * [1.0, 1.0, 2.0])
    assert twice.size == pytest.approx(2.0 * found.size)
    higher = framing(rally(np.full((10, 2), np.nan), spot), looked + np.array([0.0, 3.0, 0.0]))
    assert higher.players == 1.0
    assert higher.head_room > found.head_room + 0.1


def test_a_cut_off_head_has_room_below_nothing():
    spot = np.zeros((10, 1, 2))
    found = framing(rally(np.full((10, 2), np.nan), spot), looking_at(spot[:, 0], zoom=20.0))
    assert found.players == 1.0
    assert found.head_room < 0.0
    away = framing(rally(np.full((10, 2), np.nan), spot), looking_at(spot[:, 0] + [0.0, 6.0], zoom=20.0))
    assert np.isnan([away.size, away.head_room]).all()


def test_tilt_and_zoom_are_measured_where_they_are_axes():
    t = np.arange(1500) / RATE
    ball = np.zeros((len(t), 2))
    moves = np.column_stack(
        [0.0 * t, -20.0 + 2.0 * np.sin(2.0 * np.pi * t / 10.0), 2.0 * np.exp(0.1 * np.sin(2.0 * np.pi * t / 6.0))]
    )
    found = framing(rally(ball), moves)
    assert found.tilt_speed == pytest.approx(4.0 * 2.0 / 10.0, rel=1e-2)  # the way there and back, four amplitudes
    assert found.zoom_speed == pytest.approx(4.0 * 0.1 / 6.0, rel=1e-2)
    assert found.speed == 0.0
    panned = framing(rally(ball), moves[:, :1])
    assert np.isnan([panned.tilt_speed, panned.zoom_speed]).all()
    assert "tilt speed" in str(found)
    assert "tilt" not in str(panned)
    assert "zoom" not in str(panned)
    both = compare_framing(rally(ball), {"pans": moves[:, :1], "all": moves})
    assert "zoom speed" in str(both)
    with pytest.raises(simile.ArgumentError, match="zoom must be above 0"):
        framing(rally(ball), moves * [1.0, 1.0, 0.0])


def test_the_game_is_framed_with_its_own_camera():
    far = Camera((2.0, 19.0, 7.0), (183.0, 0.0, 0.0))
    (played,) = simulate(1, minutes=0.5, seed=5, axes=3, camera=far)
    right = framing(played)
    wrong = framing(replace(played, camera=CAMERA))
    assert right.players > 0.85
    assert wrong.players < right.players - 0.3
    assert right.size > 0.05
    # A lead is a lead from either side.
    ball = run_across()
    for camera in (CAMERA, far):
        game = replace(rally(ball), camera=camera)
        pan, tilt = camera.aim(ball + np.array([2.0, 0.0]))
        assert framing(game, np.column_stack([pan, tilt, np.full(len(ball), 2.0)])).lead_room > 0.1


def test_a_camera_that_only_pans_looks_where_it_stands_or_as_its_operator_does():
    ball = np.zeros((20, 2))
    assert rally(ball).still == CAMERA.still_view(BASKETBALL)
    far = Camera((0.0, 40.0, 20.0), (180.0, 0.0, 0.0))
    assert replace(rally(ball), camera=far, still=(np.nan, np.nan)).still == far.still_view(BASKETBALL)
    moves = np.column_stack([np.zeros(20), np.linspace(-30.0, -10.0, 20), np.full(20, 3.5)])
    operated = Game("operated", RATE, BASKETBALL, CAMERA, np.zeros((20, 1, 2)), actions=moves)
    assert operated.still == (-20.0, 3.5)
